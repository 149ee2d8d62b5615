"""Tests of the guard in front of the embedded AWS: which requests of programs and of web pages it admits."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock
from urllib.parse import unquote, urlsplit

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from ministack import app as ministack_app

from local import guard
from local.aws import ACCOUNT, REGION
from local.guard import Guard, Message, Ports, Receive, Send
from tests.polling import LIMIT

PORTS = Ports(api=4566, objects=4568)
API, OBJECTS = (f"http://127.0.0.1:{port}" for port in (PORTS.api, PORTS.objects))
SECRET = "the secret of this start"
OBJECT_URL = f"{OBJECTS}/films/a.mp4"
PICTURE = "/films/thumbnails/v/1/poster.jpg"
CREATE_STACK = "Action=CreateStack&StackName=x&TemplateBody=%7B%7D&Version=2010-05-15"
UNSIGNED = "X-Amz-Credential=test/x/us-east-1/cloudformation/aws4_request"

Headers = Mapping[str, str]


@dataclass
class Reply:
    """Response of the guard, or of the engine behind it."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    reached: Message | None = None
    """ASGI scope that the engine received. `None` if the guard refused the request."""
    read: bytes = b""
    """Body that the engine read."""


async def guide(path: str) -> tuple[int, bytes, dict[str, str]]:
    """Return a guide page whose content is the path."""
    return 200, path.encode(), {"content-type": "text/html"}


def send_request(
    method: str,
    url: str,
    headers: Headers | None = None,
    body: bytes = b"",
    *,
    api: str | None = "abc",
    secrets: Mapping[str, str] | None = None,
) -> Reply:
    """Send a request through a guard and return the response. API `abc` and buckets `films` and `assets` are
    deployed."""
    parts, reply = urlsplit(url), Reply()
    sent = {"host": parts.netloc} | {name.lower(): value for name, value in (headers or {}).items()}
    scope = {
        "type": "http",
        "method": method,
        "path": unquote(parts.path),
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        "server": ("127.0.0.1", parts.port),
    }
    chunks = iter(
        [{"type": "http.request", "body": body[at : at + 3], "more_body": True} for at in range(0, len(body), 3)]
    )

    async def receive() -> Message:
        return next(chunks, {"type": "http.request", "body": b"", "more_body": False})

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            reply.status = message["status"]
            reply.headers = {name.decode(): value.decode() for name, value in message.get("headers", [])}
        else:
            reply.body += message.get("body", b"")

    async def engine(scope: Message, receive: Receive, send: Send) -> None:
        reply.reached, more = scope, True
        while more:
            message = await receive()
            reply.read += message["body"]
            more = message["more_body"]
        loose = [(b"access-control-allow-origin", b"*"), (b"content-type", b"text/html")]
        await send({"type": "http.response.start", "status": 200, "headers": loose})
        await send({"type": "http.response.body", "body": b"reached"})

    credentials = {ACCOUNT: SECRET} if secrets is None else secrets
    guard = Guard(
        engine, PORTS, secret=credentials.get, buckets=lambda: {"films", "assets"}, api=lambda: api, guide=guide
    )
    asyncio.run(guard(scope, receive, send))
    return reply


def signed(
    method: str, url: str, *, body: bytes = b"", service: str = "dynamodb", key: str = ACCOUNT, secret: str = SECRET
) -> dict[str, str]:
    """Return the headers of a request, with a signature as an AWS SDK creates it."""
    request = AWSRequest(method, url, {"X-Amz-Target": "DynamoDB_20120810.Scan"}, body)
    SigV4Auth(Credentials(key, secret), service, REGION).add_auth(request)
    return dict(request.headers.items())


def presigned(
    method: str, url: str, *, headers: Headers | None = None, secret: str = SECRET, seconds: int = 3600
) -> str:
    """Return a presigned URL, as the service creates it for clients."""
    request = AWSRequest(method, url, dict(headers or {}))
    S3SigV4QueryAuth(Credentials(ACCOUNT, secret), "s3", REGION, expires=seconds).add_auth(request)
    return str(request.url)


def refusal(reply: Reply) -> str:
    """Return the reason for which the guard refused a request. Asserts that the engine did not receive it."""
    assert (reply.status, reply.reached) == (403, None)
    return str(json.loads(reply.body)["message"])


