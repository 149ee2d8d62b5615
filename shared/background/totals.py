"""Store of precomputed totals: numbers of a user's videos and playlists, and number of videos by tag."""

from typing import Any

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.core.attributes import Item
from shared.core.position import Position
from shared.schema import PROFILE, RELATION_INDEX, TAG_COUNT, TAGS
from shared.videos.video import STATUSES

SIZES = ("bytes", "milliseconds")
"""Names of the total sizes in a user's totals: bytes of source files, and duration of videos."""
PROFILE_COUNTS = (*STATUSES, *SIZES)
"""Names of the attributes of a user's totals: numbers of videos by status, and sizes of all videos that are not
deleted.

RelationIndex must not project any of these attributes, because each change of a total would then also write to the
index.
"""


class TotalsStore:
    """Reader of the totals of users and tags. The aggregates worker and the playlist store update them."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def user(self, user_id: str) -> Item | None:
        """Return a user's totals, or `None` if the user never had videos or playlists.

        They are updated seconds after a change.
        """
        return self.table.get(PROFILE.key(userId=user_id), attributes=(*PROFILE_COUNTS, "playlists"))

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
    """Return a user's totals as in API responses. `bytes` and `duration` (milliseconds) exclude deleted videos."""
    videos = {status: int(counts.get(status, 0)) for status in STATUSES}
    alive = sum(videos.values()) - videos["deleted"]
    return {
        "userId": user_id,
        "videos": {"total": alive, **videos},
        "bytes": int(counts.get("bytes", 0)),
        "duration": int(counts.get("milliseconds", 0)),
        "playlists": int(counts.get("playlists", 0)),
    }
