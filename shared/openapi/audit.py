"""OpenAPI documentation of the operations of the function `history`: audit trails and diffs."""

from shared.core import errors
from shared.core.change_types import ACTIONS as ENTITIES
from shared.history.entries import ACTIONS
from shared.openapi.spec import (
    EXAMPLE_ID,
    LINK,
    PAST_ERRORS,
    Operation,
    json_content,
    object_of,
    page_of,
    ref,
)
from shared.web.parameters import Schema

ENTRY: Schema = {
    "sequence": "000000000001234567890",
    "videoId": EXAMPLE_ID,
    "entity": "video",
    "action": "changed",
    "by": {"kind": "person", "id": "user_789"},
    "correlationId": "JKJaXmPLvHcESHA=",
    "at": 1717645200000,
    "version": 3,
    "changes": [
        {"field": "/metadata/codec", "to": "h264"},
        {"field": "/title", "from": "Product Launch", "to": "Product Launch Demo"},
    ],
}
JOB_ENTRY: Schema = {
    "sequence": "000000000001234567891",
    "videoId": EXAMPLE_ID,
    "entity": "job",
    "kind": "probe",
    "action": "failed",
    "by": {"kind": "job", "id": "job:probe"},
    "correlationId": "JKJbNnPLvHcESKQ=",
    "at": 1717645260000,
    "attempt": 1,
    "changes": [{"field": "/state", "from": "running", "to": "failed"}],
}

ALWAYS = ("sequence", "entity", "action", "by", "at", "changes")
"""Properties that every audit entry has."""

PLAYLIST_ENTRY: Schema = {
    "sequence": "000000000001234567892",
    "playlistId": EXAMPLE_ID,
    "entity": "playlist",
    "action": "changed",
    "by": {"kind": "person", "id": "user_789"},
    "correlationId": "JKJcXmPLvHcESHA=",
    "at": 1717645300000,
    "version": 4,
    "changes": [
        {"field": "/entries/9b2c1f5e-7d1a-4c1e-8f43-2a5f7f0f4e11", "to": {"rank": "i", "addedAt": 1717645300}},
        {"field": "/title", "from": "Launches", "to": "All launches"},
    ],
}
DIFF: Schema = {"videoId": EXAMPLE_ID, "from": 2, "to": 5, "changes": ENTRY["changes"]}

TAG_DESCRIPTIONS = {"history": "Audit trails, diffs, change sets and the change feed"}
OPERATIONS: dict[str, Operation] = {
    "listAudit": Operation(
        "List the audit trail of a video",
        "Lists changes of a video, its jobs, credits, releases, captions, chapters and imported ratings, newest "
        "first, for its owner and admins. Entries appear seconds after a change; views, users' ratings and job "
        "progress are not recorded. Admins can also read the trail of a removed video.",
        {
            200: {
                "description": "A page of at most 1 MB; follow `nextCursor` for more",
                "headers": LINK,
                **json_content(ref("AuditPage"), {"items": [JOB_ENTRY, ENTRY], "nextCursor": None}),
            }
        },
        (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden, errors.NotFound),
    ),
    "listPlaylistAudit": Operation(
        "List the audit trail of a playlist",
        "Lists changes of a playlist, newest first, for its owner and admins. The pointer `/entries/{videoId}` "
        "names the entry of a video, whose value has its `rank`.",
        {
            200: {
                "description": "A page of at most 1 MB; follow `nextCursor` for more",
                "headers": LINK,
                **json_content(ref("AuditPage"), {"items": [PLAYLIST_ENTRY], "nextCursor": None}),
            }
        },
        (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden, errors.NotFound),
    ),
    "getDiff": Operation(
        "Compare two versions of a video",
        "Lists the fields that differ between two versions, for the owner and admins. A field that was changed "
        "and changed back is not listed. Returns 410 if the audit trail lacks a version or the whole of a value, "
        "and 503 while it lacks the newest changes.",
        {200: {"description": "The changes", **json_content(ref("VideoDiff"), DIFF)}},
        (*PAST_ERRORS,),
    ),
}


def schemas() -> Schema:
    """Return the schemas of requests and responses, by name."""
    size: Schema = {"type": "integer", "minimum": 1}
    size_if_truncated = "Size of the whole value in bytes, if only its beginning is stored"
    change = object_of(
        {
            "field": {
                "type": "string",
                "format": "json-pointer",
                "description": "JSON Pointer (RFC 6901) into the entity. `/text` of captions is a hash; `/entries/<videoId>` of a "
                "playlist is an entry with `rank` and `addedAt`",
            },
            "from": {"description": "Omitted if there was no value"},
            "to": {"description": "Omitted if there is no value"},
            "fromBytes": {**size, "description": size_if_truncated},
            "toBytes": {**size, "description": size_if_truncated},
        },
        optional=("from", "to", "fromBytes", "toBytes"),
    )
    without_sizes = object_of(
        {name: change["properties"][name] for name in ("field", "from", "to")}, optional=("from", "to")
    )
    properties: Schema = {
        "sequence": {"type": "string", "description": "Increases with every change of the video or playlist"},
        "videoId": {"type": "string", "format": "uuid"},
        "playlistId": {"type": "string", "format": "uuid", "description": "The playlist, instead of `videoId`"},
        "entity": {"type": "string", "enum": list(ENTITIES)},
        "personId": {"type": "string", "description": "The person of a credit"},
        "region": {"type": "string", "description": "The region of a release"},
        "language": {"type": "string", "description": "The language of captions, or of a release if it has one"},
        "kind": {"type": "string", "description": "The kind of a job, such as `probe`"},
        "action": {
            "type": "string",
            "enum": list(ACTIONS),
            "description": "`expired`: deleted automatically after its expiry; `removed`: deleted by a user, a job or the service",
        },
        "by": {
            **object_of({"kind": {"type": "string", "enum": ["person", "job", "service"]}, "id": {"type": "string"}}),
            "description": "The subject of a token, a job of the service, or the database",
        },
        "correlationId": {
            "type": "string",
            "description": "The id of the request that caused the change or the job, as in its response and logs. Omitted if no "
            "request caused it",
        },
        "at": {"type": "integer", "minimum": 0, "description": "Epoch milliseconds"},
        "version": {
            "type": "integer",
            "minimum": 1,
            "description": "The version of the entity after the change",
        },
        "attempt": {"type": "integer", "minimum": 1, "description": "The attempt of the job"},
        "changes": {"type": "array", "items": change},
        "omitted": {**size, "description": "Number of further changes that exceed the size of an entry"},
    }
    return {
        "AuditEntry": object_of(properties, optional=[name for name in properties if name not in ALWAYS]),
        "AuditPage": page_of("AuditEntry"),
        "VideoDiff": object_of(
            {
                "videoId": {"type": "string", "format": "uuid"},
                "from": {"type": "integer", "minimum": 1},
                "to": {"type": "integer", "minimum": 1},
                "changes": {"type": "array", "items": without_sizes},
            }
        ),
    }
