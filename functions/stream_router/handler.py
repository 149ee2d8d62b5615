"""Reads the table's stream: makes jobs of what changed, messages of the jobs, and has totals moved and remains purged."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shared.aws.dynamodb import Table, make_client
from shared.aws.sqs import Queue
from shared.aws.sqs import make_client as make_queue_client
from shared.aws.stream import process
from shared.core.settings import LambdaHandler, entry_point, media_bucket, queue_url, shares, table_name
from shared.core.telemetry import logged
from shared.films.jobs import JobStore
from shared.films.shares import ShareStore
from shared.upkeep.stream_router import QUEUES, StreamRouter

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def make(router: StreamRouter, clock: Callable[[], float] = time.time) -> LambdaHandler:
    """The handler over a router; `clock` gives epoch seconds."""

    def handle(event: dict[str, Any], _: "LambdaContext") -> dict[str, Any]:
        return process(event, lambda record: router.route(record, int(clock())), router.flush)

    return logged(handle)


def _deployed() -> LambdaHandler:
    client = make_queue_client()
    queues = {name: Queue(queue_url(name), client) for name in QUEUES}
    table = Table(table_name(), make_client())
    return make(StreamRouter(JobStore(table), ShareStore(table, shares()), queues, media_bucket()))


lambda_handler = entry_point(_deployed)
