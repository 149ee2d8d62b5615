"""Shared fixtures: settings that prevent access to real AWS accounts, and the service over a layer's `table`."""

import gc
import os
import signal
from collections.abc import Iterator
from functools import cache

import botocore.session
import pytest
from hypothesis import HealthCheck, settings

from local.testbed.harness import Api, Clock, make_api
from shared.aws.dynamodb import Table

# At import, so that they hold before any client is made, whatever the developer's own profile says.
os.environ |= {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    # moto does not support DynamoDB's account-based endpoints.
    "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled",
    "POWERTOOLS_METRICS_NAMESPACE": "VideoMetadata",
    "POWERTOOLS_SERVICE_NAME": "test",
    "ENVIRONMENT": "test",
}
for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
    os.environ.pop(name, None)

# A shell starts background jobs with SIGINT ignored. Tests of Ctrl-C, and the programs that they start, would hang.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Collecting young objects as often as by default takes 8 percent of the CPU of the unit tests.
gc.set_threshold(100_000, 50, 100)

# How long an example takes depends on what else the machine does.
settings.register_profile("untimed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def models_loaded_once() -> Iterator[None]:
    """Share one botocore loader between all sessions. It caches the models it read; parsing S3's model takes 130 ms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", cache(botocore.session.create_loader))
        yield


def pytest_collection_finish() -> None:
    """Exclude permanent objects from garbage collection: the modules and thousands of collected tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def clock() -> Clock:
    """The time, which stands still until it is moved."""
    return Clock()


@pytest.fixture
def api(table: Table, clock: Clock) -> Api:
    """The service over an empty table."""
    return make_api(table, clock=clock)
