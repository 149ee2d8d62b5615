"""Lists respond within their deadline, however slow DynamoDB is: in full, in part with a cursor, or with a 503.

The clock advances only by the duration of each request to DynamoDB, and by the waits between requests.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from local.testbed.harness import Api, Clock, Reply, make_api
from local.testbed.wire import listen, raised
from shared.aws.dynamodb import Table
from shared.aws.lean import client
from shared.aws.lean.client import ResponseLost
from shared.core.deadline import LONGEST_ATTEMPT, READ_SECONDS, has_time, limit_time
from shared.core.settings import Settings

LIMIT = Settings.answer_seconds

LISTS = {
    "the feed": "/v1/videos",
    "an owner": "/v1/videos?userId=alice",
    "a category": "/v1/videos?category=c",
    "a tag": "/v1/videos?tag=t",
    "a region": "/v1/videos?region=NZ",
    "all tags": "/v1/tags",
    "credits": "/v1/videos/{video}/credits",
    "a person": "/v1/people/sam/videos",
    "releases": "/v1/videos/{video}/releases",
    "playlists": "/v1/playlists",
    "entries": "/v1/playlists/{playlist}/entries",
    "a video's playlists": "/v1/videos/{video}/playlists",
    "webhooks": "/v1/webhooks",
    "a webhook's deliveries": "/v1/webhooks/{webhook}/deliveries",
    "the audit trail": "/v1/videos/{video}/audit",
    "a video with all that belongs to it": "/v1/videos/{video}?include=credits,releases,tags,jobs",
}


@dataclass
class SlowService:
    """A service whose table can be slowed down."""

    api: Api
    clock: Clock
    ids: dict[str, str]

    def get_list(
        self, name: str, seconds: float, *, is_response_lost: Callable[[int], bool] = lambda _: False
    ) -> tuple[Reply, float]:
        """Get a list while each DynamoDB request takes `seconds`. Return the response and the total time in seconds.

        `is_response_lost` receives the number of a request, from 1, and returns whether its response is lost.
        """
        count, send = 0, self.api.table.client.begin

        def begin(operation: str, **parameters: Any) -> Callable[[], Any]:
            nonlocal count
            count += 1
            fails = is_response_lost(count)
            end, finish_request = (
                self.clock.now + (LONGEST_ATTEMPT if fails else seconds),
                send(operation, **parameters),
            )

            def finish() -> Any:
                self.clock.now = max(self.clock.now, end)  # requests in flight overlap
                return raised(ResponseLost()) if fails else finish_request()

            return finish

        begun = self.clock.now
        path, _, query = LISTS[name].format(**self.ids).partition("?")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.api.table.client, "begin", begin)
            return self.api.get(path, query=query), self.clock.now - begun


def _id(number: int) -> str:
    """Return a fixed video id. The id decides the shard, and therefore the number of reads for a page."""
    return f"00000000-0000-4000-8000-{number:012}"


@pytest.fixture
def slow(table: Table, clock: Clock) -> SlowService:
    api = make_api(Table(table.name, client.make_client(), sleep=clock.advance), clock)
    video_id = api.publish(videoId=_id(99), tags=["t"], category="c")["videoId"]
    assert (
        api.put(f"/v1/videos/{video_id}/credits/sam", {"ordering": 1, "roles": [{"category": "actor"}]}).status == 201
    )
    assert api.put(f"/v1/videos/{video_id}/releases/NZ", {"titles": [{"title": "t"}]}).status == 201
    playlist_id = api.post("/v1/playlists", {"title": "t", "visibility": "public"}).json["playlistId"]
    assert api.post(f"/v1/playlists/{playlist_id}/entries", {"videoId": video_id}).status == 201
    webhook_id = api.post("/v1/webhooks", {"url": "https://hooks.acme.com/"}).json["webhookId"]
    return SlowService(api, clock, {"video": video_id, "playlist": playlist_id, "webhook": webhook_id})


@pytest.mark.parametrize("name", LISTS)
class TestEveryList:
    @pytest.mark.parametrize("seconds", [0.4, 1.0, READ_SECONDS])
    def test_list_responds_within_the_deadline(self, slow: SlowService, name: str, seconds: float) -> None:
        reply, took = slow.get_list(name, seconds)
        assert took <= LIMIT
        assert reply.status == 200 or (reply.status, reply.headers["retry-after"]) == (503, "1")

    @pytest.mark.parametrize("first", [1, 2])
    def test_list_does_not_wait_for_lost_responses_beyond_the_deadline(
        self, slow: SlowService, name: str, first: int
    ) -> None:
        reply, took = slow.get_list(name, 0.1, is_response_lost=lambda count: count >= first)
        assert took <= LIMIT
        assert reply.status in (200, 503)

    def test_list_is_complete_when_dynamodb_is_fast(self, slow: SlowService, name: str) -> None:
        reply, _ = slow.get_list(name, 0.01)
        assert reply.status == 200


def test_slow_page_is_short_and_the_next_page_continues(slow: SlowService) -> None:
    """Read a list whose filter matches few items, so that a page takes many reads."""
    formats = {_id(number): "rare" if number % 8 == 0 else "mp4" for number in range(40)}
    for video_id, kind in formats.items():
        slow.api.publish(videoId=video_id, format=kind)
    LISTS["rare"] = "/v1/videos?format=rare&limit=3{cursor}"
    listed: list[str] = []
    pages = 0
    cursor: str | None = ""
    try:
        while cursor is not None:
            slow.ids["cursor"] = f"&cursor={cursor}" if cursor else ""
            reply, took = slow.get_list("rare", 1.5)
            assert (reply.status, took <= LIMIT) == (200, True)
            listed += [item["videoId"] for item in reply.json["items"]]
            cursor, pages = reply.json["nextCursor"], pages + 1
    finally:
        del LISTS["rare"]
    assert sorted(listed) == [video_id for video_id, kind in formats.items() if kind == "rare"]
    assert pages > 2


def test_write_may_take_longer_than_the_read_deadline(slow: SlowService) -> None:
    """Test a write after the read deadline. Writes are not stopped early, because the caller would not know whether
    they were applied."""
    advance = slow.clock.advance
    with listen(slow.api.table.client, lambda *_: advance(READ_SECONDS)):
        assert slow.api.patch(f"/v1/videos/{slow.ids['video']}", {"tags": ["u"]}).status == 200


def test_time_limit_applies_to_one_request(clock: Clock) -> None:
    with limit_time(LONGEST_ATTEMPT, clock):
        assert (has_time(), has_time(pause=0.1), has_time(longest=LONGEST_ATTEMPT + 0.1)) == (True, False, False)
        clock.advance(0.1)
        assert not has_time()
    assert has_time(), "a time limit applies outside of a request"