class TestAws:
    """Requests to AWS services must be signed with the secret of this start."""

    @pytest.mark.parametrize(
        ("method", "url", "headers"),
        [
            pytest.param("GET", f"{API}/?{CREATE_STACK}&{UNSIGNED}", {}, id="CreateStack by GET"),
            pytest.param(
                "GET", f"{OBJECTS}/?{CREATE_STACK}&{UNSIGNED}", {}, id="CreateStack by GET at the objects' port"
            ),
            pytest.param("GET", f"{API}/?{CREATE_STACK}&x-amz-signature=0", {}, id="signature parameter in lower case"),
            pytest.param("POST", f"{API}/", {"X-Amz-Target": "DynamoDB_20120810.Scan"}, id="Scan without a signature"),
            pytest.param("POST", f"{API}/", {"Authorization": "AWS key:signature"}, id="signature of version 2"),
            pytest.param("POST", f"{API}/_local/save", {}, id="path of the local service"),
            pytest.param("POST", f"{OBJECTS}/_local/save", {}, id="path of the local service at the objects' port"),
            pytest.param("POST", f"{API}/_ministack/reset", {}, id="reset"),
            pytest.param("POST", f"{API}/%5Fministack/reset", {}, id="percent-encoded reset"),
            pytest.param("GET", f"{API}/_aws/execute-api/other/$default/v1/videos", {}, id="another API"),
            pytest.param("PUT", f"{API}/assets/x.html", {}, id="PUT to the assets bucket"),
            pytest.param("GET", f"{API}/assets/x.html", {}, id="GET from the assets bucket"),
            pytest.param("PUT", f"{OBJECTS}/assets/x.html", {}, id="PUT to the assets bucket at the objects' port"),
            pytest.param("GET", f"{OBJECTS}/assets/x.html", {}, id="GET from the assets bucket at the objects' port"),
            pytest.param("GET", f"{OBJECTS}/films?list-type=2", {}, id="list of objects"),
            pytest.param("DELETE", f"{OBJECTS}{PICTURE}", {}, id="DELETE of a thumbnail"),
            pytest.param("GET", f"{OBJECTS}{PICTURE}?acl", {}, id="permissions of a thumbnail"),
            pytest.param(
                "GET", f"{OBJECTS}{PICTURE}", {"X-Amz-Target": "DynamoDB_20120810.Scan"}, id="Scan at a thumbnail's URL"
            ),
            pytest.param(
                "GET",
                f"{OBJECTS}{PICTURE}",
                {"Authorization": UNSIGNED},
                id="credential for another service at a thumbnail's URL",
            ),
            pytest.param("GET", f"{OBJECTS}{PICTURE}", {"Content-Length": "2"}, id="GET of a thumbnail with a body"),
            pytest.param("GET", f"{OBJECTS}/iceberg/thumbnails/x", {}, id="thumbnail in a missing bucket"),
            pytest.param("POST", f"{API}/@connections/x", {}, id="management of a WebSocket"),
        ],
    )
    def test_aws_refuses_a_request_without_a_signature(self, method: str, url: str, headers: Headers) -> None:
        assert refusal(send_request(method, url, headers))

    @pytest.mark.parametrize("base", [API, API.replace("127.0.0.1", "localhost"), OBJECTS])
    @pytest.mark.parametrize("body", [b"", b'{"TableName": "VideoMetadata"}'])
    def test_aws_serves_a_signed_request_with_its_whole_body(self, base: str, body: bytes) -> None:
        url = f"{base}/000000000000/queue%20one?b=2&a="
        reply = send_request("POST", url, signed("POST", url, body=body), body)
        assert (reply.status, reply.read) == (200, body)

    def test_aws_serves_a_container_that_uses_the_docker_host_name(self) -> None:
        url = f"http://host.docker.internal:{PORTS.api}/"
        assert send_request("POST", url, signed("POST", url)).status == 200

    def test_aws_serves_an_assumed_role(self) -> None:
        headers = signed("POST", f"{API}/", key="ASIA1", secret="of the role")
        assert send_request("POST", f"{API}/", headers, secrets={ACCOUNT: SECRET, "ASIA1": "of the role"}).status == 200

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"secret": "guessed"}, "does not match"),
            ({"key": "AKIA1"}, "unknown"),
            ({"body": b"another"}, "does not match"),
        ],
        ids=str,
    )
    def test_aws_refuses_a_wrong_signature(self, change: dict[str, Any], why: str) -> None:
        assert why in refusal(send_request("POST", f"{API}/", signed("POST", f"{API}/", **change), b"body"))

    def test_aws_refuses_a_body_that_differs_from_the_signed_one(self) -> None:
        request = AWSRequest("PUT", OBJECT_URL, {}, b"signed")
        S3SigV4Auth(Credentials(ACCOUNT, SECRET), "s3", REGION).add_auth(request)
        assert send_request("PUT", OBJECT_URL, dict(request.headers.items()), b"signed").read == b"signed"
        assert "body" in refusal(send_request("PUT", OBJECT_URL, dict(request.headers.items()), b"other"))

    def test_aws_refuses_an_expired_signature(self) -> None:
        with mock.patch("botocore.auth.get_current_datetime", return_value=datetime.now(UTC) - timedelta(hours=1)):
            headers = signed("POST", f"{API}/")
        assert "expired" in refusal(send_request("POST", f"{API}/", headers))

    @pytest.mark.parametrize("site", ["cross-site", "same-site"])
    def test_aws_refuses_pages_of_other_origins_even_with_a_signature(self, site: str) -> None:
        headers = signed("POST", f"{API}/") | {"Sec-Fetch-Site": site}
        assert "Pages of other sites" in refusal(send_request("POST", f"{API}/", headers))

    def test_websocket_is_closed(self) -> None:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        guard = Guard(mock.Mock(), PORTS, secret=lambda _: None, buckets=set, api=lambda: None, guide=guide)
        asyncio.run(guard({"type": "websocket"}, mock.Mock(), send))
        assert sent == [{"type": "websocket.close", "code": 1008}]


