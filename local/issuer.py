"""Development issuer: signs tokens for the service on this machine and serves the public keys.

The issuer also signs users in to the console by authorization code with PKCE (RFC 6749, RFC 7636). Its sign-in page
requires no password. The issuer exists only on the local target. A deployed service trusts Cognito or the configured
issuer.
"""

import hashlib
import json
import re
import secrets
import socketserver
import threading
import time
import uuid
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from local import AUDIENCE, CONSOLE_CLIENT, ROOT, LocalError, write_private
from local.ports import LOOPBACK

REDIRECT_PATHS = ("/console/", "/console/index.html", "/docs")
"""Paths of the service to which a sign-in may redirect: the console and the API browser."""
JSON = "application/json"

DAY = 24 * 60 * 60
LIFETIME = 7 * DAY
"""Default lifetime of a token in seconds. A long lifetime does little harm, because tokens are valid only locally."""

SESSION = 60 * 60
"""Lifetime of a token of the console, in seconds, as in a deployment. The console renews its tokens automatically."""
CODE_SECONDS = 60
"""Seconds until an authorization code expires."""
PAGE_SECONDS = 600
"""Seconds until a sign-in page expires."""
LARGEST_FORM = 10_000
"""Maximum size of a form that the issuer accepts, in bytes."""

USERS: Mapping[str, Sequence[str]] = {
    "alice": ("videos/read", "videos/write"),
    "bob": ("videos/read", "videos/write"),
    "admin": ("videos/read", "videos/write", "videos/admin"),
}
"""Scopes of each user, by user id. `.local/service.json` contains a token of each user."""

BACKDATE = 5
"""Seconds to subtract from the time of issue, `iat`. With clock skew, `iat` could otherwise be in the future."""

JWKS_PATH = "/.well-known/jwks.json"
DISCOVERY_PATH = "/.well-known/openid-configuration"
AUTHORIZE_PATH, TOKEN_PATH, LOGOUT_PATH = "/authorize", "/token", "/logout"

