"""SQL over the archive on the embedded Athena: compaction, the saved questions with expected results, and erasure."""

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, cast

import pytest

from local.aws import Aws
from local.testbed.harness import create_table, make_api
from shared.archive.compactor import Compactor
from shared.archive.snapshots import FILES, SUMMARY, Snapshots
from shared.archive_tables import ARCHIVE_TABLES, EXPORTS, database_of, workgroup_of
from shared.aws.boto3_client import make_client
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.aws.s3 import make_client as make_s3_client
from shared.core.attributes import Item, encode_item
from shared.core.changes import json_of
from shared.core.periods import start_of
from shared.history.trail import Archive
from shared.questions.saved import QUESTIONS
from shared.schema import TABLE_NAME, VIDEO, VIEW_COUNTER, VIEW_DAY
from tests.integration.conftest import reaching
from tests.polling import eventually
from tools import ToolError
from tools.__main__ import main
from tools.erasing import Eraser
from tools.querying import run_query, saved

ARCHIVE, ANALYTICS = "sql-archive", "sql-analytics"
JUNE_1, JUNE_9 = start_of("2026-06-01") * 1000, start_of("2026-06-09") * 1000
JULY_1, NOW = start_of("2026-07-01") * 1000, start_of("2026-06-10")


def _entry(sequence: int, at: int, author: str, entity: str, action: str, **more: Any) -> Item:
    kind = "job" if author.startswith("job:") else "person"
    video = {} if entity == "playlist" else {"videoId": f"v{sequence % 2}"}
    return (
        video
        | {
            "sequence": str(sequence),
            "entity": entity,
            "action": action,
            "by": {"kind": kind, "id": author},
            "at": at,
            "changes": [],
        }
        | more
    )


def _field(name: str, old: Any, new: Any) -> dict[str, Any]:
    return {"field": name, "from": old, "to": new}


ENTRIES = (
    _entry(1, JUNE_1, "alice", "video", "created", changes=[{"field": "/title", "to": "A"}]),
    _entry(3, JUNE_1 + 1000, "alice", "video", "changed", changes=[_field("/title", "A", "B"), _field("/year", 1, 2)]),
    _entry(5, JUNE_1 + 2000, "bob", "release", "changed", region="NZ", language="en"),
    _entry(7, JUNE_1 + 3000, "job:probe", "job", "failed", kind="probe"),
    _entry(2, JUNE_9, "bob", "release", "changed", region="NZ", language="mi"),
    _entry(4, JUNE_9 + 1000, "alice", "release", "changed", region="AU", language="en"),
    _entry(6, JUNE_9 + 2000, "bob", "video", "changed", changes=[_field("/visibility", "private", "public")]),
    _entry(8, JUNE_9 + 3000, "bob", "video", "deleted", changes=[_field("/status", "ready", "deleted")]),
    _entry(9, JUNE_9 + 4000, "alice", "playlist", "deleted", playlistId="p1"),
)
EXPECTED: dict[str, list[list[Any]]] = {
    "top-editors": [["alice", "4", "2"], ["bob", "4", "2"]],
    "deletions": [
        ["2026-06-09 00:00:04", "playlist", None, "p1", "deleted", "alice"],
        ["2026-06-09 00:00:03", "video", "v0", None, "deleted", "bob"],
    ],
    "release-editors": [["bob", "2", "2"], ["alice", "1", "1"]],
    "changes-by-day": [
        *(["2026-06-01", entity, count] for entity, count in (("job", "1"), ("release", "1"), ("video", "2"))),
        *(["2026-06-09", entity, count] for entity, count in (("playlist", "1"), ("release", "2"), ("video", "2"))),
    ],
    "changes-by-week": [["2026-06-01", "4", "3"], ["2026-06-08", "5", "2"]],
    "changed-fields": [["/title", "1"], ["/visibility", "1"], ["/year", "1"]],
    "most-edited": [["v0", "4", "2"], ["v1", "3", "2"]],
    "new-titles": [["2026-06-01 00:00:01", "v1", "alice", "A", "B"]],
    "published": [["2026-06-09 00:00:02", "v0", "bob", "private", "public"]],
    "failed-jobs": [["2026-06-01", "probe", "1"]],
    "views-by-category": [
        *(["2026-06-01", "film", "7"], ["2026-06-01", None, "1"]),
        *(["2026-06-08", "film", "4"], ["2026-06-08", "music", "2"]),
    ],
    "videos-by-status": [["ready", "film", "2", "12"], ["deleted", "film", "1", "0"], ["ready", None, "1", "3"]],
}


