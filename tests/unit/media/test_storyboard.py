"""Storyboards: the sheet, and the cues into it."""

import io
import itertools
import re

import pytest
from PIL import Image

from shared.media.probe import probe
from shared.media.results import Facts, Storyboard
from shared.media.source import BytesSource, FileSource
from shared.media.storyboard import storyboard
from tests import films
from tests.unit.media.sources import Counted, colour, near

CUE = re.compile(r"(\d\d:\d\d:\d\d\.\d{3}) --> (\d\d:\d\d:\d\d\.\d{3})\nstoryboard\.jpg#xywh=(\d+),(\d+),(\d+),(\d+)\n")


def made(data: bytes) -> tuple[Facts, Storyboard, Image.Image]:
    """Make a film's storyboard, and open its sheet."""
    source = BytesSource(data)
    facts = probe(source)
    board = storyboard(source, facts)
    return facts, board, Image.open(io.BytesIO(board.sheet.data)).convert("RGB")


def seconds(clock: str) -> float:
    """Read a time of WebVTT."""
    hours, minutes, rest = clock.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


def check(facts: Facts, board: Storyboard, sheet: Image.Image) -> None:
    """Assert that the cues cover the film without gaps, each with a tile of its own inside the sheet."""
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
def test_a_short_film_has_a_tile_a_second(length: float, tiles: int, columns: int) -> None:
    facts, board, sheet = made(films.film(length))
    assert (board.tiles, board.columns, board.interval) == (tiles, columns, 1000)
    assert (board.tile_width, board.tile_height) == (160, 90)
    check(facts, board, sheet)


def test_a_long_film_has_a_hundred() -> None:
    facts, board, sheet = made(films.repeated(200, spread=36, keyframe_only=True))
    assert (board.tiles, board.columns, board.interval) == (100, 10, facts.duration // 100)
    assert sheet.size == (1600, 900)
    assert "01:59:" in board.cues
    check(facts, board, sheet)


def test_each_tile_shows_the_middle_of_its_interval() -> None:
    _, board, sheet = made(films.film(3, paint=films.counted, keyframes=100))
    for number in range(board.tiles):
        grey = (number * 10 + 5) * 8 % 248
        assert near(colour(sheet, (number + 0.5) / 3, 0.25), (grey, grey, grey), by=17), "two frames off at most"


def test_each_keyframe_of_a_long_film_is_read_once() -> None:
    # Two hours with a keyframe each half hour: a hundred tiles of four pictures.
    data = films.film(4, (64, 36), paint=films.counted, spread=1800, keyframes=10)
    source = Counted(data)
    facts = probe(source)
    board = storyboard(source, facts)
    assert board.tiles == 100
    assert board.sheet.width == 640, "tiles are not larger than the film"
    check(facts, board, Image.open(io.BytesIO(board.sheet.data)))


@pytest.mark.parametrize(
    ("size", "tile"),
    [((320, 180), (160, 90)), ((180, 320), (160, 284)), ((64, 1024), (20, 320)), ((2048, 32), (160, 2))],
)
def test_tiles_keep_the_films_shape(size: tuple[int, int], tile: tuple[int, int]) -> None:
    _, board, _ = made(films.film(0.2, size))
    assert (board.tile_width, board.tile_height) == tile


def test_tiles_are_upright() -> None:
    _, board, sheet = made(films.film(0.5, rotation=90))
    assert (board.tile_width, board.tile_height) == (160, 284)
    assert near(colour(sheet, 0.75, 0.25), films.CORNERS["top left"], by=12)


def test_a_real_clip_has_one() -> None:
    source = FileSource(films.clip("bikes"))
    board = storyboard(source, probe(source))
    assert (board.tiles, board.tile_width, board.tile_height) == (10, 160, 68)
    assert len(board.sheet.data) < 60_000


def test_nothing_is_read_twice() -> None:
    data = films.repeated(80)
    source = Counted(data)
    storyboard(source, probe(BytesSource(data)))
    assert source.share < 1.02
    assert len(source.requests) < 40
