"""Exact view counters: one write unit per view, independent of the size of the video's document.

Counters are stored in separate partitions. Views therefore use no throughput of the video's partition, and IAM policies
can grant access to counters by leading key. A counter consists of sums that never decrease: counted views, uncounted
views by reason, and watch time.

A counter is one item, shard 0, until DynamoDB throttles it. The number of items (shards) then doubles, up to
MAX_VIEW_SHARDS, and each view is added to a random shard. Two attributes of shard 0 control writes and reads. `shards`
is the number of shards that receive writes. `spread` is the number of shards that readers must sum, and never
decreases. Each of the two attributes is absent while its value is 1.

When a counter receives few views, `merge_shards` directs writers back to shard 0. A later call stores the sums of the
other shards in the attribute `folded` of shard 0. Readers then need only that item. The other shards are not deleted.
"""

import random
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

from shared.aws.dynamodb import REQUEST_ATTEMPTS, Table
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.core.attributes import Item
from shared.core.errors import Throttled, Unavailable
from shared.core.periods import hour_of
from shared.schema import MAX_VIEW_SHARDS, SCHEMA_VERSION, VIEW_COUNTER

COUNTED = ("views", "keyed")
"""Names of the sums of counted views. `views` counts anonymous views, and `keyed` counts views with a viewer id or an
idempotency key. The stream consumer updates `keyed`."""
UNCOUNTED = ("repeated", "owner", "unpublished", "expired", "deleted")
"""Names of the sums of uncounted views. Each name is the reason why the views in the sum do not count."""
SUMS = (*COUNTED, "watched", *UNCOUNTED)
"""Names of all sums of a counter. `watched` is the total watch time, in milliseconds."""

COUNT = (*COUNTED, "spread", "folded")
"""Names of the attributes of shard 0 that `ViewCounters.counts` reads."""
CONTROL = ("shards", "spread", "folded")
"""Names of the attributes of shard 0 that determine which shards are written, and which are read."""

CACHE_SECONDS = 5
"""Seconds for which a writer caches the number of shards. This time is shorter than MERGE_SECONDS, so all caches have
expired when `merge_shards` merges a counter."""
MAX_CACHED = 1000
"""Maximum number of cached counters per instance. Only sharded counters are cached, so there are few."""

MAX_MERGED_RATE = 300
"""Rate, in views per second, below which `merge_shards` merges a counter. One item accepts 1,000 writes per second."""
LOOK_SECONDS = 60
"""Minimum interval, in seconds, over which `merge_shards` measures the rate of views."""
MERGE_SECONDS = 300
"""Seconds between the call of `merge_shards` that directs writers to shard 0 and the call that stores the sums. After
this time, no writer uses the other shards."""

_ShardId = tuple[str, int]
"""Video id and shard number, which identify an item of a counter."""


def view_count(counter: Item | None) -> int:
    """Return the number of counted views in one counter item, including shards that were merged into it. 0 if the item
    is `None`."""
    if not counter:
        return 0
    return sum(int(counter.get(name, 0)) + int(counter.get("folded", {}).get(name, 0)) for name in COUNTED)


def sums_of(counter: Item | None) -> dict[str, int]:
    """Return all sums of one counter item. Excludes the sums of shards that were merged into it."""
    counter = counter or {}
    return {name: int(counter.get(name, 0)) for name in SUMS}


def shards_of(counter: Item | None) -> int:
    """Return the number of shards that may contain counts. `counter` is the item of shard 0."""
    return int(counter.get("spread", 1)) if counter else 1


class ViewCount(NamedTuple):
    """Sums of one video's counter, by shard."""

    shards: Mapping[int, Mapping[str, int]]

    @property
    def sums(self) -> dict[str, int]:
        """Sums of the counter, added over all shards."""
        return {name: sum(shard[name] for shard in self.shards.values()) for name in SUMS}

    @property
    def views(self) -> int:
        """Number of counted views, added over all shards."""
        return sum(shard[name] for shard in self.shards.values() for name in COUNTED)

    @property
    def as_one(self) -> dict[str, int]:
        """Sums that the counter would have if it were one item. `views` is the number of all counted views. Other sums
        are omitted if they are zero."""
        return {"views": self.views} | {
            name: count for name, count in self.sums.items() if count and name not in COUNTED
        }


