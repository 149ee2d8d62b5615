"""CloudFormation templates of the data, API and identity stacks."""

import json
from collections import Counter
from typing import Any

import pytest

from infra import console
from infra.gateway import ACCESS_LOG
from infra.settings import LADDER
from shared import routes, schema
from shared.media.ladder import SIZES
from shared.search.document import MAX_CUES
from shared.video_fields import PROJECTION
from tests.unit.infra.templates import LOCAL, Json, Templates, as_list, settings_of, to_text

FUNCTIONS = {"console", *(route.function for route in routes.ROUTES)}
CONSOLES = "https://*.execute-api.AWS::Region.AWS::URLSuffix"
"""Origins of consoles of this and other deployments."""
CONSOLE_KEYS = [f"GET {path}" for path in console.ROUTES.values()]


class TestTable:
    @pytest.fixture
    def table(self, defaults: Templates) -> Json:
        return _table(defaults)

    def test_table_has_the_keys_of_the_schema(self, table: Json) -> None:
        assert _keys(table["Properties"]) == [("pk", "HASH", "S"), ("sk", "RANGE", "S")]

    def test_table_has_exactly_the_indexes_of_the_schema(self, table: Json) -> None:
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
    def test_indexes_have_the_projection_without_their_keys(self, table: Json, index: schema.Index) -> None:
        (candidate,) = (
            candidate
            for candidate in table["Properties"]["GlobalSecondaryIndexes"]
            if candidate["IndexName"] == index.name
        )
        keys = {attribute.name for attribute in (*index.partition, *index.sort)}
        if index in (schema.USER_INDEX, schema.CATEGORY_INDEX, schema.RELATION_INDEX):
            assert candidate["Projection"]["ProjectionType"] == "INCLUDE"
            assert set(candidate["Projection"]["NonKeyAttributes"]) == set(PROJECTION) - keys
        else:
            assert candidate["Projection"] == {"ProjectionType": "KEYS_ONLY"}

    def test_table_is_billed_on_demand(self, table: Json) -> None:
        assert table["Properties"]["BillingMode"] == "PAY_PER_REQUEST"

    def test_table_streams_both_images_and_expires_by_the_internal_attribute(self, table: Json) -> None:
        assert table["Properties"]["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
        assert table["Properties"]["TimeToLiveSpecification"] == {"AttributeName": "purgeAt", "Enabled": True}

    def test_table_is_encrypted_with_the_key_owned_by_dynamodb(self, table: Json) -> None:
        assert table["Properties"]["SSESpecification"] == {"SSEEnabled": False}

    def test_production_table_is_protected_from_loss(self, prod: Templates) -> None:
        table = _table(prod)
        (replica,) = table["Properties"]["Replicas"]
        assert replica["DeletionProtectionEnabled"] is True
        recovery = {"PointInTimeRecoveryEnabled": True, "RecoveryPeriodInDays": 35}
        assert replica["PointInTimeRecoverySpecification"] == recovery
        assert (table["DeletionPolicy"], table["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")

    def test_local_table_is_deleted_with_its_stack(self, local: Templates) -> None:
        table = _table(local)
        assert table["Properties"]["Replicas"][0]["DeletionProtectionEnabled"] is False
        assert table["DeletionPolicy"] == "Delete"

    def test_local_table_differs_in_nothing_else(self, defaults: Templates, local: Templates) -> None:
        deployed, on_laptop = (_table(templates)["Properties"] for templates in (defaults, local))
        assert {**deployed, "Replicas": None} == {**on_laptop, "Replicas": None}


class TestAuditTable:
    @pytest.fixture
    def table(self, defaults: Templates) -> Json:
        return _table(defaults, "AuditTable")

    def test_audit_table_has_its_own_name(self, table: Json) -> None:
        assert table["Properties"]["TableName"] == "VideoAudit"

    def test_audit_table_has_an_index_of_change_sets_with_the_table_keys(self, table: Json) -> None:
        (index,) = table["Properties"]["GlobalSecondaryIndexes"]
        definitions = table["Properties"]["AttributeDefinitions"]
        assert _keys(table["Properties"]) == [("pk", "HASH", "S"), ("sk", "RANGE", "S")]
        assert _keys({**index, "AttributeDefinitions": definitions}) == [
            ("changeset", "HASH", "S"),
            ("pk", "RANGE", "S"),
            ("sk", "RANGE", "S"),
        ]
        assert index["Projection"] == {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["owner", "purgeAt"]}

    def test_audit_table_has_no_stream(self, table: Json) -> None:
        assert "StreamSpecification" not in table["Properties"]

    def test_audit_entries_expire_by_the_internal_attribute(self, table: Json) -> None:
        assert table["Properties"]["TimeToLiveSpecification"] == {"AttributeName": "purgeAt", "Enabled": True}

    def test_audit_table_is_billed_and_retained_like_the_main_table(
        self, defaults: Templates, prod: Templates, local: Templates
    ) -> None:
        for templates in (defaults, prod, local):
            one, other = _table(templates), _table(templates, "AuditTable")
            assert one["DeletionPolicy"] == other["DeletionPolicy"]
            for name in ("BillingMode", "SSESpecification"):
                assert one["Properties"][name] == other["Properties"][name]
            (of_one,), (of_other,) = one["Properties"]["Replicas"], other["Properties"]["Replicas"]
            for name in ("DeletionProtectionEnabled", "PointInTimeRecoverySpecification"):
                assert of_one[name] == of_other[name]


class TestOnDemandCapacity:
    """`other_values` has maximum throughputs, a warm throughput, and a table of the class Standard-IA."""

    def test_maximum_throughputs_apply_to_the_table_with_overrides_per_index(self, other_values: Templates) -> None:
        properties = _table(other_values)["Properties"]
        (replica,) = properties["Replicas"]
        assert properties["BillingMode"] == "PAY_PER_REQUEST"
        assert properties["WriteOnDemandThroughputSettings"] == {"MaxWriteRequestUnits": 4000}
        assert replica["ReadOnDemandThroughputSettings"] == {"MaxReadRequestUnits": 8000}
        assert {
            index["IndexName"]: index["ReadOnDemandThroughputSettings"]["MaxReadRequestUnits"]
            for index in replica["GlobalSecondaryIndexes"]
        } == {index.name: 8000 for index in schema.INDEXES} | {"RelationIndex": 9000}

    @pytest.mark.parametrize("name", ["Table", "AuditTable"])
    def test_warm_throughput_prepares_tables_and_indexes(self, other_values: Templates, name: str) -> None:
        properties = _table(other_values, name)["Properties"]
        prepared = [properties, *properties["GlobalSecondaryIndexes"]]
        warm = {"ReadUnitsPerSecond": 24_000, "WriteUnitsPerSecond": 8000}
        assert [each["WarmThroughput"] for each in prepared] == [warm] * len(prepared)

    def test_infrequent_access_is_the_class_of_the_named_table_only(self, other_values: Templates) -> None:
        classes = {name: _table(other_values, name)["Properties"]["Replicas"][0] for name in ("Table", "AuditTable")}
        assert classes["AuditTable"]["TableClass"] == "STANDARD_INFREQUENT_ACCESS"
        assert "TableClass" not in classes["Table"]


UPDATED_IN_PLACE = {"BillingMode", "WriteProvisionedThroughputSettings", "ReadProvisionedThroughputSettings"}
"""Properties of a table, its replica and its indexes that a change of the capacity mode may change.

CloudFormation updates them without interruption:
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-dynamodb-globaltable.html
"""
SCALABLE_TARGETS = 2 * (2 + len(schema.INDEXES) + len(schema.AUDIT_INDEXES))
"""Number of scalable targets: reads and writes of two tables and their indexes."""
STEP_TYPES = {"AWS::IAM::Policy": 1, "AWS::IAM::Role": 1, "AWS::Scheduler::Schedule": 2 * SCALABLE_TARGETS}
"""Resources of two capacity steps."""


class TestProvisionedCapacity:
    def test_change_of_the_capacity_mode_replaces_no_resource(self, prod: Templates, provisioned: Templates) -> None:
        old, new = prod.parts(), provisioned.parts()
        assert {part for part in old if old[part] != new[part]} == {"Data"}
        resources = new["Data"]["Resources"]
        added = [resources[name] for name in resources.keys() - old["Data"]["Resources"].keys()]
        assert Counter(resource["Type"] for resource in added) == STEP_TYPES
        changed = [name for name, resource in old["Data"]["Resources"].items() if resources[name] != resource]
        assert {resources[name]["Type"] for name in changed} == {"AWS::DynamoDB::GlobalTable"}
        for name in changed:
            assert _without_capacity(resources[name]) == _without_capacity(old["Data"]["Resources"][name])

    def test_capacity_of_tables_and_indexes_scales_in_its_range(self, provisioned: Templates) -> None:
        scaled = {}
        for name in ("Table", "AuditTable"):
            properties = _table(provisioned, name)["Properties"]
            (replica,) = properties["Replicas"]
            writes = [(name, properties), *_by_name(properties["GlobalSecondaryIndexes"])]
            reads = [(name, replica), *_by_name(replica["GlobalSecondaryIndexes"])]
            for kind, settings in (("Write", writes), ("Read", reads)):
                for part, made in settings:
                    scaled[part, kind] = made[f"{kind}ProvisionedThroughputSettings"][
                        f"{kind}CapacityAutoScalingSettings"
                    ]
        assert len(scaled) == SCALABLE_TARGETS
        ranges = {part: (each.pop("MinCapacity"), each.pop("MaxCapacity")) for part, each in scaled.items()}
        own = {("RelationIndex", "Read"): (10, 4000), ("AuditTable", "Read"): (2, 8)}
        assert ranges == {part: own.get(part, (5, 1000 if part[1] == "Read" else 500)) for part in scaled}
        target = {"TargetTrackingScalingPolicyConfiguration": {"TargetValue": 60}}
        # The seed is the capacity at the moment of the change: too little would throttle requests.
        assert scaled == {part: {**target, "SeedCapacity": maximum} for part, (_, maximum) in ranges.items()}

    def test_steps_change_the_minimum_of_each_scalable_target(self, provisioned: Templates) -> None:
        made = [made["Properties"] for made in provisioned.all("AWS::Scheduler::Schedule").values()]
        steps = {
            (each["ScheduleExpression"], call.pop("ResourceId"), call.pop("ScalableDimension")): call
            for each in made
            for call in [json.loads(each["Target"]["Input"])]
        }
        assert len(steps) == 2 * SCALABLE_TARGETS
        index = "table/VideoMetadata-prod/index/RelationIndex", "dynamodb:index:ReadCapacityUnits"
        audit = "table/VideoAudit-prod", "dynamodb:table:WriteCapacityUnits"
        common = {"ServiceNamespace": "dynamodb"}
        assert steps["cron(30 6 * * ? *)", *index] == common | {"MinCapacity": 40, "MaxCapacity": 4000}
        assert steps["cron(0 20 * * ? *)", *index] == common | {"MinCapacity": 10, "MaxCapacity": 4000}
        assert steps["cron(30 6 * * ? *)", *audit] == common | {"MinCapacity": 20, "MaxCapacity": 500}

    def test_role_of_the_steps_may_scale_the_two_tables_only(self, provisioned: Templates) -> None:
        policy = provisioned.one("AWS::IAM::Policy", "CapacitySteps")["Properties"]["PolicyDocument"]
        register, scale = policy["Statement"]
        assert register["Action"] == "application-autoscaling:RegisterScalableTarget"
        assert register["Condition"] == {"StringEquals": {"application-autoscaling:service-namespace": "dynamodb"}}
        assert scale["Action"] == ["dynamodb:DescribeTable", "dynamodb:UpdateTable"]
        assert {to_text(resource) for resource in scale["Resource"]} == {"Table", "AuditTable"}


class TestRoutes:
    @pytest.fixture
    def by_key(self, defaults: Templates) -> dict[str, Json]:
        return {
            route["Properties"]["RouteKey"]: route["Properties"]
            for route in defaults.all("AWS::ApiGatewayV2::Route").values()
        }

    def test_routes_are_those_of_the_route_table_and_default(self, by_key: dict[str, Json]) -> None:
        assert set(by_key) == {route.key for route in routes.ROUTES} | {"$default", *CONSOLE_KEYS}

    def test_routes_require_a_token_exactly_if_they_need_a_scope(self, by_key: dict[str, Json]) -> None:
        authorizations = {route.key: by_key[route.key].get("AuthorizationType", "NONE") for route in routes.ROUTES}
        assert authorizations == {route.key: "JWT" if route.scope else "NONE" for route in routes.ROUTES}

    def test_routes_call_the_function_of_the_route_table(self, defaults: Templates, by_key: dict[str, Json]) -> None:
        called = {route.key: defaults.route_target(by_key[route.key]) for route in routes.ROUTES}
        assert called == {route.key: defaults.alias(route.function) for route in routes.ROUTES}

    @pytest.mark.parametrize("key", CONSOLE_KEYS)
    def test_console_loads_without_a_token(self, defaults: Templates, by_key: dict[str, Json], key: str) -> None:
        assert by_key[key].get("AuthorizationType", "NONE") == "NONE"
        assert defaults.route_target(by_key[key]) == defaults.alias("console")

    def test_default_route_needs_no_token(self, defaults: Templates, by_key: dict[str, Json]) -> None:
        assert by_key["$default"].get("AuthorizationType", "NONE") == "NONE"
        assert defaults.route_target(by_key["$default"]) == defaults.alias(routes.DEFAULT_FUNCTION)

    @pytest.mark.parametrize("type_", ["Route", "Integration"])
    def test_routes_and_integrations_are_created_five_at_a_time(self, defaults: Templates, type_: str) -> None:
        """CloudFormation creates independent resources concurrently, and API Gateway refuses some of fifty concurrent
        changes."""
        waiting = {
            name: {before for before in as_list(resource.get("DependsOn", [])) if type_ == _type(defaults, before)}
            for name, resource in defaults.all(f"AWS::ApiGatewayV2::{type_}").items()
        }
        batch_sizes: list[int] = []
        while waiting:
            ready = {name for name, before in waiting.items() if not before & waiting.keys()}
            batch_sizes.append(len(ready))
            waiting = {name: before for name, before in waiting.items() if name not in ready}
        assert sum(batch_sizes) == len(defaults.all(f"AWS::ApiGatewayV2::{type_}"))
        assert max(batch_sizes) == 5

    def test_routes_are_created_before_the_stage(self, defaults: Templates) -> None:
        """Otherwise each route would deploy the stage again."""
        assert set(defaults.all("AWS::ApiGatewayV2::Route")) <= set(
            defaults.one("AWS::ApiGatewayV2::Stage")["DependsOn"]
        )

    def test_functions_check_the_scopes_of_routes(self, by_key: dict[str, Json]) -> None:
        """A 403 response of the gateway would not be a problem document."""
        assert not [key for key, route in by_key.items() if route.get("AuthorizationScopes")]

    def test_routes_use_payload_2_and_one_integration_per_function(self, defaults: Templates) -> None:
        integrations = defaults.all("AWS::ApiGatewayV2::Integration").values()
        assert [integration["Properties"]["PayloadFormatVersion"] for integration in integrations] == ["2.0"] * len(
            FUNCTIONS
        )

    def test_routes_may_call_their_functions(self, defaults: Templates) -> None:
        """`$default` has no path, so its permission covers every path of a stage."""
        permissions = [
            permission["Properties"]
            for permission in defaults.all("AWS::Lambda::Permission").values()
            if permission["Properties"]["Principal"] == "apigateway.amazonaws.com"
        ]
        granted = {
            (permission["FunctionName"]["Ref"], permission["SourceArn"]["Fn::Join"][1][-1])
            for permission in permissions
        }
        assert granted == {
            *((defaults.alias(route.function), f"/*/*{route.gateway_path}") for route in routes.ROUTES),
            (defaults.alias(routes.DEFAULT_FUNCTION), "/*/*"),
            *((defaults.alias("console"), f"/*/*{path}") for path in console.ROUTES.values()),
        }


class TestGateway:
    def test_gateway_lets_browsers_send_and_read_the_headers_of_the_api(self, defaults: Templates) -> None:
        cors = defaults.one("AWS::ApiGatewayV2::Api")["Properties"]["CorsConfiguration"]
        assert cors["AllowOrigins"] == ["*"]
        assert cors["AllowMethods"] == ["DELETE", "GET", "PATCH", "POST", "PUT"]
        assert set(cors["AllowHeaders"]) >= {"Authorization", "Content-Type", "If-Match", "Idempotency-Key"}
        assert set(cors["ExposeHeaders"]) == {"Change-Set", "ETag", "Location", "Link", "Retry-After", "Server-Timing"}

    def test_gateway_throttles_requests(self, prod: Templates) -> None:
        settings = prod.one("AWS::ApiGatewayV2::Stage")["Properties"]["DefaultRouteSettings"]
        assert settings == {"ThrottlingRateLimit": 500, "ThrottlingBurstLimit": 1000}

    def test_gateway_has_a_separate_throttle_for_routes_with_long_calls_or_paid_queries(self, prod: Templates) -> None:
        assert prod.one("AWS::ApiGatewayV2::Stage")["Properties"]["RouteSettings"] == {
            "POST /v1/webhooks/{webhookId}/test": {"ThrottlingRateLimit": 5, "ThrottlingBurstLimit": 10},
            "POST /v1/questions/{question}/runs": {"ThrottlingRateLimit": 1, "ThrottlingBurstLimit": 5},
        }

    def test_gateway_logs_every_request_as_json(self, defaults: Templates) -> None:
        log = defaults.one("AWS::ApiGatewayV2::Stage")["Properties"]["AccessLogSettings"]
        for message in ("Forbidden", 'Invalid "scope"', "-"):
            line = log["Format"].replace("$context.error.messageString", json.dumps(message))
            assert json.loads(line) == ACCESS_LOG | {"error": message}
        group = defaults.api["Resources"][log["DestinationArn"]["Fn::GetAtt"][0]]
        assert group["Type"] == "AWS::Logs::LogGroup"

    @pytest.mark.parametrize("personal", ["identity", "claims", "principalId", "path", "userAgent"])
    def test_gateway_logs_no_personal_data(self, personal: str) -> None:
        assert not [variable for variable in ACCESS_LOG.values() if personal in variable]

    def test_gateway_accepts_tokens_of_the_given_issuer(self, local: Templates) -> None:
        authorizer = local.one("AWS::ApiGatewayV2::Authorizer")["Properties"]
        assert authorizer["JwtConfiguration"] == {"Issuer": LOCAL["issuer"], "Audience": [LOCAL["audience"]]}

    @pytest.mark.parametrize("output", ["ApiId", "ApiUrl", "ConsoleUrl", "TableName"])
    def test_addresses_and_names_are_stack_outputs(self, defaults: Templates, output: str) -> None:
        assert output in defaults.api["Outputs"]


class TestIdentity:
    def test_identity_is_a_user_pool_if_no_issuer_is_given(self, defaults: Templates) -> None:
        pool = defaults.one("AWS::Cognito::UserPool")
        assert pool["Properties"]["AdminCreateUserConfig"] == {"AllowAdminCreateUserOnly": True}
        assert pool["Properties"]["MfaConfiguration"] == "ON"
        assert pool["DeletionPolicy"] == "RetainExceptOnCreate"

    def test_user_pool_has_the_scopes_of_the_route_table(self, defaults: Templates) -> None:
        server = defaults.one("AWS::Cognito::UserPoolResourceServer")["Properties"]
        full = {f"{server['Identifier']}/{scope['ScopeName']}" for scope in server["Scopes"]}
        assert full == set(routes.SCOPES)

    def test_users_sign_in_by_code_and_cannot_become_admins(self, defaults: Templates) -> None:
        people = _client(defaults, "code", "People")
        assert people["GenerateSecret"] is False
        assert people["CallbackURLs"] == ["http://localhost:3000/callback"]
        assert _scopes(people) == {"openid", "/read", "/write"}

    def test_machine_client_has_a_secret_and_every_scope(self, defaults: Templates) -> None:
        machine = _client(defaults, "client_credentials", "Machines")
        assert machine["GenerateSecret"] is True
        assert _scopes(machine) == {"/read", "/write", "/transcode", "/changes", "/admin"}

    def test_transcoder_client_may_only_report(self, defaults: Templates) -> None:
        transcoder = _client(defaults, "client_credentials", "Transcoder")
        assert transcoder["GenerateSecret"] is True
        assert _scopes(transcoder) == {"/transcode"}

    def test_feed_client_may_read_all_changes_and_write_none(self, defaults: Templates) -> None:
        machine_client = _client(defaults, "client_credentials", "Follower")
        assert machine_client["GenerateSecret"] is True
        assert _scopes(machine_client) == {"/read", "/changes"}

    def test_tokens_of_all_clients_are_accepted(self, defaults: Templates) -> None:
        accepted = defaults.one("AWS::ApiGatewayV2::Authorizer")["Properties"]["JwtConfiguration"]
        assert len(accepted["Audience"]) == 5

    @pytest.mark.parametrize(
        "output",
        [
            *("Issuer", "UserPoolId", "SignInUrl", "TokenUrl"),
            *("PeopleClientId", "MachineClientId", "TranscoderClientId", "FollowerClientId"),
        ],
    )
    def test_token_settings_are_stack_outputs(self, defaults: Templates, output: str) -> None:
        assert defaults.identity is not None
        assert output in defaults.identity["Outputs"]

    def test_identity_stack_is_absent_with_a_given_issuer(self, local: Templates, snapstart: Templates) -> None:
        """test_infra_console.py tests which tokens the API then accepts."""
        for templates in (snapstart, local):
            assert templates.identity is None
            types = {resource["Type"] for resource in templates.data["Resources"].values()}
            assert types == {"AWS::DynamoDB::GlobalTable", "AWS::SecretsManager::Secret"}


class TestSites:
    """Web sites that may use the service from browsers, and redirect targets after sign-in."""

    def test_dev_and_local_deployments_allow_all_sites(self) -> None:
        for settings in (settings_of({}), settings_of(LOCAL), settings_of(LOCAL | {"env": "prod"})):
            assert settings.allow_origins == ("*",)
            assert settings.callback_urls == ("http://localhost:3000/callback",)

    def test_other_environments_allow_only_listed_sites(self, prod: Templates) -> None:
        assert "localhost" not in json.dumps(prod.parts())
        assert "CorsConfiguration" not in prod.one("AWS::ApiGatewayV2::Api")["Properties"]
        assert set(_allowed_origins(prod)) == {CONSOLES}
        people = prod.one("AWS::Cognito::UserPoolClient", "People")["Properties"]
        assert people["AllowedOAuthFlowsUserPoolClient"] is False
        assert not {"CallbackURLs", "AllowedOAuthFlows"} & people.keys()

    def test_consoles_may_upload_and_play_although_they_are_not_listed_sites(
        self, existing_resources: Templates
    ) -> None:
        assert _allowed_origins(existing_resources) == ["https://videos.example", CONSOLES] * 3
        sources = existing_resources.one("AWS::S3::Bucket", "Sources")["Properties"]["CorsConfiguration"]
        (rule,) = sources["CorsRules"]
        assert "PUT" in rule["AllowedMethods"]
        assert "ETag" in rule["ExposedHeaders"]

    def test_environments_that_allow_all_sites_list_none(self, defaults: Templates, local: Templates) -> None:
        assert _allowed_origins(defaults) == ["*"] * 3
        assert _allowed_origins(local) == ["*"] * 2  # MiniStack serves the pictures itself

    @pytest.mark.parametrize("value", ["https://videos.example", "*"])
    def test_explicit_sites_are_used_as_given(self, value: str) -> None:
        settings = settings_of(
            {"env": "prod", "allowOrigins": value, "callbackUrls": "https://videos.example/signed-in"}
        )
        assert settings.allow_origins == (value,)
        assert settings.callback_urls == ("https://videos.example/signed-in",)

    def test_sites_can_be_none(self) -> None:
        settings = settings_of({"allowOrigins": "none", "callbackUrls": "none"})
        assert settings.allow_origins == settings.callback_urls == ()


def _allowed_origins(templates: Templates) -> list[str]:
    """Return the origins that the CORS rules of the buckets and of CloudFront allow, in one list."""
    rules = [
        rule["AllowedOrigins"]
        for bucket in templates.all("AWS::S3::Bucket").values()
        for rule in bucket["Properties"].get("CorsConfiguration", {}).get("CorsRules", ())
    ]
    for policy in templates.all("AWS::CloudFront::ResponseHeadersPolicy").values():
        cors = policy["Properties"]["ResponseHeadersPolicyConfig"]["CorsConfig"]
        rules.append(cors["AccessControlAllowOrigins"]["Items"])
    return [to_text(origin) for origins in rules for origin in origins]


class TestSecrets:
    @pytest.mark.parametrize("name", ["CursorSecret", "WebhookSecret"])
    def test_secrets_are_generated_by_cloudformation(self, defaults: Templates, name: str) -> None:
        secret = defaults.one("AWS::SecretsManager::Secret", name)["Properties"]
        assert secret["GenerateSecretString"] == {"ExcludePunctuation": True, "PasswordLength": 64}

    def test_webhook_secret_is_retained_on_aws_and_deleted_locally(self, defaults: Templates, local: Templates) -> None:
        """Receivers of webhooks store secrets that are derived from this secret."""
        retained, deleted = (
            templates.one("AWS::SecretsManager::Secret", "WebhookSecret") for templates in (defaults, local)
        )
        assert (retained["DeletionPolicy"], retained["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
        assert (deleted["DeletionPolicy"], deleted["UpdateReplacePolicy"]) == ("Delete", "Delete")


class TestSettings:
    def test_default_environment_has_the_plain_table_name(self, defaults: Templates) -> None:
        parts = ("Data", "Media", "Identity", "Jobs", "Api")
        assert defaults.names == [f"VideoMetadata-dev-{part}" for part in parts]
        assert defaults.api["Outputs"]["TableName"]["Value"] == "VideoMetadata"

    def test_second_environment_has_other_names(self) -> None:
        settings = settings_of({"env": "staging"})
        assert settings.table_name == "VideoMetadata-staging"
        assert settings.audit_table_name == "VideoAudit-staging"
        assert settings.stack_name("Api") == "VideoMetadata-staging-Api"

    def test_list_values_are_comma_separated_or_lists(self) -> None:
        origins = ("https://a.example", "https://b.example")
        assert settings_of({"allowOrigins": ", ".join(origins)}).allow_origins == origins
        assert settings_of({"allowOrigins": list(origins)}).allow_origins == origins

    def test_local_deployment_makes_one_small_rendition(self) -> None:
        assert settings_of({}).renditions == ("1080p", "720p", "480p", "240p")
        assert settings_of(LOCAL).renditions == ("240p",)
        assert settings_of({**LOCAL, "renditions": "720p, 240p"}).renditions == ("720p", "240p")
        assert set(LADDER) == set(SIZES)

    @pytest.mark.parametrize("context", [{"issuer": "https://issuer.example", "audience": "one"}, LOCAL])
    def test_words_reserved_by_cognito_are_accepted_without_cognito(self, context: Json) -> None:
        assert settings_of(context | {"env": "aws"}).env == "aws"

    def test_limits_can_be_chosen(self) -> None:
        settings = settings_of({"jobsPerDay": "20", "auditDays": 30, "viewWindow": "1440", "countOwnViews": "true"})
        assert (settings.jobs_per_day, settings.audit_days) == (20, 30)
        assert [settings_of(choice).delivery_workers for choice in ({}, LOCAL, {"deliveryWorkers": 40})] == [10, 3, 40]
        assert (settings.view_window, settings.count_own_views) == (1440, True)
        captions = settings_of({"captionDays": 90, "captionCues": "5000"})
        assert (captions.caption_days, captions.caption_cues) == (90, 5_000)
        assert settings_of({}).caption_cues == MAX_CUES


def _keys(described: Json) -> list[tuple[str, str, str]]:
    types = {attribute["AttributeName"]: attribute["AttributeType"] for attribute in described["AttributeDefinitions"]}
    return [(key["AttributeName"], key["KeyType"], types[key["AttributeName"]]) for key in described["KeySchema"]]


def _table(templates: Templates, name: str = "Table") -> Json:
    (table,) = (
        resource
        for id_, resource in templates.all("AWS::DynamoDB::GlobalTable").items()
        if to_text({"Ref": id_}) == name
    )
    return table


def _by_name(indexes: list[Json]) -> list[tuple[str, Json]]:
    return [(index["IndexName"], index) for index in indexes]


def _without_capacity(described: Any) -> Any:
    """Return a part of a template without the properties that a change of the capacity mode may change.

    These include a replica's list of indexes, which contains only read capacities.
    """
    if isinstance(described, list):
        return [_without_capacity(part) for part in described]
    if not isinstance(described, dict):
        return described
    return {
        name: _without_capacity(value)
        for name, value in described.items()
        if name not in UPDATED_IN_PLACE and not (name == "GlobalSecondaryIndexes" and "Region" in described)
    }


def _type(templates: Templates, id_: str) -> str:
    """Return the last part of the type of a resource in the API's stack."""
    return str(templates.api["Resources"][id_]["Type"]).rpartition("::")[2]


def _client(templates: Templates, flow: str, name: str) -> Json:
    client = templates.one("AWS::Cognito::UserPoolClient", name)["Properties"]
    assert client["AllowedOAuthFlows"] == [flow]
    return dict(client)


def _scopes(client: Json) -> set[str]:
    """Return the scopes of a client. The scopes of the API are without the name of their resource server."""
    scopes = client["AllowedOAuthScopes"]
    return {scope if isinstance(scope, str) else scope["Fn::Join"][1][1] for scope in scopes}
