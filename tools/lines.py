"""Reader of lines from plain and gzip files. It distinguishes truncated files from corrupt files."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tools import ToolError

LONGEST_LINE = 1 << 20
"""Maximum bytes of a line. A damaged file may have lines of any length."""

_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CHUNK = 1 << 20
"""Maximum number of bytes that `check` unpacks per read."""
_LINES_SKIPPED = 10_000
"""Number of lines between two calls of `skipped`, while `read_lines` skips the lines up to the checkpoint."""


class Damaged(ToolError):
    """Error for a truncated file. The reader has yielded all complete lines before the end, and they are valid."""


class Corrupt(ToolError):
    """Error for a file that cannot be unpacked, or that does not match its checksum. None of its lines are reliable."""


class OtherFile(Exception):
    """Error for a checkpoint that was recorded for a file with other content."""


@dataclass(frozen=True)
class LineCheckpoint:
    """Position in a file after a line: the line's number, from 1, and the CRC-32 of all bytes up to the line's end."""

    line: int = 0
    checksum: int = 0


@dataclass(frozen=True)
class Line:
    """A line without line ending. The content is `None` if the line is longer than LONGEST_LINE."""

    mark: LineCheckpoint
    content: bytes | None
    position: int = 0
    """Offset of the line's end in the unpacked file, in bytes."""


def read_lines(
    path: Path, after: LineCheckpoint = LineCheckpoint(), skipped: Callable[[int], object] = lambda position: None
) -> Iterator[Line]:
    """Yield the lines after a checkpoint, without a byte-order mark.

    While the reader skips the lines before the checkpoint, it calls `skipped` with the number of unpacked bytes read so
    far. Raises Damaged at the end of a truncated file, and Corrupt if the file cannot be unpacked. Raises OtherFile if
    the checkpoint belongs to another file.
    """
    number, checksum = 0, 0
    with _opened(path) as raw, _unpacked(raw) as file:
        while True:
            try:
                content, checksum, ended = _line(file, checksum)
            except _UNPACKING as error:
                if _is_cut_off(error):
                    raise Damaged(
                        f"{path.name} is truncated after line {number}. The complete lines before were processed."
                    ) from error
                raise _corrupt(path, error) from error
            if content == b"" and not ended:
                break
            if not ended:
                raise Damaged(
                    f"{path.name} is truncated within line {number + 1}. The complete lines before were processed."
                )
            number += 1
            if number == 1 and content:
                content = content.removeprefix(_BYTE_ORDER_MARK)
            mark = LineCheckpoint(number, checksum)
            if number == after.line or (number < after.line and number % _LINES_SKIPPED == 0):
                skipped(file.tell())
            if number == after.line and mark != after:
                raise OtherFile
            if number > after.line:
                yield Line(mark, content, file.tell())
    if number < after.line:
        raise OtherFile


def check(path: Path, progress: Callable[[int], object] = lambda position: None) -> int:
    """Verify a gzip file, and return its unpacked size in bytes. Raises Corrupt if the file cannot be unpacked.

    Truncation is not an error, because the lines before the end are valid. A plain file has no checksum to verify.
    `progress` receives the number of bytes that were read from disk so far.
    """
    size, unpacked = path.stat().st_size, 0
    with _opened(path) as raw, _unpacked(raw) as file:
        if file is raw:
            unpacked = size
        else:
            try:
                while chunk := file.read(_CHUNK):
                    unpacked += len(chunk)
                    progress(raw.tell())
            except _UNPACKING as error:
                if not _is_cut_off(error):
                    raise _corrupt(path, error) from error
    progress(size)
    return unpacked


_UNPACKING = (EOFError, zlib.error, gzip.BadGzipFile)


def _is_cut_off(error: Exception) -> bool:
    # A single byte of the two-byte magic number is a truncated header, not an invalid one.
    return isinstance(error, EOFError) or str(error) == f"Not a gzipped file ({_GZIP[:1]!r})"


def _corrupt(path: Path, error: Exception) -> Corrupt:
    advice = "all its lines are unreliable. Download the file again."
    if "CRC" in str(error) or "Incorrect length" in str(error):
        return Corrupt(f"{path.name} does not match its checksum, so {advice}")
    with _opened(path) as raw:
        if raw.read(len(_GZIP)) != _GZIP:
            return Corrupt(f"{path.name} is not a gzip file, although its name ends in .gz.")
    return Corrupt(f"{path.name} is damaged and cannot be unpacked, so {advice}")


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise ToolError(f"{path} cannot be read: {error.strerror}.") from error


def _unpacked(raw: IO[bytes]) -> IO[bytes]:
    magic = raw.read(len(_GZIP))
    raw.seek(0)
    named_so = Path(raw.name).suffix == ".gz"
    return gzip.GzipFile(fileobj=raw) if named_so or magic == _GZIP else raw  # type: ignore[return-value]


def _line(file: IO[bytes], checksum: int) -> tuple[bytes | None, int, bool]:
    """Read one line. Returns the content, the checksum of the file so far, and whether the line has an end.

    The content is `None` if the line is longer than LONGEST_LINE.
    """
    content = file.readline(LONGEST_LINE)
    checksum = zlib.crc32(content, checksum)
    if content.endswith(b"\n"):
        return content[:-1].removesuffix(b"\r"), checksum, True
    if len(content) < LONGEST_LINE:
        return content, checksum, False
    while content and not content.endswith(b"\n"):
        content = file.readline(LONGEST_LINE)
        checksum = zlib.crc32(content, checksum)
    return None, checksum, content.endswith(b"\n")
