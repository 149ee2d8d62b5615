"""The concurrency quotas of deliveries: the webhooks of one owner, and slow receivers, leave workers to others."""

import random
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import pytest

from local.testbed.deliveries import ALICE, DeliveryTestbed, always_in_time, respond_with
from local.testbed.harness import DELIVERY_SHARES, Clock, record_operations
from shared.aws.dynamodb import Table
from shared.aws.quotas import CHECK_SECONDS
from shared.core.caller import Caller
from shared.processing.messages import changed_message, deliver_message
from shared.routes import READ, WRITE
from shared.webhooks.delivery import MAX_REST, QUOTA_SECONDS, REST_TIMES
from shared.webhooks.delivery_state import LEASE_SECONDS, DeliveryStateStore
from shared.webhooks.http_client import ReceiverResponse
from shared.webhooks.quotas import ALL_SLOW, EVERYBODY, QUICK, SLOW, SLOW_MS, average_ms, is_slow
from tests.integration.contents import items_of
from tests.polling import LIMIT

BOB = Caller("bob", frozenset({READ, WRITE}))
WORKERS = 10
"""Number of concurrent workers on AWS."""
SECONDS = 9
"""Response time of a slow receiver in seconds, just below the timeout."""


class Died(BaseException):
    """The worker's process died."""


class Simulation:
    """Workers that serve the queue in virtual time: one thread runs at a time, and only receivers take time.

    The receiver of a webhook is at `https://<webhook>.example`, and `seconds` is its response time.
    """

    def __init__(self, service: DeliveryTestbed, workers: int = WORKERS) -> None:
        self.service = service
        self.idle = workers
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.delivered: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)
        """Ids of changes and the times of their responses, by webhook."""
        self.busy: list[str] = []
        """Webhooks whose receivers are being called."""
        self.most_busy: defaultdict[str, int] = defaultdict(int)
        """Maximum number of receivers called concurrently, by the first letter of the webhook."""
        self.failures: list[BaseException] = []
        self.received: Counter[str] = Counter()
        """Messages that workers have received, by webhook."""
        self._ready: deque[tuple[float, dict[str, Any]]] = deque()
        self._asleep: list[tuple[float, int, threading.Event]] = []
        self._stopped = threading.Semaphore(0)
        self._count = 0
        self._threads: list[threading.Thread] = []
        service.receiver = self  # type: ignore[assignment]
        service.worker = service.make()

    def __call__(self, url: str, headers: Any, body: bytes, *, local: bool) -> ReceiverResponse:
        """Answer with 200 after the time that the receiver takes."""
        hook = url.removeprefix("https://").partition(".")[0]
        self.busy.append(hook)
        for letter in {name[0] for name in self.busy}:
            self.most_busy[letter] = max(self.most_busy[letter], sum(name[0] == letter for name in self.busy))
        if seconds := self.seconds[hook]:
            self._sleep(seconds)
        self.busy.remove(hook)
        self.delivered[hook].append((headers["webhook-id"], self.service.clock()))
        return respond_with(200, ms=int(seconds * 1000))

    def create(self, id_: str, caller: Caller = ALICE, seconds: float = 0) -> None:
        """Create a webhook of a caller for the caller's own changes."""
        self.service.create(id_, caller, url=f"https://{id_}.example")
        self.seconds[id_] = seconds

    def change(self, id_: str, user: str = "alice") -> None:
        """Change something, and send the message about it."""
        self.service.change(id_, user=user)
        self.service.queue.send(changed_message([user]))

    def run(self, seconds: float) -> None:
        """Run the workers for some virtual seconds."""
        clock, end = self.service.clock, self.service.clock() + seconds
        while True:
            self._receive_messages()
            while self.idle and self._ready:
                self._begin(*self._ready.popleft())
                self._receive_messages()
            times = [self._asleep[0][0]] if self._asleep else []
            times += [at for at, _ in self.service.queue.waiting]
            if not times or min(times) > end:
                break
            clock.advance(max(0, min(times) - clock()))
            while self._asleep and self._asleep[0][0] <= clock():
                heappop(self._asleep)[2].set()
                assert self._stopped.acquire(timeout=LIMIT)
        clock.advance(end - clock())
        assert self.failures == []

    def finish(self) -> None:
        """End the requests that are under way."""
        self.seconds.clear()
        while self._asleep:
            heappop(self._asleep)[2].set()
            assert self._stopped.acquire(timeout=LIMIT)
        for thread in self._threads:
            thread.join(LIMIT)

    def _receive_messages(self) -> None:
        self._ready.extend((self.service.clock(), message) for message in self.service.queue.take())

    def _begin(self, sent_at: float, message: dict[str, Any]) -> None:
        self.idle -= 1
        self.received[message.get("webhookId", "")] += 1
        thread = threading.Thread(target=self._work, args=(message, self.service.clock() - sent_at))
        self._threads.append(thread)
        thread.start()
        assert self._stopped.acquire(timeout=LIMIT)

    def _work(self, message: dict[str, Any], age: float) -> None:
        try:
            assert self.service.handle(message, age=age)
        except BaseException as failure:  # the test's thread raises it
            self.failures.append(failure)
        finally:
            self.idle += 1
            self._stopped.release()

    def _sleep(self, seconds: float) -> None:
        self._count += 1
        awake = threading.Event()
        heappush(self._asleep, (self.service.clock() + seconds, self._count, awake))
        self._stopped.release()
        assert awake.wait(LIMIT)


