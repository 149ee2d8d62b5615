"""View counts: exact, and one write unit each, whatever the video's document weighs.

The counter has a partition of its own, so that views neither heat the document nor pay for its size, and so
that a role can be kept from it by its leading key.
"""

from collections import OrderedDict

from shared.aws.dynamodb import Table, Write
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.aws.records import absent_or_purged
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import KeyReused, NotApplied, Unavailable
from shared.schema import SCHEMA_VERSION, TTL_ATTRIBUTE, VIDEO, VIEW_COUNTER, VIEW_ID
from shared.videos.access import VISIBILITY_ATTRIBUTES, seen_by
from shared.web.idempotency import LIFETIME_SECONDS

CACHE_SECONDS = 5
"""How long a change of who may see a video can go unnoticed when counting its views."""
CACHE_VIDEOS = 1000

COUNT = ("views", "total")
"""The attributes of a counter that `view_count` reads."""


def view_count(counter: Item | None) -> int:
    """The count in a counter item. Views are added to `views`; what was rolled up from other shards is `total`."""
    return int(counter.get("views", 0) + counter.get("total", 0)) if counter else 0


class ViewStore:
    """Counters in the table, and what is known of the videos they belong to."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._known: OrderedDict[str, tuple[int, Item]] = OrderedDict()

    def require_visible(self, video_id: str, caller: Caller, now: int) -> None:
        """Raise NotFound unless the caller may see the video; what is known of it is up to CACHE_SECONDS old."""
        seen_by(self._video(video_id, now), caller, now)

    def count(self, video_id: str) -> int:
        """Count one view and return the new count: one UpdateItem that adds, so no view is lost to another.

        Raises WriteContention while views with keys are counted, and Unavailable: an addition whose answer was lost may
        have happened, so it is not sent again.
        """
        try:
            return view_count(self.table.write(self._addition(video_id), returning="ALL_NEW"))
        except NotApplied:
            raise
        except Unavailable as error:
            raise Unavailable(
                "The view may or may not have been counted. Send an Idempotency-Key with each view to make retries safe."
            ) from error

    def count_once(self, video_id: str, subject: str, key: str, now: int) -> tuple[int, bool]:
        """Count one view, once for this subject's key; returns the present count, and whether this view is new to it.

        Raises KeyReused, and WriteContention: transactions on one counter exclude each other.
        """
        is_new = True
        record = {
            **VIEW_ID.key(subject=subject, id=key),
            "videoId": video_id,
            "schemaVersion": SCHEMA_VERSION,
            TTL_ATTRIBUTE: now + LIFETIME_SECONDS,
        }
        try:
            self.table.transact([self.table.put(record, condition=absent_or_purged(now)), self._addition(video_id)])
        except ConditionFailed as failure:
            if failure.item is None:
                raise Unavailable from failure
            if failure.item["videoId"] != video_id:
                raise KeyReused("This Idempotency-Key was already used for another video; send a new one.") from failure
            is_new = False
        return view_count(self.table.get(VIEW_COUNTER.key(videoId=video_id, shard=0), consistent=True)), is_new

    def _addition(self, video_id: str) -> Write:
        return self.table.update(
            VIEW_COUNTER.key(videoId=video_id, shard=0),
            Expression.of("ADD #views :one SET #schemaVersion = :current", one=1, current=SCHEMA_VERSION),
        )

    def _video(self, video_id: str, now: int) -> Item | None:
        """What seen_by needs to know; only videos that exist are remembered, the longest unused forgotten first."""
        known = self._known.get(video_id)
        # Not a monotonic clock, as that may stand still while Lambda freezes the function.
        if known and 0 <= now - known[0] < CACHE_SECONDS:
            self._known.move_to_end(video_id)
            return known[1]
        item = self.table.get(VIDEO.key(videoId=video_id), attributes=VISIBILITY_ATTRIBUTES)
        self._known.pop(video_id, None)
        if item:
            self._known[video_id] = (now, item)
            if len(self._known) > CACHE_VIDEOS:
                self._known.popitem(last=False)
        return item
