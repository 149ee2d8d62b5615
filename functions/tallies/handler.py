"""Counts what the stream brings: views of viewers and keys, ratings, and what counters held when an hour began."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from shared.aws.messages import GroupProcessor, Message
from shared.aws.runtime import EntryPoint, Resources, process
from shared.core.settings import LambdaHandler, Settings
from shared.core.telemetry import service_logger
from shared.films.messages import TallyMessage, parse
from shared.upkeep.tallies import Tallies

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def make(tallies: Tallies, clock: Callable[[], float] = time.time) -> LambdaHandler:
    """The handler over totals; `clock` gives epoch seconds."""

    def count(messages: Sequence[Message]) -> None:
        tallies.apply([parse(TallyMessage, message.json_body) for message in messages], int(clock()))

    def handle(event: dict[str, Any], _: "LambdaContext") -> dict[str, Any]:
        return process(event, count, GroupProcessor())

    return service_logger().inject_lambda_context(handle)


def _deployed(settings: Settings, resources: Resources) -> LambdaHandler:
    return make(Tallies(resources.table(settings.table_name)), resources.clock)


lambda_handler = EntryPoint(Settings, _deployed)
