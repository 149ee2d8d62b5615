"""The API stack: the HTTP API, its functions, and their permissions."""

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra import attributes
from infra.archive import allow_questions
from infra.console import ConsoleSite
from infra.data_stack import DataStack
from infra.function import MEMORY_MB, ServiceFunction
from infra.gateway import Gateway
from infra.identity import IdentityStack
from infra.media_stack import CAPTIONS, RENDITIONS, MediaStack
from infra.opensearch import SearchCluster
from infra.queue import WorkQueue
from infra.release import GradualShift
from infra.reverts import allow_undo, undo_environment
from infra.search import INDEX_STORAGE, SEARCH_MB, allow_searching, captions_environment
from infra.settings import DeploymentSettings, TokenIssuer
from infra.subscriptions import allow_following, allow_webhooks, webhook_environment
from shared import schema
from shared.video_fields import VISIBILITY_ATTRIBUTES

BUSIEST_FUNCTIONS = ("videos", "views")
"""Folders of the functions that serve most requests. The setting `coldStart` can give these functions provisioned
concurrency."""


class ApiStack(cdk.Stack):
    """The HTTP API and its functions. An operator can destroy and recreate the stack without data loss."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: DeploymentSettings,
        code: lambda_.Code,
        search_code: lambda_.Code,
        data: DataStack,
        media: MediaStack,
        cluster: SearchCluster | None,
        issuer: TokenIssuer,
        identity: IdentityStack | None,
        queues: Mapping[str, WorkQueue],
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, id_, description="Video metadata: the HTTP API and its functions", **kwargs)
        self._settings, self._code, self._data, self._media = settings, code, data, media
        self._search_code, self._cluster = search_code, cluster
        self._queues = queues
        self.functions = {
            "videos": self._videos(),
            "views": self._views(),
            "uploads": self._uploads(),
            "jobs": self._jobs(),
            "playback": self._playback(),
            "history": self._history(),
            "undo": self._undo(),
            "webhooks": self._webhooks(queues["deliveries"].queue),
            "relations": self._relations(),
            "captions": self._captions(),
            "ratings": self._ratings(),
            "playlists": self._playlists(),
            "totals": self._totals(),
            "search": self._search(),
            "public": self._public(),
        }
        gateway = Gateway(self, settings)
        self.api = gateway.api
        self.console = ConsoleSite(
            self,
            "Console",
            settings=settings,
            data=data,
            media=media,
            issuer=issuer,
            identity=identity,
            api_url=self.api.api_endpoint,
        )
        gateway.add_routes(self.functions, self.console, issuer)
        gateway.add_stage(data.encryption)
        if settings.shift != "none":
            GradualShift(self, "Shift", settings=settings, functions=self.functions)
        cdk.CfnOutput(self, "ApiId", value=self.api.api_id)
        cdk.CfnOutput(self, "ApiUrl", value=self.api.api_endpoint)
        cdk.CfnOutput(self, "ConsoleUrl", value=self.console.url)
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
            warm=self._settings.provisioned if folder in BUSIEST_FUNCTIONS else 0,
            encryption=self._data.encryption,
            environment=environment,
        )

    def _lister(self, folder: str, **environment: str) -> ServiceFunction:
        """Return a function that serves lists of videos. It can read the cursor secret, and can build URLs of
        thumbnails."""
        secret = self._data.cursor_secret
        lister = self._function(
            folder,
            {
                "CURSOR_SECRET_ARN": secret.secret_arn,
                "MEDIA_BUCKET": self._media.media.bucket_name,
                "MEDIA_URL": self._media.media_url,
                **environment,
            },
        )
        lister.allow_secret(secret)
        return lister

    def _videos(self) -> ServiceFunction:
        """Return the function for videos.

        The function can read view counters, but not write them. It deletes only tag entries and
        reservations of unique values. The role permits puts of whole video items. Therefore a restriction of updates to
        certain attributes would have no effect.
        """
        videos = self._lister("videos", AUDIT_TABLE_NAME=self._data.audit_table.table_name)
        videos.allow_items("GetItem", of=[schema.VIDEO, schema.VIEW_COUNTER, schema.RESERVATION, schema.IDEMPOTENCY])
        videos.allow_items("PutItem", of=[schema.VIDEO, schema.RESERVATION, schema.IDEMPOTENCY])
        videos.allow_items("BatchGetItem", of=[schema.VIDEO, schema.VIEW_COUNTER])
        videos.allow_items("DeleteItem", of=[schema.VIDEO, schema.RESERVATION])
        videos.allow_items("Query", "UpdateItem", of=[schema.VIDEO])
        videos.allow_queries(*schema.INDEXES)
        videos.allow_items("Query", of=[schema.AUDIT], table=self._data.audit_table)
        return videos

    def _relations(self) -> ServiceFunction:
        """Return the function for credits and releases. These items are in the partition of their video."""
        relations = self._lister("relations")
        relations.allow_items(
            "BatchGetItem", "ConditionCheckItem", "DeleteItem", "GetItem", "PutItem", "Query", of=[schema.VIDEO]
        )
        relations.allow_items("UpdateItem", of=[schema.CREDIT, schema.RELEASE], attributes=attributes.RELATION)
        relations.allow_queries(schema.RELATION_INDEX)
        return relations

    def _captions(self) -> ServiceFunction:
        """Return the function for captions and chapters. Their items are in the partition of their video, and caption
        texts are S3 objects."""
        secret, media = self._data.cursor_secret, self._media.media
        captions = self._function(
            "captions", {"CURSOR_SECRET_ARN": secret.secret_arn, "MEDIA_BUCKET": media.bucket_name}
        )
        captions.allow_secret(secret)
        captions.allow_items("BatchGetItem", "DeleteItem", "GetItem", "PutItem", "Query", of=[schema.VIDEO])
        captions.allow_items("UpdateItem", of=[schema.CAPTION, schema.CHAPTERS], attributes=attributes.REMOVAL)
        captions.allow_objects("GetObject", "PutObject", bucket=media, below=(CAPTIONS,))
        captions.allow_listing(media)  # to get 404, not 403, for a missing text
        return captions

    def _ratings(self) -> ServiceFunction:
        """Return the function for ratings, which are stored in separate partitions.

        The function can read videos and rating totals, but not write them.
        """
        ratings = self._function("ratings")
        ratings.allow_items("BatchGetItem", of=[schema.VIDEO, schema.RATING], attributes=attributes.RATED)
        ratings.allow_items("PutItem", of=[schema.RATING])
        return ratings

    def _playlists(self) -> ServiceFunction:
        """Return the function for playlists.

        The function can read videos, but not write them. It can update the number of playlists in a user's totals.
        """
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
        """Return the function for totals, rankings and the state of the service.

        It reads totals, rankings, summaries of videos, failed jobs, and the number of messages in each queue. It writes
        nothing.
        """
        waiting = {name: queue.queue for name, queue in self._queues.items()}
        dead_letters = {name: queue.dead_letters for name, queue in self._queues.items()}
        totals = self._lister("totals", QUEUES=_urls_of(waiting), DEAD_LETTER_QUEUES=_urls_of(dead_letters))
        totals.allow_items(
            "GetItem", of=[schema.PROFILE], attributes=(*attributes.USER_VIDEOS, *attributes.USER_PLAYLISTS)
        )
        totals.allow_items("GetItem", of=[schema.TOP])
        totals.allow_items("GetItem", "Query", of=[schema.FOLDER_COUNT])
        totals.allow_items("BatchGetItem", of=[schema.VIDEO], attributes=attributes.SUMMARY)
        totals.allow_items("Query", of=[schema.SERVICE_TOTALS])
        totals.allow_items("BatchGetItem", of=[schema.JOB], attributes=attributes.FAILED_JOB)
        totals.allow_items("BatchGetItem", of=[schema.WEBHOOK_STATE], attributes=attributes.LATE_WEBHOOK)
        totals.allow_items("GetItem", of=[schema.VIEWS_BY_HOUR], attributes=attributes.HOURLY_VIEWS)
        totals.allow_items("GetItem", of=[schema.INDEX], attributes=attributes.INDEX_STATE)
        totals.allow_items("GetItem", of=[schema.COMPARISON_REPORT], attributes=attributes.COMPARISON_REPORT)
        totals.allow_depth(*waiting.values(), *dead_letters.values())
        totals.allow_queries(schema.RELATION_INDEX)
        return totals

    def _search(self) -> ServiceFunction:
        """Return the search function. It queries the OpenSearch cluster. Without a cluster, each instance copies the
        index to its disk.

        The function reads current items from the table, and writes nothing.

        The function does not use SnapStart, because Lambda supports SnapStart only up to 512 MB of ephemeral storage.
        Provisioned instances load the index before their first request (functions/search/handler.py).
        """
        secret, media, cluster = self._data.cursor_secret, self._media, self._cluster
        search = ServiceFunction(
            self,
            "Search",
            folder="search",
            settings=self._settings,
            code=self._search_code,
            table=self._data.table,
            encryption=self._data.encryption,
            memory_mb=MEMORY_MB if cluster else SEARCH_MB,
            storage=None if cluster else INDEX_STORAGE,
            warm=self._settings.search_instances,
            environment={
                "AUDIT_TABLE_NAME": self._data.audit_table.table_name,
                "CURSOR_SECRET_ARN": secret.secret_arn,
                "MEDIA_BUCKET": media.media.bucket_name,
                "MEDIA_URL": media.media_url,
                **captions_environment(self._settings),
                **(cluster.environment() if cluster else {}),
            },
        )
        search.allow_secret(secret)
        allow_searching(search, self._settings, self._data, media, cluster)
        return search

    def _views(self) -> ServiceFunction:
        """Return the function for views.

        The function counts anonymous views immediately. For a view with a viewer id or an idempotency key, the function
        stores an item, which a worker counts later. The function reads videos to check whether the caller may see them.
        """
        views = self._function(
            "views",
            {
                "VIEW_WINDOW_SECONDS": str(self._settings.view_window * 60),
                "COUNT_OWN_VIEWS": str(self._settings.count_own_views).lower(),
            },
        )
        views.allow_items("GetItem", "BatchGetItem", of=[schema.VIDEO], attributes=VISIBILITY_ATTRIBUTES)
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
        """Return the function that signs upload URLs. A signed URL permits no more than the function's role permits."""
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
        uploads.allow_objects("PutObject", "AbortMultipartUpload", "ListMultipartUploadParts", bucket=sources)
        uploads.allow_listing(sources)  # to check that a source file exists without reading it
        return uploads

    def _jobs(self) -> ServiceFunction:
        """Return the function for processing jobs.

        The function only writes items. The stream router then sends the messages to the workers.
        """
        jobs = self._function(
            "jobs",
            {
                "JOBS_PER_DAY": str(self._settings.jobs_per_day),
                "MEDIA_BUCKET": self._media.media.bucket_name,  # reported renditions must be in this bucket
            },
        )
        jobs.allow_items("GetItem", "PutItem", "Query", of=[schema.VIDEO, schema.JOB])
        jobs.allow_items(
            "UpdateItem",
            of=[schema.VIDEO, schema.JOB],
            attributes=(*attributes.REPORTED_SOURCE, *attributes.RETRIED_JOB),
            returning=["ALL_NEW"],  # the claimed job
        )
        jobs.allow_items("UpdateItem", of=[schema.QUOTA], attributes=attributes.QUOTA)
        return jobs

    def _playback(self) -> ServiceFunction:
        """Return the function that signs playback URLs.

        In S3, the function's role permits only reads of renditions, captions and source files. Therefore a signed URL
        permits no other access.
        """
        media, sources = self._media.media, self._media.sources
        playback = self._function("playback", {"MEDIA_BUCKET": media.bucket_name, "MEDIA_URL": self._media.media_url})
        playback.allow_items("GetItem", of=[schema.VIDEO], attributes=attributes.PLAYBACK)
        playback.allow_items("Query", of=[schema.CAPTION, schema.CHAPTERS])
        playback.allow_objects("GetObject", bucket=media, below=(RENDITIONS, CAPTIONS))
        playback.allow_objects("GetObject", bucket=sources)
        return playback

    def _history(self) -> ServiceFunction:
        """Return the function that reads the audit trail and the feed.

        The function computes an earlier version of an item: it reads the current item, and undoes the later changes in
        memory.
        """
        secret, audit_table = self._data.cursor_secret, self._data.audit_table
        history = self._function(
            "history", {"AUDIT_TABLE_NAME": audit_table.table_name, "CURSOR_SECRET_ARN": secret.secret_arn}
        )
        history.allow_items("GetItem", of=[schema.VIDEO])
        history.allow_items("GetItem", of=[schema.PLAYLIST], attributes=attributes.PLAYLIST_VISIBILITY)
        history.allow_items("BatchGetItem", "Query", of=schema.TRAIL_ENTITIES, table=audit_table)
        allow_following(history, self._data)
        history.allow_queries(*schema.AUDIT_INDEXES, table=audit_table)
        history.allow_items("GetItem", "Query", of=[schema.REVERT])
        history.allow_secret(secret)
        allow_questions(history, self._settings, self._media)
        return history

    def _undo(self) -> ServiceFunction:
        """Return the function that reverts changes.

        If a change set is too large for one request, the function stores an item. The stream router then notifies the
        worker that reverts large change sets.
        """
        undo = self._function(
            "undo",
            {
                **undo_environment(self._data, self._settings),
                "MEDIA_BUCKET": self._media.media.bucket_name,
                "MEDIA_URL": self._media.media_url,
            },
        )
        allow_undo(undo, self._data)
        undo.allow_items("PutItem", of=[schema.REVERT])
        return undo

    def _webhooks(self, deliveries: sqs.IQueue) -> ServiceFunction:
        """Return the function that manages webhooks. The function sends test events; the delivery worker sends all
        other events."""
        secret = self._data.cursor_secret
        webhooks = self._function(
            "webhooks",
            {**webhook_environment(self._settings, self._data, deliveries), "CURSOR_SECRET_ARN": secret.secret_arn},
        )
        webhooks.allow_secret(secret)
        allow_webhooks(webhooks, self._data, deliveries)
        return webhooks

    def _public(self) -> ServiceFunction:
        """Return the function for routes without authentication. The function can read only the item of the health check."""
        public = self._function("public")
        public.allow_items("GetItem", of=[schema.HEALTH])
        return public


def _urls_of(queues: Mapping[str, sqs.IQueue]) -> str:
    """Return the URLs of queues in the format of environment variables: `name=url`, separated by commas."""
    return ",".join(f"{name}={queue.queue_url}" for name, queue in queues.items())
