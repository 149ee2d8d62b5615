"""Cost of a view: one write unit at any load, and little more with a viewer or an idempotency key."""

import pytest

from bench.views import KINDS, LOADS, PICTURE, ViewCost, costs, picture, starts
from shared.core.periods import DAY_SECONDS, HOUR_SECONDS

KEYED, UNKEYED = KINDS


@pytest.fixture(scope="module")
def measured() -> dict[str, list[ViewCost]]:
    """Cost of each kind of view at each load."""
    return costs()


def test_a_view_is_one_unit_at_any_load(measured: dict[str, list[ViewCost]]) -> None:
    assert [spent.request for kind in KINDS for spent in measured[kind]] == [1] * len(KINDS) * len(LOADS)


def test_an_hour_and_a_day_in_which_a_video_is_viewed_take_two_more_each(measured: dict[str, list[ViewCost]]) -> None:
    assert starts() == {HOUR_SECONDS: 2, DAY_SECONDS: 2}
    rare, hourly, *often = (spent.stream for spent in measured[UNKEYED])
    assert [rare, hourly] == pytest.approx([4, 2 + 2 / 24])
    assert max(often) < 0.04


def test_the_stream_adds_a_viewer_s_view_with_one_unit_at_most_and_less_with_others(
    measured: dict[str, list[ViewCost]],
) -> None:
    added = [keyed.stream - unkeyed.stream for keyed, unkeyed in zip(measured[KEYED], measured[UNKEYED], strict=True)]
    assert max(added) == pytest.approx(1)
    # From some views a second on, one write adds up to 32 of them, and keeps what it remembers of them in pages.
    assert max(units for units, load in zip(added, LOADS.values(), strict=True) if load >= 100) < 0.1


def test_the_picture_shows_what_is_measured(measured: dict[str, list[ViewCost]]) -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(measured), "run: python -m bench.views"
