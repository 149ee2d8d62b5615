"""Delivery of changes to webhooks and the event bus: notifications, order, retries, pauses and metrics."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from functions.deliveries.handler import BEHIND_SECONDS
from functions.sweeper import handler as sweeper
from local.testbed.background import FakeQueue
from local.testbed.deliveries import ALICE, ROOT, URL, DeliveryTestbed, accept_any_version, respond_with
from local.testbed.harness import NOW, Clock, Context, FakeResources, ShortContext, record_operations
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.aws.leases import LEASE
from shared.core.errors import Unavailable, WriteContention
from shared.core.settings import LambdaHandler
from shared.feed.log import DAYS_KEPT, Feed, owner_log
from shared.processing.messages import changed_message, deliver_message
from shared.webhooks import delivery as delivering_module
from shared.webhooks.delivery import BUS, CHANGES_EXPIRED, INDEX_SECONDS, MAX_DELIVERED
from shared.webhooks.delivery_state import LEASE_SECONDS, NOTIFIED_SECONDS, WAITING, DeliveryStateStore
from shared.webhooks.event import event_body
from shared.webhooks.http_client import ReceiverResponse
from shared.webhooks.retry_schedule import DAYS_FAILING, DELAYS, RECEIVER_GONE, delay_after, is_due
from shared.webhooks.transport import CONCURRENT_REQUESTS
from tests import logs
from tests.integration.faults import FaultLine, run_before_request, throttle
from tests.logs import log_lines
from tests.polling import LIMIT

DAY = 86_400
WRITES = {"PutItem", "UpdateItem", "TransactWriteItems"}


@pytest.fixture
def service(table: Table) -> DeliveryTestbed:
    return DeliveryTestbed(table, Clock())


def failing(status: int = 500, **fields: Any) -> Callable[[dict[str, Any]], ReceiverResponse]:
    return lambda _: respond_with(status, **fields)


class LimitedContext(Context):
    """A Lambda context with a fixed remaining time."""

    def __init__(self, seconds: int) -> None:
        super().__init__()
        self.get_remaining_time_in_millis = lambda: seconds * 1000  # type: ignore[method-assign]


def only_failing(*ids: str, status: int = 500) -> Callable[[dict[str, Any]], ReceiverResponse]:
    return lambda event: respond_with(status if event["data"]["id"] in ids else 204)


class TestNotifications:
    def test_change_notifies_webhooks_of_the_owner_and_of_all_users(self, service: DeliveryTestbed) -> None:
        service.create("mine")
        service.create("theirs", ROOT)
        service.create("all", ROOT, everybody=True)
        service.create("paused", paused=True)
        assert service.notify("alice") == ["all", "mine"]
        assert service.notify("alice", "root") == ["all", "mine", "theirs"]
        assert service.notify() == ["all"]

    def test_change_notifies_the_event_bus_if_configured(self, service: DeliveryTestbed) -> None:
        service.worker = service.make(Bus())
        assert service.notify("alice") == [BUS]

    def test_message_that_cannot_be_handled_is_redelivered(self, service: DeliveryTestbed) -> None:
        assert not service.handle({"schema": "unknown", "webhookId": "hook"})
        assert not service.handle({"schema": "video-metadata/changed/1"})
        service.create()
        service.change("a")
        FaultLine(service.table.client).arm(throttle)
        assert not service.handle(changed_message(["alice"]))
        assert not service.deliver()

    def test_webhook_that_is_leased_or_not_due_is_sent_no_message(self, service: DeliveryTestbed) -> None:
        service.create()
        notified: list[list[str]] = []

        def respond(_: dict[str, Any]) -> ReceiverResponse:
            notified.append(service.notify("alice"))
            return respond_with(500)

        service.receiver.answer = respond
        service.change("a")
        service.deliver()
        service.queue.waiting.clear()
        assert notified == [[]]
        assert service.notify("alice") == []
        service.clock.advance(service.state()["nextAttemptAt"] - service.clock())
        assert service.notify("alice") == ["hook"]

    def test_no_second_message_is_sent_while_the_queue_lags(self, service: DeliveryTestbed) -> None:
        service.create()
        service.change("a")
        assert service.handle(changed_message(["alice"]), age=BEHIND_SECONDS)
        assert service.notify("alice") == ["hook"]  # only the first message is sent
        service.deliver()
        assert service.notify("alice") == ["hook"]
        assert service.notify("alice") == ["hook"]  # the first message was recent, so the queue no longer lags

    def test_change_after_the_message_was_received_sends_another_message(
        self, service: DeliveryTestbed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service.create()
        service.change("a", user="somebody")
        assert service.handle(changed_message(["alice"]), age=BEHIND_SECONDS)
        service.queue.waiting.clear()
        read = Feed.read
        notified: list[list[str]] = []

        def read_during_a_change(*arguments: Any, **options: Any) -> Any:
            page = read(*arguments, **options)
            if not notified:
                service.change("b")
                notified.append(service.notify("alice"))
            return page

        monkeypatch.setattr(Feed, "read", read_during_a_change)
        service.deliver()
        assert notified == [["hook"]]

    def test_message_that_finds_another_worker_clears_the_notified_mark(self, service: DeliveryTestbed) -> None:
        """Mark the webhook as notified after a worker has claimed it. The mark is based on a state that was read before
        the claim."""
        service.create()
        unread = service.state()

        def respond(_: dict[str, Any]) -> ReceiverResponse:
            service.states.set_notified(unread, int(service.clock()))
            service.deliver()
            return respond_with()

        service.receiver.answer = respond
        service.change("a")
        service.deliver()
        service.change("b")
        assert service.notify("alice") == ["hook"]

    def test_change_a_minute_later_resends_a_message_that_could_not_be_sent(
        self, service: DeliveryTestbed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(bodies: Any) -> None:
            raise Unavailable

        service.create()
        with monkeypatch.context() as patched:
            patched.setattr(service.queue, "send_all", refuse)
            assert not service.handle(changed_message(["alice"]), age=BEHIND_SECONDS)
        assert service.notify("alice") == []
        service.clock.advance(NOTIFIED_SECONDS)
        assert service.notify("alice") == ["hook"]

    def test_message_is_sent_even_if_the_notified_mark_cannot_be_written(
        self, service: DeliveryTestbed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> None:
            raise WriteContention("the cursor")

        service.create()
        with monkeypatch.context() as patched:
            patched.setattr(DeliveryStateStore, "set_notified", refuse)
            assert service.handle(changed_message(["alice"]), age=BEHIND_SECONDS)
        assert len(service.queue.waiting) == 1

    def test_sweeper_requeues_a_just_resumed_webhook_once_it_is_indexed(self, service: DeliveryTestbed) -> None:
        """Change a video while the index does not list the webhook yet. The change notifies no worker."""
        service.create(paused=True)
        service.resume()
        service.deliver()
        service.change("a")
        assert service.sweep() == 0
        service.clock.advance(INDEX_SECONDS)
        assert service.sweep() == 1
        service.work()
        assert service.receiver.ids == ["a"]
        assert service.is_caught_up()


class TestSending:
    def test_changes_are_sent_once_signed_and_in_order(self, service: DeliveryTestbed) -> None:
        service.create()
        changes = [service.change(f"c{number}") for number in range(5)]
        service.deliver()
        assert [(url, body) for url, _, body in service.receiver.requests] == [
            (URL, event_body(change)) for change in changes
        ]
        assert all(headers["webhook-signature"].startswith("v1,") for _, headers, _ in service.receiver.requests)
        service.deliver()
        assert len(service.receiver.requests) == 5
        assert service.is_caught_up()

    def test_change_made_before_the_webhook_is_not_sent(self, service: DeliveryTestbed) -> None:
        service.change("before")
        service.create()
        service.change("after")
        service.deliver()
        assert service.receiver.ids == ["after"]

    def test_webhook_receives_the_changes_of_all_users_or_of_its_owner(self, service: DeliveryTestbed) -> None:
        service.create("mine")
        service.create("all", ROOT, everybody=True, url="https://all.example")
        for number in range(9):
            service.change(f"c{number}", f"v{number}", user="alice" if number % 3 else "bob")
        service.deliver("mine")
        service.deliver("all")
        received = {"mine": set[str](), "all": set[str]()}
        for url, headers, _ in service.receiver.requests:
            received["all" if "all" in url else "mine"].add(headers["webhook-id"])
        assert received["all"] == {f"c{number}" for number in range(9)}
        assert received["mine"] == received["all"] - {"c0", "c3", "c6"}

    def test_change_of_another_type_is_not_sent(self, service: DeliveryTestbed) -> None:
        service.create(types=["video.deleted", "credit.*"])
        for type_ in ("video.changed", "video.deleted", "credit.created", "rating.changed"):
            service.change(type_, type_=type_)
        service.deliver()
        assert service.receiver.ids == ["video.deleted", "credit.created"]
        assert service.is_caught_up()

    def test_videos_are_delivered_concurrently_and_changes_of_one_video_in_order(
        self, service: DeliveryTestbed
    ) -> None:
        """Make each response wait until the maximum number of requests is in flight. Assert that no video has two
        requests at once."""
        service.create()
        for number in range(CONCURRENT_REQUESTS * 2):
            service.change(f"c{number}", f"v{number % CONCURRENT_REQUESTS}")
        barrier, in_flight = threading.Barrier(CONCURRENT_REQUESTS, timeout=LIMIT), set[str]()

        def respond(event: dict[str, Any]) -> ReceiverResponse:
            video = event["data"]["videoId"]
            assert video not in in_flight
            in_flight.add(video)
            barrier.wait()
            in_flight.discard(video)
            return respond_with()

        service.receiver.answer = respond
        assert service.deliver()
        assert len(service.receiver.ids) == CONCURRENT_REQUESTS * 2

    def test_changes_of_several_pages_are_delivered_in_order(self, service: DeliveryTestbed) -> None:
        service.create()
        for number in range(2 * MAX_DELIVERED + 1):
            service.change(f"c{number}")
        service.deliver()
        assert service.receiver.ids == [f"c{number}" for number in range(2 * MAX_DELIVERED + 1)]
        assert service.is_caught_up()

    @pytest.mark.slow
    def test_ten_thousand_changes_of_other_types_are_skipped_with_few_writes(self, service: DeliveryTestbed) -> None:
        service.create(types=["playlist.*"])
        for batch in range(10):
            service.changes(*[f"{batch}-{number}" for number in range(1000)])
        with record_operations(service.table.client) as operations:
            service.deliver()
        written = [operation for operation in operations if operation.name in WRITES]
        assert len(written) <= 3
        assert len(operations) <= 20
        assert service.receiver.requests == []
        assert service.is_caught_up()

    def test_delivery_without_new_changes_writes_nothing(self, service: DeliveryTestbed) -> None:
        service.create(everybody=True, caller=ROOT)
        with record_operations(service.table.client) as operations:
            service.deliver()
        assert [operation.name for operation in operations] == ["GetItem", "GetItem", *["Query"] * 4]

    def test_delivery_of_one_change_uses_a_fixed_number_of_requests(self, service: DeliveryTestbed) -> None:
        service.create()
        service.change("a")
        with record_operations(service.table.client) as operations:
            service.deliver()
        names = [operation.name for operation in operations]
        work = ["GetItem", "GetItem", "Query", "UpdateItem", "UpdateItem", "PutItem", "UpdateItem", "Query"]
        assert names == [*work, "UpdateItem", "Query"], "the last two release the slot in the quota"


class TestFailures:
    def test_failed_change_is_retried_before_later_changes_of_its_video(self, service: DeliveryTestbed) -> None:
        service.create()
        for id_ in "abc":
            service.change(id_)
        service.receiver.answer = only_failing("b")
        service.deliver()
        assert service.receiver.ids == ["a", "b"]
        service.deliver()
        assert service.receiver.ids == ["a", "b"], "the second attempt is not due yet"
        service.receiver.answer = only_failing()
        service.wait()
        assert service.receiver.ids == ["a", "b", "b", "c"]
        assert service.is_caught_up()

    def test_accepted_change_is_not_sent_again_when_another_video_fails(self, service: DeliveryTestbed) -> None:
        """Make one change fail. The worker delivers changes of other videos until one page of changes is accepted."""
        service.create()
        for number in range(MAX_DELIVERED + 9):
            service.change(f"c{number}", f"v{number}")
        service.receiver.answer = only_failing("c0")
        service.deliver()
        service.wait()
        service.wait()
        resent = [id_ for id_ in service.receiver.ids if id_ != "c0"]
        assert len(resent) == len(set(resent)) == MAX_DELIVERED - 1
        service.receiver.answer = only_failing()
        service.wait()
        accepted = [id_ for id_ in service.receiver.ids if id_ != "c0"]
        assert len(accepted) == len(set(accepted)) == MAX_DELIVERED + 8

    def test_retry_delays_grow_to_eight_hours_and_end_after_three_days(self, service: DeliveryTestbed) -> None:
        service.create()
        service.change("a")
        service.receiver.answer = failing()
        service.deliver()
        begun, waits = service.clock(), []
        while not service.hook()["paused"]:
            waits.append(service.wait())
        planned = [*DELAYS, *[DELAYS[-1]] * len(waits)]
        assert all(0.8 * delay <= wait <= 1.2 * delay + 1 for wait, delay in zip(waits, planned, strict=False))
        assert DAYS_FAILING * DAY <= service.clock() - begun <= (DAYS_FAILING + 0.5) * DAY
        assert service.hook()["pausedBecause"] == (
            "The receiver has not accepted a change for 3 days; its last response was 500."
        )
        assert "rel" not in service.hook()
        assert "rel" not in service.state()

    def test_attempt_without_a_response_has_an_error(self, service: DeliveryTestbed) -> None:
        service.create()
        service.change("a")
        service.receiver.answer = failing(None, error="The receiver refused the connection.")  # type: ignore[arg-type]
        service.deliver()
        service.clock.advance(DAYS_FAILING * DAY)
        service.deliver()
        assert service.hook()["pausedBecause"] == (
            "The receiver has not accepted a change for 3 days. The receiver refused the connection."
        )

    def test_receiver_that_accepts_some_changes_is_retried_soon(self, service: DeliveryTestbed) -> None:
        service.create()
        for number in range(3):
            service.change(f"c{number}")
        service.receiver.answer = failing()
        service.deliver()
        service.wait()
        assert service.state()["failures"] == 2
        service.receiver.answer = only_failing("c1")
        service.wait()
        assert service.state()["failures"] == 1
        assert service.state()["failingSince"] == int(service.clock())
        assert service.queue.waits[0] <= 6

    def test_webhook_is_paused_when_one_video_always_fails_while_others_succeed(
        self, service: DeliveryTestbed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(delivering_module, "MAX_DELIVERED", 4)
        service.create()
        service.receiver.answer = only_failing("poison")
        service.change("poison", "bad")
        service.deliver()
        for number in range(100):
            service.change(f"c{number}", f"v{number}")
            service.wait()
            if service.hook()["paused"]:
                break
        assert service.hook()["paused"]
        assert len(set(service.receiver.ids)) == 4

    @pytest.mark.parametrize(
        ("retry_after", "longest"), [(None, 6), (3, 6), (60, 60), (7200, 7200), (10**6, 28_800)], ids=str
    )
    def test_retry_after_of_a_receiver_extends_the_delay(self, retry_after: int | None, longest: int) -> None:
        delay = delay_after(1, [respond_with(429, retry_after=retry_after), respond_with(500)], lambda low, high: high)
        assert delay == longest

    def test_retry_delays_are_randomised(self) -> None:
        waits = [delay_after(3, [respond_with(500)], chance) for chance in (min, max)]
        assert waits == [96, 144]

    @pytest.mark.parametrize("status", [301, 400, 404, 429, 500])
    def test_every_status_except_success_is_a_failure(self, service: DeliveryTestbed, status: int) -> None:
        service.create()
        service.change("a")
        service.receiver.answer = failing(status)
        service.deliver()
        assert service.state()["failures"] == 1
        assert not service.hook()["paused"]

    @pytest.mark.parametrize(
        ("respond", "because"),
        [
            (respond_with(410), RECEIVER_GONE),
            (respond_with(None, is_forbidden=True, error="It may not be called."), "It may not be called."),
        ],
        ids=["gone", "forbidden"],
    )
    def test_gone_or_forbidden_receiver_pauses_the_webhook_until_resumed(
        self, service: DeliveryTestbed, respond: ReceiverResponse, because: str
    ) -> None:
        service.create()
        for id_ in "abc":
            service.change(id_)
        service.receiver.answer = lambda event: respond if event["data"]["id"] == "b" else respond_with()
        service.deliver()
        assert service.hook()["pausedBecause"] == because
        service.clock.advance(DAY)
        assert service.sweep() == 0
        assert service.deliver()
        assert service.receiver.ids == ["a", "b"]
        service.receiver.answer = only_failing()
        service.resume()
        assert "pausedBecause" not in service.hook()
        service.deliver()
        assert service.receiver.ids == ["a", "b", "b", "c"]

    def test_webhook_is_paused_when_its_description_changes_concurrently(self, service: DeliveryTestbed) -> None:
        service.create()
        service.change("a")

        def respond(_: Any) -> ReceiverResponse:
            service.hooks.change("hook", {"description": "mine"}, ALICE, NOW, accept_any_version)
            return respond_with(410)

        service.receiver.answer = respond
        assert service.deliver()
        assert (service.hook()["paused"], service.hook()["description"]) == (True, "mine")

    def test_webhook_is_paused_when_its_next_changes_have_expired(self, service: DeliveryTestbed) -> None:
        service.create()
        for day in range(3):
            service.changes(*[f"{day}-{number}" for number in range(500)])
            service.clock.advance(DAY)
        service.clock.advance((DAYS_KEPT - 2.5) * DAY)
        service.deliver()
        assert service.hook()["pausedBecause"] == CHANGES_EXPIRED
        assert service.receiver.requests == []


class TestQueueMessages:
    """Messages that are lost, duplicated or late, and workers that crash."""

    def test_failure_is_retried_by_a_message_or_by_the_sweeper(self, service: DeliveryTestbed) -> None:
        service.create()
        service.change("a")
        service.receiver.answer = failing()
        service.deliver()
        assert service.sweep() == 0
        (message,) = service.queue.waiting
        assert message[1] == deliver_message("hook")
        service.queue.waiting.clear()
        service.clock.advance(6)
        assert service.sweep() == 1
        service.receiver.answer = only_failing()
        service.work()
        assert service.is_caught_up()
        assert service.sweep() == 0

    def test_sweeper_requeues_a_failing_webhook_with_growing_delays(self, service: DeliveryTestbed) -> None:
        service.create()
        service.change("a")
        service.receiver.answer = failing()
        service.deliver()
        service.clock.advance(6)
        sent = []
        for _ in range(20):
            sent.append(service.sweep())
            service.clock.advance(60)
        assert [minute for minute, count in enumerate(sent) if count] == [0, 1, 2, 4, 8, 16]

    def test_sweeper_reserves_time_for_webhooks(self, service: DeliveryTestbed) -> None:
        service.create()
        service.change("a")
        service.receiver.answer = failing()
        service.deliver()
        service.clock.advance(10)
        videos = FakeQueue()
        sweep = _sweeper(service, videos)
        assert sweep({}, LimitedContext(sweeper.SECONDS_FOR_JOBS + sweeper.SECONDS_FOR_WEBHOOKS))["due"] == 1

    def test_long_retry_delays_are_left_to_the_sweeper(self, service: DeliveryTestbed) -> None:
        service.create()
        service.change("a")
        service.receiver.answer = failing(503, retry_after=3600)
        service.deliver()
        assert service.queue.waiting == []
        service.clock.advance(3600)
        assert service.sweep() == 1

    def test_retry_is_left_to_the_sweeper_when_the_queue_is_busy(
        self, service: DeliveryTestbed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service.create()
        service.change("a")
        service.receiver.answer = failing()

        def busy(*_: object, **__: object) -> None:
            raise Unavailable

        monkeypatch.setattr(service.queue, "send", busy)
        assert service.deliver()
        monkeypatch.undo()
        service.clock.advance(6)
        assert service.sweep() == 1

    def test_new_webhook_is_due_until_a_worker_reads_it(self, service: DeliveryTestbed) -> None:
        content = {"url": URL, "types": [], "paused": False, "follows": "alice"}
        log = owner_log("alice")
        service.hooks.create("hook", content, {log: service.feed.end(log)}, ALICE, NOW)
        assert service.sweep() == 1
        service.work()
        assert service.sweep() == 0
        service.clock.advance(INDEX_SECONDS)
        assert service.sweep() == 1
        service.work()
        assert service.is_caught_up()

    def test_change_is_delivered_to_a_new_webhook_before_it_is_indexed(self, service: DeliveryTestbed) -> None:
        content = {"url": URL, "types": [], "paused": False, "follows": "alice"}
        log = owner_log("alice")
        service.hooks.create("hook", content, {log: service.feed.end(log)}, ALICE, NOW)
        service.deliver()
        service.change("a")
        service.deliver()
        service.deliver()
        assert service.receiver.ids == ["a"]

    def test_lease_holder_rereads_the_log_for_a_refused_worker(self, service: DeliveryTestbed) -> None:
        service.create()
        service.change("a")

        def respond(event: dict[str, Any]) -> ReceiverResponse:
            if event["data"]["id"] == "a":
                service.change("b")
                assert service.deliver(), "the message is deleted without a request to the receiver"
                assert service.receiver.ids == ["a"]
            return respond_with()

        service.receiver.answer = respond
        service.deliver()
        assert service.receiver.ids == ["a", "b"]

    def test_change_during_the_release_of_the_lease_is_delivered(self, service: DeliveryTestbed) -> None:
        service.create()
        service.change("a")
        writes: list[str] = []

        def between(operation: str, parameters: Any, send: Any) -> Any:
            if operation == "UpdateItem":
                writes.append(operation)
                if len(writes) == 2:
                    undo()
                    service.change("b")
                    assert service.deliver()
            return send()

        undo = intercept(service.table.client, between)
        service.deliver()
        assert service.receiver.ids == ["a", "b"]
        assert service.is_caught_up()

    def test_worker_overtaken_while_it_skips_changes_reads_again(self, service: DeliveryTestbed) -> None:
        """Overtake a worker that has no lease, because it only skips changes. The second worker was notified of a
        change that the first worker did not read."""
        service.create(types=["video.deleted"])
        service.change("a")
        line = FaultLine(service.table.client)

        def overtake() -> None:
            line.disarm()
            service.change("b", type_="video.deleted")
            service.deliver()
            service.change("c", type_="video.deleted")

        line.arm(run_before_request(overtake), at=3)
        service.deliver()
        assert line.calls[3] == "UpdateItem"
        assert service.receiver.ids == ["b", "c"]

    def test_webhook_of_a_crashed_worker_is_delivered_after_the_lease_expires(self, service: DeliveryTestbed) -> None:
        service.create()
        service.change("a")
        service.receiver.answer = crash
        with pytest.raises(WorkerCrash):
            service.deliver()
        service.receiver.answer = only_failing()
        service.clock.advance(LEASE_SECONDS - 1)
        service.deliver()
        assert service.receiver.ids == ["a"]
        service.clock.advance(1)
        service.deliver()
        assert service.receiver.ids == ["a", "a"]
        assert service.is_caught_up()

    @pytest.mark.parametrize("hours", [1, 1000])
    def test_lease_of_a_fast_clock_does_not_block_other_workers(self, service: DeliveryTestbed, hours: int) -> None:
        service.create()
        service.change("a")
        service.clock.advance(hours * 3600)
        service.receiver.answer = crash
        with pytest.raises(WorkerCrash):
            service.deliver()
        service.clock.advance(-hours * 3600)
        service.receiver.answer = only_failing()
        service.deliver()
        assert service.is_caught_up()
        assert not is_due(NOW + 28_800, NOW)
        assert is_due(NOW + 40_000, NOW)

    def test_worker_out_of_time_requeues_remaining_changes(self, service: DeliveryTestbed) -> None:
        service.create()
        for number in range(10):
            service.change(f"c{number}")
        service.deliver(context=ShortContext(4))
        assert service.receiver.ids == [f"c{number}" for number in range(len(service.receiver.ids))]
        assert 0 < len(service.receiver.ids) < 10
        assert "leaseUntil" not in service.state()
        service.work()
        assert service.receiver.ids == [f"c{number}" for number in range(10)]

    def test_slow_receiver_yields_to_other_webhooks(self, service: DeliveryTestbed) -> None:
        """Make each response take three seconds. After ten seconds, the worker begins no request, and requeues its
        message behind the waiting messages."""
        service.create()
        for number in range(40):
            service.change(f"c{number}")

        def slowly(_: dict[str, Any]) -> ReceiverResponse:
            service.clock.advance(3)
            return respond_with()

        service.receiver.answer = slowly
        service.deliver()
        assert (len(service.receiver.requests), service.queue.waits) == (4, [0])
        service.work()
        assert service.receiver.ids == [f"c{number}" for number in range(40)]
        assert service.is_caught_up()

    def test_worker_out_of_time_releases_the_lease_between_two_pages(
        self, service: DeliveryTestbed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(delivering_module, "MAX_DELIVERED", 2)
        service.create()
        for number in range(6):
            service.change(f"c{number}")
        service.deliver(context=ShortContext(2))
        assert service.receiver.ids == ["c0", "c1"]
        assert service.state()["oldestWaiting"] <= service.clock() * 1000
        service.work()
        assert len(service.receiver.ids) == 6

    def test_accepted_changes_are_recorded_when_the_table_is_throttled(self, service: DeliveryTestbed) -> None:
        service.create()
        service.change("a")
        calls: list[str] = []
        line = FaultLine(service.table.client)

        def refuse(send: Any) -> Any:
            # The list of attempts is never stored. The delivery state is stored at the end.
            calls.append(line.calls[-1])
            if len(line.calls) > 20:
                return None
            return throttle(send)

        service.receiver.answer = lambda _: line.arm(refuse) or respond_with()  # type: ignore[func-returns-value]
        assert service.deliver()
        line.disarm()
        assert service.is_caught_up()
        assert service.attempts() == []
        service.deliver()
        assert service.receiver.ids == ["a"]


class WorkerCrash(BaseException):
    """Crash of the worker's process."""


