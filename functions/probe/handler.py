"""Worker of the jobs `probe`: reads the properties of uploaded source files, and selects the renditions to create."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.aws.runtime import BackgroundResources, EntryPoint, Resources
from shared.aws.s3 import Objects
from shared.core.settings import LambdaHandler, Settings
from shared.media.ladder import select_renditions
from shared.media.results import MediaInfo
from shared.media.sandbox import Sandbox
from shared.processing.job_store import JobStore
from shared.processing.worker import JobConsumer, JobResult, JobWorker
from shared.video_fields import PROBED
from shared.videos import video

if TYPE_CHECKING:
    from shared.entities import Job, Video


class ProbeSettings(Settings):
    renditions: tuple[str, ...]
    aws_lambda_function_memory_size: int
    """Memory of the function in megabytes. Lambda sets the environment variable."""


class ProbeWorker(JobWorker):
    """Worker that reads the properties of a source file, and selects the renditions to create."""

    kind = "probe"

    def __init__(self, objects: Objects, reader: Sandbox, renditions: Sequence[str]) -> None:
        super().__init__(objects, reader)
        self._renditions = renditions

    def do(self, job: "Job", _: "Video") -> JobResult:
        """Read the source file's properties. The result sets the video's probed fields and the sizes of its renditions in pixels."""
        facts: MediaInfo = self.read("probe", job)
        media = facts.document()
        fields = {name: media[name] for name in PROBED if name in media}
        sizes = {
            rendition.name: {"width": rendition.width, "height": rendition.height}
            for rendition in select_renditions(facts.width, facts.height, self._renditions)
        }
        return JobResult(fields, lambda item: video.apply_probe(item, media, fields, sizes))


def make(settings: ProbeSettings, resources: Resources) -> LambdaHandler:
    """Return the Lambda handler. The entry point calls this function once, before the first event."""
    jobs = JobStore(resources.table(settings.table_name))
    reader = Sandbox.within(settings.aws_lambda_function_memory_size)
    workers = [ProbeWorker(resources.objects, reader, settings.renditions)]
    return JobConsumer("probe", jobs, resources.clock, workers).function()


lambda_handler = EntryPoint(ProbeSettings, make, resources=BackgroundResources)
