"""Change sets: what one request wrote, for who may see it, and in pages."""

from urllib.parse import quote

import jsonschema_rs
import pytest

from shared.core.attributes import Item
from shared.core.caller import request_of
from shared.history import changesets
from shared.openapi.document import document
from shared.schema import AUDIT, CHANGESET
from shared.web.cursors import LIFETIME_SECONDS
from tests.harness import NOW, Api, Reply, recorded
from tests.trailed import DAYS, Trailed


@pytest.fixture
def trailed(api: Api) -> Trailed:
    """The service with an empty trail."""
    return Trailed(api)


def _last_request(trailed: Trailed, video_id: str) -> str:
    """The id of the request that wrote a video last."""
    return str(request_of(trailed.item(video_id)))


def _batch(trailed: Trailed, *owners: str) -> tuple[str, list[str]]:
    """A change set of an admin's that changes the titles of new videos of these owners; its id, and theirs."""
    video_ids = [str(trailed.api.create("admin", userId=owner)["videoId"]) for owner in owners]
    changes = [{"op": "patch", "videoId": video_id, "patch": {"title": "New"}} for video_id in video_ids]
    assert trailed.api.post("/v1/videos/batch", {"operations": changes}, user="admin").status == 200
    trailed.settle()
    return _last_request(trailed, video_ids[0]), video_ids


def _get(trailed: Trailed, changeset_id: str, query: str = "", user: str = "admin") -> Reply:
    return trailed.api.get(f"/v1/changesets/{quote(changeset_id, safe='')}", query=query, user=user)


def _shown(trailed: Trailed, changeset_id: str, query: str = "", user: str = "admin") -> list[list[str]]:
    """The videos on each page, following the cursors."""
    pages: list[list[str]] = []
    cursor = ""
    while True:
        reply = _get(trailed, changeset_id, f"{query}{cursor}", user)
        assert reply.status == 200, reply.body
        pages.append([item["videoId"] for item in reply.json["items"]])
        if reply.json["nextCursor"] is None:
            return pages
        cursor = f"&cursor={quote(reply.json['nextCursor'])}"


def _put(trailed: Trailed, changeset_id: str, count: int, **fields: object) -> None:
    """Entries of a change set over as many videos."""
    for number in range(count):
        video_id = f"00000000-0000-4000-8000-{number:012}"
        item: Item = {
            **AUDIT.key(videoId=video_id, at=f"{NOW * 1000}", sequence="1"),
            CHANGESET: changeset_id,
            "videoId": video_id,
            "entity": "video",
            "owner": "alice",
            "purgeAt": NOW + 86_400,
            "changes": [],
        }
        trailed.trail.add(item | fields)


class TestWhatIsShown:
    def test_each_change_that_one_request_made(self, trailed: Trailed) -> None:
        changeset_id, video_ids = _batch(trailed, "alice", "bob")
        assert trailed.api.patch(f"/v1/videos/{video_ids[0]}", {"title": "Later"}).status == 200
        trailed.settle()
        items = _get(trailed, changeset_id).json["items"]
        assert {item["videoId"] for item in items} == {*video_ids}
        assert [item["changes"] for item in items] == 2 * [[{"field": "/title", "from": "A film", "to": "New"}]]
        assert {item["correlationId"] for item in items} == {changeset_id}

    def test_what_the_openapi_document_says(self, trailed: Trailed) -> None:
        changeset_id, _ = _batch(trailed, "alice", "bob")
        schema = {"$ref": "#/components/schemas/AuditPage", "components": document()["components"]}
        for query in ("", "limit=1"):
            jsonschema_rs.Draft202012Validator(schema).validate(_get(trailed, changeset_id, query).json)

    def test_the_changes_of_one_video_stand_together_the_newest_first(self, trailed: Trailed) -> None:
        video_id = trailed.api.create()["videoId"]
        changes = [{"op": "patch", "videoId": video_id, "patch": {"title": title}} for title in "abc"]
        trailed.api.post("/v1/videos/batch", {"operations": changes})
        trailed.settle()
        items = _get(trailed, _last_request(trailed, video_id)).json["items"]
        assert [item["version"] for item in items] == [4, 3, 2]

    @pytest.mark.parametrize("changeset_id", ["x", "!", "~" * 128, "50%", "a=b&c"])
    def test_any_visible_id_may_be_asked_for(self, trailed: Trailed, changeset_id: str) -> None:
        assert _get(trailed, changeset_id).status == 404
        _put(trailed, changeset_id, 1)
        assert len(_get(trailed, changeset_id).json["items"]) == 1


