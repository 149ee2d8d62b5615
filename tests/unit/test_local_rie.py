"""Tests of the installer of the Lambda Runtime Interface Emulator: supported platforms, and installation."""

import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from local import LocalError, rie


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    """Return a requirements file that names the emulator."""
    file = tmp_path / "requirements.txt"
    file.write_text("awslambdaric==4.2.2\n")
    return file


@pytest.fixture
def install_commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the list of installation commands. A fake `subprocess.run` appends each command, and creates the target
    folder."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> "subprocess.CompletedProcess[str]":
        commands.append(command)
        Path(command[command.index("--target") + 1]).mkdir(parents=True)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(rie, "require_machine", lambda: None)
    monkeypatch.setattr(subprocess, "run", run)
    return commands


@pytest.mark.parametrize(("system", "machine"), [("darwin", "arm64"), ("linux", "riscv64")])
def test_unsupported_machine_is_reported(monkeypatch: pytest.MonkeyPatch, system: str, machine: str) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(
        LocalError, match=rf"requires Linux on x86_64 or aarch64, but this machine has .* on {machine}\."
    ):
        rie.require_machine()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_linux_machine_is_supported(monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    rie.require_machine()


def test_emulator_is_installed_once_without_dependencies(
    requirements: Path, tmp_path: Path, install_commands: list[list[str]]
) -> None:
    folder = rie.installed(requirements, tmp_path)
    assert rie.installed(requirements, tmp_path) == folder
    assert folder.is_dir()
    (command,) = install_commands
    assert "--no-deps" in command


def test_other_version_is_installed_in_another_folder(
    requirements: Path, tmp_path: Path, install_commands: list[list[str]]
) -> None:
    folder = rie.installed(requirements, tmp_path)
    requirements.write_text("awslambdaric==4.2.3\n")
    assert rie.installed(requirements, tmp_path) != folder


def test_failed_installation_is_reported(requirements: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: Any) -> "subprocess.CompletedProcess[str]":
        return subprocess.CompletedProcess(command, 1, "", "no such version\n")

    monkeypatch.setattr(rie, "require_machine", lambda: None)
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(LocalError, match=r"requirements\.txt: no such version"):
        rie.installed(requirements, tmp_path)
    assert list(tmp_path.iterdir()) == [requirements]
