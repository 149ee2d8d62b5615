"""CloudWatch alarms. Each alarm reports a condition that affects users now or soon.

The description of an alarm names its runbook.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk.aws_cloudwatch_actions import SnsAction
from constructs import Construct

from infra import metrics
from infra.function import ServiceFunction
from infra.metrics import FIVE_MINUTES, MINUTE
from infra.opensearch import SearchCluster
from infra.queue import WorkQueue
from infra.search import INDEX_LIMIT
from infra.settings import DeploymentSettings
from shared.job_kinds import JOB_QUEUES
from shared.schema import AUDIT_INDEXES, INDEXES

ERRORS_PERCENT = 1
"""Maximum percentage of requests per minute that may fail with 5xx."""
REQUESTS_A_MINUTE = 5
"""The alarm on the error rate can fire only if the API receives at least this number of requests per minute.

With fewer requests, a single failed request would be at least a quarter of them.
"""

SLOW = Duration.seconds(3)
"""Maximum p99 latency of the API. Above this latency, an alarm fires.

With little traffic, p99 is often the latency of a cold start, which takes one to two seconds. The gateway times out
after 30 seconds.
"""

THROTTLED = 20
"""An alarm fires if at least this number of requests or calls are throttled in five minutes.

Users rarely notice fewer throttled requests, because the DynamoDB client retries requests up to three times.
Streams and queues deliver again after a throttled call.
"""

SYSTEM_ERRORS = 5
"""An alarm fires if DynamoDB or OpenSearch returns at least this number of system errors in five minutes."""

BEHIND = Duration.minutes(5)
"""Maximum lag of a stream consumer or of the search index. Above this lag, an alarm fires.

A healthy consumer lags by seconds, and imports pause when the lag exceeds one minute. The stream drops records after 24
hours. The index lags by at most a minute, except during a rebuild.
"""

ARCHIVE_BEHIND = Duration.hours(3)
"""Maximum age of the oldest object of the audit archive that is not in the SQL tables yet. Above this age, an alarm fires.

The compactor runs every hour."""

SNAPSHOT_LATE = Duration.hours(48)
"""Maximum age of the newest snapshot of videos. Above this age, an alarm fires. There is a snapshot every night."""

LARGE_INDEX = 0.6
"""An alarm fires if the search index is larger than this fraction of its maximum size.

An operator then has time to omit captions, or to move to a search cluster.
"""

QUARTER = Duration.minutes(15)
BUSY_PERCENT, FULL_PERCENT = 80, 95
"""Alarms fire if an OpenSearch domain uses at least BUSY_PERCENT of its processor time, or at least FULL_PERCENT of its
Java heap. AWS recommends these percentages."""
FREE_DISK = 0.25
"""Fraction of a node's disk that must be free; otherwise an alarm fires. AWS recommends this fraction."""
FREE_MB = 20_480
"""Megabytes that must be free on each node of an OpenSearch domain that the deployment did not create; otherwise an
alarm fires. FREE_DISK does not apply, because the disk size of such a domain is unknown."""
MANY_OCUS = 8
"""An alarm fires if OpenSearch Serverless uses at least this number of capacity units (OCU). By default, an account is
limited to 10."""
REJECTED_DOCUMENTS = 100
"""An alarm fires if an OpenSearch collection rejects at least this number of documents in five minutes. The metric
includes rejections of changes that were sent twice, although these are harmless."""

OLDEST_JOB: Mapping[str, Duration] = {
    "probe": Duration.minutes(30),
    "thumbnails": Duration.minutes(30),
    "transcode": Duration.hours(6),
}
"""Maximum age of the oldest open job, by queue. Above this age, an alarm fires.

Probes and thumbnails take minutes, including all attempts. A long video can take a transcoder hours.
"""

OLDEST_MESSAGE: Mapping[str, Duration] = {
    "arrivals": Duration.minutes(15),
    "aggregates": Duration.minutes(30),
    "tallies": Duration.minutes(15),
    "reverts": Duration.hours(1),
    "deliveries": Duration.hours(1),
    "purge": Duration.hours(1),
}
"""Maximum age of the oldest message, by queue. Above this age, an alarm fires.

Each limit is longer than the time in which SQS delivers a message three times. After three deliveries, SQS excludes
the message from this metric. The alarm therefore reports a stalled queue, but not a single message that fails. SQS
moves such a message to the dead-letter queue.
"""


