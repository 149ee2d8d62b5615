"""Jobs as desired state: what should be made of a video's film, and how far that is.

There is one Job item for each video and kind, with a hash of its input. It is wanted by writing it in state
`queued`; that write's stream record makes the router send the message, so a job cannot be queued without its
message, nor the other way round. Everything else is a conditional write on hash, attempt and state:

    (wanted) -> queued -> running -> done
                  ^          |
                  +----------+-> failed      after the last attempt, or at once when trying again is useless
                 withdrawn                   the video was deleted, or its film replaced

An attempt is counted when a worker has had it: waiting for one costs none. The number of an attempt never comes
again for the same input, so that a late report on one is not taken for a report on another.

A job is done for the request that wanted it, tried it again or ended it: `updatedFor` stays while workers, the sweeper
and reports of transcoders write the job, and what they write of its video has it as well.

Repeated and late messages and stream records therefore change nothing, a result for another input than the
present one is dropped, and the sweeper queues again whatever is past its time.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from shared.aws.dynamodb import Write
from shared.aws.leases import LEASE
from shared.aws.records import author
from shared.core.attributes import Item, without
from shared.core.caller import Caller, done_for, request_of
from shared.kinds import MINUTE, kind_of
from shared.schema import job_relation

if TYPE_CHECKING:
    from shared.entities import Job, JobAuthorship, Place

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
"""A job as clients see it, in this order."""

_OF_AN_ATTEMPT = ("startedAt", "finishedAt", "worker", *LEASE, "output")
_NO_PLACE: "Place" = {}


class Ticket(NamedTuple):
    """One attempt at one job, as its message names it."""

    video_id: str
    kind: str
    input_hash: str
    attempt: int


class Beside(NamedTuple):
    """What a job writes beside its video, in one transaction with its end."""

    output: Item
    """What it adds to the job's output."""
    writes: Sequence[Write]
    """Up to 98, each on its own condition."""


def ticket_of(job: "Job") -> Ticket:
    """The present attempt of a job."""
    return Ticket(job["videoId"], job["kind"], job["inputHash"], int(job["attempt"]))


def tries(job: "Job") -> int:
    """The number of attempts since the job was wanted or retried, this one included."""
    return int(job["attempt"] - job.get("spent", 0))


def owned_jobs(video: Item, jobs: Iterable["Job"]) -> "list[Job]":
    """Those of a video's jobs that are shown: not withdrawn, and not of an earlier video with this id.

    An id that an import uses again may for a moment still have jobs of the earlier video.
    """
    return [job for job in jobs if job["state"] in STATES and job["owner"] == video["userId"]]


def is_kept(job: "Job", video: Item) -> bool:
    """Whether the video still has the pictures that a job made."""
    return not set(job["output"].get("pictures", ())) - set(video.get("pictures", {}))


def renditions_folder(media_bucket: str, video_id: str) -> str:
    """Where all renditions of a video are: an S3 URI with a slash at its end."""
    return f"s3://{media_bucket}/renditions/{video_id}/"


def rendition_folder(media_bucket: str, video_id: str, input_hash: str) -> str:
    """Where the renditions of one input go: an S3 URI with a slash at its end."""
    return f"{renditions_folder(media_bucket, video_id)}{input_hash}/"


def document(job: "Job") -> dict[str, Any]:
    """A job as clients see it."""
    shown: Mapping[str, Any] = {**job, "attempts": tries(job)}
    return {name: shown[name] for name in FIELDS if name in shown}


def delay_before(tries: int) -> int:
    """Seconds to wait before attempt number `tries`: 0 before the first, then 15, doubled each time up to 15 minutes."""
    return min(15 * 2 ** (tries - 2), 15 * MINUTE) if tries > 1 else 0


def queued(job: "Job", actor: Caller, now: int, *, attempt: int) -> "Job":
    """The job as it waits for a worker; its stream record makes the router send the message."""
    at = now + delay_before(tries(job | {"attempt": attempt})) + kind_of(job["kind"]).patience
    return {
        **without(job, *_OF_AN_ATTEMPT),
        "state": "queued",
        "attempt": attempt,
        "progress": 0,
        "queuedAt": now,
        "sentAt": now,
        "sends": 1,
        **_relation(job, "queued", at),
        **author_of(actor, now),
    }


def wanted_by(job: "Job", actor: Caller, now: int, *, attempt: int) -> "Job":
    """The job as `actor` wants it from now on: queued, and done for that request."""
    return done_for(queued(job, actor, now, attempt=attempt), actor.correlation_id) | {"createdAt": now}


def for_job(worker: Caller, job: "Job") -> Caller:
    """The worker, acting for the request that the job is done for."""
    return worker.acting_for(request_of(job) or worker.correlation_id)


def at_rest(job: "Job", actor: Caller, now: int) -> "Job":
    """The job as it waits for nothing; only a failed one is still to be found by its state."""
    kept = without(job, *LEASE, "rel", "relShard", "relSort", "relId")
    place = _relation(job, "failed", now) if job["state"] == "failed" else _NO_PLACE
    return {**kept, **place, **author_of(actor, now)}


def _relation(job: "Job", state: str, at: int) -> "Place":
    return {**due(state, at), "relShard": 0, "relId": f"{job['videoId']}/{job['kind']}"}


def due(state: str, at: int) -> "Place":
    """What puts a job among those of its state, the first due first; `at` in epoch seconds."""
    return {"rel": job_relation(state), "relSort": at}


def author_of(actor: Caller, now: int) -> "JobAuthorship":
    """Who writes a job and when; for which request it is done stays as it was."""
    return {**author(actor, now), "updatedAs": actor.kind}
