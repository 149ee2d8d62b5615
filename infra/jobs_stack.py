"""Asynchronous processing: stream consumers, queues and workers."""

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra import attributes
from infra.archive import add_catalogue, add_compactor, add_query_policy, add_snapshots
from infra.data_stack import DataStack
from infra.function import ServiceFunction
from infra.media_stack import ARRIVALS_TIMEOUT, MediaStack
from infra.opensearch import SearchCluster
from infra.queue import WorkQueue
from infra.reverts import allow_undo, undo_environment
from infra.scheduled import add_scheduled
from infra.search import add_indexer
from infra.settings import DeploymentSettings, Target
from infra.subscriptions import DELIVERIES_TIMEOUT, allow_appending, deliveries, shares_of
from shared import schema
from shared.job_kinds import JOB_QUEUES, KINDS, MEDIA_FOLDERS

STREAM_TIMEOUT = cdk.Duration.seconds(60)
"""Timeout of the stream consumers. It covers a batch in which each record needs three slow requests."""

AUDIT_BATCH, AUDIT_WINDOW = 400, cdk.Duration.seconds(1)
"""Maximum number of records per batch of the audit consumer, and maximum time that Lambda waits to fill a batch.

Lambda processes the batches of a shard in sequence, because the feed preserves the order of a video's changes. A video
has several items, and parallel batches would preserve only the order of each item. Large batches compensate for the
missing parallelism. `python -m bench.trail` measures the throughput.
"""

PROBE_TIMEOUT = cdk.Duration.seconds(120)
PROBE_MB = 1024
"""Memory of the probe worker in megabytes. The worker reads a file's header and a few bytes at the end of the file."""

THUMBNAILS_TIMEOUT = cdk.Duration.seconds(300)
THUMBNAILS_MB = 1769
"""Memory of the thumbnail worker in megabytes. This size corresponds to one core.

Decoding is CPU-bound, so the worker would be slower with less memory, but not cheaper.
"""

PURGE_TIMEOUT = cdk.Duration.seconds(120)
"""Timeout of the purge worker. It covers a video with ten thousand child items. If time runs out, a new message
continues the purge.
"""

PURGES_AT_A_TIME = 5
"""Maximum concurrency of the purge worker. Purges are not urgent, and must leave the table's throughput to readers."""

AGGREGATES_TIMEOUT = cdk.Duration.seconds(60)
AGGREGATES_BATCH, AGGREGATES_WINDOW = 1000, cdk.Duration.seconds(1)
"""Maximum number of videos per batch of the aggregates worker, and maximum time that Lambda waits to fill a batch.

A thousand videos need about ten transactions and one to two seconds. Their messages take 1 MB of the 6 MB payload
limit.
"""

AGGREGATES_AT_A_TIME = 2
"""Maximum concurrency of the aggregates worker. Lambda allows no lower value.

More workers would contend for the same items, because an owner's videos share totals. Each worker also limits its use of
an index partition's throughput (shared/background/aggregates.py).
"""

TALLIES_TIMEOUT = cdk.Duration.seconds(30)
"""Timeout of the tallies worker.

The visibility timeout is six times as long. A failed message blocks the counts of its video for that time. Therefore
the worker's timeout is short.
"""
TALLIES_AT_A_TIME = 10
"""Maximum concurrency of the tallies worker. Lambda processes the messages of one video in sequence."""

REVERTS_TIMEOUT = cdk.Duration.seconds(120)
"""Timeout of the revert worker. It covers about ten pages of a change set. If time runs out, a new message continues
the revert.
"""
REVERTS_AT_A_TIME = 5
"""Maximum concurrency of the revert worker: the number of change sets that are reverted concurrently.

Each worker processes eight videos in parallel. Reverts are not urgent, and must leave the table's throughput to readers.
"""

