"""The tours in README and docs, and the API guide, show the real output of their commands."""

from difflib import unified_diff
from pathlib import Path

import pytest

from local.tour import PAGES, masked, played, variables
from tests.e2e.conftest import Service

pytestmark = pytest.mark.xdist_group("e2e")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_shows_the_output_of_its_commands(service: Service, page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    really = played(text, variables({"baseUrl": service.base_url, "tokens": service.tokens}))
    expected_lines, lines = masked(text).splitlines(), masked(really).splitlines()
    different = unified_diff(expected_lines, lines, "expected", "printed", lineterm="", n=2)
    assert lines == expected_lines, "\n".join(different)
