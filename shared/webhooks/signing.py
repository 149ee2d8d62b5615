"""Signatures by which a receiver knows that an event is ours: Standard Webhooks 1.0.0, symmetric.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import hmac
from base64 import b64encode
from collections.abc import Sequence

PREFIX = "whsec_"


def secret_of(master: str, webhook_id: str, generation: int) -> bytes:
    """The 32 bytes that one webhook's events are signed with; each rotation makes another `generation`.

    It is derived rather than stored, so that nobody who reads the table can sign.
    """
    return hmac.digest(master.encode(), f"webhook secret/{webhook_id}/{generation}".encode(), "sha256")


def spelled(secret: bytes) -> str:
    """A secret as it is shown, and as the libraries of Standard Webhooks take it."""
    return PREFIX + b64encode(secret).decode()


def signature(secrets: Sequence[bytes], id_: str, timestamp: int, body: bytes) -> str:
    """The header `webhook-signature` of an event sent at `timestamp` (epoch seconds): one signature for each secret."""
    signed = b".".join((id_.encode(), str(timestamp).encode(), body))
    return " ".join(f"v1,{b64encode(hmac.digest(secret, signed, 'sha256')).decode()}" for secret in secrets)
