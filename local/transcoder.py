"""Transcoder for the service on this machine. It follows docs/transcode-queue.md, as any external transcoder does.

The transcoder uses only the queue, the buckets and the API. One process works on one source video at a time.
"""

import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import Popen
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Literal, Self

import boto3
import httpx
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from local.aws import Aws
from local.child import end, end_with_parent, spawn
from local.issuer import DAY, TokenSigner
from shared.aws.s3 import split_uri
from shared.aws.sqs import BadMessage
from shared.media import errors
from shared.media.errors import UnreadableVideo
from shared.media.transcode import transcode
from shared.processing.messages import JobInput, JobMessage, parse
from shared.routes import TRANSCODE

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

SUBJECT = "local-transcoder"
WAIT_SECONDS = 20
"""Maximum seconds that one receive request waits for a message."""
VISIBILITY_SECONDS = 120
"""Visibility timeout of a message in seconds. The worker extends the timeout regularly.

If the worker crashes, SQS delivers the message again after this time.
"""
BEAT_SECONDS = 5
"""Minimum seconds between two progress reports. Each report also extends the visibility timeout."""
LONGEST_SECONDS = 3600
"""Maximum seconds for one rendition. On a laptop, a longer job would delay all other jobs."""
MAX_ATTEMPTS = 3
"""Maximum attempts to send one report, including the first."""
STOP_SECONDS = 10.0
CHUNK = 1 << 20

LOGGER = logging.getLogger("transcoder")


class JobWithdrawn(Exception):
    """Error for a report that the API rejects because it accepts no more reports on the attempt of the job. `gone` is
    true if the job does not exist."""

    def __init__(self, detail: str, *, gone: bool) -> None:
        super().__init__(detail)
        self.gone = gone


class ReportFailed(Exception):
    """Error for a report that got no response, or that the API rejected although the job is not withdrawn."""


class SourceLost(Exception):
    """Error for a source file that was deleted or replaced after the job was queued. The message is one sentence."""


class TranscoderStopped(BaseException):
    """Signal to end the process."""


@dataclass(frozen=True)
class TranscoderSettings:
    """Configuration of a transcoder process."""

    queue_url: str
    base_url: str
    issuer: str
    key_file: str


