"""Proposed chapters: those in the file, or else detected scenes."""

import io
import itertools
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest
from av.video.frame import VideoFrame
from PIL import Image

from local.testbed.video_files import RATE, TINY, Paint, clip, film
from shared.media.probe import probe
from shared.media.results import MediaChapter
from shared.media.scenes import LONGEST_TITLE, MAX_OWN, MIN_MS, MOST, Scenes
from shared.media.source import BytesSource, FileSource
from shared.media.storyboard import storyboard
from tests.unit.media.sources import as_large

COLOURS = ("red", "blue", "white", "black")


def changing(*seconds: int) -> Paint:
    """Return a function that paints frames of one colour, with a new colour at each of these seconds."""

    def paint(number: int, size: tuple[int, int]) -> Image.Image:
        return Image.new("RGB", size, COLOURS[sum(number >= second * RATE for second in seconds) % len(COLOURS)])

    return paint


def moving(number: int, size: tuple[int, int]) -> Image.Image:
    """Paint one frame of a scene in which a large rectangle always moves to and fro."""
    image = Image.new("RGB", size, "grey")
    x = abs(number % 20 - 10) * size[0] // 15
    image.paste("white", (x, 0, x + size[0] // 3, size[1]))
    return image


def propose_chapters(data: bytes) -> list[MediaChapter]:
    source = BytesSource(data)
    return [*storyboard(source, probe(source)).chapters]


def chapters_at(*starts: int) -> list[MediaChapter]:
    return [MediaChapter(start) for start in starts]


def test_chapters_start_where_scenes_change() -> None:
    assert propose_chapters(film(20, TINY, paint=changing(5, 12))) == chapters_at(0, 5000, 12_000)


def test_chapters_of_a_long_video_start_at_storyboard_frames() -> None:
    source = BytesSource(film(20, TINY, paint=changing(5, 12)))
    board = storyboard(source, as_large(probe(source), minutes=90))
    assert board.chapters == chapters_at(0, 5000, 12_000)


@pytest.mark.parametrize("paint", [changing(), moving], ids=["no motion", "much motion"])
def test_video_of_one_scene_has_no_proposed_chapters(paint: Paint) -> None:
    assert propose_chapters(film(12, TINY, paint=paint)) == []


def test_chapters_of_a_real_clip_are_its_cuts() -> None:
    source = FileSource(clip("bikes"))
    zero, cut = storyboard(source, probe(source)).chapters
    assert zero.start == 0
    assert 5480 <= cut.start <= 5580


def detect(times: range) -> Scenes:
    """Return the scenes detected in a video with a new scene at each of these times (milliseconds)."""
    scenes = Scenes()
    frames: list[Any] = [VideoFrame.from_image(Image.new("RGB", (32, 18), colour)) for colour in COLOURS]  # type: ignore[no-untyped-call]
    for number, time in enumerate(times):
        scenes.see(time, frames[number % len(frames)])
        scenes.see(time + 500, frames[number % len(frames)])
    return scenes


def test_number_and_minimum_length_of_detected_chapters_are_limited() -> None:
    hour = 3_600_000
    starts = detect(range(0, hour, 10_000)).starts(hour)
    assert len(starts) == MOST
    assert min(later - earlier for earlier, later in itertools.pairwise(starts)) >= hour // 40
    short = detect(range(0, 13_000, 1000)).starts(13_000)
    assert short[0] == 0
    assert min(later - earlier for earlier, later in itertools.pairwise([*short, 13_000])) >= MIN_MS


def make_chaptered(*chapters: tuple[int, str]) -> bytes:
    """Return a video of four seconds with chapters: pairs of start (milliseconds) and title."""
    with tempfile.NamedTemporaryFile() as file:
        with av.open(file.name, "w", format="matroska") as output, av.open(io.BytesIO(film(4, TINY)), "r") as pictures:
            ends = [start for start, _ in chapters[1:]] + [4000]
            output.set_chapters(
                [
                    {
                        "id": number,
                        "start": start,
                        "end": end,
                        "time_base": Fraction(1, 1000),
                        "metadata": {"title": title} if title else {},
                    }
                    for number, ((start, title), end) in enumerate(zip(chapters, ends, strict=True))
                ]
            )
            stream = output.add_stream_from_template(pictures.streams.video[0])
            for packet in pictures.demux(video=0):
                if packet.size:
                    packet.stream = stream
                    output.mux(packet)
        return Path(file.name).read_bytes()


def test_chapters_in_the_file_are_proposed_with_their_titles() -> None:
    data = make_chaptered((0, "The beach"), (1500, ""), (3000, f"The\nletter {'x' * 100}"))
    assert propose_chapters(data) == [
        MediaChapter(0, "The beach"),
        MediaChapter(1500),
        MediaChapter(3000, f"The letter {'x' * 100}"[:LONGEST_TITLE]),
    ]


def test_single_chapter_over_the_whole_video_is_not_proposed() -> None:
    assert propose_chapters(make_chaptered((0, "All of it"))) == []


def test_number_of_proposed_chapters_from_the_file_is_limited() -> None:
    assert len(propose_chapters(make_chaptered(*((number * 10, "x") for number in range(100))))) == MAX_OWN
