"""MiniStack, the embedded AWS, as a process of its own that never outlives the program that started it."""

import http.client
import json
import os
import runpy
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from local import LocalError, write_private
from local.child import end, end_with_parent, spawn
from local.ports import LOOPBACK, is_taken

START_SECONDS = 60.0
STOP_SECONDS = 60.0
"""MiniStack saves its state while it stops; killed before it is done, what was written since the start is lost."""
FORGET_SECONDS = 2.0
"""For one that keeps nothing. It would wait a long time for connections that are still open."""


class MiniStack:
    """Runs MiniStack on loopback for as long as the `with` block lasts.

    `state` is the directory its data survives in; without one, everything is forgotten.
    Raises LocalError on entry when it does not come up; the message shows the end of its log.
    """

    def __init__(self, port: int, log: Path, state: Path | None = None) -> None:
        self.port = port
        self.log = log
        self.state = state
        self.endpoint = f"http://{LOOPBACK}:{port}"
        self._scratch = log.parent / "tmp"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if is_taken(self.port):  # else whatever answers there would be mistaken for ours
            raise LocalError(f"MiniStack cannot start: port {self.port} is taken.")
        shutil.rmtree(self._scratch, ignore_errors=True)  # left by one that was killed
        self._scratch.mkdir(parents=True)
        if self.state is not None:
            forget_stream_positions(self.state)
        with self.log.open("wb") as log:
            self._process = spawn("local.ministack", log=log, env=self._environment())
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def wait(self) -> int:
        """Block until MiniStack ends by itself; its exit status, negative for a signal."""
        if self._process is None:
            raise RuntimeError("MiniStack was not started")
        return self._process.wait()

    def stop(self) -> None:
        """Let it save its data and end, then end every process it left; does nothing the second time."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            end(process, FORGET_SECONDS if self.state is None else STOP_SECONDS)
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def last_lines(self, count: int = 12) -> str:
        """The end of its log, for an error message."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])

    def _environment(self) -> dict[str, str]:
        # Function workers inherit it: nothing of the developer's AWS set-up may reach them.
        env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        env |= {
            "BIND_HOST": LOOPBACK,
            "GATEWAY_PORT": str(self.port),
            "NO_PROXY": "127.0.0.1,localhost",
            # Extra listeners, on ports that would clash between two MiniStacks; nothing here uses them.
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            # It would look for containers to clean up. Functions run as plain processes; leave Docker alone.
            "DOCKER_HOST": f"unix://{self.log.parent / 'no-docker.sock'}",
            "LAMBDA_EXECUTOR": "local",
            # It unpacks functions for every worker, and forgets to remove that when it ends.
            "TMPDIR": str(self._scratch),
        }
        kept = self.state or self._scratch
        (kept / "s3").mkdir(parents=True, exist_ok=True)
        # Even without persistence it keeps a key of its own in STATE_DIR, by default in a place all share.
        env |= {"STATE_DIR": str(kept), "S3_DATA_DIR": str(kept / "s3")}
        if self.state is not None:
            env |= {"PERSIST_STATE": "1", "S3_PERSIST": "1"}
        return env

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while self.is_running() and time.monotonic() < deadline:
            if self._answers():
                return
            time.sleep(0.05)  # it tells nobody when it is ready, so it has to be asked
        reason = "did not answer in time" if self.is_running() else "ended while it started"
        raise LocalError(f"MiniStack {reason}; the end of its log ({self.log}):\n{self.last_lines()}")

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=2)
        try:
            connection.request("GET", "/_ministack/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def forget_stream_positions(state: Path) -> None:
    """Let the readers of streams begin anew, in what MiniStack saved.

    It keeps how many records they have read and not the records: after a start they would skip as many new ones.
    What nobody had read when it stopped is lost; the sweeper finds the jobs that were to come of it.
    """
    file = state / "lambda.json"
    if file.exists():
        saved = json.loads(file.read_text(encoding="utf-8"))
        if saved.get("payload", saved).pop("dynamodb_stream_positions", None) is not None:
            write_private(file, json.dumps(saved))


def _serve() -> None:
    """Run MiniStack in this process, and stop it properly when the parent is gone."""
    end_with_parent()
    runpy.run_module("ministack", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _serve()
