"""Ordered merge of several index partitions into full pages, with a limit on the items examined per page.

The entries of a busy category, status or feed are spread over several partitions (schema.SHARDS). All partitions are ordered by
sort value and id. Therefore a page can resume in all partitions from one position.

Pages are full even if a filter drops items. A page has fewer items only at the end of the list, or if its budget or the
time of the request is exhausted. If the budget or the time is exhausted, the page has a position from which the next
request resumes.
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
"""Maximum number of items examined for a page. For example, 1,000 index entries of 400 bytes are 400 KB."""
LARGEST_CHUNK = 250
"""Maximum number of items that one Query examines."""

Fetch = Callable[[Position | None, int], Callable[[], QueryPage]]
"""Function that sends a Query to one partition, and returns a function that waits for the page.

Its parameters are the position to start after, and the maximum number of items to examine."""


@dataclass
class _PartitionReader:
    """Reader of one partition. `ahead` has the items that were read but are not in a page yet, with their positions."""

    fetch: Fetch
    locate: Callable[[Item], Position]
    frontier: Position | None
    """Position of the last item examined."""
    chunk: int
    """Number of items that the next Query examines."""
    ahead: deque[tuple[Position, Item]] = field(default_factory=deque)
    finished: bool = False

    def request(self, at_most: int) -> Callable[[], QueryPage]:
        """Send a Query for the next chunk of at most `at_most` items."""
        return self.fetch(self.frontier, min(self.chunk, at_most))

    def add(self, page: QueryPage) -> int:
        """Append a page's items to `ahead`, and return the number of items that the page's Query examined."""
        self.ahead.extend((self.locate(item), item) for item in page.items)
        if page.last_key is None:
            self.finished = True
        else:
            # `locate` reads only key attributes, which are strings and numbers.
            self.frontier = self.locate({name: next(iter(value.values())) for name, value in page.last_key.items()})
        # Chunks grow, because a filter that drops most items would otherwise need many requests.
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
    """Return one page of at most `limit` items from all partitions. The partitions are queried concurrently.

    The page begins after the position `after`. `locate` returns the position of an item. `budget` is the maximum number of items
    examined for the page.
    """
    # More partitions than shards mean that the list has several relations. One of them may have almost all items.
    chunk = _first_chunk(limit + 1, min(len(fetches), SHARDS))
    partitions = [_PartitionReader(fetch, locate, after, chunk) for fetch in fetches]
    items: list[Item] = []
    examined = 0
    while True:
        heads = [partition for partition in partitions if partition.ahead]
        # The remaining item proves that there is a next page. The first item of the next page may be another item, from
        # a partition that must be read first.
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
    """Return the number of items that the first Query of each partition examines.

    `count` is the number of items that the page needs from all partitions together. The result is the expected number
    of these items in one partition, plus two standard deviations, so a second Query is rarely needed.
    """
    if partitions == 1:
        return count
    expected = count / partitions
    return math.ceil(expected + 2 * math.sqrt(expected))


def _move_heads(heads: Sequence[_PartitionReader], items: list[Item], *, ascending: bool, limit: int) -> None:
    """Append the next items of the partitions `heads` to `items`, in order. These items were already read.

    Stops when the page is full, or when a partition must read its next chunk.
    """
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
    """Return an incomplete page, because the budget or the time is exhausted.

    The page ends at the position up to which all partitions were examined. After this position, items could be missing.
    """
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
