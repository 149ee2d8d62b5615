"""View counting: the rules, the deduplication by viewer and by key, and a cache of the viewed videos."""

import hashlib
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.aws.idempotency import LIFETIME_SECONDS
from shared.aws.records import absent_or_purged, is_own_write, new_write_id
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import NotApplied, Unavailable, invalid_field
from shared.core.periods import DAY_SECONDS
from shared.schema import SCHEMA_VERSION, TTL_ATTRIBUTE, VIDEO, VIEWER, lane_of
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import is_published, require_visible
from shared.videos.counters import UNCOUNTED, ViewCounters

if TYPE_CHECKING:
    from shared.entities import AnyVideo, Video

CACHE_SECONDS = 5
"""Maximum age of the cached attributes of a video, in seconds."""
CACHE_VIDEOS = 1000
"""Maximum number of videos in the cache of an instance."""

WINDOW_SECONDS = 30 * 60
"""Default interval, in seconds, within which several views of one viewer count once. Deployments may override it."""
EARLIEST_SECONDS, LATEST_SECONDS = 7 * DAY_SECONDS, 60
"""Limits for the time of a view, in seconds. The time is at most EARLIEST_SECONDS before the current time, and at most
LATEST_SECONDS after the current time."""
MARKER_SECONDS = EARLIEST_SECONDS + DAY_SECONDS
"""Seconds for which the table stores the deduplication item of a viewer's last view.

A view may be EARLIEST_SECONDS old. The interval within which several views of one viewer count once is at most a day.
Therefore the item exists as long as a new view may be compared with it.
"""

DUPLICATE, REPEATED = "duplicate", "repeated"
REASONS = (DUPLICATE, *UNCOUNTED)
"""Reasons why a view does not count: a retry of an earlier request, or a rule."""


@dataclass(frozen=True)
class View:
    """View of a video, as a player reported it."""

    video_id: str
    at: int
    """Time of the view, in epoch seconds."""
    viewer_id: str | None = None
    """Id of the viewer, which the caller chose; `None` for an anonymous view."""
    id: str | None = None
    """Deduplication key for retries of the request: the Idempotency-Key, or the view's id in a batch."""
    id_seconds: int = LIFETIME_SECONDS
    """Seconds for which the table stores `id`."""
    watched: int = 0
    """Watch time, in milliseconds."""


@dataclass(frozen=True)
class ViewVerdict:
    """Decision whether a view counts, with the reason if it does not."""

    reason: str | None = None
    """Reason why the view does not count: an element of REASONS. `None` if the view counts."""
    window_ends: int | None = None
    """Earliest time, in epoch seconds, at which another view of the viewer counts. `None` for an anonymous
    view, and if `ViewStore.judge` excludes the view."""

    def as_response(self, views: int) -> Item:
        """Return the response to a request with this view. `views` is the video's view count."""
        return {
            "counted": self.reason is None,
            "reason": self.reason,
            "viewCount": views,
            "windowEnds": self.window_ends,
        }


