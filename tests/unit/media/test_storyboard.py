"""Storyboards: the sheet of tiles, and the WebVTT cues that refer to them."""

import io
import itertools
import re
from typing import Any
from unittest.mock import Mock

import pytest
from PIL import Image

from local.testbed import video_files
from shared.media.probe import probe
from shared.media.results import MediaInfo, Storyboard
from shared.media.source import BytesSource, FileSource
from shared.media.source_video import SourceVideo, open_video
from shared.media.storyboard import storyboard
from tests.unit.media.sources import BarrierSource, CountingSource, as_large, colour, near

CUE = re.compile(r"(\d\d:\d\d:\d\d\.\d{3}) --> (\d\d:\d\d:\d\d\.\d{3})\nstoryboard\.jpg#xywh=(\d+),(\d+),(\d+),(\d+)\n")


def make_storyboard(data: bytes) -> tuple[MediaInfo, Storyboard, Image.Image]:
    """Return the facts of a video file, its storyboard, and the decoded sheet."""
    source = BytesSource(data)
    facts = probe(source)
    board = storyboard(source, facts)
    return facts, board, Image.open(io.BytesIO(board.sheet.data)).convert("RGB")


def seconds(clock: str) -> float:
    """Return a WebVTT time in seconds."""
    hours, minutes, seconds_text = clock.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds_text)


def check(facts: MediaInfo, board: Storyboard, sheet: Image.Image) -> None:
    """Assert that the cues cover the video without gaps, and that each has its own tile inside the sheet."""
    assert board.cues.startswith("WEBVTT\n\n")
    cues = [match.groups() for match in CUE.finditer(board.cues)]
    assert len(cues) == board.tiles == board.cues.count("-->")
    assert seconds(cues[0][0]) == 0
    assert seconds(cues[-1][1]) * 1000 == pytest.approx(facts.duration)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(cues))
    assert all(seconds(cue[0]) < seconds(cue[1]) for cue in cues)
    areas = {tuple(int(number) for number in cue[2:]) for cue in cues}
    assert len(areas) == len(cues)
    assert all(area[2:] == (board.tile_width, board.tile_height) for area in areas)
    assert all(x + width <= sheet.width and y + height <= sheet.height for x, y, width, height in areas)
    assert sheet.size == (board.sheet.width, board.sheet.height)


@pytest.mark.parametrize(
    ("length", "tiles", "columns"), [(0.2, 1, 1), (1, 1, 1), (2, 2, 2), (2.3, 2, 2), (2.6, 3, 3), (23, 23, 10)]
)
def test_storyboard_of_a_short_video_has_a_tile_per_second(length: float, tiles: int, columns: int) -> None:
    facts, board, sheet = make_storyboard(video_files.film(length))
    assert (board.tiles, board.columns, board.interval) == (tiles, columns, 1000)
    assert (board.tile_width, board.tile_height) == (160, 90)
    check(facts, board, sheet)


