"""Playlists: access, order of entries, and entries of deleted videos."""

import random
from typing import Any
from urllib.parse import urlencode

import jsonschema_rs
import pytest

from local.testbed.harness import NOW, Api, Reply, record_operations
from shared.aws.dynamodb import Table
from shared.aws.failures import ConditionFailed, TransactionConflict
from shared.core.attributes import Item, decode_item
from shared.core.caller import Caller
from shared.core.errors import NotFound
from shared.openapi.document import document
from shared.relations import playlist_entries, playlists, ranks
from shared.schema import ENTRY, PLAYLIST, PROFILE, TTL_ATTRIBUTE, VIDEO

MISSING = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
KEY = {"Idempotency-Key": "k1"}


def _publish(api: Api, count: int, **fields: Any) -> list[str]:
    """Publish videos with consecutive ids, and return the ids."""
    return [
        str(api.publish(videoId=f"{number:08d}-0000-4000-8000-000000000000", **fields)["videoId"])
        for number in range(count)
    ]


def _playlist(api: Api, *video_ids: str, user: str = "alice", **fields: Any) -> str:
    """Create a playlist with these videos, and return its path."""
    reply = api.post("/v1/playlists", {"title": "A list"} | fields, user=user)
    assert reply.status == 201, reply.body
    path = f"/v1/{reply.headers['location']}"
    for video_id in video_ids:
        assert _append(api, path, video_id, user=user).status == 201
    return path


def _append(api: Api, path: str, video_id: str, **options: Any) -> Reply:
    return api.post(f"{path}/entries", {"videoId": video_id}, **options)


def _pages(api: Api, path: str, limit: int = 100, query: str = "", **options: Any) -> list[list[dict[str, Any]]]:
    """Read all pages of a list."""
    pages = []
    cursor = None
    while True:
        following = urlencode({"limit": limit} | ({"cursor": cursor} if cursor else {}))
        reply = api.get(path, query="&".join(part for part in (query, following) if part), **options)
        assert reply.status == 200, reply.body
        pages.append(reply.json["items"])
        cursor = reply.json["nextCursor"]
        if cursor is None:
            return pages


def _order(api: Api, path: str, limit: int = 100, **options: Any) -> list[str]:
    """Return the videos of a playlist in listed order."""
    return [entry["videoId"] for page in _pages(api, f"{path}/entries", limit, **options) for entry in page]


def _ids(api: Api, path: str, **options: Any) -> list[str]:
    return [item["playlistId"] for page in _pages(api, path, **options) for item in page]


def _items(table: Table) -> list[Item]:
    pages: Any = table.client.get_paginator("scan").paginate(TableName=table.name)
    return [decode_item(item) for page in pages for item in page["Items"]]


def _id(path: str) -> str:
    return path.rpartition("/")[2]


def _conforms(name: str, content: Any) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": document()["components"]}
    jsonschema_rs.Draft202012Validator(schema).validate(content)


