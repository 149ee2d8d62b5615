"""Counts views: which of them count, once for each viewer and key, and what is known of the videos they belong to."""

from collections import OrderedDict

from shared.aws.dynamodb import Table
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import NotApplied, Unavailable
from shared.schema import VIDEO
from shared.videos.access import VISIBILITY_ATTRIBUTES, seen_by
from shared.videos.counters import ViewCounters

CACHE_SECONDS = 5
"""How long a change of who may see a video can go unnoticed when counting its views."""
CACHE_VIDEOS = 1000


class ViewStore:
    """Views in the table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.counters = ViewCounters(table)
        self._known: OrderedDict[str, tuple[int, Item]] = OrderedDict()

    def require_visible(self, video_id: str, caller: Caller, now: int) -> None:
        """Raise NotFound unless the caller may see the video; what is known of it is up to CACHE_SECONDS old."""
        seen_by(self._video(video_id, now), caller, now)

    def count(self, video_id: str, now: int) -> int:
        """Count one view and return the new count; raises Unavailable, after which it may have been counted."""
        try:
            return self.counters.add(video_id, {"views": 1}, now)
        except NotApplied:
            raise
        except Unavailable as error:
            raise Unavailable(
                "The view may or may not have been counted. Send an Idempotency-Key with each view to make retries safe."
            ) from error

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
