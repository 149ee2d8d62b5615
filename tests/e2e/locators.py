"""Locators by the whole name of an element: a part of a name may also be a part of what another test has created."""

import re
from typing import TypeAlias

from playwright.sync_api import Locator, Page

Scope: TypeAlias = Page | Locator
"""Scope of a search for elements."""
Name: TypeAlias = str | re.Pattern[str]
"""The whole name of an element, or a pattern that is anchored at both ends."""


def button(scope: Scope, name: Name) -> Locator:
    """The button of this name."""
    return scope.get_by_role("button", name=name, exact=True)


def account(page: Page) -> Locator:
    """The button of the signed-in user's menu."""
    return button(page, re.compile("^Account: .+$"))


def link(scope: Scope, name: Name) -> Locator:
    """The link of this name."""
    return scope.get_by_role("link", name=name, exact=True)


def heading(scope: Scope, name: Name) -> Locator:
    """The heading of this text."""
    return scope.get_by_role("heading", name=name, exact=True)


def dialog(page: Page, name: Name) -> Locator:
    """The dialog of this title."""
    return page.get_by_role("dialog", name=name, exact=True)


def region(scope: Scope, name: Name) -> Locator:
    """The part of a page that has this name."""
    return scope.get_by_role("region", name=name, exact=True)


def group(scope: Scope, name: Name) -> Locator:
    """The group of fields of this name."""
    return scope.get_by_role("group", name=name, exact=True)


def form(scope: Scope, name: Name) -> Locator:
    """The form of this name."""
    return scope.get_by_role("form", name=name, exact=True)


def panel(scope: Scope, name: Name) -> Locator:
    """The panel of the tab of this name."""
    return scope.get_by_role("tabpanel", name=name, exact=True)


def tab(scope: Scope, name: Name) -> Locator:
    """The tab of this name."""
    return scope.get_by_role("tab", name=name, exact=True)


def field(scope: Scope, label: Name) -> Locator:
    """The field of this label."""
    return scope.get_by_label(label, exact=True)


def text(scope: Scope, words: Name) -> Locator:
    """The element whose whole text these words are."""
    return scope.get_by_text(words, exact=True)