class TestPlaylists:
    def test_a_new_playlist_is_the_callers_own_private_and_empty(self, api: Api) -> None:
        reply = api.post("/v1/playlists", {"title": "Mine", "description": "All of it."})
        assert reply.status == 201
        created = reply.json
        assert reply.headers["location"] == f"playlists/{created['playlistId']}"
        assert {name: created[name] for name in ("userId", "title", "visibility", "entryCount", "version")} == {
            "userId": "alice",
            "title": "Mine",
            "visibility": "private",
            "entryCount": 0,
            "version": 1,
        }
        _conforms("Playlist", created)
        read = api.get(f"/v1/playlists/{created['playlistId']}")
        assert (read.json, read.etag) == (created, reply.etag)

    def test_two_posts_create_two_playlists(self, api: Api) -> None:
        assert _playlist(api) != _playlist(api)
        assert len(_ids(api, "/v1/playlists")) == 2

    def test_repeated_post_with_a_key_creates_one_playlist(self, api: Api) -> None:
        first, second = (api.post("/v1/playlists", {"title": "t"}, headers=KEY) for _ in range(2))
        assert (second.status, second.body, second.etag) == (201, first.body, first.etag)
        assert _ids(api, "/v1/playlists") == [first.json["playlistId"]]
        other = api.post("/v1/playlists", {"title": "u"}, headers=KEY)
        assert (other.status, other.slug) == (422, "idempotency-key-reused")

    def test_number_of_playlists_per_owner_is_limited(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(playlists, "MAX_PLAYLISTS", 2)
        path, _ = _playlist(api), _playlist(api)
        refused = api.post("/v1/playlists", {"title": "t"})
        assert (refused.status, refused.slug) == (409, "limit-reached")
        assert len(_ids(api, "/v1/playlists")) == 2
        assert api.delete(path).status == 204
        assert api.post("/v1/playlists", {"title": "t"}).status == 201

    def test_profile_counts_the_owners_playlists(self, api: Api, table: Table) -> None:
        paths = [_playlist(api) for _ in range(3)]
        api.delete(paths[0], user="admin")
        api.delete(paths[0])
        profile = table.get(PROFILE.key(userId="alice"))
        assert profile is not None
        assert (profile["playlists"], profile["version"], profile["relId"]) == (2, 4, "alice")

    def test_patch_replaces_fields_and_null_removes_them(self, api: Api) -> None:
        path = _playlist(api, description="Old")
        api.clock.advance(10)
        reply = api.patch(path, {"title": "New", "description": None, "visibility": "public"})
        assert reply.status == 200
        assert (reply.json["title"], reply.json["visibility"], reply.json["version"]) == ("New", "public", 2)
        assert "description" not in reply.json
        assert reply.json["updatedAt"] == reply.json["createdAt"] + 10
        read = api.get(path)
        assert (read.json, read.etag) == (reply.json, reply.etag)

    def test_patch_without_changes_creates_no_version(self, api: Api) -> None:
        path = _playlist(api)
        assert api.patch(path, {"title": "A list"}).json["version"] == 1

    @pytest.mark.parametrize(
        "body", [{"title": None}, {"title": ""}, {"visibility": "secret"}, {"userId": "bob"}, {"entryCount": 7}]
    )
    def test_a_patch_with_a_fault_changes_nothing(self, api: Api, body: dict[str, Any]) -> None:
        path = _playlist(api)
        reply = api.patch(path, body)
        assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, f"/{next(iter(body))}")
        assert api.get(path).json["version"] == 1

    def test_matching_etag_of_a_playlist_returns_304(self, api: Api) -> None:
        path = _playlist(api)
        assert api.get(path, headers={"If-None-Match": api.get(path).etag}).status == 304

    def test_a_deleted_playlist_is_removed_and_can_be_restored_until_30_days_later(
        self, api: Api, table: Table
    ) -> None:
        path, alice, end = _playlist(api), Caller("alice", frozenset()), NOW + 30 * 86_400
        playlist_id, store = path.rpartition("/")[2], playlists.PlaylistStore(table)
        api.delete(path)
        assert (table.get(PLAYLIST.key(playlistId=playlist_id)) or {})[TTL_ATTRIBUTE] == end
        with pytest.raises(NotFound):
            store.restore(playlist_id, alice, end)
        assert store.restore(playlist_id, alice, end - 1)["title"] == "A list"
        assert TTL_ATTRIBUTE not in (table.get(PLAYLIST.key(playlistId=playlist_id)) or {})

    def test_deleted_playlist_is_404_with_its_entries(self, api: Api) -> None:
        (video_id,) = _publish(api, 1)
        path = _playlist(api, video_id, visibility="public")
        assert api.delete(path).status == 204
        for method, target in (
            ("GET", path),
            ("DELETE", path),
            ("GET", f"{path}/entries"),
            ("DELETE", f"{path}/entries/{video_id}"),
        ):
            assert api.request(method, target).status == 404
        assert _ids(api, "/v1/playlists") == _ids(api, f"/v1/videos/{video_id}/playlists") == []


