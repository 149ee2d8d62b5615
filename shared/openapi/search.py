"""The operations that search."""

from shared.core import errors
from shared.openapi.spec import EXAMPLE_ID, LINK, NEXT_CURSOR, Operation, json_content, object_of, ref
from shared.queries import MOST_SIMILAR
from shared.video_fields import FACETS
from shared.web.paging import LONGEST_PAGE
from shared.web.parameters import Schema

DEEPEST = 1_000
"""Videos of a question that can be paged through."""
MOST_VALUES = 100
"""Values of a facet."""

_VIDEO: Schema = {
    "videoId": EXAMPLE_ID,
    "userId": "user_789",
    "createdAt": 1717645200,
    "title": "Product Launch Demo",
    "category": "demos",
    "status": "ready",
    "visibility": "public",
}
FOUND: Schema = {
    "items": [
        {
            "video": _VIDEO,
            "score": 41.2731,
            "highlights": [{"field": "title", "text": "Product Launch Demo", "ranges": [[8, 14]]}],
            "quote": {"language": "en", "start": 61000, "text": "We launch in spring", "ranges": [[3, 9]]},
        }
    ],
    "total": 1,
    "facets": {"category": [{"value": "demos", "count": 1}]},
    "complete": True,
    "asOf": 1717645203120,
    "nextCursor": None,
}
_FALLS_BEHIND = (
    "The index follows the changes by a second or two. `complete` is false while it is further behind: newer videos may be missing, "
    "and `asOf` says up to when it has followed. "
)

OPERATIONS: dict[str, Operation] = {
    "searchVideos": Operation(
        "Search videos",
        "What fits best comes first: in titles, then names (titles in releases, people, and characters), tags, descriptions, and what is "
        "said in captions. All words must be there, each somewhere. Words of four letters and more may have one typo, of eight and more "
        "two; case and accents make no difference. Only what `GET` would show is ever shown: published videos, and the caller's own; "
        "an admin finds what is hidden by naming its owner in `userId`. "
        + _FALLS_BEHIND
        + f"A question can be paged through up to {DEEPEST:,} videos. `total` and `facets` count all that it finds, as far as the index "
        "has followed. 503 with `Retry-After` while there is no index, while that of a new instance is more than a few seconds behind, when it does not have in time what "
        "`consistentWith` asks for, and when it is far behind the videos.",
        {200: {"description": "A page", "headers": LINK, **json_content(ref("SearchPage"), FOUND)}},
        (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden),
    ),
    "similarVideos": Operation(
        "List similar videos",
        "Those that have most in common with one: rare words of its title, its tags, its description, and its captions. "
        + _FALLS_BEHIND
        + "The list is empty while the index does not have the video. 503 with `Retry-After` while there is no index, and while that of a new "
        "instance is more than a few seconds behind.",
        {
            200: {
                "description": "The list, what is most alike first",
                **json_content(
                    ref("SimilarVideos"),
                    {"items": [{"video": _VIDEO, "score": 12.5}], "complete": True, "asOf": FOUND["asOf"]},
                ),
            }
        },
        (errors.InvalidParameter, errors.Forbidden, errors.NotFound),
    ),
}


def schemas() -> Schema:
    """The schemas of answers, by name."""
    count: Schema = {"type": "integer", "minimum": 0}
    as_of: Schema = {**count, "description": "Epoch milliseconds: up to when the index has followed all changes"}
    complete: Schema = {
        "type": "boolean",
        "description": "Whether the index had followed all changes; if not, videos that were changed after `asOf` may be missing",
    }
    video = ref("VideoSummary")
    score: Schema = {"type": "number", "description": "How well it fits; only to be compared within one question"}
    ranges: Schema = {
        "type": "array",
        "description": "What fits, in characters (code points) of the text: the first, and the one after the last",
        "items": {"type": "array", "items": count, "minItems": 2, "maxItems": 2},
    }
    text: Schema = {"type": "string"}
    highlight = {
        "field": {"type": "string", "enum": ["title", "names", "tags", "description"]},
        "text": {**text, "description": "The whole text; of a description that is long, a part"},
        "ranges": ranges,
    }
    quote = {
        "language": {**text, "description": "Of the captions"},
        "start": {**count, "description": "Milliseconds from the start of the film"},
        "text": {**text, "description": "What the cue says, or some that follow each other"},
        "ranges": ranges,
    }
    found = {
        "video": video,
        "score": score,
        "highlights": {"type": "array", "items": ref("SearchHighlight")},
        "quote": ref("SearchQuote"),
    }
    values = {"type": "array", "items": ref("FacetValue"), "maxItems": MOST_VALUES}
    return {
        "FacetValue": object_of({"value": {"type": ["string", "integer"]}, "count": {"type": "integer", "minimum": 1}}),
        "Facets": {
            "type": "object",
            "description": f"The {MOST_VALUES} most frequent values of each; tags are folded",
            "properties": dict.fromkeys(FACETS, values),
            "additionalProperties": False,
        },
        "SearchHighlight": object_of(highlight),
        "SearchQuote": object_of(quote),
        "FoundVideo": object_of(found, optional=("score", "highlights", "quote")),
        "SearchPage": object_of(
            {
                "items": {"type": "array", "items": ref("FoundVideo"), "maxItems": LONGEST_PAGE},
                "total": {**count, "description": "How many videos are found"},
                "facets": ref("Facets"),
                "complete": complete,
                "asOf": as_of,
                "nextCursor": NEXT_CURSOR,
            },
            optional=("facets",),
        ),
        "SimilarVideo": object_of({"video": video, "score": score}),
        "SimilarVideos": object_of(
            {
                "items": {"type": "array", "items": ref("SimilarVideo"), "maxItems": MOST_SIMILAR},
                "complete": complete,
                "asOf": as_of,
            }
        ),
    }
