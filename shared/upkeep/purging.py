"""The end of a video or playlist: everything that its removal leaves behind is removed too, however much it is."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from shared.aws.dynamodb import Key, Table
from shared.aws.expressions import Expression
from shared.aws.listing import Lists, Window, sharded, unsharded
from shared.aws.records import key_of
from shared.aws.stream import Record
from shared.core.attributes import Item, Value
from shared.core.caller import Caller
from shared.core.limits import LAST_SECOND
from shared.films.messages import PURGE_QUEUE, Outgoing, purge_message, purge_playlist_message
from shared.kinds import MEDIA_FOLDERS
from shared.relations.playlist_entries import EntryStore
from shared.relations.playlists import PlaylistStore
from shared.schema import (
    MARKER,
    MOST_VIEW_SHARDS,
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

PURGE = Caller.job("purge")

PAGE = 100
"""Items that are looked for at a time."""

InTime = Callable[[], bool]
"""Whether there is time for another step."""


class Store(Protocol):
    """Where objects are, as far as a purge needs it."""

    def delete_prefix(self, bucket: str, prefix: str) -> int:
        """Delete all objects below a prefix; return how many."""


def video_removed(record: Record, now: int) -> Iterable[Outgoing]:
    """Send for what a video leaves that was removed."""
    return [Outgoing(PURGE_QUEUE, purge_message(record.old["videoId"], record.correlation_id))]


def playlist_removed(record: Record, now: int) -> Iterable[Outgoing]:
    """Send for the entries of a playlist that was removed."""
    return [Outgoing(PURGE_QUEUE, purge_playlist_message(record.old["playlistId"], record.correlation_id))]


class Purge:
    """Removes what removed videos and playlists left. It can be interrupted anywhere and repeated.

    Both methods return whether they finished; False when `in_time` made them stop. What they removed until then is not met
    again, so that they finish the next time, or the time after. They raise the errors of shared.core.errors.
    """

    def __init__(self, table: Table, objects: Store, sources_bucket: str, media_bucket: str) -> None:
        self.table = table
        self.lists = Lists(table)
        self.entries = EntryStore(PlaylistStore(table))
        self.objects = objects
        self.sources_bucket = sources_bucket
        self.media_bucket = media_bucket

    def video(self, video_id: str, now: int, in_time: InTime, correlation_id: str | None = None) -> bool:
        """Remove what one video left; nothing more once a video of this id exists again. `now` in epoch seconds.

        What totals have counted of it stays: the worker that takes it off them removes it.
        """
        key = VIDEO.key(videoId=video_id)
        if self._is_there(key):
            return True
        caller = PURGE.acting_for(correlation_id)
        if not (self._ratings(video_id, in_time) and self._memberships(video_id, caller, now, in_time)):
            return False
        # Asked with each page and once more, because all that may take a while, and a film is lost for good.
        if self._is_there(key):
            return True
        # The items last: as long as they are there, the objects can be found.
        return (
            self._views(video_id, in_time)
            and self._objects(video_id, in_time)
            and self._children(key[PARTITION_KEY], in_time)
        )

    def playlist(self, playlist_id: str, in_time: InTime) -> bool:
        """Remove the entries of one playlist; does nothing while it exists."""
        return self._children(PLAYLIST.key(playlistId=playlist_id)[PARTITION_KEY], in_time)

    def _is_there(self, key: Key) -> bool:
        return self.table.get(key, attributes=(PARTITION_KEY,), consistent=True) is not None

    def _ratings(self, video_id: str, in_time: InTime) -> bool:
        """Remove its ratings. What says that one was taken back is in no index, and ends by itself."""
        for entries in self._related(sharded(rated_relation(video_id))):
            if not in_time():
                return False
            if self._is_there(VIDEO.key(videoId=video_id)):
                return True
            self.table.batch_delete([key_of(entry) for entry in entries])
        return True

    def _memberships(self, video_id: str, caller: Caller, now: int, in_time: InTime) -> bool:
        for entries in self._related(unsharded(in_playlist_relation(video_id))):
            if self._is_there(VIDEO.key(videoId=video_id)):
                return True
            for entry in entries:
                if not in_time():
                    return False
                self.entries.forget(entry["relId"], video_id, caller, now)
        return True

    def _related(self, relation: Sequence[Mapping[str, Value]]) -> Iterator[Sequence[Item]]:
        """A relation's entries in pages, until there are none.

        An index shows a removal a little later, so it is read again from its start until nothing is found.
        """
        after, any_left, rounds = None, False, 0
        while True:
            page = self.lists.related(relation, Window(0, LAST_SECOND + 1, True, PAGE, after))
            if page.items:
                any_left = True
                yield page.items
            after = page.resume
            if after is None:
                if not any_left:
                    return
                any_left, rounds = False, rounds + 1
                self.table.pause(rounds)

    def _views(self, video_id: str, in_time: InTime) -> bool:
        """Remove the counter, and the hours and days in which the video was viewed.

        The markers of its viewers stay, in partitions that nothing names: each has had a purgeAt from the start, hours or days
        ahead, and DynamoDB removes it then.
        """
        shards = [VIEW_COUNTER.key(videoId=video_id, shard=shard) for shard in range(MOST_VIEW_SHARDS)]
        # Shard 0 goes last: it says how many there are, and that anything is left.
        first = self.table.get(shards[0], attributes=(PARTITION_KEY, "spread"), consistent=True)
        if first is None:
            return True
        if not self._children(VIEW_HOUR.key(videoId=video_id, hour="")[PARTITION_KEY], in_time, self._one_by_one):
            return False
        self._one_by_one([*shards[1 : shards_of(first)], shards[0]])
        return True

    def _one_by_one(self, keys: Iterable[Key]) -> None:
        """Delete items where this role may not put any: IAM cannot distinguish the two in a BatchWriteItem."""
        for key in keys:
            self.table.delete(key)

    def _objects(self, video_id: str, in_time: InTime) -> bool:
        """Remove the films, pictures, renditions and captions."""
        media = [(self.media_bucket, f"{folder}/{video_id}/") for folder in MEDIA_FOLDERS]
        for bucket, prefix in ((self.sources_bucket, f"{video_id}/"), *media):
            if not in_time():
                return False
            self.objects.delete_prefix(bucket, prefix)
        return True

    def _children(self, partition: str, in_time: InTime, delete: Callable[[Sequence[Key]], None] | None = None) -> bool:
        """Remove all items of a partition whose head is gone; nothing more once it is there again."""
        delete = delete or self.table.batch_delete
        while in_time():
            # From the start each time: what has been deleted is not met again.
            page = self.table.query(
                index=None,
                condition=Expression.of("#pk = :pk", pk=partition),
                attributes=(PARTITION_KEY, SORT_KEY),
                limit=PAGE,
                consistent=True,
            )
            # Videos and playlists have the same sort key, and nothing stands before it.
            if page.items and page.items[0][SORT_KEY] == VIDEO.sk:
                return True
            delete([key for key in page.items if key[SORT_KEY] != MARKER.sk])
            if page.last_key is None:
                return True
        return False
