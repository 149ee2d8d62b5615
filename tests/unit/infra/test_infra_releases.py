"""A new version of a function is published, called through its alias, and rolled back if it fails."""

import json
from typing import Any

import pytest

from infra.api_stack import BUSIEST_FUNCTIONS
from infra.function import LOG_LEVELS, MEMORY_MB
from infra.settings import LogLevel
from local.testbed.harness import make_api
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.routes import ROUTES
from tests.logs import log_lines, passes_lambda_filter
from tests.unit.infra.templates import FUNCTIONS, ROOT, Json, Templates, as_list

REQUEST_FUNCTIONS = sorted({route.function for route in ROUTES})
SNAPSHOTS = [function for function in REQUEST_FUNCTIONS if function != "search"]
"""Functions with snapshots. Lambda does not support them with more than 512 MB of `/tmp`, which search needs for its
index."""
BACKGROUND_FUNCTIONS = sorted(set(FUNCTIONS) - set(REQUEST_FUNCTIONS))
CODEDEPLOY = ("AWS::CodeDeploy::Application", "AWS::CodeDeploy::DeploymentGroup")


class TestVersions:
    @pytest.mark.parametrize("folder", FUNCTIONS)
    def test_every_function_has_a_version_behind_its_live_alias(
        self, defaults: Templates, local: Templates, folder: str
    ) -> None:
        for templates in (defaults, local):
            alias = _alias(templates, folder)["Properties"]
            version = templates.all("AWS::Lambda::Version")[alias["FunctionVersion"]["Fn::GetAtt"][0]]
            assert alias["Name"] == "live"
            assert (
                version["Properties"]["FunctionName"] == alias["FunctionName"] == {"Ref": templates.function(folder)[0]}
            )

    def test_old_versions_are_deleted_once_unused(self, defaults: Templates) -> None:
        """Each retained version with a snapshot costs money."""
        assert not [version for version in defaults.all("AWS::Lambda::Version").values() if "DeletionPolicy" in version]

    def test_changed_variables_of_a_function_create_another_version(
        self, defaults: Templates, staging: Templates
    ) -> None:
        """The two environments differ only in the variables with the environment's name."""
        assert not set(defaults.all("AWS::Lambda::Version")) & set(staging.all("AWS::Lambda::Version"))

    def test_callers_invoke_functions_only_through_their_alias(self, defaults: Templates) -> None:
        functions = set(defaults.all("AWS::Lambda::Function"))
        callers = ("Permission", "EventSourceMapping")
        called = [caller["Properties"]["FunctionName"] for type_ in callers for caller in _lambda(defaults, type_)]
        called += [
            caller["Properties"]["IntegrationUri"] for caller in defaults.all("AWS::ApiGatewayV2::Integration").values()
        ]
        called += [
            target["Arn"] for caller in defaults.all("AWS::Events::Rule").values() for target in _targets(caller)
        ]
        assert len(called) > len(FUNCTIONS)
        for target in called:
            assert not functions & set(_references(target))

    @pytest.mark.parametrize("folder", [*REQUEST_FUNCTIONS, "console"])
    def test_integration_is_created_after_the_permission_to_call_its_function(
        self, defaults: Templates, folder: str
    ) -> None:
        """Otherwise, if one deployment changes both, the gateway would respond 500 until the permission exists."""
        alias = {"Ref": defaults.alias(folder)}
        permissions = defaults.all("AWS::Lambda::Permission").items()
        (integration,) = (
            integration
            for integration in defaults.all("AWS::ApiGatewayV2::Integration").values()
            if integration["Properties"]["IntegrationUri"] == alias
        )
        allowing = {name for name, integration in permissions if integration["Properties"]["FunctionName"] == alias}
        assert allowing
        assert allowing <= set(integration["DependsOn"])


