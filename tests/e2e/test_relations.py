"""People, titles, ratings, tags and playlists over HTTP, and what stream and queues make of them."""

import time
from typing import Any

import pytest

from shared.relations.ratings import rating_key
from shared.schema import TABLE_NAME
from tests.e2e.conftest import Service
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("e2e")

PEOPLE = 60
"""More than one page of a purge takes at a time."""


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
    published = {"userId": "alice", "status": "ready", "visibility": "public"}
    return service.create("admin", **(published | fields))


def _playlist(service: Service, title: str = "Evening") -> str:
    made = service.request("POST", "/v1/playlists", json={"title": title, "visibility": "public"})
    assert made.status_code == 201, made.text
    return f"/v1/playlists/{made.json()['playlistId']}"


def _append(service: Service, playlist: str, video: dict[str, Any]) -> None:
    appended = service.request("POST", f"{playlist}/entries", json={"videoId": video["videoId"]})
    assert appended.status_code == 201, appended.text


def _count(service: Service, tag: str) -> int:
    """How many videos have a tag, on whichever page of the list that is."""
    page = _get(service, "/v1/tags?limit=100", "bob")
    items = list(page["items"])
    while page["nextCursor"]:
        page = _get(service, f"/v1/tags?limit=100&cursor={page['nextCursor']}", "bob")
        items += page["items"]
    return sum(item["count"] for item in items if item["tag"] == tag)


def _entries(service: Service, playlist: str, user: str = "alice") -> list[str]:
    return [entry["videoId"] for entry in _get(service, f"{playlist}/entries", user)["items"]]


def _ada(film: dict[str, Any]) -> str:
    """The person in a film, who is in no other."""
    return f"ada-{film['videoId']}"


@pytest.fixture(scope="module")
def film(service: Service) -> dict[str, Any]:
    """A video of alice's with something of everything; tests leave it as it is."""
    film = _published(service, title="The Piano", releaseYear=1993, tags=["Drama"])
    role = {"roles": [{"category": "actress", "characters": ["Ada McGrath"]}], "ordering": 1}
    _put(service, _path(film, f"/credits/{_ada(film)}"), role)
    _put(service, _path(film, "/releases/NZ"), {"titles": [{"title": "The Piano (NZ)"}]})
    _put(service, _path(film, "/releases/FR/fr"), {"titles": [{"title": "La leçon de piano"}]})
    _put(service, _path(film, "/rating"), {"value": 9}, "bob")
    eventually(lambda: _get(service, _path(film, "/rating")), lambda rated: rated["votes"] == 1)
    return film


def test_a_video_enters_the_lists_at_its_publishAt_and_leaves_them_at_its_expiresAt(
    service: Service, unique: str
) -> None:
    film = _published(service, title="In time", tags=[unique], publishAt=int(time.time()) + 5)
    _put(service, _path(film, f"/credits/{unique}"), {"roles": [{"category": "actor"}], "ordering": 1})

    def found() -> tuple[bool, int, bool]:
        videos = _get(service, f"/v1/videos?tag={unique}", "bob")["items"]
        person = service.request("GET", f"/v1/people/{unique}/videos", "bob").status_code == 200
        return bool(videos), _count(service, unique), person

    eventually(found, lambda seen: seen == (True, 1, True))
    patched = service.request("PATCH", _path(film), json={"expiresAt": int(time.time()) + 5})
    assert patched.status_code == 200, patched.text
    eventually(found, lambda seen: seen == (False, 0, False))


class TestTitlePage:
    def test_a_title_page_has_relations_localised_titles_and_its_people(
        self, service: Service, film: dict[str, Any]
    ) -> None:
        page = _get(service, _path(film, "?include=credits,releases,ratings,tags,jobs"))
        assert page["title"] == "The Piano"
        assert [credit["personId"] for credit in page["included"]["credits"]["items"]] == [_ada(film)]
        assert len(page["included"]["releases"]["items"]) == 2
        assert (page["included"]["ratings"]["average"], page["included"]["ratings"]["votes"]) == (9, 1)
        assert _get(service, _path(film, "?region=NZ"))["localTitle"]["title"] == "The Piano (NZ)"
        french = service.request("GET", _path(film), headers={"Accept-Language": "fr-FR, en;q=0.5"}).json()
        assert french["localTitle"]["title"] == "La leçon de piano"
        found = _get(service, f"/v1/people/{_ada(film)}/videos?fromYear=1993&toYear=1993", "bob")
        assert [item["video"]["videoId"] for item in found["items"]] == [film["videoId"]]

    def test_a_changed_release_year_moves_the_credits(self, service: Service) -> None:
        film = _published(service, releaseYear=2001)
        role = {"roles": [{"category": "director"}], "ordering": 1}
        person = f"p-{film['videoId']}"
        _put(service, _path(film, f"/credits/{person}"), role)
        patched = service.request("PATCH", _path(film), json={"releaseYear": 2002})
        assert patched.status_code == 200
        later = f"/v1/people/{person}/videos?fromYear=2002&toYear=2002"

        def moved() -> bool:
            answer = service.request("GET", later)
            # Until its credit has moved, the film is in neither year, and a person without any film is not found.
            assert answer.status_code in (200, 404)
            return answer.status_code == 200 and bool(answer.json()["items"])

        eventually(moved)
        assert _get(service, f"/v1/people/{person}/videos?fromYear=2001&toYear=2001")["items"] == []


