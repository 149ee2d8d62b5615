"""A simulation of DynamoDB's limits: what many instances of the service do to one item, in virtual time.

    simulation = Simulation(ViewCounters, writers=64)
    run = simulation.run(seconds=3, per_second=20_000, work=lambda counters, now: counters.add("a", {"views": 1}, now))
    assert (run.done, run.failed) == (60_000, [])

Each writer is an instance of the service with what it remembers, made once from a Table of its own (here `ViewCounters(table)`),
and carries out one call at a time, as Lambda has it. Nothing sleeps: a writer that waits, for an answer or between two
attempts, hands over to the one whose time comes next. So a run is the same each time, and takes as long as its work.

What is simulated (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html):
an item takes 1,000 write units and 3,000 read units a second, and keeps what it has not used for `burst` seconds. What is more is
refused as on-demand tables refuse it. Items alone have limits here, as if each had a partition of its own; of expressions the
simulation knows what the stores write, and it raises NotImplementedError for all else. Indexes cannot be read, but what puts, updates,
deletes and transactions write to them has the same limits, for each partition key. Of streams there is what one of them would have.
"""

import math
import operator
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from heapq import heappop, heappush
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

from local.testbed.harness import NOW
from local.testbed.units import READ_BYTES, WRITE_BYTES, size
from shared.aws.dynamodb import OPERATIONS, Table
from shared.aws.lean import client
from shared.aws.lean.client import Refused
from shared.core.attributes import AttributeMap, AttributeValue, Item, decode_item
from shared.core.errors import NotApplied, ServiceError, Unavailable
from shared.schema import INDEXES, PARTITION_KEY, SORT_KEY, TABLE_NAME, Attribute, Index
from shared.video_fields import PROJECTION

WRITES, READS = 1_000, 3_000
"""Units a second of one partition, and so of one item, which lies in one."""
FASTEST, SLOWEST = 0.002, 0.004
"""Seconds until DynamoDB answers."""
SECONDS_PER_PART = 0.0003
"""How much longer a transaction takes for each item that it writes, during which it keeps others from them."""

Place = tuple[str, str]
_Instance = TypeVar("_Instance")


@dataclass
class Run:
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
        self.items: dict[Place, AttributeMap] = {}
        self._burst = burst
        self._random = random.Random(seed)
        self._run = Run()
        self.held: set[Place] = set()
        """Items that transactions are writing."""
        self.changes: list[tuple[AttributeMap | None, AttributeMap | None]] = []
        """What puts, updates and deletes have changed, in order: each item before and after it."""
        self.peaks: Counter[tuple[Place, int]] = Counter()
        """Write units that an item or a partition of an index took in each second (epoch)."""
        self._buckets: dict[tuple[Place, int], tuple[float, float]] = {}
        self._waiting: list[tuple[float, int, Lock]] = []
        self._turns = 0
        kind = PipelinedClient if is_pipelined else Client
        self.table = Table(TABLE_NAME, kind(self), sleep=self.wait)
        self.instances = [make(Table(TABLE_NAME, kind(self), sleep=self.wait)) for _ in range(writers)]

    @property
    def now(self) -> int:
        """Epoch seconds."""
        return int(self.time)

    def stored(self) -> list[Item]:
        """All items, by their keys."""
        return [decode_item(item) for _, item in sorted(self.items.items())]

    def run(self, seconds: float, per_second: float, work: Callable[[_Instance, int], object]) -> Run:
        """Begin `per_second` calls in each second, as soon as a writer is free for them; returns when all have ended.

        `work` is one call, given an instance and the time in epoch seconds. Errors that a caller would be answered are kept; others are
        raised.
        """
        run, begin = Run(), self.time
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