class TestColdStart:
    def test_snapshots_and_provisioned_concurrency_are_off_by_default(
        self, defaults: Templates, local: Templates, prod: Templates
    ) -> None:
        for templates in (defaults, local, prod):
            assert not _starting_from_snapshots(templates)
            assert not _provisioned(templates)

    def test_request_functions_can_start_from_snapshots(self, snapstart: Templates) -> None:
        assert _starting_from_snapshots(snapstart) == dict.fromkeys(SNAPSHOTS, "PublishedVersions")
        assert _provisioned(snapstart) == {"search": 2}  # by `searchInstances`

    def test_most_requested_functions_can_have_provisioned_concurrency(self, other_values: Templates) -> None:
        assert _provisioned(other_values) == dict.fromkeys(sorted(BUSIEST_FUNCTIONS), 3)
        assert _starting_from_snapshots(other_values) == {}

    def test_architecture_is_configurable_and_arm64_by_default(
        self, defaults: Templates, other_values: Templates
    ) -> None:
        assert _architectures(defaults) == {"arm64"}
        assert _architectures(other_values) == {"x86_64"}


class TestColdStartCost:
    """docs/cold-start.md computes the cost from list prices."""

    GIGABYTE_MONTH = MEMORY_MB / 1024 * 30 * 24 * 3600

    def test_page_states_the_cost_of_snapshots(self) -> None:
        page = (ROOT / "docs/cold-start.md").read_text(encoding="utf-8")
        assert f"Storage: {len(SNAPSHOTS)} functions " in page
        assert f"**{len(SNAPSHOTS) * self.GIGABYTE_MONTH * 0.0000015046:.2f} USD**" in page
        assert f"**{1000 * MEMORY_MB / 1024 * 0.0001397998:.2f} USD**" in page

    def test_page_states_the_cost_of_provisioned_concurrency(self) -> None:
        page = (ROOT / "docs/cold-start.md").read_text(encoding="utf-8")
        instance = self.GIGABYTE_MONTH * 0.0000033334
        assert f"**{instance:.2f} USD**" in page
        assert f"`provisioned:1` costs **{len(BUSIEST_FUNCTIONS) * instance:.2f} USD**" in page

    def test_page_states_the_cost_of_the_alarms_that_watch_releases(self, prod: Templates) -> None:
        page = (ROOT / "docs/cold-start.md").read_text(encoding="utf-8")
        operations = prod.parts()["Operations"]["Resources"]
        watching = [name for name in prod.all("AWS::CloudWatch::Alarm") if name not in operations]
        assert f"All these alarms of an environment cost {len(watching) * 0.1:.2f} USD" in " ".join(page.split())


