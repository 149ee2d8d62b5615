"""Measurement of all apps in one run. Rounds interleave the apps, so the load of the machine affects them equally."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal

from bench.performance.lab import (
    Counter,
    Lab,
    instructions_of_python,
    instructions_of_start,
    running,
    start,
)
from bench.performance.workload import BASE, COMMON, OURS, OVER_TLS, OWN, PEERS, BenchOperation, differences
from bench.stub import stub
from shared.threads import map_threads

APPS = (OURS, *PEERS)

State = Literal["warm", "cold"]


@dataclass
class Measurement:
    """Processor time and number of instructions of one call of an operation, or of one start of an app."""

    seconds: list[float] = field(default_factory=list)
    """Processor time of each round, in seconds."""
    instructions: float | None = None
    """Number of instructions; `None` without valgrind."""


@dataclass
class Measurements:
    """Results of a run, with the Python version of the apps."""

    python: str
    taken: dict[tuple[State, str, str], Measurement] = field(default_factory=dict)
    """Measurements by state, app and operation."""

    def of(self, state: State, app: str, operation: str) -> Measurement:
        """Return the measurement of an operation of an app. Creates an empty measurement if there is none."""
        return self.taken.setdefault((state, app, operation), Measurement())


Say = Callable[[str], object]


def measure(lab: Lab, rounds: int, starts: int, say: Say) -> Measurements:
    """Measure all apps in `rounds` rounds of calls and `starts` rounds of starts. `say` receives lines of progress."""
    measured = Measurements(lab.version)
    with stub() as plain, stub(lab.certificate) as tls:
        endpoints = {False: plain, True: tls}
        say("Calls, by processor time")
        for has_tls in endpoints:
            _warm(lab, measured, endpoints[has_tls], _called(has_tls), rounds)
        say("Starts, by processor time")
        cases = [(BASE, COMMON[0]), *((app, operation) for operation in (*COMMON, OVER_TLS) for app in APPS)]
        for _ in range(starts):
            for app, operation in cases:
                seconds = start(lab, app, operation, endpoints[operation.tls])
                measured.of("cold", app, operation.name).seconds.append(seconds)
        if not Counter.is_here():
            say("valgrind is not installed, so instructions are not counted.")
            return measured
        say("Instructions")
        own_start = instructions_of_python(lab)

        def count_start(case: tuple[str, BenchOperation]) -> None:
            app, operation = case
            counted = instructions_of_start(lab, app, operation, endpoints[operation.tls])
            measured.of("cold", app, operation.name).instructions = counted - own_start

        def count_calls(case: tuple[str, bool]) -> None:
            app, has_tls = case
            counter = Counter(lab, f"{app}-tls" if has_tls else app)
            with running(lab, app, endpoints[has_tls], counter.prefix) as called:
                for operation in _called(has_tls)[app]:
                    counted = counter.count(called, operation)
                    measured.of("warm", app, operation.name).instructions = counted

        # Concurrently, because instruction counts do not depend on the machine's load.
        threads = os.cpu_count() or 1
        map_threads(count_calls, [(app, has_tls) for app in APPS for has_tls in endpoints], threads)
        map_threads(count_start, cases, threads)
    return measured


def _called(has_tls: bool) -> Mapping[str, Sequence[BenchOperation]]:
    """Return the operations to measure, by app. With TLS, all apps run only the operation OVER_TLS."""
    if has_tls:
        return dict.fromkeys(APPS, (OVER_TLS,))
    return {OURS: (*COMMON, *OWN), **dict.fromkeys(PEERS, COMMON)}


def _warm(
    lab: Lab, measured: Measurements, endpoint: str, called: Mapping[str, Sequence[BenchOperation]], rounds: int
) -> None:
    with ExitStack() as stack:
        apps = {app: stack.enter_context(running(lab, app, endpoint)) for app in called}
        for operation in called[OURS]:
            having = {app: apps[app] for app in apps if operation in called[app]}
            ours = having[OURS].answer(operation)
            assert ours["statusCode"] < 300, ours
            for app, peer in having.items():
                left_out = list(differences(operation, ours, peer.answer(operation)))
                assert not left_out, f"{app} returned a different response for {operation.name}: {left_out}"
                peer.call(operation, operation.calls)
            for _ in range(rounds):
                for app, peer in having.items():
                    seconds = peer.call(operation, operation.calls)
                    measured.of("warm", app, operation.name).seconds.append(seconds)
