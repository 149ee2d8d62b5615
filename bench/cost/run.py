"""Measurement of every request of the access patterns, with realistic or with minimal items."""

import copy
import io
import logging
import os
import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest import mock

from moto import mock_aws
from moto.dynamodb.models.table import Table as MotoTable

from local.access_patterns import ACCESS_PATTERNS
from local.stream_records import stream_record
from local.testbed.calls import CALLS
from local.testbed.harness import NOW, Api, Reply, create_audit_table, create_table, make_api
from local.testbed.lean_moto import MotoClient
from local.testbed.meter import Meter, Partition
from local.testbed.units import CapacityUnits, StoredSize
from shared.aws import boto3_client
from shared.aws.dynamodb import Table
from shared.aws.stream import Record
from shared.core.attributes import AttributeMap, Item, decode_item, encode_item
from shared.core.caller import Caller
from shared.entities import Video
from shared.history.entries import entry
from shared.history.trail import AuditStore
from shared.schema import AUDIT_TABLE_NAME, SORT_KEY, TABLE_NAME, VIDEO
from shared.videos.entries import tag_entries
from shared.videos.video import new_item, stamp

VIDEOS = 60
"""Number of videos in the catalogue for list requests. Each list has more than one page."""
CREDITS = 10
"""Number of credits of every tenth video. The other videos have one credit."""
AUDIT_DAYS = 400

VIEW, RATE = "POST /v1/videos/{videoId}/views", "PUT /v1/videos/{videoId}/rating"
VIEW_LATER, VIEW_OF = (f"{VIEW} ({what})" for what in ("later in the hour", "viewerId"))
ADD_CREDIT = "PUT /v1/videos/{videoId}/credits/{personId}"
CREATE, PATCH, ARRIVAL = "POST /v1/videos", "PATCH /v1/videos/{videoId}", "S3 notifies: arrivals"
DESCRIBE, PUBLISH, STATUS = (f"{PATCH} ({what})" for what in ("description", "visibility", "status"))
"""Names of additional requests that change the description, the visibility or the status of a video. No list shows the
description, all lists show the visibility, and totals depend on the status."""
POLL = "GET /v1/changes (nothing new)"
"""Name of the request that polls the feed of all changes without finding a new change."""
REVERTS, MANY = "the queue: reverts", 20
UNDO = f"{REVERTS} ({MANY} videos)"

DESCRIPTION = (
    "Two lighthouse keepers on a small island find a camera that the tide brought in, and with it a film that nobody "
    "has seen. What it shows has not happened yet. While the autumn storms close in and no boat can land, they have to "
    "decide what to make of the last four minutes, and whom on the mainland to tell about it."
)
VIDEO_BODY: Mapping[str, Any] = {
    "title": "The keepers of the northern light",
    "description": DESCRIPTION,
    "duration": 5_460_000,
    "category": "c",
    "tags": ["drama", "island", "t"],
    "releaseYear": 1993,
    "language": "en",
    "fileSize": 4_831_838_208,
    "format": "mp4",
    "resolution": "1920x1080",
    "videoCodec": "h264",
    "audioCodec": "aac",
    "frameRate": 23.976,
    "resolutions": {
        f"{height}p": f"s3://films/renditions/northern-light/{height}p.mp4" for height in (240, 480, 720, 1080)
    },
    "thumbnails": {
        "poster": {"url": "https://pictures.example/northern-light/poster.jpg", "width": 1280, "height": 720},
        "small": {"url": "https://pictures.example/northern-light/small.jpg", "width": 320, "height": 180},
    },
    "metadata": {"director": "Ada Mason", "studio": "Tidewater", "ageRating": "12", "episode": 3},
}
BODIES: Mapping[str, Mapping[str, Any]] = {
    "/v1/videos": VIDEO_BODY,
    "/credits/": {"name": "Josephine Adeyemi", "roles": [{"category": "actor", "characters": ["Keeper"]}]},
    "/releases/": {"titles": [{"title": "Ngā kaitiaki o te rama raki"}]},
    "/v1/playlists": {"title": "For a long evening", "description": DESCRIPTION[:120]},
}
"""Additional fields for the bodies of requests that create resources, by a part of the request's path. A part that does
not end with `/` must be the end of the path."""


