"""What all tests share: settings under which none reaches a real AWS account, and the service over a layer's `table`."""

import os

import pytest

from shared.aws.dynamodb import Table
from tests.harness import Api, Clock, make_api

# At import, so that they hold before any client is made, whatever the developer's own profile says.
os.environ |= {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    # moto knows no DynamoDB endpoints that are named for an account.
    "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled",
    "POWERTOOLS_METRICS_NAMESPACE": "VideoMetadata",
    "POWERTOOLS_SERVICE_NAME": "test",
    "ENVIRONMENT": "test",
}
for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
    os.environ.pop(name, None)


@pytest.fixture
def clock() -> Clock:
    """The time, which stands still until it is moved."""
    return Clock()


@pytest.fixture
def api(table: Table, clock: Clock) -> Api:
    """The service over an empty table."""
    return make_api(table, clock=clock)
