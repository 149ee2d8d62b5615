"""Local index of a search function: a copy of the newest generation, which the function updates from the feed before a
query.

The first query triggers the copy. An instance that is far behind the feed copies a newer generation instead of
consuming the feed.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from shared.aws.s3 import ObjectMissing
from shared.core.deadline import limit_time
from shared.core.errors import Gone, Unavailable
from shared.core.telemetry import service_logger
from shared.feed.log import Feed, LogCursor
from shared.queries import INDEX_WAIT
from shared.search.engine import IncompatibleIndex, index_unavailable
from shared.search.generations import FOLDERS, DamagedFile, Generations, LocalCopy
from shared.search.loader import DocumentLoader
from shared.temporary import own_folder

if TYPE_CHECKING:
    from shared.search.consumer import FeedConsumer
    from shared.search.engine import SearchEngine

LOOK_EVERY = 0.3
"""Minimum seconds between two polls of the feed. Queries in between use the index without a poll."""
LONGEST_CATCH_UP = 1.0
"""Maximum seconds that a query spends on consuming the feed. After this time, the query uses the index in its current
state, or a newer generation."""
LONGEST_FIRST_CATCH_UP = 10.0
"""Maximum seconds that a query spends on consuming the feed if the instance is new or was idle for IDLE_SECONDS. Such
an instance has about a minute of changes to consume, or more if no builder runs."""
MAX_BEHIND = 10
"""Maximum lag in seconds at which an instance that is new or was idle serves queries. At a larger lag, the instance
refuses queries.
"""
IDLE_SECONDS = 60
"""Seconds without a query after which an instance counts as idle."""
LONGEST_REFUSAL = 60
"""Maximum seconds during which an instance refuses queries because its lag exceeds MAX_BEHIND.

