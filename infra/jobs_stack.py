"""Asynchronous processing: stream consumers, queues and workers."""

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra import attributes
from infra.data_stack import DataStack
from infra.function import ServiceFunction
from infra.media_stack import ARRIVALS_TIMEOUT, MediaStack
from infra.queue import WorkQueue
from infra.reverts import allow_undo, undo_environment
from infra.scheduled import add_scheduled
from infra.search import add_indexer
from infra.settings import DeploymentSettings, Target
from infra.subscriptions import DELIVERIES_TIMEOUT, allow_appending, deliveries, shares_of
from shared import schema
from shared.job_kinds import JOB_QUEUES, KINDS, MEDIA_FOLDERS

STREAM_TIMEOUT = cdk.Duration.seconds(60)
"""Timeout of the stream consumers, for a batch with three slow requests per record."""

AUDIT_BATCH, AUDIT_WINDOW = 400, cdk.Duration.seconds(1)
"""Batch size and window of the audit consumer.

Batches of a shard are processed in sequence, because the feed preserves the order of a video's changes. Lambda's
parallelization factor preserves only the order per item. Large batches compensate: `python -m bench.trail` measures
them.
"""

PROBE_TIMEOUT = cdk.Duration.seconds(120)
PROBE_MB = 1024
"""Memory of the probe, which reads a file's header and a little of its end."""

THUMBNAILS_TIMEOUT = cdk.Duration.seconds(300)
THUMBNAILS_MB = 1769
"""One core: decoding is CPU-bound, and the cost is memory times duration either way."""

PURGE_TIMEOUT = cdk.Duration.seconds(120)
"""Timeout for a video with ten thousand children. More children continue with another message."""

PURGES_AT_A_TIME = 5
"""Maximum concurrency of the purge worker. Purges are not urgent, so readers keep the table's throughput."""

AGGREGATES_TIMEOUT = cdk.Duration.seconds(60)
AGGREGATES_BATCH, AGGREGATES_WINDOW = 1000, cdk.Duration.seconds(1)
"""Maximum videos per batch, and the added delay of their totals.

A thousand need about ten transactions, a second or two, and 1 MB of the 6 MB payload limit.
"""

AGGREGATES_AT_A_TIME = 2
"""Lowest concurrency that Lambda allows.

More workers would contend, because an owner's videos share totals. Each uses its part of an index partition's
throughput (shared/background/aggregates.py).
"""

TALLIES_TIMEOUT = cdk.Duration.seconds(30)
"""Timeout of the tallies worker.

It is short, because a failed message blocks its video for the visibility timeout, six times as long.
"""
TALLIES_AT_A_TIME = 10
"""Maximum videos counted in parallel. Messages of one video are processed in sequence."""

REVERTS_TIMEOUT = cdk.Duration.seconds(120)
"""Timeout for about ten pages of a change set. A larger one continues with another message."""
REVERTS_AT_A_TIME = 5
"""Maximum concurrency of reverts.

One worker reverts a change set, eight videos in parallel. Reverts are not urgent, so readers keep the table's
throughput.
"""

TRANSCODER_VISIBILITY = cdk.Duration.minutes(15)
"""Visibility timeout for an external transcoder, equal to a job's lease between two reports.

A slower transcoder extends it by ChangeMessageVisibility, or deletes the message once it has claimed the job.
"""

DECODERS: Mapping[Target, int] = {
    "aws": 10,
    "local": 2,  # the least there is: MiniStack unpacks the function, 200 MB, for each that runs at a time
}
"""Maximum concurrency of each decoding worker.

Uploads then wait in the queue instead of using the account's whole Lambda concurrency.
"""

