"""Finds jobs that nobody works on any more, and lets them go on or fail."""

from collections import Counter
from collections.abc import Callable, Iterable

from aws_lambda_powertools import Logger

from shared.attributes import Item
from shared.caller import Caller
from shared.jobs import JobStore, ticket_of

SILENT = "The worker did not finish in time, or died."
RECONCILE_EVERY = 60
"""Minutes. Only a stream record that was given up after all its retries leaves a video without its jobs."""


def sweep(store: JobStore, now: int, in_time: Callable[[], bool]) -> dict[str, int]:
    """Queue overdue jobs again, or fail them after their last attempt; counts by what became of them.

    One that cannot be handled now is met again by the next sweep, and does not keep the others waiting.
    """
    swept = Counter(dict.fromkeys(("requeued", "resent", "failed", "skipped", "recovered"), 0))

    def each(items: Iterable[Item], handle: Callable[[Item], None]) -> None:
        for item in items:
            if not in_time():
                return
            try:
                handle(item)
            except Exception:
                swept["skipped"] += 1
                Logger().exception("not swept", extra={"video_id": item["videoId"], "kind": item.get("kind")})

    def silent(job: Item) -> None:
        after = store.fail(ticket_of(job), SILENT, Caller.job("sweeper"), now, retry=True)
        if after:
            swept["failed" if after["state"] == "failed" else "requeued"] += 1

    def waiting(job: Item) -> None:
        after = store.send_again(job, now)
        if after:
            swept["failed" if after["state"] == "failed" else "resent"] += 1

    def processing(video: Item) -> None:
        swept["recovered"] += store.want_missing(video, now)

    each(store.overdue("running", now), silent)
    each(store.overdue("queued", now), waiting)
    if now // 60 % RECONCILE_EVERY == 0:
        each(store.processing(), processing)
    return dict(swept)
