"""Guard of the embedded AWS: an ASGI application that accepts or rejects each request before MiniStack receives it.

MiniStack checks no signatures, and any web page can send requests to this machine. A page could therefore create a
stack, and run code on this machine. The guard accepts only these kinds of requests, and rejects all others with 403:

- to the documents below `/guide/`, which the guard serves itself;
- to MiniStack's health check, from programs, the address bar and pages of the API's origin;
- to the deployed API, from every site, because the API promises CORS and checks tokens itself;
- to AWS, with an AWS Signature Version 4 in the headers, signed with the secret that each start generates;
- to one object, with a presigned URL that was signed with the same secret and has not expired;
- to a thumbnail below `thumbnails/`, whose URL is unguessable. On AWS, CloudFront serves thumbnails without a signature;
- to an object with OPTIONS, as a CORS preflight of the console, which the guard answers itself.

Each request must name this machine in `Host`, because a page can resolve another name to this address (DNS rebinding). Objects
have their own port, and therefore another origin than the console: a script in an object cannot act as the console.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Container, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from ministack.core import sigv4

from local.ports import FROM_CONTAINER, LOOPBACK, LOOPBACK_NAMES

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
"""Type of an ASGI application."""

HEALTH_PATH = "/_ministack/health"
LONG_URL = re.compile(r"/_aws/execute-api/([^/]+)/")
"""Pattern of the path by which MiniStack itself serves a deployed API. The group is the API's id."""
SIGNED_QUERY = re.compile(r"(?:^|&)X-Amz-", re.IGNORECASE)
THUMBNAIL = re.compile(r"/[^/]+/thumbnails/[^?]+")
STALL_SECONDS = 75.0
"""Maximum seconds between two parts of a request body. This is also the idle timeout of MiniStack's server."""
HASH = re.compile(r"[0-9a-f]{64}")

OBJECT_HEADERS = {
    # Documents from a bucket get an opaque origin and run no scripts; images and videos still load.
    "content-security-policy": "sandbox; default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'",
    "x-content-type-options": "nosniff",
    "vary": "Origin",
}
CORS = {
    "access-control-allow-methods": "GET, HEAD, PUT",
    "access-control-allow-headers": "*",
    "access-control-expose-headers": "Accept-Ranges, Content-Length, Content-Range, ETag",
    "access-control-max-age": "3600",
}


class RequestRefused(Exception):
    """Error for a request that the guard rejects. The message is the reason."""


class RequestStalled(Exception):
    """Error for a client that did not send the next part of the request's body within STALL_SECONDS."""


@dataclass(frozen=True)
class Ports:
    """The two ports that the engine listens on."""

    api: int
    """Port of the deployed API. Signed requests to AWS use the same port."""
    objects: int
    """Port of S3, for thumbnails and presigned URLs that browsers load."""


class _Request:
    """Parts of an ASGI request that the guard checks."""

    def __init__(self, scope: Message) -> None:
        self.scope = scope
        self.method = str(scope["method"])
        self.path = str(scope["path"])
        self.raw_path = scope["raw_path"].decode("latin-1")
        self.query = scope["query_string"].decode("latin-1")
        self.headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            key, text = name.decode("latin-1").lower(), sigv4.decode_header_value(value)
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    @property
    def first(self) -> str:
        """First segment of the path."""
        return self.path.removeprefix("/").partition("/")[0]

    @property
    def site(self) -> str:
        """Value of the header Sec-Fetch-Site, which says how the origin of the sending page relates to this address.
        `none` if the header is missing."""
        return self.headers.get("sec-fetch-site", "none")

    def require_host(self, port: int, *names: str) -> None:
        """Raise RequestRefused unless `Host` is one of these names with this port."""
        if self.headers.get("host", "") not in [f"{name}:{port}" for name in names or LOOPBACK_NAMES]:
            raise RequestRefused(f"Host must be {LOOPBACK}:{port} or localhost:{port}.")

    def require_plain(self, signed: Sequence[str] = ()) -> None:
        """Raise RequestRefused if the request has an AWS header that is not in `signed`.

        An unsigned AWS header could select another service or object.
        """
        for name in self.headers:
            if name == "authorization" or (name.startswith("x-amz-") and name not in signed):
                raise RequestRefused(f"The header {name} must be signed.")

    def require_site(self, *allowed: str) -> None:
        """Raise RequestRefused unless the value of Sec-Fetch-Site is one of `allowed`."""
        if self.site not in allowed:
            raise RequestRefused("Pages of other sites may send requests to the API only.")


