"""Snapshots of all videos, and daily view counts, from exports of the main table.

DynamoDB exports the table to S3 every night. `python -m tools archive snapshot` writes an export in the same format. A
run converts each file of a finished export to a staged Parquet file, and skips files that an earlier run has converted.
When all files are staged, the run writes the SQL tables `videos` and `views`.

Queries never see a part of a snapshot, because each partition of an SQL table is one object, which one conditional
PutObject replaces. The state object is written last. It names the moment of the newest snapshot, so a repeated run, an
older export and a slower concurrent run write nothing:

- A run first reads the ETag of the file that it will replace, and then the state. If the state names the moment of the
  run's export or a later one, the run stops.
- If another run replaces the file after that, the condition of the PutObject is false, and the run reads the state again.

Daily counts are differences between the values of a view counter at the starts of days (shared/views/history.py). The
stream consumer stores the start value of a day seconds after the day's first view, but a failing message can delay it
by days. Until it is stored, views of this day are counted on an earlier day, or on no day. Therefore a day stays open
for OPEN_DAYS after its end. Each snapshot counts all open days again, and replaces their rows.

If no later start value is stored, the count of a day includes all views until the export. This count is too high if the
counter has views of a later day. It is then stored only if no earlier snapshot has counted the day.
"""

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from shared.archive import parquet
from shared.archive.compactor import FOLDERS, replace_partition
from shared.archive_tables import (
    EXPORTS,
    MANIFESTS,
    SNAPSHOT_FIELDS,
    STAGED,
    VIDEOS,
    VIEWS,
    ArchiveColumn,
    ArchiveTable,
)
from shared.aws.s3 import ObjectChanged, ObjectMissing, Objects, object_uri
from shared.core.attributes import AttributeMap, Item, decode_item
from shared.core.changes import json_of
from shared.core.periods import DAY_SECONDS, day_of
from shared.schema import PARTITION_KEY, SORT_KEY, VIDEO, VIEW_COUNTER, VIEW_DAY
from shared.temporary import work_folder
from shared.videos.access import is_purged
from shared.videos.counters import COUNTED
from shared.videos.documents import READ, document

SUMMARY = "manifest-summary.json"
"""Name of the object that DynamoDB writes when an export has finished."""
FILES = "manifest-files.json"
"""Name of the object that lists the files of an export, one JSON object a line."""
STATE = f"{MANIFESTS}snapshots.json"
"""Key of the state object."""
OPEN_DAYS = 6
"""Number of days after the end of a day during which each snapshot counts the views of that day again.

The count uses the start value of the next day, which arrives at most this number of days after the end. The next day's
first view comes within one day. The start value can then wait for one day in the stream, and for four days in the queue
`tallies`."""

_ATTRIBUTES = (*READ, "deletedAt")
"""Attributes of a video's item that are read. All other attributes are ignored."""
_VIDEO, _COUNTER, _START = "video", "counter", "start"
_SUMS = (ArchiveColumn("views", "bigint", ""), ArchiveColumn("watched_ms", "bigint", ""))
_STAGED = ArchiveTable(
    "staged",
    "Rows of one file of an export: videos, view counters, and their values at the starts of days",
    (
        ArchiveColumn("kind", "string", ""),
        *VIDEOS.columns,
        ArchiveColumn("shard", "bigint", ""),
        ArchiveColumn("hour", "string", ""),
        ArchiveColumn("day", "date", ""),
        *_SUMS,
    ),
    (),
)
_COUNTS = ArchiveTable(
    "counts",
    "Views of a video on a day",
    (ArchiveColumn("day", "date", ""), *VIEWS.columns),
    (),
)
_VIDEOS_SQL = """
SELECT v.* EXCLUDE (view_count), coalesce(c.views, 0) AS view_count
FROM staged AS v
LEFT JOIN (SELECT video_id, sum(views)::BIGINT AS views FROM staged WHERE kind = 'counter' GROUP BY video_id) AS c
USING (video_id)
WHERE v.kind = 'video'
"""
_COUNTS_SQL = """
SELECT day, video_id, any_value(category) AS category, greatest(sum(ended - begun), 0)::BIGINT AS views,
    greatest(sum(watched_ended - watched_begun), 0)::BIGINT AS watched_ms
FROM (
    SELECT s.day, s.video_id, s.category, s.views AS begun, s.watched_ms AS watched_begun,
        coalesce(lead(s.views) OVER shards, c.views) AS ended,
        coalesce(lead(s.watched_ms) OVER shards, c.watched_ms) AS watched_ended,
        lead(s.day) OVER shards IS NOT NULL OR coalesce(left(c.hour, 10), '') <= s.day::VARCHAR AS is_ended
    FROM staged AS s JOIN staged AS c USING (video_id, shard)
    WHERE s.kind = 'start' AND c.kind = 'counter'
    WINDOW shards AS (PARTITION BY s.video_id, s.shard ORDER BY s.day)
)
WHERE day > '{final}' AND day < '{today}'
GROUP BY day, video_id
HAVING bool_and(is_ended) OR day >= '{counted}'
ORDER BY day
"""
_NEVER = "0001-01-01"
"""Day before all days with views."""


