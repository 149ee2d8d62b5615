"""Fixtures of the unit tests, which run on moto in the same process."""

import copy
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from moto import mock_aws

from local.testbed.background import BackgroundWork
from local.testbed.harness import (
    MEDIA_BUCKET,
    SOURCES_BUCKET,
    Api,
    Clock,
    create_audit_table,
    create_table,
    make_api,
)
from local.testbed.lean_moto import MotoClient, create_buckets, install, restore_tables, stored_tables
from shared.aws import boto3_client
from shared.aws.dynamodb import Table, make_client
from shared.aws.lean import client as lean
from shared.aws.lean.client import DYNAMODB, AwsService, Client
from shared.aws.s3 import Objects
from shared.aws.s3 import make_client as make_s3_client
from shared.schema import AUDIT_TABLE_NAME
from tests.reverting import RevertTestbed


@pytest.fixture(scope="session", autouse=True)
def lean_moto() -> Iterator[pytest.MonkeyPatch]:
    """Speed up moto by patches that skip work that the tests do not need. Undoing the patches restores the original
    moto."""
    with pytest.MonkeyPatch.context() as patch:
        install(patch)
        yield patch


@pytest.fixture(scope="session", autouse=True)
def no_default_ports() -> Iterator[None]:
    """Set the ports of `make run` to 0, so that no test connects to a developer's running service."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PORT", "ISSUER_PORT", "OBJECTS_PORT"):
            patch.setenv(name, "0")
        yield


@pytest.fixture
def account() -> Iterator[None]:
    """Simulate an empty AWS account."""
    with mock_aws():
        yield


@pytest.fixture(scope="session")
def empty_tables(lean_moto: pytest.MonkeyPatch, moto_client: None) -> bytes:
    """Return the service's tables without items, for `restore_tables`. Creating them for each test would be slow."""
    with mock_aws():
        client = make_client()
        create_table(client, "VideoMetadata")
        create_audit_table(client, AUDIT_TABLE_NAME)
        return stored_tables()


@pytest.fixture(scope="session", autouse=True)
def moto_client(lean_moto: pytest.MonkeyPatch) -> Iterator[None]:
    """Send the requests of the service's own DynamoDB client to moto. DYNAMODB_CLIENT=boto3 runs all tests with boto3's
    client instead."""
    make = lean.make_client

    def make_moto_client(service: AwsService = DYNAMODB, **options: Any) -> Client:
        is_moto = service is DYNAMODB
        return MotoClient("http://moto.invalid", boto3_client.make_client()) if is_moto else make(service, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lean, "make_client", make_moto_client)
        yield


class SharedClient:
    """Client that all tests share, because creating a client takes longer than many tests."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._attributes = dict(vars(client))
        self._emitter = client.meta.events._emitter
        self._listeners, self._cache = copy.copy(self._emitter._handlers), self._emitter._lookup_cache

    def reset(self) -> Any:
        """Return the client without the attributes and listeners that earlier tests added."""
        vars(self._client).clear()
        vars(self._client).update(self._attributes)
        # botocore replaces this cache when listeners are added or removed. Without such a change, the listeners need no
        # copy.
        if self._emitter._lookup_cache is not self._cache:
            self._cache = {}
            self._emitter._handlers, self._emitter._lookup_cache = copy.copy(self._listeners), self._cache
        return self._client


@pytest.fixture(scope="session")
def shared_client(moto_client: None) -> SharedClient:
    """Return the DynamoDB client of the fixture `table`."""
    return SharedClient(make_client())


@pytest.fixture(scope="session")
def shared_s3_client() -> SharedClient:
    """Return the S3 client of the fixture `objects`."""
    return SharedClient(make_s3_client())


@pytest.fixture
def table(empty_tables: bytes, shared_client: SharedClient, account: None) -> Table:
    """Return the empty video table."""
    restore_tables(empty_tables)
    return Table("VideoMetadata", shared_client.reset(), sleep=lambda _: None)


T = TypeVar("T")


@pytest.fixture(scope="module")
def fill_once(empty_tables: bytes, shared_client: SharedClient) -> Callable[[Callable[[Api], T]], tuple[bytes, T]]:
    """Return a function that calls `write` with a service over empty tables. The function returns the content of the
    filled tables, and the result of `write`. Each module fills its tables once, and restores them with
    `restore_tables` before each test."""

    def fill(write: Callable[[Api], T]) -> tuple[bytes, T]:
        with mock_aws():
            restore_tables(empty_tables)
            table = Table("VideoMetadata", shared_client.reset(), sleep=lambda _: None)
            written = write(make_api(table, clock=Clock()))
            return stored_tables(), written

    return fill


@pytest.fixture
def background(table: Table, clock: Clock) -> BackgroundWork:
    """Return background work that consumes the table's stream."""
    return BackgroundWork(table, clock)


@pytest.fixture
def reverts(api: Api) -> RevertTestbed:
    """Return the service with an empty audit trail, and the worker for reverts."""
    return RevertTestbed(api)


@pytest.fixture
def objects(account: None, shared_s3_client: SharedClient) -> Objects:
    """Return the object store, with empty buckets for sources and media."""
    create_buckets(SOURCES_BUCKET, MEDIA_BUCKET)
    return Objects(shared_s3_client.reset(), sleep=lambda _: None)
