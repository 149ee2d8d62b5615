"""Rankings of the most viewed and the fastest rising videos, computed from view counts by hour and day.

Each computation (run) also updates the entries with which lists sort videos by views (shared/videos/sort_entries.py),
because it reads the same counters.

A video has an index entry for each hour and day with views. The entry stores the video's view count at the start of
this period. The views in a window are the current count minus the count in the video's earliest entry in the window.
The views in the preceding window are the difference between the counts in the earliest entries of both windows. For a
sharded counter, the computation uses the stored sums at the starts of hours and days instead.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise

from shared.aws.dynamodb import LARGEST_BATCH_GET, Table, gather, require_all
from shared.aws.expressions import Expression
from shared.aws.listing import sharded_partitions
from shared.core.attributes import Item, decode_item
from shared.core.errors import Unavailable
from shared.core.periods import DAY_SECONDS, HOUR_SECONDS, WINDOWS, day_of, hour_of
from shared.core.telemetry import service_logger
from shared.schema import BY_VIEWS, RELATION_INDEX, viewed_relation
from shared.videos.counters import ViewCount
from shared.videos.orders import views_value
from shared.videos.sort_entries import SortEntries
from shared.views.history import ViewHistory, views_of
from shared.views.top import ALL, RankedVideo, TopStore, TopVideos, first_in_each_order

MAX_ENTRIES = 300_000
"""Maximum number of hour entries, and of day entries, that a run reads.

