"""SQL over the archive: the function that writes Parquet files, the nightly export, the Glue catalogue, the Athena
workgroup, and the permissions of queries."""

from collections.abc import Iterable

import aws_cdk as cdk
from aws_cdk import aws_athena as athena
from aws_cdk import aws_glue as glue
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler

from infra.data_stack import DataStack
from infra.encryption import Encryption
from infra.function import ServiceFunction, accept_objects
from infra.media_stack import MediaStack
from infra.scheduled import run_every
from infra.settings import DeploymentSettings
from infra.subscriptions import NewFunction
from shared.archive_tables import (
    ARCHIVE_TABLES,
    ARCHIVED_ENTITIES,
    EXPORTS,
    FIRST_DAY,
    MANIFESTS,
    RESULTS,
    STAGED,
    ArchiveColumn,
    ArchiveTable,
    database_of,
    workgroup_of,
)

COMPACT_EVERY = cdk.Duration.hours(1)
COMPACTOR_TIMEOUT = cdk.Duration.minutes(15)
"""Timeout of the compactor, which is Lambda's maximum. The next run continues unfinished work."""
COMPACTOR_MB = 1769
"""Memory of the compactor in megabytes, which corresponds to one core. DuckDB uses at most 700 MB. The audit entries of
a chunk of archive objects use about 500 MB."""
COMPACTOR_STORAGE = cdk.Size.gibibytes(2)
"""Size of the compactor's `/tmp` in a deployment without snapshots. It holds the old and the new file of a partition,
and temporary files of sorts."""
SNAPSHOT_STORAGE = cdk.Size.gibibytes(10)
"""Size of the compactor's `/tmp` in a deployment with snapshots: Lambda's maximum. It holds the staged files, the new
file of `videos`, and temporary files of joins."""
EXPORT_AT = "cron(15 1 * * ? *)"
"""Time (UTC) of the nightly export. By then, the view counts as of 00:00 are usually stored."""

READABLE = tuple(f"{prefix}*" for prefix in (*(table.prefix for table in ARCHIVE_TABLES), RESULTS))
"""Patterns of the keys that queries read: the files of the tables, and results."""
QUERY_BYTES = 10 * 10**9
"""Maximum bytes that one query may read, which cost 5 cents. Athena cancels a query that reads more."""


def add_compactor(stack: cdk.Stack, new: NewFunction, settings: DeploymentSettings, media: MediaStack) -> None:
    """Add the compactor to a stack. Its role can read the archive and exports, and write only files for SQL tables."""
    compactor = new(
        "Compactor",
        to="archive",
        memory_mb=COMPACTOR_MB,
        timeout=COMPACTOR_TIMEOUT,
        storage=SNAPSHOT_STORAGE if settings.snapshot_days else COMPACTOR_STORAGE,
        environment={
            "ARCHIVE_BUCKET": media.archive.bucket_name,
            "ANALYTICS_BUCKET": media.analytics.bucket_name,
            "SNAPSHOT_DAYS": str(settings.snapshot_days),
        },
    )
    compactor.allow_objects("GetObject", bucket=media.archive, below=("audit/*",))
    compactor.allow_listing(media.archive, below=("audit/*",))
    compactor.allow_objects(
        *("GetObject", "PutObject"),
        bucket=media.analytics,
        below=tuple(f"{prefix}*" for prefix in (*(table.prefix for table in ARCHIVE_TABLES), MANIFESTS, STAGED)),
    )
    compactor.allow_objects("GetObject", bucket=media.analytics, below=(f"{EXPORTS}*",))
    compactor.allow_listing(media.analytics)
    run_every(stack, COMPACT_EVERY, "CompactorSchedule", compactor, "compact the audit archive")


