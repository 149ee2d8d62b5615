"""`make test` runs all stages, shows their progress, fails if a stage fails, and ends all processes."""

import fcntl
import io
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from local import ROOT, checks
from local.checks import Checks, Stage, StageOutcome, progress, stages, table
from local.run import StopRequested
from tests.polling import LIMIT

SUMMARY = """
FAILED tests/unit/test_c.py::test_that_is_a_line_of_another_output
=========================== short test summary info ============================
SKIPPED [1] tests/unit/test_c.py:1: there is no browser
FAILED tests/unit/test_a.py::test_one[a@b] - assert 1 == 2
ERROR tests/unit/test_b.py::TestIt::test_two@test_b
==================== 1 failed, 8 passed, 1 error in 4.20s ======================
"""
"""End of pytest's output. One test has the suffix of an xdist group."""

GRANDCHILD = """
import fcntl, signal, sys
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print("Waiting ...", flush=True)
signal.pause()
"""
"""Program that locks the given file until it is killed."""
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {GRANDCHILD!r}, sys.argv[1]])"


def _stage(
    name: str, program: str, *arguments: object, count: Callable[[str], str] = str.strip, has_tests: bool = False
) -> Stage:
    command = (sys.executable, "-c", program, *map(str, arguments))
    return Stage(name, command, count, has_tests=has_tests)


def _run(folder: Path, *selected: Stage) -> tuple[list[StageOutcome], str]:
    lines: list[str] = []
    return Checks(folder, lines.append).run(selected), "\n".join(lines)


def _printed(outcomes: Sequence[StageOutcome]) -> list[list[str]]:
    """Return the rows of the table, split into words."""
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(table(outcomes, 100))
    return [line.split() for line in console.export_text().splitlines()]


def _is_locked(lock: Path) -> bool:
    """Return whether a process still holds a lock after LIMIT seconds. A killed process may hold it for a moment."""
    with lock.open("w") as file:
        waiting = threading.Thread(target=fcntl.flock, args=(file, fcntl.LOCK_EX), daemon=True)
        waiting.start()
        waiting.join(LIMIT)
        return waiting.is_alive()


