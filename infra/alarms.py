"""The alarms: each on something that hurts users or soon will, and each with a page that says what to do."""

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk.aws_cloudwatch_actions import SnsAction
from constructs import Construct

from infra import metrics
from infra.function import ServiceFunction
from infra.metrics import FIVE_MINUTES, MINUTE
from infra.queue import WorkQueue
from infra.settings import Settings
from shared.kinds import JOB_QUEUES

ERRORS_PERCENT = 1
REQUESTS_A_MINUTE = 5
"""With fewer, one failed request would be a share that alarms. They fail one by one, and the other alarms remain."""

SLOW = Duration.seconds(3)
"""A cold start takes one to two seconds, and with little traffic more than one request in a hundred meets one. What
is slower than that with nearly all requests is not a cold start; and the gateway gives up only after 30 seconds."""

THROTTLED = 20
"""Within five minutes. DynamoDB's throttled requests are tried again up to three times, stream and queues deliver
again; so a few of them are seen by nobody."""

SYSTEM_ERRORS = 5

BEHIND = Duration.minutes(5)
"""A reader of the stream that keeps up is some seconds behind, and imports wait for it before it is a minute behind. After 24
hours the stream forgets its records. The index of films is a minute behind at most, but while it is built anew."""

OLDEST_JOB: Mapping[str, Duration] = {
    "probe": Duration.minutes(30),
    "thumbnails": Duration.minutes(30),
    "transcode": Duration.hours(6),
}
"""A probe or a picture takes a worker minutes, all attempts at it included; a long film takes a transcoder hours."""

OLDEST_MESSAGE: Mapping[str, Duration] = {
    "arrivals": Duration.minutes(15),
    "aggregates": Duration.minutes(30),
    "tallies": Duration.minutes(15),
    "reverts": Duration.hours(1),
    "deliveries": Duration.hours(1),
    "purge": Duration.hours(1),
}
"""Longer than three tries take, after which SQS leaves a message out of this metric: so the alarm is not for a
single bad message (that one ends in the dead-letter queue), but for a standstill."""


LATE_DELIVERY = Duration.minutes(15)
"""How long a change waits for a receiver that fails nothing, before somebody is to look: a webhook that has much to catch up
with takes some minutes for ten thousand changes."""


