"""The counter of a video's views: exact, and one write unit each view, whatever the video's document weighs.

The counter has partitions of its own, so that views neither heat the document nor pay for its size, and so that a role
can be kept from it by its leading key. All that it holds only grows: sums of what was counted, and of what was not and why.

It is one item until DynamoDB throttles that: then its views are spread over twice as many, its shards, and so on up to
MOST_VIEW_SHARDS. Shard 0 says how many writers spread over (`shards`) and how many readers have to sum (`spread`, which
never shrinks); either is absent as long as it is 1. When views are few again, `calm` brings the writers back to shard 0, and then
writes down there what the other shards hold (`folded`), so that readers need no more than that item. Nothing is moved.
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
from shared.schema import MOST_VIEW_SHARDS, SCHEMA_VERSION, VIEW_COUNTER

COUNTED = ("views", "keyed")
"""Views that were counted: at once, and those of a viewer or a key, which the stream adds."""
UNCOUNTED = ("repeated", "owner", "unpublished", "expired", "deleted")
"""Views that were not counted, by the rule that kept them out."""
SUMS = (*COUNTED, "watched", *UNCOUNTED)
"""All sums of a counter; `watched` is in milliseconds."""

COUNT = (*COUNTED, "spread", "folded")
"""The attributes of a counter's shard 0 that `ViewCounters.counts` reads."""
CONTROL = ("shards", "spread", "folded")
"""Those that say how it is spread."""

KNOWN_SECONDS = 5
"""How long a writer spreads over as many shards as it was last told: those who fold a counter wait for this to pass."""
KNOWN_VIDEOS = 1000
"""Videos of which a writer remembers that; their counters are spread, so there are few."""

CALM = 300
"""Views a second below which a counter is folded: far less than the 1,000 that one item takes."""
LOOK_SECONDS = 60
"""The shortest time over which `calm` finds out how many there are."""
FOLD_SECONDS = 300
"""How long `calm` waits until certainly no writer writes to the other shards any more."""

_Place = tuple[str, int]
"""A video and a shard."""


def view_count(counter: Item | None) -> int:
    """The count in a counter item, with what is folded."""
    if not counter:
        return 0
    return sum(int(counter.get(name, 0)) + int(counter.get("folded", {}).get(name, 0)) for name in COUNTED)


def sums_of(counter: Item | None) -> dict[str, int]:
    """All sums of a counter item by itself, without what is folded."""
    counter = counter or {}
    return {name: int(counter.get(name, 0)) for name in SUMS}


def shards_of(counter: Item | None) -> int:
    """How many shards have counted anything, by shard 0."""
    return int(counter.get("spread", 1)) if counter else 1


class Counted(NamedTuple):
    """What the counter of one video holds: the sums of each of its shards."""

    shards: Mapping[int, Mapping[str, int]]

    @property
    def sums(self) -> dict[str, int]:
        """The sums of all shards together."""
        return {name: sum(shard[name] for shard in self.shards.values()) for name in SUMS}

    @property
    def views(self) -> int:
        """The view count."""
        return sum(shard[name] for shard in self.shards.values() for name in COUNTED)

    @property
    def as_one(self) -> dict[str, int]:
        """The sums of a counter that would hold the same in one item, at once: all that was counted is `views`."""
        return {"views": self.views} | {
            name: count for name, count in self.sums.items() if count and name not in COUNTED
        }


@dataclass
class _Spread:
    """What an instance knows of a counter that is spread, and not folded."""

    at: int
    """When shard 0 said so, in epoch seconds."""
    shards: int
    spread: int
    counts: dict[int, int] = field(default_factory=dict)
    """The latest count of each shard that is known."""
    read_at: int = -1
    """When all of them were read."""


