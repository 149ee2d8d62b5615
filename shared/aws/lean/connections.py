"""HTTP connections, parsing of responses, and the trusted root certificates."""

import os
import ssl
from collections.abc import Callable, Mapping
from functools import cache, partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from importlib.util import find_spec
from urllib.parse import SplitResult

LONGEST_LINE, MAX_HEADERS = 65_536, 100
"""Maximum bytes of a header line, and maximum number of headers in a response. http.client has the same limits."""
_ONCE = ("connection", "content-length", "transfer-encoding")
"""Names of the headers that must not occur twice, because they determine where a response ends."""
AMAZON_ROOTS = ("Amazon Root CA", "Starfield Services Root Certificate Authority")
"""Name prefixes of the root certificates of AWS endpoints. Loading all certificates that botocore includes would add 18
ms to each cold start. https://www.amazontrust.com/repository/"""


class Unsupported(Exception):
    """An environment setting is invalid, or only boto3 supports it."""


def format_post(headers: Mapping[str, str], body: bytes, target: str = "/") -> bytes:
    """Return the bytes of a POST request with these headers and this body. Raises ValueError for a line break in a header.

    Headers and body are one byte string, so that a short request is sent as one packet and one TLS record.
    """
    lines = [f"{name}: {value}" for name, value in headers.items()]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("A header contains a line break. Check the credentials and the endpoint.")
    lines += ["accept-encoding: identity", f"content-length: {len(body)}", "", ""]
    return "\r\n".join([f"POST {target} HTTP/1.1", *lines]).encode("latin-1") + body


class Response(HTTPResponse):
    """Response whose status and headers are parsed without the standard library's e-mail parser.

    That parser would take a third of a request's time. HTTPResponse reads the body.
    """

    fields: Mapping[str, str]
    """Headers by lower-case name."""

    def begin(self) -> None:
        """Read the status and the headers. Raises HTTPException if they violate RFC 9112, sections 4 to 6."""
        words = self._line().split(None, 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
            raise HTTPException("response without a status line")
        self.code = self.status = int(words[1])
        fields: dict[str, str] = {}
        while line := self._line():
            name, colon, value = line.partition(":")
            name = name.lower()
            if not colon or name[:1].isspace() or len(fields) == MAX_HEADERS or (name in fields and name in _ONCE):
                raise HTTPException("response with too many, invalid or repeated headers")
            fields[name.rstrip()] = value.strip()
        self.fields = fields
        self.chunked = "transfer-encoding" in fields
        if self.chunked and fields["transfer-encoding"].lower() != "chunked":
            raise HTTPException("response with an unsupported transfer coding")
        self.chunk_left = None
        length = fields.get("content-length", "")
        self.length = int(length) if length.isdigit() and not self.chunked else None
        self.will_close = words[0] == "HTTP/1.0" or "close" in fields.get("connection", "").lower()

    def _line(self) -> str:
        line: bytes = self.fp.readline(LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise HTTPException("response that ends within its headers")
        return line.decode("latin-1").rstrip("\r\n")


def make_connector(url: SplitResult, seconds: float) -> Callable[[], HTTPConnection]:
    """Return a factory of connections to an endpoint. `seconds` is the time-out of opening a connection.

    Raises Unsupported unless the URL has the scheme `http` or `https`, a host, and no path.
    """
    if url.scheme not in ("http", "https") or not url.hostname or url.path.strip("/"):
        raise Unsupported(f"The endpoint {url.geturl()} must be an http or https URL with a host and without a path.")
    kind = partial(HTTPSConnection, context=make_tls_context(url.hostname)) if url.scheme == "https" else HTTPConnection
    return partial(kind, url.hostname, url.port, timeout=seconds)


def make_tls_context(host: str) -> ssl.SSLContext:
    """Return a TLS context with the root certificates for a host.

    If AWS_CA_BUNDLE is set, the certificates are in that file. Otherwise, they are Amazon's certificates for hosts in
    `amazonaws.com`, and the system's certificates for other hosts.
    """
    bundle = os.environ.get("AWS_CA_BUNDLE")
    if bundle or not host.endswith(".amazonaws.com"):
        return ssl.create_default_context(cafile=bundle)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=_amazon_roots())
    return context


@cache
def _amazon_roots() -> str:
    """Return Amazon's root certificates as PEM, from the file in the botocore package. Raises Unsupported without botocore."""
    package = find_spec("botocore")  # found, but not loaded
    if package is None or package.origin is None:
        raise Unsupported("TLS connections to AWS require the root certificates of botocore. Install botocore.")
    with open(f"{os.path.dirname(package.origin)}/cacert.pem", encoding="ascii") as bundle:
        certificates = bundle.read().split("# Issuer: ")
    ours = [one for one in certificates if any(f'# Label: "{root}' in one for root in AMAZON_ROOTS)]
    return "".join(one[one.index("-----BEGIN") :] for one in ours)
