"""Unique values: no two videos of an owner have the same externalId or slug, even after faults and concurrent
writes."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from functions.purge import handler as purge
from local.testbed.background import BackgroundWork, FakeQueue
from local.testbed.harness import Api, Clock, Context, FakeResources
from local.testbed.streams import sqs_event
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.core.attributes import Item
from shared.schema import RESERVATION, VIDEO
from shared.videos.video import GRACE_SECONDS

FIELDS = {"externalId": "crm/7 #1", "slug": "harbour-at-dawn"}
PATHS = {"externalId": "/v1/external-ids/crm/7 #1", "slug": "/v1/slugs/harbour-at-dawn"}
EVERY_FIELD = pytest.mark.parametrize("field", FIELDS)


def holder(table: Table, field: str, value: str, owner: str = "alice") -> str | None:
    """Return the id of the video that has reserved a value, or `None`."""
    item = table.get(RESERVATION.key(userId=owner, field=field, value=value), consistent=True)
    return item["videoId"] if item else None


def run_purges(work: BackgroundWork, clock: Clock) -> None:
    """Deliver the stream's records, then the resulting purge messages."""
    work.settle()
    resources = FakeResources(work.table, clock, objects=Mock(Objects), queues={"purge": FakeQueue()})
    messages = work.queues["purge"].take()
    assert resources.make(purge.lambda_handler)(sqs_event(*messages), Context()) == {"batchItemFailures": []}


def create(api: Api, **options: Any) -> Any:
    """Send the request that creates a video of alice."""
    user = options.pop("user", "alice")
    return api.post("/v1/videos", {"title": "t"} | options, user=user)


@EVERY_FIELD
def test_video_is_found_by_its_unique_value_right_after_each_write(api: Api, field: str) -> None:
    created = create(api, **{field: FIELDS[field]})
    video = created.json
    reply = api.get(PATHS[field])
    assert (reply.status, reply.json["videoId"], reply.headers["etag"]) == (
        200,
        video["videoId"],
        created.headers["etag"],
    )
    assert api.get(PATHS[field], headers={"If-None-Match": reply.headers["etag"]}).status == 304
    assert api.patch(f"/v1/videos/{video['videoId']}", {field: "other"}).status == 200
    assert api.get(PATHS[field]).status == 404
    assert api.patch(f"/v1/videos/{video['videoId']}", {field: FIELDS[field]}).json[field] == FIELDS[field]
    assert api.get(PATHS[field]).json["videoId"] == video["videoId"]


@EVERY_FIELD
def test_second_video_of_an_owner_with_a_value_is_refused_and_the_first_is_named(
    api: Api, table: Table, field: str
) -> None:
    first = create(api, **{field: FIELDS[field]}).json["videoId"]
    other = create(api).json["videoId"]
    for refused in (
        create(api, **{field: FIELDS[field]}),
        api.patch(f"/v1/videos/{other}", {field: FIELDS[field]}),
    ):
        assert (refused.status, refused.json["type"]) == (409, "urn:video-metadata:problem:already-exists")
        assert first in refused.json["detail"]
        assert [error["pointer"] for error in refused.json["errors"]] == [f"/{field}"]
    assert holder(table, field, FIELDS[field]) == first
    assert len(api.get("/v1/videos", query="userId=alice").json["items"]) == 2


@EVERY_FIELD
def test_videos_of_different_owners_may_have_the_same_value(api: Api, field: str) -> None:
    ids = [create(api, user=user, **{field: FIELDS[field]}).json["videoId"] for user in ("alice", "bob")]
    assert [api.get(PATHS[field], user=user).json["videoId"] for user in ("alice", "bob")] == ids


@EVERY_FIELD
def test_removed_value_is_free(api: Api, table: Table, field: str) -> None:
    first = create(api, **{field: FIELDS[field]}).json["videoId"]
    assert api.patch(f"/v1/videos/{first}", {field: None}).status == 200
    assert holder(table, field, FIELDS[field]) is None
    assert create(api, **{field: FIELDS[field]}).status == 201


@EVERY_FIELD
def test_deleted_video_keeps_its_value_until_its_purge(api: Api, table: Table, clock: Clock, field: str) -> None:
    work = BackgroundWork(table, clock)
    first = create(api, **{field: FIELDS[field]}).json["videoId"]
    api.request("DELETE", f"/v1/videos/{first}")
    assert create(api, **{field: FIELDS[field]}).status == 409
    assert api.post(f"/v1/videos/{first}/restore").json[field] == FIELDS[field]
    api.request("DELETE", f"/v1/videos/{first}")
    clock.advance(GRACE_SECONDS)
    # DynamoDB has not deleted the item yet, but the video cannot be restored.
    second = create(api, **{field: FIELDS[field]}).json["videoId"]
    assert holder(table, field, FIELDS[field]) == second
    table.delete(VIDEO.key(videoId=first))
    run_purges(work, clock)
    assert holder(table, field, FIELDS[field]) == second
    table.delete(VIDEO.key(videoId=second))
    run_purges(work, clock)
    assert holder(table, field, FIELDS[field]) is None


