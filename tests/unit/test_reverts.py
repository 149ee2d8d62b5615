"""Reverts of a video to an earlier version: restored fields, skipped fields and refused requests."""

import json
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest

from local.testbed.audited import AuditedService
from local.testbed.background import MEDIA
from local.testbed.harness import NOW, Api, record_operations
from local.testbed.wire import intercept
from shared.core.attributes import Item
from shared.core.changes import to_json_value
from shared.core.errors import IllegalTransition, InvalidContent
from shared.entities import Video
from shared.openapi.document import document
from shared.schema import VIDEO
from shared.videos.documents import audited
from shared.videos.models import VideoContent
from shared.videos.video import apply_revert, is_writable, mark_deleted, new_item, restore

MISSING = "00000000-0000-4000-8000-000000000000"
WRITES = {"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"}


@pytest.fixture
def past(api: Api) -> AuditedService:
    """Return the service with its audit trail."""
    return AuditedService(api)


def item_of(**fields: Any) -> Any:
    """Return the item of a new video. Tests may add attributes that no video has."""
    status = fields.pop("status", "uploaded")
    content = {"title": "A film", "visibility": "private"} | fields
    return new_item(content, video_id=MISSING, owner="alice", created_at=NOW, status=status)


def state_of(item: Video | Item) -> Item:
    """Return the item as the audit trail records it."""
    state: Item = to_json_value(audited(item)) | {"videoId": item["videoId"]}
    return state


