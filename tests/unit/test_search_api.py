"""Search over HTTP: results match the table even if the index is stale, pages are full, and counts are exact."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from uuid import UUID

import pytest
from moto import mock_aws

from local.testbed.harness import MEDIA_BUCKET, NOW, USER_SCOPES, Api, Clock, Reply, make_api, record_operations
from local.testbed.lean_moto import create_buckets, restore_tables, stored_tables
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects, object_uri
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import Gone
from shared.openapi import search as openapi
from shared.queries import MAX_QUERY_LENGTH
from shared.search import document, engine, generations, local_index, query_parser, tantivy_engine
from shared.search.consumer import SLICE
from shared.search.index_query import SearchFilters
from shared.search.video_search import VideoSearch
from shared.videos.store import VideoStore
from tests.indexed import IndexedService, publish_index
from tests.logs import log_lines
from tests.unit.conftest import SharedClient

FEED_SCOPES = f"{USER_SCOPES} videos/changes"
CALLERS = ("alice", "bob", "carol", "admin")
"""Two owners of videos, a user without videos, and an admin."""


@pytest.fixture(scope="module")
def first_index(
    empty_tables: bytes,
    shared_client: SharedClient,
    shared_s3_client: SharedClient,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[bytes, dict[str, bytes]]:
    """Return the tables, and the objects of the media bucket, after the first index was published without videos."""
    with mock_aws():
        restore_tables(empty_tables)
        create_buckets(MEDIA_BUCKET)
        objects = Objects(shared_s3_client.reset(), sleep=lambda _: None)
        table = Table("VideoMetadata", shared_client.reset(), sleep=lambda _: None)
        publish_index(table, objects, Clock(), tmp_path_factory.mktemp("builder"))
        keys = [found.key for found in objects.list_objects(MEDIA_BUCKET, "")]
        return stored_tables(), {key: objects.load(object_uri(MEDIA_BUCKET, key))[0] for key in keys}


@pytest.fixture
def service(
    table: Table, objects: Objects, clock: Clock, first_index: tuple[bytes, dict[str, bytes]]
) -> IndexedService:
    """Return the service with its background work. Its published index does not contain any video yet."""
    tables, files = first_index
    restore_tables(tables)
    for key, data in files.items():
        objects.put(MEDIA_BUCKET, key, data, "application/octet-stream")
    return IndexedService(table, objects, clock)


@pytest.fixture
def api(service: IndexedService) -> Api:
    """Return the API of the service."""
    return service.api


class FakeStore(VideoStore):
    """Store that has only the summaries of some visible videos."""

    def __init__(self, visible_ids: list[str]) -> None:
        self.visible_ids, self.requested = visible_ids, list[Sequence[str]]()

    def summaries(self, video_ids: Sequence[str], *_: object, **__: object) -> list[Item | None]:
        """Return summaries of the visible videos, `None` for others, and record the requested ids."""
        self.requested.append(video_ids)
        item = {"userId": "alice", "title": "Film", "createdAt": NOW, "status": "ready", "visibility": "public"}
        return [item | {"videoId": id_} if id_ in self.visible_ids else None for id_ in video_ids]


def search(api: Api, user: str = "carol", **query: Any) -> Reply:
    """Search one second after the previous query, so that the service checks for a newer index."""
    api.clock.advance(1)
    return api.get("/v1/search", query=urlencode(query), user=user)


def titles(reply: Reply) -> list[str]:
    """Return the titles of the results, in order."""
    assert reply.status == 200, reply.body
    return [item["video"]["title"] for item in reply.json["items"]]


def pages(api: Api, user: str = "carol", **query: Any) -> Iterator[list[dict[str, Any]]]:
    """Yield the items of each page of a query."""
    cursor: dict[str, str] = {}
    while True:
        reply = search(api, user, **query, **cursor)
        assert reply.status == 200, reply.body
        yield reply.json["items"]
        if reply.json["nextCursor"] is None:
            return
        cursor = {"cursor": reply.json["nextCursor"]}


class TestResults:
    def test_result_has_the_same_video_summary_as_lists(self, service: IndexedService, api: Api) -> None:
        service.publish_video("Apples", category="food")
        (result,) = search(api, q="aples").json["items"]
        assert result["video"] == api.get("/v1/videos").json["items"][0]
        assert result["score"] > 0

    def test_result_has_highlights_of_the_matching_words(self, service: IndexedService, api: Api) -> None:
        service.publish_video("Crème brûlée", tags=["Dessert"])
        (result,) = search(api, q="creme dessert").json["items"]
        assert result["highlights"] == [
            {"field": "title", "text": "Crème brûlée", "ranges": [[0, 5]]},
            {"field": "tags", "text": "Dessert", "ranges": [[0, 7]]},
        ]
        assert "quote" not in result

    def test_result_has_a_quote_of_the_captions_with_its_time(self, service: IndexedService, api: Api) -> None:
        service.put_captions(service.publish_video("Apples"), "An <i>apple</i> a day")
        (result,) = search(api, q='"apple a day"').json["items"]
        assert result["quote"] == {
            "language": "en",
            "start": 1000,
            "text": "An apple a day",
            "ranges": [[3, 8], [9, 10], [11, 14]],
        }

    def test_result_has_no_highlights_of_removed_text(self, service: IndexedService, api: Api) -> None:
        video_id = service.publish_video("My secret apples", description="Call secret 555", tags=["secret"])
        assert len(search(api, q="secret").json["items"][0]["highlights"]) == 3
        api.patch(f"/v1/videos/{video_id}", {"title": "My apples", "description": None, "tags": []}, user="alice")
        (result,) = search(api, q="secret").json["items"]
        assert (result["video"]["title"], result["highlights"]) == ("My apples", [])

    def test_result_has_highlights_of_the_first_matching_tags_by_alphabet(
        self, service: IndexedService, api: Api
    ) -> None:
        service.publish_video("Film", tags=["sea e", "sea b", "sea d", "sea a", "sea c"])
        (result,) = search(api, q="sea").json["items"]
        assert [part["text"] for part in result["highlights"]] == ["sea a", "sea b", "sea c"]

    def test_number_of_quoted_captions_is_limited_by_size(
        self, service: IndexedService, api: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for title in ("Apples apples", "Apples", "Of apples"):
            service.put_captions(service.publish_video(title), "All apples of this orchard")
        monkeypatch.setattr("shared.search.video_search.MAX_QUOTED", 2 * len("All apples of this orchard "))
        results = search(api, q="apples orchard").json["items"]
        assert ["quote" in item for item in results] == [True, True, False]
        assert all(item["highlights"] for item in results)

    def test_response_has_the_time_up_to_which_the_index_is_complete(self, service: IndexedService, api: Api) -> None:
        service.publish_video("Apples")
        reply = search(api, q="apples")
        assert reply.json["asOf"] == int(api.clock() * 1000)
        assert reply.json["complete"] is True
        assert reply.json["total"] == 1
        assert "facets" not in reply.json

    def test_search_without_a_query_lists_newest_first(self, service: IndexedService, api: Api) -> None:
        for age, title in ((3, "old"), (1, "new"), (2, "middle")):
            service.publish_video(title, createdAt=NOW - age)
        reply = search(api)
        assert titles(reply) == ["new", "middle", "old"]
        assert all(set(item) == {"video"} for item in reply.json["items"])

    def test_search_without_hits_returns_an_empty_page(self, api: Api) -> None:
        reply = search(api, q="apples", facets="category,tag,year")
        assert reply.json | {"asOf": 0} == {
            "items": [],
            "total": 0,
            "facets": {"category": [], "tag": [], "year": []},
            "complete": True,
            "asOf": 0,
            "nextCursor": None,
        }


class TestFilters:
    @pytest.fixture
    def videos(self, service: IndexedService) -> None:
        """Publish three videos that differ in every filterable field."""
        service.publish_video("film one", category="food", tags=["Red Fruit"], language="en-NZ", createdAt=NOW - 30)
        service.publish_video("film two", "bob", category="art", tags=["fruit"], language="en", createdAt=NOW - 20)
        service.publish_video("film three", "bob", category="art", language="de", createdAt=NOW - 10)

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({"category": "art"}, {"film two", "film three"}),
            ({"tag": "red  FRUIT"}, {"film one"}),
            ({"userId": "bob"}, {"film two", "film three"}),
            ({"language": "EN"}, {"film one", "film two"}),
            ({"language": "en-nz"}, {"film one"}),
            ({"from": NOW - 20}, {"film two", "film three"}),
            ({"to": NOW - 20}, {"film one"}),
            ({"category": "art", "language": "de"}, {"film three"}),
        ],
    )
    @pytest.mark.usefixtures("videos")
    def test_filters_keep_matching_videos(self, api: Api, query: dict[str, Any], expected: set[str]) -> None:
        assert set(titles(search(api, q="film", **query))) == expected
        assert set(titles(search(api, **query))) == expected

    @pytest.mark.usefixtures("videos")
    def test_filters_use_the_current_video_when_the_index_is_behind(self, service: IndexedService, api: Api) -> None:
        video_id = search(api, q="one").json["items"][0]["video"]["videoId"]
        api.patch(f"/v1/videos/{video_id}", {"category": "art", "tags": None, "language": "de"}, user="alice")
        for query in ({"category": "food"}, {"tag": "red fruit"}, {"language": "en"}):
            assert "film one" not in titles(search(api, q="film", **query))


class TestVisibility:
    def test_hidden_videos_are_found_only_by_their_owner(self, service: IndexedService, api: Api) -> None:
        hidden: dict[str, dict[str, Any]] = {
            "film private": {"visibility": "private"},
            "film unready": {"status": "processing"},
            "film scheduled": {"publishAt": NOW + 9000},
            "film expired": {"createdAt": NOW - 10, "expiresAt": NOW - 5},
        }
        for title, fields in hidden.items():
            service.publish_video(title, **fields)
        assert titles(search(api, "carol", q="film")) == []
        assert len(titles(search(api, "alice", q="film"))) == 4
        assert titles(search(api, "admin", q="film")) == []
        assert len(titles(search(api, "admin", q="film", userId="alice"))) == 4

    def test_videos_are_published_and_expire_by_time_alone(
        self, service: IndexedService, api: Api, clock: Clock
    ) -> None:
        service.publish_video("film", publishAt=NOW + 100, expiresAt=NOW + 200)
        assert titles(search(api, q="film")) == []
        clock.now = NOW + 110
        assert titles(search(api, q="film")) == ["film"]
        clock.now = NOW + 210
        assert titles(search(api, q="film")) == []

    @pytest.mark.slow
    def test_search_returns_only_videos_that_get_shows(self, service: IndexedService, api: Api, clock: Clock) -> None:
        """Send random queries for random videos. The index receives only every tenth change immediately."""
        chance = random.Random(0)
        words = ("red", "green", "blue", "apple", "pear")
        video_ids = [self._random_video(service, chance, words) for _ in range(30)]
        service.settle()
        assert search(api).status == 200
        for turn in range(60):
            video_id = chance.choice(video_ids)
            if chance.random() < 0.5:
                change = chance.choice(
                    [
                        {"visibility": chance.choice(["public", "private"])},
                        {"publishAt": int(clock()) + chance.randint(-9, 9)},
                        {"expiresAt": int(clock()) + chance.randint(1, 9)},
                        {"title": " ".join(chance.sample(words, 2))},
                    ]
                )
                api.patch(f"/v1/videos/{video_id}", change, user="admin")
            elif chance.random() < 0.5:
                verb, path = chance.choice([("DELETE", ""), ("POST", "/restore")])
                api.request(verb, f"/v1/videos/{video_id}{path}", user="admin")
            if turn % 10 == 9:
                service.settle()
            user = chance.choice(CALLERS)
            query = {"q": chance.choice(words)} if chance.random() < 0.8 else {}
            if chance.random() < 0.3:
                query["userId"] = chance.choice(CALLERS)
            for page in pages(api, user, limit=7, **query):
                for item in page:
                    reply = api.get(f"/v1/videos/{item['video']['videoId']}", user=user)
                    assert reply.status == 200, (turn, user, query)
                    assert reply.json["status"] != "deleted"

    @staticmethod
    def _random_video(service: IndexedService, chance: random.Random, words: tuple[str, ...]) -> str:
        fields: dict[str, Any] = {
            "title": " ".join(chance.sample(words, 2)),
            "visibility": chance.choice(["public", "public", "private"]),
            "status": chance.choice(["ready", "ready", "processing"]),
        }
        if chance.random() < 0.3:
            fields["publishAt"] = NOW + chance.randint(-50, 80)
        if chance.random() < 0.3:
            fields["expiresAt"] = NOW + chance.randint(60, 120)
        return str(service.api.create("admin", userId=chance.choice(["alice", "bob"]), **fields)["videoId"])


class TestPages:
    def test_pages_contain_every_hit_once(self, service: IndexedService, api: Api) -> None:
        expected = {service.publish_video(f"film {number}") for number in range(7)}
        result = list(pages(api, q="film", limit=3))
        assert [len(page) for page in result] == [3, 3, 1]
        assert {item["video"]["videoId"] for page in result for item in page} == expected

    def test_pages_are_full_although_the_table_hides_indexed_videos(self, service: IndexedService, api: Api) -> None:
        video_ids = [service.publish_video(f"film {number}") for number in range(20)]
        assert search(api).json["total"] == 20
        for video_id in video_ids[::2]:
            api.patch(f"/v1/videos/{video_id}", {"visibility": "private"}, user="alice")
        result = list(pages(api, q="film", limit=5))
        assert [len(page) for page in result if page] == [5, 5]
        assert {item["video"]["videoId"] for page in result for item in page} == set(video_ids[1::2])

    def test_total_and_facets_exclude_videos_hidden_by_the_table(self, service: IndexedService, api: Api) -> None:
        video_ids = [service.publish_video(f"film {number}", category="art", tags=["Red"]) for number in range(5)]
        assert search(api, q="film").json["total"] == 5
        api.patch(f"/v1/videos/{video_ids[0]}", {"visibility": "private"}, user="alice")
        api.delete(f"/v1/videos/{video_ids[1]}", user="alice")
        result = search(api, q="film", facets="category,tag").json
        assert (len(result["items"]), result["total"]) == (3, 3)
        assert result["facets"] == {
            name: [{"value": value, "count": 3}] for name, value in (("category", "art"), ("tag", "red"))
        }

    @pytest.mark.slow
    def test_search_looks_up_each_video_once(self, service: IndexedService, api: Api, table: Table) -> None:
        """Test the smallest limit, with many hidden videos before the hit."""
        video_ids = [service.publish_video(f"film {number}") for number in range(40)]
        search(api)
        order = [item["video"]["videoId"] for item in search(api, q="film", limit=100).json["items"]]
        assert set(order) == set(video_ids)
        for video_id in order[:30]:
            api.patch(f"/v1/videos/{video_id}", {"visibility": "private"}, user="alice")
        with record_operations(table.client) as operations:
            result = search(api, q="film", limit=1).json
        batches = [
            [key["pk"]["S"] for key in operation.parameters["RequestItems"][table.name]["Keys"]]
            for operation in operations
            if operation.name == "BatchGetItem"
        ]
        assert [item["video"]["videoId"] for item in result["items"]] == [order[30]]
        assert [len(batch) for batch in batches] == [1, 2, 4, 8, 16]
        assert len({key for batch in batches for key in batch}) == 31
        assert result["total"] == 10

    def test_search_looks_up_more_videos_than_one_batch(self, tmp_path: Path) -> None:
        """Test a page that needs ten lookups: 99 videos are visible, the next 700 are hidden, and the last one is
        visible."""
        index = tantivy_engine.TantivyEngine(tmp_path)
        video_ids = [
            document.VideoDocument(str(UUID(int=number)), "alice", "Film", NOW - number, True) for number in range(800)
        ]
        index.put(video_ids)
        index.commit(engine.IndexCheckpoint({}, 0))
        store = FakeStore([video_id.video_id for video_id in (*video_ids[:99], video_ids[-1])])
        page = VideoSearch(index, store, lambda shown: shown).page(
            query_parser.SearchQuery(), SearchFilters(), Caller("", frozenset()), NOW, facets=(), limit=100, after=None
        )
        assert [item["video"]["videoId"] for item in page.items] == store.visible_ids
        assert (page.total, page.resume) == (100, None)
        assert [len(operation) for operation in store.requested if operation] == [
            100,
            2,
            4,
            8,
            16,
            32,
            64,
            128,
            256,
            190,
        ]
        index.close()

    def test_search_beyond_the_depth_limit_is_503(
        self, service: IndexedService, api: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        video_ids = [service.publish_video(f"film {number}") for number in range(4)]
        assert search(api).json["total"] == 4
        for video_id in video_ids:
            api.patch(f"/v1/videos/{video_id}", {"visibility": "private"}, user="alice")
        monkeypatch.setattr("shared.search.video_search.DEEPEST", 2)
        reply = search(api, q="film", limit=1)
        assert (reply.status, reply.headers["retry-after"]) == (503, "10")

    def test_response_has_a_link_to_the_next_page(self, service: IndexedService, api: Api) -> None:
        for number in range(2):
            service.publish_video(f"film {number}")
        reply = search(api, q="film", limit=1)
        assert f"cursor={reply.json['nextCursor']}" in reply.headers["link"]

    @pytest.mark.parametrize("other", [{"q": "movie"}, {"q": "film", "category": "art"}, {"q": "film", "from": 1}, {}])
    def test_cursor_is_valid_only_for_its_query(self, service: IndexedService, api: Api, other: dict[str, Any]) -> None:
        for number in range(2):
            service.publish_video(f"film {number}")
        cursor = search(api, q="film", limit=1).json["nextCursor"]
        assert search(api, q="film", limit=2, facets="tag", cursor=cursor).status == 200
        reply = search(api, **other, cursor=cursor)
        assert (reply.status, reply.json["title"]) == (400, "Invalid cursor")
        assert search(api, "bob", q="film", cursor=cursor).status == 400


class TestFacets:
    @pytest.mark.slow
    def test_facets_equal_the_counts_of_the_results(self, service: IndexedService, api: Api) -> None:
        chance = random.Random(7)
        for number in range(25):
            service.api.publish(
                chance.choice(["alice", "bob"]),
                title=f"film {number}",
                category=chance.choice(["food", "art"]),
                tags=chance.sample(["Red", "Green", "Blue"], 2),
                releaseYear=chance.choice([1999, 2001]),
                visibility=chance.choice(["public", "private"]),
            )
        service.settle()
        for user in CALLERS:
            reply = search(api, user, q="film", facets="category,tag,year", limit=100)
            result = [api.get(f"/v1/videos/{item['video']['videoId']}", user=user).json for item in reply.json["items"]]
            counted = {
                "category": Counter(video["category"] for video in result),
                "tag": Counter(tag.lower() for video in result for tag in video["tags"]),
                "year": Counter(video["releaseYear"] for video in result),
            }
            facets = reply.json["facets"]
            assert {name: {one["value"]: one["count"] for one in values} for name, values in facets.items()} == counted
            assert reply.json["total"] == len(result)


class TestConsistentWith:
    def test_search_includes_the_callers_own_changes(self, service: IndexedService, api: Api) -> None:
        assert titles(search(api, q="film")) == []
        service.publish_video("film")
        cursor = api.get("/v1/changes", query="userId=alice", user="alice").json["nextCursor"]
        reply = api.get("/v1/search", query=f"q=film&consistentWith={cursor}", user="alice")
        assert titles(reply) == ["film"]

    def test_search_reads_videos_consistently(self, service: IndexedService, api: Api, table: Table) -> None:
        service.publish_video("film")
        cursor = api.get("/v1/changes", query="userId=alice", user="alice").json["nextCursor"]

        def search_is_consistent(**query: str) -> list[bool]:
            with record_operations(table.client) as operations:
                assert titles(search(api, "alice", q="film", **query)) == ["film"]
            return [
                "ConsistentRead" in operation.parameters["RequestItems"][table.name]
                for operation in operations
                if operation.name == "BatchGetItem"
            ]

        assert search_is_consistent(consistentWith=cursor) == [True]
        assert search_is_consistent() == [False], "it costs twice as much"

    def test_search_includes_changes_of_all_owners(self, service: IndexedService, api: Api) -> None:
        assert titles(search(api, q="film")) == []
        service.publish_video("film")
        cursor = api.get("/v1/changes", query="after=now", user="bob", scopes=FEED_SCOPES).json["nextCursor"]
        reply = api.get("/v1/search", query=f"q=film&consistentWith={cursor}", user="bob", scopes=FEED_SCOPES)
        assert titles(reply) == ["film"]

    def test_search_is_503_with_retry_after_if_the_index_lags(
        self, service: IndexedService, api: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert titles(search(api, q="film")) == []
        service.publish_video("film")
        cursor = api.get("/v1/changes", query="userId=alice", user="alice").json["nextCursor"]
        monkeypatch.setattr("shared.search.consumer.FeedConsumer.catch_up", lambda *_: True)
        began = api.clock()
        reply = api.get("/v1/search", query=f"q=film&consistentWith={cursor}", user="alice")
        assert (reply.status, reply.headers["retry-after"]) == (503, "2")
        assert 2 <= api.clock() - began < 3

    def test_cursors_of_other_lists_are_refused(self, service: IndexedService, api: Api) -> None:
        service.publish_video("film one")
        service.publish_video("film two")
        of_types = api.get("/v1/changes", query="userId=alice&types=video.*", user="alice").json["nextCursor"]
        of_search = search(api, "alice", q="film", limit=1).json["nextCursor"]
        for cursor in (of_types, of_search, "nonsense"):
            reply = search(api, "alice", q="film", consistentWith=cursor)
            assert (reply.status, reply.json["errors"][0]["parameter"]) == (400, "consistentWith")


class TestSimilar:
    def test_similar_videos_share_words_and_tags(self, service: IndexedService, api: Api) -> None:
        subject = service.publish_video("Apples and pears", tags=["fruit"])
        alike = service.publish_video("Pears and apples", tags=["fruit"])
        service.publish_video("Steam engines", tags=["rail"])
        reply = api.get(f"/v1/videos/{subject}/similar", user="carol")
        assert [item["video"]["videoId"] for item in reply.json["items"]] == [alike]
        assert reply.json["items"][0]["score"] > 0

    def test_similar_omits_videos_hidden_since_indexing(self, service: IndexedService, api: Api) -> None:
        subject, hidden, visible = (service.publish_video("Apples and pears") for _ in range(3))
        assert search(api).status == 200
        api.patch(f"/v1/videos/{hidden}", {"visibility": "private"}, user="alice")
        reply = api.get(f"/v1/videos/{subject}/similar", query="limit=1", user="carol")
        assert [item["video"]["videoId"] for item in reply.json["items"]] == [visible]

    def test_similar_to_a_video_hidden_from_the_caller_is_404(self, service: IndexedService, api: Api) -> None:
        video_id = service.publish_video("Apples", visibility="private")
        assert api.get(f"/v1/videos/{video_id}/similar", user="carol").status == 404
        assert api.get(f"/v1/videos/{video_id}/similar", user="alice").json["items"] == []

    def test_similar_to_a_video_not_yet_indexed_is_empty(self, service: IndexedService, api: Api) -> None:
        assert search(api).status == 200
        video_id = api.publish("alice")["videoId"]
        assert api.get(f"/v1/videos/{video_id}/similar", user="carol").json["items"] == []


class TestIndexOfAnInstance:
    def test_index_is_copied_and_updated_from_the_feed(self, service: IndexedService, api: Api, tmp_path: Path) -> None:
        service.publish_video("film one")
        assert service.builder(tmp_path).run().outcome == "published"
        service.publish_video("film two")
        assert set(titles(search(api, q="film"))) == {"film one", "film two"}

    @pytest.mark.parametrize(
        ("kind", "logged"), [("provisioned-concurrency", ["index copied"]), ("snap-start", []), ("on-demand", [])]
    )
    def test_only_a_provisioned_instance_copies_the_index_before_its_first_request(
        self, service: IndexedService, monkeypatch: pytest.MonkeyPatch, kind: str, logged: list[str]
    ) -> None:
        monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", kind)
        api = make_api(service.table, service.clock, service.objects)
        with log_lines() as lines:
            api.handlers["search"]  # creates the handler
        assert [line["message"] for line in lines] == logged
        assert search(api).status == 200

    def test_provisioned_instance_starts_before_the_first_index_is_published(
        self, table: Table, objects: Objects, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", "provisioned-concurrency")
        assert search(IndexedService(table, objects, clock).api).status == 503

    def test_search_is_503_before_the_first_index_is_complete(
        self, table: Table, objects: Objects, clock: Clock, tmp_path: Path
    ) -> None:
        service = IndexedService(table, objects, clock)
        video_id = service.publish_video("film")
        for path in ("/v1/search", f"/v1/videos/{video_id}/similar"):
            reply = service.api.get(path)
            assert (reply.status, reply.headers["retry-after"]) == (503, "10")
        assert service.builder(tmp_path).run(lambda: False).outcome == "unfinished"
        assert search(service.api, q="film").status == 503, "a part of it is not an answer"
        service.builder(tmp_path).run()
        assert titles(search(service.api, q="film")) == ["film"]

    def test_index_of_another_format_is_not_copied(
        self, service: IndexedService, api: Api, tmp_path: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service.publish_video("film")
        for module in (tantivy_engine, generations):
            monkeypatch.setattr(module, "FORM", document.FORM + 1)
        with record_operations(objects.client) as operations:
            reply = search(api, q="film")
        assert (reply.status, reply.headers["retry-after"], operations) == (503, "10", [])
        service.builder(tmp_path).run()
        assert titles(search(api, q="film")) == ["film"]

    @pytest.mark.slow
    def test_lagging_index_is_replaced_by_a_newly_published_generation(
        self, service: IndexedService, api: Api, tmp_path: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service.publish_video("film")
        assert titles(search(api, q="film")) == ["film"]
        as_of = search(api).json["asOf"]
        for number in range(SLICE + 1):
            service.publish_video(f"film {number}")
        service.builder(tmp_path).run()
        with monkeypatch.context() as patch, record_operations(objects.client) as operations, log_lines() as lines:
            patch.setattr(local_index, "LONGEST_CATCH_UP", 0)
            result = search(api, q="film")
            assert result.json["total"] == SLICE + 2
            assert result.json["asOf"] >= as_of
            assert search(api).json["total"] == SLICE + 2, "it follows from there on"
        assert [line["message"] for line in lines] == ["index copied"]
        assert operations

    def test_lagging_index_is_kept_while_no_newer_generation_exists(
        self, service: IndexedService, api: Api, objects: Objects, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert search(api).json["total"] == 0
        as_of = search(api).json["asOf"]
        video_id, *_ = [service.publish_video(f"film {number}") for number in range(SLICE + 1)]
        monkeypatch.setattr(local_index, "LONGEST_CATCH_UP", 0)
        with record_operations(objects.client) as operations:
            lagging = search(api)
            assert (lagging.json["total"], lagging.json["asOf"]) == (SLICE, as_of)
            assert lagging.json["complete"] is False
            similar = api.get(f"/v1/videos/{video_id}/similar", user="carol")
            assert (similar.json["complete"], similar.json["asOf"]) == (False, as_of)
            after = search(api)
            assert (after.json["total"], after.json["complete"]) == (SLICE + 1, True)
        assert operations == []

    @pytest.fixture
    def lagging_index(self, service: IndexedService, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        """Publish changes of seven minutes without an indexer. Each search may apply only SLICE of them."""
        for number in range(2 * SLICE + 1):
            service.publish_video(f"film {number}")
        clock.advance(420)
        monkeypatch.setattr(local_index, "LONGEST_FIRST_CATCH_UP", 0)

    @pytest.mark.usefixtures("lagging_index")
    def test_new_instance_far_behind_is_503_until_it_has_caught_up(self, api: Api) -> None:
        replies = [search(api) for _ in range(3)]
        assert [reply.status for reply in replies] == [503, 503, 200]
        assert [reply.headers.get("retry-after") for reply in replies] == ["2", "2", None]
        assert (replies[-1].json["total"], replies[-1].json["complete"]) == (2 * SLICE + 1, True)

    def test_idle_instance_far_behind_is_503_until_it_has_caught_up(
        self, api: Api, request: pytest.FixtureRequest
    ) -> None:
        assert search(api).json["complete"] is True
        request.getfixturevalue("lagging_index")
        assert [search(api).status for _ in range(3)] == [503, 503, 200]

    @pytest.mark.slow
    @pytest.mark.usefixtures("lagging_index")
    def test_new_instance_that_never_catches_up_responds_after_a_minute(
        self, service: IndexedService, api: Api, clock: Clock
    ) -> None:
        replies = []
        for turn in range(4):
            replies.append(search(api))
            for number in range(2 * SLICE):  # more than one instance can apply between two queries
                service.publish_video(f"film {turn}-{number}")
            clock.advance(local_index.LONGEST_REFUSAL / 3)
        assert [reply.status for reply in replies] == [503, 503, 503, 200]
        assert replies[-1].json["complete"] is False

    @pytest.mark.usefixtures("lagging_index")
    def test_instance_that_refused_long_ago_refuses_again(self, api: Api, clock: Clock) -> None:
        assert search(api).status == 503
        clock.advance(local_index.LONGEST_REFUSAL + local_index.IDLE_SECONDS)
        assert [search(api).status for _ in range(2)] == [503, 200]

    def test_new_instance_slightly_behind_responds_with_complete_false(
        self, service: IndexedService, api: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(SLICE + 1):
            service.publish_video(f"film {number}")
        monkeypatch.setattr(local_index, "LONGEST_FIRST_CATCH_UP", 0)
        result = search(api)
        assert (result.json["total"], result.json["complete"]) == (SLICE, False)
        assert search(api).json["complete"] is True

    def test_index_is_copied_again_when_its_next_changes_have_expired(
        self, service: IndexedService, api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service.publish_video("film")
        service.builder(tmp_path).run()
        assert titles(search(api, q="film")) == ["film"]
        failures = [Gone("It is no longer kept.")]
        follow = "shared.search.consumer.FeedConsumer.catch_up"
        with monkeypatch.context() as patch:
            patch.setattr(follow, _failing(failures))
            assert titles(search(api, q="film")) == ["film"]
            failures.extend([Gone("It is no longer kept."), Gone("It is no longer kept.")])
            assert search(api, q="film").status == 503
        assert titles(search(api, q="film")) == ["film"]

    def test_damaged_index_file_is_fetched_again_at_the_next_query(
        self, service: IndexedService, api: Api, objects: Objects, tmp_path: Path
    ) -> None:
        service.publish_video("film")
        service.builder(tmp_path).run()
        holds = service.generations.pointer().generation
        mark = f"index/{holds}/mark.json"
        complete = objects.client.get_object(Bucket=MEDIA_BUCKET, Key=mark)["Body"].read()
        objects.client.put_object(Bucket=MEDIA_BUCKET, Key=mark, Body=b"{}")
        assert search(api, q="film").status == 503
        objects.client.put_object(Bucket=MEDIA_BUCKET, Key=mark, Body=complete)
        with record_operations(objects.client) as operations:
            assert titles(search(api, q="film")) == ["film"]
        manifest = f"index/{holds}/manifest.json"
        read = {operation.parameters["Key"] for operation in operations}
        assert {manifest, mark} <= read
        assert read < {result.key for result in objects.list_objects(MEDIA_BUCKET, "index/")}, "most is there"

    def test_index_is_checked_at_most_once_a_second(self, service: IndexedService, api: Api) -> None:
        assert titles(search(api, q="film")) == []
        service.publish_video("film")
        assert titles(api.get("/v1/search", query="q=film")) == []
        assert titles(search(api, q="film")) == ["film"]


def _failing(failures: list[Gone]) -> Any:
    def catch_up(*_: object) -> bool:
        if failures:
            raise failures.pop()
        return True

    return catch_up


class TestBadInput:
    @pytest.mark.parametrize(
        ("query", "parameter"),
        [
            ("q=", "q"),
            ("q=" + "a" * 10_000, "q"),
            ("q=" + quote('"" "'), "q"),
            ("q=" + quote("!?.,"), "q"),
            ("q=-apples", "q"),
            ("q=a%00b", "q"),
            ("q=a%E2%80%A8b", "q"),
            ("q=" + "+".join("abcdefghijklmnopqrstuvwxyz0123456789"), "q"),
            ("q=a&q=b", "q"),
            ("facets=title", "facets"),
            ("facets=", "facets"),
            ("language=not_a_language", "language"),
            ("tag=%20", "tag"),
            ("userId=", "userId"),
            ("from=9&to=9", "from"),
            ("from=yesterday", "from"),
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("query=apples", "query"),
            ("consistentWith=x", "consistentWith"),
        ],
    )
    def test_invalid_query_is_400_and_names_the_parameter(self, api: Api, query: str, parameter: str) -> None:
        reply = api.get("/v1/search", query=query)
        assert reply.status == 400
        assert [fault["parameter"] for fault in reply.json["errors"]] == [parameter]

    @pytest.mark.parametrize("q", ["a~9", "title:*", "apples AND (", "\\", "/.*/", "the of and", "[1 TO 2]", "a^999"])
    def test_operators_of_other_engines_are_plain_text(self, service: IndexedService, api: Api, q: str) -> None:
        service.publish_video("apples")
        assert search(api, q=q).status in (200, 400)

    def test_list_with_a_search_query_names_the_search_route(self, api: Api) -> None:
        reply = api.get("/v1/videos", query="q=apples")
        assert (reply.status, reply.json["detail"]) == (400, "Lists do not search. Use GET /v1/search?q=.")

    def test_limits_of_the_document_equal_the_engines(self) -> None:
        assert query_parser.LONGEST == MAX_QUERY_LENGTH
        assert (engine.DEEPEST, engine.MAX_VALUES) == (openapi.DEEPEST, openapi.MAX_VALUES)
