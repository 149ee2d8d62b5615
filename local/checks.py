"""`make check` and `make test`: runs the stages of a check in parallel, and ends with a table and the failures.

The rehearsal takes longest and mostly waits, so it starts first and has the highest priority. Lint follows, because it
takes only seconds. The other stages start in the order of their CPU time, longest first, so that no core is idle near
the end. The unit tests are two stages of about equal size. This takes less time than two xdist workers, which
would both import all files. With `--quick`, as in `make check`, tests with the mark `slow` do not run. Each stage
writes a log to `.local/checks`. For a failed stage, the report has the end of the log and the failed tests.
"""

import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from local import ROOT, STATE, LocalError
from local.rehearsal import end_group
from local.run import stoppable

LOGS = STATE / "checks"
PROGRESS_SECONDS = 10.0
"""Seconds between two lines that report progress."""
POLL_SECONDS = 0.2
AT_ONCE = (os.cpu_count() or 2) + 2
"""Maximum number of stages that run concurrently. This is two more than the number of cores, because the rehearsal and
some tests of the other stages mostly wait."""
GRACE_SECONDS = 90.0
"""Maximum seconds that an interrupted stage may take to clean up. The rehearsal must stop the service that it started."""
NOT_UNIT = ("tests/unit/infra", "tests/unit/proofs")
"""Folders below `tests/unit` that are separate stages, and not part of the stage `unit`."""
QUICK = "--quick"
"""Option of the command line that leaves out the slow tests."""
NOT_SLOW = ("-m", "not slow")
"""pytest's arguments that leave out the tests with the mark `slow`."""
NO_TESTS = 5
"""Exit status of pytest if no test was selected."""
LAST_LINES = 40
"""Maximum number of log lines of a failed stage that are printed when the stage ends."""
END_LINES, END_LINES_OF_TESTS = 10, 3
"""Maximum number of log lines per failed stage in the final report. END_LINES_OF_TESTS applies if the report
lists failed tests, and otherwise END_LINES."""
MAX_NAMED = 20
"""Maximum number of failed tests per stage in the final report. The log has all of them."""
MAX_CHARACTERS = 240
"""Maximum number of characters of a failed test and its reason in a report."""
SLOWEST = 10
"""Maximum number of test files that the results table lists as the slowest (see `table`)."""

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_SUMMARY = re.compile(r"=+ short test summary info =+$|(?:FAILED|ERROR|SKIPPED) .*(?:tests/|\.py)|[\d.]+ s in tests/")
"""Pattern of the lines in pytest's output that the report on a failed stage omits, because the report shows their
contents in another form."""

Count = Callable[[str], str]
"""Function that receives the output of a stage, and returns the number of items that the stage checked, such as `812
tests`."""


@dataclass(frozen=True)
class Stage:
    """A stage of a check: a program that must exit with status 0."""

    name: str
    command: Sequence[str]
    count: Count = lambda _: ""
    niceness: int = 10
    """Niceness of the process; 0 for the stage that takes longest."""
    has_tests: bool = False


@dataclass(frozen=True)
class StageOutcome:
    """Result of one stage."""

    stage: Stage
    status: int
    seconds: float
    output: str
    log: Path = Path()
    cpu: float = 0.0
    """CPU seconds of the stage's process and its child processes."""

    @property
    def is_empty(self) -> bool:
        """Whether a test stage had no tests to run."""
        return self.stage.has_tests and self.status == NO_TESTS

    @property
    def is_good(self) -> bool:
        """Whether the stage passed. A test stage without tests to run also counts as passed."""
        return self.status == 0 or self.is_empty


