"""Thread pool for blocking calls. Requests to DynamoDB need no threads, because shared.aws.dynamodb.gather runs them
concurrently."""

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
    """Call `work` with each of `parts`, and return the results in the order of the parts.

    At most `threads` calls run at a time. Each call runs in a copy of the caller's context, which contains the request
    id, the recorder of DynamoDB requests, and the deadline. After each call, the caller's thread calls `advance` with
    the completed fraction, from 0 to 1.

    If a call raises an error, no further call begins. After the running calls have ended, the function raises the first
    error.
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
