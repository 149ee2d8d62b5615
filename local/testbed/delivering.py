"""Webhooks, the feed that they follow, the worker that serves them, and a receiver that does as a test says."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from functions.deliveries import handler as deliveries
from local.testbed.backstage import FakeQueue
from local.testbed.harness import Clock, Context, FakeResources
from local.testbed.streams import sqs_event
from shared.aws.dynamodb import Table
from shared.aws.listing import Lists
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.settings import LambdaHandler
from shared.feed.change import Change
from shared.feed.log import Feed, owner_log, shard_logs
from shared.films.messages import changed_message, deliver_message
from shared.routes import ADMIN, READ, WRITE
from shared.schema import AUDIT_TABLE_NAME
from shared.upkeep.sweeping import send_for_due
from shared.webhooks.delivering import INDEX_SECONDS
from shared.webhooks.places import PlaceStore
from shared.webhooks.sending import Answer
from shared.webhooks.store import WebhookStore

ALICE = Caller("alice", frozenset({READ, WRITE}))
ROOT = Caller("root", frozenset({READ, WRITE, ADMIN}))
URL = "https://hooks.example/in"


def answered(status: int | None = 204, **said: Any) -> Answer:
    """What came of a request: a status, or an error."""
    fields: dict[str, Any] = {"ms": 7, "body": b"", "error": None, "is_forbidden": False, "retry_after": None}
    return Answer(status, **fields | said)


def always(_: int) -> bool:
    """Whatever version it has."""
    return True


class Queue(FakeQueue):
    """Queue that keeps each message until its delay has passed and it is taken."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.waiting: list[tuple[float, dict[str, Any]]] = []

    def send(self, body: Mapping[str, object], delay_seconds: int = 0) -> None:
        """Keep a message."""
        assert 0 <= delay_seconds <= 900, "SQS refuses it"
        self.waiting.append((self.clock() + delay_seconds, dict(body)))

    def take(self) -> list[dict[str, Any]]:
        """Those whose time has come."""
        ready = [body for at, body in self.waiting if at <= self.clock()]
        self.waiting = [(at, body) for at, body in self.waiting if at > self.clock()]
        return ready

    @property
    def waits(self) -> list[int]:
        """In how many seconds the others come."""
        return [int(at - self.clock()) for at, _ in self.waiting]


class Receiver:
    """Takes all that it is sent, unless `answer` is told to say something else."""

    def __init__(self) -> None:
        self.got: list[tuple[str, Mapping[str, str], bytes]] = []
        self.answer: Callable[[dict[str, Any]], Answer] = lambda _: answered()

    def __call__(self, url: str, headers: Mapping[str, str], body: bytes, *, local: bool) -> Answer:
        self.got.append((url, headers, body))
        return self.answer(json.loads(body))

    @property
    def ids(self) -> list[str]:
        """Of the changes that it was sent, as they came."""
        return [headers["webhook-id"] for _, headers, _ in self.got]


class Delivering:
    """All of it, in one process; nothing happens until a test lets it."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self.table = table
        self.clock = clock
        self.feed = Feed(Table(AUDIT_TABLE_NAME, table.client, sleep=lambda _: None), clock)
        self.hooks = WebhookStore(table)
        self.places = PlaceStore(table)
        self.receiver = Receiver()
        self.queue = Queue(clock)
        self.worker = self.make()

    def make(self, events: Any = None, send: Callable[..., Answer] | None = None, **variables: str) -> LambdaHandler:
        """Return a worker; `events` is a client of EventBridge, if there is a bus."""
        queues = {"deliveries": self.queue}
        resources = FakeResources(self.table, self.clock, audit=self.feed.table, queues=queues, events=events)
        variables |= {"EVENT_BUS": "the-bus"} if events else {}
        make = partial(deliveries.make, send=send or self.receiver)
        return resources.make(deliveries.lambda_handler, make, **variables)

    def create(self, id_: str = "hook", caller: Caller = ALICE, *, everybody: bool = False, **content: Any) -> None:
        """Create a webhook that follows the caller's own changes, or everybody's, and let the worker look at it."""
        logs = shard_logs() if everybody else (owner_log(caller.subject),)
        content = {"url": URL, "types": [], "paused": False} | content
        content |= {} if everybody else {"follows": caller.subject}
        self.hooks.create(id_, content, {log: self.feed.end(log) for log in logs}, caller, int(self.clock()))
        self.deliver(id_)
        self.clock.advance(INDEX_SECONDS)
        self.deliver(id_)
        self.queue.waiting.clear()

    def change(self, id_: str, video: str = "v", user: str = "alice", type_: str = "video.changed") -> Change:
        """Let something be changed; nobody is told."""
        (made,) = self.changes(id_, video=video, user=user, type_=type_)
        return made

    def changes(
        self, *ids: str, video: str = "v", user: str = "alice", type_: str = "video.changed"
    ) -> Sequence[Change]:
        """Let something be changed several times, in one batch; nobody is told."""
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
        """Hand a message to a worker that was in the queue for `age` seconds; whether it was done."""
        sent = str(int((self.clock() - age) * 1000))
        return (worker or self.worker)(sqs_event(body, SentTimestamp=sent), context or Context()) == {
            "batchItemFailures": []
        }

    def deliver(self, id_: str = "hook", context: Any = None) -> bool:
        """Hand over the message of a webhook."""
        return self.handle(deliver_message(id_), context=context)

    def tell(self, *owners: str) -> list[str]:
        """Hand over the message of changes of these owners; returns the webhooks that are woken."""
        assert self.handle(changed_message(owners))
        return [message["webhookId"] for message in self.queue.take()]

    def work(self) -> None:
        """Hand over all messages whose time has come, and those that they lead to."""
        while messages := self.queue.take():
            for message in messages:
                assert self.handle(message)

    def sweep(self) -> int:
        """Let the sweeper send for what is due."""
        return send_for_due(Lists(self.table), self.queue, int(self.clock()), lambda: True).sent

    def wait(self) -> int:
        """Let the time pass until the next attempt, and let it be made; returns the seconds."""
        seconds = self.place()["nextAttemptAt"] - int(self.clock())
        self.queue.waiting.clear()
        self.clock.advance(seconds)
        self.deliver()
        return int(seconds)

    def place(self, id_: str = "hook") -> Item:
        """How far a webhook is, as it is stored."""
        return self.places.read(id_) or {}

    def hook(self, id_: str = "hook") -> Item:
        """A webhook as it is stored."""
        return self.places.webhook(id_) or {}

    def is_caught_up(self, id_: str = "hook") -> bool:
        """Whether a webhook is at the end of its logs, and waits for nothing."""
        place = self.place(id_)
        ends = {log: list(self.feed.end(log)) for log in place["places"]}
        waits = {"leaseUntil", "nextAttemptAt", "rel", "delivered", "tried", "failures", "oldestWaiting"} & place.keys()
        return place["places"] == ends and not waits

    def resume(self, id_: str = "hook") -> None:
        """Let its owner resume a webhook."""
        self.hooks.change(id_, {"paused": False}, ALICE, int(self.clock()), always)

    def attempts(self, id_: str = "hook") -> list[dict[str, Any]]:
        """What its owner sees of the attempts, the first first."""
        return self.places.attempts(id_, int(self.clock()), limit=1000).items[::-1]
