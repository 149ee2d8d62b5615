"""Environment of the measured apps: Python 3.13 with the packages of a deployment. Each app runs in a separate process."""

import json
import marshal
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.performance.workload import BASE, OURS, PEERS, BenchOperation, operations
from bench.stub import PEERS_TABLE
from local import ROOT

FOLDER = ROOT / ".local" / "bench"
DEPLOYED = "3.13"
"""Python version of the deployed functions."""
LONGEST_START, LONGEST_WAIT = 300, 60
"""Maximum seconds to wait for the start of an app, and for the response to a valgrind command."""
AMAZON = re.compile('^# Label: "(Amazon Root CA|Starfield Services Root)', re.MULTILINE)
"""Pattern that matches the label of each root CA that this service's client trusts on AWS (shared/aws).

The clients of the other measured apps trust all CAs in the bundle of botocore or of the system.
"""
SETTINGS = {
    "ANSWER_SECONDS": "600",  # code takes fifty times as long under valgrind
    "AWS_ACCESS_KEY_ID": "ASIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AWS_SESSION_TOKEN": "IQoJb3JpZ2luX2Vj" * 40,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REGION": "us-east-1",
    "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
    "AWS_LAMBDA_FUNCTION_NAME": "videos",
    "AWS_LAMBDA_FUNCTION_VERSION": "1",
    "AUDIT_TABLE_NAME": "VideoAudit",
    "COUNT_OWN_VIEWS": "false",
    "CURSOR_SECRET_ARN": "arn:aws:secretsmanager:us-east-1:000000000000:secret:cursors",
    "ENVIRONMENT": "bench",
    "MEDIA_BUCKET": "media",
    "MEDIA_URL": "https://pictures.example",
    "PYTHONHASHSEED": "0",  # so that two runs have the same number of instructions
    "TABLE_NAME": "VideoMetadata",
    "VIEW_WINDOW_SECONDS": "1800",
    "_X_AMZN_TRACE_ID": "Root=1-68502a40-3f2504e04f8941d39a0c0305;Parent=3f2504e04f8941d3;Sampled=0",
}
"""Environment variables of a measured app, as Lambda and the deployment set them."""


@dataclass(frozen=True)
class Lab:
    """Python interpreter, code and files of the measured apps."""

    python: Path
    code: Path
    folder: Path
    """Folder for the files that measurements write."""
    certificate: Path | None = None
    """Folder with the stub's certificate and the apps' CA bundles. `None` if TLS is not measured."""

    @cached_property
    def version(self) -> str:
        """Implementation and version of the interpreter, such as CPython 3.13.0."""
        script = "import platform; print(platform.python_implementation(), platform.python_version())"
        return _run(str(self.python), "-c", script).strip()

    def write_events(self) -> None:
        """Write a file for each app, with an event for each operation of the app."""
        for app in (OURS, BASE, *PEERS):
            events = {operation.name: (operation.module(app), operation.event()) for operation in operations(app)}
            self._events(app).write_bytes(marshal.dumps(events, 2))

    def _events(self, app: str) -> Path:
        return self.folder / f"{app}.events"

    def command(self, app: str | None, first: str = "") -> list[str]:
        """Return the command that starts an app. If `app` is `None`, the command starts only Python.

        With `first`, the name of an operation, the app calls only that operation, once. The app prints the processor
        time from its import to the response.
        """
        worker = self.code / "bench" / "performance" / "worker.py"
        arguments = [str(self._events(app)), first] if app else []
        return [str(self.python), "-P", str(worker), *filter(None, arguments)]

    def environment(self, endpoint: str, app: str | None) -> dict[str, str]:
        """Return the environment variables of an app that sends its AWS requests to `endpoint`."""
        services = ("DYNAMODB", "SECRETS_MANAGER")
        found = SETTINGS | {f"AWS_ENDPOINT_URL_{service}": endpoint for service in services}
        found |= {"PYTHONPATH": str(self.code)} | ({} if app == OURS else {"TABLE_NAME": PEERS_TABLE})
        if self.certificate:
            found["AWS_CA_BUNDLE"] = str(self.certificate / ("amazon.pem" if app == OURS else "all.pem"))
        return found


