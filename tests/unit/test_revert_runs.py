"""Reverts of large change sets: a worker reverts page after page, and resumes after any interruption."""

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import jsonschema_rs
import pytest

from local.testbed.harness import JOBS_PER_DAY, ShortContext, record_operations
from local.testbed.wire import intercept
from shared.history import changeset_reverts as undoing_module
from shared.history import revert_runs
from shared.history.changeset_reverts import ChangeSetReverts
from shared.openapi.document import document
from shared.processing.daily_quota import QuotaStore
from shared.processing.messages import revert_message
from shared.relations.models import ReleaseContent
from tests.integration.faults import Killed
from tests.reverting import ROLES, WRITES, RevertTestbed, allow_any, kill_at_write

COUNTS = ("examined", "reverted", "unchanged", "skipped", "failed", "waiting")


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limits, so that a set of three entries is large, and each step reverts two entries."""
    monkeypatch.setattr(undoing_module, "MAX_ENTRIES_INLINE", 2)
    monkeypatch.setattr(undoing_module, "ENTRIES_PER_STEP", 2)
    monkeypatch.setattr(undoing_module, "WAITING_PARTS_PER_STEP", 2)


def _renamed(undoing: RevertTestbed, count: int, changeset_id: str = "set", owner: str = "alice") -> list[str]:
    """Change title and category of new videos in one change set, and return the ids."""
    video_ids = [
        str(undoing.api.create("admin", userId=owner, title=f"Film {number}", category="old")["videoId"])
        for number in range(count)
    ]
    for video_id in video_ids:
        undoing.videos.change(
            video_id,
            undoing.admin(changeset_id),
            undoing.now,
            lambda item: item | {"title": "Wrong", "category": "new"},
        )
    undoing.settle()
    return video_ids


def _start(undoing: RevertTestbed, changeset_id: str = "set", **options: Any) -> str:
    """Request a revert, and return the id of the run."""
    reply = undoing.undo(changeset_id, **options)
    assert reply.status == 202, reply.body
    assert reply.json["state"] == "running"
    return str(reply.json["revertId"])


def _counts(report: Mapping[str, Any]) -> dict[str, int]:
    return {name: report[name] for name in COUNTS if report[name]}


class TestStart:
    def test_accepted_revert_has_the_location_of_its_status(self, reverts: RevertTestbed, small_pages: None) -> None:
        _renamed(reverts, 3)
        reply = reverts.undo("set")
        assert reply.status == 202
        revert_id = reply.json["revertId"]
        assert reply.headers["location"] == f"reverts/{revert_id}"
        assert reverts.run("set", revert_id).json == reply.json
        reverts.work()
        assert reverts.run("set", revert_id).json["state"] == "done"

    def test_responses_conform_to_the_openapi_schema(self, reverts: RevertTestbed, small_pages: None) -> None:
        video_ids = _renamed(reverts, 3)
        reverts.patch(video_ids[0], title="Mine", category="mine")
        schema = {"$ref": "#/components/schemas/ChangesetRevert", "components": document()["components"]}
        validator = jsonschema_rs.Draft202012Validator(schema)
        reply = reverts.undo("set")
        validator.validate(reply.json)
        reverts.work()
        validator.validate(reverts.run("set", reply.json["revertId"]).json)

    def test_revert_status_is_for_the_requester_and_admins_only(
        self, reverts: RevertTestbed, small_pages: None
    ) -> None:
        _renamed(reverts, 3)
        revert_id = _start(reverts, user="alice")
        statuses = {user: reverts.run("set", revert_id, user=user).status for user in ("alice", "admin", "bob")}
        assert statuses == {"alice": 200, "admin": 200, "bob": 404}
        assert reverts.run("other", revert_id).status == 404
        assert reverts.run("set", "never-was").status == 404

    def test_run_status_expires_after_a_month(self, reverts: RevertTestbed, small_pages: None) -> None:
        _renamed(reverts, 3)
        revert_id = _start(reverts)
        reverts.clock.advance(revert_runs.DAYS_KEPT * 86_400)
        assert reverts.run("set", revert_id).status == 404

    def test_skipped_items_are_listed_in_pages(self, reverts: RevertTestbed, small_pages: None) -> None:
        video_ids = _renamed(reverts, 5)
        for video_id in video_ids:
            reverts.patch(video_id, title="Mine", category="mine")
        revert_id = _start(reverts)
        reverts.work()
        listed: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            page = reverts.run("set", revert_id, query=f"limit=2{cursor and f'&cursor={cursor}'}").json
            assert page["skipped"] == 5
            listed += [item["videoId"] for item in page["items"]]
            cursor = page["nextCursor"]
        assert sorted(listed) == sorted(video_ids)


class TestRun:
    def test_run_reports_its_progress(self, reverts: RevertTestbed, small_pages: None) -> None:
        _renamed(reverts, 5)
        revert_id = _start(reverts)
        progress: list[int] = []
        sets = ChangeSetReverts(reverts.table, reverts.trail, QuotaStore(reverts.table, JOBS_PER_DAY))
        sets.resume(revert_id, reverts.clock, lambda: True, lambda run: progress.append(run["examined"]))
        assert progress == [0, 1, 2, 3]  # once before each step; the last step has two entries

    def test_run_acts_with_the_rights_of_the_requester(self, reverts: RevertTestbed, small_pages: None) -> None:
        ours = _renamed(reverts, 3)
        (theirs,) = _renamed(reverts, 1, owner="bob")
        revert_id = _start(reverts, user="alice")
        reverts.work()
        assert _counts(reverts.run("set", revert_id, user="alice").json) == {"examined": 3, "reverted": 3}
        assert reverts.item(theirs)["title"] == "Wrong"
        assert {reverts.item(video_id)["updatedBy"] for video_id in ours} == {"alice"}

    def test_writes_of_a_run_are_a_change_set_that_can_be_reverted(
        self, reverts: RevertTestbed, small_pages: None
    ) -> None:
        video_ids = _renamed(reverts, 3)
        revert_id = _start(reverts)
        reverts.work()
        _start(reverts, revert_id)
        reverts.work()
        assert {reverts.item(video_id)["title"] for video_id in video_ids} == {"Wrong"}

    def test_dry_run_of_a_run_writes_only_its_report(self, reverts: RevertTestbed, small_pages: None) -> None:
        video_ids = _renamed(reverts, 3)
        reverts.patch(video_ids[0], title="Mine")
        before = reverts.stored()
        revert_id = _start(reverts, query="dryRun=true")
        reverts.work()
        report = reverts.run("set", revert_id).json
        assert (report["dryRun"], _counts(report)) == (True, {"examined": 3, "reverted": 3})
        assert [item["videoId"] for item in report["items"]] == [video_ids[0]]
        assert reverts.stored() == before

    @pytest.mark.slow
    def test_run_reverts_every_item_of_a_video_across_pages(self, reverts: RevertTestbed, small_pages: None) -> None:
        change_set = reverts.create_change_set("import-1", videos=3)
        revert_id = _start(reverts, "import-1")
        reverts.work()
        report = reverts.run("import-1", revert_id).json
        assert (report["failed"], report["skipped"], report["examined"]) == (0, 0, 22)
        assert not any(change_set.existing_kinds().values())
        back = _start(reverts, revert_id)
        reverts.work()
        report = reverts.run(revert_id, back).json
        assert (report["failed"], report["skipped"]) == (0, 0)
        assert all(change_set.existing_kinds().values())

    def test_run_out_of_time_continues_with_another_message(self, reverts: RevertTestbed, small_pages: None) -> None:
        _renamed(reverts, 7)
        revert_id = _start(reverts)
        messages = reverts.work(context=lambda: ShortContext(4))
        assert messages > 2
        assert _counts(reverts.run("set", revert_id).json) == {"examined": 7, "reverted": 7}

    def test_run_without_time_is_requeued_unchanged(self, reverts: RevertTestbed, small_pages: None) -> None:
        _renamed(reverts, 3)
        revert_id = _start(reverts)
        before = reverts.stored()
        message = revert_message(revert_id)
        assert reverts.deliver(message, context=ShortContext(0)) == {"batchItemFailures": []}
        reverts.settle()
        assert reverts.queues["reverts"].take() == [message, message]
        assert reverts.stored() == before

    @pytest.mark.parametrize("body", [{}, {"schema": "video-metadata/revert/1"}, {"schema": "x", "revertId": "r"}])
    def test_invalid_message_fails(self, reverts: RevertTestbed, body: dict[str, Any]) -> None:
        assert reverts.deliver(body) == {"batchItemFailures": [{"itemIdentifier": "m0"}]}

    def test_message_of_an_unknown_run_succeeds(self, reverts: RevertTestbed) -> None:
        assert reverts.deliver(revert_message("never-was")) == {"batchItemFailures": []}
        assert reverts.queues["reverts"].take() == []


class TestDuplicates:
    def test_duplicate_messages_count_each_item_once(self, reverts: RevertTestbed, small_pages: None) -> None:
        _renamed(reverts, 5)
        revert_id = _start(reverts)
        reverts.settle()
        reverts.replay()  # delivers the record of the run again, which queues another message
        messages = reverts.queues["reverts"].take()
        assert len(messages) > 1
        for message in [*messages, *messages]:
            assert reverts.deliver(message, context=ShortContext(3)) == {"batchItemFailures": []}
            reverts.settle()
        reverts.work()
        assert _counts(reverts.run("set", revert_id).json) == {"examined": 5, "reverted": 5}

    def test_second_concurrent_worker_stops_and_nothing_counts_twice(
        self, reverts: RevertTestbed, small_pages: None
    ) -> None:
        video_ids = _renamed(reverts, 5)
        reverts.patch(video_ids[0], title="Mine")
        revert_id = _start(reverts)
        reverts.settle()
        (message,) = reverts.queues["reverts"].take()
        others: list[dict[str, Any]] = []

        def between(operation: str, parameters: Mapping[str, Any], send: Callable[[], Any]) -> Any:
            # Just before this worker stores its progress, another worker does all the remaining work.
            if not others and "#turn" in json.dumps(parameters, default=str) and operation != "Query":
                others.append({})
                others[0] = reverts.deliver(message)
            return send()

        undo = intercept(reverts.table.client, between)
        try:
            assert reverts.deliver(message) == {"batchItemFailures": []}
        finally:
            undo()
        assert others == [{"batchItemFailures": []}]
        reverts.work()
        report = reverts.run("set", revert_id).json
        assert (report["state"], _counts(report)) == ("done", {"examined": 5, "reverted": 5})
        assert len(report["items"]) == 1


WRITES_OF_A_RUN, WRITES_OF_ITS_REVERT = 15, 11
"""Number of writes of a run that reverts every kind of change, and of a run that reverts the first run."""


@pytest.mark.parametrize(
    ("is_reverted", "at"),
    [*((False, at) for at in range(-1, WRITES_OF_A_RUN)), *((True, at) for at in range(-1, WRITES_OF_ITS_REVERT))],
)
def test_run_killed_after_any_write_resumes_and_counts_each_item_once(
    reverts: RevertTestbed, small_pages: None, is_reverted: bool, at: int
) -> None:
    """Kill the worker after write number `at`, counted from 0. -1 means before the first write."""
    change_set, changeset_id = reverts.create_change_set("import-1"), "import-1"
    if is_reverted:
        changeset_id = _start(reverts, changeset_id)
        reverts.work()
    revert_id = _start(reverts, changeset_id)
    reverts.settle()
    (message,) = reverts.queues["reverts"].take()
    restore = kill_at_write(reverts.table, max(at, 0), after=at >= 0)
    try:
        with pytest.raises(Killed):
            reverts.deliver(message)
    finally:
        restore()
    reverts.queues["reverts"].send(message)  # as SQS does after a failure
    reverts.work()
    report = reverts.run(changeset_id, revert_id).json
    assert (report["state"], report["reverted"], report["failed"], report["skipped"]) == ("done", 7, 0, 0)
    assert change_set.existing_kinds() == dict.fromkeys(change_set.existing_kinds(), is_reverted)


@pytest.mark.parametrize(("is_reverted", "writes"), [(False, WRITES_OF_A_RUN), (True, WRITES_OF_ITS_REVERT)])
def test_run_makes_the_number_of_writes_that_the_kill_test_covers(
    reverts: RevertTestbed, small_pages: None, is_reverted: bool, writes: int
) -> None:
    reverts.create_change_set("import-1")
    changeset_id = "import-1"
    if is_reverted:
        changeset_id = _start(reverts, changeset_id)
        reverts.work()
    _start(reverts, changeset_id)
    reverts.settle()
    with record_operations(reverts.table.client) as operations:
        reverts.deliver(*reverts.queues["reverts"].take())
    assert len([operation for operation in operations if operation.name in WRITES]) == writes


class TestTrailBehind:
    def test_waiting_item_does_not_block_other_items(self, reverts: RevertTestbed, small_pages: None) -> None:
        video_ids = _renamed(reverts, 5)
        revert_id = _start(reverts)
        reverts.settle()
        assert reverts.api.patch(f"/v1/videos/{video_ids[0]}", {"title": "Mine"}).status == 200
        late = reverts.records()
        (message,) = reverts.queues["reverts"].take()
        reverts.deliver(message)
        report = reverts.run("set", revert_id).json
        assert (report["state"], _counts(report)) == ("running", {"examined": 5, "reverted": 4, "waiting": 1})
        assert reverts.queues["reverts"].delays[-1] > 0
        reverts.keep(late)
        reverts.work()
        report = reverts.run("set", revert_id).json
        assert (report["state"], _counts(report)) == ("done", {"examined": 5, "reverted": 5})
        assert [item["skipped"][0]["field"] for item in report["items"]] == ["/title"]

    @pytest.mark.slow
    @pytest.mark.parametrize(("seed", "pages"), [(0, 1), (1, 2), (2, 16)])
    def test_late_duplicate_and_reordered_records_give_the_same_result(
        self, reverts: RevertTestbed, small_pages: None, monkeypatch: pytest.MonkeyPatch, seed: int, pages: int
    ) -> None:
        reverts.set_page_size(pages)
        monkeypatch.setattr(undoing_module, "ENTRIES_PER_STEP", 8)  # puts all items of a video on one page
        chance = random.Random(seed)
        change_set = reverts.create_change_set("set", videos=2)
        video_ids = _renamed(reverts, 12)
        path = f"/v1/videos/{change_set.video_ids[0]}/credits/sam"
        revert_id = _start(reverts)
        reverts.settle()
        edited = video_ids[::3]
        for video_id in edited:
            for title in ("Good", "Better"):
                assert reverts.api.patch(f"/v1/videos/{video_id}", {"title": title}).status == 200
        edit = {"ordering": 7, "roles": ROLES}
        assert reverts.api.put(path, edit, headers={"If-Match": '"1"'}).status == 200
        records = reverts.records()
        of_items = [str(record["dynamodb"]["Keys"]) for record in records]
        chance.shuffle(of_items)  # shuffles items; records of one item stay in order, as in a DynamoDB stream
        late = [
            records.pop(next(n for n, r in enumerate(records) if str(r["dynamodb"]["Keys"]) == of)) for of in of_items
        ]
        late = [record for record in late for _ in range(2)]
        while messages := reverts.queues["reverts"].take():
            for message in messages:
                reverts.deliver(message, context=ShortContext(chance.randrange(2, 20)))
            arrived = late[: (some := chance.randrange(8))]
            late = [*late[some:], *reverts.records()]
            reverts.keep(arrived)
            if chance.random() < 0.3:
                reverts.queues["reverts"].send(message)
        report = reverts.run("set", revert_id).json
        assert (report["state"], report["failed"], report["waiting"]) == ("done", 0, 0)
        assert report["reverted"] + report["skipped"] == 12 + 2 * 6 + 1
        assert {item.get("videoId") for item in report["items"]} == {*edited, change_set.video_ids[0]}
        titles = {video_id: reverts.item(video_id)["title"] for video_id in video_ids}
        assert {video_id for video_id, title in titles.items() if title == "Better"} == set(edited)
        assert [title for title in titles.values() if title in ("Wrong", "Good")] == []
        assert reverts.api.get(path).json["ordering"] == 7

    @pytest.mark.slow
    def test_items_that_wait_for_a_lost_trail_entry_fail_in_the_end(
        self, reverts: RevertTestbed, small_pages: None
    ) -> None:
        video_ids = _renamed(reverts, 5)
        revert_id = _start(reverts)
        reverts.settle()
        for video_id in video_ids[:3]:
            assert reverts.api.patch(f"/v1/videos/{video_id}", {"title": "Mine"}).status == 200
        reverts.discard_records()
        messages = reverts.work(follow=False)
        assert messages <= undoing_module.MAX_STALLS + 3
        report = reverts.run("set", revert_id).json
        assert (report["state"], _counts(report)) == ("done", {"examined": 5, "reverted": 2, "failed": 3})
        assert {item["problem"]["type"].rpartition(":")[2] for item in report["items"]} == {"trail-behind"}
        assert sum(reverts.queues["reverts"].delays) < 1800

    def test_video_is_deleted_after_its_waiting_items(self, reverts: RevertTestbed, small_pages: None) -> None:
        change_set = reverts.create_change_set("set")
        (video_id,) = change_set.video_ids
        revert_id = _start(reverts)
        reverts.settle()
        release = ReleaseContent.model_validate({"titles": [{"title": "Once more"}]})
        release_key = (video_id, "NZ", "mi")
        reverts.relations.put_release(*release_key, release, reverts.admin("set"), reverts.now, allow_any)
        late = reverts.records()
        reverts.deliver(*reverts.queues["reverts"].take())
        assert reverts.run("set", revert_id).json["waiting"] == 2
        assert change_set.existing_kinds() == dict.fromkeys(change_set.existing_kinds(), False) | {
            "video": True,
            "release": True,
        }
        reverts.keep(late)
        reverts.work()
        report = reverts.run("set", revert_id).json
        assert (report["state"], report["failed"], report["skipped"]) == ("done", 0, 0)
        assert not any(change_set.existing_kinds().values())

    @pytest.mark.parametrize("at", range(3))
    def test_run_killed_while_items_wait_counts_each_item_once(
        self, reverts: RevertTestbed, small_pages: None, at: int
    ) -> None:
        video_ids = _renamed(reverts, 3)
        revert_id = _start(reverts)
        reverts.settle()
        for video_id in video_ids:
            assert reverts.api.patch(f"/v1/videos/{video_id}", {"title": "Mine"}).status == 200
        late = reverts.records()
        reverts.deliver(*reverts.queues["reverts"].take())
        assert _counts(reverts.run("set", revert_id).json) == {"examined": 3, "waiting": 3}
        reverts.keep(late)
        (message,) = reverts.queues["reverts"].take()
        restore = kill_at_write(reverts.table, at, after=True)
        try:
            with pytest.raises(Killed):
                reverts.deliver(message)
        finally:
            restore()
        reverts.queues["reverts"].send(message)
        reverts.work()
        report = reverts.run("set", revert_id).json
        assert (report["state"], _counts(report)) == ("done", {"examined": 3, "reverted": 3})
        assert sorted(item["videoId"] for item in report["items"]) == sorted(video_ids)
