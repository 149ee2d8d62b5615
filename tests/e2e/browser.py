"""The console in a real browser: Debian's Chromium, driven by Playwright.

In every test, the page may send requests only to the service and its issuer. It must not violate its Content Security
Policy or log an error. `Console.close` checks all of this. With CONSOLE_LIVE=1, pages load the console's files from
this checkout instead of the deployed files.
"""

import hashlib
import mimetypes
import os
import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, Literal, Self
from urllib.parse import parse_qs, urlsplit

import pytest
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Route, expect

from infra.site import CONSOLE, PACKAGES, site
from local import LocalError, browser
from local.browser import chromium
from local.issuer import AUTHORIZE_PATH, TOKEN_PATH
from local.testbed.video_files import RATE, moov_first, quarters
from tests.e2e.conftest import Service
from tests.e2e.locators import account, button
from tests.polling import LIMIT, eventually

LIMIT_MS = LIMIT * 1000
"""Milliseconds until a wait for an element of a page fails."""

_FILE = re.compile(r"/console/[0-9a-f]{16}/(.+)$")
"""Pattern of the URL of a console file."""

AXE = PACKAGES / "axe-core" / "axe.min.js"
SERIOUS = """
async () => {
  const isSerious = ({ impact }) => ["serious", "critical"].includes(impact);
  const rules = Object.fromEntries(axe._audit.rules.filter((rule) => rule.enabled && !isSerious(rule)).map(({ id }) => [id, { enabled: false }]));
  // Only style sheets are loaded ahead: no rule that is left reads a video.
  const { violations } = await axe.run(document, { resultTypes: ["violations"], rules, preload: { assets: ["cssom"] } });
  return violations.filter(isSerious)
    .map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((node) => node.html).join(" ")}`);
}
"""

RECORD_ANNOUNCEMENTS = """
window.announcements = [];
new MutationObserver(() => {
  const text = document.querySelector(".announcer[role=status] span")?.textContent;
  if (text && text !== window.announcements.at(-1)) window.announcements.push(text);
}).observe(document, { subtree: true, childList: true, characterData: true });
"""
"""Script that stores the announcements of a page in `window.announcements`, because they disappear after some seconds."""
NO_FRAMES = """() => {
  const { setTimeout } = window;
  window.requestAnimationFrame = () => 0;
  window.setTimeout = (run, milliseconds, ...more) => milliseconds > 100 ? setTimeout(run, milliseconds, ...more) : 0;
}"""
"""Script that disables animation frames. It also disables timers of up to 100 ms, with which Preact replaces the frames
of a hidden page."""
LOAD_UNTIL_SHOWN = """
(text) => {
  if (document.querySelector("main")?.textContent.includes(text)) return true;
  document.querySelector(".more")?.scrollIntoView();
  return false;
}
"""

HOSTILE = '<img src=x onerror="window.hit=1">\u202e\u0645\u064a\u0646\u0627\u0621 \U0001f3ac ' + "W" * 150
"""Text with markup, a right-to-left override and a long word."""
IS_AT = """(seconds) => {
  const video = document.querySelector("media-controller video");
  return video && Math.abs(video.currentTime - seconds) < 0.2 && !video.seeking;
}"""
"""Script that returns whether the player is at a time, in seconds."""
PHONE_AND_DESK: tuple[tuple[Literal["light", "dark"], int], ...] = (("light", 360), ("dark", 1280))
FAULTS = """(width) => {
  const { scrollWidth } = document.documentElement;
  return { wider: scrollWidth > width ? scrollWidth : null, hit: window.hit ?? null };
}"""
"""Script that returns the page's width if it exceeds the window's, and the value that a hostile text has set."""


@cache
def ride() -> bytes:
    """Return a video of ten seconds with a scene change in the middle.

    A real clip has more and larger frames, which the transcoder and the browser would take seconds to process.
    """

    def paint(number: int, size: tuple[int, int]) -> Image.Image:
        return quarters(number, size) if number < 5 * RATE else Image.new("RGB", size, "white")

    return moov_first(seconds=10, size=(480, 270), paint=paint)


def seek(page: Page, text: str) -> None:
    """Load more pages of the displayed list until it contains a text. Items of other tests may precede it."""
    page.wait_for_function(LOAD_UNTIL_SHOWN, arg=text)


def announced(page: Page, text: str) -> None:
    """Wait until a page has announced a text, even if the announcement has already disappeared."""
    page.wait_for_function("(text) => window.announcements.includes(text)", arg=text)


