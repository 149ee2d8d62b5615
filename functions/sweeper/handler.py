"""Runs every minute: gives jobs whose worker died, or whose message was lost, to another worker."""

import time
from collections.abc import Callable
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from shared.dynamodb import Table, make_client
from shared.jobs import JobStore
from shared.settings import LambdaHandler, entry_point, table_name
from shared.sweeping import sweep

SECONDS_TO_STOP = 10
"""How long before its time-out it leaves the rest to the next minute: longer than one DynamoDB request may take."""


def make(store: JobStore, clock: Callable[[], float] = time.time) -> LambdaHandler:
    """The handler over a store; `clock` gives epoch seconds."""
    logger = Logger()

    def handle(_: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
        def in_time() -> bool:
            return context.get_remaining_time_in_millis() > SECONDS_TO_STOP * 1000

        swept = sweep(store, int(clock()), in_time)
        if any(swept.values()):
            logger.warning("jobs were overdue", extra=swept)
        return swept

    return handle


def _deployed() -> LambdaHandler:
    return make(JobStore(Table(table_name(), make_client())))


lambda_handler = entry_point(_deployed)
