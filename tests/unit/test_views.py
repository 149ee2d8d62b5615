"""View counts: each counted view costs one write, and no viewer or key counts twice."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from local.testbed.harness import NOW, Api, Clock, Reply, make_api, record_operations
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.aws.lean.client import ErrorResponse
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.schema import PARTITION_KEY, VIDEO, VIEW_COUNTER, VIEWER
from shared.views.store import (
    CACHE_SECONDS,
    EARLIEST_SECONDS,
    LATEST_SECONDS,
    MARKER_SECONDS,
    WINDOW_SECONDS,
    ViewStore,
)

KEY = {"Idempotency-Key": "a-view"}
TV = {"viewerId": "tv"}
DAY = 24 * 3600

Failing = Callable[[list[Exception]], list[int]]


def _send(api: Api, video: Mapping[str, Any], body: Any = None, *, user: str = "bob", **options: Any) -> Reply:
    return api.post(f"/v1/videos/{video['videoId']}/views", body, user=user, **options)


def _counted(api: Api, video: Mapping[str, Any], body: Any = None, **options: Any) -> dict[str, Any]:
    """Send a view, and return its result without the video's id."""
    reply = _send(api, video, body, **options)
    assert reply.status == 200, reply.body
    result: dict[str, Any] = reply.json
    assert result.pop("videoId") == video["videoId"]
    return result


def _view(api: Api, video: Mapping[str, Any], body: Any = None, **options: Any) -> int:
    """Send a view that must count, and return the view count."""
    result = _counted(api, video, body, **options)
    assert (result["counted"], result["reason"]) == (True, None)
    count: int = result["viewCount"]
    return count


def _reason(api: Api, video: Mapping[str, Any], body: Any = None, **options: Any) -> str | None:
    """Return the reason why a view does not count, or `None` if it counts."""
    result = _counted(api, video, body, **options)
    assert result["counted"] == (result["reason"] is None)
    reason: str | None = result["reason"]
    return reason


def _counter(table: Table, video: Mapping[str, Any]) -> Item:
    counter = table.get(VIEW_COUNTER.key(videoId=video["videoId"], shard=0)) or {}
    return {name: value for name, value in counter.items() if name not in ("pk", "sk", "hour", "schemaVersion")}


def _markers(table: Table) -> list[Item]:
    items = table.client.scan(TableName=table.name)["Items"]
    keys = [{name: item[name]["S"] for name in ("pk", "sk")} for item in items]
    markers = [table.get(key) for key in keys if key[PARTITION_KEY].startswith(VIEWER.partition_prefix)]
    return [marker for marker in markers if marker is not None]


def test_every_view_increments_the_count(api: Api) -> None:
    video = api.publish()
    assert [_view(api, video, user=user) for user in ("bob", "bob", "carol", "admin")] == [1, 2, 3, 4]
    assert api.get(f"/v1/videos/{video['videoId']}").json["viewCount"] == 4


def test_view_writes_one_small_item_for_a_video_of_any_size(api: Api, table: Table) -> None:
    video = api.publish(description="x" * 5000)
    _view(api, video)
    with record_operations(table.client) as operations:
        _view(api, video)
        _view(api, video, {"watchedMs": 5000})
    assert [operation.name for operation in operations] == ["UpdateItem"] * 2
    counter = table.get(VIEW_COUNTER.key(videoId=video["videoId"], shard=0))
    assert counter is not None
    assert _size(counter) < 1024


@pytest.mark.parametrize("options", [{"body": TV}, {"headers": KEY}, {"body": TV, "headers": KEY}], ids=str)
def test_view_with_a_viewer_or_key_writes_one_small_item_and_reads_the_count(
    api: Api, table: Table, options: dict[str, Any]
) -> None:
    video = api.publish(description="x" * 5000)
    _view(api, video)
    with record_operations(table.client) as operations:
        assert _view(api, video, **options) == 2
    assert [operation.name for operation in operations] == ["PutItem", "BatchGetItem"]
    (read,) = operations[1].parameters["RequestItems"].values()
    assert (len(read["Keys"]), read.get("ConsistentRead", False)) == (1, False)
    (marker,) = _markers(table)
    assert _size(marker) < 1024
    # The stream consumer counts the view later.
    assert _counter(table, video) == {"views": 1}


def test_time_watched_is_added_up(api: Api, table: Table) -> None:
    video = api.publish()
    for watched in (5000, 0, 86_400_000):
        _view(api, video, {"watchedMs": watched})
    assert _counter(table, video) == {"views": 3, "watched": 86_405_000}


