"""Deadline of an HTTP request or of a run. The AWS clients skip an attempt that could end after the deadline."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

CONNECT_SECONDS, READ_SECONDS = 1, 2
"""Time-outs of a request to AWS, in seconds. They are short, because a retry is usually faster than a slow response."""
LONGEST_ATTEMPT = CONNECT_SECONDS + READ_SECONDS
"""Maximum seconds of one attempt: the sum of CONNECT_SECONDS and READ_SECONDS."""

_time_left: ContextVar[Callable[[], float]] = ContextVar("time_left")


@contextmanager
def limit_time(seconds: float, clock: Callable[[], float]) -> Iterator[None]:
    """Set a deadline for the block, `seconds` from now. `clock` is a monotonic clock in seconds.

    The deadline applies to another thread only if the thread runs in a copy of the context (contextvars).
    """
    end = clock() + seconds
    token = _time_left.set(lambda: end - clock())
    try:
        yield
    finally:
        _time_left.reset(token)


def has_time(pause: float = 0, longest: float = LONGEST_ATTEMPT) -> bool:
    """Return whether an attempt that begins after `pause` seconds would end before the deadline. `longest` is the
    maximum duration of the attempt in seconds.

    Returns `True` if no deadline is set.
    """
    time_left = _time_left.get(None)
    return time_left is None or time_left() >= pause + longest
