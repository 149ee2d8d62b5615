"""The transcoder of `make run`. The service's handlers run in process, and moto has the queue and the buckets."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import httpx
import pytest

from local import ROOT, transcoder
from local.aws import Aws
from local.issuer import TokenSigner
from local.testbed.background import BackgroundWork
from local.testbed.harness import MEDIA_BUCKET, SOURCES_BUCKET, Api, Clock
from local.testbed.video_files import clip, film
from local.transcoder import (
    BEAT_SECONDS,
    LONGEST_SECONDS,
    ReportFailed,
    Reports,
    Transcoder,
    TranscoderSettings,
    TranscoderStopped,
    TranscodeWorker,
)
from shared.aws.s3 import Objects
from shared.media import errors
from shared.media.transcode import transcode
from shared.processing.job_states import LAST_ATTEMPT
from shared.processing.messages import JobMessage
from tests.polling import LIMIT

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

RENDITION = {"160p": {"width": 284, "height": 160}}
KIND = "transcode.160p"


class Laptop:
    """One transcoder worker, with the service and the queue that it uses."""

    def __init__(self, api: Api, background: BackgroundWork, s3: "S3Client") -> None:
        self.api = api
        self.background = background
        self.s3 = s3
        self.sqs: SQSClient = boto3.client("sqs")
        self.queue = self.sqs.create_queue(QueueName="transcode")["QueueUrl"]
        self.reports: list[dict[str, Any]] = []
        self.statuses: list[int] = []
        self.before_report: Callable[[dict[str, Any]], httpx.Response | None] = lambda report: None
        self.now = 0.0
        http = httpx.Client(base_url="http://api/$default", transport=httpx.MockTransport(self._respond))
        reports = Reports(http, lambda: "a token", sleep=lambda _: None)
        self.worker = TranscodeWorker(self.sqs, s3, self.queue, reports, clock=lambda: self.now)

    def _respond(self, request: httpx.Request) -> httpx.Response:
        report = json.loads(request.content)
        self.reports.append(report)
        response = self.before_report(report)
        if response is None:
            reply = self.api.request(
                request.method,
                request.url.path.removeprefix("/$default"),
                body=request.content,
                headers={"content-type": request.headers["content-type"]},
                user="transcoder",
                scopes="videos/transcode",
            )
            response = httpx.Response(reply.status, headers=dict(reply.headers), content=reply.body)
        self.statuses.append(response.status_code)
        return response

    def upload(self, data: bytes) -> str:
        """Upload a file, probe it, and put the message for its rendition into the queue. Return the video's id."""
        video_id = str(self.api.create()["videoId"])
        key = f"{video_id}/0001"
        etag = self.s3.put_object(Bucket=SOURCES_BUCKET, Key=key, Body=data)["ETag"].strip('"')
        self.background.arrive(video_id, etag=etag, size=len(data))
        self.background.probe(video_id, RENDITION)
        self.deliver()
        return video_id

    def deliver(self) -> None:
        """Deliver the router's messages to the queue."""
        self.background.settle()
        for body in self.background.queues["transcode"].take():
            self.sqs.send_message(QueueUrl=self.queue, MessageBody=json.dumps(body))

    def work(self) -> bool:
        """Run the worker for at most one message, and return whether it received one."""
        return self.worker.work(wait_seconds=0)

    def waiting(self) -> tuple[int, int]:
        """Return the approximate numbers of visible and of hidden messages."""
        names: Any = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        attributes = self.sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=names)["Attributes"]
        visible, hidden = (int(attributes[name]) for name in names)
        return visible, hidden

    def states(self) -> list[str]:
        """Return the reported states in order."""
        return [report["state"] for report in self.reports]

    def renditions(self) -> list[str]:
        """Return the keys of all renditions in the bucket."""
        contents = self.s3.list_objects_v2(Bucket=MEDIA_BUCKET).get("Contents", [])
        return [stored["Key"] for stored in contents]


@pytest.fixture
def laptop(api: Api, table: Any, objects: Objects, clock: Clock) -> Laptop:
    """Return a worker with the service in process."""
    return Laptop(api, BackgroundWork(table, clock), boto3.client("s3"))


