"""Paginated lists: pages of index entries, and pages of the items to which the entries refer."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from shared.aws.dynamodb import QueryPage, Table, gather, require_all
from shared.aws.expressions import Expression
from shared.aws.pages import EXAMINED_BUDGET, Fetch, merge
from shared.core.attributes import Item, Value, decode_item
from shared.core.deadline import has_time
from shared.core.position import Page, Position
from shared.schema import RELATION_INDEX, SHARDS, VIDEO, Index

LARGEST_READ = 100
"""Maximum number of entries in each lookup of `hydrate_page` after the first: BatchGetItem's limit. The first lookup has
one entry more than the page, which shows whether there is a next page."""

_Entry = TypeVar("_Entry", bound=Mapping[str, Value])
_Shown = TypeVar("_Shown")


class Window(NamedTuple):
    """Range of sort values that a request reads from a list, from `start` (included) to `end` (excluded). Lists that
    are sorted by text ignore the range.

    The sort values are often epoch seconds. `limit` is the maximum number of items. `after` is the position of the last
    item of the previous page; `None` for the first page.
    """

    start: int
    end: int
    ascending: bool = False
    limit: int = 25
    after: Position | None = None
    attributes: tuple[str, ...] = ()
    """Names of the attributes to read of each entry; all projected attributes if empty."""
    prefix: str | None = None
    """Prefix of the ids of the entries; `None` for all entries in the range. With a prefix, the list contains only
    entries with the sort value `start`, because DynamoDB compares ids only among entries with the same sort value."""


class Lists:
    """Reader of lists in a table's indexes. If a list has several partitions (shards), each page merges all of them."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def page(
        self,
        index: Index,
        partitions: Sequence[Mapping[str, Value]],
        window: Window,
        keep: Expression | None = None,
    ) -> Page[Item]:
        """Return one page of index entries from all partitions, in the order of the index.

        `partitions` are partition keys of the index. `keep` is a filter expression; entries that do not match it are
        omitted.
        """
        sort, tie = index.sort
        # BETWEEN includes both bounds, and sort values are integers.
        selected, bounds = f"#{sort.name} BETWEEN :start AND :last", dict[str, Value](last=window.end - 1)
        if window.prefix is not None:
            selected, bounds = f"#{sort.name} = :start AND begins_with(#{tie.name}, :prefix)", {"prefix": window.prefix}

        def fetch_from(partition: Mapping[str, Value]) -> Fetch:
            text, values = _equal(partition), dict(partition)
            if sort.type == "N":
                text, values = f"{text} AND {selected}", {"start": window.start, **bounds, **partition}
            condition = Expression.of(text, **values)
            return partial(self._fetch, index=index, partition=partition, condition=condition, keep=keep, window=window)

        return merge(
            [fetch_from(partition) for partition in partitions],
            position_in(index),
            ascending=window.ascending,
            limit=window.limit,
            after=window.after,
        )

    def related(self, relations: Sequence[Mapping[str, Value]], window: Window) -> Page[Item]:
        """Return one page of RelationIndex entries from these partitions, in the order of the index."""
        return self.page(RELATION_INDEX, relations, window)

    def _fetch(
        self,
        after: Position | None,
        limit: int,
        *,
        index: Index,
        partition: Mapping[str, Value],
        condition: Expression,
        keep: Expression | None,
        window: Window,
    ) -> Callable[[], QueryPage]:
        sort, tie = index.sort
        start = None
        if after:
            # DynamoDB accepts this start key even if the video was deleted or is in another partition.
            start = {**VIDEO.key(videoId=after.id), **partition, sort.name: after.at, tie.name: after.id}
        attributes = dict.fromkeys([*window.attributes, sort.name, tie.name]) if window.attributes else ()
        finish = self.table.begin_query(
            index=index.name,
            condition=condition,
            keep=keep,
            attributes=attributes,
            ascending=window.ascending,
            limit=limit,
            start=start,
        )

        def page() -> QueryPage:
            read = finish()
            # `start` may have another table key than the last entry of the previous page. The Query then returns this
            # entry again.
            if read.items and position_in(index)(read.items[0]) == after:
                return read._replace(items=read.items[1:])
            return read

        return page