class ViewCounters:
    """The counters in the table. An instance remembers how those that are spread are: for KNOWN_SECONDS, of KNOWN_VIDEOS."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._known: OrderedDict[str, _Spread] = OrderedDict()
        self._changing = Lock()

    def add(self, video_id: str, additions: Mapping[str, int], now: int) -> int:
        """Add to the sums of a video, and return its view count: one UpdateItem that adds, so nothing is lost to another.

        The count is exact. Of a counter that is spread, it has what the other shards held less than a second ago, or longer
        when they cannot be read; what one instance returns never falls. `now` in epoch seconds.

        Raises NotApplied when certainly nothing was added, and Unavailable: an addition whose answer was lost may have
        happened, so it is not sent again.
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
                # Writers that have not heard of the last doubling heat the shards that they know. So only when a shard is
                # throttled that they do not know, there are too few.
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
        """The view count, for the answer to what adds nothing itself: one BatchGetItem, and as `add` has it if it is spread."""
        known = self._known.get(video_id)
        if known is None:
            first = dict(self._items([(video_id, 0)], (*COUNT, "shards"))).get((video_id, 0), {})
            known = self._learn(video_id, first, now)
            if known is None:
                return view_count(first)
        return self._sum(video_id, known, {}, now)

    def counts(self, counters: Mapping[str, Item | None]) -> dict[str, int]:
        """The view counts of videos by their counters' shards 0, of which COUNT has been read.

        No request, but for those that are spread and not folded: one BatchGetItem more for 100 of their shards.
        """
        counts = {video_id: view_count(counter) for video_id, counter in counters.items()}
        spread = {
            video: shards_of(counter) for video, counter in counters.items() if not (counter and "folded" in counter)
        }
        for (video_id, _), item in self._others(spread, COUNTED):
            counts[video_id] += view_count(item)
        return counts

    def stored(self, video_id: str) -> list[Item]:
        """The items of a counter as they are, shard 0 first: a consistent GetItem, and a BatchGetItem if it was ever spread."""
        first = self.table.get(VIEW_COUNTER.key(videoId=video_id, shard=0), consistent=True)
        others = self._others({video_id: shards_of(first)}, consistent=True)
        return [*([first] if first else []), *(item for _, item in others)]

    def read(self, video_ids: Sequence[str], *, consistent: bool = False) -> dict[str, Counted]:
        """What the counters of videos hold, by video and shard; one without views has no shards.

        One BatchGetItem for 100 videos, and one more for 100 other shards, also of counters that are folded: `folded` does
        not say which of them holds what.
        """
        shards: dict[str, dict[int, dict[str, int]]] = {video_id: {} for video_id in video_ids}
        spread: dict[str, int] = {}
        for (video_id, _), item in self._items([(video_id, 0) for video_id in shards], consistent=consistent):
            shards[video_id][0] = sums_of(item)
            spread[video_id] = shards_of(item)
        for (video_id, shard), item in self._others(spread, consistent=consistent):
            shards[video_id][shard] = sums_of(item)
        return {video_id: Counted(sums) for video_id, sums in shards.items()}

    def calm(self, video_id: str, now: int) -> None:
        """Fold a counter that is spread when its views are few; to be called every few minutes, and as often as one likes.

        One call writes down how much was counted. A later one compares, and brings all writers back to shard 0 if less than
        CALM a second was counted since. One that comes FOLD_SECONDS later writes down there what the other shards hold. If
        the shards are doubled meanwhile, it begins anew. `now` in epoch seconds; a consistent GetItem and BatchGetItem, and 1 WRU.
        """
        key = VIEW_COUNTER.key(videoId=video_id, shard=0)
        first = self.table.get(key, consistent=True)
        if first is None or shards_of(first) == 1 or "folded" in first:
            return
        others = [sums_of(item) for _, item in self._others({video_id: shards_of(first)}, consistent=True)]
        if "calmedAt" in first:
            if now - first["calmedAt"] < FOLD_SECONDS:
                return
            folded = {name: count for name in SUMS if (count := sum(sums[name] for sums in others))}
            change = Expression.of("SET #folded = :folded REMOVE #calmedAt", folded=folded)
            condition = Expression.of("#calmedAt = :calmedAt", calmedAt=first["calmedAt"])
        else:
            # Not what the stream adds: many views at a time, and never throttled.
            checked = sum(sums[name] for sums in (sums_of(first), *others) for name in ("views", *UNCOUNTED))
            elapsed = now - first.get("checkedAt", now)
            condition = _has_shards(first.get("shards", 1))
            if "checkedAt" in first and elapsed < LOOK_SECONDS:
                return
            if "checkedAt" in first and checked - first["checked"] < CALM * elapsed:
                change = Expression.of("SET #calmedAt = :now REMOVE #shards, #checked, #checkedAt", now=now)
            else:
                change = Expression.of("SET #checked = :checked, #checkedAt = :now", checked=checked, now=now)
        with suppress(ConditionFailed):
            self.table.write(self.table.update(key, change, condition=condition))

    def _shards(self, video_id: str, now: int) -> int:
        """How many shards a view may go to. After a while it goes to shard 0 again, whose answer says how many there are."""
        known = self._known.get(video_id)
        # Not a monotonic clock, as that may stand still while Lambda freezes the function.
        return known.shards if known and 0 <= now - known.at < KNOWN_SECONDS else 1

    def _grown(self, video_id: str, shards: int, now: int, *, double: bool) -> bool:
        """Whether there are more shards than that: somebody has doubled them, or this does.

        Reading first leaves a throttled item the writes that it still takes: reads have units of their own.
        """
        key = VIEW_COUNTER.key(videoId=video_id, shard=0)
        try:
            first = self.table.get(key, attributes=CONTROL, consistent=True) or {}
            if double and first.get("shards", 1) == shards < MOST_VIEW_SHARDS:
                change = Expression.of(
                    "SET #shards = :doubled, #spread = :spread REMOVE #folded, #calmedAt, #checked, #checkedAt",
                    doubled=2 * shards,
                    spread=max(2 * shards, shards_of(first)),
                )
                doubling = self.table.update(key, change, condition=_has_shards(shards))
                first = self.table.write(doubling, returning="ALL_NEW", elsewhere=True)
        except ConditionFailed as failure:
            first = failure.item or {}
        except Unavailable:  # whatever becomes of this, the view is not counted yet
            return False
        self._learn(video_id, first, now)
        return self._shards(video_id, now) > shards

    def _learn(self, video_id: str, first: Item, now: int) -> _Spread | None:
        """Remember what shard 0 says; the video that was unused longest is forgotten first."""
        with self._changing:  # videos of a batch are counted side by side
            if shards_of(first) == 1 or "folded" in first:
                self._known.pop(video_id, None)
                return None
            known = self._known.setdefault(video_id, _Spread(now, 1, 1))
            known.at, known.shards, known.spread = now, first.get("shards", 1), first["spread"]
            self._known.move_to_end(video_id)
            if len(self._known) > KNOWN_VIDEOS:
                self._known.popitem(last=False)
            return known

    def _count(self, video_id: str, shard: int, item: Item, now: int) -> int:
        """The count after a view, by the item that it was added to."""
        known = self._learn(video_id, item, now) if shard == 0 else self._known.get(video_id)
        return self._sum(video_id, known, {shard: view_count(item)}, now) if known else view_count(item)

    def _sum(self, video_id: str, known: _Spread, counts: dict[int, int], now: int) -> int:
        """The count of a counter that is spread: by these counts of shards, and what all held when they were last read."""
        if known.read_at != now:
            known.read_at = now
            # A view is counted, whether or not the others can be read.
            with suppress(Unavailable):
                places = [(video_id, number) for number in range(known.spread)]
                for (_, number), item in self._items(places, (*COUNT, "shards")):
                    if number == 0 and self._learn(video_id, item, now) is None:
                        return view_count(item)  # folded meanwhile: it has what all others hold
                    counts[number] = max(view_count(item), counts.get(number, 0))
        # A read may be older than what is known; all counts only grow.
        known.counts |= {number: max(count, known.counts.get(number, 0)) for number, count in counts.items()}
        return sum(known.counts.values())

    def _others(
        self, spread: Mapping[str, int], attributes: Iterable[str] = (), *, consistent: bool = False
    ) -> list[tuple[_Place, Item]]:
        """The items of all shards but the first, of counters by the number of their shards."""
        places = [(video_id, shard) for video_id, shards in spread.items() for shard in range(1, shards)]
        return self._items(places, attributes, consistent=consistent) if places else []

    def _items(
        self, places: Sequence[_Place], attributes: Iterable[str] = (), *, consistent: bool = False
    ) -> list[tuple[_Place, Item]]:
        """The items of shards, as far as they are there: one BatchGetItem for 100 of them."""
        keys = [VIEW_COUNTER.key(videoId=video_id, shard=shard) for video_id, shard in places]
        items = self.table.get_all(keys, attributes=attributes, consistent=consistent)
        return [(place, item) for place, item in zip(places, items, strict=True) if item]


def _has_shards(shards: int) -> Expression:
    """The condition that writers spread over `shards` shards."""
    if shards == 1:
        return Expression.of("attribute_not_exists(#shards)")
    return Expression.of("#shards = :shards", shards=shards)


def addition(additions: Mapping[str, int], now: int) -> Expression:
    """The change that adds to a counter item, and says in which hour: so the stream sees when a new one begins."""
    added = Expression.of("ADD " + ", ".join(f"#{name} :{name}" for name in additions), **additions)
    return added + Expression.of(
        "SET #hour = :hour, #schemaVersion = :current", hour=hour_of(now), current=SCHEMA_VERSION
    )