class TestWhoMayRead:
    def test_an_owner_sees_its_own_part_and_nothing_of_others(self, trailed: Trailed) -> None:
        changeset_id, (of_alice, of_bob) = _batch(trailed, "alice", "bob")
        assert _shown(trailed, changeset_id, user="alice") == [[of_alice]]
        assert _shown(trailed, changeset_id, user="bob") == [[of_bob]]

    def test_who_owns_nothing_of_it_learns_no_more_than_of_one_that_never_was(self, trailed: Trailed) -> None:
        changeset_id, _ = _batch(trailed, "alice")
        replies = [_get(trailed, id_, user="carol") for id_ in (changeset_id, "never-was")]
        assert [reply.status for reply in replies] == [404, 404]
        assert replies[0].json == replies[1].json

    def test_the_token_needs_the_scope(self, trailed: Trailed) -> None:
        changeset_id, _ = _batch(trailed, "alice")
        path = f"/v1/changesets/{changeset_id}"
        assert trailed.api.get(path, scopes="videos/write").status == 403
        assert trailed.api.get(path, scopes="videos/read").status == 200


class TestPages:
    @pytest.mark.parametrize("limit", [1, 3, 6, 7])
    @pytest.mark.parametrize("user", ["admin", "alice"])
    def test_they_hold_everything_once_and_are_full(self, trailed: Trailed, limit: int, user: str) -> None:
        _put(trailed, "set", 7)
        whole = _shown(trailed, "set", "limit=100", user)[0]
        assert len({*whole}) == 7
        assert _shown(trailed, "set", f"limit={limit}", user) == [whole[at : at + limit] for at in range(0, 7, limit)]

    def test_a_page_is_one_query_of_the_index_and_one_read_of_its_entries(self, trailed: Trailed) -> None:
        _put(trailed, "set", 3)
        with recorded(trailed.table.client) as seen:
            _get(trailed, "set")
        assert [(operation.name, operation.index) for operation in seen] == [
            ("Query", "ChangesetIndex"),
            ("BatchGetItem", None),
        ]

    def test_a_page_of_large_entries_is_short_and_leads_on(
        self, trailed: Trailed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(changesets, "LARGEST_PAGE", 1000)
        _put(trailed, "set", 3, changes=[{"field": "/description", "to": "x" * 600}])
        assert [len(page) for page in _shown(trailed, "set")] == [1, 1, 1]

    def test_the_search_for_what_is_not_hidden_is_bounded_and_leads_on(
        self, trailed: Trailed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(changesets, "LARGEST_QUERY", 2)
        _put(trailed, "set", 1)  # the last one of all, as the greatest ids come first
        _put(trailed, "set", 12, owner="bob")
        (shown,) = _shown(trailed, "set", user="alice")[1:]
        assert _shown(trailed, "set", user="alice") == [[], shown]
        assert len(shown) == 1

    def test_entries_past_their_time_are_hidden_though_dynamodb_has_them_still(self, trailed: Trailed) -> None:
        changeset_id, _ = _batch(trailed, "alice")
        trailed.api.clock.advance(DAYS * 86_400)
        assert _get(trailed, changeset_id).status == 404

    def test_a_cursor_holds_for_its_set_and_caller_only(self, trailed: Trailed) -> None:
        _put(trailed, "set", 2)
        _put(trailed, "other", 2)
        cursor = quote(_get(trailed, "set", "limit=1").json["nextCursor"])

        def status(changeset_id: str, user: str = "admin") -> int:
            return _get(trailed, changeset_id, f"cursor={cursor}", user).status

        assert [status("set"), status("other"), status("set", "alice")] == [200, 400, 400]
        trailed.api.clock.advance(LIFETIME_SECONDS + 1)
        assert status("set") == 400


class TestBadRequests:
    @pytest.mark.parametrize("changeset_id", ["~" * 129, "a b", "é", "a\tb"])
    def test_a_bad_id_is_400_and_asks_nothing(self, trailed: Trailed, changeset_id: str) -> None:
        with recorded(trailed.table.client) as seen:
            assert _get(trailed, changeset_id).status == 400
        assert seen == []

    @pytest.mark.parametrize("query", ["limit=0", "limit=101", "cursor=x", "order=asc", "limit=1&limit=2"])
    def test_a_bad_parameter_is_400(self, trailed: Trailed, query: str) -> None:
        assert _get(trailed, "set", query).status == 400
