"""Generations of the search index: one builder works at a time. After a failure, readers never see a partial or mixed
generation."""

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import count, cycle
from pathlib import Path
from typing import Any

import pytest
from moto.core.models import botocore_stubber

from local.testbed.harness import MEDIA_BUCKET, Clock, record_operations
from shared.aws.dynamodb import Table
from shared.aws.leases import LeaseLost
from shared.aws.s3 import ListedObject, Objects, object_uri
from shared.core.errors import Unavailable
from shared.feed import log
from shared.feed.log import DAYS_KEPT
from shared.schema import INDEX
from shared.search import builder as building
from shared.search import generations, tantivy_engine
from shared.search.builder import SOURCES, IndexBuilder
from shared.search.document import FORM, IndexLimits
from shared.search.engine import IndexCheckpoint
from shared.search.generations import (
    HEARTBEAT_SECONDS,
    KEPT_SECONDS,
    LEASE_SECONDS,
    MAX_SIZES,
    DamagedFile,
    GenerationPointer,
    Generations,
    Heartbeat,
    LocalCopy,
    SizeSample,
    with_sample,
)
from shared.search.tantivy_engine import TantivyEngine
from tests.indexed import IndexedService
from tests.integration import faults
from tests.integration.contents import items_of
from tests.integration.faults import FaultLine, Incident, Killed
from tests.logs import log_lines
from tests.polling import LIMIT

DAY = 86_400


@pytest.fixture
def service(table: Table, objects: Objects, clock: Clock) -> IndexedService:
    """Return the service with its background work."""
    return IndexedService(table, objects, clock)


@pytest.fixture
def builder(service: IndexedService, tmp_path: Path) -> IndexBuilder:
    """Return a builder of the index."""
    return service.builder(tmp_path / "builder")


@pytest.fixture
def fresh(tmp_path: Path) -> Callable[[], Path]:
    """Return a function that returns a new, unused folder per call."""
    count = iter(range(1000))
    return lambda: tmp_path / f"fresh-{next(count)}"


def titles(service: IndexedService, folder: Path, *video_ids: str) -> list[str | None]:
    """Return the titles of these videos in a reader's index, with `None` for each video that is not found."""
    return [stored.title if stored else None for stored in service.published(folder, *video_ids).values()]


def manifest_of(service: IndexedService) -> str:
    """Return the key of the current generation's manifest, or of the draft's manifest if there is no generation."""
    pointer = service.generations.pointer()
    return f"index/{pointer.generation or (pointer.draft and pointer.draft.generation)}/manifest.json"


def keys(objects: Objects) -> set[str]:
    """Return the keys of all objects of the index."""
    return {stored_object.key for stored_object in objects.list_objects(MEDIA_BUCKET, "index/")}


