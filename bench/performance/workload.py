"""What is measured: the apps, the operations that they answer, and whether they answer alike."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from bench.stub import OURS_ALONE, OWNER, TAGS, stored, video_id
from local.testbed.harness import USER_SCOPES, make_event
from shared.routes import ROUTES, Route
from shared.videos.documents import document
from shared.web.requests import JSON, MERGE_PATCH

OURS = "ours"
BASE = "base"
PEERS: Mapping[str, str] = {
    "tutorial": "bench.peers.tutorial",
    "FastAPI": "bench.peers.fastapi_mangum",
    "plain": "bench.peers.plain",
    "floor": "bench.peers.floor",
}
"""The modules of the peers by their names."""
CHANGING = ("videoId", "createdAt", "updatedAt")
"""What differs from one created video to the next."""

Answer = Mapping[str, Any]


@dataclass(frozen=True)
class BenchOperation:
    """One request."""

    name: str
    id: str
    """As the route table names it."""
    path: str
    query: str = ""
    body: Any = None
    calls: int = 20
    """How many are made at a time."""
    tls: bool = False
    user: str = OWNER

    @property
    def route(self) -> Route:
        """Its row in the route table."""
        return next(route for route in ROUTES if route.operation == self.id)

    def module(self, app: str) -> str:
        """The module in which an app answers it."""
        return f"functions.{self.route.function}.handler" if app == OURS else PEERS.get(app, "bench.peers.base")

    def event(self) -> dict[str, Any]:
        """What API Gateway makes of it: with the headers of a browser, and a token as Cognito signs it."""
        headers = {
            "accept": "application/json",
            "accept-encoding": "gzip, deflate, br, zstd",
            "authorization": f"Bearer {'x' * 1000}",
            "host": "test.execute-api.us-east-1.amazonaws.com",
            "origin": "https://videos.example",
            "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            "x-amzn-trace-id": "Root=1-68502a40-3f2504e04f8941d39a0c0305",
            "x-forwarded-for": "127.0.0.1",
            "x-forwarded-port": "443",
            "x-forwarded-proto": "https",
        }
        body = None
        if self.body is not None:
            headers["content-type"] = MERGE_PATCH if self.route.method == "PATCH" else JSON
            body = json.dumps(self.body)
        event = make_event(self.route.method, self.path, body, self.query, headers, self.user, USER_SCOPES, self.route)
        # Our functions read the raw query; others read what the gateway makes of it.
        return event | ({"queryStringParameters": dict(parse_qsl(self.query))} if self.query else {})


def _posted() -> dict[str, Any]:
    whole = document(stored(0))
    server = {*CHANGING, *OURS_ALONE, "userId", "status", "version"}
    return {name: value for name, value in whole.items() if name not in server}


VIDEO = f"/v1/videos/{video_id(0)}"
COMMON = (
    BenchOperation("GET", "getVideo", VIDEO),
    BenchOperation("POST", "createVideo", "/v1/videos", body=_posted()),
    BenchOperation("view", "countView", f"{VIDEO}/views", user="bob"),
    BenchOperation("list of 50", "listVideos", "/v1/videos", query=f"userId={OWNER}&limit=50", calls=10),
)
"""What all apps answer."""
OVER_TLS = BenchOperation("GET over TLS", "getVideo", VIDEO, tls=True)
OWN = (
    BenchOperation("owner's 25", "listVideos", "/v1/videos", query=f"userId={OWNER}", calls=10),
    BenchOperation("feed of 25", "listVideos", "/v1/videos", calls=10),
    BenchOperation("tag's 50", "listVideos", "/v1/videos", query=f"tag={TAGS[0]}&limit=50", calls=5),
    BenchOperation(
        "batch-get of 100",
        "batchGetVideos",
        "/v1/videos/batch-get",
        body={"videoIds": [video_id(number) for number in range(100)]},
        calls=5,
    ),
    BenchOperation("PATCH", "patchVideo", VIDEO, body={"title": "Another title"}),
)
"""What only ours answers."""


def operations(app: str) -> Sequence[BenchOperation]:
    """What an app answers."""
    if app == BASE:
        return COMMON[:1]
    return (*COMMON, OVER_TLS, *(OWN if app == OURS else ()))


def differences(operation: BenchOperation, ours: Answer, theirs: Answer) -> Iterator[str]:
    """What another app leaves out of an answer, or answers otherwise; it may answer more."""
    if ours["statusCode"] != theirs["statusCode"]:
        yield f"status {theirs['statusCode']} in place of {ours['statusCode']}: {theirs.get('body')}"
        return
    wanted, given = json.loads(ours["body"]), json.loads(theirs["body"])
    if operation.id == "listVideos":
        if not (isinstance(given["nextCursor"], str) and isinstance(wanted["nextCursor"], str)):
            yield "nextCursor"
        pairs = list(zip(wanted["items"], given["items"], strict=True))
    else:
        pairs = [(wanted, given)]
    ignored = {*OURS_ALONE, *(CHANGING if operation.id == "createVideo" else ())}
    for one, other in pairs:
        missing = one.keys() - set(OURS_ALONE) - other.keys()
        yield from sorted(missing)
        yield from (name for name in one.keys() & other.keys() - ignored if one[name] != other[name])
