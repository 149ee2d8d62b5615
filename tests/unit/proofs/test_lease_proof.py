"""Leases of jobs, webhooks, the search index and reverts: only writes of the current holder are applied, and every
lease can be claimed again.

A script interleaves the steps of two workers. Requests and responses are lost, clocks are wrong, and workers are killed
before or after a request. The other worker takes a step during the pause before a retry.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, NamedTuple, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from local.testbed.harness import NOW
from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.aws.leases import Lease, LeaseLost, is_leased
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.entities import Job, WebhookState
from shared.history.revert_runs import RevertRequest, RunStore
from shared.processing.job_states import attempt_of
from shared.processing.job_store import JobStore, is_overdue
from shared.schema import INDEX, JOB
from shared.search.generations import GenerationPointer, Generations
from shared.webhooks.delivery_state import LEASE_SECONDS, LONGEST_LEASE, DeliveryStateStore, as_idle
from tests.integration.faults import FaultLine, Incident, Killed, kill_after, kill_before, lose_request, lose_response

YEAR = 365 * 86_400
IDS = count()
WORKER = Caller.job("thumbnails")


class Leased(ABC):
    """Item that workers lease. Times are in seconds since the epoch, by the clock of the calling worker."""

    is_exclusive = True
    """Whether a claim excludes other workers. The claim of a revert's run does not: it only reads the run, and the worker
    that writes first succeeds."""

    @abstractmethod
    def claim(self, worker: str, now: int) -> Any:
        """Claim the item. Return its state for later calls, or `None` if another worker holds it. Raises LeaseLost."""

    @abstractmethod
    def write(self, worker: str, state: Any, value: int, now: int) -> Any:
        """Write a value, and return the item's new state for later calls. Raises LeaseLost."""

    @abstractmethod
    def release(self, state: Any, now: int) -> None:
        """Release the item, so that another worker can claim it immediately. Raises LeaseLost."""

    @abstractmethod
    def value(self) -> int:
        """Return the last written value."""

    def sweep(self, now: int) -> bool:
        """Run the periodic maintenance of this kind of item, if it has one. Return whether a holder lost its lease."""
        return False


class LeasedJob(Leased):
    def __init__(self, table: Table) -> None:
        self.jobs, self.id, self.versions = JobStore(table), f"v{next(IDS)}", count(1)
        self.request(NOW)

    def request(self, now: int) -> None:
        version = next(self.versions)
        source = {"uploadId": "0001", "uri": f"s3://sources/{version}"}
        video = {"videoId": self.id, "userId": "alice", "version": version, "source": source}
        self.jobs.request(video, "storyboard", {"source": source["uri"]}, now)

    def job(self) -> Job:
        job = self.jobs.table.get(JOB.key(videoId=self.id, kind="storyboard"), consistent=True)
        assert job
        return cast(Job, job)

    def claim(self, worker: str, now: int) -> Job | None:
        return self.jobs.claim(attempt_of(self.job()), WORKER, now, worker)

    def write(self, worker: str, state: Job, value: int, now: int) -> Job:
        if job := self.jobs.advance(attempt_of(state), value, WORKER, now, worker):
            return job
        raise LeaseLost

    def release(self, state: Job, now: int) -> None:
        self.jobs.fail(attempt_of(state), "It stopped.", WORKER, now, retry=True)

    def value(self) -> int:
        return int(self.job()["progress"])

    def sweep(self, now: int) -> bool:
        job = self.job()
        is_expired = job["state"] == "running" and is_overdue(job, "running", now)
        if is_expired:
            self.jobs.fail(attempt_of(job), "It fell silent.", WORKER, now, retry=True)
        if job["state"] == "failed":
            self.request(now)  # the owner retries the job
        return is_expired


class LeasedWebhook(Leased):
    def __init__(self, table: Table) -> None:
        self.states, self.id = DeliveryStateStore(table), f"w{next(IDS)}"
        self.states.begin(self.id, {})

    def claim(self, worker: str, now: int) -> WebhookState | None:
        stored = self.states.read(self.id)
        assert stored
        if is_leased(stored, now, LONGEST_LEASE):
            return None
        return self.states.save(stored, {**stored, **Lease.new(now + LEASE_SECONDS).attributes}, now)

    def write(self, worker: str, state: WebhookState, value: int, now: int) -> WebhookState:
        return self.states.save(state, state | {"caughtUpAt": value}, now)

    def release(self, state: WebhookState, now: int) -> None:
        self.states.save(state, as_idle(state), now)

    def value(self) -> int:
        stored = self.states.read(self.id)
        assert stored
        return int(stored["caughtUpAt"])


