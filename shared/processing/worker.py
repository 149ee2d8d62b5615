"""Base class of job workers, and the consumer of job queues.

The consumer claims a job, runs the worker for its kind, and records the result or failure.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shared.aws.messages import Message, MessageProcessor
from shared.aws.runtime import process
from shared.aws.s3 import ObjectChanged, ObjectMissing, Objects, ObjectSource
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.settings import LambdaHandler
from shared.core.telemetry import service_logger
from shared.job_kinds import base_of
from shared.media.errors import UnreadableVideo
from shared.media.sandbox import Sandbox
from shared.processing.job_states import ExtraWrites
from shared.processing.job_store import JobStore
from shared.processing.messages import JobMessage, parse

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from shared.entities import Job, Video


@dataclass(frozen=True)
class JobResult:
    """Result of a job: the job's output, and the function `edit`, which adds the result to the video's item."""

    output: Item
    edit: Callable[["Video"], "Video"]
    extra_writes: Callable[["Video"], ExtraWrites] | None = None
    """Function that receives the video's item and returns extra writes for the transaction that completes the job."""


class JobWorker(ABC):
    """Worker for one kind of job. `shared/job_kinds.py` declares the attributes and objects that the worker may write.

    A job may run twice, so all writes except its result must be idempotent.

    >>> class WaveformWorker(JobWorker):
    ...     kind = "waveform"
    ...     def do(self, job, video):
    ...         peaks = self.read("waveform", job)
    ...         return JobResult({"peaks": peaks}, edit=lambda video: video | {"peaks": peaks})
    >>> lambda_handler = JobConsumer("waveform", jobs, clock, [WaveformWorker(objects, sandbox)]).function()
    """

    kind: ClassVar[str]

    def __init__(self, objects: Objects, reader: Sandbox) -> None:
        self.objects = objects
        self._reader = reader

    @abstractmethod
    def do(self, job: "Job", video: "Video") -> JobResult:
        """Process a job and return its result. Raises UnreadableVideo, ObjectMissing or ObjectChanged if the source
        file cannot be read."""

    def read(self, task: str, job: "Job", *arguments: object) -> Any:
        """Run a task of `shared/media/reader.py` on the job's source file, and return the task's result."""
        job_input = job["input"]
        source = ObjectSource(self.objects, job_input["source"], job_input["etag"], job_input["fileSize"])
        return self._reader.run(task, source, *arguments)


class JobConsumer:
    """Consumer of a queue of jobs, with one worker per kind. The consumer's writes record `name` as their author."""

    def __init__(self, name: str, jobs: JobStore, clock: Callable[[], float], workers: Iterable[JobWorker]) -> None:
        self._caller = Caller.job(name)
        self._jobs = jobs
        self._clock = clock
        self._workers = {worker.kind: worker for worker in workers}
        self._logger = service_logger()

    def function(self) -> LambdaHandler:
        """Return the handler of the queue's function."""

        def handle(event: dict[str, Any], _: "LambdaContext") -> dict[str, Any]:
            return process(event, self.handle, MessageProcessor())

        return self._logger.inject_lambda_context(handle)

    def handle(self, message: Message) -> None:
        """Process the job of one message. Does nothing if another worker has claimed the job, or if the video no longer
        requires the job.

        If an attempt fails, the job is queued again or fails with a reason, and the message is deleted. Raises
        Unavailable or WriteContention if the failure cannot be recorded. The sweeper then requeues the job after its
        lease expires.
        """
        attempt = parse(JobMessage, message.json_body).job_attempt
        log = {"video_id": attempt.video_id, "kind": attempt.kind, "attempt": attempt.number}
        job = self._jobs.claim(attempt, self._caller, self._now())
        video = self._jobs.find_video(job) if job else None
        if job is None or video is None:
            self._logger.info("job obsolete", extra=log)
            return
        try:
            result = self._workers[base_of(job["kind"])].do(job, video)
        except (UnreadableVideo, ObjectMissing, ObjectChanged) as error:
            self._logger.info("source file not usable", extra=log | {"reason": str(error)})
            self._jobs.fail(
                attempt, _reason(error), self._caller, self._now(), retry=False, final=getattr(error, "is_final", True)
            )
        except Exception as error:
            self._logger.exception("job failed", exc_info=error, extra=log)
            self._jobs.fail(attempt, _reason(error), self._caller, self._now(), retry=True)
        else:
            done = self._jobs.complete(
                attempt, result.output, self._caller, self._now(), result.edit, result.extra_writes
            )
            self._logger.info("job done" if done else "result obsolete", extra=log)

    def _now(self) -> int:
        return int(self._clock())


def _reason(error: Exception) -> str:
    match error:
        case UnreadableVideo():
            return error.reason
        case ObjectMissing():
            return "The uploaded file was deleted."
        case ObjectChanged():
            return "The uploaded file was replaced during processing."
        case _:
            # Details belong in the log.
            return "The worker failed. The log of the service has the error."
