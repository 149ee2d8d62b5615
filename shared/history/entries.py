"""The audit trail: who changed which field of a video, of what lies beside it or of a playlist, when, from what to what.

The stream delivers every change at least once, and the same change always makes the same entry with the same key.
So a conditional put keeps each exactly once, however often it is delivered.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from shared.captions.store import UPLOAD
from shared.core.attributes import Item
from shared.core.caller import IMPORT, JOBS, request_of
from shared.core.change_types import JOB_STATES
from shared.core.changes import Change, changes_between, escaped, fitting, plain
from shared.relations.beside import OWNER, REMOVING
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

JOB_FIELDS = ("state", "attempt", "inputHash", "input", "output", "error")
"""What is audited of a job; the rest are times, its place in the index, and heartbeats."""
CREDIT_FIELDS = ("name", "ordering", "roles")
RELEASE_FIELDS = ("titles",)
CAPTION_FIELDS = ("text", "cues", "size", "origin")
CHAPTERS_FIELDS = ("chapters",)
RATING_FIELDS = ("imported",)
"""What is audited of a video's ratings: what users of this service think is their own, and in no trail."""
PLAYLIST_FIELDS = ("title", "description", "visibility")

LARGEST_ENTRY = 250_000
"""Bytes of an entry as JSON. DynamoDB's limit is 400 KB, and it counts short numbers half as much again as JSON."""

STAMPS, STAMPED = "stamps", ("updatedAt", "schemaVersion")
"""What an entry keeps of the version that it made, and shows nobody: what the document has and no change says."""

SINCE, DIGEST = "since", "digest"
"""What else an entry keeps for who goes back along the trail: the second from which the video was as the change left it, and
what `shared.videos.documents.digest` makes of that."""

LONGEST_WRITE = 60
"""Seconds after its own time in which a request has written, if it ever does."""

ACTIONS = ("created", "changed", "deleted", "restored", "expired", "removed", *JOB_STATES)
FIELDS = (
    *("sequence", "videoId", "playlistId", "entity", "personId", "region", "language", "kind", "action", "by"),
    *("correlationId", "at", "version", "attempt", "changes", "omitted"),
)
"""An entry as clients and the archive see it, in this order."""

ENTRIES = "/entries"
"""Where a playlist's entries are in the changes of its trail, by video: `/entries/<videoId>`, and `.../rank` of one that
moved."""

UNKNOWN = {"kind": "service", "id": "unknown"}
"""Who made a change that bypassed the service."""


def entry(record: "Record", days: int) -> Item | None:
    """The audit entry of a change, kept for `days` days; None for a change that is not audited."""
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
    return fitting(item, LARGEST_ENTRY)


_Describe = Callable[["Record", Item, Item], Item | None]


def _subject(record: "Record") -> tuple[str, Entity, _Describe | None]:
    """What a changed item belongs to: the name of its id, the key of its entries, and what says of it; None: nothing."""
    if record.pk.startswith(PLAYLIST.partition_prefix):
        return "playlistId", PLAYLIST_AUDIT, _of_playlist if record.sk == PLAYLIST.sk else None
    if not record.pk.startswith(VIDEO.partition_prefix):
        return "", AUDIT, None
    described = (describe for prefix, describe in _OF_A_VIDEO.items() if record.sk.startswith(prefix))
    return "videoId", AUDIT, next(described, None)


def _is_of_a_change_set(item: Item) -> bool:
    """Whether it is what a request or an import wrote: not what the service's own jobs did about it later."""
    if "correlationId" not in item or item["entity"] == "job":
        return False
    # What an import brings may name its author of then, which may be a job; but jobs themselves create none of these, save
    # captions, which only then name an upload.
    return bool(item["by"]["kind"] == "person" or item["by"]["id"] == IMPORT or item["action"] == "created")


