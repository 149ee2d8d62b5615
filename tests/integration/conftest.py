"""Integration tests run the service in process, with DynamoDB over HTTP.

Each pytest process starts a MiniStack, and uses only its DynamoDB. DYNAMODB_ENDPOINT_URL can name another DynamoDB
instead. Its indexes must be strongly consistent, like the indexes of DynamoDB Local; the indexes of AWS are not. The
few tests with S3 and SQS always start their own MiniStack.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from local.aws import Aws
from local.ministack import MiniStack
from local.testbed.harness import Clock, create_table, make_api
from local.testbed.wire import WholeClient
from shared.aws import boto3_client
from shared.aws.dynamodb import Table
from tests.integration.concurrency import Instance
from tests.integration.faults import FaultLine
from tests.polling import patience

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Connect = Callable[[], "DynamoDBClient"]
"""Function that returns a client as a deployed function creates it."""

NewTable = Callable[[], Table]
"""Function that returns an empty table, which is deleted after the test module."""


@contextmanager
def reaching(aws: Aws) -> Iterator[None]:
    """Connect clients that are created within the block to an AWS endpoint.

    Sessions cache their credentials, so cached sessions are discarded before and after the block. Unit tests, which run
    in the same process, need other credentials.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, value in aws.environment().items():
            patch.setenv(name, value)
        _forget_sessions()
        yield
    _forget_sessions()


def _forget_sessions() -> None:
    for session in (boto3_client.session, boto3_client._boto3_session, boto3_client._plain_session):
        session.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def patient() -> Iterator[None]:
    """Use long time-outs in all tests of this folder."""
    with patience():
        yield


@pytest.fixture(scope="session")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    """Start DynamoDB with its streams, or use the configured endpoint."""
    endpoint = os.environ.get("DYNAMODB_ENDPOINT_URL")
    if endpoint:
        yield Aws(endpoint, endpoint, "test")
        return
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            # A configured endpoint may have only these services, so the tests must use no others.
            patch.setenv("SERVICES", "dynamodb,dynamodbstreams")
            log = tmp_path_factory.mktemp("dynamodb") / "ministack.log"
            ministack = stack.enter_context(MiniStack(log))
        yield ministack.aws


@pytest.fixture(scope="session")
def objects_aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    """Start S3 and SQS in one MiniStack, so that S3 can notify queues."""
    with MiniStack(tmp_path_factory.mktemp("objects") / "ministack.log") as ministack:
        yield ministack.aws


@pytest.fixture(scope="session")
def connect(aws: Aws) -> Iterator[Connect]:
    """Return a function that creates clients as a deployed function does. The fixture closes them after all tests."""
    clients: list[Any] = []

    def make() -> "DynamoDBClient":
        with reaching(aws), patience():
            reference = boto3_client.make_client()
            lean: Any = WholeClient(aws.endpoint, reference, aws.secret_access_key)
            clients.extend((reference, lean))
            return reference if os.environ.get("DYNAMODB_CLIENT") == "boto3" else lean

    yield make
    for client in clients:
        client.close()


@pytest.fixture(scope="session")
def client(connect: Connect) -> "DynamoDBClient":
    """Return a client without fault injection and without retries. Clients are thread-safe."""
    return connect()


@pytest.fixture(scope="session")
def streams(aws: Aws) -> Any:
    """Return a client of the tables' streams."""
    with patience():
        return aws.client("dynamodbstreams")


@pytest.fixture(scope="module")
def new_table(client: "DynamoDBClient") -> Iterator[NewTable]:
    """Return a function that creates tables with unique names. They are deleted after the module."""
    names: list[str] = []

    def make() -> Table:
        name = f"videos-{uuid4()}"
        create_table(client, name)
        names.append(name)
        client.get_waiter("table_exists").wait(TableName=name)
        return Table(name, client, sleep=lambda _: None)

    yield make
    for name in names:
        client.delete_table(TableName=name)


@pytest.fixture
def table(new_table: NewTable) -> Table:
    """Return an empty table."""
    return new_table()


@pytest.fixture
def instance(table: Table, clock: Clock) -> Instance:
    """Return a function that creates instances of the service with the same table."""
    return lambda: make_api(table, clock=clock)


@pytest.fixture(scope="module")
def recorded_client(connect: Connect) -> tuple["DynamoDBClient", FaultLine]:
    """Return a client and the fault line that intercepts its requests."""
    client = connect()
    return client, FaultLine(client)


@pytest.fixture
def line(recorded_client: tuple["DynamoDBClient", FaultLine]) -> Iterator[FaultLine]:
    """Return the fault line of `recorded_client`, and disarm it after the test."""
    yield recorded_client[1]
    recorded_client[1].disarm()