def stages(settings: Mapping[str, str], *, is_quick: bool = False) -> dict[str, Stage]:
    """Return all stages by name, in the order in which they start. `settings` may contain PYTEST_ARGS and E2E_ARGS.

    With PYTEST_ARGS, which may select few tests, the unit tests are one stage instead of two. If `is_quick`, slow tests
    run only if PYTEST_ARGS selects them.
    """
    given = shlex.split(settings.get("PYTEST_ARGS", ""))
    selection = given or (NOT_SLOW if is_quick else ())
    pytest = (sys.executable, "-m", "pytest", "-p", "local.slowest", *selection)
    unit = [["tests/unit", *(f"--ignore={folder}" for folder in NOT_UNIT)]] if given else _halves(ROOT)
    python = shlex.quote(sys.executable)
    rehearsal = (sys.executable, "-m", "local.rehearsal", *shlex.split(settings.get("E2E_ARGS", "-n 3")))
    return {
        stage.name: stage
        for stage in (
            Stage("rehearsal", rehearsal, _steps, niceness=0),
            Stage("lint", ("sh", "-c", f"ruff check . && ruff format --check . && {python} -m local.prose"), _files),
            *(Stage(f"unit-{n}", (*pytest, *tests), _tests, has_tests=True) for n, tests in enumerate(unit, 1)),
            Stage("infra", (*pytest, "tests/unit/infra"), _tests, has_tests=True),
            Stage("proofs", (*pytest, "tests/unit/proofs"), _tests, has_tests=True),
            Stage("integration", (*pytest, "tests/integration"), _tests, has_tests=True),
            Stage("types", ("sh", "-c", f"{python} -m mypy && {python} -m local.console"), _files),
            Stage("templates", (sys.executable, "-m", "local.templates"), _templates),
        )
    }


def named(names: Iterable[str], known: Mapping[str, Stage]) -> list[Stage]:
    """Return the stages with these names. The name `unit` selects both stages of unit tests.

    Raises LocalError for an unknown name.
    """
    groups: dict[str, list[Stage]] = defaultdict(list)
    for stage in known.values():
        groups[stage.name.partition("-")[0]].append(stage)
    unknown = sorted({*names} - groups.keys())
    if unknown:
        raise LocalError(f"The stage {', '.join(unknown)} does not exist. Use {', '.join(groups)}.")
    return [stage for name in names for stage in groups[name]]


def _halves(root: Path) -> list[list[str]]:
    """Return the files of the unit tests as two lists with about the same number of bytes.

    Without the slow tests, both lists take about the same CPU time. If both lists had the same number of tests, their
    CPU times would differ more.
    """
    others = {root / folder for folder in NOT_UNIT}
    files = [file for file in (root / "tests" / "unit").rglob("test_*.py") if file.parent not in others]
    halves: list[list[str]] = [[], []]
    sizes = [0, 0]
    for file in sorted(files, key=lambda file: (-file.stat().st_size, file)):
        smaller = sizes.index(min(sizes))
        sizes[smaller] += file.stat().st_size
        halves[smaller].append(str(file.relative_to(root)))
    return halves


def _tests(output: str) -> str:
    return f"{_number(output, 'passed')} tests"


def _files(output: str) -> str:
    """Return the number of checked files, such as `900 files`, from the output of ruff, mypy and `local.console`."""
    return f"{_number(output, '(?:source )?files') + _number(output, 'modules')} files"


def _templates(output: str) -> str:
    return f"{output.count('.template.json')} templates"


def _steps(output: str) -> str:
    return f"{len(steps(output))} steps, {_tests(output)}"


def _number(output: str, of: str) -> int:
    """Return the last number in `output` that precedes a match of the pattern `of`; 0 if `output` contains none."""
    return int(([*re.findall(rf"(\d+) {of}", output)] or ["0"])[-1])


def steps(output: str) -> list[tuple[str, float]]:
    """Return the title and the duration in seconds of each completed step of the rehearsal, from the output of its
    stage."""
    done = re.findall(r"^(.+): done in ([\d.]+) s$", output, re.MULTILINE)
    return [(title, float(seconds)) for title, seconds in done if title != "The rehearsal"]


def failures(output: str) -> list[str]:
    """Return the failed tests with their reasons, from pytest's summary."""
    _, heading, summary = output.rpartition(" short test summary info ")
    failed = re.findall(r"^(?:FAILED|ERROR) (tests/.+)$", summary, re.MULTILINE) if heading else []
    return [re.sub(r"@\w+(?= - |$)", "", line) for line in failed]  # xdist adds the group of a test to its id


