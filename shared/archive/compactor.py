"""Compaction of the audit archive into Parquet files, one for each entity and day.

For each batch of audit entries, the audit function writes a source: an object of JSON lines. A run of the compactor
reads the sources that the manifest of their day does not list. It merges their entries into the Parquet file of each
partition, and then adds the sources to the manifest.

Each entry is in exactly one row, because three rules hold at each step:

- A merge replaces rows with the same `change_id`. A repeated source, or an entry in two sources, therefore adds no row.
- A merge is one conditional PutObject. If two compactors have read the same file, only one of them can store its
  result, and the other one merges again. Readers see the file as it was before the merge, or after it.
- The manifest is written after the merges. If a run stops earlier, the next run repeats the merges.

A source is never deleted, but a retry of the audit function, or an erasure, can replace it. The new content has another
ETag, so the next run merges it. A run must not replace rows of the new content by rows of the old content. Therefore
each merge first reads the ETag of the Parquet file, and then checks the ETags of the sources. If a source is replaced
after this check, its new content is merged after the old content, and replaces the rows of the old content.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from shared.archive import parquet
from shared.archive_tables import CHANGED_FIELDS, CHANGES, MANIFESTS, ArchiveTable
from shared.aws.s3 import ListedObject, ObjectChanged, ObjectMissing, Objects, object_uri
from shared.core.attributes import Item
from shared.core.changes import json_of
from shared.core.errors import Unavailable
from shared.core.periods import day_of
from shared.feed.change import change_id
from shared.history.entries import sortable
from shared.history.trail import ARCHIVED
from shared.schema import AUDIT, PLAYLIST_AUDIT
from shared.temporary import work_folder
from shared.threads import map_threads

LATE_DAYS = 2
"""Maximum age, in days, of a day that can still receive sources. A run closes a day that is older (see `_CLOSED`). The
stream discards records after one day, so a closed day receives no new sources."""
CHUNK_BYTES = 64_000_000
"""Maximum total size of the sources that a run holds in memory. A source that is larger is held in memory alone. 64 MB
contain about 60,000 entries."""
CHUNK_SOURCES = 2000
"""Maximum number of sources between two writes of the manifest."""
CONCURRENCY = 8
"""Maximum number of concurrent reads of sources."""
FOLDERS = "video-archive-"
"""Prefix of temporary folders."""
_CLOSED = ".closed"
"""Suffix of the marker of a day whose sources are all merged. Later runs skip the day."""
MAX_ATTEMPTS = 5
"""Maximum attempts to merge into one file, including the first. An attempt fails if another compactor was faster."""


class Compaction(NamedTuple):
    """Result of a run of the compactor."""

    sources: int
    """Number of sources that were merged."""
    entries: int
    """Number of audit entries in the merged sources. If an entry occurs several times in one chunk of sources, it is
    counted once."""


class Compactor:
    """Compactor, which merges the sources in the archive bucket into the Parquet files of the analytics bucket.

    Any number of compactors may run concurrently. Methods raise Unavailable if S3 is busy. They also raise it if
    MAX_ATTEMPTS attempts to replace a file fail, because other compactors were faster.
    """

    def __init__(self, objects: Objects, archive: str, analytics: str, clock: Callable[[], float]) -> None:
        """Create a compactor. `archive` and `analytics` are the names of the buckets."""
        self._objects, self._archive, self._analytics, self._clock = objects, archive, analytics, clock

    def run(
        self,
        in_time: Callable[[], bool] = lambda: True,
        days: Sequence[str] | None = None,
        *,
        report_lag: Callable[[int], None] = lambda _: None,
    ) -> Compaction:
        """Merge the pending sources of `days`, such as `2026-01-31`; by default of all days that are not closed.

        A run merges the sources of a day in chunks. If `in_time` returns false, the run stops before the next chunk,
        and the next run continues. If some days fail, the run merges the other days, and then raises the first error.

        By default, a run also closes each day that is older than LATE_DAYS and has no pending source.

        `report_lag` receives the age in seconds of the oldest source that is not merged yet, including sources of
        failed days. The age is 0 if all sources are merged.
        """
        sources = entries = lag = 0
        failure: Exception | None = None
        today = date.fromisoformat(day_of(int(self._clock())))
        for day in self._open_days(today) if days is None else days:
            chunk: list[ListedObject] = []
            is_stopped = False
            try:
                while (chunk := self._pending(day)) and not (is_stopped := not in_time()):
                    entries += self._merge(day, chunk)
                    sources += len(chunk)
                if not chunk and days is None and day < f"{today - timedelta(days=LATE_DAYS)}":
                    self._objects.put(self._analytics, f"{MANIFESTS}{day}{_CLOSED}", b"", "text/plain")
            except Exception as error:  # of any kind: one damaged day must not block the later ones
                failure = failure or error
            if chunk:
                oldest = min(source.changed.timestamp() for source in chunk)
                lag = max(lag, 1, int(self._clock() - oldest))
            if is_stopped:
                break
        report_lag(lag)
        if failure:
            raise failure
        return Compaction(sources, entries)

    def days(self) -> list[str]:
        """Return all days that have sources, including closed days. Costs one request for each 1,000 sources."""
        return sorted({_day_of_source(source.key) for source in self._objects.list_objects(self._archive, ARCHIVED)})

    def forget(self, day: str) -> None:
        """Delete the manifest of a day, so that a run for this day merges all its sources again."""
        self._objects.delete(self._analytics, [_manifest_key(day)])

    def _open_days(self, today: date) -> list[str]:
        """Return the days from the first source to today that are not closed, oldest first.

        Costs one request for the first source, and one for each 500 days.
        """
        first = next(self._objects.list_objects(self._archive, ARCHIVED), None)
        if first is None:
            return []
        closed = {listed.key for listed in self._objects.list_objects(self._analytics, MANIFESTS)}
        oldest = date.fromisoformat(_day_of_source(first.key))
        days = [f"{oldest + timedelta(days=age)}" for age in range((today - oldest).days + 1)]
        return [day for day in days if f"{MANIFESTS}{day}{_CLOSED}" not in closed]

    def _pending(self, day: str) -> list[ListedObject]:
        """Return the next chunk of a day: the first sources that its manifest does not list. CHUNK_BYTES and
        CHUNK_SOURCES limit a chunk. Empty if all sources are merged."""
        done = self._manifest(day)
        chunk: list[ListedObject] = []
        size = 0
        for source in self._sources(day):
            if done.get(source.key) == source.etag:
                continue
            size += source.size
            if chunk and (size > CHUNK_BYTES or len(chunk) == CHUNK_SOURCES):
                break
            chunk.append(source)
        return chunk

    def _sources(self, day: str) -> Iterator[ListedObject]:
        return self._objects.list_objects(self._archive, f"{ARCHIVED}{day.replace('-', '/')}/")

    def _merge(self, day: str, sources: Sequence[ListedObject]) -> int:
        """Merge sources into the Parquet files, and add the sources to the manifest of their day. Return the number of
        entries."""
        for _ in range(MAX_ATTEMPTS):
            try:
                return self._merge_sources(day, [source.key for source in sources])
            except _SourceChanged:
                continue
        raise Unavailable("Another writer is replacing objects of the archive.")

    def _merge_sources(self, day: str, keys: Sequence[str]) -> int:
        """Merge sources as `_merge` does, in one attempt. Raises _SourceChanged if a source was replaced after it was
        read."""

        def read(key: str) -> tuple[str, list[Item]]:
            data, etag = self._objects.load(object_uri(self._archive, key))
            return etag, [json.loads(line) for line in data.splitlines()]

        def check() -> None:
            # Lists all sources of the day, because this costs fewer requests than a HeadObject for each source of a chunk.
            current = {source.key: source.etag for source in self._sources(day)}
            if any(current.get(key) != etag for key, etag in etags.items()):
                raise _SourceChanged

        loaded = dict(zip(keys, map_threads(read, keys, CONCURRENCY), strict=True))
        etags = {key: etag for key, (etag, _) in loaded.items()}
        entries = {_id(entry): entry for _, found in loaded.values() for entry in found}
        partitions: dict[tuple[str, str], dict[str, Item]] = defaultdict(dict)
        for id_, entry in entries.items():
            # A batch that begins before midnight also has entries of the next day.
            partitions[entry["entity"], day_of(entry["at"] // 1000)][id_] = entry
        for (entity, of), changed in partitions.items():
            for table, rows in ((CHANGES, _changes), (CHANGED_FIELDS, _fields)):
                self._merge_rows(table, table.key(entity=entity, day=of), rows(changed), check)
        self._store_manifest(day, self._manifest(day) | etags)
        return len(entries)

    def _merge_rows(
        self, table: ArchiveTable, key: str, rows: Iterator[parquet.Row], check: Callable[[], None]
    ) -> None:
        """Merge rows into the Parquet file `key` of a partition, through `replace_partition`. New rows replace rows
        with the same `change_id`."""
        with work_folder(FOLDERS) as folder:
            new = Path(folder) / "new.jsonl"
            parquet.write_rows(new, rows)
            if not new.stat().st_size:
                return
            replace_partition(
                *(self._objects, self._analytics, key),
                lambda existing, output: parquet.merge(table, new, existing, output),
                check,
            )

    def _manifest(self, day: str) -> dict[str, str]:
        """Return the ETag of each merged source of a day, by key."""
        uri = object_uri(self._analytics, _manifest_key(day))
        try:
            return dict(json.loads(self._objects.load(uri)[0])["sources"])
        except ObjectMissing:
            return {}

    def _store_manifest(self, day: str, sources: Mapping[str, str]) -> None:
        """Replace the manifest of a day.

        If two compactors do this concurrently, one of them overwrites the manifest of the other. The next run then
        repeats the merge of the sources that are missing from the manifest. This does not change any row.
        """
        data = json_of({"sources": dict(sources)})
        self._objects.put(self._analytics, _manifest_key(day), data, "application/json")


def replace_partition(
    objects: Objects,
    bucket: str,
    key: str,
    write: Callable[[Path | None, Path], None],
    check: Callable[[], None],
) -> None:
    """Replace the file of a partition, or create it.

    `write` receives two local paths. The first is a copy of the stored file; `None` if there is none. The second is the
    new file, which `write` must create.

    Calls `check` immediately before it replaces the file. If another writer has changed the file since the start of the
    attempt, the file is not replaced, and another attempt follows. Raises Unavailable after MAX_ATTEMPTS.
    """
    uri = object_uri(bucket, key)
    with work_folder(FOLDERS) as folder:
        existing, output = Path(folder) / "existing.parquet", Path(folder) / "out.parquet"
        for _ in range(MAX_ATTEMPTS):
            stored = objects.head(uri)
            try:
                if stored:
                    objects.copy_to(uri, existing)
                write(existing if stored else None, output)
                check()
                # If another writer changed the file between `head` and `copy_to`, this call raises ObjectChanged.
                objects.replace_file(bucket, key, output, parquet.CONTENT_TYPE, stored.etag if stored else None)
            except (ObjectChanged, ObjectMissing):
                continue
            return
    raise Unavailable("Another compactor is replacing the file.")


class _SourceChanged(Exception):
    """A source was replaced after it was read."""


def _day_of_source(key: str) -> str:
    return "-".join(key.removeprefix(ARCHIVED).split("/")[:3])


def _manifest_key(day: str) -> str:
    return f"{MANIFESTS}{day}.json"


def _id(entry: Item) -> str:
    """Return the id that an archived entry has in the change feed. The id depends on the entry's key in the audit
    table."""
    head, name = (AUDIT, "videoId") if "videoId" in entry else (PLAYLIST_AUDIT, "playlistId")
    at, sequence = sortable(entry["at"]), entry["sequence"].zfill(40)
    return change_id(head.key(**{name: entry[name]}, at=at, sequence=sequence))


def _common(id_: str, entry: Item) -> dict[str, Any]:
    """Return the columns that rows of `changes` and rows of `changed_fields` have in common."""
    return {
        "change_id": id_,
        "video_id": entry.get("videoId"),
        "playlist_id": entry.get("playlistId"),
        "changed_at": entry["at"],
        "action": entry["action"],
        "author_kind": entry["by"]["kind"],
        "author": entry["by"]["id"],
    }


def _changes(entries: Mapping[str, Item]) -> Iterator[parquet.Row]:
    """Yield a row of `changes` for each entry."""
    for id_, entry in entries.items():
        yield _common(id_, entry) | {
            "person_id": entry.get("personId"),
            "region": entry.get("region"),
            "language": entry.get("language"),
            "kind": entry.get("kind"),
            "correlation_id": entry.get("correlationId"),
            "sequence": entry["sequence"],
            "version": entry.get("version"),
            "attempt": entry.get("attempt"),
            "fields": len(entry.get("changes", ())) + entry.get("omitted", 0),
        }


def _fields(entries: Mapping[str, Item]) -> Iterator[parquet.Row]:
    """Yield a row of `changed_fields` for each recorded field of each entry."""
    for id_, entry in entries.items():
        for change in entry.get("changes", ()):
            values = {
                name: change[side] if isinstance(change[side], str) else json_of(change[side]).decode()
                for name, side in (("old_value", "from"), ("new_value", "to"))
                if side in change
            }
            yield _common(id_, entry) | {"field": change["field"]} | values
