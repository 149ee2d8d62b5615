"""`make soak`: repeats the tests under load, each time in another order, and counts the failures of each test.

python -m local.soak --times 10 --minutes 60 --busy 2 unit infra
"""

import argparse
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from local import STATE, LocalError, exit_status
from local.checks import Checks, Outcome, Stage, failures, named, stages
from local.rehearsal import end_group
from local.run import Stop, stop_on_signals

LOGS = STATE / "soak"
TESTS = ("rehearsal", "unit", "proofs", "infra", "integration")
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
"""A program that takes a whole core for as long as the process that started it lives."""

Failures = dict[str, list[Path]]
"""The logs of the runs in which a test failed, by the test."""


class TimeUp(Exception):
    """The limit of minutes passed while stages ran."""


@contextmanager
def busy(processes: int) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Keep N processes busy."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        command = [sys.executable, "-c", BUSY]
        started.extend(
            # Their end by an interrupt is no news.
            subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
            for _ in range(processes)
        )
        yield started
    finally:
        end_group(*started, seconds=0)


def failed_in(outcome: Outcome) -> list[str]:
    """The ids of the tests that failed, or the stage itself if its output names none."""
    return [line.partition(" - ")[0] for line in failures(outcome.output)] or [
        f"{outcome.stage.name} (status {outcome.status})"
    ]


def soak(
    wanted: Sequence[Stage], times: int, until: float, logs: Path, clock: Callable[[], float] = time.monotonic
) -> tuple[int, Failures]:
    """Run the stages `times` times, or until the clock says `until`; returns the whole runs, and the failures of all."""
    failed: Failures = defaultdict(list)

    def say(line: str) -> None:
        print(line, flush=True)
        if clock() >= until:
            raise TimeUp

    for number in range(times):
        if clock() >= until:
            return number, failed
        print(f"Run {number + 1} of {times}", flush=True)
        checks = Checks(logs / str(number + 1), say)
        with suppress(TimeUp):
            checks.run(wanted)
        for outcome in checks.ended.values():
            for test in () if outcome.is_good else failed_in(outcome):
                failed[test].append(outcome.log)
        if len(checks.ended) < len(wanted):
            return number, failed
    return times, failed


def table(failed: Mapping[str, Sequence[Path]]) -> Iterator[str]:
    """Yield a line for each test that failed, the most frequent first, and below it the logs, which name the seeds."""
    yield "Times  Failed"
    for test, logs in sorted(failed.items(), key=lambda row: (-len(row[1]), row[0])):
        yield f"{len(logs):5}  {test}"
        yield from (f"       {log}" for log in logs)


def main(arguments: Sequence[str], known: Mapping[str, Stage] | None = None, logs: Path = LOGS) -> int:
    """Repeat what the arguments select, and return the exit status: 0 if nothing failed."""
    parser = argparse.ArgumentParser(prog="python -m local.soak", description="Repeat tests under load.")
    parser.add_argument("--times", type=int, default=5, help="runs (default: 5)")
    parser.add_argument("--minutes", type=float, default=60, help="limit for all runs together (default: 60)")
    parser.add_argument("--busy", type=int, default=2, help="busy processes beside the tests (default: 2)")
    parser.add_argument("--args", help='arguments for pytest, such as "-k name"')
    parser.add_argument("stages", nargs="*", default=TESTS, metavar="stage", help=f"of {', '.join(TESTS)}")
    asked = parser.parse_args(arguments)
    known = known or stages({"PYTEST_ARGS": asked.args, "E2E_ARGS": asked.args} if asked.args else {})
    stop_on_signals()
    try:
        return exit_status(lambda: _soak(asked, named(asked.stages, known), logs))
    except Stop:
        print("Stopped.", file=sys.stderr)
        return 1


def _soak(asked: argparse.Namespace, wanted: Sequence[Stage], logs: Path) -> None:
    shutil.rmtree(logs, ignore_errors=True)  # those of earlier runs
    with busy(asked.busy):
        whole, failed = soak(wanted, asked.times, time.monotonic() + 60 * asked.minutes, logs)
    print(f"\n{whole} of {asked.times} runs ended within {asked.minutes:g} minutes.")
    if failed:
        print(*table(failed), sep="\n")
        raise LocalError(f"{len(failed)} tests failed. The logs are in {logs}.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