AUDIT_OBJECTS = "audit/*"
"""Prefix of the audit's objects in the archive bucket."""


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
    # A video: what is to be made of it, or what is counted of it, may have changed; a playlist that is gone; a change set
    # that is to be taken back. Of the latter two the router passes over the rest: filters of their own would be too many.
    {"dynamodb": _meta_of(schema.VIDEO, schema.PLAYLIST, schema.REVERT)},
    # A job that waits for its message, or has ended: then the next of its owner may have its turn.
    {"dynamodb": {**_JOB_ITEM, "NewImage": {"state": {"S": ["queued", "done", "failed", "withdrawn"]}}}},
    # One that was open and is gone with its video.
    {"eventName": ["REMOVE"], "dynamodb": {**_JOB_ITEM, "OldImage": {"state": {"S": ["queued", "running"]}}}},
    # A counter, whose hour may have begun; a view of a viewer or a key; a rating. What is removed has been counted.
    {"eventName": _WRITTEN, "dynamodb": _meta_of(schema.VIEW_COUNTER)},
    {"eventName": _WRITTEN, "dynamodb": _partitions_of(schema.VIEWER, schema.RATING)},
)
"""Filters of the stream router.

Five is the limit without a higher quota: https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventfiltering.html
"""
AUDIT_FILTERS: tuple[Mapping[str, Any], ...] = (
    {"dynamodb": _meta_of(schema.VIDEO, schema.PLAYLIST)},
    # Not `running`: those are heartbeats.
    {"dynamodb": {**_JOB_ITEM, "NewImage": {"state": {"S": ["queued", "done", "failed", "withdrawn"]}}}},
    # A credit, a release, captions or chapters that are written, or that somebody takes out: not one that goes with its video.
    {"eventName": _WRITTEN, "dynamodb": _RELATION_ITEM},
    {"eventName": ["REMOVE"], "dynamodb": {**_RELATION_ITEM, "OldImage": {"removing": {"BOOL": [True]}}}},
    # What was imported of ratings: not what is counted of a user's.
    {
        "eventName": _WRITTEN,
        "dynamodb": {
            "Keys": {"sk": {"S": [schema.RATING_TOTALS.sk]}},
            "NewImage": {"updatedBy": {"S": [{"anything-but": ["job:tallies"]}]}},
        },
    },
)
"""Filters of the audit consumer.

Other items invoke no function and cost nothing: playlist and list entries, idempotency keys.
"""


