"""Counts views: which of them count, once for each viewer and key, and what is known of the videos they belong to."""

import hashlib
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.aws.idempotency import LIFETIME_SECONDS
from shared.aws.records import absent_or_purged, is_ours, new_write_id
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import NotApplied, Unavailable, invalid_field
from shared.core.periods import DAY_SECONDS
from shared.schema import SCHEMA_VERSION, TTL_ATTRIBUTE, VIDEO, VIEWER, lane_of
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import is_published, seen_by
from shared.videos.counters import UNCOUNTED, ViewCounters

CACHE_SECONDS = 5
"""How long a change of who may see a video can go unnoticed when counting its views."""
CACHE_VIDEOS = 1000

WINDOW_SECONDS = 30 * 60
"""In this time the views of one viewer count once, unless the deployment says otherwise."""
EARLIEST_SECONDS, LATEST_SECONDS = 7 * DAY_SECONDS, 60
"""How far in the past and in the future the time of a view may be."""
MARKER_SECONDS = EARLIEST_SECONDS + DAY_SECONDS
"""How long a viewer's last view is known. A window lasts a day at most, so this is enough for every view that may be sent."""

DUPLICATE, REPEATED = "duplicate", "repeated"
REASONS = (DUPLICATE, *UNCOUNTED)
"""Why a view does not count: a retry of one that was sent before, or a rule."""


@dataclass(frozen=True)
class View:
    """One view of a video, as a player reports it."""

    video_id: str
    at: int
    """When it was, in epoch seconds."""
    viewer_id: str | None = None
    """Who watched, by a name of the caller's own."""
    id: str | None = None
    """What its retries are known by: its Idempotency-Key, or its id in a batch."""
    id_seconds: int = LIFETIME_SECONDS
    """How long the id is known."""
    watched: int = 0
    """Milliseconds."""


@dataclass(frozen=True)
class Verdict:
    """Whether a view counts."""

    reason: str | None = None
    """None: it counts; else one of REASONS."""
    window_ends: int | None = None
    """From when on another view of the same viewer counts, in epoch seconds; None without a viewer."""

    def told(self, views: int) -> Item:
        """What the answer says of the view; `views` is the video's view count."""
        return {
            "counted": self.reason is None,
            "reason": self.reason,
            "viewCount": views,
            "windowEnds": self.window_ends,
        }