class TestStages:
    def test_all_stages_run_and_are_in_the_table_in_order(self, tmp_path: Path) -> None:
        outcomes, _ = _run(tmp_path, _stage("one", "print('3 things')"), _stage("two", "print('no things')"))
        heading, *rows, total = _printed(outcomes)
        assert all(re.fullmatch(r"\d+:\d\d", row.pop()) for row in [*rows, *rows, total])
        assert [heading, *rows, total] == [
            ["What", "How", "many", "How", "long", "CPU"],
            ["one", "3", "things"],
            ["two", "no", "things"],
            ["all", "1:40"],
        ]

    def test_stage_has_the_cpu_seconds_of_its_child_processes(self, tmp_path: Path) -> None:
        busy = "import time\nwhile time.process_time() < 0.5: pass"
        parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
        (outcome, idle), _ = _run(tmp_path, _stage("busy", parent), _stage("idle", "pass"))
        assert outcome.cpu >= 0.5
        assert idle.cpu < outcome.cpu

    def test_other_stages_run_after_a_failure(self, tmp_path: Path) -> None:
        broken = _stage("broken", "print('last'); raise SystemExit(3)", count=lambda _: "1 thing")
        outcomes, output = _run(tmp_path, broken, _stage("good", "print('well')"))
        assert [outcome.status for outcome in outcomes] == [3, 0]
        assert "well" not in output
        heading, failed, how_long, total = (row[-1] for row in _printed(outcomes))
        assert (heading, failed, total) == ("CPU", "FAILED", "FAILED")
        assert re.fullmatch(r"\d+:\d\d", how_long)

    def test_failed_tests_of_a_stage_follow_the_end_of_its_log(self, tmp_path: Path) -> None:
        (tmp_path / "output").write_text("\n".join([*map("line {}".format, range(5000)), SUMMARY]))
        program = "import sys; print(open(sys.argv[1]).read()); raise SystemExit(1)"
        _, output = _run(tmp_path, _stage("unit", program, tmp_path / "output"))
        first, *lines = output.splitlines()
        assert re.fullmatch(r"unit: FAILED \(status 1\) after \d+:\d\d", first)
        assert lines == [
            f"  The whole output is in {tmp_path / 'unit.txt'}.",
            "  The last lines of its output:",
            *(f"  | line {number}" for number in range(4961, 5000)),
            f"  | {SUMMARY.splitlines()[-1]}",
            "  tests/unit/test_a.py::test_one[a@b] - assert 1 == 2",
            "  tests/unit/test_b.py::TestIt::test_two",
        ]
        assert "line 17\n" in (tmp_path / "unit.txt").read_text()

    def test_long_reasons_of_failed_tests_are_cut(self, tmp_path: Path) -> None:
        output = f"=== short test summary info ===\nFAILED tests/test_a.py::test_one - {'x' * 1000}"
        _, printed = _run(tmp_path, _stage("unit", f"print({output!r}); raise SystemExit(1)"))
        line = f"tests/test_a.py::test_one - {'x' * 1000}"
        assert printed.splitlines()[-1] == f"  {line[: checks.MAX_CHARACTERS - 3]}..."

    def test_errors_are_shown_in_the_order_of_the_output(self, tmp_path: Path) -> None:
        program = "import os; os.write(1, b'one '); os.write(2, b'two '); os.write(1, b'three'); raise SystemExit(1)"
        assert "one two three" in _run(tmp_path, _stage("mixed", program))[1]

    def test_stage_starts_when_another_stage_has_ended(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(checks, "AT_ONCE", 1)
        file = tmp_path / "file"
        first = _stage("first", f"open({str(file)!r}, 'w').write('written'); raise SystemExit(1)")
        second = _stage("second", f"print(open({str(file)!r}).read())")
        outcomes, _ = _run(tmp_path, first, second)
        assert [outcome.output for outcome in outcomes] == ["", "written\n"]

    def test_stages_run_concurrently_up_to_the_maximum(self, tmp_path: Path) -> None:
        assert checks.AT_ONCE >= 2
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)  # opening the pipe for writing waits for a reader
        writer = _stage("writer", "import sys; open(sys.argv[1], 'w').write('written')", pipe)
        reader = _stage("reader", "import sys; print(open(sys.argv[1]).read())", pipe)
        outcomes, _ = _run(tmp_path, writer, reader)
        assert outcomes[1].output == "written\n"

    def test_stage_that_cannot_be_started_fails(self, tmp_path: Path) -> None:
        outcomes, _ = _run(tmp_path, Stage("absent", ("no-such-program",)))
        assert not outcomes[0].is_good

    def test_process_left_running_by_a_stage_is_ended(self, tmp_path: Path) -> None:
        lock = tmp_path / "lock"
        program = (
            f"import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', {GRANDCHILD!r}, {str(lock)!r}],"
            " stdout=subprocess.PIPE); child.stdout.readline()"
        )
        outcomes, _ = _run(tmp_path, _stage("careless", program))
        assert outcomes[0].is_good
        assert not _is_locked(lock)


