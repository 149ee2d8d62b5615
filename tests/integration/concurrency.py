"""Concurrent calls: each runs in a separate thread, and all start at the same moment."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import TypeVar

from local.testbed.harness import Api, Reply
from tests.polling import LIMIT

Request = Callable[[Api], Reply]
Instance = Callable[[], Api]
"""Function that returns an instance of the service."""

_Result = TypeVar("_Result")


def run_concurrently(*jobs: Callable[[], _Result]) -> list[_Result]:
    """Run the jobs concurrently, and return their results in order."""
    start = Barrier(len(jobs))

    def run(job: Callable[[], _Result]) -> _Result:
        start.wait(LIMIT)
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(run, jobs))


def at_once(instance: Instance, requests: Sequence[Request]) -> list[Reply]:
    """Send requests concurrently, each to a separate instance, as Lambda does, and return the responses."""
    return run_concurrently(*(partial(request, instance()) for request in requests))