@pytest.fixture
def service(table: Table) -> DeliveryTestbed:
    return DeliveryTestbed(table, Clock())


def slot_holders(service: DeliveryTestbed, owner: str, queue: str) -> set[str]:
    """Return the webhooks that hold a slot of a quota."""
    items = {(item["pk"], item["sk"]): item for item in items_of(service.table)}
    names: set[str] = items.get((f"SHARE#{owner}", f"SENT#{queue}"), {}).get("jobs", set())
    return names


def waiting_names(service: DeliveryTestbed) -> list[str]:
    """Return the webhooks that wait for a slot."""
    return [item["job"] for item in items_of(service.table) if item["sk"].startswith("WAITS#")]


def seconds_late(simulation: Simulation, hook: str, changed_at: dict[str, float]) -> dict[str, float]:
    """The time from each change to its delivery."""
    return {id_: at - changed_at[id_] for id_, at in simulation.delivered[hook]}


def test_a_quick_webhook_is_served_within_two_seconds_beside_twenty_slow_webhooks(service: DeliveryTestbed) -> None:
    simulation = Simulation(service)
    for number in range(20):
        simulation.create(f"slow{number}", BOB, SECONDS)
    simulation.create("quick")
    changed_at: dict[str, float] = {}
    for number in range(25):
        simulation.change(f"bob{number}", "bob")
        simulation.run(2)
        changed_at[f"alice{number}"] = service.clock()
        simulation.change(f"alice{number}")
        simulation.run(2)
    simulation.finish()
    late = seconds_late(simulation, "quick", changed_at)
    assert late.keys() == changed_at.keys()
    assert max(late.values()) <= 2
    assert simulation.most_busy["s"] <= DELIVERY_SHARES[QUICK] + DELIVERY_SHARES[SLOW]
    slow = [service.place(f"slow{number}") for number in range(20)]
    assert not any("failures" in state for state in slow)
    assert not any(service.hook(f"slow{number}")["paused"] for number in range(20))


def test_changes_send_one_message_for_a_webhook_while_it_waits_in_the_queue(service: DeliveryTestbed) -> None:
    simulation = Simulation(service, workers=1)
    simulation.create("slow", BOB, SECONDS)
    simulation.create("quick")
    simulation.change("bob", "bob")
    simulation.run(1)
    for number in range(30):  # all workers are busy
        simulation.change(f"alice{number}")
    simulation.run(60)
    simulation.finish()
    assert {id_ for id_, _ in simulation.delivered["quick"]} == {f"alice{number}" for number in range(30)}
    assert simulation.received["quick"] == 1


@pytest.mark.parametrize("seed", range(2))
def test_every_change_is_delivered_when_messages_are_coalesced(service: DeliveryTestbed, seed: int) -> None:
    chance = random.Random(seed)
    simulation = Simulation(service, workers=chance.randrange(1, 4))
    owners = {"alice": ALICE, "bob": BOB}
    hooks = {f"{name}{number}": name for name in owners for number in range(2)}
    for hook, name in hooks.items():
        simulation.create(hook, owners[name], chance.choice([0, 1, SECONDS]))
    expected: defaultdict[str, set[str]] = defaultdict(set)
    for number in range(60):
        owner = chance.choice([*owners])
        expected[owner].add(f"{owner}-{number}")
        simulation.change(f"{owner}-{number}", owner)
        if chance.random() < 0.3:
            simulation.run(chance.choice([0.1, 2, 15]))
        if number % 20 == 19:
            service.sweep()
    for _ in range(60):
        simulation.run(60)
        service.sweep()
        if all(service.is_caught_up(hook) for hook in hooks):
            break
    simulation.finish()
    for hook, owner in hooks.items():
        assert {id_ for id_, _ in simulation.delivered[hook]} == expected[owner], hook
        assert service.is_caught_up(hook)


