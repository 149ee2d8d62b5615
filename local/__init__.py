"""Tools that run only on a developer's machine, such as the embedded AWS, the development issuer and the demo.

Nothing in `functions`, `shared` or `infra` imports this package.
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
"""Folder with the data and logs of this checkout's local service, and the issuer's key. Never committed."""

SERVICE_FILE = STATE / "service.json"
DEPLOYMENT_FILE = STATE / "deployment.json"
KEY_FILE = STATE / "issuer-key.pem"

DEFAULT_PORT = 4566
DEFAULT_ISSUER_PORT = 4567
DEFAULT_OBJECTS_PORT = 4568
AUDIENCE = "video-metadata"
CONSOLE_CLIENT = "console"
"""Client id of the console at the development issuer."""


class LocalError(Exception):
    """Error that the developer can fix. Commands print the message, so write one complete sentence."""


def exit_status(action: Callable[[], object]) -> int:
    """Run an action, and return the exit status: 0, or 1 after a LocalError. Prints the error to standard error."""
    try:
        action()
    except LocalError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def running_service(file: Path = SERVICE_FILE) -> dict[str, Any]:
    """Return the content of `service.json`, which `make run` writes. Raises LocalError if the service is not running.

    Members for all tools are `baseUrl`, `consoleUrl`, `docsUrl`, `issuer`, and `tokens`, which has a token per user.
    Tools that bypass the API also need `endpoint`, `objectsEndpoint` and `secretAccessKey` for AWS clients,
    `tableName`, and `assembly`, the folder with the CDK's output.
    """
    try:
        service: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LocalError("The service is not running. Start it with `make run` in another terminal.") from error
    return service


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read. The write is atomic, so readers never see a partial file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # mkstemp creates the file with mode 0600, so other users can never open it.
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
