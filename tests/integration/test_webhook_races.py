"""Concurrent and interrupted requests about webhooks: a user has at most 20, and each webhook is stored completely or
not at all."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from local.testbed.harness import NOW, Api, Clock, Reply, create_audit_table, make_api
from shared.aws.dynamodb import Table
from shared.schema import WEBHOOK, WEBHOOK_STATE, WEBHOOKS
from shared.webhooks.store import MAX_WEBHOOKS
from tests.integration import faults
from tests.integration.concurrency import Instance, Request, at_once
from tests.integration.contents import items_of
from tests.integration.faults import FaultLine, Incident, Killed

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

NEW = {"url": "https://hooks.acme.com/"}


@pytest.fixture(scope="module")
def audit(client: "DynamoDBClient") -> Iterator[Table]:
    """Return an empty table for the change feed."""
    name = f"audit-{uuid4()}"
    create_audit_table(client, name)
    client.get_waiter("table_exists").wait(TableName=name)
    yield Table(name, client, sleep=lambda _: None)
    client.delete_table(TableName=name)


@pytest.fixture
def instance(table: Table, audit: Table, clock: Clock) -> Instance:
    """Return a function that creates instances of the service with the same tables."""
    return lambda: make_api(table, clock, audit=audit)


@pytest.fixture
def api(instance: Instance) -> Api:
    """Return an instance of the service."""
    return instance()


def create(api: Api) -> str:
    """Create a webhook, and return its path."""
    reply = api.post("/v1/webhooks", NEW)
    assert reply.status == 201, reply.body
    return f"/v1/{reply.headers['location']}"


def require_consistent(table: Table) -> set[str]:
    """Assert that the webhooks, their states and the owner's list have the same ids. Return these ids."""
    items = items_of(table)
    webhooks = {item["webhookId"] for item in items if item["sk"] == WEBHOOK.sk}
    listed = (table.get(WEBHOOKS.key(userId="alice"), consistent=True) or {}).get("ids", set())
    assert {item["webhookId"] for item in items if item["sk"] == WEBHOOK_STATE.sk} == webhooks == listed
    return webhooks


def test_concurrent_creates_stop_at_the_webhook_limit(api: Api, table: Table, instance: Instance) -> None:
    for _ in range(MAX_WEBHOOKS - 4):
        create(api)
    requests: list[Request] = [lambda api: api.post("/v1/webhooks", NEW)] * 8
    replies = at_once(instance, requests)
    while busy := [reply for reply in replies if "retry-after" in reply.headers]:
        replies = [reply for reply in replies if reply not in busy] + [
            request(api) for request in requests[: len(busy)]
        ]
    assert sorted(reply.status for reply in replies) == [201] * 4 + [409] * 4
    assert {reply.json["type"] for reply in replies if reply.status == 409} == {
        "urn:video-metadata:problem:limit-reached"
    }
    assert len(require_consistent(table)) == MAX_WEBHOOKS


def test_concurrent_creates_changes_and_deletes_leave_complete_webhooks(
    api: Api, table: Table, instance: Instance
) -> None:
    path = create(api)
    requests: list[Request] = [
        lambda api: api.post("/v1/webhooks", NEW),
        lambda api: api.post("/v1/webhooks", NEW),
        lambda api: api.patch(path, {"paused": True}),
        lambda api: api.patch(path, {"description": "d"}),
        lambda api: api.post(f"{path}/rotate"),
        lambda api: api.post(f"{path}/replay", {"from": NOW}),
        lambda api: api.delete(path),
        lambda api: api.delete(path),
    ]
    replies = at_once(instance, requests)
    assert {reply.status for reply in replies} <= {200, 201, 204, 404, 409}
    remaining = require_consistent(table)
    assert (path.rpartition("/")[2] in remaining) == (204 not in {reply.status for reply in replies[6:]})
    assert len(remaining - {path.rpartition("/")[2]}) == [reply.status for reply in replies].count(201)


OPERATIONS: dict[str, Callable[[Api, str], Reply]] = {
    "create": lambda api, _: api.post("/v1/webhooks", NEW),
    "create with a key": lambda api, path: api.post("/v1/webhooks", NEW, headers={"Idempotency-Key": path}),
    "pause": lambda api, path: api.patch(path, {"paused": True}),
    "describe": lambda api, path: api.patch(path, {"description": "d"}),
    "rotate": lambda api, path: api.post(f"{path}/rotate"),
    "replay": lambda api, path: api.post(f"{path}/replay", {"from": NOW}),
    "delete": lambda api, path: api.delete(path),
}


@pytest.mark.parametrize("incident", [faults.lose_request, faults.lose_response, faults.throttle, faults.fail])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_failed_call_is_retried_and_applied_once(
    api: Api,
    table: Table,
    audit: Table,
    recorded_client: tuple["DynamoDBClient", FaultLine],
    operation: str,
    incident: Incident,
) -> None:
    client, line = recorded_client
    tables = [Table(name, client, sleep=lambda _: None) for name in (table.name, audit.name)]
    broken = carried_out = 0
    while broken <= carried_out:
        path = create(api)
        before = len(require_consistent(table))
        line.arm(incident, at=broken)
        reply = OPERATIONS[operation](make_api(tables[0], audit=tables[1]), path)
        line.disarm()
        carried_out = len(line.calls)
        assert reply.status < 300, reply.body
        assert len(require_consistent(table)) == before + (reply.status == 201) - (reply.status == 204)
        webhook = api.get(path)
        version = 1 if operation.startswith("create") else 2
        assert (webhook.status, webhook.json.get("version")) == ((404, None) if reply.status == 204 else (200, version))
        broken += 1
    assert broken > 2


@pytest.mark.parametrize("incident", [faults.kill_before, faults.kill_after])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_killed_request_leaves_a_complete_webhook_or_none(
    api: Api,
    table: Table,
    audit: Table,
    recorded_client: tuple["DynamoDBClient", FaultLine],
    operation: str,
    incident: Incident,
) -> None:
    client, line = recorded_client
    tables = [Table(name, client, sleep=lambda _: None) for name in (table.name, audit.name)]
    for call in range(4):
        path = create(api)
        line.arm(incident, at=call)
        with suppress(Killed):
            OPERATIONS[operation](make_api(tables[0], audit=tables[1]), path)
        line.disarm()
        require_consistent(table)
