"""Delivery state of a webhook: which writes succeed, and the list of attempts."""

from typing import Any

import pytest

from local.testbed.harness import NOW
from shared.aws.dynamodb import Table
from shared.aws.failures import ConditionFailed
from shared.aws.leases import LeaseLost
from shared.core.caller import Caller
from shared.core.errors import VersionMismatch
from shared.entities import Webhook, WebhookState
from shared.feed.log import LogCursor, owner_log
from shared.routes import READ, WRITE
from shared.webhooks.delivery_state import DeliveryStateStore, as_due, as_idle, encode_cursors
from shared.webhooks.store import WebhookStore
from tests.integration.faults import FaultLine, lose_response, run_before_request

ALICE = Caller("alice", frozenset({READ, WRITE}))
LOG = owner_log("alice")
CONTENT = {"url": "https://hooks.example/in", "types": ["video.*"], "paused": False, "follows": "alice"}


@pytest.fixture
def hooks(table: Table) -> WebhookStore:
    return WebhookStore(table)


@pytest.fixture
def states(table: Table) -> DeliveryStateStore:
    return DeliveryStateStore(table)


def created(hooks: WebhookStore, id_: str = "a", **content: Any) -> None:
    hooks.create(id_, CONTENT | content, {LOG: LogCursor(1, 0)}, ALICE, NOW)


def read_state(store: DeliveryStateStore, id_: str = "a") -> WebhookState:
    state = store.read(id_)
    assert state
    return state


def hook_of(store: DeliveryStateStore, id_: str = "a") -> Webhook:
    hook = store.webhook(id_)
    assert hook
    return hook


def always(_: int) -> bool:
    return True


def test_write_with_a_lost_response_is_recognised_by_its_write_id(
    hooks: WebhookStore, states: DeliveryStateStore
) -> None:
    created(hooks)
    line, state = FaultLine(states.table.client), read_state(states)
    line.arm(lose_response, at=0)
    assert states.save(state, as_idle(state), NOW) == read_state(states)
    assert line.calls == ["UpdateItem", "UpdateItem", "GetItem"]


def test_write_with_a_lost_response_fails_when_the_lease_was_taken_since(
    hooks: WebhookStore, states: DeliveryStateStore
) -> None:
    created(hooks)
    line, state = FaultLine(states.table.client), read_state(states)

    def replayed() -> None:
        line.disarm()
        hooks.replay("a", {LOG: LogCursor(1, 0)}, ALICE, NOW, always)

    def lose_response_then_replay(send: Any) -> Any:
        line.arm(run_before_request(replayed), at=0)
        return lose_response(send)

    line.arm(lose_response_then_replay, at=0)
    with pytest.raises(LeaseLost):
        states.save(state, as_idle(state), NOW)


@pytest.mark.parametrize(
    "meddle",
    [
        lambda hooks: hooks.change("a", {"paused": True}, ALICE, NOW, always),
        lambda hooks: hooks.change("a", {"url": "https://other.example"}, ALICE, NOW, always),
        lambda hooks: hooks.change("a", {"types": []}, ALICE, NOW, always),
        lambda hooks: hooks.replay("a", {LOG: LogCursor(1, 0)}, ALICE, NOW, always),
        lambda hooks: hooks.delete("a", ALICE, NOW, always),
    ],
    ids=["pause", "address", "types", "replay", "delete"],
)
def test_change_of_the_delivered_events_takes_the_lease(
    hooks: WebhookStore, states: DeliveryStateStore, meddle: Any
) -> None:
    created(hooks)
    state, hook = read_state(states), hook_of(states)
    meddle(hooks)
    with pytest.raises(LeaseLost):
        states.save(state, as_idle(state), NOW)
    with pytest.raises(LeaseLost):
        states.pause(state, state, hook, "It says so.", NOW)


def test_paused_webhook_has_a_reason_and_is_not_due(hooks: WebhookStore, states: DeliveryStateStore) -> None:
    created(hooks)
    state = read_state(states)
    states.pause(state, as_due(state, NOW + 5) | {"failures": 3}, hook_of(states), "It says so.", NOW)
    document = hooks.read_for("a", ALICE).document(NOW)
    assert (document["paused"], document["pausedBecause"], document["version"]) == (True, "It says so.", 2)
    assert read_state(states).keys() & {"rel", "leaseUntil", "nextAttemptAt"} == set()
    assert list(states.followers("alice")) == []
    with pytest.raises(VersionMismatch):
        hooks.change("a", {"paused": False}, ALICE, NOW, lambda version: version == 1)


def test_pause_fails_when_the_webhook_was_changed_since_it_was_read(
    hooks: WebhookStore, states: DeliveryStateStore
) -> None:
    created(hooks)
    state, hook = read_state(states), hook_of(states)
    hooks.change("a", {"description": "mine"}, ALICE, NOW, always)
    with pytest.raises(ConditionFailed):
        states.pause(state, state, hook, "It says so.", NOW)
    states.pause(state, state, hook_of(states), "It says so.", NOW)
    assert hook_of(states)["description"] == "mine"


def test_subscribers_are_unpaused_webhooks_of_the_owner_or_of_all_users(
    hooks: WebhookStore, states: DeliveryStateStore
) -> None:
    for id_ in "ab":
        created(hooks, id_)
    created(hooks, "c", paused=True)
    admin = Caller("root", frozenset({"videos/admin"}))
    hooks.create("d", {"url": "https://hooks.example", "types": [], "paused": False}, {}, admin, NOW)
    assert list(states.followers("alice")) == ["a", "b"]
    assert list(states.followers(None)) == ["d"]
    assert list(states.followers("bob")) == []


def test_internal_subscriber_is_initialised_once(states: DeliveryStateStore) -> None:
    states.begin("bus", {LOG: LogCursor(0, 0)})
    state = read_state(states, "bus")
    states.save(state, state | {"places": encode_cursors({LOG: LogCursor(3, 1)})}, NOW)
    states.begin("bus", {LOG: LogCursor(0, 0)})
    assert read_state(states, "bus")["places"] == {LOG: [3, 1]}


def test_attempts_are_stored_once_for_a_week(states: DeliveryStateStore) -> None:
    line = FaultLine(states.table.client)
    line.arm(lose_response, at=0)
    states.add_attempts("a", NOW * 1000, 7, [{"at": 1, "changeId": "x"}, {"at": 2, "changeId": "y"}])
    line.disarm()
    listed = states.attempts("a", NOW, limit=10).items
    assert [attempt["changeId"] for attempt in listed] == ["y", "x"]
    assert states.attempts("a", NOW + 7 * 86_400, limit=10).items == []