TRANSCODER_VISIBILITY = cdk.Duration.minutes(15)
"""Visibility timeout of the transcode queue, which external transcoders consume. It equals the lease of a transcode job.

A slower transcoder calls ChangeMessageVisibility to extend the timeout, or deletes the message after it has claimed the
job.
"""

DECODERS: Mapping[Target, int] = {
    "aws": 10,
    "local": 2,  # the lowest value allowed, because MiniStack unpacks 200 MB for each concurrent invocation
}
"""Maximum concurrency of each worker that decodes source files, by target.

Without this limit, many uploads could use the account's whole Lambda concurrency. With the limit, jobs wait in the
queue.
"""

AUDIT_OBJECTS = "audit/*"
"""Pattern of the keys of the audit archive in the archive bucket."""


def _meta_of(*entities: schema.Entity) -> Mapping[str, Any]:
    # Videos and playlists have the same sort key.
    prefixes = [{"prefix": entity.partition_prefix} for entity in entities]
    return {"Keys": {"pk": {"S": prefixes}, "sk": {"S": sorted({entity.sk for entity in entities})}}}


def _partitions_of(*entities: schema.Entity) -> Mapping[str, Any]:
    return {"Keys": {"pk": {"S": [{"prefix": entity.partition_prefix} for entity in entities]}}}


AUDITED_ENTITIES = (schema.CREDIT, schema.RELEASE, schema.CAPTION, schema.CHAPTERS)
"""Entities in a video's partition that the audit trail records."""
_WRITTEN = ["INSERT", "MODIFY"]
_JOB_ITEM = {"Keys": {"sk": {"S": [{"prefix": schema.JOB.sort_prefix}]}}}
_RELATION_ITEM = {"Keys": {"sk": {"S": [{"prefix": entity.sort_prefix} for entity in AUDITED_ENTITIES]}}}

ROUTER_FILTERS: tuple[Mapping[str, Any], ...] = (
    # Changes of videos (jobs or totals may have to change), deletions of playlists, and new reverts. Separate filters
    # would exceed the limit of five. This filter also matches other changes of playlists and reverts. The router ignores
    # them.
    {"dynamodb": _meta_of(schema.VIDEO, schema.PLAYLIST, schema.REVERT)},
    # Jobs that wait for a message, and jobs that ended. After a job has ended, the owner's next job may start.
    {"dynamodb": {**_JOB_ITEM, "NewImage": {"state": {"S": ["queued", "done", "failed", "withdrawn"]}}}},
    # Open jobs that were deleted with their video.
    {"eventName": ["REMOVE"], "dynamodb": {**_JOB_ITEM, "OldImage": {"state": {"S": ["queued", "running"]}}}},
    # View counters, because a new hour may have begun. The last filter selects views by viewer or idempotency key, and
    # ratings. Deletions are excluded, because deleted items have already been counted.
    {"eventName": _WRITTEN, "dynamodb": _meta_of(schema.VIEW_COUNTER)},
    {"eventName": _WRITTEN, "dynamodb": _partitions_of(schema.VIEWER, schema.RATING)},
)
"""Event filters of the stream router. The router receives a record if one filter matches it.

Five filters are Lambda's default quota: https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventfiltering.html
"""
AUDIT_FILTERS: tuple[Mapping[str, Any], ...] = (
    {"dynamodb": _meta_of(schema.VIDEO, schema.PLAYLIST)},
    # `running` is excluded, because those changes are heartbeats.
    {"dynamodb": {**_JOB_ITEM, "NewImage": {"state": {"S": ["queued", "done", "failed", "withdrawn"]}}}},
    # Credits, releases, captions and chapters that are written, or that a user deletes. Items that are deleted with
    # their video are excluded.
    {"eventName": _WRITTEN, "dynamodb": _RELATION_ITEM},
    {"eventName": ["REMOVE"], "dynamodb": {**_RELATION_ITEM, "OldImage": {"removing": {"BOOL": [True]}}}},
    # Imported rating totals. Changes by the tallies worker, which counts users' ratings, are excluded.
    {
        "eventName": _WRITTEN,
        "dynamodb": {
            "Keys": {"sk": {"S": [schema.RATING_TOTALS.sk]}},
            "NewImage": {"updatedBy": {"S": [{"anything-but": ["job:tallies"]}]}},
        },
    },
)
"""Event filters of the audit consumer. The consumer receives a record if one filter matches it.

Changes of other items, such as playlist entries, list entries and idempotency keys, invoke no function and cost
nothing.
"""


