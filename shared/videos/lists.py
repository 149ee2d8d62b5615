"""Lists of videos: one method per access pattern that returns many videos."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from shared.aws.expressions import Expression
from shared.aws.listing import (
    Lists,
    Window,
    entry_position,
    hydrate_page,
    position_in,
    sharded_partitions,
    single_partition,
)
from shared.core.attributes import Item, Value
from shared.core.caller import Caller
from shared.core.folders import entry_id, entry_prefix, video_id_of
from shared.core.position import Page, Position
from shared.schema import (
    BY_TITLE,
    CATEGORY_DURATION_INDEX,
    CATEGORY_INDEX,
    CATEGORY_ORDER_INDEX,
    FEED,
    RELATION_INDEX,
    SHARDS,
    USER_DURATION_INDEX,
    USER_INDEX,
    USER_ORDER_INDEX,
    VIDEO,
    YEAR_INDEX,
    Index,
    folders_relation,
    region_relation,
    series_relation,
    status_relation,
    tag_relation,
)
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import STRANGER, require_visible
from shared.videos.entries import episode_position
from shared.videos.store import VideoStore
from shared.videos.video import normalised_tags


class ListFilters(NamedTuple):
    """Additional filters of a list, such as the list of an owner's or a category's videos.

    A filter that is `None` matches any value. Durations are in milliseconds.
    """

    owner: str | None = None
    """Owner of the videos. Only the lists of a tag's or a region's videos support this filter."""
    status: str | None = None
    category: str | None = None
    format: str | None = None
    min_duration: int | None = None
    max_duration: int | None = None
    release_year: int | None = None
    """Release year of the videos. Only the list of a category's videos by time supports this filter."""

    def keeps(self, item: Item) -> bool:
        """Return whether the video matches the filters, except `release_year`. A video without a duration never matches
        a duration filter."""
        if not (
            self.owner in (None, item.get("userId"))
            and self.status in (None, item.get("status"))
            and self.category in (None, item.get("category"))
            and self.format in (None, item.get("format"))
        ):
            return False
        if self.min_duration is None and self.max_duration is None:
            return True
        duration = item.get("duration")
        return (
            duration is not None
            and (self.min_duration is None or self.min_duration <= duration)
            and (self.max_duration is None or duration <= self.max_duration)
        )

    def conditions(self) -> list[Expression]:
        """Return the filters as DynamoDB conditions, except `owner`, which only `keeps` checks, and `release_year`,
        which is part of a partition key."""
        required = {"status": self.status, "category": self.category, "format": self.format}
        conditions = [
            Expression.of(f"#{name} = :{name}", **{name: value})
            for name, value in required.items()
            if value is not None
        ]
        if self.min_duration is not None:
            conditions.append(Expression.of("#duration >= :shortest", shortest=self.min_duration))
        if self.max_duration is not None:
            conditions.append(Expression.of("#duration <= :longest", longest=self.max_duration))
        return conditions


