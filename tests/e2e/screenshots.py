"""`make screenshots`: writes pictures of all screens of the console to `.local/screenshots`, for people to look at.

The screens show the sample data of tests/e2e/mock_api.py, in both themes and at three widths. No service is started. The
pictures of the documents are taken from the same screens: `python -m tests.e2e.screenshots --documents`.
"""

import argparse
import io
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page

from local import ROOT, STATE, LocalError, exit_status
from local.browser import launched
from tests.e2e.mock_console import MockConsole, served, session_script, settle
from tests.e2e.mock_screens import DOCUMENTED, HEIGHTS, SCHEMES, SCREENS, WIDTHS, Scheme, Screen

FOLDER = STATE / "screenshots"
DOCUMENTS = ROOT / "docs" / "pictures"
DOCUMENT_WIDTH = 1280
PATIENCE_MS = 60_000
TALLEST = 2400
"""Maximum height of a picture in pixels."""
SHOW_IMAGES = """
() => Promise.all([...document.images].map((image) => {
  image.loading = "eager";
  return image.decode().catch(() => undefined);
}))
"""
HEIGHT = "() => document.querySelector('dialog[open]') ? innerHeight : document.documentElement.scrollHeight"
"""Function that returns the height of a page's content; of a page with an open dialog, the height of the window."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Take the pictures of all screens, or of the named ones. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.screenshots", description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of screens in tests/e2e/mock_screens.py")
    parser.add_argument("--documents", action="store_true", help="write the pictures of the documents to docs/pictures")
    parsed = parser.parse_args(arguments)
    return exit_status(lambda: _take_documented() if parsed.documents else _take_all(parsed.names))


def _take_all(names: Sequence[str]) -> None:
    unknown = set(names) - {screen.name for screen in SCREENS}
    if unknown:
        raise LocalError(
            f"There is no screen {', '.join(sorted(unknown))}. tests/e2e/mock_screens.py lists all screens."
        )
    if not names:
        shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with launched() as browser, served() as console:
        for screen in SCREENS:
            if not names or screen.name in names:
                _take(browser, console, screen)
    sys.stdout.write(f"Pictures of the console: {FOLDER}\n")


def _take(browser: Browser, console: MockConsole, screen: Screen) -> None:
    with _shown(browser, console, screen) as page:
        for width in WIDTHS:
            for scheme in SCHEMES:
                _resize(page, scheme, width, HEIGHTS[width])
                # In a window as high as the content, bars that are fixed to the window's edges cover no content.
                _resize(page, scheme, width, min(page.evaluate(HEIGHT), TALLEST))
                page.screenshot(path=FOLDER / f"{screen.name}-{width}-{scheme}.png")


def _take_documented() -> None:
    """Write the pictures of the documents. The format is WebP, which has a third of the size of a PNG."""
    with launched() as browser, served() as console:
        for name, (screen, scheme) in DOCUMENTED.items():
            with _shown(browser, console, screen) as page:
                _resize(page, scheme, DOCUMENT_WIDTH, HEIGHTS[DOCUMENT_WIDTH])
                _save(page, DOCUMENTS / f"{name}.webp")


def _save(page: Page, path: Path) -> None:
    with Image.open(io.BytesIO(page.screenshot(animations="disabled"))) as image:
        image.convert("RGB").save(path, quality=88, method=6)
    sys.stdout.write(f"{path.relative_to(ROOT)}\n")


def _resize(page: Page, scheme: Scheme, width: int, height: int) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": height})
    settle(page)
    page.evaluate(SHOW_IMAGES)


@contextmanager
def _shown(browser: Browser, console: MockConsole, screen: Screen) -> Iterator[Page]:
    """Yield a page that shows the screen."""
    console.api.state = screen.state
    context = browser.new_context(locale="en-GB", reduced_motion="reduce")
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(session_script(screen.user))
    page = context.new_page()
    page.goto(console.address(screen.route))
    settle(page)
    if screen.act:
        screen.act(page)
    yield page
    context.close()


if __name__ == "__main__":
    sys.exit(main())
