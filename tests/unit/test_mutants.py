"""Tests of `make mutants`. It runs each planted defect with its tests in a copy of the checkout, and reports the
undetected ones."""

import fcntl
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from local import ROOT, LocalError, mutants
from local.mutants import BROKEN, CAUGHT, FOLDER, SURVIVED, TIMED_OUT, Mutant, MutantOutcome, Runner, command, load
from local.run import StopRequested

MODULE = "LIMIT = 3\n\n\ndef act() -> None:\n    pass\n"
TESTS = {
    "limit.py": "import thing; raise SystemExit(thing.LIMIT != 3)",
    "act.py": "import thing; thing.act()",
    "red.py": "raise SystemExit(1)",
    "absent.py": "raise SystemExit(4)",
}


@dataclass
class Project:
    """Checkout with one module. Its tests are programs, run without pytest."""

    root: Path
    lines: list[str] = field(default_factory=list)
    ran: list[Sequence[str]] = field(default_factory=list)

    def runner(self) -> Runner:
        """Return a runner of this checkout."""
        return Runner(self.root, self.root / ".local", self.lines.append, self.command)

    def command(self, tests: Sequence[str]) -> Sequence[str]:
        """Return the command that runs the first test, and record the tests."""
        self.ran.append(tests)
        return [sys.executable, *tests]

    def run(self, *planted: Mutant, include_known: bool = False) -> dict[str, str]:
        """Run the mutants, and return the result of each by its name."""
        return {name: outcome.result for name, outcome in self.runner().run(planted, again=include_known).items()}

    def main(self, *arguments: str) -> int:
        """Run the command, and return its exit status."""
        return mutants.main(arguments, self.root, self.root / ".local", self.command)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a checkout with one module and its tests."""
    monkeypatch.setattr("local.run.stop_on_signals", lambda: None)
    for name, text in TESTS.items() | {("thing.py", MODULE)}:
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / FOLDER).mkdir(parents=True)
    return Project(tmp_path)


def _mutant(name: str = "limit", old: str = "LIMIT = 3", new: str = "LIMIT = 4", *tests: str) -> Mutant:
    return Mutant("things", name, "thing.py", old, new, "At most three are taken.", tests or ("limit.py",))


def _acting(name: str, program: str) -> Mutant:
    return _mutant(name, "pass", program, "act.py")


class TestRunner:
    def test_a_mutant_is_caught_when_one_of_its_tests_fails(self, project: Project) -> None:
        planted = _mutant(), _mutant("raises", "pass", "raise RuntimeError", "act.py")
        assert project.run(*planted) == {"limit": CAUGHT, "raises": CAUGHT}

    def test_a_mutant_survives_when_all_its_tests_pass(self, project: Project) -> None:
        assert project.run(_mutant("limit", "LIMIT = 3", "LIMIT = 4", "act.py")) == {"limit": SURVIVED}

    def test_every_mutant_runs_alone_in_a_copy_and_the_checkout_is_unchanged(self, project: Project) -> None:
        planted = [_mutant(f"number {number}", "LIMIT = 3", f"LIMIT = {number}") for number in range(4, 9)]
        untouched = _mutant("untouched", "pass", "return", "limit.py")
        assert set(project.run(*planted).values()) == {CAUGHT}
        assert project.run(untouched) == {"untouched": SURVIVED}
        assert (project.root / "thing.py").read_text(encoding="utf-8") == MODULE

    @pytest.mark.parametrize(("old", "count"), [("LIMIT = 2", 0), ("s", 2)])
    def test_a_mutant_is_broken_unless_its_old_text_occurs_once(self, project: Project, old: str, count: int) -> None:
        outcome = project.runner().run([_mutant("late", old)])["late"]
        assert outcome == MutantOutcome(
            BROKEN, reason=f"things/late no longer applies: thing.py has its old text {count} times."
        )

    def test_a_mutant_is_broken_when_a_test_fails_on_the_unchanged_code(self, project: Project) -> None:
        outcome = project.runner().run([_mutant("limit", "LIMIT = 3", "LIMIT = 4", "limit.py", "red.py")])["limit"]
        assert outcome == MutantOutcome(BROKEN, reason="red.py fails on the unchanged code.")

    def test_a_mutant_is_broken_when_its_tests_do_not_run(self, project: Project) -> None:
        assert project.run(_mutant("limit", "LIMIT = 3", "LIMIT = 4", "absent.py")) == {"limit": BROKEN}

    def test_tests_that_reach_the_time_limit_catch_the_mutant(self, project: Project) -> None:
        runner = project.runner()

        def report(line: str) -> None:
            if "passes" in line:
                runner.seconds = 0.0  # no later run can be faster, so the mutant times out

        runner.say = report
        outcome = runner.run([_acting("hangs", "import signal; signal.pause()")])["hangs"]
        assert outcome.result == TIMED_OUT

    def test_an_interruption_ends_every_started_process(self, project: Project, tmp_path: Path) -> None:
        lock, fifo = tmp_path / "lock", project.root / "told"
        mkfifo = f"import os\nif not os.path.exists({str(fifo)!r}): os.mkfifo({str(fifo)!r})\n"
        (project.root / "act.py").write_text(f"{mkfifo}{TESTS['act.py']}", encoding="utf-8")
        hang = (
            f"import fcntl, signal; file = open({str(lock)!r}, 'w'); fcntl.flock(file, fcntl.LOCK_EX); "
            f"print(file=open({str(fifo)!r}, 'w'), flush=True); signal.pause()"
        )
        wait = f"open({str(fifo)!r}).read(1); raise SystemExit(1)"
        runner = project.runner()

        def report(line: str) -> None:
            if "waits" in line:  # the mutant that hangs has the lock
                raise StopRequested

        runner.say = report
        with pytest.raises(StopRequested):
            runner.run([_acting("hangs", hang), _acting("waits", wait)])
        with lock.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)


class TestResults:
    def test_a_run_that_was_interrupted_resumes(self, project: Project) -> None:
        project.run(_mutant())
        ran = len(project.ran)
        assert project.run(_mutant(), _mutant("other", "3", "5")) == {"limit": CAUGHT, "other": CAUGHT}
        assert len(project.ran) == ran + 1

    def test_a_result_is_not_reused_after_the_code_or_the_mutant_changed(self, project: Project) -> None:
        project.run(_mutant())
        project.run(_mutant("limit", "LIMIT = 3", "LIMIT = 5"))
        assert len(project.ran) == 3
        (project.root / "limit.py").write_text("import thing", encoding="utf-8")
        assert project.run(_mutant()) == {"limit": SURVIVED}

    def test_again_repeats_mutants_that_have_a_result(self, project: Project) -> None:
        project.run(_mutant())
        project.run(_mutant(), include_known=True)
        assert len(project.ran) == 4


class TestCommand:
    def _plant(self, project: Project, *planted: str) -> None:
        text = "".join(
            f"[[mutant]]\nname = '{name}'\nfile = 'thing.py'\nold = 'LIMIT = 3'\nnew = 'LIMIT = 4'\n"
            f"breaks = 'At most three are taken.'\ntests = ['{test}']\n"
            for name, test in (each.split(":") for each in planted)
        )
        (project.root / FOLDER / "things.toml").write_text(text, encoding="utf-8")

    def test_the_score_is_printed(self, project: Project, capsys: pytest.CaptureFixture[str]) -> None:
        self._plant(project, "one:limit.py", "two:limit.py")
        assert project.main() == 0
        assert capsys.readouterr().out.endswith("Caught 2 of 2.\n")

    def test_every_survivor_is_named_and_the_command_fails(
        self, project: Project, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._plant(project, "one:limit.py", "two:act.py")
        assert project.main() == 1
        output = capsys.readouterr().out
        assert "SURVIVED things/two: At most three are taken. No test fails: act.py\nCaught 1 of 2.\n" in output

    def test_names_and_areas_select_mutants(self, project: Project, capsys: pytest.CaptureFixture[str]) -> None:
        self._plant(project, "one:limit.py", "two:act.py")
        assert project.main("one") == 0
        assert project.main("things") == 1
        assert project.main("three") == 1
        assert "Unknown mutant or area: three." in capsys.readouterr().err

    def test_a_stopped_run_prints_one_line(
        self, project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def stopped(*_: object, **__: object) -> None:
            raise StopRequested

        monkeypatch.setattr(Runner, "run", stopped)
        assert project.main() == 1
        assert capsys.readouterr().err == "Stopped; the same command resumes.\n"

    @pytest.mark.parametrize(
        "entry", ["name = 'one'", "name = 'one'\nfile = 'thing.py'\nold = 'a'\nnew = 'b'\nmore = 1"]
    )
    def test_an_incomplete_mutant_is_refused(self, project: Project, entry: str) -> None:
        (project.root / FOLDER / "things.toml").write_text(f"[[mutant]]\n{entry}\n", encoding="utf-8")
        with pytest.raises(LocalError, match="one must have a unique name"):
            load(project.root / FOLDER)

    def test_two_mutants_cannot_have_one_name(self, project: Project) -> None:
        self._plant(project, "one:limit.py", "one:act.py")
        with pytest.raises(LocalError, match="one must have a unique name"):
            load(project.root / FOLDER)


def test_tests_of_the_console_run_on_node_and_all_others_on_pytest() -> None:
    assert "node" in command(["tests/console/core.test.js"])
    assert command(["tests/unit/test_videos.py"])[1:3] == ["-m", "pytest"]


def test_there_are_a_hundred_mutants_and_all_apply_to_the_code() -> None:
    planted = load(ROOT / FOLDER)
    for mutant in planted:
        mutant.applied(ROOT)  # raises an error if the mutant does not apply
        assert [test for test in mutant.tests if not (ROOT / test.partition("::")[0]).is_file()] == []
        assert mutant.breaks.endswith(".")
    assert len(planted) == 100