STYLE = """
* { box-sizing: border-box }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem }
main {
  width: min(26rem, 100%); padding: 2rem; background: var(--raised);
  border: 1px solid var(--line); border-radius: var(--radius); box-shadow: var(--elevation-2)
}
svg { display: block; width: 2.5rem; height: 2.5rem }
h1 { font-size: var(--text-title); line-height: 1.25; margin: 1rem 0 0 }
p { margin: .25rem 0 0; color: var(--soft) }
form { display: grid; gap: .6rem; margin: 1.5rem 0 }
button {
  display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 0 .9rem; align-items: center; padding: .6rem .9rem; font: inherit;
  color: inherit; text-align: start; background: none; border: 1px solid var(--line); border-radius: var(--radius-small); cursor: pointer
}
button:hover { background: var(--sunken) }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px }
.initial {
  grid-row: span 2; display: grid; place-items: center; width: 2.5rem; height: 2.5rem; border-radius: 50%; font-weight: 700;
  color: var(--accent); background: var(--accent-soft)
}
.name { font-weight: 600 }
.about, .note { color: var(--soft); font-size: var(--text-small) }
"""
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign in to Video metadata</title>
<style>{style}</style>
<main>
{icon}
<h1>Sign in</h1>
<p>to continue to Video metadata</p>
<form method="post" action="/authorize">
<input type="hidden" name="page" value="{page}">
{buttons}
</form>
<p class="note">This issuer runs on your machine only. A deployed service asks for a password.</p>
</main>
</html>
"""
BUTTON = """<button name="user" value="{name}" aria-labelledby="{name}" aria-describedby="{name}-about">
<span class="initial" aria-hidden="true">{initial}</span><span class="name" id="{name}">{name}</span>
<span class="about" id="{name}-about">{about}</span></button>"""


@cache
def page_style() -> str:
    """Return the style sheet of the sign-in page, with the design tokens of the console."""
    return (ROOT / "console" / "design" / "tokens.css").read_text(encoding="utf-8") + STYLE


def page_policy() -> str:
    """Return the Content Security Policy of the sign-in page. No script runs, and no other page can embed the sign-in
    page to hijack a click. `form-action` is not set, because browsers would apply it to the redirect to the console.
    """
    digest = b64encode(hashlib.sha256(page_style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'"


class TokenSigner:
    """Signer of tokens with an RSA key. The key is created once, and stored in a file that only its owner can read."""

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
            raise LocalError(f"The issuer's key {key_file} cannot be read. Delete it and start again.") from error
        if not isinstance(loaded, rsa.RSAPrivateKey):
            raise LocalError(f"The issuer's key {key_file} is not an RSA key. Delete it and start again.")
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

    def mint(
        self, issuer: str, subject: str, scopes: Sequence[str], lifetime: int = LIFETIME, client: str = "local"
    ) -> str:
        """Return a signed token of `subject` with `scopes`, valid for `lifetime` seconds from now."""
        now = int(time.time())
        claims = {
            "iss": issuer,
            "sub": subject,
            "aud": AUDIENCE,
            "client_id": client,
            "scope": " ".join(scopes),
            "iat": now - BACKDATE,
            "exp": now + lifetime,
            "jti": str(uuid.uuid4()),
        }
        return jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": self.public_jwk["kid"]})


class OAuthError(Exception):
    """Error for a request that the issuer rejects. The message is an error code of RFC 6749, such as
    `invalid_grant`."""


@dataclass(frozen=True)
class _Code:
    user: str
    scopes: tuple[str, ...]
    redirect_uri: str
    challenge: str
    until: float


class SignIns:
    """Store of issued sign-in pages, codes and refresh tokens. Each page, code and token can be used once.

    `api` is the base URL of the service. A sign-in may redirect to the console and the API browser of this service.
    `clock` returns epoch seconds.
    """

    def __init__(self, api: str, clock: Callable[[], float] = time.time) -> None:
        self._back = {api + path for path in REDIRECT_PATHS}
        self._clock = clock
        self._lock = threading.Lock()
        self._pages: dict[str, tuple[Mapping[str, str], float]] = {}
        self._codes: dict[str, _Code] = {}
        self._sessions: dict[str, tuple[str, tuple[str, ...]]] = {}

    def open_page(self, request: Mapping[str, str]) -> str:
        """Return the token of a new sign-in page for an authorization request. Raises OAuthError if the request is
        invalid.

        Only the page contains the token, and no other site can read the page. Therefore no other site can send a form
        with the token. This prevents cross-site request forgery.
        """
        self._check(request)
        page = secrets.token_urlsafe(32)
        with self._lock:
            now = self._clock()
            self._pages = {name: kept for name, kept in self._pages.items() if kept[1] >= now}
            self._pages[page] = request, now + PAGE_SECONDS
        return page

    def allow(self, form: Mapping[str, str]) -> str:
        """Return the redirect URL for the form of a sign-in page. The URL has a code for the form's `user`.

        Raises OAuthError if the page has expired or was used before, or if the user does not exist.
        """
        user = form.get("user", "")
        with self._lock:
            request, until = self._pages.pop(form.get("page", ""), ({}, 0.0))
        if not request or until < self._clock() or user not in USERS:
            raise OAuthError("invalid_request")
        wanted = request.get("scope", "").split()
        scopes = tuple(scope for scope in USERS[user] if scope in wanted)
        code = secrets.token_urlsafe(32)
        with self._lock:
            self._codes[code] = _Code(
                user, scopes, request["redirect_uri"], request["code_challenge"], self._clock() + CODE_SECONDS
            )
        return f"{request['redirect_uri']}?{urlencode({'code': code, 'state': request.get('state', '')})}"

    def may_return_to(self, address: str) -> bool:
        """Return whether a sign-in may redirect to this URL."""
        return address in self._back

    def _check(self, request: Mapping[str, str]) -> None:
        """Raise OAuthError unless the request is for an authorization code of the console, uses PKCE, and has a redirect
        URL of the service."""
        if request.get("client_id") != CONSOLE_CLIENT:
            raise OAuthError("unauthorized_client")
        if not self.may_return_to(request.get("redirect_uri", "")):
            raise OAuthError("invalid_request")
        if request.get("response_type") != "code":
            raise OAuthError("unsupported_response_type")
        if request.get("code_challenge_method") != "S256" or not request.get("code_challenge"):
            raise OAuthError("invalid_request")

    def redeem(self, form: Mapping[str, str]) -> tuple[str, tuple[str, ...], str]:
        """Return the user and the scopes of a code or refresh token, and a new refresh token. The old code or token
        becomes invalid.

        Raises OAuthError if the code or token is invalid.
        """
        if form.get("client_id") != CONSOLE_CLIENT:
            raise OAuthError("invalid_client")
        match form.get("grant_type"):
            case "authorization_code":
                user, scopes = self._redeem_code(form)
            case "refresh_token":
                with self._lock:
                    session = self._sessions.pop(form.get("refresh_token", ""), None)
                if session is None:
                    raise OAuthError("invalid_grant")
                user, scopes = session
            case _:
                raise OAuthError("unsupported_grant_type")
        following = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[following] = user, scopes
        return user, scopes, following

    def _redeem_code(self, form: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
        with self._lock:
            code = self._codes.pop(form.get("code", ""), None)
        proof = urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest()).rstrip(b"=").decode()
        if (
            code is None
            or code.until < self._clock()
            or code.redirect_uri != form.get("redirect_uri")
            or not secrets.compare_digest(code.challenge.encode(), proof.encode())
        ):
            raise OAuthError("invalid_grant")
        return code.user, code.scopes


class Issuer:
    """HTTP server of the issuer on loopback. It runs for the duration of the `with` block.

    The server has endpoints for discovery, public keys, sign-in and tokens. Port 0 selects a free port. The start of
    the block raises OSError if the port is taken. `api` is the base URL of the service with the console. `clock`
    returns epoch seconds.
    """

    def __init__(self, port: int, signer: TokenSigner, api: str, clock: Callable[[], float] = time.time) -> None:
        self._port = port
        self._signer = signer
        self.api = api
        self.sign_ins = SignIns(api, clock)
        self.url = ""
        """Base URL of the issuer, and the value of the claim `iss` in tokens. Empty before the start of the block."""

    def __enter__(self) -> Self:
        self._server = _Server((LOOPBACK, self._port), _IssuerHandler)
        self.url = f"http://{LOOPBACK}:{self._server.server_port}"
        discovery = {
            "issuer": self.url,
            "jwks_uri": self.url + JWKS_PATH,
            "authorization_endpoint": self.url + AUTHORIZE_PATH,
            "token_endpoint": self.url + TOKEN_PATH,
            "end_session_endpoint": self.url + LOGOUT_PATH,
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }
        self._server.documents = {
            DISCOVERY_PATH: json.dumps(discovery).encode(),
            JWKS_PATH: json.dumps({"keys": [self._signer.public_jwk]}).encode(),
        }
        self._server.issuer = self
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
        """Return a signed token of `subject` with `scopes`, valid for `lifetime` seconds from now."""
        return self._signer.mint(self.url, subject, scopes, lifetime)

    def token(self, form: Mapping[str, str]) -> dict[str, Any]:
        """Return the body of the response to a token request (RFC 6749, section 5.1).

        Raises OAuthError if the request is invalid.
        """
        user, scopes, following = self.sign_ins.redeem(form)
        return {
            "access_token": self._signer.mint(self.url, user, scopes, SESSION, CONSOLE_CLIENT),
            "token_type": "Bearer",
            "expires_in": SESSION,
            "refresh_token": following,
            "scope": " ".join(scopes),
        }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    documents: dict[str, bytes]
    issuer: Issuer

    def server_bind(self) -> None:
        # The inherited method resolves the host name of this machine, which can take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, int(self.server_address[1])


class _IssuerHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Seconds for which an idle connection may hold a thread. Clients close idle connections earlier. Otherwise a client
    # could send a request while the server closes the connection.
    timeout = 75
    server: _Server

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if not self._is_allowed("same-site", "same-origin"):
            self._send(403)
        elif url.path in self.server.documents:
            self._send(200, self.server.documents[url.path], {"Content-Type": JSON} | self._cors())
        elif url.path == LOGOUT_PATH:
            self._sign_out(_first(url.query).get("post_logout_redirect_uri", ""))
        elif url.path == AUTHORIZE_PATH:
            self._show_page(_first(url.query))
        else:
            self._send(404)

    def do_POST(self) -> None:
        path, length = urlsplit(self.path).path, self.headers.get("Content-Length", "")
        unread = {"Connection": "close"}  # otherwise the unread body would be parsed as the next request
        # The console requests tokens, from another port of this site. Only the issuer's own page sends the sign-in form.
        if not self._is_allowed(*(["same-site"] if path == TOKEN_PATH else ["same-origin"])):
            self._send(403, headers=unread)
        elif path not in (TOKEN_PATH, AUTHORIZE_PATH):
            self._send(404, headers=unread)
        elif not re.fullmatch(r"\d{1,9}", length, re.ASCII) or int(length) > LARGEST_FORM:
            self._send(400, headers=unread)
        else:
            form = _first(self.rfile.read(int(length)).decode("utf-8", errors="replace"))
            (self._send_tokens if path == TOKEN_PATH else self._sign_in)(form)

    def _send_tokens(self, form: Mapping[str, str]) -> None:
        try:
            status, answer = 200, self.server.issuer.token(form)
        except OAuthError as error:
            status, answer = 400, {"error": str(error)}
        headers = {"Content-Type": JSON, "Cache-Control": "no-store"} | self._cors()
        self._send(status, json.dumps(answer).encode(), headers)

    def _show_page(self, request: Mapping[str, str]) -> None:
        """Send the sign-in page, with a button for each user."""
        try:
            token = self.server.issuer.sign_ins.open_page(request)
        except OAuthError as error:
            self._send(400, f"{error}\n".encode(), {"Content-Type": "text/plain"})
            return
        icon = (ROOT / "console" / "icon.svg").read_text(encoding="utf-8")
        page = PAGE.format(style=page_style(), icon=icon, page=token, buttons="\n".join(map(_button, USERS)))
        self._send(
            200,
            page.encode(),
            {
                "Content-Type": "text/html; charset=utf-8",
                "Cache-Control": "no-store",
                "Content-Security-Policy": page_policy(),
                "Referrer-Policy": "same-origin",
            },
        )

    def _sign_in(self, form: Mapping[str, str]) -> None:
        """Redirect to the console with a code for the selected user."""
        if self.headers.get("Origin", self.server.issuer.url) != self.server.issuer.url:
            self._send(403)
            return
        try:
            self._send(303, headers={"Location": self.server.issuer.sign_ins.allow(form)})
        except OAuthError as error:
            self._send(400, f"{error}\n".encode(), {"Content-Type": "text/plain"})

    def _sign_out(self, back: str) -> None:
        """Redirect to the URL `back` after a user has signed out (OpenID Connect RP-Initiated Logout).

        The issuer stores no sessions, so it need not end one.
        """
        if self.server.issuer.sign_ins.may_return_to(back):
            self._send(302, headers={"Location": back})
        else:
            self._send(400, b"invalid_request\n", {"Content-Type": "text/plain"})

    def _is_allowed(self, *sites: str) -> bool:
        """Return whether a request has the issuer's address in the header `Host`, and an allowed sender.

        Programs and the address bar are allowed. A page is allowed if `sites` contains the value of Sec-Fetch-Site in
        its request. `Host` is checked, because a page can resolve another name to the issuer's address (DNS rebinding).
        """
        site = self.headers.get("Sec-Fetch-Site", "none")
        return self.headers.get("Host", "") == f"{LOOPBACK}:{self.server.server_port}" and site in ("none", *sites)

    def _cors(self) -> dict[str, str]:
        """Return the CORS headers that allow only the console to read a response."""
        return {"Access-Control-Allow-Origin": self.server.issuer.api, "Vary": "Origin"}

    def _send(self, status: int, body: bytes = b"", headers: Mapping[str, str] = MappingProxyType({})) -> None:
        self.send_response(status)
        if self.command == "GET" and {"Content-Length", "Transfer-Encoding"} & set(self.headers):
            headers = {"Connection": "close", **headers}  # otherwise the body would be parsed as the next request
        for name, value in {"Content-Length": str(len(body)), "Cache-Control": "no-cache", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object, **kwargs: object) -> None:
        """Do nothing. The inherited method would print a line per request in the developer's terminal."""


def _button(name: str) -> str:
    """Return the button that signs in as a user."""
    about = "Administrator of all videos" if "videos/admin" in USERS[name] else "Owner of videos"
    return BUTTON.format(name=escape(name), initial=escape(name[0].upper()), about=about)


def _first(text: str) -> dict[str, str]:
    """Return the first value of each parameter of a query or form, by name."""
    return {name: values[0] for name, values in parse_qs(text, keep_blank_values=True).items()}


def _thumbprint(jwk: dict[str, Any]) -> str:
    """Return the id of a key. The id is derived from the key (RFC 7638). The id is the same after each start."""
    required = json.dumps({name: jwk[name] for name in ("e", "kty", "n")}, separators=(",", ":"), sort_keys=True)
    return urlsafe_b64encode(hashlib.sha256(required.encode()).digest()).rstrip(b"=").decode()
