"""Metrics and log lines. Each event counts once, with its dimensions, and the documentation lists every metric."""

import json
import re
from pathlib import Path

import pytest

from functions.sweeper import handler as sweeper
from local.log_reference import MESSAGES, LogMessage
from local.stream_records import EXPIRY, Raw, stream_record
from local.testbed import streams
from local.testbed.background import BackgroundWork, make_audit
from local.testbed.harness import NOW, Api, Clock, Context
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.background import sweeper as sweeping
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.settings import LambdaHandler
from shared.core.telemetry import METRICS, emit, emit_views, service_logger, use_correlation_id
from shared.job_kinds import kind_of
from shared.processing.job_store import JobStore
from shared.schema import AUDIT_TABLE_NAME, JOB, SORT_KEY, VIDEO
from tests.logs import LAMBDA_LEVELS, log_lines, metrics, passes_lambda_filter

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "logs-and-metrics.md").read_text(encoding="utf-8")
VIDEO_ITEM: Item = {
    **VIDEO.key(videoId="v"),
    "userId": "alice",
    "status": "uploaded",
    "version": 1,
    "writeId": "1",
    "updatedBy": "alice",
}
Printed = pytest.CaptureFixture[str]


class TestEmit:
    def test_a_metric_has_the_environment_and_its_unit(self, capsys: Printed) -> None:
        emit({"OldestJobSeconds": 61, "OpenJobs": 2}, queue="probe")
        line = json.loads(capsys.readouterr().out)
        assert line["_aws"]["CloudWatchMetrics"] == [
            {
                "Namespace": "VideoMetadata",
                "Dimensions": [["environment", "queue"]],
                "Metrics": [{"Name": "OldestJobSeconds", "Unit": "Seconds"}, {"Name": "OpenJobs", "Unit": "Count"}],
            }
        ]
        assert (line["environment"], line["queue"]) == ("test", "probe")
        assert (line["OldestJobSeconds"], line["OpenJobs"]) == ([61], [2])

    def test_emit_without_metrics_writes_no_line(self, capsys: Printed) -> None:
        emit({})
        assert capsys.readouterr().out == ""

    def test_emit_keeps_nothing_for_the_next_call(self, capsys: Printed) -> None:
        emit_views(1)
        emit({"JobsDone": 2}, kind="probe")
        emit({"IndexLag": 3})
        assert metrics(capsys) == [
            {"environment": "test", "ViewsCounted": 1},
            {"environment": "test", "kind": "probe", "JobsDone": 2},
            {"environment": "test", "IndexLag": 3},
        ]

    def test_metric_that_cannot_be_emitted_is_logged(self, capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("ENVIRONMENT")
        with log_lines() as lines:
            emit_views(1)
            emit({"IndexLag": 3})
        assert [(line["message"], line["metrics"]) for line in lines] == [
            ("metrics not emitted", ["ViewsCounted"]),
            ("metrics not emitted", ["IndexLag"]),
        ]
        assert metrics(capsys) == []


class TestAudit:
    @pytest.fixture
    def handle(self, table: Table, objects: Objects) -> LambdaHandler:
        """Return the audit function with a table and an archive."""
        return make_audit(Table(AUDIT_TABLE_NAME, table.client), objects=objects)

    def test_audit_counts_created_deleted_and_removed_videos(self, handle: LambdaHandler, capsys: Printed) -> None:
        deleted = VIDEO_ITEM | {"status": "deleted", "version": 2, "writeId": "2"}
        batch = [
            stream_record(None, VIDEO_ITEM, sequence=1),
            stream_record(VIDEO_ITEM, deleted, sequence=2),
            stream_record(deleted, None, sequence=3, identity=EXPIRY),
            stream_record(None, VIDEO_ITEM | VIDEO.key(videoId="w"), sequence=4),
            stream_record(VIDEO_ITEM | VIDEO.key(videoId="w"), None, sequence=5),
        ]
        handle(streams.event(*batch), Context())
        assert metrics(capsys) == [{"environment": "test", "VideosCreated": 2, "VideosDeleted": 1, "VideosRemoved": 2}]

    def test_record_delivered_twice_is_counted_once(self, handle: LambdaHandler, capsys: Printed) -> None:
        batch = [
            stream_record(None, VIDEO_ITEM | VIDEO.key(videoId=video_id), sequence=n)
            for n, video_id in enumerate("abc")
        ]
        for part in (batch[:2], batch, batch):
            handle(streams.event(*part), Context())
        assert [line["VideosCreated"] for line in metrics(capsys)] == [2, 1]

    def test_new_video_is_counted_when_the_archive_fails(
        self, handle: LambdaHandler, objects: Objects, capsys: Printed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object, **__: object) -> None:
            raise OSError("broken")

        event = streams.event(stream_record(None, VIDEO_ITEM))
        with monkeypatch.context() as patched:
            patched.setattr(objects, "put", broken)
            with pytest.raises(OSError, match="broken"):
                handle(event, Context())
        handle(event, Context())
        assert metrics(capsys) == [{"environment": "test", "VideosCreated": 1}]

    def test_jobs_are_counted_by_their_kind_without_the_rendition(self, handle: LambdaHandler, capsys: Printed) -> None:
        def ended(kind: str, state: str) -> Raw:
            before = {**JOB.key(videoId="v", kind=kind), "state": "running", "attempt": 1, "writeId": "1"}
            return stream_record(before, before | {"state": state, "writeId": "2"}, sequence=next(numbers))

        numbers = iter(range(10))
        batch = [ended("transcode.240p", "done"), ended("transcode.720p", "done"), ended("transcode.1080p", "failed")]
        handle(streams.event(*batch, ended("poster", "failed"), ended("probe", "withdrawn")), Context())
        counted = sorted(metrics(capsys), key=lambda line: str(line["kind"]))
        assert counted == [
            {"environment": "test", "kind": "poster", "JobsFailed": 1},
            {"environment": "test", "kind": "transcode", "JobsDone": 2, "JobsFailed": 1},
        ]

    def test_other_change_of_a_video_is_not_counted(self, handle: LambdaHandler, capsys: Printed) -> None:
        handle(streams.event(stream_record(VIDEO_ITEM, VIDEO_ITEM | {"title": "t", "version": 2})), Context())
        assert metrics(capsys) == []


class TestViews:
    def test_every_view_is_counted_and_a_replayed_request_is_not(self, api: Api, capsys: Printed) -> None:
        path = f"/v1/videos/{api.publish()['videoId']}/views"
        capsys.readouterr()
        assert api.post(path, user="bob").json["counted"] is True
        replies = [api.post(path, headers={"Idempotency-Key": "k"}, user="bob").json for _ in range(3)]
        assert [reply["counted"] for reply in replies] == [True, False, False]
        assert api.post(path, user="alice").json["reason"] == "owner"
        assert metrics(capsys) == [{"environment": "test", "ViewsCounted": 1}] * 2

    def test_the_views_of_a_batch_are_counted_together(self, api: Api, capsys: Printed) -> None:
        video = api.publish()["videoId"]
        capsys.readouterr()
        queue = {"views": [{"id": id_, "videoId": video, "at": int(api.clock())} for id_ in "abc"]}
        for _ in range(2):
            assert api.post("/v1/views", queue, user="bob").status == 200
        assert metrics(capsys) == [{"environment": "test", "ViewsCounted": 3}]

    def test_a_view_that_is_refused_is_not_counted(self, api: Api, capsys: Printed) -> None:
        hidden = api.create()["videoId"]
        assert api.post(f"/v1/videos/{hidden}/views", user="bob").status == 404
        assert metrics(capsys) == []


class TestSweeper:
    @staticmethod
    def _waiting(api: Api, table: Table, clock: Clock) -> tuple[BackgroundWork, str]:
        """Return the background work, and the id of a video whose probe job is waiting."""
        background = BackgroundWork(table, clock)
        video_id = str(api.create()["videoId"])
        background.arrive(video_id)
        return background, video_id

    def _sweep(self, background: BackgroundWork, capsys: Printed) -> dict[str, dict[str, float]]:
        """Run a sweep, and return its metrics by queue. The key of metrics without a queue is `""`."""
        capsys.readouterr()
        background.sweeper({}, Context())
        emitted = metrics(capsys)
        assert {line.pop("environment") for line in emitted} <= {"test"}
        return {line.pop("queue", ""): line for line in emitted}

    def test_sweep_without_open_jobs_reports_nothing(
        self, api: Api, table: Table, clock: Clock, capsys: Printed
    ) -> None:
        api.create()
        assert self._sweep(BackgroundWork(table, clock), capsys) == {}

    def test_open_jobs_are_counted_by_queue_with_the_age_of_the_oldest(
        self, api: Api, table: Table, clock: Clock, capsys: Printed
    ) -> None:
        background = BackgroundWork(table, clock)
        background.uploaded_film(api)
        clock.advance(100)
        background.arrive(api.create()["videoId"])
        clock.advance(20)
        assert self._sweep(background, capsys) == {
            "probe": {"OpenJobs": 1, "OldestJobSeconds": 20},
            "thumbnails": {"OpenJobs": 2, "OldestJobSeconds": 120},
            "transcode": {"OpenJobs": 2, "OldestJobSeconds": 120},
        }

    def test_age_of_a_job_includes_earlier_attempts(
        self, api: Api, table: Table, clock: Clock, capsys: Printed
    ) -> None:
        background = BackgroundWork(table, clock)
        background.uploaded_film(api)
        attempt = background.message("thumbnails", "poster").job_attempt
        clock.advance(100)
        assert background.jobs.claim(attempt, Caller.job("thumbnails"), int(clock()))
        clock.advance(kind_of("poster").lease + 1)
        assert self._sweep(background, capsys)[""] == {"JobsRequeued": 1}
        clock.advance(10)
        # The next attempt has been waiting for 10 seconds, but the job for longer.
        assert self._sweep(background, capsys)["thumbnails"]["OldestJobSeconds"] == 100 + 361 + 10

    def test_age_of_a_manually_retried_job_starts_at_the_retry(
        self, api: Api, table: Table, clock: Clock, capsys: Printed
    ) -> None:
        background, video_id = self._waiting(api, table, clock)
        background.jobs.fail(
            background.message("probe", "probe").job_attempt, "No film.", Caller.job("probe"), int(clock()), retry=False
        )
        assert self._sweep(background, capsys) == {}
        clock.advance(1000)
        assert api.post(f"/v1/videos/{video_id}/jobs/probe/retry").status == 202
        clock.advance(5)
        assert self._sweep(background, capsys) == {"probe": {"OpenJobs": 1, "OldestJobSeconds": 5}}

    def test_job_that_the_sweeper_gave_up_is_counted_and_no_longer_open(
        self, api: Api, table: Table, clock: Clock, capsys: Printed
    ) -> None:
        background = BackgroundWork(table, clock)
        background.arrive(api.create()["videoId"])
        clock.advance(kind_of("probe").patience + 1)
        assert self._sweep(background, capsys)[""] == {"JobsResent": 1}
        clock.advance(10**6)
        assert self._sweep(background, capsys) == {"": {"JobsGivenUp": 1}}

    def test_job_that_the_sweeper_skipped_is_counted(
        self, api: Api, table: Table, clock: Clock, capsys: Printed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        background = BackgroundWork(table, clock)
        background.arrive(api.create()["videoId"])
        clock.advance(10**6)

        def broken(*_: object, **__: object) -> None:
            raise OSError("broken")

        monkeypatch.setattr(JobStore, "fail", broken)
        assert self._sweep(background, capsys)[""] == {"JobsSkipped": 1}

    def test_job_of_an_unknown_kind_is_not_counted(self, api: Api, table: Table, clock: Clock, capsys: Printed) -> None:
        background, video_id = self._waiting(api, table, clock)
        job = background.job(video_id, "probe")
        table.write(table.put(job | {SORT_KEY: "JOB#scent", "kind": "scent", "relId": f"{video_id}/scent"}))
        assert self._sweep(background, capsys) == {"probe": {"OpenJobs": 1, "OldestJobSeconds": 0}}

    def test_count_of_open_jobs_is_bounded_and_all_overdue_jobs_are_resent(
        self, api: Api, table: Table, clock: Clock, capsys: Printed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sweeping, "MAX_MEASURED", 3)
        background = BackgroundWork(table, clock)
        for _ in range(5):
            background.arrive(api.create()["videoId"])
        assert self._sweep(background, capsys) == {"probe": {"OpenJobs": 3, "OldestJobSeconds": 0}}
        clock.advance(kind_of("probe").patience + 1)
        assert self._sweep(background, capsys)[""] == {"JobsResent": 5}

    def test_jobs_are_only_in_the_relation_index(self, api: Api, table: Table, clock: Clock) -> None:
        background = BackgroundWork(table, clock)
        video_id = background.uploaded_film(api)
        job = background.job(video_id, "poster")
        assert job["createdAt"] == NOW
        # Otherwise lists of the owner's videos would contain jobs.
        assert not {"userId", "category", "categoryShard"} & job.keys()

    def test_sweeper_metrics_name_existing_outcomes(self) -> None:
        assert set(sweeper.METRICS.values()) <= sweeping.SweepResult().counts.keys()


class TestLogger:
    def test_correlation_id_is_restored_after_its_block(self) -> None:
        logger = service_logger()
        with log_lines() as lines:
            with use_correlation_id("outer"):
                with use_correlation_id("inner"):
                    logger.info("1")
                with use_correlation_id(None):
                    logger.info("2")
                with pytest.raises(OSError, match="broken"), use_correlation_id("failing"):
                    raise OSError("broken")
                logger.info("3")
            logger.info("4")
        assert [line.get("correlation_id") for line in lines] == ["inner", None, "outer", None]

    def test_every_log_line_has_its_invocation_id(self) -> None:
        def handle(*_: object) -> dict[str, object]:
            service_logger().info("here")
            return {}

        context = Context()
        with log_lines() as lines:
            service_logger().inject_lambda_context(handle)({}, context)
        assert [line["function_request_id"] for line in lines] == [context.aws_request_id]


class TestLambdaLogFilter:
    """Lambda drops lines below the function's log level, if it can parse the level of a line."""

    @pytest.mark.parametrize(
        ("method", "least"), [("info", "INFO"), ("warning", "WARN"), ("error", "ERROR"), ("critical", "FATAL")]
    )
    def test_line_passes_at_its_level_and_below(self, method: str, least: str) -> None:
        with log_lines() as lines:
            getattr(service_logger(), method)("happened")
        (line,) = lines
        assert [level for level in LAMBDA_LEVELS if passes_lambda_filter(line, level)] == [
            level for level in LAMBDA_LEVELS if LAMBDA_LEVELS.index(level) <= LAMBDA_LEVELS.index(least)
        ]

    def test_line_of_a_new_logger_has_the_level_of_the_filter(
        self, capsys: Printed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Test a logger that no test has used, because `log_lines` changes the format of the loggers that it
        collects."""
        monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "made-for-this-test")
        service_logger().warning("happened")
        line = json.loads(capsys.readouterr().out)
        assert (line["service"], line["message"]) == ("made-for-this-test", "happened")
        assert passes_lambda_filter(line, "WARN")

    def test_metrics_pass_only_at_level_info(self, capsys: Printed) -> None:
        emit({"OpenJobs": 1}, queue="probe")
        line = json.loads(capsys.readouterr().out)
        assert [level for level in ("INFO", "WARN", "ERROR") if passes_lambda_filter(line, level)] == ["INFO"]

    def test_loggers_are_created_in_telemetry_only(self) -> None:
        """Test that only `telemetry` creates loggers. The first logger of a service determines the format of all its
        log lines."""
        makers = {
            path.relative_to(ROOT).as_posix()
            for folder in ("functions", "shared")
            for path in (ROOT / folder).rglob("*.py")
            if re.search(r"\b(Logger|getLogger)\(|import logging", path.read_text(encoding="utf-8"))
        }
        assert makers == {"shared/core/telemetry.py"}


class TestPage:
    def test_page_lists_every_metric_with_its_unit_and_dimension(self) -> None:
        table = PAGE.partition("## Metrics")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| `(\w+)` \| (\w+) \| `?(\w*)`? ?\|", table, re.MULTILINE)
        assert {name: (unit, dimension) for name, unit, dimension in rows} == METRICS

    def test_every_metric_is_emitted_by_some_function(self) -> None:
        files = {path for folder in ("functions", "shared") for path in (ROOT / folder).rglob("*.py")}
        sources = [file.read_text(encoding="utf-8") for file in files - {ROOT / "shared" / "core" / "telemetry.py"}]
        emitted = {name for name in METRICS if any(f'"{name}"' in source for source in sources)}
        assert emitted | {"ViewsCounted"} == METRICS.keys()
        assert any("emit_views(" in source for source in sources)

    @pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.text)
    def test_every_message_on_the_page_is_in_the_code(self, message: LogMessage) -> None:
        files = (path for folder in ("functions", "shared") for path in (ROOT / folder).rglob("*.py"))
        assert any(f'"{message.text}"' in file.read_text(encoding="utf-8") for file in files)

    def test_page_states_the_limit_of_open_jobs_in_the_code(self) -> None:
        assert f"{sweeping.MAX_MEASURED:,} open jobs" in PAGE