@dataclass(frozen=True)
class MeasuredRequest:
    """Resources that one request uses: capacity units, data transfer and log lines."""

    request: str
    units: CapacityUnits
    operations: tuple[str, ...]
    least: CapacityUnits
    """Minimum units that any design would need to read and write the same items."""
    fewest: int
    """Minimum number of DynamoDB requests that any design would need."""
    trips: int
    bytes_out: int
    """Size of the response body in bytes. 0 for functions without an HTTP route."""
    log_lines: int
    """Number of log lines that the function's code writes. Lambda adds further lines."""
    metric_lines: int
    read_from: Mapping[Partition, float] = field(default_factory=dict)
    """Read units by partition."""
    written_to: Mapping[Partition, float] = field(default_factory=dict)
    """Write units by partition of a table or an index."""


@dataclass(frozen=True)
class CatalogueSize:
    """Typical items of a video, and the storage of one video."""

    video: AttributeMap
    """Item of a video, as the service stores it."""
    stored: StoredSize
    """Storage of one video and its related items, including billed overhead. Jobs are excluded."""
    trail: AttributeMap
    """Audit entry of one change."""


class LifelikeApi(Api):
    """Testbed API that adds fields to minimal request bodies, because real clients send more fields."""

    def request(self, method: str, path: str, **options: Any) -> Reply:
        """Send one request. If the request creates a resource, the body gets additional fields from BODIES."""
        body = options.get("json_body")
        if body is not None and method in ("POST", "PUT"):
            for part, more in BODIES.items():
                if path.endswith(part) or (part.endswith("/") and part in path):
                    options["json_body"] = {**more, **body}
        return super().request(method, path, **options)


def _private(api: Api) -> str:
    return str(api.create("admin", userId="alice", status="processing", **VIDEO_BODY)["videoId"])


def _changed(user: str = "alice", **fields: Any) -> Callable[[Api, str], Reply]:
    return lambda api, video_id: api.patch(f"/v1/videos/{video_id}", fields, user=user)


def _view(api: Api, video_id: str, body: Mapping[str, Any] | None = None) -> Reply:
    return api.post(f"/v1/videos/{video_id}/views", body, user="bob")


def _viewed(api: Api) -> str:
    """Publish a video, count a view of the video in the current hour, and return the video's id."""
    video_id = str(api.publish(**VIDEO_BODY)["videoId"])
    _view(api, video_id)
    return video_id


def _many_changed(api: Api) -> str:
    """Create a change set of MANY videos, start its revert, and return the revert's path."""
    trail, caller = (
        AuditStore(Table(AUDIT_TABLE_NAME, api.table.client)),
        Caller("alice", frozenset(), correlation_id="set"),
    )
    for number in range(MANY):
        before = _video(number)
        after = stamp({**before, "description": DESCRIPTION[::-1]}, caller=caller, now=NOW, version=2)
        made = entry(Record(stream_record(before, after)), AUDIT_DAYS)
        if made is None:
            raise RuntimeError("the audit trail has no entry of a change")
        trail.add(made)
        api.table.client.put_item(TableName=api.table.name, Item=encode_item(after))
    with mock.patch("shared.history.changeset_reverts.MAX_ENTRIES_INLINE", 0):
        begun = api.post("/v1/changesets/set/revert")
    return f"/v1/changesets/set/reverts/{begun.json['revertId']}"


def _one_by_one(api: Api, path: str) -> Reply:
    """Run a revert without threads. The order of requests is then the same in each run."""
    with mock.patch("shared.history.parts.CONCURRENT_PARTS", 1):
        return CALLS[REVERTS][1](api, path)


REQUESTS: Mapping[str, tuple[Callable[[Api], str], Callable[[Api, str], Reply]]] = CALLS | {
    DESCRIBE: (_private, _changed(description=DESCRIPTION[::-1])),
    PUBLISH: (lambda api: _ready(api, _private(api)), _changed(visibility="public")),
    STATUS: (_private, _changed("admin", status="ready")),
    VIEW_LATER: (_viewed, _view),
    UNDO: (_many_changed, _one_by_one),
    POLL: (
        lambda api: str(api.get("/v1/changes", query="after=now", user="admin").json["nextCursor"]),
        lambda api, cursor: api.get("/v1/changes", query=f"after={cursor}", user="admin"),
    ),
    VIEW_OF: (
        _viewed,
        lambda api, video_id: _view(api, video_id, {"viewerId": "the living room", "watchedMs": 30_000}),
    ),
}
"""Two functions for each request: setup and call. The requests are the access patterns, and additional requests of this
module."""


