"""A video: its life from upload to removal, who may see it, and the item that DynamoDB keeps.

Pure functions over plain items; the stores write what these return.
"""

import secrets
from collections.abc import Mapping
from typing import Any

from shared.attributes import Item, Value
from shared.caller import Caller
from shared.errors import Forbidden, IllegalTransition, NotFound
from shared.models import VideoContent, check_content
from shared.schema import FEED, SCHEMA_VERSION, TTL_ATTRIBUTE, VIDEO, shard_of, status_relation

GRACE_SECONDS = 90 * 24 * 3600
"""How long a deleted or expired video can still be brought back before DynamoDB may remove it."""

TRANSITIONS: dict[str, frozenset[str]] = {
    "uploaded": frozenset({"processing", "failed"}),
    "processing": frozenset({"ready", "failed"}),
    "ready": frozenset({"processing"}),
    "failed": frozenset({"uploaded", "processing"}),
    "deleted": frozenset(),
}
"""The status machine for PATCH. DELETE leads from every status to `deleted`, restore back to where it was."""

STATUSES = tuple(TRANSITIONS)

MAPS = ("resolutions", "metadata", "thumbnails")
"""Stored even when empty, so that an update can set a single entry."""

FIELDS = (
    "videoId",
    "userId",
    "createdAt",
    "updatedAt",
    "title",
    "description",
    "duration",
    "fileSize",
    "format",
    "resolution",
    "resolutions",
    "tags",
    "category",
    "language",
    "status",
    "visibility",
    "publishAt",
    "expiresAt",
    "purgeAt",
    "metadata",
    "thumbnails",
    "viewCount",
    "version",
    "schemaVersion",
)
"""The document as clients see it, in this order."""

SUMMARY_FIELDS = (
    "videoId",
    "userId",
    "createdAt",
    "title",
    "duration",
    "format",
    "category",
    "status",
    "visibility",
    "publishAt",
    "expiresAt",
    "poster",
)
"""What a listing shows of each video: what the indexes project."""


def new_item(content: Mapping[str, Value], *, video_id: str, owner: str, created_at: int, status: str) -> Item:
    """The content of a video that does not exist yet; `stamp` makes it an item to write."""
    item: Item = {name: {} for name in MAPS} | dict(content)
    item |= {"videoId": video_id, "userId": owner, "createdAt": created_at, "status": status}
    return _normalised(item)


def stamp(item: Item, *, caller: Caller, now: int, version: int) -> Item:
    """The item as it is written: keys, index attributes, version and author made to fit its content."""
    stamped = item | {
        "version": version,
        "schemaVersion": SCHEMA_VERSION,
        "updatedAt": now,
        "updatedBy": caller.subject,
        # Tells a retry of this very write, whose first answer was lost, from somebody else's write.
        "writeId": secrets.token_hex(8),
        **VIDEO.key(videoId=item["videoId"]),
        **_relation(item),
    }
    for name, value in {
        "categoryShard": shard_of(item["videoId"]) if is_listed(item) and "category" in item else None,
        "poster": item["thumbnails"].get("poster", {}).get("url"),
        TTL_ATTRIBUTE: _purge_at(item, now),
    }.items():
        if value is None:
            stamped.pop(name, None)
        else:
            stamped[name] = value
    return stamped


def is_listed(item: Item) -> bool:
    """Whether the feed and its category list the video (publishAt and expiresAt are read when listing)."""
    return bool(item["status"] == "ready" and item["visibility"] == "public")


def _relation(item: Item) -> Item:
    video_id = item["videoId"]
    return {
        "rel": FEED if is_listed(item) else status_relation(item["status"]),
        "relShard": shard_of(video_id),
        "relSort": item["createdAt"],
        "relId": video_id,
    }


def _purge_at(item: Item, now: int) -> int | None:
    if item["status"] == "deleted":
        return int(item["deletedAt"]) + GRACE_SECONDS
    if "expiresAt" in item:
        # An import may bring a video that expired long ago: its grace begins now.
        return max(int(item["expiresAt"]), now) + GRACE_SECONDS
    return None