def add_snapshots(stack: cdk.Stack, settings: DeploymentSettings, data: DataStack, media: MediaStack) -> None:
    """Add the nightly export of the main table to the analytics bucket. The compactor converts the export into SQL
    tables.

    The role of the schedule can only request the export, and write below `exports/`. DynamoDB writes the export with
    the permissions of this role.
    """
    role = iam.Role(
        stack,
        "ExportRole",
        description="Exports the main table to S3 every night",
        assumed_by=iam.ServicePrincipal(
            "scheduler.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID}}
        ),
    )
    bucket, key = media.analytics, data.encryption.data
    role.add_to_policy(
        iam.PolicyStatement(actions=["dynamodb:ExportTableToPointInTime"], resources=[data.table.table_arn])
    )
    role.add_to_policy(
        iam.PolicyStatement(
            # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/S3DataExport_Requesting.html
            actions=["s3:AbortMultipartUpload", "s3:PutObject", "s3:PutObjectAcl"],
            resources=[bucket.arn_for_objects(f"{EXPORTS}*")],
        )
    )
    accept_objects(role, bucket, (f"{EXPORTS}*",))
    encryption = {"S3SseAlgorithm": "AES256"}
    if key:
        encryption = {"S3SseAlgorithm": "KMS", "S3SseKmsKeyId": key.key_arn}
        services = [f"{service}.{stack.region}.amazonaws.com" for service in ("dynamodb", "s3")]
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["kms:Decrypt", "kms:GenerateDataKey"],
                resources=[key.key_arn],
                conditions={"StringEquals": {"kms:ViaService": services}},
            )
        )
    night = "<aws.scheduler.scheduled-time>"
    export = {
        "TableArn": data.table.table_arn,
        "S3Bucket": bucket.bucket_name,
        "S3Prefix": f"{EXPORTS}{night}",
        "ExportFormat": "DYNAMODB_JSON",
        # A repeated request of the same night requests no second export.
        "ClientToken": f"{settings.table_name}-{night}",
        **encryption,
    }
    scheduler.CfnSchedule(
        stack,
        "ExportSchedule",
        description="Export of the main table for SQL",
        schedule_expression=EXPORT_AT,
        flexible_time_window={"mode": "OFF"},
        target=scheduler.CfnSchedule.TargetProperty(
            arn=f"arn:{cdk.Aws.PARTITION}:scheduler:::aws-sdk:dynamodb:exportTableToPointInTime",
            role_arn=role.role_arn,
            input=stack.to_json_string(export),
            retry_policy={"maximumEventAgeInSeconds": 3600, "maximumRetryAttempts": 10},
        ),
    )


def add_catalogue(stack: cdk.Stack, settings: DeploymentSettings, media: MediaStack, encryption: Encryption) -> None:
    """Add the Glue database with its tables, and the Athena workgroup.

    Queries run with the caller's permissions. The workgroup limits the bytes that a query reads, and overrides the
    caller's location and encryption of results.
    """
    database = glue.CfnDatabase(
        stack,
        "ArchiveDatabase",
        catalog_id=cdk.Aws.ACCOUNT_ID,
        database_input=glue.CfnDatabase.DatabaseInputProperty(
            name=database_of(settings.table_name),
            description="Video metadata: changes, snapshots of videos, and daily views",
        ),
    )
    for table in ARCHIVE_TABLES:
        _table(stack, table, settings, media).add_resource_dependency(database)
    key = encryption.data
    athena.CfnWorkGroup(
        stack,
        "ArchiveWorkgroup",
        name=workgroup_of(settings.table_name),
        description="Video metadata: SQL over the archive",
        recursive_delete_option=True,  # deletes saved queries and the history, but no results
        work_group_configuration=athena.CfnWorkGroup.WorkGroupConfigurationProperty(
            bytes_scanned_cutoff_per_query=QUERY_BYTES,
            enforce_work_group_configuration=True,
            publish_cloud_watch_metrics_enabled=False,
            result_configuration=athena.CfnWorkGroup.ResultConfigurationProperty(
                output_location=f"s3://{media.analytics.bucket_name}/{RESULTS}",
                encryption_configuration=athena.CfnWorkGroup.EncryptionConfigurationProperty(
                    encryption_option="SSE_KMS" if key else "SSE_S3", kms_key=key.key_arn if key else None
                ),
            ),
        ),
    )


def allow_questions(function: ServiceFunction, settings: DeploymentSettings, media: MediaStack) -> None:
    """Allow a function to query the SQL tables, and to write only the results of its queries."""
    function.allow_sql(*_query_statements(cdk.Stack.of(function), settings, media))
    function.allow_objects("GetObject", bucket=media.analytics, below=READABLE)
    function.allow_objects("PutObject", bucket=media.analytics, below=(f"{RESULTS}*",))


