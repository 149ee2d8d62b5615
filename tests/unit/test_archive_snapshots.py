"""Snapshots of videos and daily view counts, from exports of the table. They are exact, whatever fails, repeats or runs
concurrently."""

import gzip
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import duckdb
import pytest
from moto.core.models import botocore_stubber

from local.testbed.harness import NOW, Api, Clock
from local.testbed.lean_moto import create_buckets
from shared.archive import compactor, parquet
from shared.archive import snapshots as module
from shared.archive.compactor import Compactor
from shared.archive.snapshots import STATE, DamagedExport, SnapshotRun, Snapshots
from shared.archive_tables import EXPORTS, MANIFESTS, STAGED, VIDEOS, VIEWS, ArchiveTable
from shared.aws.s3 import Objects, object_uri
from shared.core.attributes import Item, encode_item
from shared.core.errors import Unavailable
from shared.core.periods import DAY_SECONDS, day_of, hour_of, start_of
from shared.schema import JOB, UPLOAD, VIDEO, VIEW_COUNTER, VIEW_DAY, VIEW_HOUR, WEBHOOK
from tests.integration.faults import FaultLine, Incident, lose_request, lose_response
from tools.__main__ import main
from tools.erasing import Eraser, ErasureReceipt
from tools.progress import Bars
from tools.snapshotting import snapshot, write_export

ANALYTICS = "analytics"
TODAY = start_of(day_of(NOW))
"""Start of the day of the export, in epoch seconds."""
AT = TODAY + 4500
DAYS = [day_of(TODAY - ago * DAY_SECONDS) for ago in range(6)]
"""Days, latest first: `DAYS[0]` is the day of the export, and `DAYS[1]` the day before."""


def video(number: int, **more: Any) -> Item:
    """Return the stored item of a video."""
    id_ = f"v{number}"
    return {
        **VIDEO.key(videoId=id_),
        "videoId": id_,
        "userId": "alice",
        "title": f"Title {number}",
        "status": "ready",
        "visibility": "public",
        "createdAt": NOW,
        "updatedAt": NOW + 1,
        "version": 3,
        "schemaVersion": 1,
        "resolutions": {},
        "metadata": {},
        "thumbnails": {},
    } | more


def counter(number: int, views: int, hour: str | None = None, shard: int = 0, **more: int) -> Item:
    """Return a shard of a view counter whose last view was in `hour`."""
    key = VIEW_COUNTER.key(videoId=f"v{number}", shard=shard)
    return {**key, "views": views, **({"hour": hour} if hour else {}), **more}


def start(number: int, day: str, *views: int, **more: Any) -> Item:
    """Return the item that stores the values of a view counter's shards at the start of a day."""
    starts = {str(shard): {"views": sum_, "keyed": 0, "watched": sum_ * 10} for shard, sum_ in enumerate(views)}
    return {**VIEW_DAY.key(videoId=f"v{number}", day=day), "videoId": f"v{number}", "starts": starts} | more


