"""The program that reads films for shared.media.sandbox: `python -m shared.media.reader FD BYTES SECONDS`.

It answers over the connection FD, holds at most BYTES of data, and ends when a task takes more than SECONDS, also when
nobody waits for the answer any more.
"""

import resource
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from shared.media import errors
from shared.media.errors import UnreadableFilm
from shared.media.poster import poster
from shared.media.probe import probe
from shared.media.source import Range
from shared.media.storyboard import storyboard
from shared.media.subtitles import subtitles

TASKS: Mapping[str, Callable[..., object]] = {
    "probe": probe,
    "poster": poster,
    "storyboard": storyboard,
    "subtitles": subtitles,
}


class AskedSource:
    """Bytes of a film that the other end of the connection has."""

    def __init__(self, connection: Connection, size: int) -> None:
        self._connection = connection
        self._size = size

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return self._size

    def read(self, start: int, length: int) -> bytes:
        """Return the bytes from `start`."""
        return self.read_all([(start, length)])[0]

    def read_all(self, ranges: Sequence[Range]) -> list[bytes]:
        """Return the bytes of each range, which the other end reads side by side."""
        self._connection.send(("read", ranges))
        parts: list[bytes] = self._connection.recv()
        return parts


def answer(task: str, source: AskedSource, arguments: tuple[Any, ...]) -> tuple[str, object]:
    """Do one task: what came of it, or why nothing did."""
    try:
        return "done", TASKS[task](source, *arguments)
    except UnreadableFilm as error:
        return "refused", error.reason
    except MemoryError:
        return "refused", errors.TOO_MUCH_MEMORY
    except EOFError:
        raise  # nobody is there any more
    except Exception:  # a mistake of ours: sent to the other end, which logs it
        return "failed", traceback.format_exc()


def main(arguments: list[str]) -> None:
    """Do one task after the other until the connection ends."""
    descriptor, memory, seconds = int(arguments[0]), int(arguments[1]), float(arguments[2])
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with Connection(descriptor) as connection:
        while True:
            task, size, more = connection.recv()
            signal.setitimer(signal.ITIMER_REAL, seconds)  # its end ends the process, also in the midst of FFmpeg
            result = answer(task, AskedSource(connection, size), more)
            signal.setitimer(signal.ITIMER_REAL, 0)
            connection.send(result)
            del result


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (EOFError, BrokenPipeError):
        sys.exit(0)
