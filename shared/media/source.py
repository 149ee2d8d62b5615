"""Byte sources of video files, and an adapter from byte ranges to the seekable file that FFmpeg needs."""

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from shared.threads import map_threads

Range = tuple[int, int]
"""Offset and length in bytes."""

BLOCK = 256 * 1024
"""Bytes of one request, except in sequential reads. With this size, a job reads about 2 % of a large file. A keyframe
takes one or two requests."""

LARGEST_BLOCK = 8 * BLOCK
"""Maximum bytes of one request during sequential reads."""
SEQUENTIAL = 4
"""Number of sequential requests before the request size begins to double."""
CACHED_BYTES = 32 * BLOCK
"""Maximum bytes of the cached ranges."""
CONCURRENCY = 10
"""Maximum number of concurrent requests, which is the size of botocore's connection pool."""
CONCURRENT_BYTES = CACHED_BYTES // 2
"""Maximum bytes to prefetch: half of the cache, because other reads must not evict prefetched ranges."""


class Source(Protocol):
    """Bytes that can be read by range, such as an S3 object. Implementations must be thread-safe."""

    @property
    def size(self) -> int:
        """Size in bytes."""

    def read(self, start: int, length: int) -> bytes:
        """Return `length` bytes from the offset `start`, or fewer at the end."""


@runtime_checkable
class RangesSource(Source, Protocol):
    """Source that has its own method to read several ranges concurrently."""

    def read_all(self, ranges: Sequence[Range]) -> list[bytes]:
        """Return the bytes of each range, in the order of `ranges`."""


def read_all(source: Source, ranges: Sequence[Range]) -> list[bytes]:
    """Read ranges of a source concurrently, and return the bytes of each range, in the order of `ranges`."""
    if isinstance(source, RangesSource):
        return source.read_all(ranges)
    if len(ranges) == 1:
        return [source.read(*ranges[0])]
    return map_threads(lambda range_: source.read(*range_), ranges, CONCURRENCY)


class BytesSource:
    """Source with its bytes in memory, for tests."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size(self) -> int:
        """Size in bytes."""
        return len(self._data)

    def read(self, start: int, length: int) -> bytes:
        """Return `length` bytes from `start`, or fewer at the end."""
        return self._data[start : start + length]


class FileSource:
    """Source that reads a local file."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._size = self._path.stat().st_size

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._size

    def read(self, start: int, length: int) -> bytes:
        """Return `length` bytes from `start`, or fewer at the end."""
        with self._path.open("rb") as file:
            file.seek(start)
            return file.read(length)


class SourceFile:
    """Read-only file object for a source, with a cache of the most recently read ranges.

    A request starts at the offset of the read, not at a block boundary. Therefore a keyframe rarely takes two requests.
    Sequential reads fetch increasingly large ranges. Ranges announced with `expect` are fetched concurrently, without
    other bytes.

    After an error of the source, reads return no bytes, and the attribute `failure` has the error. Callers must check
    `failure`, because FFmpeg treats an error as the end of the file.
    """

    def __init__(self, source: Source) -> None:
        self.size = source.size
        self.failure: Exception | None = None
        self.requests = 0
        self.fetched = 0
        self._source = source
        self._position = 0
        self._ranges: OrderedDict[int, bytes] = OrderedDict()
        self._cached_bytes = 0
        self._last_end = -1
        self._run = 0
        self._expected: list[Range] = []

    def expect(self, ranges: Sequence[Range]) -> None:
        """Announce ranges that FFmpeg will read, in this order. When one of these ranges is read, the following ranges
        are also fetched.

        Ignores ranges outside of the file, which come from a damaged index of the video file.
        """
        self._expected = [(start, length) for start, length in ranges if 0 <= start < self.size and length > 0]

    def seek(self, offset: int, whence: int = 0) -> int:
        """Set and return the current offset, which may exceed the size. `whence` is as in `io.IOBase.seek`."""
        base = (0, self._position, self.size)[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        """Return the current offset."""
        return self._position

    def read(self, length: int = -1) -> bytes:
        """Return at most `length` bytes from the current offset, or all remaining bytes if `length` is negative."""
        remaining = max(0, self.size - self._position)
        missing = remaining if length < 0 else min(length, remaining)
        parts = []
        while missing > 0:
            part = self._at(self._position, missing)
            if not part:
                break
            parts.append(part)
            self._position += len(part)
            missing -= len(part)
        return b"".join(parts)

    def peek(self, start: int, length: int) -> bytes:
        """Return at most `length` bytes from the offset `start`, without changing the current offset."""
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
        except Exception as error:  # FFmpeg swallows errors of its reader, so the error is stored for the caller
            self.failure = error
            return b""
        for (start, _), data in zip(ranges, parts, strict=True):
            self.requests += 1
            self.fetched += len(data)
            self._cached_bytes += len(data) - len(self._ranges.get(start, b""))
            self._ranges[start] = data
        self._last_end = position + len(parts[0])
        while self._cached_bytes > CACHED_BYTES and len(self._ranges) > 1:
            self._cached_bytes -= len(self._ranges.popitem(last=False)[1])
        return parts[0]

    def _block(self, position: int) -> int:
        self._run = self._run + 1 if position == self._last_end else 0
        block = min(LARGEST_BLOCK, BLOCK << max(0, self._run - SEQUENTIAL))
        # The request ends at the next cached range, which a reader that moves backwards has read before.
        ahead = min((start for start in self._ranges if start > position), default=self.size)
        return min(block, ahead - position)

    def _due(self, position: int) -> list[Range]:
        """Return the announced range that contains `position`, and the following ranges up to the prefetch limit.

        Each announced range is returned only once. Returns an empty list if no announced range contains the position.
        """
        for number, (start, length) in enumerate(self._expected):
            if start <= position < start + length:
                due, budget = [(position, start + length - position)], CONCURRENT_BYTES - length
                for later in self._expected[number + 1 :]:
                    budget -= later[1]
                    if budget < 0:
                        break
                    due.append(later)
                self._expected = self._expected[number + len(due) :]
                return due
        return []
