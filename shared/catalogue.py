"""The catalogue's store: every access pattern on videos is one method here, and one or two DynamoDB requests."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from shared.attributes import Item, Value
from shared.caller import Caller
from shared.cursors import Position
from shared.dynamodb import (
    ConditionFailed,
    Expression,
    QueryPage,
    Table,
    TransactionConflict,
    absent_or_purged,
    change_between,
)
from shared.errors import AlreadyExists, VersionMismatch, WriteContention
from shared.idempotency import Once, in_flight
from shared.pages import Fetch, Page, merge
from shared.schema import (
    CATEGORY_INDEX,
    FEED,
    PARTITION_KEY,
    RELATION_INDEX,
    SHARDS,
    TTL_ATTRIBUTE,
    USER_INDEX,
    VIDEO,
    VIEW_COUNTER,
    Index,
    status_relation,
)
from shared.video import OWNER_FIELDS, VISIBILITY_ATTRIBUTES, document, owned_by, seen_by, stamp
from shared.views import view_count

CHANGE_ATTEMPTS = 5
"""How often a change without If-Match is tried again when others change the video meanwhile."""


@dataclass(frozen=True)
class Window:
    """Which part of a list is asked for: createdAt in [start, end), in epoch seconds."""

    start: int
    end: int
    ascending: bool = False
    limit: int = 25
    after: Position | None = None
    attributes: tuple[str, ...] = ()
    """What to read of each video; empty: all that the index projects."""


@dataclass(frozen=True)
class Filters:
    """What to keep of a list besides its key; None: no matter."""

    status: str | None = None
    category: str | None = None
    format: str | None = None
    min_duration: int | None = None
    max_duration: int | None = None


class VideoStore:
    """Videos in the table. Methods raise the errors of shared.errors."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def create(self, item: Item, caller: Caller, now: int, once: Once | None = None) -> dict[str, Any]:
        """Create a video and return its document; with `once`, the answer of the first time."""
        new = stamp(item, caller=caller, now=now, version=1)
        answer = document(new, view_count=0)
        write = self.table.put(new, condition=absent_or_purged(now))
        try:
            if once is None:
                self.table.write(write)
            else:
                self.table.transact([once.record(self.table, answer), write])
        except ConditionFailed as failure:
            if once and failure.position == 0:
                return once.replayed(failure.item)
            if _is_ours(failure, new):
                return answer
            raise AlreadyExists("There is a video with this videoId already.") from failure
        except TransactionConflict as conflict:
            raise in_flight("A request with this Idempotency-Key is being carried out.") from conflict
        return answer

    def read(self, video_id: str, caller: Caller, now: int, fields: Sequence[str] = ()) -> tuple[dict[str, Any], int]:
        """The document and its version, if the caller may see it; only some fields, if any are named.

        One BatchGetItem for video and counter; one GetItem when `fields` leaves the counter out.
        """
        key = VIDEO.key(videoId=video_id)
        if fields and "viewCount" not in fields:
            found = self.table.get(key, attributes=_needed(fields))
            counter = None
        else:
            counter_key = VIEW_COUNTER.key(videoId=video_id, shard=0)
            items = self.table.batch_get([key, counter_key], attributes=_needed(fields) if fields else ())
            by_partition = {item[PARTITION_KEY]: item for item in items}
            found, counter = by_partition.get(key[PARTITION_KEY]), by_partition.get(counter_key[PARTITION_KEY])
        item = seen_by(found, caller, now)
        whole = document(item, view_count(counter))
        if not caller.owns(item["userId"]):
            # Strangers see no dates of what they could not see then, and nothing of how it was made.
            for name in OWNER_FIELDS:
                whole.pop(name, None)
        return {name: whole[name] for name in fields or whole if name in whole}, item["version"]

    def change(
        self,
        video_id: str,
        caller: Caller,
        now: int,
        edit: Callable[[Item], Item],
        *,
        matches: Callable[[int], bool] = lambda version: True,
        once: Once | None = None,
    ) -> dict[str, Any]:
        """Apply `edit` to a video of the caller's and return its document.

        The write carries the version that was read as its condition. `matches` is the caller's own
        condition on the version (If-Match): raises VersionMismatch; without one, a lost race is run again.
        """
        key = VIDEO.key(videoId=video_id)
        found = self.table.get(key, consistent=True)
        # After the video: were it read before, the same request could be carried out in between, and this one
        # would then find its own work done and call it a mistake.
        if once and (answer := once.recorded(self.table.get(once.item_key, consistent=True))):
            return answer
        for _ in range(CHANGE_ATTEMPTS):
            item = owned_by(found, caller, now)
            if not matches(item["version"]):
                raise VersionMismatch(
                    f'The video is at version {item["version"]}; If-Match takes its ETag, or "{item["version"]}".'
                )
            edited = edit(item)
            if not change_between(item, edited).text:
                return document(item)
            new = stamp(edited, caller=caller, now=now, version=item["version"] + 1)
            write = self.table.update(
                key,
                change_between(item, new),
                condition=Expression("#version = :expected", {"#version": "version"}, {":expected": item["version"]}),
            )
            try:
                if once is None:
                    self.table.write(write)
                else:
                    self.table.transact([once.record(self.table, document(new)), write])
            except ConditionFailed as failure:
                if once and failure.position == 0:
                    return once.replayed(failure.item)
                if _is_ours(failure, new):
                    return document(new)
                found = failure.item
            except TransactionConflict as conflict:
                raise (in_flight("The video is being changed.") if once else contended()) from conflict
            else:
                return document(new)
        raise contended()

    def of_owner(self, owner: str, caller: Caller, now: int, filters: Filters, window: Window) -> Page:
        """One owner's videos by time: all but deleted ones for itself and admins, published ones for others."""
        keep = _Conditions(now)
        if not caller.owns(owner):
            if filters.status not in (None, "ready"):
                return Page([], None)
            keep.equal("status", "ready")
            keep.equal("visibility", "public")
            keep.in_time()
        elif filters.status is None:
            keep.unequal("status", "deleted")
        keep.filters(filters)
        return self._page(USER_INDEX, [{"userId": owner}], keep, window)

    def in_category(self, category: str, now: int, filters: Filters, window: Window) -> Page:
        """One category's published videos by time."""
        keep = _Conditions(now)
        keep.in_time()
        keep.filters(filters)
        partitions = [{"category": category, "categoryShard": shard} for shard in range(SHARDS)]
        return self._page(CATEGORY_INDEX, partitions, keep, window)

    def feed(self, now: int, filters: Filters, window: Window) -> Page:
        """All published videos by time."""
        keep = _Conditions(now)
        keep.in_time()
        keep.filters(filters)
        return self._page(RELATION_INDEX, _relation_partitions(FEED), keep, window)

    def in_status(self, status: str, now: int, filters: Filters, window: Window) -> Page:
        """All videos in one status by time, listed or not."""
        relations = [status_relation(status)] + ([FEED] if status == "ready" else [])
        keep = _Conditions(now)
        keep.filters(filters)
        return self._page(RELATION_INDEX, _relation_partitions(*relations), keep, window)

    def _page(
        self, index: Index, partitions: Sequence[Mapping[str, Value]], keep: "_Conditions", window: Window
    ) -> Page:
        sort, tie = index.sort
        condition = Expression(
            " AND ".join([*(f"#k{n} = :k{n}" for n in range(len(index.partition))), "#sort BETWEEN :start AND :last"]),
            {"#sort": sort.name, **{f"#k{n}": attribute.name for n, attribute in enumerate(index.partition)}},
            # BETWEEN includes both ends, and times are whole seconds.
            {":start": window.start, ":last": window.end - 1},
        )

        def fetch_from(partition: Mapping[str, Value]) -> Fetch:
            values = {f":k{n}": partition[attribute.name] for n, attribute in enumerate(index.partition)}
            return partial(
                self._fetch,
                index=index,
                partition=partition,
                condition=Expression(condition.text, condition.names, condition.values | values),
                keep=keep.expression(),
                window=window,
            )

        return merge(
            [fetch_from(partition) for partition in partitions],
            lambda item: Position(int(item[sort.name]), item[tie.name]),
            ascending=window.ascending,
            limit=window.limit,
            after=window.after,
            executor=self._executor,
        )

    def _fetch(
        self,
        after: Position | None,
        limit: int,
        *,
        index: Index,
        partition: Mapping[str, Value],
        condition: Expression,
        keep: Expression,
        window: Window,
    ) -> QueryPage:
        sort, tie = index.sort
        start = None
        if after:
            # The video at this position may lie in another partition, or be gone; the keys still have their place.
            start = {**VIDEO.key(videoId=after.id), **partition, sort.name: after.at, tie.name: after.id}
        attributes = dict.fromkeys([*window.attributes, sort.name, tie.name]) if window.attributes else ()
        return self.table.query(
            index=index.name,
            condition=condition,
            keep=keep,
            attributes=attributes,
            ascending=window.ascending,
            limit=limit,
            start=start,
        )

    @cached_property
    def _executor(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(max_workers=2 * SHARDS, thread_name_prefix="query")


class _Conditions:
    """Builds the filter of a list: what the index holds but this caller does not see or want."""

    def __init__(self, now: int) -> None:
        self._now = now
        self._terms: list[str] = []
        self._names: dict[str, str] = {}
        self._values: dict[str, Value] = {}
        # DynamoDB removes items hours or days after their time.
        self._absent_or(TTL_ATTRIBUTE, ">", now)

    def in_time(self) -> None:
        """Published already, and not expired."""
        self._absent_or("publishAt", "<=", self._now)
        self._absent_or("expiresAt", ">", self._now)

    def equal(self, name: str, value: Value) -> None:
        """Keep items whose attribute is this value."""
        self._compare(name, "=", value)

    def unequal(self, name: str, value: Value) -> None:
        """Keep items whose attribute is another value."""
        self._compare(name, "<>", value)

    def filters(self, filters: Filters) -> None:
        """Keep what the client asked for."""
        for name, operator, value in (
            ("status", "=", filters.status),
            ("category", "=", filters.category),
            ("format", "=", filters.format),
            ("duration", ">=", filters.min_duration),
            ("duration", "<=", filters.max_duration),
        ):
            if value is not None:
                self._compare(name, operator, value)

    def expression(self) -> Expression:
        """All conditions, joined by AND."""
        return Expression(" AND ".join(self._terms), self._names, self._values)

    def _compare(self, name: str, operator: str, value: Value) -> None:
        self._terms.append(f"{self._name(name)} {operator} {self._value(value)}")

    def _absent_or(self, name: str, operator: str, value: Value) -> None:
        placeholder = self._name(name)
        self._terms.append(f"(attribute_not_exists({placeholder}) OR {placeholder} {operator} {self._value(value)})")

    def _name(self, name: str) -> str:
        self._names[f"#f_{name}"] = name
        return f"#f_{name}"

    def _value(self, value: Value) -> str:
        placeholder = f":f{len(self._values)}"
        self._values[placeholder] = value
        return placeholder


def _relation_partitions(*relations: str) -> list[dict[str, Value]]:
    return [{"rel": relation, "relShard": shard} for relation in relations for shard in range(SHARDS)]


def _needed(fields: Sequence[str]) -> dict[str, None]:
    """The attributes of video and counter that these fields, their ETag and the check of the caller need."""
    # What jobs made is shown in the same fields as what people wrote.
    made = {"thumbnails": "pictures", "resolutions": "source"}
    both = [*fields, *(made[name] for name in fields if name in made)]
    return dict.fromkeys([PARTITION_KEY, *both, "version", "views", "total", *VISIBILITY_ATTRIBUTES])


def contended() -> WriteContention:
    """What to answer when others change the same video all the time."""
    return WriteContention("Others are changing the video; try again.", headers={"Retry-After": "1"})


def _is_ours(failure: ConditionFailed, new: Item) -> bool:
    """Whether the condition failed because an earlier attempt of ours got through and its answer was lost."""
    return failure.item is not None and failure.item.get("writeId") == new["writeId"]
