"""The lists of what was viewed most in a window of time, of all videos and of each category, as they are stored."""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from shared.aws.dynamodb import Key, Table
from shared.core.attributes import Item
from shared.core.periods import DAY_SECONDS
from shared.schema import SCHEMA_VERSION, TOP, TTL_ATTRIBUTE
from shared.videos.access import is_purged

ALL = ""
"""The category of a list of all videos; no video has it."""

LARGEST_TOP = 100
"""How many videos a list has in each order."""

KEPT_SECONDS = 2 * DAY_SECONDS
"""After how long a list is gone that is computed no more."""


class Ranked(NamedTuple):
    """A video in a list."""

    video_id: str
    views: int
    """In the window."""
    before: int
    """In the window before, which has as many hours or days."""
    total: int
    """All its views until the list was computed."""

    @property
    def rise(self) -> int:
        """How many more than in the window before."""
        return self.views - self.before


ORDERS: Mapping[str, Callable[[Ranked], int]] = {
    "views": lambda ranked: ranked.views,
    "rise": lambda ranked: ranked.rise,
    "viewCount": lambda ranked: ranked.total,
}
"""By what a list can be ordered, the largest first."""


@dataclass(frozen=True)
class Top:
    """A list: the first LARGEST_TOP videos in each order."""

    start: int
    """When its window began, in epoch seconds."""
    computed_at: int
    videos: tuple[Ranked, ...] = ()
    categories: tuple[str, ...] = ()
    """Of the list of all videos: those that have a list of their own."""

    def by(self, order: str) -> list[Ranked]:
        """The first LARGEST_TOP in one of ORDERS; ties are in the order of their ids."""
        value = ORDERS[order]
        return sorted(self.videos, key=lambda ranked: (-value(ranked), ranked.video_id))[:LARGEST_TOP]


class TopStore:
    """The lists in the table."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def read(self, window: str, category: str, now: int) -> Top | None:
        """A list; None when none was computed. One GetItem."""
        item = self.table.get(_key(window, category))
        return None if item is None or is_purged(item, now) else _top(item)

    def computed_at(self, window: str) -> int:
        """When the list of all videos was computed, in epoch seconds; 0 for never."""
        item = self.table.get(_key(window, ALL), attributes=("computedAt",))
        return int(item["computedAt"]) if item else 0

    def stored(self, window: str, categories: Iterable[str]) -> dict[str, Top]:
        """The lists of a window: of all videos, and of these categories and those that had one when that was stored.

        One GetItem, and one BatchGetItem for 100 categories.
        """
        item = self.table.get(_key(window, ALL))
        lists = {ALL: _top(item)} if item else {}
        others = [*({*categories, *(lists[ALL].categories if item else ())} - {ALL})]
        items = self.table.get_all([_key(window, category) for category in others])
        return lists | {category: _top(item) for category, item in zip(others, items, strict=True) if item}

    def write(self, window: str, category: str, top: Top) -> None:
        """Store a list. Without a condition: what is computed later is right, and is stored later."""
        item = {
            **_key(window, category),
            **({"categories": top.categories} if top.categories else {}),
            "from": top.start,
            "computedAt": top.computed_at,
            # A quarter of what it would take as a list of maps.
            "videos": zlib.compress(orjson.dumps([tuple(video) for video in top.videos])),
            "schemaVersion": SCHEMA_VERSION,
            TTL_ATTRIBUTE: top.computed_at + KEPT_SECONDS,
        }
        self.table.write(self.table.put(item))


def first_in_each_order(videos: Sequence[Ranked]) -> tuple[Ranked, ...]:
    """Those of the videos that a list needs, by their ids."""
    top = Top(0, 0, tuple(videos))
    return tuple(sorted({ranked for order in ORDERS for ranked in top.by(order)}))


def _key(window: str, category: str) -> Key:
    # The sign keeps a category that is called `*` apart.
    return TOP.key(window=window, category=f"={category}" if category else "*")


def _top(item: Item) -> Top:
    videos = orjson.loads(zlib.decompress(item["videos"]))
    return Top(
        item["from"], item["computedAt"], tuple(Ranked(*ranked) for ranked in videos), tuple(item.get("categories", ()))
    )
