"""Worker that adds views and ratings to the counters of videos.

The worker also stores each view counter's values at the start of every hour. Counts by hour are computed from these
values.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shared.aws.messages import GroupProcessor, Message
from shared.aws.runtime import BackgroundResources, EntryPoint, Resources, process
from shared.background.tallies import Tallies
from shared.core.settings import LambdaHandler, Settings
from shared.core.telemetry import service_logger
from shared.processing.messages import TallyMessage, parse

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def make(settings: Settings, resources: Resources) -> LambdaHandler:
    """Return the Lambda handler. The entry point calls this function once, before the first event."""
    tallies = Tallies(resources.table(settings.table_name))

    def count(messages: Sequence[Message]) -> None:
        tallies.apply([parse(TallyMessage, message.json_body) for message in messages], int(resources.clock()))

    def handle(event: dict[str, Any], _: "LambdaContext") -> dict[str, Any]:
        return process(event, count, GroupProcessor())

    return service_logger().inject_lambda_context(handle)


lambda_handler = EntryPoint(Settings, make, resources=BackgroundResources)
