"""Simulation of DynamoDB's limits: the load of many service instances on one item, in virtual time.

>>> from shared.videos.counters import ViewCounters
>>> simulation = Simulation(ViewCounters, writers=64)
>>> run = simulation.run(seconds=1, per_second=2_000, work=lambda counters, now: counters.add("v", {"views": 1}, now))
>>> run.done, run.failed
(2000, [])

Each writer simulates an instance of a Lambda function. It has its own Table and caches (here a `ViewCounters`), and
executes one call at a time. No thread sleeps. Instead, a writer that waits for a response or for its next attempt yields
to the writer that is due next. Therefore runs are deterministic, and take only the time of the computation.

The simulated limits (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html):

- An item accepts 1,000 write units and 3,000 read units per second. Unused capacity of up to `burst` seconds accumulates.
- A request above the limits fails with the error of an on-demand table.
- Each item has its own limits, as if the item was alone in a partition.
- Each partition key of an index has the same limits for writes.

The class Stub of local/testbed/stub.py stores the items.
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
from local.testbed.units import READ_BYTES, WRITE_BYTES, index_writes, size
from shared.aws.dynamodb import OPERATIONS, Table
from shared.aws.lean import client
from shared.aws.lean.client import ErrorResponse
from shared.core.attributes import AttributeMap
from shared.core.errors import NotApplied, ServiceError, Unavailable
from shared.schema import INDEXES, TABLE_NAME

WRITES, READS = 1_000, 3_000
"""Maximum write units and read units per second of one partition, and therefore of one item."""
FASTEST, SLOWEST = 0.002, 0.004
"""Minimum and maximum latency of DynamoDB, in seconds."""
SECONDS_PER_PART = 0.0003
"""Additional latency of a transaction for each of its items, in seconds. The items are locked during this time."""

_Instance = TypeVar("_Instance")


@dataclass
class SimulatedRun:
    """Results of one run of a simulation."""

    done: int = 0
    failed: list[ServiceError] = field(default_factory=list)
    """Errors of calls that DynamoDB certainly did not apply."""
    unknown: list[ServiceError] = field(default_factory=list)
    """Errors of calls that DynamoDB may or may not have applied."""
    seconds: float = 0.0
    """Virtual time from the start of the run to the end of its last call, including waits for a free writer."""
    requests: Counter[str] = field(default_factory=Counter)
    """Number of requests by operation. The key `throttled` has the number of throttled requests."""
    reads: float = 0.0
    writes: float = 0.0
    """Consumed write units of requests that were not throttled. `reads` has the read units of the same requests."""

    @property
    def calls(self) -> int:
        """Number of calls."""
        return self.done + len(self.failed) + len(self.unknown)


class Simulation(Generic[_Instance]):
    """A table with DynamoDB's limits, and the writers that share the table. All runs use the same table, so items
    remain from earlier runs."""

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
        """Create the writers. Each writer has a Table and the instance that `make` returns for that Table.

        `burst` is in seconds, `start` in epoch seconds. With `is_pipelined`, instances may send requests before earlier
        responses have arrived, as the service's client does.
        """
        self.time = float(start)
        self._burst = burst
        self._random = random.Random(seed)
        self._run = SimulatedRun()
        self.peaks: Counter[tuple[Place, int]] = Counter()
        """Consumed write units, by item or index partition, and by epoch second."""
        self._buckets: dict[tuple[Place, int], tuple[float, float]] = {}
        self._waiting: list[tuple[float, int, Lock]] = []
        self._turns = 0
        self.items = _Limited(self)
        connect = partial(_PipelinedClient, self) if is_pipelined else partial(_Client, self.items)
        self.table = Table(TABLE_NAME, connect(), sleep=self.wait)
        self.instances = [make(Table(TABLE_NAME, connect(), sleep=self.wait)) for _ in range(writers)]

    @property
    def now(self) -> int:
        """Virtual time in epoch seconds."""
        return int(self.time)

    def run(self, seconds: float, per_second: float, work: Callable[[_Instance, int], object]) -> SimulatedRun:
        """Start `per_second` calls per second for `seconds`, and return after all calls have ended.

        A call waits until a writer is free. `work` receives the instance of the writer and the time in epoch seconds,
        and executes one call. If a call raises a ServiceError, the result contains the error. All other errors are
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
        random.seed(self._random.random())  # for random decisions of the instances
        try:
            self._together(write)
        finally:
            random.setstate(state)
        run.seconds = self.time - begin
        self.time = max(self.time, begin + seconds)
        return run

    def rest(self, seconds: float) -> None:
        """Advance the virtual time."""
        self.time += seconds

    def wait(self, seconds: float) -> None:
        """Run other writers until `seconds` of virtual time have passed."""
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
        """Call `write` with each instance, in one thread per instance. Only one thread runs at a time. Raises the first
        error of any thread."""
        errors: list[BaseException] = []
        over, writing = Lock(), len(self.instances)
        over.acquire()

        def writer(instance: _Instance, turn: Lock) -> None:
            nonlocal writing
            turn.acquire()
            try:
                if not errors:
                    write(instance)
            except BaseException as error:  # raised again in the thread of the test
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
        """Resume the writer with the earliest due time."""
        until, _, turn = heappop(self._waiting)
        self.time = max(self.time, until)
        turn.release()

    # Interface of the clients --------------------------------------------------------------------------------------

    def answer_to(self, operation: str, sent: float | None = None) -> None:
        """Wait until the response to a request arrives. `sent` is the virtual time at which the request was sent, by
        default now."""
        self._run.requests[operation] += 1
        latency = self._random.uniform(FASTEST, SLOWEST)
        self.wait(latency if sent is None else sent + latency - self.time)

    def take(self, place: Place, units: float, limit: int) -> bool:
        """Consume units of an item's capacity if at least one unit is left. Returns `False` if none is left.

        `limit` is WRITES or READS.
        """
        most = limit * self._burst
        left, at = self._buckets.get((place, limit), (most, self.time))
        left = min(most, left + (self.time - at) * limit)
        # A request may consume more than the remaining capacity. The deficit delays later requests.
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
    """Table in memory with latency and limits. Each request consumes capacity of items and index partitions."""

    def __init__(self, simulation: Simulation[Any]) -> None:
        super().__init__()
        self._simulation = simulation
        self._held: set[Place] = set()
        """Keys of the items that transactions have locked."""
        self.sent: float | None = None
        """Virtual time at which the request to execute next was sent. `None` if it is sent at the time of its execution."""

    def wait_for(self, operation: str) -> None:
        """Wait for DynamoDB's response."""
        sent, self.sent = self.sent, None
        self._simulation.answer_to(operation, sent)

    def spend_read(self, item: AttributeMap | None, place: Place, *, consistent: bool) -> None:
        """Consume the read units of an item. Raises ErrorResponse if the item is throttled."""
        units = _units(item, READ_BYTES) * (1 if consistent else 0.5)
        if not self._simulation.take(place, units, READS):
            raise _throttled("TableRead")

    def spend_write(
        self, changes: Iterable[tuple[Place, AttributeMap | None, AttributeMap | None]], *, together: bool
    ) -> None:
        """Consume the write units of changed items, and of the changed entries in indexes.

        With `together`, the changes are a transaction. A transaction consumes the units of items twice. Raises
        ErrorResponse if an item or an index partition is throttled.
        """
        if together:
            self._spend_transaction(changes)
            return
        for place, old, new in changes:
            # A write consumes the units of the larger item, old or new.
            if not self._simulation.take(place, max(_units(old, WRITE_BYTES), _units(new, WRITE_BYTES)), WRITES):
                raise _throttled("TableWrite")
            # A throttled index throttles the table's writes, after the other indexes have consumed their units.
            taken = [
                self._simulation.take(entry, units, WRITES) for entry, units in index_writes(old, new, INDEXES).items()
            ]
            if not all(taken):
                raise _throttled("IndexWrite")

    def _spend_transaction(self, changes: Iterable[tuple[Place, AttributeMap | None, AttributeMap | None]]) -> None:
        asked: Counter[Place] = Counter()
        for place, old, new in changes:
            asked[place] += 2 * max(_units(old, WRITE_BYTES), _units(new, WRITE_BYTES))
            asked.update(index_writes(old, new, INDEXES))
        # All items consume units, because a transaction that is throttled by one item still costs the units of all
        # others.
        taken = [self._simulation.take(place, units, WRITES) for place, units in asked.items()]
        if not all(taken):
            raise cancelled([{"Code": "ThrottlingError"}])

    @contextmanager
    def held(self, places: set[Place], parts: Sequence[Place]) -> Iterator[None]:
        """Lock items while a transaction writes them. The locks are held longer if the transaction has more items."""
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
    """Client that sends a request only after the response to the previous request has arrived."""

    def __init__(self, items: _Limited) -> None:
        for operation, name in OPERATIONS.items():
            setattr(self, name, partial(items.carry_out, operation))


class _PipelinedClient(client.Client):
    """Client with which a Table can send many requests before it waits for the first response."""

    def __init__(self, simulation: Simulation[Any]) -> None:
        self._simulation = simulation
        self._idle = []

    def begin(self, operation: str, **parameters: Any) -> Callable[[], Any]:
        """Record the time at which a request is sent. Returns a function that executes the request."""
        sent = self._simulation.time

        def answer() -> Any:
            self._simulation.items.sent = sent
            return self._simulation.items.carry_out(operation, **parameters)

        return answer


def _throttled(what: str) -> ErrorResponse:
    """Return the throttling error of an on-demand table."""
    reasons = [{"reason": f"{what}KeyRangeThroughputExceeded", "resource": f"arn:aws:dynamodb:::table/{TABLE_NAME}"}]
    message = "Throughput exceeds the current capacity of one or more of your partitions."
    return ErrorResponse(400, {"__type": "ThrottlingException", "message": message, "throttlingReasons": reasons})


def _units(item: AttributeMap | None, unit: int) -> int:
    return max(1, math.ceil(size(item) / unit))