class JobsStack(cdk.Stack):
    """Stateless resources: the stack can be destroyed and recreated.

    The sweeper requeues messages that were lost with the queues.
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
        data: DataStack,
        media: MediaStack,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, id_, description="Video metadata: stream readers, queues and workers", **kwargs)
        self._settings, self._data, self._media = settings, data, media
        self._codes = {"": code, "films": media_code, "search": search_code}
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
        # One message at a time, so that a film that takes long delays no other, and counts as its own failure.
        renditions, bucket = ",".join(settings.renditions), media.media.bucket_name
        self._worker(
            "Probe", memory_mb=PROBE_MB, timeout=PROBE_TIMEOUT, environment={"RENDITIONS": renditions}
        ).consume(probe, batch_size=1, max_concurrency=DECODERS[settings.target])
        self._worker(
            "Thumbnails", memory_mb=THUMBNAILS_MB, timeout=THUMBNAILS_TIMEOUT, environment={"MEDIA_BUCKET": bucket}
        ).consume(thumbnails, batch_size=1, max_concurrency=DECODERS[settings.target])
        # One at a time, for the same reason: a video may have very much that belongs to it.
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
        add_indexer(self, self._function, data, media)

        cdk.CfnOutput(self, "TranscodeQueueArn", description="For a transcoder's policy", value=transcode.queue_arn)

    def _function(self, id_: str, *, folder: str = "", to: str = "", **kwargs: Any) -> ServiceFunction:
        """Return the function of a folder, by default the lower-cased id.

        `to` selects a package with the libraries for "films" or "search".
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
        """Add the stream router, which creates jobs for videos and is the only sender of job messages."""
        router = self._function(
            "Router",  # not named like its folder: another id would give it another log group, and a third reader of the stream for a while
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
        # Captions of a film that was replaced.
        router.allow_items("DeleteItem", "Query", of=[schema.CAPTION])
        router.allow_items("UpdateItem", of=[schema.CAPTION], attributes=attributes.LEAVING)
        router.allow_items("DeleteItem", "PutItem", "Query", of=[schema.SHARE])
        router.allow_items("UpdateItem", of=[schema.SHARE], attributes=attributes.QUOTA_CLAIMS)
        router.allow_send(*queues.values())
        router.read_stream(
            filters=ROUTER_FILTERS,
            given_up=self._media.archive,
            batch_size=50,
            window=cdk.Duration.seconds(0),  # somebody waits for the poster
            # As many as there can be: an upload waits behind a tenth of what an import writes. Order is kept for each item,
            # and nothing here needs more.
            lanes=10,
        )

    def _audit(self, deliveries: sqs.IQueue) -> None:
        """Add the audit consumer, which appends to the audit trail and the feed.

        It cannot read, change or delete trail entries, or access the main table.
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
            # Fewer and larger objects in the archive, and fewer writes of the feed's logs.
            window=AUDIT_WINDOW,
        )

    def _arrivals(self) -> None:
        """Add the function that assigns an uploaded source file to its video."""
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
        """Return the worker for the queue of its name.

        Source files are untrusted, so it may write only attributes that their job kinds declare.
        """
        queue, media = id_.lower(), self._media.media
        kinds = [kind for kind in KINDS.values() if kind.queue == queue]
        worker = self._function(id_, to="films", **kwargs)
        worker.allow_items("GetItem", of=[schema.VIDEO, schema.JOB])
        worker.allow_items(
            "UpdateItem",
            of=[schema.VIDEO, schema.JOB],
            attributes=(*attributes.written_by_workers_of(queue), *attributes.JOB),
            returning=["ALL_NEW"],  # the job that it takes
        )
        worker.allow_objects("GetObject", bucket=self._media.sources)
        worker.allow_listing(self._media.sources)
        if any(kind.extra_entities for kind in kinds):
            worker.allow_items("ConditionCheckItem", "Query", of=[schema.VIDEO])
        if folders := dict.fromkeys(folder for kind in kinds for folder in kind.stores):
            worker.allow_objects("PutObject", bucket=media, below=[f"{folder}/*" for folder in folders])
        return worker

    def _purge(self, queue: sqs.IQueue) -> ServiceFunction:
        """Return the worker that deletes leftovers of a deleted video or playlist.

        It queues remaining work for itself.
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
        purge.allow_items("ConditionCheckItem", of=[schema.VIDEO])
        purge.allow_items("BatchWriteItem", of=[schema.VIDEO, schema.RATING, schema.PLAYLIST])
        purge.allow_items("DeleteItem", of=[schema.PLAYLIST, schema.VIEW_COUNTER, schema.RESERVATION])
        purge.allow_items("UpdateItem", of=[schema.PLAYLIST], attributes=attributes.PLAYLIST_ENTRIES)
        purge.allow_queries(schema.RELATION_INDEX)
        purge.allow_send(queue)
        purge.allow_listing(sources)
        purge.allow_listing(media, below=folders)
        purge.allow_objects("DeleteObject", bucket=sources)
        purge.allow_objects("DeleteObject", bucket=media, below=folders)
        return purge

    def _aggregates(self, queue: sqs.IQueue) -> ServiceFunction:
        """Return the worker that maintains totals and index positions.

        It queues remaining and imminent work for itself.
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
        aggregates.allow_send(queue)
        return aggregates

    def _tallies(self) -> ServiceFunction:
        """Return the worker that counts views and ratings from the stream, and stores hourly counter values."""
        tallies = self._function("Tallies", timeout=TALLIES_TIMEOUT)
        tallies.allow_items("GetItem", of=[schema.VIDEO, schema.VIEW_COUNTER], attributes=attributes.TALLIED)
        tallies.allow_items("UpdateItem", of=[schema.VIEW_COUNTER], attributes=attributes.TALLIED_VIEWS)
        tallies.allow_items("UpdateItem", of=[schema.RATING_TOTALS], attributes=attributes.TALLIED_RATINGS)
        tallies.allow_items("PutItem", of=[schema.VIEW_HOUR, schema.VIEW_DAY, schema.PROCESSED_PAGE])
        tallies.allow_items("Query", of=[schema.PROCESSED_PAGE])
        return tallies

    def _reverts(self, queue: sqs.IQueue) -> ServiceFunction:
        """Return the worker that reverts large change sets page by page. It queues remaining work for itself."""
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