def crash(_: dict[str, Any]) -> ReceiverResponse:
    raise WorkerCrash


class TestConcurrentChanges:
    """A worker stops a page without writing its progress if the webhook changes during the page.

    The worker continues with the current configuration. It holds its lease throughout, so two workers never send
    concurrently.
    """

    @pytest.fixture
    def deliver_with_change(self, service: DeliveryTestbed) -> Callable[[Callable[[], object]], None]:
        service.create()
        for id_ in "abc":
            service.change(id_)

        def deliver(make_change: Callable[[], object]) -> None:
            def respond(event: dict[str, Any]) -> ReceiverResponse:
                if event["data"]["id"] == "b":
                    service.receiver.answer = only_failing()
                    make_change()
                return respond_with()

            service.receiver.answer = respond
            assert service.deliver()

        return deliver

    def test_replay_during_delivery_restarts_at_its_position(
        self, service: DeliveryTestbed, deliver_with_change: Any
    ) -> None:
        log = owner_log("alice")
        start = service.feed.at_time(log, 0)
        deliver_with_change(lambda: service.hooks.replay("hook", {log: start}, ALICE, NOW, accept_any_version))
        assert service.receiver.ids == ["a", "b", "c", "a", "b", "c"]
        assert service.is_caught_up()

    def test_new_url_receives_every_change_not_yet_recorded_as_delivered(
        self, service: DeliveryTestbed, deliver_with_change: Any
    ) -> None:
        deliver_with_change(
            lambda: service.hooks.change("hook", {"url": "https://other.example"}, ALICE, NOW, accept_any_version)
        )
        assert [url for url, _, _ in service.receiver.requests] == [URL] * 3 + ["https://other.example"] * 3

    def test_pause_during_delivery_leaves_the_cursors_unchanged(
        self, service: DeliveryTestbed, deliver_with_change: Any
    ) -> None:
        before = service.state()["places"]
        deliver_with_change(lambda: service.hooks.change("hook", {"paused": True}, ALICE, NOW, accept_any_version))
        assert (service.state()["places"], service.state().keys() & {*LEASE, *WAITING}) == (before, set())
        service.deliver()
        assert len(service.receiver.requests) == 3

    @pytest.mark.parametrize("resent", ["replay", "url", "pause and resume"])
    def test_no_other_worker_delivers_while_the_lease_holder_is_sending(
        self, service: DeliveryTestbed, deliver_with_change: Any, resent: str
    ) -> None:
        log, now = owner_log("alice"), int(service.clock())
        start = service.feed.at_time(log, 0)

        def make_change() -> None:
            if resent == "replay":
                service.hooks.replay("hook", {log: start}, ALICE, now, accept_any_version)
            elif resent == "url":
                service.hooks.change("hook", {"url": "https://other.example"}, ALICE, now, accept_any_version)
            else:
                service.hooks.change("hook", {"paused": True}, ALICE, now, accept_any_version)
                service.resume()
            sent = len(service.receiver.requests)
            assert service.deliver(), "the message is deleted, because the other worker continues"
            assert len(service.receiver.requests) == sent

        deliver_with_change(make_change)
        assert service.receiver.ids == [*"abc", *"abc"]
        service.clock.advance(INDEX_SECONDS)
        service.deliver()
        assert service.is_caught_up()

    def test_sweeper_requeues_the_webhook_of_a_crashed_worker_when_its_lease_expires(
        self, service: DeliveryTestbed
    ) -> None:
        service.create()
        service.change("a")

        def respond(_: dict[str, Any]) -> ReceiverResponse:
            service.hooks.change(
                "hook", {"url": "https://other.example"}, ALICE, int(service.clock()), accept_any_version
            )
            raise WorkerCrash

        service.receiver.answer = respond
        with pytest.raises(WorkerCrash):
            service.deliver()
        service.receiver.answer = only_failing()
        assert service.deliver()
        assert len(service.receiver.requests) == 1
        service.clock.advance(LEASE_SECONDS)
        assert service.sweep() == 1
        service.work()
        assert [url for url, _, _ in service.receiver.requests] == [URL, "https://other.example"]

    def test_webhook_deleted_during_delivery_stays_deleted(
        self, service: DeliveryTestbed, deliver_with_change: Any
    ) -> None:
        deliver_with_change(lambda: service.hooks.delete("hook", ALICE, NOW, accept_any_version))
        assert not any((service.hook(), service.state()))
        assert service.deliver()

    def test_added_types_do_not_resend_accepted_changes(self, service: DeliveryTestbed) -> None:
        service.create(types=["video.changed"])
        for number in range(2 * MAX_DELIVERED):
            service.change(f"c{number}", f"v{number}", type_="video.deleted" if number % 2 else "video.changed")
        service.receiver.answer = only_failing("c0")
        service.deliver()
        service.wait()
        assert len(set(service.receiver.ids)) == MAX_DELIVERED
        service.hooks.change("hook", {"types": []}, ALICE, int(service.clock()), accept_any_version)
        service.receiver.answer = only_failing()
        service.deliver()
        accepted = [id_ for id_ in service.receiver.ids if id_ != "c0"]
        assert len(accepted) == len(set(accepted)) == 2 * MAX_DELIVERED - 1
        service.clock.advance(INDEX_SECONDS)
        service.deliver()
        assert service.is_caught_up()


