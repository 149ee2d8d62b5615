"""Restores: missing and damaged items are restored, and items that a user has changed since the backup stay unchanged."""

import gzip
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from local.testbed.background import FIELDS, RENDITIONS, BackgroundWork
from local.testbed.harness import MEDIA_BUCKET, NOW, SOURCES_BUCKET, Api, create_table, remove_video
from local.testbed.lean_moto import restore_tables
from shared.aws import records
from shared.aws.dynamodb import Table, Write
from shared.aws.expressions import Expression
from shared.aws.s3 import Objects
from shared.background.purge import PURGE, Purge
from shared.captions.store import CaptionStore
from shared.core.attributes import Item, decode_item
from shared.core.caller import Caller
from shared.relations import playlists
from shared.relations.playlist_entries import EntryStore
from shared.relations.playlists import PlaylistStore
from shared.schema import (
    CAPTION,
    CHAPTERS,
    CREDIT,
    JOB,
    PLAYLIST,
    PROFILE,
    RATING,
    RATING_TOTALS,
    RESERVATION,
    TAG,
    VIDEO,
    VIEW_COUNTER,
    Entity,
    lane_of,
)
from shared.videos import video
from shared.videos.store import VideoStore
from tools import __main__ as command
from tools.exporting import Export
from tools.progress import Bars
from tools.rate_limit import Pool, RateLimiter
from tools.restoring import LineRestore, Rehearsal, Repair, RestorePlan, StoredEntries
from tools.work_file import WorkFile, work_file

VIDEO_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
OTHER = "5c9b2f8e-1111-4222-8333-0305e82c3302"
LATER = NOW + 100
"""Time of the damage, in seconds since the epoch."""
NO_TIME = RestorePlan()
BY_TIME = RestorePlan(since=LATER, until=LATER + 10)


class CopiedTable:
    """Table with two videos, the child items of the first video, and a playlist of both. A backup file has the same
    items."""

    def __init__(self, api: Api, folder: Path, playlist: str) -> None:
        self.api = api
        self.table = api.table
        self.folder = folder
        self.playlist = playlist
        self.file = folder / "copy.jsonl"

    @classmethod
    def fill(cls, api: Api, folder: Path) -> "CopiedTable":
        """Write the items and the backup."""
        for video_id, external_id in ((VIDEO_ID, "film-1"), (OTHER, "film-2")):
            api.publish(videoId=video_id, title="A film", tags=["one"], externalId=external_id)
        api.put(f"/v1/videos/{VIDEO_ID}/credits/p", {"name": "P", "ordering": 1, "roles": [{"category": "actor"}]})
        api.put(f"/v1/videos/{VIDEO_ID}/chapters", {"chapters": [{"start": 0, "title": "All of it"}]})
        captions: Item = {"text": "0" * 32, "cues": 1, "size": 40, "origin": "owner"}
        CaptionStore(api.table).put(VIDEO_ID, "en", captions, Caller("alice", frozenset()), NOW, lambda _: True)
        api.put(f"/v1/videos/{VIDEO_ID}/rating", {"value": 8}, user="bob")
        for _ in range(3):
            api.post(f"/v1/videos/{VIDEO_ID}/views", user="bob")
        copy = cls(api, folder, str(api.post("/v1/playlists", {"title": "A list"}).json["playlistId"]))
        for video_id in (VIDEO_ID, OTHER):
            api.post(f"/v1/playlists/{copy.playlist}/entries", {"videoId": video_id})
        Export(api.table, copy.file, bars=Bars()).run()
        return copy

    def restore(self, plan: RestorePlan = NO_TIME, table: Table | None = None) -> tuple[dict[str, int], list[str]]:
        """Restore the table, and return the number of items by outcome, and the printed lines."""
        lines: list[str] = []
        with work_file(self.folder / "state", {}, table or self.table) as work:
            self._restored(table or self.table, plan, lines, Pool(1), work)
            outcomes = work.outcomes().get(self.file.name, {})
            work.remove()
        return outcomes, lines

    def _restored(self, table: Table, plan: RestorePlan, lines: list[str], pool: Pool, work: WorkFile) -> None:
        restore = LineRestore(
            self.file,
            table,
            work,
            plan=plan,
            print_line=lines.append,
            rate=RateLimiter(None),
            pool=pool,
            bars=Bars(),
            clock=lambda: LATER + 1000,
        )
        restore.run()

    def item(self, entity: Entity, **parts: str | int) -> Item:
        """Return the item with this key, or `{}` if it does not exist."""
        return self.table.get(entity.key(**parts), consistent=True) or {}

    def alter(self, entity: Entity, values: dict[str, Any], **parts: str | int) -> None:
        """Write attributes of an item directly to the table."""
        present = Expression("attribute_exists(#pk)", {"#pk": "pk"})
        self.table.write(self.table.put(self.item(entity, **parts) | values, condition=present))

    def contents(self) -> list[Item]:
        """Return all items, sorted by key, without the id of the last request."""
        pages: Any = self.table.client.get_paginator("scan").paginate(TableName=self.table.name)
        items = [decode_item(item) for page in pages for item in page["Items"]]
        for item in items:
            item.pop("updatedFor", None)
        return sorted(items, key=lambda item: (item["pk"], item["sk"]))


