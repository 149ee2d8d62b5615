"""A list costs the same in a catalogue of any size and at any depth."""

import pytest

from bench.growth import LISTS, PICTURE, SIZES, GrownTable, RequestCost, growth, page_of, picture


@pytest.fixture(scope="module")
def measured() -> dict[str, list[RequestCost]]:
    """Return the cost of each list's first page in small and large catalogues, and of a late page in the largest."""
    return growth()


@pytest.mark.parametrize("name", LISTS)
def test_page_costs_the_same_in_any_catalogue_and_at_any_depth(
    measured: dict[str, list[RequestCost]], name: str
) -> None:
    assert measured[name] == [measured[name][0]] * (len(SIZES) + 1)


@pytest.mark.parametrize(
    ("items", "requests", "above"),
    # Two parallel requests look up more than 100 videos; 36 entries per partition exceed 4 KB.
    [(25, 5, 2), (50, 5, 2), (100, 6, 4)],
)
def test_page_of_a_tag_takes_one_round_trip_and_costs_little_more_than_its_videos(
    items: int, requests: int, above: int
) -> None:
    spent = page_of(GrownTable(SIZES[0]), "a tag", 1, items)
    assert spent == RequestCost(requests, (items + 1) / 2 + above)


def test_picture_shows_the_measurements(measured: dict[str, list[RequestCost]]) -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(measured), "run: python -m bench.growth"
