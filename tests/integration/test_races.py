"""Concurrent requests are serializable: no change is lost, duplicated or mixed.

The first tests send concurrent requests, each to a separate instance of the service, as on Lambda. The other tests
interrupt a request between two of its DynamoDB calls, and run another request completely.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from local.testbed.harness import NOW, Api, Reply, make_api
from shared.aws.dynamodb import Table
from shared.core.attributes import Item
from shared.schema import PARTITION_KEY, VIEWER
from tests.integration import faults
from tests.integration.concurrency import Instance, Request, at_once, run_concurrently
from tests.integration.conftest import NewTable
from tests.integration.contents import contents, items_of, videos_of
from tests.integration.faults import FaultLine

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

VIDEO_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
PATH = f"/v1/videos/{VIDEO_ID}"
KEY = {"Idempotency-Key": "key-1"}
THREADS = 8


def statuses(replies: Sequence[Reply]) -> list[int]:
    return sorted(reply.status for reply in replies)


def patching(body: Any, version: int | None = None) -> Request:
    headers = {} if version is None else {"If-Match": f'"{version}"'}
    return lambda api: api.patch(PATH, body, headers=headers)


def deleting(api: Api) -> Reply:
    return api.delete(PATH)


def restoring(api: Api) -> Reply:
    return api.post(f"{PATH}/restore")


def restoring_once(api: Api) -> Reply:
    return api.post(f"{PATH}/restore", headers=KEY)


def creating_once(api: Api) -> Reply:
    return api.post("/v1/videos", {"title": "A film"}, headers=KEY)


def importing(api: Api) -> Reply:
    return api.post("/v1/videos", {"title": "Again", "videoId": VIDEO_ID}, user="admin")


# Concurrent requests ------------------------------------------------------------------------------------------------


def test_one_of_several_concurrent_patches_of_a_version_succeeds(api: Api, table: Table, instance: Instance) -> None:
    api.publish(videoId=VIDEO_ID)

    replies = at_once(instance, [patching({"title": f"By {n}"}, version=1) for n in range(THREADS)])

    assert statuses(replies) == [200] + [412] * (THREADS - 1)
    (winner,) = (reply.json for reply in replies if reply.status == 200)
    (video,) = videos_of(table)
    assert (video["title"], video["version"]) == (winner["title"], 2)


def test_patches_of_different_fields_lose_nothing(api: Api, table: Table, instance: Instance) -> None:
    api.publish(videoId=VIDEO_ID, metadata={"first": 1})

    replies = at_once(instance, [patching({"metadata": {f"k{n}": n}}) for n in range(THREADS)])

    assert {reply.status for reply in replies} <= {200, 409}
    applied = [n for n, reply in enumerate(replies) if reply.status == 200]
    assert applied
    (video,) = videos_of(table)
    assert video["metadata"] == {"first": 1, **{f"k{n}": n for n in applied}}
    assert video["version"] == 1 + len(applied)
    for reply in replies:
        if reply.status == 409:
            assert reply.slug == "write-contention"
            assert reply.headers["retry-after"] == "1"


def test_concurrent_patches_of_tags_leave_the_entries_of_the_stored_tags(
    api: Api, table: Table, instance: Instance
) -> None:
    api.publish(videoId=VIDEO_ID, tags=["old"])

    replies = at_once(instance, [patching({"tags": [f"t{n}", f"t{n + 1}", "ALL"]}) for n in range(THREADS)])

    assert {reply.status for reply in replies} <= {200, 409}
    (video,) = videos_of(table)
    entries = [item["tag"] for item in items_of(table) if item["sk"].startswith("TAG#")]
    assert sorted(entries) == sorted(tag.casefold() for tag in video["tags"])
    assert video["version"] == 1 + statuses(replies).count(200)


def test_concurrent_and_repeated_batches_create_each_video_once(table: Table, instance: Instance) -> None:
    listed = {"status": "ready", "visibility": "public"}
    videos = [{"title": str(n), "tags": ["all", f"tag {n}"], **listed} for n in range(40)]
    body = {"operations": [{"op": "create", "video": video} for video in videos]}

    def sending(api: Api) -> Reply:
        return api.post("/v1/videos/batch", body, headers=KEY, user="admin")

    replies = at_once(instance, [sending] * 2)

    items = [item for reply in replies for item in reply.json["items"]]
    assert {item["status"] for item in items} <= {201, 409}  # in flight
    retried = sending(instance()).json["items"]
    assert sorted(video["title"] for video in videos_of(table)) == sorted(str(n) for n in range(40))
    assert [item["status"] for item in retried] == [201] * 40
    assert {item["videoId"] for item in items if item["status"] == 201} <= {item["videoId"] for item in retried}
    assert len([item for item in items_of(table) if item["sk"].startswith("TAG#")]) == 80


def test_batches_on_the_same_videos_lose_nothing(api: Api, table: Table, instance: Instance) -> None:
    ids = [api.publish()["videoId"] for _ in range(20)]

    def sending(name: str) -> Request:
        patch = {"metadata": {name: 1}, "tags": [name]}
        operations = [{"op": "patch", "videoId": video_id, "patch": patch} for video_id in ids]
        return lambda client: client.post("/v1/videos/batch", {"operations": operations}, user="admin")

    replies = at_once(instance, [sending(name) for name in ("a", "b", "c")])

    done = [
        (item["videoId"], name)
        for name, reply in zip(("a", "b", "c"), replies, strict=True)
        for item in reply.json["items"]
        if item["status"] == 200
    ]
    stored = {video["videoId"]: video for video in videos_of(table)}
    assert all(stored[video_id]["metadata"][name] == 1 for video_id, name in done)
    assert all(video["version"] == 1 + len(video["metadata"]) for video in stored.values())
    entries = {(item["videoId"], item["tag"]) for item in items_of(table) if item["sk"].startswith("TAG#")}
    assert entries == {(video_id, tag) for video_id, video in stored.items() for tag in video["tags"]}


def test_every_concurrent_patch_response_shows_its_own_result(api: Api, instance: Instance) -> None:
    api.publish(videoId=VIDEO_ID)

    replies = at_once(instance, [patching({"metadata": {f"k{n}": n}}) for n in range(THREADS)])

    versions = [reply.json["version"] for reply in replies if reply.status == 200]
    assert len(set(versions)) == len(versions)
    for n, reply in enumerate(replies):
        if reply.status == 200:
            assert reply.json["metadata"][f"k{n}"] == n
            assert len(reply.json["metadata"]) == reply.json["version"] - 1


def test_concurrent_creates_with_one_key_create_one_video(table: Table, instance: Instance) -> None:
    replies = at_once(instance, [creating_once] * THREADS)
    in_flight = [reply for reply in replies if reply.status != 201]
    for reply in in_flight:
        assert (reply.status, reply.slug, reply.headers["retry-after"]) == (409, "request-in-flight", "1")

    # When these clients retry, they get the same response.
    successes = [reply for reply in replies if reply.status == 201] + [creating_once(instance()) for _ in in_flight]

    assert {reply.status for reply in successes} == {201}
    assert len({(reply.body, reply.etag, reply.headers["location"]) for reply in successes}) == 1
    assert [video["videoId"] for video in videos_of(table)] == [successes[0].json["videoId"]]


def test_concurrent_creates_with_one_key_and_two_bodies_create_one_video(table: Table, instance: Instance) -> None:
    def creating(title: str) -> Request:
        return lambda api: api.post("/v1/videos", {"title": title}, headers=KEY)

    replies = at_once(instance, [creating("One"), creating("Other")] * (THREADS // 2))

    (video,) = videos_of(table)
    for reply, title in zip(replies, ["One", "Other"] * (THREADS // 2), strict=True):
        if title == video["title"]:
            assert reply.status == 201
            assert reply.json["videoId"] == video["videoId"]
        else:
            assert (reply.status, reply.slug) == (422, "idempotency-key-reused")


def test_concurrent_imports_of_one_id_create_one_video(table: Table, instance: Instance) -> None:
    replies = at_once(instance, [importing] * THREADS)
    assert statuses(replies) == [201] + [409] * (THREADS - 1)
    assert {reply.slug for reply in replies if reply.status == 409} == {"already-exists"}
    assert len(videos_of(table)) == 1


def test_concurrent_views_are_all_counted_and_read_their_own_write(api: Api, instance: Instance) -> None:
    api.publish(videoId=VIDEO_ID)
    each = 10

    def viewing(api: Api) -> list[int]:
        replies = [api.post(f"{PATH}/views", user="bob") for _ in range(each)]
        return [reply.json["viewCount"] for reply in replies]

    replies = run_concurrently(*(partial(viewing, instance()) for _ in range(THREADS)))
    counts = [count for own_counts in replies for count in own_counts]

    assert sorted(counts) == list(range(1, THREADS * each + 1))
    assert api.get(PATH).json["viewCount"] == THREADS * each


def test_concurrent_views_with_and_without_keys_are_counted_exactly(api: Api, table: Table, instance: Instance) -> None:
    api.publish(videoId=VIDEO_ID)

    def viewing(user: str, key: str | None) -> Request:
        headers = {"Idempotency-Key": key} if key else {}
        return lambda api: api.post(f"{PATH}/views", headers=headers, user=user)

    # Three keys of two users, each sent three times, are six views: keys belong to one user.
    keyed = [viewing(user, key) for user, key in product(("bob", "carol"), ("k1", "k2", "k3"))] * 3
    unkeyed = [viewing(user, None) for user in ("bob", "carol")] * 3
    replies = at_once(instance, keyed + unkeyed)

    assert {reply.status for reply in replies} == {200}
    reasons = [reply.json["reason"] for reply in replies[: len(keyed)]]
    assert (reasons.count(None), reasons.count("duplicate")) == (6, 12)
    assert all(reply.json["counted"] for reply in replies[len(keyed) :])
    # The stream consumer counts views with a key, one per item.
    assert len(_markers(table)) == 6
    assert api.get(PATH).json["viewCount"] == 6


@pytest.mark.parametrize("options", [{"headers": KEY}, {"json_body": {"viewerId": "tv"}}], ids=["key", "viewer"])
def test_concurrent_views_of_one_key_or_viewer_count_once(
    api: Api, table: Table, instance: Instance, options: dict[str, Any]
) -> None:
    api.publish(videoId=VIDEO_ID)
    replies = at_once(instance, [lambda api: api.post(f"{PATH}/views", user="bob", **options)] * THREADS)
    assert statuses(replies) == [200] * THREADS
    assert [reply.json["counted"] for reply in replies].count(True) == 1
    assert len(_markers(table)) == 1


def test_concurrent_batches_with_the_same_views_count_each_view_once(
    api: Api, table: Table, instance: Instance
) -> None:
    api.publish(videoId=VIDEO_ID)
    hour = 3600
    queue = [{"id": f"k{n}", "videoId": VIDEO_ID, "at": NOW - n * hour} for n in range(4)]
    queue += [view | {"id": f"v{n}", "viewerId": "tv"} for n, view in enumerate(queue)]
    replies = at_once(instance, [lambda api: api.post("/v1/views", {"views": queue}, user="bob")] * 4)
    assert statuses(replies) == [200] * 4
    counted = [result["id"] for reply in replies for result in reply.json["results"] if result["counted"]]
    # A view with a viewer does not count if a later view of the same viewer was counted first.
    assert len(counted) == len(set(counted))
    assert {view["id"] for view in queue if "viewerId" not in view} <= set(counted)
    assert "v0" in counted
    assert len(_markers(table)) == 5


def _markers(table: Table) -> list[Item]:
    """Return the items from which the stream consumer counts views."""
    return [item for item in items_of(table) if item[PARTITION_KEY].startswith(VIEWER.partition_prefix)]


def test_concurrent_deletes_and_patches_leave_a_deleted_video(api: Api, table: Table, instance: Instance) -> None:
    api.publish(videoId=VIDEO_ID)

    replies = at_once(instance, [deleting, *(patching({"metadata": {f"k{n}": n}}) for n in range(3)), deleting])

    assert (replies[0].status, replies[-1].status) == (204, 204)
    applied = {f"k{n}": n for n, reply in enumerate(replies[1:-1]) if reply.status == 200}
    assert {reply.slug for reply in replies[1:-1] if reply.status != 200} <= {"illegal-transition"}
    (video,) = videos_of(table)
    assert (video["status"], video["statusBeforeDelete"]) == ("deleted", "ready")
    assert video["metadata"] == applied
    assert video["version"] == 2 + len(applied)


def test_second_of_two_concurrent_restores_is_409(api: Api, table: Table, instance: Instance) -> None:
    api.publish(videoId=VIDEO_ID)
    api.delete(PATH)

    replies = at_once(instance, [restoring, restoring])

    assert statuses(replies) == [200, 409]
    (video,) = videos_of(table)
    assert (video["status"], video["version"]) == ("ready", 3)


def test_concurrent_restores_with_one_key_get_one_response(api: Api, table: Table, instance: Instance) -> None:
    api.publish(videoId=VIDEO_ID)
    api.delete(PATH)

    replies = at_once(instance, [restoring_once] * THREADS)
    in_flight = [reply for reply in replies if reply.status != 200]
    assert {reply.slug for reply in in_flight} <= {"request-in-flight"}
    successes = [reply for reply in replies if reply.status == 200] + [restoring_once(instance()) for _ in in_flight]

    assert len({(reply.status, reply.body, reply.etag) for reply in successes}) == 1
    (video,) = videos_of(table)
    assert (video["status"], video["version"]) == ("ready", 3)


# Interleaved requests ----------------------------------------------------------------------------------------------

REQUESTS: dict[str, Request] = {
    "patch": patching({"title": "New", "metadata": {"a": 1}}),
    "other patch": patching({"title": "Newer", "metadata": {"b": 2}}),
    "patch of tags": patching({"tags": ["A", "c"]}),
    "patch of version 1": patching({"title": "First", "status": "processing"}, version=1),
    "delete": deleting,
    "restore": restoring,
    "restore with a key": restoring_once,
    "import": importing,
}
STATES: dict[str, Callable[[Api], object]] = {
    "nothing": lambda _: None,
    "a video": lambda api: api.publish(videoId=VIDEO_ID, category="film", tags=["a", "b"]),
    "a deleted video": lambda api: (api.publish(videoId=VIDEO_ID, category="film"), api.delete(PATH)),
}
CHANGING: dict[str, set[str]] = {
    "nothing": {"import"},
    "a video": set(REQUESTS),
    "a deleted video": {"restore", "restore with a key"},
}
"""Requests that write, by state. Two requests that are not listed cannot conflict."""
INTERLEAVINGS = [
    (one, other, state)
    for state in STATES
    for one, other in product(REQUESTS, REQUESTS)
    if CHANGING[state] & {one, other}
]
MAX_CALLS = 3


Response = tuple[int, bytes]
InOrder = Callable[[str, str, str], tuple[Response, Response, list[str]]]


def prepared(new_table: NewTable, state: str) -> tuple[Table, Api]:
    """Create a table in this state. Return the table, and a service that uses it."""
    table = new_table()
    api = make_api(table)
    STATES[state](api)
    return table, api


def response(reply: Reply) -> Response:
    return reply.status, reply.body


@pytest.fixture(scope="module")
def in_order(new_table: NewTable) -> InOrder:
    """Return a function that sends two requests sequentially. It returns both responses, and the contents of the
    table."""

    @cache
    def run(first: str, second: str, state: str) -> tuple[Response, Response, list[str]]:
        table, api = prepared(new_table, state)
        return response(REQUESTS[first](api)), response(REQUESTS[second](api)), contents(table)

    return run


@pytest.mark.parametrize(
    ("state", "request_"), [(state, name) for state in STATES for name in REQUESTS if name not in CHANGING[state]]
)
def test_request_that_is_not_listed_in_changing_stores_nothing(table: Table, state: str, request_: str) -> None:
    """Two such requests cannot conflict, so no test interleaves them."""
    api = make_api(table)
    STATES[state](api)
    before = contents(table)
    REQUESTS[request_](api)
    assert contents(table) == before


@pytest.mark.parametrize(("one", "other", "state"), INTERLEAVINGS)
def test_interleaved_requests_are_serializable(
    new_table: NewTable,
    recorded_client: tuple["DynamoDBClient", FaultLine],
    line: FaultLine,
    in_order: InOrder,
    one: str,
    other: str,
    state: str,
) -> None:
    after = in_order(one, other, state)
    reversed_first, reversed_second, reversed_contents = in_order(other, one, state)
    before = reversed_second, reversed_first, reversed_contents

    for call in range(MAX_CALLS):
        table, api = prepared(new_table, state)
        intruder: list[Reply] = []

        def intrude(api: Api = api, intruder: list[Reply] = intruder) -> None:
            intruder.append(REQUESTS[other](api))

        line.arm(faults.run_before_request(intrude), at=call)
        reply = REQUESTS[one](make_api(Table(table.name, recorded_client[0], sleep=lambda _: None)))
        if not intruder:
            break  # the request sends no further calls
        outcome = response(reply), response(intruder[0]), contents(table)
        assert outcome in (after, before), f"{other} before call {call} of {one}"


def test_create_during_its_own_retry_returns_its_response(
    table: Table, recorded_client: tuple["DynamoDBClient", FaultLine], line: FaultLine, instance: Instance
) -> None:
    first: list[Reply] = []
    line.arm(faults.run_before_request(lambda: first.append(creating_once(instance()))), at=0)

    reply = creating_once(make_api(Table(table.name, recorded_client[0])))

    assert (reply.status, reply.body) == (first[0].status, first[0].body)
    assert len(videos_of(table)) == 1


def test_views_during_another_view_are_counted(
    api: Api, table: Table, recorded_client: tuple["DynamoDBClient", FaultLine], line: FaultLine, instance: Instance
) -> None:
    api.publish(videoId=VIDEO_ID)
    calls = 3
    for call in range(calls):
        line.arm(faults.run_before_request(lambda: instance().post(f"{PATH}/views", user="bob")), at=call)
        interrupted_api = make_api(Table(table.name, recorded_client[0]))
        reply = interrupted_api.post(f"{PATH}/views", headers={"Idempotency-Key": f"k{call}"}, user="bob")
        assert (reply.status, reply.json["counted"]) == (200, True)
        line.disarm()
    assert api.get(PATH).json["viewCount"] == calls
    assert len(_markers(table)) == calls


def test_two_interleaved_views_of_a_viewer_count_once(
    api: Api, table: Table, recorded_client: tuple["DynamoDBClient", FaultLine], line: FaultLine, instance: Instance
) -> None:
    api.publish(videoId=VIDEO_ID)
    calls = 3
    for call in range(calls):
        viewer = {"viewerId": f"v{call}"}
        intruder: list[Reply] = []

        def intrude(viewer: dict[str, str] = viewer, intruder: list[Reply] = intruder) -> None:
            intruder.append(instance().post(f"{PATH}/views", viewer, user="bob"))

        line.arm(faults.run_before_request(intrude), at=call)
        reply = make_api(Table(table.name, recorded_client[0])).post(f"{PATH}/views", viewer, user="bob")
        line.disarm()
        assert sorted(str(each.json["reason"]) for each in (reply, *intruder)) == ["None", "repeated"]
    assert len(_markers(table)) == calls
