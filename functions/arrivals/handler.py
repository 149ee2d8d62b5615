"""Takes in films that have arrived in the bucket of sources."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shared.aws.dynamodb import Table, make_client
from shared.aws.s3 import Objects
from shared.aws.s3 import make_client as make_s3_client
from shared.aws.sqs import process
from shared.core.settings import LambdaHandler, entry_point, table_name
from shared.core.telemetry import logged
from shared.films.arrivals import Arrivals
from shared.films.uploads import UploadStore
from shared.videos.catalogue import VideoStore

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def make(arrivals: Arrivals, clock: Callable[[], float] = time.time) -> LambdaHandler:
    """The handler over the stores; `clock` gives epoch seconds."""

    def handle(event: dict[str, Any], _: "LambdaContext") -> dict[str, Any]:
        return process(event, lambda message: arrivals.handle(message.body, int(clock())))

    return logged(handle)


def _deployed() -> LambdaHandler:
    table = Table(table_name(), make_client())
    return make(Arrivals(UploadStore(table), Objects(make_s3_client()), VideoStore(table, moves_entries=False)))


lambda_handler = entry_point(_deployed)
