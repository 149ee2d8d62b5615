"""Pages of lists, and where a list goes on."""

from typing import Generic, NamedTuple, TypeVar

_Entry = TypeVar("_Entry")


class Position(NamedTuple):
    """A place in an index: the sort value (epoch seconds) and the id that orders ties."""

    at: int
    id: str


class Page(NamedTuple, Generic[_Entry]):
    """Entries of a list in order, and the position from which it goes on (exclusive); None: there is nothing more."""

    items: list[_Entry]
    resume: Position | None
