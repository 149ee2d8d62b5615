"""Pages of changes from one or several logs, and cursors: one log position for each log."""

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
"""Maximum changes examined per page. The limit is reached if few changes have the requested types."""
EXPIRED = (
    f"The next changes have expired after {DAYS_KEPT} days. Request a cursor with `after=now`, read the lists or an export "
    "again, and continue from that cursor."
)

Cursors = dict[str, LogCursor]
"""Position of a reader in each log."""


@dataclass(frozen=True)
class ChangePage:
    """Page of changes in API form, the positions behind it, and whether the reader has caught up."""

    items: list[Change]
    cursors: Cursors
    caught_up: bool
    behind: list[Cursors] = field(default_factory=list)
    """For each change, the positions of a reader that stops after this change."""


def bound_to_changes(caller: Caller, user_id: str | None, types: Collection[str]) -> str:
    """Return the filters that a cursor is bound to: the owner (`None` for all owners) and the types."""
    return cursor_scope(caller, "changes", user_id, sorted(types))


def oldest_cursors(logs: Sequence[str]) -> Cursors:
    """Return positions before the oldest retained changes."""
    return dict.fromkeys(logs, OLDEST)


def end_cursors(feed: Feed, logs: Sequence[str]) -> Cursors:
    """Return positions behind the newest changes. Consistent."""
    return {log: feed.end(log) for log in logs}


def read_page(feed: Feed, cursors: Mapping[str, LogCursor], types: Collection[str], limit: int) -> ChangePage:
    """Return up to `limit` changes of these types: each log in order, and the logs merged by time.

    Reads until the page is full, all logs have ended, MAX_EXAMINED changes were examined, or time is short. Raises
    Gone.
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
                # Store the position of the oldest block, because OLDEST may mean a later block when the reader returns.
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
    """Encode log positions as the position of an API cursor, in the order of their logs."""
    return Position(0, ",".join(f"{cursor.first}.{cursor.skip}" for cursor in cursors.values()))


def decode_position(logs: Sequence[str], position: Position) -> Cursors:
    """Decode the log positions from the position of an API cursor."""
    pairs = (pair.split(".") for pair in position.id.split(","))
    return {log: LogCursor(int(first), int(skip)) for log, (first, skip) in zip(logs, pairs, strict=True)}
