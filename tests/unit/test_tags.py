"""Tags and regions: videos are found by any spelling of a tag, and by where they were released."""

from typing import Any
from urllib.parse import quote

import pytest
from botocore.exceptions import ClientError

from local.testbed.harness import NOW, Api, RecordedOperation, record_operations
from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.core.caller import Caller
from shared.schema import PARTITION_KEY, RELATION_INDEX, RELEASE, SORT_KEY, VIDEO, region_relation, shard_of
from shared.videos.store import VideoStore
from shared.videos.tags import normalise_tag
from shared.videos.video import apply_pictures


def _path(video: dict[str, Any]) -> str:
    return f"/v1/videos/{video['videoId']}"


def _titles(api: Api, query: str, **options: Any) -> list[str]:
    reply = api.get("/v1/videos", query=query, **options)
    assert reply.status == 200, reply.body
    return [item["title"] for item in reply.json["items"]]


def _walk(api: Api, query: str) -> list[list[str]]:
    pages, cursor = [], None
    while True:
        reply = api.get("/v1/videos", query=query + (f"&cursor={cursor}" if cursor else ""))
        pages.append([item["title"] for item in reply.json["items"]])
        cursor = reply.json["nextCursor"]
        if cursor is None:
            return pages


def _entries(table: Table, video: dict[str, Any]) -> list[dict[str, Any]]:
    """The tag entries of a video as they are stored."""
    return table.query(
        index=None,
        condition=Expression(
            "#pk = :pk AND begins_with(#sk, :sk)",
            {"#pk": PARTITION_KEY, "#sk": SORT_KEY},
            {":pk": VIDEO.key(videoId=video["videoId"])[PARTITION_KEY], ":sk": "TAG#"},
        ),
        limit=100,
    ).items


def _release(table: Table, video: dict[str, Any], region: str, language: str = "-") -> None:
    video_id = video["videoId"]
    item = {
        **RELEASE.key(videoId=video_id, region=region, language=language),
        "rel": region_relation(region),
        "relShard": shard_of(video_id),
        "relSort": video["createdAt"],
        "relId": f"{video_id}#{language}",
    }
    table.write(table.put(item))


def _make_older(table: Table, video: dict[str, Any], tags: set[str]) -> None:
    """Give a video the form of the schema version before, which knew several spellings of a tag."""
    change = Expression("SET schemaVersion = :two, tags = :tags", {}, {":two": 2, ":tags": tags})
    table.write(table.update(VIDEO.key(videoId=video["videoId"]), change))


def _sent(operations: list[RecordedOperation]) -> list[str]:
    return [operation.name for operation in operations]


class TestSpelling:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("Cats", "cats"),
            ("STRASSE", "straße"),
            ("ﬁlm", "film"),
            ("science  fiction", " Science\u00a0Fiction "),
            ("é", "e\u0301"),
            ("Σίσυφος", "ΣΊΣΥΦΟΣ"),
            ("\uff46ull", "full"),
        ],
    )
    def test_a_video_shows_its_spelling_and_is_found_by_any(self, api: Api, one: str, other: str) -> None:
        video = api.publish(title="t", tags=[one])
        assert video["tags"] == [one]
        for spelling in (one, other, normalise_tag(one)):
            assert _titles(api, f"tag={quote(spelling)}") == ["t"]

    @pytest.mark.parametrize("tags", [["Cats", "cats"], ["a b", "a  b"], ["ß", "SS"]])
    def test_spellings_of_one_tag_are_refused_on_one_video(self, api: Api, tags: list[str]) -> None:
        video = api.create()
        for reply in (api.post("/v1/videos", {"title": "t", "tags": tags}), api.patch(_path(video), {"tags": tags})):
            assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, "/tags")

    def test_a_tag_that_is_long_when_written_out_is_refused_or_found(self, api: Api) -> None:
        wide = "\ufdfa"  # one character that stands for a sentence
        assert api.post("/v1/videos", {"title": "t", "tags": [wide * 30]}).status == 422
        api.publish(title="t", tags=[wide * 10])
        assert _titles(api, f"tag={quote(normalise_tag(wide * 10))}") == ["t"]

    def test_signs_that_keys_are_made_of_are_taken_as_they_are(self, api: Api) -> None:
        for tag in ("c#", "c%23", "c", "VIDEO#x", "a,b&c=d+e/f"):
            api.publish(title=tag, tags=[tag])
        for tag in ("c#", "c%23", "c", "VIDEO#x", "a,b&c=d+e/f"):
            assert _titles(api, f"tag={quote(tag, safe='')}") == [tag]

    def test_changed_spelling_updates_the_shown_tag_and_no_entry(self, api: Api, table: Table) -> None:
        video = api.publish(title="t", tags=["cats"])
        with record_operations(table.client) as operations:
            reply = api.patch(_path(video), {"tags": ["Cats"]})
        assert (reply.json["tags"], _sent(operations)) == (["Cats"], ["GetItem", "UpdateItem"])
        assert _titles(api, "tag=CATS") == ["t"]