def _ready(api: Api, video_id: str) -> str:
    _changed("admin", status="ready")(api, video_id)
    return video_id


class LogCounter(io.StringIO):
    """Stream that counts the functions' log lines and discards them."""

    lines = 0
    metric_lines = 0

    def write(self, text: str) -> int:
        """Count a metric line. Functions print such lines to standard output."""
        self.metric_lines += text.startswith("{")
        return len(text)

    def log(self, _: logging.LogRecord) -> None:
        """Count a log line."""
        self.lines += 1


@dataclass(frozen=True)
class MeasuredService:
    """Empty tables, and a counter of the lines that functions log."""

    table: Table
    log: LogCounter

    def api(self) -> Api:
        """Return an API over these tables. The API adds fields to request bodies."""
        api = make_api(self.table)
        return LifelikeApi(api.table, api.handlers, api.clock)


def measure_small() -> Iterator[MeasuredRequest]:
    """Measure each access pattern in separate tables, with the items of local/testbed/calls.py.

    Items are small. Therefore each read or write of an item costs one unit.
    """
    for pattern in ACCESS_PATTERNS:
        with measured_service() as service:
            yield measure_alone(pattern.request, service, make_api(service.table))


def measure_lifelike() -> tuple[dict[str, MeasuredRequest], CatalogueSize]:
    """Measure each request with items of typical size. Returns the results by request, and the sizes of typical items.

    List requests run in a catalogue of VIDEOS videos.
    """
    lists = [pattern.request for pattern in ACCESS_PATTERNS if pattern.index]
    measured: dict[str, MeasuredRequest] = {}
    with measured_service() as service:
        api = service.api()
        _fill(api)
        catalogue = _catalogue()
        measured |= {request: _measure(request, service, api) for request in lists}
    # The other requests run in small tables, because moto copies the whole table for each transaction.
    for request in REQUESTS.keys() - measured.keys():
        with measured_service() as service:
            measured[request] = measure_alone(request, service, service.api())
    further = [request for request in REQUESTS if request not in CALLS]
    return {
        request: measured[request] for request in [*(pattern.request for pattern in ACCESS_PATTERNS), *further]
    }, catalogue


def measure_alone(request: str, service: MeasuredService, api: Api) -> MeasuredRequest:
    """Measure one request in empty tables."""
    # Creates the user's totals. Otherwise the measured request would also write their new index entry.
    api.post("/v1/playlists", {"title": "t"})
    return _measure(request, service, api)


ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled",
    "POWERTOOLS_METRICS_NAMESPACE": "VideoMetadata",
    "POWERTOOLS_SERVICE_NAME": "cost",
    "ENVIRONMENT": "cost",
}
"""Environment variables that prevent requests to a real AWS account."""


@contextmanager
def measured_service() -> Iterator[MeasuredService]:
    """Create empty tables. Within the block, the service generates the same ids in each run of the program.

    The id of a video determines its shard, and therefore the items that a request reads. Request ids and write ids
    affect the size of the compressed feed. Upload ids are part of URLs, and affect their length.
    """
    # Patched only in the service's modules, because botocore uses `uuid` for the ids of its requests.
    ids, request_ids, bytes_ = _ids(1), _ids(2), SimpleNamespace(urandom=random.Random(3).randbytes)
    upload_ids = SimpleNamespace(urandom=random.Random(4).randbytes)
    # moto copies all tables before a transaction, to restore them if the transaction fails. No transaction fails here,
    # and the copies would take most of the time.
    no_copy = mock.patch(
        "moto.dynamodb.models.copy",
        mock.Mock(deepcopy=lambda value: value if isinstance(value, MotoTable) else copy.deepcopy(value)),
    )
    log = LogCounter()
    quiet = mock.patch.object(logging.Logger, "handle", lambda _, record: log.log(record))
    with (
        mock.patch.dict(os.environ, ENVIRONMENT),
        mock_aws(),
        mock.patch("shared.videos.video.uuid", ids),
        mock.patch("functions.playlists.handler.uuid", ids),
        mock.patch("functions.webhooks.handler.uuid", ids),
        mock.patch("local.testbed.harness.uuid", request_ids),
        mock.patch("shared.aws.records.os", bytes_),
        mock.patch("moto.s3.models.os", upload_ids),
        no_copy,
        quiet,
        redirect_stdout(log),
    ):
        client, _ = clients()
        create_table(client, TABLE_NAME)
        create_audit_table(client, AUDIT_TABLE_NAME)
        yield MeasuredService(Table(TABLE_NAME, client, sleep=lambda _: None), log)


