"""The console in the templates: its sign-in clients and the requests that its page may send."""

import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from shared.aws.s3 import make_client
from tests.unit.infra.templates import ISSUER, Json, Templates, to_text


def _variables(templates: Templates, folder: str = "console") -> dict[str, str]:
    variables: Json = templates.function(folder)[1]["Environment"]["Variables"]
    return {name: to_text(value) for name, value in variables.items()}


def _config(templates: Templates) -> Json:
    return dict(json.loads(_variables(templates)["CONFIG"]))


class TestCognito:
    @pytest.fixture
    def client(self, aws: Templates) -> Json:
        return dict(aws.one("AWS::Cognito::UserPoolClient", "Console")["Properties"])

    def test_gives_a_page_codes_and_nothing_else(self, client: Json) -> None:
        assert client["AllowedOAuthFlows"] == ["code"]
        assert client["AllowedOAuthFlowsUserPoolClient"] is True

    def test_gives_it_no_secret_because_a_page_cannot_keep_one(self, client: Json) -> None:
        assert client["GenerateSecret"] is False

    def test_does_not_say_who_has_an_account(self, client: Json) -> None:
        assert client["PreventUserExistenceErrors"] == "ENABLED"

    def test_grants_nobody_to_be_an_administrator(self, client: Json) -> None:
        """It grants each user whatever the client may ask for."""
        assert client["AllowedOAuthScopes"] == ["videos/read", "videos/write"]

    def test_sends_people_back_to_the_console(self, client: Json, prod: Templates) -> None:
        console = "HttpApi.ApiEndpoint/console/"
        assert [*map(to_text, client["CallbackURLs"])] == [
            console,
            f"{console}index.html",
            "http://localhost:3000/callback",
        ]
        in_production = prod.one("AWS::Cognito::UserPoolClient", "Console")["Properties"]["CallbackURLs"]
        assert [*map(to_text, in_production)] == [console, f"{console}index.html"]

    def test_sends_them_to_a_domain_of_ones_own_as_well(self, chosen: Templates) -> None:
        urls = chosen.one("AWS::Cognito::UserPoolClient", "Console")["Properties"]["CallbackURLs"]
        assert urls[-1] == "https://videos.example/console/"

    def test_takes_people_back_who_signed_out(self, client: Json) -> None:
        """Else its own session would sign in the next person as the last."""
        assert client["LogoutURLs"] == client["CallbackURLs"]

    def test_lets_a_session_last_for_half_a_day(self, client: Json) -> None:
        assert (client["RefreshTokenValidity"], client["TokenValidityUnits"]) == (720, {"RefreshToken": "minutes"})

    def test_issues_tokens_that_the_api_accepts(self, aws: Templates) -> None:
        (name,) = (name for name in aws.all("AWS::Cognito::UserPoolClient") if "Console" in name)
        accepted = aws.one("AWS::ApiGatewayV2::Authorizer")["Properties"]["JwtConfiguration"]
        assert {"Ref": name} in accepted["Audience"]
        assert _config(aws)["issuer"] == to_text(accepted["Issuer"])
        assert _config(aws)["clientId"] == to_text({"Ref": name})


class TestExternalIssuer:
    def test_is_asked_as_the_client_that_it_has_for_the_console(self, snapshots: Templates) -> None:
        assert _config(snapshots) == {
            "issuer": ISSUER["issuer"],
            "clientId": "films-console",
            "scopes": "videos/read videos/write videos/admin",
            "audience": "video-metadata",
            "media": _config(snapshots)["media"],
        }
        assert not snapshots.all("AWS::Cognito::UserPoolClient")

    def test_without_a_client_lets_nobody_sign_in(self, external: Templates) -> None:
        assert "clientId" not in _config(external)

    def test_is_the_only_other_that_the_page_may_ask(self, snapshots: Templates) -> None:
        assert _variables(snapshots)["CONNECT_ORIGINS"] == "https://login.example"

    def test_decides_alone_which_tokens_the_api_accepts(self, snapshots: Templates) -> None:
        accepted = snapshots.one("AWS::ApiGatewayV2::Authorizer")["Properties"]["JwtConfiguration"]
        assert accepted == {"Issuer": ISSUER["issuer"], "Audience": ["video-metadata", "other"]}


class TestThePage:
    def test_may_ask_the_pool_who_it_is_and_for_tokens(self, aws: Templates) -> None:
        """Discovery is at the pool, signing in and tokens at its domain."""
        issuer, tokens = _variables(aws)["CONNECT_ORIGINS"].split()
        assert issuer == "https://cognito-idp.AWS::Region.AWS::URLSuffix"
        assert aws.identity is not None
        assert to_text(aws.identity["Outputs"]["TokenUrl"]["Value"]) == f"{tokens}/oauth2/token"

    def test_may_load_pictures_and_send_and_play_films(self, aws: Templates) -> None:
        origins = _config(aws)["media"]
        assert origins[0] == _variables(aws, "playback")["MEDIA_URL"]
        assert origins[1:] == ["https://Sources.RegionalDomainName", "https://Media.RegionalDomainName"]

    @pytest.mark.parametrize("region", ["us-east-1", "eu-west-1"])
    @pytest.mark.parametrize("operation", ["get_object", "put_object"])
    def test_finds_films_where_their_urls_lead(
        self, monkeypatch: pytest.MonkeyPatch, region: str, operation: Any
    ) -> None:
        """CloudFormation's RegionalDomainName is `<bucket>.s3.<region>.amazonaws.com`, in all regions.

        https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-s3-bucket.html
        """
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            monkeypatch.setenv(name, region)
        bucket = f"videos-prod-sources-123456789012-{region}"
        url = urlsplit(make_client().generate_presigned_url(operation, {"Bucket": bucket, "Key": "v/1"}))
        assert f"{url.scheme}://{url.netloc}" == f"https://{bucket}.s3.{region}.amazonaws.com"

    def test_asks_the_embedded_aws_for_all_of_it_on_a_laptop(self, local: Templates) -> None:
        assert _config(local)["media"] == ["http://127.0.0.1:4566"]


class TestTheFunction:
    def test_changes_at_once_because_a_page_has_files_of_its_own_version_only(self, prod: Templates) -> None:
        alias = prod.all("AWS::Lambda::Alias")[prod.alias("console")]
        assert "UpdatePolicy" not in alias
        assert not [name for name in prod.all("AWS::CodeDeploy::DeploymentGroup") if "Console" in name]

    def test_is_where_the_output_says(self, aws: Templates) -> None:
        outputs = aws.api["Outputs"]
        assert to_text(outputs["ConsoleUrl"]["Value"]) == f"{to_text(outputs['ApiUrl']['Value'])}/console/"
