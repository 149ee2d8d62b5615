"""Scheduled function that converts the audit archive, and snapshots of videos, to Parquet files for SQL."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shared.archive.compactor import FOLDERS, Compactor
from shared.archive.snapshots import Snapshots
from shared.aws.runtime import BackgroundResources, EntryPoint, Resources
from shared.core.settings import LambdaHandler, Settings
from shared.core.telemetry import emit, service_logger
from shared.temporary import clear_folders

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

SECONDS_TO_STOP = 120
"""Seconds of remaining run time below which the function begins no further chunk of archive objects."""
SECONDS_TO_CONVERT = 240
"""Seconds of remaining run time below which the function begins no further part of a snapshot."""


class CompactorSettings(Settings):
    archive_bucket: str
    analytics_bucket: str
    snapshot_days: int
    """Days for which snapshots are retained; 0 if there are no snapshots."""


def make(settings: CompactorSettings, resources: Resources) -> LambdaHandler:
    """Return the Lambda handler. The entry point calls this function once, before the first event."""
    clear_folders(FOLDERS)
    compactor = Compactor(resources.objects, settings.archive_bucket, settings.analytics_bucket, resources.clock)
    snapshots = Snapshots(resources.objects, settings.analytics_bucket, resources.clock)

    def compact(remaining: Callable[[], int]) -> None:
        def in_time() -> bool:
            return remaining() > SECONDS_TO_STOP * 1000

        run = compactor.run(in_time, report_lag=lambda lag: emit({"ArchiveLag": lag}))
        service_logger().info("archive compacted", extra={"sources": run.sources, "entries": run.entries})

    def convert(remaining: Callable[[], int]) -> None:
        emit({"SnapshotAge": snapshots.age()})  # first, because the alarm must also fire if all runs fail
        run = snapshots.run(lambda: remaining() > SECONDS_TO_CONVERT * 1000)
        service_logger().info("snapshots converted", extra={"snapshots": run.snapshots, "files": run.files})

    def handle(_: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
        try:
            compact(context.get_remaining_time_in_millis)
        finally:  # a damaged object of the archive must not block the snapshots
            if settings.snapshot_days:
                convert(context.get_remaining_time_in_millis)
        return {}

    return service_logger().inject_lambda_context(handle)


lambda_handler = EntryPoint(CompactorSettings, make, resources=BackgroundResources)
