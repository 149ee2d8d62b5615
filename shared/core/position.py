"""Pages of lists, and positions from which lists resume."""

from typing import Generic, NamedTuple, TypeVar

_Entry = TypeVar("_Entry")


class Position(NamedTuple):
    """Position in an index: the sort value, in most lists epoch seconds, and the id that orders ties."""

    at: int
    id: str


class Page(NamedTuple, Generic[_Entry]):
    """Page of a list: entries in order, and the position after which the list resumes; `None` on the last page."""

    items: list[_Entry]
    resume: Position | None
