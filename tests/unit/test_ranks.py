"""Ranks: any sequence of moves keeps the order, and ranks stay short."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.relations import ranks
from shared.relations.ranks import DIGITS, LONG, LONGEST, MAX_MOVED, WIDTH, NoRoomError

MOVES = st.lists(st.tuples(st.integers(0, 200), st.booleans()), max_size=60)


def _fits(rank: str) -> bool:
    return len(rank) == WIDTH or (len(rank) > WIDTH and rank[-1] != DIGITS[0])


def _put(order: list[str], position: int, *, ascending: bool) -> int:
    """Insert a rank at a position of `order`, and return the number of neighbours that got new ranks."""
    if ascending:
        anchor, neighbours = (order[position - 1] if position else None), order[position:]
    else:
        anchor, neighbours = (order[position] if position < len(order) else None), order[:position][::-1]
    new_ranks = ranks.placed(anchor, neighbours[: MAX_MOVED + 1], ascending=ascending)
    moved = len(new_ranks) - 1
    if ascending:
        order[position : position + moved] = new_ranks
    else:
        order[position - moved : position] = new_ranks[::-1]
    return moved


@given(MOVES)
def test_entries_put_anywhere_stay_in_order(positions: list[tuple[int, bool]]) -> None:
    order: list[str] = []
    for position, ascending in positions:
        _put(order, position % (len(order) + 1), ascending=ascending)
    assert [rank.encode() for rank in order] == sorted({rank.encode() for rank in order})
    assert len(order) == len(positions)
    assert all(_fits(rank) for rank in order)


@pytest.mark.slow
@given(st.data())
def test_between_any_two_ranks_there_is_another(data: st.DataObject) -> None:
    full_width = st.text(DIGITS, min_size=WIDTH, max_size=WIDTH)
    fraction = st.text(DIGITS, max_size=8).map(lambda text: text.rstrip(DIGITS[0]))
    low, high = sorted(
        data.draw(st.lists(st.builds(str.__add__, full_width, fraction), min_size=2, max_size=2, unique=True))
    )
    middle = ranks.between(low, high)
    assert low < middle < high
    assert _fits(middle)


@given(st.integers(0, 50))
def test_ranks_are_spread_in_order_between_their_bounds(count: int) -> None:
    low = ranks.first()
    high = ranks.after(low)
    new_ranks = ranks.evenly_between(low, high, count)
    assert len(new_ranks) == count
    assert [low, *new_ranks, high] == sorted({low, *new_ranks, high})


def test_appending_and_moving_to_the_front_never_make_a_rank_longer() -> None:
    last = front = ranks.first()
    for _ in range(1000):
        last, front = ranks.after(last), ranks.before(front)
    assert len(last) == len(front) == WIDTH


def test_whole_ranks_come_before_fractions_when_there_is_room() -> None:
    low = ranks.first()
    high = ranks.after(ranks.after(low))
    assert ranks.between(low, high) == ranks.after(low)


@pytest.mark.slow
@pytest.mark.parametrize("ascending", [True, False])
def test_thousands_of_entries_fit_into_one_position(ascending: bool) -> None:
    order = [ranks.first(), ranks.after(ranks.first())]
    moved = [_put(order, 1 if ascending else len(order) - 1, ascending=ascending) for _ in range(1000)]
    assert order == sorted(set(order))
    assert len(order) == 1002
    assert any(moved)
    assert max(map(len, order)) <= LONGEST


def test_two_entries_can_alternate_in_one_position_without_limit() -> None:
    anchor = ranks.first()
    one, other, last = ranks.evenly_between(anchor, ranks.after(anchor), 3)
    for _ in range(1000):
        neighbours = [one, last]  # `other` moves to the position before `one`
        new_ranks = ranks.placed(anchor, neighbours, ascending=True)
        one, other, last = [*new_ranks, *neighbours[len(new_ranks) - 1 :]]
        assert anchor < one < other < last
        assert len(one) <= LONG


def test_position_without_free_ranks_is_an_error() -> None:
    low = ranks.first()
    high = low + DIGITS[0] * LONGEST + DIGITS[1]
    with pytest.raises(NoRoomError):
        ranks.placed(low, [high] * (MAX_MOVED + 1), ascending=True)


def test_number_of_whole_ranks_is_limited() -> None:
    with pytest.raises(NoRoomError):
        ranks.after(DIGITS[-1] * WIDTH)
    with pytest.raises(NoRoomError):
        ranks.before(DIGITS[0] * WIDTH)


def test_ranks_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ValueError, match="must be before"):
        ranks.between(ranks.after(ranks.first()), ranks.first())


def test_format_of_ranks_never_changes() -> None:
    # Stored keys contain ranks. These are the values of the first release.
    first = ranks.first()
    assert [first, ranks.after(first), ranks.before(first), ranks.between(first, ranks.after(first))] == [
        "V00000",
        "V00001",
        "Uzzzzz",
        "V00000V",
    ]