class ViewStore:
    """Store of views. It applies the counting rules. It stores an item per viewer, or per client-supplied id of a view,
    so that each view counts only once."""

    def __init__(self, table: Table, window: int = WINDOW_SECONDS, *, counts_own: bool = False) -> None:
        """Create a store.

        Within `window` seconds, at most a day, several views of one viewer count once. With `counts_own`, views of a
        video by its owner also count.
        """
        self.table = table
        self.window = window
        self.counters = ViewCounters(table)
        self._counts_own = counts_own
        self._cache: OrderedDict[str, tuple[int, Item]] = OrderedDict()
        self._counts: OrderedDict[str, int] = OrderedDict()

    def require_visible(self, video_id: str, caller: Caller, now: int) -> "Video":
        """Return the attributes of a video that an access check needs. Raises NotFound if the caller may not see the
        video.

        The attributes may be up to CACHE_SECONDS old.
        """
        return require_visible(self._video(video_id, now), caller, now)

    def count(self, view: View, caller: Caller, now: int) -> Item:
        """Count a view if the rules allow it, and return the response to the request.

        Raises NotFound if the caller may not see the video. Raises Unavailable; a view without viewer and id may then
        have been counted. After NotApplied, a subclass of Unavailable, the view was not counted.
        """
        verdict = self.judge(self.require_visible(view.video_id, caller, now), caller, now)
        if verdict is None and view.viewer_id is None and view.id is None:
            return ViewVerdict().as_response(self._count_at_once(view, now))
        verdict = verdict or self.store_marker(view, caller, now)
        if verdict.reason in UNCOUNTED:
            return verdict.as_response(self.counters.add(view.video_id, {verdict.reason: 1}, now))
        # The stream consumer counts a new deduplication item shortly afterwards.
        return verdict.as_response(self._counted(view.video_id, now) + (verdict.reason is None))

    def judge(self, video: "AnyVideo", caller: Caller, now: int) -> ViewVerdict | None:
        """Return the verdict if a rule excludes all views of a video by this caller. `None` if each view must
        be judged separately."""
        if video["status"] == "deleted":
            return ViewVerdict("deleted")
        if "expiresAt" in video and video["expiresAt"] <= now:
            return ViewVerdict("expired")
        if not is_published(video, now):
            return ViewVerdict("unpublished")
        if caller.subject == video["userId"] and not self._counts_own:
            return ViewVerdict("owner")
        return None

    def store_marker(self, view: View, caller: Caller, now: int) -> ViewVerdict:
        """Decide whether a view counts, and store its deduplication item if it does. Return the verdict.

        The item's key contains the viewer or, without a viewer, the view's id. The stream consumer counts the views of
        new items. A viewer's view counts only if it is at least one window later than the viewer's last counted view. A
        late retry of an earlier view therefore never counts again.

        Raises Unavailable. The view can then be retried with the same id or the same `at`.
        """
        name = _pseudonym("id", caller, view.id or "")
        condition = absent_or_purged(now)
        window_ends, expires = None, now + view.id_seconds
        if view.viewer_id is not None:
            name = _pseudonym("viewer", caller, view.viewer_id)
            condition = _after_the_window(view, view.at - self.window, now)
            window_ends, expires = view.at + self.window, view.at + MARKER_SECONDS
        lane = lane_of(name)
        marker = {
            **VIEWER.key(videoId=view.video_id, lane=lane, id=name),
            "videoId": view.video_id,
            "lane": lane,
            "at": view.at,
            **({"id": view.id} if view.id is not None else {}),
            **({"watched": view.watched} if view.watched else {}),
            "writeId": new_write_id(),
            "schemaVersion": SCHEMA_VERSION,
            TTL_ATTRIBUTE: expires,
        }
        try:
            self.table.write(self.table.put(marker, condition=condition))
        except ConditionFailed as failure:
            stored = failure.item
            if stored is None:
                raise Unavailable from failure
            if not is_own_write(stored, marker):
                is_retry = view.id is not None and stored.get("id") == view.id
                ends = None if view.viewer_id is None else stored["at"] + self.window
                return ViewVerdict(DUPLICATE if is_retry else REPEATED, ends)
        return ViewVerdict(window_ends=window_ends)

    def videos(self, video_ids: Sequence[str], now: int) -> dict[str, Item | None]:
        """Return the attributes that an access check needs, by video id. The value is `None` if the video does not
        exist.

        The ids must be distinct. The attributes may be up to CACHE_SECONDS old. Costs one BatchGetItem for the videos
        that are not cached.
        """
        cached = {video_id: self._cached(video_id, now) for video_id in video_ids}
        unknown = [video_id for video_id, item in cached.items() if item is None]
        keys = [VIDEO.key(videoId=video_id) for video_id in unknown]
        items = self.table.get_all(keys, attributes=VISIBILITY_ATTRIBUTES)
        for video_id, item in zip(unknown, items, strict=True):
            cached[video_id] = self._remember(video_id, item, now)
        return cached

    def _count_at_once(self, view: View, now: int) -> int:
        """Count a view that has no deduplication key, and return the video's new view count."""
        additions = {"views": 1, "watched": view.watched} if view.watched else {"views": 1}
        try:
            return self.counters.add(view.video_id, additions, now)
        except NotApplied:
            raise
        except Unavailable as error:
            raise Unavailable(
                "The view may or may not have been counted.",
                "Send an Idempotency-Key with each view to make retries safe.",
            ) from error

    def _counted(self, video_id: str, now: int) -> int:
        """Return the view count of a video, or the last known count if DynamoDB is unavailable.

        The view's deduplication item is already stored, so the request must not fail if a count is known. Raises
        Unavailable if none is known.
        """
        try:
            count = self.counters.count(video_id, now)
        except Unavailable as error:
            if video_id not in self._counts:
                raise Unavailable(
                    "The view was recorded; its count is temporarily unavailable.", "Retrying is safe."
                ) from error
            return self._counts[video_id]
        self._counts.pop(video_id, None)
        self._counts[video_id] = count
        if len(self._counts) > CACHE_VIDEOS:
            self._counts.popitem(last=False)
        return count

    def _video(self, video_id: str, now: int) -> Item | None:
        """Return the attributes of a video that an access check needs. `None` if the video does not exist.

        The attributes may be up to CACHE_SECONDS old.
        """
        cached = self._cached(video_id, now)
        if cached is None:
            item = self.table.get(VIDEO.key(videoId=video_id), attributes=VISIBILITY_ATTRIBUTES)
            cached = self._remember(video_id, item, now)
        return cached

    def _cached(self, video_id: str, now: int) -> Item | None:
        cached = self._cache.get(video_id)
        # Wall clock, because a monotonic clock may stop while Lambda freezes the function.
        if cached and 0 <= now - cached[0] < CACHE_SECONDS:
            self._cache.move_to_end(video_id)
            return cached[1]
        return None

    def _remember(self, video_id: str, item: Item | None, now: int) -> Item | None:
        """Cache a video if it exists, and return it. If the cache is full, evict the least recently used video."""
        self._cache.pop(video_id, None)
        if item:
            self._cache[video_id] = (now, item)
            if len(self._cache) > CACHE_VIDEOS:
                self._cache.popitem(last=False)
        return item


