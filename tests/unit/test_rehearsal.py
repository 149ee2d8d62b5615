"""The rehearsal of a deployment: it detects data loss, and leaves logs only after a failure."""

import fcntl
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import boto3
import pytest

from local import LocalError, rehearsal
from local.rehearsal import IndexWatch, first_indexes, require_table
from local.run import StopRequested
from local.schemas import AUDIT, VIDEOS, Json, present
from local.upgrade_sample import (
    DataLost,
    Snapshot,
    TableSample,
    TrailSample,
    UpgradeSample,
    require_unchanged,
    require_upgraded,
)
from shared.aws.dynamodb import Table
from shared.core.attributes import Item, encode_item
from shared.relations.ratings import rating_key
from shared.schema import AUDIT as AUDIT_ENTRY
from shared.schema import AUDIT_TABLE_NAME, INDEX, PLAYLIST_AUDIT, SCHEMA_VERSION, TAG, TOP, VIDEO
from shared.videos.video import to_current_schema
from tests.polling import LIMIT

NAMES = [index["name"] for index in present()["indexes"]]
SOME = NAMES[:3]


def _snapshot(*items: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {(item["pk"], item["sk"]): {name: {"S": value} for name, value in item.items()} for item in items}


def _item(item: Item) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {(item["pk"], item["sk"]): encode_item(item)}


PRESENT = VIDEO.key(videoId="new") | {"videoId": "new", "title": "New", "version": "1"}
OLDER: Item = VIDEO.key(videoId="old") | {"videoId": "old", "title": "Old", "schemaVersion": SCHEMA_VERSION - 1}
RATED = {"userId": "ann", "videoId": "new", "value": "8"}
BEFORE = _snapshot(PRESENT, rating_key("new", "ann") | RATED) | _item(OLDER)
UPGRADED = _item(OLDER | {"schemaVersion": SCHEMA_VERSION, "version": 2, "tags": {"Sea"}})


class _Sample(UpgradeSample):
    """Sample with one older and one current video."""

    def __init__(self) -> None:
        super().__init__({})
        self.videos = [
            {"videoId": "old", "userId": "cleo", "status": "ready", "tags": ["Sea", "Boats"]},
            {"videoId": "new", "userId": "ann", "status": "ready", "tags": ["Sea"]},
        ]


class TestComparison:
    def test_unchanged_items_pass_while_indexes_are_added(self) -> None:
        require_unchanged(BEFORE, dict(BEFORE))

    @pytest.mark.parametrize(
        ("after", "finding"),
        [
            (_snapshot(PRESENT) | _item(OLDER), "1 items are lost"),
            (BEFORE | _snapshot(TAG.key(videoId="old", tag="a")), "was not expected"),
            (BEFORE | _snapshot(PRESENT | {"title": "Other"}), "has changed"),
        ],
    )
    def test_lost_additional_or_changed_items_are_reported(self, after: Snapshot, finding: str) -> None:
        with pytest.raises(DataLost, match=finding):
            require_unchanged(BEFORE, after)

    def test_the_repair_upgrades_older_videos(self) -> None:
        require_upgraded(BEFORE, BEFORE | UPGRADED, _Sample())
        with pytest.raises(DataLost, match="the schema version of"):
            require_upgraded(BEFORE, BEFORE, _Sample())

    @pytest.mark.parametrize(
        ("after", "finding"),
        [
            (_snapshot(PRESENT) | _item(OLDER), "1 items are lost"),
            (BEFORE | UPGRADED | _snapshot(rating_key("new", "ben")), "was not expected"),
            (BEFORE | _item(OLDER | {"title": "Other", "schemaVersion": SCHEMA_VERSION}), "has changed in title"),
            (BEFORE | UPGRADED | _snapshot(PRESENT | {"version": "2"}), "has changed in version"),
        ],
    )
    def test_repair_that_changes_another_item_is_reported(self, after: Snapshot, finding: str) -> None:
        with pytest.raises(DataLost, match=finding):
            require_upgraded(BEFORE, after, _Sample())


class _Table(TableSample):
    """Table with a sequence of states. Each snapshot moves it to the next state."""

    def __init__(self, *states: Sequence[str], items: Snapshot = BEFORE) -> None:
        self._states = [list(state) for state in states]
        self._items = items
        self.last = threading.Event()

    def indexes(self) -> list[str]:
        if len(self._states) == 1:
            self.last.set()
        return self._states[0]

    def snapshot(self) -> Snapshot:
        if len(self._states) > 1:
            self._states.pop(0)
        return self._items


class TestUpgrade:
    def _watched(self, table: _Table) -> IndexWatch:
        with IndexWatch(table, BEFORE) as watch:
            assert table.last.wait(LIMIT)
        return watch

    def test_upgrade_adds_one_index_in_each_update(self, capsys: pytest.CaptureFixture[str]) -> None:
        watch = self._watched(_Table(SOME[:1], SOME[:2], SOME))
        watch.require_one_by_one(SOME[:1], SOME)
        assert capsys.readouterr().out.count("no data was lost") == 3

    @pytest.mark.parametrize(
        "states",
        [
            pytest.param((SOME[:1], SOME), id="two added at once"),
            pytest.param((SOME[:1], SOME[:2]), id="one never added"),
            pytest.param((SOME[:1], SOME[1:], SOME), id="one replaced"),
            pytest.param((SOME[:1], SOME[:2], SOME[:1], SOME[:2], SOME), id="one removed and added again"),
        ],
    )
    def test_update_that_adds_two_or_removes_an_index_is_reported(self, states: tuple[list[str], ...]) -> None:
        watch = self._watched(_Table(*states))
        with pytest.raises(DataLost, match="Each update must add exactly one index"):
            watch.require_one_by_one(SOME[:1], SOME)

    def test_upgrade_that_loses_an_item_is_reported(self) -> None:
        watch = self._watched(_Table(SOME[:1], items=_snapshot(PRESENT)))
        with pytest.raises(LocalError, match=f"While the table had the indexes {SOME[0]}: 2 items are lost"):
            watch.require_one_by_one(SOME[:1], SOME)

    def test_upgrade_of_a_table_without_indexes_is_printed(self, capsys: pytest.CaptureFixture[str]) -> None:
        watch = self._watched(_Table([], SOME[:1]))
        watch.require_one_by_one([], SOME[:1])
        assert "  no index: no data was lost" in capsys.readouterr().out

    def test_first_deployment_lacks_the_last_indexes(self) -> None:
        assert first_indexes(VIDEOS) == NAMES[:-2]
        assert first_indexes(AUDIT) == []


class _Described(TableSample):
    def __init__(self, description: Json) -> None:
        self._description = description

    def description(self) -> Json:
        return self._description


def _description(names: Sequence[str]) -> Json:
    """Return a description as DescribeTable does, with indexes and attributes in another order than requested."""
    indexes = [index for index in present()["indexes"] if index["name"] in names]
    every = [key for index in indexes for key in index["keys"]] + present()["keys"]
    return {
        "AttributeDefinitions": [{"AttributeName": key["name"], "AttributeType": key["type"]} for key in every],
        "KeySchema": _keys(present()),
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": present()["stream"]},
        "GlobalSecondaryIndexes": [
            {
                "IndexName": index["name"],
                "KeySchema": _keys(index),
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": index["projection"][::-1]},
            }
            for index in reversed(indexes)
        ],
    }


def _keys(of: Json) -> list[Json]:
    return [{"AttributeName": key["name"], "KeyType": key["kind"]} for key in of["keys"]]


class TestDeployedTable:
    def test_table_equal_to_the_schema_is_accepted(self) -> None:
        require_table(_Described(_description(NAMES)), VIDEOS, NAMES)
        require_table(_Described(_description(NAMES[:1])), VIDEOS, NAMES[:1])

    def test_missing_index_is_reported(self) -> None:
        with pytest.raises(DataLost, match="The deployed table is"):
            require_table(_Described(_description(NAMES[:2])), VIDEOS, NAMES)

    def test_missing_projected_attribute_is_reported(self) -> None:
        description = _description(NAMES)
        (index,) = (index for index in description["GlobalSecondaryIndexes"] if index["IndexName"] == "UserIdIndex")
        index["Projection"]["NonKeyAttributes"].pop()
        with pytest.raises(DataLost, match="The deployed table is"):
            require_table(_Described(description), VIDEOS, NAMES)


def test_snapshot_omits_items_that_schedules_write(table: Table) -> None:
    for key in (VIDEO.key(videoId="v"), TOP.key(window="day", category="*"), INDEX.key()):
        table.client.put_item(TableName=table.name, Item=encode_item(key))
    snapshot = TableSample(boto3.client("dynamodb"), table.name).snapshot()
    assert list(snapshot) == [("VIDEO#v", "#META")]


class TestTrail:
    """After an upgrade, the new index finds the entries of each change set."""

    @pytest.fixture
    def trail(self, table: object) -> TrailSample:
        client = boto3.client("dynamodb")
        trail = TrailSample(client, AUDIT_TABLE_NAME)
        entries = (("old", "one"), ("new", "one"), ("new", "two"))
        for sequence, (video_id, changeset) in enumerate(entries):
            key = AUDIT_ENTRY.key(videoId=video_id, at="0000000000001", sequence=sequence)
            entry: Item = key | {"videoId": video_id, "changeset": changeset, "stamps": {"updatedAt": 1}}
            client.put_item(TableName=AUDIT_TABLE_NAME, Item=encode_item(entry))
        of_playlist: Item = PLAYLIST_AUDIT.key(playlistId="evening", at="0000000000001", sequence="4")
        of_playlist |= {"playlistId": "evening", "changeset": "two"}
        client.put_item(TableName=AUDIT_TABLE_NAME, Item=encode_item(of_playlist))
        return trail

    def test_complete_trail_is_accepted(self, trail: TrailSample) -> None:
        trail.require_change_sets(trail.snapshot())

    def test_entry_missing_from_the_trail_index_is_reported(self, trail: TrailSample) -> None:
        more = AUDIT_ENTRY.key(videoId="lost", at="0000000000001", sequence="9") | {"changeset": "two"}
        with pytest.raises(DataLost, match="the entries of the change set two"):
            trail.require_change_sets({**trail.snapshot(), **_snapshot(more)})

    def test_trail_without_change_sets_is_refused(self, trail: TrailSample) -> None:
        with pytest.raises(DataLost, match="No audit entry belongs"):
            trail.require_change_sets(_snapshot(AUDIT_ENTRY.key(videoId="v", at="0000000000001", sequence="9")))


def test_an_older_video_of_the_sample_is_upgraded_as_its_owner_wrote_it(table: Table) -> None:
    sample = _Sample()
    for video in sample.videos:
        item = VIDEO.key(videoId=video["videoId"]) | {"tags": {*video["tags"]}, "schemaVersion": SCHEMA_VERSION}
        table.write(table.put(item))
    TableSample(boto3.client("dynamodb"), table.name).make_older(sample)
    stored: list[Any] = [table.get(VIDEO.key(videoId=video_id)) for video_id in ("old", "new")]
    older, present_one = stored
    assert older["tags"] == {"Sea", "sea", "Boats", "boats"}
    assert to_current_schema(older) == older | {"tags": {"Sea", "Boats"}, "schemaVersion": SCHEMA_VERSION}
    assert to_current_schema(present_one) is present_one


class TestCommand:
    @pytest.fixture
    def work(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        work = tmp_path / "rehearsal"
        monkeypatch.setattr(rehearsal, "WORK", work)
        monkeypatch.setattr("local.run.stop_on_signals", lambda: None)
        return work

    def _rehearse_with(self, monkeypatch: pytest.MonkeyPatch, error: BaseException | None) -> None:
        def rehearse(work: Path, _: Sequence[str]) -> None:
            (work / "deploy.log").write_text("what happened")
            if error is not None:
                raise error

        monkeypatch.setattr(rehearsal, "rehearse", rehearse)

    def test_success_deletes_the_working_folder(self, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._rehearse_with(monkeypatch, None)
        assert rehearsal.main([]) == 0
        assert not work.exists()

    def test_failure_keeps_the_logs_and_prints_their_path(
        self, work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._rehearse_with(monkeypatch, DataLost("3 items are lost."))
        assert rehearsal.main([]) == 1
        assert f"3 items are lost.\nThe rehearsal failed; its logs are in {work}." in capsys.readouterr().err
        assert (work / "deploy.log").exists()

    def test_unexpected_error_prints_a_traceback_and_the_path_of_the_logs(
        self, work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._rehearse_with(monkeypatch, ZeroDivisionError("by zero"))
        assert rehearsal.main([]) == 1
        errors = capsys.readouterr().err
        assert "Traceback" in errors
        assert errors.endswith(f"by zero\nThe rehearsal failed; its logs are in {work}.\n")

    def test_rehearsal_deletes_files_of_an_earlier_failure(self, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        work.mkdir()
        (work / "old.log").write_text("")
        self._rehearse_with(monkeypatch, DataLost("again"))
        assert rehearsal.main([]) == 1
        assert [file.name for file in work.iterdir()] == ["deploy.log"]

    def test_stopped_rehearsal_fails(self, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._rehearse_with(monkeypatch, StopRequested())
        assert rehearsal.main([]) == 1

    def test_second_concurrent_rehearsal_is_refused(
        self, work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._rehearse_with(monkeypatch, None)
        with (work.parent / "rehearsal.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert rehearsal.main([]) == 1
        assert "already running" in capsys.readouterr().err


def test_status_returns_the_exit_status_of_the_program() -> None:
    assert rehearsal._status(["bash", "-c", "exit 3"], {"PATH": "/usr/bin:/bin"}, LIMIT) == 3


def test_program_that_exceeds_its_time_is_ended() -> None:
    with pytest.raises(LocalError, match="did not finish within 0 seconds"):
        rehearsal._status(["bash", "-c", "sleep 600"], {"PATH": "/usr/bin:/bin"}, 0)


def test_interrupted_program_can_end_its_children(tmp_path: Path) -> None:
    """Test that an interrupted program can end its children. For example, pytest's fixtures end servers that run in
    separate sessions."""
    ended = tmp_path / "ended"
    program = f"""
import pathlib, signal, sys
signal.signal(signal.SIGINT, lambda *_: sys.exit(pathlib.Path({str(ended)!r}).touch()))
print("ready", flush=True)
signal.pause()
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        rehearsal.end_group(process, seconds=LIMIT)
    assert ended.exists()