LATE_DELIVERY = Duration.minutes(15)
"""Maximum delay of a delivery to a receiver that does not fail. Above this delay, an alarm fires.

A webhook with a backlog of ten thousand changes catches up in minutes.
"""


class Alarms(Construct):
    """All alarms of an environment. Each alarm performs `action` when it fires and when it clears."""

    def __init__(self, scope: Construct, id_: str, *, settings: DeploymentSettings, action: SnsAction) -> None:
        super().__init__(scope, id_)
        self._settings = settings
        self._action = action
        self.all: list[cloudwatch.Alarm] = []

    def watch_api(self, api: apigateway.IHttpApi) -> None:
        """Add alarms on the API's 5xx errors and latency.

        No alarm counts 4xx responses, because the gateway's metric does not separate throttled requests from other 4xx
        responses.
        """
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
            name="API returns errors",
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
            meaning=f"At least one request in a hundred takes longer than {SLOW.to_seconds():.0f} seconds",
            runbook="api-slow",
            threshold=SLOW.to_milliseconds(),
            periods=3,
            # With few samples, p99 is only the slowest request.
            evaluate_low_sample_count_percentile="ignore",
        )

    def watch_functions(self, name: str, functions: Sequence[ServiceFunction], meaning: str) -> None:
        """Add an alarm on the total number of throttled calls of several functions. `meaning` describes the effect on
        users."""
        self._alarm(
            f"{name.title().replace(' ', '')}Throttled",
            metrics.total([metrics.of_function("Throttles", function) for function in functions], "Throttled calls"),
            name=f"{name} are throttled",
            meaning=meaning,
            runbook="functions-throttled",
            threshold=THROTTLED,
        )

    def watch_crashes(self, name: str, functions: Sequence[ServiceFunction], meaning: str) -> None:
        """Add an alarm on crashes and timeouts of asynchronous functions. `meaning` describes the effect on users.

        A function that handles a failure returns the id of the failed message. Lambda does not count that as an error,
        so the alarm ignores it.
        """
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
        """Add an alarm on a scheduled function. It fires if no run succeeds for `periods` intervals of five minutes."""
        self._alarm(
            id_,
            cloudwatch.MathExpression(
                expression="calls - FILL(errors, 0)",
                using_metrics={
                    "calls": metrics.of_function("Invocations", function),
                    "errors": metrics.of_function("Errors", function),
                },
                label="Successful runs",
                period=FIVE_MINUTES,
            ),
            name=name,
            meaning=meaning,
            runbook="schedule-silent",
            threshold=1,
            operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            periods=periods,
            # A function that is not invoked emits no data.
            missing=cloudwatch.TreatMissingData.BREACHING,
        )

    def watch_deliveries(self) -> None:
        """Add an alarm on the delay of deliveries to receivers that do not fail. Failing receivers are their owners'
        responsibility."""
        self._alarm(
            "DeliveriesLate",
            metrics.of_service(self._settings, "DeliveryWait", statistic="Maximum"),
            name="Changes are delivered late",
            meaning="A healthy receiver, or the event bus, is waiting for old changes",
            runbook="webhooks-late",
            threshold=LATE_DELIVERY.to_seconds(),
            operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        )

    def watch_index(self) -> None:
        """Add alarms on the lag and on the size of the search index. The alarm on the lag also fires if the indexer
        does not run.

        Only the embedded index has a maximum size.
        """
        self._alarm(
            "IndexBehind",
            metrics.of_service(self._settings, "IndexLag", statistic="Maximum"),
            name="Search index is behind",
            meaning="Searches are slow or fail, because each search function must read many newer changes from the feed",
            runbook="index-behind",
            threshold=BEHIND.to_seconds(),
            operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            periods=3,
            # A builder that does not run, or never finishes, emits no data.
            missing=cloudwatch.TreatMissingData.BREACHING,
        )
        if self._settings.search_engine == "embedded":
            self._alarm(
                "IndexLarge",
                metrics.of_service(self._settings, "IndexBytes", statistic="Maximum"),
                name="Search index is large",
                meaning="The search index will not fit on the disks of its functions if it continues to grow",
                runbook="index-behind",
                threshold=round(LARGE_INDEX * INDEX_LIMIT),
                operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            )

    def watch_cluster(self, cluster: SearchCluster) -> None:
        """Add alarms on the health and the resources of the OpenSearch cluster."""
        if cluster.kind == "domain":
            self._watch_domain(cluster)
        else:
            self._watch_collection(cluster)
        self._watch_cluster(
            "Errors",
            metrics.of_cluster("5xx", cluster),
            name="returns errors",
            meaning="Searches fail with 503, or changes are not indexed, because OpenSearch returns 5xx",
            threshold=SYSTEM_ERRORS,
            periods=3,
            of_which=2,
        )

    def _watch_domain(self, domain: SearchCluster) -> None:
        """Add the alarms that AWS recommends for a domain.

        https://docs.aws.amazon.com/opensearch-service/latest/developerguide/cloudwatch-alarms.html
        """
        free_mb = FREE_DISK * domain.nodes.gigabytes * 1024 if domain.nodes else FREE_MB
        for id_, metric, name, meaning, threshold, periods in (
            (
                *("Red", metrics.of_cluster("ClusterStatus.red", domain, "Maximum", MINUTE), "is red"),
                *("Searches miss videos or fail, because a part of the index is on no node", 1, 1),
            ),
            (
                *("Yellow", metrics.of_cluster("ClusterStatus.yellow", domain, "Maximum", MINUTE), "is yellow"),
                *("Searches would miss videos after the next failure of a node, because a replica is on no node", 1, 5),
            ),
            (
                *("WritesBlocked", metrics.of_cluster("ClusterIndexWritesBlocked", domain, "Maximum"), "blocks writes"),
                *("Searches do not find new changes, because the domain lacks storage or memory", 1, 1),
            ),
            (
                *("Busy", metrics.of_cluster("CPUUtilization", domain, "Maximum", QUARTER), "is busy"),
                *("Searches are slow or fail, because the nodes lack processor time", BUSY_PERCENT, 3),
            ),
            (
                *("Memory", metrics.of_cluster("JVMMemoryPressure", domain, "Maximum", MINUTE), "lacks memory"),
                *("Searches are slow or fail, and a node may crash, because its memory is full", FULL_PERCENT, 3),
            ),
        ):
            self._watch_cluster(id_, metric, name=name, meaning=meaning, threshold=threshold, periods=periods)
        self._watch_cluster(
            "Storage",
            metrics.of_cluster("FreeStorageSpace", domain, "Minimum", MINUTE),
            name="lacks storage",
            meaning="The domain will block writes if a node's free storage continues to shrink",
            threshold=round(free_mb),
            operator=cloudwatch.ComparisonOperator.LESS_THAN_OR_EQUAL_TO_THRESHOLD,
        )

    def _watch_collection(self, collection: SearchCluster) -> None:
        """Add alarms on the capacity of all collections of the account, and on documents that the collection rejects."""
        for id_, name in (("Search", "searches"), ("Indexing", "indexing")):
            self._watch_cluster(
                f"{id_}Capacity",
                metrics.of_collections(f"{id_}OCU"),
                name=f"needs much capacity for {name}",
                meaning=f"The account is near its limit of capacity units for {name}, and pays for each of them",
                threshold=MANY_OCUS,
                periods=5,
            )
        self._watch_cluster(
            "Rejects",
            metrics.of_cluster("IngestionDocumentErrors", collection),
            name="rejects documents",
            meaning="Searches do not find some changes, because the collection rejects their documents",
            threshold=REJECTED_DOCUMENTS,
            periods=3,
        )

    def _watch_cluster(self, id_: str, metric: cloudwatch.IMetric, *, name: str, **kwargs: Any) -> None:
        self._alarm(f"Cluster{id_}", metric, name=f"Search cluster {name}", runbook="search-cluster", **kwargs)

    def watch_archive(self) -> None:
        """Add alarms on the lag of the SQL tables and on late snapshots. Both alarms also fire if the compactor does
        not run."""
        self._watch_age(
            "ArchiveBehind",
            "ArchiveLag",
            ARCHIVE_BEHIND,
            name="SQL tables are behind",
            meaning="Queries of the archive lack the changes of the last hours",
        )
        if self._settings.snapshot_days:
            self._watch_age(
                "SnapshotLate",
                "SnapshotAge",
                SNAPSHOT_LATE,
                name="Snapshot of videos is late",
                meaning="Queries of the current videos and of the daily views lack the last two days",
            )

    def _watch_age(self, id_: str, metric: str, longest: Duration, **kwargs: Any) -> None:
        """Add an alarm on an age in seconds that the compactor emits as `metric`. The alarm fires if the age exceeds
        `longest` for three hours. A missing metric also counts as too old."""
        self._alarm(
            id_,
            metrics.of_service(self._settings, metric, statistic="Maximum").with_(period=Duration.hours(1)),
            runbook="schedule-silent",
            threshold=longest.to_seconds(),
            operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            periods=3,
            missing=cloudwatch.TreatMissingData.BREACHING,
            **kwargs,
        )

    def watch_schema(self) -> None:
        """Add an alarm on reads of items that a newer release wrote. Such reads occur after a rollback."""
        self._alarm(
            "NewerItems",
            metrics.of_service(self._settings, "NewerItems"),
            name="Items of a newer release",
            meaning="A newer release wrote items that this release cannot read: requests for them fail with 503, and jobs wait",
            runbook="newer-items",
            threshold=1,
        )

    def watch_tables(self) -> None:
        """Add alarms on throttles of both tables and their indexes, and on DynamoDB's system errors."""
        settings = self._settings
        # An alarm for each table, because an alarm accepts at most ten metrics.
        for (id_, name, table, indexes, meaning), direction in product(
            (
                ("", "Table", settings.table_name, INDEXES, "are slow or fail with 503"),
                (
                    *("AuditTable", "Audit table", settings.audit_table_name, AUDIT_INDEXES),
                    "are slow or fail, so the audit trail, the feed and webhooks are late",
                ),
            ),
            ("Write", "Read"),
        ):
            events = metrics.of_table_and_indexes(settings, f"{direction}ThrottleEvents", table, indexes)
            self._alarm(
                f"{id_}{direction}sThrottled",
                metrics.total(events, f"Throttled {direction}s"),
                name=f"{name} {direction.lower()}s are throttled",
                meaning=f"{direction}s {meaning}",
                runbook="table-throttled",
                threshold=THROTTLED,
                periods=3,
                of_which=2,
            )
        # Two alarms, because an alarm accepts at most ten metrics.
        for id_, name, table, operations, meaning in (
            (
                *("TableErrors", "Table fails", settings.table_name, metrics.OPERATIONS),
                "DynamoDB returns system errors, so requests are slow or fail with 503",
            ),
            (
                *("AuditTableErrors", "Audit table fails", settings.audit_table_name, metrics.AUDIT_OPERATIONS),
                "DynamoDB returns system errors, so the audit trail, the feed and webhooks are late",
            ),
        ):
            self._alarm(
                id_,
                metrics.total(
                    [metrics.of_operation("SystemErrors", table, operation) for operation in operations],
                    "DynamoDB system errors",
                ),
                name=name,
                meaning=meaning,
                runbook="table-errors",
                threshold=SYSTEM_ERRORS,
                periods=3,
                of_which=2,
            )

    def watch_stream_reader(self, reader: ServiceFunction, late: str, lost: str) -> None:
        """Add alarms on the lag of a stream consumer, and on records that Lambda discarded after all retries.

        `late` describes the effect on users while the consumer lags, and `lost` the effect after Lambda has discarded
        records.
        """
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
            name=f"{name} dropped records",
            meaning=lost,
            runbook="records-given-up",
            threshold=1,
        )

    def watch_queue(self, name: str, queue: WorkQueue, late: str, lost: str) -> None:
        """Add alarms on the dead letters of a queue, and on the age of its oldest job or message.

        `late` describes the effect on users while messages wait too long, `lost` the effect after a message has reached
        the dead-letter queue.
        """
        self._alarm(
            f"{name.capitalize()}DeadLetters",
            metrics.of_queue(metrics.DEPTH, queue.dead_letters, name),
            name=f"Dead letters of {name}",
            meaning=lost,
            runbook="dead-letters",
            threshold=1,
        )
        if name in JOB_QUEUES:  # a job can be much older than its message, because each attempt has a new message
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
        """Add an alarm. It fires when `of_which` of the last `periods` datapoints breach the threshold.

        By default, all of them must breach, and a missing datapoint does not breach.
        """
        alarm = cloudwatch.Alarm(
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
        alarm.add_alarm_action(self._action)
        alarm.add_ok_action(self._action)
        self.all.append(alarm)
