"""CloudWatch metrics for alarms and the dashboard."""

from collections.abc import Iterable

from aws_cdk import Aws, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sqs as sqs

from infra.function import ServiceFunction
from infra.opensearch import SearchCluster
from infra.settings import DeploymentSettings
from shared import schema

MINUTE = Duration.minutes(1)
FIVE_MINUTES = Duration.minutes(5)

DEPTH = "ApproximateNumberOfMessagesVisible"
AGE = "ApproximateAgeOfOldestMessage"
GIVEN_UP = "OnFailureDestinationDeliveredEventCount"

OPERATIONS = (
    "BatchGetItem",
    "BatchWriteItem",
    "DeleteItem",
    "GetItem",
    "PutItem",
    "Query",
    "TransactWriteItems",
    "UpdateItem",
)
"""DynamoDB operations that the functions use. DynamoDB counts system errors only per operation."""
AUDIT_OPERATIONS = ("BatchGetItem", "GetItem", "PutItem", "Query")
"""DynamoDB operations that the functions use on the audit table."""


def of_service(
    settings: DeploymentSettings, name: str, *, statistic: str = "Sum", label: str | None = None, **dimensions: str
) -> cloudwatch.Metric:
    """Return a custom metric that the functions emit. docs/logs-and-metrics.md lists these metrics."""
    return cloudwatch.Metric(
        namespace=schema.TABLE_NAME,
        metric_name=name,
        dimensions_map={"environment": settings.env, **dimensions},
        statistic=statistic,
        period=FIVE_MINUTES,
        label=label,
    )


def of_oldest_job(settings: DeploymentSettings, queue: str) -> cloudwatch.Metric:
    """Return the age of a queue's oldest open job, in seconds. The metric has no data if no job is open."""
    return of_service(settings, "OldestJobSeconds", statistic="Maximum", queue=queue, label=queue)


def of_table(name: str, table_name: str, index: str | None = None) -> cloudwatch.Metric:
    """Return a metric of a table or, with `index`, of an index. A table's metric does not include its indexes."""
    return cloudwatch.Metric(
        namespace="AWS/DynamoDB",
        metric_name=name,
        dimensions_map={"TableName": table_name, **({"GlobalSecondaryIndexName": index} if index else {})},
        statistic="Sum",
        period=FIVE_MINUTES,
        label=index or table_name,
    )


def of_tables(settings: DeploymentSettings, name: str) -> list[cloudwatch.Metric]:
    """Return the same metric of each table and of each deployed index."""
    return [
        *of_table_and_indexes(settings, name, settings.table_name, schema.INDEXES),
        *of_table_and_indexes(settings, name, settings.audit_table_name, schema.AUDIT_INDEXES),
    ]


def of_table_and_indexes(
    settings: DeploymentSettings, name: str, table: str, indexes: Iterable[schema.Index]
) -> list[cloudwatch.Metric]:
    """Return a metric of one table, and the same metric of each of its deployed indexes.

    An alarm can use this list only if the list has at most ten metrics.
    """
    deployed = (index.name for index in indexes if index.name in settings.indexes)
    return [of_table(name, table, index) for index in (None, *deployed)]


def of_operation(name: str, table_name: str, operation: str, *, statistic: str = "Sum") -> cloudwatch.Metric:
    """Return a metric of one operation on a table."""
    return cloudwatch.Metric(
        namespace="AWS/DynamoDB",
        metric_name=name,
        dimensions_map={"TableName": table_name, "Operation": operation},
        statistic=statistic,
        period=FIVE_MINUTES,
        label=operation,
    )


def of_function(name: str, function: ServiceFunction, *, statistic: str = "Sum") -> cloudwatch.Metric:
    """Return a metric of a Lambda function, summed over all versions of the function."""
    return function.function.metric(name, statistic=statistic, period=FIVE_MINUTES, label=function.node.id)


def of_stream_reader(name: str, function: ServiceFunction) -> cloudwatch.Metric:
    """Return a metric of the event source mapping by which a function reads the stream.

    Raises ValueError if the function does not read the stream.
    """
    if function.stream_mapping_id is None:
        raise ValueError(f"{function.node.id} does not read the stream.")
    return cloudwatch.Metric(
        namespace="AWS/Lambda",
        metric_name=name,
        dimensions_map={"EventSourceMappingUUID": function.stream_mapping_id},
        statistic="Sum",
        period=FIVE_MINUTES,
        label=function.node.id,
    )


def of_cluster(
    name: str, cluster: SearchCluster, statistic: str = "Sum", period: Duration = FIVE_MINUTES
) -> cloudwatch.Metric:
    """Return a metric of the OpenSearch cluster."""
    is_domain = cluster.kind == "domain"
    named = (
        {"DomainName": cluster.name}
        if is_domain
        else {"CollectionId": cluster.collection_id, "CollectionName": cluster.name}
    )
    return cloudwatch.Metric(
        namespace="AWS/ES" if is_domain else "AWS/AOSS",
        metric_name=name,
        dimensions_map={"ClientId": Aws.ACCOUNT_ID, **named},
        statistic=statistic,
        period=period,
    )


def of_collections(name: str) -> cloudwatch.Metric:
    """Return a metric of all OpenSearch Serverless collections of the account."""
    return cloudwatch.Metric(
        namespace="AWS/AOSS",
        metric_name=name,
        dimensions_map={"ClientId": Aws.ACCOUNT_ID},
        statistic="Sum",
        period=MINUTE,
    )


def of_queue(name: str, queue: sqs.IQueue, label: str) -> cloudwatch.Metric:
    """Return a metric of a queue: the maximum in each period of five minutes."""
    return queue.metric(name, statistic="Maximum", period=FIVE_MINUTES, label=label)


def total(metrics: Iterable[cloudwatch.Metric], label: str) -> cloudwatch.MathExpression:
    """Return the sum of several metrics. A metric without data counts as zero."""
    using = {f"m{number}": metric for number, metric in enumerate(metrics)}
    return cloudwatch.MathExpression(
        expression=f"SUM([{', '.join(using)}])", using_metrics=using, label=label, period=FIVE_MINUTES
    )
