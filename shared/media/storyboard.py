"""Storyboard creation: small images (tiles) on one sprite sheet, and WebVTT that maps times to tiles.

The frames that are decoded for the tiles also determine the proposed chapters.
"""

import io
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from av.video.frame import VideoFrame
from PIL import Image

from shared.media import errors
from shared.media.errors import UnreadableVideo
from shared.media.frames import fitted, image
from shared.media.results import MediaInfo, Picture, Storyboard
from shared.media.scenes import Scenes, proposed
from shared.media.source import Source
from shared.media.source_video import GroupOfPictures, SourceVideo, frames, groups, keyframe, open_video

COLUMNS = 10
"""Maximum number of tiles in a row of the sheet."""
MAX_TILES = 100
MIN_INTERVAL_MS = 1000
"""Minimum milliseconds of video per tile."""
TILE_WIDTH = 160
"""Maximum width of a tile in pixels."""
TILE_HEIGHT = 320
"""Maximum height of a tile in pixels."""
SHEET = "storyboard.jpg"
"""File name of the sprite sheet."""

SMALL_FILE = 64 * 1024 * 1024
"""Maximum bytes of a file that is decoded completely. In a short video, keyframes do not suffice: they are seconds
apart, so there are fewer keyframes than tiles.
"""
MAX_REPEATED = 2
"""Number of tiles that may show the same keyframe. If there would be more, frames after the keyframe are also decoded,
within the limits FORWARD and FORWARD_SECONDS."""
FORWARD = 2
"""Budget for decoding frames after keyframes, as a multiple of the limits of a small file. The budget is used up after
128 MB, 40,000 frames or two minutes of 1080p, whichever comes first."""
FORWARD_SECONDS = 40.0
"""Maximum seconds for decoding frames after keyframes. Without this limit, a video with a slow codec could exceed the
task's time limit, and have no storyboard."""


