"""Whom the functions trust when they ask AWS."""

import os
import ssl
from functools import cache
from importlib.util import find_spec

from shared.core.errors import InternalError

AMAZON_ROOTS = ("Amazon Root CA", "Starfield Services Root Certificate Authority")
"""Whom AWS's certificates lead to: to parse all that browsers trust takes 18 ms of each cold start.
https://www.amazontrust.com/repository/"""


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
