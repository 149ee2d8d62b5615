"""Tests of `.ci/run`: it installs a browser where possible, and then runs the same checks as a laptop."""

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
    """A machine with a checkout, on which each program only records its calls."""

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
        self.install("timeout", 'shift; "$@"')  # macOS has no `timeout`
        self.install("make")

    def install(self, name: str, then: str = "") -> None:
        """Install a program that records its calls and then runs the script `then`."""
        program = self.bin / name
        program.write_text(f'#!{self.bin}/bash\necho "{name} $*" >>{self.folder}/called\n{then}\n')
        program.chmod(0o755)

    def set_user_id(self, number: int) -> None:
        """Run as the user with this id. 0 is root."""
        self.install("id", f"echo {number}")

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
    """Return a Debian machine with the user root and no browser."""
    installed = Machine(tmp_path)
    installed.install("apt-get")
    installed.set_user_id(0)
    return installed


def test_browser_is_installed_if_there_is_none(machine: Machine) -> None:
    assert machine.run() == 0
    assert machine.called == [UPDATE, INSTALL, TEST]


@pytest.mark.parametrize("name", ["chromium-headless-shell", "chromium", "google-chrome"])
def test_installed_browser_is_used(machine: Machine, name: str) -> None:
    machine.install(name)
    machine.run()
    assert machine.called == [TEST]


def test_browser_named_in_the_environment_is_used(machine: Machine) -> None:
    machine.settings["CHROMIUM"] = "/opt/chromium"
    machine.run()
    assert machine.called == [TEST]


def test_user_other_than_root_installs_with_noninteractive_sudo(machine: Machine) -> None:
    machine.set_user_id(1000)
    machine.install("sudo", 'shift; "$@"')
    machine.run()
    assert [line for line in machine.called if not line.startswith("sudo -n env ")] == [UPDATE, INSTALL, TEST]
    assert len(machine.called) == 5


def test_tests_run_without_a_browser_if_the_user_may_not_install_one(machine: Machine) -> None:
    machine.set_user_id(1000)
    assert machine.run() == 0
    assert machine.called == [TEST]


def test_failed_installation_does_not_prevent_the_tests(machine: Machine) -> None:
    machine.install("apt-get", "exit 100")
    assert machine.run() == 0
    assert machine.called == [UPDATE, TEST]


def test_older_debian_gets_the_full_browser(machine: Machine) -> None:
    machine.install("apt-get", 'case "$*" in *-headless-shell) exit 100 ;; esac')
    assert machine.run() == 0
    assert machine.called == [UPDATE, INSTALL, INSTALL.removesuffix("-headless-shell"), TEST]


def test_script_installs_no_browser_without_apt(machine: Machine) -> None:
    os.remove(machine.bin / "apt-get")
    machine.run()
    assert machine.called == [TEST]


def test_ci_exits_with_the_status_of_the_tests(machine: Machine) -> None:
    machine.install("make", "exit 3")
    assert machine.run() == 3


def test_environment_of_the_tests_sets_ci(machine: Machine) -> None:
    machine.install("make", 'test "$CI" = true')
    assert machine.run() == 0


def test_python_named_in_the_environment_is_used(machine: Machine) -> None:
    machine.install("chromium")
    machine.install("make", f'echo "with $PYTHON3" >>{machine.folder}/called')
    machine.settings["PYTHON3"] = "/opt/python3"
    machine.run()
    assert machine.called == [TEST, "with /opt/python3"]