class SnapshotTestbed:
    """The analytics bucket, with converters that share a clock."""

    def __init__(self, objects: Objects, folder: Path) -> None:
        self.objects, self.clock, self._folder = objects, Clock(AT + 3600), folder
        self._fallible = Objects(objects.client, attempts=1)
        """Client without retries, so that each lost request stops a run."""

    def export(
        self, *files: Iterable[Item | Mapping[str, Any]], at: int = AT, is_finished: bool = True, lost: int = 0
    ) -> str:
        """Write an export as DynamoDB does, and return its key prefix. The first file contains `lost` items fewer than
        its manifest states."""
        prefix = f"{EXPORTS}{at}/AWSDynamoDB/0123-abc/"
        self.objects.put(ANALYTICS, f"{prefix}_started", b"", "")
        listed: list[dict[str, Any]] = []
        for number, items in enumerate(files):
            lines = [{"Item": item if isinstance(item["pk"], dict) else encode_item(item)} for item in items]
            name = f"data/{number}.json.gz"
            text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
            self.objects.put(ANALYTICS, prefix + name, gzip.compress(text), "")
            # The keys in the manifest lack the prefix that the request named.
            key = f"AWSDynamoDB/0123-abc/{name}"
            listed.append({"itemCount": len(lines) + (lost if number == 0 else 0), "dataFileS3Key": key})
        manifest = b"".join(json.dumps(file).encode() + b"\n" for file in listed)
        if is_finished:
            self.objects.put(ANALYTICS, f"{prefix}manifest-files.json", manifest, "")
        moment = f"{day_of(at)}T{at % DAY_SECONDS // 3600:02}:{at % 3600 // 60:02}:{at % 60:02}.028Z"
        summary = {"exportTime": moment, "outputFormat": "DYNAMODB_JSON"}
        self.objects.put(ANALYTICS, f"{prefix}manifest-summary.json", json.dumps(summary).encode(), "")
        return prefix

    def snapshots(self, *, fallible: bool = False) -> Snapshots:
        return Snapshots(self._fallible if fallible else self.objects, ANALYTICS, self.clock)

    def run(self, in_time: Callable[[], bool] = lambda: True) -> SnapshotRun:
        return self.snapshots().run(in_time)

    def keys(self, prefix: str) -> list[str]:
        return [found.key for found in self.objects.list_objects(ANALYTICS, prefix)]

    def rows(self, table: ArchiveTable, columns: str) -> list[tuple[Any, ...]]:
        """Return columns of all rows of a table."""
        for key in self.keys(table.prefix):
            file = self._folder / key
            file.parent.mkdir(parents=True, exist_ok=True)
            self.objects.copy_to(object_uri(ANALYTICS, key), file)
        files = f"read_parquet('{self._folder}/{table.prefix}*/*.parquet', hive_partitioning = true)"
        with parquet._engine(self._folder) as engine:
            return engine.execute(f"SELECT {columns} FROM {files} ORDER BY ALL").fetchall()

    def views(self) -> list[tuple[str, str, int]]:
        """Return the daily counts."""
        return [(day, id_, views) for day, id_, views in self.rows(VIEWS, "day::varchar, video_id, views")]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield one engine for all tests, because opening an engine takes longer than a query."""
    with parquet._engine(tmp_path_factory.mktemp("duckdb")) as engine:
        yield engine


@pytest.fixture
def testbed(
    objects: Objects, tmp_path: Path, engine: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> SnapshotTestbed:
    """Return a testbed with an empty bucket."""
    monkeypatch.setattr(parquet, "_engine", lambda _: nullcontext(engine))
    create_buckets(ANALYTICS)
    return SnapshotTestbed(objects, tmp_path)


def test_row_of_a_video_has_the_fields_of_the_document_and_no_other_attribute(testbed: SnapshotTestbed) -> None:
    whole = video(
        *(1,),
        tags={"b", "a"},
        metadata={"rate": 1.5},
        frameRate=29.97,
        duration=5000,
        publishAt=NOW + 9,
        source={
            "uploadId": "up-1",
            "contentType": "x",
            "fileSize": 1,
            "arrivedAt": 2,
            "made": {"240p": "s3://a/b"},
        },
        description="é\n" * 190_000,
        updatedBy="carol",
        writeId="w-1",
    )
    testbed.export([whole], [counter(1, 5, keyed=2), counter(1, 4, shard=1)])
    testbed.run()
    names = "user_id, title, status, epoch_ms(publish_at), duration, frame_rate, tags, metadata, resolutions, version"
    assert testbed.rows(VIDEOS, f"{names}, view_count, day::varchar, len(description), expires_at") == [
        (
            *("alice", "Title 1", "ready", (NOW + 9) * 1000, 5000, 29.97, '["a","b"]', '{"rate":1.5}'),
            *('{"240p":"s3://a/b"}', 3, 11, DAYS[0], 380_000, None),
        )
    ]
    assert testbed.keys(VIDEOS.prefix) == [VIDEOS.key(day=DAYS[0])]
    (row,) = testbed.rows(VIDEOS, "*")
    assert not {"up-1", "carol", "w-1"} & {str(value) for value in row}


def test_snapshot_has_every_video_until_its_permanent_deletion(testbed: SnapshotTestbed) -> None:
    stored: list[Item] = [
        {"visibility": "private"},
        {"status": "deleted", "deletedAt": AT - 9, "purgeAt": AT + 1},
        {"status": "failed"},
        {"expiresAt": AT - 9, "purgeAt": AT + 9},
    ]
    purged = video(9, status="deleted", deletedAt=9, purgeAt=AT)
    testbed.export([purged, *(video(number, **more) for number, more in enumerate(stored))])
    testbed.run()
    times = [tuple(1000 * more[name] if name in more else None for name in ("deletedAt", "purgeAt")) for more in stored]
    expected = [(f"v{number}", *both) for number, both in enumerate(times)]
    assert testbed.rows(VIDEOS, "video_id, epoch_ms(deleted_at), epoch_ms(purge_at)") == expected


ALL_TYPES: Item = {
    "s": {"S": "text"},
    "n": {"N": "1E+30"},
    "b": {"B": "AAE="},
    "bool": {"BOOL": True},
    "null": {"NULL": True},
    "l": {"L": [{"M": {"x": {"NS": ["1"]}}}]},
    "ss": {"SS": ["a"]},
    "ns": {"NS": ["1", "2.5"]},
    "bs": {"BS": ["AAE="]},
}


def test_attributes_of_all_types_are_read_or_ignored(testbed: SnapshotTestbed) -> None:
    metadata = {"N": 1e30, "B": True, "E": None, "L": [{"a": -1}, "b"], "I": 2**60}
    testbed.export([ALL_TYPES | encode_item(video(1, metadata=metadata, duration=0)) | {"pictures": {"M": {}}}])
    testbed.run()
    ((text, duration),) = testbed.rows(VIDEOS, "metadata, duration")
    assert (json.loads(text), duration) == (metadata, 0)


def test_no_other_item_is_in_a_file_that_queries_or_the_next_step_read(testbed: SnapshotTestbed) -> None:
    secret = {"title": "secret-1", "videoId": "v1", "views": 1}
    others = [
        {**key, **secret}
        for key in (
            *(UPLOAD.key(videoId="v1", uploadId="u"), JOB.key(videoId="v1", kind="probe"), WEBHOOK.key(webhookId="w")),
            {"pk": "IDEMPOTENCY#VIDEO#", "sk": "#META"},
            {"pk": "REVERT#VIEWS#", "sk": "#META"},
            VIEW_HOUR.key(videoId="v1", hour="2025-06-15T10"),
        )
    ]
    testbed.export([video(1), *others])
    testbed.run()
    assert testbed.rows(VIDEOS, "title, view_count") == [("Title 1", 0)]
    assert testbed.keys(VIEWS.prefix) == []
    (staged,) = testbed.keys(STAGED)
    assert b"secret" not in testbed.objects.load(object_uri(ANALYTICS, staged))[0]
    for prefix in ("", *(f"{table.prefix}" for table in (VIDEOS, VIEWS))):
        assert all(key.startswith((EXPORTS, STAGED, MANIFESTS, VIDEOS.prefix)) for key in testbed.keys(prefix))


HOUR_TODAY, HOUR_YESTERDAY = hour_of(TODAY + 60), hour_of(TODAY - 60)


def test_views_of_a_day_are_the_difference_of_the_counter(testbed: SnapshotTestbed) -> None:
    cases: dict[str, tuple[list[Item], list[Item], dict[int, int]]] = {
        "viewed yesterday only": ([start(1, DAYS[1], 10)], [counter(1, 15, HOUR_YESTERDAY)], {1: 5}),
        "viewed again today": (
            [start(2, DAYS[1], 10), start(2, DAYS[0], 14)],
            [counter(2, 15, HOUR_TODAY)],
            {1: 4},
        ),
        "days without views between": (
            [start(3, DAYS[4], 2), start(3, DAYS[1], 10)],
            [counter(3, 15, HOUR_YESTERDAY)],
            {4: 8, 1: 5},
        ),
        "a shard that was written on one day": (
            [start(4, DAYS[2], 0, 7), start(4, DAYS[1], 3)],
            [counter(4, 4, HOUR_YESTERDAY), counter(4, 9, shard=1)],
            {2: 5, 1: 1},
        ),
        "repaired values that decrease": (
            [start(5, DAYS[1], 3), start(5, DAYS[0], 0)],
            [counter(5, 4, HOUR_YESTERDAY, keyed=6)],
            {},
        ),
        "no counted view": ([start(6, DAYS[1], 3)], [counter(6, 3, HOUR_YESTERDAY, owner=1)], {}),
        "imported views": ([], [counter(7, 99)], {}),
        "today is not over": ([start(8, DAYS[0], 3)], [counter(8, 9, HOUR_TODAY)], {}),
    }
    starts = [item for case in cases.values() for item in case[0]]
    testbed.export(starts, [item for case in cases.values() for item in case[1]])
    testbed.run()
    found = testbed.views()
    for number, (name, (_, _, expected)) in enumerate(cases.items(), 1):
        views = {DAYS.index(day): views for day, id_, views in found if id_ == f"v{number}"}
        assert views == expected, name


def test_row_of_views_has_category_and_watch_time(testbed: SnapshotTestbed) -> None:
    items = [start(1, DAYS[1], 3, category="film"), counter(1, 3, HOUR_YESTERDAY, keyed=2, watched=80)]
    testbed.export(items)
    testbed.run()
    assert testbed.rows(VIEWS, "video_id, category, views, watched_ms") == [("v1", "film", 2, 50)]


def _at(day: float) -> int:
    """Return the time `day` days after the start of the first day with views, in epoch seconds."""
    return TODAY + int(day * DAY_SECONDS)


NIGHT = 4500 / DAY_SECONDS
"""Time of the nightly export, in days after midnight."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "exports",
    [
        pytest.param(
            [(1, {0: 10}, 16, 1, {0: 6}), (2, {0: 10, 1: 15}, 20, 1, {0: 5, 1: 5})],
            id="first count includes a view of the next day",
        ),
        pytest.param([(1, {0: 10}, 12, 1, {0: 2}), (2, {0: 10, 1: 10}, 12, 1, {1: 2})], id="corrected count is 0"),
        pytest.param(
            [
                (1, {0: 10}, 15, 0, {0: 5}),
                (3, {0: 10}, 115, 1, {0: 5}),
                (6, {0: 10, 1: 15}, 115, 1, {0: 5, 1: 100}),
            ],
            id="start value is late",
        ),
        pytest.param(
            [
                (1, {0: 10}, 15, 0, {0: 5}),
                (7, {0: 10}, 115, 6, {0: 5}),
                (8, {0: 10, 6: 15}, 115, 6, {0: 5, 6: 100}),
            ],
            id="start value is late when the last day before is closed",
        ),
        pytest.param(
            [(3, {0: 10, 2: 115}, 120, 2, {0: 105, 2: 5}), (6, {0: 10, 1: 15, 2: 115}, 120, 2, {0: 5, 1: 100, 2: 5})],
            id="start value between two stored ones is missing, and arrives within six days",
        ),
        pytest.param(
            [(8, {0: 10, 2: 115}, 120, 2, {0: 105, 2: 5}), (9, {0: 10, 1: 15, 2: 115}, 120, 2, {0: 105, 2: 5})],
            id="start value between two stored ones is missing, and arrives later",
        ),
        pytest.param(
            [(1 - NIGHT, {0: 10}, 15, 0, {0: 5}), (2, {0: 10, 1: 18}, 20, 1, {0: 8, 1: 2})],
            id="snapshot at midnight lacks the last views",
        ),
        pytest.param(
            [(1, {0: 10}, 15, 0, {0: 5}), (2, {}, None, 0, {0: 5}), (3, {0: 10}, None, 0, {0: 5})],
            id="later exports lack the video or its counter",
        ),
        pytest.param(
            [
                (1, {0: 10}, 15, 0, {0: 5}),
                (5, {0: 10, 1: 15, 2: 16, 3: 18}, 21, 3, {0: 5, 1: 1, 2: 2, 3: 3}),
                (6, {0: 10, 1: 15, 2: 16, 3: 18}, 21, 3, {0: 5, 1: 1, 2: 2, 3: 3}),
            ],
            id="nights without an export",
        ),
    ],
)
def test_views_count_on_exactly_one_day_after_several_exports(
    testbed: SnapshotTestbed, exports: list[tuple[float, dict[int, int], int | None, int, dict[int, int]]]
) -> None:
    """Each export is a tuple: day, start values by day, total of the counter, day of its last view, expected views by
    day."""
    for day, starts, total, last, expected in exports:
        items = [start(1, day_of(_at(began)), views) for began, views in starts.items()]
        if total is not None:
            items.append(counter(1, total, hour_of(_at(last))))
        testbed.export(items, at=_at(day + NIGHT))
        testbed.run()
        assert testbed.views() == [(day_of(_at(day)), "v1", views) for day, views in expected.items()]


