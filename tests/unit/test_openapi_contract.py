"""The OpenAPI document and the functions agree: schemathesis sends what the document allows and what it forbids.

The functions run in this process behind a server that routes as the gateway does; tests/e2e checks the gateway itself.
"""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from tests.harness import Api, make_api
from tests.waiting import LIMIT

CONFIG = """\
hooks = "hooks.py"

[generation]
deterministic = true

# It would follow made-up links, and expect a deleted video to be gone for its owner too, who may restore it.
[phases.stateful]
enabled = false

# If-Match names a version that the video does not have: 412. What a token may not do: 403.
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "304", "403", "404", "409", "412"]

[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "412", "413", "415", "422"]

# What two parameters must be to each other, that a cursor is one the service gave out, and which time zones there are, no schema can say;
# nor that tags differ by more than their spelling, that a patch leaves a video within its limits, that parts are
# numbered without a gap, and what a report of `done` needs.
[[operations]]
include-name = "GET /v1/videos"
checks.positive_data_acceptance.expected-statuses = ["200", "400", "403"]

# Nor where a webhook may lead.
[[operations]]
include-name = ["POST /v1/videos", "POST /v1/webhooks"]
checks.positive_data_acceptance.expected-statuses = ["201", "403", "409", "422"]

# Nor that a text is WebVTT or SubRip, and that each chapter starts after the one before.
[[operations]]
include-name = ["PUT /v1/videos/{videoId}/captions/{language}", "PUT /v1/videos/{videoId}/chapters"]
checks.positive_data_acceptance.expected-statuses = ["200", "201", "403", "404", "409", "412", "422"]

# An operation that is not valid fails alone. Other methods take the last word for a videoId, which is not valid.
[[operations]]
include-name = ["POST /v1/videos/batch", "POST /v1/videos/batch-get"]
checks.unsupported_method.enabled = false

[[operations]]
include-name = "POST /v1/videos/batch"
checks.negative_data_rejection.expected-statuses = ["200", "400", "401", "403", "404", "405", "413", "415", "422"]

[[operations]]
include-name = "PATCH /v1/videos/{videoId}"
checks.positive_data_acceptance.expected-statuses = ["200", "403", "404", "409", "412", "422"]

[[operations]]
include-name = [
    "GET /v1/videos/{videoId}/audit",
    "GET /v1/videos/{videoId}/captions",
    "GET /v1/videos/{videoId}/credits",
    "GET /v1/videos/{videoId}/episodes",
    "GET /v1/videos/{videoId}/releases",
    "GET /v1/videos/{videoId}/releases/{region}",
    "GET /v1/videos/{videoId}/playlists",
    "GET /v1/videos/{videoId}/views",
    "GET /v1/people/{personId}/videos",
    "GET /v1/playlists",
    "GET /v1/playlists/{playlistId}/audit",
    "GET /v1/playlists/{playlistId}/entries",
    "GET /v1/changesets/{changesetId}",
    "GET /v1/changesets/{changesetId}/reverts/{revertId}",
    "GET /v1/tags",
    "GET /v1/webhooks",
    "GET /v1/webhooks/{webhookId}/deliveries",
]
checks.positive_data_acceptance.expected-statuses = ["200", "400", "403", "404"]

# Nor that a question has a word to look for, and whether the index is there already: 503.
[[operations]]
include-name = ["GET /v1/search", "GET /v1/videos/{videoId}/similar"]
checks.positive_data_acceptance.expected-statuses = ["200", "400", "403", "404", "503"]
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]

# Nor which changes are still kept: 410.
[[operations]]
include-name = "GET /v1/changes"
checks.positive_data_acceptance.expected-statuses = ["200", "400", "403", "410"]

# Nor what the audit trail knows of a video, and whether it has the newest changes already: 410, 503.
[[operations]]
include-name = ["GET /v1/videos/{videoId}", "GET /v1/videos/{videoId}/diff"]
checks.positive_data_acceptance.expected-statuses = ["200", "304", "400", "403", "404", "410", "503"]
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]

# Which fields a video has, a pointer's schema does not say.
[[operations]]
include-name = "POST /v1/videos/{videoId}/revert"
checks.positive_data_acceptance.expected-statuses = ["200", "403", "404", "409", "410", "412", "422", "503"]
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]

[[operations]]
include-name = "POST /v1/changesets/{changesetId}/revert"
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]

# Views are of the last days, and each of a batch has an id of its own.
[[operations]]
include-name = ["POST /v1/videos/{videoId}/views", "POST /v1/views"]
checks.positive_data_acceptance.expected-statuses = ["200", "403", "404", "422"]

# An entry needs a video that is there, and stands next to another one.
[[operations]]
include-name = ["POST /v1/playlists/{playlistId}/entries", "PATCH /v1/playlists/{playlistId}/entries/{videoId}"]
checks.positive_data_acceptance.expected-statuses = ["200", "201", "403", "404", "409", "412", "422"]

# What a webhook is changed to, and when a replay begins.
[[operations]]
include-name = ["PATCH /v1/webhooks/{webhookId}", "POST /v1/webhooks/{webhookId}/replay"]
checks.positive_data_acceptance.expected-statuses = ["200", "403", "404", "409", "412", "422"]

# How many bytes titles or roles have together, no schema can say.
[[operations]]
include-name = [
    "PUT /v1/videos/{videoId}/credits/{personId}",
    "PUT /v1/videos/{videoId}/releases/{region}",
    "PUT /v1/videos/{videoId}/releases/{region}/{language}",
]
checks.positive_data_acceptance.expected-statuses = ["200", "201", "403", "404", "409", "412", "422"]

[[operations]]
include-name = "POST /v1/videos/{videoId}/upload"
checks.positive_data_acceptance.expected-statuses = ["201", "403", "404", "409", "429"]

[[operations]]
include-name = "POST /v1/videos/{videoId}/upload/{uploadId}/complete"
checks.positive_data_acceptance.expected-statuses = ["200", "403", "404", "409", "422"]

[[operations]]
include-name = "PUT /v1/videos/{videoId}/renditions/{name}"
checks.positive_data_acceptance.expected-statuses = ["200", "403", "404", "409", "422"]
"""