class TestListOfPlaylists:
    def test_playlists_are_listed_newest_or_oldest_first_in_pages(self, api: Api) -> None:
        created = []
        for _ in range(5):
            created.append(_id(_playlist(api)))
            api.clock.advance(1)
        pages = _pages(api, "/v1/playlists", limit=2)
        assert [len(page) for page in pages] == [2, 2, 1]
        assert [item["playlistId"] for page in pages for item in page] == created[::-1]
        assert _ids(api, "/v1/playlists", query="order=asc") == created
        _conforms("PlaylistPage", {"items": pages[0], "nextCursor": None})

    def test_other_users_see_full_pages_of_public_playlists(self, api: Api) -> None:
        public = {
            _id(_playlist(api, visibility=visibility))
            for visibility in ("public", "private") * 4
            if visibility == "public"
        }
        hidden = [_playlist(api) for _ in range(3)]
        pages = _pages(api, "/v1/playlists", limit=2, query="userId=alice", user="bob")
        assert [len(page) for page in pages] == [2, 2]
        assert {item["playlistId"] for page in pages for item in page} == public
        assert len(_ids(api, "/v1/playlists", query="userId=alice", user="admin")) == len(public) + len(hidden)
        assert _ids(api, "/v1/playlists", user="bob") == []

    def test_playlist_list_shows_the_current_state(self, api: Api) -> None:
        path = _playlist(api)
        api.patch(path, {"title": "New", "description": "Now."})
        assert _pages(api, "/v1/playlists") == [[api.get(path).json]]

    @pytest.mark.parametrize("query", ["limit=0", "limit=101", "order=up", "userId=", "status=ready", "cursor=x"])
    def test_bad_parameters_are_refused(self, api: Api, query: str) -> None:
        assert api.get("/v1/playlists", query=query).status == 400

    def test_a_cursor_belongs_to_its_list_and_caller(self, api: Api) -> None:
        for _ in range(2):
            _playlist(api, visibility="public")
        cursor = api.get("/v1/playlists", query="limit=1&userId=alice").json["nextCursor"]
        follow = {"limit": 1, "cursor": cursor}
        for user, query in (("bob", {"userId": "alice"}), ("alice", {"userId": "alice", "order": "asc"})):
            reply = api.get("/v1/playlists", query=urlencode(query | follow), user=user)
            assert (reply.status, reply.slug) == (400, "invalid-cursor")
        # the default owner is the caller, so this is the same list
        assert api.get("/v1/playlists", query=urlencode(follow)).status == 200