class TestKeys:
    def test_a_view_with_a_key_counts_once(self, api: Api, table: Table) -> None:
        video = api.publish()
        assert [_reason(api, video, headers=KEY) for _ in range(3)] == [None, "duplicate", "duplicate"]
        assert _reason(api, video, headers=KEY, user="carol") is None
        assert len(_markers(table)) == 2
        assert _counter(table, video) == {}

    def test_a_key_can_be_used_again_after_a_day(self, api: Api, clock: Clock) -> None:
        video = api.publish()
        _view(api, video, headers=KEY)
        clock.advance(DAY - 1)
        assert _reason(api, video, headers=KEY) == "duplicate"
        clock.advance(1)
        assert _reason(api, video, headers=KEY) is None

    def test_key_counts_once_per_video(self, api: Api) -> None:
        one, other = api.publish(), api.publish()
        assert [_reason(api, video, headers=KEY) for video in (one, other, one, other)] == [
            None,
            None,
            "duplicate",
            "duplicate",
        ]

    def test_a_key_of_a_view_has_no_window(self, api: Api) -> None:
        assert _counted(api, api.publish(), headers=KEY)["windowEnds"] is None


class TestViewers:
    def test_a_viewer_counts_once_in_a_window(self, api: Api, table: Table, clock: Clock) -> None:
        video = api.publish()
        first = _counted(api, video, TV)
        assert first == {"counted": True, "reason": None, "viewCount": 1, "windowEnds": NOW + WINDOW_SECONDS}
        clock.advance(WINDOW_SECONDS - 1)
        second = _counted(api, video, TV)
        # The stream consumer would add the first view, but does not run in this test.
        assert second == {"counted": False, "reason": "repeated", "viewCount": 0, "windowEnds": NOW + WINDOW_SECONDS}
        clock.advance(1)
        assert _counted(api, video, TV)["windowEnds"] == NOW + 2 * WINDOW_SECONDS
        assert _counter(table, video) == {"repeated": 1}

    def test_view_window_is_per_viewer_and_video(self, api: Api) -> None:
        one, other = api.publish(), api.publish()
        for video, viewer in ((one, "tv"), (one, "phone"), (other, "tv")):
            assert _reason(api, video, {"viewerId": viewer}) is None
            assert _reason(api, video, {"viewerId": viewer}) == "repeated"

    def test_view_of_another_user_with_the_same_viewer_id_counts(self, api: Api) -> None:
        video = api.publish()
        assert [_reason(api, video, TV, user=user) for user in ("mallory", "bob")] == [None, None]

    def test_viewer_and_key_of_the_same_name_are_independent(self, api: Api) -> None:
        video = api.publish()
        assert _reason(api, video, {"viewerId": "x"}) is None
        assert _reason(api, video, headers={"Idempotency-Key": "x"}) is None

    def test_viewer_id_is_stored_only_as_a_hash(self, api: Api, table: Table) -> None:
        _view(api, api.publish(), {"viewerId": "somebody@example.com"})
        (marker,) = _markers(table)
        assert "somebody" not in str(marker)
        assert len(marker["sk"]) == 22

    def test_marker_has_the_fields_that_the_stream_consumer_counts_by(self, api: Api, table: Table) -> None:
        video = api.publish()
        _view(api, video, TV | {"watchedMs": 5000, "at": NOW - 60}, headers=KEY)
        (marker,) = _markers(table)
        stored = {name: value for name, value in marker.items() if name not in ("pk", "sk", "writeId", "schemaVersion")}
        lane = stored.pop("lane")
        assert marker["pk"] == VIEWER.key(videoId=video["videoId"], lane=lane, id="x")["pk"]
        assert stored == {
            "videoId": video["videoId"],
            "at": NOW - 60,
            "id": "a-view",
            "watched": 5000,
            "purgeAt": NOW - 60 + MARKER_SECONDS,
        }

    def test_retry_is_distinguished_from_another_view(self, api: Api, table: Table) -> None:
        video = api.publish()
        assert _reason(api, video, TV, headers=KEY) is None
        assert _counted(api, video, TV, headers=KEY) == {
            "counted": False,
            "reason": "duplicate",
            "viewCount": 0,
            "windowEnds": NOW + WINDOW_SECONDS,
        }
        assert _counter(table, video) == {}
        assert _reason(api, video, TV, headers={"Idempotency-Key": "another"}) == "repeated"
        assert _counter(table, video) == {"repeated": 1}

    def test_retry_after_the_end_of_the_window_does_not_count(self, api: Api, clock: Clock) -> None:
        video = api.publish()
        assert _reason(api, video, TV, headers=KEY) is None
        clock.advance(WINDOW_SECONDS)
        assert _reason(api, video, TV, headers=KEY) == "duplicate"
        assert _reason(api, video, TV, headers={"Idempotency-Key": "another"}) is None
        clock.advance(WINDOW_SECONDS)
        assert _reason(api, video, TV) is None
        clock.advance(WINDOW_SECONDS)
        assert _reason(api, video, TV, headers=KEY) is None

    def test_view_earlier_than_the_last_view_does_not_count(self, api: Api) -> None:
        # an earlier view may be a retry of a counted view
        video = api.publish()
        hours = [NOW - 5 * 3600, NOW - 3 * 3600, NOW - 5 * 3600, NOW - 4 * 3600]
        reasons = [_reason(api, video, TV | {"at": at}) for at in hours]
        assert reasons == [None, None, "repeated", "repeated"]

    def test_viewer_item_is_retained_as_long_as_its_views_are_accepted(self, api: Api, clock: Clock) -> None:
        video = api.publish()
        _view(api, video, TV, headers=KEY)
        clock.advance(EARLIEST_SECONDS)
        assert _reason(api, video, TV | {"at": NOW}) == "repeated"
        clock.advance(MARKER_SECONDS - EARLIEST_SECONDS)
        assert _reason(api, video, TV, headers=KEY) is None

    def test_window_is_configurable(self, table: Table, clock: Clock) -> None:
        api = make_api(table, clock, VIEW_WINDOW_SECONDS="60")
        video = api.publish()
        assert _counted(api, video, TV)["windowEnds"] == NOW + 60
        clock.advance(60)
        assert _reason(api, video, TV) is None


