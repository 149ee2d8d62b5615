"""Concurrency quotas of deliveries: slow receivers, and the webhooks of one owner, do not occupy all workers."""

import random
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import pytest

from local.testbed.deliveries import ALICE, DeliveryTestbed, accept_any_version, respond_with
from local.testbed.harness import DELIVERY_QUOTAS, Clock, record_operations
from shared.aws.dynamodb import Table
from shared.aws.quotas import CHECK_SECONDS
from shared.core.caller import Caller
from shared.processing.messages import changed_message, deliver_message
from shared.routes import READ, WRITE
from shared.webhooks.delivery import MAX_PAUSE, PAUSE_FACTOR, QUOTA_SECONDS
from shared.webhooks.delivery_state import LEASE_SECONDS, DeliveryStateStore
from shared.webhooks.http_client import ReceiverResponse
from shared.webhooks.quotas import ALL_SLOW, EVERYBODY, QUICK, SLOW, SLOW_MS, average_ms, is_slow
from tests.integration.contents import items_of
from tests.polling import LIMIT

BOB = Caller("bob", frozenset({READ, WRITE}))
WORKERS = 10
"""Number of workers that run concurrently on AWS."""
SECONDS = 9
"""Response time of a slow receiver in seconds. It is just below the timeout."""


class WorkerCrash(BaseException):
    """Crash of the worker's process."""


class Simulation:
    """Workers that serve the queue in virtual time. One thread runs at a time, and only receivers take time.

    The receiver of a webhook is at `https://<webhook>.example`, and `seconds` is its response time.
    """

    def __init__(self, service: DeliveryTestbed, workers: int = WORKERS) -> None:
        self.service = service
        self.idle = workers
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.delivered: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)
        """Pairs of a delivered change's id and the time of its response, by webhook."""
        self.busy: list[str] = []
        """Webhooks that have a request in flight."""
        self.most_busy: defaultdict[str, int] = defaultdict(int)
        """Maximum number of concurrent requests, by the first letter of the webhook's id."""
        self.failures: list[BaseException] = []
        self.received: Counter[str] = Counter()
        """Number of messages that workers have received, by webhook."""
        self._ready: deque[tuple[float, dict[str, Any]]] = deque()
        self._asleep: list[tuple[float, int, threading.Event]] = []
        self._stopped = threading.Semaphore(0)
        self._count = 0
        self._threads: list[threading.Thread] = []
        service.receiver = self  # type: ignore[assignment]
        service.worker = service.make()

    def __call__(self, url: str, headers: Any, body: bytes, *, local: bool) -> ReceiverResponse:
        """Respond with 200 after the response time of the receiver."""
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
        """Create a webhook that receives the changes of its owner."""
        self.service.create(id_, caller, url=f"https://{id_}.example")
        self.seconds[id_] = seconds

    def change(self, id_: str, user: str = "alice") -> None:
        """Record a change and send its message."""
        self.service.change(id_, user=user)
        self.service.queue.send(changed_message([user]))

    def run(self, seconds: float) -> None:
        """Run the workers for the given number of virtual seconds."""
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
        """End the requests in flight."""
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
        except BaseException as failure:  # the test's thread raises the error
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
    """Return the webhooks that hold a slot in a concurrency quota."""
    items = {(item["pk"], item["sk"]): item for item in items_of(service.table)}
    names: set[str] = items.get((f"SHARE#{owner}", f"SENT#{queue}"), {}).get("jobs", set())
    return names


def waiting_names(service: DeliveryTestbed) -> list[str]:
    """Return the webhooks that wait for a slot."""
    return [item["job"] for item in items_of(service.table) if item["sk"].startswith("WAITS#")]


def delivery_delays(simulation: Simulation, hook: str, changed_at: dict[str, float]) -> dict[str, float]:
    """Return the seconds from each change to its delivery, by change id."""
    return {id_: at - changed_at[id_] for id_, at in simulation.delivered[hook]}


