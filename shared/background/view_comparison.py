"""Consistency check of a video's view data: the view counter, the hour and day items, and the deduplication items.

The counter has several sums, such as `views` and `keyed`, in each of its shards. An hour or day item stores the start
values, which are the values of these sums at the start of the hour or day. A deduplication item (VIEWER) records a view
with a viewer id or an idempotency key, and `keyed` is the number of such views. These items expire some days after the
view, so `keyed` may exceed their number. Anonymous views have no such item, so the check cannot prove that all were
counted.

Sums never decrease, and a start value is the minimum of all reported values. Therefore a start value that exceeds the
start value of a later period is an error, and `repair` lowers it. `folded`, in shard 0, must equal the sums of the
other shards. If `folded` is less, `repair` raises it.

Differences that may be due to lost views or pending stream records are only reported. No repair lowers a count, or
counts a view that the stream may still deliver.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.aws.listing import iterate_entries
from shared.aws.records import key_of, new_write_id
from shared.background.comparison import PAGE, Difference
from shared.core.attributes import Item
from shared.core.periods import DAY_SECONDS, day_of, start_of
from shared.schema import LANES, PARTITION_KEY, SORT_KEY, TTL_ATTRIBUTE, VIEW_COUNTER, VIEW_DAY, VIEW_HOUR, VIEWER
from shared.videos.counters import COUNTED, SUMS, sums_of

DAYS_WITH_HOURS = 30
"""Number of past days for which the table has all hour items. They expire some days later."""

Sums = Mapping[str, int]
"""Sums of a view counter or of one of its shards, by name."""
Starts = dict[str, dict[str, int]]
"""Start values of an hour or a day: the sums of each shard of the counter, by shard number as text."""


@dataclass(frozen=True)
class StoredViews:
    """View data of a video.

    The hour and day items were read before the counter, so a correct start value cannot exceed the counter's sums.
    """

    hours: Sequence[Item]
    """Hour items, oldest first."""
    days: Sequence[Item]
    """Day items, oldest first."""
    first: Item
    """Shard 0 of the counter. Empty if the video has no counter."""
    other_shards: Mapping[int, Item]
    """Other shards of the counter, by shard number."""

    @property
    def shards(self) -> dict[str, Item]:
        """All shards of the counter, by shard number as text."""
        return {"0": self.first, **{str(shard): item for shard, item in self.other_shards.items()}}

    @property
    def merged(self) -> Sums:
        """Sums of the other shards as stored in shard 0. They should equal `to_merge`."""
        return {name: int(self.first["folded"].get(name, 0)) for name in SUMS}

    @property
    def to_merge(self) -> Sums:
        """Sums over all shards except shard 0, computed from the items of these shards."""
        sums_of_others = [sums_of(item) for item in self.other_shards.values()]
        return {name: sum(sums[name] for sums in sums_of_others) for name in SUMS}


class ViewComparison:
    """Check of the view data in one table. `clock` returns epoch seconds."""

    def __init__(self, table: Table, clock: Callable[[], float]) -> None:
        self.table = table
        self._clock = clock

    def viewed(self, video_ids: Sequence[str]) -> set[str]:
        """Return the ids of the videos that have a view counter. Costs one BatchGetItem per 100 videos."""
        keys = [VIEW_COUNTER.key(videoId=video_id, shard=0) for video_id in video_ids]
        found = self.table.get_all(keys, attributes=(PARTITION_KEY,))
        return {video_id for video_id, item in zip(video_ids, found, strict=True) if item}

    def read_stored(self, video_id: str) -> StoredViews:
        """Return a video's view data. Reads the hour and day items first, then the counter, with consistent reads."""
        partition = {PARTITION_KEY: VIEW_DAY.key(videoId=video_id, day="")[PARTITION_KEY]}
        items = list(iterate_entries(self.table, None, partition, limit=PAGE, consistent=True))
        first = self.table.get(VIEW_COUNTER.key(videoId=video_id, shard=0), consistent=True) or {}
        shards = range(1, int(first.get("spread", 1)))
        keys = [VIEW_COUNTER.key(videoId=video_id, shard=shard) for shard in shards]
        other_shards = self.table.get_all(keys, consistent=True)
        return StoredViews(
            [item for item in items if VIEW_HOUR.has_sort_key(item[SORT_KEY])],
            [item for item in items if VIEW_DAY.has_sort_key(item[SORT_KEY])],
            first,
            {shard: item for shard, item in zip(shards, other_shards, strict=True) if item},
        )

    def read_marked(self, video_id: str) -> int:
        """Return the number of unexpired deduplication items (VIEWER) of a video's views.

        Sends 32 Queries, which cost 0.5 RRU per 4 KB of these items in total.
        """
        now, count = int(self._clock()), 0
        for lane in range(LANES):
            partition = {PARTITION_KEY: VIEWER.key(videoId=video_id, lane=lane, id="")[PARTITION_KEY]}
            markers = iterate_entries(self.table, None, partition, attributes=(SORT_KEY, TTL_ATTRIBUTE), limit=PAGE)
            count += sum(marker.get(TTL_ATTRIBUTE, now + 1) > now for marker in markers)
        return count

    def find_errors(self, stored: StoredViews) -> Difference | None:
        """Return the differences that are certainly errors; `None` if there are none. `repair` corrects these
        differences."""
        pairs: dict[str, tuple[Any, Any]] = {
            item[SORT_KEY]: (
                {"starts": starts, "count": _views(starts)},
                {"starts": _starts(item), "count": _count(item)},
            )
            for item, starts in _right(stored)
        }
        if "folded" in stored.first and "shards" not in stored.first:
            pairs["folded"] = (_most(stored.merged, stored.to_merge), stored.merged)
        return _difference(pairs)

    def find_uncertain(self, stored: StoredViews, marked: int) -> Difference | None:
        """Return the differences that may be transient, or may be lost views; `None` if there are none.

        `marked` is the result of `read_marked`. Call `read_marked` before you read `stored`.
        """
        pairs: dict[str, tuple[Any, Any]] = {"keyed": (max(marked, _keyed(stored)), _keyed(stored))}
        if "folded" in stored.first and "shards" not in stored.first:
            pairs["folded"] = ({name: min(stored.merged[name], stored.to_merge[name]) for name in SUMS}, stored.merged)
        pairs |= _days_without_hours(stored, day_of(int(self._clock()) - DAYS_WITH_HOURS * DAY_SECONDS))
        for shard, item in stored.shards.items():
            # A table without a stream consumer has no hour items. There, no start value can be missing.
            if stored.hours and "hour" in item:
                last = max((_period(hour) for hour in stored.hours if shard in hour["starts"]), default=None)
                is_recent = start_of(item["hour"]) > self._clock() - DAYS_WITH_HOURS * DAY_SECONDS
                if is_recent and (last is None or last < item["hour"]):
                    pairs[f"start of shard {shard}"] = (item["hour"], last)
        return _difference(pairs)

    def repair(self, video_id: str) -> None:
        """Correct the differences that `find_errors` returns. Raises ConditionFailed if an item changed concurrently."""
        stored = self.read_stored(video_id)
        for item, starts in _right(stored):
            if starts != _starts(item) or _views(starts) != _count(item):
                content = {"starts": starts, "relSort": _views(starts), "writeId": new_write_id()}
                change = Expression.of("SET " + ", ".join(f"#{name} = :{name}" for name in content), **content)
                unchanged = Expression.of("#starts = :read", read=item["starts"])
                self.table.write(self.table.update(key_of(item), change, condition=unchanged))
        if "folded" in stored.first and "shards" not in stored.first:
            merged = _most(stored.merged, stored.to_merge)
            if merged != stored.merged:
                change = Expression.of(
                    "SET #folded = :folded", folded={name: sum_ for name, sum_ in merged.items() if sum_}
                )
                unchanged = Expression.of(
                    "#folded = :read AND attribute_not_exists(#shards)", read=stored.first["folded"]
                )
                self.table.write(self.table.update(key_of(stored.first), change, condition=unchanged))


