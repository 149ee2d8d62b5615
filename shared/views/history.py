"""What was counted of a video and when: by what its counter held at the starts of hours and days, and what it holds now.

The stream keeps a start for each hour, and each day (UTC), in which a shard of the counter was written. So a shard held at any full
hour what it held at the start of the next hour that has one, or else what it holds now. A view belongs to the hour in which
it is counted. What was counted in the last seconds may still be missing, or stand in the hour before.
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
from shared.core.periods import DAY_SECONDS, HOUR_SECONDS, HOURS_KEPT_DAYS, day_of, hour_of, start_of
from shared.schema import PARTITION_KEY, SORT_KEY, VIDEO, VIEW_DAY, VIEW_HOUR
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import owned_by
from shared.videos.counters import COUNTED, SUMS, UNCOUNTED, Counted, ViewCounters

UTC = "UTC"
"""The time zone whose days are kept for good."""

Sums = Mapping[str, int]
Start = tuple[int, Mapping[int, Sums]]
"""When an hour or day began (epoch seconds), and what the shards held that were written in it."""


@dataclass(frozen=True)
class Granularity:
    """One way to divide time."""

    seconds: int
    default: int
    """How many buckets are shown unless `from` says otherwise."""
    most: int


GRANULARITIES = {
    "hour": Granularity(HOUR_SECONDS, default=24, most=31 * 24),
    "day": Granularity(DAY_SECONDS, default=30, most=366),
}


class History:
    """Starts and counters in the table, for the owners of videos and admins. Methods raise NotFound and Forbidden."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.counters = ViewCounters(table)

    def views(self, video_id: str, caller: Caller, now: int, buckets: "Buckets") -> dict[str, Any]:
        """What was counted in each bucket: `{"from", "to", "views", "watchedMs"}`, times in epoch seconds."""
        live = self._owned(video_id, caller, now)
        sums = self.sums_at(video_id, buckets.bounds, live, by_day=buckets.by_day)
        items = [
            {"from": start, "to": end, "views": views_of(growth), "watchedMs": growth["watched"]}
            for (start, end), growth in zip(pairwise(buckets.bounds), map(_growth, sums, sums[1:]), strict=True)
        ]
        shown = {"videoId": video_id, "granularity": buckets.granularity, "tz": buckets.tz, "items": items}
        return shown | {"total": sum(item["views"] for item in items)}

    def explain(self, video_id: str, caller: Caller, now: int, window_seconds: int) -> dict[str, Any]:
        """How many views were counted and not, by rule, since the first full hour of the last 24 hours.

        `window_seconds` is how long the views of one viewer count once.
        """
        live = self._owned(video_id, caller, now)
        start = -(-(now - DAY_SECONDS) // HOUR_SECONDS) * HOUR_SECONDS
        growth = _growth(*self.sums_at(video_id, [start, now + 1], live))
        counted = {"total": views_of(growth), "anonymous": growth["views"], "identified": growth["keyed"]}
        because = {
            "repeated": f"A view of the same viewer was counted in the {window_seconds // 60} minutes before it, or after it.",
            "owner": "The owner of the video watched it, and this deployment does not count that.",
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
        self, video_id: str, times: Sequence[int], live: Counted, *, by_day: bool = False
    ) -> list[dict[str, int]]:
        """The sums of a counter at times in ascending order, which are full hours, or with `by_day` full days (UTC).

        One Query, or more when a counter has several shards that were not written for long; `live` is what it holds now.
        """
        starts = list(self._starts(video_id, times[0], times[-1], live, by_day=by_day))
        return sums_at(times, starts, live)

    def _owned(self, video_id: str, caller: Caller, now: int) -> Counted:
        """What the counter holds, if the video is the caller's."""
        video = self.table.get(VIDEO.key(videoId=video_id), attributes=VISIBILITY_ATTRIBUTES)
        owned_by(video, caller, now)
        return self.counters.read([video_id])[video_id]

    def _starts(self, video_id: str, first: int, last: int, live: Counted, *, by_day: bool) -> Iterator[Start]:
        """The starts from `first` on, as far as they are needed to know what each shard held at `last`."""
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


def sums_at(times: Sequence[int], starts: Sequence[Start], live: Counted) -> list[dict[str, int]]:
    """The sums of all shards at these times: of each shard, its first start from then on, or else what it holds now.

    `times` and `starts` are in ascending order.
    """
    held, left = dict(live.shards), list(starts)
    sums = []
    for moment in reversed(times):
        while left and left[-1][0] >= moment:
            held |= left.pop()[1]
        sums.append({name: sum(int(shard.get(name, 0)) for shard in held.values()) for name in SUMS})
    return sums[::-1]


@dataclass(frozen=True)
class Buckets:
    """Which hours or days are asked for."""

    granularity: str
    tz: str
    bounds: Sequence[int]
    """Where they begin and the last one ends, in epoch seconds: full hours."""

    @property
    def by_day(self) -> bool:
        """Whether the starts of days suffice."""
        return self.granularity == "day" and self.tz == UTC

    @classmethod
    def of(cls, granularity: str, tz: str, start: int | None, end: int | None, now: int) -> "Buckets":
        """All hours, or days in a time zone, that have a part in [start, end); raises InvalidParameter.

        Hours are those of UTC. In a zone that is off by half an hour a day begins with the first full hour of UTC in it.
        """
        kind = GRANULARITIES[granularity]
        until = now + 1 if end is None else end
        since = max(0, until - (kind.default + 2) * kind.seconds) if start is None else start
        if since >= until:
            raise InvalidParameter.named("from", "must be before `to`, which is not part of the range")
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
        if not buckets.by_day and bounds[0] < now - HOURS_KEPT_DAYS * DAY_SECONDS:
            raise InvalidParameter.named(
                "from", f"must be within the last {HOURS_KEPT_DAYS} days, unless days are asked for in UTC"
            )
        return buckets


def _hours(since: int, until: int) -> list[int]:
    first, last = since // HOUR_SECONDS, -(-until // HOUR_SECONDS)
    return [hour * HOUR_SECONDS for hour in range(first, last + 1)]


def _days(since: int, until: int, tz: str) -> list[int]:
    if tz == UTC:
        first, last = since // DAY_SECONDS, -(-until // DAY_SECONDS)
        return [day * DAY_SECONDS for day in range(first, last + 1)]
    # Imported here, because other requests need no time zones.
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(tz)
    # Where days begin late, a time soon after midnight is part of the day before.
    day = datetime.fromtimestamp(since, zone).date() - timedelta(days=1)
    bounds = [_beginning(day, zone)]
    while bounds[-1] < until:
        day += timedelta(days=1)
        begins = _beginning(day, zone)
        bounds = [begins] if begins <= since else [*bounds, begins]
    return bounds


def _beginning(day: date, zone: Any) -> int:
    """The first full hour of UTC of a day somewhere, in epoch seconds."""
    midnight = int(datetime.combine(day, time(), zone).timestamp())
    return -(-midnight // HOUR_SECONDS) * HOUR_SECONDS


def _growth(before: Sums, after: Sums) -> dict[str, int]:
    """What was added from one time to another. Reads are not of one moment: what they have in reverse is nothing."""
    return {name: max(0, after[name] - before[name]) for name in SUMS}


def views_of(sums: Sums) -> int:
    """The views that were counted, of all that is in sums."""
    return sum(sums[name] for name in COUNTED)
