"""Exports the catalogue of a table to a file, page by page.

The export finds videos in the index partitions of published videos and of each status. It finds playlists by their
user. It does not scan the table.

The export writes a `.part` file, and renames that file at the end. Until then, a state file in the same folder stores
the position from which the next run resumes.
"""

import base64
import gzip
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, cast

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.aws.listing import iterate_all_entries, iterate_entries
from shared.background.comparison import Comparison
from shared.background.totals import folder_count_key
from shared.core.attributes import Item, decode_item, encode_item
from shared.relations.playlists import DELETED_AT
from shared.schema import (
    CAPTION,
    CHAPTERS,
    CREDIT,
    FEED,
    JOB,
    MEMBERSHIP,
    ORDER,
    PARTITION_KEY,
    PLAYLIST,
    PROFILE,
    RATING_TOTALS,
    RELATION_INDEX,
    RELEASE,
    SHARDS,
    SORT_KEY,
    TAG_COUNT,
    TAGS,
    UPLOAD,
    USERS,
    VIDEO,
    VIEW_HOUR,
    Entity,
    playlists_relation,
    status_relation,
)
from shared.threads import map_threads
from shared.videos.access import is_purged
from shared.videos.counters import ViewCount, ViewCounters, sums_of
from shared.videos.video import STATUSES
from tools import ToolError
from tools.exchange_format import line_of
from tools.progress import Bars
from tools.rate_limit import THREADS

PAGE = 50
"""Number of index entries per page. The export reads the videos of a page concurrently, then stores its position in the
state file."""
CHILDREN = 1000
"""Maximum number of items of one video that the export holds in memory."""


