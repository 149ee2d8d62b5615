"""Functions that probe videos and create thumbnails, with moto's S3 and the table. PyAV creates the test videos."""

import io
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError
from PIL import Image

from local.testbed.background import BackgroundWork
from local.testbed.harness import MEDIA_BUCKET, SOURCES_BUCKET, Api, Clock, Context
from local.testbed.streams import sqs_event
from local.testbed.video_files import film, make_with_sample_count
from shared.aws.dynamodb import Table
from shared.aws.s3 import Objects
from shared.core.errors import Unavailable
from shared.job_kinds import kind_of
from shared.media import errors
from shared.media.sandbox import Sandbox
from shared.processing.job_states import LAST_ATTEMPT
from tests.workers import ProcessingWorkers


@pytest.fixture
def workers(api: Api, table: Table, clock: Clock, objects: Objects) -> ProcessingWorkers:
    """Return the functions with empty stores."""
    return ProcessingWorkers(api, BackgroundWork(table, clock), objects)


class TestProbe:
    def test_probe_fills_in_the_properties_of_the_file(self, workers: ProcessingWorkers) -> None:
        data = film(2, (320, 180), audio=True)
        video_id = workers.upload(data)
        workers.deliver("probe")
        document = workers.document(video_id)
        assert {name: document[name] for name in ("format", "resolution", "videoCodec", "audioCodec", "fileSize")} == {
            "format": "mp4",
            "resolution": "320x180",
            "videoCodec": "h264",
            "audioCodec": "aac",
            "fileSize": len(data),
        }
        assert abs(document["duration"] - 2000) < 100
        assert set(document["origins"].values()) == {"job"}

    def test_probe_requests_renditions_no_larger_than_the_source(self, workers: ProcessingWorkers) -> None:
        workers.upload(film(1, (426, 240)))
        workers.deliver("probe")
        (message,) = workers.background.queues["transcode"].take()
        assert message["input"]["rendition"] == {"name": "240p", "width": 426, "height": 240}

    @pytest.mark.parametrize(
        ("data", "word"),
        [(b"", "empty"), (b"This is not a video. " * 100, "not a video"), (film(2)[:2000], "missing")],
        ids=["empty", "text", "truncated"],
    )
    def test_unreadable_file_fails_the_video_with_a_reason(
        self, workers: ProcessingWorkers, data: bytes, word: str
    ) -> None:
        video_id = workers.upload(data)
        workers.work()
        document = workers.document(video_id)
        assert document["status"] == "failed"
        assert word in document["failure"]["reason"]
        assert workers.background.states(video_id) == {"probe": "failed"}

    def test_why_not_ready_suggests_another_upload_for_an_unreadable_file(self, workers: ProcessingWorkers) -> None:
        video_id = workers.upload(b"no film")
        workers.work()
        explanation = workers.api.get(f"/v1/videos/{video_id}/why-not-ready").json
        assert (
            explanation["reason"] == f"Probing failed: {errors.NOT_A_VIDEO} Upload a different file by POST .../upload."
        )
        assert explanation["blocker"]["error"]["final"] is True

    @pytest.mark.slow
    def test_video_with_too_many_frames_fails_after_one_attempt_and_the_next_is_probed(
        self, workers: ProcessingWorkers
    ) -> None:
        video_id = workers.upload(make_with_sample_count(80_000_000))
        workers.work()
        job = workers.background.job(video_id, "probe")
        assert (job["state"], job["attempt"], job["error"]["reason"]) == ("failed", 1, errors.TOO_MANY_FRAMES)
        assert workers.document(video_id)["failure"]["reason"] == errors.TOO_MANY_FRAMES
        other = workers.upload(film(1))
        workers.work()
        assert workers.background.states(other)["probe"] == "done"

    def test_video_that_takes_too_long_fails_after_one_attempt(
        self, workers: ProcessingWorkers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        times = itertools.chain([0.0], itertools.repeat(1000.0))
        impatient = Sandbox(clock=lambda: next(times))
        monkeypatch.setattr(Sandbox, "within", lambda _: impatient)
        workers.restart()
        video_id = workers.upload(film(1))
        workers.work()
        job = workers.background.job(video_id, "probe")
        assert (job["state"], job["attempt"], job["error"]["reason"]) == ("failed", 1, errors.TOO_SLOW)
        assert "final" not in job["error"]  # a retry is allowed, because storage may have been slow

    def test_failed_probe_removes_the_properties_of_an_earlier_file(self, workers: ProcessingWorkers) -> None:
        video_id = workers.upload(film(1))
        workers.work()
        workers.upload(b"no film", video_id, "0002")
        workers.work()
        document = workers.document(video_id)
        assert (document["status"], document["origins"]) == ("failed", {})
        assert {"duration", "format", "resolution", "videoCodec"} & document.keys() == set()

    @pytest.mark.slow
    def test_new_upload_repairs_a_failed_video(self, workers: ProcessingWorkers) -> None:
        video_id = workers.upload(b"no film")
        workers.work()
        workers.upload(film(1), video_id, "0002")
        workers.work()
        document = workers.document(video_id)
        assert (document["status"], "failure" in document) == ("processing", False)


class TestThumbnails:
    def test_posters_and_storyboard_are_readable_images(self, workers: ProcessingWorkers) -> None:
        video_id = workers.upload(film(3, (640, 360)))
        workers.work()
        pictures = workers.document(video_id)["thumbnails"]
        assert set(pictures) == {
            *("poster", "poster-320.jpg", "poster-320.webp", "poster-640.jpg", "poster-640.webp"),
            *("storyboard.jpg", "storyboard.vtt"),
        }
        for name, entry in pictures.items():
            data = workers.picture(entry["url"])
            assert len(data) == entry["fileSize"]
            if not name.endswith(".vtt"):
                assert Image.open(io.BytesIO(data)).size == (entry["width"], entry["height"])
        assert pictures["poster"]["width"] == 640
        assert pictures["poster"]["time"] <= 3000
        assert workers.picture(pictures["storyboard.vtt"]["url"]).startswith(b"WEBVTT")

    def test_storyboard_job_proposes_chapters_at_scene_changes(self, workers: ProcessingWorkers) -> None:
        video_id = workers.upload(
            film(8, (96, 64), paint=lambda number, size: Image.new("RGB", size, "red" if number < 40 else "blue"))
        )
        workers.work()
        assert workers.background.job(video_id, "storyboard")["output"] == {
            "pictures": ["storyboard.jpg", "storyboard.vtt"],
            "chapters": [{"start": 0}, {"start": 4000}],
        }
        proposed = workers.api.get(f"/v1/videos/{video_id}/chapters").json["proposed"]
        assert proposed == [{"start": 0}, {"start": 4000}]

    def test_list_has_the_public_poster_url(self, workers: ProcessingWorkers) -> None:
        video_id = workers.upload(film(1))
        workers.work()
        (listed,) = workers.api.get("/v1/videos", query="userId=alice").json["items"]
        assert listed["poster"] == workers.document(video_id)["thumbnails"]["poster"]["url"]
        assert listed["poster"].startswith("https://pictures.example/thumbnails/")

    def test_thumbnails_are_immutable_for_caches(self, workers: ProcessingWorkers) -> None:
        video_id = workers.upload(film(1))
        workers.work()
        prefix = f"thumbnails/{video_id}/"
        for stored in workers.objects.client.list_objects_v2(Bucket=MEDIA_BUCKET, Prefix=prefix)["Contents"]:
            head = workers.objects.client.head_object(Bucket=MEDIA_BUCKET, Key=stored["Key"])
            assert "immutable" in head["CacheControl"]

    def test_chosen_position_changes_the_poster_and_not_the_storyboard(self, workers: ProcessingWorkers) -> None:
        video_id = workers.upload(film(3))
        workers.work()
        before = workers.document(video_id)["thumbnails"]
        workers.api.post(f"/v1/videos/{video_id}/thumbnail", {"position": 2000})
        workers.background.settle()
        workers.work()
        after = workers.document(video_id)["thumbnails"]
        assert (before["poster"]["url"] != after["poster"]["url"], after["poster"]["time"]) == (True, 2000)
        assert before["storyboard.jpg"] == after["storyboard.jpg"]


class TestThumbnailPatches:
    def test_patch_with_the_values_read_changes_nothing(self, workers: ProcessingWorkers) -> None:
        video_id = workers.upload(film(1))
        workers.work()
        document = workers.document(video_id)
        same = {"thumbnails": document["thumbnails"], "resolutions": document["resolutions"]}
        reply = workers.api.patch(f"/v1/videos/{video_id}", same)
        assert (reply.status, reply.json["version"]) == (200, document["version"])

    def test_null_removes_a_thumbnail(self, workers: ProcessingWorkers) -> None:
        video_id = workers.upload(film(1))
        workers.work()
        reply = workers.api.patch(f"/v1/videos/{video_id}", {"thumbnails": {"poster": None}})
        assert (reply.status, "poster" in reply.json["thumbnails"]) == (200, False)
        assert "storyboard.jpg" in reply.json["thumbnails"]
        assert "poster" not in workers.api.get("/v1/videos", query="userId=alice").json["items"][0]

    def test_removed_thumbnails_are_created_again_by_a_retry(self, workers: ProcessingWorkers) -> None:
        video_id = workers.upload(film(1))
        workers.work()
        path = f"/v1/videos/{video_id}"
        before = workers.document(video_id)["thumbnails"]
        assert workers.api.patch(path, {"thumbnails": None}).json["thumbnails"] == {}
        for kind in ("poster", "storyboard"):
            assert workers.api.post(f"{path}/jobs/{kind}/retry").status == 202
        workers.background.settle()
        workers.work()
        assert workers.document(video_id)["thumbnails"] == before
        assert workers.api.post(f"{path}/jobs/poster/retry").status == 409

    def test_single_property_of_a_thumbnail_can_be_changed(self, workers: ProcessingWorkers) -> None:
        video_id = workers.upload(film(1))
        workers.work()
        before = workers.document(video_id)["thumbnails"]["poster"]
        reply = workers.api.patch(f"/v1/videos/{video_id}", {"thumbnails": {"poster": {"time": 5}}})
        assert reply.json["thumbnails"]["poster"] == before | {"time": 5}

    def test_rendition_can_be_replaced_and_not_removed(self, workers: ProcessingWorkers) -> None:
        video_id = workers.upload(film(1))
        workers.work()
        message = workers.background.message("transcode", "transcode.240p")
        body = {"inputHash": message.inputHash, "attempt": 1, "state": "done", "uri": message.output}
        path = f"/v1/videos/{video_id}"
        assert workers.api.request("PUT", f"{path}/renditions/240p", json_body=body, user="admin").status == 200
        for patch in ({"resolutions": {"240p": None}}, {"resolutions": None}):
            reply = workers.api.patch(path, patch)
            assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, "/resolutions/240p")
        mine = {"240p": "s3://mine/240p.mp4"}
        assert workers.api.patch(path, {"resolutions": mine}).json["resolutions"] == mine


