"""Damaged video files, files that are no videos, and sources that fail."""

import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from local.testbed import video_files
from local.testbed.background import READER
from shared.media import errors, source_video
from shared.media.errors import UnreadableVideo
from shared.media.poster import poster
from shared.media.probe import probe
from shared.media.source import BytesSource, Source
from shared.media.source_video import MAX_DECODED, MAX_TRACKS, open_video
from shared.media.storyboard import storyboard
from tests.unit.media.sources import FailingSource, SourceThrottled, picture

REASONS = [value for name, value in vars(errors).items() if name.isupper()]


def truncate(data: bytes, fraction: float) -> bytes:
    """Return the first part of a file."""
    return data[: int(len(data) * fraction)]


@pytest.mark.parametrize(
    ("make_source", "reason"),
    [
        (lambda: b"", errors.EMPTY),
        (lambda: b"Once upon a time there was a file. " * 100, errors.NOT_A_VIDEO),
        (lambda: bytes(5000), errors.NOT_A_VIDEO),
        (lambda: b"x", errors.NOT_A_VIDEO),
        (lambda: video_files.picture("JPEG"), errors.PICTURE),
        (lambda: video_files.picture("PNG"), errors.PICTURE),
        (lambda: video_files.picture("GIF"), errors.PICTURE),
        (lambda: video_files.picture("WEBP"), errors.PICTURE),
        (lambda: video_files.picture("AVIF"), errors.PICTURE),
        (lambda: video_files.sound(), errors.NO_VIDEO),
        (video_files.wave, errors.NO_VIDEO),
        (lambda: video_files.make_encrypted(), errors.ENCRYPTED),
        (lambda: truncate(video_files.film(), 0.05), errors.NO_INDEX),
        (lambda: truncate(video_files.film(), 0.3), errors.NO_INDEX),
        (lambda: truncate(video_files.film(), 0.9), errors.NO_INDEX),
        (lambda: truncate(video_files.moov_first(audio=True), 0.1), errors.NO_INDEX),
        (lambda: truncate(video_files.make_repeated(4, moov_at_start=True), 0.3), errors.TRUNCATED),
        (lambda: video_files.moov_first(audio=True)[:-1], errors.TRUNCATED),
        (lambda: truncate(video_files.make_fragmented(seconds=6), 0.4), errors.TRUNCATED),
        (lambda: truncate(video_files.film(6, container="matroska"), 0.5), errors.TRUNCATED),
        (lambda: truncate(video_files.film(6, container="avi", codec="mpeg4"), 0.5), errors.TRUNCATED),
        (lambda: video_files.film().replace(b"avc1", b"zzzz"), errors.UNSUPPORTED),
        (lambda: video_files.undecodable(), errors.NO_FRAME),
        (lambda: video_files.make_with_sample_count(80_000_000), errors.TOO_MANY_FRAMES),
    ],
)
def test_unreadable_file_has_a_reason(make_source: Callable[[], bytes], reason: str) -> None:
    with pytest.raises(UnreadableVideo) as raised:
        probe(BytesSource(make_source()))
    assert raised.value.reason == reason


def test_reasons_are_sentences_without_internal_details() -> None:
    assert len(REASONS) > 8
    for reason in REASONS:
        assert re.fullmatch(r"[A-Z][^/\\\n]{10,200}\.", reason), reason


def test_playlist_file_opens_no_other_file(tmp_path: Path) -> None:
    other = tmp_path / "other.mp4"
    other.write_bytes(video_files.film())
    for text in (f"#EXTM3U\n#EXTINF:2,\n{other}\n", f"ffconcat version 1.0\nfile '{other}'\n"):
        with pytest.raises(UnreadableVideo) as raised:
            probe(BytesSource(text.encode()))
        assert raised.value.reason == errors.NOT_A_VIDEO


def test_damaged_middle_of_a_file_affects_only_its_part() -> None:
    data = bytearray(video_files.film(20, paint=video_files.counted))
    middle = len(data) // 3
    data[middle : middle + 1500] = bytes(1500)
    source = BytesSource(bytes(data))
    facts = probe(source)
    assert picture(poster(source, facts)).size == (320, 180)
    assert storyboard(source, facts).tiles == 20


