"""Index builder. One run updates the newest generation from the feed, or rebuilds it, and publishes the result.

A rebuild is necessary in these cases:

- no generation has been published yet,
- the feed no longer retains the changes after the generation's checkpoint,
- the index format has changed,
- the caller requests it.

A rebuild never scans the table. It reads the lists of videos in RelationIndex: the public list, and a list for each
status. Then it consumes the feed from shortly before the start of the rebuild, to include concurrent changes. It stores
its progress as a draft, so that a later run on any machine can resume.
"""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.aws.leases import LeaseLost
from shared.aws.s3 import ObjectMissing
from shared.core.attributes import Item, decode_item
from shared.core.errors import Gone, Unavailable
from shared.core.telemetry import log_failure, service_logger
from shared.feed.log import Feed, shard_logs
from shared.schema import FEED, RELATION_INDEX, SHARDS, status_relation
from shared.search.consumer import FeedConsumer
from shared.search.engine import IncompatibleIndex, IndexCheckpoint, IndexWriter
from shared.search.generations import DamagedFile, GenerationPointer, Heartbeat, PointerStore
from shared.search.loader import DocumentLoader
from shared.videos.video import STATUSES

PAGE = 100
"""Maximum number of videos per Query of a rebuild."""
SAVED_EVERY = 10_000
"""Number of videos after which a rebuild saves its progress."""
FOLLOW_PAUSE = 1.0
"""Seconds between two reads of the feed by a run that continues to publish changes (`IndexStore.follows`)."""
SECONDS_BEFORE = 300
"""Number of seconds before the start of a rebuild from which the rebuild consumes the feed. RelationIndex, which lists
the videos, is eventually consistent, so it may still lack the changes of these seconds."""
PUBLISHED_EVERY = 3600
"""Seconds after which the builder publishes a generation even if no video changed. A search function that copies the
generation then has fewer feed entries to consume."""
SOURCES = tuple(
    (relation, shard)
    for relation in (FEED, *(status_relation(status) for status in STATUSES if status != "deleted"))
    for shard in range(SHARDS)
)
"""Relation and shard of each RelationIndex partition that lists searchable videos."""

UNUSABLE_ERRORS = (Gone, IncompatibleIndex, ObjectMissing, DamagedFile)
"""Errors that show that a generation or a saved rebuild is unusable. The builder then rebuilds from scratch."""

Outcome = Literal["busy", "unchanged", "published", "unfinished"]
"""Outcome of a run. `busy` means that another builder holds the lease. `unfinished` means that the next run resumes the
rebuild."""


@dataclass(frozen=True)
class BuildResult:
    """Result of one run of the builder."""

    outcome: Outcome
    behind: float = 0
    """Seconds by which the published generation lags behind the feed. 0 if the outcome is `busy`."""
    put: int = 0
    """Number of videos that this run indexed or removed from the index."""
    removed: int = 0
    """Number of unreferenced objects or indexes that this run deleted."""
    index: GenerationPointer = field(default_factory=GenerationPointer)
    """Published index after the run. Empty if the outcome is `busy`."""


