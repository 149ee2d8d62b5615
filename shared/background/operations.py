"""State of the service for administrators: totals, uploads and views by hour, queues, jobs, webhooks and search index.

Each part is read separately, so that a failure of one part does not hide the other parts. All reads are by key or
index, and read a limited number of items, whatever the size of the catalogue.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from shared.aws.dynamodb import Table, gather, require_all
from shared.aws.expressions import Expression
from shared.aws.listing import Lists, Window, single_partition
from shared.background.totals import PROFILE_COUNTS
from shared.core.attributes import Item
from shared.core.errors import TRANSIENT_ERRORS, Unavailable
from shared.core.limits import LAST_SECOND
from shared.core.periods import HOUR_SECONDS, hour_of
from shared.core.telemetry import log_failure
from shared.job_kinds import KINDS, base_of
from shared.processing.job_states import PENDING
from shared.schema import (
    COMPARISON_REPORT,
    DUE,
    INDEX,
    JOB,
    PARTITION_KEY,
    SERVICE_TOTALS,
    SHARDS,
    SORT_KEY,
    UPLOAD_HOUR,
    VIEWS_BY_HOUR,
    WEBHOOK_STATE,
    job_relation,
)
from shared.threads import map_threads
from shared.videos.video import STATUSES

if TYPE_CHECKING:
    from shared.aws.sqs import Queue

HOURS = 24
"""Number of hours for which uploads and views are returned, including the current hour."""
MAX_SAMPLE = 100
"""Maximum number of failed jobs that are read. The same limit applies to the open jobs in each state, and to webhooks.
"""
MAX_LATE = 10
"""Maximum number of webhooks that are returned, most delayed first."""
MAX_REPORTED = 20
"""Maximum number of findings in the report of a comparison."""
REQUESTS_AT_A_TIME = 10
"""Maximum number of concurrent requests to SQS."""

FAILED_JOB = ("kind", "error")
"""Attributes of a failed job that are read."""
LATE_WEBHOOK = ("webhookId", "oldestWaiting", "failingSince", "nextAttemptAt")
"""Attributes of a webhook's delivery state that are read."""
INDEX_STATE = ("films", "publishedAt", "asOf")
"""Attributes that are read from the item that describes the current search index."""
VIEWS_STATE = ("from", "views", "computedAt")
"""Attributes that are read from the item with the views of each hour."""
REPORT = ("at", "repairs", "outcomes", "findings")
"""Attributes that are read from the report of the last comparison."""


