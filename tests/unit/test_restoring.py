"""Restores: missing items, damaged items, and items left unchanged because a user has written them since."""

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
from local.testbed.lean_moto import put_back
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

FILM = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
OTHER = "5c9b2f8e-1111-4222-8333-0305e82c3302"
LATER = NOW + 100
"""Time of the damage."""
NO_TIME = RestorePlan()
BY_TIME = RestorePlan(since=LATER, until=LATER + 10)


class CopiedTable:
    """Copy of a table with two videos, the child items of the first, and a playlist of both."""

    def __init__(self, api: Api, folder: Path, playlist: str) -> None:
        self.api = api
        self.table = api.table
        self.folder = folder
        self.playlist = playlist
        self.file = folder / "copy.jsonl"

    @classmethod
    def fill(cls, api: Api, folder: Path) -> "CopiedTable":
        """Write all of it, and the copy."""
        for video_id, external_id in ((FILM, "film-1"), (OTHER, "film-2")):
            api.publish(videoId=video_id, title="A film", tags=["one"], externalId=external_id)
        api.put(f"/v1/videos/{FILM}/credits/p", {"name": "P", "ordering": 1, "roles": [{"category": "actor"}]})
        api.put(f"/v1/videos/{FILM}/chapters", {"chapters": [{"start": 0, "title": "All of it"}]})
        captions: Item = {"text": "0" * 32, "cues": 1, "size": 40, "origin": "owner"}
        CaptionStore(api.table).put(FILM, "en", captions, Caller("alice", frozenset()), NOW, lambda _: True)
        api.put(f"/v1/videos/{FILM}/rating", {"value": 8}, user="bob")
        for _ in range(3):
            api.post(f"/v1/videos/{FILM}/views", user="bob")
        kept = cls(api, folder, str(api.post("/v1/playlists", {"title": "A list"}).json["playlistId"]))
        for video_id in (FILM, OTHER):
            api.post(f"/v1/playlists/{kept.playlist}/entries", {"videoId": video_id})
        Export(api.table, kept.file, bars=Bars()).run()
        return kept

    def restore(self, plan: RestorePlan = NO_TIME, table: Table | None = None) -> tuple[dict[str, int], list[str]]:
        """The outcomes, and the lines that were printed."""
        told: list[str] = []
        with work_file(self.folder / "state", {}, table or self.table) as work:
            self._restored(table or self.table, plan, told, Pool(1), work)
            outcomes = work.outcomes().get(self.file.name, {})
            work.remove()
        return outcomes, told

    def _restored(self, table: Table, plan: RestorePlan, told: list[str], pool: Pool, work: WorkFile) -> None:
        restore = LineRestore(
            self.file,
            table,
            work,
            plan=plan,
            print_line=told.append,
            rate=RateLimiter(None),
            pool=pool,
            bars=Bars(),
            clock=lambda: LATER + 1000,
        )
        restore.run()

    def item(self, entity: Entity, **parts: str | int) -> Item:
        """Return the item with a key."""
        return self.table.get(entity.key(**parts), consistent=True) or {}

    def alter(self, entity: Entity, values: dict[str, Any], **parts: str | int) -> None:
        """Change an item behind the service's back."""
        present = Expression("attribute_exists(#pk)", {"#pk": "pk"})
        self.table.write(self.table.put(self.item(entity, **parts) | values, condition=present))

    def contents(self) -> list[Item]:
        """All items, in one order; the request that wrote an item last is not kept."""
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
    """Serialized tables and their backup, created once because writing them takes longer than most restores."""
    return fill_once(lambda api: CopiedTable.fill(api, tmp_path_factory.mktemp("filled")))


@pytest.fixture
def kept(filled: tuple[bytes, CopiedTable], api: Api, tmp_path: Path) -> CopiedTable:
    """A table with a backup."""
    tables, written = filled
    put_back(tables)
    kept = CopiedTable(api, tmp_path, written.playlist)
    shutil.copy(written.file, kept.file)
    return kept


def test_a_table_that_is_as_it_was_is_not_written(kept: CopiedTable) -> None:
    before = kept.contents()
    outcomes, told = kept.restore(RestorePlan(force=True))
    assert list(outcomes) == ["unchanged"]
    assert told == []
    assert kept.contents() == before


