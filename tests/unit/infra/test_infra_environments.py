"""Environments: the effect of each context value, the separation of environments, and the encryption keys."""

import json
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import aws_cdk as cdk
import pytest

from infra.settings import VALUES
from tests.unit.infra import page_tables
from tests.unit.infra.conftest import Synthesize
from tests.unit.infra.templates import (
    EXISTING_KEY,
    FUNCTIONS,
    LOCAL,
    ROOT,
    Json,
    Templates,
    as_list,
    context_names,
    settings_of,
    to_text,
)

CONTEXT: Json = json.loads((ROOT / "cdk.json").read_text())["context"]
ENVIRONMENTS: dict[str, Json] = CONTEXT["environments"]
PAGE = (ROOT / "docs" / "encryption.md").read_text(encoding="utf-8")

KEEPING_DATA = {"Data", "Media", "Identity"}
"""Stacks with data that cannot be recreated."""

DATA_TYPES = ("AWS::DynamoDB::GlobalTable", "AWS::S3::Bucket", "AWS::Cognito::UserPool")

DYNAMODB, S3, SQS, SECRETS = (
    f"{service}.AWS::Region.amazonaws.com" for service in ("dynamodb", "s3", "sqs", "secretsmanager")
)
KEY_USES = {
    "dynamodb:": {f"Decrypt {DYNAMODB}"},
    "s3:AbortMultipartUpload": {f"Decrypt {S3}"},
    "s3:GetObject": {f"Decrypt {S3}"},
    "s3:ListMultipartUploadParts": {f"Decrypt {S3}"},
    "s3:PutObject": {f"GenerateDataKey {S3}"},
    "secretsmanager:GetSecretValue": {f"Decrypt {SECRETS}"},
    "sqs:ReceiveMessage": {f"Decrypt {SQS}"},
    "sqs:SendMessage": {f"Decrypt {SQS}", f"GenerateDataKey {SQS}"},
}
"""KMS operations that actions cause, by the first characters of the action. Each operation is followed by the AWS
service that requests it.

No function may call KMS directly.
"""


def _key_uses(templates: Templates, folder: str) -> set[str]:
    """Return the KMS operations that a function's permissions may cause.

    `templates` must belong to an environment without a key.
    """
    actions = {line.split()[0] for line in templates.allowed(folder)}
    return {use for action in actions for begin, uses in KEY_USES.items() if action.startswith(begin) for use in uses}


@pytest.fixture(scope="session")
def environments(defaults: Templates, staging: Templates, prod: Templates) -> dict[str, Templates]:
    """Return the templates of each environment of cdk.json."""
    return {"dev": defaults, "staging": staging, "prod": prod}


@pytest.fixture(scope="session")
def disposable(synthesize: Synthesize) -> Templates:
    """Return an encrypted environment that retains nothing and logs little."""
    values = {"keepData": "false", "deletionProtection": "false", "alarms": "false", "logLevel": "WARNING"}
    return synthesize({"env": "trial", "kmsKey": "create", **values})


def test_every_environment_is_synthesized(environments: dict[str, Templates]) -> None:
    assert set(environments) == set(ENVIRONMENTS)