def wait_until(page: Page, condition: Callable[[], object]) -> None:
    """Wait for a condition that handlers of page events change. Playwright runs these handlers only while the test
    calls Playwright, so each check calls it."""
    eventually(lambda: (page.context.cookies(), condition())[1])


class HeldRequests:
    """Requests of a page that match a pattern. They wait until the test releases them.

    At the end of the `with` block, all waiting requests are released.
    """

    def __init__(
        self, page: Page, pattern: str | re.Pattern[str], matches: Callable[[Request], bool] = lambda _: True
    ) -> None:
        self.page = page
        self.held: list[Route] = []
        self.matches = matches
        self.is_open = False
        page.route(pattern, self._hold)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def wait_for(self, count: int) -> None:
        """Wait until this many requests are held."""
        wait_until(self.page, lambda: len(self._waiting()) >= count)

    def clear(self) -> None:
        """Hold no further requests."""
        self.is_open = True  # unrouting would release the held requests at an unpredictable time

    def release(self) -> None:
        """Continue all held requests that the page has not aborted."""
        self.clear()
        for route in self._waiting():
            route.fallback()

    def fail(self) -> None:
        """Abort all held requests with an error. Later requests succeed."""
        self.clear()
        for route in self._waiting():
            route.abort()

    def _waiting(self) -> list[Route]:
        """Return the held requests that the page has not aborted."""
        return [route for route in self.held if route.request.failure is None]

    def _hold(self, route: Route) -> None:
        if self.is_open or not self.matches(route.request):
            route.fallback()
        else:
            self.held.append(route)


def handle_first(page: Page, pattern: str | re.Pattern[str], handle: Callable[[Route], object], count: int = 1) -> None:
    """Handle the first `count` requests that match a pattern with `handle`, and pass later requests through.

    Playwright's `times` does the same, but it ends the routing while requests are in flight and sometimes loses one:
    https://github.com/microsoft/playwright/issues/41802
    """
    remaining = iter(range(count))
    page.route(pattern, lambda route: route.fallback() if next(remaining, None) is None else handle(route))


def disable_frames(page: Page) -> None:
    """Disable animation frames, and callbacks that wait for one. So the test sees only the synchronous effects of its
    next event."""
    page.evaluate(NO_FRAMES)


def list_serious_violations(page: Page) -> list[str]:
    """Return the serious and critical axe violations of a page: the rule, and the offending elements."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))  # the page's own policy blocks script tags
    violations: list[str] = page.evaluate(SERIOUS)
    return violations


def require_good_layout(page: Page, *layouts: tuple[Literal["light", "dark"], int]) -> None:
    """Assert that a page has no serious accessibility violation, executes no text of users, and is at most as wide as
    its window.

    `layouts` are pairs of colour scheme and width. The default is light on a phone and dark on a desktop. axe checks
    only the last pair, because `test_console_layout` checks every screen in both themes.
    """
    for scheme, width in layouts or PHONE_AND_DESK:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(FAULTS, width) == {"wider": None, "hit": None}
    assert list_serious_violations(page) == []


def _checkout() -> dict[str, bytes]:
    """Return the console's files from the checkout, bundled once after each change."""
    return _bundle(max(file.stat().st_mtime_ns for file in CONSOLE.rglob("*")))


@lru_cache(maxsize=1)
def _bundle(_changed: int) -> dict[str, bytes]:
    return site()


@contextmanager
def launched() -> Iterator[Browser]:
    """Launch a browser. Without Chromium, tests are skipped, except in CI, where they fail."""
    try:
        chromium()
    except LocalError as error:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(error))
    with browser.launched() as launched_browser:
        yield launched_browser


