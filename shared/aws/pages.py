"""Ordered merge of several index partitions into full pages, within a budget of items examined.

A busy category, status or feed is spread over several partitions (schema.SHARDS). All partitions are ordered by sort value and id,
so one position resumes all of them. Pages are full even if a filter drops items. A page is short only if the budget or the
deadline of the request is exhausted; then it also has a position to resume from.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from shared.aws.dynamodb import QueryPage, gather, require_all
from shared.core.attributes import Item
from shared.core.deadline import has_time
from shared.core.position import Page, Position
from shared.schema import SHARDS

EXAMINED_BUDGET = 1000
"""Maximum items examined for a page: 80 KB of index entries of 80 bytes, or 400 KB of long ones."""
LARGEST_CHUNK = 250

Fetch = Callable[[Position | None, int], Callable[[], QueryPage]]
"""Function that sends a Query to one partition: entries after a position, and at most this number of items examined. The
returned function waits for the page."""


@dataclass
class _PartitionReader:
    fetch: Fetch
    locate: Callable[[Item], Position]
    frontier: Position | None
    """Position of the last item examined."""
    chunk: int
    ahead: deque[tuple[Position, Item]] = field(default_factory=deque)
    finished: bool = False

    def request(self, at_most: int) -> Callable[[], QueryPage]:
        """Send a Query for the next chunk."""
        return self.fetch(self.frontier, min(self.chunk, at_most))

    def add(self, page: QueryPage) -> int:
        """Add a page to the items ahead; return the number of items examined."""
        self.ahead.extend((self.locate(item), item) for item in page.items)
        if page.last_key is None:
            self.finished = True
        else:
            # `locate` reads only key attributes, which are strings and numbers.
            self.frontier = self.locate({name: next(iter(value.values())) for name, value in page.last_key.items()})
        # Chunks grow, so that a selective filter needs fewer requests.
        self.chunk = min(2 * self.chunk, LARGEST_CHUNK)
        return page.examined


def merge(
    fetches: Sequence[Fetch],
    locate: Callable[[Item], Position],
    *,
    ascending: bool,
    limit: int,
    after: Position | None,
    budget: int = EXAMINED_BUDGET,
) -> Page[Item]:
    """Return one page of `limit` items from all partitions, which are queried concurrently.

    `locate` returns the position of an item. `budget` is the maximum number of items examined.
    """
    # More partitions than shards belong to several relations, and one relation may have almost all items.
    chunk = _first_chunk(limit + 1, min(len(fetches), SHARDS))
    partitions = [_PartitionReader(fetch, locate, after, chunk) for fetch in fetches]
    items: list[Item] = []
    examined = 0
    while True:
        heads = [partition for partition in partitions if partition.ahead]
        # Any further item shows that there is a next page. The first item of that page need not be known.
        if len(items) == limit and heads:
            return Page(items, locate(items[-1]))
        starved = [partition for partition in partitions if not partition.ahead and not partition.finished]
        if starved:
            if examined >= budget or (examined and not has_time()):
                return _cut_short(items, partitions, locate, ascending=ascending, limit=limit)
            page_size = max(1, (budget - examined) // len(starved))
            pages = require_all(gather(partial(partition.request, page_size) for partition in starved))
            examined += sum(partition.add(page) for partition, page in zip(starved, pages, strict=True))
        elif heads:
            _move_heads(heads, items, ascending=ascending, limit=limit)
        else:
            return Page(items, None)


def _first_chunk(count: int, partitions: int) -> int:
    """Return the number of items to read of each partition at first: its expected share plus two standard deviations."""
    if partitions == 1:
        return count
    expected = count / partitions
    return math.ceil(expected + 2 * math.sqrt(expected))


def _move_heads(heads: Sequence[_PartitionReader], items: list[Item], *, ascending: bool, limit: int) -> None:
    """Move items to the page in order, until the page is full or a partition has no items ahead."""
    head = heads[0]
    while head.ahead and len(items) < limit:
        if len(heads) > 1:
            head = _next_of(heads, ascending=ascending)
        items.append(head.ahead.popleft()[1])


def _next_of(heads: Sequence[_PartitionReader], *, ascending: bool) -> _PartitionReader:
    choose = min if ascending else max
    return choose(heads, key=lambda head: head.ahead[0][0])


def _cut_short(
    items: list[Item],
    partitions: Sequence[_PartitionReader],
    locate: Callable[[Item], Position],
    *,
    ascending: bool,
    limit: int,
) -> Page[Item]:
    """Return the page if the budget is exhausted: all items up to the frontier of the least advanced partition."""
    first = min if ascending else max
    watermark = first(partition.frontier for partition in partitions if partition.frontier and not partition.finished)
    while heads := [partition for partition in partitions if partition.ahead]:
        head = _next_of(heads, ascending=ascending)
        position, item = head.ahead[0]
        if (position > watermark) if ascending else (position < watermark):
            break
        if len(items) == limit:
            return Page(items, locate(items[-1]))
        items.append(item)
        head.ahead.popleft()
    return Page(items, watermark)
