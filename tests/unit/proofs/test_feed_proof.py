"""A thousand changes by sixteen writers, with a disturbed stream: each appears once in the feed, and consumers match
an export.

Four shards of a stream are processed in four lanes each, as with a parallelization factor of four. The records of one
video stay in one lane and in order; lanes share no state. Disturbances:

- Lanes lag independently. Batches of different lanes arrive in any order, every third time the newest first.
- Batches have random sizes. A failed batch is halved, and a partially processed batch resumes in the middle.
- A fifth of the batches is redelivered immediately. A tenth of the batches is followed by an old batch of the lane.
- Lanes return to an earlier checkpoint and redeliver from there in other batches; one restarts from its first record.
- Functions are killed before and after any request, throttled, and lose responses to writes. A killed function is
replaced by a new instance without memory. The other instances cache tails that may be outdated.
- In the middle of a batch, before any request, another function receives the same batch and completes it first.

Consumers read concurrently through the real functions: a page of changes, then GET for each video that it names. They
start without videos. At the end their videos must equal an export of the same table.

The test is simpler than the service in two ways. It writes the videos directly into a table in memory, without the API
and its conditions. It also removes deleted videos before the end of their 90 days.
"""

import json
import logging
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from functions.history import handler as history
from functions.videos import handler as videos
from local.stream_records import EXPIRY, Raw, stream_record
from local.testbed.background import FakeQueue, make_audit
from local.testbed.harness import LINKS, Clock, Context, FakeResources, Reply, make_event
from local.testbed.streams import deliver
from local.testbed.stub import Stub, StubClient
from local.testbed.wire import intercept, unconditional_puts
from shared.aws.dynamodb import Key, Table
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import Throttled, Unavailable
from shared.core.settings import LambdaHandler
from shared.entities import Video
from shared.feed.log import OLDEST, Feed, owner_log, shard_logs
from shared.routes import ROUTES
from shared.schema import AUDIT_TABLE_NAME, PARTITION_KEY, SORT_KEY, TABLE_NAME, TAIL, VIDEO
from shared.videos import video
from shared.videos.documents import document
from tests.integration.faults import Killed
from tools.exporting import Export
from tools.progress import Bars

CHANGES = 1_000
WRITERS = 16
VIDEOS = 60
LANES = 16
OWNERS = ("alice", "bob", "carol")
BATCH = 40
INCIDENT_PROBABILITY = 0.012
"""Probability that a request to the feed's table is interrupted."""
OVERTAKE_PROBABILITY = 0.01
"""Probability that another function processes the same batch before a request."""


class UnreliableAuditTable:
    """Fault injection between the functions and the audit table. While enabled, it kills functions and throttles
    requests."""

    def __init__(self, chance: random.Random) -> None:
        # A single attempt, because the table's retries would hide these faults from the functions.
        self.table = Table(AUDIT_TABLE_NAME, StubClient(Stub()), attempts=1, sleep=lambda _: None)
        self.unconditional = unconditional_puts(self.table.client)
        intercept(self.table.client, self._between)
        self.chance, self.incident_probability = chance, 0.0
        self.overtake: Callable[[], object] | None = None
        """Function that makes another instance process the same batch, or `None`."""
        self.incidents: Counter[str] = Counter()

    def _between(self, operation: str, _: Mapping[str, Any], send: Callable[[], Any]) -> Any:
        self._incident(Throttled, Killed)
        response = send()
        if operation == "PutItem":
            self._incident(Unavailable, Killed)  # the response is lost
        return response

    def _incident(self, *kinds: type[BaseException]) -> None:
        if self.overtake and self.chance.random() < OVERTAKE_PROBABILITY:
            overtake, self.overtake = self.overtake, None
            self.incidents["overtaken"] += 1
            overtake()
        if self.chance.random() < self.incident_probability:
            kind = self.chance.choice(kinds)
            self.incidents[kind.__name__] += 1
            raise kind()


