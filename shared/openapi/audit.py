"""The operations of the function `history`."""

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
"""What every entry has."""

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

OPERATIONS: dict[str, Operation] = {
    "listAudit": Operation(
        "List the changes of a video",
        "Who changed what in a video, its jobs, credits, releases, captions, chapters and imported ratings, newest first, for "
        "its owner and admins; admins can also read this for a video that is gone. A change is listed some seconds after it was made. "
        "Views, ratings of users and the progress of jobs are not listed. A page is short when its entries are large (1 MB in all), and `nextCursor` still leads on.",
        {
            200: {
                "description": "A page",
                "headers": LINK,
                **json_content(ref("AuditPage"), {"items": [JOB_ENTRY, ENTRY], "nextCursor": None}),
            }
        },
        (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden, errors.NotFound),
    ),
    "listPlaylistAudit": Operation(
        "List the changes of a playlist",
        "Who changed what in a playlist, newest first, for its owner and admins, as for a video. `/entries/{videoId}` is the "
        "place of a video in it, with its `rank`.",
        {
            200: {
                "description": "A page",
                "headers": LINK,
                **json_content(ref("AuditPage"), {"items": [PLAYLIST_ENTRY], "nextCursor": None}),
            }
        },
        (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden, errors.NotFound),
    ),
    "getDiff": Operation(
        "Compare two versions of a video",
        "What differs between two versions, for its owner and admins: what was changed and changed back is not listed. "
        "410 when the audit trail does not go back that far, or has only the beginning of a value; 503 while it does not "
        "have the newest changes yet.",
        {200: {"description": "The changes", **json_content(ref("VideoDiff"), DIFF)}},
        (*PAST_ERRORS,),
    ),
}


def schemas() -> Schema:
    """The schemas of these operations."""
    size: Schema = {"type": "integer", "minimum": 1}
    cut = "Bytes of the whole value, when only its beginning is kept"
    change = object_of(
        {
            "field": {
                "type": "string",
                "format": "json-pointer",
                "description": "JSON Pointer (RFC 6901) into the video, or what lies beside it; of captions "
                "`/text` is a hash of what they say; of a playlist `/entries/<videoId>` is an entry, which has `rank` and `addedAt`",
            },
            "from": {"description": "Left out when there was nothing"},
            "to": {"description": "Left out when nothing remained"},
            "fromBytes": {**size, "description": cut},
            "toBytes": {**size, "description": cut},
        },
        optional=("from", "to", "fromBytes", "toBytes"),
    )
    without_cuts = object_of(
        {name: change["properties"][name] for name in ("field", "from", "to")}, optional=("from", "to")
    )
    properties: Schema = {
        "sequence": {"type": "string", "description": "Grows from one change of the video to the next"},
        "videoId": {"type": "string", "format": "uuid"},
        "playlistId": {"type": "string", "format": "uuid", "description": "Of a playlist, in place of `videoId`"},
        "entity": {"type": "string", "enum": list(ENTITIES)},
        "personId": {"type": "string", "description": "Of a credit"},
        "region": {"type": "string", "description": "Of a release"},
        "language": {"type": "string", "description": "Of captions, and of a release that has one"},
        "kind": {"type": "string", "description": "Of a job, such as `probe`"},
        "action": {
            "type": "string",
            "enum": list(ACTIONS),
            "description": "`expired`: removed by itself when its time had come; `removed`: by somebody else",
        },
        "by": {
            **object_of({"kind": {"type": "string", "enum": ["person", "job", "service"]}, "id": {"type": "string"}}),
            "description": "The subject of a token, a job of the service, or the database",
        },
        "correlationId": {
            "type": "string",
            "description": "The id of the request that the change was made for, as its answer and the service's logs have "
            "it; of a job, the request that wanted the job. Left out when no request asked for it",
        },
        "at": {"type": "integer", "minimum": 0, "description": "Epoch milliseconds"},
        "version": {
            "type": "integer",
            "minimum": 1,
            "description": "Of the video, credit, release, captions, chapters or playlist, after the change",
        },
        "attempt": {"type": "integer", "minimum": 1, "description": "Of the job"},
        "changes": {"type": "array", "items": change},
        "omitted": {**size, "description": "How many more changes there were than an entry can hold"},
    }
    return {
        "AuditEntry": object_of(properties, optional=[name for name in properties if name not in ALWAYS]),
        "AuditPage": page_of("AuditEntry"),
        "VideoDiff": object_of(
            {
                "videoId": {"type": "string", "format": "uuid"},
                "from": {"type": "integer", "minimum": 1},
                "to": {"type": "integer", "minimum": 1},
                "changes": {"type": "array", "items": without_cuts},
            }
        ),
    }
