"""Unit tests run on moto, in process."""

from collections.abc import Iterator

import pytest
from moto import mock_aws

from shared.dynamodb import Table, make_client
from tests.harness import create_table


@pytest.fixture
def table() -> Iterator[Table]:
    """An empty table."""
    with mock_aws():
        client = make_client()
        create_table(client, "VideoMetadata")
        yield Table("VideoMetadata", client, sleep=lambda _: None)
