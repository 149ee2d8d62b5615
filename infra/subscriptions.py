"""Consumers of changes: the feed, webhooks and an event bus. Their functions, environment and permissions."""

from collections.abc import Callable, Mapping

import aws_cdk as cdk
from aws_cdk import aws_sqs as sqs

from infra import attributes
from infra.data_stack import DataStack
from infra.function import ServiceFunction
from infra.settings import DeploymentSettings
from shared import schema

DELIVERIES_TIMEOUT = cdk.Duration.seconds(120)
"""Timeout for some pages of changes to a healthy receiver. A larger backlog continues with another message."""


def delivery_quotas(workers: int) -> Mapping[str, int]:
    """Return the concurrency quotas of one owner's webhooks, of one owner's slow receivers, and of all slow receivers.

    One owner, and all slow receivers, leave workers to others (shared/webhooks/quotas.py).
    """
    return {"deliveries": max(1, workers * 3 // 10), "slow-deliveries": 1, "all-slow-deliveries": workers // 2}


NewFunction = Callable[..., ServiceFunction]
"""Factory that creates a function in a stack by its id."""


def shares_of(most: Mapping[str, int]) -> str:
    """Return limits by queue in the format of the variable SHARES."""
    return ",".join(f"{queue}={limit}" for queue, limit in most.items())


def allow_appending(audit: ServiceFunction, data: DataStack, deliveries: sqs.IQueue) -> None:
    """Allow appending to the feed, reading its end, and notifying the delivery worker."""
    audit.allow_items("GetItem", "PutItem", "Query", of=schema.FEED_ENTITIES, table=data.audit_table)
    audit.allow_send(deliveries)


def allow_following(function: ServiceFunction, data: DataStack) -> None:
    """Allow reading the feed and its end."""
    function.allow_items("GetItem", "Query", of=schema.FEED_ENTITIES, table=data.audit_table)


def webhook_environment(settings: DeploymentSettings, data: DataStack, deliveries: sqs.IQueue) -> dict[str, str]:
    """Return the variables for reading the feed, signing deliveries and notifying the worker."""
    return {
        "AUDIT_TABLE_NAME": data.audit_table.table_name,
        "WEBHOOK_SECRET_ARN": data.webhook_secret.secret_arn,
        "DELIVERIES_QUEUE_URL": deliveries.queue_url,
        # Allows loopback receivers on a laptop. Never set on AWS.
        **({"WEBHOOK_LOCAL": "true"} if settings.target == "local" else {}),
    }


def allow_webhooks(webhooks: ServiceFunction, data: DataStack, deliveries: sqs.IQueue) -> None:
    """Allow writing webhooks and their index entries, listing them by user or subscription, and notifying the worker."""
    webhooks.allow_items("BatchGetItem", "DeleteItem", "PutItem", "Query", "UpdateItem", of=[schema.WEBHOOK])
    webhooks.allow_items("GetItem", "UpdateItem", of=[schema.WEBHOOKS], attributes=attributes.USER_WEBHOOKS)
    webhooks.allow_items("GetItem", "PutItem", of=[schema.IDEMPOTENCY])
    webhooks.allow_queries(schema.RELATION_INDEX)
    allow_following(webhooks, data)
    webhooks.allow_secret(data.webhook_secret)
    webhooks.allow_send(deliveries)


def deliveries(new: NewFunction, settings: DeploymentSettings, data: DataStack, queue: sqs.IQueue) -> ServiceFunction:
    """Return the worker that delivers changes to webhooks and to the event bus, if any.

    It queues remaining work for itself.
    """
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
    function.allow_items("UpdateItem", of=[schema.SHARE], attributes=attributes.QUOTA_CLAIMS)
    function.allow_queries(schema.RELATION_INDEX)
    function.allow_items("Query", of=schema.FEED_ENTITIES, table=data.audit_table)
    function.allow_secret(data.webhook_secret)
    function.allow_send(queue)
    if bus:
        function.allow_events(bus)
    return function
