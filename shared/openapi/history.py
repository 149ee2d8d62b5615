"""OpenAPI documentation of the operation `revertVideo`."""

from shared.core import errors
from shared.history.models import Revert
from shared.history.revert_plan import REASONS
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

TAG_DESCRIPTIONS = {"undo": "Revert videos and change sets"}
OPERATIONS: dict[str, Operation] = {
    "revertVideo": Operation(
        "Revert a video to an earlier version",
        "Restores user-written fields, the status, deletion and the poster frame field by field, under the rules "
        "of PATCH. A field that another user or a job changed since is skipped and listed in `skipped`, unless "
        "`force` covers it. Returns 410 if the audit trail does not reach that version or has only the beginning "
        "of a value.",
        {
            200: {
                "description": "The current video, or the video that a dry run would produce, without `viewCount`. Nothing is written if "
                "nothing differs",
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
    """Return the schemas of requests and responses, by name."""
    size: Schema = {"type": "integer", "minimum": 1}
    pointer: Schema = {
        "type": "string",
        "format": "json-pointer",
        "description": "JSON Pointer (RFC 6901) in the form of the audit trail; empty for the whole item",
    }
    change = object_of(
        {
            "field": pointer,
            "from": {"description": "Omitted if there was no value"},
            "to": {"description": "Omitted if there is no value"},
            "fromBytes": {**size, "description": "Size of the whole `from` as JSON in bytes, if it is truncated"},
            "toBytes": {**size, "description": "Size of the whole `to` as JSON in bytes, if it is truncated"},
        },
        optional=("from", "to", "fromBytes", "toBytes"),
    )
    skipped = object_of(
        {
            "field": pointer,
            "reason": {
                "type": "string",
                "enum": list(REASONS),
                "description": "`changedSince`: by another user or a job; `notWritable`: only the service writes it; `notKept`: "
                "truncated in the trail; `gone`: the entry's video was removed",
            },
            "by": {
                **object_of(
                    {"kind": {"type": "string", "enum": ["person", "job", "service"]}, "id": {"type": "string"}}
                ),
                "description": "Author of the latest change since",
            },
            "at": {"type": "integer", "minimum": 0, "description": "Time of that change in epoch milliseconds"},
            "version": {"type": "integer", "minimum": 1, "description": "Version after that change"},
        },
        optional=("by", "at", "version"),
    )
    reverted = object_of(
        {
            "video": ref("Video"),
            "changes": {"type": "array", "items": ref("RevertedField"), "description": "The reverted fields"},
            "omitted": {**size, "description": "Number of further changes that exceed the size of a response"},
            "skipped": {
                "type": "array",
                "items": ref("SkippedField"),
                "description": "The skipped fields, with reasons",
            },
            "dryRun": {"type": "boolean"},
        },
        optional=("omitted",),
    )
    return model_schemas(Revert) | {"RevertedField": change, "SkippedField": skipped, "RevertedVideo": reverted}
