"""The index as an instance of a function has it: a copy of the newest generation in its own folder, which it takes to where the
feed is before it answers.

Nothing is copied before the first question. Without any generation the index is made of the feed alone, if that is kept from its
first change on: so a catalogue that is new is searched before anybody has built anything.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from shared.aws.s3 import ObjectGone
from shared.core.deadline import within
from shared.core.errors import Gone, Unavailable
from shared.core.telemetry import service_logger
from shared.feed.log import OLDEST, Feed, Place, shard_logs
from shared.queries import INDEX_WAIT
from shared.search.films import Films
from shared.search.generations import Copy, DamagedFile, Generations, own_folder

if TYPE_CHECKING:
    from shared.search.engine import Engine
    from shared.search.follower import Follower

LOOK_EVERY = 0.3
"""Seconds for which an answer is not older than the feed, and so the next one needs no look at it."""
LONGEST_CATCH_UP = 1.0
"""Seconds after which a question is answered from what the index has, though more has changed."""
PREPARING_SECONDS = 24
"""How long it may take to copy a generation, and to read what has changed since: longer than an answer may take otherwise, as the
next question would wait as long."""


class Local:
    """An engine that is made when it is first asked for. Methods raise Unavailable."""

    def __init__(
        self,
        generations: Generations,
        feed: Feed,
        films: Films,
        *,
        folder: Callable[[], Path] = own_folder,
        clock: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`clock` gives epoch seconds, `elapsed` seconds that only go forward. `folder` makes an empty folder."""
        self._generations, self._feed, self._films = generations, feed, films
        self._folder, self._clock, self._elapsed, self._sleep = folder, clock, elapsed, sleep
        self._copy: Copy | None = None
        self._follower: Follower | None = None
        self._engine: Engine | None = None
        self._looked_at: float | None = None

    def newest(self, places: Mapping[str, Place] | None = None) -> tuple["Engine", int]:
        """The engine, and up to when it has followed all changes (milliseconds since 1970).

        `places`: places in everybody's logs before which it has to know all changes, for which it waits INDEX_WAIT seconds.
        """
        with within(PREPARING_SECONDS, self._elapsed):
            engine, follower = self._made()
            try:
                self._follow(follower, places or {})
            except Gone:
                # What it would follow next is no longer kept: a newer generation has it.
                self._forget()
                engine, follower = self._made()
                try:
                    self._follow(follower, places or {})
                except Gone as gone:
                    self._forget()
                    raise being_built() from gone
        return engine, follower.mark.as_of

    def _follow(self, follower: "Follower", places: Mapping[str, Place]) -> None:
        began = self._elapsed()
        if self._looked_at is None or began - self._looked_at >= LOOK_EVERY:
            follower.catch_up(lambda: self._elapsed() - began < LONGEST_CATCH_UP)
            self._looked_at = began
        if not follower.wait_for(places, lambda: self._elapsed() - began < INDEX_WAIT):
            raise Unavailable("The index does not have these changes yet; try again.", retry_after=2)

    def _made(self) -> tuple["Engine", "Follower"]:
        if self._engine is None or self._follower is None:
            # Imported here: only who searches should pay for it.
            from shared.search.engine import Engine, OtherForm
            from shared.search.follower import Follower

            began = self._elapsed()
            copy = self._copy = self._copy or Copy(self._folder())
            try:
                pointer = self._generations.copy_newest(copy)
                if pointer.generation is None:
                    self._require_whole_feed(is_begun=pointer.draft is not None)
                engine = Engine(copy.folder)
            except (DamagedFile, ObjectGone, OtherForm) as error:
                copy.clear()
                raise being_built() from error
            service_logger().info(
                "index copied",
                extra={"generation": pointer.generation, "videos": engine.size, "seconds": self._elapsed() - began},
            )
            self._engine = engine
            self._follower = Follower(engine, self._feed, self._films, clock=self._clock, sleep=self._sleep)
            self._looked_at = None
        return self._engine, self._follower

    def _forget(self) -> None:
        """Let go of the engine; the next one is a copy of the newest generation again."""
        if self._engine and self._copy:
            self._engine.close()
            self._copy.clear()
        self._engine = self._follower = None

    def _require_whole_feed(self, *, is_begun: bool) -> None:
        """Raise Unavailable unless the feed has all changes that there were; `is_begun`: somebody reads the table instead."""
        firsts = [told for log in shard_logs() for told in self._feed.read(log, OLDEST, 1).told]
        if is_begun or any(told.position > 1 for told in firsts):
            raise being_built()


def being_built() -> Unavailable:
    """What to answer while there is no index."""
    return Unavailable("The index is being built; try again.", retry_after=10)