class TestApi:
    """The API is served without an AWS signature, to pages of every site."""

    @pytest.mark.parametrize("path", ["/", "/health", "/v1/videos", "/v2/none", "//v1/videos", "/v1/users/a%2Fb"])
    @pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
    @pytest.mark.parametrize(
        "headers", [{}, {"Authorization": "Bearer x"}, {"Sec-Fetch-Site": "cross-site", "Origin": "https://a.example"}]
    )
    def test_api_is_served_to_every_site_at_its_short_url(self, path: str, name: str, headers: Headers) -> None:
        reached = send_request("GET", f"http://{name}:4566{path}?tag=X-Amz-Demo", headers).reached
        assert reached is not None
        prefix = "/_aws/execute-api/abc/$default"
        assert (reached["path"], reached["raw_path"]) == (prefix + unquote(path), f"{prefix}{path}".encode())
        # MiniStack recognises the path as a request to that API.
        assert ministack_app._parse_execute_api_url(f"{name}:4566", reached["path"])[:2] == ("abc", "$default")

    def test_api_is_served_at_the_url_of_ministack(self) -> None:
        reached = send_request("GET", f"{API}/_aws/execute-api/abc/$default/v1/videos").reached
        assert reached is not None
        assert reached["path"] == "/_aws/execute-api/abc/$default/v1/videos"

    def test_requests_are_refused_before_an_api_is_deployed(self) -> None:
        assert "No API" in refusal(send_request("GET", f"{API}/v1/videos", api=None))

    @pytest.mark.parametrize("path", ["/console", "/console/", "/console/a/b.js?x=1"])
    def test_console_is_redirected_to_one_origin(self, path: str) -> None:
        reply = send_request("GET", f"http://localhost:4566{path}")
        assert (reply.status, reply.headers["location"], reply.reached) == (307, API + path, None)


class TestGuide:
    """The guard itself serves the guide, even before an API is deployed."""

    @pytest.mark.parametrize("path", ["/guide", "/guide/", "/guide/docs/a.html"])
    def test_guide_is_served_without_the_api(self, path: str) -> None:
        reply = send_request("GET", API + path, api=None)
        assert (reply.status, reply.body, reply.reached) == (200, path.encode(), None)
        assert send_request("HEAD", API + path).body == b""

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
    def test_guide_refuses_methods_other_than_get_and_head(self, method: str) -> None:
        assert "GET and HEAD" in refusal(send_request(method, f"{API}/guide/"))


