"""Tests of `python -m bench.changes`: the feed, undo and webhooks cost the same with any number of changes, and
docs/scale.md states the measured costs."""

import re
from collections.abc import Sequence

import pytest

from bench.changes import PAGE, SECTION, SIZES, ChangeCost, MeasuredWork, costs_of, require_flat


@pytest.mark.slow
def test_costs_are_flat_and_those_of_the_smallest_size_are_on_the_page() -> None:
    table, check = costs_of([SIZES[0], 3 * SIZES[0] // 2], is_timed=False)
    check()
    section = PAGE.read_text(encoding="utf-8").partition(f"<!-- generated: {SECTION} -->\n")[2].partition("<!-- end")[0]
    documented = [re.split(r" ?\| ?", line)[1:5] for line in section.splitlines()[2:]]
    assert [name for name, *_ in documented] == [name for name, *_ in table.rows], "run: python -m bench.changes --docs"
    for (name, *figures), (_, *measured) in zip(documented, table.rows, strict=True):
        assert _smallest(figures) == pytest.approx(_smallest(measured[:3]), rel=0.1), name


def _smallest(figures: Sequence[str]) -> list[float]:
    """Return the first number of each figure. A figure is a range such as `0.5 to 0.7`, or a single number."""
    return [float(figure.partition(" to ")[0]) for figure in figures]


@pytest.mark.parametrize(
    "grown",
    [ChangeCost(1.1, 1, 1), ChangeCost(1, 1.1, 1), ChangeCost(1, 1, 1.1), ChangeCost(1, 1, 1, memory=3)],
)
def test_growing_cost_fails_the_benchmark(grown: ChangeCost) -> None:
    with pytest.raises(RuntimeError, match=r"10,000.*, .* (with 20,000|with more)"):
        require_flat(MeasuredWork(lambda: 1), "work", {10_000: ChangeCost(1, 1, 1, memory=1), 20_000: grown})