def _video(number: int, status: str = "ready", **more: Any) -> Item:
    common = {"videoId": f"v{number}", "userId": "alice", "status": status, "schemaVersion": 1}
    return (
        VIDEO.key(videoId=f"v{number}")
        | common
        | {name: {} for name in ("metadata", "resolutions", "thumbnails")}
        | more
    )


def _counted(number: int, category: str | None, views: int, **starts: int) -> Iterator[Item]:
    """Yield a view counter, and its values at the starts of days."""
    hour = f"2026-06-{max(starts)[1:]}T12"
    yield VIEW_COUNTER.key(videoId=f"v{number}", shard=0) | {"views": views, "hour": hour}
    for day, begun in starts.items():
        key = VIEW_DAY.key(videoId=f"v{number}", day=f"2026-06-{day[1:]}")
        yield key | {"starts": {"0": {"views": begun}}} | ({"category": category} if category else {})


ITEMS = (
    *(_video(0, category="film"), _video(1, category="film"), _video(2), _video(3, "deleted", category="film")),
    *(*_counted(0, "film", 10, d01=0, d02=3, d08=6), *_counted(1, "film", 2, d03=1), *_counted(2, None, 3, d07=2)),
    *_counted(4, "music", 9, d09=7),
)
"""Items of the exported table. Video 4 was deleted permanently after its views."""


class SqlService:
    """Buckets, Glue tables and the workgroup on the embedded AWS, with the entries in the archive."""

    def __init__(self, aws: Aws) -> None:
        with reaching(aws):
            self.objects = Objects(make_s3_client())
        self.athena, glue = cast(Any, aws.client("athena")), cast(Any, aws.client("glue"))
        for bucket in (ARCHIVE, ANALYTICS):
            self.objects.client.create_bucket(Bucket=bucket)
        self.objects.client.put_bucket_versioning(Bucket=ARCHIVE, VersioningConfiguration={"Status": "Enabled"})
        results = {"OutputLocation": f"s3://{ANALYTICS}/results/"}
        self.athena.create_work_group(Name=workgroup_of(TABLE_NAME), Configuration={"ResultConfiguration": results})
        glue.create_database(DatabaseInput={"Name": database_of(TABLE_NAME)})
        for table in ARCHIVE_TABLES:
            columns, keys = (
                [{"Name": column.name, "Type": column.type} for column in listed]
                for listed in (table.columns, table.partitions)
            )
            storage = {"Columns": columns, "Location": f"s3://{ANALYTICS}/{table.prefix}"}
            described = {"Name": table.name, "PartitionKeys": keys, "StorageDescriptor": storage}
            glue.create_table(
                DatabaseName=database_of(TABLE_NAME),
                TableInput=described | {"Parameters": {"classification": "parquet"}},
            )
        archive = Archive(self.objects, ARCHIVE)
        for batch in (ENTRIES[:3], ENTRIES[3:5], ENTRIES[5:], ENTRIES[4:6]):
            archive.write(batch)
        self.compactor = Compactor(self.objects, ARCHIVE, ANALYTICS, lambda: NOW)
        self.compactor.run()
        self._export()
        Snapshots(self.objects, ANALYTICS, lambda: NOW).run()

    def _export(self) -> None:
        """Write an export of the table as DynamoDB does."""
        lines = b"".join(json_of({"Item": encode_item(item)}) + b"\n" for item in ITEMS)
        listed = json_of({"itemCount": len(ITEMS), "dataFileS3Key": "AWSDynamoDB/1-a/data/a.json.gz"}) + b"\n"
        summary = json_of({"exportTime": "2026-06-10T00:00:00Z"})
        files = {"data/a.json.gz": gzip.compress(lines), FILES: listed, SUMMARY: summary}
        for name, data in files.items():
            self.objects.put(ANALYTICS, f"{EXPORTS}night/AWSDynamoDB/1-a/{name}", data, "")

    def query(self, sql: str) -> Sequence[Sequence[str | None]]:
        """Run a query, and return its rows."""
        return run_query(self.athena, TABLE_NAME, sql).rows


