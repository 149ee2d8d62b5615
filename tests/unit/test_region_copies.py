"""`docs/region-copies.md`: AWS Backup's API accepts the files, and the production tables have the tag."""

import json
import re
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.validate import ParamValidator

PAGE = (Path(__file__).parents[2] / "docs" / "region-copies.md").read_text(encoding="utf-8")
PLAN, SELECTION = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL))


@pytest.mark.parametrize(
    ("operation", "parameters"),
    [
        ("CreateBackupPlan", {"BackupPlan": PLAN}),
        ("CreateBackupSelection", {"BackupPlanId": "id", "BackupSelection": SELECTION}),
    ],
)
def test_files_of_the_page_are_valid_by_the_model_of_aws_backup(operation: str, parameters: dict[str, Any]) -> None:
    model = boto3.client("backup", region_name="eu-west-1").meta.service_model.operation_model(operation)
    report = ParamValidator().validate(parameters, model.input_shape)
    assert not report.has_errors(), report.generate_report()


def test_copies_go_to_a_vault_of_another_region_that_the_page_creates() -> None:
    (rule,) = PLAN["Rules"]
    (copy,) = rule["CopyActions"]
    _, _, _, region, _, _, vault = copy["DestinationBackupVaultArn"].split(":")
    assert f"create-backup-vault --backup-vault-name {rule['TargetBackupVaultName']}\n" in PAGE
    assert f"create-backup-vault --backup-vault-name {vault} --region {region}\n" in PAGE


def test_selection_takes_the_tables_of_production_by_their_tag() -> None:
    (condition,) = SELECTION["Conditions"]["StringEquals"]
    assert condition == {"ConditionKey": "aws:ResourceTag/deployment", "ConditionValue": "VideoMetadata-prod"}
