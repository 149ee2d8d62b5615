"""Reader process of shared.media.sandbox: `python -m shared.media.reader FD BYTES SECONDS`.

The process receives tasks and returns results over a connection, which has the file descriptor FD. It may allocate at
most BYTES of data. It ends if a task takes more than SECONDS, even if the parent process has died.
"""

import resource
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from shared.media import errors
from shared.media.errors import UnreadableVideo
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


class RemoteSource:
    """Source that requests its bytes from the parent process."""

    def __init__(self, connection: Connection, size: int) -> None:
        self._connection = connection
        self._size = size

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._size

    def read(self, start: int, length: int) -> bytes:
        """Return `length` bytes from the offset `start`, or fewer at the end."""
        return self.read_all([(start, length)])[0]

    def read_all(self, ranges: Sequence[Range]) -> list[bytes]:
        """Return the bytes of each range. The parent process fetches the ranges concurrently."""
        self._connection.send(("read", ranges))
        parts: list[bytes] = self._connection.recv()
        return parts


def run_task(task: str, source: RemoteSource, arguments: tuple[Any, ...]) -> tuple[str, object]:
    """Run one task, and return a pair of a word and a value.

    The pair is `done` with the result, `refused` with the fault of the file, or `failed` with a traceback.
    """
    try:
        return "done", TASKS[task](source, *arguments)
    except UnreadableVideo as error:
        return "refused", error.reason
    except MemoryError:
        return "refused", errors.TOO_MUCH_MEMORY
    except EOFError:
        raise  # the parent process has closed the connection
    except Exception:  # a bug, which the parent process logs
        return "failed", traceback.format_exc()


def main(arguments: list[str]) -> None:
    """Run tasks sequentially until the connection closes. `arguments` are FD, BYTES and SECONDS of the command line."""
    descriptor, memory, seconds = int(arguments[0]), int(arguments[1]), float(arguments[2])
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with Connection(descriptor) as connection:
        while True:
            task, size, more = connection.recv()
            signal.setitimer(signal.ITIMER_REAL, seconds)  # SIGALRM ends the process, even inside FFmpeg
            result = run_task(task, RemoteSource(connection, size), more)
            signal.setitimer(signal.ITIMER_REAL, 0)
            connection.send(result)
            del result


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (EOFError, BrokenPipeError):
        sys.exit(0)
