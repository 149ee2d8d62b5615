"""Reverts of the changes that a change set made to one video: the plan, the writes, and the result when repeated."""

from collections.abc import Sequence
from typing import Any

import pytest

from local.testbed.audited import AuditedService
from local.testbed.harness import NOW, Api, record_operations
from local.testbed.wire import intercept
from shared.aws.records import key_of
from shared.core.attributes import Item
from shared.core.caller import IMPORT, Caller
from shared.core.errors import Gone, IllegalTransition, InvalidContent, NotFound, QuotaExceeded, TrailBehind
from shared.history.outcome import RevertResult
from shared.history.revert_plan import RevertPlan, SkippedField, find_later_author, plan_without_set
from shared.routes import WRITE
from shared.schema import CHANGESET, VIDEO
from shared.videos.store import VideoStore
from shared.videos.video import new_item

ALICE = Caller("alice", frozenset({WRITE}))
BOB = {"kind": "person", "id": "bob"}
RUN = "a-run"
SERIES = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"


def make_entry(number: int, by: str, *changes: tuple[str, Any, Any], truncated: str = "") -> Item:
    """Return an audit entry by `set` (the change set to revert), `run` (the revert run) or another user.

    `None` as a value is an absent field. `truncated` is the attribute that marks the values as truncated.
    """
    content: list[Item] = [
        {
            "field": field,
            **({} if old is None else {"from": old}),
            **({} if new is None else {"to": new}),
            **({truncated: 9999} if truncated else {}),
        }
        for field, old, new in changes
    ]
    author = {"kind": "person", "id": "alice" if by in ("set", "run") else by}
    return {"sk": f"{number:05}", "at": number, "version": number, "by": author, CHANGESET: by, "changes": content}


def planned(now: Item, later: Sequence[Item], *, force: Sequence[str] = ()) -> RevertPlan:
    """Return the plan that reverts the entries of `set`. `later` contains these and later entries, oldest first."""
    newest_first = list(reversed(later))
    entries = [entry for entry in newest_first if entry[CHANGESET] == "set"]
    return plan_without_set(now, entries, newest_first, "run", writable=lambda field: field != "/server", force=force)