class TestGradualShift:
    def test_gradual_shift_is_off_by_default(self, defaults: Templates, local: Templates) -> None:
        for templates in (defaults, local):
            assert not [type_ for type_ in CODEDEPLOY if templates.all(type_)]
            assert not [folder for folder in FUNCTIONS if "UpdatePolicy" in _alias(templates, folder)]

    def test_production_shifts_a_tenth_of_the_requests_for_five_minutes(self, prod: Templates) -> None:
        configurations = {group["DeploymentConfigName"] for group in _groups(prod).values()}
        assert configurations == {"CodeDeployDefault.LambdaCanary10Percent5Minutes"}

    def test_linear_shift_moves_a_tenth_per_minute(self, other_values: Templates) -> None:
        configurations = {group["DeploymentConfigName"] for group in _groups(other_values).values()}
        assert configurations == {"CodeDeployDefault.LambdaLinear10PercentEvery1Minute"}

    @pytest.mark.parametrize("folder", REQUEST_FUNCTIONS)
    def test_every_request_function_shifts_traffic_separately(self, prod: Templates, folder: str) -> None:
        policy = _alias(prod, folder)["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]
        group = prod.all("AWS::CodeDeploy::DeploymentGroup")[policy["DeploymentGroupName"]["Ref"]]
        assert group["Properties"]["ApplicationName"] == policy["ApplicationName"]
        assert group["Properties"]["DeploymentGroupName"] == folder

    @pytest.mark.parametrize("folder", BACKGROUND_FUNCTIONS)
    def test_workers_shift_traffic_at_once(self, prod: Templates, folder: str) -> None:
        assert "UpdatePolicy" not in _alias(prod, folder)

    @pytest.mark.parametrize("folder", REQUEST_FUNCTIONS)
    def test_alarms_watch_the_new_version_before_the_first_request_moves(self, prod: Templates, folder: str) -> None:
        group_id, group = _group_of(prod, folder)
        assert group_id in _alias(prod, folder)["DependsOn"]
        version = _alias(prod, folder)["Properties"]["FunctionVersion"]
        crashes, failures = _alarms_of(prod, group)
        function = {"Ref": prod.function(folder)[0]}
        assert _dimensions(crashes) == {
            "FunctionName": function,
            "Resource": {"Fn::Join": ["", [function, ":live"]]},
            "ExecutedVersion": version,
        }
        assert _dimensions(failures) == {"service": folder, "version": version}
        assert (crashes["Namespace"], crashes["MetricName"]) == ("AWS/Lambda", "Errors")
        assert (failures["Namespace"], failures["MetricName"]) == ("VideoMetadata-prod-Api", "UnhandledErrors")

    @pytest.mark.parametrize("folder", REQUEST_FUNCTIONS)
    def test_single_failure_rolls_back_a_deployment(self, prod: Templates, folder: str) -> None:
        group = _group_of(prod, folder)[1]
        assert group["AutoRollbackConfiguration"] == {
            "Enabled": True,
            "Events": ["DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_REQUEST", "DEPLOYMENT_STOP_ON_ALARM"],
        }
        for alarm in _alarms_of(prod, group):
            assert (alarm["Threshold"], alarm["EvaluationPeriods"], alarm["Period"]) == (1, 1, 60)
            assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
            assert alarm["TreatMissingData"] == "notBreaching"

    @pytest.mark.parametrize("folder", REQUEST_FUNCTIONS)
    def test_alarms_of_a_failing_version_do_not_stop_the_version_that_fixes_it(
        self, prod: Templates, folder: str
    ) -> None:
        """Alarm names contain the version, so a new version has new alarms. The new alarms are not in the alarm state."""
        version = _alias(prod, folder)["Properties"]["FunctionVersion"]
        names = [alarm["AlarmName"]["Fn::Join"] for alarm in _alarms_of(prod, _group_of(prod, folder)[1])]
        assert names == [["", ["prod version ", version, f" of {folder} {alarm}"]] for alarm in ("crashes", "fails")]

    def test_every_alarm_names_an_existing_page(self, prod: Templates) -> None:
        for folder in REQUEST_FUNCTIONS:
            for alarm in _alarms_of(prod, _group_of(prod, folder)[1]):
                page = alarm["AlarmDescription"].partition(" Runbook: ")[2]
                assert (ROOT / page).read_text(encoding="utf-8").startswith("# ")

    @pytest.mark.parametrize("folder", REQUEST_FUNCTIONS)
    def test_responses_with_500_are_counted_in_the_functions_log(self, prod: Templates, folder: str) -> None:
        log = prod.function(folder)[1]["LoggingConfig"]["LogGroup"]
        (counted,) = (
            metric_filter["Properties"]
            for metric_filter in prod.all("AWS::Logs::MetricFilter").values()
            if metric_filter["Properties"]["LogGroupName"] == log
        )
        (metric,) = counted["MetricTransformations"]
        assert counted["FilterPattern"] == '{ $.message = "unhandled error" }'
        assert metric["Dimensions"] == [
            {"Key": "service", "Value": "$.service"},
            {"Key": "version", "Value": "$.function_version"},
        ]
        assert metric["MetricValue"] == "1"

    @pytest.mark.parametrize("level", LOG_LEVELS)
    def test_response_with_500_logs_the_counted_line_at_every_log_level(
        self, table: Table, monkeypatch: pytest.MonkeyPatch, level: LogLevel
    ) -> None:
        def broken(*_: Any) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setenv("AWS_LAMBDA_FUNCTION_VERSION", "7")
        undo = intercept(table.client, broken)
        with log_lines() as lines:
            assert make_api(table).get("/health").status == 500
        undo()
        (failed,) = [line for line in lines if line["message"] == "unhandled error"]
        assert (failed["level"], failed["function_version"]) == ("ERROR", "7")
        assert passes_lambda_filter(failed, LOG_LEVELS[level].value)


class TestCodeDeployRole:
    def test_role_may_move_these_aliases_and_read_alarms(self, prod: Templates) -> None:
        lambdas = [prod.function(folder)[0] for folder in REQUEST_FUNCTIONS]
        moving, looking = _statements(prod)
        assert moving["Action"] == ["lambda:GetAlias", "lambda:GetProvisionedConcurrencyConfig", "lambda:UpdateAlias"]
        allowed = {json.dumps(resource, sort_keys=True) for resource in as_list(moving["Resource"])}
        functions: list[Json] = [{"Fn::GetAtt": [name, "Arn"]} for name in lambdas]
        aliases: list[Json] = [{"Fn::Join": ["", [arn, ":live"]]} for arn in functions]
        assert allowed == {json.dumps(arn, sort_keys=True) for arn in (*functions, *aliases)}
        assert (looking["Action"], looking["Resource"]) == ("cloudwatch:DescribeAlarms", "*")

    def test_role_is_assumed_by_codedeploy_for_this_account_only(self, prod: Templates) -> None:
        role = _role(prod)[1]["Properties"]
        (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Principal"] == {"Service": "codedeploy.amazonaws.com"}
        assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
        assert "ManagedPolicyArns" not in role

    def test_role_has_its_policy_before_its_first_use(self, prod: Templates) -> None:
        (policy,) = _policies(prod)
        for group in prod.all("AWS::CodeDeploy::DeploymentGroup").values():
            assert policy in group["DependsOn"]


def _lambda(templates: Templates, type_: str) -> list[Json]:
    return list(templates.all(f"AWS::Lambda::{type_}").values())


def _targets(rule: Json) -> list[Json]:
    return list(rule["Properties"]["Targets"])


def _references(value: Any) -> list[str]:
    """Return the logical ids that a value refers to."""
    if isinstance(value, list):
        return [name for element in value for name in _references(element)]
    if not isinstance(value, dict):
        return []
    ((function, argument),) = value.items()
    return [as_list(argument)[0]] if function in ("Ref", "Fn::GetAtt") else _references(argument)


def _alias(templates: Templates, folder: str) -> Json:
    return templates.all("AWS::Lambda::Alias")[templates.alias(folder)]


def _starting_from_snapshots(templates: Templates) -> dict[str, str]:
    apply_on = {folder: templates.function(folder)[1].get("SnapStart", {}).get("ApplyOn") for folder in FUNCTIONS}
    return {folder: when for folder, when in apply_on.items() if when}


def _provisioned(templates: Templates) -> dict[str, int]:
    name, count = "ProvisionedConcurrencyConfig", "ProvisionedConcurrentExecutions"
    provisioned = {folder: _alias(templates, folder)["Properties"].get(name, {}).get(count) for folder in FUNCTIONS}
    return {folder: instances for folder, instances in provisioned.items() if instances}


def _architectures(templates: Templates) -> set[str]:
    return {architecture for folder in FUNCTIONS for architecture in templates.function(folder)[1]["Architectures"]}


def _groups(templates: Templates) -> dict[str, Json]:
    groups = templates.all("AWS::CodeDeploy::DeploymentGroup").items()
    return {name: group["Properties"] for name, group in groups}


def _group_of(templates: Templates, folder: str) -> tuple[str, Json]:
    (group,) = (group for group in _groups(templates).items() if group[1]["DeploymentGroupName"] == folder)
    return group


def _alarms_of(templates: Templates, group: Json) -> list[Json]:
    """Return the alarms on crashes and on responses with 500."""
    configuration = group["AlarmConfiguration"]
    assert configuration["Enabled"] is True
    alarms = templates.all("AWS::CloudWatch::Alarm")
    return [alarms[alarm["Name"]["Ref"]]["Properties"] for alarm in configuration["Alarms"]]


def _dimensions(alarm: Json) -> Json:
    return {dimension["Name"]: dimension["Value"] for dimension in alarm["Dimensions"]}


def _role(templates: Templates) -> tuple[str, Json]:
    (role,) = {group["ServiceRoleArn"]["Fn::GetAtt"][0] for group in _groups(templates).values()}
    return role, templates.all("AWS::IAM::Role")[role]


def _policies(templates: Templates) -> dict[str, Json]:
    role = {"Ref": _role(templates)[0]}
    policies = templates.all("AWS::IAM::Policy").items()
    return {name: policy for name, policy in policies if role in policy["Properties"]["Roles"]}


def _statements(templates: Templates) -> list[Json]:
    (policy,) = _policies(templates).values()
    return list(policy["Properties"]["PolicyDocument"]["Statement"])