class Client:
    """What the stores ask of DynamoDB's client, on the items of a simulation."""

    def __init__(self, simulation: Simulation[Any]) -> None:
        self._simulation = simulation
        self._items = simulation.items
        self._sent: float | None = None
        """When the request was sent that is being answered, if that was before its answer is waited for."""

    def _answer_to(self, operation: str) -> None:
        sent, self._sent = self._sent, None
        self._simulation.answer_to(operation, sent)

    def get_item(self, *, Key: AttributeMap, ConsistentRead: bool = False, **asked: Any) -> Any:
        """GetItem."""
        self._answer_to("GetItem")
        item = self._read(_place(Key), ConsistentRead)
        return {"Item": _projected(item, asked)} if item else {}

    def batch_get_item(self, *, RequestItems: Mapping[str, Any]) -> Any:
        """BatchGetItem; what has no capacity left stays unprocessed."""
        self._answer_to("BatchGetItem")
        ((table, asked),) = RequestItems.items()
        items, left = [], []
        for key in asked["Keys"]:
            try:
                item = self._read(_place(key), asked.get("ConsistentRead", False))
            except Refused:
                left.append(key)
            else:
                items += [_projected(item, asked)] if item else []
        return {"Responses": {table: items}, "UnprocessedKeys": {table: {**asked, "Keys": left}} if left else {}}

    def query(self, *, ExpressionAttributeValues: Mapping[str, AttributeValue], **asked: Any) -> Any:
        """A Query for the items of one partition; what it reads takes no capacity."""
        partition_is = re.match(f"#{PARTITION_KEY} = (:[a-z]+)", asked["KeyConditionExpression"])
        if asked.get("IndexName") or not partition_is or asked.get("ExclusiveStartKey"):
            raise NotImplementedError(asked["KeyConditionExpression"])
        self._answer_to("Query")
        known = _Placeholders(asked.get("ExpressionAttributeNames", {}), ExpressionAttributeValues)
        condition, partition = (
            _condition(asked["KeyConditionExpression"]),
            ExpressionAttributeValues[partition_is[1]]["S"],
        )
        places = sorted(
            (place for place, item in self._items.items() if place[0] == partition and condition(item, known)),
            reverse=not asked.get("ScanIndexForward", True),
        )
        examined = places[: asked.get("Limit")]
        keep = _condition(asked["FilterExpression"]) if "FilterExpression" in asked else lambda *_: True
        items = [_projected(self._items[place], asked) for place in examined if keep(self._items[place], known)]
        page: dict[str, Any] = {"Items": items, "ScannedCount": len(examined)}
        if len(examined) < len(places):
            page["LastEvaluatedKey"] = {name: self._items[examined[-1]][name] for name in (PARTITION_KEY, SORT_KEY)}
        return page

    def put_item(self, *, Item: AttributeMap, **asked: Any) -> Any:
        """PutItem."""
        return self._write("PutItem", _place(Item), lambda _: dict(Item), asked)

    def update_item(self, *, Key: AttributeMap, UpdateExpression: str, **asked: Any) -> Any:
        """UpdateItem."""
        change = _change(UpdateExpression)
        return self._write("UpdateItem", _place(Key), lambda old: change(old or Key, _Placeholders.of(asked)), asked)

    def delete_item(self, *, Key: AttributeMap, **asked: Any) -> Any:
        """DeleteItem."""
        return self._write("DeleteItem", _place(Key), lambda _: None, asked)

    def batch_write_item(self, *, RequestItems: Mapping[str, Any]) -> Any:
        """BatchWriteItem, of deletes."""
        self._answer_to("BatchWriteItem")
        ((table, requests),) = RequestItems.items()
        left = []
        for request in requests:
            place = _place(request["DeleteRequest"]["Key"])
            if self._simulation.take(place, _units(self._items.get(place), WRITE_BYTES), WRITES):
                self._items.pop(place, None)
            else:
                left.append(request)
        return {"UnprocessedItems": {table: left} if left else {}}

    def transact_write_items(self, *, TransactItems: list[Mapping[str, Mapping[str, Any]]], **_: Any) -> Any:
        """TransactWriteItems, of puts, updates and deletes: all or none, and twice the units of the items."""
        parts = [_Part.of(kind, asked) for part in TransactItems for kind, asked in part.items()]
        places = {part.place for part in parts}
        self._answer_to("TransactWriteItems")
        conflicts = ["TransactionConflict" if part.place in self._simulation.held else "None" for part in parts]
        if any(conflict != "None" for conflict in conflicts):
            raise _cancelled({"Code": conflict} for conflict in conflicts)
        self._simulation.held |= places
        try:
            self._simulation.wait(SECONDS_PER_PART * len(parts))
            self._transact(parts)
        finally:
            self._simulation.held -= places
        return {}

    def _transact(self, parts: "list[_Part]") -> None:
        changes = [(part, self._items.get(part.place)) for part in parts]
        unmet = [not part.is_met(old) for part, old in changes]
        if any(unmet):
            raise _cancelled({"Code": "ConditionalCheckFailed" if failed else "None"} for failed in unmet)
        news = [(part.place, old, part.change(old)) for part, old in changes]
        asked: Counter[Place] = Counter()
        for place, old, new in news:
            asked[place] += 2 * max(_units(old, WRITE_BYTES), _units(new, WRITE_BYTES))
            asked.update(_index_units(old, new))
        # All are asked, because a transaction that one refuses has cost the others.
        taken = [self._simulation.take(place, units, WRITES) for place, units in asked.items()]
        if not all(taken):
            raise _cancelled([{"Code": "ThrottlingError"}])
        for place, _, new in news:
            if new is None:
                self._items.pop(place, None)
            else:
                self._items[place] = new

    def _read(self, place: Place, consistent: bool) -> AttributeMap | None:
        item = self._items.get(place)
        units = _units(item, READ_BYTES) * (1 if consistent else 0.5)
        if not self._simulation.take(place, units, READS):
            raise _throttled("TableRead")
        return item

    def _write(
        self,
        operation: str,
        place: Place,
        change: Callable[[AttributeMap | None], AttributeMap | None],
        asked: Mapping[str, Any],
    ) -> Any:
        self._answer_to(operation)
        old = self._items.get(place)
        is_met = "ConditionExpression" not in asked or _condition(asked["ConditionExpression"])(
            old or {}, _Placeholders.of(asked)
        )
        new = change(old) if is_met else old
        # A write whose condition fails takes units too; one that does not grow the item takes those of the larger.
        if not self._simulation.take(place, max(_units(old, WRITE_BYTES), _units(new, WRITE_BYTES)), WRITES):
            raise _throttled("TableWrite")
        # An index that is throttled throttles the writes of its table, after the others have taken theirs.
        taken = [self._simulation.take(entry, units, WRITES) for entry, units in _index_units(old, new).items()]
        if not all(taken):
            raise _throttled("IndexWrite")
        if not is_met:
            returned = {"Item": old} if old else {}
            raise Refused(400, {"__type": "ConditionalCheckFailedException", "message": "", **returned})
        if new is None:
            self._items.pop(place, None)
        else:
            self._items[place] = new
        if new != old:
            self._simulation.changes.append((old, new))
        match asked.get("ReturnValues", "NONE"):
            case "ALL_NEW":
                return {"Attributes": new or {}}
            case "ALL_OLD":
                return {"Attributes": old or {}}
            case _:
                return {}