def test_value_of_a_video_that_was_removed_without_a_purge_is_taken_over(api: Api, table: Table) -> None:
    first = create(api, slug="s").json["videoId"]
    table.delete(VIDEO.key(videoId=first))
    assert api.get("/v1/slugs/s").status == 404
    other = create(api).json["videoId"]
    assert api.patch(f"/v1/videos/{other}", {"slug": "s"}).status == 200
    assert holder(table, "slug", "s") == other


def test_external_id_is_private_and_a_slug_is_public(api: Api) -> None:
    video = api.publish(externalId="e", slug="s")
    document = api.get(f"/v1/videos/{video['videoId']}", user="bob").json
    assert ("externalId" in document, document["slug"]) == (False, "s")
    assert api.get("/v1/slugs/s", query="userId=alice", user="bob").json["videoId"] == video["videoId"]
    assert api.get("/v1/external-ids/e", query="userId=alice", user="bob").status == 403
    assert api.get("/v1/external-ids/e", query="userId=alice", user="admin").json["externalId"] == "e"


@pytest.mark.parametrize("path", ["/v1/slugs/s", "/v1/external-ids/e"])
def test_value_of_a_hidden_video_looks_free(api: Api, path: str) -> None:
    free = api.get(path, query="userId=alice", user="bob")
    create(api, slug="s", externalId="e")
    hidden = api.get(path, query="userId=alice", user="bob")
    assert (hidden.status, hidden.body) == (free.status, free.body)