def test_a_video_that_is_gone_comes_back_with_all_that_belonged_to_it(kept: CopiedTable) -> None:
    before = kept.contents()
    remove_video(kept.table, FILM)
    kept.table.delete(VIEW_COUNTER.key(videoId=FILM, shard=0))
    outcomes, told = kept.restore()
    assert outcomes["created"] == 5
    assert {f"{what}: was missing" for what in (f"Video {FILM}", f"Captions {FILM} en", f"Chapters {FILM}")} <= set(
        told
    )
    # Totals are made again by the stream, of ratings by `reconcile`.
    derived = RATING_TOTALS.key(videoId=FILM)
    again = {"updatedBy": "job:put-back", "updatedAs": "job"}
    for item in before:
        if FILM in item["pk"] and item["sk"] == VIDEO.sk:
            item |= again
        elif item.get("videoId") == FILM and item["pk"].startswith(RESERVATION.partition_prefix):
            item |= {"updatedBy": again["updatedBy"]}
        elif FILM in item["pk"] and item["sk"].startswith("TAG#"):
            item["updatedBy"] = again["updatedBy"]
        elif FILM in item["pk"] and item["sk"] == VIEW_COUNTER.sk:
            del item["hour"]  # what is put back was counted in no hour
    assert kept.contents() == [item for item in before if (item["pk"], item["sk"]) != tuple(derived.values())]


def test_an_item_that_was_altered_behind_the_service_s_back_is_repaired(kept: CopiedTable) -> None:
    kept.alter(VIDEO, {"title": "Lost", "graffiti": "x"}, videoId=FILM)
    outcomes, told = kept.restore()
    repaired = kept.item(VIDEO, videoId=FILM)
    assert (outcomes["changed"], repaired["title"], "graffiti" in repaired) == (1, "A film", False)
    assert told == [f"Video {FILM}: graffiti, title restored"]
    assert (repaired["version"], repaired["updatedBy"], repaired["updatedAs"]) == (2, "job:restore", "job")


def test_captions_and_chapters_that_were_altered_are_as_they_were(kept: CopiedTable) -> None:
    kept.alter(CAPTION, {"text": "f" * 32, "size": 1}, videoId=FILM, language="en")
    kept.alter(CHAPTERS, {"chapters": []}, videoId=FILM)
    outcomes, told = kept.restore()
    assert outcomes["changed"] == 2
    assert told == [f"Captions {FILM} en: size, text restored", f"Chapters {FILM}: chapters restored"]
    captions, chapters = kept.item(CAPTION, videoId=FILM, language="en"), kept.item(CHAPTERS, videoId=FILM)
    assert (captions["text"], captions["size"], captions["version"]) == ("0" * 32, 40, 2)
    assert (chapters["chapters"], chapters["version"]) == ([{"start": 0, "title": "All of it"}], 2)
    assert (captions["owner"], chapters["owner"]) == ("alice", "alice")


def test_change_made_during_the_damage_is_reverted_with_its_tags(kept: CopiedTable) -> None:
    kept.api.clock.now = LATER
    kept.api.patch(f"/v1/videos/{FILM}", {"title": "Lost", "tags": ["lost"]})
    outcomes, _ = kept.restore(BY_TIME)
    assert outcomes["changed"] == 1
    assert kept.api.get(f"/v1/videos/{FILM}").json["title"] == "A film"
    assert kept.item(TAG, videoId=FILM, tag="one")
    assert not kept.item(TAG, videoId=FILM, tag="lost")


def test_external_id_changed_during_the_damage_is_reserved_again(kept: CopiedTable) -> None:
    kept.api.clock.now = LATER
    kept.api.patch(f"/v1/videos/{FILM}", {"externalId": "lost"})
    assert kept.restore(BY_TIME)[0]["changed"] == 1
    assert kept.api.get("/v1/external-ids/film-1").json["videoId"] == FILM
    assert not kept.item(RESERVATION, userId="alice", field="externalId", value="lost")


def test_external_id_that_another_video_has_since_is_not_restored(kept: CopiedTable) -> None:
    kept.api.clock.now = LATER
    kept.api.patch(f"/v1/videos/{FILM}", {"externalId": "lost"})
    other = kept.api.create(externalId="film-1")["videoId"]
    _, told = kept.restore(BY_TIME)
    assert [line for line in told if "externalId" in line] == [
        f"Video {FILM}: Another video of the owner, {other}, has this externalId. Send another value."
    ]
    assert kept.api.get("/v1/external-ids/film-1").json["videoId"] == other


