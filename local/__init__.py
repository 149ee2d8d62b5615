"""Everything that runs on a developer's machine only: the embedded AWS, the development issuer, the demo.

Nothing in `functions`, `shared` or `infra` imports it.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".local"
"""What a running service keeps in this checkout: its data, its logs, the issuer's key. Never committed."""

SERVICE_FILE = STATE / "service.json"
DEPLOYMENT_FILE = STATE / "deployment.json"
KEY_FILE = STATE / "issuer-key.pem"

DEFAULT_PORT = 4566
DEFAULT_ISSUER_PORT = 4567
DEFAULT_OBJECTS_PORT = 4568
AUDIENCE = "video-metadata"
CONSOLE_CLIENT = "console"
"""The console's client id at the development issuer."""


class LocalError(Exception):
    """Something the person at the terminal can act on; the message is one whole sentence."""


def exit_status(action: Callable[[], object]) -> int:
    """Run an action; a LocalError becomes its sentence on standard error, and status 1."""
    try:
        action()
    except LocalError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def running_service(file: Path = SERVICE_FILE) -> dict[str, Any]:
    """What `make run` leaves for scripts to read; raises LocalError when it is not running.

    `baseUrl`, `consoleUrl`, `docsUrl`, `issuer`, `tokens` by user, and for tools that go past the API: `endpoint`,
    `objectsEndpoint` and `secretAccessKey` of AWS, `tableName`, and `assembly`, the folder of what the CDK deployed.
    """
    try:
        service: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LocalError("The service is not running: start it with `make run` in another terminal.") from error
    return service


def write_private(path: Path, text: str) -> None:
    """Write a file only its owner can read, whole or not at all: readers never see half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # mkstemp makes the file with mode 0600, so there is no moment at which others can open it.
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
