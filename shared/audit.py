"""The audit trail: who changed which field of a video or job, when, from what to what.

The stream delivers every change at least once, and the same change always makes the same entry with the same key.
So a conditional put keeps each exactly once, however often it is delivered.
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.aws.records import ABSENT
from shared.aws.stream import Record
from shared.core.attributes import Item, Value, encode
from shared.core.caller import UPDATED_FOR, request_of
from shared.core.deadline import has_time
from shared.core.position import Page, Position
from shared.schema import AUDIT, JOB, PARTITION_KEY, SCHEMA_VERSION, SORT_KEY, TTL_ATTRIBUTE, VIDEO

if TYPE_CHECKING:
    from shared.aws.s3 import Objects  # boto3, which only the archive needs

INTERNAL = frozenset(
    {
        *("pk", "sk", "videoId", "schemaVersion", "version", "writeId", "updatedAt", "updatedBy", "updatedAs"),
        UPDATED_FOR,
        *("rel", "relShard", "relSort", "relId", "categoryShard", "poster", "deletedAt", "statusBeforeDelete"),
        "importDigest",
    }
)
"""Attributes of a video that say nothing of their own. All others are audited, also those that are yet to come."""

JOB_FIELDS = ("state", "attempt", "inputHash", "input", "output", "error")
"""What is audited of a job; the rest are times, its place in the index, and heartbeats."""

JOB_STATES = ("queued", "done", "failed", "withdrawn")
"""What is audited of a job's life. That it runs is not: heartbeats say so."""

LARGEST_ENTRY = 250_000
"""Bytes of an entry as JSON. DynamoDB's limit is 400 KB, and it counts short numbers half as much again as JSON."""
LONGEST_WHEN_CUT = 1000
"""What stays of a value that is cut, in characters."""

ACTIONS = ("created", "changed", "deleted", "restored", "expired", "removed", *JOB_STATES)
FIELDS = (
    *("sequence", "videoId", "entity", "kind", "action", "by", "correlationId", "at", "version", "attempt"),
    *("changes", "omitted"),
)
"""An entry as clients and the archive see it, in this order."""

LAST_MILLISECOND = 10**13 - 1
"""The last time that fits the sort key, in the year 2286."""
LARGEST_QUERY = 250
MOST_QUERIES = 5
"""How many queries a page takes at most, when most of what they find is hidden."""

Change = dict[str, Value]

_JOB_PREFIX = JOB.sk.partition("{")[0]
_UNKNOWN = {"kind": "service", "id": "unknown"}


def entry(record: Record, days: int) -> Item | None:
    """The audit entry of a change, kept for `days` days; None for a change that is not audited."""
    is_video, is_job = record.sk == VIDEO.sk, record.sk.startswith(_JOB_PREFIX)
    if not record.pk.startswith(VIDEO.partition_prefix) or not (is_video or is_job):
        return None
    old = {} if record.name == "INSERT" else record.old
    new = {} if record.name == "REMOVE" else record.new
    content = _of_video(record, old, new) if is_video else _of_job(record, old, new)
    if content is None:
        return None
    video_id, at, sequence = record.pk.removeprefix(VIDEO.partition_prefix), record.at_ms, record.sequence
    item = {name: value for name, value in content.items() if value is not None}
    item |= {"videoId": video_id, "at": at, "sequence": sequence, "schemaVersion": SCHEMA_VERSION}
    item |= AUDIT.key(videoId=video_id, at=_sortable(at), sequence=sequence.zfill(40))
    item[TTL_ATTRIBUTE] = at // 1000 + days * 24 * 3600
    return _fitting(item)


def _of_video(record: Record, old: Item, new: Item) -> Item | None:
    if old and new.get("version") == 1 and new.get("writeId") != old.get("writeId"):
        old = {}  # it replaces a video whose time was up, whose fields do not belong to it
    changes = list(_changes(_audited(old), _audited(new)))
    if not changes:
        return None
    present = new or old
    return {
        "entity": "video",
        "owner": present.get("userId"),
        "action": _action(record, old, new),
        **_author(record, old, new),
        "version": present.get("version"),
        "changes": changes,
    }


