"""A simulation of DynamoDB's limits: what many instances of the service do to one item, in virtual time.

    simulation = Simulation(ViewCounters, writers=64)
    run = simulation.run(seconds=3, per_second=20_000, work=lambda counters, now: counters.add("a", {"views": 1}, now))
    assert (run.done, run.failed) == (60_000, [])

Each writer is an instance of the service with what it remembers, made once from a Table of its own (here `ViewCounters(table)`),
and carries out one call at a time, as Lambda has it. Nothing sleeps: a writer that waits, for an answer or between two
attempts, hands over to the one whose time comes next. So a run is the same each time, and takes as long as its work.

What is simulated (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html):
an item takes 1,000 write units and 3,000 read units a second, and keeps what it has not used for `burst` seconds. What is more is
refused as on-demand tables refuse it. Items alone have limits here, as if each had a partition of its own. What puts, updates,
deletes and transactions write to indexes has the same limits, for each partition key. The items are those of a `local/testbed/stub.py`.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

from local.testbed.harness import NOW
from local.testbed.stub import Place, Stub, cancelled
from local.testbed.units import READ_BYTES, WRITE_BYTES, index_entry, size
from shared.aws.dynamodb import OPERATIONS, Table
from shared.aws.lean import client
from shared.aws.lean.client import ErrorResponse
from shared.core.attributes import AttributeMap
from shared.core.errors import NotApplied, ServiceError, Unavailable
from shared.schema import INDEXES, TABLE_NAME

WRITES, READS = 1_000, 3_000
"""Units a second of one partition, and so of one item, which lies in one."""
FASTEST, SLOWEST = 0.002, 0.004
"""Seconds until DynamoDB answers."""
SECONDS_PER_PART = 0.0003
"""How much longer a transaction takes for each item that it writes, during which it keeps others from them."""

_Instance = TypeVar("_Instance")


@dataclass
class SimulatedRun:
    """What became of the calls of a run."""

    done: int = 0
    failed: list[ServiceError] = field(default_factory=list)
    """Errors of calls that certainly did nothing."""
    unknown: list[ServiceError] = field(default_factory=list)
    """Errors of calls that may have been carried out."""
    seconds: float = 0.0
    """Virtual time that all calls took; those that found no writer free have waited for one."""
    requests: Counter[str] = field(default_factory=Counter)
    """Requests that were sent, by operation; those that were refused are `throttled` besides."""
    reads: float = 0.0
    writes: float = 0.0
    """Units of what was not refused."""

    @property
    def calls(self) -> int:
        """All calls."""
        return self.done + len(self.failed) + len(self.unknown)


class Simulation(Generic[_Instance]):
    """A table that has limits, and instances of the service that share it. What they do goes on where the last run ended."""

    def __init__(
        self,
        make: Callable[[Table], _Instance],
        *,
        writers: int = 64,
        burst: float = 1.0,
        seed: int = 1,
        start: int = NOW,
        is_pipelined: bool = False,
    ) -> None:
        """`make` makes an instance; `burst` is in seconds, `start` in epoch seconds.

        `is_pipelined`: an instance may send requests before the responses to earlier ones have arrived, as the service's client does.
        """
        self.time = float(start)
        self._burst = burst
        self._random = random.Random(seed)
        self._run = SimulatedRun()
        self.peaks: Counter[tuple[Place, int]] = Counter()
        """Write units that an item or a partition of an index took in each second (epoch)."""
        self._buckets: dict[tuple[Place, int], tuple[float, float]] = {}
        self._waiting: list[tuple[float, int, Lock]] = []
        self._turns = 0
        self.items = _Limited(self)
        connect = partial(_PipelinedClient, self) if is_pipelined else partial(_Client, self.items)
        self.table = Table(TABLE_NAME, connect(), sleep=self.wait)
        self.instances = [make(Table(TABLE_NAME, connect(), sleep=self.wait)) for _ in range(writers)]

    @property
    def now(self) -> int:
        """Epoch seconds."""
        return int(self.time)

    def run(self, seconds: float, per_second: float, work: Callable[[_Instance, int], object]) -> SimulatedRun:
        """Begin `per_second` calls in each second, as soon as a writer is free for them; returns when all have ended.

        `work` is one call, given an instance and the time in epoch seconds. Errors that a caller would be answered are kept; others are
        raised.
        """
        run, begin = SimulatedRun(), self.time
        self._run = run
        calls = iter(range(round(seconds * per_second)))

        def write(instance: _Instance) -> None:
            for call in calls:
                self.wait(begin + call / per_second - self.time)
                try:
                    work(instance, self.now)
                except NotApplied as error:
                    run.failed.append(error)
                except Unavailable as error:
                    run.unknown.append(error)
                except ServiceError as error:
                    run.failed.append(error)
                else:
                    run.done += 1

        state = random.getstate()
        random.seed(self._random.random())  # what instances do by chance
        try:
            self._together(write)
        finally:
            random.setstate(state)
        run.seconds = self.time - begin
        self.time = max(self.time, begin + seconds)
        return run

    def rest(self, seconds: float) -> None:
        """Let time pass."""
        self.time += seconds

    def wait(self, seconds: float) -> None:
        """Let the others go on until these seconds have passed."""
        if seconds <= 0:
            return
        until = self.time + seconds
        if not self._waiting or self._waiting[0][0] > until:
            self.time = until
            return
        turn = Lock()
        turn.acquire()
        self._wait_for(turn, until)
        self._next()
        turn.acquire()

    def _together(self, write: Callable[[_Instance], None]) -> None:
        """Let all instances write, one at a time, and raise the first of their errors."""
        errors: list[BaseException] = []
        over, writing = Lock(), len(self.instances)
        over.acquire()

        def writer(instance: _Instance, turn: Lock) -> None:
            nonlocal writing
            turn.acquire()
            try:
                if not errors:
                    write(instance)
            except BaseException as error:  # it is raised again, in the thread of the test
                errors.append(error)
            writing -= 1
            if writing:
                self._next()
            else:
                over.release()

        threads = []
        for instance in self.instances:
            turn = Lock()
            turn.acquire()
            self._wait_for(turn, self.time)
            threads.append(Thread(target=writer, args=(instance, turn), daemon=True))
        for thread in threads:
            thread.start()
        self._next()
        over.acquire()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def _wait_for(self, turn: Lock, until: float) -> None:
        self._turns += 1
        heappush(self._waiting, (until, self._turns, turn))

    def _next(self) -> None:
        """Let the one go on whose time comes first."""
        until, _, turn = heappop(self._waiting)
        self.time = max(self.time, until)
        turn.release()

    # What the client asks of it ------------------------------------------------------------------------------------

    def answer_to(self, operation: str, sent: float | None = None) -> None:
        """Wait until DynamoDB has carried out a request that was sent at a time: now, unless another is given."""
        self._run.requests[operation] += 1
        latency = self._random.uniform(FASTEST, SLOWEST)
        self.wait(latency if sent is None else sent + latency - self.time)

    def take(self, place: Place, units: float, limit: int) -> bool:
        """Take units of an item's capacity, if there are any: WRITES or READS a second."""
        most = limit * self._burst
        left, at = self._buckets.get((place, limit), (most, self.time))
        left = min(most, left + (self.time - at) * limit)
        # A request may take more than there is: what is missing is missing to the next ones.
        is_taken = left >= 1
        self._buckets[place, limit] = (left - units if is_taken else left, self.time)
        if is_taken and limit == WRITES:
            self._run.writes += units
            self.peaks[place, self.now] += round(units)
        elif is_taken:
            self._run.reads += units
        else:
            self._run.requests["throttled"] += 1
        return is_taken