After this time, it serves queries from the stale index, and the responses say so. The reason is that an instance may
never catch up, for example during an import.
"""
PREPARING_SECONDS = 24
"""Maximum seconds for copying a generation and consuming the feed. The limit exceeds the usual time limit of a request,
because a retry would take as long as the first request."""


class CurrentIndex(NamedTuple):
    """Engine of an index, and the time up to which the index is current."""

    engine: "SearchEngine"
    as_of: int
    """Time in epoch milliseconds. The index includes all changes before this time."""
    is_complete: bool
    """Whether the index contained the whole feed at the last poll, at most LOOK_EVERY seconds ago. An OpenSearch index
    also counts as complete if it lags by at most COMPLETE_SECONDS."""


class LocalIndex:
    """Instance-local copy of the search index, created at first use.

    Methods raise Unavailable if the index is missing or damaged, or if the copy lags too far behind the feed.
    """

    def __init__(
        self,
        generations: Generations,
        feed: Feed,
        loader: DocumentLoader,
        *,
        folder: Callable[[], Path] = lambda: own_folder(FOLDERS),
        clock: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Create the object. The first query copies the index to an empty folder, which `folder` creates and returns.

        `clock` returns epoch seconds, and `elapsed` returns monotonic seconds.
        """
        self._generations, self._feed, self._loader = generations, feed, loader
        self._folder, self._clock, self._elapsed, self._sleep = folder, clock, elapsed, sleep
        self._copy: LocalCopy | None = None
        self._consumer: FeedConsumer | None = None
        self._looked_at: float | None = None
        self._answered_at: float | None = None
        """Time of the last served query, in epoch seconds."""
        self._refused_from: float | None = None
        self._refused_at: float | None = None
        """Time of the last refusal, in epoch seconds; `None` if a query was served since. `_refused_from` is the time
        of the first refusal of the same period (see `_may_refuse`)."""

    def current(self, cursors: Mapping[str, LogCursor] | None = None) -> "CurrentIndex":
        """Consume the feed to its end or until a time limit (LONGEST_CATCH_UP, LONGEST_FIRST_CATCH_UP). Return the
        engine, and how current the index is.

        Waits until the index includes all changes before `cursors`, which has a position in each shard log. Raises
        Unavailable after INDEX_WAIT seconds.
        """
        with limit_time(PREPARING_SECONDS, self._elapsed):
            try:
                self._consume(cursors or {})
            except Gone:
                # The feed no longer retains the next change. A newer generation includes it.
                self._reset()
                try:
                    self._consume(cursors or {})
                except Gone as error:
                    self._reset()
                    raise index_unavailable() from error
            consumer = self._get_consumer()
        self._answered_at, self._refused_at = self._clock(), None
        return CurrentIndex(consumer.engine, consumer.checkpoint.as_of, consumer.is_caught_up)

    def _consume(self, cursors: Mapping[str, LogCursor]) -> None:
        consumer, began = self._get_consumer(), self._elapsed()
        is_new = self._answered_at is None or self._clock() - self._answered_at > IDLE_SECONDS
        if is_new or self._looked_at is None or began - self._looked_at >= LOOK_EVERY:
            longest = LONGEST_FIRST_CATCH_UP if is_new else LONGEST_CATCH_UP
            if not consumer.catch_up(lambda: self._elapsed() - began < longest):
                consumer = self._skip_ahead(consumer)
                if is_new and self._clock() - consumer.reached / 1000 > MAX_BEHIND and self._may_refuse():
                    raise Unavailable("The search index is catching up with the changes.", retry_after=2)
            self._looked_at = began
        if not consumer.wait_for(cursors, lambda: self._elapsed() - began < INDEX_WAIT):
            raise Unavailable("The search index does not have these changes yet.", retry_after=2)

    def _may_refuse(self) -> bool:
        """Return whether the instance may refuse this query because its index lags behind the feed. Each call counts as
        a refusal.

        The instance may refuse queries for LONGEST_REFUSAL seconds from its first refusal. The period restarts after a
        served query, or after IDLE_SECONDS without a refusal.
        """
        now = self._clock()
        if self._refused_from is None or self._refused_at is None or now - self._refused_at > IDLE_SECONDS:
            self._refused_from = now
        self._refused_at = now
        return now - self._refused_from < LONGEST_REFUSAL

    def _skip_ahead(self, consumer: "FeedConsumer") -> "FeedConsumer":
        """Return a consumer for the published generation if that generation is newer than the index, else the given
        consumer."""
        pointer = self._generations.pointer()
        if pointer.readable is None or not consumer.is_behind(pointer.places):
            return consumer
        caught_up_to = consumer.checkpoint.as_of
        self._reset()
        consumer = self._get_consumer()
        # The new generation includes all changes of the old index. Its own `as_of` may still be earlier, if its builder
        # read the end of the feed before this instance did.
        consumer.checkpoint = replace(consumer.checkpoint, as_of=max(caught_up_to, consumer.checkpoint.as_of))
        consumer.reached = max(consumer.reached, consumer.checkpoint.as_of)
        return consumer

    def _get_consumer(self) -> "FeedConsumer":
        if self._consumer is None:
            # Imported here, so that only search requests spend time on these imports.
            from shared.search.consumer import FeedConsumer
            from shared.search.tantivy_engine import TantivyEngine

            began = self._elapsed()
            copy = self._copy = self._copy or LocalCopy(self._folder())
            try:
                pointer = self._generations.copy_newest(copy)
                if pointer.readable is None:
                    raise index_unavailable()
                engine = TantivyEngine(copy.folder)
            except (DamagedFile, ObjectMissing, IncompatibleIndex) as error:
                copy.is_of(None)
                raise index_unavailable() from error
            service_logger().info(
                "index copied",
                extra={"generation": pointer.generation, "videos": engine.size, "seconds": self._elapsed() - began},
            )
            self._consumer = FeedConsumer(engine, self._feed, self._loader, clock=self._clock, sleep=self._sleep)
            self._looked_at = None
        return self._consumer

    def _reset(self) -> None:
        """Close the engine. The next query copies the newest generation, and reuses files that have not changed."""
        if self._consumer and self._copy:
            self._consumer.engine.close()
            self._copy.is_of(None)
        self._consumer = None
