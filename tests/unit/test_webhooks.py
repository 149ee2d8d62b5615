"""Management of webhooks by their owners: permissions, URLs, secrets, and positions in the change logs."""

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import jsonschema_rs
import pytest

from functions.webhooks import handler as webhooks
from local.testbed.background import BackgroundWork
from local.testbed.harness import MASTER, NOW, Api, Clock, FakeResources, Reply, record_operations
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.aws.failures import TransactionConflict
from shared.aws.lean.client import ResponseLost
from shared.aws.leases import LeaseLost
from shared.aws.stream import Record
from shared.core.change_types import GROUPS, TYPES
from shared.core.errors import Unavailable
from shared.entities import Webhook, WebhookState
from shared.feed.change import Change
from shared.feed.log import DAYS_KEPT, Feed, LogCursor, owner_log, shard_logs
from shared.history.entries import entry
from shared.openapi.document import document
from shared.processing.messages import DELIVER_SCHEMA
from shared.routes import CHANGES, READ, WRITE
from shared.schema import AUDIT_TABLE_NAME, DUE, WEBHOOKS, follower_relation
from shared.web.http import http_function
from shared.webhooks.delivery_state import DeliveryStateStore, as_due, encode_cursors
from shared.webhooks.event import TEST_TYPE
from shared.webhooks.http_client import ReceiverResponse
from shared.webhooks.signing import encode_secret, secret_of, signature
from shared.webhooks.store import MAX_WEBHOOKS, OVERLAP_SECONDS, secrets_of

URL = "https://hooks.acme.com/changes"
MISSING = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
KEY = {"Idempotency-Key": "k1"}
FEED_SCOPES = f"{READ} {WRITE} {CHANGES}"
"""Scopes of a user who may subscribe to all changes."""
DAY = 86_400


class Receiver:
    """Receiver of a webhook. It records requests, and returns the configured response."""

    def __init__(self) -> None:
        self.response = ReceiverResponse(204, 7, b"", None, is_forbidden=False, retry_after=None)
        self.requests: list[tuple[str, Mapping[str, str], bytes]] = []

    def __call__(self, url: str, headers: Mapping[str, str], body: bytes, *, local: bool) -> ReceiverResponse:
        assert not local
        self.requests.append((url, headers, body))
        return self.response


class Service:
    """Test double of the webhooks function: its dependencies, and methods that send requests."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self.table = table
        self.clock = clock
        self.feed = Feed(Table(AUDIT_TABLE_NAME, table.client, sleep=lambda _: None), clock)
        self.states = DeliveryStateStore(table)
        self.receiver = Receiver()
        self.notified: list[tuple[str, int]] = []
        self.queue_is_busy = False
        resources = FakeResources(table, clock, queues={"deliveries": self})
        make = http_function(partial(webhooks.WebhookHandlers, send=self.receiver))
        self.api = Api(table, {"webhooks": resources.make(webhooks.lambda_handler, make)}, clock)

    def send(self, message: Mapping[str, object], delay_seconds: int) -> None:
        """Record a message for the worker."""
        if self.queue_is_busy:
            raise Unavailable("The queue is busy.")
        assert message["schema"] == DELIVER_SCHEMA
        self.notified.append((str(message["webhookId"]), delay_seconds))

    def create(self, user: str = "alice", *, scopes: str | None = None, **fields: Any) -> dict[str, Any]:
        """Create a webhook, and return its document with the secret."""
        reply = self.post("", {"url": URL} | fields, user=user, scopes=scopes)
        assert reply.status == 201, reply.body
        created: dict[str, Any] = reply.json
        return created

    def get(self, path: str = "", **options: Any) -> Reply:
        return self.api.get(f"/v1/webhooks{path}", **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Reply:
        return self.api.post(f"/v1/webhooks{path}", body, **options)

    def patch(self, webhook_id: str, body: Any, **options: Any) -> Reply:
        return self.api.patch(f"/v1/webhooks/{webhook_id}", body, **options)

    def delete(self, webhook_id: str, **options: Any) -> Reply:
        return self.api.delete(f"/v1/webhooks/{webhook_id}", **options)

    def ids(self, **options: Any) -> list[str]:
        """Return the ids of a user's webhooks in listed order."""
        return [item["webhookId"] for item in self.get(**options).json["items"]]

    def hook(self, webhook_id: str) -> Webhook:
        """Return the stored webhook, or `{}`."""
        return cast(Webhook, self.states.webhook(webhook_id) or {})

    def state(self, webhook_id: str) -> WebhookState:
        """Return the stored delivery state of a webhook, or `{}`."""
        return cast(WebhookState, self.states.read(webhook_id) or {})

    def change(self, number: int, user: str = "alice") -> Change:
        """Append a change to the feed, and return the change."""
        change_: Change = {"id": f"c{number}", "type": "video.changed", "videoId": MISSING, "userId": user}
        change_ |= {"at": int(self.clock() * 1000), "fields": []}
        self.feed.prepare([change_])
        self.feed.append([change_])
        return change_

    def next_change(self, webhook_id: str, log: str) -> str | None:
        """Return the id of the next change of a webhook in a log, or `None`."""
        entries = self.feed.read(log, LogCursor(*self.state(webhook_id)["places"][log]), 1).entries
        return str(entries[0].change["id"]) if entries else None

    def work(self, webhook_id: str) -> "Worker":
        """Return a worker that has the lease of the webhook."""
        return Worker(self, webhook_id)

    def fail(self, webhook_id: str, because: str | None = None) -> None:
        """Store the state after failed attempts. With a reason, the worker has also paused the webhook."""
        state = self.state(webhook_id)
        failing = state | {"failures": 3, "failingSince": NOW, "tried": {"c1": 3}, "oldestWaiting": NOW * 1000}
        if because is None:
            self.states.save(state, as_due(failing, NOW + 600), NOW)
        else:
            self.states.pause(state, failing, self.hook(webhook_id), because, NOW)


class Worker:
    """Worker that has the lease of a webhook."""

    def __init__(self, service: Service, webhook_id: str) -> None:
        self.states = service.states
        state = service.state(webhook_id)
        self.state = self.states.save(state, state | {"lease": "worker", "leaseUntil": NOW + 60}, NOW)

    def save(self, cursors: Mapping[str, LogCursor]) -> bool:
        """Save the positions, and return whether the worker still had the lease."""
        try:
            self.state = self.states.save(self.state, self.state | {"places": encode_cursors(cursors)}, NOW)
        except LeaseLost:
            return False
        return True


@pytest.fixture
def service(table: Table, clock: Clock) -> Service:
    """Return the function with empty tables."""
    return Service(table, clock)