def _ids(seed: int) -> SimpleNamespace:
    """Return a replacement of the module `uuid` that generates the same ids in each run."""
    numbers = random.Random(seed)
    return SimpleNamespace(uuid4=lambda: uuid.UUID(int=numbers.getrandbits(128), version=4))


@cache
def feed_client() -> MotoClient:
    """Return the client for the feed. The trail uses another client, because the units of feed and trail are measured
    separately."""
    return MotoClient("http://moto.invalid", boto3_client.make_client())


@cache
def clients() -> tuple[MotoClient, MotoClient]:
    """Return the measured client, and a client to inspect tables.

    Both are cached, because creating a client takes longer than most requests.
    """
    other_client = boto3_client.make_client()
    return MotoClient("http://moto.invalid", other_client), MotoClient("http://moto.invalid", other_client)


def items_of(table: str) -> list[AttributeMap]:
    """Return all items of a table."""
    reader: Any = clients()[1]
    return [item for page in reader.get_paginator("scan").paginate(TableName=table) for item in page["Items"]]


def _measure(request: str, service: MeasuredService, api: Api) -> MeasuredRequest:
    arrange, call = REQUESTS[request]
    ready = arrange(api)
    # Time passes, so that attributes which contain it, such as a rating's index position, change as in production.
    api.clock.advance(60)
    log = service.log
    lines, metric_lines = log.lines, log.metric_lines
    with Meter(*clients()).measure() as used:
        reply = call(api, ready)
    if reply.status >= 300:
        raise RuntimeError(f"{request} returned {reply.status}: {reply.body.decode()}")
    out = 0 if not request.partition(" ")[2].startswith("/") else len(reply.body)
    return MeasuredRequest(
        request,
        used.units,
        tuple(used.operations),
        used.least,
        used.fewest,
        used.trips,
        out,
        log_lines=log.lines - lines,
        metric_lines=log.metric_lines - metric_lines,
        read_from=dict(used.read_from),
        written_to=dict(used.written_to),
    )


def _fill(api: Api) -> None:
    """Create listed videos of one owner, with credits, a release and a view each."""
    table = api.table
    for number in range(VIDEOS):
        video = _video(number)
        for item in (video, *tag_entries(video)):
            table.client.put_item(TableName=table.name, Item=encode_item(item))
        path = f"/v1/videos/{video['videoId']}"
        for person in range(CREDITS if number % 10 == 0 else 1):
            api.put(f"{path}/credits/{'p' * (person + 1)}", {"ordering": person + 1})
        api.put(f"{path}/releases/NZ", {})
        api.post(f"{path}/views", user="bob")


def _video(number: int) -> Video:
    """Return the item of a listed video of Alice."""
    item = new_item(
        dict(VIDEO_BODY) | {"visibility": "public"},
        video_id=str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))),
        owner="alice",
        created_at=NOW - number * 86_400,
        status="ready",
    )
    return stamp(item, caller=Caller("alice", frozenset()), now=NOW, version=1)


def _catalogue() -> CatalogueSize:
    items = items_of(TABLE_NAME)
    videos = [item for item in items if item[SORT_KEY]["S"] == VIDEO.sk and "version" in item]
    return CatalogueSize(
        video=videos[0],
        stored=StoredSize.of(items).times(1 / len(videos)),
        trail=_trail(decode_item(videos[0])),
    )


def _trail(video: Item) -> AttributeMap:
    """Return the audit entry of a changed description."""
    changed = video | {"description": DESCRIPTION[::-1], "version": 2, "writeId": "another"}
    trail = entry(Record(stream_record(video, changed)), AUDIT_DAYS)
    if trail is None:
        raise RuntimeError("the audit trail has no entry of a change")
    return encode_item(trail)
