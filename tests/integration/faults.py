"""Fault injection between the service and DynamoDB, S3 or SQS.

A `FaultLine` intercepts the requests of clients. Tests arm it with one of the incidents below, and with the number of
the call that the incident affects.
"""

import itertools
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.aws.lean.client import Client, ErrorResponse

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

Send = Callable[[], AWSResponse]
"""Function that sends the request and returns the response."""

Transport = Callable[..., Any]
"""Function that responds to a request in place of the network. Its arguments are the name of botocore's event and the
request."""

Incident = Callable[[Send], AWSResponse | None]
"""Function that replaces one call. It returns a response, raises an error, or returns `None` to send the request
normally."""


class Killed(BaseException):
    """Simulated end of the function's process. It is not an `Exception`, so that `except Exception` in the service does
    not catch it."""


class Crash(Exception):
    """Simulated end of a tool's process."""


def crash_after(calls: int, patch: pytest.MonkeyPatch, *methods: str) -> None:
    """Make these methods of Table raise Crash after `calls` calls in total."""
    remaining = iter([True] * calls)

    def dying(method: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            if not next(remaining, False):
                raise Crash
            return method(*arguments, **options)

        return call

    for name in methods:
        patch.setattr(Table, name, dying(getattr(Table, name)))


class FaultLine:
    """Interceptor of the requests of clients. It changes nothing until it is armed."""

    def __init__(
        self, *clients: "DynamoDBClient | S3Client | SQSClient | Client", transport: Transport | None = None
    ) -> None:
        """Watch these clients. `transport` responds to their requests in place of the network."""
        self.calls: list[str] = []
        """Operations since the line was armed, in order. Each retry by botocore is a separate element."""
        self._incident: Incident | None = None
        self._at: int | None = None
        self._lock = threading.Lock()
        self._transport = transport
        self._undo: list[Callable[[], None]] = []
        for client in clients:
            self._watch(client)

    def arm(self, incident: Incident, at: int | None = None) -> None:
        """Apply the incident to the call number `at`, counted from now (0 is the next call), or by default to every
        call."""
        self.calls.clear()
        self._incident, self._at = incident, at

    def disarm(self) -> None:
        """Send all requests normally again."""
        self._incident = None

    def leave(self) -> None:
        """Stop intercepting the requests of lean clients. Boto3 clients remain intercepted."""
        while self._undo:
            self._undo.pop()()

    def _next_incident(self, operation: str) -> Incident | None:
        """Return the incident of this call, or `None`."""
        with self._lock:
            position = len(self.calls)
            self.calls.append(operation)
            return self._incident if self._at in (None, position) else None

    def _between(self, operation: str, parameters: Mapping[str, Any], send: Callable[[], Any]) -> Any:
        """Intercept a request of the lean client, and its response."""
        incident = self._next_incident(operation)
        sent: list[Any] = []

        def send_and_keep() -> AWSResponse:
            sent.append(send())
            return aws_response({})

        response = incident(send_and_keep) if incident else None
        if response is None:
            return send()
        if sent and response.status_code == 200:
            return sent[0]
        if response.status_code == 200:
            return json.loads(response.content)
        raise ErrorResponse(response.status_code, json.loads(response.content))

    def _watch(self, client: "DynamoDBClient | S3Client | SQSClient | Client") -> None:
        if isinstance(client, Client):
            self._undo.append(intercept(client, self._between))
            return
        inner: Any = client
        # the connections below botocore's own retries
        transport = inner._endpoint.http_session

        def before_send(request: AWSPreparedRequest, event_name: str, **_: Any) -> AWSResponse | None:
            incident, carrier = self._next_incident(event_name.rpartition(".")[2]), self._transport
            if incident is None:
                return None
            response = incident(lambda: carrier(event_name, request) if carrier else transport.send(request))
            if response is not None and carrier:
                # otherwise moto would also apply and answer the request; it does not know this host
                request.url = "http://answered.invalid/"
            return response

        events: Any = client.meta.events  # the stubs do not declare handlers that return a response
        events.register(f"before-send.{client.meta.service_model.service_id.hyphenize()}", before_send)


def lose_request(_: Send) -> AWSResponse:
    """Break the connection before DynamoDB receives the request."""
    raise ConnectionClosedError(endpoint_url="dynamodb")


def lose_response(send: Send) -> AWSResponse:
    """Lose the response after DynamoDB applied the request."""
    send()
    raise ReadTimeoutError(endpoint_url="dynamodb")


def kill_before(_: Send) -> AWSResponse:
    """Kill the function before it sends the request."""
    raise Killed


def kill_after(send: Send) -> AWSResponse:
    """Kill the function after DynamoDB applied the request."""
    send()
    raise Killed


def throttle(_: Send) -> AWSResponse:
    """Refuse the request, because the table lacks capacity."""
    return refusal("ProvisionedThroughputExceededException")


def fail(_: Send) -> AWSResponse:
    """Return an internal error of DynamoDB."""
    return refusal("InternalServerError", status=500)


def conflict(_: Send) -> AWSResponse:
    """Refuse a write, because a transaction has locked the item."""
    return refusal("TransactionConflictException")


def cancelled(*reasons: str) -> Incident:
    """Return an incident that cancels a transaction. `reasons` has a code for each write of the transaction."""

    def incident(_: Send) -> AWSResponse:
        return refusal("TransactionCanceledException", CancellationReasons=[{"Code": reason} for reason in reasons])

    return incident


def run_before_request(action: Callable[[], object]) -> Incident:
    """Return an incident that calls `action` just before the request is sent."""

    def incident(_: Send) -> None:
        action()

    return incident


def refusal(code: str, status: int = 400, **more: Any) -> AWSResponse:
    """Return an error response in DynamoDB's format."""
    return aws_response({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": code, **more}, status)


def s3_refusal(code: str, status: int) -> Incident:
    """Return an incident in which S3 responds with an error. A response to HEAD has no body."""
    body = f"<Error><Code>{code}</Code><Message>secret-of-s3</Message></Error>"

    def incident(_: Send) -> AWSResponse:
        headers: Any = {"Content-Type": "application/xml"}
        return AWSResponse("s3", status, headers, _Raw(body.encode()))

    return incident


def aws_response(content: Mapping[str, Any], status: int = 200) -> AWSResponse:
    """Return a simulated response of DynamoDB."""
    headers: Any = {"x-amzn-requestid": "none"}
    return AWSResponse("dynamodb", status, headers, _Raw(json.dumps(content).encode()))


class _Raw:
    """Response body, with the part of urllib3's interface that botocore uses."""

    def __init__(self, body: bytes) -> None:
        self._parts = iter([body])

    def stream(self, **_: Any) -> Iterator[bytes]:
        return itertools.chain(self._parts)
