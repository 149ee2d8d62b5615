"""Fault injection between the service and DynamoDB, S3 or SQS.

A `FaultLine` intercepts the requests of clients. Tests arm it with one of the incidents below and the number of the call that the
incident affects.
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
"""Carries the request out and returns the answer."""

Transport = Callable[..., Any]
"""Answers a request, given the name of botocore's event and the request."""

Incident = Callable[[Send], AWSResponse | None]
"""Effect on one call. `None` lets the request pass through."""


class Killed(BaseException):
    """The function's process is gone: no code of the service runs any more, not even an `except Exception`."""


class Crash(Exception):
    """The end of a tool's process, in a test."""


def crash_after(calls: int, patch: pytest.MonkeyPatch, *methods: str) -> None:
    """Let methods of Table raise Crash once they have been called `calls` times together."""
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
    """Watches clients; nothing happens until it is armed."""

    def __init__(
        self, *clients: "DynamoDBClient | S3Client | SQSClient | Client", transport: Transport | None = None
    ) -> None:
        """`carry` takes a request to where it is answered, if that is not the network."""
        self.calls: list[str] = []
        """The operations since it was armed, in order; what botocore sends again counts again."""
        self._incident: Incident | None = None
        self._at: int | None = None
        self._lock = threading.Lock()
        self._transport = transport
        self._undo: list[Callable[[], None]] = []
        for client in clients:
            self._watch(client)

    def arm(self, incident: Incident, at: int | None = None) -> None:
        """Let the incident happen at one call from here on (0 is the next), or at every one."""
        self.calls.clear()
        self._incident, self._at = incident, at

    def disarm(self) -> None:
        """Let every request through again."""
        self._incident = None

    def leave(self) -> None:
        """Stop watching our own clients."""
        while self._undo:
            self._undo.pop()()

    def _next_incident(self, operation: str) -> Incident | None:
        """Return the incident of this call, if any."""
        with self._lock:
            position = len(self.calls)
            self.calls.append(operation)
            return self._incident if self._at in (None, position) else None

    def _between(self, operation: str, parameters: Mapping[str, Any], send: Callable[[], Any]) -> Any:
        """Intercept a request of the lean client, and its response."""
        incident = self._next_incident(operation)
        sent: list[Any] = []

        def carried_out() -> AWSResponse:
            sent.append(send())
            return aws_response({})

        response = incident(carried_out) if incident else None
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
        # Connections as botocore itself uses them, below its own retries.
        transport = inner._endpoint.http_session

        def before_send(request: AWSPreparedRequest, event_name: str, **_: Any) -> AWSResponse | None:
            incident, carrier = self._next_incident(event_name.rpartition(".")[2]), self._transport
            if incident is None:
                return None
            response = incident(lambda: carrier(event_name, request) if carrier else transport.send(request))
            if response is not None and carrier:
                # moto is asked too, whatever was answered here; this address it does not know.
                request.url = "http://answered.invalid/"
            return response

        events: Any = client.meta.events  # its stubs know of no handler that answers
        events.register(f"before-send.{client.meta.service_model.service_id.hyphenize()}", before_send)


def lose_request(_: Send) -> AWSResponse:
    """The connection breaks before DynamoDB has the request."""
    raise ConnectionClosedError(endpoint_url="dynamodb")


def lose_response(send: Send) -> AWSResponse:
    """DynamoDB carries the request out, but its answer never arrives."""
    send()
    raise ReadTimeoutError(endpoint_url="dynamodb")


def kill_before(_: Send) -> AWSResponse:
    """The function dies before it sends the request."""
    raise Killed


def kill_after(send: Send) -> AWSResponse:
    """The function dies after DynamoDB carried the request out."""
    send()
    raise Killed


def throttle(_: Send) -> AWSResponse:
    """DynamoDB refuses for want of capacity."""
    return refusal("ProvisionedThroughputExceededException")


def fail(_: Send) -> AWSResponse:
    """DynamoDB has an internal error."""
    return refusal("InternalServerError", status=500)


def conflict(_: Send) -> AWSResponse:
    """Another transaction holds the item that a plain write is for."""
    return refusal("TransactionConflictException")


def cancelled(*reasons: str) -> Incident:
    """A transaction is cancelled; one reason for each of its writes."""

    def incident(_: Send) -> AWSResponse:
        return refusal("TransactionCanceledException", CancellationReasons=[{"Code": reason} for reason in reasons])

    return incident


def run_before_request(action: Callable[[], object]) -> Incident:
    """Something else happens just before the request goes out."""

    def incident(_: Send) -> None:
        action()

    return incident


def refusal(code: str, status: int = 400, **more: Any) -> AWSResponse:
    """An error as DynamoDB spells it."""
    return aws_response({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": code, **more}, status)


def s3_refusal(code: str, status: int) -> Incident:
    """S3 answers with an error; to a HEAD it has no body."""
    body = f"<Error><Code>{code}</Code><Message>secret-of-s3</Message></Error>"

    def incident(_: Send) -> AWSResponse:
        headers: Any = {"Content-Type": "application/xml"}
        return AWSResponse("s3", status, headers, _Raw(body.encode()))

    return incident


def aws_response(content: Mapping[str, Any], status: int = 200) -> AWSResponse:
    """An answer that DynamoDB did not give."""
    headers: Any = {"x-amzn-requestid": "none"}
    return AWSResponse("dynamodb", status, headers, _Raw(json.dumps(content).encode()))


class _Raw:
    """The subset of urllib3's response that botocore reads."""

    def __init__(self, body: bytes) -> None:
        self._parts = iter([body])

    def stream(self, **_: Any) -> Iterator[bytes]:
        return itertools.chain(self._parts)