@pytest.mark.slow
def test_storyboard_of_a_long_video_has_a_hundred_tiles() -> None:
    facts, board, sheet = make_storyboard(video_files.make_repeated(200, time_factor=36, keyframe_only=True))
    assert (board.tiles, board.columns, board.interval) == (100, 10, facts.duration // 100)
    assert sheet.size == (1600, 900)
    assert "01:59:" in board.cues
    check(facts, board, sheet)


def test_every_tile_shows_the_middle_of_its_interval() -> None:
    _, board, sheet = make_storyboard(video_files.film(3, paint=video_files.counted, keyframes=100))
    for number in range(board.tiles):
        grey = (number * 10 + 5) * 8 % 248
        # A frame is 8 brighter than the frame before it, so a tile may be two frames off.
        assert near(colour(sheet, (number + 0.5) / 3, 0.25), (grey, grey, grey), tolerance=17)


def test_every_keyframe_of_a_long_video_is_read_once() -> None:
    # Two hours with a keyframe each half hour: a hundred tiles show four frames.
    data = video_files.film(4, (64, 36), paint=video_files.counted, time_factor=1800, keyframes=10)
    source = CountingSource(data)
    facts = probe(source)
    board = storyboard(source, facts)
    assert board.tiles == 100
    assert board.sheet.width == 640, "tiles must not be larger than the video"
    check(facts, board, Image.open(io.BytesIO(board.sheet.data)))


@pytest.mark.parametrize(
    ("size", "tile"),
    [((320, 180), (160, 90)), ((180, 320), (160, 284)), ((64, 1024), (20, 320)), ((2048, 32), (160, 2))],
)
def test_tiles_have_the_aspect_ratio_of_the_video(size: tuple[int, int], tile: tuple[int, int]) -> None:
    _, board, _ = make_storyboard(video_files.film(0.2, size))
    assert (board.tile_width, board.tile_height) == tile


def test_tiles_of_a_rotated_video_are_upright() -> None:
    _, board, sheet = make_storyboard(video_files.film(0.5, rotation=90))
    assert (board.tile_width, board.tile_height) == (160, 284)
    assert near(colour(sheet, 0.75, 0.25), video_files.CORNERS["top left"], tolerance=12)


def test_storyboard_of_a_real_clip_has_a_tile_per_second() -> None:
    source = FileSource(video_files.clip("bikes"))
    board = storyboard(source, probe(source))
    assert (board.tiles, board.tile_width, board.tile_height) == (10, 160, 68)
    assert len(board.sheet.data) < 60_000


@pytest.mark.slow
def test_storyboard_reads_no_byte_twice() -> None:
    data = video_files.make_repeated(80)
    source = CountingSource(data)
    storyboard(source, probe(BytesSource(data)))
    assert source.fraction_read < 1.02
    assert len(source.requests) < 40


def frame_numbers(board: Storyboard) -> list[int]:
    """Return the number of the frame that each tile shows, in a video painted by `video_files.counted`.

    A tile must show the frame in the middle of its interval, or one of the 30 frames before. Otherwise the number is -1.
    """
    sheet = Image.open(io.BytesIO(board.sheet.data)).convert("RGB")
    numbers = []
    for number in range(board.tiles):
        x, y = number % board.columns * board.tile_width, number // board.columns * board.tile_height
        grey, *_ = colour(sheet.crop((x, y, x + board.tile_width, y + board.tile_height)), 0.5, 0.25)
        own = (number * board.interval + board.interval // 2) // 100
        numbers.append(next((own - back for back in range(31) if abs((own - back) * 8 % 248 - grey) <= 3), -1))
    return numbers


@pytest.mark.slow
@pytest.mark.parametrize(
    "form",
    [
        {},
        {"muxer": (("movflags", "frag_keyframe+empty_moov+default_base_moof"),)},
        {"container": "matroska"},
        {"container": "webm", "codec": "libvpx"},
        {"container": "avi", "codec": "mpeg4", "encoder": (("b", "4000000"), ("sc_threshold", "1000000000"))},
    ],
    ids=["mp4", "fragments", "mkv", "webm", "avi"],
)
def test_frames_after_keyframes_are_decoded_if_keyframes_are_rare(form: dict[str, Any]) -> None:
    source = BytesSource(video_files.film(20, (64, 36), paint=video_files.counted, keyframes=80, **form))
    facts = probe(source)
    assert frame_numbers(storyboard(source, as_large(facts, 2))) == [number * 10 + 5 for number in range(20)]


def test_decoding_after_keyframes_is_limited_to_two_minutes_of_1080p(monkeypatch: pytest.MonkeyPatch) -> None:
    source = BytesSource(video_files.film(30, (64, 36), paint=video_files.counted, keyframes=60))
    facts = as_large(probe(source), 4)
    decode = Mock(side_effect=SourceVideo.decoded)
    monkeypatch.setattr(SourceVideo, "decoded", lambda video, packet: decode(video, packet))
    distances = [frame % 60 for frame in frame_numbers(storyboard(source, facts))]
    # The limit allows half of the video: about three seconds after each keyframe. Later tiles show the last decoded
    # frame.
    assert distances == [5, 15, 25, 35, 35, 35] * 2 + [5, 15, 25, 25, 25, 25] * 3
    # Each keyframe needs further packets: the end of the last frame is the start of the next one, and the decoder reads
    # one packet ahead.
    assert decode.call_count <= 150 + 5 * 3


def test_decoding_after_keyframes_stops_after_forty_seconds() -> None:
    source = BytesSource(video_files.film(20, (64, 36), paint=video_files.counted, keyframes=30))
    # The clock is read at the start, before each keyframe and after each frame, and advances by eight seconds each time.
    board = storyboard(source, as_large(probe(source), 2), itertools.count(0, 8).__next__)
    assert [frame % 30 for frame in frame_numbers(board)] == [3, 3, 3] + [0] * 17


def test_two_tiles_of_one_keyframe_show_it_without_further_decoding() -> None:
    source = BytesSource(video_files.film(20, (64, 36), paint=video_files.counted, keyframes=20))
    assert frame_numbers(storyboard(source, as_large(probe(source), 2))) == [number // 2 * 20 for number in range(20)]


def test_storyboard_of_a_longer_video_reads_only_keyframes_concurrently() -> None:
    data = video_files.make_repeated(40, moov_at_start=True)
    facts = probe(BytesSource(data))
    with open_video(BytesSource(data)) as video:
        keyframes = [(entry.pos, entry.size) for entry in video.video.index_entries if entry.is_keyframe]
    # The first keyframe is read with the container's header and index.
    source = BarrierSource(data, keyframes[0][0], 3)
    board = storyboard(source, as_large(facts, 2))
    assert board.tiles == len(keyframes) == 40
    assert set(keyframes[1:]) <= set(source.requests)
    assert source.fraction_read < 1.02 * sum(size for _, size in keyframes) / len(data) + 0.02
