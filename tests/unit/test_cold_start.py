"""What a function loads while it starts: every module costs its callers time."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from shared.core.settings import entry_point
from shared.routes import ROUTES
from tests.harness import Context

FUNCTIONS = tuple(sorted(path.parent.name for path in (Path(__file__).parents[2] / "functions").glob("*/handler.py")))
ANSWERING = tuple(sorted({route.function for route in ROUTES}))
WITH_MEDIA = ("probe", "thumbnails")
HEAVY = ("cryptography", "aws_cdk", "moto", "aws_xray_sdk", "requests")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_loads_no_setting_and_no_module_that_its_first_request_may_not_need(function: str) -> None:
    # Tests, tools and `sam local` may load a handler without the environment that it runs in.
    script = f"""
import sys
import functions.{function}.handler as handler
print(callable(handler.lambda_handler), *sorted({{name.split('.')[0] for name in sys.modules}}))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env={})
    is_callable, *loaded = done.stdout.split()
    heavy = HEAVY if function in WITH_MEDIA else (*HEAVY, "av", "PIL")
    assert (is_callable, [name for name in heavy if name in loaded]) == ("True", [])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_in_lambda_a_function_makes_its_client_while_it_starts_and_nothing_that_snapshots_would_share(
    function: str,
) -> None:
    # What starts from a snapshot continues with what was there when the version was published, perhaps weeks ago.
    script = f"""
import os, sys
import multiprocessing.process  # draws a key, which only processes would need that are started by it
seen = []
draw = os.urandom
os.urandom = lambda size: (seen.append("os.urandom"), draw(size))[1]
sys.addaudithook(lambda event, _: seen.append(event) if event in ("socket.connect", "socket.getaddrinfo") else None)
import shared.aws.client
made = []
make = shared.aws.client.make_client
shared.aws.client.make_client = lambda: made.append(make()) or made[-1]
import functions.{function}.handler
print(len(made))
print(seen)
import secrets, socket
secrets.token_hex(8)
socket.getaddrinfo("127.0.0.1", 1)
print(seen)
"""
    clients, starting, control = _start(function, script).stdout.splitlines()
    assert clients == "1"
    if function in ANSWERING:
        assert (starting, control) == ("[]", "['os.urandom', 'socket.getaddrinfo']")


def test_instances_of_one_snapshot_do_not_draw_the_same_numbers() -> None:
    snapshot = random.getstate()
    drawn = []
    for _ in range(2):
        random.setstate(snapshot)
        handler = entry_point(lambda: lambda _event, _context: {"drawn": random.random()})
        drawn += [handler({}, Context())["drawn"] for _ in range(2)]
    assert len(set(drawn)) == 4


def _start(function: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in the environment of a function in Lambda."""
    settings = {
        "AWS_LAMBDA_FUNCTION_NAME": function,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "TABLE_NAME": "T",
        "CURSOR_SECRET_ARN": "arn",
        "AUDIT_TABLE_NAME": "A",
        "AUDIT_DAYS": "400",
        "JOBS_PER_DAY": "500",
        "RENDITIONS": "240p",
        "SHARES": "probe=4,thumbnails=4,transcode=10",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
        "MEDIA_URL": "https://example.com",
        **{f"{bucket}_BUCKET": "b" for bucket in ("SOURCES", "MEDIA", "ARCHIVE")},
        **{f"{queue}_QUEUE_URL": "https://q" for queue in ("PROBE", "THUMBNAILS", "TRANSCODE", "PURGE", "AGGREGATES")},
    }
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=settings)
