"""Runs MiniStack, the embedded AWS, in a separate process that ends with its parent process."""

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

START_SECONDS = STOP_SECONDS = 300.0
SAVE_SECONDS = 300.0
"""Timeout of saving the whole state, in seconds. After a timeout, only logs and metrics are lost, because other data is
saved immediately."""
SAVE_PATH = "/_local/save"
"""Path of the POST request that saves the whole state. The response streams one line per saved service."""
HEARTBEAT = "running"
"""Name of a file that exists while MiniStack runs, and after MiniStack ended without a clean stop. All data up to the
file's modification time is on disk.
"""
WHOLE = "dynamodb.json"
"""Name of a file that exists after the whole state was saved for the first time, at the end of the first deploy."""
SOCKETS = "LOCAL_SOCKETS"
"""Name of an environment variable that contains the file descriptors of two listening sockets. The first socket serves
the API and AWS, the second serves S3 objects."""
FORGET_SECONDS = 2.0
"""Maximum seconds that a MiniStack without persistence may take to stop.

Such a MiniStack has no data to save. Without this limit, it would wait for open connections.
"""


class MiniStack:
    """MiniStack on loopback. It runs for the duration of the `with` block.

    Port 0 selects a free port. `state` is the folder of MiniStack's data; without it, the data is lost at the end. The
    start of the block raises LocalError if a port is taken, or if MiniStack does not start. The message contains the
    end of MiniStack's log.
    """

    aws: Aws
    """Endpoints and credentials of this MiniStack. Each start generates new credentials."""

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
        """Start the process, which inherits the sockets."""
        endpoint, objects = (f"http://{LOOPBACK}:{bound_to.getsockname()[1]}" for bound_to in sockets)
        self.aws = Aws(endpoint, objects, secrets.token_urlsafe(30))
        shutil.rmtree(self._scratch, ignore_errors=True)  # left by a killed process
        self._scratch.mkdir(parents=True)
        if self.state is not None and not (self.state / WHOLE).exists():
            shutil.rmtree(self.state, ignore_errors=True)  # buckets that no stack contains would block a deploy
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
        """Id of MiniStack's process."""
        if self._process is None:
            raise RuntimeError("MiniStack was not started")
        return self._process.pid

    def is_running(self) -> bool:
        """Return whether MiniStack's process is running."""
        return self._process is not None and self._process.poll() is None

    def wait(self) -> int:
        """Wait until MiniStack ends, and return the exit status. A negative status is the number of a signal."""
        if self._process is None:
            raise RuntimeError("MiniStack was not started")
        return self._process.wait()

    def kept_until(self) -> datetime | None:
        """Return the time up to which all data is on disk after an unclean stop. `None` after a clean stop."""
        if self.state is None or not all((self.state / name).exists() for name in (HEARTBEAT, WHOLE)):
            return None
        return datetime.fromtimestamp((self.state / HEARTBEAT).stat().st_mtime)

    def save(self, report_progress: Callable[[str], None] = lambda _: None) -> None:
        """Save the whole state now. Calls `report_progress` with lines of progress. Raises LocalError if the save
        fails."""
        connection = http.client.HTTPConnection(self.endpoint.partition("//")[2], timeout=SAVE_SECONDS)
        try:
            signed = AWSRequest("POST", self.endpoint + SAVE_PATH)
            SigV4Auth(Credentials(ACCOUNT, self.aws.secret_access_key), "local", REGION).add_auth(signed)
            connection.request("POST", SAVE_PATH, headers=dict(signed.headers.items()))
            answer = connection.getresponse()
            while line := answer.readline():
                report_progress(line.decode().strip())
        except (OSError, http.client.HTTPException) as error:
            raise LocalError(f"MiniStack could not save its state ({error!r}). Its log is {self.log}.") from error
        finally:
            connection.close()
        if answer.status != 200:
            raise LocalError(f"MiniStack could not save its state. Its log is {self.log}.")

    def stop(self) -> None:
        """Stop MiniStack and all its processes, after it has saved its data. A second call does nothing.

        Raises LocalError if MiniStack had to be killed. The message has the time up to which all data is on disk.
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
                f"MiniStack did not exit within {STOP_SECONDS:.0f} s and was killed. Writes before {kept:%H:%M:%S} are saved; "
                f"its log is {self.log}."
            )

    def last_lines(self) -> str:
        """Return the end of the log, for an error message."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:])

    def _environment(self, sockets: Sequence[int]) -> dict[str, str]:
        # Function workers inherit this environment, so the developer's AWS settings must not be in it.
        env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        env |= {
            # MiniStack passes these variables to the functions, with an access key id and its own address.
            "AWS_SECRET_ACCESS_KEY": self.aws.secret_access_key,
            "AWS_ENDPOINT_URL_S3": self.aws.objects_endpoint,
            SOCKETS: ",".join(map(str, sockets)),
            "BIND_HOST": LOOPBACK,
            "GATEWAY_PORT": self.endpoint.rpartition(":")[2],
            "NO_PROXY": "127.0.0.1,localhost",
            # Extra listeners on ports that would clash between two MiniStacks. No code here uses them.
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            # MiniStack would look for containers to clean up. Functions run as plain processes, so Docker is not used.
            "DOCKER_HOST": f"unix://{self.log.parent / 'no-docker.sock'}",
            "LAMBDA_EXECUTOR": "local",
            # MiniStack unpacks functions there and does not remove them when it stops.
            "TMPDIR": str(self._scratch),
        }
        kept = self.state or self._scratch
        (kept / "s3").mkdir(parents=True, exist_ok=True)
        # Even without persistence MiniStack writes its own key to STATE_DIR, by default a folder that all instances
        # share.
        env |= {"STATE_DIR": str(kept), "S3_DATA_DIR": str(kept / "s3")}
        if self.state is not None:
            env |= {"PERSIST_STATE": "1", "S3_PERSIST": "1"}
        return env

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while self.is_running() and time.monotonic() < deadline:
            if self._answers():
                return
            time.sleep(0.05)  # MiniStack does not signal when it is ready, so its port is polled
        reason = "did not respond in time" if self.is_running() else "ended while it started"
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
