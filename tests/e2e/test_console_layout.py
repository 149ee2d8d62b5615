"""Layout of every screen of the console, in both themes and at three widths, with a mock of the API.

The console's colours do not depend on the width, so each width is checked in one theme. `layout.js` compares the parts of each screen with `#/design`. It also finds overlaps, overflow, cut texts, dialogs that are
not centred, classes without a style, covered controls and an invisible focus. axe finds other faults.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from infra.site import CONSOLE, site
from tests.e2e.browser import LIMIT_MS, PHONE_AND_DESK, list_serious_violations
from tests.e2e.locators import dialog
from tests.e2e.mock_console import MockConsole, served, session_script, settle
from tests.e2e.mock_screens import HEIGHTS, SCREENS, Scheme, Screen

LAYOUT = Path(__file__).with_name("layout.js").read_text(encoding="utf-8")
DESIGN = next(screen for screen in SCREENS if screen.name == "design")
LAYOUTS: tuple[tuple[Scheme, int], ...] = (("dark", 1280), ("light", 360), ("light", 3840))
"""Themes and widths in the order of the checks. Pages load with the first theme and width."""
REPLACE_STYLES = """
(name) => new Promise((resolve, reject) => {
  const link = document.querySelector("link[rel=stylesheet]");
  [link.onload, link.onerror] = [resolve, reject];
  link.href = name;
})
"""
"""Function that replaces the stylesheet of a page by another file."""
FAILED = "Failed to load resource"
"""Beginning of the browser's message about a response with an error status, which some screens show."""

Styles = Mapping[str, Mapping[str, str]]
"""Computed styles by part."""


