"""Past versions of a video: access, retention, and errors for versions that the trail can no longer reconstruct."""

from typing import Any

import jsonschema_rs
import pytest

from local.stream_records import EXPIRY
from local.testbed.audited import AuditedService
from local.testbed.background import DAYS, BackgroundWork
from local.testbed.harness import NOW, Api, Reply, record_operations, remove_video
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.history.entries import LARGEST_ENTRY, UNKNOWN
from shared.openapi.document import document
from shared.schema import AUDIT_TABLE_NAME, VIDEO

DAY = 24 * 3600
MISSING = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def trail(api: Api) -> AuditedService:
    """Return the service with its audit trail."""
    return AuditedService(api)


class VersionedVideo:
    """Video of alice with several versions. Version n was written n - 1 minutes after NOW and has the title `Title
    n`."""

    def __init__(self, api: Api, trail: AuditedService, versions: int = 4, **fields: Any) -> None:
        self.api, self.trail = api, trail
        self.video_id = str(api.create(title="Title 1", **fields)["videoId"])
        trail.settle()
        for number in range(2, versions + 1):
            self.patch(title=f"Title {number}")

    def patch(self, user: str = "alice", **fields: Any) -> None:
        """Change the video through the API, one minute later."""
        self.api.clock.advance(60)
        reply = self.api.patch(f"/v1/videos/{self.video_id}", fields, user=user)
        assert reply.status == 200, reply.body
        self.trail.settle()

    def edit(self, **attributes: Any) -> None:
        """Write attributes directly to the table, one minute later."""
        self.api.clock.advance(60)
        self.api.table.client.put_item(
            TableName=self.api.table.name, Item=self.api.table.put(self.stored() | attributes).parameters["Item"]
        )
        self.trail.settle()

    def stored(self) -> Item:
        """Return the video's stored item."""
        item = self.api.table.get(VIDEO.key(videoId=self.video_id))
        assert item is not None
        return item

    def remove(self) -> None:
        """Delete the video permanently, with all its child items."""
        remove_video(self.api.table, self.video_id)
        BackgroundWork.settle(self.trail)
        for record in self.trail.seen_records:
            if record["eventName"] == "REMOVE":
                record["userIdentity"] = EXPIRY
        self.trail.settle()

    def get(self, query: str, user: str = "alice", **options: Any) -> Reply:
        """Return the response to a GET with this query, for example `version=2`."""
        return self.api.get(f"/v1/videos/{self.video_id}", query=query, user=user, **options)

    def title(self, query: str, user: str = "alice") -> str:
        """Return the title in the response to this query."""
        reply = self.get(query, user)
        assert reply.status == 200, reply.body
        return str(reply.json["title"])


@pytest.fixture
def history(api: Api, trail: AuditedService) -> VersionedVideo:
    """Return a video with four versions."""
    return VersionedVideo(api, trail)


def problem(reply: Reply) -> tuple[int, str]:
    """Return the status and the last word of the problem type."""
    return reply.status, reply.slug


