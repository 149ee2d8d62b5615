"""Functions, environment and permissions for consumers of changes: the feed, webhooks and an event bus."""

from collections.abc import Callable, Mapping

import aws_cdk as cdk
from aws_cdk import aws_sqs as sqs

from infra import attributes
from infra.data_stack import DataStack
from infra.function import ServiceFunction
from infra.settings import DeploymentSettings
from shared import schema

DELIVERIES_TIMEOUT = cdk.Duration.seconds(120)
"""Timeout of the delivery worker, which can send some pages of changes within this time. If the time runs out, a new
message continues the delivery."""


def delivery_quotas(workers: int) -> Mapping[str, int]:
    """Return the concurrency quotas of deliveries, by name.

    A quota is the maximum number of webhooks that workers serve concurrently. The quota `deliveries` is for the
    webhooks of one owner, `slow-deliveries` for the slow receivers of one owner, and `all-slow-deliveries` for all slow
    receivers. The quotas keep workers free for other webhooks (shared/webhooks/quotas.py).
    """
    return {"deliveries": max(1, workers * 3 // 10), "slow-deliveries": 1, "all-slow-deliveries": workers // 2}


NewFunction = Callable[..., ServiceFunction]
"""Factory that adds a new Lambda function to a stack. The first argument is the function's construct id."""


def shares_of(most: Mapping[str, int]) -> str:
    """Return concurrency quotas in the format of the environment variable SHARES: `queue=limit`, separated by commas."""
    return ",".join(f"{queue}={limit}" for queue, limit in most.items())


def allow_appending(audit: ServiceFunction, data: DataStack, deliveries: sqs.IQueue) -> None:
    """Allow the audit function to append changes to the feed, and to send messages to the delivery worker."""
    audit.allow_items("GetItem", "PutItem", "Query", of=schema.FEED_ENTITIES, table=data.audit_table)
    audit.allow_send(deliveries)


def allow_following(function: ServiceFunction, data: DataStack) -> None:
    """Allow a function to read the changes in the feed, and the items that store the current end of each log."""
    function.allow_items("GetItem", "Query", of=schema.FEED_ENTITIES, table=data.audit_table)


def webhook_environment(settings: DeploymentSettings, data: DataStack, deliveries: sqs.IQueue) -> dict[str, str]:
    """Return the environment variables of functions that read the feed, sign deliveries and notify the delivery worker."""
    return {
        "AUDIT_TABLE_NAME": data.audit_table.table_name,
        "WEBHOOK_SECRET_ARN": data.webhook_secret.secret_arn,
        "DELIVERIES_QUEUE_URL": deliveries.queue_url,
        # Allows receivers at loopback addresses on the local target. It is never set on AWS.
        **({"WEBHOOK_LOCAL": "true"} if settings.target == "local" else {}),
    }


def allow_webhooks(webhooks: ServiceFunction, data: DataStack, deliveries: sqs.IQueue) -> None:
    """Allow all operations of the webhooks API: reading, listing and writing webhooks, and notifying the delivery worker."""
    webhooks.allow_items("BatchGetItem", "DeleteItem", "PutItem", "Query", "UpdateItem", of=[schema.WEBHOOK])
    webhooks.allow_items("GetItem", "UpdateItem", of=[schema.WEBHOOKS], attributes=attributes.USER_WEBHOOKS)
    webhooks.allow_items("GetItem", "PutItem", of=[schema.IDEMPOTENCY])
    webhooks.allow_queries(schema.RELATION_INDEX)
    allow_following(webhooks, data)
    webhooks.allow_secret(data.webhook_secret)
    webhooks.allow_send(deliveries)


def deliveries(new: NewFunction, settings: DeploymentSettings, data: DataStack, queue: sqs.IQueue) -> ServiceFunction:
    """Return the worker that delivers changes to webhooks, and to the event bus if one is configured.

    If time runs out, the worker sends itself a message to continue later.
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