PLENTY = ([video(1), start(1, DAYS[2], 1)], [video(2), start(1, DAYS[1], 4), counter(1, 9, HOUR_YESTERDAY)])
VIEWS_OF_PLENTY = [(DAYS[2], "v1", 3), (DAYS[1], "v1", 5)]


def _assert_plenty(testbed: SnapshotTestbed) -> None:
    assert testbed.rows(VIDEOS, "video_id, view_count, day::varchar") == [("v1", 9, DAYS[0]), ("v2", 0, DAYS[0])]
    assert testbed.views() == VIEWS_OF_PLENTY


@pytest.mark.slow
@pytest.mark.parametrize("incident", [lose_request, lose_response], ids=["before S3", "after S3"])
def test_snapshot_is_exact_when_each_write_in_turn_stops_the_run(testbed: SnapshotTestbed, incident: Incident) -> None:
    testbed.export(*PLENTY)
    line = FaultLine(testbed.objects.client, transport=botocore_stubber)
    line.arm(lose_request, at=999)
    testbed.run()
    writes = [position for position, call in enumerate(line.calls) if call == "PutObject"]
    assert len(writes) == 7, "the first state, two staged files, a file of `videos`, two of `views`, and the state"
    for position in writes:
        for prefix in (MANIFESTS, STAGED, VIDEOS.prefix, VIEWS.prefix):
            testbed.objects.delete_prefix(ANALYTICS, prefix)
        line.arm(incident, at=position)
        with pytest.raises(Unavailable):
            testbed.snapshots(fallible=True).run()
        line.disarm()
        testbed.run()
        _assert_plenty(testbed)


