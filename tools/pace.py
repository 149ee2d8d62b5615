"""Many writes side by side, no faster than was asked for, and no sooner than the trail allows."""

import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Self, TypeVar

from shared.core.errors import TrailBehind
from tools import ToolError

THREADS = 16

WAITS, WAIT_SECONDS = 60, 2
"""How often a trail that is behind is waited for, and for how long."""

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class Rate:
    """A token bucket: `per_second` items a second on average, and at most those of one second at once."""

    def __init__(
        self,
        per_second: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._per_second = per_second
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._tokens = per_second or 0.0
        self._seen = clock()

    def take(self, items: int) -> None:
        """Wait until `items` more may be written; more than the bucket holds are owed, and waited for afterwards."""
        if self._per_second is None:
            return
        with self._lock:
            now = self._clock()
            self._tokens = min(self._per_second, self._tokens + (now - self._seen) * self._per_second)
            self._seen = now
            self._tokens -= items
            wait = -self._tokens / self._per_second
        if wait > 0:
            self._sleep(wait)


class Pool:
    """Threads that carry out one batch at a time, so that memory holds no more than a batch."""

    def __init__(self, threads: int = THREADS) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="write")

    def map(
        self,
        action: Callable[[_Task], _Result],
        tasks: Iterable[_Task],
        advance: Callable[[float], object] = lambda share: None,
    ) -> list[_Result]:
        """The results in order, once all are done; raises the first error after the others have ended.

        `advance` is called as each task ends, in the thread of the caller, with the share that is done: up to 1.0.
        """
        futures = [self._executor.submit(action, task) for task in tasks]
        try:
            for done, ended in enumerate(as_completed(futures), 1):
                ended.result()
                advance(done / len(futures))
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()
            for future in futures:
                if not future.cancelled():
                    future.exception()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown()


def with_patience(action: Callable[[], _Result], sleep: Callable[[float], None]) -> _Result:
    """What the action returns; while the trail is behind it is tried again, and raises ToolError in the end."""
    for attempt in range(WAITS):
        try:
            return action()
        except TrailBehind:
            if attempt == 0:
                print("The audit trail is some seconds behind: waiting for it.", file=sys.stderr)
            sleep(WAIT_SECONDS)
    raise ToolError(
        f"The audit trail is still behind after {WAITS * WAIT_SECONDS} seconds. Run the same command again later."
    )
