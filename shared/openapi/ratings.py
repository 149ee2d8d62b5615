"""OpenAPI documentation of the operations of the function `ratings`."""

from shared.core import errors
from shared.core.limits import BEST_RATING
from shared.openapi.spec import (
    BODY_ERRORS,
    EXAMPLE_ID,
    SECONDS,
    Operation,
    json_content,
    object_of,
    ref,
)
from shared.web.parameters import Schema
from shared.web.requests import JSON

RATING: Schema = {
    "videoId": EXAMPLE_ID,
    "own": {"value": 8, "ratedAt": 1717645200},
    "average": 7.33,
    "votes": 3,
    "likes": 1,
    "dislikes": 0,
    "imported": {"average": 7.8, "votes": 120431},
}
_SEEN_ERRORS = (errors.InvalidParameter, errors.Forbidden, errors.NotFound)
_BODY: Schema = {
    "required": True,
    "content": {
        JSON: {
            "schema": ref("RatingContent"),
            "examples": {"value": {"value": {"value": 8}}, "like": {"value": {"like": True}}},
        }
    },
}

TAG_DESCRIPTIONS = {"ratings": "Ratings, likes and dislikes"}
OPERATIONS: dict[str, Operation] = {
    "getRating": Operation(
        "Get the rating of a video",
        "Available to all callers that may see the video; totals lag by about a second. `own` is omitted until "
        "the caller has rated the video. `imported` has the ratings of another service, if they were imported; "
        "they are not included in the totals.",
        {200: {"description": "The totals", **json_content(ref("Rating"), RATING)}},
        _SEEN_ERRORS,
    ),
    "putRating": Operation(
        "Rate a video",
        f"Sets a value from 1 to {BEST_RATING}, a like (counts as {BEST_RATING}) or a dislike (counts as 1), and "
        "replaces the caller's earlier rating. Repeating the request changes nothing, not even `ratedAt`. Returns "
        "409 with `Retry-After` if the caller rates the video in concurrent requests.",
        {
            200: {
                "description": "The totals, including this rating; ratings of other users may lag by a second",
                **json_content(ref("Rating"), RATING),
            }
        },
        (*BODY_ERRORS, *_SEEN_ERRORS, errors.IllegalTransition, errors.WriteContention),
        body=_BODY,
    ),
    "deleteRating": Operation(
        "Delete your rating",
        "Succeeds even if there is no rating, so a retry is safe.",
        {204: {"description": "The caller has no rating of the video"}},
        (*_SEEN_ERRORS, errors.WriteContention),
    ),
}


def schemas() -> Schema:
    """Return the schemas of requests and responses, by name."""
    count: Schema = {"type": "integer", "minimum": 0}
    value: Schema = {"type": "integer", "minimum": 1, "maximum": BEST_RATING}
    average: Schema = {"minimum": 1, "maximum": BEST_RATING}
    own = {"value": value, "like": {"type": "boolean", "description": "Omitted if the rating was sent as a value"}}
    totals: Schema = {
        "average": {
            "type": ["number", "null"],
            **average,
            "description": "Mean of all votes, rounded to two decimals; `null` without votes",
        },
        "votes": count,
        "likes": count,
        "dislikes": count,
        "imported": object_of({"average": {"type": "number"}, "votes": count}),
    }
    rating: Schema = {
        "videoId": {"type": "string", "format": "uuid"},
        "own": object_of({**own, "ratedAt": SECONDS}, optional=("like",)),
        **totals,
    }
    return {
        "RatingValue": object_of({"value": value}),
        "RatingLike": object_of({"like": {"type": "boolean"}}),
        "RatingContent": {
            "description": "Either a value or a like",
            "oneOf": [ref("RatingValue"), ref("RatingLike")],
        },
        "Rating": object_of(rating, optional=("own", "imported")),
        "RatingTotals": object_of(totals, optional=("imported",)),
    }
