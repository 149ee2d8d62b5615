"""Factory for all Lambda functions of the service."""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from aws_cdk import Aws, Duration, RemovalPolicy, Size, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.encryption import Encryption
from infra.nag import accept
from infra.settings import Architecture, DeploymentSettings, LogLevel
from shared import schema

MEMORY_MB = 512
"""Default memory in megabytes.

Memory also determines CPU: 1769 MB correspond to one core, so 512 MB correspond to 0.29 of a core. Imported modules use
about 65 MB. A request needs about 1 ms of a full core, so 3 to 4 ms with 512 MB. This is less than DynamoDB's latency.
More memory would cost more while a function waits for DynamoDB. Less memory would slow cold starts, which are
CPU-bound.
"""


TIMEOUT = Duration.seconds(28)
"""Default timeout. It covers two DynamoDB requests that succeed only on their last attempt (shared/aws/dynamodb.py).

The gateway's timeout is 30 seconds. Because this timeout is shorter, the caller receives the function's own 503 with
Retry-After.
"""

LOCAL_ANSWER_SECONDS = "25"
"""Time limit of a GET request on the local target, in seconds. Queries of MiniStack may exceed the default limit."""

STREAM_RETRIES = 100
"""Maximum number of retries of a failing batch of stream records. The retries cover an outage of minutes.

A record that always fails blocks its shard, because Lambda preserves the order of records. After the last retry, Lambda
writes the record to the archive bucket and continues.
"""

NO_MAXIMUM_AGE = -1
"""Value that disables Lambda's maximum record age.

With a limit, Lambda would discard older records without invoking the function. STREAM_RETRIES already limits the
retries of bad records, and the stream retains records for 24 hours.
"""

FAILED_RECORDS = "aws/lambda/*"
"""Pattern of the keys under which Lambda stores stream records in the archive bucket, after all retries have failed."""

LIVE = "live"
"""Name of the alias that all callers invoke. A deployment moves the alias to the new version."""

ARCHITECTURES: Mapping[Architecture, lambda_.Architecture] = {
    "arm64": lambda_.Architecture.ARM_64,
    "x86_64": lambda_.Architecture.X86_64,
}

LOG_LEVELS: Mapping[LogLevel, lambda_.ApplicationLogLevel] = {
    "INFO": lambda_.ApplicationLogLevel.INFO,
    "WARNING": lambda_.ApplicationLogLevel.WARN,
    "ERROR": lambda_.ApplicationLogLevel.ERROR,
}

OBJECT_KEYS: Mapping[str, tuple[str, ...]] = {
    "GetObject": ("Decrypt",),
    "PutObject": ("GenerateDataKey",),
    "AbortMultipartUpload": ("Decrypt",),  # roles with this action upload in parts, and S3 decrypts parts on completion
    "ListMultipartUploadParts": ("Decrypt",),  # required by S3's reference of ListParts
    "DeleteObject": (),
}
"""KMS actions that a role needs for an S3 action on an encrypted bucket, by S3 action. Add an entry for each new action."""


UPDATING, READING = frozenset({"UpdateItem"}), frozenset({"GetItem", "BatchGetItem"})
"""DynamoDB actions for which an IAM condition can name attributes: updates, and reads by key."""

WRITING = UPDATING | {"PutItem", "DeleteItem"}
"""DynamoDB actions that write one item. Their responses can contain the item as it was before or after the write."""


