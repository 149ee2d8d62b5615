"""Shared fixtures and settings. The settings prevent access to real AWS accounts. Each folder of tests defines its own
fixture `table`."""

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
from shared.core.telemetry import service_logger

# Set at import, before any client is created, so that the developer's AWS profile is never used.
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

# A shell may start background jobs with SIGINT ignored. Then tests of Ctrl-C and the programs that they start would
# hang.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Garbage collection with the default thresholds takes 8 percent of the CPU time of the unit tests.
gc.set_threshold(100_000, 50, 100)

# The duration of an example depends on the load of the machine.
settings.register_profile("untimed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def models_loaded_once() -> Iterator[None]:
    """Share one botocore loader between all sessions, because it caches parsed models. Parsing the model of S3 takes
    130 ms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", cache(botocore.session.create_loader))
        yield


@pytest.fixture(scope="session", autouse=True)
def create_service_logger() -> None:
    """Create the service's logger before the first test. A logger that a test with `capsys` creates would write to a
    stream that pytest closes after the test."""
    service_logger()


def pytest_collection_finish() -> None:
    """Exclude permanent objects from garbage collection: the modules and thousands of collected tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def clock() -> Clock:
    """Return a clock that moves only when a test advances it."""
    return Clock()


@pytest.fixture
def api(table: Table, clock: Clock) -> Api:
    """Return the service with an empty table."""
    return make_api(table, clock=clock)
