"""Comparison of execution times. A run interleaves all variants, so the load of the machine affects them equally."""

import statistics
import time
from collections.abc import Callable, Mapping

ROUNDS = 60


def compare(
    title: str,
    variants: Mapping[str, Callable[[], object]],
    *,
    calls: int,
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """Print the median seconds per call of each variant, and the ratio to the first variant.

    Each of `rounds` rounds calls each variant `calls` times. `clock` returns seconds.
    """
    times: dict[str, list[float]] = {name: [] for name in variants}
    for variant in variants.values():
        variant()
    for _ in range(rounds):
        for name, variant in variants.items():
            started = clock()
            for _ in range(calls):
                variant()
            times[name].append((clock() - started) / calls)
    medians = {name: statistics.median(measured) for name, measured in times.items()}
    first = next(iter(medians.values()))
    print(f"{title}")
    for name, median in medians.items():
        print(f"  {name:42} {median * 1e6:9.1f} µs   x{median / first:.2f}")
