"""The renditions that can be made, and which of them suit a film."""

from collections.abc import Iterable
from dataclasses import dataclass

SIZES = {"1080p": 1080, "720p": 720, "480p": 480, "360p": 360, "240p": 240}
"""Names of renditions, and the pixels of their short side: an upright film of a phone is as good as one on its side."""

LONGEST_SIDE = 16_384
"""Pixels: x264 takes no more."""


FULL_HD_BITS = 6_000_000
"""Bits a second, sound included, that a rendition of 1920x1080 has at most; smaller ones have fewer."""


@dataclass(frozen=True, slots=True)
class Rendition:
    """One size to make of a film; both sides are even, as H.264 needs them."""

    name: str
    width: int
    height: int


def wanted(width: int, height: int, names: Iterable[str]) -> list[Rendition]:
    """Choose from the named renditions those that are not larger than the film, the largest first.

    A film that is smaller than all of them gets the smallest in its own size: it must have one that plays.
    """
    asked = sorted(set(names), key=lambda name: -SIZES[name])
    short = min(width, height)
    chosen = [_rendition(name, width, height, SIZES[name]) for name in asked if SIZES[name] <= short]
    return chosen or [_rendition(name, width, height, short) for name in asked[-1:]]


def most_bits(width: int, height: int) -> int:
    """Return how many bits a second a rendition of that many pixels has at most, sound included.

    The rate grows with the pixels to the power of 0.75, as larger pictures take fewer bits a pixel: 240p has 0.6
    million, 720p 3.3 million.
    """
    bits: float = FULL_HD_BITS * (width * height / (1920 * 1080)) ** 0.75
    return round(bits)


def _rendition(name: str, width: int, height: int, short: int) -> Rendition:
    scale = min(short / min(width, height), LONGEST_SIDE / max(width, height))
    return Rendition(name, *(_even(side * scale) for side in (width, height)))


def _even(length: float) -> int:
    return max(2, 2 * round(length / 2))
