"""Resources that the background work of a request uses in the stream, the router, the audit trail, the queues and the
workers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from bench.cost.run import (
    ADD_CREDIT,
    ARRIVAL,
    CREATE,
    DESCRIBE,
    PUBLISH,
    RATE,
    REQUESTS,
    STATUS,
    VIEW,
    VIEW_LATER,
    VIEW_OF,
    MeasuredService,
    clients,
    feed_client,
    items_of,
    measured_service,
)
from functions.audit import handler as audit
from functions.deliveries import handler as deliveries
from functions.probe import handler as probe
from functions.thumbnails import handler as thumbnails
from local.testbed.background import BackgroundWork, FakeQueue
from local.testbed.harness import MEDIA_BUCKET, SOURCES_BUCKET, Api, Context, FakeResources
from local.testbed.meter import Meter
from local.testbed.streams import sqs_event
from local.testbed.units import CapacityUnits, StoredSize
from local.testbed.video_files import film
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.aws.s3 import make_client as make_s3_client
from shared.core.attributes import AttributeMap
from shared.core.change_types import JOB_STATES
from shared.core.settings import LambdaHandler
from shared.feed.log import Feed
from shared.schema import (
    AUDIT_INDEXES,
    AUDIT_TABLE_NAME,
    CREDIT,
    FEED_ENTITIES,
    JOB,
    MARKER,
    PARTITION_KEY,
    RATING,
    SORT_KEY,
    TABLE_NAME,
    VIDEO,
    VIEW_COUNTER,
    VIEWER,
)

FIFO_QUEUES = frozenset({"tallies"})
"""Names of the FIFO queues. Requests to FIFO queues cost more than requests to standard queues."""
RENDITIONS = ("1080p", "720p", "480p", "240p")
"""Names of the default renditions of an environment."""
SOURCE_SIZE = (1920, 1080)
"""Width and height of the source video in pixels. This size requires all renditions."""
FOLLOWED = (CREATE, DESCRIBE, PUBLISH, STATUS, ADD_CREDIT, ARRIVAL, VIEW, VIEW_LATER, VIEW_OF, RATE)
"""Names of the requests with measured background work. The reports of a transcoder are excluded. Their background work
is included in the work of ARRIVAL, the upload of a source file."""


@dataclass
class BackgroundCost:
    """Sum of the background work that one request causes."""

    work: CapacityUnits = field(default_factory=CapacityUnits)
    """Capacity units for jobs, video documents and totals."""
    trail: CapacityUnits = field(default_factory=CapacityUnits)
    """Capacity units for writing the audit trail."""
    feed: CapacityUnits = field(default_factory=CapacityUnits)
    """Capacity units for writing the change feed. `trail` does not include these units."""
    delivery_messages: int = 0
    """Number of messages to the queue of the delivery worker. The audit function sends one message for each batch of
    stream records."""
    delivery_checks: CapacityUnits = field(default_factory=CapacityUnits)
    """Capacity units of the delivery worker, which looks up subscriptions for each message in `delivery_messages`."""
    delivery_trips: int = 0
    trips: int = 0
    routed: int = 0
    """Number of stream records that invoke the router."""
    routed_trips: int = 0
    """Number of sequential round trips of the router to DynamoDB."""
    audited: int = 0
    """Number of stream records that invoke the audit function."""
    messages: int = 0
    """Number of messages to all worker queues, except the queue of deliveries."""
    messages_by_queue: Counter[str] = field(default_factory=Counter)
    """Number of messages in `messages`, by name of the queue."""
    fifo_messages: int = 0
    """Number of messages to FIFO queues. `messages` includes them."""
    worked: int = 0
    """Number of messages that the service's functions process. Messages for transcoders are excluded."""
    log_lines: int = 0
    metric_lines: int = 0
    trail_stored: StoredSize = field(default_factory=StoredSize)
    """Storage that the request adds to the audit trail, including billed overhead."""
    feed_stored: StoredSize = field(default_factory=StoredSize)
    """Storage that the request adds to the change feed, including billed overhead."""
    stored: StoredSize = field(default_factory=StoredSize)
    """Storage of jobs and deduplication items after the background work is complete."""