@pytest.mark.parametrize("env", ENVIRONMENTS)
class TestEveryEnvironment:
    def test_environment_retains_logs_for_its_log_days(self, environments: dict[str, Templates], env: str) -> None:
        groups = environments[env].all("AWS::Logs::LogGroup").values()
        assert {group["Properties"]["RetentionInDays"] for group in groups} == {ENVIRONMENTS[env]["logDays"]}

    def test_environment_has_its_recovery_period(self, environments: dict[str, Templates], env: str) -> None:
        for table in environments[env].all("AWS::DynamoDB::GlobalTable").values():
            (replica,) = table["Properties"]["Replicas"]
            assert replica["PointInTimeRecoverySpecification"] == {
                "PointInTimeRecoveryEnabled": True,
                "RecoveryPeriodInDays": ENVIRONMENTS[env]["recoveryDays"],
            }

    def test_environment_has_its_deletion_protection(self, environments: dict[str, Templates], env: str) -> None:
        protected = ENVIRONMENTS[env].get("deletionProtection", True)
        assert environments[env].protected == (KEEPING_DATA if protected else set())
        for table in environments[env].all("AWS::DynamoDB::GlobalTable").values():
            assert table["Properties"]["Replicas"][0]["DeletionProtectionEnabled"] is protected
        pool = environments[env].one("AWS::Cognito::UserPool")["Properties"]
        assert pool["DeletionProtection"] == ("ACTIVE" if protected else "INACTIVE")

    @pytest.mark.parametrize("type_", DATA_TYPES)
    def test_environment_retains_its_data_when_destroyed(
        self, environments: dict[str, Templates], env: str, type_: str
    ) -> None:
        """If the creation of such a resource fails, the resource is deleted: it is empty, and would block the next
        deployment."""
        for resource in environments[env].all(type_).values():
            assert resource["DeletionPolicy"] == "RetainExceptOnCreate"
            assert resource["UpdateReplacePolicy"] == "Retain"

    def test_environment_has_its_throttle(self, environments: dict[str, Templates], env: str) -> None:
        assert environments[env].one("AWS::ApiGatewayV2::Stage")["Properties"]["DefaultRouteSettings"] == {
            "ThrottlingRateLimit": ENVIRONMENTS[env]["throttleRate"],
            "ThrottlingBurstLimit": ENVIRONMENTS[env]["throttleBurst"],
        }

    def test_environment_logs_its_name_at_its_level(self, environments: dict[str, Templates], env: str) -> None:
        for function in environments[env].all("AWS::Lambda::Function").values():
            variables = function["Properties"]["Environment"]["Variables"]
            level = function["Properties"]["LoggingConfig"]["ApplicationLogLevel"]
            assert level == variables["POWERTOOLS_LOG_LEVEL"] == ENVIRONMENTS[env]["logLevel"]
            assert variables["ENVIRONMENT"] == env


class TestEnvironmentThatRetainsNothing:
    @pytest.mark.parametrize("type_", [*DATA_TYPES, "AWS::KMS::Key"])
    def test_environment_deletes_its_data_when_destroyed(self, disposable: Templates, type_: str) -> None:
        assert {resource["DeletionPolicy"] for resource in disposable.all(type_).values()} == {"Delete"}

    @pytest.mark.parametrize("type_", [*DATA_TYPES, "AWS::KMS::Key"])
    def test_environment_that_retained_data_can_stop_doing_so(
        self, disposable: Templates, encrypted: Templates, type_: str
    ) -> None:
        """CloudFormation applies a new deletion policy only if another property of the resource changes."""
        for id_, resource in disposable.all(type_).items():
            assert resource["Metadata"]["KeepData"] is False
            assert encrypted.all(type_)[id_]["Metadata"]["KeepData"] is True

    def test_environment_can_be_destroyed(self, disposable: Templates) -> None:
        assert not disposable.protected
        assert disposable.one("AWS::Cognito::UserPool")["Properties"]["DeletionProtection"] == "INACTIVE"

    def test_environment_logs_warnings_only(self, disposable: Templates) -> None:
        """Lambda's name for the level differs from Python's."""
        levels = {
            function["Properties"]["LoggingConfig"]["ApplicationLogLevel"]
            for function in disposable.all("AWS::Lambda::Function").values()
        }
        assert levels == {"WARN"}


WITHIN = {
    ("AWS::ApiGatewayV2::Authorizer", "Name"): "in its API",
    ("AWS::ApiGatewayV2::Stage", "StageName"): "in its API",
    ("AWS::CloudWatch::Alarm", "MetricName"): "in its namespace; dimensions distinguish the environment",
    ("AWS::CloudWatch::Alarm", "Name"): "of a dimension",
    (
        "AWS::CloudWatch::Alarm",
        "Namespace",
    ): "of AWS, or the service's own, where dimensions distinguish the environment",
    ("AWS::CodeDeploy::DeploymentGroup", "DeploymentConfigName"): "AWS's own",
    ("AWS::CodeDeploy::DeploymentGroup", "DeploymentGroupName"): "in its application",
    ("AWS::Cognito::UserPool", "Name"): "of a way to recover an account",
    ("AWS::Cognito::UserPoolResourceServer", "Name"): "in its pool",
    ("AWS::Cognito::UserPoolResourceServer", "ScopeName"): "in its pool",
    ("AWS::DynamoDB::GlobalTable", "AttributeName"): "in its table",
    ("AWS::DynamoDB::GlobalTable", "IndexName"): "in its table",
    ("AWS::Glue::Table", "Name"): "of a table or column, in its database",
    ("AWS::IAM::Policy", "PolicyName"): "in its role",
    ("AWS::Lambda::Alias", "Name"): "of its function",
    ("AWS::Lambda::EventSourceMapping", "FunctionName"): "refers to a function's alias",
    ("AWS::Logs::MetricFilter", "MetricName"): "in its namespace, which has the environment",
    ("AWS::S3::Bucket", "Prefix"): "of objects in its bucket",
}
"""Names that environments share, because the containing resource is named after the environment."""


