"""Reverts of change sets: each write of the set is reverted, unless another user has changed the item since."""

from collections.abc import Callable
from typing import Any

import pytest

from local.testbed.harness import MEDIA_BUCKET, Clock, make_api, record_operations, remove_video
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.captions.store import text_hash, text_key
from shared.history import changesets
from shared.relations.playlists import DELETED_AT
from shared.schema import CREDIT, PLAYLIST, VIDEO
from tests.integration.faults import Killed
from tests.reverting import CONTENTS, ROLES, WRITES, RevertTestbed, allow_any, kill_at_write

PutCaptions = Callable[..., str]
HELLO = "WEBVTT\n\n00:00.000 --> 00:01.000\nHello\n"
GOODBYE = "WEBVTT\n\n00:00.000 --> 00:01.000\nGoodbye\n\n00:01.000 --> 00:02.000\nand thanks\n"


def _by_entity(report: dict[str, Any], name: str = "result") -> dict[str, Any]:
    return {item["entity"]: item[name] for item in report["items"]}


EVERYTHING = dict.fromkeys(("video", "credit", "release", "captions", "chapters", "rating", "playlist"), True)
NOTHING = dict.fromkeys(EVERYTHING, False)


class TestWholeChangeSet:
    def test_created_items_are_deleted_and_the_revert_can_be_reverted(self, reverts: RevertTestbed) -> None:
        change_set = reverts.create_change_set("import-1")
        assert change_set.existing_kinds() == EVERYTHING
        report = reverts.revert_and_settle("import-1")
        assert change_set.existing_kinds() == NOTHING
        assert _by_entity(report) == dict.fromkeys(EVERYTHING, "reverted")
        counts = {name: report[name] for name in ("examined", "reverted", "unchanged", "skipped", "failed")}
        assert counts == {"examined": 8, "reverted": 7, "unchanged": 0, "skipped": 0, "failed": 0}

        back = reverts.revert_and_settle(report["revertId"])
        assert change_set.existing_kinds() == EVERYTHING
        assert _by_entity(back) == dict.fromkeys(EVERYTHING, "reverted")

        reverted = reverts.revert_and_settle(back["revertId"])
        assert change_set.existing_kinds() == NOTHING
        assert _by_entity(reverted) == dict.fromkeys(EVERYTHING, "reverted")

    def test_second_revert_writes_nothing(self, reverts: RevertTestbed) -> None:
        reverts.create_change_set("import-1")
        reverts.revert_and_settle("import-1")
        with record_operations(reverts.table.client) as operations:
            report = reverts.revert_and_settle("import-1")
        assert _by_entity(report) == dict.fromkeys(EVERYTHING, "unchanged")
        assert not WRITES & {operation.name for operation in operations}

    def test_permanently_deleted_items_are_unchanged(self, reverts: RevertTestbed) -> None:
        change_set = reverts.create_change_set("import-1")
        remove_video(reverts.table, change_set.video_ids[0])
        reverts.table.delete(PLAYLIST.key(playlistId=change_set.playlist_id))
        reverts.settle()
        assert _by_entity(reverts.revert_and_settle("import-1")) == dict.fromkeys(EVERYTHING, "unchanged")

    def test_change_to_a_permanently_deleted_video_fails_to_revert(self, reverts: RevertTestbed) -> None:
        (video_id,) = reverts.create_change_set("import-1").video_ids
        reverts.write(
            "PUT",
            f"/v1/videos/{video_id}/credits/sam",
            {"ordering": 2, "roles": ROLES},
            user="admin",
            headers={"If-Match": '"1"'},
        )
        changeset_id = reverts.last_changeset(video_id)
        remove_video(reverts.table, video_id)
        reverts.settle()
        (item,) = reverts.revert_and_settle(changeset_id)["items"]
        assert (item["result"], item["problem"]["status"]) == ("failed", 404)

    def test_dry_run_reports_the_same_result_and_writes_nothing(self, reverts: RevertTestbed) -> None:
        change_set = reverts.create_change_set("import-1")
        before = reverts.stored()
        rehearsed = reverts.revert_and_settle("import-1", query="dryRun=true")
        assert (rehearsed["dryRun"], reverts.stored(), change_set.existing_kinds()) == (True, before, EVERYTHING)
        carried_out = reverts.revert_and_settle("import-1")
        assert rehearsed["items"] == carried_out["items"]

        rehearsed = reverts.revert_and_settle(carried_out["revertId"], query="dryRun=true")
        assert change_set.existing_kinds() == NOTHING
        assert rehearsed["items"] == reverts.revert_and_settle(carried_out["revertId"])["items"]

    def test_items_changed_since_by_a_person_are_skipped_with_the_author(self, reverts: RevertTestbed) -> None:
        change_set = reverts.create_change_set("import-1")
        (video_id,) = change_set.video_ids
        credit = {"name": "Sam", "ordering": 1, "roles": ROLES}
        reverts.write("PUT", f"/v1/videos/{video_id}/credits/sam", credit, user="admin", headers={"If-Match": '"1"'})
        reverts.write("PATCH", f"/v1/playlists/{change_set.playlist_id}", {"title": "Mine"})
        report = reverts.revert_and_settle("import-1")
        assert _by_entity(report)["credit"] == _by_entity(report)["playlist"] == "skipped"
        assert change_set.existing_kinds()["credit"]
        assert change_set.existing_kinds()["playlist"]
        (field,) = _by_entity(report, "skipped")["credit"]
        assert (field["reason"], field["by"]) == ("changedSince", {"kind": "person", "id": "admin"})
        (field,) = _by_entity(report, "skipped")["playlist"]
        assert (field["reason"], field["by"]) == ("changedSince", {"kind": "person", "id": "alice"})

    def test_items_changed_since_by_a_person_are_reverted_when_forced(self, reverts: RevertTestbed) -> None:
        change_set = reverts.create_change_set("import-1")
        credit = {"name": "Sam", "ordering": 1, "roles": ROLES}
        reverts.write("PUT", f"/v1/videos/{change_set.video_ids[0]}/credits/sam", credit, headers={"If-Match": '"1"'})
        reverts.write("PATCH", f"/v1/playlists/{change_set.playlist_id}", {"title": "Mine"})
        report = reverts.revert_and_settle("import-1", force=[""])
        assert change_set.existing_kinds() == NOTHING
        assert _by_entity(report) == dict.fromkeys(EVERYTHING, "reverted")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(11))
