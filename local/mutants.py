"""`make mutants`: applies planted defects (mutants) to the code, and checks that the tests of each defect catch it.

The defects are in `tests/mutants`, one file per area. A run copies the checkout, applies one defect at a time to a
copy, and runs the tests of the defect there. The developer's files do not change. First, each test must pass without
defects. Results are stored in `.local/mutants`. The same command resumes an interrupted run, unless the code has changed.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, fields, replace
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from local import ROOT, STATE, LocalError
from local.console import PLACE
from local.run import stoppable
from local.toolbox import with_tools

FOLDER = "tests/mutants"
RESULTS = STATE / "mutants"
AT_ONCE = 2
"""Number of mutants that run concurrently."""
LIMIT_SECONDS = 300.0
"""Maximum seconds of one test run. If the tests take longer, the defect counts as caught."""
NOT_COPIED = (".git", ".venv", "node_modules", ".local", "cdk.out", "__pycache__", ".*_cache", ".hypothesis")
LINKED = (".venv", "node_modules")
NODE = (
    "env",
    *(f"{name}={value}" for name, value in PLACE.items()),
    "node",
    "--import",
    "./tests/console/setup.js",
    "--test",
)
"""Command that runs the console's tests, with the language and time zone that they expect."""
CAUGHT, SURVIVED, TIMED_OUT, BROKEN, PASSES = "caught", "survived", "timed out", "broken", "passes"

Command = Callable[[Sequence[str]], Sequence[str]]
"""Function that returns the command to run the given tests.

The command must exit with 0 if all tests pass, and with 1 if a test fails.
"""


@dataclass(frozen=True)
class Mutant:
    """One planted defect: the text `old`, which occurs once in `file`, is replaced by `new`."""

    area: str
    name: str
    file: str
    old: str
    new: str
    breaks: str
    """Sentence about the property of the service that the defect breaks."""
    tests: tuple[str, ...]
    """Files or ids of the tests that must catch the defect. At least one test must fail."""

    def applied(self, root: Path) -> str:
        """Return the content of the file with the defect. Raises LocalError unless `old` occurs exactly once."""
        path = root / self.file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if (count := text.count(self.old)) != 1 or self.old == self.new:
            raise LocalError(f"{self.area}/{self.name} no longer applies: {self.file} has its old text {count} times.")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class MutantOutcome:
    """Result of running the tests of one mutant."""

    result: str
    seconds: float = 0.0
    reason: str = ""
    """Sentence with the reason why the result is BROKEN; empty for other results."""


def load(folder: Path) -> list[Mutant]:
    """Read all mutants in the files of a folder. Raises LocalError if a mutant is incomplete, or a name occurs twice."""
    mutants: dict[str, Mutant] = {}
    names = {field.name for field in fields(Mutant)} - {"area"}
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", []):
            if entry.keys() != names or entry["name"] in mutants:
                raise LocalError(
                    f"{path.name}: {entry.get('name')} must have a unique name, and the keys {sorted(names)}."
                )
            mutants[entry["name"]] = Mutant(area=path.stem, **entry | {"tests": tuple(entry["tests"])})
    return list(mutants.values())