class TestRepeats:
    def test_messages_delivered_twice_and_in_reverse_are_done_once(self, workers: ProcessingWorkers) -> None:
        video_id = workers.upload(film(1))
        for queue in workers.handlers:
            bodies = workers.background.queues[queue].take()
            assert workers.deliver(queue, *bodies, *reversed(bodies)) == {"batchItemFailures": []}
        assert {job["attempt"] for job in workers.background.jobs.list_for_video(video_id)} == {1}

    def test_poison_message_does_not_block_other_messages(self, workers: ProcessingWorkers) -> None:
        video_id = workers.upload(film(1))
        (good,) = workers.background.queues["probe"].take()
        explanation = workers.deliver("probe", {"schema": "something else"}, good, {"schema": good["schema"]})
        assert explanation == {"batchItemFailures": [{"itemIdentifier": "m0"}, {"itemIdentifier": "m2"}]}
        assert workers.background.states(video_id)["probe"] == "done"

    def test_job_of_a_replaced_source_is_dropped_and_the_new_source_is_probed(self, workers: ProcessingWorkers) -> None:
        video_id = workers.upload(film(1))
        (old,) = workers.background.queues["probe"].take()
        workers.upload(film(2), video_id, "0002")
        workers.deliver("probe", old)
        workers.deliver("probe")
        assert workers.document(video_id)["source"]["uploadId"] == "0002"
        assert abs(workers.document(video_id)["duration"] - 2000) < 100

    def test_video_deleted_during_its_probe_is_unchanged(
        self, workers: ProcessingWorkers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        video_id = workers.upload(film(1))
        read = workers.objects.read

        def delete_then_read(*args: Any) -> bytes:
            workers.api.delete(f"/v1/videos/{video_id}")
            return read(*args)

        monkeypatch.setattr(workers.objects, "read", delete_then_read)
        workers.deliver("probe")
        document = workers.document(video_id)
        assert (document["status"], "duration" in document) == ("deleted", False)
        assert workers.background.states(video_id) == {}


class TestFaults:
    def test_job_of_a_killed_worker_is_claimed_by_another_worker(
        self, workers: ProcessingWorkers, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        video_id = workers.upload(film(1))
        with monkeypatch.context() as patch:
            patch.setattr(workers.objects, "read", _raise(SystemExit))
            (body,) = workers.background.queues["probe"].take()
            with pytest.raises(SystemExit):
                workers.deliver("probe", body)
        assert workers.background.states(video_id) == {"probe": "running"}
        # SQS delivers the message again, but the killed worker still has the lease of the job.
        workers.deliver("probe", body)
        clock.advance(kind_of("probe").lease + 1)
        workers.background.sweep()
        workers.deliver("probe")
        assert workers.background.states(video_id)["probe"] == "done"

    @pytest.mark.parametrize(
        "failure",
        [
            Unavailable(),
            EndpointConnectionError(endpoint_url="s3"),
            ClientError({"Error": {"Code": "SlowDown", "Message": "secret"}}, "GetObject"),
            ZeroDivisionError(),
        ],
        ids=repr,
    )
    def test_s3_failure_is_retried_without_internal_details(
        self, workers: ProcessingWorkers, monkeypatch: pytest.MonkeyPatch, failure: Exception
    ) -> None:
        video_id = workers.upload(film(1))
        with monkeypatch.context() as patch:
            patch.setattr(workers.objects, "read", _raise(failure))
            assert workers.deliver("probe") == {"batchItemFailures": []}
        job = workers.background.job(video_id, "probe")
        assert (job["state"], job["attempt"]) == ("queued", 2)
        assert job["error"]["reason"] == "The worker failed. The log of the service has the error."
        workers.deliver("probe")
        assert workers.background.states(video_id)["probe"] == "done"

    @pytest.mark.slow
    def test_permanent_fault_fails_the_job(self, workers: ProcessingWorkers, monkeypatch: pytest.MonkeyPatch) -> None:
        video_id = workers.upload(film(1))
        monkeypatch.setattr(workers.objects, "read", _raise(Unavailable()))
        for _ in range(LAST_ATTEMPT):
            workers.deliver("probe")
        assert workers.background.queues["probe"].take() == []
        assert workers.document(video_id)["failure"]["job"] == "probe"

    def test_deleted_source_fails_the_job_immediately(self, workers: ProcessingWorkers) -> None:
        video_id = workers.upload(film(1))
        workers.objects.delete_prefix(SOURCES_BUCKET, f"{video_id}/")
        workers.deliver("probe")
        assert workers.document(video_id)["failure"]["reason"] == "The uploaded file was deleted."

    def test_thumbnail_that_cannot_be_stored_is_created_again(
        self, workers: ProcessingWorkers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        video_id = workers.upload(film(1))
        workers.deliver("probe")
        put = workers.objects.put
        with monkeypatch.context() as patch:
            calls = iter(range(100))

            def third_fails(*args: Any, **options: Any) -> None:
                if next(calls) == 2:
                    raise Unavailable
                put(*args, **options)

            patch.setattr(workers.objects, "put", third_fails)
            workers.deliver("thumbnails")
        pictures = ("poster", "storyboard")
        assert sorted(workers.background.states(video_id)[kind] for kind in pictures) == ["done", "queued"]
        workers.deliver("thumbnails")
        assert {workers.background.states(video_id)[kind] for kind in pictures} == {"done"}

    @pytest.mark.slow
    @pytest.mark.parametrize("queue", ["probe", "thumbnails"])
    def test_lost_response_of_dynamodb_costs_no_attempt(
        self, workers: ProcessingWorkers, monkeypatch: pytest.MonkeyPatch, queue: str
    ) -> None:
        for at in range(4):
            video_id = workers.upload(film(1))
            if queue == "thumbnails":
                workers.deliver("probe")
            with monkeypatch.context() as patch:
                timeout = ReadTimeoutError(endpoint_url="dynamodb")
                _break_call(patch, workers.background.table, at, applied=True, error=timeout)
                workers.deliver(queue)
            kinds = ("probe",) if queue == "probe" else ("poster", "storyboard")
            jobs = [workers.background.job(video_id, kind) for kind in kinds]
            assert [(job["state"], job["attempt"]) for job in jobs] == [("done", 1)] * len(kinds), at
            for emptied in workers.background.queues.values():
                emptied.take()

    @pytest.mark.slow
    @pytest.mark.parametrize("queue", ["probe", "thumbnails"])
    @pytest.mark.parametrize("applied", [False, True], ids=["lost", "applied"])
    def test_job_completes_after_dynamodb_fails_at_any_call(
        self, workers: ProcessingWorkers, clock: Clock, monkeypatch: pytest.MonkeyPatch, queue: str, applied: bool
    ) -> None:
        for at in range(4):
            video_id = workers.upload(film(1))
            if queue == "thumbnails":
                workers.deliver("probe")
            bodies = workers.background.queues[queue].take()
            with monkeypatch.context() as patch:
                _break_call(patch, workers.background.table, at, applied=applied)
                explanation = workers.handlers[queue](sqs_event(*bodies), Context())
            workers.background.settle()
            # SQS delivers failed messages again.
            for failed in explanation["batchItemFailures"]:
                workers.deliver(queue, bodies[int(failed["itemIdentifier"][1:])])
            for _ in range(2):
                clock.advance(kind_of("poster").lease + 1)
                workers.background.sweep()
                workers.work()
            states = workers.background.states(video_id)
            assert {states[kind] for kind in ("probe", "poster", "storyboard")} == {"done"}, at
            for emptied in workers.background.queues.values():
                emptied.take()


def _raise(failure: BaseException | type[BaseException]) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise failure

    return fail


REFUSED = ClientError({"Error": {"Code": "AccessDenied", "Message": "secret"}}, "Any")
"""Error that a retry cannot fix."""


def _break_call(patch: pytest.MonkeyPatch, table: Table, at: int, *, applied: bool, error: Exception = REFUSED) -> None:
    """Make call number `at` fail, before or after DynamoDB applies it. All other calls succeed."""
    count = 0
    for name in ("get_item", "update_item", "transact_write_items"):
        real = getattr(table.client, name)

        def broken(_real: Any = real, **parameters: Any) -> Any:
            nonlocal count
            count += 1
            if count == at + 1:
                if applied:
                    _real(**parameters)
                raise error
            return _real(**parameters)

        patch.setattr(table.client, name, broken)
