"""View history of a video, computed from its current counter and from stored sums at the starts of hours and days.

At the first write of a counter's shard in an hour or UTC day, the stream consumer stores the sums that the shard had
before. The first sums that were stored after a full hour are therefore the shard's sums at that hour. If no sums were
stored after it, they are the shard's current sums.

A view belongs to the hour in which it is counted. Views of the last seconds before a request may be missing or
attributed to the preceding hour.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from typing import Any

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.core.attributes import decode_item
from shared.core.caller import Caller
from shared.core.errors import InvalidParameter
from shared.core.periods import DAY_SECONDS, HOUR_SECONDS, HOURS_RETAINED_DAYS, day_of, hour_of, start_of
from shared.schema import PARTITION_KEY, SORT_KEY, VIDEO, VIEW_DAY, VIEW_HOUR
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import require_owned
from shared.videos.counters import COUNTED, SUMS, UNCOUNTED, ViewCount, ViewCounters

UTC = "UTC"
"""Time zone for which the sums at the start of each day are stored. These sums never expire."""

Sums = Mapping[str, int]
Start = tuple[int, Mapping[int, Sums]]
"""Start of an hour or day, in epoch seconds, and sums of shards at this time. Only shards that were written in the hour
or day are included."""


@dataclass(frozen=True)
class Granularity:
    """Kind of the intervals (buckets) of a view history: hours or days. Also limits the number of buckets."""

    seconds: int
    """Length of a bucket in seconds."""
    default: int
    """Number of buckets if the request has no parameter `from`."""
    most: int
    """Maximum number of buckets per request."""


GRANULARITIES = {
    "hour": Granularity(HOUR_SECONDS, default=24, most=31 * 24),
    "day": Granularity(DAY_SECONDS, default=30, most=366),
}


class ViewHistory:
    """Reader of the view history of videos, for owners and admins. Methods raise NotFound and Forbidden."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.counters = ViewCounters(table)

    def views(self, video_id: str, caller: Caller, now: int, buckets: "Buckets") -> dict[str, Any]:
        """Return the response to `getViews`. Its `items` are the views in each bucket, as `{"from", "to", "views",
        "watchedMs"}`.

        The times `from` and `to` are in epoch seconds.
        """
        live = self._owned(video_id, caller, now)
        sums = self.sums_at(video_id, buckets.bounds, live, by_day=buckets.by_day)
        items = [
            {"from": start, "to": end, "views": views_of(growth), "watchedMs": growth["watched"]}
            for (start, end), growth in zip(pairwise(buckets.bounds), map(_growth, sums, sums[1:]), strict=True)
        ]
        shown = {"videoId": video_id, "granularity": buckets.granularity, "tz": buckets.tz, "items": items}
        return shown | {"total": sum(item["views"] for item in items)}

    def explain(self, video_id: str, caller: Caller, now: int, window_seconds: int) -> dict[str, Any]:
        """Return the response to `explainViews`: how many views of the last 24 hours were counted, and how many each
        rule excluded.

        The period starts at the first full hour within the 24 hours. `window_seconds` is the interval within which
        several views of one viewer count once.
        """
        live = self._owned(video_id, caller, now)
        start = -(-(now - DAY_SECONDS) // HOUR_SECONDS) * HOUR_SECONDS
        growth = _growth(*self.sums_at(video_id, [start, now + 1], live))
        counted = {"total": views_of(growth), "anonymous": growth["views"], "identified": growth["keyed"]}
        because = {
            "repeated": f"A later view of the same viewer was counted, or a view less than {window_seconds // 60} minutes earlier.",
            "owner": "The owner watched the video, and this deployment does not count views by owners.",
            "unpublished": "The video was not published.",
            "expired": "The video had expired.",
            "deleted": "The video was deleted.",
        }
        return {
            "videoId": video_id,
            "from": start,
            "to": now,
            "counted": counted,
            "notCounted": {
                "total": sum(growth[rule] for rule in UNCOUNTED),
                **{rule: growth[rule] for rule in UNCOUNTED},
            },
            "viewCount": live.views,
            "rules": [{"rule": rule, "because": because[rule]} for rule in UNCOUNTED],
        }

    def sums_at(
        self, video_id: str, times: Sequence[int], live: ViewCount, *, by_day: bool = False
    ) -> list[dict[str, int]]:
        """Return the sums of a counter at each of the given times.

        `times` must be ascending full hours in epoch seconds or, with `by_day`, starts of UTC days. `live` is the
        current counter. Costs one Query, or more if a counter has several shards and some were not written for a long
        time.
        """
        starts = list(self._starts(video_id, times[0], times[-1], live, by_day=by_day))
        return sums_at(times, starts, live)

    def _owned(self, video_id: str, caller: Caller, now: int) -> ViewCount:
        """Return the counter of a video that the caller owns; raise NotFound or Forbidden."""
        video = self.table.get(VIDEO.key(videoId=video_id), attributes=VISIBILITY_ATTRIBUTES)
        require_owned(video, caller, now)
        return self.counters.read([video_id])[video_id]

    def _starts(self, video_id: str, first: int, last: int, live: ViewCount, *, by_day: bool) -> Iterator[Start]:
        """Yield the stored sums of a counter's shards at the starts of hours, or of UTC days if `by_day` is true.

        Begins with the hour or day that contains `first`. `live` is the current counter. Reads pages until each shard
        of the counter has sums for the time `last` or later, or until there are no more sums.
        """
        if by_day:
            low = VIEW_DAY.key(videoId=video_id, day=day_of(first))
            high, seconds = VIEW_DAY.key(videoId=video_id, day="~"), DAY_SECONDS
        else:
            low = VIEW_HOUR.key(videoId=video_id, hour=hour_of(first))
            high, seconds = VIEW_HOUR.key(videoId=video_id, hour="~"), HOUR_SECONDS
        condition = Expression.of(
            "#pk = :pk AND #sk BETWEEN :low AND :high", pk=low[PARTITION_KEY], low=low[SORT_KEY], high=high[SORT_KEY]
        )
        missing = set(live.shards)
        start = None
        while missing:
            page = self.table.query(
                index=None,
                condition=condition,
                attributes=(SORT_KEY, "starts"),
                limit=(last - first) // seconds + 1,
                start=start,
            )
            for item in page.items:
                began = start_of(item[SORT_KEY].partition("#")[2])
                shards = {int(shard): sums for shard, sums in item["starts"].items()}
                yield began, shards
                if began >= last:
                    missing -= shards.keys()
            if page.last_key is None:
                return
            start = decode_item(page.last_key)


def sums_at(times: Sequence[int], starts: Sequence[Start], live: ViewCount) -> list[dict[str, int]]:
    """Return the sums of a counter at each of `times`, added over all shards.

    For each time, a shard's sums are in the first element of `starts` that has this time or a later one, and contains
    the shard. If no such element exists, the sums are in `live`, the current counter. `times` and `starts`
    must be in ascending order.
    """
    held, remaining = dict(live.shards), list(starts)
    sums = []
    for moment in reversed(times):
        while remaining and remaining[-1][0] >= moment:
            held |= remaining.pop()[1]
        sums.append({name: sum(int(shard.get(name, 0)) for shard in held.values()) for name in SUMS})
    return sums[::-1]


@dataclass(frozen=True)
class Buckets:
    """Intervals of a view history: the hours or days that a request selects."""

    granularity: str
    tz: str
    bounds: Sequence[int]
    """Start of each bucket, followed by the end of the last bucket, in epoch seconds. All are full hours."""

    @property
    def by_day(self) -> bool:
        """Whether the buckets are UTC days. If so, they need only the sums stored at the start of each day. These sums
        never expire."""
        return self.granularity == "day" and self.tz == UTC

    @classmethod
    def of(cls, granularity: str, tz: str, start: int | None, end: int | None, now: int) -> "Buckets":
        """Return the hours, or the days in a time zone, that overlap the time from `start` to `end` (exclusive).

        If `end` is `None`, the time ends at `now`. If `start` is `None`, the result has the default number of buckets.

        Hours are UTC hours. In a time zone with a half-hour offset, a day begins at its first full UTC hour. Raises
        InvalidParameter if the range is empty, in the future or too long, or if its sums have expired.
        """
        kind = GRANULARITIES[granularity]
        until = now + 1 if end is None else end
        since = max(0, until - (kind.default + 2) * kind.seconds) if start is None else start
        if since >= until:
            raise InvalidParameter.named("from", "must be before `to`, which is exclusive")
        if since > now:
            raise InvalidParameter.named("from", "must not be in the future")
        too_many = InvalidParameter.named("from", f"must be at most {kind.most} {granularity}s before `to`")
        if until - since > (kind.most + 1) * kind.seconds:
            raise too_many
        bounds = _hours(since, until) if granularity == "hour" else _days(since, until, tz)
        if start is None:
            bounds = bounds[-kind.default - 1 :]
        if len(bounds) - 1 > kind.most:
            raise too_many
        buckets = cls(granularity, tz, bounds)
        if not buckets.by_day and bounds[0] < now - HOURS_RETAINED_DAYS * DAY_SECONDS:
            raise InvalidParameter.named(
                "from", f"must be within the last {HOURS_RETAINED_DAYS} days, except for days in UTC"
            )
        return buckets


def _hours(since: int, until: int) -> list[int]:
    first, last = since // HOUR_SECONDS, -(-until // HOUR_SECONDS)
    return [hour * HOUR_SECONDS for hour in range(first, last + 1)]


def _days(since: int, until: int, tz: str) -> list[int]:
    if tz == UTC:
        first, last = since // DAY_SECONDS, -(-until // DAY_SECONDS)
        return [day * DAY_SECONDS for day in range(first, last + 1)]
    # Local import, because other requests need no time zones.
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(tz)
    # In a zone with a half-hour offset, a time just after midnight belongs to the preceding day.
    day = datetime.fromtimestamp(since, zone).date() - timedelta(days=1)
    bounds = [_beginning(day, zone)]
    while bounds[-1] < until:
        day += timedelta(days=1)
        begins = _beginning(day, zone)
        bounds = [begins] if begins <= since else [*bounds, begins]
    return bounds


def _beginning(day: date, zone: Any) -> int:
    """Return the first full UTC hour of a day in a time zone, in epoch seconds."""
    midnight = int(datetime.combine(day, time(), zone).timestamp())
    return -(-midnight // HOUR_SECONDS) * HOUR_SECONDS


def _growth(before: Sums, after: Sums) -> dict[str, int]:
    """Return the increase of each sum between two times. Reads are not atomic, so negative differences count as 0."""
    return {name: max(0, after[name] - before[name]) for name in SUMS}


def views_of(sums: Sums) -> int:
    """Return the number of counted views in the sums."""
    return sum(sums[name] for name in COUNTED)
