"""What a builder does in one run: take the newest generation further, or make all of it anew, and publish that.

It is made anew when nothing was published yet, when the feed no longer keeps what the generation has not followed, when its form
is another one, and when somebody asks for it. Videos are found in the index by feed and statuses, as an export finds them: nothing
scans the table. Whatever changes meanwhile is in the feed, which is followed from where it was a little before the begin. How far
that is, is saved now and then, so that another run, on this machine or another one, goes on from there.
"""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.aws.leases import LeaseLost
from shared.aws.s3 import ObjectGone
from shared.core.attributes import Item, decode_item
from shared.core.errors import Gone, Unavailable
from shared.core.telemetry import log_failure, service_logger
from shared.feed.log import Feed, shard_logs
from shared.schema import FEED, RELATION_INDEX, SHARDS, status_relation
from shared.search.engine import Engine, Mark, OtherForm
from shared.search.films import Films
from shared.search.follower import Follower
from shared.search.generations import Copy, DamagedFile, Generations, Heartbeat, Pointer
from shared.videos.video import STATUSES

PAGE = 100
"""Videos of one Query of a rebuild; changes that are put in with one commit, of which there are fewer so than in a copy."""
SAVED_EVERY = 10_000
"""Videos of a rebuild after which a draft is saved."""
SECONDS_BEFORE = 300
"""How long before its begin a rebuild follows the feed from: an entry of the index may be some seconds late."""
PUBLISHED_EVERY = 3600
"""Seconds after which a generation is published in which no video has changed: who copies it has less to follow."""
SOURCES = tuple(
    (relation, shard)
    for relation in (FEED, *(status_relation(status) for status in STATUSES if status != "deleted"))
    for shard in range(SHARDS)
)
"""The partitions of the index that lead to every video which can be found."""

CANNOT_GO_ON = (Gone, OtherForm, ObjectGone, DamagedFile)
"""Why a generation or a draft is of no use any more, and everything is to be read anew."""

Outcome = Literal["busy", "unchanged", "published", "unfinished"]
"""`busy`: another builder has the index. `unfinished`: a rebuild goes on in the next run."""


@dataclass(frozen=True)
class Run:
    """What became of a run."""

    outcome: Outcome
    behind: float = 0
    """Seconds for which what holds has not followed the feed; 0 with `busy`, as another builder says it."""
    put: int = 0
    """Videos that were put in or taken out."""
    removed: int = 0
    """Objects that nothing needs any more."""