class VideoLists:
    """Reader of lists of videos.

    Each method returns one page from an index, and raises the errors of shared.core.errors.
    """

    def __init__(self, videos: VideoStore) -> None:
        self._videos = videos
        self._lists = Lists(videos.table)

    def list_by_owner(
        self, owner: str, caller: Caller, now: int, filters: ListFilters, window: Window, tag: str | None = None
    ) -> Page[Item]:
        """Return a page of an owner's videos by time.

        The owner and admins see all except deleted videos; other callers see published videos. With a case-folded
        `tag`, returns only videos that have the tag. The index does not contain tags, so a list with `tag` also reads
        the videos of each page.
        """
        conditions = [_alive(now), *filters.conditions()]
        if not caller.owns(owner):
            if filters.status not in (None, "ready"):
                return Page([], None)
            published = Expression.of("#status = :ready AND #visibility = :public", ready="ready", public="public")
            conditions += [published, *_in_time(now)]
        elif filters.status is None:
            conditions.append(Expression.of("#status <> :deleted", deleted="deleted"))
        keep = Expression.all_of(conditions)
        if tag is None:
            return self._lists.page(USER_INDEX, [{"userId": owner}], window, keep)

        def read(after: Position | None, size: int) -> Page[Item]:
            part = window._replace(after=after, limit=size, attributes=("videoId",))
            return self._lists.page(USER_INDEX, [{"userId": owner}], part, keep)

        def look_up(entries: Sequence[Item]) -> list[Item | None]:
            videos = self._videos.summaries([entry["videoId"] for entry in entries], caller, now, also=("tags",))
            return [item if item is not None and tag in normalised_tags(item) else None for item in videos]

        return hydrate_page(
            read,
            look_up,
            limit=window.limit,
            after=window.after,
            locate=position_in(USER_INDEX),
        )

    def list_by_category(self, category: str, now: int, filters: ListFilters, window: Window) -> Page[Item]:
        """Return a page of the published videos of a category, by time. A release year in `filters` selects the videos
        of that year."""
        if filters.release_year is not None:
            partitions = _category_partitions(category, releaseYear=filters.release_year)
            keys = ("category", "releaseYear", "createdAt")
            return self._hydrate_keys(YEAR_INDEX, partitions, keys, STRANGER, now, filters, window)
        keep = Expression.all_of([_alive(now), *_in_time(now), *filters.conditions()])
        return self._lists.page(CATEGORY_INDEX, _category_partitions(category), window, keep)

    def list_by_duration(
        self, owner: str | None, category: str | None, caller: Caller, now: int, filters: ListFilters, window: Window
    ) -> Page[Item]:
        """Return a page of videos by duration: an owner's videos or, if `owner` is `None`, the published videos of a
        category.

        `window` is a range of durations in milliseconds. The owner and admins see all except deleted videos. Other
        callers see published videos. Videos without a duration are omitted.
        """
        if owner is not None:
            keys = ("userId", "duration")
            return self._hydrate_keys(USER_DURATION_INDEX, [{"userId": owner}], keys, caller, now, filters, window)
        partitions, keys = _category_partitions(category), ("category", "duration")
        return self._hydrate_keys(CATEGORY_DURATION_INDEX, partitions, keys, STRANGER, now, filters, window)

    def list_by_order(
        self,
        order: str,
        owner: str | None,
        category: str | None,
        caller: Caller,
        now: int,
        filters: ListFilters,
        window: Window,
    ) -> Page[Item]:
        """Return a page of videos by title, rating or views: an owner's videos or, if `owner` is `None`, the published
        videos of a category.

        `order` is a value of `orderBy`. The owner and admins see all except deleted videos. Other callers see published
        videos. The order by rating omits videos without ratings, and the order by views omits videos without views.
        """
        # Entries are compared with the video's own item, which has only the sort value by title. The sort values by
        # rating and views are in other items.
        own = ("orderValue",) if order == BY_TITLE else ()
        if owner is not None:
            partition, keys = {"userId": owner, "orderBy": order}, ("userId", *own)
            return self._hydrate_keys(USER_ORDER_INDEX, [partition], keys, caller, now, filters, window)
        partitions, keys = _category_partitions(category, orderBy=order), ("category", *own)
        return self._hydrate_keys(CATEGORY_ORDER_INDEX, partitions, keys, STRANGER, now, filters, window)

    def list_public(self, now: int, filters: ListFilters, window: Window) -> Page[Item]:
        """Return a page of all published videos, by time."""
        keep = Expression.all_of([_alive(now), *_in_time(now), *filters.conditions()])
        return self._lists.page(RELATION_INDEX, sharded_partitions(FEED), window, keep)

    def list_by_status(self, status: str, now: int, filters: ListFilters, window: Window) -> Page[Item]:
        """Return a page of all videos with this status, by time, including unpublished videos. The caller must be an
        admin."""
        relations = [status_relation(status)] + ([FEED] if status == "ready" else [])
        keep = Expression.all_of([_alive(now), *filters.conditions()])
        return self._lists.page(RELATION_INDEX, sharded_partitions(*relations), window, keep)

    def list_by_tag(self, tag: str, now: int, filters: ListFilters, window: Window) -> Page[Item]:
        """Return a page of the published videos with a tag, by time. `tag` must be case-folded.

        The index is eventually consistent, so the tags of each video are checked again.
        """

        def look_up(entries: Sequence[Item]) -> list[Item | None]:
            return self._look_up(entries, now, lambda item: tag in normalised_tags(item) and filters.keeps(item))

        return self._hydrate(sharded_partitions(tag_relation(tag)), window, look_up, entry_position)

    def list_by_folder(
        self,
        owner: str,
        folder: str,
        caller: Caller,
        now: int,
        filters: ListFilters,
        window: Window,
        *,
        subfolders: bool,
    ) -> Page[Item]:
        """Return a page of the videos in an owner's folder, by time. The caller must be the owner or an admin.

        With `subfolders`, the page also has the videos of subfolders, sorted by path and then by time. The index is
        eventually consistent, so the folder of each video is checked again.
        """

        def look_up(entries: Sequence[Item]) -> list[Item | None]:
            ids = [video_id_of(entry["relId"]) for entry in entries]
            videos = self._videos.summaries(ids, caller, now, also=("folder",))
            return [
                item if item is not None and entry["relId"] == entry_id(item) and filters.keeps(item) else None
                for entry, item in zip(entries, videos, strict=True)
            ]

        selected = window._replace(start=0, end=1, prefix=entry_prefix(folder, subfolders=subfolders))
        return self._hydrate(single_partition(folders_relation(owner)), selected, look_up, entry_position)

    def list_episodes(self, series_id: str, caller: Caller, now: int, window: Window) -> Page[Item]:
        """Return a page of the published episodes of a series, in order. Omits episodes that users other than the
        series' owner added.

        Raises NotFound if the caller may not see the series. The index is eventually consistent, so the series and
        position of each video are checked again.
        """
        series = require_visible(
            self._videos.table.get(VIDEO.key(videoId=series_id), attributes=VISIBILITY_ATTRIBUTES), caller, now
        )

        def look_up(entries: Sequence[Item]) -> list[Item | None]:
            ids = [entry["relId"] for entry in entries]
            videos = self._videos.summaries(ids, STRANGER, now, also=("seriesId", "season", "episode"))
            return [
                item
                if item is not None and item.get("seriesId") == series_id and episode_position(item) == entry["relSort"]
                else None
                for entry, item in zip(entries, videos, strict=True)
            ]

        return self._hydrate(
            single_partition(series_relation(series_id, series["userId"])), window, look_up, entry_position
        )

    def list_by_region(self, region: str, now: int, filters: ListFilters, window: Window) -> Page[Item]:
        """Return a page of the published videos that have a release in a region, by time. A video with several releases
        occurs once."""

        def look_up(entries: Sequence[Item]) -> list[Item | None]:
            videos = self._look_up(entries, now, filters.keeps)
            # The entries of a video, one for each language, are adjacent.
            before = [None, *map(_video_id, entries)]
            return [
                None if _video_id(entry) == last else item
                for entry, last, item in zip(entries, before, videos, strict=False)
            ]

        past = partial(_past_video, ascending=window.ascending)
        return self._hydrate(sharded_partitions(region_relation(region)), window, look_up, past)

    def _hydrate_keys(
        self,
        index: Index,
        partitions: Sequence[Mapping[str, Value]],
        keys: Sequence[str],
        caller: Caller,
        now: int,
        filters: ListFilters,
        window: Window,
    ) -> Page[Item]:
        """Return a page of videos. The index entries in `partitions` have only keys, so the videos are read from the
        table.

        `keys` are names of attributes in the index's key. The index is eventually consistent, so a video is omitted if
        its values of these attributes differ from those in the index entry.
        """
        tie = index.sort[1]

        def read(after: Position | None, size: int) -> Page[Item]:
            part = window._replace(after=after, limit=size, attributes=(*keys, tie.name))
            return self._lists.page(index, partitions, part)

        def look_up(entries: Sequence[Item]) -> list[Item | None]:
            videos = self._videos.summaries([entry[tie.name] for entry in entries], caller, now, also=keys)
            return [
                item
                if item is not None and all(item.get(key) == entry[key] for key in keys) and filters.keeps(item)
                else None
                for entry, item in zip(entries, videos, strict=True)
            ]

        return hydrate_page(
            read,
            look_up,
            limit=window.limit,
            after=window.after,
            locate=position_in(index),
        )

    def _hydrate(
        self,
        partitions: Sequence[Mapping[str, Value]],
        window: Window,
        look_up: Callable[[Sequence[Item]], Sequence[Item | None]],
        locate: Callable[[Item], Position],
    ) -> Page[Item]:
        def read(after: Position | None, size: int) -> Page[Item]:
            # Read only the id of each entry, because `look_up` reads the videos.
            part = window._replace(after=after, limit=size, attributes=("relId",))
            return self._lists.related(partitions, part)

        return hydrate_page(read, look_up, limit=window.limit, after=window.after, locate=locate)

    def _look_up(self, entries: Sequence[Item], now: int, keeps: Callable[[Item], bool]) -> list[Item | None]:
        """Return the published videos to which these index entries refer, in the same order.

        A video is `None` if it is not published, if `keeps` rejects it, or if a later video has reused its id.
        """
        videos = self._videos.summaries([_video_id(entry) for entry in entries], STRANGER, now, also=("tags",))
        return [
            item if item is not None and item["createdAt"] == entry["relSort"] and keeps(item) else None
            for entry, item in zip(entries, videos, strict=True)
        ]


