"""OpenAPI documentation of the operations of the function `search`."""

from shared.core import errors
from shared.openapi.spec import EXAMPLE_ID, LINK, NEXT_CURSOR, Operation, json_content, object_of, ref
from shared.queries import MAX_SIMILAR
from shared.video_fields import FACETS
from shared.web.paging import LONGEST_PAGE
from shared.web.parameters import Schema

DEEPEST = 1_000
"""Maximum number of hits that a client can read of one query, on all pages together."""
MAX_VALUES = 100
"""Maximum number of values that a response lists for a facet."""

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
_FALLS_BEHIND = "The index lags by one or two seconds; while `complete` is false, changes after `asOf` may be missing. "

TAG_DESCRIPTIONS = {"search": "Full-text search in metadata and captions, and similar videos"}
OPERATIONS: dict[str, Operation] = {
    "searchVideos": Operation(
        "Search videos",
        "Ranks matches in titles, then names, tags, descriptions and captions; all words must match, ignoring "
        "case, accents and small typos. "
        + _FALLS_BEHIND
        + f"Only visible videos are found, up to {DEEPEST:,} for each query; 503 with `Retry-After` means that the "
        "index is unavailable or behind.",
        {200: {"description": "A page", "headers": LINK, **json_content(ref("SearchPage"), FOUND)}},
        (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden),
    ),
    "similarVideos": Operation(
        "List similar videos",
        "Compares rare title words, tags, descriptions and captions; the list is empty until the index has the "
        "video. "
        + _FALLS_BEHIND
        + "Returns 503 with `Retry-After` while the index is unavailable or a new instance of it is still loading.",
        {
            200: {
                "description": "Similar videos, most similar first",
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
    """Return the schemas of responses, by name."""
    count: Schema = {"type": "integer", "minimum": 0}
    as_of: Schema = {**count, "description": "Epoch milliseconds: the index has all changes up to this time"}
    complete: Schema = {
        "type": "boolean",
        "description": "Whether the index had all changes; if not, videos that changed after `asOf` may be missing",
    }
    video = ref("VideoSummary")
    score: Schema = {"type": "number", "description": "Relevance; comparable only within one query"}
    ranges: Schema = {
        "type": "array",
        "description": "Matches as half-open ranges of characters (code points) of `text`",
        "items": {"type": "array", "items": count, "minItems": 2, "maxItems": 2},
    }
    text: Schema = {"type": "string"}
    highlight = {
        "field": {"type": "string", "enum": ["title", "names", "tags", "description"]},
        "text": {**text, "description": "The whole field, or an excerpt of a long description"},
        "ranges": ranges,
    }
    quote = {
        "language": {**text, "description": "Language of the captions"},
        "start": {**count, "description": "Milliseconds from the start of the video"},
        "text": {**text, "description": "Text of a cue, or of several consecutive cues"},
        "ranges": ranges,
    }
    found = {
        "video": video,
        "score": score,
        "highlights": {"type": "array", "items": ref("SearchHighlight")},
        "quote": ref("SearchQuote"),
    }
    values = {"type": "array", "items": ref("FacetValue"), "maxItems": MAX_VALUES}
    return {
        "FacetValue": object_of({"value": {"type": ["string", "integer"]}, "count": {"type": "integer", "minimum": 1}}),
        "Facets": {
            "type": "object",
            "description": f"The {MAX_VALUES} most frequent values of each facet; tags are case-folded",
            "properties": dict.fromkeys(FACETS, values),
            "additionalProperties": False,
        },
        "SearchHighlight": object_of(highlight),
        "SearchQuote": object_of(quote),
        "FoundVideo": object_of(found, optional=("score", "highlights", "quote")),
        "SearchPage": object_of(
            {
                "items": {"type": "array", "items": ref("FoundVideo"), "maxItems": LONGEST_PAGE},
                "total": {**count, "description": "Number of all matching videos"},
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
                "items": {"type": "array", "items": ref("SimilarVideo"), "maxItems": MAX_SIMILAR},
                "complete": complete,
                "asOf": as_of,
            }
        ),
    }
