"""The API guide has every endpoint, each with a call of it that the end-to-end tests run."""

import re

import pytest

from local import ROOT
from local.tour import BLOCK, commands_of
from shared.routes import ROUTES, Route

GUIDE = (ROOT / "docs" / "api-guide.md").read_text(encoding="utf-8")
SECTIONS = {
    match[1]: match[2]
    for match in re.finditer(r"^### (\w+: `[^`]+`)\n(.*?)(?=^##|\Z)", GUIDE, re.DOTALL | re.MULTILINE)
}


def _heading(route: Route) -> str:
    return f"{route.operation}: `{route.method} {route.path}`"


def test_the_guide_has_every_endpoint_and_no_other() -> None:
    assert set(SECTIONS) == {_heading(route) for route in ROUTES}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_each_endpoint_is_called_in_its_section(route: Route) -> None:
    path = re.sub(r"\\{\w+\\}", r"[^/?\\s\"]+", re.escape(route.path))
    commands = [command for block in BLOCK.findall(SECTIONS[_heading(route)]) for command in commands_of(block)]
    assert any(re.search(rf'curl -sS -X {route.method} "\$URL{path}["?]', command) for command in commands)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_each_endpoint_names_its_scope(route: Route) -> None:
    named = re.findall(r"Scope `(videos/\w+)`", SECTIONS[_heading(route)])
    assert named == ([route.scope] if route.scope else [])