class OperationsStore:
    """Reader of the state of the service. `queues` maps names to queues. `dead_letters` maps the name of a queue to its
    dead-letter queue."""

    def __init__(self, table: Table, queues: "Mapping[str, Queue]", dead_letters: "Mapping[str, Queue]") -> None:
        self.table = table
        self._queues = queues
        self._dead_letters = dead_letters

    def read(self, now: int) -> dict[str, Any]:
        """Return all parts by name. A part that could not be read is `None`, and the list `unavailable` contains the
        part's name.

        `now` is in epoch seconds. All parts except `queues` are read from the table. Raises Unavailable if no part
        could be read from the table.
        """
        parts: dict[str, Callable[[], Any]] = {
            "totals": partial(self._totals, now),
            "jobs": partial(self._jobs, now),
            "webhooks": partial(self._webhooks, now),
            "failures": self._failures,
            "views": self._views,
            "index": partial(self._index, now),
            "comparison": self._comparison,
            "queues": self._depths,
        }
        found = {name: _attempted(name, read) for name, read in parts.items()}
        if not any(part for name, part in found.items() if name != "queues"):
            raise Unavailable("The table is unavailable.")
        shown = {name: part[0] if part else None for name, part in found.items()}
        return {"at": now, **shown, "unavailable": [name for name, part in found.items() if part is None]}

    def _totals(self, now: int) -> dict[str, Any]:
        """Return the totals of all videos, and the uploads of each hour. Costs SHARDS Queries."""
        first = now // HOUR_SECONDS * HOUR_SECONDS - (HOURS - 1) * HOUR_SECONDS
        begins = []
        for shard in range(SHARDS):
            low, high = UPLOAD_HOUR.key(shard=shard, hour=hour_of(first)), SERVICE_TOTALS.key(shard=shard)
            condition = Expression.of(
                "#pk = :pk AND #sk BETWEEN :low AND :high",
                pk=low[PARTITION_KEY],
                low=low[SORT_KEY],
                high=high[SORT_KEY],
            )
            begins.append(partial(self.table.begin_query, index=None, condition=condition, limit=HOURS + 2))
        sums: Counter[str] = Counter()
        uploads: Counter[str] = Counter()
        for page in require_all(gather(begins)):
            for item in page.items:
                if SERVICE_TOTALS.has_sort_key(item[SORT_KEY]):
                    sums.update({name: int(item.get(name, 0)) for name in PROFILE_COUNTS})
                else:
                    uploads[item[SORT_KEY].partition("#")[2]] += int(item["uploads"])
        by_status = {status: sums[status] for status in STATUSES}
        hours = [first + number * HOUR_SECONDS for number in range(HOURS)]
        return {
            "videos": {"total": sum(by_status.values()) - by_status["deleted"], **by_status},
            "bytes": sums["bytes"],
            "duration": sums["milliseconds"],
            "uploads": [{"from": hour, "count": uploads[hour_of(hour)]} for hour in hours],
        }

    def _views(self) -> dict[str, Any] | None:
        """Return the views of each hour, as last computed by the function `rankings`; `None` before its first run."""
        item = self.table.get(VIEWS_BY_HOUR.key(), attributes=VIEWS_STATE)
        if item is None:
            return None
        hours = [
            {"from": int(item["from"]) + number * HOUR_SECONDS, "count": int(views)}
            for number, views in enumerate(item["views"])
        ]
        return {"computedAt": int(item["computedAt"]), "hours": hours}

    def _jobs(self, now: int) -> list[dict[str, Any]]:
        """Return the number of open jobs and the age of the oldest one, by queue. Reads at most MAX_SAMPLE jobs of each
        state: the jobs that are due first."""
        requested: defaultdict[str, list[int]] = defaultdict(list)
        is_cut = False
        for state in PENDING:
            page = Lists(self.table).related(
                single_partition(job_relation(state)),
                Window(0, LAST_SECOND + 1, ascending=True, limit=MAX_SAMPLE, attributes=("createdAt",)),
            )
            is_cut = is_cut or page.resume is not None
            for entry in page.items:
                kind = KINDS.get(base_of(entry["relId"].partition("/")[2]))
                if kind:  # else the job is from a later release
                    requested[kind.queue].append(int(entry["createdAt"]))
        return [
            {"queue": queue, "open": len(times), "more": is_cut, "oldestSeconds": max(0, now - min(times))}
            for queue, times in sorted(requested.items())
        ]

    def _failures(self) -> dict[str, Any]:
        """Return the causes of failed jobs, the most frequent causes first. Reads only the newest MAX_SAMPLE failed
        jobs."""
        page = Lists(self.table).related(
            single_partition(job_relation("failed")),
            Window(0, LAST_SECOND + 1, limit=MAX_SAMPLE, attributes=("relId",)),
        )
        keys = []
        for entry in page.items:
            video_id, _, kind = entry["relId"].partition("/")
            keys.append(JOB.key(videoId=video_id, kind=kind))
        jobs = self.table.batch_get(keys, attributes=(PARTITION_KEY, SORT_KEY, *FAILED_JOB)) if keys else []
        causes: defaultdict[tuple[str, str, bool], list[Item]] = defaultdict(list)
        for job in jobs:
            error = job.get("error")
            if error:  # else the job was retried since the index was read
                causes[base_of(job["kind"]), error["reason"], bool(error.get("final"))].append(job)
        groups: list[dict[str, Any]] = []
        for (kind, reason, is_final), failed in causes.items():
            failed.sort(key=lambda job: (-int(job["error"]["at"]), job[PARTITION_KEY]))
            groups.append(
                {
                    "kind": kind,
                    "reason": reason,
                    "action": "upload" if is_final else "retry",
                    "count": len(failed),
                    "latestAt": int(failed[0]["error"]["at"]),
                    "jobs": [{"videoId": job[PARTITION_KEY].partition("#")[2], "kind": job["kind"]} for job in failed],
                }
            )
        groups.sort(key=_most_frequent)
        return {"examined": len(jobs), "more": page.resume is not None, "causes": groups}

    def _webhooks(self, now: int) -> dict[str, Any]:
        """Return the webhooks whose receivers have not accepted all changes, most delayed first."""
        page = Lists(self.table).related(
            single_partition(DUE), Window(0, LAST_SECOND + 1, ascending=True, limit=MAX_SAMPLE, attributes=("relId",))
        )
        keys = [WEBHOOK_STATE.key(webhookId=entry["relId"]) for entry in page.items]
        states = self.table.batch_get(keys, attributes=LATE_WEBHOOK) if keys else []
        behind = sorted(
            (
                {
                    "webhookId": state["webhookId"],
                    "seconds": max(0, now - int(state["oldestWaiting"]) // 1000),
                    "failingSince": state.get("failingSince"),
                    "nextAttemptAt": state.get("nextAttemptAt"),
                }
                for state in states
                if "oldestWaiting" in state
            ),
            key=lambda late: (-late["seconds"], late["webhookId"]),
        )
        return {"behind": len(behind), "more": page.resume is not None, "items": behind[:MAX_LATE]}

    def _index(self, now: int) -> dict[str, Any] | None:
        """Return the size and age of the published search index; `None` if none is published."""
        item = self.table.get(INDEX.key(), attributes=INDEX_STATE)
        if item is None or "publishedAt" not in item:
            return None
        return {
            "videos": int(item.get("films", 0)),
            "publishedAt": int(item["publishedAt"]),
            "seconds": max(0, now - int(item.get("asOf", 0)) // 1000),
        }

    def _comparison(self) -> dict[str, Any] | None:
        """Return the result of the last comparison of all derived data; `None` if there was none."""
        item = self.table.get(COMPARISON_REPORT.key(), attributes=REPORT)
        if item is None:
            return None
        return {
            "at": int(item["at"]),
            "repairs": item["repairs"],
            "outcomes": {name: int(count) for name, count in item["outcomes"].items()},
            "findings": item["findings"],
        }

    def _depths(self) -> list[dict[str, Any]]:
        """Return SQS's approximate numbers of messages, by queue."""
        queues = [*self._queues.values(), *self._dead_letters.values()]
        depths = map_threads(lambda queue: queue.depth(), queues, REQUESTS_AT_A_TIME)
        letters = dict(zip(self._dead_letters, depths[len(self._queues) :], strict=True))
        return [
            {
                "name": name,
                "waiting": depth.waiting,
                "delayed": depth.delayed,
                "inFlight": depth.in_flight,
                "deadLetters": letters[name].waiting if name in letters else None,
            }
            for name, depth in zip(self._queues, depths, strict=False)
        ]


def _most_frequent(cause: Mapping[str, Any]) -> tuple[int, int, str]:
    """Return the value by which causes of failures are sorted: the most frequent cause first. Of equally frequent
    causes, the cause with the latest failure is first."""
    return -cause["count"], -cause["latestAt"], cause["reason"]


def _attempted(name: str, read: Callable[[], Any]) -> tuple[Any] | None:
    """Return the result of `read`, in a tuple with one element; `None` after a transient error. Logs the error with the
    part's `name`."""
    try:
        return (read(),)
    except TRANSIENT_ERRORS as error:
        log_failure("part not read", error, part=name)
        return None