@dataclass
class _ShardedCounter:
    """Cached state of a counter that is sharded and not merged."""

    at: int
    """Time when this instance last read shard 0, in epoch seconds."""
    shards: int
    summed_shards: int
    counts: dict[int, int] = field(default_factory=dict)
    """Latest known number of counted views of each shard."""
    read_at: int = -1
    """Time when this instance last read all shards, in epoch seconds; -1 if never."""


class ViewCounters:
    """Store of view counters.

    It caches the state of up to MAX_CACHED sharded counters. After CACHE_SECONDS, it reads the number of shards again.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._cache: OrderedDict[str, _ShardedCounter] = OrderedDict()
        self._changing = Lock()

    def add(self, video_id: str, additions: Mapping[str, int], now: int) -> int:
        """Add `additions` to the sums of a video, and return the video's view count. `now` is in epoch seconds.

        Normally costs one UpdateItem, which is atomic, so concurrent additions are never lost. The count is exact for a
        counter with one item. If there are more items, the count of each item that this call does not write may be up to
        a second old. It is older if the item cannot be read. The counts that one instance returns never decrease.

        Raises NotApplied if it is certain that nothing was added. Raises Unavailable if the response was lost. The
        addition may then have been applied, so it is not retried.
        """
        change = addition(additions, now)
        pauses = lowest = 0
        while True:
            shards = self._shards(video_id, now)
            shard = random.randrange(lowest if lowest < shards else 0, shards)
            write = self.table.update(VIEW_COUNTER.key(videoId=video_id, shard=shard), change)
            try:
                item = self.table.write(write, returning="ALL_NEW", elsewhere=True)
            except Throttled:
                # Writers that have not read the new number of shards still write to the old shards. Therefore only a
                # throttled new shard shows that the counter has too few shards.
                is_new = shard >= shards // 2
                if self._grown(video_id, shards, now, double=is_new):
                    lowest = 0
                elif not is_new:
                    lowest = shards // 2
                elif pauses == REQUEST_ATTEMPTS - 1:
                    raise
                else:
                    lowest, pauses = 0, pauses + 1
                    self.table.pause(pauses)
            else:
                return self._count(video_id, shard, item, now)

    def count(self, video_id: str, now: int) -> int:
        """Return the view count of a video. Costs at most two BatchGetItems.

        The count of a sharded counter may be up to a second old, or older if some shards cannot be read.
        """
        cached = self._cache.get(video_id)
        if cached is None:
            first = dict(self._items([(video_id, 0)], (*COUNT, "shards"))).get((video_id, 0), {})
            cached = self._learn(video_id, first, now)
            if cached is None:
                return view_count(first)
        return self._sum(video_id, cached, {}, now)

    def counts(self, counters: Mapping[str, Item | None]) -> dict[str, int]:
        """Return the view counts of videos. `counters` maps each video to the COUNT attributes of its shard 0.

        Costs one BatchGetItem per 100 shards of counters that are sharded and not merged. Other counters need no
        request.
        """
        counts = {video_id: view_count(counter) for video_id, counter in counters.items()}
        shard_counts = {
            video: shards_of(counter) for video, counter in counters.items() if not (counter and "folded" in counter)
        }
        for (video_id, _), item in self._other_shards(shard_counts, COUNTED):
            counts[video_id] += view_count(item)
        return counts

    def stored(self, video_id: str) -> list[Item]:
        """Return the stored items of a counter, shard 0 first.

        Costs a consistent GetItem, and a BatchGetItem if the counter was ever sharded.
        """
        first = self.table.get(VIEW_COUNTER.key(videoId=video_id, shard=0), consistent=True)
        other_shards = self._other_shards({video_id: shards_of(first)}, consistent=True)
        return [*([first] if first else []), *(item for _, item in other_shards)]

    def read(self, video_ids: Sequence[str], *, consistent: bool = False) -> dict[str, ViewCount]:
        """Return the sums of each video's counter, by shard. The result for a video without views has no shards.

        Costs one BatchGetItem per 100 videos, for shard 0 of each counter, and one per 100 other shards. The other
        shards of a merged counter are also read, because `folded` in shard 0 has only their total.
        """
        shards: dict[str, dict[int, dict[str, int]]] = {video_id: {} for video_id in video_ids}
        shard_counts: dict[str, int] = {}
        for (video_id, _), item in self._items([(video_id, 0) for video_id in shards], consistent=consistent):
            shards[video_id][0] = sums_of(item)
            shard_counts[video_id] = shards_of(item)
        for (video_id, shard), item in self._other_shards(shard_counts, consistent=consistent):
            shards[video_id][shard] = sums_of(item)
        return {video_id: ViewCount(sums) for video_id, sums in shards.items()}

    def merge_shards(self, video_id: str, now: int) -> None:
        """Advance the merge of a rarely viewed, sharded counter into shard 0 by one step.

        A scheduled job calls this every few minutes. Extra calls are harmless.

        The merge takes three calls:
        - The first call records the current count.
        - The second call directs all writers to shard 0 if fewer than MAX_MERGED_RATE views a second were counted since the first call.
        - The third call, MERGE_SECONDS later, stores the sums of the other shards in shard 0.

        If the number of shards doubles between the calls, the merge restarts. `now` is in epoch seconds. Costs a
        consistent GetItem and BatchGetItem, and 1 WRU.
        """
        key = VIEW_COUNTER.key(videoId=video_id, shard=0)
        first = self.table.get(key, consistent=True)
        if first is None or shards_of(first) == 1 or "folded" in first:
            return
        other_shards = [sums_of(item) for _, item in self._other_shards({video_id: shards_of(first)}, consistent=True)]
        if "calmedAt" in first:
            if now - first["calmedAt"] < MERGE_SECONDS:
                return
            merged = {name: count for name in SUMS if (count := sum(sums[name] for sums in other_shards))}
            change = Expression.of("SET #folded = :folded REMOVE #calmedAt", folded=merged)
            condition = Expression.of("#calmedAt = :calmedAt", calmedAt=first["calmedAt"])
        else:
            # The rate excludes the sums that the stream consumer adds, because the consumer adds many views per write,
            # and is never throttled.
            checked = sum(sums[name] for sums in (sums_of(first), *other_shards) for name in ("views", *UNCOUNTED))
            elapsed = now - first.get("checkedAt", now)
            condition = _has_shards(first.get("shards", 1))
            if "checkedAt" in first and elapsed < LOOK_SECONDS:
                return
            if "checkedAt" in first and checked - first["checked"] < MAX_MERGED_RATE * elapsed:
                change = Expression.of("SET #calmedAt = :now REMOVE #shards, #checked, #checkedAt", now=now)
            else:
                change = Expression.of("SET #checked = :checked, #checkedAt = :now", checked=checked, now=now)
        with suppress(ConditionFailed):
            self.table.write(self.table.update(key, change, condition=condition))

    def _shards(self, video_id: str, now: int) -> int:
        """Return the number of shards of a video's view counter, according to the cache. The next view is added to one of
        these shards.

        Returns 1 if the cache has no entry younger than CACHE_SECONDS. The next view is then added to shard 0, and
        DynamoDB's response to that write contains the current number of shards.
        """
        cached = self._cache.get(video_id)
        # Wall clock, because a monotonic clock may stop while Lambda freezes the function.
        return cached.shards if cached and 0 <= now - cached.at < CACHE_SECONDS else 1

    def _grown(self, video_id: str, shards: int, now: int, *, double: bool) -> bool:
        """Return whether the counter now has more than `shards` shards. With `double`, first double the number of
        shards, unless another writer has already done so or MAX_VIEW_SHARDS is reached.

        Reads shard 0 first, because a read uses none of the write capacity of the throttled item. Returns `False` if
        DynamoDB is unavailable.
        """
        key = VIEW_COUNTER.key(videoId=video_id, shard=0)
        try:
            first = self.table.get(key, attributes=CONTROL, consistent=True) or {}
            if double and first.get("shards", 1) == shards < MAX_VIEW_SHARDS:
                change = Expression.of(
                    "SET #shards = :doubled, #spread = :spread REMOVE #folded, #calmedAt, #checked, #checkedAt",
                    doubled=2 * shards,
                    spread=max(2 * shards, shards_of(first)),
                )
                doubling = self.table.update(key, change, condition=_has_shards(shards))
                first = self.table.write(doubling, returning="ALL_NEW", elsewhere=True)
        except ConditionFailed as failure:
            first = failure.item or {}
        except Unavailable:  # the view is not counted yet, even if the number of shards was doubled
            return False
        self._learn(video_id, first, now)
        return self._shards(video_id, now) > shards

    def _learn(self, video_id: str, first: Item, now: int) -> _ShardedCounter | None:
        """Update the cache from `first`, the item of shard 0, and return the cached counter.

        If the counter is not sharded or is merged, removes it from the cache and returns `None`. If the cache is full,
        evicts the least recently used counter.
        """
        with self._changing:  # the videos of a batch are counted in parallel
            if shards_of(first) == 1 or "folded" in first:
                self._cache.pop(video_id, None)
                return None
            cached = self._cache.setdefault(video_id, _ShardedCounter(now, 1, 1))
            cached.at, cached.shards, cached.summed_shards = now, first.get("shards", 1), first["spread"]
            self._cache.move_to_end(video_id)
            if len(self._cache) > MAX_CACHED:
                self._cache.popitem(last=False)
            return cached

    def _count(self, video_id: str, shard: int, item: Item, now: int) -> int:
        """Return the view count after a view was added to `shard`. `item` is the item of that shard after the
        addition."""
        cached = self._learn(video_id, item, now) if shard == 0 else self._cache.get(video_id)
        return self._sum(video_id, cached, {shard: view_count(item)}, now) if cached else view_count(item)

    def _sum(self, video_id: str, cached: _ShardedCounter, counts: dict[int, int], now: int) -> int:
        """Return the view count of a sharded counter. `counts` has the counts of the shards that were just written.

        Reads all shards, unless this instance has read them in the current second. For shards that are neither read nor
        in `counts`, uses the cached counts.
        """
        if cached.read_at != now:
            cached.read_at = now
            # The view is counted even if the other shards cannot be read.
            with suppress(Unavailable):
                shard_ids = [(video_id, number) for number in range(cached.summed_shards)]
                for (_, number), item in self._items(shard_ids, (*COUNT, "shards")):
                    if number == 0 and self._learn(video_id, item, now) is None:
                        return view_count(item)  # the shards were merged in the meantime: shard 0 includes all views
                    counts[number] = max(view_count(item), counts.get(number, 0))
        # A read may be older than the cache; counts only grow, so the larger value is newer.
        cached.counts |= {number: max(count, cached.counts.get(number, 0)) for number, count in counts.items()}
        return sum(cached.counts.values())

    def _other_shards(
        self, shard_counts: Mapping[str, int], attributes: Iterable[str] = (), *, consistent: bool = False
    ) -> list[tuple[_ShardId, Item]]:
        """Return the items of all shards except shard 0, for several videos. `shard_counts` maps each video to its number of
        shards."""
        shard_ids = [(video_id, shard) for video_id, shards in shard_counts.items() for shard in range(1, shards)]
        return self._items(shard_ids, attributes, consistent=consistent) if shard_ids else []

    def _items(
        self, shard_ids: Sequence[_ShardId], attributes: Iterable[str] = (), *, consistent: bool = False
    ) -> list[tuple[_ShardId, Item]]:
        """Return the items of these shards, with their ids. Omits missing items. Costs one BatchGetItem per 100
        shards."""
        keys = [VIEW_COUNTER.key(videoId=video_id, shard=shard) for video_id, shard in shard_ids]
        items = self.table.get_all(keys, attributes=attributes, consistent=consistent)
        return [(shard_id, item) for shard_id, item in zip(shard_ids, items, strict=True) if item]


def _has_shards(shards: int) -> Expression:
    """Return the condition that the attribute `shards` still has this value, or that it is still absent if the value is
    1."""
    if shards == 1:
        return Expression.of("attribute_not_exists(#shards)")
    return Expression.of("#shards = :shards", shards=shards)


def addition(additions: Mapping[str, int], now: int) -> Expression:
    """Return the update that adds `additions` to the sums of a counter item.

    The update also stores the current hour, so that the stream consumer detects the start of an hour.
    """
    added = Expression.of("ADD " + ", ".join(f"#{name} :{name}" for name in additions), **additions)
    return added + Expression.of(
        "SET #hour = :hour, #schemaVersion = :current", hour=hour_of(now), current=SCHEMA_VERSION
    )