class LeasedIndex(Leased):
    def __init__(self, table: Table) -> None:
        self.now, self.table = NOW, table
        table.delete(INDEX.key())
        objects: Any = None
        self.index = Generations(table, objects, "no bucket", lambda: self.now)

    def claim(self, worker: str, now: int) -> GenerationPointer | None:
        self.now = now
        return self.index.lease()

    def write(self, worker: str, state: GenerationPointer, value: int, now: int) -> GenerationPointer:
        self.now = now
        self.index._write(state.lease, Expression.of("SET #films = :films", films=value))
        return self.index.renew(state)

    def release(self, state: GenerationPointer, now: int) -> None:
        self.index.release(state)

    def value(self) -> int:
        return self.index.pointer().video_count


class LeasedRun(Leased):
    is_exclusive = False

    def __init__(self, table: Table) -> None:
        self.runs, self.id = RunStore(table), f"r{next(IDS)}"
        self.runs.begin("set", RevertRequest(Caller("alice", frozenset(), correlation_id=self.id)), NOW)

    def claim(self, worker: str, now: int) -> Item | None:
        return self.runs.read(self.id)

    def write(self, worker: str, state: Item, value: int, now: int) -> Item:
        reports = [{"value": value}] * (value % 2)  # with reports, the write is a transaction
        return self.runs.advance(state, state | {"examined": value}, now, reports=reports)

    def release(self, state: Item, now: int) -> None:
        """Do nothing, because a run has no lease."""

    def value(self) -> int:
        run = self.runs.read(self.id)
        assert run
        return int(run["examined"])


class Event(NamedTuple):
    """Step of a script."""

    kind: Literal["step", "release", "sweep", "tick", "jump"]
    worker: Literal["a", "b"] = "a"
    incident: Incident | None = None
    """Incident during a request of a step or release."""
    at: int = 0
    """Number of the request with the incident. For `tick`, the seconds that pass. For `jump`, the seconds by which the
    worker's clock is wrong from now on."""


@dataclass(frozen=True)
class WorkerState:
    """State of the item that a worker has, with the number of claims and writes when it received the state.

    `certain` is `None` if a write of the other worker was in flight. Then the state may or may not include this write.
    """

    item: Any
    certain: int | None
    possible: int
    is_timely: bool = True
    """Whether all clocks were right at the worker's claim and writes, so that the lease ends on time."""


class ScriptRun:
    """Run of a script: two workers and one item."""

    def __init__(self, kind: Callable[[Table], Leased], table: Table) -> None:
        self.line = FaultLine(table.client)
        self.item = kind(Table(table.name, table.client, sleep=lambda _: self.between()))
        self.now = NOW
        self.wrong = {"a": 0, "b": 0}
        """Seconds by which each worker's clock is wrong."""
        self.states: dict[str, WorkerState] = {}
        self.under_way: list[str] = []
        self.certain = self.possible = 0
        """Number of successful claims and writes. `possible` also counts calls during which the worker was killed."""
        self.is_released = False
        """Whether the last successful change of the item was its release."""
        self.values = count(1)

    def play(self, event: Event) -> None:
        if event.kind == "tick":
            self.now += event.at
        elif event.kind == "jump":
            self.wrong[event.worker] = event.at
        elif event.kind == "sweep":
            if self.item.sweep(self.now):
                self.certain, self.possible = self.certain + 1, self.possible + 1
        else:
            self.line.arm(event.incident or (lambda _: None), at=event.at)
            try:
                self.act(event.worker, is_release=event.kind == "release")
            except Killed:
                self.under_way.clear()
                self.is_released = False
                self.states.pop(event.worker, None)
                self.possible += 1
            finally:
                self.line.disarm()

    def between(self) -> None:
        """Run a step of the other worker, while a worker waits before a retry."""
        if len(self.under_way) == 1:
            self.act("b" if self.under_way == ["a"] else "a")

    def act(self, worker: str, *, is_release: bool = False) -> None:
        self.under_way.append(worker)
        state, now = self.states.pop(worker, None), self.now + self.wrong[worker]
        before = state or WorkerState(None, self.certain, self.possible)
        value = next(self.values)
        try:
            if state is None:
                item = None if is_release else self.item.claim(worker, now)
            elif is_release:
                item = self.item.release(state.item, now)
            else:
                item = self.item.write(worker, state.item, value, now)
        except LeaseLost:
            # This is correct only if another worker may have claimed or written the item.
            self.is_released = False
            assert is_release or before.possible != self.possible or len(self.under_way) == 2, (
                "the only worker's write was refused"
            )
        else:
            self.line.disarm()  # the incident must not affect requests of the test itself
            if state and not is_release:
                assert state.certain in (self.certain, None), "a worker that had lost its lease wrote the item"
                assert self.item.value() == value
            if is_release and state:
                self.item.sweep(self.now)
                is_undisturbed = self.possible == state.possible and not any(self.wrong.values())
                self.is_released = self.item.is_exclusive and is_undisturbed
            elif item is None and not is_release:
                assert not self.is_released or len(self.under_way) == 2, "a released item could not be claimed"
            else:
                self.is_released = False
            if item is not None:
                if not state and self.item.is_exclusive:
                    self.claimed(worker)
                if state or self.item.is_exclusive:
                    self.certain, self.possible = self.certain + 1, self.possible + 1
                is_timely = before.is_timely and not any(self.wrong.values())
                certain = self.certain if len(self.under_way) == 1 else None
                self.states[worker] = WorkerState(item, certain, self.possible, is_timely)
        self.under_way.pop()

    def claimed(self, worker: str) -> None:
        """Assert that a worker with a correct clock has not claimed an item that another worker holds."""
        if not any(self.wrong.values()):
            for other, state in self.states.items():
                lease = state.item.lease if isinstance(state.item, GenerationPointer) else Lease.of(state.item)
                has_ended = lease is None or lease.until <= self.now
                assert other == worker or has_ended or not state.is_timely, "two workers had a lease on the item"

    def end(self) -> None:
        """Assert that a worker can claim and write the item an hour later, whatever the script did."""
        self.now += 3600
        self.wrong = {"a": 0, "b": 0}
        self.states.clear()
        for _ in range(3):
            self.item.sweep(self.now)
        self.play(Event("step", "a"))
        assert "a" in self.states, "the item could not be claimed after an hour"
        self.play(Event("step", "a"))
        assert "a" in self.states


