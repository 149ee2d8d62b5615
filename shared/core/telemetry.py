"""Log lines and metrics. docs/logs-and-metrics.md lists both. Each log line has the correlation id of its request.

Powertools formats the log lines. HTTP functions import it only when they write their first line. The import takes a
third of a cold start, and most requests log nothing.
"""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from shared.core.errors import TRANSIENT_ERRORS

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from aws_lambda_powertools.utilities.typing import LambdaContext

NAMESPACE = "VideoMetadata"
"""CloudWatch namespace of all metrics."""

COUNTS = (
    *("VideosCreated", "VideosDeleted", "VideosRemoved", "ViewsCounted"),
    *("JobsRequeued", "JobsResent", "JobsGivenUp", "JobsSkipped"),
    *("DeliveriesDone", "DeliveriesFailed", "WebhooksPaused", "NewerItems"),
)
"""Names of the metrics that are counts, and have no dimension except `environment`."""
METRICS = {
    **dict.fromkeys(COUNTS, ("Count", "")),
    "JobsDone": ("Count", "kind"),
    "JobsFailed": ("Count", "kind"),
    "OpenJobs": ("Count", "queue"),
    "OldestJobSeconds": ("Seconds", "queue"),
    "DeliveryLag": ("Milliseconds", ""),
    "DeliveryWait": ("Seconds", ""),
    "IndexLag": ("Seconds", ""),
    "IndexBytes": ("Bytes", ""),
    "IndexGrowth": ("Bytes", ""),
    "ArchiveLag": ("Seconds", ""),
    "SnapshotAge": ("Seconds", ""),
}
"""Unit and additional dimension of each metric, by name of the metric.

The additional dimension is empty if the metric has only the dimension `environment`, which all metrics have."""


LAMBDA_LEVELS = {"WARNING": "WARN", "CRITICAL": "FATAL"}
"""Lambda's names of the log levels that Python names differently."""


class _Present(NamedTuple):
    """Current invocation and request, whose ids are added to log lines."""

    context: "LambdaContext | None" = None
    is_cold: bool = False
    """Whether this is the first invocation of the function's instance."""
    correlation_id: str | None = None

    def keys(self) -> dict[str, Any]:
        """Return the fields that are added to each log line."""
        keys: dict[str, Any] = {} if self.correlation_id is None else {"correlation_id": self.correlation_id}
        if self.context is None:
            return keys
        return keys | {
            "cold_start": self.is_cold,
            "function_name": self.context.function_name,
            "function_memory_size": self.context.memory_limit_in_mb,
            "function_arn": self.context.invoked_function_arn,
            "function_request_id": self.context.aws_request_id,
        }


_NO_INVOCATION = _Present()
_present: ContextVar[_Present] = ContextVar("present", default=_NO_INVOCATION)
_invocations = count()


@contextmanager
def begin_invocation(context: "LambdaContext", correlation_id: str | None = None) -> Iterator[None]:
    """Add the ids of this invocation and of its request to the log lines of the block.

    In other threads, log lines have these ids only if the thread runs in a copy of the context (contextvars). HTTP
    functions use this function; background functions use Powertools' `inject_lambda_context`.
    """
    token = _present.set(_Present(context, next(_invocations) == 0, correlation_id))
    try:
        yield
    finally:
        _present.reset(token)


@contextmanager
def use_correlation_id(correlation_id: str | None) -> Iterator[None]:
    """Add a request's id to the log lines of the block, or no id for `None`. Restore the previous id afterwards.

    Powertools' `append_context_keys` does not fit: it would remove the previous id, and change the log lines of all
    threads.
    """
    token = _present.set(_present.get()._replace(correlation_id=correlation_id))
    try:
        yield
    finally:
        _present.reset(token)


def service_logger() -> "Logger":
    """Return the logger for all log lines of a function. Do not create other loggers: the first logger sets the format
    of all lines."""
    from aws_lambda_powertools import Logger
    from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

    return Logger(logger_formatter=LambdaPowertoolsFormatter(json_serializer=_line, use_rfc3339=True, utc=True))


def _line(log: Mapping[str, Any]) -> str:
    """Return a log line as JSON, with a level that Lambda's log-level filter recognises.

    The filter treats a line as INFO if its `level` is not one of Lambda's, or its `timestamp` is not RFC 3339. A filter that
    retains only warnings or errors would drop such a line.
    https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html
    """
    named = {**log, "level": LAMBDA_LEVELS.get(log["level"], log["level"]), **_present.get().keys()}
    return json.dumps(named, default=str, ensure_ascii=False, separators=(",", ":"))


def silence(library: str) -> None:
    """Suppress a library's log lines below the level CRITICAL. `library` is the name of its logger."""
    import logging

    logging.getLogger(library).setLevel(logging.CRITICAL)


def log_failure(message: str, error: Exception, **details: object) -> None:
    """Log a failure that will be retried: a transient error as a warning, any other error with a traceback."""
    if isinstance(error, TRANSIENT_ERRORS):
        service_logger().warning(message, extra=details | {"reason": error.detail, "cause": repr(error.__cause__)})
    else:
        service_logger().exception(message, exc_info=error, extra=details)


def emit(values: Mapping[str, float], **dimensions: str) -> None:
    """Write metrics to the log in CloudWatch's embedded metric format. `values` has the value of each metric, by name.

    The metrics have `environment` and `dimensions` as dimensions. If an error occurs, it is logged and not raised,
    because a missing metric must not fail the caller's work.
    """
    if not values:
        return
    try:
        from aws_lambda_powertools.metrics import EphemeralMetrics

        metrics = EphemeralMetrics(namespace=NAMESPACE, service="")  # otherwise `service` would be a dimension
        for name, value in {"environment": os.environ["ENVIRONMENT"], **dimensions}.items():
            metrics.add_dimension(name, value)
        for name, number in values.items():
            metrics.add_metric(name, METRICS[name][0], number)
        metrics.flush_metrics()
    except Exception as error:
        _log_unwritten(values, error)


def emit_views(count: int) -> None:
    """Write the metric ViewsCounted without Powertools, which would take longer than counting the view.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
    """
    try:
        metrics = [{"Name": "ViewsCounted", "Unit": "Count"}]
        directive = {"Namespace": NAMESPACE, "Dimensions": [["environment"]], "Metrics": metrics}
        about = {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [directive]}
        line = {"_aws": about, "environment": os.environ["ENVIRONMENT"], "ViewsCounted": count}
        sys.stdout.write(f"{json.dumps(line, separators=(',', ':'))}\n")
    except Exception as error:
        _log_unwritten(["ViewsCounted"], error)


def _log_unwritten(names: Iterable[str], error: Exception) -> None:
    service_logger().exception("metrics not emitted", exc_info=error, extra={"metrics": sorted(names)})
