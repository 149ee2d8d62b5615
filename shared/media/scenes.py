"""Proposed chapters of a video: the chapters in its container or, if it has fewer than two, the clearest scene changes.

Scene changes are found by comparing the frames that are decoded for the storyboard.
"""

from collections.abc import Iterable
from itertools import pairwise

from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter

from shared.media.results import MediaChapter
from shared.media.source_video import SourceVideo

MOST = 30
"""Maximum number of chapters to propose from scene changes."""
MAX_OWN = 50
"""Maximum number of chapters to propose from the container."""
LONGEST_TITLE = 80
"""Maximum number of characters of a chapter title from the container."""
MIN_MS = 3000
"""Minimum milliseconds between chapters from scene changes. In long videos, the minimum is the duration divided by
SHARE."""
SHARE = 40
"""Divisor of a long video's duration. The quotient is the minimum time between two chapters from scene changes."""
SIZE = (16, 9)
"""Width and height, in pixels, to which frames are scaled before they are compared. At this size, movement within a
scene changes few pixels.
"""
SAMPLE_MS = 100
"""Minimum milliseconds between compared frames. A scene change is therefore detected at most this number of
milliseconds late."""
NEAR_MS = 1000
"""Maximum milliseconds between two frames of the same camera movement (see `_scored`)."""
CUT = 20.0
"""Minimum score of a scene change (see `_scored`). Scores are on the scale of the differences between frames: at most
255."""


class Scenes:
    """Detector of scene changes. It receives the frames of a video in order."""

    def __init__(self) -> None:
        self._scaler = VideoReformatter()
        self._last = b""
        self._times: list[int] = []
        self._differences: list[float] = []
        """Mean difference of each frame from the frame before, from 0 to 255."""

    def see(self, milliseconds: int, frame: VideoFrame) -> None:
        """Compare a frame with the last compared frame. Skips a frame that is less than SAMPLE_MS later.

        `milliseconds` is the time of the frame.
        """
        if self._times and milliseconds < self._times[-1] + SAMPLE_MS:
            return
        pixels = self._small(frame)
        if self._last:
            total = sum(abs(one - other) for one, other in zip(pixels, self._last, strict=True))
            self._differences.append(total / len(pixels))
        else:
            self._differences.append(0)
        self._last = pixels
        self._times.append(milliseconds)

    def starts(self, duration: int) -> list[int]:
        """Return the start times of chapters in milliseconds, sorted: 0, and the times of the clearest scene changes.

        `duration` is in milliseconds. Returns an empty list if there is no clear scene change.
        """
        apart = max(MIN_MS, duration // SHARE)
        found = [0]
        for score, time in sorted(self._scored(), key=lambda scored: (-scored[0], scored[1])):
            is_clear = score >= CUT and time <= duration - apart
            if is_clear and len(found) < MOST and all(abs(time - other) >= apart for other in found):
                found.append(time)
        return sorted(found) if len(found) > 1 else []

    def _scored(self) -> Iterable[tuple[float, int]]:
        """Yield the score and the time of each frame. A high score shows a scene change.

        `_differences` has the mean difference of each frame from the frame before. The score of a frame is its value in
        this list, minus the larger of the values of the previous and of the next frame. During a camera movement, all
        three values are large, so the score is low. Nothing is subtracted if the previous frame is more than NEAR_MS
        earlier.
        """
        gaps = [later - earlier for earlier, later in pairwise(self._times)]
        for index, (time, difference) in enumerate(zip(self._times, self._differences, strict=True)):
            around = [self._differences[near] for near in (index - 1, index + 1) if 0 < near < len(self._times)]
            is_near = index > 0 and gaps[index - 1] <= NEAR_MS
            yield difference - max(around, default=0) if is_near else difference, time

    def _small(self, frame: VideoFrame) -> bytes:
        width, height = SIZE
        small = self._scaler.reformat(
            frame, width, height, "rgb24", interpolation=Interpolation.FAST_BILINEAR, threads=1
        )
        data, line = bytes(small.planes[0]), small.planes[0].line_size
        return b"".join(data[row * line : row * line + 3 * width] for row in range(height))


def own(source_video: SourceVideo, duration: int) -> list[MediaChapter]:
    """Return the chapters in the container that start within `duration` (milliseconds), sorted by start.

    Returns an empty list if there are fewer than two such chapters.
    """
    titles: dict[int, str | None] = {}
    for chapter in source_video.container.chapters():
        start = round(source_video.seconds(chapter["start"], chapter["time_base"]) * 1000)
        title = "".join(letter if letter.isprintable() else " " for letter in chapter["metadata"].get("title", ""))
        if start < duration:
            titles.setdefault(start, " ".join(title.split())[:LONGEST_TITLE].strip() or None)
    found = [MediaChapter(start, title) for start, title in sorted(titles.items())]
    return found[:MAX_OWN] if len(found) > 1 else []


def proposed(source_video: SourceVideo, scenes: Scenes, duration: int) -> list[MediaChapter]:
    """Return the chapters to propose: the chapters in the container, or chapters from scene changes.

    `duration` is in milliseconds. Returns an empty list for a video with only one scene.
    """
    return own(source_video, duration) or [MediaChapter(start) for start in scenes.starts(duration)]