def test_revert_interrupted_at_any_write_is_completed_by_the_next_request(
    reverts: RevertTestbed, at: int, after: bool
) -> None:
    change_set = reverts.create_change_set("import-1")
    live = kill_at_write(reverts.table, at, after=after)
    try:
        with pytest.raises(Killed):
            reverts.undo("import-1")
    finally:
        live()
    reverts.settle()
    report = reverts.revert_and_settle("import-1")
    assert change_set.existing_kinds() == NOTHING
    assert (report["failed"], report["skipped"], report["reverted"] + report["unchanged"]) == (0, 0, 7)


class TestCreditsReleasesAndRatings:
    def test_change_is_reverted_field_by_field(self, reverts: RevertTestbed) -> None:
        change_set = reverts.create_change_set("import-1")
        path = f"/v1/videos/{change_set.video_ids[0]}/credits/sam"
        changed = {"name": "Sam", "ordering": 2, "roles": ROLES}
        reverts.write("PUT", path, changed, headers={"If-Match": '"1"'})
        changeset_id = reverts.last_changeset(change_set.video_ids[0])
        reverts.write("PUT", path, changed | {"ordering": 3}, user="admin", headers={"If-Match": '"2"'})
        report = reverts.revert_and_settle(changeset_id, user="alice")
        (item,) = report["items"]
        assert (item["result"], item["fields"]) == ("reverted", ["/name"])
        assert [field["field"] for field in item["skipped"]] == ["/ordering"]
        credit = reverts.api.get(path).json
        assert ("name" in credit, credit["ordering"], credit["version"]) == (False, 3, 4)

    @pytest.mark.parametrize("kind", ["credits/sam", "releases/NZ/mi"])
    def test_removed_item_is_restored_unchanged(self, reverts: RevertTestbed, kind: str) -> None:
        change_set = reverts.create_change_set("import-1")
        path = f"/v1/videos/{change_set.video_ids[0]}/{kind}"
        before = reverts.api.get(path).json
        reverts.write("DELETE", path)
        changeset_id = reverts.last_changeset(change_set.video_ids[0])
        reverts.revert_and_settle(changeset_id, user="alice")
        after = reverts.api.get(path).json
        assert {**after, "updatedAt": 0} == {**before, "updatedAt": 0}

    def test_item_recreated_by_another_user_is_skipped(self, reverts: RevertTestbed) -> None:
        change_set = reverts.create_change_set("import-1")
        path = f"/v1/videos/{change_set.video_ids[0]}/credits/sam"
        reverts.write("DELETE", path)
        changeset_id = reverts.last_changeset(change_set.video_ids[0])
        theirs = {"ordering": 9, "roles": ROLES}
        reverts.write("PUT", path, theirs, user="admin")
        (item,) = reverts.revert_and_settle(changeset_id, user="alice")["items"]
        assert (item["result"], {field["field"] for field in item["skipped"]}) == ("skipped", {"/ordering"})
        assert reverts.api.get(path).json["ordering"] == 9

    def test_imported_rating_is_reverted_to_the_former_import(self, reverts: RevertTestbed) -> None:
        (video_id,) = reverts.create_change_set("import-1").video_ids
        reverts.ratings.set_imported(video_id, 8.0, 11, reverts.admin("import-2"), reverts.now)
        reverts.settle()
        reverts.revert_and_settle("import-2")
        rating = reverts.api.get(f"/v1/videos/{video_id}/rating").json
        assert rating["imported"] == {"average": 7.5, "votes": 10}

    def test_imported_rating_is_reverted_by_admins_only(self, reverts: RevertTestbed) -> None:
        change_set = reverts.create_change_set("import-1")
        report = reverts.revert_and_settle("import-1", user="alice")
        assert _by_entity(report) == dict.fromkeys(EVERYTHING, "reverted") | {"rating": "skipped"}
        assert change_set.existing_kinds() == NOTHING | {"rating": True}

    def test_credit_of_a_deleted_video_fails_with_the_reason(self, reverts: RevertTestbed) -> None:
        change_set = reverts.create_change_set("import-1")
        (video_id,) = change_set.video_ids
        reverts.write("PUT", f"/v1/videos/{video_id}/credits/kim", {"ordering": 2, "roles": ROLES})
        changeset_id = reverts.last_changeset(video_id)
        reverts.write("DELETE", f"/v1/videos/{video_id}")
        for query in ("dryRun=true", ""):
            (item,) = reverts.revert_and_settle(changeset_id, query=query)["items"]
            assert (item["result"], item["problem"]["status"]) == ("failed", 409)

    def test_state_that_the_current_model_refuses_fails_with_the_pointer(self, reverts: RevertTestbed) -> None:
        change_set = reverts.create_change_set("import-1")
        (video_id,) = change_set.video_ids
        key = CREDIT.key(videoId=video_id, personId="sam")
        old = reverts.table.get(key, consistent=True) or {}
        reverts.put(old | {"ordering": 0, "version": 2, "writeId": "0" * 16})
        reverts.settle()
        path = f"/v1/videos/{video_id}/credits/sam"
        reverts.write("PUT", path, {"ordering": 5, "roles": ROLES}, headers={"If-Match": '"2"'})
        (item,) = reverts.revert_and_settle(reverts.last_changeset(video_id))["items"]
        assert (item["result"], item["problem"]["status"]) == ("failed", 422)
        assert [fault["pointer"] for fault in item["problem"]["errors"]] == ["/ordering"]


