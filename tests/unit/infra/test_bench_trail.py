"""Rate at which the audit function stores changes in the trail and in the feed, per shard and in virtual time. Imports
need this rate."""

import logging
from collections.abc import Iterator

import pytest

from bench import trail
from bench.trail import BATCH, DEPLOYED, SEQUENTIAL, SHARDS, SIMULATED_PROCESSOR, Shards, appended
from tests.unit.infra.templates import Templates

RATE = 450
"""Minimum number of changes per second and shard, counted from the first batch. docs/limits.md has the higher rate after
some batches."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Suppress log lines, because writing thousands of entries takes as long as the rest of the tests."""
    logging.disable(logging.INFO)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("owners", [1, 50])
def test_stream_shard_is_read_at_the_rate_that_imports_need(owners: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail, "BATCHES", 2)
    shards = Shards(DEPLOYED, owners=owners, processor=SIMULATED_PROCESSOR)
    assert shards.read() > RATE
    # Each change has one dense position, although the readers of all shards append to the same logs.
    assert shards.count_logged_changes() == 2 * SHARDS * BATCH


def test_sequential_processing_would_be_several_times_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail, "BATCHES", 1)
    shards = Shards(SEQUENTIAL, owners=50)
    assert 5 * shards.read() < RATE
    assert shards.count_logged_changes() == SHARDS * SEQUENTIAL.batch


def test_many_shards_with_single_changes_append_fewer_changes_than_full_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trail, "BATCHES", 2)
    assert 40 < appended(40, 1, SIMULATED_PROCESSOR) < RATE


def test_benchmark_reads_the_stream_with_the_settings_of_the_deployed_function(defaults: Templates) -> None:
    (mapping,) = (
        mapping["Properties"]
        for name, mapping in defaults.all("AWS::Lambda::EventSourceMapping").items()
        if name.startswith("Audit")
    )
    assert mapping["BatchSize"] == BATCH
    assert defaults.function("audit")[1]["MemorySize"] == trail.MEMORY_MB