@pytest.mark.slow
def test_unfinished_export_is_not_read(testbed: SnapshotTestbed) -> None:
    testbed.export(*PLENTY, is_finished=False)
    assert testbed.run() == SnapshotRun(0, 0)
    assert testbed.keys(STAGED) == testbed.keys(VIDEOS.prefix) == []
    testbed.clock.advance(7200)
    assert testbed.snapshots().age() == 7200, "seconds since the first run"
    testbed.export(*PLENTY)
    assert testbed.run() == SnapshotRun(snapshots=1, files=2)
    assert testbed.run() == SnapshotRun(0, 0)
    assert testbed.snapshots().age() == 3 * 3600
    _assert_plenty(testbed)


def test_run_continues_where_the_previous_one_stopped(testbed: SnapshotTestbed) -> None:
    testbed.export(*PLENTY)
    for checks, expected in ((1, (0, 1)), (1, (0, 1)), (3, (1, 0))):
        times = iter([True] * checks)
        assert testbed.run(partial(next, times, False)) == expected
        assert (testbed.keys(VIDEOS.prefix) != []) == bool(expected[0]), "queries see no part of a snapshot"
    _assert_plenty(testbed)


def test_run_that_stops_between_days_stores_the_closed_days(testbed: SnapshotTestbed) -> None:
    days = [day_of(TODAY - ago * DAY_SECONDS) for ago in (30, 20, 1)]
    testbed.export([*(start(1, day, views) for views, day in enumerate(days)), counter(1, 9, HOUR_YESTERDAY)])
    for checks, final in ((3, 21), (2, 7), (2, 7)):
        testbed.run(partial(next, iter([True] * checks), False))
        state = json.loads(testbed.objects.load(object_uri(ANALYTICS, STATE))[0])
        assert state["views"] == day_of(TODAY - final * DAY_SECONDS)
    assert state["at"] == AT
    assert testbed.views() == [(days[0], "v1", 1), (days[1], "v1", 1), (days[2], "v1", 7)]


