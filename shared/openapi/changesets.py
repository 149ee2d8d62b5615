"""The operations on change sets."""

from shared.core import errors
from shared.core.change_types import ACTIONS as ENTITIES
from shared.history.models import NewRevert
from shared.history.outcome import RESULTS
from shared.history.parts import MOST_NAMED
from shared.history.runs import COUNTS, DAYS_KEPT, DONE, RUNNING
from shared.history.undoing import AT_ONCE
from shared.openapi.audit import ENTRY
from shared.openapi.history import REVERTED
from shared.openapi.spec import (
    BODY_ERRORS,
    EXAMPLE_ID,
    LINK,
    NEXT_CURSOR,
    Operation,
    json_content,
    model_schemas,
    object_of,
    ref,
)
from shared.web.parameters import LONGEST_CORRELATION_ID, Schema

_ID: Schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_CORRELATION_ID, "pattern": "^[!-~]+$"}
PATH_PARAMETERS: dict[str, Schema] = {
    "changesetId": {
        "description": "The `correlationId` of its entries in the audit trail: the id of the request that wrote them, or of the run "
        "of an import",
        "schema": _ID,
        "example": ENTRY["correlationId"],
    },
    "revertId": {
        "description": "The id of the request that asked for it, which is also the change set of all that the run writes",
        "schema": _ID,
        "example": "JKJdRhPLvHcESJw=",
    },
}
_REPORT: Schema = {
    "changesetId": PATH_PARAMETERS["changesetId"]["example"],
    "revertId": PATH_PARAMETERS["revertId"]["example"],
    "dryRun": False,
    "state": DONE,
    "examined": 2,
    "reverted": 1,
    "unchanged": 0,
    "skipped": 1,
    "failed": 0,
    "waiting": 0,
    "items": [
        {
            "entity": "video",
            "videoId": EXAMPLE_ID,
            "result": "reverted",
            "fields": ["/title"],
            "skipped": REVERTED["skipped"],
        },
        {
            "entity": "credit",
            "videoId": EXAMPLE_ID,
            "personId": "nm0000138",
            "result": "skipped",
            "fields": [],
            "skipped": [REVERTED["skipped"][0] | {"field": "/ordering"}],
        },
    ],
    "nextCursor": None,
}
_BEGUN: Schema = _REPORT | dict.fromkeys(COUNTS, 0) | {"state": RUNNING, "items": []}
_REPORTED: Schema = _REPORT | {"examined": 3200, "reverted": 3199}

OPERATIONS: dict[str, Operation] = {
    "getChangeset": Operation(
        "List what a change set wrote",
        "All that one request, or one run of an import, wrote: entries of the audit trail, those of one video or playlist "
        "together, the newest first. Admins see all of it, others what belongs to their own videos and playlists. A change is "
        "listed some seconds after it was made; what the service's jobs did because of it is not listed. A page is short when "
        "its entries are large (1 MB in all), or when most of the set is other people's, and `nextCursor` still leads on. 404 when "
        "there is nothing to see.",
        {
            200: {
                "description": "A page",
                "headers": LINK,
                **json_content(ref("AuditPage"), {"items": [ENTRY], "nextCursor": None}),
            }
        },
        (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden, errors.NotFound),
    ),
    "revertChangeset": Operation(
        "Take a change set back",
        "Each video and playlist that it wrote, and all that lies beside a video, gets back what it had, field by field: what "
        "the set created goes, and what it deleted or removed returns. A field that anybody changed since is left alone and "
        "named in `skipped`, unless `force` covers it. Captions come back whole, as `/text`. Admins take back all of it, others what belongs to their own videos and playlists; "
        f"imported ratings are for admins. A set of at most {AT_ONCE} entries is taken back at once. A larger one is taken back in "
        "the background, and `Location` says where to ask how far that is. All that is written has the `revertId` as "
        "its `correlationId`, so it can be taken back in turn. A second time nothing is written. Only what the trail has "
        "by now is taken back. 503 when it lacks the newest changes of something: then nothing was written.",
        {
            200: {
                "description": "What became of each part",
                **json_content(ref("ChangesetRevert"), _REPORT),
            },
            202: {
                "description": "Begun",
                "headers": {
                    "Location": {
                        "description": "The run, relative to this request's URL",
                        "schema": {"type": "string", "format": "uri-reference"},
                    }
                },
                **json_content(ref("ChangesetRevert"), _BEGUN),
            },
        },
        (*BODY_ERRORS, errors.InvalidParameter, errors.Forbidden, errors.NotFound, errors.TrailBehind),
        body={"required": False, **json_content(ref("NewRevert"), {"force": ["/title"]})},
    ),
    "getRevert": Operation(
        "Ask how far a change set is taken back",
        "For who asked for it, and admins. `items` are the parts of which something was left alone, and those that failed; what "
        f"came back is the change set `revertId`. Known for {DAYS_KEPT} days.",
        {200: {"description": "The run", "headers": LINK, **json_content(ref("ChangesetRevert"), _REPORTED)}},
        (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden, errors.NotFound),
    ),
}


def schemas() -> Schema:
    """The schemas of these operations."""
    text: Schema = {"type": "string"}
    uuid: Schema = {"type": "string", "format": "uuid"}
    pointers: Schema = {"type": "array", "items": {"type": "string", "format": "json-pointer"}, "maxItems": MOST_NAMED}
    part = object_of(
        {
            "entity": {"type": "string", "enum": [name for name in ENTITIES if name != "job"]},
            "videoId": uuid,
            "personId": text,
            "region": text,
            "language": text,
            "playlistId": uuid,
            "result": {
                "type": "string",
                "enum": list(RESULTS),
                "description": "`reverted`: something came back, though perhaps not everything; `unchanged`: all is as it was "
                "before the set already; `skipped`: all that could come back was changed since; `failed`: see `problem`",
            },
            "fields": pointers | {"description": "What came back, or would; an empty pointer is the whole"},
            "skipped": {
                "type": "array",
                "items": ref("SkippedField"),
                "maxItems": MOST_NAMED,
                "description": "What was left alone, and why",
            },
            "omitted": {
                "type": "integer",
                "minimum": 1,
                "description": "How many more fields there are than are named",
            },
            "problem": ref("Problem"),
        },
        optional=("videoId", "personId", "region", "language", "playlistId", "omitted", "problem"),
    )
    counts = {
        "examined": "Entries of the set that were looked at",
        "reverted": "Parts of which something came back",
        "unchanged": "Parts with nothing to take back",
        "skipped": "Parts that were left alone altogether",
        "failed": "Parts that cannot be taken back",
        "waiting": "Parts that are tried again: the trail lacks their newest changes, or others are writing them",
    }
    report = object_of(
        {
            "changesetId": text,
            "revertId": text,
            "dryRun": {"type": "boolean"},
            "state": {"type": "string", "enum": [RUNNING, DONE]},
            **{name: {"type": "integer", "minimum": 0, "description": counts[name]} for name in COUNTS},
            "items": {"type": "array", "items": ref("RevertedPart")},
            "nextCursor": NEXT_CURSOR,
        }
    )
    return model_schemas(NewRevert) | {"RevertedPart": part, "ChangesetRevert": report}
