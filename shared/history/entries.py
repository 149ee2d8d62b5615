"""Audit entries: author, time, and old and new values for each change of a video, a related item or a playlist.

The stream delivers every change at least once. The same change always produces the same entry with the same key.
Therefore a conditional put stores each entry exactly once.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from shared.captions.store import UPLOAD
from shared.core.attributes import Item, Value
from shared.core.caller import IMPORT, JOBS, request_id_of
from shared.core.change_types import JOB_STATES
from shared.core.changes import Change, changes_between, escape_pointer, to_json_value, truncate_to_fit
from shared.relations.item_store import OWNER, REMOVING
from shared.relations.playlists import DELETED_AT, MOVES
from shared.schema import (
    AUDIT,
    CAPTION,
    CHANGESET,
    CHAPTERS,
    CREDIT,
    JOB,
    PLAYLIST,
    PLAYLIST_AUDIT,
    RATING_TOTALS,
    RELEASE,
    SCHEMA_VERSION,
    TTL_ATTRIBUTE,
    VIDEO,
    Entity,
)
from shared.videos.documents import changes, digest

if TYPE_CHECKING:
    from shared.aws.stream import Record  # Powertools, which functions of the API do not load
    from shared.entities import AnyVideo

JOB_FIELDS = ("state", "attempt", "inputHash", "input", "output", "error")
"""Names of the audited attributes of a job: all except times, index keys and heartbeats."""
CREDIT_FIELDS = ("name", "ordering", "roles")
RELEASE_FIELDS = ("titles",)
CAPTION_FIELDS = ("text", "cues", "size", "origin")
CHAPTERS_FIELDS = ("chapters",)
RATING_FIELDS = ("imported",)
"""Names of the audited attributes of a video's ratings. Only imported ratings are audited, because ratings by users are
private."""
PLAYLIST_FIELDS = ("title", "description", "visibility")

LARGEST_ENTRY = 250_000
"""Maximum bytes of an entry as JSON. DynamoDB's limit is 400 KB, but a short number takes 1.5 times as many bytes in
DynamoDB as in JSON.
"""

STAMPS, STAMPED = "stamps", ("updatedAt", "schemaVersion")
"""Name of an internal attribute of audit entries (STAMPS), and names of the video attributes that it stores (STAMPED).
The document of an earlier version needs these video attributes, but the `changes` of an entry omit them."""

SINCE, DIGEST = "since", "digest"
"""Names of two internal attributes of audit entries, which are needed to reconstruct earlier versions. SINCE has the
epoch second in which the version began. DIGEST has the digest of the video's state
(`shared.videos.documents.digest`)."""

LONGEST_WRITE = 60
"""Maximum seconds between the `updatedAt` that a request sets and the write itself."""

ACTIONS = ("created", "changed", "deleted", "restored", "expired", "removed", *JOB_STATES)
FIELDS = (
    *("sequence", "videoId", "playlistId", "entity", "personId", "region", "language", "kind", "action", "by"),
    *("correlationId", "at", "version", "attempt", "changes", "omitted"),
)
"""Names of the fields of an entry in API responses and in the archive, in this order."""

ENTRIES = "/entries"
"""Prefix of the JSON Pointers of playlist entries: `/entries/<videoId>`, and `/entries/<videoId>/rank` for a move."""

UNKNOWN = {"kind": "service", "id": "unknown"}
"""Author recorded for a change that was not written by the service, such as a direct edit of the table."""


def entry(record: "Record", days: int) -> Item | None:
    """Return the audit entry of a stream record, or `None` if the change is not audited.

    The entry expires `days` days after the change.
    """
    name, head, describe = _subject(record)
    if describe is None:
        return None
    old = {} if record.name == "INSERT" else record.old
    new = {} if record.name == "REMOVE" else record.new
    content = describe(record, old, new)
    if content is None:
        return None
    subject, at, sequence = record.pk.removeprefix(head.partition_prefix), record.at_ms, record.sequence
    item = {name: value for name, value in content.items() if value is not None}
    item |= {name: subject, "at": at, "sequence": sequence, "schemaVersion": SCHEMA_VERSION}
    item |= head.key(**{name: subject}, at=sortable(at), sequence=sequence.zfill(40))
    item[TTL_ATTRIBUTE] = at // 1000 + days * 24 * 3600
    if _is_of_a_change_set(item) and not (UPLOAD in new and item["by"]["kind"] == "job"):
        item[CHANGESET] = item["correlationId"]
    return truncate_to_fit(item, LARGEST_ENTRY)


_Describe = Callable[["Record", Item, Item], Item | None]


def _subject(record: "Record") -> tuple[str, Entity, _Describe | None]:
    """Return the name of the id attribute (`videoId` or `playlistId`), the entity of the audit entry, and the function
    that describes the change.

    The function is `None` if items of this kind are not audited.
    """
    if record.pk.startswith(PLAYLIST.partition_prefix):
        return "playlistId", PLAYLIST_AUDIT, _of_playlist if record.sk == PLAYLIST.sk else None
    if not record.pk.startswith(VIDEO.partition_prefix):
        return "", AUDIT, None
    described = (describe for prefix, describe in _OF_A_VIDEO.items() if record.sk.startswith(prefix))
    return "videoId", AUDIT, next(described, None)


def _is_of_a_change_set(item: Item) -> bool:
    """Return whether an audit entry belongs to a change set.

    It does if a request or an import made the change, but not if a job did.
    """
    if "correlationId" not in item or item["entity"] == "job":
        return False
    # An import may record the original author, which may be a job. So the creation of an item always counts. Jobs
    # themselves create only captions, which `entry` excludes because they have an upload id.
    return bool(item["by"]["kind"] == "person" or item["by"]["id"] == IMPORT or item["action"] == "created")


def _of_video(record: "Record", old: "AnyVideo", new: "AnyVideo") -> Item | None:
    if old and new.get("version") == 1 and new.get("writeId") != old.get("writeId"):
        old = {}  # the new video replaces an expired one, and their fields are unrelated
    differences = list(changes(old, new))
    if _is_no_news(old, new, differences):
        return None
    present = new or old
    return {
        "entity": "video",
        "owner": present.get("userId"),
        "action": _action(record, old, new, lambda item: item.get("status") == "deleted"),
        **_author(record, old, new),
        "version": present.get("version"),
        STAMPS: _picked(new, STAMPED) if new else None,
        SINCE: _since(record, old, new) if new else None,
        DIGEST: digest(new) if new else None,
        "changes": differences,
    }


def _since(record: "Record", old: "AnyVideo", new: "AnyVideo") -> int:
    """Return the epoch second of a write: the video's `updatedAt`, or the stream record's time if `updatedAt` is older
    than the write."""
    recorded, updated_at = record.at_ms // 1000, new.get("updatedAt", 0)
    # A direct edit and a schema upgrade do not set `updatedAt`. An unchanged `updatedAt` is valid if the writeId is
    # new, because two writes may happen in one second.
    is_behind = new.get("writeId") == old.get("writeId")
    is_upgrade = new.get("schemaVersion") != old.get("schemaVersion")
    is_unchanged = updated_at == old.get("updatedAt") and (is_behind or is_upgrade)
    return int(updated_at if not is_unchanged and 0 <= recorded - updated_at <= LONGEST_WRITE else recorded)


def _of_relation(
    entity: str, names: Sequence[str], fields: Sequence[str], record: "Record", old: Item, new: Item
) -> Item | None:
    """Describe a change of a credit, a release, captions or chapters.

    `names` are the attributes that identify the item. Returns `None` if the change needs no audit entry.
    """
    # Without REMOVING, the item was removed together with its video, which has its own entry.
    if not new and not old.get(REMOVING):
        return None
    differences = list(changes_between(_picked(old, fields), _picked(new, fields)))
    if _is_no_news(old, new, differences):
        return None
    present = new or old
    return {
        "entity": entity,
        **_picked(present, names),
        "owner": present.get(OWNER),
        "action": _action(record, old, new),
        **(_author(record, old, new) if new else _signature(old)),
        "version": present.get("version"),
        "changes": differences,
    }


def _of_ratings(record: "Record", old: Item, new: Item) -> Item | None:
    before, after = _picked(old, RATING_FIELDS), _picked(new, RATING_FIELDS)
    differences = list(changes_between(before, after))
    # Totals are only removed together with their video.
    if not new or not differences:
        return None
    return {
        "entity": "rating",
        "owner": new.get(OWNER),
        "action": _action(record, before, after),
        **_author(record, old, new),
        "changes": differences,
    }


def _of_playlist(record: "Record", old: Item, new: Item) -> Item | None:
    differences = list(changes_between(_picked(old, PLAYLIST_FIELDS), _picked(new, PLAYLIST_FIELDS)))
    # After a direct edit, the item still has the moves of the previous write. The service never repeats the same moves.
    if new.get(MOVES) != old.get(MOVES):
        differences += map(_moved, new.get(MOVES, ()))
    if _is_no_news(old, new, differences):
        return None
    present = new or old
    return {
        "entity": "playlist",
        "owner": present.get("userId"),
        "action": _action(record, old, new, lambda item: DELETED_AT in item),
        **_author(record, old, new),
        "version": present.get("version"),
        "changes": differences,
    }


def _moved(move: Item) -> Change:
    """Return the change for a playlist entry that was added, removed or moved."""
    field = f"{ENTRIES}/{escape_pointer(move['videoId'])}"
    if "from" in move and "to" in move:
        return {"field": f"{field}/rank", "from": move["from"]["rank"], "to": move["to"]["rank"]}
    return {"field": field} | {side: to_json_value(move[side]) for side in ("from", "to") if side in move}


def _of_job(record: "Record", old: Item, new: Item) -> Item | None:
    action = new.get("state")
    same = all(old.get(name) == new.get(name) for name in ("state", "attempt", "inputHash"))
    # Jobs are only removed together with their video, whose removal is audited.
    if not new or same or action not in JOB_STATES:
        return None
    return {
        "entity": "job",
        "kind": record.sk.removeprefix(JOB.sort_prefix),
        "owner": new.get("owner"),
        "action": action,
        **_author(record, old, new),
        "attempt": new.get("attempt"),
        "changes": list(changes_between(_picked(old, JOB_FIELDS), _picked(new, JOB_FIELDS))),
    }


_OF_A_VIDEO: Mapping[str, _Describe] = {
    VIDEO.sk: _of_video,
    RATING_TOTALS.sk: _of_ratings,
    JOB.sort_prefix: _of_job,
    CREDIT.sort_prefix: partial(_of_relation, "credit", ("personId",), CREDIT_FIELDS),
    RELEASE.sort_prefix: partial(_of_relation, "release", ("region", "language"), RELEASE_FIELDS),
    CAPTION.sort_prefix: partial(_of_relation, "captions", ("language",), CAPTION_FIELDS),
    CHAPTERS.sk: partial(_of_relation, "chapters", (), CHAPTERS_FIELDS),
}
"""Functions that describe the changes of a video and its related items, by prefix of the item's sort key."""


