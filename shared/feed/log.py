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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import NamedTuple

import orjson

from shared.aws.dynamodb import LONGEST_WAIT, Key, QueryPage, Table, Write, gather, require_all
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
MAX_APPENDS = 50
"""Maximum attempts of one append, including the first, while other writers append to the same log."""
APPEND_WAIT = 0.01
"""Seconds by which the longest pause before another attempt grows with each: another append takes about as long."""
MOST_TAILS = 1000
"""How many tails are remembered: those of an import may be of very many owners."""
MAX_READS = 3
"""Maximum reads of a stretch in which a block is missing: the tail may become one in the middle of a Query."""


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
    tail: "_Block | None" = None
    """The log's tail, if all changes up to its end were read."""


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
_Page = tuple[list[_Block], bool]
"""Blocks, and whether there are no more in the direction in which they were read."""


class Feed:
    """Appends to logs, and reads them. One that appends remembers the tails that it knows, and looks only when one has moved."""

    def __init__(self, table: Table, clock: Callable[[], float] = time.time) -> None:
        self.table = table
        self._clock = clock
        self._tails: dict[str, _Block] = {}

    def prepare(self, changes: Iterable[Change]) -> None:
        """Read where the logs of changes end, as far as that is not known: to be called before their entries are stored.

        Another writer that finds an entry in the trail may append its change. So the change is at no position before the
        ends that are known here. Raises Unavailable.
        """
        logs = dict.fromkeys(log for change in changes for log in logs_of(change))
        unknown = [log for log in logs if log not in self._tails]
        items = require_all(gather(partial(self.table.begin_get, _tail_key(log), consistent=True) for log in unknown))
        self._tails |= {log: _tail_of(item) for log, item in zip(unknown, items, strict=True)}

    def append(self, changes: Sequence[Change], repeated: Collection[str] = ()) -> None:
        """Append each change to its logs, in their order, unless it is there. All must have been prepared.

        `repeated` are the ids of changes whose entries existed already: they may have been appended long ago, so they are
        looked for. Raises Unavailable; WriteContention when other writers moved a tail at every attempt.
        """
        by_log: dict[str, dict[str, Change]] = {}
        for change in changes:
            for log in logs_of(change):
                by_log.setdefault(log, {})[change["id"]] = change
        try:
            # Everybody's logs first: so they have all that an owner's log has.
            for is_shard in (True, False):
                some = {log: own for log, own in by_log.items() if (log in shard_logs()) == is_shard}
                self._append(self._absent(some, repeated))
        except Exception:
            # All of it comes again, and is prepared again: a tail that a restored table does not have would fail forever.
            self._tails.clear()
            raise
        # Not before: what was prepared needs its tail as it was then.
        if len(self._tails) > MOST_TAILS:
            self._tails.clear()

    def _append(self, left: dict[str, list[Change]]) -> None:
        """Append changes to several logs at a time."""
        # Not `retry_on_conflict`: each attempt appends to some of the logs, and a busy log takes more attempts.
        for attempt in range(MAX_APPENDS):
            left = {log: changes for log, changes in left.items() if changes}
            if not left:
                return
            if attempt > 1:
                self.table.pause(attempt, min(attempt * APPEND_WAIT, LONGEST_WAIT))
            left = self._extend(left)
        raise WriteContention("Others append to the same log; try again.")

    def _extend(self, left: Mapping[str, list[Change]]) -> dict[str, list[Change]]:
        """Append changes to the tails; return the changes of logs whose tail another writer moved first."""
        longer: dict[str, _Block] = {}
        full: dict[str, _Block] = {}
        for log, changes in left.items():
            tail = self._tails[log]
            at = max(int(self._clock() * 1000), tail.at)
            longer[log] = _Block.made(tail.first, (*tail.changes, *changes), at)
            if tail.count and len(longer[log].packed) > LARGEST_TAIL:
                full[log] = tail
                longer[log] = _Block.made(tail.next, changes, at)
        self._close(full)
        results = gather(partial(self.table.begin_write, self._replaced(log, tail)) for log, tail in longer.items())
        require_all(result for result in results if not isinstance(result, ConditionFailed))
        moved: dict[str, Item | None] = {}
        for (log, tail), result in zip(longer.items(), results, strict=True):
            if isinstance(result, ConditionFailed):
                moved[log] = result.item
            else:
                self._tails[log] = tail
        return self._caught_up({log: left[log] for log in moved}, moved)

    def _replaced(self, log: str, longer: _Block) -> Write:
        """The write of a tail, on the condition that it is as it was read."""
        tail = self._tails[log]
        as_read = Expression.of("#first = :read AND #count = :held", read=tail.first, held=tail.count)
        return self.table.put(longer.item(log, TAIL), condition=as_read if tail.count else ABSENT)

    def _close(self, tails: Mapping[str, _Block]) -> None:
        """Write what tails hold to their blocks. A writer that has missed that a tail grew writes less, which does no harm:
        more replaces it before the tail begins anew, and less never replaces more."""
        writes = []
        for log, tail in tails.items():
            item = tail.item(log, _sortable(tail.first)) | {TTL_ATTRIBUTE: tail.at // 1000 + DAYS_KEPT * 86_400}
            shorter = Expression.of("attribute_not_exists(#pk) OR #count < :held", held=tail.count)
            writes.append(partial(self.table.begin_write, self.table.put(item, condition=shorter)))
        # A condition that fails: it is there.
        require_all(result for result in gather(writes) if not isinstance(result, ConditionFailed))

    def _tail(self, log: str) -> _Block:
        return _tail_of(self.table.get(_tail_key(log), consistent=True))

    def _caught_up(self, left: Mapping[str, list[Change]], found: Mapping[str, Item | None]) -> dict[str, list[Change]]:
        """Learn the tails as they are, and return the changes without those that other writers have appended meanwhile.

        `found` are the tails that another writer wrote.
        """
        behind = []
        missing = {log: {change["id"] for change in changes} for log, changes in left.items()}
        for log, item in found.items():
            known = self._tails[log]
            if item and item["first"] == known.first:
                self._tails[log] = _Block.of(item)
                missing[log].difference_update(change["id"] for change in self._tails[log].changes[known.count :])
            else:
                behind.append(log)
        firsts = [
            partial(self._begin_blocks, log, self._tails[log].first, MOST_BLOCKS, consistent=True) for log in behind
        ]
        for log, page in zip(behind, require_all(gather(firsts)), strict=True):
            self._tails[log] = self._tail_behind(log, self._tails[log].end, page, missing[log])
        return {log: [change for change in changes if change["id"] in missing[log]] for log, changes in left.items()}

    def _tail_behind(self, log: str, place: Place, page: _Page, missing: set[str]) -> _Block:
        """Read from a position to the tail and return the tail; remove the ids that were read from `missing`."""
        begun: _Page | None = page
        while True:
            stretch = self.read(log, place, sys.maxsize, consistent=True, begun=begun)
            missing.difference_update(told.change["id"] for told in stretch.told)
            if stretch.tail:
                return stretch.tail
            place, begun = stretch.place, None

    def _absent(self, by_log: Mapping[str, Mapping[str, Change]], repeated: Collection[str]) -> dict[str, list[Change]]:
        """Return the changes that their log does not have; only ids in `repeated` are looked up."""
        again = {log: [change for id_, change in own.items() if id_ in repeated] for log, own in by_log.items()}
        again = {log: some for log, some in again.items() if some}
        newest = require_all(gather(partial(self._begin_back, log, None) for log in again))
        present = {
            log: self._present(log, some, *page) for (log, some), page in zip(again.items(), newest, strict=True)
        }
        return {
            log: [change for id_, change in own.items() if id_ not in present.get(log, ())]
            for log, own in by_log.items()
        }

    def _present(self, log: str, again: Sequence[Change], newest: list[_Block], is_all: bool) -> set[str]:
        """The ids of those of these changes that the log has: reads until all are found, or they can stand nowhere else.

        `newest` are the newest blocks, which are all that there are if `is_all`.
        """
        ids = {change["id"] for change in again}
        missing = set(ids)
        for block in self._likely(log, min(change["at"] for change in again), newest, is_all):
            missing.difference_update(change["id"] for change in block.changes)
            if not missing:
                break
        return ids - missing

    def _likely(self, log: str, at: int, newest: list[_Block], is_all: bool) -> Iterator[_Block]:
        """All blocks that a change of a time (epoch milliseconds) or later may stand in, the likely ones first.

        1. The newest, one Query: what comes again mostly failed a moment ago.
        2. From its time on. When a reader of the stream starts over, all of a day comes again, batch by batch. To read back
           to each from the end would be quadratic; from its time on, its changes stand in the first blocks, so that
           a batch takes as many reads however long the log is, but for one more at each doubling.
        3. The rest up to the newest, for a change whose function died first: it was appended much later, or never.
        4. Up to SKEW_MS before its time, for one that was appended by a clock that is behind.
        """
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
            older, is_all = self._begin_back(log, begun)()
            yield from older
            if older and older[-1].at < at - SKEW_MS:
                return
            begun = older[-1].first if older else begun

    def _begin_back(self, log: str, before: int | None) -> Callable[[], _Page]:
        """Ask for the newest blocks, or the newest before a position, from new to old, and whether there are none older."""
        finish = self.table.begin_query(
            index=None,
            condition=Expression.of("#pk = :log", log=log),
            ascending=False,
            limit=MOST_BLOCKS,
            start=None if before is None else {PARTITION_KEY: log, SORT_KEY: _sortable(before)},
            consistent=True,
        )

        def page() -> _Page:
            found = finish()
            return [_Block.of(item) for item in found.items], found.last_key is None

        return page

    def read(
        self, log: str, place: Place, limit: int, *, consistent: bool = False, begun: _Page | None = None
    ) -> Stretch:
        """Up to `limit` changes behind a place, which may be fewer though there are more.

        One Query of at most MOST_BLOCKS blocks, unless it was `begun`, and one or two more when one is missing.

        Raises Gone when what comes next is no longer kept.
        """
        for _ in range(MAX_READS):
            stretch = self._read(log, place, limit, consistent=consistent, begun=begun)
            if stretch is not None:
                return stretch
            consistent, begun = True, None
        raise Gone(f"What comes next is no longer kept: that is done for {DAYS_KEPT} days.")

    def _read(self, log: str, place: Place, limit: int, *, consistent: bool, begun: _Page | None) -> Stretch | None:
        """None: what comes next is not there, and something later is."""
        # Most blocks hold four changes or more.
        most = min(MOST_BLOCKS, limit // 4 + 2)
        blocks, is_end = begun or self._blocks(log, place.first, most, consistent=consistent)
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
        return Stretch(told, place, is_end=is_end, tail=(blocks[-1] if blocks else _EMPTY) if is_end else None)

    def _oldest(self, log: str, alone: _Block, most: int) -> tuple[list[_Block], bool]:
        """The oldest blocks, of a log in which only the tail was found: what it held before may have become a block meanwhile.

        A consistent Query that begins when a tail has been seen sees the block before it.
        """
        while True:
            blocks, is_end = self._blocks(log, 0, most, consistent=True)
            if blocks[0].first <= alone.first:
                return blocks, is_end
            alone = blocks[0]

    def _blocks(self, log: str, first: int, most: int, *, consistent: bool = False) -> _Page:
        """Some blocks from a position on that are kept, `most` at most, and whether there are no more."""
        return self._begin_blocks(log, first, most, consistent=consistent)()

    def _begin_blocks(self, log: str, first: int, most: int, *, consistent: bool = False) -> Callable[[], _Page]:
        """Ask for what `_blocks` returns."""
        kept = Expression.of("attribute_not_exists(#purgeAt) OR #purgeAt > :now", now=int(self._clock()))

        def begin(start: Item | None) -> Callable[[], QueryPage]:
            return self.table.begin_query(
                index=None,
                condition=Expression.of("#pk = :log AND #sk >= :first", log=log, first=_sortable(first)),
                keep=kept,
                limit=most,
                start=start,
                consistent=consistent,
            )

        finish = begin(None)

        def blocks() -> _Page:
            page = finish()
            while not page.items and page.last_key is not None:
                page = begin(decode_item(page.last_key))()
            found = [_Block.of(item) for item in page.items]
            # DynamoDB names a last key also when a page ends exactly with the tail, which is the last of all.
            return found, page.last_key is None or not found[-1].is_closed

        return blocks

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


def _tail_key(log: str) -> Key:
    return {PARTITION_KEY: log, SORT_KEY: TAIL}


def _tail_of(item: Item | None) -> _Block:
    return _Block.of(item) if item else _EMPTY


def _sortable(position: int) -> str:
    return f"{position:012}"
