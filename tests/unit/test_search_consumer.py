"""Updates of the search index from the change feed: after each kind of change, the index has the video's current
state."""

from collections.abc import Callable
from pathlib import Path

import pytest

from local.testbed.harness import MEDIA_BUCKET, Clock, record_operations, remove_video
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.captions import cues
from shared.captions.store import MAX_STORED
from shared.core.errors import Gone
from shared.feed import log
from shared.feed.log import DAYS_KEPT, OLDEST, LogCursor, shard_logs
from shared.feed.reader import end_cursors
from shared.search.consumer import SLICE, FeedConsumer
from shared.search.document import LARGEST_CAPTIONS, MAX_CUES, IndexLimits, searchable_texts
from shared.search.engine import IndexCheckpoint
from shared.search.loader import DocumentLoader
from shared.search.stored import StoredFields
from shared.search.tantivy_engine import TantivyEngine
from tests.indexed import IndexedService, stored_in
from tests.integration.contents import items_of
from tests.logs import log_lines


@pytest.fixture
def service(table: Table, objects: Objects, clock: Clock) -> IndexedService:
    """Return the service with its background work."""
    return IndexedService(table, objects, clock)


@pytest.fixture
def engine(tmp_path: Path) -> TantivyEngine:
    """Return an empty index."""
    return TantivyEngine(tmp_path / "index")


@pytest.fixture
def consumer(service: IndexedService, engine: TantivyEngine, clock: Clock) -> FeedConsumer:
    """Return a consumer that updates the index to the end of the feed."""
    return FeedConsumer(engine, service.feed, service.loader, clock=clock, sleep=lambda _: None)


@pytest.fixture
def indexed(consumer: FeedConsumer, engine: TantivyEngine) -> Callable[[str], StoredFields | None]:
    """Return a function that updates the index and returns the stored fields of a video, or `None`."""

    def stored(video_id: str) -> StoredFields | None:
        assert consumer.catch_up()
        return stored_in(engine, video_id)

    return stored


Indexed = Callable[[str], StoredFields | None]