class BuildPosition(NamedTuple):
    """Progress of a rebuild: the index of the current partition in SOURCES, and the position within this partition."""

    source: int = 0
    after: Item | None = None
    begun: int = 0
    """Start of the rebuild, in epoch seconds."""

    @classmethod
    def of(cls, item: Item) -> "BuildPosition":
        """Parse the stored progress of a rebuild."""
        return cls(item["source"], item.get("after"), item["begun"])

    @property
    def item(self) -> Item:
        """Attributes that store the progress of the rebuild."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def read_video_ids(table: Table, at: BuildPosition) -> tuple[list[str], BuildPosition]:
    """Return the ids on the next page of videos to index, and the progress after this page. Costs one Query."""
    relation, shard = SOURCES[at.source]
    names = [attribute.name for attribute in (*RELATION_INDEX.partition, RELATION_INDEX.sort[0])]
    page = table.query(
        index=RELATION_INDEX.name,
        condition=Expression(
            "#rel = :rel AND #shard = :shard AND #sort >= :first",
            dict(zip(("#rel", "#shard", "#sort"), names, strict=True)),
            {":rel": relation, ":shard": shard, ":first": 0},
        ),
        attributes=("relId",),
        limit=PAGE,
        start=at.after,
    )
    after = decode_item(page.last_key) if page.last_key else None
    # After the last page of a partition, continue with the first page of the next partition.
    return [entry["relId"] for entry in page.items], BuildPosition(
        at.source if after else at.source + 1, after, at.begun
    )


class IndexStore(Protocol):
    """Indexes of one engine, as the builder opens and publishes them. Methods raise LeaseLost and Unavailable."""

    @property
    def pointers(self) -> PointerStore:
        """Store of the pointer item, which holds the builder's lease."""

    follows: bool
    """Whether readers see each commit at once. If so, a run continues to consume changes while it has time."""
    slice_size: int
    """Number of changes per commit."""

    def open(self, held: GenerationPointer, generation: str | None) -> IndexWriter:
        """Open a generation or an unfinished rebuild for changes. `None` creates an empty index.

        Raises one of UNUSABLE_ERRORS if the generation or rebuild is missing or damaged.
        """

    def publish(self, held: GenerationPointer, checkpoint: IndexCheckpoint) -> GenerationPointer:
        """Make the open index the published one. The caller must have committed all changes up to `checkpoint`."""

    def save_draft(self, held: GenerationPointer, checkpoint: IndexCheckpoint, at: Item) -> GenerationPointer:
        """Store the progress of a rebuild, so that another builder can resume it."""

    def tidy(self, held: GenerationPointer) -> tuple[GenerationPointer, int]:
        """Delete indexes and files that are no longer used. Does nothing if the last deletion was less than an hour ago.
        Returns the pointer item as it is then stored, and the number of deletions."""