class TestHosts:
    """Requests with another host name are refused. Such a name may be a domain that a page resolved to this machine
    (DNS rebinding)."""

    @pytest.mark.parametrize(
        "host",
        [
            "evil.example:4566",
            "127.0.0.1",
            "127.0.0.1:4568",
            "127.0.0.1.evil.example:4566",
            "x.localhost:4566",
            "",
            "[::1]:4566",
        ],
    )
    @pytest.mark.parametrize(
        "path", ["/v1/videos", "/_ministack/health", "/console/", "/guide/", "/_aws/execute-api/abc/$default/"]
    )
    def test_other_host_is_refused(self, host: str, path: str) -> None:
        assert "Host" in refusal(send_request("GET", API + path, {"Host": host}))

    def test_other_host_gets_no_objects(self) -> None:
        for url in (OBJECTS + PICTURE, presigned("GET", OBJECT_URL)):
            assert "Host" in refusal(send_request("GET", url, {"Host": "evil.example:4568"}))

    @pytest.mark.parametrize(
        ("site", "status"), [("none", 200), ("same-origin", 200), ("same-site", 403), ("cross-site", 403)]
    )
    def test_ministack_state_is_served_to_same_origin_pages_only(self, site: str, status: int) -> None:
        assert send_request("GET", f"{API}/_ministack/health", {"Sec-Fetch-Site": site}).status == status
        assert send_request("POST", f"{API}/_ministack/health", {"Sec-Fetch-Site": site}).status == 403


class TestObjects:
    """Objects have their own port and need presigned URLs. Thumbnails need none."""

    @pytest.mark.parametrize("site", ["none", "same-site", "cross-site"])
    @pytest.mark.parametrize("key", ["a.mp4", "a%20film%2B.mp4"])
    def test_presigned_url_is_served_to_every_site(self, site: str, key: str) -> None:
        url = presigned("GET", f"{OBJECTS}/films/{key}")
        assert send_request("GET", url, {"Sec-Fetch-Site": site}).status == 200

    def test_presigned_upload_needs_the_signed_headers(self) -> None:
        headers = {"Content-Type": "video/mp4", "If-None-Match": "*"}
        url = presigned("PUT", OBJECT_URL, headers=headers)
        assert send_request("PUT", url, headers, b"film").read == b"film"
        assert "does not match" in refusal(send_request("PUT", url, headers | {"Content-Type": "text/html"}))

    def test_altered_or_expired_presigned_url_is_refused(self) -> None:
        url = presigned("GET", OBJECT_URL)
        for method, changed, why in (
            ("PUT", url, "does not match"),
            ("GET", url.replace("a.mp4", "b.mp4"), "does not match"),
            ("GET", url.replace("X-Amz-Expires", "X-Amz-Other"), "X-Amz-Expires"),
            ("GET", presigned("GET", OBJECT_URL, secret="guessed"), "does not match"),
            ("GET", presigned("GET", OBJECT_URL, seconds=-60), "expired"),
            ("GET", f"{OBJECT_URL}?X-Amz-Signature=0", "must include"),
            ("GET", url.replace("X-Amz-Expires=3600", f"X-Amz-Expires={10**18}"), "malformed"),
            ("GET", f"{url.rpartition('=')[0]}=%C3%A9", "malformed"),
        ):
            assert why in refusal(send_request(method, changed)), changed

    @pytest.mark.parametrize("name", ["X-Amz-Target", "X-Amz-Copy-Source", "Authorization"])
    def test_presigned_url_with_an_unsigned_header_is_refused(self, name: str) -> None:
        assert "must be signed" in refusal(
            send_request("GET", presigned("GET", OBJECT_URL), {name: "secretsmanager.ListSecrets"})
        )

    def test_presigned_url_is_refused_at_the_origin_of_the_console(self) -> None:
        assert refusal(send_request("GET", presigned("GET", f"{API}/films/a.mp4")))

    @pytest.mark.parametrize(
        ("site", "status"), [("none", 200), ("same-origin", 200), ("same-site", 200), ("cross-site", 403)]
    )
    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_thumbnail_is_served_without_a_signature_except_to_other_sites(
        self, method: str, site: str, status: int
    ) -> None:
        assert send_request(method, OBJECTS + PICTURE, {"Sec-Fetch-Site": site}).status == status

    @pytest.mark.parametrize(
        ("origin", "allowed"),
        [(API, API), ("http://127.0.0.1:3000", None), ("http://localhost:4566", None), ("", None)],
    )
    @pytest.mark.parametrize("path", [PICTURE, "/films/refused"])
    def test_objects_are_readable_by_console_pages_only(self, origin: str, allowed: str | None, path: str) -> None:
        headers = send_request("GET", OBJECTS + path, {"Origin": origin}).headers
        assert (headers.get("access-control-allow-origin"), headers["vary"]) == (allowed, "Origin")

    @pytest.mark.parametrize(("origin", "status"), [(API, 204), ("https://evil.example", 403)])
    def test_preflight_succeeds_for_the_console_only(self, origin: str, status: int) -> None:
        assert send_request("OPTIONS", OBJECT_URL, {"Origin": origin}).status == status

    def test_object_cannot_run_scripts(self) -> None:
        headers = send_request("GET", presigned("GET", f"{OBJECTS}/films/x.html")).headers
        assert headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        assert headers["x-content-type-options"] == "nosniff"


