"""Reasons why a video is not ready, as sentences for its owner."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.job_kinds import kind_of
from shared.processing.desired_jobs import desired_jobs, input_hash
from shared.processing.job_states import LAST_ATTEMPT, attempt_number

if TYPE_CHECKING:
    from shared.entities import AnyVideo, Job

SOON = 10
"""Seconds within which the stream router normally queues a new job. It takes longer if the router lags behind the
stream."""


def why_not_ready(video: "AnyVideo", jobs: "Sequence[Job]", now: int) -> "tuple[str, Job | None]":
    """Return the reason why a video is not ready, as a sentence, and the job for which the video waits.

    The job is `None` if the video does not wait for an existing job. `now` is in epoch seconds.
    """
    if video["status"] == "ready":
        return "The video is ready.", None
    if video["status"] == "deleted":
        return "The video is deleted. Restore it first.", None
    desired = desired_jobs(video)
    # Jobs for an earlier source file are ignored.
    by_kind = {job["kind"]: job for job in jobs if job["inputHash"] == input_hash(desired.get(job["kind"], {}))}
    failure = video.get("failure")
    if video["status"] == "failed" and failure and failure["job"] not in by_kind:
        return f"{failure['reason']} Upload a file by POST .../upload.", None
    if "source" not in video:
        return "No source video has arrived. Begin an upload by POST .../upload.", None
    needed = [kind for kind in desired if kind_of(kind).needed]
    # Failures are first, because the owner must act on them. The other states only need time.
    order = ("failed", "missing", "running", "queued")
    states = {kind: by_kind[kind]["state"] if kind in by_kind else "missing" for kind in needed}
    blockers = sorted(
        (kind for kind in needed if states[kind] in order), key=lambda kind: (order.index(states[kind]), kind)
    )
    if not blockers:
        return f"All required jobs are done, but a PATCH set the status to {video['status']}.", None
    kind = blockers[0]
    if kind not in by_kind:
        return _not_queued(kind, now - _requested_at(video, kind, by_kind.get("probe"))), None
    return _sentence(kind, by_kind[kind], now), by_kind[kind]


def _requested_at(video: "AnyVideo", kind: str, probe: "Job | None") -> int:
    """Return the time, in epoch seconds, of the change that made the video require this job.

    The stream router may not have processed that change yet.
    """
    arrived = int(video["source"]["arrivedAt"])
    return int(probe["finishedAt"]) if kind_of(kind).after_probe and probe and "finishedAt" in probe else arrived


def _not_queued(kind: str, waited: int) -> str:
    if waited < SOON:
        return f"{_work(kind)} starts within {SOON} seconds."
    # An earlier retry would not help, because the retried job would also wait behind these changes.
    return (
        f"{_work(kind)} has been waiting for {waited} seconds behind older changes, such as an import. After an hour, "
        f"POST .../jobs/{kind}/retry."
    )


def _sentence(kind: str, job: "Job", now: int) -> str:
    work = _work(kind)
    attempt = f"attempt {attempt_number(job)} of {LAST_ATTEMPT}"
    last = f" Last error: {job['error']['reason']}" if "error" in job else ""
    match job["state"]:
        case "failed" if job["error"].get("final"):
            return f"{work} failed: {job['error']['reason']} Upload a different file by POST .../upload."
        case "failed":
            return f"{work} failed: {job['error']['reason']} Upload a different file, or POST .../jobs/{kind}/retry."
        case "running":
            return f"{work} is running ({int(job['progress'])} %, {attempt}).{last}"
        case _:
            return f"{work} has been waiting for a worker for {now - int(job['queuedAt'])} seconds ({attempt}).{last}"


def _work(kind: str) -> str:
    return f"{kind_of(kind).work} {kind.partition('.')[2]}".rstrip()
