"""Test harness: tables created from the schema, an in-process gateway, and a clock that tests advance.

The gateway selects a route as API Gateway does, and uses `$default` if no route matches. It creates events in API
Gateway's format (payload 2.0). The functions therefore run as they do on AWS, but without a network.
"""

import base64
import json
import re
import shutil
import uuid
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, TypeVar
from unittest.mock import create_autospec
from urllib.parse import unquote

from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.search import handler as search
from functions.webhooks import handler as webhooks
from local.http_events import http_event
from local.testbed.athena import FakeAthena
from local.testbed.wire import listen
from shared import schema
from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.aws.records import key_of
from shared.aws.runtime import EntryPoint, Resources
from shared.aws.s3 import Objects
from shared.aws.s3 import make_client as make_s3_client
from shared.aws.sqs import Queue, QueueDepth
from shared.core.attributes import Item
from shared.core.settings import LambdaHandler, Settings
from shared.feed.log import Feed
from shared.job_kinds import JOB_QUEUES
from shared.processing.desired_jobs import jobs_per_upload
from shared.routes import DEFAULT_FUNCTION, ROUTES, Route
from shared.search.generations import Generations
from shared.search.loader import DocumentLoader
from shared.search.local_index import LocalIndex
from shared.videos.links import Links
from shared.web.http import http_function
from shared.web.requests import JSON
from shared.webhooks import http_client

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

_Settings = TypeVar("_Settings", bound=Settings)

HANDLERS = {
    function: import_module(f"functions.{function}.handler")
    for function in sorted({route.function for route in ROUTES})
}
"""Handler modules of the functions that serve the API, by the function's folder."""

NOW = 1_750_000_000
"""Initial time of the tests' clock, in epoch seconds: 2025-06-15T15:06:40Z."""

SOURCES_BUCKET = "sources"
MEDIA_BUCKET = "media"
LINKS = Links(MEDIA_BUCKET, "https://pictures.example")
"""Converter between S3 URIs and URLs of generated media, with the tests' bucket and base URL."""

CURSOR_SECRET = "a secret of the tests"
"""Cursor secret of the tests. The key that encrypts cursors is derived from it."""

MASTER = "what the tests' webhooks sign with"
"""Master secret of the tests. The secrets of webhooks are derived from it."""

DELIVERY_QUOTAS = {"deliveries": 3, "slow-deliveries": 1, "all-slow-deliveries": 5}
"""Concurrency quotas of deliveries by kind. They are the quotas of a deployment with ten delivery workers."""

JOBS_PER_DAY = 500
JOBS_PER_UPLOAD = jobs_per_upload(1)
QUEUES = ("probe", "thumbnails", "transcode", "purge", "aggregates", "tallies", "reverts", "deliveries")
"""Names of the queues of the tests."""

VARIABLES = {
    "ENVIRONMENT": "test",
    "TABLE_NAME": "videos",
    "AUDIT_TABLE_NAME": schema.AUDIT_TABLE_NAME,
    "AUDIT_DAYS": "400",
    "CURSOR_SECRET_ARN": CURSOR_SECRET,
    "WEBHOOK_SECRET_ARN": MASTER,
    "SOURCES_BUCKET": SOURCES_BUCKET,
    "MEDIA_BUCKET": MEDIA_BUCKET,
    "INDEX_LIMIT_BYTES": "2147483648",
    "CAPTION_DAYS": "0",
    "CAPTION_CUES": "40000",
    "SNAPSHOT_DAYS": "35",
    "MEDIA_URL": "https://pictures.example",
    "ARCHIVE_BUCKET": "archive",
    "ANALYTICS_BUCKET": "analytics",
    "JOBS_PER_DAY": str(JOBS_PER_DAY),
    "RENDITIONS": "240p",
    "SHARES": ",".join(f"{queue}={share}" for queue, share in [*JOB_QUEUES.items(), *DELIVERY_QUOTAS.items()]),
    "VIEW_WINDOW_SECONDS": "1800",
    "COUNT_OWN_VIEWS": "false",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
    **{f"{queue.upper()}_QUEUE_URL": queue for queue in QUEUES},
    "QUEUES": ",".join(f"{queue}={queue}" for queue in QUEUES),
    "DEAD_LETTER_QUEUES": ",".join(f"{queue}=dead-{queue}" for queue in QUEUES),
}
"""Environment variables of all functions. The URL of a queue is its name, and the ARN of a secret is its value."""