@pytest.fixture(scope="module")
def filled(
    fill_once: Callable[[Callable[[Api], CopiedTable]], tuple[bytes, CopiedTable]],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[bytes, CopiedTable]:
    """Return serialised tables and their backup. They are created once, because writing them takes longer than most
    restores."""
    return fill_once(lambda api: CopiedTable.fill(api, tmp_path_factory.mktemp("filled")))


@pytest.fixture
def copied(filled: tuple[bytes, CopiedTable], api: Api, tmp_path: Path) -> CopiedTable:
    """Return a table and its backup."""
    tables, written = filled
    restore_tables(tables)
    copy = CopiedTable(api, tmp_path, written.playlist)
    shutil.copy(written.file, copy.file)
    return copy


def test_undamaged_table_is_not_written(copied: CopiedTable) -> None:
    before = copied.contents()
    outcomes, lines = copied.restore(RestorePlan(force=True))
    assert list(outcomes) == ["unchanged"]
    assert lines == []
    assert copied.contents() == before


def test_deleted_video_is_restored_with_its_child_items(copied: CopiedTable) -> None:
    before = copied.contents()
    remove_video(copied.table, VIDEO_ID)
    copied.table.delete(VIEW_COUNTER.key(videoId=VIDEO_ID, shard=0))
    outcomes, lines = copied.restore()
    assert outcomes["created"] == 5
    assert {
        f"{name}: was missing" for name in (f"Video {VIDEO_ID}", f"Captions {VIDEO_ID} en", f"Chapters {VIDEO_ID}")
    } <= set(lines)
    # The stream computes totals again; `reconcile` computes totals of ratings.
    derived = RATING_TOTALS.key(videoId=VIDEO_ID)
    restored_fields = {"updatedBy": "job:put-back", "updatedAs": "job"}
    for item in before:
        if VIDEO_ID in item["pk"] and item["sk"] == VIDEO.sk:
            item |= restored_fields
        elif item.get("videoId") == VIDEO_ID and item["pk"].startswith(RESERVATION.partition_prefix):
            item |= {"updatedBy": restored_fields["updatedBy"]}
        elif VIDEO_ID in item["pk"] and item["sk"].startswith("TAG#"):
            item["updatedBy"] = restored_fields["updatedBy"]
        elif VIDEO_ID in item["pk"] and item["sk"] == VIEW_COUNTER.sk:
            del item["hour"]  # restored views belong to no hour
    assert copied.contents() == [item for item in before if (item["pk"], item["sk"]) != tuple(derived.values())]


def test_directly_edited_item_is_repaired(copied: CopiedTable) -> None:
    copied.alter(VIDEO, {"title": "Lost", "graffiti": "x"}, videoId=VIDEO_ID)
    outcomes, lines = copied.restore()
    repaired = copied.item(VIDEO, videoId=VIDEO_ID)
    assert (outcomes["changed"], repaired["title"], "graffiti" in repaired) == (1, "A film", False)
    assert lines == [f"Video {VIDEO_ID}: graffiti, title restored"]
    assert (repaired["version"], repaired["updatedBy"], repaired["updatedAs"]) == (2, "job:restore", "job")


def test_altered_captions_and_chapters_are_repaired(copied: CopiedTable) -> None:
    copied.alter(CAPTION, {"text": "f" * 32, "size": 1}, videoId=VIDEO_ID, language="en")
    copied.alter(CHAPTERS, {"chapters": []}, videoId=VIDEO_ID)
    outcomes, lines = copied.restore()
    assert outcomes["changed"] == 2
    assert lines == [f"Captions {VIDEO_ID} en: size, text restored", f"Chapters {VIDEO_ID}: chapters restored"]
    captions, chapters = copied.item(CAPTION, videoId=VIDEO_ID, language="en"), copied.item(CHAPTERS, videoId=VIDEO_ID)
    assert (captions["text"], captions["size"], captions["version"]) == ("0" * 32, 40, 2)
    assert (chapters["chapters"], chapters["version"]) == ([{"start": 0, "title": "All of it"}], 2)
    assert (captions["owner"], chapters["owner"]) == ("alice", "alice")


def test_change_within_the_damage_interval_is_reverted_with_its_tags(copied: CopiedTable) -> None:
    copied.api.clock.now = LATER
    copied.api.patch(f"/v1/videos/{VIDEO_ID}", {"title": "Lost", "tags": ["lost"]})
    outcomes, _ = copied.restore(BY_TIME)
    assert outcomes["changed"] == 1
    assert copied.api.get(f"/v1/videos/{VIDEO_ID}").json["title"] == "A film"
    assert copied.item(TAG, videoId=VIDEO_ID, tag="one")
    assert not copied.item(TAG, videoId=VIDEO_ID, tag="lost")


def test_external_id_changed_during_the_damage_is_reserved_again(copied: CopiedTable) -> None:
    copied.api.clock.now = LATER
    copied.api.patch(f"/v1/videos/{VIDEO_ID}", {"externalId": "lost"})
    assert copied.restore(BY_TIME)[0]["changed"] == 1
    assert copied.api.get("/v1/external-ids/film-1").json["videoId"] == VIDEO_ID
    assert not copied.item(RESERVATION, userId="alice", field="externalId", value="lost")


def test_external_id_that_another_video_has_since_is_not_restored(copied: CopiedTable) -> None:
    copied.api.clock.now = LATER
    copied.api.patch(f"/v1/videos/{VIDEO_ID}", {"externalId": "lost"})
    other = copied.api.create(externalId="film-1")["videoId"]
    _, lines = copied.restore(BY_TIME)
    assert [line for line in lines if "externalId" in line] == [
        f"Video {VIDEO_ID}: Another video of the owner, {other}, has this externalId. Send another value."
    ]
    assert copied.api.get("/v1/external-ids/film-1").json["videoId"] == other


@pytest.mark.parametrize("changed_at", [LATER - 1, LATER + 10])
def test_change_outside_the_damage_interval_is_kept_and_reported(copied: CopiedTable, changed_at: int) -> None:
    copied.api.clock.now = changed_at
    copied.api.patch(f"/v1/videos/{VIDEO_ID}", {"title": "Better"})
    outcomes, lines = copied.restore(BY_TIME)
    assert outcomes["skipped"] == 1
    assert lines == [f"Video {VIDEO_ID}: already exists and differs: skipped"]
    assert copied.item(VIDEO, videoId=VIDEO_ID)["title"] == "Better"


def test_force_restores_changes_of_any_time(copied: CopiedTable) -> None:
    copied.api.patch(f"/v1/videos/{VIDEO_ID}", {"title": "Better"})
    assert copied.restore(RestorePlan(force=True))[0]["changed"] == 1
    assert copied.item(VIDEO, videoId=VIDEO_ID)["title"] == "A film"


def test_second_restore_changes_nothing(copied: CopiedTable) -> None:
    copied.alter(VIDEO, {"title": "Lost"}, videoId=VIDEO_ID)
    copied.alter(VIEW_COUNTER, {"views": 1}, videoId=VIDEO_ID, shard=0)
    copied.restore(RestorePlan(force=True))
    before = copied.contents()
    assert copied.restore(RestorePlan(force=True))[0].keys() == {"unchanged"}
    assert copied.contents() == before


def test_altered_credit_is_repaired_and_deleted_credit_is_restored(copied: CopiedTable) -> None:
    copied.alter(CREDIT, {"name": "Lost"}, videoId=VIDEO_ID, personId="p")
    assert copied.restore()[0]["changed"] == 1
    assert copied.item(CREDIT, videoId=VIDEO_ID, personId="p")["name"] == "P"
    copied.table.delete(CREDIT.key(videoId=VIDEO_ID, personId="p"))
    assert copied.restore()[0]["created"] == 1
    assert copied.item(CREDIT, videoId=VIDEO_ID, personId="p")["ordering"] == 1


@pytest.mark.parametrize(("others", "after"), [(1, 2), (2, 1), (7, 1)])
def test_view_count_is_compared_as_the_sum_of_all_shards(copied: CopiedTable, others: int, after: int) -> None:
    copied.alter(VIEW_COUNTER, {"views": 1, "shards": 2, "spread": 2}, videoId=VIDEO_ID, shard=0)
    copied.table.write(copied.table.put(VIEW_COUNTER.key(videoId=VIDEO_ID, shard=1) | {"views": others}))
    copied.restore()
    assert copied.item(VIEW_COUNTER, videoId=VIDEO_ID, shard=0)["views"] == after


@pytest.mark.parametrize(("views", "after"), [(1, 3), (3, 3), (7, 7)])
def test_a_view_count_is_raised_and_never_lowered(copied: CopiedTable, views: int, after: int) -> None:
    copied.alter(VIEW_COUNTER, {"views": views}, videoId=VIDEO_ID, shard=0)
    copied.restore(RestorePlan(force=True))
    assert copied.item(VIEW_COUNTER, videoId=VIDEO_ID, shard=0)["views"] == after


def test_newer_rating_is_kept_even_when_forced(copied: CopiedTable) -> None:
    copied.api.put(f"/v1/videos/{VIDEO_ID}/rating", {"value": 2}, user="bob")
    assert copied.restore(RestorePlan(force=True))[0]["skipped"] == 1
    assert copied.api.get(f"/v1/videos/{VIDEO_ID}/rating", user="bob").json["own"]["value"] == 2


def test_lost_entries_of_an_unchanged_playlist_are_restored(copied: CopiedTable) -> None:
    path = f"/v1/playlists/{copied.playlist}/entries"
    before = copied.api.get(path).json
    lost_entries = [item for item in copied.contents() if re.match(rf"ENTRY#.*|HAS#{OTHER}", item["sk"])]
    copied.table.batch_delete([{name: item[name] for name in ("pk", "sk")} for item in lost_entries])
    assert copied.restore()[0]["changed"] == 2
    assert copied.api.get(path).json == before
    assert copied.item(PLAYLIST, playlistId=copied.playlist)["entryCount"] == 2


def test_entries_removed_within_the_damage_interval_are_restored_and_counted(copied: CopiedTable) -> None:
    copied.api.clock.now = LATER
    copied.api.patch(f"/v1/playlists/{copied.playlist}", {"title": "Lost"})
    copied.api.delete(f"/v1/playlists/{copied.playlist}/entries/{OTHER}")
    copied.restore(BY_TIME)
    playlist = copied.api.get(f"/v1/playlists/{copied.playlist}").json
    assert (playlist["title"], playlist["entryCount"]) == ("A list", 2)
    entries = copied.api.get(f"/v1/playlists/{copied.playlist}/entries").json["items"]
    assert [entry["video"]["videoId"] for entry in entries] == [VIDEO_ID, OTHER]


def test_entry_removed_by_its_owner_is_not_restored(copied: CopiedTable) -> None:
    copied.api.delete(f"/v1/playlists/{copied.playlist}/entries/{OTHER}")
    copied.restore(BY_TIME)
    assert copied.api.get(f"/v1/playlists/{copied.playlist}").json["entryCount"] == 1


def test_playlist_deleted_within_the_damage_interval_is_restored(copied: CopiedTable) -> None:
    path = f"/v1/playlists/{copied.playlist}"
    copied.api.clock.now = LATER
    copied.api.patch(path, {"title": "Lost"})
    copied.api.delete(f"{path}/entries/{OTHER}")
    assert copied.api.delete(path).status == 204
    _, lines = copied.restore(BY_TIME, Rehearsal(copied.table))
    assert f"Playlist {copied.playlist}: undeleted" in lines
    assert copied.api.get(path).status == 404
    copied.restore(BY_TIME)
    playlist = copied.api.get(path).json
    assert (playlist["title"], playlist["entryCount"]) == ("A list", 2)
    assert [entry["videoId"] for entry in copied.api.get(f"{path}/entries").json["items"]] == [VIDEO_ID, OTHER]
    assert [item["playlistId"] for item in copied.api.get("/v1/playlists").json["items"]] == [copied.playlist]
    assert copied.item(PROFILE, userId="alice")["playlists"] == 1
    before = copied.contents()
    copied.restore(BY_TIME)
    assert copied.contents() == before


def test_playlist_deleted_by_its_owner_is_restored_only_when_forced(copied: CopiedTable) -> None:
    path = f"/v1/playlists/{copied.playlist}"
    copied.api.delete(path)
    before = copied.contents()
    copied.restore(BY_TIME)
    assert copied.contents() == before
    copied.restore(RestorePlan(force=True))
    assert copied.api.get(path).json["entryCount"] == 2


def test_playlist_is_restored_only_within_the_owner_limit(copied: CopiedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playlists, "MAX_PLAYLISTS", 1)
    copied.api.delete(f"/v1/playlists/{copied.playlist}")
    copied.api.post("/v1/playlists", {"title": "Another"})
    _, lines = copied.restore(RestorePlan(force=True))
    assert any(line.startswith(f"Playlist {copied.playlist}: You already have 1 playlists") for line in lines)
    assert copied.api.get(f"/v1/playlists/{copied.playlist}").status == 404


def test_unnamed_videos_and_playlists_are_not_restored(copied: CopiedTable) -> None:
    for video_id in (VIDEO_ID, OTHER):
        copied.alter(VIDEO, {"title": "Lost"}, videoId=video_id)
    copied.alter(PLAYLIST, {"title": "Lost"}, playlistId=copied.playlist)
    copied.restore(RestorePlan(videos={VIDEO_ID}))
    assert copied.item(VIDEO, videoId=VIDEO_ID)["title"] == "A film"
    assert copied.item(VIDEO, videoId=OTHER)["title"] == "Lost"
    assert copied.item(PLAYLIST, playlistId=copied.playlist)["title"] == "Lost"


def test_a_rehearsal_reports_the_same_and_writes_nothing(copied: CopiedTable) -> None:
    remove_video(copied.table, VIDEO_ID)
    copied.alter(VIDEO, {"title": "Lost"}, videoId=OTHER)
    before = copied.contents()
    rehearsed = copied.restore(table=Rehearsal(copied.table))
    assert copied.contents() == before
    assert copied.restore() == rehearsed


def test_job_is_never_restored(copied: CopiedTable, tmp_path: Path) -> None:
    item = {"videoId": VIDEO_ID, "kind": "probe", "owner": "alice", "state": "done", "input": {}, "inputHash": "h"}
    job = item | {"since": "0001", "attempt": 1, "writeId": "w", "version": 1} | JOB.key(videoId=VIDEO_ID, kind="probe")
    copied.table.write(copied.table.put(job, condition=Expression("attribute_not_exists(#pk)", {"#pk": "pk"})))
    copied.file = tmp_path / "with-job.jsonl"
    Export(copied.table, copied.file, bars=Bars()).run()
    copied.alter(JOB, {"state": "failed"}, videoId=VIDEO_ID, kind="probe")
    assert copied.restore(RestorePlan(force=True))[0]["skipped"] == 1
    assert copied.item(JOB, videoId=VIDEO_ID, kind="probe")["state"] == "failed"


@pytest.mark.slow
def test_restore_command_reads_a_file_or_another_table(
    copied: CopiedTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    copied.alter(VIDEO, {"title": "Lost"}, videoId=VIDEO_ID)
    arguments = ["restore", "--table", copied.table.name, "--from", copied.file.name]
    assert command.main([*arguments, "--dry-run"]) == 0
    assert "0 would be restored, 1 would be repaired" in capsys.readouterr().out
    assert command.main(arguments) == 0
    *_, repaired, hint = capsys.readouterr().out.splitlines()
    assert repaired.startswith("0 restored, 1 repaired")
    assert hint.endswith(f": python -m tools reconcile --table {copied.table.name}")
    create_table(copied.table.client, "before")
    assert command.main([*arguments[:-1], "before"]) == 0
    (downloaded,) = tmp_path.glob("before.*Z.jsonl.gz")
    written = rf"Restoring from {re.escape(downloaded.name)}, which was written 0 h \d+ min ago\."
    assert re.search(written, capsys.readouterr().out)
    assert list(tmp_path.glob("*.restore")) == []


def test_backup_file_of_an_earlier_table_with_the_name_is_not_used(
    copied: CopiedTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    create_table(copied.table.client, "before")
    for old in ("before.jsonl.gz", "before.20200101T000000Z.jsonl.gz"):
        (tmp_path / old).write_bytes(gzip.compress(copied.file.read_bytes()))
    copied.table.delete(VIDEO.key(videoId=OTHER))
    assert command.main(["restore", "--table", copied.table.name, "--from", "before", "--force"]) == 0
    assert "0 restored, 0 repaired" in capsys.readouterr().out


def test_a_table_is_not_restored_from_itself(copied: CopiedTable, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["restore", "--table", copied.table.name, "--from", copied.table.name]) == 1
    assert "is the table to restore. Name a copy of it" in capsys.readouterr().err


class TestInterruptedRestore:
    @pytest.fixture
    def arguments(self, copied: CopiedTable, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Return the arguments of a command that restores two videos, of which one is damaged. The current folder has
        the backup."""
        monkeypatch.chdir(copied.folder)
        copied.alter(VIDEO, {"title": "Lost"}, videoId=VIDEO_ID)
        return ["restore", "--table", copied.table.name, "--from", copied.file.name, "--videos"]

    def _interrupt(self, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            # The restore ends after it has carried out and recorded all its work.
            patch.setattr(WorkFile, "outcomes", _interrupted)
            assert command.main(arguments) == 1

    def test_interrupted_restore_resumes_when_its_videos_are_named_in_another_order(
        self, copied: CopiedTable, arguments: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._interrupt([*arguments, f"{VIDEO_ID},{OTHER}"], monkeypatch)
        assert len(list(copied.folder.glob("*.restore"))) == 1
        assert command.main([*arguments, f"{OTHER},{VIDEO_ID}"]) == 0

    def test_plan_of_many_videos_lists_them_in_a_fixed_order(self) -> None:
        ids = [f"{number:036}" for number in range(50)]
        assert RestorePlan(videos=frozenset(ids)).settings() == [None, None, False, ids]

    def test_interrupted_rehearsal_starts_over(
        self,
        arguments: list[str],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        copied: CopiedTable,
    ) -> None:
        rehearsed = [*arguments, f"{VIDEO_ID},{OTHER}", "--dry-run"]
        self._interrupt(rehearsed, monkeypatch)
        copied.alter(VIDEO, {"title": "Lost"}, videoId=OTHER)
        capsys.readouterr()
        assert command.main(rehearsed) == 0
        assert "2 would be repaired" in capsys.readouterr().out


def _interrupted(_: WorkFile) -> dict[str, dict[str, int]]:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--until", "5"], "--until requires --since"),
        (["--since", "6", "--until", "2020-01-01T00:00:00Z"], ""),
        (["--since", "7", "--until", "6"], "--since must be before --until"),
    ],
)
def test_contradictory_times_are_refused(
    copied: CopiedTable,
    options: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(copied.folder)
    status = command.main(["restore", "--table", copied.table.name, "--from", copied.file.name, *options])
    assert status == bool(sentence)
    assert sentence in capsys.readouterr().err


def test_unreadable_time_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["restore", "--table", "t", "--from", "f", "--since", "yesterday"])
    assert "'yesterday' is not a time" in capsys.readouterr().err


class TestAddedAttributes:
    @pytest.mark.parametrize("purge_at", [NOW - 5, NOW + 10**9])
    def test_purge_time_added_to_a_video_is_removed(self, copied: CopiedTable, purge_at: int) -> None:
        copied.alter(VIDEO, {"purgeAt": purge_at}, videoId=VIDEO_ID)
        outcomes, lines = copied.restore()
        assert (outcomes["changed"], lines) == (1, [f"Video {VIDEO_ID}: purgeAt restored"])
        assert "purgeAt" not in copied.item(VIDEO, videoId=VIDEO_ID)

    def test_attribute_added_to_a_credit_or_counter_is_removed(self, copied: CopiedTable) -> None:
        copied.alter(CREDIT, {"purgeAt": NOW}, videoId=VIDEO_ID, personId="p")
        copied.alter(VIEW_COUNTER, {"purgeAt": NOW}, videoId=VIDEO_ID, shard=0)
        assert copied.restore()[0]["changed"] == 2
        assert "purgeAt" not in copied.item(CREDIT, videoId=VIDEO_ID, personId="p")
        counter = copied.item(VIEW_COUNTER, videoId=VIDEO_ID, shard=0)
        assert (counter["views"], "purgeAt" in counter) == (3, False)

    def test_attribute_added_to_a_rating_is_reported(self, copied: CopiedTable) -> None:
        copied.alter(RATING, {"purgeAt": NOW}, userId="bob", lane=lane_of("bob"), videoId=VIDEO_ID)
        assert copied.restore()[0]["skipped"] == 1

    def test_video_rightly_waiting_for_its_purge_is_skipped(self, copied: CopiedTable) -> None:
        copied.alter(VIDEO, {"purgeAt": NOW, "writeId": "another"}, videoId=VIDEO_ID)
        _, lines = copied.restore(RestorePlan(force=True))
        assert f"Video {VIDEO_ID}: an earlier video with this id is still being removed: import it again later" in lines


class TestCounts:
    @pytest.fixture
    def with_lost_views(self, copied: CopiedTable) -> CopiedTable:
        """Return a table in which two of three views are lost."""
        copied.alter(VIEW_COUNTER, {"views": 1}, videoId=VIDEO_ID, shard=0)
        return copied

    def _viewed_after_reading(self, copied: CopiedTable, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        """Count a view before each of the restore's first writes of the counter."""
        remaining, write = list(range(times)), Table.write

        def viewed(table: Table, change: Write, **options: Any) -> Item:
            if remaining and ":lacking" in str(change.parameters):
                remaining.pop()
                copied.api.post(f"/v1/videos/{VIDEO_ID}/views", user="bob")
            return write(table, change, **options)

        monkeypatch.setattr(Table, "write", viewed)

    def test_concurrent_view_is_counted(self, with_lost_views: CopiedTable, monkeypatch: pytest.MonkeyPatch) -> None:
        self._viewed_after_reading(with_lost_views, monkeypatch, 1)
        outcomes, lines = with_lost_views.restore()
        assert (outcomes["changed"], lines) == (1, [f"Views {VIDEO_ID}: views 2 -> 3"])

    def test_constantly_changing_counter_is_reported_and_skipped(
        self, with_lost_views: CopiedTable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(records, "MAX_ATTEMPTS", 1)
        with_lost_views.alter(VIDEO, {"title": "Lost"}, videoId=OTHER)
        self._viewed_after_reading(with_lost_views, monkeypatch, 1)
        outcomes, lines = with_lost_views.restore()
        assert f"Views {VIDEO_ID}: its views changed concurrently: run the command again" in lines
        assert outcomes["changed"] == 1

    def test_a_counter_without_a_count_gets_one(self, copied: CopiedTable) -> None:
        counter = copied.item(VIEW_COUNTER, videoId=VIDEO_ID, shard=0)
        del counter["views"]
        copied.table.write(copied.table.put(counter, condition=Expression("attribute_exists(#pk)", {"#pk": "pk"})))
        copied.restore()
        assert copied.item(VIEW_COUNTER, videoId=VIDEO_ID, shard=0)["views"] == 3


class TestEntries:
    def _entries(self, copied: CopiedTable) -> list[str]:
        entries = copied.api.get(f"/v1/playlists/{copied.playlist}/entries").json["items"]
        return [entry["video"]["videoId"] for entry in entries]

    def _lose(self, copied: CopiedTable, pattern: str) -> None:
        """Delete matching items of the playlist directly from the table."""
        lost_entries = [
            item for item in copied.contents() if copied.playlist in item["pk"] and re.match(pattern, item["sk"])
        ]
        copied.table.batch_delete([{name: item[name] for name in ("pk", "sk")} for item in lost_entries])

    def _purge(self, copied: CopiedTable, objects: Objects, changed_at: int) -> None:
        copied.table.delete(VIDEO.key(videoId=VIDEO_ID))
        assert Purge(copied.table, objects, SOURCES_BUCKET, MEDIA_BUCKET).video(VIDEO_ID, changed_at, lambda: True)
        assert self._entries(copied) == [OTHER]

    @pytest.mark.parametrize(
        ("plan", "changed_at"), [(NO_TIME, LATER), (BY_TIME, LATER + 11), (BY_TIME, LATER + 1)], ids=str
    )
    def test_playlist_entry_removed_by_a_purge_returns_with_its_video(
        self, copied: CopiedTable, objects: Objects, plan: RestorePlan, changed_at: int
    ) -> None:
        self._purge(copied, objects, changed_at)
        copied.restore(plan)
        assert self._entries(copied) == [VIDEO_ID, OTHER]
        assert copied.item(PLAYLIST, playlistId=copied.playlist)["entryCount"] == 2

    def test_late_purge_is_repaired_by_another_restore(self, copied: CopiedTable) -> None:
        copied.table.delete(VIDEO.key(videoId=VIDEO_ID))
        copied.restore()
        EntryStore(PlaylistStore(copied.table)).forget(copied.playlist, VIDEO_ID, PURGE, LATER)
        assert self._entries(copied) == [OTHER]
        copied.restore()
        assert self._entries(copied) == [VIDEO_ID, OTHER]

    def test_playlist_entry_removed_by_its_owner_before_a_purge_stays_removed(
        self, copied: CopiedTable, objects: Objects
    ) -> None:
        copied.api.delete(f"/v1/playlists/{copied.playlist}/entries/{OTHER}")
        copied.table.delete(VIDEO.key(videoId=VIDEO_ID))
        assert Purge(copied.table, objects, SOURCES_BUCKET, MEDIA_BUCKET).video(VIDEO_ID, LATER, lambda: True)
        _, lines = copied.restore(BY_TIME)
        assert self._entries(copied) == [VIDEO_ID]
        missing = "is missing, and may have been removed on purpose: skipped"
        assert f"Entry {copied.playlist} {OTHER}: {missing}" in lines

    def test_title_changed_before_a_purge_is_kept(self, copied: CopiedTable, objects: Objects) -> None:
        copied.api.patch(f"/v1/playlists/{copied.playlist}", {"title": "Better"})
        self._purge(copied, objects, LATER)
        copied.restore(BY_TIME)
        assert copied.item(PLAYLIST, playlistId=copied.playlist)["title"] == "Better"

    def test_concurrently_appended_video_is_listed_once(
        self, copied: CopiedTable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._lose(copied, f"ENTRY#.*{OTHER}|HAS#{OTHER}")
        read_entries = Repair._read_entries

        def added(repair: Repair, playlist_id: str) -> StoredEntries:
            entries = read_entries(repair, playlist_id)
            assert copied.api.post(f"/v1/playlists/{playlist_id}/entries", {"videoId": OTHER}).status == 201
            return entries

        monkeypatch.setattr(Repair, "_read_entries", added)
        _, lines = copied.restore()
        assert f"Entry {copied.playlist} {OTHER}: it was changed concurrently: skipped" in lines
        assert self._entries(copied) == [VIDEO_ID, OTHER]

    def test_incomplete_entry_of_a_changed_playlist_is_completed(self, copied: CopiedTable) -> None:
        copied.api.patch(f"/v1/playlists/{copied.playlist}", {"title": "Better"})
        self._lose(copied, f"ENTRY#.*{OTHER}|HAS#{VIDEO_ID}")
        assert copied.restore()[0]["changed"] == 2
        assert self._entries(copied) == [VIDEO_ID, OTHER]
        assert copied.api.delete(f"/v1/playlists/{copied.playlist}/entries/{VIDEO_ID}").status == 204

    def test_moved_entry_keeps_its_position(self, copied: CopiedTable) -> None:
        copied.api.clock.now = LATER
        path = f"/v1/playlists/{copied.playlist}/entries/{VIDEO_ID}"
        assert copied.api.patch(path, {"after": OTHER}).status == 200
        self._lose(copied, f"HAS#{VIDEO_ID}")
        assert copied.restore(BY_TIME)[0]["skipped"] == 1
        assert self._entries(copied) == [OTHER, VIDEO_ID]

    def test_restored_entries_are_counted_for_any_remover(self, copied: CopiedTable) -> None:
        copied.api.clock.now = LATER
        copied.api.delete(f"/v1/playlists/{copied.playlist}/entries/{VIDEO_ID}")
        self._lose(copied, f"ENTRY#.*{OTHER}|HAS#{OTHER}")
        copied.restore(BY_TIME)
        assert self._entries(copied) == [VIDEO_ID, OTHER]
        assert copied.item(PLAYLIST, playlistId=copied.playlist)["entryCount"] == 2


class TestWorkOfJobs:
    @pytest.fixture
    def background(self, api: Api) -> BackgroundWork:
        """Return the router with its queues."""
        return BackgroundWork(api.table, api.clock)

    @pytest.fixture
    def processed(self, api: Api, background: BackgroundWork, tmp_path: Path) -> tuple[CopiedTable, str]:
        """Return a backup and a video. The backup was written while jobs processed the video; the jobs finished after
        the damage."""
        video_id = str(api.create(title="T")["videoId"])
        background.arrive(video_id)
        copied = CopiedTable.fill(api, tmp_path)
        background.settle()
        api.clock.now = LATER
        background.probe(video_id)
        store, worker = VideoStore(api.table), Caller.job("transcode")
        for name in RENDITIONS:
            edit = partial(video.add_rendition, name=name, uri=f"s3://media/{name}")
            store.change(video_id, worker, LATER, edit)
        return copied, video_id

    def _is_ready(self, copied: CopiedTable, video_id: str) -> bool:
        item = copied.item(VIDEO, videoId=video_id)
        return bool(item["status"] == "ready" and item["source"]["made"].keys() == RENDITIONS.keys())

    @pytest.mark.parametrize("plan", [BY_TIME, RestorePlan(force=True)], ids=["by time", "by force"])
    def test_changes_made_only_by_jobs_are_kept(self, processed: tuple[CopiedTable, str], plan: RestorePlan) -> None:
        copied, video_id = processed
        _, lines = copied.restore(plan)
        assert f"Video {video_id}: already exists and differs: skipped" in lines
        assert self._is_ready(copied, video_id)

    @pytest.mark.parametrize("remove", [False, True])
    def test_change_of_a_person_after_jobs_is_reverted_and_job_results_are_kept(
        self, processed: tuple[CopiedTable, str], remove: bool
    ) -> None:
        copied, video_id = processed
        copied.api.patch(f"/v1/videos/{video_id}", {"title": "Lost", "frameRate": 24})
        if remove:
            copied.api.delete(f"/v1/videos/{video_id}")
        copied.restore(BY_TIME)
        item = copied.item(VIDEO, videoId=video_id)
        assert (item["title"], item["duration"], "frameRate" in item) == ("T", FIELDS["duration"], False)
        assert item["origins"] == dict.fromkeys(FIELDS, "job")
        assert self._is_ready(copied, video_id)
        assert "purgeAt" not in item

    def test_change_by_a_script_restores_the_whole_video(
        self, api: Api, background: BackgroundWork, tmp_path: Path
    ) -> None:
        video_id = background.uploaded_film(api)
        copied = CopiedTable.fill(api, tmp_path)
        copied.alter(VIDEO, {"source": {"uploadId": "0"}, "status": "failed"}, videoId=video_id)
        copied.restore()
        item = copied.item(VIDEO, videoId=video_id)
        assert (item["status"], item["source"]["uploadId"]) == ("processing", "0001")