class Export:
    """Export of one table to one file. It can resume after an interruption."""

    def __init__(
        self,
        table: Table,
        file: Path,
        *,
        raw: bool = False,
        bars: Bars,
        clock: Callable[[], float] = time.time,
        page: int = PAGE,
    ) -> None:
        self._table = table
        self._counters = ViewCounters(table)
        self._file = file
        self._raw = raw
        self._bars = bars
        self._clock = clock
        self._comparison = Comparison(table, clock)
        self._page = page
        self._unfinished = file.parent / f"{file.name}.part"
        self._state = file.parent / f"{file.name}.state"
        partitions = [
            (relation, shard) for relation in (FEED, *map(status_relation, STATUSES)) for shard in range(SHARDS)
        ]
        self._sources: list[tuple[str, int]] = [*partitions, (USERS, 0), *([(TAGS, 0)] if raw else [])]

    def run(self) -> dict[str, int]:
        """Write the file. Resumes an interrupted export. Returns the number of items by entity.

        Raises ToolError if the path exists, or if the state file belongs to another export.
        """
        if self._file.is_dir():
            raise ToolError(f"{self._file} is a folder. Name a file in it, such as {self._file / 'all.jsonl.gz'}.")
        if self._file.exists():
            raise ToolError(f"{self._file} already exists. Delete it, or name another file.")
        state = self._resumed()
        counts, done = Counter(state["counts"]), state.get("done", 0)
        # Counting costs as much as reading the index, so it is done only for the progress bar of a terminal.
        total = self._count_entries() if self._bars.is_shown else None
        title = "Videos, users and tags" if self._raw else "Videos and users"
        with self._unfinished.open("ab") as out, self._bars.bar(title, total, counted=True) as advance:
            out.truncate(state["bytes"])
            out.seek(0, os.SEEK_END)
            for source, (relation, shard) in enumerate(self._sources):
                if source < state["source"]:
                    continue
                start = state["after"] if source == state["source"] else None
                for entries, items, after in self._pages(relation, shard, start):
                    counts += self._written(out, items)
                    done += entries
                    advance(done)
                    # The last page of a partition is followed by the first page of the next partition.
                    self._remember(source if after else source + 1, after, out.tell(), counts, done)
            if self._raw:
                totals = self._comparison.service_items()
                counts += self._written(out, (("ServiceTotals", item) for item in totals if item))
        os.replace(self._unfinished, self._file)
        self._state.unlink(missing_ok=True)
        return dict(counts)

    def _count_entries(self) -> int:
        """Return the number of index entries in all partitions that the export reads."""
        partitions = [{"rel": relation, "relShard": shard} for relation, shard in self._sources]
        found = iterate_all_entries(self._table, RELATION_INDEX.name, partitions, attributes=("relId",), limit=CHILDREN)
        return sum(1 for _ in found)

    def _resumed(self) -> dict[str, Any]:
        start = {"table": self._table.name, "raw": self._raw, "source": 0, "after": None, "bytes": 0, "counts": {}}
        if not self._state.exists() or not self._unfinished.exists():
            self._unfinished.unlink(missing_ok=True)
            return start
        state: dict[str, Any] = json.loads(self._state.read_text(encoding="utf-8"))
        if (state["table"], state["raw"]) != (self._table.name, self._raw):
            raise ToolError(f"{self._state} belongs to another interrupted export. Delete it, or name another file.")
        return state

    def _remember(self, source: int, after: Item | None, size: int, counts: Counter[str], done: int) -> None:
        state = {
            "table": self._table.name,
            "raw": self._raw,
            "source": source,
            "after": after,
            "bytes": size,
            "counts": counts,
            "done": done,
        }
        new = self._state.with_name(f"{self._state.name}.new")
        new.write_text(json.dumps(state), encoding="utf-8")
        os.replace(new, self._state)

    def _written(self, out: IO[bytes], items: Iterator[tuple[str, Item]]) -> Counter[str]:
        """Append items to the file, and sync it to disk. Returns the number of items by entity.

        If the file is compressed, each call adds one gzip member.
        """
        counts: Counter[str] = Counter()
        packed = gzip.GzipFile("", "wb", 6, out, mtime=0) if self._file.suffix == ".gz" else None
        for entity, item in items:
            line = {"Item": encode_item(item)} if self._raw else line_of(entity, item)
            text = json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=_in_base64)
            (packed or out).write(text.encode() + b"\n")
            counts[entity] += 1
        if packed:
            packed.close()
        out.flush()
        os.fsync(out.fileno())
        return counts

    def _pages(
        self, relation: str, shard: int, after: Item | None
    ) -> Iterator[tuple[int, Iterator[tuple[str, Item]], Item | None]]:
        """Yield pages of an index partition: the number of entries, the items to export, and the key from which the
        next page starts.

        The key is `None` for the last page.
        """
        for ids, then in self._ids(relation, shard, after, self._page):
            yield len(ids), self._behind(relation, ids), then

    def _ids(
        self, relation: str, shard: int, after: Item | None, limit: int
    ) -> Iterator[tuple[list[str], Item | None]]:
        """Yield pages of an index partition: the ids in the entries, and the key from which the next page starts.

        The key is `None` for the last page.
        """
        while True:
            page = self._table.query(
                index=RELATION_INDEX.name,
                condition=Expression(
                    "#rel = :rel AND #shard = :shard",
                    {"#rel": RELATION_INDEX.partition[0].name, "#shard": RELATION_INDEX.partition[1].name},
                    {":rel": relation, ":shard": shard},
                ),
                attributes=("relId",),
                limit=limit,
                start=after,
            )
            after = decode_item(page.last_key) if page.last_key else None
            yield [entry["relId"] for entry in page.items], after
            if after is None:
                return

    def _behind(self, relation: str, ids: Sequence[str]) -> Iterator[tuple[str, Item]]:
        if relation == USERS:
            for user in ids:
                yield from self._user(user)
        elif relation == TAGS:
            keys = [TAG_COUNT.key(tag=tag) for tag in ids]
            yield from (("TagCount", item) for item in self._table.batch_get(keys, consistent=True))
        else:
            # The first items of all videos are read concurrently. The remaining items of large videos are read
            # sequentially.
            def begun(video_id: str) -> tuple[list[tuple[str, Item]], Iterator[tuple[str, Item]]]:
                items = self._video(video_id)
                return list(islice(items, CHILDREN)), items

            for first, rest in map_threads(begun, ids, THREADS):
                yield from first
                yield from rest

    def _video(self, video_id: str) -> Iterator[tuple[str, Item]]:
        items = self._partition(VIDEO.key(videoId=video_id)[PARTITION_KEY])
        first = next(items, None)
        # Sort keys that begin with # sort first, so the video is the first item. Leftovers of purged videos are
        # skipped.
        if first is None or first[SORT_KEY] != VIDEO.sk or is_purged(first, int(self._clock())):
            return
        yield "Video", first
        for item in items:
            entity = _entity_of(item)
            if entity == "ImportedRating":
                if not self._raw and "imported" not in item:
                    continue
                item = item if self._raw else {name: item[name] for name in ("videoId", "imported")}
            if entity is not None and (self._raw or entity != "Derived"):
                yield entity, item
        yield from self._views(video_id)
        # Ratings are read even if the totals have none, because totals are updated after ratings.
        for rating in self._comparison.all_ratings(video_id):
            yield "Rating", cast(Item, rating)

    def _views(self, video_id: str) -> Iterator[tuple[str, Item]]:
        counter = self._counters.stored(video_id)
        if self._raw:
            yield from (("Views", item) for item in counter)
            hours_and_days = self._partition(VIEW_HOUR.key(videoId=video_id, hour="")[PARTITION_KEY])
            sort_entries = self._partition(ORDER.key(videoId=video_id, order="")[PARTITION_KEY])
            yield from (("Derived", item) for item in chain(hours_and_days, sort_entries))
        elif counter:
            # All shards are exported as their sum, because an import writes one item.
            sums = ViewCount(dict(enumerate(map(sums_of, counter)))).as_one
            yield "Views", {"videoId": video_id} | sums

    def _user(self, user: str) -> Iterator[tuple[str, Item]]:
        if self._raw and (profile := self._table.get(PROFILE.key(userId=user), consistent=True)):
            yield "Profile", profile
        if self._raw:
            folders = self._partition(folder_count_key(user, "-")[PARTITION_KEY])
            yield from (("Derived", item) for item in folders)
        for playlists, _ in self._ids(playlists_relation(user), 0, None, CHILDREN):
            for playlist in playlists:
                yield from self._playlist(playlist)

    def _playlist(self, playlist_id: str) -> Iterator[tuple[str, Item]]:
        items = self._partition(PLAYLIST.key(playlistId=playlist_id)[PARTITION_KEY])
        first = next(items, None)
        if first is None or first[SORT_KEY] != PLAYLIST.sk or DELETED_AT in first:
            return
        yield "Playlist", first
        for item in items:
            if MEMBERSHIP.has_sort_key(item[SORT_KEY]):
                yield "Entry", item
            elif self._raw:
                yield "Derived", item

    def _partition(self, partition: str) -> Iterator[Item]:
        """Yield the items of a partition in the order of their sort keys. Reads are consistent."""
        return iterate_entries(self._table, None, {PARTITION_KEY: partition}, limit=CHILDREN, consistent=True)


def _in_base64(value: bytes) -> str:
    """Encode bytes in base64, as DynamoDB's JSON does."""
    return base64.b64encode(value).decode()


_CHILDREN: dict[str, Entity] = {
    "Credit": CREDIT,
    "Release": RELEASE,
    "Captions": CAPTION,
    "Chapters": CHAPTERS,
    "ImportedRating": RATING_TOTALS,
    "Job": JOB,
}


def _entity_of(item: Item) -> str | None:
    """Return the entity name of an item in a video's partition, or `Derived` if imports compute this item.

    Returns `None` for an upload, because its presigned URLs expire.
    """
    if UPLOAD.has_sort_key(item[SORT_KEY]):
        return None
    return next((name for name, entity in _CHILDREN.items() if entity.has_sort_key(item[SORT_KEY])), "Derived")