def slowest(outputs: Iterable[str]) -> list[tuple[str, float]]:
    """Return the slowest test files of all stages with their seconds. The plugin `local.slowest` prints these
    figures."""
    lines = [line for output in outputs for line in re.findall(r"^([\d.]+) s in (tests/\S+)$", output, re.MULTILINE)]
    return sorted(((file, float(seconds)) for seconds, file in lines), key=lambda row: -row[1])[:SLOWEST]


def report(outcome: StageOutcome, lines: int = LAST_LINES, named: int | None = None) -> str:
    """Return text about a failed stage: its exit status, the path of its log, the end of the log, and the failed tests.

    The failed tests are last, because many CI systems show only the end of the output. `lines` is the maximum number of
    lines of the log. `named` is the maximum number of failed tests, `None` for all.
    """
    failed = failures(outcome.output)
    shown = [f"{line[: MAX_CHARACTERS - 3]}..." if len(line) > MAX_CHARACTERS else line for line in failed[:named]]
    more = [f"{len(failed) - len(shown)} more failed tests are in the log."] if len(shown) < len(failed) else []
    parts = [f"{outcome.stage.name}: FAILED (status {outcome.status}) after {_time(outcome.seconds)}"]
    parts += [f"  The whole output is in {outcome.log}."]
    last = [line for line in outcome.output.splitlines() if line.strip() and not _SUMMARY.match(line)][-lines:]
    if last:
        parts += ["  The last lines of its output:", *(f"  | {line}" for line in last)]
    return "\n".join([*parts, *(f"  {line}" for line in (*more, *shown))])


def progress(output: str) -> str:
    """Return the progress that the output of a stage shows: the rehearsal's step and pytest's percentage. Empty if it
    shows neither."""
    begun = re.findall(r"^(.+) \.\.\.$", output, re.MULTILINE)[-1:]
    percentages = re.findall(r"\[ *(\d+%)\]", output.rpartition(" ...\n")[2])[-1:]
    return ", ".join([*begun, *percentages])


@dataclass
class _Running:
    stage: Stage
    began: float
    log: Path
    process: "subprocess.Popen[bytes]" = field(init=False)
    cpu: float = 0.0

    def __post_init__(self) -> None:
        path = (
            f"{Path(sys.executable).parent}{os.pathsep}{ROOT / 'node_modules' / '.bin'}{os.pathsep}{os.environ['PATH']}"
        )
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                ["nice", "-n", str(self.stage.niceness), *self.stage.command],
                cwd=ROOT,
                env=os.environ | {"PATH": path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # One signal must reach all child processes. A new session would do that too, but Linux ignores niceness
                # between sessions.
                process_group=0,
                preexec_fn=_unblock_signals,  # safe, because this process has no threads
            )

    def has_ended(self, seconds: float = 0) -> bool:
        """Wait for at most `seconds`, and return whether the process has ended. If it has, `cpu` is up to date."""
        if self.process.returncode is None:
            before = _cpu_of_children()
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                return False
            self.cpu = _cpu_of_children() - before
        return True

    @property
    def output(self) -> str:
        """Output of the stage so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")


class Checks:
    """Runner of concurrent stages. It calls `say` with each line of progress."""

    def __init__(self, logs: Path, say: Callable[[str], None]) -> None:
        self._logs = logs
        self._say = say
        self.ended: dict[str, StageOutcome] = {}
        """Outcomes of the stages that have ended, by name of the stage."""

    def run(self, wanted: Sequence[Stage]) -> list[StageOutcome]:
        """Run the stages, and return their outcomes in the same order.

        All processes of the stages end before this method returns, even after an error.
        """
        self._logs.mkdir(parents=True, exist_ok=True)
        waiting, running, ended = list(wanted), list[_Running](), self.ended
        reported_at = time.monotonic()
        try:
            while waiting or running:
                while waiting and len(running) < AT_ONCE:
                    stage = waiting.pop(0)
                    # A signal before the append would end this method, and the started stage would continue to run.
                    with _signals_blocked():
                        running.append(_Running(stage, time.monotonic(), self._logs / f"{stage.name}.txt"))
                for run in [run for run in running if run.has_ended()]:
                    running.remove(run)
                    ended[run.stage.name] = self._ended(run)
                if time.monotonic() - reported_at >= PROGRESS_SECONDS:
                    reported_at = time.monotonic()
                    self._say(_line(running, waiting))
                if running:
                    running[0].has_ended(POLL_SECONDS)
        finally:
            end_group(*(run.process for run in running), seconds=GRACE_SECONDS)
        return [ended[stage.name] for stage in wanted]

    def _ended(self, run: _Running) -> StageOutcome:
        outcome = StageOutcome(
            run.stage, run.process.returncode, time.monotonic() - run.began, run.output, run.log, run.cpu
        )
        end_group(run.process, seconds=0)  # remaining child processes
        good = f"{run.stage.name}: done after {_time(outcome.seconds)}"
        self._say(good if outcome.is_good else report(outcome))
        return outcome


@contextmanager
def _signals_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)


def _cpu_of_children() -> float:
    """Return the CPU seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _line(running: Sequence[_Running], waiting: Sequence[Stage]) -> str:
    parts = []
    for run in running:
        far = progress(run.output)
        parts.append(f"{run.stage.name} ({far})" if far else run.stage.name)
    return "... " + " | ".join([*parts, *(f"{stage.name} (waits)" for stage in waiting)])


