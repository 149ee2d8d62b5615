"""Releases: the titles of a video in a region, and in a language of the region."""

from typing import Any

import pytest

from local.testbed.harness import Api, Reply, record_operations
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.relations.models import LARGEST_TITLES, content_bytes
from shared.schema import RELEASE, shard_of

VIDEO_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
PATH = f"/v1/videos/{VIDEO_ID}/releases"


@pytest.fixture(autouse=True)
def video(api: Api) -> None:
    api.publish("alice", videoId=VIDEO_ID, createdAt=1_000_000)


def titles(*names: str) -> dict[str, Any]:
    return {"titles": [{"title": name, "types": [], "attributes": []} for name in names]}


def put(api: Api, path: str, name: str = "The Piano", **options: Any) -> Reply:
    return api.put(f"{PATH}/{path}", titles(name), **options)


def keys(reply: Reply) -> list[tuple[str, str | None]]:
    assert reply.status == 200, reply.body
    return [(release["region"], release.get("language")) for release in reply.json["items"]]


def test_created_release_is_returned_as_sent(api: Api) -> None:
    sent = {"titles": [{"title": "Das Piano", "types": ["imdbDisplay"], "attributes": ["new title"]}]}

    reply = api.put(f"{PATH}/AT/de", sent)

    assert reply.status == 201
    stamps = {"version": 1, "updatedAt": int(api.clock())}
    assert reply.json == {"videoId": VIDEO_ID, "region": "AT", "language": "de", **sent, **stamps}
    read = api.get(f"{PATH}/AT/de")
    assert (read.json, read.etag) == (reply.json, reply.etag)
    assert api.get(f"{PATH}/AT/de", headers={"If-None-Match": reply.etag}).status == 304


def test_titles_of_a_region_may_have_no_language(api: Api) -> None:
    put(api, "NZ")
    put(api, "NZ/mi", "Te Piano")

    assert keys(api.get(f"{PATH}/NZ")) == [("NZ", None), ("NZ", "mi")]
    assert api.delete(f"{PATH}/NZ").status == 204
    assert keys(api.get(f"{PATH}/NZ")) == [("NZ", "mi")]
    assert api.delete(f"{PATH}/NZ").status == 404


@pytest.mark.parametrize("path", ["nz/en-nz", "Nz/EN-nZ", "NZ/en-NZ"])
def test_regions_and_languages_are_case_insensitive(api: Api, path: str) -> None:
    put(api, "NZ/en-NZ", "Before")

    reply = put(api, path)

    assert (reply.status, reply.json["region"], reply.json["language"]) == (200, "NZ", "en-NZ")
    assert len(keys(api.get(PATH))) == 1
    assert api.get(f"{PATH}/{path}").status == 200


@pytest.mark.parametrize("region", ["ZZ", "XX", "N", "NZL", "1", "NZ%20", "-"])
def test_unknown_region_is_refused(api: Api, region: str) -> None:
    for reply in (put(api, region), api.get(f"{PATH}/{region}"), put(api, f"{region}/en")):
        assert reply.status == 400
        assert reply.json["errors"][0]["parameter"] == "region"


@pytest.mark.parametrize("region", ["SUHH", "XWW", "XEU", "GB"])
def test_former_countries_and_the_world_are_regions(api: Api, region: str) -> None:
    assert put(api, region).status == 201


@pytest.mark.parametrize("language", ["-", "en_NZ", "1", "en-", "e" * 9, "en-" + "-".join(["aaaaaaaa"] * 4)])
def test_an_invalid_language_is_refused(api: Api, language: str) -> None:
    for reply in (put(api, f"NZ/{language}"), api.get(f"{PATH}/NZ/{language}")):
        assert reply.status == 400
        assert reply.json["errors"][0]["parameter"] == "language"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"titles": []}, "/titles"),
        ({"titles": [{"title": "x"}] * 21}, "/titles"),
        ({"titles": [{"title": ""}]}, "/titles/0/title"),
        ({"titles": [{"title": "x", "types": ["\n"]}]}, "/titles/0/types/0"),
        ({"titles": [{"title": "x"}], "region": "NZ"}, "/region"),
    ],
)
def test_an_invalid_release_is_refused_with_a_pointer(api: Api, body: Any, pointer: str) -> None:
    reply = api.put(f"{PATH}/NZ", body)
    assert reply.status == 422
    assert [error["pointer"] for error in reply.json["errors"]] == [pointer]