def prepare() -> Lab:
    """Install Python, the packages and the code below `.local/bench`, and compile them."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    code, python = FOLDER / "code", FOLDER / "venv" / "bin" / "python"
    uv = (sys.executable, "-m", "uv")
    try:
        _run(*uv, "venv", "--quiet", "--python", DEPLOYED, str(FOLDER / "venv"))
    except subprocess.CalledProcessError as error:
        print(
            f"uv could neither find nor install Python {DEPLOYED}, so the current Python is measured.\n{error.stderr}"
        )
        _run(*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(FOLDER / "venv"))
    requirements = str(ROOT / "bench" / "peers" / "requirements.txt")
    _run(
        *uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(python), "--requirements", requirements
    )
    for source in ("bench", "functions", "shared"):
        shutil.copytree(ROOT / source, code / source, ignore=shutil.ignore_patterns("__pycache__"))
    _run(str(python), "-m", "compileall", "-q", str(code))
    lab = Lab(python, code, FOLDER, _certificate(python))
    lab.write_events()
    return lab


def _certificate(python: Path) -> Path:
    """Create the stub's certificate and the CA bundles of the apps.

    Each bundle contains the stub's CA, and as many other CAs as on AWS, because loading them takes time.
    """
    folder = FOLDER / "certificate"
    folder.mkdir()
    _run(str(python), "-m", "trustme", "--quiet", "--dir", str(folder), "--identities", "127.0.0.1")
    script = "import botocore.httpsession; print(botocore.httpsession.get_cert_path(True))"
    known = Path(_run(str(python), "-c", script).strip()).read_text(encoding="ascii")
    stub = (folder / "client.pem").read_text(encoding="ascii")
    (folder / "all.pem").write_text(known + stub, encoding="ascii")
    amazon = [part[part.index("-----BEGIN") :] for part in known.split("# Issuer: ") if AMAZON.search(part)]
    (folder / "amazon.pem").write_text("".join(amazon) + stub, encoding="ascii")
    return folder


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


class App:
    """A running app, which reads commands from a pipe, and writes results to another pipe."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def call(self, operation: BenchOperation, calls: int) -> float:
        """Call an operation `calls` times. Returns the mean seconds of processor time."""
        return float(self._ask(f"{operation.name} {calls}")) / calls

    def answer(self, operation: BenchOperation) -> Any:
        """Call an operation once, and return its response."""
        return json.loads(self._ask(f"{operation.name} 0"))

    def _ask(self, line: str) -> str:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("The app exited unexpectedly. Its error output is above.")
        return answer


@contextmanager
def running(lab: Lab, app: str, endpoint: str, prefix: Sequence[str] = ()) -> Iterator[App]:
    """Start an app, yield it, and kill it at the end. `prefix` is a command that runs the app, such as valgrind."""
    command, pipe = [*prefix, *lab.command(app)], subprocess.PIPE
    with subprocess.Popen(command, env=lab.environment(endpoint, app), stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield App(process)
        finally:
            process.kill()


def start(lab: Lab, app: str, operation: BenchOperation, endpoint: str, prefix: Sequence[str] = ()) -> float:
    """Start an app for one request. Returns the seconds of processor time from import to response."""
    command = [*prefix, *lab.command(app, operation.name)]
    environment = lab.environment(endpoint, app)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=LONGEST_START)
    seconds, status = done.stdout.split()
    assert status in ("200", "201"), f"{app} returned {status} for {operation.name}: {done.stderr}"
    return float(seconds)


class Counter:
    """Instruction counter for an app that runs under valgrind's callgrind."""

    @staticmethod
    def is_here() -> bool:
        """Return whether valgrind is installed."""
        return bool(shutil.which("valgrind") and shutil.which("vgdb"))

    def __init__(self, lab: Lab, name: str) -> None:
        self.file = lab.folder / f"{name}.callgrind"
        self.prefix = (
            *_valgrind(self.file),
            "--tool=callgrind",
            "--instr-atstart=no",
            f"--callgrind-out-file={self.file}",
        )
        self._dumps = 0

    def count(self, app: App, operation: BenchOperation) -> float:
        """Return the number of instructions of one call.

        The method counts the instructions of N calls and of 2N calls. The result is the difference of the two counts,
        divided by N, so constant overhead cancels out.
        """
        calls = max(operation.calls // 2, 2)
        app.call(operation, operation.calls)
        self._tell(app, "instrumentation", "on")
        app.call(operation, 1)
        once, twice = (self._instructions(app, operation, times) for times in (calls, 2 * calls))
        self._tell(app, "instrumentation", "off")
        return (twice - once) / calls

    def _instructions(self, app: App, operation: BenchOperation, calls: int) -> int:
        self._tell(app, "zero")
        app.call(operation, calls)
        self._tell(app, "dump")
        self._dumps += 1
        return _summary(Path(f"{self.file}.{self._dumps}"))

    def _tell(self, app: App, *command: str) -> None:
        # With a timeout, because vgdb waits indefinitely if the system does not allow processes to inspect each other.
        told = ["vgdb", f"--pid={app.process.pid}", *command]
        subprocess.run(told, capture_output=True, check=True, timeout=LONGEST_WAIT)


def instructions_of_start(lab: Lab, app: str, operation: BenchOperation, endpoint: str) -> int:
    """Return the number of instructions from the start of Python to an app's first response."""
    file = lab.folder / f"{app}-{operation.name}.cachegrind".replace(" ", "-")
    start(lab, app, operation, endpoint, _counting(file))
    return _summary(file)


def instructions_of_python(lab: Lab) -> int:
    """Return the number of instructions that Python needs to start without an app."""
    file = lab.folder / "python.cachegrind"
    command = [*_counting(file), *lab.command(None)]
    subprocess.run(command, env=lab.environment("", None), check=True, timeout=LONGEST_START)
    return _summary(file)


def _counting(file: Path) -> Sequence[str]:
    # cachegrind is twice as fast as callgrind, and sufficient, because the whole run is counted.
    return (*_valgrind(file), "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={file}")


def _valgrind(file: Path) -> Sequence[str]:
    return ("valgrind", "-q", f"--log-file={file}.log")


def _summary(file: Path) -> int:
    found = re.search(r"^summary: (\d+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    if not found:
        raise RuntimeError(f"valgrind wrote no instruction count to {file}")
    return int(found[1])
