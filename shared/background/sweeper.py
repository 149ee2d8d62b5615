"""Tasks that run once a minute: requeue overdue jobs, measure open jobs, and queue scheduled videos and due webhooks."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from shared.aws.listing import Lists, Window, sharded_partitions, single_partition
from shared.aws.sqs import Sender
from shared.core.attributes import AnyItem, Item, Value
from shared.core.caller import Caller, request_id_of
from shared.core.telemetry import log_failure, service_logger, use_correlation_id
from shared.job_kinds import KINDS, base_of
from shared.processing.job_states import attempt_of
from shared.processing.job_store import JobStore, is_overdue
from shared.processing.messages import aggregates_message, deliver_message
from shared.schema import DUE, SCHEDULED

if TYPE_CHECKING:
    from shared.entities import Job, Video

SILENT = "The worker did not finish in time, or stopped."
"""Error message of a job that is overdue although a worker had started it."""
RECONCILE_EVERY = 60
"""Minutes between two searches for missing jobs. A required job is missing only if a stream record failed permanently.
"""
MAX_MEASURED = 1000
"""Maximum number of open jobs per state for which a sweep measures the age. The limit does not apply to overdue jobs.
"""

AHEAD = 90
"""Maximum seconds before a video's scheduled time at which the sweeper queues the video. The value exceeds the interval
between sweeps."""


@dataclass
class SweepResult:
    """Result of one sweep."""

    counts: Counter[str] = field(
        default_factory=lambda: Counter(dict.fromkeys(("requeued", "resent", "failed", "skipped", "recovered"), 0))
    )
    """Number of jobs by outcome. `recovered` is the number of missing jobs that were created."""
    ages: dict[str, int] = field(default_factory=dict)
    """Age in seconds of each open job, by `videoId/kind`."""

    def open_jobs(self) -> dict[str, list[int]]:
        """Return the ages of the open jobs by queue. Queues without open jobs are omitted."""
        by_queue: dict[str, list[int]] = {}
        for job_id, age in self.ages.items():
            kind = KINDS.get(base_of(job_id.partition("/")[2]))
            if kind:  # else the job is from a later release
                by_queue.setdefault(kind.queue, []).append(age)
        return by_queue


def sweep(store: JobStore, now: int, in_time: Callable[[], bool]) -> SweepResult:
    """Requeue overdue jobs, or fail them after their last attempt, and measure the age of open jobs.

    `now` is in epoch seconds. The sweep stops when `in_time` returns false. If an error occurs for a job, this sweep
    skips the job, and the next sweep tries it again.
    """
    swept = SweepResult()

    def carefully(handle: Callable[[AnyItem], str | None], item: AnyItem) -> str | None:
        """Call `handle` with an item. Count and return the outcome, or return `None` if `handle` raised an error.

        Log lines have the correlation id of the request that wrote the item.
        """
        log = {"video_id": item["videoId"], "kind": item.get("kind")}
        with use_correlation_id(request_id_of(item)):
            try:
                outcome = handle(item)
            except Exception as error:  # also a bug: one job must not block the others
                swept.counts["skipped"] += 1
                log_failure("not swept", error, **log)
                return None
            if outcome:
                swept.counts[outcome] += 1
                service_logger().warning("job overdue", extra=log | {"outcome": outcome})
            return outcome

    def silent(job: "Job") -> str | None:
        after = store.fail(attempt_of(job), SILENT, Caller.job("sweeper"), now, retry=True)
        return _outcome(after, "requeued")

    def waiting(job: "Job") -> str | None:
        return _outcome(store.requeue(job, now), "resent")

    def processing(video: "Video") -> None:
        swept.counts["recovered"] += store.request_missing(video, now)

    def look_at(state: str, handle: "Callable[[Job], str | None]") -> None:
        for number, entry in enumerate(store.list_pending(state)):
            if is_overdue(entry, state, now):
                if not in_time():
                    return
                job = store.find_overdue(entry, state, now)
                if job is None or carefully(handle, job) == "failed":
                    continue  # the job is no longer open
            elif number >= MAX_MEASURED:
                return
            swept.ages[entry["relId"]] = now - int(entry["createdAt"])

    look_at("running", silent)
    look_at("queued", waiting)
    if now // 60 % RECONCILE_EVERY == 0:
        for video in store.processing():
            if not in_time():
                break
            carefully(processing, video)
    return swept


def enqueue_scheduled(lists: Lists, queue: Sender, now: int, in_time: Callable[[], bool]) -> int:
    """Queue each video that must be listed or unlisted in the next AHEAD seconds. The message is delayed until that
    time.

    Also queues videos for which this time has passed, because an earlier message may have been lost. They are queued
    less and less often (`_is_sent`). Returns the number of queued videos. Raises Unavailable if the index or the queue
    is unavailable. `now` is in epoch seconds. Stops when `in_time` returns false.
    """
    sent = 0
    for entry in _soon(lists, sharded_partitions(SCHEDULED), now + AHEAD, in_time):
        delay = int(entry["relSort"]) - now
        if _is_sent(-delay):
            queue.send(aggregates_message(entry["relId"], entries=True), delay_seconds=max(0, delay))
            sent += 1
    return sent


class DueResult(NamedTuple):
    """Result of `enqueue_due`."""

    sent: int
    """Number of webhooks that were queued."""
    late: int
    """Seconds by which the earliest of the due webhooks is late; 0 if no webhook is due."""


def enqueue_due(lists: Lists, queue: Sender, now: int, in_time: Callable[[], bool]) -> DueResult:
    """Queue each webhook with a due delivery or check, because its message may have been lost or never sent. A webhook
    that stays due is queued less and less often (`_is_sent`).

    Raises Unavailable if the index or the queue is unavailable. `now` is in epoch seconds. Stops when `in_time` returns
    false.
    """
    sent = late = 0
    for entry in _soon(lists, single_partition(DUE), now + 1, in_time):
        seconds = now - int(entry["relSort"])
        late = max(late, seconds)
        if _is_sent(seconds):
            queue.send(deliver_message(entry["relId"]))
            sent += 1
    return DueResult(sent, late)


def _soon(
    lists: Lists, relations: Sequence[Mapping[str, Value]], end: int, in_time: Callable[[], bool]
) -> Iterator[Item]:
    """Yield the entries of RelationIndex with a sort value below `end` (epoch seconds), earliest first.

    `relations` are partition keys of the index. Stops when `in_time` returns false.
    """
    window = Window(0, end, ascending=True, limit=100)
    while in_time():
        page = lists.related(relations, window)
        yield from page.items
        if page.resume is None:
            return
        window = window._replace(after=page.resume)


def _is_sent(seconds_late: int) -> bool:
    """Return whether this sweep sends a message that was due `seconds_late` seconds ago.

    Sweeps send the message when it is 0, 1, 2, 4 or 8 minutes late, and so on. With this backoff, a slow queue does not
    fill with repeated messages.
    """
    minutes = max(0, seconds_late) // 60
    return not minutes & (minutes - 1)  # zero or a power of two


def _outcome(after: "Job | None", done: str) -> str | None:
    """Return the outcome of an overdue job: the text `failed` if the job has failed, otherwise the argument `done`.

    `after` is the changed job. If it is `None`, another writer changed the job concurrently, and the outcome is `None`.
    """
    if after is None:
        return None
    return "failed" if after["state"] == "failed" else done