class _Limited(Stub):
    """The items of a simulation: each request takes its time, and units of the items and of the indexes that it changes."""

    def __init__(self, simulation: Simulation[Any]) -> None:
        super().__init__()
        self._simulation = simulation
        self._held: set[Place] = set()
        """Items that transactions are writing."""
        self.sent: float | None = None
        """When the request was sent that is carried out next, if that was before its answer is waited for."""

    def wait_for(self, operation: str) -> None:
        """Wait for DynamoDB's answer."""
        sent, self.sent = self.sent, None
        self._simulation.answer_to(operation, sent)

    def spend_read(self, item: AttributeMap | None, place: Place, *, consistent: bool) -> None:
        """Take read units of an item."""
        units = _units(item, READ_BYTES) * (1 if consistent else 0.5)
        if not self._simulation.take(place, units, READS):
            raise _throttled("TableRead")

    def spend_write(
        self, changes: Iterable[tuple[Place, AttributeMap | None, AttributeMap | None]], *, together: bool
    ) -> None:
        """Take write units of items and of their entries in indexes; a transaction takes those of its items twice."""
        if together:
            self._spend_transaction(changes)
            return
        for place, old, new in changes:
            # One that does not grow the item takes the units of the larger.
            if not self._simulation.take(place, max(_units(old, WRITE_BYTES), _units(new, WRITE_BYTES)), WRITES):
                raise _throttled("TableWrite")
            # An index that is throttled throttles the writes of its table, after the others have taken theirs.
            taken = [self._simulation.take(entry, units, WRITES) for entry, units in _index_units(old, new).items()]
            if not all(taken):
                raise _throttled("IndexWrite")

    def _spend_transaction(self, changes: Iterable[tuple[Place, AttributeMap | None, AttributeMap | None]]) -> None:
        asked: Counter[Place] = Counter()
        for place, old, new in changes:
            asked[place] += 2 * max(_units(old, WRITE_BYTES), _units(new, WRITE_BYTES))
            asked.update(_index_units(old, new))
        # All are asked, because a transaction that one refuses has cost the others.
        taken = [self._simulation.take(place, units, WRITES) for place, units in asked.items()]
        if not all(taken):
            raise cancelled([{"Code": "ThrottlingError"}])

    @contextmanager
    def held(self, places: set[Place], parts: Sequence[Place]) -> Iterator[None]:
        """Keep others from items while a transaction writes them, which takes longer the more they are."""
        conflicts = ["TransactionConflict" if place in self._held else "None" for place in parts]
        if any(conflict != "None" for conflict in conflicts):
            raise cancelled({"Code": conflict} for conflict in conflicts)
        self._held |= places
        try:
            self._simulation.wait(SECONDS_PER_PART * len(parts))
            yield
        finally:
            self._held -= places


