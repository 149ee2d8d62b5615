"""Access patterns of captions and chapters."""

from local.access_patterns.pattern import READ_FIRST, AccessPattern
from shared.schema import CAPTION, CHAPTERS

_CAPTIONS = f"pk = {CAPTION.pk}, sk = {CAPTION.sk}"
_CHAPTERS = f"pk = {CHAPTERS.pk}, sk = {CHAPTERS.sk}"
_AUTHOR_FIRST = "The read checks the caller's permission. The first write records the author, because the stream record of a delete has none."

CAPTIONS = (
    AccessPattern(
        "Add the captions of a language",
        "PUT /v1/videos/{videoId}/captions/{language}",
        ("BatchGetItem", "Query", "PutItem"),
        None,
        f"the video and {_CAPTIONS}; sk begins with CAPTION#, to count the languages; PutObject of the text; then {_CAPTIONS}, if "
        "unchanged",
        "2.5 RRU, 1 WRU; 1 PutObject",
        reason="The reads check the caller's permission, the previous state and the number of languages. A replacement skips the count.",
    ),
    AccessPattern(
        "Delete the captions of a language",
        "DELETE /v1/videos/{videoId}/captions/{language}",
        ("BatchGetItem", "UpdateItem", "DeleteItem"),
        None,
        f"the video and {_CAPTIONS}; the item twice if unchanged: an update that records the author, and the delete",
        "2 RRU, 2 WRU; the object is deleted with the video",
        reason=_AUTHOR_FIRST,
    ),
    AccessPattern(
        "List the captions of a video",
        "GET /v1/videos/{videoId}/captions",
        ("GetItem", "Query"),
        None,
        f"the video, to check access; pk = {CAPTION.pk}, sk begins with CAPTION#",
        "0.5 RRU, and 0.5 per 4 KB",
    ),
    AccessPattern(
        "Read the captions of a language",
        "GET /v1/videos/{videoId}/captions/{language}",
        ("BatchGetItem",),
        None,
        f"the video, to check access, and {_CAPTIONS}; GetObject of the text, unless the client has cached it",
        "1 RRU; 1 GetObject",
    ),
    AccessPattern(
        "Set the chapters of a video",
        "PUT /v1/videos/{videoId}/chapters",
        ("BatchGetItem", "PutItem"),
        None,
        f"the video and {_CHAPTERS}; then the item if unchanged",
        "2 RRU, 1 WRU per KB",
        reason=READ_FIRST,
    ),
    AccessPattern(
        "Delete the chapters",
        "DELETE /v1/videos/{videoId}/chapters",
        ("BatchGetItem", "UpdateItem", "DeleteItem"),
        None,
        f"the video and {_CHAPTERS}; the item twice if unchanged: an update that records the author, and the delete",
        "2 RRU, 2 WRU per KB",
        reason=_AUTHOR_FIRST,
    ),
    AccessPattern(
        "Read the chapters of a video",
        "GET /v1/videos/{videoId}/chapters",
        ("BatchGetItem",),
        None,
        f"the video, to check access, {_CHAPTERS}, and sk = JOB#storyboard, which contains suggestions for the owner",
        "1.5 RRU",
    ),
)
