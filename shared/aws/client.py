"""A client of our own for eight operations of DynamoDB, one of Secrets Manager and one of EventBridge, without botocore.

It signs, sends and parses; which requests are tried again, and what errors become of theirs, is for its callers.
DYNAMODB_CLIENT=boto3 puts boto3's clients in its place. docs/decisions/16-lean-client.md says why, and what was weighed.
"""

import hashlib
import hmac
import os
import select
import time
import zlib
from base64 import b64encode
from collections.abc import Callable
from functools import cache, lru_cache, partialmethod
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from shared.aws.connections import Response, connector, posted
from shared.core.deadline import READ_SECONDS
from shared.core.errors import InternalError

UNSUPPORTED = ("AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
SHORTEST_WAIT = 0.01  # seconds: for an answer that may have come while others were waited for


class Service(NamedTuple):
    """What tells one service of AWS from another; `variable` ends the name of its AWS_ENDPOINT_URL_..."""

    name: str
    variable: str
    target: str
    content_type: str


DYNAMODB = Service("dynamodb", "DYNAMODB", "DynamoDB_20120810", "application/x-amz-json-1.0")
SECRETS_MANAGER = Service("secretsmanager", "SECRETS_MANAGER", "secretsmanager", "application/x-amz-json-1.1")
EVENTBRIDGE = Service("events", "EVENTBRIDGE", "AWSEvents", "application/x-amz-json-1.1")


class Credentials(NamedTuple):
    """What requests are signed with."""

    access_key: str
    secret_key: str
    token: str | None


class Refused(Exception):
    """The service answered with an error; `response` is as in botocore's ClientError."""

    def __init__(self, status: int, answer: dict[str, Any]) -> None:
        code = str(answer.get("__type", status)).rpartition("#")[2].partition(":")[0]
        message = str(answer.get("message", answer.get("Message", "")))
        super().__init__(f"{code}: {message}")
        error = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
        self.response: dict[str, Any] = answer | error


class NotSent(Exception):
    """No connection could be opened, so nothing was sent."""


class AnswerLost(Exception):
    """What became of a request is not known: its answer did not come, or not whole."""


class Client:
    """Operations of a service, with boto3's names and parameters; its JSON comes back as it is, binary values as base64.

    Raises Refused, NotSent and AnswerLost. Threads may share it: each request has a connection of its own while it is under
    way, and connections are kept.
    """

    def __init__(
        self, endpoint: str, region: str, credentials: Callable[[], Credentials], service: Service = DYNAMODB
    ) -> None:
        self._idle: list[HTTPConnection] = []
        url = urlsplit(endpoint)
        self._connect = connector(url)
        self._host, self._region, self._service = url.netloc.rpartition("@")[2], region, service
        self._credentials = credentials

    def call(self, operation: str, **parameters: Any) -> Any:
        """Carry one operation out, such as GetItem."""
        return self.begin(operation, **parameters)()

    get_item = partialmethod(call, "GetItem")
    batch_get_item = partialmethod(call, "BatchGetItem")
    query = partialmethod(call, "Query")
    put_item = partialmethod(call, "PutItem")
    update_item = partialmethod(call, "UpdateItem")
    delete_item = partialmethod(call, "DeleteItem")
    batch_write_item = partialmethod(call, "BatchWriteItem")
    transact_write_items = partialmethod(call, "TransactWriteItems")
    get_secret_value = partialmethod(call, "GetSecretValue")
    put_events = partialmethod(call, "PutEvents")

    def close(self) -> None:
        """Close the connections that are kept."""
        for connection in iter(self._kept, None):
            connection.close()

    __del__ = close

    def begin(self, operation: str, **parameters: Any) -> Callable[[], Any]:
        """Send a request; what is returned waits for its answer. So several can be under way without threads."""
        body = orjson.dumps(parameters, default=_base64)
        request = posted(self._signed(f"{self._service.target}.{operation}", body), body)
        connection = self._connection()
        end = time.monotonic() + READ_SECONDS
        try:
            connection.send(request)
        except OSError as error:
            connection.close()
            raise AnswerLost from error
        return lambda: self._answer(connection, end)

    def _kept(self) -> HTTPConnection | None:
        try:
            return self._idle.pop()
        except IndexError:  # asked without a lock, so another thread may have had the last
            return None

    def _connection(self) -> HTTPConnection:
        for connection in iter(self._kept, None):
            # What is readable before anything was asked is the end of a connection that was kept for too long.
            closed = select.poll()
            closed.register(connection.sock, select.POLLIN)
            if not closed.poll(0):
                return connection
            connection.close()
        connection = self._connect()
        try:
            connection.connect()
        except OSError as error:
            raise NotSent from error
        connection.sock.settimeout(READ_SECONDS)
        return connection

    def _answer(self, connection: HTTPConnection, end: float) -> Any:
        """Wait for an answer until `end` (monotonic seconds), which is counted from the request and not from here."""
        try:
            connection.sock.settimeout(max(end - time.monotonic(), SHORTEST_WAIT))
            with Response(connection.sock, method="POST") as response:
                response.begin()
                if response.length is None and not response.chunked:
                    raise HTTPException("an answer whose length is not known may be cut off anywhere")
                body = response.read()
        except (OSError, HTTPException, ValueError) as error:  # a length that is not a number
            connection.close()
            raise AnswerLost from error
        if response.will_close:
            connection.close()
        else:
            connection.sock.settimeout(READ_SECONDS)
            self._idle.append(connection)
        if response.fields.get("x-amz-crc32", checksum := str(zlib.crc32(body))) != checksum:
            raise AnswerLost("the checksum of the answer is wrong")
        try:
            answer = orjson.loads(body or b"{}")
        except ValueError:
            answer = None
        if response.status != 200:
            raise Refused(response.status, answer if isinstance(answer, dict) else {})
        if not isinstance(answer, dict):
            raise AnswerLost("the answer is not an object of JSON")
        return answer

    def _signed(self, target: str, body: bytes) -> dict[str, str]:
        """The headers of a request, its signature among them (AWS Signature Version 4).

        https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
        """
        access_key, secret_key, token = self._credentials()
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time()))
        headers = {"content-type": self._service.content_type, "host": self._host, "x-amz-date": now}
        if token:
            headers["x-amz-security-token"] = token
        headers["x-amz-target"] = target  # all in the order of their names, as they are signed
        lines, names = "".join([f"{name}:{value}\n" for name, value in headers.items()]), ";".join(headers)
        canonical = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
        scope = f"{now[:8]}/{self._region}/{self._service.name}/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = hmac.digest(_signing_key(secret_key, scope), text.encode(), "sha256").hex()
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        headers["user-agent"] = "video-metadata"
        if trace := os.environ.get("_X_AMZN_TRACE_ID"):
            headers["x-amzn-trace-id"] = trace
        return headers


