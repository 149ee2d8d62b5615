"""Takes an index on this machine to where the feed is: the builder's, and the copy that each search function has.

The feed says which videos have changed, and nothing of what they have become: they are read from the table. So it does no
harm to follow a change twice, or to meet a video that has changed again meanwhile.
"""

import time
from collections.abc import Callable, Mapping

from shared.feed.following import MOST_EXAMINED, page
from shared.feed.log import OLDEST, Feed, Place, shard_logs
from shared.search.engine import Engine, Mark
from shared.search.films import Films

TYPES = ("video.*", "credit.*", "release.*", "captions.*")
"""Changes after which a video may be found otherwise."""
LONGEST_REST = 0.2
"""Seconds between two looks of one who waits."""


class Follower:
    """An engine, and how far it has followed the feed."""

    def __init__(
        self,
        engine: Engine,
        feed: Feed,
        films: Films,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`clock` gives epoch seconds. An engine without a mark follows all that is kept."""
        self._engine, self._feed, self._films = engine, feed, films
        self._clock, self._sleep = clock, sleep
        self.mark = engine.mark or Mark(dict.fromkeys(shard_logs(), OLDEST), 0)
        """How far; newer than the engine's own by what changed nothing in it."""
        self.put = 0
        """Videos that were put in or taken out."""

    def catch_up(self, in_time: Callable[[], bool] = lambda: True) -> bool:
        """Follow the feed to its end, or while there is time; returns whether the end was reached.

        Raises Gone when what comes next is no longer kept, and then the index has to be made anew; Unavailable.
        """
        while True:
            seen_at = int(self._clock() * 1000)
            changes = page(self._feed, self.mark.places, TYPES, MOST_EXAMINED)
            # Each once, however often it has changed.
            ids = list(dict.fromkeys(change["videoId"] for change in changes.items))
            as_of = seen_at if changes.caught_up else max((change["at"] for change in changes.items), default=0)
            mark = Mark(changes.places, max(self.mark.as_of, as_of))
            if ids:
                gone: list[str] = []
                for video_id, film in self._films.read(ids):
                    if film is None:
                        gone.append(video_id)
                    else:
                        self._engine.put([film])
                self._engine.put([], gone)
                self._engine.commit(mark)
                self.put += len(ids)
            self.mark = mark
            if changes.caught_up:
                return True
            if not in_time():
                return False

    def has(self, places: Mapping[str, Place]) -> bool:
        """Whether the index has followed these logs up to these places, of everybody's changes."""
        return all(_position(self.mark.places[log]) >= _position(place) for log, place in places.items())

    def wait_for(self, places: Mapping[str, Place], in_time: Callable[[], bool]) -> bool:
        """Follow until the index has what comes before these places, or time is up; returns whether it has. Raises Gone, Unavailable."""
        rest = LONGEST_REST / 8
        while not self.has(places):
            if not in_time():
                return False
            self.catch_up(in_time)
            if not self.has(places):
                self._sleep(rest)
                rest = min(rest * 2, LONGEST_REST)
        return True

    def keep(self) -> None:
        """Let the engine's own mark be as new as this one."""
        if self._engine.mark != self.mark:
            self._engine.commit(self.mark)


def _position(place: Place) -> int:
    """The position of the change that comes next: the same whether it stands in the tail or in a block."""
    return place.first + place.skip