@pytest.mark.slow
def test_quick_webhook_is_served_within_two_seconds_alongside_twenty_slow_webhooks(service: DeliveryTestbed) -> None:
    simulation = Simulation(service)
    for number in range(20):
        simulation.create(f"slow{number}", BOB, SECONDS)
    simulation.create("quick")
    changed_at: dict[str, float] = {}
    for number in range(12):
        simulation.change(f"bob{number}", "bob")
        simulation.run(2)
        changed_at[f"alice{number}"] = service.clock()
        simulation.change(f"alice{number}")
        simulation.run(2)
    simulation.finish()
    delays = delivery_delays(simulation, "quick", changed_at)
    assert delays.keys() == changed_at.keys()
    assert max(delays.values()) <= 2
    assert simulation.most_busy["s"] <= DELIVERY_QUOTAS[QUICK] + DELIVERY_QUOTAS[SLOW]
    slow = [service.state(f"slow{number}") for number in range(20)]
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_slow_webhooks_of_one_owner_are_served_equally_often(service: DeliveryTestbed) -> None:
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


@pytest.mark.slow
def test_quick_webhook_does_not_wait_for_slow_webhooks_of_the_same_owner(service: DeliveryTestbed) -> None:
    simulation = Simulation(service)
    for number in range(8):
        simulation.create(f"slow{number}", seconds=SECONDS)
    simulation.create("quick")
    simulation.change("first")
    simulation.run(300)
    assert all(is_slow(service.state(f"slow{number}").get("answerMs")) for number in range(8))
    changed_at: dict[str, float] = {}
    for number in range(20):
        changed_at[f"c{number}"] = service.clock()
        simulation.change(f"c{number}")
        simulation.run(5)
    simulation.finish()
    simulation.delivered["quick"].pop(0)
    delays = delivery_delays(simulation, "quick", changed_at)
    assert delays.keys() == changed_at.keys()
    assert max(delays.values()) <= 2
    assert simulation.most_busy["s"] <= DELIVERY_QUOTAS[QUICK]


@pytest.mark.slow
def test_slow_receivers_of_many_owners_leave_workers_to_quick_receivers(service: DeliveryTestbed) -> None:
    simulation = Simulation(service)
    owners = [f"owner{number}" for number in range(12)]
    for owner in owners:
        simulation.create(f"slow-{owner}", Caller(owner, frozenset({READ, WRITE})), SECONDS)
    simulation.create("quick")
    for owner in owners:  # deliver to one owner after the other, so that the averages show that the receivers are slow
        simulation.change(f"first-{owner}", owner)
        simulation.run(60)
    simulation.most_busy.clear()
    changed_at: dict[str, float] = {}
    for number in range(5):
        for owner in owners:
            simulation.change(f"{owner}-{number}", owner)
        simulation.run(2)
        changed_at[f"c{number}"] = service.clock()
        simulation.change(f"c{number}")
        simulation.run(4)
    simulation.run(600)
    simulation.finish()
    assert max(delivery_delays(simulation, "quick", changed_at).values()) <= 2
    assert simulation.most_busy["s"] == DELIVERY_QUOTAS[ALL_SLOW]
    assert all(len(simulation.delivered[f"slow-{owner}"]) == 6 for owner in owners)
    assert waiting_names(service) == []


@pytest.mark.slow
def test_twenty_quick_webhooks_of_one_owner_are_served_concurrently(service: DeliveryTestbed) -> None:
    simulation = Simulation(service)
    for number in range(20):
        simulation.create(f"quick{number}")
    simulation.change("a")
    simulation.run(0)
    assert all([id_ for id_, _ in simulation.delivered[f"quick{number}"]] == ["a"] for number in range(20))
    assert waiting_names(service) == []


@pytest.fixture
def slow(service: DeliveryTestbed) -> Callable[[dict[str, Any]], ReceiverResponse]:
    """Return a receiver whose response takes nine seconds."""

    def respond(_: dict[str, Any]) -> ReceiverResponse:
        service.clock.advance(SECONDS)
        return respond_with(200, ms=SECONDS * 1000)

    return respond


def _deliver_slowly(service: DeliveryTestbed, slow: Callable[[dict[str, Any]], ReceiverResponse]) -> None:
    """Deliver to a slow receiver. The worker yields before it has delivered all changes."""
    service.create()
    service.receiver.answer = slow
    for id_ in "abc":
        service.change(id_)
    service.deliver()