class ServiceFunction(Construct):
    """A Lambda function with its own role and log group. The code is a folder below `functions/`.

    Callers invoke the alias `live`. A deployment that changes code or configuration publishes a version, moves the
    alias to this version, and then deletes the previous version.

    At first the role can only write the function's log. The `allow_...` methods add permissions. The role has no
    managed policies, because those cover every log group of the account. CDK's `grant_...` methods would allow more than
    the functions need.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        folder: str,
        settings: DeploymentSettings,
        code: lambda_.Code,
        table: dynamodb.ITableV2,
        encryption: Encryption,
        environment: Mapping[str, str] | None = None,
        memory_mb: int = MEMORY_MB,
        timeout: Duration = TIMEOUT,
        storage: Size | None = None,
        feeds_itself: bool = False,
        snap_start: bool = False,
        warm: int = 0,
    ) -> None:
        """Create the function.

        `feeds_itself` allows the function to send messages to its own queue. Otherwise Lambda's loop detection would
        stop the function after 16 rounds. `storage` is the size of `/tmp`, 512 MB by default. `snap_start` enables
        SnapStart. `warm` is the provisioned concurrency, which Lambda does not support together with SnapStart.
        """
        super().__init__(scope, id_)
        self._table = table
        self._stream = settings.stream_arn or table.table_stream_arn
        self._key = encryption.data
        self.log_group = logs.LogGroup(
            self,
            "Logs",
            encryption_key=encryption.logs,
            retention=settings.log_retention,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.stream_mapping_id: str | None = None
        self._role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        self._allow(["logs:CreateLogStream", "logs:PutLogEvents"], self.log_group.log_group_arn)
        self.function = lambda_.Function(
            self,
            "Function",
            code=code,
            handler=f"functions.{folder}.handler.lambda_handler",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=ARCHITECTURES[settings.architecture],
            memory_size=memory_mb,
            timeout=timeout,
            ephemeral_storage_size=storage,
            role=self._role,
            log_group=self.log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            # Powertools prefers Lambda's log level over its own variable.
            application_log_level_v2=LOG_LEVELS[settings.log_level],
            recursive_loop=lambda_.RecursiveLoop.ALLOW if feeds_itself else None,
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if snap_start else None,
            environment={
                "TABLE_NAME": table.table_name,
                "POWERTOOLS_SERVICE_NAME": folder,
                "POWERTOOLS_LOG_LEVEL": settings.log_level,
                "ENVIRONMENT": settings.env,
                **({"ANSWER_SECONDS": LOCAL_ANSWER_SECONDS} if settings.target == "local" else {}),
                **(environment or {}),
            },
        )
        accept(
            self.function,
            rule="AwsSolutions-L1",
            reason="The service is tested and measured on Python 3.13, which Lambda supports until 2029.",
        )
        self.alias = lambda_.Alias(
            self,
            "Alias",
            alias_name=LIVE,
            version=self.function.current_version,
            provisioned_concurrent_executions=warm or None,
        )

    def allow_items(
        self,
        *actions: str,
        of: Iterable[schema.Entity],
        table: dynamodb.ITableV2 | None = None,
        attributes: Iterable[str] = (),
        returning: Iterable[str] = (),
    ) -> None:
        """Allow DynamoDB actions on the items of some entities. IAM compares the prefix of the partition key.

        A Query must name a partition of these entities. A transaction needs the permission for each of its actions.
        With `attributes`, a request may name only these attributes and the keys, and a read must have a projection.
        Only updates and reads accept `attributes`, because a put or delete affects the whole item. Raises ValueError
        for other actions.

        `returning` lists the allowed ReturnValues in addition to `NONE`. Allow `ALL_NEW` only for roles that may read
        the whole item, because it returns the whole item even if `attributes` restricts the update.
        """
        conditions: dict[str, Any] = {
            # Deduplicated, because entities that share a partition have the same prefix.
            "ForAllValues:StringLike": {
                "dynamodb:LeadingKeys": list(dict.fromkeys(_leading_key(entity) for entity in of))
            },
            # ForAllValues is also true if a request has no keys.
            "Null": {"dynamodb:LeadingKeys": "false"},
        }
        equal: dict[str, str | list[str]] = {}
        if {*actions} & WRITING:
            # Writes of a transaction do not have this condition key, because they return no item.
            equal["dynamodb:ReturnValues"] = ["NONE", *returning]
        named = sorted({*attributes})
        if named:
            if not {*actions} <= UPDATING | READING:
                raise ValueError(f"`attributes` can only restrict updates and reads, not all of {actions}")
            conditions["ForAllValues:StringEquals"] = {
                "dynamodb:Attributes": [schema.PARTITION_KEY, schema.SORT_KEY, *named]
            }
            conditions["Null"]["dynamodb:Attributes"] = "false"
            if {*actions} & READING:
                # Otherwise a read without a projection would return all attributes.
                equal["dynamodb:Select"] = "SPECIFIC_ATTRIBUTES"
        if equal:
            conditions["StringEqualsIfExists"] = equal
        self._allow_key("dynamodb", "Decrypt")
        self._allow(
            [f"dynamodb:{action}" for action in actions], (table or self._table).table_arn, conditions=conditions
        )

    def allow_queries(self, *indexes: schema.Index, table: dynamodb.ITableV2 | None = None) -> None:
        """Allow queries of indexes. Queries of the table itself need `allow_items`."""
        arn = (table or self._table).table_arn
        self._allow(["dynamodb:Query"], *(f"{arn}/index/{index.name}" for index in indexes))
        self._allow_key("dynamodb", "Decrypt")

    def allow_secret(self, secret: secretsmanager.ISecret) -> None:
        """Allow reading the value of a secret."""
        self._allow(["secretsmanager:GetSecretValue"], secret.secret_arn)
        self._allow_key("secretsmanager", "Decrypt")

    def allow_objects(self, *actions: str, bucket: s3.IBucket, below: Collection[str] = ("*",)) -> None:
        """Allow S3 actions on those objects of a bucket whose keys match one of the patterns in `below`. The bucket
        must be in another stack."""
        self._allow([f"s3:{action}" for action in actions], *(bucket.arn_for_objects(pattern) for pattern in below))
        self._allow_key("s3", *(needed for action in actions for needed in OBJECT_KEYS[action]))
        accept_objects(self._role, bucket, below)

    def allow_listing(self, bucket: s3.IBucket, *, below: Collection[str] = ()) -> None:
        """Allow listing the objects of a bucket, or only objects below some prefixes.

        Without this permission, S3 returns 403 instead of 404 for a missing object. A function that needs the 404 must
        have the permission for the whole bucket, because a request for one object has no prefix.
        """
        conditions = {"StringLike": {"s3:prefix": list(below)}} if below else None
        self._allow(["s3:ListBucket"], bucket.bucket_arn, conditions=conditions)

    def allow_send(self, *queues: sqs.IQueue) -> None:
        """Allow sending messages to these queues."""
        self._allow(["sqs:SendMessage"], *(queue.queue_arn for queue in queues))
        # A sender also needs Decrypt, because SQS caches a data key for some minutes and decrypts it again.
        self._allow_key("sqs", "GenerateDataKey", "Decrypt")

    def allow_depth(self, *queues: sqs.IQueue) -> None:
        """Allow reading the attributes of these queues, such as the number of messages."""
        self._allow(["sqs:GetQueueAttributes"], *(queue.queue_arn for queue in queues))

    @property
    def role_arn(self) -> str:
        """ARN of the function's role, for policies of other resources."""
        return self._role.role_arn

    def allow_domain(self, arn: str, requests: Mapping[str, Iterable[str]]) -> None:
        """Allow HTTP requests to an OpenSearch domain. `requests` has the permitted paths by method, such as `Get`."""
        for method, paths in requests.items():
            resources = [f"{arn}/{path}" for path in paths]
            self._allow([f"es:ESHttp{method}"], *resources)
            for resource in [resource for resource in resources if "*" in resource]:
                accept(
                    self._role,
                    rule=f"AwsSolutions-IAM5[Resource::{_as_cdk_nag_names(resource)}]",
                    reason="A function can list its indexes only by the prefix of their names.",
                )

    def allow_collection(self, arn: str) -> None:
        """Allow requests to an OpenSearch Serverless collection. The collection's data access policies limit the
        requests further."""
        self._allow(["aoss:APIAccessAll"], arn)

    def allow_sql(self, *statements: iam.PolicyStatement) -> None:
        """Allow SQL queries (infra/archive.py). To read the queried objects, the function also needs
        `allow_objects`."""
        for statement in statements:
            self._role.add_to_policy(statement)

    def allow_events(self, bus: str) -> None:
        """Allow putting events on an EventBridge bus. `bus` is the name or ARN of the bus."""
        arn = (
            bus
            if bus.startswith("arn:")
            else Stack.of(self).format_arn(service="events", resource="event-bus", resource_name=bus)
        )
        self._allow(["events:PutEvents"], arn)

    def consume(
        self,
        queue: sqs.IQueue,
        *,
        batch_size: int,
        max_concurrency: int | None = None,
        window: Duration | None = None,
    ) -> None:
        """Subscribe the function to a queue. The handler must return the ids of the messages that failed.

        `batch_size` is the maximum number of messages per call. `window` is the maximum time that Lambda waits to fill a
        batch.
        """
        self._allow(
            ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"],
            queue.queue_arn,
        )
        self._allow_key("sqs", "Decrypt")
        lambda_.EventSourceMapping(
            self,
            "Messages",
            target=self.alias,
            event_source_arn=queue.queue_arn,
            batch_size=batch_size,
            max_concurrency=max_concurrency,
            max_batching_window=window,
            report_batch_item_failures=True,
        )

    def read_stream(
        self,
        *,
        filters: Iterable[Mapping[str, Any]],
        given_up: s3.IBucket,
        batch_size: int,
        window: Duration,
        lanes: int = 1,
    ) -> None:
        """Subscribe the function to the records of the table's stream that match a filter.

        Lambda processes up to `lanes` batches of a shard in parallel. Records of one item stay in order. Records of
        different items have no order if `lanes` exceeds 1. The handler returns the first record that failed, and Lambda
        resumes at that record. If the handler raises an error, Lambda splits the batch in two.

        Lambda writes records that fail permanently to the bucket `given_up`. `window` is the maximum time that Lambda
        waits to fill a batch. Raises ValueError if the table has no stream.
        """
        stream = self._stream
        if stream is None:
            raise ValueError(f"{self._table} has no stream")
        # Restricted to this stream. Some examples allow ListStreams on "*", but Lambda does not need that.
        reading = ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")
        self._allow([f"dynamodb:{action}" for action in reading], stream)
        self._allow_key("dynamodb", "Decrypt")
        # Before Lambda accepts a bucket as destination, it checks that the role may put objects and list the bucket.
        self.allow_objects("PutObject", bucket=given_up, below=(FAILED_RECORDS,))
        self.allow_listing(given_up)
        mapping = lambda_.CfnEventSourceMapping(
            self,
            "Records",
            function_name=self.alias.function_arn,
            event_source_arn=stream,
            # Starts at the oldest record, so that a replaced mapping misses none. Repeated records are harmless.
            starting_position="TRIM_HORIZON",
            batch_size=batch_size,
            maximum_batching_window_in_seconds=window.to_seconds(),
            parallelization_factor=lanes,
            function_response_types=["ReportBatchItemFailures"],
            bisect_batch_on_function_error=True,
            maximum_retry_attempts=STREAM_RETRIES,
            maximum_record_age_in_seconds=NO_MAXIMUM_AGE,
            # Counts discarded records, which no other metric reports.
            metrics_config=lambda_.CfnEventSourceMapping.MetricsConfigProperty(metrics=["EventCount"]),
            destination_config=lambda_.CfnEventSourceMapping.DestinationConfigProperty(
                on_failure=lambda_.CfnEventSourceMapping.OnFailureProperty(destination=given_up.bucket_arn)
            ),
            filter_criteria=lambda_.CfnEventSourceMapping.FilterCriteriaProperty(
                filters=[
                    lambda_.CfnEventSourceMapping.FilterProperty(pattern=json.dumps(pattern, separators=(",", ":")))
                    for pattern in filters
                ]
            ),
        )
        self.stream_mapping_id = mapping.ref
        # Lambda validates the role when it creates the mapping.
        mapping.node.add_dependency(self._role)

    def _allow_key(self, service: str, *actions: str) -> None:
        """Allow actions on the KMS key through one AWS service. Without a KMS key, nothing is added."""
        if self._key and actions:
            via = f"{service}.{Stack.of(self).region}.amazonaws.com"
            self._allow(
                [f"kms:{action}" for action in dict.fromkeys(actions)],
                self._key.key_arn,
                conditions={"StringEquals": {"kms:ViaService": via}},
            )

    def _allow(self, actions: list[str], *resources: str, conditions: Mapping[str, object] | None = None) -> None:
        self._role.add_to_policy(iam.PolicyStatement(actions=actions, resources=list(resources), conditions=conditions))


