"""Processes of our own that never outlive the program that started them, even when that is killed."""

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
    """Start a module as a program, which must call `end_with_parent`; it inherits the descriptors in `pass_fds`."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=env,
        pass_fds=pass_fds,
        stdin=subprocess.PIPE,  # its end shows the child that we are gone
        stdout=log,
        stderr=subprocess.STDOUT,
        # A group of its own: Ctrl-C in the terminal reaches us only, so that we can stop things in order,
        # and one signal reaches whatever it starts itself.
        start_new_session=True,
    )


def end(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    """Ask a process to end, wait `seconds`, then kill it and every process it left; whether it ended in that time."""
    try:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.poll() is not None
    finally:
        with suppress(ProcessLookupError, PermissionError):  # the latter when only zombies are left, on macOS
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def end_with_parent() -> None:
    """In the child: get a SIGTERM when the parent is gone, even by `kill -9`."""

    def wait() -> None:
        while os.read(0, 1):  # not sys.stdin: the interpreter crashes at its end when a thread waits in there
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()
