"""Takes an index on this machine to where the feed is: the builder's, and the copy that each search function has.

The feed says which videos have changed, and nothing of what they have become: they are read from the table. So it does no
harm to follow a change twice, or to meet a video that has changed again meanwhile.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from shared.feed.following import MOST_EXAMINED, page
from shared.feed.log import OLDEST, Feed, Place, shard_logs
from shared.search.engine import Engine, Mark
from shared.search.films import Films

TYPES = ("video.*", "credit.*", "release.*", "captions.*")
"""Changes after which a video may be found otherwise."""
SLICE = 16
"""Changes that are put in together: so few that who answers a question may stop in between."""
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
        slice_: int = SLICE,
    ) -> None:
        """`clock` gives epoch seconds. `slice_`: changes that are put in together, with one commit.

        An engine without a mark follows all that is kept.
        """
        self.engine = engine
        self._feed, self._films = feed, films
        self._clock, self._sleep, self._slice = clock, sleep, slice_
        self.mark = engine.mark or Mark(dict.fromkeys(shard_logs(), OLDEST), 0)
        """How far; newer than the engine's own by what changed nothing in it."""
        self.put = 0
        """Videos that were put in or taken out."""
        self.is_caught_up = False
        """Whether the last call of `catch_up` reached the end of the feed."""
        self.reached = self.mark.as_of
        """Time of the last change that was followed, or to which all were, in milliseconds since 1970."""

    def catch_up(self, in_time: Callable[[], bool] = lambda: True) -> bool:
        """Follow the feed to its end, or while there is time; returns whether the end was reached.

        `in_time` is asked after each slice. Raises Gone when what comes next is no longer kept, and then the index has to be
        made anew; Unavailable.
        """
        self.is_caught_up = False
        while True:
            seen_at = int(self._clock() * 1000)
            changes = page(self._feed, self.mark.places, TYPES, MOST_EXAMINED)
            end = Mark(changes.places, max(self.mark.as_of, seen_at) if changes.caught_up else self.mark.as_of)
            read: set[str] = set()
            for start in range(0, len(changes.items), self._slice):
                if start and not in_time():
                    return False
                behind = start + self._slice
                # Each once, however often it has changed: it is read later than the whole page.
                ids = {change["videoId"]: None for change in changes.items[start:behind]}
                is_last = behind >= len(changes.items)
                self._put(
                    [video_id for video_id in ids if video_id not in read],
                    end if is_last else replace(self.mark, places=changes.behind[behind - 1]),
                )
                read.update(ids)
                self.reached = max(self.reached, changes.items[min(behind, len(changes.items)) - 1]["at"])
            self.mark = end
            if changes.caught_up:
                self.is_caught_up, self.reached = True, end.as_of
                return True
            if not in_time():
                return False

    def _put(self, video_ids: Sequence[str], mark: Mark) -> None:
        """Put videos in as they are now, or take them out, and have followed up to a mark."""
        gone: list[str] = []
        for video_id, film in self._films.read(video_ids):
            if film is None:
                gone.append(video_id)
            else:
                self.engine.put([film])
        if video_ids:
            self.engine.put([], gone)
            self.engine.commit(mark)
        self.mark = mark
        self.put += len(video_ids)

    def has(self, places: Mapping[str, Place]) -> bool:
        """Whether the index has followed these logs up to these places, of everybody's changes."""
        return all(_position(self.mark.places[log]) >= _position(place) for log, place in places.items())

    def is_behind(self, places: Mapping[str, Place]) -> bool:
        """Whether who has followed the logs up to these places has all that the index has, and more."""
        return not self.has(places) and all(
            _position(place) >= _position(self.mark.places[log]) for log, place in places.items()
        )

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
        if self.engine.mark != self.mark:
            self.engine.commit(self.mark)


def _position(place: Place) -> int:
    """The position of the change that comes next: the same whether it stands in the tail or in a block."""
    return place.first + place.skip