@dataclass
class Console:
    """The console in a separate browser context. Its pages share a session, as tabs do."""

    service: Service
    context: BrowserContext
    config: dict[str, Any]
    """Content of the deployed console's config.json."""
    errors: list[str] = field(default_factory=list)
    """Errors of all pages: script errors and policy violations."""
    foreign: list[str] = field(default_factory=list)
    """URLs of requests to addresses other than the service, its objects and its issuer."""
    pages: list[Page] = field(default_factory=list)

    @property
    def issuer(self) -> str:
        """Origin of the issuer."""
        return re.sub(r"(?<=[^:/])/.*", "", self.config["issuer"])

    def __post_init__(self) -> None:
        self.context.set_default_timeout(LIMIT_MS)
        self.context.add_init_script(RECORD_ANNOUNCEMENTS)
        expect.set_options(timeout=LIMIT_MS)
        if os.environ.get("CONSOLE_LIVE"):
            self.context.route(_FILE, self._serve)
        self.context.on("request", self._record_foreign)
        self.context.on("page", self._watch)

    def _serve(self, route: Route) -> None:
        """Respond with a file from the checkout, so that developers need not deploy changes."""
        name = _FILE.split(route.request.url)[1]
        content = next((content for file, content in _checkout().items() if file.partition("/")[2] == name), None)
        kind, _ = mimetypes.guess_type(name)
        route.fulfill(status=404 if content is None else 200, body=content or b"", content_type=kind)

    def _watch(self, page: Page) -> None:
        self.pages.append(page)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._record_policy_violation)

    def _record_policy_violation(self, message: ConsoleMessage) -> None:
        """Record a policy violation that the browser has reported on its console, in any document of a page."""
        if "Content Security Policy" in message.text:
            self.errors.append(message.text)

    def _record_foreign(self, request: Request) -> None:
        url = urlsplit(request.url)
        own = (self.service.base_url, self.issuer, *self.config["media"])
        if url.scheme in ("http", "https") and f"{url.scheme}://{url.netloc}" not in own:
            self.foreign.append(request.url)

    def open(self, route: str = "", user: str | None = "alice") -> Page:
        """Open a page of the console, such as `upload`, as a signed-in user; `None` leaves the page signed out."""
        page = self.context.new_page()
        if user is not None:
            # Tokens can be stored from any page of the same origin.
            page.goto(f"{self.service.base_url}/console/config.json")
            page.evaluate("(tokens) => sessionStorage.setItem('tokens', JSON.stringify(tokens))", self._tokens(user))
        # Waits for the response only: a page that fails to load its files reloads itself, which would abort a longer
        # wait.
        page.goto(f"{self.service.base_url}/console/#/{route}", wait_until="commit")
        if user is not None:
            expect(account(page)).to_be_visible()
        return page

    def _tokens(self, user: str) -> dict[str, str]:
        """Return the tokens that the console stores after sign-in.

        The method requests the tokens from the issuer, without the sign-in pages.
        """
        verifier, back = secrets.token_urlsafe(32), f"{self.service.base_url}/console/"
        authorization = {
            "response_type": "code",
            "client_id": self.config["clientId"],
            "redirect_uri": back,
            "scope": self.config["scopes"],
            "code_challenge": urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        http, authorize = self.service.http, f"{self.config['issuer']}{AUTHORIZE_PATH}"
        (page,) = re.findall(r'name="page" value="([^"]+)"', http.get(authorize, params=authorization).text)
        led = http.post(authorize, data={"page": page, "user": user})
        form = {
            "grant_type": "authorization_code",
            "client_id": self.config["clientId"],
            "code": parse_qs(urlsplit(led.headers["location"]).query)["code"][0],
            "redirect_uri": back,
            "code_verifier": verifier,
        }
        tokens = self.service.http.post(f"{self.config['issuer']}{TOKEN_PATH}", data=form).json()
        return {"accessToken": tokens["access_token"], "refreshToken": tokens["refresh_token"]}

    def sign_in(self, page: Page, user: str) -> None:
        """Sign in as a user does, with a click on this page and a click on the issuer's page."""
        button(page, "Sign in").click()
        self.identify(page, user)
        expect(account(page)).to_be_visible()

    def identify(self, page: Page, user: str) -> None:
        """Click a user on the issuer's page."""
        button(page, user).click()

    def sign_out(self, page: Page, by: str = "Sign out") -> None:
        """Sign out with a button, and wait until the issuer has redirected, because scripts fail while a page
        navigates."""
        if by == "Sign out":
            account(page).click()
        with page.expect_navigation(url=f"{self.service.base_url}/console/**"):
            button(page, by).click()
        expect(button(page, "Sign in")).to_be_visible()

    def close(self) -> None:
        """Close the context, and assert that no error occurred in any page."""
        # A handler that is fetching a response raises an error when its page closes. The next test would fail with this error.
        for page in self.context.pages:
            page.unroute_all(behavior="ignoreErrors")
        self.context.unroute_all(behavior="ignoreErrors")
        self.context.close()
        assert (self.foreign, self.errors) == ([], [])


def new_console(browser: Browser, service: Service, *, width: int = 1280, height: int = 800) -> Console:
    """Return a console in a window of this size in pixels. The caller must close it."""
    context = browser.new_context(viewport={"width": width, "height": height}, locale="en-GB", reduced_motion="reduce")
    return Console(service, context, service.http.get(f"{service.base_url}/console/config.json").json())
