"""Batches: one request reads, creates, changes or deletes up to 100 videos, and returns a separate result for each."""

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from local.testbed.harness import LINKS, NOW, Api, Clock, record_operations
from local.testbed.wire import intercept
from shared.aws.dynamodb import REQUEST_ATTEMPTS, Table
from shared.core.caller import Caller
from shared.routes import ROUTES
from shared.schema import VIDEO
from shared.video_fields import UNIQUE
from shared.videos import batches
from shared.videos.batches import Batches
from shared.videos.store import VideoStore
from shared.videos.video import GRACE_SECONDS
from shared.web.requests import Request
from tests.unit.test_bad_input import BAD_FIELDS
from tests.unit.test_videos import EVERYTHING

MISSING = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
KEY = {"Idempotency-Key": "k"}
WIDE = "🎬"
NO_TEXTS = ("format", "resolution", "videoCodec", "audioCodec")
BAD: dict[str, tuple[Any, str]] = (
    {name: ("", f"/{name}") for name in NO_TEXTS}
    | {"seriesId": ("no-uuid", "/seriesId"), "season": (-1, "/season"), "episode": (1.5, "/episode")}
    | {name: (value, pointer) for name, value, pointer in reversed(BAD_FIELDS)}
)
"""An invalid value for each field, and the pointer to the fault."""