class PipelinedClient(Client, client.Client):
    """The same, of which a Table sends many requests before it waits for the first response."""

    def __init__(self, simulation: Simulation[Any]) -> None:
        Client.__init__(self, simulation)
        self._idle = []

    def begin(self, operation: str, **parameters: Any) -> Callable[[], Any]:
        """Send a request, which is carried out when its answer is waited for."""
        carry_out, sent = getattr(self, OPERATIONS[operation]), self._simulation.time

        def answer() -> Any:
            self._sent = sent
            return carry_out(**parameters)

        return answer


def _throttled(what: str) -> Refused:
    """The refusal of an on-demand table."""
    reasons = [{"reason": f"{what}KeyRangeThroughputExceeded", "resource": f"arn:aws:dynamodb:::table/{TABLE_NAME}"}]
    message = "Throughput exceeds the current capacity of one or more of your partitions."
    return Refused(400, {"__type": "ThrottlingException", "message": message, "throttlingReasons": reasons})


def _cancelled(reasons: Iterable[Mapping[str, str]]) -> Refused:
    """The refusal of a transaction; one reason for each of its writes."""
    return Refused(400, {"__type": "TransactionCanceledException", "message": "", "CancellationReasons": [*reasons]})


@dataclass(frozen=True)
class _Part:
    """One write of a transaction."""

    place: Place
    change: Callable[[AttributeMap | None], AttributeMap | None]
    is_met: Callable[[AttributeMap | None], bool]

    @classmethod
    def of(cls, kind: str, asked: Mapping[str, Any]) -> "_Part":
        known, condition = _Placeholders.of(asked), asked.get("ConditionExpression")
        test = _condition(condition) if condition else lambda *_: True
        change: Callable[[AttributeMap | None], AttributeMap | None]
        match kind:
            case "Put":
                key, item = asked["Item"], asked["Item"]
                change = lambda _: dict(item)  # noqa: E731
            case "Update":
                key, made = asked["Key"], _change(asked["UpdateExpression"])
                change = lambda old: made(old or key, known)  # noqa: E731
            case "Delete":
                key, change = asked["Key"], lambda _: None
            case _:
                raise NotImplementedError(kind)
        return cls(_place(key), change, lambda old: test(old or {}, known))