class TestEntries:
    def test_videos_are_appended_in_order(self, api: Api) -> None:
        video_ids = _publish(api, 3)
        path = _playlist(api, *video_ids)
        assert _order(api, path) == video_ids
        playlist = api.get(path).json
        assert (playlist["entryCount"], playlist["version"]) == (3, 4)

    def test_an_entry_is_listed_with_its_video(self, api: Api) -> None:
        video_id = api.publish(title="Alien", duration=7_020_000)
        path = _playlist(api, video_id["videoId"])
        reply = api.get(f"{path}/entries")
        ((entry,),) = [reply.json["items"]]
        assert entry["addedAt"] == api.get(path).json["createdAt"]
        assert {**video_id, **entry["video"]} == video_id
        assert entry["video"]["title"] == "Alien"
        _conforms("EntryPage", reply.json)

    def test_entries_have_thumbnail_urls(self, api: Api) -> None:
        uri = "s3://media/thumbnails/v/x/poster.jpg"
        video_id = api.publish(thumbnails={"poster": {"url": uri}})
        path = _playlist(api, video_id["videoId"])
        (entry,) = api.get(f"{path}/entries").json["items"]
        assert entry["video"]["poster"].startswith("https://pictures.example/thumbnails/v/")

    def test_pages_follow_each_other_in_order(self, api: Api) -> None:
        video_ids = _publish(api, 7)
        path = _playlist(api, *video_ids)
        pages = _pages(api, f"{path}/entries", limit=3)
        assert [len(page) for page in pages] == [3, 3, 1]
        assert _order(api, path, limit=3) == video_ids

    def test_full_last_page_has_no_cursor(self, api: Api) -> None:
        path = _playlist(api, *_publish(api, 4))
        assert [len(page) for page in _pages(api, f"{path}/entries", limit=2)] == [2, 2]

    def test_hidden_videos_are_omitted_from_full_pages(self, api: Api) -> None:
        video_ids = _publish(api, 8)
        path = _playlist(api, *video_ids, visibility="public")
        for video_id in video_ids[1:7:2]:
            api.patch(f"/v1/videos/{video_id}", {"visibility": "private"})
        visible = [video_ids[0], video_ids[2], video_ids[4], video_ids[6], video_ids[7]]
        assert _order(api, path, limit=2, user="bob") == visible
        assert [len(page) for page in _pages(api, f"{path}/entries", 2, user="bob")] == [2, 2, 1]
        assert _order(api, path, limit=2) == video_ids

    def test_entry_count_is_shown_to_owner_and_admins_only(self, api: Api) -> None:
        video_id = api.publish()["videoId"]
        path = _playlist(api, video_id, visibility="public")
        counts = {user: api.get(path, user=user).json.get("entryCount") for user in ("alice", "admin", "bob")}
        assert counts == {"alice": 1, "admin": 1, "bob": None}
        for listed in ("/v1/playlists", f"/v1/videos/{video_id}/playlists"):
            (playlist,) = api.get(listed, query="userId=alice" if listed == "/v1/playlists" else "", user="bob").json[
                "items"
            ]
            assert "entryCount" not in playlist

    def test_deleted_video_is_hidden_until_restored(self, api: Api) -> None:
        video_ids = _publish(api, 3)
        path = _playlist(api, *video_ids)
        api.delete(f"/v1/videos/{video_ids[1]}")
        assert _order(api, path) == _order(api, path, user="admin") == [video_ids[0], video_ids[2]]
        api.post(f"/v1/videos/{video_ids[1]}/restore")
        assert _order(api, path) == video_ids

    def test_removed_video_is_not_listed(self, api: Api, table: Table) -> None:
        video_ids = _publish(api, 2)
        path = _playlist(api, *video_ids)
        table.delete(VIDEO.key(videoId=video_ids[0]))
        assert _order(api, path) == video_ids[1:]

    def test_second_append_of_a_video_is_refused(self, api: Api) -> None:
        video_ids = _publish(api, 2)
        path = _playlist(api, *video_ids)
        second = _append(api, path, video_ids[0])
        assert (second.status, second.slug) == (409, "already-exists")
        assert _order(api, path) == video_ids
        assert api.get(path).json["entryCount"] == 2

    def test_a_video_that_the_caller_cannot_see_is_not_appended(self, api: Api) -> None:
        path = _playlist(api)
        hidden = api.create("bob")["videoId"]
        deleted = api.create()["videoId"]
        api.delete(f"/v1/videos/{deleted}")
        for video_id in (MISSING, hidden, deleted):
            reply = _append(api, path, video_id)
            assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, "/videoId")
        assert api.get(path).json["version"] == 1

    def test_number_of_entries_is_limited(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(playlist_entries, "MAX_ENTRIES", 2)
        video_ids = _publish(api, 3)
        path = _playlist(api, *video_ids[:2])
        refused = _append(api, path, video_ids[2])
        assert (refused.status, refused.slug) == (409, "limit-reached")
        api.delete(f"{path}/entries/{video_ids[0]}")
        assert _append(api, path, video_ids[2]).status == 201
        assert _order(api, path) == video_ids[1:]

    def test_repeated_append_with_a_key_gets_the_same_response(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        video_ids = _publish(api, 2)
        path = _playlist(api)
        first = _append(api, path, video_ids[0], headers=KEY)
        api.clock.advance(5)
        monkeypatch.setattr(playlist_entries, "MAX_ENTRIES", 1)
        second = _append(api, path, video_ids[0], headers=KEY)
        assert (first.status, second.status, second.body) == (201, 201, first.body)
        other = _append(api, path, video_ids[1], headers=KEY)
        assert (other.status, other.slug) == (422, "idempotency-key-reused")
        assert _order(api, path) == video_ids[:1]

    def test_removed_entry_can_be_appended_again(self, api: Api) -> None:
        video_ids = _publish(api, 3)
        path = _playlist(api, *video_ids)
        assert api.delete(f"{path}/entries/{video_ids[0]}").status == 204
        assert api.delete(f"{path}/entries/{video_ids[0]}").status == 404
        assert (_order(api, path), api.get(path).json["entryCount"]) == (video_ids[1:], 2)
        assert _append(api, path, video_ids[0]).status == 201
        assert _order(api, path) == [*video_ids[1:], video_ids[0]]

    def test_cursor_continues_after_its_entry_was_removed(self, api: Api) -> None:
        video_ids = _publish(api, 4)
        path = _playlist(api, *video_ids)
        cursor = api.get(f"{path}/entries", query="limit=2").json["nextCursor"]
        api.delete(f"{path}/entries/{video_ids[1]}")
        last_page = api.get(f"{path}/entries", query=urlencode({"limit": 2, "cursor": cursor})).json
        assert ([entry["videoId"] for entry in last_page["items"]], last_page["nextCursor"]) == (video_ids[2:], None)

    def test_a_cursor_belongs_to_its_playlist(self, api: Api) -> None:
        video_ids = _publish(api, 2)
        path, other = _playlist(api, *video_ids), _playlist(api, *video_ids)
        cursor = api.get(f"{path}/entries", query="limit=1").json["nextCursor"]
        reply = api.get(f"{other}/entries", query=urlencode({"limit": 1, "cursor": cursor}))
        assert (reply.status, reply.slug) == (400, "invalid-cursor")

    def test_a_cursor_of_the_longest_rank_fits_its_limit(self, api: Api, table: Table) -> None:
        video_ids = _publish(api, 2)
        path = _playlist(api, video_ids[1])
        longest = "A" + "z" * (ranks.LONGEST - 1)
        entry = {"playlistId": _id(path), "videoId": video_ids[0], "rank": longest}
        table.write(table.put({**entry, **ENTRY.key(**entry), "addedAt": 1}))
        assert _order(api, path, limit=1) == video_ids

    def test_owner_index_contains_video_items_only(self, api: Api, table: Table) -> None:
        _playlist(api, *_publish(api, 2))
        both = {"userId", "createdAt", "videoId"}
        assert {item["sk"] for item in _items(table) if both <= item.keys()} == {VIDEO.sk}
        assert {item["pk"].partition("#")[0] for item in _items(table) if both <= item.keys()} == {"VIDEO"}


class TestMoves:
    @pytest.mark.parametrize("moved", range(4))
    @pytest.mark.parametrize("neighbour", [None, 0, 1, 2, 3])
    @pytest.mark.parametrize("side", ["after", "before"])
    def test_an_entry_moves_next_to_any_other(self, api: Api, moved: int, neighbour: int | None, side: str) -> None:
        video_ids = _publish(api, 4)
        path = _playlist(api, *video_ids)
        reply = api.patch(
            f"{path}/entries/{video_ids[moved]}", {side: None if neighbour is None else video_ids[neighbour]}
        )
        if moved == neighbour:
            assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, f"/{side}")
            return
        assert reply.status == 200
        _conforms("Entry", reply.json)
        last_page = [video_id for video_id in video_ids if video_id != video_ids[moved]]
        if neighbour is None:
            position = 0 if side == "after" else len(last_page)
        else:
            position = last_page.index(video_ids[neighbour]) + (side == "after")
        last_page.insert(position, video_ids[moved])
        assert _order(api, path) == last_page
        assert api.get(path).json["entryCount"] == 4

    def test_move_writes_four_items_in_a_list_of_any_length(self, api: Api, table: Table) -> None:
        video_ids = _publish(api, 12)
        path = _playlist(api, *video_ids)
        with record_operations(table.client) as operations:
            api.patch(f"{path}/entries/{video_ids[11]}", {"after": video_ids[3]})
        (transaction,) = [operation for operation in operations if operation.name == "TransactWriteItems"]
        assert len(transaction.parameters["TransactItems"]) == 4

    @pytest.mark.parametrize("body", [{"after": None}, {"before": 1}])
    def test_move_to_the_current_position_writes_nothing(self, api: Api, table: Table, body: dict[str, Any]) -> None:
        video_ids = _publish(api, 3)
        path = _playlist(api, *video_ids)
        move = {side: None if position is None else video_ids[position] for side, position in body.items()}
        with record_operations(table.client) as operations:
            assert api.patch(f"{path}/entries/{video_ids[0]}", move).status == 200
        assert "TransactWriteItems" not in {operation.name for operation in operations}
        assert api.get(path).json["version"] == 4

    @pytest.mark.slow
    def test_any_sequence_of_moves_appends_and_removals_keeps_its_order(self, api: Api) -> None:
        video_ids = _publish(api, 8)
        path = _playlist(api, *video_ids[:5])
        expected, chance = video_ids[:5], random.Random(4)
        for _ in range(60):
            video_id = chance.choice(video_ids)
            if video_id not in expected:
                assert _append(api, path, video_id).status == 201
                expected.append(video_id)
            elif chance.random() < 0.2:
                assert api.delete(f"{path}/entries/{video_id}").status == 204
                expected.remove(video_id)
            else:
                expected.remove(video_id)
                position = chance.randint(0, len(expected))
                if chance.random() < 0.5:
                    body = {"after": expected[position - 1] if position else None}
                else:
                    body = {"before": expected[position] if position < len(expected) else None}
                assert api.patch(f"{path}/entries/{video_id}", body).status == 200
                expected.insert(position, video_id)
            assert _order(api, path) == expected
        assert api.get(path).json["entryCount"] == len(expected)

    def test_appended_entry_follows_an_entry_moved_to_the_end(self, api: Api) -> None:
        video_ids = _publish(api, 4)
        path = _playlist(api, *video_ids[:3])
        api.patch(f"{path}/entries/{video_ids[0]}", {"before": None})
        assert _append(api, path, video_ids[3]).status == 201
        assert _order(api, path) == [video_ids[1], video_ids[2], video_ids[0], video_ids[3]]

    @pytest.mark.slow
    @pytest.mark.parametrize("side", ["after", "before"])
    def test_neighbours_get_new_ranks_where_many_entries_were_moved(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch, side: str
    ) -> None:
        monkeypatch.setattr(ranks, "LONG", 7)
        video_ids = _publish(api, 6)
        path = _playlist(api, *video_ids)
        expected = list(video_ids)
        for number in range(40):
            video_id = video_ids[1 + number % 4]
            expected.remove(video_id)
            expected.insert(1 if side == "after" else len(expected) - 1, video_id)
            neighbour = video_ids[0] if side == "after" else video_ids[5]
            assert api.patch(f"{path}/entries/{video_id}", {side: neighbour}).status == 200
            assert _order(api, path) == expected
        stored = [item for item in _items(table) if item["sk"].startswith(("ENTRY#", "HAS#"))]
        assert len(stored) == 12
        assert len({(item["videoId"], item["rank"]) for item in stored}) == 6
        assert max(len(item["rank"]) for item in stored) < 10

    def test_move_to_a_position_without_free_ranks_fails(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ranks, "LONG", 0)
        monkeypatch.setattr(ranks, "LONGEST", 0)
        video_ids = _publish(api, 3)
        path = _playlist(api, *video_ids)
        reply = api.patch(f"{path}/entries/{video_ids[2]}", {"after": video_ids[0]})
        assert (reply.status, reply.slug) == (409, "limit-reached")
        assert "append it again" in reply.json["detail"]
        assert _order(api, path) == video_ids

    def test_video_not_in_the_playlist_cannot_be_moved_or_named_as_a_neighbour(self, api: Api) -> None:
        video_ids = _publish(api, 3)
        path = _playlist(api, *video_ids[:2])
        assert api.patch(f"{path}/entries/{video_ids[2]}", {"after": None}).status == 404
        for side in ("after", "before"):
            reply = api.patch(f"{path}/entries/{video_ids[0]}", {side: video_ids[2]})
            assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, f"/{side}")

    @pytest.mark.parametrize("body", [{}, {"after": MISSING, "before": MISSING}, {"after": 3}, {"position": 1}])
    def test_move_must_name_one_position(self, api: Api, body: dict[str, Any]) -> None:
        (video_id,) = _publish(api, 1)
        assert api.patch(f"{_playlist(api, video_id)}/entries/{video_id}", body).status == 422


