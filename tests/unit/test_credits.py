"""Credits: the people in a video, and their other videos."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from local.testbed.harness import NOW, Api, Reply, record_operations
from shared.aws.dynamodb import Table, Write
from shared.aws.listing import Lists
from shared.core.attributes import Item
from shared.core.position import Page
from shared.relations import credits as relations
from shared.relations import entry_updates
from shared.relations.children import children_of
from shared.relations.entry_updates import EntryUpdater
from shared.relations.models import LARGEST_ROLES, content_bytes
from shared.schema import CREDIT, VIDEO

SAM: dict[str, Any] = {
    "name": "Sam Neill",
    "ordering": 2,
    "roles": [{"category": "actor", "characters": ["Alisdair Stewart"]}],
}
HOLLY: dict[str, Any] = {"ordering": 1, "roles": [{"category": "actress", "job": "pianist", "characters": ["Ada"]}]}
NewVideo = Callable[..., str]


@pytest.fixture
def new_video(api: Api) -> NewVideo:
    """Return a function that publishes a video of alice's with the given fields, and returns the video's id."""
    return lambda **fields: str(api.publish("alice", **fields)["videoId"])


def put(api: Api, video_id: str, person: str = "sam", credit: Any = None, **options: Any) -> Reply:
    return api.put(f"/v1/videos/{video_id}/credits/{person}", SAM if credit is None else credit, **options)


def credits_of(api: Api, video_id: str, **options: Any) -> Reply:
    return api.get(f"/v1/videos/{video_id}/credits", **options)


def videos_of(api: Api, person: str = "sam", query: str = "", **options: Any) -> Reply:
    return api.get(f"/v1/people/{person}/videos", query=query, **options)


def years_of(reply: Reply) -> list[int | None]:
    assert reply.status == 200, reply.body
    return [item.get("releaseYear") for item in reply.json["items"]]


def sort_of(table: Table, video_id: str, person: str = "sam") -> int:
    item = table.get(CREDIT.key(videoId=video_id, personId=person), consistent=True)
    assert item is not None
    return int(item["relSort"])


# Writing ------------------------------------------------------------------------------------------------------------


def test_created_credit_is_returned_as_sent(api: Api, new_video: NewVideo) -> None:
    video_id = new_video()

    reply = put(api, video_id)

    assert reply.status == 201
    assert reply.json == {"videoId": video_id, "personId": "sam", **SAM, "version": 1, "updatedAt": int(api.clock())}
    assert reply.etag.startswith('"1.')
    assert credits_of(api, video_id).json == {"items": [reply.json], "nextCursor": None}


def test_second_put_replaces_the_complete_credit(api: Api, new_video: NewVideo) -> None:
    video_id = new_video()
    put(api, video_id)

    reply = put(api, video_id, credit=HOLLY)

    assert reply.status == 200
    assert (reply.json["version"], reply.json["ordering"]) == (2, 1)
    assert "name" not in reply.json
    assert credits_of(api, video_id).json["items"] == [reply.json]


def test_identical_put_of_a_credit_writes_nothing(api: Api, new_video: NewVideo, table: Table) -> None:
    video_id = new_video()
    first = put(api, video_id)
    api.clock.advance(10)

    with record_operations(table.client) as operations:
        repeated = put(api, video_id)

    assert (repeated.status, repeated.json, repeated.etag) == (200, first.json, first.etag)
    assert {operation.name for operation in operations} == {"BatchGetItem", "GetItem"}


def test_if_none_match_creates_and_never_replaces(api: Api, new_video: NewVideo) -> None:
    video_id = new_video()
    assert put(api, video_id, headers={"If-None-Match": "*"}).status == 201
    assert put(api, video_id, credit=HOLLY, headers={"If-None-Match": "*"}).status == 412
    assert put(api, video_id, credit=HOLLY, headers={"If-None-Match": '"1"'}).status == 412
    assert put(api, video_id, credit=HOLLY, headers={"If-None-Match": '"7"'}).status == 200


def test_credit_write_with_a_lost_response_counts_once(
    api: Api, new_video: NewVideo, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    video_id = new_video()
    put_item, losses = table.client.put_item, [True]

    def lose_the_first_response(**parameters: Any) -> Any:
        response = put_item(**parameters)
        if losses.pop() if losses else False:
            raise ReadTimeoutError(endpoint_url="dynamodb")
        return response

    monkeypatch.setattr(table.client, "put_item", lose_the_first_response)
    reply = put(api, video_id)

    assert (reply.status, reply.json["version"]) == (201, 1)


def test_credit_removed_while_it_is_replaced_is_created(
    api: Api, new_video: NewVideo, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    video_id = new_video()
    put(api, video_id)
    write = Table.write

    def interrupted(self: Table, change: Write, **options: Any) -> Any:
        monkeypatch.setattr(Table, "write", write)
        api.delete(f"/v1/videos/{video_id}/credits/sam")
        return write(self, change, **options)

    monkeypatch.setattr(Table, "write", interrupted)
    reply = put(api, video_id, credit=HOLLY)

    assert (reply.status, reply.json["version"]) == (201, 1)
    assert credits_of(api, video_id).json["items"] == [reply.json]


def test_credit_is_removed_once(api: Api, new_video: NewVideo) -> None:
    video_id = new_video()
    put(api, video_id)

    assert api.delete(f"/v1/videos/{video_id}/credits/sam", headers={"If-Match": '"9"'}).status == 412
    assert api.delete(f"/v1/videos/{video_id}/credits/sam").status == 204
    assert api.delete(f"/v1/videos/{video_id}/credits/sam").status == 404
    assert credits_of(api, video_id).json["items"] == []
    assert videos_of(api).status == 404


def test_credit_removal_with_a_lost_response_succeeds(
    api: Api, new_video: NewVideo, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    video_id = new_video()
    put(api, video_id)
    delete_item, losses = table.client.delete_item, [True]

    def lose_the_first_response(**parameters: Any) -> Any:
        response = delete_item(**parameters)
        if losses.pop() if losses else False:
            raise ReadTimeoutError(endpoint_url="dynamodb")
        return response

    monkeypatch.setattr(table.client, "delete_item", lose_the_first_response)

    assert api.delete(f"/v1/videos/{video_id}/credits/sam").status == 204


def test_deleted_video_accepts_no_credits(api: Api, new_video: NewVideo) -> None:
    video_id = new_video()
    put(api, video_id)
    api.delete(f"/v1/videos/{video_id}")

    for reply in (put(api, video_id, credit=HOLLY), api.delete(f"/v1/videos/{video_id}/credits/sam")):
        assert (reply.status, reply.slug) == (409, "illegal-transition")
    assert [credit["personId"] for credit in credits_of(api, video_id).json["items"]] == ["sam"]


@pytest.mark.parametrize(
    ("credit", "pointer"),
    [
        ({}, "/ordering"),
        (SAM | {"ordering": 0}, "/ordering"),
        (SAM | {"roles": []}, "/roles"),
        (SAM | {"roles": [{"category": "actor"}] * 21}, "/roles"),
        (SAM | {"roles": [{"category": ""}]}, "/roles/0/category"),
        (SAM | {"roles": [{"category": "actor", "characters": ["\n"]}]}, "/roles/0/characters/0"),
        (SAM | {"version": 3}, "/version"),
    ],
)
def test_invalid_credit_is_refused_with_a_pointer(api: Api, new_video: NewVideo, credit: Any, pointer: str) -> None:
    video_id = new_video()
    reply = put(api, video_id, credit=credit)
    assert reply.status == 422
    assert pointer in [error["pointer"] for error in reply.json["errors"]]
    assert credits_of(api, video_id).json["items"] == []


@pytest.mark.parametrize("person", ["a" * 65, "a%20b", "a:b"])
def test_invalid_person_id_is_400(api: Api, new_video: NewVideo, person: str) -> None:
    video_id = new_video()
    for reply in (put(api, video_id, person), videos_of(api, person)):
        assert reply.status == 400
        assert reply.json["errors"][0]["parameter"] == "personId"


def test_etag_of_a_recreated_credit_differs(api: Api, new_video: NewVideo) -> None:
    video_id = new_video()
    old = put(api, video_id).etag
    api.delete(f"/v1/videos/{video_id}/credits/sam")
    new = put(api, video_id, credit=HOLLY).etag

    assert (old[:3], new[:3]) == ('"1.', '"1.')
    assert put(api, video_id, headers={"If-Match": old}).status == 412
    assert put(api, video_id, headers={"If-Match": f"W/{new}"}).status == 412
    assert api.delete(f"/v1/videos/{video_id}/credits/sam", headers={"If-Match": old}).status == 412
    assert put(api, video_id, credit=HOLLY, headers={"If-None-Match": f"{old}, {new}"}).status == 412
    assert put(api, video_id, credit=HOLLY, headers={"If-None-Match": old}).status == 200
    assert put(api, video_id, headers={"If-Match": f"{old}, {new}"}).status == 200


def test_total_size_of_the_roles_of_a_credit_is_limited(api: Api, new_video: NewVideo) -> None:
    video_id = new_video()
    roles: list[dict[str, Any]] = [
        {"category": "a", "characters": ["é" * 140] * 20},
        {"category": "a", "characters": ["é" * 140] * 7},
        {"category": "a", "job": "x", "characters": []},
    ]
    roles[-1]["job"] += "x" * (LARGEST_ROLES - content_bytes(roles))
    assert put(api, video_id, credit={"ordering": 1, "roles": roles}).status == 201

    roles[-1]["job"] += "x"
    reply = put(api, video_id, credit={"ordering": 1, "roles": roles})

    assert (reply.status, [error["pointer"] for error in reply.json["errors"]]) == (422, ["/roles"])
    assert "8,000 bytes" in reply.json["errors"][0]["detail"]


def test_hundred_of_the_largest_credits_fit_the_response_limit(api: Api, new_video: NewVideo) -> None:
    video_id = new_video(title='"' * 300, category='"' * 100)
    roles = [{"category": "a", "characters": ['"' * 300] * 4} for _ in range(3)]
    assert put(api, video_id, credit={"name": '"' * 200, "ordering": 1, "roles": roles}).status == 201
    assert content_bytes(roles) > 0.9 * LARGEST_ROLES

    for reply in (credits_of(api, video_id), videos_of(api)):
        assert 100 * len(json.dumps(reply.body.decode(), ensure_ascii=False).encode()) < 5_000_000


# Reading ------------------------------------------------------------------------------------------------------------


def test_credits_are_listed_in_pages_by_person_id(api: Api, new_video: NewVideo) -> None:
    video_id = new_video()
    for number, person in enumerate("dbeca"):
        put(api, video_id, person, SAM | {"ordering": number + 1})

    listed, pages = [], 0
    cursor: str | None = ""
    while cursor is not None:
        page = credits_of(api, video_id, query=f"limit=2{cursor and '&cursor=' + cursor}").json
        listed += [credit["personId"] for credit in page["items"]]
        cursor, pages = page["nextCursor"], pages + 1

    assert (listed, pages) == (list("abcde"), 3)


def test_cursor_of_credits_is_valid_only_for_its_video_and_caller(api: Api, new_video: NewVideo) -> None:
    video_id, other = new_video(), new_video()
    for person in "ab":
        put(api, video_id, person)
    cursor = credits_of(api, video_id, query="limit=1").json["nextCursor"]

    assert credits_of(api, other, query=f"cursor={cursor}").status == 400
    assert credits_of(api, video_id, query=f"cursor={cursor}", user="bob").status == 400
    assert api.get(f"/v1/videos/{video_id}/releases", query=f"cursor={cursor}").status == 400


def test_single_credit_is_read_by_its_person(api: Api, new_video: NewVideo) -> None:
    video_id = new_video()
    sent = put(api, video_id)
    path = f"/v1/videos/{video_id}/credits"

    read = api.get(f"{path}/sam", user="bob")

    assert (read.status, read.json, read.etag) == (200, sent.json, sent.etag)
    assert api.get(f"{path}/sam", headers={"If-None-Match": sent.etag}).status == 304
    assert api.get(f"{path}/nobody").status == 404
    assert api.get(f"{path}/sam", query="x=1").status == 400
    api.patch(f"/v1/videos/{video_id}", {"visibility": "private"})
    assert api.get(f"{path}/sam", user="bob").status == 404


# The videos of a person ---------------------------------------------------------------------------------------------


def test_videos_of_a_person_have_the_roles(api: Api, new_video: NewVideo) -> None:
    video_id = new_video(title="The Piano", releaseYear=1993)
    put(api, video_id)

    reply = videos_of(api, user="bob")

    (item,) = reply.json["items"]
    assert item["video"]["title"] == "The Piano"
    assert item["video"]["videoId"] == video_id
    assert "releaseYear" not in item["video"]
    assert (item["releaseYear"], item["credit"]) == (1993, SAM)
    assert reply.json["nextCursor"] is None


def test_year_range_includes_both_years(api: Api, new_video: NewVideo) -> None:
    for year in (1989, 1990, 1995, 1999, 2000):
        put(api, new_video(releaseYear=year))
    put(api, new_video())

    assert years_of(videos_of(api, query="fromYear=1990&toYear=1999")) == [1999, 1995, 1990]
    assert years_of(videos_of(api, query="fromYear=1990&toYear=1999&order=asc")) == [1990, 1995, 1999]
    assert years_of(videos_of(api, query="fromYear=1999")) == [2000, 1999]
    assert years_of(videos_of(api, query="toYear=1989")) == [1989]
    assert years_of(videos_of(api)) == [2000, 1999, 1995, 1990, 1989, None]


@pytest.mark.parametrize("query", ["fromYear=2000&toYear=1999", "fromYear=0", "toYear=10000", "fromYear=x", "year=1"])
def test_invalid_year_range_is_400(api: Api, query: str) -> None:
    assert videos_of(api, query=query).status == 400


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_pages_of_a_person_are_full_though_videos_are_hidden(api: Api, new_video: NewVideo, order: str) -> None:
    visible = []
    for number in range(12):
        if number % 3:
            video_id = str(api.create("alice", releaseYear=1990)["videoId"])
        else:
            video_id = new_video(releaseYear=1990)
            visible.append(video_id)
        put(api, video_id)

    listed, sizes = [], []
    cursor: str | None = ""
    while cursor is not None:
        query = f"limit=2&order={order}&fromYear=1990{cursor and '&cursor=' + cursor}"
        page = videos_of(api, query=query, user="bob").json
        listed += [item["video"]["videoId"] for item in page["items"]]
        sizes.append(len(page["items"]))
        cursor = page["nextCursor"]

    assert listed == sorted(visible, reverse=order == "desc")
    assert sizes == [2, 2]


def test_person_with_only_hidden_videos_is_404(api: Api) -> None:
    put(api, api.create("alice", releaseYear=1990)["videoId"])

    unknown = videos_of(api, "nobody", user="bob")

    for user in ("bob", "alice", "admin"):
        hidden = videos_of(api, user=user)
        assert (hidden.status, hidden.body) == (404, unknown.body)
    assert videos_of(api, query="fromYear=1980", user="bob").body == unknown.body


def test_year_range_without_credits_of_a_person_is_an_empty_list(api: Api, new_video: NewVideo) -> None:
    put(api, new_video(releaseYear=1990))
    reply = videos_of(api, query="fromYear=2000", user="bob")
    assert (reply.status, reply.json) == (200, {"items": [], "nextCursor": None})


def test_deleted_video_is_removed_from_person_lists_at_once(api: Api, new_video: NewVideo) -> None:
    put(api, new_video(releaseYear=1990))
    video_id = new_video(releaseYear=1991)
    put(api, video_id)
    api.delete(f"/v1/videos/{video_id}")
    assert years_of(videos_of(api)) == [1990]


def test_cursor_of_a_person_is_valid_only_for_its_years(api: Api, new_video: NewVideo) -> None:
    for year in (1990, 1991):
        put(api, new_video(releaseYear=year))
    cursor = videos_of(api, query="limit=1&fromYear=1990").json["nextCursor"]
    assert years_of(videos_of(api, query=f"limit=1&fromYear=1990&cursor={cursor}")) == [1990]
    assert videos_of(api, query=f"limit=1&cursor={cursor}").status == 400


def test_video_during_a_move_to_another_year_is_listed_once(
    api: Api, new_video: NewVideo, monkeypatch: pytest.MonkeyPatch
) -> None:
    video_id = new_video(releaseYear=1990)
    put(api, video_id)
    related = Lists.related

    def with_the_former_entry(self: Lists, *arguments: Any) -> Page[Item]:
        page = related(self, *arguments)
        return Page([*page.items, *(item | {"relSort": 1980} for item in page.items)], page.resume)

    monkeypatch.setattr(Lists, "related", with_the_former_entry)

    assert years_of(videos_of(api)) == [1990]


# Years --------------------------------------------------------------------------------------------------------------


def test_all_credits_are_moved_to_the_new_year(
    api: Api, new_video: NewVideo, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_updates, "MOVED_AT_A_TIME", 2)
    video_id = new_video(releaseYear=1990)
    for person in "abcde":
        put(api, video_id, person)
    api.patch(f"/v1/videos/{video_id}", {"releaseYear": 1991})

    assert EntryUpdater(table).update_entries(video_id, NOW) is None
    assert [sort_of(table, video_id, person) for person in "abcde"] == [1991] * 5
    assert {credit["version"] for credit in credits_of(api, video_id).json["items"]} == {1}


def test_deleted_credit_is_not_moved(
    api: Api, new_video: NewVideo, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    video_id = new_video(releaseYear=1990)
    put(api, video_id)
    api.patch(f"/v1/videos/{video_id}", {"releaseYear": 1991})

    def read_then_remove(*arguments: Any, **options: Any) -> Any:
        children = children_of(*arguments, **options)
        api.delete(f"/v1/videos/{video_id}/credits/sam")
        return children

    monkeypatch.setattr(entry_updates, "children_of", read_then_remove)

    assert EntryUpdater(table).update_entries(video_id, NOW) is None
    assert table.get(CREDIT.key(videoId=video_id, personId="sam")) is None


def test_credit_written_during_a_year_change_has_the_new_year(
    api: Api, new_video: NewVideo, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    video_id = new_video(releaseYear=1990)
    write = Table.write

    def interrupted(self: Table, change: Write, **options: Any) -> Any:
        if change.kind == "Put":
            # The year changes, and all stored credits are moved, before this credit is stored.
            monkeypatch.setattr(Table, "write", write)
            api.patch(f"/v1/videos/{video_id}", {"releaseYear": 1991})
            EntryUpdater(table).update_entries(video_id, NOW)
        return write(self, change, **options)

    monkeypatch.setattr(Table, "write", interrupted)
    assert put(api, video_id).status == 201

    assert sort_of(table, video_id) == 1991


def test_outdated_year_is_not_restored(
    api: Api, new_video: NewVideo, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    video_id = new_video(releaseYear=1990)
    get = Table.get
    reads: list[Any] = []

    def interrupted(self: Table, key: Any, **options: Any) -> Any:
        item = get(self, key, **options)
        if options.get("attributes") == relations.PLACING_ATTRIBUTES and not reads:
            # After the second read of the year, the year changes again and the credits are moved.
            reads.append(key)
            api.patch(f"/v1/videos/{video_id}", {"releaseYear": 1992})
            EntryUpdater(table).update_entries(video_id, NOW)
            return (item or {}) | {"releaseYear": 1991}
        return item

    monkeypatch.setattr(Table, "get", interrupted)
    put(api, video_id)

    assert reads == [VIDEO.key(videoId=video_id)]
    assert sort_of(table, video_id) == 1992