@pytest.mark.parametrize("moment", [LATER - 1, LATER + 10])
def test_change_made_outside_the_damage_is_kept_and_reported(kept: CopiedTable, moment: int) -> None:
    kept.api.clock.now = moment
    kept.api.patch(f"/v1/videos/{FILM}", {"title": "Better"})
    outcomes, told = kept.restore(BY_TIME)
    assert outcomes["skipped"] == 1
    assert told == [f"Video {FILM}: already exists and differs: skipped"]
    assert kept.item(VIDEO, videoId=FILM)["title"] == "Better"


def test_force_restores_changes_of_any_time(kept: CopiedTable) -> None:
    kept.api.patch(f"/v1/videos/{FILM}", {"title": "Better"})
    assert kept.restore(RestorePlan(force=True))[0]["changed"] == 1
    assert kept.item(VIDEO, videoId=FILM)["title"] == "A film"


def test_a_second_restore_finds_nothing_to_do(kept: CopiedTable) -> None:
    kept.alter(VIDEO, {"title": "Lost"}, videoId=FILM)
    kept.alter(VIEW_COUNTER, {"views": 1}, videoId=FILM, shard=0)
    kept.restore(RestorePlan(force=True))
    before = kept.contents()
    assert kept.restore(RestorePlan(force=True))[0].keys() == {"unchanged"}
    assert kept.contents() == before


def test_a_credit_is_repaired_and_one_that_was_deleted_comes_back(kept: CopiedTable) -> None:
    kept.alter(CREDIT, {"name": "Lost"}, videoId=FILM, personId="p")
    assert kept.restore()[0]["changed"] == 1
    assert kept.item(CREDIT, videoId=FILM, personId="p")["name"] == "P"
    kept.table.delete(CREDIT.key(videoId=FILM, personId="p"))
    assert kept.restore()[0]["created"] == 1
    assert kept.item(CREDIT, videoId=FILM, personId="p")["ordering"] == 1


@pytest.mark.parametrize(("others", "after"), [(1, 2), (2, 1), (7, 1)])
def test_the_views_of_all_shards_are_one_count(kept: CopiedTable, others: int, after: int) -> None:
    kept.alter(VIEW_COUNTER, {"views": 1, "shards": 2, "spread": 2}, videoId=FILM, shard=0)
    kept.table.write(kept.table.put(VIEW_COUNTER.key(videoId=FILM, shard=1) | {"views": others}))
    kept.restore()
    assert kept.item(VIEW_COUNTER, videoId=FILM, shard=0)["views"] == after


@pytest.mark.parametrize(("views", "after"), [(1, 3), (3, 3), (7, 7)])
def test_a_view_count_is_raised_and_never_lowered(kept: CopiedTable, views: int, after: int) -> None:
    kept.alter(VIEW_COUNTER, {"views": views}, videoId=FILM, shard=0)
    kept.restore(RestorePlan(force=True))
    assert kept.item(VIEW_COUNTER, videoId=FILM, shard=0)["views"] == after


def test_a_rating_that_was_given_again_stays_even_by_force(kept: CopiedTable) -> None:
    kept.api.put(f"/v1/videos/{FILM}/rating", {"value": 2}, user="bob")
    assert kept.restore(RestorePlan(force=True))[0]["skipped"] == 1
    assert kept.api.get(f"/v1/videos/{FILM}/rating", user="bob").json["own"]["value"] == 2


def test_entries_that_were_lost_come_back_to_a_playlist_that_nobody_has_changed(kept: CopiedTable) -> None:
    path = f"/v1/playlists/{kept.playlist}/entries"
    before = kept.api.get(path).json
    lost = [item for item in kept.contents() if re.match(rf"ENTRY#.*|HAS#{OTHER}", item["sk"])]
    kept.table.batch_delete([{name: item[name] for name in ("pk", "sk")} for item in lost])
    assert kept.restore()[0]["changed"] == 2
    assert kept.api.get(path).json == before
    assert kept.item(PLAYLIST, playlistId=kept.playlist)["entryCount"] == 2