@dataclass
class Catalogue:
    """Current videos, and all stream records of their changes."""

    chance: random.Random
    clock: Clock
    table: Table = field(default_factory=lambda: Table(TABLE_NAME, StubClient(Stub())))
    records: list[Raw] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ids = [f"{self.chance.getrandbits(32):08x}-0000-4000-8000-{number:012}" for number in range(VIDEOS)]

    def change(self) -> Raw:
        """Change a random video as a random writer, on average after one second. Return the stream record."""
        number = len(self.records)
        self.clock.advance(self.chance.random() * 2)
        key = VIDEO.key(videoId=self.chance.choice(self._ids))
        old = cast("Video | None", self.table.get(key))
        new = self._next(old, key, number)
        if new is None:
            self.table.delete(key)
        else:
            new["writeId"] = str(number)
            self.table.write(self.table.put(new))
        identity = None if new else EXPIRY
        self.records.append(stream_record(old, new, sequence=number + 1, at=int(self.clock()), identity=identity))
        return self.records[-1]

    def _next(self, old: Video | None, key: Key, number: int) -> Video | None:
        """Return the next state of a video, or `None` to delete it."""
        now = int(self.clock())
        writer = Caller(f"writer-{self.chance.randrange(WRITERS)}", frozenset(), correlation_id=f"r{number}")
        if old is None:
            video_id = key[PARTITION_KEY].removeprefix(VIDEO.partition_prefix)
            content = {"title": "A film", "visibility": "private"}
            owner = self.chance.choice(OWNERS)
            new = video.new_item(content, video_id=video_id, owner=owner, created_at=now, status="uploaded")
        elif old["status"] == "deleted":
            if self.chance.random() < 0.7:
                return None
            new = video.restore(old)
        elif self.chance.random() < 0.05:
            new = video.mark_deleted(old, now)
        else:
            status = self.chance.choice(sorted(video.TRANSITIONS[old["status"]]))
            visibility = self.chance.choice(("public", "private"))
            new = video.apply_patch(old, {"title": f"Title {number}", "status": status, "visibility": visibility}, now)
        return video.stamp(new, caller=writer, now=now, version=old["version"] + 1 if old else 1)


@dataclass
class Lane:
    """Part of a stream's shard that contains all records of some videos. `checkpoint` is the number of records read."""

    chance: random.Random
    records: list[Raw] = field(default_factory=list)
    checkpoint: int = 0
    done: list[list[Raw]] = field(default_factory=list)
    has_started_over: bool = False

    def next(self) -> list[Raw]:
        """Return the next batch. It is empty if there are no more records, or if the lane lags."""
        if self.chance.random() < 0.4:
            return []
        batch = self.records[self.checkpoint : self.checkpoint + self.chance.randint(1, BATCH)]
        self.checkpoint += len(batch)
        return batch

    def redeliver(self, batch: list[Raw]) -> Iterator[list[Raw]]:
        """Yield the batches to redeliver after a processed batch. This may also move the checkpoint back."""
        if self.chance.random() < 0.2:
            yield batch
        self.done.append(batch)
        if self.chance.random() < 0.1:
            yield self.chance.choice(self.done)
        if self.chance.random() < 0.05:
            self.checkpoint -= self.chance.randint(1, min(self.checkpoint, 2 * BATCH))


class Workers:
    """Instances of the audit function with one table. A killed instance is replaced by a new instance without
    memory."""

    def __init__(self, audit: UnreliableAuditTable, clock: Clock) -> None:
        self.audit, self.clock = audit, clock
        self.queue = FakeQueue()
        self.failed: Counter[str] = Counter()
        """Number of batches that failed completely or partially, without a kill, by the kind of incident."""
        self._instances = [self._new_instance() for _ in range(4)]

    def _new_instance(self) -> LambdaHandler:
        return make_audit(self.audit.table, self.clock, queue=self.queue)

    def invoke(self, event: dict[str, Any]) -> dict[str, Any]:
        """Invoke an instance with a batch. Another instance may process the same batch in the meantime."""
        one, other = self.audit.chance.sample(range(len(self._instances)), 2)

        def overtake() -> None:
            with suppress(Killed, Unavailable):  # no caller receives the result of the second instance
                self._run(other, event)

        self.audit.incident_probability, self.audit.overtake = INCIDENT_PROBABILITY, overtake
        try:
            return self._run(one, event)
        finally:
            self.audit.incident_probability, self.audit.overtake = 0, None

    def _run(self, number: int, event: dict[str, Any]) -> dict[str, Any]:
        before = self.audit.incidents.copy()
        try:
            report = self._instances[number](event, Context())
        except Killed:
            self._instances[number] = self._new_instance()
            raise
        except (Throttled, Unavailable) as error:
            self.failed[type(error).__name__] += 1
            raise
        if report["batchItemFailures"]:
            self.failed.update((self.audit.incidents - before).keys())
        return report