class TestEntries:
    def test_creating_puts_one_for_each_tag_in_the_same_transaction(self, api: Api, table: Table) -> None:
        with record_operations(table.client) as operations:
            video = api.publish("alice", createdAt=5, tags=["B", "a"])
        assert _sent(operations) == ["TransactWriteItems"]
        entries = _entries(table, video)
        assert [(entry["tag"], entry["rel"], entry["relSort"], entry["relId"]) for entry in entries] == [
            ("a", "TAG#a", 5, video["videoId"]),
            ("b", "TAG#b", 5, video["videoId"]),
        ]
        assert not {"userId", "createdAt"} & {name for entry in entries for name in entry}

    def test_without_tags_a_video_costs_what_it_did(self, api: Api, table: Table) -> None:
        with record_operations(table.client) as operations:
            video = api.create()
            api.patch(_path(video), {"title": "new"})
        assert _sent(operations) == ["PutItem", "GetItem", "UpdateItem"]

    def test_a_change_of_other_fields_writes_no_entry(self, api: Api, table: Table) -> None:
        video = api.create(tags=["a"])
        with record_operations(table.client) as operations:
            api.patch(_path(video), {"title": "new"})
            api.delete(_path(video))
            api.post(f"{_path(video)}/restore")
        assert set(_sent(operations)) == {"GetItem", "UpdateItem"}

    def test_a_change_of_tags_moves_only_those_that_come_or_go(self, api: Api, table: Table) -> None:
        video = api.publish(title="t", tags=["stays", "goes"])
        with record_operations(table.client) as operations:
            api.patch(_path(video), {"tags": ["Stays", "comes"]})
        kinds = [next(iter(write)) for write in operations[-1].parameters["TransactItems"]]
        assert kinds == ["Update", "Put", "Delete"]
        assert [entry["tag"] for entry in _entries(table, video)] == ["comes", "stays"]
        assert [_titles(api, f"tag={tag}") for tag in ("stays", "comes", "goes")] == [["t"], ["t"], []]

    @pytest.mark.parametrize("none", [None, []])
    def test_a_video_can_lose_all_its_tags(self, api: Api, table: Table, none: Any) -> None:
        video = api.publish(tags=["a", "b"])
        assert "tags" not in api.patch(_path(video), {"tags": none}).json
        assert (_entries(table, video), _titles(api, "tag=a")) == ([], [])

    def test_all_thirty_tags_can_change_at_once_and_once(self, api: Api, table: Table) -> None:
        key = {"Idempotency-Key": "k"}
        body = {"title": "t", "tags": [f"old {n}" for n in range(30)], "visibility": "public", "status": "ready"}
        video = api.post("/v1/videos", body, headers=key, user="admin").json
        assert api.post("/v1/videos", body, headers=key, user="admin").json == video
        api.patch(_path(video), {"tags": [f"new {n}" for n in range(30)]}, user="admin")
        assert len(_entries(table, video)) == 30
        assert (_titles(api, "tag=new+7"), _titles(api, "tag=old+7")) == (["t"], [])

    def test_a_lost_condition_moves_no_entry(self, api: Api, table: Table) -> None:
        video = api.publish(tags=["a"])
        assert api.patch(_path(video), {"tags": ["b"]}, headers={"If-Match": '"9"'}).status == 412
        existing = {"title": "t", "videoId": video["videoId"], "tags": ["c"]}
        assert api.post("/v1/videos", existing, user="admin").status == 409
        assert [entry["tag"] for entry in _entries(table, video)] == ["a"]