class ViewStore:
    """Views in the table."""

    def __init__(self, table: Table, window: int = WINDOW_SECONDS, *, counts_own: bool = False) -> None:
        """`window` in seconds, a day at most; `counts_own`: whether the views of a video's owner count."""
        self.table = table
        self.window = window
        self.counters = ViewCounters(table)
        self._counts_own = counts_own
        self._known: OrderedDict[str, tuple[int, Item]] = OrderedDict()
        self._counts: OrderedDict[str, int] = OrderedDict()

    def require_visible(self, video_id: str, caller: Caller, now: int) -> Item:
        """What is known of a video, up to CACHE_SECONDS old; raises NotFound unless the caller may see it."""
        return seen_by(self._video(video_id, now), caller, now)

    def count(self, view: View, caller: Caller, now: int) -> Item:
        """Count a view if it counts, and return what the answer says of it.

        Raises NotFound unless the caller may see the video, and Unavailable. A view without viewer and id may have been
        counted then, unless that is NotApplied.
        """
        verdict = self.ruled(self.require_visible(view.video_id, caller, now), caller, now)
        if verdict is None and view.viewer_id is None and view.id is None:
            return Verdict().told(self._count_at_once(view, now))
        verdict = verdict or self.mark(view, caller, now)
        if verdict.reason in UNCOUNTED:
            return verdict.told(self.counters.add(view.video_id, {verdict.reason: 1}, now))
        # The stream adds what was marked, in a moment.
        return verdict.told(self._counted(view.video_id, now) + (verdict.reason is None))

    def ruled(self, video: Item, caller: Caller, now: int) -> Verdict | None:
        """The verdict on all views of a video that the caller sees, whoever watched; None: each has its own."""
        if video["status"] == "deleted":
            return Verdict("deleted")
        if "expiresAt" in video and video["expiresAt"] <= now:
            return Verdict("expired")
        if not is_published(video, now):
            return Verdict("unpublished")
        if caller.subject == video["userId"] and not self._counts_own:
            return Verdict("owner")
        return None

    def mark(self, view: View, caller: Caller, now: int) -> Verdict:
        """Put the marker of a viewer's view, or of a view's id, unless it is known; the stream counts what is put.

        Of a viewer's views, one counts that is a window later than the last that counted. So what was sent before never
        counts again, whenever it is sent. Raises Unavailable, after which a view with an id, or the same `at`, can be sent
        again.
        """
        name = _pseudonym("id", caller, view.id or "")
        condition = absent_or_purged(now)
        window_ends, kept_until = None, now + view.id_seconds
        if view.viewer_id is not None:
            name = _pseudonym("viewer", caller, view.viewer_id)
            condition = _after_the_window(view, view.at - self.window, now)
            window_ends, kept_until = view.at + self.window, view.at + MARKER_SECONDS
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
            TTL_ATTRIBUTE: kept_until,
        }
        try:
            self.table.write(self.table.put(marker, condition=condition))
        except ConditionFailed as failure:
            known = failure.item
            if known is None:
                raise Unavailable from failure
            if not is_ours(known, marker):
                is_retry = view.id is not None and known.get("id") == view.id
                ends = None if view.viewer_id is None else known["at"] + self.window
                return Verdict(DUPLICATE if is_retry else REPEATED, ends)
        return Verdict(window_ends=window_ends)

    def videos(self, video_ids: Sequence[str], now: int) -> dict[str, Item | None]:
        """What is known of different videos, up to CACHE_SECONDS old: one BatchGetItem for those that are not remembered."""
        known = {video_id: self._remembered(video_id, now) for video_id in video_ids}
        unknown = [video_id for video_id, item in known.items() if item is None]
        keys = [VIDEO.key(videoId=video_id) for video_id in unknown]
        items = self.table.get_all(keys, attributes=VISIBILITY_ATTRIBUTES)
        for video_id, item in zip(unknown, items, strict=True):
            known[video_id] = self._remember(video_id, item, now)
        return known

    def _count_at_once(self, view: View, now: int) -> int:
        """Count a view that nothing tells from another one, and return the new count."""
        additions = {"views": 1, "watched": view.watched} if view.watched else {"views": 1}
        try:
            return self.counters.add(view.video_id, additions, now)
        except NotApplied:
            raise
        except Unavailable as error:
            raise Unavailable(
                "The view may or may not have been counted. Send an Idempotency-Key with each view to make retries safe."
            ) from error

    def _counted(self, video_id: str, now: int) -> int:
        """The view count; the one that was read last when it cannot be read now, because the marker is put already."""
        try:
            count = self.counters.count(video_id, now)
        except Unavailable as error:
            if video_id not in self._counts:
                raise Unavailable(
                    "The view is known, but the count cannot be read now. Sent again, it does not count again."
                ) from error
            return self._counts[video_id]
        self._counts.pop(video_id, None)
        self._counts[video_id] = count
        if len(self._counts) > CACHE_VIDEOS:
            self._counts.popitem(last=False)
        return count

    def _video(self, video_id: str, now: int) -> Item | None:
        """What seen_by needs to know."""
        known = self._remembered(video_id, now)
        if known is None:
            item = self.table.get(VIDEO.key(videoId=video_id), attributes=VISIBILITY_ATTRIBUTES)
            known = self._remember(video_id, item, now)
        return known

    def _remembered(self, video_id: str, now: int) -> Item | None:
        known = self._known.get(video_id)
        # Not a monotonic clock, as that may stand still while Lambda freezes the function.
        if known and 0 <= now - known[0] < CACHE_SECONDS:
            self._known.move_to_end(video_id)
            return known[1]
        return None

    def _remember(self, video_id: str, item: Item | None, now: int) -> Item | None:
        """Remember a video; only those that exist, and the longest unused is forgotten first."""
        self._known.pop(video_id, None)
        if item:
            self._known[video_id] = (now, item)
            if len(self._known) > CACHE_VIDEOS:
                self._known.popitem(last=False)
        return item


def require_timely(at: int, now: int) -> None:
    """Raise InvalidContent unless a view can be counted that was at this time."""
    if not now - EARLIEST_SECONDS <= at <= now + LATEST_SECONDS:
        detail = (
            f"must not be more than {EARLIEST_SECONDS // DAY_SECONDS} days in the past, or {LATEST_SECONDS} seconds in the "
            "future"
        )
        raise invalid_field("/at", detail)


def _after_the_window(view: View, latest: int, now: int) -> Expression:
    """The condition that a viewer's last view was at `latest` or before, and was not sent with the same id."""
    is_later, values = "#at <= :latest", {"now": now, "latest": latest}
    if view.id is None:
        return Expression.of(f"attribute_not_exists(#pk) OR #purgeAt <= :now OR {is_later}", **values)
    return Expression.of(
        f"attribute_not_exists(#pk) OR #purgeAt <= :now OR ({is_later} AND (attribute_not_exists(#id) OR #id <> :id))",
        **values,
        id=view.id,
    )


def _pseudonym(kind: str, caller: Caller, name: str) -> str:
    """128 bits in base64url in place of a caller's name for a viewer or a view: nobody else's name leads to the same."""
    digest = hashlib.sha256("\0".join((kind, caller.subject, name)).encode()).digest()
    return urlsafe_b64encode(digest[:16]).rstrip(b"=").decode()