def test_every_slow_webhook_of_an_owner_is_served_in_its_turn(service: DeliveryTestbed) -> None:
    simulation = Simulation(service)
    for number in range(6):
        simulation.create(f"slow{number}", BOB, SECONDS)
    for number in range(40):
        simulation.change(f"bob{number}", "bob")
        simulation.run(10)
    counts = [len(simulation.delivered[f"slow{number}"]) for number in range(6)]
    simulation.finish()
    assert min(counts) >= 4
    assert max(counts) <= 2 * min(counts)


def test_a_quick_webhook_does_not_wait_for_slow_webhooks_of_its_own_owner(service: DeliveryTestbed) -> None:
    simulation = Simulation(service)
    for number in range(8):
        simulation.create(f"slow{number}", seconds=SECONDS)
    simulation.create("quick")
    simulation.change("first")
    simulation.run(300)
    assert all(is_slow(service.place(f"slow{number}").get("answerMs")) for number in range(8))
    changed_at: dict[str, float] = {}
    for number in range(20):
        changed_at[f"c{number}"] = service.clock()
        simulation.change(f"c{number}")
        simulation.run(5)
    simulation.finish()
    simulation.delivered["quick"].pop(0)
    late = seconds_late(simulation, "quick", changed_at)
    assert late.keys() == changed_at.keys()
    assert max(late.values()) <= 2
    assert simulation.most_busy["s"] <= DELIVERY_SHARES[QUICK]


def test_slow_receivers_of_many_owners_leave_workers_to_quick_receivers(service: DeliveryTestbed) -> None:
    simulation = Simulation(service)
    owners = [f"owner{number}" for number in range(12)]
    for owner in owners:
        simulation.create(f"slow-{owner}", Caller(owner, frozenset({READ, WRITE})), SECONDS)
    simulation.create("quick")
    for owner in owners:  # one after the other, so that they are known to be slow
        simulation.change(f"first-{owner}", owner)
        simulation.run(60)
    simulation.most_busy.clear()
    changed_at: dict[str, float] = {}
    for number in range(10):
        for owner in owners:
            simulation.change(f"{owner}-{number}", owner)
        simulation.run(2)
        changed_at[f"c{number}"] = service.clock()
        simulation.change(f"c{number}")
        simulation.run(4)
    simulation.run(600)
    simulation.finish()
    assert max(seconds_late(simulation, "quick", changed_at).values()) <= 2
    assert simulation.most_busy["s"] == DELIVERY_SHARES[ALL_SLOW]
    assert all(len(simulation.delivered[f"slow-{owner}"]) == 11 for owner in owners)
    assert waiting_names(service) == []


def test_twenty_quick_webhooks_of_one_owner_are_all_served_at_once(service: DeliveryTestbed) -> None:
    simulation = Simulation(service)
    for number in range(20):
        simulation.create(f"quick{number}")
    simulation.change("a")
    simulation.run(0)
    assert all([id_ for id_, _ in simulation.delivered[f"quick{number}"]] == ["a"] for number in range(20))
    assert waiting_names(service) == []


@pytest.fixture
def slow(service: DeliveryTestbed) -> Callable[[dict[str, Any]], ReceiverResponse]:
    """A receiver that takes nine seconds of the clock, with nothing else in parallel."""

    def respond(_: dict[str, Any]) -> ReceiverResponse:
        service.clock.advance(SECONDS)
        return respond_with(200, ms=SECONDS * 1000)

    return respond


def _deliver_slowly(service: DeliveryTestbed, slow: Callable[[dict[str, Any]], ReceiverResponse]) -> None:
    """Deliver to a slow receiver until the worker's first lease ends."""
    service.create()
    service.receiver.answer = slow
    for id_ in "abc":
        service.change(id_)
    service.deliver()


