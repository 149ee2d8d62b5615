"""HTTP POST to a URL that a user supplied. Connects only to checked addresses, and has a limit for the total time."""

import io
import math
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from http.client import HTTPException, IncompleteRead
from queue import Empty, SimpleQueue
from typing import Any, cast

from shared.aws.lean.connections import Response, format_post
from shared.webhooks.address import ForbiddenAddress, ReceiverAddress, forbidden_reason, parse_receiver

MAX_BYTES = 65_536
"""Maximum number of bytes of a response that are read, including its headers."""
_PIECE = 256
_WITHOUT_BODY = (204, 304)

Resolve = Callable[..., Sequence[tuple[Any, ...]]]
"""Function with the signature and the result of `socket.getaddrinfo`."""
Connect = Callable[[tuple[str, int], float], socket.socket]
"""Function that connects to an address (host and port) within a time-out in seconds, or raises OSError."""

_resolving = threading.BoundedSemaphore(16)
"""Limit of concurrent name lookups. getaddrinfo has no time-out, so the thread of a lookup may run longer than the
request."""


@dataclass(frozen=True)
class ReceiverResponse:
    """Result of a request to a receiver: the response, or the reason why there is none."""

    status: int | None
    """HTTP status. `None` if no status arrived within the time limit. The body may be truncated even if the status
    arrived."""
    ms: int
    """Duration of the request in milliseconds."""
    body: bytes
    """Response body, truncated at MAX_BYTES or at the time limit."""
    error: str | None
    """Reason why the status is missing, as a sentence for the user who supplied the URL. `None` with a status."""
    is_forbidden: bool
    """Whether the URL or its address is forbidden. In that case nothing was sent."""
    retry_after: int | None
    """Delay in seconds that the receiver requested by the header Retry-After. `None` if it requested none."""


class _NoResponse(Exception):
    """Error: a request got no valid response. The message is a sentence for the user who supplied the URL."""


def send(
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    local: bool,
    seconds: float = 10.0,
    resolve: Resolve = socket.getaddrinfo,
    connect: Connect = socket.create_connection,
    trust: ssl.SSLContext | None = None,
) -> ReceiverResponse:
    """POST a body and return the result. Takes at most `seconds` in total, never raises, and follows no redirect.

    Resolves the host name once, and connects only if all resolved addresses are permitted. Uses no proxy.
    `trust` has the CAs for the receiver's certificate, by default the CAs of the system. `local` also allows http and
    loopback addresses.
    """
    begun = time.monotonic()

    def time_left() -> float:
        left = begun + seconds - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    status, content, error, is_forbidden, retry_after = None, b"", None, False, None
    try:
        receiver = parse_receiver(url, local=local)
        addresses = _addresses(receiver, resolve, time_left, local=local)
        request = format_post({"host": receiver.authority, **headers, "connection": "close"}, body, receiver.path)
        with _connection(receiver, addresses, connect, trust, time_left) as connection:
            _send_all(connection, request, time_left)
            status, fields, content = _read_response(_Stream(connection, time_left))
        retry_after = seconds_of(fields.get("retry-after", ""), time.time())
    except ForbiddenAddress as refusal:
        error, is_forbidden = f"The URL {refusal}.", True
    except _NoResponse as reason:
        error = str(reason)
    except OSError as fault:
        error = _sentence(fault, seconds)
    return ReceiverResponse(status, round((time.monotonic() - begun) * 1000), content, error, is_forbidden, retry_after)


def _addresses(
    receiver: ReceiverAddress, resolve: Resolve, time_left: Callable[[], float], *, local: bool
) -> list[str]:
    """Return the IP addresses of a receiver. Raises ForbiddenAddress if any of them is forbidden."""
    addresses = [receiver.host]
    if receiver.is_name:
        addresses = list(dict.fromkeys(str(found[4][0]) for found in _resolved(receiver, resolve, time_left)))
    for address in addresses:
        if fault := forbidden_reason(address, local=local):
            raise ForbiddenAddress(fault)
    return addresses


