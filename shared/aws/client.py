"""A DynamoDB client of its own for the eight operations that the stores use, without botocore.

botocore takes three quarters of a GET's processor time and most of a cold start. This client signs, sends and parses; all
else (which requests are tried again, deadlines, the stores' errors) is where it was, in shared/aws/dynamodb.py.
DYNAMODB_CLIENT=boto3 puts boto3's client in its place: the reference that tests/unit/test_client.py compares it with.
docs/decisions/16-lean-client.md says what was weighed.
"""

import hashlib
import hmac
import json
import os
import select
import ssl
import time
import zlib
from base64 import b64encode
from collections.abc import Callable
from functools import cache, lru_cache, partialmethod
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from shared.core.deadline import CONNECT_SECONDS, READ_SECONDS
from shared.core.errors import InternalError

SIGNED_HEADERS = "content-type;host;x-amz-date{};x-amz-target"
CONTENT_TYPE = "application/x-amz-json-1.0"
UNSUPPORTED = ("AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
SHORTEST_WAIT = 0.01
"""Seconds to wait at least for an answer that may have come while others were waited for."""
AMAZON_ROOTS = ("Amazon Root CA", "Starfield Services Root Certificate Authority")
"""Whom AWS's certificates lead to: to parse all that browsers trust takes 18 ms of each cold start.
https://www.amazontrust.com/repository/"""


class Credentials(NamedTuple):
    """What requests are signed with."""

    access_key: str
    secret_key: str
    token: str | None


class Refused(Exception):
    """DynamoDB answered with an error; `response` is as in botocore's ClientError."""

    def __init__(self, status: int, answer: dict[str, Any]) -> None:
        code = str(answer.get("__type", status)).rpartition("#")[2].partition(":")[0]
        message = str(answer.get("message", answer.get("Message", "")))
        super().__init__(f"{code}: {message}")
        self.response: dict[str, Any] = {
            **answer,
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }


class NotSent(Exception):
    """No connection could be opened, so nothing was sent."""


class AnswerLost(Exception):
    """What became of a request is not known: its answer did not come, or not whole."""


class Client:
    """The operations of a DynamoDB client, with boto3's names and parameters; DynamoDB's JSON comes back as it is.

    Binary values stay base64. Raises Refused, NotSent and AnswerLost. Threads may share it: each request has a connection of
    its own while it is under way, and connections are kept.
    """

    def __init__(self, endpoint: str, region: str, credentials: Callable[[], Credentials]) -> None:
        self._idle: list[HTTPConnection] = []
        url = urlsplit(endpoint)
        if url.scheme not in ("http", "https") or not url.hostname or url.path.strip("/"):
            raise InternalError(f"{endpoint} is not the URL of an endpoint.")
        self._host, self._port, self._region = url.hostname, url.port, region
        self._host_header = url.netloc.rpartition("@")[2]
        self._tls = _tls(url.hostname) if url.scheme == "https" else None
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

    def close(self) -> None:
        """Close the connections that are kept."""
        while connection := self._kept():
            connection.close()

    __del__ = close

    def begin(self, operation: str, **parameters: Any) -> Callable[[], Any]:
        """Send a request; what is returned waits for its answer. So several can be under way without threads."""
        body = json.dumps(parameters, separators=(",", ":"), default=_base64).encode()
        headers = self._signed(f"DynamoDB_20120810.{operation}", body)
        connection = self._connection()
        end = time.monotonic() + READ_SECONDS
        try:
            connection.request("POST", "/", body, headers)
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
        while connection := self._kept():
            # What is readable before anything was asked is the end of a connection that was kept for too long.
            closed = select.poll()
            closed.register(connection.sock, select.POLLIN)
            if not closed.poll(0):
                return connection
            connection.close()
        if self._tls:
            connection = HTTPSConnection(self._host, self._port, timeout=CONNECT_SECONDS, context=self._tls)
        else:
            connection = HTTPConnection(self._host, self._port, timeout=CONNECT_SECONDS)
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
            with connection.getresponse() as response:
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
        checksum = response.headers.get("x-amz-crc32")
        if checksum is not None and checksum != str(zlib.crc32(body)):
            raise AnswerLost("the checksum of the answer is wrong")
        try:
            answer = json.loads(body) if body else {}
        except ValueError as error:
            if response.status == 200:
                raise AnswerLost from error
            answer = {}
        is_object = isinstance(answer, dict)
        if response.status != 200:
            raise Refused(response.status, answer if is_object else {})
        if not is_object:
            raise AnswerLost("the answer is not an object")
        return answer

    def _signed(self, target: str, body: bytes) -> dict[str, str]:
        """The headers of a request, its signature among them (AWS Signature Version 4).

        https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
        """
        credentials = self._credentials()
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time()))
        names, token = SIGNED_HEADERS.format(""), ""
        if credentials.token:
            names, token = SIGNED_HEADERS.format(";x-amz-security-token"), f"x-amz-security-token:{credentials.token}\n"
        canonical = (
            f"POST\n/\n\ncontent-type:{CONTENT_TYPE}\nhost:{self._host_header}\nx-amz-date:{now}\n{token}"
            f"x-amz-target:{target}\n\n{names}\n{hashlib.sha256(body).hexdigest()}"
        )
        scope = f"{now[:8]}/{self._region}/dynamodb/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        key = _signing_key(credentials.secret_key, now[:8], self._region)
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        headers = {
            "Host": self._host_header,
            "Content-Type": CONTENT_TYPE,
            "X-Amz-Target": target,
            "X-Amz-Date": now,
            "User-Agent": "video-metadata",
            "Authorization": f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, "
            f"SignedHeaders={names}, Signature={signature}",
        }
        if credentials.token:
            headers["X-Amz-Security-Token"] = credentials.token
        trace = os.environ.get("_X_AMZN_TRACE_ID")
        if trace:
            headers["X-Amzn-Trace-Id"] = trace
        return headers


