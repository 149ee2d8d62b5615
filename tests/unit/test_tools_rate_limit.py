"""Commands with many writes wait for the audit trail: which writes they sample, when they wait, and when they give
up."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from local.testbed.audited import AuditedService
from local.testbed.harness import Api, Clock
from shared.aws.dynamodb import Table
from shared.history.trail import AuditStore
from shared.schema import AUDIT_TABLE_NAME, CREDIT, JOB, VIDEO, VIEW_COUNTER
from tools import ToolError, rate_limit
from tools.__main__ import main
from tools.rate_limit import MAX_BEHIND, STANDSTILL_SECONDS, WAIT_SECONDS, LagSample, PacedTable, Pool, TrailLagLimiter

RUN = "import-1"
VIDEO_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"


class LaggingTrail(AuditStore):
    """Audit trail that contains each write `lag` seconds later, and counts how often it was queried."""

    def __init__(self, clock: Clock, lag: float) -> None:
        self.clock, self.lag = clock, lag
        self.written: dict[str, float] = {}
        self.checks = 0

    def follows(self, partition: str, entity: str, changeset_id: str, version: int) -> bool:
        """Return whether `lag` seconds have passed since the write."""
        self.checks += 1
        return self.clock() - self.written[partition] >= self.lag


class Command:
    """Command that writes a video each second, and waits for its trail."""

    def __init__(self, table: Table, clock: Clock, lag: float) -> None:
        self.clock, self.trail = clock, LaggingTrail(clock, lag)
        self.waits: list[float] = []
        self.pace = TrailLagLimiter(self.trail, RUN, clock=clock, sleep=self._sleep)
        self.table = PacedTable(self.pace, table.name, table.client)

    def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.clock.advance(seconds)

    def write(self, seconds: int) -> None:
        """Write for this number of seconds, and wait whenever the limiter does."""
        for number in range(seconds):
            self.pace.wait()
            key = VIDEO.key(videoId=f"{len(self.trail.written)}-{number}")
            self.trail.written[key["pk"]] = self.clock()
            self.table.write(self.table.put(key | {"updatedFor": RUN, "version": 1}))
            self.clock.advance(1)


class TestWaiting:
    def test_command_with_a_current_trail_does_not_wait(self, table: Table, clock: Clock) -> None:
        command = Command(table, clock, lag=MAX_BEHIND - 1)
        command.write(100)
        assert command.waits == []
        assert 0 < command.trail.checks <= 100

    def test_short_command_does_not_query_the_trail(self, table: Table, clock: Clock) -> None:
        command = Command(table, clock, lag=1_000)
        command.write(MAX_BEHIND)
        assert (command.waits, command.trail.checks) == ([], 0)

    def test_command_writes_as_fast_as_its_trail(
        self, table: Table, clock: Clock, capsys: pytest.CaptureFixture[str]
    ) -> None:
        command = Command(table, clock, lag=2 * MAX_BEHIND)
        start = clock()
        command.write(200)
        assert command.waits
        assert set(command.waits) == {WAIT_SECONDS}
        assert clock() - start >= 300
        assert capsys.readouterr().err.count("behind") == 1

    def test_trail_without_progress_ends_the_command(self, table: Table, clock: Clock) -> None:
        command = Command(table, clock, lag=1e9)
        with pytest.raises(ToolError, match=r"makes no progress. See docs/runbooks/stream-lag\.md.*to continue"):
            command.write(100)
        assert sum(command.waits) > STANDSTILL_SECONDS

    def test_pool_waits_for_the_limiter_before_each_batch(self) -> None:
        order: list[str] = []
        pool = Pool(1, before=lambda: order.append("waited"))
        for name in ("a", "b"):
            pool.map(order.append, [name])
        assert order == ["waited", "a", "waited", "b"]


class TestSamples:
    @pytest.fixture
    def sampled(self, table: Table, clock: Clock) -> tuple[PacedTable, Callable[[], list[LagSample]]]:
        """Return a rate-limited table, and a function that returns the samples of its writes."""
        limiter = TrailLagLimiter(LaggingTrail(clock, 0), RUN, clock=clock)
        return PacedTable(limiter, table.name, table.client), lambda: list(limiter._samples)

    def test_sampler_stores_one_write_per_second(
        self, sampled: tuple[PacedTable, Callable[[], list[LagSample]]], clock: Clock
    ) -> None:
        table, samples = sampled
        for number in range(10):
            table.write(table.put(VIDEO.key(videoId=str(number)) | {"updatedFor": RUN, "version": 1}))
            clock.advance(0.5)
        assert [sample.partition for sample in samples()] == [f"VIDEO#{number}" for number in range(0, 10, 2)]

    def test_writes_without_an_entry_in_the_change_set_are_not_sampled(
        self, sampled: tuple[PacedTable, Callable[[], list[LagSample]]]
    ) -> None:
        table, samples = sampled
        table.write(table.put(VIDEO.key(videoId="a") | {"updatedFor": "another"}))
        table.write(table.put(VIDEO.key(videoId="b")))
        table.write(table.put(JOB.key(videoId="a", kind="probe") | {"updatedFor": RUN}))
        table.write(table.put(VIEW_COUNTER.key(videoId="a", shard=0) | {"updatedFor": RUN}))
        table.write(table.remove(VIDEO.key(videoId="a")))
        assert samples() == []

    def test_writes_of_a_transaction_are_sampled_by_entity_and_version(
        self, sampled: tuple[PacedTable, Callable[[], list[LagSample]]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(rate_limit, "SAMPLE_SECONDS", 0)
        table, samples = sampled
        video, credit = VIDEO.key(videoId=VIDEO_ID), CREDIT.key(videoId=VIDEO_ID, personId="p")
        table.transact(
            [
                table.put(video | {"updatedFor": RUN, "version": 4}),
                table.put(credit | {"updatedFor": RUN}),
            ]
        )
        assert [(sample.entity, sample.version) for sample in samples()] == [("video", 4), ("credit", 0)]


class TestWithTrail:
    @pytest.fixture
    def paces(self, monkeypatch: pytest.MonkeyPatch) -> list[TrailLagLimiter]:
        """Return the rate limiters of the commands. They sample every write."""
        limiters: list[TrailLagLimiter] = []

        class Recorded(TrailLagLimiter):
            def __init__(self, trail: AuditStore, changeset_id: str) -> None:
                super().__init__(trail, changeset_id)
                limiters.append(self)

        monkeypatch.setattr("tools.target.TrailLagLimiter", Recorded)
        monkeypatch.setattr(rate_limit, "SAMPLE_SECONDS", 0)
        monkeypatch.setattr("local.testbed.audited.DAYS", 36_500)
        monkeypatch.setattr("shared.history.parts.CONCURRENT_PARTS", 1)
        initialise = Pool.__init__
        monkeypatch.setattr(Pool, "__init__", lambda pool, threads=1, **options: initialise(pool, 1, **options))
        return limiters

    def in_trail(self, service: AuditedService, paced: TrailLagLimiter) -> list[bool]:
        """Return for each sampled write of a command whether the trail contains it."""
        return [
            service.trail.follows(sample.partition, sample.entity, paced._id, sample.version)
            for sample in paced._samples
        ]

    @pytest.mark.slow
    def test_trail_contains_every_sampled_write_of_an_import_and_its_undo(
        self, api: Api, paces: list[TrailLagLimiter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        service = AuditedService(api)
        assert main(["generate", "imdb", "--titles", "6", "--people", "4"]) == 0
        assert main(["import-imdb", "imdb", "--table", api.table.name]) == 0
        (imported,) = paces
        assert {sample.entity for sample in imported._samples} == {"video", "credit", "release", "rating"}
        assert not any(self.in_trail(service, imported))
        service.settle()
        assert all(self.in_trail(service, imported))
        monkeypatch.setattr("shared.history.changeset_reverts.MAX_ENTRIES_INLINE", 5)
        assert main(["undo", imported._id, "--table", api.table.name]) == 0
        undo_limiter = paces[1]
        assert "video" in {sample.entity for sample in undo_limiter._samples}
        assert not any(self.in_trail(service, undo_limiter))
        service.settle()
        assert all(self.in_trail(service, undo_limiter))

    def test_trail_contains_every_sampled_write_of_an_imported_export(
        self, api: Api, paces: list[TrailLagLimiter], tmp_path: Path
    ) -> None:
        service = AuditedService(api)
        file = tmp_path / "all.jsonl"
        lines = (
            {"entity": "Video", "videoId": VIDEO_ID, "userId": "alice", "status": "ready", "title": "A film"},
            {"entity": "Chapters", "videoId": VIDEO_ID, "chapters": [{"start": 0, "title": "One"}]},
            {"entity": "Playlist", "playlistId": VIDEO_ID, "userId": "alice", "title": "Mine"},
        )
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        assert main(["import", str(file), "--table", api.table.name]) == 0
        (imported,) = paces
        assert sorted(sample.entity for sample in imported._samples) == ["chapters", "playlist", "video"]
        service.settle()
        assert all(self.in_trail(service, imported))

    def test_follows_requires_the_entity_version_and_change_set_of_the_write(self, api: Api) -> None:
        service = AuditedService(api)
        video_id = service.create()
        change_set = service.entries(video_id)[0]["changeset"]
        assert service.trail.follows(f"VIDEO#{video_id}", "video", change_set, 1)
        assert not service.trail.follows(f"VIDEO#{video_id}", "video", change_set, 2)
        assert not service.trail.follows(f"VIDEO#{video_id}", "credit", change_set, 0)
        assert not service.trail.follows(f"VIDEO#{video_id}", "video", "another", 1)

    def test_table_without_a_trail_is_written_without_waiting(
        self, table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        table.client.delete_table(TableName=AUDIT_TABLE_NAME)
        assert main(["generate", str(tmp_path), "--titles", "1", "--people", "1"]) == 0
        assert main(["import-imdb", str(tmp_path), "--table", table.name]) == 0
        assert "the command writes without waiting for the audit trail" in capsys.readouterr().err