def _faults(reply: Reply) -> dict[str, str]:
    assert (reply.status, reply.slug) == (422, "invalid-content"), reply.body
    return {fault["pointer"]: fault["detail"] for fault in reply.json["errors"]}


def _conforms(name: str, content: Any) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": document()["components"]}
    jsonschema_rs.Draft202012Validator(schema).validate(content)


@contextmanager
def _losing_response(table: Table, operation: str) -> Iterator[list[str]]:
    """Lose the response of the first request of an operation, after DynamoDB applied it."""
    calls: list[str] = []

    def between(requested: str, _: Mapping[str, Any], send: Callable[..., Any]) -> Any:
        calls.extend([requested] * (requested == operation))
        response = send()
        if calls == [requested]:
            raise ResponseLost
        return response

    undo = intercept(table.client, between)
    try:
        yield calls
    finally:
        undo()


@contextmanager
def _before_request(table: Table, operation: str, act: Callable[[], object]) -> Iterator[None]:
    """Call `act` before DynamoDB receives the first request of an operation."""
    pending = [operation]

    def between(requested: str, _: Mapping[str, Any], send: Callable[..., Any]) -> Any:
        if requested in pending:
            pending.clear()
            act()
        return send()

    undo = intercept(table.client, between)
    try:
        yield
    finally:
        undo()
    assert not pending


class TestCreate:
    def test_webhook_belongs_to_its_creator_and_sends_the_creators_changes(self, service: Service) -> None:
        reply = service.post("", {"url": URL, "description": "The index"})
        created = reply.json
        assert reply.status == 201
        assert reply.headers["location"] == f"webhooks/{created['webhookId']}"
        _conforms("WebhookWithSecret", created)
        secret = created.pop("secret")
        assert secret == encode_secret(secret_of(MASTER, created["webhookId"], 1))
        assert {name: value for name, value in created.items() if name != "webhookId"} == {
            "userId": "alice",
            "url": URL,
            "types": [],
            "follows": "alice",
            "description": "The index",
            "paused": False,
            "createdAt": NOW,
            "updatedAt": NOW,
            "version": 1,
        }

    def test_secret_is_shown_only_in_the_create_response(self, service: Service) -> None:
        created = service.create()
        path = f"/{created['webhookId']}"
        others = [service.get(path), service.get(), service.patch(created["webhookId"], {"description": "d"})]
        others += [service.post(f"{path}/test"), service.post(f"{path}/replay", {"from": NOW})]
        secret = created["secret"].removeprefix("whsec_")
        assert [reply.status for reply in others] == [200] * 5
        assert not any(secret in reply.body.decode() or '"secret"' in reply.body.decode() for reply in others)
        assert secret not in str([service.hook(created["webhookId"]), service.state(created["webhookId"])])

    def test_new_webhook_skips_changes_made_before_its_creation(self, service: Service) -> None:
        service.change(1)
        webhook_id = service.create()["webhookId"]
        assert service.next_change(webhook_id, owner_log("alice")) is None
        service.change(2)
        assert service.next_change(webhook_id, owner_log("alice")) == "c2"

    def test_webhook_sends_change_made_while_it_is_created(self, service: Service, table: Table) -> None:
        with _before_request(table, "TransactWriteItems", lambda: service.change(1)):
            webhook_id = service.create()["webhookId"]
        assert service.next_change(webhook_id, owner_log("alice")) == "c1"

    def test_webhook_for_all_users_has_a_position_in_each_log(self, service: Service) -> None:
        created = service.create("admin", userId="*")
        assert "follows" not in created
        _conforms("WebhookWithSecret", created)
        assert tuple(service.state(created["webhookId"])["places"]) == shard_logs()

    def test_webhook_is_indexed_by_the_user_it_subscribes_to(self, service: Service) -> None:
        own, others = service.create(), service.create("admin", userId="*")
        for created, relation in ((own, follower_relation("alice")), (others, follower_relation(None))):
            hook = service.hook(created["webhookId"])
            assert (hook["rel"], hook["relShard"], hook["relSort"]) == (relation, 0, NOW)
            assert hook["relId"] == created["webhookId"]

    def test_worker_is_notified_once_the_index_has_the_webhook(self, service: Service) -> None:
        # The router may have sent an earlier change only to webhooks that were already in the index.
        webhook_id = service.create()["webhookId"]
        assert service.notified == [(webhook_id, webhooks.INDEX_SECONDS)]

    def test_sweeper_finds_a_webhook_with_a_lost_message(self, service: Service) -> None:
        service.queue_is_busy = True
        webhook_id = service.create()["webhookId"]
        state = service.state(webhook_id)
        assert (state["rel"], state["relSort"], state["relId"]) == (DUE, NOW, webhook_id)
        assert state["nextAttemptAt"] == NOW

    def test_webhook_created_paused_is_not_queued_or_indexed(self, service: Service) -> None:
        webhook_id = service.create(paused=True)["webhookId"]
        assert service.notified == []
        assert "rel" not in service.hook(webhook_id)
        assert "rel" not in service.state(webhook_id)

    @pytest.mark.parametrize("user_id", ["*", "bob"])
    def test_subscribing_to_another_user_requires_scope(self, service: Service, table: Table, user_id: str) -> None:
        with record_operations(table.client) as operations:
            refused = service.post("", {"url": URL, "userId": user_id})
        assert (refused.status, refused.slug, operations) == (403, "forbidden", [])
        assert CHANGES in refused.json["detail"]
        for user, scopes in (("alice", FEED_SCOPES), ("admin", None)):
            reply = service.post("", {"url": URL, "userId": user_id}, user=user, scopes=scopes)
            assert (reply.status, reply.json["userId"]) == (201, user)
            assert reply.json.get("follows") == (None if user_id == "*" else user_id)

    def test_admin_webhook_without_a_user_subscribes_to_own_changes(self, service: Service) -> None:
        assert service.create("admin")["follows"] == "admin"

    def test_repeated_create_with_a_key_creates_one_webhook(self, service: Service) -> None:
        first, second = (service.post("", {"url": URL}, headers=KEY) for _ in range(2))
        assert (second.status, second.body, second.etag) == (201, first.body, first.etag)
        assert service.ids() == [first.json["webhookId"]]
        other = service.post("", {"url": f"{URL}/other"}, headers=KEY)
        assert (other.status, other.slug) == (422, "idempotency-key-reused")

    def test_idempotency_record_does_not_contain_the_secret(self, service: Service, table: Table) -> None:
        with record_operations(table.client) as operations:
            secret = service.post("", {"url": URL}, headers=KEY).json["secret"]
        record = operations[-1].parameters["TransactItems"][0]["Put"]["Item"]
        response = zlib.decompress(record["answer"]["B"]).decode()
        assert json.loads(response)["generation"] == 1
        assert secret.removeprefix("whsec_") not in response

    def test_webhook_writes_create_no_audit_entry_or_job(self, service: Service, table: Table, clock: Clock) -> None:
        background = BackgroundWork(table, clock)
        webhook_id = service.create()["webhookId"]
        service.patch(webhook_id, {"paused": True})
        service.delete(webhook_id)
        background.settle()
        assert background.seen_records
        assert {entry(Record(record), days=1) is None for record in background.seen_records} == {True}
        assert not any(queue.sent for queue in background.queues.values())


