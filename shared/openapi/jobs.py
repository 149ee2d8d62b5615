"""OpenAPI documentation of the operations of the function `jobs`: jobs of videos, and reports of transcoders."""

from shared.core import errors
from shared.job_kinds import KIND_PATTERN, KINDS_IN_WORDS, RENDITION
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
from shared.processing.job_states import LAST_ATTEMPT, STATES
from shared.processing.models import RenditionReport, ThumbnailChoice
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

TAG_DESCRIPTIONS = {"jobs": "Processing jobs of a source video, and reasons why a video is not ready"}
OPERATIONS: dict[str, Operation] = {
    "chooseThumbnail": Operation(
        "Set the poster frame",
        "Creates the poster again in the background; the job `poster` has the progress.",
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
        "Report the status of a rendition",
        "For transcoders: a report sets a job to running (which also renews its lease), done or failed. Send "
        "`inputHash` and `attempt` from the job's message; 409 means that the work is obsolete. A video becomes "
        "`ready` with its last required rendition.",
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
        "Lists the processing jobs of the source video, with their progress.",
        {200: {"description": "All jobs", **json_content(ref("JobList"), {"items": [JOB]})}},
        _OWNER_ERRORS,
    ),
    "retryJob": Operation(
        "Retry a failed job",
        f"Grants the job another {LAST_ATTEMPT} attempts. A queued or running job is not changed, so retries are "
        "safe; after a minute, its message is sent again.",
        {202: {"description": "Queued", **json_content(ref("Job"), JOB | {"state": "queued", "progress": 0})}},
        (*BODY_ERRORS, *_OWNER_ERRORS, errors.IllegalTransition, errors.WriteContention, errors.QuotaExceeded),
        body=EMPTY_BODY,
    ),
    "whyNotReady": Operation(
        "Explain why a video is not ready",
        "Names the obstacle and the action that resolves it.",
        {
            200: {
                "description": "The reason as a sentence",
                **json_content(
                    ref("Readiness"),
                    {
                        "videoId": EXAMPLE_ID,
                        "status": "processing",
                        "ready": False,
                        "reason": f"Creating the rendition 720p is running (40 %, attempt 1 of {LAST_ATTEMPT}).",
                        "blocker": JOB,
                    },
                ),
            }
        },
        _OWNER_ERRORS,
    ),
}


def schemas() -> Schema:
    """Return the schemas of requests and responses, by name."""
    video_id: Schema = {"type": "string", "format": "uuid"}
    job = {
        "videoId": video_id,
        "kind": _KIND,
        "state": {"type": "string", "enum": list(STATES)},
        "attempts": {
            "type": "integer",
            "minimum": 1,
            "description": "Attempts since the job was created or last retried",
        },
        "attempt": {
            "type": "integer",
            "minimum": 1,
            "description": "Attempt number to send in reports; never reused",
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
                        "description": "True if the source video is the cause: no retry can succeed; upload a different file",
                    },
                },
                optional=("final",),
            ),
            "description": "Failure of the last attempt",
        },
        "inputHash": {"type": "string", "description": "Hash of the source video and the parameters"},
        "output": {"type": "object", "description": "Result of the job"},
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
                "position": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Milliseconds from the start of the video",
                },
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
