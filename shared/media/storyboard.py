"""Makes a film's storyboard: small pictures on one sheet, and WebVTT that says which belongs to what time."""

import io
from collections.abc import Iterator

from av.video.frame import VideoFrame
from PIL import Image

from shared.media import errors
from shared.media.errors import UnreadableFilm
from shared.media.film import Film, frames, keyframe, opened
from shared.media.frames import fitted, image
from shared.media.results import Facts, Picture, Storyboard
from shared.media.source import Source

COLUMNS = 10
MOST_TILES = 100
LEAST_INTERVAL_MS = 1000
TILE_WIDTH = 160
TILE_HEIGHT = 320
SHEET = "storyboard.jpg"
CUES = "storyboard.vtt"

SMALL_FILE = 64 * 1024 * 1024
"""What may be read whole: keyframes lie seconds apart, and a short film has few."""


def storyboard(source: Source, facts: Facts) -> Storyboard:
    """Make the storyboard: a tile a second, and of a longer film a hundred at equal distances.

    Each tile shows the middle of its interval: in a short film exactly, in a longer one the keyframe before.
    """
    duration = max(1, facts.duration)
    interval = max(LEAST_INTERVAL_MS, -(-duration // MOST_TILES))
    # What is left at the end, if less than half an interval, belongs to the last tile.
    count = max(1, (duration + interval // 2) // interval)
    times = [min(duration - 1, interval * number + interval // 2) for number in range(count)]
    with opened(source) as film:
        pictures = _all_decoded(film, times) if facts.is_small(SMALL_FILE) else _keyframes(film, times)
        sheet, size = _sheet(pictures, count)
    columns = min(COLUMNS, count)
    data = io.BytesIO()
    sheet.save(data, "JPEG", quality=75, optimize=True)
    picture = Picture(SHEET, "image/jpeg", *sheet.size, data.getvalue())
    return Storyboard(picture, _cues(count, interval, duration, size), count, columns, *size, interval)


def _all_decoded(film: Film, times: list[int]) -> Iterator[tuple[int, Image.Image]]:
    """Decode a film from start to end, and give for each number of a time the frame that is shown then."""
    film.video.codec_context.skip_frame = "NONREF"
    number, before = 0, None
    for frame in frames(film):
        if film.file.failure is not None:
            return
        if frame.pts is not None:
            passed = number
            while passed < len(times) and film.milliseconds(frame.pts) > times[passed]:
                passed += 1
            if passed > number:
                yield from _tiles(film, before or frame, range(number, passed))
                number = passed
        if number == len(times):
            return
        before = frame
    if before is not None:
        yield from _tiles(film, before, range(number, len(times)))


def _keyframes(film: Film, times: list[int]) -> Iterator[tuple[int, Image.Image]]:
    """Give for each number of a time the keyframe before; one that serves several is read and decoded once."""
    last: int | None = None
    entry = -1
    tile: Image.Image | None = None
    for number, time in enumerate(times):
        index = film.video.index_entries
        keyframe_at = index.search_timestamp(film.timestamp(time)) if len(index) > 1 else -1
        if tile is None or keyframe_at < 0 or keyframe_at != entry:
            entry = keyframe_at
            frame = keyframe(film, time)
            if film.file.failure is not None:
                return
            if frame is not None and (tile is None or frame.pts != last):
                last = frame.pts
                tile = next(picture for _, picture in _tiles(film, frame, range(1)))
        if tile is not None:
            yield number, tile


def _tiles(film: Film, frame: VideoFrame, numbers: range) -> Iterator[tuple[int, Image.Image]]:
    shown = film.shape(frame)
    picture = image(frame, shown, fitted(shown, TILE_WIDTH, TILE_HEIGHT))
    for number in numbers:
        yield number, picture


def _sheet(pictures: Iterator[tuple[int, Image.Image]], count: int) -> tuple[Image.Image, tuple[int, int]]:
    sheet: Image.Image | None = None
    width = height = 0
    columns, rows = min(COLUMNS, count), -(-count // COLUMNS)
    for number, picture in pictures:
        if sheet is None:
            width, height = picture.size
            sheet = Image.new("RGB", (columns * width, rows * height))
        # A film may change its size on the way; its first one holds.
        fitting = picture if picture.size == (width, height) else picture.resize((width, height))
        sheet.paste(fitting, (number % COLUMNS * width, number // COLUMNS * height))
    if sheet is None:
        raise UnreadableFilm(errors.NO_FRAME)
    return sheet, (width, height)


def _cues(count: int, interval: int, duration: int, size: tuple[int, int]) -> str:
    width, height = size
    lines = ["WEBVTT", ""]
    for number in range(count):
        start, end = number * interval, duration if number == count - 1 else (number + 1) * interval
        x, y = number % COLUMNS * width, number // COLUMNS * height
        lines += [f"{_clock(start)} --> {_clock(end)}", f"{SHEET}#xywh={x},{y},{width},{height}", ""]
    return "\n".join(lines)


def _clock(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}"