def command(tests: Sequence[str]) -> Sequence[str]:
    """Return the command that runs tests: Node for the console's tests, otherwise pytest.

    pytest stops at the first failure, and runs the tests in a fixed order.
    """
    if all(test.endswith(".js") for test in tests):
        return [*NODE, *tests]
    plugins = [part for name in ("schemathesis", "randomly", "cacheprovider") for part in ("-p", f"no:{name}")]
    return [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", *plugins, "--hypothesis-seed=0", *tests]


@dataclass
class Runner:
    """Runner of tests in copies of a checkout. It stores the results."""

    root: Path
    results: Path
    say: Callable[[str], None]
    command: Command = command
    seconds: float = LIMIT_SECONDS
    _copies: "SimpleQueue[Path]" = field(default_factory=SimpleQueue)
    _running: "set[subprocess.Popen[bytes]]" = field(default_factory=set)
    _is_stopped: bool = False

    def run(self, mutants: Sequence[Mutant], *, again: bool = False) -> dict[str, MutantOutcome]:
        """Run the tests of each mutant, and return the outcomes by name of the mutant.

        If a mutant has a stored outcome, the method returns that outcome and does not run the tests, unless `again` is
        true.
        """
        self.results.mkdir(parents=True, exist_ok=True)
        file = self.results / "results.jsonl"
        known = {} if again else _read(file)
        with ExitStack() as stack:
            for _ in range(AT_ONCE):
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True))
                copy = _copied(self.root, Path(folder, "checkout"))
                self._copies.put(copy)
            state = _digest(copy)
            kept = stack.enter_context(file.open("w" if again else "a", encoding="utf-8"))

            def each(names: Mapping[str, object], work: Callable[[str], MutantOutcome]) -> dict[str, MutantOutcome]:
                keys = {name: hashlib.sha256(f"{state} {what!r}".encode()).hexdigest() for name, what in names.items()}
                return self._all(keys, known, work, kept)

            tests = {test: test for mutant in mutants for test in mutant.tests}
            red = {test for test, outcome in each(tests, self._clean).items() if outcome.result != PASSES}
            named = {mutant.name: mutant for mutant in mutants}

            def mutated(name: str) -> MutantOutcome:
                if broken := [test for test in named[name].tests if test in red]:
                    return MutantOutcome(BROKEN, reason=f"{', '.join(broken)} fails on the unchanged code.")
                return self._outcome(name, named[name].tests, named[name])

            return each(named, mutated)

    def _all(
        self,
        keys: Mapping[str, str],
        known: Mapping[str, MutantOutcome],
        work: Callable[[str], MutantOutcome],
        kept: IO[str],
    ) -> dict[str, MutantOutcome]:
        """Return the outcomes of test runs by name of the run. Calls `work` with the name of each run that has no
        stored outcome.

        `keys` has the key of each run by name. `known` has the stored outcomes by key. All test programs end before
        this method returns, even after an error.
        """
        outcomes = {name: known[key] for name, key in keys.items() if key in known}
        pool = ThreadPoolExecutor(AT_ONCE)
        futures = {pool.submit(work, name): name for name in keys if name not in outcomes}
        try:
            for future in as_completed(futures):
                name, outcome = futures[future], future.result()
                outcomes[name] = outcome
                detail = outcome.reason or f"{outcome.seconds:.0f} s"
                self.say(f"{len(outcomes)}/{len(keys)} {name}: {outcome.result} {detail}")
                if outcome.result != BROKEN:
                    kept.write(json.dumps([keys[name], outcome.result, round(outcome.seconds, 1)]) + "\n")
                    kept.flush()
        except BaseException:
            self._is_stopped = True
            for process in list(self._running):
                _kill(process)
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        return outcomes

    def _clean(self, test: str) -> MutantOutcome:
        outcome = self._outcome(test.replace("/", "."), [test])
        return replace(outcome, result=PASSES if outcome.result == SURVIVED else BROKEN)

    def _outcome(self, name: str, tests: Sequence[str], mutant: Mutant | None = None) -> MutantOutcome:
        """Run tests in a free copy of the checkout, with the defect of `mutant` if it is not `None`.

        The output of the tests is written to `<name>.txt` in the results folder.
        """
        copy = self._copies.get()
        try:
            if mutant is None:
                return self._ran(copy, name, tests)
            path, text = copy / mutant.file, mutant.applied(copy)
            original = path.read_bytes()
            try:
                _write(path, text.encode())
                return self._ran(copy, name, tests)
            finally:
                _write(path, original)
        except LocalError as error:
            return MutantOutcome(BROKEN, reason=str(error))
        finally:
            self._copies.put(copy)

    def _ran(self, copy: Path, name: str, tests: Sequence[str]) -> MutantOutcome:
        began, log = time.monotonic(), self.results / f"{name}.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(
                self.command(tests),
                cwd=copy,
                env=with_tools(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that one signal reaches all of its child processes
            )
        self._running.add(process)
        try:
            if self._is_stopped:
                raise LocalError("The run was stopped.")
            status = process.wait(self.seconds)
        except subprocess.TimeoutExpired:
            return MutantOutcome(TIMED_OUT, time.monotonic() - began)
        finally:
            _kill(process)
            self._running.discard(process)
        if status not in (0, 1):
            raise LocalError(f"The tests did not run (status {status}). See {log}.")
        return MutantOutcome(CAUGHT if status else SURVIVED, time.monotonic() - began)


