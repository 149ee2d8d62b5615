"""Audit entries since the first change of a change set, for the items that the change set changed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shared.aws.expressions import Expression
from shared.core.attributes import Item, decode_item
from shared.core.caller import request_id_of
from shared.core.errors import LimitReached, TrailBehind
from shared.history.as_of import STREAM_SECONDS
from shared.history.entries import UNKNOWN
from shared.history.trail import FARTHEST, LARGEST_BACK, AuditStore
from shared.relations.item_store import REMOVING
from shared.schema import PARTITION_KEY, SORT_KEY

NAMES = ("entity", "videoId", "personId", "region", "language", "playlistId")
"""Names of the attributes of an audit entry that identify the changed item. API responses use the same names."""


def subject_of(entry: Item) -> dict[str, Any]:
    """Return the attributes of an audit entry that identify the changed item: a video, a related item, or a
    playlist."""
    return {name: entry[name] for name in NAMES if name in entry}


class LaterEntries:
    """Audit entries of a video and its related items, or of a playlist, since the entry `first`.

    The entries are read at first use, and read again if they are incomplete. `now` is in epoch seconds.
    """

    def __init__(self, trail: AuditStore, first: Item, now: int) -> None:
        self.would_restore_video = False
        """Whether the dry run would restore the deleted video. Related items can be changed only after that."""
        self._trail = trail
        self._first = first
        self._now = now
        self._entries: list[Item] | None = None

    def entries_of(self, entry: Item, is_complete: Callable[[Sequence[Item]], bool]) -> list[Item]:
        """Return all audit entries of the same item as `entry`, newest first.

        `is_complete` receives these entries, and returns whether they are complete. Incomplete entries are read again.
        Raises TrailBehind if the entries are incomplete after the second read, and LimitReached if there are too many
        entries.
        """
        names = subject_of(entry)
        for is_cached in (self._entries is not None, False):
            if not is_cached:
                self._entries = self._read()
            same = [candidate for candidate in self._entries or () if subject_of(candidate) == names]
            if is_complete(same):
                return same
        raise TrailBehind

    def _read(self) -> list[Item]:
        condition = Expression.of(
            "#pk = :pk AND #sk >= :first", pk=self._first[PARTITION_KEY], first=self._first[SORT_KEY]
        )
        entries: list[Item] = []
        start = None
        for _ in range(FARTHEST):
            page = self._trail.table.query(
                index=None,
                condition=condition,
                keep=Expression.of("#purgeAt > :now AND #entity <> :job", now=self._now, job="job"),
                ascending=False,
                limit=LARGEST_BACK,
                start=start,
                consistent=True,
            )
            entries += page.items
            if page.last_key is None:
                return entries
            start = decode_item(page.last_key)
        raise LimitReached(f"More than {FARTHEST} MB of audit entries follow the change, so it cannot be reverted.")


def is_complete(entries: Sequence[Item], *, item: Mapping[str, Any] | None, own: str, now: int) -> bool:
    """Return whether audit entries contain every write of a related item or playlist.

    `entries` are the item's audit entries, newest first. `item` is the current item, or `None` if it does not exist.
    `own` is the id of the revert run, and `now` is in epoch seconds.

    The entry of the last write may be missing if the run itself made this write. An entry that is still missing
    a day after the write will never arrive. The function then returns `True`, and the change without an entry counts as
    a change by another author.
    """
    newest = entries[0] if entries else None
    version = newest["version"] if newest and newest["action"] not in ("removed", "expired") else 0
    if item is None:
        return not newest or not version or now - newest["at"] // 1000 >= STREAM_SECONDS
    missing = item["version"] - version
    if missing == 0 and newest:
        # An interrupted removal has already set the item's author, but has not incremented the version.
        is_same = newest["by"] == UNKNOWN or newest.get("correlationId") == request_id_of(item) or REMOVING in item
    else:
        is_same = missing == 1 and request_id_of(item) == own
    return is_same or now - item["updatedAt"] >= STREAM_SECONDS


def is_already_reverted(entries: Sequence[Item], item: Mapping[str, Any] | None, own: str) -> bool:
    """Return whether the revert run with the id `own` has already written this item, for example before an
    interruption.

    `entries` are the item's audit entries. `item` is the current item, or `None` if it does not exist.
    """
    is_last = item is not None and request_id_of(dict(item)) == own and REMOVING not in item
    return is_last or any(entry.get("correlationId") == own for entry in entries)