def add_query_policy(stack: cdk.Stack, settings: DeploymentSettings, media: MediaStack, encryption: Encryption) -> None:
    """Add a managed policy for people who query the tables. An administrator attaches it to their roles."""
    objects = [iam.PolicyStatement(actions=["s3:GetObject"], resources=_objects(media, READABLE))]
    objects.append(iam.PolicyStatement(actions=["s3:PutObject"], resources=_objects(media, (f"{RESULTS}*",))))
    if encryption.data:
        via = {"StringEquals": {"kms:ViaService": f"s3.{stack.region}.amazonaws.com"}}
        keys = ["kms:Decrypt", "kms:GenerateDataKey"]
        objects.append(iam.PolicyStatement(actions=keys, resources=[encryption.data.key_arn], conditions=via))
    policy = iam.ManagedPolicy(
        stack,
        "QueryPolicy",
        description=f"{settings.deployment}: queries of the SQL tables over the archive",
        statements=[*_query_statements(stack, settings, media, "StopQueryExecution"), *objects],
    )
    accept_objects(policy, media.analytics, READABLE)
    cdk.CfnOutput(
        stack, "QueryPolicyArn", description="Policy for people who query the archive", value=policy.managed_policy_arn
    )


def _objects(media: MediaStack, patterns: Iterable[str]) -> list[str]:
    return [media.analytics.arn_for_objects(pattern) for pattern in patterns]


def _query_statements(
    stack: cdk.Stack, settings: DeploymentSettings, media: MediaStack, *actions: str
) -> list[iam.PolicyStatement]:
    """Return the policy statements that allow queries in the workgroup. They do not allow access to S3 objects.

    `actions` are actions of Athena to allow in addition to starting queries and reading their results.
    """
    database = database_of(settings.table_name)
    catalogue = {"catalog": None, "database": database} | {
        f"table/{database}/{table.name}": None for table in ARCHIVE_TABLES
    }
    started = ("StartQueryExecution", "GetQueryExecution", "GetQueryResults")
    return [
        iam.PolicyStatement(
            actions=[f"athena:{action}" for action in (*started, *actions)],
            resources=[
                stack.format_arn(
                    service="athena", resource="workgroup", resource_name=workgroup_of(settings.table_name)
                )
            ],
        ),
        iam.PolicyStatement(
            actions=["glue:GetDatabase", "glue:GetTable", "glue:GetPartitions"],
            resources=[
                stack.format_arn(service="glue", resource=resource, resource_name=name)
                for resource, name in catalogue.items()
            ],
        ),
        iam.PolicyStatement(actions=["s3:GetBucketLocation", "s3:ListBucket"], resources=[media.analytics.bucket_arn]),
    ]


def _table(stack: cdk.Stack, table: ArchiveTable, settings: DeploymentSettings, media: MediaStack) -> glue.CfnTable:
    """Return a table over Parquet files. Athena computes the partitions of a query from the table's properties."""
    name = "".join(part.capitalize() for part in table.name.split("_"))
    location = f"s3://{media.analytics.bucket_name}/{table.prefix}"
    folders = "".join(f"{column.name}=${{{column.name}}}/" for column in table.partitions)
    hive = "org.apache.hadoop.hive.ql.io.parquet"
    return glue.CfnTable(
        stack,
        f"Archive{name}",
        catalog_id=cdk.Aws.ACCOUNT_ID,
        database_name=database_of(settings.table_name),
        table_input=glue.CfnTable.TableInputProperty(
            name=table.name,
            description=table.meaning,
            table_type="EXTERNAL_TABLE",
            parameters={
                "EXTERNAL": "TRUE",
                "classification": "parquet",
                "projection.enabled": "true",
                "storage.location.template": location + folders,
                **{
                    f"projection.{column.name}.{name}": value
                    for column in table.partitions
                    for name, value in _projection(column).items()
                },
            },
            partition_keys=_columns(table.partitions),
            storage_descriptor=glue.CfnTable.StorageDescriptorProperty(
                columns=_columns(table.columns),
                location=location,
                input_format=f"{hive}.MapredParquetInputFormat",
                output_format=f"{hive}.MapredParquetOutputFormat",
                serde_info=glue.CfnTable.SerdeInfoProperty(serialization_library=f"{hive}.serde.ParquetHiveSerDe"),
            ),
        ),
    )


def _columns(columns: tuple[ArchiveColumn, ...]) -> list[glue.CfnTable.ColumnProperty]:
    return [
        glue.CfnTable.ColumnProperty(name=column.name, type=column.type, comment=column.meaning) for column in columns
    ]


def _projection(column: ArchiveColumn) -> dict[str, str]:
    """Return the table properties from which Athena computes the values of a partition column."""
    if column.type == "date":
        return {"type": "date", "format": "yyyy-MM-dd", "range": f"{FIRST_DAY},NOW", "interval.unit": "DAYS"} | {
            "interval": "1"
        }
    return {"type": "enum", "values": ",".join(ARCHIVED_ENTITIES)}
