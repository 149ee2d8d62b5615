"""OpenAPI documentation of the operations of the function `views`."""

from shared.core import errors
from shared.core.limits import LARGEST_BATCH
from shared.core.periods import DAY_SECONDS, HOURS_RETAINED_DAYS
from shared.openapi.spec import (
    BODY_ERRORS,
    EXAMPLE_ID,
    KEY,
    SECONDS,
    Operation,
    header,
    json_content,
    model_schemas,
    object_of,
    ref,
)
from shared.videos.counters import UNCOUNTED
from shared.views.history import GRANULARITIES
from shared.views.models import NewView, QueuedViews
from shared.views.store import CACHE_SECONDS, EARLIEST_SECONDS, LATEST_SECONDS, MARKER_SECONDS, REASONS
from shared.web.parameters import Schema
from shared.web.requests import JSON

VIEW_KEY = header(
    "Idempotency-Key",
    "Identifies a view for 24 hours per caller and video, so that retries do not count; with a `viewerId`, "
    "retries must repeat `at`.",
    KEY["schema"],
)
_COUNTED: Schema = {"counted": True, "reason": None, "viewCount": 42, "windowEnds": 1717647000}
_VIEW: Schema = {"viewerId": "tv-7f3a", "watchedMs": 354000}
_QUEUED: Schema = {"id": "a1", "videoId": EXAMPLE_ID, "at": 1717645200, **_VIEW}
_RULES = (
    f"A view may be {EARLIEST_SECONDS // DAY_SECONDS} days old or {LATEST_SECONDS} seconds in the future; "
    "`reason` names the rule that excludes it."
)

HISTORY: Schema = {
    "videoId": EXAMPLE_ID,
    "granularity": "day",
    "tz": "Europe/Berlin",
    "items": [{"from": 1717624800, "to": 1717711200, "views": 42, "watchedMs": 5_400_000}],
    "total": 42,
}
EXPLANATION: Schema = {
    "videoId": EXAMPLE_ID,
    "from": 1717624800,
    "to": 1717709400,
    "counted": {"total": 42, "anonymous": 30, "identified": 12},
    "notCounted": {"total": 3, "repeated": 2, "owner": 1, "unpublished": 0, "expired": 0, "deleted": 0},
    "viewCount": 1042,
    "rules": [
        {
            "rule": "repeated",
            "because": "A view of the same viewer was counted in the 30 minutes before it, or after it.",
        }
    ],
}

