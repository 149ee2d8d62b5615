"""Runs every minute: gives jobs whose worker died, or whose message was lost, to another worker, and sends for videos
whose publishAt or expiresAt comes, and for webhooks that are due."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shared.aws.listing import Lists
from shared.aws.runtime import BackgroundResources, EntryPoint, Resources
from shared.core.settings import LambdaHandler, Settings
from shared.core.telemetry import emit, service_logger
from shared.films.jobs import JobStore
from shared.upkeep.sweeping import Sweep, send_for_due, send_for_scheduled, sweep

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

SECONDS_TO_STOP = 10
"""How long before its time-out it leaves the rest to the next minute: longer than one DynamoDB request may take."""

SECONDS_FOR_JOBS = 30
"""How much of its time is left to the jobs, however many videos and webhooks are to be sent for before."""

SECONDS_FOR_WEBHOOKS = 5
"""How much more is left to webhooks, however many videos are to be sent for before."""

METRICS = {"JobsRequeued": "requeued", "JobsResent": "resent", "JobsGivenUp": "failed", "JobsSkipped": "skipped"}
"""What is counted of a sweep, and the outcome that it is the count of."""


class SweeperSettings(Settings):
    aggregates_queue_url: str
    deliveries_queue_url: str


def make(settings: SweeperSettings, resources: Resources) -> LambdaHandler:
    """Return the function's handler."""
    table = resources.table(settings.table_name)
    store, lists = JobStore(table), Lists(table)
    aggregates = resources.queue(settings.aggregates_queue_url)
    deliveries = resources.queue(settings.deliveries_queue_url)

    def handle(_: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
        def until(seconds_left: int) -> Callable[[], bool]:
            return lambda: context.get_remaining_time_in_millis() > seconds_left * 1000

        try:
            in_time = until(SECONDS_FOR_JOBS + SECONDS_FOR_WEBHOOKS)
            scheduled = send_for_scheduled(lists, aggregates, int(resources.clock()), in_time)
        finally:
            try:
                due = send_for_due(lists, deliveries, int(resources.clock()), until(SECONDS_FOR_JOBS))
                if due.late:
                    emit({"DeliveryWait": due.late})
            finally:
                swept = sweep(store, int(resources.clock()), until(SECONDS_TO_STOP))
                _measure(swept)
        return {**swept.counts, "scheduled": scheduled, "due": due.sent}

    return service_logger().inject_lambda_context(handle)


def _measure(swept: Sweep) -> None:
    """Count what the sweep did, and what is open in each queue."""
    emit({metric: swept.counts[outcome] for metric, outcome in METRICS.items() if swept.counts[outcome]})
    for queue, ages in swept.open_jobs().items():
        emit({"OpenJobs": len(ages), "OldestJobSeconds": max(ages)}, queue=queue)


lambda_handler = EntryPoint(SweeperSettings, make, resources=BackgroundResources)
