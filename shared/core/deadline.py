"""How long one request may take: what has not begun in time does not begin, so that its caller gets an answer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

CONNECT_SECONDS, READ_SECONDS = 1, 2
"""The time-outs of a request to AWS: short, because a slow answer is better tried again."""
LONGEST_ATTEMPT = CONNECT_SECONDS + READ_SECONDS

_time_left: ContextVar[Callable[[], float]] = ContextVar("time_left")


@contextmanager
def within(seconds: float, clock: Callable[[], float]) -> Iterator[None]:
    """Limit what is done inside to `seconds` by a monotonic clock; threads need a copy of the context."""
    end = clock() + seconds
    token = _time_left.set(lambda: end - clock())
    try:
        yield
    finally:
        _time_left.reset(token)


def has_time(pause: float = 0) -> bool:
    """Whether another attempt, begun after `pause` seconds, would end in time; always true without a limit."""
    time_left = _time_left.get(None)
    return time_left is None or time_left() >= pause + LONGEST_ATTEMPT