class TestPlaylistsOfAVideo:
    def test_playlists_of_a_video_are_ordered_by_newest_append(self, api: Api) -> None:
        (video_id,) = _publish(api, 1)
        paths = [_playlist(api) for _ in range(3)]
        for path in reversed(paths):
            _append(api, path, video_id)
            api.clock.advance(1)
        assert _ids(api, f"/v1/videos/{video_id}/playlists") == [_id(path) for path in paths]
        assert _ids(api, f"/v1/videos/{video_id}/playlists", query="order=asc") == [_id(path) for path in paths[::-1]]

    def test_playlists_of_a_video_are_public_or_the_callers_own(self, api: Api) -> None:
        (video_id,) = _publish(api, 1)
        created: dict[tuple[str, str], set[str]] = {}
        for owner in ("alice", "bob"):
            for visibility in ("public", "private"):
                created[owner, visibility] = {
                    _id(_playlist(api, video_id, user=owner, visibility=visibility)) for _ in range(2)
                }
        pages = _pages(api, f"/v1/videos/{video_id}/playlists", limit=3, user="bob")
        assert [len(page) for page in pages] == [3, 3]
        listed = {item["playlistId"] for page in pages for item in page}
        assert listed == created["alice", "public"] | created["bob", "public"] | created["bob", "private"]
        assert len(_ids(api, f"/v1/videos/{video_id}/playlists", user="admin")) == 8

    def test_playlist_that_removed_the_video_is_not_listed(self, api: Api) -> None:
        (video_id,) = _publish(api, 1)
        path = _playlist(api, video_id)
        api.patch(f"{path}/entries/{video_id}", {"after": None})
        api.delete(f"{path}/entries/{video_id}")
        assert _ids(api, f"/v1/videos/{video_id}/playlists") == []

    def test_playlists_of_a_hidden_video_are_404(self, api: Api) -> None:
        hidden = api.create()["videoId"]
        _playlist(api, hidden, visibility="public")
        assert api.get(f"/v1/videos/{hidden}/playlists", user="bob").status == 404
        assert api.get(f"/v1/videos/{MISSING}/playlists").status == 404


