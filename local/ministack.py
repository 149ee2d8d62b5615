"""MiniStack, the embedded AWS, as a process of its own that never outlives the program that started it."""

import http.client
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from local import LocalError
from local.aws import ACCOUNT, REGION, Aws
from local.child import end, spawn
from local.ports import LOOPBACK, bound

START_SECONDS = 60.0
STOP_SECONDS = 60.0
SAVE_SECONDS = 300.0
"""For all of its state. Nothing depends on it but logs and metrics: the rest is saved as it changes."""
SAVE_PATH = "/_local/save"
"""POST it to have everything saved now; the answer names what is saved, a line each, as it goes."""
HEARTBEAT = "running"
"""A file that is there from a start to the next orderly end. Up to the time when it was touched last, all is on disk."""
WHOLE = "dynamodb.json"
"""A file that is there once everything was saved: the first deploy had come to its end."""
SOCKETS = "LOCAL_SOCKETS"
"""Variable with the descriptors of the sockets that the engine listens on: the API's, and the objects'."""
FORGET_SECONDS = 2.0
"""For one that keeps nothing. It would wait a long time for connections that are still open."""


class MiniStack:
    """Runs MiniStack on loopback for as long as the `with` block lasts.

    Port 0 takes any free one. `state` is the directory its data survives in; without one, everything is forgotten.
    Raises LocalError on entry when a port is taken, or when it does not come up: the message shows the end of its log.
    """

    aws: Aws
    """Addresses and credentials, which are new at each entry."""

    def __init__(self, log: Path, state: Path | None = None, *, port: int = 0, objects_port: int = 0) -> None:
        self._ports = port, objects_port
        self.log = log
        self.state = state
        self._scratch = log.parent / "tmp"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            sockets = [stack.enter_context(bound(port)) for port in self._ports]
            self._start(sockets)
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def _start(self, sockets: Sequence[socket.socket]) -> None:
        """Start the process on sockets, which are its own from then on."""
        endpoint, objects = (f"http://{LOOPBACK}:{bound_to.getsockname()[1]}" for bound_to in sockets)
        self.aws = Aws(endpoint, objects, secrets.token_urlsafe(30))
        shutil.rmtree(self._scratch, ignore_errors=True)  # left by one that was killed
        self._scratch.mkdir(parents=True)
        if self.state is not None and not (self.state / WHOLE).exists():
            shutil.rmtree(self.state, ignore_errors=True)  # buckets that no stack knows of would be in the way
        descriptors = [bound_to.fileno() for bound_to in sockets]
        with self.log.open("wb") as log:
            self._process = spawn("local.engine", log=log, env=self._environment(descriptors), pass_fds=descriptors)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def endpoint(self) -> str:
        """Base URL of the API and of AWS."""
        return self.aws.endpoint

    @property
    def pid(self) -> int:
        """The id of its process."""
        if self._process is None:
            raise RuntimeError("MiniStack was not started")
        return self._process.pid

    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def wait(self) -> int:
        """Block until MiniStack ends by itself; its exit status, negative for a signal."""
        if self._process is None:
            raise RuntimeError("MiniStack was not started")
        return self._process.wait()

    def kept_until(self) -> datetime | None:
        """Up to when all is on disk of a run that did not end in order; None when the last one did, or had nothing."""
        if self.state is None or not all((self.state / name).exists() for name in (HEARTBEAT, WHOLE)):
            return None
        return datetime.fromtimestamp((self.state / HEARTBEAT).stat().st_mtime)

    def save(self, tell: Callable[[str], None] = lambda _: None) -> None:
        """Save everything now, and report what is saved; raises LocalError when it cannot be."""
        connection = http.client.HTTPConnection(self.endpoint.partition("//")[2], timeout=SAVE_SECONDS)
        try:
            signed = AWSRequest("POST", self.endpoint + SAVE_PATH)
            SigV4Auth(Credentials(ACCOUNT, self.aws.secret_access_key), "local", REGION).add_auth(signed)
            connection.request("POST", SAVE_PATH, headers=dict(signed.headers.items()))
            answer = connection.getresponse()
            while line := answer.readline():
                tell(line.decode().strip())
        except (OSError, http.client.HTTPException) as error:
            raise LocalError(f"MiniStack could not save everything ({error!r}); its log is {self.log}.") from error
        finally:
            connection.close()
        if answer.status != 200:
            raise LocalError(f"MiniStack could not save everything; its log is {self.log}.")

    def stop(self) -> None:
        """Let it save its data and end, then end every process it left; does nothing the second time.

        Raises LocalError when it had to be killed; the message says what is on disk.
        """
        process, self._process = self._process, None
        if process is None:
            return
        try:
            in_order = end(process, FORGET_SECONDS if self.state is None else STOP_SECONDS)
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)
        kept = self.kept_until()
        if not in_order and kept is not None:
            raise LocalError(
                f"MiniStack did not end within {STOP_SECONDS:.0f} s and was killed. "
                f"What was written before {kept:%H:%M:%S} is on disk; its log is {self.log}."
            )

    def last_lines(self) -> str:
        """The end of its log, for an error message."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:])

    def _environment(self, sockets: Sequence[int]) -> dict[str, str]:
        # Function workers inherit it: nothing of the developer's AWS set-up may reach them.
        env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        env |= {
            # MiniStack hands these to the functions, besides an access key id and its own address.
            "AWS_SECRET_ACCESS_KEY": self.aws.secret_access_key,
            "AWS_ENDPOINT_URL_S3": self.aws.objects_endpoint,
            SOCKETS: ",".join(map(str, sockets)),
            "BIND_HOST": LOOPBACK,
            "GATEWAY_PORT": self.endpoint.rpartition(":")[2],
            "NO_PROXY": "127.0.0.1,localhost",
            # Extra listeners, on ports that would clash between two MiniStacks; nothing here uses them.
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            # It would look for containers to clean up. Functions run as plain processes; leave Docker alone.
            "DOCKER_HOST": f"unix://{self.log.parent / 'no-docker.sock'}",
            "LAMBDA_EXECUTOR": "local",
            # It unpacks functions there, and forgets to remove that when it ends.
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
            time.sleep(0.05)  # it does not say when it is ready, so it has to be asked
        reason = "did not answer in time" if self.is_running() else "ended while it started"
        raise LocalError(f"MiniStack {reason}; the end of its log ({self.log}):\n{self.last_lines()}")

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(self.endpoint.partition("//")[2], timeout=2)
        try:
            connection.request("GET", "/_ministack/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