class TestVideosOfTheVersionBefore:
    def test_older_video_keeps_one_spelling_of_a_tag_after_the_next_change(self, api: Api, table: Table) -> None:
        video = api.publish(tags=["cats"])
        _make_older(table, video, {"Cats", "cats", "CATS"})
        assert api.get(_path(video)).json["schemaVersion"] == 2
        changed = api.patch(_path(video), {"title": "new"}).json
        assert (changed["tags"], changed["schemaVersion"]) == (["CATS"], 3)
        assert _titles(api, "tag=cats") == ["new"]

    def test_video_of_schema_2_can_be_deleted_and_restored(self, api: Api, table: Table) -> None:
        video = api.publish(title="t", tags=["cats"])
        _make_older(table, video, {"Cats", "cats"})
        assert api.delete(_path(video)).status == 204
        assert api.post(f"{_path(video)}/restore").json["tags"] == ["Cats"]
        assert _titles(api, "tag=cats") == ["t"]

    def test_a_request_that_changes_nothing_writes_nothing(self, api: Api, table: Table) -> None:
        video = api.publish(title="t", tags=["cats"])
        _make_older(table, video, {"Cats", "cats"})
        with record_operations(table.client) as operations:
            api.patch(_path(video), {"title": "t"})
        assert _sent(operations) == ["GetItem"]

    def test_a_job_leaves_the_upgrade_to_the_next_change_by_people(self, api: Api, table: Table) -> None:
        video = api.publish(title="t", tags=["cats"])
        _make_older(table, video, {"Cats", "cats"})
        with record_operations(table.client) as operations:
            VideoStore(table, moves_entries=False).change(
                video["videoId"],
                Caller.job("probe"),
                NOW,
                lambda item: apply_pictures(item, {"p": {"url": "s3://b/p"}}),
            )
        assert _sent(operations) == ["GetItem", "UpdateItem"]
        assert api.get(_path(video)).json["schemaVersion"] == 2
        assert api.patch(_path(video), {"title": "new"}).json["tags"] == ["Cats"]