def iterate_entries(
    table: Table,
    index: str | None,
    partition: Mapping[str, Value],
    *,
    attributes: Iterable[str] = (),
    limit: int,
    consistent: bool = False,
    start: Item | None = None,
) -> Iterator[Item]:
    """Yield all items of one partition, in sort order. `index` is the name of an index, or `None` for the table.

    `start` is the key of an item; only the items after it are yielded. Each Query reads `limit` items.
    """
    condition = Expression.of(_equal(partition), **partition)
    while True:
        page = table.query(
            index=index,
            condition=condition,
            attributes=attributes,
            limit=limit,
            start=start,
            consistent=consistent,
        )
        yield from page.items
        if page.last_key is None:
            return
        start = decode_item(page.last_key)


def iterate_all_entries(
    table: Table, index: str, partitions: Sequence[Mapping[str, Value]], *, attributes: Iterable[str], limit: int
) -> Iterator[Item]:
    """Yield all items of several partitions of an index, one partition after the other.

    Reads the first pages of all partitions concurrently. Reads the later pages one at a time.
    """
    begins = [
        partial(
            table.begin_query,
            index=index,
            condition=Expression.of(_equal(partition), **partition),
            attributes=attributes,
            limit=limit,
        )
        for partition in partitions
    ]
    for partition, page in zip(partitions, require_all(gather(begins)), strict=True):
        yield from page.items
        if page.last_key is not None:
            start = decode_item(page.last_key)
            yield from iterate_entries(table, index, partition, attributes=attributes, limit=limit, start=start)


def position_in(index: Index) -> Callable[[Mapping[str, Value]], Position]:
    """Return a function that returns the position of an entry in the index: its sort value and its id."""
    (sort, sort_type), (tie, _) = index.sort  # names and types
    if sort_type == "N":
        return lambda entry: Position(int(entry[sort]), entry[tie])
    return lambda entry: Position(entry[sort], entry[tie])


entry_position = position_in(RELATION_INDEX)
"""Function that returns the position of an entry in RelationIndex: its sort value and its id."""


def _equal(partition: Mapping[str, Value]) -> str:
    return " AND ".join(f"#{name} = :{name}" for name in partition)


def sharded_partitions(*relations: str) -> list[dict[str, Value]]:
    """Return the partition keys of all shards of these relations in RelationIndex."""
    return [{"rel": relation, "relShard": shard} for relation in relations for shard in range(SHARDS)]


def single_partition(relation: str) -> list[dict[str, Value]]:
    """Return the partition key of a relation that is not sharded, in a list with one element."""
    return [{"rel": relation, "relShard": 0}]


def hydrate_page(
    read: Callable[[Position | None, int], Page[_Entry]],
    look_up: Callable[[Sequence[_Entry]], Sequence[_Shown | None]],
    *,
    limit: int,
    after: Position | None,
    locate: Callable[[_Entry], Position] = entry_position,
    budget: int = EXAMINED_BUDGET,
) -> Page[_Shown]:
    """Return a page of the items to which index entries refer. If items are hidden from the caller, reads further
    entries to fill the page.

    `read(position, count)` returns at most `count` entries after a position. `look_up` returns the item of each entry,
    in order, and `None` for a hidden item. `locate` returns the position of an entry.

    Stops after `budget` entries, or when the time of the request is exhausted. The page then has fewer items, and a
    position from which the next request resumes.
    """
    visible: list[tuple[_Shown, Position]] = []
    examined = 0
    size, more = limit + 1, 5  # an additional entry shows whether there is a next page
    while True:
        page = read(after, size)
        for entry, shown in zip(page.items, look_up(page.items), strict=True):
            after = locate(entry)
            if shown is not None:
                visible.append((shown, after))
        examined += len(page.items)
        if len(visible) > limit:
            return Page([shown for shown, _ in visible[:limit]], visible[limit - 1][1])
        if page.resume is None:
            return Page([shown for shown, _ in visible], None)
        if not page.items:
            after = page.resume
        if examined >= budget or not page.items or not has_time():
            return Page([shown for shown, _ in visible], after)
        size, more = min(max(limit + 1 - len(visible), more), LARGEST_READ), 2 * more
