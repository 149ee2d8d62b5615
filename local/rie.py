"""Runs a function as Lambda does, but without a container.

AWS's Runtime Interface Emulator starts Lambda's own client, which loads the handler from the deployed folder and passes
it one event after another. https://docs.aws.amazon.com/lambda/latest/dg/python-image.html
"""

import http.client
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from local import LocalError
from local.assembly import SynthesizedFunction, configuration
from local.aws import Aws
from local.ports import LOOPBACK, free_port, is_taken
from local.toolbox import installed_once

INVOCATION = "/2015-03-31/functions/function/invocations"
ANSWER_SECONDS = 120.0
LIFETIME_SECONDS = 300
"""Seconds after which the emulator ends, even if its parent process was killed."""
START_SECONDS = 120.0
PROGRAMS = {"x86_64": "aws-lambda-rie-x86_64", "aarch64": "aws-lambda-rie-arm64"}
"""Name of the emulator's program in the package aws-sam-cli, by processor architecture."""


def require_machine() -> None:
    """Raise LocalError if the emulator does not support this machine's system or processor."""
    if sys.platform != "linux" or platform.machine() not in PROGRAMS:
        raise LocalError(
            f"Lambda's Runtime Interface Emulator requires Linux on {' or '.join(PROGRAMS)}, "
            f"but this machine has {platform.system()} on {platform.machine()}."
        )


def installed(requirements: Path, below: Path) -> Path:
    """Install the emulator and Lambda's client below a folder, unless they are installed. Returns the folder of the
    installation.

    The name of the folder depends on `requirements`, so other versions get a separate folder. Raises LocalError if the
    installation fails, or if the emulator does not support this machine.
    """
    require_machine()
    options = ("--quiet", "--no-deps", "--only-binary", ":all:", "--python", sys.executable)
    return installed_once(
        requirements,
        below / "runtime",
        lambda target: [("pip", "install", *options, "--target", str(target), "--requirements", str(requirements))],
    )


class Emulator:
    """Function that runs in the emulator, for the duration of the `with` block.

    `runtime` is the result of `installed`. The function's code can import only the packages in its own folder, and
    Python's standard library. The start of the block raises LocalError if the emulator does not start.
    """

    def __init__(self, function: SynthesizedFunction, aws: Aws, runtime: Path, log: Path) -> None:
        self._function = function
        self._aws = aws
        self._runtime = runtime
        self._port = free_port()
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        require_machine()
        program = self._runtime / "samcli" / "local" / "rapid" / PROGRAMS[platform.machine()]
        command = [
            *("timeout", "--kill-after=5", str(LIFETIME_SECONDS)),
            *(str(program), "--log-level", "error"),
            *("--runtime-interface-emulator-address", f"{LOOPBACK}:{self._port}"),
            *("--runtime-api-address", f"{LOOPBACK}:{free_port()}"),
            # -S: without the packages of this interpreter. They would hide that the asset lacks a package.
            *(sys.executable, "-S", "-m", "awslambdaric", self._function.handler),
        ]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._function.asset,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that one signal also ends all child processes
            )
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

    def invoke(self, event: Mapping[str, Any]) -> Any:
        """Invoke the function with an event, and return the result.

        If the function raises an error, the result is a dictionary with `errorMessage`, as in Lambda.
        """
        connection = http.client.HTTPConnection(LOOPBACK, self._port, timeout=ANSWER_SECONDS)
        try:
            connection.request("POST", INVOCATION, json.dumps(event))
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def stop(self) -> None:
        """End the emulator and all its processes. A second call does nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        # `timeout` runs its command in a separate process group, and ends the group on SIGTERM.
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            if is_taken(self._port):
                return
            time.sleep(0.02)  # the emulator does not signal when it listens, so its port is polled
        text = self.log.read_text(encoding="utf-8", errors="replace")
        raise LocalError(f"The Runtime Interface Emulator did not start. Its log ({self.log}):\n{text}")

    def _environment(self) -> dict[str, str]:
        asset, deployed = str(self._function.asset), configuration(self._aws, self._function)
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "LAMBDA_TASK_ROOT": asset,
            # As in Lambda, the packages of the function come first.
            "PYTHONPATH": os.pathsep.join([asset, str(self._runtime)]),
            "PYTHONDONTWRITEBYTECODE": "1",  # keeps the asset as it was deployed
            "NO_PROXY": "127.0.0.1,localhost",
            "AWS_LAMBDA_FUNCTION_NAME": deployed.name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(deployed.memory_mb),
            "AWS_LAMBDA_FUNCTION_TIMEOUT": str(deployed.timeout_seconds),
            **deployed.environment,
            **self._aws.environment(),
        }