HOOKS = """\
import re
import uuid

import requests
import schemathesis

schemathesis.serializer.alias(["text/vtt", "application/x-subrip"], "text/plain")


@schemathesis.hook
def before_load_schema(context, raw_schema):
    # A request for each of 292 regions, at each parameter that takes one, shows nothing that three do not.
    schemas = raw_schema["components"]["schemas"]
    schemas["SomeRegion"] = {**schemas["Region"], "enum": schemas["Region"]["enum"][::100]}
    for path in raw_schema["paths"].values():
        for operation in path.values():
            # One parser reads both types of a patch, which have one schema.
            content = operation.get("requestBody", {}).get("content", {}) if isinstance(operation, dict) else {}
            if "application/json" in content:
                content.pop("application/merge-patch+json", None)
            for parameter in operation.get("parameters", ()) if isinstance(operation, dict) else ():
                if parameter.get("schema", {}).get("$ref") == "#/components/schemas/Region":
                    parameter["schema"] = {"$ref": "#/components/schemas/SomeRegion"}


@schemathesis.hook
def before_call(context, case, kwargs):
    # A key belongs to one request: the same key with another body would rightly be refused. Changing the case makes
    # schemathesis judge it again, which would lose that it is one without a token.
    without_token = getattr(case.meta.phase.data, "parameter", None) == "Authorization" if case.meta else False
    if not without_token and re.fullmatch("[!-~]{1,255}", case.headers.get("Idempotency-Key", "")):
        case.headers["Idempotency-Key"] = str(uuid.uuid4())


@schemathesis.hook
def after_call(context, case, response):
    # A user may have few webhooks.
    if case.operation.label == "POST /v1/webhooks" and response.status_code == 201:
        sent = response.request
        path = f"{sent.url.partition('?')[0]}/{response.json()['webhookId']}"
        token = {"Authorization": sent.headers["Authorization"]}
        requests.delete(path, headers=token, timeout=60).raise_for_status()
"""


SHARES = {
    "related": ("--include-path-regex", "credits|releases|rating|playlists|people|users|tags"),
    "others": ("--exclude-path-regex", "credits|releases|rating|playlists|people|users|tags"),
    "all": (),
}
"""Paths of one run. The longest is halved, for the workers of `pytest -n`; with its own workers schemathesis fails now and
then, because Hypothesis is not made for several threads that begin at once."""


class _Handler(BaseHTTPRequestHandler):
    """Hands each request to the functions; a token is the name of its user."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # in one piece: else each answer waits 40 ms for an acknowledgement of its headers
    api: Api
    turn: threading.Lock
    """Held by the one request that is handled: clients keep several connections open."""

    def handle_request(self) -> None:
        url = urlsplit(self.path)
        headers = dict(self.headers.items())
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        user = re.fullmatch(r"Bearer (alice|admin)", headers.get("Authorization", ""))
        if user is None and self.api.is_protected(self.command, url.path):
            self.answer(401, {"Content-Type": "application/json"}, b'{"message":"Unauthorized"}')
            return
        name = user[1] if user else ""
        with self.turn:
            reply = self.api.request(self.command, url.path, body=body, query=url.query, headers=headers, user=name)
        self.answer(reply.status, dict(reply.headers), reply.body)

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_HEAD = do_TRACE = do_QUERY = handle_request

    def log_message(self, *_: object) -> None:
        """Write no log."""


@pytest.fixture
def served(table: Table, objects: Objects) -> Iterator[str]:
    """The base URL of the functions over empty tables and buckets, whose requests are handled one after the other."""
    handler = type("Handler", (_Handler,), {"api": make_api(table, objects=objects), "turn": threading.Lock()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("user", "phases", "share"),
    [
        ("alice", "examples,coverage", "related"),
        ("alice", "examples,coverage", "others"),
        ("admin", "fuzzing", "all"),
    ],
)
def test_the_functions_answer_as_the_document_says(
    served: str, user: str, phases: str, share: str, tmp_path: Path
) -> None:
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    (tmp_path / "hooks.py").write_text(HOOKS)
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{served}/openapi.json"),
        *("--url", served, "--header", f"Authorization: Bearer {user}"),
        *("--phases", phases, "--max-examples", "10", "--suppress-health-check", "all"),
        *("--request-timeout", str(LIMIT), "--no-color", *SHARES[share]),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=10 * LIMIT, check=False)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
