"""Reader of secrets in AWS Secrets Manager."""

import time
from collections.abc import Callable
from typing import Any

from shared.aws.dynamodb import make_lean_client, uses_boto3
from shared.aws.failures import of_botocore
from shared.aws.lean.client import SECRETS_MANAGER, ErrorResponse, NotSent, ResponseLost
from shared.core.deadline import has_time
from shared.core.errors import Unavailable

REQUEST_ATTEMPTS = 3
"""Maximum number of attempts, including the first."""
PAUSE = 0.1
"""Seconds between two attempts."""


def secret_reader(
    arn: str, sleep: Callable[[float], None] = time.sleep, *, make_client: Callable[[], Any] | None = None
) -> Callable[[], str]:
    """Return a function that reads the secret `arn`. That function raises Unavailable if it cannot read the secret.

    The returned function makes at most three attempts. It makes no attempt that could exceed the deadline of the HTTP
    request. `make_client` returns the client of Secrets Manager. The default is the lean client, or boto3's if the
    environment selects it.
    """

    def read() -> str:
        client = (make_client or _secrets_client)()
        failure: Exception | None = None
        for attempt in range(REQUEST_ATTEMPTS):
            pause = PAUSE if attempt else 0
            if not has_time(pause):
                break
            sleep(pause)
            try:
                return str(client.get_secret_value(SecretId=arn)["SecretString"])
            except (ErrorResponse, NotSent, ResponseLost, *of_botocore("BotoCoreError", "ClientError")) as error:
                failure = error
        raise Unavailable("A secret of the service cannot be read.") from failure

    return read


def _secrets_client() -> Any:
    if uses_boto3():
        from shared.aws.boto3_client import make_secrets_client

        return make_secrets_client()
    return make_lean_client(SECRETS_MANAGER)
