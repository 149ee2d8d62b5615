"""Change logs: ordered lists of changes. Together, the shard logs (one for each of the SHARDS shards) contain all changes.
Each owner also has a log, with the changes of the owner's videos and playlists.

Positions in a log are 1, 2, 3 and so on, without gaps. A change is appended to the log's tail, which is one item. If
the tail would exceed LARGEST_TAIL, its content is first copied to a block: a separate item with the same first
position. Then a new tail, which begins after this block, replaces the tail. Therefore most appends are one write of one
write unit. If the changes of one append are larger than 1 KB, each further KB costs one more unit. The tail is never
deleted, so it always shows the next position.

Every write of a tail has the condition that the stored tail is unchanged. Therefore positions are neither skipped nor
used twice. docs/decisions/25-dense-log.md describes the alternatives.
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
"""Number of days for which changes are retained."""
LARGEST_TAIL = 900
"""Maximum bytes of the compressed changes in a tail. A write of a larger tail would cost more than one write unit."""
SKEW_MS = 300_000
"""Maximum milliseconds by which the clock of an appending function may be behind the stream's clock."""
MAX_BLOCKS = 50
"""Maximum number of blocks that one Query reads."""
MAX_APPENDS = 50
"""Maximum number of attempts of one append, including the first. An attempt fails if another writer appends first."""
APPEND_WAIT = 0.01
"""Seconds that each attempt adds to the maximum pause before the next attempt. An append takes about this long."""
MAX_TAILS = 1000
"""Maximum number of cached tails. Without a limit, an import for very many owners could exhaust the memory."""
MAX_READS = 3
"""Maximum number of attempts to read a page. An attempt may fail while another writer copies the tail to a block."""


@cache
def shard_logs() -> tuple[str, ...]:
    """Return the partition keys of the shard logs, in the order of the shards. Together they contain all changes."""
    return tuple(CHANGES.key(shard=shard, position="")[PARTITION_KEY] for shard in range(SHARDS))


def owner_log(user_id: str) -> str:
    """Return the partition key of the log with an owner's changes."""
    return OWNER_CHANGES.key(userId=user_id, position="")[PARTITION_KEY]


def logs_of(change: Change) -> tuple[str, ...]:
    """Return the partition keys of a change's logs: its shard log, and the owner's log if the change has an owner.

    All changes of one video or playlist are in the same shard log.
    """
    shard = shard_logs()[shard_of(change.get("videoId") or change["playlistId"])]
    return (shard, owner_log(change["userId"])) if "userId" in change else (shard,)


class LogCursor(NamedTuple):
    """Position of a reader in a log: a block, and the number of changes of this block that the reader has received."""

    first: int
    """Position of the block's first change in the log."""
    skip: int
    """Number of changes of the block that the reader has received."""

    @property
    def next(self) -> int:
        """Position of the next change. Compare cursors by this position, because it does not depend on how the log groups
        changes into blocks."""
        return self.first + self.skip


OLDEST = LogCursor(0, 0)
"""Cursor before the oldest retained change."""


class FeedEntry(NamedTuple):
    """Change with its position in a log."""

    position: int
    """Position in the log, from 1."""
    change: Change
    cursor: LogCursor
    """Cursor from which a reader resumes after this change."""


@dataclass(frozen=True)
class FeedPage:
    """Result of `Feed.read`: changes of a log, and the cursor from which the next read resumes."""

    entries: list[FeedEntry]
    """Changes in the order of the log."""
    cursor: LogCursor
    """Cursor from which the next read resumes."""
    is_end: bool
    """Whether the page includes the last change of the log."""
    tail: "_Block | None" = None
    """Tail of the log if the page reaches the end of the log, else `None`."""