class TestVersions:
    def test_every_version_equals_the_document_read_then_except_view_count(
        self, api: Api, trail: AuditedService
    ) -> None:
        video_id = api.create(tags=["b", "a"], metadata={"k": 1, "a/b": "~"}, category="film", duration=5000)["videoId"]
        patches: list[dict[str, Any]] = [
            {"metadata": {"k": None, "a/b": None}, "tags": ["c"], "duration": None},
            {"metadata": {"x.y": False}, "expiresAt": NOW + DAY, "category": None},
            {"thumbnails": {"poster": {"url": "https://example.com/a.jpg", "width": 7}}, "tags": []},
            {"thumbnails": {"poster": {"width": None}}, "metadata": None},
        ]
        read = [api.get(f"/v1/videos/{video_id}").json]
        for patch in patches:
            api.clock.advance(1)
            assert api.patch(f"/v1/videos/{video_id}", patch).status == 200
            read.append(api.get(f"/v1/videos/{video_id}").json)
        trail.settle()
        for number, expected in enumerate(read, start=1):
            reply = api.get(f"/v1/videos/{video_id}", query=f"version={number}")
            expected.pop("viewCount")
            assert reply.json == expected | {"without": ["viewCount"]}
            assert list(reply.json) == [*expected, "without"]

    def test_past_version_matches_the_openapi_document(self, history: VersionedVideo) -> None:
        schema = {"$ref": "#/components/schemas/PastVideo", "components": document()["components"]}
        jsonschema_rs.Draft202012Validator(schema).validate(history.get("version=2").json)

    def test_current_version_needs_no_trail(self, history: VersionedVideo) -> None:
        history.trail.forget(*history.trail.entries(history.video_id))
        assert history.title("version=4") == "Title 4"

    def test_version_that_never_existed_is_404(self, history: VersionedVideo) -> None:
        assert problem(history.get("version=5")) == (404, "not-found")
        assert history.get("version=9007199254740991").status == 404

    def test_imported_video_has_no_versions_before_its_import(self, history: VersionedVideo) -> None:
        stored = history.stored()
        history.remove()
        history.api.table.write(history.api.table.put(stored))
        history.trail.settle()
        history.patch(title="After the import")
        assert history.title("version=4") == "Title 4"
        assert history.get("version=3").status == 404

    def test_past_version_returns_only_the_requested_fields(self, history: VersionedVideo) -> None:
        assert history.get("version=2&fields=title,version").json == {"title": "Title 2", "version": 2, "without": []}
        assert history.get("version=2&fields=viewCount").json == {"without": ["viewCount"]}

    def test_thumbnails_of_jobs_in_past_versions_have_public_urls(self, api: Api, trail: AuditedService) -> None:
        video_id = trail.uploaded_film(api)
        attempt = trail.message("thumbnails", "poster").job_attempt
        worker, now = Caller.job("thumbnails"), int(api.clock())
        assert trail.jobs.claim(attempt, worker, now)
        job_pictures = {"poster": {"url": "s3://media/thumbnails/1/poster.jpg"}}
        assert trail.jobs.complete(attempt, {}, worker, now, lambda item: item | {"pictures": job_pictures})
        trail.settle()
        read = api.get(f"/v1/videos/{video_id}").json
        api.patch(f"/v1/videos/{video_id}", {"thumbnails": None})
        trail.settle()
        reply = api.get(f"/v1/videos/{video_id}", query=f"version={read['version']}")
        assert reply.json["thumbnails"] == read["thumbnails"]
        assert read["thumbnails"]["poster"]["url"].startswith("https://pictures.example/")

    def test_past_version_has_its_own_etag(self, history: VersionedVideo) -> None:
        reply = history.get("version=2")
        assert reply.etag.startswith('"2.')
        assert history.get("version=2", headers={"If-None-Match": reply.etag}).status == 304
        reply = history.api.patch(f"/v1/videos/{history.video_id}", {"title": "x"}, headers={"If-Match": reply.etag})
        assert reply.status == 412


class TestTimes:
    @pytest.mark.parametrize(
        ("time", "title"),
        [(0, "Title 1"), (59, "Title 1"), (60, "Title 2"), (61, "Title 2"), (179, "Title 3"), (180, "Title 4")],
    )
    def test_parameter_as_of_returns_the_version_at_the_end_of_the_second(
        self, history: VersionedVideo, time: int, title: str
    ) -> None:
        assert history.title(f"asOf={NOW + time}") == title

    @pytest.mark.parametrize("time", ["2025-06-15T15:07:40Z", "2025-06-15T17:07:40.999%2B02:00"])
    def test_parameter_as_of_ignores_fractions_of_a_second(self, history: VersionedVideo, time: str) -> None:
        assert history.title(f"asOf={time}") == "Title 2"

    def test_parameter_as_of_returns_the_last_version_of_a_second(self, history: VersionedVideo) -> None:
        for title in ("first", "last"):
            history.api.patch(f"/v1/videos/{history.video_id}", {"title": title})
        history.api.clock.advance(60)
        history.trail.settle()
        assert history.title(f"asOf={NOW + 180}") == "last", "the last version of the second must be returned"
        assert history.title("version=5") == "first"

    def test_parameter_as_of_before_the_creation_is_404(self, history: VersionedVideo) -> None:
        assert problem(history.get(f"asOf={NOW - 1}")) == (404, "not-found")
        assert str(NOW) in history.get(f"asOf={NOW - 1}").json["detail"]

    def test_parameter_as_of_accepts_the_present_and_refuses_the_future(self, history: VersionedVideo) -> None:
        assert history.title(f"asOf={NOW + 180}") == "Title 4"
        assert problem(history.get(f"asOf={NOW + 181}")) == (400, "invalid-parameter")

    def test_parameter_as_of_before_an_import_is_404(self, history: VersionedVideo) -> None:
        stored = history.stored()
        history.remove()
        history.api.clock.advance(1000)
        history.api.table.write(history.api.table.put(stored))
        history.trail.settle()
        assert history.get(f"asOf={NOW + 1179}").status == 404
        assert history.title(f"asOf={NOW + 1180}") == "Title 4"


