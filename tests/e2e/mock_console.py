"""The console of this checkout with a mock of the API, for its layout tests and screenshots. It needs no deployment."""

import gzip
import json
import mimetypes
import re
import sys
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Page

from functions.console.handler import policy
from infra.site import site
from local.issuer import USERS
from local.ports import LOOPBACK
from local.sample_videos import SCENES, captions, film, still
from tests.e2e.mock_api import MockApi
from tests.polling import LIMIT

IMMUTABLE = "public, max-age=31536000, immutable"
RANGE = re.compile(r"bytes=(\d+)-(\d*)")
IN_FLIGHT = """
(() => {
  const { fetch } = window;
  window.inFlight = 0;
  window.fetch = async (...request) => {
    window.inFlight += 1;
    try {
      return await fetch(...request);
    } finally {
      window.inFlight -= 1;
    }
  };
})();
"""
"""Script that counts the page's requests that have no response yet."""
SETTLED = """
async (limit) => {
  const end = performance.now() + limit;
  const loading = () => [...document.querySelectorAll("main :is(.loading, .skeleton):not(.theme *)")]
    .filter((part) => part.getBoundingClientRect().top < innerHeight);
  const isSettled = () => window.inFlight === 0 && document.querySelector("main h1, main h2, .welcome")
    && !loading().length;
  for (let quiet = 0; quiet < 4; quiet = isSettled() ? quiet + 1 : 0) {
    if (performance.now() > end) {
      throw new Error(`Still loading: ${window.inFlight} requests, ${loading().map((part) => part.outerHTML)}`);
    }
    await new Promise(requestAnimationFrame);
  }
}
"""
"""Function that resolves when a page has shown the responses to all its requests. Rows below the window may still be
loading, because they load when a user scrolls to them."""


def settle(page: Page) -> None:
    """Wait until a page has shown the responses to its requests, at most LIMIT seconds."""
    page.evaluate(SETTLED, 1000 * LIMIT)


def tokens(user: str) -> str:
    """Return the tokens of a user, as the console stores them. The mock does not check their signature."""
    claims = json.dumps({"sub": user, "scope": " ".join(USERS[user])}).encode()
    payload = urlsafe_b64encode(claims).rstrip(b"=").decode()
    return json.dumps({"accessToken": f"mock.{payload}.mock", "refreshToken": None})


def session_script(user: str | None) -> str:
    """Return the script that signs a user in before a page loads; `None` leaves the page signed out."""
    stored = "" if user is None else f"sessionStorage.setItem('tokens', {json.dumps(tokens(user))});"
    return IN_FLIGHT + stored


class MockConsole(ThreadingHTTPServer):
    """Web server of the console's files, the mock of the API, and sample media. Each start selects a free port.

    The storage stores nothing. It accepts the first part of an upload; another part gets no response until the server stops.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.origin = f"http://{LOOPBACK}:{self.server_address[1]}"
        self.api = MockApi(self.origin)
        self.files: dict[str, bytes] = {}
        for name, content in site().items():
            self.add(name, content)
        self.stopping = threading.Event()
        self.unknown: list[str] = []
        """Requests for operations that are not in the OpenAPI document."""

    def add(self, name: str, content: bytes) -> None:
        """Serve another file of the console."""
        self.files[name] = gzip.compress(content, 1)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that the browser has closed; report other errors."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def address(self, route: str, query: str = "") -> str:
        """Return the URL of a route of the console, such as `upload`. Another `query` makes the browser load the page
        again."""
        return f"{self.origin}/console/?{query}#/{route}"


@contextmanager
def served() -> Iterator[MockConsole]:
    """Yield a running mock console, and stop it after the block."""
    server = MockConsole()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Handler of one connection."""

    protocol_version = "HTTP/1.1"
    server: MockConsole

    def do_GET(self) -> None:
        """Respond with a file, sample media, or a response of the API."""
        url = urlsplit(self.path)
        if url.path.startswith("/console/"):
            self._file(url.path.removeprefix("/console/") or "index.html")
        elif url.path.startswith("/media/"):
            self._media(url.path.removeprefix("/media/"))
        else:
            self._api()

    def do_POST(self) -> None:
        """Respond as the API."""
        self._api()

    def do_PATCH(self) -> None:
        """Respond as the API."""
        self._api()

    def do_DELETE(self) -> None:
        """Respond as the API."""
        self._api()

    def do_PUT(self) -> None:
        """Respond as the API, or as the storage."""
        if not self.path.startswith("/storage/"):
            self._api()
            return
        if self.path.endswith("/1"):
            self.rfile.read(int(self.headers["Content-Length"]))
            self._send(200, "text/plain", b"", {"ETag": '"1"'})
            return
        self.server.stopping.wait()
        self.close_connection = True

    def _api(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        try:
            reply = self.server.api.respond(self.command, url.path, url.query)
        except LookupError as error:
            self.server.unknown.append(str(error))
            self._send(404, "application/json", b"{}")
            return
        self._send(reply.status, reply.kind, reply.body, {"ETag": '"3"', "Change-Set": "JKJb0"})

    def _file(self, name: str) -> None:
        if name == "config.json":
            settings: dict[str, Any] = {
                "issuer": self.server.origin,
                "clientId": "console",
                "scopes": "",
                "audience": None,
                "media": [],
            }
            self._send(200, "application/json", json.dumps(settings).encode())
            return
        content = self.server.files.get(name)
        if content is None:
            self._send(404, "text/plain", b"")
            return
        headers = {"Content-Encoding": "gzip"}
        if name == "index.html":
            headers |= {"Content-Security-Policy": policy([self.server.origin], self.server.origin)}
        else:
            headers |= {"Cache-Control": IMMUTABLE}
        self._send(200, mimetypes.guess_type(name)[0] or "text/plain", content, headers)

    def _media(self, name: str) -> None:
        place, _, kind = name.partition(".")
        content = media(int(place), kind)
        requested = RANGE.fullmatch(self.headers.get("Range") or "")
        headers = {"Accept-Ranges": "bytes", "Cache-Control": IMMUTABLE}
        status, size = 200, len(content)
        if requested:
            start, end = int(requested[1]), min(int(requested[2] or size - 1), size - 1)
            status, content = 206, content[start : end + 1]
            headers["Content-Range"] = f"bytes {start}-{end}/{size}"
        self._send(status, {"mp4": "video/mp4", "vtt": "text/vtt", "webp": "image/webp"}[kind], content, headers)

    def _send(self, status: int, kind: str, content: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in ({"Content-Type": kind} | dict(headers or {})).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@cache
def media(place: int, kind: str) -> bytes:
    """Return a file of a sample video: its image (`webp`), video (`mp4`) or captions (`vtt`)."""
    scene = SCENES[place]
    if kind == "mp4":
        return film(scene)
    if kind == "vtt":
        return captions(scene).encode()
    written = BytesIO()
    still(scene, 0.4).save(written, "WEBP", quality=80)
    return written.getvalue()
