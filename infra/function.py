"""Every Lambda function of the service is made here."""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from aws_cdk import Duration, RemovalPolicy, Size, Stack
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
from infra.settings import Architecture, LogLevel, Settings
from shared import schema

MEMORY_MB = 512
"""Memory buys CPU: 1769 MB are one core, so this is 0.29 of one. The imports need about 65 MB. A request takes
about a millisecond of a core, so 3 to 4 ms here, which is less than DynamoDB takes to answer: more memory would
be paid for while waiting. Less would make cold starts, which are nearly all CPU, longer than a caller accepts."""


TIMEOUT = Duration.seconds(28)
"""Enough for two DynamoDB requests that are answered only at the last try (shared/aws/dynamodb.py), and less than the 30
seconds that the gateway waits: so the caller gets the function's own 503 with Retry-After."""

LOCAL_ANSWER_SECONDS = "25"
"""How long a GET may take on a laptop, where a query can take the seconds after which DynamoDB would be given up."""

STREAM_RETRIES = 100
"""How often a failing batch of stream records is tried again: enough for a failure of minutes, whatever the pause
between two tries. A record that can never be handled holds up its part of the stream for so long, because records
are kept in order; then it goes to the archive bucket, and the rest on."""

NO_MAXIMUM_AGE = -1
"""Of the stream's records: Lambda would discard older ones although it never tried them. STREAM_RETRIES bounds a bad record, and the
stream itself keeps a record for 24 hours."""

FAILED_RECORDS = "aws/lambda/*"
"""Where Lambda puts the records that it gives up, in the archive bucket; Lambda chooses the names."""

LIVE = "live"
"""The alias that everybody calls: it is moved to a new version of a function once that is ready."""

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
    "AbortMultipartUpload": ("Decrypt",),  # stands for uploads in parts, which S3 reads again to put them together
    "ListMultipartUploadParts": ("Decrypt",),  # asked of whoever lists them, says S3's reference of ListParts
    "DeleteObject": (),
}
"""What S3 asks of a KMS key for whoever does this with an object; a new action has to say so here."""


UPDATING, READING = frozenset({"UpdateItem"}), frozenset({"GetItem", "BatchGetItem"})
"""The actions whose attributes a role can be bound to."""

WRITING = UPDATING | {"PutItem", "DeleteItem"}
"""The actions that answer with what they wrote or replaced, if asked to."""


