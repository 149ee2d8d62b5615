"""Reads films in a process of its own: no film takes more than its time and memory, or takes the worker down with it.

FFmpeg takes memory by the numbers that a film states, loops over them, and crashes on some: only a process can be held
to a limit in all formats alike. It is started once and reads film after film; one that it did not bear well is its last,
which frees whatever it took. It asks for the film's bytes, and needs neither network nor credentials. It is a limit and not a
wall: it runs as the same user, and what it sends is unpickled here.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from typing import Any, Self

from shared.media import errors
from shared.media.errors import UnreadableFilm
from shared.media.source import Source, read_all

LONGEST_SECONDS = 100.0
"""What one task may take, reading included: less than any function that waits for it may run."""
MOST_MEMORY = 800 << 20
"""Bytes of data that the reader may hold (RLIMIT_DATA; macOS does not enforce it)."""
WORKER_MB = 224
"""Memory of the function that hands films to the reader, including the code of both, in megabytes."""

ENDING_SECONDS = 10.0
"""What a process that ends may take for that; and how much longer than its task a reader lives that nobody waits for."""

_ENDED_FROM_OUTSIDE = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP})


class ReaderFailed(Exception):
    """The reader ended, or failed through no fault of the film; try again."""


class Sandbox:
    """Runs tasks on films in a process of their own; `clock` gives seconds that only go forward.

    What a source raises comes out as it is. Raises UnreadableFilm also for a film that takes too long or too much memory,
    or makes the reader crash: it would again. Raises ReaderFailed for everything else.
    """

    def __init__(
        self,
        *,
        seconds: float = LONGEST_SECONDS,
        memory: int = MOST_MEMORY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._memory = memory
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    @classmethod
    def within(cls, memory_mb: int) -> Self:
        """Return a reader for a Lambda function with this much memory, in megabytes."""
        return cls(memory=(memory_mb - WORKER_MB) << 20)

    def run(self, task: str, source: Source, *arguments: object) -> Any:
        """Return the result of a task of `shared/media/reader.py`; the class says what is raised."""
        deadline = self._clock() + self._seconds
        is_well = False
        try:
            connection = self._started()
            self._send(connection, (task, source.size, arguments))
            while True:
                word, *content = self._answer(connection, deadline)
                match word:
                    case "read":
                        self._send(connection, read_all(source, *content))
                    case "done":
                        is_well = True
                        return content[0]
                    case "refused":
                        raise UnreadableFilm(content[0])
                    case _:
                        raise ReaderFailed(content[0])
        finally:
            if not is_well:
                self.close()

    def close(self) -> None:
        """End the process, if there is one; the next task starts another."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if connection is not None:
            connection.close()
        if process is not None:
            process.kill()
            process.wait()

    def _send(self, connection: Connection, content: object) -> None:
        try:
            connection.send(content)
        except ConnectionError:
            raise self._reason() from None

    def _answer(self, connection: Connection, deadline: float) -> Any:
        left = deadline - self._clock()
        if left <= 0 or not connection.poll(left):
            raise UnreadableFilm(errors.TOO_SLOW)
        try:
            return connection.recv()
        except (EOFError, ConnectionError):
            raise self._reason() from None

    def _reason(self) -> Exception:
        """Why the process ended, now that its end of the connection is closed."""
        if self._process is None:
            raise RuntimeError("The reader was not started")
        status = self._process.wait(ENDING_SECONDS)
        if status == -signal.SIGALRM:
            return UnreadableFilm(errors.TOO_SLOW)
        if status >= 0 or -status in _ENDED_FROM_OUTSIDE:
            return ReaderFailed(f"the reader ended with status {status}")
        return UnreadableFilm(errors.CRASHES)

    def _started(self) -> Connection:
        if self._process is not None and self._process.poll() is not None:
            self.close()  # it died while there was nothing to do
        if self._connection is not None:
            return self._connection
        ours, theirs = Pipe()
        with theirs:
            limits = str(self._memory), str(self._seconds + ENDING_SECONDS)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "shared.media.reader", str(theirs.fileno()), *limits],
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._connection = ours
        return ours


def _environment() -> dict[str, str]:
    """What the reader has to know: where this process imports from, and no credentials."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return kept | {"PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)}