class TestChanges:
    def test_new_video_is_indexed(self, service: IndexedService, indexed: Indexed) -> None:
        fields = indexed(service.publish_video("Apples", tags=["fruit"], description="Of trees"))
        assert fields == StoredFields("Apples", [], ["fruit"], "Of trees", [])

    def test_changed_video_is_reindexed(self, service: IndexedService, indexed: Indexed) -> None:
        video_id = service.publish_video("Apples")
        assert indexed(video_id)
        service.patch(video_id, title="Pears")
        assert (fields := indexed(video_id))
        assert fields.title == "Pears"

    def test_private_video_is_indexed_for_its_owner(self, service: IndexedService, indexed: Indexed) -> None:
        video_id = service.publish_video("Apples")
        service.patch(video_id, visibility="private")
        assert indexed(video_id)

    def test_deleted_video_is_removed_and_indexed_again_after_restore(
        self, service: IndexedService, indexed: Indexed
    ) -> None:
        video_id = service.publish_video("Apples")
        assert indexed(video_id)
        service.write("DELETE", f"/v1/videos/{video_id}")
        assert indexed(video_id) is None
        service.write("POST", f"/v1/videos/{video_id}/restore")
        assert indexed(video_id)

    def test_purged_video_is_removed_from_the_index(
        self, service: IndexedService, table: Table, indexed: Indexed
    ) -> None:
        video_id = service.publish_video("Apples")
        assert indexed(video_id)
        remove_video(table, video_id)
        service.settle()
        assert indexed(video_id) is None

    def test_credit_change_updates_indexed_names_and_characters(
        self, service: IndexedService, indexed: Indexed
    ) -> None:
        video_id = service.publish_video("Apples")
        assert indexed(video_id)
        body = {"name": "Zoë", "ordering": 1, "roles": [{"category": "actor", "characters": ["Eve"]}]}
        service.write("PUT", f"/v1/videos/{video_id}/credits/nm1", body)
        assert (fields := indexed(video_id))
        assert fields.names == ["Zoë", "Eve"]
        service.write("DELETE", f"/v1/videos/{video_id}/credits/nm1")
        assert (fields := indexed(video_id))
        assert fields.names == []

    def test_release_change_updates_indexed_titles(self, service: IndexedService, indexed: Indexed) -> None:
        video_id = service.publish_video("Apples")
        assert indexed(video_id)
        service.write("PUT", f"/v1/videos/{video_id}/releases/NZ/mi", {"titles": [{"title": "Āporo"}]})
        assert (fields := indexed(video_id))
        assert fields.names == ["Āporo"]

    def test_caption_change_updates_indexed_texts(self, service: IndexedService, indexed: Indexed) -> None:
        video_id = service.publish_video("Apples")
        assert indexed(video_id)
        service.put_captions(video_id, "An <i>apple</i> a day")
        assert (fields := indexed(video_id))
        assert [(captions.language, captions.starts, captions.texts) for captions in fields.captions] == [
            ("en", "1000", "An apple a day")
        ]
        service.put_captions(video_id, "Keeps the doctor away")
        assert (fields := indexed(video_id))
        assert fields.captions[0].texts == "Keeps the doctor away"
        service.write("DELETE", f"/v1/videos/{video_id}/captions/en")
        assert (fields := indexed(video_id))
        assert fields.captions == []

    def test_missing_caption_text_does_not_stop_indexing(
        self, service: IndexedService, objects: Objects, indexed: Indexed
    ) -> None:
        video_id = service.publish_video("Apples")
        service.put_captions(video_id, "An apple a day")
        objects.delete_prefix("media", "captions/")
        assert (fields := indexed(video_id))
        assert fields.captions == []

    @pytest.mark.parametrize("damaged", [b"WEBVTT\n\n00:01.000 --> 00:02.000\n\xff", b"Apples", b""])
    def test_damaged_caption_text_is_omitted_with_a_warning(
        self, service: IndexedService, objects: Objects, indexed: Indexed, damaged: bytes
    ) -> None:
        video_id = service.publish_video("Apples")
        service.put_captions(video_id, "An apple a day")
        (text,) = objects.list_objects(MEDIA_BUCKET, "captions/")
        service.put_captions(video_id, "Ein Apfel am Tag", "de")
        objects.put(MEDIA_BUCKET, text.key, damaged, "text/vtt")
        with log_lines() as lines:
            assert (fields := indexed(video_id))
        assert [captions.language for captions in fields.captions] == ["de"]
        assert [(line["level"], line["message"], line["language"]) for line in lines] == [
            ("WARN", "captions not readable", "en")
        ]

    @pytest.mark.parametrize(
        ("limits", "texts"),
        [
            (IndexLimits(), ["An apple a day"]),
            (IndexLimits(caption_days=1), ["An apple a day"]),
            (IndexLimits(caption_days=1, caption_cues=0), []),
            (IndexLimits(caption_cues=1), ["An apple a day"]),
        ],
    )
    def test_captions_of_old_videos_and_long_captions_can_be_omitted(
        self, service: IndexedService, objects: Objects, limits: IndexLimits, texts: list[str]
    ) -> None:
        video_id = service.publish_video("Apples")
        service.put_captions(video_id, "An apple a day")
        loader = DocumentLoader(service.table, objects, MEDIA_BUCKET, limits, service.clock)

        def cues() -> list[str]:
            ((_, document),) = loader.read([video_id])
            assert document
            return [text for cues in document.captions.values() for _, text in cues]

        assert cues() == texts
        service.clock.advance(2 * 86_400)
        assert cues() == ([] if limits.caption_days else texts)

    def test_captions_beyond_the_search_limit_are_not_read(
        self, service: IndexedService, objects: Objects, indexed: Indexed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shared.search.document.MAX_CUES", 1)
        video_id = service.publish_video("Apples", language="fr")
        service.put_captions(video_id, "An apple a day")
        (english,) = objects.list_objects(MEDIA_BUCKET, "captions/")
        service.put_captions(video_id, "Une pomme par jour", "fr")
        objects.put(MEDIA_BUCKET, english.key, b"damaged", "text/vtt")
        with log_lines() as lines:
            assert (fields := indexed(video_id))
        assert [caption.texts for caption in fields.captions] == ["Une pomme par jour"]
        assert lines == []

    def test_ratings_and_playlists_change_nothing(self, service: IndexedService, consumer: FeedConsumer) -> None:
        video_id = service.publish_video("Apples")
        consumer.catch_up()
        playlist = service.api.post("/v1/playlists", {"title": "Mine"}).json["playlistId"]
        service.write("POST", f"/v1/playlists/{playlist}/entries", {"videoId": video_id})
        service.write("PUT", f"/v1/videos/{video_id}/rating", {"value": 7}, user="bob")
        assert consumer.catch_up()
        assert consumer.put == 1
        assert consumer.has(end_cursors(service.feed, shard_logs())), (
            "the checkpoint includes changes that do not affect the index"
        )

    def test_video_with_several_changes_is_read_once(
        self, service: IndexedService, consumer: FeedConsumer, table: Table
    ) -> None:
        video_id = service.publish_video("Apples")
        for number in range(5):
            service.patch(video_id, title=f"Apples {number}")
        with record_operations(table.client) as operations:
            consumer.catch_up()
        of_the_table = [request for request in operations if request.parameters["TableName"] == table.name]
        assert [(request.name, request.parameters["ConsistentRead"]) for request in of_the_table] == [("Query", True)]

    def test_child_items_of_a_video_are_read_in_pages(
        self, service: IndexedService, indexed: Indexed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shared.search.loader.LARGEST_READ", 2)
        video_id = service.publish_video("Apples")
        for number in range(5):
            body = {"name": f"Person {number}", "ordering": number + 1, "roles": [{"category": "actor"}]}
            service.write("PUT", f"/v1/videos/{video_id}/credits/nm{number}", body)
        assert (fields := indexed(video_id))
        assert fields.names == [f"Person {number}" for number in range(5)]


class TestProgress:
    def test_index_is_current_when_the_feed_is_empty(self, consumer: FeedConsumer, clock: Clock) -> None:
        assert consumer.catch_up()
        assert consumer.checkpoint.as_of == clock.now * 1000

    def test_consumer_resumes_from_the_position_stored_in_the_index_folder(
        self, service: IndexedService, engine: TantivyEngine, consumer: FeedConsumer, clock: Clock, tmp_path: Path
    ) -> None:
        service.publish_video("Apples")
        consumer.catch_up()
        engine.close()
        clock.advance(60)
        pears = service.publish_video("Pears")
        reopened = TantivyEngine(tmp_path / "index")
        second = FeedConsumer(reopened, service.feed, service.loader, clock=clock)
        second.catch_up()
        assert second.put == 1
        assert stored_in(reopened, pears)

    def test_consumer_without_time_stops_after_a_slice_and_stores_its_progress(
        self, service: IndexedService, engine: TantivyEngine, consumer: FeedConsumer, clock: Clock, tmp_path: Path
    ) -> None:
        consumer.catch_up()
        empty_at = consumer.checkpoint.as_of
        clock.advance(60)
        video_ids = [service.publish_video(f"Film {number}") for number in range(SLICE + 4)]
        assert not consumer.catch_up(lambda: False)
        assert (consumer.put, engine.size) == (SLICE, SLICE)
        assert (engine.checkpoint, consumer.checkpoint.as_of) == (consumer.checkpoint, empty_at)
        engine.close()
        reopened = TantivyEngine(tmp_path / "index")
        second = FeedConsumer(reopened, service.feed, service.loader, clock=clock)
        assert second.catch_up()
        assert (second.put, reopened.size) == (len(video_ids) - SLICE, len(video_ids))
        assert second.checkpoint.as_of == clock.now * 1000

    def test_consumer_without_time_stops_after_a_page_without_videos(
        self, service: IndexedService, consumer: FeedConsumer, monkeypatch: pytest.MonkeyPatch, clock: Clock
    ) -> None:
        monkeypatch.setattr("shared.feed.reader.MAX_EXAMINED", 2)
        for number in range(5):
            service.api.post("/v1/playlists", {"title": f"Mine {number}"})
        service.settle()
        assert not consumer.catch_up(lambda: False)
        assert consumer.checkpoint.as_of == 0
        assert consumer.catch_up()
        assert consumer.checkpoint.as_of == clock.now * 1000

    def test_video_with_many_changes_is_indexed_once_per_page(
        self, service: IndexedService, engine: TantivyEngine, consumer: FeedConsumer
    ) -> None:
        video_id = service.publish_video("Apples")
        for number in range(2 * SLICE):
            service.patch(video_id, title=f"Apples {number}")
        has_time = iter([True, False])
        assert not consumer.catch_up(lambda: next(has_time)), "it has not followed all that it has read"
        assert (fields := stored_in(engine, video_id))
        assert (fields.title, consumer.put) == (f"Apples {2 * SLICE - 1}", 1)

    def test_backlog_is_read_in_larger_slices(
        self, service: IndexedService, engine: TantivyEngine, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        video_ids = [service.publish_video(f"Film {number}") for number in range(2 * SLICE)]
        commits: list[IndexCheckpoint] = []
        monkeypatch.setattr(engine, "commit", commits.append)
        FeedConsumer(engine, service.feed, service.loader, clock=clock, slice_=len(video_ids)).catch_up()
        assert len(commits) == 1

    def test_wait_for_returns_whether_the_index_reached_the_positions(
        self, service: IndexedService, engine: TantivyEngine, consumer: FeedConsumer
    ) -> None:
        video_id = service.publish_video("Apples")
        ends = end_cursors(service.feed, shard_logs())
        assert consumer.wait_for(ends, lambda: True)
        assert stored_in(engine, video_id)
        ahead = {name: LogCursor(end.first, end.skip + 1) for name, end in ends.items()}
        has_time = iter([True, True, False])
        assert not consumer.wait_for(ahead, lambda: next(has_time))

    def test_position_in_a_tail_is_valid_after_the_tail_becomes_a_block(
        self, service: IndexedService, consumer: FeedConsumer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log, "LARGEST_TAIL", 300)
        video_id = service.publish_video("Apples")
        in_the_tail = end_cursors(service.feed, shard_logs())
        for number in range(9):
            service.patch(video_id, title=f"Apples {number}")
        assert consumer.wait_for(in_the_tail, lambda: True)
        assert consumer.has(end_cursors(service.feed, shard_logs()))

    def test_consumer_raises_gone_when_the_next_changes_have_expired(
        self, service: IndexedService, consumer: FeedConsumer, monkeypatch: pytest.MonkeyPatch, clock: Clock
    ) -> None:
        monkeypatch.setattr(log, "LARGEST_TAIL", 300)
        video_id = service.publish_video("Apples")
        consumer.catch_up()
        for number in range(9):
            service.patch(video_id, title=f"Apples {number}")
        for item in items_of(service.feed_table):
            if item.get("purgeAt"):
                service.feed_table.delete({"pk": item["pk"], "sk": item["sk"]})
        clock.advance(DAYS_KEPT * 86_400)
        with pytest.raises(Gone):
            consumer.catch_up()

    def test_new_index_consumes_all_retained_changes(self, consumer: FeedConsumer) -> None:
        assert consumer.checkpoint.places == dict.fromkeys(shard_logs(), OLDEST)


class TestSearchableCaptions:
    @pytest.mark.parametrize(
        ("language", "expected"),
        [
            ("fr", ["fr", "de", "en-GB", "en-NZ"]),
            ("FR-ca", ["fr", "de", "en-GB", "en-NZ"]),
            ("en-NZ", ["en-NZ", "en-GB", "de", "fr"]),
            (None, ["de", "en-GB", "en-NZ", "fr"]),
        ],
    )
    def test_captions_in_the_language_of_the_video_are_indexed_first(
        self, language: str | None, expected: list[str]
    ) -> None:
        captions = [{"language": spoken, "size": 9, "cues": 1} for spoken in ("de", "en-GB", "en-NZ", "fr")]
        assert [item["language"] for item in searchable_texts(captions, language)] == expected

    @pytest.mark.parametrize(("limit", "of"), [("LARGEST_CAPTIONS", "size"), ("MAX_CUES", "cues")])
    def test_captions_beyond_the_limits_are_omitted(self, monkeypatch: pytest.MonkeyPatch, limit: str, of: str) -> None:
        monkeypatch.setattr(f"shared.search.document.{limit}", 12)
        sizes = {"de": 5, "en": 10, "fr": 2}
        captions = [{"language": language, "size": 0, "cues": 0} | {of: size} for language, size in sizes.items()]
        assert [item["language"] for item in searchable_texts(captions, "en")] == ["en", "fr"]

    def test_captions_of_the_largest_size_are_searched_in_two_languages(self) -> None:
        assert 2 * MAX_STORED <= LARGEST_CAPTIONS
        assert 2 * cues.MAX_CUES <= MAX_CUES
