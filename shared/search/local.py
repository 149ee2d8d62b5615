"""The index as an instance of a function has it: a copy of the newest generation in its own folder, which it takes to where the
feed is before it answers.

Nothing is copied before the first question. One that has very much to follow copies what was published meanwhile instead.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from shared.aws.s3 import ObjectGone
from shared.core.deadline import within
from shared.core.errors import Gone, Unavailable
from shared.core.telemetry import service_logger
from shared.feed.log import Feed, Place
from shared.queries import INDEX_WAIT
from shared.search.films import Films
from shared.search.generations import Copy, DamagedFile, Generations, own_folder

if TYPE_CHECKING:
    from shared.search.engine import Engine
    from shared.search.follower import Follower

LOOK_EVERY = 0.3
"""Seconds for which an answer is not older than the feed, and so the next one needs no look at it."""
LONGEST_CATCH_UP = 1.0
"""Seconds after which a question is answered from what the index has, or from what was published, though more has changed."""
LONGEST_FIRST_CATCH_UP = 10.0
"""The same, of an instance that is new, or has answered nothing for IDLE_SECONDS: it has a minute of changes to follow, and more if no
indexer works."""
MOST_BEHIND = 10
"""Seconds that the index of such an instance may be behind the feed to answer. Beyond that, it has too little of what has changed."""
IDLE_SECONDS = 60
LONGEST_REFUSAL = 60
"""Seconds for which such an instance refuses to answer. One that is still behind then may never catch up, for example during an import:
it answers with what it has, and says so."""
PREPARING_SECONDS = 24
"""How long it may take to copy a generation, and to read what has changed since: longer than an answer may take otherwise, as the
next question would wait as long."""


class Newest(NamedTuple):
    """The index as an instance has it."""

    engine: "Engine"
    as_of: int
    """Up to when it has followed all changes, in milliseconds since 1970."""
    is_complete: bool
    """Whether it had followed the feed to its end when it looked last, which was at most LOOK_EVERY seconds ago."""


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
        self._looked_at: float | None = None
        self._answered_at: float | None = None
        """Epoch seconds of the last answer."""
        self._refused_from: float | None = None
        self._refused_at: float | None = None
        """Epoch seconds of the first and the last refusal since then."""

    def newest(self, places: Mapping[str, Place] | None = None) -> "Newest":
        """Return the engine, once it has followed the feed to its end or for as long as an answer may take.

        `places`: places in everybody's logs before which it has to know all changes, for which it waits INDEX_WAIT seconds.
        """
        with within(PREPARING_SECONDS, self._elapsed):
            try:
                self._follow(places or {})
            except Gone:
                # What it would follow next is no longer kept: a newer generation has it.
                self._forget()
                try:
                    self._follow(places or {})
                except Gone as gone:
                    self._forget()
                    raise being_built() from gone
            follower = self._made()
        self._answered_at, self._refused_at = self._clock(), None
        return Newest(follower.engine, follower.mark.as_of, follower.is_caught_up)

    def _follow(self, places: Mapping[str, Place]) -> None:
        follower, began = self._made(), self._elapsed()
        is_new = self._answered_at is None or self._clock() - self._answered_at > IDLE_SECONDS
        if is_new or self._looked_at is None or began - self._looked_at >= LOOK_EVERY:
            longest = LONGEST_FIRST_CATCH_UP if is_new else LONGEST_CATCH_UP
            if not follower.catch_up(lambda: self._elapsed() - began < longest):
                follower = self._leapt(follower)
                if is_new and self._clock() - follower.reached / 1000 > MOST_BEHIND and self._refuses():
                    raise Unavailable("The index is catching up with the changes; try again.", retry_after=2)
            self._looked_at = began
        if not follower.wait_for(places, lambda: self._elapsed() - began < INDEX_WAIT):
            raise Unavailable("The index does not have these changes yet; try again.", retry_after=2)

    def _refuses(self) -> bool:
        """Return whether the instance, which is far behind, may refuse to answer: for LONGEST_REFUSAL, while requests arrive."""
        now = self._clock()
        if self._refused_from is None or self._refused_at is None or now - self._refused_at > IDLE_SECONDS:
            self._refused_from = now
        self._refused_at = now
        return now - self._refused_from < LONGEST_REFUSAL

    def _leapt(self, follower: "Follower") -> "Follower":
        """A follower of what was published, if that is further, and else the same one."""
        pointer = self._generations.pointer()
        if pointer.readable is None or not follower.is_behind(pointer.places):
            return follower
        seen_at = follower.mark.as_of
        self._forget()
        follower = self._made()
        # It has all that was seen then, though its builder may have seen the feed's end earlier.
        follower.mark = replace(follower.mark, as_of=max(seen_at, follower.mark.as_of))
        follower.reached = max(follower.reached, follower.mark.as_of)
        return follower

    def _made(self) -> "Follower":
        if self._follower is None:
            # Imported here: only who searches should pay for it.
            from shared.search.engine import Engine, OtherForm
            from shared.search.follower import Follower

            began = self._elapsed()
            copy = self._copy = self._copy or Copy(self._folder())
            try:
                pointer = self._generations.copy_newest(copy)
                if pointer.readable is None:
                    raise being_built()
                engine = Engine(copy.folder)
            except (DamagedFile, ObjectGone, OtherForm) as error:
                copy.is_of(None)
                raise being_built() from error
            service_logger().info(
                "index copied",
                extra={"generation": pointer.generation, "videos": engine.size, "seconds": self._elapsed() - began},
            )
            self._follower = Follower(engine, self._feed, self._films, clock=self._clock, sleep=self._sleep)
            self._looked_at = None
        return self._follower

    def _forget(self) -> None:
        """Let go of the engine; the next one is a copy of the newest generation, with the files that are the same in it."""
        if self._follower and self._copy:
            self._follower.engine.close()
            self._copy.is_of(None)
        self._follower = None


def being_built() -> Unavailable:
    """What to answer while there is no index, or none of this release's form."""
    return Unavailable("The index is being built; try again.", retry_after=10)
