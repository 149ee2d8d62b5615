"""Logs of changes: everybody's in SHARDS logs, by video, and each owner's in one more. Positions in a log are 1, 2, 3 ... without gaps.

What is appended goes into the log's tail, one item. When that would grow beyond LARGEST_TAIL, what it holds is written to a block
first, an item of its own that begins at the same position, and the tail begins anew behind it. So an append is one write of one
unit, and one more for each KB; and the tail, which is never removed, always says which position is next.

Nobody skips a position or takes one twice, because each write of a tail has the condition that it is as it was read.
docs/decisions/25-dense-log.md says what was weighed.
"""

import sys
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import orjson

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.aws.records import ABSENT
from shared.core.attributes import Item, decode_item
from shared.core.errors import Gone, WriteContention
from shared.feed.change import Change
from shared.schema import CHANGES, OWNER_CHANGES, PARTITION_KEY, SHARDS, SORT_KEY, TAIL, TTL_ATTRIBUTE, shard_of

DAYS_KEPT = 30
LARGEST_TAIL = 900
"""Bytes of compressed changes: with its other attributes, one write unit."""
SKEW_MS = 300_000
"""Milliseconds by which the clock of who appended a change may be behind that of the stream."""
MOST_BLOCKS = 50
"""How many blocks one Query reads."""
ATTEMPTS = 50
"""How often an append is tried while others append to the same log."""
MOST_TAILS = 1000
"""How many tails are remembered: those of an import may be of very many owners."""
LOOKS = 3
"""How often a block that is missing is looked for: the tail may become one in the middle of a Query."""


@cache
def shard_logs() -> tuple[str, ...]:
    """The logs that together have everybody's changes, by their shard."""
    return tuple(CHANGES.key(shard=shard, position="")[PARTITION_KEY] for shard in range(SHARDS))


def owner_log(user_id: str) -> str:
    """The log of the changes of one owner's things."""
    return OWNER_CHANGES.key(userId=user_id, position="")[PARTITION_KEY]


def logs_of(change: Change) -> tuple[str, ...]:
    """The logs that a change is appended to: all changes of one thing to the same."""
    shard = shard_logs()[shard_of(change.get("videoId") or change["playlistId"])]
    return (shard, owner_log(change["userId"])) if "userId" in change else (shard,)


class Place(NamedTuple):
    """Up to where a log has been read: `skip` changes of the block that begins at the position `first`."""

    first: int
    skip: int


OLDEST = Place(0, 0)
"""Before the oldest change that is kept."""


class Told(NamedTuple):
    """A change, its position, and where a reader is behind it."""

    position: int
    change: Change
    place: Place


@dataclass(frozen=True)
class Stretch:
    """What a read has found: changes in their order, where it goes on, and whether there was nothing more."""

    told: list[Told]
    place: Place
    is_end: bool