class TestPlan:
    def test_plan_restores_fields_that_only_the_set_changed(self) -> None:
        plan = planned(
            {"a": 2, "b": 5, "m": {"k": 1}}, [make_entry(1, "set", ("/a", 1, 2), ("/b", None, 5), ("/m/l", 3, None))]
        )
        assert plan.state == {"a": 1, "m": {"k": 1, "l": 3}}
        assert [change["field"] for change in plan.changes] == ["/a", "/b", "/m/l"]
        assert plan.skipped == []

    def test_repeated_changes_of_a_field_by_the_set_are_reverted(self) -> None:
        later = [
            make_entry(1, "set", ("/a", 1, 2)),
            make_entry(2, "set", ("/a", 2, 3)),
            make_entry(3, "set", ("/a", 3, None)),
        ]
        assert planned({}, later).state == {"a": 1}

    def test_plan_skips_fields_changed_since_and_names_author_and_time(self) -> None:
        later = [make_entry(1, "set", ("/a", 1, 2), ("/b", 1, 2)), make_entry(2, "bob", ("/a", 2, 7))]
        plan = planned({"a": 7, "b": 2}, later)
        assert plan.state == {"a": 7, "b": 1}
        assert plan.skipped == [SkippedField("/a", "changedSince", BOB, 2, 2)]

    @pytest.mark.parametrize(("mine", "theirs"), [("/m", "/m/k"), ("/m/k", "/m")])
    def test_change_of_a_parent_or_child_field_counts_as_changed_since(self, mine: str, theirs: str) -> None:
        later = [make_entry(1, "set", (mine, "x", "y")), make_entry(2, "bob", (theirs, "y", "z"))]
        assert [skipped.field for skipped in planned({"m": {"k": "z"}}, later).skipped] == [mine]

    def test_change_of_a_neighbouring_field_does_not_count_as_changed_since(self) -> None:
        later = [make_entry(1, "set", ("/m/k", 1, 2)), make_entry(2, "bob", ("/m/kk", None, 1), ("/mm", None, 1))]
        assert planned({"m": {"k": 2, "kk": 1}, "mm": 1}, later).skipped == []

    def test_force_reverts_a_field_changed_since(self) -> None:
        later = [make_entry(1, "set", ("/m/k", 1, 2), ("/a", 1, 2)), make_entry(2, "bob", ("/m/k", 2, 3), ("/a", 2, 3))]
        plan = planned({"m": {"k": 3}, "a": 3}, later, force=["/m"])
        assert (plan.state, [skipped.field for skipped in plan.skipped]) == ({"m": {"k": 1}, "a": 3}, ["/a"])
        assert planned({"m": {"k": 3}, "a": 3}, later, force=[""]).state == {"m": {"k": 1}, "a": 1}

    def test_plan_omits_fields_that_already_have_their_earlier_value(self) -> None:
        later = [
            make_entry(1, "set", ("/a", 1, 2)),
            make_entry(2, "set", ("/a", 2, 3)),
            make_entry(3, "bob", ("/a", 3, 1)),
        ]
        plan = planned({"a": 1}, later)
        assert (plan.changes, plan.skipped, plan.already) == ([], [], ["/a"])

    def test_plan_restores_another_authors_value_that_the_set_overwrote(self) -> None:
        later = [
            make_entry(1, "set", ("/a", 1, 2)),
            make_entry(2, "bob", ("/a", 2, 5)),
            make_entry(3, "set", ("/a", 5, 6)),
        ]
        plan = planned({"a": 6}, later)
        assert (plan.state, [skipped.by for skipped in plan.skipped]) == ({"a": 5}, [BOB])

    def test_plan_ignores_earlier_writes_of_the_same_run(self) -> None:
        later = [make_entry(1, "set", ("/a", 1, 2), ("/b", 1, 2)), make_entry(2, "run", ("/a", 2, 1))]
        assert planned({"a": 1, "b": 2}, later).state == {"a": 1, "b": 1}

    def test_value_with_an_unknown_author_is_skipped(self) -> None:
        plan = planned({"a": 9}, [make_entry(1, "set", ("/a", 1, 2))])
        assert (plan.changes, plan.skipped[0].by) == ([], {"kind": "service", "id": "unknown"})

    def test_truncated_value_cannot_be_restored(self) -> None:
        plan = planned(
            {"a": "new", "b": 2}, [make_entry(1, "set", ("/a", "beginn", "new"), truncated="fromBytes")], force=[""]
        )
        assert (plan.changes, plan.skipped) == ([], [SkippedField("/a", "notKept")])

    def test_value_truncated_when_it_was_set_can_be_removed(self) -> None:
        assert planned({"a": "whole"}, [make_entry(1, "set", ("/a", "old", "who"), truncated="toBytes")]).state == {
            "a": "old"
        }

    def test_plan_ignores_fields_that_clients_cannot_write(self) -> None:
        plan = planned({"server": 2, "a": 2}, [make_entry(1, "set", ("/server", 1, 2), ("/a", 1, 2))])
        assert (plan.state, plan.skipped) == ({"server": 2, "a": 1}, [])

    def test_true_and_one_are_different(self) -> None:
        assert planned({"a": True}, [make_entry(1, "set", ("/a", 1, True))]).state["a"] == 1

    def test_later_author_of_a_created_item_is_found_unless_it_is_a_job_or_the_run(self) -> None:
        created, job, other = make_entry(1, "set"), make_entry(2, "x"), make_entry(3, "another-import", ("/a", 1, 2))
        job["by"], other["by"] = {"kind": "job", "id": "job:probe"}, {"kind": "job", "id": IMPORT}
        assert find_later_author([created], [job, created], "run") is None
        assert find_later_author([created], [other, job, created], "run") == SkippedField(
            "", "changedSince", other["by"], 3, 3
        )
        assert find_later_author([created], [make_entry(4, "run", ("/a", 2, 3)), created], "run") is None
        assert find_later_author([created], [make_entry(4, "nothing shown"), created], "run") is None
        assert find_later_author([other], [other, make_entry(2, "before", ("/a", 0, 1))], "run") is None