def require_timely(at: int, now: int) -> None:
    """Raise InvalidContent if a view's time `at` is outside the limits EARLIEST_SECONDS and LATEST_SECONDS."""
    if not now - EARLIEST_SECONDS <= at <= now + LATEST_SECONDS:
        detail = (
            f"must be at most {EARLIEST_SECONDS // DAY_SECONDS} days before and {LATEST_SECONDS} seconds after the current "
            f"time {now}, not {at}"
        )
        raise invalid_field("/at", detail)


def _after_the_window(view: View, latest: int, now: int) -> Expression:
    """Return the condition under which a viewer's view counts. Either no view of the viewer is stored, or the stored
    view has another id and was not later than `latest`."""
    is_later, values = "#at <= :latest", {"now": now, "latest": latest}
    if view.id is None:
        return Expression.of(f"attribute_not_exists(#pk) OR #purgeAt <= :now OR {is_later}", **values)
    return Expression.of(
        f"attribute_not_exists(#pk) OR #purgeAt <= :now OR ({is_later} AND (attribute_not_exists(#id) OR #id <> :id))",
        **values,
        id=view.id,
    )


def _pseudonym(kind: str, caller: Caller, name: str) -> str:
    """Return a 128-bit hash, in base64url, of the id that a caller chose for a viewer or view.

    The hash includes the caller, so that equal ids of different callers have different hashes.
    """
    digest = hashlib.sha256("\0".join((kind, caller.subject, name)).encode()).digest()
    return urlsafe_b64encode(digest[:16]).rstrip(b"=").decode()
