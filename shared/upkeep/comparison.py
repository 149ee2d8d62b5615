"""What is kept in two places: what each should be, and what is there instead. Reads by key and index alone."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from shared.aws.dynamodb import LARGEST_BATCH_GET, Table
from shared.aws.listing import sharded, unsharded, walk, walk_all
from shared.aws.records import key_of
from shared.core.attributes import Item, Value
from shared.relations.ratings import TOTALS, Choice, share
from shared.schema import (
    FEED,
    MARKER,
    PARTITION_KEY,
    PROFILE,
    RATING_TOTALS,
    RELATION_INDEX,
    SORT_KEY,
    TAG_COUNT,
    VIDEO,
    Entity,
    counted_relation,
    playlists_relation,
    rated_relation,
    status_relation,
    tag_relation,
)
from shared.upkeep.aggregates import Contribution, contribution, counted
from shared.upkeep.totals import PROFILE_COUNTS, SIZES
from shared.videos.access import is_purged
from shared.videos.entries import ENTRIES, settled
from shared.videos.video import STATUSES

if TYPE_CHECKING:
    from shared.entities import Rating

PAGE = 1000
"""Entries of an index that are read at a time."""

VERSION = "schemaVersion"

BESIDE = tuple(entity.sort_prefix for entity in ENTRIES)
"""What the sort keys of a video's entries begin with."""


@dataclass(frozen=True)
class Difference:
    """What does not agree at one look, and what its repair depends on."""

    expected: Mapping[str, Any]
    found: Mapping[str, Any]
    version: int | str | None = None


class Moved(Exception):
    """What was looked at changed meanwhile."""


@dataclass(frozen=True)
class Family:
    """A video and the items beside it that are compared."""

    id: str
    video: Item | None
    marker: Item | None
    totals: Item
    """Empty when nobody has rated it."""
    beside: Sequence[Item]
    """Its credits, releases, tags, series and schedule."""


