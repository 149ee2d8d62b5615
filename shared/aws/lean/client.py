"""Client for eight operations of DynamoDB and one of Secrets Manager.

docs/decisions/16-lean-client.md explains the reasons, with measurements and alternatives.
"""

import os
import select
import time
import zlib
from base64 import b64encode
from collections.abc import Callable
from functools import cache, partialmethod
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from shared.aws.lean.connections import Response, Unsupported, format_post, make_connector
from shared.aws.lean.signing import Credentials, signed_headers

UNSUPPORTED = ("AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
"""Environment variables that only boto3 supports. `make_client` raises Unsupported if one of them is set."""
SHORTEST_WAIT = 0.01
"""Minimum seconds to wait for a response, even after its time-out. The response may already have arrived while the
caller waited for the response to another request."""


class AwsService(NamedTuple):
    """AWS service with a JSON protocol."""

    name: str
    """Name of the service in host names and signatures."""
    variable: str
    """Suffix of the environment variable `AWS_ENDPOINT_URL_...` that sets the service's endpoint."""
    target: str
    """Prefix of the operation's name in the header `X-Amz-Target`."""
    content_type: str


DYNAMODB = AwsService("dynamodb", "DYNAMODB", "DynamoDB_20120810", "application/x-amz-json-1.0")
SECRETS_MANAGER = AwsService("secretsmanager", "SECRETS_MANAGER", "secretsmanager", "application/x-amz-json-1.1")


class ErrorResponse(Exception):
    """Error response of the service. `response` has the same structure as in botocore's ClientError."""

    def __init__(self, status: int, response: dict[str, Any]) -> None:
        code = str(response.get("__type", status)).rpartition("#")[2].partition(":")[0]
        message = str(response.get("message", response.get("Message", "")))
        super().__init__(f"{code}: {message}")
        error = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
        self.response: dict[str, Any] = response | error


class NotSent(Exception):
    """No connection could be opened, so the request was not sent."""


class ResponseLost(Exception):
    """The response was lost or truncated, so the request may or may not have been applied."""


class Client:
    """Client of one service, whose methods have boto3's names and parameters.

    Methods return the JSON of the response unchanged, with binary values as base64. They raise ErrorResponse, NotSent and
    ResponseLost. `read_seconds` is the time-out of a response, counted from the start of its request. Thread-safe: each request
    uses its own pooled connection.

    >>> client = make_client(DYNAMODB, connect_seconds=1, read_seconds=2)
    >>> client.put_item(TableName="VideoMetadata", Item={"pk": {"S": "1"}, "sk": {"S": "1"}})
    {}
    >>> finish = client.begin("GetItem", TableName="VideoMetadata", Key={"pk": {"S": "1"}, "sk": {"S": "1"}})  # sends it
    >>> finish()  # waits for the response
    {'Item': {'pk': {'S': '1'}, 'sk': {'S': '1'}}}
    """

    def __init__(
        self,
        endpoint: str,
        region: str,
        credentials: Callable[[], Credentials],
        service: AwsService = DYNAMODB,
        *,
        connect_seconds: float = 60,
        read_seconds: float = 60,
        user_agent: str = "lean",
    ) -> None:
        self._idle: list[HTTPConnection] = []
        url = urlsplit(endpoint)
        self._connect = make_connector(url, connect_seconds)
        self._host, self._region, self._service = url.netloc.rpartition("@")[2], region, service
        self._credentials, self._read_seconds, self._user_agent = credentials, read_seconds, user_agent

    def call(self, operation: str, **parameters: Any) -> Any:
        """Send a request, wait for the response, and return the result. `operation` is AWS's name, such as GetItem."""
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

    def close(self) -> None:
        """Close all idle connections."""
        for connection in iter(self._take_idle, None):
            connection.close()

    __del__ = close

    def begin(self, operation: str, **parameters: Any) -> Callable[[], Any]:
        """Send a request, and return a function that waits for the result.

        Several requests can be in flight without threads. Raises NotSent if no connection can be opened. If the
        connection fails later, `begin` or the returned function raises ResponseLost. The returned function raises
        ErrorResponse if the service returns an error.
        """
        body = orjson.dumps(parameters, default=_base64)
        request = format_post(self._sign(operation, body), body)
        connection = self._connection()
        end = time.monotonic() + self._read_seconds
        try:
            connection.send(request)
        except OSError as error:
            connection.close()
            raise ResponseLost from error
        return lambda: self._read_response(connection, end)

    def _take_idle(self) -> HTTPConnection | None:
        try:
            return self._idle.pop()
        except IndexError:  # not checked before `pop`, because another thread could take the last connection in between
            return None

    def _connection(self) -> HTTPConnection:
        for connection in iter(self._take_idle, None):
            # If an idle connection is readable, the server has closed it.
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
        connection.sock.settimeout(self._read_seconds)
        return connection

    def _read_response(self, connection: HTTPConnection, end: float) -> Any:
        """Read a response from the connection, and return its result.

        `end` is the deadline, in seconds of `time.monotonic`.
        """
        try:
            connection.sock.settimeout(max(end - time.monotonic(), SHORTEST_WAIT))
            with Response(connection.sock, method="POST") as response:
                response.begin()
                if response.length is None and not response.chunked:
                    raise HTTPException("response without a length")
                body = response.read()
        except (OSError, HTTPException, ValueError) as error:  # ValueError: the length of a chunk is not a number
            connection.close()
            raise ResponseLost from error
        if response.will_close:
            connection.close()
        else:
            connection.sock.settimeout(self._read_seconds)
            self._idle.append(connection)
        if response.fields.get("x-amz-crc32", checksum := str(zlib.crc32(body))) != checksum:
            raise ResponseLost("response with a wrong checksum")
        try:
            answer = orjson.loads(body or b"{}")
        except ValueError:
            answer = None
        if response.status != 200:
            raise ErrorResponse(response.status, answer if isinstance(answer, dict) else {})
        if not isinstance(answer, dict):
            raise ResponseLost("response that is not a JSON object")
        return answer

    def _sign(self, operation: str, body: bytes) -> dict[str, str]:
        service, credentials = self._service, self._credentials()
        target = f"{service.target}.{operation}"
        headers = signed_headers(
            self._host, self._region, service.name, credentials, service.content_type, target, body
        )
        headers["user-agent"] = self._user_agent
        if trace := os.environ.get("_X_AMZN_TRACE_ID"):
            headers["x-amzn-trace-id"] = trace
        return headers


def make_client(service: AwsService = DYNAMODB, **options: Any) -> Client:
    """Return a client for the endpoint and the region that environment variables name. Credentials also come from
    environment variables, or else from botocore's chain of providers. `options` are passed to Client.

    Raises Unsupported for settings that only boto3 supports: proxies, FIPS and dual-stack endpoints, and other partitions than
    `aws` and `aws-us-gov`.
    """
    region = os.environ.get("AWS_REGION") or os.environ["AWS_DEFAULT_REGION"]
    variable = f"AWS_ENDPOINT_URL_{service.variable}"
    endpoint = os.environ.get(variable) or os.environ.get("AWS_ENDPOINT_URL")
    for name in UNSUPPORTED:
        if os.environ.get(name, "false").lower() != "false":
            raise Unsupported(f"{name} is supported only by boto3.")
    if not endpoint and region.startswith(("cn-", "us-iso", "eu-iso", "eusc-")):
        raise Unsupported(f"The region {region} requires boto3, or the endpoint in {variable}.")
    url = urlsplit(endpoint := endpoint or f"https://{service.name}.{region}.amazonaws.com")
    is_proxied = f"{url.scheme}_proxy" in {name.lower() for name, value in os.environ.items() if value}
    if is_proxied and url.hostname not in ("127.0.0.1", "localhost", "::1"):
        from urllib.request import proxy_bypass  # slow to import, and functions have no proxy

        if not proxy_bypass(str(url.hostname)):
            raise Unsupported("A proxy is supported only by boto3. To bypass it, add the endpoint to NO_PROXY.")
    return Client(endpoint, region, _credentials(), service, **options)


def _credentials() -> Callable[[], Credentials]:
    """Return a function that returns the credentials of a request.

    If environment variables contain credentials, as in Lambda, they are read once. Otherwise botocore's chain of
    providers finds and renews the credentials.
    """
    access_key, secret_key = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if access_key and secret_key:
        fixed = Credentials(access_key, secret_key, os.environ.get("AWS_SESSION_TOKEN"))
        return lambda: fixed

    @cache  # called at the first request, because a SnapStart snapshot must not contain credentials
    def chain() -> Any:
        from botocore.session import get_session

        if credentials := get_session().get_credentials():
            return credentials
        raise Unsupported("There are no AWS credentials. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")

    return lambda: Credentials(*chain().get_frozen_credentials()[:3])


def _base64(value: Any) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    raise TypeError(f"a {type(value).__name__} cannot be sent to AWS as JSON")
