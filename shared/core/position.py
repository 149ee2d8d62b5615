"""Pages of lists, and positions from which lists resume."""

from typing import Generic, NamedTuple, TypeVar

_Entry = TypeVar("_Entry")


class Position(NamedTuple):
    """Position in an index: the sort value (epoch seconds in most lists), and the id, which breaks ties."""

    at: int | str
    id: str


class Page(NamedTuple, Generic[_Entry]):
    """Page of a list: entries in order, and the position after which the next page begins (`None` on the last page)."""

    items: list[_Entry]
    resume: Position | None
