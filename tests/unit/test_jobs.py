"""Jobs that the stream creates for a video. Duplicate, reordered and lost records lead to the same final state."""

import itertools
import random
from typing import Any

import pytest

from local.stream_records import stream_record
from local.testbed.background import RENDITIONS, BackgroundWork
from local.testbed.harness import Api, Clock, Context
from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import IllegalTransition, NotFound, Unavailable
from shared.entities import Job, Video, VideoSource
from shared.job_kinds import kind_of
from shared.processing.job_states import LAST_ATTEMPT, JobAttempt, attempt_number, attempt_of, delay_before
from shared.processing.job_store import JobStore
from shared.schema import SCHEMA_VERSION, VIDEO
from shared.videos import video

WORKER = Caller.job("thumbnails")
SOURCE: VideoSource = {
    "uploadId": "1",
    "uri": "s3://b/k",
    "etag": "e",
    "fileSize": 1,
    "contentType": "video/mp4",
    "arrivedAt": 1,
}
OWNER = Caller("alice", frozenset({"videos/write"}))
ALL_QUEUED = {
    "probe": "done",
    "poster": "queued",
    "storyboard": "queued",
    "transcode.240p": "queued",
    "transcode.360p": "queued",
}


def _item(table: Table, video_id: str) -> Item:
    item = table.get(VIDEO.key(videoId=video_id))
    assert item
    return item


def _finish(background: BackgroundWork, attempt: JobAttempt, name: str = "360p") -> Job | None:
    uri = f"s3://media/{name}.mp4"
    done = background.jobs.complete(
        attempt, {"uri": uri}, WORKER, int(background.clock()), lambda item: video.add_rendition(item, name, uri)
    )
    background.settle()
    return done


def _fail(background: BackgroundWork, attempt: JobAttempt, *, retry: bool = False) -> Job | None:
    failed = background.jobs.fail(attempt, "It broke.", WORKER, int(background.clock()), retry=retry)
    background.settle()
    return failed


