"""Worker that delivers changes to webhooks and the event bus, with retries. The changes of a video are delivered in order."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from shared.aws.messages import Message, MessageProcessor
from shared.aws.runtime import BackgroundResources, EntryPoint, Resources, process
from shared.core.settings import LambdaHandler, Settings
from shared.core.telemetry import emit, service_logger
from shared.feed.log import Feed
from shared.processing.messages import CHANGED_SCHEMA, ChangedMessage, DeliverMessage, deliver_message, parse
from shared.webhooks import http_client
from shared.webhooks.delivery import Deliverer, DeliveryResult
from shared.webhooks.delivery_state import DeliveryStateStore
from shared.webhooks.http_client import ReceiverResponse
from shared.webhooks.quotas import DeliveryQuotas
from shared.webhooks.transport import HttpTransport, Transport

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


BEHIND_SECONDS = 5
"""The queue has a backlog if a received message is at least this many seconds old. Such a message has waited because
all workers were busy."""

METRICS = {
    "DeliveriesDone": "done",
    "DeliveriesFailed": "failed",
    "WebhooksPaused": "paused",
    "DeliveryLag": "lag",
    "DeliveryWait": "wait",
}
"""Maps each metric to the attribute of DeliveryResult that it reports."""


class DeliveriesSettings(Settings):
    audit_table_name: str
    webhook_secret_arn: str
    deliveries_queue_url: str
    shares: Mapping[str, int]
    """Maximum number of concurrent deliveries, by name of the quota (shared/webhooks/quotas.py)."""
    webhook_local: bool = False
    """Whether the URLs of webhooks may refer to this machine and use plain HTTP. True only in a service on a laptop."""
    event_bus: str | None = None
    """Name or ARN of the EventBridge bus that receives all changes."""


def make(
    settings: DeliveriesSettings, resources: Resources, *, send: Callable[..., ReceiverResponse] = http_client.send
) -> LambdaHandler:
    """Return the function's handler. `send` sends an HTTP request to a receiver; tests replace it."""
    clock, queue = resources.clock, resources.queue(settings.deliveries_queue_url)
    states = DeliveryStateStore(resources.table(settings.table_name))
    feed = Feed(resources.table(settings.audit_table_name), clock)
    secret = resources.secret(settings.webhook_secret_arn)
    receivers = HttpTransport(secret, local=settings.webhook_local, send=send, clock=clock)
    quotas = DeliveryQuotas(states, settings.shares, clock)
    bus: Transport | None = None
    if settings.event_bus:
        from shared.webhooks.event_bus import EventBus  # few deployments have one

        bus = EventBus(settings.event_bus, resources.events(), clock)

    def notify(webhook_id: str, delay_seconds: int, claimed: tuple[str, str] | None = None) -> None:
        queue.send(deliver_message(webhook_id, claimed), delay_seconds)

    deliverer = Deliverer(states, feed, receivers, quotas, notify, bus=bus, measure=_measure, clock=clock)

    def handle(event: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
        def seconds_left() -> float:
            return context.get_remaining_time_in_millis() / 1000

        def process_message(message: Message) -> None:
            if message.json_body.get("schema") == CHANGED_SCHEMA:
                owners = parse(ChangedMessage, message.json_body).owners
                is_behind = clock() - int(message.attributes.sent_timestamp) / 1000 >= BEHIND_SECONDS
                notified = deliverer.select_to_notify(owners, is_behind=is_behind)
                queue.send_all([deliver_message(webhook_id) for webhook_id in notified])
            else:
                about = parse(DeliverMessage, message.json_body)
                deliverer.deliver(about.webhookId, seconds_left, about.claimed)

        return process(event, process_message, MessageProcessor())

    return service_logger().inject_lambda_context(handle)


def _measure(delivered: DeliveryResult) -> None:
    values = {metric: getattr(delivered, name) for metric, name in METRICS.items()}
    emit({metric: value for metric, value in values.items() if value})


lambda_handler = EntryPoint(DeliveriesSettings, make, resources=BackgroundResources)
