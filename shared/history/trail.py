"""Audit trail storage: entries in a DynamoDB table, and JSON lines in an S3 archive."""

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
"""Names of the attributes of an entry that together identify the changed item."""

LAST_MILLISECOND = 10**13 - 1
"""Last epoch millisecond that fits the sort key, in the year 2286."""
LARGEST_QUERY = 250
"""Maximum number of entries that each Query for a page examines, except the first Query."""
MAX_QUERIES = 5
"""Maximum number of queries for a page. One is enough unless most of the entries are hidden from the caller."""

FIRST_BACK = 100
"""Maximum number of entries in the first Query of a backward read. It is low, because most callers need recent
entries."""
LARGEST_BACK = 20_000
"""Maximum number of entries in each later Query of a backward read. DynamoDB usually ends the page earlier, at 1 MB."""
FARTHEST = 40
"""Maximum number of queries of a backward read. Together, they read at most 40 MB."""


class TrailQuery(TypedDict, total=False):
    """Filters and paging of an audit query."""

    owner: str | None
    """User id. Only this owner's entries are returned, because an import may reuse the id of a removed video for
    another owner."""
    start: int
    """Inclusive start, in epoch milliseconds."""
    end: int
    """Exclusive end, in epoch milliseconds."""
    ascending: bool
    limit: int
    """Maximum number of entries, by default 25. A page may have fewer if entries are large: a Query reads at most 1 MB.
    """
    after: Position | None
    """Position after which the page begins."""


class AuditStore:
    """Table of audit entries. Entries are never changed, and DynamoDB deletes them when they expire."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def add(self, entry: Item) -> bool:
        """Store an entry if it does not exist, and return whether it is new. Costs one PutItem.

        If the response of the first attempt was lost, the retry finds the entry, and the result is `False`. Raises
        Unavailable if DynamoDB does not confirm the write at any attempt.
        """
        (is_new,) = require_all(self.add_all([entry]))
        return is_new

    def add_all(self, entries: Sequence[Item]) -> list[bool | Exception]:
        """Store entries if they do not exist. Costs one PutItem per entry.

        Returns for each entry `True` if it is new, `False` if it existed, or the error. Entries of the same item are
        stored in order. Entries of different items are stored concurrently. After an error, no further entries of any
        item are stored, so the list may be shorter than `entries`.
        """
        writes = (partial(self.table.begin_write, self.table.put(entry, condition=ABSENT)) for entry in entries)
        return [_is_new(result) for result in gather(writes, in_order=map(_subject, entries))]

    def list_for_video(self, video_id: str, now: int, **query: Unpack["TrailQuery"]) -> Page[Item]:
        """Return a page of the entries of a video and its related items. `query` is described in TrailQuery."""
        return self._page(_home(video_id), now, **query)

    def list_for_playlist(self, playlist_id: str, now: int, **query: Unpack["TrailQuery"]) -> Page[Item]:
        """Return a page of the entries of a playlist. `query` is described in TrailQuery."""
        key = PLAYLIST_AUDIT.key(playlistId=playlist_id, at="", sequence="")
        return self._page(key[PARTITION_KEY], now, **query)

    def follows(self, partition: str, entity: str, changeset_id: str, version: int) -> bool:
        """Return whether the newest entries contain an entry of this change set, with this entity and at least this
        version.

        `partition` is the partition key of the entries. `version` is 0 for an entity without versions. Costs one
        consistent Query, of at most LARGEST_QUERY entries.
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
        """Return a page of entries. Costs one Query, or at most MAX_QUERIES if most entries are hidden from the caller."""
        condition = Expression.of(
            # A sort key is longer than `end`, because more text follows its time. Therefore BETWEEN excludes `end`.
            "#pk = :pk AND #sk BETWEEN :start AND :end",
            pk=home,
            start=sortable(min(start, LAST_MILLISECOND)),
            end=sortable(min(end, LAST_MILLISECOND)),
        )
        keep = Expression.of("#purgeAt > :now", now=now)
        if owner is not None:
            keep &= Expression.of("#owner = :owner", owner=owner)
        items: list[Item] = []
        examine = limit + 1  # one item more than the limit shows whether there is a next page
        for _ in range(MAX_QUERIES):
            start_key = {PARTITION_KEY: home, SORT_KEY: f"{sortable(int(after.at))}#{after.id}"} if after else None
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
            if page.examined < examine or not has_time():  # DynamoDB stopped at 1 MB, or time is short
                break
            examine = LARGEST_QUERY
        return Page(items, after)

    def iterate_back(self, video_id: str, now: int) -> Iterator[Item]:
        """Yield the entries of a video, without its related items, newest first. Uses consistent Queries.

        The first Query reads FIRST_BACK entries, and each further Query up to 1 MB. Raises LimitReached after FARTHEST
        queries.
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
        raise LimitReached(f"More than {FARTHEST} MB of audit entries follow that time. Request a later time.")


def _is_new(result: Exception | None) -> bool | Exception:
    """Return `True` if a put stored the entry, `False` if the entry existed, or the error of the put.

    `result` is the result of `gather` for a conditional put.
    """
    if isinstance(result, ConditionFailed):
        return False
    return result or True


def _subject(entry: Item) -> Hashable:
    """Return the values that identify the changed item of an entry, such as a video or a credit."""
    return tuple(entry.get(name) for name in SUBJECT)


def _home(video_id: str) -> str:
    """Return the partition key of a video's entries."""
    return AUDIT.key(videoId=video_id, at="", sequence="")[PARTITION_KEY]


def _position(sort_key: str) -> Position:
    at, _, sequence = sort_key.partition("#")
    return Position(int(at), sequence)


ARCHIVED = "audit/"
"""Key prefix of the archive's objects. Below it, each object is in a folder for the year, month and day of the object's
first entry."""


class Archive:
    """Archive of audit entries in S3, for longer retention than in the table.

    Each invocation writes one object with one JSON document per line. The object is named after its first entry:
    `audit/2026/01/31/<sequence, 40 digits>-<videoId or playlistId>.jsonl`.

    An invocation can fail although its object was written. Lambda then sends the same records again, or only some records
    from the start of the batch. The retry begins with the same entry, so it overwrites the object. If the retry has fewer entries, a later
    invocation archives the remaining entries in another object.

    No entry is lost, but an entry can be in two objects. This happens if the retry begins with a different entry,
    because Lambda discarded the first record or lost its position in the shard. Duplicates have equal videoId or
    playlistId, `at` and `sequence`.
    """

    def __init__(self, objects: "Objects", bucket: str) -> None:
        self._objects = objects
        self._bucket = bucket

    def write(self, entries: Sequence[Item]) -> None:
        """Write the entries of one invocation as one object. Does nothing if there are no entries."""
        if not entries:
            return
        first = entries[0]
        day = datetime.fromtimestamp(first["at"] // 1000, UTC)
        subject = first.get("videoId") or first["playlistId"]
        name = f"{ARCHIVED}{day:%Y/%m/%d}/{first['sequence'].zfill(40)}-{subject}.jsonl"
        lines = b"".join(json_of(document(entry)) + b"\n" for entry in entries)
        self._objects.put(self._bucket, name, lines, "application/x-ndjson")
