"""Tests of the lean client on a real socket, compared with boto3: both have the same requests, responses and errors."""

import datetime
import json
import socket
import ssl
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPConnection
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from botocore.utils import ContainerMetadataFetcher

from local.ports import free_port
from local.testbed.harness import Clock
from shared.aws import boto3_client, secrets
from shared.aws.dynamodb import REQUEST_ATTEMPTS, Table
from shared.aws.lean import connections
from shared.aws.lean.client import (
    DYNAMODB,
    SECRETS_MANAGER,
    SHORTEST_WAIT,
    AwsService,
    Client,
    ErrorResponse,
    NotSent,
    ResponseLost,
    make_client,
)
from shared.aws.lean.connections import Unsupported
from shared.aws.lean.signing import Credentials
from shared.core.errors import ServiceError, Unavailable
from shared.feed.change import Change
from shared.webhooks.event_bus import EventBus
from shared.webhooks.http_client import ReceiverResponse
from tests.certificates import make_certificate, server_side
from tests.connections import Listener
from tests.polling import LIMIT, patience

KEY: Any = {"pk": {"S": "p"}, "sk": {"S": "s"}}


class Server(Listener):
    """Server that sends the scripted responses of a test in order. It closes the connection when no response is
    left."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.responses: list[bytes] = []
        self.requests: list[tuple[dict[str, str], bytes]] = []
        """Headers and body of each received request, in order."""
        self.keeps_open = True
        """Whether connections stay open after a response."""
        self.converse = self._respond
        super().__init__(lambda connection: self.converse(connection), tls)
        self.endpoint = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        """Number of connections that clients opened."""
        return len(self.accepted)

    def _respond(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        while stream.readline():
            headers = {}
            while line := stream.readline().decode().strip():
                name, _, value = line.partition(": ")
                headers[name.lower()] = value
            self.requests.append((headers, stream.read(int(headers["content-length"]))))
            if not self.responses:
                break
            connection.sendall(self.responses.pop(0))
            if not self.keeps_open:
                break
        stream.close()


def http_response(content: Any, status: int = 200, **headers: str) -> bytes:
    """Return an HTTP response. `content` is the body as bytes, or a value to encode as JSON."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    lines = [f"HTTP/1.1 {status} Because", f"content-length: {len(body)}", "content-type: application/x-amz-json-1.0"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


@pytest.fixture(autouse=True)
def patient() -> Iterator[None]:
    """Let boto3's clients wait, because responses on a busy machine may take longer than the service's time-outs."""
    with patience() as patch:
        patch.setattr(ContainerMetadataFetcher, "TIMEOUT_SECONDS", LIMIT)
        yield


@pytest.fixture
def server() -> Iterator[Server]:
    yield from _served(None)


def _served(tls: ssl.SSLContext | None) -> Iterator[Server]:
    server = Server(tls)
    yield server
    while _CLIENTS:
        _CLIENTS.pop().close()
    server.close()


Make = Callable[[Server], Any]


_CLIENTS: list[Any] = []


def lean(server: Server) -> Client:
    credentials = Credentials("test", "test", None)
    return _with_idle_connection(
        Client(server.endpoint, "us-east-1", lambda: credentials, connect_seconds=LIMIT, read_seconds=LIMIT)
    )


def _with_idle_connection(client: Client) -> Client:
    _CLIENTS.append(client)
    return client


def reference(server: Server) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL_DYNAMODB", server.endpoint)
        _CLIENTS.append(boto3_client.make_client())
        return _CLIENTS[-1]


both_clients = pytest.mark.parametrize("make", [lean, reference])


def outcome(client: Any, attempts: int = 1) -> Any:
    """Return the result of a read through `Table`, or the type and detail of the error."""
    try:
        return Table("T", client, attempts=attempts, sleep=lambda _: None).get({"pk": "p", "sk": "s"})
    except ServiceError as error:
        return type(error), error.detail


