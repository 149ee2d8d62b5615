"""Pages of the items to which index entries refer. They are complete, ordered and without duplicates, although some
entries refer to no visible item."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.aws.listing import entry_position, hydrate_page
from shared.core.attributes import Item
from shared.core.position import Page, Position


def _entries(count: int) -> list[Item]:
    return [{"relSort": number // 3, "relId": f"{number:04d}"} for number in range(count)]


def _reader(entries: Sequence[Item], sizes: list[int] | None = None) -> Callable[[Position | None, int], Page[Item]]:
    """Return a function that reads the entries as an index would. It appends the limit of each read to `sizes`."""

    def read(after: Position | None, limit: int) -> Page[Item]:
        if sizes is not None:
            sizes.append(limit)
        remaining = [entry for entry in entries if after is None or entry_position(entry) > after]
        page = remaining[:limit]
        return Page(page, entry_position(page[-1]) if len(remaining) > limit else None)

    return read


def _page(entries: Sequence[Item], visible: set[str], limit: int, after: Position | None, budget: int) -> Page[str]:
    return hydrate_page(
        _reader(entries),
        lambda entries: [entry["relId"] if entry["relId"] in visible else None for entry in entries],
        limit=limit,
        after=after,
        budget=budget,
    )


@given(
    visible=st.sets(st.integers(0, 59)),
    limit=st.integers(1, 20),
    budget=st.sampled_from([1, 10, 1000]),
)
def test_pages_together_are_the_complete_list(visible: set[int], limit: int, budget: int) -> None:
    entries = _entries(60)
    expected = {f"{number:04d}" for number in visible}
    listed: list[str] = []
    after: Position | None = None
    for _ in range(200):
        page = _page(entries, expected, limit, after, budget)
        assert len(page.items) <= limit
        if page.resume and budget == 1000:
            assert len(page.items) == limit
        listed += page.items
        after = page.resume
        if after is None:
            break
    assert after is None
    assert listed == sorted(expected)


def test_full_last_page_has_no_next_page() -> None:
    entries = _entries(4)
    page = _page(entries, {entry["relId"] for entry in entries}, 4, None, 1000)
    assert (len(page.items), page.resume) == (4, None)


def test_hidden_entries_after_the_last_item_cause_no_next_page() -> None:
    page = _page(_entries(9), {"0000", "0001"}, 2, None, 1000)
    assert (page.items, page.resume) == (["0000", "0001"], None)


@pytest.mark.parametrize("limit", [25, 100])
def test_page_of_visible_entries_takes_one_read(limit: int) -> None:
    sizes: list[int] = []
    hydrate_page(
        _reader(_entries(160), sizes), lambda entries: [entry["relId"] for entry in entries], limit=limit, after=None
    )
    assert sizes == [limit + 1]


def test_reads_grow_while_no_entry_is_visible() -> None:
    sizes: list[int] = []
    hydrate_page(_reader(_entries(500), sizes), lambda entries: [None] * len(entries), limit=1, after=None)
    assert sizes == [2, 5, 10, 20, 40, 80, 100, 100, 100, 100]


@pytest.mark.parametrize("budget", [10, 50])
def test_page_that_exceeds_the_budget_is_short_and_can_be_resumed(budget: int) -> None:
    page = _page(_entries(200), {"0199"}, 5, None, budget)
    assert page.items == []
    assert page.resume is not None
    remaining = _page(_entries(200), {"0199"}, 5, page.resume, 1000)
    assert (remaining.items, remaining.resume) == (["0199"], None)