class Consumer:
    """Consumer of the feed. It reads changes page by page, and each video that they name."""

    def __init__(self, simulation: "Simulation", user: str, scopes: str, query: str) -> None:
        self.user, self.scopes, self.query, self.after = user, scopes, query, ""
        resources = FakeResources(simulation.catalogue.table, simulation.clock, audit=simulation.audit.table)
        self._functions = {
            "listChanges": resources.make(history.lambda_handler),
            "getVideo": resources.make(videos.lambda_handler),
        }
        self._routes = {route.operation: route for route in ROUTES}
        self.mirror: dict[str, Any] = {}
        self.positions: Counter[int] = Counter()
        """Number of changes received from each shard. It equals the position of the shard's last received change."""

    def _call(self, operation: str, path: str, query: str = "") -> Reply:
        event = make_event("GET", path, None, query, {}, self.user, self.scopes, self._routes[operation])
        response = self._functions[operation](event, Context())
        return Reply(response["statusCode"], response["headers"], response["body"].encode())

    def follow(self) -> bool:
        """Read a page and the videos that it names. Return whether the consumer has reached the end of the feed."""
        reply = self._call("listChanges", "/v1/changes", f"limit=100{self.query}{self.after}")
        assert reply.status == 200, reply.body
        for item in reply.json["items"]:
            self.positions[item["shard"]] += 1
            assert item["position"] == self.positions[item["shard"]]
        for video_id in {item["videoId"] for item in reply.json["items"]}:
            read = self._call("getVideo", f"/v1/videos/{video_id}")
            if read.status == 200:
                self.mirror[video_id] = read.json
            else:
                assert read.status == 404, read.body
                self.mirror.pop(video_id, None)
        self.after = f"&after={reply.json['nextCursor']}"
        caught_up: bool = reply.json["caughtUp"]
        return caught_up


class Simulation:
    """Writers, their stream, the functions that consume it, and consumers of the feed."""

    def __init__(self, seed: int) -> None:
        self.chance, self.clock = random.Random(seed), Clock()
        self.catalogue = Catalogue(self.chance, self.clock)
        self.audit = UnreliableAuditTable(self.chance)
        self.workers = Workers(self.audit, self.clock)
        self.lanes = [Lane(self.chance) for _ in range(LANES)]
        self.search = Consumer(self, "search", "videos/read videos/admin", "")
        self.alice = Consumer(self, "alice", "videos/read", "&userId=alice")
        self.delivered: Counter[str] = Counter()
        """Number of deliveries of each record."""
        self.late = 0
        """Number of batches delivered after a batch of only younger records."""

    def run(self) -> None:
        """Write, deliver and consume until CHANGES changes exist and all are in the feed."""
        while len(self.catalogue.records) < CHANGES or any(lane.checkpoint < len(lane.records) for lane in self.lanes):
            for _ in range(min(self.chance.randint(0, 3 * BATCH), CHANGES - len(self.catalogue.records))):
                raw = self.catalogue.change()
                self.lanes[int(raw["dynamodb"]["Keys"]["pk"]["S"][6:14], 16) % LANES].records.append(raw)
            self._deliver()
            self.search.follow()
            self.alice.follow()
        while not (self.search.follow() and self.alice.follow()):
            pass

    def _deliver(self) -> None:
        batches = [(lane, batch) for lane in self.lanes if (batch := lane.next())]
        self.chance.shuffle(batches)
        if self.chance.random() < 1 / 3:
            batches.sort(key=lambda one: _number(one[1][-1]), reverse=True)
        youngest = CHANGES
        for lane, batch in batches:
            self._deliver_batch(batch)
            self.late += _number(batch[-1]) < youngest
            youngest = min(youngest, _number(batch[0]))
            for repeated in lane.redeliver(batch):
                self._deliver_batch(repeated)
        lane = self.lanes[0]
        if len(lane.records) > CHANGES // LANES // 2 and not lane.has_started_over:
            lane.checkpoint, lane.has_started_over = 0, True

    def _deliver_batch(self, batch: list[Raw]) -> None:
        self.delivered.update(raw["eventID"] for raw in batch)
        assert deliver(batch, self.workers.invoke, retries=1000) == []


