"""Webhook delivery in tests: the feed, the delivery worker, and a receiver. Tests choose the receiver's responses."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from functions.deliveries import handler as deliveries
from local.testbed.background import FakeQueue
from local.testbed.harness import Clock, Context, FakeResources
from local.testbed.streams import sqs_event
from shared.aws.dynamodb import Table
from shared.aws.listing import Lists
from shared.background.sweeper import enqueue_due
from shared.core.caller import Caller
from shared.core.settings import LambdaHandler
from shared.entities import Webhook, WebhookState
from shared.feed.change import Change
from shared.feed.log import Feed, owner_log, shard_logs
from shared.processing.messages import changed_message, deliver_message
from shared.routes import ADMIN, READ, WRITE
from shared.schema import AUDIT_TABLE_NAME
from shared.webhooks.delivery import INDEX_SECONDS
from shared.webhooks.delivery_state import DeliveryStateStore
from shared.webhooks.http_client import ReceiverResponse
from shared.webhooks.store import WebhookStore

ALICE = Caller("alice", frozenset({READ, WRITE}))
ROOT = Caller("root", frozenset({READ, WRITE, ADMIN}))
URL = "https://hooks.example/in"


def respond_with(status: int | None = 204, **said: Any) -> ReceiverResponse:
    """Return a receiver's response to a delivery. `said` overrides the defaults of fields other than `status`, such as
    `error`."""
    fields: dict[str, Any] = {"ms": 7, "body": b"", "error": None, "is_forbidden": False, "retry_after": None}
    return ReceiverResponse(status, **fields | said)


def accept_any_version(_: int) -> bool:
    """Return `True`. Tests pass this function as an If-Match check that accepts every version of a webhook."""
    return True


class FakeDeliveryQueue(FakeQueue):
    """Queue that stores messages. A test can take a message only after its delay has passed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.waiting: list[tuple[float, dict[str, Any]]] = []

    def send(self, body: Mapping[str, object], delay_seconds: int = 0) -> None:
        """Store a message."""
        assert 0 <= delay_seconds <= 900, "SQS refuses it"
        self.waiting.append((self.clock() + delay_seconds, dict(body)))

    def take(self) -> list[dict[str, Any]]:
        """Return and remove the messages that are due."""
        ready = [body for at, body in self.waiting if at <= self.clock()]
        self.waiting = [(at, body) for at, body in self.waiting if at > self.clock()]
        return ready

    @property
    def waits(self) -> list[int]:
        """Remaining delays of the waiting messages, in seconds."""
        return [int(at - self.clock()) for at, _ in self.waiting]