def _action(record: Record, old: Item, new: Item) -> str:
    if not new:
        return "expired" if record.expired else "removed"
    if not old:
        return "created"
    before, after = old.get("status") == "deleted", new.get("status") == "deleted"
    if before == after:
        return "changed"
    return "deleted" if after else "restored"


def _of_job(record: Record, old: Item, new: Item) -> Item | None:
    action = new.get("state")
    same = all(old.get(name) == new.get(name) for name in ("state", "attempt", "inputHash"))
    # A job that is removed goes with its video, whose removal is audited.
    if not new or same or action not in JOB_STATES:
        return None
    return {
        "entity": "job",
        "kind": record.sk.removeprefix(_JOB_PREFIX),
        "owner": new.get("owner"),
        "action": action,
        **_author(record, old, new),
        "attempt": new.get("attempt"),
        "changes": list(_changes(_picked(old), _picked(new))),
    }


def _author(record: Record, old: Item, new: Item) -> Item:
    """Who made a change, and for which request: every write says so, a removal does not, nor does an edit that bypassed
    the service.
    """
    if not new:
        return {"by": {"kind": "service", "id": "dynamodb.amazonaws.com"} if record.expired else _UNKNOWN}
    bypassed = "writeId" in old and all(old.get(name) == new.get(name) for name in ("version", "writeId", "updatedAt"))
    if bypassed or "updatedBy" not in new:
        return {"by": _UNKNOWN}
    by = {"kind": new.get("updatedAs", "person"), "id": new["updatedBy"]}
    return {"by": by, "correlationId": request_of(new)}


def _audited(item: Item) -> Item:
    return {name: value for name, value in item.items() if name not in INTERNAL}


def _picked(item: Item) -> Item:
    return {name: item[name] for name in JOB_FIELDS if name in item}


def _changes(old: Mapping[str, Value], new: Mapping[str, Value], path: str = "") -> Iterator[Change]:
    """What differs, by path: maps that are on both sides entry by entry, everything else as a whole."""
    for name in sorted(old.keys() | new.keys()):
        # A JSON Pointer (RFC 6901), because a key of `metadata` may have a dot in it.
        field = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        before, after = old.get(name), new.get(name)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _changes(before, after, field)
            continue
        change: Change = {"field": field}
        # No entries are no news: maps are stored even when they are empty.
        if name in old and before != {}:
            change["from"] = before
        if name in new and after != {}:
            change["to"] = after
        if len(change) > 1 and ("from" not in change or "to" not in change or encode(before) != encode(after)):
            yield {part: _plain(value) for part, value in change.items()}


def differences(old: Item, new: Item, largest: int) -> Item:
    """`{"changes": [...]}`, what differs between two documents, cut to about `largest` bytes of JSON, as an entry is.

    What does not fit even so is counted in `omitted`.
    """
    return _fitting({"changes": list(_changes(_audited(old), _audited(new)))}, largest)


def _plain(value: Value) -> Value:
    """The value as JSON can write it, in an order of its own."""
    if isinstance(value, Mapping):
        return {name: _plain(value[name]) for name in sorted(value)}
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _fitting(item: Item, largest: int = LARGEST_ENTRY) -> Item:
    """The entry, made to fit `largest` bytes: its longest values are cut, and what is still too much is left out.

    A value that is cut keeps its beginning, and `fromBytes` or `toBytes` says how long it was.
    """
    size = len(_json(item))
    if size <= largest:
        return item
    changes = [dict(change) for change in item["changes"]]
    values = [
        (len(_json(change[side])), position, side)
        for position, change in enumerate(changes)
        for side in ("from", "to")
        if side in change
    ]
    for bytes_, position, side in sorted(values, reverse=True):
        if size <= largest or bytes_ <= 4 * LONGEST_WHEN_CUT:
            break
        change, whole = changes[position], len(_json(changes[position]))
        value = change[side]
        change[side] = (value if isinstance(value, str) else _json(value).decode())[:LONGEST_WHEN_CUT]
        change[f"{side}Bytes"] = bytes_
        size -= whole - len(_json(change))
    kept = len(changes)
    while size > largest:
        kept -= 1
        size -= len(_json(changes[kept])) + 1
    omitted = {"omitted": len(changes) - kept} if kept < len(changes) else {}
    return item | {"changes": changes[:kept], **omitted}