class ItemRevertTestbed(AuditedService):
    """The service with an audit trail. A test can revert the last request that wrote a video."""

    def batch(self, *operations: Item, user: str = "alice") -> list[Item]:
        """Send operations as one change set, and return their results."""
        items: list[Item] = self.write("POST", "/v1/videos/batch", {"operations": operations}, user=user).json["items"]
        assert all(item["status"] < 300 for item in items), items
        return items

    def set_fields(self, *video_ids: str, **fields: Any) -> None:
        """Change the same fields of several videos in one request."""
        self.batch(*({"op": "patch", "videoId": video_id, "patch": fields} for video_id in video_ids))

    def revert_to(
        self, entries: Sequence[Item], *, run: str = RUN, settle: bool = True, **options: Any
    ) -> RevertResult:
        """Revert the entries of a change set for one video, as alice."""
        self.clock.advance(1)
        outcome = self.reverts.revert_changes(entries, ALICE.acting_for(run), int(self.clock()), own=run, **options)
        if settle:
            self.settle()
        return outcome


@pytest.fixture
def testbed(api: Api) -> ItemRevertTestbed:
    """Return the service with an empty audit trail."""
    return ItemRevertTestbed(api)


def set_of(testbed: AuditedService, video_id: str) -> list[Item]:
    """Return the entries of the last request that wrote a video, newest first."""
    return testbed.of_last_request(video_id)[video_id]