def test_entries_that_were_taken_out_in_the_time_of_the_damage_come_back_and_are_counted(kept: CopiedTable) -> None:
    kept.api.clock.now = LATER
    kept.api.patch(f"/v1/playlists/{kept.playlist}", {"title": "Lost"})
    kept.api.delete(f"/v1/playlists/{kept.playlist}/entries/{OTHER}")
    kept.restore(BY_TIME)
    playlist = kept.api.get(f"/v1/playlists/{kept.playlist}").json
    assert (playlist["title"], playlist["entryCount"]) == ("A list", 2)
    entries = kept.api.get(f"/v1/playlists/{kept.playlist}/entries").json["items"]
    assert [entry["video"]["videoId"] for entry in entries] == [FILM, OTHER]


def test_an_entry_that_its_owner_has_taken_out_stays_out(kept: CopiedTable) -> None:
    kept.api.delete(f"/v1/playlists/{kept.playlist}/entries/{OTHER}")
    kept.restore(BY_TIME)
    assert kept.api.get(f"/v1/playlists/{kept.playlist}").json["entryCount"] == 1


def test_a_playlist_that_was_deleted_in_the_time_of_the_damage_comes_back_as_it_was(kept: CopiedTable) -> None:
    path = f"/v1/playlists/{kept.playlist}"
    kept.api.clock.now = LATER
    kept.api.patch(path, {"title": "Lost"})
    kept.api.delete(f"{path}/entries/{OTHER}")
    assert kept.api.delete(path).status == 204
    _, told = kept.restore(BY_TIME, Rehearsal(kept.table))
    assert f"Playlist {kept.playlist}: undeleted" in told
    assert kept.api.get(path).status == 404
    kept.restore(BY_TIME)
    playlist = kept.api.get(path).json
    assert (playlist["title"], playlist["entryCount"]) == ("A list", 2)
    assert [entry["videoId"] for entry in kept.api.get(f"{path}/entries").json["items"]] == [FILM, OTHER]
    assert [item["playlistId"] for item in kept.api.get("/v1/playlists").json["items"]] == [kept.playlist]
    assert kept.item(PROFILE, userId="alice")["playlists"] == 1
    before = kept.contents()
    kept.restore(BY_TIME)
    assert kept.contents() == before


def test_a_playlist_that_its_owner_has_deleted_stays_deleted_unless_forced(kept: CopiedTable) -> None:
    path = f"/v1/playlists/{kept.playlist}"
    kept.api.delete(path)
    before = kept.contents()
    kept.restore(BY_TIME)
    assert kept.contents() == before
    kept.restore(RestorePlan(force=True))
    assert kept.api.get(path).json["entryCount"] == 2


