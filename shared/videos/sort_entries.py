"""Sort entries: the items that put a video into the lists by rating and by views.

Ratings and views change more often than their video, so the values by which lists sort are in separate small items. A
video has at most one entry for each order. The entry is in `UserOrderIndex` and, while the video is listed, also in
`CategoryOrderIndex`. Lists read the video of each entry, so an outdated entry never exposes a hidden video.
"""

from collections.abc import Mapping
from functools import partial

from shared.aws.dynamodb import Table, Write, gather
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.aws.records import ABSENT, CONFLICTS, retry_on_conflict
from shared.core.attributes import Item
from shared.schema import BY_RATING, ORDER, RATING_TOTALS, SCHEMA_VERSION, VIDEO
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import is_purged
from shared.videos.entries import as_read, with_list_position
from shared.videos.orders import rating_value

POSITION_ATTRIBUTES = (*VISIBILITY_ATTRIBUTES, "videoId", "category", "version", "rel")
"""Names of a video's attributes from which its sort entries are computed."""


class SortEntries:
    """Writer of sort entries. `EntryUpdater` moves them when their video changes."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def place_rating(self, video_id: str, now: int) -> None:
        """Update a video's entry in the lists by rating, using the stored rating totals. Deletes the entry if the video
        has no ratings.

        Costs 2 RRU, and 3 to 5 WRU if the average changed. A repeated call writes nothing. Raises Unavailable and
        WriteContention.
        """
        key = ORDER.key(videoId=video_id, order=BY_RATING)
        totals, entry = self.table.get_all(
            [RATING_TOTALS.key(videoId=video_id), key], attributes=("sum", "votes", "orderValue"), consistent=True
        )
        value = rating_value(int(totals.get("sum", 0)), int(totals.get("votes", 0))) if totals else None
        if value == (entry or {}).get("orderValue"):
            return
        if value is None:
            self.table.delete(key)
        else:
            self.place(BY_RATING, {video_id: value}, now)

    def place(self, order: str, values: Mapping[str, str], now: int) -> None:
        """Set the values by which lists in one order, such as BY_VIEWS, sort videos. `values` maps video ids to these
        sort values. Sends the updates concurrently.

        Creates missing entries, except for videos that do not exist. Raises Unavailable and WriteContention; some
        entries may then be updated already.
        """
        results = gather(
            partial(self.table.begin_write, self._update(video_id, order, value)) for video_id, value in values.items()
        )
        for (video_id, value), result in zip(values.items(), results, strict=False):
            if isinstance(result, ConditionFailed):
                if result.item is None:
                    self._create(video_id, order, value, now)
            elif isinstance(result, Exception):
                raise result

    def _update(self, video_id: str, order: str, value: str) -> Write:
        return self.table.update(
            ORDER.key(videoId=video_id, order=order),
            Expression.of("SET #orderValue = :value", value=value),
            condition=Expression.of("attribute_exists(#pk) AND #orderValue <> :value", value=value),
        )

    def _create(self, video_id: str, order: str, value: str, now: int) -> None:
        """Create an entry, in a transaction that also checks that the entry's video has not changed since it was
        read."""
        key = VIDEO.key(videoId=video_id)

        def attempt(_: Item | None) -> None:
            video = self.table.get(key, attributes=POSITION_ATTRIBUTES, consistent=True)
            if video is None or is_purged(video, now):
                return
            entry = {
                **ORDER.key(videoId=video_id, order=order),
                "videoId": video_id,
                "orderBy": order,
                "orderValue": value,
                "schemaVersion": SCHEMA_VERSION,
            }
            check = self.table.check(key, condition=as_read(video))
            try:
                self.table.transact([check, self.table.put(with_list_position(entry, video), condition=ABSENT)])
            except ConditionFailed as failure:
                if failure.position == 0:
                    raise  # the video has changed
                # Another writer has created the entry, perhaps with a newer value, so this value is not written.

        retry_on_conflict(attempt, "the video", pause=self.table.pause, on=CONFLICTS)
