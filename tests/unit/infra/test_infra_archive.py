"""SQL over the archive: the bucket, the Glue tables, which match the Parquet files, and the Athena workgroup."""

import json
from pathlib import Path

import duckdb
import pytest

from shared.archive import parquet
from shared.archive_tables import ARCHIVE_TABLES, ARCHIVED_ENTITIES, ArchiveTable, database_of
from tests.unit.infra.templates import Templates, as_list, to_text

SQL_TYPES = {"VARCHAR": "string", "BIGINT": "bigint", "DOUBLE": "double", "TIMESTAMP": "timestamp"}
"""Types of the Glue catalogue by type of DuckDB."""


@pytest.mark.parametrize("table", ARCHIVE_TABLES, ids=lambda table: table.name)
def test_glue_table_has_the_columns_and_partitions_of_the_files(
    defaults: Templates, table: ArchiveTable, tmp_path: Path
) -> None:
    (glue_table,) = (
        found["Properties"]
        for found in defaults.all("AWS::Glue::Table").values()
        if found["Properties"]["TableInput"]["Name"] == table.name
    )
    parquet.write_rows(tmp_path / "rows", [])
    rows = {"rows": parquet.rows_of(table, tmp_path / "rows")}
    parquet.write_table(table, tmp_path / "file", "SELECT * FROM rows", rows)
    with duckdb.connect(":memory:") as engine:
        described = engine.execute(f"DESCRIBE SELECT * FROM read_parquet('{tmp_path}/file')").fetchall()
    storage = glue_table["TableInput"]["StorageDescriptor"]
    assert [(column["Name"], column["Type"]) for column in storage["Columns"]] == [
        (name, SQL_TYPES[type_]) for name, type_, *_ in described
    ]
    assert glue_table["DatabaseName"] == database_of("VideoMetadata") == "video_metadata"
    parameters = glue_table["TableInput"]["Parameters"]
    template, key = to_text(parameters["storage.location.template"]), table.key(entity="video", day="2026-01-31")
    for name, value in (("entity", "video"), ("day", "2026-01-31")):
        template = template.replace(f"${{{name}}}", value)
    assert template == f"{to_text(storage['Location'])}{key.removeprefix(table.prefix).removesuffix('part.parquet')}"
    assert template.startswith(f"s3://Analytics/{table.prefix}")
    projected = {name: value for name, value in parameters.items() if name.startswith("projection.")}
    days = {"type": "date", "format": "yyyy-MM-dd", "range": "2026-01-01,NOW", "interval": "1", "interval.unit": "DAYS"}
    entities = {"type": "enum", "values": ",".join(ARCHIVED_ENTITIES)}
    assert projected == {"projection.enabled": "true"} | {
        f"projection.{column.name}.{name}": value
        for column in table.partitions
        for name, value in (days if column.name == "day" else entities).items()
    }


def test_catalogue_has_no_further_table(defaults: Templates) -> None:
    assert len(defaults.all("AWS::Glue::Table")) == len(ARCHIVE_TABLES)
    assert defaults.all("AWS::Glue::Crawler") == {}


def test_workgroup_limits_queries_and_encrypts_results(defaults: Templates, encrypted: Templates) -> None:
    for templates, encryption in (
        (defaults, {"EncryptionOption": "SSE_S3"}),
        (encrypted, {"EncryptionOption": "SSE_KMS", "KmsKey": "Key"}),
    ):
        (workgroup,) = (found["Properties"] for found in templates.all("AWS::Athena::WorkGroup").values())
        settings = workgroup["WorkGroupConfiguration"]
        assert settings["EnforceWorkGroupConfiguration"] is True
        assert settings["BytesScannedCutoffPerQuery"] == 10_000_000_000
        result = settings["ResultConfiguration"]
        assert to_text(result["OutputLocation"]) == "s3://Analytics/results/"
        assert {name: to_text(value) for name, value in result["EncryptionConfiguration"].items()} == encryption


def test_results_exports_and_snapshots_expire_and_other_tables_do_not(
    defaults: Templates, encrypted: Templates
) -> None:
    for templates, snapshot_days in ((defaults, 35), (encrypted, 7)):
        bucket = templates.one("AWS::S3::Bucket", "Analytics")["Properties"]
        rules = bucket["LifecycleConfiguration"]["Rules"]
        expiring = {rule.get("Prefix"): rule.get("ExpirationInDays") for rule in rules}
        assert expiring == {None: None, "results/": 7, "exports/": 1, "staged/": 1, "videos/": snapshot_days}
        assert "VersioningConfiguration" not in bucket


def test_schedule_requests_an_export_every_night_with_permission_for_nothing_else(
    defaults: Templates, encrypted: Templates
) -> None:
    (schedule,) = (found["Properties"] for found in encrypted.all("AWS::Scheduler::Schedule").values())
    target, night = schedule["Target"], "<aws.scheduler.scheduled-time>"
    assert schedule["ScheduleExpression"] == "cron(15 1 * * ? *)"
    assert to_text(target["Arn"]).endswith(":scheduler:::aws-sdk:dynamodb:exportTableToPointInTime")
    assert json.loads(to_text(target["Input"])) == {
        "TableArn": "Table",
        "S3Bucket": "Analytics",
        "S3Prefix": f"exports/{night}",
        "ExportFormat": "DYNAMODB_JSON",
        "ClientToken": f"VideoMetadata-prod-{night}",
        "S3SseAlgorithm": "KMS",
        "S3SseKmsKeyId": "Key",
    }
    statements = encrypted.one("AWS::IAM::Policy", "ExportRole")["Properties"]["PolicyDocument"]["Statement"]
    allowed = {(action, to_text(each["Resource"])) for each in statements for action in as_list(each["Action"])}
    assert allowed == {
        ("dynamodb:ExportTableToPointInTime", "Table"),
        *((f"s3:{action}", "Analytics/exports/*") for action in ("AbortMultipartUpload", "PutObject", "PutObjectAcl")),
        *((f"kms:{action}", "Key") for action in ("Decrypt", "GenerateDataKey")),
    }
    assert defaults.all("AWS::Scheduler::Schedule") == {}


def test_compactor_converts_snapshots_only_with_their_setting(defaults: Templates, encrypted: Templates) -> None:
    for templates, days, megabytes in ((defaults, "0", 2048), (encrypted, "7", 10240)):
        function = templates.function("compactor")[1]
        assert function["Environment"]["Variables"]["SNAPSHOT_DAYS"] == days
        assert function["EphemeralStorage"] == {"Size": megabytes}
