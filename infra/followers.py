"""What follows changes: the feed, webhooks, and an event bus. What that takes, and what each function may do for it."""

from collections.abc import Callable, Mapping

import aws_cdk as cdk
from aws_cdk import aws_sqs as sqs

from infra import attributes
from infra.data_stack import DataStack
from infra.function import ServiceFunction
from infra.settings import Settings
from shared import schema

DELIVERIES_TIMEOUT = cdk.Duration.seconds(120)
"""For some pages of changes to a receiver that answers; what is left of more becomes another message."""


def delivery_quotas(workers: int) -> Mapping[str, int]:
    """Return the concurrency quotas of one owner's webhooks, of one owner's slow receivers, and of all slow receivers.

    One owner, and all slow receivers, leave workers to others (shared/webhooks/quotas.py).
    """
    return {"deliveries": max(1, workers * 3 // 10), "slow-deliveries": 1, "all-slow-deliveries": workers // 2}


NewFunction = Callable[..., ServiceFunction]
"""Makes a function of a stack by its id."""


def shares_of(most: Mapping[str, int]) -> str:
    """Limits by queue as the variable SHARES has them."""
    return ",".join(f"{queue}={limit}" for queue, limit in most.items())


def allow_appending(audit: ServiceFunction, data: DataStack, deliveries: sqs.IQueue) -> None:
    """Append to the feed, which takes to read its end, and wake who follows."""
    audit.allow_items("GetItem", "PutItem", "Query", of=schema.FEED_ENTITIES, table=data.audit_table)
    audit.allow_send(deliveries)


def allow_following(function: ServiceFunction, data: DataStack) -> None:
    """Read the feed, and where it ends."""
    function.allow_items("GetItem", "Query", of=schema.FEED_ENTITIES, table=data.audit_table)


def webhook_environment(settings: Settings, data: DataStack, deliveries: sqs.IQueue) -> dict[str, str]:
    """The variables by which a function reads the feed, signs what it sends to receivers, and wakes the worker."""
    return {
        "AUDIT_TABLE_NAME": data.audit_table.table_name,
        "WEBHOOK_SECRET_ARN": data.webhook_secret.secret_arn,
        "DELIVERIES_QUEUE_URL": deliveries.queue_url,
        # Receivers on this machine, which AWS must never call: nothing there has this variable.
        **({"WEBHOOK_LOCAL": "true"} if settings.target == "local" else {}),
    }


def allow_webhooks(webhooks: ServiceFunction, data: DataStack, deliveries: sqs.IQueue) -> None:
    """Write webhooks and where they are, list a user's and who follows, and wake the worker."""
    webhooks.allow_items("BatchGetItem", "DeleteItem", "PutItem", "Query", "UpdateItem", of=[schema.WEBHOOK])
    webhooks.allow_items("GetItem", "UpdateItem", of=[schema.WEBHOOKS], attributes=attributes.USER_WEBHOOKS)
    webhooks.allow_items("GetItem", "PutItem", of=[schema.IDEMPOTENCY])
    webhooks.allow_queries(schema.RELATION_INDEX)
    allow_following(webhooks, data)
    webhooks.allow_secret(data.webhook_secret)
    webhooks.allow_send(deliveries)


def deliveries(new: NewFunction, settings: Settings, data: DataStack, queue: sqs.IQueue) -> ServiceFunction:
    """Tells receivers, and the event bus if there is one, of changes; what it does not reach, it sends to itself."""
    bus = settings.event_bus
    function = new(
        "Deliveries",
        timeout=DELIVERIES_TIMEOUT,
        feeds_itself=True,
        environment={
            **webhook_environment(settings, data, queue),
            "SHARES": shares_of(delivery_quotas(settings.delivery_workers)),
            **({"EVENT_BUS": bus} if bus else {}),
        },
    )
    function.allow_items("BatchGetItem", "GetItem", "PutItem", "UpdateItem", of=[schema.WEBHOOK])
    function.allow_items("DeleteItem", "PutItem", "Query", of=[schema.SHARE])
    function.allow_items("UpdateItem", of=[schema.SHARE], attributes=attributes.SHARE)
    function.allow_queries(schema.RELATION_INDEX)
    function.allow_items("Query", of=schema.FEED_ENTITIES, table=data.audit_table)
    function.allow_secret(data.webhook_secret)
    function.allow_send(queue)
    if bus:
        function.allow_events(bus)
    return function