def measure_background() -> dict[str, BackgroundCost]:
    """Return the background work of each request in FOLLOWED, by name of the request."""
    return {request: follow(request) for request in FOLLOWED}


def follow(request: str) -> BackgroundCost:
    """Return the background work of one request, measured in empty tables. Raises RuntimeError if the request fails."""
    with measured_service() as service:
        client, api = make_s3_client(), service.api()
        for bucket in (MEDIA_BUCKET, SOURCES_BUCKET):
            client.create_bucket(Bucket=bucket)
        meter = _BackgroundMeter(service, api, Objects(client, sleep=lambda _: None))
        arrange, call = REQUESTS[request]
        argument = _upload_source(api) if request == ARRIVAL else arrange(api)
        meter.run()
        before = _in_audit_table()
        meter.followed = BackgroundCost()
        reply = call(api, argument)
        if reply.status >= 300:
            raise RuntimeError(f"{request} returned {reply.status}: {reply.body.decode()}")
        meter.run()
        after = _in_audit_table()
        meter.followed.trail_stored, meter.followed.feed_stored = (
            now + then.times(-1) for now, then in zip(after, before, strict=True)
        )
        meter.followed.stored = _stored_size()
        return meter.followed


def _upload_source(api: Api) -> str:
    """Upload a source file that the workers can decode. Returns `<videoId>/upload/<uploadId>`."""
    data = film(1, SOURCE_SIZE)
    video_id = api.create()["videoId"]
    begun = api.post(f"/v1/videos/{video_id}/upload", {"contentType": "video/mp4", "fileSize": len(data)}).json
    key = f"{video_id}/{begun['uploadId']}"
    make_s3_client().put_object(Bucket=SOURCES_BUCKET, Key=key, Body=data, ContentType="video/mp4")
    return key.replace("/", "/upload/")


class _BackgroundMeter:
    """Meter of the service's background functions. It runs the functions, and adds their units, messages, invocations
    and log lines to `followed`."""

    def __init__(self, service: MeasuredService, api: Api, objects: Objects) -> None:
        self.followed = BackgroundCost()
        self._service = service
        self._api = api
        self._background = BackgroundWork(service.table, api.clock)
        trail = Table(AUDIT_TABLE_NAME, service.table.client)
        self._delivery_queue = FakeQueue()
        feed = Feed(Table(AUDIT_TABLE_NAME, feed_client()), api.clock)
        resources = FakeResources(
            service.table, api.clock, audit=trail, objects=objects, queues={"deliveries": self._delivery_queue}
        )
        with mock.patch.object(audit, "Feed", return_value=feed):  # the requests for the feed are counted separately
            self._audit = resources.make(audit.lambda_handler, ARCHIVE_BUCKET=MEDIA_BUCKET)
        resources = FakeResources(service.table, api.clock, audit=trail, objects=objects)
        self._workers = {
            "probe": resources.make(probe.lambda_handler, RENDITIONS=",".join(RENDITIONS)),
            "thumbnails": resources.make(thumbnails.lambda_handler),
            "aggregates": self._background.aggregates,
            "tallies": self._background.tallies,
        }
        self._deliveries = resources.make(deliveries.lambda_handler)
        self._meter = Meter(*clients())
        self._feed_meter = Meter(feed_client(), clients()[1])

    def run(self) -> None:
        """Process the stream and the queues until both are empty."""
        while self._read_stream() or self._take_messages():
            pass

    def _read_stream(self) -> bool:
        records = self._background.records()
        if records:
            audited_records = [record for record in records if _invokes_audit(record)]
            self.followed.audited += len(audited_records)
            self.followed.routed += sum(_invokes_router(record) for record in records)
            trips = self.followed.trips
            self.followed.work += self._used(self._background.router, records)
            self.followed.routed_trips += self.followed.trips - trips
            with self._feed_meter.measure() as appended:
                self.followed.trail += self._used(self._audit, audited_records)
            self.followed.feed += appended.units
            self.followed.trips += appended.trips
            self._run_deliveries()
        return bool(records)

    def _run_deliveries(self) -> None:
        """Run the delivery worker for each waiting message, and count its units separately."""
        for body in self._delivery_queue.take():
            self.followed.delivery_messages += 1
            with self._meter.measure() as used:
                sent = str(int(self._api.clock() * 1000))
                self._deliveries(sqs_event(body, SentTimestamp=sent), Context())
            self.followed.delivery_checks += used.units
            self.followed.delivery_trips += used.trips

    def _take_messages(self) -> bool:
        waiting = [(name, body) for name, queue in self._background.queues.items() for body in queue.take()]
        self.followed.messages += len(waiting)
        self.followed.messages_by_queue.update(name for name, _ in waiting)
        self.followed.fifo_messages += sum(name in FIFO_QUEUES for name, _ in waiting)
        for name, body in waiting:
            if name == "transcode":
                self._transcode(body)
                continue
            self.followed.worked += 1
            self.followed.work += self._used(self._workers[name], sqs_event(body)["Records"])
        return bool(waiting)

    def _transcode(self, message: Mapping[str, Any]) -> None:
        """Send the reports of a transcoder, without counting their units. The reports are separate requests in the
        bill."""
        attempt = {"inputHash": message["inputHash"], "attempt": message["attempt"]}
        for report in ({"state": "running"}, {"state": "done", "uri": message["output"]}):
            path, body = message["report"], attempt | report
            reply = self._api.request("PUT", path, json_body=body, user="transcoder", scopes="videos/transcode")
            if reply.status >= 300:
                raise RuntimeError(f"{path} returned {reply.status}: {reply.body.decode()}")

    def _used(self, function: LambdaHandler, records: Sequence[Mapping[str, Any]]) -> CapacityUnits:
        log = self._service.log
        lines, metric_lines = log.lines, log.metric_lines
        with self._meter.measure() as used:
            response = function({"Records": records}, Context())
        if response != {"batchItemFailures": []}:
            raise RuntimeError(f"the function did not process all records: {response}")
        self.followed.trips += used.trips
        self.followed.log_lines += log.lines - lines
        self.followed.metric_lines += log.metric_lines - metric_lines
        return used.units