def test_total_size_of_the_titles_of_a_release_is_limited(api: Api) -> None:
    content = titles(*["é" * 90] * 18)
    last = content["titles"][-1]
    last["title"] += "x" * (LARGEST_TITLES - content_bytes(content["titles"]))
    assert content_bytes(content["titles"]) == LARGEST_TITLES
    assert api.put(f"{PATH}/NZ", content).status == 201

    last["title"] += "x"
    reply = api.put(f"{PATH}/NZ", content)

    assert (reply.status, [error["pointer"] for error in reply.json["errors"]]) == (422, ["/titles"])
    assert "4,000 bytes" in reply.json["errors"][0]["detail"]


def test_etag_of_a_recreated_release_differs(api: Api) -> None:
    old = put(api, "NZ/en").etag
    api.delete(f"{PATH}/NZ/en")
    put(api, "NZ/en", "Another")

    assert put(api, "NZ/en", "A third", headers={"If-Match": old}).status == 412
    assert api.delete(f"{PATH}/NZ/en", headers={"If-Match": old}).status == 412
    assert put(api, "NZ/en", "A third", headers={"If-Match": '"1"'}).status == 200


def test_releases_support_conditional_requests(api: Api) -> None:
    assert put(api, "NZ", headers={"If-Match": "*"}).status == 412
    first = put(api, "NZ", headers={"If-None-Match": "*"})
    assert first.status == 201
    assert put(api, "NZ", "Another", headers={"If-None-Match": "*"}).status == 412
    assert put(api, "NZ", "Another", headers={"If-Match": first.etag}).status == 200
    assert api.delete(f"{PATH}/NZ", headers={"If-Match": first.etag}).status == 412
    assert api.delete(f"{PATH}/NZ", headers={"If-Match": '"2"'}).status == 204


def test_deleted_video_accepts_no_releases(api: Api) -> None:
    api.delete(f"/v1/videos/{VIDEO_ID}")
    assert put(api, "NZ").status == 409
    assert api.delete(f"{PATH}/NZ").status == 409


def test_releases_are_listed_in_pages_by_region_and_language(api: Api) -> None:
    for path in ("NZ/mi", "AT/de", "NZ", "NZ/en", "DE/de"):
        put(api, path)

    listed = []
    cursor: str | None = ""
    while cursor is not None:
        page = api.get(PATH, query=f"limit=2{cursor and '&cursor=' + cursor}")
        listed += keys(page)
        cursor = page.json["nextCursor"]
        assert ("link" in page.headers) == (cursor is not None)

    assert listed == [("AT", "de"), ("DE", "de"), ("NZ", None), ("NZ", "en"), ("NZ", "mi")]


def test_page_that_dynamodb_ends_early_has_a_cursor(api: Api, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("AT", "DE", "NZ"):
        put(api, path)
    intercept(table.client, lambda operation, _, send: send(Limit=2) if operation == "Query" else send())
    first = api.get(PATH)
    second = api.get(PATH, query=f"cursor={first.json['nextCursor']}")

    assert keys(first) + keys(second) == [("AT", None), ("DE", None), ("NZ", None)]
    assert second.json["nextCursor"] is None


def test_cursor_of_one_region_is_refused_for_another(api: Api) -> None:
    for language in ("de", "en"):
        put(api, f"NZ/{language}")
    cursor = api.get(f"{PATH}/NZ", query="limit=1").json["nextCursor"]
    assert keys(api.get(f"{PATH}/NZ", query=f"cursor={cursor}")) == [("NZ", "en")]
    assert api.get(f"{PATH}/AU", query=f"cursor={cursor}").status == 400
    assert api.get(PATH, query=f"cursor={cursor}").status == 400


def test_release_is_indexed_by_its_region(api: Api, table: Table) -> None:
    with record_operations(table.client) as operations:
        put(api, "NZ/en")

    assert [operation.name for operation in operations] == ["BatchGetItem", "PutItem", "GetItem"]
    item = table.get(RELEASE.key(videoId=VIDEO_ID, region="NZ", language="en"))
    assert item is not None
    relation = {name: item[name] for name in ("rel", "relShard", "relSort", "relId")}
    assert relation == {
        "rel": "REGION#NZ",
        "relShard": shard_of(VIDEO_ID),
        "relSort": 1_000_000,
        "relId": f"{VIDEO_ID}#en",
    }
    assert not {"userId", "createdAt"} & item.keys()
