"""Requests to untrusted servers, which may send any response. The servers listen on loopback."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from local.ports import free_port
from local.testbed.harness import Clock
from shared.webhooks import http_client
from shared.webhooks.http_client import MAX_BYTES, Connect, ReceiverResponse, seconds_of, send
from tests.certificates import make_certificate, server_side
from tests.connections import Listener
from tests.polling import LIMIT, eventually

BODY = b'{"type":"video.changed"}'
HEADERS = {"webhook-id": "a", "content-type": "application/json"}
PUBLIC = "93.184.215.14"
IPV4 = partial(socket.getaddrinfo, family=socket.AF_INET)
"""DNS lookup that ignores IPv6, because another program may listen on the same port there."""
SHORT = 0.1
"""Time limit in seconds for exchanges that never end."""
LATE = "The receiver did not respond within 0.1 seconds."
NOT_HTTP = "The receiver's response is not HTTP."
NO_RESPONSE = "The receiver closed the connection without a response."

Converse = Callable[[socket.socket, bytes], None]
"""Function that serves a connection. The second argument is the received request."""


class Receiver(Listener):
    """Server on loopback that serves each connection with a function of the test."""

    def __init__(self, converse: Converse, tls: ssl.SSLContext | None = None, *, expects_http: bool = True) -> None:
        self.requests: list[bytes] = []
        self.converse, self._expects_http = converse, expects_http
        super().__init__(self._respond, tls)

    def url(self, path: str = "/in") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def _respond(self, connection: socket.socket) -> None:
        self.requests.append(self._read(connection))
        self.converse(connection, self.requests[-1])

    def _read(self, connection: socket.socket) -> bytes:
        request = connection.recv(65_536)
        while self._expects_http and not request.endswith(BODY) and (piece := connection.recv(65_536)):
            request += piece
        return request


Make = Callable[..., Receiver]
TimeOutAfter = Callable[[bytes], Connect]


def responds_with(response: bytes) -> Converse:
    return lambda connection, _: connection.sendall(response)


def waits(connection: socket.socket, _: bytes, before: bytes = b"") -> None:
    """Send `before`, then nothing until the client closes the connection."""
    connection.sendall(before)
    assert connection.recv(1) == b""


def trickles(connection: socket.socket, _: bytes, text: bytes, before: bytes = b"") -> None:
    """Send a byte whenever the client has sent nothing for 5 ms, until it closes the connection."""
    connection.sendall(before)
    connection.settimeout(0.005)
    for position in range(len(text)):
        connection.send(text[position : position + 1])
        with suppress(TimeoutError):
            assert connection.recv(1) == b""
            return


class _Read(socket.socket):
    """Connection that reports all bytes read so far."""

    report: Callable[[bytes], object]
    content = b""

    def recv_into(self, buffer: Any, *arguments: Any) -> int:
        count = super().recv_into(buffer, *arguments)
        self.content += bytes(buffer[:count])
        self.report(self.content)
        return count


@pytest.fixture
def time_out_after(monkeypatch: pytest.MonkeyPatch) -> TimeOutAfter:
    """Return a function that creates a `connect` function for a text. The clock is constant until a connection has read
    this text. Then the clock advances to SHORT seconds before the time limit, and a little with each further read."""
    clock = Clock()
    monkeypatch.setattr(http_client, "time", SimpleNamespace(monotonic=clock, time=time.time))

    def time_out_after(text: bytes) -> Connect:
        begun = clock.now

        def report(content: bytes) -> None:
            if text in content:
                clock.now = begun + LIMIT - SHORT if clock.now == begun else clock.now + SHORT / 4

        def connect(address: tuple[str, int], seconds: float) -> socket.socket:
            connection = _Read(fileno=socket.create_connection(address, seconds).detach())
            connection.report = report
            return connection

        return connect

    return time_out_after


@pytest.fixture
def receiver() -> Iterator[Make]:
    created: list[Receiver] = []

    def make(converse: Converse, tls: ssl.SSLContext | None = None, *, expects_http: bool = True) -> Receiver:
        created.append(Receiver(converse, tls, expects_http=expects_http))
        return created[-1]

    yield make
    for one in created:
        one.close()


def sent(receiver: Receiver, seconds: float = LIMIT, path: str = "/in") -> ReceiverResponse:
    return send(receiver.url(path), HEADERS, BODY, local=True, seconds=seconds)


def test_request_is_one_post_with_the_headers_and_body(receiver: Make) -> None:
    one = receiver(responds_with(b"HTTP/1.1 204 No Content\r\n\r\n"))
    sent(one, path="/in?a=b%20c")
    head, _, body = one.requests.pop().partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    assert first == "POST /in?a=b%20c HTTP/1.1"
    assert sorted(lines) == [
        "accept-encoding: identity",
        "connection: close",
        f"content-length: {len(BODY)}",
        "content-type: application/json",
        f"host: 127.0.0.1:{one.port}",
        "webhook-id: a",
    ]
    assert body == BODY
    assert one.requests == []


RESPONSES = {
    "200": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
    "200 that ends with the connection": (b"HTTP/1.1 200 OK\r\n\r\nok", 200, b"ok"),
    "200 of HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\nok", 200, b"ok"),
    "200 with bare line feeds": (b"HTTP/1.1 200 OK\nA: b\n\nok", 200, b"ok"),
    "200 without a reason": (b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", 200, b""),
    "202 in chunks": (
        b"HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n3;a=b\r\n, a\r\n0\r\nx: y\r\n\r\n",
        202,
        b"ok, a",
    ),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    "304": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, b""),
    "200 after 100 and 103": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na",
        200,
        b"a",
    ),
    "410": (b"HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\ngone", 410, b"gone"),
    "500": (b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", 500, b""),
    "an unassigned status": (b"HTTP/1.1 599 Because\r\ncontent-length: 0\r\n\r\n", 599, b""),
    # The status has arrived, so the delivery has a result. The body is only displayed.
    "a body that is cut off": (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart", 200, b"part"),
    "no body, but a length": (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", 200, b""),
    "a chunk that is cut off": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n9\r\npa", 200, b""),
    "chunks of nonsense": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n", 200, b""),
    "a negative chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc", 200, b""),
    "no length that is a number": (b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nok", 200, b"ok"),
}


@pytest.mark.parametrize(("raw", "status", "body"), RESPONSES.values(), ids=RESPONSES)
def test_response_has_the_status_and_body_that_were_sent(receiver: Make, raw: bytes, status: int, body: bytes) -> None:
    response = sent(receiver(responds_with(raw)))
    assert (response.status, response.error, response.is_forbidden) == (status, None, False)
    assert body in (response.body, b"") if body == b"" else response.body == body
    assert response.ms >= 0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("target", ["http://169.254.169.254/latest/meta-data/", "/in", "http://127.0.0.1:{port}/else"])
def test_no_redirect_is_followed(receiver: Make, status: int, target: str) -> None:
    elsewhere = receiver(responds_with(b"HTTP/1.1 200 OK\r\n\r\n"))
    location = target.format(port=elsewhere.port)
    one = receiver(
        responds_with(f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode())
    )
    assert sent(one).status == status
    assert (len(one.accepted), elsewhere.accepted) == (1, [])


MEGABYTE = b"x" * 1_000_000
HUGE = {
    "with its length": b"Content-Length: 1000000\r\n\r\n" + MEGABYTE,
    "until the end": b"\r\n" + MEGABYTE,
    "as one chunk": b"Transfer-Encoding: chunked\r\n\r\nF4240\r\n" + MEGABYTE + b"\r\n0\r\n\r\n",
    "in chunks": b"Transfer-Encoding: chunked\r\n\r\n" + b"3e8\r\n" + b"\r\n3e8\r\n".join([b"x" * 1000] * 1000),
}


@pytest.mark.parametrize("remainder", HUGE.values(), ids=HUGE)
def test_large_response_is_read_up_to_64_kb(receiver: Make, remainder: bytes) -> None:
    response = sent(receiver(responds_with(b"HTTP/1.1 200 OK\r\n" + remainder)))
    assert (response.status, response.error, set(response.body)) == (200, None, set(b"x"))
    assert MAX_BYTES - 2000 < len(response.body) < MAX_BYTES


INVALID_RESPONSES = {
    "nothing": (b"", NO_RESPONSE),
    "half a status line": (b"HTTP/1.1 20", NOT_HTTP),
    "half of the headers": (b"HTTP/1.1 200 OK\r\nContent-Le", NOT_HTTP),
    "only 100": (b"HTTP/1.1 100 Continue\r\n\r\n", NOT_HTTP),
    "another protocol": (b"SSH-2.0-OpenSSH_9.2p1\r\n", NOT_HTTP),
    "binary": (bytes(range(256)), NOT_HTTP),
    "HTTP/2": (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\r\n", NOT_HTTP),
    "a status of letters": (b"HTTP/1.1 OK\r\n\r\n", NOT_HTTP),
    "a status of other digits": (b"HTTP/1.1 \xb2\xb2\xb2\r\n\r\n", NOT_HTTP),
    "a status beyond all": (b"HTTP/1.1 1200 OK\r\n\r\n", NOT_HTTP),
    "a status of zeros": (b"HTTP/1.1 000 OK\r\n\r\n", NOT_HTTP),
    "two lengths": (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nok", NOT_HTTP),
    "a length of 5,000 digits": (b"HTTP/1.1 200 OK\r\ncontent-length: " + b"9" * 5000 + b"\r\n\r\n", NOT_HTTP),
    "101 headers": (b"HTTP/1.1 200 OK\r\n" + b"".join(b"a%d: b\r\n" % n for n in range(101)) + b"\r\n", NOT_HTTP),
    "a header without an end": (b"HTTP/1.1 200 OK\r\na: " + MEGABYTE, NOT_HTTP),
    "headers beyond 64 KB": (b"HTTP/1.1 200 OK\r\n" + (b"a: " + b"b" * 1000 + b"\r\n") * 99 + b"\r\n", NOT_HTTP),
}


@pytest.mark.parametrize(("raw", "error"), INVALID_RESPONSES.values(), ids=INVALID_RESPONSES)
def test_invalid_response_is_an_error(receiver: Make, raw: bytes, error: str) -> None:
    response = sent(receiver(responds_with(raw)))
    assert (response.status, response.error, response.body, response.is_forbidden) == (None, error, b"", False)


class TestTimeout:
    @pytest.mark.parametrize("before", [b"", b"HTTP/1.1 ", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
    def test_server_that_hangs_is_a_timeout(self, receiver: Make, before: bytes) -> None:
        response = sent(receiver(partial(waits, before=before)), SHORT)
        assert (response.status, response.error) == (None, LATE)

    def test_server_that_hangs_after_its_headers_is_a_response(
        self, receiver: Make, time_out_after: TimeOutAfter
    ) -> None:
        one = receiver(partial(waits, before=b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart"))
        response = send(one.url(), HEADERS, BODY, local=True, seconds=LIMIT, connect=time_out_after(b"part"))
        assert (response.status, response.error, response.body) == (200, None, b"part")

    def test_server_that_trickles_its_headers_is_a_timeout(self, receiver: Make) -> None:
        response = sent(receiver(partial(trickles, text=b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 99)), SHORT)
        assert (response.status, response.error) == (None, LATE)

    def test_server_that_trickles_interim_responses_is_a_timeout(self, receiver: Make) -> None:
        response = sent(receiver(partial(trickles, text=b"HTTP/1.1 100 Continue\r\n\r\n" * 99)), SHORT)
        assert (response.status, response.error) == (None, LATE)

    @pytest.mark.parametrize("head", [b"\r\nstart", b"Transfer-Encoding: chunked\r\n\r\n5\r\nstart\r\n"])
    def test_server_that_trickles_its_body_is_a_response(
        self, receiver: Make, time_out_after: TimeOutAfter, head: bytes
    ) -> None:
        text = b"1\r\nx\r\n" * 500
        one = receiver(partial(trickles, text=text, before=b"HTTP/1.1 200 OK\r\n" + head))
        response = send(one.url(), HEADERS, BODY, local=True, seconds=LIMIT, connect=time_out_after(b"x\r\n"))
        assert (response.status, response.error, response.body[:5]) == (200, None, b"start")
        assert len(response.body) < len(text) / 2

    def test_server_that_does_not_read_is_a_timeout(self) -> None:
        """Send a request that is larger than the buffers of the client and the server."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            response = send(url, {}, b"x" * 30_000_000, local=True, seconds=SHORT)
        assert (response.status, response.error) == (None, LATE)

    @pytest.mark.parametrize(
        "converse", [waits, partial(trickles, text=b"\x16\x03\x03\x3f\xff\x02\x00\x3f\x00" + b"\x03" * 2000)]
    )
    def test_server_that_never_ends_its_handshake_is_a_timeout(self, receiver: Make, converse: Converse) -> None:
        one = receiver(converse, expects_http=False)
        response = send(one.url().replace("http", "https"), HEADERS, BODY, local=True, seconds=SHORT)
        assert (response.status, response.error) == (None, LATE)


