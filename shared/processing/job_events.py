"""Stream handlers for jobs: request or withdraw a video's jobs when it changes, and send queued jobs to the workers."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from shared.aws.dynamodb import Table
from shared.aws.stream import Record
from shared.core.telemetry import service_logger
from shared.job_kinds import kind_of
from shared.processing.concurrency import JobQuotas
from shared.processing.desired_jobs import desired_jobs, input_hash
from shared.processing.job_states import PENDING, attempt_number, delay_before
from shared.processing.job_store import JobStore
from shared.processing.messages import Outgoing, job_message

if TYPE_CHECKING:
    from shared.entities import Job


class JobEvents:
    """Handlers of stream records of videos and jobs.

    `shares` maps the name of each queue to the maximum number of concurrent jobs per owner.
    """

    def __init__(self, table: Table, shares: Mapping[str, int], media_bucket: str) -> None:
        self._jobs = JobStore(table)
        self._shares = JobQuotas(table, shares)
        self._media_bucket = media_bucket
        self._logger = service_logger()

    def video_changed(self, record: Record, now: int) -> Iterable[Outgoing]:
        """Request the jobs that the video's new state requires, and withdraw jobs that only its old state required.

        Returns no messages. The messages are sent when the stream delivers the records of the written jobs.
        """
        new = record.new
        if "source" not in new:
            return ()
        before, after = desired_jobs(record.before), desired_jobs(new)
        for kind, job_input in after.items():
            if kind not in before or input_hash(before[kind]) != input_hash(job_input):
                self._jobs.request(new, kind, job_input, now)
                self._logger.info("job created", extra={"video_id": new["videoId"], "kind": kind})
        replaced = new["status"] != "deleted"
        for kind in before.keys() - after.keys():
            self._jobs.withdraw(new, kind, now, even_done=replaced)
            self._logger.info("job cancelled", extra={"video_id": new["videoId"], "kind": kind})
        return ()

    def job_changed(self, record: Record, now: int) -> Iterator[Outgoing]:
        """Yield the message of a newly queued job if the owner's concurrency quota allows another job.

        If the job has ended, yield the messages of the owner's waiting jobs that may now be sent.
        """
        old, new = cast("Job | None", record.before), cast("Job", record.new)
        if new["state"] not in PENDING:
            yield from self._ended(old, new, now)
        elif new["state"] == "queued" and (old is None or _attempt(old) != _attempt(new)):
            if self._shares.claim(new, now):
                yield self._message(new)
            else:
                log = {"video_id": new["videoId"], "kind": new["kind"], "attempt": int(new["attempt"])}
                self._logger.info("job waits for the quota", extra=log)

    def job_removed(self, record: Record, now: int) -> Iterator[Outgoing]:
        """Yield the messages of the owner's waiting jobs that may now be sent, because a job was deleted."""
        old = cast("Job", record.old)
        yield from self._ended(old, old, now)

    def _ended(self, old: "Job | None", job: "Job", now: int) -> Iterator[Outgoing]:
        return map(self._message, self._shares.free(old, job, now))

    def _message(self, job: "Job") -> Outgoing:
        delay = delay_before(attempt_number(job)) if job["sentAt"] == job["queuedAt"] else 0
        return Outgoing(kind_of(job["kind"]).queue, job_message(job, self._media_bucket), delay)


def _attempt(job: "Job") -> tuple[object, ...]:
    """Return the attributes of a job that identify its message. The router sends a new message if a write changes one of
    these attributes and the job's new state is `queued`.

    The sweeper changes `sentAt` to make the router send the message again.
    """
    return job["state"], job["inputHash"], job["attempt"], job["sentAt"]