class TestListsByTag:
    def test_newest_first_in_a_time_range_page_by_page(self, api: Api) -> None:
        for second in range(7):
            api.publish(title=str(second), createdAt=1000 + second, tags=["a"])
        api.publish(title="other", createdAt=1003, tags=["b"])
        assert _titles(api, "tag=a") == ["6", "5", "4", "3", "2", "1", "0"]
        assert _titles(api, "tag=a&order=asc&from=1002&to=1004") == ["2", "3"]
        assert _walk(api, "tag=a&limit=3") == [["6", "5", "4"], ["3", "2", "1"], ["0"]]
        assert _walk(api, "tag=A&limit=2&order=asc&from=1003") == [["3", "4"], ["5", "6"]]

    def test_everybody_finds_what_is_published_and_owners_all_of_their_own(self, api: Api) -> None:
        states: dict[str, dict[str, Any]] = {
            "published": {},
            "private": {"visibility": "private"},
            "failed": {"status": "failed"},
            "to come": {"publishAt": NOW + 50},
            "expired": {"expiresAt": NOW},
        }
        for second, (title, fields) in enumerate(states.items()):
            api.publish("alice", title=title, createdAt=1000 - second, tags=["a"], **fields)
        deleted = api.publish("alice", title="deleted", tags=["a"])
        api.delete(_path(deleted))
        api.publish("alice", title="another tag", tags=["b"])
        for user in ("alice", "bob", "admin"):
            assert _titles(api, "tag=a", user=user) == ["published"]
        assert _titles(api, "tag=a&userId=alice", user="bob") == ["published"]
        assert _titles(api, "tag=A&userId=alice", user="alice") == list(states)
        assert _titles(api, "tag=a&userId=alice", user="admin") == list(states)
        assert _titles(api, "tag=a&userId=alice&status=failed", user="alice") == ["failed"]
        assert _walk(api, "tag=a&userId=alice&limit=2") == [list(states)[:2], list(states)[2:4], list(states)[4:]]

    def test_pages_are_full_though_much_is_hidden(self, api: Api) -> None:
        for second in range(30):
            hidden = {"visibility": "private"} if second % 3 else {}
            api.publish("bob", title=str(second), createdAt=1000 + second, tags=["a"], **hidden)
        assert _walk(api, "tag=a&limit=4") == [["27", "24", "21", "18"], ["15", "12", "9", "6"], ["3", "0"]]

    def test_delete_takes_the_entries_out_and_restore_puts_them_back(self, api: Api, table: Table) -> None:
        video = api.publish("alice", title="t", tags=["a"])
        api.delete(_path(video))
        assert (_entries(table, video), _titles(api, "tag=a", user="admin")) == ([], [])
        api.post(f"{_path(video)}/restore")
        assert _titles(api, "tag=a", user="bob") == ["t"]

    @pytest.mark.parametrize(
        ("query", "titles"),
        [
            ("userId=alice", ["short", "long"]),
            ("userId=carol", []),
            ("category=film", ["bob's", "long"]),
            ("format=mp4", ["short"]),
            ("minDuration=1000", ["long"]),
            ("maxDuration=999", ["short"]),
            ("minDuration=10&maxDuration=10", ["short"]),
            ("status=ready", ["bob's", "short", "long"]),
            ("status=failed", []),
            ("userId=alice&category=film", ["long"]),
        ],
    )
    def test_other_parameters_filter(self, api: Api, query: str, titles: list[str]) -> None:
        api.publish("alice", title="long", createdAt=1, tags=["a"], category="film", duration=1000)
        api.publish("alice", title="short", createdAt=2, tags=["a"], category="news", duration=10, format="mp4")
        api.publish("bob", title="bob's", createdAt=3, tags=["a"], category="film")
        assert _titles(api, f"tag=a&{query}") == titles

    def test_tag_list_returns_only_the_requested_fields(self, api: Api) -> None:
        api.publish(title="t", tags=["a"])
        assert api.get("/v1/videos", query="tag=a&fields=title").json["items"] == [{"title": "t"}]

    def test_no_attribute_of_an_index_entry_but_its_place_is_read(self, api: Api, table: Table) -> None:
        api.publish(tags=["a"])
        with record_operations(table.client) as operations:
            api.get("/v1/videos", query="tag=a")
        assert {operation.index for operation in operations} == {RELATION_INDEX.name, None}
        for query in operations[:-1]:
            names = query.parameters["ExpressionAttributeNames"]
            projected = {names[placeholder] for placeholder in query.parameters["ProjectionExpression"].split(", ")}
            assert projected == {"relId", "relSort"}

    def test_a_cursor_belongs_to_its_tag_in_whatever_spelling(self, api: Api) -> None:
        for _ in range(2):
            api.publish(title="t", tags=["a", "b"])
        cursor = api.get("/v1/videos", query="tag=a&limit=1").json["nextCursor"]
        assert _titles(api, f"tag=A&limit=1&cursor={cursor}") == ["t"]
        for other in ("tag=b", "", "tag=a&userId=alice"):
            assert api.get("/v1/videos", query=f"{other}&limit=1&cursor={cursor}".lstrip("&")).status == 400

    def test_an_entry_that_is_older_than_the_videos_tags_leads_nowhere(self, api: Api, table: Table) -> None:
        video = api.publish(title="t", tags=["a"])
        change = Expression("SET tags = :tags", {}, {":tags": {"b"}})
        table.write(table.update(VIDEO.key(videoId=video["videoId"]), change))
        assert _titles(api, "tag=a") == []


