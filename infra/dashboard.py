"""CloudWatch dashboard, ordered from symptoms that users see to possible causes."""

from collections.abc import Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra import metrics
from infra.function import ServiceFunction
from infra.metrics import FIVE_MINUTES
from infra.queue import WorkQueue
from infra.settings import DeploymentSettings
from shared.job_kinds import JOB_QUEUES, KINDS

WIDTH = 24
"""Width of the dashboard in units of CloudWatch's grid."""

HEIGHT = 6
"""Height of a graph in units of CloudWatch's grid."""

NEWEST_ERRORS = (
    "fields @timestamp, service, level, coalesce(message, errorMessage, type) as what, "
    "coalesce(reason, detail, record.status) as why, cause, correlation_id",
    # Lambda's platform events report invocations that ended without a log line of the function.
    'filter level in ["WARN", "ERROR", "FATAL"] or record.status in ["timeout", "error"]',
    "sort @timestamp desc",
    "limit 50",
)
"""Logs Insights query over the logs of all functions."""

Graphs = Mapping[str, Sequence[cloudwatch.IMetric]]
"""Metrics of each graph in a row, by title of the graph."""


class OperationsDashboard(Construct):
    """The CloudWatch dashboard `VideoMetadata-<env>`."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: DeploymentSettings,
        alarms: Sequence[cloudwatch.IAlarm],
        api: apigateway.IHttpApi,
        functions: Mapping[str, ServiceFunction],
        queues: Mapping[str, WorkQueue],
    ) -> None:
        super().__init__(scope, id_)
        self._settings = settings
        self.name = settings.deployment
        dashboard = cloudwatch.Dashboard(
            self, "Dashboard", dashboard_name=self.name, default_interval=Duration.hours(3)
        )
        dashboard.add_widgets(self._title())
        if alarms:
            dashboard.add_widgets(
                cloudwatch.AlarmStatusWidget(title="Alarms", alarms=list(alarms), width=WIDTH, height=HEIGHT)
            )
        for text, graphs in (
            (
                "## Users\nRequests, how many of them fail on our side (5xx), and how long they take. Of the 4xx, some are "
                "requests that the gateway's throttle turned away.",
                self._users(api),
            ),
            (
                "## Business\nWhat happens to videos. A needed job that fails leaves its video `failed`; jobs that grow "
                "old leave it in `processing`.",
                self._business(),
            ),
            (
                "## Pipeline\nFrom the table's stream through the queues to the workers: how far each is behind, and what "
                "is in the dead-letter queues (`make redrive`).",
                self._pipeline(functions, queues),
            ),
            (
                "## Webhooks and the event bus\nChanges that were sent, and how late. A receiver that fails is tried again for three "
                "days, then its webhook is paused: its owner has to mend it. Waits are of receivers that do not fail, and of the bus.",
                self._followers(),
            ),
            (
                "## Functions\nErrors are crashes and timeouts; what a function refuses with a sentence is none. Throttles "
                "mean that the account runs as many functions as it may.",
                self._functions(functions),
            ),
            (
                "## Table\nWhat it is asked for, what it throttles, and how fast it answers. A throttled index throttles "
                "the writes of its table.",
                self._table(),
            ),
        ):
            dashboard.add_widgets(_text(text))
            dashboard.add_widgets(*(_graph(title, lines, WIDTH // len(graphs)) for title, lines in graphs.items()))
        dashboard.add_widgets(
            _text(
                "## Newest errors and warnings\nOf all functions. With a `correlation_id` one request can be followed through all of "
                "them: docs/logs-and-metrics.md."
            )
        )
        dashboard.add_widgets(
            cloudwatch.LogQueryWidget(
                title="Newest errors and warnings",
                log_group_names=[function.log_group.log_group_name for function in functions.values()],
                query_lines=list(NEWEST_ERRORS),
                width=WIDTH,
                height=HEIGHT,
            )
        )

    def _title(self) -> cloudwatch.TextWidget:
        return _text(
            f"# Video metadata, {self._settings.env}\nRead from the top: is it felt by users, then by videos, then where "
            "does it come from? Every alarm's description names its page in docs/runbooks. Nothing red and still "
            "complaints? docs/operations.md, “The first five minutes”.",
            height=3,
        )

    def _users(self, api: apigateway.IHttpApi) -> Graphs:
        count = api.metric_count(statistic="Sum", period=FIVE_MINUTES, label="Requests")
        refused = api.metric_client_error(statistic="Sum", period=FIVE_MINUTES, label="4xx")
        failed = api.metric_server_error(statistic="Sum", period=FIVE_MINUTES, label="5xx")
        share = cloudwatch.MathExpression(
            expression="100 * FILL(failed, 0) / requests",
            using_metrics={"failed": failed, "requests": count},
            label="5xx, percent of requests",
            period=FIVE_MINUTES,
        )
        latency = [
            api.metric_latency(statistic=percentile, period=FIVE_MINUTES, label=percentile)
            for percentile in ("p50", "p99")
        ]
        return {"Requests": [count, refused, failed], "Share that fails": [share], "Time to answer (ms)": latency}

    def _business(self) -> Graphs:
        settings = self._settings

        def by_kind(name: str) -> list[cloudwatch.Metric]:
            return [metrics.of_service(settings, name, kind=kind, label=kind) for kind in KINDS]

        changes = ("VideosCreated", "VideosDeleted", "VideosRemoved", "ViewsCounted")
        return {
            "Videos and views": [metrics.of_service(settings, name) for name in changes],
            "Jobs done": by_kind("JobsDone"),
            "Jobs failed": by_kind("JobsFailed"),
            "Oldest job (s)": [metrics.of_oldest_job(settings, queue) for queue in JOB_QUEUES],
        }

    def _pipeline(self, functions: Mapping[str, ServiceFunction], queues: Mapping[str, WorkQueue]) -> Graphs:
        readers = [function for function in functions.values() if function.stream_mapping_id]
        return {
            "Behind the stream (ms)": [
                metrics.of_function("IteratorAge", reader, statistic="Maximum") for reader in readers
            ],
            "Messages waiting": [metrics.of_queue(metrics.DEPTH, queue.queue, name) for name, queue in queues.items()],
            "Oldest message (s)": [metrics.of_queue(metrics.AGE, queue.queue, name) for name, queue in queues.items()],
            "Dead letters, and records given up": [
                *(metrics.of_queue(metrics.DEPTH, queue.dead_letters, name) for name, queue in queues.items()),
                *(metrics.of_stream_reader(metrics.GIVEN_UP, reader) for reader in readers),
            ],
        }

    def _followers(self) -> Graphs:
        settings = self._settings

        def slowest(name: str) -> list[cloudwatch.Metric]:
            return [metrics.of_service(settings, name, statistic=which) for which in ("Average", "Maximum")]

        return {
            "Deliveries": [metrics.of_service(settings, name) for name in ("DeliveriesDone", "DeliveriesFailed")],
            "Webhooks paused": [metrics.of_service(settings, "WebhooksPaused")],
            "From a change to its delivery (ms)": slowest("DeliveryLag"),
            "Oldest change that waits (s)": [metrics.of_service(settings, "DeliveryWait", statistic="Maximum")],
        }

    def _functions(self, functions: Mapping[str, ServiceFunction]) -> Graphs:
        shown = {
            "Errors": ("Errors", "Sum"),
            "Throttles": ("Throttles", "Sum"),
            "Duration p99 (ms)": ("Duration", "p99"),
            "Running at a time": ("ConcurrentExecutions", "Maximum"),
        }
        return {
            title: [metrics.of_function(name, function, statistic=statistic) for function in functions.values()]
            for title, (name, statistic) in shown.items()
        }

    def _table(self) -> Graphs:
        settings = self._settings
        return {
            "Read units": metrics.of_tables(settings, "ConsumedReadCapacityUnits"),
            "Write units": metrics.of_tables(settings, "ConsumedWriteCapacityUnits"),
            "Reads throttled": metrics.of_tables(settings, "ReadThrottleEvents"),
            "Writes throttled": metrics.of_tables(settings, "WriteThrottleEvents"),
            "Time to answer p99 (ms)": [
                metrics.of_operation("SuccessfulRequestLatency", settings.table_name, operation, statistic="p99")
                for operation in metrics.OPERATIONS
            ],
        }


def _text(markdown: str, *, height: int = 2) -> cloudwatch.TextWidget:
    return cloudwatch.TextWidget(markdown=markdown, width=WIDTH, height=height)


def _graph(title: str, lines: Sequence[cloudwatch.IMetric], width: int) -> cloudwatch.GraphWidget:
    axis = cloudwatch.YAxisProps(min=0, show_units=False)
    return cloudwatch.GraphWidget(title=title, left=list(lines), left_y_axis=axis, width=width, height=HEIGHT)
