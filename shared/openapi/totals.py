"""OpenAPI documentation of the operations of the function `totals`: totals of users, folders and tags, the most viewed
videos, and the state of the service."""

from shared.background.operations import HOURS, MAX_LATE, MAX_REPORTED, MAX_SAMPLE
from shared.core import errors
from shared.core.periods import WINDOWS
from shared.job_kinds import JOB_QUEUES
from shared.openapi.spec import (
    EXAMPLE_ID,
    LINK,
    NEXT_CURSOR,
    Operation,
    json_content,
    object_of,
    page_of,
    ref,
)
from shared.videos.video import STATUSES
from shared.views.rankings import DAYS_EVERY, HOURS_EVERY, MAX_CATEGORIES
from shared.views.top import LARGEST_TOP
from shared.web.paging import LONGEST_PAGE
from shared.web.parameters import FOLDER_SCHEMA, USER_ID, USER_ID_MEANS, Schema

USER: Schema = {
    "userId": "user_789",
    "videos": {"total": 3, "uploaded": 0, "processing": 1, "ready": 2, "failed": 0, "deleted": 1},
    "bytes": 733_007_751,
    "duration": 5_520_000,
    "playlists": 2,
}
TAG_PAGE: Schema = {"items": [{"tag": "drama", "count": 42}, {"tag": "new zealand", "count": 7}], "nextCursor": None}
FOLDER_COUNTS: Schema = {"folder": "clients/acme", "videos": 42, "direct": 7}
FOLDER_PAGE: Schema = {
    "items": [FOLDER_COUNTS, {"folder": "clients/beta", "videos": 1, "direct": 1}],
    "nextCursor": None,
}
_FOLDER_ERRORS = (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden)
TOP: Schema = {
    "window": "day",
    "category": "demos",
    "from": 1717624800,
    "computedAt": 1717709400,
    "items": [
        {
            "videoId": EXAMPLE_ID,
            "userId": "user_789",
            "createdAt": 1717645200,
            "title": "Product Launch Demo",
            "category": "demos",
            "status": "ready",
            "visibility": "public",
            "views": 42,
            "viewsBefore": 30,
            "rise": 12,
            "viewCount": 1042,
        }
    ],
}
PATH_PARAMETERS: dict[str, Schema] = {
    "folder": {
        "description": "Path of the folder; percent-encoded, with or without its slashes",
        "schema": FOLDER_SCHEMA,
        "example": "clients",
    },
    "userId": {
        "description": f"User id: {USER_ID_MEANS}; percent-encoded, including slashes",
        "schema": USER_ID,
        "example": "user_789",
    },
}

OPERATIONS_STATE: Schema = {
    "at": 1717709400,
    "totals": {
        "videos": {"total": 3, "uploaded": 0, "processing": 1, "ready": 1, "failed": 1, "deleted": 1},
        "bytes": 733_007_751,
        "duration": 5_520_000,
        "uploads": [{"from": 1717707600, "count": 2}],
    },
    "jobs": [{"queue": "probe", "open": 1, "more": False, "oldestSeconds": 12}],
    "webhooks": {
        "behind": 1,
        "more": False,
        "items": [
            {
                "webhookId": "0b6c0a4e-93a4-4f6b-9d55-3f6f0f4d7a10",
                "seconds": 340,
                "failingSince": 1717709000,
                "nextAttemptAt": 1717709460,
            }
        ],
    },
    "failures": {
        "examined": 1,
        "more": False,
        "causes": [
            {
                "kind": "probe",
                "reason": "The file is not a video in a supported format.",
                "action": "upload",
                "count": 1,
                "latestAt": 1717705800,
                "jobs": [{"videoId": EXAMPLE_ID, "kind": "probe"}],
            }
        ],
    },
    "views": {"computedAt": 1717709400, "hours": [{"from": 1717707600, "count": 42}]},
    "index": {"videos": 2, "publishedAt": 1717709355, "seconds": 45},
    "comparison": {"at": 1717660000, "repairs": True, "outcomes": {}, "findings": []},
    "queues": [{"name": "probe", "waiting": 1, "delayed": 0, "inFlight": 0, "deadLetters": 0}],
    "unavailable": [],
}

