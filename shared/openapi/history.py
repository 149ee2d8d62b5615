"""The operations of the function `undo`."""

from shared.core import errors
from shared.history.models import Revert
from shared.history.plan import REASONS
from shared.openapi.spec import (
    BODY_ERRORS,
    CHANGE_ERRORS,
    ETAG,
    IF_MATCH,
    Operation,
    json_content,
    model_schemas,
    object_of,
    ref,
)
from shared.openapi.videos import VIDEO
from shared.web.parameters import Schema

REVERTED: Schema = {
    "video": {name: value for name, value in VIDEO.items() if name != "viewCount"} | {"version": 5},
    "changes": [{"field": "/title", "from": "Lunch Demo", "to": "Product Launch Demo"}],
    "skipped": [
        {
            "field": "/tags",
            "reason": "changedSince",
            "by": {"kind": "person", "id": "editor_12"},
            "at": 1717645260000,
            "version": 4,
        }
    ],
    "dryRun": False,
}

OPERATIONS: dict[str, Operation] = {
    "revertVideo": Operation(
        "Set a video back to an earlier version",
        "What differs from that version is set back, field by field: what people write, the status, whether the video is "
        "deleted, and the moment of the poster, which makes a new one. It is an ordinary change, under the same rules as "
        "a PATCH. A field that somebody else, or a job, changed since is left alone and named in `skipped`, unless "
        "`force` covers it. What the service itself makes, such as pictures, stays. With nothing to set back, nothing is "
        "written, so that a retry does no harm. The past is read from the audit trail: 410 when it does not go back that "
        "far, or has only the beginning of a value, and 503 while the newest changes are not in it yet.",
        {
            200: {
                "description": "The video as it is now, or would be, without `viewCount`",
                "headers": {"ETag": ETAG},
                **json_content(ref("RevertedVideo"), REVERTED),
            }
        },
        (
            *BODY_ERRORS,
            *CHANGE_ERRORS,
            errors.IllegalTransition,
            errors.LimitReached,
            errors.Gone,
            errors.QuotaExceeded,
            errors.TrailBehind,
        ),
        (IF_MATCH,),
        {"required": True, **json_content(ref("Revert"), {"toVersion": 3, "fields": ["/title", "/metadata/codec"]})},
    ),
}


def schemas() -> Schema:
    """The schemas of requests and answers, by name."""
    size: Schema = {"type": "integer", "minimum": 1}
    pointer: Schema = {
        "type": "string",
        "format": "json-pointer",
        "description": "JSON Pointer (RFC 6901), as the audit trail names fields; empty for the whole",
    }
    change = object_of(
        {
            "field": pointer,
            "from": {"description": "Left out when there was nothing"},
            "to": {"description": "Left out when nothing remains"},
            "fromBytes": {**size, "description": "Bytes of the whole `from` as JSON, when it is cut"},
            "toBytes": {**size, "description": "Bytes of the whole `to` as JSON, when it is cut"},
        },
        optional=("from", "to", "fromBytes", "toBytes"),
    )
    skipped = object_of(
        {
            "field": pointer,
            "reason": {
                "type": "string",
                "enum": list(REASONS),
                "description": "`changedSince`: by somebody else; `notWritable`: only the service writes it; `notKept`: the "
                "trail has only the beginning of what it was; `gone`: the video of a playlist's entry is removed for good",
            },
            "by": {
                **object_of(
                    {"kind": {"type": "string", "enum": ["person", "job", "service"]}, "id": {"type": "string"}}
                ),
                "description": "Who changed it last since",
            },
            "at": {"type": "integer", "minimum": 0, "description": "Epoch milliseconds of that change"},
            "version": {"type": "integer", "minimum": 1, "description": "The version that the change made"},
        },
        optional=("by", "at", "version"),
    )
    reverted = object_of(
        {
            "video": ref("Video"),
            "changes": {"type": "array", "items": ref("RevertedField"), "description": "What was set back"},
            "omitted": {**size, "description": "How many more changes there were than an answer can hold"},
            "skipped": {"type": "array", "items": ref("SkippedField"), "description": "What was left alone, and why"},
            "dryRun": {"type": "boolean"},
        },
        optional=("omitted",),
    )
    return model_schemas(Revert) | {"RevertedField": change, "SkippedField": skipped, "RevertedVideo": reverted}
