"""A single video: created, read, changed, deleted and restored by its owner, an admin and other users."""

import re
from typing import Any, get_args

import pytest

from local.testbed.harness import NOW, Api, Clock, record_operations
from shared.aws.dynamodb import Table
from shared.schema import VIDEO
from shared.videos.models import LiveStatus, VideoContent
from shared.videos.video import GRACE_SECONDS, STATUSES, TRANSITIONS
from tests.documents import EXAMPLE

MISSING = "00000000-0000-4000-8000-000000000000"

EVERYTHING: dict[str, Any] = {
    "externalId": "crm/7 #1",
    "slug": "trouble-in-space-2",
    "title": "Ärger im Weltraum 🚀",
    "description": "First line\nsecond line\twith a tab",
    "duration": 0,
    "fileSize": 2**53 - 1,
    "format": "mp4",
    "resolution": "1920x1080",
    "videoCodec": "h264",
    "audioCodec": "aac",
    "frameRate": 23.976,
    "resolutions": {"1080p": "s3://bucket-1/a/b c.mp4"},
    "tags": ["a", "b"],
    "category": "Science Fiction",
    "folder": "clients/acme & co/2026 #1",
    "releaseYear": 1985,
    "language": "de-CH",
    "visibility": "public",
    "publishAt": NOW + 10,
    "expiresAt": NOW + 20,
    "seriesId": "7c9e6679-7425-40de-944b-e07fc1f90ae7",
    "season": 2,
    "episode": 0,
    "metadata": {"text": "", "whole": 7, "part": 0.1, "huge": 9007199254740991, "yes": True, "odd key %/~": "v"},
    "thumbnails": {"poster": {"url": "https://example.com/p.webp", "width": 640, "height": 360, "time": 1500}},
}


def _path(video: dict[str, Any]) -> str:
    return f"/v1/videos/{video['videoId']}"


