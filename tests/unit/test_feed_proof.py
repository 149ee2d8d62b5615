"""Ten thousand changes by sixteen writers, while the stream's batches repeat, are cut, killed and throttled: none is lost or told twice.

A follower that began with nothing then reads the feed page by page and each video that it is told of, and has what an export has.
"""

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Unpack

import pytest

from functions.audit import handler as audit
from functions.history import handler as history
from shared.aws.dynamodb import Asked, Key, QueryPage, Table, Write
from shared.aws.failures import ConditionFailed
from shared.core.attributes import Item, decode_item
from shared.core.errors import Throttled, Unavailable
from shared.feed.log import OLDEST, Feed, owner_log, shard_logs
from shared.history.trail import AuditStore
from shared.routes import ROUTES
from shared.schema import AUDIT_TABLE_NAME, PARTITION_KEY, SORT_KEY, TAIL, VIDEO
from shared.web.cursors import Cursors
from tests.backstage import FakeQueue
from tests.harness import NOW, Clock, Context, Reply, make_event
from tests.streams import EXPIRY, Raw, change, deliver
from tests.trail import DAYS, NoArchive

CHANGES = 10_000
WRITERS = 16
VIDEOS = 400
OWNERS = ("alice", "bob", "carol")
BATCH = 40


class Killed(BaseException):
    """The function's process is gone."""


