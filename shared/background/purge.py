"""Purge of removed videos and playlists: deletes all their remaining items and objects."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from shared.aws.dynamodb import Key, Table
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.aws.listing import Lists, Window, sharded_partitions, single_partition
from shared.aws.records import ABSENT, key_of
from shared.aws.stream import Record
from shared.core.attributes import Item, Value
from shared.core.caller import Caller
from shared.core.limits import LAST_SECOND
from shared.job_kinds import MEDIA_FOLDERS
from shared.processing.messages import PURGE_QUEUE, Outgoing, purge_message, purge_playlist_message
from shared.relations.playlist_entries import EntryStore
from shared.relations.playlists import PlaylistStore
from shared.schema import (
    MARKER,
    MAX_VIEW_SHARDS,
    ORDER,
    PARTITION_KEY,
    PLAYLIST,
    SORT_KEY,
    VIDEO,
    VIEW_COUNTER,
    VIEW_HOUR,
    in_playlist_relation,
    rated_relation,
)
from shared.videos.counters import shards_of
from shared.videos.reservations import Reservation, held_by

PURGE = Caller.job("purge")
"""Author of the changes that the purge of a video makes to playlists that contained the video."""

PAGE = 100
"""Maximum number of items that one Query reads."""

InTime = Callable[[], bool]
"""Function that returns whether the purge has time for another step."""


class PrefixDeleter(Protocol):
    """Interface of the object store, limited to the method that purges need."""

    def delete_prefix(self, bucket: str, prefix: str) -> int:
        """Delete all objects whose keys begin with `prefix`. Return their number."""


def video_removed(record: Record, now: int) -> Iterable[Outgoing]:
    """Return the message that starts the purge of a removed video."""
    return [Outgoing(PURGE_QUEUE, purge_message(record.old["videoId"], record.correlation_id, record.old))]


def playlist_removed(record: Record, now: int) -> Iterable[Outgoing]:
    """Return the message that starts the purge of a removed playlist's entries."""
    return [Outgoing(PURGE_QUEUE, purge_playlist_message(record.old["playlistId"], record.correlation_id))]


