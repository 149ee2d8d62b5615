"""Sandbox for decoding: reads source files in a subprocess with limits on time and memory.

FFmpeg takes memory sizes and loop counts from the file, and some files crash it. Limits on a separate process work for
all formats, and a crash does not end the worker.

The worker starts the subprocess once, to read many files. After any failure, the worker replaces the subprocess, and so
frees all memory of the subprocess. The subprocess requests the file's bytes from the worker, and needs neither network
nor credentials.

The sandbox limits resources, but is not a security boundary. The subprocess runs as the same user, and the worker
unpickles the results.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from multiprocessing.connection import Connection, Pipe
from typing import Any, Self

from shared.media import errors
from shared.media.errors import UnreadableVideo
from shared.media.source import Source, read_all

LONGEST_SECONDS = 100.0
"""Maximum seconds of one task, including reads. It is less than the timeout of every function that runs tasks."""
MAX_MEMORY = 800 << 20
"""Maximum bytes of data that the subprocess may allocate (RLIMIT_DATA, which macOS does not enforce)."""
WORKER_MB = 224
"""Megabytes of the function's memory that the subprocess cannot use for data. The worker and the code of both processes
need this memory."""

ENDING_SECONDS = 10.0
"""Maximum seconds to wait until the subprocess has ended.

If the worker has died, the subprocess ends itself this many seconds after the time limit of its task."""

_ENDED_FROM_OUTSIDE = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP})


class ReaderFailed(Exception):
    """The subprocess ended or failed for a reason other than the file. A retry may succeed."""


class Sandbox:
    """Runner of tasks in a subprocess. A task reads one source file.

    `seconds` is the maximum time of a task, and `memory` the maximum bytes of data of the subprocess. `clock` is a
    monotonic clock in seconds.

        info = Sandbox.within(1024).run("probe", FileSource("video.mp4"))
    """

    def __init__(
        self,
        *,
        seconds: float = LONGEST_SECONDS,
        memory: int = MAX_MEMORY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._memory = memory
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    @classmethod
    @cache
    def within(cls, memory_mb: int) -> Self:
        """Return the sandbox of this process. `memory_mb` is the memory of the Lambda function in megabytes."""
        return cls(memory=(memory_mb - WORKER_MB) << 20)

    def run(self, task: str, source: Source, *arguments: object) -> Any:
        """Run a task of `shared/media/reader.py`, such as `probe`, and return the result.

        Raises UnreadableVideo if the file is invalid, exceeds the time or memory limit, or crashes the subprocess. A
        retry would fail again, unless the error is TOO_SLOW. Raises the errors of `source`, and ReaderFailed for other
        failures.
        """
        deadline = self._clock() + self._seconds
        is_well = False
        try:
            connection = self._started()
            self._send(connection, (task, source.size, arguments))
            while True:
                word, *content = self._receive(connection, deadline)
                match word:
                    case "read":
                        self._send(connection, read_all(source, *content))
                    case "done":
                        is_well = True
                        return content[0]
                    case "refused":
                        raise UnreadableVideo(content[0])
                    case _:
                        raise ReaderFailed(content[0])
        finally:
            if not is_well:
                self.close()

    def close(self) -> None:
        """End the subprocess, if it is running. The next task starts another one."""
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

    def _receive(self, connection: Connection, deadline: float) -> Any:
        remaining = deadline - self._clock()
        if remaining <= 0 or not connection.poll(remaining):
            raise UnreadableVideo(errors.TOO_SLOW)
        try:
            return connection.recv()
        except (EOFError, ConnectionError):
            raise self._reason() from None

    def _reason(self) -> Exception:
        """Return the error that explains why the subprocess ended: time limit, crash, or a signal from outside."""
        if self._process is None:
            raise RuntimeError("The reader was not started")
        status = self._process.wait(ENDING_SECONDS)
        if status == -signal.SIGALRM:
            return UnreadableVideo(errors.TOO_SLOW)
        if status >= 0 or -status in _ENDED_FROM_OUTSIDE:
            return ReaderFailed(f"the reader ended with status {status}")
        return UnreadableVideo(errors.CRASHES)

    def _started(self) -> Connection:
        if self._process is not None and self._process.poll() is not None:
            self.close()  # the subprocess ended while it was idle
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
    """Return the environment variables of the subprocess.

    They include the import path of this process, but no credentials.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return environment | {"PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)}
