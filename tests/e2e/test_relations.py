"""Relations over HTTP, with the updates by the stream and the queues after a write."""

import time
from typing import Any

import pytest

from shared.relations.ratings import rating_key
from shared.schema import TABLE_NAME
from tests.e2e.conftest import Service
from tests.polling import eventually

pytestmark = pytest.mark.xdist_group("e2e")

PEOPLE = 60
"""Number of credits. A purge needs more than one page for them."""


@pytest.fixture(scope="module")
def service(own_service: Service) -> Service:
    """Return the service with users of this file."""
    return own_service


def _path(video: dict[str, Any], below: str = "") -> str:
    return f"/v1/videos/{video['videoId']}{below}"


def _get(service: Service, path: str, user: str = "alice") -> Any:
    reply = service.request("GET", path, user)
    assert reply.status_code == 200, reply.text
    return reply.json()


def _put(service: Service, path: str, body: dict[str, Any], user: str = "alice") -> Any:
    reply = service.request("PUT", path, user, json=body)
    assert reply.status_code in (200, 201), reply.text
    return reply.json()


def _published(service: Service, **fields: Any) -> dict[str, Any]:
    published = {"userId": service.subjects["alice"], "status": "ready", "visibility": "public"}
    return service.create("admin", **(published | fields))


def _playlist(service: Service, title: str = "Evening") -> str:
    response = service.request("POST", "/v1/playlists", json={"title": title, "visibility": "public"})
    assert response.status_code == 201, response.text
    return f"/v1/playlists/{response.json()['playlistId']}"


def _append(service: Service, playlist: str, video: dict[str, Any]) -> None:
    appended = service.request("POST", f"{playlist}/entries", json={"videoId": video["videoId"]})
    assert appended.status_code == 201, appended.text


def _count(service: Service, tag: str) -> int:
    """Return the number of videos with a tag, from any page of the list."""
    page = _get(service, "/v1/tags?limit=100", "bob")
    items = list(page["items"])
    while page["nextCursor"]:
        page = _get(service, f"/v1/tags?limit=100&cursor={page['nextCursor']}", "bob")
        items += page["items"]
    return sum(item["count"] for item in items if item["tag"] == tag)


def test_video_enters_the_lists_at_its_publishAt_and_leaves_them_at_its_expiresAt(
    service: Service, unique: str
) -> None:
    video = _published(service, title="In time", tags=[unique], publishAt=int(time.time()) + 5)
    _put(service, _path(video, f"/credits/{unique}"), {"roles": [{"category": "actor"}], "ordering": 1})

    def visibility() -> tuple[bool, int, bool]:
        videos = _get(service, f"/v1/videos?tag={unique}", "bob")["items"]
        person = service.request("GET", f"/v1/people/{unique}/videos", "bob").status_code == 200
        return bool(videos), _count(service, unique), person

    eventually(visibility, lambda visible: visible == (True, 1, True))
    # On a busy machine, the time may have passed when the function reads the request. Then it returns 422.
    patched = eventually(
        lambda: service.request("PATCH", _path(video), json={"expiresAt": int(time.time()) + 5}),
        lambda response: response.status_code != 422,
    )
    assert patched.status_code == 200, patched.text
    eventually(visibility, lambda visible: visible == (False, 0, False))


def test_credits_move_to_the_changed_year_of_their_video(service: Service) -> None:
    video = _published(service, releaseYear=2001)
    role = {"roles": [{"category": "director"}], "ordering": 1}
    person = f"p-{video['videoId']}"
    _put(service, _path(video, f"/credits/{person}"), role)
    patched = service.request("PATCH", _path(video), json={"releaseYear": 2002})
    assert patched.status_code == 200
    later = f"/v1/people/{person}/videos?fromYear=2002&toYear=2002"

    def moved() -> bool:
        response = service.request("GET", later)
        # Before the credit has moved, the video is in neither year, and a person without videos is 404.
        assert response.status_code in (200, 404)
        return response.status_code == 200 and bool(response.json()["items"])

    eventually(moved)
    assert _get(service, f"/v1/people/{person}/videos?fromYear=2001&toYear=2001")["items"] == []


def test_tags_are_counted_while_their_videos_are_listed(service: Service, unique: str) -> None:
    videos = [_published(service, tags=[unique]) for _ in range(2)]
    eventually(lambda: _count(service, unique), lambda counted: counted == 2)
    assert service.request("DELETE", _path(videos[0])).status_code == 204
    eventually(lambda: _count(service, unique), lambda counted: counted == 1)


def test_stream_counts_each_view_key_and_each_rater_once(service: Service) -> None:
    video = _published(service)
    users = ("alice", "bob", "admin")
    for number in range(6):
        key = {"Idempotency-Key": f"{video['videoId']}-{number % 3}"}
        assert service.request("POST", _path(video, "/views"), "bob", headers=key).status_code == 200
    replies = service.at_once(
        6, "PUT", _path(video, "/rating"), user=lambda n: users[n % 3], json=lambda n: {"value": 1 + n % 3}
    )
    assert {reply.status_code for reply in replies} <= {200, 409}
    for number, user in enumerate(users):
        _put(service, _path(video, "/rating"), {"value": 8 + number}, user)
    eventually(lambda: _get(service, _path(video))["viewCount"], lambda count: count == 3)
    eventually(
        lambda: _get(service, _path(video, "/rating")), lambda totals: (totals["votes"], totals["average"]) == (3, 9)
    )


def test_totals_of_a_user_follow_creation_and_deletion(service: Service, unique: str) -> None:
    def totals() -> Any:
        return _get(service, f"/v1/users/{unique}", "admin")

    video = service.create("admin", userId=unique, duration=1000, fileSize=7)
    after = eventually(totals, lambda document: document["videos"]["uploaded"] == 1)
    assert after["bytes"] == 7
    assert service.request("DELETE", _path(video), "admin").status_code == 204
    eventually(totals, lambda document: (document["videos"]["uploaded"], document["videos"]["deleted"]) == (0, 1))


def test_removed_video_leaves_no_relation(service: Service, unique: str) -> None:
    video = _published(service, tags=[unique, f"{unique} 2"])
    playlist = _playlist(service)
    _append(service, playlist, video)
    _put(service, _path(video, "/rating"), {"like": True}, "bob")
    for number in range(PEOPLE):
        _put(service, _path(video, f"/credits/{unique}-{number}"), {"roles": [{"category": "actor"}], "ordering": 1})
    dynamodb = service.aws.client("dynamodb")
    partition = {"S": f"VIDEO#{video['videoId']}"}
    # as DynamoDB's TTL does, 90 days after the deletion
    dynamodb.delete_item(TableName=TABLE_NAME, Key={"pk": partition, "sk": {"S": "#META"}})

    def remaining() -> list[str]:
        page = dynamodb.query(
            TableName=TABLE_NAME,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": partition},
        )
        return [item["sk"]["S"] for item in page["Items"]]

    eventually(remaining, lambda keys: not keys)
    rating = {name: {"S": part} for name, part in rating_key(video["videoId"], service.subjects["bob"]).items()}
    eventually(lambda: dynamodb.get_item(TableName=TABLE_NAME, Key=rating), lambda response: "Item" not in response)
    eventually(lambda: _get(service, playlist), lambda document: document["entryCount"] == 0)
