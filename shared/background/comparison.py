"""Comparison of redundant data, such as totals, with the data from which it is computed. Never uses a Scan."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from shared.aws.dynamodb import LARGEST_BATCH_GET, Table
from shared.aws.listing import iterate_all_entries, iterate_entries, sharded_partitions, single_partition
from shared.aws.records import key_of
from shared.background.aggregates import Contribution, contribution, counted
from shared.background.totals import FOLDER_COUNTS, PROFILE_COUNTS, SIZES, folder_count_key
from shared.core.attributes import Item, Value
from shared.core.folders import split_path
from shared.relations.ratings import TOTALS, RatingChoice, rating_contribution
from shared.schema import (
    FEED,
    FOLDER_COUNT,
    MARKER,
    ORDER,
    PARTITION_KEY,
    PROFILE,
    RATING_TOTALS,
    RELATION_INDEX,
    SERVICE_TOTALS,
    SHARDS,
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
from shared.videos.access import is_purged
from shared.videos.entries import ENTRIES, settled, with_list_position
from shared.videos.reservations import find, reservations
from shared.videos.video import STATUSES

if TYPE_CHECKING:
    from shared.entities import Rating, Video

PAGE = 1000
"""Maximum number of items that one Query reads."""

INDEX_SECONDS = 60
"""Seconds after a change during which an index may still lack the change. Usually the index contains it in less than a
second."""

VERSION = "schemaVersion"
"""Name of the attribute with an item's schema version."""

ENTRY_PREFIXES = tuple(entity.sort_prefix for entity in ENTRIES)
"""Sort key prefixes of a video's index entries."""


@dataclass(frozen=True)
class Difference:
    """Difference between expected and stored values."""

    expected: Mapping[str, Any]
    """Expected values that differ, by name."""
    found: Mapping[str, Any]
    """Stored values of these names."""
    version: int | str | None = None
    """Version of the stored item; `None` if the item has no version. A repair has the condition that the item still has
    this version."""


@dataclass(frozen=True)
class UserCounts:
    """Amounts that the videos of one user contribute to totals, summed from the videos' MARKER items."""

    tags: Counter[str] = field(default_factory=Counter)
    """Number of listed videos by case-folded tag."""
    folders: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Amounts that the videos add to the counts of the user's folders, by path and name of the count."""
    service: Counter[str] = field(default_factory=Counter)
    """Amounts that the videos add to the service-wide totals, by name of the total."""

    def clear(self) -> None:
        """Remove all amounts."""
        self.tags.clear()
        self.folders.clear()
        self.service.clear()


class ConcurrentChange(Exception):
    """The compared item changed during the comparison."""


@dataclass(frozen=True)
class Family:
    """Video, and the other items that a reconciliation compares with it."""

    id: str
    """Video id."""
    video: "Video | None"
    marker: Item | None
    """MARKER item, which stores the amounts that the totals contain for the video. `None` if the totals do not contain
    the video."""
    totals: Item
    """Item with the rating totals of the video. Empty if the video has no ratings."""
    related: Sequence[Item]
    """Items of the video's credits, releases, tags, series, folder and schedule."""
    sort_entries: Mapping[str, Item]
    """Sort entries of the video, by order."""