def test_file_with_another_number_of_items_fails_and_blocks_no_newer_export(testbed: SnapshotTestbed) -> None:
    testbed.export(*PLENTY, at=AT - 60, lost=1)
    with pytest.raises(DamagedExport, match="has 2 items, but its manifest lists 3"):
        testbed.run()
    assert testbed.keys(VIDEOS.prefix) == []
    testbed.export(*PLENTY)
    with pytest.raises(DamagedExport):
        testbed.run()
    _assert_plenty(testbed)
    assert testbed.run().snapshots == 0


def test_export_without_items_is_an_empty_snapshot(testbed: SnapshotTestbed) -> None:
    testbed.export()
    assert testbed.run().snapshots == 1
    assert testbed.rows(VIDEOS, "*") == []


@pytest.mark.slow
@pytest.mark.parametrize("is_newer", [False, True])
def test_two_concurrent_converters_store_the_newest_export(
    testbed: SnapshotTestbed, is_newer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    testbed.export(*PLENTY)
    replace, overtakers = compactor.replace_partition, iter([True])

    def overtaken(*arguments: Any) -> None:
        if next(overtakers, False):
            if is_newer:
                testbed.export([video(1, title="Newer"), video(3)], PLENTY[1][1:], [start(1, DAYS[2], 1)], at=AT + 60)
            testbed.run()
        replace(*arguments)

    monkeypatch.setattr(module, "replace_partition", overtaken)
    assert testbed.run().snapshots == 0
    if is_newer:
        assert testbed.rows(VIDEOS, "video_id, title") == [("v1", "Newer"), ("v3", "Title 3")]
        assert testbed.views() == VIEWS_OF_PLENTY
    else:
        _assert_plenty(testbed)


@pytest.mark.slow
def test_erasure_during_a_run_discards_its_snapshot(testbed: SnapshotTestbed, monkeypatch: pytest.MonkeyPatch) -> None:
    create_buckets("archive")
    testbed.export([video(1)])
    receipts: list[ErasureReceipt] = []
    write = parquet.write_table

    def erase_during(table: ArchiveTable, *arguments: Any) -> None:
        write(table, *arguments)
        if table is VIDEOS:
            archive = Compactor(testbed.objects, "archive", ANALYTICS, testbed.clock)
            receipts.append(Eraser(testbed.objects, "archive", ANALYTICS, archive, "alice").run())

    monkeypatch.setattr(parquet, "write_table", erase_during)
    assert testbed.run() == SnapshotRun(snapshots=0, files=1)
    assert [receipt.is_complete for receipt in receipts] == [True]
    assert testbed.keys(VIDEOS.prefix) == testbed.keys(EXPORTS) == []


@pytest.mark.slow
def test_older_export_that_finishes_later_is_skipped(testbed: SnapshotTestbed) -> None:
    testbed.export(*PLENTY)
    testbed.run()
    testbed.export([video(4)], at=AT - 1)
    assert testbed.run().snapshots == 0
    _assert_plenty(testbed)


@pytest.mark.slow
def test_command_writes_the_same_rows_as_an_export(testbed: SnapshotTestbed, api: Api) -> None:
    first = api.publish(title="One", tags=["x"], category="film", metadata={"a": 1.5})["videoId"]
    api.create("bob", title="Two")
    api.delete(f"/v1/videos/{api.create('bob')['videoId']}", user="bob")
    for _ in range(3):
        api.post(f"/v1/videos/{first}/views", user="bob")
    api.table.write(api.table.put(start(1, DAYS[1], 0) | VIEW_DAY.key(videoId=first, day=DAYS[1])))
    scanned: Any = api.table.client.scan(TableName=api.table.name)["Items"]
    testbed.export(scanned, at=NOW - 9)
    testbed.run()
    query = "* EXCLUDE (day)", "day::varchar, * EXCLUDE (day)"
    exported = testbed.rows(VIDEOS, query[0]), testbed.rows(VIEWS, query[1])
    for prefix in (EXPORTS, MANIFESTS, VIDEOS.prefix, VIEWS.prefix):
        testbed.objects.delete_prefix(ANALYTICS, prefix)
    assert snapshot(api.table, testbed.objects, ANALYTICS, bars=Bars(), clock=lambda: NOW).snapshots == 1
    assert (testbed.rows(VIDEOS, query[0]), testbed.rows(VIEWS, query[1])) == exported
    assert len(exported[0]) == 3


def test_command_of_the_tools_prints_when_the_snapshot_is_complete(
    testbed: SnapshotTestbed, api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replaced: dict[str, Any] = {
        "tools.__main__.open_table": lambda _: api.table,
        "tools.__main__.make_s3_client": lambda: testbed.objects.client,
        "tools.__main__.session": Mock,
        "tools.index.bucket_of": lambda *_: ANALYTICS,
    }
    for name, value in replaced.items():
        monkeypatch.setattr(name, value)
    assert main(["archive", "snapshot", "--table", "VideoMetadata"]) == 0
    assert capsys.readouterr().out == "The tables `videos` and `views` have a new snapshot.\n"
    assert len(testbed.keys(VIDEOS.prefix)) == 1
    monkeypatch.setattr(Snapshots, "run", lambda _: SnapshotRun(0, 0))
    assert main(["archive", "snapshot", "--table", "VideoMetadata"]) == 0
    assert "already have a newer snapshot" in capsys.readouterr().out


def test_export_of_the_command_is_not_later_than_the_clock_of_s3(testbed: SnapshotTestbed, api: Api) -> None:
    year = 365 * DAY_SECONDS
    write_export(api.table, testbed.objects, ANALYTICS, bars=Bars(), clock=lambda: time.time() + year)
    (export,) = testbed.snapshots()._pending(0)
    assert export.at < time.time() + year / 2
