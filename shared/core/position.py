"""Where a list goes on."""

from typing import NamedTuple


class Position(NamedTuple):
    """A place in an index: the sort value (epoch seconds) and the id that orders ties."""

    at: int
    id: str
