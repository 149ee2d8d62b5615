"""Removes what belonged to a removed video: its other items, its counters and its objects."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from shared.dynamodb import Table, make_client
from shared.messages import PurgeMessage, parse
from shared.objects import Objects
from shared.objects import make_client as make_s3_client
from shared.purging import Purge
from shared.queues import process
from shared.settings import LambdaHandler, entry_point, media_bucket, sources_bucket, table_name


def make(purge: Purge) -> LambdaHandler:
    """The handler over the stores."""

    def handle(event: dict[str, Any], _: LambdaContext) -> dict[str, Any]:
        return process(event, lambda message: purge.video(parse(PurgeMessage, message.body).videoId))

    return handle


def _deployed() -> LambdaHandler:
    objects = Objects(make_s3_client())
    return make(Purge(Table(table_name(), make_client()), objects, sources_bucket(), media_bucket()))


lambda_handler = entry_point(_deployed)