class TestProgress:
    def test_progress_lines_name_running_stages_and_their_progress(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The stage waits until the test has received the progress line."""
        monkeypatch.setattr(checks, "PROGRESS_SECONDS", 0)
        resume_pipe = tmp_path / "go-on"
        os.mkfifo(resume_pipe)
        program = 'import sys; print("Deploying ...\\n... [  7%]", flush=True); open(sys.argv[1]).read()'
        lines: list[str] = []

        def print_line(line: str) -> None:
            lines.append(line)
            if "7%" in line and sum("7%" in output for output in lines) == 1:
                resume_pipe.write_text("")

        monkeypatch.setattr(checks, "AT_ONCE", 1)
        Checks(tmp_path, print_line).run([_stage("slow", program, resume_pipe), _stage("next", "")])
        assert "... slow (Deploying, 7%) | next (waits)" in lines

    @pytest.mark.parametrize(
        ("output", "far"),
        [
            ("", ""),
            ("Success: no issues found\n", ""),
            (".... [  1%]\n.... [ 12%]\n....", "12%"),
            ("The rehearsal ...\nDeploying ...\nDeploying: done in 1.0 s\nTesting ...\n", "Testing"),
            ("Testing ...\n... [ 50%]\n", "Testing, 50%"),
            ("Testing ...\n... [100%]\nTesting: done in 9.1 s\nDestroying ...\n", "Destroying"),
        ],
    )
    def test_progress_is_read_from_the_output_of_a_stage(self, output: str, far: str) -> None:
        assert progress(output) == far


@pytest.mark.parametrize(
    ("name", "output", "counted"),
    [
        ("unit-1", "==== 5812 passed, 2 warnings in 61.01s ====", "5812 tests"),
        ("integration", "no tests ran in 0.1s", "0 tests"),
        ("lint", "All checks passed!\n331 files already formatted", "331 files"),
        ("types", "Success: no issues found in 327 source files", "327 files"),
        (
            "types",
            "Success: no issues found in 327 source files\nSuccess: no issues found in 15 modules of the console",
            "342 files",
        ),
        ("templates", "cdk.out/A.template.json\ncdk.out/B.template.json\n", "2 templates"),
        (
            "rehearsal",
            "The rehearsal ...\nA: done in 1.0 s\n=== 133 passed in 99.0s ===\nB: done in 99.0 s\n"
            "The rehearsal: done in 100.0 s\n",
            "2 steps, 133 tests",
        ),
    ],
)
def test_count_is_read_from_the_output_of_a_stage(name: str, output: str, counted: str) -> None:
    assert stages({})[name].count(output) == counted


def test_steps_of_the_rehearsal_have_separate_rows() -> None:
    outcome = StageOutcome(
        stages({})["rehearsal"], 0, 75.0, "Deploying: done in 61.5 s\nThe rehearsal: done in 75.0 s\n"
    )
    assert ["Deploying", "1:01"] in _printed([outcome])


def test_table_lists_the_slowest_files_of_all_stages() -> None:
    all_stages = stages({})
    unit = "".join(f"{seconds} s in tests/unit/test_{seconds}.py\n" for seconds in range(20, 40, 2))
    outcomes = [
        StageOutcome(all_stages["unit-1"], 0, 75.0, unit),
        StageOutcome(
            all_stages["rehearsal"], 0, 75.0, "99.5 s in tests/e2e/test_slow.py\n7.0 s in tests/e2e/test_fast.py\n"
        ),
    ]
    rows = _printed(outcomes)
    assert rows[rows.index(["all", "1:40", "0:00"]) + 1] == ["slowest", "files", "tests/e2e/test_slow.py", "1:39"]
    files = [row[-2] for row in rows if row and row[-2].startswith("tests/")]
    assert files == ["tests/e2e/test_slow.py", *(f"tests/unit/test_{seconds}.py" for seconds in range(38, 21, -2))]


def test_time_of_a_file_is_the_sum_over_all_workers(tmp_path: Path) -> None:
    (tmp_path / "test_files.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_it(n): ..."
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        os.devnull,
        "--rootdir",
        str(tmp_path),
        "-p",
        "xdist.plugin",
        "-p",
        "local.slowest",
        "-n",
        "2",
    ]
    # The other plugins take seconds to load in each worker.
    env = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run([*command, str(tmp_path)], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert len(re.findall(r"^\d+\.\d s in test_files\.py$", done.stdout, re.MULTILINE)) == 1, done.stdout


def test_arguments_for_pytest_reach_every_stage_of_tests() -> None:
    stages_ = stages({"PYTEST_ARGS": "-n 1 -k 'a or b'", "E2E_ARGS": "-k c"})
    options = ("-p", "local.slowest", "-n", "1", "-k", "a or b")
    ignored = ("--ignore=tests/unit/infra", "--ignore=tests/unit/proofs")
    assert stages_["unit-1"].command[3:] == (*options, "tests/unit", *ignored)
    assert "unit-2" not in stages_
    assert stages_["infra"].command[3:] == (*options, "tests/unit/infra")
    assert stages_["proofs"].command[3:] == (*options, "tests/unit/proofs")
    assert stages_["integration"].command[3:] == (*options, "tests/integration")
    assert stages_["rehearsal"].command[1:] == ("-m", "local.rehearsal", "-k", "c")


def test_quick_check_leaves_out_slow_tests_unless_arguments_for_pytest_select_tests() -> None:
    stages_ = [*stages({}, is_quick=True).values()]
    assert {stage.command[5:7] for stage in stages_ if stage.has_tests} == {("-m", "not slow")}
    selected = stages({"PYTEST_ARGS": "-k name"}, is_quick=True)
    assert selected["unit-1"].command == stages({"PYTEST_ARGS": "-k name"})["unit-1"].command
    assert not any("not slow" in stage.command for stage in stages({}).values())


def test_unit_stages_have_each_file_of_unit_tests_once() -> None:
    parts = [stage.command[5:] for stage in checks.named(["unit"], stages({}))]
    files = {str(file.relative_to(ROOT)) for file in (ROOT / "tests" / "unit").rglob("test_*.py")}
    listed = [file for part in parts for file in part]
    assert len(listed) == len({*listed})
    others = {file for file in files - {*listed} if re.match(r"tests/unit/(infra|proofs)/test_", file)}
    assert {*listed} | others == files
    sizes = [sum((ROOT / file).stat().st_size for file in part) for part in parts]
    assert len(sizes) == 2
    assert max(sizes) < 1.1 * min(sizes)


class TestCommand:
    def _main(self, monkeypatch: pytest.MonkeyPatch, folder: Path, *available: Stage, names: Sequence[str] = ()) -> int:
        monkeypatch.setattr("local.run.stop_on_signals", lambda: None)
        monkeypatch.setattr(checks, "stages", lambda _, *, is_quick: {stage.name: stage for stage in available})
        return checks.main(names, logs=folder)

    def test_exit_status_is_0_only_if_all_stages_pass(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        good, bad = _stage("good", ""), _stage("bad", "raise SystemExit(1)")
        assert self._main(monkeypatch, tmp_path, good) == 0
        assert self._main(monkeypatch, tmp_path, good, bad) == 1
        assert self._main(monkeypatch, tmp_path, good, bad, names=["good"]) == 0

    @pytest.mark.parametrize(
        ("names", "expected"), [([], 1), (["slow"], 1), (["--quick"], 0), (["--quick", "slow"], 0)]
    )
    def test_option_quick_reaches_the_stages(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names: Sequence[str], expected: int
    ) -> None:
        monkeypatch.setattr("local.run.stop_on_signals", lambda: None)
        monkeypatch.setattr(
            checks, "stages", lambda _, *, is_quick: {"slow": _stage("slow", f"raise SystemExit({int(not is_quick)})")}
        )
        assert checks.main(names, logs=tmp_path) == expected

    def test_output_ends_with_the_failures_and_the_folder_of_the_logs(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        unit = _stage("unit", f"print({SUMMARY!r}); raise SystemExit(1)", has_tests=True)
        types = _stage("types", "print('a.py:1: error'); raise SystemExit(2)")
        assert self._main(monkeypatch, tmp_path, types, _stage("good", "print('well')"), unit) == 1
        lines = [re.sub(r"\d+:\d\d$", "0:00", line) for line in capsys.readouterr().err.splitlines()]
        assert lines == [
            "",
            f"Some checks failed. The logs are in {tmp_path}.",
            "types: FAILED (status 2) after 0:00",
            f"  The whole output is in {tmp_path / 'types.txt'}.",
            "  The last lines of its output:",
            "  | a.py:1: error",
            "unit: FAILED (status 1) after 0:00",
            f"  The whole output is in {tmp_path / 'unit.txt'}.",
            "  The last lines of its output:",
            f"  | {SUMMARY.splitlines()[-1]}",
            "  tests/unit/test_a.py::test_one[a@b] - assert 1 == 2",
            "  tests/unit/test_b.py::TestIt::test_two",
        ]
        assert {file.name for file in tmp_path.iterdir()} == {"unit.txt", "good.txt", "types.txt"}

    def test_summary_names_some_failures_and_counts_the_rest(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        failed = "".join(f"FAILED tests/unit/test_a.py::test_{number}\n" for number in range(100))
        output = f"==== short test summary info ====\n{failed}"
        assert self._main(monkeypatch, tmp_path, _stage("unit", f"print({output!r}); raise SystemExit(1)")) == 1
        captured = capsys.readouterr()
        assert "  80 more failed tests are in the log.\n  tests/unit/test_a.py::test_0\n" in captured.err
        assert captured.err.endswith("  tests/unit/test_a.py::test_19\n")
        assert "  tests/unit/test_a.py::test_99\n" in captured.out

    def test_unknown_stage_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self._main(monkeypatch, tmp_path, _stage("good", ""), names=["gud"]) == 1
        assert capsys.readouterr().err == "The stage gud does not exist. Use good.\n"

    @pytest.mark.parametrize(("statuses", "expected"), [((0, 5), 0), ((5, 0), 0), ((5, 5), 1), ((0, 1), 1)])
    def test_selection_without_any_test_fails(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, statuses: tuple[int, int], expected: int
    ) -> None:
        of_tests = [
            _stage(f"tests {number}", f"raise SystemExit({status})", has_tests=True)
            for number, status in enumerate(statuses)
        ]
        assert self._main(monkeypatch, tmp_path, _stage("lint", ""), *of_tests) == expected

    def test_status_5_of_a_stage_that_runs_no_tests_is_a_failure(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        assert self._main(monkeypatch, tmp_path, _stage("types", "raise SystemExit(5)")) == 1


class TestInterrupted:
    def test_interrupted_checks_end_every_process_they_started(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(checks, "PROGRESS_SECONDS", 0)
        lock = tmp_path / "lock"

        def interrupted(line: str) -> None:
            if "Waiting" in line:
                raise StopRequested

        with pytest.raises(StopRequested):
            Checks(tmp_path, interrupted).run([_stage("endless", CHILD, lock)])
        assert not _is_locked(lock)

    def test_signal_waits_until_a_started_process_is_registered(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        started: list[subprocess.Popen[bytes]] = []
        popen = subprocess.Popen

        def interrupted(*command: Any, **options: Any) -> "subprocess.Popen[bytes]":
            started.append(popen(*command, **options))
            signal.raise_signal(signal.SIGTERM)
            return started[0]

        def stop(*_: object) -> None:
            raise StopRequested

        monkeypatch.setattr(subprocess, "Popen", interrupted)
        before = signal.signal(signal.SIGTERM, stop)
        try:
            with pytest.raises(StopRequested):
                Checks(tmp_path, lambda _: None).run([_stage("endless", "import signal; signal.pause()")])
            assert started[0].returncode is not None
        finally:
            signal.signal(signal.SIGTERM, before)
            started[0].kill()
            started[0].wait()

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_signal_ends_every_process_of_the_checks(self, tmp_path: Path, number: signal.Signals) -> None:
        lock = tmp_path / "lock"
        program = f"""
import sys
from pathlib import Path
from local import checks
checks.PROGRESS_SECONDS = 0
command = (sys.executable, "-c", {CHILD!r}, {str(lock)!r})
checks.stages = lambda _, *, is_quick: {{"endless": checks.Stage("endless", command)}}
sys.exit(checks.main([], logs=Path({str(tmp_path)!r})))
"""
        with subprocess.Popen(
            [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            while "Waiting" not in process.stdout.readline():
                assert process.poll() is None
            process.send_signal(number)
            _, errors = process.communicate()
        assert (process.returncode, errors) == (1, "Stopped.\n")
        assert not _is_locked(lock)
