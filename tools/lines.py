"""Files of lines, plain or gzip, read as a stream: damaged lines are distinguished from whole ones."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tools import ToolError

LONGEST_LINE = 1 << 20
"""Bytes; a damaged file can hold a line of any length."""

_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CHUNK = 1 << 20
"""Bytes unpacked at a time where lines do not matter."""
_LINES_SKIPPED = 10_000
"""Lines that were carried out before, after which it is said how far the reading is."""


class Damaged(ToolError):
    """The file ends too early; what came before was handed out, and is as it was written."""


class Corrupt(ToolError):
    """The file cannot be unpacked, or not to what it was made of: none of its lines can be relied on."""


class OtherFile(Exception):
    """The file does not begin as it did when its mark was made."""


@dataclass(frozen=True)
class LineCheckpoint:
    """How far a file has been read: the number of the last line, from 1, and the CRC-32 of all up to its end."""

    line: int = 0
    checksum: int = 0


@dataclass(frozen=True)
class Line:
    """One line, without its end; None for one longer than LONGEST_LINE."""

    mark: LineCheckpoint
    content: bytes | None
    position: int = 0
    """Bytes of the unpacked file up to its end."""


def read_lines(
    path: Path, after: LineCheckpoint = LineCheckpoint(), skipped: Callable[[int], object] = lambda position: None
) -> Iterator[Line]:
    """The lines after a mark, without a byte-order mark.

    Raises Damaged where the file is cut off, Corrupt, and OtherFile when the mark is another file's. `skipped` is
    called now and then on the way to the mark, with the bytes of the unpacked file that were read.
    """
    number, checksum = 0, 0
    with _opened(path) as raw, _unpacked(raw) as file:
        while True:
            try:
                content, checksum, ended = _line(file, checksum)
            except _UNPACKING as error:
                if _is_cut_off(error):
                    raise Damaged(
                        f"{path.name} is cut off after line {number}: what was whole before is kept."
                    ) from error
                raise _corrupt(path, error) from error
            if content == b"" and not ended:
                break
            if not ended:
                raise Damaged(f"{path.name} ends within line {number + 1}: it was cut off; what was whole is kept.")
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
    """Read a packed file through, and return how many bytes it unpacks to; raises Corrupt.

    That it was cut off is not a fault here: what it has left is right. A plain file has nothing to be checked.
    `progress` is called with the bytes of the file read, as they lie on the disk.
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
    # Half of a member's first two bytes is not a header, but the beginning of one.
    return isinstance(error, EOFError) or str(error) == f"Not a gzipped file ({_GZIP[:1]!r})"


def _corrupt(path: Path, error: Exception) -> Corrupt:
    advice = "any of its lines may be wrong; get the file again."
    if "CRC" in str(error) or "Incorrect length" in str(error):
        return Corrupt(f"{path.name} does not match its checksum: {advice}")
    with _opened(path) as raw:
        if raw.read(len(_GZIP)) != _GZIP:
            return Corrupt(f"{path.name} is not a gzip file, though its name says so.")
    return Corrupt(f"{path.name} is damaged and cannot be unpacked: {advice}")


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
    """One line, the checksum with it, and whether it has an end."""
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
