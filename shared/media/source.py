"""Where a film's bytes come from: anything that can hand out ranges, as the seekable file that FFmpeg wants."""

from collections import OrderedDict
from pathlib import Path
from typing import Protocol

BLOCK = 256 * 1024
"""One request's bytes: small enough for 2 % of a large film, large enough that a keyframe takes one or two."""

LARGEST_BLOCK = 8 * BLOCK
SEQUENTIAL = 4
CACHED_BYTES = 16 * BLOCK


class Source(Protocol):
    """Bytes that can be read by ranges, such as an object in S3."""

    @property
    def size(self) -> int:
        """How many bytes there are."""

    def read(self, start: int, length: int) -> bytes:
        """Return the bytes from `start`: `length` of them, or fewer at the end."""


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
    reads on and on gets ever larger ranges. Once the source failed, the file ends, and `failure` says why: FFmpeg takes
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
        self._run = self._run + 1 if position == self._last_end else 0
        block = min(LARGEST_BLOCK, BLOCK << max(0, self._run - SEQUENTIAL))
        # Not again what is there already: a reader that goes backwards meets the range it came from.
        ahead = min((start for start in self._ranges if start > position), default=self.size)
        try:
            data = self._source.read(position, min(block, ahead - position))
        except Exception as error:  # FFmpeg swallows what its reader raises, so it is kept for the caller
            self.failure = error
            return b""
        self.requests += 1
        self.fetched += len(data)
        self._last_end = position + len(data)
        self._ranges[position] = data
        self._kept += len(data)
        while self._kept > CACHED_BYTES and len(self._ranges) > 1:
            self._kept -= len(self._ranges.popitem(last=False)[1])
        return data