def _invokes_router(record: Mapping[str, Any]) -> bool:
    """Return whether a stream record matches ROUTER_FILTERS of infra/jobs_stack.py."""
    keys = record["dynamodb"]["Keys"]
    is_counted = record["eventName"] != "REMOVE" and (
        keys[PARTITION_KEY]["S"].startswith((VIEWER.partition_prefix, RATING.partition_prefix))
        or (
            keys[PARTITION_KEY]["S"].startswith(VIEW_COUNTER.partition_prefix)
            and keys[SORT_KEY]["S"] == VIEW_COUNTER.sk
        )
    )
    return is_counted or _is_video(record) or _job_state(record) == "queued"


def _invokes_audit(record: Mapping[str, Any]) -> bool:
    """Return whether a stream record matches AUDIT_FILTERS of infra/jobs_stack.py.

    Only the entities that this module measures are considered.
    """
    is_credit = record["dynamodb"]["Keys"][SORT_KEY]["S"].startswith(CREDIT.sort_prefix)
    return is_credit or _is_video(record) or _job_state(record) in JOB_STATES


def _is_video(record: Mapping[str, Any]) -> bool:
    return bool(record["dynamodb"]["Keys"][SORT_KEY]["S"] == VIDEO.sk)


def _job_state(record: Mapping[str, Any]) -> str | None:
    if not record["dynamodb"]["Keys"][SORT_KEY]["S"].startswith(JOB.sort_prefix):
        return None
    state: str = record["dynamodb"]["NewImage"]["state"]["S"]
    return state


def _in_audit_table() -> tuple[StoredSize, StoredSize]:
    """Return the storage of the audit trail and of the change feed."""
    trail, feed = list[AttributeMap](), list[AttributeMap]()
    for item in items_of(AUDIT_TABLE_NAME):
        is_feed = item[PARTITION_KEY]["S"].startswith(tuple(entity.partition_prefix for entity in FEED_ENTITIES))
        (feed if is_feed else trail).append(item)
    return StoredSize.of(trail, AUDIT_INDEXES), StoredSize.of(feed, AUDIT_INDEXES)


def _stored_size() -> StoredSize:
    """Return the storage of jobs and of deduplication items."""
    items = [item for item in items_of(TABLE_NAME) if item[SORT_KEY]["S"].startswith((JOB.sort_prefix, MARKER.sk))]
    return StoredSize.of(items)
