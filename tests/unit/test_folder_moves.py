"""Moves of folders: resumable runs, each of which is one change set."""

from typing import Any

import pytest

from local.testbed.harness import Reply, ShortContext, record_operations
from shared.history import folder_moves
from shared.history.folder_moves import FolderMoves
from shared.history.revert_runs import DAYS_KEPT, RunStore
from shared.schema import FOLDER
from tests.integration.faults import Killed
from tests.reverting import WRITES, RevertTestbed, kill_at_write

MOVE = {"folder": "a", "to": "x/y"}


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit each step of a move to two videos."""
    monkeypatch.setattr(folder_moves, "VIDEOS_PER_STEP", 2)


def begin(reverts: RevertTestbed, user: str = "alice", **body: Any) -> Reply:
    """Request a move. The default is a move of the folder `a`."""
    return reverts.api.post("/v1/folder-moves", MOVE | body, user=user)


def status(reverts: RevertTestbed, move_id: str, user: str = "alice") -> dict[str, Any]:
    reply = reverts.api.get(f"/v1/folder-moves/{move_id}", user=user)
    assert reply.status == 200, reply.body
    report: dict[str, Any] = reply.json
    return report


def folders(reverts: RevertTestbed, videos: list[dict[str, Any]]) -> list[str | None]:
    return [reverts.api.get(f"/v1/videos/{video['videoId']}", user="admin").json.get("folder") for video in videos]


def library(reverts: RevertTestbed) -> list[dict[str, Any]]:
    """Create five videos of alice in the folder `a` and its subfolders, and two videos elsewhere."""
    return [reverts.api.create(folder=path) for path in ("a", "a/b", "a/b/c", "a/b", "a", "ab")] + [
        reverts.api.create()
    ]


MOVED = ["x/y", "x/y/b", "x/y/b/c", "x/y/b", "x/y", "ab", None]


class TestMove:
    def test_all_videos_in_the_folder_and_below_it_move(self, reverts: RevertTestbed) -> None:
        videos = library(reverts)
        reply = begin(reverts)
        assert (reply.status, reply.json["state"], reply.json["moved"]) == (202, "running", 0)
        assert reply.headers["location"] == f"folder-moves/{reply.json['moveId']}"
        reverts.work()
        assert folders(reverts, videos) == MOVED
        assert status(reverts, reply.json["moveId"]) | {"moveId": ""} == {
            **MOVE,
            "moveId": "",
            "userId": "alice",
            "state": "done",
            "moved": 5,
            "failed": 0,
            "waiting": 0,
            "items": [],
            "nextCursor": None,
        }

    def test_a_revert_of_the_moves_change_set_restores_all_folders(self, reverts: RevertTestbed) -> None:
        videos = library(reverts)
        before = folders(reverts, videos)
        reply = begin(reverts)
        move_id = reply.json["moveId"]
        assert reply.headers["change-set"] == move_id
        reverts.work()
        reverted = reverts.revert_and_settle(move_id, user="alice")
        assert (reverted["reverted"], reverted["skipped"]) == (5, 0)
        assert folders(reverts, videos) == before
        entries = [reverts.table.get(FOLDER.key(videoId=video["videoId"])) for video in videos[:5]]
        assert [entry["relId"].partition("//")[0] for entry in entries if entry] == before[:5]

    def test_a_folder_merges_with_the_folder_that_has_the_new_path(self, reverts: RevertTestbed) -> None:
        videos = [reverts.api.create(folder="a/b"), reverts.api.create(folder="x/y/b")]
        begin(reverts)
        reverts.work()
        assert folders(reverts, videos) == ["x/y/b", "x/y/b"]

    def test_videos_that_are_added_during_the_move_also_move(self, reverts: RevertTestbed) -> None:
        library(reverts)
        move_id = begin(reverts).json["moveId"]
        reverts.settle()
        (message,) = reverts.queues["reverts"].take()
        reverts.deliver(message, context=ShortContext(3))
        late = reverts.api.create(folder="a")
        reverts.work()
        assert folders(reverts, [late]) == ["x/y"]
        assert status(reverts, move_id)["moved"] == 6

    def test_a_video_that_another_writer_moves_or_deletes_first_stays(self, reverts: RevertTestbed) -> None:
        videos = library(reverts)
        move_id = begin(reverts).json["moveId"]
        run = RunStore(reverts.table).read(move_id) or {}
        FolderMoves(reverts.table).step(run, reverts.now, lambda: True)  # finds the first two videos
        found = (RunStore(reverts.table).read(move_id) or {})["found"]
        first, second = (f"/v1/videos/{video_id}" for video_id in found)
        reverts.api.patch(first, {"folder": "z"})
        reverts.api.delete(second)
        reverts.work()
        assert reverts.api.get(first).json["folder"] == "z"
        assert status(reverts, move_id)["moved"] == 3
        assert len(videos) == 7

    def test_a_video_whose_path_would_be_too_long_fails_with_the_reason(self, reverts: RevertTestbed) -> None:
        deep = reverts.api.create(folder="a/2/3/4/5/6/7/8/9/10")
        shallow = reverts.api.create(folder="a")
        move_id = begin(reverts).json["moveId"]
        reverts.work()
        report = status(reverts, move_id)
        assert (report["state"], report["moved"], report["failed"]) == ("done", 1, 1)
        (item,) = report["items"]
        assert (item["videoId"], item["problem"]["errors"][0]["pointer"]) == (deep["videoId"], "/folder")
        assert folders(reverts, [deep, shallow]) == ["a/2/3/4/5/6/7/8/9/10", "x/y"]

    def test_a_move_is_done_after_the_maximum_number_of_walks(
        self, reverts: RevertTestbed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(folder_moves, "MAX_WALKS", 1)
        library(reverts)
        move_id = begin(reverts).json["moveId"]
        reverts.work()
        assert status(reverts, move_id)["state"] == "done"


class TestRefusals:
    @pytest.mark.parametrize(("folder", "to"), [("a", "a"), ("a", "a/b"), ("a/b", "a"), ("a", " a ")])
    def test_a_folder_cannot_move_into_itself_or_a_folder_around_it(
        self, reverts: RevertTestbed, folder: str, to: str
    ) -> None:
        library(reverts)
        reply = begin(reverts, folder=folder, to=to)
        assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, "/to")

    def test_a_folder_without_videos_is_404(self, reverts: RevertTestbed) -> None:
        library(reverts)
        assert [begin(reverts, folder=folder).status for folder in ("never", "b", "a/bc")] == [404] * 3

    def test_only_the_owner_and_admins_move_a_folder(self, reverts: RevertTestbed) -> None:
        videos = library(reverts)
        assert begin(reverts, "bob", userId="alice").status == 403
        assert begin(reverts, "bob").status == 404
        move_id = begin(reverts, "admin", userId="alice").json["moveId"]
        reverts.work()
        assert folders(reverts, videos) == MOVED
        replies = [reverts.api.get(f"/v1/folder-moves/{move_id}", user=user) for user in ("admin", "alice", "bob")]
        assert [reply.status for reply in replies] == [200, 404, 404]

    def test_a_move_is_no_revert_and_a_revert_is_no_move(self, reverts: RevertTestbed) -> None:
        library(reverts)
        move_id = begin(reverts).json["moveId"]
        assert reverts.run(move_id, move_id, user="alice").status == 404
        assert reverts.api.get("/v1/folder-moves/never").status == 404

    def test_the_status_expires_after_a_month(self, reverts: RevertTestbed) -> None:
        library(reverts)
        move_id = begin(reverts).json["moveId"]
        reverts.clock.advance(DAYS_KEPT * 86_400)
        assert reverts.api.get(f"/v1/folder-moves/{move_id}").status == 404


def writes_of_a_move(reverts: RevertTestbed) -> int:
    """Return the number of write requests of the worker that moves the library."""
    library(reverts)
    begin(reverts)
    reverts.settle()
    with record_operations(reverts.table.client) as operations:
        reverts.deliver(*reverts.queues["reverts"].take())
    return sum(operation.name in WRITES for operation in operations)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(11))
def test_each_video_counts_once_wherever_the_worker_is_killed(reverts: RevertTestbed, at: int, *, after: bool) -> None:
    videos = library(reverts)
    move_id = begin(reverts).json["moveId"]
    reverts.settle()
    (message,) = reverts.queues["reverts"].take()
    restore = kill_at_write(reverts.table, at, after=after)
    try:
        with pytest.raises(Killed):
            reverts.deliver(message)
    finally:
        restore()
    reverts.queues["reverts"].send(message)  # SQS delivers it again
    reverts.work()
    report = status(reverts, move_id)
    assert (report["state"], report["moved"], report["failed"], report["waiting"]) == ("done", 5, 0, 0)
    assert folders(reverts, videos) == MOVED


def test_the_crash_test_covers_every_write_of_the_first_message(reverts: RevertTestbed) -> None:
    assert writes_of_a_move(reverts) == 11
