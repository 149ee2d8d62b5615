"""Cost of feed, undo and webhooks by number of changes: `python -m bench.changes`. `--docs` writes the table of
docs/scale.md.

The benchmark runs the stores on DynamoDB in memory, and counts units by DynamoDB's rules. The feed is filled by real
appends. Audit entries are generated when a request reads them, because a million of them would not fit into memory.

Costs must be flat: the benchmark fails if a figure exceeds TOLERANCE times the figure of the smallest size. Only the
cost to find the position of a time in the feed may grow, as O(log n). The benchmark also fails if a change is lost or
repeated.
"""

import argparse
import hashlib
import logging
import math
import time
import tracemalloc
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

from bench.tables import Grid
from local import ROOT
from local.readme import filled
from local.stream_records import stream_record
from local.testbed.deliveries import URL, respond_with
from local.testbed.feed_changes import append_changes, change
from local.testbed.harness import DELIVERY_QUOTAS, JOBS_PER_DAY, MASTER, NOW, Clock
from local.testbed.meter import Meter, MeteredUsage
from local.testbed.stub import Place, Stub, StubClient
from local.testbed.units import index_entry, size
from shared.aws.dynamodb import Table
from shared.aws.records import with_version
from shared.aws.stream import Record
from shared.core.attributes import AttributeMap, Item, encode_item
from shared.core.caller import Caller
from shared.core.position import Position
from shared.feed.change import Change
from shared.feed.log import OLDEST, Feed, LogCursor, owner_log, shard_logs
from shared.feed.reader import read_page
from shared.history.as_of import PastVersions
from shared.history.changeset_reverts import ChangeSetReverts
from shared.history.changesets import position_of
from shared.history.entries import entry, sortable
from shared.history.revert_runs import DONE, RevertRequest, RunStore
from shared.history.trail import AuditStore
from shared.history.video_reverts import VideoReverts
from shared.processing.daily_quota import QuotaStore
from shared.routes import ADMIN, READ, WRITE
from shared.schema import (
    AUDIT,
    AUDIT_TABLE_NAME,
    CHANGESET_INDEX,
    SORT_KEY,
    TABLE_NAME,
    VIDEO,
    WEBHOOK,
    Index,
    shard_of,
)
from shared.videos.store import VideoStore
from shared.videos.video import new_item, stamp
from shared.webhooks.delivery import Deliverer
from shared.webhooks.delivery_state import DeliveryStateStore, first_state
from shared.webhooks.http_client import ReceiverResponse
from shared.webhooks.quotas import DeliveryQuotas
from shared.webhooks.transport import HttpTransport

PAGE, SECTION = ROOT / "docs" / "scale.md", "changes"
"""Page and generated section with the table."""
SIZES = (1_000, 10_000, 100_000, 1_000_000)
"""Numbers of changes with which the costs are measured."""
TOLERANCE = 1.05
"""Maximum ratio of a cost to the same cost at the smallest size, unless `MeasuredWork.most` limits the cost."""
MEMORY_FROM, MEMORY_TOLERANCE = 10_000, 1.25
"""Limit of a worker's memory. With more than MEMORY_FROM changes, a worker may need at most MEMORY_TOLERANCE times as
much memory as with MEMORY_FROM changes. With fewer changes, the logs are shorter than the blocks that a worker reads at
once."""
WHOLE_UNDO = 5_000
"""Number of videos of the import that is undone completely."""
TIMINGS, TIMED_SECONDS = 3, 0.2
"""Minimum number of measurements of processor time, and minimum seconds of these measurements together. The result is
the shortest measurement."""

FILLING, SINGLE = 32, 200
"""Number of changes per append while the feed is filled (FILLING), before the measurement. Number of measured appends
that have one change each (SINGLE)."""
BATCH, BATCHES = 400, 4
"""Number of changes per append (BATCH) and number of appends (BATCHES) in each measurement of large appends."""
ITEMS = 25
"""Number of items on each page."""
WHOLE_PAGE = 1_000
"""Number of changes on each page when the whole feed is read."""
DELIVERED, SAMPLED = 12_800, 1_024
"""Maximum number of changes that a webhook receives in one run. The first is for runs that measure time, the second for
runs that measure the worker's memory."""
PER_STEP = 98
"""Number of videos that one step of an undo reverts."""
BACK = 50
"""Number of changes after the version that the benchmark reads or restores with a `ChangedVideo`."""
TRAIL_DAYS = 400

