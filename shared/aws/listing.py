"""Lists over the indexes: pages of entries, and pages of what the entries lead to."""

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
"""Entries that are looked up at a time, but for those of a page of 100: what one BatchGetItem takes."""

_Shown = TypeVar("_Shown")


class Window(NamedTuple):
    """Which part of a list is asked for: sort values in [start, end); epoch seconds, where they are times."""

    start: int
    end: int
    ascending: bool = False
    limit: int = 25
    after: Position | None = None
    attributes: tuple[str, ...] = ()
    """What to read of each entry; empty: all that the index projects."""


class Lists:
    """The indexes of one table, merged over their shards."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def page(
        self,
        index: Index,
        partitions: Sequence[Mapping[str, Value]],
        window: Window,
        keep: Expression | None = None,
    ) -> Page[Item]:
        """One page of index entries in the order of the index, from all partitions; `keep` filters."""
        sort, tie = index.sort

        def fetch_from(partition: Mapping[str, Value]) -> Fetch:
            condition = Expression.of(
                f"{_equal(partition)} AND #{sort.name} BETWEEN :start AND :last",
                # BETWEEN includes both ends, and sort values are whole numbers.
                start=window.start,
                last=window.end - 1,
                **partition,
            )
            return partial(self._fetch, index=index, partition=partition, condition=condition, keep=keep, window=window)

        return merge(
            [fetch_from(partition) for partition in partitions],
            lambda item: Position(int(item[sort.name]), item[tie.name]),
            ascending=window.ascending,
            limit=window.limit,
            after=window.after,
        )

    def related(self, relations: Sequence[Mapping[str, Value]], window: Window) -> Page[Item]:
        """One page of the entries of relations, with `relId` and `relSort` alone."""
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
            # The video at this position may lie in another partition, or be gone; the keys still have their place.
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
            # A position does not have an entry's own key in the table, so the entry that it stands on may come again.
            if read.items and Position(int(read.items[0][sort.name]), read.items[0][tie.name]) == after:
                return read._replace(items=read.items[1:])
            return read

        return page


def walk(
    table: Table,
    index: str | None,
    partition: Mapping[str, Value],
    *,
    attributes: Iterable[str] = (),
    limit: int,
    consistent: bool = False,
    start: Item | None = None,
) -> Iterator[Item]:
    """All items of one partition of an index, or of the table itself, in its order; `limit` are read at a time.

    Those after the key `start`, if there is one.
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


def walk_all(
    table: Table, index: str, partitions: Sequence[Mapping[str, Value]], *, attributes: Iterable[str], limit: int
) -> Iterator[Item]:
    """All items of these partitions, one after the other; but the first page of each is read side by side."""
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
            yield from walk(table, index, partition, attributes=attributes, limit=limit, start=start)


def _equal(partition: Mapping[str, Value]) -> str:
    return " AND ".join(f"#{name} = :{name}" for name in partition)


def sharded(*relations: str) -> list[dict[str, Value]]:
    """The partitions of relations that are spread over all shards."""
    return [{"rel": relation, "relShard": shard} for relation in relations for shard in range(SHARDS)]


def unsharded(relation: str) -> list[dict[str, Value]]:
    """The one partition of a relation that is not spread."""
    return [{"rel": relation, "relShard": 0}]


def located(entry: Item) -> Position:
    """Where an entry of RelationIndex stands."""
    return Position(int(entry["relSort"]), entry["relId"])


def hydrated(
    read: Callable[[Position | None, int], Page[Item]],
    look_up: Callable[[Sequence[Item]], Sequence[_Shown | None]],
    *,
    limit: int,
    after: Position | None,
    locate: Callable[[Item], Position] = located,
    budget: int = EXAMINED_BUDGET,
) -> Page[_Shown]:
    """A full page of what entries lead to, though some lead to nothing that the caller may see.

    `read(position, count)` returns at most `count` entries after a position. `look_up` returns for each of them what it
    stands for, or None. `locate` returns the position from which the list goes on after an entry. When the budget of
    entries is spent, or the request's time, the page is short, and still says where to go on.
    """
    kept: list[tuple[_Shown, Position]] = []
    examined = 0
    size, more = limit + 1, 5  # one more than is wanted shows whether there is a next page
    while True:
        page = read(after, size)
        for entry, shown in zip(page.items, look_up(page.items), strict=True):
            after = locate(entry)
            if shown is not None:
                kept.append((shown, after))
        examined += len(page.items)
        if len(kept) > limit:
            return Page([shown for shown, _ in kept[:limit]], kept[limit - 1][1])
        if page.resume is None:
            return Page([shown for shown, _ in kept], None)
        if not page.items:
            after = page.resume
        if examined >= budget or not page.items or not has_time():
            return Page([shown for shown, _ in kept], after)
        size, more = min(max(limit + 1 - len(kept), more), LARGEST_READ), 2 * more