def _of_video(record: "Record", old: Item, new: Item) -> Item | None:
    if old and new.get("version") == 1 and new.get("writeId") != old.get("writeId"):
        old = {}  # it replaces a video whose time was up, whose fields do not belong to it
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
        STAMPS: {name: new[name] for name in STAMPED if name in new} if new else None,
        SINCE: _since(record, old, new) if new else None,
        DIGEST: digest(new) if new else None,
        "changes": differences,
    }


def _since(record: "Record", old: Item, new: Item) -> int:
    """The time of the write, as the video says it itself; that of the record, if the video kept an older one."""
    recorded, said = record.at_ms // 1000, new.get("updatedAt", 0)
    # An edit behind the service's back keeps the writeId, and an upgrade the time: neither says when it was. What has
    # a writeId of its own may have the time of the write before it all the same, when both were made in one second.
    is_behind = new.get("writeId") == old.get("writeId")
    is_upgrade = new.get("schemaVersion") != old.get("schemaVersion")
    is_kept = said == old.get("updatedAt") and (is_behind or is_upgrade)
    return int(said if not is_kept and 0 <= recorded - said <= LONGEST_WRITE else recorded)


def _of_relation(
    entity: str, names: Sequence[str], fields: Sequence[str], record: "Record", old: Item, new: Item
) -> Item | None:
    """Of a credit, a release, captions or chapters; `names` are those that distinguish it from others of its video."""
    # One that nobody took out goes with its video, whose removal is audited.
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
    # Totals that are removed go with their video.
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
    # An edit behind the service's back leaves those of the write before; none is ever made twice running.
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
    """What a move of an entry is as a change."""
    field = f"{ENTRIES}/{escaped(move['videoId'])}"
    if "from" in move and "to" in move:
        return {"field": f"{field}/rank", "from": move["from"]["rank"], "to": move["to"]["rank"]}
    return {"field": field} | {side: plain(move[side]) for side in ("from", "to") if side in move}


def _of_job(record: "Record", old: Item, new: Item) -> Item | None:
    action = new.get("state")
    same = all(old.get(name) == new.get(name) for name in ("state", "attempt", "inputHash"))
    # A job that is removed goes with its video, whose removal is audited.
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
"""What says of a change of a video, and of what lies beside it, by what its sort key begins with."""


def _is_no_news(old: Item, new: Item, differences: Sequence[Change]) -> bool:
    """Whether a change has no entry: each version has one, also if nothing that is shown changed.

    So a reader knows whether all are there.
    """
    return not differences and old.get("version") == new.get("version")


def _action(record: "Record", old: Item, new: Item, is_deleted: Callable[[Item], bool] = lambda _: False) -> str:
    if not new:
        return "expired" if record.expired else "removed"
    if not old:
        return "created"
    if is_deleted(old) == is_deleted(new):
        return "changed"
    return "deleted" if is_deleted(new) else "restored"


def _author(record: "Record", old: Item, new: Item) -> Item:
    """Who made a change, and for which request: every write says so, a removal does not, nor does an edit that bypassed
    the service.
    """
    if not new:
        return {"by": {"kind": "service", "id": "dynamodb.amazonaws.com"} if record.expired else UNKNOWN}
    bypassed = "writeId" in old and all(old.get(name) == new.get(name) for name in ("version", "writeId", "updatedAt"))
    return {"by": UNKNOWN} if bypassed else _signature(new)


def _signature(item: Item) -> Item:
    """Who wrote an item last, and for which request."""
    if "updatedBy" not in item:
        return {"by": UNKNOWN}
    author = item["updatedBy"]
    # Only videos and jobs say as what they were written.
    kind = item.get("updatedAs") or ("job" if author.startswith(JOBS) else "person")
    return {"by": {"kind": kind, "id": author}, "correlationId": request_of(item)}


def _picked(item: Item, names: Sequence[str]) -> Item:
    return {name: item[name] for name in names if name in item}


def sortable(milliseconds: int) -> str:
    """A time as it stands in the sort key of an entry."""
    return f"{milliseconds:013}"


def document(entry: Item) -> dict[str, Any]:
    """The entry as clients and the archive see it."""
    return {name: plain(entry[name]) for name in FIELDS if name in entry}