class TestCaptionsAndChapters:
    """Captions and chapters. The tests store captions without the parser: they write an item, and the S3 object with
    the text."""

    @pytest.fixture
    def reverts(self, table: Table, objects: Objects, clock: Clock) -> RevertTestbed:
        """Return the service with an empty audit trail, and a media bucket for the texts of captions."""
        return RevertTestbed(make_api(table, clock, objects))

    @pytest.fixture
    def put_captions(self, reverts: RevertTestbed, objects: Objects) -> PutCaptions:
        """Return a function that writes captions in `en` as a user's request does, and returns the id of the change
        set."""

        def write_captions(video_id: str, text: str, user: str = "alice") -> str:
            reverts.clock.advance(1)
            body = text.encode()
            objects.put(MEDIA_BUCKET, text_key(video_id, text_hash(body)), body, "text/vtt")
            content = {"text": text_hash(body), "cues": text.count("-->"), "size": len(body), "origin": "owner"}
            changeset_id = f"{user}-{len(reverts.seen_records)}"
            caller = reverts.admin(changeset_id)._replace(subject=user)
            reverts.captions.put(video_id, "en", content, caller, reverts.now, allow_any)
            reverts.settle()
            return changeset_id

        return write_captions

    def _captions_text(self, testbed: RevertTestbed, video_id: str) -> str | None:
        """Return the text of the captions in `en`. `None` if there are none."""
        reply = testbed.api.get(f"/v1/videos/{video_id}/captions/en")
        return reply.body.decode() if reply.status == 200 else None

    def _listed(self, testbed: RevertTestbed, video_id: str) -> list[tuple[str, int, int]]:
        items = testbed.api.get(f"/v1/videos/{video_id}/captions").json["items"]
        return [(item["language"], item["cues"], item["size"]) for item in items]

    def test_added_captions_are_deleted_and_restored_by_reverting_the_revert(
        self, reverts: RevertTestbed, put_captions: PutCaptions
    ) -> None:
        video_id = reverts.create()
        report = reverts.revert_and_settle(put_captions(video_id, HELLO), user="alice")
        (item,) = report["items"]
        names = {"entity": "captions", "videoId": video_id, "language": "en", "result": "reverted"}
        assert {name: item[name] for name in names} == names
        assert self._captions_text(reverts, video_id) is None
        reverts.revert_and_settle(report["revertId"], user="alice")
        assert self._captions_text(reverts, video_id) == HELLO

    def test_replaced_captions_get_their_former_text_back(
        self, reverts: RevertTestbed, put_captions: PutCaptions
    ) -> None:
        video_id = reverts.create()
        put_captions(video_id, HELLO)
        before = self._listed(reverts, video_id)
        changeset_id = put_captions(video_id, GOODBYE)
        assert self._captions_text(reverts, video_id) == GOODBYE
        (item,) = reverts.revert_and_settle(changeset_id, user="alice")["items"]
        assert (item["result"], item["fields"]) == ("reverted", ["/cues", "/size", "/text"])
        assert (self._captions_text(reverts, video_id), self._listed(reverts, video_id)) == (HELLO, before)
        (item,) = reverts.revert_and_settle(changeset_id, user="alice")["items"]
        assert item["result"] == "unchanged"

    def test_removed_captions_are_restored(self, reverts: RevertTestbed, put_captions: PutCaptions) -> None:
        video_id = reverts.create()
        put_captions(video_id, HELLO)
        reverts.write("DELETE", f"/v1/videos/{video_id}/captions/en")
        assert self._captions_text(reverts, video_id) is None
        reverts.revert_and_settle(reverts.last_changeset(video_id), user="alice")
        assert self._captions_text(reverts, video_id) == HELLO

    @pytest.mark.parametrize("since", [f"{GOODBYE}\n", GOODBYE.replace("Goodbye", "Bye-bye")])
    def test_captions_changed_since_are_skipped_unless_their_text_is_forced(
        self, reverts: RevertTestbed, put_captions: PutCaptions, since: str
    ) -> None:
        """Test newer texts of another length and of the same length. Size and number of cues describe the text, so they
        are never reverted without it."""
        video_id = reverts.create()
        put_captions(video_id, HELLO)
        changeset_id = put_captions(video_id, GOODBYE)
        put_captions(video_id, since, "admin")
        before = self._listed(reverts, video_id)
        for force in ([], ["/size"]):
            (item,) = reverts.revert_and_settle(changeset_id, user="alice", force=force)["items"]
            (field,) = item["skipped"]
            assert (item["result"], item["fields"], field["field"]) == ("skipped", [], "/text")
            assert (field["reason"], field["by"]["id"], field["version"]) == ("changedSince", "admin", 3)
            assert (self._captions_text(reverts, video_id), self._listed(reverts, video_id)) == (since, before)
        (item,) = reverts.revert_and_settle(changeset_id, user="alice", force=["/text"])["items"]
        assert item["result"] == "reverted"
        assert self._captions_text(reverts, video_id) == HELLO

    def test_added_captions_replaced_since_are_skipped_unless_forced(
        self, reverts: RevertTestbed, put_captions: PutCaptions
    ) -> None:
        video_id = reverts.create()
        changeset_id = put_captions(video_id, HELLO)
        put_captions(video_id, GOODBYE, "admin")
        (item,) = reverts.revert_and_settle(changeset_id, user="alice")["items"]
        assert (item["result"], item["skipped"][0]["by"]["id"]) == ("skipped", "admin")
        assert self._captions_text(reverts, video_id) == GOODBYE
        reverts.revert_and_settle(changeset_id, user="alice", force=[""])
        assert self._captions_text(reverts, video_id) is None

    def test_dry_run_of_captions_reports_the_result_and_writes_nothing(
        self, reverts: RevertTestbed, put_captions: PutCaptions
    ) -> None:
        video_id = reverts.create()
        put_captions(video_id, HELLO)
        changeset_id = put_captions(video_id, GOODBYE)
        before = reverts.stored()
        rehearsed = reverts.revert_and_settle(changeset_id, user="alice", query="dryRun=true")["items"]
        assert (reverts.stored(), self._captions_text(reverts, video_id)) == (before, GOODBYE)
        assert reverts.revert_and_settle(changeset_id, user="alice")["items"] == rehearsed

    def test_captions_are_reverted_by_owner_and_admins_only(
        self, reverts: RevertTestbed, put_captions: PutCaptions
    ) -> None:
        video_id = reverts.create()
        changeset_id = put_captions(video_id, HELLO)
        assert reverts.undo(changeset_id, user="bob").status == 404
        assert self._captions_text(reverts, video_id) == HELLO
        assert reverts.revert_and_settle(changeset_id, user="admin")["reverted"] == 1

    def test_chapters_that_were_put_replaced_or_removed_are_restored(self, reverts: RevertTestbed) -> None:
        video_id = reverts.create()
        path = f"/v1/videos/{video_id}/chapters"
        other = {"chapters": [{"start": 0, "title": "All of it"}]}
        reverts.write("PUT", path, CONTENTS)
        put = reverts.last_changeset(video_id)
        reverts.write("PUT", path, other)
        replaced = reverts.last_changeset(video_id)
        reverts.revert_and_settle(replaced, user="alice")
        assert reverts.api.get(path).json["chapters"] == CONTENTS["chapters"]
        reverts.write("DELETE", path)
        reverts.revert_and_settle(reverts.last_changeset(video_id), user="alice")
        assert reverts.api.get(path).json["chapters"] == CONTENTS["chapters"]
        (item,) = reverts.revert_and_settle(put, user="alice", force=[""])["items"]
        assert (item["entity"], item["result"]) == ("chapters", "reverted")
        assert reverts.api.get(path).status == 404

    def test_chapters_changed_since_by_another_user_are_skipped_unless_forced(self, reverts: RevertTestbed) -> None:
        video_id = reverts.create()
        path = f"/v1/videos/{video_id}/chapters"
        changesets_of = {}
        for title, user in (("One", "alice"), ("Two", "alice"), ("Three", "admin")):
            reverts.write("PUT", path, {"chapters": [{"start": 0, "title": title}]}, user=user)
            changesets_of[title] = reverts.last_changeset(video_id)
        mine = changesets_of["Two"]
        (item,) = reverts.revert_and_settle(mine, user="alice")["items"]
        assert [(field["field"], field["by"]["id"]) for field in item["skipped"]] == [("/chapters", "admin")]
        assert reverts.api.get(path).json["chapters"][0]["title"] == "Three"
        reverts.revert_and_settle(mine, user="alice", force=["/chapters"])
        assert reverts.api.get(path).json["chapters"][0]["title"] == "One"

    def test_chapters_beyond_the_end_of_a_shorter_source_fail_with_the_pointer(self, reverts: RevertTestbed) -> None:
        video_id = reverts.create("admin", userId="alice", duration=60_000)
        path = f"/v1/videos/{video_id}/chapters"
        reverts.write("PUT", path, CONTENTS)
        reverts.write("DELETE", path)
        changeset_id = reverts.last_changeset(video_id)
        reverts.patch(video_id, "admin", duration=5000)
        (item,) = reverts.revert_and_settle(changeset_id, user="alice")["items"]
        assert (item["result"], item["problem"]["status"]) == ("failed", 422)
        assert [fault["pointer"] for fault in item["problem"]["errors"]] == ["/chapters/1/start"]


