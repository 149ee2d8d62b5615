"""CloudWatch dashboard, ordered from symptoms that users see to possible causes."""

from collections.abc import Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra import metrics
from infra.function import ServiceFunction
from infra.metrics import FIVE_MINUTES
from infra.opensearch import SearchCluster
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
        cluster: SearchCluster | None,
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
        search = (
            "## Search cluster\nLag of the index behind the changes, and load and resources of the OpenSearch cluster. The capacity units of "
            "a collection include the account's other collections.",
            cluster_graphs(settings, cluster) if cluster else {},
        )
        for text, graphs in (
            (
                "## Users\nNumber of requests, server errors (5xx) and latency. The 4xx responses include requests that API "
                "Gateway throttled.",
                self._users(api),
            ),
            (
                "## Business\nVideos, views and jobs. If a required job fails, the status of the video is `failed`. While jobs "
                "wait, it is `processing`.",
                self._business(),
            ),
            (
                "## Pipeline\nLag of the stream consumers, of the queues and of the workers, and the messages in dead-letter queues. "
                "`make redrive` moves these messages back.",
                self._pipeline(functions, queues),
            ),
            (
                "## Webhooks and the event bus\nNumber and delay of deliveries. The service retries a failing receiver for three days, then pauses "
                "the webhook until its owner resumes it. The oldest undelivered change is of the bus and of healthy receivers only.",
                self._followers(),
            ),
            (
                "## Functions\nErrors are crashes and timeouts; an error response, such as 404, does not count. Throttles "
                "mean that the concurrency limit of the account is reached.",
                self._functions(functions),
            ),
            *([search] if cluster else []),
            (
                "## Table\nConsumed capacity, throttled requests and latency. A throttled index also throttles "
                "writes to its table.",
                self._table(),
            ),
        ):
            dashboard.add_widgets(_text(text))
            dashboard.add_widgets(*(_graph(title, lines, WIDTH // len(graphs)) for title, lines in graphs.items()))
        dashboard.add_widgets(
            _text(
                "## Newest errors and warnings\nLog lines of all functions. To follow one request through all functions, search for its "
                "`correlation_id` (docs/logs-and-metrics.md)."
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
            f"# Video metadata, {self._settings.env}\nRead from the top: effects on users, effects on videos, then possible causes. "
            "The description of each alarm names its runbook in docs/runbooks. If users complain and no alarm is active, see "
            "docs/operations.md, “The first five minutes”.",
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
        return {"Requests": [count, refused, failed], "Failed requests (%)": [share], "Latency (ms)": latency}

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
            "Stream lag (ms)": [metrics.of_function("IteratorAge", reader, statistic="Maximum") for reader in readers],
            "Messages waiting": [metrics.of_queue(metrics.DEPTH, queue.queue, name) for name, queue in queues.items()],
            "Oldest message (s)": [metrics.of_queue(metrics.AGE, queue.queue, name) for name, queue in queues.items()],
            "Dead letters and dropped records": [
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
            "Delivery delay (ms)": slowest("DeliveryLag"),
            "Oldest undelivered change (s)": [metrics.of_service(settings, "DeliveryWait", statistic="Maximum")],
        }

    def _functions(self, functions: Mapping[str, ServiceFunction]) -> Graphs:
        shown = {
            "Errors": ("Errors", "Sum"),
            "Throttles": ("Throttles", "Sum"),
            "Duration p99 (ms)": ("Duration", "p99"),
            "Concurrent executions": ("ConcurrentExecutions", "Maximum"),
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
            "Latency p99 (ms)": [
                metrics.of_operation("SuccessfulRequestLatency", settings.table_name, operation, statistic="p99")
                for operation in metrics.OPERATIONS
            ],
        }


def cluster_graphs(settings: DeploymentSettings, cluster: SearchCluster) -> Graphs:
    """Return the graphs of the OpenSearch cluster."""

    def of(statistic: str, *names: str) -> list[cloudwatch.Metric]:
        return [metrics.of_cluster(name, cluster, statistic) for name in names]

    common = {
        "Index lag (s)": [metrics.of_service(settings, "IndexLag", statistic="Maximum")],
        "Cluster responses": of("Sum", "2xx", "4xx", "5xx"),
    }
    if cluster.kind == "domain":
        return {
            **common,
            "Cluster latency (ms)": of("Average", "SearchLatency", "IndexingLatency"),
            "Processor and memory (%)": of("Maximum", "CPUUtilization", "JVMMemoryPressure"),
            "Free storage of a node (MB)": of("Minimum", "FreeStorageSpace"),
        }
    return {
        **common,
        "Cluster latency (ms)": of("Average", "SearchRequestLatency", "IngestionRequestLatency"),
        "Capacity units": [metrics.of_collections(f"{kind}OCU") for kind in ("Search", "Indexing")],
        "Rejected documents": of("Sum", "IngestionDocumentErrors"),
    }


def _text(markdown: str, *, height: int = 2) -> cloudwatch.TextWidget:
    return cloudwatch.TextWidget(markdown=markdown, width=WIDTH, height=height)


def _graph(title: str, lines: Sequence[cloudwatch.IMetric], width: int) -> cloudwatch.GraphWidget:
    axis = cloudwatch.YAxisProps(min=0, show_units=False)
    return cloudwatch.GraphWidget(title=title, left=list(lines), left_y_axis=axis, width=width, height=HEIGHT)
