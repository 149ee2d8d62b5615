"""The data stack: the tables, and the secrets for cursors and webhooks. No deployment may delete or replace these resources."""

import json
from collections.abc import Iterator
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.encryption import Encryption
from infra.nag import accept
from infra.retention import retain
from infra.settings import GENERATED, DeploymentSettings, UnitRange
from shared import schema


class DataStack(cdk.Stack):
    """Tables and secrets, protected against deletion and replacement except on the local target."""

    def __init__(self, scope: Construct, id_: str, *, settings: DeploymentSettings, **kwargs: Any) -> None:
        super().__init__(
            scope,
            id_,
            description="Video metadata: tables and secrets, which must not be lost",
            termination_protection=settings.deletion_protection,
            **kwargs,
        )
        self.encryption = Encryption.chosen(self, settings)
        self.table = self._table(settings)
        self.audit_table = self._audit_table(settings)
        if settings.capacity_steps:
            self._capacity_steps(settings)
        self.cursor_secret = self._cursor_secret()
        self.webhook_secret = self._webhook_secret(settings)
        # Exported even while consumers read the stream of a restored table instead. This stack is deployed before the
        # stacks that import the export, and CloudFormation rejects the removal of an export that is still imported.
        self.export_value(self.table.table_stream_arn)

    def _table(self, settings: DeploymentSettings) -> dynamodb.TableV2:
        """Return the main table. shared/schema.py defines its keys and indexes."""
        table = dynamodb.TableV2(
            self,
            "Table",
            table_name=settings.table_name,
            dynamo_stream=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES,
            # Only throttled keys are recorded, so there is no cost without throttling.
            contributor_insights_specification=dynamodb.ContributorInsightsSpecification(
                enabled=True, mode=dynamodb.ContributorInsightsMode.THROTTLED_KEYS
            ),
            **self._common(settings, schema.TABLE_NAME),
        )
        return self._apply_retention(table, settings)

    def _audit_table(self, settings: DeploymentSettings) -> dynamodb.TableV2:
        """Return the table of the audit trail. It has no stream, because no function would consume one."""
        table = dynamodb.TableV2(
            self,
            "AuditTable",
            table_name=settings.audit_table_name,
            **self._common(settings, schema.AUDIT_TABLE_NAME),
        )
        return self._apply_retention(table, settings)

    def _cursor_secret(self) -> secretsmanager.Secret:
        """Return the cursor secret, from which functions derive the encryption key of list cursors."""
        secret = self._secret("CursorSecret", "Key material for the list cursors of the video metadata API")
        accept(
            secret,
            rule="AwsSolutions-SMG4",
            reason="A cursor gives access only to lists that its caller may read anyway. A rotation would "
            "invalidate all cursors in use.",
        )
        return secret

    def _webhook_secret(self, settings: DeploymentSettings) -> secretsmanager.ISecret:
        """Return the master secret of webhooks, from which functions derive the secret of each webhook.

        If the settings retain data, the secret has a fixed name and outlives the stack. A recreated stack could not
        create a second secret of that name. `make deploy` therefore passes the ARN of the existing secret
        (tools/deploying.py).
        """
        if settings.webhook_secret is not None and settings.webhook_secret != GENERATED:
            return secretsmanager.Secret.from_secret_complete_arn(self, "WebhookSecret", settings.webhook_secret)
        is_named = settings.keep_data and settings.webhook_secret is None
        name = f"{settings.table_name}/webhooks" if is_named else None
        secret = self._secret("WebhookSecret", "Key material for the secrets that webhooks are signed with", name)
        retain(secret, settings)
        accept(
            secret,
            rule="AwsSolutions-SMG4",
            reason="Receivers hold signing secrets that are derived from this secret, so all of them would reject requests after a "
            "rotation. The API rotates a webhook's own secret; the old and the new one are then both valid for a day.",
        )
        return secret

    def _secret(self, id_: str, description: str, name: str | None = None) -> secretsmanager.Secret:
        return secretsmanager.Secret(
            self,
            id_,
            secret_name=name,
            description=description,
            encryption_key=self.encryption.data,
            generate_secret_string=secretsmanager.SecretStringGenerator(password_length=64, exclude_punctuation=True),
        )

    def _capacity_steps(self, settings: DeploymentSettings) -> None:
        """Add a daily schedule for each capacity step in the settings and each scalable target. The schedule changes the
        target's minimum capacity.

        The schedules call Application Auto Scaling. CloudFormation accepts scheduled actions only for scalable targets
        in the template. The template has none, because the global table that TableV2 creates registers its targets
        itself.
        """
        role = iam.Role(
            self,
            "CapacityStepsRole",
            description="Changes the minimum capacity of the tables by the clock",
            assumed_by=iam.ServicePrincipal(
                "scheduler.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID}}
            ),
        )
        targets = self.format_arn(service="application-autoscaling", resource="scalable-target", resource_name="*")
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["application-autoscaling:RegisterScalableTarget"],
                resources=[targets],
                conditions={"StringEquals": {"application-autoscaling:service-namespace": "dynamodb"}},
            )
        )
        # Application Auto Scaling requires that its caller may also scale the table.
        tables = [self.table.table_arn, self.audit_table.table_arn]
        scaling = ["dynamodb:DescribeTable", "dynamodb:UpdateTable"]
        role.add_to_policy(iam.PolicyStatement(actions=scaling, resources=tables))
        accept(
            role,
            rule="AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:application-autoscaling:<AWS::Region>:<AWS::AccountId>"
            ":scalable-target/*]",
            reason="The global tables register the scalable targets, whose ids CloudFormation does not return.",
        )
        for step in settings.capacity_steps:
            at = f"{step.hour:02}{step.minute:02}"
            for name, resource, kind, range_ in _scalable_targets(settings):
                # The ARN of a universal target has no region and no account.
                service = f"arn:{cdk.Aws.PARTITION}:scheduler:::aws-sdk:applicationautoscaling:registerScalableTarget"
                change = {
                    "ServiceNamespace": "dynamodb",
                    "ResourceId": resource,
                    "ScalableDimension": f"dynamodb:{'index' if '/index/' in resource else 'table'}:{kind}CapacityUnits",
                    "MinCapacity": range_.minimum * step.factor,
                    "MaxCapacity": range_.maximum,
                }
                scheduler.CfnSchedule(
                    self,
                    f"CapacityAt{at}{kind}{name}",
                    description=f"Minimum capacity x{step.factor}: {resource}",
                    schedule_expression=f"cron({step.minute} {step.hour} * * ? *)",
                    flexible_time_window={"mode": "OFF"},
                    target=scheduler.CfnSchedule.TargetProperty(
                        arn=service,
                        role_arn=role.role_arn,
                        input=json.dumps(change),
                        # A late step would override the next one.
                        retry_policy={"maximumEventAgeInSeconds": 600, "maximumRetryAttempts": 5},
                    ),
                )

    def _common(self, settings: DeploymentSettings, table: str) -> dict[str, Any]:
        """Return the properties that are the same for both tables. `table` is the table's name in the schema."""
        kinds = dynamodb.TableEncryptionV2
        classes = dynamodb.TableClass
        return {
            "partition_key": _attribute(schema.Attribute(schema.PARTITION_KEY)),
            "sort_key": _attribute(schema.Attribute(schema.SORT_KEY)),
            "global_secondary_indexes": [_index(index, settings) for index in _indexes(settings, table)],
            "time_to_live_attribute": schema.TTL_ATTRIBUTE,
            "billing": _billing(settings, table),
            "warm_throughput": _warm_throughput(settings),
            "table_class": classes.STANDARD_INFREQUENT_ACCESS if table in settings.infrequent_access else None,
            "encryption": kinds.aws_managed_key() if self.encryption.data else kinds.dynamo_owned_key(),
            "point_in_time_recovery_specification": dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True, recovery_period_in_days=settings.recovery_days
            ),
            "deletion_protection": settings.deletion_protection,
            # Set explicitly, because stack tags do not reach the replicas of the global table that TableV2 creates.
            "tags": [cdk.CfnTag(key=key, value=value) for key, value in settings.tags.items()],
        }

    def _apply_retention(self, table: dynamodb.TableV2, settings: DeploymentSettings) -> dynamodb.TableV2:
        """Apply the retention policy, and the KMS key if one is configured. Returns the table.

        The key is set on the underlying resource, because the CDK property requires a known region. These stacks have
        no fixed region.
        """
        retain(table, settings)
        if self.encryption.data:
            resource = cast(dynamodb.CfnGlobalTable, table.node.default_child)
            key_arn = self.encryption.data.key_arn
            resource.add_property_override("Replicas.0.SSESpecification.KMSMasterKeyId", key_arn)
        return table


