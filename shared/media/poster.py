"""Makes a film's poster: one picture in several widths."""

import io
from collections.abc import Iterator

from av.video.frame import VideoFrame
from PIL import Image, ImageStat

from shared.media import errors
from shared.media.errors import UnreadableFilm
from shared.media.film import Film, frame_at, keyframe, opened
from shared.media.frames import Shape, fitted, image
from shared.media.results import Facts, Picture, Poster
from shared.media.source import Source

WIDTHS = (320, 640, 1280)
WEBP_EFFORT = 2
"""Of 6. From 3 on it takes twice the time for 5 % fewer bytes (`python -m bench.media`)."""
MOST_HEIGHT = 16_383
"""Pixels: WebP has no larger side."""
PLACES = (10, 20, 30, 40, 50, 70, 90)
"""Where a frame is looked for, in percent of the film."""

SMALL_FILE = 16 * 1024 * 1024
SAMPLE_WIDTH = 160
LEAST_SPREAD = 12.0
LEAST_LIGHT = 16.0
FORWARD_FILE = 64 * 1024 * 1024
"""What is read at most of a large film to get from keyframes to places, with a minute of 1080p or 20,000 frames."""


def poster(source: Source, facts: Facts, at_ms: int | None = None) -> Poster:
    """Make the poster of the frame shown at a time, or of the first good one from a tenth of the film on.

    Good is what is neither nearly black nor nearly of one colour; where no frame is good, the liveliest is taken. Of a
    large file the keyframe before a time is taken. Where that is in the first half of the way to it, as a film's first
    frame is, it is decoded forward: for all times together at most a minute of 1080p, 20,000 frames or 64 MB, and then
    it is what was reached.
    """
    with opened(source) as film:
        frame = frame_at(film, max(0, at_ms)) if at_ms is not None else _good(film, facts)
        if frame is None:
            raise UnreadableFilm(errors.NO_FRAME)
        shown = film.shape(frame)
        time = min(film.milliseconds(frame.pts or 0), facts.duration)
        return Poster(time, list(_pictures(frame, shown)))


def _good(film: Film, facts: Facts) -> VideoFrame | None:
    best: tuple[float, VideoFrame] | None = None
    seen: set[int | None] = set()
    budget = facts.affordable_ms(FORWARD_FILE)
    for place in PLACES:
        time = facts.duration * place // 100
        if facts.is_small(SMALL_FILE):
            frame = frame_at(film, time)
        else:
            frame, spent = _near(film, time, budget)
            budget -= spent
        if film.file.failure is not None:
            return None
        if frame is None or frame.pts in seen:
            continue
        seen.add(frame.pts)
        spread, light = _liveliness(frame, film.shape(frame))
        if spread >= LEAST_SPREAD and light >= LEAST_LIGHT:
            return frame
        if best is None or spread > best[0]:
            best = spread, frame
    return best[1] if best else None


def _near(film: Film, time: int, budget: int) -> tuple[VideoFrame | None, int]:
    """Return the keyframe before a time, or what a budget reaches from it, and what that took; all in milliseconds."""
    frame = keyframe(film, time)
    start = time if frame is None or frame.pts is None else film.milliseconds(frame.pts)
    if 2 * start >= time or film.file.failure is not None:
        return frame, 0
    spent = min(time - start, budget)
    return (spent and frame_at(film, start + spent)) or frame, spent


def _liveliness(frame: VideoFrame, shown: Shape) -> tuple[float, float]:
    """Return how much a frame's brightness varies, and its mean, both of 255."""
    grey = ImageStat.Stat(image(frame, shown, fitted(shown, SAMPLE_WIDTH, SAMPLE_WIDTH)).convert("L"))
    return grey.stddev[0], grey.mean[0]


def _pictures(frame: VideoFrame, shown: Shape) -> Iterator[Picture]:
    sizes = sorted({fitted(shown, width, MOST_HEIGHT) for width in WIDTHS})
    largest = image(frame, shown, sizes[-1])
    for size in sizes:
        scaled = largest if size == largest.size else largest.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
        for suffix, content_type, options in (
            ("webp", "image/webp", {"quality": 80, "method": WEBP_EFFORT}),
            ("jpg", "image/jpeg", {"quality": 82, "optimize": True, "progressive": True}),
        ):
            data = io.BytesIO()
            scaled.save(data, content_type.partition("/")[2].upper(), **options)
            yield Picture(f"poster-{size[0]}.{suffix}", content_type, *size, data.getvalue())
