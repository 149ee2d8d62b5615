"""OpenAPI documentation of the operations on change sets and on moves of folders."""

from shared.core import errors
from shared.core.change_types import ACTIONS as ENTITIES
from shared.history.changeset_reverts import MAX_ENTRIES_INLINE
from shared.history.models import NewFolderMove, NewRevert
from shared.history.outcome import RESULTS
from shared.history.parts import MAX_NAMED
from shared.history.revert_runs import COUNTS, DAYS_KEPT, DONE, RUNNING
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
from shared.web.parameters import FOLDER_SCHEMA, LONGEST_CORRELATION_ID, Schema

_ID: Schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_CORRELATION_ID, "pattern": "^[!-~]+$"}
PATH_PARAMETERS: dict[str, Schema] = {
    "changesetId": {
        "description": "The `correlationId` of its audit entries: the id of the request or of the import run",
        "schema": _ID,
        "example": ENTRY["correlationId"],
    },
    "moveId": {
        "description": "The id of the request that started the move, which is also the change set of everything that it writes",
        "schema": _ID,
        "example": "JKJdRhPLvHcESJw=",
    },
    "revertId": {
        "description": "The id of the revert request, which is also the change set of everything that it writes",
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

_MOVE: Schema = {
    "moveId": PATH_PARAMETERS["moveId"]["example"],
    "userId": "user_789",
    "folder": "clients/acme",
    "to": "archive/acme",
    "state": RUNNING,
    "moved": 0,
    "failed": 0,
    "waiting": 0,
    "items": [],
    "nextCursor": None,
}

OPERATIONS: dict[str, Operation] = {
    "moveFolder": Operation(
        "Move or rename a folder",
        "Sets `folder` of all videos in the folder and its subfolders, in the background; poll `Location` for the status. Videos "
        "that are added in the meantime also move. Neither path may contain the other. To undo the move, revert the "
        "change set `moveId`.",
        {
            202: {
                "description": "Started",
                "headers": {
                    "Location": {
                        "description": "The status of the move, relative to this request's URL",
                        "schema": {"type": "string", "format": "uri-reference"},
                    }
                },
                **json_content(ref("FolderMove"), _MOVE),
            }
        },
        (*BODY_ERRORS, errors.InvalidParameter, errors.Forbidden, errors.NotFound),
        body={"required": True, **json_content(ref("NewFolderMove"), {"folder": "clients/acme", "to": "archive/acme"})},
    ),
    "getFolderMove": Operation(
        "Get the status of a move of a folder",
        f"Visible to the requester and to admins for {DAYS_KEPT} days. `items` lists the videos that cannot be moved.",
        {
            200: {
                "description": "The status of the move",
                "headers": LINK,
                **json_content(ref("FolderMove"), _MOVE | {"state": DONE, "moved": 42}),
            }
        },
        (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden, errors.NotFound),
    ),
    "getChangeset": Operation(
        "List the changes of a change set",
        "Lists the audit entries of one request or import run, grouped by video or playlist, newest first. Admins "
        "see all entries, other users only entries of items that they own. Entries appear seconds after "
        "a change; consequent changes by jobs are not included.",
        {
            200: {
                "description": "A page of at most 1 MB; it may be short, so follow `nextCursor` for more",
                "headers": LINK,
                **json_content(ref("AuditPage"), {"items": [ENTRY], "nextCursor": None}),
            }
        },
        (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden, errors.NotFound),
    ),
    "revertChangeset": Operation(
        "Revert a change set",
        "Restores the previous values field by field: items the set created are deleted; items it deleted are "
        "restored. Fields changed since are skipped and listed in `skipped`, unless `force` covers them. Sets of "
        f"at most {MAX_ENTRIES_INLINE} entries are reverted at once, larger ones in the background; poll `Location` for the "
        "status.",
        {
            200: {
                "description": "The result for each part. Only admins revert other owners' items and imported ratings",
                **json_content(ref("ChangesetRevert"), _REPORT),
            },
            202: {
                "description": "Started",
                "headers": {
                    "Location": {
                        "description": "The status of the revert, relative to this request's URL",
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
        "Get the status of a revert",
        f"Visible to the requester and to admins for {DAYS_KEPT} days. `items` lists failed parts and parts with "
        "skipped fields; the change set `revertId` lists the changes that were written.",
        {
            200: {
                "description": "The status of the revert",
                "headers": LINK,
                **json_content(ref("ChangesetRevert"), _REPORTED),
            }
        },
        (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden, errors.NotFound),
    ),
}


def schemas() -> Schema:
    """Return the schemas of requests and responses, by name."""
    text: Schema = {"type": "string"}
    uuid: Schema = {"type": "string", "format": "uuid"}
    pointers: Schema = {"type": "array", "items": {"type": "string", "format": "json-pointer"}, "maxItems": MAX_NAMED}
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
                "description": "`reverted`: at least one field; `unchanged`: the values were already the previous ones; `skipped`: all "
                "fields were changed since; `failed`: see `problem`",
            },
            "fields": pointers
            | {
                "description": "The reverted fields, or the result of a dry run; an empty pointer is the whole item, `/text` all captions"
            },
            "skipped": {
                "type": "array",
                "items": ref("SkippedField"),
                "maxItems": MAX_NAMED,
                "description": "The skipped fields, with reasons",
            },
            "omitted": {
                "type": "integer",
                "minimum": 1,
                "description": "Number of further fields that are not listed",
            },
            "problem": ref("Problem"),
        },
        optional=("videoId", "personId", "region", "language", "playlistId", "omitted", "problem"),
    )
    counts = {
        "examined": "Number of examined entries of the set",
        "reverted": "Number of parts with a reverted field",
        "unchanged": "Number of parts with nothing to revert",
        "skipped": "Number of parts of which all fields were skipped",
        "failed": "Number of parts that cannot be reverted",
        "waiting": "Number of parts to retry, because of concurrent writes or because the trail lacks their newest changes",
    }
    report = object_of(
        {
            "changesetId": text,
            "revertId": text,
            "dryRun": {"type": "boolean"},
            "state": ref("RunState"),
            **{name: {"type": "integer", "minimum": 0, "description": counts[name]} for name in COUNTS},
            "items": {"type": "array", "items": ref("RevertedPart")},
            "nextCursor": NEXT_CURSOR,
        }
    )
    count: Schema = {"type": "integer", "minimum": 0}
    move = object_of(
        {
            "moveId": text,
            "userId": {"type": "string", "description": "Owner of the folder"},
            "folder": FOLDER_SCHEMA,
            "to": FOLDER_SCHEMA,
            "state": ref("RunState"),
            "moved": {**count, "description": "Number of moved videos"},
            "failed": {
                **count,
                "description": "Number of videos that cannot be moved, for example to a path that is too long",
            },
            "waiting": {**count, "description": "Number of videos to retry, because of concurrent writes"},
            "items": {"type": "array", "items": object_of({"videoId": uuid, "problem": ref("Problem")})},
            "nextCursor": NEXT_CURSOR,
        }
    )
    return model_schemas(NewRevert, NewFolderMove) | {
        "RevertedPart": part,
        "ChangesetRevert": report,
        "FolderMove": move,
        "RunState": {"type": "string", "enum": [RUNNING, DONE], "description": "State of a revert or a move"},
    }
