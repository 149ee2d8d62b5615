"""Sources that record, delay or fail requests, and helpers that compare pictures."""

import io
from dataclasses import replace
from threading import Barrier

from PIL import Image

from shared.media.results import MediaInfo, Poster
from shared.media.source import BytesSource
from tests.polling import LIMIT


class CountingSource(BytesSource):
    """Source that records the start and length of each request."""

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
        """Return the fetched bytes as a fraction of the file's size. It exceeds 1 if bytes are fetched repeatedly."""
        return sum(length for _, length in self.requests) / self.size


class BarrierSource(CountingSource):
    """Source whose requests after the byte `start` wait until `number` of them are in flight."""

    def __init__(self, data: bytes, start: int, number: int) -> None:
        super().__init__(data)
        self._start = start
        self._barrier = Barrier(number, timeout=LIMIT)

    def read(self, start: int, length: int) -> bytes:
        """Return the bytes from `start`. Fails if too few concurrent requests arrive in time."""
        if start > self._start:
            self._barrier.wait()
        return super().read(start, length)


def as_large(facts: MediaInfo, minutes: float) -> MediaInfo:
    """Return facts that claim as many pixels as `minutes` minutes of 1080p video at 30 frames per second.

    The media code then treats a small test file as a large file.
    """
    rate = minutes * 60_000 * 30 / facts.duration
    return replace(facts, coded_width=1920, coded_height=1080, frame_rate=rate)


class SourceThrottled(OSError):
    """Error of FailingSource, in place of an error that S3 might return."""


class FailingSource(CountingSource):
    """Source that serves `at` requests. All later requests raise SourceThrottled."""

    def __init__(self, data: bytes, at: int) -> None:
        super().__init__(data)
        self.at = at

    def read(self, start: int, length: int) -> bytes:
        """Return the bytes from `start`, or raise SourceThrottled."""
        if len(self.requests) >= self.at:
            raise SourceThrottled("slow down")
        return super().read(start, length)


def picture(poster: Poster, suffix: str = "jpg") -> Image.Image:
    """Return a poster's largest picture with a file name that ends in `suffix`."""
    data = next(variant.data for variant in reversed(poster.pictures) if variant.name.endswith(suffix))
    return Image.open(io.BytesIO(data)).convert("RGB")


def colour(image: Image.Image, x: float, y: float) -> tuple[int, int, int]:
    """Return the colour of a pixel. Its coordinates are fractions of the width and the height, from 0 to 1."""
    pixel = image.getpixel((int(image.width * x), int(image.height * y)))
    assert isinstance(pixel, tuple)
    red, green, blue = (round(channel) for channel in pixel)
    return red, green, blue


def near(one: tuple[int, ...], other: tuple[int, ...], tolerance: int = 8) -> bool:
    """Return whether two colours differ by at most the tolerance in each channel."""
    return all(abs(a - b) <= tolerance for a, b in zip(one, other, strict=True))
