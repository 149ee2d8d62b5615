"""Moves the totals of users and tags, and the entries that lead to videos, to the present state of videos that changed."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from shared.aws.dynamodb import Table, make_client
from shared.aws.sqs import Message, Queue, process, process_together
from shared.aws.sqs import make_client as make_sqs_client
from shared.core.settings import LambdaHandler, aggregates_queue_url, entry_point, table_name
from shared.core.telemetry import correlated, logged, service_logger
from shared.films.messages import AggregatesMessage, aggregates_message, parse
from shared.relations.mover import EntryMover
from shared.upkeep.aggregates import Aggregates
from shared.upkeep.dispatch import Sender

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

SECONDS_TO_STOP = 30
"""How long before its time-out it leaves the rest to other messages: longer than one step, and sending them, may take."""


def make(
    aggregates: Aggregates, mover: EntryMover, queue: Sender, clock: Callable[[], float] = time.time
) -> LambdaHandler:
    """The handler over totals and entries; `queue` is its own, `clock` gives epoch seconds."""

    logger = service_logger()

    def settle(messages: Sequence[Message]) -> None:
        bodies = [parse(AggregatesMessage, message.body) for message in messages]
        requests = {body.videoId: body.correlationId for body in bodies}
        aggregates.settle([body.videoId for body in bodies], int(clock()), requests)
        for body in bodies:
            with correlated(body.correlationId):
                logger.info("totals settled", extra={"video_id": body.videoId})

    def handle(event: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
        def in_time() -> bool:
            return context.get_remaining_time_in_millis() > SECONDS_TO_STOP * 1000

        def move_entries(message: Message) -> None:
            body = parse(AggregatesMessage, message.body)
            if not body.entries:
                return
            later = mover.move_entries(body.videoId, int(clock()), in_time)
            if later is not None:
                # A message of its own, because receiving this one again and again would end in the DLQ.
                queue.send(aggregates_message(body.videoId, body.correlationId, entries=True), delay_seconds=later)

        unsettled = process_together(event, settle)["batchItemFailures"]
        kept_back = {failure["itemIdentifier"] for failure in unsettled}
        # Entries last and one by one: a video may have thousands of credits, and the totals of others should not wait.
        settled = [record for record in event["Records"] if record["messageId"] not in kept_back]
        unmoved = process({"Records": settled}, move_entries)["batchItemFailures"]
        return {"batchItemFailures": [*unsettled, *unmoved]}

    return logged(handle)


def _deployed() -> LambdaHandler:
    table = Table(table_name(), make_client())
    return make(Aggregates(table), EntryMover(table), Queue(aggregates_queue_url(), make_sqs_client()))


lambda_handler = entry_point(_deployed)