@pytest.mark.parametrize("make_source", [video_files.film, video_files.moov_first, video_files.make_fragmented])
def test_error_raised_by_a_source_is_reraised_unchanged(make_source: Callable[..., bytes]) -> None:
    data = make_source(audio=True)
    facts = probe(BytesSource(data))
    calls: list[Callable[[Source], object]] = [
        probe,
        lambda source: poster(source, facts),
        lambda source: poster(source, facts, 1000),
        lambda source: storyboard(source, facts),
    ]
    for call in calls:
        with pytest.raises(SourceThrottled, match="slow down"):
            call(FailingSource(data, 0))


def test_source_error_at_any_request_is_reraised() -> None:
    data = video_files.make_repeated(20, time_factor=30)
    facts = probe(BytesSource(data))
    calls: list[Callable[[Source], object]] = [
        probe,
        lambda source: poster(source, facts),
        lambda source: poster(source, facts, 300_000),
        lambda source: storyboard(source, facts),
    ]
    for call in calls:
        undamaged = FailingSource(data, 1 << 30)
        call(undamaged)
        for at in range(len(undamaged.requests)):
            with pytest.raises(SourceThrottled, match="slow down"):
                call(FailingSource(data, at))


def test_file_with_two_million_tiny_frames_is_processed_in_bounded_work() -> None:
    source = BytesSource(video_files.make_dense(2_000_000, 200_000))
    facts = probe(source)
    assert (facts.duration, facts.is_small(1 << 30)) == (200_000_000, False)
    assert storyboard(source, facts).tiles == 100
    assert poster(source, facts).pictures


def test_more_frames_than_the_duration_allows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_video, "MAX_DECODED", MAX_DECODED // 20)
    source = BytesSource(video_files.make_dense(2 * source_video.MAX_DECODED, 2))
    facts = probe(source)
    with pytest.raises(UnreadableVideo) as raised:
        storyboard(source, facts)
    assert raised.value.reason == errors.TOO_MANY_FRAMES


def test_file_with_too_many_tracks_is_refused() -> None:
    data = video_files.film()
    start, track = data.index(b"moov") - 4, data.index(b"trak") - 4
    length = int.from_bytes(data[track : track + 4], "big")
    index = data[start + 8 : track] + (MAX_TRACKS + 1) * data[track : track + length] + data[track + length :]
    with pytest.raises(UnreadableVideo) as raised:
        probe(BytesSource(data[:start] + (8 + len(index)).to_bytes(4, "big") + b"moov" + index))
    assert raised.value.reason == errors.TOO_MANY_TRACKS


def test_file_whose_audio_starts_first_is_readable() -> None:
    source = BytesSource(video_files.film(container="flv", codec="flv", audio=True))
    assert probe(source).resolution == "320x180"
    assert poster(source, probe(source), 0).pictures


def test_error_raised_by_pyav_itself_is_reported_as_damage() -> None:
    with pytest.raises(UnreadableVideo) as raised, open_video(BytesSource(video_files.film())) as opened:
        # PyAV 18 sometimes raises IndexError if a file gets another stream while it is read.
        opened.container.streams[len(opened.container.streams)]
    assert (raised.value.reason, type(raised.value.__cause__)) == (errors.DAMAGED, IndexError)


def test_internal_error_is_not_reported_as_damage() -> None:
    nothing: list[int] = []
    with pytest.raises(IndexError), open_video(BytesSource(video_files.film())):
        nothing[0]


@pytest.mark.parametrize("kind", video_files.KINDS)
def test_random_damage_raises_only_unreadable_video(kind: str) -> None:
    undamaged, reasons = video_files.KINDS[kind](), []
    for seed in range(4):
        try:
            video_files.read(READER, BytesSource(video_files.damage(undamaged, random.Random(f"{kind} {seed}"))))
        except UnreadableVideo as error:
            reasons.append(error.reason)
    assert set(reasons) <= set(REASONS)


def test_media_code_needs_neither_numpy_nor_aws(tmp_path: Path) -> None:
    # This environment has numpy because of scikit-video. The package of the functions does not.
    script = """
import sys
for name in ("numpy", "boto3", "botocore"):
    sys.modules[name] = None
from shared.media.poster import poster
from shared.media.probe import probe
from shared.media.source import FileSource
from shared.media.storyboard import storyboard
from shared.media.transcode import transcode
source = FileSource(sys.argv[1])
facts = probe(source)
transcode(source, sys.argv[2], width=32, height=24, progress=lambda percent: None)
print(len(poster(source, facts).pictures), storyboard(source, facts).tiles)
"""
    files = [str(video_files.clip("carphone_distorted")), str(tmp_path / "out.mp4")]
    done = subprocess.run([sys.executable, "-c", script, *files], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == ("", "2 4\n")
