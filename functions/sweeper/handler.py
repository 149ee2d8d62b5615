"""Scheduled function that runs every minute. It requeues jobs that lost their worker or message, and queues scheduled
videos and due webhooks."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shared.aws.listing import Lists
from shared.aws.runtime import BackgroundResources, EntryPoint, Resources
from shared.background.sweeper import SweepResult, enqueue_due, enqueue_scheduled, sweep
from shared.core.settings import LambdaHandler, Settings
from shared.core.telemetry import emit, service_logger
from shared.processing.job_store import JobStore

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

SECONDS_TO_STOP = 10
"""Seconds of remaining run time below which the function stops. One DynamoDB request takes less time."""

SECONDS_FOR_JOBS = 30
"""Seconds of run time that are reserved for jobs, even if many videos and webhooks are due."""

SECONDS_FOR_WEBHOOKS = 5
"""Seconds of run time that are reserved for webhooks, in addition to SECONDS_FOR_JOBS, even if many videos are due."""

METRICS = {"JobsRequeued": "requeued", "JobsResent": "resent", "JobsGivenUp": "failed", "JobsSkipped": "skipped"}
"""For each metric, the key of its value in `SweepResult.counts`."""


class SweeperSettings(Settings):
    aggregates_queue_url: str
    deliveries_queue_url: str


def make(settings: SweeperSettings, resources: Resources) -> LambdaHandler:
    """Return the Lambda handler. The entry point calls this function once, before the first event."""
    table = resources.table(settings.table_name)
    store, lists = JobStore(table), Lists(table)
    aggregates = resources.queue(settings.aggregates_queue_url)
    deliveries = resources.queue(settings.deliveries_queue_url)

    def handle(_: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
        def until(seconds_left: int) -> Callable[[], bool]:
            return lambda: context.get_remaining_time_in_millis() > seconds_left * 1000

        try:
            in_time = until(SECONDS_FOR_JOBS + SECONDS_FOR_WEBHOOKS)
            scheduled = enqueue_scheduled(lists, aggregates, int(resources.clock()), in_time)
        finally:
            try:
                due = enqueue_due(lists, deliveries, int(resources.clock()), until(SECONDS_FOR_JOBS))
                if due.late:
                    emit({"DeliveryWait": due.late})
            finally:
                swept = sweep(store, int(resources.clock()), until(SECONDS_TO_STOP))
                _measure(swept)
        return {**swept.counts, "scheduled": scheduled, "due": due.sent}

    return service_logger().inject_lambda_context(handle)


def _measure(swept: SweepResult) -> None:
    """Emit the metrics of a sweep, and metrics of the open jobs of each queue."""
    emit({metric: swept.counts[outcome] for metric, outcome in METRICS.items() if swept.counts[outcome]})
    for queue, ages in swept.open_jobs().items():
        emit({"OpenJobs": len(ages), "OldestJobSeconds": max(ages)}, queue=queue)


lambda_handler = EntryPoint(SweeperSettings, make, resources=BackgroundResources)