class Purge:
    """Purge of removed videos and playlists. It can be interrupted at any point and repeated.

    Methods return `True` if they finished, and `False` if `in_time` stopped them. The caller must repeat the call until
    the result is `True`. Methods raise the errors of shared.core.errors.
    """

    def __init__(self, table: Table, objects: PrefixDeleter, sources_bucket: str, media_bucket: str) -> None:
        self.table = table
        self.lists = Lists(table)
        self.entries = EntryStore(PlaylistStore(table))
        self.objects = objects
        self.sources_bucket = sources_bucket
        self.media_bucket = media_bucket

    def video(
        self,
        video_id: str,
        now: int,
        in_time: InTime,
        correlation_id: str | None = None,
        reserved: Sequence[Reservation] = (),
    ) -> bool:
        """Purge one video. Stops if a video with this id exists again. `now` is in epoch seconds.

        `reserved` are the video's reservations of unique values. The caller must supply them, because no item in the
        video's partition refers to them. Returns `False` if `in_time` stopped the purge.

        Retains the video's MARKER item. The aggregates worker deletes this item after it has updated the totals.
        """
        key = VIDEO.key(videoId=video_id)
        if self._exists(key):
            return True
        caller = PURGE.acting_for(correlation_id)
        if not (self._ratings(video_id, in_time) and self._memberships(video_id, caller, now, in_time)):
            return False
        self._free(key, video_id, reserved)
        # Checked again, because the steps above may take long, and the deletion of a source file is irreversible.
        if self._exists(key):
            return True
        # The items are deleted last. If objects remain after a failure, the items of the video show it.
        return (
            self._views(video_id, in_time)
            and self._sort_entries(video_id)
            and self._objects(video_id, in_time)
            and self._children(key[PARTITION_KEY], in_time)
        )

    def playlist(self, playlist_id: str, in_time: InTime) -> bool:
        """Delete the entries of one playlist. Does nothing while the playlist exists."""
        return self._children(PLAYLIST.key(playlistId=playlist_id)[PARTITION_KEY], in_time)

    def _free(self, key: Key, video_id: str, reserved: Iterable[Reservation]) -> None:
        """Delete the video's reservations of unique values, except reservations that another video has claimed since.

        `key` is the key of the video. Deletes nothing if a video with this id exists again.
        """
        for reservation in reserved:
            writes = [
                self.table.check(key, condition=ABSENT),
                self.table.remove(reservation.key, condition=held_by(video_id)),
            ]
            with suppress(ConditionFailed):
                self.table.transact(writes)

    def _exists(self, key: Key) -> bool:
        return self.table.get(key, attributes=(PARTITION_KEY,), consistent=True) is not None

    def _ratings(self, video_id: str, in_time: InTime) -> bool:
        """Delete the video's ratings, except withdrawn ratings. Withdrawn ratings are not in the index, and expire."""
        for entries in self._related(sharded_partitions(rated_relation(video_id))):
            if not in_time():
                return False
            if self._exists(VIDEO.key(videoId=video_id)):
                return True
            self.table.batch_delete([key_of(entry) for entry in entries])
        return True

    def _memberships(self, video_id: str, caller: Caller, now: int, in_time: InTime) -> bool:
        for entries in self._related(single_partition(in_playlist_relation(video_id))):
            if self._exists(VIDEO.key(videoId=video_id)):
                return True
            for entry in entries:
                if not in_time():
                    return False
                self.entries.forget(entry["relId"], video_id, caller, now)
        return True

    def _related(self, relation: Sequence[Mapping[str, Value]]) -> Iterator[Sequence[Item]]:
        """Yield pages of the index entries in the partitions `relation`. The caller deletes the entries of each page.

        After the last page, the index is read again from the start, until a read finds no entry. The first read may
        miss entries, because the index is eventually consistent.
        """
        after, found_any, rounds = None, False, 0
        while True:
            page = self.lists.related(relation, Window(0, LAST_SECOND + 1, True, PAGE, after))
            if page.items:
                found_any = True
                yield page.items
            after = page.resume
            if after is None:
                if not found_any:
                    return
                found_any, rounds = False, rounds + 1
                self.table.pause(rounds)

    def _views(self, video_id: str, in_time: InTime) -> bool:
        """Delete the view counter, and the hour and day items.

        Does not delete the deduplication items of views (VIEWER), because they expire within hours or days.
        """
        shards = [VIEW_COUNTER.key(videoId=video_id, shard=shard) for shard in range(MAX_VIEW_SHARDS)]
        # Shard 0 is deleted last, because a repeated purge reads the number of shards from it.
        first = self.table.get(shards[0], attributes=(PARTITION_KEY, "spread"), consistent=True)
        if first is None:
            return True
        if not self._children(VIEW_HOUR.key(videoId=video_id, hour="")[PARTITION_KEY], in_time, self._one_by_one):
            return False
        self._one_by_one([*shards[1 : shards_of(first)], shards[0]])
        return True

    def _sort_entries(self, video_id: str) -> bool:
        """Delete the video's sort entries. Does not call `in_time`, because a video has at most one entry per order."""
        return self._children(ORDER.key(videoId=video_id, order="")[PARTITION_KEY], lambda: True, self._one_by_one)

    def _one_by_one(self, keys: Iterable[Key]) -> None:
        """Delete items one at a time, because the role of the function `purge` does not allow BatchWriteItem for these
        items.

        A permission for BatchWriteItem would also allow puts.
        """
        for key in keys:
            self.table.delete(key)

    def _objects(self, video_id: str, in_time: InTime) -> bool:
        """Delete source files, thumbnails, renditions and captions."""
        media = [(self.media_bucket, f"{folder}/{video_id}/") for folder in MEDIA_FOLDERS]
        for bucket, prefix in ((self.sources_bucket, f"{video_id}/"), *media):
            if not in_time():
                return False
            self.objects.delete_prefix(bucket, prefix)
        return True

    def _children(self, partition: str, in_time: InTime, delete: Callable[[Sequence[Key]], None] | None = None) -> bool:
        """Delete all items of a video's or playlist's partition, except a MARKER item.

        The aggregates worker deletes the MARKER item. Stops if the video or playlist exists again. Returns `False` if
        `in_time` stopped it. `delete` is called with the keys of each page. By default, the items are deleted in
        batches.
        """
        delete = delete or self.table.batch_delete
        while in_time():
            # Each Query begins at the start of the partition, because the items of earlier Queries were deleted.
            page = self.table.query(
                index=None,
                condition=Expression.of("#pk = :pk", pk=partition),
                attributes=(PARTITION_KEY, SORT_KEY),
                limit=PAGE,
                consistent=True,
            )
            # Videos and playlists have the same sort key, which sorts before all others.
            if page.items and page.items[0][SORT_KEY] == VIDEO.sk:
                return True
            delete([key for key in page.items if key[SORT_KEY] != MARKER.sk])
            if page.last_key is None:
                return True
        return False
