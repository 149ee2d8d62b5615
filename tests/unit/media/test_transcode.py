"""Transcoding of source files into renditions."""

from collections.abc import Callable
from pathlib import Path

import pytest

from local.testbed import video_files
from shared.media.errors import UnreadableVideo
from shared.media.ladder import most_bits
from shared.media.poster import poster
from shared.media.probe import probe
from shared.media.source import BytesSource, FileSource
from shared.media.transcode import transcode
from tests.unit.media.sources import FailingSource, SourceThrottled, colour, near, picture


@pytest.mark.parametrize(
    ("make_source", "size"),
    [
        (lambda: video_files.film(audio=True), (160, 90)),
        (lambda: video_files.film(rotation=90, audio=True), (90, 160)),
        (lambda: video_files.film(sar=(4, 3)), (214, 90)),
        (lambda: video_files.film(0.5, (853, 479), pixels="yuv444p"), (160, 90)),
        (lambda: video_files.film(container="webm", codec="libvpx-vp9"), (160, 90)),
        (lambda: video_files.film(container="mpegts", audio=True), (160, 90)),
    ],
    ids=["sound", "rotation", "pixels", "odd", "webm", "ts"],
)
def test_rendition_is_an_upright_mp4_with_its_index_first(
    make_source: Callable[[], bytes], size: tuple[int, int], tmp_path: Path
) -> None:
    source = BytesSource(make_source())
    target = tmp_path / "out.mp4"
    progress: list[int] = []
    transcode(source, target, width=size[0], height=size[1], progress=progress.append)

    before, after = probe(source), probe(FileSource(target))
    assert (after.width, after.height, after.rotation, after.format, after.video_codec) == (*size, 0, "mp4", "h264")
    assert after.audio_codec == ("aac" if before.audio_codec else None)
    assert after.duration == pytest.approx(before.duration, abs=150)
    assert after.frame_rate == pytest.approx(10, abs=0.2)
    data = target.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")
    assert progress == sorted(progress)
    assert (progress[0], progress[-1]) == (0, 100)
    assert len(progress) > before.duration / 100, "progress is reported for each of ten frames a second"
    expected_colour = video_files.CORNERS["bottom left" if before.rotation else "top left"]
    assert near(colour(picture(poster(FileSource(target), after)), 0.25, 0.25), expected_colour, tolerance=14)


def test_rendition_of_hdr_video_has_standard_dynamic_range(tmp_path: Path) -> None:
    target = tmp_path / "out.mp4"
    transcode(BytesSource(video_files.grey_hdr(572, 16)), target, width=160, height=90, progress=lambda _: None)
    facts = probe(FileSource(target))
    assert (facts.hdr, facts.pixel_format) == (None, "yuv420p")
    assert 210 <= colour(picture(poster(FileSource(target), facts)), 0.25, 0.5)[1] <= 240


@pytest.mark.slow
@pytest.mark.parametrize(("blur", "has_more_bits"), [(5, True), (41, False)])
def test_rendition_has_at_most_the_bits_of_its_size_and_of_the_source(
    blur: int, has_more_bits: bool, tmp_path: Path
) -> None:
    seconds, size = 5, (320, 180)
    data = video_files.film(seconds, size, paint=video_files.noise, audio=True, encoder=(("crf", str(blur)),))
    most = seconds * most_bits(*size) / 8
    assert (len(data) > most) == has_more_bits
    target = tmp_path / "out.mp4"
    transcode(BytesSource(data), target, width=size[0], height=size[1], progress=lambda _: None)
    # The encoder may exceed its rate by the bits of one second.
    assert target.stat().st_size <= min(most, len(data)) * (seconds + 1) / seconds * 1.05


def test_transcode_reads_a_local_file(tmp_path: Path) -> None:
    target = tmp_path / "out.mp4"
    transcode(video_files.clip("carphone_distorted"), target, width=98, height=72, progress=lambda _: None)
    assert probe(FileSource(target)).duration == pytest.approx(4004, abs=50)


def test_error_raised_by_progress_ends_the_transcode_without_output(tmp_path: Path) -> None:
    class LeaseLost(Exception):
        pass

    def raise_lease_lost(percent: int) -> None:
        raise LeaseLost

    with pytest.raises(LeaseLost):
        transcode(BytesSource(video_files.film()), tmp_path / "out.mp4", width=64, height=36, progress=raise_lease_lost)
    assert list(tmp_path.iterdir()) == []


def test_failing_source_ends_the_transcode_without_output(tmp_path: Path) -> None:
    with pytest.raises(SourceThrottled):
        transcode(
            FailingSource(video_files.make_repeated(5), 3),
            tmp_path / "out.mp4",
            width=64,
            height=36,
            progress=lambda _: None,
        )
    assert list(tmp_path.iterdir()) == []


def test_source_without_video_makes_no_output(tmp_path: Path) -> None:
    with pytest.raises(UnreadableVideo):
        transcode(BytesSource(video_files.sound()), tmp_path / "out.mp4", width=64, height=36, progress=lambda _: None)
    assert list(tmp_path.iterdir()) == []