def _is_no_news(old: Mapping[str, Value], new: Mapping[str, Value], differences: Sequence[Change]) -> bool:
    """Return whether a change needs no entry.

    Every new version gets an entry, even if no visible field changed, so that readers can detect missing entries.
    """
    return not differences and old.get("version") == new.get("version")


def _action(
    record: "Record",
    old: Mapping[str, Value],
    new: Mapping[str, Value],
    is_deleted: Callable[[Mapping[str, Value]], bool] = lambda _: False,
) -> str:
    if not new:
        return "expired" if record.expired else "removed"
    if not old:
        return "created"
    if is_deleted(old) == is_deleted(new):
        return "changed"
    return "deleted" if is_deleted(new) else "restored"


def _author(record: "Record", old: Mapping[str, Value], new: Mapping[str, Value]) -> Item:
    """Return the attributes `by` (author) and `correlationId` of a change.

    The author of the removal of an expired item is DynamoDB. The author of any other removal is unknown, and also the
    author of an edit that bypassed the service. None of these changes has a correlation id.
    """
    if not new:
        return {"by": {"kind": "service", "id": "dynamodb.amazonaws.com"} if record.expired else UNKNOWN}
    bypassed = "writeId" in old and all(old.get(name) == new.get(name) for name in ("version", "writeId", "updatedAt"))
    return {"by": UNKNOWN} if bypassed else _signature(new)


def _signature(item: Mapping[str, Value]) -> Item:
    """Return the attributes `by` (author) and `correlationId` of an item's last write by the service."""
    if "updatedBy" not in item:
        return {"by": UNKNOWN}
    author = item["updatedBy"]
    # Only videos and jobs store the kind of their author.
    kind = item.get("updatedAs") or ("job" if author.startswith(JOBS) else "person")
    return {"by": {"kind": kind, "id": author}, "correlationId": request_id_of(item)}


def _picked(item: Mapping[str, Value], names: Sequence[str]) -> Item:
    return {name: item[name] for name in names if name in item}


def sortable(milliseconds: int) -> str:
    """Return epoch milliseconds as 13 digits, as in the sort key of an entry."""
    return f"{milliseconds:013}"


def document(entry: Item) -> dict[str, Any]:
    """Return an entry in the form of API responses and of the archive."""
    return {name: to_json_value(entry[name]) for name in FIELDS if name in entry}