class TestStatus:
    def test_attempt_list_shows_each_attempt_with_its_response(self, service: DeliveryTestbed) -> None:
        service.create()
        service.change("a")
        service.receiver.answer = failing(500, body=b"out of order")
        service.deliver()
        service.receiver.answer = only_failing()
        service.wait()
        first, second = service.attempts()
        about = {"changeId": "a", "type": "video.changed", "videoId": "v", "ms": 7}
        assert first == about | {"at": first["at"], "status": 500, "answer": "out of order", "attempt": 1}
        assert second == about | {"at": int(service.clock() * 1000), "status": 204, "attempt": 2}

    def test_webhook_shows_its_oldest_waiting_change_and_next_attempt(self, service: DeliveryTestbed) -> None:
        service.create()
        change = service.change("a")
        service.clock.advance(60)
        service.change("b")
        service.receiver.answer = failing()
        service.deliver()
        document = service.hooks.read_for("hook", ALICE).document(int(service.clock()))
        assert (document["behindSince"], document["failures"]) == (change["at"], 1)
        assert document["nextAttemptAt"] > service.clock()
        service.receiver.answer = only_failing()
        service.wait()
        document = service.hooks.read_for("hook", ALICE).document(int(service.clock()))
        assert document.keys() & {"behindSince", "failures", "nextAttemptAt"} == set()


