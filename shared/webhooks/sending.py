"""One request to an address that somebody else named: pinned to an address that was checked, and over in time whatever happens."""

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

from shared.aws.lean.connections import Response, posted
from shared.webhooks.address import Forbidden, Receiver, forbidden, receiver_of

MOST_BYTES = 65_536
"""Of an answer that are read, its headers included."""
_PIECE = 256
_WITHOUT_BODY = (204, 304)

Resolve = Callable[..., Sequence[tuple[Any, ...]]]
"""Takes and returns what `socket.getaddrinfo` does."""
Connect = Callable[[tuple[str, int], float], socket.socket]
"""Opens a connection to an IP address and a port within seconds, or raises OSError."""

_resolving = threading.BoundedSemaphore(16)
"""Lookups at a time: getaddrinfo has no time-out, so its thread may go on for as long as the system's resolver waits."""


@dataclass(frozen=True)
class Answer:
    """What came of a request: a status, or an error."""

    status: int | None
    """Of what was answered in time, even if its body was cut off."""
    ms: int
    body: bytes
    """As much of it as there was within MOST_BYTES and the time."""
    error: str | None
    """Why there is no status, as a sentence for whoever named the address."""
    is_forbidden: bool
    """Whether the URL leads to where webhooks must not; nothing was sent then."""
    retry_after: int | None
    """After how many seconds the receiver asks to be called again."""


class _Unanswered(Exception):
    """There is no status; the text is a sentence."""


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
) -> Answer:
    """POST a body, and return what came of it within `seconds` for everything; never raises, and follows no redirect.

    The name is resolved once. If any of its addresses must not be called, none is; else the connection is to an address that
    was checked, and TLS verifies the name. `trust` is whose certificates are believed: by default those that the system
    believes. `local` also allows http, and this machine. Proxies are not used.
    """
    begun = time.monotonic()

    def time_left() -> float:
        left = begun + seconds - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    status, content, error, is_forbidden, retry_after = None, b"", None, False, None
    try:
        receiver = receiver_of(url, local=local)
        addresses = _addresses(receiver, resolve, time_left, local=local)
        request = posted({"host": receiver.authority, **headers, "connection": "close"}, body, receiver.path)
        with _connection(receiver, addresses, connect, trust, time_left) as connection:
            _send_all(connection, request, time_left)
            status, fields, content = _answer(_Stream(connection, time_left))
        retry_after = seconds_of(fields.get("retry-after", ""), time.time())
    except Forbidden as refusal:
        error, is_forbidden = str(refusal), True
    except _Unanswered as reason:
        error = str(reason)
    except OSError as fault:
        error = _sentence(fault, seconds)
    return Answer(status, round((time.monotonic() - begun) * 1000), content, error, is_forbidden, retry_after)


def _addresses(receiver: Receiver, resolve: Resolve, time_left: Callable[[], float], *, local: bool) -> list[str]:
    """Where a receiver is; raises Forbidden if it must not be called at all of them."""
    addresses = [receiver.host]
    if receiver.is_name:
        addresses = list(dict.fromkeys(str(found[4][0]) for found in _resolved(receiver, resolve, time_left)))
    for address in addresses:
        if fault := forbidden(address, local=local):
            raise Forbidden(fault)
    return addresses


def _resolved(receiver: Receiver, resolve: Resolve, time_left: Callable[[], float]) -> Sequence[tuple[Any, ...]]:
    """What a name is resolved to, by a thread that may be left behind until the system's resolver gives up."""
    results = SimpleQueue[Sequence[tuple[Any, ...]]]()

    def look_up() -> None:
        try:
            results.put(resolve(receiver.host, receiver.port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError):  # a label that the codec of Python does not like
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
        raise _Unanswered("The name of the receiver cannot be resolved.")
    return found


def _connection(
    receiver: Receiver,
    addresses: Sequence[str],
    connect: Connect,
    trust: ssl.SSLContext | None,
    time_left: Callable[[], float],
) -> socket.socket:
    """A connection to the first address that takes one, each in its share of the time; with TLS for the receiver's name."""
    for others, address in zip(reversed(range(len(addresses))), addresses, strict=True):
        try:
            connection = connect((address, receiver.port), time_left() / (others + 1))
            break
        except OSError:
            if not others:
                raise
    if not receiver.is_secure:
        return connection
    try:
        connection.settimeout(time_left())
        # One limit for the whole handshake: Python counts it down.
        return (trust or _system_trust()).wrap_socket(connection, server_hostname=receiver.host)
    except OSError:
        connection.close()
        raise


@cache
def _system_trust() -> ssl.SSLContext:
    """Made once: to parse all that browsers trust takes 18 ms."""
    return ssl.create_default_context()


def _send_all(connection: socket.socket, request: bytes, time_left: Callable[[], float]) -> None:
    """What `sendall` does, whose time-out over TLS begins anew with each record."""
    rest = memoryview(request)
    while rest:
        connection.settimeout(time_left())
        rest = rest[connection.send(rest) :]


class _Stream(io.RawIOBase):
    """What a receiver sends. It ends when the receiver ends it, after MOST_BYTES, or at a `fault`, such as no time left."""

    def __init__(self, connection: socket.socket, time_left: Callable[[], float]) -> None:
        self.fault: OSError | None = None
        self.bytes_left = MOST_BYTES
        self._connection, self._time_left = connection, time_left

    def makefile(self, _: str) -> io.BufferedReader:
        """As a socket does, for http.client."""
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


def _answer(stream: _Stream) -> tuple[int, Mapping[str, str], bytes]:
    """Status, headers and body, of which only the body may be cut off; raises _Unanswered or OSError."""
    with Response(cast(socket.socket, stream), method="POST") as response:
        try:
            response.begin()
            while 100 <= response.status < 200:  # an interim answer (RFC 9110, section 15.2)
                response.begin()
        except (HTTPException, ValueError) as error:
            if stream.fault:
                raise stream.fault from error
            if stream.bytes_left == MOST_BYTES:
                raise _Unanswered("The receiver closed the connection without an answer.") from error
            raise _Unanswered("What the receiver answered is not HTTP.") from error
        if not 200 <= response.status <= 599:
            raise _Unanswered("What the receiver answered is not HTTP.")
        content = bytearray()
        try:
            # In pieces, as half of one that is cut off is lost.
            while response.status not in _WITHOUT_BODY and (piece := response.read(_PIECE)):
                content += piece
        except IncompleteRead as error:
            content += error.partial
        except (HTTPException, ValueError):  # what should be the length of a chunk, or too long for it
            pass
        return response.status, response.fields, bytes(content)


def seconds_of(retry_after: str, now: float) -> int | None:
    """The header Retry-After at `now` (epoch seconds) in seconds, at least 0; None if it is neither form (RFC 9110, 10.2.3)."""
    if retry_after.isascii() and retry_after.isdigit():
        return int(retry_after[:9])
    try:
        return max(0, math.ceil(parsedate_to_datetime(retry_after).timestamp() - now))
    except (ValueError, OverflowError):
        return None


def _sentence(fault: OSError, seconds: float) -> str:
    match fault:
        case TimeoutError():
            return f"The receiver did not answer within {seconds:g} seconds."
        case ssl.SSLCertVerificationError():
            return f"The receiver's certificate is not valid: {fault.verify_message.rstrip('.')}."
        case ssl.SSLError():
            return "The receiver does not speak TLS as it should."
        case ConnectionRefusedError():
            return "The receiver refused the connection."
        case ConnectionError():
            return "The receiver broke the connection."
    return "The receiver cannot be reached."
