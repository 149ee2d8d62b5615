"""The stream's counts are exact even if several workers count the same video concurrently.

A slow worker may still be running when its messages are redelivered to another worker.
"""

import random
from contextlib import suppress
from functools import partial

from local.testbed.harness import NOW
from shared import schema
from shared.aws.dynamodb import Table
from shared.background.ledger import deduplication_key
from shared.background.tallies import Tallies
from shared.core.attributes import encode_item
from shared.core.errors import WriteContention
from shared.processing.messages import TallyMessage, parse, tally_message
from shared.videos.counters import SUMS, ViewCounters
from tests.integration.concurrency import run_concurrently

VIDEO = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
CHANGES = [(deduplication_key(f"change {number}", NOW + number // 20), number) for number in range(100)]
HOURS = [f"2025-06-15T{hour:02}" for hour in range(3)]
WORKERS = 3


def shuffled(seed: int) -> list[TallyMessage]:
    """Return messages with all changes and starts of hours, in random order, and some of them twice. Each message except
    the last has 5 to 19 entries."""
    chance = random.Random(seed)
    entries: list[tuple[str, list[object]]] = [("views", list(change)) for change in CHANGES]
    entries += [("ratings", [mark, {"votes": 1, "sum": number}]) for mark, number in CHANGES]
    entries += [
        ("starts", [shard, hour, True, dict.fromkeys(SUMS, 10 * position + shard + chance.randrange(5) * (seed > 0))])
        for position, hour in enumerate(HOURS)
        for shard in range(3)
    ]
    entries += chance.sample(entries, 50)
    chance.shuffle(entries)
    messages = []
    while entries:
        size = chance.randrange(5, 20)
        lists: dict[str, list[object]] = {}
        for name, entry in entries[:size]:
            lists.setdefault(name, []).append(entry)
        entries = entries[size:]
        messages.append(parse(TallyMessage, tally_message(VIDEO, lists)))
    return messages


def worker(table: Table, seed: int) -> None:
    """Process all messages sequentially. A message that fails because of write contention is retried, because SQS would
    deliver it again."""
    tallies = Tallies(table)
    waiting = shuffled(seed)
    while waiting:
        with suppress(WriteContention):
            tallies.apply([waiting[0]], NOW)
            waiting.pop(0)


def test_concurrent_workers_count_the_same_changes_once(table: Table) -> None:
    created = {"createdAt": NOW, "status": "ready", "visibility": "public", "rel": schema.FEED, "version": 1}
    video = {**schema.VIDEO.key(videoId=VIDEO), "videoId": VIDEO, "userId": "alice", "category": "drama", **created}
    table.client.put_item(TableName=table.name, Item=encode_item(video))
    counters = ViewCounters(table)

    def view() -> None:
        for _ in range(30):
            counters.add(VIDEO, {"views": 1}, NOW)

    run_concurrently(view, *(partial(worker, table, seed) for seed in range(WORKERS)))

    counter = table.get(schema.VIEW_COUNTER.key(videoId=VIDEO, shard=0), consistent=True) or {}
    totals = table.get(schema.RATING_TOTALS.key(videoId=VIDEO), consistent=True) or {}
    everything = sum(number for _, number in CHANGES)
    assert (counter["views"], counter["keyed"], counter["watched"]) == (30, len(CHANGES), everything)
    assert (totals["votes"], totals["sum"]) == (len(CHANGES), everything)
    for position, hour in enumerate(HOURS):
        counts = table.get(schema.VIEW_HOUR.key(videoId=VIDEO, hour=hour), consistent=True) or {}
        assert counts["starts"] == {str(shard): dict.fromkeys(SUMS, 10 * position + shard) for shard in range(3)}
    day = table.get(schema.VIEW_DAY.key(videoId=VIDEO, day=HOURS[0][:10]), consistent=True) or {}
    assert day["starts"] == {str(shard): dict.fromkeys(SUMS, shard) for shard in range(3)}
