"""The catalogue's store: every access pattern on videos is one method here, and one or two DynamoDB requests."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from shared.aws.dynamodb import ConditionFailed, Table, TransactionConflict, Write
from shared.aws.expressions import Expression, change_between
from shared.aws.listing import Lists, Window, hydrated, located, sharded
from shared.aws.pages import Page
from shared.aws.records import ABSENT, contended, is_ours, unchanged
from shared.core.attributes import Item, Value
from shared.core.caller import UPDATED_FOR, Caller
from shared.core.errors import AlreadyExists, BeingRemoved, VersionMismatch
from shared.core.position import Position
from shared.schema import (
    CATEGORY_INDEX,
    FEED,
    PARTITION_KEY,
    RELATION_INDEX,
    SHARDS,
    SORT_KEY,
    TTL_ATTRIBUTE,
    USER_INDEX,
    VIDEO,
    VIEW_COUNTER,
    region_relation,
    status_relation,
    tag_relation,
)
from shared.videos.counters import view_count
from shared.videos.entries import as_read, tag_entries, tag_moves
from shared.videos.video import (
    OWNER_FIELDS,
    SUMMARY_FIELDS,
    VISIBILITY_ATTRIBUTES,
    document,
    folded_tags,
    is_listed,
    is_published,
    is_purged,
    is_seen,
    is_shown,
    owned_by,
    seen_by,
    stamp,
    upgraded,
)
from shared.web.idempotency import Once, in_flight

CHANGE_ATTEMPTS = 10
"""How often a change without If-Match is tried again when others change the video meanwhile."""


@dataclass(frozen=True)
class Filters:
    """What to keep of a list besides its key; None: no matter."""

    owner: str | None = None
    """An owner's own list needs no filter; others than those of tags and regions take none."""
    status: str | None = None
    category: str | None = None
    format: str | None = None
    min_duration: int | None = None
    max_duration: int | None = None

    def keeps(self, item: Item) -> bool:
        """Whether a video is to be kept; one without a duration has none that could be long or short enough."""
        wanted = {"userId": self.owner, "status": self.status, "category": self.category, "format": self.format}
        if any(value is not None and item.get(name) != value for name, value in wanted.items()):
            return False
        if self.min_duration is None and self.max_duration is None:
            return True
        duration = item.get("duration")
        return (
            duration is not None
            and (self.min_duration is None or self.min_duration <= duration)
            and (self.max_duration is None or duration <= self.max_duration)
        )