class TestCreate:
    def test_example_document_is_returned_with_the_same_values_and_types(self, api: Api) -> None:
        created = api.post("/v1/videos", EXAMPLE, user="admin")
        read = api.get(_path(created.json), user="admin")

        for document in (created.json, read.json):
            sent_fields = {name: document[name] for name in EXAMPLE}
            assert sent_fields | {"tags": set(sent_fields["tags"])} == EXAMPLE | {"tags": set(EXAMPLE["tags"])}

    def test_every_writable_field_is_returned(self, api: Api) -> None:
        assert set(EVERYTHING) == set(VideoContent.model_fields)

        created = api.create(**EVERYTHING)
        read = api.get(_path(created)).json

        assert {name: read[name] for name in EVERYTHING} == EVERYTHING
        assert read == created

    def test_server_sets_fields_that_users_may_not_write(self, api: Api) -> None:
        own = {"videoId": "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "createdAt": 5, "userId": "bob", "status": "ready"}

        video = api.create("alice", **own)

        assert (video["userId"], video["createdAt"], video["status"]) == ("alice", NOW, "uploaded")
        assert video["videoId"] != own["videoId"]

    def test_admin_may_set_server_fields(self, api: Api) -> None:
        video_id = "3F2504E0-4F89-41D3-9A0C-0305E82C3301"
        own = {"createdAt": 0, "userId": "bob", "status": "ready"}

        video = api.create("admin", videoId=video_id, **own)

        assert {name: video[name] for name in own} == own
        assert video["videoId"] == video_id.lower()

    def test_existing_id_is_409(self, api: Api) -> None:
        first = api.create("admin", videoId="3f2504e0-4f89-41d3-9a0c-0305e82c3301", title="first")

        second = api.post("/v1/videos", {"videoId": first["videoId"], "title": "second"}, user="admin")

        assert (second.status, second.slug) == (409, "already-exists")
        assert api.get(_path(first), user="admin").json["title"] == "first"

    def test_new_video_is_private_by_default(self, api: Api) -> None:
        assert api.create()["visibility"] == "private"

    def test_create_response_has_a_location(self, api: Api) -> None:
        reply = api.post("/v1/videos", {"title": "t"})
        assert reply.headers["location"] == f"videos/{reply.json['videoId']}"
        assert reply.etag == api.get(_path(reply.json)).etag

    def test_maps_are_stored_even_when_empty_and_sets_are_not(self, api: Api, table: Table) -> None:
        video = api.create(tags=[])
        item = table.get(VIDEO.key(videoId=video["videoId"]))
        assert item is not None
        assert [item[name] for name in ("resolutions", "metadata", "thumbnails")] == [{}, {}, {}]
        assert "tags" not in item


KEY = {"Idempotency-Key": "once"}


class TestIdempotencyKey:
    def test_repeated_create_with_a_key_gets_the_same_response(self, api: Api, clock: Clock) -> None:
        first = api.post("/v1/videos", {"title": "t"}, headers=KEY)
        clock.advance(3600)
        api.patch(_path(first.json), {"title": "changed meanwhile"})

        second = api.post("/v1/videos", {"title": "t"}, headers=KEY)

        assert (second.status, second.body, second.etag) == (201, first.body, first.etag)
        assert second.headers["location"] == first.headers["location"]
        assert len(api.get("/v1/videos", query="userId=alice").json["items"]) == 1

    def test_the_order_of_fields_does_not_matter(self, api: Api) -> None:
        first = api.post("/v1/videos", body='{"title": "t", "format": "mp4"}', headers=KEY | _JSON)
        second = api.post("/v1/videos", body='{"format":"mp4","title":"t"}', headers=KEY | _JSON)
        assert second.json == first.json

    def test_different_body_under_the_same_key_is_refused(self, api: Api) -> None:
        api.post("/v1/videos", {"title": "t"}, headers=KEY)
        other = api.post("/v1/videos", {"title": "u"}, headers=KEY)
        assert (other.status, other.slug) == (422, "idempotency-key-reused")

    def test_a_key_belongs_to_its_caller(self, api: Api) -> None:
        first = api.post("/v1/videos", {"title": "t"}, headers=KEY, user="alice")
        other = api.post("/v1/videos", {"title": "t"}, headers=KEY, user="bob")
        assert first.json["videoId"] != other.json["videoId"]

    def test_a_key_expires_after_a_day(self, api: Api, clock: Clock) -> None:
        first = api.post("/v1/videos", {"title": "t"}, headers=KEY)
        clock.advance(24 * 3600)
        later = api.post("/v1/videos", {"title": "u"}, headers=KEY)
        assert later.status == 201
        assert first.json["videoId"] != later.json["videoId"]

    def test_a_request_that_failed_can_be_corrected_under_its_key(self, api: Api) -> None:
        assert api.post("/v1/videos", {"title": ""}, headers=KEY).status == 422
        assert api.post("/v1/videos", {"title": "t"}, headers=KEY).status == 201

    def test_a_restore_can_be_retried(self, api: Api) -> None:
        video = api.create()
        api.delete(_path(video))
        first = api.post(f"{_path(video)}/restore", headers=KEY)
        second = api.post(f"{_path(video)}/restore", headers=KEY)
        assert (first.status, first.body) == (second.status, second.body) == (200, first.body)
        assert api.get(_path(video)).json["version"] == 3

    @pytest.mark.parametrize("key", ["", "a b", "x" * 256, "tab\t", "é"])
    def test_a_key_must_be_short_printable_ascii(self, api: Api, key: str) -> None:
        reply = api.post("/v1/videos", {"title": "t"}, headers={"Idempotency-Key": key})
        assert (reply.status, reply.json["errors"][0]["parameter"]) == (400, "Idempotency-Key")


_JSON = {"Content-Type": "application/json"}


class TestRead:
    def test_read_returns_only_the_requested_fields(self, api: Api) -> None:
        video = api.create(**EVERYTHING)
        reply = api.get(_path(video), query="fields=title,tags,version")
        assert reply.json == {"title": EVERYTHING["title"], "tags": ["a", "b"], "version": 1}

    def test_read_projects_only_the_requested_attributes(self, api: Api, table: Table) -> None:
        video = api.create(**EVERYTHING)
        with record_operations(table.client) as operations:
            api.get(_path(video), query="fields=title")
        (get,) = operations
        assert "description" not in get.parameters["ExpressionAttributeNames"].values()

    def test_matching_etag_of_a_video_returns_304(self, api: Api) -> None:
        video = api.create()
        tag = api.get(_path(video)).etag

        same = api.get(_path(video), headers={"If-None-Match": f'"0.x", W/{tag}'})
        assert (same.status, same.body, same.headers["etag"]) == (304, b"", tag)

        api.patch(_path(video), {"title": "new"})
        assert api.get(_path(video), headers={"If-None-Match": tag}).status == 200

    def test_a_view_changes_the_etag_but_not_the_version(self, api: Api) -> None:
        video = api.publish()
        before = api.get(_path(video))
        api.post(f"{_path(video)}/views", user="bob")
        after = api.get(_path(video), headers={"If-None-Match": before.etag})
        assert (after.status, after.json["viewCount"], after.json["version"]) == (200, 1, 1)

    def test_unknown_video_is_404(self, api: Api) -> None:
        assert api.get("/v1/videos/3f2504e0-4f89-41d3-9a0c-0305e82c3301").status == 404

    def test_video_id_is_case_insensitive(self, api: Api) -> None:
        video = api.create()
        assert api.get(f"/v1/videos/{video['videoId'].upper()}").json == video

    def test_whole_numbers_and_the_order_of_maps_do_not_change_the_etag(self, api: Api, table: Table) -> None:
        reply = api.post("/v1/videos", {"title": "t", "metadata": {"b": 1.0, "a": -0.0, "c": 1.5}})
        assert list(reply.json["metadata"].items()) == [("a", 0), ("b", 1), ("c", 1.5)]
        assert b'"b":1,' in reply.body
        assert api.get(_path(reply.json)).etag == reply.etag


class TestVisibility:
    @pytest.mark.parametrize(
        ("fields", "is_visible"),
        [
            ({}, True),
            ({"visibility": "private"}, False),
            ({"status": "processing"}, False),
            ({"status": "uploaded"}, False),
            ({"status": "failed"}, False),
            ({"publishAt": NOW + 1}, False),
            ({"publishAt": NOW}, True),
            ({"createdAt": NOW - 1, "expiresAt": NOW}, False),
            ({"expiresAt": NOW + 1}, True),
        ],
        ids=str,
    )
    def test_other_users_see_only_ready_public_videos_within_their_times(
        self, api: Api, fields: dict[str, Any], is_visible: bool
    ) -> None:
        video = api.publish("alice", **fields)

        assert api.get(_path(video), user="bob").status == (200 if is_visible else 404)
        assert api.post(f"{_path(video)}/views", user="bob").status == (200 if is_visible else 404)
        assert api.patch(_path(video), {"title": "mine"}, user="bob").status == (403 if is_visible else 404)
        assert api.delete(_path(video), user="bob").status == (403 if is_visible else 404)
        assert api.get(_path(video), user="alice").status == 200
        assert api.get(_path(video), user="admin").status == 200

    def test_a_video_expires_at_the_second_of_expires_at(self, api: Api, clock: Clock) -> None:
        video = api.publish("alice", expiresAt=NOW + 5)
        assert api.get(_path(video), user="bob").status == 200
        clock.advance(5)
        assert api.get(_path(video), user="bob").status == 404
        assert api.patch(_path(video), {"expiresAt": None}, user="alice").status == 200
        assert api.get(_path(video), user="bob").status == 200

    def test_a_token_without_a_subject_is_refused(self, api: Api) -> None:
        assert api.get("/v1/videos", user="").status == 403


class TestChange:
    def test_patch_replaces_fields_removes_null_and_merges_maps(self, api: Api) -> None:
        video = api.create(**EVERYTHING)

        reply = api.patch(
            _path(video),
            {
                "description": None,
                "tags": ["c"],
                "metadata": {"text": None, "new": 1},
                "thumbnails": {"poster": {"width": None, "height": 480}},
            },
        )

        metadata = {name: value for name, value in EVERYTHING["metadata"].items() if name != "text"} | {"new": 1}
        poster = {"url": "https://example.com/p.webp", "height": 480, "time": 1500}
        assert "description" not in reply.json
        assert (reply.json["tags"], reply.json["metadata"]) == (["c"], metadata)
        assert reply.json["thumbnails"] == {"poster": poster}
        assert reply.json["version"] == 2
        assert api.get(_path(video)).json == reply.json | {"viewCount": 0}

    def test_a_map_set_to_null_becomes_empty(self, api: Api) -> None:
        video = api.create(**EVERYTHING)
        assert api.patch(_path(video), {"metadata": None}).json["metadata"] == {}

    def test_true_and_one_are_different_values(self, api: Api) -> None:
        video = api.create(metadata={"flag": True})
        api.patch(_path(video), {"metadata": {"flag": 1}})
        assert api.get(_path(video)).json["metadata"]["flag"] is not True

    def test_patch_without_changes_writes_nothing(self, api: Api, table: Table) -> None:
        video = api.create(title="same")
        with record_operations(table.client) as operations:
            reply = api.patch(_path(video), {"title": "same"})
        assert (reply.status, reply.json["version"]) == (200, 1)
        assert [operation.name for operation in operations] == ["GetItem"]

    def test_patch_writes_only_changed_attributes(self, api: Api, table: Table) -> None:
        video = api.create(**EVERYTHING)
        with record_operations(table.client) as operations:
            api.patch(_path(video), {"title": "new"})
        change = operations[-1].parameters
        written = {change["ExpressionAttributeNames"][name] for name in re.findall(r"#\w+", change["UpdateExpression"])}
        # The clock is constant in this test. Otherwise the attributes would include updatedAt.
        assert written == {"title", "orderValue", "version", "writeId", "updatedFor"}

    @pytest.mark.parametrize(
        ("header", "status"),
        [('"1.0"', 200), ('"1"', 200), ("*", 200), ('"7.0", "1.0"', 200), ('W/"1.0"', 412), ("junk", 412), ("", 412)],
    )
    def test_if_match_compares_versions_strongly(self, api: Api, header: str, status: int) -> None:
        video = api.create()
        assert api.patch(_path(video), {"title": "t"}, headers={"If-Match": header}).status == status

    @pytest.mark.parametrize(
        "field", ["videoId", "userId", "createdAt", "updatedAt", "version", "viewCount", "purgeAt", "schemaVersion"]
    )
    def test_server_written_field_cannot_be_patched(self, api: Api, field: str) -> None:
        video = api.create()
        reply = api.patch(_path(video), {field: 1})
        assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, f"/{field}")

    @pytest.mark.parametrize("field", ["title", "status", "visibility"])
    def test_required_field_cannot_be_removed(self, api: Api, field: str) -> None:
        video = api.create()
        assert api.patch(_path(video), {field: None}).status == 422

    def test_limits_apply_to_the_result_of_a_patch(self, api: Api) -> None:
        video = api.create(metadata={f"a{n}": n for n in range(30)})
        reply = api.patch(_path(video), {"metadata": {f"b{n}": n for n in range(21)}})
        assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, "/metadata")
        assert len(api.get(_path(video)).json["metadata"]) == 30

    def test_patch_stores_its_author(self, api: Api, table: Table) -> None:
        video = api.create("alice")
        api.patch(_path(video), {"title": "by an admin"}, user="admin")
        item = table.get(VIDEO.key(videoId=video["videoId"]))
        assert item is not None
        assert item["updatedBy"] == "admin"


