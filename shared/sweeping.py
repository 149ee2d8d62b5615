"""Finds jobs that nobody works on any more, and lets them go on or fail."""

from collections.abc import Callable

from shared.caller import Caller
from shared.errors import Unavailable
from shared.jobs import JobStore, ticket_of

SILENT = {
    "running": "The worker did not finish in time, or died.",
    "queued": "No worker took the job in time.",
}
RECONCILE_EVERY = 60
"""Minutes. Only a stream record that was given up after all its retries leaves a video without its jobs."""


def sweep(store: JobStore, now: int, in_time: Callable[[], bool]) -> dict[str, int]:
    """Queue overdue jobs again, or fail them after their last attempt; counts by what became of them.

    One that cannot be written now is met again by the next sweep, and does not keep the others waiting.
    """
    swept = {"requeued": 0, "failed": 0, "skipped": 0, "recovered": 0}
    worker = Caller.job("sweeper")
    for state, reason in SILENT.items():
        for job in store.overdue(state, now):
            if not in_time():
                return swept
            try:
                after = store.fail(ticket_of(job), reason, worker, now, retry=True)
            except Unavailable:
                swept["skipped"] += 1
                continue
            if after:
                swept["failed" if after["state"] == "failed" else "requeued"] += 1
    if now // 60 % RECONCILE_EVERY == 0:
        for video in store.processing():
            if not in_time():
                return swept
            swept["recovered"] += store.want_missing(video, now)
    return swept
