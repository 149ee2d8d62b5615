"""Chromium, driven by Playwright, for the tests of the console and its screenshots."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from local import LocalError

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Names of the browser's program, in order of preference.

The first program cannot show windows. To start a page, it needs a quarter of the CPU time of the other programs.
"""
MACOS = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
LAUNCH_MS = 120_000
"""Timeout of the browser's start in milliseconds, long enough for a busy machine."""
MISSING = "Chromium, which shows the console, is not installed. Run `apt-get install chromium-headless-shell`, or set CHROMIUM=<path>."


def chromium() -> str:
    """Return the path of the browser: $CHROMIUM, or an installed browser. Raises LocalError if there is none."""
    found = os.environ.get("CHROMIUM") or next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None and os.path.exists(MACOS):
        found = MACOS
    if found is None:
        raise LocalError(MISSING)
    return found


@contextmanager
def launched() -> Iterator[Browser]:
    """Yield a headless browser, and close it after the block. Raises LocalError if no browser is installed."""
    path = chromium()
    with sync_playwright() as playwright:
        # The sandbox needs privileges that containers lack, and all pages are ours. /dev/shm of a container may be tiny.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--autoplay-policy=no-user-gesture-required"]
        browser = playwright.chromium.launch(executable_path=path, args=arguments, timeout=LAUNCH_MS)
        try:
            yield browser
        finally:
            browser.close()
