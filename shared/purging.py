"""The end of a video: everything that its removal leaves behind is removed too."""

from typing import Protocol

from shared.dynamodb import Expression, Table
from shared.schema import PARTITION_KEY, SORT_KEY, VIDEO, VIEW_COUNTER, VIEW_SHARDS


class Store(Protocol):
    """Where objects are, as far as a purge needs it."""

    def delete_prefix(self, bucket: str, prefix: str) -> int:
        """Delete all objects below a prefix; returns how many that were."""


class Purge:
    """Removes the children of removed videos. It can be broken off anywhere and done again."""

    def __init__(self, table: Table, objects: Store, sources_bucket: str, media_bucket: str) -> None:
        self.table = table
        self.objects = objects
        self.sources_bucket = sources_bucket
        self.media_bucket = media_bucket

    def video(self, video_id: str) -> None:
        """Remove what one video left; does nothing when a video of this id exists again. Raises Unavailable."""
        key = VIDEO.key(videoId=video_id)
        if self.table.get(key, attributes=(PARTITION_KEY,), consistent=True):
            return
        for shard in range(VIEW_SHARDS):
            self.table.delete(VIEW_COUNTER.key(videoId=video_id, shard=shard))
        self.objects.delete_prefix(self.sources_bucket, f"{video_id}/")
        for folder in ("thumbnails", "renditions"):
            self.objects.delete_prefix(self.media_bucket, f"{folder}/{video_id}/")
        # The items last: they are what tells of the objects.
        self._children(key[PARTITION_KEY])

    def _children(self, partition: str) -> None:
        while True:
            # From the start each time: what has been deleted is not met again.
            page = self.table.query(
                index=None,
                condition=Expression("#pk = :pk", {"#pk": PARTITION_KEY}, {":pk": partition}),
                attributes=(PARTITION_KEY, SORT_KEY),
                limit=100,
                consistent=True,
            )
            for key in page.items:
                if key[SORT_KEY] != VIDEO.sk:
                    self.table.delete(key)
            if page.last_key is None:
                return
