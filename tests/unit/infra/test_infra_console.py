"""The templates contain the console's sign-in clients and the origins that its page may use."""

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
    def client(self, defaults: Templates) -> Json:
        return dict(defaults.one("AWS::Cognito::UserPoolClient", "Console")["Properties"])

    def test_console_client_may_request_codes_only(self, client: Json) -> None:
        assert client["AllowedOAuthFlows"] == ["code"]
        assert client["AllowedOAuthFlowsUserPoolClient"] is True

    def test_console_client_has_no_secret_because_a_page_cannot_keep_one(self, client: Json) -> None:
        assert client["GenerateSecret"] is False

    def test_sign_in_does_not_reveal_who_has_an_account(self, client: Json) -> None:
        assert client["PreventUserExistenceErrors"] == "ENABLED"

    def test_console_client_cannot_request_the_administrator_scope(self, client: Json) -> None:
        """The pool grants each user every scope that the client may request."""
        assert client["AllowedOAuthScopes"] == ["videos/read", "videos/write"]

    def test_sign_in_redirects_to_the_console(self, client: Json, prod: Templates) -> None:
        console = "HttpApi.ApiEndpoint/console/"
        assert [*map(to_text, client["CallbackURLs"])] == [
            console,
            f"{console}index.html",
            "http://localhost:3000/callback",
        ]
        in_production = prod.one("AWS::Cognito::UserPoolClient", "Console")["Properties"]["CallbackURLs"]
        assert [*map(to_text, in_production)] == [console, f"{console}index.html"]

    def test_sign_in_redirects_to_custom_domains(self, other_values: Templates) -> None:
        urls = other_values.one("AWS::Cognito::UserPoolClient", "Console")["Properties"]["CallbackURLs"]
        assert urls[-1] == "https://videos.example/console/"

    def test_sign_out_redirects_to_the_same_urls(self, client: Json) -> None:
        """Otherwise the pool would keep its session, which would sign in the next person as the previous one."""
        assert client["LogoutURLs"] == client["CallbackURLs"]

    def test_session_lasts_half_a_day(self, client: Json) -> None:
        assert (client["RefreshTokenValidity"], client["TokenValidityUnits"]) == (720, {"RefreshToken": "minutes"})

    def test_api_accepts_the_tokens_of_the_console_client(self, defaults: Templates) -> None:
        (name,) = (name for name in defaults.all("AWS::Cognito::UserPoolClient") if "Console" in name)
        accepted = defaults.one("AWS::ApiGatewayV2::Authorizer")["Properties"]["JwtConfiguration"]
        assert {"Ref": name} in accepted["Audience"]
        assert _config(defaults)["issuer"] == to_text(accepted["Issuer"])
        assert _config(defaults)["clientId"] == to_text({"Ref": name})


class TestExternalIssuer:
    def test_console_uses_its_client_at_the_external_issuer(self, snapstart: Templates) -> None:
        assert _config(snapstart) == {
            "issuer": ISSUER["issuer"],
            "clientId": "films-console",
            "scopes": "videos/read videos/write videos/admin",
            "audience": "video-metadata",
            "media": _config(snapstart)["media"],
        }
        assert not snapstart.all("AWS::Cognito::UserPoolClient")

    def test_console_without_a_client_has_no_sign_in(self, existing_resources: Templates) -> None:
        assert "clientId" not in _config(existing_resources)

    def test_page_may_connect_to_the_external_issuer_only(self, snapstart: Templates) -> None:
        assert _variables(snapstart)["CONNECT_ORIGINS"] == "https://login.example"

    def test_api_accepts_only_the_external_issuers_audiences(self, snapstart: Templates) -> None:
        accepted = snapstart.one("AWS::ApiGatewayV2::Authorizer")["Properties"]["JwtConfiguration"]
        assert accepted == {"Issuer": ISSUER["issuer"], "Audience": ["video-metadata", "other"]}


class TestPage:
    def test_page_may_connect_to_the_pool_and_its_domain(self, defaults: Templates) -> None:
        """The page reads the discovery document from the pool. Sign-in and tokens are at the pool's domain."""
        issuer, tokens = _variables(defaults)["CONNECT_ORIGINS"].split()
        assert issuer == "https://cognito-idp.AWS::Region.AWS::URLSuffix"
        assert defaults.identity is not None
        assert to_text(defaults.identity["Outputs"]["TokenUrl"]["Value"]) == f"{tokens}/oauth2/token"

    def test_page_may_load_pictures_and_upload_and_play_videos(self, defaults: Templates) -> None:
        origins = _config(defaults)["media"]
        assert origins[0] == _variables(defaults, "playback")["MEDIA_URL"]
        assert origins[1:] == ["https://Sources.RegionalDomainName", "https://Media.RegionalDomainName"]

    @pytest.mark.parametrize("region", ["us-east-1", "eu-west-1"])
    @pytest.mark.parametrize("operation", ["get_object", "put_object"])
    def test_page_allows_the_bucket_addresses_of_presigned_urls(
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

    def test_local_page_uses_ministack_for_all_resources(self, local: Templates) -> None:
        assert _config(local)["media"] == ["http://127.0.0.1:4566"]


class TestFunction:
    def test_console_traffic_shifts_at_once_because_a_page_needs_files_of_its_version(self, prod: Templates) -> None:
        alias = prod.all("AWS::Lambda::Alias")[prod.alias("console")]
        assert "UpdatePolicy" not in alias
        assert not [name for name in prod.all("AWS::CodeDeploy::DeploymentGroup") if "Console" in name]

    def test_console_address_is_a_stack_output(self, defaults: Templates) -> None:
        outputs = defaults.api["Outputs"]
        assert to_text(outputs["ConsoleUrl"]["Value"]) == f"{to_text(outputs['ApiUrl']['Value'])}/console/"
