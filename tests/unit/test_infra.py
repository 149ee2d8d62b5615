"""The CloudFormation templates say what the design says.

They are made once, without packaging the functions, and read as plain JSON.
"""

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from app import add_stacks
from infra.api_stack import ACCESS_LOG
from infra.settings import Misconfigured, Settings
from shared import routes, schema

ROOT = Path(__file__).resolve().parents[2]
LOCAL = {"target": "local", "issuer": "http://127.0.0.1:9000", "audience": "video-metadata"}
FUNCTIONS = ("videos", "views", "public")

Json = dict[str, Any]
Synthesize = Callable[[Json], "Templates"]


class Templates:
    """What one deployment would create."""

    def __init__(self, context: Json, outdir: Path) -> None:
        defaults = json.loads((ROOT / "cdk.json").read_text())["context"]
        no_packaging: Json = {"aws:cdk:bundling-stacks": []}
        app = cdk.App(
            outdir=str(outdir),
            context=defaults | no_packaging | context,
            builtin_cloud_formation_validation=False,
        )
        add_stacks(app)
        stacks = [child for child in app.node.children if isinstance(child, cdk.Stack)]
        self.names = [stack.stack_name for stack in stacks]
        self._templates = {stack.stack_name.split("-")[-1]: Template.from_stack(stack).to_json() for stack in stacks}
        self.data, self.api = self._templates["Data"], self._templates["Api"]
        self.identity = self._templates.get("Identity")

    def all(self, type_: str) -> dict[str, Json]:
        """Every resource of a type, by logical id."""
        resources = {name: made for each in self._templates.values() for name, made in each["Resources"].items()}
        return {name: resource for name, resource in resources.items() if resource["Type"] == type_}

    def one(self, type_: str) -> Json:
        """The only resource of a type."""
        (resource,) = self.all(type_).values()
        return resource

    def function(self, folder: str) -> tuple[str, Json]:
        """The logical id and the properties of the function that runs a folder's handler."""
        (found,) = (
            (name, resource["Properties"])
            for name, resource in self.all("AWS::Lambda::Function").items()
            if resource["Properties"]["Handler"] == f"functions.{folder}.handler.lambda_handler"
        )
        return found

    def statements(self, folder: str) -> list[Json]:
        """What the function's role allows."""
        role = self.function(folder)[1]["Role"]["Fn::GetAtt"][0]
        return [
            statement
            for policy in self.all("AWS::IAM::Policy").values()
            if {"Ref": role} in policy["Properties"]["Roles"]
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        ]

    def route_target(self, route: Json) -> str:
        """The logical id of the function that a route calls."""
        integration = route["Target"]["Fn::Join"][1][1]["Ref"]
        uri = self.api["Resources"][integration]["Properties"]["IntegrationUri"]
        return str(uri["Fn::GetAtt"][0])


@pytest.fixture(scope="module")
def synthesize(tmp_path_factory: pytest.TempPathFactory) -> Synthesize:
    made: dict[str, Templates] = {}

    def templates_for(context: Json) -> Templates:
        key = json.dumps(context, sort_keys=True)
        if key not in made:
            made[key] = Templates(context, tmp_path_factory.mktemp("cdk.out"))
        return made[key]

    return templates_for


@pytest.fixture(scope="module")
def aws(synthesize: Synthesize) -> Templates:
    """What `cdk deploy` creates when nothing is chosen."""
    return synthesize({})


@pytest.fixture(scope="module")
def local(synthesize: Synthesize) -> Templates:
    """What `make run` creates."""
    return synthesize(LOCAL)