def _right(stored: StoredViews) -> Iterator[tuple[Item, Starts]]:
    """Yield each hour and day item, latest first, with the start values that it should have.

    A correct start value is at most the same shard's value in the next period. In the latest period, it is at most the
    shard's current sum.
    """
    most: Starts = {shard: sums_of(item) for shard, item in stored.shards.items() if item}
    # Sorted by start, latest first. A day and its first hour have the same start; the hour is yielded before the day.
    for item in sorted(
        (*stored.days, *stored.hours), key=lambda item: (start_of(_period(item)), _period(item)), reverse=True
    ):
        starts = {shard: _least(sums, most.get(shard, sums)) for shard, sums in _starts(item).items()}
        most |= starts
        yield item, starts


def _days_without_hours(stored: StoredViews, since: str) -> dict[str, tuple[Any, Any]]:
    """Return two versions of the start values of each day, from the day `since` on. The keys of the result are the sort
    keys of the day items.

    The first version is from the day's hour items: for each shard, from the earliest hour item that contains the shard.
    The second version is from the day item. If they differ, a start value was lost, or is not stored yet.
    """
    days: dict[str, Starts] = {}
    firsts: dict[str, Starts] = {}
    for item, starts in _right(stored):  # latest first, so the first hour of a day overwrites later ones
        day = _period(item)[:10]
        if day >= since:
            (firsts if "T" in _period(item) else days).setdefault(day, {}).update(starts)
    return {
        f"{VIEW_DAY.sort_prefix}{day}": (firsts.get(day, {}), days.get(day, {})) for day in days.keys() | firsts.keys()
    }


def _difference(pairs: Mapping[str, tuple[Any, Any]]) -> Difference | None:
    differing = {name: pair for name, pair in sorted(pairs.items()) if pair[0] != pair[1]}
    if not differing:
        return None
    return Difference(
        {name: expected for name, (expected, _) in differing.items()},
        {name: found for name, (_, found) in differing.items()},
    )


def _period(item: Item) -> str:
    return str(item[SORT_KEY]).partition("#")[2]


def _starts(item: Item) -> Starts:
    return {shard: {name: int(sums.get(name, 0)) for name in SUMS} for shard, sums in item["starts"].items()}


def _views(starts: Mapping[str, Sums]) -> int:
    return sum(sums[name] for sums in starts.values() for name in COUNTED)


def _count(item: Item) -> int:
    return int(item["relSort"])


def _keyed(stored: StoredViews) -> int:
    return sums_of(stored.first)["keyed"]


def _least(one: Sums, other: Sums) -> dict[str, int]:
    return {name: min(one[name], other[name]) for name in SUMS}


def _most(one: Sums, other: Sums) -> dict[str, int]:
    return {name: max(one[name], other[name]) for name in SUMS}