def test_rendition_is_created_and_the_video_becomes_ready(laptop: Laptop) -> None:
    video_id = laptop.upload(film())
    assert laptop.work()
    job = laptop.background.job(video_id, KIND)
    assert (job["state"], job["attempt"], job["progress"]) == ("done", 1, 100)
    key = f"renditions/{video_id}/{job['inputHash']}/160p.mp4"
    video = laptop.api.get(f"/v1/videos/{video_id}").json
    assert (video["status"], video["resolutions"]) == ("ready", {"160p": f"s3://{MEDIA_BUCKET}/{key}"})
    stored = laptop.s3.get_object(Bucket=MEDIA_BUCKET, Key=key)
    assert (stored["ContentType"], stored["Body"].read()[4:8]) == ("video/mp4", b"ftyp")
    assert laptop.states() == ["running", "done"]
    assert laptop.waiting() == (0, 0)
    assert not laptop.work()


def test_progress_of_a_real_clip_is_reported(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(source: Path, target: Path, *, progress: Callable[[int], None], **size: int) -> None:
        def report_progress(percent: int) -> None:
            laptop.now += BEAT_SECONDS / 60
            progress(percent)

        transcode(source, target, progress=report_progress, **size)

    monkeypatch.setattr(transcoder, "transcode", slowly)
    laptop.upload(clip("bikes").read_bytes())
    laptop.work()
    assert laptop.states()[:2] == ["running", "running"]
    progress = [report["progress"] for report in laptop.reports[1:-1]]
    assert 3 <= len(progress) <= 12
    assert progress == sorted(progress)
    assert set(laptop.statuses) == {200}


def test_endless_video_fails_with_its_reason(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_end(source: Path, target: Path, *, progress: Callable[[int], None], **size: int) -> None:
        while True:
            laptop.now += 60
            progress(0)

    monkeypatch.setattr(transcoder, "transcode", without_end)
    video_id = laptop.upload(film())
    laptop.work()
    job = laptop.background.job(video_id, KIND)
    assert (job["state"], job["attempt"], job["error"]["reason"]) == ("failed", 1, errors.TOO_SLOW)
    assert laptop.now == LONGEST_SECONDS
    assert laptop.waiting() == (0, 0)


def test_repeated_message_changes_nothing(laptop: Laptop) -> None:
    video_id = laptop.upload(film())
    laptop.background.replay()
    laptop.deliver()
    assert laptop.waiting()[0] >= 2
    while laptop.work():
        pass
    assert laptop.background.job(video_id, KIND)["state"] == "done"
    assert laptop.states() == ["running", "done", *["running"] * (len(laptop.reports) - 2)]
    assert set(laptop.statuses[2:]) == {409}
    assert laptop.waiting() == (0, 0)


def test_message_for_a_replaced_source_is_dropped(laptop: Laptop) -> None:
    video_id = laptop.upload(film())
    laptop.background.arrive(video_id, upload="0002", etag="e2")
    laptop.background.probe(video_id, RENDITION)
    assert laptop.work()
    assert laptop.statuses == [409]
    assert (laptop.waiting(), laptop.renditions()) == ((0, 0), [])


def test_message_of_a_deleted_video_is_dropped(laptop: Laptop) -> None:
    video_id = laptop.upload(film())
    laptop.api.delete(f"/v1/videos/{video_id}")
    laptop.background.settle()
    assert laptop.work()
    assert laptop.statuses[0] in (404, 409)
    assert (laptop.waiting(), laptop.renditions()) == ((0, 0), [])


def test_work_on_a_replaced_source_is_cancelled(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    video_id = laptop.upload(film())
    continued = []

    def replace_source(source: Path, target: Path, *, progress: Callable[[int], None], **size: int) -> None:
        laptop.background.arrive(video_id, upload="0002", etag="e2")
        laptop.now += BEAT_SECONDS
        progress(50)
        continued.append(True)

    monkeypatch.setattr(transcoder, "transcode", replace_source)
    laptop.work()
    assert (laptop.statuses, continued) == ([200, 404], [])
    assert laptop.waiting() == (0, 0)


def test_output_is_deleted_when_the_video_was_removed_during_transcoding(laptop: Laptop) -> None:
    video_id = laptop.upload(film())

    def remove_video(report: dict[str, Any]) -> None:
        if report["state"] == "done":
            assert laptop.renditions()
            for sk in ("#META", f"JOB#{KIND}"):
                laptop.background.table.client.delete_item(
                    TableName=laptop.background.table.name,
                    Key={"pk": {"S": f"VIDEO#{video_id}"}, "sk": {"S": sk}},
                )

    laptop.before_report = remove_video
    laptop.work()
    assert (laptop.statuses, laptop.renditions(), laptop.waiting()) == ([200, 404], [], (0, 0))


class TestUnusableSources:
    def test_file_that_is_not_a_video_fails_at_once_with_a_reason(self, laptop: Laptop) -> None:
        video_id = laptop.upload(b"This is no film.")
        laptop.work()
        job = laptop.background.job(video_id, KIND)
        assert (job["state"], job["attempt"]) == ("failed", 1)
        assert job["error"]["reason"].startswith("The file is not a video")
        assert laptop.api.get(f"/v1/videos/{video_id}").json["status"] == "failed"
        assert laptop.waiting() == (0, 0)

    def test_source_file_replaced_since_fails_the_job(self, laptop: Laptop) -> None:
        video_id = laptop.upload(film())
        laptop.s3.put_object(Bucket=SOURCES_BUCKET, Key=f"{video_id}/0001", Body=film(1))
        laptop.work()
        assert "replaced" in laptop.reports[-1]["reason"]
        assert laptop.background.job(video_id, KIND)["state"] == "failed"

    def test_missing_source_file_fails_the_job(self, laptop: Laptop) -> None:
        video_id = laptop.upload(film())
        laptop.s3.delete_object(Bucket=SOURCES_BUCKET, Key=f"{video_id}/0001")
        laptop.work()
        assert laptop.reports[-1]["reason"] == "The uploaded file was deleted."


class TestErrors:
    def test_transient_error_is_retried_up_to_the_last_attempt(
        self, laptop: Laptop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: Any, **__: Any) -> None:
            raise OSError("no space left")

        video_id = laptop.upload(film())
        monkeypatch.setattr(transcoder, "transcode", broken)
        for _ in range(LAST_ATTEMPT):
            assert laptop.work()
            laptop.deliver()
        job = laptop.background.job(video_id, KIND)
        assert (job["state"], job["attempt"], laptop.waiting()) == ("failed", LAST_ATTEMPT, (0, 0))
        assert "no space left" not in json.dumps(laptop.reports)

    @pytest.mark.parametrize(
        "response", [httpx.Response(503), httpx.Response(404, json={"message": "Not Found"}), httpx.Response(401)]
    )
    def test_message_remains_in_the_queue_while_the_api_fails(self, laptop: Laptop, response: httpx.Response) -> None:
        laptop.upload(film())
        laptop.before_report = lambda _: response
        assert laptop.work()
        assert (laptop.waiting(), laptop.renditions()) == ((0, 1), [])

    def test_unreported_result_is_reported_at_the_next_delivery(self, laptop: Laptop) -> None:
        video_id = laptop.upload(film())

        def down(report: dict[str, Any]) -> httpx.Response | None:
            if report["state"] == "done":
                raise httpx.ConnectError("refused")
            return None

        laptop.before_report = down
        laptop.work()
        assert laptop.waiting() == (0, 1)
        laptop.before_report = lambda _: None
        laptop.background.replay()
        laptop.deliver()
        while laptop.work():
            pass
        assert laptop.background.job(video_id, KIND)["state"] == "done"

    def test_failed_report_is_sent_again(self, laptop: Laptop) -> None:
        video_id = laptop.upload(film())
        failing = [httpx.Response(500), httpx.Response(503)]
        laptop.before_report = lambda _: failing.pop() if failing else None
        laptop.work()
        assert laptop.states() == ["running", "running", "running", "done"]
        assert laptop.background.job(video_id, KIND)["state"] == "done"

    def test_unreported_progress_does_not_stop_the_work(self, laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
        def work(source: Path, target: Path, *, progress: Callable[[int], None], **size: int) -> None:
            laptop.now += BEAT_SECONDS
            progress(50)
            target.write_bytes(b"made")

        video_id = laptop.upload(film())
        monkeypatch.setattr(transcoder, "transcode", work)
        laptop.before_report = lambda report: httpx.Response(503) if report.get("progress") else None
        laptop.work()
        assert laptop.statuses == [200, 503, 200]
        assert laptop.background.job(video_id, KIND)["state"] == "done"

    def test_transcoder_stopped_during_work_leaves_its_message_in_the_queue(
        self, laptop: Laptop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def ended(*_: Any, **__: Any) -> None:
            raise TranscoderStopped

        video_id = laptop.upload(film())
        with monkeypatch.context() as patch:
            patch.setattr(transcoder, "transcode", ended)
            with pytest.raises(TranscoderStopped):
                laptop.work()
        assert laptop.background.job(video_id, KIND)["state"] == "running"
        assert laptop.waiting() == (1, 0)
        assert laptop.work()
        job = laptop.background.job(video_id, KIND)
        assert (job["state"], job["attempt"]) == ("done", 1)

    @pytest.mark.parametrize("body", ["{", "[]", "{}", '{"schema": "video-metadata/job/2"}'])
    def test_invalid_message_is_left_for_the_dead_letter_queue(self, laptop: Laptop, body: str) -> None:
        laptop.sqs.send_message(QueueUrl=laptop.queue, MessageBody=body)
        assert laptop.work()
        assert (laptop.waiting(), laptop.reports) == ((0, 1), [])


def test_refused_report_has_the_reason() -> None:
    http = httpx.Client(
        base_url="http://api", transport=httpx.MockTransport(lambda _: httpx.Response(403, text="a scope is missing"))
    )
    message = JobMessage.model_validate(
        {
            "schema": "video-metadata/job/1",
            "videoId": "v",
            "kind": KIND,
            "inputHash": "0" * 32,
            "attempt": 1,
            "input": {"source": "s3://sources/v/1", "etag": "e", "fileSize": 1},
            "report": "/v1/videos/v/renditions/160p",
        }
    )
    with http, pytest.raises(ReportFailed, match="403: a scope is missing"):
        Reports(http, lambda: "a token", sleep=lambda _: None).send(message, "running")


class TestProcess:
    """The transcoder's process polls a queue that never responds, so its connection stays open while the process
    runs."""

    @pytest.fixture
    def queue(self) -> Iterator[socket.socket]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(LIMIT)
            yield server

    @pytest.fixture
    def aws(self, queue: socket.socket) -> Aws:
        endpoint = f"http://127.0.0.1:{queue.getsockname()[1]}"
        return Aws(endpoint, endpoint, "a secret")

    @pytest.fixture
    def settings(self, aws: Aws, tmp_path: Path) -> TranscoderSettings:
        endpoint = aws.endpoint
        key_file = tmp_path / "key.pem"
        TokenSigner(key_file)
        return TranscoderSettings(f"{endpoint}/000000000000/transcode", endpoint, endpoint, str(key_file))

    def test_transcoder_process_restarts_after_a_crash_and_ends_with_the_block(
        self, queue: socket.socket, aws: Aws, settings: TranscoderSettings, tmp_path: Path
    ) -> None:
        with Transcoder(aws, settings, tmp_path / "transcoder.log") as running:
            first = _connected(queue)
            os.kill(running.pid, signal.SIGKILL)
            _wait_for_end(first)
            second = _connected(queue)
        _wait_for_end(second)

    def test_transcoder_process_ends_when_its_parent_is_killed(
        self, queue: socket.socket, aws: Aws, settings: TranscoderSettings, tmp_path: Path
    ) -> None:
        program = (
            "import signal, pathlib; from local.aws import Aws; from local.transcoder import Transcoder, TranscoderSettings\n"
            f"with Transcoder(Aws({aws.endpoint!r}, {aws.endpoint!r}, 'a secret'), {settings!r}, pathlib.Path({str(tmp_path / 'transcoder.log')!r})): signal.pause()"
        )
        with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) as parent:
            connection = _connected(queue)
            parent.kill()
        _wait_for_end(connection)


def _connected(queue: socket.socket) -> socket.socket:
    connection, _ = queue.accept()
    connection.settimeout(LIMIT)
    return connection


def _wait_for_end(connection: socket.socket) -> None:
    with connection, suppress(ConnectionResetError):
        while connection.recv(65536):
            pass
