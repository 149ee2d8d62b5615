"""Child processes that end with the program that started them, even if that program is killed."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

from local import ROOT


def spawn(
    module: str, *arguments: str, log: IO[bytes], env: Mapping[str, str], pass_fds: Sequence[int] = ()
) -> "subprocess.Popen[bytes]":
    """Start a Python module as a child process. The module must call `end_with_parent`.

    The child process inherits the file descriptors in `pass_fds`.
    """
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=env,
        pass_fds=pass_fds,
        stdin=subprocess.PIPE,  # EOF tells the child that the parent has ended
        stdout=log,
        stderr=subprocess.STDOUT,
        # A separate process group: Ctrl-C in the terminal reaches only the parent, which then stops children in order.
        # One signal to the group also reaches the processes that the child starts.
        start_new_session=True,
    )


def end(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    """End a process with SIGTERM, and kill its process group after `seconds` or when it has ended. Return whether the
    process ended in time."""
    try:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.poll() is not None
    finally:
        with suppress(ProcessLookupError, PermissionError):  # macOS raises PermissionError if only zombies are left
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def end_with_parent() -> None:
    """Send SIGTERM to this process as soon as its parent process ends, even by `kill -9`. Returns immediately."""

    def wait() -> None:
        while os.read(0, 1):  # not sys.stdin: Python would crash at exit while a thread reads it
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()
