"""Lists by tag and by region: any spelling of a tag finds the video, and so does any region with a release."""

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
    """Return the stored tag entries of a video."""
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
    """Rewrite a video in the previous schema version, in which it could have several spellings of a tag."""
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
    def test_video_keeps_its_spelling_of_a_tag_and_is_found_by_any(self, api: Api, one: str, other: str) -> None:
        video = api.publish(title="t", tags=[one])
        assert video["tags"] == [one]
        for spelling in (one, other, normalise_tag(one)):
            assert _titles(api, f"tag={quote(spelling)}") == ["t"]

    @pytest.mark.parametrize("tags", [["Cats", "cats"], ["a b", "a  b"], ["ß", "SS"]])
    def test_spellings_of_one_tag_are_refused_on_one_video(self, api: Api, tags: list[str]) -> None:
        video = api.create()
        for reply in (api.post("/v1/videos", {"title": "t", "tags": tags}), api.patch(_path(video), {"tags": tags})):
            assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, "/tags")

    def test_tag_length_is_limited_after_normalisation(self, api: Api) -> None:
        wide = "\ufdfa"  # one character that normalises to a sentence of 18 characters
        assert api.post("/v1/videos", {"title": "t", "tags": [wide * 30]}).status == 422
        api.publish(title="t", tags=[wide * 10])
        assert _titles(api, f"tag={quote(normalise_tag(wide * 10))}") == ["t"]

    def test_tags_may_contain_the_separators_of_keys(self, api: Api) -> None:
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
    def test_creation_writes_an_entry_per_tag_in_one_transaction(self, api: Api, table: Table) -> None:
        with record_operations(table.client) as operations:
            video = api.publish("alice", createdAt=5, tags=["B", "a"])
        assert _sent(operations) == ["TransactWriteItems"]
        entries = _entries(table, video)
        assert [(entry["tag"], entry["rel"], entry["relSort"], entry["relId"]) for entry in entries] == [
            ("a", "TAG#a", 5, video["videoId"]),
            ("b", "TAG#b", 5, video["videoId"]),
        ]
        assert not {"userId", "createdAt"} & {name for entry in entries for name in entry}

    def test_video_without_tags_is_written_without_a_transaction(self, api: Api, table: Table) -> None:
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

    def test_changed_tags_write_only_added_and_removed_entries(self, api: Api, table: Table) -> None:
        video = api.publish(title="t", tags=["stays", "goes"])
        with record_operations(table.client) as operations:
            api.patch(_path(video), {"tags": ["Stays", "comes"]})
        kinds = [next(iter(write)) for write in operations[-1].parameters["TransactItems"]]
        assert kinds == ["Update", "Put", "Delete"]
        assert [entry["tag"] for entry in _entries(table, video)] == ["comes", "stays"]
        assert [_titles(api, f"tag={tag}") for tag in ("stays", "comes", "goes")] == [["t"], ["t"], []]

    @pytest.mark.parametrize("none", [None, []])
    def test_all_tags_can_be_removed(self, api: Api, table: Table, none: Any) -> None:
        video = api.publish(tags=["a", "b"])
        assert "tags" not in api.patch(_path(video), {"tags": none}).json
        assert (_entries(table, video), _titles(api, "tag=a")) == ([], [])

    def test_thirty_tags_can_be_replaced_in_one_request(self, api: Api, table: Table) -> None:
        key = {"Idempotency-Key": "k"}
        body = {"title": "t", "tags": [f"old {n}" for n in range(30)], "visibility": "public", "status": "ready"}
        video = api.post("/v1/videos", body, headers=key, user="admin").json
        assert api.post("/v1/videos", body, headers=key, user="admin").json == video
        api.patch(_path(video), {"tags": [f"new {n}" for n in range(30)]}, user="admin")
        assert len(_entries(table, video)) == 30
        assert (_titles(api, "tag=new+7"), _titles(api, "tag=old+7")) == (["t"], [])

    def test_failed_condition_writes_no_entry(self, api: Api, table: Table) -> None:
        video = api.publish(tags=["a"])
        assert api.patch(_path(video), {"tags": ["b"]}, headers={"If-Match": '"9"'}).status == 412
        existing = {"title": "t", "videoId": video["videoId"], "tags": ["c"]}
        assert api.post("/v1/videos", existing, user="admin").status == 409
        assert [entry["tag"] for entry in _entries(table, video)] == ["a"]


