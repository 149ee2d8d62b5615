"""The operations of the function `totals`."""

from shared.core import errors
from shared.openapi.spec import (
    LINK,
    Operation,
    json_content,
    object_of,
    page_of,
    query,
    ref,
)
from shared.videos.video import STATUSES
from shared.web.paging import Paged
from shared.web.parameters import USER_ID, USER_ID_MEANS, Schema

USER: Schema = {
    "userId": "user_789",
    "videos": {"total": 3, "uploaded": 0, "processing": 1, "ready": 2, "failed": 0, "deleted": 1},
    "bytes": 733_007_751,
    "duration": 5_520_000,
    "playlists": 2,
}
TAG_PAGE: Schema = {"items": [{"tag": "drama", "count": 42}, {"tag": "new zealand", "count": 7}], "nextCursor": None}
_USER_ID: Schema = {
    "name": "userId",
    "in": "path",
    "required": True,
    "description": f"{USER_ID_MEANS}; percent-encoded, slashes too",
    "schema": USER_ID,
    "example": "user_789",
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
        query(Paged),
    ),
    "getUser": Operation(
        "Read the totals of a user",
        "For the user and admins; zeros for an unknown user. The counts of videos are some seconds behind, and exact "
        "once all changes are processed. Until it is removed for good, a deleted video counts as deleted, and an expired "
        "one in its status.",
        {200: {"description": "The totals", **json_content(ref("User"), USER)}},
        (errors.InvalidParameter, errors.Forbidden),
        (_USER_ID,),
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
        "User": object_of(
            {
                "userId": {"type": "string"},
                "videos": object_of({"total": total, **dict.fromkeys(STATUSES, count)}),
                **sizes,
                "playlists": count,
            }
        ),
    }
