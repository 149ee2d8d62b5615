"""The operations of the function `views`."""

from shared.core import errors
from shared.core.limits import LARGEST_BATCH
from shared.core.periods import DAY_SECONDS, HOURS_KEPT_DAYS
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
    "Makes a retry safe for 24 hours: the view counts once. A key belongs to one caller and video. With a `viewerId`, retries also "
    "need the same `at`.",
    KEY["schema"],
)
_COUNTED: Schema = {"counted": True, "reason": None, "viewCount": 42, "windowEnds": 1717647000}
_VIEW: Schema = {"viewerId": "tv-7f3a", "watchedMs": 354000}
_QUEUED: Schema = {"id": "a1", "videoId": EXAMPLE_ID, "at": 1717645200, **_VIEW}
_RULES = (
    "`reason` says why a view does not count: the video is `deleted`, `expired` or `unpublished` (not ready, not public, or "
    "before its `publishAt`), which only its owner and admins get to see; the caller is its `owner`; the same viewer's last "
    "view is less than a window ago (`repeated`); or the view was sent before (`duplicate`). A deployment sets the window, "
    "30 minutes by default, and may let owners' views count. "
    f"A view may be {EARLIEST_SECONDS // DAY_SECONDS} days old, or {LATEST_SECONDS} seconds ahead. One that is older than the "
    "viewer's last one does not count, so retries are safe."
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

OPERATIONS: dict[str, Operation] = {
    "countView": Operation(
        "Count a view",
        "Counts a view of a video that the caller may see, unless a rule keeps it out, and returns the count. Without a "
        "`viewerId` and an `Idempotency-Key`, every view counts, and `viewCount` is exact; with one of them the count that "
        f"others read follows within seconds. {_RULES} Who may see a video is cached for {CACHE_SECONDS} seconds.",
        {
            200: {
                "description": "Whether the view counts, and the count",
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
        f"Count up to {LARGEST_BATCH} views that were kept offline",
        "Each view counts as one sent by itself would, and has its own result in the same place: whether it counts, or a "
        "problem, such as 404 for a video that the caller may not see, 422 for a view that is too old, and 503 for what the "
        "database was too busy for. So the answer is 200 even if all fail. Send the same batch again when an answer is lost: "
        f"nothing counts twice, as an id is known for {MARKER_SECONDS // DAY_SECONDS} days to belong to one caller and video. "
        f"The views of one viewer and video are taken in the order of their times. {_RULES}",
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
                                "problem": errors.NotFound("There is no such video.").problem(),
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
        "Count the views of a video by hour or day",
        "For the owner and admins. There is an item for each hour or day, also for those without views: of the last 24 hours or 30 days "
        f"unless `from` and `to` say otherwise, and at most {GRANULARITIES['hour'].most} hours or {GRANULARITIES['day'].most} days. A view "
        "belongs to the hour in which it was counted, whatever its `at`; the last one is still being counted, and some "
        f"seconds behind. Days in UTC are kept for good; hours, and so days in other zones, for {HOURS_KEPT_DAYS} days. In a "
        "zone that is off by half an hour, a day begins with the first full hour of UTC in it, as `from` says.",
        {200: {"description": "The views", **json_content(ref("ViewHistory"), HISTORY)}},
        (errors.InvalidParameter, errors.Forbidden, errors.NotFound),
    ),
    "explainViews": Operation(
        "Explain how views were counted",
        "For the owner and admins: how many views of the last 24 hours counted, how many did not, and by which rule. It begins "
        "with the first full hour of them. `identified` are those with a `viewerId` or a key, `anonymous` all others. A retry "
        "of a view that counted, with the same key, stands nowhere; one of a view that did not count adds to its rule again.",
        {200: {"description": "The explanation", **json_content(ref("ViewExplanation"), EXPLANATION)}},
        (errors.InvalidParameter, errors.Forbidden, errors.NotFound),
    ),
}


def schemas() -> Schema:
    """The schemas of requests and answers, by name."""
    video_id: Schema = {"type": "string", "format": "uuid"}
    verdict: Schema = {
        "counted": {"type": "boolean"},
        "reason": {"anyOf": [ref("UncountedReason"), {"type": "null"}], "description": "Null when it counts"},
        "viewCount": {"type": "integer", "minimum": 0, "description": "Of the video, with this view if it counts"},
        "windowEnds": {
            "type": ["integer", "null"],
            "minimum": 0,
            "description": "From when on another view of this viewer counts, in epoch seconds; null without a viewer, and "
            "for a view that a rule on its video or caller keeps out",
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