def make_client() -> Client:
    """A client for the endpoint, the region and the credentials that the environment names.

    Raises InternalError for what only boto3's client does: proxies, FIPS and dual-stack endpoints, other partitions.
    """
    region = os.environ.get("AWS_REGION") or os.environ["AWS_DEFAULT_REGION"]
    endpoint = os.environ.get("AWS_ENDPOINT_URL_DYNAMODB") or os.environ.get("AWS_ENDPOINT_URL")
    for name in UNSUPPORTED:
        if os.environ.get(name, "false").lower() != "false":
            raise InternalError(f"{name} needs DYNAMODB_CLIENT=boto3.")
    if not endpoint and region.startswith(("cn-", "us-iso", "eu-iso", "eusc-")):
        raise InternalError(f"The region {region} needs DYNAMODB_CLIENT=boto3 or AWS_ENDPOINT_URL_DYNAMODB.")
    endpoint = endpoint or f"https://dynamodb.{region}.amazonaws.com"
    url = urlsplit(endpoint)
    is_here = url.hostname in ("127.0.0.1", "localhost", "::1")
    if url.scheme in getproxies() and not is_here and not proxy_bypass(str(url.hostname)):
        raise InternalError("A proxy needs DYNAMODB_CLIENT=boto3, or the endpoint in NO_PROXY.")
    return Client(endpoint, region, _credentials())


def _credentials() -> Callable[[], Credentials]:
    """Lambda's from the environment, which last as long as it; else by botocore's chain, which renews them."""
    access_key, secret_key = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if access_key and secret_key:
        fixed = Credentials(access_key, secret_key, os.environ.get("AWS_SESSION_TOKEN"))
        return lambda: fixed

    @cache  # at the first request: a snapshot must not hold any
    def chain() -> Any:
        import botocore.session

        credentials = botocore.session.get_session().get_credentials()
        if credentials is None:
            raise InternalError("There are no credentials.")
        return credentials

    def renewed() -> Credentials:
        frozen = chain().get_frozen_credentials()
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token)

    return renewed


def _tls(host: str) -> ssl.SSLContext:
    """Verifies the server by AWS_CA_BUNDLE; else by Amazon's own roots, where AWS answers, or by the system's."""
    bundle = os.environ.get("AWS_CA_BUNDLE")
    if not bundle and host.endswith(".amazonaws.com"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=_amazon_roots())
        return context
    return ssl.create_default_context(cafile=bundle)


def _amazon_roots() -> str:
    """Those of the certificates that botocore brings."""
    import botocore  # a small module; its session and clients are what takes long

    certificates = (Path(botocore.__file__).parent / "cacert.pem").read_text(encoding="ascii").split("# Issuer: ")
    ours = [one for one in certificates if any(f'# Label: "{root}' in one for root in AMAZON_ROOTS)]
    return "".join(one[one.index("-----BEGIN") :] for one in ours)


@lru_cache(maxsize=4)
def _signing_key(secret: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, "dynamodb", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _base64(value: Any) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    raise TypeError(f"DynamoDB's JSON cannot hold a {type(value).__name__}")
