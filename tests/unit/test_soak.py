"""`make soak`: it repeats stages under load, counts the failures of each test, and ends its processes within the time
limit."""

import subprocess
import sys
from pathlib import Path

import pytest

from local import soak
from local.checks import Stage
from local.rehearsal import end_group

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


def _stage(name: str, program: str, *arguments: object) -> Stage:
    return Stage(name, (sys.executable, "-c", program, *map(str, arguments)))


def _soak(monkeypatch: pytest.MonkeyPatch, folder: Path, *stages: Stage, minutes: int = 60, busy: int = 0) -> int:
    monkeypatch.setattr("local.run.stop_on_signals", lambda: None)
    options = ["--times", "2", "--minutes", str(minutes), "--busy", str(busy)]
    return soak.main([*options, *(stage.name for stage in stages)], {stage.name: stage for stage in stages}, folder)


@pytest.mark.slow
def test_soak_counts_the_failures_of_each_test(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = _stage("broken", "raise SystemExit(3)")
    logs = tmp_path / "logs"
    assert _soak(monkeypatch, logs, _stage("unit", FAILS_ONCE, tmp_path / "ran"), broken) == 1
    captured = capsys.readouterr()
    assert captured.out.partition("Times  Failed\n")[2].splitlines() == [
        "    2  tests/unit/test_a.py::test_always",
        "    2  broken (status 3)",
        "    1  tests/unit/test_a.py::test_once",
    ]
    assert captured.err == f"3 tests failed. The logs in {logs} name the seeds.\n"
    assert (logs / "2" / "unit.txt").exists()


def test_soak_starts_no_run_after_the_time_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _soak(monkeypatch, tmp_path, _stage("unit", "raise SystemExit(1)"), minutes=0) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_soak_ends_busy_processes_after_the_last_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ended = list["subprocess.Popen[bytes]"]()

    def end(*load: "subprocess.Popen[bytes]", seconds: float) -> None:
        assert [process.poll() for process in load] == [None, None]
        end_group(*load, seconds=seconds)
        ended.extend(load)

    monkeypatch.setattr(soak, "end_group", end)
    assert _soak(monkeypatch, tmp_path, _stage("unit", ""), busy=2) == 0
    assert len(ended) == 2
    assert all(process.returncode for process in ended)