@dataclass(frozen=True)
class _Block:
    """Block or tail of a log: changes at consecutive positions."""

    first: int
    """Position of the first change."""
    count: int
    """Number of changes."""
    packed: bytes
    """Changes as compressed JSON."""
    at: int
    """Time at which the last change was appended, in epoch milliseconds."""
    is_closed: bool = False
    """Whether the item is a block, to which no changes are appended. `False` for the tail."""

    @classmethod
    def of(cls, item: Item) -> "_Block":
        return cls(item["first"], item["count"], item["changes"], item["at"], item[SORT_KEY] != TAIL)

    @classmethod
    def create(cls, first: int, changes: Sequence[Change], at: int) -> "_Block":
        return cls(first, len(changes), zlib.compress(orjson.dumps(changes)), at)

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Changes, decompressed at first use, because a search by time does not need them."""
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
        """Position after the last change."""
        return self.first + self.count

    @property
    def end(self) -> LogCursor:
        """Cursor after the last change."""
        return LogCursor(self.first, self.count)


_EMPTY = _Block.create(1, (), 0)
_Page = tuple[list[_Block], bool]
"""Blocks of a log, and whether the log has no more blocks in the direction of the read. The blocks include the tail
if the read reached it."""


class Feed:
    """Reader and writer of change logs. The writer caches tails.

    The writer reads a cached tail again after another writer has changed it.

    >>> feed = Feed(table)
    >>> change = {"id": "c1", "type": "video.changed", "videoId": "v1", "userId": "alice", "fields": ["/title"]}
    >>> feed.prepare([change])
    >>> feed.append([change])
    >>> feed.read(owner_log("alice"), OLDEST, limit=100).entries
    [FeedEntry(position=1, change={'id': 'c1', ...}, cursor=LogCursor(first=1, skip=1))]
    """

    def __init__(self, table: Table, clock: Callable[[], float] = time.time) -> None:
        self.table = table
        self._clock = clock
        self._tails: dict[str, _Block] = {}

    def prepare(self, changes: Iterable[Change]) -> None:
        """Read and cache the tails of the changes' logs. Call this before the audit entries are stored.

        Another writer can append one of these changes only after the audit entry of the change is stored, and therefore
        only after this read. Such a change then has a position after the cached tail, and `append` needs to search only
        these positions. Raises Unavailable if a tail cannot be read.
        """
        logs = dict.fromkeys(log for change in changes for log in logs_of(change))
        unknown = [log for log in logs if log not in self._tails]
        items = require_all(gather(partial(self.table.begin_get, _tail_key(log), consistent=True) for log in unknown))
        self._tails |= {log: _tail_of(item) for log, item in zip(unknown, items, strict=True)}

    def append(self, changes: Sequence[Change], repeated: Collection[str] = ()) -> None:
        """Append each change to its logs, in order. Skip a log that already contains the change.

        Call `prepare` with all changes first.

        `repeated` are the ids of changes with audit entries that existed before this batch. Such changes may have been
        appended long ago, so `append` searches the logs for them. Raises Unavailable if the table is unavailable.
        Raises WriteContention if other writers appended to the same log at every attempt.
        """
        by_log: dict[str, dict[str, Change]] = {}
        for change in changes:
            for log in logs_of(change):
                by_log.setdefault(log, {})[change["id"]] = change
        try:
            # First the shard logs, so that each change in an owner's log is also in a shard log.
            for is_shard in (True, False):
                some = {log: own for log, own in by_log.items() if (log in shard_logs()) == is_shard}
                self._append(self._absent(some, repeated))
        except Exception:
            # The caller retries the batch, including `prepare`. After a restore of the table, an outdated cached tail
            # would otherwise fail at every attempt.
            self._tails.clear()
            raise
        # The cache is limited only after the append, because `append` needs the tails that `prepare` has cached.
        if len(self._tails) > MAX_TAILS:
            self._tails.clear()

    def _append(self, pending: dict[str, list[Change]]) -> None:
        """Append changes to several logs concurrently. Raises WriteContention after MAX_APPENDS attempts."""
        # `retry_on_conflict` does not fit: each attempt succeeds for some logs, and a busy log needs more attempts.
        for attempt in range(MAX_APPENDS):
            pending = {log: changes for log, changes in pending.items() if changes}
            if not pending:
                return
            if attempt > 1:
                self.table.pause(attempt, min(attempt * APPEND_WAIT, LONGEST_WAIT))
            pending = self._extend(pending)
        raise WriteContention("the feed")

    def _extend(self, pending: Mapping[str, list[Change]]) -> dict[str, list[Change]]:
        """Append changes to the tails. Return, by log, the changes that are still to be appended.

        Changes remain if another writer changed the log's tail first.
        """
        longer: dict[str, _Block] = {}
        full: dict[str, _Block] = {}
        for log, changes in pending.items():
            tail = self._tails[log]
            at = max(int(self._clock() * 1000), tail.at)
            longer[log] = _Block.create(tail.first, (*tail.changes, *changes), at)
            if tail.count and len(longer[log].packed) > LARGEST_TAIL:
                full[log] = tail
                longer[log] = _Block.create(tail.next, changes, at)
        self._close(full)
        results = gather(partial(self.table.begin_write, self._replaced(log, tail)) for log, tail in longer.items())
        require_all(result for result in results if not isinstance(result, ConditionFailed))
        moved: dict[str, Item | None] = {}
        for (log, tail), result in zip(longer.items(), results, strict=True):
            if isinstance(result, ConditionFailed):
                moved[log] = result.item
            else:
                self._tails[log] = tail
        return self._caught_up({log: pending[log] for log in moved}, moved)

    def _replaced(self, log: str, longer: _Block) -> Write:
        """Return the write that replaces a log's tail with `longer`, on condition that the cached tail is current."""
        tail = self._tails[log]
        as_read = Expression.of("#first = :read AND #count = :held", read=tail.first, held=tail.count)
        return self.table.put(longer.item(log, TAIL), condition=as_read if tail.count else ABSENT)

    def _close(self, tails: Mapping[str, _Block]) -> None:
        """Copy the content of tails to blocks.

        If a writer's cached tail is outdated, its block lacks the newest changes. This is safe, because a block never
        replaces a block with more changes. Only a writer whose cached tail is current can replace the stored tail, and
        that writer's block is complete.
        """
        writes = []
        for log, tail in tails.items():
            item = tail.item(log, _sortable(tail.first)) | {TTL_ATTRIBUTE: tail.at // 1000 + DAYS_KEPT * 86_400}
            shorter = Expression.of("attribute_not_exists(#pk) OR #count < :held", held=tail.count)
            writes.append(partial(self.table.begin_write, self.table.put(item, condition=shorter)))
        # A failed condition means that the block exists with at least as many changes.
        require_all(result for result in gather(writes) if not isinstance(result, ConditionFailed))

    def _tail(self, log: str) -> _Block:
        return _tail_of(self.table.get(_tail_key(log), consistent=True))

    def _caught_up(
        self, pending: Mapping[str, list[Change]], found: Mapping[str, Item | None]
    ) -> dict[str, list[Change]]:
        """Refresh the cached tails of the logs in `found`. Return, by log, the changes in `pending` that no other
        writer has appended in the meantime.

        `found` has the current tails, which DynamoDB returned with the failed conditions.
        """
        behind = []
        missing = {log: {change["id"] for change in changes} for log, changes in pending.items()}
        for log, item in found.items():
            cached = self._tails[log]
            if item and item["first"] == cached.first:
                self._tails[log] = _Block.of(item)
                missing[log].difference_update(change["id"] for change in self._tails[log].changes[cached.count :])
            else:
                behind.append(log)
        firsts = [
            partial(self._begin_blocks, log, self._tails[log].first, MAX_BLOCKS, consistent=True) for log in behind
        ]
        for log, page in zip(behind, require_all(gather(firsts)), strict=True):
            self._tails[log] = self._tail_behind(log, self._tails[log].end, page, missing[log])
        return {log: [change for change in changes if change["id"] in missing[log]] for log, changes in pending.items()}

    def _tail_behind(self, log: str, cursor: LogCursor, page: _Page, missing: set[str]) -> _Block:
        """Read a log from a cursor to its tail, and return the tail.

        Also removes from `missing` the ids of all changes after the cursor.

        `page` has the first blocks after the cursor, which the caller has already read.
        """
        begun: _Page | None = page
        while True:
            stretch = self.read(log, cursor, sys.maxsize, consistent=True, begun=begun)
            missing.difference_update(entry.change["id"] for entry in stretch.entries)
            if stretch.tail:
                return stretch.tail
            cursor, begun = stretch.cursor, None

    def _absent(self, by_log: Mapping[str, Mapping[str, Change]], repeated: Collection[str]) -> dict[str, list[Change]]:
        """Return, by log, the changes that the log does not contain.

        Searches a log only for changes with ids in `repeated`. All other changes are new.
        """
        repeated_changes = {
            log: [change for id_, change in own.items() if id_ in repeated] for log, own in by_log.items()
        }
        repeated_changes = {log: some for log, some in repeated_changes.items() if some}
        newest = require_all(gather(partial(self._begin_back, log, None) for log in repeated_changes))
        present = {
            log: self._present(log, some, *page)
            for (log, some), page in zip(repeated_changes.items(), newest, strict=True)
        }
        return {
            log: [change for id_, change in own.items() if id_ not in present.get(log, ())]
            for log, own in by_log.items()
        }

    def _present(self, log: str, changes: Sequence[Change], newest: list[_Block], is_all: bool) -> set[str]:
        """Return the ids of those `changes` that the log contains.

        `newest` are the newest blocks; `is_all` is whether the log has no other blocks. Reads more blocks until all ids
        are found, or no further block can contain them.
        """
        ids = {change["id"] for change in changes}
        missing = set(ids)
        for block in self._likely(log, min(change["at"] for change in changes), newest, is_all):
            missing.difference_update(change["id"] for change in block.changes)
            if not missing:
                break
        return ids - missing

    def _likely(self, log: str, at: int, newest: list[_Block], is_all: bool) -> Iterator[_Block]:
        """Yield the blocks that may contain changes of the time `at` (epoch milliseconds) or later, most likely first.

        1. The newest blocks, because most repeated changes were appended moments ago.
        2. The other blocks from the time `at` on, oldest first. A stream consumer that was interrupted for a day receives
           all changes of this day again, in batches. Most changes of a batch are in the first of these blocks. A batch
           therefore takes a constant number of requests, plus O(log n) for a log of n positions. A search from
           the newest block backwards would instead read all later blocks for each batch. The later blocks follow,
           because a function that failed may have appended a change much later than usual.
        3. Blocks up to SKEW_MS before the time `at`, in case a function with a slow clock appended the change.
        """
        yield from newest
        if is_all or newest[-1].at < at - SKEW_MS:
            return
        first = begun = min(self.at_time(log, at).first, newest[-1].first)
        while first < newest[-1].first:
            blocks, _ = self._blocks(log, first, MAX_BLOCKS, consistent=True)
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
        """Send a Query for the newest blocks before a position, and return a function that waits for them.

        `before` is `None` for the newest blocks of the log. The blocks are in descending order.
        """
        finish = self.table.begin_query(
            index=None,
            condition=Expression.of("#pk = :log", log=log),
            ascending=False,
            limit=MAX_BLOCKS,
            start=None if before is None else {PARTITION_KEY: log, SORT_KEY: _sortable(before)},
            consistent=True,
        )

        def page() -> _Page:
            found = finish()
            return [_Block.of(item) for item in found.items], found.last_key is None

        return page

    def read(
        self, log: str, cursor: LogCursor, limit: int, *, consistent: bool = False, begun: _Page | None = None
    ) -> FeedPage:
        """Return at most `limit` changes after a cursor. A page may have fewer changes although the log has more.

        Costs one Query of at most MAX_BLOCKS blocks, and up to two more Queries if a block is missing. `begun` is the
        result of the first Query if the caller has sent it already. Raises Gone if the next change has expired.
        """
        for _ in range(MAX_READS):
            page = self._read(log, cursor, limit, consistent=consistent, begun=begun)
            if page is not None:
                return page
            consistent, begun = True, None
        raise Gone(f"The next changes have expired after {DAYS_KEPT} days.")

    def _read(
        self, log: str, cursor: LogCursor, limit: int, *, consistent: bool, begun: _Page | None
    ) -> FeedPage | None:
        """Return the result of one attempt to read a page.

        Returns `None` if the block at the cursor is missing, but a later block exists. Also returns `None` if the log
        ends before the cursor.
        """
        # Most blocks contain at least four changes.
        most = min(MAX_BLOCKS, limit // 4 + 2)
        blocks, is_end = begun or self._blocks(log, cursor.first, most, consistent=consistent)
        if cursor == OLDEST and blocks and _may_hide_a_block(blocks[0]):
            blocks, is_end = self._oldest(log, blocks[0], most)
        entries: list[FeedEntry] = []
        if cursor == OLDEST and not blocks:
            # Not OLDEST, because a reader with OLDEST would miss the first changes if they expire before its next read.
            cursor = _EMPTY.end
        for block in blocks:
            if cursor == OLDEST or block.first == cursor.next:
                cursor = LogCursor(block.first, 0)
            elif block.first != cursor.first:
                return FeedPage(entries, cursor, is_end=False) if entries else None
            for change in block.changes[cursor.skip :]:
                if len(entries) == limit:
                    return FeedPage(entries, cursor, is_end=False)
                position, cursor = cursor.next, LogCursor(cursor.first, cursor.skip + 1)
                entries.append(FeedEntry(position, change, cursor))
        if is_end and cursor > (blocks[-1].end if blocks else _EMPTY.end):
            return None  # the log ends before the cursor: the table was restored to an earlier time
        return FeedPage(entries, cursor, is_end=is_end, tail=(blocks[-1] if blocks else _EMPTY) if is_end else None)

    def _oldest(self, log: str, alone: _Block, most: int) -> tuple[list[_Block], bool]:
        """Return the oldest blocks of the log, and whether the log has no more blocks.

        Call this if a Query for the oldest blocks returned only the tail, `alone`. That Query may have missed a block:
        another writer may have copied the previous tail to a block, and then replaced the tail by `alone`. This method
        sends consistent Queries, which also return that block.
        """
        while True:
            blocks, is_end = self._blocks(log, 0, most, consistent=True)
            if blocks[0].first <= alone.first:
                return blocks, is_end
            alone = blocks[0]

    def _blocks(self, log: str, first: int, most: int, *, consistent: bool = False) -> _Page:
        """Return at most `most` retained blocks that begin at the position `first` or later, and whether there are no
        more.
        """
        return self._begin_blocks(log, first, most, consistent=consistent)()

    def _begin_blocks(self, log: str, first: int, most: int, *, consistent: bool = False) -> Callable[[], _Page]:
        """Send a Query for the retained blocks that begin at the position `first` or later.

        Return a function that waits for them.

        `most` is the maximum number of blocks.
        """
        retained = Expression.of("attribute_not_exists(#purgeAt) OR #purgeAt > :now", now=int(self._clock()))

        def begin(start: Item | None) -> Callable[[], QueryPage]:
            return self.table.begin_query(
                index=None,
                condition=Expression.of("#pk = :log AND #sk >= :first", log=log, first=_sortable(first)),
                keep=retained,
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
            # The tail is the last item. DynamoDB also returns a last key if the page ends exactly with the tail.
            return found, page.last_key is None or not found[-1].is_closed

        return blocks

    def end(self, log: str) -> LogCursor:
        """Return the cursor after the newest change. Costs one consistent GetItem."""
        return self._tail(log).end

    def at_time(self, log: str, at: int) -> LogCursor:
        """Return a cursor from which a reader receives all changes that were appended since `at` (epoch milliseconds).

        The reader may also receive a few earlier changes. Costs O(log n) consistent reads for n positions.
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
        return LogCursor(chosen, 0)


def _may_hide_a_block(oldest: _Block) -> bool:
    """Return whether older blocks than `oldest` may exist, although it is the first item that a Query found.

    They may exist if `oldest` is the tail, but does not begin at position 1.
    """
    return oldest.first > 1 and not oldest.is_closed


def _tail_key(log: str) -> Key:
    return {PARTITION_KEY: log, SORT_KEY: TAIL}


def _tail_of(item: Item | None) -> _Block:
    return _Block.of(item) if item else _EMPTY


def _sortable(position: int) -> str:
    return f"{position:012}"