class IndexBuilder:
    """Builder of the search index of any engine."""

    def __init__(
        self,
        store: IndexStore,
        table: Table,
        feed: Feed,
        loader: DocumentLoader,
        *,
        clock: Callable[[], float] = time.time,
        report_progress: Callable[[int], None] = lambda _: None,
        heartbeat: Callable[[Callable[[], None]], AbstractContextManager[object]] = Heartbeat,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`report_progress` receives the number of videos that a rebuild has indexed in this run.

        `heartbeat` receives the function that renews the lease, and returns a context manager that calls it regularly.
        """
        self._store, self._pointers, self._table, self._feed, self._loader = store, store.pointers, table, feed, loader
        self._clock, self._report_progress, self._heartbeat, self._sleep = clock, report_progress, heartbeat, sleep

    def run(
        self,
        in_time: Callable[[], bool] = lambda: True,
        *,
        from_scratch: bool = False,
        may_follow: Callable[[], bool] = lambda: False,
    ) -> BuildResult:
        """Build until `in_time` returns false. Publish the generation if it is finished. `from_scratch` forces a
        rebuild.

        If `follows` of the store is true, the run then continues to publish changes while `may_follow` returns true.

        Raises Unavailable, and LeaseLost if another builder has acquired the lease. After an error, the next run
        resumes.
        """
        held = self._pointers.lease()
        if held is None:
            return BuildResult("busy")
        is_lost = threading.Event()

        def renew() -> None:
            try:
                self._pointers.renew(held)
            except LeaseLost:
                is_lost.set()
            except Unavailable as error:  # a later heartbeat can still renew the lease
                log_failure("lease not renewed", error)

        def may_continue() -> bool:
            if is_lost.is_set():
                raise LeaseLost
            return in_time()

        try:
            with self._heartbeat(renew):
                return self._run(held, may_continue, from_scratch, may_follow)
        finally:
            self._pointers.release(held)

    def _run(
        self,
        held: GenerationPointer,
        in_time: Callable[[], bool],
        from_scratch: bool,
        may_follow: Callable[[], bool],
    ) -> BuildResult:
        if not from_scratch and not held.rebuild_at and held.draft is None and held.readable is not None:
            try:
                return self._update(held, in_time, may_follow)
            except UNUSABLE_ERRORS as error:
                # The published generation stays in use until the rebuild is published.
                _warn(held.readable, error)
        if held.draft is not None:
            try:
                return self._rebuild(held, in_time)
            except UNUSABLE_ERRORS as error:
                _warn(held.draft.generation, error)
                held = self._pointers.drop_draft(held)
        return self._rebuild(held, in_time)

    def _update(
        self, held: GenerationPointer, in_time: Callable[[], bool], may_follow: Callable[[], bool]
    ) -> BuildResult:
        """Update the published generation from the feed. Publish the result if videos changed, or after PUBLISHED_EVERY
        seconds."""
        engine = self._store.open(held, held.readable)
        try:
            consumer = self._consumer(engine)
            result = self._published_changes(held, engine, consumer, in_time)
            while self._store.follows and may_follow():
                self._sleep(FOLLOW_PAUSE)
                newer = self._published_changes(result.index, engine, consumer, in_time)
                outcome: Outcome = "published" if "published" in (result.outcome, newer.outcome) else "unchanged"
                result = replace(newer, outcome=outcome, removed=result.removed + newer.removed)
            return result
        finally:
            engine.close()

    def _published_changes(
        self, held: GenerationPointer, engine: IndexWriter, consumer: FeedConsumer, in_time: Callable[[], bool]
    ) -> BuildResult:
        consumer.catch_up(in_time)
        # Also true if only an earlier run consumed changes, and did not publish them.
        moved = dict(consumer.checkpoint.places) != dict(held.places)
        is_old = int(self._clock()) - held.published_at >= PUBLISHED_EVERY
        has_changes = consumer.put or self._is_ahead(engine, held) or self._store.follows
        if moved and (has_changes or is_old):
            return self._published(held, engine, consumer)
        return BuildResult("unchanged", self._lag(consumer), consumer.put, index=held)

    def _is_ahead(self, engine: IndexWriter, held: GenerationPointer) -> bool:
        return engine.checkpoint is not None and dict(engine.checkpoint.places) != dict(held.places)

    def _rebuild(self, held: GenerationPointer, in_time: Callable[[], bool]) -> BuildResult:
        """Index every video, then consume the changes since the start of the rebuild.

        Resumes an unfinished rebuild if its progress is stored.
        """
        draft = held.draft
        at = BuildPosition.of(draft.at) if draft else BuildPosition(begun=int(self._clock()))
        engine = self._store.open(held, draft.generation if draft else None)
        try:
            if draft is None:
                before = (at.begun - SECONDS_BEFORE) * 1000
                engine.commit(IndexCheckpoint({log: self._feed.at_time(log, before) for log in shard_logs()}, 0))
                if self._store.follows:  # the cluster already has the index, so a run after an error must resume it
                    held = self._save(held, engine, at)
            indexed = saved = 0
            while at.source < len(SOURCES):
                if not in_time():
                    self._save(held, engine, at)
                    return BuildResult("unfinished", self._unfinished(held, at), indexed, index=held)
                if indexed - saved >= SAVED_EVERY:
                    held, saved = self._save(held, engine, at), indexed
                ids, at = read_video_ids(self._table, at)
                for _, document in self._loader.read(ids):
                    if document:
                        engine.put([document])
                        indexed += 1
                self._report_progress(indexed)
            consumer = self._committed(engine)
            if not consumer.catch_up(in_time):
                self._save(held, engine, at)
                return BuildResult("unfinished", self._unfinished(held, at), indexed, index=held)
            return replace(self._published(held, engine, consumer), put=indexed + consumer.put)
        finally:
            engine.close()

    def _save(self, held: GenerationPointer, engine: IndexWriter, at: BuildPosition) -> GenerationPointer:
        consumer = self._committed(engine)
        return self._store.save_draft(held, consumer.checkpoint, at.item)

    def _committed(self, engine: IndexWriter) -> FeedConsumer:
        """Commit all indexed videos, and return a feed consumer for the engine."""
        consumer = self._consumer(engine)
        engine.commit(consumer.checkpoint)
        return consumer

    def _consumer(self, engine: IndexWriter) -> FeedConsumer:
        return FeedConsumer(engine, self._feed, self._loader, clock=self._clock, slice_=self._store.slice_size)

    def _published(self, held: GenerationPointer, engine: IndexWriter, consumer: FeedConsumer) -> BuildResult:
        consumer.keep()
        held = self._store.publish(held, consumer.checkpoint)
        held, removed = self._store.tidy(held)
        return BuildResult("published", self._lag(consumer), consumer.put, removed, held)

    def _lag(self, consumer: FeedConsumer) -> float:
        return self._seconds_since(consumer.checkpoint.as_of)

    def _unfinished(self, held: GenerationPointer, at: BuildPosition) -> float:
        """Return the lag of the published generation in seconds. If no generation is published, return the age of the
        rebuild."""
        return self._seconds_since(held.as_of or at.begun * 1000)

    def _seconds_since(self, as_of: int) -> float:
        return max(0.0, self._clock() - as_of / 1000)


def _warn(generation: str, error: Exception) -> None:
    service_logger().warning("index not resumable", extra={"generation": generation, "reason": type(error).__name__})