TAG_DESCRIPTIONS = {"totals": "Folders, most used tags, most viewed videos, and totals of users and of the service"}
OPERATIONS: dict[str, Operation] = {
    "listTags": Operation(
        "List the most used tags",
        "Lists tags by the number of their published (ready and public) videos, most used first. Tags are "
        "case-folded and normalised, and queries match all their spellings. Counts lag by seconds; a tag whose "
        "count changes between two pages may appear twice or not at all.",
        {200: {"description": "A page", "headers": LINK, **json_content(ref("TagPage"), TAG_PAGE)}},
        (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden),
    ),
    "listTop": Operation(
        "List the most viewed videos",
        f"Lists up to {LARGEST_TOP} published videos, from all videos or from one of the {MAX_CATEGORIES} most "
        "viewed categories. `hour` is the last full hour and the current one, `day` 24 such hours, `week` and "
        f"`month` 7 and 30 UTC days. Lists are computed every {HOURS_EVERY // 60} minutes, by week and "
        f"month every {DAYS_EVERY // 60}; `computedAt` is null before the first run.",
        {200: {"description": "The list, with current titles and posters", **json_content(ref("TopList"), TOP)}},
        (errors.InvalidParameter, errors.Forbidden),
    ),
    "listFolders": Operation(
        "List your outermost folders",
        "Lists the folders without a parent, by name, with the numbers of their videos. A folder exists while a video "
        "that is not deleted is in it or in a subfolder. Counts lag by seconds. Admins may send `userId`.",
        {200: {"description": "A page", "headers": LINK, **json_content(ref("FolderPage"), FOLDER_PAGE)}},
        _FOLDER_ERRORS,
    ),
    "getFolder": Operation(
        "Get a folder and list its subfolders",
        "Returns the counts of the folder, and lists the folders directly in it, by name. A folder without videos has "
        "zeros. `GET /v1/videos?folder=` lists its videos. Admins may send `userId`.",
        {
            200: {
                "description": "The folder, with a page of its subfolders",
                "headers": LINK,
                **json_content(ref("Folder"), {**FOLDER_COUNTS, "folder": "clients", **FOLDER_PAGE}),
            }
        },
        _FOLDER_ERRORS,
    ),
    "getUser": Operation(
        "Get the totals of a user",
        "Visible to the user and to admins; an unknown user has zeros, but an unknown id with a slash returns "
        "404. Counts of videos lag by seconds, and are exact once all changes are processed. Until its removal, a "
        "deleted video counts as deleted and an expired one by its status.",
        {200: {"description": "The totals", **json_content(ref("User"), USER)}},
        (errors.InvalidParameter, errors.Forbidden, errors.NotFound),
    ),
    "getOperations": Operation(
        "Get the state of the service",
        f"For admins: totals, queues, jobs, webhooks, the search index, and uploads and views of the last {HOURS} hours. "
        "Parts are read separately. A part that could not be read is null, and `unavailable` names it. Totals and "
        "uploads lag by seconds, and are exact once all changes are processed. Views are computed every "
        f"{HOURS_EVERY // 60} minutes. SQS's numbers of messages are approximate. At most {MAX_SAMPLE} jobs of a state "
        f"and {MAX_SAMPLE} webhooks are examined; `more` is true if there are more.",
        {200: {"description": "The state", **json_content(ref("OperationsState"), OPERATIONS_STATE)}},
        (errors.InvalidParameter, errors.Forbidden),
    ),
}


def schemas() -> Schema:
    """Return the schemas of responses, by name."""
    count: Schema = {"type": "integer", "minimum": 0}
    total = {**count, "description": "Number of videos that are not deleted"}
    sizes: Schema = {
        "bytes": {
            **count,
            "description": "Total size in bytes of the source videos that are not deleted, as far as known",
        },
        "duration": {
            **count,
            "description": "Milliseconds of all videos that are not deleted, as far as known",
        },
    }
    folder: dict[str, Schema] = {
        "folder": FOLDER_SCHEMA,
        "videos": {**count, "description": "Videos in the folder and its subfolders"},
        "direct": {**count, "description": "Videos directly in the folder"},
    }
    return {
        "FolderCounts": object_of(folder),
        "FolderPage": page_of("FolderCounts"),
        "Folder": object_of(
            {**folder, "items": {"type": "array", "items": ref("FolderCounts")}, "nextCursor": NEXT_CURSOR}
        ),
        "TagCount": object_of({"tag": {"type": "string"}, "count": {"type": "integer", "minimum": 1}}),
        "TagPage": page_of("TagCount"),
        "TopVideo": {
            "allOf": [
                ref("VideoSummary"),
                {
                    "type": "object",
                    "properties": {
                        "views": {"type": "integer", "minimum": 1, "description": "Views in the window"},
                        "viewsBefore": {**count, "description": "Views in the preceding window"},
                        "rise": {"type": "integer", "description": "`views` minus `viewsBefore`"},
                        "viewCount": {**count, "description": "All views at the time of computation"},
                    },
                    "required": ["views", "viewsBefore", "rise", "viewCount"],
                },
            ]
        },
        "TopList": object_of(
            {
                "window": {"type": "string", "enum": list(WINDOWS)},
                "category": {"type": ["string", "null"]},
                "from": {"type": ["integer", "null"], "description": "Start of the window in epoch seconds"},
                "computedAt": {"type": ["integer", "null"], "description": "Epoch seconds"},
                "items": {"type": "array", "items": ref("TopVideo"), "maxItems": LONGEST_PAGE},
            }
        ),
        "User": object_of(
            {
                "userId": {"type": "string"},
                "videos": object_of({"total": total, **dict.fromkeys(STATUSES, count)}),
                **sizes,
                "playlists": count,
            }
        ),
        **_operations_schemas(count, total, sizes),
    }


