"""A counter loses nothing while many writers spread and fold it at once, whatever comes between their calls."""

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
from shared.videos.counters import FOLD_SECONDS, LOOK_SECONDS, ViewCounters
from tests.integration import faults
from tests.integration.concurrency import run_concurrently
from tests.integration.conftest import Connect
from tests.integration.faults import FaultLine, Incident

VIDEO = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
ONE = {"views": 1}
THREADS = 8
VIEWS = 10
"""Views of each thread."""


def _throttled_below(shard: int, operation: str, parameters: Any, send: Callable[..., Any]) -> Any:
    """Throttle views on the shards below one; what says how many there are gets through, as it does in the end."""
    is_view = operation == "UpdateItem" and parameters["UpdateExpression"].startswith("ADD")
    if is_view and int(parameters["Key"][PARTITION_KEY]["S"].rpartition("#")[2]) < shard:
        raise ErrorResponse(400, {"__type": "ThrottlingException", "message": ""})
    return send()


@pytest.fixture
def hot(connect: Connect, table: Table) -> Table:
    """The same table, whose first four shards take no views any more."""
    client: Any = connect()
    intercept(client, partial(_throttled_below, 4))
    return Table(table.name, client, sleep=lambda _: None)


def _first(table: Table) -> Item:
    return table.get(VIEW_COUNTER.key(videoId=VIDEO, shard=0), consistent=True) or {}


def _viewing(table: Table, now: int = NOW) -> list[int]:
    """Add views through a new instance, and return its results."""
    counters = ViewCounters(table)
    return [counters.add(VIDEO, ONE, now) for _ in range(VIEWS)]


def _stored_views(table: Table) -> int:
    """Return the sum of all shards, and assert that all ways to read it agree."""
    counters = ViewCounters(table)
    count = counters.read([VIDEO], consistent=True)[VIDEO].views
    assert counters.counts({VIDEO: _first(table)}) == {VIDEO: count}
    return count


def test_many_that_double_at_once_agree_and_lose_nothing(table: Table, hot: Table) -> None:
    counts = run_concurrently(*[partial(_viewing, hot)] * THREADS)

    first = _first(table)
    # Those who were throttled on shards 0 to 3 went on to twice as many, once, and found room there.
    assert (first["shards"], first["spread"]) == (8, 8)
    assert _stored_views(table) == THREADS * VIEWS
    assert all(seen_counts == sorted(seen_counts) and seen_counts[-1] <= THREADS * VIEWS for seen_counts in counts)


def test_writers_and_readers_agree_when_it_is_done(table: Table, hot: Table) -> None:
    calm = [partial(_viewing, table)] * (THREADS // 2)
    run_concurrently(*calm, *[partial(_viewing, hot)] * (THREADS // 2))
    assert _stored_views(table) == THREADS * VIEWS
    assert ViewCounters(table).add(VIDEO, ONE, NOW) == THREADS * VIEWS + 1


@pytest.fixture
def called_back(table: Table, hot: Table) -> int:
    """A counter that was spread, and whose writers have come back to shard 0; returns the time at which it can be folded."""
    _viewing(hot)
    for now in (NOW, NOW + LOOK_SECONDS):
        ViewCounters(table).merge_shards(VIDEO, now)
    assert "calmedAt" in _first(table)
    return NOW + LOOK_SECONDS + FOLD_SECONDS


def test_many_that_fold_at_once_fold_once(table: Table, called_back: int) -> None:
    run_concurrently(*[lambda: ViewCounters(table).merge_shards(VIDEO, called_back)] * THREADS)
    assert _first(table)["folded"] == {"views": VIEWS}
    assert _stored_views(table) == VIEWS


def test_a_storm_and_a_fold_at_once_lose_nothing(table: Table, hot: Table, called_back: int) -> None:
    def folding() -> list[int]:
        for later in range(VIEWS):
            ViewCounters(table).merge_shards(VIDEO, called_back + later)
        return []

    run_concurrently(*[partial(_viewing, hot, called_back)] * (THREADS - 2), folding, folding)
    assert _stored_views(table) == VIEWS + (THREADS - 2) * VIEWS
    assert ("folded" in _first(table)) != ("shards" in _first(table))


CALLS = 4
"""Calls after a throttled view: a read, the doubling, the view on a new shard, and the sum of the other shards."""


class TestBrokenCalls:
    @pytest.fixture
    def line(self, connect: Connect, table: Table, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultLine]:
        """Connection that breaks; the table `far` uses the client at its end."""
        client: Any = connect()
        line = FaultLine(client)
        intercept(client, partial(_throttled_below, 1))
        monkeypatch.setattr("random.randrange", lambda _, stop: stop - 1)
        self.far = Table(table.name, client, sleep=lambda _: None)
        yield line
        line.disarm()

    @pytest.mark.parametrize("at", range(CALLS + 1))
    @pytest.mark.parametrize("incident", [faults.lose_request, faults.lose_response, faults.throttle, faults.fail])
    def test_returned_count_matches_the_stored_count_after_a_fault(
        self, table: Table, line: FaultLine, incident: Incident, at: int
    ) -> None:
        line.arm(incident, at)
        try:
            counted = range(ViewCounters(self.far).add(VIDEO, ONE, NOW), 2)
        except NotApplied:
            counted = range(1)
        except Unavailable:
            counted = range(2)
        assert _stored_views(table) in counted

        line.disarm()
        held = _stored_views(table)
        assert ViewCounters(self.far).add(VIDEO, ONE, NOW) == held + 1
        # Throttled on the new shard too, the view doubled them once more.
        shards = 4 if (incident, at) == (faults.throttle, 2) else 2
        assert _first(table)["shards"] == _first(table)["spread"] == shards
