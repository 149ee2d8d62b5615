"""The audit trail of a video's related items: credits, releases, captions, chapters, imported ratings, and playlists
with their entries.
"""

import random
from typing import Any

import pytest

from local.stream_records import EXPIRY, stream_record
from local.testbed.background import BackgroundWork
from local.testbed.harness import NOW, Api
from shared.aws.dynamodb import Table
from shared.aws.stream import Record
from shared.background.purge import PURGE
from shared.captions.models import ChaptersContent
from shared.captions.store import CaptionStore
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.changes import revert_change, set_at, split_pointer
from shared.core.errors import LimitReached, NotFound
from shared.history.entries import (
    CAPTION_FIELDS,
    CHAPTERS_FIELDS,
    CREDIT_FIELDS,
    FIELDS,
    PLAYLIST_FIELDS,
    RELEASE_FIELDS,
    document,
    entry,
)
from shared.relations import playlists, ranks
from shared.relations.models import CreditContent, NewPlaylist, ReleaseContent
from shared.relations.playlist_entries import EntryStore
from shared.relations.playlists import PlaylistStore
from shared.relations.ratings import RatingStore
from shared.schema import CAPTION, CHANGESET, CHAPTERS, CREDIT, PLAYLIST, PROFILE, RATING_TOTALS, VIDEO
from tests.integration.contents import items_of

DAYS = 400
DAY = 86_400
ALICE = Caller("alice", frozenset(), correlation_id="of-alice")
IMPORTER = Caller.job("import").acting_for("import-1")
ROLES = [{"category": "actor", "characters": ["Ilsa"]}]


def made_of(backstage: BackgroundWork, *entities: str) -> list[Item]:
    """Return the entries for all changes since the last call, oldest first, optionally of some entities only."""
    made = [entry(Record(raw), DAYS) for raw in backstage.records()]
    return [kept for kept in made if kept and (not entities or kept["entity"] in entities)]


def test_audited_fields_match_the_client_writable_models() -> None:
    assert set(CREDIT_FIELDS) == set(CreditContent.model_fields)
    assert set(RELEASE_FIELDS) == set(ReleaseContent.model_fields)
    assert set(CHAPTERS_FIELDS) == set(ChaptersContent.model_fields)
    assert set(PLAYLIST_FIELDS) == set(NewPlaylist.model_fields)


