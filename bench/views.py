"""Write cost of a view, by the load on one video. `python -m bench.views` draws docs/views.svg.

The service's own code counts the views of one video in a simulation of DynamoDB's limits (local/testbed/limits.py). The
benchmark then processes the stream records of these views in batches, with tables of moto. It counts write units by the
rules of `make cost`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import count
from typing import NamedTuple

from bench.cost.run import MeasuredService, clients, measured_service
from bench.tables import Chart
from local import ROOT
from local.stream_records import stream_record
from local.testbed.harness import NOW
from local.testbed.limits import Simulation
from local.testbed.meter import Meter
from shared.aws.stream import Record
from shared.background.tallies import Collector, Tallies
from shared.core.attributes import AttributeMap, Item, decode_item, encode_item
from shared.core.caller import Caller
from shared.core.periods import DAY_SECONDS, HOUR_SECONDS
from shared.processing.messages import TallyMessage, parse
from shared.schema import PARTITION_KEY, VIDEO, VIEW_COUNTER, VIEWER
from shared.views.store import View, ViewStore

PICTURE = ROOT / "docs" / "views.svg"
LOADS = {
    "1/day": 1 / DAY_SECONDS,
    "1/hour": 1 / HOUR_SECONDS,
    "1/min": 1 / 60,
    "1/s": 1.0,
    "100/s": 100.0,
    "1,000/s": 1_000.0,
    "5,000/s": 5_000.0,
    "20,000/s": 20_000.0,
}
"""Load on one video in views per second, by label."""
SETTLED, MEASURED = 0.25, 0.1
"""Minimum durations, in seconds, of the two parts of the simulation. In the first part, the counter reaches its final
number of shards. In the second part, the write units are measured.

At a low load, each part lasts for the mean time between two views.
"""
BATCH = 100
"""Maximum number of stream records per batch. A batch has the records of at most one second."""
FILLING, BATCHES = 2, 4
"""Number of batches of stream records before the measurement, and number of measured batches."""
BURST = 0.05
"""Seconds of unused capacity that an item accumulates. With this low value, a counter soon reaches its final number of
shards."""

VIDEO_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
CALLER = Caller("bob", frozenset())


class ViewCost(NamedTuple):
    """Write units of one view, by cause."""

    request: float
    """Write units of the request itself."""
    stream: float
    """Write units of the stream's consumers per view. They include the view's share of the units that store the
    counter's value at the start of each hour and day."""

    @property
    def whole(self) -> float:
        """Total write units."""
        return self.request + self.stream


Change = tuple[AttributeMap | None, AttributeMap | None]
Work = Callable[[ViewStore, int], object]


def anonymous_view() -> Work:
    """Return the function that counts an anonymous view, which has no viewer id and no idempotency key."""
    return lambda store, now: store.counters.add(VIDEO_ID, {"views": 1}, now)


def keyed() -> Work:
    """Return the function that records a view with an idempotency key. A view with a viewer id costs the same."""
    numbers = count()
    return lambda store, now: store.store_marker(View(VIDEO_ID, now, id=f"view {next(numbers)}"), CALLER, now)


KINDS: Mapping[str, Callable[[], Work]] = {"with a viewer or a key": keyed, "plain": anonymous_view}


def spent(kind: str, load: float) -> ViewCost:
    """Return the cost of a view. `kind` is a key of KINDS, and `load` is in views per second. Raises RuntimeError if a
    view fails."""
    work, simulation = KINDS[kind](), Simulation(ViewStore, burst=BURST)
    simulation.run(max(SETTLED, 1 / load), load, work)
    run = simulation.run(max(MEASURED, 1 / load), load, work)
    if run.done != run.calls:
        raise RuntimeError(f"{run.calls - run.done} views failed: {run.failed[:1]}, {run.unknown[:1]}")
    shares = sum(units / max(1.0, load * seconds) for seconds, units in starts().items())
    return ViewCost(run.writes / run.calls, streamed(simulation, load) + shares)


def streamed(simulation: Simulation[ViewStore], load: float) -> float:
    """Return the mean write units that the stream's consumers need for a view that is recorded in a viewer item.

    Returns 0 for anonymous views, because the request itself counts them.
    """
    marked = [
        (old, new)
        for old, new in simulation.items.changes
        if new and VIEWER.partition_prefix in new[PARTITION_KEY]["S"]
    ]
    together = round(min(max(load, 1), BATCH))
    # The first batches are not measured, because the counter's space for deduplication keys is not full yet.
    last = marked[-(FILLING + BATCHES) * together :]
    with measured_service() as service:
        units = [_apply(service, last[at : at + together], load) for at in range(0, len(last), together)]
    return sum(units[-BATCHES:]) / max(1, len(last[-BATCHES * together :]))


@cache
def starts() -> dict[int, int]:
    """Return the write units that store a counter's value at the start of an hour, and the additional units at the
    start of a day. The keys are HOUR_SECONDS and DAY_SECONDS."""
    counter: Item = VIEW_COUNTER.key(videoId=VIDEO_ID, shard=0) | {"views": 1}
    hours = ("2026-11-22T13", "2026-11-22T14", "2026-11-23T00")
    first, same_day, next_day = (encode_item(counter | {"hour": hour}) for hour in hours)
    with measured_service() as service:
        hour = _apply(service, [(first, same_day)], 1)
        both = _apply(service, [(same_day, next_day)], 1)
    return {HOUR_SECONDS: hour, DAY_SECONDS: both - hour}


def _apply(service: MeasuredService, changes: Sequence[Change], load: float) -> int:
    """Process the stream records of these changes as the service does, and return the write units."""
    if service.table.get(VIDEO.key(videoId=VIDEO_ID)) is None:
        service.api().publish(videoId=VIDEO_ID)
    collector = Collector()
    for old, new in changes:
        number = next(_SEQUENCE)
        before, after = (item and decode_item(item) for item in (old, new))
        record = Record(stream_record(before, after, sequence=number, at=NOW + number / load))
        (collector.counter_changed if VIEW_COUNTER.has_sort_key(record.sk) else collector.viewed)(record)
    with Meter(*clients()).measure() as used:
        for message in collector.drain():
            Tallies(service.table).apply([parse(TallyMessage, message)], NOW)
    return used.units.writes


_SEQUENCE = count()


def costs() -> dict[str, list[ViewCost]]:
    """Return the costs of a view by kind of view. Each kind has one cost per load of LOADS."""
    return {kind: [spent(kind, load) for load in LOADS.values()] for kind in KINDS}


def picture(costs_: Mapping[str, Sequence[ViewCost]]) -> str:
    """Return an SVG chart of the write units of a view, by load."""
    return Chart(
        "Write units of a view, with its share of the stream, hours and days",
        list(LOADS),
        "views of one video",
        1,
        [(f"{kind}: {row[-1].whole:.2f}", [spent.whole for spent in row]) for kind, row in costs_.items()],
    ).svg()


def main() -> None:
    """Measure, print the figures, and draw the chart."""
    costs_ = costs()
    for kind, row in costs_.items():
        figures = zip(LOADS, row, strict=True)
        print(f"{kind:24} " + "   ".join(f"{name}: {spent.whole:.3f}" for name, spent in figures))
    PICTURE.write_text(picture(costs_), encoding="utf-8")


if __name__ == "__main__":
    main()
