"""What runs by the clock: the sweeper and the rankings."""

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sqs as sqs

from infra import attributes
from infra.followers import NewFunction
from infra.function import ServiceFunction
from shared import schema

SWEEP_EVERY = cdk.Duration.minutes(1)
SWEEPER_TIMEOUT = cdk.Duration.seconds(50)
"""So that one sweep ends before the next begins. What it does not reach, the next one does."""

RANK_EVERY = cdk.Duration.minutes(5)
RANKINGS_TIMEOUT = cdk.Duration.minutes(4)
"""So that one run ends before the next begins."""
RANKINGS_MB = 1024
"""For MOST_ENTRIES of hours or days and their counters at a time."""


def add_scheduled(stack: cdk.Stack, new: NewFunction, aggregates: sqs.IQueue, deliveries: sqs.IQueue) -> None:
    """Add both to a stack. In the queues are videos whose totals are to move, and webhooks whose receivers are to be told."""
    run_every(stack, SWEEP_EVERY, "Schedule", _sweeper(aggregates, deliveries, new), "look for jobs whose time is up")
    run_every(stack, RANK_EVERY, "RankingsSchedule", _rankings(new), "compute what is viewed most")


def _sweeper(aggregates: sqs.IQueue, deliveries: sqs.IQueue, new: NewFunction) -> ServiceFunction:
    """Queues again what got stuck, and sends for videos and webhooks whose time comes."""
    queues = {"AGGREGATES_QUEUE_URL": aggregates.queue_url, "DELIVERIES_QUEUE_URL": deliveries.queue_url}
    sweeper = new("Sweeper", timeout=SWEEPER_TIMEOUT, environment=queues)
    sweeper.allow_items("GetItem", "PutItem", "Query", of=[schema.VIDEO, schema.JOB])
    sweeper.allow_items(
        "UpdateItem", of=[schema.VIDEO, schema.JOB], attributes=(*attributes.FAILED_FILM, *attributes.WANTED_JOB)
    )
    sweeper.allow_queries(schema.RELATION_INDEX)
    sweeper.allow_send(aggregates, deliveries)
    return sweeper


def _rankings(new: NewFunction) -> ServiceFunction:
    """Computes what is viewed most, and folds counters that are calm; it cannot change what they have counted."""
    rankings = new("Rankings", memory_mb=RANKINGS_MB, timeout=RANKINGS_TIMEOUT)
    rankings.allow_items("BatchGetItem", "GetItem", "Query", of=[schema.VIEW_COUNTER])
    rankings.allow_items("UpdateItem", of=[schema.VIEW_COUNTER], attributes=attributes.CALMED)
    rankings.allow_items("BatchGetItem", "GetItem", "PutItem", of=[schema.TOP])
    rankings.allow_queries(schema.RELATION_INDEX)
    return rankings


LONGEST_WAIT = cdk.Duration.seconds(60)
"""How long Lambda keeps a call that it cannot begin: the next one comes anyway."""


def run_every(stack: cdk.Stack, interval: cdk.Duration, id_: str, function: ServiceFunction, purpose: str) -> None:
    """Have a function called by the clock; a call that fails, or cannot begin, is not repeated."""
    # Lambda's own queue: by default it tries twice again, and keeps a call for 6 hours.
    function.alias.configure_async_invoke(retry_attempts=0, max_event_age=LONGEST_WAIT)
    events.Rule(
        stack,
        id_,
        description=f"Video metadata: {purpose}",
        schedule=events.Schedule.rate(interval),
        # EventBridge's delivery to that queue.
        targets=[targets.LambdaFunction(function.alias, retry_attempts=0)],
    )
