"""Every Lambda function of the service is made here."""

from collections.abc import Iterable, Mapping

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.nag import accept
from shared import schema

LOG_RETENTION = logs.RetentionDays.ONE_MONTH

MEMORY_MB = 512
"""Memory buys CPU: 1769 MB are one core, so this is 0.29 of one. The imports need about 65 MB. A request takes
about a millisecond of a core, so 3 to 4 ms here, which is less than DynamoDB takes to answer: more memory would
be paid for while waiting. Less would make cold starts, which are nearly all CPU, longer than a caller accepts."""


TIMEOUT = Duration.seconds(28)
"""Enough for two DynamoDB requests that are answered only at the last try (shared/dynamodb.py), and less than the 30
seconds that the gateway waits: so the caller gets the function's own 503 with Retry-After."""


class ServiceFunction(Construct):
    """A folder below `functions/` as a Lambda function, with its own role and its own log group.

    The role can write its own log and nothing else, until the `allow_...` methods add to it. No managed policy
    is used, because those name every log group of the account.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        folder: str,
        code: lambda_.Code,
        table: dynamodb.TableV2,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(scope, id_)
        self._table = table
        log_group = logs.LogGroup(self, "Logs", retention=LOG_RETENTION, removal_policy=RemovalPolicy.DESTROY)
        self._role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        self._allow(["logs:CreateLogStream", "logs:PutLogEvents"], log_group.log_group_arn)
        self.function = lambda_.Function(
            self,
            "Function",
            code=code,
            handler=f"functions.{folder}.handler.lambda_handler",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            memory_size=MEMORY_MB,
            timeout=TIMEOUT,
            role=self._role,
            log_group=log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            environment={
                "TABLE_NAME": table.table_name,
                "POWERTOOLS_SERVICE_NAME": folder,
                "POWERTOOLS_LOG_LEVEL": "INFO",
                **(environment or {}),
            },
        )
        accept(
            self.function,
            rule="AwsSolutions-L1",
            reason="Python 3.13 is what the service is tested and measured on; Lambda supports it until 2029.",
        )

    def allow_items(self, *actions: str, of: Iterable[schema.Entity]) -> None:
        """Allow DynamoDB actions on the items of these entities only, told by the start of their partition keys."""
        self._allow(
            [f"dynamodb:{action}" for action in actions],
            self._table.table_arn,
            conditions={
                "ForAllValues:StringLike": {"dynamodb:LeadingKeys": [_leading_key(entity) for entity in of]},
                # ForAllValues is also true when a request has no keys at all.
                "Null": {"dynamodb:LeadingKeys": "false"},
            },
        )

    def allow_queries(self, *indexes: schema.Index) -> None:
        """Allow Query on these indexes, and not on the table."""
        self._allow(["dynamodb:Query"], *(f"{self._table.table_arn}/index/{index.name}" for index in indexes))

    def allow_secret(self, secret: secretsmanager.ISecret) -> None:
        """Allow to read one secret."""
        self._allow(["secretsmanager:GetSecretValue"], secret.secret_arn)

    def _allow(self, actions: list[str], *resources: str, conditions: Mapping[str, object] | None = None) -> None:
        self._role.add_to_policy(iam.PolicyStatement(actions=actions, resources=list(resources), conditions=conditions))


def _leading_key(entity: schema.Entity) -> str:
    """A pattern for the entity's partition keys; the whole key when it has no variable part."""
    constant = entity.partition_prefix == entity.pk
    return entity.pk if constant else f"{entity.partition_prefix}*"
