"""Tests that the pages of docs/ call every endpoint in commands, which the end-to-end tests run."""

import re
from pathlib import Path

import pytest

from local.tour import BLOCK, PAGES, commands_of
from shared.routes import ROUTES, Route

COMMANDS = [
    command
    for page in PAGES
    if page.name != "README.md"
    for block in BLOCK.findall(page.read_text(encoding="utf-8"))
    for command in commands_of(block)
]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_every_endpoint_is_called_by_a_page(route: Route) -> None:
    path = re.sub(r"\\{\w+\\}", r"[^/?\\s\"]+", re.escape(route.path))
    request = re.compile(rf"""(?:api "\$\w+" {route.method} ["']?|curl -sS -X {route.method} "\$URL){path}["'?\s|]""")
    assert any(request.search(f"{command} ") for command in COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_with_commands_begins_with_the_set_up_of_the_shell(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert 0 < text.find('eval "$(make -s variables)"') < text.index("<!-- tour -->")


def test_commands_that_retry_write_to_a_file_that_curl_can_truncate() -> None:
    retrying = [command for command in COMMANDS if "--retry" in command]
    # Before a retry, curl truncates its output file. It fails if that is /dev/null, and cannot truncate standard output.
    assert retrying
    assert all(re.search(r'-o "\$\w+"', command) for command in retrying)
