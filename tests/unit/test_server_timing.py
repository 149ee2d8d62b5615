"""The header Server-Timing: the duration of a response. Owners and admins also see each request to DynamoDB."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from local.testbed.background import BackgroundWork
from local.testbed.harness import ADMIN_SCOPES, Api, Clock, Reply, record_operations
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.aws.lean.client import ErrorResponse
from shared.core.request_usage import RequestUsage
from shared.web import server_timing

ELSEWHERE = {"headers": {"If-Match": '"9"'}}


def entries(reply: Reply) -> list[str]:
    """Return the entries of the header, with every duration replaced by 1."""
    return re.sub(r"dur=\d+\.\d", "dur=1", reply.headers["server-timing"]).split(", ")


def conflicting(times: int) -> Callable[..., Any]:
    """Return an interceptor that makes the first `times` writes conflict with a transaction."""
    remaining = [times]

    def between(operation: str, _: Mapping[str, Any], send: Callable[..., Any]) -> Any:
        if operation in ("PutItem", "UpdateItem") and remaining[0]:
            remaining[0] -= 1
            raise ErrorResponse(400, {"__type": "TransactionConflictException"})
        return send()

    return between


ABSENT = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
HIDING_REQUESTS: Mapping[str, Callable[[Api, str], Reply]] = {
    "a video": lambda api, video_id: api.get(f"/v1/videos/{video_id}", user="bob"),
    "a batch-get": lambda api, video_id: api.post("/v1/videos/batch-get", {"videoIds": [video_id]}, user="bob"),
    "a batch": lambda api, video_id: api.post(
        "/v1/videos/batch", {"operations": [{"op": "delete", "videoId": video_id}]}, user="bob"
    ),
    "the owner's list": lambda api, _: api.get("/v1/videos", query="userId=alice", user="bob"),
    "a tag's list": lambda api, _: api.get("/v1/videos", query="tag=a", user="bob"),
    "a region's list": lambda api, _: api.get("/v1/videos", query="region=NZ", user="bob"),
    "the owner's playlists": lambda api, _: api.get("/v1/playlists", query="userId=alice", user="bob"),
}
"""Requests by a user who must not be able to detect a hidden video or playlist."""


class TestEveryResponse:
    def test_header_has_the_duration_and_the_kinds_of_dynamodb_requests(self, api: Api) -> None:
        path = f"/v1/videos/{api.publish()['videoId']}"
        assert entries(api.get(path, user="bob")) == ["total;dur=1", 'ddb;dur=1;desc="BatchGetItem"']
        assert entries(api.get("/v1/videos", user="bob"))[1:] == ['ddb;dur=1;desc="Query RelationIndex"']
        assert entries(api.get("/openapi.json", query="explain=true")) == ["total;dur=1"]

    def test_header_has_the_units_for_admins_and_owners_of_all_items_read(self, api: Api) -> None:
        api.publish()
        # units of the DynamoDB stub
        assert entries(api.get("/v1/videos", query="userId=alice"))[1:] == ['ddb;dur=1;desc="Query UserIdIndex 1"']
        assert entries(api.get("/v1/videos", user="admin"))[1:] == ['ddb;dur=1;desc="Query RelationIndex x4 4"']

    @pytest.mark.parametrize("send", HIDING_REQUESTS.values(), ids=list(HIDING_REQUESTS))
    def test_header_does_not_distinguish_hidden_from_absent_items(
        self, api: Api, send: Callable[[Api, str], Reply]
    ) -> None:
        without = entries(send(api, ABSENT))
        hidden = [api.create(description="x" * 5000, tags=["a"])["videoId"] for _ in range(3)]
        for video_id in hidden:
            api.put(f"/v1/videos/{video_id}/releases/NZ", {"titles": [{"title": "t"}]})
            playlist_id = api.post("/v1/playlists", {"title": "p"}).json["playlistId"]
            api.post(f"/v1/playlists/{playlist_id}/entries", {"videoId": video_id})
        with_hidden = entries(send(api, hidden[0]))
        # Child items of entries are read only if there are entries, so the header may have another kind of request. It
        # never has the number of requests.
        assert set(without) <= set(with_hidden)
        assert not any(re.search(r"\d", entry.partition("desc=")[2]) for entry in [*without, *with_hidden])

    def test_capacity_is_not_requested_by_background_work(self, api: Api, table: Table, clock: Clock) -> None:
        background = BackgroundWork(table, clock)
        api.create()
        with record_operations(table.client) as operations:
            background.settle()
        assert not [operation for operation in operations if "ReturnConsumedCapacity" in operation.parameters]


class TestExplained:
    """`?explain=true`: one entry per request to DynamoDB."""

    def test_explained_header_lists_each_request_with_its_examined_items(self, api: Api) -> None:
        for title in ("a", "b"):
            api.create(title=title)
        reply = api.get("/v1/videos", query="userId=alice&explain=true")
        each = 'ddb;dur=1;desc="Query UserIdIndex 1";examined=2;retries=0;conflicts=0'
        assert entries(reply) == ["total;dur=1", each]
        assert len(entries(api.get("/v1/videos", query="explain=true", user="admin"))) == 5

    def test_explained_header_counts_retries_and_conflicts(self, api: Api, table: Table) -> None:
        video_id = api.create()["videoId"]
        undo = intercept(table.client, conflicting(2))
        reply = api.patch(f"/v1/videos/{video_id}", {"title": "b"}, query="explain=true")
        undo()
        assert entries(reply)[2].endswith(";examined=0;retries=2;conflicts=2")

    def test_explained_header_lists_at_most_fifty_requests(self) -> None:
        lines = [RequestUsage("GetItem", None, started=float(number), seconds=0.5) for number in range(60)]
        _, *explained, summary = server_timing.header(lines, 61, 200, units=True, explained=True).split(", ")
        assert (len(explained), summary) == (50, 'ddb;dur=9500.0;desc="10 more"')

    def test_body_and_etag_are_the_same_as_without_explain(self, api: Api) -> None:
        video_id = api.create()["videoId"]
        unexplained, explained = (api.get(f"/v1/videos/{video_id}", query=query) for query in ("", "explain=true"))
        assert (explained.body, explained.etag) == (unexplained.body, unexplained.etag)

    @pytest.mark.parametrize("query", ["", "userId=alice", "tag=a", "tag=a&userId=alice", "region=NZ&userId=bob"])
    def test_explain_is_refused_for_lists_of_other_owners(self, api: Api, query: str) -> None:
        api.publish(tags=["a"])
        assert api.get("/v1/videos", query=f"{query}&explain=true", user="bob").status == 403
        assert api.get("/v1/videos", query=query, user="bob").status == 200

    def test_explain_is_refused_where_hidden_items_may_be_examined(self, api: Api) -> None:
        video_id = api.publish("bob")["videoId"]
        for path in (f"/v1/videos/{video_id}/playlists", "/v1/tags", f"/v1/videos/{video_id}/rating"):
            assert api.get(path, query="explain=true", user="bob").status == 403
        body = {"operations": [{"op": "delete", "videoId": video_id}]}
        assert api.post("/v1/videos/batch", body, query="explain=true", user="bob").status == 403
        assert api.get(f"/v1/videos/{video_id}", user="bob").json["status"] == "ready"

    def test_explain_is_accepted_from_the_owner_if_the_response_names_the_owner(self, api: Api) -> None:
        path = f"/v1/videos/{api.publish()['videoId']}"
        tag = api.get(path).etag
        assert api.get(path, query="explain=true").status == 200
        assert api.get(path, query="explain=true&fields=title&fields=userId").status == 200
        assert api.get(path, query="explain=true&fields=title").status == 403
        for user in ("alice", "bob"):
            assert api.get(path, query="explain=true", user=user, headers={"If-None-Match": tag}).status == 403
        assert api.get("/v1/playlists", query="explain=true").status == 200

    @pytest.mark.parametrize("path", ["/docs", "/docs/start.js", "/health", "/openapi.json", "/"])
    def test_explain_is_ignored_on_routes_without_a_token(self, api: Api, path: str) -> None:
        unexplained, explained = (api.get(path, query=query) for query in ("", "explain=true"))
        assert (explained.status, explained.body) == (200, unexplained.body)

    def test_explain_is_refused_before_a_write_to_another_owners_video(self, api: Api) -> None:
        path = f"/v1/videos/{api.publish()['videoId']}"
        assert api.post(f"{path}/views", query="explain=true", user="bob").status == 403
        assert api.get(path).json["viewCount"] == 0
        assert api.post(f"{path}/views", query="explain=true", user="admin").status == 200

    def test_explained_timing_of_a_problem_is_for_admins(self, api: Api) -> None:
        path = f"/v1/videos/{api.create()['videoId']}"
        refused = {
            user: api.patch(path, {}, query="explain=true", user=user, **ELSEWHERE) for user in ("alice", "admin")
        }
        assert [reply.status for reply in refused.values()] == [412, 412]
        assert [len(entries(reply)[1].split(";")) for reply in refused.values()] == [2, 6]

    def test_explained_timing_of_jobs_is_for_the_owner_and_admins(self, api: Api) -> None:
        path = f"/v1/videos/{api.publish()['videoId']}/jobs"
        assert api.get(path, query="explain=true").status == 200
        assert api.get(path, query="explain=true", user="bob").status == 403
        assert api.get(path, query="explain=maybe").status == 400
        assert api.get(path, query="explain=true", user="root", scopes=ADMIN_SCOPES).status == 200
