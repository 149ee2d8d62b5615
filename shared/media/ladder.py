"""Rendition ladder: the available sizes of renditions, and the choice of sizes for a source video."""

from collections.abc import Iterable
from dataclasses import dataclass

SIZES = {"1080p": 1080, "720p": 720, "480p": 480, "360p": 360, "240p": 240}
"""Pixels of the short side, by name of the rendition. Thus portrait and landscape videos have the same quality."""

LONGEST_SIDE = 16_384
"""Maximum pixels of a side (x264's limit)."""


FULL_HD_BITS = 6_000_000
"""Maximum bits per second of a 1920x1080 rendition, including audio. `most_bits` derives the maximum of other sizes."""


@dataclass(frozen=True, slots=True)
class RenditionSize:
    """Size of one rendition in pixels. Width and height are even, because H.264 requires it."""

    name: str
    """Name in SIZES, such as `720p`."""
    width: int
    height: int


def select_renditions(width: int, height: int, names: Iterable[str]) -> list[RenditionSize]:
    """Return the sizes of the named renditions that are not larger than the source video, largest first.

    `width` and `height` are the displayed size of the source in pixels. If the source is smaller than all named
    renditions, return only the smallest rendition, in the source's size. Otherwise the video would have no rendition.
    """
    by_size = sorted(set(names), key=lambda name: -SIZES[name])
    short = min(width, height)
    chosen = [_rendition(name, width, height, SIZES[name]) for name in by_size if SIZES[name] <= short]
    return chosen or [_rendition(name, width, height, short) for name in by_size[-1:]]


def most_bits(width: int, height: int) -> int:
    """Return the maximum bits per second, including audio, of a rendition with this size in pixels.

    The rate is proportional to the number of pixels to the power of 0.75, because larger images need fewer bits per
    pixel. For example, 240p has 0.6 Mbit/s, and 720p has 3.3 Mbit/s.
    """
    bits: float = FULL_HD_BITS * (width * height / (1920 * 1080)) ** 0.75
    return round(bits)


def _rendition(name: str, width: int, height: int, short: int) -> RenditionSize:
    scale = min(short / min(width, height), LONGEST_SIDE / max(width, height))
    return RenditionSize(name, *(_even(side * scale) for side in (width, height)))


def _even(length: float) -> int:
    return max(2, 2 * round(length / 2))
