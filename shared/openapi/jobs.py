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
PATH_PARAMETERS: dict[str, Schema] = {
    "kind": {"schema": _KIND, "example": "transcode.720p"},
    "name": {"schema": {"type": "string", "pattern": f"^{RENDITION}$"}, "example": "720p"},
}
_OWNER_ERRORS = (errors.InvalidParameter, errors.Forbidden, errors.NotFound)

OPERATIONS: dict[str, Operation] = {
    "chooseThumbnail": Operation(
        "Choose the moment that the poster shows",
        "The poster is made again in the background; the job `poster` shows its progress.",
        {
            202: {
                "description": "Accepted",
                **json_content(ref("ChosenThumbnail"), {"videoId": EXAMPLE_ID, "kind": "poster", "position": 12500}),
            }
        },
        (*BODY_ERRORS, *_OWNER_ERRORS, errors.NoSource, errors.WriteContention, errors.QuotaExceeded),
        body={"required": True, "content": {JSON: {"schema": ref("ThumbnailChoice"), "example": {"position": 12500}}}},
    ),
    "reportRendition": Operation(
        "Report on a rendition",
        "For transcoders, to say that a rendition is being made (which also renews the job's lease), is done, or has failed. "
        "`inputHash` and `attempt` come from the job's message. 409 means that the work is no longer "
        "wanted. "
        "A video becomes `ready` with the last of its wanted renditions.",
        {200: {"description": "The job after the report", **json_content(ref("Job"), JOB)}},
        (*BODY_ERRORS, *_OWNER_ERRORS, errors.OutdatedReport),
        body={
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
        "List the jobs of a video",
        "What is being made of its film, and its progress.",
        {200: {"description": "All jobs", **json_content(ref("JobList"), {"items": [JOB]})}},
        _OWNER_ERRORS,
    ),
    "retryJob": Operation(
        "Retry a failed job",
        f"The job gets all its {LAST_ATTEMPT} attempts again. One that is queued or running is left alone (after a minute, its "
        "message is sent once more), so it is safe to retry twice.",
        {202: {"description": "Queued", **json_content(ref("Job"), JOB | {"state": "queued", "progress": 0})}},
        (*BODY_ERRORS, *_OWNER_ERRORS, errors.IllegalTransition, errors.WriteContention, errors.QuotaExceeded),
        body=EMPTY_BODY,
    ),
    "whyNotReady": Operation(
        "Explain why a video is not ready",
        "Says what stands in the way, and what to do about it.",
        {
            200: {
                "description": "The reason, in a sentence",
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
    ),
}


def schemas() -> Schema:
    """The schemas of requests and answers, by name."""
    video_id: Schema = {"type": "string", "format": "uuid"}
    job = {
        "videoId": video_id,
        "kind": _KIND,
        "state": {"type": "string", "enum": list(STATES)},
        "attempts": {
            "type": "integer",
            "minimum": 1,
            "description": "Since it was first wanted, or since the last retry",
        },
        "attempt": {
            "type": "integer",
            "minimum": 1,
            "description": "The number that reports repeat; never used again",
        },
        "progress": {"type": "integer", "minimum": 0, "maximum": 100, "description": "Percent"},
        "error": {
            **object_of(
                {
                    "reason": {"type": "string"},
                    "at": SECONDS,
                    "attempt": {"type": "integer"},
                    "final": {
                        "type": "boolean",
                        "const": True,
                        "description": "Only if the film itself is the reason: no retry can succeed, another film may",
                    },
                },
                optional=("final",),
            ),
            "description": "Why the last attempt failed",
        },
        "inputHash": {"type": "string", "description": "Identifies the input: the film and the parameters"},
        "output": {"type": "object", "description": "What was made"},
        "queuedAt": SECONDS,
        "startedAt": SECONDS,
        "finishedAt": SECONDS,
        "updatedAt": SECONDS,
    }
    return model_schemas(RenditionReport, ThumbnailChoice) | {
        "Job": object_of(job, optional=("error", "output", "startedAt", "finishedAt")),
        "JobList": object_of({"items": {"type": "array", "items": ref("Job")}}),
        "ChosenThumbnail": object_of(
            {
                "videoId": video_id,
                "kind": _KIND,
                "position": {"type": "integer", "minimum": 0, "description": "Milliseconds into the film"},
            }
        ),
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