ALL = [LeasedJob, LeasedWebhook, LeasedIndex, LeasedRun]
A, B, EXPIRED = Event("step", "a"), Event("step", "b"), Event("tick", at=1000)
SWEEP = Event("sweep")
LOSSES = [lose_request, lose_response]
DEADLY = [kill_before, kill_after]
WORKERS = st.sampled_from("ab")
EVENTS = st.one_of(
    st.tuples(st.just("step"), WORKERS, st.sampled_from([None, None, *LOSSES, *DEADLY]), st.integers(0, 2)),
    st.tuples(st.just("release"), WORKERS, st.sampled_from([None, *LOSSES, *DEADLY]), st.just(0)),
    st.just(tuple(SWEEP)),
    st.tuples(st.just("tick"), WORKERS, st.none(), st.sampled_from([1, 39, 121, 1000])),
    st.tuples(st.just("jump"), WORKERS, st.none(), st.sampled_from([0, -30, 30, -1000, 1000, YEAR, -YEAR])),
).map(lambda parts: Event(*parts))

SCRIPTS = {
    "one after the other": [A, B, A, Event("release", "a"), B, B, A],
    "in turn": [B, A, B, A, B],
    "overtaken": [A, A, EXPIRED, SWEEP, B, A, B, A],
    "released late": [A, EXPIRED, SWEEP, B, Event("release", "a"), A, B],
    "ahead": [Event("jump", "a", at=YEAR), A, A],
    "ahead of another": [Event("jump", "b", at=1000), A, B, A, B],
    "behind": [Event("jump", "a", at=-YEAR), A, B, A],
} | {
    f"{incident.__name__} at request {at} of step {number}": [
        *[A] * number,
        A._replace(incident=incident, at=at),
        B,
        A,
        B,
    ]
    for incident in (*LOSSES, *DEADLY)
    for number in range(3)
    for at in range(3)
}
"""Scripts that find the most likely defects."""


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_writes_of_known_scripts_are_applied_for_the_lease_holder_only(
    kind: Callable[[Table], Leased], script: list[Event], table: Table
) -> None:
    _play(kind, table, script)


@pytest.mark.parametrize("kind", ALL)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(script=st.lists(EVENTS, max_size=14))
def test_writes_of_random_scripts_are_applied_for_the_lease_holder_only(
    kind: Callable[[Table], Leased], script: list[Event], table: Table
) -> None:
    _play(kind, table, script)


def _play(kind: Callable[[Table], Leased], table: Table, script: list[Event]) -> None:
    play = ScriptRun(kind, table)
    try:
        for event in script:
            play.play(event)
        play.end()
    finally:
        play.line.leave()