class DamagedExport(Exception):
    """A data file of an export does not have the number of items that the export's manifest lists."""


class SnapshotRun(NamedTuple):
    """Result of a run."""

    snapshots: int
    """Number of snapshots that were written."""
    files: int
    """Number of data files that were converted."""


class TableExport(NamedTuple):
    """Finished export of the main table."""

    folder: str
    """Key prefix of the export's objects, with a slash at the end."""
    at: int
    """Moment of the exported state, in epoch seconds."""
    files: tuple[tuple[str, int], ...]
    """Name of each data file, and the number of its items."""

    @property
    def staged(self) -> str:
        """Key prefix of the staged files, with a slash at the end."""
        return f"{STAGED}{self.folder.removeprefix(EXPORTS)}"

    def staged_key(self, name: str) -> str:
        """Return the key of the staged file that a data file is converted to."""
        return f"{self.staged}{name}.parquet"


class _State(NamedTuple):
    since: int
    """Time at which the state was first stored, in epoch seconds."""
    at: int
    """Moment of the newest snapshot, in epoch seconds; 0 before the first one."""
    views: str
    """Last day whose view counts are final: no later run changes them."""
    etag: str | None


class Snapshots:
    """Converter of exports in the analytics bucket into the tables `videos` and `views`.

    Any number of converters may run concurrently. Methods raise Unavailable if S3 is busy.
    """

    def __init__(self, objects: Objects, analytics: str, clock: Callable[[], float]) -> None:
        """Create a converter. `analytics` is the name of the bucket."""
        self._objects, self._bucket, self._clock = objects, analytics, clock

    def run(self, in_time: Callable[[], bool] = lambda: True) -> SnapshotRun:
        """Convert the finished exports that are newer than the newest snapshot, oldest first.

        Stops before a file, or before a day of `views`, if `in_time` returns false. The next run continues. If the
        conversion of an export fails, the other exports are still converted, and then the first error is raised.
        """
        snapshots = files = 0
        failure: Exception | None = None
        state = self._state()
        for export in self._pending(state.at):
            try:
                missing = self._missing(export)
                while missing and in_time():
                    self._stage(export, *missing.pop(0), state.views)
                    files += 1
                if missing or not in_time():
                    break
                snapshots += self._write(export, in_time)
            except Exception as error:  # of any kind: one damaged export must not block later ones
                failure = failure or error
        if failure:
            raise failure
        return SnapshotRun(snapshots, files)

    def age(self) -> int:
        """Return the seconds since the moment of the newest snapshot. Before the first snapshot, return the seconds since
        the first call of this method or of `run`."""
        state = self._state()
        return max(0, int(self._clock()) - (state.at or state.since))

    def _pending(self, after: int) -> list[TableExport]:
        listed = self._objects.list_objects(self._bucket, EXPORTS)
        summaries = [found.key for found in listed if found.key.endswith(f"/{SUMMARY}")]
        exports = [export for key in summaries if (export := self._export(key))]
        return sorted((export for export in exports if export.at > after), key=lambda export: export.at)

    def _export(self, key: str) -> TableExport | None:
        """Return an export by the key of its summary; `None` if its list of files does not exist yet."""
        folder = key.removesuffix(SUMMARY)
        try:
            summary, files = (
                self._objects.load(object_uri(self._bucket, f"{folder}{name}"))[0] for name in (SUMMARY, FILES)
            )
        except ObjectMissing:
            return None
        at = int(datetime.fromisoformat(json.loads(summary)["exportTime"]).timestamp())
        entries = [json.loads(line) for line in files.splitlines()]
        # The keys in a manifest lack the key prefix that the export's request specified.
        named = ((entry["dataFileS3Key"].rpartition("/")[2], entry["itemCount"]) for entry in entries)
        return TableExport(folder, at, tuple(named))

    def _missing(self, export: TableExport) -> list[tuple[str, int]]:
        """Return the data files of an export that are not staged."""
        staged = {found.key for found in self._objects.list_objects(self._bucket, export.staged)}
        return [(name, count) for name, count in export.files if export.staged_key(name) not in staged]

    def _stage(self, export: TableExport, name: str, count: int, final: str) -> None:
        """Convert a data file of an export. Raises DamagedExport if the file does not have `count` items.

        `final` is the last day whose view counts are final. Omits the start values of this day and of all earlier days.
        """
        items = 0

        def read(file: Path) -> Iterator[parquet.Row]:
            nonlocal items
            with gzip.open(file) as lines:
                for line in lines:
                    items += 1
                    # Only a part of the items is needed, and parsing takes longer than this search.
                    if b'"VIEWS#' in line or (b'"VIDEO#' in line and b'"#META"' in line):
                        yield from _rows(orjson.loads(line)["Item"], export.at, final)

        with work_folder(FOLDERS) as folder:
            source, rows, output = (Path(folder) / part for part in ("source.json.gz", "rows.jsonl", "staged.parquet"))
            self._objects.copy_to(object_uri(self._bucket, f"{export.folder}data/{name}"), source)
            parquet.write_rows(rows, read(source))
            if items != count:
                raise DamagedExport(f"{export.folder}data/{name} has {items} items, but its manifest lists {count}.")
            parquet.write_table(_STAGED, output, "SELECT * FROM rows", {"rows": parquet.rows_of(_STAGED, rows)})
            self._objects.put_file(self._bucket, export.staged_key(name), output, parquet.CONTENT_TYPE)

    def _write(self, export: TableExport, in_time: Callable[[], bool]) -> bool:
        """Write the tables from the staged files of an export. Return whether the run finished: `False` if `in_time`
        returned false, if a concurrent run was faster, or if the export was deleted."""
        state = self._state()

        def check() -> None:
            # An erasure deletes the summary before it erases the id from the snapshots.
            summary = object_uri(self._bucket, f"{export.folder}{SUMMARY}")
            if self._state().at >= export.at or not self._objects.head(summary):
                raise _Superseded

        with work_folder(FOLDERS) as path:
            folder = Path(path)
            staged, counts = self._staged(export, folder), folder / "counts.parquet"
            sql = _COUNTS_SQL.format(final=state.views, today=day_of(export.at), counted=day_of(state.at))
            final = max(state.views, day_of(export.at - (OPEN_DAYS + 1) * DAY_SECONDS))
            try:
                replace_partition(
                    *(self._objects, self._bucket, VIDEOS.key(day=day_of(export.at))),
                    lambda _, output: parquet.write_table(VIDEOS, output, _VIDEOS_SQL, {"staged": staged}),
                    check,
                )
                parquet.write_table(_COUNTS, counts, sql, {"staged": staged})
                for (day,) in parquet.select(counts, "SELECT DISTINCT day FROM file ORDER BY day"):
                    if not in_time():
                        # The next run skips the closed days that this run has written.
                        written = f"{day - timedelta(days=1)}"
                        self._store(state._replace(views=max(state.views, min(final, written))))
                        return False
                    self._write_views(counts, f"{day}", check)
                self._store(state._replace(at=export.at, views=final))
            except (_Superseded, ObjectChanged):
                return False
        return True

    def _staged(self, export: TableExport, folder: Path) -> str:
        """Copy the staged files of an export to a folder. Returns an SQL expression for their rows."""
        names = [folder / f"staged-{number}.parquet" for number in range(len(export.files) + 1)]
        # An empty file, because an export of an empty table can have no files.
        empty = folder / "empty.jsonl"
        parquet.write_rows(empty, ())
        parquet.write_table(_STAGED, names[0], "SELECT * FROM rows", {"rows": parquet.rows_of(_STAGED, empty)})
        for file, (name, _) in zip(names[1:], export.files, strict=True):
            self._objects.copy_to(object_uri(self._bucket, export.staged_key(name)), file)
        listed = ", ".join(f"'{file}'" for file in names)
        return f"read_parquet([{listed}])"

    def _write_views(self, counts: Path, day: str, check: Callable[[], None]) -> None:
        """Replace rows in the file of a day: the rows of the videos in `counts`. A video without views on this day gets
        no row. Rows of other videos are unchanged."""

        def write(existing: Path | None, output: Path) -> None:
            inputs = {"counted": f"(FROM read_parquet('{counts}') WHERE day = '{day}')"}
            columns = ", ".join(column.name for column in VIEWS.columns)
            query = f"SELECT {columns} FROM counted WHERE views > 0 OR watched_ms > 0"
            if existing:
                inputs["existing"] = f"read_parquet('{existing}')"
                kept = "FROM existing WHERE video_id NOT IN (SELECT video_id FROM counted)"
                query = f"SELECT {columns} {kept} UNION ALL {query}"
            parquet.write_table(VIEWS, output, query, inputs)

        replace_partition(self._objects, self._bucket, VIEWS.key(day=day), write, check)

    def _state(self) -> _State:
        """Return the stored state. The first call stores it."""
        try:
            data, etag = self._objects.load(object_uri(self._bucket, STATE))
        except ObjectMissing:
            state = _State(int(self._clock()), 0, _NEVER, None)
            with suppress(ObjectChanged):  # a concurrent run has stored it
                self._store(state)
            return self._state()
        return _State(**json.loads(data), etag=etag)

    def _store(self, state: _State) -> None:
        """Replace the state. Raises ObjectChanged if a concurrent run has replaced it."""
        with work_folder(FOLDERS) as folder:
            file = Path(folder) / "state.json"
            file.write_bytes(json_of({"since": state.since, "at": state.at, "views": state.views}))
            self._objects.replace_file(self._bucket, STATE, file, "application/json", state.etag)


