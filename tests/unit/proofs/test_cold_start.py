"""Modules that a function imports at its start and for its first response. Every module adds latency for the caller."""

import json
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from local.testbed.harness import VARIABLES, Context, make_event
from shared.aws.runtime import EntryPoint
from shared.core.settings import Settings
from shared.routes import ROUTES

FUNCTIONS = tuple(sorted(path.parent.name for path in (Path(__file__).parents[3] / "functions").glob("*/handler.py")))
REQUEST_FUNCTIONS = tuple(sorted({route.function for route in ROUTES}))
WITH_MEDIA = ("probe", "thumbnails")
HEAVY = ("nacl", "cryptography", "aws_cdk", "moto", "aws_xray_sdk", "requests")
LATER = ("botocore", "pydantic", "aws_lambda_powertools", "asyncio", "concurrent")
"""Modules that only some responses need. A cold start must not import them, except in functions that use S3."""
SIGNING = ("uploads", "playback", "captions", "search")
"""Functions that sign URLs, or read and write objects, with botocore."""

VIDEO_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
SHARED_BY_ALL = """
aws.dynamodb aws.expressions aws.failures aws.idempotency aws.lean aws.lean.client aws.lean.connections aws.lean.signing aws.records aws.runtime core.attributes core.caller core.deadline core.errors core.folders core.limits
core.periods core.request_usage core.regions core.settings core.telemetry core.text routes schema video_fields videos.access videos.counters
web.responses web.etags web.http web.parameters web.requests web.server_timing
"""
"""Modules of `shared` that every first response imports."""
OF_VIDEOS = """
aws.leases aws.listing aws.pages aws.secrets core.change_types core.position processing.job_states job_kinds queries relations.item_store relations.children relations.credits relations.entry_updates
relations.ratings relations.title_page videos.store videos.documents videos.entries videos.links videos.lists videos.orders videos.tags videos.video web.cursors web.paging
"""


@dataclass(frozen=True)
class First:
    """First request to a function, and the modules that it may import."""

    operation: str
    shared_modules: str
    """Names of modules in `shared`."""
    packages: Sequence[str] = ()
    """Third-party packages in addition to orjson."""
    body: Mapping[str, object] | None = None
    query: str = ""
    slow: str = ""
    """Slow modules of the standard library."""


FIRST = (
    First("getVideo", SHARED_BY_ALL + OF_VIDEOS),
    First("listVideos", SHARED_BY_ALL + OF_VIDEOS, query="userId=alice"),
    First(
        "createVideo",
        SHARED_BY_ALL + OF_VIDEOS + "core.checks videos.checks videos.prebuilt web.prebuilt_model",
        ["pydantic_core", "typing_extensions"],
        {"title": "A film"},
        slow="pathlib",  # pydantic_core imports it when it dumps a model
    ),
    First("countView", SHARED_BY_ALL + "views.queries views.store"),
    First(
        "countView",
        SHARED_BY_ALL + "core.checks views.prebuilt views.queries views.store web.prebuilt_model",
        ["pydantic_core", "typing_extensions"],
        {"viewerId": "session-1"},
    ),
)
PACKAGES = tuple(
    f"shared.{package}" for package in ("aws", "core", "processing", "relations", "videos", "views", "web")
)


@pytest.mark.parametrize("first", FIRST, ids=lambda first: f"{first.operation}{' with content' * bool(first.body)}")
def test_first_response_imports_only_these_modules(first: First) -> None:
    route = next(route for route in ROUTES if route.operation == first.operation)
    body = json.dumps(first.body) if first.body else None
    path = route.path.replace("{videoId}", VIDEO_ID)
    headers = {"content-type": "application/json"}
    event = make_event(route.method, path, body, first.query, headers, "alice", "videos/read videos/write", route)
    script = f"""
import json, sys
from functions.{route.function}.handler import lambda_handler
import shared.aws.lean.client

video = {{
    "videoId": {{"S": "{VIDEO_ID}"}}, "userId": {{"S": "alice"}}, "title": {{"S": "A film"}}, "status": {{"S": "ready"}},
    "visibility": {{"S": "public"}}, "createdAt": {{"N": "1"}}, "version": {{"N": "1"}}, "pk": {{"S": "VIDEO#{VIDEO_ID}"}},
    "sk": {{"S": "#META"}},     "resolutions": {{"M": {{}}}}, "metadata": {{"M": {{}}}}, "thumbnails": {{"M": {{}}}},
}}
answer = {{
    "Item": video, "Items": [video], "ScannedCount": 1, "Responses": {{"videos": [video]}}, "Attributes": {{"views": {{"N": "7"}}}},
}}

def begin(client, operation, **parameters):
    client._sign(operation, json.dumps(parameters).encode())
    return lambda: answer

shared.aws.lean.client.Client.begin = begin

class Context:
    function_name = memory_limit_in_mb = invoked_function_arn = aws_request_id = "test"

answered = lambda_handler({event!r}, Context())
assert answered["statusCode"] in (200, 201), answered
known = {{*sys.stdlib_module_names, "sitecustomize"}}  # which some systems load at each start of Python
print(*sorted(name.removeprefix("shared.") for name in sys.modules if name.startswith("shared.")))
print(*sorted({{name.partition(".")[0] for name in sys.modules}} - known))
print(*sorted({{"asyncio", "concurrent", "pathlib", "secrets", "tempfile", "logging", "urllib.request"}} & sys.modules.keys()))
"""
    *_, shared_modules, others, slow = _start(route.function, script).stdout.splitlines()
    packages = {name.removeprefix("shared.") for name in PACKAGES}
    assert set(shared_modules.split()) - packages == set(first.shared_modules.split())
    always = {"shared", "functions", "orjson"}
    assert [name for name in others.split() if name not in always and name[0] != "_"] == list(first.packages)
    assert slow == first.slow


