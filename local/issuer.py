"""The development issuer: signs tokens for a service on this machine, and serves the keys to check them with.

It exists only in the local target; a deployed service trusts Cognito, or the issuer it was given.
"""

import hashlib
import json
import socketserver
import threading
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from local import AUDIENCE, LocalError, write_private
from local.ports import LOOPBACK

DAY = 24 * 60 * 60
LIFETIME = 7 * DAY
"""Default seconds that a token lives: long, because losing one on this machine harms nobody."""

BACKDATE = 5
"""Seconds by which `iat` lies in the past, so that no clock finds it in the future."""

JWKS_PATH = "/.well-known/jwks.json"


class Signer:
    """The RSA key of the issuer, made once and kept in a file that only its owner can read."""

    def __init__(self, key_file: Path) -> None:
        if not key_file.exists():
            key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            pem = key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            write_private(key_file, pem.decode("ascii"))
        try:
            loaded = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
        except ValueError as error:
            raise LocalError(f"The issuer's key {key_file} cannot be read: delete it and start again.") from error
        if not isinstance(loaded, rsa.RSAPrivateKey):
            raise LocalError(f"The issuer's key {key_file} is not an RSA key: delete it and start again.")
        self._key = loaded
        jwk = RSAAlgorithm.to_jwk(loaded.public_key(), as_dict=True)
        self.public_jwk: dict[str, Any] = {
            "kty": jwk["kty"],
            "n": jwk["n"],
            "e": jwk["e"],
            "use": "sig",
            "alg": "RS256",
            "kid": _thumbprint(jwk),
        }

    def mint(self, issuer: str, subject: str, scopes: Sequence[str], lifetime: int = LIFETIME) -> str:
        """A signed token of `subject` with `scopes`, valid for `lifetime` seconds from now."""
        now = int(time.time())
        claims = {
            "iss": issuer,
            "sub": subject,
            "aud": AUDIENCE,
            "client_id": "local",
            "scope": " ".join(scopes),
            "iat": now - BACKDATE,
            "exp": now + lifetime,
            "jti": str(uuid.uuid4()),
        }
        return jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": self.public_jwk["kid"]})


class Issuer:
    """Serves the discovery document and the public key on loopback for as long as the `with` block lasts.

    Port 0 takes any free one. Raises OSError on entry when the port is taken.
    """

    def __init__(self, port: int, signer: Signer) -> None:
        self._port = port
        self._signer = signer
        self.url = ""
        """The issuer's name, as tokens carry it; known from entry on."""

    def __enter__(self) -> Self:
        self._server = _Server((LOOPBACK, self._port), _Handler)
        self.url = f"http://{LOOPBACK}:{self._server.server_port}"
        discovery = {
            "issuer": self.url,
            "jwks_uri": self.url + JWKS_PATH,
            "response_types_supported": ["token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }
        self._server.documents = {
            "/.well-known/openid-configuration": json.dumps(discovery).encode(),
            JWKS_PATH: json.dumps({"keys": [self._signer.public_jwk]}).encode(),
        }
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="issuer", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def mint(self, subject: str, scopes: Sequence[str], lifetime: int = LIFETIME) -> str:
        """A token of this issuer, see Signer.mint; `lifetime` in seconds."""
        return self._signer.mint(self.url, subject, scopes, lifetime)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    documents: dict[str, bytes]

    def server_bind(self) -> None:
        # The inherited one asks the name service for this machine's name, which can take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, int(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 5  # seconds for which an idle connection may hold a thread

    def do_GET(self) -> None:
        body = cast(_Server, self.server).documents.get(self.path)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *args: object, **kwargs: object) -> None:
        """Keep the terminal for the developer."""


def _thumbprint(jwk: dict[str, Any]) -> str:
    """The key's id, made from the key itself (RFC 7638), so that it is the same after every start."""
    required = json.dumps({name: jwk[name] for name in ("e", "kty", "n")}, separators=(",", ":"), sort_keys=True)
    return urlsafe_b64encode(hashlib.sha256(required.encode()).digest()).rstrip(b"=").decode()