class TestLimit:
    """A user has at most 20 webhooks."""

    @pytest.fixture
    def almost_full(self, service: Service) -> Service:
        """Return a service with a user who has one webhook fewer than the maximum."""
        for _ in range(MAX_WEBHOOKS - 1):
            service.create()
        return service

    def test_creating_a_webhook_beyond_the_limit_is_refused(self, almost_full: Service) -> None:
        last = almost_full.create()["webhookId"]
        refused = almost_full.post("", {"url": URL})
        assert (refused.status, refused.slug) == (409, "limit-reached")
        assert len(almost_full.ids()) == MAX_WEBHOOKS
        assert almost_full.create("bob")["userId"] == "bob"
        assert almost_full.delete(last).status == 204
        assert almost_full.post("", {"url": URL}).status == 201

    def test_second_of_two_concurrent_creates_is_refused_at_the_limit(self, almost_full: Service, table: Table) -> None:
        replies: list[Reply] = []
        with _before_request(table, "TransactWriteItems", lambda: replies.append(almost_full.post("", {"url": URL}))):
            replies.append(almost_full.post("", {"url": URL}))
        assert [reply.status for reply in replies] == [201, 409]
        assert len(almost_full.ids()) == MAX_WEBHOOKS

    def test_create_with_a_lost_response_creates_one_webhook(self, almost_full: Service, table: Table) -> None:
        with _losing_response(table, "TransactWriteItems") as attempts:
            created = almost_full.create()
        assert len(attempts) == 2
        assert created["webhookId"] in almost_full.ids()
        assert len(almost_full.ids()) == MAX_WEBHOOKS

    def test_used_key_gets_its_response_at_the_limit(self, almost_full: Service) -> None:
        first, second = (almost_full.post("", {"url": URL}, headers=KEY) for _ in range(2))
        assert (second.status, second.body) == (201, first.body)

    def test_delete_by_an_admin_updates_the_list_of_the_owner(self, almost_full: Service) -> None:
        last = almost_full.create()["webhookId"]
        assert almost_full.delete(last, user="admin").status == 204
        listed = almost_full.table.get(WEBHOOKS.key(userId="alice")) or {}
        assert len(listed["ids"]) == MAX_WEBHOOKS - 1
        assert almost_full.create()["webhookId"]


BAD_URLS = [
    "",
    "hooks",
    "http://hooks.acme.com/",
    "ftp://hooks.acme.com/",
    "javascript:alert(1)",
    "https://user@hooks.acme.com/",
    "https://user:password@hooks.acme.com/",
    "https://hooks.acme.com/#part",
    "https://hooks.acme.com:80/",
    "https://hooks.acme.com:22/",
    "https://hooks.acme.com:65536/",
    "https://hooks.acme.com/a b",
    "https://hooks.acme.com\\@evil.example/",
    "https://hooks.acme.com/\r\nHost: evil.example",
    "https://b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example/",
    "https://hooks\N{FULLWIDTH FULL STOP}acme.com/",
    "https://\N{CIRCLED LATIN SMALL LETTER E}xample.com/",
    "https://a..b/",
    "https:///a",
    "https://localhost/",
    "https://metadata.google.internal/",
    "https://127.0.0.1/",
    "https://2130706433/",
    "https://0x7f.1/",
    "https://017700000001/",
    "https://127.1/",
    "https://10.0.0.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://100.64.0.1/",
    "https://224.0.0.1/",
    "https://0.0.0.0/",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[2002:7f00:1::]/",
    "https://[fe80::1%25eth0]/",
    "https://[fd00:ec2::254]/",
    f"https://hooks.acme.com/{'x' * 2048}",
]
"""URLs that are refused, one of each kind. `tests/unit/test_webhook_addresses.py` has all forbidden addresses."""


