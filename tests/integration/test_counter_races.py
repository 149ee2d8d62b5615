"""Sharded view counters: no view is lost while many writers add shards and merge them concurrently, or when requests
fail."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from local.testbed.harness import NOW
from local.testbed.wire import intercept
from shared.aws.dynamodb import Table
from shared.aws.lean.client import ErrorResponse
from shared.core.attributes import Item
from shared.core.errors import NotApplied, Unavailable
from shared.schema import PARTITION_KEY, VIEW_COUNTER
from shared.videos.counters import LOOK_SECONDS, MERGE_SECONDS, ViewCounters
from tests.integration import faults
from tests.integration.concurrency import run_concurrently
from tests.integration.conftest import Connect
from tests.integration.faults import FaultLine, Incident

VIDEO = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
ONE = {"views": 1}
THREADS = 8
VIEWS = 10
"""Number of views that each thread adds."""


def _throttled_below(shard: int, operation: str, parameters: Any, send: Callable[..., Any]) -> Any:
    """Throttle views in shards below `shard`. Changes of the number of shards succeed."""
    is_view = operation == "UpdateItem" and parameters["UpdateExpression"].startswith("ADD")
    if is_view and int(parameters["Key"][PARTITION_KEY]["S"].rpartition("#")[2]) < shard:
        raise ErrorResponse(400, {"__type": "ThrottlingException", "message": ""})
    return send()


@pytest.fixture
def throttled(connect: Connect, table: Table) -> Table:
    """Return a Table with the same items, whose client throttles views in the first four shards."""
    client: Any = connect()
    intercept(client, partial(_throttled_below, 4))
    return Table(table.name, client, sleep=lambda _: None)


def _first(table: Table) -> Item:
    return table.get(VIEW_COUNTER.key(videoId=VIDEO, shard=0), consistent=True) or {}


def _add_views(table: Table, now: int = NOW) -> list[int]:
    """Add views as a new instance of the service, and return the count after each."""
    counters = ViewCounters(table)
    return [counters.add(VIDEO, ONE, now) for _ in range(VIEWS)]


def _stored_views(table: Table) -> int:
    """Return the sum of all shards. Assert that both functions that read it return the same sum."""
    counters = ViewCounters(table)
    count = counters.read([VIDEO], consistent=True)[VIDEO].views
    assert counters.counts({VIDEO: _first(table)}) == {VIDEO: count}
    return count


def test_concurrent_doublings_agree_and_lose_no_view(table: Table, throttled: Table) -> None:
    counts = run_concurrently(*[partial(_add_views, throttled)] * THREADS)

    first = _first(table)
    # Writers that were throttled in shards 0 to 3 doubled the number of shards once, and added their views to the new
    # shards.
    assert (first["shards"], first["spread"]) == (8, 8)
    assert _stored_views(table) == THREADS * VIEWS
    assert all(seen_counts == sorted(seen_counts) and seen_counts[-1] <= THREADS * VIEWS for seen_counts in counts)


def test_throttled_and_unthrottled_writers_lose_no_view(table: Table, throttled: Table) -> None:
    calm = [partial(_add_views, table)] * (THREADS // 2)
    run_concurrently(*calm, *[partial(_add_views, throttled)] * (THREADS // 2))
    assert _stored_views(table) == THREADS * VIEWS
    assert ViewCounters(table).add(VIDEO, ONE, NOW) == THREADS * VIEWS + 1


@pytest.fixture
def merge_time(table: Table, throttled: Table) -> int:
    """Create a sharded counter whose writers use shard 0 again. Return the time from which its shards can be merged."""
    _add_views(throttled)
    for now in (NOW, NOW + LOOK_SECONDS):
        ViewCounters(table).merge_shards(VIDEO, now)
    assert "calmedAt" in _first(table)
    return NOW + LOOK_SECONDS + MERGE_SECONDS


def test_concurrent_merges_merge_a_counter_once(table: Table, merge_time: int) -> None:
    run_concurrently(*[lambda: ViewCounters(table).merge_shards(VIDEO, merge_time)] * THREADS)
    assert _first(table)["folded"] == {"views": VIEWS}
    assert _stored_views(table) == VIEWS


def test_merges_during_many_views_lose_no_view(table: Table, throttled: Table, merge_time: int) -> None:
    def merge() -> list[int]:
        for later in range(VIEWS):
            ViewCounters(table).merge_shards(VIDEO, merge_time + later)
        return []

    run_concurrently(*[partial(_add_views, throttled, merge_time)] * (THREADS - 2), merge, merge)
    assert _stored_views(table) == VIEWS + (THREADS - 2) * VIEWS
    assert ("folded" in _first(table)) != ("shards" in _first(table))


CALLS = 4
"""Number of calls after a throttled view. They read the counter, double its shards, add the view to a new shard, and sum
the other shards."""


class TestBrokenCalls:
    @pytest.fixture
    def line(self, connect: Connect, table: Table, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultLine]:
        """Return the fault line of a client that throttles views in the first shard. Also set `self.sharded` to a Table
        with this client."""
        client: Any = connect()
        line = FaultLine(client)
        intercept(client, partial(_throttled_below, 1))
        monkeypatch.setattr("random.randrange", lambda _, stop: stop - 1)
        self.sharded = Table(table.name, client, sleep=lambda _: None)
        yield line
        line.disarm()

    @pytest.mark.parametrize("at", range(CALLS + 1))
    @pytest.mark.parametrize("incident", [faults.lose_request, faults.lose_response, faults.throttle, faults.fail])
    def test_returned_count_matches_the_stored_count_after_a_fault(
        self, table: Table, line: FaultLine, incident: Incident, at: int
    ) -> None:
        line.arm(incident, at)
        try:
            counted = range(ViewCounters(self.sharded).add(VIDEO, ONE, NOW), 2)
        except NotApplied:
            counted = range(1)
        except Unavailable:
            counted = range(2)
        assert _stored_views(table) in counted

        line.disarm()
        before = _stored_views(table)
        assert ViewCounters(self.sharded).add(VIDEO, ONE, NOW) == before + 1
        # The view was also throttled in the new shard, so the writer doubled the number again.
        shards = 4 if (incident, at) == (faults.throttle, 2) else 2
        assert _first(table)["shards"] == _first(table)["spread"] == shards
