"""`make token SUB=carol SCOPES="videos/read"`: prints a token for the service on this machine."""

import json
import sys

from local import DEPLOYMENT_FILE, KEY_FILE, SERVICE_FILE, LocalError, exit_status
from local.deployment import Deployment
from local.issuer import TokenSigner


def mint(subject: str, scopes: str) -> str:
    """Return a token for `subject` with the space-separated `scopes`. Raises LocalError if no service has run yet."""
    if not subject.strip():
        raise LocalError("A token needs a subject. Use `make token SUB=carol SCOPES='videos/read'`.")
    issuer = _issuer()
    if issuer is None or not KEY_FILE.exists():
        raise LocalError("The issuer has no signing key yet. Run `make run` first.")
    return TokenSigner(KEY_FILE).mint(issuer, subject, scopes.replace(",", " ").split())


def _issuer() -> str | None:
    """Return the issuer that the running service trusts. If no service runs, return the issuer of the last deployment,
    or `None`."""
    try:
        return str(json.loads(SERVICE_FILE.read_text(encoding="utf-8"))["issuer"])
    except (OSError, ValueError, KeyError):
        last = Deployment.load(DEPLOYMENT_FILE)
        return None if last is None else last.issuer


def main(arguments: list[str]) -> int:
    """Print the token of `[subject, scopes]` and return the exit status."""
    subject, scopes = arguments
    return exit_status(lambda: print(mint(subject, scopes)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