TAG_DESCRIPTIONS = {"views": "View counts, by hour and day"}
OPERATIONS: dict[str, Operation] = {
    "countView": Operation(
        "Count a view",
        f"Counts a view unless a rule excludes it, and returns the count. {_RULES} Permission to see a video is "
        f"cached for {CACHE_SECONDS} seconds.",
        {
            200: {
                "description": "The count, and whether the view was counted",
                **json_content(ref("ViewCount"), {"videoId": EXAMPLE_ID, **_COUNTED}),
            }
        },
        (
            *BODY_ERRORS,
            errors.InvalidParameter,
            errors.Forbidden,
            errors.NotFound,
            errors.WriteContention,
        ),
        (VIEW_KEY,),
        {"required": False, "content": {JSON: {"schema": ref("NewView"), "example": _VIEW}}},
    ),
    "countViews": Operation(
        f"Count up to {LARGEST_BATCH} offline views",
        "Counts each view like a separate request, in order of time per viewer and video; the status is 200 even "
        "if all fail. Repeating a batch is safe, because the ids of a caller and video are stored for "
        f"{MARKER_SECONDS // DAY_SECONDS} days. {_RULES}",
        {
            200: {
                "description": "The results, in the order of the views",
                **json_content(
                    ref("ViewResults"),
                    {
                        "results": [
                            {"id": "a1", "videoId": EXAMPLE_ID, **_COUNTED},
                            {
                                "id": "a2",
                                "videoId": "9b2c1f5e-7d1a-4c1e-8f43-2a5f7f0f4e11",
                                "problem": errors.NotFound.of("video").problem(),
                            },
                        ]
                    },
                ),
            }
        },
        (*BODY_ERRORS, errors.InvalidParameter, errors.Forbidden),
        body={"required": True, "content": {JSON: {"schema": ref("QueuedViews"), "example": {"views": [_QUEUED]}}}},
    ),
    "getViews": Operation(
        "Get a video's views by hour or day",
        "Returns the owner and admins one item per hour or day: the last 24 hours or 30 days, or up to "
        f"{GRANULARITIES['hour'].most} or {GRANULARITIES['day'].most} items. A view belongs to the hour in which "
        "it was counted, regardless of its `at`; the latest hour lags by seconds. UTC days are retained "
        f"permanently, hours and days in other zones for {HOURS_RETAINED_DAYS} days.",
        {200: {"description": "The views", **json_content(ref("ViewHistory"), HISTORY)}},
        (errors.InvalidParameter, errors.Forbidden, errors.NotFound),
    ),
    "explainViews": Operation(
        "Explain how views were counted",
        "Counts views of the last 24 hours, from the first full hour, by counting rule, for the owner and admins. "
        "`identified` views have a `viewerId` or a key; `anonymous` views have neither. A retry of a counted view "
        "with the same key is ignored; a retry of an excluded view is counted again.",
        {200: {"description": "The explanation", **json_content(ref("ViewExplanation"), EXPLANATION)}},
        (errors.InvalidParameter, errors.Forbidden, errors.NotFound),
    ),
}


def schemas() -> Schema:
    """Return the schemas of requests and responses, by name."""
    video_id: Schema = {"type": "string", "format": "uuid"}
    verdict: Schema = {
        "counted": {"type": "boolean"},
        "reason": {
            "anyOf": [ref("UncountedReason"), {"type": "null"}],
            "description": "`null` if it counts. `unpublished` includes videos that are not ready; `repeated` views are within the "
            "viewer's window, 30 minutes by default; `duplicate` views were sent before",
        },
        "viewCount": {
            "type": "integer",
            "minimum": 0,
            "description": "View count of the video, including this view if it counts; it may lag by seconds with a `viewerId` or key",
        },
        "windowEnds": {
            "type": ["integer", "null"],
            "minimum": 0,
            "description": "Time in epoch seconds from which another view of this viewer counts. `null` without a viewer, or if the "
            "video or caller excludes the view",
        },
    }
    result = object_of(
        {"id": {"type": "string"}, "videoId": video_id, **verdict, "problem": ref("Problem")},
        optional=(*verdict, "problem"),
    )
    count = {"type": "integer", "minimum": 0}
    bucket = object_of({"from": SECONDS, "to": SECONDS, "views": count, "watchedMs": count})
    rule: Schema = {"type": "string", "enum": list(UNCOUNTED)}
    return model_schemas(NewView, QueuedViews) | {
        "UncountedReason": {"type": "string", "enum": list(REASONS)},
        "ViewCount": object_of({"videoId": video_id, **verdict}),
        "ViewResults": object_of({"results": {"type": "array", "items": result, "maxItems": LARGEST_BATCH}}),
        "ViewHistory": object_of(
            {
                "videoId": video_id,
                "granularity": {"type": "string", "enum": list(GRANULARITIES)},
                "tz": {"type": "string"},
                "items": {"type": "array", "items": bucket},
                "total": count,
            }
        ),
        "ViewExplanation": object_of(
            {
                "videoId": video_id,
                "from": SECONDS,
                "to": SECONDS,
                "counted": object_of(dict.fromkeys(("total", "anonymous", "identified"), count)),
                "notCounted": object_of(dict.fromkeys(("total", *UNCOUNTED), count)),
                "viewCount": count,
                "rules": {
                    "type": "array",
                    "items": object_of({"rule": rule, "because": {"type": "string"}}),
                },
            }
        ),
    }
