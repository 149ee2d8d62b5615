"""The README's tour shows what its commands really print."""

import pytest

from local.tour import README, masked, played, variables
from tests.e2e.conftest import Service

pytestmark = pytest.mark.xdist_group("e2e")


def test_the_tour_is_what_the_readme_shows(service: Service) -> None:
    shown = README.read_text(encoding="utf-8")
    really = played(shown, variables({"baseUrl": service.base_url, "tokens": service.tokens}))
    assert masked(shown) == masked(really)
