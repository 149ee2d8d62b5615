"""Growth: a list costs the same in any catalogue, and at any depth."""

import pytest

from bench.growth import LISTS, PICTURE, SIZES, Spent, growth, picture


@pytest.fixture(scope="module")
def taken() -> dict[str, list[Spent]]:
    """What each list takes in small and large catalogues, and deep in the largest."""
    return growth()


@pytest.mark.parametrize("name", LISTS)
def test_a_page_takes_the_same_in_any_catalogue_and_at_any_depth(taken: dict[str, list[Spent]], name: str) -> None:
    assert taken[name] == [taken[name][0]] * (len(SIZES) + 1)


def test_the_picture_shows_what_is_measured(taken: dict[str, list[Spent]]) -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(taken), "run: python -m bench.growth"