def _json(value: Value) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _sortable(milliseconds: int) -> str:
    return f"{milliseconds:013}"


def document(entry: Item) -> dict[str, Any]:
    """The entry as clients and the archive see it."""
    return {name: _plain(entry[name]) for name in FIELDS if name in entry}


class AuditStore:
    """The table of entries. Nothing in it is ever changed; DynamoDB removes what is past its time."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def add(self, entry: Item) -> bool:
        """Keep an entry, unless it is there already: one PutItem; returns whether it is new.

        One whose first answer was lost counts as there already.
        """
        try:
            self.table.write(self.table.put(entry, condition=ABSENT))
        except ConditionFailed:
            return False
        return True

    def of_video(
        self,
        video_id: str,
        now: int,
        *,
        owner: str | None = None,
        start: int = 0,
        end: int = LAST_MILLISECOND,
        ascending: bool = False,
        limit: int = 25,
        after: Position | None = None,
    ) -> Page[Item]:
        """A video's entries from `start` up to but not including `end`, in epoch milliseconds; one Query.

        With an owner, only those from its time: a videoId whose video was removed may be imported anew for
        somebody else. A page ends short when its entries are large (a Query reads 1 MB), and then leads on.
        """
        key = AUDIT.key(videoId=video_id, at="", sequence="")[PARTITION_KEY]
        condition = Expression.of(
            # Every sort key goes on after its time, so none is equal to the end.
            "#pk = :pk AND #sk BETWEEN :start AND :end",
            pk=key,
            start=_sortable(min(start, LAST_MILLISECOND)),
            end=_sortable(min(end, LAST_MILLISECOND)),
        )
        keep = Expression.of("#purgeAt > :now", now=now)
        if owner is not None:
            keep &= Expression.of("#owner = :owner", owner=owner)
        items: list[Item] = []
        examine = limit + 1  # one more shows whether there is a next page
        for _ in range(MOST_QUERIES):
            start_key = AUDIT.key(videoId=video_id, at=_sortable(after.at), sequence=after.id) if after else None
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


def _position(sort_key: str) -> Position:
    at, _, sequence = sort_key.partition("#")
    return Position(int(at), sequence)


class Archive:
    """Entries as JSON lines in S3, for those who keep them longer than the table does.

    One object for each invocation, named after its first entry: `audit/2026/01/31/<sequence, 40 digits>-<videoId>.jsonl`.
    Lambda delivers a shard's records in order and goes on only behind those that are done; what is not done it
    delivers again, as it was or in parts. So while an entry is the first that is not done, every repeat that gets
    to it begins with it, and replaces the object that an earlier one may have left, which held it and what
    follows; what follows has objects of its own by the time that it is done. All objects together hold each
    entry once. Were an object named after the first record instead, one that is not audited, a part that holds
    nothing but such records would leave the object of the whole standing.

    Two cases remain, and in both an entry stands in two objects and none is lost: Lambda gives a record up for
    good after an earlier try had archived it, or forgets where it was in the shard. Such twins
    have the same videoId, at and sequence.
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
        name = f"audit/{day:%Y/%m/%d}/{first['sequence'].zfill(40)}-{first['videoId']}.jsonl"
        lines = b"".join(_json(document(entry)) + b"\n" for entry in entries)
        self._objects.put(self._bucket, name, lines, "application/x-ndjson")
