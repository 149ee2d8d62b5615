"""Tests of `make run`. If it cannot start, it prints one clear sentence and leaves no files behind."""

import fcntl
import json
import os
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from local import LocalError, run, write_private
from local.aws import Aws
from local.ministack import HEARTBEAT, WHOLE, MiniStack
from local.ports import chosen_port, free_port, is_taken, require_free


@pytest.fixture
def used_port() -> Iterator[int]:
    """Yield a port on which a server listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the run's files. The run uses free ports, and does not replace the signal handlers of this
    process."""
    for variable in ("PORT", "ISSUER_PORT", "OBJECTS_PORT"):
        monkeypatch.setenv(variable, str(free_port()))
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "STATE", tmp_path)
    monkeypatch.setattr(run, "SERVICE_FILE", tmp_path / "service.json")
    monkeypatch.setattr(run, "KEY_FILE", tmp_path / "key.pem")
    monkeypatch.setattr(run, "stop_on_signals", lambda *_: None)
    return tmp_path


def test_port_is_taken_while_a_server_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert is_taken(server.getsockname()[1])
    assert not is_taken(free_port())


@pytest.mark.skipif("sys.platform != 'linux'", reason="elsewhere a reservation would stop the server")
def test_free_port_is_reserved_for_its_server() -> None:
    port = free_port()
    with socket.socket() as other_socket, pytest.raises(OSError, match="in use"):
        other_socket.bind(("127.0.0.1", port))
    with socket.create_server(("127.0.0.1", port)):
        assert is_taken(port)
    assert not is_taken(port)


def test_port_of_a_server_on_all_interfaces_is_taken() -> None:
    with socket.create_server(("", 0)) as server:
        assert is_taken(server.getsockname()[1])


def test_taken_port_is_reported_with_the_remedy(used_port: int) -> None:
    with pytest.raises(LocalError, match=rf"Port {used_port} .*use another port with PORT=<port>\.$"):
        require_free(used_port, "PORT", "for MiniStack")


def test_ministack_is_not_started_on_the_port_of_another_server(used_port: int, tmp_path: Path) -> None:
    refused = pytest.raises(LocalError, match=f"Port {used_port} is in use")
    with refused, MiniStack(tmp_path / "ministack.log", port=used_port):
        pass
    assert not (tmp_path / "ministack.log").exists()


@pytest.mark.parametrize("text", ["x", "0", "80", "65536", "-1", "4566.0", "٤"])
def test_invalid_port_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PORT", text)
    with pytest.raises(LocalError, match=r"1 to 65535|=80 is not supported"):
        chosen_port("PORT", 4566)


@pytest.mark.parametrize("text", ["", "4566"])
def test_default_port_is_used_when_none_is_set(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PORT", text)
    assert chosen_port("PORT", 4566) == 4566


@pytest.mark.parametrize("variable", ["PORT", "ISSUER_PORT", "OBJECTS_PORT"])
def test_run_with_a_taken_port_fails_with_one_sentence(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], used_port: int, variable: str
) -> None:
    monkeypatch.setenv(variable, str(used_port))
    assert run.main() == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"Port {used_port} ")
    assert printed.err.count("\n") == 1
    assert not (checkout / "service.json").exists()


def test_run_after_a_kill_reports_what_may_be_missing(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    heartbeat = checkout / "ministack" / HEARTBEAT
    heartbeat.parent.mkdir()
    heartbeat.touch()
    (heartbeat.parent / WHOLE).touch()
    os.utime(heartbeat, (1_750_000_000, 1_750_000_000))
    monkeypatch.setattr(run, "Issuer", _refuses)
    assert run.main() == 1
    output = " ".join(capsys.readouterr().err.split())
    then = datetime.fromtimestamp(1_750_000_000)
    assert f"killed. Its writes after {then} may be lost. All earlier data is intact." in output


def _refuses(*_: object) -> None:
    raise LocalError("It goes no further.")


def test_first_ctrl_c_stops_and_the_second_explains_the_wait(capfd: pytest.CaptureFixture[str]) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        run.stop_on_signals("All is on disk.")
        with pytest.raises(run.StopRequested):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    sentence = f"Stopping takes some seconds; `kill -9 {os.getpid()}` ends the process at once. All is on disk."
    assert capfd.readouterr().err.strip().splitlines() == [sentence, "", sentence]


class _SavingMiniStack:
    """A running MiniStack whose save succeeds, or fails with the given problem."""

    def __init__(self, problem: str | None = None) -> None:
        self._problem = problem
        self.is_stopped = False

    def is_running(self) -> bool:
        """Return true."""
        return True

    def save(self, report_progress: Callable[[str], None]) -> None:
        """Report progress, then raise LocalError if there is a problem."""
        report_progress("20 of 45: lambda")
        if self._problem:
            raise LocalError(self._problem)

    def stop(self) -> None:
        """Record the stop."""
        self.is_stopped = True


@pytest.mark.parametrize("problem", [None, "The disk is full."])
def test_progress_and_failure_of_the_final_save_are_printed(
    problem: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    ministack: Any = _SavingMiniStack(problem)
    run._stop(ministack, run._Terminal())
    output = capsys.readouterr().err
    assert output.startswith("Saving ...\n  20 of 45: lambda\n")
    assert (problem or "Saving: done") in output
    assert ministack.is_stopped


def test_banner_has_a_short_working_command_and_no_token(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    issuer: Any = SimpleNamespace(url="http://127.0.0.1:4567", mint=lambda user, scopes: f"token of {user}")
    run._announce(Aws("http://127.0.0.1:4566", "http://127.0.0.1:4568", "a secret"), issuer)
    banner = capsys.readouterr().out
    command = """curl -sS 'http://127.0.0.1:4566/v1/videos?limit=5' -H "Authorization: Bearer $(make -s token)\""""
    assert command in banner.splitlines()
    assert "token of" not in banner
    assert json.loads((checkout / "service.json").read_text())["tokens"]["alice"] == "token of alice"


def test_second_run_in_the_same_checkout_does_not_affect_the_first(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "service.json").write_text("{}")
    with (checkout / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert run.main() == 1
    assert "already running" in capsys.readouterr().err
    assert (checkout / "service.json").exists()


def test_private_file_is_replaced_atomically_and_readable_only_by_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "new" / "service.json"
    write_private(file, "old")
    file.chmod(0o644)
    write_private(file, "new")
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]
