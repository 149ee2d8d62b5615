"""What a function is told by its environment, read when its handler is made and not at import."""

import os
from collections.abc import Callable
from functools import cache
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from shared.http import LambdaHandler


def table_name() -> str:
    """The table's name."""
    return os.environ["TABLE_NAME"]


def cursor_secret_arn() -> str:
    """The Secrets Manager secret that cursors are sealed with."""
    return os.environ["CURSOR_SECRET_ARN"]


def entry_point(make: Callable[[], LambdaHandler]) -> LambdaHandler:
    """A Lambda handler that is made once: while Lambda starts the function, elsewhere at the first event.

    Lambda gives a starting function more processor time than it will ever have again, so clients are made
    then; tests that import a handler module need no environment.
    """
    made = cache(make)
    if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
        made()

    def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
        return made()(event, context)

    return lambda_handler