class TestItem:
    """`apply_revert`: the stored item of a video after a revert to a state of the audit trail."""

    @pytest.mark.parametrize(
        "earlier",
        [
            {"title": "Another"},
            {"tags": ["a", "b"]},
            {"metadata": {"k": 1, "nested/key~": "x", "half": 0.5, "yes": True}},
            {"metadata": {}},
            {"description": "", "category": "c", "releaseYear": 1999, "language": "de"},
            {"thumbnails": {"poster": {"url": "https://a.example/p.jpg", "width": 3}, "b": {"url": "s3://bucket/b"}}},
            {"resolutions": {"1080p": "s3://bucket/f.mp4"}},
            {"seriesId": MISSING.replace("8", "9"), "season": 0, "episode": 7},
            {"publishAt": 0, "expiresAt": NOW + 1, "visibility": "public"},
        ],
        ids=lambda earlier: ",".join(earlier),
    )
    def test_every_kind_of_value_is_restored_or_removed(self, earlier: Item) -> None:
        one = item_of(**earlier)
        other = item_of(tags=["z"], metadata={"k": 2, "gone": "x"}, thumbnails={"b": {"url": "s3://bucket/c"}})
        assert apply_revert(other, state_of(one), NOW) == one
        assert apply_revert(one, state_of(other), NOW) == other

    def test_revert_keeps_fields_that_clients_cannot_write(self) -> None:
        item = item_of(title="New") | {"source": {"media": MEDIA}, "pictures": {"poster": {"url": "s3://m/p"}}}
        state = state_of(item) | {
            "title": "Old",
            "source": {"media": {}},
            "pictures": {},
            "userId": "bob",
            "purgeAt": 1,
        }
        assert apply_revert(item, state, NOW) == item | {"title": "Old"}

    def test_writable_fields_are_exactly_those_that_a_client_can_send(self) -> None:
        item = item_of() | {"source": {}, "pictures": {}, "failure": {}, "purgeAt": 1}
        writable = {name for name in (*item, *VideoContent.model_fields, "posterTime") if is_writable(f"/{name}/x")}
        assert writable == {*VideoContent.model_fields, "status", "posterTime"}
        assert not is_writable("")

    def test_reverted_value_has_the_origin_person(self) -> None:
        now = item_of(duration=5, format="mp4") | {"origins": {"duration": "job", "format": "job"}}
        state = {name: value for name, value in state_of(now).items() if name != "format"} | {"duration": 4}
        assert apply_revert(now, state, NOW)["origins"] == {"duration": "person"}

    @pytest.mark.parametrize(
        ("now", "then"), [("ready", "processing"), ("processing", "failed"), ("failed", "uploaded")]
    )
    def test_status_is_reverted_if_a_patch_could_set_it(self, now: str, then: str) -> None:
        assert apply_revert(item_of(status=now), state_of(item_of(status=then)), NOW) == item_of(status=then)

    def test_status_that_a_patch_could_not_set_is_an_illegal_transition(self) -> None:
        with pytest.raises(IllegalTransition, match="ready cannot become uploaded"):
            apply_revert(item_of(status="ready"), state_of(item_of()), NOW)

    def test_revert_of_a_failed_status_removes_the_failure(self) -> None:
        failed = item_of(status="failed") | {"failure": {"job": "probe", "reason": "broken", "at": NOW}}
        assert "failure" not in apply_revert(failed, state_of(item_of(status="processing")), NOW)

    def test_deletion_and_restore_are_reverted_with_other_fields(self) -> None:
        live = item_of(title="New", status="ready")
        deleted = mark_deleted(live, NOW)
        assert apply_revert(live, state_of(deleted), NOW) == deleted
        assert apply_revert(deleted, state_of(live), NOW) == restore(deleted) == live
        assert apply_revert(live, state_of(deleted) | {"title": "Old"}, NOW) == deleted | {"title": "Old"}
        assert apply_revert(deleted, state_of(live) | {"title": "Old"}, NOW) == live | {"title": "Old"}
        assert apply_revert(deleted, state_of(live) | {"status": "processing"}, NOW) == live | {"status": "processing"}

    def test_revert_of_a_video_that_stays_deleted_is_an_illegal_transition(self) -> None:
        deleted = mark_deleted(item_of(title="New"), NOW)
        with pytest.raises(IllegalTransition, match="Restore it first"):
            apply_revert(deleted, state_of(deleted) | {"title": "Old"}, NOW)

    def test_older_invalid_video_can_be_reverted_to_deleted_and_back(self) -> None:
        odd = item_of(title="")
        assert apply_revert(odd, state_of(mark_deleted(odd, NOW)), NOW) == mark_deleted(odd, NOW)
        assert apply_revert(mark_deleted(odd, NOW), state_of(odd), NOW) == odd

    @pytest.mark.parametrize(
        ("state", "pointer"),
        [
            ({"title": ""}, "/title"),
            ({"metadata": {"k": [1]}}, "/metadata/k"),
            ({"thumbnails": {"poster": {"width": 1}}}, "/thumbnails/poster/url"),
            ({"releaseYear": -1}, "/releaseYear"),
            ({"season": 1}, ""),
            ({"posterTime": 60_000}, "/posterTime"),
        ],
        ids=lambda value: value if isinstance(value, str) else ",".join(value),
    )
    def test_field_that_violates_the_current_model_is_named(self, state: Item, pointer: str) -> None:
        item = item_of(title="New") | {"source": {"media": MEDIA}}
        with pytest.raises(InvalidContent) as refused:
            apply_revert(item, state_of(item) | state, NOW)
        assert [error["pointer"] for error in refused.value.errors] == [pointer]

    def test_poster_time_requires_a_source_video(self) -> None:
        with pytest.raises(InvalidContent) as refused:
            apply_revert(item_of(), state_of(item_of()) | {"posterTime": 0}, NOW)
        assert refused.value.errors == [
            {"pointer": "/posterTime", "detail": "must be omitted, because the video has no source video"}
        ]


