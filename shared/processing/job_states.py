"""State machine of jobs. A Job item describes one output to create from a video's source file, and the progress of the
work.

There is one Job item per video and kind, with a hash of the job's input. To request a job, a writer sets the item's
state to `queued`. The router sends the message when it receives the stream record of that write. Every job therefore
gets a message, and every message has a job. Every other transition is a write that is conditional on hash, attempt and
state:

(wanted) -> queued -> running -> done
                  ^          |
                  +----------+-> failed      after the last attempt, or at once if final
                 withdrawn                   the video was deleted, or its source file replaced

Repeated and late messages and stream records therefore have no effect. A result for an outdated input is dropped, and
the sweeper queues overdue jobs again.

An attempt counts as soon as a worker has claimed it; time in the queue does not count. Attempt numbers are never reused
for the same input, so a late report cannot be mistaken for a report on a newer attempt.

`updatedFor` is the id of the request that created, retried or ended the job. Workers, the sweeper and transcoders do
not change it. When they write the video, they copy the id to the video.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from shared.aws.dynamodb import Write
from shared.aws.leases import LEASE
from shared.aws.records import audit_fields
from shared.core.attributes import Item, without
from shared.core.caller import Caller, request_id_of, with_request_id
from shared.job_kinds import MINUTE, kind_of
from shared.schema import job_relation

if TYPE_CHECKING:
    from shared.entities import AnyVideo, IndexAttributes, Job, JobAuthorship

LAST_ATTEMPT = 5
PENDING = ("queued", "running")
STATES = (*PENDING, "done", "failed")

FIELDS = (
    "videoId",
    "kind",
    "state",
    "attempts",
    "attempt",
    "progress",
    "error",
    "inputHash",
    "output",
    "queuedAt",
    "startedAt",
    "finishedAt",
    "updatedAt",
)
"""Attributes of a job in API responses, in this order."""

_ATTEMPT_FIELDS = ("startedAt", "finishedAt", "worker", *LEASE, "output")
_NOT_INDEXED: "IndexAttributes" = {}


class JobAttempt(NamedTuple):
    """Identity of one attempt at a job. The job's message contains these values, and the worker's reports repeat
    them."""

    video_id: str
    kind: str
    input_hash: str
    number: int
    """Number of the attempt. The first attempt at a job has the number 1."""


class ExtraWrites(NamedTuple):
    """Extra writes that a worker adds to the transaction that completes its job."""

    output: Item
    """Attributes to add to the job's output."""
    writes: Sequence[Write]
    """Writes of other items, at most 98, because the transaction also writes the job and the video. Each has its own
    condition."""


def attempt_of(job: "Job") -> JobAttempt:
    """Return the values that identify a job's current attempt."""
    return JobAttempt(job["videoId"], job["kind"], job["inputHash"], int(job["attempt"]))


def attempt_number(job: "Job") -> int:
    """Return the number of attempts since the job was first requested or last retried, including the current
    attempt."""
    return int(job["attempt"] - job.get("spent", 0))


def owned_jobs(video: "AnyVideo", jobs: Iterable["Job"]) -> "list[Job]":
    """Return the jobs to show for a video. Excludes withdrawn jobs, and jobs of a deleted video that had the same id.

    An import can reuse an id while jobs of the earlier video are still stored.
    """
    return [job for job in jobs if job["state"] in STATES and job["owner"] == video["userId"]]


def has_current_pictures(job: "Job", video: "AnyVideo") -> bool:
    """Return whether the video still has all thumbnails that this job created."""
    return not set(job["output"].get("pictures", ())) - set(video.get("pictures", {}))


def renditions_folder(media_bucket: str, video_id: str) -> str:
    """Return the S3 URI of the folder of all renditions of a video, with a trailing slash."""
    return f"s3://{media_bucket}/renditions/{video_id}/"


def rendition_folder(media_bucket: str, video_id: str, input_hash: str) -> str:
    """Return the S3 URI of the folder in which a job with this input stores its rendition, with a trailing slash."""
    return f"{renditions_folder(media_bucket, video_id)}{input_hash}/"


def document(job: "Job") -> dict[str, Any]:
    """Return a job as API responses show it."""
    shown: Mapping[str, Any] = {**job, "attempts": attempt_number(job)}
    return {name: shown[name] for name in FIELDS if name in shown}


def delay_before(attempt: int) -> int:
    """Return the seconds to wait before attempt number `attempt`.

    The delay is 0 for the first attempt and 15 for the second. It then doubles with each attempt, up to 15 minutes.
    """
    return min(15 * 2 ** (attempt - 2), 15 * MINUTE) if attempt > 1 else 0


def to_queued(job: "Job", actor: Caller, now: int, *, attempt: int) -> "Job":
    """Return the job in state `queued`.

    When the caller writes this job, the stream router sends the job's message.
    """
    at = now + delay_before(attempt_number(job | {"attempt": attempt})) + kind_of(job["kind"]).patience
    return {
        **without(job, *_ATTEMPT_FIELDS),
        "state": "queued",
        "attempt": attempt,
        "progress": 0,
        "queuedAt": now,
        "sentAt": now,
        "sends": 1,
        **_relation(job, "queued", at),
        **audit_fields_of(actor, now),
    }


def to_requested(job: "Job", actor: Caller, now: int, *, attempt: int) -> "Job":
    """Return the job in state `queued`, created at `now` and attributed to the actor's HTTP request."""
    return with_request_id(to_queued(job, actor, now, attempt=attempt), actor.correlation_id) | {"createdAt": now}


def for_job(worker: Caller, job: "Job") -> Caller:
    """Return the worker as an author whose writes carry the id of the HTTP request that caused the job."""
    return worker.acting_for(request_id_of(job) or worker.correlation_id)


def to_finished(job: "Job", actor: Caller, now: int) -> "Job":
    """Return an ended job without its lease and deadline. The caller has set the state to `done`, `failed` or
    `withdrawn`.

    Only a `failed` job stays in RelationIndex.
    """
    finished = without(job, *LEASE, "rel", "relShard", "relSort", "relId")
    index_position = _relation(job, "failed", now) if job["state"] == "failed" else _NOT_INDEXED
    return {**finished, **index_position, **audit_fields_of(actor, now)}


def _relation(job: "Job", state: str, at: int) -> "IndexAttributes":
    return {**due(state, at), "relShard": 0, "relId": f"{job['videoId']}/{job['kind']}"}


def due(state: str, at: int) -> "IndexAttributes":
    """Return the attributes that list a job in RelationIndex under its state. These lists are sorted by deadline.

    `at` is the deadline in epoch seconds.
    """
    return {"rel": job_relation(state), "relSort": at}


def audit_fields_of(actor: Caller, now: int) -> "JobAuthorship":
    """Return the attributes with the author and time of a write.

    They do not include `updatedFor`, which therefore stays unchanged.
    """
    return {**audit_fields(actor, now), "updatedAs": actor.kind}