class TestNames:
    """Environments coexist in one account and region."""

    def test_stacks_and_exports_of_environments_differ(self, environments: dict[str, Templates]) -> None:
        for of in (
            lambda templates: templates.names,
            lambda templates: [
                json.dumps(output["Export"]["Name"])
                for template in templates.parts().values()
                for output in template.get("Outputs", {}).values()
                if "Export" in output
            ],
        ):
            names = [name for templates in environments.values() for name in of(templates)]
            assert len(names) == len(set(names))
            assert names

    def test_no_physical_name_is_shared(self, environments: dict[str, Templates]) -> None:
        names = {env: _names(templates) for env, templates in environments.items()}
        for one, other in combinations(environments, 2):
            shared = {name for name in names[one] & names[other] if name[:2] not in WITHIN}
            assert not shared, f"{one} and {other} share {sorted(shared)}"

    def test_name_check_covers_the_known_physical_names(self, prod: Templates) -> None:
        """Without this check, a defect of `_names` could hide shared names."""
        assert {name for _, _, name in _names(prod)} >= {
            "VideoMetadata-prod",
            "VideoAudit-prod",
            "VideoMetadata-prod-Api",
            "/aws/vendedlogs/VideoMetadata-prod-Api",
            "VideoMetadata-prod-Media-...",
            "videos-prod-sources-...-...",
            "video-metadata-prod-...",
        }

    def test_alias_of_the_key_contains_the_environment(self, encrypted: Templates, disposable: Templates) -> None:
        aliases = [templates.one("AWS::KMS::Alias")["Properties"]["AliasName"] for templates in (encrypted, disposable)]
        assert aliases == ["alias/video-metadata-prod", "alias/video-metadata-trial"]


def _names(templates: Templates) -> set[tuple[str, str, str]]:
    """Return the physical names in the templates, as type, property and name. References to resources are no names."""
    return {
        (resource["Type"], key, value if isinstance(value, str) else _literals(value))
        for template in templates.parts().values()
        for resource in template["Resources"].values()
        for key, value in _properties(resource.get("Properties", {}))
        if re.search(r"(Name|Namespace|Domain|Alias|Prefix)$", key) and _is_written_out(value)
    }


