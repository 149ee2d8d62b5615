"""The operations of the function `ratings`."""

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

OPERATIONS: dict[str, Operation] = {
    "getRating": Operation(
        "Read the rating of a video",
        "For a video that the caller may see. The totals follow ratings within about a second. `own` is left out until the caller has rated it, `imported` unless an "
        "import brought the ratings of another service, which are not votes of this one.",
        {200: {"description": "The totals", **json_content(ref("Rating"), RATING)}},
        _SEEN_ERRORS,
    ),
    "putRating": Operation(
        "Rate a video",
        f"A value from 1 to {BEST_RATING}, in place of the caller's earlier one; or a like, which counts as "
        f"{BEST_RATING}, or a dislike, which counts as 1, each also counted as such. Whoever may see a video may "
        "rate it. Sending the same again changes nothing, not even `ratedAt`, so a retry is safe. The totals in the "
        "answer have this rating counted in; those of others may be about a second old. 409 with `Retry-After` when the caller "
        "rates the video in several requests at the same moment.",
        {200: {"description": "The totals, with this rating", **json_content(ref("Rating"), RATING)}},
        (*BODY_ERRORS, *_SEEN_ERRORS, errors.IllegalTransition, errors.WriteContention),
        body=_BODY,
    ),
    "deleteRating": Operation(
        "Remove your rating",
        "Succeeds also when there is none, so a retry is safe.",
        {204: {"description": "The caller has no rating of the video"}},
        (*_SEEN_ERRORS, errors.WriteContention),
    ),
}


def schemas() -> Schema:
    """The schemas of requests and answers, by name."""
    count: Schema = {"type": "integer", "minimum": 0}
    value: Schema = {"type": "integer", "minimum": 1, "maximum": BEST_RATING}
    average: Schema = {"minimum": 1, "maximum": BEST_RATING}
    own = {"value": value, "like": {"type": "boolean", "description": "Left out of a rating that was sent as a value"}}
    totals: Schema = {
        "average": {
            "type": ["number", "null"],
            **average,
            "description": "Of all votes, rounded to two decimals; null without votes",
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
