"""Consumer of the table's stream that creates and queues jobs, and triggers totals, purges and reverts.

shared/background/stream_router.py has the rules.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from shared.aws.runtime import BackgroundResources, EntryPoint, Resources, process
from shared.aws.stream import Record, StreamProcessor
from shared.background.stream_router import QUEUES, StreamRouter
from shared.core.settings import LambdaHandler, Settings, variable_group
from shared.core.telemetry import service_logger

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


class StreamRouterSettings(Settings):
    media_bucket: str
    shares: Mapping[str, int]
    """Maximum number of concurrent jobs per owner, by queue."""
    queue_urls: Mapping[str, str] = variable_group({name: f"{name.upper()}_QUEUE_URL" for name in QUEUES})


def make(settings: StreamRouterSettings, resources: Resources) -> LambdaHandler:
    """Return the Lambda handler. The entry point calls this function once, before the first event."""
    queues = {name: resources.queue(url) for name, url in settings.queue_urls.items()}
    router = StreamRouter(resources.table(settings.table_name), settings.shares, queues, settings.media_bucket)

    def route(record: Record) -> None:
        router.route(record, int(resources.clock()))

    def handle(event: dict[str, Any], _: "LambdaContext") -> dict[str, Any]:
        return process(event, route, StreamProcessor(router.flush))

    return service_logger().inject_lambda_context(handle)


lambda_handler = EntryPoint(StreamRouterSettings, make, resources=BackgroundResources)