class TestStatusMachine:
    @pytest.mark.parametrize("before", ["uploaded", "processing", "ready", "failed"])
    @pytest.mark.parametrize("after", ["uploaded", "processing", "ready", "failed"])
    def test_undefined_status_transition_is_409(self, api: Api, before: str, after: str) -> None:
        video = api.create("admin", status=before)

        reply = api.patch(_path(video), {"status": after}, user="admin")

        legal = before == after or after in TRANSITIONS[before]
        assert reply.status == (200 if legal else 409)
        assert api.get(_path(video), user="admin").json["status"] == (after if legal else before)

    def test_clients_may_set_every_status_except_deleted(self) -> None:
        assert set(get_args(LiveStatus)) == set(STATUSES) - {"deleted"}
        assert {status for ways in TRANSITIONS.values() for status in ways} <= set(get_args(LiveStatus))

    def test_uploaded_video_becomes_processing_then_ready(self, api: Api) -> None:
        video = api.create()
        assert [api.patch(_path(video), {"status": status}).status for status in ("ready", "processing", "ready")] == [
            409,
            200,
            200,
        ]

    def test_patch_cannot_set_the_status_deleted(self, api: Api) -> None:
        assert api.patch(_path(api.create()), {"status": "deleted"}).status == 422


class TestDeleteAndRestore:
    def test_deleted_video_is_404_except_for_owner_and_admin(self, api: Api) -> None:
        video = api.publish("alice", category="c")

        assert api.delete(_path(video)).status == 204

        assert api.get(_path(video), user="bob").status == 404
        assert api.get("/v1/videos", query="category=c").json["items"] == []
        assert api.get("/v1/videos").json["items"] == []
        for user in ("alice", "admin"):
            assert api.get(_path(video), user=user).json["status"] == "deleted"

    def test_second_delete_changes_nothing(self, api: Api) -> None:
        video = api.create()
        assert [api.delete(_path(video)).status for _ in range(2)] == [204, 204]
        assert api.get(_path(video)).json["version"] == 2

    def test_restore_returns_the_former_video(self, api: Api) -> None:
        video = api.publish("alice", category="c", tags=["t"])
        api.delete(_path(video))

        restored = api.post(f"{_path(video)}/restore")

        assert restored.json == {name: value for name, value in video.items() if name != "viewCount"} | {
            "version": 3,
            "updatedAt": NOW,
        }
        assert len(api.get("/v1/videos", query="category=c").json["items"]) == 1

    def test_restore_of_a_video_that_is_not_deleted_is_refused(self, api: Api) -> None:
        assert api.post(f"{_path(api.create())}/restore").status == 409

    def test_a_deleted_video_cannot_be_changed(self, api: Api) -> None:
        video = api.create()
        api.delete(_path(video))
        assert api.patch(_path(video), {"title": "t"}).status == 409

    def test_deleted_video_can_be_restored_until_its_grace_period_ends(self, api: Api, clock: Clock) -> None:
        video = api.create()
        api.delete(_path(video))
        assert api.get(_path(video)).json["purgeAt"] == NOW + GRACE_SECONDS

        clock.advance(GRACE_SECONDS)

        # DynamoDB has not deleted the item yet, but the API no longer returns it.
        assert api.get(_path(video)).status == 404
        assert api.post(f"{_path(video)}/restore").status == 404
        assert api.get("/v1/videos", query="userId=alice&status=deleted").json["items"] == []

    def test_expired_video_is_purged_after_the_grace_period(self, api: Api, clock: Clock) -> None:
        video = api.create(expiresAt=NOW + 100)
        assert video["purgeAt"] == NOW + 100 + GRACE_SECONDS
        assert "purgeAt" not in api.patch(_path(video), {"expiresAt": None}).json

    def test_purge_time_is_shown_to_owner_and_admins_only(self, api: Api) -> None:
        video = api.publish("alice", expiresAt=NOW + 100)
        has_purge_time = {
            user: "purgeAt" in api.get(_path(video), user=user).json for user in ("alice", "admin", "bob")
        }
        assert has_purge_time == {"alice": True, "admin": True, "bob": False}
        assert api.get(_path(video), query="fields=purgeAt", user="bob").json == {}

    def test_id_of_a_purged_video_can_be_reused(self, api: Api, clock: Clock) -> None:
        video = api.create("admin", title="old")
        api.delete(_path(video), user="admin")
        second = {"videoId": video["videoId"], "title": "new"}
        clock.advance(GRACE_SECONDS - 1)
        assert api.post("/v1/videos", second, user="admin").status == 409
        clock.advance(1)
        # DynamoDB has not deleted the old item yet. The first request deletes it, and later its child items.
        reply = api.post("/v1/videos", second, user="admin")
        assert (reply.status, reply.json["type"]) == (409, "urn:video-metadata:problem:being-removed")
        assert reply.headers["retry-after"] == "10"
        assert api.post("/v1/videos", second, user="admin").status == 201
        assert api.get(_path(video), user="admin").json["title"] == "new"

    def test_imported_expired_video_has_the_full_retention(self, api: Api) -> None:
        assert api.create("admin", createdAt=1000, expiresAt=2000)["purgeAt"] == NOW + GRACE_SECONDS


