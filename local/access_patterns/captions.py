"""Access patterns of captions and chapters."""

from local.access_patterns.pattern import READ_FIRST, AccessPattern
from shared.schema import CAPTION, CHAPTERS

_CAPTIONS = f"pk = {CAPTION.pk}, sk = {CAPTION.sk}"
_CHAPTERS = f"pk = {CHAPTERS.pk}, sk = {CHAPTERS.sk}"
_SIGNED_FIRST = "The read says who may change it, and what it is changed from; the first write says who removes it, because a removal in the stream does not."

CAPTIONS = (
    AccessPattern(
        "Add the captions of a language",
        "PUT /v1/videos/{videoId}/captions/{language}",
        ("BatchGetItem", "Query", "PutItem"),
        None,
        f"the video and {_CAPTIONS}; sk begins with CAPTION#, to count the languages; PutObject of the text; then {_CAPTIONS}, if "
        "nobody wrote it meanwhile",
        "2.5 RRU, 1 WRU; 1 PutObject",
        beyond="The reads say who may write it, what is there, and that the video has not too many; to replace captions, nothing is counted.",
    ),
    AccessPattern(
        "Remove the captions of a language",
        "DELETE /v1/videos/{videoId}/captions/{language}",
        ("BatchGetItem", "UpdateItem", "DeleteItem"),
        None,
        f"the video and {_CAPTIONS}; that twice, if nobody wrote it meanwhile: signed, and removed",
        "2 RRU, 2 WRU; the object stays until the video goes",
        beyond=_SIGNED_FIRST,
    ),
    AccessPattern(
        "Which captions are there?",
        "GET /v1/videos/{videoId}/captions",
        ("GetItem", "Query"),
        None,
        f"the video, to know who asks; pk = {CAPTION.pk}, sk begins with CAPTION#",
        "0.5 RRU, and 0.5 per 4 KB",
    ),
    AccessPattern(
        "What do they say?",
        "GET /v1/videos/{videoId}/captions/{language}",
        ("BatchGetItem",),
        None,
        f"the video, to know who asks, and {_CAPTIONS}; GetObject of the text, unless the client has it",
        "1 RRU; 1 GetObject",
    ),
    AccessPattern(
        "Divide a film into chapters",
        "PUT /v1/videos/{videoId}/chapters",
        ("BatchGetItem", "PutItem"),
        None,
        f"the video and {_CHAPTERS}; then that, if nobody wrote it meanwhile",
        "2 RRU, 1 WRU per KB",
        beyond=READ_FIRST,
    ),
    AccessPattern(
        "Remove the chapters",
        "DELETE /v1/videos/{videoId}/chapters",
        ("BatchGetItem", "UpdateItem", "DeleteItem"),
        None,
        f"the video and {_CHAPTERS}; that twice, if nobody wrote it meanwhile: signed, and removed",
        "2 RRU, 2 WRU per KB",
        beyond=_SIGNED_FIRST,
    ),
    AccessPattern(
        "Which chapters does a film have?",
        "GET /v1/videos/{videoId}/chapters",
        ("BatchGetItem",),
        None,
        f"the video, to know who asks, {_CHAPTERS}, and sk = JOB#storyboard, which proposes some to the owner",
        "1.5 RRU",
    ),
)