class TestBadInput:
    @pytest.mark.parametrize("url", BAD_URLS, ids=lambda url: repr(url[:40]))
    def test_forbidden_url_is_refused_with_its_pointer(self, service: Service, table: Table, url: str) -> None:
        with record_operations(table.client) as operations:
            replies = [service.post("", {"url": url}), service.patch(MISSING, {"url": url})]
        for reply in replies:
            ((pointer, detail),) = _faults(reply).items()
            assert pointer == "/url"
            assert detail
        assert operations == []

    @pytest.mark.parametrize("url", ["https://hooks.acme.com", "https://xn--bcher-kva.example:8443/a?b=%20&c=d"])
    def test_accepted_urls_are_stored_as_sent(self, service: Service, url: str) -> None:
        assert service.get(f"/{service.create(url=url)['webhookId']}").json["url"] == url

    @pytest.mark.parametrize(
        ("field", "value", "pointer"),
        [
            ("url", None, "/url"),
            ("url", 1, "/url"),
            ("types", "video.*", "/types"),
            ("types", ["video.created", "video.viewed"], "/types/1"),
            ("types", ["*"], "/types/0"),
            ("types", ["video"], "/types/0"),
            ("types", ["job.running"], "/types/0"),
            ("types", [1], "/types/0"),
            ("types", ["video.*", "video.*"], "/types"),
            ("types", ["video.*"] * 1000, "/types"),
            ("description", "", "/description"),
            ("description", "a\nb", "/description"),
            ("description", "x" * 301, "/description"),
            ("paused", "true", "/paused"),
            ("paused", None, "/paused"),
            ("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "/secret"),
            ("webhookId", MISSING, "/webhookId"),
            ("follows", "bob", "/follows"),
            ("version", 1, "/version"),
            ("pausedBecause", "x", "/pausedBecause"),
            ("rel", "FOLLOWERS", "/rel"),
        ],
    )
    def test_invalid_field_is_refused_with_its_pointer(
        self, service: Service, table: Table, field: str, value: Any, pointer: str
    ) -> None:
        with record_operations(table.client) as operations:
            created = service.post("", {"url": URL} | {field: value})
            changed = service.patch(MISSING, {field: value})
        assert list(_faults(created)) == [pointer]
        assert list(_faults(changed)) == [pointer]
        assert operations == []

    def test_all_types_and_groups_are_accepted(self, service: Service) -> None:
        assert service.create(types=[*TYPES, *GROUPS])["types"] == [*TYPES, *GROUPS]

    @pytest.mark.parametrize("user_id", ["", "a\nb", "x" * 256, 1])
    def test_invalid_user_is_refused_with_its_pointer(self, service: Service, user_id: Any) -> None:
        assert list(_faults(service.post("", {"url": URL, "userId": user_id}, user="admin"))) == ["/userId"]

    def test_patch_of_secret_or_user_is_refused_with_the_reason(self, service: Service) -> None:
        webhook_id = service.create()["webhookId"]
        faults = _faults(service.patch(webhook_id, {"secret": "whsec_x", "userId": "bob"}))
        assert "rotate" in faults["/secret"]
        assert "create another" in faults["/userId"]

    @pytest.mark.parametrize(
        "start", [NOW + 1, NOW - DAYS_KEPT * DAY - 1, -1, "yesterday", "2025-06-15", None, 1.5, []]
    )
    def test_replay_must_start_within_the_retention(self, service: Service, start: Any) -> None:
        webhook_id = service.create()["webhookId"]
        before = service.state(webhook_id)
        assert list(_faults(service.post(f"/{webhook_id}/replay", {"from": start}))) == ["/from"]
        assert service.state(webhook_id) == before

    @pytest.mark.parametrize("action", ["rotate", "test"])
    def test_actions_without_a_body_refuse_unknown_fields(self, service: Service, action: str) -> None:
        webhook_id = service.create()["webhookId"]
        assert list(_faults(service.post(f"/{webhook_id}/{action}", {"secret": "whsec_x"}))) == ["/secret"]
        assert service.get(f"/{webhook_id}").json["version"] == 1

    def test_webhook_id_that_is_no_uuid_is_400(self, service: Service) -> None:
        assert service.get("/no-uuid").status == 400


class TestRead:
    def test_list_has_the_callers_webhooks_newest_first(self, service: Service, clock: Clock) -> None:
        first = service.create()
        clock.advance(1)
        second, _ = service.create(), service.create("bob")
        listed = service.get().json
        _conforms("WebhookPage", listed)
        assert listed["nextCursor"] is None
        assert [item["webhookId"] for item in listed["items"]] == [second["webhookId"], first["webhookId"]]

    def test_list_by_user_requires_owner_or_admin(self, service: Service) -> None:
        webhook_id = service.create()["webhookId"]
        assert service.ids(query="userId=alice") == [webhook_id]
        assert service.ids(query="userId=alice", user="admin") == [webhook_id]
        refused = service.get(query="userId=alice", user="bob")
        assert (refused.status, refused.slug) == (403, "forbidden")
        assert service.get(query="userId=alice", user="bob", scopes=FEED_SCOPES).status == 403

    def test_webhooks_are_listed_in_pages(self, service: Service) -> None:
        created = {service.create()["webhookId"] for _ in range(3)}
        first = service.get(query="limit=2").json
        second = service.get(query=f"limit=2&cursor={first['nextCursor']}").json
        assert [len(first["items"]), len(second["items"]), second["nextCursor"]] == [2, 1, None]
        assert {item["webhookId"] for item in first["items"] + second["items"]} == created

    @pytest.mark.parametrize("scopes", [None, FEED_SCOPES])
    def test_webhook_of_another_user_is_404_for_every_operation(self, service: Service, scopes: str | None) -> None:
        webhook_id = service.create()["webhookId"]
        before = service.hook(webhook_id), service.state(webhook_id)
        path, as_bob = f"/{webhook_id}", {"user": "bob", "scopes": scopes}
        replies = [
            service.get(path, **as_bob),
            service.patch(webhook_id, {"paused": True}, **as_bob),
            service.delete(webhook_id, **as_bob),
            service.post(f"{path}/rotate", **as_bob),
            service.post(f"{path}/replay", {"from": NOW}, **as_bob),
            service.post(f"{path}/test", **as_bob),
            service.get(f"{path}/deliveries", **as_bob),
        ]
        absent = service.get(f"/{MISSING}")
        assert {(reply.status, reply.body) for reply in replies} == {(404, absent.body)}
        assert (service.hook(webhook_id), service.state(webhook_id)) == before
        assert service.receiver.requests == []

    def test_webhook_shows_delay_failures_and_pause_reason(self, service: Service) -> None:
        webhook_id = service.create()["webhookId"]
        service.fail(webhook_id)
        document = service.get(f"/{webhook_id}").json
        _conforms("Webhook", document)
        assert (document["behindSince"], document["nextAttemptAt"], document["failures"]) == (NOW * 1000, NOW + 600, 3)
        service.fail(webhook_id, because="The receiver returned 410 Gone.")
        paused = service.get(f"/{webhook_id}").json
        _conforms("Webhook", paused)
        assert (paused["paused"], paused["pausedBecause"]) == (True, "The receiver returned 410 Gone.")

    def test_matching_etag_of_a_webhook_returns_304(self, service: Service) -> None:
        path = f"/{service.create()['webhookId']}"
        assert service.get(path, headers={"If-None-Match": service.get(path).etag}).status == 304


class TestSubscriptions:
    """Webhooks that subscribe to all users or to one user. Admins can list and delete them."""

    def test_admin_lists_webhooks_subscribed_to_all_users(self, service: Service, clock: Clock) -> None:
        service.create()
        bobs = service.create("bob", scopes=FEED_SCOPES, userId="*")["webhookId"]
        clock.advance(1)
        own = service.create("admin", userId="*")["webhookId"]
        listed = service.get(query="follows=*", user="admin").json
        _conforms("WebhookPage", listed)
        assert listed["items"] == [service.get(f"/{id_}", user="admin").json for id_ in (own, bobs)]

    def test_admin_lists_all_webhooks_subscribed_to_a_user(self, service: Service) -> None:
        own, bobs = service.create(), service.create("bob", scopes=FEED_SCOPES, userId="alice")
        service.create("bob")
        subscriptions = service.ids(query="follows=alice", user="admin")
        assert {*subscriptions} == {own["webhookId"], bobs["webhookId"]}

    def test_subscription_list_omits_paused_and_deleted_webhooks(self, service: Service) -> None:
        paused, deleted, pending = (
            service.create("bob", scopes=FEED_SCOPES, userId="*")["webhookId"] for _ in range(3)
        )
        assert service.patch(paused, {"paused": True}, user="admin").status == 200
        assert service.delete(deleted, user="admin").status == 204
        assert service.ids(query="follows=*", user="admin") == [pending]

    def test_subscription_list_omits_webhooks_paused_or_deleted_but_still_in_index(
        self, service: Service, table: Table
    ) -> None:
        paused, deleted = (service.create("bob", scopes=FEED_SCOPES, userId="*")["webhookId"] for _ in range(2))

        def end() -> None:
            service.patch(paused, {"paused": True}, user="admin")
            service.delete(deleted, user="admin")

        with _before_request(table, "BatchGetItem", end):
            listed = service.get(query="follows=*", user="admin").json
        assert listed == {"items": [], "nextCursor": None}

    def test_subscriptions_are_listed_in_pages(self, service: Service) -> None:
        created = {service.create("bob", scopes=FEED_SCOPES, userId="*")["webhookId"] for _ in range(5)}
        listed: list[str] = []
        cursor = ""
        while True:
            page = service.get(query=f"follows=*&limit=2{cursor}", user="admin").json
            listed += [item["webhookId"] for item in page["items"]]
            if page["nextCursor"] is None:
                break
            cursor = f"&cursor={page['nextCursor']}"
        assert (len(listed), {*listed}) == (5, created)

    @pytest.mark.parametrize("query", ["follows=*", "follows=bob", "follows=alice"])
    @pytest.mark.parametrize("scopes", [None, FEED_SCOPES])
    def test_subscription_list_is_forbidden_without_admin(
        self, service: Service, table: Table, query: str, scopes: str | None
    ) -> None:
        with record_operations(table.client) as operations:
            refused = service.get(query=query, scopes=scopes)
        assert (refused.status, refused.slug, operations) == (403, "forbidden", [])

    def test_list_refuses_follows_combined_with_user_id(self, service: Service) -> None:
        refused = service.get(query="follows=*&userId=alice", user="admin")
        assert (refused.status, refused.json["errors"][0]["parameter"]) == (400, "follows")


class TestChange:
    def test_patch_replaces_fields_and_null_removes_them(self, service: Service) -> None:
        webhook_id = service.create(types=["video.*"], description="The index")["webhookId"]
        reply = service.patch(webhook_id, {"url": f"{URL}/2", "types": None, "description": None})
        _conforms("Webhook", reply.json)
        assert (reply.json["url"], reply.json["types"], "description" in reply.json) == (f"{URL}/2", [], False)
        assert (reply.json, reply.etag) == ((read := service.get(f"/{webhook_id}")).json, read.etag)

    def test_patch_without_a_change_writes_nothing(self, service: Service, table: Table) -> None:
        webhook_id = service.create(types=["video.*"])["webhookId"]
        with record_operations(table.client) as operations:
            reply = service.patch(webhook_id, {"url": URL, "types": ["video.*"], "paused": False})
        assert reply.json["version"] == 1
        assert [operation.name for operation in operations] == ["BatchGetItem"]

    def test_lost_race_is_retried_with_the_current_webhook(self, service: Service, table: Table) -> None:
        webhook_id = service.create()["webhookId"]
        rival = {"types": ["video.*"]}
        with _before_request(table, "UpdateItem", lambda: service.patch(webhook_id, rival)):
            reply = service.patch(webhook_id, {"description": "mine"})
        assert (reply.json["types"], reply.json["description"], reply.json["version"]) == (["video.*"], "mine", 3)
        with _before_request(table, "UpdateItem", lambda: service.patch(webhook_id, {"types": []})):
            assert service.patch(webhook_id, {"description": "late"}, headers={"If-Match": '"3"'}).status == 412

    @pytest.mark.parametrize("patch", [{"description": "d"}, {"url": f"{URL}/2"}])
    def test_lost_response_is_recovered(self, service: Service, table: Table, patch: dict[str, str]) -> None:
        webhook_id = service.create()["webhookId"]
        turn = service.state(webhook_id)["turn"]
        operation = "TransactWriteItems" if "url" in patch else "UpdateItem"
        with _losing_response(table, operation) as attempts:
            reply = service.patch(webhook_id, patch, headers={"If-Match": '"1"'})
        assert (reply.status, reply.json["version"], len(attempts)) == (200, 2, 2)
        assert service.state(webhook_id)["turn"] == turn + ("url" in patch)

    def test_repeated_transaction_conflicts_return_conflict_problem(
        self, service: Service, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        webhook_id = service.create()["webhookId"]

        def conflict(*_: Any) -> None:
            raise TransactionConflict

        monkeypatch.setattr(table, "transact", conflict)
        assert service.post("", {"url": URL}).slug == "write-contention"
        assert service.post("", {"url": URL}, headers=KEY).slug == "request-in-flight"
        assert service.patch(webhook_id, {"paused": True}).slug == "write-contention"
        assert service.delete(webhook_id).slug == "write-contention"

    @pytest.mark.parametrize("patch", [{"url": f"{URL}/2"}, {"types": ["video.*"]}, {"paused": True}])
    def test_change_takes_the_lease_from_a_delivering_worker(self, service: Service, patch: dict[str, Any]) -> None:
        webhook_id = service.create()["webhookId"]
        worker = service.work(webhook_id)
        assert service.patch(webhook_id, patch).status == 200
        assert not worker.save({owner_log("alice"): LogCursor(1, 1)})
        # the worker still has the lease, so that no other worker sends concurrently
        assert service.state(webhook_id)["lease"] == "worker"

    def test_changed_description_keeps_the_workers_lease(self, service: Service) -> None:
        webhook_id = service.create()["webhookId"]
        worker = service.work(webhook_id)
        service.notified.clear()
        assert service.patch(webhook_id, {"description": "d"}).status == 200
        assert service.notified == []
        assert worker.save({owner_log("alice"): LogCursor(1, 1)})

    @pytest.mark.parametrize("patch", [{"url": f"{URL}/2"}, {"types": ["video.*"]}])
    def test_changed_url_or_types_trigger_immediate_retry(self, service: Service, patch: dict[str, Any]) -> None:
        webhook_id = service.create()["webhookId"]
        service.fail(webhook_id)
        service.notified.clear()
        document = service.patch(webhook_id, patch).json
        assert {"failures", "nextAttemptAt"}.isdisjoint(document)
        assert service.notified == [(webhook_id, 0)]
        assert service.state(webhook_id)["nextAttemptAt"] == NOW

    def test_user_without_scope_can_only_pause_or_delete_webhook_for_others(self, service: Service) -> None:
        reply = service.post("", {"url": URL, "userId": "*"}, scopes=FEED_SCOPES)
        path = f"/{reply.json['webhookId']}"
        for patch in ({"url": f"{URL}/2"}, {"description": "d"}):
            assert service.patch(reply.json["webhookId"], patch).status == 403
        assert [service.post(f"{path}/replay", {"from": NOW}).status, service.post(f"{path}/rotate").status] == [
            403
        ] * 2
        assert service.patch(reply.json["webhookId"], {"paused": True}).status == 200
        assert service.patch(reply.json["webhookId"], {"paused": False}).status == 403
        assert service.patch(reply.json["webhookId"], {"paused": False}, scopes=FEED_SCOPES).status == 200
        assert service.delete(reply.json["webhookId"]).status == 204


class TestPause:
    def test_paused_webhook_is_unqueued_and_removed_from_indexes(self, service: Service) -> None:
        webhook_id = service.create()["webhookId"]
        service.notified.clear()
        assert service.patch(webhook_id, {"paused": True}).json["paused"]
        assert "rel" not in service.hook(webhook_id)
        assert {"rel", "nextAttemptAt"}.isdisjoint(service.state(webhook_id))
        assert service.notified == []

    def test_webhook_paused_by_its_owner_has_no_pause_reason(self, service: Service) -> None:
        webhook_id = service.create()["webhookId"]
        assert "pausedBecause" not in service.patch(webhook_id, {"paused": True}).json

    def test_resumed_webhook_continues_from_its_position(self, service: Service) -> None:
        webhook_id = service.create()["webhookId"]
        service.patch(webhook_id, {"paused": True})
        service.change(1)
        service.notified.clear()
        assert not service.patch(webhook_id, {"paused": False}).json["paused"]
        assert service.notified == [(webhook_id, 0)]
        assert service.hook(webhook_id)["rel"] == follower_relation("alice")
        assert service.state(webhook_id)["rel"] == DUE
        assert service.next_change(webhook_id, owner_log("alice")) == "c1"

    def test_resume_clears_the_pause_reason_and_failures(self, service: Service) -> None:
        webhook_id = service.create()["webhookId"]
        service.fail(webhook_id, because="The receiver returned 410 Gone.")
        still = service.patch(webhook_id, {"description": "d"}).json
        assert (still["pausedBecause"], still["failures"]) == ("The receiver returned 410 Gone.", 3)
        document = service.patch(webhook_id, {"paused": False}).json
        assert {"pausedBecause", "failures", "nextAttemptAt"}.isdisjoint(document)
        assert {"failures", "failingSince", "tried"}.isdisjoint(service.state(webhook_id))

    def test_changing_the_url_does_not_queue_a_paused_webhook(self, service: Service) -> None:
        webhook_id = service.create(paused=True)["webhookId"]
        assert service.patch(webhook_id, {"url": f"{URL}/2"}).json["paused"]
        assert service.notified == []
        assert "rel" not in service.state(webhook_id)


class TestSecrets:
    def test_rotation_returns_a_new_secret_once(self, service: Service) -> None:
        created = service.create()
        reply = service.post(f"/{created['webhookId']}/rotate")
        _conforms("WebhookWithSecret", reply.json)
        assert reply.json["secret"] == encode_secret(secret_of(MASTER, created["webhookId"], 2))
        assert (reply.json["version"], reply.json["previousSecretUntil"]) == (2, NOW + DAY)
        read = service.get(f"/{created['webhookId']}").json
        assert {**read, "secret": reply.json["secret"]} == reply.json

    def test_rotated_secret_signs_first_and_previous_stays_valid_for_a_day(
        self, service: Service, clock: Clock
    ) -> None:
        webhook_id = service.create()["webhookId"]
        first, second, third = (secret_of(MASTER, webhook_id, generation) for generation in (1, 2, 3))

        def secrets() -> list[bytes]:
            return secrets_of(MASTER, service.hook(webhook_id), int(clock()))

        assert secrets() == [first]
        service.post(f"/{webhook_id}/rotate")
        clock.advance(OVERLAP_SECONDS - 1)
        assert secrets() == [second, first]
        clock.advance(1)
        assert secrets() == [second]
        assert "previousSecretUntil" not in service.get(f"/{webhook_id}").json
        service.post(f"/{webhook_id}/rotate")
        assert secrets() == [third, second]

    def test_second_rotation_within_a_day_ends_the_first_secret(self, service: Service, clock: Clock) -> None:
        webhook_id = service.create()["webhookId"]
        service.post(f"/{webhook_id}/rotate")
        clock.advance(60)
        service.post(f"/{webhook_id}/rotate")
        assert service.get(f"/{webhook_id}").json["previousSecretUntil"] == NOW + 60 + DAY
        service.post(f"/{webhook_id}/test")
        ((_, headers, body),) = service.receiver.requests
        second_and_third = [secret_of(MASTER, webhook_id, generation) for generation in (3, 2)]
        assert headers["webhook-signature"] == signature(second_and_third, headers["webhook-id"], NOW + 60, body)

    def test_repeated_rotation_with_a_key_keeps_the_current_secret(self, service: Service) -> None:
        webhook_id = service.create()["webhookId"]
        first, second = (service.post(f"/{webhook_id}/rotate", headers=KEY) for _ in range(2))
        assert (second.status, second.body, second.etag) == (200, first.body, first.etag)
        assert service.hook(webhook_id)["generation"] == 2

    @pytest.mark.parametrize(("headers", "operation"), [({}, "UpdateItem"), (KEY, "TransactWriteItems")])
    def test_rotation_with_a_lost_response_rotates_once(
        self, service: Service, table: Table, headers: dict[str, str], operation: str
    ) -> None:
        webhook_id = service.create()["webhookId"]
        with _losing_response(table, operation):
            reply = service.post(f"/{webhook_id}/rotate", headers=headers)
        assert reply.json["secret"] == encode_secret(secret_of(MASTER, webhook_id, 2))
        assert service.hook(webhook_id)["generation"] == 2

    def test_concurrent_rotations_create_two_secrets(self, service: Service, table: Table) -> None:
        webhook_id = service.create()["webhookId"]
        secrets: list[str] = []

        def rotate() -> None:
            secrets.append(service.post(f"/{webhook_id}/rotate").json["secret"])

        with _before_request(table, "UpdateItem", rotate):
            rotate()
        assert secrets == [encode_secret(secret_of(MASTER, webhook_id, generation)) for generation in (2, 3)]


class TestReplay:
    def test_replay_resends_changes_from_a_given_time(
        self, service: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shared.feed.log.LARGEST_TAIL", 200)  # some changes are in blocks
        log = owner_log("alice")
        for number in range(40):
            service.change(number)
            clock.advance(10)
        webhook_id = service.create()["webhookId"]
        service.notified.clear()
        start = NOW + 250
        reply = service.post(f"/{webhook_id}/replay", {"from": start})
        _conforms("Webhook", reply.json)
        assert service.notified == [(webhook_id, 0)]
        entries = service.feed.read(log, LogCursor(*service.state(webhook_id)["places"][log]), 40).entries
        resent_at = [change.change["at"] // 1000 for change in entries]
        assert [at for at in resent_at if at >= start] == [NOW + 10 * number for number in range(25, 40)]

    @pytest.mark.parametrize("start", ["2025-06-15T15:06:40Z", "2025-06-15T17:06:40.999+02:00", NOW, float(NOW)])
    def test_replay_accepts_all_formats_of_time(self, service: Service, clock: Clock, start: object) -> None:
        service.change(1)
        clock.advance(60)
        webhook_id = service.create()["webhookId"]
        assert service.post(f"/{webhook_id}/replay", {"from": start}).status == 200
        assert service.next_change(webhook_id, owner_log("alice")) == "c1"

    @pytest.mark.parametrize("start", [NOW, NOW - DAYS_KEPT * DAY])
    def test_replay_accepts_now_and_the_oldest_retained_change(self, service: Service, start: int) -> None:
        assert service.post(f"/{service.create()['webhookId']}/replay", {"from": start}).status == 200

    def test_replay_of_webhook_for_all_users_rewinds_every_log(self, service: Service, clock: Clock) -> None:
        service.change(1, user="bob")
        clock.advance(60)
        webhook_id = service.create("admin", userId="*")["webhookId"]
        service.post(f"/{webhook_id}/replay", {"from": NOW}, user="admin")
        assert tuple(service.state(webhook_id)["places"]) == shard_logs()
        assert [service.next_change(webhook_id, log) for log in shard_logs()].count("c1") == 1

    def test_replay_clears_the_recorded_delivery_state(self, service: Service) -> None:
        webhook_id = service.create()["webhookId"]
        service.fail(webhook_id)
        state = service.state(webhook_id)
        service.states.save(state, state | {"delivered": ["c1"], "caughtUpAt": NOW}, NOW)
        document = service.post(f"/{webhook_id}/replay", {"from": NOW}).json
        assert {"failures", "nextAttemptAt", "behindSince"}.isdisjoint(document)
        cleared = {"delivered", "caughtUpAt", "oldestWaiting", "failures", "failingSince", "tried"}
        assert cleared.isdisjoint(service.state(webhook_id))

    def test_replay_is_not_undone_by_a_delivering_worker(self, service: Service, clock: Clock) -> None:
        service.change(1)
        clock.advance(60)
        webhook_id = service.create()["webhookId"]
        worker = service.work(webhook_id)
        service.change(2)
        assert service.post(f"/{webhook_id}/replay", {"from": NOW}).status == 200
        assert not worker.save({owner_log("alice"): LogCursor(1, 2)})
        assert service.next_change(webhook_id, owner_log("alice")) == "c1"
        assert service.work(webhook_id).save({owner_log("alice"): LogCursor(1, 1)})

    def test_replay_survives_a_concurrent_claim_by_a_worker(self, service: Service, clock: Clock, table: Table) -> None:
        service.change(1)
        clock.advance(60)
        webhook_id = service.create()["webhookId"]
        workers: list[Worker] = []
        with _before_request(table, "TransactWriteItems", lambda: workers.append(service.work(webhook_id))):
            assert service.post(f"/{webhook_id}/replay", {"from": NOW}).status == 200
        assert not workers[0].save({owner_log("alice"): LogCursor(1, 1)})
        assert service.next_change(webhook_id, owner_log("alice")) == "c1"

    def test_replay_of_paused_webhook_applies_after_it_resumes(self, service: Service, clock: Clock) -> None:
        service.change(1)
        clock.advance(60)
        webhook_id = service.create(paused=True)["webhookId"]
        assert service.post(f"/{webhook_id}/replay", {"from": NOW}).json["paused"]
        assert service.notified == []
        assert "rel" not in service.state(webhook_id)
        service.patch(webhook_id, {"paused": False})
        assert service.next_change(webhook_id, owner_log("alice")) == "c1"


class TestTest:
    def test_test_event_is_signed_and_sent_like_a_change(self, service: Service) -> None:
        webhook_id = service.create()["webhookId"]
        service.post(f"/{webhook_id}/rotate")
        reply = service.post(f"/{webhook_id}/test")
        _conforms("WebhookTest", reply.json)
        ((url, headers, body),) = service.receiver.requests
        id_ = headers["webhook-id"]
        assert reply.json == {"id": id_, "delivered": True, "status": 204, "ms": 7}
        assert (url, json.loads(body)["type"], json.loads(body)["data"]["webhookId"]) == (URL, TEST_TYPE, webhook_id)
        secrets = [secret_of(MASTER, webhook_id, generation) for generation in (2, 1)]
        assert headers["webhook-signature"] == signature(secrets, id_, NOW, body)

    @pytest.mark.parametrize(
        ("response", "expected"),
        [
            (
                ReceiverResponse(500, 9, b"\xff" + b"x" * 600, None, is_forbidden=False, retry_after=None),
                {"status": 500, "ms": 9, "answer": "\N{REPLACEMENT CHARACTER}" + "x" * 511},
            ),
            (ReceiverResponse(302, 9, b"", None, is_forbidden=False, retry_after=None), {"status": 302, "ms": 9}),
            (
                ReceiverResponse(
                    None, 9, b"", "The receiver refused the connection.", is_forbidden=False, retry_after=None
                ),
                {"error": "The receiver refused the connection.", "ms": 9},
            ),
        ],
    )
    def test_test_delivery_shows_the_failed_response(
        self, service: Service, response: ReceiverResponse, expected: dict[str, Any]
    ) -> None:
        webhook_id = service.create()["webhookId"]
        service.receiver.response = response
        reply = service.post(f"/{webhook_id}/test")
        _conforms("WebhookTest", reply.json)
        del reply.json["id"]
        assert {name: value for name, value in reply.json.items() if name != "id"} == expected | {"delivered": False}

    def test_test_delivery_records_only_its_time_and_id_when_webhook_is_paused(self, service: Service) -> None:
        webhook_id = service.create(paused=True)["webhookId"]
        before = service.hook(webhook_id), service.state(webhook_id)
        tested = service.post(f"/{webhook_id}/test").json
        assert tested["delivered"]
        noted = {"testedAt": NOW, "testId": tested["id"]}
        assert (service.hook(webhook_id), service.state(webhook_id)) == (before[0], before[1] | noted)
        assert service.get(f"/{webhook_id}/deliveries").json["items"] == []

    def test_test_event_is_limited_to_one_in_ten_seconds(self, service: Service, clock: Clock) -> None:
        webhook_id, other = service.create()["webhookId"], service.create()["webhookId"]
        assert service.post(f"/{webhook_id}/test").status == 200
        clock.advance(3)
        refused = service.post(f"/{webhook_id}/test", user="admin")
        assert (refused.status, refused.slug, refused.headers["retry-after"]) == (429, "too-soon", "7")
        assert "once in 10 seconds" in refused.json["detail"]
        assert len(service.receiver.requests) == 1
        assert service.post(f"/{other}/test").status == 200
        clock.advance(7)
        assert service.post(f"/{webhook_id}/test").status == 200

    def test_second_of_two_concurrent_test_deliveries_is_refused(self, service: Service, table: Table) -> None:
        webhook_id = service.create()["webhookId"]
        replies: list[Reply] = []
        with _before_request(table, "UpdateItem", lambda: replies.append(service.post(f"/{webhook_id}/test"))):
            replies.append(service.post(f"/{webhook_id}/test"))
        assert [reply.status for reply in replies] == [200, 429]
        assert len(service.receiver.requests) == 1

    def test_test_event_with_a_lost_table_response_is_sent(self, service: Service, table: Table) -> None:
        webhook_id = service.create()["webhookId"]
        with _losing_response(table, "UpdateItem") as attempts:
            assert service.post(f"/{webhook_id}/test").json["delivered"]
        assert len(attempts) == 2

    def test_test_delivery_sends_nothing_when_webhook_is_deleted_concurrently(
        self, service: Service, table: Table
    ) -> None:
        webhook_id = service.create()["webhookId"]
        with _before_request(table, "UpdateItem", lambda: service.delete(webhook_id)):
            assert service.post(f"/{webhook_id}/test").status == 404
        assert not service.receiver.requests
        assert not service.state(webhook_id)

    def test_test_event_and_worker_keep_each_others_writes(self, service: Service) -> None:
        webhook_id = service.create()["webhookId"]
        worker = service.work(webhook_id)
        assert service.post(f"/{webhook_id}/test").status == 200
        assert worker.save({owner_log("alice"): LogCursor(1, 0)})
        assert service.state(webhook_id)["testedAt"] == NOW
        assert service.post(f"/{webhook_id}/test").status == 429


class TestDeliveries:
    @pytest.fixture
    def webhook_id(self, service: Service) -> str:
        """Return the id of a webhook with nine delivery attempts: three on each of three days."""
        webhook_id = str(service.create()["webhookId"])
        for run in range(3):
            at = NOW * 1000 + run * DAY * 1000
            attempts = [
                {"at": at, "changeId": f"c{run}.{number}", "type": "video.created", "videoId": MISSING, "status": 204}
                | {"ms": 5, "attempt": 1}
                for number in range(3)
            ]
            service.states.add_attempts(webhook_id, at, run, attempts)
        return webhook_id

    @pytest.mark.parametrize("limit", [1, 2, 3, 4, 8, 9, 100])
    def test_deliveries_are_listed_latest_first_in_pages(self, service: Service, webhook_id: str, limit: int) -> None:
        pages: list[list[str]] = []
        cursor = ""
        while True:
            reply = service.get(f"/{webhook_id}/deliveries", query=f"limit={limit}{cursor}").json
            _conforms("DeliveryPage", reply)
            pages.append([attempt["changeId"] for attempt in reply["items"]])
            if reply["nextCursor"] is None:
                break
            cursor = f"&cursor={reply['nextCursor']}"
        everything = [f"c{run}.{number}" for run in (2, 1, 0) for number in (2, 1, 0)]
        assert pages == [everything[start : start + limit] for start in range(0, 9, limit)]

    def test_delivery_pages_do_not_shift_when_attempts_are_added(self, service: Service, webhook_id: str) -> None:
        first = service.get(f"/{webhook_id}/deliveries", query="limit=4").json
        service.states.add_attempts(webhook_id, (NOW + 9 * DAY) * 1000, 9, [{"changeId": "new"}])
        second = service.get(f"/{webhook_id}/deliveries", query=f"limit=4&cursor={first['nextCursor']}").json
        assert [attempt["changeId"] for attempt in second["items"]] == ["c1.1", "c1.0", "c0.2", "c0.1"]

    def test_delivery_list_omits_expired_attempts_before_dynamodb_deletes_them(
        self, service: Service, webhook_id: str, clock: Clock
    ) -> None:
        clock.advance(8 * DAY)
        document = service.get(f"/{webhook_id}/deliveries").json["items"]
        assert [attempt["changeId"] for attempt in document] == ["c2.2", "c2.1", "c2.0"]


class TestDelete:
    def test_deleted_webhook_is_removed_from_table_and_api(self, service: Service) -> None:
        webhook_id = service.create()["webhookId"]
        assert service.delete(webhook_id).status == 204
        assert not any((service.hook(webhook_id), service.state(webhook_id), service.ids()))
        path = f"/{webhook_id}"
        replies = [service.get(path), service.delete(webhook_id), service.get(f"{path}/deliveries")]
        assert [reply.status for reply in replies] == [404] * 3

    def test_delivering_worker_does_not_recreate_a_deleted_webhook(self, service: Service) -> None:
        webhook_id = service.create()["webhookId"]
        worker = service.work(webhook_id)
        assert service.delete(webhook_id).status == 204
        assert not worker.save({owner_log("alice"): LogCursor(1, 1)})
        assert not service.state(webhook_id)

    def test_lost_response_is_recovered(self, service: Service, table: Table) -> None:
        webhook_id = service.create()["webhookId"]
        with _losing_response(table, "TransactWriteItems") as attempts:
            assert service.delete(webhook_id).status == 204
        assert len(attempts) == 2
        assert service.ids() == []

    def test_late_change_does_not_recreate_a_deleted_webhook(self, service: Service, table: Table) -> None:
        webhook_id = service.create()["webhookId"]
        with _before_request(table, "TransactWriteItems", lambda: service.delete(webhook_id)):
            assert service.patch(webhook_id, {"paused": True}).status == 404
        assert not any((service.hook(webhook_id), service.state(webhook_id)))

    def test_delete_during_a_concurrent_change_succeeds_only_without_if_match(
        self, service: Service, table: Table
    ) -> None:
        webhook_id = service.create()["webhookId"]
        with _before_request(table, "TransactWriteItems", lambda: service.patch(webhook_id, {"description": "d"})):
            assert service.delete(webhook_id, headers={"If-Match": '"1"'}).status == 412
        with _before_request(table, "TransactWriteItems", lambda: service.patch(webhook_id, {"description": "e"})):
            assert service.delete(webhook_id).status == 204
        assert service.ids() == []
