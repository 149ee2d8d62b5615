"""Unit tests run on moto, in process."""

from collections.abc import Iterator

import pytest
from moto import mock_aws

from shared.dynamodb import Table, make_client
from tests.harness import Api, Clock, create_table, make_api


@pytest.fixture
def table() -> Iterator[Table]:
    """An empty table."""
    with mock_aws():
        client = make_client(attempts=1)
        create_table(client, "VideoMetadata")
        yield Table("VideoMetadata", client, sleep=lambda _: None)


@pytest.fixture
def clock() -> Clock:
    """The time, which stands still until it is moved."""
    return Clock()


@pytest.fixture
def api(table: Table, clock: Clock) -> Api:
    """The service over an empty table."""
    return make_api(table, clock=clock)