class TestCredits:
    def test_credit_entries_record_create_change_and_remove(self, api: Api, background: BackgroundWork) -> None:
        video_id = api.publish()["videoId"]
        path = f"/v1/videos/{video_id}/credits/nm1"
        made_of(background)
        api.put(path, {"name": "Ingrid", "ordering": 1, "roles": ROLES})
        api.put(path, {"ordering": 2, "roles": ROLES})
        api.delete(path, user="admin")
        created, changed, removed = made_of(background)
        assert document(created) == {
            "sequence": created["sequence"],
            "videoId": video_id,
            "entity": "credit",
            "personId": "nm1",
            "action": "created",
            "by": {"kind": "person", "id": "alice"},
            "correlationId": created["correlationId"],
            "at": NOW * 1000,
            "version": 1,
            "changes": [
                {"field": "/name", "to": "Ingrid"},
                {"field": "/ordering", "to": 1},
                {"field": "/roles", "to": ROLES},
            ],
        }
        assert (changed["action"], changed["version"]) == ("changed", 2)
        assert changed["changes"] == [
            {"field": "/name", "from": "Ingrid"},
            {"field": "/ordering", "from": 1, "to": 2},
        ]
        assert (removed["action"], removed["version"]) == ("removed", 2)
        assert removed["by"] == {"kind": "person", "id": "admin"}
        assert removed["changes"] == [{"field": "/ordering", "from": 2}, {"field": "/roles", "from": ROLES}]

    def test_credit_entry_has_its_request_id_and_the_video_owner(self, api: Api, background: BackgroundWork) -> None:
        video_id = api.publish(owner="bob")["videoId"]
        path = f"/v1/videos/{video_id}/credits/nm1"
        made_of(background)
        api.put(path, {"ordering": 1, "roles": ROLES}, user="bob")
        api.delete(path, user="admin")
        created, removed = made_of(background)
        assert created["owner"] == removed["owner"] == "bob"
        assert created[CHANGESET] == created["correlationId"]
        assert removed[CHANGESET] == removed["correlationId"]
        assert created[CHANGESET] != removed[CHANGESET]

    def test_credit_moved_or_deleted_with_its_video_has_no_entry(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video_id = api.publish(releaseYear=1990)["videoId"]
        api.put(f"/v1/videos/{video_id}/credits/nm1", {"ordering": 1, "roles": ROLES})
        background.settle_totals()
        api.patch(f"/v1/videos/{video_id}", {"releaseYear": 1991})
        background.settle_totals()
        (credit,) = [item for item in items_of(table) if item["sk"] == "CREDIT#nm1"]
        assert credit["relSort"] == 1991
        table.delete(CREDIT.key(videoId=video_id, personId="nm1"))
        records = [*background.seen_records, *background.records()]
        made = [made for raw in records if (made := entry(Record(raw), DAYS)) and made["entity"] == "credit"]
        assert [kept["action"] for kept in made] == ["created"]

    def test_credit_put_again_after_an_interrupted_removal_is_kept(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video_id = api.publish()["videoId"]
        path, content = f"/v1/videos/{video_id}/credits/nm1", {"ordering": 1, "roles": ROLES}
        api.put(path, content)
        key = CREDIT.key(videoId=video_id, personId="nm1")
        half_way = (table.get(key) or {}) | {"removing": True, "writeId": "of a removal that broke off"}
        table.write(table.put(half_way))
        assert api.get(path).json["version"] == 1
        assert api.put(path, content).json["version"] == 2
        assert "removing" not in (table.get(key) or {})
        table.delete(key)
        assert [kept["action"] for kept in made_of(background, "credit")] == ["created", "changed"]

    def test_credit_without_owner_is_unchanged_by_an_identical_put(self, api: Api, table: Table) -> None:
        video_id = api.publish()["videoId"]
        path, content = f"/v1/videos/{video_id}/credits/nm1", {"ordering": 1, "roles": ROLES}
        api.put(path, content)
        key = CREDIT.key(videoId=video_id, personId="nm1")
        older = {name: value for name, value in (table.get(key) or {}).items() if name != "owner"}
        table.write(table.put(older))
        assert api.put(path, content).json["version"] == 1
        made = entry(Record(stream_record(None, older)), DAYS)
        assert made is not None
        assert "owner" not in made
        assert api.put(path, content | {"ordering": 2}).status == 200
        assert (table.get(key) or {})["owner"] == "alice"


class TestReleases:
    def test_titles_in_a_region_and_language_or_in_none(self, api: Api, background: BackgroundWork) -> None:
        video_id = api.publish()["videoId"]
        made_of(background)
        for place in ("NZ/mi", "NZ"):
            api.put(f"/v1/videos/{video_id}/releases/{place}", {"titles": [{"title": "Te whanga"}]})
        api.delete(f"/v1/videos/{video_id}/releases/NZ/mi")
        shown = [document(kept) for kept in made_of(background)]
        title = {"attributes": [], "title": "Te whanga", "types": []}
        assert [(made["action"], made["entity"], made["region"], made.get("language")) for made in shown] == [
            ("created", "release", "NZ", "mi"),
            ("created", "release", "NZ", None),
            ("removed", "release", "NZ", "mi"),
        ]
        assert [made["changes"] for made in shown][::2] == [
            [{"field": "/titles", "to": [title]}],
            [{"field": "/titles", "from": [title]}],
        ]


FIRST: Item = {"text": "1" * 32, "cues": 2, "size": 60, "origin": "owner"}
SECOND: Item = {"text": "2" * 32, "cues": 3, "size": 80, "origin": "owner"}


def anybody(_: Item | None) -> bool:
    """Accept any stored item: no condition."""
    return True


class TestCaptions:
    """Caption items, as the function `captions` writes them after it stored their text as an object."""

    def test_caption_entries_record_create_change_and_remove(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video_id = api.publish()["videoId"]
        store = CaptionStore(table)
        made_of(background)
        for content in (FIRST, SECOND):
            store.put(video_id, "pt-BR", content, ALICE, NOW, anybody)
        store.delete(video_id, "pt-BR", Caller.job("admin"), NOW, anybody)
        created, changed, removed = made_of(background)
        shown = document(created)
        assert shown == {
            "sequence": created["sequence"],
            "videoId": video_id,
            "entity": "captions",
            "language": "pt-BR",
            "action": "created",
            "by": {"kind": "person", "id": "alice"},
            "correlationId": "of-alice",
            "at": NOW * 1000,
            "version": 1,
            "changes": [{"field": f"/{name}", "to": FIRST[name]} for name in sorted(CAPTION_FIELDS)],
        }
        assert list(shown) == [name for name in FIELDS if name in shown]
        assert (created["owner"], created[CHANGESET]) == ("alice", "of-alice")
        assert (changed["action"], changed["version"]) == ("changed", 2)
        assert changed["changes"] == [
            {"field": f"/{name}", "from": FIRST[name], "to": SECOND[name]} for name in ("cues", "size", "text")
        ]
        assert (removed["action"], removed["version"], removed["by"]["id"]) == ("removed", 2, "job:admin")
        assert removed["changes"] == [{"field": f"/{name}", "from": SECOND[name]} for name in sorted(CAPTION_FIELDS)]

    def test_caption_languages_have_separate_entries_and_identical_text_has_none(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video_id = api.publish()["videoId"]
        store = CaptionStore(table)
        for language in ("en", "en-NZ", "en"):
            store.put(video_id, language, FIRST, ALICE, NOW, anybody)
        made = made_of(background, "captions")
        assert [(kept["language"], kept["action"]) for kept in made] == [("en", "created"), ("en-NZ", "created")]

    def test_captions_and_chapters_deleted_with_their_video_have_no_entry(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video_id = api.publish()["videoId"]
        CaptionStore(table).put(video_id, "en", FIRST, ALICE, NOW, anybody)
        api.put(f"/v1/videos/{video_id}/chapters", {"chapters": CHAPTERS_OF_TWO})
        made_of(background)
        table.delete(CAPTION.key(videoId=video_id, language="en"))
        table.delete(CHAPTERS.key(videoId=video_id))
        assert made_of(background) == []


CHAPTERS_OF_TWO: list[Item] = [{"start": 0, "title": "Opening"}, {"start": 9000, "title": "At sea"}]


class TestChapters:
    def test_all_of_a_video_are_one_field(self, api: Api, background: BackgroundWork) -> None:
        video_id = api.publish()["videoId"]
        path = f"/v1/videos/{video_id}/chapters"
        made_of(background)
        api.put(path, {"chapters": CHAPTERS_OF_TWO})
        api.put(path, {"chapters": CHAPTERS_OF_TWO[:1]})
        api.delete(path, user="admin")
        made = made_of(background)
        assert [(kept["entity"], kept["action"], kept["version"], kept["by"]["id"]) for kept in made] == [
            ("chapters", "created", 1, "alice"),
            ("chapters", "changed", 2, "alice"),
            ("chapters", "removed", 2, "admin"),
        ]
        assert [kept["changes"] for kept in made] == [
            [{"field": "/chapters", "to": CHAPTERS_OF_TWO}],
            [{"field": "/chapters", "from": CHAPTERS_OF_TWO, "to": CHAPTERS_OF_TWO[:1]}],
            [{"field": "/chapters", "from": CHAPTERS_OF_TWO[:1]}],
        ]
        assert {(kept["owner"], kept[CHANGESET] == kept["correlationId"]) for kept in made} == {("alice", True)}


class TestRatings:
    def test_rating_by_a_user_has_no_entry_and_an_imported_one_has(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video_id = api.publish(owner="bob")["videoId"]
        background.settle()
        ratings = RatingStore(table)
        ratings.set_imported(video_id, 7.5, 100, IMPORTER, NOW, owner="bob")
        ratings.set_imported(video_id, 7.5, 100, IMPORTER, NOW)
        api.put(f"/v1/videos/{video_id}/rating", {"value": 9})
        background.settle()
        ratings.set_imported(video_id, 7.5, 101, IMPORTER, NOW)
        background.settle()
        made = [
            made for raw in background.seen_records if (made := entry(Record(raw), DAYS)) and made["entity"] == "rating"
        ]
        assert [kept["changes"] for kept in made] == [
            [{"field": "/imported", "to": {"average": 7.5, "votes": 100}}],
            [{"field": "/imported/votes", "from": 100, "to": 101}],
        ]
        assert [kept["action"] for kept in made] == ["created", "changed"]
        assert {kept["owner"] for kept in made} == {"bob"}
        assert {kept[CHANGESET] for kept in made} == {"import-1"}
        assert made[0]["by"] == {"kind": "job", "id": "job:import"}

    def test_removed_import_has_an_entry_unless_deleted_with_its_video(self) -> None:
        totals: Item = RATING_TOTALS.key(videoId="v") | {"votes": 3, "updatedBy": "admin", "writeId": "a"}
        imported = totals | {"imported": {"average": 5.0, "votes": 1}}
        made = entry(Record(stream_record(imported, totals | {"writeId": "b"})), DAYS)
        assert made is not None
        assert (made["action"], made["by"]["id"]) == ("removed", "admin")
        assert entry(Record(stream_record(imported, None)), DAYS) is None

    def test_an_edit_behind_the_services_back_is_nobodys(self) -> None:
        totals: Item = RATING_TOTALS.key(videoId="v") | {"updatedBy": "job:import", "updatedAt": NOW, "writeId": "a"}
        made = entry(Record(stream_record(totals, totals | {"imported": {"average": 5.0, "votes": 1}})), DAYS)
        assert made is not None
        assert made["by"] == {"kind": "service", "id": "unknown"}


def new_playlist(api: Api, *films: str, **fields: Any) -> str:
    """Create a playlist of alice's with these videos, and return its id."""
    playlist_id = str(api.post("/v1/playlists", {"title": "By the sea"} | fields).json["playlistId"])
    for film in films:
        assert api.post(f"/v1/playlists/{playlist_id}/entries", {"videoId": film}).status == 201
    return playlist_id


def member(table: Table, film: str) -> Item:
    """Return a video's membership in the only playlist that contains it."""
    (item,) = [item for item in items_of(table) if item["sk"] == f"HAS#{film}"]
    return {"rank": item["rank"], "addedAt": item["addedAt"]}


class TestPlaylists:
    def test_every_playlist_version_has_one_entry(self, api: Api, background: BackgroundWork) -> None:
        film = api.publish()["videoId"]
        made_of(background)
        playlist_id = new_playlist(api, film)
        path = f"/v1/playlists/{playlist_id}"
        api.patch(path, {"title": "At sea", "description": "All of it"})
        api.delete(f"{path}/entries/{film}")
        api.delete(path)
        made = made_of(background)
        assert [(kept["action"], kept["version"]) for kept in made] == [
            ("created", 1),
            ("changed", 2),
            ("changed", 3),
            ("changed", 4),
            ("deleted", 5),
        ]
        assert {kept["pk"] for kept in made} == {f"PLAYLIST#{playlist_id}"}
        assert all(kept["owner"] == "alice" and CHANGESET in kept for kept in made)
        assert made[0]["changes"] == [
            {"field": "/title", "to": "By the sea"},
            {"field": "/visibility", "to": "private"},
        ]
        assert made[2]["changes"] == [
            {"field": "/description", "to": "All of it"},
            {"field": "/title", "from": "By the sea", "to": "At sea"},
        ]
        assert made[4]["changes"] == []

    def test_entries_come_move_and_go(self, api: Api, table: Table, background: BackgroundWork) -> None:
        first, second = (api.publish()["videoId"] for _ in range(2))
        playlist_id = new_playlist(api, first, second)
        before = member(table, second)
        made_of(background)
        api.patch(f"/v1/playlists/{playlist_id}/entries/{second}", {"after": None})
        after = member(table, second)
        api.delete(f"/v1/playlists/{playlist_id}/entries/{second}")
        moved, removed = made_of(background)
        assert moved["changes"] == [
            {"field": f"/entries/{second}/rank", "from": before["rank"], "to": after["rank"]},
        ]
        assert removed["changes"] == [{"field": f"/entries/{second}", "from": after}]

    def test_a_move_that_makes_neighbours_move_is_one_entry_with_all_of_them(
        self, api: Api, table: Table, background: BackgroundWork, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        films = [str(api.publish()["videoId"]) for _ in range(4)]
        playlist_id = new_playlist(api, *films)
        monkeypatch.setattr(ranks, "LONG", ranks.WIDTH)  # so that there is no room between two neighbours
        for film in films[:1:-1]:
            api.patch(f"/v1/playlists/{playlist_id}/entries/{film}", {"after": films[0]})
        ranked = {film: member(table, film)["rank"] for film in films}
        made_of(background)
        api.patch(f"/v1/playlists/{playlist_id}/entries/{films[1]}", {"after": films[0]})
        (made,) = made_of(background)
        moved = {
            film: {"field": f"/entries/{film}/rank", "from": rank, "to": member(table, film)["rank"]}
            for film, rank in ranked.items()
            if rank != member(table, film)["rank"]
        }
        assert len(moved) == 3
        assert sorted(made["changes"], key=lambda change: change["field"]) == [
            moved[film] for film in sorted(moved, key=lambda film: f"/entries/{film}")
        ]

    def test_playlist_entry_omits_moves_of_the_previous_write(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        film = api.publish()["videoId"]
        playlist_id = new_playlist(api, film)
        key = PLAYLIST.key(playlistId=playlist_id)
        stored = table.get(key) or {}
        assert [move["videoId"] for move in stored["moves"]] == [film]
        made_of(background)
        # The item as an older release writes it, which ignores moves.
        table.write(table.put(stored | {"title": "New", "version": 3, "writeId": "older"}))
        api.patch(f"/v1/playlists/{playlist_id}", {"title": "Newer"})
        assert "moves" not in (table.get(key) or {})
        assert [kept["changes"] for kept in made_of(background)] == [
            [{"field": "/title", "from": "By the sea", "to": "New"}],
            [{"field": "/title", "from": "New", "to": "Newer"}],
        ]

    def test_playlist_expiry_has_an_entry(self, api: Api, table: Table) -> None:
        stored = table.get(PLAYLIST.key(playlistId=new_playlist(api))) or {}
        expired = entry(Record(stream_record(stored, None, identity=EXPIRY)), DAYS)
        assert expired is not None
        assert (expired["action"], expired["version"], expired["owner"]) == ("expired", 1, "alice")
        assert {"field": "/title", "from": "By the sea"} in expired["changes"]

    def test_items_of_its_entries_are_not_audited(self, api: Api, background: BackgroundWork) -> None:
        film = api.publish()["videoId"]
        made_of(background)
        new_playlist(api, film)
        assert {kept["entity"] for kept in made_of(background)} == {"playlist"}

    @pytest.mark.parametrize("seed", [0, 3])
    def test_playlist_entries_equal_the_sum_of_all_recorded_changes(
        self, api: Api, table: Table, background: BackgroundWork, monkeypatch: pytest.MonkeyPatch, seed: int
    ) -> None:
        chance = random.Random(seed)
        monkeypatch.setattr(ranks, "LONG", ranks.WIDTH)
        films = [str(api.publish()["videoId"]) for _ in range(8)]
        playlist_id = new_playlist(api)
        store = PlaylistStore(table)
        states = {1: _state(table, playlist_id)}
        for number in range(60):
            _something(api, store, playlist_id, films, chance, number)
            states[(table.get(PLAYLIST.key(playlistId=playlist_id)) or {})["version"]] = _state(table, playlist_id)

        made = made_of(background, "playlist")
        assert [kept["version"] for kept in made] == list(range(1, max(states) + 1))
        assert max(len(kept["changes"]) for kept in made) > 2  # neighbours have made room
        state: Item = {"entries": {}}
        for kept in made:
            for step in kept["changes"]:
                state = set_at(state, split_pointer(step["field"]), step.get("to"), is_present="to" in step)
            assert state == states.get(kept["version"], state)
        for kept in reversed(made):
            assert state == states.get(kept["version"], state)
            for step in reversed(kept["changes"]):
                state = revert_change(state, step)
        assert state == {"entries": {}}


def _state(table: Table, playlist_id: str) -> Item:
    """Return a playlist and its entries as stored."""
    stored = [item for item in items_of(table) if item["pk"] == f"PLAYLIST#{playlist_id}"]
    (playlist,) = [item for item in stored if item["sk"] == PLAYLIST.sk]
    entries = {item["videoId"]: item for item in stored if item["sk"].startswith("HAS#")}
    assert playlist["entryCount"] == len(entries)
    content = {name: playlist[name] for name in PLAYLIST_FIELDS if name in playlist}
    return content | {
        "entries": {film: {name: item[name] for name in ("rank", "addedAt")} for film, item in entries.items()}
    }


def _something(
    api: Api, store: PlaylistStore, playlist_id: str, films: list[str], chance: random.Random, number: int
) -> None:
    """Apply a random change to a playlist, or attempt one."""
    path, (film, other) = f"/v1/playlists/{playlist_id}", chance.sample(films, 2)
    what = chance.randrange(10)
    if what < 4:
        api.post(f"{path}/entries", {"videoId": film})
    elif what < 7:
        api.patch(f"{path}/entries/{film}", {chance.choice(["after", "before"]): chance.choice([other, None])})
    elif what == 7:
        api.delete(f"{path}/entries/{film}")
    elif what == 8:
        api.patch(path, {"title": f"Title {chance.randrange(3)}", "description": chance.choice([None, "d"])})
    else:
        api.delete(path)
        if number % 2:
            EntryStore(store).forget(playlist_id, film, PURGE, NOW)
        store.restore(playlist_id, ALICE, NOW)


class TestRestoring:
    def test_deleted_playlist_is_restored_unchanged(self, api: Api, table: Table, background: BackgroundWork) -> None:
        film = api.publish()["videoId"]
        playlist_id = new_playlist(api, film, visibility="public")
        path = f"/v1/playlists/{playlist_id}"
        before = api.get(path).json
        stood = table.get(PLAYLIST.key(playlistId=playlist_id)) or {}
        api.delete(path)
        gone = table.get(PLAYLIST.key(playlistId=playlist_id)) or {}
        assert (gone["deletedAt"], gone["purgeAt"], "rel" in gone) == (NOW, NOW + 30 * DAY, False)
        made_of(background)
        restored = PlaylistStore(table).restore(playlist_id, ALICE, NOW)
        assert restored == api.get(path).json == before | {"version": 4}
        assert [entry["videoId"] for entry in api.get(f"{path}/entries").json["items"]] == [film]
        for listed in ("/v1/playlists", f"/v1/videos/{film}/playlists"):
            assert [item["playlistId"] for item in api.get(listed).json["items"]] == [playlist_id]
        now = table.get(PLAYLIST.key(playlistId=playlist_id)) or {}
        for name in ("rel", "relShard", "relSort", "relId"):
            assert now[name] == stood[name]
        assert not {"deletedAt", "purgeAt"} & now.keys()
        assert [(kept["action"], kept["correlationId"]) for kept in made_of(background)] == [("restored", "of-alice")]
        assert (table.get(PROFILE.key(userId="alice")) or {})["playlists"] == 1

    def test_restore_of_a_playlist_that_is_not_deleted_changes_nothing(self, api: Api, table: Table) -> None:
        playlist_id = new_playlist(api)
        assert PlaylistStore(table).restore(playlist_id, ALICE, NOW)["version"] == 1
        assert (table.get(PROFILE.key(userId="alice")) or {})["playlists"] == 1

    def test_restore_is_for_owner_and_admins_before_the_purge_time(self, api: Api, table: Table) -> None:
        playlist_id = new_playlist(api, visibility="public")
        api.delete(f"/v1/playlists/{playlist_id}")
        store, admin = PlaylistStore(table), Caller.job("admin")
        with pytest.raises(NotFound):
            store.restore(playlist_id, Caller("bob", frozenset()), NOW)
        with pytest.raises(NotFound):
            store.restore(playlist_id, ALICE, NOW + 30 * DAY)
        assert store.restore(playlist_id, admin, NOW + 30 * DAY - 1)["userId"] == "alice"
        with pytest.raises(NotFound):
            store.restore("3f2504e0-4f89-41d3-9a0c-0305e82c3301", ALICE, NOW)

    def test_never_more_than_an_owner_may_have(self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(playlists, "MAX_PLAYLISTS", 1)
        playlist_id = new_playlist(api)
        api.delete(f"/v1/playlists/{playlist_id}")
        other = new_playlist(api)
        with pytest.raises(LimitReached):
            PlaylistStore(table).restore(playlist_id, ALICE, NOW)
        assert "deletedAt" in (table.get(PLAYLIST.key(playlistId=playlist_id)) or {})
        api.delete(f"/v1/playlists/{other}")
        assert PlaylistStore(table).restore(playlist_id, ALICE, NOW)["playlistId"] == playlist_id

    def test_a_video_that_is_gone_is_taken_out_also_of_one_that_is_deleted(self, api: Api, table: Table) -> None:
        gone, kept = (str(api.publish()["videoId"]) for _ in range(2))
        playlist_id = new_playlist(api, gone, kept)
        api.delete(f"/v1/playlists/{playlist_id}")
        table.delete(VIDEO.key(videoId=gone))
        EntryStore(PlaylistStore(table)).forget(playlist_id, gone, PURGE, NOW)
        assert [item["sk"] for item in items_of(table) if gone in item["sk"]] == []
        assert PlaylistStore(table).restore(playlist_id, ALICE, NOW)["entryCount"] == 1
        entries = api.get(f"/v1/playlists/{playlist_id}/entries").json["items"]
        assert [entry["videoId"] for entry in entries] == [kept]
