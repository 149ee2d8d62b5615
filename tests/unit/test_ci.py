"""Tests of `.ci/run`: it installs the browser where possible, and then runs the same checks as a laptop."""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UPDATE = "apt-get -qq -o DPkg::Lock::Timeout=300 update"
INSTALL = "apt-get -qq -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends chromium-headless-shell"
TEST = "make test"


@dataclass
class Machine:
    """A machine with a checkout, whose programs only record that they were called."""

    folder: Path
    called: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        (self.folder / ".ci").mkdir()
        shutil.copy(ROOT / ".ci" / "run", self.folder / ".ci")
        for name in ("bash", "dirname", "env"):
            path = shutil.which(name)
            assert path
            (self.bin / name).symlink_to(path)
        self.has("timeout", 'shift; "$@"')  # not every laptop has one
        self.has("make")

    def has(self, name: str, then: str = "") -> None:
        """Install a program that records its calls and then runs `then`."""
        program = self.bin / name
        program.write_text(f'#!{self.bin}/bash\necho "{name} $*" >>{self.folder}/called\n{then}\n')
        program.chmod(0o755)

    def is_used_by(self, number: int) -> None:
        """Run as the user with this id; 0 is root."""
        self.has("id", f"echo {number}")

    def run(self) -> int:
        """Run `.ci/run` and return its exit status."""
        done = subprocess.run(
            [str(self.bin / "bash"), ".ci/run"],
            cwd=self.folder,
            env={"PATH": str(self.bin), **self.settings},
            capture_output=True,
            check=False,
        )
        log = self.folder / "called"
        lines = log.read_text().splitlines() if log.exists() else []
        self.called = [line for line in lines if not line.startswith(("id ", "timeout "))]
        return done.returncode


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Debian, as root, without a browser."""
    installed = Machine(tmp_path)
    installed.has("apt-get")
    installed.is_used_by(0)
    return installed


def test_the_browser_is_installed_where_there_is_none(machine: Machine) -> None:
    assert machine.run() == 0
    assert machine.called == [UPDATE, INSTALL, TEST]


@pytest.mark.parametrize("name", ["chromium-headless-shell", "chromium", "google-chrome"])
def test_a_browser_that_is_there_will_do(machine: Machine, name: str) -> None:
    machine.has(name)
    machine.run()
    assert machine.called == [TEST]


def test_browser_named_in_the_environment_is_used(machine: Machine) -> None:
    machine.settings["CHROMIUM"] = "/opt/chromium"
    machine.run()
    assert machine.called == [TEST]


def test_user_other_than_root_installs_with_noninteractive_sudo(machine: Machine) -> None:
    machine.is_used_by(1000)
    machine.has("sudo", 'shift; "$@"')
    machine.run()
    assert [line for line in machine.called if not line.startswith("sudo -n env ")] == [UPDATE, INSTALL, TEST]
    assert len(machine.called) == 5


def test_without_leave_to_install_the_tests_run_and_say_what_is_missing(machine: Machine) -> None:
    machine.is_used_by(1000)
    assert machine.run() == 0
    assert machine.called == [TEST]


def test_a_failed_installation_does_not_keep_the_tests_from_running(machine: Machine) -> None:
    machine.has("apt-get", "exit 100")
    assert machine.run() == 0
    assert machine.called == [UPDATE, TEST]


def test_an_older_debian_gets_the_browser_with_a_window(machine: Machine) -> None:
    machine.has("apt-get", 'case "$*" in *-headless-shell) exit 100 ;; esac')
    assert machine.run() == 0
    assert machine.called == [UPDATE, INSTALL, INSTALL.removesuffix("-headless-shell"), TEST]


def test_where_there_is_no_apt_nothing_is_installed(machine: Machine) -> None:
    os.remove(machine.bin / "apt-get")
    machine.run()
    assert machine.called == [TEST]


def test_ci_exits_with_the_status_of_the_tests(machine: Machine) -> None:
    machine.has("make", "exit 3")
    assert machine.run() == 3


def test_the_tests_know_that_nobody_watches(machine: Machine) -> None:
    machine.has("make", 'test "$CI" = true')
    assert machine.run() == 0


def test_python_named_in_the_environment_is_used(machine: Machine) -> None:
    machine.has("chromium")
    machine.has("make", f'echo "with $PYTHON3" >>{machine.folder}/called')
    machine.settings["PYTHON3"] = "/opt/python3"
    machine.run()
    assert machine.called == [TEST, "with /opt/python3"]
