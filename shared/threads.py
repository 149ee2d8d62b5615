"""Bounded thread pool for blocking calls. Requests of the lean DynamoDB client use shared.aws.dynamodb.gather instead."""

from collections.abc import Callable, Iterable
from contextvars import copy_context
from typing import TypeVar

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")


def map_threads(
    work: Callable[[_Part], _Result],
    parts: Iterable[_Part],
    threads: int,
    advance: Callable[[float], object] = lambda fraction: None,
) -> list[_Result]:
    """Return the result of `work` for each part, in their order; at most `threads` calls run concurrently.

    Each call runs in a copy of the caller's context, so log lines name the request, and receipts and deadlines apply.
    After an error no further call begins; it is raised when the running ones have ended. `advance` is called in the
    caller's thread after each call, with the completed share: up to 1.0.
    """
    from concurrent.futures import ThreadPoolExecutor, as_completed  # loading them takes as long as a small response

    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(copy_context().run, work, part) for part in parts]
        try:
            for number, future in enumerate(as_completed(futures), 1):
                future.result()
                advance(number / len(futures))
        finally:
            for future in futures:
                future.cancel()
    return [future.result() for future in futures]
