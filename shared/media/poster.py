"""Poster creation: one frame as images in several widths."""

import io
from collections.abc import Iterator

from av.video.frame import VideoFrame
from PIL import Image, ImageStat

from shared.media import errors
from shared.media.errors import UnreadableVideo
from shared.media.frames import Shape, fitted, image
from shared.media.results import MediaInfo, Picture, Poster
from shared.media.source import Source
from shared.media.source_video import SourceVideo, frame_at, keyframe, open_video

WIDTHS = (320, 640, 1280)
"""Maximum widths of the images, in pixels."""
WEBP_EFFORT = 2
"""Effort of the WebP encoder, from 0 to 6. With 3 or more, encoding takes twice as long, and saves 5 % of the bytes
(`python -m bench.media`).
"""
MAX_HEIGHT = 16_383
"""Maximum height of an image in pixels (WebP's limit)."""
CANDIDATE_PERCENTS = (10, 20, 30, 40, 50, 70, 90)
"""Candidate positions of the poster frame, in percent of the duration."""

SMALL_FILE = 16 * 1024 * 1024
"""Maximum bytes of a small file. In small files, the exact candidate frames are decoded; in larger files, keyframes."""
SAMPLE_WIDTH = 160
"""Maximum width and height, in pixels, of the reduced image that shows whether a candidate frame is good."""
MIN_CONTRAST = 12.0
"""Minimum standard deviation of the brightness of a good frame. Brightness is from 0 to 255."""
MIN_LIGHT = 16.0
"""Minimum mean brightness of a good frame, from 0 to 255."""
FORWARD_FILE = 64 * 1024 * 1024
"""Maximum bytes of a large file that are decoded after keyframes, in total for all candidates.

This decoding has two more limits: 20,000 frames, and as many pixels as one minute of 1080p video has.
"""


def poster(source: Source, facts: MediaInfo, at_ms: int | None = None) -> Poster:
    """Return a video's poster: the frame at `at_ms` (milliseconds), or by default the first good candidate frame.

    Candidates are at CANDIDATE_PERCENTS of the duration. A good frame is neither nearly black nor nearly uniform. If no
    candidate is good, the one with the highest contrast is used. Raises UnreadableVideo if no frame can be decoded.

    In a large file, the last keyframe before a candidate's time replaces the candidate, because keyframes are fast to
    decode. If the keyframe's time is less than half of the candidate's time, the frames between them are also decoded.
    The last of these frames then replaces the candidate. For all candidates together, this decoding is limited to a
    minute of 1080p, 20,000 frames or 64 MB.
    """
    with open_video(source) as source_video:
        frame = frame_at(source_video, max(0, at_ms)) if at_ms is not None else _first_good_frame(source_video, facts)
        if frame is None:
            raise UnreadableVideo(errors.NO_FRAME)
        shown = source_video.shape(frame)
        time = min(source_video.milliseconds(frame.pts or 0), facts.duration)
        return Poster(time, list(_pictures(frame, shown)))


def _first_good_frame(source_video: SourceVideo, facts: MediaInfo) -> VideoFrame | None:
    best: tuple[float, VideoFrame] | None = None
    tried_pts: set[int | None] = set()
    budget = facts.decode_budget_ms(FORWARD_FILE)
    for percent in CANDIDATE_PERCENTS:
        time = facts.duration * percent // 100
        if facts.is_small(SMALL_FILE):
            frame = frame_at(source_video, time)
        else:
            frame, spent = _near(source_video, time, budget)
            budget -= spent
        if source_video.file.failure is not None:
            return None
        if frame is None or frame.pts in tried_pts:
            continue
        tried_pts.add(frame.pts)
        contrast, light = _contrast_and_light(frame, source_video.shape(frame))
        if contrast >= MIN_CONTRAST and light >= MIN_LIGHT:
            return frame
        if best is None or contrast > best[0]:
            best = contrast, frame
    return best[1] if best else None


def _near(source_video: SourceVideo, time: int, budget: int) -> tuple[VideoFrame | None, int]:
    """Return a frame near `time`, and the part of the budget that was spent. All values are in milliseconds of video.

    The frame is the last keyframe before `time`. If the keyframe's time is less than half of `time`, the frames after
    the keyframe are also decoded. Decoding ends at `time`, or when the budget is spent. The last decoded frame is then
    returned instead of the keyframe.
    """
    frame = keyframe(source_video, time)
    start = time if frame is None or frame.pts is None else source_video.milliseconds(frame.pts)
    if 2 * start >= time or source_video.file.failure is not None:
        return frame, 0
    spent = min(time - start, budget)
    return (spent and frame_at(source_video, start + spent)) or frame, spent


def _contrast_and_light(frame: VideoFrame, shown: Shape) -> tuple[float, float]:
    """Return the standard deviation and the mean of a frame's brightness, both from 0 to 255."""
    grey = ImageStat.Stat(image(frame, shown, fitted(shown, SAMPLE_WIDTH, SAMPLE_WIDTH)).convert("L"))
    return grey.stddev[0], grey.mean[0]


def _pictures(frame: VideoFrame, shown: Shape) -> Iterator[Picture]:
    sizes = sorted({fitted(shown, width, MAX_HEIGHT) for width in WIDTHS})
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