def _attribute(attribute: schema.Attribute) -> dynamodb.Attribute:
    types = {"S": dynamodb.AttributeType.STRING, "N": dynamodb.AttributeType.NUMBER}
    return dynamodb.Attribute(name=attribute.name, type=types[attribute.type])


def _billing(settings: DeploymentSettings, table: str) -> dynamodb.Billing:
    capacity = _capacity(settings, table)
    if settings.capacity_mode == "provisioned":
        return dynamodb.Billing.provisioned(**capacity)
    return dynamodb.Billing.on_demand(**capacity)


def _capacity(settings: DeploymentSettings, name: str) -> dict[str, Any]:
    """Return the capacity of a table or an index as CDK properties, for the capacity mode in the settings.

    In the mode `onDemand`, the properties are maxima. A maximum that the settings do not have is omitted.
    """
    reads, writes = settings.read_units, settings.write_units
    if settings.capacity_mode == "onDemand":
        maxima = {"max_read_request_units": reads, "max_write_request_units": writes}
        return {property_: units.of(name).maximum for property_, units in maxima.items() if units}
    ranges = {"read_capacity": reads, "write_capacity": writes}
    return {
        property_: dynamodb.Capacity.autoscaled(
            min_capacity=units.of(name).minimum,
            max_capacity=units.of(name).maximum,
            target_utilization_percent=settings.target_use,
            # Capacity after a change of the billing mode. It is the maximum, so that requests are not throttled before
            # auto scaling works.
            seed_capacity=units.of(name).maximum,
        )
        for property_, units in ranges.items()
        if units
    }