def _alive(now: int) -> Expression:
    """Return the condition that a video's TTL has not passed. DynamoDB deletes expired items hours or days late."""
    return Expression.of("attribute_not_exists(#purgeAt) OR #purgeAt > :now", now=now)


def _in_time(now: int) -> tuple[Expression, Expression]:
    """Return two conditions: `publishAt` is absent or has passed, and `expiresAt` is absent or in the future."""
    return (
        Expression.of("attribute_not_exists(#publishAt) OR #publishAt <= :now", now=now),
        Expression.of("attribute_not_exists(#expiresAt) OR #expiresAt > :now", now=now),
    )


def _category_partitions(category: str | None, **more: Value) -> list[dict[str, Value]]:
    """Return the partition keys of all shards of a category. `more` has the index's other partition attributes."""
    return [{"category": category, "categoryShard": shard, **more} for shard in range(SHARDS)]


def _video_id(entry: Item) -> str:
    """Return the video id in the `relId` of a tag or region entry."""
    return str(entry["relId"].partition("#")[0])


def _past_video(entry: Item, *, ascending: bool) -> Position:
    """Return the position after all entries of one video in the list of a region. `entry` is one of these entries.

    The video has one entry per language, with the `relId` `videoId#language`.
    """
    return Position(int(entry["relSort"]), _video_id(entry) + ("#~" if ascending else "#"))