def _properties(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every property and its value, at any depth."""
    if isinstance(value, list):
        for element in value:
            yield from _properties(element)
    elif isinstance(value, dict):
        for key, member in value.items():
            yield key, member
            yield from _properties(member)


def _is_written_out(value: Any) -> bool:
    """Return whether a value contains text. A mere reference does not count, because its target has its own name."""
    return isinstance(value, str) or (isinstance(value, dict) and "Fn::Join" in value)


def _literals(join: Json) -> str:
    """Return a joined value, with dots in place of its references."""
    separator, parts = join["Fn::Join"]
    return str(separator).join(part if isinstance(part, str) else "..." for part in parts)


class TestWithoutKey:
    def test_environment_without_a_key_permits_the_use_of_none(self, prod: Templates) -> None:
        for part in ("Data", "Media", "Identity", "Jobs", "Api"):
            assert "kms" not in json.dumps(prod.parts()[part]).lower()


class TestKey:
    """Key of an environment whose `kmsKey` is `create`."""

    def test_key_rotates_every_year(self, encrypted: Templates) -> None:
        key = _key(encrypted)["Properties"]
        assert (key["EnableKeyRotation"], key["RotationPeriodInDays"]) == (True, 365)

    def test_key_is_retained_like_the_data(self, encrypted: Templates) -> None:
        key = _key(encrypted)
        assert (key["DeletionPolicy"], key["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")

    def test_key_policy_delegates_access_to_the_account(self, encrypted: Templates) -> None:
        """The key policy delegates access to IAM. Otherwise the deletion of a role could make the key unusable."""
        (statement,) = [candidate for candidate in _key_policy(encrypted) if "Sid" not in candidate]
        assert to_text(statement["Principal"]["AWS"]) == "arn:AWS::Partition:iam::AWS::AccountId:root"
        assert statement["Action"] == "kms:*"

    def test_key_policy_lets_s3_notify_of_uploads_of_this_account_only(self, encrypted: Templates) -> None:
        statement = _statement(encrypted, "UploadsAreTold")
        assert statement["Principal"] == {"Service": "s3.amazonaws.com"}
        assert statement["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
        bucket = to_text(encrypted.one("AWS::S3::Bucket", "Sources")["Properties"]["BucketName"])
        assert to_text(statement["Condition"]["ArnEquals"]["aws:SourceArn"]) == f"arn:AWS::Partition:s3:::{bucket}"
        assert statement["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}

    def test_key_policy_lets_cloudfront_read_for_distributions_of_this_account_only(self, encrypted: Templates) -> None:
        statement = _statement(encrypted, "PicturesAreShown")
        assert statement["Principal"] == {"Service": "cloudfront.amazonaws.com"}
        assert statement["Action"] == "kms:Decrypt"
        source = to_text(statement["Condition"]["ArnLike"]["aws:SourceArn"])
        assert source == "arn:AWS::Partition:cloudfront::AWS::AccountId:distribution/*"

    def test_key_policy_lets_cloudwatch_encrypt_logs_of_this_environment_only(self, encrypted: Templates) -> None:
        statement = _statement(encrypted, "LogsAreKept")
        assert to_text(statement["Principal"]["Service"]) == "logs.AWS::Region.amazonaws.com"
        groups = statement["Condition"]["ArnLike"]["kms:EncryptionContext:aws:logs:arn"]
        assert [to_text(group).split(":log-group:")[1] for group in groups] == [
            "VideoMetadata-prod-*",
            "/aws/vendedlogs/VideoMetadata-prod-*",
        ]

    def test_key_policy_permits_no_other_service(self, encrypted: Templates) -> None:
        assert [statement.get("Sid") for statement in _key_policy(encrypted)] == [
            None,
            "UploadsAreTold",
            "LogsAreKept",
            "PicturesAreShown",
        ]


@pytest.fixture(params=["create", "given"])
def with_a_key(
    request: pytest.FixtureRequest, encrypted: Templates, existing_resources: Templates
) -> tuple[Templates, str]:
    """Return an environment with a KMS key, and the name of the key in its templates."""
    return (encrypted, "Key") if request.param == "create" else (existing_resources, EXISTING_KEY)


class TestEncryption:
    def test_tables_are_encrypted_with_the_kms_key(self, with_a_key: tuple[Templates, str]) -> None:
        templates, key = with_a_key
        tables = [table["Properties"] for table in templates.all("AWS::DynamoDB::GlobalTable").values()]
        assert [table["SSESpecification"] for table in tables] == [{"SSEEnabled": True, "SSEType": "KMS"}] * 2
        assert {_named_key(table["Replicas"][0]["SSESpecification"], "KMSMasterKeyId") for table in tables} == {key}

    def test_buckets_are_encrypted_with_the_kms_key_and_a_bucket_key(self, with_a_key: tuple[Templates, str]) -> None:
        templates, key = with_a_key
        for bucket in templates.all("AWS::S3::Bucket").values():
            (rule,) = bucket["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"]
            assert rule["BucketKeyEnabled"] is True
            assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
            assert _named_key(rule["ServerSideEncryptionByDefault"], "KMSMasterKeyID") == key

    def test_queues_and_dead_letter_queues_are_encrypted_with_the_kms_key(
        self, with_a_key: tuple[Templates, str]
    ) -> None:
        templates, key = with_a_key
        queues = [queue["Properties"] for queue in templates.all("AWS::SQS::Queue").values()]
        assert [_named_key(queue, "KmsMasterKeyId") for queue in queues] == [key] * 18
        assert not [queue for queue in queues if "SqsManagedSseEnabled" in queue]

    def test_secrets_are_encrypted_with_the_kms_key(self, with_a_key: tuple[Templates, str]) -> None:
        templates, key = with_a_key
        secrets = [secret["Properties"] for secret in templates.all("AWS::SecretsManager::Secret").values()]
        assert [_named_key(secret, "KmsKeyId") for secret in secrets] == [key] * 2

    def test_logs_are_encrypted_only_with_a_key_created_by_the_stack(
        self, encrypted: Templates, existing_resources: Templates
    ) -> None:
        """CloudWatch requires permission in the key's policy. This app does not manage the policy of a given key."""
        groups = [group["Properties"] for group in encrypted.all("AWS::Logs::LogGroup").values()]
        assert [_named_key(group, "KmsKeyId") for group in groups] == ["Key"] * (len(FUNCTIONS) + 1)
        assert not [
            group
            for group in existing_resources.all("AWS::Logs::LogGroup").values()
            if "KmsKeyId" in group["Properties"]
        ]

    def test_no_key_is_created_if_one_is_given(self, existing_resources: Templates) -> None:
        assert not [
            resource
            for resource in existing_resources.data["Resources"].values()
            if resource["Type"].startswith("AWS::KMS")
        ]

    def test_function_may_use_the_key_only_for_its_permissions(
        self, with_a_key: tuple[Templates, str], prod: Templates
    ) -> None:
        templates, key = with_a_key
        allowed = {
            folder: {line.removeprefix("kms:") for line in templates.allowed(folder) if line.startswith("kms:")}
            for folder in FUNCTIONS
        }
        assert allowed == {
            folder: {use.replace(" ", f" {key} ") for use in _key_uses(prod, folder)} for folder in FUNCTIONS
        }

    def test_encryption_adds_no_other_permissions(self, encrypted: Templates, prod: Templates) -> None:
        others = {
            folder: {line for line in encrypted.allowed(folder) if not line.startswith("kms:")} for folder in FUNCTIONS
        }
        assert others == {folder: prod.allowed(folder) for folder in FUNCTIONS}

    def test_every_key_permission_names_its_service(self, encrypted: Templates) -> None:
        for statement in _statements_about_keys(encrypted):
            assert statement["Condition"].keys() == {"StringEquals"}
            assert statement["Condition"]["StringEquals"].keys() == {"kms:ViaService"}

    def test_key_is_usable_by_functions_with_a_declared_use_only(self, encrypted: Templates) -> None:
        of_functions = [
            statement for folder in FUNCTIONS for statement in encrypted.statements(folder) if _is_about_keys(statement)
        ]
        of_export = 1  # tests/unit/infra/test_infra_archive.py tests it
        assert len(_statements_about_keys(encrypted)) == len(of_functions) + of_export


class TestSettings:
    def test_default_environment_is_dev(self) -> None:
        assert settings_of({}) == settings_of({"env": "dev"})

    @pytest.mark.parametrize("env", ENVIRONMENTS)
    def test_environment_has_its_listed_values(self, env: str) -> None:
        assert settings_of({"env": env}) == settings_of({**ENVIRONMENTS[env], "env": env, "environments": {}})

    def test_explicit_setting_overrides_the_environment(self) -> None:
        settings = settings_of({"env": "prod", "throttleRate": "7", "alarms": "false"})
        assert (settings.throttle_rate, settings.alarms) == (7, False)
        assert settings.throttle_burst == ENVIRONMENTS["prod"]["throttleBurst"]

    def test_empty_address_overrides_the_environments_address(self) -> None:
        listed = {"environments": {"prod": {"alarmEmail": "oncall@example.com"}}, "env": "prod"}
        assert settings_of(listed).alarm_email == "oncall@example.com"
        assert settings_of({**listed, "alarmEmail": ""}).alarm_email is None

    def test_unlisted_environment_has_the_values_of_dev(self) -> None:
        assert settings_of({"env": "trial"}) == settings_of({**ENVIRONMENTS["dev"], "env": "trial", "environments": {}})

    def test_data_is_retained_by_default(self) -> None:
        settings = settings_of({"environments": {}})
        assert (settings.keep_data, settings.deletion_protection, settings.recovery_days) == (True, True, 35)
        assert settings.removal_policy == cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE

    @pytest.mark.parametrize("env", ENVIRONMENTS)
    def test_every_listed_environment_retains_its_data(self, env: str) -> None:
        assert settings_of({"env": env}).keep_data

    def test_local_deployment_retains_nothing_in_any_environment(self) -> None:
        settings = settings_of({**LOCAL, "env": "prod"})
        assert (settings.keep_data, settings.deletion_protection, settings.alarms) == (False, False, False)
        assert (settings.kms_key, settings.shift, settings.snap_start, settings.provisioned) == (None, "none", False, 0)

    @pytest.mark.parametrize(
        ("text", "snap_start", "provisioned"),
        [("none", False, 0), ("snapstart", True, 0), ("provisioned:2", False, 2), ("provisioned:100", False, 100)],
    )
    def test_cold_start_has_at_most_one_remedy(self, text: str, snap_start: bool, provisioned: int) -> None:
        settings = settings_of({"coldStart": text})
        assert (settings.snap_start, settings.provisioned) == (snap_start, provisioned)

    @pytest.mark.parametrize("bus", ["default", "of/others", "arn:aws:events:eu-west-1:123456789012:event-bus/changes"])
    def test_event_bus_is_given_by_name_or_arn(self, bus: str) -> None:
        assert settings_of({"eventBus": bus}).event_bus == bus

    @pytest.mark.parametrize("bus", ["arn:aws:events:us-east-1:123456789012:event-bus/changes", "changes"])
    def test_event_bus_of_the_deployment_region_is_accepted(self, bus: str) -> None:
        assert settings_of({"eventBus": bus}, "us-east-1").event_bus == bus

    def test_two_values_mean_no_event_bus(self) -> None:
        assert settings_of({"eventBus": "none"}).event_bus is settings_of({}).event_bus is None

    def test_two_values_mean_no_key(self) -> None:
        assert settings_of({"kmsKey": "none"}).kms_key is settings_of({}).kms_key is None


class TestPage:
    """docs/environments.md lists every value, and docs/encryption.md has the cost and the policy of a key."""

    def test_page_lists_every_value_with_its_default_and_per_environment(self) -> None:
        assert page_tables.is_current(page_tables.ENVIRONMENTS, page_tables.setting_table()), page_tables.HINT

    def test_described_values_are_those_that_the_settings_read(self) -> None:
        assert context_names() == VALUES.keys()

    @pytest.mark.parametrize("name", [name for name, value in VALUES.items() if value.default is not None])
    def test_default_is_a_valid_value(self, name: str) -> None:
        context = {name: page_tables.as_text(VALUES[name].default), "environments": {}}
        assert settings_of(context) == settings_of({"environments": {}})

    def test_cost_of_a_key_counts_the_functions_with_a_table_and_the_queues(
        self, encrypted: Templates, prod: Templates
    ) -> None:
        month = 30 * 24 * 12  # requests at intervals of five minutes
        functions = sum(f"Decrypt {DYNAMODB}" in _key_uses(prod, folder) for folder in FUNCTIONS)
        queues = [name for name in encrypted.all("AWS::SQS::Queue") if "DeadLetters" not in name]
        costs = []
        for text, requests in (
            (f"{functions} x {month:,}", functions * month),
            (f"{len(queues)} x 3 x {month:,}", len(queues) * 3 * month),
        ):
            costs.append(requests * 0.03 / 10_000)
            assert f"{text} = {round(requests, -3):,} requests" in PAGE
            assert f", or ${costs[-1]:.2f}." in PAGE
        assert f"{functions} functions in constant use" in PAGE
        assert f"at most about ${1 + sum(costs):.2f} in a busy one." in " ".join(PAGE.split())

    def test_page_shows_the_required_policy_of_an_existing_key(self, encrypted: Templates) -> None:
        """The statements equal the policy of the environment's own key, except for logs."""
        (policy,) = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL))
        assert policy == [_written_out(_statement(encrypted, sid)) for sid in ("UploadsAreTold", "PicturesAreShown")]


