"""State of a webhook's delivery: permitted writers, and the stored part of its receiver's responses."""

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
def places(table: Table) -> DeliveryStateStore:
    return DeliveryStateStore(table)


def created(hooks: WebhookStore, id_: str = "a", **content: Any) -> None:
    hooks.create(id_, CONTENT | content, {LOG: LogCursor(1, 0)}, ALICE, NOW)


def read_state(places: DeliveryStateStore, id_: str = "a") -> WebhookState:
    place = places.read(id_)
    assert place
    return place


def hook_of(places: DeliveryStateStore, id_: str = "a") -> Webhook:
    hook = places.webhook(id_)
    assert hook
    return hook


def always(_: int) -> bool:
    return True


def test_a_write_whose_answer_was_lost_is_known_by_whose_it_is(hooks: WebhookStore, places: DeliveryStateStore) -> None:
    created(hooks)
    line, place = FaultLine(places.table.client), read_state(places)
    line.arm(lose_response, at=0)
    assert places.save(place, as_idle(place), NOW) == read_state(places)
    assert line.calls == ["UpdateItem", "UpdateItem", "GetItem"]


def test_write_with_a_lost_response_fails_when_the_lease_was_taken_since(
    hooks: WebhookStore, places: DeliveryStateStore
) -> None:
    created(hooks)
    line, place = FaultLine(places.table.client), read_state(places)

    def replayed() -> None:
        line.disarm()
        hooks.replay("a", {LOG: LogCursor(1, 0)}, ALICE, NOW, always)

    def lost_then_replayed(send: Any) -> Any:
        line.arm(run_before_request(replayed), at=0)
        return lose_response(send)

    line.arm(lost_then_replayed, at=0)
    with pytest.raises(LeaseLost):
        places.save(place, as_idle(place), NOW)


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
    hooks: WebhookStore, places: DeliveryStateStore, meddle: Any
) -> None:
    created(hooks)
    place, hook = read_state(places), hook_of(places)
    meddle(hooks)
    with pytest.raises(LeaseLost):
        places.save(place, as_idle(place), NOW)
    with pytest.raises(LeaseLost):
        places.pause(place, place, hook, "It says so.", NOW)


def test_a_webhook_is_paused_with_a_reason_and_waits_for_nothing(
    hooks: WebhookStore, places: DeliveryStateStore
) -> None:
    created(hooks)
    place = read_state(places)
    places.pause(place, as_due(place, NOW + 5) | {"failures": 3}, hook_of(places), "It says so.", NOW)
    document = hooks.read_for("a", ALICE).document(NOW)
    assert (document["paused"], document["pausedBecause"], document["version"]) == (True, "It says so.", 2)
    assert read_state(places).keys() & {"rel", "leaseUntil", "nextAttemptAt"} == set()
    assert list(places.followers("alice")) == []
    with pytest.raises(VersionMismatch):
        hooks.change("a", {"paused": False}, ALICE, NOW, lambda version: version == 1)


def test_pause_fails_when_the_webhook_was_changed_since_it_was_read(
    hooks: WebhookStore, places: DeliveryStateStore
) -> None:
    created(hooks)
    place, hook = read_state(places), hook_of(places)
    hooks.change("a", {"description": "mine"}, ALICE, NOW, always)
    with pytest.raises(ConditionFailed):
        places.pause(place, place, hook, "It says so.", NOW)
    places.pause(place, place, hook_of(places), "It says so.", NOW)
    assert hook_of(places)["description"] == "mine"


def test_followers_are_those_of_one_owner_or_of_everybody_that_are_not_paused(
    hooks: WebhookStore, places: DeliveryStateStore
) -> None:
    for id_ in "ab":
        created(hooks, id_)
    created(hooks, "c", paused=True)
    admin = Caller("root", frozenset({"videos/admin"}))
    hooks.create("d", {"url": "https://hooks.example", "types": [], "paused": False}, {}, admin, NOW)
    assert list(places.followers("alice")) == ["a", "b"]
    assert list(places.followers(None)) == ["d"]
    assert list(places.followers("bob")) == []


def test_a_follower_of_our_own_begins_once(places: DeliveryStateStore) -> None:
    places.begin("bus", {LOG: LogCursor(0, 0)})
    place = read_state(places, "bus")
    places.save(place, place | {"places": encode_cursors({LOG: LogCursor(3, 1)})}, NOW)
    places.begin("bus", {LOG: LogCursor(0, 0)})
    assert read_state(places, "bus")["places"] == {LOG: [3, 1]}


def test_attempts_are_kept_for_a_week_and_once(places: DeliveryStateStore) -> None:
    line = FaultLine(places.table.client)
    line.arm(lose_response, at=0)
    places.add_attempts("a", NOW * 1000, 7, [{"at": 1, "changeId": "x"}, {"at": 2, "changeId": "y"}])
    line.disarm()
    shown = places.attempts("a", NOW, limit=10).items
    assert [attempt["changeId"] for attempt in shown] == ["y", "x"]
    assert places.attempts("a", NOW + 7 * 86_400, limit=10).items == []