def storyboard(source: Source, facts: MediaInfo, clock: Callable[[], float] = time.monotonic) -> Storyboard:
    """Return the storyboard of a video: one tile per second, but at most MAX_TILES tiles, at equal intervals.

    A tile of a small file shows the frame in the middle of the tile's interval. A tile of a larger file shows the last
    keyframe before that frame. If more than MAX_REPEATED tiles would show the same keyframe, later frames are decoded
    within the limits FORWARD and FORWARD_SECONDS. `clock` is a monotonic clock in seconds. Raises UnreadableVideo if no
    frame can be decoded.
    """
    duration = max(1, facts.duration)
    interval = max(MIN_INTERVAL_MS, -(-duration // MAX_TILES))
    # A remainder of less than half an interval belongs to the last tile.
    count = max(1, (duration + interval // 2) // interval)
    times = [min(duration - 1, interval * number + interval // 2) for number in range(count)]
    scenes = Scenes()
    with open_video(source) as source_video:
        if facts.is_small(SMALL_FILE):
            pictures = _decoded(source_video, scenes, times, 0)
        else:
            pictures = _chosen(source_video, scenes, times, _plan_spans(source_video, times, facts, interval), clock)
        sheet, size = _sheet(pictures, count)
        chapters = proposed(source_video, scenes, duration)
    columns = min(COLUMNS, count)
    data = io.BytesIO()
    sheet.save(data, "JPEG", quality=75, optimize=True)
    picture = Picture(SHEET, "image/jpeg", *sheet.size, data.getvalue())
    return Storyboard(picture, _cues(count, interval, duration, size), count, columns, *size, interval, chapters)


@dataclass(slots=True)
class _Span:
    """Consecutive tiles whose frames are in the same group of pictures. If the container has no index, each span has
    only one tile."""

    first: int
    """Number of the first tile, from 0."""
    tiles: int
    """Number of tiles."""
    group: GroupOfPictures | None
    """Group of pictures that contains the frames of the tiles; `None` if the container has no index."""
    exact: int = 0
    """Number of tiles at the start of the span that show their exact frames. Each later tile repeats the tile before
    it. If the number is 0, all tiles of the span show the keyframe."""


def _plan_spans(source_video: SourceVideo, times: Sequence[int], facts: MediaInfo, interval: int) -> list[_Span]:
    """Group the tiles by keyframe, and decide how many tiles of each group show exact frames."""
    groups_of_tiles: Sequence[GroupOfPictures | None] = groups(source_video, times, facts.duration) or [None] * len(
        times
    )
    spans: list[_Span] = []
    for number, group in enumerate(groups_of_tiles):
        if group is not None and spans and spans[-1].group == group:
            spans[-1].tiles += 1
        else:
            spans.append(_Span(number, 1, group))
    _decode_forward(spans, times, interval, FORWARD * facts.decode_budget_ms(SMALL_FILE))
    return spans


def _decode_forward(spans: Sequence[_Span], times: Sequence[int], interval: int, budget: int) -> None:
    """Set `exact` in each span with a group of pictures that is longer than MAX_REPEATED intervals, until `budget` is
    used up.

    `budget` is the milliseconds of video that may be decoded. The tiles nearest to their keyframes are decoded first,
    because they cost least.
    """
    candidates = sorted(
        (times[span.first + tile] - span.group.start, tile, number)
        for number, span in enumerate(spans)
        if span.group is not None and span.group.end - span.group.start > MAX_REPEATED * interval
        for tile in range(span.tiles)
    )
    for distance, tile, number in candidates:
        # Decoding for the first tile begins at the keyframe, and for each later tile at the tile before.
        budget -= interval if tile else distance
        if budget < 0:
            return
        spans[number].exact = tile + 1


def _chosen(
    source_video: SourceVideo, scenes: Scenes, times: Sequence[int], spans: Sequence[_Span], clock: Callable[[], float]
) -> Iterator[tuple[int, Image.Image]]:
    """Yield the number and the image of each tile, as planned in `spans`.

    A tile that cannot be decoded has the image of the tile before.
    """
    source_video.file.expect([span.group.keyframe for span in spans if span.group and not span.exact])
    picture: Image.Image | None = None
    end = clock() + FORWARD_SECONDS
    for span in spans:
        shown = span.first
        if span.exact and clock() < end:
            for number, picture in _decoded(
                source_video, scenes, times[: shown + span.exact], shown, lambda: clock() >= end
            ):
                yield number, picture
                shown = number + 1
        elif (frame := keyframe(source_video, times[shown])) is not None:
            if frame.pts is not None:
                scenes.see(source_video.milliseconds(frame.pts), frame)
            picture = next(tile for _, tile in _tiles(source_video, frame, range(1)))
        if source_video.file.failure is not None:
            return
        if picture is not None:
            for number in range(shown, span.first + span.tiles):
                yield number, picture


def _decoded(
    source_video: SourceVideo,
    scenes: Scenes,
    times: Sequence[int],
    number: int,
    is_over: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[int, Image.Image]]:
    """Yield the number and the image of each tile, starting with the tile `number`. Decodes from the last keyframe
    before that tile.

    After `is_over` returns true, all remaining tiles show the last decoded frame.
    """
    source_video.video.codec_context.skip_frame = "NONREF"
    before = None
    for frame in frames(source_video, times[number] if number else 0):
        if source_video.file.failure is not None:
            return
        if frame.pts is not None:
            scenes.see(source_video.milliseconds(frame.pts), frame)
            passed = number
            while passed < len(times) and source_video.milliseconds(frame.pts) > times[passed]:
                passed += 1
            if passed > number:
                yield from _tiles(source_video, before or frame, range(number, passed))
                number = passed
        if number == len(times):
            return
        before = frame
        if is_over():
            break
    if before is not None:
        yield from _tiles(source_video, before, range(number, len(times)))


def _tiles(source_video: SourceVideo, frame: VideoFrame, numbers: range) -> Iterator[tuple[int, Image.Image]]:
    shown = source_video.shape(frame)
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
        # Frames of a video may have different sizes. All tiles have the size of the first one.
        fitting = picture if picture.size == (width, height) else picture.resize((width, height))
        sheet.paste(fitting, (number % COLUMNS * width, number // COLUMNS * height))
    if sheet is None:
        raise UnreadableVideo(errors.NO_FRAME)
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