class TestRules:
    """Rules that exclude a view. Owners and admins get the reason; other users get 404 for a hidden video."""

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"visibility": "private"}, "unpublished"),
            ({"status": "processing"}, "unpublished"),
            ({"publishAt": NOW + 10}, "unpublished"),
            ({"expiresAt": NOW}, "expired"),
            ({"expiresAt": NOW, "visibility": "private"}, "expired"),
        ],
    )
    @pytest.mark.parametrize("options", [{}, {"headers": KEY}, {"body": TV}], ids=str)
    def test_view_of_a_hidden_video_does_not_count(
        self, api: Api, table: Table, fields: dict[str, Any], reason: str, options: dict[str, Any]
    ) -> None:
        video = api.publish()
        _alter(table, video, fields)
        for user in ("alice", "admin"):
            result = _counted(api, video, user=user, **options)
            assert result == {"counted": False, "reason": reason, "viewCount": 0, "windowEnds": None}
        assert _send(api, video, user="bob", **options).status == 404
        assert (_counter(table, video), _markers(table)) == ({reason: 2}, [])

    def test_deletion_takes_precedence_over_other_rules(self, api: Api, table: Table) -> None:
        video = api.publish(expiresAt=NOW + 1)
        api.delete(f"/v1/videos/{video['videoId']}")
        _alter(table, video, {"expiresAt": NOW})
        assert _reason(api, video, user="alice") == "deleted"
        assert _send(api, video).status == 404
        assert _counter(table, video) == {"deleted": 1}

    def test_view_of_the_callers_own_video_does_not_count(self, api: Api, table: Table) -> None:
        video = api.publish("alice")
        _view(api, video)
        assert _counted(api, video, user="alice") == {
            "counted": False,
            "reason": "owner",
            "viewCount": 1,
            "windowEnds": None,
        }
        assert _reason(api, video, user="admin") is None
        assert _reason(api, api.publish("admin"), user="admin") == "owner"
        assert _counter(table, video) == {"views": 2, "owner": 1}

    def test_counting_of_own_views_is_configurable(self, table: Table, clock: Clock) -> None:
        api = make_api(table, clock, COUNT_OWN_VIEWS="true")
        video = api.publish("alice")
        assert _reason(api, video, user="alice") is None
        _alter(table, video, {"visibility": "private"})
        clock.advance(CACHE_SECONDS)
        assert _reason(api, video, user="alice") == "unpublished"

    def test_view_that_does_not_count_takes_one_write(self, api: Api, table: Table) -> None:
        video = api.publish()
        _view(api, video, TV)
        with record_operations(table.client) as operations:
            _reason(api, video, user="alice")
        assert [operation.name for operation in operations] == ["UpdateItem"]
        with record_operations(table.client) as operations:
            _reason(api, video, TV)
        assert [operation.name for operation in operations] == ["PutItem", "UpdateItem"]


