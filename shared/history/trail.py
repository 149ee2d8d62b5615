"""The audit trail as it is kept: entries in their table, and as lines in the archive."""

from collections.abc import Hashable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, TypedDict, Unpack

from shared.aws.dynamodb import Table, gather, require_all
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.aws.records import ABSENT
from shared.core.attributes import Item, decode_item
from shared.core.changes import json_of
from shared.core.deadline import has_time
from shared.core.errors import LimitReached
from shared.core.position import Page, Position
from shared.history.entries import document, sortable
from shared.schema import AUDIT, PARTITION_KEY, PLAYLIST_AUDIT, SORT_KEY

if TYPE_CHECKING:
    from shared.aws.s3 import Objects  # boto3, which only the archive needs

SUBJECT = (PARTITION_KEY, "entity", "personId", "region", "language", "kind")
"""Attributes of an entry that together identify the changed item."""

LAST_MILLISECOND = 10**13 - 1
"""The last time that fits the sort key, in the year 2286."""
LARGEST_QUERY = 250
MOST_QUERIES = 5
"""How many queries a page takes at most, when most of what they find is hidden."""

FIRST_BACK = 100
"""Entries that are read first to go back in a history: most are asked for what was not long ago."""
LARGEST_BACK = 20_000
"""Entries that each further query reads at most: more than fit 1 MB, where DynamoDB ends it."""
FARTHEST = 40
"""How many queries are read to go back in a history: 40 MB."""


class Asked(TypedDict, total=False):
    """Which entries a page has."""

    owner: str | None
    """Only those from this owner's time: an id whose video was removed may be imported anew for somebody else."""
    start: int
    """From this time on, in epoch milliseconds."""
    end: int
    """Up to but not including this time, likewise."""
    ascending: bool
    limit: int
    """25 unless another is named. A page ends short when its entries are large (a Query reads 1 MB), and then leads on."""
    after: Position | None


