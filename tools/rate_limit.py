"""Limits for the writes of a command: a rate, a number of threads, and the lag of the audit trail."""

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from shared.aws.dynamodb import Table, Write
from shared.core.attributes import Item, decode
from shared.core.caller import UPDATED_FOR
from shared.core.errors import TrailBehind
from shared.history.trail import AuditStore
from shared.schema import (
    CAPTION,
    CHAPTERS,
    CREDIT,
    PARTITION_KEY,
    PLAYLIST,
    RATING_TOTALS,
    RELEASE,
    SORT_KEY,
    VIDEO,
    Entity,
)
from shared.threads import map_threads
from tools import ToolError

THREADS = 16

WAITS, WAIT_SECONDS = 60, 2
"""Maximum attempts of an action that fails because the audit trail lags, and seconds between two attempts."""

MAX_BEHIND = 30
"""Maximum lag of the audit trail in seconds. If the lag is longer, the command waits."""
SAMPLE_SECONDS = 1
"""Minimum seconds between two sampled writes. The limiter looks up samples in the trail to measure the lag."""
STANDSTILL_SECONDS = 600
"""Seconds without progress of the audit trail after which a waiting command fails."""

ENTITIES: Mapping[str, Mapping[Entity, str]] = {
    VIDEO.partition_prefix: {
        VIDEO: "video",
        CREDIT: "credit",
        RELEASE: "release",
        CAPTION: "captions",
        CHAPTERS: "chapters",
        RATING_TOTALS: "rating",
    },
    PLAYLIST.partition_prefix: {PLAYLIST: "playlist"},
}
"""Entities that the trail records, by prefix of their partition key. Each entity is mapped to its name in audit
entries."""

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class RateLimiter:
    """A token bucket that allows `per_second` items a second on average; `None` for no limit.

    The bucket holds at most the tokens of one second.
    """

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
        """Take one token per item, and sleep if the bucket had too few. `items` may exceed the capacity."""
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


@dataclass(frozen=True)
class LagSample:
    """A write that the audit trail records. The limiter checks whether the trail already has the entry of this write.

    `at` is the time of the write, by the limiter's clock.
    """

    partition: str
    entity: str
    version: int
    at: float


