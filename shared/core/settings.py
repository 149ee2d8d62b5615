"""What a function reads from its environment, when its handler is made and not at import."""

import os
import random
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

LambdaHandler: TypeAlias = Callable[[dict[str, Any], "LambdaContext"], dict[str, Any]]

WORKER_MB = 224
"""What a function that hands films to a reader needs itself, with the code of both."""


def table_name() -> str:
    """The table's name."""
    return os.environ["TABLE_NAME"]


def audit_table_name() -> str:
    """The name of the table of audit entries."""
    return os.environ["AUDIT_TABLE_NAME"]


def audit_days() -> int:
    """How many days an audit entry stays in its table."""
    return int(os.environ["AUDIT_DAYS"])


def archive_bucket() -> str:
    """The bucket of the audit archive."""
    return os.environ["ARCHIVE_BUCKET"]


def cursor_secret_arn() -> str:
    """The Secrets Manager secret that cursors are sealed with."""
    return os.environ["CURSOR_SECRET_ARN"]


def webhook_secret_arn() -> str:
    """The Secrets Manager secret that the secrets of webhooks are derived from."""
    return os.environ["WEBHOOK_SECRET_ARN"]


def webhook_local() -> bool:
    """Whether webhooks may lead to this machine, and by plain http: on a laptop only."""
    return os.environ.get("WEBHOOK_LOCAL") == "true"


def event_bus() -> str | None:
    """The name or ARN of the bus of EventBridge that all changes are put on; None: there is none."""
    return os.environ.get("EVENT_BUS")


def answer_seconds() -> float:
    """How long a GET may take: 5 seconds, unless ANSWER_SECONDS says otherwise."""
    return float(os.environ.get("ANSWER_SECONDS", "5"))


def media_bucket() -> str:
    """The bucket of pictures and renditions."""
    return os.environ["MEDIA_BUCKET"]


def sources_bucket() -> str:
    """The bucket that films are uploaded to."""
    return os.environ["SOURCES_BUCKET"]


def media_url() -> str:
    """Where clients find the thumbnails of the media bucket; without a slash at its end."""
    return os.environ["MEDIA_URL"]


def jobs_per_day() -> int:
    """How many jobs one owner may start on one day (UTC)."""
    return int(os.environ["JOBS_PER_DAY"])


def view_window_seconds() -> int:
    """In how many seconds the views of one viewer count once."""
    return int(os.environ["VIEW_WINDOW_SECONDS"])


def count_own_views() -> bool:
    """Whether the views of a video's owner count."""
    return os.environ["COUNT_OWN_VIEWS"] == "true"


def rendition_names() -> tuple[str, ...]:
    """The renditions that are made, by their names in the ladder."""
    return tuple(os.environ["RENDITIONS"].split(","))


def reader_memory() -> int:
    """How many bytes the reader of films may hold: what Lambda gives the function, without what that needs itself."""
    return (int(os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]) - WORKER_MB) << 20


def shares() -> dict[str, int]:
    """Return the quota of each owner by queue, in jobs or webhooks with the workers, from `probe=4,thumbnails=4`."""
    pairs = (pair.split("=") for pair in os.environ["SHARES"].split(","))
    return {queue: int(most) for queue, most in pairs}


def queue_url(name: str) -> str:
    """The URL of one of the queues, such as `thumbnails`."""
    return os.environ[f"{name.upper()}_QUEUE_URL"]


def purge_queue_url() -> str:
    """The URL of the queue `purge`."""
    return queue_url("purge")


def reverts_queue_url() -> str:
    """The URL of the queue `reverts`."""
    return queue_url("reverts")


def deliveries_queue_url() -> str:
    """The URL of the queue `deliveries`."""
    return queue_url("deliveries")


def aggregates_queue_url() -> str:
    """The URL of the queue `aggregates`."""
    return queue_url("aggregates")


def entry_point(make: Callable[[], LambdaHandler], *later: str) -> LambdaHandler:
    """A Lambda handler that is made once: while Lambda starts the function, elsewhere at the first event.

    Lambda gives a starting function more processor time than it will ever have again, so clients are made
    then; tests that import a handler module need no environment. `later` are modules that only some requests need: they are
    imported when one does, but at once, with what logs and what renews credentials, where no request waits for the start.
    https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html, AWS_LAMBDA_INITIALIZATION_TYPE
    """
    made, seeded = cache(make), cache(random.seed)
    if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
        made()
        if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand") != "on-demand":
            for module in ("aws_lambda_powertools", "botocore.session", *later):
                import_module(module)

    def lambda_handler(event: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
        # Anew in each instance: those that start from one snapshot would all pause as long before they try again.
        seeded()
        return made()(event, context)

    return lambda_handler
