"""Compaction of the archive: every archived change is in exactly one row, whatever fails, repeats or runs
concurrently."""

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from moto.core.models import botocore_stubber

from functions.compactor import handler
from local.testbed.harness import NOW, Clock, Context, FakeResources
from local.testbed.lean_moto import create_buckets
from shared.archive import compactor as module
from shared.archive import parquet
from shared.archive.compactor import Compaction, Compactor
from shared.archive.snapshots import FILES, SUMMARY
from shared.archive_tables import ARCHIVED_ENTITIES, CHANGED_FIELDS, CHANGES, EXPORTS, MANIFESTS, ArchiveTable
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects, object_uri
from shared.core.attributes import Item
from shared.core.errors import Unavailable
from shared.core.periods import DAY_SECONDS, day_of, start_of
from shared.feed.change import change_id
from shared.history.entries import _OF_A_VIDEO, FIELDS, sortable
from shared.history.trail import ARCHIVED, Archive
from shared.schema import AUDIT
from shared.temporary import work_folder
from tests.integration.faults import FaultLine, Incident, Killed, lose_request, lose_response
from tests.logs import metrics

ARCHIVE, ANALYTICS = "archive", "analytics"
MIDNIGHT = start_of(day_of(NOW)) * 1000
"""Start of the current day, in epoch milliseconds."""


def entry(sequence: int, at: int = MIDNIGHT + 1000, **more: Any) -> Item:
    """Return an audit entry of a video."""
    return {
        "sequence": str(sequence),
        "videoId": "v1",
        "entity": "video",
        "action": "changed",
        "by": {"kind": "person", "id": "alice"},
        "at": at,
        "version": sequence,
        "changes": [{"field": "/title", "from": "A", "to": f"Title {sequence}"}, {"field": "/year", "to": 1999}],
    } | more


