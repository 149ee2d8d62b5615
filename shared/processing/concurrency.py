"""Concurrency quotas of jobs. A quota is the maximum number of one owner's jobs that are in a queue or in progress at
the same time.

A queue delivers messages in the order in which they were sent. If one owner's jobs filled the queue, jobs of other
owners would wait. Therefore the router sends no more messages for an owner than the quota allows. The owner's other
jobs wait in the table, in the order in which they were queued. Waiting does not count as an attempt, and workers and
transcoders do not see waiting jobs.

A job that was sent holds a claim on its owner's quota until the job ends. A crash can prevent the release of the claim.
The claim is then released when another job of the owner makes a claim, at the latest when the sweeper requeues a
waiting job.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from shared.aws.quotas import Claim, Quotas
from shared.job_kinds import kind_of
from shared.processing.job_states import PENDING
from shared.schema import JOB

if TYPE_CHECKING:
    from shared.entities import Job


class JobQuotas(Quotas["Job"]):
    """Concurrency quotas of jobs, by owner and queue."""

    def claim(self, job: "Job", now: int) -> bool:
        """Claim a place in the owner's quota for a queued job. Return whether the job may be sent now. Idempotent.

        If the quota is used up, the job waits until another job of the owner ends.
        """
        return self.claim_or_wait(_claim(job), now)

    def free(self, before: "Job | None", job: "Job", now: int) -> "Iterator[Job]":
        """Release the claim of a job that has ended, and yield the owner's waiting jobs that may now be sent.
        Idempotent.

        A yielded job counts as sent as soon as the caller requests the next one. Therefore the caller must stop
        iterating if sending a job fails.
        """
        if before is not None and before["state"] == "queued":
            self.stop_waiting(_claim(before))  # the job ended before it was sent
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