def _number(raw: Raw) -> int:
    return int(raw["dynamodb"]["SequenceNumber"])


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    """Return the completed simulation: all changes are in the feed, and its consumers have read all of them."""
    built = Simulation(18)
    logging.disable(logging.WARNING)  # writing log lines takes a fifth of the time
    try:
        built.run()
    finally:
        logging.disable(logging.NOTSET)
    return built


def test_every_kind_of_disturbance_occurred(simulation: Simulation) -> None:
    assert len(simulation.delivered) == CHANGES
    assert simulation.delivered.total() > 1.3 * CHANGES
    assert set(simulation.audit.incidents) == {"Throttled", "Killed", "Unavailable", "overtaken"}
    assert min(simulation.audit.incidents.values()) > 10
    assert min(simulation.workers.failed["Throttled"], simulation.workers.failed["Unavailable"]) > 5
    assert simulation.late > 20
    assert simulation.lanes[0].has_started_over
    assert {owner for message in simulation.workers.queue.sent for owner in message["owners"]} == set(OWNERS)


def test_every_put_in_the_audit_table_has_a_condition(simulation: Simulation) -> None:
    assert simulation.audit.unconditional == []


def test_positions_are_dense_and_each_change_is_in_the_feed_once(simulation: Simulation) -> None:
    expected: dict[str, list[str]] = defaultdict(list)
    for raw in simulation.catalogue.records:
        image = raw["dynamodb"].get("NewImage") or raw["dynamodb"]["OldImage"]
        expected[image["videoId"]["S"]].append(
            raw["dynamodb"].get("NewImage", {}).get("updatedFor", {}).get("S", "gone")
        )
    for logs in (shard_logs(), tuple(map(owner_log, OWNERS))):
        changes = [read for log in logs for read in _all(simulation, log)]
        assert len(changes) == len({change["id"] for change in changes}) == CHANGES
        by_video: dict[str, list[str]] = defaultdict(list)
        for item in changes:
            by_video[item["videoId"]].append(item.get("correlationId", "gone"))
        if logs == shard_logs():
            assert by_video == expected  # the changes of each video are in order


def _all(simulation: Simulation, log: str) -> list[Item]:
    feed, cursor, changes = Feed(simulation.audit.table, simulation.clock), OLDEST, list[Item]()
    while True:
        page = feed.read(log, cursor, 1000)
        assert [read.position for read in page.entries] == list(
            range(len(changes) + 1, len(changes) + 1 + len(page.entries))
        )
        changes += [read.change for read in page.entries]
        cursor = page.cursor
        if page.is_end:
            tail = simulation.audit.table.get({PARTITION_KEY: log, SORT_KEY: TAIL}) or {}
            assert tail["first"] + tail["count"] == len(changes) + 1
            return changes


def test_consumers_of_the_feed_have_the_videos_of_an_export(simulation: Simulation, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    counts = Export(simulation.catalogue.table, file, bars=Bars(), clock=simulation.clock).run()
    assert counts == {"Video": len(simulation.search.mirror)}
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    # An export has the stored attributes, so they are converted to the document that GET returns.
    exported = {line["videoId"]: LINKS.to_urls(document(line, view_count=0)) for line in lines}
    assert {line["status"] for line in lines} == set(video.STATUSES)
    assert simulation.search.positions.total() == CHANGES
    assert simulation.search.mirror == exported
    own = {
        video_id: document for video_id, document in simulation.alice.mirror.items() if document["userId"] == "alice"
    }
    assert own == {video_id: document for video_id, document in exported.items() if document["userId"] == "alice"}