class TestPermissions:
    @pytest.mark.parametrize("query", ["version=2", f"asOf={NOW + 60}"])
    def test_past_version_is_visible_to_its_owner_and_admins_only(self, history: VersionedVideo, query: str) -> None:
        assert [history.get(query, user).status for user in ("alice", "admin", "bob")] == [200, 200, 404]

    def test_other_users_may_not_read_past_versions_of_a_public_video(self, history: VersionedVideo) -> None:
        history.patch("admin", status="processing")
        history.patch("admin", status="ready", visibility="public")
        assert history.get("", "bob").status == 200
        assert problem(history.get("version=5", "bob")) == (403, "forbidden")

    def test_owner_may_read_past_versions_of_a_deleted_video(self, history: VersionedVideo) -> None:
        history.api.delete(f"/v1/videos/{history.video_id}")
        history.trail.settle()
        assert [history.title(f"version={number}") for number in (1, 5)] == ["Title 1", "Title 4"]
        assert history.get("version=4").json["status"] == "uploaded"

    def test_version_of_a_video_that_never_existed_is_404(self, api: Api) -> None:
        statuses = [api.get(f"/v1/videos/{MISSING}", query="version=1", user=user).status for user in ("bob", "admin")]
        assert statuses == [404, 404]


class TestRemovedVideos:
    def test_removed_video_is_410_for_owner_and_admin_and_404_for_others(self, history: VersionedVideo) -> None:
        history.remove()
        assert problem(history.get("version=1")) == (410, "gone")
        assert problem(history.get(f"asOf={NOW}", "admin")) == (410, "gone")
        assert problem(history.get("version=1", "bob")) == (404, "not-found")

    def test_deleted_video_is_410_from_the_second_its_retention_ends(self, history: VersionedVideo) -> None:
        history.api.delete(f"/v1/videos/{history.video_id}")
        history.trail.settle()
        history.api.clock.advance(90 * DAY)
        assert problem(history.get("version=1")) == (410, "gone")

    def test_purged_video_without_a_trail_is_404(self, history: VersionedVideo) -> None:
        history.remove()
        history.api.clock.advance((DAYS + 1) * DAY)
        assert history.get("version=1", "admin").status == 404

    def test_new_video_with_a_reused_id_does_not_show_the_earlier_past(self, history: VersionedVideo) -> None:
        history.remove()
        history.api.clock.advance(60)
        history.api.create("admin", videoId=history.video_id, userId="bob", title="Bob's")
        history.trail.settle()
        assert history.title("version=1", "bob") == "Bob's"
        assert history.get(f"asOf={NOW + 60}", "bob").status == 404
        assert history.get(f"asOf={NOW + 60}", "admin").status == 404
        assert history.get("version=1", "alice").status == 404

    def test_entries_of_an_earlier_video_with_the_id_are_not_used(self, history: VersionedVideo) -> None:
        history.remove()
        history.api.create("admin", videoId=history.video_id, userId="alice", title="Another")
        for title in ("A", "B", "C"):
            history.api.patch(f"/v1/videos/{history.video_id}", {"title": title})
        assert problem(history.get("version=3")) == (503, "trail-behind")
        history.trail.forget(
            history.trail.entries(history.video_id)[0]
        )  # the same result when the trail does not show that the earlier video was removed
        assert problem(history.get("version=3")) == (503, "trail-behind")


