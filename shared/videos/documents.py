"""A video as clients see it: the document, and the summary in lists."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from shared.core.attributes import Item, Value
from shared.core.caller import UPDATED_FOR, Caller
from shared.video_fields import VIDEO_FIELDS

if TYPE_CHECKING:
    from shared.core.changes import Change

FIELDS = tuple(field.name for field in VIDEO_FIELDS if field.is_shown)
"""The document as clients see it, in this order."""

SUMMARY_FIELDS = tuple(field.name for field in VIDEO_FIELDS if field.projected and not field.is_private)
"""What a listing shows of each video: what the indexes project."""

OWNER_FIELDS = tuple(field.name for field in VIDEO_FIELDS if field.is_private)
"""What only a video's owner and admins are shown."""

PLAYING_FIELDS = ("renditions", "playback")
"""What others are shown in place of `resolutions`, if there are any: what can be played, and where."""

READ = (*(name for name in FIELDS if name != "viewCount"), "pictures")
"""The attributes of an item that its document, and who may see it, follow from; an item has a third more."""

MADE_IN = {"thumbnails": "pictures", "resolutions": "source"}
"""What jobs made is shown in the same fields as what people wrote: in which attributes it is, by the field."""

MAPS = tuple(field.name for field in VIDEO_FIELDS if field.is_map)
"""Stored even when empty, so that an update can set a single entry."""

INTERNAL = frozenset(
    {
        *("pk", "sk", "videoId", "schemaVersion", "version", "writeId", "updatedAt", "updatedBy", "updatedAs"),
        UPDATED_FOR,
        *("rel", "relShard", "relSort", "relId", "categoryShard", "poster", "deletedAt", "statusBeforeDelete"),
        "importDigest",
    }
)
"""Attributes of a video that say nothing of their own. All others are audited, also those that are yet to come."""

_UNORDERED = frozenset({dict, set})
"""What DynamoDB keeps no order in; a call for each of the other values would be most of a document's time."""

SOURCE_FIELDS = ("uploadId", "contentType", "fileSize", "arrivedAt")
"""What is shown of a source."""


def document(item: Item, view_count: int | None = None) -> dict[str, Any]:
    """The item as clients see it: public fields in order, sets and maps sorted.

    DynamoDB keeps no order in either, and the same video must have the same ETag each time.
    """
    whole = item if view_count is None else {**item, "viewCount": view_count}
    shown = {
        name: plain(value) if type(value := whole[name]) in _UNORDERED else value for name in FIELDS if name in whole
    }
    # These have their places already, which they keep.
    for field, made in made_by_jobs(item).items():
        if made and field in shown:
            shown[field] = plain({**made, **item[field]})
    if "source" in shown:
        shown["source"] = {name: item["source"][name] for name in SOURCE_FIELDS}
    return shown


def document_for(caller: Caller, item: Item, view_count: int) -> dict[str, Any]:
    """The document as GET shows it to a caller who may see the video."""
    whole = document(item, view_count)
    if not caller.owns(item["userId"]):
        whole |= _playing(item)
        # Strangers see no dates of what they could not see then, and nothing of how it was made.
        for name in OWNER_FIELDS:
            whole.pop(name, None)
    return whole


def _playing(item: Item) -> dict[str, Any]:
    """The PLAYING_FIELDS; the size of a rendition is known if a transcoder has reported it."""
    addresses, source = with_made(item)["resolutions"], item.get("source", {})
    if not addresses or "videoId" not in item:  # without its id only other fields of the item were asked for
        return {}
    made, sizes = source.get("made", {}), source.get("sizes", {})
    return {
        "renditions": {
            name: {"size": sizes[name]} if name in sizes and made.get(name) == addresses[name] else {}
            for name in sorted(addresses)
        },
        "playback": f"/v1/videos/{item['videoId']}/playback",
    }


def summary(item: Item, fields: Sequence[str] = ()) -> dict[str, Any]:
    """The item as a listing shows it, or only these fields of that."""
    return {name: item[name] for name in fields or SUMMARY_FIELDS if name in item}


def made_by_jobs(item: Item) -> dict[str, Item]:
    """What jobs made, by the field in which it is shown beside what people wrote."""
    return {"thumbnails": item.get("pictures", {}), "resolutions": item.get("source", {}).get("made", {})}


def with_made(item: Item) -> dict[str, Item]:
    """The fields as they are shown: people's entries come before those of jobs."""
    return {field: {**made, **item.get(field, {})} for field, made in made_by_jobs(item).items()}


def plain(value: Value) -> Value:
    """The value as JSON can write it, with maps and sets in order."""
    if isinstance(value, dict):
        return {name: plain(member) if type(member := value[name]) in _UNORDERED else member for name in sorted(value)}
    return sorted(value) if isinstance(value, set) else value


def audited(item: Item) -> Item:
    """What of an item the audit trail follows: all but INTERNAL."""
    return {name: value for name, value in item.items() if name not in INTERNAL}


def changes(old: Item, new: Item) -> Iterator["Change"]:
    """What differs between two versions of a video as it is stored; of none at all, {}."""
    from shared.core.changes import changes_between  # most requests need none

    return changes_between(audited(old), audited(new), always=MAPS)


def digest(item: Item) -> str:
    """Stands for all that the audit trail follows of a video, so that who goes back along it knows whether all was there."""
    from shared.core.changes import digest_of

    return digest_of({name: value for name, value in audited(item).items() if value != {} or name not in MAPS})