def _resolved(receiver: ReceiverAddress, resolve: Resolve, time_left: Callable[[], float]) -> Sequence[tuple[Any, ...]]:
    """Resolve the receiver's host name in a separate thread. The thread is abandoned when the time limit passes."""
    results = SimpleQueue[Sequence[tuple[Any, ...]]]()

    def look_up() -> None:
        try:
            results.put(resolve(receiver.host, receiver.port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError):  # UnicodeError: Python's codec rejects a label
            results.put([])
        finally:
            _resolving.release()

    if not _resolving.acquire(timeout=time_left()):
        raise TimeoutError
    threading.Thread(target=look_up, daemon=True).start()
    try:
        found = results.get(timeout=time_left())
    except Empty:
        raise TimeoutError from None
    if not found:
        raise _NoResponse("The name of the receiver cannot be resolved.")
    return found


def _connection(
    receiver: ReceiverAddress,
    addresses: Sequence[str],
    connect: Connect,
    trust: ssl.SSLContext | None,
    time_left: Callable[[], float],
) -> socket.socket:
    """Return a connection to the first address that accepts one. The connection uses TLS if the URL is https.

    Divides the remaining time equally among the remaining addresses. Raises OSError if no address accepts.
    """
    for remaining, address in zip(reversed(range(len(addresses))), addresses, strict=True):
        try:
            connection = connect((address, receiver.port), time_left() / (remaining + 1))
            break
        except OSError:
            if not remaining:
                raise
    if not receiver.is_secure:
        return connection
    try:
        connection.settimeout(time_left())
        # The time-out limits the whole handshake, because Python subtracts the elapsed time from it.
        return (trust or _system_trust()).wrap_socket(connection, server_hostname=receiver.host)
    except OSError:
        connection.close()
        raise


@cache
def _system_trust() -> ssl.SSLContext:
    """Return a TLS context with the CAs of the system. It is cached, because parsing the CAs takes 18 ms."""
    return ssl.create_default_context()


def _send_all(connection: socket.socket, request: bytes, time_left: Callable[[], float]) -> None:
    """Send the whole request within the time limit. `sendall` is not used, because with TLS its time-out restarts at
    each record."""
    rest = memoryview(request)
    while rest:
        connection.settimeout(time_left())
        rest = rest[connection.send(rest) :]


class _Stream(io.RawIOBase):
    """Stream of the bytes of a response.

    The stream ends with the connection, after MAX_BYTES, or at an error, which it stores as `fault`.
    """

    def __init__(self, connection: socket.socket, time_left: Callable[[], float]) -> None:
        self.fault: OSError | None = None
        self.bytes_left = MAX_BYTES
        self._connection, self._time_left = connection, time_left

    def makefile(self, _: str) -> io.BufferedReader:
        """Return a buffered reader. http.client calls this method of sockets."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self.bytes_left:
            return 0
        try:
            self._connection.settimeout(self._time_left())
            count = self._connection.recv_into(memoryview(buffer)[: self.bytes_left])
        except OSError as error:
            self.fault = error
            return 0
        self.bytes_left -= count
        return count


def _read_response(stream: _Stream) -> tuple[int, Mapping[str, str], bytes]:
    """Return the status, headers and body of a response. Only the body may be truncated. Raises _NoResponse or
    OSError."""
    with Response(cast(socket.socket, stream), method="POST") as response:
        try:
            response.begin()
            while 100 <= response.status < 200:  # an interim response (RFC 9110, section 15.2)
                response.begin()
        except (HTTPException, ValueError) as error:
            if stream.fault:
                raise stream.fault from error
            if stream.bytes_left == MAX_BYTES:
                raise _NoResponse("The receiver closed the connection without a response.") from error
            raise _NoResponse("The receiver's response is not HTTP.") from error
        if not 200 <= response.status <= 599:
            raise _NoResponse("The receiver's response is not HTTP.")
        content = bytearray()
        try:
            # Reads are small, because http.client discards the data of an incomplete read.
            while response.status not in _WITHOUT_BODY and (piece := response.read(_PIECE)):
                content += piece
        except IncompleteRead as error:
            content += error.partial
        except (HTTPException, ValueError):  # an invalid or too long chunk size
            pass
        return response.status, response.fields, bytes(content)


def seconds_of(retry_after: str, now: float) -> int | None:
    """Return the delay that a Retry-After header requests (RFC 9110, section 10.2.3), in seconds from `now` (epoch
    seconds).

    The delay is at least 0. `None` if the header is invalid.
    """
    if retry_after.isascii() and retry_after.isdigit():
        return int(retry_after[:9])
    try:
        return max(0, math.ceil(parsedate_to_datetime(retry_after).timestamp() - now))
    except (ValueError, OverflowError):
        return None


def _sentence(fault: OSError, seconds: float) -> str:
    match fault:
        case TimeoutError():
            return f"The receiver did not respond within {seconds:g} seconds."
        case ssl.SSLCertVerificationError():
            return f"The receiver's certificate is invalid: {fault.verify_message.rstrip('.')}."
        case ssl.SSLError():
            return "The TLS handshake with the receiver failed."
        case ConnectionRefusedError():
            return "The receiver refused the connection."
        case ConnectionError():
            return "The receiver reset the connection."
    return "The receiver is unreachable."
