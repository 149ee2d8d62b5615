"""Workload of the benchmark: the apps, their operations, and the comparison of their responses."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
"""Modules of the peers, by name. Peers are other apps that implement operations of the service."""
CHANGING = ("videoId", "createdAt", "updatedAt")
"""Names of the fields that differ between created videos. Comparisons of responses ignore these fields."""

Answer = Mapping[str, Any]


@dataclass(frozen=True)
class BenchOperation:
    """A request that the benchmark sends to apps."""

    name: str
    id: str
    """Name of the operation in shared/routes.py."""
    path: str
    query: str = ""
    body: Any = None
    calls: int = 20
    """Number of calls per round."""
    tls: bool = False
    user: str = OWNER

    @property
    def route(self) -> Route:
        """Route of the operation in shared/routes.py."""
        return next(route for route in ROUTES if route.operation == self.id)

    def module(self, app: str) -> str:
        """Return the name of the Python module with the Lambda handler of an app."""
        return f"functions.{self.route.function}.handler" if app == OURS else PEERS.get(app, "bench.peers.base")

    def event(self) -> dict[str, Any]:
        """Return the API Gateway event, with a browser's headers and a bearer token of 1,000 characters."""
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
        return make_event(self.route.method, self.path, body, self.query, headers, self.user, USER_SCOPES, self.route)


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
"""Operations that all apps implement."""
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
"""Operations that only the service implements."""


def operations(app: str) -> Sequence[BenchOperation]:
    """Return the benchmark operations that an app implements. BASE implements only the first element of COMMON."""
    if app == BASE:
        return COMMON[:1]
    return (*COMMON, OVER_TLS, *(OWN if app == OURS else ()))


def differences(operation: BenchOperation, ours: Answer, theirs: Answer) -> Iterator[str]:
    """Yield a line of text for each difference between `ours`, the service's response, and `theirs`, the response of
    another app.

    A difference is another status, or a field that `theirs` lacks or contains with another value. Additional fields of
    `theirs` are ignored.
    """
    if ours["statusCode"] != theirs["statusCode"]:
        yield f"status {theirs['statusCode']} in place of {ours['statusCode']}: {theirs.get('body')}"
        return
    expected, given = json.loads(ours["body"]), json.loads(theirs["body"])
    if operation.id == "listVideos":
        if not (isinstance(given["nextCursor"], str) and isinstance(expected["nextCursor"], str)):
            yield "nextCursor"
        pairs = list(zip(expected["items"], given["items"], strict=True))
    else:
        pairs = [(expected, given)]
    ignored = {*OURS_ALONE, *(CHANGING if operation.id == "createVideo" else ())}
    for one, other in pairs:
        missing = one.keys() - set(OURS_ALONE) - other.keys()
        yield from sorted(missing)
        yield from (name for name in one.keys() & other.keys() - ignored if one[name] != other[name])
