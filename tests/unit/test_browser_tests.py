"""Guards of the tests that drive a browser: their results must not depend on chance or speed."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from infra.site import CONSOLE
from tests.random_names import random_name

E2E = Path(__file__).resolve().parents[1] / "e2e"
FILES = sorted(E2E.glob("*.py"))
OF_BROWSER = [E2E / "browser.py", *E2E.glob("test_console*.py")]
BY_TEXT = {"get_by_label", "get_by_text", "get_by_placeholder", "get_by_alt_text", "get_by_title"}
HELPERS = {"button", "link", "heading", "dialog", "region", "group", "form", "panel", "tab", "field", "text"}
"""Locator functions of `tests/e2e/locators.py`. They match exactly unless the caller passes a pattern."""
BANNED = {
    "wait_for_timeout": "wait for an event",
    "sleep": "wait for an event",
    "wait_for_load_state": "wait for content of the page",
    "unroute": "Playwright loses requests that are under way: let the handler decide",
}


def calls(source: str) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls in a file, each with the name of the called function."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = node.func
            yield node, called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def is_anchored(node: ast.expr) -> bool:
    """Return whether an expression is `re.compile` of a pattern that is anchored at both ends."""
    pattern = node.args[0] if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile" else None
    parts = pattern.values if isinstance(pattern, ast.JoinedStr) else [pattern]
    texts = [part.value if isinstance(part, ast.Constant) else "" for part in parts]
    return str(texts[0]).startswith("^") and str(texts[-1]).endswith("$")


def is_pattern(node: ast.expr) -> bool:
    """Return whether an expression is a call of `re.compile`."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile"


def loose_locators(source: str) -> list[str]:
    """Return the locators in a file that match an element by a part of its text."""
    locators = []
    for call, name in calls(source):
        named = [keyword.value for keyword in call.keywords if keyword.arg == "name"]
        is_exact = any(keyword.arg == "exact" and ast.unparse(keyword.value) == "True" for keyword in call.keywords)
        texts = named if name == "get_by_role" else call.args[:1] if name in BY_TEXT else []
        is_loose = any(not (is_exact if not is_pattern(text) else is_anchored(text)) for text in texts)
        if name in HELPERS:
            is_loose = any(is_pattern(text) and not is_anchored(text) for text in call.args)
        if is_loose:
            locators.append(f"{call.lineno}: {ast.unparse(call)}")
    return locators


def calls_with_own_timeout(source: str) -> list[str]:
    """Return the calls in a file whose `timeout` is not `LIMIT_MS`."""
    return [
        f"{call.lineno}: {ast.unparse(call)}"
        for call, _ in calls(source)
        if any(keyword.arg == "timeout" and ast.unparse(keyword.value) != "LIMIT_MS" for keyword in call.keywords)
    ]


def banned_calls(source: str) -> list[str]:
    """Return the calls in a file whose outcome depends on the speed of the machine, each with the remedy."""
    return [f"{call.lineno}: {name}: {BANNED[name]}" for call, name in calls(source) if name in BANNED]


def faults(files: Iterable[Path], find: Callable[[str], list[str]]) -> list[str]:
    """Return the faults that `find` reports in the files, each with the file's name."""
    return [f"{file.name}:{fault}" for file in files for fault in find(file.read_text("utf-8"))]


def test_locators_match_the_whole_text_of_an_element() -> None:
    assert faults(FILES, loose_locators) == []


def test_browser_tests_wait_within_the_limit_of_the_suite() -> None:
    assert faults(OF_BROWSER, calls_with_own_timeout) == []


def test_browser_tests_wait_for_events() -> None:
    assert faults(OF_BROWSER, banned_calls) == []


@pytest.mark.parametrize(
    "call",
    [
        'page.get_by_role("button", name="Add")',
        'page.get_by_role("button", name=title, exact=False)',
        'page.get_by_label("Title")',
        'page.get_by_text(re.compile("^Add"))',
        'page.get_by_text(re.compile(f"{title}$"), exact=True)',
        'button(page, re.compile("Add"))',
    ],
)
def test_guard_refuses_a_locator_that_matches_by_a_part(call: str) -> None:
    assert loose_locators(call)


@pytest.mark.parametrize(
    "call",
    [
        'page.get_by_role("button")',
        'page.get_by_role("button", name="Add", exact=True)',
        'page.get_by_text(re.compile(f"^{title}: .*$"))',
        'button(page, "Add")',
        'link(page, re.compile("^Add .*$"))',
    ],
)
def test_guard_accepts_a_locator_that_matches_the_whole_text(call: str) -> None:
    assert not loose_locators(call)


def test_guard_refuses_a_separate_timeout_and_a_wait_for_time() -> None:
    assert calls_with_own_timeout("expect(card).to_be_visible(timeout=5000)")
    assert banned_calls("page.wait_for_timeout(500)")


def test_random_names_contain_no_word_of_the_console() -> None:
    words = set(re.findall(r"[a-z]{2,}", " ".join(file.read_text("utf-8") for file in CONSOLE.rglob("*.js")).lower()))
    names = {random_name() for _ in range(1000)}
    assert len(words) > 1000
    assert len(names) == 1000
    assert not {word for word in words for name in names if word in name}
    assert all(re.fullmatch(r"([b-df-hj-np-tv-xz]\d){12}", name) for name in names)
