"""`make soak`: repeats the tests under load, each time in another order, and counts the failures of each test.

python -m local.soak --times 10 --minutes 60 --busy 2 unit infra
"""

import argparse
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from local import STATE, LocalError
from local.checks import Checks, Stage, failures, named, stages
from local.rehearsal import end_group
from local.run import stoppable

LOGS = STATE / "soak"
TESTS = ("rehearsal", "unit", "proofs", "infra", "integration")
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
"""Python program that keeps one core busy until its parent process ends."""


def soak(asked: argparse.Namespace, wanted: Sequence[Stage], logs: Path) -> None:
    """Run the stages repeatedly, and print the number of failures of each test. Raises LocalError if a test failed.

    `asked` has the options of the command line.
    """
    end = time.monotonic() + 60 * asked.minutes
    failed: Counter[str] = Counter()
    shutil.rmtree(logs, ignore_errors=True)  # the logs of earlier runs
    command = [sys.executable, "-c", BUSY]
    load = [subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) for _ in range(asked.busy)]
    try:
        for number in range(1, asked.times + 1):
            if time.monotonic() >= end:
                break
            print(f"Run {number} of {asked.times}", flush=True)
            for outcome in Checks(logs / str(number), lambda line: print(line, flush=True)).run(wanted):
                if not outcome.is_good:
                    named_tests = [line.partition(" - ")[0] for line in failures(outcome.output)]
                    failed.update(named_tests or [f"{outcome.stage.name} (status {outcome.status})"])
    finally:
        end_group(*load, seconds=0)
    if failed:
        print("Times  Failed", *(f"{count:5}  {test}" for test, count in failed.most_common()), sep="\n")
        raise LocalError(f"{len(failed)} tests failed. The logs in {logs} name the seeds.")


def main(arguments: Sequence[str], known: Mapping[str, Stage] | None = None, logs: Path = LOGS) -> int:
    """Repeat the selected stages, and return the exit status: 0 if no test failed."""
    parser = argparse.ArgumentParser(prog="python -m local.soak", description="Repeat tests under load.")
    parser.add_argument("--times", type=int, default=5, help="number of runs (default: 5)")
    parser.add_argument("--minutes", type=float, default=60, help="minutes after which no run begins (default: 60)")
    parser.add_argument(
        "--busy", type=int, default=2, help="processes that keep the CPU busy during the tests (default: 2)"
    )
    parser.add_argument("--args", help='arguments for pytest, such as "-k name"')
    parser.add_argument(
        "stages",
        nargs="*",
        default=TESTS,
        metavar="stage",
        help=f"stage to repeat, of {', '.join(TESTS)} (default: all)",
    )
    asked = parser.parse_args(arguments)
    known = known or stages({"PYTEST_ARGS": asked.args, "E2E_ARGS": asked.args} if asked.args else {})
    return stoppable(lambda: soak(asked, named(asked.stages, known), logs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
