"""Where a film's bytes come from: anything that can hand out ranges, as the seekable file that FFmpeg wants."""

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from shared.threads import map_threads

Range = tuple[int, int]
"""Where bytes begin, and how many there are."""

BLOCK = 256 * 1024
"""One request's bytes: small enough for 2 % of a large film, large enough that a keyframe takes one or two."""

LARGEST_BLOCK = 8 * BLOCK
SEQUENTIAL = 4
CACHED_BYTES = 32 * BLOCK
SIDE_BY_SIDE = 10
"""How many ranges are fetched at a time: botocore keeps as many connections."""
SIDE_BY_SIDE_BYTES = CACHED_BYTES // 2
"""What is fetched ahead: half of what is kept, so that the rest of the reading does not push it out."""


class Source(Protocol):
    """Bytes that can be read by ranges, such as an object in S3, and by several threads at a time."""

    @property
    def size(self) -> int:
        """How many bytes there are."""

    def read(self, start: int, length: int) -> bytes:
        """Return the bytes from `start`: `length` of them, or fewer at the end."""


@runtime_checkable
class RangesSource(Source, Protocol):
    """A source that has its own way of reading several ranges at a time."""

    def read_all(self, ranges: Sequence[Range]) -> list[bytes]:
        """Return the bytes of each range, as `read` does."""


def read_all(source: Source, ranges: Sequence[Range]) -> list[bytes]:
    """Return the bytes of each range, fetched side by side: what takes long is the wait for an answer."""
    if isinstance(source, RangesSource):
        return source.read_all(ranges)
    if len(ranges) == 1:
        return [source.read(*ranges[0])]
    return map_threads(lambda wanted: source.read(*wanted), ranges, SIDE_BY_SIDE)


class BytesSource:
    """Bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return len(self._data)

    def read(self, start: int, length: int) -> bytes:
        """Return the bytes from `start`."""
        return self._data[start : start + length]


class FileSource:
    """A file on this machine."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._size = self._path.stat().st_size

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return self._size

    def read(self, start: int, length: int) -> bytes:
        """Return the bytes from `start`."""
        with self._path.open("rb") as file:
            file.seek(start)
            return file.read(length)


class SourceFile:
    """A source as a read-only file, which keeps the ranges it read last.

    A range starts where the reader asked, not at a multiple of a block: a keyframe then seldom takes two requests. Who
    reads on and on gets ever larger ranges, and who says what it will read gets just that, side by side. Once the source failed, the file ends, and `failure` says why: FFmpeg takes
    an error for the end of the file anyway, so whoever drives it must ask.
    """

    def __init__(self, source: Source) -> None:
        self.size = source.size
        self.failure: Exception | None = None
        self.requests = 0
        self.fetched = 0
        self._source = source
        self._position = 0
        self._ranges: OrderedDict[int, bytes] = OrderedDict()
        self._kept = 0
        self._last_end = -1
        self._run = 0
        self._expected: list[Range] = []

    def expect(self, ranges: Sequence[Range]) -> None:
        """Say what will be read, in order: the first that is missing is fetched together with those that follow it.

        Ranges may come from a damaged index: those that lie outside of the file are left out.
        """
        self._expected = [(start, length) for start, length in ranges if 0 <= start < self.size and length > 0]

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to a position, which may lie behind the end."""
        base = (0, self._position, self.size)[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def read(self, length: int = -1) -> bytes:
        """Return the bytes at the position, `length` at most; none at the end."""
        left = max(0, self.size - self._position)
        wanted = left if length < 0 else min(length, left)
        parts = []
        while wanted > 0:
            part = self._at(self._position, wanted)
            if not part:
                break
            parts.append(part)
            self._position += len(part)
            wanted -= len(part)
        return b"".join(parts)

    def peek(self, start: int, length: int) -> bytes:
        """Return the bytes from `start` without moving."""
        before, self._position = self._position, start
        try:
            return self.read(length)
        finally:
            self._position = before

    def _at(self, position: int, length: int) -> bytes:
        for start, data in self._ranges.items():
            if start <= position < start + len(data):
                self._ranges.move_to_end(start)
                return data[position - start : position - start + length]
        return self._fetch(position)[:length]

    def _fetch(self, position: int) -> bytes:
        if self.failure is not None:
            return b""
        ranges = self._due(position) or [(position, self._block(position))]
        try:
            parts = read_all(self._source, ranges)
        except Exception as error:  # FFmpeg swallows what its reader raises, so it is kept for the caller
            self.failure = error
            return b""
        for (start, _), data in zip(ranges, parts, strict=True):
            self.requests += 1
            self.fetched += len(data)
            self._kept += len(data) - len(self._ranges.get(start, b""))
            self._ranges[start] = data
        self._last_end = position + len(parts[0])
        while self._kept > CACHED_BYTES and len(self._ranges) > 1:
            self._kept -= len(self._ranges.popitem(last=False)[1])
        return parts[0]

    def _block(self, position: int) -> int:
        self._run = self._run + 1 if position == self._last_end else 0
        block = min(LARGEST_BLOCK, BLOCK << max(0, self._run - SEQUENTIAL))
        # Not again what is there already: a reader that goes backwards meets the range it came from.
        ahead = min((start for start in self._ranges if start > position), default=self.size)
        return min(block, ahead - position)

    def _due(self, position: int) -> list[Range]:
        """Return what was said to be read from a position on, as much as is fetched at a time; none is returned twice."""
        for number, (start, length) in enumerate(self._expected):
            if start <= position < start + length:
                due, left = [(position, start + length - position)], SIDE_BY_SIDE_BYTES - length
                for later in self._expected[number + 1 :]:
                    left -= later[1]
                    if left < 0:
                        break
                    due.append(later)
                self._expected = self._expected[number + len(due) :]
                return due
        return []
