"""The operations of the function `views`."""

from shared.core import errors
from shared.openapi.spec import (
    BODY_ERRORS,
    EMPTY_BODY,
    EXAMPLE_ID,
    KEY,
    VIDEO_ID,
    Operation,
    header,
    json_content,
    object_of,
    ref,
)
from shared.views.store import CACHE_SECONDS
from shared.web.parameters import Schema

VIEW_KEY = header(
    "Idempotency-Key",
    "Makes a retry safe for 24 hours: the view is counted once. Every answer has the current count.",
    KEY["schema"],
)


OPERATIONS: dict[str, Operation] = {
    "countView": Operation(
        "Count a view",
        "Counts a view of a video that the caller may see, and returns the new count. Who may see a video is cached for "
        f"{CACHE_SECONDS} seconds.",
        {
            200: {
                "description": "Counted",
                **json_content(ref("ViewCount"), {"videoId": EXAMPLE_ID, "viewCount": 42}),
            }
        },
        (
            *BODY_ERRORS,
            errors.InvalidParameter,
            errors.Forbidden,
            errors.NotFound,
            errors.WriteContention,
            errors.KeyReused,
        ),
        (VIDEO_ID, VIEW_KEY),
        EMPTY_BODY,
    ),
}


def schemas() -> Schema:
    """The schemas of answers, by name."""
    count = {"type": "integer", "minimum": 0}
    return {"ViewCount": object_of({"videoId": {"type": "string", "format": "uuid"}, "viewCount": count})}