class _Superseded(Exception):
    """The state already names the moment of this export or of a newer export, or the export was deleted."""


def _rows(attributes: AttributeMap, at: int, final: str) -> Iterator[parquet.Row]:
    """Yield the staged rows of an item. Only videos, view counters and start values of days have rows."""
    pk, sk = attributes[PARTITION_KEY]["S"], attributes[SORT_KEY]["S"]
    if pk.startswith(VIDEO.partition_prefix):
        if sk == VIDEO.sk:
            video = decode_item({name: attributes[name] for name in _ATTRIBUTES if name in attributes})
            if not is_purged(video, at):
                yield _video_row(video)
    elif pk.startswith(VIEW_COUNTER.partition_prefix):
        name = pk.removeprefix(VIEW_COUNTER.partition_prefix)
        if sk == VIEW_COUNTER.sk:
            counter = decode_item(attributes)
            video_id, _, shard = name.rpartition("#")
            yield _sums_row(_COUNTER, video_id, int(shard), counter) | {"hour": counter.get("hour")}
        elif VIEW_DAY.has_sort_key(sk) and (day := sk.removeprefix(VIEW_DAY.sort_prefix)) > final:
            item = decode_item(attributes)
            for shard, sums in item["starts"].items():
                yield _sums_row(_START, name, int(shard), sums) | {"day": day, "category": item.get("category")}


def _sums_row(kind: str, video_id: str, shard: int, sums: Item) -> dict[str, Any]:
    views = sum(sums.get(name, 0) for name in COUNTED)
    return {"kind": kind, "video_id": video_id, "shard": shard, "views": views, "watched_ms": sums.get("watched", 0)}


def _video_row(video: Any) -> dict[str, Any]:
    """Return the row of a video, with the fields of its document as its owner sees them."""
    shown = document(video)
    if "deletedAt" in video:
        shown["deletedAt"] = video["deletedAt"]
    row: dict[str, Any] = {"kind": _VIDEO}
    for field, column in zip(SNAPSHOT_FIELDS, VIDEOS.columns, strict=True):
        value = shown.get(field.name)
        if value is None:
            continue
        if column.type == "timestamp":
            value *= 1000
        elif column.type == "string" and not isinstance(value, str):
            value = json_of(value).decode()
        row[column.name] = value
    return row
