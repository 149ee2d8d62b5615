"""An import of any size does not throttle the counting of totals. Totals are late during the import, and exact when all
videos are counted."""

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from functions.aggregates import handler
from local.testbed.background import FakeQueue
from local.testbed.harness import NOW, Context, FakeResources
from local.testbed.limits import SimulatedRun, Simulation
from local.testbed.streams import sqs_event
from shared import schema
from shared.aws.dynamodb import LARGEST_TRANSACTION, Table
from shared.background.aggregates import UNITS_PER_SECOND
from shared.core.attributes import Item
from shared.core.settings import LambdaHandler
from shared.processing.messages import aggregates_message

PER_SECOND = 5_000
"""Number of videos that are imported per second."""
WORKERS, BATCH, WINDOW = 2, 1_000, 1.0
"""Number of workers, batch size in messages, and batching window in seconds, as in infra/jobs_stack.py.

tests/unit/infra/test_infra_jobs.py compares them.
"""
MAX_UNITS = WORKERS * UNITS_PER_SECOND + 2 * LARGEST_TRANSACTION
"""Maximum write units that the workers together consume in one partition and second. The second term is for
transactions that began in the second before."""
COUNTED_PER_SECOND = 1_500
"""Minimum number of one owner's videos counted per second, if a transaction takes 33 ms (docs/limits.md)."""


class Import:
    """Videos that are written at a fixed rate, their messages, and the workers that count them."""

    def __init__(self, videos: Sequence[Item]) -> None:
        self.queue = FakeQueue()
        self.simulation: Simulation[LambdaHandler] = Simulation(self._worker, writers=WORKERS)
        self.simulation.items.load(videos)
        self._messages = [json.dumps(aggregates_message(item["videoId"])) for item in videos]
        self._received = 0

    def _worker(self, table: Table) -> LambdaHandler:
        def clock() -> float:
            return self.simulation.time

        return FakeResources(table, clock, queues={"aggregates": self.queue}).make(handler.lambda_handler)

    def count(self) -> SimulatedRun:
        """Run the workers until all videos are counted."""
        return self.simulation.run(1, WORKERS, self._work)

    def _work(self, worker: LambdaHandler, _: int) -> None:
        while self._received < len(self._messages):
            # Lambda waits for a full batch, at most for its batching window.
            full = (min(self._received + BATCH, len(self._messages))) / PER_SECOND
            self.simulation.wait(min(WINDOW, NOW + full - self.simulation.time))
            arrived = min(int((self.simulation.time - NOW) * PER_SECOND), len(self._messages))
            batch = self._messages[self._received : min(arrived, self._received + BATCH)]
            self._received += len(batch)
            assert worker(sqs_event(*batch), Context()) == {"batchItemFailures": []}

    def total(self, entity: schema.Entity, **parts: str) -> Item:
        """Return a total, or `{}` if it does not exist."""
        return self.simulation.table.get(entity.key(**parts), consistent=True) or {}

    @property
    def busiest(self) -> int:
        """Maximum write units that one partition of an index consumed in a second."""
        names = {index.name for index in schema.INDEXES}
        return max(units for ((name, _), _), units in self.simulation.peaks.items() if name in names)


def _videos(number: int, tags: Sequence[Sequence[str]]) -> list[Item]:
    """Return `number` videos of one owner. Their tags are the elements of `tags`, which are used in turn."""
    return [
        {
            **schema.VIDEO.key(videoId=f"video-{index}"),
            "videoId": f"video-{index}",
            "userId": "alice",
            "status": "ready",
            "duration": 7,
            "tags": {*tags[index % len(tags)]},
            "rel": schema.FEED,
            "schemaVersion": schema.SCHEMA_VERSION,
        }
        for index in range(number)
    ]


def assert_exact(videos: Import, number: int, tags: Mapping[str, int]) -> None:
    """Assert that all videos were counted once."""
    assert videos.total(schema.PROFILE, userId="alice")["ready"] == number
    assert videos.total(schema.PROFILE, userId="alice")["milliseconds"] == 7 * number
    counted = {tag: videos.total(schema.TAG_COUNT, tag=tag) for tag in tags}
    assert {tag: (item["count"], item["relSort"]) for tag, item in counted.items()} == {
        tag: (count, count) for tag, count in tags.items()
    }
    assert sum(item["sk"] == schema.MARKER.sk for item in videos.simulation.items.stored()) == number


def test_import_of_5000_videos_a_second_with_one_tag_is_not_throttled() -> None:
    number = PER_SECOND
    videos = Import(_videos(number, [["drama"]]))
    run = videos.count()
    assert run.requests["throttled"] == 0
    assert videos.busiest <= MAX_UNITS
    assert_exact(videos, number, {"drama": number})
    # The import takes one second. Afterwards the totals are complete within the time that counting all videos takes.
    assert run.seconds < 1 + number / COUNTED_PER_SECOND
    # A transaction counts 98 videos in the totals of their owner and tag. Some conflict with the other worker, and are
    # repeated.
    assert run.requests["TransactWriteItems"] < 2 * number / 98
    # Each video is read twice, and its deduplication item once.
    assert run.reads == pytest.approx(3 * number, rel=0.02)


def _many_tags() -> list[list[str]]:
    chance = random.Random(5)
    return [chance.sample([f"tag{number}" for number in range(300)], 5) for _ in range(500)]


def test_import_with_many_tags_of_one_partition_is_not_throttled() -> None:
    tags = _many_tags()
    videos = Import(_videos(500, tags))
    run = videos.count()
    assert run.requests["throttled"] == 0
    assert videos.busiest <= MAX_UNITS
    assert_exact(videos, 500, Counter(tag for sample in tags for tag in sample))


def test_import_without_the_workers_rate_limit_is_throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.background.aggregates.UNITS_PER_SECOND", 1_000_000)
    videos = Import(_videos(500, _many_tags()))
    assert videos.count().requests["throttled"] > 0
