"""Scheduled functions: the sweeper and the rankings."""

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sqs as sqs

from infra import attributes
from infra.function import ServiceFunction
from infra.subscriptions import NewFunction
from shared import schema

SWEEP_EVERY = cdk.Duration.minutes(1)
SWEEPER_TIMEOUT = cdk.Duration.seconds(50)
"""Timeout of the sweeper. It is shorter than the interval, so sweeps do not overlap. The next sweep continues the work."""

RANK_EVERY = cdk.Duration.minutes(5)
RANKINGS_TIMEOUT = cdk.Duration.minutes(4)
"""Timeout of the rankings function. It is shorter than the interval, so runs do not overlap."""
RANKINGS_MB = 1024
"""Memory of the rankings function in megabytes. It must hold MAX_ENTRIES view counts (shared/views/rankings.py) and the
counters of their videos."""


def add_scheduled(stack: cdk.Stack, new: NewFunction, aggregates: sqs.IQueue, deliveries: sqs.IQueue) -> None:
    """Add the sweeper and the rankings function to a stack.

    The sweeper sends messages about scheduled videos to the queue `aggregates`, and about due webhooks to the queue
    `deliveries`.
    """
    run_every(stack, SWEEP_EVERY, "Schedule", _sweeper(aggregates, deliveries, new), "retry stuck jobs")
    run_every(stack, RANK_EVERY, "RankingsSchedule", _rankings(new), "compute the lists of the most viewed videos")


def _sweeper(aggregates: sqs.IQueue, deliveries: sqs.IQueue, new: NewFunction) -> ServiceFunction:
    """Return the sweeper, which requeues stuck jobs, and queues scheduled videos and due webhooks."""
    queues = {"AGGREGATES_QUEUE_URL": aggregates.queue_url, "DELIVERIES_QUEUE_URL": deliveries.queue_url}
    sweeper = new("Sweeper", timeout=SWEEPER_TIMEOUT, environment=queues)
    sweeper.allow_items("GetItem", "PutItem", "Query", of=[schema.VIDEO, schema.JOB])
    sweeper.allow_items(
        "UpdateItem", of=[schema.VIDEO, schema.JOB], attributes=(*attributes.FAILED_SOURCE, *attributes.REQUESTED_JOB)
    )
    sweeper.allow_queries(schema.RELATION_INDEX)
    sweeper.allow_send(aggregates, deliveries)
    return sweeper


def _rankings(new: NewFunction) -> ServiceFunction:
    """Return the Lambda function that computes top lists, updates the lists that are sorted by views, and merges idle
    shards of view counters.

    The function's role cannot change the counts in view counters.
    """
    rankings = new("Rankings", memory_mb=RANKINGS_MB, timeout=RANKINGS_TIMEOUT)
    rankings.allow_items("BatchGetItem", "GetItem", "Query", of=[schema.VIEW_COUNTER])
    rankings.allow_items("UpdateItem", of=[schema.VIEW_COUNTER], attributes=attributes.SHARD_CONTROL)
    rankings.allow_items("BatchGetItem", "GetItem", "PutItem", of=[schema.TOP])
    rankings.allow_items("GetItem", of=[schema.VIDEO], attributes=attributes.SORT_POSITION)
    rankings.allow_items("ConditionCheckItem", of=[schema.VIDEO])
    rankings.allow_items("PutItem", of=[schema.ORDER])
    rankings.allow_items("UpdateItem", of=[schema.ORDER], attributes=attributes.SORT_VALUE)
    rankings.allow_items("PutItem", of=[schema.VIEWS_BY_HOUR])
    rankings.allow_queries(schema.RELATION_INDEX)
    return rankings


LONGEST_WAIT = cdk.Duration.seconds(60)
"""Maximum time that an invocation may wait to start. After that, Lambda discards the invocation.

The next scheduled invocation does the work.
"""


def run_every(stack: cdk.Stack, interval: cdk.Duration, id_: str, function: ServiceFunction, purpose: str) -> None:
    """Invoke a function at a fixed interval. Lambda does not retry an invocation that fails or cannot start in time."""
    # By default, Lambda's queue of asynchronous invocations retries twice and retains an invocation for 6 hours.
    function.alias.configure_async_invoke(retry_attempts=0, max_event_age=LONGEST_WAIT)
    events.Rule(
        stack,
        id_,
        description=f"Video metadata: {purpose}",
        schedule=events.Schedule.rate(interval),
        # `retry_attempts` here applies to the delivery from EventBridge to that queue.
        targets=[targets.LambdaFunction(function.alias, retry_attempts=0)],
    )