class TestIncompleteTrail:
    def test_past_version_is_503_while_the_trail_lags(self, history: VersionedVideo) -> None:
        history.api.patch(f"/v1/videos/{history.video_id}", {"title": "New"})
        reply = history.get("version=4")
        assert (problem(reply), reply.headers["retry-after"]) == ((503, "trail-behind"), "2")
        assert history.title("version=5") == "New"
        assert history.get(f"asOf={NOW + 170}").status == 503
        history.trail.settle()
        assert history.title("version=4") == "Title 4"

    def test_version_missing_from_the_trail_is_410_after_a_day(self, history: VersionedVideo) -> None:
        history.api.patch(f"/v1/videos/{history.video_id}", {"title": "New"})
        history.api.clock.advance(DAY - 1)
        assert history.get("version=4").status == 503
        history.api.clock.advance(1)
        assert problem(history.get("version=4")) == (410, "gone")

    def test_missing_entry_between_others_is_410(self, history: VersionedVideo) -> None:
        history.trail.forget(history.trail.entries(history.video_id)[1])
        assert history.title("version=4") == "Title 4"
        reply = history.get("version=2")
        assert problem(reply) == (410, "gone")
        assert "version 3" in reply.json["detail"]
        assert str(NOW + 180) in reply.json["detail"]

    def test_expired_entries_are_410_before_dynamodb_deletes_them(self, history: VersionedVideo) -> None:
        history.api.clock.advance(300 * DAY)
        history.patch(title="Title 5")
        history.api.clock.now = NOW + DAYS * DAY + 90
        assert history.title("version=3") == "Title 3"
        reply = history.get("version=2")
        assert problem(reply) == (410, "gone")
        assert str(NOW + 120) in reply.json["detail"]

    def test_past_version_is_503_while_the_trail_lacks_a_schema_upgrade(self, history: VersionedVideo) -> None:
        # An upgrade keeps `updatedAt`, so the time does not show that the item is newer than the trail.
        older = history.stored() | {"schemaVersion": 2, "version": 1}
        history.remove()
        history.api.table.write(history.api.table.put(older))
        history.trail.settle()
        history.api.clock.advance(2 * DAY)
        now = int(history.api.clock())
        history.trail.videos.settle(history.video_id, now)
        assert history.get("version=1").status == 503
        history.trail.settle()
        assert history.get("version=1").json["schemaVersion"] == 2
        assert [history.get(f"asOf={time}").json["version"] for time in (now - 1, now)] == [1, 2]

    def test_past_version_reads_a_limited_number_of_entries(
        self, history: VersionedVideo, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shared.history.trail.FIRST_BACK", 1)
        monkeypatch.setattr("shared.history.trail.LARGEST_BACK", 1)
        monkeypatch.setattr("shared.history.trail.FARTHEST", 3)
        assert history.title("version=2") == "Title 2"
        assert problem(history.get("version=1")) == (409, "limit-reached")

    def test_past_read_queries_only_the_entries_it_needs(
        self, history: VersionedVideo, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shared.history.trail.FIRST_BACK", 2)
        with record_operations(history.api.table.client) as operations:
            history.get("version=3")
        assert [(operation.name, operation.parameters["ConsistentRead"]) for operation in operations] == [
            ("GetItem", True),
            ("Query", True),
        ]
        assert operations[-1].parameters["TableName"] == AUDIT_TABLE_NAME


class TestDirectEdits:
    def test_version_includes_direct_edits_and_as_of_only_earlier_ones(self, history: VersionedVideo) -> None:
        history.edit(title="By hand", metadata={"deep": {"er": {}, "null": None}})
        history.edit(metadata={"deep": {"null": 0}})
        history.edit(metadata={})
        history.patch(title="Title 5")
        assert history.title("version=4") == "By hand"
        assert history.get("version=4").json["metadata"] == {}
        assert history.title(f"asOf={NOW + 239}") == "Title 4"
        assert history.title(f"asOf={NOW + 240}") == "By hand"
        assert history.get(f"asOf={NOW + 240}").json["metadata"] == {"deep": {"er": {}, "null": None}}
        assert history.get(f"asOf={NOW + 300}").json["metadata"] == {"deep": {"null": 0}}
        assert history.title("version=3") == "Title 3"

    @pytest.mark.parametrize("later", [0, 2 * DAY])
    def test_past_read_is_503_while_the_trail_lacks_a_direct_edit(self, history: VersionedVideo, later: int) -> None:
        # A direct edit keeps `updatedAt`, so the time does not show that the item is newer than the trail.
        history.api.clock.advance(later)
        history.edit(title="By hand")
        history.trail.forget(history.trail.entries(history.video_id)[0])
        assert history.title("version=4") == "By hand"
        assert history.get("version=3").status == 503
        assert history.get(f"asOf={NOW + 200}").status == 503

    def test_past_read_is_410_when_the_trail_lost_a_direct_edit(self, history: VersionedVideo) -> None:
        history.edit(description="By hand")
        history.patch(title="Title 5")
        (direct_edit,) = [entry for entry in history.trail.entries(history.video_id) if entry["by"] == UNKNOWN]
        history.trail.forget(direct_edit)
        assert history.title("version=5") == "Title 5"
        for query in ("version=4", "version=3", f"asOf={NOW + 239}"):
            assert problem(history.get(query)) == (410, "gone")

    def test_past_read_skips_direct_edit_made_after_the_video_was_read(self, history: VersionedVideo) -> None:
        before = history.stored()
        history.edit(title="By hand")
        history.patch(title="Title 5")
        after = history.stored()
        history.api.table.write(history.api.table.put(before))
        assert history.title("version=3") == "Title 3"
        assert history.title(f"asOf={NOW + 180}") == "Title 4"
        history.api.table.write(history.api.table.put(after))
        assert history.title("version=4") == "By hand"


class TestTruncatedValues:
    def test_problem_names_truncated_fields(self, history: VersionedVideo) -> None:
        history.edit(metadata={"huge": "x" * LARGEST_ENTRY, "small": 1})
        history.edit(metadata={"small": 2})
        history.patch(title="Title 5")
        reply = history.get("version=4&fields=metadata")
        assert (reply.status, reply.json["metadata"]) == (200, {"small": 2})
        reply = history.get(f"asOf={NOW + 240}")
        assert problem(reply) == (410, "gone")
        assert [error["pointer"] for error in reply.json["errors"]] == ["/metadata/huge"]
        assert history.get(f"asOf={NOW + 240}&fields=title,tags").json == {"title": "Title 4", "without": []}
        assert history.get("version=3").json["metadata"] == {}

    def test_truncated_thumbnail_of_a_job_is_named_in_the_problem(self, history: VersionedVideo) -> None:
        history.edit(pictures={"poster": {"url": "s3://media/" + "x" * LARGEST_ENTRY}})
        history.edit(pictures={})
        assert history.get(f"asOf={NOW + 240}&fields=title").status == 200
        reply = history.get(f"asOf={NOW + 240}&fields=thumbnails")
        assert [error["pointer"] for error in reply.json["errors"]] == ["/pictures/poster"]

    def test_version_before_omitted_changes_is_410(self, history: VersionedVideo) -> None:
        history.edit(**{f"x{number:05}": "y" * 3000 for number in range(100)})
        assert "omitted" in history.trail.entries(history.video_id)[0]
        assert history.title("version=4") == "Title 4"
        reply = history.get("version=3")
        assert problem(reply) == (410, "gone")
        assert str(NOW + 240) in reply.json["detail"]


def without(item: Item, *names: str) -> Item:
    """Return the item without these attributes."""
    return {name: value for name, value in item.items() if name not in names}


class TestBadRequests:
    @pytest.mark.parametrize(
        ("query", "parameter"),
        [
            ("version=0", "version"),
            ("version=-1", "version"),
            ("version=x", "version"),
            ("version=1&version=2", "version"),
            ("version=9007199254740992", "version"),
            ("asOf=yesterday", "asOf"),
            ("asOf=-1", "asOf"),
            ("asOf=253402300800", "asOf"),
            (f"asOf={NOW + 1}", "asOf"),
            (f"version=1&asOf={NOW}", "version"),
            ("version=1&include=credits", "include"),
            (f"asOf={NOW}&include=credits", "include"),
            ("version=1&region=NZ", "region"),
            ("version=1&fields=localTitle", "fields"),
            ("version=1&fields=nothing", "fields"),
        ],
    )
    def test_a_bad_parameter_is_400_and_named(self, api: Api, query: str, parameter: str) -> None:
        with record_operations(api.table.client) as operations:
            reply = api.get(f"/v1/videos/{MISSING}", query=query)
        assert problem(reply) == (400, "invalid-parameter")
        assert [error["parameter"] for error in reply.json["errors"]] == [parameter]
        assert operations == []

    def test_past_version_ignores_accept_language(self, history: VersionedVideo) -> None:
        assert "localTitle" not in history.get("version=1", headers={"Accept-Language": "en-NZ"}).json


class TestDiffs:
    @staticmethod
    def _changes(history: VersionedVideo, query: str, **options: Any) -> Any:
        reply = history.api.get(f"/v1/videos/{history.video_id}/diff", query=query, **options)
        assert reply.status == 200, reply.body
        schema = {"$ref": "#/components/schemas/VideoDiff", "components": document()["components"]}
        jsonschema_rs.Draft202012Validator(schema).validate(reply.json)
        return reply.json["changes"]

    def test_diff_lists_changes_between_two_versions(self, history: VersionedVideo) -> None:
        history.patch(metadata={"a/b": 1, "c": {}} | {"c": "2"}, tags=["y", "x"])
        history.patch(metadata={"a/b": None}, description="New")
        assert self._changes(history, "from=2&to=5") == [
            {"field": "/metadata/a~1b", "to": 1},
            {"field": "/metadata/c", "to": "2"},
            {"field": "/tags", "to": ["x", "y"]},
            {"field": "/title", "from": "Title 2", "to": "Title 4"},
        ]
        assert self._changes(history, "from=5&to=2")[-1] == {"field": "/title", "from": "Title 4", "to": "Title 2"}
        assert self._changes(history, "from=5") == [
            {"field": "/description", "to": "New"},
            {"field": "/metadata/a~1b", "from": 1},
        ]

    def test_diff_omits_fields_that_were_changed_back(self, history: VersionedVideo) -> None:
        history.patch(title="Title 1")
        assert self._changes(history, "from=1") == []
        assert self._changes(history, "from=3&to=3") == []

    def test_diff_names_the_compared_versions(self, history: VersionedVideo) -> None:
        reply = history.api.get(f"/v1/videos/{history.video_id}/diff", query="from=3")
        assert {name: reply.json[name] for name in ("videoId", "from", "to")} == {
            "videoId": history.video_id,
            "from": 3,
            "to": 4,
        }

    def test_truncated_value_is_a_problem_only_if_it_differs(self, history: VersionedVideo) -> None:
        history.edit(extra={"huge": "x" * LARGEST_ENTRY, "small": 1})
        history.patch(title="Title 5")
        history.patch(title="Title 6")
        history.edit(extra={"small": 1})
        history.patch(title="Title 7")
        assert self._changes(history, "from=4&to=5") == [{"field": "/title", "from": "Title 4", "to": "Title 5"}]
        reply = history.api.get(f"/v1/videos/{history.video_id}/diff", query="from=4&to=7")
        assert problem(reply) == (410, "gone")
        assert [error["pointer"] for error in reply.json["errors"]] == ["/extra/huge"]

    def test_diff_of_unknown_versions_is_404_410_or_503(self, history: VersionedVideo) -> None:
        path = f"/v1/videos/{history.video_id}/diff"
        assert [history.api.get(path, query=query).status for query in ("from=5", "from=1&to=9")] == [404, 404]
        history.trail.forget(history.trail.entries(history.video_id)[-1])
        assert history.api.get(path, query="from=1").status == 410
        history.api.patch(f"/v1/videos/{history.video_id}", {"title": "New"})
        assert history.api.get(path, query="from=4").status == 503

    @pytest.mark.parametrize("query", ["", "to=1", "from=0", "from=x", "from=1&to=0", "from=1&from=2", "from=1&x=1"])
    def test_a_bad_parameter_is_400(self, api: Api, query: str) -> None:
        with record_operations(api.table.client) as operations:
            assert problem(api.get(f"/v1/videos/{MISSING}/diff", query=query)) == (400, "invalid-parameter")
        assert operations == []