@dataclass(frozen=True)
class _Block:
    """Changes with the positions `first`, `first + 1` ..., the last of which was appended at `at` (epoch milliseconds)."""

    first: int
    count: int
    packed: bytes
    at: int
    is_closed: bool = False
    """Whether it is a block, and not the tail."""

    @classmethod
    def of(cls, item: Item) -> "_Block":
        return cls(item["first"], item["count"], item["changes"], item["at"], item[SORT_KEY] != TAIL)

    @classmethod
    def made(cls, first: int, changes: Sequence[Change], at: int) -> "_Block":
        return cls(first, len(changes), zlib.compress(orjson.dumps(changes)), at)

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Unpacked when they are asked for: a search by time asks for none."""
        return tuple(orjson.loads(zlib.decompress(self.packed)))

    def item(self, log: str, sort_key: str) -> Item:
        return {
            PARTITION_KEY: log,
            SORT_KEY: sort_key,
            "first": self.first,
            "count": self.count,
            "at": self.at,
            "changes": self.packed,
        }

    @property
    def next(self) -> int:
        return self.first + self.count

    @property
    def end(self) -> Place:
        return Place(self.first, self.count)


_EMPTY = _Block.made(1, (), 0)


class Feed:
    """Appends to logs, and reads them. One that appends remembers the tails that it knows, and looks only when one has moved."""

    def __init__(self, table: Table, clock: Callable[[], float] = time.time) -> None:
        self.table = table
        self._clock = clock
        self._tails: dict[str, _Block] = {}

    def prepare(self, change: Change) -> None:
        """Learn where the logs of a change end, if that is not known: to be called before its entry is put into the trail.

        Whoever finds the entry there may append the change. So it stands nowhere before the ends that are known here.
        """
        for log in logs_of(change):
            if log not in self._tails:
                self._tails[log] = self._tail(log)

    def append(self, changes: Sequence[Change], repeated: Collection[str] = ()) -> None:
        """Append each change to its logs, in their order, unless it is there. All must have been prepared.

        `repeated` are the ids of those that were in the trail already: they may have been appended long ago, so they are
        looked for. Raises Unavailable; WriteContention when others got in the way at every attempt.
        """
        by_log: dict[str, dict[str, Change]] = {}
        for change in changes:
            for log in logs_of(change):
                by_log.setdefault(log, {})[change["id"]] = change
        try:
            # Everybody's logs first: so they have all that an owner's log has.
            for log, own in sorted(by_log.items(), key=lambda each: each[0] not in shard_logs()):
                present = self._present(log, [change for id_, change in own.items() if id_ in repeated])
                self._append(log, [change for id_, change in own.items() if id_ not in present])
        except Exception:
            # All of it comes again, and is prepared again: a tail that a restored table does not have would fail forever.
            self._tails.clear()
            raise
        # Not before: what was prepared needs its tail as it was then.
        if len(self._tails) > MOST_TAILS:
            self._tails.clear()

    def _append(self, log: str, changes: Sequence[Change]) -> None:
        for attempt in range(ATTEMPTS):
            if not changes:
                return
            if attempt > 1:
                self.table.pause(attempt)
            tail = self._tails[log]
            try:
                self._tails[log] = self._extend(log, tail, changes)
            except ConditionFailed as error:
                missing = {change["id"] for change in changes}
                self._tails[log] = self._caught_up(log, tail, error.item, missing)
                changes = [change for change in changes if change["id"] in missing]
            else:
                return
        raise WriteContention("Others append to the same log; try again.")

    def _extend(self, log: str, tail: _Block, changes: Sequence[Change]) -> _Block:
        """Write the tail with more changes; raises ConditionFailed when it is no longer as it was read."""
        at = max(int(self._clock() * 1000), tail.at)
        longer = _Block.made(tail.first, (*tail.changes, *changes), at)
        if tail.count and len(longer.packed) > LARGEST_TAIL:
            self._close(log, tail)
            longer = _Block.made(tail.next, changes, at)
        as_read = Expression.of("#first = :read AND #count = :held", read=tail.first, held=tail.count)
        self.table.write(self.table.put(longer.item(log, TAIL), condition=as_read if tail.count else ABSENT))
        return longer

    def _close(self, log: str, tail: _Block) -> None:
        """Write what a tail holds to its block. One who has missed that it grew writes less, which does no harm: more replaces it
        before the tail begins anew, and less never replaces more."""
        item = tail.item(log, _sortable(tail.first)) | {TTL_ATTRIBUTE: tail.at // 1000 + DAYS_KEPT * 86_400}
        shorter = Expression.of("attribute_not_exists(#pk) OR #count < :held", held=tail.count)
        with suppress(ConditionFailed):  # it is there
            self.table.write(self.table.put(item, condition=shorter))

    def _tail(self, log: str) -> _Block:
        item = self.table.get({PARTITION_KEY: log, SORT_KEY: TAIL}, consistent=True)
        return _Block.of(item) if item else _EMPTY

    def _caught_up(self, log: str, known: _Block, item: Item | None, missing: set[str]) -> _Block:
        """The tail as it is, without all ids from `missing` that were appended since it was as it is known.

        `item` is the tail that stood in the way.
        """
        if item and item["first"] == known.first:
            tail = _Block.of(item)
            missing.difference_update(change["id"] for change in tail.changes[known.count :])
            return tail
        place = known.end
        while True:
            stretch = self.read(log, place, sys.maxsize, consistent=True)
            missing.difference_update(told.change["id"] for told in stretch.told)
            place = stretch.place
            if stretch.is_end:
                tail = self._tail(log)
                if tail.end == place:
                    return tail

    def _present(self, log: str, again: Sequence[Change]) -> set[str]:
        """The ids of those of these changes that the log has: reads until all are found, or they can stand nowhere else."""
        ids = {change["id"] for change in again}
        missing = set(ids)
        blocks = self._likely(log, min(change["at"] for change in again)) if again else ()
        for block in blocks:
            missing.difference_update(change["id"] for change in block.changes)
            if not missing:
                break
        return ids - missing

    def _likely(self, log: str, at: int) -> Iterator[_Block]:
        """All blocks that a change of a time (epoch milliseconds) or later may stand in, the likely ones first.

        1. The newest, one Query: what comes again mostly failed a moment ago.
        2. From its time on. When a reader of the stream starts over, all of a day comes again, batch by batch. To read back
           to each from the end would be quadratic; from its time on, its changes stand in the first blocks, so that
           a batch takes as many reads however long the log is, but for one more at each doubling.
        3. The rest up to the newest, for a change whose function died first: it was appended much later, or never.
        4. Up to SKEW_MS before its time, for one that was appended by a clock that is behind.
        """
        newest, is_all = self._back(log, None)
        yield from newest
        if is_all or newest[-1].at < at - SKEW_MS:
            return
        first = begun = min(self.at_time(log, at).first, newest[-1].first)
        while first < newest[-1].first:
            blocks, _ = self._blocks(log, first, MOST_BLOCKS, consistent=True)
            yield from blocks
            first = blocks[-1].next
        is_all = False
        while not is_all:
            older, is_all = self._back(log, begun)
            yield from older
            if older and older[-1].at < at - SKEW_MS:
                return
            begun = older[-1].first if older else begun

    def _back(self, log: str, before: int | None) -> tuple[list[_Block], bool]:
        """The newest blocks, or the newest before a position, from new to old, and whether there are none older."""
        page = self.table.query(
            index=None,
            condition=Expression.of("#pk = :log", log=log),
            ascending=False,
            limit=MOST_BLOCKS,
            start=None if before is None else {PARTITION_KEY: log, SORT_KEY: _sortable(before)},
            consistent=True,
        )
        return [_Block.of(item) for item in page.items], page.last_key is None

    def read(self, log: str, place: Place, limit: int, *, consistent: bool = False) -> Stretch:
        """Up to `limit` changes behind a place, which may be fewer though there are more.

        One Query of at most MOST_BLOCKS blocks, and one or two more when one is missing.

        Raises Gone when what comes next is no longer kept.
        """
        for _ in range(LOOKS):
            stretch = self._read(log, place, limit, consistent=consistent)
            if stretch is not None:
                return stretch
            consistent = True
        raise Gone(f"What comes next is no longer kept: that is done for {DAYS_KEPT} days.")

    def _read(self, log: str, place: Place, limit: int, *, consistent: bool) -> Stretch | None:
        """None: what comes next is not there, and something later is."""
        # Most blocks hold four changes or more.
        most = min(MOST_BLOCKS, limit // 4 + 2)
        blocks, is_end = self._blocks(log, place.first, most, consistent=consistent)
        if place == OLDEST and blocks and _may_hide_a_block(blocks[0]):
            blocks, is_end = self._oldest(log, blocks[0], most)
        told: list[Told] = []
        if place == OLDEST and not blocks:
            # Not a place that moves with what is kept: a reader who comes back to it after that would miss the first.
            place = _EMPTY.end
        for block in blocks:
            if place == OLDEST or block.first == place.first + place.skip:
                place = Place(block.first, 0)
            elif block.first != place.first:
                return Stretch(told, place, is_end=False) if told else None
            for change in block.changes[place.skip :]:
                if len(told) == limit:
                    return Stretch(told, place, is_end=False)
                position, place = place.first + place.skip, Place(place.first, place.skip + 1)
                told.append(Told(position, change, place))
        if is_end and place > (blocks[-1].end if blocks else _EMPTY.end):
            return None  # the log has not reached this place: the table was set back to an earlier time
        return Stretch(told, place, is_end=is_end)

    def _oldest(self, log: str, alone: _Block, most: int) -> tuple[list[_Block], bool]:
        """The oldest blocks, of a log in which only the tail was found: what it held before may have become a block meanwhile.

        A consistent Query that begins when a tail has been seen sees the block before it.
        """
        while True:
            blocks, is_end = self._blocks(log, 0, most, consistent=True)
            if blocks[0].first <= alone.first:
                return blocks, is_end
            alone = blocks[0]

    def _blocks(self, log: str, first: int, most: int, *, consistent: bool = False) -> tuple[list[_Block], bool]:
        """Some blocks from a position on that are kept, `most` at most, and whether there are no more."""
        kept = Expression.of("attribute_not_exists(#purgeAt) OR #purgeAt > :now", now=int(self._clock()))
        start: Item | None = None
        while True:
            page = self.table.query(
                index=None,
                condition=Expression.of("#pk = :log AND #sk >= :first", log=log, first=_sortable(first)),
                keep=kept,
                limit=most,
                start=start,
                consistent=consistent,
            )
            if page.items or page.last_key is None:
                blocks = [_Block.of(item) for item in page.items]
                # DynamoDB names a last key also when a page ends exactly with the tail, which is the last of all.
                return blocks, page.last_key is None or not blocks[-1].is_closed
            start = decode_item(page.last_key)

    def end(self, log: str) -> Place:
        """Behind the newest change; consistent."""
        return self._tail(log).end

    def at_time(self, log: str, at: int) -> Place:
        """Before the first change that was appended at a time (epoch milliseconds) or later, and a few before it.

        One read for each doubling of the log; consistent.
        """
        blocks, _ = self._blocks(log, 0, 1, consistent=True)
        if not blocks:
            return _EMPTY.end
        if _may_hide_a_block(blocks[0]):
            blocks, _ = self._oldest(log, blocks[0], 1)
        low, tail = blocks[0].first, self._tail(log)
        if tail.at < at:
            return tail.end
        chosen = high = tail.first
        while low < high:
            middle = (low + high) // 2
            block = self._blocks(log, middle, 1, consistent=True)[0][0]
            if block.at >= at:
                chosen, high = min(block.first, chosen), middle
            else:
                low = block.next
        return Place(chosen, 0)


def _may_hide_a_block(oldest: _Block) -> bool:
    """Whether there may be older ones than this: it is a tail, or may be one, with changes before it."""
    return oldest.first > 1 and not oldest.is_closed


def _sortable(position: int) -> str:
    return f"{position:012}"