class Reports:
    """Client of the API's job reports."""

    def __init__(
        self, http: httpx.Client, token: Callable[[], str], *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._http = http
        self._token = token
        self._sleep = sleep

    def send(
        self,
        message: JobMessage,
        state: Literal["running", "done", "failed"],
        *,
        tries: int = MAX_ATTEMPTS,
        **more: str | int | bool,
    ) -> None:
        """Report the state of a message's job.

        Raises JobWithdrawn if the API accepts no more reports on the job attempt in `message`. Raises ReportFailed if
        `tries` requests fail.
        """
        body = {"inputHash": message.inputHash, "attempt": message.attempt, "state": state, **more}
        failure = ""
        for number in range(1, tries + 1):
            try:
                answer = self._http.put(
                    str(message.report), json=body, headers={"Authorization": f"Bearer {self._token()}"}
                )
            except httpx.TransportError as error:
                failure = repr(error)
            else:
                if answer.status_code == 200:
                    return
                # During a deploy of the API the gateway returns its own 404, which says nothing about the job.
                if answer.status_code in (404, 409) and "problem+json" in answer.headers.get("content-type", ""):
                    raise JobWithdrawn(answer.json()["detail"], gone=answer.status_code == 404)
                failure = f"{answer.status_code}: {answer.text[:300]}"
            if number < tries:
                self._sleep(number)
        raise ReportFailed(failure)


class TranscodeWorker:
    """Worker that processes the messages of a queue. `clock` returns monotonic seconds."""

    def __init__(
        self,
        sqs: "SQSClient",
        s3: "S3Client",
        queue_url: str,
        reports: Reports,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sqs = sqs
        self._s3 = s3
        self._queue_url = queue_url
        self._reports = reports
        self._clock = clock

    def work(self, wait_seconds: int = WAIT_SECONDS) -> bool:
        """Process the next message. Returns `False` if no message arrived within `wait_seconds`."""
        answer = self._sqs.receive_message(
            QueueUrl=self._queue_url,
            MaxNumberOfMessages=1,
            WaitTimeSeconds=wait_seconds,
            VisibilityTimeout=VISIBILITY_SECONDS,
            MessageSystemAttributeNames=["ApproximateReceiveCount"],
        )
        for received in answer.get("Messages", []):
            self._handle(
                received["ReceiptHandle"], received["Body"], int(received["Attributes"]["ApproximateReceiveCount"])
            )
        return bool(answer.get("Messages"))

    def _handle(self, receipt: str, body: str, count: int) -> None:
        try:
            self._do(_parsed(body), receipt)
        except JobWithdrawn as answer:
            LOGGER.info("job withdrawn: %s", answer)
        except Exception:  # the worker continues with the next message after any error
            # SQS delivers the message again, with increasing delay, and finally moves it to the DLQ.
            LOGGER.exception("message failed")
            self._set_visibility(receipt, 15 * 2 ** (count - 1))
            return
        except BaseException:
            self._set_visibility(receipt, 0)  # another worker can receive it immediately
            raise
        # Delete the message last. If an earlier step fails, it is delivered again, and a repeated report has no effect.
        self._sqs.delete_message(QueueUrl=self._queue_url, ReceiptHandle=receipt)

    def _do(self, message: JobMessage, receipt: str) -> None:
        name = f"{message.kind} of {message.videoId}, attempt {message.attempt}"
        # This report claims the job: from now on, the API rejects reports on another input or attempt.
        self._reports.send(message, "running", progress=0)
        LOGGER.info("started: %s", name)
        try:
            size = self._transcode(message, receipt)
        except UnreadableVideo as error:
            self._reports.send(message, "failed", reason=error.reason, retry=False)
        except SourceLost as error:
            self._reports.send(message, "failed", reason=str(error), retry=False)
        except JobWithdrawn:
            raise
        except Exception:  # the job must fail at once, instead of when its lease ends
            LOGGER.exception("failed: %s", name)
            reason = "The transcoder failed. Its log has the error."
            self._reports.send(message, "failed", reason=reason, retry=True)
        else:
            self._done(message, size)
            LOGGER.info("finished: %s", name)

    def _transcode(self, message: JobMessage, receipt: str) -> int:
        """Create and store a rendition, and return its size in bytes."""
        rendition = message.input.rendition
        if rendition is None or message.output is None:
            raise BadMessage("The message has no `rendition` or no `output`.")
        started = last = self._clock()

        def report_progress(percent: int) -> None:
            nonlocal last
            if self._clock() - started >= LONGEST_SECONDS:
                raise UnreadableVideo(errors.TOO_SLOW)
            if self._clock() - last >= BEAT_SECONDS:
                last = self._clock()
                self._set_visibility(receipt, VISIBILITY_SECONDS)
                # The lease lasts many times as long, so one lost report does no harm.
                with suppress(ReportFailed):
                    self._reports.send(message, "running", progress=min(99, max(1, percent)), tries=1)

        with tempfile.TemporaryDirectory(prefix="transcoder-") as folder:
            film, made = Path(folder, "film"), Path(folder, "made.mp4")
            self._download(message.input, film, lambda: report_progress(1))
            transcode(film, made, width=rendition.width, height=rendition.height, progress=report_progress)
            bucket, key = split_uri(message.output)
            self._s3.upload_file(str(made), bucket, key, ExtraArgs={"ContentType": "video/mp4"})
            return made.stat().st_size

    def _download(self, film: JobInput, target: Path, report_progress: Callable[[], None]) -> None:
        bucket, key = split_uri(film.source)
        try:
            body = self._s3.get_object(Bucket=bucket, Key=key, IfMatch=f'"{film.etag}"')["Body"]
        except ClientError as error:
            match error.response["Error"]["Code"]:
                case "NoSuchKey":
                    raise SourceLost("The uploaded file was deleted.") from error
                case "PreconditionFailed":
                    raise SourceLost("The uploaded file was replaced before it was read.") from error
                case _:
                    raise
        with target.open("wb") as file:
            for chunk in body.iter_chunks(CHUNK):
                file.write(chunk)
                report_progress()

    def _done(self, message: JobMessage, size: int) -> None:
        try:
            self._reports.send(message, "done", uri=str(message.output), fileSize=size)
        except JobWithdrawn as answer:
            # The job may have been deleted with its video. After the purge, no other code would delete this object.
            if answer.gone:
                bucket, key = split_uri(str(message.output))
                self._s3.delete_object(Bucket=bucket, Key=key)
            raise

    def _set_visibility(self, receipt: str, seconds: int) -> None:
        """Hide the message from other receivers for `seconds`. Logs errors instead of raising them."""
        try:
            self._sqs.change_message_visibility(
                QueueUrl=self._queue_url, ReceiptHandle=receipt, VisibilityTimeout=seconds
            )
        except (ClientError, BotoCoreError):
            LOGGER.exception("visibility not changed")


def _parsed(body: str) -> JobMessage:
    try:
        content = json.loads(body)
    except ValueError as error:
        raise BadMessage("The message is not JSON.") from error
    message = parse(JobMessage, content)
    if message.report is None:
        raise BadMessage("The message has no `report`, the path for reports.")
    return message


class Transcoder:
    """Transcoder in a separate process, for the duration of the `with` block.

    A new process replaces a process that has crashed. A damaged file can crash FFmpeg.
    """

    def __init__(self, aws: Aws, settings: TranscoderSettings, log: Path) -> None:
        self._aws = aws
        self._settings = settings
        self._log = log
        self._stopping = threading.Event()
        self._starting = threading.Lock()
        self._process: Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep_running, name="transcoder", daemon=True)

    def __enter__(self) -> Self:
        self._log.unlink(missing_ok=True)
        self._start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._starting:
            self._stopping.set()
            if self._process is not None:
                end(self._process, STOP_SECONDS)
        self._thread.join()

    @property
    def pid(self) -> int:
        """Id of the current transcoder process."""
        if self._process is None:
            raise RuntimeError("The transcoder was not started")
        return self._process.pid

    def _start(self) -> None:
        # The process must not use the developer's AWS settings.
        env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        env |= self._aws.environment()
        with self._log.open("ab") as log:
            self._process = spawn("local.transcoder", json.dumps(asdict(self._settings)), log=log, env=env)

    def _keep_running(self) -> None:
        while True:
            process = self._process
            if process is not None:
                process.wait()
            if self._stopping.wait(1):
                return
            with self._starting:
                if not self._stopping.is_set():
                    if process is not None:
                        end(process, STOP_SECONDS)  # remaining child processes
                    self._start()


def make_worker(settings: TranscoderSettings, http: httpx.Client) -> TranscodeWorker:
    """Return a worker for the service on this machine. Its AWS clients read endpoints and credentials from environment
    variables."""
    signer = TokenSigner(Path(settings.key_file))
    config = Config(proxies={}, read_timeout=WAIT_SECONDS + 10)
    return TranscodeWorker(
        boto3.client("sqs", config=config),
        boto3.client("s3", config=config),
        settings.queue_url,
        # A new token for each report, so that none expires while the service runs.
        Reports(http, lambda: signer.mint(settings.issuer, SUBJECT, [TRANSCODE], DAY)),
    )


def main(arguments: list[str]) -> int:
    """Process messages until the process receives SIGTERM. Returns the exit status."""

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise TranscoderStopped

    signal.signal(signal.SIGTERM, stop)
    end_with_parent()
    os.nice(10)  # requests to the API have priority
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    settings = TranscoderSettings(**json.loads(arguments[0]))
    try:
        with httpx.Client(base_url=settings.base_url, timeout=60, trust_env=False) as http:
            worker = make_worker(settings, http)
            LOGGER.info("waiting for messages of %s", settings.queue_url)
            while True:
                try:
                    worker.work()
                except (ClientError, BotoCoreError):
                    LOGGER.exception("the queue is unavailable")
                    time.sleep(1)  # otherwise the worker would poll without a pause while the queue is unavailable
    except TranscoderStopped:
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
