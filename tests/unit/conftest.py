"""Unit tests run on moto, in process."""

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
from local.testbed.lean_moto import MotoClient, create_buckets, install, put_back, stored_tables
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
    """Patch out moto's unneeded work. Undo the patch to get the original moto."""
    with pytest.MonkeyPatch.context() as patch:
        install(patch)
        yield patch


@pytest.fixture(scope="session", autouse=True)
def no_default_ports() -> Iterator[None]:
    """Let what would use the ports of `make run` fail at once, because a developer's service may have them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PORT", "ISSUER_PORT", "OBJECTS_PORT"):
            patch.setenv(name, "0")
        yield


@pytest.fixture
def account() -> Iterator[None]:
    """An empty account."""
    with mock_aws():
        yield


@pytest.fixture(scope="session")
def empty_tables(lean_moto: pytest.MonkeyPatch, moto_client: None) -> bytes:
    """Ours, as they are made."""
    with mock_aws():
        client = make_client()
        create_table(client, "VideoMetadata")
        create_audit_table(client, AUDIT_TABLE_NAME)
        return stored_tables()


@pytest.fixture(scope="session", autouse=True)
def moto_client(lean_moto: pytest.MonkeyPatch) -> Iterator[None]:
    """Let our own client be answered by moto, as boto3's is. DYNAMODB_CLIENT=boto3 runs all tests with that one."""
    make = lean.make_client

    def make_moto_client(service: AwsService = DYNAMODB, **options: Any) -> Client:
        is_moto = service is DYNAMODB
        return MotoClient("http://moto.invalid", boto3_client.make_client()) if is_moto else make(service, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lean, "make_client", make_moto_client)
        yield


class SharedClient:
    """A client for all tests, because making one takes longer than many of them."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._attributes = dict(vars(client))
        self._emitter = client.meta.events._emitter
        self._listeners, self._cache = copy.copy(self._emitter._handlers), self._emitter._lookup_cache

    def reset(self) -> Any:
        """The client, without what an earlier test hung on it."""
        vars(self._client).clear()
        vars(self._client).update(self._attributes)
        # Each listener that comes or goes gets the emitter another cache; to copy all takes longer than many tests.
        if self._emitter._lookup_cache is not self._cache:
            self._cache = {}
            self._emitter._handlers, self._emitter._lookup_cache = copy.copy(self._listeners), self._cache
        return self._client


@pytest.fixture(scope="session")
def shared_client(moto_client: None) -> SharedClient:
    """The client of `table`."""
    return SharedClient(make_client())


@pytest.fixture(scope="session")
def shared_s3_client() -> SharedClient:
    """The client of `objects`."""
    return SharedClient(make_s3_client())


@pytest.fixture
def table(empty_tables: bytes, shared_client: SharedClient, account: None) -> Table:
    """An empty table."""
    put_back(empty_tables)
    return Table("VideoMetadata", shared_client.reset(), sleep=lambda _: None)


T = TypeVar("T")


@pytest.fixture(scope="module")
def fill_once(empty_tables: bytes, shared_client: SharedClient) -> Callable[[Callable[[Api], T]], tuple[bytes, T]]:
    """Fill our tables through the service, for a fixture of a module that `put_back` restores before each test."""

    def fill(write: Callable[[Api], T]) -> tuple[bytes, T]:
        with mock_aws():
            put_back(empty_tables)
            table = Table("VideoMetadata", shared_client.reset(), sleep=lambda _: None)
            written = write(make_api(table, clock=Clock()))
            return stored_tables(), written

    return fill


@pytest.fixture
def background(table: Table, clock: Clock) -> BackgroundWork:
    """Background work that consumes the table's stream."""
    return BackgroundWork(table, clock)


@pytest.fixture
def reverts(api: Api) -> RevertTestbed:
    """The service with an empty trail."""
    return RevertTestbed(api)


@pytest.fixture
def objects(account: None, shared_s3_client: SharedClient) -> Objects:
    """The empty buckets."""
    create_buckets(SOURCES_BUCKET, MEDIA_BUCKET)
    return Objects(shared_s3_client.reset(), sleep=lambda _: None)