ADMIN_SCOPES = "videos/read videos/write videos/admin"
USER_SCOPES = "videos/read videos/write"


class Clock:
    """Clock in epoch seconds that advances only when a test calls `advance`."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += seconds


class Context(LambdaContext):
    """Lambda context of an invocation."""

    def __init__(self) -> None:
        self._function_name = "test"
        self._memory_limit_in_mb = 512
        self._invoked_function_arn = "arn:aws:lambda:us-east-1:000000000000:function:test"
        self._aws_request_id = str(uuid.uuid4())

    @staticmethod
    def get_remaining_time_in_millis() -> int:
        """Return the remaining time of an invocation that has just started."""
        return 60_000


class ShortContext(Context):
    """Context that reports one second of remaining time after `steps` calls of `get_remaining_time_in_millis`."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def get_remaining_time_in_millis(self) -> int:  # type: ignore[override]
        self.steps -= 1
        return 60_000 if self.steps >= 0 else 1000


@dataclass
class Reply:
    """HTTP response, as a client receives it."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Parsed JSON body."""
        return json.loads(self.body)

    @property
    def etag(self) -> str:
        """Value of the ETag header."""
        return self.headers["etag"]

    @property
    def slug(self) -> str:
        """Last segment of the problem type of an error response."""
        return str(self.json["type"]).rpartition(":")[2]


class LazyHandlers(Mapping[str, LambdaHandler]):
    """Handlers by function. Each handler is created at its first use, because most tests call only one or two
    functions."""

    def __init__(self, makers: Mapping[str, Callable[[], LambdaHandler]]) -> None:
        self._makers = makers
        self._made: dict[str, LambdaHandler] = {}

    def __getitem__(self, name: str) -> LambdaHandler:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


@dataclass
class Api:
    """The service's API in this process, with methods that send requests."""

    table: Table
    handlers: Mapping[str, LambdaHandler]
    clock: Clock = field(default_factory=Clock)

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | str | None = None,
        json_body: Any = None,
        query: str = "",
        headers: Mapping[str, str] | None = None,
        user: str = "alice",
        scopes: str | None = None,
    ) -> Reply:
        """Send a request as a user. By default, `admin` has all scopes, and other users can read and write."""
        all_headers = {name.lower(): value for name, value in (headers or {}).items()}
        if json_body is not None:
            body = json.dumps(json_body)
            all_headers.setdefault("content-type", JSON)
        path = decoded(path)
        route = _route(method, path)
        if scopes is None:
            scopes = ADMIN_SCOPES if user == "admin" else USER_SCOPES
        event = make_event(method, path, body, query, all_headers, user, scopes, route)
        answer = self.handlers[route.function if route else DEFAULT_FUNCTION](event, Context())
        content = answer["body"]  # always text, possibly empty, because some gateways reject null
        return Reply(
            answer["statusCode"],
            {name.lower(): value for name, value in answer["headers"].items()},
            base64.b64decode(content) if answer.get("isBase64Encoded") else content.encode(),
        )

    @staticmethod
    def is_protected(method: str, path: str) -> bool:
        """Return whether the gateway rejects a request without a token."""
        route = _route(method, decoded(path))
        return route is not None and route.scope is not None

    def get(self, path: str, **options: Any) -> Reply:
        """Send a GET request."""
        return self.request("GET", path, **options)

    def post(self, path: str, json_body: Any = None, **options: Any) -> Reply:
        """Send a POST request."""
        return self.request("POST", path, json_body=json_body, **options)

    def patch(self, path: str, json_body: Any = None, **options: Any) -> Reply:
        """Send a PATCH request."""
        return self.request("PATCH", path, json_body=json_body, **options)

    def put(self, path: str, json_body: Any = None, **options: Any) -> Reply:
        """Send a PUT request."""
        return self.request("PUT", path, json_body=json_body, **options)

    def delete(self, path: str, **options: Any) -> Reply:
        """Send a DELETE request."""
        return self.request("DELETE", path, **options)

    def create(self, user: str = "alice", **fields: Any) -> dict[str, Any]:
        """Create a video, and return its document. Only an admin may set status, createdAt, userId and videoId."""
        reply = self.post("/v1/videos", {"title": "A film"} | fields, user=user)
        assert reply.status == 201, reply.body
        created: dict[str, Any] = reply.json
        return created

    def publish(self, owner: str = "alice", **fields: Any) -> dict[str, Any]:
        """Create a ready and public video of an owner, and return its document."""
        return self.create("admin", userId=owner, **({"status": "ready", "visibility": "public"} | fields))