class Alarms(Construct):
    """All alarms of an environment. The topic is notified when one goes off and when it ends."""

    def __init__(self, scope: Construct, id_: str, *, settings: Settings, action: SnsAction) -> None:
        super().__init__(scope, id_)
        self._settings = settings
        self._action = action
        self.all: list[cloudwatch.Alarm] = []

    def watch_api(self, api: apigateway.IHttpApi) -> None:
        """What callers see. The gateway's throttled requests look like its other 4xx, so neither counts."""
        requests = api.metric_count(period=MINUTE)
        self._alarm(
            "ApiErrors",
            cloudwatch.MathExpression(
                expression=f"IF(requests >= {REQUESTS_A_MINUTE}, 100 * FILL(errors, 0) / requests, 0)",
                using_metrics={
                    "requests": requests.with_(statistic="Sum"),
                    "errors": api.metric_server_error(period=MINUTE, statistic="Sum"),
                },
                label="Percent of requests",
                period=MINUTE,
            ),
            name="API answers with errors",
            meaning=f"More than {ERRORS_PERCENT} % of the requests fail with 5xx",
            runbook="api-errors",
            threshold=ERRORS_PERCENT,
            operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            periods=5,
            of_which=3,
        )
        self._alarm(
            "ApiSlow",
            api.metric_latency(period=FIVE_MINUTES, statistic="p99"),
            name="API is slow",
            meaning=f"One request in a hundred takes longer than {SLOW.to_seconds():.0f} seconds",
            runbook="api-slow",
            threshold=SLOW.to_milliseconds(),
            periods=3,
            # Of a handful of requests, the slowest says nothing.
            evaluate_low_sample_count_percentile="ignore",
        )

    def watch_functions(self, name: str, functions: Sequence[ServiceFunction], meaning: str) -> None:
        """Throttles of several functions together."""
        self._alarm(
            f"{name.title().replace(' ', '')}Throttled",
            metrics.total([metrics.of_function("Throttles", function) for function in functions], "Throttled calls"),
            name=f"{name} are throttled",
            meaning=meaning,
            runbook="functions-throttled",
            threshold=THROTTLED,
        )

    def watch_crashes(self, name: str, functions: Sequence[ServiceFunction], meaning: str) -> None:
        """Functions that nobody waits for. A failure that they handle is reported message by message, and is not an error."""
        self._alarm(
            f"{name.title().replace(' ', '')}Crash",
            metrics.total([metrics.of_function("Errors", function) for function in functions], "Crashes and timeouts"),
            name=f"{name} crash",
            meaning=meaning,
            runbook="worker-errors",
            threshold=1,
            periods=3,
        )

    def watch_schedule(self, function: ServiceFunction, id_: str, *, name: str, meaning: str, periods: int) -> None:
        """Whether a function that runs by the clock ends well at least once in `periods` of five minutes."""
        self._alarm(
            id_,
            cloudwatch.MathExpression(
                expression="calls - FILL(errors, 0)",
                using_metrics={
                    "calls": metrics.of_function("Invocations", function),
                    "errors": metrics.of_function("Errors", function),
                },
                label="Runs that ended well",
                period=FIVE_MINUTES,
            ),
            name=name,
            meaning=meaning,
            runbook="schedule-silent",
            threshold=1,
            operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            periods=periods,
            # A function that is not called has no data at all.
            missing=cloudwatch.TreatMissingData.BREACHING,
        )

    def watch_deliveries(self) -> None:
        """Whether changes go out. Receivers that fail are their owners' business, and do not count."""
        self._alarm(
            "DeliveriesLate",
            metrics.of_service(self._settings, "DeliveryWait", statistic="Maximum"),
            name="Changes are delivered late",
            meaning="A receiver that fails nothing waits for changes that were made long ago",
            runbook="webhooks-late",
            threshold=LATE_DELIVERY.to_seconds(),
            operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        )

    def watch_index(self) -> None:
        """Whether search finds what has changed."""
        self._alarm(
            "IndexBehind",
            metrics.of_service(self._settings, "IndexLag", statistic="Maximum"),
            name="Search index is behind",
            meaning="Searches answer later or with an error, because each function has more changes to follow by itself",
            runbook="index-behind",
            threshold=BEHIND.to_seconds(),
            operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            periods=3,
            # A builder that does not run, or never ends, says nothing at all.
            missing=cloudwatch.TreatMissingData.BREACHING,
        )

    def watch_schema(self) -> None:
        """Whether functions meet items of a newer release, as they do after one was taken back."""
        self._alarm(
            "NewerItems",
            metrics.of_service(self._settings, "NewerItems"),
            name="Items of a newer release",
            meaning="Requests and work that need an item that a newer release wrote are refused with 503, or wait",
            runbook="newer-items",
            threshold=1,
        )

    def watch_tables(self) -> None:
        """Both tables and the indexes."""
        settings = self._settings
        for direction, meaning in (
            ("Write", "Changes are slow or are refused with 503"),
            ("Read", "Lists and videos are slow or are refused with 503"),
        ):
            self._alarm(
                f"{direction}sThrottled",
                metrics.total(metrics.of_tables(settings, f"{direction}ThrottleEvents"), f"Throttled {direction}s"),
                name=f"Table {direction.lower()}s are throttled",
                meaning=meaning,
                runbook="table-throttled",
                threshold=THROTTLED,
                periods=3,
                of_which=2,
            )
        # By two alarms, because one takes ten metrics at most.
        for id_, name, table, operations, meaning in (
            (
                *("TableErrors", "Table fails", settings.table_name, metrics.OPERATIONS),
                "DynamoDB itself fails, so requests are slow or are refused with 503",
            ),
            (
                *("AuditTableErrors", "Audit table fails", settings.audit_table_name, metrics.AUDIT_OPERATIONS),
                "DynamoDB itself fails, so the audit trail, the feed and webhooks are late",
            ),
        ):
            self._alarm(
                id_,
                metrics.total(
                    [metrics.of_operation("SystemErrors", table, operation) for operation in operations],
                    "Errors of DynamoDB",
                ),
                name=name,
                meaning=meaning,
                runbook="table-errors",
                threshold=SYSTEM_ERRORS,
                periods=3,
                of_which=2,
            )

    def watch_stream_reader(self, reader: ServiceFunction, late: str, lost: str) -> None:
        """`late` and `lost`: what it means for users that a reader of the stream is behind, or has given up."""
        name = reader.node.id
        self._alarm(
            f"{name}Behind",
            metrics.of_function("IteratorAge", reader, statistic="Maximum"),
            name=f"{name} is behind",
            meaning=late,
            runbook="stream-lag",
            threshold=BEHIND.to_milliseconds(),
            operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        )
        self._alarm(
            f"{name}GaveUp",
            metrics.of_stream_reader(metrics.GIVEN_UP, reader),
            name=f"{name} gave up records",
            meaning=lost,
            runbook="records-given-up",
            threshold=1,
        )

    def watch_queue(self, name: str, queue: WorkQueue, late: str, lost: str) -> None:
        """`late` and `lost`: what it means for users that messages wait too long, or are in the dead-letter queue."""
        self._alarm(
            f"{name.capitalize()}DeadLetters",
            metrics.of_queue(metrics.DEPTH, queue.dead_letters, name),
            name=f"Dead letters of {name}",
            meaning=lost,
            runbook="dead-letters",
            threshold=1,
        )
        if name in JOB_QUEUES:  # the job's age says more than its message's, which comes again and again
            what, age, limit, runbook = "job", metrics.of_oldest_job(self._settings, name), OLDEST_JOB, "old-jobs"
        else:
            age = metrics.of_queue(metrics.AGE, queue.queue, name)
            what, limit, runbook = "message", OLDEST_MESSAGE, "old-messages"
        self._alarm(
            f"{name.capitalize()}Old",
            age,
            name=f"Oldest {what} of {name}",
            meaning=late,
            runbook=runbook,
            threshold=limit[name].to_seconds(),
            operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        )

    def _alarm(
        self,
        id_: str,
        metric: cloudwatch.IMetric,
        *,
        name: str,
        meaning: str,
        runbook: str,
        threshold: float,
        operator: cloudwatch.ComparisonOperator = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        periods: int = 1,
        of_which: int | None = None,
        missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING,
        **kwargs: Any,
    ) -> None:
        """Alarm when `of_which` of the last `periods` datapoints are out of bounds; a missing datapoint is in bounds."""
        made = cloudwatch.Alarm(
            self,
            id_,
            metric=metric,
            alarm_name=f"{self._settings.env} {name}",
            alarm_description=f"{meaning}. Runbook: docs/runbooks/{runbook}.md",
            threshold=threshold,
            comparison_operator=operator,
            evaluation_periods=periods,
            datapoints_to_alarm=of_which or periods,
            treat_missing_data=missing,
            **kwargs,
        )
        made.add_alarm_action(self._action)
        made.add_ok_action(self._action)
        self.all.append(made)
