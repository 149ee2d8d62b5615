"""Layout of every screen of the console, in both themes and at three widths, with a mock of the API.

`layout.js` compares the parts of each screen with `#/design`. It also finds overlaps, overflow, cut texts, dialogs that are
not centred, classes without a style, covered controls and an invisible focus. axe finds other faults.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from infra.site import CONSOLE, site
from tests.e2e.browser import LIMIT_MS, PHONE_AND_DESK, list_serious_violations
from tests.e2e.locators import dialog
from tests.e2e.mock_console import MockConsole, served, session_script, settle
from tests.e2e.mock_screens import HEIGHTS, SCHEMES, SCREENS, WIDTHS, Scheme, Screen

LAYOUT = Path(__file__).with_name("layout.js").read_text(encoding="utf-8")
DESIGN = next(screen for screen in SCREENS if screen.name == "design")
LAYOUTS = tuple((scheme, width) for width in WIDTHS for scheme in SCHEMES)
FAILED = "Failed to load resource"
"""Beginning of the browser's message about a response with an error status, which some screens show."""

Styles = Mapping[str, Mapping[str, str]]
"""Computed styles by part."""


@dataclass
class Checker:
    """Checks the layout of screens. `styles` are the styles of the parts on `#/design`, by theme and width."""

    browser: Browser
    console: MockConsole
    styles: dict[tuple[Scheme, int], Styles] = field(default_factory=dict)

    @contextmanager
    def shown(self, screen: Screen) -> Iterator[Page]:
        """Yield a page that shows the screen. An error of a script, or a violated policy, fails the test at the end."""
        errors: list[str] = []

        def note(message: ConsoleMessage) -> None:
            if message.type == "error" and not message.text.startswith(FAILED):
                errors.append(message.text)

        self.console.api.state = screen.state
        context = self.browser.new_context(locale="en-GB", reduced_motion="reduce")
        context.set_default_timeout(LIMIT_MS)
        context.add_init_script(session_script(screen.user))
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", note)
        page.goto(self.console.address(screen.route))
        settle(page)
        if screen.act:
            screen.act(page)
        page.evaluate(LAYOUT)
        page.mouse.move(0, 0)
        page.keyboard.press("Shift")  # after a key press, the browser shows the focus
        yield page
        context.close()
        assert errors == []
        assert self.console.unknown == []

    def measure(self) -> None:
        """Read the styles of the parts on the page of the design system."""
        with self.shown(DESIGN) as page:
            for scheme, width in LAYOUTS:
                _resize(page, scheme, width)
                self.styles[scheme, width] = page.evaluate("layout.styles()")

    def faults(self, page: Page, scheme: Scheme, width: int) -> list[str]:
        """Return the faults of a page in a theme and at a width.

        The geometry is the same in both themes, so it is checked only in the first theme.
        """
        _resize(page, scheme, width)
        found: list[str] = page.evaluate("(styles) => layout.strangers(styles)", self.styles[scheme, width])
        return found + (page.evaluate("layout.faults()") if scheme == SCHEMES[0] else [])


def _resize(page: Page, scheme: Scheme, width: int) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
    settle(page)


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
    files = dict(site())
    (sheet,) = [name for name in files if name.endswith(".css")]
    assert files[sheet].count(change[0]) == 1
    files[sheet] = files[sheet].replace(*change)
    shown = next(shown for shown in SCREENS if shown.name == screen)
    with served(files) as console, replace(checker, console=console).shown(shown) as page:
        found = checker.faults(page, "light", 1280)
    assert [each for each in found if fault in each]