class Guard:
    """ASGI application that forwards a request to `inner` only if the rules of this module accept the request.

    `secret` returns the secret key of an access key id, or `None` for an unknown id. `buckets` returns the names of all
    buckets. `api` returns the id of the deployed API, or `None` before the first deployment. `guide` returns status,
    body and headers for a path below `/guide`.
    """

    def __init__(
        self,
        inner: App,
        ports: Ports,
        *,
        secret: Callable[[str], str | None],
        buckets: Callable[[], Container[str]],
        api: Callable[[], str | None],
        guide: Callable[[str], Awaitable[tuple[int, bytes, dict[str, str]]]],
    ) -> None:
        self._inner = inner
        self._ports = ports
        self._secret = secret
        self._buckets = buckets
        self._api = api
        self._guide = guide
        self._console = f"http://{LOOPBACK}:{ports.api}"

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one HTTP request. Rejects WebSockets, and forwards the server's messages about its start and stop."""
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # the service has no WebSockets
            return
        receive = _without_stalls(receive)
        request = _Request(scope)
        is_for_objects = scope["server"][1] == self._ports.objects
        if is_for_objects:
            send = self._as_object(request, send)
        try:
            await (self._serve_object if is_for_objects else self._serve)(request, receive, send)
        except RequestRefused as refusal:
            body = json.dumps({"__type": "AccessDenied", "message": str(refusal)}).encode()
            await _answer(send, 403, body, {"content-type": "application/json"})
        except RequestStalled:
            body = json.dumps(
                {"message": f"The body did not continue within {STALL_SECONDS:.0f} s. Send it again."}
            ).encode()
            await _answer(send, 408, body, {"content-type": "application/json"})

    async def _serve(self, request: _Request, receive: Receive, send: Send) -> None:
        if not self._is_for_aws(request):
            await self._serve_api(request, receive, send)
        elif (request.method, request.path) == ("GET", HEALTH_PATH):
            request.require_host(self._ports.api)
            request.require_site("none", "same-origin")
            await self._inner(request.scope, receive, send)
        else:
            await self._inner(request.scope, await self._signed(request, receive, self._ports.api), send)

    def _is_for_aws(self, request: _Request) -> bool:
        """Return whether a request is for AWS, and not for the API or an object. Returns true also for requests to AWS
        without a signature."""
        deployed = LONG_URL.match(request.path)
        return (
            request.headers.get("authorization", "").startswith("AWS")
            or "x-amz-target" in request.headers
            or SIGNED_QUERY.search(request.query) is not None
            or (request.path.startswith("/_") and not (deployed and deployed[1] == self._api()))
            or request.first == "@connections"  # MiniStack's management of WebSockets
            or request.first in self._buckets()
        )

    async def _serve_api(self, request: _Request, receive: Receive, send: Send) -> None:
        """Serve the guide, or forward a request to the path at which MiniStack serves the deployed API.

        Clients use a shorter base URL, because MiniStack's path contains `$default`, which shells would expand.
        """
        request.require_host(self._ports.api)
        if request.first == "console" and request.headers["host"] != f"{LOOPBACK}:{self._ports.api}":
            # S3 and the issuer accept requests of the console only from one origin.
            where = self._console + request.raw_path + ("?" + request.query if request.query else "")
            await _answer(send, 307, b"", {"location": where})
            return
        if request.first == "guide":
            if request.method not in ("GET", "HEAD"):
                raise RequestRefused("The guide accepts GET and HEAD only.")
            status, body, headers = await self._guide(request.path)
            await _answer(send, status, body if request.method == "GET" else b"", headers)
            return
        deployed = self._api()
        if deployed is None:
            raise RequestRefused("No API is deployed yet.")
        scope = request.scope
        if not LONG_URL.match(request.path):
            prefix = f"/_aws/execute-api/{deployed}/$default"
            scope = {**scope, "path": prefix + scope["path"], "raw_path": prefix.encode() + scope["raw_path"]}
        await self._inner(scope, receive, send)

    async def _serve_object(self, request: _Request, receive: Receive, send: Send) -> None:
        port = self._ports.objects
        if request.method == "OPTIONS" and request.headers.get("origin") == self._console:
            request.require_host(port)
            await _answer(send, 204, b"", {})  # `_as_object` adds the CORS headers
            return
        if SIGNED_QUERY.search(request.query):
            request.require_host(port)
            self._require_presigned(request)
        elif self._is_thumbnail(request):
            request.require_host(port)
            request.require_plain()
            request.require_site("none", "same-origin", "same-site")
        else:
            receive = await self._signed(request, receive, port)
        await self._inner(request.scope, receive, send)

    def _is_thumbnail(self, request: _Request) -> bool:
        """Return whether a request is a plain GET or HEAD of one thumbnail, without a query."""
        return (
            request.method in ("GET", "HEAD")
            and not request.query
            and not {"content-length", "transfer-encoding"} & request.headers.keys()
            and THUMBNAIL.fullmatch(request.path) is not None
            and request.first in self._buckets()
        )

    async def _signed(self, request: _Request, receive: Receive, port: int) -> Receive:
        """Verify the signature in the headers, and return a `receive` function that yields the body.

        Raises RequestRefused unless the request was signed with the secret key that was generated at the last start.
        """
        request.require_host(port, *LOOPBACK_NAMES, FROM_CONTAINER)
        request.require_site("none", "same-origin")
        if not request.headers.get("authorization", "").startswith("AWS4-HMAC-SHA256 "):
            raise RequestRefused("AWS requests must be signed with the secretAccessKey in .local/service.json.")
        signature = sigv4.parse_header_signature(request.headers)
        if isinstance(signature, tuple):
            raise RequestRefused(signature[1])
        body, receive = await _read(receive)
        declared = request.headers.get("x-amz-content-sha256", "")
        if HASH.fullmatch(declared) and declared != hashlib.sha256(body).hexdigest():
            raise RequestRefused("The body differs from the signed body.")
        self._verify(request, signature, sigv4.request_time_failure(signature), body, presigned=False)
        return receive

    def _require_presigned(self, request: _Request) -> None:
        """Raise RequestRefused unless the URL was signed for S3 and has not expired.

        The signature must be made with the secret key that was generated at the last start."""
        query = _parameters(request)
        signature = sigv4.parse_query_signature(query)
        if isinstance(signature, tuple):
            raise RequestRefused(signature[1])
        try:
            expired = sigv4.presigned_request_is_expired(signature.amz_date, query["X-Amz-Expires"][0])
        except (KeyError, ValueError, OverflowError):
            raise RequestRefused("X-Amz-Date or X-Amz-Expires is missing or malformed.") from None
        request.require_plain(signature.signed_headers.split(";"))
        failure = ("AccessDenied", "Request has expired.") if expired or signature.service != "s3" else None
        self._verify(request, signature, failure, b"", presigned=True)

    def _verify(
        self,
        request: _Request,
        signature: sigv4.HeaderSignature,
        failure: tuple[str, str] | None,
        body: bytes,
        *,
        presigned: bool,
    ) -> None:
        secret = self._secret(signature.access_key_id)
        if secret is None or signature.region_set is not None or not signature.signature.isascii():
            raise RequestRefused("The access key id is unknown, or the signature is malformed.")
        failure = failure or sigv4.header_signature_failure(
            signature,
            secret,
            request.method,
            request.raw_path,
            _parameters(request),
            request.headers,
            body,
            presigned=presigned,
        )
        if failure:
            raise RequestRefused(failure[1])

    def _as_object(self, request: _Request, send: Send) -> Send:
        """Return a `send` function that adds headers to the response for an object. The headers forbid scripts, and
        allow CORS only for the console."""
        added = OBJECT_HEADERS
        if request.headers.get("origin") == self._console:
            added = added | CORS | {"access-control-allow-origin": self._console}
        replaced = [(name.encode(), value.encode()) for name, value in added.items()]

        async def send_as_object(message: Message) -> None:
            if message["type"] == "http.response.start":
                others = [
                    (name, value)
                    for name, value in message.get("headers", [])
                    if name.lower().decode() not in OBJECT_HEADERS and not name.lower().startswith(b"access-control-")
                ]
                message = {**message, "headers": [*others, *replaced]}
            await send(message)

        return send_as_object


def _parameters(request: _Request) -> dict[str, list[str]]:
    return parse_qs(request.query, keep_blank_values=True)


def _without_stalls(receive: Receive) -> Receive:
    """Return a `receive` function that raises RequestStalled if the client sends nothing for STALL_SECONDS.

    MiniStack's server does not limit such pauses. The total duration of a body remains unlimited.
    """
    is_complete = False

    async def receive_in_time() -> Message:
        nonlocal is_complete
        if is_complete:  # the next message is the disconnect
            return await receive()
        try:
            async with asyncio.timeout(STALL_SECONDS):
                message = await receive()
        except TimeoutError:
            raise RequestStalled from None
        is_complete = not message.get("more_body", False)
        return message

    return receive_in_time


async def _read(receive: Receive) -> tuple[bytes, Receive]:
    """Read a whole body. Returns the body, and a `receive` function that returns the same body to the next reader."""
    parts, more = [], True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestRefused("The request ended before its body did.")
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    body = b"".join(parts)
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def replay() -> Message:
        return next(messages, None) or await receive()

    return body, replay


async def _answer(send: Send, status: int, body: bytes, headers: dict[str, str]) -> None:
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