class TestStalls:
    """A request with a stalled body is closed. A slow request is not."""

    @staticmethod
    async def send_request(path: str, headers: Headers) -> tuple[list[Message], list[Message]]:
        """Send a request that stalls after the first part of its body.

        Return the messages that the engine received, and the messages sent to the client.
        """
        received: list[Message] = []
        sent: list[Message] = []
        parts = iter([{"type": "http.request", "body": b"{", "more_body": True}])

        async def receive() -> Message:
            return next(parts, None) or await asyncio.get_running_loop().create_future()

        async def send(message: Message) -> None:
            sent.append(message)

        async def engine(scope: Message, receive: Receive, send: Send) -> None:
            while not received or received[-1].get("more_body"):
                received.append(await receive())

        patient_guard = Guard(engine, PORTS, secret={ACCOUNT: SECRET}.get, buckets=set, api=lambda: "abc", guide=guide)
        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
        scope |= {"server": ("127.0.0.1", PORTS.api)}
        scope |= {"headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()]}
        async with asyncio.timeout(LIMIT):
            await patient_guard(scope, receive, send)
        return received, sent

    @pytest.fixture(autouse=True)
    def no_stall_timeout(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Reduce the stall timeout to zero."""
        monkeypatch.setattr(guard, "STALL_SECONDS", 0)

    def test_stalled_request_to_the_api_gets_408(self) -> None:
        received, sent = asyncio.run(self.send_request("/v1/videos", {"Host": f"127.0.0.1:{PORTS.api}"}))
        assert received == [{"type": "http.request", "body": b"{", "more_body": True}]
        assert sent[0]["status"] == 408
        assert b"did not continue within" in sent[1]["body"]

    def test_stalled_request_to_aws_gets_408_and_does_not_reach_it(self) -> None:
        headers = signed("POST", f"{API}/", body=b"{}") | {"Host": f"127.0.0.1:{PORTS.api}"}
        received, sent = asyncio.run(self.send_request("/", headers))
        assert (received, sent[0]["status"]) == ([], 408)

    def test_wait_for_a_disconnect_after_the_body_is_not_a_stall(self) -> None:
        async def is_waiting_for_disconnect() -> bool:
            disconnected, parts = asyncio.Event(), iter([{"type": "http.request", "body": b"{}", "more_body": False}])

            async def receive() -> Message:
                if part := next(parts, None):
                    return part
                await disconnected.wait()
                return {"type": "http.disconnect"}

            patient = guard._without_stalls(receive)
            await patient()
            waiting = asyncio.ensure_future(patient())
            for _ in range(5):
                await asyncio.sleep(0)  # runs all timers that are due
            is_waiting = not waiting.done()
            disconnected.set()
            await waiting
            return is_waiting

        assert asyncio.run(is_waiting_for_disconnect())
