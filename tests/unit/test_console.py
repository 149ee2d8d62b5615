"""Tests of the function that serves the console: the page, and only the files that the page loads."""

import base64
import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from functions.console import handler
from local.testbed.harness import Context

FOLDER = "0123456789abcdef"
FILES = {
    "index.html": "<!doctype html><title>é</title>",
    f"{FOLDER}/app.js": "export default 1;",
    f"{FOLDER}/style.css": ":root {}",
    f"{FOLDER}/icon.svg": "<svg/>",
    f"{FOLDER}/vendor/licences.txt": "MIT",
}
CONFIG = {
    "issuer": "https://issuer.example",
    "clientId": "console",
    "scopes": "videos/read",
    "media": ["https://pictures.example", "https://films.example"],
}


@dataclass(frozen=True)
class Reply:
    """A response as a browser receives it, after decompression."""

    status: int
    headers: dict[str, str]
    body: bytes


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a small site. A file outside that folder must not be served."""
    folder = tmp_path / "site"
    for name, content in FILES.items():
        file = folder / f"{name}.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(content.encode()))
    (tmp_path / "handler.py.gz").write_bytes(gzip.compress(b"secret"))
    monkeypatch.setattr(handler, "SITE", folder)
    monkeypatch.setenv("CONFIG", json.dumps(CONFIG))
    monkeypatch.setenv("CONNECT_ORIGINS", "https://issuer.example")
    return folder


def get(file: str | None, path: str | None = None, headers: dict[str, str] | None = None) -> Reply:
    """Return the response to a GET. If `file` is `None`, the route has no path parameter."""
    event: dict[str, Any] = {"rawPath": path or f"/console/{file}", "headers": headers}
    if file is not None:
        event["pathParameters"] = {"file": file}
    response = handler.lambda_handler(event, Context())
    body = base64.b64decode(response["body"]) if response["isBase64Encoded"] else response["body"].encode()
    return Reply(response["statusCode"], {name.lower(): value for name, value in response["headers"].items()}, body)


class TestConsolePage:
    @pytest.mark.parametrize(("file", "path"), [("index.html", None), (None, "/console/"), ("", "/console/")])
    def test_page_is_served_at_its_name_and_at_its_folder(self, file: str | None, path: str | None) -> None:
        reply = get(file, path)
        assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert reply.body.decode() == FILES["index.html"]

    def test_page_is_revalidated_at_each_visit(self) -> None:
        assert get("index.html").headers["cache-control"] == "no-cache"

    def test_page_may_load_and_connect_only_to_the_declared_origins(self) -> None:
        assert get("index.html").headers["content-security-policy"].split("; ") == [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' https://pictures.example https://films.example",
            "media-src 'self' blob: https://pictures.example https://films.example",
            "connect-src 'self' https://issuer.example https://pictures.example https://films.example",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]

    def test_page_sends_no_referrer_and_uses_no_device(self) -> None:
        headers = get("index.html").headers
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["permissions-policy"] == "camera=(), microphone=(), geolocation=()"

    def test_path_without_a_slash_redirects_to_the_page(self) -> None:
        reply = get(None, "/console")
        assert (reply.status, reply.body) == (301, b"")
        assert urljoin("https://api.example/stage/console", reply.headers["location"]) == (
            "https://api.example/stage/console/"
        )


class TestConsoleFiles:
    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("app.js", "text/javascript; charset=utf-8"),
            ("style.css", "text/css; charset=utf-8"),
            ("icon.svg", "image/svg+xml"),
            ("vendor/licences.txt", "text/plain; charset=utf-8"),
        ],
    )
    def test_file_has_its_type_and_is_cached_permanently(self, name: str, kind: str) -> None:
        reply = get(f"{FOLDER}/{name}")
        assert (reply.status, reply.headers["content-type"]) == (200, kind)
        assert reply.body.decode() == FILES[f"{FOLDER}/{name}"]
        assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"

    def test_file_is_compressed_if_the_client_accepts_gzip(self) -> None:
        packed = get(f"{FOLDER}/app.js", headers={"Accept-Encoding": "br, gzip"})
        identity = get(f"{FOLDER}/app.js", headers={"accept-encoding": "identity"})
        assert packed.headers["content-encoding"] == "gzip"
        assert "content-encoding" not in identity.headers
        assert gzip.decompress(packed.body) == identity.body == FILES[f"{FOLDER}/app.js"].encode()
        assert packed.headers["vary"] == identity.headers["vary"] == "Accept-Encoding"

    @pytest.mark.parametrize(
        "file",
        [
            "absent.js",
            FOLDER,
            f"{FOLDER}/",
            f"{FOLDER}/app.js.gz",
            "../handler.py",
            f"{FOLDER}/../../handler.py",
            f"{FOLDER}/../index.html",
            "..%2Fhandler.py",
            "%2e%2e/handler.py",
            "..%252Fhandler.py",
            "/etc/passwd",
            "%2Fetc%2Fpasswd",
            "..\\handler.py",
            "app.js\0",
            "%00",
            "\ud800",
            "x" * 5000,
        ],
        ids=ascii,
    )
    def test_any_other_path_is_404(self, file: str) -> None:
        reply = get(file)
        assert (reply.status, reply.headers["content-type"]) == (404, "application/problem+json")
        assert json.loads(reply.body)["type"] == "urn:video-metadata:problem:not-found"

    def test_absent_console_file_is_not_cached(self) -> None:
        """Test that no cache stores the response, because a rollback of the console restores the file."""
        assert get("absent.js").headers["cache-control"] == "no-store"


def test_configuration_is_that_of_the_deployment_and_is_revalidated() -> None:
    reply = get("config.json")
    assert (reply.status, json.loads(reply.body)) == (200, CONFIG)
    assert (reply.headers["content-type"], reply.headers["cache-control"]) == ("application/json", "no-cache")


@pytest.mark.parametrize("file", ["index.html", f"{FOLDER}/app.js", "config.json", "absent.js"])
def test_every_response_forbids_content_sniffing(file: str) -> None:
    assert get(file).headers["x-content-type-options"] == "nosniff"
