"""Connections to AWS, and whom they trust."""

import os
import ssl
from collections.abc import Callable
from functools import cache, partial
from http.client import HTTPConnection, HTTPSConnection
from importlib.util import find_spec
from typing import Any
from urllib.parse import SplitResult

from shared.core.deadline import CONNECT_SECONDS
from shared.core.errors import InternalError

AMAZON_ROOTS = ("Amazon Root CA", "Starfield Services Root Certificate Authority")
"""Whom AWS's certificates lead to: to parse all that browsers trust takes 18 ms of each cold start.
https://www.amazontrust.com/repository/"""


class Connection(HTTPConnection):
    """Sends the head of a request together with its body: one packet, one TLS record and one system call instead of two."""

    _held = b""

    def send(self, data: Any) -> None:
        """Hold it until all of the request is there."""
        self._held += data

    def flush(self) -> None:
        """Send what is held."""
        held, self._held = self._held, b""
        super().send(held)


class _Secure(Connection, HTTPSConnection):
    """The same over TLS."""


def connector(url: SplitResult) -> Callable[[], Connection]:
    """Makes connections to where a URL points, which open themselves within CONNECT_SECONDS; raises InternalError."""
    if url.scheme not in ("http", "https") or not url.hostname or url.path.strip("/"):
        raise InternalError(f"{url.geturl()} is not the URL of an endpoint.")
    kind = partial(_Secure, context=context(url.hostname)) if url.scheme == "https" else Connection
    return partial(kind, url.hostname, url.port, timeout=CONNECT_SECONDS)


def context(host: str) -> ssl.SSLContext:
    """Verifies the server by AWS_CA_BUNDLE; else by Amazon's own roots, where AWS answers, or by the system's."""
    bundle = os.environ.get("AWS_CA_BUNDLE")
    if bundle or not host.endswith(".amazonaws.com"):
        return ssl.create_default_context(cafile=bundle)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=_amazon_roots())
    return context


@cache
def _amazon_roots() -> str:
    """Those of the certificates that botocore brings."""
    package = find_spec("botocore")  # found, but not loaded
    if package is None or package.origin is None:
        raise InternalError("The package has no botocore, whose certificates are needed.")
    with open(f"{os.path.dirname(package.origin)}/cacert.pem", encoding="ascii") as bundle:
        certificates = bundle.read().split("# Issuer: ")
    ours = [one for one in certificates if any(f'# Label: "{root}' in one for root in AMAZON_ROOTS)]
    return "".join(one[one.index("-----BEGIN") :] for one in ours)
