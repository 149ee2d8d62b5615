"""AWS Signature Version 4 of a POST to `/`: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html."""

import hashlib
import hmac
import time
from functools import lru_cache
from typing import NamedTuple


class Credentials(NamedTuple):
    """Credentials of a request. `token` is the session token; `None` for permanent credentials."""

    access_key: str
    secret_key: str
    token: str | None


def signed_headers(
    host: str, region: str, service: str, credentials: Credentials, content_type: str, target: str, body: bytes
) -> dict[str, str]:
    """Return the headers of a request, including its signature.

    `service` is the service's name in signatures, such as `events`. `target` is the value of `X-Amz-Target`.
    """
    access_key, secret_key, token = credentials
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time()))
    headers = {"content-type": content_type, "host": host, "x-amz-date": now}
    if token:
        headers["x-amz-security-token"] = token
    headers["x-amz-target"] = target  # headers must be signed in alphabetical order
    lines, names = "".join([f"{name}:{value}\n" for name, value in headers.items()]), ";".join(headers)
    canonical = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{now[:8]}/{region}/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    signature = hmac.digest(_signing_key(secret_key, scope), text.encode(), "sha256").hex()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


@lru_cache(maxsize=4)
def _signing_key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
