"""Full pages from several index partitions, merged in order, within a budget of items examined.

A busy category, status or feed is spread over several partitions (schema.SHARDS). One (sort value, id)
position resumes all of them, because every partition is ordered by the same pair. A page is full despite
filters; only when the budget is spent, or the request's time, does it end short, and then it still carries a position
to go on from.
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
"""Items that one request examines at most: 80 KB of index entries of 80 bytes, 400 KB of long ones."""
LARGEST_CHUNK = 250

Fetch = Callable[[Position | None, int], Callable[[], QueryPage]]
"""Asks for one partition from a position on (exclusive), examining at most the given number of items; what it returns waits
for the page."""


@dataclass
class _Partition:
    fetch: Fetch
    locate: Callable[[Item], Position]
    frontier: Position | None
    """The last position examined."""
    chunk: int
    ahead: deque[tuple[Position, Item]] = field(default_factory=deque)
    finished: bool = False

    def ask(self, at_most: int) -> Callable[[], QueryPage]:
        """Ask for what comes next."""
        return self.fetch(self.frontier, min(self.chunk, at_most))

    def take(self, page: QueryPage) -> int:
        """Take in what was read; returns how many items were examined."""
        self.ahead.extend((self.locate(item), item) for item in page.items)
        if page.last_key is None:
            self.finished = True
        else:
            # Only keys are needed of it, and keys are strings and numbers.
            self.frontier = self.locate({name: next(iter(value.values())) for name, value in page.last_key.items()})
        # A filter that lets little through is met with larger reads.
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
    """One page of `limit` items from all partitions, which are asked side by side."""
    # Beyond the shards of one relation there are those of another, and either may have nearly all that there is.
    chunk = _first_chunk(limit + 1, min(len(fetches), SHARDS))
    partitions = [_Partition(fetch, locate, after, chunk) for fetch in fetches]
    items: list[Item] = []
    examined = 0
    while True:
        heads = [partition for partition in partitions if partition.ahead]
        # Whatever else was read shows that there is a next page; which item it begins with need not be known.
        if len(items) == limit and heads:
            return Page(items, locate(items[-1]))
        starved = [partition for partition in partitions if not partition.ahead and not partition.finished]
        if starved:
            if examined >= budget or (examined and not has_time()):
                return _cut_short(items, partitions, locate, ascending=ascending, limit=limit)
            share = max(1, (budget - examined) // len(starved))
            pages = require_all(gather(partial(partition.ask, share) for partition in starved))
            examined += sum(partition.take(page) for partition, page in zip(starved, pages, strict=True))
        elif heads:
            _take_over(heads, items, ascending=ascending, limit=limit)
        else:
            return Page(items, None)


def _first_chunk(wanted: int, partitions: int) -> int:
    """How many items to read of each partition at first: its share, and two standard deviations more."""
    if partitions == 1:
        return wanted
    share = wanted / partitions
    return math.ceil(share + 2 * math.sqrt(share))


def _take_over(heads: Sequence[_Partition], items: list[Item], *, ascending: bool, limit: int) -> None:
    """Take items in order until the page is full, or one of the partitions has to be read further, or is at its end."""
    head = heads[0]
    while head.ahead and len(items) < limit:
        if len(heads) > 1:
            head = _next_of(heads, ascending=ascending)
        items.append(head.ahead.popleft()[1])


def _next_of(heads: Sequence[_Partition], *, ascending: bool) -> _Partition:
    choose = min if ascending else max
    return choose(heads, key=lambda head: head.ahead[0][0])


def _cut_short(
    items: list[Item],
    partitions: Sequence[_Partition],
    locate: Callable[[Item], Position],
    *,
    ascending: bool,
    limit: int,
) -> Page[Item]:
    """The page when the budget is spent: everything up to the partition that got least far."""
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