class Shaky(Table):
    """The table of the trail and the feed without DynamoDB, which kills and throttles whoever asks it."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(AUDIT_TABLE_NAME, None, sleep=lambda _: None)
        self.chance, self.danger = chance, 0.0
        self.items: defaultdict[str, dict[str, Item]] = defaultdict(dict)
        self.incidents: set[str] = set()

    def _incident(self, *kinds: type[BaseException]) -> None:
        if self.chance.random() < self.danger:
            kind = self.chance.choice(kinds)
            self.incidents.add(kind.__name__)
            raise kind()

    def get(self, key: Key, **_: Any) -> Item | None:
        """The item of a key."""
        self._incident(Throttled, Killed)
        return self.items[key[PARTITION_KEY]].get(key[SORT_KEY])

    def write(self, write: Write, *, returning: str = "NONE", elsewhere: bool = False) -> Item:
        """A put on one of the conditions that the trail and the feed have."""
        self._incident(Throttled, Killed)
        item = decode_item(write.parameters["Item"])
        values = decode_item(write.parameters.get("ExpressionAttributeValues", {}))
        kept = self.items[item[PARTITION_KEY]]
        old = kept.get(item[SORT_KEY])
        match write.parameters["ConditionExpression"]:
            case "attribute_not_exists(#pk)":
                is_allowed = old is None
            case "#first = :read AND #count = :held":
                is_allowed = old is not None and (old["first"], old["count"]) == (values[":read"], values[":held"])
            case "attribute_not_exists(#pk) OR #count < :held":
                is_allowed = old is None or old["count"] < values[":held"]
            case other:
                raise AssertionError(other)
        if not is_allowed:
            raise ConditionFailed(old)
        kept[item[SORT_KEY]] = item
        self._incident(Unavailable, Killed)  # the answer is lost
        return {}

    def query(self, **asked: Unpack[Asked]) -> QueryPage:
        """A page of a log."""
        values, start = asked["condition"].values, asked.get("start")
        kept, ascending = self.items[str(values[":log"])], asked.get("ascending", True)
        first = str(values.get(":first", ""))
        keys = sorted((key for key in kept if key >= first), reverse=not ascending)
        if start:
            keys = [key for key in keys if (key > start[SORT_KEY]) is ascending and key != start[SORT_KEY]]
        read = keys[: asked["limit"]]
        last = None if len(read) == len(keys) else {PARTITION_KEY: {"S": values[":log"]}, SORT_KEY: {"S": read[-1]}}
        return QueryPage([kept[key] for key in read], len(read), last)


@dataclass
class Catalogue:
    """The videos as they are, and the stream of what became of them."""

    chance: random.Random
    videos: dict[str, Item] = field(default_factory=dict)
    records: list[Raw] = field(default_factory=list)

    def write(self) -> None:
        """Let the writers make CHANGES changes."""
        ids = [f"{self.chance.getrandbits(32):08x}-0000-4000-8000-{number:012}" for number in range(VIDEOS)]
        while len(self.records) < CHANGES:
            self._change(self.chance.choice(ids), self.chance.randrange(WRITERS))

    def _change(self, video_id: str, writer: int) -> None:
        number = len(self.records)
        old, new, identity = self.videos.get(video_id), None, None
        if old is None:
            new = VIDEO.key(videoId=video_id) | {
                "videoId": video_id,
                "title": "A film",
                "userId": OWNERS[number % 3],
                "status": "uploaded",
                "version": 1,
            }
        elif old["status"] == "deleted" and self.chance.random() < 0.7:
            identity = EXPIRY  # purged
        else:
            status = "deleted" if self.chance.random() < 0.05 else "ready"
            new = old | {"title": f"Title {number}", "status": status, "version": old["version"] + 1}
        if new is not None:
            new |= {
                "writeId": str(number),
                "updatedBy": f"writer-{writer}",
                "updatedAt": NOW,
                "updatedFor": f"r{number}",
            }
            self.videos[video_id] = new
        else:
            del self.videos[video_id]
        self.records.append(change(old, new, sequence=number + 1, at=NOW + number // 100, identity=identity))

    def batches(self) -> Iterator[list[Raw]]:
        """The records in batches: those of an item in their order, others in any, many batches twice."""
        lanes: list[list[Raw]] = [[] for _ in range(WRITERS)]
        for raw in self.records:
            lanes[int(raw["dynamodb"]["Keys"]["pk"]["S"][6:14], 16) % WRITERS].append(raw)
        while any(lanes):
            lane = self.chance.choice([lane for lane in lanes if lane])
            batch = lane[: self.chance.randint(1, 2 * BATCH)]
            del lane[: len(batch)]
            yield batch
            if self.chance.random() < 0.2:
                yield batch


class Workers:
    """Instances of the audit function over one table. One that is killed is replaced by another, which remembers nothing."""

    def __init__(self, table: Shaky) -> None:
        self.table = table
        self.queue = FakeQueue()
        self._instances = [self._made() for _ in range(4)]

    def _made(self) -> Any:
        return audit.make(AuditStore(self.table), NoArchive(), DAYS, Feed(self.table, Clock()), self.queue)

    def invoke(self, event: dict[str, Any]) -> dict[str, Any]:
        """Hand a batch to one of them."""
        number = self.table.chance.randrange(len(self._instances))
        try:
            report: dict[str, Any] = self._instances[number](event, Context())
        except Killed:
            self._instances[number] = self._made()
            raise
        return report


@pytest.fixture(scope="module")
def world() -> tuple[Catalogue, Shaky]:
    """A catalogue, and the feed of all that became of it."""
    chance = random.Random(18)
    catalogue, table = Catalogue(chance), Shaky(chance)
    catalogue.write()
    workers = Workers(table)
    table.danger = 0.004
    for batch in catalogue.batches():
        assert deliver(batch, workers.invoke, retries=1000) == []
    table.danger = 0
    assert table.incidents == {"Throttled", "Killed", "Unavailable"}
    assert {owner for message in workers.queue.sent for owner in message["owners"]} == set(OWNERS)
    return catalogue, table


def test_positions_are_dense_and_each_change_is_told_once(world: tuple[Catalogue, Shaky]) -> None:
    catalogue, table = world
    expected: dict[str, list[str]] = defaultdict(list)
    for raw in catalogue.records:
        image = raw["dynamodb"].get("NewImage") or raw["dynamodb"]["OldImage"]
        expected[image["videoId"]["S"]].append(
            raw["dynamodb"].get("NewImage", {}).get("updatedFor", {}).get("S", "gone")
        )
    for logs in (shard_logs(), tuple(map(owner_log, OWNERS))):
        told = [read for log in logs for read in _all(table, log)]
        assert len(told) == len({change["id"] for change in told}) == CHANGES
        by_video: dict[str, list[str]] = defaultdict(list)
        for item in told:
            by_video[item["videoId"]].append(item.get("correlationId", "gone"))
        if logs == shard_logs():
            assert by_video == expected  # nothing of a video is told before what came before it


def _all(table: Shaky, log: str) -> list[Item]:
    feed, place, told = Feed(table, Clock()), OLDEST, list[Item]()
    while True:
        stretch = feed.read(log, place, 1000)
        assert [read.position for read in stretch.told] == list(range(len(told) + 1, len(told) + 1 + len(stretch.told)))
        told += [read.change for read in stretch.told]
        place = stretch.place
        if stretch.is_end:
            assert table.items[log][TAIL]["first"] + table.items[log][TAIL]["count"] == len(told) + 1
            return told


def test_a_follower_of_the_feed_has_what_an_export_has(world: tuple[Catalogue, Shaky]) -> None:
    catalogue, table = world
    handle = history.make(table, AuditStore(table), Cursors(lambda: "secret"), Clock())
    (route,) = [route for route in ROUTES if route.operation == "listChanges"]
    mirror: dict[str, Item] = {}
    positions: dict[int, int] = defaultdict(int)
    query = "limit=100"
    while True:
        event = make_event("GET", "/v1/changes", None, query, {}, "search", "videos/read videos/changes", route)
        answer = handle(event, Context())
        reply = Reply(answer["statusCode"], answer["headers"], answer["body"].encode())
        assert reply.status == 200, reply.body
        for item in reply.json["items"]:
            positions[item["shard"]] += 1
            assert item["position"] == positions[item["shard"]]
            if video := catalogue.videos.get(item["videoId"]):
                mirror[item["videoId"]] = video
            else:
                mirror.pop(item["videoId"], None)
        if reply.json["caughtUp"]:
            break
        query = f"limit=100&after={reply.json['nextCursor']}"
    assert sum(positions.values()) == CHANGES
    assert mirror == catalogue.videos