def _warm_throughput(settings: DeploymentSettings) -> dynamodb.WarmThroughput | None:
    warm = settings.warm_throughput
    if warm is None:
        return None
    return dynamodb.WarmThroughput(read_units_per_second=warm.reads, write_units_per_second=warm.writes)


def _indexes(settings: DeploymentSettings, table: str) -> list[schema.Index]:
    """Return the deployed indexes of the table with this name in the schema."""
    indexes = schema.INDEXES if table == schema.TABLE_NAME else schema.AUDIT_INDEXES
    return [index for index in indexes if index.name in settings.indexes]


def _scalable_targets(settings: DeploymentSettings) -> Iterator[tuple[str, str, str, UnitRange]]:
    """Yield the name, the resource id, `Read` or `Write`, and the range of each scalable target."""
    deployed = {schema.TABLE_NAME: settings.table_name, schema.AUDIT_TABLE_NAME: settings.audit_table_name}
    for kind, units in (("Read", settings.read_units), ("Write", settings.write_units)):
        if units is None:
            continue
        for table, name in deployed.items():
            yield table, f"table/{name}", kind, units.of(table)
            for index in _indexes(settings, table):
                yield index.name, f"table/{name}/index/{index.name}", kind, units.of(index.name)


def _index(index: schema.Index, settings: DeploymentSettings) -> dynamodb.GlobalSecondaryIndexPropsV2:
    """Return the CDK properties of an index. DynamoDB always projects keys, so the projection omits the keys of the index."""
    others = index.non_key_attributes
    return dynamodb.GlobalSecondaryIndexPropsV2(
        index_name=index.name,
        partition_keys=[_attribute(attribute) for attribute in index.partition],
        sort_keys=[_attribute(attribute) for attribute in index.sort],
        projection_type=dynamodb.ProjectionType.INCLUDE if others else dynamodb.ProjectionType.KEYS_ONLY,
        non_key_attributes=others or None,
        warm_throughput=_warm_throughput(settings),
        **_capacity(settings, index.name),
    )