def test_tags_find_videos_in_any_spelling_and_are_counted_while_videos_are_listed(
    service: Service, unique: str
) -> None:
    films = [_published(service, tags=[f"Tag {unique}"]) for _ in range(2)]
    for spelling in (f"Tag%20{unique}", f"TAG%20{unique}"):
        page = _get(service, f"/v1/videos?tag={spelling}", "bob")
        assert {item["videoId"] for item in page["items"]} == {film["videoId"] for film in films}
    tag = f"tag {unique}"
    eventually(lambda: _count(service, tag), lambda counted: counted == 2)
    assert service.request("DELETE", _path(films[0])).status_code == 204
    eventually(lambda: _count(service, tag), lambda counted: counted == 1)


def test_a_playlist_keeps_its_order_and_hides_deleted_videos(service: Service) -> None:
    playlist = _playlist(service)
    films = [_published(service) for _ in range(3)]
    for film in films:
        _append(service, playlist, film)
    one, two, three = (film["videoId"] for film in films)
    moved = service.request("PATCH", f"{playlist}/entries/{three}", json={"after": one})
    assert moved.status_code == 200, moved.text
    assert _entries(service, playlist, "bob") == [one, three, two]
    assert service.request("DELETE", _path(films[2])).status_code == 204
    assert _entries(service, playlist) == [one, two]
    assert service.request("POST", _path(films[2], "/restore")).status_code == 200
    assert _entries(service, playlist) == [one, three, two]


class TestTotals:
    def test_totals_of_a_user_follow_the_user_s_videos(self, service: Service, unique: str) -> None:
        def totals() -> Any:
            return _get(service, f"/v1/users/{unique}", "admin")

        film = service.create("admin", userId=unique, duration=1000, fileSize=7)
        after = eventually(totals, lambda told: told["videos"]["uploaded"] == 1)
        assert after["bytes"] == 7
        assert service.request("DELETE", _path(film), "admin").status_code == 204
        eventually(totals, lambda told: (told["videos"]["uploaded"], told["videos"]["deleted"]) == (0, 1))


class TestBatches:
    def test_each_operation_of_a_batch_has_its_own_result(self, service: Service) -> None:
        mine, others = service.create(), service.create("bob")
        operations = [
            {"op": "create", "video": {"title": "In a batch"}},
            {"op": "patch", "videoId": mine["videoId"], "patch": {"title": "Changed"}},
            {"op": "delete", "videoId": others["videoId"]},
            {"op": "create", "video": {"title": ""}},
        ]
        reply = service.request("POST", "/v1/videos/batch", json={"operations": operations})
        assert reply.status_code == 200, reply.text
        assert [item["status"] for item in reply.json()["items"]] == [201, 200, 404, 422]
        made = reply.json()["items"][0]["videoId"]
        wanted = {"videoIds": [made, others["videoId"], mine["videoId"]]}
        answer = service.request("POST", "/v1/videos/batch-get", json=wanted).json()
        assert [video["title"] for video in answer["items"]] == ["In a batch", "Changed"]
        assert answer["missing"] == [others["videoId"]]


class TestTheEnd:
    def test_a_removed_video_leaves_no_relation(self, service: Service) -> None:
        film = _published(service, tags=["a", "b"])
        playlist = _playlist(service)
        _append(service, playlist, film)
        _put(service, _path(film, "/rating"), {"like": True}, "bob")
        for number in range(PEOPLE):
            _put(service, _path(film, f"/credits/p{number}"), {"roles": [{"category": "actor"}], "ordering": 1})
        dynamodb = service.aws.client("dynamodb")
        partition = {"S": f"VIDEO#{film['videoId']}"}
        # As TTL does it, 90 days after the deletion.
        dynamodb.delete_item(TableName=TABLE_NAME, Key={"pk": partition, "sk": {"S": "#META"}})

        def left() -> list[str]:
            page = dynamodb.query(
                TableName=TABLE_NAME,
                KeyConditionExpression="pk = :pk",
                ExpressionAttributeValues={":pk": partition},
            )
            return [item["sk"]["S"] for item in page["Items"]]

        eventually(left, lambda keys: not keys)
        rating = {name: {"S": part} for name, part in rating_key(film["videoId"], "bob").items()}
        eventually(lambda: dynamodb.get_item(TableName=TABLE_NAME, Key=rating), lambda found: "Item" not in found)
        eventually(lambda: _get(service, playlist), lambda told: told["entryCount"] == 0)
