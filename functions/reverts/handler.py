"""Worker that reverts large change sets and moves folders, page by page. The function `undo` reverts small change sets
within the request."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shared.aws.messages import Message, MessageProcessor
from shared.aws.runtime import BackgroundResources, EntryPoint, Resources, process
from shared.core.attributes import Item
from shared.core.settings import LambdaHandler, Settings
from shared.core.telemetry import service_logger
from shared.history.changeset_reverts import ChangeSetReverts
from shared.history.folder_moves import FolderMoves
from shared.history.revert_runs import RunStore
from shared.history.trail import AuditStore
from shared.processing.daily_quota import QuotaStore
from shared.processing.messages import RevertMessage, parse

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

SECONDS_TO_STOP = 20
"""Seconds of remaining run time below which the worker stops, and sends a message to continue later. Reverting one item
takes less time."""


class RevertsSettings(Settings):
    audit_table_name: str
    jobs_per_day: int
    reverts_queue_url: str


def make(settings: RevertsSettings, resources: Resources) -> LambdaHandler:
    """Return the Lambda handler. The entry point calls this function once, before the first event."""
    table, trail = resources.table(settings.table_name), AuditStore(resources.table(settings.audit_table_name))
    sets = ChangeSetReverts(table, trail, QuotaStore(table, settings.jobs_per_day))
    moves, runs = FolderMoves(table), RunStore(table)
    queue = resources.queue(settings.reverts_queue_url)
    logger = service_logger()

    def step(run: Item, now: int, in_time: Callable[[], bool]) -> int:
        return moves.step(run, now, in_time) if "to" in run else sets.step(run, now, in_time)

    def handle(event: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
        def in_time() -> bool:
            return context.get_remaining_time_in_millis() > SECONDS_TO_STOP * 1000

        def process_message(message: Message) -> None:
            revert_id = parse(RevertMessage, message.json_body).revertId
            pause = runs.execute(revert_id, resources.clock, in_time, step)
            if pause is None:
                logger.info("nothing left to revert", extra={"revert_id": revert_id})
            else:
                # A new message, because SQS would move a message that is received too often to the DLQ.
                queue.send(message.json_body, delay_seconds=pause)
                logger.info("change set reverted in part", extra={"revert_id": revert_id})

        return process(event, process_message, MessageProcessor())

    return service_logger().inject_lambda_context(handle)


lambda_handler = EntryPoint(RevertsSettings, make, resources=BackgroundResources)