class AuditStore:
    """The table of entries. Nothing in it is ever changed; DynamoDB removes what is past its time."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def add(self, entry: Item) -> bool:
        """Store an entry, unless it exists: one PutItem. Returns whether it is new; raises Unavailable.

        An entry whose first response was lost counts as existing.
        """
        (is_new,) = require_all(self.add_all([entry]))
        return is_new

    def add_all(self, entries: Sequence[Item]) -> list[bool | Exception]:
        """Store entries, many at a time, those about the same item in their order: one PutItem each, as `add` does.

        Returns for each entry whether it is new, or why it was not stored. After an error the list may be shorter: the
        entries after its end were not tried.
        """
        puts = (partial(self.table.begin_write, self.table.put(entry, condition=ABSENT)) for entry in entries)
        return [_is_new(result) for result in gather(puts, in_order=map(_subject, entries))]

    def of_video(self, video_id: str, now: int, **asked: Unpack["Asked"]) -> Page[Item]:
        """A page of the entries of a video and of what lies beside it; see `Asked`."""
        return self._page(_home(video_id), now, **asked)

    def of_playlist(self, playlist_id: str, now: int, **asked: Unpack["Asked"]) -> Page[Item]:
        """A page of the entries of a playlist; see `Asked`."""
        key = PLAYLIST_AUDIT.key(playlistId=playlist_id, at="", sequence="")
        return self._page(key[PARTITION_KEY], now, **asked)

    def follows(self, partition: str, entity: str, changeset_id: str, version: int) -> bool:
        """Whether the trail has the entry of a write, or a later one by the same change set: one consistent Query.

        `partition` is the video's or the playlist's, `version` the least that the entry names; 0 for what has no versions.
        """
        keep = Expression.of("#entity = :entity AND #changeset = :id", entity=entity, id=changeset_id)
        if version:
            keep &= Expression.of("#version >= :version", version=version)
        condition = Expression.of("#pk = :pk", pk=partition)
        page = self.table.query(
            index=None, condition=condition, keep=keep, ascending=False, limit=LARGEST_QUERY, consistent=True
        )
        return bool(page.items)

    def _page(
        self,
        home: str,
        now: int,
        *,
        owner: str | None = None,
        start: int = 0,
        end: int = LAST_MILLISECOND,
        ascending: bool = False,
        limit: int = 25,
        after: Position | None = None,
    ) -> Page[Item]:
        """One Query, or MOST_QUERIES when most is hidden."""
        condition = Expression.of(
            # Every sort key goes on after its time, so none is equal to the end.
            "#pk = :pk AND #sk BETWEEN :start AND :end",
            pk=home,
            start=sortable(min(start, LAST_MILLISECOND)),
            end=sortable(min(end, LAST_MILLISECOND)),
        )
        keep = Expression.of("#purgeAt > :now", now=now)
        if owner is not None:
            keep &= Expression.of("#owner = :owner", owner=owner)
        items: list[Item] = []
        examine = limit + 1  # one more shows whether there is a next page
        for _ in range(MOST_QUERIES):
            start_key = {PARTITION_KEY: home, SORT_KEY: f"{sortable(after.at)}#{after.id}"} if after else None
            page = self.table.query(
                index=None,
                condition=condition,
                keep=keep,
                ascending=ascending,
                limit=examine,
                start=start_key,
            )
            items += page.items
            if len(items) > limit:
                return Page(items[:limit], _position(items[limit - 1][SORT_KEY]))
            if page.last_key is None:
                return Page(items, None)
            after = _position(page.last_key[SORT_KEY]["S"])
            if page.examined < examine or not has_time():  # stopped by its size, or about to be late
                break
            examine = LARGEST_QUERY
        return Page(items, after)

    def back(self, video_id: str, now: int) -> Iterator[Item]:
        """The entries of a video itself, the newest first: consistent, and a Query for each 1 MB after the first, which
        reads FIRST_BACK.

        Raises LimitReached when there is more to read than anybody should wait for.
        """
        condition = Expression.of("#pk = :pk", pk=_home(video_id))
        keep = Expression.of("#purgeAt > :now AND #entity = :entity", now=now, entity="video")
        start, limit = None, FIRST_BACK
        for _ in range(FARTHEST):
            page = self.table.query(
                index=None,
                condition=condition,
                keep=keep,
                ascending=False,
                limit=limit,
                start=start,
                consistent=True,
            )
            yield from page.items
            if page.last_key is None:
                return
            start, limit = decode_item(page.last_key), LARGEST_BACK
        raise LimitReached(f"The trail holds more than {FARTHEST} MB since then; ask for a later time.")


def _is_new(result: Exception | None) -> bool | Exception:
    """Return `True` if a conditional put stored the entry, `False` if the entry existed before, else the error of the put."""
    if isinstance(result, ConditionFailed):
        return False
    return result or True


def _subject(entry: Item) -> Hashable:
    """The item that an entry is about."""
    return tuple(entry.get(name) for name in SUBJECT)


def _home(video_id: str) -> str:
    """The partition of a video's entries."""
    return AUDIT.key(videoId=video_id, at="", sequence="")[PARTITION_KEY]


def _position(sort_key: str) -> Position:
    at, _, sequence = sort_key.partition("#")
    return Position(int(at), sequence)


class Archive:
    """Entries as JSON lines in S3, for those who keep them longer than the table does.

    One object for each invocation, named after its first entry: `audit/2026/01/31/<sequence, 40 digits>-<id>.jsonl`, with
    the id of its video or playlist.
    Lambda delivers the records of a lane of a shard in order and goes on only behind those that are done; what is not done
    it delivers again, as it was or in parts. So while an entry is the first that is not done, every repeat that gets
    to it begins with it, and replaces the object that an earlier one may have left, which held it and what
    follows; what follows has objects of its own by the time that it is done. All objects together hold each
    entry once. Were an object named after the first record instead, one that is not audited, a part that holds
    nothing but such records would leave the object of the whole standing.

    Two cases remain, and in both an entry stands in two objects and none is lost: Lambda gives a record up for
    good after an earlier try had archived it, or forgets where it was in the shard. Such twins
    have the same videoId or playlistId, at and sequence.
    """

    def __init__(self, objects: "Objects", bucket: str) -> None:
        self._objects = objects
        self._bucket = bucket

    def write(self, entries: Sequence[Item]) -> None:
        """Write the entries of one invocation; none, no object."""
        if not entries:
            return
        first = entries[0]
        day = datetime.fromtimestamp(first["at"] // 1000, UTC)
        subject = first.get("videoId") or first["playlistId"]
        name = f"audit/{day:%Y/%m/%d}/{first['sequence'].zfill(40)}-{subject}.jsonl"
        lines = b"".join(json_of(document(entry)) + b"\n" for entry in entries)
        self._objects.put(self._bucket, name, lines, "application/x-ndjson")
