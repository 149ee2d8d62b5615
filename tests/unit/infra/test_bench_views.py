"""A view costs one write unit at any load, and little more with a viewer or an idempotency key."""

import pytest

from bench.views import KINDS, LOADS, PICTURE, ViewCost, costs, picture, starts
from shared.core.periods import DAY_SECONDS, HOUR_SECONDS

KEYED, UNKEYED = KINDS


@pytest.fixture(scope="module")
def measured() -> dict[str, list[ViewCost]]:
    """Return the cost of each kind of view at each load."""
    return costs()


def test_view_costs_one_unit_at_any_load(measured: dict[str, list[ViewCost]]) -> None:
    assert [spent.request for kind in KINDS for spent in measured[kind]] == [1] * len(KINDS) * len(LOADS)


def test_each_hour_and_day_with_views_of_a_video_costs_two_more_units(measured: dict[str, list[ViewCost]]) -> None:
    assert starts() == {HOUR_SECONDS: 2, DAY_SECONDS: 2}
    rare, hourly, *often = (spent.stream for spent in measured[UNKEYED])
    assert [rare, hourly] == pytest.approx([4, 2 + 2 / 24])
    assert max(often) < 0.04


def test_stream_counts_the_view_of_a_viewer_for_one_unit_at_most_and_less_in_batches(
    measured: dict[str, list[ViewCost]],
) -> None:
    added = [keyed.stream - unkeyed.stream for keyed, unkeyed in zip(measured[KEYED], measured[UNKEYED], strict=True)]
    assert max(added) == pytest.approx(1)
    # At a high load, one write counts up to 32 views, and the ids of the counted views are stored in pages.
    assert max(units for units, load in zip(added, LOADS.values(), strict=True) if load >= 100) < 0.1


def test_picture_shows_the_measurements(measured: dict[str, list[ViewCost]]) -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(measured), "run: python -m bench.views"
