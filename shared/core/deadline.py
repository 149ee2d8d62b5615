"""Deadline of an HTTP request. Attempts to call AWS that could exceed it are skipped, so that the client waits no longer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

CONNECT_SECONDS, READ_SECONDS = 1, 2
"""Time-outs of a request to AWS, in seconds. They are short, because a retry is usually faster than a slow response."""
LONGEST_ATTEMPT = CONNECT_SECONDS + READ_SECONDS

_time_left: ContextVar[Callable[[], float]] = ContextVar("time_left")


@contextmanager
def limit_time(seconds: float, clock: Callable[[], float]) -> Iterator[None]:
    """Set a deadline of `seconds` from now for the block. Other threads have it only in a copy of the context (contextvars)."""
    end = clock() + seconds
    token = _time_left.set(lambda: end - clock())
    try:
        yield
    finally:
        _time_left.reset(token)


def has_time(pause: float = 0) -> bool:
    """Return whether an attempt that begins after `pause` seconds would end before the deadline. True if there is no deadline."""
    time_left = _time_left.get(None)
    return time_left is None or time_left() >= pause + LONGEST_ATTEMPT
