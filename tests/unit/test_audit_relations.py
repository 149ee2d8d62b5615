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


def entries_for(background: BackgroundWork, *entities: str) -> list[Item]:
    """Return the audit entries for all changes since the last call, oldest first. `entities` restricts them to some
    entities."""
    entries = [entry(Record(raw), DAYS) for raw in background.records()]
    return [item for item in entries if item and (not entities or item["entity"] in entities)]


def test_audited_fields_match_the_client_writable_models() -> None:
    assert set(CREDIT_FIELDS) == set(CreditContent.model_fields)
    assert set(RELEASE_FIELDS) == set(ReleaseContent.model_fields)
    assert set(CHAPTERS_FIELDS) == set(ChaptersContent.model_fields)
    assert set(PLAYLIST_FIELDS) == set(NewPlaylist.model_fields)


class TestCredits:
    def test_credit_entries_record_create_change_and_remove(self, api: Api, background: BackgroundWork) -> None:
        video_id = api.publish()["videoId"]
        path = f"/v1/videos/{video_id}/credits/nm1"
        entries_for(background)
        api.put(path, {"name": "Ingrid", "ordering": 1, "roles": ROLES})
        api.put(path, {"ordering": 2, "roles": ROLES})
        api.delete(path, user="admin")
        created, changed, removed = entries_for(background)
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
        entries_for(background)
        api.put(path, {"ordering": 1, "roles": ROLES}, user="bob")
        api.delete(path, user="admin")
        created, removed = entries_for(background)
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
        audited = [
            audited for raw in records if (audited := entry(Record(raw), DAYS)) and audited["entity"] == "credit"
        ]
        assert [item["action"] for item in audited] == ["created"]

    def test_credit_put_again_after_an_interrupted_removal_is_kept(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video_id = api.publish()["videoId"]
        path, content = f"/v1/videos/{video_id}/credits/nm1", {"ordering": 1, "roles": ROLES}
        api.put(path, content)
        key = CREDIT.key(videoId=video_id, personId="nm1")
        partly_removed = (table.get(key) or {}) | {"removing": True, "writeId": "of a removal that broke off"}
        table.write(table.put(partly_removed))
        assert api.get(path).json["version"] == 1
        assert api.put(path, content).json["version"] == 2
        assert "removing" not in (table.get(key) or {})
        table.delete(key)
        assert [item["action"] for item in entries_for(background, "credit")] == ["created", "changed"]

    def test_credit_without_owner_is_unchanged_by_an_identical_put(self, api: Api, table: Table) -> None:
        video_id = api.publish()["videoId"]
        path, content = f"/v1/videos/{video_id}/credits/nm1", {"ordering": 1, "roles": ROLES}
        api.put(path, content)
        key = CREDIT.key(videoId=video_id, personId="nm1")
        older = {name: value for name, value in (table.get(key) or {}).items() if name != "owner"}
        table.write(table.put(older))
        assert api.put(path, content).json["version"] == 1
        audited = entry(Record(stream_record(None, older)), DAYS)
        assert audited is not None
        assert "owner" not in audited
        assert api.put(path, content | {"ordering": 2}).status == 200
        assert (table.get(key) or {})["owner"] == "alice"


class TestReleases:
    def test_release_entries_name_their_region_and_language(self, api: Api, background: BackgroundWork) -> None:
        video_id = api.publish()["videoId"]
        entries_for(background)
        for path in ("NZ/mi", "NZ"):
            api.put(f"/v1/videos/{video_id}/releases/{path}", {"titles": [{"title": "Te whanga"}]})
        api.delete(f"/v1/videos/{video_id}/releases/NZ/mi")
        documents = [document(item) for item in entries_for(background)]
        title = {"attributes": [], "title": "Te whanga", "types": []}
        assert [(item["action"], item["entity"], item["region"], item.get("language")) for item in documents] == [
            ("created", "release", "NZ", "mi"),
            ("created", "release", "NZ", None),
            ("removed", "release", "NZ", "mi"),
        ]
        assert [item["changes"] for item in documents][::2] == [
            [{"field": "/titles", "to": [title]}],
            [{"field": "/titles", "from": [title]}],
        ]


FIRST: Item = {"text": "1" * 32, "cues": 2, "size": 60, "origin": "owner"}
SECOND: Item = {"text": "2" * 32, "cues": 3, "size": 80, "origin": "owner"}


def no_condition(_: Item | None) -> bool:
    """Accept any stored item."""
    return True


class TestCaptions:
    """Caption items, as the function `captions` writes them. It has already stored the text in S3."""

    def test_caption_entries_record_create_change_and_remove(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video_id = api.publish()["videoId"]
        store = CaptionStore(table)
        entries_for(background)
        for content in (FIRST, SECOND):
            store.put(video_id, "pt-BR", content, ALICE, NOW, no_condition)
        store.delete(video_id, "pt-BR", Caller.job("admin"), NOW, no_condition)
        created, changed, removed = entries_for(background)
        entry_document = document(created)
        assert entry_document == {
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
        assert list(entry_document) == [name for name in FIELDS if name in entry_document]
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
            store.put(video_id, language, FIRST, ALICE, NOW, no_condition)
        audited = entries_for(background, "captions")
        assert [(item["language"], item["action"]) for item in audited] == [("en", "created"), ("en-NZ", "created")]

    def test_captions_and_chapters_deleted_with_their_video_have_no_entry(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video_id = api.publish()["videoId"]
        CaptionStore(table).put(video_id, "en", FIRST, ALICE, NOW, no_condition)
        api.put(f"/v1/videos/{video_id}/chapters", {"chapters": CHAPTERS_OF_TWO})
        entries_for(background)
        table.delete(CAPTION.key(videoId=video_id, language="en"))
        table.delete(CHAPTERS.key(videoId=video_id))
        assert entries_for(background) == []


CHAPTERS_OF_TWO: list[Item] = [{"start": 0, "title": "Opening"}, {"start": 9000, "title": "At sea"}]


class TestChapters:
    def test_chapters_of_a_video_are_one_field(self, api: Api, background: BackgroundWork) -> None:
        video_id = api.publish()["videoId"]
        path = f"/v1/videos/{video_id}/chapters"
        entries_for(background)
        api.put(path, {"chapters": CHAPTERS_OF_TWO})
        api.put(path, {"chapters": CHAPTERS_OF_TWO[:1]})
        api.delete(path, user="admin")
        audited = entries_for(background)
        assert [(item["entity"], item["action"], item["version"], item["by"]["id"]) for item in audited] == [
            ("chapters", "created", 1, "alice"),
            ("chapters", "changed", 2, "alice"),
            ("chapters", "removed", 2, "admin"),
        ]
        assert [item["changes"] for item in audited] == [
            [{"field": "/chapters", "to": CHAPTERS_OF_TWO}],
            [{"field": "/chapters", "from": CHAPTERS_OF_TWO, "to": CHAPTERS_OF_TWO[:1]}],
            [{"field": "/chapters", "from": CHAPTERS_OF_TWO[:1]}],
        ]
        assert {(item["owner"], item[CHANGESET] == item["correlationId"]) for item in audited} == {("alice", True)}


class TestRatings:
    def test_rating_by_a_user_has_no_entry_and_an_imported_rating_has_one(
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
        audited = [
            audited
            for raw in background.seen_records
            if (audited := entry(Record(raw), DAYS)) and audited["entity"] == "rating"
        ]
        assert [item["changes"] for item in audited] == [
            [{"field": "/imported", "to": {"average": 7.5, "votes": 100}}],
            [{"field": "/imported/votes", "from": 100, "to": 101}],
        ]
        assert [item["action"] for item in audited] == ["created", "changed"]
        assert {item["owner"] for item in audited} == {"bob"}
        assert {item[CHANGESET] for item in audited} == {"import-1"}
        assert audited[0]["by"] == {"kind": "job", "id": "job:import"}

    def test_removed_import_has_an_entry_unless_deleted_with_its_video(self) -> None:
        totals: Item = RATING_TOTALS.key(videoId="v") | {"votes": 3, "updatedBy": "admin", "writeId": "a"}
        imported = totals | {"imported": {"average": 5.0, "votes": 1}}
        audited = entry(Record(stream_record(imported, totals | {"writeId": "b"})), DAYS)
        assert audited is not None
        assert (audited["action"], audited["by"]["id"]) == ("removed", "admin")
        assert entry(Record(stream_record(imported, None)), DAYS) is None

    def test_direct_edit_of_ratings_has_an_unknown_author(self) -> None:
        totals: Item = RATING_TOTALS.key(videoId="v") | {"updatedBy": "job:import", "updatedAt": NOW, "writeId": "a"}
        audited = entry(Record(stream_record(totals, totals | {"imported": {"average": 5.0, "votes": 1}})), DAYS)
        assert audited is not None
        assert audited["by"] == {"kind": "service", "id": "unknown"}


def new_playlist(api: Api, *video_ids: str, **fields: Any) -> str:
    """Create a playlist of alice's with the given videos, and return its id."""
    playlist_id = str(api.post("/v1/playlists", {"title": "By the sea"} | fields).json["playlistId"])
    for video_id in video_ids:
        assert api.post(f"/v1/playlists/{playlist_id}/entries", {"videoId": video_id}).status == 201
    return playlist_id


def membership(table: Table, video_id: str) -> Item:
    """Return the rank and time of a video in the only playlist that contains it."""
    (item,) = [item for item in items_of(table) if item["sk"] == f"HAS#{video_id}"]
    return {"rank": item["rank"], "addedAt": item["addedAt"]}


class TestPlaylists:
    def test_every_playlist_version_has_one_entry(self, api: Api, background: BackgroundWork) -> None:
        video_id = api.publish()["videoId"]
        entries_for(background)
        playlist_id = new_playlist(api, video_id)
        path = f"/v1/playlists/{playlist_id}"
        api.patch(path, {"title": "At sea", "description": "All of it"})
        api.delete(f"{path}/entries/{video_id}")
        api.delete(path)
        audited = entries_for(background)
        assert [(item["action"], item["version"]) for item in audited] == [
            ("created", 1),
            ("changed", 2),
            ("changed", 3),
            ("changed", 4),
            ("deleted", 5),
        ]
        assert {item["pk"] for item in audited} == {f"PLAYLIST#{playlist_id}"}
        assert all(item["owner"] == "alice" and CHANGESET in item for item in audited)
        assert audited[0]["changes"] == [
            {"field": "/title", "to": "By the sea"},
            {"field": "/visibility", "to": "private"},
        ]
        assert audited[2]["changes"] == [
            {"field": "/description", "to": "All of it"},
            {"field": "/title", "from": "By the sea", "to": "At sea"},
        ]
        assert audited[4]["changes"] == []

    def test_playlist_entries_record_append_move_and_removal(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        first, second = (api.publish()["videoId"] for _ in range(2))
        playlist_id = new_playlist(api, first, second)
        before = membership(table, second)
        entries_for(background)
        api.patch(f"/v1/playlists/{playlist_id}/entries/{second}", {"after": None})
        after = membership(table, second)
        api.delete(f"/v1/playlists/{playlist_id}/entries/{second}")
        moved, removed = entries_for(background)
        assert moved["changes"] == [
            {"field": f"/entries/{second}/rank", "from": before["rank"], "to": after["rank"]},
        ]
        assert removed["changes"] == [{"field": f"/entries/{second}", "from": after}]

    def test_move_that_respaces_neighbours_is_one_entry(
        self, api: Api, table: Table, background: BackgroundWork, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        video_ids = [str(api.publish()["videoId"]) for _ in range(4)]
        playlist_id = new_playlist(api, *video_ids)
        monkeypatch.setattr(ranks, "LONG", ranks.WIDTH)  # leaves no free rank between two neighbours
        for video_id in video_ids[:1:-1]:
            api.patch(f"/v1/playlists/{playlist_id}/entries/{video_id}", {"after": video_ids[0]})
        ranked = {video_id: membership(table, video_id)["rank"] for video_id in video_ids}
        entries_for(background)
        api.patch(f"/v1/playlists/{playlist_id}/entries/{video_ids[1]}", {"after": video_ids[0]})
        (audited,) = entries_for(background)
        moved = {
            video_id: {"field": f"/entries/{video_id}/rank", "from": rank, "to": membership(table, video_id)["rank"]}
            for video_id, rank in ranked.items()
            if rank != membership(table, video_id)["rank"]
        }
        assert len(moved) == 3
        assert sorted(audited["changes"], key=lambda change: change["field"]) == [
            moved[video_id] for video_id in sorted(moved, key=lambda video_id: f"/entries/{video_id}")
        ]

    def test_playlist_entry_omits_moves_of_the_previous_write(
        self, api: Api, table: Table, background: BackgroundWork
    ) -> None:
        video_id = api.publish()["videoId"]
        playlist_id = new_playlist(api, video_id)
        key = PLAYLIST.key(playlistId=playlist_id)
        stored = table.get(key) or {}
        assert [move["videoId"] for move in stored["moves"]] == [video_id]
        entries_for(background)
        # An older release does not know `moves` and writes it back unchanged.
        table.write(table.put(stored | {"title": "New", "version": 3, "writeId": "older"}))
        api.patch(f"/v1/playlists/{playlist_id}", {"title": "Newer"})
        assert "moves" not in (table.get(key) or {})
        assert [item["changes"] for item in entries_for(background)] == [
            [{"field": "/title", "from": "By the sea", "to": "New"}],
            [{"field": "/title", "from": "New", "to": "Newer"}],
        ]

    def test_playlist_expiry_has_an_entry(self, api: Api, table: Table) -> None:
        stored = table.get(PLAYLIST.key(playlistId=new_playlist(api))) or {}
        expired = entry(Record(stream_record(stored, None, identity=EXPIRY)), DAYS)
        assert expired is not None
        assert (expired["action"], expired["version"], expired["owner"]) == ("expired", 1, "alice")
        assert {"field": "/title", "from": "By the sea"} in expired["changes"]

    def test_membership_items_of_a_playlist_have_no_entries(self, api: Api, background: BackgroundWork) -> None:
        video_id = api.publish()["videoId"]
        entries_for(background)
        new_playlist(api, video_id)
        assert {item["entity"] for item in entries_for(background)} == {"playlist"}

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", [0, 3])
    def test_playlist_entries_equal_the_sum_of_all_recorded_changes(
        self, api: Api, table: Table, background: BackgroundWork, monkeypatch: pytest.MonkeyPatch, seed: int
    ) -> None:
        chance = random.Random(seed)
        monkeypatch.setattr(ranks, "LONG", ranks.WIDTH)
        video_ids = [str(api.publish()["videoId"]) for _ in range(8)]
        playlist_id = new_playlist(api)
        store = PlaylistStore(table)
        states = {1: _state(table, playlist_id)}
        for number in range(60):
            _change_randomly(api, store, playlist_id, video_ids, chance, number)
            states[(table.get(PLAYLIST.key(playlistId=playlist_id)) or {})["version"]] = _state(table, playlist_id)

        audited = entries_for(background, "playlist")
        assert [item["version"] for item in audited] == list(range(1, max(states) + 1))
        assert max(len(item["changes"]) for item in audited) > 2  # some moves also changed the ranks of neighbours
        state: Item = {"entries": {}}
        for item in audited:
            for step in item["changes"]:
                state = set_at(state, split_pointer(step["field"]), step.get("to"), is_present="to" in step)
            assert state == states.get(item["version"], state)
        for item in reversed(audited):
            assert state == states.get(item["version"], state)
            for step in reversed(item["changes"]):
                state = revert_change(state, step)
        assert state == {"entries": {}}


def _state(table: Table, playlist_id: str) -> Item:
    """Return the stored content of a playlist and of its entries."""
    stored = [item for item in items_of(table) if item["pk"] == f"PLAYLIST#{playlist_id}"]
    (playlist,) = [item for item in stored if item["sk"] == PLAYLIST.sk]
    entries = {item["videoId"]: item for item in stored if item["sk"].startswith("HAS#")}
    assert playlist["entryCount"] == len(entries)
    content = {name: playlist[name] for name in PLAYLIST_FIELDS if name in playlist}
    return content | {
        "entries": {video_id: {name: item[name] for name in ("rank", "addedAt")} for video_id, item in entries.items()}
    }


def _change_randomly(
    api: Api, store: PlaylistStore, playlist_id: str, video_ids: list[str], chance: random.Random, number: int
) -> None:
    """Send a random change of a playlist. The service may refuse the change."""
    path, (video_id, other) = f"/v1/playlists/{playlist_id}", chance.sample(video_ids, 2)
    choice = chance.randrange(10)
    if choice < 4:
        api.post(f"{path}/entries", {"videoId": video_id})
    elif choice < 7:
        api.patch(f"{path}/entries/{video_id}", {chance.choice(["after", "before"]): chance.choice([other, None])})
    elif choice == 7:
        api.delete(f"{path}/entries/{video_id}")
    elif choice == 8:
        api.patch(path, {"title": f"Title {chance.randrange(3)}", "description": chance.choice([None, "d"])})
    else:
        api.delete(path)
        if number % 2:
            EntryStore(store).forget(playlist_id, video_id, PURGE, NOW)
        store.restore(playlist_id, ALICE, NOW)


class TestRestoring:
    def test_deleted_playlist_is_restored_unchanged(self, api: Api, table: Table, background: BackgroundWork) -> None:
        video_id = api.publish()["videoId"]
        playlist_id = new_playlist(api, video_id, visibility="public")
        path = f"/v1/playlists/{playlist_id}"
        before = api.get(path).json
        original = table.get(PLAYLIST.key(playlistId=playlist_id)) or {}
        api.delete(path)
        deleted = table.get(PLAYLIST.key(playlistId=playlist_id)) or {}
        assert (deleted["deletedAt"], deleted["purgeAt"], "rel" in deleted) == (NOW, NOW + 30 * DAY, False)
        entries_for(background)
        restored = PlaylistStore(table).restore(playlist_id, ALICE, NOW)
        assert restored == api.get(path).json == before | {"version": 4}
        assert [entry["videoId"] for entry in api.get(f"{path}/entries").json["items"]] == [video_id]
        for listed in ("/v1/playlists", f"/v1/videos/{video_id}/playlists"):
            assert [item["playlistId"] for item in api.get(listed).json["items"]] == [playlist_id]
        now = table.get(PLAYLIST.key(playlistId=playlist_id)) or {}
        for name in ("rel", "relShard", "relSort", "relId"):
            assert now[name] == original[name]
        assert not {"deletedAt", "purgeAt"} & now.keys()
        assert [(item["action"], item["correlationId"]) for item in entries_for(background)] == [
            ("restored", "of-alice")
        ]
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

    def test_restore_respects_the_maximum_number_of_playlists_per_owner(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(playlists, "MAX_PLAYLISTS", 1)
        playlist_id = new_playlist(api)
        api.delete(f"/v1/playlists/{playlist_id}")
        other = new_playlist(api)
        with pytest.raises(LimitReached):
            PlaylistStore(table).restore(playlist_id, ALICE, NOW)
        assert "deletedAt" in (table.get(PLAYLIST.key(playlistId=playlist_id)) or {})
        api.delete(f"/v1/playlists/{other}")
        assert PlaylistStore(table).restore(playlist_id, ALICE, NOW)["playlistId"] == playlist_id

    def test_removed_video_leaves_deleted_playlists(self, api: Api, table: Table) -> None:
        deleted_id, kept_id = (str(api.publish()["videoId"]) for _ in range(2))
        playlist_id = new_playlist(api, deleted_id, kept_id)
        api.delete(f"/v1/playlists/{playlist_id}")
        table.delete(VIDEO.key(videoId=deleted_id))
        EntryStore(PlaylistStore(table)).forget(playlist_id, deleted_id, PURGE, NOW)
        assert [kept_id["sk"] for kept_id in items_of(table) if deleted_id in kept_id["sk"]] == []
        assert PlaylistStore(table).restore(playlist_id, ALICE, NOW)["entryCount"] == 1
        entries = api.get(f"/v1/playlists/{playlist_id}/entries").json["items"]
        assert [entry["videoId"] for entry in entries] == [kept_id]
