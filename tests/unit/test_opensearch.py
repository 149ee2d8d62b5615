"""OpenSearch as search engine: versions of writes, errors, rebuilds, and readers of the shared index.

The cluster is simulated by tests/opensearch.py.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opensearchpy.exceptions import TransportError

from functions.indexer import handler as indexer
from local.testbed.harness import NOW, Clock, Context, FakeResources, make_api
from shared.aws.dynamodb import Table
from shared.aws.leases import LeaseLost
from shared.aws.s3 import Objects
from shared.core.deadline import CONNECT_SECONDS, LONGEST_ATTEMPT, limit_time
from shared.core.errors import Unavailable
from shared.feed.log import LogCursor, shard_logs
from shared.feed.reader import end_cursors
from shared.search import builder as building
from shared.search import opensearch_engine, opensearch_index
from shared.search.builder import IndexBuilder
from shared.search.document import FORM
from shared.search.engine import IndexCheckpoint
from shared.search.generations import KEPT_SECONDS, LEASE_SECONDS, PointerStore
from shared.search.index_query import FuzzyQuery
from shared.search.opensearch_engine import (
    MAPPINGS,
    MAX_ATTEMPTS,
    MAX_PATTERN,
    WRITE_SECONDS,
    OpenSearchEngine,
    RequestRefused,
    compiled,
    create_index,
    document_of,
    make_client,
    patterns_of_prefix,
    utf16_length,
)
from shared.search.opensearch_index import COMPLETE_SECONDS, PREFIX, OpenSearchStore, SharedIndex
from shared.search.query_parser import parse
from shared.search.tokenizer import prefix_distance
from tests.indexed import IndexedService
from tests.logs import log_lines
from tests.opensearch import Cluster, Index
from tests.unit.search_catalogue import ANONYMOUS, make_document, video_id
from tools.index import request_rebuild, status

LONGEST_WRITE = CONNECT_SECONDS + WRITE_SECONDS
"""Maximum seconds of an attempt to write."""


def at(position: int) -> Mapping[str, LogCursor]:
    """Return this position in all logs."""
    return dict.fromkeys(shard_logs(), LogCursor(position, 0))


@pytest.fixture
def cluster() -> Cluster:
    """Return an empty cluster."""
    return Cluster()


@pytest.fixture
def service(table: Table, objects: Objects, clock: Clock) -> IndexedService:
    """Return the service with its background work."""
    return IndexedService(table, objects, clock)


@pytest.fixture
def pointers(table: Table, clock: Clock) -> PointerStore:
    """Return the store of the pointer item."""
    return PointerStore(table, clock, engine="opensearch")


@pytest.fixture
def new_builder(service: IndexedService, cluster: Cluster, pointers: PointerStore) -> Callable[..., IndexBuilder]:
    """Return a function that creates a builder."""

    def new(sleep: Callable[[float], None] = lambda _: None) -> IndexBuilder:
        return IndexBuilder(
            OpenSearchStore(pointers, cluster.client()),
            service.table,
            service.feed,
            service.loader,
            clock=service.clock,
            heartbeat=nullcontext,
            sleep=sleep,
        )

    return new


@pytest.fixture
def reader(service: IndexedService, cluster: Cluster, pointers: PointerStore, clock: Clock) -> SharedIndex:
    """Return the index of a search function."""
    client = cluster.client()
    return SharedIndex(pointers, service.feed, client, clock=clock, elapsed=clock, sleep=clock.advance)


class TestWrites:
    @pytest.fixture
    def pauses(self) -> list[float]:
        """Return a list to which the engine's sleep function appends the seconds of each pause."""
        return []

    @pytest.fixture
    def engine(self, cluster: Cluster, pauses: list[float]) -> OpenSearchEngine:
        """Return an engine with an empty index."""
        client = cluster.client()
        create_index(client, "videos-1")
        cluster.requests.clear()
        return OpenSearchEngine(client, "videos-1", sleep=pauses.append)

    def titles(self, engine: OpenSearchEngine, position: int) -> list[str]:
        """Commit a checkpoint at `position`, and return the titles of videos 1 and 2, if they are indexed."""
        engine.commit(IndexCheckpoint(at(position), 0))
        return [stored.title for stored in engine.stored([video_id(1), video_id(2)]) if stored]

    def test_late_or_repeated_write_never_replaces_a_newer_one(self, engine: OpenSearchEngine) -> None:
        engine.put([make_document(1, "New")], places=at(7))
        for position in (6, 7):
            engine.put([make_document(1, "Late")], places=at(position))
            assert self.titles(engine, 7) == ["New"]
        engine.put([make_document(1, "Newer")], places=at(8))
        assert self.titles(engine, 8) == ["Newer"]

    def test_late_write_never_restores_a_deleted_video(self, engine: OpenSearchEngine) -> None:
        engine.put([make_document(1)], places=at(7))
        engine.put([], [video_id(1), video_id(2)], at(9))
        engine.put([make_document(1), make_document(2)], places=at(8))
        assert self.titles(engine, 9) == []
        engine.put([], [video_id(1)], at(9))
        engine.put([make_document(1, "Restored")], places=at(10))
        assert self.titles(engine, 10) == ["Restored"]

    def test_documents_without_positions_are_as_old_as_the_checkpoint(self, engine: OpenSearchEngine) -> None:
        engine.commit(IndexCheckpoint(at(5), 0))
        engine.put([make_document(1, "Listed")])
        engine.put([make_document(1, "Changed")], places=at(6))
        engine.put([make_document(1, "Listed")])
        assert self.titles(engine, 6) == ["Changed"]

    def test_engine_resends_only_refused_documents(
        self, engine: OpenSearchEngine, cluster: Cluster, pauses: list[float]
    ) -> None:
        cluster.item_faults = [429, 0, 503]
        engine.put([make_document(1, "One"), make_document(2, "Two")], places=at(1))
        assert self.titles(engine, 1) == ["One", "Two"]
        assert pauses == [1, 2]
        assert cluster.requests.count("POST /videos-1-write/_bulk") == 3

    @pytest.mark.parametrize("faults", ["faults", "item_faults"])
    def test_busy_cluster_fails_the_commit(self, engine: OpenSearchEngine, cluster: Cluster, faults: str) -> None:
        setattr(cluster, faults, [429] * MAX_ATTEMPTS)
        engine.put([make_document(1)], places=at(1))
        with pytest.raises(Unavailable, match="The search index is busy"):
            engine.commit(IndexCheckpoint(at(1), 0))
        assert engine.checkpoint is None

    @pytest.mark.parametrize(
        ("seconds", "requests", "paused"),
        [(LONGEST_WRITE - 1, 0, 0), (LONGEST_WRITE, 1, 0), (LONGEST_WRITE + 1, 2, 1), (LONGEST_WRITE + 15, 5, 15)],
    )
    def test_commit_neither_sends_nor_waits_if_an_attempt_could_exceed_the_deadline(
        self, cluster: Cluster, clock: Clock, seconds: float, requests: int, paused: float
    ) -> None:
        client = cluster.client(seconds=WRITE_SECONDS)
        create_index(client, "videos-1")
        cluster.requests.clear()
        cluster.faults = [429] * MAX_ATTEMPTS
        engine = OpenSearchEngine(client, "videos-1", sleep=clock.advance)
        engine.put([make_document(1)], places=at(1))
        began = clock()
        with limit_time(seconds, clock), pytest.raises(Unavailable, match="The search index is busy"):
            engine.commit(IndexCheckpoint(at(1), 0))
        assert len(cluster.requests) == requests
        assert clock() - began == paused

    @pytest.mark.parametrize(("faults", "statuses"), [("item_faults", [400, 0, 503]), ("faults", [413, 413])])
    def test_document_that_the_cluster_refuses_is_logged_and_the_older_one_deleted(
        self, engine: OpenSearchEngine, cluster: Cluster, faults: str, statuses: list[int]
    ) -> None:
        engine.put([make_document(1, "Public"), make_document(2, "Old")], places=at(1))
        assert self.titles(engine, 1) == ["Public", "Old"]
        setattr(cluster, faults, [*statuses])
        engine.put([make_document(1, "Secret", visible=False), make_document(2, "Two")], places=at(2))
        with log_lines() as lines:
            assert self.titles(engine, 2) == ["Two"]
        assert [(line["message"], line["video_id"], line["status"]) for line in lines] == [
            ("video not indexed", video_id(1), statuses[0])
        ]
        assert "Secret" not in str(lines)
        found = engine.search(parse("public"), ANONYMOUS, NOW)
        assert (found.hits, found.total) == ([], 0)
        engine.put([make_document(1, "Shorter")], places=at(3))
        assert self.titles(engine, 3) == ["Shorter", "Two"]

    @pytest.mark.parametrize("statuses", [[401], [403], [413], [400, 400]])
    def test_refusal_that_does_not_concern_the_document_fails_the_commit(
        self, engine: OpenSearchEngine, cluster: Cluster, statuses: list[int]
    ) -> None:
        cluster.item_faults = [*statuses]
        engine.put([make_document(1, "Secret")], places=at(1))
        with pytest.raises(RequestRefused, match=f"^{statuses[-1]} [a-z_]+exception$"):
            engine.commit(IndexCheckpoint(at(1), 0))
        assert engine.checkpoint is None

    def test_large_changes_are_sent_in_several_requests(
        self, engine: OpenSearchEngine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(opensearch_engine, "MAX_BULK_BYTES", 1_000)
        engine.put([make_document(number) for number in range(6)], places=at(1))
        assert 2 <= cluster.requests.count("POST /videos-1-write/_bulk") < 6
        engine.commit(IndexCheckpoint(at(1), 0))
        assert engine.size == 6

    @pytest.mark.slow
    def test_large_document_is_sent_alone(self, engine: OpenSearchEngine, cluster: Cluster) -> None:
        for number, size in enumerate((4_500_000, 8_000_000), start=1):
            engine.put([make_document(number, description="x" * size)], places=at(1))
        engine.commit(IndexCheckpoint(at(1), 0))
        assert cluster.requests.count("POST /videos-1-write/_bulk") == 2

    @pytest.mark.parametrize("is_serverless", [False, True])
    def test_request_that_is_too_large_for_the_cluster_is_split_and_a_document_that_is_too_large_skipped(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, is_serverless: bool
    ) -> None:
        client = cluster.client()
        create_index(client, "videos-1")
        monkeypatch.setattr("tests.opensearch.MAX_REQUEST_BYTES", 2_000)
        pause = cluster.indexes["videos-1"].refresh
        engine = OpenSearchEngine(client, "videos-1", is_serverless=is_serverless, sleep=lambda _: pause())
        engine.put([make_document(number) for number in range(6)], [video_id(7)], at(1))
        engine.put([make_document(6, description="Secret" * 400)], places=at(1))
        with log_lines() as lines:
            engine.commit(IndexCheckpoint(at(1), 0))
        assert engine.size == 6
        assert [(line["video_id"], line["status"], line["reason"]) for line in lines] == [
            (video_id(6), 413, "content_too_long")
        ]
        assert "Secret" not in str(lines)
        engine.put([make_document(6)], places=at(2))
        engine.commit(IndexCheckpoint(at(2), 0))
        assert engine.size == 7

    def test_captions_that_exceed_the_size_of_a_document_are_omitted(
        self, engine: OpenSearchEngine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(opensearch_engine, "LARGEST_DOCUMENT", 1_000)
        captions = {"en": [(0, "apples")], "fr": [(0, "pommes " * 200)]}
        engine.put([make_document(1, captions=captions)], places=at(1))
        engine.commit(IndexCheckpoint(at(1), 0))
        (stored,) = engine.stored([video_id(1)])
        assert stored
        assert [caption.language for caption in stored.captions] == ["en"]
        assert engine.search(parse("pommes"), ANONYMOUS, NOW).total == 0

    def test_captions_of_a_page_are_read_in_groups(
        self, engine: OpenSearchEngine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(opensearch_engine, "MAX_CHARACTERS", 10)
        engine.put([make_document(number, captions={"en": [(0, "apples")]}) for number in range(4)], places=at(1))
        engine.commit(IndexCheckpoint(at(1), 0))
        cluster.requests.clear()
        stored = list(engine.stored([video_id(number) for number in range(4)]))
        assert [fields.captions[0].texts for fields in stored if fields] == ["apples"] * 4
        assert cluster.requests == ["POST /videos-1/_mget"] * 3

    def test_serverless_commit_waits_until_queries_see_the_changes(self, cluster: Cluster) -> None:
        client = cluster.client()
        create_index(client, "videos-1")
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) % 3 == 0:
                cluster.indexes["videos-1"].refresh()

        engine = OpenSearchEngine(client, "videos-1", is_serverless=True, sleep=pause)
        engine.put([make_document(1, "One")], places=at(1))
        engine.commit(IndexCheckpoint(at(1), 0))
        assert engine.search(parse("one"), ANONYMOUS, NOW).total == 1
        engine.put([], [video_id(1)], at(2))
        engine.commit(IndexCheckpoint(at(2), 0))
        assert engine.search(parse("one"), ANONYMOUS, NOW).total == 0
        assert len(pauses) == 6
        assert "POST /videos-1/_refresh" not in cluster.requests

    def test_serverless_commit_waits_for_all_accepted_changes_and_for_deletions_of_refused_documents(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(opensearch_engine, "MAX_BULK_BYTES", 1_000)
        client = cluster.client()
        create_index(client, "videos-1")
        index = cluster.indexes["videos-1"]
        sent: list[set[str]] = []

        def record_search(body: Mapping[str, Any], **_: object) -> Any:
            sent.append(set(body["query"]["ids"]["values"]))
            index.refresh()
            return search(body=body, index="videos-1")

        search = client.search
        monkeypatch.setattr(client, "search", record_search)
        engine = OpenSearchEngine(client, "videos-1", is_serverless=True, sleep=lambda _: pytest.fail("waits"))
        cluster.item_faults = [400]
        engine.put([make_document(number) for number in range(6)], [video_id(5)], at(1))
        engine.put([], [video_id(5)], at(2))
        engine.commit(IndexCheckpoint(at(2), 0))
        assert sent == [{video_id(number) for number in range(6)}]


class TestQueries:
    @pytest.mark.parametrize("text", ["terminat", "abcdef", "x" * 40, "物" * 40, "\U0001e922" * 40])
    def test_patterns_of_a_prefix_are_short(self, text: str) -> None:
        assert max(map(utf16_length, patterns_of_prefix(text))) <= MAX_PATTERN

    @given(st.text("abc", min_size=2, max_size=6), st.lists(st.text("abc", min_size=1, max_size=7), max_size=20))
    def test_patterns_of_a_prefix_match_words_whose_start_has_at_most_one_typo(
        self, text: str, words: list[str]
    ) -> None:
        cluster = Cluster()
        client = cluster.client()
        create_index(client, "videos-1")
        index = cluster.indexes["videos-1"]
        for number, word in enumerate(words):
            index.write("index", {"_id": str(number), "version": 1}, {"words": word})
        index.refresh()
        found = index.matches(compiled(FuzzyQuery("words", text, 1, is_prefix=True)))
        assert {words[int(number)] for number in found} == {
            word for word in words if prefix_distance(text, word, 1) <= 1
        }

    def test_document_has_only_fields_of_the_mapping(self) -> None:
        document = document_of(
            make_document(
                tags=["A"], language="en", publish_at=1, expires_at=2, purge_at=3, facets={"category": "c", "year": 1}
            )
        )
        assert document.keys() <= MAPPINGS["properties"].keys()


class TestErrors:
    @pytest.fixture
    def engine(self, cluster: Cluster) -> OpenSearchEngine:
        """Return an engine that queries an index that does not exist."""
        return OpenSearchEngine(cluster.client(), "videos-1")

    @pytest.mark.parametrize("faults", [[429], [503], [504], [0, 0]])
    def test_busy_or_unreachable_cluster_is_unavailable(
        self, engine: OpenSearchEngine, cluster: Cluster, faults: list[int]
    ) -> None:
        cluster.faults = faults
        with pytest.raises(Unavailable, match="The search index is busy") as raised:
            engine.search(parse("secret"), ANONYMOUS, NOW)
        assert raised.value.headers["Retry-After"] == "2"

    def test_lost_connection_is_tried_again(self, engine: OpenSearchEngine, cluster: Cluster) -> None:
        cluster.faults = [0]
        with pytest.raises(Unavailable, match="The search index is being built"):
            engine.search(parse("secret"), ANONYMOUS, NOW)

    @pytest.mark.parametrize(("seconds", "requests"), [(LONGEST_ATTEMPT - 1, 0), (LONGEST_ATTEMPT, 1), (6, 2)])
    def test_query_ends_before_the_deadline(
        self,
        engine: OpenSearchEngine,
        cluster: Cluster,
        clock: Clock,
        monkeypatch: pytest.MonkeyPatch,
        seconds: float,
        requests: int,
    ) -> None:
        respond = cluster.respond

        def time_out(*request: Any) -> Any:
            clock.advance(LONGEST_ATTEMPT)
            return respond(*request)

        cluster.faults = [0, 0]
        monkeypatch.setattr(cluster, "respond", time_out)
        with limit_time(seconds, clock), pytest.raises(Unavailable, match="The search index is busy"):
            engine.search(parse("secret"), ANONYMOUS, NOW)
        assert len(cluster.requests) == requests

    def test_missing_index_is_unavailable(self, engine: OpenSearchEngine) -> None:
        for request in (
            lambda: engine.search(parse("secret"), ANONYMOUS, NOW),
            lambda: list(engine.stored([video_id(1)])),
            lambda: engine.similar(video_id(1), ANONYMOUS, NOW),
        ):
            with pytest.raises(Unavailable, match="The search index is being built"):
                request()

    @pytest.mark.parametrize("status", [400, 401, 403, 413])
    def test_refused_request_is_an_internal_error_without_the_query(
        self, engine: OpenSearchEngine, cluster: Cluster, status: int
    ) -> None:
        cluster.faults = [status]
        with log_lines() as lines, pytest.raises(RequestRefused) as raised:
            engine.search(parse("secret"), ANONYMOUS, NOW)
        assert str(raised.value) == f"{status} exception"
        assert not isinstance(raised.value.__cause__, TransportError)
        assert lines == []

    @pytest.mark.parametrize("partial", [{"timed_out": True}, {"_shards": {"failed": 1}}])
    def test_partial_result_is_unavailable(
        self, engine: OpenSearchEngine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, partial: dict[str, Any]
    ) -> None:
        whole = {"timed_out": False, "_shards": {"failed": 0}, "hits": {"total": {"value": 0}, "hits": []}}
        monkeypatch.setattr(cluster, "respond", lambda *_: whole | partial)
        with pytest.raises(Unavailable):
            engine.search(parse("secret"), ANONYMOUS, NOW)


@pytest.mark.parametrize("service", ["es", "aoss"])
def test_requests_are_signed_for_the_service(monkeypatch: pytest.MonkeyPatch, service: str) -> None:
    sent: list[Mapping[str, str]] = []

    def urlopen(*_: object, headers: Mapping[str, str], **__: object) -> SimpleNamespace:
        sent.append(headers)
        headers_ = SimpleNamespace(get_all=lambda *_: (), items=lambda: [("content-type", "application/json")])
        return SimpleNamespace(status=200, data=b'{"count": 3}', headers=headers_)

    monkeypatch.setattr("urllib3.HTTPSConnectionPool.urlopen", urlopen)
    assert OpenSearchEngine(make_client("https://search.example", service), "videos-1").size == 3
    assert f"/{service}/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date" in sent[0]["Authorization"]


class TestIndexes:
    def test_rebuild_replaces_the_published_index(
        self, service: IndexedService, cluster: Cluster, new_builder: Callable[..., IndexBuilder], reader: SharedIndex
    ) -> None:
        video_ids = {service.publish_video(f"Film {number}") for number in range(3)}
        assert new_builder().run().outcome == "published"
        (first,) = cluster.indexes
        service.publish_video("Film 3")
        run = new_builder().run(from_scratch=True)
        assert (run.outcome, run.index.video_count) == ("published", 4)
        second = run.index.generation
        assert second is not None
        assert second != first
        assert second.startswith("videos-00000002-")
        hits = reader.current().engine.search(parse("film"), ANONYMOUS, int(service.clock()))
        assert {hit.video_id for hit in hits.hits} > video_ids

    def test_requested_rebuild_is_done_once_by_the_indexer(
        self, service: IndexedService, cluster: Cluster, new_builder: Callable[..., IndexBuilder]
    ) -> None:
        assert not request_rebuild(service.table, service.clock)
        new_builder().run()
        assert request_rebuild(service.table, service.clock)
        assert "A rebuild was requested at" in "\n".join(status(service.table, service.feed, service.clock))
        for count in (2, 2):
            service.publish_video("Film")
            new_builder().run()
            assert len(cluster.indexes) == count
        assert "videos-00000002-" in status(service.table, service.feed, service.clock)[0]

    def test_requested_rebuild_replaces_an_older_unfinished_one(
        self, service: IndexedService, cluster: Cluster, new_builder: Callable[..., IndexBuilder]
    ) -> None:
        new_builder().run()
        assert new_builder().run(lambda: False, from_scratch=True).outcome == "unfinished"
        unfinished = set(cluster.indexes)
        request_rebuild(service.table, service.clock)
        assert new_builder().run().index.generation not in unfinished

    def test_rebuild_requested_during_another_follows_it(
        self,
        service: IndexedService,
        cluster: Cluster,
        new_builder: Callable[..., IndexBuilder],
        pointers: PointerStore,
    ) -> None:
        new_builder().run()
        service.publish_video("Film")
        request_rebuild(service.table, service.clock)
        requests = iter([True])

        def in_time() -> bool:
            if next(requests, False):
                service.clock.advance(1)
                request_rebuild(service.table, service.clock)
            return True

        with pytest.raises(LeaseLost):
            new_builder().run(in_time)
        assert pointers.pointer().rebuild_at == int(service.clock())
        published = pointers.pointer().generation
        assert new_builder().run().index.generation != published
        assert pointers.pointer().rebuild_at == 0

    def test_tool_leaves_the_first_rebuild_after_a_switch_to_the_indexer(
        self,
        service: IndexedService,
        tmp_path: Any,
        cluster: Cluster,
        new_builder: Callable[..., IndexBuilder],
        pointers: PointerStore,
    ) -> None:
        service.builder(tmp_path).run()
        assert new_builder().run(lambda: False).outcome == "unfinished"
        service.clock.advance(1)
        assert request_rebuild(service.table, service.clock)
        assert "A rebuild started at" in "\n".join(status(service.table, service.feed, service.clock))
        assert new_builder().run().index.rebuild_at == pointers.pointer().rebuild_at == 0
        assert len(cluster.indexes) == 1

    def test_unreferenced_indexes_are_deleted_after_an_hour(
        self, service: IndexedService, cluster: Cluster, new_builder: Callable[..., IndexBuilder]
    ) -> None:
        new_builder().run()
        for _ in range(2):
            service.publish_video("Film")
            new_builder().run(from_scratch=True)
        assert len(cluster.indexes) == 3
        service.clock.advance(KEPT_SECONDS)
        service.publish_video("Film")
        turns = iter([True, True, False])
        cluster.requests.clear()

        def publish(_: float) -> None:
            service.publish_video("Film")

        run = new_builder(publish).run(may_follow=lambda: next(turns))
        assert run.removed == 2
        assert set(cluster.indexes) == {run.index.generation}
        assert cluster.requests.count(f"GET /{PREFIX}-*/_alias") == 2, "one to open the index, one to delete others"

    def test_replaced_index_remains_for_an_hour(
        self, service: IndexedService, cluster: Cluster, new_builder: Callable[..., IndexBuilder]
    ) -> None:
        new_builder().run()
        service.clock.advance(KEPT_SECONDS)
        run = new_builder().run(from_scratch=True)
        assert (run.outcome, run.removed, len(cluster.indexes)) == ("published", 0, 2)
        for seconds, removed in ((KEPT_SECONDS - 1, 0), (1, 1)):
            service.clock.advance(seconds)
            service.publish_video("Film")
            assert new_builder().run().removed == removed

    def test_indexes_of_other_deployments_and_other_software_are_never_changed(
        self, service: IndexedService, cluster: Cluster, new_builder: Callable[..., IndexBuilder]
    ) -> None:
        foreign = ("videos-analytics", "videos-staging-00000001-1f0a9c3e", "videos-00000001-1f0a9c3e-old")
        for name in foreign:
            cluster.indexes[name] = Index(MAPPINGS)
        new_builder().run()
        service.clock.advance(KEPT_SECONDS)
        service.publish_video("Film")
        assert new_builder().run().removed == 0
        assert cluster.indexes.keys() > set(foreign)

    def test_index_that_is_lost_during_a_run_is_rebuilt_with_its_mapping(
        self, service: IndexedService, cluster: Cluster, new_builder: Callable[..., IndexBuilder]
    ) -> None:
        new_builder().run()

        def lose(_: float) -> None:
            for index in [*cluster.indexes]:
                cluster.client().indices.delete(index=index)
            service.publish_video("Film")

        with pytest.raises(Unavailable):
            new_builder(lose).run(may_follow=lambda: True)
        assert not cluster.indexes
        assert new_builder().run().index.video_count == 1
        (rebuilt,) = cluster.indexes.values()
        assert rebuilt.is_strict

    def test_index_without_the_mapping_of_the_service_is_rebuilt(
        self, service: IndexedService, cluster: Cluster, new_builder: Callable[..., IndexBuilder]
    ) -> None:
        new_builder().run()
        (lost,) = cluster.indexes
        cluster.aliases.clear()
        cluster.indexes[lost] = Index({})
        rebuilt = new_builder().run().index.generation
        assert rebuilt
        assert cluster.indexes[rebuilt].is_strict

    def test_changes_update_the_published_index(
        self, service: IndexedService, new_builder: Callable[..., IndexBuilder], reader: SharedIndex
    ) -> None:
        video_id = service.publish_video("Apples")
        new_builder().run()
        service.patch(video_id, title="Pears")
        assert new_builder().run().put == 1
        assert reader.current().engine.search(parse("pears"), ANONYMOUS, int(service.clock())).total == 1
        service.write("DELETE", f"/v1/videos/{video_id}")
        assert new_builder().run().put == 1
        assert reader.current().engine.search(parse("pears"), ANONYMOUS, int(service.clock())).total == 0
        assert new_builder().run().outcome == "unchanged"

    def test_run_follows_the_feed_while_it_has_time(
        self, service: IndexedService, new_builder: Callable[..., IndexBuilder], reader: SharedIndex
    ) -> None:
        new_builder().run()
        titles = iter(["Apples", "Pears", None])

        def publish(_: float) -> None:
            if title := next(titles):
                service.publish_video(title)

        turns = iter([True, True, True, False])
        run = new_builder(publish).run(may_follow=lambda: next(turns))
        assert (run.outcome, run.put) == ("published", 2)
        assert reader.current(end_cursors(service.feed, shard_logs())).is_complete

    def test_interrupted_rebuild_resumes_in_the_same_index(
        self,
        service: IndexedService,
        cluster: Cluster,
        new_builder: Callable[..., IndexBuilder],
        pointers: PointerStore,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(building, "PAGE", 1)
        for number in range(4):
            service.publish_video(f"Film {number}")
        has_time = iter([True] * 3)
        assert new_builder().run(lambda: next(has_time, False)).outcome == "unfinished"
        assert pointers.pointer().readable is None
        service.publish_video("Film 4")
        run = new_builder().run()
        assert (run.outcome, run.index.video_count, len(cluster.indexes)) == ("published", 5, 1)

    def test_failed_rebuild_resumes_in_the_same_index(
        self, service: IndexedService, cluster: Cluster, new_builder: Callable[..., IndexBuilder]
    ) -> None:
        service.publish_video("Film")
        for _ in range(2):
            cluster.item_faults = [403]
            with pytest.raises(RequestRefused):
                new_builder().run()
        assert new_builder().run().index.video_count == len(cluster.indexes) == 1

    @pytest.mark.parametrize("is_draft", [False, True])
    def test_rebuild_starts_when_the_cluster_lost_the_index(
        self, service: IndexedService, cluster: Cluster, new_builder: Callable[..., IndexBuilder], is_draft: bool
    ) -> None:
        service.publish_video("Film")
        new_builder().run(lambda: not is_draft)
        cluster.indexes.clear()
        cluster.aliases.clear()
        with log_lines() as lines:
            assert new_builder().run().index.video_count == 1
        assert [(line["message"], line["reason"]) for line in lines] == [("index not resumable", "IncompatibleIndex")]

    def test_builder_that_lost_its_lease_publishes_nothing(
        self, service: IndexedService, cluster: Cluster, pointers: PointerStore
    ) -> None:
        store, held = OpenSearchStore(pointers, cluster.client()), pointers.lease()
        assert held
        engine = store.open(held, None)
        engine.commit(IndexCheckpoint(at(1), 0))
        service.clock.advance(2 * LEASE_SECONDS)
        assert pointers.lease()
        with pytest.raises(LeaseLost):
            store.publish(held, IndexCheckpoint(at(1), 0))
        assert pointers.pointer().readable is None

    def test_each_engine_ignores_the_index_of_the_other(
        self, service: IndexedService, tmp_path: Any, new_builder: Callable[..., IndexBuilder], pointers: PointerStore
    ) -> None:
        service.publish_video("Film")
        for run, of_other in (
            (service.builder(tmp_path).run, pointers),
            (new_builder().run, service.generations),
            (service.builder(tmp_path).run, pointers),
        ):
            assert run().outcome == "published"
            assert of_other.pointer().readable is None

    def test_index_of_another_format_is_rebuilt(
        self,
        service: IndexedService,
        new_builder: Callable[..., IndexBuilder],
        reader: SharedIndex,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        service.publish_video("Film")
        new_builder().run()
        monkeypatch.setattr("shared.search.generations.FORM", FORM + 1)
        with pytest.raises(Unavailable, match="The search index is being built"):
            reader.current()
        assert new_builder().run().index.generation != ""
        assert reader.current().is_complete

    def test_serverless_collection_has_no_settings_of_an_index(
        self, cluster: Cluster, pointers: PointerStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bodies: list[Any] = []

        def record(_: str, __: object, lines: Sequence[Any]) -> dict[str, Any]:
            bodies.extend(lines)
            return {}

        monkeypatch.setattr(cluster, "_put", record)
        monkeypatch.setattr(opensearch_index, "make_client", lambda *_, **__: cluster.client())
        held = pointers.lease()
        assert held
        for service in ("es", "aoss"):
            OpenSearchStore.connect(pointers, "https://search.example", service, PREFIX).open(held, None)
        assert [set(body) for body in bodies] == [{"aliases", "mappings", "settings"}, {"mappings"}]


def test_indexer_begins_no_request_that_could_outlast_its_run(
    service: IndexedService, cluster: Cluster, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        opensearch_index, "make_client", lambda *_, **options: cluster.client(seconds=options["seconds"])
    )
    resources = FakeResources(service.table, service.clock, objects=objects)
    handle = resources.make(indexer.lambda_handler, SEARCH_ENGINE="opensearch", OPENSEARCH_URL="https://x")
    assert Context.get_remaining_time_in_millis() < WRITE_SECONDS * 1000 + 1000
    with pytest.raises(Unavailable, match="The search index is busy"):
        handle({}, Context())
    assert cluster.requests == []


class TestReader:
    def test_results_are_complete_while_the_indexer_follows_the_feed(
        self, service: IndexedService, new_builder: Callable[..., IndexBuilder], reader: SharedIndex, clock: Clock
    ) -> None:
        with pytest.raises(Unavailable, match="The search index is being built"):
            reader.current()
        service.publish_video("Apples")
        new_builder().run()
        assert reader.current()[1:] == (int(clock()) * 1000, True)
        clock.advance(COMPLETE_SECONDS + 1)
        assert reader.current()[1:] == (int(clock()) * 1000, True), "there are no changes that it lacks"
        built_at = int(clock())
        new_builder().run()
        service.publish_video("Pears")
        clock.advance(COMPLETE_SECONDS + 1)
        current = reader.current()
        assert (current.is_complete, current.as_of <= built_at * 1000) == (False, True)

    def test_reader_waits_for_the_changes_that_a_request_requires(
        self, service: IndexedService, new_builder: Callable[..., IndexBuilder], reader: SharedIndex, clock: Clock
    ) -> None:
        new_builder().run()
        service.publish_video("Apples")
        ends, began = end_cursors(service.feed, shard_logs()), clock()
        with pytest.raises(Unavailable, match="The search index does not have these changes yet"):
            reader.current(ends)
        assert 2 <= clock() - began < 3
        new_builder().run()
        assert reader.current(ends).engine.search(parse("apples"), ANONYMOUS, int(clock())).total == 1

    def test_search_over_http_uses_the_cluster(
        self,
        service: IndexedService,
        new_builder: Callable[..., IndexBuilder],
        cluster: Cluster,
        clock: Clock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        video_ids = [service.publish_video(f"Apples {number}") for number in range(3)]
        service.put_captions(video_ids[0], "An apple a day")
        index = new_builder().run().index.generation
        monkeypatch.setattr(opensearch_index, "make_client", lambda *_, **__: cluster.client())
        api = make_api(service.table, clock, service.objects, SEARCH_ENGINE="opensearch", OPENSEARCH_URL="https://x")
        service.api.patch(f"/v1/videos/{video_ids[1]}", {"visibility": "private"}, user="alice")
        cluster.requests.clear()
        reply = api.get("/v1/search", query="q=apples&facets=tag", user="carol")
        assert (reply.status, reply.json["total"], reply.json["complete"]) == (200, 2, True), reply.body
        assert cluster.requests == [f"POST /{index}/_search"] * 2 + [f"POST /{index}/_mget"] * 2, (
            "one page is hidden in part"
        )
        reply = api.get("/v1/search", query="q=apple+day", user="carol")
        assert reply.json["items"][0]["quote"]["start"] == 1000
        reply = api.get(f"/v1/videos/{video_ids[0]}/similar", user="carol")
        assert [item["video"]["videoId"] for item in reply.json["items"]] == [video_ids[2]]
        cluster.faults = [403]
        reply = api.get("/v1/search", query="q=apples", user="carol")
        assert (reply.status, b"403" in reply.body) == (500, False)
