"""What functions report of their work: log lines that name the request they belong to, and metrics.

docs/logs-and-metrics.md says what there is and how to read it.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

from shared.core.errors import PASSING
from shared.core.settings import LambdaHandler

if TYPE_CHECKING:
    from aws_lambda_powertools.logging.types import LogRecord

NAMESPACE = "VideoMetadata"
"""The CloudWatch namespace of all metrics."""

COUNTS = (
    *("VideosCreated", "VideosDeleted", "VideosRemoved", "JobsDone", "JobsFailed", "ViewsCounted", "OpenJobs"),
    *("JobsRequeued", "JobsResent", "JobsGivenUp", "JobsSkipped"),
)
METRICS = {**dict.fromkeys(COUNTS, "Count"), "OldestJobSeconds": "Seconds"}
"""Every metric and its unit."""


LAMBDA_LEVELS = {"WARNING": "WARN", "CRITICAL": "FATAL"}
"""What Lambda's log-level filter calls two of Python's levels."""


class _Formatter(LambdaPowertoolsFormatter):
    """Writes lines whose level Lambda's log-level filter can read.

    The filter takes a line for INFO, and drops it when only warnings or errors are kept, if its `level` is not one of
    Lambda's own or its `timestamp` is not as RFC 3339 has it.
    https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html
    """

    def __init__(self) -> None:
        super().__init__(use_rfc3339=True, utc=True)

    def serialize(self, log: "LogRecord") -> str:
        log["level"] = LAMBDA_LEVELS.get(log["level"], log["level"])
        return super().serialize(log)


def service_logger() -> Logger:
    """The function's logger. Everything is logged by it, because the first that is made sets the form of all lines."""
    return Logger(logger_formatter=_Formatter())


def logged(handle: LambdaHandler) -> LambdaHandler:
    """The handler, with the function's request id in each of its log lines."""
    wrapped: LambdaHandler = service_logger().inject_lambda_context(handle)
    return wrapped


@contextmanager
def correlated(correlation_id: str | None) -> Iterator[None]:
    """Log under the id of the request that something is done for, or under none; afterwards as before."""
    logger = service_logger()
    before = logger.get_correlation_id()
    logger.set_correlation_id(correlation_id)
    try:
        yield
    finally:
        logger.set_correlation_id(before)


def log_failure(message: str, error: Exception, **known: object) -> None:
    """Log what failed and will be done again: a warning if the reason passes by itself, else an error with its traceback."""
    if isinstance(error, PASSING):
        service_logger().warning(message, extra=known | {"reason": error.detail, "cause": repr(error.__cause__)})
    else:
        service_logger().exception(message, exc_info=error, extra=known)


def emit(values: Mapping[str, float], **dimensions: str) -> None:
    """Write metrics into the log, where CloudWatch finds them; no values, no line.

    All have the dimension `environment`, and these further ones. An emitter of its own for each call, because
    Powertools' `Metrics` keeps its values in the class. A failure is logged: no work is undone for a number.
    """
    if not values:
        return
    try:
        # An empty name, or the function would be one more dimension.
        emitter = AmazonCloudWatchEMFProvider(
            namespace=NAMESPACE,
            service="",
            default_dimensions={"environment": os.environ["ENVIRONMENT"], **dimensions},
        )
        for name, value in values.items():
            emitter.add_metric(name, METRICS[name], value)
        emitter.flush_metrics()
    except Exception as error:
        service_logger().exception("metrics not emitted", exc_info=error, extra={"metrics": sorted(values)})