class FakeReceiver:
    """Receiver that records all requests. It accepts each delivery, unless a test sets `answer`."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Mapping[str, str], bytes]] = []
        self.answer: Callable[[dict[str, Any]], ReceiverResponse] = lambda _: respond_with()

    def __call__(self, url: str, headers: Mapping[str, str], body: bytes, *, local: bool) -> ReceiverResponse:
        self.requests.append((url, headers, body))
        return self.answer(json.loads(body))

    @property
    def ids(self) -> list[str]:
        """Ids of the received changes, in the order in which they arrived."""
        return [headers["webhook-id"] for _, headers, _ in self.requests]


class DeliveryTestbed:
    """Webhooks, feed, worker and receiver in one process. Each step runs only when a test calls it."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self.table = table
        self.clock = clock
        self.feed = Feed(Table(AUDIT_TABLE_NAME, table.client, sleep=lambda _: None), clock)
        self.hooks = WebhookStore(table)
        self.states = DeliveryStateStore(table)
        self.receiver = FakeReceiver()
        self.queue = FakeDeliveryQueue(clock)
        self.worker = self.make()

    def make(
        self, events: Any = None, send: Callable[..., ReceiverResponse] | None = None, **variables: str
    ) -> LambdaHandler:
        """Return a delivery worker. `events` is an EventBridge client: with it, the worker also delivers to an event
        bus."""
        queues = {"deliveries": self.queue}
        resources = FakeResources(self.table, self.clock, audit=self.feed.table, queues=queues, events=events)
        variables |= {"EVENT_BUS": "the-bus"} if events else {}
        make = partial(deliveries.make, send=send or self.receiver)
        return resources.make(deliveries.lambda_handler, make, **variables)

    def create(self, id_: str = "hook", caller: Caller = ALICE, *, everybody: bool = False, **content: Any) -> None:
        """Create a webhook, and run the worker for it. The webhook subscribes to the caller's changes, or with
        `everybody` to all changes."""
        logs = shard_logs() if everybody else (owner_log(caller.subject),)
        content = {"url": URL, "types": [], "paused": False} | content
        content |= {} if everybody else {"follows": caller.subject}
        self.hooks.create(id_, content, {log: self.feed.end(log) for log in logs}, caller, int(self.clock()))
        self.deliver(id_)
        self.clock.advance(INDEX_SECONDS)
        self.deliver(id_)
        self.queue.waiting.clear()

    def change(self, id_: str, video: str = "v", user: str = "alice", type_: str = "video.changed") -> Change:
        """Append a change to the feed. No message notifies the worker."""
        (made,) = self.changes(id_, video=video, user=user, type_=type_)
        return made

    def changes(
        self, *ids: str, video: str = "v", user: str = "alice", type_: str = "video.changed"
    ) -> Sequence[Change]:
        """Append changes to the feed in one batch. No message notifies the worker."""
        at = int(self.clock() * 1000)
        made: list[Change] = [
            {"id": id_, "type": type_, "videoId": video, "userId": user, "at": at, "fields": ["/title"]} for id_ in ids
        ]
        self.feed.prepare(made)
        self.feed.append(made)
        return made

    def handle(
        self, body: Mapping[str, Any], worker: LambdaHandler | None = None, context: Any = None, age: float = 0
    ) -> bool:
        """Deliver a message that is `age` seconds old to a worker, and return whether the worker succeeded."""
        sent = str(int((self.clock() - age) * 1000))
        return (worker or self.worker)(sqs_event(body, SentTimestamp=sent), context or Context()) == {
            "batchItemFailures": []
        }

    def deliver(self, id_: str = "hook", context: Any = None) -> bool:
        """Deliver the message for a webhook to the worker, and return whether the worker succeeded."""
        return self.handle(deliver_message(id_), context=context)

    def notify(self, *owners: str) -> list[str]:
        """Notify the worker that these owners have changes. Returns the ids of the webhooks that the worker
        enqueues."""
        assert self.handle(changed_message(owners))
        return [message["webhookId"] for message in self.queue.take()]

    def work(self) -> None:
        """Deliver all due messages to the worker, including the messages that it sends in response."""
        while messages := self.queue.take():
            for message in messages:
                assert self.handle(message)

    def sweep(self) -> int:
        """Run the sweeper, and return the number of due webhooks that it enqueued."""
        return enqueue_due(Lists(self.table), self.queue, int(self.clock()), lambda: True).sent

    def wait(self) -> int:
        """Advance the clock to the next attempt of the webhook `hook`, and run that attempt. Returns the seconds by which
        the clock advanced."""
        seconds = self.state()["nextAttemptAt"] - int(self.clock())
        self.queue.waiting.clear()
        self.clock.advance(seconds)
        self.deliver()
        return int(seconds)

    def state(self, id_: str = "hook") -> WebhookState:
        """Return the delivery state of a webhook as it is stored, or `{}` if there is none."""
        return cast(WebhookState, self.states.read(id_) or {})

    def hook(self, id_: str = "hook") -> Webhook:
        """Return a webhook's item as it is stored, or `{}` if it does not exist."""
        return cast(Webhook, self.states.webhook(id_) or {})

    def is_caught_up(self, id_: str = "hook") -> bool:
        """Return whether a webhook has received all changes in its logs, and no attempt is pending."""
        state = self.state(id_)
        ends = {log: list(self.feed.end(log)) for log in state["places"]}
        waits = {"leaseUntil", "nextAttemptAt", "rel", "delivered", "tried", "failures", "oldestWaiting"} & state.keys()
        return state["places"] == ends and not waits

    def resume(self, id_: str = "hook") -> None:
        """Resume a webhook as its owner."""
        self.hooks.change(id_, {"paused": False}, ALICE, int(self.clock()), accept_any_version)

    def attempts(self, id_: str = "hook") -> list[dict[str, Any]]:
        """Return the delivery attempts that the owner sees, oldest first."""
        return self.states.attempts(id_, int(self.clock()), limit=1000).items[::-1]
