"""Opens the table that a command works on: a deployed table, or the table of `make run`."""

import os
import re
import sys
import time
from collections.abc import MutableMapping

from botocore.exceptions import BotoCoreError, ClientError, NoRegionError

from local import LocalError, running_service
from local.aws import Aws
from shared.aws.boto3_client import make_client
from shared.aws.dynamodb import Table
from shared.core.errors import ServiceError
from shared.history.trail import AuditStore
from shared.schema import AUDIT_TABLE_NAME, HEALTH, TABLE_NAME
from tools import ToolError
from tools.preflight import NO_REGION
from tools.rate_limit import PacedTable, TrailLagLimiter

REQUEST_ATTEMPTS = 20
"""Maximum attempts of one request. It is high, because a table that scales up during an import throttles requests for
some seconds."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}|arn:[!-~]{1,1000}")
"""Pattern of the table names and ARNs that DynamoDB accepts."""


def open_table(name: str | None) -> Table:
    """Open the named table, or the table of the local service if `name` is `None`.

    Costs one read. Raises ToolError if the table is not readable.
    """
    if name is None:
        use_local_service(os.environ)
    elif not _NAME.fullmatch(name):
        raise ToolError(
            f"{name!r} is not a table name. It must have 3 to 255 letters, digits, dots, hyphens and underscores."
        )
    else:
        _choose_region(os.environ)
    try:
        table = Table(name or TABLE_NAME, make_client(), attempts=REQUEST_ATTEMPTS, sleep=time.sleep)
    except NoRegionError as error:
        raise ToolError(NO_REGION) from error
    except BotoCoreError as error:
        raise ToolError(f"AWS cannot be reached: {error}") from error
    return _readable(table)


def open_trail(table: Table) -> AuditStore:
    """Open the audit trail of a table. The name of the audit table is derived from the table's name.

    Raises ToolError if the trail is not readable.
    """
    name = table.name.replace(TABLE_NAME, AUDIT_TABLE_NAME)
    if name == table.name:
        raise ToolError(f"The table {name} has no audit trail. Only a table with {TABLE_NAME} in its name has one.")
    return AuditStore(_readable(Table(name, table.client, attempts=REQUEST_ATTEMPTS, sleep=time.sleep)))


def paced(table: Table, changeset_id: str) -> tuple[Table, TrailLagLimiter | None]:
    """Return a table that reports its writes to a limiter, and that limiter. The limiter waits while the trail lags.

    If the table has no audit trail, return the same table and `None`.
    """
    try:
        pace = TrailLagLimiter(open_trail(table), changeset_id)
    except ToolError as error:
        print(f"{error} Therefore, the command writes without waiting for the audit trail.", file=sys.stderr)
        return table, None
    return PacedTable(pace, table.name, table.client, attempts=REQUEST_ATTEMPTS, sleep=time.sleep), pace


def _readable(table: Table) -> Table:
    try:
        Table(table.name, table.client, attempts=2).get(HEALTH.key())
    except ServiceError as error:
        if _is_absent(error.__cause__):
            raise ToolError(
                f"The table {table.name} does not exist. Check its name, the credentials and the region."
            ) from error
        cause = f" ({error.__cause__})" if error.__cause__ else ""
        raise ToolError(f"The table {table.name} cannot be read: {error.detail}{cause}") from error
    return table


def _is_absent(cause: BaseException | None) -> bool:
    return isinstance(cause, ClientError) and cause.response["Error"]["Code"] == "ResourceNotFoundException"


def _choose_region(environment: MutableMapping[str, str]) -> None:
    """Copy AWS_REGION to AWS_DEFAULT_REGION. The CDK reads AWS_REGION, but botocore reads only AWS_DEFAULT_REGION."""
    if region := environment.get("AWS_REGION"):
        environment["AWS_DEFAULT_REGION"] = region


def use_local_service(environment: MutableMapping[str, str]) -> None:
    """Set environment variables so that AWS clients call the running local service. Deletes all other AWS variables.

    Raises ToolError if the service is not running.
    """
    try:
        aws = Aws.of(running_service())
    except LocalError as error:
        raise ToolError(str(error)) from error
    for name in [name for name in environment if name.startswith("AWS_")]:
        del environment[name]
    environment.update(
        {
            **aws.environment(),
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "NO_PROXY": "127.0.0.1,localhost",
        }
    )