class TestSlowReceiver:
    def test_slow_receiver_rests_after_a_lease_and_its_deliveries_succeed(
        self, service: DeliveryTestbed, slow: Callable[[dict[str, Any]], ReceiverResponse]
    ) -> None:
        _deliver_slowly(service, slow)
        pause = min(MAX_PAUSE, PAUSE_FACTOR * 2 * SECONDS)
        assert service.receiver.ids == ["a", "b"]
        assert service.state()["nextAttemptAt"] == int(service.clock()) + pause
        assert service.queue.waits == [pause]
        service.deliver()
        assert service.receiver.ids == ["a", "b"], "it rests"
        service.clock.advance(pause)
        service.work()
        assert service.receiver.ids == ["a", "b", "c"]
        assert [attempt["status"] for attempt in service.attempts()] == [200] * 3
        assert "failures" not in service.state()

    def test_change_during_the_rest_of_a_receiver_is_delivered_afterwards(
        self, service: DeliveryTestbed, slow: Callable[[dict[str, Any]], ReceiverResponse]
    ) -> None:
        service.create()
        service.receiver.answer = slow
        service.change("a")
        service.deliver()
        service.change("b")
        service.deliver()
        assert service.receiver.ids == ["a"]
        service.clock.advance(MAX_PAUSE)
        service.work()
        assert service.receiver.ids == ["a", "b"]

    def test_sweeper_requeues_a_resting_receiver_if_its_message_is_lost(
        self, service: DeliveryTestbed, slow: Callable[[dict[str, Any]], ReceiverResponse]
    ) -> None:
        service.create()
        service.receiver.answer = slow
        service.change("a")
        service.deliver()
        service.queue.waiting.clear()
        service.clock.advance(MAX_PAUSE)
        assert service.sweep() == 1

    def test_slow_receiver_is_quick_again_after_some_quick_responses(
        self, service: DeliveryTestbed, slow: Callable[[dict[str, Any]], ReceiverResponse]
    ) -> None:
        service.create()
        service.receiver.answer = slow
        service.change("a")
        service.deliver()
        service.receiver.answer = lambda _: respond_with(200, ms=50)
        turns = 0
        while is_slow(service.state().get("answerMs")):
            turns += 1
            service.clock.advance(MAX_PAUSE)
            service.change(f"c{turns}")
            service.deliver()
        assert 3 <= turns <= 8
        service.change("last")
        service.work()
        assert service.receiver.ids[-1] == "last"
        assert service.is_caught_up()

    def test_slow_receiver_is_called_immediately_when_its_webhook_is_changed(
        self, service: DeliveryTestbed, slow: Callable[[dict[str, Any]], ReceiverResponse]
    ) -> None:
        _deliver_slowly(service, slow)
        service.hooks.change("hook", {"url": "https://other.example"}, ALICE, int(service.clock()), accept_any_version)
        service.deliver()
        assert [url for url, _, _ in service.receiver.requests][-1] == "https://other.example"


@pytest.mark.parametrize(
    ("before", "newest", "after"),
    [(None, 9000, 9000), (100, 9000, 2325), (9000, 100, 6775), (SLOW_MS, SLOW_MS, SLOW_MS)],
    ids=str,
)
def test_average_response_time_follows_the_newest_responses(before: int | None, newest: float, after: int) -> None:
    assert average_ms(before, newest) == after


def crash_workers(service: DeliveryTestbed, *hooks: str) -> None:
    """Crash the workers of the given webhooks, so that the webhooks keep their leases and slots."""

    def crash(_: dict[str, Any]) -> ReceiverResponse:
        raise WorkerCrash

    before = service.receiver.answer
    service.receiver.answer = crash
    for hook in hooks:
        with pytest.raises(WorkerCrash):
            service.deliver(hook)
    service.receiver.answer = before
    service.receiver.requests.clear()


