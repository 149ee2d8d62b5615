"""Chapters that are proposed."""

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
    """Paint scenes of which another begins at each of these seconds."""

    def paint(number: int, size: tuple[int, int]) -> Image.Image:
        return Image.new("RGB", size, COLOURS[sum(number >= second * RATE for second in seconds) % len(COLOURS)])

    return paint


def moving(number: int, size: tuple[int, int]) -> Image.Image:
    """Paint a scene in which something large goes to and fro all the time."""
    image = Image.new("RGB", size, "grey")
    x = abs(number % 20 - 10) * size[0] // 15
    image.paste("white", (x, 0, x + size[0] // 3, size[1]))
    return image


def proposed(data: bytes) -> list[MediaChapter]:
    source = BytesSource(data)
    return [*storyboard(source, probe(source)).chapters]


def starting(*starts: int) -> list[MediaChapter]:
    return [MediaChapter(start) for start in starts]


def test_chapters_start_where_scenes_change() -> None:
    assert proposed(film(20, TINY, paint=changing(5, 12))) == starting(0, 5000, 12_000)


def test_chapters_of_a_long_video_start_at_storyboard_frames() -> None:
    source = BytesSource(film(20, TINY, paint=changing(5, 12)))
    board = storyboard(source, as_large(probe(source), minutes=90))
    assert board.chapters == starting(0, 5000, 12_000)


@pytest.mark.parametrize("paint", [changing(), moving], ids=["no motion", "much motion"])
def test_a_film_of_one_scene_has_none(paint: Paint) -> None:
    assert proposed(film(12, TINY, paint=paint)) == []


def test_chapters_of_a_real_clip_are_its_cuts() -> None:
    source = FileSource(clip("bikes"))
    zero, cut = storyboard(source, probe(source)).chapters
    assert zero.start == 0
    assert 5480 <= cut.start <= 5580


def detect(times: range) -> Scenes:
    """Return the detected scenes of a video whose scenes change at each of these milliseconds."""
    scenes = Scenes()
    frames: list[Any] = [VideoFrame.from_image(Image.new("RGB", (32, 18), colour)) for colour in COLOURS]  # type: ignore[no-untyped-call]
    for number, time in enumerate(times):
        scenes.see(time, frames[number % len(frames)])
        scenes.see(time + 500, frames[number % len(frames)])
    return scenes


def test_there_are_not_too_many_and_they_are_some_seconds_apart() -> None:
    hour = 3_600_000
    starts = detect(range(0, hour, 10_000)).starts(hour)
    assert len(starts) == MOST
    assert min(later - earlier for earlier, later in itertools.pairwise(starts)) >= hour // 40
    short = detect(range(0, 13_000, 1000)).starts(13_000)
    assert short[0] == 0
    assert min(later - earlier for earlier, later in itertools.pairwise([*short, 13_000])) >= MIN_MS


def divided(*chapters: tuple[int, str]) -> bytes:
    """Create a film of four seconds with chapters that start at these milliseconds."""
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


def test_a_film_that_has_chapters_proposes_its_own() -> None:
    chapters = divided((0, "The beach"), (1500, ""), (3000, f"The\nletter {'x' * 100}"))
    assert proposed(chapters) == [
        MediaChapter(0, "The beach"),
        MediaChapter(1500),
        MediaChapter(3000, f"The letter {'x' * 100}"[:LONGEST_TITLE]),
    ]


def test_single_chapter_over_the_whole_video_is_not_proposed() -> None:
    assert proposed(divided((0, "All of it"))) == []


def test_proposed_chapters_are_limited_to_the_first() -> None:
    assert len(proposed(divided(*((number * 10, "x") for number in range(100))))) == MAX_OWN