MEGABYTE = 1_000_000
"""Maximum bytes that DynamoDB examines for one Query."""
SEPARATOR = "\0"
"""Separator between the sort values of an index entry. It sorts before all other characters."""
OWNER = Caller("alice", frozenset({READ, WRITE}))
ADMINISTRATOR = Caller("root", frozenset({READ, WRITE, ADMIN}), correlation_id="undo-1")
CHANGE_SET, BEFORE = "import-1", "Before the import"
"""Id of the import's change set, and title of its videos before the import."""
IMPORTED = NOW + 100
"""Time of the import, in epoch seconds."""
IMPORT = Caller.job("import").acting_for(CHANGE_SET)
SECONDS_PER_VERSION, FIRST_VERSION = 10, 1_000_000
"""Seconds between two changes of the video in `ChangedVideo`, and number of that video's oldest version. All version
numbers have seven digits, because the size of an item depends on the number of digits."""

# Tables -----------------------------------------------------------------------------------------------------------------


class LongPartition(NamedTuple):
    """Items of one partition of a table or an index, numbered in the order of their sort keys."""

    length: int
    key: Callable[[int], str]
    """Function that returns the sort key of an item by its number. The sort key of an index entry consists of several
    values, joined by SEPARATOR."""
    item: Callable[[int], AttributeMap]

    def first_from(self, key: str) -> int:
        """Return the number of the first item with this sort key or a greater one."""
        return bisect_left(range(self.length), key, key=self.key)

    def first_after(self, key: str) -> int:
        """Return the number of the first item with a sort key greater than `key`."""
        return bisect_right(range(self.length), key, key=self.key)

    def examined(self, asked: Mapping[str, Any], index: Index | None) -> tuple[list[AttributeMap], bool]:
        """Return the items that DynamoDB examines for a Query, and whether it stops before the last matching item.

        DynamoDB stops at the limit of the Query, or at MEGABYTE. In this case, the returned items also include the next
        item, which DynamoDB does not examine.
        """
        low, high = 0, self.length
        values = {name: value["S"] for name, value in asked["ExpressionAttributeValues"].items() if "S" in value}
        match asked["KeyConditionExpression"].split(" AND ", 1)[1:]:
            case [part] if part.startswith("begins_with"):
                prefix = values[_last_word(part)]
                low, high = self.first_from(prefix), self.first_from(f"{prefix}\U0010ffff")
            case [part] if " BETWEEN " in part:
                first, last = part.split(" BETWEEN ")[1].split(" AND ")
                low, high = self.first_from(values[first]), self.first_after(values[last])
            case [part]:
                low = self.first_from(values[_last_word(part)])
        ascending = asked.get("ScanIndexForward", True)
        if start := asked.get("ExclusiveStartKey"):
            names = [attribute.name for attribute in index.sort] if index else [SORT_KEY]
            key = SEPARATOR.join(start[name]["S"] for name in names)
            low, high = (max(low, self.first_after(key)), high) if ascending else (low, min(high, self.first_from(key)))
        rows: list[AttributeMap] = []
        bytes_ = 0
        for number in range(low, high) if ascending else range(high - 1, low - 1, -1):
            if len(rows) == asked["Limit"] or bytes_ >= MEGABYTE:
                return [*rows, self.item(number)], True
            rows.append(self.item(number))
            bytes_ += size(rows[-1])
        return rows, False


def _last_word(condition: str) -> str:
    return condition.rstrip(")").split()[-1]


Find = Callable[[str], LongPartition | None]
"""Function that returns the generated partition with a partition key; `None` if there is none with this key."""


