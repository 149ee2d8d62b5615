"""Changes that go out: to a receiver on this machine, signed, and through the feed."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.e2e.conftest import Service
from tests.e2e.receiving import Receiver
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("e2e")


@pytest.fixture
def hook(service: Service, receiver: Receiver) -> Iterator[dict[str, Any]]:
    """A webhook of alice's for her videos, with its secret."""
    wanted = {"url": receiver.url, "types": ["video.*"], "description": "A test"}
    made = service.request("POST", "/v1/webhooks", json=wanted)
    assert made.status_code == 201, made.text
    hook: dict[str, Any] = made.json()
    yield hook
    assert service.request("DELETE", _path(hook)).status_code == 204


def _path(hook: Mapping[str, Any], below: str = "") -> str:
    return f"/v1/webhooks/{hook['webhookId']}{below}"


def _post(service: Service, hook: Mapping[str, Any], below: str, body: Mapping[str, Any] | None = None) -> Any:
    reply = service.request("POST", _path(hook, below), json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def _deliveries(service: Service, hook: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All attempts of a webhook: those of other tests' changes may fill pages."""
    attempts: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = service.request("GET", _path(hook, f"/deliveries?limit=100{cursor}")).json()
        attempts += page["items"]
        if page["nextCursor"] is None:
            return attempts
        cursor = f"&cursor={page['nextCursor']}"


def _changed(service: Service, *titles: str) -> str:
    """A video of alice's that gets these titles, one after the other; its id."""
    video_id = str(service.create()["videoId"])
    for title in titles:
        reply = service.request("PATCH", f"/v1/videos/{video_id}", json={"title": title})
        assert reply.status_code == 200, reply.text
    return video_id


class TestWebhook:
    def test_a_webhook_delivers_each_change_signed_and_in_order_and_lists_its_attempts(
        self, service: Service, receiver: Receiver, hook: dict[str, Any]
    ) -> None:
        video_id = _changed(service, "Two", "Three")
        eventually(lambda: len({*receiver.ids(video_id)}) == 3)
        told = list({event["data"]["id"]: event for event in receiver.verified(hook["secret"], video_id)}.values())
        assert [(event["type"], event["data"]["version"]) for event in told] == [
            ("video.created", 1),
            ("video.changed", 2),
            ("video.changed", 3),
        ]
        assert "/title" in told[1]["data"]["fields"]

        def taken() -> list[dict[str, Any]]:
            attempts = [attempt for attempt in _deliveries(service, hook) if attempt.get("videoId") == video_id]
            return [attempt for attempt in attempts if attempt.get("status") == 200]

        attempts = eventually(taken, lambda found: len({attempt["changeId"] for attempt in found}) == 3)
        assert {attempt["changeId"] for attempt in attempts} == {*receiver.ids(video_id)}
        assert {attempt["answer"] for attempt in attempts} == {"taken"}
        assert service.request("GET", _path(hook, "/deliveries"), "bob").status_code == 404

    def test_a_replay_delivers_the_changes_since_a_time_again(
        self, service: Service, receiver: Receiver, hook: dict[str, Any]
    ) -> None:
        began = int(time.time()) - 1
        video_id = _changed(service, "Two")
        eventually(lambda: len({*receiver.ids(video_id)}) == 2)
        before = receiver.ids(video_id)
        _post(service, hook, "/replay", {"from": began})
        eventually(lambda: len(receiver.ids(video_id)) >= len(before) + 2)
        # A receiver knows by the id what it has had.
        assert {*receiver.ids(video_id)} == {*before}

    def test_a_test_delivery_is_signed_with_both_secrets_after_a_rotation(
        self, service: Service, receiver: Receiver, hook: dict[str, Any]
    ) -> None:
        rotated = _post(service, hook, "/rotate")
        assert rotated["secret"] != hook["secret"]
        tried = _post(service, hook, "/test")
        assert (tried["delivered"], tried["status"], tried["answer"]) == (True, 200, "taken")
        for secret in (hook["secret"], rotated["secret"]):
            assert len(receiver.verified(secret, hook["webhookId"])) == 1

    def test_a_paused_webhook_delivers_its_changes_once_it_is_resumed(
        self, service: Service, receiver: Receiver, hook: dict[str, Any]
    ) -> None:
        def pause(paused: bool) -> None:
            assert service.request("PATCH", _path(hook), json={"paused": paused}).status_code == 200

        pause(True)
        video_id = _changed(service)
        cursor = _now(service)
        _followed(service, cursor, _changed(service))  # by then the first has been in the feed for a while
        assert receiver.ids(video_id) == []
        pause(False)
        eventually(lambda: receiver.ids(video_id))


class TestFeed:
    def test_the_feed_of_an_owner_has_dense_positions(self, service: Service) -> None:
        """In dense positions, so that who polls can prove that nothing is missing."""
        cursor = _now(service)
        video_id = _changed(service, "Two")
        changes = _followed(service, cursor, video_id)
        positions = [change["position"] for change in changes]
        assert positions == list(range(positions[0], positions[0] + len(positions)))
        own = [(change["type"], change["version"]) for change in changes if change.get("videoId") == video_id]
        assert own == [("video.created", 1), ("video.changed", 2)]


def _now(service: Service) -> str:
    """A cursor of alice's own changes from here on."""
    return str(_page(service, "now")["nextCursor"])


def _followed(service: Service, cursor: str, video_id: str) -> list[dict[str, Any]]:
    """What changed of alice's from a cursor on, as far as a video is now."""
    version = service.request("GET", f"/v1/videos/{video_id}").json()["version"]
    seen: list[dict[str, Any]] = []

    def is_there() -> bool:
        nonlocal cursor
        page = _page(service, cursor)
        cursor = page["nextCursor"]
        seen.extend(page["items"])
        return any(change.get("videoId") == video_id and change.get("version") == version for change in seen)

    eventually(is_there)
    return seen


def _page(service: Service, after: str) -> Any:
    reply = service.request("GET", "/v1/changes", params={"userId": "alice", "after": after, "limit": 100})
    assert reply.status_code == 200, reply.text
    return reply.json()