class TestTable:
    @pytest.fixture
    def table(self, aws: Templates) -> Json:
        return aws.one("AWS::DynamoDB::GlobalTable")

    def test_has_the_keys_of_the_schema(self, table: Json) -> None:
        assert _keys(table["Properties"]) == [("pk", "HASH", "S"), ("sk", "RANGE", "S")]

    def test_has_exactly_the_indexes_of_the_schema(self, table: Json) -> None:
        definitions = table["Properties"]["AttributeDefinitions"]
        indexes = {
            index["IndexName"]: _keys({**index, "AttributeDefinitions": definitions})
            for index in table["Properties"]["GlobalSecondaryIndexes"]
        }
        assert indexes == {
            index.name: [
                *((attribute.name, "HASH", attribute.type) for attribute in index.partition),
                *((attribute.name, "RANGE", attribute.type) for attribute in index.sort),
            ]
            for index in schema.INDEXES
        }

    @pytest.mark.parametrize("index", schema.INDEXES, ids=lambda index: index.name)
    def test_indexes_show_the_projection_and_do_not_repeat_their_keys(self, table: Json, index: schema.Index) -> None:
        (made,) = (made for made in table["Properties"]["GlobalSecondaryIndexes"] if made["IndexName"] == index.name)
        keys = {attribute.name for attribute in (*index.partition, *index.sort)}
        assert made["Projection"]["ProjectionType"] == "INCLUDE"
        assert set(made["Projection"]["NonKeyAttributes"]) == set(schema.PROJECTION) - keys

    def test_is_paid_on_demand(self, table: Json) -> None:
        assert table["Properties"]["BillingMode"] == "PAY_PER_REQUEST"

    def test_streams_both_images_and_expires_by_the_internal_attribute(self, table: Json) -> None:
        assert table["Properties"]["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
        assert table["Properties"]["TimeToLiveSpecification"] == {"AttributeName": "purgeAt", "Enabled": True}

    def test_is_encrypted_with_the_key_that_dynamodb_owns(self, table: Json) -> None:
        assert table["Properties"]["SSESpecification"] == {"SSEEnabled": False}

    def test_cannot_be_lost_by_mistake(self, aws: Templates, table: Json) -> None:
        (replica,) = table["Properties"]["Replicas"]
        assert replica["DeletionProtectionEnabled"] is True
        assert replica["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
        assert table["DeletionPolicy"] == table["UpdateReplacePolicy"] == "Retain"

    def test_goes_with_its_stack_locally(self, local: Templates) -> None:
        table = local.one("AWS::DynamoDB::GlobalTable")
        assert table["Properties"]["Replicas"][0]["DeletionProtectionEnabled"] is False
        assert table["DeletionPolicy"] == "Delete"

    def test_the_local_table_differs_in_nothing_else(self, aws: Templates, local: Templates) -> None:
        there, here = (made.one("AWS::DynamoDB::GlobalTable")["Properties"] for made in (aws, local))
        assert {**there, "Replicas": None} == {**here, "Replicas": None}


class TestRoutes:
    @pytest.fixture
    def made(self, aws: Templates) -> dict[str, Json]:
        return {
            route["Properties"]["RouteKey"]: route["Properties"]
            for route in aws.all("AWS::ApiGatewayV2::Route").values()
        }

    def test_are_those_of_the_route_table_and_default(self, made: dict[str, Json]) -> None:
        assert set(made) == {f"{route.method} {route.path}" for route in routes.ROUTES} | {"$default"}

    @pytest.mark.parametrize("route", routes.ROUTES, ids=lambda route: route.operation)
    def test_ask_for_a_token_exactly_when_a_scope_is_needed(self, made: dict[str, Json], route: routes.Route) -> None:
        expected = "JWT" if route.scope else "NONE"
        assert made[f"{route.method} {route.path}"].get("AuthorizationType", "NONE") == expected

    @pytest.mark.parametrize("route", routes.ROUTES, ids=lambda route: route.operation)
    def test_call_the_function_of_the_route_table(
        self, aws: Templates, made: dict[str, Json], route: routes.Route
    ) -> None:
        assert aws.route_target(made[f"{route.method} {route.path}"]) == aws.function(route.function)[0]

    def test_default_needs_no_token(self, aws: Templates, made: dict[str, Json]) -> None:
        assert made["$default"].get("AuthorizationType", "NONE") == "NONE"
        assert aws.route_target(made["$default"]) == aws.function(routes.DEFAULT_FUNCTION)[0]

    def test_leave_scopes_to_the_functions(self, made: dict[str, Json]) -> None:
        """The gateway's 403 would not be the service's problem+json."""
        assert not [key for key, route in made.items() if route.get("AuthorizationScopes")]

    def test_use_payload_2_and_one_integration_for_each_function(self, aws: Templates) -> None:
        integrations = aws.all("AWS::ApiGatewayV2::Integration").values()
        assert [made["Properties"]["PayloadFormatVersion"] for made in integrations] == ["2.0"] * len(FUNCTIONS)

    def test_may_call_their_functions(self, aws: Templates) -> None:
        """`$default` has no path, so its permission ends after the stage and the rest."""
        permissions = [made["Properties"] for made in aws.all("AWS::Lambda::Permission").values()]
        granted = {
            (made["FunctionName"]["Fn::GetAtt"][0], made["SourceArn"]["Fn::Join"][1][-1]) for made in permissions
        }
        assert granted == {
            *((aws.function(route.function)[0], f"/*/*{route.path}") for route in routes.ROUTES),
            (aws.function(routes.DEFAULT_FUNCTION)[0], "/*/*"),
        }


class TestGateway:
    def test_lets_browsers_send_and_read_the_headers_of_the_api(self, aws: Templates) -> None:
        cors = aws.one("AWS::ApiGatewayV2::Api")["Properties"]["CorsConfiguration"]
        assert cors["AllowOrigins"] == ["*"]
        assert cors["AllowMethods"] == ["DELETE", "GET", "PATCH", "POST"]
        assert set(cors["AllowHeaders"]) >= {"Authorization", "Content-Type", "If-Match", "Idempotency-Key"}
        assert set(cors["ExposeHeaders"]) == {"ETag", "Location", "Link", "Retry-After"}

    def test_throttles(self, aws: Templates) -> None:
        settings = aws.one("AWS::ApiGatewayV2::Stage")["Properties"]["DefaultRouteSettings"]
        assert settings == {"ThrottlingRateLimit": 200, "ThrottlingBurstLimit": 400}

    def test_logs_every_request_as_json(self, aws: Templates) -> None:
        log = aws.one("AWS::ApiGatewayV2::Stage")["Properties"]["AccessLogSettings"]
        assert json.loads(log["Format"]) == ACCESS_LOG
        group = aws.api["Resources"][log["DestinationArn"]["Fn::GetAtt"][0]]
        assert group["Type"] == "AWS::Logs::LogGroup"

    @pytest.mark.parametrize("personal", ["identity", "claims", "principalId", "path", "userAgent"])
    def test_logs_nothing_personal(self, personal: str) -> None:
        assert not [variable for variable in ACCESS_LOG.values() if personal in variable]

    def test_accepts_the_tokens_of_the_given_issuer(self, local: Templates) -> None:
        authorizer = local.one("AWS::ApiGatewayV2::Authorizer")["Properties"]
        assert authorizer["JwtConfiguration"] == {"Issuer": LOCAL["issuer"], "Audience": [LOCAL["audience"]]}

    @pytest.mark.parametrize("output", ["ApiId", "ApiUrl", "TableName"])
    def test_says_where_it_is(self, aws: Templates, output: str) -> None:
        assert output in aws.api["Outputs"]


@pytest.mark.parametrize("folder", FUNCTIONS)
class TestEveryFunction:
    def test_runs_python_313_on_arm(self, aws: Templates, folder: str) -> None:
        properties = aws.function(folder)[1]
        assert (properties["Runtime"], properties["Architectures"]) == ("python3.13", ["arm64"])
        assert (properties["MemorySize"], properties["Timeout"]) == (512, 28)

    def test_is_not_traced(self, aws: Templates, folder: str) -> None:
        assert "TracingConfig" not in aws.function(folder)[1]

    def test_logs_json_into_its_own_group(self, aws: Templates, folder: str) -> None:
        logging = aws.function(folder)[1]["LoggingConfig"]
        others = [aws.function(other)[1]["LoggingConfig"]["LogGroup"] for other in FUNCTIONS if other != folder]
        assert logging["LogFormat"] == "JSON"
        assert logging["LogGroup"] not in others

    def test_knows_its_table_and_its_name(self, aws: Templates, folder: str) -> None:
        variables = aws.function(folder)[1]["Environment"]["Variables"]
        assert variables["POWERTOOLS_SERVICE_NAME"] == folder
        assert variables["POWERTOOLS_LOG_LEVEL"] == "INFO"
        assert "TABLE_NAME" in variables

    def test_alone_knows_of_the_cursor_secret_if_it_is_videos(self, aws: Templates, folder: str) -> None:
        variables = aws.function(folder)[1]["Environment"]["Variables"]
        assert ("CURSOR_SECRET_ARN" in variables) == (folder == "videos")

    def test_shares_its_code_with_the_others(self, aws: Templates, folder: str) -> None:
        assert aws.function(folder)[1]["Code"] == aws.function("videos")[1]["Code"]

    def test_has_no_managed_policy(self, aws: Templates, folder: str) -> None:
        role = aws.api["Resources"][aws.function(folder)[1]["Role"]["Fn::GetAtt"][0]]
        assert "ManagedPolicyArns" not in role["Properties"]

    def test_writes_its_own_log_only(self, aws: Templates, folder: str) -> None:
        (log,) = (statement for statement in aws.statements(folder) if "logs:" in str(statement["Action"]))
        assert _list(log["Action"]) == ["logs:CreateLogStream", "logs:PutLogEvents"]
        assert log["Resource"]["Fn::GetAtt"][0] == aws.function(folder)[1]["LoggingConfig"]["LogGroup"]["Ref"]

    def test_has_no_wildcard_and_no_scan(self, aws: Templates, folder: str) -> None:
        for statement in aws.statements(folder):
            assert statement["Effect"] == "Allow"
            assert not [action for action in _list(statement["Action"]) if "*" in action or "Scan" in action]
            assert "*" not in json.dumps(statement["Resource"])

    def test_can_be_denied_a_request_without_keys(self, aws: Templates, folder: str) -> None:
        """ForAllValues alone is true when the key is absent."""
        conditions = [statement["Condition"] for statement in aws.statements(folder) if "Condition" in statement]
        assert conditions
        assert all(condition["Null"] == {"dynamodb:LeadingKeys": "false"} for condition in conditions)


class TestPermissions:
    """On items, written as: action -> the starts of the partition keys it may name."""

    def test_videos_changes_videos_and_only_reads_counters(self, aws: Templates) -> None:
        assert _item_permissions(aws, "videos") == {
            "GetItem": {"VIDEO#*", "IDEMPOTENCY#*"},
            "BatchGetItem": {"VIDEO#*", "VIEWS#*"},
            "PutItem": {"VIDEO#*", "IDEMPOTENCY#*"},
            "UpdateItem": {"VIDEO#*"},
        }

    def test_views_alone_writes_counters_and_never_a_video(self, aws: Templates) -> None:
        assert _item_permissions(aws, "views") == {
            "GetItem": {"VIDEO#*", "VIEWS#*"},
            "UpdateItem": {"VIEWS#*"},
            "PutItem": {"VIEWID#*"},
        }

    def test_public_reads_the_health_probe(self, aws: Templates) -> None:
        assert _item_permissions(aws, "public") == {"GetItem": {"HEALTH"}}

    def test_videos_queries_the_three_indexes_and_not_the_table(self, aws: Templates) -> None:
        (query,) = (made for made in aws.statements("videos") if made["Action"] == "dynamodb:Query")
        suffixes = {resource["Fn::Join"][1][-1] for resource in query["Resource"]}
        assert suffixes == {f"/index/{index.name}" for index in schema.INDEXES}

    def test_videos_reads_the_cursor_secret(self, aws: Templates) -> None:
        (secret,) = (made for made in aws.statements("videos") if "secretsmanager" in str(made["Action"]))
        assert secret["Action"] == "secretsmanager:GetSecretValue"
        assert "CursorSecret" in secret["Resource"]["Fn::ImportValue"]

    @pytest.mark.parametrize(
        ("folder", "services"),
        [
            ("videos", {"dynamodb", "logs", "secretsmanager"}),
            ("views", {"dynamodb", "logs"}),
            ("public", {"dynamodb", "logs"}),
        ],
    )
    def test_reach_no_other_service(self, aws: Templates, folder: str, services: set[str]) -> None:
        actions = [action for made in aws.statements(folder) for action in _list(made["Action"])]
        assert {action.split(":")[0] for action in actions} == services


class TestIdentity:
    def test_is_a_user_pool_when_no_issuer_is_given(self, aws: Templates) -> None:
        pool = aws.one("AWS::Cognito::UserPool")
        assert pool["Properties"]["AdminCreateUserConfig"] == {"AllowAdminCreateUserOnly": True}
        assert pool["Properties"]["MfaConfiguration"] == "ON"
        assert pool["DeletionPolicy"] == "Retain"

    def test_has_the_scopes_of_the_route_table(self, aws: Templates) -> None:
        server = aws.one("AWS::Cognito::UserPoolResourceServer")["Properties"]
        full = {f"{server['Identifier']}/{scope['ScopeName']}" for scope in server["Scopes"]}
        assert full == set(routes.SCOPES)

    def test_people_sign_in_by_code_and_cannot_become_admins(self, aws: Templates) -> None:
        people = _client(aws, "code")
        assert people["GenerateSecret"] is False
        assert people["CallbackURLs"] == ["http://localhost:3000/callback"]
        assert _scopes(people) == {"openid", "/read", "/write"}

    def test_machines_have_a_secret_and_every_scope(self, aws: Templates) -> None:
        machine = _client(aws, "client_credentials")
        assert machine["GenerateSecret"] is True
        assert _scopes(machine) == {"/read", "/write", "/admin"}

    def test_tokens_of_both_clients_are_accepted(self, aws: Templates) -> None:
        accepted = aws.one("AWS::ApiGatewayV2::Authorizer")["Properties"]["JwtConfiguration"]
        assert len(accepted["Audience"]) == 2

    @pytest.mark.parametrize(
        "output", ["Issuer", "UserPoolId", "SignInUrl", "TokenUrl", "PeopleClientId", "MachineClientId"]
    )
    def test_says_how_to_get_a_token(self, aws: Templates, output: str) -> None:
        assert aws.identity is not None
        assert output in aws.identity["Outputs"]

    def test_is_left_to_a_given_issuer(self, local: Templates, synthesize: Synthesize) -> None:
        given = synthesize({"issuer": "https://issuer.example", "audience": "one,two"})
        authorizer = given.one("AWS::ApiGatewayV2::Authorizer")["Properties"]
        assert authorizer["JwtConfiguration"] == {"Issuer": "https://issuer.example", "Audience": ["one", "two"]}
        for made in (given, local):
            assert made.identity is None
            types = {resource["Type"] for resource in made.data["Resources"].values()}
            assert types == {"AWS::DynamoDB::GlobalTable", "AWS::SecretsManager::Secret"}


class TestLogsAndSecrets:
    def test_logs_are_kept_for_a_month(self, aws: Templates) -> None:
        groups = aws.all("AWS::Logs::LogGroup").values()
        assert [group["Properties"]["RetentionInDays"] for group in groups] == [30] * (len(FUNCTIONS) + 1)

    def test_the_cursor_key_is_made_by_cloudformation(self, aws: Templates) -> None:
        secret = aws.one("AWS::SecretsManager::Secret")["Properties"]
        assert secret["GenerateSecretString"] == {"ExcludePunctuation": True, "PasswordLength": 64}


class TestSettings:
    def test_the_default_environment_has_the_products_own_table_name(self, aws: Templates) -> None:
        assert aws.names == ["VideoMetadata-dev-Data", "VideoMetadata-dev-Identity", "VideoMetadata-dev-Api"]
        assert aws.api["Outputs"]["TableName"]["Value"] == "VideoMetadata"

    def test_a_second_environment_stands_beside_it(self) -> None:
        settings = _settings({"env": "staging"})
        assert settings.table_name == "VideoMetadata-staging"
        assert settings.stack_name("Api") == "VideoMetadata-staging-Api"

    def test_lists_are_given_by_commas_or_as_lists(self) -> None:
        origins = ("https://a.example", "https://b.example")
        assert _settings({"allowOrigins": ", ".join(origins)}).allow_origins == origins
        assert _settings({"allowOrigins": list(origins)}).allow_origins == origins

    @pytest.mark.parametrize(
        ("context", "complaint"),
        [
            ({"target": "moon"}, "'target'"),
            ({"env": "Dev_1"}, "'env'"),
            ({"issuer": "https://issuer.example"}, "go together"),
            ({"audience": "video-metadata"}, "go together"),
            ({"target": "local"}, "local target"),
        ],
    )
    def test_mistakes_are_named(self, context: Json, complaint: str) -> None:
        with pytest.raises(Misconfigured, match=complaint):
            _settings(context)


def test_infra_imports_only_the_schema_and_the_routes_from_shared() -> None:
    for path in (ROOT / "infra").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                names = {alias.name for alias in node.names}
                assert not (node.module or "").startswith("functions"), path
                assert node.module != "shared" or names <= {"schema", "routes"}, path
                assert not (node.module or "").startswith("shared."), path


def _settings(context: Json) -> Settings:
    return Settings.from_context(cdk.App(context=context).node)


def _keys(described: Json) -> list[tuple[str, str, str]]:
    types = {made["AttributeName"]: made["AttributeType"] for made in described["AttributeDefinitions"]}
    return [(key["AttributeName"], key["KeyType"], types[key["AttributeName"]]) for key in described["KeySchema"]]


def _item_permissions(templates: Templates, folder: str) -> dict[str, set[str]]:
    """Of the statements on the table itself: action -> leading keys."""
    return {
        action.removeprefix("dynamodb:"): set(
            _list(made["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"])
        )
        for made in templates.statements(folder)
        for action in _list(made["Action"])
        if action.startswith("dynamodb:") and action != "dynamodb:Query"
    }


def _client(templates: Templates, flow: str) -> Json:
    (client,) = (
        made
        for made in templates.all("AWS::Cognito::UserPoolClient").values()
        if made["Properties"]["AllowedOAuthFlows"] == [flow]
    )
    return dict(client["Properties"])


def _scopes(client: Json) -> set[str]:
    """The scopes of the API without their server, and the others as they are."""
    scopes = client["AllowedOAuthScopes"]
    return {scope if isinstance(scope, str) else scope["Fn::Join"][1][1] for scope in scopes}


def _list(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]
