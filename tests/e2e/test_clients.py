"""Generators accept the served OpenAPI document without warnings, and programs that use the generated clients work."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from local import ROOT
from local.testbed.video_files import film
from local.toolbox import with_tools
from tests.e2e.conftest import Service
from tests.polling import LIMIT

pytestmark = pytest.mark.xdist_group("e2e")

PROGRAMS = Path(__file__).parent / "clients"
"""Folder of the example programs, one for each generated client."""

EXPECTED = {
    "description": "Of a harbour",
    # only the owner can see the video
    "views": {"viewCount": 0, "counted": False, "reason": "unpublished"},
    "queued": {"id": "a", "counted": False, "reason": "unpublished"},
    "fetched": {"title": "A film", "viewCount": 0, "tags": ["sea"], "average": None, "renditions": 0},
    "partial": {"title": "A film", "status": "uploaded"},
    "listed": {"title": "A film", "status": "uploaded"},
    "captions": 1,
    "rehearsed": {"dryRun": True, "succeeded": 1},
    "sent": 200,
    "upload": "received",
}
"""Expected output of both programs."""

LINT = """\
const { createConfig, lint } = require("@redocly/openapi-core");
createConfig({ extends: ["recommended"] })
  .then((config) => lint({ ref: "openapi.json", config }))
  .then((problems) => console.log(JSON.stringify(problems.map(({ ruleId, message }) => `${ruleId}: ${message}`))));
"""
CALL = """\
import { readFileSync } from "node:fs";
import { use } from "./client.ts";
const [url, token, category, film] = process.argv.slice(1);
console.log(JSON.stringify(await use(url, token, category, new Uint8Array(readFileSync(film)))));
"""
CONFIG = """\
# By default it tidies up with ruff what it made.
post_hooks: []
# It knows neither, and sends both as they are.
content_type_overrides:
  text/vtt: application/octet-stream
  application/x-subrip: application/octet-stream
"""
COMPILER = {
    "compilerOptions": {
        "strict": True,
        "exactOptionalPropertyTypes": True,
        "noUncheckedIndexedAccess": True,
        "noEmit": True,
        "skipDefaultLibCheck": True,
        "module": "esnext",
        "moduleResolution": "bundler",
        "target": "es2022",
        "types": [],
    },
    "files": ["client.ts"],
}


@pytest.fixture(scope="module")
def service(own_service: Service) -> Service:
    """Return the service with users of this file."""
    return own_service


@pytest.fixture
def folder(service: Service, tmp_path: Path) -> Path:
    """Return the project folder of an API client: the OpenAPI document, a source file, and this checkout's Node packages."""
    reply = service.request("GET", "/openapi.json", user=None)
    assert reply.status_code == 200
    (tmp_path / "openapi.json").write_bytes(reply.content)
    (tmp_path / "film.mp4").write_bytes(film())
    (tmp_path / "node_modules").symlink_to(ROOT / "node_modules")
    return tmp_path


def _run(folder: Path, *command: str) -> str:
    """Run a command that must succeed, and return its output."""
    env = with_tools(os.environ)
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=5 * LIMIT, check=False)
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-10_000:]
    return done.stdout


def _call(folder: Path, service: Service, category: str, *command: str) -> Mapping[str, Any]:
    """Run a program that calls the service, and return its output."""
    results: dict[str, Any] = json.loads(
        _run(folder, *command, service.base_url, service.tokens["alice"], category, "film.mp4")
    )
    stored = service.request("GET", f"/v1/videos/{results.pop('videoId')}").json()
    assert (stored["category"], stored["description"], stored["viewCount"]) == (category, "Of a harbour", 0)
    return results


def test_python_client_is_generated_without_warnings_and_works(service: Service, folder: Path, unique: str) -> None:
    (folder / "config.yaml").write_text(CONFIG)
    _run(
        folder,
        *(sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json", "--fail-on-warning"),
        *("--config", "config.yaml", "--meta", "none", "--output-path", "video_metadata_client"),
    )
    (folder / "client.py").write_bytes((PROGRAMS / "client.py").read_bytes())
    _run(folder, sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "client.py")
    assert _call(folder, service, unique, sys.executable, "client.py") == EXPECTED


def test_typescript_client_is_generated_compiles_and_works(service: Service, folder: Path, unique: str) -> None:
    output = _run(
        folder, "node", "node_modules/openapi-typescript/bin/cli.js", "openapi.json", "--output", "schema.d.ts"
    )
    assert "⚠" not in output
    (folder / "client.ts").write_bytes((PROGRAMS / "client.ts").read_bytes())
    (folder / "tsconfig.json").write_text(json.dumps(COMPILER))
    _run(folder, "node", "node_modules/typescript/bin/tsc", "--project", ".")
    assert _call(folder, service, unique, "node", "--input-type=module", "--eval", CALL) == EXPECTED


def test_redocly_reports_no_problems_of_the_document(folder: Path) -> None:
    assert json.loads(_run(folder, "node", "--eval", LINT)) == []