class Comparison:
    """Looks once at what one table keeps twice; `clock` gives epoch seconds.

    What a method looks at agrees when it returns None. It raises Moved when a total changed while its parts were summed.
    """

    def __init__(self, table: Table, clock: Callable[[], float]) -> None:
        self.table = table
        self._clock = clock

    def family(self, video_id: str) -> Family:
        """A video and what is compared with it, read from its partition."""
        partition = {PARTITION_KEY: VIDEO.key(videoId=video_id)[PARTITION_KEY]}
        items = {
            item[SORT_KEY]: item
            for item in walk(self.table, None, partition, limit=PAGE, consistent=True)
            if _is_compared(item[SORT_KEY])
        }
        return Family(
            video_id,
            items.get(VIDEO.sk),
            items.get(MARKER.sk),
            items.get(RATING_TOTALS.sk, {}),
            [item for sk, item in items.items() if sk.startswith(BESIDE)],
        )

    def entries(self, family: Family) -> Difference | None:
        """Whether the video and its entries stand where they should, and the video has the form of the present schema."""
        video, now = family.video, int(self._clock())
        if video is None or is_purged(video, now):
            return None
        children = [item for item in family.beside if "personId" in item or "region" in item]
        present_form = settled(video, children, now)
        expected = _places(present_form.values()) | {VERSION: present_form[VIDEO.sk][VERSION]}
        present = _places([video, *family.beside]) | {VERSION: video.get(VERSION)}
        wrong = sorted(sk for sk in expected.keys() | present.keys() if expected.get(sk) != present.get(sk))
        if not wrong:
            return None
        return Difference({sk: expected.get(sk) for sk in wrong}, {sk: present.get(sk) for sk in wrong})

    def marker(self, family: Family) -> Difference | None:
        """Whether what was counted of the video is what it is; also when the video is gone."""
        expected, found = _shown(contribution(family.video)), _shown(counted(family.marker))
        return None if expected == found else Difference(expected, found, (family.marker or {}).get("writeId"))

    def ratings(self, family: Family) -> Difference | None:
        """Whether the totals of the video's ratings are their sums."""
        if family.video is None:
            return None
        sums = dict.fromkeys(TOTALS, 0)
        for rating in self.all_ratings(family.id):
            for name, value in share(Choice.of(rating)).items():
                sums[name] += value
        return self._against(sums, family.totals, RATING_TOTALS, videoId=family.id)

    def all_ratings(self, video_id: str) -> "Iterator[Rating]":
        """All ratings of a video."""
        # Side by side, as most videos have few ratings, or none.
        entries = walk_all(
            self.table,
            RELATION_INDEX.name,
            sharded(rated_relation(video_id)),
            attributes=(PARTITION_KEY, SORT_KEY),
            limit=PAGE,
        )
        for group in grouped(entries, LARGEST_BATCH_GET):
            keys = {
                entry[PARTITION_KEY] + entry[SORT_KEY]: key_of(entry) for entry in group
            }  # a page may name one twice
            ratings = cast("list[Rating | None]", self.table.get_all(list(keys.values()), consistent=True))
            yield from (rating for rating in ratings if rating and Choice.of(rating))

    def user(self, user_id: str, tags: Counter[str], settle: Callable[[Sequence[str]], None]) -> Difference | None:
        """Whether a user's totals are those of the markers of its videos; fills `tags` with how many of these count
        for which tag. `settle` is called first with the videos that are gone but have a marker.
        """
        kept = self.table.get(PROFILE.key(userId=user_id), consistent=True) or {}
        sums = dict.fromkeys((*PROFILE_COUNTS, "playlists"), 0)
        tags.clear()
        for part in self._counted_of(user_id, settle):
            tags.update(part.tags)
            for name, value in part.counts().items():
                sums[name] += value
        sums["playlists"] = sum(1 for _ in self.listed(unsharded(playlists_relation(user_id))))
        return self._against(sums, kept, PROFILE, userId=user_id)

    def _counted_of(self, user_id: str, settle: Callable[[Sequence[str]], None]) -> Iterator[Contribution]:
        """What was counted of a user's videos; `settle` is called first with those that are gone but have a marker."""
        for batch in self._batches(sharded(counted_relation(user_id))):
            video_ids = [entry["relId"] for entry in batch]
            videos = [VIDEO.key(videoId=video_id) for video_id in video_ids]
            present = {
                item["videoId"] for item in self.table.batch_get(videos, attributes=("videoId",), consistent=True)
            }
            settle([video_id for video_id in video_ids if video_id not in present])
            for part in self._markers(video_ids):
                if part.user_id == user_id:
                    yield part

    def _markers(self, video_ids: Sequence[str]) -> list[Contribution]:
        keys = [MARKER.key(videoId=video_id) for video_id in video_ids]
        markers = self.table.batch_get(keys, consistent=True)
        return [part for marker in markers if (part := counted(marker))]

    def tag_count(self, tag: str) -> Difference | None:
        """Whether the count of a tag is that of the markers that have it."""
        kept = self.table.get(TAG_COUNT.key(tag=tag), consistent=True) or {}
        count = 0
        for batch in self._batches(sharded(tag_relation(tag))):
            count += sum(tag in part.tags for part in self._markers([entry["relId"] for entry in batch]))
        return self._against({"count": count}, kept, TAG_COUNT, tag=tag)

    def _against(self, sums: Mapping[str, int], kept: Item, entity: Entity, **parts: str) -> Difference | None:
        """What differs between a sum and what was kept before it was taken; raises Moved when that changed since."""
        present = {name: int(kept.get(name, 0)) for name in sums}
        if present == sums:
            return None
        again = self.table.get(entity.key(**parts), attributes=("version",), consistent=True) or {}
        if again.get("version") != kept.get("version"):
            raise Moved
        differing = [name for name in sums if sums[name] != present[name]]
        return Difference(
            {name: sums[name] for name in differing}, {name: present[name] for name in differing}, kept.get("version")
        )

    def videos(self) -> Iterator[Item]:
        """An entry of each video, with its owner."""
        return self.listed(sharded(FEED, *map(status_relation, STATUSES)), also=("userId",))

    def listed(self, partitions: Sequence[Mapping[str, Value]], also: Sequence[str] = ()) -> Iterator[Item]:
        """All entries of relations, page by page."""
        for partition in partitions:
            yield from walk(
                self.table, RELATION_INDEX.name, partition, attributes=("relId", "relSort", *also), limit=PAGE
            )

    def _batches(self, partitions: Sequence[Mapping[str, Value]]) -> Iterator[list[Item]]:
        """All entries of relations, as many at a time as one BatchGetItem looks up."""
        return grouped(self.listed(partitions), LARGEST_BATCH_GET)


def grouped(entries: Iterator[Item], size: int) -> Iterator[list[Item]]:
    """The entries in groups of `size`."""
    while group := list(islice(entries, size)):
        yield group


def _is_compared(sort_key: str) -> bool:
    return sort_key in (VIDEO.sk, MARKER.sk, RATING_TOTALS.sk) or sort_key.startswith(BESIDE)


def _places(items: Iterable[Item]) -> dict[str, Any]:
    """By sort key, where items stand: their relation, None outside of the index, and what they are sorted by."""
    return {item[SORT_KEY]: [item.get("rel"), int(item["relSort"])] for item in items}


def _shown(part: Contribution | None) -> dict[str, Any]:
    if part is None:
        return {}
    sizes = dict(zip(SIZES, part.sizes, strict=True))
    return {"userId": part.user_id, "status": part.status, **sizes, "tags": sorted(part.tags)}