class TestPlaylists:
    def _new_playlist(self, testbed: RevertTestbed, count: int = 4) -> tuple[str, list[str]]:
        playlist_id = testbed.write("POST", "/v1/playlists", {"title": "A list"}).json["playlistId"]
        video_ids = [testbed.create(visibility="public") for _ in range(count)]
        for video_id in video_ids:
            testbed.write("POST", f"/v1/playlists/{playlist_id}/entries", {"videoId": video_id})
        return playlist_id, video_ids

    def _entries_of(self, testbed: RevertTestbed, playlist_id: str) -> list[tuple[str, int]]:
        items = testbed.api.get(f"/v1/playlists/{playlist_id}/entries").json["items"]
        return [(item["videoId"], item["addedAt"]) for item in items]

    @pytest.mark.parametrize("change", ["removed", "moved", "appended", "renamed", "deleted"])
    def test_every_kind_of_playlist_change_is_reverted(self, reverts: RevertTestbed, change: str) -> None:
        playlist_id, video_ids = self._new_playlist(reverts)
        path, other = f"/v1/playlists/{playlist_id}", reverts.create()
        before = self._entries_of(reverts, playlist_id), reverts.api.get(path).json
        requests: dict[str, tuple[str, str, Any]] = {
            "removed": ("DELETE", f"{path}/entries/{video_ids[1]}", None),
            "moved": ("PATCH", f"{path}/entries/{video_ids[3]}", {"after": None}),
            "appended": ("POST", f"{path}/entries", {"videoId": other}),
            "renamed": ("PATCH", path, {"title": "Other", "description": "New"}),
            "deleted": ("DELETE", path, None),
        }
        reverts.write(*requests[change])
        changeset_id = reverts.last_changeset_of_playlist(playlist_id)
        report = reverts.revert_and_settle(changeset_id, user="alice")
        (item,) = report["items"]
        assert (item["entity"], item["playlistId"], item["result"]) == ("playlist", playlist_id, "reverted")
        after = self._entries_of(reverts, playlist_id), reverts.api.get(path).json
        changing = {"version": 0, "updatedAt": 0}
        assert (after[0], after[1] | changing) == (before[0], before[1] | changing)
        assert [item["result"] for item in reverts.revert_and_settle(changeset_id, user="alice")["items"]] == [
            "unchanged"
        ]

    def test_entry_is_restored_next_to_the_one_at_its_position(self, reverts: RevertTestbed) -> None:
        playlist_id, (first, second, third, last) = self._new_playlist(reverts)
        path = f"/v1/playlists/{playlist_id}/entries"
        reverts.write("PATCH", f"{path}/{last}", {"after": first})
        reverts.write("DELETE", f"{path}/{last}")
        changeset_id = reverts.last_changeset_of_playlist(playlist_id)
        reverts.write("PATCH", f"{path}/{third}", {"after": first})
        reverts.revert_and_settle(changeset_id, user="alice")
        assert [video_id for video_id, _ in self._entries_of(reverts, playlist_id)] == [first, third, last, second]
        reverts.write("PATCH", f"{path}/{second}", {"before": last})
        assert [video_id for video_id, _ in self._entries_of(reverts, playlist_id)] == [first, third, second, last]

    def test_entry_moved_since_by_another_user_is_skipped(self, reverts: RevertTestbed) -> None:
        playlist_id, (first, second, third, last) = self._new_playlist(reverts)
        path = f"/v1/playlists/{playlist_id}/entries"
        reverts.write("PATCH", f"{path}/{last}", {"after": None})
        changeset_id = reverts.last_changeset_of_playlist(playlist_id)
        reverts.write("PATCH", f"{path}/{last}", {"after": second}, user="admin")
        (item,) = reverts.revert_and_settle(changeset_id, user="alice")["items"]
        assert (item["result"], [field["field"] for field in item["skipped"]]) == ("skipped", [f"/entries/{last}/rank"])
        assert [video_id for video_id, _ in self._entries_of(reverts, playlist_id)] == [first, second, last, third]

    def test_entry_of_a_removed_video_is_not_restored_and_is_reported(self, reverts: RevertTestbed) -> None:
        playlist_id, (_, second, *_) = self._new_playlist(reverts)
        reverts.write("DELETE", f"/v1/playlists/{playlist_id}/entries/{second}")
        changeset_id = reverts.last_changeset_of_playlist(playlist_id)
        reverts.table.delete(VIDEO.key(videoId=second))
        (item,) = reverts.revert_and_settle(changeset_id, user="alice")["items"]
        assert (item["result"], item["skipped"]) == ("skipped", [{"field": f"/entries/{second}", "reason": "gone"}])

    def test_many_entries_are_restored_in_several_writes(
        self, reverts: RevertTestbed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shared.history.playlist_reverts.MAX_PLACED", 2)
        playlist_id, video_ids = self._new_playlist(reverts, 5)
        before = self._entries_of(reverts, playlist_id)
        for video_id in video_ids:
            reverts.entries_of_playlists.remove(playlist_id, video_id, reverts.admin("set"), reverts.now)
        reverts.settle()
        (item,) = reverts.revert_and_settle("set")["items"]
        assert (item["result"], len(item["fields"])) == ("reverted", 5)
        assert self._entries_of(reverts, playlist_id) == before

    def test_playlist_deleted_by_another_user_stays_deleted(self, reverts: RevertTestbed) -> None:
        playlist_id, _ = self._new_playlist(reverts, 1)
        reverts.write("PATCH", f"/v1/playlists/{playlist_id}", {"title": "Other"})
        changeset_id = reverts.last_changeset_of_playlist(playlist_id)
        reverts.write("DELETE", f"/v1/playlists/{playlist_id}", user="admin")
        (item,) = reverts.revert_and_settle(changeset_id, user="alice")["items"]
        assert (item["result"], item["skipped"][0]["field"], item["skipped"][0]["by"]["id"]) == ("skipped", "", "admin")
        assert DELETED_AT in (reverts.table.get(PLAYLIST.key(playlistId=playlist_id)) or {})


class TestItemsOfOtherOwners:
    def test_items_of_other_owners_are_not_listed_or_changed(self, reverts: RevertTestbed) -> None:
        ours, theirs = reverts.create(), reverts.create("bob")
        for video_id in (ours, theirs):
            reverts.videos.change(video_id, reverts.admin("set"), reverts.now, lambda item: item | {"title": "New"})
        reverts.settle()
        report = reverts.revert_and_settle("set", user="alice")
        assert [item["videoId"] for item in report["items"]] == [ours]
        assert [reverts.item(video_id)["title"] for video_id in (ours, theirs)] == ["A film", "New"]

    def test_change_set_without_items_of_the_caller_is_404_like_an_unknown_one(self, reverts: RevertTestbed) -> None:
        reverts.create_change_set("import-1")
        replies = [reverts.undo(changeset_id, user="carol") for changeset_id in ("import-1", "never-was")]
        assert [reply.status for reply in replies] == [404, 404]
        assert replies[0].json == replies[1].json

    def test_large_set_without_own_items_starts_no_run(
        self, reverts: RevertTestbed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(changesets, "LARGEST_QUERY", 1)
        reverts.create_change_set("import-1")
        assert [reverts.undo("import-1", user=user).status for user in ("carol", "alice")] == [404, 202]


class TestTrailBehind:
    def test_revert_writes_nothing_and_is_503_while_the_trail_is_behind(self, reverts: RevertTestbed) -> None:
        change_set = reverts.create_change_set("import-1")
        path = f"/v1/videos/{change_set.video_ids[0]}/credits/sam"
        assert reverts.api.put(path, {"ordering": 4, "roles": ROLES}, headers={"If-Match": '"1"'}).status == 200
        before = reverts.stored()
        reply = reverts.undo("import-1")
        assert (reply.status, reply.headers["retry-after"]) == (503, "2")
        assert reply.json["type"].endswith(":trail-behind")
        assert reverts.stored() == before
        reverts.settle()
        assert _by_entity(reverts.revert_and_settle("import-1"))["credit"] == "skipped"
        assert change_set.existing_kinds()["credit"]

    def test_change_missing_from_the_trail_after_a_day_has_an_unknown_author(self, reverts: RevertTestbed) -> None:
        (video_id,) = reverts.create_change_set("import-1").video_ids
        path = f"/v1/videos/{video_id}/credits/sam"
        reverts.write("PUT", path, {"ordering": 4, "roles": ROLES}, headers={"If-Match": '"1"'})
        changeset_id = reverts.last_changeset(video_id)
        assert reverts.api.put(path, {"ordering": 5, "roles": ROLES}, headers={"If-Match": '"2"'}).status == 200
        reverts.clock.advance(86_400)
        reverts.discard_records()
        (item,) = reverts.revert_and_settle(changeset_id)["items"]
        assert [field["by"]["id"] for field in item["skipped"]] == ["unknown"]

    def test_created_item_that_differs_from_the_trail_is_skipped(self, reverts: RevertTestbed) -> None:
        change_set = reverts.create_change_set("import-1")
        (video_id,) = change_set.video_ids
        credit, title = f"/v1/videos/{video_id}/credits/sam", f"/v1/playlists/{change_set.playlist_id}"
        assert reverts.api.put(credit, {"ordering": 4, "roles": ROLES}, headers={"If-Match": '"1"'}).status == 200
        assert reverts.api.patch(title, {"title": "Another"}).status == 200
        reverts.clock.advance(86_400)
        reverts.discard_records()
        report = reverts.revert_and_settle("import-1")
        assert {_by_entity(report)[entity] for entity in ("credit", "playlist")} == {"skipped"}
        assert reverts.api.get(credit).json["ordering"] == 4
        assert reverts.api.get(title).json["title"] == "Another"


class TestBadRequests:
    @pytest.mark.parametrize(
        ("changeset_id", "query", "body", "status"),
        [
            ("~" * 129, "", None, 400),
            ("a%20b", "", None, 400),
            ("never-was", "dryRun=perhaps", None, 400),
            ("never-was", "force=x", None, 400),
            ("never-was", "", {"force": "title"}, 422),
            ("never-was", "", {"force": ["title"]}, 422),
            ("never-was", "", {"force": [""] * 101}, 422),
            ("never-was", "", {"other": 1}, 422),
            ("never-was", "", [], 422),
            ("never-was", "", None, 404),
        ],
    )
    def test_invalid_request_is_refused_without_writes(
        self, reverts: RevertTestbed, changeset_id: str, query: str, body: Any, status: int
    ) -> None:
        with record_operations(reverts.table.client) as operations:
            path = f"/v1/changesets/{changeset_id}/revert"
            assert reverts.api.post(path, body, query=query, user="admin").status == status
        assert not WRITES & {operation.name for operation in operations}
        assert operations == [] or status == 404