class JobsStack(cdk.Stack):
    """Stream consumers, queues, workers and scheduled functions. An operator can destroy and recreate the stack.

    The messages of the deleted queues are then lost. The sweeper queues jobs, scheduled videos and due webhooks again, but
    no other work.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        settings: DeploymentSettings,
        code: lambda_.Code,
        media_code: lambda_.Code,
        search_code: lambda_.Code,
        archive_code: lambda_.Code,
        data: DataStack,
        media: MediaStack,
        cluster: SearchCluster | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, id_, description="Video metadata: stream consumers, queues and workers", **kwargs)
        self._settings, self._data, self._media = settings, data, media
        self._codes = {"": code, "films": media_code, "search": search_code, "archive": archive_code}
        self.functions: dict[str, ServiceFunction] = {}
        self.queues = {
            "probe": self._queue("ProbeQueue", worker_timeout=PROBE_TIMEOUT),
            "thumbnails": self._queue("ThumbnailsQueue", worker_timeout=THUMBNAILS_TIMEOUT),
            "transcode": self._queue("TranscodeQueue", visibility=TRANSCODER_VISIBILITY),
            "purge": self._queue("PurgeQueue", worker_timeout=PURGE_TIMEOUT),
            "aggregates": self._queue("AggregatesQueue", worker_timeout=AGGREGATES_TIMEOUT),
            "tallies": self._queue("TalliesQueue", worker_timeout=TALLIES_TIMEOUT, fifo=True),
            "reverts": self._queue("RevertsQueue", worker_timeout=REVERTS_TIMEOUT),
        }
        probe, thumbnails, transcode, purge, aggregates, tallies, reverts = (
            created.queue for created in self.queues.values()
        )
        self._router({name.upper(): work_queue.queue for name, work_queue in self.queues.items()})
        self.queues["deliveries"] = self._queue("DeliveriesQueue", worker_timeout=DELIVERIES_TIMEOUT)
        changed = self.queues["deliveries"].queue
        self._audit(changed)
        self._arrivals()
        # One message per batch. With more, a slow source file would delay other files, and a timeout would redeliver
        # other messages.
        renditions, bucket = ",".join(settings.renditions), media.media.bucket_name
        self._worker(
            "Probe", memory_mb=PROBE_MB, timeout=PROBE_TIMEOUT, environment={"RENDITIONS": renditions}
        ).consume(probe, batch_size=1, max_concurrency=DECODERS[settings.target])
        self._worker(
            "Thumbnails", memory_mb=THUMBNAILS_MB, timeout=THUMBNAILS_TIMEOUT, environment={"MEDIA_BUCKET": bucket}
        ).consume(thumbnails, batch_size=1, max_concurrency=DECODERS[settings.target])
        # Also one message per batch, because the purge of a video with very many items takes long.
        self._purge(purge).consume(purge, batch_size=1, max_concurrency=PURGES_AT_A_TIME)
        self._aggregates(aggregates).consume(
            aggregates,
            batch_size=AGGREGATES_BATCH,
            window=AGGREGATES_WINDOW,
            max_concurrency=AGGREGATES_AT_A_TIME,
        )
        self._tallies().consume(tallies, batch_size=10, max_concurrency=TALLIES_AT_A_TIME)
        self._reverts(reverts).consume(reverts, batch_size=1, max_concurrency=REVERTS_AT_A_TIME)
        deliveries(self._function, settings, data, changed).consume(
            changed, batch_size=1, max_concurrency=settings.delivery_workers
        )
        add_scheduled(self, self._function, aggregates, changed)
        add_indexer(self, self._function, settings, data, media, cluster)
        add_compactor(self, self._function, settings, media)
        if settings.snapshot_days:
            add_snapshots(self, settings, data, media)
        add_catalogue(self, settings, media, data.encryption)
        add_query_policy(self, settings, media, data.encryption)

        cdk.CfnOutput(
            self,
            "TranscodeQueueArn",
            description="ARN of the transcode queue, for the policy of a transcoder",
            value=transcode.queue_arn,
        )

    def _function(self, id_: str, *, folder: str = "", to: str = "", **kwargs: Any) -> ServiceFunction:
        """Return a new function. `folder` names the folder of the code below `functions/`, by default the lower-cased
        id.

        `to` selects the package: "films" has the media libraries, "search" the search library, and "archive" DuckDB. By
        default, the package has none of them.
        """
        folder = folder or id_.lower()
        function = ServiceFunction(
            self,
            id_,
            folder=folder,
            settings=self._settings,
            code=self._codes[to],
            table=self._data.table,
            encryption=self._data.encryption,
            **kwargs,
        )
        self.functions[folder] = function
        return function

    def _queue(self, id_: str, **kwargs: Any) -> WorkQueue:
        return WorkQueue(self, id_, encryption=self._data.encryption, **kwargs)

    def _router(self, queues: Mapping[str, sqs.IQueue]) -> None:
        """Add the stream router. It creates jobs for videos. No other function sends messages to the job queues."""
        router = self._function(
            "Router",  # a new id would replace the log group, and would add a third stream consumer for a while
            folder="stream_router",
            timeout=STREAM_TIMEOUT,
            environment={
                "MEDIA_BUCKET": self._media.media.bucket_name,
                "SHARES": shares_of(JOB_QUEUES),
                **{f"{name}_QUEUE_URL": queue.queue_url for name, queue in queues.items()},
            },
        )
        router.allow_items("GetItem", "PutItem", of=[schema.VIDEO, schema.JOB])
        router.allow_items("UpdateItem", of=[schema.JOB], attributes=attributes.REQUESTED_JOB)
        # Captions that were extracted from a replaced source file.
        router.allow_items("DeleteItem", "Query", of=[schema.CAPTION])
        router.allow_items("UpdateItem", of=[schema.CAPTION], attributes=attributes.REMOVAL)
        router.allow_items("DeleteItem", "PutItem", "Query", of=[schema.SHARE])
        router.allow_items("UpdateItem", of=[schema.SHARE], attributes=attributes.QUOTA_CLAIMS)
        router.allow_send(*queues.values())
        router.read_stream(
            filters=ROUTER_FILTERS,
            given_up=self._media.archive,
            batch_size=50,
            window=cdk.Duration.seconds(0),  # a user may be waiting for the poster
            # The maximum. An upload then waits behind only a tenth of an import's records. Records of an item stay in
            # order, which is sufficient here.
            lanes=10,
        )

    def _audit(self, deliveries: sqs.IQueue) -> None:
        """Add the audit consumer, which appends to the audit trail and to the feed.

        The consumer's role cannot query, update or delete trail entries, and cannot access the main table.
        """
        audit = self._function(
            "Audit",
            timeout=STREAM_TIMEOUT,
            environment={
                "AUDIT_TABLE_NAME": self._data.audit_table.table_name,
                "AUDIT_DAYS": str(self._settings.audit_days),
                "ARCHIVE_BUCKET": self._media.archive.bucket_name,
                "DELIVERIES_QUEUE_URL": deliveries.queue_url,
            },
        )
        audit.allow_items("PutItem", of=schema.TRAIL_ENTITIES, table=self._data.audit_table)
        allow_appending(audit, self._data, deliveries)
        audit.allow_objects("PutObject", bucket=self._media.archive, below=(AUDIT_OBJECTS,))
        audit.read_stream(
            filters=AUDIT_FILTERS,
            given_up=self._media.archive,
            batch_size=AUDIT_BATCH,
            # Reduces the number of objects in the archive and of writes to the feed's logs.
            window=AUDIT_WINDOW,
        )

    def _arrivals(self) -> None:
        """Add the function that attaches each uploaded source file to its video."""
        sources = self._media.sources
        arrivals = self._function("Arrivals", timeout=ARRIVALS_TIMEOUT)
        arrivals.allow_items("GetItem", of=[schema.VIDEO, schema.UPLOAD])
        arrivals.allow_items(
            "UpdateItem",
            of=[schema.VIDEO, schema.UPLOAD],
            attributes=(*attributes.ARRIVED_SOURCE, *attributes.UPLOAD),
        )
        arrivals.allow_objects("GetObject", bucket=sources)
        arrivals.allow_listing(sources)
        arrivals.consume(self._media.arrivals, batch_size=10)

    def _worker(self, id_: str, **kwargs: Any) -> ServiceFunction:
        """Return a worker that reads source files. The lower-cased id is the name of the code folder and of the queue.

        Source files are untrusted, so the role may write only the attributes that the worker's job kinds declare.
        """
        queue, media = id_.lower(), self._media.media
        kinds = [kind for kind in KINDS.values() if kind.queue == queue]
        worker = self._function(id_, to="films", **kwargs)
        worker.allow_items("GetItem", of=[schema.VIDEO, schema.JOB])
        worker.allow_items(
            "UpdateItem",
            of=[schema.VIDEO, schema.JOB],
            attributes=(*attributes.written_by_workers_of(queue), *attributes.JOB),
            returning=["ALL_NEW"],  # the claimed job
        )
        worker.allow_objects("GetObject", bucket=self._media.sources)
        worker.allow_listing(self._media.sources)
        if any(kind.extra_entities for kind in kinds):
            worker.allow_items("ConditionCheckItem", "Query", of=[schema.VIDEO])
        if folders := dict.fromkeys(folder for kind in kinds for folder in kind.stores):
            worker.allow_objects("PutObject", bucket=media, below=[f"{folder}/*" for folder in folders])
        return worker

    def _purge(self, queue: sqs.IQueue) -> ServiceFunction:
        """Return the worker that deletes the remaining items and objects of a deleted video or playlist.

        If time runs out, the worker sends itself a message to continue later.
        """
        sources, media = self._media.sources, self._media.media
        folders = [f"{folder}/*" for folder in MEDIA_FOLDERS]
        purge = self._function(
            "Purge",
            timeout=PURGE_TIMEOUT,
            feeds_itself=True,
            environment={
                "SOURCES_BUCKET": sources.bucket_name,
                "MEDIA_BUCKET": media.bucket_name,
                "PURGE_QUEUE_URL": queue.queue_url,
            },
        )
        purge.allow_items("GetItem", "Query", of=[schema.VIDEO, schema.PLAYLIST, schema.VIEW_COUNTER])
        purge.allow_items("Query", of=[schema.ORDER])
        purge.allow_items("ConditionCheckItem", of=[schema.VIDEO])
        purge.allow_items("BatchWriteItem", of=[schema.VIDEO, schema.RATING, schema.PLAYLIST])
        purge.allow_items("DeleteItem", of=[schema.ORDER, schema.PLAYLIST, schema.VIEW_COUNTER, schema.RESERVATION])
        purge.allow_items("UpdateItem", of=[schema.PLAYLIST], attributes=attributes.PLAYLIST_ENTRIES)
        purge.allow_queries(schema.RELATION_INDEX)
        purge.allow_send(queue)
        purge.allow_listing(sources)
        purge.allow_listing(media, below=folders)
        purge.allow_objects("DeleteObject", bucket=sources)
        purge.allow_objects("DeleteObject", bucket=media, below=folders)
        return purge

    def _aggregates(self, queue: sqs.IQueue) -> ServiceFunction:
        """Return the worker that updates totals, and the index entries of videos.

        If work remains or is due soon, the worker sends itself a message.
        """
        aggregates = self._function(
            "Aggregates",
            timeout=AGGREGATES_TIMEOUT,
            feeds_itself=True,
            environment={"AGGREGATES_QUEUE_URL": queue.queue_url},
        )
        aggregates.allow_items(
            "BatchGetItem", "ConditionCheckItem", "DeleteItem", "GetItem", "PutItem", "Query", of=[schema.VIDEO]
        )
        aggregates.allow_items(
            "UpdateItem",
            of=[schema.VIDEO, schema.CREDIT, schema.RELEASE],
            attributes=(*attributes.SETTLED_VIDEO, *attributes.ENTRY),
        )
        aggregates.allow_items(
            "UpdateItem", of=[schema.PROFILE], attributes=(*attributes.USER_VIDEOS, *attributes.USER_TOTALS)
        )
        aggregates.allow_items("UpdateItem", of=[schema.TAG_COUNT], attributes=attributes.TAG_COUNT)
        aggregates.allow_items("UpdateItem", of=[schema.SERVICE_TOTALS], attributes=attributes.SERVICE_TOTALS)
        aggregates.allow_items("UpdateItem", of=[schema.FOLDER_COUNT], attributes=attributes.FOLDER_COUNT)
        aggregates.allow_items("Query", of=[schema.ORDER])
        aggregates.allow_items("UpdateItem", of=[schema.ORDER], attributes=attributes.SORT_PARTITION)
        aggregates.allow_send(queue)
        return aggregates

    def _tallies(self) -> ServiceFunction:
        """Return the worker that adds views and ratings to counters, and stores each view counter's value every hour."""
        tallies = self._function("Tallies", timeout=TALLIES_TIMEOUT)
        tallies.allow_items("GetItem", of=[schema.VIDEO, schema.VIEW_COUNTER], attributes=attributes.TALLIED)
        tallies.allow_items("UpdateItem", of=[schema.VIEW_COUNTER], attributes=attributes.TALLIED_VIEWS)
        tallies.allow_items("UpdateItem", of=[schema.RATING_TOTALS], attributes=attributes.TALLIED_RATINGS)
        tallies.allow_items("PutItem", of=[schema.VIEW_HOUR, schema.VIEW_DAY, schema.PROCESSED_PAGE])
        tallies.allow_items("BatchGetItem", of=[schema.ORDER, schema.RATING_TOTALS], attributes=attributes.SORT_RATING)
        tallies.allow_items("ConditionCheckItem", of=[schema.VIDEO])
        tallies.allow_items("DeleteItem", "PutItem", of=[schema.ORDER])
        tallies.allow_items("UpdateItem", of=[schema.ORDER], attributes=attributes.SORT_VALUE)
        tallies.allow_items("Query", of=[schema.PROCESSED_PAGE])
        return tallies

    def _reverts(self, queue: sqs.IQueue) -> ServiceFunction:
        """Return the worker that reverts large change sets and moves folders, page by page.

        If time runs out, the worker sends itself a message to continue later.
        """
        reverts = self._function(
            "Reverts",
            timeout=REVERTS_TIMEOUT,
            feeds_itself=True,
            environment={**undo_environment(self._data, self._settings), "REVERTS_QUEUE_URL": queue.queue_url},
        )
        allow_undo(reverts, self._data)
        reverts.allow_items("DeleteItem", "GetItem", "PutItem", "Query", "UpdateItem", of=[schema.REVERT])
        reverts.allow_send(queue)
        return reverts