@dataclass
class Checker:
    """Checks the layout of screens. `styles` are the styles of the parts on `#/design`, by theme and width.

    All screens of a user load in one page, because a new page would fetch and compile all files again.
    """

    browser: Browser
    console: MockConsole
    styles: dict[tuple[Scheme, int], Styles] = field(default_factory=dict)
    _page: Page | None = None
    _user: str | None = None
    _errors: list[str] = field(default_factory=list)
    _loads: Iterator[int] = field(default_factory=count)

    @contextmanager
    def shown(self, screen: Screen) -> Iterator[Page]:
        """Yield a page that shows the screen. An error of a script, or a violated policy, fails the test at the end."""
        self.console.api.state = screen.state
        if self._page is None or self._user != screen.user:
            self._page, self._user = self._opened(screen.user), screen.user
        page = self._page
        self._page = None  # after an exception, no other screen uses this page
        _resize(page, *LAYOUTS[0])
        page.goto(self.console.address(screen.route, str(next(self._loads))))
        self._errors.clear()
        settle(page)
        if screen.act:
            screen.act(page)
        page.evaluate(LAYOUT)
        page.mouse.move(0, 0)
        page.keyboard.press("Shift")  # after a key press, the browser shows the focus
        yield page
        assert self._errors == []
        assert self.console.unknown == []
        self._page = page

    def _opened(self, user: str | None) -> Page:
        """Return a page in which the user is signed in."""
        for context in self.browser.contexts:
            context.close()
        context = self.browser.new_context(locale="en-GB", reduced_motion="reduce")
        context.set_default_timeout(LIMIT_MS)
        context.add_init_script("localStorage.clear(); sessionStorage.clear();" + session_script(user))
        page = context.new_page()
        page.on("pageerror", lambda error: self._errors.append(str(error)))
        page.on("console", self._note)
        return page

    def _note(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(FAILED):
            self._errors.append(message.text)

    def measure(self) -> None:
        """Read the styles of the parts on the page of the design system."""
        with self.shown(DESIGN) as page:
            for scheme, width in LAYOUTS:
                _show(page, scheme, width)
                self.styles[scheme, width] = page.evaluate("layout.styles()")

    def faults(self, page: Page, scheme: Scheme, width: int) -> list[str]:
        """Return the faults of a page in a theme and at a width."""
        _show(page, scheme, width)
        found: list[str] = page.evaluate("(styles) => layout.faults(styles)", self.styles[scheme, width])
        return found


def _show(page: Page, scheme: Scheme, width: int) -> None:
    """Show a page in a theme and at a width."""
    if page.viewport_size != {"width": width, "height": HEIGHTS[width]}:
        _resize(page, scheme, width)
        settle(page)


def _resize(page: Page, scheme: Scheme, width: int) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": HEIGHTS[width]})


@pytest.fixture(scope="module")
def checker(browser: Browser) -> Iterator[Checker]:
    """Return a checker of the console of this checkout."""
    with served() as console:
        opened = Checker(browser, console)
        opened.measure()
        yield opened


@pytest.mark.parametrize("screen", [pytest.param(screen, id=screen.name) for screen in SCREENS])
def test_screen_keeps_the_design_in_both_themes_and_at_three_widths(checker: Checker, screen: Screen) -> None:
    faults: dict[str, list[Any]] = {}
    with checker.shown(screen) as page:
        for scheme, width in LAYOUTS:
            found = checker.faults(page, scheme, width)
            if (scheme, width) in PHONE_AND_DESK:
                found += list_serious_violations(page)
            for fault in found:
                faults.setdefault(fault, []).append((scheme, width))
    assert faults == {}


def test_form_shows_a_missing_value_at_its_field_and_focuses_the_field(checker: Checker) -> None:
    refused = next(screen for screen in SCREENS if screen.name == "webhooks-refused")
    with checker.shown(refused) as page:
        url = dialog(page, "New webhook").get_by_role("textbox", name="URL", exact=True)
        expect(url).to_be_focused()
        expect(url).to_have_accessible_description(
            "Fill in this field. Endpoint that receives changes: https on port 443 or 8443."
        )


def _without(name: str) -> tuple[bytes, bytes]:
    return (CONSOLE / name).read_bytes(), b""


def _with(rule: bytes) -> tuple[bytes, bytes]:
    end = (CONSOLE / "screens" / "webhooks.css").read_bytes()
    return end, end + b"\n" + rule


MUTANTS = {
    "forgotten-parts": (_without("design/parts.css"), "differs from the primary button of #/design", "webhooks"),
    "forgotten-screen": (_without("screens/webhooks.css"), ".webhook-card has no style", "webhooks"),
    "forgotten-frame": (_without("style.css"), ".brand has no style", "webhooks"),
    "other-button": (
        _with(b".webhooks-head .primary { border-radius: 1rem }"),
        "differs from the primary button of #/design: border-top-left-radius",
        "webhooks",
    ),
    "overlap": (_with(b".webhook-card > .hint { margin-top: -1.5rem }"), "overlap", "webhooks"),
    "overflow": (_with(b".webhooks { width: 120vw }"), "the page is", "webhooks"),
    "cut-text": (
        _with(b".webhooks-head .primary { width: 4rem; white-space: nowrap; overflow: hidden }"),
        "is cut off",
        "webhooks",
    ),
    "covered-control": (
        _with(
            b".webhooks-head { position: relative } .webhooks-head::after { content: ''; position: absolute; inset: 0 }"
        ),
        "is covered by",
        "webhooks",
    ),
    "invisible-focus": (_with(b".webhook-card:focus-visible { outline: none }"), "does not show its focus", "webhooks"),
    "dialog-at-the-edge": (_with(b"dialog { margin-left: 0 }"), "is not centred", "webhooks-new"),
}
"""Planted faults: a text of the stylesheets with its replacement, a part of the expected fault, and the screen."""


@pytest.mark.parametrize(("change", "fault", "screen"), MUTANTS.values(), ids=MUTANTS)
def test_layout_check_finds_a_planted_fault(
    checker: Checker, change: tuple[bytes, bytes], fault: str, screen: str
) -> None:
    files = site()
    (sheet,) = [name for name in files if name.endswith(".css")]
    assert files[sheet].count(change[0]) == 1
    spoilt = f"{sheet}.{len(checker.console.files)}.css"  # a new name, because the browser caches files by name
    checker.console.add(spoilt, files[sheet].replace(*change))
    shown = next(shown for shown in SCREENS if shown.name == screen)
    with checker.shown(shown) as page:
        page.evaluate(REPLACE_STYLES, spoilt)
        found = checker.faults(page, *LAYOUTS[0])
    assert [each for each in found if fault in each]
