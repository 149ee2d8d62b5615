"""`make soak` repeats stages under load, counts the failures of each test, and ends in time with all that it started."""

import sys
from pathlib import Path

import pytest

from local import checks, soak
from local.checks import Stage

FAILS_ONCE = """
import pathlib, sys
ran = pathlib.Path(sys.argv[1])
is_first = not ran.exists()
ran.touch()
print("==== short test summary info ====")
print("FAILED tests/unit/test_a.py::test_always - assert False")
if is_first:
    print("FAILED tests/unit/test_a.py::test_once@test_a")
raise SystemExit(1)
"""


@pytest.fixture(autouse=True)
def signals_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "stop_on_signals", lambda: None)


def _stage(name: str, program: str, *arguments: object) -> Stage:
    return Stage(name, (sys.executable, "-c", program, *map(str, arguments)))


def _soak(folder: Path, *stages: Stage, times: int = 3, minutes: str = "60") -> int:
    known = {stage.name: stage for stage in stages}
    return soak.main(["--times", str(times), "--minutes", minutes, "--busy", "0", *known], known, folder / "logs")


def test_the_table_counts_the_failures_of_each_test_and_names_the_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = _stage("broken", "raise SystemExit(3)")
    assert _soak(tmp_path, _stage("unit", FAILS_ONCE, tmp_path / "ran"), broken, times=2) == 1
    said = capsys.readouterr()
    one, two = tmp_path / "logs" / "1", tmp_path / "logs" / "2"
    assert said.out.partition("2 of 2 runs ended within 60 minutes.\n")[2].splitlines() == [
        "Times  Failed",
        "    2  broken (status 3)",
        f"       {one / 'broken.txt'}",
        f"       {two / 'broken.txt'}",
        "    2  tests/unit/test_a.py::test_always",
        f"       {one / 'unit.txt'}",
        f"       {two / 'unit.txt'}",
        "    1  tests/unit/test_a.py::test_once",
        f"       {one / 'unit.txt'}",
    ]
    assert said.err == f"3 tests failed. The logs are in {tmp_path / 'logs'}.\n"


def test_without_a_failure_the_status_is_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _soak(tmp_path, _stage("unit", "")) == 0
    assert capsys.readouterr().out.endswith("\n3 of 3 runs ended within 60 minutes.\n")


def test_the_limit_of_time_ends_a_run_and_what_failed_before_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checks, "PROGRESS_SECONDS", 0)
    broken, endless = _stage("broken", "raise SystemExit(3)"), _stage("endless", "import signal; signal.pause()")
    monkeypatch.setattr(checks, "AT_ONCE", 1)
    whole, failed = soak.soak(
        [broken, endless], 3, 1, tmp_path, lambda: float((tmp_path / "1" / "endless.txt").exists())
    )
    assert (whole, failed) == (0, {"broken (status 3)": [tmp_path / "1" / "broken.txt"]})
    assert "Run 2" not in capsys.readouterr().out


def test_no_run_begins_after_the_limit_of_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _soak(tmp_path, _stage("unit", "raise SystemExit(1)"), minutes="0") == 0
    assert capsys.readouterr().out == "\n0 of 3 runs ended within 0 minutes.\n"


def test_busy_processes_end_with_the_runs() -> None:
    with soak.busy(2) as processes:
        assert [process.poll() for process in processes] == [None, None]
    assert all(process.returncode for process in processes)


def test_a_stage_that_does_not_exist_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert soak.main(["gud"], {"good": _stage("good", "")}, tmp_path) == 1
    assert capsys.readouterr().err == "There is no stage gud: there are good.\n"
