"""The operations of the function `totals`."""

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
from shared.views.rankings import DAYS_EVERY, HOURS_EVERY, MOST_CATEGORIES
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
        "description": f"{USER_ID_MEANS}; percent-encoded, slashes too",
        "schema": USER_ID,
        "example": "user_789",
    }
}

OPERATIONS: dict[str, Operation] = {
    "listTags": Operation(
        "List the most used tags",
        "Each with the number of listed videos (ready and public) that have it, the largest first. Tags are counted in "
        "their folded form, by which they are also found: case, spaces and forms of the same letters make no "
        "difference. The counts are some seconds behind the videos. Between two pages a tag whose count changes may "
        "be shown twice or not at all.",
        {200: {"description": "A page", "headers": LINK, **json_content(ref("TagPage"), TAG_PAGE)}},
        (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden),
    ),
    "listTop": Operation(
        "List what is viewed most",
        "The published videos with the most views in the last hours or days, the most risen, or those of them with the most views ever: up "
        f"to {LARGEST_TOP} of all videos, or of one of the {MOST_CATEGORIES} categories that are viewed most. `hour` is the last full hour "
        "and the present one so far, `day` 24 such hours, `week` and `month` 7 and 30 days (UTC) with today. "
        "`viewsBefore` are those of as many hours or days before, and `rise` is the difference. "
        f"The lists are computed every {HOURS_EVERY // 60} minutes, those of weeks and months every {DAYS_EVERY // 60}; `computedAt` says when, and "
        "is null when there is no list yet. Titles and posters are those of now.",
        {200: {"description": "The list", **json_content(ref("TopList"), TOP)}},
        (errors.InvalidParameter, errors.Forbidden),
    ),
    "getUser": Operation(
        "Read the totals of a user",
        "For the user and admins; zeros for an unknown user, but 404 if the id of one has a slash. The counts of videos are some seconds behind, and exact "
        "once all changes are processed. Until it is removed for good, a deleted video counts as deleted, and an expired "
        "one in its status.",
        {200: {"description": "The totals", **json_content(ref("User"), USER)}},
        (errors.InvalidParameter, errors.Forbidden, errors.NotFound),
    ),
}


def schemas() -> Schema:
    """The schemas of answers, by name."""
    count: Schema = {"type": "integer", "minimum": 0}
    total = {**count, "description": "All that are not deleted"}
    sizes: Schema = {
        "bytes": {**count, "description": "The sizes of the films of videos that are not deleted, as far as known"},
        "duration": {**count, "description": "Milliseconds of videos that are not deleted, as far as known"},
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
                        "views": {"type": "integer", "minimum": 1, "description": "In the window"},
                        "viewsBefore": {**count, "description": "In the window before"},
                        "rise": {"type": "integer", "description": "`views` less `viewsBefore`"},
                        "viewCount": {**count, "description": "All of them, when the list was computed"},
                    },
                    "required": ["views", "viewsBefore", "rise", "viewCount"],
                },
            ]
        },
        "TopList": object_of(
            {
                "window": {"type": "string", "enum": list(WINDOWS)},
                "category": {"type": ["string", "null"]},
                "from": {"type": ["integer", "null"], "description": "When the window begins, in epoch seconds"},
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
