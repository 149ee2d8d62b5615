"""Probing of source files."""

import json
from collections.abc import Callable
from fractions import Fraction

import pytest

from local.testbed import video_files
from shared.core.attributes import decode_item, encode_item
from shared.media.probe import probe
from shared.media.results import MediaInfo
from shared.media.source import BytesSource, FileSource
from tests.unit.media.sources import CountingSource


def test_probe_returns_all_facts_of_a_video() -> None:
    data = video_files.film(audio=True)
    assert probe(BytesSource(data)).document() == {
        "duration": 2000,
        "fileSize": len(data),
        "format": "mp4",
        "resolution": "320x180",
        "width": 320,
        "height": 180,
        "codedWidth": 320,
        "codedHeight": 180,
        "rotation": 0,
        "sampleAspectRatio": "1:1",
        "videoCodec": "h264",
        "audioCodec": "aac",
        "frameRate": 10.0,
        "pixelFormat": "yuv420p",
    }


@pytest.mark.parametrize(
    ("name", "duration", "resolution", "rate", "audio"),
    [
        ("bigbuckbunny", 5312, "1280x720", 25.0, "aac"),
        ("bikes", 10_000, "640x272", 25.0, None),
        ("carphone_pristine", 4004, "193x144", 29.97, None),
    ],
)
def test_probe_returns_the_facts_of_real_clips(
    name: str, duration: int, resolution: str, rate: float, audio: str | None
) -> None:
    facts = probe(FileSource(video_files.clip(name)))
    assert (facts.duration, facts.resolution, facts.frame_rate, facts.audio_codec) == (
        duration,
        resolution,
        rate,
        audio,
    )
    assert facts.video_codec == "h264"
    assert facts.file_size == video_files.clip(name).stat().st_size


def test_implausible_frame_rate_is_omitted() -> None:
    assert probe(BytesSource(video_files.film(time_factor=100_000))).frame_rate is None


def test_facts_survive_json_and_dynamodb() -> None:
    for source in (FileSource(video_files.clip("carphone_pristine")), BytesSource(video_files.grey_hdr(572, 16))):
        facts = probe(source)
        document = facts.document()
        assert json.loads(json.dumps(document)) == document
        assert decode_item(encode_item(document)) == document
        assert MediaInfo.of(decode_item(encode_item(document))) == facts


@pytest.mark.parametrize(
    ("make_file", "form", "codec"),
    [
        (lambda: video_files.film(), "mp4", "h264"),
        (lambda: video_files.moov_first(audio=True), "mp4", "h264"),
        (lambda: video_files.make_fragmented(), "mp4", "h264"),
        (lambda: video_files.film(container="mov"), "mov", "h264"),
        (lambda: video_files.film(container="3gp", codec="mpeg4"), "3gp", "mpeg4"),
        (lambda: video_files.film(container="matroska"), "mkv", "h264"),
        (lambda: video_files.film(container="webm", codec="libvpx-vp9"), "webm", "vp9"),
        (lambda: video_files.film(container="avi", codec="mpeg4"), "avi", "mpeg4"),
        (lambda: video_files.film(container="mpegts"), "ts", "h264"),
        (lambda: video_files.film(container="flv", codec="flv"), "flv", "flv1"),
        (lambda: video_files.film(container="asf", codec="wmv2"), "wmv", "wmv2"),
    ],
    ids=["mp4", "moov first", "fragments", "mov", "3gp", "mkv", "webm", "avi", "ts", "flv", "wmv"],
)
def test_format_is_the_common_name_of_the_container(make_file: Callable[[], bytes], form: str, codec: str) -> None:
    facts = probe(BytesSource(make_file()))
    assert (facts.format, facts.video_codec, facts.resolution) == (form, codec, "320x180")
    assert facts.duration == pytest.approx(2000, abs=110)


@pytest.mark.parametrize(("rotation", "size"), [(90, (180, 320)), (180, (320, 180)), (270, (180, 320))])
def test_width_and_height_are_those_after_rotation(rotation: int, size: tuple[int, int]) -> None:
    facts = probe(BytesSource(video_files.film(rotation=rotation)))
    assert (facts.width, facts.height) == size
    assert (facts.coded_width, facts.coded_height, facts.rotation) == (320, 180, rotation)


def test_resolution_accounts_for_the_pixel_aspect_ratio() -> None:
    facts = probe(BytesSource(video_files.film(sar=(4, 3))))
    assert (facts.resolution, facts.coded_width, facts.sample_aspect_ratio) == ("427x180", 320, Fraction(4, 3))


def test_implausible_pixel_aspect_ratio_is_ignored() -> None:
    facts = probe(BytesSource(video_files.film(sar=(200, 1))))
    assert (facts.resolution, facts.document()["sampleAspectRatio"]) == ("320x180", "1:1")


def test_odd_sizes_are_not_rounded() -> None:
    assert probe(BytesSource(video_files.film(0.5, (853, 479), pixels="yuv444p"))).resolution == "853x479"


@pytest.mark.parametrize(("transfer", "name"), [(16, "pq"), (18, "hlg")])
def test_facts_of_hdr_video_contain_the_transfer_function(transfer: int, name: str) -> None:
    document = probe(BytesSource(video_files.grey_hdr(572, transfer))).document()
    assert (document["hdr"], document["pixelFormat"]) == (name, "yuv420p10le")


def test_duration_of_a_recording_without_a_stated_length_is_measured() -> None:
    data = video_files.film(3, container="webm", codec="libvpx-vp9", muxer=(("live", "1"),))
    assert probe(BytesSource(data)).duration == 3000


@pytest.mark.parametrize("moov_at_start", [False, True])
def test_probe_of_a_large_file_reads_only_its_header_its_index_and_one_frame(moov_at_start: bool) -> None:
    source = CountingSource(video_files.make_repeated(80, moov_at_start=moov_at_start))
    assert source.size > 30_000_000
    assert probe(source).duration == 80_000
    assert len(source.requests) <= 2
    assert source.fraction_read < 0.01


def test_probe_of_a_two_hour_video_reads_the_index_at_the_end_in_two_requests() -> None:
    source = CountingSource(video_files.make_repeated(200, time_factor=36, keyframe_only=True))
    facts = probe(source)
    assert facts.duration > 7_000_000
    assert len(source.requests) == 2
    assert source.requests[-1][0] > source.size * 0.99
