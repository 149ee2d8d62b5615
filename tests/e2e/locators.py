"""Locators by the complete name of an element, because parts of names may also occur in items of other tests."""

import re
from typing import TypeAlias

from playwright.sync_api import Locator, Page

Scope: TypeAlias = Page | Locator
"""Page or element in which a locator searches."""
Name: TypeAlias = str | re.Pattern[str]
"""Complete name of an element, or a pattern that is anchored at both ends."""


def button(scope: Scope, name: Name) -> Locator:
    """Locate the button with this name."""
    return scope.get_by_role("button", name=name, exact=True)


def account(page: Page) -> Locator:
    """Locate the button of the signed-in user's menu."""
    return button(page, re.compile("^Account: .+$"))


def link(scope: Scope, name: Name) -> Locator:
    """Locate the link with this name."""
    return scope.get_by_role("link", name=name, exact=True)


def heading(scope: Scope, name: Name) -> Locator:
    """Locate the heading with this text."""
    return scope.get_by_role("heading", name=name, exact=True)


def dialog(page: Page, name: Name) -> Locator:
    """Locate the dialog with this title."""
    return page.get_by_role("dialog", name=name, exact=True)


def region(scope: Scope, name: Name) -> Locator:
    """Locate the region with this name."""
    return scope.get_by_role("region", name=name, exact=True)


def group(scope: Scope, name: Name) -> Locator:
    """Locate the group of fields with this name."""
    return scope.get_by_role("group", name=name, exact=True)


def form(scope: Scope, name: Name) -> Locator:
    """Locate the form with this name."""
    return scope.get_by_role("form", name=name, exact=True)


def panel(scope: Scope, name: Name) -> Locator:
    """Locate the panel of the tab with this name."""
    return scope.get_by_role("tabpanel", name=name, exact=True)


def tab(scope: Scope, name: Name) -> Locator:
    """Locate the tab with this name."""
    return scope.get_by_role("tab", name=name, exact=True)


def field(scope: Scope, label: Name) -> Locator:
    """Locate the field with this label."""
    return scope.get_by_label(label, exact=True)


def text(scope: Scope, words: Name) -> Locator:
    """Locate the element with this complete text."""
    return scope.get_by_text(words, exact=True)