class ServiceFunction(Construct):
    """A folder below `functions/` as a Lambda function, with its own role and its own log group.

    Whoever calls it calls its alias, `live`. Each deployment that changes its code or its configuration publishes
    a version, moves the alias to it, and only then deletes the version before.

    The role can write its own log and nothing else, until the `allow_...` methods add to it. No managed policy
    is used, because those name every log group of the account; and none of CDK's grants, because those allow
    more than the functions do.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        folder: str,
        settings: Settings,
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
        """`feeds_itself`: what it does not reach, it sends to its own queue; Lambda would stop that after 16 rounds.

        `storage`: how much `/tmp` holds, if 512 MB are too little.
        `snap_start`: it starts from a snapshot. `warm`: how many instances are started already. Not both.
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
            # Powertools takes this level, and not its own variable, where Lambda has one.
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
            reason="Python 3.13 is what the service is tested and measured on; Lambda supports it until 2029.",
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
        """Allow DynamoDB actions on the items of these entities only, by the start of their partition keys.

        A Query that is allowed so must name one of those partitions. Transactions need the actions of their parts.
        With `attributes` a request may name the keys and these, and no others; what it reads, it has to name. That
        holds for updates and reads only: whoever may put or delete whole items gets past any such list.

        A write may ask for its item back with `returning` only (ReturnValues): `ALL_NEW` reads all of it, whatever the
        attributes, so it is for roles that may read the item anyway.
        """
        conditions: dict[str, Any] = {
            # Entities of one partition have one start.
            "ForAllValues:StringLike": {
                "dynamodb:LeadingKeys": list(dict.fromkeys(_leading_key(entity) for entity in of))
            },
            # ForAllValues is also true when a request has no keys at all.
            "Null": {"dynamodb:LeadingKeys": "false"},
        }
        equal: dict[str, str | list[str]] = {}
        if {*actions} & WRITING:
            # A part of a transaction has no such key: it answers with nothing.
            equal["dynamodb:ReturnValues"] = ["NONE", *returning]
        named = sorted({*attributes})
        if named:
            if not {*actions} <= UPDATING | READING:
                raise ValueError(f"attributes hold for updates and reads, not for all of {actions}")
            conditions["ForAllValues:StringEquals"] = {
                "dynamodb:Attributes": [schema.PARTITION_KEY, schema.SORT_KEY, *named]
            }
            conditions["Null"]["dynamodb:Attributes"] = "false"
            if {*actions} & READING:
                # Else a read that names no attributes would get all of them.
                equal["dynamodb:Select"] = "SPECIFIC_ATTRIBUTES"
        if equal:
            conditions["StringEqualsIfExists"] = equal
        self._allow_key("dynamodb", "Decrypt")
        self._allow(
            [f"dynamodb:{action}" for action in actions], (table or self._table).table_arn, conditions=conditions
        )

    def allow_queries(self, *indexes: schema.Index, table: dynamodb.ITableV2 | None = None) -> None:
        """Allow Query on these indexes, and not on the table."""
        arn = (table or self._table).table_arn
        self._allow(["dynamodb:Query"], *(f"{arn}/index/{index.name}" for index in indexes))
        self._allow_key("dynamodb", "Decrypt")

    def allow_secret(self, secret: secretsmanager.ISecret) -> None:
        """Allow to read one secret."""
        self._allow(["secretsmanager:GetSecretValue"], secret.secret_arn)
        self._allow_key("secretsmanager", "Decrypt")

    def allow_objects(self, *actions: str, bucket: s3.IBucket, below: Collection[str] = ("*",)) -> None:
        """Allow S3 actions on the objects of another stack's bucket whose keys match one of the patterns."""
        self._allow([f"s3:{action}" for action in actions], *(bucket.arn_for_objects(pattern) for pattern in below))
        self._allow_key("s3", *(needed for action in actions for needed in OBJECT_KEYS[action]))
        # cdk-nag asks about each pattern by itself, and names the bucket as CloudFormation will.
        owner = Stack.of(bucket)
        imported = owner.resolve(owner.export_value(bucket.bucket_arn))["Fn::ImportValue"]
        for pattern in below:
            accept(
                self._role,
                rule=f"AwsSolutions-IAM5[Resource::{imported}/{pattern}]",
                reason="Objects are named after what they belong to, so a role can only name their folder.",
            )

    def allow_listing(self, bucket: s3.IBucket, *, below: Collection[str] = ()) -> None:
        """Allow to list a bucket, or only what is below these prefixes.

        Without leave to list, S3 answers 403 instead of 404 for an object that is gone: so whoever has to tell
        the two apart gets it too, and for the whole bucket, because a request for one object names no prefix.
        """
        conditions = {"StringLike": {"s3:prefix": list(below)}} if below else None
        self._allow(["s3:ListBucket"], bucket.bucket_arn, conditions=conditions)

    def allow_send(self, *queues: sqs.IQueue) -> None:
        """Allow to send messages to these queues."""
        self._allow(["sqs:SendMessage"], *(queue.queue_arn for queue in queues))
        # SQS may have a key at hand for this role; then it is decrypted, and used for some minutes.
        self._allow_key("sqs", "GenerateDataKey", "Decrypt")

    def allow_events(self, bus: str) -> None:
        """Allow to put events on a bus, by its name or its ARN."""
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
        """Be called with the messages of a queue; the handler names those that are to be delivered again.

        `window`: how long Lambda waits for more messages before it calls with a batch that is not full.
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
        """Be called with the records of the table's stream that match one of the filters.

        The records of one item stay in order, also when `lanes` of a shard are read side by side; no others do. The
        handler names the first record that it could not handle; Lambda goes on from there, and halves a batch
        that fails as a whole.
        """
        stream = self._stream
        if stream is None:
            raise ValueError(f"{self._table} has no stream")
        # On the stream and not on "*", as some examples have it: Lambda asks for this stream only.
        reading = ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")
        self._allow([f"dynamodb:{action}" for action in reading], stream)
        self._allow_key("dynamodb", "Decrypt")
        # Lambda asks for both before it takes a bucket as destination.
        self.allow_objects("PutObject", bucket=given_up, below=(FAILED_RECORDS,))
        self.allow_listing(given_up)
        mapping = lambda_.CfnEventSourceMapping(
            self,
            "Records",
            function_name=self.alias.function_arn,
            event_source_arn=stream,
            # From the oldest record: a mapping that is replaced misses nothing, and repeats are harmless.
            starting_position="TRIM_HORIZON",
            batch_size=batch_size,
            maximum_batching_window_in_seconds=window.to_seconds(),
            parallelization_factor=lanes,
            function_response_types=["ReportBatchItemFailures"],
            bisect_batch_on_function_error=True,
            maximum_retry_attempts=STREAM_RETRIES,
            maximum_record_age_in_seconds=NO_MAXIMUM_AGE,
            # Counts what is given up, which nothing else reports.
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
        # Lambda checks the role while it makes the mapping.
        mapping.node.add_dependency(self._role)

    def _allow_key(self, service: str, *actions: str) -> None:
        """Let a service use the KMS key, if there is one, for what this role asks of that service."""
        if self._key and actions:
            via = f"{service}.{Stack.of(self).region}.amazonaws.com"
            self._allow(
                [f"kms:{action}" for action in dict.fromkeys(actions)],
                self._key.key_arn,
                conditions={"StringEquals": {"kms:ViaService": via}},
            )

    def _allow(self, actions: list[str], *resources: str, conditions: Mapping[str, object] | None = None) -> None:
        self._role.add_to_policy(iam.PolicyStatement(actions=actions, resources=list(resources), conditions=conditions))


VIDEO_ID = "?" * 36
"""A UUID, as a pattern."""


def _leading_key(entity: schema.Entity) -> str:
    """A pattern for the entity's partition keys; the whole key when it has no variable part.

    One that other keys go on from ends where its own do, or whoever may write the one could write the others.
    """
    if any(other.pk.startswith(f"{entity.pk}#") for other in schema.ENTITIES):
        return entity.pk.format(videoId=VIDEO_ID)
    constant = entity.partition_prefix == entity.pk
    return entity.pk if constant else f"{entity.partition_prefix}*"
