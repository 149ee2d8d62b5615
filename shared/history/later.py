"""What happened to a part of a change set since: all that the trail has of it, or none of it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shared.aws.expressions import Expression
from shared.core.attributes import Item, decode_item
from shared.core.caller import request_of
from shared.core.errors import LimitReached, TrailBehind
from shared.history.entries import UNKNOWN
from shared.history.trail import FARTHEST, LARGEST_BACK, AuditStore
from shared.history.was import STREAM_SECONDS
from shared.relations.beside import REMOVING
from shared.schema import PARTITION_KEY, SORT_KEY

NAMES = ("entity", "videoId", "personId", "region", "language", "playlistId")
"""What names a part, as clients see it."""


def names_of(entry: Item) -> dict[str, Any]:
    """What an entry is about: one video, one thing beside it, or one playlist."""
    return {name: entry[name] for name in NAMES if name in entry}


class Later:
    """The entries of a video or playlist, with all that belongs to it, from one of them on.

    They are read when they are first asked for, and again when they lack what was written since.
    """

    def __init__(self, trail: AuditStore, first: Item, now: int) -> None:
        self.revived = False
        """Whether a dry run has found that the video, which is deleted, would be restored before."""
        self._trail = trail
        self._first = first
        self._now = now
        self._entries: list[Item] | None = None

    def of(self, entry: Item, is_whole: Callable[[Sequence[Item]], bool]) -> list[Item]:
        """The entries that are about the same as this one, the newest first; raises TrailBehind unless they are whole."""
        names = names_of(entry)
        for is_known in (self._entries is not None, False):
            if not is_known:
                self._entries = self._read()
            same = [other for other in self._entries or () if names_of(other) == names]
            if is_whole(same):
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
        raise LimitReached(f"The trail holds more than {FARTHEST} MB since then; this cannot be taken back.")


def is_followed(entries: Sequence[Item], *, item: Item | None, own: str, now: int) -> bool:
    """Whether the trail has all that was done to an item beside a video, or a playlist: `entries`, the newest first.

    But for the last write, if it is the run's own: what that did is known. What the trail lacks after a day, it will never
    have; what it does not know of is then by an unknown hand.
    """
    newest = entries[0] if entries else None
    made = newest["version"] if newest and newest["action"] not in ("removed", "expired") else 0
    if item is None:
        return not newest or not made or now - newest["at"] // 1000 >= STREAM_SECONDS
    missing = item["version"] - made
    if missing == 0 and newest:
        # A removal that broke off has signed the item already, and made no other version of it.
        is_same = newest["by"] == UNKNOWN or newest.get("correlationId") == request_of(item) or REMOVING in item
    else:
        is_same = missing == 1 and request_of(item) == own
    return is_same or now - item["updatedAt"] >= STREAM_SECONDS


def is_done(entries: Sequence[Item], item: Mapping[str, Any] | None, own: str) -> bool:
    """Whether an earlier try of the run `own` has written an item already."""
    is_last = item is not None and request_of(dict(item)) == own and REMOVING not in item
    return is_last or any(entry.get("correlationId") == own for entry in entries)
