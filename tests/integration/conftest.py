"""Integration tests run the service in process, over DynamoDB's HTTP API.

Each pytest process starts a MiniStack, unless DYNAMODB_ENDPOINT_URL names another DynamoDB. Its indexes must be
strongly consistent, as in DynamoDB Local; the indexes of AWS are eventually consistent. Only DynamoDB is used there: the
few tests with S3 and SQS always start a MiniStack for them.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from botocore.config import Config
from botocore.session import Session

from local.aws import Aws
from local.ministack import MiniStack
from local.testbed.harness import Clock, create_table, make_api
from local.testbed.wire import WholeClient
from shared.aws import boto3_client
from shared.aws.dynamodb import Table
from tests.integration.concurrency import Instance
from tests.integration.faults import FaultLine
from tests.polling import LIMIT

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Connect = Callable[[], "DynamoDBClient"]
"""Makes a client of the service's own kind."""

NewTable = Callable[[], Table]
"""Makes an empty table, which is gone after the test."""


@contextmanager
def reaching(aws: Aws) -> Iterator[None]:
    """Let clients that are created inside the block reach an AWS.

    Sessions keep the credentials that they found first, so each block gets its own: unit tests share the process.
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


@contextmanager
def patience() -> Iterator[pytest.MonkeyPatch]:
    """Let clients wait for LIMIT inside the block, because a busy machine may exceed the service's time-outs for AWS.

    A client keeps the time-outs of its creation.
    """
    create = Session.create_client

    def create_client(session: Session, *arguments: Any, **options: Any) -> Any:
        waits = Config(connect_timeout=LIMIT, read_timeout=LIMIT)
        return create(session, *arguments, **options | {"config": (options.get("config") or Config()).merge(waits)})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "create_client", create_client)
        patch.setattr("shared.aws.dynamodb.CONNECT_SECONDS", LIMIT)
        patch.setattr("shared.aws.dynamodb.READ_SECONDS", LIMIT)
        yield patch


@pytest.fixture(scope="module", autouse=True)
def patient() -> Iterator[None]:
    """Wait with patience in all tests of this folder."""
    with patience():
        yield


@pytest.fixture(scope="session")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    """A DynamoDB and its streams, and nothing else."""
    endpoint = os.environ.get("DYNAMODB_ENDPOINT_URL")
    if endpoint:
        yield Aws(endpoint, endpoint, "test")
        return
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SERVICES", "dynamodb,dynamodbstreams")  # no more than an endpoint that is given may have
            log = tmp_path_factory.mktemp("dynamodb") / "ministack.log"
            ministack = stack.enter_context(MiniStack(log))
        yield ministack.aws


@pytest.fixture(scope="session")
def objects_aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    """An S3 and an SQS that know of each other."""
    with MiniStack(tmp_path_factory.mktemp("objects") / "ministack.log") as ministack:
        yield ministack.aws


@pytest.fixture(scope="session")
def connect(aws: Aws) -> Iterator[Connect]:
    """Makes clients for the endpoint, exactly as a deployed function makes its own; they are closed at the end."""
    clients: list[Any] = []

    def make() -> "DynamoDBClient":
        with reaching(aws), patience():
            reference = boto3_client.make_client()
            ours: Any = WholeClient(aws.endpoint, reference, aws.secret_access_key)
            clients.extend((reference, ours))
            return reference if os.environ.get("DYNAMODB_CLIENT") == "boto3" else ours

    yield make
    for client in clients:
        client.close()


@pytest.fixture(scope="session")
def client(connect: Connect) -> "DynamoDBClient":
    """A client that nothing is ever injected into, and that never tries twice; clients are thread-safe."""
    return connect()


@pytest.fixture(scope="session")
def streams(aws: Aws) -> Any:
    """A client of the streams of its tables."""
    with patience():
        return aws.client("dynamodbstreams")


@pytest.fixture(scope="module")
def new_table(client: "DynamoDBClient") -> Iterator[NewTable]:
    """Creates tables, each with a unique name."""
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
    """An empty table."""
    return new_table()


@pytest.fixture
def instance(table: Table, clock: Clock) -> Instance:
    """Makes instances of the service over one table."""
    return lambda: make_api(table, clock=clock)


@pytest.fixture(scope="module")
def recorded_client(connect: Connect) -> tuple["DynamoDBClient", FaultLine]:
    """A client and its line."""
    client = connect()
    return client, FaultLine(client)


@pytest.fixture
def line(recorded_client: tuple["DynamoDBClient", FaultLine]) -> Iterator[FaultLine]:
    """The line, whole again after the test."""
    yield recorded_client[1]
    recorded_client[1].disarm()
