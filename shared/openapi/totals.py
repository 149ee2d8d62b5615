"""OpenAPI documentation of the operations of the function `totals`: totals of users, tags, and most viewed videos."""

from shared.core import errors
from shared.core.periods import WINDOWS
from shared.openapi.spec import (
    EXAMPLE_ID,
    LINK,
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
from shared.web.parameters import USER_ID, USER_ID_MEANS, Schema

USER: Schema = {
    "userId": "user_789",
    "videos": {"total": 3, "uploaded": 0, "processing": 1, "ready": 2, "failed": 0, "deleted": 1},
    "bytes": 733_007_751,
    "duration": 5_520_000,
    "playlists": 2,
}
TAG_PAGE: Schema = {"items": [{"tag": "drama", "count": 42}, {"tag": "new zealand", "count": 7}], "nextCursor": None}
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
    "userId": {
        "description": f"User id: {USER_ID_MEANS}; percent-encoded, including slashes",
        "schema": USER_ID,
        "example": "user_789",
    }
}

TAG_DESCRIPTIONS = {"totals": "Most used tags, most viewed videos, and totals of users"}
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
    "getUser": Operation(
        "Get the totals of a user",
        "Visible to the user and to admins; an unknown user has zeros, but an unknown id with a slash returns "
        "404. Counts of videos lag by seconds, and are exact once all changes are processed. Until its removal, a "
        "deleted video counts as deleted and an expired one by its status.",
        {200: {"description": "The totals", **json_content(ref("User"), USER)}},
        (errors.InvalidParameter, errors.Forbidden, errors.NotFound),
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
    return {
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
    }
