"""The OpenAPI document and the functions agree: schemathesis sends valid and invalid requests.

`contract_hooks` calls the functions in the process of schemathesis, as the gateway does. tests/e2e checks the gateway
itself.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.polling import LIMIT

ROOT = Path(__file__).parents[3]

CONFIG = """\
hooks = "tests.unit.proofs.contract_hooks"

[generation]
deterministic = true

# This phase would use invented links. It also expects 404 for a deleted video, which its owner may still read.
[phases.stateful]
enabled = false

# A valid If-Match may name another version than the video has: 412. A token may lack a permission: 403.
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "304", "403", "404", "409", "412"]

[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "412", "413", "415", "422"]

# The rest lists the additional responses to requests that match the schema. A schema cannot express some rules:
# relations between two parameters, cursors that the service issued, existing time zones, tags that differ after
# normalization, limits of a patched video, parts with consecutive numbers, and required members of a `done` report.
[[operations]]
include-name = "GET /v1/videos"
checks.positive_data_acceptance.expected-statuses = ["200", "400", "403"]

# A schema cannot express which URLs of webhooks are permitted.
[[operations]]
include-name = ["POST /v1/videos", "POST /v1/webhooks"]
checks.positive_data_acceptance.expected-statuses = ["201", "403", "409", "422"]

# A schema cannot express that a text is WebVTT or SubRip, and that each chapter starts after the one before.
[[operations]]
include-name = ["PUT /v1/videos/{videoId}/captions/{language}", "PUT /v1/videos/{videoId}/chapters"]
checks.positive_data_acceptance.expected-statuses = ["200", "201", "403", "404", "409", "412", "422"]

# An invalid operation of a batch has its own status. For other methods, the last segment of the path is a videoId,
# which is invalid.
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
    "GET /v1/folder-moves/{moveId}",
    "GET /v1/folders",
    "GET /v1/folders/{folder}",
    "GET /v1/tags",
    "GET /v1/webhooks",
    "GET /v1/webhooks/{webhookId}/deliveries",
]
checks.positive_data_acceptance.expected-statuses = ["200", "400", "403", "404"]

# A schema cannot express that the first day of a question must not be after the last one, and that a request with a key
# must have the last day.
[[operations]]
include-name = "POST /v1/questions/{question}/runs"
checks.positive_data_acceptance.expected-statuses = ["202", "400", "403", "404"]

# A schema cannot express that a query must contain a searchable word. If the search index does not exist yet: 503.
[[operations]]
include-name = ["GET /v1/search", "GET /v1/videos/{videoId}/similar"]
checks.positive_data_acceptance.expected-statuses = ["200", "400", "403", "404", "503"]
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]

# Changes may have expired: 410.
[[operations]]
include-name = "GET /v1/changes"
checks.positive_data_acceptance.expected-statuses = ["200", "400", "403", "410"]

# The audit trail may lack old entries of a video: 410. It may not have the newest changes yet: 503.
[[operations]]
include-name = ["GET /v1/videos/{videoId}", "GET /v1/videos/{videoId}/diff"]
checks.positive_data_acceptance.expected-statuses = ["200", "304", "400", "403", "404", "410", "503"]
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]

# The schema of a pointer does not list the fields of a video.
[[operations]]
include-name = "POST /v1/videos/{videoId}/revert"
checks.positive_data_acceptance.expected-statuses = ["200", "403", "404", "409", "410", "412", "422", "503"]
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]

# A schema cannot express that neither folder of a move contains the other.
[[operations]]
include-name = "POST /v1/folder-moves"
checks.positive_data_acceptance.expected-statuses = ["202", "403", "404", "422"]

[[operations]]
include-name = "POST /v1/changesets/{changesetId}/revert"
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]

# A schema cannot express that views must be recent, and that the views of a batch must have different ids.
[[operations]]
include-name = ["POST /v1/videos/{videoId}/views", "POST /v1/views"]
checks.positive_data_acceptance.expected-statuses = ["200", "403", "404", "422"]

# An entry needs an existing video, and its neighbour must be another entry of the playlist.
[[operations]]
include-name = ["POST /v1/playlists/{playlistId}/entries", "PATCH /v1/playlists/{playlistId}/entries/{videoId}"]
checks.positive_data_acceptance.expected-statuses = ["200", "201", "403", "404", "409", "412", "422"]

# A schema cannot express which URLs are permitted, and when a replay may begin.
[[operations]]
include-name = ["PATCH /v1/webhooks/{webhookId}", "POST /v1/webhooks/{webhookId}/replay"]
checks.positive_data_acceptance.expected-statuses = ["200", "403", "404", "409", "412", "422"]

# A schema cannot express the limit of the total bytes of titles or roles.
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

URL = "http://functions.invalid"
"""Base URL of the functions. `contract_hooks` calls them without a network."""

RUNS = (("alice", "examples,coverage"), ("admin", "fuzzing"))
"""User and phases of each run. The runs are sequential in one process, because Hypothesis does not support concurrent
starts."""

PROGRAM = """
import sys
from schemathesis.cli import schemathesis

def status(arguments):
    try:
        schemathesis(arguments)
    except SystemExit as ended:
        return ended.code

sys.exit(any([status(run.split("\\n")) for run in sys.argv[1:]]))
"""


def test_responses_are_as_documented(tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    runs = [
        [
            *("run", f"{URL}/openapi.json", "--url", URL, "--header", f"Authorization: Bearer {user}"),
            *("--phases", phases, "--max-examples", "3", "--suppress-health-check", "all"),
            *("--request-timeout", str(LIMIT), "--no-color"),
        ]
        for user, phases in RUNS
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map("\n".join, runs)],
        cwd=tmp_path,
        # Hypothesis caches its analysis of modules in this folder, for all processes.
        env=os.environ | {"PYTHONPATH": str(ROOT), "HYPOTHESIS_STORAGE_DIRECTORY": str(ROOT / ".hypothesis")},
        capture_output=True,
        text=True,
        timeout=10 * LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
    assert len(re.findall(r"^  \d+ generated, \d+ passed, \d+ skipped$", done.stdout, re.MULTILINE)) == len(RUNS)
