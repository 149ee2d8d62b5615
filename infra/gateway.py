"""The HTTP API in front of the functions: routes, stage and access log."""

import json
from collections.abc import Mapping
from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk.aws_apigatewayv2_authorizers import HttpJwtAuthorizer
from aws_cdk.aws_apigatewayv2_integrations import HttpLambdaIntegration

from infra.console import ROUTES as CONSOLE_ROUTES
from infra.console import ConsoleSite
from infra.encryption import Encryption
from infra.function import ServiceFunction
from infra.nag import accept
from infra.settings import DeploymentSettings, TokenIssuer
from shared import routes

REQUEST_HEADERS = (
    "Authorization",
    "Content-Type",
    "If-Match",
    "If-None-Match",
    "Idempotency-Key",
    "Accept-Language",
)
"""Request headers that CORS allows."""

RESPONSE_HEADERS = ("Change-Set", "ETag", "Location", "Link", "Retry-After", "Server-Timing")
"""Response headers that CORS exposes."""

ROUTE_LIMITS: Mapping[str, tuple[int, int]] = {"testWebhook": (5, 10), "runQuestion": (1, 5)}
"""Maximum requests per second, and maximum burst, of single operations. The limits apply to all callers together.

Each test of a webhook can occupy a function instance for 10 seconds. Each run of a saved question,
which is an SQL query of the archive, can cost 5 cents.
"""

AT_ONCE = 5
"""Maximum number of routes or integrations that CloudFormation creates concurrently. API Gateway allows ten changes per
second and account.
"""

ACCESS_LOG = {
    "requestId": "$context.requestId",
    "time": "$context.requestTimeEpoch",
    "route": "$context.routeKey",
    "status": "$context.status",
    "latency": "$context.responseLatency",
    "length": "$context.responseLength",
    "functionRequestId": "$context.integration.requestId",
    "functionStatus": "$context.integration.status",
    "functionLatency": "$context.integration.latency",
    "functionError": "$context.integration.error",
    "authorizerError": "$context.authorizer.error",
}
"""Fields of an access log line. Maps the name of each field to a variable of API Gateway. All values are strings.

IP address, user agent, token and raw path are excluded, because they could identify a person.
"""
ACCESS_LOG_FORMAT = f'{json.dumps(ACCESS_LOG)[:-1]}, "error": $context.error.messageString}}'
"""Format of an access log line. `messageString` needs no quotes here, because the gateway quotes and escapes the message."""


