"""Runs every five minutes: computes the lists of what is viewed most."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shared.aws.runtime import EntryPoint, Resources
from shared.core.settings import LambdaHandler, Settings
from shared.core.telemetry import service_logger
from shared.views.rankings import Rankings

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

SECONDS_FOR_DAYS = 50
"""How much of its time must be left to begin with the lists by days; else the next run computes them."""


def make(rankings: Rankings, clock: Callable[[], float] = time.time) -> LambdaHandler:
    """The handler over a table's rankings; `clock` gives epoch seconds."""

    def handle(_: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
        def in_time() -> bool:
            return context.get_remaining_time_in_millis() > SECONDS_FOR_DAYS * 1000

        service_logger().info("lists computed", extra=rankings.compute(int(clock()), in_time))
        return {}

    return service_logger().inject_lambda_context(handle)


def _deployed(settings: Settings, resources: Resources) -> LambdaHandler:
    return make(Rankings(resources.table(settings.table_name)), resources.clock)


lambda_handler = EntryPoint(Settings, _deployed)
