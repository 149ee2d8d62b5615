"""Pages of changes, merged from several change logs. The cursor of a page consists of one position per log."""

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from shared.core.caller import Caller
from shared.core.deadline import has_time
from shared.core.errors import Gone
from shared.core.position import Position
from shared.feed.change import Change, has_type
from shared.feed.log import DAYS_KEPT, OLDEST, Feed, FeedEntry, LogCursor
from shared.web.paging import cursor_scope

MAX_EXAMINED = 1000
"""Maximum number of changes examined for a page. After this number, the page ends, even if few of the changes have the
requested types."""
EXPIRED = (
    f"The next changes have expired after {DAYS_KEPT} days. Request a cursor with `after=now`, read the lists or an export "
    "again, and continue from that cursor."
)

Cursors = dict[str, LogCursor]
"""Positions of a reader in several logs, by the log's partition key."""


@dataclass(frozen=True)
class ChangePage:
    """Page of feed changes. Each change has the form in which API responses show it."""

    items: list[Change]
    """Changes, merged by time."""
    cursors: Cursors
    """Positions in the logs from which the next page resumes."""
    caught_up: bool
    """Whether the page reaches the end of all logs."""
    behind: list[Cursors] = field(default_factory=list)
    """For each change in `items`, the log positions from which a reader resumes after this change."""


def bound_to_changes(caller: Caller, user_id: str | None, types: Collection[str]) -> str:
    """Return the identity of a query for changes: caller, owner (`None` for all owners) and types.

    A cursor is valid only for the query with the same identity.
    """
    return cursor_scope(caller, "changes", user_id, sorted(types))


def oldest_cursors(logs: Sequence[str]) -> Cursors:
    """Return the positions before the oldest retained changes of these logs."""
    return dict.fromkeys(logs, OLDEST)


def end_cursors(feed: Feed, logs: Sequence[str]) -> Cursors:
    """Return the positions after the newest changes of these logs. Costs one consistent GetItem per log."""
    return {log: feed.end(log) for log in logs}


def read_page(feed: Feed, cursors: Mapping[str, LogCursor], types: Collection[str], limit: int) -> ChangePage:
    """Return up to `limit` changes of these types, merged by time from all logs. The order within a log is preserved.

    Reads until the page is full, all logs have ended, MAX_EXAMINED changes were examined, or the time of the request is
    exhausted. Raises Gone if the next changes of a log have expired.
    """
    open_logs, reached = dict(cursors), dict(cursors)
    shards = {log: shard for shard, log in enumerate(cursors)}
    items: list[Change] = []
    behind: list[Cursors] = []
    examined = 0
    while True:
        ended: set[str] = set()
        read: list[list[tuple[str, FeedEntry]]] = []
        for log, cursor in open_logs.items():
            try:
                page = feed.read(log, cursor, MAX_EXAMINED if types else limit)
            except Gone as error:
                raise Gone(EXPIRED) from error
            read.append([(log, entry) for entry in page.entries])
            if not page.entries:
                reached[log] = page.cursor
            elif cursor == OLDEST:
                # Not OLDEST: the oldest block may expire before the reader's next request. OLDEST would then mean a
                # later block.
                reached[log] = LogCursor(page.entries[0].cursor.first, 0)
            if page.is_end:
                ended.add(log)
        for log, entry in heapq.merge(*read, key=lambda logged: (logged[1].change["at"], logged[0])):
            if len(items) == limit or examined == MAX_EXAMINED:
                return ChangePage(items, reached, caught_up=False, behind=behind)
            reached[log], examined = entry.cursor, examined + 1
            if has_type(entry.change, types):
                items.append(entry.change | {"shard": shards[log], "position": entry.position})
                behind.append(dict(reached))
        open_logs = {log: reached[log] for log in open_logs if log not in ended}
        if not open_logs:
            return ChangePage(items, reached, caught_up=True, behind=behind)
        if len(items) == limit or examined == MAX_EXAMINED or not has_time():
            return ChangePage(items, reached, caught_up=False, behind=behind)


def encode_position(cursors: Cursors) -> Position:
    """Encode log positions as the position in an API cursor. To decode it, pass the logs in the order of `cursors`."""
    return Position(0, ",".join(f"{cursor.first}.{cursor.skip}" for cursor in cursors.values()))


def decode_position(logs: Sequence[str], position: Position) -> Cursors:
    """Decode the log positions from the position in an API cursor. `logs` must be in the order in which
    `encode_position` received them."""
    pairs = (pair.split(".") for pair in position.id.split(","))
    return {log: LogCursor(int(first), int(skip)) for log, (first, skip) in zip(logs, pairs, strict=True)}
