"""Sources that count the bytes read, or fail."""

import io
from dataclasses import replace
from threading import Barrier

from PIL import Image

from shared.media.results import MediaInfo, Poster
from shared.media.source import BytesSource
from tests.polling import LIMIT


class CountingSource(BytesSource):
    """Bytes that remember each request."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.requests: list[tuple[int, int]] = []

    def read(self, start: int, length: int) -> bytes:
        """Return the bytes from `start`."""
        data = super().read(start, length)
        self.requests.append((start, len(data)))
        return data

    @property
    def fraction_read(self) -> float:
        """Return the fraction of the bytes that was fetched."""
        return sum(length for _, length in self.requests) / self.size


class BarrierSource(CountingSource):
    """Bytes whose requests behind `start` wait until `number` of them are in flight."""

    def __init__(self, data: bytes, start: int, number: int) -> None:
        super().__init__(data)
        self._start = start
        self._barrier = Barrier(number, timeout=LIMIT)

    def read(self, start: int, length: int) -> bytes:
        """Return the bytes from `start`, once the others wait too; fails if they do not arrive in time."""
        if start > self._start:
            self._barrier.wait()
        return super().read(start, length)


def as_large(facts: MediaInfo, minutes: float) -> MediaInfo:
    """Give a film the facts of one with the pictures of `minutes` minutes of 1080p at 30 frames a second."""
    rate = minutes * 60_000 * 30 / facts.duration
    return replace(facts, coded_width=1920, coded_height=1080, frame_rate=rate)


class SourceThrottled(OSError):
    """Error that a store might raise."""


class FailingSource(CountingSource):
    """Bytes whose request number `at` fails, and works no more."""

    def __init__(self, data: bytes, at: int) -> None:
        super().__init__(data)
        self.at = at

    def read(self, start: int, length: int) -> bytes:
        """Return the bytes from `start`, or fail."""
        if len(self.requests) >= self.at:
            raise SourceThrottled("slow down")
        return super().read(start, length)


def picture(poster: Poster, suffix: str = "jpg") -> Image.Image:
    """Open a poster's largest picture."""
    data = next(variant.data for variant in reversed(poster.pictures) if variant.name.endswith(suffix))
    return Image.open(io.BytesIO(data)).convert("RGB")


def colour(image: Image.Image, across: float, down: float) -> tuple[int, int, int]:
    """Return an image's colour at a place, given as parts of its width and height."""
    pixel = image.getpixel((int(image.width * across), int(image.height * down)))
    assert isinstance(pixel, tuple)
    red, green, blue = (round(channel) for channel in pixel)
    return red, green, blue


def near(one: tuple[int, ...], other: tuple[int, ...], by: int = 8) -> bool:
    """Whether two colours look the same."""
    return all(abs(a - b) <= by for a, b in zip(one, other, strict=True))