class TestRevertedContent:
    def test_revert_restores_all_differences_in_one_change(self, past: AuditedService) -> None:
        video_id = past.create(title="First", tags=["a"], metadata={"k": 1, "l": 2})
        before = past.read_without_audit_fields(video_id)
        past.patch(video_id, title="Second", tags=None, metadata={"k": None, "m": 3}, category="new")
        past.patch(video_id, title="Third")
        reply = past.revert(video_id, 1)
        assert reply.status == 200
        assert [change["field"] for change in reply.json["changes"]] == [
            "/category",
            "/metadata/k",
            "/metadata/m",
            "/tags",
            "/title",
        ]
        assert reply.json["changes"][-1] == {"field": "/title", "from": "Third", "to": "First"}
        assert (reply.json["skipped"], reply.json["dryRun"]) == ([], False)
        assert past.read_without_audit_fields(video_id) == before
        assert reply.json["video"] == {
            name: value for name, value in past.api.get(f"/v1/videos/{video_id}").json.items() if name != "viewCount"
        }
        revert_entry = past.entries(video_id)[0]
        assert (revert_entry["version"], revert_entry["by"]["id"], revert_entry["changes"]) == (
            4,
            "alice",
            reply.json["changes"],
        )

    def test_revert_response_matches_the_openapi_document(self, past: AuditedService) -> None:
        video_id = past.create(title="First", tags=["a"])
        past.patch(video_id, user="admin", tags=["b"])
        past.patch(video_id, title="Second")
        reply = past.revert(video_id, 1)
        assert len(reply.json["skipped"]) == 1
        schema = {"$ref": "#/components/schemas/RevertedVideo", "components": document()["components"]}
        jsonschema_rs.Draft202012Validator(schema).validate(reply.json)
        assert reply.etag.startswith('"4.')

    def test_revert_with_fields_restores_only_those_and_their_children(self, past: AuditedService) -> None:
        video_id = past.create(title="First", metadata={"k": 1, "l": 1, "m": 1})
        past.patch(video_id, title="Second", category="new", metadata={"k": 2, "l": 2, "m": 2})
        reply = past.revert(video_id, 1, fields=["/category", "/metadata/k"])
        assert [change["field"] for change in reply.json["changes"]] == ["/category", "/metadata/k"]
        assert past.read_without_audit_fields(video_id)["metadata"] == {"k": 1, "l": 2, "m": 2}
        past.revert(video_id, 1, fields=["/metadata"])
        assert past.read_without_audit_fields(video_id)["metadata"] == {"k": 1, "l": 1, "m": 1}
        assert past.read_without_audit_fields(video_id)["title"] == "Second"

    def test_a_revert_can_be_reverted(self, past: AuditedService) -> None:
        video_id = past.create(title="First")
        past.patch(video_id, title="Second")
        past.revert(video_id, 1)
        past.revert(video_id, 2)
        assert past.read_without_audit_fields(video_id)["title"] == "Second"

    def test_revert_restores_or_deletes_a_video_as_in_the_version(self, past: AuditedService) -> None:
        video_id = past.create(title="First")
        path = f"/v1/videos/{video_id}"
        past.write("DELETE", path)
        past.write("POST", f"{path}/restore")
        past.patch(video_id, title="Second")
        reply = past.revert(video_id, 2)
        assert reply.json["video"]["status"] == "deleted"
        assert reply.json["video"]["purgeAt"] > NOW
        assert past.revert(video_id, 4).json["video"]["status"] == "uploaded"
        assert past.item(video_id).keys() & {"purgeAt", "deletedAt", "statusBeforeDelete"} == set()
        assert past.entries(video_id)[0]["action"] == "restored"

    def test_reverted_tags_are_listed_again(self, past: AuditedService) -> None:
        video_id = past.api.publish(tags=["old"])["videoId"]
        past.settle()
        past.patch(video_id, tags=["new"])
        past.revert(video_id, 1)
        listed = {tag: past.api.get("/v1/videos", query=f"tag={tag}").json["items"] for tag in ("old", "new")}
        assert [item["videoId"] for item in listed["old"]] == [video_id]
        assert listed["new"] == []

    def test_reverted_thumbnail_keeps_its_url(self, past: AuditedService) -> None:
        url = "https://pictures.example/thumbnails/a/poster.webp"
        video_id = past.create(thumbnails={"p": {"url": url}})
        past.patch(video_id, thumbnails=None)
        assert past.revert(video_id, 1).json["video"]["thumbnails"] == {"p": {"url": url}}


