"""Looks at films that have arrived: what they are, and which renditions they are to have."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from shared.aws.messages import MessageProcessor
from shared.aws.runtime import BackgroundResources, EntryPoint, Resources, process
from shared.aws.s3 import Objects
from shared.core.attributes import Item
from shared.core.settings import LambdaHandler, Settings
from shared.core.telemetry import service_logger
from shared.films.jobs import JobStore
from shared.films.worker import JobConsumer, JobWorker, Result
from shared.media.ladder import wanted
from shared.media.results import Facts
from shared.media.sandbox import Sandbox
from shared.video_fields import PROBED
from shared.videos import video

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from shared.entities import Job


class ProbeSettings(Settings):
    renditions: tuple[str, ...]
    aws_lambda_function_memory_size: int
    """Megabytes; set by Lambda."""


class ProbeWorker(JobWorker):
    """Reads what a film is, and decides which renditions it gets."""

    kind = "probe"

    def __init__(self, objects: Objects, reader: Sandbox, renditions: Sequence[str]) -> None:
        super().__init__(objects, reader)
        self._renditions = renditions

    def do(self, job: "Job", _: Item) -> Result:
        """Probe a film."""
        facts: Facts = self.read("probe", job)
        media = facts.document()
        fields = {name: media[name] for name in PROBED if name in media}
        sizes = {
            rendition.name: {"width": rendition.width, "height": rendition.height}
            for rendition in wanted(facts.width, facts.height, self._renditions)
        }
        return Result(fields, lambda item: video.probed(item, media, fields, sizes))


def make(
    jobs: JobStore,
    objects: Objects,
    reader: Sandbox,
    renditions: Sequence[str],
    clock: Callable[[], float] = time.time,
) -> LambdaHandler:
    """The handler over the stores; `clock` gives epoch seconds."""
    consumer = JobConsumer("probe", jobs, clock, [ProbeWorker(objects, reader, renditions)])

    def handle(event: dict[str, Any], _: "LambdaContext") -> dict[str, Any]:
        return process(event, consumer.handle, MessageProcessor())

    return service_logger().inject_lambda_context(handle)


def _deployed(settings: ProbeSettings, resources: Resources) -> LambdaHandler:
    jobs = JobStore(resources.table(settings.table_name))
    reader = Sandbox.within(settings.aws_lambda_function_memory_size)
    return make(jobs, resources.objects, reader, settings.renditions, resources.clock)


lambda_handler = EntryPoint(ProbeSettings, _deployed, resources=BackgroundResources)
