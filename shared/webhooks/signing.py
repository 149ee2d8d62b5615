"""Signatures of events according to Standard Webhooks 1.0.0, with symmetric keys.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import hmac
from base64 import b64encode
from collections.abc import Sequence

PREFIX = "whsec_"


def secret_of(master: str, webhook_id: str, generation: int) -> bytes:
    """Return the 32-byte secret of a webhook. Each rotation of the secret increments `generation`.

    Secrets are derived from the key `master`, not stored, so that read access to the table does not allow signing.
    """
    return hmac.digest(master.encode(), f"webhook secret/{webhook_id}/{generation}".encode(), "sha256")


def encode_secret(secret: bytes) -> str:
    """Return a secret in the text form that users see and that Standard Webhooks libraries accept."""
    return PREFIX + b64encode(secret).decode()


def signature(secrets: Sequence[bytes], id_: str, timestamp: int, body: bytes) -> str:
    """Return the `webhook-signature` header of an event sent at `timestamp` (epoch seconds).

    The header has one signature for each secret.
    """
    signed = b".".join((id_.encode(), str(timestamp).encode(), body))
    return " ".join(f"v1,{b64encode(hmac.digest(secret, signed, 'sha256')).decode()}" for secret in secrets)
