"""End-to-end tests use only HTTP against a deployed stack and depend on no internals of the service.

They deploy the CDK app to their own MiniStack. With E2E_SERVICE set they use a running service instead. E2E_SERVICE is
the path of a JSON file such as `.local/service.json` with these members:

- `baseUrl`, and `tokens` for alice, bob and admin
- `badTokens`, optional: tokens that the gateway must refuse
- `endpoint`, `objectsEndpoint` and `secretAccessKey`, if the service runs on an embedded AWS
- `assembly`, optional: the folder of the deployed CDK assembly

If the key of the development issuer is in the same folder, each test file gets separate users. Otherwise all test files
share the three given users.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from local import KEY_FILE
from local.aws import Aws
from local.issuer import USERS, TokenSigner
from local.rehearsal import tokens_of
from local.run import service_in
from tests.e2e.receiving import Receiver, receiving
from tests.polling import LIMIT
from tests.random_names import random_name

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.e2e.browser import Console


@dataclass
class Service:
    """Running service with tokens of its users."""

    base_url: str
    tokens: Mapping[str, str]
    bad_tokens: Mapping[str, str] = field(default_factory=dict)
    """Tokens that the gateway must refuse, by reason."""
    assembly: Path | None = None
    """Folder of the deployed CDK assembly."""
    embedded: Aws | None = None
    """Embedded AWS on which the service runs, or `None` if the service runs elsewhere."""
    http: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=LIMIT, trust_env=False))
    mint: Callable[[str, Sequence[str]], str] | None = None
    """Function that signs a token for a subject and scopes, or `None` if the issuer's key is unknown."""
    subjects: Mapping[str, str] = field(default_factory=lambda: {user: user for user in USERS})
    """Subject of each user's token."""

    def with_own_users(self, word: str) -> "Service":
        """Return the same service with new users in place of alice, bob and admin.

        So the lists, totals, logs and quotas of these users contain only items of the calling test file.
        """
        if self.mint is None:
            return self
        subjects = {user: f"{user}-{word}" for user in USERS}
        own = {user: self.mint(subjects[user], scopes) for user, scopes in USERS.items()}
        return replace(self, tokens={**self.tokens, **own}, subjects=subjects)

    def request(self, method: str, path: str, user: str | None = "alice", **options: Any) -> httpx.Response:
        """Send a request as a user, or without a token. All threads share one connection pool."""
        headers = dict(options.pop("headers", {}))
        if user is not None:
            headers.setdefault("Authorization", f"Bearer {self.tokens[user]}")
        return self.http.request(method, self.base_url + path, headers=headers, **options)

    @property
    def aws(self) -> Aws:
        """Embedded AWS of the service. Skips the test if the service runs elsewhere."""
        if self.embedded is None:
            pytest.skip("needs the embedded AWS")
        return self.embedded

    def upload(self, video: Mapping[str, Any], data: bytes, user: str = "alice", kind: str = "video/mp4") -> str:
        """Upload a source file as a client does, and return the upload's id."""
        announced = {"contentType": kind, "fileSize": len(data)}
        begun = self.request("POST", f"/v1/videos/{video['videoId']}/upload", user, json=announced)
        assert begun.status_code == 201, begun.text
        upload = begun.json()
        sent = self.http.request(upload["method"], upload["url"], content=data, headers=upload["headers"])
        assert sent.status_code == 200, sent.text
        return str(upload["uploadId"])

    def create(self, user: str = "alice", **fields: Any) -> dict[str, Any]:
        """Create a video, and return its document."""
        reply = self.request("POST", "/v1/videos", user, json={"title": "A film"} | fields)
        assert reply.status_code == 201, reply.text
        video: dict[str, Any] = reply.json()
        return video

    def titled(self, title: str, user: str = "alice") -> list[str]:
        """Return the ids of a user's videos with this title.

        It reads all pages of the list, because other tests create videos concurrently.
        """
        params: dict[str, str | int] = {"userId": user, "limit": 100}
        ids: list[str] = []
        while True:
            page = self.request("GET", "/v1/videos", user, params=params).json()
            ids += [video["videoId"] for video in page["items"] if video["title"] == title]
            if page["nextCursor"] is None:
                return ids
            params["cursor"] = page["nextCursor"]

    def at_once(self, count: int, method: str, path: str, **options: Any) -> list[httpx.Response]:
        """Send `count` requests concurrently, and return the responses. An option that is a function is called with the
        number of the request, and returns the option's value for it."""

        def send(number: int) -> httpx.Response:
            chosen = {name: value(number) if callable(value) else value for name, value in options.items()}
            return self.request(method, path, **chosen)

        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(send, range(count)))