@pytest.fixture(scope="module")
def service(objects_aws: Aws) -> SqlService:
    return SqlService(objects_aws)


def test_saved_questions_return_the_expected_rows(service: SqlService) -> None:
    assert QUESTIONS.keys() == EXPECTED.keys()
    assert len(QUESTIONS) == 12
    results = {name: run_query(service.athena, TABLE_NAME, saved(name, None, None, NOW)) for name in QUESTIONS}
    assert {name: [list(row) for row in result.rows] for name, result in results.items()} == EXPECTED
    assert [result.columns for result in results.values()] == [list(each.columns) for each in QUESTIONS.values()]


def test_api_runs_a_saved_question_and_returns_its_rows(service: SqlService, objects_aws: Aws) -> None:
    with reaching(objects_aws):
        api = make_api(Table(TABLE_NAME, make_client()), athena=service.athena)
    runs = "/v1/questions/top-editors/runs"
    run_id = api.post(runs, query="from=2026-06-09&to=2026-06-09", user="admin").json["runId"]
    run = eventually(
        lambda: api.get(f"{runs}/{run_id}", user="admin").json, until=lambda run: run["state"] == "succeeded"
    )
    assert (run["rows"], run["dollars"]) == ([["bob", 3, 1], ["alice", 2, 1]], 0.00005)
    assert api.get(f"/v1/questions/deletions/runs/{run_id}", user="admin").status == 404
    unknown = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
    assert api.get(f"{runs}/{unknown}", user="admin").status == 404


def test_command_prints_the_result_of_a_query_and_its_cost(
    service: SqlService, objects_aws: Aws, capsys: pytest.CaptureFixture[str]
) -> None:
    with reaching(objects_aws):
        create_table(make_client(), TABLE_NAME)
        sql = "SELECT author FROM changes WHERE action = 'failed' AND day < date '2026-07-01';"
        assert main(["query", "--table", TABLE_NAME, "--format", "csv", sql]) == 0
        shown = capsys.readouterr()
        assert shown.out == "author\njob:probe\n"
        assert re.fullmatch(r"1 row, [0-9.]+ MB read: \$0\.00005\n", shown.err)
        days = ("--from", "2026-06-09", "--to", "2026-06-09")
        assert main(["query", "--table", TABLE_NAME, "--format", "json", "--saved", "published", *days]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        assert (row["video_id"], row["new_value"]) == ("v0", "public")


def test_question_covers_only_its_days(service: SqlService) -> None:
    assert service.query(saved("top-editors", date(2026, 6, 9), None, NOW)) == [["bob", "3", "1"], ["alice", "2", "1"]]


def test_failed_query_states_the_reason(service: SqlService) -> None:
    with pytest.raises(ToolError, match=r"(?s)The query was failed.*no_such"):
        service.query("SELECT no_such FROM changes")


def test_erased_person_is_in_no_table_object_or_version(service: SqlService) -> None:
    archive, entries = Archive(service.objects, ARCHIVE), [entry | {"at": JULY_1} for entry in ENTRIES]
    for batch in (entries[:3], entries[3:], entries[:3]):  # the first object has an earlier version
        archive.write([entry | {"by": {"kind": "person", "id": "carol"}} for entry in batch])
    service.compactor.run(days=["2026-07-01"])
    eraser = Eraser(service.objects, ARCHIVE, ANALYTICS, service.compactor, "carol")
    assert eraser.run(dry_run=True).entries == len(ENTRIES)
    receipt = eraser.run()
    assert (receipt.entries, receipt.objects, receipt.versions, receipt.is_complete) == (len(ENTRIES), 2, 3, True)
    for table, rows in (("changes", len(ENTRIES)), ("changed_fields", 5)):
        counts = service.query(f"SELECT author, count(*) FROM {table} WHERE day = date '2026-07-01' GROUP BY author")
        assert counts == [[receipt.replacement, str(rows)]]
    versions = service.objects.client.list_object_versions(Bucket=ARCHIVE)["Versions"]
    for found in versions:
        named: Any = {"Bucket": ARCHIVE, "Key": found["Key"], "VersionId": found["VersionId"]}
        assert b"carol" not in service.objects.client.get_object(**named)["Body"].read()
    assert eraser.run().entries == 0