def make_event(
    method: str,
    path: str,
    body: bytes | str | None,
    query: str,
    headers: Mapping[str, str],
    user: str,
    scopes: str,
    route: Route | None,
) -> dict[str, Any]:
    """Return the event of a request by a user whose token has these scopes."""
    matched = _matched(route, path) if route and "{" in route.path else None
    return http_event(
        method,
        path,
        route,
        params=matched.groupdict() if matched else None,
        query=query,
        body=body,
        headers=headers,
        claims={"sub": user, "scope": scopes} if route and route.scope else None,
        request_id=str(uuid.uuid4()),
        at=NOW,
    )


def decoded(path: str) -> str:
    """Return a path as API Gateway passes it to functions. All percent escapes are decoded, except `%25`."""
    return unquote(path.replace("%25", "%2525"))


def _route(method: str, path: str) -> Route | None:
    for route in sorted(ROUTES, key=lambda declared: declared.path.count("{")):
        if route.method == method and _matched(route, path):
            return route
    return None


def _matched(route: Route, path: str) -> re.Match[str] | None:
    """Match a path against the path of a route. Returns a match with the parameters as groups, or `None`.

    A parameter `{name+}` matches the rest of the path.
    """
    greedy = re.sub(r"{(\w+)\+}", r"(?P<\1>(?s:.+))", route.gateway_path)
    return re.fullmatch(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", greedy), path)


@cache
def _s3_client() -> "S3Client":
    """Return the S3 client that all tests without uploads share, because its creation takes longer than most tests."""
    return make_s3_client()


def _some_queue() -> Any:
    """Return a mock of a queue. The mock rejects methods that Queue does not have."""
    queue = create_autospec(Queue, instance=True)
    queue.depth.return_value = QueueDepth(0, 0, 0)
    return queue


class FakeResources(Resources):
    """Resources of a function, with the tables, objects, queues and clock of the tests."""

    def __init__(
        self,
        table: Table,
        clock: Callable[[], float],
        *,
        audit: Table | None = None,
        objects: Objects | None = None,
        queues: Mapping[str, Any] | None = None,
        events: Any = None,
        athena: FakeAthena | None = None,
        elapsed: Callable[[], float] | None = None,
    ) -> None:
        self.audit = audit or Table(schema.AUDIT_TABLE_NAME, table.client, sleep=lambda _: None)
        self._tables = {self.audit.name: self.audit, table.name: table}
        self._queues = defaultdict(_some_queue) if queues is None else queues
        self._events = events
        self.main = table
        self.clock = clock
        self.elapsed = elapsed or clock
        self.__dict__["athena"] = athena or FakeAthena()
        self.__dict__["objects"] = objects or Objects(_s3_client(), sleep=lambda _: None)

    def table(self, name: str) -> Table:
        return self._tables[name]

    def queue(self, url: str) -> Any:
        return self._queues[url]

    def secret(self, arn: str) -> Callable[[], str]:
        return lambda: arn

    def events(self) -> Any:
        return self._events

    def make(
        self,
        entry: EntryPoint[_Settings],
        make: Callable[[_Settings, Resources], LambdaHandler] | None = None,
        **variables: str,
    ) -> LambdaHandler:
        """Return a function that uses these resources. `make` replaces the function's own factory, and `variables`
        override VARIABLES.
        """
        names = {"TABLE_NAME": self.main.name, "AUDIT_TABLE_NAME": self.audit.name}
        return (make or entry.make)(entry.settings.read(VARIABLES | names | variables), self)


def make_api(
    table: Table,
    clock: Clock | None = None,
    objects: Objects | None = None,
    audit: Table | None = None,
    athena: FakeAthena | None = None,
    **variables: str,
) -> Api:
    """Return the service with these tables and objects, and this fake Athena. `variables` override VARIABLES."""
    clock = clock or Clock()
    resources = FakeResources(table, clock, objects=objects, audit=audit, athena=athena)
    makers = {
        "webhooks": http_function(
            partial(
                webhooks.WebhookHandlers,
                send=lambda *_, **__: http_client.ReceiverResponse(
                    204, 7, b"", None, is_forbidden=False, retry_after=None
                ),
            )
        ),
        "search": http_function(partial(search.SearchHandlers, new_local=partial(local_index, clock))),
    }
    return Api(
        table,
        LazyHandlers(
            {
                name: partial(resources.make, module.lambda_handler, makers.get(name), **variables)
                for name, module in HANDLERS.items()
            }
        ),
        clock,
    )


def local_index(clock: Clock, generations: Generations, feed: Feed, films: DocumentLoader) -> LocalIndex:
    """Return the local copy of the search index that one function instance has.

    The folder of the copy is deleted when the returned object is no longer used. If the copy must wait, it advances
    `clock` instead of sleeping.
    """

    def begun() -> Path:
        folder = mkdtemp(prefix="index-")
        weakref.finalize(local, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)

    local = LocalIndex(generations, feed, films, folder=begun, clock=clock, elapsed=clock, sleep=clock.advance)
    return local


def create_table(client: Any, name: str) -> None:
    """Create the main table, as shared/schema.py defines it. tests/unit/infra/test_infra.py compares CDK's table with
    the same definition.
    """
    stream = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    _create(client, name, schema.INDEXES, StreamSpecification=stream)


def create_audit_table(client: Any, name: str) -> None:
    """Create the audit table, as shared/schema.py defines it."""
    _create(client, name, schema.AUDIT_INDEXES)


def _create(client: Any, name: str, indexes: Iterable[schema.Index], **more: Any) -> None:
    attributes = {schema.PARTITION_KEY: "S", schema.SORT_KEY: "S"}
    for index in indexes:
        attributes |= {attribute.name: attribute.type for attribute in (*index.partition, *index.sort)}
    definition: Any = {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": type_} for name, type_ in attributes.items()],
        "KeySchema": [
            {"AttributeName": schema.PARTITION_KEY, "KeyType": "HASH"},
            {"AttributeName": schema.SORT_KEY, "KeyType": "RANGE"},
        ],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": index.name,
                "KeySchema": [
                    *({"AttributeName": key.name, "KeyType": "HASH"} for key in index.partition),
                    *({"AttributeName": key.name, "KeyType": "RANGE"} for key in index.sort),
                ],
                "Projection": (
                    {"ProjectionType": "INCLUDE", "NonKeyAttributes": index.non_key_attributes}
                    if index.non_key_attributes
                    else {"ProjectionType": "KEYS_ONLY"}
                ),
            }
            for index in indexes
        ],
        **more,
    }
    client.create_table(**definition)


def remove_video(table: Table, video_id: str) -> list[Item]:
    """Delete up to 100 items in a video's partition, as TTL and the purge do, and return them."""
    condition = Expression(
        "#pk = :pk", {"#pk": schema.PARTITION_KEY}, {":pk": schema.VIDEO.key(videoId=video_id)["pk"]}
    )
    items = table.query(index=None, condition=condition, limit=100).items
    table.batch_delete(list(map(key_of, items)))
    return items


@dataclass(frozen=True)
class RecordedOperation:
    """A request that was sent to DynamoDB: its operation and parameters."""

    name: str
    index: str | None
    parameters: Mapping[str, Any]


@contextmanager
def record_operations(client: "DynamoDBClient | S3Client") -> Iterator[list[RecordedOperation]]:
    """Record the operations that a client sends within the context, in order."""
    operations: list[RecordedOperation] = []

    def record(operation: str, parameters: Mapping[str, Any]) -> None:
        operations.append(RecordedOperation(operation, parameters.get("IndexName"), dict(parameters)))

    with listen(client, record):
        yield operations