ITEM = {
    "S": {"S": 'ü🎬\x00"'},
    "N": {"N": "-1234567890123456789012345678901234567.5"},
    "int": {"N": "12345678901234567890"},
    "B": {"B": "AP8="},
    "SS": {"SS": ["a", "b"]},
    "L": {"L": [{"S": ""}, {"L": []}, {"M": {}}]},
    "M": {"M": {"deep": {"M": {"deeper": {"B": ""}}}}},
    "yes": {"BOOL": True},
    "nothing": {"NULL": True},
}
PREFIX = "com.amazonaws.dynamodb.v20120810#"
RESPONSES = {
    "an item": http_response({"Item": ITEM}),
    "no item": http_response({}),
    "a megabyte": http_response({"Item": {"pk": {"S": "x" * 1_000_000}}}),
    "nothing at all": http_response(b""),
    "a checksum": http_response({}, x_amz_crc32=str(zlib.crc32(b"{}"))),
    "chunks": b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\n{"Item":{\r\n2\r\n}}\r\n0\r\n\r\n',
    **{
        code: http_response({"__type": f"{PREFIX}{code}", "message": "because"}, 400)
        for code in (
            "ProvisionedThroughputExceededException",
            "RequestLimitExceeded",
            "ThrottlingException",
            "TransactionConflictException",
            "ConditionalCheckFailedException",
            "ResourceNotFoundException",
            "ValidationException",
            "AccessDeniedException",
            "UnrecognizedClientException",
            "ItemCollectionSizeLimitExceededException",
        )
    },
    "a hint of throttling": http_response(
        {
            "__type": f"{PREFIX}ThrottlingException",
            "message": "Throughput exceeds",
            "throttlingReasons": [{"reason": "TableWriteKeyRangeThroughputExceeded", "resource": "arn:aws:dynamodb"}],
        },
        400,
    ),
    "too large an item": http_response(
        {"__type": f"{PREFIX}ValidationException", "Message": "Item size has exceeded"}, 400
    ),
    "a type without a namespace": http_response({"__type": "InternalServerError"}, 500),
    "an error without a body": http_response(b"", 503),
    "a page of a proxy": http_response(b"<html>bad gateway</html>", 502),
    "a cancelled transaction": http_response(
        {
            "__type": f"{PREFIX}TransactionCanceledException",
            "Message": "cancelled",
            "CancellationReasons": [{"Code": "None"}, {"Code": "ConditionalCheckFailed", "Item": KEY}],
        },
        400,
    ),
    "a redirect": http_response(b"", 307, location="http://127.0.0.1:9/"),
}


@pytest.mark.parametrize("name", RESPONSES)
def test_clients_parse_every_dynamodb_response_identically(server: Server, name: str) -> None:
    outcomes = []
    for make in (lean, reference):
        server.responses = [RESPONSES[name]]
        outcomes.append(_comparable(make(server)))
    assert outcomes[0] == outcomes[1]


def _comparable(client: Any) -> Any:
    try:
        return Table("T", client, attempts=1).get({"pk": "p", "sk": "s"})
    except Exception as error:
        return type(error), str(error), vars(error)


@both_clients
@pytest.mark.parametrize("body", [b"not JSON", b"\xff", b'{"Item":'])
def test_non_json_response_is_a_lost_response(server: Server, make: Make, body: bytes) -> None:
    server.responses = [http_response(body)] * REQUEST_ATTEMPTS
    # botocore does not convert the error of the JSON parser
    with pytest.raises(Unavailable if make is lean else (Unavailable, ValueError)):
        Table("T", make(server), attempts=1).get({"pk": "p", "sk": "s"})


@pytest.mark.parametrize(
    "response",
    [
        http_response([], 500),
        http_response([]),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-3\r\n{}\r\n0\r\n\r\n",
    ],
)
def test_response_that_dynamodb_never_sends_is_unavailable(server: Server, response: bytes) -> None:
    server.responses = [response]
    assert outcome(lean(server))[0] is Unavailable


def test_response_with_a_wrong_checksum_is_lost(server: Server) -> None:
    server.responses = [http_response({}, x_amz_crc32="1")]
    with pytest.raises(ResponseLost):
        lean(server).get_item(TableName="T", Key=KEY)


def test_response_truncated_at_any_byte_is_lost(server: Server) -> None:
    complete = http_response({"Item": KEY})
    server.keeps_open = False
    client = lean(server)
    for length in range(len(complete)):
        server.responses = [complete[:length]]
        with pytest.raises(ResponseLost):
            client.get_item(TableName="T", Key=KEY)
    server.responses = [complete]
    assert client.get_item(TableName="T", Key=KEY) == {"Item": KEY}


@both_clients
def test_idempotent_request_with_a_lost_response_is_retried(server: Server, make: Make) -> None:
    complete = http_response({"Item": {"n": {"N": "1"}}})
    server.responses = [b"", complete[:-1], complete]
    server.keeps_open = False
    assert outcome(make(server), attempts=3) == {"n": 1}
    assert len(server.requests) == 3


