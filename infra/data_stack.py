"""The data stack: the tables, and the secrets for cursors and webhooks. No deployment may delete or replace these resources."""

from collections.abc import Iterable
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.encryption import Encryption
from infra.nag import accept
from infra.retention import retain
from infra.settings import GENERATED, DeploymentSettings
from shared import schema


class DataStack(cdk.Stack):
    """Tables and secrets, protected against deletion and replacement except on the local target."""

    def __init__(self, scope: Construct, id_: str, *, settings: DeploymentSettings, **kwargs: Any) -> None:
        super().__init__(
            scope,
            id_,
            description="Video metadata: the tables and what else must not be lost",
            termination_protection=settings.deletion_protection,
            **kwargs,
        )
        self.encryption = Encryption.chosen(self, settings)
        self.table = self._table(settings)
        self.audit_table = self._audit_table(settings)
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
            **self._common(settings, schema.INDEXES),
        )
        return self._apply_retention(table, settings)

    def _audit_table(self, settings: DeploymentSettings) -> dynamodb.TableV2:
        """Return the table of the audit trail. This table has no stream, because no function would consume one."""
        table = dynamodb.TableV2(
            self,
            "AuditTable",
            table_name=settings.audit_table_name,
            **self._common(settings, schema.AUDIT_INDEXES),
        )
        return self._apply_retention(table, settings)

    def _cursor_secret(self) -> secretsmanager.Secret:
        """Return the cursor secret. Functions derive the encryption key of list cursors from it."""
        secret = self._secret("CursorSecret", "Key material for the list cursors of the video metadata API")
        accept(
            secret,
            rule="AwsSolutions-SMG4",
            reason="A cursor opens nothing that its caller may not list anyway, and a rotation would break "
            "every listing in flight.",
        )
        return secret

    def _webhook_secret(self, settings: DeploymentSettings) -> secretsmanager.ISecret:
        """Return the master secret of webhooks. Functions derive each webhook's own secret from it.

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
            reason="Receivers know what is derived from it, so a rotation would make each refuse all that it is sent. "
            "A webhook's own secret is rotated by the API, with a day in which both are valid.",
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

    def _common(self, settings: DeploymentSettings, indexes: Iterable[schema.Index]) -> dict[str, Any]:
        """Return the properties that are the same for both tables."""
        kinds = dynamodb.TableEncryptionV2
        return {
            "partition_key": _attribute(schema.Attribute(schema.PARTITION_KEY)),
            "sort_key": _attribute(schema.Attribute(schema.SORT_KEY)),
            "global_secondary_indexes": [_index(index) for index in indexes if index.name in settings.indexes],
            "time_to_live_attribute": schema.TTL_ATTRIBUTE,
            "billing": dynamodb.Billing.on_demand(),
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


def _index(index: schema.Index) -> dynamodb.GlobalSecondaryIndexPropsV2:
    """Return the CDK properties of an index. DynamoDB always projects keys, so the projection omits the keys of the index."""
    others = index.non_key_attributes
    return dynamodb.GlobalSecondaryIndexPropsV2(
        index_name=index.name,
        partition_keys=[_attribute(attribute) for attribute in index.partition],
        sort_keys=[_attribute(attribute) for attribute in index.sort],
        projection_type=dynamodb.ProjectionType.INCLUDE if others else dynamodb.ProjectionType.KEYS_ONLY,
        non_key_attributes=others or None,
    )
