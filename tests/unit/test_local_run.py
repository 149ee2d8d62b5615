"""Tests of `make run`: if it cannot start, it prints one clear sentence and leaves nothing behind."""

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
    """A port that something listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the run's files. The run has ports that are free, and leaves this process's signals alone."""
    for variable in ("PORT", "ISSUER_PORT", "OBJECTS_PORT"):
        monkeypatch.setenv(variable, str(free_port()))
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "STATE", tmp_path)
    monkeypatch.setattr(run, "SERVICE_FILE", tmp_path / "service.json")
    monkeypatch.setattr(run, "KEY_FILE", tmp_path / "key.pem")
    monkeypatch.setattr(run, "stop_on_signals", lambda *_: None)
    return tmp_path


def test_a_port_is_taken_while_something_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert is_taken(server.getsockname()[1])
    assert not is_taken(free_port())


@pytest.mark.skipif("sys.platform != 'linux'", reason="elsewhere a reservation would stop the server")
def test_a_free_port_is_held_for_the_server_it_is_meant_for() -> None:
    port = free_port()
    with socket.socket() as another, pytest.raises(OSError, match="in use"):
        another.bind(("127.0.0.1", port))
    with socket.create_server(("127.0.0.1", port)):
        assert is_taken(port)
    assert not is_taken(port)


def test_a_server_on_all_interfaces_takes_the_port_too() -> None:
    with socket.create_server(("", 0)) as server:
        assert is_taken(server.getsockname()[1])


def test_a_taken_port_is_named_with_the_way_out(used_port: int) -> None:
    with pytest.raises(LocalError, match=rf"Port {used_port} .*use another port with PORT=<port>\.$"):
        require_free(used_port, "PORT", "for MiniStack")


def test_ministack_does_not_mistake_another_server_for_itself(used_port: int, tmp_path: Path) -> None:
    refused = pytest.raises(LocalError, match=f"Port {used_port} is in use")
    with refused, MiniStack(tmp_path / "ministack.log", port=used_port):
        pass
    assert not (tmp_path / "ministack.log").exists()


@pytest.mark.parametrize("text", ["x", "0", "80", "65536", "-1", "4566.0", "٤"])
def test_a_port_must_be_a_port(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PORT", text)
    with pytest.raises(LocalError, match=r"1 to 65535|=80 is not supported"):
        chosen_port("PORT", 4566)


@pytest.mark.parametrize("text", ["", "4566"])
def test_the_default_port_holds_when_none_is_chosen(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PORT", text)
    assert chosen_port("PORT", 4566) == 4566


@pytest.mark.parametrize("variable", ["PORT", "ISSUER_PORT", "OBJECTS_PORT"])
def test_run_with_a_taken_port_says_so_and_fails(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], used_port: int, variable: str
) -> None:
    monkeypatch.setenv(variable, str(used_port))
    assert run.main() == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"Port {used_port} ")
    assert printed.err.count("\n") == 1
    assert not (checkout / "service.json").exists()


def test_run_says_what_may_be_missing_when_the_last_one_was_ended_by_force(
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
    assert f"killed: what it wrote after {then} may be missing. Everything before that is there." in output


def _refuses(*_: object) -> None:
    raise LocalError("It goes no further.")


def test_the_first_ctrl_c_stops_and_the_second_says_what_is_going_on(capfd: pytest.CaptureFixture[str]) -> None:
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
    sentence = f"It is stopping, which takes some seconds; `kill -9 {os.getpid()}` ends it at once. All is on disk."
    assert capfd.readouterr().err.strip().splitlines() == [sentence, "", sentence]


class _Saved:
    """A MiniStack that has something to save, and may not be able to."""

    def __init__(self, trouble: str | None = None) -> None:
        self._trouble = trouble
        self.is_stopped = False

    def is_running(self) -> bool:
        """It is there."""
        return True

    def save(self, report_progress: Callable[[str], None]) -> None:
        """Say how far it is."""
        report_progress("20 of 45: lambda")
        if self._trouble:
            raise LocalError(self._trouble)

    def stop(self) -> None:
        """End."""
        self.is_stopped = True


@pytest.mark.parametrize("trouble", [None, "The disk is full."])
def test_at_the_end_it_says_how_far_saving_is_and_what_could_not_be_saved(
    trouble: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    ministack: Any = _Saved(trouble)
    run._stop(ministack, run._Terminal())
    output = capsys.readouterr().err
    assert output.startswith("Saving ...\n  20 of 45: lambda\n")
    assert (trouble or "Saving: done") in output
    assert ministack.is_stopped


def test_the_banner_has_a_short_command_that_works_and_no_token(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    issuer: Any = SimpleNamespace(url="http://127.0.0.1:4567", mint=lambda user, scopes: f"token of {user}")
    run._announce(Aws("http://127.0.0.1:4566", "http://127.0.0.1:4568", "a secret"), issuer)
    banner = capsys.readouterr().out
    command = """curl -sS 'http://127.0.0.1:4566/v1/videos?limit=5' -H "Authorization: Bearer $(make -s token)\""""
    assert command in banner.splitlines()
    assert "token of" not in banner
    assert json.loads((checkout / "service.json").read_text())["tokens"]["alice"] == "token of alice"


def test_a_second_run_in_the_same_checkout_leaves_the_first_alone(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "service.json").write_text("{}")
    with (checkout / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert run.main() == 1
    assert "already running" in capsys.readouterr().err
    assert (checkout / "service.json").exists()


def test_private_files_are_replaced_whole_and_for_their_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "new" / "service.json"
    write_private(file, "old")
    file.chmod(0o644)
    write_private(file, "new")
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]