class TestASlowReceiver:
    def test_rests_after_a_turn_while_its_deliveries_count_as_done(
        self, service: DeliveryTestbed, slow: Callable[[dict[str, Any]], ReceiverResponse]
    ) -> None:
        _deliver_slowly(service, slow)
        pause = min(MAX_REST, REST_TIMES * 2 * SECONDS)
        assert service.receiver.ids == ["a", "b"]
        assert service.place()["nextAttemptAt"] == int(service.clock()) + pause
        assert service.queue.waits == [pause]
        service.deliver()
        assert service.receiver.ids == ["a", "b"], "it rests"
        service.clock.advance(pause)
        service.work()
        assert service.receiver.ids == ["a", "b", "c"]
        assert [attempt["status"] for attempt in service.attempts()] == [200] * 3
        assert "failures" not in service.place()

    def test_is_sent_a_change_that_arrived_in_its_rest(
        self, service: DeliveryTestbed, slow: Callable[[dict[str, Any]], ReceiverResponse]
    ) -> None:
        service.create()
        service.receiver.answer = slow
        service.change("a")
        service.deliver()
        service.change("b")
        service.deliver()
        assert service.receiver.ids == ["a"]
        service.clock.advance(MAX_REST)
        service.work()
        assert service.receiver.ids == ["a", "b"]

    def test_is_sent_for_by_the_sweeper_if_the_message_is_lost(
        self, service: DeliveryTestbed, slow: Callable[[dict[str, Any]], ReceiverResponse]
    ) -> None:
        service.create()
        service.receiver.answer = slow
        service.change("a")
        service.deliver()
        service.queue.waiting.clear()
        service.clock.advance(MAX_REST)
        assert service.sweep() == 1

    def test_is_quick_again_after_some_quick_turns(
        self, service: DeliveryTestbed, slow: Callable[[dict[str, Any]], ReceiverResponse]
    ) -> None:
        service.create()
        service.receiver.answer = slow
        service.change("a")
        service.deliver()
        service.receiver.answer = lambda _: respond_with(200, ms=50)
        turns = 0
        while is_slow(service.place().get("answerMs")):
            turns += 1
            service.clock.advance(MAX_REST)
            service.change(f"c{turns}")
            service.deliver()
        assert 3 <= turns <= 8
        service.change("last")
        service.work()
        assert service.receiver.ids[-1] == "last"
        assert service.is_caught_up()

    def test_is_called_at_once_when_its_owner_changes_it(
        self, service: DeliveryTestbed, slow: Callable[[dict[str, Any]], ReceiverResponse]
    ) -> None:
        _deliver_slowly(service, slow)
        service.hooks.change("hook", {"url": "https://other.example"}, ALICE, int(service.clock()), always_in_time)
        service.deliver()
        assert [url for url, _, _ in service.receiver.requests][-1] == "https://other.example"


@pytest.mark.parametrize(
    ("before", "newest", "after"),
    [(None, 9000, 9000), (100, 9000, 2325), (9000, 100, 6775), (SLOW_MS, SLOW_MS, SLOW_MS)],
    ids=str,
)
def test_the_average_of_answers_follows_the_newest_answers(before: int | None, newest: float, after: int) -> None:
    assert average_ms(before, newest) == after


def fill(service: DeliveryTestbed, *hooks: str) -> None:
    """Kill workers while they serve webhooks of one owner, so that these keep their leases and slots."""

    def die(_: dict[str, Any]) -> ReceiverResponse:
        raise Died

    before = service.receiver.answer
    service.receiver.answer = die
    for hook in hooks:
        with pytest.raises(Died):
            service.deliver(hook)
    service.receiver.answer = before
    service.receiver.requests.clear()