LONGEST = ("test_runtime", "test_readme", "test_clients")
"""Modules whose tests start first, so that no long module runs alone at the end."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests by file, longest first, so that the workers of `pytest -n` can share the service of E2E_SERVICE."""
    if os.environ.get("E2E_SERVICE"):
        for item in items:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
        items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))


@pytest.fixture(scope="session")
def service(deployment: Service) -> Iterator[Service]:
    """Return the service under test."""
    with deployment.http:
        yield deployment


@pytest.fixture(scope="module")
def own_service(service: Service, request: pytest.FixtureRequest) -> Service:
    """Return the service under test with separate users. To use it, a test file overrides the fixture `service`."""
    return service.with_own_users(f"{Path(request.node.path).stem}-{random_name()}")


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Deploy a service for the tests, or use the running service that E2E_SERVICE names."""
    path = os.environ.get("E2E_SERVICE")
    if path:
        described = json.loads(Path(path).read_text(encoding="utf-8"))
        bad = _forged(described["tokens"]["alice"]) | described.get("badTokens", {})
        assembly = Path(described["assembly"]) if "assembly" in described else None
        aws = Aws.of(described) if "endpoint" in described else None
        mint = _mint(described.get("issuer"), Path(path).parent / KEY_FILE.name)
        yield Service(described["baseUrl"], described["tokens"], bad, assembly, aws, mint=mint)
        return
    folder = tmp_path_factory.mktemp("e2e")
    log: list[str] = []
    with service_in(folder, log.append) as (aws, issuer):
        described = tokens_of(issuer, folder)
        bad = _forged(described["tokens"]["alice"]) | described["badTokens"]
        yield Service(aws.endpoint, described["tokens"], bad, folder / "cdk.out", aws, mint=issuer.mint)


def _mint(issuer: str | None, key_file: Path) -> Callable[[str, Sequence[str]], str] | None:
    """Return a function that signs tokens with the development issuer's key, or `None` if the key does not exist."""
    return partial(TokenSigner(key_file).mint, issuer) if issuer is not None and key_file.exists() else None


def _forged(token: str) -> dict[str, str]:
    header, payload, signature = token.split(".")
    return {
        "no token at all": "x",
        "without signature": f"{header}.{payload}.",
        "with an altered payload": f"{header}.{payload[:-4]}AAAA.{signature}",
        "with an altered signature": f"{header}.{payload}.{signature[:20]}AAAA{signature[24:]}",
    }


@pytest.fixture
def unique() -> str:
    """Return a unique word that no user interface contains, because all tests share the service."""
    return random_name()


@pytest.fixture
def receiver(service: Service) -> Iterator[Receiver]:
    """Return a receiver for the webhooks of a test."""
    assert service.aws  # a service that is deployed elsewhere cannot reach this machine
    with receiving() as opened:
        yield opened


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """Launch one browser for all console tests of this process."""
    from tests.e2e.browser import launched

    with launched() as launched_browser:
        yield launched_browser


@pytest.fixture
def console(browser: "Browser", service: Service) -> "Iterator[Console]":
    """Return the console in a new browser context without a session."""
    from tests.e2e.browser import new_console

    opened = new_console(browser, service)
    try:
        yield opened
    finally:
        opened.close()
