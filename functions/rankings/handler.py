"""Scheduled function that computes the lists of the most viewed videos every five minutes."""

from typing import TYPE_CHECKING, Any

from shared.aws.runtime import BackgroundResources, EntryPoint, Resources
from shared.core.settings import LambdaHandler, Settings
from shared.core.telemetry import service_logger
from shared.views.rankings import Rankings

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

SECONDS_FOR_DAYS = 50
"""Seconds that a run needs to compute the lists whose windows consist of days (`week` and `month`). If less time is
left, the next run computes these lists."""


def make(settings: Settings, resources: Resources) -> LambdaHandler:
    """Return the Lambda handler. The entry point calls this function once, before the first event."""
    rankings = Rankings(resources.table(settings.table_name))

    def handle(_: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
        def in_time() -> bool:
            return context.get_remaining_time_in_millis() > SECONDS_FOR_DAYS * 1000

        service_logger().info("rankings computed", extra=rankings.compute(int(resources.clock()), in_time))
        return {}

    return service_logger().inject_lambda_context(handle)


lambda_handler = EntryPoint(Settings, make, resources=BackgroundResources)
