"""Delivery of changes: signed webhooks to a receiver on this machine, and the change feed."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.e2e.conftest import Service
from tests.e2e.receiving import Receiver
from tests.polling import eventually

pytestmark = pytest.mark.xdist_group("e2e")


@pytest.fixture(scope="module")
def service(own_service: Service) -> Service:
    """Return the service with users of this file."""
    return own_service


@pytest.fixture
def hook(service: Service, receiver: Receiver) -> Iterator[dict[str, Any]]:
    """Return a webhook for alice's videos with its secret, and delete it after the test."""
    request = {"url": receiver.url, "types": ["video.*"], "description": "A test"}
    response = service.request("POST", "/v1/webhooks", json=request)
    assert response.status_code == 201, response.text
    hook: dict[str, Any] = response.json()
    yield hook
    assert service.request("DELETE", _path(hook)).status_code == 204


def _path(hook: Mapping[str, Any], below: str = "") -> str:
    return f"/v1/webhooks/{hook['webhookId']}{below}"


def _changed(service: Service, *titles: str) -> str:
    """Create a video of alice, and give it these titles one after the other. Return its id."""
    video_id = str(service.create()["videoId"])
    for title in titles:
        reply = service.request("PATCH", f"/v1/videos/{video_id}", json={"title": title})
        assert reply.status_code == 200, reply.text
    return video_id


def test_webhook_receives_each_change_signed_and_in_order(
    service: Service, receiver: Receiver, hook: dict[str, Any]
) -> None:
    video_id = _changed(service, "Two", "Three")
    eventually(lambda: len({*receiver.ids(video_id)}) == 3)
    events = list({event["data"]["id"]: event for event in receiver.verified(hook["secret"], video_id)}.values())
    assert [(event["type"], event["data"]["version"]) for event in events] == [
        ("video.created", 1),
        ("video.changed", 2),
        ("video.changed", 3),
    ]
    assert "/title" in events[1]["data"]["fields"]


def test_feed_has_the_changes_of_its_owner_in_dense_positions(service: Service) -> None:
    cursor = _now(service)
    video_id = _changed(service, "Two")
    changes = _feed_items(service, cursor, video_id)
    positions = [change["position"] for change in changes]
    assert positions == list(range(positions[0], positions[0] + len(positions)))
    own = [(change["type"], change["version"]) for change in changes if change.get("videoId") == video_id]
    assert own == [("video.created", 1), ("video.changed", 2)]


def _now(service: Service) -> str:
    """Return a cursor that skips all earlier changes of alice's videos."""
    return str(_page(service, "now")["nextCursor"])


def _feed_items(service: Service, cursor: str, video_id: str) -> list[dict[str, Any]]:
    """Return the changes of alice's videos after a cursor, up to the video's current version."""
    version = service.request("GET", f"/v1/videos/{video_id}").json()["version"]
    items: list[dict[str, Any]] = []

    def is_there() -> bool:
        nonlocal cursor
        page = _page(service, cursor)
        cursor = page["nextCursor"]
        items.extend(page["items"])
        return any(change.get("videoId") == video_id and change.get("version") == version for change in items)

    eventually(is_there)
    return items


def _page(service: Service, after: str) -> Any:
    reply = service.request(
        "GET", "/v1/changes", params={"userId": service.subjects["alice"], "after": after, "limit": 100}
    )
    assert reply.status_code == 200, reply.text
    return reply.json()
