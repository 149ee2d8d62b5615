"""`make synth` checks and lints every deployment choice that adds or changes resources."""

import dataclasses
from pathlib import Path
from typing import Any, get_args, get_type_hints

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3 as s3

import app
from infra.settings import DeploymentSettings
from local import LocalError
from local.templates import DEPLOYMENTS, check
from tests.unit.infra.templates import settings_of

NOT_RESOURCES = {
    "endpoint": "given to the local target only",
    "target": "given to the local target only",
    "delivery_workers": "a number that every deployment has",
    "audit_days": "a number that every deployment has",
    "jobs_per_day": "a number that every deployment has",
    "caption_cues": "a number that every deployment has",
    "caption_days": "a number that every deployment has",
    "view_window": "a number that every deployment has",
}
"""Settings that may have one value in all deployments of `make synth`, each with the reason."""


@pytest.fixture(scope="module")
def other_values() -> dict[str, set[Any]]:
    """Return the values that each setting has in the deployments of `make synth`, by name of the setting."""
    deployments = [settings_of(dict(settings)) for settings in DEPLOYMENTS.values()]
    names = [field.name for field in dataclasses.fields(DeploymentSettings)]
    return {name: {getattr(settings, name) for settings in deployments} for name in names}


def test_every_setting_has_two_values_in_make_synth(other_values: dict[str, set[Any]]) -> None:
    assert {name for name, values in other_values.items() if len(values) < 2} <= NOT_RESOURCES.keys()


@pytest.mark.parametrize("name", ["architecture", "capacity_mode", "shift"])
def test_make_synth_has_every_choice_of_a_list(other_values: dict[str, set[Any]], name: str) -> None:
    assert other_values[name] == set(get_args(get_type_hints(DeploymentSettings)[name]))


@pytest.mark.parametrize("name", ["event_bus", "kms_key"])
def test_make_synth_has_a_resource_omitted_by_name_and_by_arn(other_values: dict[str, set[Any]], name: str) -> None:
    settings = other_values[name] - {None}
    assert None in other_values[name]
    assert {value.startswith("arn:") for value in settings} == {True, False}


def test_every_deployment_of_make_synth_has_a_different_environment() -> None:
    envs = [context.get("env", "dev") for context in DEPLOYMENTS.values()]
    assert len(set(envs)) == len(envs)


def test_finding_of_cdk_nag_or_cfn_lint_fails_make_synth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def add_stack(app: cdk.App, region: str | None) -> None:
        kind = app.node.try_get_context("kind")
        stack = cdk.Stack(app, kind)
        if kind == "Open":
            s3.Bucket(stack, "Bucket")
        else:
            cdk.CfnResource(stack, "Topic", type="AWS::SNS::Topic")
            cdk.CfnParameter(stack, "Unused")

    monkeypatch.setattr(app, "add_stacks", add_stack)
    # cdk-nag takes seconds and does not check local deployments.
    deployments = {"an open bucket": {"kind": "Open"}, "a laptop": {"kind": "Careless", "target": "local"}}
    with pytest.raises(LocalError, match=r"failed, for the reasons above: an open bucket; cfn-lint\."):
        check(tmp_path / "templates", deployments)
    output, errors = capfd.readouterr()
    assert "does not require requests to use SSL" in output + errors
    assert "Parameter Unused not used" in output
    assert [Path(line).name for line in output.splitlines()[-2:]] == ["Careless.template.json", "Open.template.json"]
