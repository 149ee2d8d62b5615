"""`make run`: deploys and runs the service on this machine until Ctrl-C. The next run continues with the same data."""

import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

import httpx
from rich.console import Console
from rich.markup import escape

from local import (
    DEFAULT_ISSUER_PORT,
    DEFAULT_OBJECTS_PORT,
    DEFAULT_PORT,
    KEY_FILE,
    ROOT,
    SERVICE_FILE,
    STATE,
    LocalError,
    exit_status,
    write_private,
)
from local.aws import Aws
from local.deployment import Deployment, deploy
from local.issuer import USERS, Issuer, TokenSigner
from local.ministack import MiniStack
from local.ports import LOOPBACK, chosen_port, require_free
from local.transcoder import Transcoder, TranscoderSettings
from shared.schema import TABLE_NAME

WARM_UP_SECONDS = 60.0


class StopRequested(BaseException):
    """Signal to end the program: Ctrl-C, SIGTERM, or a closed terminal."""


def main() -> int:
    """Run the service until it is stopped, and return the exit status."""
    stop_on_signals("All writes except those of the last second are on disk.")
    try:
        return exit_status(_run)
    except StopRequested:
        return 0


def _run() -> None:
    with _only_run_of_this_checkout():
        _serve(_Terminal())


def _serve(terminal: "_Terminal") -> NoReturn:
    port = chosen_port("PORT", DEFAULT_PORT)
    issuer_port = chosen_port("ISSUER_PORT", DEFAULT_ISSUER_PORT)
    objects_port = chosen_port("OBJECTS_PORT", DEFAULT_OBJECTS_PORT)
    if len({port, issuer_port, objects_port}) < 3:
        raise LocalError(
            f"PORT={port}, ISSUER_PORT={issuer_port} and OBJECTS_PORT={objects_port} must differ from each other."
        )
    require_free(port, "PORT", "for MiniStack")
    require_free(issuer_port, "ISSUER_PORT", "for the development issuer")
    require_free(objects_port, "OBJECTS_PORT", "for uploads, thumbnails and videos")
    SERVICE_FILE.unlink(missing_ok=True)  # left by a run that was killed
    ministack = MiniStack(STATE / "ministack.log", STATE / "ministack", port=port, objects_port=objects_port)
    kept = ministack.kept_until()
    if kept is not None:
        terminal.say(
            f"The last run was killed. Its writes after {kept:%Y-%m-%d %H:%M:%S} may be lost. "
            "All earlier data is intact."
        )
    with ExitStack() as stack:
        issuer = stack.enter_context(Issuer(issuer_port, TokenSigner(KEY_FILE), f"http://{LOOPBACK}:{port}"))
        with terminal.step("Starting MiniStack"):
            stack.enter_context(ministack)
        stack.callback(_stop, ministack, terminal)
        stack.callback(SERVICE_FILE.unlink, missing_ok=True)
        with terminal.step("Deploying the CDK app") as report_progress:
            deployed = _deploy(ministack, issuer.url, report_progress)
            # Until this save, only items are written to disk. Without it, a table that the deploy has created could be
            # missing after a restart.
            ministack.save()
        with terminal.step("Waiting for the first response"):
            _warm_up(ministack.endpoint)
        # On exit, the transcoder stops before MiniStack. Otherwise it could not report a job that it was working on.
        settings = TranscoderSettings(deployed.transcode_queue_url, ministack.endpoint, issuer.url, str(KEY_FILE))
        stack.enter_context(Transcoder(ministack.aws, settings, STATE / "transcoder.log"))
        _announce(ministack.aws, issuer)
        status = ministack.wait()
        raise LocalError(
            f"MiniStack exited unexpectedly (status {status}), so writes of its last second may be lost. Its log is {ministack.log}."
        )


def _stop(ministack: MiniStack, terminal: "_Terminal") -> None:
    """Save the whole state, and stop MiniStack. Shows progress on the terminal."""
    if not ministack.is_running():
        return
    with terminal.step("Saving") as report_progress:
        try:
            ministack.save(report_progress)
        except LocalError as error:
            terminal.say(str(error))
    with terminal.step("Stopping"):
        ministack.stop()


@contextmanager
def service_in(folder: Path, report_progress: Callable[[str], None]) -> Iterator[tuple[Aws, Issuer]]:
    """Run a separate service until the end of the block, with its data in `folder`. The folder must be empty."""
    key_file = folder / KEY_FILE.name
    with (
        MiniStack(folder / "ministack.log") as ministack,
        Issuer(0, TokenSigner(key_file), ministack.endpoint) as issuer,
    ):
        deployed = deploy(ministack.aws, issuer.url, folder, report_progress)
        settings = TranscoderSettings(deployed.transcode_queue_url, ministack.endpoint, issuer.url, str(key_file))
        with Transcoder(ministack.aws, settings, folder / "transcoder.log"):
            yield ministack.aws, issuer