class Gateway:
    """Builder that adds the API to a stack. The constructor adds the API itself. Call `add_routes` next, and
    `add_stage` last.

    The builder is not a construct, because a construct would change the logical ids of the resources that it adds.
    """

    def __init__(self, stack: cdk.Stack, settings: DeploymentSettings) -> None:
        self._stack, self._settings = stack, settings
        self.api = self._api()

    def _api(self) -> apigateway.HttpApi:
        settings = self._settings
        return apigateway.HttpApi(
            self._stack,
            "HttpApi",
            api_name=settings.stack_name("Api"),
            create_default_stage=False,
            cors_preflight=apigateway.CorsPreflightOptions(
                allow_origins=list(settings.allow_origins),
                allow_methods=[apigateway.CorsHttpMethod(method) for method in _methods()],
                allow_headers=list(REQUEST_HEADERS),
                expose_headers=list(RESPONSE_HEADERS),
                max_age=cdk.Duration.hours(1),
            )
            if settings.allow_origins
            else None,
        )

    def add_routes(self, functions: Mapping[str, ServiceFunction], console: ConsoleSite, issuer: TokenIssuer) -> None:
        """Add the routes of shared/routes.py, and `$default` for all other requests.

        The gateway verifies the token. The function checks the token's scopes, because the gateway cannot return the
        service's error format for a missing scope.
        """
        audience = [*issuer.audience, *console.client_ids]
        authorizer = HttpJwtAuthorizer("Tokens", issuer.url, jwt_audience=audience)
        integrations = {folder: HttpLambdaIntegration(folder, function.alias) for folder, function in functions.items()}
        for route in routes.ROUTES:
            new_route = apigateway.HttpRoute(
                self._stack,
                route.operation,
                http_api=self.api,
                route_key=apigateway.HttpRouteKey.with_(route.gateway_path, apigateway.HttpMethod(route.method)),
                integration=integrations[route.function],
                authorizer=authorizer if route.scope else None,
            )
            if route.scope is None:
                _acknowledge_public(new_route, f"{route.path} is public, because it returns no data of the table.")
        files = HttpLambdaIntegration("console", console.function.alias)
        for name, path in CONSOLE_ROUTES.items():
            new_route = apigateway.HttpRoute(
                self._stack,
                name,
                http_api=self.api,
                route_key=apigateway.HttpRouteKey.with_(path, apigateway.HttpMethod.GET),
                integration=files,
            )
            _acknowledge_public(
                new_route, "The files of the console are public. The console reads data from the API, with a token."
            )
        default = apigateway.HttpRoute(
            self._stack,
            "default",
            http_api=self.api,
            route_key=apigateway.HttpRouteKey.DEFAULT,
            integration=integrations[routes.DEFAULT_FUNCTION],
        )
        _acknowledge_public(
            default, "The route only returns 404 and 405, which callers without a token must also receive."
        )
        self._allow_before_calling()
        self._limit_concurrent_creation()

    def _allow_before_calling(self) -> None:
        """Make each integration depend on the permission that allows the gateway to invoke its function.

        A deployment that moves a route to another function changes both resources. Without this order, the gateway
        might have the new integration before the permission, and would respond with 500.
        """
        resources_of_stack = self._stack.node.find_all()
        permissions = [
            (self._stack.resolve(permission.function_name), permission)
            for permission in resources_of_stack
            if isinstance(permission, lambda_.CfnPermission)
        ]
        for integration in (
            resource for resource in resources_of_stack if isinstance(resource, apigateway.CfnIntegration)
        ):
            called = self._stack.resolve(integration.integration_uri)
            integration.node.add_dependency(*(permission for function, permission in permissions if function == called))

    def _limit_concurrent_creation(self) -> None:
        """Limit the number of integrations and routes that CloudFormation creates concurrently.

        CloudFormation creates independent resources in parallel. API Gateway rejects some concurrent changes of one API
        with a ConflictException. The deployment would then fail.
        """
        all_resources = self._stack.node.find_all()
        for type_ in (apigateway.CfnIntegration, apigateway.CfnRoute):
            resources = [resource for resource in all_resources if isinstance(resource, type_)]
            for before, after in zip(resources, resources[AT_ONCE:], strict=False):
                after.node.add_dependency(before)

    def add_stage(self, encryption: Encryption) -> None:
        """Add the stage, its throttling and its access log. Call this method after `add_routes`.

        The throttling limits apply to all callers together. Operations of ROUTE_LIMITS have lower limits.
        """
        settings = self._settings
        stage = apigateway.HttpStage(
            self._stack,
            "Stage",
            http_api=self.api,
            stage_name="$default",
            auto_deploy=True,
            throttle=apigateway.ThrottleSettings(
                rate_limit=settings.throttle_rate, burst_limit=settings.throttle_burst
            ),
        )
        # Otherwise the stage would deploy again for each route that is created after it.
        stage.node.add_dependency(
            *(route for route in self._stack.node.find_all() if isinstance(route, apigateway.CfnRoute))
        )
        log_group = logs.LogGroup(
            self._stack,
            "AccessLogs",
            # Log groups with this prefix share one resource policy. An account can have only ten such policies.
            log_group_name=f"/aws/vendedlogs/{settings.stack_name('Api')}",
            encryption_key=encryption.logs,
            retention=settings.log_retention,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        # Set on the underlying resource, because the stage's own `access_log_settings` fails from Python.
        resource = cast(apigateway.CfnStage, stage.node.default_child)
        resource.access_log_settings = apigateway.CfnStage.AccessLogSettingsProperty(
            destination_arn=log_group.log_group_arn, format=ACCESS_LOG_FORMAT
        )
        # The keys have CloudFormation's names, because CDK does not convert the keys of this property.
        resource.route_settings = {
            route.key: {
                "ThrottlingRateLimit": min(ROUTE_LIMITS[route.operation][0], settings.throttle_rate),
                "ThrottlingBurstLimit": min(ROUTE_LIMITS[route.operation][1], settings.throttle_burst),
            }
            for route in routes.ROUTES
            if route.operation in ROUTE_LIMITS
        }


def _methods() -> list[str]:
    return sorted({route.method for route in routes.ROUTES})


def _acknowledge_public(route: apigateway.HttpRoute, reason: str) -> None:
    accept(route, rule="AwsSolutions-APIG4", reason=reason)
