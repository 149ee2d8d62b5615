"""Whom the functions trust when they ask AWS."""

import os
import ssl
from functools import cache
from pathlib import Path

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
    import botocore  # a small module; its session and clients are what takes long

    certificates = (Path(botocore.__file__).parent / "cacert.pem").read_text(encoding="ascii").split("# Issuer: ")
    ours = [one for one in certificates if any(f'# Label: "{root}' in one for root in AMAZON_ROOTS)]
    return "".join(one[one.index("-----BEGIN") :] for one in ours)