def patched(item: Item, patch: Mapping[str, Value]) -> Item:
    """The item with a JSON Merge Patch applied; raises IllegalTransition or InvalidContent."""
    if item["status"] == "deleted":
        raise IllegalTransition("The video is deleted; restore it first.")
    wanted = patch.get("status", item["status"])
    if wanted != item["status"] and wanted not in TRANSITIONS[item["status"]]:
        ways = " or ".join(sorted(TRANSITIONS[item["status"]]))
        raise IllegalTransition(f"A video that is {item['status']} can become {ways}, not {wanted}; or be deleted.")
    result = merge_patch(item, patch)
    for name in MAPS:
        result.setdefault(name, {})
    result = _normalised(result)
    check_content({name: _plain(result[name]) for name in VideoContent.model_fields if name in result})
    return result


def deleted(item: Item, now: int) -> Item:
    """The item as softly deleted; it keeps what it was, for `restored`. Deleting it again changes nothing."""
    if item["status"] == "deleted":
        return item
    return item | {"status": "deleted", "deletedAt": now, "statusBeforeDelete": item["status"]}


def restored(item: Item) -> Item:
    """The item as before its deletion; raises IllegalTransition when it is not deleted."""
    if item["status"] != "deleted":
        raise IllegalTransition(f"The video is {item['status']}, not deleted.")
    result = {name: value for name, value in item.items() if name not in ("deletedAt", "statusBeforeDelete")}
    return result | {"status": item["statusBeforeDelete"]}


def merge_patch(target: Value, patch: Value) -> Value:
    """JSON Merge Patch as RFC 7396, section 2, defines it."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def document(item: Item, view_count: int | None = None) -> dict[str, Any]:
    """The item as clients see it: public fields in order, sets and maps sorted.

    DynamoDB keeps no order in either, and the same video must have the same ETag each time.
    """
    found = {name: _plain(item[name]) for name in FIELDS if name in item}
    if view_count is not None:
        found["viewCount"] = view_count
    return {name: found[name] for name in FIELDS if name in found}


def summary(item: Item) -> dict[str, Any]:
    """The item as a listing shows it."""
    return {name: item[name] for name in SUMMARY_FIELDS if name in item}


def is_purged(item: Item, now: int) -> bool:
    """Whether the item only waits for DynamoDB to remove it, which takes hours or days."""
    return TTL_ATTRIBUTE in item and bool(item[TTL_ATTRIBUTE] <= now)


def is_published(item: Item, now: int) -> bool:
    """Whether everybody may see the video at this second."""
    return is_listed(item) and item.get("publishAt", 0) <= now and not item.get("expiresAt", now + 1) <= now


VISIBILITY_ATTRIBUTES = ("userId", "status", "visibility", "publishAt", "expiresAt", TTL_ATTRIBUTE)
"""What `seen_by` reads."""


def seen_by(item: Item | None, caller: Caller, now: int) -> Item:
    """The item, if the caller may see it; raises NotFound, without telling absent from hidden."""
    if item is None or is_purged(item, now) or not (caller.owns(item["userId"]) or is_published(item, now)):
        raise NotFound("There is no such video.")
    return item


def owned_by(item: Item | None, caller: Caller, now: int) -> Item:
    """The item, if the caller may change it; raises NotFound when hidden, Forbidden when somebody else's."""
    found = seen_by(item, caller, now)
    if not caller.owns(found["userId"]):
        raise Forbidden("The video is somebody else's.")
    return found


def _normalised(item: Item) -> Item:
    """Tags as a set, or absent when there are none: DynamoDB has no empty set."""
    if "tags" not in item:
        return item
    result = {name: value for name, value in item.items() if name != "tags"}
    if item["tags"]:
        result["tags"] = set(item["tags"])
    return result


def _plain(value: Value) -> Value:
    if isinstance(value, Mapping):
        return {name: _plain(value[name]) for name in sorted(value)}
    return sorted(value) if isinstance(value, set) else value
