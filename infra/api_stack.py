"""What answers requests: the HTTP API, its routes, and the functions behind them."""

import json
from collections.abc import Mapping
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk.aws_apigatewayv2_authorizers import HttpJwtAuthorizer
from aws_cdk.aws_apigatewayv2_integrations import HttpLambdaIntegration
from constructs import Construct

from infra import attributes
from infra.data_stack import DataStack
from infra.function import ServiceFunction
from infra.media_stack import RENDITIONS, MediaStack
from infra.nag import accept
from infra.release import GradualShift
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

RESPONSE_HEADERS = ("ETag", "Location", "Link", "Retry-After", "Server-Timing")
"""What a browser may read from another origin."""

MOST_ASKED = ("videos", "views")
"""The functions that answer most requests: if any are kept warm, these."""

AT_ONCE = 5
"""How many routes are made at a time: API Gateway takes ten changes a second of an account."""

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
"""No address, user agent, token or path as it was typed: nothing here identifies a person."""


class ApiStack(cdk.Stack):
    """Everything here can be destroyed and built again without loss."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: Settings,
        code: lambda_.Code,
        data: DataStack,
        media: MediaStack,
        issuer: Issuer,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, id_, description="Video metadata: the HTTP API and its functions", **kwargs)
        self._settings, self._code, self._data, self._media = settings, code, data, media
        self.functions = {
            "videos": self._videos(),
            "views": self._views(),
            "uploads": self._uploads(),
            "jobs": self._jobs(),
            "playback": self._playback(),
            "history": self._history(),
            "relations": self._relations(),
            "ratings": self._ratings(),
            "playlists": self._playlists(),
            "totals": self._totals(),
            "public": self._public(),
        }
        self.api = self._api(settings)
        self._add_routes(self.api, self.functions, issuer)
        self._add_stage(self.api, settings)
        if settings.shift != "none":
            GradualShift(self, "Shift", settings=settings, functions=self.functions)
        cdk.CfnOutput(self, "ApiId", value=self.api.api_id)
        cdk.CfnOutput(self, "ApiUrl", value=self.api.api_endpoint)
        cdk.CfnOutput(self, "TableName", value=settings.table_name)

    def _function(self, folder: str, environment: Mapping[str, str] | None = None) -> ServiceFunction:
        return ServiceFunction(
            self,
            folder.capitalize(),
            folder=folder,
            settings=self._settings,
            code=self._code,
            table=self._data.table,
            snap_start=self._settings.snap_start,
            warm=self._settings.provisioned if folder in MOST_ASKED else 0,
            encryption=self._data.encryption,
            environment=environment,
        )

    def _lister(self, folder: str) -> ServiceFunction:
        """A function that lists videos: it seals cursors, and turns the places of pictures into addresses."""
        secret = self._data.cursor_secret
        lister = self._function(
            folder,
            {
                "CURSOR_SECRET_ARN": secret.secret_arn,
                "MEDIA_BUCKET": self._media.media.bucket_name,
                "MEDIA_URL": self._media.media_url,
            },
        )
        lister.allow_secret(secret)
        return lister

    def _videos(self) -> ServiceFunction:
        """The catalogue. It reads view counters and cannot write them; what it deletes are entries of tags.

        Whole videos are its own to write, so it alone updates items whose attributes no list names.
        """
        videos = self._lister("videos")
        videos.allow_items("GetItem", of=[schema.VIDEO, schema.VIEW_COUNTER, schema.IDEMPOTENCY])
        videos.allow_items("PutItem", of=[schema.VIDEO, schema.IDEMPOTENCY])
        videos.allow_items("BatchGetItem", of=[schema.VIDEO, schema.VIEW_COUNTER])
        videos.allow_items("DeleteItem", "Query", "UpdateItem", of=[schema.VIDEO])
        videos.allow_queries(*schema.INDEXES)
        return videos

    def _relations(self) -> ServiceFunction:
        """Credits and releases, which lie beside their videos."""
        relations = self._lister("relations")
        relations.allow_items(
            "BatchGetItem", "ConditionCheckItem", "DeleteItem", "GetItem", "PutItem", "Query", of=[schema.VIDEO]
        )
        relations.allow_items("UpdateItem", of=[schema.CREDIT, schema.RELEASE], attributes=attributes.ENTRY)
        relations.allow_queries(schema.RELATION_INDEX)
        return relations

    def _ratings(self) -> ServiceFunction:
        """Ratings, which lie in partitions of their own. It reads videos and totals, and cannot write them."""
        ratings = self._function("ratings")
        ratings.allow_items("BatchGetItem", of=[schema.VIDEO, schema.RATING], attributes=attributes.RATED)
        ratings.allow_items("PutItem", of=[schema.RATING])
        return ratings

    def _playlists(self) -> ServiceFunction:
        """Playlists. It reads videos and cannot write them; a user's totals have the number of playlists."""
        playlists = self._lister("playlists")
        playlists.allow_items("GetItem", of=[schema.PLAYLIST, schema.IDEMPOTENCY])
        playlists.allow_items("BatchGetItem", of=[schema.PLAYLIST])
        playlists.allow_items("GetItem", "BatchGetItem", of=[schema.VIDEO], attributes=attributes.SUMMARY)
        playlists.allow_items("PutItem", of=[schema.PLAYLIST, schema.IDEMPOTENCY])
        playlists.allow_items("DeleteItem", "Query", "UpdateItem", of=[schema.PLAYLIST])
        playlists.allow_items(
            "UpdateItem", of=[schema.PROFILE], attributes=(*attributes.USER_PLAYLISTS, *attributes.USER_TOTALS)
        )
        playlists.allow_queries(schema.RELATION_INDEX)
        return playlists

    def _totals(self) -> ServiceFunction:
        """Totals and lists of what is viewed most, to be read only, with what lists show of videos."""
        totals = self._lister("totals")
        totals.allow_items(
            "GetItem", of=[schema.PROFILE], attributes=(*attributes.USER_VIDEOS, *attributes.USER_PLAYLISTS)
        )
        totals.allow_items("GetItem", of=[schema.TOP])
        totals.allow_items("BatchGetItem", of=[schema.VIDEO], attributes=attributes.SUMMARY)
        totals.allow_queries(schema.RELATION_INDEX)
        return totals

    def _views(self) -> ServiceFunction:
        """Markers, and counters, which it alone raises at once. It reads videos to know who may see them."""
        views = self._function(
            "views",
            {
                "VIEW_WINDOW_SECONDS": str(self._settings.view_window * 60),
                "COUNT_OWN_VIEWS": str(self._settings.count_own_views).lower(),
            },
        )
        views.allow_items("GetItem", "BatchGetItem", of=[schema.VIDEO], attributes=attributes.VISIBILITY)
        views.allow_items("BatchGetItem", "GetItem", "Query", of=[schema.VIEW_COUNTER])
        views.allow_items(
            "UpdateItem",
            of=[schema.VIEW_COUNTER],
            attributes=(*attributes.VIEWS, *attributes.VIEW_SHARDS),
            returning=["ALL_NEW"],
        )
        views.allow_items("PutItem", of=[schema.VIEWER])
        return views

    def _uploads(self) -> ServiceFunction:
        """Lets films in. It signs uploads, and what it signs can do no more than its own role."""
        sources = self._media.sources
        uploads = self._function(
            "uploads",
            {
                "SOURCES_BUCKET": sources.bucket_name,
                "JOBS_PER_DAY": str(self._settings.jobs_per_day),
                "RENDITIONS": ",".join(self._settings.renditions),
            },
        )
        uploads.allow_items("GetItem", "PutItem", of=[schema.VIDEO, schema.UPLOAD])
        uploads.allow_items("UpdateItem", of=[schema.UPLOAD], attributes=attributes.UPLOAD)
        uploads.allow_items("UpdateItem", of=[schema.QUOTA], attributes=attributes.QUOTA)
        uploads.allow_objects("PutObject", "AbortMultipartUpload", bucket=sources)
        uploads.allow_listing(sources)  # it may see that a film is there, and not read it
        return uploads

    def _jobs(self) -> ServiceFunction:
        """What is being made of a film. It only writes what is wanted: the router sends all messages."""
        jobs = self._function(
            "jobs",
            {
                "JOBS_PER_DAY": str(self._settings.jobs_per_day),
                "MEDIA_BUCKET": self._media.media.bucket_name,  # where reported renditions must lie
            },
        )
        jobs.allow_items("GetItem", "PutItem", "Query", of=[schema.VIDEO, schema.JOB])
        jobs.allow_items(
            "UpdateItem",
            of=[schema.VIDEO, schema.JOB],
            attributes=(*attributes.REPORTED_FILM, *attributes.RETRIED_JOB),
            returning=["ALL_NEW"],  # a job that is taken
        )
        jobs.allow_items("UpdateItem", of=[schema.QUOTA], attributes=attributes.QUOTA)
        return jobs

    def _playback(self) -> ServiceFunction:
        """Lets films out. What it signs can do no more than its own role: read renditions and films, and write nothing."""
        media, sources = self._media.media, self._media.sources
        playback = self._function("playback", {"MEDIA_BUCKET": media.bucket_name, "MEDIA_URL": self._media.media_url})
        playback.allow_items("GetItem", of=[schema.VIDEO], attributes=attributes.PLAYBACK)
        playback.allow_objects("GetObject", bucket=media, below=(RENDITIONS,))
        playback.allow_objects("GetObject", bucket=sources)
        return playback

    def _history(self) -> ServiceFunction:
        """The audit trail, to be read only. It reads videos to know whose they are."""
        secret, audit_table = self._data.cursor_secret, self._data.audit_table
        history = self._function(
            "history", {"AUDIT_TABLE_NAME": audit_table.table_name, "CURSOR_SECRET_ARN": secret.secret_arn}
        )
        history.allow_items("GetItem", of=[schema.VIDEO], attributes=attributes.VISIBILITY)
        history.allow_items("Query", of=[schema.AUDIT], table=audit_table)
        history.allow_secret(secret)
        return history

    def _public(self) -> ServiceFunction:
        """What needs no token, so it can read nothing but the health probe."""
        public = self._function("public")
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
            )
            if settings.allow_origins
            else None,
        )

    def _add_routes(self, api: apigateway.HttpApi, functions: dict[str, ServiceFunction], issuer: Issuer) -> None:
        """The routes of shared/routes.py, and `$default` for all that is none of them.

        The gateway checks the token and the function its scopes, because only the function can answer a
        missing one in the service's own form.
        """
        authorizer = HttpJwtAuthorizer("Tokens", issuer.url, jwt_audience=list(issuer.audience))
        integrations = {folder: HttpLambdaIntegration(folder, function.alias) for folder, function in functions.items()}
        for route in routes.ROUTES:
            made = apigateway.HttpRoute(
                self,
                route.operation,
                http_api=api,
                route_key=apigateway.HttpRouteKey.with_(route.gateway_path, apigateway.HttpMethod(route.method)),
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
        self._allow_before_calling()
        self._make_few_at_once()

    def _allow_before_calling(self) -> None:
        """Lead requests to a function only once the gateway may call it for all of its routes.

        Both change when something else is to be called, and the gateway answers 500 while it may not call.
        """
        made = self.node.find_all()
        permissions = [
            (self.resolve(permission.function_name), permission)
            for permission in made
            if isinstance(permission, lambda_.CfnPermission)
        ]
        for integration in (resource for resource in made if isinstance(resource, apigateway.CfnIntegration)):
            called = self.resolve(integration.integration_uri)
            integration.node.add_dependency(*(permission for function, permission in permissions if function == called))

    def _make_few_at_once(self) -> None:
        """Let CloudFormation make some integrations and routes at a time, and the stage when they are there.

        It makes all at once that depend on nothing of each other. To API Gateway these are changes of one API, and it
        refuses some of them with a ConflictException, which fails the deployment.
        """
        made = self.node.find_all()
        for type_ in (apigateway.CfnIntegration, apigateway.CfnRoute):
            resources = [resource for resource in made if isinstance(resource, type_)]
            for before, after in zip(resources, resources[AT_ONCE:], strict=False):
                after.node.add_dependency(before)

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
        # It deploys itself anew with each route that comes later.
        stage.node.add_dependency(*(made for made in self.node.find_all() if isinstance(made, apigateway.CfnRoute)))
        log_group = logs.LogGroup(
            self,
            "AccessLogs",
            # Log groups under this prefix share one resource policy; elsewhere each takes of the account's ten.
            log_group_name=f"/aws/vendedlogs/{settings.stack_name('Api')}",
            encryption_key=self._data.encryption.logs,
            retention=settings.log_retention,
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