def _copied(root: Path, folder: Path) -> Path:
    shutil.copytree(root, folder, ignore=shutil.ignore_patterns(*NOT_COPIED))
    for name in LINKED:
        if (root / name).exists():
            (folder / name).symlink_to((root / name).resolve())
    return folder


def _write(path: Path, content: bytes) -> None:
    """Write a Python file, and delete its bytecode.

    Python would use the old bytecode if the new file has the same size and was written within the same second.
    """
    path.write_bytes(content)
    if path.suffix == ".py":
        Path(cache_from_source(str(path))).unlink(missing_ok=True)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS raises PermissionError if only zombies are left
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _digest(copy: Path) -> str:
    """Return a hash of all files of a copy, except the files that define mutants."""
    digest = hashlib.sha256()
    for path in sorted(path for path in copy.rglob("*") if path.is_file() and path.parent != copy / FOLDER):
        digest.update(f"{path.relative_to(copy)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _read(file: Path) -> dict[str, MutantOutcome]:
    """Return the stored outcomes of earlier runs, by key."""
    known = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else []:
        with suppress(ValueError):  # the last line may have been cut off
            key, result, seconds = json.loads(line)
            known[key] = MutantOutcome(result, seconds)
    return known


def chosen(mutants: Sequence[Mutant], names: Sequence[str]) -> list[Mutant]:
    """Return the mutants to run. `names` has names of mutants or of areas. Without names, return all mutants.

    Raises LocalError for an unknown name.
    """
    unknown = sorted({*names} - {name for mutant in mutants for name in (mutant.name, mutant.area)})
    if unknown:
        raise LocalError(f"Unknown mutant or area: {', '.join(unknown)}.")
    return [mutant for mutant in mutants if not names or mutant.name in names or mutant.area in names]


def report(mutants: Sequence[Mutant], outcomes: Mapping[str, MutantOutcome]) -> list[str]:
    """Return the lines of the report: scores by area, mutants that no test caught, broken mutants, and the total score."""
    lines = []
    caught = {mutant.name for mutant in mutants if outcomes[mutant.name].result in (CAUGHT, TIMED_OUT)}
    for area in dict.fromkeys(mutant.area for mutant in mutants):
        names = [mutant.name for mutant in mutants if mutant.area == area]
        seconds = sum(outcomes[name].seconds for name in names)
        lines.append(f"{area:12} {len(caught & {*names}):3} of {len(names):3}  {seconds:5.0f} s")
    for mutant in mutants:
        if mutant.name not in caught:
            outcome = outcomes[mutant.name]
            detail = outcome.reason or f"{mutant.breaks} No test fails: {' '.join(mutant.tests)}"
            lines.append(f"{outcome.result.upper()} {mutant.area}/{mutant.name}: {detail}")
    return [*lines, f"Caught {len(caught)} of {len(mutants)}."]


def main(arguments: Sequence[str], root: Path = ROOT, results: Path = RESULTS, command: Command = command) -> int:
    """Run the selected mutants. `arguments` has names of mutants or of areas; without names, all mutants run. Returns
    the exit status."""
    parser = argparse.ArgumentParser(
        prog="make mutants", description="Plant defects, each of which its tests must catch."
    )
    parser.add_argument("names", nargs="*", help="names of mutants or areas; without any, all run")
    parser.add_argument("--again", action="store_true", help="repeat mutants with a known result")
    asked = parser.parse_args(arguments)

    def run() -> None:
        mutants = chosen(load(root / FOLDER), asked.names)
        outcomes = Runner(root, results, lambda line: print(line, flush=True), command).run(mutants, again=asked.again)
        print("", *report(mutants, outcomes), sep="\n", flush=True)
        if any(outcome.result not in (CAUGHT, TIMED_OUT) for outcome in outcomes.values()):
            raise LocalError("Add the missing assertion, or correct the mutant.")

    return stoppable(run, "Stopped; the same command resumes.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
