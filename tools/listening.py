"""Prints webhook events in the terminal, through a temporary webhook that is deleted at the end."""

import os
import secrets
import socket
import socketserver
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, SimpleQueue
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
from rich.console import Console
from rich.text import Text
from standardwebhooks import Webhook, WebhookVerificationError

from local import LocalError, running_service
from local.demo import reason
from local.mint import mint
from local.ports import serving
from shared.routes import CHANGES, READ, WRITE
from tools import ToolError
from tools.history import format_value, moment, who

LOOPBACK = "127.0.0.1"
SUBJECT = "tools-listen"
"""User id that owns the tool's webhooks at a local service. With a separate id, these webhooks do not count towards the
limit of other users."""
EVERYBODY = "*"
TOKEN = "TOKEN"  # noqa: S105 - the name of a variable
SECONDS = 30
"""Timeout of a request to the service, in seconds."""
POLL = 5
"""Seconds without an event after which the listener checks whether its webhook still exists."""
MISSES = 3
"""Number of consecutive failed checks after which the listener stops, because the service is unreachable."""
LARGEST = 1_000_000
"""Maximum bytes of the body of a webhook request. Longer requests get 413."""


@dataclass(frozen=True)
class ListenOptions:
    """Options of the command: the events to print, and the address of the receiver."""

    types: tuple[str, ...] = ()
    """Event types to print. Empty for all types."""
    user_id: str | None = None
    """User whose changes are printed. With `None`, a local service sends the changes of all users, and a deployed
    service sends the changes of the token's user."""
    url: str | None = None
    """Public URL of a tunnel to this machine; `None` to use the loopback address."""
    port: int = 0
    """Local port of the receiver; 0 for any free port."""


class ServiceClient:
    """Client of the service's webhook API."""

    def __init__(self, base_url: str, token: Callable[[], str], *, is_local: bool) -> None:
        self.is_local = is_local
        self._token = token
        self._http = httpx.Client(base_url=base_url.rstrip("/"), timeout=SECONDS, trust_env=not is_local)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> httpx.Response:
        """Send a request to the webhook API. Returns the response also if its status is an error.

        Raises Unreachable if there is no response.
        """
        headers = {"Authorization": f"Bearer {self._token()}"}
        try:
            return self._http.request(method, f"/v1/webhooks{path}", json=body, headers=headers)
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise Unreachable(f"The service at {self._http.base_url} does not respond ({error}).") from error

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


class Unreachable(ToolError):
    """Error for a request without a response from the service."""


def local_service() -> ServiceClient:
    """Return a client of the service that `make run` started. Raises ToolError if the service is not running."""
    try:
        base_url = str(running_service()["baseUrl"])
        mint(SUBJECT, READ)
    except LocalError as error:
        raise ToolError(str(error)) from error
    return ServiceClient(base_url, lambda: mint(SUBJECT, f"{READ} {WRITE} {CHANGES}"), is_local=True)


def deployed_service(api: str) -> ServiceClient:
    """Return a client of a deployed service. The client sends the token in the environment variable TOKEN.

    Raises ToolError if the variable is not set.
    """
    token = os.environ.get(TOKEN)
    if not token:
        raise ToolError(
            f"The environment variable {TOKEN} is not set. Set it to a token for {api} with the scopes {READ} and {WRITE}."
        )
    return ServiceClient(api, lambda: token, is_local=False)


class WebhookReceiver(ThreadingHTTPServer):
    """HTTP server on the loopback address that receives webhook requests.

    For each request, the server puts the verified event into `received`, or the reason why it refused the request.
    """

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__((LOOPBACK, port), _WebhookHandler)
        self.path = f"/{secrets.token_urlsafe(9)}"
        """Random path of the receiver's URL. Other paths return 404, such as the path of an older webhook."""
        self.secret = Future[str]()
        """Signing secret of the webhook. The listener sets it after it has created the webhook."""
        self.received = SimpleQueue[Mapping[str, Any] | str]()

    def server_bind(self) -> None:
        # The inherited method resolves this machine's host name, which can take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, int(self.server_address[1])

    def handle_error(self, *_: object) -> None:
        """Put one line about the error into `received`. The inherited method would print a traceback."""
        self.received.put(f"a request that could not be read ({sys.exception()})")