def _deploy(ministack: MiniStack, issuer: str, report_progress: Callable[[str], None]) -> Deployment:
    try:
        return deploy(ministack.aws, issuer, STATE, report_progress)
    except LocalError:
        if ministack.is_running():
            raise
        raise LocalError(f"MiniStack exited during the deployment. Its log is {ministack.log}.") from None


def _warm_up(url: str) -> None:
    """Raise LocalError unless `/health` of the deployed service responds with 200."""
    try:
        answer = httpx.get(f"{url}/health", timeout=WARM_UP_SECONDS, trust_env=False)
    except httpx.HTTPError as error:
        raise LocalError(f"The service was deployed, but {url}/health does not respond ({error}).") from error
    if answer.status_code != 200:
        raise LocalError(
            f"The service was deployed, but {url}/health returned {answer.status_code}: {answer.text[:500]}"
        )


def _announce(aws: Aws, issuer: Issuer) -> None:
    """Print the URLs of the service, and write `service.json`. The API and the embedded AWS have the same URL."""
    url = aws.endpoint
    tokens = {user: issuer.mint(user, scopes) for user, scopes in USERS.items()}
    service = {
        "baseUrl": url,
        "consoleUrl": f"{url}/console/",
        "docsUrl": f"{url}/docs",
        "issuer": issuer.url,
        "tokens": tokens,
        **aws.described(),
        "tableName": TABLE_NAME,
        "assembly": str(STATE / "cdk.out"),
    }
    write_private(SERVICE_FILE, json.dumps(service, indent=2) + "\n")
    # Plain print, so that text to copy is never wrapped at the width of the terminal.
    print(f"\nConsole:  {url}/console/ (sign in as alice, bob or admin)")
    print(
        f"Base URL: {url}\nAPI docs: {url}/docs\nGuide:    {url}/guide/\nTokens:   {SERVICE_FILE.relative_to(ROOT)}\n"
    )
    print("In this folder, in another terminal:")
    print(f"""curl -sS '{url}/v1/videos?limit=5' -H "Authorization: Bearer $(make -s token)"\n""")
    print("A separate transcoder creates the renditions of uploads (.local/transcoder.log).")
    print("`make demo` in another terminal loads a few thousand videos. Ctrl-C stops the service.", flush=True)


@contextmanager
def _only_run_of_this_checkout() -> Iterator[None]:
    """Hold the lock of this checkout until the end of the block. Raises LocalError if another `make run` holds it.

    The operating system releases the lock when this process ends for any reason.
    """
    STATE.mkdir(exist_ok=True)
    STATE.chmod(0o700)  # the folder contains the data and the secrets of the service
    with (STATE / "run.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LocalError(
                "The service of this checkout is already running. Use it (.local/service.json), or stop it first."
            ) from None
        yield


def stop_on_signals(kept: str = "") -> None:
    """Install signal handlers. The first SIGINT, SIGTERM or SIGHUP raises StopRequested. Later signals only print a line.

    That line includes `kept`, a sentence about the data that survives `kill -9`.
    """
    stopping = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    explanation = f"\nStopping takes some seconds; `kill -9 {os.getpid()}` ends the process at once. {kept}\n".encode()

    def explain(number: int, frame: FrameType | None) -> None:
        with suppress(OSError):  # the terminal may be closed
            os.write(sys.stderr.fileno(), explanation)

    def stop(number: int, frame: FrameType | None) -> None:
        # Cleanup starts here; a second Ctrl-C must not interrupt it.
        for number in stopping:
            signal.signal(number, explain)
        raise StopRequested

    for number in stopping:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # SIGHUP stays ignored under nohup
            signal.signal(number, stop)


def stoppable(action: Callable[[], object], stopped: str = "Stopped.") -> int:
    """Run the action of a program, and return the exit status: 1 after a LocalError or a stop signal, otherwise 0.

    After a stop signal, this function prints the text `stopped`.
    """
    stop_on_signals()
    try:
        return exit_status(action)
    except StopRequested:
        print(stopped, file=sys.stderr)
        return 1


class _Terminal:
    """Output of progress on standard error: a spinner on a terminal, otherwise lines."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)

    def say(self, text: str) -> None:
        """Print one line. Does nothing if the terminal is closed."""
        with suppress(OSError):
            self._console.print(escape(text))

    @contextmanager
    def step(self, title: str) -> Iterator[Callable[[str], None]]:
        """Show a step while the block runs. Yields a function that shows a line of progress."""
        started = time.monotonic()
        if self._console.is_terminal:
            with self._console.status(title) as status:
                room = max(self._console.width - len(title) - 8, 20)
                yield lambda line: status.update(f"{title}: [dim]{escape(line[:room])}")
        else:
            self.say(f"{title} ...")
            yield lambda line: self.say(f"  {line}")
        self.say(f"{title}: done in {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    sys.exit(main())
