"""Concurrency quotas of jobs: the jobs of one owner that may be with the workers at a time.

A queue delivers messages in the order in which they were sent. So the router sends at most an owner's quota, and the owner's other
jobs wait in the table in the order in which they were queued. An owner who has sent nothing yet finds at most one quota of each other
owner before it. Waiting does not count as an attempt, and workers and transcoders need not know of it.

The next job that finds a claim whose release was lost arrives at the latest when the sweeper has the message of a waiting job sent
once more.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from shared.aws.quotas import Claim, Quotas
from shared.films.job import PENDING
from shared.kinds import kind_of
from shared.schema import JOB

if TYPE_CHECKING:
    from shared.entities import Job


class ShareStore(Quotas["Job"]):
    """Quotas of jobs, by owner and queue."""

    def claim(self, job: "Job", now: int) -> bool:
        """Return whether a queued job may be sent now; otherwise it waits for another of its owner's to end. Idempotent."""
        return self.claim_or_wait(_claim(job), now)

    def free(self, before: "Job | None", job: "Job", now: int) -> "Iterator[Job]":
        """Release the place of a job that has ended, and yield the jobs to send instead. Idempotent.

        Each counts as sent when the next is requested: after a failure to send one, do not request the next.
        """
        if before is not None and before["state"] == "queued":
            self.stop_waiting(_claim(before))  # it ended before it was begun
        yield from self.release(_claim(job), now)

    def _is_open(self, name: str) -> bool:
        job = self._job(name)
        return job is not None and job["state"] in PENDING

    def _waiting(self, claim: Claim) -> "Job | None":
        job = self._job(claim.name)
        return job if job and job["state"] == "queued" and _claim(job) == claim else None

    def _job(self, name: str) -> "Job | None":
        video_id, _, kind = name.partition("/")
        return cast("Job | None", self.table.get(JOB.key(videoId=video_id, kind=kind), consistent=True))


def _claim(job: "Job") -> Claim:
    return Claim(job["owner"], kind_of(job["kind"]).queue, f"{job['videoId']}/{job['kind']}", job["queuedAt"])