class _WebhookHandler(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self) -> None:
        receiver = cast(WebhookReceiver, self.server)
        length = self.headers.get("content-length", "")
        if self.path != receiver.path:
            self._end(404)
        elif not (length.isascii() and length.isdigit() and int(length[:9]) <= LARGEST):
            self._end(413)
        else:
            body = self.rfile.read(int(length))
            try:
                # An event may arrive before the response that contains the secret.
                event = Webhook(receiver.secret.result(SECONDS)).verify(body, dict(self.headers.items()))
            except (WebhookVerificationError, ValueError) as error:  # also raised for malformed headers
                receiver.received.put(str(error))
                self._end(401)
            else:
                receiver.received.put(event)  # before the response, because the next event may follow it
                self._end(204)

    def _end(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Do nothing. The inherited method would print a line for each request between the events."""


@contextmanager
def receiving(port: int) -> Iterator[WebhookReceiver]:
    """Run a receiver until the end of the block. Raises ToolError if the port is not available."""
    try:
        receiver = WebhookReceiver(port)
    except (OSError, OverflowError) as error:
        raise ToolError(f"Cannot listen on port {port}: {error}.") from error
    with serving(receiver):
        yield receiver


class Listener:
    """Command that creates a temporary webhook, prints its events, and deletes the webhook."""

    def __init__(self, service: ServiceClient, options: ListenOptions, console: Console) -> None:
        self._service, self._options, self._console = service, options, console
        self._webhook_id: str | None = None
        self._is_paused = False
        self._ids: set[str] = set()
        self._events = 0

    def run(self) -> None:
        """Print events until KeyboardInterrupt, then delete the webhook. Deletes the webhook also after an error.

        Raises ToolError if the webhook cannot be created, if another client deletes it, or if the service stops
        responding.
        """
        with receiving(self._options.port) as receiver:
            place = (self._options.url or f"http://{LOOPBACK}:{receiver.server_port}").rstrip("/")
            url = f"{place}{receiver.path}"
            if self._service.is_local:
                self._remove_left_over()
            try:
                self._create(receiver, url)
                self._show_all(receiver)
            except KeyboardInterrupt:
                pass
            finally:
                self._delete(url)
        many = "1 event" if self._events == 1 else f"{self._events} events"
        self._print(f"{many} received; the webhook is deleted.")

    def _create(self, receiver: WebhookReceiver, url: str) -> None:
        user_id = self._options.user_id or (EVERYBODY if self._service.is_local else None)
        content: dict[str, Any] = {"url": url, "description": f"python -m tools listen, on {socket.gethostname()}"}
        content |= {"types": list(self._options.types)} if self._options.types else {}
        content |= {"userId": user_id} if user_id else {}
        answer = self._service.ask("POST", "", content)
        if answer.status_code != 201:
            raise ToolError(f"The service did not create the webhook: {format_value(reason(answer))}")
        made = answer.json()
        self._webhook_id = str(made["webhookId"])
        receiver.secret.set_result(str(made["secret"]))
        kinds = ", ".join(self._options.types) or "all types"
        subject = {None: "your own videos", EVERYBODY: "all users' videos"}.get(user_id, f"the videos of {user_id}")
        self._print(f"Listening at {url} for changes of {subject} ({kinds}). Press Ctrl-C to stop.")

    def _show_all(self, receiver: WebhookReceiver) -> None:
        misses = 0
        while True:
            try:
                received = receiver.received.get(timeout=POLL)
            except Empty:
                try:
                    self._check_webhook()
                    misses = 0
                except Unreachable:
                    misses += 1
                    if misses == MISSES:
                        raise
                continue
            if isinstance(received, str):
                self._console.print(Text(f"refused: {format_value(received)}", "red"))
                continue
            self._events += 1
            id_ = str(received["data"]["id"])
            self._console.print(describe_event(received, is_again=id_ in self._ids))
            self._ids.add(id_)

    def _check_webhook(self) -> None:
        """Read the webhook's state, and print a line if it has become paused. Raises ToolError if it was deleted."""
        answer = self._service.ask("GET", f"/{self._webhook_id}")
        if answer.status_code == 404:
            raise ToolError("The webhook was deleted.")
        is_paused = answer.status_code == 200 and bool(answer.json()["paused"])
        if is_paused and not self._is_paused:
            self._print(
                f"The webhook is paused. {format_value(answer.json().get('pausedBecause', 'A user has paused it.'))}"
            )
        self._is_paused = is_paused

    def _delete(self, url: str) -> None:
        """Delete the webhook. If the listener has not received the webhook's id, find the webhook by its URL."""
        try:
            ids = [self._webhook_id] if self._webhook_id else [id_ for id_, at in self._all() if at == url]
            for id_ in ids:
                answer = self._service.ask("DELETE", f"/{id_}")
                if answer.status_code not in (204, 404):
                    raise ToolError(f"The webhook {id_} was not deleted: {format_value(reason(answer))}")
        except Unreachable as error:
            later = " The next `listen` deletes it." if self._service.is_local else ""
            which = f"the webhook {self._webhook_id} still exists" if self._webhook_id else "a webhook may still exist"
            raise ToolError(f"{error} Therefore, {which}.{later}") from error

    def _remove_left_over(self) -> None:
        """Delete the webhooks of listeners that were killed. These webhooks have a loopback URL at a closed port."""
        for id_, url in self._all():
            place = urlsplit(url)
            if place.hostname != LOOPBACK or place.port is None:
                continue
            with socket.socket() as probe:
                if probe.connect_ex((LOOPBACK, place.port)):
                    self._service.ask("DELETE", f"/{id_}")

    def _all(self) -> list[tuple[str, str]]:
        """Return the id and URL of each webhook of the token's user. Returns an empty list if the request fails."""
        answer = self._service.ask("GET", "")
        return (
            [(str(hook["webhookId"]), str(hook["url"])) for hook in answer.json()["items"]] if answer.is_success else []
        )

    def _print(self, text: str) -> None:
        self._console.print(Text(text, "bold"))


def describe_event(event: Mapping[str, Any], *, is_again: bool) -> Text:
    """Format an event on one line, such as `2026-11-22 21:50:06Z  video.changed  3f25...  version 3  by alice  /title`."""
    data: Mapping[str, Any] = event["data"]
    line = Text(f"{moment(int(data['at']) // 1000)}  ")
    line.append(format_value(event["type"]), "bold")
    ids = [data[name] for name in ("videoId", "playlistId", "personId", "region", "language", "kind") if name in data]
    for value in ids:
        line.append(f"  {format_value(value)}")
    if "version" in data:
        line.append(f"  version {format_value(data['version'])}")
    if "by" in data:
        line.append(f"  by {who(data['by'])}", "cyan")
    if data.get("fields"):
        line.append(f"  {format_value(' '.join(data['fields']))}", "green")
    if is_again:
        line.append("  (sent again)", "yellow")
    return line
