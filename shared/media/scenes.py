"""Proposes chapters: the film's own, or else where its scenes change, as far as the frames that are decoded anyway show it."""

from collections.abc import Iterable
from itertools import pairwise

from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter

from shared.media.film import Film
from shared.media.results import Chapter

MOST = 30
"""Chapters that are proposed of scenes."""
MOST_OWN = 50
LONGEST_TITLE = 80
"""Characters of a title of the film's own."""
LEAST_MS = 3000
"""How far chapters are apart at least, and a fortieth of the film."""
SHARE = 40
SIZE = (16, 9)
"""Pixels in which frames are compared: what moves within a scene changes few of them."""
SAMPLE_MS = 100
"""How far frames are apart that are compared: a change of scenes is found this late at most."""
NEAR_MS = 1000
"""How far apart frames are that show one movement."""
CUT = 20.0
"""How much pixels have to differ on average, of 255, by more than they do in the movement around."""


class Scenes:
    """Looks at the frames of a film, in their order, for changes of scenes."""

    def __init__(self) -> None:
        self._scaler = VideoReformatter()
        self._last = b""
        self._times: list[int] = []
        self._differences: list[float] = []
        """Of each frame to the one before."""

    def see(self, milliseconds: int, frame: VideoFrame) -> None:
        """Look at a frame; those that follow too soon after another are passed over."""
        if self._times and milliseconds < self._times[-1] + SAMPLE_MS:
            return
        seen = self._small(frame)
        if self._last:
            total = sum(abs(one - other) for one, other in zip(seen, self._last, strict=True))
            self._differences.append(total / len(seen))
        else:
            self._differences.append(0)
        self._last = seen
        self._times.append(milliseconds)

    def starts(self, duration: int) -> list[int]:
        """Where chapters may start, in milliseconds, in order: the clearest changes, the first at 0; none if nothing changes."""
        apart = max(LEAST_MS, duration // SHARE)
        found = [0]
        for score, time in sorted(self._scored(), key=lambda scored: (-scored[0], scored[1])):
            is_clear = score >= CUT and time <= duration - apart
            if is_clear and len(found) < MOST and all(abs(time - other) >= apart for other in found):
                found.append(time)
        return sorted(found) if len(found) > 1 else []

    def _scored(self) -> Iterable[tuple[float, int]]:
        """How clearly another scene begins at each time: a camera that moves changes the frames before and after as much."""
        gaps = [later - earlier for earlier, later in pairwise(self._times)]
        for place, (time, difference) in enumerate(zip(self._times, self._differences, strict=True)):
            around = [self._differences[near] for near in (place - 1, place + 1) if 0 < near < len(self._times)]
            is_near = place > 0 and gaps[place - 1] <= NEAR_MS
            yield difference - max(around, default=0) if is_near else difference, time

    def _small(self, frame: VideoFrame) -> bytes:
        width, height = SIZE
        small = self._scaler.reformat(
            frame, width, height, "rgb24", interpolation=Interpolation.FAST_BILINEAR, threads=1
        )
        data, line = bytes(small.planes[0]), small.planes[0].line_size
        return b"".join(data[row * line : row * line + 3 * width] for row in range(height))


def own(film: Film, duration: int) -> list[Chapter]:
    """The chapters that the container has, if there are several: by their starts, each within the film."""
    titles: dict[int, str | None] = {}
    for chapter in film.container.chapters():
        start = round(film.seconds(chapter["start"], chapter["time_base"]) * 1000)
        title = "".join(letter if letter.isprintable() else " " for letter in chapter["metadata"].get("title", ""))
        if start < duration:
            titles.setdefault(start, " ".join(title.split())[:LONGEST_TITLE].strip() or None)
    found = [Chapter(start, title) for start, title in sorted(titles.items())]
    return found[:MOST_OWN] if len(found) > 1 else []


def proposed(film: Film, scenes: Scenes, duration: int) -> list[Chapter]:
    """The chapters to propose; none for a film of one scene."""
    return own(film, duration) or [Chapter(start) for start in scenes.starts(duration)]
