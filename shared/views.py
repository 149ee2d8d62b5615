"""View counts: exact, and one write unit each, whatever the video's document weighs.

The counter has a partition of its own, so that views neither heat the document nor pay for its size, and so
that a role can be kept from it by its leading key.
"""

import time
from collections import OrderedDict
from collections.abc import Callable

from shared.attributes import Item
from shared.caller import Caller
from shared.dynamodb import ConditionFailed, Expression, Table, TransactionConflict, Write
from shared.errors import KeyReused, Throttled, Unavailable
from shared.idempotency import LIFETIME_SECONDS, in_flight
from shared.schema import PARTITION_KEY, SCHEMA_VERSION, TTL_ATTRIBUTE, VIDEO, VIEW_COUNTER, VIEW_ID
from shared.video import VISIBILITY_ATTRIBUTES, seen_by

CACHE_SECONDS = 5
"""How long a change of who may see a video can go unnoticed when counting its views."""
CACHE_VIDEOS = 1000
COUNT_ATTEMPTS = 3


def view_count(counter: Item | None) -> int:
    """The count in a counter item. Views are added to `views`; what was rolled up from other shards is `total`."""
    return int(counter.get("views", 0) + counter.get("total", 0)) if counter else 0


class ViewStore:
    """Counters in the table, and what is known of the videos they belong to."""

    def __init__(self, table: Table, counters: Table, clock: Callable[[], float] = time.monotonic) -> None:
        """`counters` is the same table over a client that never tries again by itself (see `count`)."""
        self.table = table
        self.counters = counters
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, Item]] = OrderedDict()

    def require_visible(self, video_id: str, caller: Caller, now: int) -> None:
        """Raise NotFound unless the caller may see the video; what is known of it is up to CACHE_SECONDS old."""
        seen_by(self._video(video_id), caller, now)

    def count(self, video_id: str) -> int:
        """Count one view and return the new count: one UpdateItem that adds, so no view is lost to another.

        An addition whose answer was lost may have happened, so only what DynamoDB refused is tried again;
        else raises Unavailable.
        """
        for attempt in range(COUNT_ATTEMPTS):
            if attempt:
                self.counters.back_off(attempt)
            try:
                return view_count(self.counters.write(self._addition(video_id), returning="ALL_NEW"))
            except (Throttled, TransactionConflict):
                continue
            except Unavailable as error:
                raise Unavailable(
                    "The view may have been counted or not. An Idempotency-Key makes it safe to try again."
                ) from error
        raise Throttled

    def count_once(self, video_id: str, subject: str, key: str, now: int) -> int:
        """Count one view, once for this subject's key, and return the present count."""
        record = {
            **VIEW_ID.key(subject=subject, id=key),
            "videoId": video_id,
            "schemaVersion": SCHEMA_VERSION,
            TTL_ATTRIBUTE: now + LIFETIME_SECONDS,
        }
        unseen = Expression(
            "attribute_not_exists(#pk) OR #purgeAt <= :now",
            {"#pk": PARTITION_KEY, "#purgeAt": TTL_ATTRIBUTE},
            {":now": now},
        )
        try:
            self.table.transact([self.table.put(record, condition=unseen), self._addition(video_id)])
        except ConditionFailed as failure:
            if failure.item is None or failure.item["videoId"] != video_id:
                raise KeyReused("This Idempotency-Key was used before, for another video.") from failure
        except TransactionConflict as conflict:
            raise in_flight("The view could not be counted between others; try again with the same key.") from conflict
        return view_count(self.table.get(VIEW_COUNTER.key(videoId=video_id, shard=0), consistent=True))

    def _addition(self, video_id: str) -> Write:
        return self.table.update(
            VIEW_COUNTER.key(videoId=video_id, shard=0),
            Expression(
                "ADD #views :one SET #schemaVersion = :schemaVersion",
                {"#views": "views", "#schemaVersion": "schemaVersion"},
                {":one": 1, ":schemaVersion": SCHEMA_VERSION},
            ),
        )

    def _video(self, video_id: str) -> Item | None:
        """What seen_by needs to know; only videos that exist are remembered, the longest unused forgotten first."""
        known = self._known.get(video_id)
        if known and known[0] > self._clock():
            self._known.move_to_end(video_id)
            return known[1]
        item = self.table.get(VIDEO.key(videoId=video_id), attributes=VISIBILITY_ATTRIBUTES)
        self._known.pop(video_id, None)
        if item:
            self._known[video_id] = (self._clock() + CACHE_SECONDS, item)
            if len(self._known) > CACHE_VIDEOS:
                self._known.popitem(last=False)
        return item