class TestVideosOfThePreviousSchema:
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

    def test_request_without_changes_writes_nothing(self, api: Api, table: Table) -> None:
        video = api.publish(title="t", tags=["cats"])
        _make_older(table, video, {"Cats", "cats"})
        with record_operations(table.client) as operations:
            api.patch(_path(video), {"title": "t"})
        assert _sent(operations) == ["GetItem"]

    def test_jobs_do_not_upgrade_tags_of_older_videos(self, api: Api, table: Table) -> None:
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
    def test_tag_list_has_order_time_range_and_pages(self, api: Api) -> None:
        for second in range(7):
            api.publish(title=str(second), createdAt=1000 + second, tags=["a"])
        api.publish(title="other", createdAt=1003, tags=["b"])
        assert _titles(api, "tag=a") == ["6", "5", "4", "3", "2", "1", "0"]
        assert _titles(api, "tag=a&order=asc&from=1002&to=1004") == ["2", "3"]
        assert _walk(api, "tag=a&limit=3") == [["6", "5", "4"], ["3", "2", "1"], ["0"]]
        assert _walk(api, "tag=A&limit=2&order=asc&from=1003") == [["3", "4"], ["5", "6"]]

    def test_tag_list_has_published_videos_and_all_videos_of_the_owner(self, api: Api) -> None:
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

    def test_pages_are_full_despite_hidden_videos(self, api: Api) -> None:
        for second in range(30):
            hidden = {"visibility": "private"} if second % 3 else {}
            api.publish("bob", title=str(second), createdAt=1000 + second, tags=["a"], **hidden)
        assert _walk(api, "tag=a&limit=4") == [["27", "24", "21", "18"], ["15", "12", "9", "6"], ["3", "0"]]

    def test_delete_removes_the_entries_and_restore_adds_them(self, api: Api, table: Table) -> None:
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
    def test_tag_list_applies_other_filters(self, api: Api, query: str, titles: list[str]) -> None:
        api.publish("alice", title="long", createdAt=1, tags=["a"], category="film", duration=1000)
        api.publish("alice", title="short", createdAt=2, tags=["a"], category="news", duration=10, format="mp4")
        api.publish("bob", title="bob's", createdAt=3, tags=["a"], category="film")
        assert _titles(api, f"tag=a&{query}") == titles

    def test_tag_list_returns_only_the_requested_fields(self, api: Api) -> None:
        api.publish(title="t", tags=["a"])
        assert api.get("/v1/videos", query="tag=a&fields=title").json["items"] == [{"title": "t"}]

    def test_tag_list_projects_only_the_position_of_index_entries(self, api: Api, table: Table) -> None:
        api.publish(tags=["a"])
        with record_operations(table.client) as operations:
            api.get("/v1/videos", query="tag=a")
        assert {operation.index for operation in operations} == {RELATION_INDEX.name, None}
        for query in operations[:-1]:
            names = query.parameters["ExpressionAttributeNames"]
            projected = {names[placeholder] for placeholder in query.parameters["ProjectionExpression"].split(", ")}
            assert projected == {"relId", "relSort"}

    def test_cursor_is_valid_only_for_its_tag_in_any_spelling(self, api: Api) -> None:
        for _ in range(2):
            api.publish(title="t", tags=["a", "b"])
        cursor = api.get("/v1/videos", query="tag=a&limit=1").json["nextCursor"]
        assert _titles(api, f"tag=A&limit=1&cursor={cursor}") == ["t"]
        for other in ("tag=b", "", "tag=a&userId=alice"):
            assert api.get("/v1/videos", query=f"{other}&limit=1&cursor={cursor}".lstrip("&")).status == 400

    def test_outdated_tag_entry_is_not_listed(self, api: Api, table: Table) -> None:
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

    def test_release_of_an_earlier_video_with_the_id_is_not_listed(self, api: Api, table: Table) -> None:
        video = api.publish(createdAt=1000)
        _release(table, video | {"createdAt": 999}, "NZ")
        assert _titles(api, "region=NZ") == []


class TestFaultsAndConflicts:
    """Lost responses and concurrent writes."""

    def test_change_with_a_lost_response_is_recognised(
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
    def test_creation_with_a_lost_response_is_recognised(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch, tags: list[str]
    ) -> None:
        for name in ("put_item", "transact_write_items"):
            monkeypatch.setattr(table.client, name, _losing_first(getattr(table.client, name)))
        assert api.post("/v1/videos", {"title": "t", "tags": tags}).status == 201
        assert len(api.get("/v1/videos", query="userId=alice").json["items"]) == 1

    def test_change_is_retried_after_transaction_conflicts(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        video = api.publish(tags=["a"])
        real = table.client.transact_write_items
        conflicts = iter(range(6))  # more conflicts than the retries of one request

        def conflicting(**parameters: Any) -> Any:
            if next(conflicts, None) is None:
                return real(**parameters)
            reasons = [{"Code": "TransactionConflict"}, {"Code": "None"}, {"Code": "None"}]
            error: Any = {"Error": {"Code": "TransactionCanceledException", "Message": ""}}
            raise ClientError(error | {"CancellationReasons": reasons}, "TransactWriteItems")

        monkeypatch.setattr(table.client, "transact_write_items", conflicting)
        assert api.patch(_path(video), {"tags": ["b"]}).status == 200

    def test_creation_with_lasting_conflicts_is_409(
        self, api: Api, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def conflicting(**_: Any) -> Any:
            raise ClientError({"Error": {"Code": "TransactionConflictException", "Message": ""}}, "Any")

        monkeypatch.setattr(table.client, "transact_write_items", conflicting)
        body = {"title": "t", "tags": ["a"], "status": "ready", "visibility": "public"}
        reply = api.post("/v1/videos", body, user="admin")
        assert (reply.status, reply.slug) == (409, "write-contention")
        assert reply.headers["retry-after"] == "1"


def _losing_first(operation: Any) -> Any:
    """Return the operation, changed so that the response to its first call is lost."""
    losses: list[int] = []

    def call(**parameters: Any) -> Any:
        response = operation(**parameters)
        if not losses:
            losses.append(1)
            raise ClientError({"Error": {"Code": "InternalServerError", "Message": ""}}, "Any")
        return response

    return call
