"""Consumer of S3 notifications about uploaded source files: attaches each file to its video."""

from typing import TYPE_CHECKING, Any

from shared.aws.messages import Message, MessageProcessor
from shared.aws.runtime import BackgroundResources, EntryPoint, Resources, process
from shared.core.settings import LambdaHandler, Settings
from shared.core.telemetry import service_logger
from shared.processing.arrivals import Arrivals
from shared.processing.uploads import UploadStore
from shared.videos.store import VideoStore

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def make(settings: Settings, resources: Resources) -> LambdaHandler:
    """Return the Lambda handler. The entry point calls this function once, before the first event."""
    table = resources.table(settings.table_name)
    arrivals = Arrivals(UploadStore(table), resources.objects, VideoStore(table, moves_entries=False))

    def process_message(message: Message) -> None:
        arrivals.handle(message.json_body, int(resources.clock()))

    def handle(event: dict[str, Any], _: "LambdaContext") -> dict[str, Any]:
        return process(event, process_message, MessageProcessor())

    return service_logger().inject_lambda_context(handle)


lambda_handler = EntryPoint(Settings, make, resources=BackgroundResources)