class VideoStore:
    """Videos in the table. Methods raise the errors of shared.core.errors."""

    def __init__(self, table: Table, *, moves_entries: bool = True) -> None:
        """With `moves_entries` a change moves the entries of the video's tags with it. The roles of other functions
        cannot write them: those leave it, and the change to the present schema, to the stream.
        """
        self.table = table
        self.lists = Lists(table)
        self._moves_entries = moves_entries

    def create(
        self,
        item: Item,
        caller: Caller,
        now: int,
        once: Once | None = None,
        *,
        write_id: str | None = None,
        brought: bool = False,
    ) -> dict[str, Any]:
        """Create a video and return its document; with `once`, the answer of the first time.

        One PutItem; with tags or `once` one transaction; before it one Query, if the id was `brought` along and may have
        been another video's. With a `write_id` it may be tried again by the same one. Raises AlreadyExists; BeingRemoved
        while anything is there of an earlier video, or when that only waited for its removal, which begins then.
        """
        if brought:
            self._require_vacant(item["videoId"])
        new = stamp(item, caller=caller, now=now, version=1, write_id=write_id)
        answer = document(new, view_count=0)
        writes = [self.table.put(new, condition=ABSENT), *map(self.table.put, tag_entries(new))]
        try:
            self._write(writes, once, answer)
        except ConditionFailed as failure:
            if once and failure.position == 0:
                return once.replayed(failure.item)
            if is_ours(failure.item, new):
                return answer
            if failure.item and is_purged(failure.item, now):
                self._remove(failure.item)
                raise being_removed() from failure
            raise taken() from failure
        except TransactionConflict as conflict:
            if once:
                raise in_flight("A request with this Idempotency-Key is being carried out.") from conflict
            raise
        return answer

    def _require_vacant(self, video_id: str) -> None:
        """Raise BeingRemoved while a purge has not removed all that belonged to an earlier video.

        Else the new one would have its credits, and the purge, which spares what exists, would leave them.
        """
        page = self.table.query(
            index=None,
            condition=Expression.of("#pk = :pk", pk=VIDEO.key(videoId=video_id)[PARTITION_KEY]),
            attributes=(SORT_KEY,),
            limit=2,
            consistent=True,
        )
        # The video's own item stands before all others; a write tells what to do about that.
        if page.items and page.items[0][SORT_KEY] != VIDEO.sk:
            raise being_removed()

    def _remove(self, item: Item) -> None:
        """Do what DynamoDB does hours or days after the time of a video; the stream then purges what belonged to it.

        Were it just replaced, the new video would have the credits, ratings and places in playlists of the old one.
        """
        with suppress(ConditionFailed, TransactionConflict):  # somebody else has done it, or is about to
            self.table.write(self.table.remove(VIDEO.key(videoId=item["videoId"]), condition=unchanged(item)))

    def _write(self, writes: Sequence[Write], once: Once | None, answer: dict[str, Any]) -> None:
        """The video's write, then those of its tags; a record of `once` comes before them."""
        record = [once.record(self.table, answer)] if once else []
        if len(writes) == 1 and not record:
            self.table.write(writes[0])
        else:
            self.table.transact([*record, *writes])

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
        whole = document_for(caller, item, view_count(counter))
        return {name: whole[name] for name in fields or whole if name in whole}, item["version"]

    def read_many(self, video_ids: Sequence[str], caller: Caller, now: int) -> dict[str, dict[str, Any]]:
        """The documents of those of up to 100 different videos that the caller may see.

        Two BatchGetItem: the videos, then the counters of those that are shown.
        """
        items = {item["videoId"]: item for item in self.items(video_ids) if is_seen(item, caller, now)}
        partitions = {VIEW_COUNTER.key(videoId=each, shard=0)[PARTITION_KEY]: each for each in items}
        counters = self.table.batch_get([VIEW_COUNTER.key(videoId=each, shard=0) for each in items])
        counts = {partitions[counter[PARTITION_KEY]]: view_count(counter) for counter in counters}
        return {each: document_for(caller, item, counts.get(each, 0)) for each, item in items.items()}

    def items(self, video_ids: Iterable[str], *, consistent: bool = False) -> list[Item]:
        """The items of different videos as they are stored, in no order; one BatchGetItem for 100 of them."""
        return self.table.batch_get([VIDEO.key(videoId=each) for each in video_ids], consistent=consistent)

    def summaries(
        self, video_ids: Sequence[str], caller: Caller, now: int, *, also: Iterable[str] = ()
    ) -> list[Item | None]:
        """What a list shows of these videos, in their order: one BatchGetItem for 100 of them.

        None for one that is not there, is deleted, or that the caller may not see. `also` names more attributes.
        """
        if not video_ids:
            return []
        keys = [VIDEO.key(videoId=video_id) for video_id in dict.fromkeys(video_ids)]
        attributes = dict.fromkeys([*SUMMARY_FIELDS, *VISIBILITY_ATTRIBUTES, *also])
        found = {item["videoId"]: item for item in self.table.batch_get(keys, attributes=attributes)}
        shown = {video_id: item for video_id, item in found.items() if is_shown(item, caller, now)}
        return [shown.get(video_id) for video_id in video_ids]

    def change(
        self,
        video_id: str,
        caller: Caller,
        now: int,
        edit: Callable[[Item], Item],
        *,
        matches: Callable[[int], bool] = lambda version: True,
        once: Once | None = None,
        write_id: str | None = None,
    ) -> dict[str, Any]:
        """Apply `edit` to a video of the caller's and return its document.

        The write carries the version that was read as its condition. `matches` is the caller's own
        condition on the version (If-Match): raises VersionMismatch; without one, a lost race is run again.
        Tags that come or go make it a transaction. With a `write_id` it may be tried again by the same one.
        """
        key = VIDEO.key(videoId=video_id)
        found = self.table.get(key, consistent=True)
        # After the video: were it read before, the same request could be carried out in between, and this one
        # would then find its own work done and call it a mistake.
        if once and (answer := once.recorded(self.table.get(once.item_key, consistent=True))):
            return answer
        for _ in range(CHANGE_ATTEMPTS):
            item = owned_by(found, caller, now)
            if write_id and item.get("writeId") == write_id:
                return document(item)
            present = upgraded(item) if self._moves_entries else item
            new = changed(present, caller, now, edit, matches, write_id)
            if new is None:
                return document(item)
            try:
                self._write(self._writes(item, new), once, document(new))
            except ConditionFailed as failure:
                if once and failure.position == 0:
                    return once.replayed(failure.item)
                found = failure.item
            except TransactionConflict as conflict:
                if once:
                    raise in_flight("The video is being changed.") from conflict
                found = self.table.get(key, consistent=True)
            else:
                return document(new)
            if is_ours(found, new):
                return document(new)
        raise contended("the video")

    def _writes(self, item: Item, new: Item) -> list[Write]:
        """The writes that change one version of a video into the next, and move the entries of its tags."""
        update = self.table.update(
            VIDEO.key(videoId=new["videoId"]),
            change_between(item, new),
            condition=as_read(item),
        )
        come, gone = tag_moves(item, new) if self._moves_entries else ([], [])
        return [update, *map(self.table.put, come), *map(self.table.remove, gone)]

    def settle(self, video_id: str, now: int) -> Item | None:
        """Bring a video to the present schema, and into or out of the lists as its times have it by now.

        Its author and the time of its removal stay, as nothing changes that anybody said of it; and so does its version,
        unless the schema is another. Returns it as it is stored then; None when it is gone, or waits for its removal. Raises ConditionFailed
        or TransactionConflict when others change it meanwhile.
        """
        found = self.table.get(VIDEO.key(videoId=video_id), consistent=True)
        if found is None or is_purged(found, now):
            return None
        present = upgraded(found)
        if present == found and is_listed(found) == is_published(found, now):
            return found
        kept = ["updatedAt", "updatedBy", "updatedAs", UPDATED_FOR, TTL_ATTRIBUTE]
        if present == found:
            # So that a retry of the write before, whose answer was lost, still knows it again.
            kept.append("writeId")
        version = found["version"] + (present != found)
        new = stamp(present, caller=_STRANGER, now=now, version=version)
        new |= {name: found[name] for name in kept if name in found}
        self._write(self._writes(found, new), None, {})
        return new

    def of_owner(
        self, owner: str, caller: Caller, now: int, filters: Filters, window: Window, tag: str | None = None
    ) -> Page:
        """One owner's videos by time: all but deleted ones for itself and admins, published ones for others.

        With a folded `tag` those that have it; each page of the index is then looked up, as it does not hold tags.
        """
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
        if tag is None:
            return self.lists.page(USER_INDEX, [{"userId": owner}], window, keep.expression())

        def read(after: Position | None, size: int) -> Page:
            part = replace(window, after=after, limit=size, attributes=("videoId",))
            return self.lists.page(USER_INDEX, [{"userId": owner}], part, keep.expression())

        def look_up(entries: Sequence[Item]) -> list[Item | None]:
            videos = self.summaries([entry["videoId"] for entry in entries], caller, now, also=("tags",))
            return [item if item is not None and tag in folded_tags(item) else None for item in videos]

        found = hydrated(
            read,
            look_up,
            limit=window.limit,
            after=window.after,
            locate=lambda entry: Position(int(entry["createdAt"]), entry["videoId"]),
        )
        return Page(found.items, found.resume)

    def in_category(self, category: str, now: int, filters: Filters, window: Window) -> Page:
        """One category's published videos by time."""
        keep = _Conditions(now)
        keep.in_time()
        keep.filters(filters)
        partitions = [{"category": category, "categoryShard": shard} for shard in range(SHARDS)]
        return self.lists.page(CATEGORY_INDEX, partitions, window, keep.expression())

    def feed(self, now: int, filters: Filters, window: Window) -> Page:
        """All published videos by time."""
        keep = _Conditions(now)
        keep.in_time()
        keep.filters(filters)
        return self.lists.page(RELATION_INDEX, sharded(FEED), window, keep.expression())

    def in_status(self, status: str, now: int, filters: Filters, window: Window) -> Page:
        """All videos in one status by time, listed or not."""
        relations = [status_relation(status)] + ([FEED] if status == "ready" else [])
        keep = _Conditions(now)
        keep.filters(filters)
        return self.lists.page(RELATION_INDEX, sharded(*relations), window, keep.expression())

    def with_tag(self, tag: str, now: int, filters: Filters, window: Window) -> Page:
        """The published videos with a folded tag, by time.

        The index may be a little older than the videos, whose own tags decide.
        """

        def look_up(entries: Sequence[Item]) -> list[Item | None]:
            return self._videos_of(entries, now, lambda item: tag in folded_tags(item) and filters.keeps(item))

        return self._led_to(tag_relation(tag), window, look_up, located)

    def in_region(self, region: str, now: int, filters: Filters, window: Window) -> Page:
        """The published videos that were released in a region, each once, by time."""

        def look_up(entries: Sequence[Item]) -> list[Item | None]:
            videos = self._videos_of(entries, now, filters.keeps)
            # The entries of one video are neighbours, one for each language.
            before = [None, *map(_video_id, entries)]
            return [
                None if _video_id(entry) == last else item
                for entry, last, item in zip(entries, before, videos, strict=False)
            ]

        return self._led_to(region_relation(region), window, look_up, partial(_past_video, ascending=window.ascending))

    def _led_to(
        self,
        relation: str,
        window: Window,
        look_up: Callable[[Sequence[Item]], Sequence[Item | None]],
        locate: Callable[[Item], Position],
    ) -> Page:
        def read(after: Position | None, size: int) -> Page:
            # Only its place is read of an entry, whatever is to be shown of the video.
            part = replace(window, after=after, limit=size, attributes=("relId",))
            return self.lists.related(sharded(relation), part)

        found = hydrated(read, look_up, limit=window.limit, after=window.after, locate=locate)
        return Page(found.items, found.resume)

    def _videos_of(self, entries: Sequence[Item], now: int, keeps: Callable[[Item], bool]) -> list[Item | None]:
        """The published videos that entries lead to, in their order; None for what is not kept, or is another video of
        the same id.
        """
        videos = self.summaries([_video_id(entry) for entry in entries], _STRANGER, now, also=("tags",))
        return [
            item if item is not None and item["createdAt"] == entry["relSort"] and keeps(item) else None
            for entry, item in zip(entries, videos, strict=True)
        ]


