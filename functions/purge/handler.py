"""Worker that deletes all data of a removed video or playlist: child items, counters and S3 objects."""

from typing import TYPE_CHECKING, Any

from shared.aws.messages import Message, MessageProcessor
from shared.aws.runtime import BackgroundResources, EntryPoint, Resources, process
from shared.background.purge import InTime, Purge
from shared.core.settings import LambdaHandler, Settings
from shared.core.telemetry import service_logger
from shared.processing.messages import PURGE_PLAYLIST_SCHEMA, PurgeMessage, PurgePlaylistMessage, parse
from shared.videos.reservations import reservation

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

SECONDS_TO_STOP = 20
"""Seconds of remaining run time below which the worker stops, and sends a message to continue later. One batch of
deletions takes less time."""


class PurgeSettings(Settings):
    sources_bucket: str
    media_bucket: str
    purge_queue_url: str


def make(settings: PurgeSettings, resources: Resources) -> LambdaHandler:
    """Return the Lambda handler. The entry point calls this function once, before the first event."""
    table, queue = resources.table(settings.table_name), resources.queue(settings.purge_queue_url)
    purge = Purge(table, resources.objects, settings.sources_bucket, settings.media_bucket)
    logger = service_logger()

    def carry_out(body: dict[str, Any], in_time: InTime) -> bool:
        if body.get("schema") == PURGE_PLAYLIST_SCHEMA:
            playlist_id = parse(PurgePlaylistMessage, body).playlistId
            return log_end(purge.playlist(playlist_id, in_time), playlist_id=playlist_id)
        message = parse(PurgeMessage, body)
        reserved = [reservation(message.owner, field, value) for field, value in message.unique.items()]
        is_complete = purge.video(message.videoId, int(resources.clock()), in_time, message.correlationId, reserved)
        return log_end(is_complete, video_id=message.videoId)

    def log_end(is_complete: bool, **log: str) -> bool:
        logger.info("leftovers purged" if is_complete else "leftovers purged in part", extra=log)
        return is_complete

    def handle(event: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
        def in_time() -> bool:
            return context.get_remaining_time_in_millis() > SECONDS_TO_STOP * 1000

        def process_message(message: Message) -> None:
            if not carry_out(message.json_body, in_time):
                # A new message, because SQS would move a message that is received too often to the DLQ.
                queue.send(message.json_body)

        return process(event, process_message, MessageProcessor())

    return service_logger().inject_lambda_context(handle)


lambda_handler = EntryPoint(PurgeSettings, make, resources=BackgroundResources)