def assert_no_lookup_remains() -> None:
    for thread in threading.enumerate():
        if thread.name.endswith("(look_up)"):
            thread.join(LIMIT)
            assert not thread.is_alive()


class TestNameLookup:
    def test_lookup_that_never_ends_is_abandoned(self) -> None:
        """Test that lookups that never end use at most 16 threads. A thread is available again when its lookup ends."""
        lookups, release = [], threading.Event()

        def hang(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
            lookups.append(host)
            release.wait()
            return []

        def give_up() -> int:
            response = send("https://example.com/", HEADERS, BODY, local=False, seconds=0.02, resolve=hang)
            assert (response.status, response.error) == (None, "The receiver did not respond within 0.02 seconds.")
            return len(lookups)

        try:
            for _ in range(16):
                give_up()
            # on a busy machine, a request may time out before its lookup starts
            eventually(give_up, lambda lookups: lookups == 16)
            for _ in range(2):
                give_up()
        finally:
            release.set()
        assert_no_lookup_remains()
        assert len(lookups) == 16
        response = send("https://example.com/", HEADERS, BODY, local=False, seconds=LIMIT, resolve=hang)
        assert response.error == "The name of the receiver cannot be resolved."

    @pytest.mark.parametrize(
        "error", [socket.gaierror(-2, "unknown"), UnicodeError("label"), OSError("files")], ids=repr
    )
    def test_failed_lookup_is_an_error(self, error: Exception) -> None:
        def fail(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
            raise error

        response = send("https://example.com/", HEADERS, BODY, local=False, resolve=fail, seconds=LIMIT)
        assert (response.error, response.is_forbidden) == ("The name of the receiver cannot be resolved.", False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a certificate of hooks.example.com."""
    return make_certificate(tmp_path_factory.mktemp("tls"), "hooks.example.com")


class TestTls:
    URL = "https://hooks.example.com/in"

    def send(
        self, one: Receiver, trust: ssl.SSLContext | None, url: str = URL
    ) -> tuple[ReceiverResponse, list[tuple[str, int]]]:
        """Send to a public name, with connections redirected to a receiver on loopback.

        Return the response, and the addresses of the connections.
        """
        addresses = []

        def resolve(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (PUBLIC, port))]

        def connect(address: tuple[str, int], seconds: float) -> socket.socket:
            addresses.append(address)
            return socket.create_connection(("127.0.0.1", one.port), seconds)

        response = send(url, HEADERS, BODY, local=False, seconds=LIMIT, resolve=resolve, connect=connect, trust=trust)
        return response, addresses

    def test_receiver_with_a_valid_certificate_gets_the_event(self, receiver: Make, certificate: Path) -> None:
        one = receiver(responds_with(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"), server_side(certificate))
        trust = ssl.create_default_context(cafile=certificate)
        response, addresses = self.send(one, trust)
        assert (response.status, response.body, addresses) == (200, b"ok", [(PUBLIC, 443)])
        assert b"\r\nhost: hooks.example.com\r\n" in one.requests[0]
        # also with a long response, and whether or not the server closes TLS properly
        one.converse = responds_with(b"HTTP/1.1 200 OK\r\n\r\n" + MEGABYTE)
        response, _ = self.send(one, trust)
        assert (response.status, MAX_BYTES - 2000 < len(response.body) < MAX_BYTES) == (200, True)

    @pytest.mark.parametrize(
        ("host", "days", "reason"),
        [
            ("other.example.com", 1, "Hostname mismatch, certificate is not valid for 'hooks.example.com'"),
            ("example.com", 1, "Hostname mismatch, certificate is not valid for 'hooks.example.com'"),
            (IPv4Address(PUBLIC), 1, "Hostname mismatch, certificate is not valid for 'hooks.example.com'"),
            ("hooks.example.com", -1, "certificate has expired"),
        ],
        ids=str,
    )
    def test_receiver_with_an_invalid_certificate_gets_nothing(
        self, receiver: Make, tmp_path: Path, host: str | IPv4Address, days: int, reason: str
    ) -> None:
        cafile = make_certificate(tmp_path, host, days=days)
        one = receiver(waits, server_side(cafile))
        response, _ = self.send(one, ssl.create_default_context(cafile=cafile))
        assert (response.status, response.error) == (None, f"The receiver's certificate is invalid: {reason}.")
        assert one.requests == []

    def test_receiver_certificate_is_checked_against_the_system_store_only(
        self, receiver: Make, certificate: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
        one = receiver(waits, server_side(certificate))
        response, _ = self.send(one, None)
        assert response.error == "The receiver's certificate is invalid: self-signed certificate."
        assert one.requests == []

    def test_system_trust_store_is_used(
        self, receiver: Make, certificate: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Test OpenSSL's default trust store. On Lambda, it is the bundle of Amazon Linux."""
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        http_client._system_trust.cache_clear()
        response, _ = self.send(
            receiver(responds_with(b"HTTP/1.1 204 No Content\r\n\r\n"), server_side(certificate)), None
        )
        http_client._system_trust.cache_clear()
        assert response.status == 204

    def test_certificate_of_an_ip_address_is_accepted(self, receiver: Make, tmp_path: Path) -> None:
        cafile = make_certificate(tmp_path, IPv4Address(PUBLIC))
        one = receiver(responds_with(b"HTTP/1.1 204 No Content\r\n\r\n"), server_side(cafile))
        response, addresses = self.send(one, ssl.create_default_context(cafile=cafile), f"https://{PUBLIC}:8443/")
        assert (response.status, addresses) == (204, [(PUBLIC, 8443)])

    def test_receiver_without_tls_is_an_error(self, receiver: Make) -> None:
        response, _ = self.send(receiver(responds_with(b"HTTP/1.1 400 Bad Request\r\n\r\n"), expects_http=False), None)
        assert (response.status, response.error) == (None, "The TLS handshake with the receiver failed.")

    def test_old_version_of_tls_is_an_error(self, receiver: Make, certificate: Path) -> None:
        tls = server_side(certificate)
        tls.set_ciphers("ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated"):
            tls.minimum_version = tls.maximum_version = ssl.TLSVersion.TLSv1
        response, _ = self.send(receiver(waits, tls), ssl.create_default_context(cafile=certificate))
        assert (response.status, response.error) == (None, "The TLS handshake with the receiver failed.")


def test_refused_connection_is_an_error() -> None:
    response = send(f"http://127.0.0.1:{free_port()}/", HEADERS, BODY, local=True, seconds=LIMIT)
    assert (response.status, response.error, response.is_forbidden) == (
        None,
        "The receiver refused the connection.",
        False,
    )


def test_reset_connection_is_an_error(receiver: Make) -> None:
    def breaks(connection: socket.socket, _: bytes) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()

    response = sent(receiver(breaks))
    assert (response.status, response.error) == (None, "The receiver reset the connection.")


def test_no_proxy_is_used(receiver: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = receiver(responds_with(b"HTTP/1.1 502 Bad Gateway\r\n\r\n"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url("/"))
    assert sent(receiver(responds_with(b"HTTP/1.1 204 No Content\r\n\r\n"))).status == 204
    assert proxy.accepted == []


def test_concurrent_requests_get_their_own_responses_and_leave_no_threads(receiver: Make) -> None:
    def echo(connection: socket.socket, request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + request.split()[1])

    url = receiver(echo).url().replace("127.0.0.1", "localhost")
    paths = [f"{url}/{number}" for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        response = list(
            pool.map(lambda path: send(path, HEADERS, BODY, local=True, seconds=LIMIT, resolve=IPV4), paths)
        )
    assert [(raw.status, raw.body) for raw in response] == [(200, b"/in/%d" % number) for number in range(24)]
    assert_no_lookup_remains()


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0),
        ("120", 120),
        ("99999999999999999999", 999_999_999),
        ("Thu, 01 Jan 1970 00:20:00 GMT", 200),
        ("Thursday, 01-Jan-70 00:20:00 GMT", 200),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("²", None),
        ("Thu, 99 Jan 1970 00:20:00 GMT", None),
        ("Thu, 01 Jan 99999 00:20:00 GMT", None),
    ],
)
def test_retry_after_may_be_seconds_or_a_date(header: str, seconds: int | None) -> None:
    assert seconds_of(header, 1000) == seconds


def test_response_has_its_retry_after(receiver: Make) -> None:
    response = sent(receiver(responds_with(b"HTTP/1.1 503 Busy\r\nRetry-After: 120\r\ncontent-length: 0\r\n\r\n")))
    assert (response.status, response.retry_after) == (503, 120)
    assert sent(receiver(responds_with(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n"))).retry_after is None
