"""Ranks: strings that keep a list in order, and between any two of which there is room for another.

A rank is a number in base 62: a whole part of fixed width, and a fraction that never ends in the lowest digit. So ranks
compare as their bytes do, which is how DynamoDB orders sort keys, and an entry moves by getting another rank, however
long the list is. Pure functions, which take only ranks that they have made.
"""

from collections.abc import Sequence

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""In the order of their bytes. Frozen, as the width is: they are part of the stored keys."""
_VALUES = {digit: value for value, digit in enumerate(DIGITS)}
WIDTH = 6
"""Digits of the whole part: room for 28 billion appends, and as many moves to the front."""

LONG = 100
"""Characters from which on neighbours are spread anew to make room."""
LONGEST = 400
"""Characters that a rank may have: a cursor holds one, and so does a sort key."""
MOST_SPREAD = 20
"""Neighbours that are spread anew at most: each of them takes three writes of a transaction."""


class NoRoomError(Exception):
    """So many entries were put into one place that ranks between its neighbours are too long."""


def first() -> str:
    """The rank of the first entry of all."""
    return _text(len(DIGITS) ** WIDTH // 2, WIDTH)


def after(rank: str) -> str:
    """The next whole rank; raises NoRoomError after the last one."""
    return _whole(_number(rank[:WIDTH]) + 1)


def before(rank: str) -> str:
    """The whole rank before; raises NoRoomError before the first one."""
    return _whole(_number(rank[:WIDTH]) - 1)


def between(low: str | None, high: str | None) -> str:
    """The middle one of the shortest ranks between two others; None: the end of the list. Raises NoRoomError."""
    if low is None:
        return first() if high is None else before(high)
    if high is None:
        return after(low)
    if low >= high:
        raise ValueError(f"{low} does not come before {high}")
    length = max(WIDTH, _shared(low, high))
    while True:
        smallest = _number(_cut(low, length)) + 1
        largest = _number(_cut(high, length)) - (len(high) <= length)
        if smallest <= largest:
            return _text((smallest + largest) // 2, length)
        length += 1


def spread(low: str | None, high: str | None, count: int) -> list[str]:
    """`count` ranks between two others, in order and about equally far from each other. Raises NoRoomError."""
    if count == 0:
        return []
    middle, half = between(low, high), count // 2
    return [*spread(low, middle, half), middle, *spread(middle, high, count - 1 - half)]


def placed(anchor: str | None, neighbours: Sequence[str], *, ascending: bool) -> list[str]:
    """The rank of an entry that is put next to `anchor`, and then new ranks for as many neighbours as must make room.

    `neighbours` are the ranks that follow the anchor, the nearest first; with `ascending` false, those that precede it.
    An anchor of None is the end of the list that the neighbours begin at. Raises NoRoomError.
    """
    for most, longest in ((0, LONG), (MOST_SPREAD, LONGEST)):
        bound = neighbours[most] if len(neighbours) > most else None
        low, high = (anchor, bound) if ascending else (bound, anchor)
        ranks = spread(low, high, min(len(neighbours), most) + 1)
        if max(map(len, ranks)) <= longest:
            return ranks if ascending else ranks[::-1]
    raise NoRoomError


def _whole(number: int) -> str:
    if not 0 <= number < len(DIGITS) ** WIDTH:
        raise NoRoomError
    return _text(number, WIDTH)


def _shared(one: str, other: str) -> int:
    """How many digits two ranks begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((position for position, (mine, yours) in pairs if mine != yours), min(len(one), len(other)))


def _cut(rank: str, length: int) -> str:
    """The first digits of a rank, with zeros where it has no more."""
    return rank[:length].ljust(length, DIGITS[0])


def _number(digits: str) -> int:
    number = 0
    for digit in digits:
        number = number * len(DIGITS) + _VALUES[digit]
    return number


def _text(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(DIGITS))
        digits.append(DIGITS[digit])
    return "".join(reversed(digits))