def deploy_other_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a release whose index has another format."""
    for module in (tantivy_engine, generations):
        monkeypatch.setattr(module, "FORM", FORM + 1)


def dead_from(step: int) -> Incident:
    """Return an incident that kills the builder before call number `step`. Later calls also fail, so the builder cannot
    release its lease."""
    calls = iter(range(10_000))
    return lambda send: faults.kill_before(send) if next(calls) >= step else None


def steps_of(calls: Sequence[str]) -> list[int]:
    """Return the positions of the calls. Of adjacent calls of the same operation, only the first and the last count."""
    return [position for position, call in enumerate(calls) if [*calls[position - 1 : position + 2]] != [call] * 3]


class TestPublishing:
    def test_first_generation_has_all_videos_even_if_the_feed_has_expired(
        self, service: IndexedService, builder: IndexBuilder, tmp_path: Path, clock: Clock
    ) -> None:
        video_ids = [service.publish_video("Apples"), service.publish_video("Pears", visibility="private")]
        uploading = str(service.api.create(title="Plums")["videoId"])
        for item in items_of(service.feed_table):
            service.feed_table.delete({"pk": item["pk"], "sk": item["sk"]})
        run = builder.run()
        assert (run.outcome, run.put) == ("published", 3)
        assert titles(service, tmp_path / "reader", *video_ids, uploading) == ["Apples", "Pears", "Plums"]
        pointer = service.generations.pointer()
        assert (pointer.video_count, pointer.as_of, pointer.published_at) == (3, clock.now * 1000, clock.now)

    def test_next_generation_has_the_changes_and_reuses_unchanged_files(
        self, service: IndexedService, builder: IndexBuilder, fresh: Callable[[], Path], objects: Objects
    ) -> None:
        video_ids = [service.publish_video("Apples"), service.publish_video("Pears")]
        builder.run()
        first, before = service.generations.pointer(), keys(objects)
        service.patch(video_ids[1], title="Plums")
        assert builder.run().outcome == "published"
        second = service.generations.pointer()
        assert second.previous == first.generation
        assert titles(service, fresh(), *video_ids) == ["Apples", "Plums"]
        manifest = json.loads(
            objects.read(object_uri(MEDIA_BUCKET, f"index/{second.generation}/manifest.json"), 0, 100_000)
        )
        assert {file["key"] for file in manifest["files"]} & before

    @pytest.mark.slow
    def test_second_machine_continues_the_published_generation(
        self, service: IndexedService, builder: IndexBuilder, fresh: Callable[[], Path]
    ) -> None:
        video_ids = [service.publish_video("Apples")]
        builder.run()
        video_ids.append(service.publish_video("Pears"))
        assert service.builder(fresh()).run().outcome == "published"
        video_ids.append(service.publish_video("Plums"))
        assert builder.run().outcome == "published", "though its own copy is older now"
        assert titles(service, fresh(), *video_ids) == ["Apples", "Pears", "Plums"]

    def test_unchanged_index_is_published_again_after_an_hour(
        self, service: IndexedService, builder: IndexBuilder, clock: Clock
    ) -> None:
        video_id = service.publish_video("Apples")
        builder.run()
        generation = service.generations.pointer().generation
        assert builder.run().outcome == "unchanged"
        service.write("PUT", f"/v1/videos/{video_id}/rating", {"value": 7}, user="bob")
        service.api.post("/v1/playlists", {"title": "Mine"})
        service.settle()
        assert builder.run().outcome == "unchanged"
        assert service.generations.pointer().generation == generation
        clock.advance(3600)
        assert builder.run().outcome == "published", "so that readers have less to follow"

    def test_reader_with_the_newest_generation_sends_no_request(
        self, service: IndexedService, builder: IndexBuilder, tmp_path: Path, objects: Objects
    ) -> None:
        service.publish_video("Apples")
        builder.run()
        copy = LocalCopy(tmp_path / "reader")
        service.generations.copy_newest(copy)
        line = FaultLine(objects.client, transport=botocore_stubber)
        line.arm(faults.lose_request)
        service.generations.copy_newest(copy)
        assert line.calls == []

    @pytest.mark.slow
    def test_reader_of_a_deleted_generation_copies_the_newest(
        self,
        service: IndexedService,
        builder: IndexBuilder,
        tmp_path: Path,
        objects: Objects,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        video_id = service.publish_video("Apples")
        builder.run()
        old = service.generations.pointer()
        service.patch(video_id, title="Pears")
        builder.run()
        # The newest generation may refer to files in this folder, so another builder rebuilds it.
        objects.delete_prefix(MEDIA_BUCKET, "index/")
        service.builder(tmp_path / "other").run(from_scratch=True)
        newest = service.generations.pointer
        lists = iter([old])
        monkeypatch.setattr(service.generations, "pointer", lambda: next(lists, None) or newest())
        assert titles(service, tmp_path / "reader", video_id) == ["Pears"]

    def test_altered_index_file_is_not_used(
        self, service: IndexedService, builder: IndexBuilder, tmp_path: Path, objects: Objects
    ) -> None:
        service.publish_video("Apples")
        builder.run()
        key = next(key for key in keys(objects) if key.endswith("meta.json"))
        objects.put(MEDIA_BUCKET, key, b"{}", "application/json")
        copy = LocalCopy(tmp_path / "reader")
        with pytest.raises(DamagedFile):
            service.generations.copy_newest(copy)
        assert copy.generation is None

    def test_repeated_copy_reads_only_missing_or_damaged_files(
        self, service: IndexedService, builder: IndexBuilder, tmp_path: Path, objects: Objects
    ) -> None:
        video_ids = [service.publish_video("Apples"), service.publish_video("Pears")]
        builder.run()
        copy = LocalCopy(tmp_path / "reader")
        service.generations.copy_newest(copy)
        before = {path.name for path in copy.folder.iterdir()}
        engine = TantivyEngine(copy.folder)
        engine.put([], video_ids[:1])
        engine.commit(IndexCheckpoint({}, 0))
        engine.close()
        copy.is_of(None)
        with record_operations(objects.client) as operations:
            assert titles(service, tmp_path / "reader", *video_ids) == ["Apples", "Pears"]
        assert {path.name for path in copy.folder.iterdir()} >= before
        assert all(operation.parameters["Key"].endswith(".json") for operation in operations), "segments were there"
        segment = next(path for path in copy.folder.iterdir() if path.suffix == ".store")
        segment.write_bytes(bytes(segment.stat().st_size))
        copy.is_of(None)
        with record_operations(objects.client) as operations:
            assert titles(service, tmp_path / "reader", *video_ids) == ["Apples", "Pears"]
        assert [operation.parameters["Key"].rpartition("/")[2] for operation in operations] == [
            "manifest.json",
            segment.name,
        ]

    @pytest.mark.parametrize("manifest", [b"", b"\xff", b"[]", b'{"files": [{"name": "meta.json"}]}'])
    def test_invalid_manifest_is_a_damaged_file(
        self, service: IndexedService, builder: IndexBuilder, tmp_path: Path, objects: Objects, manifest: bytes
    ) -> None:
        builder.run()
        objects.put(MEDIA_BUCKET, manifest_of(service), manifest, "application/json")
        with pytest.raises(DamagedFile):
            service.generations.copy_newest(LocalCopy(tmp_path / "reader"))


class TestLease:
    def test_a_second_builder_waits(self, service: IndexedService, builder: IndexBuilder, clock: Clock) -> None:
        generation = service.generations.lease()
        assert generation
        assert builder.run().outcome == "busy"
        clock.advance(LEASE_SECONDS)
        assert builder.run().outcome == "published", "the lease of a crashed builder expires"

    def test_finished_builder_releases_the_lease(self, service: IndexedService, builder: IndexBuilder) -> None:
        builder.run()
        assert service.generations.lease()

    def test_failed_builder_releases_the_lease(
        self, service: IndexedService, builder: IndexBuilder, objects: Objects
    ) -> None:
        line = FaultLine(objects.client, transport=botocore_stubber)
        line.arm(faults.lose_request)
        with pytest.raises(Unavailable):
            builder.run()
        line.disarm()
        assert builder.run().outcome == "published"

    @pytest.mark.slow
    def test_builder_with_an_expired_lease_publishes_nothing(
        self,
        service: IndexedService,
        builder: IndexBuilder,
        fresh: Callable[[], Path],
        clock: Clock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        video_id = service.publish_video("Apples")
        list_files = TantivyEngine.files

        def overtaken(self: TantivyEngine) -> list[tantivy_engine.IndexFile]:
            monkeypatch.setattr(TantivyEngine, "files", list_files)
            clock.advance(LEASE_SECONDS)
            service.patch(video_id, title="Pears")
            assert service.builder(fresh()).run().outcome == "published"
            return list_files(self)

        monkeypatch.setattr(TantivyEngine, "files", overtaken)
        with pytest.raises(LeaseLost):
            builder.run()
        assert titles(service, fresh(), video_id) == ["Pears"]
        service.patch(video_id, title="Plums")
        assert builder.run().outcome == "published"
        assert titles(service, fresh(), video_id) == ["Plums"]

    @pytest.mark.parametrize("step", ["put", "commit", "files"])
    def test_heartbeat_keeps_the_lease_during_a_long_step(
        self, service: IndexedService, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, step: str
    ) -> None:
        beats: list[Callable[[], None]] = []

        def heartbeat(beat: Callable[[], None]) -> AbstractContextManager[None]:
            beats.append(beat)
            return nullcontext()

        builder = service.builder(tmp_path / "slow", heartbeat=heartbeat)
        service.publish_video("Apples")
        others: list[object] = []
        quickly = getattr(TantivyEngine, step)

        def slowly(*arguments: Any, **options: Any) -> Any:
            for _ in range(3 * LEASE_SECONDS // HEARTBEAT_SECONDS):
                clock.advance(HEARTBEAT_SECONDS)
                beats[-1]()
                others.append(service.generations.lease())
            return quickly(*arguments, **options)

        monkeypatch.setattr(TantivyEngine, step, slowly)
        assert builder.run().outcome == "published"
        assert set(others) == {None}

    def test_builder_that_lost_its_lease_stops_at_its_next_step(
        self, service: IndexedService, tmp_path: Path, clock: Clock
    ) -> None:
        service.publish_video("Apples")
        beats: list[Callable[[], None]] = []
        others: list[object] = []

        def heartbeat(beat: Callable[[], None]) -> AbstractContextManager[None]:
            beats.append(beat)
            return nullcontext()

        def in_time() -> bool:
            clock.advance(LEASE_SECONDS)
            others.append(service.generations.lease())
            beats[0]()
            return True

        with pytest.raises(LeaseLost):
            service.builder(tmp_path / "slow", heartbeat=heartbeat).run(in_time)
        assert len(others) == 1
        assert others[0]

    def test_throttled_heartbeat_does_not_stop_the_builder(
        self, service: IndexedService, tmp_path: Path, table: Table
    ) -> None:
        def heartbeat(beat: Callable[[], None]) -> AbstractContextManager[None]:
            line = FaultLine(table.client)
            line.arm(faults.throttle)
            beat()
            line.disarm()
            return nullcontext()

        assert service.builder(tmp_path / "busy", heartbeat=heartbeat).run().outcome == "published"

    def test_heartbeat_repeats_until_its_block_ends(self) -> None:
        count, second_beat = 0, threading.Event()
        threads = set[threading.Thread]()

        def beat() -> None:
            nonlocal count
            threads.add(threading.current_thread())
            count += 1
            if count == 3:
                second_beat.set()

        with Heartbeat(beat, seconds=0):
            assert second_beat.wait(LIMIT)
        assert not [thread for thread in threads - {threading.current_thread()} if thread.is_alive()]

    def test_lease_lasts_three_heartbeats_and_at_most_a_minute(self) -> None:
        assert 3 * HEARTBEAT_SECONDS <= LEASE_SECONDS <= 60

    def test_lease_is_acquired_despite_a_lost_response(self, service: IndexedService, table: Table) -> None:
        line = FaultLine(table.client)
        line.arm(faults.lose_response, at=0)
        assert service.generations.lease()


class TestKilledBuilders:
    @pytest.mark.slow
    def test_builder_killed_at_any_step_leaves_the_old_or_the_new_generation_and_the_next_run_completes(
        self,
        service: IndexedService,
        table: Table,
        objects: Objects,
        fresh: Callable[[], Path],
        clock: Clock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(generations, "CONCURRENCY", 1)
        video_ids = [service.publish_video("Apples 0"), service.publish_video("Pears 0")]
        builder = service.builder(fresh())
        builder.run()
        line = FaultLine(table.client, objects.client, transport=botocore_stubber)
        changes = count(1)

        def change() -> list[str]:
            """Change the titles, let the lease of an earlier builder expire, and return the titles."""
            changed = next(changes)
            after = [f"Apples {changed}", f"Pears {changed}"]
            for video_id, title in zip(video_ids, after, strict=True):
                service.patch(video_id, title=title)
            clock.advance(LEASE_SECONDS)
            return after

        before = change()
        line.arm(dead_from(10_000))  # never
        builder.run()
        steps = steps_of(line.calls)
        assert len(steps) > 8
        for step, has_local_files in zip(steps, cycle((True, False)), strict=False):
            after = change()
            line.arm(dead_from(step))
            with pytest.raises(Killed):
                builder.run()
            line.disarm()
            assert titles(service, fresh(), *video_ids) in (before, after)
            clock.advance(LEASE_SECONDS)
            builder = builder if has_local_files else service.builder(fresh())
            builder.run()
            assert titles(service, fresh(), *video_ids) == after
            before = after

    @pytest.mark.slow
    def test_rebuild_killed_at_any_step_resumes_and_publishes_all_videos(
        self,
        service: IndexedService,
        table: Table,
        objects: Objects,
        fresh: Callable[[], Path],
        clock: Clock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(generations, "CONCURRENCY", 1)
        monkeypatch.setattr(building, "PAGE", 1)
        monkeypatch.setattr(building, "SAVED_EVERY", 2)
        monkeypatch.setattr(building, "SOURCES", SOURCES[:4])
        video_ids = [service.publish_video(f"Film {number}") for number in range(3)]
        line = FaultLine(table.client, objects.client, transport=botocore_stubber)
        step = 0
        while service.generations.pointer().generation is None:
            line.arm(dead_from(step))
            try:
                service.builder(fresh()).run()
            except Killed:
                clock.advance(LEASE_SECONDS)
            line.disarm()
            step += 3
        assert titles(service, fresh(), *video_ids) == ["Film 0", "Film 1", "Film 2"]


class TestRebuild:
    @pytest.mark.slow
    def test_unfinished_rebuild_resumes_on_another_machine(
        self, service: IndexedService, fresh: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(building, "PAGE", 2)
        video_ids = [service.publish_video(f"Film {number}") for number in range(9)]
        put = [0]
        run = service.builder(fresh(), put.append).run(lambda: put[-1] == 0)
        assert run.outcome == "unfinished"
        assert 0 < run.put < len(video_ids)
        assert service.generations.pointer().generation is None
        # The feed contains the changes between the two runs.
        service.patch(video_ids[0], title="Another")
        service.write("DELETE", f"/v1/videos/{video_ids[1]}")
        last_run = service.builder(fresh()).run()
        assert last_run.outcome == "published"
        assert titles(service, fresh(), *video_ids) == ["Another", None, *(f"Film {number}" for number in range(2, 9))]
        assert service.generations.pointer().draft is None

    @pytest.mark.slow
    def test_readers_use_the_previous_generation_until_the_rebuild_ends(
        self, service: IndexedService, builder: IndexBuilder, fresh: Callable[[], Path]
    ) -> None:
        video_id = service.publish_video("Apples")
        builder.run()
        generation = service.generations.pointer().generation
        assert builder.run(lambda: False, from_scratch=True).outcome == "unfinished"
        assert service.generations.pointer().generation == generation
        assert titles(service, fresh(), video_id) == ["Apples"]
        assert builder.run().outcome == "published"
        assert service.generations.pointer().previous == generation

    def test_rebuild_removes_videos_deleted_without_a_feed_entry(
        self, service: IndexedService, builder: IndexBuilder, fresh: Callable[[], Path], table: Table
    ) -> None:
        video_id = service.publish_video("Apples")
        builder.run()
        table.delete({"pk": f"VIDEO#{video_id}", "sk": "#META"})
        assert titles(service, fresh(), video_id) == ["Apples"]
        builder.run(from_scratch=True)
        assert titles(service, fresh(), video_id) == [None]

    @pytest.mark.slow
    def test_rebuild_starts_when_the_next_changes_have_expired(
        self,
        service: IndexedService,
        builder: IndexBuilder,
        fresh: Callable[[], Path],
        clock: Clock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(log, "LARGEST_TAIL", 300)
        video_id = service.publish_video("Apples")
        builder.run()
        for number in range(9):
            service.patch(video_id, title=f"Apples {number}")
        clock.advance(DAYS_KEPT * DAY + 1)
        service.patch(video_id, title="Pears")
        run = builder.run()
        assert (run.outcome, titles(service, fresh(), video_id)) == ("published", ["Pears"])

    def test_rebuild_starts_when_the_format_has_changed(
        self,
        service: IndexedService,
        builder: IndexBuilder,
        fresh: Callable[[], Path],
        objects: Objects,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        video_id = service.publish_video("Apples")
        builder.run()
        old = service.generations.pointer()
        deploy_other_format(monkeypatch)
        assert service.generations.pointer().readable is None
        with record_operations(objects.client) as operations:
            assert builder.run().outcome == "published"
        assert not any(operation.name == "GetObject" for operation in operations), "nothing of the other form is copied"
        assert titles(service, fresh(), video_id) == ["Apples"]
        assert service.generations.pointer().previous == old.generation, "who still runs the release before reads it"

    def test_rebuild_restarts_when_its_draft_has_another_format(
        self, service: IndexedService, fresh: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(building, "PAGE", 1)
        video_ids = [service.publish_video(f"Film {number}") for number in range(3)]
        put = [0]
        assert service.builder(fresh(), put.append).run(lambda: put[-1] == 0).outcome == "unfinished"
        deploy_other_format(monkeypatch)
        run = service.builder(fresh()).run()
        assert (run.outcome, service.generations.pointer().video_count) == ("published", len(video_ids))
        assert run.put >= len(video_ids)

    @pytest.mark.parametrize("manifest", [None, b"{}"], ids=["gone", "damaged"])
    def test_rebuild_restarts_when_its_draft_is_missing_or_damaged(
        self,
        service: IndexedService,
        builder: IndexBuilder,
        fresh: Callable[[], Path],
        objects: Objects,
        manifest: bytes | None,
    ) -> None:
        video_id = service.publish_video("Apples")
        assert builder.run(lambda: False).outcome == "unfinished"
        draft = manifest_of(service)
        objects.delete(MEDIA_BUCKET, [draft])
        if manifest:
            objects.put(MEDIA_BUCKET, draft, manifest, "application/json")
        with log_lines() as lines:
            assert service.builder(fresh()).run().outcome == "published"
        assert [(line["level"], line["message"]) for line in lines] == [("WARN", "index not resumable")]
        assert titles(service, fresh(), video_id) == ["Apples"]

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "content", "reason"),
        [
            ("manifest.json", b"{}", "DamagedFile"),
            ("meta.json", b"{}", "DamagedFile"),
            ("manifest.json", None, "ObjectMissing"),
        ],
    )
    def test_rebuild_starts_when_the_current_generation_is_damaged(
        self,
        service: IndexedService,
        builder: IndexBuilder,
        fresh: Callable[[], Path],
        objects: Objects,
        name: str,
        content: bytes | None,
        reason: str,
    ) -> None:
        video_id = service.publish_video("Apples")
        builder.run()
        key = manifest_of(service).replace("manifest.json", name)
        objects.delete(MEDIA_BUCKET, [key])
        if content:
            objects.put(MEDIA_BUCKET, key, content, "application/json")
        with log_lines() as lines:
            assert service.builder(fresh()).run().outcome == "published"
        assert [(line["level"], line["message"], line["reason"]) for line in lines] == [
            ("WARN", "index not resumable", reason)
        ]
        assert titles(service, fresh(), video_id) == ["Apples"]
        assert service.builder(fresh()).run().outcome == "unchanged"

    def test_rebuild_starts_when_the_manifest_of_the_builders_copy_is_damaged(
        self, service: IndexedService, builder: IndexBuilder, fresh: Callable[[], Path], objects: Objects
    ) -> None:
        video_id = service.publish_video("Apples")
        builder.run()
        objects.put(MEDIA_BUCKET, manifest_of(service), b"{", "application/json")
        service.patch(video_id, title="Pears")
        assert builder.run().outcome == "published"
        assert titles(service, fresh(), video_id) == ["Pears"]

    def test_rebuild_of_a_table_without_videos_publishes_an_empty_index(
        self, builder: IndexBuilder, service: IndexedService
    ) -> None:
        run = builder.run()
        assert (run.outcome, run.put) == ("published", 0)
        assert service.generations.pointer().video_count == 0


class TestTidy:
    @pytest.mark.slow
    def test_tidy_deletes_unused_files_after_the_retention(
        self, service: IndexedService, builder: IndexBuilder, fresh: Callable[[], Path], objects: Objects, clock: Clock
    ) -> None:
        # S3 records the time of an object by its own clock.
        clock.now = max(stored_object.changed for stored_object in [*_written(objects)]).timestamp()
        video_id = service.publish_video("Apples")
        builder.run()
        first = service.generations.pointer().generation
        for number in range(3):
            service.patch(video_id, title=f"Apples {number}")
            assert builder.run().removed == 0
        clock.advance(KEPT_SECONDS + 60)
        service.patch(video_id, title="Pears")
        assert builder.run().removed > 0
        assert f"index/{first}/manifest.json" not in keys(objects)
        assert titles(service, fresh(), video_id) == ["Pears"]
        pointer = service.generations.pointer()
        assert f"index/{pointer.previous}/manifest.json" in keys(objects), "a reader may still be copying it"

    def test_tidy_with_a_damaged_manifest_deletes_nothing(
        self, service: IndexedService, builder: IndexBuilder, objects: Objects, clock: Clock
    ) -> None:
        clock.now = max(stored_object.changed for stored_object in [*_written(objects)]).timestamp() + 2 * KEPT_SECONDS
        service.publish_video("Apples")
        builder.run()
        clock.advance(KEPT_SECONDS + 60)
        objects.put(MEDIA_BUCKET, manifest_of(service), b"{", "application/json")
        before, generation = keys(objects), service.generations.lease()
        assert generation
        with pytest.raises(DamagedFile):
            service.generations.tidy(generation)
        assert keys(objects) == before

    def test_tidy_keeps_other_objects_of_the_bucket(
        self, service: IndexedService, builder: IndexBuilder, objects: Objects, clock: Clock
    ) -> None:
        clock.now = max(stored_object.changed for stored_object in [*_written(objects)]).timestamp() + 2 * KEPT_SECONDS
        objects.put(MEDIA_BUCKET, "captions/a.vtt", b"WEBVTT", "text/vtt")
        objects.put(MEDIA_BUCKET, "index/00000000-dead/left", b"behind", "application/octet-stream")
        assert builder.run().removed == 1
        assert objects.exists(object_uri(MEDIA_BUCKET, "captions/a.vtt"))


def _written(objects: Objects) -> list[ListedObject]:
    """Write an object, and return its listing."""
    objects.put(MEDIA_BUCKET, "now", b"", "text/plain")
    return list(objects.list_objects(MEDIA_BUCKET, "now"))


class TestSize:
    def test_growth_is_the_mean_of_the_last_week(self) -> None:
        pointer, growths = GenerationPointer(), list[float | None]()
        for hour in range(0, 24 * 12, 6):
            at, size = hour * 3600, 1_000 + 100 * max(0, hour - 24 * 4)
            pointer = replace(
                pointer, bytes=size, published_at=at, sizes=with_sample(pointer.sizes, SizeSample(at, size))
            )
            growths.append(pointer.growth)
        assert growths[:5] == [None, None, None, None, 0]
        assert growths[-4] == pytest.approx(2_400)
        assert len(pointer.sizes) == MAX_SIZES

    @pytest.mark.parametrize(
        ("limit", "size", "days"), [(0, 2_000, None), (5_000, 2_000, 30), (5_000, 900, None), (1_500, 2_000, 0)]
    )
    def test_days_left_need_a_limit_and_a_growing_index(self, limit: int, size: int, days: float | None) -> None:
        pointer = GenerationPointer(
            bytes=size, published_at=10 * 86_400, sizes=(SizeSample(0, 1_000),), limits=IndexLimits(limit)
        )
        assert pointer.days_left == days

    def test_publication_stores_its_size_and_the_limits_of_the_deployment(
        self, service: IndexedService, builder: IndexBuilder, fresh: Callable[[], Path]
    ) -> None:
        service.generations = Generations(
            service.table, service.objects, MEDIA_BUCKET, service.clock, IndexLimits(5_000_000, 30, 100)
        )
        service.publish_video("Apples")
        result = service.builder(fresh()).run()
        pointer = service.generations.pointer()
        assert pointer.sizes == (SizeSample(pointer.published_at, pointer.bytes),)
        assert (pointer.limits, result.index.bytes) == (IndexLimits(5_000_000, 30, 100), pointer.bytes)
        service.publish_video("Pears")
        assert builder.run().index.limits == pointer.limits, "a builder without limits retains those of the deployment"


def test_pointer_item_has_the_key_of_the_schema(builder: IndexBuilder, table: Table) -> None:
    builder.run()
    assert table.get(INDEX.key())
