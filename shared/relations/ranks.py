"""Ranks: strings that order a list, with room for another rank between any two.

A rank is a base-62 number. It has an integer part of fixed width, and a fraction that never ends in the lowest digit.
Ranks compare bytewise, which is how DynamoDB orders sort keys. Moving an entry normally changes only the entry's own
rank, regardless of the length of the list.

All functions are pure. They accept only ranks that these functions returned.
"""

from collections.abc import Sequence

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""Digits in byte order. DIGITS and WIDTH must not change, because stored keys contain ranks."""
_VALUES = {digit: value for value, digit in enumerate(DIGITS)}
WIDTH = 6
"""Number of digits of the integer part. Six digits allow 28 billion appends, and as many moves to the front."""

LONG = 100
"""Length of a rank, in characters, above which `placed` assigns new ranks to neighbouring entries to make room."""
LONGEST = 400
"""Maximum length of a rank, in characters. The length is limited because cursors and sort keys contain ranks."""
MAX_MOVED = 20
"""Maximum number of neighbouring entries that get new ranks. Each entry needs three writes of the transaction."""


class NoRoomError(Exception):
    """Error: no rank is left for a position, because too many entries were moved to it.

    The rank would be longer than LONGEST, or its integer part would be outside of the range of WIDTH digits.
    """


def first() -> str:
    """Return the rank for the first entry that is added to an empty list."""
    return _text(len(DIGITS) ** WIDTH // 2, WIDTH)


def after(rank: str) -> str:
    """Return the smallest rank that has no fraction and is greater than `rank`. Raises NoRoomError if there is none."""
    return _whole(_number(rank[:WIDTH]) + 1)


def before(rank: str) -> str:
    """Return the greatest rank that has no fraction and is below the integer part of `rank`. Raises NoRoomError if
    there is none."""
    return _whole(_number(rank[:WIDTH]) - 1)


def between(low: str | None, high: str | None) -> str:
    """Return a rank between the ranks `low` and `high`. Of the shortest possible ranks, it is the middle one.

    At the beginning of the list, `low` is `None`, and the result is `before(high)`. At the end, `high` is `None`, and
    the result is `after(low)`. In an empty list, both are `None`, and the result is `first()`. Raises NoRoomError.
    """
    if low is None:
        return first() if high is None else before(high)
    if high is None:
        return after(low)
    if low >= high:
        raise ValueError(f"{low} must be before {high}")
    shared = _shared(low, high)
    length = max(WIDTH, shared)
    while True:
        smallest = _number(_cut(low, length)[shared:]) + 1
        largest = _number(_cut(high, length)[shared:]) - (len(high) <= length)
        if smallest <= largest:
            return low[:shared] + _text((smallest + largest) // 2, length - shared)
        length += 1


def evenly_between(low: str | None, high: str | None, count: int) -> list[str]:
    """Return `count` ranks between the ranks `low` and `high`, in order and about equally spaced. Raises NoRoomError."""
    if count == 0:
        return []
    middle, half = between(low, high), count // 2
    return [*evenly_between(low, middle, half), middle, *evenly_between(middle, high, count - 1 - half)]


def placed(anchor: str | None, neighbours: Sequence[str], *, ascending: bool) -> list[str]:
    """Return the rank for an entry that is placed next to `anchor`, followed by new ranks of the neighbours that must
    make room.

    `neighbours` are the ranks after the anchor, nearest first. If `ascending` is false, they are the ranks before the
    anchor. If `anchor` is `None`, the entry is placed at the beginning of the list or, if `ascending` is false, at the
    end. Raises NoRoomError.
    """
    for most, longest in ((0, LONG), (MAX_MOVED, LONGEST)):
        bound = neighbours[most] if len(neighbours) > most else None
        low, high = (anchor, bound) if ascending else (bound, anchor)
        ranks = evenly_between(low, high, min(len(neighbours), most) + 1)
        if max(map(len, ranks)) <= longest:
            return ranks if ascending else ranks[::-1]
    raise NoRoomError


def _whole(number: int) -> str:
    if not 0 <= number < len(DIGITS) ** WIDTH:
        raise NoRoomError
    return _text(number, WIDTH)


def _shared(one: str, other: str) -> int:
    """Return the length of the common prefix of two ranks."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((position for position, (mine, yours) in pairs if mine != yours), min(len(one), len(other)))


def _cut(rank: str, length: int) -> str:
    """Return the first `length` digits of a rank. Pads shorter ranks with zeros."""
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