class TestPoster:
    def test_reverted_poster_time_queues_a_new_poster_job(self, past: AuditedService) -> None:
        video_id = past.uploaded_film(past.api)
        for position in (1000, 2000):
            past.write("POST", f"/v1/videos/{video_id}/thumbnail", {"position": position})
        first = past.item(video_id)["version"] - 1
        reply = past.revert(video_id, first)
        assert reply.json["changes"] == [{"field": "/posterTime", "from": 2000, "to": 1000}]
        assert past.job(video_id, "poster")["input"]["time"] == 1000
        past.revert(video_id, first - 1)
        assert "time" not in past.job(video_id, "poster")["input"]

    def test_reverted_poster_time_counts_against_the_daily_job_quota(self, past: AuditedService) -> None:
        video_id = past.uploaded_film(past.api)
        past.write("POST", f"/v1/videos/{video_id}/thumbnail", {"position": 1000})
        past.spend_quota("alice")
        version = past.item(video_id)["version"] - 1
        assert past.revert(video_id, version, query="dryRun=true").status == 200
        assert past.revert(video_id, version).status == 429
        assert past.item(video_id)["posterTime"] == 1000


class TestSkippedFields:
    def test_fields_changed_since_by_another_user_are_skipped_and_named(self, past: AuditedService) -> None:
        video_id = past.create(title="First", category="first", metadata={"k": 1})
        past.patch(video_id, title="Second", category="second", metadata={"k": 2})
        past.patch(video_id, user="admin", title="Correct", metadata={"k": 3})
        at = past.clock.now * 1000
        past.patch(video_id, description="by alice")
        reply = past.revert(video_id, 1)
        assert [change["field"] for change in reply.json["changes"]] == ["/category", "/description"]
        by_admin = {"reason": "changedSince", "by": {"kind": "person", "id": "admin"}, "at": at, "version": 3}
        assert reply.json["skipped"] == [{"field": "/metadata/k", **by_admin}, {"field": "/title", **by_admin}]
        assert past.read_without_audit_fields(video_id)["title"] == "Correct"

    def test_force_restores_fields_changed_by_another_user(self, past: AuditedService) -> None:
        video_id = past.create(title="First", metadata={"k": 1, "l": 1})
        past.patch(video_id, user="admin", title="Second", metadata={"k": 2, "l": 2})
        assert past.revert(video_id, 1, force=["/metadata"]).json["skipped"][0]["field"] == "/title"
        assert past.read_without_audit_fields(video_id)["metadata"] == {"k": 1, "l": 1}
        assert past.revert(video_id, 1, force=[""]).json["skipped"] == []
        assert past.read_without_audit_fields(video_id)["title"] == "First"

    def test_nested_change_by_another_user_skips_the_containing_value(self, past: AuditedService) -> None:
        video_id = past.create(thumbnails={"p": {"url": "https://a.example/1", "width": 1}})
        past.patch(video_id, user="admin", thumbnails={"p": {"width": 2}})
        past.patch(video_id, thumbnails={"p": None})
        reply = past.revert(video_id, 1)
        assert (reply.json["changes"], reply.json["skipped"][0]["field"]) == ([], "/thumbnails/p")

    def test_change_by_another_user_that_was_undone_is_not_listed(self, past: AuditedService) -> None:
        video_id = past.create(title="First", category="first")
        past.patch(video_id, user="admin", title="Second")
        past.patch(video_id, user="admin", title="First")
        past.patch(video_id, category="second")
        assert past.revert(video_id, 1).json["skipped"] == []

    def test_fields_changed_by_a_job_are_skipped(self, past: AuditedService) -> None:
        video_id = past.create()
        past.arrive(video_id)
        past.probe(video_id)
        reply = past.revert(video_id, 1)
        assert {skipped["field"]: skipped["by"]["id"] for skipped in reply.json["skipped"]} == {
            "/duration": "job:probe",
            "/format": "job:probe",
            "/resolution": "job:probe",
            "/status": "job:arrivals",
        }
        assert reply.json["changes"] == []

    def test_direct_edit_is_skipped_with_an_unknown_author(self, past: AuditedService) -> None:
        video_id = past.create(title="First")
        past.patch(video_id, category="new")
        past.put(past.item(video_id) | {"title": "By hand"})
        past.settle()
        reply = past.revert(video_id, 1)
        assert [change["field"] for change in reply.json["changes"]] == ["/category"]
        (skipped,) = reply.json["skipped"]
        assert (skipped["field"], skipped["by"]) == ("/title", {"kind": "service", "id": "unknown"})

    def test_field_written_only_by_the_service_is_not_writable_when_requested(self, past: AuditedService) -> None:
        video_id = past.create()
        past.arrive(video_id)
        assert "/source" not in {skipped["field"] for skipped in past.revert(video_id, 1).json["skipped"]}
        reply = past.revert(video_id, 1, fields=["/source"], force=[""])
        assert reply.json["skipped"] == [{"field": "/source", "reason": "notWritable"}]


