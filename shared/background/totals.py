"""Store of precomputed totals: numbers of a user's videos and playlists, and number of videos by tag and by folder."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from shared.aws.dynamodb import Key, Table
from shared.aws.expressions import Expression
from shared.aws.listing import hydrate_page
from shared.core.attributes import Item, decode_item
from shared.core.folders import split_path
from shared.core.position import Page, Position
from shared.schema import FOLDER_COUNT, PARTITION_KEY, PROFILE, RELATION_INDEX, SORT_KEY, TAG_COUNT, TAGS
from shared.videos.video import STATUSES

SIZES = ("bytes", "milliseconds")
"""Names of the total sizes in a user's totals: bytes of source files, and duration of videos."""
PROFILE_COUNTS = (*STATUSES, *SIZES)
"""Names of the attributes of a user's totals: numbers of videos by status, and sizes of all videos that are not
deleted.

RelationIndex must not project any of these attributes, because each change of a total would then also write to the
index.
"""


FOLDER_COUNTS = ("count", "direct")
"""Names of the counts of a folder: the videos in the folder and its subfolders, and the videos directly in the folder."""


class FolderCounts(NamedTuple):
    """Counts of a folder: the videos in it and its subfolders (`total`), and the videos directly in it (`direct`)."""

    path: str
    total: int
    direct: int

    def document(self) -> dict[str, Any]:
        """Return the folder as API responses show it."""
        return {"folder": self.path, "videos": self.total, "direct": self.direct}


def folder_count_key(user_id: str, path: str) -> Key:
    """Return the key of the counts of a user's folder."""
    parent, name = split_path(path)
    return FOLDER_COUNT.key(userId=user_id, parent=parent, folderName=name)


class TotalsStore:
    """Reader of the totals of users, tags and folders. The aggregates worker and the playlist store update them."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def user(self, user_id: str) -> Item | None:
        """Return a user's totals, or `None` if the user never had videos or playlists. A change is in the totals only
        after some seconds."""
        return self.table.get(PROFILE.key(userId=user_id), attributes=(*PROFILE_COUNTS, "playlists"))

    def folder(self, user_id: str, path: str) -> FolderCounts:
        """Return the counts of a user's folder. The counts are zero if the folder has no videos. A change is in the
        counts only after some seconds. Costs one GetItem."""
        item = self.table.get(folder_count_key(user_id, path), attributes=FOLDER_COUNTS) or {}
        return FolderCounts(path, *(int(item.get(name, 0)) for name in FOLDER_COUNTS))

    def folders(self, user_id: str, parent: str, limit: int, after: Position | None) -> Page[FolderCounts]:
        """Return a page of the folders directly in `parent` that have videos, sorted by name. `parent` is empty for the
        outermost folders.

        Costs one Query, or more if many folders no longer have videos. The counts of such folders are retained.
        """
        first = folder_count_key(user_id, f"{parent}/-" if parent else "-")
        pk, prefix = first[PARTITION_KEY], first[SORT_KEY].removesuffix("-")

        def read(after: Position | None, size: int) -> Page[Item]:
            page = self.table.query(
                index=None,
                condition=Expression.of("#pk = :pk AND begins_with(#sk, :prefix)", pk=pk, prefix=prefix),
                attributes=(SORT_KEY, "folder", *FOLDER_COUNTS),
                limit=size,
                start={PARTITION_KEY: pk, SORT_KEY: after.id} if after else None,
            )
            return Page(page.items, locate(decode_item(page.last_key)) if page.last_key else None)

        def look_up(items: Sequence[Item]) -> list[FolderCounts | None]:
            counts = [
                FolderCounts(item["folder"], *(int(item.get(name, 0)) for name in FOLDER_COUNTS)) for item in items
            ]
            return [folder if folder.total > 0 else None for folder in counts]

        def locate(item: Item) -> Position:
            return Position(0, item[SORT_KEY])

        return hydrate_page(read, look_up, limit=limit, after=after, locate=locate)

    def tags(self, limit: int, after: Position | None) -> tuple[list[dict[str, Any]], Position | None]:
        """Return a page of at most `limit` tags with their counts, and the position of the next page.

        The position is `None` on the last page. The most used tags are first. Tags with the same count are in
        descending order of the tag.
        """
        partition = {"rel": TAGS, "relShard": 0}
        start = None
        if after:
            start = {**TAG_COUNT.key(tag=after.id), **partition, "relSort": after.at, "relId": after.id}
        page = self.table.query(
            index=RELATION_INDEX.name,
            condition=Expression.of(
                "#rel = :rel AND #relShard = :relShard AND #relSort >= :least", **partition, least=1
            ),
            attributes=("relSort", "relId"),
            ascending=False,
            # One extra item shows whether there is a next page.
            limit=limit + 1,
            start=start,
        )
        tags = [{"tag": item["relId"], "count": int(item["relSort"])} for item in page.items[:limit]]
        more = len(page.items) > limit
        return tags, Position(tags[-1]["count"], tags[-1]["tag"]) if more else None


def user_document(user_id: str, counts: Item) -> dict[str, Any]:
    """Return a user's totals as API responses show them. `bytes` and `duration` (milliseconds) exclude deleted videos."""
    videos = {status: int(counts.get(status, 0)) for status in STATUSES}
    alive = sum(videos.values()) - videos["deleted"]
    return {
        "userId": user_id,
        "videos": {"total": alive, **videos},
        "bytes": int(counts.get("bytes", 0)),
        "duration": int(counts.get("milliseconds", 0)),
        "playlists": int(counts.get("playlists", 0)),
    }
