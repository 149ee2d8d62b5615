"""What answers requests: the HTTP API, its routes, and the functions behind them."""

import json
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk.aws_apigatewayv2_authorizers import HttpJwtAuthorizer
from aws_cdk.aws_apigatewayv2_integrations import HttpLambdaIntegration
from constructs import Construct

from infra.function import LOG_RETENTION, ServiceFunction
from infra.nag import accept
from infra.settings import Issuer, Settings
from shared import routes, schema

REQUEST_HEADERS = (
    "Authorization",
    "Content-Type",
    "If-Match",
    "If-None-Match",
    "Idempotency-Key",
    "Accept-Language",
)
"""What a browser may send from another origin."""

RESPONSE_HEADERS = ("ETag", "Location", "Link", "Retry-After")
"""What a browser may read from another origin."""

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
    "error": "$context.error.message",
}
"""No address, user agent, token or path as it was typed: nothing here tells a person."""


class ApiStack(cdk.Stack):
    """Everything here can be destroyed and built again without loss."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: Settings,
        code: lambda_.Code,
        table: dynamodb.TableV2,
        cursor_secret: secretsmanager.Secret,
        issuer: Issuer,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, id_, description="Video metadata: the HTTP API and its functions", **kwargs)
        functions = {
            "videos": self._videos(code, table, cursor_secret),
            "views": self._views(code, table),
            "public": self._public(code, table),
        }
        api = self._api(settings)
        self._add_routes(api, functions, issuer)
        self._add_stage(api, settings)
        cdk.CfnOutput(self, "ApiId", value=api.api_id)
        cdk.CfnOutput(self, "ApiUrl", value=api.api_endpoint)
        cdk.CfnOutput(self, "TableName", value=settings.table_name)

    def _videos(
        self, code: lambda_.Code, table: dynamodb.TableV2, cursor_secret: secretsmanager.Secret
    ) -> ServiceFunction:
        """The catalogue. It reads view counters and cannot write them."""
        videos = ServiceFunction(
            self,
            "Videos",
            folder="videos",
            code=code,
            table=table,
            environment={"CURSOR_SECRET_ARN": cursor_secret.secret_arn},
        )
        videos.allow_items("GetItem", "PutItem", of=[schema.VIDEO, schema.IDEMPOTENCY])
        videos.allow_items("BatchGetItem", of=[schema.VIDEO, schema.VIEW_COUNTER])
        videos.allow_items("UpdateItem", of=[schema.VIDEO])
        videos.allow_queries(*schema.INDEXES)
        videos.allow_secret(cursor_secret)
        return videos

    def _views(self, code: lambda_.Code, table: dynamodb.TableV2) -> ServiceFunction:
        """The counters, which nobody else can write. It reads videos to know who may see them."""
        views = ServiceFunction(self, "Views", folder="views", code=code, table=table)
        views.allow_items("GetItem", of=[schema.VIDEO, schema.VIEW_COUNTER])
        views.allow_items("UpdateItem", of=[schema.VIEW_COUNTER])
        views.allow_items("PutItem", of=[schema.VIEW_ID])
        return views

    def _public(self, code: lambda_.Code, table: dynamodb.TableV2) -> ServiceFunction:
        """What needs no token, so it can read nothing but the health probe."""
        public = ServiceFunction(self, "Public", folder="public", code=code, table=table)
        public.allow_items("GetItem", of=[schema.HEALTH])
        return public

    def _api(self, settings: Settings) -> apigateway.HttpApi:
        return apigateway.HttpApi(
            self,
            "HttpApi",
            api_name=settings.stack_name("Api"),
            create_default_stage=False,
            cors_preflight=apigateway.CorsPreflightOptions(
                allow_origins=list(settings.allow_origins),
                allow_methods=[apigateway.CorsHttpMethod(method) for method in _methods()],
                allow_headers=list(REQUEST_HEADERS),
                expose_headers=list(RESPONSE_HEADERS),
                max_age=cdk.Duration.hours(1),
            ),
        )

    def _add_routes(self, api: apigateway.HttpApi, functions: dict[str, ServiceFunction], issuer: Issuer) -> None:
        """The routes of shared/routes.py, and `$default` for all that is none of them.

        The gateway checks the token and the function its scopes, because only the function can answer a
        missing one in the service's own form.
        """
        authorizer = HttpJwtAuthorizer("Tokens", issuer.url, jwt_audience=list(issuer.audience))
        integrations = {
            folder: HttpLambdaIntegration(folder, function.function) for folder, function in functions.items()
        }
        for route in routes.ROUTES:
            made = apigateway.HttpRoute(
                self,
                route.operation,
                http_api=api,
                route_key=apigateway.HttpRouteKey.with_(route.path, apigateway.HttpMethod(route.method)),
                integration=integrations[route.function],
                authorizer=authorizer if route.scope else None,
            )
            if route.scope is None:
                _acknowledge_public(made, f"{route.path} is public: it shows no data of the table.")
        default = apigateway.HttpRoute(
            self,
            "default",
            http_api=api,
            route_key=apigateway.HttpRouteKey.DEFAULT,
            integration=integrations[routes.DEFAULT_FUNCTION],
        )
        _acknowledge_public(default, "It only answers 404 and 405, which callers without a token must get as well.")

    def _add_stage(self, api: apigateway.HttpApi, settings: Settings) -> None:
        stage = apigateway.HttpStage(
            self,
            "Stage",
            http_api=api,
            stage_name="$default",
            auto_deploy=True,
            throttle=apigateway.ThrottleSettings(
                rate_limit=settings.throttle_rate, burst_limit=settings.throttle_burst
            ),
        )
        log_group = logs.LogGroup(
            self,
            "AccessLogs",
            # Log groups under this prefix share one resource policy; elsewhere each takes of the account's ten.
            log_group_name=f"/aws/vendedlogs/{settings.stack_name('Api')}",
            retention=LOG_RETENTION,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        # Set on the underlying resource, because the stage's own `access_log_settings` fails from Python.
        resource = cast(apigateway.CfnStage, stage.node.default_child)
        resource.access_log_settings = apigateway.CfnStage.AccessLogSettingsProperty(
            destination_arn=log_group.log_group_arn, format=json.dumps(ACCESS_LOG)
        )


def _methods() -> list[str]:
    return sorted({route.method for route in routes.ROUTES})


def _acknowledge_public(route: apigateway.HttpRoute, reason: str) -> None:
    accept(route, rule="AwsSolutions-APIG4", reason=reason)