class TestConnections:
    def test_connection_is_reused(self, server: Server) -> None:
        client = lean(server)
        for _ in range(3):
            server.responses = [http_response({"Item": KEY})]
            assert client.get_item(TableName="T", Key=KEY) == {"Item": KEY}
        assert server.connections == 1

    @pytest.mark.parametrize(
        "lines",
        [
            "content-length: 2\r\ncontent-length: 3",
            "transfer-encoding: gzip, chunked",
            "connection: close\r\nconnection: keep-alive",
            "content-length: 2\r\n x: folded",
            "content-length 2",
            "content-length: two",
            "x: y",
        ],
    )
    def test_response_with_ambiguous_headers_is_lost(self, server: Server, lines: str) -> None:
        server.responses = [f"HTTP/1.1 200 OK\r\n{lines}\r\n\r\n{{}}".encode(), http_response({})]
        client = lean(server)
        with pytest.raises(ResponseLost):
            client.get_item(TableName="T", Key=KEY)
        assert client.get_item(TableName="T", Key=KEY) == {}
        assert server.connections == 2

    @pytest.mark.parametrize("token", ["x\r\nx-amz-target: other", "x\ry", "x\ny"])
    def test_header_with_a_line_break_is_not_sent(self, server: Server, token: str) -> None:
        client = _with_idle_connection(Client(server.endpoint, "us-east-1", lambda: Credentials("a", "b", token)))
        with pytest.raises(ValueError, match="line break"):
            client.get_item(TableName="T", Key=KEY)
        assert server.requests == []

    def test_request_accepts_only_the_identity_coding(self, server: Server) -> None:
        server.responses = [http_response({})]
        lean(server).get_item(TableName="T", Key=KEY)
        assert server.requests[0][0]["accept-encoding"] == "identity"

    def test_request_is_sent_in_one_write(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        pieces: list[bytes] = []
        send = HTTPConnection.send

        def sent(connection: HTTPConnection, data: bytes) -> None:
            pieces.append(data)
            send(connection, data)

        monkeypatch.setattr(HTTPConnection, "send", sent)
        server.responses += [http_response({}), http_response({})]
        client = lean(server)
        for _ in range(2):
            client.get_item(TableName="T", Key=KEY)
        assert [piece[:4] + piece[-1:] for piece in pieces] == [b"POST}", b"POST}"]

    def test_connection_is_reused_after_an_error_response(self, server: Server) -> None:
        client = lean(server)
        server.responses = [http_response({"__type": "ThrottlingException"}, 400), http_response({})]
        with pytest.raises(ErrorResponse):
            client.get_item(TableName="T", Key=KEY)
        assert (client.get_item(TableName="T", Key=KEY), server.connections) == ({}, 1)

    def test_connection_closed_while_idle_is_reopened_before_sending(self, server: Server) -> None:
        server.keeps_open = False
        client = lean(server)
        for _ in range(3):
            server.responses = [http_response({})]
            assert client.put_item(TableName="T", Item=KEY) == {}
            _wait_for_close(client)
        assert (server.connections, len(server.requests)) == (3, 3)

    def test_connection_is_not_pooled_after_connection_close(self, server: Server) -> None:
        client = lean(server)
        server.responses = [http_response({}, connection="close")]
        client.get_item(TableName="T", Key=KEY)
        assert client._idle == []

    def test_concurrent_requests_use_separate_connections(self, server: Server) -> None:
        client = lean(server)
        server.responses, server.keeps_open = [http_response({"Item": {"n": {"N": str(n)}}}) for n in range(3)], False
        pending = [client.begin("GetItem", TableName="T", Key=KEY) for _ in range(3)]
        assert {one()["Item"]["n"]["N"] for one in pending} == {"0", "1", "2"}

    def test_request_without_a_server_was_not_sent(self) -> None:
        client = Client(f"http://127.0.0.1:{free_port()}", "us-east-1", lambda: Credentials("a", "b", None))
        with pytest.raises(NotSent):
            client.get_item(TableName="T", Key=KEY)

    def test_timeouts_of_concurrent_requests_overlap(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make a request time out while later requests wait. The later requests were sent at the same time, so their
        time limit has also expired."""
        waits: list[float] = []

        def late(connected: socket.socket, **_: str) -> Any:
            waits.append(connected.gettimeout() or 0)
            raise TimeoutError

        monkeypatch.setattr("shared.aws.lean.client.Response", late)
        clock = Clock()
        monkeypatch.setattr("shared.aws.lean.client.time.monotonic", clock)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
            client = Client(endpoint, "us-east-1", lambda: Credentials("a", "b", None), read_seconds=0.05)
            pending = [client.begin("Query", TableName="T") for _ in range(3)]
            for wait in pending:
                with pytest.raises(ResponseLost):
                    wait()
                clock.advance(0.05)
        assert waits == pytest.approx([0.05, SHORTEST_WAIT, SHORTEST_WAIT])

    def test_wait_for_a_response_is_limited(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
            client = Client(endpoint, "us-east-1", lambda: Credentials("a", "b", None), read_seconds=0.01)
            with pytest.raises(ResponseLost):
                client.get_item(TableName="T", Key=KEY)


def _wait_for_close(client: Client) -> None:
    """Wait until the server has closed the pooled connection."""
    (connection,) = client._idle
    assert connection.sock.recv(1, socket.MSG_PEEK) == b""


class TestRequests:
    @pytest.mark.parametrize("token", [None, "a+token/="])
    @pytest.mark.parametrize("parameters", [{}, {"Item": {"t": {"S": "ü🎬"}, "b": {"B": b"\x00\xff"}}}])
    @pytest.mark.parametrize("service", [DYNAMODB, SECRETS_MANAGER])
    def test_requests_are_signed_as_by_botocore(
        self, server: Server, service: AwsService, token: str | None, parameters: Any
    ) -> None:
        client = _with_idle_connection(
            Client(server.endpoint, "eu-central-2", lambda: Credentials("AKID", "secret/+", token), service)
        )
        server.responses = [http_response({})]
        client.call("Operation", **parameters)
        ((headers, body),) = server.requests

        request = AWSRequest("POST", f"{server.endpoint}/", data=body)
        for name in ("content-type", "x-amz-target", "x-amz-date", "x-amz-security-token"):
            if name in headers:
                request.headers[name] = headers[name]
        request.context["timestamp"] = headers["x-amz-date"]
        signer = SigV4Auth(BotocoreCredentials("AKID", "secret/+", token), service.name, "eu-central-2")
        text = signer.string_to_sign(request, signer.canonical_request(request))
        assert headers["authorization"].rpartition("Signature=")[2] == signer.signature(text, request)
        assert f"Credential=AKID/{signer.scope(request)[5:]}" in headers["authorization"].replace("AKID/AKID", "AKID")

    def test_requests_are_the_same_as_those_of_boto3(self, server: Server) -> None:
        request: Any = {
            "TableName": "T",
            "Item": {"b": {"B": b"\x00"}, "t": {"S": "ü"}, "n": {"N": "1"}},
            "ExpressionAttributeValues": {":x": {"BS": [b"\x01"]}},
        }
        for make in (lean, reference):
            server.responses = [http_response({})]
            make(server).put_item(**request)
        (headers, body), (their_headers, their_body) = server.requests
        assert json.loads(body) == json.loads(their_body)
        for name in ("content-type", "x-amz-target", "host"):
            assert headers[name] == their_headers[name]

    def test_requests_have_the_trace_header_of_the_invocation(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-5759e988")
        server.responses = [http_response({})]
        lean(server).get_item(TableName="T", Key=KEY)
        assert server.requests[0][0]["x-amzn-trace-id"] == "Root=1-5759e988"

    def test_item_that_json_cannot_encode_is_refused_before_sending(self, server: Server) -> None:
        with pytest.raises(TypeError):
            lean(server).put_item(TableName="T", Item={"a": {"S": object()}})
        assert server.connections == 0


def last(content: Any, status: int = 200) -> bytes:
    """Return a response with the header `connection: close`."""
    return http_response(content, status, connection="close")


SECRET = last({"ARN": "arn", "Name": "cursors", "SecretString": "a secret ü", "CreatedDate": 1.5e9})
FAULT = last({"__type": "InternalServiceError"}, 500)
SECRETS = {
    "it": [SECRET],
    "it in chunks": [
        b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n13\r\n{"SecretString":"ab\r\n2\r\n"}\r\n0\r\n\r\n'
    ],
    "it after throttling": [last({"__type": "ThrottlingException", "Message": "slow"}, 400), SECRET],
    "it after faults": [FAULT, last(b"", 503), SECRET],
    "it after a lost answer": [SECRET[:-1], SECRET],
    "it after no answer": [b"", SECRET],
    "too many faults": [FAULT, FAULT, FAULT, SECRET],
    "none": [last({"__type": "ResourceNotFoundException", "Message": "gone"}, 400)] * 3,
    "none for us": [last({"__type": "AccessDeniedException", "Message": "no"}, 400)] * 3,
    "another page": [last(b"<html>", 502)] * 3,
}


class TestSecrets:
    """Reads of the secret that seals cursors, from Secrets Manager."""

    @pytest.mark.parametrize("name", SECRETS)
    def test_clients_parse_every_secret_response_identically(
        self, server: Server, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server.keeps_open = False
        outcomes = []
        for choice in ("ours", "boto3"):
            server.responses, server.requests[:] = list(SECRETS[name]), []
            outcomes.append((self._outcome(server, choice, monkeypatch), len(server.requests)))
        assert outcomes[0] == outcomes[1]
        assert isinstance(outcomes[0][0], str) is name.startswith("it")

    def test_clients_send_the_same_secret_request(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        for choice in ("ours", "boto3"):
            server.responses = [SECRET]
            assert self._outcome(server, choice, monkeypatch) == "a secret ü"
        (headers, body), (their_headers, their_body) = server.requests
        assert json.loads(body) == json.loads(their_body)
        for name in ("content-type", "x-amz-target", "host"):
            assert headers[name] == their_headers[name]

    def _outcome(self, server: Server, choice: str, monkeypatch: pytest.MonkeyPatch) -> Any:
        """Return the secret, or the type and detail of the error that the read raises."""
        monkeypatch.setenv("DYNAMODB_CLIENT", choice)
        monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", server.endpoint)
        make = secrets._secrets_client

        def make_tracked() -> Any:
            _CLIENTS.append(make())
            return _CLIENTS[-1]

        with monkeypatch.context() as patch:
            patch.setattr(secrets, "_secrets_client", make_tracked)
            try:
                return secrets.secret_reader("arn", sleep=lambda _: None)()
            except ServiceError as error:
                return type(error), error.detail


CHANGED: Change = {"id": "c", "type": "video.changed", "videoId": "v", "at": 1_750_000_000_250, "fields": ["/title"]}


class TestEvents:
    """Tests of changes that are sent to an EventBridge bus."""

    def _put(self, client: Any) -> list[ReceiverResponse]:
        no_webhook: Any = {}
        attempts = EventBus("the-bus", client).deliver(no_webhook, [[CHANGED]], lambda: True)
        return [attempt.response for attempt in attempts]

    @pytest.fixture
    def bus(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> Any:
        """Return a client of EventBridge that sends requests to the test server."""
        monkeypatch.setenv("AWS_ENDPOINT_URL_EVENTBRIDGE", server.endpoint)
        _CLIENTS.append(boto3_client.make_events_client())
        return _CLIENTS[-1]

    def test_event_contains_the_change_with_its_time(self, server: Server, bus: Any) -> None:
        server.responses = [http_response({"FailedEntryCount": 0, "Entries": [{"EventId": "e"}]})]
        assert [response.status for response in self._put(bus)] == [200]
        (entry,) = json.loads(server.requests[0][1])["Entries"]
        assert (entry["Time"], json.loads(entry["Detail"])) == (1_750_000_000.25, CHANGED)

    @pytest.mark.parametrize(
        ("sent", "error"),
        [
            (http_response({"FailedEntryCount": 1, "Entries": [{"ErrorCode": "InternalFailure"}]}), "InternalFailure"),
            (http_response({"__type": "AccessDeniedException", "message": "no"}, 400), "AccessDeniedException"),
            (http_response({}, 503), "503"),
            (b"", "nothing"),
        ],
        ids=["failed entry", "denied request", "server error", "no response"],
    )
    def test_refused_event_is_reported_with_its_error_code(
        self, server: Server, bus: Any, sent: bytes, error: str
    ) -> None:
        server.responses, server.keeps_open = [sent], False
        (outcome_,) = self._put(bus)
        assert (outcome_.status, outcome_.error) == (None, f"EventBridge returned {error}.")


class TestTls:
    @pytest.fixture
    def authority(self, tmp_path: Path) -> Path:
        make_certificate(tmp_path, IPv4Address("127.0.0.1"))
        return tmp_path

    @pytest.fixture
    def secure(self, authority: Path) -> Iterator[Server]:
        yield from _served(server_side(authority / "certificate.pem"))

    def test_server_with_a_certificate_of_the_bundle_is_trusted(
        self, secure: Server, authority: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_CA_BUNDLE", str(authority / "certificate.pem"))
        secure.responses = [http_response({"Item": KEY})] * 2
        client = lean(secure)
        for _ in range(2):
            assert client.get_item(TableName="T", Key=KEY) == {"Item": KEY}
        assert secure.connections == 1

    def test_server_without_a_trusted_certificate_receives_no_request(
        self, secure: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
        with pytest.raises(NotSent) as raised:
            lean(secure).get_item(TableName="T", Key=KEY)
        assert isinstance(raised.value.__cause__, ssl.SSLCertVerificationError)
        assert secure.requests == []

    def test_aws_is_verified_by_the_roots_of_amazon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
        context = connections.make_tls_context("dynamodb.eu-west-1.amazonaws.com")
        roots: Any = context.get_ca_certs()
        names = {dict(part for group in root["subject"] for part in group)["commonName"] for root in roots}
        assert names == {
            *(f"Amazon Root CA {number}" for number in range(1, 5)),
            "Starfield Services Root Certificate Authority - G2",
        }
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


class TestEnvironmentVariables:
    @pytest.fixture(autouse=True)
    def no_endpoint(self, monkeypatch: pytest.MonkeyPatch) -> None:
        endpoints = [f"AWS_ENDPOINT_URL{ending}" for ending in ("", "_DYNAMODB", "_SECRETS_MANAGER")]
        for name in ("AWS_REGION", *endpoints, "http_proxy", "https_proxy"):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.upper(), raising=False)
        monkeypatch.setattr("shared.aws.lean.client.make_client", make_client)

    @pytest.mark.parametrize(
        ("settings", "host"),
        [
            ({}, "dynamodb.us-east-1.amazonaws.com"),
            ({"AWS_REGION": "eu-west-1"}, "dynamodb.eu-west-1.amazonaws.com"),
            ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "127.0.0.1:1"),
            ({"AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_DYNAMODB": "http://b:2"}, "b:2"),
            ({"AWS_REGION": "cn-north-1", "AWS_ENDPOINT_URL_DYNAMODB": "http://c"}, "c"),
            ({"AWS_ENDPOINT_URL": "http://localhost:4566", "HTTP_PROXY": "http://proxy"}, "localhost:4566"),
            ({"HTTPS_PROXY": "http://proxy", "NO_PROXY": ".amazonaws.com"}, "dynamodb.us-east-1.amazonaws.com"),
        ],
    )
    def test_environment_selects_the_endpoint(
        self, settings: dict[str, str], host: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        assert make_client()._host == host

    def test_environment_selects_the_endpoint_of_each_service(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert make_client(SECRETS_MANAGER)._host == "secretsmanager.us-east-1.amazonaws.com"
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:2")
        assert make_client(SECRETS_MANAGER)._host == "127.0.0.1:1"
        monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", "http://127.0.0.1:3")
        assert make_client(SECRETS_MANAGER)._host == "127.0.0.1:3"

    @pytest.mark.parametrize(
        "settings",
        [
            {"HTTPS_PROXY": "http://proxy"},
            {"https_proxy": "http://proxy"},
            {"AWS_ENDPOINT_URL": "http://a", "HTTP_PROXY": "http://proxy"},
            {"AWS_USE_FIPS_ENDPOINT": "true"},
            {"AWS_USE_DUALSTACK_ENDPOINT": "true"},
            {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
            {"AWS_REGION": "cn-north-1"},
            {"AWS_REGION": "us-iso-east-1"},
            {"AWS_ENDPOINT_URL": "ftp://a"},
            {"AWS_ENDPOINT_URL": "http://a/path"},
        ],
        ids=str,
    )
    def test_settings_that_only_boto3_supports_are_refused(
        self, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(Unsupported):
            make_client()

    def test_credentials_of_a_snapshot_are_renewed(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.endpoint}/role")
        soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=30)
        later = soon + datetime.timedelta(hours=6)
        server.converse = partial(_serve_credentials, server)
        server.responses = [
            json.dumps(
                {
                    "AccessKeyId": key,
                    "SecretAccessKey": "s",
                    "Token": "t",
                    "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
                }
            ).encode()
            for key, end in (("first", soon), ("second", later))
        ]
        credentials = make_client()._credentials
        assert len(server.responses) == 2  # nothing is fetched at start, when a snapshot may be taken
        assert [credentials().access_key for _ in range(2)] == ["second", "second"]


def _serve_credentials(server: Server, connection: socket.socket) -> None:
    """Respond to a GET of credentials."""
    connection.recv(65_536)
    connection.sendall(http_response(server.responses.pop(0), connection="close"))