@pytest.mark.parametrize("body", ["", "{}"])
def test_a_view_needs_no_body(api: Api, body: str) -> None:
    video = api.publish()
    path, headers = f"/v1/videos/{video['videoId']}/views", {"Content-Type": "application/json"}
    assert api.request("POST", path, body=body, headers=headers, user="bob").json["counted"] is True


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"count": 100}, "/count"),
        ({"viewerId": "x" * 2048}, "/viewerId"),
        ({"viewerId": ""}, "/viewerId"),
        ({"viewerId": "two\nlines"}, "/viewerId"),
        ({"viewerId": 7}, "/viewerId"),
        ({"watchedMs": -1}, "/watchedMs"),
        ({"watchedMs": 86_400_001}, "/watchedMs"),
        ({"watchedMs": "5"}, "/watchedMs"),
        ({"at": NOW + LATEST_SECONDS + 1}, "/at"),
        ({"at": NOW - EARLIEST_SECONDS - 1}, "/at"),
        ({"at": -1}, "/at"),
        ({"at": "now"}, "/at"),
        ({"at": True}, "/at"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_body_that_is_not_valid_is_refused(api: Api, table: Table, body: dict[str, Any], pointer: str) -> None:
    video = api.publish()
    reply = _send(api, video, body)
    assert (reply.status, [fault["pointer"] for fault in reply.json["errors"]]) == (422, [pointer])
    assert (_counter(table, video), _markers(table)) == ({}, [])


@pytest.mark.parametrize(
    "body",
    [{"viewerId": "x" * 128}, {"at": NOW + LATEST_SECONDS}, {"at": NOW - EARLIEST_SECONDS}, {"at": None}],
    ids=str,
)
def test_view_at_the_limits_of_validity_counts(api: Api, body: dict[str, Any]) -> None:
    assert _view(api, api.publish(), body) == 1


def test_view_of_an_absent_video_is_404_and_creates_no_counter(api: Api, table: Table) -> None:
    video_id = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
    assert api.post(f"/v1/videos/{video_id}/views").status == 404
    assert table.get(VIEW_COUNTER.key(videoId=video_id, shard=0)) is None


class TestCache:
    def test_visibility_of_a_video_is_cached_for_seconds(self, api: Api, clock: Clock) -> None:
        video = api.publish()
        path = f"/v1/videos/{video['videoId']}"
        _view(api, video, user="bob")
        api.patch(path, {"visibility": "private"})

        clock.advance(CACHE_SECONDS - 1)
        assert api.post(f"{path}/views", user="bob").status == 200
        clock.advance(1)
        assert api.post(f"{path}/views", user="bob").status == 404

    def test_cached_video_expires_on_time(self, api: Api, clock: Clock) -> None:
        video = api.publish(expiresAt=NOW + 1)
        _view(api, video, user="bob")
        clock.advance(1)
        assert api.post(f"/v1/videos/{video['videoId']}/views", user="bob").status == 404

    def test_full_cache_evicts_the_least_recently_used_video(
        self, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shared.views.store.CACHE_VIDEOS", 2)
        store, caller = ViewStore(table), Caller("alice", frozenset())
        api = make_api(table)
        one, two, three = (api.publish()["videoId"] for _ in range(3))
        reads = []
        for video_id in (one, two, one, three, one, two):
            with record_operations(table.client) as operations:
                store.require_visible(video_id, caller, NOW)
            reads.append(len(operations))
        # The third video evicted the second, because the first had been used more recently.
        assert reads == [1, 1, 0, 1, 0, 1]


class TestWhenDynamoDBFails:
    """An increment is retried only if DynamoDB certainly did not apply it."""

    @pytest.fixture
    def video(self, api: Api) -> dict[str, Any]:
        return api.publish()

    @pytest.fixture
    def failing(self, table: Table, monkeypatch: pytest.MonkeyPatch) -> Failing:
        """Return a function that makes the next increments fail with these errors. It returns a list whose only element
        is the number of increments so far."""

        def fail(errors: list[Exception]) -> list[int]:
            calls = [0]
            update = table.client.update_item

            def update_item(**parameters: Any) -> Any:
                is_addition = "ADD" in parameters["UpdateExpression"]
                calls[0] += is_addition
                if is_addition and errors:
                    raise errors.pop(0)
                return update(**parameters)

            monkeypatch.setattr(table.client, "update_item", update_item)
            return calls

        return fail

    def test_recorded_view_returns_the_last_readable_count(self, api: Api, table: Table, video: dict[str, Any]) -> None:
        def unread(operation: str, _: Any, send: Callable[[], Any]) -> Any:
            if operation == "BatchGetItem":
                raise ErrorResponse(400, {"__type": "ThrottlingException", "message": ""})
            return send()

        path = f"/v1/videos/{video['videoId']}/views"
        undo = intercept(table.client, unread)
        reply = api.post(path, {"viewerId": "phone"}, user="bob")
        assert (reply.status, "Retrying is safe" in reply.json["detail"]) == (503, True)
        undo()
        assert api.post(path, {"viewerId": "phone"}, user="bob").json["reason"] == "repeated"
        assert api.post(path, headers={"Idempotency-Key": "k"}, user="bob").json["viewCount"] == 1
        undo = intercept(table.client, unread)
        reply = api.post(path, {"viewerId": "tv"}, user="bob")
        undo()
        assert (reply.status, reply.json["counted"], reply.json["viewCount"]) == (200, True, 1)

    def test_refused_view_is_retried(self, api: Api, failing: Failing, video: dict[str, Any]) -> None:
        refusals = [
            _client_error("ThrottlingException"),
            _client_error("TransactionConflictException"),
            EndpointConnectionError(endpoint_url="x"),
        ]
        calls = failing(refusals)
        assert _view(api, video) == 1
        assert calls == [4]

    @pytest.mark.parametrize(
        ("code", "status"), [("ProvisionedThroughputExceededException", 503), ("TransactionConflictException", 409)]
    )
    def test_overloaded_counter_returns_retry_after(
        self, api: Api, failing: Failing, video: dict[str, Any], code: str, status: int
    ) -> None:
        failing([_client_error(code) for _ in range(1000)])
        reply = _send(api, video)
        assert (reply.status, reply.headers["retry-after"]) == (status, "1")
        assert "may or may not have been counted" not in reply.json["detail"]

    def test_view_with_a_lost_response_counts_once(self, api: Api, failing: Failing, video: dict[str, Any]) -> None:
        calls = failing([ReadTimeoutError(endpoint_url="x")])
        reply = _send(api, video)
        assert (reply.status, calls) == (503, [1])
        assert "may or may not have been counted" in reply.json["detail"]
        assert "Idempotency-Key" in reply.json["detail"]

    @pytest.fixture
    def losing(self, table: Table, video: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Lose the response of the next put, after DynamoDB applied it. Return a list of the partitions of all puts."""
        partitions: list[str] = []
        put = table.client.put_item

        def put_item(**parameters: Any) -> Any:
            partitions.append(parameters["Item"]["pk"]["S"])
            response = put(**parameters)
            if len(partitions) == 1:
                raise ReadTimeoutError(endpoint_url="x")
            return response

        monkeypatch.setattr(table.client, "put_item", put_item)
        return partitions

    @pytest.mark.parametrize("options", [{"body": TV}, {"headers": KEY}, {"body": TV, "headers": KEY}], ids=str)
    def test_marker_with_a_lost_response_is_recognised_by_the_retry(
        self, api: Api, losing: list[str], video: dict[str, Any], options: dict[str, Any]
    ) -> None:
        assert _reason(api, video, **options) is None
        assert len(losing) == 2

    @pytest.mark.parametrize("options", [{"body": TV}, {"headers": KEY}], ids=str)
    def test_throttled_marker_returns_retry_after(
        self,
        api: Api,
        table: Table,
        video: dict[str, Any],
        options: dict[str, Any],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def throttled(**_: Any) -> None:
            raise _client_error("ProvisionedThroughputExceededException")

        with monkeypatch.context() as patch:
            patch.setattr(table.client, "put_item", throttled)
            reply = _send(api, video, **options)
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        assert _reason(api, video, **options) is None

    def test_marker_deleted_concurrently_is_retried(
        self, api: Api, table: Table, video: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(**_: Any) -> None:
            raise _client_error("ConditionalCheckFailedException")

        with monkeypatch.context() as patch:
            patch.setattr(table.client, "put_item", refused)
            assert _send(api, video, TV).status == 503
        assert _reason(api, video, TV) is None


def _alter(table: Table, video: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
    """Change attributes of a stored video, as time or a worker would."""
    item = table.get(VIDEO.key(videoId=video["videoId"]))
    assert item is not None
    table.write(table.put({**item, **fields}))


def _size(item: Item) -> int:
    return sum(len(name) + len(str(value)) for name, value in item.items())


def _client_error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "made up"}}, "UpdateItem")