def test_one_of_32_concurrent_writers_gets_the_value(api: Api, table: Table) -> None:
    others = [create(api).json["videoId"] for _ in range(16)]
    attempts = [partial(create, api, slug="s")] * 16
    attempts += [partial(api.patch, f"/v1/videos/{video_id}", {"slug": "s"}) for video_id in others]
    barrier, statuses = threading.Barrier(len(attempts)), []

    def write(attempt: Callable[[], Any]) -> None:
        barrier.wait()
        statuses.append(attempt().status)

    threads = [threading.Thread(target=write, args=(attempt,)) for attempt in attempts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(status < 300 for status in statuses) == [False] * 31 + [True]
    assert {status for status in statuses if status >= 300} == {409}
    videos = [item for item in _videos(table) if item.get("slug") == "s"]
    assert [video["videoId"] for video in videos] == [holder(table, "slug", "s")]


def _videos(table: Table) -> list[Item]:
    keys = [item for item in table.client.scan(TableName=table.name)["Items"] if item["sk"] == {"S": VIDEO.sk}]
    return [table.get({"pk": key["pk"]["S"], "sk": VIDEO.sk}) or {} for key in keys]


@pytest.mark.parametrize("broken", range(4))
@pytest.mark.parametrize("loses_response", [False, True], ids=["request fails", "response is lost"])
def test_crash_at_any_request_leaves_each_value_with_its_video(
    api: Api, table: Table, broken: int, loses_response: bool
) -> None:
    video_id = create(api, slug="old").json["videoId"]
    calls = iter(range(100))

    def between(operation: str, _: Any, send: Callable[[], Any]) -> Any:
        if next(calls) != broken:
            return send()
        if loses_response:
            send()
        raise ConnectionError

    stop = intercept(table.client, between)
    try:
        first = api.patch(f"/v1/videos/{video_id}", {"slug": "new"})
    finally:
        stop()
    assert first.status in (200, 500, 503)
    slug = api.get(f"/v1/videos/{video_id}").json["slug"]
    assert (holder(table, "slug", slug), slug in ("old", "new")) == (video_id, True)
    assert holder(table, "slug", "new" if slug == "old" else "old") is None
    assert api.patch(f"/v1/videos/{video_id}", {"slug": "new"}).status == 200
    assert (holder(table, "slug", "new"), holder(table, "slug", "old")) == (video_id, None)


def test_idempotent_retry_returns_the_first_response_and_not_a_conflict(api: Api) -> None:
    key = {"Idempotency-Key": "k"}
    first, second = (api.post("/v1/videos", {"title": "t", "slug": "s"}, headers=key) for _ in range(2))
    assert (first.status, second.status, second.json) == (201, 201, first.json)


def test_batch_and_its_dry_run_report_a_taken_value(api: Api) -> None:
    first = create(api, slug="s").json["videoId"]
    other = create(api).json["videoId"]
    body = {"operations": [{"op": "patch", "videoId": other, "patch": {"slug": "s"}}]}
    for query in ("", "dryRun=true"):
        (result,) = api.post("/v1/videos/batch", body, query=query).json["items"]
        assert (result["status"], first in result["problem"]["detail"]) == (409, True)
        assert [error["pointer"] for error in result["problem"]["errors"]] == ["/operations/0/patch/slug"]


@pytest.mark.parametrize("path", ["/v1/slugs/", "/v1/external-ids/"])
def test_value_longer_than_any_stored_one_is_not_found(api: Api, path: str) -> None:
    assert [api.get(path + "x" * length).status for length in (200, 201, 5_000)] == [404, 404, 404]


def upsert(api: Api, *videos: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    """Send a batch of upserts, and return the results."""
    body = {"operations": [{"op": "upsert", "video": video} for video in videos]}
    items: list[dict[str, Any]] = api.post("/v1/videos/batch", body, **options).json["items"]
    return items


def test_upsert_creates_a_video_and_then_changes_only_the_given_fields(api: Api) -> None:
    first = {"externalId": "e", "title": "One", "category": "c", "metadata": {"a": 1}}
    (created,) = upsert(api, first)
    (changed,) = upsert(api, {"externalId": "e", "title": "Two", "metadata": {"b": 2}})
    assert [(item["op"], item["status"], item["version"]) for item in (created, changed)] == [
        ("upsert", 201, 1),
        ("upsert", 200, 2),
    ]
    assert created["videoId"] == changed["videoId"]
    video = api.get("/v1/external-ids/e").json
    assert (video["title"], video["category"], video["metadata"]) == ("Two", "c", {"a": 1, "b": 2})
    assert upsert(api, first | {"title": "Two"})[0]["version"] == 2


def test_upserts_of_one_external_id_in_a_batch_run_in_order(api: Api) -> None:
    results = upsert(api, *({"externalId": "e", "title": str(number)} for number in range(5)))
    assert [(item["status"], item["version"]) for item in results] == [(201, 1)] + [(200, n) for n in range(2, 6)]
    assert api.get("/v1/external-ids/e").json["title"] == "4"


def test_dry_run_of_upserts_reports_what_each_would_do(api: Api, table: Table) -> None:
    upsert(api, {"externalId": "there", "title": "t"})
    videos = [{"externalId": name, "title": "new"} for name in ("there", "absent", "absent")]
    before = len(_videos(table))
    results = upsert(api, *videos, query="dryRun=true")
    assert [item["status"] for item in results] == [200, 201, 200]
    assert [change["field"] for change in results[0]["changes"]] == ["/title"]
    assert len(_videos(table)) == before
    assert [item["status"] for item in upsert(api, *videos)] == [200, 201, 200]


def test_upsert_by_an_admin_applies_to_the_named_owners_videos(api: Api) -> None:
    (own,) = upsert(api, {"externalId": "e", "title": "bob's", "userId": "bob"}, user="admin")
    (other,) = upsert(api, {"externalId": "e", "title": "alice's"})
    assert own["videoId"] != other["videoId"]
    assert api.get("/v1/external-ids/e", user="bob").json["videoId"] == own["videoId"]


@pytest.mark.parametrize(
    ("video", "status", "pointer"),
    [
        ({"title": "t"}, 422, "/operations/0/video/externalId"),
        ({"externalId": "e"}, 422, "/operations/0/video/title"),
        ({"externalId": "e", "title": "t", "slug": "taken"}, 409, "/operations/0/video/slug"),
        ({"externalId": "e", "title": "t", "expiresAt": 5}, 422, "/operations/0/video/expiresAt"),
    ],
)
def test_invalid_upsert_is_refused_with_its_field(
    api: Api, table: Table, video: dict[str, Any], status: int, pointer: str
) -> None:
    create(api, slug="taken")
    for query in ("", "dryRun=true"):
        (result,) = upsert(api, video, query=query)
        problem = result["problem"]
        assert (result["status"], [error["pointer"] for error in problem["errors"]]) == (status, [pointer])
    assert len(_videos(table)) == 1


def test_upsert_of_a_deleted_video_asks_for_its_restore(api: Api) -> None:
    (created,) = upsert(api, {"externalId": "e", "title": "t"})
    api.request("DELETE", f"/v1/videos/{created['videoId']}")
    (refused,) = upsert(api, {"externalId": "e", "title": "u"})
    assert (refused["status"], refused["problem"]["type"]) == (409, "urn:video-metadata:problem:illegal-transition")
