"""Consumer of messages about changed videos: updates the totals of users and tags, and the videos' index entries."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shared.aws.messages import BatchedProcessor, Message, MessageProcessor
from shared.aws.runtime import BackgroundResources, EntryPoint, Resources, process
from shared.background.aggregates import Aggregates, UnsettledVideos
from shared.core.errors import Unavailable
from shared.core.settings import LambdaHandler, Settings
from shared.core.telemetry import service_logger, use_correlation_id
from shared.processing.messages import AggregatesMessage, aggregates_message, parse
from shared.relations.entry_updates import EntryUpdater

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

SECONDS_TO_STOP = 30
"""Seconds of remaining run time below which the function stops, and queues the remaining videos again. One update, and
the sending of the messages, take less time."""


class AggregatesSettings(Settings):
    aggregates_queue_url: str


def make(settings: AggregatesSettings, resources: Resources) -> LambdaHandler:
    """Return the Lambda handler. The entry point calls this function once, before the first event."""
    table, queue = resources.table(settings.table_name), resources.queue(settings.aggregates_queue_url)
    aggregates, mover = Aggregates(table, resources.elapsed), EntryUpdater(table)
    logger = service_logger()

    def handle(event: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
        retried: set[str] = set()
        """Ids of failed messages, which SQS will redeliver."""
        requeued: dict[str, dict[str, Any]] = {}
        """New messages for videos that this invocation could not finish. Each key is the id of the received message
        that the new message replaces.

        SQS would count each redelivery of the received message as a failure, and would finally move the message to the
        dead-letter queue.
        """
        moved: set[str] = set()
        """Ids of the videos whose index entries this invocation has already updated."""

        def in_time() -> bool:
            return context.get_remaining_time_in_millis() > SECONDS_TO_STOP * 1000

        def settle(messages: Sequence[Message]) -> None:
            bodies = {message.message_id: parse(AggregatesMessage, message.json_body) for message in messages}
            requests = {body.videoId: body.correlationId for body in bodies.values()}
            contended, unreached = frozenset[str](), frozenset[str]()
            try:
                aggregates.settle([body.videoId for body in bodies.values()], int(resources.clock()), requests, in_time)
            except UnsettledVideos as error:
                contended, unreached = error.contended, error.unreached
            for id_, body in bodies.items():
                with use_correlation_id(body.correlationId):
                    if body.videoId in contended:
                        retried.add(id_)
                        logger.warning("totals not updated", extra={"video_id": body.videoId})
                    elif body.videoId in unreached:
                        requeued[id_] = aggregates_message(body.videoId, body.correlationId, entries=body.entries)
                    else:
                        logger.info("totals updated", extra={"video_id": body.videoId})

        def move_entries(message: Message) -> None:
            body = parse(AggregatesMessage, message.json_body)
            if not body.entries or body.videoId in moved:
                return
            seconds = mover.update_entries(body.videoId, int(resources.clock()), in_time)
            moved.add(body.videoId)
            if seconds is not None:
                rest = aggregates_message(body.videoId, body.correlationId, entries=True)
                if seconds:
                    queue.send(rest, delay_seconds=seconds)
                else:
                    requeued[message.message_id] = rest

        unsettled = process(event, settle, BatchedProcessor())
        retried.update(failure["itemIdentifier"] for failure in unsettled["batchItemFailures"])
        # Index entries are updated last, video by video. A video may have thousands of them, and no total should wait for them.
        settled = [record for record in event["Records"] if record["messageId"] not in retried | requeued.keys()]
        unmoved = process({"Records": settled}, move_entries, MessageProcessor())
        retried.update(failure["itemIdentifier"] for failure in unmoved["batchItemFailures"])
        try:
            queue.send_all(list(requeued.values()))
        except Unavailable as error:
            logger.warning(
                "remaining messages not sent", extra={"messages": len(requeued), "cause": repr(error.__cause__)}
            )
            retried |= requeued.keys()
        return {
            "batchItemFailures": [
                {"itemIdentifier": record["messageId"]} for record in event["Records"] if record["messageId"] in retried
            ]
        }

    return service_logger().inject_lambda_context(handle)


lambda_handler = EntryPoint(AggregatesSettings, make, resources=BackgroundResources)