class TestErrors:
    def test_request_that_loses_every_race_is_409_with_retry_after(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        video_ids = _publish(api, 2)
        path = _playlist(api, video_ids[0])

        def outrun(*_: Any, **__: Any) -> None:
            raise ConditionFailed(table.get(PLAYLIST.key(playlistId=_id(path))))

        monkeypatch.setattr(table, "transact", outrun)
        monkeypatch.setattr(table, "write", outrun)
        for reply in (
            api.patch(path, {"title": "New"}),
            api.delete(path),
            _append(api, path, video_ids[1]),
            api.delete(f"{path}/entries/{video_ids[0]}"),
        ):
            assert (reply.status, reply.slug, reply.headers["retry-after"]) == (409, "write-contention", "1")

    def test_conflicts_of_transactions_are_distinguished_by_the_key(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (video_id,) = _publish(api, 1)
        path = _playlist(api)

        def conflict(*_: Any) -> None:
            raise TransactionConflict

        monkeypatch.setattr(table, "transact", conflict)
        assert _append(api, path, video_id).slug == "write-contention"
        assert _append(api, path, video_id, headers=KEY).slug == "request-in-flight"

    @pytest.mark.parametrize("path", ["/v1/playlists/no-uuid", "/v1/playlists/no-uuid/entries"])
    def test_an_invalid_id_is_refused(self, api: Api, path: str) -> None:
        assert api.get(path).status == 400


class TestIfMatchOnEntries:
    """`If-Match` of entries compares the version of the playlist. Every change of its entries increments this
    version."""

    @pytest.mark.parametrize(("tag", "appended", "moved", "removed"), [('"99"', 412, 412, 412), ("*", 201, 200, 204)])
    def test_writes_of_entries_require_a_matching_version(
        self, api: Api, tag: str, appended: int, moved: int, removed: int
    ) -> None:
        path = f"/v1/playlists/{api.post('/v1/playlists', {'title': 't'}).json['playlistId']}/entries"
        one, two, three = (api.create()["videoId"] for _ in range(3))
        for video_id in (one, two):
            api.post(path, {"videoId": video_id})
        headers = {"If-Match": tag}
        assert api.post(path, {"videoId": three}, headers=headers).status == appended
        assert api.patch(f"{path}/{two}", {"after": None}, headers=headers).status == moved
        assert api.delete(f"{path}/{one}", headers=headers).status == removed

    def test_append_with_an_outdated_version_is_refused(self, api: Api) -> None:
        playlist = f"/v1/playlists/{api.post('/v1/playlists', {'title': 't'}).json['playlistId']}"
        tag = api.get(playlist).etag
        one, two = (api.create()["videoId"] for _ in range(2))
        assert api.post(f"{playlist}/entries", {"videoId": one}, headers={"If-Match": tag}).status == 201
        assert api.post(f"{playlist}/entries", {"videoId": two}, headers={"If-Match": tag}).status == 412
        assert [entry["videoId"] for entry in api.get(f"{playlist}/entries").json["items"]] == [one]


def test_a_playlist_that_an_admin_changes_keeps_its_owner(api: Api) -> None:
    changed = api.patch(_playlist(api), {"title": "Tidied"}, user="admin")
    assert (changed.status, changed.json["userId"], changed.json["title"]) == (200, "alice", "Tidied")