@pytest.fixture(autouse=True)
def _one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run one operation at a time, because moto does not isolate transactions. tests/integration runs operations
    concurrently."""
    monkeypatch.setattr(batches, "WORKERS", 1)


def _batch(api: Api, *operations: Any, **options: Any) -> list[dict[str, Any]]:
    reply = api.post("/v1/videos/batch", {"operations": list(operations)}, **options)
    assert reply.status == 200, reply.body
    items: list[dict[str, Any]] = reply.json["items"]
    failed = sum("problem" in item for item in items)
    assert (reply.json["succeeded"], reply.json["failed"]) == (len(items) - failed, failed)
    assert len(items) == len(operations)
    return items


def _rehearsed(api: Api, *operations: Any, **options: Any) -> list[dict[str, Any]]:
    """Return the results of a dry run. Asserts that it writes nothing."""
    with record_operations(api.table.client) as sent:
        items = _batch(api, *operations, query="dryRun=true", **options)
    assert {operation.name for operation in sent} <= {"BatchGetItem"}
    return items


def _creation(**fields: Any) -> dict[str, Any]:
    return {"op": "create", "video": {"title": "t"} | fields}


def _patch(video: dict[str, Any], patch: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"op": "patch", "videoId": video["videoId"], "patch": patch, **more}


def _deletion(video: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"op": "delete", "videoId": video["videoId"], **more}


def _statuses(items: list[dict[str, Any]]) -> list[int]:
    return [item["status"] for item in items]


def _slugs(items: list[dict[str, Any]]) -> list[str]:
    return [item["problem"]["type"].rpartition(":")[2] if "problem" in item else "" for item in items]


def _path(video: dict[str, Any]) -> str:
    return f"/v1/videos/{video['videoId']}"


class TestBatchGet:
    def test_batch_get_returns_documents_in_the_requested_order(self, api: Api) -> None:
        videos = [api.publish("alice", title=str(n), tags=["a"]) for n in range(5)]
        api.post(f"{_path(videos[2])}/views", user="bob")
        ids = [video["videoId"] for video in reversed(videos)]

        reply = api.post("/v1/videos/batch-get", {"videoIds": ids})

        assert reply.json["items"] == [api.get(f"/v1/videos/{video_id}").json for video_id in ids]
        assert (reply.json["missing"], reply.json["remaining"]) == ([], [])

    def test_absent_and_hidden_videos_are_both_listed_as_missing(self, api: Api, clock: Clock) -> None:
        hidden, visible = api.create("alice"), api.publish("alice", expiresAt=NOW + 5, title="shown")
        deleted = api.create("bob")
        api.delete(_path(deleted), user="bob")
        ids = [hidden["videoId"], visible["videoId"], MISSING, deleted["videoId"]]

        of_bob = api.post("/v1/videos/batch-get", {"videoIds": ids}, user="bob").json
        assert [item["videoId"] for item in of_bob["items"]] == [visible["videoId"], deleted["videoId"]]
        assert of_bob["missing"] == [hidden["videoId"], MISSING]
        assert "purgeAt" not in of_bob["items"][0]

        clock.advance(GRACE_SECONDS + 5)
        later = api.post("/v1/videos/batch-get", {"videoIds": ids}, user="bob").json
        assert (later["items"], later["missing"]) == ([], ids)

    def test_repeated_id_is_returned_once(self, api: Api) -> None:
        video_id = api.create()["videoId"]
        ids = [video_id, MISSING, video_id.upper(), MISSING]
        reply = api.post("/v1/videos/batch-get", {"videoIds": ids})
        assert [item["videoId"] for item in reply.json["items"]] == [video_id]
        assert reply.json["missing"] == [MISSING]

    def test_hundred_videos_take_two_requests(self, api: Api, table: Table) -> None:
        ids = [result["videoId"] for result in _batch(api, *[_creation()] * 100)]
        with record_operations(table.client) as operations:
            reply = api.post("/v1/videos/batch-get", {"videoIds": ids})
        assert [item["videoId"] for item in reply.json["items"]] == ids
        assert [operation.name for operation in operations] == ["BatchGetItem", "BatchGetItem"]

    @pytest.mark.slow
    def test_batch_get_returns_remaining_ids_when_the_response_is_full(self, api: Api) -> None:
        large: dict[str, Any] = {"metadata": {f"{n:02d}": WIDE * 512 for n in range(50)}}  # 100 KB
        ids = [api.create(**large)["videoId"] for _ in range(60)]
        bodies: list[str] = []
        remaining, size = [*ids[:5], MISSING, *ids[5:]], 0
        while remaining:
            reply = api.post("/v1/videos/batch-get", {"videoIds": remaining})
            size = len(json.dumps(reply.body.decode(), ensure_ascii=False).encode())
            assert size < 6_000_000
            bodies += [item["videoId"] for item in reply.json["items"]]
            assert reply.json["missing"] == ([MISSING] if MISSING in remaining else [])
            remaining = reply.json["remaining"]
        assert bodies == ids

    @pytest.mark.parametrize(
        ("body", "pointer"),
        [
            ({}, "/videoIds"),
            ({"videoIds": []}, "/videoIds"),
            ({"videoIds": [MISSING] * 101}, "/videoIds"),
            ({"videoIds": ["x"]}, "/videoIds/0"),
            ({"videoIds": MISSING}, "/videoIds"),
            ({"videoIds": [MISSING], "x": 1}, "/x"),
        ],
    )
    def test_invalid_batch_get_is_422_with_its_pointer(self, api: Api, table: Table, body: Any, pointer: str) -> None:
        with record_operations(table.client) as operations:
            reply = api.post("/v1/videos/batch-get", body)
        assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, pointer)
        assert operations == []

    def test_keys_that_dynamodb_never_processes_are_503(self, api: Api, table: Table) -> None:
        intercept(
            table.client, lambda _, parameters, __: {"Responses": {}, "UnprocessedKeys": parameters["RequestItems"]}
        )
        assert api.post("/v1/videos/batch-get", {"videoIds": [MISSING]}).status == 503


class TestResults:
    def test_every_operation_has_the_effect_of_a_single_request(self, api: Api) -> None:
        changed, doomed = api.create(title="old"), api.create()

        created, patched, deleted = _batch(
            api, _creation(title="new", tags=["a"]), _patch(changed, {"title": "new"}), _deletion(doomed)
        )

        assert created == {"op": "create", "status": 201, "videoId": created["videoId"], "version": 1}
        assert patched == {"op": "patch", "status": 200, "videoId": changed["videoId"], "version": 2}
        assert deleted == {"op": "delete", "status": 204, "videoId": doomed["videoId"], "version": 2}
        assert (api.get(_path(created)).json["title"], api.get(_path(changed)).json["title"]) == ("new", "new")
        assert api.get(_path(doomed)).json["status"] == "deleted"
        assert api.get(_path(created)).json["tags"] == ["a"]

    def test_failed_operation_does_not_stop_others(self, api: Api) -> None:
        mine, yours, hidden = api.create("alice"), api.publish("bob"), api.create("bob")
        items = _batch(
            api,
            _patch(yours, {"title": "x"}),
            _patch(mine, {"title": "x"}),
            _deletion(hidden),
            _deletion({"videoId": MISSING}),
            _patch(mine, {"title": "y"}, ifMatch='"1"'),
            _patch(mine, {"status": "ready"}),
            _creation(),
        )
        assert _statuses(items) == [403, 200, 404, 404, 412, 409, 201]
        assert _slugs(items)[4:6] == ["version-mismatch", "illegal-transition"]
        assert items[0]["videoId"] == yours["videoId"]
        assert items[0]["problem"]["status"] == 403

    def test_body_of_each_operation_is_validated_like_that_of_a_single_request(self, api: Api, table: Table) -> None:
        video = {"videoId": MISSING}
        bad: list[tuple[Any, str]] = [
            ({}, "/op"),
            ({"op": "explode"}, "/op"),
            ({"op": ["create"]}, "/op"),
            ({"op": "create"}, "/video"),
            (_creation(title=""), "/video/title"),
            (_creation(tags=["a", "A"]), "/video/tags"),
            (_creation(metadata={"a/b": []}), "/video/metadata/a~1b"),
            (_creation() | {"videoId": MISSING}, "/videoId"),
            (_patch(video, {"duration": "1"}), "/patch/duration"),
            (_patch(video, {"version": 1}), "/patch/version"),
            (_patch(video, {}, ifMatch=""), "/ifMatch"),
            ({"op": "delete", "videoId": "x"}, "/videoId"),
            ({"op": "delete", "videoId": MISSING, "patch": {}}, "/patch"),
        ]
        with record_operations(table.client) as operations:
            items = _batch(api, *(operation for operation, _ in bad))
        assert _statuses(items) == [422] * len(bad)
        pointers = [item["problem"]["errors"][0]["pointer"] for item in items]
        assert pointers == [f"/operations/{position}{pointer}" for position, (_, pointer) in enumerate(bad)]
        assert [item.get("op") for item in items[:4]] == [None, None, None, "create"]
        assert operations == []

    def test_every_field_is_created_and_patched(self, api: Api) -> None:
        series = {"seriesId": EVERYTHING["seriesId"]}
        shared = {name: value for name, value in EVERYTHING.items() if name not in UNIQUE}
        contents = [shared] + [
            {name: value} | (series if name in ("season", "episode") else {}) for name, value in EVERYTHING.items()
        ]
        created = _batch(api, *(_creation(**content) for content in contents))
        assert _statuses(created) == [201] * len(contents)
        videos = [api.create("bob") for _ in contents]
        patched = _batch(
            api, *(_patch(video, content) for video, content in zip(videos, contents, strict=True)), user="bob"
        )
        assert _statuses(patched) == [200] * len(contents)
        for user, results in (("alice", created), ("bob", patched)):
            for result, content in zip(results, contents, strict=True):
                read = api.get(f"/v1/videos/{result['videoId']}", user=user).json
                assert {name: read[name] for name in content} == content

    def test_invalid_value_of_every_field_fails_with_its_pointer(self, api: Api, table: Table) -> None:
        assert EVERYTHING.keys() <= BAD.keys()
        video = api.create()
        operations = {
            "video": [_creation(**{name: value}) for name, (value, _) in BAD.items()],
            "patch": [_patch(video, {name: value}) for name, (value, _) in BAD.items()],
        }
        for body, sent in operations.items():
            with record_operations(table.client) as requests:
                items = _batch(api, *sent)
            assert _statuses(items) == [422] * len(BAD)
            assert [[error["pointer"] for error in item["problem"]["errors"]] for item in items] == [
                [f"/operations/{position}/{body}{pointer}"] for position, (_, pointer) in enumerate(BAD.values())
            ]
            assert requests == []

    def test_invalid_patch_result_points_into_the_patch(self, api: Api) -> None:
        video = api.create(metadata={f"a{n}": n for n in range(30)})
        (item,) = _batch(api, _patch(video, {"metadata": {f"b{n}": n for n in range(21)}}))
        assert item["problem"]["errors"][0]["pointer"] == "/operations/0/patch/metadata"

    def test_operations_on_one_video_are_applied_in_order(self, api: Api) -> None:
        video = api.create()
        patches = [_patch(video, {"title": str(n)}) for n in range(20)]
        items = _batch(api, *patches, _deletion(video), _patch(video, {"title": "late"}))
        assert [item.get("version") for item in items] == [*range(2, 23), None]
        assert _statuses(items)[-2:] == [204, 409]
        assert api.get(_path(video)).json["title"] == "19"

    def test_admin_batch_may_set_ids_and_change_videos_it_created(self, api: Api) -> None:
        video = {"videoId": str(uuid4())}
        items = _batch(
            api,
            _creation(videoId=video["videoId"].upper(), userId="bob", createdAt=5),
            _creation(videoId=video["videoId"]),
            _patch(video, {"title": "new"}),
            user="admin",
        )
        assert _statuses(items) == [201, 409, 200]
        assert [item["videoId"] for item in items] == [video["videoId"]] * 3
        assert api.get(_path(video), user="bob").json["createdAt"] == 5

    def test_user_batch_may_not_set_ids(self, api: Api) -> None:
        (item,) = _batch(api, _creation(videoId=MISSING, userId="bob"))
        assert item["videoId"] != MISSING
        assert api.get(_path(item)).json["userId"] == "alice"

    @pytest.mark.slow
    def test_hundred_videos_are_created_and_deleted(self, api: Api) -> None:
        created = _batch(api, *[_creation(title=str(n)) for n in range(100)])
        assert _statuses(created) == [201] * 100
        assert len({item["videoId"] for item in created}) == 100
        assert [api.get(_path(created[n])).json["title"] for n in (0, 57, 99)] == ["0", "57", "99"]
        assert _statuses(_batch(api, *map(_deletion, created))) == [204] * 100

    def test_thumbnail_url_is_stored_and_returned_like_that_of_a_single_request(self, api: Api, table: Table) -> None:
        url = f"{LINKS.url}/thumbnails/x.webp"
        (item,) = _batch(api, _creation(thumbnails={"poster": {"url": url}}))
        stored = table.get(VIDEO.key(videoId=item["videoId"]))
        assert stored is not None
        assert stored["thumbnails"]["poster"]["url"] == "s3://media/thumbnails/x.webp"
        assert api.get(_path(item)).json["thumbnails"]["poster"]["url"] == url

    @pytest.mark.parametrize(
        ("body", "pointer"),
        [
            ({}, "/operations"),
            ({"operations": []}, "/operations"),
            ({"operations": [{}] * 101}, "/operations"),
            ({"operations": "x"}, "/operations"),
            ({"operations": [{}], "dryRun": True}, "/dryRun"),
        ],
    )
    def test_body_that_is_not_a_batch_is_refused(self, api: Api, body: Any, pointer: str) -> None:
        reply = api.post("/v1/videos/batch", body)
        assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, pointer)

    @pytest.mark.parametrize("query", ["dryRun=yes", "dryRun=", "dryRun=1", "dryRun=true&dryRun=true", "x=1"])
    def test_other_parameters_are_refused(self, api: Api, query: str) -> None:
        assert api.post("/v1/videos/batch", {"operations": [_creation()]}, query=query).status == 400

    def test_largest_list_of_faults_fits_the_response_limit(self, api: Api) -> None:
        bad = [_creation(**{f'"{n:02d}' * 3: 1 for n in range(60)}) for _ in range(100)]
        reply = api.post("/v1/videos/batch", {"operations": bad})
        assert reply.json["failed"] == 100
        assert len(json.dumps(reply.body.decode(), ensure_ascii=False).encode()) < 6_000_000


class TestIdempotencyKey:
    def test_repeated_batch_creates_no_more_videos(self, api: Api) -> None:
        operations = [_creation(title="a", tags=["x"]), _creation(title="b"), _creation(title="b")]
        first = _batch(api, *operations, headers=KEY)
        assert _batch(api, *operations, headers=KEY) == first
        assert len({item["videoId"] for item in first}) == 3
        assert len(api.get("/v1/videos", query="userId=alice").json["items"]) == 3

    def test_failed_operation_can_be_corrected_under_the_same_key(self, api: Api) -> None:
        first = _batch(api, _creation(), _creation(title=""), headers=KEY)
        retried = _batch(api, _creation(), _creation(title="now"), headers=KEY)
        assert (_statuses(first), _statuses(retried)) == ([201, 422], [201, 201])
        assert retried[0] == first[0]

    def test_different_creation_under_the_same_key_is_refused(self, api: Api) -> None:
        _batch(api, _creation(title="a"), headers=KEY)
        (item,) = _batch(api, _creation(title="b"), headers=KEY)
        assert _slugs([item]) == ["idempotency-key-reused"]

    def test_key_of_a_batch_is_separate_from_that_of_a_single_creation(self, api: Api) -> None:
        (item,) = _batch(api, _creation(), headers=KEY)
        single = api.post("/v1/videos", {"title": "t"}, headers={"Idempotency-Key": "k#0"})
        assert single.json["videoId"] != item["videoId"]

    def test_invalid_key_fails_the_batch(self, api: Api, table: Table) -> None:
        with record_operations(table.client) as operations:
            body = {"operations": [_deletion({"videoId": MISSING})]}
            reply = api.post("/v1/videos/batch", body, headers={"Idempotency-Key": "a b"})
        assert (reply.status, operations) == (400, [])


class TestDryRun:
    def test_dry_run_lists_changes_and_writes_nothing(self, api: Api) -> None:
        changed, deleted = api.create(title="old", tags=["b"], metadata={"x": 1}), api.create()
        items = _rehearsed(
            api,
            _creation(title="new"),
            _patch(changed, {"title": "new", "tags": ["b", "a"], "metadata": {"x": None, "y": 2}}),
            _deletion(deleted),
        )
        assert _statuses(items) == [201, 200, 204]
        assert "videoId" not in items[0]
        assert {"field": "/title", "to": "new"} in items[0]["changes"]
        assert items[1]["changes"] == [
            {"field": "/metadata/x", "from": 1},
            {"field": "/metadata/y", "to": 2},
            {"field": "/tags", "from": ["b"], "to": ["a", "b"]},
            {"field": "/title", "from": "old", "to": "new"},
        ]
        assert (items[1]["videoId"], items[1]["version"]) == (changed["videoId"], 2)
        assert {"field": "/status", "from": "uploaded", "to": "deleted"} in items[2]["changes"]
        assert api.get(_path(changed)).json["title"] == "old"
        assert api.get(_path(deleted)).json["status"] == "uploaded"

    def test_dry_run_reports_the_same_failures_as_the_batch(self, api: Api) -> None:
        mine, yours, hidden = api.create("alice"), api.publish("bob"), api.create("bob")
        operations = [
            _patch(mine, {"title": "x"}, ifMatch='"7"'),
            _patch(yours, {"title": "x"}),
            _deletion(hidden),
            _deletion({"videoId": MISSING}),
            _patch(mine, {"status": "ready"}),
            _patch(mine, {"x": 1}),
            _creation(title=""),
        ]
        expected = _rehearsed(api, *operations)
        assert _statuses(expected) == [412, 403, 404, 404, 409, 422, 422]
        assert _batch(api, *operations) == expected

    def test_dry_run_applies_operations_in_order(self, api: Api) -> None:
        video, new = api.create("admin"), {"videoId": str(uuid4())}
        operations = [
            _deletion(video),
            _patch(video, {"title": "late"}),
            _patch(new, {"title": "early"}),
            _creation(videoId=new["videoId"]),
            _creation(videoId=new["videoId"]),
            _patch(new, {"title": "new"}, ifMatch='"1"'),
        ]
        rehearsed = _rehearsed(api, *operations, user="admin")
        assert _statuses(rehearsed) == [204, 409, 404, 201, 409, 200]
        done = _batch(api, *operations, user="admin")
        assert done == [{name: item[name] for name in item if name != "changes"} for item in rehearsed]

    def test_dry_run_reports_an_unchanged_video(self, api: Api) -> None:
        video = api.create(title="same")
        (item,) = _rehearsed(api, _patch(video, {"title": "same"}))
        assert (item["status"], item["version"], item["changes"]) == (200, 1, [])

    def test_permanently_deleted_id_must_be_purged_first(self, api: Api, clock: Clock) -> None:
        video = api.create("admin", title="old")
        api.delete(_path(video), user="admin")
        creation = _creation(videoId=video["videoId"], title="new")
        assert _statuses(_rehearsed(api, creation, user="admin")) == [409]
        clock.advance(GRACE_SECONDS)
        (item,) = _rehearsed(api, creation, user="admin")
        assert (item["status"], item["problem"]["title"]) == (409, "Being removed")
        assert api.get(f"/v1/videos/{video['videoId']}", user="admin").status == 404

    def test_long_values_of_a_dry_run_are_truncated(self, api: Api) -> None:
        video = api.create(description="a" * 5000, metadata={f"{n:02d}": WIDE * 512 for n in range(50)})
        (item,) = _rehearsed(api, _patch(video, {"description": "b" * 5000, "metadata": None}))
        assert item["omitted"] > 0
        assert len(json.dumps(item, ensure_ascii=False).encode()) < batches.LARGEST_CHANGES + 1000
        (item,) = _rehearsed(api, _patch(api.create(), {"description": '"' * 5000, "title": "t" * 300}))
        assert item["changes"][0] == {"field": "/description", "to": '"' * 5000}

    def test_largest_dry_run_fits_the_response_limit(self, api: Api) -> None:
        body = {"metadata": {f"{n:02d}": '"' * 512 for n in range(50)}, "description": '"' * 2000}
        big = [_creation(**body) for _ in range(17)]
        reply = api.post("/v1/videos/batch", {"operations": big}, query="dryRun=true")
        size = len(json.dumps(reply.body.decode(), ensure_ascii=False).encode())
        assert size / len(big) * 100 < 6_000_000

    def test_dry_run_false_is_not_a_dry_run(self, api: Api) -> None:
        (item,) = _batch(api, _creation(), query="dryRun=false")
        assert api.get(_path(item)).status == 200


class TestFaults:
    """Faults: a busy database, lost responses, and bugs."""

    def test_throttled_operation_is_retried(self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
        _throttle(monkeypatch, table, times=2 * REQUEST_ATTEMPTS + 1)
        (item,) = _batch(api, _creation())
        assert item["status"] == 201

    def test_operation_that_stays_throttled_is_503_and_others_succeed(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        videos = [api.create(title=str(n)) for n in range(5)]
        unlucky = VIDEO.key(videoId=videos[2]["videoId"])["pk"]
        _throttle(
            monkeypatch, table, operation="update_item", when=lambda parameters: parameters["Key"]["pk"]["S"] == unlucky
        )
        items = _batch(api, *(_patch(video, {"title": "new"}) for video in videos))
        assert _statuses(items) == [200, 200, 503, 200, 200]
        assert items[2]["problem"]["type"].endswith(":unavailable")
        assert [api.get(_path(video)).json["title"] for video in videos] == ["new", "new", "2", "new", "new"]

    def test_transaction_conflict_is_retried(self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
        _throttle(monkeypatch, table, code="TransactionConflictException", times=2 * REQUEST_ATTEMPTS + 1)
        (item,) = _batch(api, _creation())
        assert item["status"] == 201

    def test_lasting_transaction_conflict_is_409_contention(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _throttle(monkeypatch, table, code="TransactionConflictException")
        (item,) = _batch(api, _creation())
        assert (item["status"], item["problem"]["title"]) == (409, "Too much contention")

    @pytest.mark.parametrize("tags", [[], ["a"]])
    def test_write_with_a_lost_response_is_recognized_as_its_own(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch, tags: list[str]
    ) -> None:
        video = api.create(title="old", tags=["old"])
        # More losses than attempts of one request, so the batch retries the operation.
        for name in ("put_item", "update_item", "transact_write_items"):
            _lose_responses(monkeypatch, table, name, times=REQUEST_ATTEMPTS)
        created, patched = _batch(
            api, _creation(videoId=MISSING, tags=tags), _patch(video, {"tags": tags}, ifMatch='"1"'), user="admin"
        )
        assert (created["status"], patched["status"], patched["version"]) == (201, 200, 2)

    def test_no_attempt_begins_when_time_is_up(self, table: Table) -> None:
        times = iter([0.0, 1.0, *[batches.LAST_TRY_SECONDS + 1.0] * 9])
        slow = Batches(VideoStore(table), LINKS, elapsed=lambda: next(times))
        route = next(route for route in ROUTES if route.operation == "batchVideos")
        caller = Caller("admin", frozenset({"videos/admin"}))
        request = Request(route, caller, NOW, {}, {}, "", {})
        video_id = str(uuid4())
        operations = [_creation(videoId=video_id), _patch({"videoId": video_id}, {"title": "new"})]
        done, late = slow.carry_out(request, operations)
        assert (done["status"], late["status"]) == (201, 503)
        assert "Time ran out" in late["problem"]["detail"]

    def test_bug_in_one_operation_is_reported_without_internals_and_does_not_affect_others(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        video = api.create()
        monkeypatch.setattr(table.client, "update_item", _failing_with("SecretException"))
        changed, created = _batch(api, _patch(video, {"title": "x"}), _creation())
        assert (changed["status"], created["status"]) == (500, 201)
        assert "Secret" not in json.dumps(changed)

    def test_dry_run_that_cannot_read_is_503(self, api: Api, table: Table) -> None:
        intercept(table.client, _failing_with("ThrottlingException"))
        body = {"operations": [_deletion({"videoId": MISSING})]}
        assert api.post("/v1/videos/batch", body, query="dryRun=true").status == 503


def _failing_with(code: str) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise ClientError({"Error": {"Code": code, "Message": ""}}, "Any")

    return fail


def _throttle(
    monkeypatch: pytest.MonkeyPatch,
    table: Table,
    *,
    operation: str = "put_item",
    code: str = "ThrottlingException",
    times: int = 10**6,
    when: Callable[[Any], bool] = lambda _: True,
) -> None:
    real, refused = getattr(table.client, operation), iter(range(times))

    def call(**parameters: Any) -> Any:
        if when(parameters) and next(refused, None) is not None:
            _failing_with(code)()
        return real(**parameters)

    monkeypatch.setattr(table.client, operation, call)


def _lose_responses(monkeypatch: pytest.MonkeyPatch, table: Table, operation: str, times: int) -> None:
    """Apply the first request and lose its response. The next `times - 1` attempts fail without an effect."""
    real, losses = getattr(table.client, operation), iter(range(times))

    def call(**parameters: Any) -> Any:
        attempt = next(losses, None)
        if attempt is None or attempt == 0:
            response = real(**parameters)
        if attempt is None:
            return response
        return _failing_with("InternalServerError")()

    monkeypatch.setattr(table.client, operation, call)


def test_operation_that_is_not_an_object_fails_alone(api: Api) -> None:
    reply = api.post("/v1/videos/batch", {"operations": [{"op": "create", "video": {"title": "t"}}, 5, None, []]})
    assert [item["status"] for item in reply.json["items"]] == [201, 422, 422, 422]
    assert reply.json["items"][1]["problem"]["errors"] == [{"pointer": "/operations/1", "detail": "must be an object"}]
