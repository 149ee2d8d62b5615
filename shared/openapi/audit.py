"""The operations of the function `history`."""

from shared.audit import ACTIONS
from shared.core import errors
from shared.openapi.spec import (
    EXAMPLE_ID,
    LINK,
    VIDEO_ID,
    Operation,
    json_content,
    object_of,
    page_of,
    query,
    ref,
)
from shared.queries import ListAudit
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

OPERATIONS: dict[str, Operation] = {
    "listAudit": Operation(
        "List the changes of a video",
        "Who changed what in a video and its jobs, newest first, for its owner and admins; admins can also read this for "
        "a video that is gone. A change is listed some seconds after it was made. Views and the progress of jobs are not "
        "listed. A page is short when its entries are large (1 MB in all), and `nextCursor` still leads on.",
        {
            200: {
                "description": "A page",
                "headers": LINK,
                **json_content(ref("AuditPage"), {"items": [JOB_ENTRY, ENTRY], "nextCursor": None}),
            }
        },
        (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden, errors.NotFound),
        (
            VIDEO_ID,
            *query(ListAudit),
        ),
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
                "description": "JSON Pointer (RFC 6901) into the video",
            },
            "from": {"description": "Left out when there was nothing"},
            "to": {"description": "Left out when nothing remained"},
            "fromBytes": {**size, "description": cut},
            "toBytes": {**size, "description": cut},
        },
        optional=("from", "to", "fromBytes", "toBytes"),
    )
    properties: Schema = {
        "sequence": {"type": "string", "description": "Grows from one change of the video to the next"},
        "videoId": {"type": "string", "format": "uuid"},
        "entity": {"type": "string", "enum": ["video", "job"]},
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
        "version": {"type": "integer", "minimum": 1, "description": "Of the video, after the change"},
        "attempt": {"type": "integer", "minimum": 1, "description": "Of the job"},
        "changes": {"type": "array", "items": change},
        "omitted": {**size, "description": "How many more changes there were than an entry can hold"},
    }
    return {
        "AuditEntry": object_of(properties, optional=("kind", "correlationId", "version", "attempt", "omitted")),
        "AuditPage": page_of("AuditEntry"),
    }