If there are more entries, the windows are shorter than their names say. The field `from` of a list has the window's
actual start.
"""

MAX_CATEGORIES = 100
"""Maximum number of categories that get a list. The categories with the most views are chosen."""

SETTLING_SECONDS = 10 * 60
"""Seconds after the end of an hour until lists that are sorted by views include the hour's views. The delay is necessary,
because the last entries of the hour may be late."""

HOURS_EVERY, DAYS_EVERY = 5 * 60, HOUR_SECONDS
"""Intervals in seconds at which the lists are computed. Every scheduled run, at HOURS_EVERY, computes the lists of
`hour` and `day`. Once in DAYS_EVERY, a run also computes the lists of `week` and `month`."""

REFRESH_SECONDS = 15 * 60
"""Maximum age in seconds of a stored list. If a list did not change, it is stored again only after this time."""

LARGEST_PAGE = 5000
"""Maximum number of entries per Query. That many entries have about 1 MB, the size at which DynamoDB ends a page."""

PLACED_TOGETHER = 1000
"""Number of videos whose sort entries a run updates between two checks of the remaining time."""

CONCURRENCY = 4
"""Maximum number of BatchGetItem requests that read counters in parallel."""

Entries = Mapping[str, tuple[int, str]]
"""Maps the id of each video that was viewed in a period to the video's view count and category at the start of the
period. The category is ALL if the video had none."""


@dataclass(frozen=True)
class ActiveVideos:
    """Videos that were viewed in each of the latest hours or days, latest period first."""

    period_seconds: int
    latest: int
    """Start of the latest period, in epoch seconds."""
    periods: Sequence[Entries]

    def length(self, requested: int) -> int:
        """Return the number of periods of a window: `requested`, but at most half of the available periods.

        A preceding window of the same length is then also available.
        """
        return max(1, min(requested, len(self.periods) // 2))

    def start(self, length: int) -> int:
        """Return the start, in epoch seconds, of the window of the latest `length` periods."""
        return self.latest - (length - 1) * self.period_seconds

    def first(self, since: int, until: int) -> dict[str, int]:
        """Return the first view count of each viewed video, by video id. It is the count at the start of the earliest
        period in which the video was viewed.

        Reads only the periods from `since` (included) to `until` (excluded). Period 0 is the latest period.
        """
        return {
            video_id: count for entries in self.periods[since:until] for video_id, (count, _) in entries.items()
        }  # a later entry of a dict replaces earlier ones, and the earliest periods come last

    def category(self, video_id: str) -> str:
        """Return the category that a video had when it was last viewed."""
        return next(entries[video_id][1] for entries in self.periods if video_id in entries)


class Rankings:
    """Builder of the lists of most viewed videos. It stores the lists in the table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.lists = TopStore(table)
        self.history = ViewHistory(table)
        self.sort_entries = SortEntries(table)

    def compute(self, now: int, in_time: Callable[[], bool] = lambda: True) -> dict[str, int]:
        """Compute the lists that are due. Return the numbers of entries read, videos ranked and lists written, as
        `entries`, `videos` and `lists`.

        Each run also checks the sharded counters of viewed videos, and merges the counters with few views. Skips the
        lists whose windows consist of days (`week` and `month`) if `in_time` returns false. Raises Unavailable if
        DynamoDB is unavailable.
        """
        done: Counter[str] = Counter(entries=0, videos=0, lists=0)
        self._compute(HOUR_SECONDS, now, done, in_time)
        # Allow a minute of tolerance, because runs do not start at exact intervals.
        if in_time() and now - self.lists.computed_at("month") >= DAYS_EVERY - 60:
            self._compute(DAY_SECONDS, now, done, in_time)
        return dict(done)

    def _compute(self, period_seconds: int, now: int, done: Counter[str], in_time: Callable[[], bool]) -> None:
        windows = {name: window for name, window in WINDOWS.items() if window.period_seconds == period_seconds}
        longest = max(window.periods for window in windows.values())
        active = self._active(period_seconds, 2 * longest, now)
        viewed = list(active.first(0, active.length(longest)))
        live = self._live(viewed)
        if period_seconds == HOUR_SECONDS:
            self._place(active, live, now, in_time)
        for name, window in windows.items():
            length = active.length(window.periods)
            ranked = self._ranked(active, length, live)
            done["lists"] += self._write(name, active.start(length), now, self._by_category(active, ranked))
        if period_seconds == HOUR_SECONDS:
            length = active.length(longest)
            self.lists.write_hours(active.start(length), self._by_hour(active, length, live), now)
            for video_id in [video_id for video_id, counted in live.items() if len(counted.shards) > 1]:
                with suppress(Unavailable):  # may occur under heavy load; the next run retries
                    self.history.counters.merge_shards(video_id, now)
        done["entries"] += sum(map(len, active.periods))
        done["videos"] += len(viewed)

    def _place(
        self, active: ActiveVideos, live: Mapping[str, ViewCount], now: int, in_time: Callable[[], bool]
    ) -> None:
        """Update the sort entry (BY_VIEWS) of each video that was viewed in an hour that ended since the last run.

        The time of the last run is stored with the lists of most viewed videos. If a run fails before it stores these
        lists, the next run updates the same sort entries again.
        """
        last_run = self.lists.computed_at("hour")
        ended = {
            video_id: views_value(live[video_id].views)
            for number, entries in enumerate(active.periods)
            if last_run < active.latest - (number - 1) * HOUR_SECONDS + SETTLING_SECONDS <= now
            for video_id in entries
            if video_id in live
        }
        videos = iter(ended.items())
        while some := dict(islice(videos, PLACED_TOGETHER)):
            if not in_time():
                service_logger().warning("too many videos to sort by views", extra={"videos": len(ended)})
                return
            self.sort_entries.place(BY_VIEWS, some, now)

    def _active(self, period_seconds: int, count: int, now: int) -> ActiveVideos:
        """Return the videos viewed in each of the latest `count` periods. Omits the earliest periods if the run would
        otherwise read more than MAX_ENTRIES entries."""
        latest = now // period_seconds * period_seconds
        periods: list[Entries] = []
        remaining = MAX_ENTRIES
        for number in range(count):
            began = latest - number * period_seconds
            entries: dict[str, tuple[int, str]] = {}
            for page in self._pages(hour_of(began) if period_seconds == HOUR_SECONDS else day_of(began)):
                for item in page:
                    entries[item["relId"]] = (int(item["relSort"]), item.get("category", ALL))
                if len(entries) >= remaining:
                    break
            remaining -= len(entries)
            if remaining > 0 or not periods:
                periods.append(entries)
            if remaining <= 0:
                service_logger().warning("too many videos to rank", extra={"periods": len(periods)})
                break
        return ActiveVideos(period_seconds, latest, periods)

    def _pages(self, period: str) -> Iterator[list[Item]]:
        """Yield pages with all entries of an hour or day. Reads the next page of all index shards in parallel.

        The videos with the most views at the start of the period are first. If a single period has more than
        MAX_ENTRIES entries, a run therefore omits the least viewed videos.
        """
        starts: list[tuple[Item, Item | None]] = [
            (partition, None) for partition in sharded_partitions(viewed_relation(period))
        ]
        while starts:
            pages = require_all(
                gather(
                    partial(
                        self.table.begin_query,
                        index=RELATION_INDEX.name,
                        condition=Expression.of(
                            "#rel = :rel AND #relShard = :relShard AND #relSort >= :least", **partition, least=0
                        ),
                        attributes=("relSort", "relId", "category"),
                        limit=LARGEST_PAGE,
                        start=start,
                        ascending=False,
                    )
                    for partition, start in starts
                )
            )
            yield [item for page in pages for item in page.items]
            starts = [
                (partition, decode_item(page.last_key))
                for (partition, _), page in zip(starts, pages, strict=True)
                if page.last_key is not None
            ]

    def _live(self, video_ids: Sequence[str]) -> dict[str, ViewCount]:
        """Return the current counters of the videos."""
        live: dict[str, ViewCount] = {}
        size = CONCURRENCY * LARGEST_BATCH_GET
        for start in range(0, len(video_ids), size):
            live |= self.history.counters.read(video_ids[start : start + size])
        return live

    def _ranked(self, active: ActiveVideos, length: int, live: Mapping[str, ViewCount]) -> list[RankedVideo]:
        """Return the videos that were viewed in the window of the latest `length` periods, with their numbers of
        views."""
        counts, before = active.first(0, length), active.first(length, 2 * length)
        start = active.start(length)
        times = (start - length * active.period_seconds, start)
        ranked = []
        for video_id, count in counts.items():
            counted = live[video_id]
            earlier = before.get(video_id, count)
            if len(counted.shards) > 1:
                by_day = active.period_seconds == DAY_SECONDS
                earlier, count = map(views_of, self.history.sums_at(video_id, times, counted, by_day=by_day))
            # The entry may be newer than the counter that was read.
            views = max(0, counted.views - count)
            if views:
                ranked.append(RankedVideo(video_id, views, max(0, count - earlier), counted.views))
        return ranked

    def _by_hour(self, active: ActiveVideos, length: int, live: Mapping[str, ViewCount]) -> list[int]:
        """Return the number of views of all videos in each of the latest `length` hours, oldest first.

        The views of a video in an hour are the video's view count at the end of the hour, minus its count at the start.
        The count at the end is the count at the start of the next hour in which the video was viewed. If there is no
        such hour, it is the current count.
        """
        views = [0] * length
        ends = {video_id: counted.views for video_id, counted in live.items() if len(counted.shards) <= 1}
        for number, entries in enumerate(active.periods[:length]):
            for video_id, (count, _) in entries.items():
                if video_id in ends:
                    views[number] += max(0, ends[video_id] - count)
                    ends[video_id] = count
        bounds = [active.start(number + 1) for number in reversed(range(length))]
        for video_id in live.keys() - ends.keys():
            sums = [*map(views_of, self.history.sums_at(video_id, bounds, live[video_id])), live[video_id].views]
            for number, (before, after) in enumerate(pairwise(reversed(sums))):
                views[number] += max(0, before - after)
        return views[::-1]

    def _by_category(self, active: ActiveVideos, ranked: Sequence[RankedVideo]) -> dict[str, tuple[RankedVideo, ...]]:
        """Return the videos of each list, by category. The list of the category ALL contains videos of all
        categories."""
        members: dict[str, list[RankedVideo]] = defaultdict(list)
        for video in ranked:
            members[active.category(video.video_id)].append(video)
        members.pop(ALL, None)  # videos without a category
        most_viewed = sorted(members, key=lambda category: (-sum(video.views for video in members[category]), category))
        lists = {ALL: ranked} | {category: members[category] for category in most_viewed[:MAX_CATEGORIES]}
        return {category: first_in_each_order(videos) for category, videos in lists.items()}

    def _write(self, window: str, start: int, now: int, lists: Mapping[str, tuple[RankedVideo, ...]]) -> int:
        """Store each list of a window if the list changed, or was stored more than REFRESH_SECONDS ago. Return the
        number of stored lists."""
        stored = self.lists.stored(window, lists)
        names = tuple(sorted(lists.keys() - {ALL}))
        written = 0
        # Write the list of all videos last, because it names the categories that a later run must check.
        for category in sorted(lists.keys() | stored.keys(), reverse=True):
            old = stored.get(category)
            new = TopVideos(start, now, lists.get(category, ()), names if category == ALL else ())
            # A category without views gets an empty list, which then expires.
            if old and category not in lists and not old.videos:
                continue
            if old and replace(old, computed_at=now) == new and now - old.computed_at < REFRESH_SECONDS:
                continue
            self.lists.write(window, category, new)
            written += 1
        return written
