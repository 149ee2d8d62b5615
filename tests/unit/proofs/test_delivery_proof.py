"""Webhook deliveries under faults: although the receiver fails and workers are killed, the receiver accepts every event,
and the events of each video in order."""

import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from standardwebhooks import Webhook

from functions.deliveries import handler as deliveries
from local.ports import serving
from local.testbed.deliveries import ROOT, DeliveryTestbed, accept_any_version
from local.testbed.harness import MASTER, Clock
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.core.settings import LambdaHandler
from shared.feed.change import Change
from shared.feed.log import shard_logs
from shared.processing.messages import changed_message, deliver_message
from shared.webhooks.delivery_state import LEASE_SECONDS
from shared.webhooks.http_client import send
from shared.webhooks.signing import encode_secret, secret_of
from shared.webhooks.transport import HttpTransport
from tests.integration import faults
from tests.integration.faults import FaultLine, Killed
from tests.polling import LIMIT

VIDEOS, VERSIONS = 15, 16
HIDDEN = 720
"""Seconds until SQS delivers an unprocessed message again."""
OUTCOMES = {"accepted": 59, "failed": 30, "incomplete": 4, "lost": 4, "silent": 2, "gone": 2}
"""Outcomes of an unreliable receiver, with the number of each in about a hundred requests.

`incomplete` is a truncated response, `lost` an accepted event without a response, and `silent` a response after the
time limit.
"""
SHORT = 0.3
"""Time limit in seconds for responses of an unreliable receiver. On a slow machine, more responses are late."""
WRITES = {"PutItem", "UpdateItem", "TransactWriteItems"}
SECRET = Webhook(encode_secret(secret_of(MASTER, "hook", 1)))


class BadReceiver(ThreadingHTTPServer):
    """Receiver that accepts less than two thirds of the requests, and verifies all of them.

    `faults` lists the violations.
    """

    daemon_threads = True

    def __init__(self, chance: random.Random) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.chance = chance
        self.lock = threading.Lock()
        self.accepted: defaultdict[str, list[int]] = defaultdict(list)
        """Versions in the order of their first acceptance, by video."""
        self.outcomes: Counter[str] = Counter()
        self.faults: list[str] = []
        self.is_well = False
        self._pack: list[str] = []

    def choose_outcome(self, headers: dict[str, str], body: bytes) -> str:
        """Choose the response to a request.

        Record a fault if the signature is invalid, or if the event arrived before an earlier event of its video was
        accepted.
        """
        with self.lock:
            try:
                event = SECRET.verify(body, headers)
            except Exception as error:  # any error of the verification
                self.faults.append(f"not verified: {error!r}")
                return "accepted"
            change = event["data"]
            if headers["webhook-id"] != change["id"] or event["type"] != "video.changed":
                self.faults.append("event does not match the change")
            versions = self.accepted[change["videoId"]]
            if change["version"] > len(versions) + 1:
                self.faults.append(f"version {change['version']} arrived before {len(versions) + 1} was accepted")
            outcome = "accepted" if self.is_well else self._outcome()
            self.outcomes[outcome] += 1
            if outcome in ("accepted", "lost") and change["version"] == len(versions) + 1:
                versions.append(change["version"])
            return outcome

    def _outcome(self) -> str:
        """Draw an outcome from a shuffled deck, so that each outcome occurs as often as `OUTCOMES` states."""
        if not self._pack:
            self._pack = [name for name, number in OUTCOMES.items() for _ in range(number)]
            self.chance.shuffle(self._pack)
        return self._pack.pop()