class LongStub(Stub):
    """DynamoDB in memory with long partitions, whose items are generated when a request reads them. A Query finds its
    page by bisection.

    `find` receives a partition key and returns the generated partition, or `None` if the partition has only stored
    items. In reads by key, a stored item replaces the generated item with the same key.
    """

    def __init__(self, find: Find = lambda _: None) -> None:
        super().__init__()
        self._find = find
        self._keys: defaultdict[str, list[str]] = defaultdict(list)

    def item(self, place: Place) -> AttributeMap | None:
        stored = super().item(place)
        if stored is not None or not (long := self._find(place[0])):
            return stored
        number = long.first_from(place[1])
        return long.item(number) if number < long.length and long.key(number) == place[1] else None

    def keep(self, place: Place, item: AttributeMap | None) -> None:
        is_stored = place[1] in self.partitions[place[0]]
        super().keep(place, item)
        if item is None and is_stored:
            self._keys[place[0]].remove(place[1])
        elif item is not None and not is_stored:
            insort(self._keys[place[0]], place[1])

    def reset(self) -> None:
        """Delete all stored items, so that reads by key return the generated items again."""
        self.partitions.clear()
        self._keys.clear()
        self.changes.clear()

    def _query(self, **asked: Any) -> Any:
        index = self._indexes.get(asked.get("IndexName", ""))
        partition = asked["ExpressionAttributeValues"][asked["KeyConditionExpression"].split()[2]]["S"]
        long = self._find(partition) or self._stored(partition)
        rows, has_more = long.examined(asked, index)
        return super()._query(**asked | {"Limit": len(rows) - has_more, "rows": rows})

    def _rows(self, asked: Mapping[str, Any], index: Index | None) -> Iterable[AttributeMap]:
        rows: list[AttributeMap] = asked["rows"]
        return rows

    def _stored(self, partition: str) -> LongPartition:
        keys, items = self._keys[partition], self.partitions[partition]
        return LongPartition(len(keys), keys.__getitem__, lambda number: items[keys[number]])


# Measurements -----------------------------------------------------------------------------------------------------------


class ChangeCost(NamedTuple):
    """Mean cost of one change or of one request: DynamoDB requests, read and write units, and processor seconds."""

    requests: float
    reads: float
    writes: float
    seconds: float | None = None
    """`None` if the time is not measured."""
    memory: float | None = None
    """Peak memory of the worker during `MeasuredWork.sample`, in bytes. `None` if memory is not measured."""


@dataclass(frozen=True)
class MeasuredWork:
    """Work of which the benchmark measures the cost."""

    run: Callable[[], int]
    """Function that does the work, and returns the number of changes or requests."""
    prepare: Callable[[], object] = lambda: None
    """Function that runs before the work, and restores the initial state. It is not measured."""
    check: Callable[[], object] = lambda: None
    """Function that raises RuntimeError if the result of the work is wrong. It is not measured."""
    sample: Callable[[], int] | None = None
    """Function that does a part of the same work, to measure memory. The part has the same number of changes at each
    size. `None` if memory is not measured."""
    most: Callable[[int], float] | None = None
    """Function that returns the maximum cost for a number of changes. `None` if TOLERANCE limits the cost."""


Works = Mapping[str, MeasuredWork]
"""Measured works, by name of the work."""


def cost_of(work: MeasuredWork, *tables: Table, is_timed: bool = True) -> ChangeCost:
    """Measure work that sends requests to these tables. Without `is_timed`, measure neither time nor memory."""
    work.prepare()
    with _metered(tables) as usages:
        count = work.run()
    work.check()
    requests = sum(len(used.operations) for used in usages)
    reads, writes = (sum(getattr(used.units, name) for used in usages) for name in ("reads", "writes"))
    units = ChangeCost(requests / count, reads / count, writes / count)
    if not is_timed:
        return units
    return units._replace(seconds=_seconds(work), memory=_peak(work.prepare, work.sample) if work.sample else None)


def _seconds(work: MeasuredWork) -> float:
    seconds, total = list[float](), 0.0
    while len(seconds) < TIMINGS or total < TIMED_SECONDS:
        work.prepare()
        started = time.process_time()
        count = work.run()
        took = time.process_time() - started
        total += took
        seconds.append(took / count)
    return min(seconds)


@contextmanager
def _metered(tables: Sequence[Table]) -> Iterator[list[MeteredUsage]]:
    with ExitStack() as stack:
        clients: list[Any] = [table.client for table in tables]
        yield [stack.enter_context(Meter(client, StubClient(client.stub)).measure()) for client in clients]


