"""Scheduled function that compacts the audit archive into Parquet files for SQL, every hour."""

from typing import TYPE_CHECKING, Any

from shared.archive.compactor import Compactor
from shared.aws.runtime import BackgroundResources, EntryPoint, Resources
from shared.core.settings import LambdaHandler, Settings
from shared.core.telemetry import emit, service_logger

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

SECONDS_TO_STOP = 120
"""Seconds of remaining run time below which the function begins no further chunk of archive objects."""


class CompactorSettings(Settings):
    archive_bucket: str
    analytics_bucket: str


def make(settings: CompactorSettings, resources: Resources) -> LambdaHandler:
    """Return the Lambda handler. The entry point calls this function once, before the first event."""
    compactor = Compactor(resources.objects, settings.archive_bucket, settings.analytics_bucket, resources.clock)

    def handle(_: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
        def in_time() -> bool:
            return context.get_remaining_time_in_millis() > SECONDS_TO_STOP * 1000

        run = compactor.run(in_time)
        emit({"ArchiveLag": run.lag})
        service_logger().info("archive compacted", extra={"sources": run.sources, "entries": run.entries})
        return {}

    return service_logger().inject_lambda_context(handle)


lambda_handler = EntryPoint(CompactorSettings, make, resources=BackgroundResources)
