"""View counts: one more for each view, one write each, and never two for one key."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from shared.aws.dynamodb import Table
from shared.core.caller import Caller
from shared.schema import VIEW_COUNTER
from shared.videos.counters import CACHE_SECONDS, ViewStore
from tests.harness import NOW, Api, Clock, make_api, recorded

KEY = {"Idempotency-Key": "a-view"}

Failing = Callable[[list[Exception]], list[int]]


def _view(api: Api, video: dict[str, Any], **options: Any) -> int:
    reply = api.post(f"/v1/videos/{video['videoId']}/views", **options)
    assert reply.status == 200, reply.body
    count: int = reply.json["viewCount"]
    return count


def test_each_view_is_one_more(api: Api) -> None:
    video = api.publish()
    assert [_view(api, video, user=user) for user in ("bob", "bob", "alice")] == [1, 2, 3]
    assert api.get(f"/v1/videos/{video['videoId']}").json["viewCount"] == 3


def test_a_view_writes_one_small_item_whatever_the_video_weighs(api: Api, table: Table) -> None:
    video = api.publish(description="x" * 5000)
    _view(api, video)
    with recorded(table.client) as operations:
        _view(api, video)
    assert [operation.name for operation in operations] == ["UpdateItem"]
    counter = table.get(VIEW_COUNTER.key(videoId=video["videoId"], shard=0))
    assert counter is not None
    assert sum(len(name) + len(str(value)) for name, value in counter.items()) < 1024


def test_a_view_with_a_key_counts_once(api: Api) -> None:
    video = api.publish()
    assert [_view(api, video, headers=KEY) for _ in range(3)] == [1, 1, 1]
    assert _view(api, video, headers=KEY, user="bob") == 2


def test_a_key_can_be_used_again_after_a_day(api: Api, clock: Clock) -> None:
    video = api.publish()
    _view(api, video, headers=KEY)
    clock.advance(24 * 3600)
    assert _view(api, video, headers=KEY) == 2


def test_a_key_belongs_to_one_video(api: Api) -> None:
    one, other = api.publish(), api.publish()
    _view(api, one, headers=KEY)
    assert api.post(f"/v1/videos/{other['videoId']}/views", headers=KEY).status == 422
    assert _view(api, other) == 1


def test_what_is_rolled_up_counts_too(api: Api, table: Table) -> None:
    video = api.publish()
    table.client.put_item(
        TableName=table.name,
        Item={
            **{name: {"S": part} for name, part in VIEW_COUNTER.key(videoId=video["videoId"], shard=0).items()},
            "total": {"N": "40"},
        },
    )
    assert _view(api, video) == 41
    assert api.get(f"/v1/videos/{video['videoId']}").json["viewCount"] == 41


@pytest.mark.parametrize("body", ["", "{}"])
def test_a_view_needs_no_body(api: Api, body: str) -> None:
    video = api.publish()
    reply = api.request(
        "POST", f"/v1/videos/{video['videoId']}/views", body=body, headers={"Content-Type": "application/json"}
    )
    assert reply.status == 200


def test_a_body_that_says_something_is_refused(api: Api) -> None:
    video = api.publish()
    assert api.post(f"/v1/videos/{video['videoId']}/views", {"count": 100}).status == 422
    assert _view(api, video) == 1


def test_only_known_videos_have_views(api: Api, table: Table) -> None:
    video_id = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
    assert api.post(f"/v1/videos/{video_id}/views").status == 404
    assert table.get(VIEW_COUNTER.key(videoId=video_id, shard=0)) is None


class TestCache:
    def test_who_may_see_a_video_is_remembered_for_seconds(self, api: Api, clock: Clock) -> None:
        video = api.publish()
        path = f"/v1/videos/{video['videoId']}"
        _view(api, video, user="bob")
        api.patch(path, {"visibility": "private"})

        clock.advance(CACHE_SECONDS - 1)
        assert api.post(f"{path}/views", user="bob").status == 200
        clock.advance(1)
        assert api.post(f"{path}/views", user="bob").status == 404

    def test_expiry_needs_no_forgetting(self, api: Api, clock: Clock) -> None:
        video = api.publish(expiresAt=NOW + 1)
        _view(api, video, user="bob")
        clock.advance(1)
        assert api.post(f"/v1/videos/{video['videoId']}/views", user="bob").status == 404

    def test_it_forgets_the_longest_unused_when_it_is_full(self, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("shared.videos.counters.CACHE_VIDEOS", 2)
        store, caller = ViewStore(table), Caller("alice", frozenset())
        api = make_api(table)
        one, two, three = (api.publish()["videoId"] for _ in range(3))
        reads = []
        for video_id in (one, two, one, three, one, two):
            with recorded(table.client) as operations:
                store.require_visible(video_id, caller, NOW)
            reads.append(len(operations))
        # The third pushed the second out, because the first had been asked for since.
        assert reads == [1, 1, 0, 1, 0, 1]


class TestWhenDynamoDBFails:
    """An addition is tried again only when DynamoDB certainly did not carry it out."""

    @pytest.fixture
    def video(self, api: Api) -> dict[str, Any]:
        return api.publish()

    @pytest.fixture
    def failing(self, table: Table, monkeypatch: pytest.MonkeyPatch) -> Failing:
        """Lets the next updates fail with these errors; returns where the number of calls is kept."""

        def fail(errors: list[Exception]) -> list[int]:
            calls = [0]
            update = table.client.update_item

            def update_item(**parameters: Any) -> Any:
                calls[0] += 1
                if errors:
                    raise errors.pop(0)
                return update(**parameters)

            monkeypatch.setattr(table.client, "update_item", update_item)
            return calls

        return fail

    def test_a_refused_view_is_tried_again(self, api: Api, failing: Failing, video: dict[str, Any]) -> None:
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
    def test_an_overloaded_counter_says_when_to_come_back(
        self, api: Api, failing: Failing, video: dict[str, Any], code: str, status: int
    ) -> None:
        failing([_client_error(code) for _ in range(10)])
        reply = api.post(f"/v1/videos/{video['videoId']}/views")
        assert (reply.status, reply.headers["retry-after"]) == (status, "1")
        assert "may or may not have been counted" not in reply.json["detail"]

    def test_a_view_whose_answer_was_lost_is_not_counted_again(
        self, api: Api, failing: Failing, video: dict[str, Any]
    ) -> None:
        calls = failing([ReadTimeoutError(endpoint_url="x")])
        reply = api.post(f"/v1/videos/{video['videoId']}/views")
        assert (reply.status, calls) == (503, [1])
        assert "may or may not have been counted" in reply.json["detail"]
        assert "Idempotency-Key" in reply.json["detail"]

    def test_views_with_keys_that_exclude_each_other_for_long_say_when_to_come_back(
        self, api: Api, table: Table, video: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def conflict(**_: Any) -> None:
            raise _client_error("TransactionConflictException")

        path = f"/v1/videos/{video['videoId']}/views"
        with monkeypatch.context() as patch:
            patch.setattr(table.client, "transact_write_items", conflict)
            reply = api.post(path, headers=KEY)
        assert (reply.status, reply.headers["retry-after"]) == (409, "1")
        assert api.post(path, headers=KEY).json["viewCount"] == 1


def _client_error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "made up"}}, "UpdateItem")