def _peak(prepare: Callable[[], object], run: Callable[[], int]) -> int:
    prepare()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def require_flat(work: MeasuredWork, name: str, by_size: Mapping[int, ChangeCost]) -> None:
    """Raise RuntimeError if the cost or the memory of the work exceeds its limit at a larger size."""
    smallest, first = next(iter(by_size.items()))
    for number, spent in by_size.items():
        for figure in ("requests", "reads", "writes"):
            before, after = getattr(first, figure), getattr(spent, figure)
            most = work.most(number) if work.most else TOLERANCE * before
            if after > most:
                raise RuntimeError(
                    f"{name}: {before:.3g} {figure} with {smallest:,} changes, but {after:.3g} with {number:,}. The limit is {most:.3g}."
                )
    memories = [spent.memory for number, spent in by_size.items() if number >= MEMORY_FROM and spent.memory]
    if memories and max(memories) > MEMORY_TOLERANCE * memories[0]:
        raise RuntimeError(
            f"{name}: {memories[0]:,.0f} bytes of memory with {MEMORY_FROM:,} changes, but {max(memories):,.0f} with more. "
            f"The limit is {MEMORY_TOLERANCE} times the first value."
        )


# Feed and webhooks ------------------------------------------------------------------------------------------------------


def most_to_find_a_time(changes: int) -> float:
    """Return the maximum number of requests to find the position of a time in all logs. Each request costs one unit.

    To find the position in one log, the service reads the log's first block and its tail, and then bisects its
    positions.
    """
    logs = len(shard_logs())
    return logs * (3 + math.log2(changes / logs))


def video_id(number: int) -> str:
    """Return the id of the video with this number. Ids sort in the order of the numbers."""
    return f"{number:08x}-4f89-41d3-9a0c-{hashlib.sha256(str(number).encode()).hexdigest()[:12]}"


def feed_change(number: int, at: float) -> Change:
    """Return the change with this number. Its id begins with the number, and has the usual length."""
    digest = hashlib.sha256(str(number).encode()).hexdigest()
    return change(number, id=f"{number:07}{digest[:13]}", videoId=video_id(number), version=2, at=int(at * 1000))


class CountingReceiver:
    """Receiver that accepts each change, and counts the changes by the number in their ids."""

    def __init__(self, changes: int) -> None:
        self.counts = bytearray(changes)
        self.received = 0

    def __call__(self, url: str, headers: Mapping[str, str], body: bytes, *, local: bool) -> ReceiverResponse:
        self.counts[int(headers["webhook-id"][:7])] += 1
        self.received += 1
        return respond_with()

    def require_exact(self, least: int) -> None:
        """Raise RuntimeError if a change arrived twice, or if a log has a gap between two received changes.

        Also raise it if fewer than `least` changes arrived.
        """
        if max(self.counts) > 1:
            raise RuntimeError("a change was delivered twice")
        if self.received < least:
            raise RuntimeError(f"only {self.received} of {least} changes were delivered")
        ends: dict[int, bool] = {}
        for number, count in enumerate(self.counts):
            shard = shard_of(video_id(number))
            if count and ends.get(shard):
                raise RuntimeError(f"a change before {number} was not delivered")
            if count or shard in ends:
                ends[shard] = not count