def accept_objects(construct: Construct, bucket: s3.IBucket, below: Iterable[str]) -> None:
    """Accept cdk-nag's findings about the key patterns `below` in the policies of a construct. The bucket must be in
    another stack."""
    # cdk-nag checks each pattern separately, and names the bucket as CloudFormation does.
    owner = Stack.of(bucket)
    imported = owner.resolve(owner.export_value(bucket.bucket_arn))["Fn::ImportValue"]
    for pattern in below:
        accept(
            construct,
            rule=f"AwsSolutions-IAM5[Resource::{imported}/{pattern}]",
            reason="The names of objects contain ids, so a policy can name only the folder.",
        )


def _as_cdk_nag_names(resource: str) -> str:
    """Return an ARN with pseudo parameters in the notation of cdk-nag's findings."""
    names = {Aws.PARTITION: "Partition", Aws.REGION: "Region", Aws.ACCOUNT_ID: "AccountId"}
    for token, name in names.items():
        resource = resource.replace(token, f"<AWS::{name}>")
    return resource


VIDEO_ID = "?" * 36
"""IAM pattern of a UUID."""


def _leading_key(entity: schema.Entity) -> str:
    """Return an IAM pattern that matches the partition keys of an entity, and of no other entity.

    The pattern ends with `*`, unless the key has no variable part. If the keys of another entity begin with this
    entity's key, the pattern instead has a `?` for each character of the video id.
    """
    if any(other.pk.startswith(f"{entity.pk}#") for other in schema.ENTITIES):
        return entity.pk.format(videoId=VIDEO_ID)
    constant = entity.partition_prefix == entity.pk
    return entity.pk if constant else f"{entity.partition_prefix}*"
