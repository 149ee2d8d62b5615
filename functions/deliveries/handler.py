"""Delivers changes to webhooks and the event bus, in the order of each video, until they are taken."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from shared.aws.dynamodb import Table, make_client, make_lean_client
from shared.aws.lean.client import EVENTBRIDGE
from shared.aws.sqs import Message, Queue, process
from shared.aws.sqs import make_client as make_sqs_client
from shared.core.settings import (
    LambdaHandler,
    audit_table_name,
    deliveries_queue_url,
    entry_point,
    event_bus,
    shares,
    table_name,
    webhook_local,
    webhook_secret_arn,
)
from shared.core.telemetry import emit, logged
from shared.feed.log import Feed
from shared.films.messages import CHANGED_SCHEMA, ChangedMessage, DeliverMessage, deliver_message, parse
from shared.web.cursors import secret_reader
from shared.webhooks.carriers import Carrier, Receivers
from shared.webhooks.delivering import Delivered, Deliverer
from shared.webhooks.places import PlaceStore
from shared.webhooks.quotas import DeliveryQuotas

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from shared.upkeep.stream_router import Sender

METRICS = {
    "DeliveriesDone": "done",
    "DeliveriesFailed": "failed",
    "WebhooksPaused": "paused",
    "DeliveryLag": "lag",
    "DeliveryWait": "wait",
}
"""What is measured of deliveries, and the attribute of Delivered that it is."""


def make(
    places: PlaceStore,
    feed: Feed,
    receivers: Carrier,
    queue: "Sender",
    shares: Mapping[str, int],
    *,
    bus: Carrier | None = None,
    clock: Callable[[], float] = time.time,
) -> LambdaHandler:
    """The handler over the places and the feed; `queue` is its own, `shares` are the quotas, `clock` gives epoch seconds."""

    def wake(webhook_id: str, delay_seconds: int, claimed: tuple[str, str] | None = None) -> None:
        queue.send(deliver_message(webhook_id, claimed), delay_seconds)

    quotas = DeliveryQuotas(places, shares, clock)
    deliverer = Deliverer(places, feed, receivers, quotas, wake, bus=bus, measure=_measure, clock=clock)

    def handle(event: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
        def seconds_left() -> float:
            return context.get_remaining_time_in_millis() / 1000

        def take(message: Message) -> None:
            if message.body.get("schema") == CHANGED_SCHEMA:
                owners = parse(ChangedMessage, message.body).owners
                queue.send_all([deliver_message(webhook_id) for webhook_id in deliverer.followers(owners)])
            else:
                about = parse(DeliverMessage, message.body)
                deliverer.deliver(about.webhookId, seconds_left, about.claimed)

        return process(event, take)

    return logged(handle)


def _measure(delivered: Delivered) -> None:
    values = {metric: getattr(delivered, name) for metric, name in METRICS.items()}
    emit({metric: value for metric, value in values.items() if value})


def _deployed() -> LambdaHandler:
    client = make_client()
    bus: Carrier | None = None
    if name := event_bus():
        from shared.webhooks.bus import EventBus  # few have one

        bus = EventBus(name, make_lean_client(EVENTBRIDGE))
    return make(
        PlaceStore(Table(table_name(), client)),
        Feed(Table(audit_table_name(), client)),
        Receivers(secret_reader(webhook_secret_arn()), local=webhook_local()),
        Queue(deliveries_queue_url(), make_sqs_client()),
        shares(),
        bus=bus,
    )


lambda_handler = entry_point(_deployed)
