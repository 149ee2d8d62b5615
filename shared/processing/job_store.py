"""Store of jobs. Each state transition is one conditional write, or one transaction with the video.

shared/processing/job_states.py describes the transitions.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from shared.aws.dynamodb import Table, Write
from shared.aws.expressions import Expression, change_between
from shared.aws.failures import ConditionFailed
from shared.aws.leases import Lease, LeaseLost, fence, is_leased, write_with_lease
from shared.aws.listing import LARGEST_READ, iterate_entries
from shared.aws.records import (
    CONFLICTS,
    key_of,
    retry_on_conflict,
    unchanged,
    write_once,
)
from shared.core.attributes import Item, without
from shared.core.caller import Caller, request_id_of, with_request_id
from shared.core.errors import IllegalTransition, NewerSchema, NotFound, WriteContention
from shared.job_kinds import HOUR, KINDS, MINUTE, kind_of
from shared.processing.desired_jobs import desired_jobs, input_hash, state_version
from shared.processing.job_states import (
    LAST_ATTEMPT,
    PENDING,
    STATES,
    ExtraWrites,
    JobAttempt,
    attempt_number,
    attempt_of,
    audit_fields_of,
    due,
    for_job,
    has_current_pictures,
    to_finished,
    to_queued,
    to_requested,
)
from shared.schema import (
    JOB,
    PARTITION_KEY,
    RELATION_INDEX,
    SCHEMA_VERSION,
    SHARDS,
    SORT_KEY,
    VIDEO,
    job_relation,
    status_relation,
)
from shared.videos.access import require_owned
from shared.videos.entries import as_read
from shared.videos.video import apply_job_failure, stamp

if TYPE_CHECKING:
    from shared.entities import AnyVideo, Job, JobError, Video

ROUTER, SWEEPER = Caller.job("router"), Caller.job("sweeper")
_Result = TypeVar("_Result")
LONGEST_LEASE = 2 * max(kind.lease for kind in KINDS.values())
"""Maximum seconds from now to the end of a valid lease. A lease with a later end was written by a fast clock, and
counts as expired."""
MAX_QUEUE_SECONDS = 6 * HOUR
"""Maximum seconds that a job waits for a worker before the sweeper requeues it."""


class JobStore:
    """Store of Job items, and of the video attributes that change together with a job.

    Methods raise WriteContention if concurrent writes to the same items defeat every attempt.

    >>> jobs, worker, now = JobStore(table), Caller.job("probe"), 1_750_000_000
    >>> jobs.request_missing(video, now)
    1
    >>> attempt = attempt_of(jobs.list_for_video(video["videoId"])[0])
    >>> running = jobs.claim(attempt, worker, now)
    >>> done = jobs.complete(attempt, {"duration": 5000}, worker, now, edit=lambda video: video | {"duration": 5000})
    """

    def __init__(self, table: Table) -> None:
        self.table = table

    def request(self, video: "AnyVideo", kind: str, job_input: Item, now: int, actor: Caller | None = None) -> None:
        """Queue a job that the given state of the video requires. Does nothing if the job was already requested for this
        state or a later state.

        Without an `actor`, the job is attributed to the request that last wrote the video.

        If the job exists with the same input, it is queued again only if it was withdrawn. Its earlier attempts still
        count towards the maximum number of attempts. Otherwise, a user could cause unlimited work by deleting and
        restoring a video repeatedly.
        """
        actor = actor or ROUTER.acting_for(request_id_of(video))
        job = {
            **JOB.key(videoId=video["videoId"], kind=kind),
            "videoId": video["videoId"],
            "kind": kind,
            "owner": video["userId"],
            "input": job_input,
            "inputHash": input_hash(job_input),
            "since": state_version(video),
            "schemaVersion": SCHEMA_VERSION,
        }
        new = to_requested(cast("Job", job), actor, now, attempt=1)
        condition = Expression.of(
            "attribute_not_exists(#pk) OR (#since < :since AND #inputHash <> :inputHash)",
            since=new["since"],
            inputHash=new["inputHash"],
        )
        try:
            self.table.write(self.table.put(new, condition=condition))
        except ConditionFailed as failure:
            present = _as_job(failure.item)
            if present is None or present["since"] >= new["since"]:
                return
            attempt = int(present["attempt"]) + ("startedAt" in present)
            if present["state"] != "withdrawn":
                changed: Job = {**present, **audit_fields_of(actor, now)}
            elif attempt_number(present | {"attempt": attempt}) > LAST_ATTEMPT:
                error: JobError = {
                    "reason": "The job was started too many times without finishing.",
                    "at": now,
                    "attempt": attempt - 1,
                }
                failed: Job = {**present, "state": "failed", "error": error, "finishedAt": now}
                changed = to_finished(with_request_id(failed, actor.correlation_id), actor, now)
            else:
                changed = to_requested(present, actor, now, attempt=attempt)
            self._replace(present, changed | {"since": new["since"]})

    def request_missing(self, video: "AnyVideo", now: int) -> int:
        """Queue the jobs that the video's state requires, except jobs that exist with the required input. Returns the
        number of queued jobs."""
        desired = desired_jobs(video)
        present = {job["kind"]: job["inputHash"] for job in self.list_for_video(video["videoId"])} if desired else {}
        missing = {kind: job_input for kind, job_input in desired.items() if present.get(kind) != input_hash(job_input)}
        for kind, job_input in missing.items():
            self.request(video, kind, job_input, now)
        return len(missing)

    def withdraw(self, video: "AnyVideo", kind: str, now: int, *, even_done: bool) -> None:
        """Withdraw a job that the video's current state does not require.

        Does nothing if the job has ended, unless `even_done` is true.
        """
        present = self._read(video["videoId"], kind)
        if (
            present is None
            or present["since"] >= state_version(video)
            or not (even_done or present["state"] in PENDING)
        ):
            return
        withdrawn = with_request_id(
            present | {"state": "withdrawn", "since": state_version(video)}, request_id_of(video)
        )
        changed = to_finished(withdrawn, ROUTER, now)
        self._replace(present, changed)

    def claim(self, attempt: JobAttempt, worker: Caller, now: int, instance: str = "") -> "Job | None":
        """Start an attempt and return the running job. `instance` distinguishes workers with the same name.

        Returns `None` if the attempt has already started, or if the video no longer requires the job.
        """
        lease = Lease.new(now + kind_of(attempt.kind).lease)
        change: Item = {
            "state": "running",
            **lease.attributes,
            "progress": 0,
            "startedAt": now,
            "worker": instance,
            **due("running", lease.until),
            **audit_fields_of(worker, now),
        }
        return self._update_leased(attempt, change, lease.attributes, _is_at(attempt, "queued"))

    def advance(self, attempt: JobAttempt, progress: int, worker: Caller, now: int, instance: str = "") -> "Job | None":
        """Renew the lease of a running attempt and record its progress in percent.

        Returns `None` if the attempt has ended, the video no longer requires the job, or another worker holds the
        lease.
        """
        until = now + kind_of(attempt.kind).lease
        change: Item = {
            "progress": progress,
            "leaseUntil": until,
            **due("running", until),
            **audit_fields_of(worker, now),
        }
        mine = _is_at(attempt, "running") & fence(worker=instance)
        return self._update_leased(attempt, change, change, mine)

    def _update_leased(
        self, attempt: JobAttempt, change: Item, new: Mapping[str, Any], condition: Expression
    ) -> "Job | None":
        write = self.table.update(
            JOB.key(videoId=attempt.video_id, kind=attempt.kind), change_between({}, change), condition=condition
        )
        with suppress(LeaseLost):
            return _as_job(write_with_lease(self.table, [write], new, returning="ALL_NEW"))
        return None

    def complete(
        self,
        attempt: JobAttempt,
        output: Item,
        worker: Caller,
        now: int,
        edit: Callable[["Video"], "Video"],
        extra_writes: Callable[["Video"], ExtraWrites] | None = None,
    ) -> "Job | None":
        """Write a result to the job and its video in one transaction.

        Returns `None` if the job's input is outdated, or the job has ended.

        The stored job must have the same input as `attempt`. It may already have a later attempt than `attempt`,
        because a worker with an expired lease may finish first. `edit` receives the video's item and returns it with
        the result. If it returns the item unchanged, the video is not written. `extra_writes` receives the video's item
        and returns writes to add to the transaction. Both functions are called again on each retry after a conflict.
        """

        def write(_: Item | None) -> "Job | None":
            job = self._pending(attempt)
            video = self.find_video(job) if job else None
            if job is None or video is None:
                return None
            more = extra_writes(video) if extra_writes else ExtraWrites({}, ())
            done: Job = {**job, "state": "done", "progress": 100, "output": output | more.output, "finishedAt": now}
            done.pop("error", None)
            done = to_finished(done, worker, now)
            edited = edit(video)
            new = stamp(edited, caller=for_job(worker, job), now=now, version=video["version"] + 1)
            self._write_both(job, done, video, video if edited == video else new, more.writes)
            return done

        return self._retry(write, "the video")

    def fail(
        self, attempt: JobAttempt, reason: str, worker: Caller, now: int, *, retry: bool, final: bool = False
    ) -> "Job | None":
        """End an attempt that has no result.

        With `retry`, queues the next attempt. Without `retry`, or after the last attempt, the job fails. If the video
        cannot become ready without this job, the transaction that stores the failure also sets the video's status to
        `failed`.

        `final` records that no retry can succeed, because the source file is the cause. Returns `None` if the attempt
        is outdated.
        """
        error: JobError = {"reason": reason, "at": now, "attempt": attempt.number}
        if final:
            error["final"] = True

        def write(_: Item | None) -> "Job | None":
            job = self._pending(attempt)
            if job is None or job["attempt"] != attempt.number:
                return None
            if retry and attempt_number(job) < LAST_ATTEMPT:
                return self._replaced(job, to_queued(job | {"error": error}, worker, now, attempt=attempt.number + 1))
            failed = to_finished(job | {"state": "failed", "error": error, "finishedAt": now}, worker, now)
            video = self.find_video(job) if kind_of(job["kind"]).needed else None
            if video is None:
                return self._replaced(job, failed)
            edited = apply_job_failure(video, job["kind"], reason, now)
            new = stamp(edited, caller=for_job(worker, job), now=now, version=video["version"] + 1)
            self._write_both(job, failed, video, new)
            return failed

        return self._retry(write, "the video")

    def requeue(self, job: "Job", now: int, actor: Caller = SWEEPER) -> "Job | None":
        """Make the router send the message of a waiting job again, without starting another attempt.

        If the job has waited too long, it fails instead. Returns `None` if the job is no longer waiting.
        """
        kind = kind_of(job["kind"])
        if now - job["queuedAt"] >= kind.longest_wait:
            reason = f"No worker took the job within {kind.longest_wait // HOUR} hours."
            return self.fail(attempt_of(job), reason, actor, now, retry=False)
        sends = int(job["sends"]) + 1
        due = now + min(kind.patience * 2 ** (sends - 1), MAX_QUEUE_SECONDS)
        changed: Job = {**job, "sentAt": now, "sends": sends, "relSort": due, **audit_fields_of(actor, now)}
        with suppress(*CONFLICTS):
            return self._replaced(job, changed)
        return None

    def retry(self, video_id: str, kind: str, caller: Caller, now: int, charge: Callable[[str], None]) -> "Job":
        """Queue a failed job again with a new set of attempts, and remove the job's failure from the video.

        Also queues a job that does not exist yet, and a done job if a user removed its thumbnails. `charge` is called
        with the owner's id before the first write. A pending job stays unchanged, but its message is sent again if it
        may be lost. Therefore a repeated retry is harmless.

        Raises NotFound if the video requires no job of this kind, and IllegalTransition if the job is done or the video
        is deleted.
        """
        charged = False

        def write(_: Item | None) -> "Job":
            nonlocal charged
            video = require_owned(self.table.get(VIDEO.key(videoId=video_id), consistent=True), caller, now)
            job = self._read(video_id, kind)
            job_input = desired_jobs(video).get(kind)
            if video["status"] == "deleted":
                raise IllegalTransition.deleted()
            if job_input is None:
                raise NotFound("The video has no job of this kind. GET its jobs to see which kinds it has.")
            present = job if job and job["state"] in STATES and job["inputHash"] == input_hash(job_input) else None
            if present and present["state"] == "done" and has_current_pictures(present, video):
                raise IllegalTransition("The job is done. Only failed jobs can be retried.")
            if present and present["state"] in PENDING:
                is_message_lost = present["state"] == "queued" and now - present["sentAt"] >= MINUTE
                return self.requeue(present, now, caller) or present if is_message_lost else present
            if not charged:
                charge(video["userId"])
                charged = True
            if present is None:
                self.request(video, kind, job_input, now, caller)
                raise ConditionFailed(None)  # `retry_on_conflict` then calls `write` again, which reads the new job
            requeued = to_requested(present, caller, now, attempt=int(present["attempt"]) + 1)
            requeued = without(requeued, "error") | {"spent": present["attempt"]}
            freed = self._freed(video, kind)
            if freed == video:
                return self._replaced(present, requeued)
            new = stamp(freed, caller=caller, now=now, version=video["version"] + 1)
            self._write_both(present, requeued, video, new)
            return requeued

        return self._retry(write, "the job")

    def _freed(self, video: "Video", kind: str) -> "Video":
        """Return the video after a retry of the failed job `kind`: in state `processing`, and without a failure.

        If another required job has failed, the video stays `failed`, with the failure of that job. Returns `video`
        unchanged if the retried job is not required, or the video is not `failed`.
        """
        if not (kind_of(kind).needed and video["status"] == "failed" and "failure" in video):
            return video
        for job in self.list_for_video(video["videoId"]):
            if job["kind"] != kind and job["state"] == "failed" and kind_of(job["kind"]).needed:
                error = job["error"]
                return {**video, "failure": {"job": job["kind"], "reason": error["reason"], "at": error["at"]}}
        return without(video, "failure") | {"status": "processing"}

    def get(self, attempt: JobAttempt) -> "Job | None":
        """Return the job of an attempt, even if the job now has another attempt or another input.

        `None` if the job does not exist or was withdrawn. Costs one GetItem.
        """
        job = self._read(attempt.video_id, attempt.kind)
        return job if job and job["state"] in STATES else None

    def list_for_video(self, video_id: str) -> "list[Job]":
        """Return all jobs of a video, except withdrawn ones. Costs one Query."""
        key = JOB.key(videoId=video_id, kind="")
        page = self.table.query(
            index=None,
            condition=Expression.of("#pk = :pk AND begins_with(#sk, :sk)", **key),
            limit=100,
        )
        jobs = cast("list[Job]", page.items)
        return [job for job in jobs if job["state"] in STATES]

    def list_pending(self, state: str) -> Iterator[Item]:
        """Yield the index entries of the jobs in the pending state `state`, sorted by deadline (`relSort`).

        `relId` is `videoId/kind`, and `createdAt` is the time at which the job was requested.
        """
        yield from self._index_entries(job_relation(state), 0, ("relSort", "relId", "createdAt"))

    def find_overdue(self, entry: Item, state: str, now: int) -> "Job | None":
        """Return the job of an index entry, or `None` if the job is no longer in the state `state`, or is not
        overdue."""
        job = _as_job(self._at(entry))
        # The index is eventually consistent, so the stored job may already have another state or deadline.
        still = job is not None and job.get("rel") == job_relation(state) and is_overdue(job, state, now)
        return job if still else None

    def processing(self) -> "Iterator[Video]":
        """Yield the items of all videos in state `processing`. Costs one consistent GetItem per video."""
        relation = status_relation("processing")
        for shard in range(SHARDS):
            for entry in self._index_entries(relation, shard):
                video = self._at(entry)
                if video is not None and video.get("rel") == relation:
                    yield cast("Video", video)

    def _at(self, entry: Item) -> Item | None:
        """Return the item to which an index entry refers, or `None` if the item was deleted.

        Also returns `None` for an item that a newer release wrote, because the sweeper of that release handles it.
        """
        with suppress(NewerSchema):
            return self.table.get(key_of(entry), consistent=True)
        return None

    def _index_entries(self, relation: str, shard: int, attributes: Sequence[str] = ()) -> Iterator[Item]:
        """Yield the entries of one RelationIndex partition, in order.

        Each entry has the primary key of the indexed item, and the attributes named by `attributes`.
        """
        partition = {"rel": relation, "relShard": shard}
        return iterate_entries(
            self.table,
            RELATION_INDEX.name,
            partition,
            attributes=(PARTITION_KEY, SORT_KEY, *attributes),
            limit=LARGEST_READ,
        )

    def _read(self, video_id: str, kind: str) -> "Job | None":
        return _as_job(self.table.get(JOB.key(videoId=video_id, kind=kind), consistent=True))

    def _pending(self, attempt: JobAttempt) -> "Job | None":
        job = self._read(attempt.video_id, attempt.kind)
        return job if job and job["inputHash"] == attempt.input_hash and job["state"] in PENDING else None

    def find_video(self, job: "Job") -> "Video | None":
        """Return the job's video by a consistent read; `None` if the video's current state does not require a job with
        exactly the input of `job`."""
        video = cast("Video | None", self.table.get(VIDEO.key(videoId=job["videoId"]), consistent=True))
        job_input = desired_jobs(video).get(job["kind"])
        return video if job_input is not None and input_hash(job_input) == job["inputHash"] else None

    def _write_both(
        self, job: "Job", changed: "Job", video: "Video", new: "Video", writes: Sequence[Write] = ()
    ) -> None:
        """Write the job, the video and the extra `writes` in one transaction.

        Raises one of CONFLICTS if an item changed since it was read.
        """
        key, present = VIDEO.key(videoId=video["videoId"]), as_read(video)
        update = self.table.update(key, change_between(video, new), condition=present)
        first = self.table.check(key, condition=present) if new is video else update
        # If an earlier attempt succeeded, the first false condition is the one on the video or on the job. `write_once`
        # then finds that it stored this item itself.
        write_once(self.table, [first, self._change(job, changed), *writes], None if new is video else new, changed)

    def _retry(self, attempt: Callable[[Item | None], _Result], what: str) -> _Result:
        return retry_on_conflict(attempt, what, pause=self.table.pause, on=CONFLICTS)

    def _replaced(self, job: "Job", changed: "Job") -> "Job":
        """Replace the stored `job` with `changed`, without a write to the video. Return `changed`.

        Raises one of CONFLICTS if the stored job differs from `job`.
        """
        write_once(self.table, [self._change(job, changed)], changed)
        return changed

    def _replace(self, job: "Job", changed: "Job") -> None:
        # The caller is the stream router. After WriteContention, Lambda delivers the router's stream record again.
        try:
            self._replaced(job, changed)
        except CONFLICTS as conflict:
            raise WriteContention("the job") from conflict

    def _change(self, job: "Job", changed: "Job") -> Write:
        return self.table.update(key_of(job), change_between(job, changed), condition=unchanged(job))


def _as_job(item: Item | None) -> "Job | None":
    return cast("Job | None", item)


def is_overdue(entry: Mapping[str, Any], state: str, now: int) -> bool:
    """Return whether a pending job is past its deadline, which `relSort` stores.

    The deadline of a running job is the end of its lease. A running job is also overdue if its lease ends too late to
    be valid (LONGEST_LEASE).
    """
    at = int(entry["relSort"])
    return at < now or (state == "running" and at > now and not is_leased({"leaseUntil": at}, now, LONGEST_LEASE))


def _is_at(attempt: JobAttempt, state: str) -> Expression:
    """Return the condition that the stored job still has the input and number of `attempt`, and this state."""
    return fence(inputHash=attempt.input_hash, attempt=attempt.number, state=state)
