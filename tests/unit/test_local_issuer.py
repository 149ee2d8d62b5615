"""Tests of the development issuer: the key that it publishes verifies its tokens."""

import json
import stat
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import jwt
import pytest

from local import AUDIENCE, LocalError, mint
from local.deployment import Deployment
from local.issuer import Issuer, TokenSigner, _IssuerHandler
from tests.polling import LIMIT


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a key file for all tests of this module, because creating a key is slow."""
    file = tmp_path_factory.mktemp("issuer") / "key.pem"
    TokenSigner(file)
    return file


def test_issuer_keeps_idle_connections_longer_than_its_clients() -> None:
    """A client could send a request while the issuer closes the connection, and get no response."""
    assert _IssuerHandler.timeout > 2 * (httpx.Limits().keepalive_expiry or float("inf"))


def test_token_is_verified_by_the_keys_from_discovery(key_file: Path) -> None:
    before = int(time.time())
    server = Issuer(0, TokenSigner(key_file), "http://127.0.0.1:9")
    with server as issuer, httpx.Client(trust_env=False, timeout=LIMIT) as http:
        token = issuer.mint("alice", ["videos/read", "videos/write"], lifetime=3600)
        discovery = http.get(f"{issuer.url}/.well-known/openid-configuration").json()
        keys = jwt.PyJWKSet.from_dict(http.get(discovery["jwks_uri"]).json())
        nothing = http.get(f"{issuer.url}/private-key")
    assert discovery["issuer"] == issuer.url
    assert nothing.status_code == 404
    claims = jwt.decode(
        token,
        keys[jwt.get_unverified_header(token)["kid"]],
        algorithms=["RS256"],
        audience=AUDIENCE,
        issuer=issuer.url,
        options={"require": ["exp", "iat", "iss", "sub", "aud", "jti"]},
    )
    assert claims["sub"] == "alice"
    assert claims["scope"] == "videos/read videos/write"
    assert claims["client_id"]
    assert claims["iat"] <= before + 3600 <= claims["exp"] <= int(time.time()) + 3600


def test_published_key_contains_no_private_part(key_file: Path) -> None:
    assert set(TokenSigner(key_file).public_jwk) == {"kty", "n", "e", "use", "alg", "kid"}


def test_key_is_stored_and_readable_only_by_its_owner(key_file: Path) -> None:
    assert TokenSigner(key_file).public_jwk == TokenSigner(key_file).public_jwk
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600


def test_unreadable_key_is_reported_with_the_remedy(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_text("-----BEGIN NOTHING-----")
    with pytest.raises(LocalError, match="Delete it"):
        TokenSigner(file)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key_file: Path) -> Callable[[str, object], None]:
    """Return a function that writes a file of a run as JSON, in a checkout that has no such files."""
    monkeypatch.setattr(mint, "SERVICE_FILE", tmp_path / "service.json")
    monkeypatch.setattr(mint, "DEPLOYMENT_FILE", tmp_path / "deployment.json")
    monkeypatch.setattr(mint, "KEY_FILE", key_file)

    def write(name: str, content: object) -> None:
        (tmp_path / name).write_text(json.dumps(content))

    return write


def issuer_of(token: str) -> str:
    return str(jwt.decode(token, options={"verify_signature": False})["iss"])


def test_make_token_signs_for_the_issuer_of_the_running_service(checkout: Callable[[str, object], None]) -> None:
    checkout("deployment.json", Deployment("f", "http://127.0.0.1:1", "a", "media", "queue").__dict__)
    checkout("service.json", {"issuer": "http://127.0.0.1:2"})
    token = mint.mint("carol", "videos/read, videos/write")
    assert issuer_of(token) == "http://127.0.0.1:2"
    assert jwt.decode(token, options={"verify_signature": False})["scope"] == "videos/read videos/write"


def test_make_token_works_while_the_service_is_stopped(checkout: Callable[[str, object], None]) -> None:
    checkout("deployment.json", Deployment("f", "http://127.0.0.1:1", "a", "media", "queue").__dict__)
    assert issuer_of(mint.mint("carol", "videos/read")) == "http://127.0.0.1:1"


@pytest.mark.usefixtures("checkout")
def test_make_token_before_any_run_prints_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert mint.main(["carol", "videos/read"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "make run" in printed.err
    assert printed.err.count("\n") == 1