class TestWriting:
    def test_dry_run_returns_the_same_changes_and_writes_nothing(self, past: AuditedService) -> None:
        video_id = past.create(title="First")
        past.patch(video_id, title="Second")
        before = past.item(video_id)
        with record_operations(past.table.client) as operations:
            dry = past.revert(video_id, 1, query="dryRun=true").json
        assert not WRITES & {operation.name for operation in operations}
        assert past.item(video_id) == before
        wet = past.revert(video_id, 1).json
        assert (dry["dryRun"], dry["changes"], dry["skipped"]) == (True, wet["changes"], wet["skipped"])
        assert dry["video"] | {"updatedAt": 0} == wet["video"] | {"updatedAt": 0}

    def test_second_revert_reports_no_changes_and_writes_nothing(self, past: AuditedService) -> None:
        video_id = past.create(title="First")
        past.patch(video_id, title="Second")
        past.revert(video_id, 1)
        with record_operations(past.table.client) as operations:
            reply = past.revert(video_id, 1)
        assert not WRITES & {operation.name for operation in operations}
        assert (reply.status, reply.json["changes"], reply.json["video"]["version"]) == (200, [], 3)

    def test_if_match_is_honoured(self, past: AuditedService) -> None:
        video_id = past.create(title="First")
        past.patch(video_id, title="Second")
        path, body = f"/v1/videos/{video_id}/revert", {"toVersion": 1}
        assert past.api.post(path, body, headers={"If-Match": '"1"'}).status == 412
        assert past.api.post(path, body, query="dryRun=true", headers={"If-Match": '"1"'}).status == 412
        assert past.api.post(path, body, headers={"If-Match": '"2"'}).status == 200

    def test_revert_that_loses_a_race_is_computed_again(self, past: AuditedService) -> None:
        video_id = past.create(title="First", category="first")
        past.patch(video_id, title="Second", category="second")
        undo = intercept(
            past.table.client, self._overtaking(past, lambda: past.patch(video_id, "admin", title="Correct"))
        )
        reply = past.revert(video_id, 1)
        undo()
        assert [change["field"] for change in reply.json["changes"]] == ["/category"]
        assert [(skipped["field"], skipped["version"]) for skipped in reply.json["skipped"]] == [("/title", 3)]
        assert past.read_without_audit_fields(video_id)["title"] == "Correct"

    def test_revert_overtaken_by_a_write_is_503_until_the_trail_has_it(self, past: AuditedService) -> None:
        video_id = past.create(title="First")
        past.patch(video_id, title="Second")

        def overtake() -> None:
            assert past.api.patch(f"/v1/videos/{video_id}", {"title": "Third"}).status == 200

        undo = intercept(past.table.client, self._overtaking(past, overtake))
        path = f"/v1/videos/{video_id}/revert"
        assert past.api.post(path, {"toVersion": 1}).status == 503
        undo()
        past.settle()
        assert past.api.post(path, {"toVersion": 1}).status == 200

    @staticmethod
    def _overtaking(past: AuditedService, work: Callable[[], object]) -> Callable[..., Any]:
        """Return an interceptor that calls `work` right before the next write of the video."""
        due = [work]

        def between(operation: str, parameters: Any, send: Callable[..., Any]) -> Any:
            if operation == "UpdateItem" and due:
                due.pop()()
            return send()

        return between