class CompactionTestbed:
    """Buckets for the archive and the SQL tables, with compactors that share a clock."""

    def __init__(self, objects: Objects, folder: Path) -> None:
        self.objects, self.clock, self._folder = objects, Clock(), folder
        self.lags: list[int] = []
        """Lags that the runs reported."""
        self._fallible = Objects(objects.client, attempts=1)
        """Client without retries, so that each lost request stops a run."""

    def archive(self, *entries: Item) -> None:
        """Archive a batch, as the audit function does."""
        Archive(self.objects, ARCHIVE).write(entries)

    def compactor(self, *, fallible: bool = False) -> Compactor:
        return Compactor(self._fallible if fallible else self.objects, ARCHIVE, ANALYTICS, self.clock)

    def run(self, in_time: Callable[[], bool] = lambda: True) -> Compaction:
        return self.compactor().run(in_time, report_lag=self.lags.append)

    def files(self, table: ArchiveTable) -> list[str]:
        """Return the keys of a table's files."""
        return [found.key for found in self.objects.list_objects(ANALYTICS, table.prefix)]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query of the tables."""
        relations = {table.name: self._relation(table) for table in (CHANGES, CHANGED_FIELDS)}
        views = ", ".join(f"{name} AS ({relation})" for name, relation in relations.items())
        with duckdb.connect(":memory:") as engine:
            return engine.execute(f"WITH {views} {sql}").fetchall()

    def _relation(self, table: ArchiveTable) -> str:
        for key in self.files(table):
            file = self._folder / key
            file.parent.mkdir(parents=True, exist_ok=True)
            self.objects.copy_to(object_uri(ANALYTICS, key), file)
        return f"SELECT * FROM read_parquet('{self._folder}/{table.prefix}*/*/*.parquet', hive_partitioning = true)"

    def sequences(self) -> list[int]:
        """Return the sequence numbers of all rows. Asserts that `changed_fields` has exactly the two fields of each
        change."""
        fields = self.rows("SELECT change_id, count(*) FROM changed_fields GROUP BY 1")
        assert {count for _, count in fields} == {2}
        assert {id_ for id_, _ in fields} == {id_ for (id_,) in self.rows("SELECT change_id FROM changes")}
        return [int(sequence) for (sequence,) in self.rows("SELECT sequence FROM changes ORDER BY sequence::bigint")]


@pytest.fixture
def compaction(objects: Objects, tmp_path: Path) -> CompactionTestbed:
    """Return a testbed with empty buckets."""
    create_buckets(ARCHIVE, ANALYTICS)
    return CompactionTestbed(objects, tmp_path)


@pytest.mark.slow
def test_row_has_all_values_of_its_entry(compaction: CompactionTestbed) -> None:
    compaction.archive(
        entry(7, MIDNIGHT + 1234, correlationId="c1", omitted=3),
        entry(8, videoId=None, playlistId="p1", entity="playlist", changes=[{"field": "/t", "from": None, "to": "é"}])
        | {"by": {"kind": "job", "id": "job:probe"}},
    )
    compaction.run()
    day = day_of(NOW)
    id_ = change_id(AUDIT.key(videoId="v1", at=sortable(MIDNIGHT + 1234), sequence="7".zfill(40)))
    video, playlist = compaction.rows(
        "SELECT change_id, video_id, playlist_id, epoch_ms(changed_at), action, author_kind, author, correlation_id, "
        "version, fields, entity, day::varchar FROM changes ORDER BY sequence"
    )
    assert video == (*(id_, "v1", None, MIDNIGHT + 1234, "changed", "person", "alice", "c1", 7, 5, "video", day),)
    assert playlist[1:3] + playlist[5:7] == (None, "p1", "job", "job:probe")
    assert compaction.rows("SELECT change_id, field, old_value, new_value FROM changed_fields ORDER BY field") == [
        (playlist[0], "/t", "null", "é"),
        (id_, "/title", "A", "Title 7"),
        (id_, "/year", None, "1999"),
    ]


def test_entities_of_the_partitions_are_those_of_audit_entries() -> None:
    described = {describe.args[0] for describe in _OF_A_VIDEO.values() if hasattr(describe, "args")}
    assert set(ARCHIVED_ENTITIES) == described | {"video", "rating", "job", "playlist"}
    assert {"sequence", "videoId", "playlistId", "entity", "by", "at", "changes"} <= set(FIELDS)


@pytest.mark.slow
def test_compactor_writes_one_file_for_each_partition(compaction: CompactionTestbed) -> None:
    yesterday = MIDNIGHT - 1
    compaction.archive(entry(1, yesterday), entry(2), entry(3, entity="credit", personId="nm1"))
    assert compaction.run() == Compaction(sources=1, entries=3)
    assert compaction.lags == [0]
    days = day_of(yesterday // 1000), day_of(NOW)
    assert compaction.files(CHANGES) == sorted(
        [
            CHANGES.key(entity="credit", day=days[1]),
            CHANGES.key(entity="video", day=days[0]),
            CHANGES.key(entity="video", day=days[1]),
        ]
    )
    assert compaction.sequences() == [1, 2, 3]


def _repeated(compaction: CompactionTestbed) -> None:
    compaction.archive(entry(1), entry(2))


def _in_another_source(compaction: CompactionTestbed) -> None:
    compaction.archive(entry(2), entry(3))


def _shorter(compaction: CompactionTestbed) -> None:
    compaction.archive(entry(1))


def _of_an_earlier_day(compaction: CompactionTestbed) -> None:
    compaction.archive(entry(3, MIDNIGHT - 1))


def _without_manifest(compaction: CompactionTestbed) -> None:
    compaction.objects.delete_prefix(ANALYTICS, MANIFESTS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (_repeated, [1, 2]),
        (_in_another_source, [1, 2, 3]),
        (_shorter, [1, 2]),
        (_of_an_earlier_day, [1, 2, 3]),
        (_without_manifest, [1, 2]),
    ],
)
def test_change_has_one_row_after_late_and_repeated_batches(
    compaction: CompactionTestbed, later: Callable[[CompactionTestbed], None], expected: Sequence[int]
) -> None:
    compaction.archive(entry(1), entry(2))
    for _ in range(2):
        compaction.run()
    later(compaction)
    for _ in range(2):
        compaction.run()
    assert compaction.sequences() == expected


def test_run_without_new_sources_writes_nothing(compaction: CompactionTestbed) -> None:
    compaction.archive(entry(1))
    compaction.run()
    line = FaultLine(compaction.objects.client, transport=botocore_stubber)
    line.arm(lose_request, at=99)
    assert compaction.run() == Compaction(0, 0)
    assert "PutObject" not in line.calls


@pytest.mark.slow
def test_repeated_entry_has_the_values_of_the_newest_source(compaction: CompactionTestbed) -> None:
    compaction.archive(entry(1))
    compaction.run()
    compaction.archive(entry(1, by={"kind": "person", "id": "erased"}))
    compaction.run()
    assert compaction.rows("SELECT author FROM changes") == [("erased",)]
    assert compaction.rows("SELECT DISTINCT author FROM changed_fields") == [("erased",)]


@pytest.mark.slow
@pytest.mark.parametrize("incident", [lose_request, lose_response], ids=["before S3", "after S3"])
def test_change_has_one_row_when_each_write_in_turn_stops_the_run(
    compaction: CompactionTestbed, incident: Incident
) -> None:
    line = FaultLine(compaction.objects.client, transport=botocore_stubber)
    compaction.archive(entry(1))
    compaction.run()
    compaction.archive(entry(2))
    line.arm(lose_request, at=99)
    compaction.run()
    writes = [position for position, call in enumerate(line.calls) if call == "PutObject"]
    assert len(writes) == 3, "the files of both tables, and the manifest"
    for number, position in enumerate(writes, 3):
        compaction.archive(entry(number))
        line.arm(incident, at=position)
        with pytest.raises(Unavailable):
            compaction.compactor(fallible=True).run()
        line.disarm()
        compaction.run()
    assert compaction.sequences() == [1, 2, 3, 4, 5]


@pytest.mark.slow
@pytest.mark.parametrize("first", [True, False], ids=["new file", "existing file"])
def test_two_concurrent_compactors_store_each_change_once(
    compaction: CompactionTestbed, first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not first:
        compaction.archive(entry(1))
        compaction.run()
    compaction.archive(entry(2))
    merge = parquet.merge

    def overtaken(*arguments: Any) -> None:
        merge(*arguments)
        if not overtakers:
            return
        overtakers.pop()
        # Another compactor merges a further source, after this one has read the file and before it writes.
        compaction.archive(entry(3))
        compaction.run()

    overtakers = [1]
    monkeypatch.setattr(parquet, "merge", overtaken)
    compaction.run()
    assert not overtakers
    compaction.run()
    assert compaction.sequences() == ([2, 3] if first else [1, 2, 3])


@pytest.mark.slow
def test_rows_of_a_source_are_not_overwritten_by_a_run_that_read_it_before_its_replacement(
    compaction: CompactionTestbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    compaction.archive(entry(1))
    write_rows, merges = parquet.write_rows, iter([True])

    def overtaken(*arguments: Any) -> None:
        write_rows(*arguments)
        if next(merges, False):
            # The source is replaced, and another compactor merges it and writes the manifest.
            compaction.archive(entry(1, by={"kind": "person", "id": "erased-0123456789abcdef"}))
            compaction.run()

    def stop(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(parquet, "write_rows", overtaken)
    slow = compaction.compactor()
    monkeypatch.setattr(slow, "_store_manifest", stop)
    with pytest.raises(Killed):
        slow.run()
    for table in ("changes", "changed_fields"):
        assert compaction.rows(f"SELECT DISTINCT author FROM {table}") == [("erased-0123456789abcdef",)]
    assert compaction.run() == Compaction(0, 0)


def test_source_that_becomes_longer_after_its_listing_is_read_whole(compaction: CompactionTestbed) -> None:
    compaction.archive(entry(1))
    compactor = compaction.compactor()
    listed = compactor._pending(day_of(NOW))
    compaction.archive(entry(1, by={"kind": "person", "id": "a" * 40}), entry(2))
    assert compactor._merge(day_of(NOW), listed) == 2
    assert compaction.run() == Compaction(0, 0)
    assert compaction.sequences() == [1, 2]


@pytest.mark.slow
def test_damaged_day_blocks_no_later_day_and_has_a_lag(compaction: CompactionTestbed) -> None:
    compaction.archive(entry(1, MIDNIGHT - 1))
    (damaged,) = compaction.objects.list_objects(ARCHIVE, ARCHIVED)
    compaction.archive(entry(2))
    compaction.objects.put(ARCHIVE, damaged.key, b"{", "")
    compaction.clock.now = next(compaction.objects.list_objects(ARCHIVE, ARCHIVED)).changed.timestamp() + 7200
    with pytest.raises(json.JSONDecodeError):
        compaction.compactor().run(days=compaction.compactor().days(), report_lag=compaction.lags.append)
    assert compaction.sequences() == [2]
    assert compaction.lags == [7200]


def test_function_emits_the_lag_of_a_damaged_day_and_then_the_age_of_snapshots_that_fail(
    compaction: CompactionTestbed, table: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compaction.archive(entry(1))
    (damaged,) = compaction.objects.list_objects(ARCHIVE, ARCHIVED)
    compaction.objects.put(ARCHIVE, damaged.key, b"{", "")
    resources = FakeResources(table, compaction.clock, objects=compaction.objects)
    handle = resources.make(handler.lambda_handler)
    assert Context.get_remaining_time_in_millis() < 1000 * handler.SECONDS_TO_STOP
    handle({}, Context())  # which does not read the damaged object
    for name in (SUMMARY, FILES):
        compaction.objects.put(ANALYTICS, f"{EXPORTS}x/{name}", b"{", "")
    monkeypatch.setattr(Context, "get_remaining_time_in_millis", lambda _: 900_000)
    with pytest.raises(json.JSONDecodeError):
        handle({}, Context())
    names = [line.keys() - {"environment"} for line in metrics(capsys)]
    assert names == [{"ArchiveLag"}, {"SnapshotAge"}] * 2


def test_function_deletes_the_files_of_a_killed_run(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", f"{tmp_path}")
    left = tmp_path / f"{module.FOLDERS}{os.getpid()}-x"
    other_user = tmp_path / f"{module.FOLDERS}1-x"
    for folder in (left, other_user):
        folder.mkdir()
    FakeResources(table, Clock()).make(handler.lambda_handler)
    assert list(tmp_path.iterdir()) == [other_user]
    with work_folder(module.FOLDERS) as name:
        assert Path(name).name.startswith(left.name[:-1])


def test_merge_appends_to_existing_rows_without_sorting_them(tmp_path: Path) -> None:
    # Sorting millions of rows would exceed the memory of the function.
    new, existing, output = (tmp_path / name for name in ("new", "existing", "output"))
    rows = [{"change_id": f"c{number}", "changed_at": 9 - number} for number in range(3)]
    parquet.write_rows(new, rows)
    in_order = f"SELECT * FROM {parquet.rows_of(CHANGED_FIELDS, new)}"
    parquet.write_table(CHANGED_FIELDS, existing, in_order, {"unused": "range(1)"})
    parquet.write_rows(new, [{"change_id": f"c{number}", "changed_at": 9 - number} for number in (5, 4, 1)])
    parquet.merge(CHANGED_FIELDS, new, existing, output)
    with duckdb.connect(":memory:") as engine:
        found = engine.execute(f"SELECT change_id FROM read_parquet('{output}')").fetchall()
    assert [id_ for (id_,) in found] == ["c0", "c2", "c5", "c4", "c1"]


def test_compactor_that_is_always_overtaken_gives_up(
    compaction: CompactionTestbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    compaction.archive(entry(1))
    key = CHANGES.key(entity="video", day=day_of(NOW))
    merge = parquet.merge

    def overtaken(table: ArchiveTable, new: Path, existing: Path | None, output: Path) -> None:
        merge(table, new, None, output)
        compaction.objects.put(ANALYTICS, key, output.read_bytes() + bytes(len(writes)), "")
        writes.append(key)

    writes: list[str] = []
    monkeypatch.setattr(parquet, "merge", overtaken)
    with pytest.raises(Unavailable):
        compaction.run()
    assert len(writes) == module.MAX_ATTEMPTS


class TestLongBacklog:
    """Runs that stop before all days are compacted."""

    @pytest.fixture(autouse=True)
    def small_chunks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "CHUNK_SOURCES", 2)

    @pytest.mark.slow
    def test_run_continues_where_the_previous_one_stopped(self, compaction: CompactionTestbed) -> None:
        old = MIDNIGHT - 5 * DAY_SECONDS * 1000
        for sequence in range(1, 6):
            compaction.archive(entry(sequence, old + sequence))
        times = iter([True, False])
        assert compaction.run(lambda: next(times)).sources == 2
        pending = list(compaction.objects.list_objects(ARCHIVE, ARCHIVED))[2:4]
        compaction.clock.now = min(source.changed.timestamp() for source in pending) + 7200
        compaction.lags.clear()
        assert compaction.run(lambda: False) == Compaction(0, 0)
        assert compaction.lags == [7200]
        compaction.clock.now = NOW
        assert compaction.run() == Compaction(3, 3)
        assert compaction.sequences() == [1, 2, 3, 4, 5]

    @pytest.mark.slow
    def test_old_day_is_closed_only_after_all_its_sources(self, compaction: CompactionTestbed) -> None:
        for sequence in range(1, 4):
            compaction.archive(entry(sequence))
        times = iter([True, False])
        compaction.run(lambda: next(times))
        compaction.clock.advance(10 * DAY_SECONDS)
        compaction.run()
        assert compaction.sequences() == [1, 2, 3]
        compaction.archive(entry(4))
        assert compaction.run() == Compaction(0, 0)
        assert compaction.compactor().run(days=compaction.compactor().days()) == Compaction(1, 1)
        assert compaction.sequences() == [1, 2, 3, 4]
