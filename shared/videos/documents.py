"""A video as clients see it: the document, and the summary in lists."""

from collections.abc import Mapping
from typing import Any

from shared.core.attributes import Item, Value
from shared.core.caller import Caller
from shared.schema import TTL_ATTRIBUTE

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
    "videoCodec",
    "audioCodec",
    "frameRate",
    "origins",
    "resolutions",
    "tags",
    "category",
    "releaseYear",
    "language",
    "seriesId",
    "season",
    "episode",
    "status",
    "visibility",
    "publishAt",
    "expiresAt",
    "purgeAt",
    "metadata",
    "thumbnails",
    "source",
    "failure",
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

OWNER_FIELDS = (TTL_ATTRIBUTE, "source", "failure")
"""What only a video's owner and admins are shown."""

SOURCE_FIELDS = ("uploadId", "contentType", "fileSize", "arrivedAt")
"""What is shown of a source."""


def document(item: Item, view_count: int | None = None) -> dict[str, Any]:
    """The item as clients see it: public fields in order, sets and maps sorted.

    DynamoDB keeps no order in either, and the same video must have the same ETag each time.
    """
    shown = {name: plain(item[name]) for name in FIELDS if name in item}
    shown |= {field: plain(entries) for field, entries in with_made(item).items() if field in item}
    if "source" in item:
        shown["source"] = {name: item["source"][name] for name in SOURCE_FIELDS}
    if view_count is not None:
        shown["viewCount"] = view_count
    return {name: shown[name] for name in FIELDS if name in shown}


def document_for(caller: Caller, item: Item, view_count: int) -> dict[str, Any]:
    """The document as GET shows it to a caller who may see the video."""
    whole = document(item, view_count)
    if not caller.owns(item["userId"]):
        # Strangers see no dates of what they could not see then, and nothing of how it was made.
        for name in OWNER_FIELDS:
            whole.pop(name, None)
    return whole


def summary(item: Item) -> dict[str, Any]:
    """The item as a listing shows it."""
    return {name: item[name] for name in SUMMARY_FIELDS if name in item}


def made_by_jobs(item: Item) -> dict[str, Item]:
    """What jobs made, by the field in which it is shown beside what people wrote."""
    return {"thumbnails": item.get("pictures", {}), "resolutions": item.get("source", {}).get("made", {})}


def with_made(item: Item) -> dict[str, Item]:
    """The fields as they are shown: people's entries come before those of jobs."""
    return {field: {**made, **item.get(field, {})} for field, made in made_by_jobs(item).items()}


def plain(value: Value) -> Value:
    """The value as JSON can write it, with maps and sets in order."""
    if isinstance(value, Mapping):
        return {name: plain(value[name]) for name in sorted(value)}
    return sorted(value) if isinstance(value, set) else value