@pytest.fixture(scope="module")
def imported() -> Mapping[str, list[str]]:
    """Import the handler of every function without settings. Return the packages that this loads, by function.

    Each handler is imported in a fork of one process, which has loaded a small handler.
    """
    # Tests, tools and `sam local` load handlers without the environment variables of Lambda.
    script = f"""
import json, os, sys
import functions.views.handler
for function in {FUNCTIONS!r}:
    child = os.fork()
    if child == 0:
        assert callable(__import__(f"functions.{{function}}.handler", fromlist=["handler"]).lambda_handler)
        print(json.dumps([function, sorted({{name.split(".")[0] for name in sys.modules}})]), flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, function
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env={})
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("function", FUNCTIONS)
def test_handler_is_imported_without_settings_and_heavy_modules(
    imported: Mapping[str, list[str]], function: str
) -> None:
    heavy = HEAVY if function in WITH_MEDIA else (*HEAVY, "av", "PIL")
    if function in (*REQUEST_FUNCTIONS, "console") and function not in SIGNING:
        heavy = (*heavy, *LATER)
    if function == "search":
        heavy = (*heavy, "tantivy")
    assert [name for name in heavy if name in imported[function]] == []


@dataclass(frozen=True)
class Started:
    """Observed start of a function in Lambda."""

    clients: int
    drawn: list[str]
    """Names of the events during the start: drawn random numbers and opened connections."""
    control: list[str]
    """Names of the events of a control: the test itself draws a number and opens a connection."""


@pytest.fixture(scope="module")
def started() -> Mapping[str, Started]:
    """Start every function in a fork of one process that has loaded the packages shared by most functions."""
    script = f"""
import json, os, sys
import multiprocessing.process  # draws a key, which only its child processes would use
seen = []
draw = os.urandom
os.urandom = lambda size: (seen.append("os.urandom"), draw(size))[1]
sys.addaudithook(lambda event, _: seen.append(event) if event in ("socket.connect", "socket.getaddrinfo") else None)
import botocore.session, pydantic, shared.aws.lean.client
made = []
make = shared.aws.lean.client.make_client
shared.aws.lean.client.make_client = lambda *service, **options: made.append(make(*service, **options)) or made[-1]
for function in {FUNCTIONS!r}:
    child = os.fork()
    if child == 0:
        os.environ["AWS_LAMBDA_FUNCTION_NAME"] = function
        __import__(f"functions.{{function}}.handler")
        report = [function, len(made), [*seen]]
        import secrets, socket
        secrets.token_hex(8)
        socket.getaddrinfo("127.0.0.1", 1)
        print(json.dumps([*report, seen]), flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, function
"""
    reports = [json.loads(line) for line in _start("each", script).stdout.splitlines()]
    return {function: Started(*report) for function, *report in reports}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_start_in_lambda_creates_one_client_and_draws_no_random_numbers(
    started: Mapping[str, Started], function: str
) -> None:
    # An instance that starts from a snapshot has the state of the time when the version was published.
    start = started[function]
    # The function of the console sends no requests, and the compactor none to DynamoDB.
    assert start.clients == int(function not in ("compactor", "console"))
    if function in REQUEST_FUNCTIONS:
        assert (start.drawn, start.control) == ([], ["os.urandom", "socket.getaddrinfo"])


@pytest.mark.parametrize("kind", ["snap-start", "provisioned-concurrency"])
def test_start_without_a_waiting_request_imports_modules_of_later_requests(kind: str) -> None:
    script = f"""
import os, sys
os.environ["AWS_LAMBDA_INITIALIZATION_TYPE"] = "{kind}"
import functions.videos.handler
print("shared.videos.batches" in sys.modules, "pydantic" in sys.modules)
"""
    assert _start("videos", script).stdout.split() == ["True", "True"]


def test_instances_of_one_snapshot_draw_different_random_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABLE_NAME", "videos")
    snapshot = random.getstate()
    drawn = []
    for _ in range(2):
        random.setstate(snapshot)
        handler = EntryPoint(
            Settings, lambda _settings, _resources: lambda _event, _context: {"drawn": random.random()}
        )
        drawn += [handler({}, Context())["drawn"] for _ in range(2)]
    assert len(set(drawn)) == 4


def _start(function: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script with the environment variables of a function in Lambda."""
    settings = {
        "AWS_LAMBDA_FUNCTION_NAME": function,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        **VARIABLES,
    }
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=settings)