class _Handler(BaseHTTPRequestHandler):
    server: BadReceiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        outcome = self.server.choose_outcome({name.lower(): value for name, value in self.headers.items()}, body)
        match outcome:
            case "silent":
                assert self.connection.recv(1) == b""
            case "incomplete":
                self.wfile.write(b"HTTP/1.1 2")
            case "lost":  # the receiver accepts the event, but the response is lost
                pass
            case _:
                self.send_response({"accepted": 204, "failed": 500, "gone": 410}[outcome])
                self.end_headers()
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Write no log."""


@pytest.fixture
def receiver() -> Iterator[BadReceiver]:
    server = BadReceiver(random.Random(7))
    with serving(server):
        yield server


class WorkerFaults:
    """Fault injection that kills workers before or after their writes. It also serialises all requests to the table,
    because moto is not thread-safe."""

    def __init__(self, table: Table, chance: random.Random) -> None:
        self.chance = chance
        self.is_over = False
        self.kills = 0
        self._lock = threading.RLock()
        self._worker = threading.local()
        intercept(table.client, self._between)

    def _between(self, operation: str, _: Any, send: Callable[[], Any]) -> Any:
        with self._lock:
            is_at_risk = getattr(self._worker, "is_at_risk", False) and operation in WRITES and not self.is_over
            chance_value = self.chance.random() if is_at_risk else 1
            if chance_value < 0.06:
                self.kills += 1
                raise Killed
            response = send()
            if chance_value < 0.12:
                self.kills += 1
                raise Killed
            return response

    def run_worker(self, work: Callable[[], bool]) -> bool:
        """Run a worker, and return whether it completed its work without being killed."""
        self._worker.is_at_risk = True
        try:
            return work()
        except Killed:
            return False
        finally:
            self._worker.is_at_risk = False


def test_each_event_is_accepted_in_video_order_under_faults(
    table: Table, receiver: BadReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(18)
    service = DeliveryTestbed(table, Clock())
    service.create(caller=ROOT, everybody=True, url=f"http://127.0.0.1:{receiver.server_port}/in")
    worker_faults = WorkerFaults(table, chance)
    # Signatures have the real time, because receivers compare it with their clocks.
    monkeypatch.setattr(
        deliveries,
        "HttpTransport",
        lambda *arguments, **options: HttpTransport(*arguments, **options | {"clock": time.time}),
    )

    def worker() -> LambdaHandler:
        # A new instance for each message, because a killed instance loses its memory.
        return service.make(send=partial(send, seconds=LIMIT if receiver.is_well else SHORT), WEBHOOK_LOCAL="true")

    def handle_message(message: dict[str, Any]) -> None:
        if not worker_faults.run_worker(lambda: service.handle(message, worker())):
            service.queue.waiting.append((service.clock() + HIDDEN, message))

    versions = [video for video in range(VIDEOS) for _ in range(VERSIONS)]
    chance.shuffle(versions)
    last_versions: Counter[int] = Counter()
    expected = {f"v{video}": list(range(1, VERSIONS + 1)) for video in range(VIDEOS)}
    resumed = rounds = 0
    replay_at = len(versions) // 2
    with ThreadPoolExecutor(3) as workers:
        while versions or not service.is_caught_up() or service.queue.waiting:
            rounds += 1
            assert rounds < 3000, f"the webhook does not catch up: {service.state()}"
            worker_faults.is_over = receiver.is_well = rounds > 400
            messages = service.queue.take()
            messages += [message for message in messages if chance.random() < 0.2]
            chance.shuffle(messages)
            late = len(messages) // 10
            for message in messages[:late]:
                service.queue.send(message, 60)
            deliveries_in_flight = [workers.submit(handle_message, message) for message in messages[late:]]
            # The feed grows while the workers deliver.
            for _ in range(min(len(versions), chance.randint(0, 5))):
                video = versions.pop()
                last_versions[video] += 1
                append(service, f"v{video}", last_versions[video])
                if chance.random() < 0.7:  # otherwise the message is lost, and the next message causes the delivery
                    service.queue.send(changed_message(["alice"]))
            if not versions and rounds % 50 == 0:  # a later change would send such a message
                service.queue.send(deliver_message("hook"))
            for done in deliveries_in_flight:
                done.result()
            if service.hook()["paused"]:
                assert service.hook()["pausedBecause"] == "The receiver returned 410 Gone."
                service.hooks.change("hook", {"paused": False}, ROOT, int(service.clock()), accept_any_version)
                resumed += 1
            if len(versions) < replay_at:
                replay_at = -1
                starts = {log: service.feed.at_time(log, 0) for log in shard_logs()}
                service.hooks.replay("hook", starts, ROOT, int(service.clock()), accept_any_version)
            service.clock.advance(chance.choice([0, 1, 10, LEASE_SECONDS]))
            service.sweep()
    assert receiver.faults == []
    assert receiver.accepted == expected
    assert worker_faults.kills > 5
    assert resumed > 0
    assert receiver.outcomes.keys() == OUTCOMES.keys()


CALLS = ["GetItem", "GetItem", "Query", *["UpdateItem"] * 2, "PutItem", "UpdateItem", "Query", "UpdateItem", "Query"]
"""DynamoDB operations of a worker during the delivery of a page, in order."""


@pytest.mark.parametrize("incident", [faults.kill_before, faults.kill_after], ids=["before", "after"])
@pytest.mark.parametrize("at", range(len(CALLS)), ids=lambda at: f"{at}-{CALLS[at]}")
def test_delivery_killed_at_any_call_skips_nothing_and_repeats_only_unrecorded_events(
    table: Table, at: int, incident: faults.Incident
) -> None:
    service = DeliveryTestbed(table, Clock())
    service.create()
    for number in range(6):
        service.change(f"c{number}", f"v{number % 2}")
    line = FaultLine(table.client)
    line.arm(incident, at)
    with suppress(Killed):
        service.deliver()
    assert line.calls == CALLS[: at + 1]
    line.disarm()
    service.clock.advance(HIDDEN)
    service.deliver()
    assert service.is_caught_up()
    write_number = 6  # number of the write that ends the page
    is_repeated = 4 < at < write_number or (at, incident) == (write_number, faults.kill_before)
    assert len(service.receiver.ids) == (12 if is_repeated else 6)
    for video in range(2):
        own = [id_ for id_ in service.receiver.ids if int(id_[1:]) % 2 == video]
        assert own == [f"c{number}" for number in range(video, 6, 2)] * (2 if is_repeated else 1)


def append(service: DeliveryTestbed, video: str, version: int) -> None:
    """Append a change of a video to the feed."""
    at = int(service.clock() * 1000)
    change: Change = {
        "id": f"{video}-{version}",
        "type": "video.changed",
        "videoId": video,
        "userId": "alice",
        "version": version,
        "at": at,
        "fields": [],
    }
    service.feed.prepare([change])
    service.feed.append([change])