class At(NamedTuple):
    """How far a rebuild is: behind a key in one of SOURCES."""

    source: int = 0
    after: Item | None = None
    begun: int = 0
    """Epoch seconds."""

    @classmethod
    def of(cls, item: Item) -> "At":
        """What a draft says."""
        return cls(item["source"], item.get("after"), item["begun"])

    @property
    def item(self) -> Item:
        """What a draft says of it."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def some_videos(table: Table, at: At) -> tuple[list[str], At]:
    """The ids of some more videos of a table, and how far that is; one Query."""
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
    # After the last page of a partition comes the first one of the next.
    return [entry["relId"] for entry in page.items], At(at.source if after else at.source + 1, after, at.begun)


class Builder:
    """Builds in a folder of this machine."""

    def __init__(
        self,
        generations: Generations,
        copy: Copy,
        table: Table,
        feed: Feed,
        films: Films,
        *,
        clock: Callable[[], float] = time.time,
        tell: Callable[[int], None] = lambda _: None,
        heartbeat: Callable[[Callable[[], None]], AbstractContextManager[object]] = Heartbeat,
    ) -> None:
        """`tell` is called with how many videos a rebuild has put in, in this run. `heartbeat` calls a function regularly."""
        self._generations, self._copy, self._table, self._feed, self._films = generations, copy, table, feed, films
        self._clock, self._tell, self._heartbeat = clock, tell, heartbeat

    def run(self, in_time: Callable[[], bool] = lambda: True, *, anew: bool = False) -> Run:
        """Build while there is time, and publish. `anew`: everything, even if a generation could go on.

        Raises LeaseLost when another builder has taken over, and Unavailable; the next run goes on.
        """
        held = self._generations.lease()
        if held is None:
            return Run("busy")
        is_lost = threading.Event()

        def renew() -> None:
            try:
                self._generations.renew(held)
            except LeaseLost:
                is_lost.set()
            except Unavailable as error:  # the next heartbeat comes before the lease expires
                log_failure("lease not renewed", error)

        def goes_on() -> bool:
            if is_lost.is_set():
                raise LeaseLost
            return in_time()

        try:
            with self._heartbeat(renew):
                return self._run(held, goes_on, anew)
        finally:
            self._generations.release(held)

    def _run(self, held: Pointer, in_time: Callable[[], bool], anew: bool) -> Run:
        if not anew and held.draft is None and held.readable is not None:
            try:
                return self._fold(held, in_time)
            except CANNOT_GO_ON as error:
                # What holds now stays until the rebuild is published.
                _warn(held.readable, error)
        if held.draft is not None:
            try:
                return self._rebuild(held, in_time)
            except CANNOT_GO_ON as error:
                _warn(held.draft.generation, error)
                held = self._generations.drop_draft(held)
        return self._rebuild(held, in_time)

    def _fold(self, held: Pointer, in_time: Callable[[], bool]) -> Run:
        """Take what holds to where the feed is."""
        self._generations.copy_of(held.readable, self._copy)
        engine = Engine(self._copy.folder)
        try:
            follower = self._follower(engine)
            before = dict(held.places)
            follower.catch_up(in_time)
            # Also what an earlier run had put in, and did not get to publish.
            moved = dict(follower.mark.places) != before
            is_old = int(self._clock()) - held.published_at >= PUBLISHED_EVERY
            if not moved or not (follower.put or self._is_ahead(engine, held) or is_old):
                return Run("unchanged", self._behind(follower))
            return self._published(held, engine, follower)
        finally:
            engine.close()

    def _is_ahead(self, engine: Engine, held: Pointer) -> bool:
        return engine.mark is not None and dict(engine.mark.places) != dict(held.places)

    def _rebuild(self, held: Pointer, in_time: Callable[[], bool]) -> Run:
        """Read every video, then follow what has changed meanwhile; from the draft on, if there is one."""
        draft = held.draft
        self._generations.copy_of(draft.generation if draft else None, self._copy)
        at = At.of(draft.at) if draft else At(begun=int(self._clock()))
        engine = Engine(self._copy.folder)
        try:
            if draft is None:
                before = (at.begun - SECONDS_BEFORE) * 1000
                engine.commit(Mark({log: self._feed.at_time(log, before) for log in shard_logs()}, 0))
            put = saved = 0
            while at.source < len(SOURCES):
                if not in_time():
                    self._save(held, engine, at)
                    return Run("unfinished", self._unfinished(held, at), put)
                if put - saved >= SAVED_EVERY:
                    held, saved = self._save(held, engine, at), put
                ids, at = some_videos(self._table, at)
                for _, film in self._films.read(ids):
                    if film:
                        engine.put([film])
                        put += 1
                self._tell(put)
            follower = self._committed(engine)
            if not follower.catch_up(in_time):
                self._save(held, engine, at)
                return Run("unfinished", self._unfinished(held, at), put)
            return replace(self._published(held, engine, follower), put=put + follower.put)
        finally:
            engine.close()

    def _save(self, held: Pointer, engine: Engine, at: At) -> Pointer:
        self._committed(engine)
        return self._generations.save_draft(held, self._copy, engine.files(), at.item)

    def _committed(self, engine: Engine) -> Follower:
        """A follower of all that was put."""
        follower = self._follower(engine)
        engine.commit(follower.mark)
        return follower

    def _follower(self, engine: Engine) -> Follower:
        return Follower(engine, self._feed, self._films, clock=self._clock, slice_=PAGE)

    def _published(self, held: Pointer, engine: Engine, follower: Follower) -> Run:
        follower.keep()
        files = engine.files()
        held = self._generations.publish(held, self._copy, files, follower.mark, engine.size)
        _, removed = self._generations.tidy(held)
        return Run("published", self._behind(follower), follower.put, removed)

    def _behind(self, follower: Follower) -> float:
        return self._seconds_since(follower.mark.as_of)

    def _unfinished(self, held: Pointer, at: At) -> float:
        """Without any generation that holds, it is the rebuild that somebody waits for."""
        return self._seconds_since(held.as_of or at.begun * 1000)

    def _seconds_since(self, as_of: int) -> float:
        return max(0.0, self._clock() - as_of / 1000)


def _warn(generation: str, error: Exception) -> None:
    service_logger().warning("index cannot go on", extra={"generation": generation, "reason": type(error).__name__})
