"""Batches of views from a player's offline queue: each view has its own result, and a retry counts no view twice."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.views import handler as views
from local.testbed.harness import NOW, Api, Clock, FakeResources, Reply, record_operations
from local.testbed.wire import intercept, raised
from shared.aws.dynamodb import Table
from shared.core.attributes import Item
from shared.schema import VIEW_COUNTER, VIEWER
from shared.views.store import EARLIEST_SECONDS, LATEST_SECONDS, MARKER_SECONDS, WINDOW_SECONDS

ABSENT = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
HOUR = 3600

View = dict[str, Any]


def _view_of(video: Mapping[str, Any], id_: str, at: int = NOW, **more: Any) -> View:
    return {"id": id_, "videoId": video["videoId"], "at": at, **more}


def _send(api: Api, queue: Sequence[View], user: str = "bob") -> Reply:
    return api.post("/v1/views", {"views": queue}, user=user)


def _results(api: Api, *queue: View, user: str = "bob") -> list[dict[str, Any]]:
    reply = _send(api, queue, user)
    assert reply.status == 200, reply.body
    results: list[dict[str, Any]] = reply.json["results"]
    assert [(result["id"], result["videoId"]) for result in results] == [
        (view["id"], view["videoId"]) for view in queue
    ]
    return results


def _reasons(api: Api, *queue: View, user: str = "bob") -> list[str | int | None]:
    """Return for each view the reason why it does not count, `None` if it counts, or the status of its problem."""
    results = _results(api, *queue, user=user)
    assert all(result.get("counted") == (result["reason"] is None) for result in results if "problem" not in result)
    return [result["problem"]["status"] if "problem" in result else result["reason"] for result in results]


def _counter(table: Table, video: Mapping[str, Any]) -> Item:
    counter = table.get(VIEW_COUNTER.key(videoId=video["videoId"], shard=0)) or {}
    return {name: value for name, value in counter.items() if name not in ("pk", "sk", "hour", "schemaVersion")}


def _markers(table: Table) -> list[dict[str, Any]]:
    return [
        item
        for item in table.client.scan(TableName=table.name)["Items"]
        if item["pk"]["S"].startswith(VIEWER.partition_prefix)
    ]


def test_every_view_has_its_result_in_order(api: Api, table: Table) -> None:
    one, other, hidden = api.publish(), api.publish(), api.create()
    results = _results(
        api,
        _view_of(one, "a", NOW - HOUR, viewerId="tv", watchedMs=5000),
        _view_of({"videoId": ABSENT}, "b"),
        _view_of(other, "c", NOW - 60),
        _view_of(hidden, "d"),
        _view_of(one, "e", NOW - HOUR + 60, viewerId="tv"),
    )
    problem = {
        "type": "urn:video-metadata:problem:not-found",
        "title": "Not found",
        "status": 404,
        "detail": "The video does not exist.",
    }
    ends = NOW - HOUR + WINDOW_SECONDS
    counted = {"counted": True, "reason": None, "viewCount": 1}
    assert results == [
        {"id": "a", "videoId": one["videoId"], **counted, "windowEnds": ends},
        {"id": "b", "videoId": ABSENT, "problem": problem},
        {"id": "c", "videoId": other["videoId"], **counted, "windowEnds": None},
        {"id": "d", "videoId": hidden["videoId"], "problem": problem},
        {
            "id": "e",
            "videoId": one["videoId"],
            "counted": False,
            "reason": "repeated",
            "viewCount": 1,
            "windowEnds": ends,
        },
    ]
    # Each counted view has an item, which the stream consumer counts.
    assert {marker["id"]["S"]: marker.get("watched") for marker in _markers(table)} == {"a": {"N": "5000"}, "c": None}
    assert (_counter(table, one), _counter(table, other)) == ({"repeated": 1}, {})


def test_view_of_a_batch_and_single_view_exclude_each_other(api: Api) -> None:
    video = api.publish()
    path = f"/v1/videos/{video['videoId']}/views"
    assert api.post(path, {"viewerId": "tv"}, user="bob").json["counted"] is True
    assert _reasons(api, _view_of(video, "a", viewerId="tv")) == ["repeated"]
    assert _reasons(api, _view_of(video, "b", NOW + LATEST_SECONDS)) == [None]
    assert api.post(path, headers={"Idempotency-Key": "b"}, user="bob").json["reason"] == "duplicate"


@pytest.mark.parametrize("viewer", [{}, {"viewerId": "tv"}], ids=["by id", "by viewer"])
def test_repeated_batch_counts_nothing_twice(api: Api, clock: Clock, viewer: dict[str, Any]) -> None:
    video = api.publish()
    queue = [_view_of(video, str(number), NOW - number * HOUR, **viewer) for number in range(5)]
    assert _reasons(api, *queue) == [None] * 5
    for pause in (0, WINDOW_SECONDS, EARLIEST_SECONDS - 5 * HOUR):
        clock.advance(pause)
        assert None not in _reasons(api, *queue)


def test_view_id_is_retained_as_long_as_its_view_is_accepted(api: Api, clock: Clock) -> None:
    video = api.publish()
    assert _reasons(api, _view_of(video, "a")) == [None]
    clock.advance(EARLIEST_SECONDS)
    assert _reasons(api, _view_of(video, "a")) == ["duplicate"]
    clock.advance(MARKER_SECONDS - EARLIEST_SECONDS)
    assert _reasons(api, _view_of(video, "a", NOW + MARKER_SECONDS)) == [None]


def test_views_of_a_viewer_are_counted_in_order_of_their_times(api: Api) -> None:
    video, other = api.publish(), api.publish()
    queue = [
        _view_of(video, "late", NOW - 60, viewerId="tv"),
        _view_of(video, "early", NOW - 3 * HOUR, viewerId="tv"),
        _view_of(other, "elsewhere", NOW - 2 * HOUR, viewerId="tv"),
        _view_of(video, "soon after", NOW - 3 * HOUR + 60, viewerId="tv"),
        _view_of(video, "another viewer", NOW - 3 * HOUR + 60, viewerId="phone"),
    ]
    assert _reasons(api, *queue) == [None, None, None, "repeated", None]


def test_view_ids_are_unique_per_caller_and_video(api: Api) -> None:
    one, other = api.publish(), api.publish()
    assert _reasons(api, _view_of(one, "a")) == _reasons(api, _view_of(other, "a")) == [None]
    assert _reasons(api, _view_of(one, "a"), user="carol") == [None]
    assert _reasons(api, _view_of(one, "a")) == ["duplicate"]


def test_rules_apply_to_batches_and_are_counted_in_one_update_per_video(api: Api, table: Table) -> None:
    own, hidden = api.publish("alice"), api.create("alice")
    queue = [
        *(_view_of(own, f"o{number}") for number in range(3)),
        *(_view_of(hidden, f"h{number}") for number in range(2)),
    ]
    with record_operations(table.client) as operations:
        assert _reasons(api, *queue, user="alice") == ["owner"] * 3 + ["unpublished"] * 2
    # one update per video, for any number of views that do not count
    assert sorted(operation.name for operation in operations) == ["BatchGetItem"] * 2 + ["UpdateItem"] * 2
    assert (_counter(table, own), _counter(table, hidden)) == ({"owner": 3}, {"unpublished": 2})


def test_batch_reads_videos_and_counters_once_and_writes_one_item_per_view(api: Api, table: Table) -> None:
    videos = [api.publish() for _ in range(10)]
    queue = [_view_of(video, f"{number}-{which}") for which, video in enumerate(videos) for number in range(10)]
    with record_operations(table.client) as operations:
        assert _reasons(api, *queue) == [None] * 100
    names = [operation.name for operation in operations]
    assert names[:2] == ["BatchGetItem"] * 2
    assert names[2:] == ["PutItem"] * 100


class TestTimes:
    """A view that is too old or has a wrong time must not block other views."""

    @pytest.mark.parametrize("at", [NOW - EARLIEST_SECONDS - 1, NOW + LATEST_SECONDS + 1])
    def test_view_with_an_invalid_time_fails_alone(self, api: Api, table: Table, at: int) -> None:
        video = api.publish()
        good, bad = _results(api, _view_of(video, "a"), _view_of(video, "b", at))
        assert good["counted"] is True
        assert (bad["problem"]["status"], bad["problem"]["errors"][0]["pointer"]) == (422, "/views/1/at")
        assert len(_markers(table)) == 1

    def test_view_at_the_earliest_or_latest_time_counts(self, api: Api) -> None:
        video = api.publish()
        edges = (NOW - EARLIEST_SECONDS, NOW + LATEST_SECONDS)
        assert _reasons(api, *(_view_of(video, str(at), at) for at in edges)) == [None, None]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"id": ""}, "/views/1/id"),
        ({"id": "x" * 65}, "/views/1/id"),
        ({"id": None}, "/views/1/id"),
        ({"id": 7}, "/views/1/id"),
        ({"id": "first"}, "/views"),
        ({"videoId": "nonsense"}, "/views/1/videoId"),
        ({"at": None}, "/views/1/at"),
        ({"at": "now"}, "/views/1/at"),
        ({"at": -1}, "/views/1/at"),
        ({"watchedMs": -1}, "/views/1/watchedMs"),
        ({"watchedMs": 86_400_001}, "/views/1/watchedMs"),
        ({"viewerId": "x" * 2048}, "/views/1/viewerId"),
        ({"views": 1}, "/views/1/views"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_batch_with_a_view_that_is_not_valid_is_refused(
    api: Api, table: Table, change: dict[str, Any], pointer: str
) -> None:
    video = api.publish()
    reply = _send(api, [_view_of(video, "first"), _view_of(video, "second") | change])
    assert (reply.status, [fault["pointer"] for fault in reply.json["errors"]]) == (422, [pointer])
    assert _markers(table) == []


@pytest.mark.parametrize("count", [0, 101])
def test_a_batch_has_1_to_100_views(api: Api, count: int) -> None:
    video = api.publish()
    reply = _send(api, [_view_of(video, str(number)) for number in range(count)])
    assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, "/views")


def test_batch_with_equal_ids_is_refused(api: Api) -> None:
    video = api.publish()
    reply = _send(api, [_view_of(video, id_) for id_ in ("a", "b", "a")])
    assert "0 and 2 have the same" in reply.json["errors"][0]["detail"]


class TestWhenDynamoDBFails:
    def test_throttled_view_fails_alone_and_can_be_retried(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        video = api.publish()
        queue = [_view_of(video, id_) for id_ in "abc"]
        put = table.client.put_item

        def put_item(**parameters: Any) -> Any:
            if parameters["Item"]["id"]["S"] == "b":
                raise _client_error("ProvisionedThroughputExceededException")
            return put(**parameters)

        with monkeypatch.context() as patch:
            patch.setattr(table.client, "put_item", put_item)
            assert _reasons(api, *queue) == [None, 503, None]
        assert _reasons(api, *queue) == ["duplicate", None, "duplicate"]

    def test_views_whose_rule_cannot_be_counted_are_503(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own, other = api.publish("alice"), api.publish("bob")

        def refused(**_: Any) -> Any:
            raise _client_error("ProvisionedThroughputExceededException")

        monkeypatch.setattr(table.client, "update_item", refused)
        assert _reasons(api, _view_of(own, "a"), _view_of(other, "b"), _view_of(own, "c"), user="alice") == [
            503,
            None,
            503,
        ]

    def test_batch_is_503_and_counts_nothing_when_videos_cannot_be_read(self, api: Api, table: Table) -> None:
        video = api.publish()

        def refused(operation: str, _: Mapping[str, Any], send: Callable[[], Any]) -> Any:
            return raised(_client_error("ThrottlingException")) if operation == "BatchGetItem" else send()

        undo = intercept(table.client, refused)
        assert _send(api, [_view_of(video, "a")]).status == 503
        undo()
        assert _markers(table) == []

    def test_internal_error_of_one_view_does_not_affect_other_results(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one, other = api.publish(), api.publish()
        table.client.update_item(
            TableName=table.name,
            Key={"pk": {"S": f"VIDEO#{other['videoId']}"}, "sk": {"S": "#META"}},
            UpdateExpression="REMOVE visibility",
        )
        assert _reasons(api, _view_of(one, "a"), _view_of(other, "b")) == [None, 500]

    def test_views_beyond_the_time_limit_fail_with_503_and_can_be_retried(self, table: Table, api: Api) -> None:
        # Each read of the clock advances it by five seconds, so the function runs out of time.
        video = api.publish()
        seconds = iter(range(0, 100_000, 5))
        resources = FakeResources(table, Clock(), elapsed=lambda: next(seconds))
        slow = Api(table, {"views": resources.make(views.lambda_handler)}, Clock())
        reasons = _reasons(slow, *(_view_of(video, str(number)) for number in range(8)))
        assert set(reasons) == {None, 503}
        retried = _reasons(api, *(_view_of(video, str(number)) for number in range(8)))
        assert retried == ["duplicate" if reason is None else None for reason in reasons]


def _client_error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "made up"}}, "PutItem")
