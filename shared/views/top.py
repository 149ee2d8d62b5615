"""Stored rankings: the most viewed videos in a time window, for all videos together and by category."""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from shared.aws.dynamodb import Key, Table
from shared.core.attributes import Item
from shared.core.periods import DAY_SECONDS
from shared.schema import SCHEMA_VERSION, TOP, TTL_ATTRIBUTE, VIEWS_BY_HOUR
from shared.videos.access import is_purged

ALL = ""
"""Category that denotes the list of all videos. No video has this category."""

LARGEST_TOP = 100
"""Maximum number of videos that a stored list has for each order in ORDERS."""

RETENTION_SECONDS = 2 * DAY_SECONDS
"""Seconds until a list that is no longer refreshed expires."""


class RankedVideo(NamedTuple):
    """Video in a ranking, with the numbers by which rankings are sorted."""

    video_id: str
    views: int
    """Number of views in the window."""
    before: int
    """Number of views in the preceding window of the same length."""
    total: int
    """Number of all views of the video when the list was computed."""

    @property
    def rise(self) -> int:
        """Increase of the number of views over the preceding window. Negative if the number decreased."""
        return self.views - self.before


ORDERS: Mapping[str, Callable[[RankedVideo], int]] = {
    "views": lambda ranked: ranked.views,
    "rise": lambda ranked: ranked.rise,
    "viewCount": lambda ranked: ranked.total,
}
"""Functions that return the number by which a video is sorted, by name of the ranking order. Rankings begin with the
greatest number."""


@dataclass(frozen=True)
class TopVideos:
    """Ranking for one window and category, with the first LARGEST_TOP videos of each order."""

    start: int
    """Start of the window, in epoch seconds."""
    computed_at: int
    videos: tuple[RankedVideo, ...] = ()
    categories: tuple[str, ...] = ()
    """Categories that have a separate ranking. Set only in the ranking of all videos."""

    def by(self, order: str) -> list[RankedVideo]:
        """Return the first LARGEST_TOP videos in this order, a name in ORDERS. Videos with equal values are sorted by id."""
        value = ORDERS[order]
        return sorted(self.videos, key=lambda ranked: (-value(ranked), ranked.video_id))[:LARGEST_TOP]


class TopStore:
    """Store of the rankings, with one item per window and category."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def read(self, window: str, category: str, now: int) -> TopVideos | None:
        """Return the ranking of a window and category. `None` if it does not exist or has expired. Costs one
        GetItem."""
        item = self.table.get(_key(window, category))
        return None if item is None or is_purged(item, now) else _top(item)

    def computed_at(self, window: str) -> int:
        """Return the time, in epoch seconds, when the ranking of all videos in a window was computed; 0 if never."""
        item = self.table.get(_key(window, ALL), attributes=("computedAt",))
        return int(item["computedAt"]) if item else 0

    def stored(self, window: str, categories: Iterable[str]) -> dict[str, TopVideos]:
        """Return the stored rankings of a window, by category.

        Includes the ranking of all videos, the rankings of the given categories, and the rankings of the categories
        that the ranking of all videos names. Costs one GetItem, and one BatchGetItem per 100 categories.
        """
        item = self.table.get(_key(window, ALL))
        lists = {ALL: _top(item)} if item else {}
        other_categories = [*({*categories, *(lists[ALL].categories if item else ())} - {ALL})]
        items = self.table.get_all([_key(window, category) for category in other_categories])
        return lists | {category: _top(item) for category, item in zip(other_categories, items, strict=True) if item}

    def write(self, window: str, category: str, top: TopVideos) -> None:
        """Store a ranking. The write is unconditional, so the latest computation wins."""
        item = {
            **_key(window, category),
            **({"categories": top.categories} if top.categories else {}),
            "from": top.start,
            "computedAt": top.computed_at,
            # Compressed JSON takes a quarter of the space of a list of maps.
            "videos": zlib.compress(orjson.dumps([tuple(video) for video in top.videos])),
            "schemaVersion": SCHEMA_VERSION,
            TTL_ATTRIBUTE: top.computed_at + RETENTION_SECONDS,
        }
        self.table.write(self.table.put(item))

    def write_hours(self, start: int, views: Sequence[int], now: int) -> None:
        """Store the numbers of views in the hours since `start` (epoch seconds), oldest first. Each number is the sum over
        all videos.

        The write is unconditional, so the latest computation wins.
        """
        item = {
            **VIEWS_BY_HOUR.key(),
            "from": start,
            "views": list(views),
            "computedAt": now,
            "schemaVersion": SCHEMA_VERSION,
            TTL_ATTRIBUTE: now + RETENTION_SECONDS,
        }
        self.table.write(self.table.put(item))


def first_in_each_order(videos: Sequence[RankedVideo]) -> tuple[RankedVideo, ...]:
    """Return the videos that are among the first LARGEST_TOP in at least one of ORDERS, sorted by id."""
    top = TopVideos(0, 0, tuple(videos))
    return tuple(sorted({ranked for order in ORDERS for ranked in top.by(order)}))


def _key(window: str, category: str) -> Key:
    # The prefix distinguishes a category named `*` from the list of all videos.
    return TOP.key(window=window, category=f"={category}" if category else "*")


def _top(item: Item) -> TopVideos:
    videos = orjson.loads(zlib.decompress(item["videos"]))
    return TopVideos(
        item["from"],
        item["computedAt"],
        tuple(RankedVideo(*ranked) for ranked in videos),
        tuple(item.get("categories", ())),
    )
