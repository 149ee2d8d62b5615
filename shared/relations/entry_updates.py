"""Updates of index entries after a video changed: credits, releases, tags, series, folder and schedule of the video."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from shared.aws.dynamodb import LARGEST_TRANSACTION, Table, Write
from shared.aws.expressions import Expression, change_between
from shared.aws.listing import iterate_entries
from shared.aws.records import CONFLICTS, PRESENT, key_of, retry_on_conflict, unchanged
from shared.core.attributes import Item
from shared.core.position import Page, Position
from shared.relations.children import children_of
from shared.schema import CREDIT, ORDER, PARTITION_KEY, SCHEDULE, SORT_KEY, TAG, VIDEO
from shared.videos.entries import (
    ENTRIES,
    OWN_ENTRIES,
    as_read,
    have_same_position,
    next_move,
    own_entries,
    schedule,
    with_index_position,
    with_list_position,
)
from shared.videos.orders import STORED_ORDERS
from shared.videos.store import VideoStore

if TYPE_CHECKING:
    from shared.entities import AnyVideo, Video

MOVED_AT_A_TIME = LARGEST_TRANSACTION - 1
"""Maximum number of index entries that one Query reads and one transaction writes.

The transaction has one more operation, which checks the version of the video. A Query also ends after 1 MB, and may
then return fewer entries.
"""

LAST = max(entity.sort_prefix for entity in ENTRIES if entity is not TAG)
"""Upper bound of the sort keys of a video's index entries, except tags. The lower bound is the sort key prefix of
credits."""
SINGLE = tuple(entity.sort_prefix for entity in (SCHEDULE, *OWN_ENTRIES) if entity is not TAG)
"""Sort key prefixes of the entries for the schedule, the series and the folder. A video has at most one of each."""

SOON = 60
"""Maximum delay in seconds that `update_entries` returns. The sweeper triggers updates that are due later. For earlier
updates, it runs too rarely."""


class EntryUpdater:
    """Updater of a video's index entries after the video changed."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.videos = VideoStore(table)

    def update_entries(self, video_id: str, now: int, in_time: Callable[[], bool] = lambda: True) -> int | None:
        """Update the index entries of a video (credits, releases, tags, series, folder and schedule) to match the
        video.

        Returns the seconds after which the caller must call again, or `None` if no other call is needed. Calls
        `in_time` before each step. If `in_time` returns false, stops and returns 0.

        The caller need not call again for later changes of the video, because each of them causes its own call. Calls
        are idempotent. After an interrupted call, the next call does not write entries again that are already updated. Raises
        WriteContention.
        """
        after: Position | None = None

        def attempt(_: Item | None) -> "tuple[Video | None, Position | None] | None":
            """Update the next page of the video's entries; return `None` if there was no time."""
            if not in_time():
                return None
            video = self.videos.settle(video_id, now)
            return video, self._move_page(video, now, after) if video else None

        while moved := retry_on_conflict(attempt, "the video", pause=self.table.pause, on=CONFLICTS):
            video, after = moved
            if video is None:
                # The video is deleted permanently, and a purge will delete its items. Before the purge, the sweeper
                # must not find the video's schedule.
                self.table.delete(SCHEDULE.key(videoId=video_id))
                return None
            if after is None:
                due = next_move(video, now)
                return due - now if due is not None and due - now <= SOON else None
        return 0

    def _move_page(self, video: "AnyVideo", now: int, after: Position | None) -> Position | None:
        """Update the next page of entries. Return the position at which to resume; `None` after the last page.

        The first page also updates the tags. The last page also adds missing entries for the schedule, the series and
        the folder.
        """
        writes = self._sort_entry_moves(video) if after is None else []
        due = schedule(video, now)
        expected = {entry[SORT_KEY]: entry for entry in (*([due] if due else []), *own_entries(video))}
        tags = {sk: expected.pop(sk) for sk in [*expected] if TAG.has_sort_key(sk)}
        if after is None:
            present = {entry[SORT_KEY]: entry for entry in self._page_of_children(video, TAG.sort_prefix).items}
            writes += self._exchanges(present, tags)
        page = self._page_of_children(video, CREDIT.sort_prefix, LAST, after)
        for entry in page.items:
            if "personId" in entry or "region" in entry:
                change = change_between(entry, with_index_position(entry, video))
                if change.text:
                    writes.append(self.table.update(key_of(entry), change, condition=unmoved(entry)))
        last = {entry[SORT_KEY]: entry for entry in page.items if entry[SORT_KEY].startswith(SINGLE)}
        if page.resume is not None:
            # All other expected entries may be stored on later pages, so they are not added now.
            expected = {sk: entry for sk, entry in expected.items() if sk in last}
        writes += self._exchanges(last, expected)
        check = self.table.check(VIDEO.key(videoId=video["videoId"]), condition=as_read(video))
        for start in range(0, len(writes), MOVED_AT_A_TIME):
            self.table.transact([check, *writes[start : start + MOVED_AT_A_TIME]])
        return page.resume

    def _sort_entry_moves(self, video: "AnyVideo") -> list[Write]:
        """Return the writes that move the video's sort entries (ORDER) to the lists of its current owner and category."""
        partition = ORDER.key(videoId=video["videoId"], order="")[PARTITION_KEY]
        present = iterate_entries(
            self.table, None, {PARTITION_KEY: partition}, limit=len(STORED_ORDERS), consistent=True
        )
        changes = [(entry, change_between(entry, with_list_position(entry, video))) for entry in present]
        return [self.table.update(key_of(entry), change, condition=PRESENT) for entry, change in changes if change.text]

    def _exchanges(self, present: Mapping[str, Item], expected: Mapping[str, Item]) -> list[Write]:
        """Return the writes that replace the entries `present` with the entries `expected`. Both map sort keys to
        entries.

        Skips entries whose index position is unchanged.
        """
        removals = [self.table.remove(key_of(present[sk])) for sk in sorted(present.keys() - expected.keys())]
        additions = [
            self.table.put(entry)
            for sk, entry in expected.items()
            if sk not in present or not have_same_position(present[sk], entry)
        ]
        return removals + additions

    def _page_of_children(
        self, video: "AnyVideo", first: str, last: str | None = None, after: Position | None = None
    ) -> Page[Item]:
        """Return a page of a video's related items by a consistent read.

        Without `last`, the sort keys begin with `first`. With `last`, they are from `first` to `last`, inclusive.
        """
        return children_of(
            self.table,
            video["videoId"],
            first,
            up_to=last,
            limit=MOVED_AT_A_TIME,
            after=after,
            consistent=True,
        )


def unmoved(entry: Item) -> Expression:
    """Return the condition that a stored credit or release still has the version and index position of `entry`."""
    presence = "attribute_exists" if "rel" in entry else "attribute_not_exists"
    return unchanged(entry) & Expression.of(f"#relSort = :stood AND {presence}(#rel)", stood=entry["relSort"])
