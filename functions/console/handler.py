"""Web server of the console: its page, and the files that the page loads.

The function reads no data and imports no packages, so its cold starts are fast. The page reads all data from the API, like
any other client. infra/site.py builds the files.
"""

import base64
import gzip
import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

Payload: TypeAlias = dict[str, Any]

SITE = Path(__file__).parent / "site"
"""Folder with the gzip-compressed files of the site. The path of a file in the folder equals the path in the file's
URL."""
PAGE = "index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
IMMUTABLE = "public, max-age=31536000, immutable"
"""Cache-Control value for all files except the page. Their URLs contain a hash of their contents."""
REVALIDATE = "no-cache"
"""Cache-Control value for the page and for the settings of the deployment. Both can change without a change of their
URLs."""


def policy(media_origins: Sequence[str], connect: str) -> str:
    """Return the page's Content Security Policy.

    `media_origins` are the origins of images, videos and captions. `connect` has additional origins to which the page
    may send requests, such as the sign-in's origin, separated by spaces. Scripts load only from the page's own origin,
    and inline scripts are blocked. Inline styles are allowed, because the player adds style elements to its shadow
    roots. `blob:` is allowed, because the page reads captions and passes them to the player.
    """
    media = " ".join(media_origins)
    return (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        f"img-src 'self' {media}; media-src 'self' blob: {media}; connect-src 'self' {connect} {media}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def lambda_handler(event: Mapping[str, Any], _context: object) -> Payload:
    """Return the response to an API Gateway event (payload 2.0): GET /console, /console/ or /console/{file}."""
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    file = (event.get("pathParameters") or {}).get("file")
    if file is None and not event["rawPath"].endswith("/"):
        # Relative, so that the URL is also valid behind a proxy with another path prefix.
        return _respond(301, {"Location": "console/"})
    name = unquote(file or PAGE)
    if name == "config.json":
        return _respond(200, {"Content-Type": "application/json", "Cache-Control": REVALIDATE}, os.environ["CONFIG"])
    content = _content(name)
    if content is None:
        problem = {
            "type": "urn:video-metadata:problem:not-found",
            "title": "Not found",
            "status": 404,
            "detail": "The console has no file of this name.",
        }
        # The page of an older release may request deleted files. After a rollback they exist again, so no cache may store the 404.
        response_headers = {"Content-Type": "application/problem+json", "Cache-Control": "no-store"}
        return _respond(404, response_headers, json.dumps(problem))
    response_headers = {"Content-Type": TYPES[Path(name).suffix], "Vary": "Accept-Encoding"}
    if name != PAGE:
        response_headers["Cache-Control"] = IMMUTABLE
    else:
        response_headers |= {
            "Cache-Control": REVALIDATE,
            "Content-Security-Policy": policy(json.loads(os.environ["CONFIG"])["media"], os.environ["CONNECT_ORIGINS"]),
            "Referrer-Policy": "no-referrer",  # URLs of videos contain signatures
            "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
        }
    if "gzip" in headers.get("accept-encoding", ""):
        response_headers["Content-Encoding"] = "gzip"
    else:
        content = gzip.decompress(content)
    return _respond(200, response_headers) | {
        "body": base64.b64encode(content).decode("ascii"),
        "isBase64Encoded": True,
    }


def _content(name: str) -> bytes | None:
    """Return the content of a file of the site, compressed with gzip. `None` if the file does not exist."""
    return (SITE / f"{name}.gz").read_bytes() if name in _list_names(SITE) else None


@cache
def _list_names(site: Path) -> frozenset[str]:
    """Return the names of all files of the site.

    A request is served only if it has one of these names. Therefore requests cannot read files outside the site.
    """
    return frozenset(file.relative_to(site).as_posix().removesuffix(".gz") for file in site.rglob("*.gz"))


def _respond(status: int, headers: Mapping[str, str], body: str = "") -> Payload:
    return {
        "statusCode": status,
        "headers": {"X-Content-Type-Options": "nosniff", **headers},
        "body": body,
        "isBase64Encoded": False,
    }
