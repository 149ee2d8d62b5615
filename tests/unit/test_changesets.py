"""Change sets: the audit entries of one request, their permissions, and pages."""

from typing import Any
from urllib.parse import quote

import jsonschema_rs
import pytest

from local.testbed.audited import AuditedService
from local.testbed.background import DAYS
from local.testbed.harness import NOW, Api, Clock, Reply, make_api, record_operations
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.core.attributes import Item
from shared.core.caller import request_id_of
from shared.history import changesets
from shared.openapi.document import document
from shared.routes import ROUTES
from shared.schema import AUDIT, CHANGESET
from shared.web.cursors import LIFETIME_SECONDS


@pytest.fixture
def service(api: Api) -> AuditedService:
    """Return the service with an empty audit trail."""
    return AuditedService(api)


def _last_request(service: AuditedService, video_id: str) -> str:
    """Return the id of the request that last wrote a video."""
    return str(request_id_of(service.item(video_id)))


def _batch(service: AuditedService, *owners: str) -> tuple[str, list[str]]:
    """Create a video for each owner, and change all titles in one batch of an admin's. Return the change set's id and
    the video ids."""
    video_ids = [str(service.api.create("admin", userId=owner)["videoId"]) for owner in owners]
    changes = [{"op": "patch", "videoId": video_id, "patch": {"title": "New"}} for video_id in video_ids]
    assert service.api.post("/v1/videos/batch", {"operations": changes}, user="admin").status == 200
    service.settle()
    return _last_request(service, video_ids[0]), video_ids


def _get(service: AuditedService, changeset_id: str, query: str = "", user: str = "admin") -> Reply:
    return service.api.get(f"/v1/changesets/{quote(changeset_id, safe='')}", query=query, user=user)


def _pages_of_videos(
    service: AuditedService, changeset_id: str, query: str = "", user: str = "admin"
) -> list[list[str]]:
    """Return the video ids of each page, following the cursors."""
    pages: list[list[str]] = []
    cursor = ""
    while True:
        reply = _get(service, changeset_id, f"{query}{cursor}", user)
        assert reply.status == 200, reply.body
        pages.append([item["videoId"] for item in reply.json["items"]])
        if reply.json["nextCursor"] is None:
            return pages
        cursor = f"&cursor={quote(reply.json['nextCursor'])}"


def _put(service: AuditedService, changeset_id: str, count: int, **fields: object) -> None:
    """Store `count` entries of a change set, each for a different video."""
    for number in range(count):
        video_id = f"00000000-0000-4000-8000-{number:012}"
        item: Item = {
            **AUDIT.key(videoId=video_id, at=f"{NOW * 1000}", sequence="1"),
            CHANGESET: changeset_id,
            "videoId": video_id,
            "entity": "video",
            "owner": "alice",
            "purgeAt": NOW + 86_400,
            "changes": [],
        }
        service.trail.add(item | fields)


class TestContent:
    def test_changeset_lists_each_change_of_its_request(self, service: AuditedService) -> None:
        changeset_id, video_ids = _batch(service, "alice", "bob")
        assert service.api.patch(f"/v1/videos/{video_ids[0]}", {"title": "Later"}).status == 200
        service.settle()
        items = _get(service, changeset_id).json["items"]
        assert {item["videoId"] for item in items} == {*video_ids}
        assert [item["changes"] for item in items] == 2 * [[{"field": "/title", "from": "A film", "to": "New"}]]
        assert {item["correlationId"] for item in items} == {changeset_id}

    def test_changeset_conforms_to_the_openapi_schema(self, service: AuditedService) -> None:
        changeset_id, _ = _batch(service, "alice", "bob")
        schema = {"$ref": "#/components/schemas/AuditPage", "components": document()["components"]}
        for query in ("", "limit=1"):
            jsonschema_rs.Draft202012Validator(schema).validate(_get(service, changeset_id, query).json)

    def test_changes_are_grouped_by_video_and_listed_newest_first(self, service: AuditedService) -> None:
        video_id = service.api.create()["videoId"]
        changes = [{"op": "patch", "videoId": video_id, "patch": {"title": title}} for title in "abc"]
        service.api.post("/v1/videos/batch", {"operations": changes})
        service.settle()
        items = _get(service, _last_request(service, video_id)).json["items"]
        assert [item["version"] for item in items] == [4, 3, 2]

    @pytest.mark.parametrize("changeset_id", ["x", "!", "~" * 128, "50%", "a=b&c"])
    def test_any_well_formed_change_set_id_is_accepted(self, service: AuditedService, changeset_id: str) -> None:
        assert _get(service, changeset_id).status == 404
        _put(service, changeset_id, 1)
        assert len(_get(service, changeset_id).json["items"]) == 1