class TestListsByRegion:
    def test_region_list_shows_each_video_once_whatever_its_languages(self, api: Api, table: Table) -> None:
        for second in range(5):
            video = api.publish(title=str(second), createdAt=1000 + second)
            for language in ("-", "en", "mi", "zh-Hant"):
                _release(table, video, "NZ", language)
        assert _titles(api, "region=nz") == ["4", "3", "2", "1", "0"]
        assert _walk(api, "region=NZ&limit=2") == [["4", "3"], ["2", "1"], ["0"]]
        assert _walk(api, "region=NZ&limit=1&order=asc&from=1002") == [["2"], ["3"], ["4"]]
        assert _titles(api, "region=AU") == []

    def test_videos_of_the_same_second_are_all_shown_once(self, api: Api, table: Table) -> None:
        for number in range(6):
            video = api.publish(title=str(number), createdAt=1000)
            for language in ("-", "en", "fr"):
                _release(table, video, "FR", language)
        for order in ("asc", "desc"):
            pages = _walk(api, f"region=FR&limit=2&order={order}")
            assert sorted(title for page in pages for title in page) == list("012345")

    def test_region_list_omits_hidden_videos_and_applies_other_filters(self, api: Api, table: Table) -> None:
        for title, fields in {"hidden": {"visibility": "private"}, "film": {"category": "f"}, "news": {}}.items():
            _release(table, api.publish("alice", title=title, createdAt=1, **fields), "NZ")
        assert sorted(_titles(api, "region=NZ", user="bob")) == ["film", "news"]
        assert _titles(api, "region=NZ&category=f", user="bob") == ["film"]
        assert sorted(_titles(api, "region=NZ&userId=alice", user="alice")) == ["film", "news"]

    def test_a_release_of_an_ids_earlier_owner_leads_nowhere(self, api: Api, table: Table) -> None:
        video = api.publish(createdAt=1000)
        _release(table, video | {"createdAt": 999}, "NZ")
        assert _titles(api, "region=NZ") == []


class TestTrouble:
    """Answers that are lost, and others who write at the same time."""

    def test_a_change_whose_answer_was_lost_is_recognised(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        video = api.publish(title="t", tags=["a"])
        real = table.client.transact_write_items
        calls = []

        def lossy(**parameters: Any) -> Any:
            calls.append(parameters["ClientRequestToken"])
            response = real(**parameters)
            if len(calls) == 1:
                raise ClientError({"Error": {"Code": "InternalServerError", "Message": ""}}, "TransactWriteItems")
            return response

        monkeypatch.setattr(table.client, "transact_write_items", lossy)
        reply = api.patch(_path(video), {"tags": ["b"]}, headers={"If-Match": '"1"'})
        assert (reply.status, reply.json["version"], reply.json["tags"]) == (200, 2, ["b"])
        assert (len(calls), len(set(calls))) == (2, 1)
        assert (_titles(api, "tag=a"), _titles(api, "tag=b")) == ([], ["t"])

    @pytest.mark.parametrize("tags", [[], ["a"]])
    def test_a_creation_whose_answer_was_lost_is_recognised(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch, tags: list[str]
    ) -> None:
        for name in ("put_item", "transact_write_items"):
            monkeypatch.setattr(table.client, name, _losing_first(getattr(table.client, name)))
        assert api.post("/v1/videos", {"title": "t", "tags": tags}).status == 201
        assert len(api.get("/v1/videos", query="userId=alice").json["items"]) == 1

    def test_a_contended_change_reads_again_and_continues(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        video = api.publish(tags=["a"])
        real = table.client.transact_write_items
        conflicts = iter(range(6))  # more than one request is sent again for

        def conflicting(**parameters: Any) -> Any:
            if next(conflicts, None) is None:
                return real(**parameters)
            reasons = [{"Code": "TransactionConflict"}, {"Code": "None"}, {"Code": "None"}]
            error: Any = {"Error": {"Code": "TransactionCanceledException", "Message": ""}}
            raise ClientError(error | {"CancellationReasons": reasons}, "TransactWriteItems")

        monkeypatch.setattr(table.client, "transact_write_items", conflicting)
        assert api.patch(_path(video), {"tags": ["b"]}).status == 200

    def test_a_contended_creation_says_so(self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
        def conflicting(**_: Any) -> Any:
            raise ClientError({"Error": {"Code": "TransactionConflictException", "Message": ""}}, "Any")

        monkeypatch.setattr(table.client, "transact_write_items", conflicting)
        body = {"title": "t", "tags": ["a"], "status": "ready", "visibility": "public"}
        reply = api.post("/v1/videos", body, user="admin")
        assert (reply.status, reply.slug) == (409, "write-contention")
        assert reply.headers["retry-after"] == "1"


def _losing_first(operation: Any) -> Any:
    """The operation, whose first answer gets lost."""
    losses: list[int] = []

    def call(**parameters: Any) -> Any:
        response = operation(**parameters)
        if not losses:
            losses.append(1)
            raise ClientError({"Error": {"Code": "InternalServerError", "Message": ""}}, "Any")
        return response

    return call
