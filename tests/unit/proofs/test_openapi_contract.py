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
    "GET /v1/folder-moves/{moveId}",
    "GET /v1/folders",
    "GET /v1/folders/{folder}",
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

# Nor that neither folder of a move contains the other.
[[operations]]
include-name = "POST /v1/folder-moves"
checks.positive_data_acceptance.expected-statuses = ["202", "403", "404", "422"]

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
            *("--phases", phases, "--max-examples", "5", "--suppress-health-check", "all"),
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