class TestPermissions:
    def test_owner_sees_only_changes_of_own_items(self, service: AuditedService) -> None:
        changeset_id, (of_alice, of_bob) = _batch(service, "alice", "bob")
        assert _pages_of_videos(service, changeset_id, user="alice") == [[of_alice]]
        assert _pages_of_videos(service, changeset_id, user="bob") == [[of_bob]]

    def test_changeset_of_other_owners_is_404_like_an_unknown_one(self, service: AuditedService) -> None:
        changeset_id, _ = _batch(service, "alice")
        replies = [_get(service, id_, user="carol") for id_ in (changeset_id, "never-was")]
        assert [reply.status for reply in replies] == [404, 404]
        assert replies[0].json == replies[1].json


class TestPages:
    @pytest.mark.parametrize("limit", [1, 3, 6, 7])
    @pytest.mark.parametrize("user", ["admin", "alice"])
    def test_pages_are_full_and_contain_each_entry_once(self, service: AuditedService, limit: int, user: str) -> None:
        _put(service, "set", 7)
        entries = _pages_of_videos(service, "set", "limit=100", user)[0]
        assert len({*entries}) == 7
        assert _pages_of_videos(service, "set", f"limit={limit}", user) == [
            entries[at : at + limit] for at in range(0, 7, limit)
        ]

    def test_page_is_one_query_of_the_index_and_one_read_of_its_entries(self, service: AuditedService) -> None:
        _put(service, "set", 3)
        with record_operations(service.table.client) as operations:
            _get(service, "set")
        assert [(operation.name, operation.index) for operation in operations] == [
            ("Query", "ChangesetIndex"),
            ("BatchGetItem", None),
        ]

    def test_page_of_large_entries_is_shorter_and_has_a_cursor(
        self, service: AuditedService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(changesets, "LARGEST_PAGE", 1000)
        _put(service, "set", 3, changes=[{"field": "/description", "to": "x" * 600}])
        assert [len(page) for page in _pages_of_videos(service, "set")] == [1, 1, 1]

    def test_search_for_visible_entries_is_bounded_and_returns_a_cursor(
        self, service: AuditedService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(changesets, "LARGEST_QUERY", 2)
        _put(service, "set", 1)  # the last entry in the order of the index, because the greatest ids come first
        _put(service, "set", 12, owner="bob")
        (visible,) = _pages_of_videos(service, "set", user="alice")[1:]
        assert _pages_of_videos(service, "set", user="alice") == [[], visible]
        assert len(visible) == 1

    def test_expired_entries_that_dynamodb_has_not_deleted_are_hidden(self, service: AuditedService) -> None:
        changeset_id, _ = _batch(service, "alice")
        service.api.clock.advance(DAYS * 86_400)
        assert _get(service, changeset_id).status == 404

    def test_cursor_is_valid_only_for_its_set_and_caller(self, service: AuditedService) -> None:
        _put(service, "set", 2)
        _put(service, "other", 2)
        cursor = quote(_get(service, "set", "limit=1").json["nextCursor"])

        def status(changeset_id: str, user: str = "admin") -> int:
            return _get(service, changeset_id, f"cursor={cursor}", user).status

        assert [status("set"), status("other"), status("set", "alice")] == [200, 400, 400]
        service.api.clock.advance(LIFETIME_SECONDS + 1)
        assert status("set") == 400


class TestBadRequests:
    @pytest.mark.parametrize("changeset_id", ["~" * 129, "a b", "é", "a\tb"])
    def test_malformed_change_set_id_is_400_without_requests(self, service: AuditedService, changeset_id: str) -> None:
        with record_operations(service.table.client) as operations:
            assert _get(service, changeset_id).status == 400
        assert operations == []

    @pytest.mark.parametrize("query", ["limit=0", "limit=101", "cursor=x", "order=asc", "limit=1&limit=2"])
    def test_invalid_parameter_is_400(self, service: AuditedService, query: str) -> None:
        assert _get(service, "set", query).status == 400


class TestChangeSetHeader:
    @pytest.mark.slow
    def test_every_audited_write_names_its_change_set(self, table: Table, clock: Clock, objects: Objects) -> None:
        service = AuditedService(make_api(table, clock, objects))
        video_id, other = service.uploaded_film(service.api), service.create()
        playlist_id = service.write("POST", "/v1/playlists", {"title": "Films"}).json["playlistId"]
        video, playlist = f"/v1/videos/{video_id}", f"/v1/playlists/{playlist_id}"
        captions = {"body": "WEBVTT\n\n00:01.000 --> 00:02.000\nHello\n", "headers": {"Content-Type": "text/vtt"}}
        roles = {"ordering": 1, "roles": [{"category": "actor"}]}
        titles = {"titles": [{"title": "Kia ora"}]}
        chapters = {"chapters": [{"start": 0, "title": "Opening"}]}
        patch = {"op": "patch", "videoId": video_id, "patch": {"title": "Of a batch"}}
        requests: list[tuple[str, str, str, dict[str, Any]]] = [
            ("createVideo", "POST", "/v1/videos", {"json_body": {"title": "New"}}),
            ("patchVideo", "PATCH", video, {"json_body": {"title": "Changed"}}),
            ("batchVideos", "POST", "/v1/videos/batch", {"json_body": {"operations": [patch]}}),
            ("revertVideo", "POST", f"{video}/revert", {"json_body": {"toVersion": 1, "fields": ["/title"]}}),
            ("chooseThumbnail", "POST", f"{video}/thumbnail", {"json_body": {"position": 500}}),
            ("putCredit", "PUT", f"{video}/credits/sam", {"json_body": roles}),
            ("deleteCredit", "DELETE", f"{video}/credits/sam", {}),
            ("putRegionRelease", "PUT", f"{video}/releases/NZ", {"json_body": titles}),
            ("deleteRegionRelease", "DELETE", f"{video}/releases/NZ", {}),
            ("putRelease", "PUT", f"{video}/releases/NZ/mi", {"json_body": titles}),
            ("deleteRelease", "DELETE", f"{video}/releases/NZ/mi", {}),
            ("putCaptions", "PUT", f"{video}/captions/en", captions),
            ("deleteCaptions", "DELETE", f"{video}/captions/en", {}),
            ("putChapters", "PUT", f"{video}/chapters", {"json_body": chapters}),
            ("deleteChapters", "DELETE", f"{video}/chapters", {}),
            ("createPlaylist", "POST", "/v1/playlists", {"json_body": {"title": "More"}}),
            ("patchPlaylist", "PATCH", playlist, {"json_body": {"title": "Changed"}}),
            ("appendEntry", "POST", f"{playlist}/entries", {"json_body": {"videoId": video_id}}),
            ("appendEntry", "POST", f"{playlist}/entries", {"json_body": {"videoId": other}}),
            ("moveEntry", "PATCH", f"{playlist}/entries/{other}", {"json_body": {"after": None}}),
            ("removeEntry", "DELETE", f"{playlist}/entries/{other}", {}),
            ("deletePlaylist", "DELETE", playlist, {}),
            ("deleteVideo", "DELETE", video, {}),
            ("restoreVideo", "POST", f"{video}/restore", {}),
        ]
        named = []
        for operation, method, path, options in requests:
            clock.advance(1)
            reply = service.api.request(method, path, **options)
            assert reply.status < 300, (operation, reply.body)
            service.settle()
            named.append(reply.headers["change-set"])
            assert _get(service, named[-1]).status == 200, operation
        assert len({*named}) == len(requests)
        reverted = service.api.post(f"/v1/changesets/{named[0]}/revert", {})
        assert reverted.headers["change-set"] == reverted.json["revertId"]
        assert {operation for operation, *_ in requests} | {"revertChangeset", "moveFolder"} == {
            route.operation for route in ROUTES if route.makes_change_set
        }

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("GET", "", None),
            ("PUT", "/rating", {"value": 7}),
            ("POST", "/views", None),
            ("POST", "/upload", {"contentType": "video/mp4", "fileSize": 9}),
            ("PATCH", "", {"title": ""}),
        ],
    )
    def test_request_without_an_audited_write_names_no_change_set(
        self, table: Table, objects: Objects, method: str, path: str, body: Any
    ) -> None:
        api = make_api(table, objects=objects)
        video_id = api.publish()["videoId"]
        assert "change-set" not in api.request(method, f"/v1/videos/{video_id}{path}", json_body=body).headers

    def test_write_that_changes_nothing_names_no_change_set(self, table: Table, objects: Objects) -> None:
        api = make_api(table, objects=objects)
        video = f"/v1/videos/{api.create(title='Same')['videoId']}"
        playlist = f"/v1/playlists/{api.post('/v1/playlists', {'title': 'Same'}).json['playlistId']}"
        missing = {"op": "delete", "videoId": "11111111-0000-4000-8000-000000000000"}
        requests: list[tuple[str, str, dict[str, Any]]] = [
            ("PUT", f"{video}/credits/sam", {"json_body": {"ordering": 1, "roles": [{"category": "actor"}]}}),
            ("PUT", f"{video}/chapters", {"json_body": {"chapters": [{"start": 0, "title": "Opening"}]}}),
            (
                "PUT",
                f"{video}/captions/en",
                {"json_body": {"format": "srt", "text": "1\n00:00:01,000 --> 00:00:02,000\nx\n"}},
            ),
            ("PATCH", video, {"json_body": {"title": "Same"}}),
            ("PATCH", playlist, {"json_body": {"title": "Same"}}),
            ("POST", "/v1/videos/batch", {"json_body": {"operations": [missing]}}),
            ("POST", f"{video}/revert", {"json_body": {"toVersion": 1}}),
            ("DELETE", video, {}),
        ]
        for method, path, options in requests:
            first, second = (api.request(method, path, **options) for _ in range(2))
            assert first.status < 300, (path, first.body)
            assert ("change-set" in first.headers) == (method in ("PUT", "DELETE")), path
            assert "change-set" not in second.headers, path

    def test_dry_run_names_no_change_set(self, service: AuditedService) -> None:
        changeset_id, (video_id,) = _batch(service, "alice")
        for path, body in (
            ("/v1/videos/batch", {"operations": [{"op": "delete", "videoId": video_id}]}),
            (f"/v1/videos/{video_id}/revert", {"toVersion": 1}),
            (f"/v1/changesets/{changeset_id}/revert", {}),
        ):
            reply = service.api.post(path, body, query="dryRun=true")
            assert reply.status == 200
            assert "change-set" not in reply.headers

    def test_retry_names_the_change_set_of_the_first_request(self, service: AuditedService) -> None:
        key = {"Idempotency-Key": "k"}
        create = {"op": "create", "video": {"title": "New"}}
        playlist_id = service.api.post("/v1/playlists", {"title": "Films"}).json["playlistId"]
        video_id = service.api.create()["videoId"]
        for path, body in (
            ("/v1/videos", {"title": "New"}),
            ("/v1/videos/batch", {"operations": [create, create]}),
            ("/v1/playlists", {"title": "Films"}),
            (f"/v1/playlists/{playlist_id}/entries", {"videoId": video_id}),
        ):
            first, retry = (service.api.post(path, body, headers=key) for _ in range(2))
            assert first.json == retry.json
            assert first.headers["change-set"] == retry.headers["change-set"]
            service.settle()
            assert _get(service, first.headers["change-set"]).status == 200

    def test_retried_batch_with_new_writes_names_its_own_change_set(self, service: AuditedService) -> None:
        video_id = service.api.create()["videoId"]
        create = {"op": "create", "video": {"title": "New"}}
        change = {"op": "patch", "videoId": video_id, "patch": {"title": "New"}, "ifMatch": '"2"'}
        batch, key = {"operations": [create, change]}, {"Idempotency-Key": "k"}
        first = service.api.post("/v1/videos/batch", batch, headers=key)
        assert [item["status"] for item in first.json["items"]] == [201, 412]
        service.api.patch(f"/v1/videos/{video_id}", {"title": "In between"})
        retry = service.api.post("/v1/videos/batch", batch, headers=key)
        assert [item["status"] for item in retry.json["items"]] == [201, 200]
        service.settle()
        assert first.headers["change-set"] != retry.headers["change-set"] == _last_request(service, video_id)

    def test_openapi_document_declares_the_header_for_the_same_operations(self) -> None:
        for route in ROUTES:
            responses = document()["paths"][route.path][route.method.lower()]["responses"]
            named = [status for status, response in responses.items() if "Change-Set" in response.get("headers", {})]
            expected = [status for status in responses if status < "300"] if route.makes_change_set else []
            assert named == expected, route