class Comparison:
    """Comparison of one table's redundant data. `clock` returns epoch seconds.

    The methods with the result `Difference | None` return `None` if the data agrees. They raise ConcurrentChange if a
    total changed while they computed the expected sum.
    """

    def __init__(self, table: Table, clock: Callable[[], float]) -> None:
        self.table = table
        self._clock = clock

    def family(self, video_id: str) -> Family:
        """Return a video, and the other items that a reconciliation compares. Sends consistent Queries."""
        partition = {PARTITION_KEY: VIDEO.key(videoId=video_id)[PARTITION_KEY]}
        order = {PARTITION_KEY: ORDER.key(videoId=video_id, order="")[PARTITION_KEY]}
        items = {
            item[SORT_KEY]: item
            for item in iterate_entries(self.table, None, partition, limit=PAGE, consistent=True)
            if _is_compared(item[SORT_KEY])
        }
        return Family(
            video_id,
            cast("Video | None", items.get(VIDEO.sk)),
            items.get(MARKER.sk),
            items.get(RATING_TOTALS.sk, {}),
            [item for sk, item in items.items() if sk.startswith(ENTRY_PREFIXES)],
            {entry[SORT_KEY]: entry for entry in iterate_entries(self.table, None, order, limit=PAGE, consistent=True)},
        )

    def entries(self, family: Family) -> Difference | None:
        """Compare three kinds of data with the expected values: the video's index entries, the owner and category of
        its sort entries, and its schema version."""
        video, now = family.video, int(self._clock())
        if video is None or is_purged(video, now):
            return None
        children = [item for item in family.related if "personId" in item or "region" in item]
        present_form = settled(video, children, now)
        expected = _index_positions(present_form.values()) | {VERSION: present_form[VIDEO.sk][VERSION]}
        present = _index_positions([video, *family.related]) | {VERSION: video.get(VERSION)}
        for order, entry in family.sort_entries.items():
            expected[order], present[order] = map(_list_position, (with_list_position(entry, video), entry))
        wrong = sorted(sk for sk in expected.keys() | present.keys() if expected.get(sk) != present.get(sk))
        if not wrong:
            return None
        return Difference({sk: expected.get(sk) for sk in wrong}, {sk: present.get(sk) for sk in wrong})

    def reservations(self, family: Family) -> Difference | None:
        """Check that the video holds the reservations of its unique values. Costs a GetItem for each value.

        The difference has the expected and the stored holder (video id) of each value, by field.
        """
        if family.video is None or is_purged(family.video, int(self._clock())):
            return None
        holders = {
            field: find(self.table, owner, field, value) for owner, field, value, _ in reservations(family.video)
        }
        found = {field: holder for field, holder in holders.items() if holder != family.id}
        return Difference(dict.fromkeys(found, family.id), found) if found else None

    def marker(self, family: Family) -> Difference | None:
        """Compare the amounts that the totals contain for the video with the amounts of its current state.

        If the video was removed, the totals must not contain it.
        """
        expected, found = _to_document(contribution(family.video)), _to_document(counted(family.marker))
        return None if expected == found else Difference(expected, found, (family.marker or {}).get("writeId"))

    def ratings(self, family: Family) -> Difference | None:
        """Compare the rating totals with the sums of the video's ratings."""
        if family.video is None:
            return None
        sums = dict.fromkeys(TOTALS, 0)
        for rating in self.all_ratings(family.id):
            for name, value in rating_contribution(RatingChoice.of(rating)).items():
                sums[name] += value
        return self._against(sums, family.totals, RATING_TOTALS, videoId=family.id)

    def all_ratings(self, video_id: str) -> "Iterator[Rating]":
        """Yield all ratings of a video, except withdrawn ratings."""
        # All shards are read concurrently, because most videos have few ratings or none.
        entries = iterate_all_entries(
            self.table,
            RELATION_INDEX.name,
            sharded_partitions(rated_relation(video_id)),
            attributes=(PARTITION_KEY, SORT_KEY),
            limit=PAGE,
        )
        for group in grouped(entries, LARGEST_BATCH_GET):
            keys = {
                entry[PARTITION_KEY] + entry[SORT_KEY]: key_of(entry) for entry in group
            }  # a page may contain an entry twice
            ratings = cast("list[Rating | None]", self.table.get_all(list(keys.values()), consistent=True))
            yield from (rating for rating in ratings if rating and RatingChoice.of(rating))

    def user(self, user_id: str, counts: "UserCounts", settle: Callable[[Sequence[str]], None]) -> Difference | None:
        """Compare a user's totals with the sums of the amounts in the MARKER items of the user's videos.

        Stores in `counts` the sums of these amounts for each tag, for each folder and for the service; earlier content
        of `counts` is deleted. Before it reads the MARKER items, calls `settle` with the ids of removed videos that
        still have a MARKER item.
        """
        stored = self.table.get(PROFILE.key(userId=user_id), consistent=True) or {}
        sums = dict.fromkeys((*PROFILE_COUNTS, "playlists"), 0)
        counts.clear()
        for part in self._counted_of(user_id, settle):
            counts.tags.update(part.tags)
            for path, amounts in part.folder_counts():
                counts.folders.update({(path, name): value for name, value in amounts.items()})
            counts.service.update(part.counts())
            for name, value in part.counts().items():
                sums[name] += value
        sums["playlists"] = sum(1 for _ in self.listed(single_partition(playlists_relation(user_id))))
        return self._against(sums, stored, PROFILE, userId=user_id)

    def folders(self, user_id: str) -> Counter[tuple[str, str]]:
        """Return the stored counts of a user's folders, by path and name of the count."""
        partition = {PARTITION_KEY: folder_count_key(user_id, "-")[PARTITION_KEY]}
        items = iterate_entries(self.table, None, partition, limit=PAGE, consistent=True)
        return Counter({(item["folder"], name): int(item.get(name, 0)) for item in items for name in FOLDER_COUNTS})

    def folder(self, user_id: str, path: str, settle: Callable[[Sequence[str]], None]) -> Difference | None:
        """Compare the counts of a user's folder with the sums of the amounts in the MARKER items of the user's videos.

        Reads all MARKER items of the user. For `settle`, see the method `user`.
        """
        stored = self.table.get(folder_count_key(user_id, path), consistent=True) or {}
        sums = dict.fromkeys(FOLDER_COUNTS, 0)
        for part in self._counted_of(user_id, settle):
            for name, value in dict(part.folder_counts()).get(path, {}).items():
                sums[name] += value
        parent, name = split_path(path)
        return self._against(sums, stored, FOLDER_COUNT, userId=user_id, parent=parent, folderName=name)

    def _counted_of(self, user_id: str, settle: Callable[[Sequence[str]], None]) -> Iterator[Contribution]:
        """Yield the amounts that the totals contain for each of a user's videos, from the videos' MARKER items.

        Before it reads these items, calls `settle` with the ids of removed videos that still have a MARKER item.
        """
        for batch in self._batches(sharded_partitions(counted_relation(user_id))):
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

    def service_items(self) -> list[Item]:
        """Return the items that store the totals of all videos; `{}` for a missing item. A total is the sum over these
        items. Uses consistent reads."""
        keys = [SERVICE_TOTALS.key(shard=shard) for shard in range(SHARDS)]
        return [item or {} for item in self.table.get_all(keys, consistent=True)]

    def service(self, stored: Sequence[Item], sums: Mapping[str, int]) -> Difference | None:
        """Compare the totals of all videos with the sums of the amounts in all MARKER items.

        `stored` is the result of `service_items`. The caller must call `service_items` before it computes `sums`.

        If the sums differ, raises ConcurrentChange in two cases: the totals have changed since the call of
        `service_items`, or less than INDEX_SECONDS ago. In the second case, the index may still lack a video.
        """
        present = {name: sum(int(item.get(name, 0)) for item in stored) for name in PROFILE_COUNTS}
        if all(present[name] == sums.get(name, 0) for name in PROFILE_COUNTS):
            return None
        versions = [item.get("version") for item in stored]
        newest = max(int(item.get("updatedAt", 0)) for item in stored)
        if self._clock() - newest < INDEX_SECONDS or versions != [item.get("version") for item in self.service_items()]:
            raise ConcurrentChange
        differing = [name for name in PROFILE_COUNTS if present[name] != sums.get(name, 0)]
        return Difference({name: sums.get(name, 0) for name in differing}, {name: present[name] for name in differing})

    def tag_count(self, tag: str) -> Difference | None:
        """Compare the count of a tag with the number of videos whose MARKER items contain the tag."""
        stored = self.table.get(TAG_COUNT.key(tag=tag), consistent=True) or {}
        count = 0
        for batch in self._batches(sharded_partitions(tag_relation(tag))):
            count += sum(tag in part.tags for part in self._markers([entry["relId"] for entry in batch]))
        return self._against({"count": count}, stored, TAG_COUNT, tag=tag)

    def _against(self, sums: Mapping[str, int], stored: Item, entity: Entity, **parts: str) -> Difference | None:
        """Return the difference between computed sums and a stored total. The caller must read the total before it
        computes the sums.

        Raises ConcurrentChange if the stored total has changed since then. `parts` are the parts of the total's key.
        """
        present = {name: int(stored.get(name, 0)) for name in sums}
        if present == sums:
            return None
        current = self.table.get(entity.key(**parts), attributes=("version",), consistent=True) or {}
        if current.get("version") != stored.get("version"):
            raise ConcurrentChange
        differing = [name for name in sums if sums[name] != present[name]]
        return Difference(
            {name: sums[name] for name in differing}, {name: present[name] for name in differing}, stored.get("version")
        )

    def videos(self) -> Iterator[Item]:
        """Yield one index entry of each video, with the owner's `userId`."""
        return self.listed(sharded_partitions(FEED, *map(status_relation, STATUSES)), also=("userId",))

    def listed(self, partitions: Sequence[Mapping[str, Value]], also: Sequence[str] = ()) -> Iterator[Item]:
        """Yield the entries of RelationIndex in these partitions.

        An entry has the attributes `relId` and `relSort`, and the attributes named in `also`.
        """
        for partition in partitions:
            yield from iterate_entries(
                self.table, RELATION_INDEX.name, partition, attributes=("relId", "relSort", *also), limit=PAGE
            )

    def _batches(self, partitions: Sequence[Mapping[str, Value]]) -> Iterator[list[Item]]:
        """Yield the entries of RelationIndex in these partitions, in groups of at most 100, the limit of a
        BatchGetItem.
        """
        return grouped(self.listed(partitions), LARGEST_BATCH_GET)


def grouped(entries: Iterator[Item], size: int) -> Iterator[list[Item]]:
    """Yield the entries in groups of `size`; the last group may have fewer."""
    while group := list(islice(entries, size)):
        yield group


def _is_compared(sort_key: str) -> bool:
    return sort_key in (VIDEO.sk, MARKER.sk, RATING_TOTALS.sk) or sort_key.startswith(ENTRY_PREFIXES)


def _index_positions(items: Iterable[Mapping[str, Value]]) -> dict[str, Any]:
    """Return the position of each item in RelationIndex: its relation, sort value and id there, by the item's sort key.

    The relation is `None` if the index does not contain the item.
    """
    return {item[SORT_KEY]: [item.get("rel"), int(item["relSort"]), item.get("relId")] for item in items}


def _list_position(entry: Item) -> list[str | None]:
    return [entry["userId"], entry.get("category")]


def _to_document(part: Contribution | None) -> dict[str, Any]:
    if part is None:
        return {}
    sizes = dict(zip(SIZES, part.sizes, strict=True))
    return {
        "userId": part.user_id,
        "status": part.status,
        **sizes,
        "tags": sorted(part.tags),
        "arrivedAt": part.arrived_at,
        **({"folder": part.folder} if part.folder else {}),
    }