def _index_units(old: AttributeMap | None, new: AttributeMap | None) -> Counter[Place]:
    """The write units that a change asks of partitions of indexes: none where no entry changes, two where one moves."""
    asked: Counter[Place] = Counter()
    for index in INDEXES:
        before, after = _entry(index, old), _entry(index, new)
        if before != after:
            is_moved = before and after and any(before[part.name] != after[part.name] for part in _keys(index))
            entries = (before, after) if is_moved else (after or before,)
            for entry in entries:
                if entry:
                    values = [*map(str, (_plain(entry[part.name]) for part in index.partition))]
                    asked[index.name, "#".join(values)] += _units(entry, WRITE_BYTES)
    return asked


def _keys(index: Index) -> tuple[Attribute, ...]:
    return (*index.partition, *index.sort)


_KEYS: Mapping[str, tuple[str, ...]] = {index.name: tuple(part.name for part in _keys(index)) for index in INDEXES}


def _entry(index: Index, item: AttributeMap | None) -> AttributeMap | None:
    """What an index has of an item; None of one without all of its keys."""
    keys = _KEYS[index.name]
    if item is None or not all(map(item.__contains__, keys)):
        return None
    return {name: item[name] for name in (PARTITION_KEY, SORT_KEY, *keys, *PROJECTION) if name in item}


def _place(item: AttributeMap) -> Place:
    return item[PARTITION_KEY]["S"], item[SORT_KEY]["S"]


def _units(item: AttributeMap | None, unit: int) -> int:
    return max(1, math.ceil(size(item) / unit))


def _projected(item: AttributeMap, asked: Mapping[str, Any]) -> AttributeMap:
    if "ProjectionExpression" not in asked:
        return item
    names = {asked["ExpressionAttributeNames"][place] for place in asked["ProjectionExpression"].split(", ")}
    return {name: value for name, value in item.items() if name in names}


# Expressions ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Placeholders:
    """What the placeholders of a request stand for."""

    names: Mapping[str, str]
    values: Mapping[str, AttributeValue]

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> "_Placeholders":
        return cls(asked.get("ExpressionAttributeNames", {}), asked.get("ExpressionAttributeValues", {}))