def table(outcomes: Sequence[StageOutcome], seconds: float) -> Table:
    """Return a table. It lists the stages with their numbers of tests and times, the steps of the rehearsal, and the
    slowest test files."""
    made = Table(box=None, header_style="")
    for heading in ("What", "How many", "How long", "CPU", ""):
        made.add_column(heading, justify="right" if heading in ("How long", "CPU") else "left")
    for outcome in outcomes:
        result = "" if outcome.is_good else "FAILED"
        made.add_row(
            outcome.stage.name, outcome.stage.count(outcome.output), _time(outcome.seconds), _time(outcome.cpu), result
        )
        for title, took in steps(outcome.output) if outcome.stage.name == "rehearsal" else ():
            made.add_row(f"  {title}", "", _time(took))
    cpu = sum(outcome.cpu for outcome in outcomes)
    made.add_row("all", "", _time(seconds), _time(cpu), "" if _is_good(outcomes) else "FAILED")
    for number, (file, took) in enumerate(slowest(outcome.output for outcome in outcomes)):
        made.add_row("" if number else "slowest files", file, _time(took))
    return made


def _is_good(outcomes: Sequence[StageOutcome]) -> bool:
    of_tests = [outcome for outcome in outcomes if outcome.stage.has_tests]
    some_ran = not of_tests or not all(outcome.is_empty for outcome in of_tests)
    return some_ran and all(outcome.is_good for outcome in outcomes)


def _time(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def main(names: Sequence[str], settings: Mapping[str, str] = os.environ, logs: Path = LOGS) -> int:
    """Run the stages with these names, and return the exit status. Without names, run all stages. The option QUICK may
    be among the names."""
    return stoppable(lambda: _check(names, settings, logs))


def _check(names: Sequence[str], settings: Mapping[str, str], logs: Path) -> None:
    known = stages(settings, is_quick=QUICK in names)
    names = [name for name in names if name != QUICK]
    wanted = named(names, known) if names else [*known.values()]
    began = time.monotonic()
    outcomes = Checks(logs, lambda line: print(line, flush=True)).run(wanted)
    print()
    Console(highlight=False).print(table(outcomes, time.monotonic() - began))
    if not _is_good(outcomes):
        # The failures are printed last, because readers of a CI log look there first.
        failed = [outcome for outcome in outcomes if not outcome.is_good]
        raise LocalError("\n".join(["", f"Some checks failed. The logs are in {logs}.", *map(_ending, failed)]))


def _ending(outcome: StageOutcome) -> str:
    return report(outcome, END_LINES_OF_TESTS if failures(outcome.output) else END_LINES, MAX_NAMED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