class TrailLagLimiter:
    """Limiter that waits while the audit trail is more than MAX_BEHIND seconds behind the writes of a change set.

    The table's stream drops records after 24 hours. Without the limiter, a long command could write so fast that
    records are dropped before the trail has their audit entries.
    """

    def __init__(
        self,
        trail: AuditStore,
        changeset_id: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._trail = trail
        self._id = changeset_id
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._samples: deque[LagSample] = deque()
        self._sampled: float | None = None
        self._has_told = False

    def wrote(self, write: Write) -> None:
        """Add a write to the samples if it belongs to the change set. Adds at most one write per SAMPLE_SECONDS.
        Thread-safe."""
        now = self._clock()
        if self._sampled is not None and now - self._sampled < SAMPLE_SECONDS:
            return
        item = _written(write)
        entity = _entity_of(item)
        if entity and item.get(UPDATED_FOR) == self._id:
            with self._lock:
                self._samples.append(LagSample(item[PARTITION_KEY], entity, item.get("version", 0), now))
                self._sampled = now

    def wait(self) -> None:
        """Wait until the trail lags by at most MAX_BEHIND seconds. Raises ToolError after STANDSTILL_SECONDS without
        progress.
        """
        left, since = len(self._samples), self._clock()
        while (behind := self._behind()) > MAX_BEHIND:
            if len(self._samples) < left:
                left, since = len(self._samples), self._clock()
            if self._clock() - since > STANDSTILL_SECONDS:
                raise ToolError(
                    f"The audit trail is {behind / 60:.0f} minutes behind the writes, and makes no progress. See "
                    "docs/runbooks/stream-lag.md, then run the same command again to continue."
                )
            if not self._has_told:
                self._has_told = True
                print(
                    f"The audit trail is more than {MAX_BEHIND} seconds behind. From now on, writes wait for it.",
                    file=sys.stderr,
                )
            self._sleep(WAIT_SECONDS)

    def _behind(self) -> float:
        """Return the age in seconds of the oldest sample whose entry is not in the trail; 0 if there is none.

        The entries of samples younger than MAX_BEHIND seconds are not looked up. They are assumed to be missing.
        """
        while self._samples:
            oldest = self._samples[0]
            age = self._clock() - oldest.at
            if age <= MAX_BEHIND or not self._trail.follows(oldest.partition, oldest.entity, self._id, oldest.version):
                return age
            with self._lock:
                self._samples.popleft()
        return 0.0


class PacedTable(Table):
    """A table that reports its writes to a TrailLagLimiter."""

    def __init__(self, pace: TrailLagLimiter, name: str, client: Any, **options: Any) -> None:
        super().__init__(name, client, **options)
        self._pace = pace

    def write(self, write: Write, *, returning: str = "NONE", elsewhere: bool = False) -> Item:
        """Write to the table, then report the write to the limiter."""
        answer = super().write(write, returning=returning, elsewhere=elsewhere)
        self._pace.wrote(write)
        return answer

    def transact(self, writes: Sequence[Write]) -> None:
        """Write to the table, then report the writes to the limiter."""
        super().transact(writes)
        for write in writes:
            self._pace.wrote(write)


def _written(write: Write) -> Item:
    """Return the key and the attributes in `_NOTED` that a put or update writes. Empty for other kinds of writes."""
    parameters = write.parameters
    if write.kind == "Put":
        return {name: decode(parameters["Item"][name]) for name in _NOTED if name in parameters["Item"]}
    if write.kind != "Update":
        return {}
    values = parameters.get("ExpressionAttributeValues", {})
    set_ = {
        name: decode(values[f":{placeholder[1:]}"])
        for placeholder, name in parameters.get("ExpressionAttributeNames", {}).items()
        if name in _NOTED and f":{placeholder[1:]}" in values
    }
    return set_ | {name: decode(value) for name, value in parameters["Key"].items()}


_NOTED = (PARTITION_KEY, SORT_KEY, UPDATED_FOR, "version")


def _entity_of(item: Item) -> str | None:
    """Return the name of an item's entity in audit entries; `None` if the trail does not record the entity."""
    for prefix, entities in ENTITIES.items():
        if item.get(PARTITION_KEY, "").startswith(prefix):
            for entity, name in entities.items():
                if entity.has_sort_key(item[SORT_KEY]):
                    return name
    return None


class Pool:
    """Thread pool that processes one batch after the other. Memory use is therefore limited to one batch."""

    def __init__(self, threads: int = THREADS, before: Callable[[], object] = lambda: None) -> None:
        """Create the pool. The pool calls `before` in the caller's thread before each batch."""
        self._threads = threads
        self._before = before

    def map(
        self,
        action: Callable[[_Task], _Result],
        tasks: Iterable[_Task],
        advance: Callable[[float], object] = lambda share: None,
    ) -> list[_Result]:
        """Apply the action to all tasks concurrently, and return the results in the order of the tasks.

        `advance` receives the completed fraction of the tasks, up to 1.0.
        """
        self._before()
        return map_threads(action, tasks, self._threads, advance)


def retry_while_behind(action: Callable[[], _Result], sleep: Callable[[float], None]) -> _Result:
    """Return the result of `action`. Repeats `action` while it raises TrailBehind. Raises ToolError after the last
    attempt."""
    for attempt in range(WAITS):
        try:
            return action()
        except TrailBehind:
            if attempt == 0:
                print("The audit trail is some seconds behind. Waiting for it.", file=sys.stderr)
            sleep(WAIT_SECONDS)
    raise ToolError(
        f"The audit trail is still behind after {WAITS * WAIT_SECONDS} seconds. Run the same command again later."
    )