def test_a_playlist_comes_back_only_if_its_owner_may_have_one_more(
    kept: CopiedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(playlists, "MAX_PLAYLISTS", 1)
    kept.api.delete(f"/v1/playlists/{kept.playlist}")
    kept.api.post("/v1/playlists", {"title": "Another"})
    _, told = kept.restore(RestorePlan(force=True))
    assert any(line.startswith(f"Playlist {kept.playlist}: You already have 1 playlists") for line in told)
    assert kept.api.get(f"/v1/playlists/{kept.playlist}").status == 404


def test_unnamed_videos_and_playlists_are_not_restored(kept: CopiedTable) -> None:
    for video_id in (FILM, OTHER):
        kept.alter(VIDEO, {"title": "Lost"}, videoId=video_id)
    kept.alter(PLAYLIST, {"title": "Lost"}, playlistId=kept.playlist)
    kept.restore(RestorePlan(videos={FILM}))
    assert kept.item(VIDEO, videoId=FILM)["title"] == "A film"
    assert kept.item(VIDEO, videoId=OTHER)["title"] == "Lost"
    assert kept.item(PLAYLIST, playlistId=kept.playlist)["title"] == "Lost"


def test_a_rehearsal_reports_the_same_and_writes_nothing(kept: CopiedTable) -> None:
    remove_video(kept.table, FILM)
    kept.alter(VIDEO, {"title": "Lost"}, videoId=OTHER)
    before = kept.contents()
    rehearsed = kept.restore(table=Rehearsal(kept.table))
    assert kept.contents() == before
    assert kept.restore() == rehearsed


def test_a_job_is_never_set_back(kept: CopiedTable, tmp_path: Path) -> None:
    item = {"videoId": FILM, "kind": "probe", "owner": "alice", "state": "done", "input": {}, "inputHash": "h"}
    job = item | {"since": "0001", "attempt": 1, "writeId": "w", "version": 1} | JOB.key(videoId=FILM, kind="probe")
    kept.table.write(kept.table.put(job, condition=Expression("attribute_not_exists(#pk)", {"#pk": "pk"})))
    kept.file = tmp_path / "with-job.jsonl"
    Export(kept.table, kept.file, bars=Bars()).run()
    kept.alter(JOB, {"state": "failed"}, videoId=FILM, kind="probe")
    assert kept.restore(RestorePlan(force=True))[0]["skipped"] == 1
    assert kept.item(JOB, videoId=FILM, kind="probe")["state"] == "failed"


def test_the_command_takes_a_file_or_another_table(
    kept: CopiedTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    kept.alter(VIDEO, {"title": "Lost"}, videoId=FILM)
    arguments = ["restore", "--table", kept.table.name, "--from", kept.file.name]
    assert command.main([*arguments, "--dry-run"]) == 0
    assert "0 would be restored, 1 would be repaired" in capsys.readouterr().out
    assert command.main(arguments) == 0
    *_, repaired, hint = capsys.readouterr().out.splitlines()
    assert repaired.startswith("0 restored, 1 repaired")
    assert hint.endswith(f": python -m tools reconcile --table {kept.table.name}")
    create_table(kept.table.client, "before")
    assert command.main([*arguments[:-1], "before"]) == 0
    (made,) = tmp_path.glob("before.*Z.jsonl.gz")
    assert f"Restoring from {made.name}, which was written 0 h 0 min ago." in capsys.readouterr().out
    assert list(tmp_path.glob("*.restore")) == []


def test_the_copy_of_another_table_that_had_the_name_is_not_used(
    kept: CopiedTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    create_table(kept.table.client, "before")
    for old in ("before.jsonl.gz", "before.20200101T000000Z.jsonl.gz"):
        (tmp_path / old).write_bytes(gzip.compress(kept.file.read_bytes()))
    kept.table.delete(VIDEO.key(videoId=OTHER))
    assert command.main(["restore", "--table", kept.table.name, "--from", "before", "--force"]) == 0
    assert "0 restored, 0 repaired" in capsys.readouterr().out


def test_a_table_is_not_restored_from_itself(kept: CopiedTable, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["restore", "--table", kept.table.name, "--from", kept.table.name]) == 1
    assert "is the table to restore: name a copy of it" in capsys.readouterr().err


class TestBrokenOff:
    @pytest.fixture
    def arguments(self, kept: CopiedTable, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """A command for two videos, of which one is lost, in the folder of the copy."""
        monkeypatch.chdir(kept.folder)
        kept.alter(VIDEO, {"title": "Lost"}, videoId=FILM)
        return ["restore", "--table", kept.table.name, "--from", kept.file.name, "--videos"]

    def _break_off(self, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            # All is carried out and kept, and then it ends.
            patch.setattr(WorkFile, "outcomes", _interrupted)
            assert command.main(arguments) == 1

    def test_interrupted_restore_resumes_when_its_videos_are_named_in_another_order(
        self, kept: CopiedTable, arguments: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._break_off([*arguments, f"{FILM},{OTHER}"], monkeypatch)
        assert len(list(kept.folder.glob("*.restore"))) == 1
        assert command.main([*arguments, f"{OTHER},{FILM}"]) == 0

    def test_the_plan_of_many_videos_is_written_in_one_way(self) -> None:
        ids = [f"{number:036}" for number in range(50)]
        assert RestorePlan(videos=frozenset(ids)).settings() == [None, None, False, ids]

    def test_a_rehearsal_starts_over(
        self,
        arguments: list[str],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        kept: CopiedTable,
    ) -> None:
        rehearsed = [*arguments, f"{FILM},{OTHER}", "--dry-run"]
        self._break_off(rehearsed, monkeypatch)
        kept.alter(VIDEO, {"title": "Lost"}, videoId=OTHER)
        capsys.readouterr()
        assert command.main(rehearsed) == 0
        assert "2 would be repaired" in capsys.readouterr().out


def _interrupted(_: WorkFile) -> dict[str, dict[str, int]]:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--until", "5"], "--until needs --since"),
        (["--since", "6", "--until", "2020-01-01T00:00:00Z"], ""),
        (["--since", "7", "--until", "6"], "--since is not before --until"),
    ],
)
def test_times_that_make_no_sense_are_refused(
    kept: CopiedTable,
    options: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(kept.folder)
    status = command.main(["restore", "--table", kept.table.name, "--from", kept.file.name, *options])
    assert status == bool(sentence)
    assert sentence in capsys.readouterr().err


def test_a_time_is_one_that_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["restore", "--table", "t", "--from", "f", "--since", "yesterday"])
    assert "'yesterday' is not a time" in capsys.readouterr().err


class TestWhatTheDamageAdded:
    @pytest.mark.parametrize("purge_at", [NOW - 5, NOW + 10**9])
    def test_a_time_of_removal_of_a_video_is_taken_off(self, kept: CopiedTable, purge_at: int) -> None:
        kept.alter(VIDEO, {"purgeAt": purge_at}, videoId=FILM)
        outcomes, told = kept.restore()
        assert (outcomes["changed"], told) == (1, [f"Video {FILM}: purgeAt restored"])
        assert "purgeAt" not in kept.item(VIDEO, videoId=FILM)

    def test_attribute_added_to_a_credit_or_counter_is_removed(self, kept: CopiedTable) -> None:
        kept.alter(CREDIT, {"purgeAt": NOW}, videoId=FILM, personId="p")
        kept.alter(VIEW_COUNTER, {"purgeAt": NOW}, videoId=FILM, shard=0)
        assert kept.restore()[0]["changed"] == 2
        assert "purgeAt" not in kept.item(CREDIT, videoId=FILM, personId="p")
        counter = kept.item(VIEW_COUNTER, videoId=FILM, shard=0)
        assert (counter["views"], "purgeAt" in counter) == (3, False)

    def test_attribute_added_to_a_rating_is_reported(self, kept: CopiedTable) -> None:
        kept.alter(RATING, {"purgeAt": NOW}, userId="bob", lane=lane_of("bob"), videoId=FILM)
        assert kept.restore()[0]["skipped"] == 1

    def test_a_video_that_waits_for_its_removal_by_right_is_left(self, kept: CopiedTable) -> None:
        kept.alter(VIDEO, {"purgeAt": NOW, "writeId": "another"}, videoId=FILM)
        _, told = kept.restore(RestorePlan(force=True))
        assert f"Video {FILM}: an earlier video of this id is waiting to be removed: import it again after that" in told


class TestCounts:
    @pytest.fixture
    def lost(self, kept: CopiedTable) -> CopiedTable:
        """Two views of three are lost."""
        kept.alter(VIEW_COUNTER, {"views": 1}, videoId=FILM, shard=0)
        return kept

    def _viewed_after_reading(self, kept: CopiedTable, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        """Let a view be counted each time that an item was looked at, and about to be written."""
        left, write = list(range(times)), Table.write

        def viewed(table: Table, change: Write, **options: Any) -> Item:
            if left and ":lacking" in str(change.parameters):
                left.pop()
                kept.api.post(f"/v1/videos/{FILM}/views", user="bob")
            return write(table, change, **options)

        monkeypatch.setattr(Table, "write", viewed)

    def test_a_view_that_comes_between_is_counted(self, lost: CopiedTable, monkeypatch: pytest.MonkeyPatch) -> None:
        self._viewed_after_reading(lost, monkeypatch, 1)
        outcomes, told = lost.restore()
        assert (outcomes["changed"], told) == (1, [f"Views {FILM}: views 2 -> 3"])

    def test_a_counter_that_never_rests_is_reported_and_the_rest_continues(
        self, lost: CopiedTable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(records, "MAX_ATTEMPTS", 1)
        lost.alter(VIDEO, {"title": "Lost"}, videoId=OTHER)
        self._viewed_after_reading(lost, monkeypatch, 1)
        outcomes, told = lost.restore()
        assert f"Views {FILM}: its views changed concurrently: run the command again" in told
        assert outcomes["changed"] == 1

    def test_a_counter_without_a_count_gets_one(self, kept: CopiedTable) -> None:
        counter = kept.item(VIEW_COUNTER, videoId=FILM, shard=0)
        del counter["views"]
        kept.table.write(kept.table.put(counter, condition=Expression("attribute_exists(#pk)", {"#pk": "pk"})))
        kept.restore()
        assert kept.item(VIEW_COUNTER, videoId=FILM, shard=0)["views"] == 3


class TestEntries:
    def _entries(self, kept: CopiedTable) -> list[str]:
        entries = kept.api.get(f"/v1/playlists/{kept.playlist}/entries").json["items"]
        return [entry["video"]["videoId"] for entry in entries]

    def _lose(self, kept: CopiedTable, pattern: str) -> None:
        """Delete items of the playlist behind the service's back."""
        lost = [item for item in kept.contents() if kept.playlist in item["pk"] and re.match(pattern, item["sk"])]
        kept.table.batch_delete([{name: item[name] for name in ("pk", "sk")} for item in lost])

    def _purge(self, kept: CopiedTable, objects: Objects, moment: int) -> None:
        kept.table.delete(VIDEO.key(videoId=FILM))
        assert Purge(kept.table, objects, SOURCES_BUCKET, MEDIA_BUCKET).video(FILM, moment, lambda: True)
        assert self._entries(kept) == [OTHER]

    @pytest.mark.parametrize(
        ("plan", "moment"), [(NO_TIME, LATER), (BY_TIME, LATER + 11), (BY_TIME, LATER + 1)], ids=str
    )
    def test_playlist_entry_removed_by_a_purge_returns_with_its_video(
        self, kept: CopiedTable, objects: Objects, plan: RestorePlan, moment: int
    ) -> None:
        self._purge(kept, objects, moment)
        kept.restore(plan)
        assert self._entries(kept) == [FILM, OTHER]
        assert kept.item(PLAYLIST, playlistId=kept.playlist)["entryCount"] == 2

    def test_a_purge_that_was_late_is_made_good_by_another_restore(self, kept: CopiedTable) -> None:
        kept.table.delete(VIDEO.key(videoId=FILM))
        kept.restore()
        EntryStore(PlaylistStore(kept.table)).forget(kept.playlist, FILM, PURGE, LATER)
        assert self._entries(kept) == [OTHER]
        kept.restore()
        assert self._entries(kept) == [FILM, OTHER]

    def test_playlist_entry_removed_by_its_owner_before_a_purge_stays_removed(
        self, kept: CopiedTable, objects: Objects
    ) -> None:
        kept.api.delete(f"/v1/playlists/{kept.playlist}/entries/{OTHER}")
        kept.table.delete(VIDEO.key(videoId=FILM))
        assert Purge(kept.table, objects, SOURCES_BUCKET, MEDIA_BUCKET).video(FILM, LATER, lambda: True)
        _, told = kept.restore(BY_TIME)
        assert self._entries(kept) == [FILM]
        missing = "is missing, and may have been removed on purpose: skipped"
        assert f"Entry {kept.playlist} {OTHER}: {missing}" in told

    def test_a_title_that_its_owner_gave_before_a_purge_stays(self, kept: CopiedTable, objects: Objects) -> None:
        kept.api.patch(f"/v1/playlists/{kept.playlist}", {"title": "Better"})
        self._purge(kept, objects, LATER)
        kept.restore(BY_TIME)
        assert kept.item(PLAYLIST, playlistId=kept.playlist)["title"] == "Better"

    def test_a_video_that_was_added_again_meanwhile_is_there_once(
        self, kept: CopiedTable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._lose(kept, f"ENTRY#.*{OTHER}|HAS#{OTHER}")
        read_entries = Repair._read_entries

        def added(repair: Repair, playlist_id: str) -> StoredEntries:
            entries = read_entries(repair, playlist_id)
            assert kept.api.post(f"/v1/playlists/{playlist_id}/entries", {"videoId": OTHER}).status == 201
            return entries

        monkeypatch.setattr(Repair, "_read_entries", added)
        _, told = kept.restore()
        assert f"Entry {kept.playlist} {OTHER}: it was changed concurrently: skipped" in told
        assert self._entries(kept) == [FILM, OTHER]

    def test_half_an_entry_is_made_whole_in_a_playlist_that_others_changed(self, kept: CopiedTable) -> None:
        kept.api.patch(f"/v1/playlists/{kept.playlist}", {"title": "Better"})
        self._lose(kept, f"ENTRY#.*{OTHER}|HAS#{FILM}")
        assert kept.restore()[0]["changed"] == 2
        assert self._entries(kept) == [FILM, OTHER]
        assert kept.api.delete(f"/v1/playlists/{kept.playlist}/entries/{FILM}").status == 204

    def test_an_entry_that_has_moved_is_not_put_back_where_it_was(self, kept: CopiedTable) -> None:
        kept.api.clock.now = LATER
        path = f"/v1/playlists/{kept.playlist}/entries/{FILM}"
        assert kept.api.patch(path, {"after": OTHER}).status == 200
        self._lose(kept, f"HAS#{FILM}")
        assert kept.restore(BY_TIME)[0]["skipped"] == 1
        assert self._entries(kept) == [OTHER, FILM]

    def test_entries_are_counted_whoever_took_them_out(self, kept: CopiedTable) -> None:
        kept.api.clock.now = LATER
        kept.api.delete(f"/v1/playlists/{kept.playlist}/entries/{FILM}")
        self._lose(kept, f"ENTRY#.*{OTHER}|HAS#{OTHER}")
        kept.restore(BY_TIME)
        assert self._entries(kept) == [FILM, OTHER]
        assert kept.item(PLAYLIST, playlistId=kept.playlist)["entryCount"] == 2


class TestWorkOfJobs:
    @pytest.fixture
    def background(self, api: Api) -> BackgroundWork:
        """The router and its queues."""
        return BackgroundWork(api.table, api.clock)

    @pytest.fixture
    def processed(self, api: Api, background: BackgroundWork, tmp_path: Path) -> tuple[CopiedTable, str]:
        """A video of which a copy was made while jobs had it, and which jobs have made ready in the time of the damage."""
        video_id = str(api.create(title="T")["videoId"])
        background.arrive(video_id)
        kept = CopiedTable.fill(api, tmp_path)
        background.settle()
        api.clock.now = LATER
        background.probe(video_id)
        store, worker = VideoStore(api.table), Caller.job("transcode")
        for name in RENDITIONS:
            edit = partial(video.add_rendition, name=name, uri=f"s3://media/{name}")
            store.change(video_id, worker, LATER, edit)
        return kept, video_id

    def _is_ready(self, kept: CopiedTable, video_id: str) -> bool:
        item = kept.item(VIDEO, videoId=video_id)
        return bool(item["status"] == "ready" and item["source"]["made"].keys() == RENDITIONS.keys())

    @pytest.mark.parametrize("plan", [BY_TIME, RestorePlan(force=True)], ids=["by time", "by force"])
    def test_changes_made_only_by_jobs_are_kept(self, processed: tuple[CopiedTable, str], plan: RestorePlan) -> None:
        kept, video_id = processed
        _, told = kept.restore(plan)
        assert f"Video {video_id}: already exists and differs: skipped" in told
        assert self._is_ready(kept, video_id)

    @pytest.mark.parametrize("remove", [False, True])
    def test_change_of_a_person_after_jobs_is_reverted_and_job_results_are_kept(
        self, processed: tuple[CopiedTable, str], remove: bool
    ) -> None:
        kept, video_id = processed
        kept.api.patch(f"/v1/videos/{video_id}", {"title": "Lost", "frameRate": 24})
        if remove:
            kept.api.delete(f"/v1/videos/{video_id}")
        kept.restore(BY_TIME)
        item = kept.item(VIDEO, videoId=video_id)
        assert (item["title"], item["duration"], "frameRate" in item) == ("T", FIELDS["duration"], False)
        assert item["origins"] == dict.fromkeys(FIELDS, "job")
        assert self._is_ready(kept, video_id)
        assert "purgeAt" not in item

    def test_change_by_a_script_restores_the_whole_video(
        self, api: Api, background: BackgroundWork, tmp_path: Path
    ) -> None:
        video_id = background.uploaded_film(api)
        kept = CopiedTable.fill(api, tmp_path)
        kept.alter(VIDEO, {"source": {"uploadId": "0"}, "status": "failed"}, videoId=video_id)
        kept.restore()
        item = kept.item(VIDEO, videoId=video_id)
        assert (item["status"], item["source"]["uploadId"]) == ("processing", "0001")
