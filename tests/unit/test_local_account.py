"""`make deploy` and `make bootstrap` check what they need and say what is missing."""

import boto3
import pytest
from botocore.exceptions import NoCredentialsError
from moto import mock_aws

from local import account


def test_without_a_region_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    assert account.main([]) == 1
    assert "AWS_REGION" in capsys.readouterr().err


def test_without_credentials_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise NoCredentialsError

    monkeypatch.setattr("botocore.client.BaseClient._make_api_call", refuse)
    assert account.main([]) == 1
    assert "AWS_PROFILE" in capsys.readouterr().err


@mock_aws
def test_an_account_that_is_not_prepared_is_told_how(capsys: pytest.CaptureFixture[str]) -> None:
    assert account.main([]) == 1
    assert "make bootstrap" in capsys.readouterr().err


@mock_aws
def test_bootstrap_needs_only_the_destination(capsys: pytest.CaptureFixture[str]) -> None:
    assert account.main(["--destination"]) == 0
    assert capsys.readouterr().out == "aws://123456789012/us-east-1\n"


@mock_aws
def test_a_prepared_account_can_be_deployed_to(capsys: pytest.CaptureFixture[str]) -> None:
    boto3.client("ssm").put_parameter(Name=account.BOOTSTRAPPED, Value="29", Type="String")
    assert account.main([]) == 0
    assert "aws://123456789012/us-east-1" in capsys.readouterr().out


@mock_aws
def test_the_region_is_read_as_the_cdk_reads_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert account.main(["--destination"]) == 0
    assert capsys.readouterr().out.endswith("/eu-central-1\n")