class TestFullQuota:
    @pytest.fixture
    def full(self, service: DeliveryTestbed) -> DeliveryTestbed:
        """Create five webhooks of one owner. Workers of three of them crashed, so all slots of the owner are taken."""
        for id_ in ("h0", "h1", "h2", "h3", "h4"):
            service.create(id_, url=f"https://{id_}.example")
        service.change("a")
        crash_workers(service, "h0", "h1", "h2")
        assert service.deliver("h3")
        return service

    def test_webhook_waits_without_an_attempt_when_the_quota_is_full(self, full: DeliveryTestbed) -> None:
        assert full.receiver.requests == []
        assert full.attempts("h3") == []
        assert waiting_names(full) == ["h3"]
        assert slot_holders(full, "alice", QUICK) == {"h0", "h1", "h2"}

    def test_further_messages_of_a_waiting_webhook_cost_two_reads(self, full: DeliveryTestbed) -> None:
        with record_operations(full.table.client) as operations:
            full.deliver("h3")
        assert [operation.name for operation in operations] == ["GetItem", "GetItem"]

    def test_released_slot_is_passed_to_the_webhook_that_waited_longest(self, full: DeliveryTestbed) -> None:
        full.clock.advance(1)
        full.deliver("h4")
        full.clock.advance(LEASE_SECONDS)
        full.deliver("h0")
        # The worker also releases the expired slots of the crashed workers.
        called = [deliver_message(id_, ("alice", QUICK)) for id_ in ("h3", "h4")]
        assert [message for _, message in full.queue.waiting] == called
        full.work()
        assert [url for url, _, _ in full.receiver.requests] == [f"https://{id_}.example" for id_ in ("h0", "h3", "h4")]
        assert slot_holders(full, "alice", QUICK) == set()
        assert all(full.is_caught_up(id_) for id_ in ("h0", "h3", "h4"))

    def test_slot_of_a_webhook_that_was_paused_while_waiting_is_passed_on(self, full: DeliveryTestbed) -> None:
        full.clock.advance(1)
        full.deliver("h4")
        full.hooks.change("h3", {"paused": True}, ALICE, int(full.clock()), accept_any_version)
        full.clock.advance(LEASE_SECONDS)
        full.deliver("h0")
        full.work()
        assert [url for url, _, _ in full.receiver.requests] == ["https://h0.example", "https://h4.example"]
        assert waiting_names(full) == []

    def test_sweeper_requeues_a_waiting_webhook_if_its_message_is_lost(self, full: DeliveryTestbed) -> None:
        full.clock.advance(QUOTA_SECONDS)
        full.deliver("h0")
        full.queue.waiting.clear()
        assert full.sweep() >= 1
        full.work()
        assert "https://h3.example" in [url for url, _, _ in full.receiver.requests]

    def test_slots_of_crashed_workers_are_released(self, full: DeliveryTestbed) -> None:
        full.clock.advance(max(CHECK_SECONDS, LEASE_SECONDS))
        full.sweep()
        full.queue.waiting = [(at, message) for at, message in full.queue.waiting if message["webhookId"] == "h3"]
        full.work()
        assert [url for url, _, _ in full.receiver.requests] == ["https://h3.example"]

    def test_slots_of_webhooks_that_are_being_served_are_not_released(self, full: DeliveryTestbed) -> None:
        full.clock.advance(CHECK_SECONDS)
        full.deliver("h4")
        assert full.receiver.requests == []
        assert slot_holders(full, "alice", QUICK) == {"h0", "h1", "h2"}

    def test_full_quota_does_not_block_webhooks_of_other_owners(self, full: DeliveryTestbed) -> None:
        full.create("other", BOB)
        full.change("b", user="bob")
        full.deliver("other")
        assert full.receiver.ids == ["b"]


@pytest.mark.parametrize("failing", ["save", "add_attempts"])
def test_failing_worker_passes_its_slot_to_the_waiting_webhook(
    service: DeliveryTestbed, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    for id_ in ("h0", "h1", "h2", "h3"):
        service.create(id_, url=f"https://{id_}.example")
    service.change("a")
    crash_workers(service, "h1", "h2")

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


def test_message_with_a_slot_does_not_release_the_slot_of_a_webhook_that_is_being_served(
    service: DeliveryTestbed,
) -> None:
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


def test_slow_webhook_holds_its_owner_slot_while_it_waits_for_a_slot_of_all_slow_receivers(
    service: DeliveryTestbed, slow: Callable[[dict[str, Any]], ReceiverResponse], table: Table
) -> None:
    service.create()
    service.receiver.answer = slow
    service.change("a")
    service.deliver()
    service.clock.advance(MAX_PAUSE)
    service.change("b")
    others = {f"other{number}" for number in range(DELIVERY_QUOTAS[ALL_SLOW])}
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
