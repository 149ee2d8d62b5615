"""Feed consumer, which updates an index from the feed: the builder's index, or a search function's local copy.

The feed contains the ids of changed videos, but not their new state. The consumer reads that state from the table. It
is therefore harmless to consume a change twice, or after a later change.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from shared.feed.log import OLDEST, Feed, LogCursor, shard_logs
from shared.feed.reader import MAX_EXAMINED, read_page
from shared.search.engine import IndexCheckpoint, IndexWriter
from shared.search.loader import DocumentLoader

TYPES = ("video.*", "credit.*", "release.*", "captions.*")
"""Types of the changes that can affect search results."""
SLICE = 16
"""Number of changes per commit. The number is small, because a search request can stop consuming only between commits.
"""
LONGEST_REST = 0.2
"""Maximum delay in seconds between two polls of the feed while a request waits for changes."""


class FeedConsumer:
    """Consumer of the feed that applies the changes to a search engine."""

    def __init__(
        self,
        engine: IndexWriter,
        feed: Feed,
        loader: DocumentLoader,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        slice_: int = SLICE,
    ) -> None:
        """`clock` returns epoch seconds. `slice_` is the number of changes per commit.

        If the engine has no checkpoint, the consumer starts at the oldest change that the feed retains.
        """
        self.engine = engine
        self._feed, self._loader = feed, loader
        self._clock, self._sleep, self._slice = clock, sleep, slice_
        self.checkpoint = engine.checkpoint or IndexCheckpoint(dict.fromkeys(shard_logs(), OLDEST), 0)
        """Current checkpoint. It can be newer than the checkpoint that the engine stored, because the consumer does not
        commit changes that leave the index unchanged."""
        self.put = 0
        """Number of videos that this consumer indexed or removed."""
        self.is_caught_up = False
        """Whether the last `catch_up` reached the end of the feed."""
        self.reached = self.checkpoint.as_of
        """Time of the last consumed change, in epoch milliseconds. If the last read reached the end of the feed, this is
        the time of that read."""

    def catch_up(self, in_time: Callable[[], bool] = lambda: True) -> bool:
        """Consume the feed to its end or until `in_time` returns false. Returns whether the end was reached.

        Calls `in_time` after each slice of changes. Raises Gone if the feed no longer retains the next change, because
        the index must then be rebuilt. Raises Unavailable.
        """
        self.is_caught_up = False
        while True:
            read_at = int(self._clock() * 1000)
            changes = read_page(self._feed, self.checkpoint.places, TYPES, MAX_EXAMINED)
            end = IndexCheckpoint(
                changes.cursors, max(self.checkpoint.as_of, read_at) if changes.caught_up else self.checkpoint.as_of
            )
            read: set[str] = set()
            for start in range(0, len(changes.items), self._slice):
                if start and not in_time():
                    return False
                behind = start + self._slice
                # Each video is read once per page. This read includes all changes of the page, which were made earlier.
                ids = {change["videoId"]: None for change in changes.items[start:behind]}
                is_last = behind >= len(changes.items)
                self._index(
                    [video_id for video_id in ids if video_id not in read],
                    end if is_last else replace(self.checkpoint, places=changes.behind[behind - 1]),
                )
                read.update(ids)
                self.reached = max(self.reached, changes.items[min(behind, len(changes.items)) - 1]["at"])
            self.checkpoint = end
            if changes.caught_up:
                self.is_caught_up, self.reached = True, end.as_of
                return True
            if not in_time():
                return False

    def _index(self, video_ids: Sequence[str], checkpoint: IndexCheckpoint) -> None:
        """Index the current state of these videos, and commit it with `checkpoint`. Removes videos that no longer
        exist."""
        deleted_ids: list[str] = []
        for video_id, document in self._loader.read(video_ids):
            if document is None:
                deleted_ids.append(video_id)
            else:
                self.engine.put([document], places=checkpoint.places)
        if video_ids:
            self.engine.put([], deleted_ids, checkpoint.places)
            self.engine.commit(checkpoint)
        self.checkpoint = checkpoint
        self.put += len(video_ids)

    def has(self, cursors: Mapping[str, LogCursor]) -> bool:
        """Return whether the index has consumed each log in `cursors` up to the log's cursor.

        `cursors` maps log keys to cursors. The keys must be from `shard_logs`, the logs of all owners' changes.
        """
        return all(self.checkpoint.places[log].next >= cursor.next for log, cursor in cursors.items())

    def is_behind(self, cursors: Mapping[str, LogCursor]) -> bool:
        """Return whether the index is behind at least one of these cursors, and ahead of none. See `has`."""
        return not self.has(cursors) and all(
            cursor.next >= self.checkpoint.places[log].next for log, cursor in cursors.items()
        )

    def wait_for(self, cursors: Mapping[str, LogCursor], in_time: Callable[[], bool]) -> bool:
        """Consume the feed until the index includes all changes before these cursors, or until `in_time` returns false.

        Returns whether the index includes them. Raises Gone, Unavailable.
        """
        rest = LONGEST_REST / 8
        while not self.has(cursors):
            if not in_time():
                return False
            self.catch_up(in_time)
            if not self.has(cursors):
                self._sleep(rest)
                rest = min(rest * 2, LONGEST_REST)
        return True

    def keep(self) -> None:
        """Store the current checkpoint in the engine."""
        if self.engine.checkpoint != self.checkpoint:
            self.engine.commit(self.checkpoint)