class TestMetrics:
    @pytest.fixture
    def metrics(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
        monkeypatch.setenv("ENVIRONMENT", "test")

        def emitted() -> list[dict[str, Any]]:
            return [
                {name: value for name, value in line.items() if name != "environment"} for line in logs.metrics(capsys)
            ]

        return emitted

    def test_accepted_delivery_emits_count_lag_and_wait(self, service: DeliveryTestbed, metrics: Any) -> None:
        service.create()
        service.change("a")
        service.clock.advance(3)
        service.deliver()
        assert metrics() == [{"DeliveriesDone": 1, "DeliveryLag": 3007, "DeliveryWait": 3}]

    def test_failed_delivery_emits_failure_and_pause_counts_but_no_wait(
        self, service: DeliveryTestbed, metrics: Any
    ) -> None:
        service.create()
        service.change("a")
        service.receiver.answer = failing()
        service.deliver()
        for _ in range(5):
            service.wait()
        service.receiver.answer = failing(410)
        service.wait()
        assert metrics() == [{"DeliveriesFailed": 1}] * 7 + [{"WebhooksPaused": 1}]

    def test_sweeper_emits_the_wait_of_a_webhook_that_no_worker_leases(
        self, service: DeliveryTestbed, metrics: Any
    ) -> None:
        service.create()
        service.change("a")
        service.receiver.answer = failing()
        service.deliver()
        service.clock.advance(service.state()["nextAttemptAt"] - service.clock())
        metrics()
        sweep = _sweeper(service, FakeQueue())
        assert (sweep({}, Context())["due"], metrics()) == (1, [])
        service.clock.advance(1000)
        sweep({}, Context())
        assert metrics() == [{"DeliveryWait": 1000}]

    def test_replayed_changes_emit_no_lag_or_wait(self, service: DeliveryTestbed, metrics: Any) -> None:
        service.create()
        service.change("a")
        service.deliver()
        service.clock.advance(10 * DAY)
        metrics()
        log = owner_log("alice")
        service.hooks.replay(
            "hook", {log: service.feed.at_time(log, 0)}, ALICE, int(service.clock()), accept_any_version
        )
        service.deliver()
        assert metrics() == [{"DeliveriesDone": 1}]

    def test_failing_bus_emits_failures_and_its_wait(self, service: DeliveryTestbed, metrics: Any) -> None:
        bus = Bus()
        service.worker = service.make(bus)
        service.change("a")
        bus.codes = ["InternalFailure"] * 2
        with log_lines() as lines:
            service.deliver(BUS)
        assert [line["reason"] for line in lines if line["level"] == "ERROR"] == [
            "EventBridge returned InternalFailure."
        ]
        metrics()
        service.clock.advance(1000)
        service.deliver(BUS)
        assert metrics() == [{"DeliveriesFailed": 1, "DeliveryWait": 1000}]


class Bus:
    """An event bus that returns scripted error codes and records all entries."""

    def __init__(self) -> None:
        self.puts: list[list[dict[str, Any]]] = []
        self.codes: list[str | None] = []
        """Error codes of the next entries. `None` accepts the entry. When the list is empty, all entries are
        accepted."""

    def put_events(self, Entries: list[dict[str, Any]]) -> dict[str, Any]:
        self.puts.append(Entries)
        codes = [self.codes.pop(0) if self.codes else None for _ in Entries]
        return {"Entries": [{"ErrorCode": code} if code else {"EventId": "e"} for code in codes]}

    @property
    def ids(self) -> list[str]:
        return [json.loads(entry["Detail"])["id"] for put in self.puts for entry in put]


class TestEventBusDelivery:
    @pytest.fixture
    def bus(self, service: DeliveryTestbed) -> Bus:
        bus = Bus()
        service.worker = service.make(bus)
        return bus

    def test_bus_receives_the_changes_of_all_users_from_the_oldest(self, service: DeliveryTestbed, bus: Bus) -> None:
        change = service.change("a", user="bob")
        service.deliver(BUS)
        service.deliver(BUS)
        assert bus.puts == [
            [
                {
                    "Time": change["at"] / 1000,
                    "Source": "video-metadata",
                    "DetailType": "video.changed",
                    "Detail": json.dumps(change, separators=(",", ":")),
                    "EventBusName": "the-bus",
                }
            ]
        ]

    def test_bus_of_an_empty_service_sends_nothing_and_queues_nothing(self, service: DeliveryTestbed, bus: Bus) -> None:
        service.deliver(BUS)
        assert bus.puts == []
        assert service.queue.waiting == []

    def test_bus_receives_at_most_ten_events_at_a_time_and_one_of_each_video(
        self, service: DeliveryTestbed, bus: Bus
    ) -> None:
        for number in range(26):
            service.change(f"c{number}", f"v{number % 13}")
        service.deliver(BUS)
        assert sorted(bus.ids, key=lambda id_: int(id_[1:])) == [f"c{number}" for number in range(26)]
        assert max(len(put) for put in bus.puts) == 10
        for put in bus.puts:
            videos = [json.loads(entry["Detail"])["videoId"] for entry in put]
            assert len(videos) == len(set(videos))
        assert all(bus.ids.index(f"c{number}") < bus.ids.index(f"c{number + 13}") for number in range(13))

    def test_bus_resends_only_the_refused_events(self, service: DeliveryTestbed, bus: Bus) -> None:
        for id_ in "abc":
            service.change(id_, id_)
        bus.codes = [None, "ThrottlingException"]
        service.deliver(BUS)
        refused = bus.ids[1]
        service.clock.advance(6)
        service.work()
        assert bus.ids.count(refused) == 2
        assert len(bus.ids) == 4

    def test_bus_is_never_paused_by_failures(self, service: DeliveryTestbed, bus: Bus) -> None:
        service.change("a")
        bus.codes = ["InternalFailure"] * 12
        service.deliver(BUS)
        for _ in range(11):
            service.clock.advance(DAY)
            service.deliver(BUS)
        assert len(bus.ids) == 12
        assert service.state(BUS)["nextAttemptAt"] - service.clock() <= 600
        service.clock.advance(600)
        service.deliver(BUS)
        assert service.sweep() == 0

    def test_bus_continues_from_the_oldest_retained_change_after_expiry(
        self, service: DeliveryTestbed, bus: Bus
    ) -> None:
        service.change("a")
        service.deliver(BUS)
        for day in range(3):
            service.changes(*[f"{day}-{number}" for number in range(300)])
            service.clock.advance(DAY)
        service.clock.advance((DAYS_KEPT - 2.5) * DAY)
        service.deliver(BUS)
        assert bus.ids[:2] == ["a", "1-0"]
        assert bus.ids[-1] == "2-299"

    def test_message_for_the_bus_is_ignored_without_a_bus(self, service: DeliveryTestbed) -> None:
        assert service.deliver(BUS)
        assert not service.state(BUS)


def test_delivery_sends_nothing_when_the_secret_cannot_be_read(
    service: DeliveryTestbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable() -> str:
        raise Unavailable

    service.create()
    service.change("a")
    with monkeypatch.context() as patched:
        patched.setattr(FakeResources, "secret", lambda *_: unreadable)
        service.worker = service.make()
    assert not service.deliver()
    assert service.receiver.requests == []
    service.worker = service.make()
    service.clock.advance(LEASE_SECONDS)
    service.deliver()
    assert service.receiver.ids == ["a"]


def _sweeper(service: DeliveryTestbed, videos: FakeQueue) -> LambdaHandler:
    """Return the Lambda handler that queues the videos and webhooks that are due."""
    queues = {"aggregates": videos, "deliveries": service.queue}
    return FakeResources(service.table, service.clock, queues=queues).make(sweeper.lambda_handler)