class TestAUsedUpQuota:
    @pytest.fixture
    def full(self, service: DeliveryTestbed) -> DeliveryTestbed:
        """Three webhooks whose workers died, and two more of the same owner."""
        for id_ in ("h0", "h1", "h2", "h3", "h4"):
            service.create(id_, url=f"https://{id_}.example")
        service.change("a")
        fill(service, "h0", "h1", "h2")
        assert service.deliver("h3")
        return service

    def test_makes_a_webhook_wait_without_an_attempt(self, full: DeliveryTestbed) -> None:
        assert full.receiver.requests == []
        assert full.attempts("h3") == []
        assert waiting_names(full) == ["h3"]
        assert slot_holders(full, "alice", QUICK) == {"h0", "h1", "h2"}

    def test_costs_further_messages_two_reads(self, full: DeliveryTestbed) -> None:
        with record_operations(full.table.client) as operations:
            full.deliver("h3")
        assert [operation.name for operation in operations] == ["GetItem", "GetItem"]

    def test_passes_a_released_place_to_the_webhook_that_waited_longest(self, full: DeliveryTestbed) -> None:
        full.clock.advance(1)
        full.deliver("h4")
        full.clock.advance(LEASE_SECONDS)
        full.deliver("h0")
        # The places of the workers that died are found on the way.
        called = [deliver_message(id_, ("alice", QUICK)) for id_ in ("h3", "h4")]
        assert [message for _, message in full.queue.waiting] == called
        full.work()
        assert [url for url, _, _ in full.receiver.requests] == [f"https://{id_}.example" for id_ in ("h0", "h3", "h4")]
        assert slot_holders(full, "alice", QUICK) == set()
        assert all(full.is_caught_up(id_) for id_ in ("h0", "h3", "h4"))

    def test_passes_the_place_on_if_the_webhook_was_paused_while_it_waited(self, full: DeliveryTestbed) -> None:
        full.clock.advance(1)
        full.deliver("h4")
        full.hooks.change("h3", {"paused": True}, ALICE, int(full.clock()), always_in_time)
        full.clock.advance(LEASE_SECONDS)
        full.deliver("h0")
        full.work()
        assert [url for url, _, _ in full.receiver.requests] == ["https://h0.example", "https://h4.example"]
        assert waiting_names(full) == []

    def test_is_asked_again_by_the_sweeper_if_the_message_is_lost(self, full: DeliveryTestbed) -> None:
        full.clock.advance(QUOTA_SECONDS)
        full.deliver("h0")
        full.queue.waiting.clear()
        assert full.sweep() >= 1
        full.work()
        assert "https://h3.example" in [url for url, _, _ in full.receiver.requests]

    def test_finds_the_places_of_workers_that_died(self, full: DeliveryTestbed) -> None:
        full.clock.advance(max(CHECK_SECONDS, LEASE_SECONDS))
        full.sweep()
        full.queue.waiting = [(at, message) for at, message in full.queue.waiting if message["webhookId"] == "h3"]
        full.work()
        assert [url for url, _, _ in full.receiver.requests] == ["https://h3.example"]

    def test_keeps_the_places_of_webhooks_that_are_being_served(self, full: DeliveryTestbed) -> None:
        full.clock.advance(CHECK_SECONDS)
        full.deliver("h4")
        assert full.receiver.requests == []
        assert slot_holders(full, "alice", QUICK) == {"h0", "h1", "h2"}

    def test_does_not_hold_up_webhooks_of_other_owners(self, full: DeliveryTestbed) -> None:
        full.create("other", BOB)
        full.change("b", user="bob")
        full.deliver("other")
        assert full.receiver.ids == ["b"]


@pytest.mark.parametrize("failing", ["save", "add_attempts"])
def test_a_worker_that_fails_releases_its_place_to_the_webhook_that_waits(
    service: DeliveryTestbed, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    for id_ in ("h0", "h1", "h2", "h3"):
        service.create(id_, url=f"https://{id_}.example")
    service.change("a")
    fill(service, "h1", "h2")

    def fail(*_: Any) -> None:
        raise ValueError("a bug")

    def respond(_: dict[str, Any]) -> ReceiverResponse:
        assert service.deliver("h3")
        assert waiting_names(service) == ["h3"]
        monkeypatch.setattr(DeliveryStateStore, failing, fail)
        return respond_with()

    service.receiver.answer = respond
    assert not service.deliver("h0")
    assert [message for _, message in service.queue.waiting] == [deliver_message("h3", ("alice", QUICK))]
    assert slot_holders(service, "alice", QUICK) == {"h1", "h2", "h3"}


def test_a_webhook_with_a_place_of_its_own_that_another_worker_serves_keeps_it(service: DeliveryTestbed) -> None:
    service.create()
    service.change("a")
    holders: list[set[str]] = []

    def respond(_: dict[str, Any]) -> ReceiverResponse:
        assert service.handle(deliver_message("hook", ("alice", QUICK)))
        holders.append(slot_holders(service, "alice", QUICK))
        return respond_with()

    service.receiver.answer = respond
    service.deliver()
    assert holders == [{"hook"}]
    assert slot_holders(service, "alice", QUICK) == set()


def test_a_slow_webhook_keeps_its_owners_place_while_it_waits_for_that_of_all_slow_receivers(
    service: DeliveryTestbed, slow: Callable[[dict[str, Any]], ReceiverResponse], table: Table
) -> None:
    service.create()
    service.receiver.answer = slow
    service.change("a")
    service.deliver()
    service.clock.advance(MAX_REST)
    service.change("b")
    others = {f"other{number}" for number in range(DELIVERY_SHARES[ALL_SLOW])}
    quota = {"pk": f"SHARE#{EVERYBODY}", "sk": f"SENT#{ALL_SLOW}", "jobs": others, "checkedAt": int(service.clock())}
    table.write(table.put(quota, condition=None))
    service.deliver()
    assert service.receiver.ids == ["a"]
    assert slot_holders(service, "alice", SLOW) == {"hook"}
    assert waiting_names(service) == ["hook"]
    service.clock.advance(CHECK_SECONDS + QUOTA_SECONDS)
    service.sweep()
    service.work()
    assert service.receiver.ids == ["a", "b"]
    assert slot_holders(service, "alice", SLOW) == slot_holders(service, EVERYBODY, ALL_SLOW) == set()
