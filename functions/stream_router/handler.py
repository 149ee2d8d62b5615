"""Reads the table's stream: makes jobs of what changed, messages of the jobs, and has totals moved and remains purged."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shared.aws.runtime import EntryPoint, Resources
from shared.aws.stream import process
from shared.core.settings import VARIABLES, LambdaHandler, Settings
from shared.core.telemetry import logged
from shared.films.jobs import JobStore
from shared.films.shares import ShareStore
from shared.upkeep.stream_router import QUEUES, StreamRouter

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@dataclass(frozen=True, kw_only=True)
class StreamRouterSettings(Settings):
    media_bucket: str
    shares: Mapping[str, int]
    """Concurrency quota per owner, by queue."""
    queue_urls: Mapping[str, str] = field(metadata={VARIABLES: {name: f"{name.upper()}_QUEUE_URL" for name in QUEUES}})


def make(router: StreamRouter, clock: Callable[[], float] = time.time) -> LambdaHandler:
    """The handler over a router; `clock` gives epoch seconds."""

    def handle(event: dict[str, Any], _: "LambdaContext") -> dict[str, Any]:
        return process(event, lambda record: router.route(record, int(clock())), router.flush)

    return logged(handle)


def _deployed(settings: StreamRouterSettings, resources: Resources) -> LambdaHandler:
    table = resources.table(settings.table_name)
    queues = {name: resources.queue(url) for name, url in settings.queue_urls.items()}
    router = StreamRouter(JobStore(table), ShareStore(table, settings.shares), queues, settings.media_bucket)
    return make(router, resources.clock)


lambda_handler = EntryPoint(StreamRouterSettings, _deployed)
