"""The lists of videos: each access pattern on many videos is one method here."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from shared.aws.expressions import Expression
from shared.aws.listing import Lists, Window, hydrated, located, sharded, unsharded
from shared.core.attributes import Item, Value
from shared.core.caller import Caller
from shared.core.position import Page, Position
from shared.schema import (
    CATEGORY_INDEX,
    FEED,
    RELATION_INDEX,
    SHARDS,
    USER_INDEX,
    VIDEO,
    region_relation,
    series_relation,
    status_relation,
    tag_relation,
)
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import STRANGER, seen_by
from shared.videos.catalogue import VideoStore
from shared.videos.entries import episode_place
from shared.videos.video import folded_tags


class Filters(NamedTuple):
    """What to keep of a list besides its key; None: any."""

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

    def conditions(self) -> list[Expression]:
        """The same for DynamoDB, but for the owner, who is the key of the only index that is read by owner."""
        wanted = {"status": self.status, "category": self.category, "format": self.format}
        conditions = [
            Expression.of(f"#{name} = :{name}", **{name: value}) for name, value in wanted.items() if value is not None
        ]
        if self.min_duration is not None:
            conditions.append(Expression.of("#duration >= :shortest", shortest=self.min_duration))
        if self.max_duration is not None:
            conditions.append(Expression.of("#duration <= :longest", longest=self.max_duration))
        return conditions


class VideoLists:
    """Pages of videos, by the indexes. Methods raise the errors of shared.core.errors."""

    def __init__(self, videos: VideoStore) -> None:
        self._videos = videos
        self._lists = Lists(videos.table)

    def of_owner(
        self, owner: str, caller: Caller, now: int, filters: Filters, window: Window, tag: str | None = None
    ) -> Page[Item]:
        """One owner's videos by time: all but deleted ones for itself and admins, published ones for others.

        With a folded `tag` those that have it; each page of the index is then looked up, as it does not hold tags.
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
            return [item if item is not None and tag in folded_tags(item) else None for item in videos]

        return hydrated(
            read,
            look_up,
            limit=window.limit,
            after=window.after,
            locate=lambda entry: Position(int(entry["createdAt"]), entry["videoId"]),
        )

    def in_category(self, category: str, now: int, filters: Filters, window: Window) -> Page[Item]:
        """One category's published videos by time."""
        keep = Expression.all_of([_alive(now), *_in_time(now), *filters.conditions()])
        partitions = [{"category": category, "categoryShard": shard} for shard in range(SHARDS)]
        return self._lists.page(CATEGORY_INDEX, partitions, window, keep)

    def feed(self, now: int, filters: Filters, window: Window) -> Page[Item]:
        """All published videos by time."""
        keep = Expression.all_of([_alive(now), *_in_time(now), *filters.conditions()])
        return self._lists.page(RELATION_INDEX, sharded(FEED), window, keep)

    def in_status(self, status: str, now: int, filters: Filters, window: Window) -> Page[Item]:
        """All videos in one status by time, listed or not."""
        relations = [status_relation(status)] + ([FEED] if status == "ready" else [])
        keep = Expression.all_of([_alive(now), *filters.conditions()])
        return self._lists.page(RELATION_INDEX, sharded(*relations), window, keep)

    def with_tag(self, tag: str, now: int, filters: Filters, window: Window) -> Page[Item]:
        """The published videos with a folded tag, by time.

        The index may be a little older than the videos, whose own tags decide.
        """

        def look_up(entries: Sequence[Item]) -> list[Item | None]:
            return self._looked_up(entries, now, lambda item: tag in folded_tags(item) and filters.keeps(item))

        return self._led_to(sharded(tag_relation(tag)), window, look_up, located)

    def episodes(self, series_id: str, caller: Caller, now: int, window: Window) -> Page[Item]:
        """The published episodes of a series that have its owner, in their order; raises NotFound.

        The index may be a little older than the videos, whose own place decides.
        """
        series = seen_by(
            self._videos.table.get(VIDEO.key(videoId=series_id), attributes=VISIBILITY_ATTRIBUTES), caller, now
        )

        def look_up(entries: Sequence[Item]) -> list[Item | None]:
            ids = [entry["relId"] for entry in entries]
            videos = self._videos.summaries(ids, STRANGER, now, also=("seriesId", "season", "episode"))
            return [
                item
                if item is not None and item.get("seriesId") == series_id and episode_place(item) == entry["relSort"]
                else None
                for entry, item in zip(entries, videos, strict=True)
            ]

        return self._led_to(unsharded(series_relation(series_id, series["userId"])), window, look_up, located)

    def in_region(self, region: str, now: int, filters: Filters, window: Window) -> Page[Item]:
        """The published videos that were released in a region, each once, by time."""

        def look_up(entries: Sequence[Item]) -> list[Item | None]:
            videos = self._looked_up(entries, now, filters.keeps)
            # The entries of one video are neighbours, one for each language.
            before = [None, *map(_video_id, entries)]
            return [
                None if _video_id(entry) == last else item
                for entry, last, item in zip(entries, before, videos, strict=False)
            ]

        past = partial(_past_video, ascending=window.ascending)
        return self._led_to(sharded(region_relation(region)), window, look_up, past)

    def _led_to(
        self,
        partitions: Sequence[Mapping[str, Value]],
        window: Window,
        look_up: Callable[[Sequence[Item]], Sequence[Item | None]],
        locate: Callable[[Item], Position],
    ) -> Page[Item]:
        def read(after: Position | None, size: int) -> Page[Item]:
            # Only its place is read of an entry, whatever is to be shown of the video.
            part = window._replace(after=after, limit=size, attributes=("relId",))
            return self._lists.related(partitions, part)

        return hydrated(read, look_up, limit=window.limit, after=window.after, locate=locate)

    def _looked_up(self, entries: Sequence[Item], now: int, keeps: Callable[[Item], bool]) -> list[Item | None]:
        """The published videos that entries lead to, in their order; None for what is not kept, or is another video of
        the same id.
        """
        videos = self._videos.summaries([_video_id(entry) for entry in entries], STRANGER, now, also=("tags",))
        return [
            item if item is not None and item["createdAt"] == entry["relSort"] and keeps(item) else None
            for entry, item in zip(entries, videos, strict=True)
        ]


def _alive(now: int) -> Expression:
    """The condition that a video does not wait for its removal, which DynamoDB does hours or days late."""
    return Expression.of("attribute_not_exists(#purgeAt) OR #purgeAt > :now", now=now)


def _in_time(now: int) -> tuple[Expression, Expression]:
    """The conditions that a video's `publishAt` has come, and its `expiresAt` has not."""
    return (
        Expression.of("attribute_not_exists(#publishAt) OR #publishAt <= :now", now=now),
        Expression.of("attribute_not_exists(#expiresAt) OR #expiresAt > :now", now=now),
    )


def _video_id(entry: Item) -> str:
    """The video that an entry of a tag or region leads to."""
    return str(entry["relId"].partition("#")[0])


def _past_video(entry: Item, *, ascending: bool) -> Position:
    """Where a list goes on after all entries of the video that one entry leads to: `videoId#language` each."""
    return Position(int(entry["relSort"]), _video_id(entry) + ("#~" if ascending else "#"))
