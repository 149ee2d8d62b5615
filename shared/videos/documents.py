"""Representations of a video for clients: the document, and the summary in lists."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shared.core.attributes import Item, Value
from shared.core.caller import UPDATED_FOR, Caller
from shared.video_fields import VIDEO_FIELDS

if TYPE_CHECKING:
    from shared.core.changes import Change
    from shared.entities import AnyVideo

FIELDS = tuple(field.name for field in VIDEO_FIELDS if field.is_shown)
"""Names of the fields of a video's document, in order."""

SUMMARY_FIELDS = tuple(field.name for field in VIDEO_FIELDS if field.projected and not field.is_private)
"""Names of the fields of a video's summary. The indexes project these attributes."""

OWNER_FIELDS = tuple(field.name for field in VIDEO_FIELDS if field.is_private)
"""Names of the fields that only the owner and admins see."""

PLAYING_FIELDS = ("renditions", "playback")
"""Fields that callers other than the owner and admins see instead of `resolutions`: the renditions, and the URL of the
operation that plays the video. They are absent if there are no renditions."""

READ = (*(name for name in FIELDS if name != "viewCount"), "pictures")
"""Names of the attributes that documents and access checks need. They make up about three quarters of an item's
size."""

JOB_ATTRIBUTES = {"thumbnails": "pictures", "resolutions": "source"}
"""Maps document fields to the attributes that store the output of jobs. In a document, such a field contains the output
of jobs, merged with the entries that users wrote."""

MAPS = tuple(field.name for field in VIDEO_FIELDS if field.is_map)
"""Names of the attributes that are maps. Empty maps are also stored, so that an update can set a single entry."""

INTERNAL = frozenset(
    {
        *("pk", "sk", "videoId", "schemaVersion", "version", "writeId", "updatedAt", "updatedBy", "updatedAs"),
        UPDATED_FOR,
        *(
            "rel",
            "relShard",
            "relSort",
            "relId",
            "categoryShard",
            "orderBy",
            "orderValue",
            "poster",
            "deletedAt",
            "statusBeforeDelete",
        ),
        "importDigest",
    }
)
"""Bookkeeping attributes of a video. The audit trail records all other attributes, including attributes that are added
in the future."""

_UNORDERED = frozenset({dict, set})
"""Types of values that DynamoDB stores unordered.

Only values of these types need a call of `to_json_value`. A call for every value would dominate the cost of a document.
"""

SOURCE_FIELDS = ("uploadId", "contentType", "fileSize", "arrivedAt")
"""Fields of the object `source` in a document. Other attributes of a stored source are internal."""


def document(item: "AnyVideo", view_count: int | None = None) -> dict[str, Any]:
    """Return the document of a video as the owner sees it. Its fields are in the order of FIELDS, and maps and sets are
    sorted.

    DynamoDB does not preserve the order of maps and sets, but the ETag of an unchanged video must not change.
    """
    whole: Mapping[str, Value] = item if view_count is None else {**item, "viewCount": view_count}
    shown = {
        name: to_json_value(value) if type(value := whole[name]) in _UNORDERED else value
        for name in FIELDS
        if name in whole
    }
    # These fields are in the document already, so assignment preserves the field order.
    for field, output in job_output(item).items():
        if output and field in shown:
            shown[field] = to_json_value({**output, **whole[field]})
    if "source" in shown:
        shown["source"] = {name: shown["source"][name] for name in SOURCE_FIELDS}
    return shown


def document_for(caller: Caller, item: "AnyVideo", view_count: int) -> dict[str, Any]:
    """Return the document of a video for a caller who may see it. Callers other than the owner and admins see fewer
    fields."""
    whole = document(item, view_count)
    if not caller.owns(item["userId"]):
        whole |= _playing(item)
        # Other callers see neither dates from before the publication nor details of the processing.
        for name in OWNER_FIELDS:
            whole.pop(name, None)
    return whole


def _playing(item: "AnyVideo") -> dict[str, Any]:
    """Return the PLAYING_FIELDS; empty if there are no renditions.

    A rendition has a `size` only if the transcoder reported it.
    """
    addresses, source = with_job_output(item)["resolutions"], item.get("source", {})
    if not addresses or "videoId" not in item:  # `videoId` is not read if the caller requested only other fields
        return {}
    uris, sizes = source.get("made", {}), source.get("sizes", {})
    return {
        "renditions": {
            name: {"size": sizes[name]} if name in sizes and uris.get(name) == addresses[name] else {}
            for name in sorted(addresses)
        },
        "playback": f"/v1/videos/{item['videoId']}/playback",
    }


def summary(item: Mapping[str, Value], fields: Sequence[str] = ()) -> dict[str, Any]:
    """Return the summary of a video, as lists show it. If `fields` is not empty, the summary has only these fields."""
    return {name: item[name] for name in fields or SUMMARY_FIELDS if name in item}


def job_output(item: "AnyVideo") -> dict[str, Item]:
    """Return the output of jobs. Maps each document field in JOB_ATTRIBUTES to the entries that jobs created, by
    name."""
    return {"thumbnails": item.get("pictures", {}), "resolutions": item.get("source", {}).get("made", {})}


def with_job_output(item: "AnyVideo") -> dict[str, Item]:
    """Return the document fields of JOB_ATTRIBUTES: the output of jobs, merged with the entries that users wrote.

    A user's entry overrides a job's entry of the same name.
    """
    written: Mapping[str, Value] = item
    return {field: {**output, **written.get(field, {})} for field, output in job_output(item).items()}


def to_json_value(value: Value) -> Value:
    """Return the value as JSON-serialisable types, with maps and sets sorted."""
    if isinstance(value, dict):
        return {
            name: to_json_value(member) if type(member := value[name]) in _UNORDERED else member
            for name in sorted(value)
        }
    return sorted(value) if isinstance(value, set) else value


def audited(item: "AnyVideo") -> Item:
    """Return the attributes of a video that the audit trail records: all except INTERNAL."""
    return {name: value for name, value in item.items() if name not in INTERNAL}


def changes(old: "AnyVideo", new: "AnyVideo") -> Iterator["Change"]:
    """Return the audited changes from the item `old` to the item `new`. Pass `{}` for a video that does not exist."""
    from shared.core.changes import changes_between  # few requests need this

    return changes_between(audited(old), audited(new), always=MAPS)


def digest(item: "AnyVideo") -> str:
    """Return a hash of a video's audited attributes. Readers of the audit trail compare hashes to detect missing
    entries."""
    from shared.core.changes import digest_of

    return digest_of({name: value for name, value in audited(item).items() if value != {} or name not in MAPS})