class TestRequestedJobs:
    def test_video_without_a_source_has_no_jobs(self, api: Api, background: BackgroundWork) -> None:
        created = api.create()
        api.patch(f"/v1/videos/{created['videoId']}", {"title": "new"})
        background.settle()
        assert background.states(created["videoId"]) == {}

    def test_arrived_source_is_probed_first(self, api: Api, background: BackgroundWork) -> None:
        video_id = api.create()["videoId"]
        background.arrive(video_id)
        assert background.states(video_id) == {"probe": "queued"}
        assert api.get(f"/v1/videos/{video_id}").json["status"] == "processing"
        message = background.message("probe", "probe")
        assert (message.videoId, message.attempt, message.input.source) == (
            video_id,
            1,
            f"s3://sources/{video_id}/0001",
        )

    def test_probed_video_queues_thumbnail_jobs_and_one_message_per_rendition(
        self, api: Api, background: BackgroundWork
    ) -> None:
        video_id = background.uploaded_film(api)
        assert background.states(video_id) == ALL_QUEUED
        assert [body["kind"] for body in background.queues["thumbnails"].take()] == ["poster", "storyboard"]
        messages = background.queues["transcode"].take()
        assert [body["input"]["rendition"]["name"] for body in messages] == ["360p", "240p"]
        for body in messages:
            name = body["input"]["rendition"]["name"]
            assert body["report"] == f"/v1/videos/{video_id}/renditions/{name}"
            assert body["output"] == f"s3://media/renditions/{video_id}/{body['inputHash']}/{name}.mp4"

    def test_video_is_ready_with_its_last_rendition(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        assert _finish(background, background.message("transcode", "transcode.360p").job_attempt, "360p")
        assert _item(background.table, video_id)["status"] == "processing"
        assert _finish(background, background.message("transcode", "transcode.240p").job_attempt, "240p")
        document = api.get(f"/v1/videos/{video_id}").json
        assert document["status"] == "ready"
        assert document["resolutions"] == {"240p": "s3://media/240p.mp4", "360p": "s3://media/360p.mp4"}

    def test_change_of_the_title_creates_no_jobs(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        before = background.jobs.list_for_video(video_id)
        api.patch(f"/v1/videos/{video_id}", {"title": "new"})
        background.settle()
        assert background.jobs.list_for_video(video_id) == before

    def test_new_source_file_replaces_all_jobs_and_their_results(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        _finish(background, background.message("transcode", "transcode.360p").job_attempt)
        background.arrive(video_id, upload="0002", etag="e2")
        assert background.states(video_id) == {"probe": "queued"}
        background.probe(video_id, {"240p": RENDITIONS["240p"]})
        assert background.states(video_id) == {
            "probe": "done",
            "poster": "queued",
            "storyboard": "queued",
            "transcode.240p": "queued",
        }
        assert api.get(f"/v1/videos/{video_id}").json["resolutions"] == {}

    def test_older_upload_that_arrives_late_is_ignored(self, api: Api, background: BackgroundWork) -> None:
        video_id = api.create()["videoId"]
        background.arrive(video_id, upload="0002")
        version = _item(background.table, video_id)["version"]
        background.arrive(video_id, upload="0001")
        background.arrive(video_id, upload="0002")
        assert _item(background.table, video_id)["version"] == version

    def test_removed_video_queues_a_purge(self, background: BackgroundWork) -> None:
        deleted = {**VIDEO.key(videoId="v"), "videoId": "v", "status": "deleted"}
        background.replay(stream_record(deleted, None))
        assert background.queues["purge"].take() == [{"schema": "video-metadata/purge/1", "videoId": "v"}]

    def test_records_of_other_items_queue_nothing(self, background: BackgroundWork) -> None:
        counter = {"pk": "VIEWS#v#0", "sk": "COUNT", "views": 1}
        background.replay(stream_record(None, counter), stream_record(counter, None))
        assert not any(queue.sent for queue in background.queues.values())


class TestRepeatedAndReorderedRecords:
    def test_stream_records_delivered_twice_change_nothing(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        _finish(background, background.message("transcode", "transcode.360p").job_attempt)
        before = background.jobs.list_for_video(video_id)
        background.replay()
        assert background.jobs.list_for_video(video_id) == before

    def test_stream_records_delivered_in_reverse_change_nothing(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        background.arrive(video_id, upload="0002", etag="e2")
        before = background.jobs.list_for_video(video_id)
        background.replay(*reversed(background.seen_records))
        assert background.jobs.list_for_video(video_id) == before

    @pytest.mark.parametrize("seed", range(5))
    def test_stream_records_in_any_order_end_in_the_same_jobs(
        self, api: Api, background: BackgroundWork, seed: int
    ) -> None:
        video_id = background.uploaded_film(api)
        background.arrive(video_id, upload="0002", etag="e2")
        requested = {job["kind"]: job["inputHash"] for job in background.jobs.list_for_video(video_id)}
        shuffled = [*background.seen_records, *background.seen_records]
        random.Random(seed).shuffle(shuffled)
        background.replay(*shuffled)
        assert {job["kind"]: job["inputHash"] for job in background.jobs.list_for_video(video_id)} == requested

    def test_message_delivered_twice_is_claimed_once(self, api: Api, background: BackgroundWork) -> None:
        background.uploaded_film(api)
        attempt = background.message("thumbnails", "poster").job_attempt
        assert background.jobs.claim(attempt, WORKER, int(background.clock()))
        assert background.jobs.claim(attempt, WORKER, int(background.clock())) is None

    def test_message_of_an_earlier_attempt_is_not_claimed(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        attempt = background.message("thumbnails", "poster").job_attempt
        _fail(background, attempt, retry=True)
        assert background.job(video_id, "poster")["attempt"] == 2
        assert background.jobs.claim(attempt, WORKER, int(background.clock())) is None

    def test_result_for_another_source_is_dropped(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        attempt = background.message("transcode", "transcode.360p").job_attempt
        background.arrive(video_id, upload="0002", etag="e2")
        assert _finish(background, attempt) is None
        background.probe(video_id)
        assert _finish(background, attempt) is None
        assert "made" in _item(background.table, video_id)["source"]
        assert _item(background.table, video_id)["source"]["made"] == {}

    def test_result_that_overtakes_the_router_is_dropped(self, api: Api, background: BackgroundWork) -> None:
        # The source file was replaced, and the stream consumer has not updated the jobs yet.
        video_id = background.uploaded_film(api)
        attempt = background.message("transcode", "transcode.360p").job_attempt
        item = _item(background.table, video_id)
        newer = item["source"] | {"uploadId": "0002", "etag": "e2"}
        background.videos.change(
            video_id, WORKER, int(background.clock()), lambda current: video.attach_source(current, newer)
        )
        assert _finish(background, attempt) is None

    def test_result_that_is_reported_twice_is_applied_once(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        attempt = background.message("transcode", "transcode.360p").job_attempt
        assert _finish(background, attempt)
        version = _item(background.table, video_id)["version"]
        assert _finish(background, attempt) is None
        assert _item(background.table, video_id)["version"] == version

    def test_concurrent_results_are_all_stored(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        first = background.message("transcode", "transcode.360p").job_attempt
        second = background.message("transcode", "transcode.240p").job_attempt

        def complete_concurrently(item: Video) -> Video:
            # The other result is stored once, between the read and the write of this one.
            if "240p" not in item["source"]["made"]:
                _finish(background, second, "240p")
            return video.add_rendition(item, "360p", "s3://media/360p.mp4")

        assert background.jobs.complete(first, {}, WORKER, int(background.clock()), complete_concurrently)
        assert _item(background.table, video_id)["status"] == "ready"


class TestDeletion:
    def test_deleted_video_cancels_open_jobs_and_keeps_finished_ones(
        self, api: Api, background: BackgroundWork
    ) -> None:
        video_id = background.uploaded_film(api)
        attempt = background.message("transcode", "transcode.360p").job_attempt
        api.delete(f"/v1/videos/{video_id}")
        background.settle()
        assert background.states(video_id) == {"probe": "done"}
        assert _finish(background, attempt) is None

    def test_result_after_the_deletion_is_dropped_before_the_stream_consumer_sees_the_deletion(
        self, api: Api, background: BackgroundWork
    ) -> None:
        video_id = background.uploaded_film(api)
        attempt = background.message("transcode", "transcode.360p").job_attempt
        api.delete(f"/v1/videos/{video_id}")
        assert _finish(background, attempt) is None
        assert _item(background.table, video_id)["status"] == "deleted"

    def test_restored_video_continues_with_its_open_jobs(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        _finish(background, background.message("transcode", "transcode.360p").job_attempt)
        api.delete(f"/v1/videos/{video_id}")
        background.settle()
        for queue in background.queues.values():
            queue.take()
        api.post(f"/v1/videos/{video_id}/restore")
        background.settle()
        assert background.states(video_id) == ALL_QUEUED | {"transcode.360p": "done"}
        assert [body["kind"] for body in background.queues["transcode"].take()] == ["transcode.240p"]
        assert len(background.queues["thumbnails"].take()) == 2

    def test_restoring_a_video_does_not_retry_its_failed_jobs(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        _fail(background, background.message("transcode", "transcode.360p").job_attempt)
        api.delete(f"/v1/videos/{video_id}")
        background.settle()
        api.post(f"/v1/videos/{video_id}/restore")
        background.settle()
        assert background.states(video_id)["transcode.360p"] == "failed"
        assert _item(background.table, video_id)["status"] == "failed"

    @pytest.mark.slow
    def test_attempts_are_limited_across_deletions_and_restores(
        self, api: Api, background: BackgroundWork, clock: Clock
    ) -> None:
        video_id = background.uploaded_film(api)
        for begun in range(LAST_ATTEMPT):
            assert background.job(video_id, "poster")["attempt"] == begun + 1
            assert background.jobs.claim(background.message("thumbnails", "poster").job_attempt, WORKER, int(clock()))
            api.delete(f"/v1/videos/{video_id}")
            background.settle()
            api.post(f"/v1/videos/{video_id}/restore")
            background.settle()
        job = background.job(video_id, "poster")
        assert (job["state"], job["error"]["reason"]) == (
            "failed",
            "The job was started too many times without finishing.",
        )

    def test_source_that_arrives_while_the_video_is_deleted_is_processed_after_restore(
        self, api: Api, background: BackgroundWork
    ) -> None:
        video_id = api.create()["videoId"]
        api.delete(f"/v1/videos/{video_id}")
        background.arrive(video_id)
        assert _item(background.table, video_id)["status"] == "deleted"
        assert background.states(video_id) == {}
        api.post(f"/v1/videos/{video_id}/restore")
        background.settle()
        assert _item(background.table, video_id)["status"] == "processing"
        assert background.states(video_id) == {"probe": "queued"}

    def test_result_for_a_purged_video_writes_nothing(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        attempt = background.message("transcode", "transcode.360p").job_attempt
        background.table.delete(VIDEO.key(videoId=video_id))
        assert _finish(background, attempt) is None
        assert background.table.get(VIDEO.key(videoId=video_id)) is None


class TestFailure:
    def test_failed_attempt_is_retried_after_a_delay(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        _fail(background, background.message("thumbnails", "poster").job_attempt, retry=True)
        job = background.job(video_id, "poster")
        assert (job["state"], job["attempt"], job["error"]["reason"]) == ("queued", 2, "It broke.")
        assert background.message("thumbnails", "poster").attempt == 2
        assert background.queues["thumbnails"].delays[-1] == delay_before(2) > 0

    def test_job_fails_with_its_reason_after_the_last_attempt(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        for _ in range(LAST_ATTEMPT):
            assert _fail(background, background.message("thumbnails", "poster").job_attempt, retry=True)
        job = background.job(video_id, "poster")
        assert (job["state"], job["attempt"], job["error"]["reason"]) == ("failed", LAST_ATTEMPT, "It broke.")
        assert _fail(background, attempt_of(job), retry=True) is None

    def test_failed_poster_does_not_fail_the_video(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        _fail(background, background.message("thumbnails", "poster").job_attempt)
        assert _item(background.table, video_id)["status"] == "processing"

    @pytest.mark.parametrize(("queue", "kind"), [("probe", "probe"), ("transcode", "transcode.360p")])
    def test_video_fails_with_the_reason_when_a_required_job_fails(
        self, api: Api, background: BackgroundWork, queue: str, kind: str
    ) -> None:
        video_id = api.create()["videoId"]
        background.arrive(video_id)
        if kind != "probe":
            background.probe(video_id)
        _fail(background, background.message(queue, kind).job_attempt)
        document = api.get(f"/v1/videos/{video_id}").json
        assert document["status"] == "failed"
        assert document["failure"] == {"job": kind, "reason": "It broke.", "at": int(background.clock())}

    def test_retry_delays_grow_to_a_maximum(self) -> None:
        waits = [delay_before(attempt) for attempt in range(1, 20)]
        assert waits[:4] == [0, 15, 30, 60]
        assert max(waits) == 900  # the maximum delay of SQS


class TestSweeper:
    def test_job_of_a_crashed_worker_is_requeued_after_its_lease(
        self, api: Api, background: BackgroundWork, clock: Clock
    ) -> None:
        video_id = background.uploaded_film(api)
        attempt = background.message("thumbnails", "poster").job_attempt
        assert background.jobs.claim(attempt, WORKER, int(clock()))
        clock.advance(kind_of("poster").lease)
        assert not any(background.sweep().values())
        clock.advance(1)
        assert background.sweep()["requeued"] == 1
        second_attempt = background.message("thumbnails", "poster").job_attempt
        assert second_attempt.number == 2
        assert background.jobs.claim(second_attempt, WORKER, int(clock()))
        assert background.job(video_id, "poster")["error"]["reason"] == "The worker did not finish in time, or stopped."

    def test_unknown_job_kind_does_not_block_other_jobs(
        self, table: Table, api: Api, background: BackgroundWork, clock: Clock
    ) -> None:
        for _ in range(2):
            background.uploaded_film(api)
            assert background.jobs.claim(background.message("thumbnails", "poster").job_attempt, WORKER, int(clock()))
        videos = [key["pk"] for key in background.jobs.list_pending("running")]
        newer = Expression.of("SET #schemaVersion = :schemaVersion", schemaVersion=SCHEMA_VERSION + 1)
        table.write(table.update({"pk": videos[0], "sk": "JOB#poster"}, newer))
        table.write(table.update({"pk": videos[0], "sk": VIDEO.sk}, newer))
        clock.advance(kind_of("poster").lease + 1)
        assert background.sweeper({}, Context())["requeued"] == 1

    def test_worker_past_its_lease_may_still_finish_first(
        self, api: Api, background: BackgroundWork, clock: Clock
    ) -> None:
        background.uploaded_film(api)
        attempt = background.message("transcode", "transcode.360p").job_attempt
        background.jobs.claim(attempt, WORKER, int(clock()))
        clock.advance(kind_of("transcode").lease + 1)
        background.sweep()
        assert _finish(background, attempt)
        assert (
            background.jobs.claim(background.message("transcode", "transcode.360p").job_attempt, WORKER, int(clock()))
            is None
        )

    def test_worker_that_reports_progress_keeps_its_lease(
        self, api: Api, background: BackgroundWork, clock: Clock
    ) -> None:
        video_id = background.uploaded_film(api)
        attempt = background.message("transcode", "transcode.360p").job_attempt
        background.jobs.claim(attempt, WORKER, int(clock()))
        for progress in (20, 40, 60):
            clock.advance(kind_of("transcode").lease)
            assert background.jobs.advance(attempt, progress, WORKER, int(clock()))
            background.sweep()
        assert background.job(video_id, "transcode.360p")["attempt"] == 1

    def test_sweeper_resends_a_lost_message(self, api: Api, background: BackgroundWork, clock: Clock) -> None:
        background.uploaded_film(api)
        background.queues["thumbnails"].take()
        clock.advance(kind_of("poster").patience + 1)
        assert background.sweep()["resent"] == 2
        # No worker has claimed the jobs, so these messages are still for the first attempt.
        assert [body["attempt"] for body in background.queues["thumbnails"].take()] == [1, 1]

    def test_backlog_costs_no_attempts_and_is_resent_at_growing_intervals(
        self, api: Api, background: BackgroundWork, clock: Clock
    ) -> None:
        video_id = background.uploaded_film(api)
        sent = []
        for _ in range(8):
            background.queues["thumbnails"].take()
            clock.advance(2 * kind_of("poster").patience)
            background.sweep()
            sent.append(len(background.queues["thumbnails"].take()))
        assert sent == [2, 0, 2, 0, 0, 2, 0, 0]
        assert background.job(video_id, "poster")["attempt"] == 1

    def test_unclaimed_job_fails_after_a_day(self, api: Api, background: BackgroundWork, clock: Clock) -> None:
        video_id = api.create()["videoId"]
        background.arrive(video_id)
        clock.advance(kind_of("probe").longest_wait)
        assert background.sweep()["failed"] == 1
        assert api.get(f"/v1/videos/{video_id}").json["failure"]["reason"] == "No worker took the job within 24 hours."

    def test_job_that_crashes_every_worker_fails_after_the_last_attempt(
        self, api: Api, background: BackgroundWork, clock: Clock
    ) -> None:
        video_id = background.uploaded_film(api)
        for _ in range(LAST_ATTEMPT):
            assert background.jobs.claim(
                background.message("transcode", "transcode.360p").job_attempt, WORKER, int(clock())
            )
            clock.advance(kind_of("transcode").lease + 1)
            background.sweep()
        assert background.job(video_id, "transcode.360p")["state"] == "failed"
        assert _item(background.table, video_id)["failure"]["job"] == "transcode.360p"
        clock.advance(10**6)
        assert "failed" not in {background.job(video_id, "probe")["state"]}

    def test_finished_and_failed_jobs_are_skipped(self, api: Api, background: BackgroundWork, clock: Clock) -> None:
        video_id = background.uploaded_film(api)
        for kind in ("poster", "storyboard"):
            _fail(background, background.message("thumbnails", kind).job_attempt)
        for name in RENDITIONS:
            _finish(background, background.message("transcode", f"transcode.{name}").job_attempt, name)
        before = background.states(video_id)
        clock.advance(10**6)
        assert not any(background.sweep().values())
        assert background.states(video_id) == before

    def test_sweeper_stops_before_its_deadline(
        self, api: Api, background: BackgroundWork, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        background.uploaded_film(api)
        clock.advance(10**6)
        # Three checks of the remaining time: for scheduled items, for due items, and for the first job.
        remaining_times = itertools.chain([60_000] * 3, itertools.repeat(9_000))
        monkeypatch.setattr(
            "local.testbed.harness.Context.get_remaining_time_in_millis", lambda _: next(remaining_times)
        )
        assert background.sweep()["failed"] == 1

    @pytest.mark.parametrize("error", [Unavailable(), KeyError("a kind of a later release")], ids=repr)
    def test_sweeper_skips_a_job_that_raises(
        self, api: Api, background: BackgroundWork, clock: Clock, monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        background.uploaded_film(api)
        clock.advance(10**6)
        fail = JobStore.fail

        def fail_unless_poster(store: JobStore, attempt: JobAttempt, *args: Any, **more: Any) -> Job | None:
            if attempt.kind == "poster":
                raise error
            return fail(store, attempt, *args, **more)

        monkeypatch.setattr(JobStore, "fail", fail_unless_poster)
        assert {name: count for name, count in background.sweep().items() if count} == {"failed": 3, "skipped": 1}

    def test_sweeper_finds_videos_with_a_lost_stream_record_every_hour(
        self, api: Api, background: BackgroundWork, clock: Clock
    ) -> None:
        video_id = api.create()["videoId"]
        background.videos.change(video_id, WORKER, int(clock()), lambda item: video.attach_source(item, SOURCE))
        background.records()  # the stream consumer never receives these records
        clock.now = clock.now // 3600 * 3600 + 3540
        assert background.sweep()["recovered"] == 0
        clock.advance(60)
        assert background.sweep()["recovered"] == 1
        assert background.states(video_id) == {"probe": "queued"}


class TestRetry:
    def _failed(self, api: Api, background: BackgroundWork, kind: str = "transcode.360p") -> str:
        video_id = background.uploaded_film(api)
        _fail(background, background.message(kind_of(kind).queue, kind).job_attempt)
        return video_id

    def _retry(self, background: BackgroundWork, video_id: str, kind: str, caller: Caller = OWNER) -> list[str]:
        charged: list[str] = []
        background.jobs.retry(video_id, kind, caller, int(background.clock()), charged.append)
        background.settle()
        return charged

    def test_retry_queues_a_failed_job_with_new_attempts_and_the_video_continues(
        self, api: Api, background: BackgroundWork
    ) -> None:
        video_id = self._failed(api, background)
        assert self._retry(background, video_id, "transcode.360p") == ["alice"]
        document = api.get(f"/v1/videos/{video_id}").json
        assert (document["status"], "failure" in document) == ("processing", False)
        job = background.job(video_id, "transcode.360p")
        # The attempt has a new number, so a late report on the first attempt does not apply to it.
        assert (job["state"], job["attempt"], attempt_number(job), "error" in job) == ("queued", 2, 1, False)
        assert _fail(background, JobAttempt(video_id, "transcode.360p", job["inputHash"], 1)) is None
        for name in RENDITIONS:
            assert _finish(background, background.message("transcode", f"transcode.{name}").job_attempt, name)
        assert _item(background.table, video_id)["status"] == "ready"

    def test_repeated_retry_of_a_queued_job_has_no_effect_or_cost(self, api: Api, background: BackgroundWork) -> None:
        video_id = self._failed(api, background)
        self._retry(background, video_id, "transcode.360p")
        sent = len(background.queues["transcode"].sent)
        assert self._retry(background, video_id, "transcode.360p") == []
        assert len(background.queues["transcode"].sent) == sent

    def test_two_failed_jobs_are_retried_one_after_the_other(self, api: Api, background: BackgroundWork) -> None:
        video_id = self._failed(api, background)
        _fail(background, background.message("transcode", "transcode.240p").job_attempt)
        for kind in ("transcode.360p", "transcode.240p"):
            self._retry(background, video_id, kind)
            _finish(background, background.message("transcode", kind).job_attempt, kind.partition(".")[2])
        assert _item(background.table, video_id)["status"] == "ready"

    @pytest.mark.parametrize("first", ["transcode.360p", "transcode.240p"])
    def test_failure_of_the_video_names_the_failed_job_that_was_not_retried(
        self, api: Api, background: BackgroundWork, first: str
    ) -> None:
        kinds = {"transcode.360p", "transcode.240p"}
        video_id = self._failed(api, background)
        _fail(background, background.message("transcode", "transcode.240p").job_attempt)
        self._retry(background, video_id, first)
        video_item = _item(background.table, video_id)
        assert (video_item["status"], {video_item["failure"]["job"]}) == ("failed", kinds - {first})

    def test_concurrently_refused_upload_does_not_prevent_readiness(self, api: Api, background: BackgroundWork) -> None:
        video_id = self._failed(api, background)
        background.videos.change(video_id, WORKER, 1, lambda item: video.reject_upload(item, "0002", "Too long.", 1))
        assert _item(background.table, video_id)["failure"]["job"] == "transcode.360p"
        self._retry(background, video_id, "transcode.360p")
        for name in RENDITIONS:
            _finish(background, background.message("transcode", f"transcode.{name}").job_attempt, name)
        document = api.get(f"/v1/videos/{video_id}").json
        assert (document["status"], "failure" in document) == ("ready", False)

    def test_retry_creates_a_poster_whose_stream_record_was_discarded(
        self, api: Api, background: BackgroundWork
    ) -> None:
        video_id = background.uploaded_film(api)
        done = background.message("thumbnails", "poster").job_attempt
        background.jobs.complete(done, {}, WORKER, 1, lambda item: video.apply_pictures(item, {}))
        api.post(f"/v1/videos/{video_id}/thumbnail", {"position": 2000})
        background.records()  # the stream consumer never receives these records
        assert self._retry(background, video_id, "poster") == ["alice"]
        assert background.message("thumbnails", "poster").input.time == 2000

    def test_retry_of_a_poster_does_not_write_the_video(self, api: Api, background: BackgroundWork) -> None:
        video_id = self._failed(api, background, "poster")
        version = _item(background.table, video_id)["version"]
        self._retry(background, video_id, "poster")
        assert _item(background.table, video_id)["version"] == version
        assert background.job(video_id, "poster")["state"] == "queued"

    def test_finished_job_is_not_repeated(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        with pytest.raises(IllegalTransition):
            self._retry(background, video_id, "probe")

    def test_retry_of_an_unknown_job_raises_not_found(self, api: Api, background: BackgroundWork) -> None:
        video_id = background.uploaded_film(api)
        with pytest.raises(NotFound):
            self._retry(background, video_id, "transcode.4320p")

    def test_retry_queues_a_job_that_was_never_queued(self, api: Api, background: BackgroundWork) -> None:
        video_id = api.create()["videoId"]
        background.videos.change(video_id, WORKER, 1, lambda item: video.attach_source(item, SOURCE))
        background.records()  # the stream consumer never receives these records
        assert self._retry(background, video_id, "probe") == ["alice"]
        assert background.message("probe", "probe").attempt == 1


class TestUserFields:
    def test_probe_fills_only_fields_that_no_user_wrote(self, api: Api, background: BackgroundWork) -> None:
        video_id = api.create(duration=1, format="theirs")["videoId"]
        api.patch(f"/v1/videos/{video_id}", {"format": None})
        background.arrive(video_id)
        background.probe(video_id)
        document = api.get(f"/v1/videos/{video_id}").json
        assert (document["duration"], document["format"], document["resolution"]) == (1, "mp4", "640x360")
        assert document["origins"] == {"duration": "person", "format": "job", "resolution": "job"}

    def test_job_may_overwrite_fields_of_jobs_and_imports(self, api: Api, background: BackgroundWork) -> None:
        video_id = api.create("admin", userId="alice", duration=1)["videoId"]
        assert api.get(f"/v1/videos/{video_id}").json["origins"] == {"duration": "import"}
        for upload, duration in (("0001", 2), ("0002", 3)):
            background.arrive(video_id, upload=upload)
            background.probe(video_id, duration=duration)
            assert api.get(f"/v1/videos/{video_id}").json["duration"] == duration

    def test_field_probed_only_in_the_earlier_file_is_removed(self, api: Api, background: BackgroundWork) -> None:
        video_id = api.create(title="t")["videoId"]
        uploads: tuple[tuple[str, Item], ...] = (("0001", {"audioCodec": "aac"}), ("0002", {}))
        for upload, sound in uploads:
            background.arrive(video_id, upload=upload)
            background.probe(video_id, **sound)
        document = api.get(f"/v1/videos/{video_id}").json
        assert ("audioCodec" in document, "audioCodec" in document["origins"]) == (False, False)

    def test_field_written_by_a_user_is_kept_when_a_new_source_is_probed(
        self, api: Api, background: BackgroundWork
    ) -> None:
        video_id = background.uploaded_film(api)
        api.patch(f"/v1/videos/{video_id}", {"duration": 7})
        background.arrive(video_id, upload="0002")
        background.probe(video_id)
        document = api.get(f"/v1/videos/{video_id}").json
        assert (document["duration"], document["origins"]["duration"]) == (7, "person")

    def test_field_without_an_origin_counts_as_written_by_a_person(
        self, api: Api, background: BackgroundWork, table: Table
    ) -> None:
        video_id = api.create(duration=1)["videoId"]
        table.client.update_item(
            TableName=table.name,
            Key={name: {"S": value} for name, value in VIDEO.key(videoId=video_id).items()},
            UpdateExpression="REMOVE origins",
        )
        background.arrive(video_id)
        background.probe(video_id)
        assert api.get(f"/v1/videos/{video_id}").json["duration"] == 1

    def test_thumbnails_and_renditions_of_a_person_override_those_of_jobs(
        self, api: Api, background: BackgroundWork
    ) -> None:
        mine = {"poster": {"url": "https://mine/poster.jpg"}}
        video_id = api.create(thumbnails=mine, resolutions={"360p": "s3://mine/360p.mp4"})["videoId"]
        background.arrive(video_id)
        background.probe(video_id)
        _finish(background, background.message("transcode", "transcode.360p").job_attempt)
        job_pictures = {
            "poster": {"url": "s3://media/thumbnails/x.jpg"},
            "other": {"url": "s3://media/thumbnails/o.jpg"},
        }
        background.jobs.complete(
            background.message("thumbnails", "poster").job_attempt,
            {},
            WORKER,
            int(background.clock()),
            lambda item: video.apply_pictures(item, job_pictures),
        )
        document = api.get(f"/v1/videos/{video_id}").json
        assert document["thumbnails"] == mine | {"other": {"url": "https://pictures.example/thumbnails/o.jpg"}}
        assert document["resolutions"] == {"360p": "s3://mine/360p.mp4"}


class TestCrashes:
    """Faults of each DynamoDB call in turn: the request or its response is lost."""

    def _fail_call(self, table: Table, monkeypatch: pytest.MonkeyPatch, at: int, *, applied: bool) -> list[int]:
        count = [0]
        for name in ("get_item", "put_item", "update_item", "transact_write_items"):
            real = getattr(table.client, name)

            def broken(_real: Any = real, **parameters: Any) -> Any:
                count[0] += 1
                if count[0] == at + 1:
                    if applied:
                        _real(**parameters)
                    raise ConnectionError
                return _real(**parameters)

            monkeypatch.setattr(table.client, name, broken)
        return count

    @pytest.mark.parametrize("applied", [False, True], ids=["lost", "applied"])
    @pytest.mark.parametrize("at", range(6))
    def test_redelivery_after_a_fault_creates_the_same_jobs(
        self,
        api: Api,
        background: BackgroundWork,
        table: Table,
        monkeypatch: pytest.MonkeyPatch,
        at: int,
        applied: bool,
    ) -> None:
        video_id = api.create()["videoId"]
        background.videos.change(video_id, WORKER, 1, lambda item: video.attach_source(item, SOURCE))
        records = background.records()
        with monkeypatch.context() as patch:
            self._fail_call(table, patch, at, applied=applied)
            for record in records:
                background.router({"Records": [record]}, Context())
        background.replay(*records)
        assert background.states(video_id) == {"probe": "queued"}
        assert {body["attempt"] for body in background.queues["probe"].take()} == {1}
