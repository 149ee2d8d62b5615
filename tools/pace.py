"""Many writes side by side, no faster than was asked for, and no sooner than the trail allows."""

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
"""How often a trail that is behind is waited for, and for how long."""

MOST_BEHIND = 30
"""Seconds by which the audit trail may be behind what a command has written, before the command waits for it."""
SAMPLE_SECONDS = 1
"""How often a write is remembered, to find out whether the trail has it."""
STANDSTILL_SECONDS = 600
"""How long a trail is waited for that follows none of them."""

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
"""Items that have entries in the trail, by the beginning of their partition key, and what their entries call them."""

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


@dataclass(frozen=True)
class Sample:
    """A write that the trail has to follow: of what, and when it was made."""

    partition: str
    entity: str
    version: int
    at: float


class TrailPace:
    """Waits while the audit trail is more than MOST_BEHIND seconds behind what a command writes as one change set.

    The command must not write faster than the trail follows: the stream forgets its records after 24 hours.
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
        self._samples: deque[Sample] = deque()
        self._sampled: float | None = None
        self._has_told = False

    def wrote(self, write: Write) -> None:
        """Remember a write, one in each second; any thread may call it."""
        now = self._clock()
        if self._sampled is not None and now - self._sampled < SAMPLE_SECONDS:
            return
        item = _written(write)
        entity = _entity_of(item)
        if entity and item.get(UPDATED_FOR) == self._id:
            with self._lock:
                self._samples.append(Sample(item[PARTITION_KEY], entity, item.get("version", 0), now))
                self._sampled = now

    def wait(self) -> None:
        """Wait until the trail is close enough; raises ToolError when it follows nothing for STANDSTILL_SECONDS."""
        left, since = len(self._samples), self._clock()
        while (behind := self._behind()) > MOST_BEHIND:
            if len(self._samples) < left:
                left, since = len(self._samples), self._clock()
            if self._clock() - since > STANDSTILL_SECONDS:
                raise ToolError(
                    f"The audit trail is {behind / 60:.0f} minutes behind what was written, and does not follow: see "
                    "docs/runbooks/stream-lag.md. Run the same command again to continue."
                )
            if not self._has_told:
                self._has_told = True
                print(
                    f"The audit trail is more than {MOST_BEHIND} seconds behind: from now on writing as fast as it follows.",
                    file=sys.stderr,
                )
            self._sleep(WAIT_SECONDS)

    def _behind(self) -> float:
        """Seconds since the oldest write that the trail has not followed; of one that is new enough it is not asked."""
        while self._samples:
            oldest = self._samples[0]
            age = self._clock() - oldest.at
            if age <= MOST_BEHIND or not self._trail.follows(oldest.partition, oldest.entity, self._id, oldest.version):
                return age
            with self._lock:
                self._samples.popleft()
        return 0.0


class PacedTable(Table):
    """A table whose writes are remembered by a TrailPace."""

    def __init__(self, pace: TrailPace, name: str, client: Any, **options: Any) -> None:
        super().__init__(name, client, **options)
        self._pace = pace

    def write(self, write: Write, *, returning: str = "NONE", elsewhere: bool = False) -> Item:
        """Write as every table does."""
        answer = super().write(write, returning=returning, elsewhere=elsewhere)
        self._pace.wrote(write)
        return answer

    def transact(self, writes: Sequence[Write]) -> None:
        """Write as every table does."""
        super().transact(writes)
        for write in writes:
            self._pace.wrote(write)


def _written(write: Write) -> Item:
    """The attributes that a put or an update gives values, and the key; of anything else nothing."""
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
    """What the trail calls an item, by its key; None if it does not follow it."""
    for prefix, entities in ENTITIES.items():
        if item.get(PARTITION_KEY, "").startswith(prefix):
            for entity, name in entities.items():
                if entity.has_sort_key(item[SORT_KEY]):
                    return name
    return None


class Pool:
    """Threads that carry out one batch at a time, so that memory holds no more than a batch."""

    def __init__(self, threads: int = THREADS, before: Callable[[], object] = lambda: None) -> None:
        """`before` is called in the caller's thread before each batch."""
        self._threads = threads
        self._before = before

    def map(
        self,
        action: Callable[[_Task], _Result],
        tasks: Iterable[_Task],
        advance: Callable[[float], object] = lambda share: None,
    ) -> list[_Result]:
        """Return what `map_threads` does."""
        self._before()
        return map_threads(action, tasks, self._threads, advance)


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