class LongFeed:
    """Feed with many changes of one owner, and a webhook that has received none of them."""

    def __init__(self, changes: int) -> None:
        self.changes, self.clock = changes, Clock()
        self.stub = LongStub()
        client = StubClient(self.stub)
        self.table, self.trail = Table(TABLE_NAME, client), Table(AUDIT_TABLE_NAME, client)
        self.feed = Feed(self.trail, self.clock)
        self.states, self.receiver = DeliveryStateStore(self.table), CountingReceiver(changes)
        hook = {"webhookId": "hook", "userId": ADMINISTRATOR.subject, "url": URL, "types": [], "generation": 1}
        self.stub.load([WEBHOOK.key(webhookId="hook") | with_version(hook, ADMINISTRATOR, NOW, version=1)])
        self._next = 0
        for start in range(0, changes, FILLING):
            self.append(min(FILLING, changes - start))
        self.middle = (NOW + self.clock()) / 2

    def append(self, count: int) -> int:
        """Append `count` changes in one batch, a second after the previous batch. Return `count`."""
        self.clock.advance(1)
        append_changes(self.feed, *(feed_change(self._next + number, self.clock()) for number in range(count)))
        self._next += count
        self.stub.changes.clear()
        return count

    def require_exact(self) -> None:
        """Read the whole feed. Raise RuntimeError if it has a gap, or if a change occurs twice or is missing."""
        cursors, ids = dict.fromkeys(shard_logs(), OLDEST), set[str]()
        next_positions, is_end = dict.fromkeys(range(len(cursors)), 1), False
        while not is_end:
            page = read_page(self.feed, cursors, (), WHOLE_PAGE)
            for item in page.items:
                if item["position"] != next_positions[item["shard"]]:
                    raise RuntimeError(f"shard {item['shard']} has a gap at {item['position']}")
                next_positions[item["shard"]] += 1
                ids.add(item["id"])
            cursors, is_end = page.cursors, page.caught_up
        if len(ids) != self.changes or sum(next_positions.values()) - len(cursors) != self.changes:
            raise RuntimeError(f"the feed has {len(ids)} of {self.changes} changes")

    def read(self, cursors: Mapping[str, LogCursor], least: int = ITEMS) -> int:
        """Read a page of at least `least` changes. Return 1, the number of client requests."""
        if len(read_page(self.feed, cursors, (), ITEMS).items) < least:
            raise RuntimeError("the page is incomplete")
        return 1

    def at_middle(self, logs: Sequence[str]) -> dict[str, LogCursor]:
        """Return a cursor for each log, after about half of its changes."""
        return {log: self.feed.at_time(log, int(self.middle * 1000)) for log in logs}

    def catch_up(self, most: int) -> int:
        """Deliver at most `most` changes to the webhook in one run of a worker, and return their number."""
        receiver = self.receiver
        transport = HttpTransport(lambda: MASTER, send=receiver, clock=self.clock)
        quotas = DeliveryQuotas(self.states, DELIVERY_QUOTAS, self.clock)
        deliverer = Deliverer(self.states, self.feed, transport, quotas, lambda *_, **__: None, clock=self.clock)
        deliverer.deliver("hook", lambda: math.inf if receiver.received < most else 0)
        return receiver.received

    def rewind(self, cursors: Mapping[str, LogCursor]) -> None:
        """Move the webhook to the positions in `cursors`, and install a new receiver, which has received nothing."""
        self.receiver = CountingReceiver(self.changes)
        self.clock.advance(1)  # so that the attempts of each run have other keys
        self.stub.load([first_state("hook", cursors)])

    def works(self) -> Works:
        """Return the measured works, by name. The appends are last, because they change the feed."""
        logs, own = shard_logs(), [owner_log(OWNER.subject)]
        newest = {log: LogCursor(self.feed.end(log).first, 0) for log in logs}
        middle, first = self.at_middle(logs), dict.fromkeys(logs, OLDEST)

        def catch_up(cursors: Mapping[str, LogCursor], behind: int) -> MeasuredWork:
            """Return the work in which a webhook receives the changes after `cursors`. There must be at least `behind`
            such changes."""
            return MeasuredWork(
                partial(self.catch_up, DELIVERED),
                partial(self.rewind, cursors),
                lambda: self.receiver.require_exact(min(behind, DELIVERED)),
                sample=partial(self.catch_up, SAMPLED),
            )

        return {
            "Feed: oldest page": MeasuredWork(partial(self.read, first)),
            "Feed: page in the middle": MeasuredWork(partial(self.read, middle)),
            "Feed: page in the middle, one owner": MeasuredWork(partial(self.read, self.at_middle(own))),
            "Feed: newest page": MeasuredWork(partial(self.read, newest, 1)),
            "Feed: find a time": MeasuredWork(lambda: bool(self.at_middle(logs)), most=most_to_find_a_time),
            "Webhook: change, from the oldest": catch_up(first, self.changes),
            "Webhook: change, from the middle": catch_up(middle, self.changes // 3),
            "Feed: append a change": MeasuredWork(lambda: sum(self.append(1) for _ in range(SINGLE))),
            f"Feed: append a change, {BATCH} at once": MeasuredWork(
                lambda: sum(self.append(BATCH) for _ in range(BATCHES)),
                # So that the tail has the same number of changes before each measured append.
                partial(self.append, BATCH),
            ),
        }


# Undo and history -------------------------------------------------------------------------------------------------------


def new_video(number: int, version: int, title: str, caller: Caller, at: int) -> Item:
    """Return a video of OWNER, as `caller` wrote it at `at` (epoch seconds)."""
    content: Item = {"tags": ["Drama", "Short"], "metadata": {"imdbId": f"tt{number:07}"}, "visibility": "public"}
    content |= {"title": title, "category": "Drama", "duration": 60_000, "releaseYear": 1999}
    video = new_item(content, video_id=video_id(number), owner=OWNER.subject, created_at=NOW, status="ready")
    return dict(stamp(video, caller=caller, now=at, version=version))


def audit_entry(old: Item | None, new: Item, at: int, sequence: int) -> AttributeMap:
    """Return the audit entry of a change, as it is stored."""
    made = entry(Record(stream_record(old, new, sequence=sequence, at=at)), TRAIL_DAYS)
    if made is None:
        raise RuntimeError("the change has no audit entry")
    return encode_item(made)


def _audit_key(number: int, at: int, sequence: int) -> dict[str, str]:
    return AUDIT.key(videoId=video_id(number), at=sortable(at * 1000), sequence=f"{sequence:040}")


class HistoryTables:
    """Main table and audit table with items that are generated on demand. `videos` returns the generated partitions of
    the main table, and `entries` returns the generated partitions of the audit table."""

    def __init__(self, videos: Find, entries: Find) -> None:
        self.stub = LongStub(videos)
        self.table = Table(TABLE_NAME, StubClient(self.stub))
        self.trail = Table(AUDIT_TABLE_NAME, StubClient(LongStub(entries)))
        self.store, self.quota = AuditStore(self.trail), QuotaStore(self.table, JOBS_PER_DAY)


class LargeImport:
    """Change set of an import that changed the title of many videos."""

    def __init__(self, videos: int) -> None:
        self.videos, self.now = videos, IMPORTED + 100
        self.tables = HistoryTables(self._video_partition, self._entry_partition)
        self.reverts = ChangeSetReverts(self.tables.table, self.tables.store, self.tables.quota, threads=1)
        self.runs = RunStore(self.tables.table)

    def _video_partition(self, partition: str) -> LongPartition | None:
        if not partition.startswith(VIDEO.partition_prefix):
            return None
        return LongPartition(1, lambda _: VIDEO.sk, lambda _: _imported_item(_number_of(partition)))

    def _entry_partition(self, partition: str) -> LongPartition:
        if partition == CHANGE_SET:
            return LongPartition(self.videos, lambda number: SEPARATOR.join(_import_key(number).values()), _index_entry)
        number = _number_of(partition)
        return LongPartition(1, lambda _: _import_key(number)[SORT_KEY], lambda _: _import_entry(number))

    def begin(self) -> int:
        """Begin the undo of the change set. Return 1, the number of client requests."""
        _, is_done = self.reverts.revert(CHANGE_SET, RevertRequest(ADMINISTRATOR), self.now, lambda: True)
        if is_done:
            raise RuntimeError("the change set is too small for a run")
        return 1

    def run(self) -> Item:
        """Return the stored run of the undo."""
        return self.runs.read(RevertRequest(ADMINISTRATOR).own) or {}

    def place(self, after: int | None) -> None:
        """Reset the tables to their state before the undo, begin the undo, and set its position. The next step begins
        after the entry number `after`, or at the start if `after` is `None`."""
        self.tables.stub.reset()
        self.begin()
        if after is not None:
            self.tables.stub.load([self.run() | {"after": position_of(_import_key(after)).id}])

    def step(self) -> int:
        """Execute one step of the undo. Return PER_STEP, or raise RuntimeError if the step reverts another number of
        videos."""
        run = self.run()
        self.reverts.step(run, self.now, lambda: True)
        if self.run()["reverted"] != run["reverted"] + PER_STEP:
            raise RuntimeError(f"the step did not revert {PER_STEP} videos: {self.run()}")
        return PER_STEP

    def require_exact(self) -> None:
        """Undo the whole import. Raise RuntimeError unless each video is reverted exactly once."""
        self.place(None)
        self.runs.execute(self.run()["revertId"], lambda: self.now, lambda: True, self.reverts.step)
        run = self.run()
        if (run["state"], run["examined"], run["reverted"]) != (DONE, self.videos, self.videos):
            raise RuntimeError(f"the undo is incomplete: {run}")
        for number in range(self.videos):
            video = self.tables.table.get(VIDEO.key(videoId=video_id(number))) or {}
            if (video["title"], video["version"]) != (BEFORE, 3):
                raise RuntimeError(f"the undo changed a video to {video}")

    def works(self) -> Works:
        """Return the measured works, by name."""
        places = {"at the start": None, "in the middle": self.videos // 2, "at the end": PER_STEP}
        return {"Undo of an import: begin": MeasuredWork(self.begin, self.tables.stub.reset)} | {
            f"Undo of an import: video, {where}": MeasuredWork(self.step, partial(self.place, after))
            for where, after in places.items()
        }


def _number_of(partition: str) -> int:
    return int(partition.removeprefix(VIDEO.partition_prefix)[:8], 16)


def _imported(number: int) -> Item:
    return new_video(number, 2, "After the import", IMPORT, IMPORTED)


@lru_cache(maxsize=1_000)
def _imported_item(number: int) -> AttributeMap:
    return encode_item(_imported(number))


def _import_key(number: int) -> dict[str, str]:
    return _audit_key(number, IMPORTED, number + 1)


@lru_cache(maxsize=1_000)
def _import_entry(number: int) -> AttributeMap:
    return audit_entry(new_video(number, 1, BEFORE, OWNER, NOW), _imported(number), IMPORTED, number + 1)


def _index_entry(number: int) -> AttributeMap:
    return index_entry(_import_entry(number), CHANGESET_INDEX) or {}


class ChangedVideo:
    """Video whose title was changed many times."""

    def __init__(self, changes: int) -> None:
        self.changes, self.now = changes, NOW + 100
        # Cached, so that the measured time does not include the generation of entries.
        partition = LongPartition(changes, lambda number: self._key(number)[SORT_KEY], lru_cache(1_000)(self._entry))
        self.tables = HistoryTables(lambda _: None, lambda _: partition)
        self.past = PastVersions(self.tables.table, self.tables.store)
        self.reverts = VideoReverts(VideoStore(self.tables.table), self.tables.store, self.tables.quota)
        self.restore()

    def _at(self, number: int) -> int:
        return NOW - SECONDS_PER_VERSION * (self.changes - number)

    def _key(self, number: int) -> dict[str, str]:
        return _audit_key(0, self._at(number), number + 1)

    def _version(self, number: int) -> Item:
        return new_video(0, FIRST_VERSION + number, f"Title {number:07}", OWNER, self._at(number))

    def _entry(self, number: int) -> AttributeMap:
        old = self._version(number - 1) if number else None
        return audit_entry(old, self._version(number), self._at(number), number + 1)

    def restore(self) -> None:
        """Store the video in its state after the last change."""
        self.tables.stub.reset()
        self.tables.stub.load([self._version(self.changes - 1)])

    def read(self, after: int | None) -> int:
        """Read a page of the history, newest first. The page begins after the change number `after`, or with the newest
        change if `after` is `None`. Return 1, the number of client requests."""
        position = None
        if after is not None:
            at, _, sequence = self._key(after)[SORT_KEY].partition("#")
            position = Position(int(at), sequence)
        page = self.tables.store.list_for_video(video_id(0), self.now, limit=ITEMS, after=position)
        newest = self.changes if after is None else after
        if [item["version"] - FIRST_VERSION for item in page.items] != list(range(newest - 1, newest - 1 - ITEMS, -1)):
            raise RuntimeError("the page is incomplete")
        return 1

    def read_past(self, back: int) -> int:
        """Read the version before the last `back` changes. Return 1, the number of client requests."""
        number = self.changes - 1 - back
        document, _ = self.past.read(video_id(0), OWNER, self.now, as_of=self._at(number))
        if document["title"] != f"Title {number:07}":
            raise RuntimeError(f"the title was not {document['title']}")
        return 1

    def undo(self, back: int) -> int:
        """Revert the last `back` changes. Return 1, the number of client requests."""
        number = self.changes - 1 - back
        reverted = self.reverts.revert_to_version(video_id(0), FIRST_VERSION + number, OWNER, self.now)
        if reverted.document["title"] != f"Title {number:07}":
            raise RuntimeError(f"the title is {reverted.document['title']}")
        return 1

    def works(self) -> Works:
        """Return the measured works, by name."""
        return {
            "History of a video: newest page": MeasuredWork(partial(self.read, None)),
            "History of a video: page in the middle": MeasuredWork(partial(self.read, self.changes // 2)),
            f"`asOf`, {BACK} changes ago": MeasuredWork(partial(self.read_past, BACK)),
            "Undo of the last change": MeasuredWork(partial(self.undo, 1), self.restore),
            f"Undo of the last {BACK} changes": MeasuredWork(partial(self.undo, BACK), self.restore),
        }


# Report -----------------------------------------------------------------------------------------------------------------


def measure(size: int, *, is_timed: bool = True) -> dict[str, tuple[MeasuredWork, ChangeCost]]:
    """Measure all works with `size` changes. Return each work and its cost, by name of the work.

    Without `is_timed`, measures neither time nor memory. Raises RuntimeError if a change is lost or repeated.
    """
    feed = LongFeed(size)
    feed.require_exact()
    undo, video = LargeImport(size), ChangedVideo(size)
    return {
        name: (work, cost_of(work, *tables, is_timed=is_timed))
        for works, tables in (
            (feed.works(), [feed.table]),
            (undo.works(), [undo.tables.table, undo.tables.trail]),
            (video.works(), [video.tables.table, video.tables.trail]),
        )
        for name, work in works.items()
    }


def costs_of(sizes: Sequence[int], *, is_timed: bool = True) -> tuple[Grid, Callable[[], None]]:
    """Measure all sizes. Return the table of costs, and a function that raises RuntimeError if a cost exceeds its
    limit."""
    costs: dict[str, dict[int, ChangeCost]] = {}
    works: dict[str, MeasuredWork] = {}
    for number in sizes:
        for name, (work, spent) in measure(number, is_timed=is_timed).items():
            costs.setdefault(name, {})[number] = spent
            works[name] = work

    def check() -> None:
        for name, by_size in costs.items():
            require_flat(works[name], name, by_size)

    larger = ", ".join(f"{number:,}" for number in sizes[1:])
    columns = ["Work", "Requests", "Read units", "Write units", f"Processor time with {larger}", "Memory in MB"]
    rows = [[name, *_cells([*by_size.values()])] for name, by_size in costs.items()]
    return Grid(f"Cost with {sizes[0]:,} changes, and with {larger}", columns, rows), check


def _cells(costs: Sequence[ChangeCost]) -> list[str]:
    first, last = costs[0], costs[-1]
    units = [_range(before, after) for before, after in zip(first[:3], last[:3], strict=True)]
    seconds = [f"x{spent.seconds / first.seconds:.1f}" for spent in costs[1:] if spent.seconds and first.seconds]
    memory = _range(first.memory / MEGABYTE, last.memory / MEGABYTE) if first.memory and last.memory else ""
    return [*units, ", ".join(seconds), memory]


def _range(first: float, last: float) -> str:
    one, other = f"{first:.2g}", f"{last:.2g}"
    return one if one == other else f"{one} to {other}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all sizes, and print the table. With `--docs`, also write it to the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.changes", description="Cost by number of changes.")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N", help="numbers of changes")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/scale.md")
    options = parser.parse_args(arguments)
    logging.disable(logging.INFO)
    LargeImport(WHOLE_UNDO).require_exact()
    costs, check = costs_of(options.sizes)
    table = costs.markdown()
    print(table)
    check()
    if options.docs:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), {SECTION: table}), encoding="utf-8")


if __name__ == "__main__":
    main()