class TestRefusals:
    @pytest.mark.parametrize(
        ("body", "pointer"),
        [
            ({}, "/toVersion"),
            ({"toVersion": 0}, "/toVersion"),
            ({"toVersion": 2**53}, "/toVersion"),
            ({"toVersion": "1"}, "/toVersion"),
            ({"toVersion": True}, "/toVersion"),
            ({"toVersion": 1, "fields": []}, "/fields"),
            ({"toVersion": 1, "fields": ["title"]}, "/fields/0"),
            ({"toVersion": 1, "fields": ["/title", "/a~2"]}, "/fields/1"),
            ({"toVersion": 1, "fields": ["/nothing"]}, "/fields/0"),
            ({"toVersion": 1, "fields": ["/metadata/" + "x" * 300]}, "/fields/0"),
            ({"toVersion": 1, "fields": ["/title"] * 101}, "/fields"),
            ({"toVersion": 1, "force": [None]}, "/force/0"),
            ({"toVersion": 1, "force": ["/title"] * 101}, "/force"),
            ({"toVersion": 1, "force": None}, "/force"),
            ({"toVersion": 1, "title": "x"}, "/title"),
        ],
        ids=lambda value: value if isinstance(value, str) else json.dumps(value)[:50],
    )
    def test_invalid_body_is_422(self, past: AuditedService, body: Item, pointer: str) -> None:
        reply = past.api.post(f"/v1/videos/{MISSING}/revert", body)
        assert reply.status == 422
        assert [error["pointer"] for error in reply.json["errors"]] == [pointer]

    def test_version_may_be_a_float_without_a_fraction(self, past: AuditedService) -> None:
        video_id = past.create()
        assert past.api.post(f"/v1/videos/{video_id}/revert", {"toVersion": 1.0}).status == 200

    def test_unknown_query_parameter_or_value_is_400(self, past: AuditedService) -> None:
        path, body = f"/v1/videos/{MISSING}/revert", {"toVersion": 1}
        assert [past.api.post(path, body, query=query).status for query in ("dryRun=1", "dry=true")] == [400, 400]

    def test_unknown_version_is_404(self, past: AuditedService) -> None:
        video_id = past.create()
        past.patch(video_id, title="Second")
        assert past.revert(video_id, 3).json["detail"] == "The video has no version 3."
        assert past.revert(video_id, 3).status == 404

    def test_removed_video_is_410_for_its_owner(self, past: AuditedService) -> None:
        video_id = past.create()
        past.table.delete(VIDEO.key(videoId=video_id))
        past.settle()
        assert [past.revert(video_id, 1, user=user).status for user in ("alice", "admin", "bob")] == [410, 410, 404]

    def test_revert_of_a_deleted_video_is_409(self, past: AuditedService) -> None:
        video_id = past.create(title="First")
        past.patch(video_id, title="Second")
        past.write("DELETE", f"/v1/videos/{video_id}")
        reply = past.revert(video_id, 1, fields=["/title"])
        assert (reply.status, reply.json["detail"]) == (409, "The video is deleted. Restore it first.")

    def test_revert_to_an_unreachable_status_is_409(self, past: AuditedService) -> None:
        video_id = past.create(title="First")
        past.patch(video_id, status="processing", title="Second")
        assert past.revert(video_id, 1).status == 409
        assert past.revert(video_id, 1, fields=["/title"]).status == 200

    def test_revert_to_a_version_that_is_no_longer_valid_is_422(self, past: AuditedService) -> None:
        video_id = past.create(category="fine")
        past.put(past.item(video_id) | {"category": "x" * 101, "version": 2, "writeId": "an-earlier-release"})
        past.settle()
        past.patch(video_id, user="admin", category="fine")
        reply = past.revert(video_id, 2, force=[""])
        assert reply.status == 422
        assert reply.json["errors"] == [{"pointer": "/category", "detail": "must have at most 100 characters, not 101"}]

    def test_reverted_expiry_may_be_past_but_must_follow_publish_at(self, past: AuditedService) -> None:
        now = int(past.clock())
        video_id = past.create(publishAt=now + 10, expiresAt=now + 20)
        past.patch(video_id, publishAt=None, expiresAt=now + 9000)
        past.patch(video_id, publishAt=now + 8000)
        refused = past.revert(video_id, 1, fields=["/expiresAt"])
        assert refused.status == 422
        assert refused.json["errors"] == [
            {"pointer": "/expiresAt", "detail": f"must be after publishAt {now + 8000}, not {now + 20}"}
        ]
        past.clock.advance(100)
        assert past.revert(video_id, 1).json["video"]["expiresAt"] == now + 20

    def test_revert_is_503_while_the_trail_lags(self, past: AuditedService) -> None:
        video_id = past.create()
        assert past.api.patch(f"/v1/videos/{video_id}", {"title": "Second"}).status == 200
        reply = past.api.post(f"/v1/videos/{video_id}/revert", {"toVersion": 1})
        assert (reply.status, reply.headers["retry-after"]) == (503, "2")

    def test_revert_beyond_the_retained_trail_is_410(self, past: AuditedService) -> None:
        video_id = past.create()
        for title in ("Second", "Third"):
            past.patch(video_id, title=title)
        expired = past.entries(video_id)[1]
        past.trail.table.delete({name: expired[name] for name in ("pk", "sk")})
        past.clock.advance(3 * 86400)
        reply = past.revert(video_id, 1)
        assert reply.status == 410
        assert "version 2" in reply.json["detail"]

    def test_revert_of_a_truncated_value_is_410(self, past: AuditedService) -> None:
        video_id = past.create(title="First", description="long")
        past.patch(video_id, title="Second", description="short")
        revert_entry = past.entries(video_id)[0]
        changes = [
            change | ({"fromBytes": 5000} if change["field"] == "/description" else {})
            for change in revert_entry["changes"]
        ]
        past.trail.table.write(past.trail.table.put(revert_entry | {"changes": changes}))
        reply = past.revert(video_id, 1)
        assert (reply.status, reply.json["errors"][0]["pointer"]) == (410, "/description")
        assert past.revert(video_id, 1, fields=["/title"]).status == 200
        assert past.read_without_audit_fields(video_id)["title"] == "First"

    def test_response_with_the_largest_video_fits_the_lambda_limit(self, past: AuditedService) -> None:
        metadata = {f"{n:064}": '"' * 512 for n in range(50)}
        thumbnails = {f"{n:064}": {"url": "https://a.example/" + "x" * 1000} for n in range(20)}
        video_id = past.create(metadata=metadata, thumbnails=thumbnails, description='"' * 5000)
        past.patch(video_id, metadata=None, thumbnails=None, description=None)
        reply = past.revert(video_id, 1)
        assert reply.status == 200
        assert len(json.dumps(reply.body.decode())) < 6_000_000
        assert past.read_without_audit_fields(video_id)["metadata"] == metadata