def _operations_schemas(count: Schema, total: Schema, sizes: Schema) -> Schema:
    """Return the schemas of the state of the service, by name."""
    time: Schema = {"type": "integer", "description": "Epoch seconds"}
    text: Schema = {"type": "string"}
    more: Schema = {"type": "boolean", "description": "Whether there are more than were examined"}
    hours = {"type": "array", "items": ref("HourCount"), "maxItems": HOURS, "description": "Oldest hour first"}

    def part(schema: Schema, description: str) -> Schema:
        return {"anyOf": [schema, {"type": "null"}], "description": description}

    def list_of(name: str, most: int) -> Schema:
        return {"type": "array", "items": ref(name), "maxItems": most}

    return {
        "HourCount": object_of({"from": {**time, "description": "Start of the hour"}, "count": count}),
        "ServiceTotals": object_of(
            {"videos": object_of({"total": total, **dict.fromkeys(STATUSES, count)}), **sizes, "uploads": hours}
        ),
        "OpenJobs": object_of(
            {
                "queue": text,
                "open": {**count, "description": "Queued and running jobs"},
                "more": more,
                "oldestSeconds": {
                    **count,
                    "description": "Age of the oldest examined job, in seconds since it was requested",
                },
            }
        ),
        "LateWebhook": object_of(
            {
                "webhookId": text,
                "seconds": {**count, "description": "Age of the oldest change that is not delivered"},
                "failingSince": {"type": ["integer", "null"], "description": "Epoch seconds"},
                "nextAttemptAt": {"type": ["integer", "null"], "description": "Epoch seconds"},
            }
        ),
        "LateWebhooks": object_of({"behind": count, "more": more, "items": list_of("LateWebhook", MAX_LATE)}),
        "FailedJob": object_of({"videoId": text, "kind": text}),
        "FailureCause": object_of(
            {
                "kind": {**text, "description": "Kind of the jobs, without the name of a rendition"},
                "reason": text,
                "action": {
                    **text,
                    "enum": ["retry", "upload"],
                    "description": "Action that can help: retry the jobs, or upload other files",
                },
                "count": count,
                "latestAt": time,
                "jobs": list_of("FailedJob", MAX_SAMPLE),
            }
        ),
        "Failures": object_of({"examined": count, "more": more, "causes": list_of("FailureCause", MAX_SAMPLE)}),
        "HourlyViews": object_of({"computedAt": time, "hours": hours}),
        "IndexState": object_of(
            {
                "videos": count,
                "publishedAt": time,
                "seconds": {**count, "description": "Age of the newest change that the index may lack"},
            }
        ),
        "ComparisonFinding": object_of({"kind": text, "id": text, "outcome": text}),
        "ComparisonReport": object_of(
            {
                "at": time,
                "repairs": {"type": "boolean", "description": "Whether the run corrected differences"},
                "outcomes": {
                    "type": "object",
                    "additionalProperties": count,
                    "description": "Number of findings by outcome: `found`, `repaired`, `busy` or `unreadable`",
                },
                "findings": list_of("ComparisonFinding", MAX_REPORTED),
            }
        ),
        "QueueState": object_of(
            {
                "name": text,
                "waiting": count,
                "delayed": count,
                "inFlight": count,
                "deadLetters": {**count, "description": "Messages that failed repeatedly"},
            }
        ),
        "OperationsState": object_of(
            {
                "at": time,
                "totals": part(ref("ServiceTotals"), "Totals of all videos, and uploads"),
                "jobs": part(list_of("OpenJobs", len(JOB_QUEUES)), "Open jobs by queue"),
                "webhooks": part(ref("LateWebhooks"), "Webhooks with undelivered changes"),
                "failures": part(ref("Failures"), "Failed jobs by cause, newest jobs only"),
                "views": part(ref("HourlyViews"), "Views; null before their first computation"),
                "index": part(ref("IndexState"), "The search index; null before its first publication"),
                "comparison": part(ref("ComparisonReport"), "The last comparison; null before the first one"),
                "queues": part({"type": "array", "items": ref("QueueState")}, "Approximate numbers of messages"),
                "unavailable": {
                    "type": "array",
                    "items": text,
                    "description": "Names of the parts that could not be read",
                },
            }
        ),
    }
