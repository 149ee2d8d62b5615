"""The operations of the function `jobs`."""

from shared.core import errors
from shared.films.job import LAST_ATTEMPT, STATES
from shared.films.models import RenditionReport, ThumbnailChoice
from shared.kinds import KIND_PATTERN, KINDS_IN_WORDS, RENDITION
from shared.openapi.spec import (
    BODY_ERRORS,
    EMPTY_BODY,
    EXAMPLE_ID,
    SECONDS,
    STATUS,
    VIDEO_ID,
    Operation,
    json_content,
    model_schemas,
    object_of,
    ref,
)
from shared.web.parameters import Schema
from shared.web.requests import JSON

HASH = "9f86d081884c7d659a2feaa0c55ad015"
JOB: Schema = {
    "videoId": EXAMPLE_ID,
    "kind": "transcode.720p",
    "state": "running",
    "attempts": 1,
    "attempt": 1,
    "progress": 40,
    "inputHash": HASH,
    "queuedAt": 1717645200,
    "startedAt": 1717645201,
    "updatedAt": 1717645230,
}
_KIND: Schema = {
    "type": "string",
    "pattern": f"^({KIND_PATTERN})$",
    "description": KINDS_IN_WORDS,
}
_OWNER_ERRORS = (errors.InvalidParameter, errors.Forbidden, errors.NotFound)

OPERATIONS: dict[str, Operation] = {
    "chooseThumbnail": Operation(
        "Choose the moment that the poster shows",
        "The poster is made anew in the background; the job `poster` tells how far that is.",
        {
            202: {
                "description": "Wanted",
                **json_content(ref("ChosenThumbnail"), {"videoId": EXAMPLE_ID, "kind": "poster", "time": 12.5}),
            }
        },
        (*BODY_ERRORS, *_OWNER_ERRORS, errors.NoSource, errors.WriteContention, errors.QuotaExceeded),
        (VIDEO_ID,),
        {"required": True, "content": {JSON: {"schema": ref("ThumbnailChoice"), "example": {"time": 12.5}}}},
    ),
    "reportRendition": Operation(
        "Report on a rendition",
        "For transcoders: that one is being made (which also keeps the job's lease), is done, or has failed. "
        "`inputHash` and `attempt` come from the job's message. 409 means that the work is no longer wanted, unless it has `Retry-After`: then report again. "
        "A video becomes `ready` with the last of its wanted renditions.",
        {200: {"description": "Taken into account", **json_content(ref("Job"), JOB)}},
        (*BODY_ERRORS, *_OWNER_ERRORS, errors.OutdatedReport, errors.WriteContention),
        (
            VIDEO_ID,
            {
                "name": "name",
                "in": "path",
                "required": True,
                "schema": {"type": "string", "pattern": f"^{RENDITION}$"},
                "example": "720p",
            },
        ),
        {
            "required": True,
            "content": {
                JSON: {
                    "schema": ref("RenditionReport"),
                    "example": {"inputHash": HASH, "attempt": 1, "state": "running", "progress": 40},
                }
            },
        },
    ),
    "listJobs": Operation(
        "The jobs of a video",
        "What is being made of its film, and how far that is.",
        {200: {"description": "All of them", **json_content(ref("JobList"), {"items": [JOB]})}},
        _OWNER_ERRORS,
        (VIDEO_ID,),
    ),
    "retryJob": Operation(
        "Try a failed job again",
        f"With all its {LAST_ATTEMPT} attempts. A job that is queued or running is left alone (after a minute its message is sent once more), so asking again is harmless.",
        {202: {"description": "Queued", **json_content(ref("Job"), JOB | {"state": "queued", "progress": 0})}},
        (*BODY_ERRORS, *_OWNER_ERRORS, errors.IllegalTransition, errors.WriteContention, errors.QuotaExceeded),
        (VIDEO_ID, {"name": "kind", "in": "path", "required": True, "schema": _KIND, "example": "transcode.720p"}),
        EMPTY_BODY,
    ),
    "whyNotReady": Operation(
        "Why is the video not ready?",
        "Names what stands in the way, and what to do about it.",
        {
            200: {
                "description": "In a sentence",
                **json_content(
                    ref("Readiness"),
                    {
                        "videoId": EXAMPLE_ID,
                        "status": "processing",
                        "ready": False,
                        "reason": f"Making the rendition 720p is under way (40 %, attempt 1 of {LAST_ATTEMPT}).",
                        "blocker": JOB,
                    },
                ),
            }
        },
        _OWNER_ERRORS,
        (VIDEO_ID,),
    ),
}


def schemas() -> Schema:
    """The schemas of requests and answers, by name."""
    video_id: Schema = {"type": "string", "format": "uuid"}
    job = {
        "videoId": video_id,
        "kind": _KIND,
        "state": {"enum": list(STATES)},
        "attempts": {"type": "integer", "minimum": 1, "description": "Since it was wanted, or tried again by a retry"},
        "attempt": {
            "type": "integer",
            "minimum": 1,
            "description": "The number that reports give back; never used again",
        },
        "progress": {"type": "integer", "minimum": 0, "maximum": 100, "description": "Percent"},
        "error": {
            **object_of({"reason": {"type": "string"}, "at": SECONDS, "attempt": {"type": "integer"}}),
            "description": "Why the last attempt came to nothing",
        },
        "inputHash": {"type": "string", "description": "Tells one input (film and parameters) from another"},
        "output": {"type": "object", "description": "What was made"},
        "queuedAt": SECONDS,
        "startedAt": SECONDS,
        "finishedAt": SECONDS,
        "updatedAt": SECONDS,
    }
    return model_schemas(RenditionReport, ThumbnailChoice) | {
        "Job": object_of(job, optional=("error", "output", "startedAt", "finishedAt")),
        "JobList": object_of({"items": {"type": "array", "items": ref("Job")}}),
        "ChosenThumbnail": object_of({"videoId": video_id, "kind": _KIND, "time": {"type": "number", "minimum": 0}}),
        "Readiness": object_of(
            {
                "videoId": video_id,
                "status": STATUS,
                "ready": {"type": "boolean"},
                "reason": {"type": "string"},
                "blocker": {"anyOf": [ref("Job"), {"type": "null"}]},
            }
        ),
    }
