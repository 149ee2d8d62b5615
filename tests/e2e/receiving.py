"""Webhook receiver on this machine, reachable only by a service on it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook

from local.ports import LOOPBACK, serving


@dataclass
class Receiver:
    """Webhook receiver that records requests and responds with the configured status and body."""

    status: int = 200
    body: bytes = b"taken"
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    """Headers, with lowercase names, and bodies of the received requests."""

    def __post_init__(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.received.append(({name.lower(): value for name, value in self.headers.items()}, body))
                with suppress(ConnectionError):  # the client may have closed the connection
                    self.send_response(receiver.status)
                    self.send_header("Content-Length", str(len(receiver.body)))
                    self.end_headers()
                    self.wfile.write(receiver.body)

            def log_message(self, *_: object) -> None:
                """Write no log."""

        self.server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self.url = f"http://{LOOPBACK}:{self.server.server_address[1]}/changes"

    def about(self, text: str) -> list[tuple[dict[str, str], bytes]]:
        """Return the received requests whose body contains a text, such as a video's id, because other tests' events
        arrive too.
        """
        return [(headers, body) for headers, body in [*self.received] if text in body.decode()]

    def ids(self, text: str) -> list[str]:
        """Return the ids of the received events about a subject, in order of arrival."""
        return [headers["webhook-id"] for headers, _ in self.about(text)]

    def verified(self, secret: str, text: str) -> list[dict[str, Any]]:
        """Return the received events about a subject. Raises WebhookVerificationError if any of them is not signed with
        this secret."""
        return [Webhook(secret).verify(body, headers) for headers, body in self.about(text)]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver within the block."""
    receiver = Receiver()
    with serving(receiver.server):
        yield receiver