def _key(templates: Templates) -> Json:
    (key,) = [resource for resource in templates.data["Resources"].values() if resource["Type"] == "AWS::KMS::Key"]
    return dict(key)


def _key_policy(templates: Templates) -> list[Json]:
    return list(_key(templates)["Properties"]["KeyPolicy"]["Statement"])


def _statement(templates: Templates, sid: str) -> Json:
    (statement,) = [candidate for candidate in _key_policy(templates) if candidate.get("Sid") == sid]
    return statement


def _written_out(value: Any) -> Any:
    """Return a part of a template in which the values of the documentation's account replace the references."""
    if isinstance(value, list):
        return [_written_out(element) for element in value]
    if isinstance(value, dict) and not value.keys() & {"Ref", "Fn::Join"}:
        return {key: _written_out(member) for key, member in value.items()}
    example = {"AWS::Partition": "aws", "AWS::AccountId": "111122223333", "AWS::Region": "eu-west-1"}
    return re.sub(r"AWS::\w+", lambda match: example[match[0]], to_text(value))


def _named_key(properties: Json, name: str) -> str:
    return to_text(properties[name])


def _is_about_keys(statement: Json) -> bool:
    return any(action.startswith("kms:") for action in as_list(statement["Action"]))


def _statements_about_keys(templates: Templates) -> list[Json]:
    """Return the statements about keys in all roles."""
    return [
        statement
        for policy in templates.all("AWS::IAM::Policy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if _is_about_keys(statement)
    ]