_STRANGER = Caller("", frozenset())
"""Somebody who owns nothing: what this caller sees is published."""


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


def document_for(caller: Caller, item: Item, view_count: int) -> dict[str, Any]:
    """The document as GET shows it to a caller who may see the video."""
    whole = document(item, view_count)
    if not caller.owns(item["userId"]):
        # Strangers see no dates of what they could not see then, and nothing of how it was made.
        for name in OWNER_FIELDS:
            whole.pop(name, None)
    return whole


def _needed(fields: Sequence[str]) -> dict[str, None]:
    """The attributes of video and counter that these fields, their ETag and the check of the caller need."""
    # What jobs made is shown in the same fields as what people wrote.
    made = {"thumbnails": "pictures", "resolutions": "source"}
    both = [*fields, *(made[name] for name in fields if name in made)]
    return dict.fromkeys([PARTITION_KEY, *both, "version", "views", "total", *VISIBILITY_ATTRIBUTES])


def being_removed() -> BeingRemoved:
    """What to answer when a videoId that was brought along is still that of a video whose time has come."""
    return BeingRemoved(
        "An earlier video of this id is being removed, with all that belonged to it; try again.",
        headers={"Retry-After": "10"},
    )


def taken() -> AlreadyExists:
    """What to answer when a videoId that was brought along is another video's."""
    return AlreadyExists("There is a video with this videoId already.")


def changed(
    item: Item,
    caller: Caller,
    now: int,
    edit: Callable[[Item], Item],
    matches: Callable[[int], bool],
    write_id: str | None = None,
) -> Item | None:
    """The next version of a video of the caller's; None when there is nothing to change. Raises VersionMismatch.

    A video whose time to enter or leave the lists has come is changed by any edit.
    """
    version = item["version"]
    if not matches(version):
        raise VersionMismatch(f'The video is at version {version}; If-Match takes its ETag, or "{version}".')
    edited = edit(item)
    if not change_between(item, edited).text and is_listed(item) == is_published(edited, now):
        return None
    return stamp(edited, caller=caller, now=now, version=version + 1, write_id=write_id)


def _video_id(entry: Item) -> str:
    """The video that an entry of a tag or region leads to."""
    return str(entry["relId"].partition("#")[0])


def _past_video(entry: Item, *, ascending: bool) -> Position:
    """Where a list goes on after all entries of the video that one entry leads to: `videoId#language` each."""
    return Position(int(entry["relSort"]), _video_id(entry) + ("#~" if ascending else "#"))