class _Client:
    """A client that sends no request before the answer to the last has come."""

    def __init__(self, items: _Limited) -> None:
        for operation, name in OPERATIONS.items():
            setattr(self, name, partial(items.carry_out, operation))


class _PipelinedClient(client.Client):
    """One of which a Table sends many requests before it waits for the first response."""

    def __init__(self, simulation: Simulation[Any]) -> None:
        self._simulation = simulation
        self._idle = []

    def begin(self, operation: str, **parameters: Any) -> Callable[[], Any]:
        """Send a request, which is carried out when its answer is waited for."""
        sent = self._simulation.time

        def answer() -> Any:
            self._simulation.items.sent = sent
            return self._simulation.items.carry_out(operation, **parameters)

        return answer


def _throttled(what: str) -> ErrorResponse:
    """The refusal of an on-demand table."""
    reasons = [{"reason": f"{what}KeyRangeThroughputExceeded", "resource": f"arn:aws:dynamodb:::table/{TABLE_NAME}"}]
    message = "Throughput exceeds the current capacity of one or more of your partitions."
    return ErrorResponse(400, {"__type": "ThrottlingException", "message": message, "throttlingReasons": reasons})


def _index_units(old: AttributeMap | None, new: AttributeMap | None) -> Counter[Place]:
    """The write units that a change asks of partitions of indexes: none where no entry changes, two where one moves."""
    asked: Counter[Place] = Counter()
    for index in INDEXES:
        before, after = index_entry(old, index), index_entry(new, index)
        if before != after:
            is_moved = (
                before
                and after
                and any(before[part.name] != after[part.name] for part in (*index.partition, *index.sort))
            )
            entries = (before, after) if is_moved else (after or before,)
            for entry in entries:
                if entry:
                    values = (next(iter(entry[part.name].values())) for part in index.partition)
                    asked[index.name, "#".join(values)] += _units(entry, WRITE_BYTES)
    return asked


def _units(item: AttributeMap | None, unit: int) -> int:
    return max(1, math.ceil(size(item) / unit))