_Read = Callable[[AttributeMap, _Placeholders], AttributeValue | None]
_Test = Callable[[AttributeMap, _Placeholders], bool]
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class _Words:
    """The words of an expression, one after the other."""

    def __init__(self, text: str) -> None:
        self._words = re.findall(r"[#:]?\w+|<=|>=|<>|[=<>(),+\-]|\S", text)
        self._at = 0

    @property
    def next(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def take(self, *expected: str) -> str:
        word = self.next
        if expected and word not in expected:
            raise NotImplementedError(f"{word!r} in {' '.join(self._words)}")
        self._at += 1
        return word

    def operand(self) -> _Read:
        """A name, a value, `if_not_exists(name, operand)`, or the sum or difference of two."""
        first = self._single()
        if self.next not in ("+", "-"):
            return first
        sign = 1 if self.take() == "+" else -1
        second = self._single()
        return lambda item, known: _sum(first(item, known), second(item, known), sign)

    def _single(self) -> _Read:
        word = self.take()
        if word == "if_not_exists":
            self.take("(")
            name = self.take()
            self.take(",")
            otherwise = self.operand()
            self.take(")")
            return lambda item, known: item.get(known.names[name]) or otherwise(item, known)
        if word.startswith(":"):
            return lambda _, known: known.values[word]
        if not word.startswith("#"):
            raise NotImplementedError(f"{word!r} in {' '.join(self._words)}")
        return lambda item, known: item.get(known.names[word])

    def listed(self) -> Iterator[str]:
        """The first words of the parts of a list."""
        yield self.take()
        while self.next == ",":
            self.take()
            yield self.take()

    def alternatives(self) -> _Test:
        tests = [self._all()]
        while self.next == "OR":
            self.take()
            tests.append(self._all())
        return tests[0] if len(tests) == 1 else lambda item, known: any(test(item, known) for test in tests)

    def _all(self) -> _Test:
        tests = [self._one()]
        while self.next == "AND":
            self.take()
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else lambda item, known: all(test(item, known) for test in tests)

    def _one(self) -> _Test:
        if self.next == "(":
            self.take()
            inner = self.alternatives()
            self.take(")")
            return inner
        if self.next in ("attribute_exists", "attribute_not_exists"):
            wanted = self.take() == "attribute_exists"
            self.take("(")
            name = self.take()
            self.take(")")
            return lambda item, known: (known.names[name] in item) == wanted
        left = self.operand()
        compare = _COMPARISONS[self.take(*_COMPARISONS)]
        right = self.operand()

        def test(item: AttributeMap, known: _Placeholders) -> bool:
            one, other = left(item, known), right(item, known)
            return (
                one is not None
                and other is not None
                and one.keys() == other.keys()
                and compare(*map(_plain, (one, other)))
            )

        return test


def _plain(value: AttributeValue) -> Any:
    ((kind, content),) = value.items()
    return Decimal(content) if kind == "N" else content


def _sum(one: AttributeValue | None, other: AttributeValue | None, sign: int = 1) -> AttributeValue:
    if one is None or other is None:
        raise NotImplementedError("a sum of what is not there")
    return {"N": str(Decimal(one["N"]) + sign * Decimal(other["N"]))}


@cache
def _condition(text: str) -> _Test:
    words = _Words(text)
    test = words.alternatives()
    words.take("")
    return test


@cache
def _change(text: str) -> Callable[[AttributeMap, _Placeholders], AttributeMap]:
    """What an update expression makes of an item."""
    words = _Words(text)
    assigned: list[tuple[str, _Read]] = []
    added: list[tuple[str, _Read]] = []
    removed: list[str] = []
    while words.next:
        match words.take("SET", "ADD", "REMOVE"):
            case "SET":
                for name in words.listed():
                    words.take("=")
                    assigned.append((name, words.operand()))
            case "ADD":
                added += [(name, words.operand()) for name in words.listed()]
            case _:
                removed += words.listed()

    def change(old: AttributeMap, known: _Placeholders) -> AttributeMap:
        # All operands are read from the item as it was.
        new = {
            **old,
            **{known.names[name]: value for name, read in assigned if (value := read(old, known)) is not None},
        }
        for name, read in added:
            new[known.names[name]] = _sum(old.get(known.names[name], {"N": "0"}), read(old, known))
        for name in removed:
            new.pop(known.names[name], None)
        return new

    return change
