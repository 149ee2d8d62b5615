"""Pages merged from several partitions. They are ordered, full, without gaps or duplicates, and within the read
budget."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.aws.dynamodb import QueryPage
from shared.aws.pages import EXAMINED_BUDGET, Fetch, merge
from shared.core.attributes import Item, encode_item
from shared.core.position import Page, Position


class Partition:
    """Index partition: ordered items, and a filter that passes only the visible ones."""

    def __init__(self, positions: list[Position], visible: Callable[[Position], bool], *, ascending: bool) -> None:
        self.positions = sorted(positions, reverse=not ascending)
        self.visible = visible
        self.ascending = ascending
        self.examined = 0

    def fetch(self, after: Position | None, limit: int) -> Callable[[], QueryPage]:
        """Return a function that returns the result of a Query."""
        remaining = [
            position
            for position in self.positions
            if after is None or ((position > after) == self.ascending and position != after)
        ]
        read = remaining[:limit]
        self.examined += len(read)
        more = len(remaining) > limit
        return lambda: QueryPage(
            [_item(position) for position in read if self.visible(position)],
            len(read),
            encode_item(_item(read[-1])) if more else None,
        )


def _item(position: Position) -> Item:
    return {"at": position.at, "id": position.id}


def _locate(item: Item) -> Position:
    return Position(int(item["at"]), item["id"])


def _walk(fetches: list[Fetch], *, ascending: bool, limit: int, budget: int) -> Iterator[Page[Item]]:
    after = None
    for _ in range(1000):
        page = merge(fetches, _locate, ascending=ascending, limit=limit, after=after, budget=budget)
        yield page
        if page.resume is None:
            return
        assert after is None or (page.resume > after) == ascending
        after = page.resume
    raise AssertionError("the walk does not end")


positions = st.builds(Position, st.integers(0, 5), st.text("ab", min_size=1, max_size=3))


@given(
    # Number of the partition (up to eight) that contains each position. No position is in two partitions.
    numbers=st.dictionaries(positions, st.integers(0, 7), max_size=40),
    hidden=st.sets(positions),
    ascending=st.booleans(),
    limit=st.integers(1, 7),
    budget=st.integers(1, 40),
)
def test_a_walk_sees_every_visible_item_once_and_in_order(
    numbers: dict[Position, int],
    hidden: set[Position],
    ascending: bool,
    limit: int,
    budget: int,
) -> None:
    sources = [
        Partition(
            [position for position in numbers if numbers[position] == number],
            lambda position: position not in hidden,
            ascending=ascending,
        )
        for number in range(8)
    ]
    expected = sorted((position for position in numbers if position not in hidden), reverse=not ascending)

    pages = list(_walk([source.fetch for source in sources], ascending=ascending, limit=limit, budget=budget))

    assert [_locate(item) for page in pages for item in page.items] == expected
    assert all(len(page.items) <= limit for page in pages)


@pytest.mark.parametrize("ascending", [True, False])
def test_pages_are_full_however_much_a_filter_hides(ascending: bool) -> None:
    everything = [Position(n, "a") for n in range(800)]
    sources = [
        Partition(everything[shard::4], lambda position: position.at % 10 == 0, ascending=ascending)
        for shard in range(4)
    ]

    pages = list(_walk([source.fetch for source in sources], ascending=ascending, limit=25, budget=EXAMINED_BUDGET))

    assert [len(page.items) for page in pages] == [25, 25, 25, 5]


def test_a_full_last_page_has_no_cursor() -> None:
    source = Partition([Position(n, "a") for n in range(10)], lambda _: True, ascending=True)
    pages = list(_walk([source.fetch], ascending=True, limit=5, budget=EXAMINED_BUDGET))
    assert [len(page.items) for page in pages] == [5, 5]


def test_a_page_that_exhausts_the_budget_is_short_and_has_a_cursor() -> None:
    source = Partition([Position(n, "a") for n in range(5000)], lambda position: position.at == 4999, ascending=True)

    pages = list(_walk([source.fetch], ascending=True, limit=25, budget=EXAMINED_BUDGET))

    assert [len(page.items) for page in pages] == [0, 0, 0, 0, 1]
    assert source.examined == 5000


def test_single_page_examines_at_most_the_budget() -> None:
    sources = [
        Partition([Position(n, f"{shard}") for n in range(5000)], lambda _: False, ascending=False)
        for shard in range(4)
    ]
    merge([source.fetch for source in sources], _locate, ascending=False, limit=100, after=None)
    assert sum(source.examined for source in sources) <= EXAMINED_BUDGET


def test_a_page_over_equally_full_partitions_reads_at_most_twice_its_items() -> None:
    everything = [Position(n, "a") for n in range(4000)]
    sources = [Partition(everything[shard::4], lambda _: True, ascending=False) for shard in range(4)]
    merge([source.fetch for source in sources], _locate, ascending=False, limit=25, after=None)
    assert sum(source.examined for source in sources) <= 2 * 25


def test_partitions_with_and_without_items_are_each_read_once() -> None:
    everything = [Position(n, "a") for n in range(400)]
    sources = [
        Partition(everything[shard::4] if shard < 4 else [], lambda _: True, ascending=False) for shard in range(8)
    ]
    reads: list[Position | None] = []

    def fetch_from(source: Partition) -> Fetch:
        def fetch(after: Position | None, limit: int) -> Callable[[], QueryPage]:
            reads.append(after)
            return source.fetch(after, limit)

        return fetch

    page = merge([fetch_from(source) for source in sources], _locate, ascending=False, limit=25, after=None)

    assert len(page.items) == 25
    assert reads == [None] * 8


def test_a_full_page_sends_no_further_query() -> None:
    # The page's last item is also the last item read from its partition. The next item there is unknown.
    first = [Position(n, "a") for n in [*range(17), *range(50, 99)]]
    second = [Position(n, "b") for n in [5, 10, 15, *range(50, 99)]]
    reads: list[int] = []

    def fetch_from(requested: list[Position]) -> Fetch:
        partition = Partition(requested, lambda _: True, ascending=True)

        def fetch(after: Position | None, limit: int) -> Callable[[], QueryPage]:
            reads.append(limit)
            return partition.fetch(after, limit)

        return fetch

    page = merge([fetch_from(first), fetch_from(second)], _locate, ascending=True, limit=20, after=None)

    assert reads == [17, 17]
    assert page.resume == _locate(page.items[-1]) == Position(16, "a")
