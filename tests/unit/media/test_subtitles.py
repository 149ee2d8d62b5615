"""Extraction of subtitle tracks from video files."""

import pytest

from local.testbed.video_files import SubtitleSpec, film, make_subtitled, noise
from shared.media import errors, subtitles
from shared.media.errors import UnreadableVideo
from shared.media.probe import probe
from shared.media.results import SubtitleTrack
from shared.media.source import BytesSource
from tests.unit.media.sources import CountingSource

TEXTS = ((500, 1500, "The tide is out."), (2000, 3000, "It comes back."))


def read(data: bytes, most_bytes: int = 10_000, most_events: int = 100) -> list[SubtitleTrack]:
    return [*subtitles.subtitles(BytesSource(data), most_bytes, most_events).tracks]


@pytest.mark.parametrize(
    ("container", "codec"),
    [("matroska", "subrip"), ("matroska", "ass"), ("webm", "webvtt"), ("mp4", "mov_text"), ("mov", "mov_text")],
)
def test_every_subtitle_format_gives_texts_and_times(container: str, codec: str) -> None:
    if container == "webm":
        container = "matroska"  # WebM is a subset of Matroska, and does not allow the video codec of the test files
    data = make_subtitled(SubtitleSpec("ger", TEXTS, codec), container=container)
    assert read(data) == [SubtitleTrack(1, "ger", codec, False, [*TEXTS])]
    assert probe(BytesSource(data)).subtitles == {codec: ["ger"]}


def test_video_without_subtitle_tracks_has_no_subtitles() -> None:
    facts = probe(BytesSource(film()))
    assert "subtitles" not in facts.document()
    assert read(film()) == []


def test_subtitle_tracks_have_the_order_of_the_file() -> None:
    data = make_subtitled(SubtitleSpec("eng", forced=True), SubtitleSpec("fra", codec="ass"), SubtitleSpec("eng"))
    assert [(track.number, track.language, track.is_forced) for track in read(data)] == [
        (1, "eng", True),
        (2, "fra", False),
        (3, "eng", False),
    ]
    assert probe(BytesSource(data)).document()["subtitles"] == {"subrip": ["eng", "eng"], "ass": ["fra"]}


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"One\NTwo\nThree\hFour", "One\nTwo\nThree Four"),
        (r"{\an8}Up, {a comment}there", r"{\an8}Up, there"),
        ("Hello, world, again", "Hello, world, again"),
    ],
)
def test_substation_alpha_text_has_no_fields_comments_or_line_break_codes(written: str, text: str) -> None:
    (track,) = read(make_subtitled(SubtitleSpec(texts=((0, 900, written),), codec="ass")))
    assert track.events == [(0, 900, text)]


def test_drawing_commands_of_substation_alpha_are_omitted() -> None:
    drawn = (0, 900, r"{\p1}m 0 0 l 100 0 100 100{\p0}")
    (track,) = read(make_subtitled(SubtitleSpec(texts=(drawn, *TEXTS), codec="ass")))
    assert track.events == [*TEXTS]


def test_subtitle_without_an_end_lasts_until_the_next_or_five_seconds() -> None:
    (track,) = read(make_subtitled(SubtitleSpec(texts=((500, 500, "Until the next."), (2000, 2000, "For a while.")))))
    assert [event[:2] for event in track.events] == [(500, 2000), (2000, 7000)]


@pytest.mark.parametrize(("most_bytes", "most_events"), [(20, 100), (10_000, 1)])
def test_track_with_too_much_text_is_rejected_and_other_tracks_are_read(most_bytes: int, most_events: int) -> None:
    data = make_subtitled(SubtitleSpec("eng"), SubtitleSpec("deu", ((0, 900, "Kurz."),)))
    long, short = read(data, most_bytes, most_events)
    assert (long.events, long.fault) == ([], errors.TOO_MUCH_TEXT)
    assert short.events == [(0, 900, "Kurz.")]


def test_track_that_is_not_utf_8_is_rejected() -> None:
    data = make_subtitled(SubtitleSpec(texts=((0, 900, "Käse"),)))
    (track,) = read(data.replace("Käse".encode(), b"K\xe4\xe4se"))
    assert track.fault == errors.NOT_UTF_8


def test_track_of_picture_subtitles_is_rejected_with_its_reason() -> None:
    (track,) = read(make_subtitled(SubtitleSpec(codec="dvdsub", texts=())))
    assert (track.codec, track.fault) == ("dvd_subtitle", errors.PICTURES)


@pytest.mark.slow
def test_mp4_subtitles_are_read_from_the_index_and_texts_alone() -> None:
    data = make_subtitled(
        SubtitleSpec(codec="mov_text", texts=tuple((n * 1000, n * 1000 + 900, "x" * 40) for n in range(20))),
        container="mp4",
        pictures=film(20, paint=noise),
    )
    source = CountingSource(data)
    (track,) = subtitles.subtitles(source, 10_000, 100).tracks
    assert len(track.events) == 20
    assert source.fraction_read < 0.4


def test_file_above_the_read_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_subtitled(SubtitleSpec())
    monkeypatch.setattr(subtitles, "MAX_READ", len(data) - 1)
    with pytest.raises(UnreadableVideo, match="more than 4 GB"):
        read(data)


def test_subtitle_after_a_late_start_keeps_its_time() -> None:
    data = make_subtitled(
        SubtitleSpec(codec="mov_text"), container="mp4", muxer=(("movflags", "frag_keyframe+empty_moov"),)
    )
    assert read(data)[0].events == [*TEXTS]