IMPOSSIBLE: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"expiresAt": NOW}, {"/expiresAt": f"must be after the current time {NOW}, not {NOW}"}),
    ({"expiresAt": 0}, {"/expiresAt": f"must be after the current time {NOW}, not 0"}),
    ({"publishAt": NOW + 9, "expiresAt": NOW}, {"/expiresAt": f"must be after the current time {NOW}, not {NOW}"}),
    (
        {"publishAt": NOW + 9, "expiresAt": NOW + 9},
        {"/expiresAt": f"must be after publishAt {NOW + 9}, not {NOW + 9}"},
    ),
    (
        {"publishAt": NOW + 9, "expiresAt": NOW + 5},
        {"/expiresAt": f"must be after publishAt {NOW + 9}, not {NOW + 5}"},
    ),
]


class TestConflictingFields:
    @pytest.mark.parametrize(("fields", "faults"), IMPOSSIBLE, ids=str)
    def test_conflicting_fields_are_refused_by_create_patch_and_batch(
        self, api: Api, fields: dict[str, Any], faults: dict[str, str]
    ) -> None:
        video = api.create()
        operations = [
            {"op": "create", "video": {"title": "t"} | fields},
            {"op": "patch", "videoId": video["videoId"], "patch": fields},
        ]
        replies = [api.post("/v1/videos", {"title": "t"} | fields), api.patch(_path(video), fields)]
        assert [reply.status for reply in replies] == [422, 422]
        assert [_faults(reply.json) for reply in replies] == [faults, faults]
        for query in ("", "dryRun=true"):
            results = api.post("/v1/videos/batch", {"operations": operations}, query=query).json["items"]
            assert [result["status"] for result in results] == [422, 422]
            assert [_faults(result["problem"]) for result in results] == [
                {f"/operations/0/video{pointer}": detail for pointer, detail in faults.items()},
                {f"/operations/1/patch{pointer}": detail for pointer, detail in faults.items()},
            ]
        assert api.get(_path(video)).json["version"] == 1

    def test_patched_time_must_fit_the_stored_time(self, api: Api) -> None:
        video = api.create(publishAt=NOW + 50)
        reply = api.patch(_path(video), {"expiresAt": NOW + 50})
        assert _faults(reply.json) == {"/expiresAt": f"must be after publishAt {NOW + 50}, not {NOW + 50}"}
        assert api.patch(_path(video), {"expiresAt": NOW + 51}).status == 200
        reply = api.patch(_path(video), {"publishAt": NOW + 51})
        assert _faults(reply.json) == {"/publishAt": f"must be before expiresAt {NOW + 51}, not {NOW + 51}"}
        assert api.patch(_path(video), {"publishAt": NOW + 99, "expiresAt": None}).status == 200

    def test_expired_video_can_be_patched_with_its_own_expiry(self, api: Api, clock: Clock) -> None:
        video = api.create(expiresAt=NOW + 5)
        clock.advance(10)
        assert api.patch(_path(video), {"title": "Another", "expiresAt": NOW + 5}).status == 200
        assert api.patch(_path(video), {"expiresAt": NOW + 6}).status == 422

    def test_admin_may_import_an_expired_video(self, api: Api) -> None:
        assert api.create("admin", createdAt=1000, expiresAt=1001)["expiresAt"] == 1001
        reply = api.post("/v1/videos", {"title": "t", "createdAt": 1000, "expiresAt": 1000}, user="admin")
        assert _faults(reply.json) == {"/expiresAt": "must be after createdAt 1000, not 1000"}

    def test_video_cannot_be_its_own_series(self, api: Api) -> None:
        video_id = api.create()["videoId"]
        reply = api.patch(f"/v1/videos/{video_id}", {"seriesId": video_id.upper()})
        assert (reply.status, _faults(reply.json)) == (422, {"/seriesId": "must be the id of another video"})
        reply = api.post("/v1/videos", {"title": "t", "videoId": MISSING, "seriesId": MISSING}, user="admin")
        assert (reply.status, _faults(reply.json)) == (422, {"/seriesId": "must be the id of another video"})


def _faults(problem: dict[str, Any]) -> dict[str, str]:
    return {fault["pointer"]: fault["detail"] for fault in problem["errors"]}