def make_client(service: Service = DYNAMODB) -> Client:
    """A client for the endpoint, the region and the credentials that the environment names.

    Raises InternalError for what only boto3's client does: proxies, FIPS and dual-stack endpoints, other partitions.
    """
    region = os.environ.get("AWS_REGION") or os.environ["AWS_DEFAULT_REGION"]
    variable = f"AWS_ENDPOINT_URL_{service.variable}"
    endpoint = os.environ.get(variable) or os.environ.get("AWS_ENDPOINT_URL")
    for name in UNSUPPORTED:
        if os.environ.get(name, "false").lower() != "false":
            raise InternalError(f"{name} needs DYNAMODB_CLIENT=boto3.")
    if not endpoint and region.startswith(("cn-", "us-iso", "eu-iso", "eusc-")):
        raise InternalError(f"The region {region} needs DYNAMODB_CLIENT=boto3 or {variable}.")
    url = urlsplit(endpoint := endpoint or f"https://{service.name}.{region}.amazonaws.com")
    is_proxied = f"{url.scheme}_proxy" in {name.lower() for name, value in os.environ.items() if value}
    if is_proxied and url.hostname not in ("127.0.0.1", "localhost", "::1"):
        from urllib.request import proxy_bypass  # much to load, and functions have no proxy

        if not proxy_bypass(str(url.hostname)):
            raise InternalError("A proxy needs DYNAMODB_CLIENT=boto3, or the endpoint in NO_PROXY.")
    return Client(endpoint, region, _credentials(), service)


def _credentials() -> Callable[[], Credentials]:
    """Lambda's from the environment, which last as long as it; else by botocore's chain, which renews them."""
    access_key, secret_key = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if access_key and secret_key:
        fixed = Credentials(access_key, secret_key, os.environ.get("AWS_SESSION_TOKEN"))
        return lambda: fixed

    @cache  # at the first request: a snapshot must not hold any
    def chain() -> Any:
        from botocore.session import get_session

        if credentials := get_session().get_credentials():
            return credentials
        raise InternalError("There are no credentials.")

    return lambda: Credentials(*chain().get_frozen_credentials()[:3])


@lru_cache(maxsize=4)
def _signing_key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _base64(value: Any) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    raise TypeError(f"AWS's JSON cannot hold a {type(value).__name__}")
