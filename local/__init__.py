"""Everything that runs on a developer's machine only: the embedded AWS, the development issuer, the demo.

Nothing in `functions`, `shared` or `infra` imports it.
"""

import os
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".local"
"""What a running service keeps in this checkout: its data, its logs, the issuer's key. Never committed."""

SERVICE_FILE = STATE / "service.json"
DEPLOYMENT_FILE = STATE / "deployment.json"
KEY_FILE = STATE / "issuer-key.pem"

DEFAULT_PORT = 4566
DEFAULT_ISSUER_PORT = 4567
AUDIENCE = "video-metadata"


class LocalError(Exception):
    """Something the person at the terminal can act on; the message is one whole sentence."""


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