class TestFields:
    def test_fields_are_reverted_in_one_change_by_the_requester(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create(title="Right", tags=["a"], metadata={"k": 1})
        before = testbed.read_without_audit_fields(video_id)
        testbed.set_fields(video_id, title="Wrong", tags=["b"], metadata={"k": None, "l": 1})
        outcome = testbed.revert_to(set_of(testbed, video_id))
        assert outcome == RevertResult("reverted", ("/metadata/k", "/metadata/l", "/tags", "/title"))
        assert testbed.read_without_audit_fields(video_id) == before
        newest = testbed.entries(video_id)[0]
        assert (newest["by"], newest["correlationId"], newest[CHANGESET]) == (
            {"kind": "person", "id": "alice"},
            RUN,
            RUN,
        )

    def test_later_edits_are_kept_and_reported(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create(title="Right", category="right")
        testbed.set_fields(video_id, title="Wrong", category="wrong")
        entries = set_of(testbed, video_id)
        testbed.patch(video_id, user="admin", title="Corrected", description="More")
        outcome = testbed.revert_to(entries)
        by = {"kind": "person", "id": "admin"}
        skipped = SkippedField("/title", "changedSince", by, testbed.entries(video_id)[1]["at"], 3)
        assert outcome == RevertResult("reverted", ("/category",), (skipped,))
        document = testbed.read_without_audit_fields(video_id)
        assert (document["title"], document["category"], document["description"]) == ("Corrected", "right", "More")

    def test_nothing_is_written_when_all_fields_were_changed_since(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create(title="Right")
        testbed.set_fields(video_id, title="Wrong")
        entries = set_of(testbed, video_id)
        testbed.patch(video_id, title="Corrected")
        assert testbed.revert_to(entries).result == "skipped"
        assert testbed.item(video_id)["version"] == 3

    def test_revert_can_be_reverted(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create(title="Right")
        testbed.set_fields(video_id, title="Wrong")
        testbed.revert_to(set_of(testbed, video_id))
        assert testbed.revert_to(set_of(testbed, video_id), run="another").result == "reverted"
        assert testbed.read_without_audit_fields(video_id)["title"] == "Wrong"

    def test_dry_run_of_an_item_reports_the_same_result_and_writes_nothing(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create(title="Right")
        testbed.set_fields(video_id, title="Wrong")
        entries, before = set_of(testbed, video_id), testbed.item(video_id)
        dry = testbed.revert_to(entries, dry_run=True)
        assert testbed.item(video_id) == before
        assert dry == testbed.revert_to(entries)

    def test_revert_that_violates_the_current_model_is_refused(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create()
        testbed.set_fields(video_id, seriesId=SERIES, season=1)
        entries = set_of(testbed, video_id)
        testbed.patch(video_id, season=2)
        with pytest.raises(InvalidContent) as refused:
            testbed.revert_to(entries)
        assert "must have `seriesId` with `season` or `episode`" in refused.value.errors[0]["detail"]

    def test_deleted_video_must_be_restored_before_a_revert(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create(title="Right")
        testbed.set_fields(video_id, title="Wrong")
        entries = set_of(testbed, video_id)
        testbed.write("DELETE", f"/v1/videos/{video_id}")
        with pytest.raises(IllegalTransition, match="Restore it first"):
            testbed.revert_to(entries)


class TestDeletedVideos:
    def test_created_video_is_deleted_and_can_be_restored(self, testbed: ItemRevertTestbed) -> None:
        (result,) = testbed.batch({"op": "create", "video": {"title": "Mistake"}})
        video_id = result["videoId"]
        assert testbed.revert_to(set_of(testbed, video_id)) == RevertResult("reverted", ("/status",))
        assert testbed.read_without_audit_fields(video_id)["status"] == "deleted"
        assert testbed.revert_to(set_of(testbed, video_id), run="another").result == "reverted"
        assert testbed.read_without_audit_fields(video_id)["status"] == "uploaded"

    def test_created_video_is_deleted_after_jobs_processed_it(self, testbed: ItemRevertTestbed) -> None:
        (result,) = testbed.batch({"op": "create", "video": {"title": "Mistake"}})
        entries = set_of(testbed, result["videoId"])
        testbed.arrive(result["videoId"])
        testbed.probe(result["videoId"])
        assert testbed.revert_to(entries).result == "reverted"

    def test_created_video_is_skipped_after_a_person_changed_it_unless_forced(self, testbed: ItemRevertTestbed) -> None:
        (result,) = testbed.batch({"op": "create", "video": {"title": "Mistake"}})
        video_id, entries = result["videoId"], set_of(testbed, result["videoId"])
        testbed.patch(video_id, user="admin", title="Useful")
        outcome = testbed.revert_to(entries)
        by = {"kind": "person", "id": "admin"}
        assert outcome == RevertResult(
            "skipped", (), (SkippedField("", "changedSince", by, int(testbed.clock()) * 1000 - 1000, 2),)
        )
        assert testbed.revert_to(entries, force=["/title"]).result == "skipped"
        assert testbed.revert_to(entries, force=[""]).result == "reverted"

    def test_video_created_and_changed_by_the_same_set_is_deleted(self, testbed: ItemRevertTestbed) -> None:
        video_id = "3f2504e0-4f89-41d3-9a0c-0305e82c3302"
        testbed.batch(
            {"op": "create", "video": {"title": "Mistake", "videoId": video_id, "userId": "alice"}},
            {"op": "patch", "videoId": video_id, "patch": {"title": "Another"}},
            user="admin",
        )
        assert len(set_of(testbed, video_id)) == 2
        assert testbed.revert_to(set_of(testbed, video_id)).fields == ("/status",)

    def test_deleted_video_is_restored(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create()
        testbed.batch({"op": "delete", "videoId": video_id})
        assert testbed.revert_to(set_of(testbed, video_id)) == RevertResult("reverted", ("/status",))
        assert testbed.item(video_id).keys() & {"deletedAt", "purgeAt", "statusBeforeDelete"} == set()

    def test_deleted_video_is_restored_to_the_status_it_would_have_now(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create()
        testbed.batch({"op": "delete", "videoId": video_id})
        entries = set_of(testbed, video_id)
        testbed.arrive(video_id)
        assert testbed.revert_to(entries).result == "reverted"
        assert testbed.read_without_audit_fields(video_id)["status"] == "processing"

    def test_video_restored_by_the_set_is_deleted(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create()
        testbed.write("DELETE", f"/v1/videos/{video_id}")
        testbed.write("POST", f"/v1/videos/{video_id}/restore")
        assert testbed.revert_to(set_of(testbed, video_id)).result == "reverted"
        assert testbed.read_without_audit_fields(video_id)["status"] == "deleted"

    def test_video_restored_by_another_request_since_is_skipped(self, testbed: ItemRevertTestbed) -> None:
        (result,) = testbed.batch({"op": "create", "video": {"title": "Mistake"}})
        video_id, entries = result["videoId"], set_of(testbed, result["videoId"])
        testbed.write("DELETE", f"/v1/videos/{video_id}")
        assert testbed.revert_to(entries).result == "unchanged"
        testbed.write("POST", f"/v1/videos/{video_id}/restore")
        assert testbed.revert_to(entries).result == "skipped"

    def test_revert_of_a_poster_frame_uses_the_quota_for_jobs(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.uploaded_film(testbed.api)
        testbed.write("POST", f"/v1/videos/{video_id}/thumbnail", {"position": 1000})
        entries = set_of(testbed, video_id)
        testbed.spend_quota("alice")
        with pytest.raises(QuotaExceeded):
            testbed.revert_to(entries)
        testbed.clock.advance(24 * 3600)
        assert testbed.revert_to(entries) == RevertResult("reverted", ("/posterTime",))
        assert "time" not in testbed.job(video_id, "poster")["input"]


class TestRepeatedReverts:
    def test_second_run_writes_nothing_and_reports_the_same_skips(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create(title="Right", category="right")
        testbed.set_fields(video_id, title="Wrong", category="wrong")
        entries = set_of(testbed, video_id)
        testbed.patch(video_id, user="admin", title="Corrected")
        first = testbed.revert_to(entries)
        with record_operations(testbed.table.client) as operations:
            second = testbed.revert_to(entries, run="another", settle=False)
        assert (second.result, second.skipped) == ("skipped", first.skipped)
        assert {operation.name for operation in operations} == {"GetItem", "Query"}

    def test_second_run_writes_nothing_when_the_set_wrote_twice(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create(title="Right")
        testbed.batch(
            *({"op": "patch", "videoId": video_id, "patch": {"title": title}} for title in ("Wrong", "Worse"))
        )
        entries = set_of(testbed, video_id)
        assert testbed.revert_to(entries).result == "reverted"
        assert testbed.revert_to(entries, run="another") == RevertResult("unchanged")

    @pytest.mark.parametrize("is_in_the_trail", [True, False])
    def test_resumed_run_counts_its_earlier_writes(self, testbed: ItemRevertTestbed, is_in_the_trail: bool) -> None:
        video_id = testbed.create(title="Right")
        testbed.set_fields(video_id, title="Wrong")
        entries = set_of(testbed, video_id)
        first = testbed.revert_to(entries, settle=is_in_the_trail)
        assert testbed.revert_to(entries, settle=False) == first == RevertResult("reverted", ("/title",))
        assert testbed.item(video_id)["version"] == 3

    def test_same_run_repeats_its_outcome_after_another_user_wrote(self, testbed: ItemRevertTestbed) -> None:
        (result,) = testbed.batch({"op": "create", "video": {"title": "Mistake"}})
        video_id, entries = result["videoId"], set_of(testbed, result["videoId"])
        first = testbed.revert_to(entries)
        testbed.write("POST", f"/v1/videos/{video_id}/restore", user="admin")
        assert testbed.revert_to(entries).result == "skipped"
        testbed.write("DELETE", f"/v1/videos/{video_id}", user="admin")
        assert testbed.revert_to(entries) == first

    def test_entries_of_a_set_can_be_reverted_one_after_the_other(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create(title="Right")
        testbed.batch(
            *({"op": "patch", "videoId": video_id, "patch": {"title": title}} for title in ("Wrong", "Worse"))
        )
        newer, older = set_of(testbed, video_id)
        testbed.revert_to([newer])
        assert testbed.read_without_audit_fields(video_id)["title"] == "Wrong"
        testbed.revert_to([older], settle=False)
        assert testbed.read_without_audit_fields(video_id)["title"] == "Right"

    def test_lost_race_is_planned_again_with_the_current_item(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create(title="Right", category="right")
        testbed.set_fields(video_id, title="Wrong", category="wrong")
        entries, due = set_of(testbed, video_id), ["Corrected"]

        def between(operation: str, _: Any, send: Any) -> Any:
            if operation == "UpdateItem" and due:
                testbed.patch(video_id, user="admin", title=due.pop())
            return send()

        undo = intercept(testbed.table.client, between)
        outcome = testbed.revert_to(entries)
        undo()
        assert (outcome.fields, [skipped.field for skipped in outcome.skipped]) == (("/category",), ["/title"])
        assert testbed.read_without_audit_fields(video_id)["title"] == "Corrected"


class TestImpossibleReverts:
    def test_revert_raises_trail_behind_while_the_trail_lags(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create(title="Right")
        testbed.set_fields(video_id, title="Wrong")
        entries = set_of(testbed, video_id)
        assert testbed.api.patch(f"/v1/videos/{video_id}", {"category": "c"}).status == 200
        with pytest.raises(TrailBehind):
            testbed.revert_to(entries, settle=False)

    def test_revert_raises_gone_when_an_entry_of_a_later_change_is_missing(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create(title="Right")
        testbed.set_fields(video_id, title="Wrong")
        entries = set_of(testbed, video_id)
        testbed.patch(video_id, title="Corrected")
        newest = testbed.entries(video_id)[0]
        testbed.trail.table.delete({name: newest[name] for name in ("pk", "sk")})
        testbed.clock.advance(2 * 86400)
        with pytest.raises(Gone, match="version 3"):
            testbed.revert_to(entries)

    def test_revert_of_a_purged_video_fails(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create(title="Right")
        testbed.set_fields(video_id, title="Wrong")
        entries = set_of(testbed, video_id)
        testbed.table.delete(VIDEO.key(videoId=video_id))
        testbed.settle()
        with pytest.raises(Gone):
            testbed.revert_to(entries)

    def test_revert_does_not_need_entries_before_the_set(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create(title="Right")
        testbed.settle()
        (created,) = testbed.entries(video_id)
        testbed.set_fields(video_id, title="Wrong")
        entries = set_of(testbed, video_id)
        testbed.trail.table.delete(key_of(created))
        testbed.revert_to(entries)
        assert testbed.read_without_audit_fields(video_id)["title"] == "Right"

    def test_later_video_with_the_same_id_is_not_changed(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create(title="Right")
        testbed.set_fields(video_id, title="Wrong")
        entries = set_of(testbed, video_id)
        testbed.table.delete(VIDEO.key(videoId=video_id))
        testbed.settle()
        testbed.clock.advance(1)
        item = new_item(
            {"title": "Wrong", "visibility": "private"},
            video_id=video_id,
            owner="alice",
            created_at=NOW,
            status="ready",
        )
        VideoStore(testbed.table).create(item, ALICE, int(testbed.clock()))
        testbed.settle()
        with pytest.raises(Gone, match="current video with this videoId is another one"):
            testbed.revert_to(entries)
        assert testbed.read_without_audit_fields(video_id)["title"] == "Wrong"

    def test_video_of_another_owner_is_not_found(self, testbed: ItemRevertTestbed) -> None:
        video_id = testbed.create("bob", title="Right")
        testbed.patch(video_id, user="bob", title="Wrong")
        with pytest.raises(NotFound):
            testbed.revert_to(set_of(testbed, video_id))
