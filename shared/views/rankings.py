"""Computes what was viewed most, and what rises most, from the hours and days in which videos were viewed.

A video has an entry for each of these, with what its counter held when it began. So its views in a window are what its counter
holds now, less what its first entry in the window says; and those in the window before are that, less what its first entry
there says. A counter that is spread has that of each shard by itself, in the items that the entries stand for.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from shared.aws.dynamodb import LARGEST_BATCH_GET, Table, gather, require_all
from shared.aws.expressions import Expression
from shared.aws.listing import sharded
from shared.core.attributes import Item, decode_item
from shared.core.errors import Unavailable
from shared.core.periods import DAY_SECONDS, HOUR_SECONDS, WINDOWS, day_of, hour_of
from shared.core.telemetry import service_logger
from shared.schema import RELATION_INDEX, viewed_relation
from shared.videos.counters import Counted
from shared.views.history import History, views_of
from shared.views.top import ALL, Ranked, Top, TopStore, first_in_each_order

MOST_ENTRIES = 300_000
"""How many entries of hours, or days, a run reads. Beyond, the windows are shorter than their names, and say so by `from`."""

MOST_CATEGORIES = 100
"""How many categories have lists of their own: those with the most views."""

HOURS_EVERY, DAYS_EVERY = 5 * 60, HOUR_SECONDS
"""How often the lists by hours are computed, which is in every run, and those by days; in seconds."""

REFRESH_SECONDS = 15 * 60
"""How old a list may say it is that has not changed."""

LARGEST_PAGE = 5000
"""Entries of one Query: about the 1 MB that DynamoDB returns at a time."""

SIDE_BY_SIDE = 4
"""How many batches of counters are read at a time."""

Entries = Mapping[str, tuple[int, str]]
"""By the ids of the videos that were viewed in an hour or day: the count at its start, and the category then, or ALL for none."""


@dataclass(frozen=True)
class Active:
    """What was viewed, by hours or days, the latest first."""

    period_seconds: int
    latest: int
    """When the latest one began, in epoch seconds."""
    periods: Sequence[Entries]

    def length(self, wanted: int) -> int:
        """How many periods a window has: no more than there are of it and of the one before."""
        return max(1, min(wanted, len(self.periods) // 2))

    def start(self, length: int) -> int:
        """When a window of this length begins."""
        return self.latest - (length - 1) * self.period_seconds

    def first(self, since: int, until: int) -> dict[str, int]:
        """The counts at the first entry of each video in the periods [since, until), the latest being 0."""
        return {
            video_id: count for entries in self.periods[since:until] for video_id, (count, _) in entries.items()
        }  # the earliest come last

    def category(self, video_id: str) -> str:
        """The category in which a video was viewed last."""
        return next(entries[video_id][1] for entries in self.periods if video_id in entries)


class Rankings:
    """What computes the lists in a table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.lists = TopStore(table)
        self.history = History(table)

    def compute(self, now: int, in_time: Callable[[], bool] = lambda: True) -> dict[str, int]:
        """Compute the lists that are due; returns how many were read, ranked and written. Raises Unavailable.

        Each run also looks at the counters that are spread, and folds those that are calm.
        """
        done: Counter[str] = Counter(entries=0, videos=0, lists=0)
        self._compute(HOUR_SECONDS, now, done)
        # A minute early, as no run begins in the very second.
        if in_time() and now - self.lists.computed_at("month") >= DAYS_EVERY - 60:
            self._compute(DAY_SECONDS, now, done)
        return dict(done)

    def _compute(self, period_seconds: int, now: int, done: Counter[str]) -> None:
        windows = {name: window for name, window in WINDOWS.items() if window.period_seconds == period_seconds}
        longest = max(window.periods for window in windows.values())
        active = self._active(period_seconds, 2 * longest, now)
        viewed = list(active.first(0, active.length(longest)))
        live = self._live(viewed)
        for name, window in windows.items():
            length = active.length(window.periods)
            ranked = self._ranked(active, length, live)
            done["lists"] += self._write(name, active.start(length), now, self._by_category(active, ranked))
        if period_seconds == HOUR_SECONDS:
            for video_id in [video_id for video_id, counted in live.items() if len(counted.shards) > 1]:
                with suppress(Unavailable):  # in the midst of a storm, perhaps; the next run looks again
                    self.history.counters.calm(video_id, now)
        done["entries"] += sum(map(len, active.periods))
        done["videos"] += len(viewed)

    def _active(self, period_seconds: int, count: int, now: int) -> Active:
        """The entries of the latest periods, as many as are wanted and may be read."""
        latest = now // period_seconds * period_seconds
        periods: list[Entries] = []
        left = MOST_ENTRIES
        for number in range(count):
            began = latest - number * period_seconds
            entries: dict[str, tuple[int, str]] = {}
            for page in self._pages(hour_of(began) if period_seconds == HOUR_SECONDS else day_of(began)):
                for item in page:
                    entries[item["relId"]] = (int(item["relSort"]), item.get("category", ALL))
                if len(entries) >= left:
                    break
            left -= len(entries)
            if left > 0 or not periods:
                periods.append(entries)
            if left <= 0:
                service_logger().warning("more was viewed than is ranked", extra={"periods": len(periods)})
                break
        return Active(period_seconds, latest, periods)

    def _pages(self, period: str) -> Iterator[list[Item]]:
        """All entries of an hour or day: a page of each shard at a time, side by side."""
        starts: list[tuple[Item, Item | None]] = [(partition, None) for partition in sharded(viewed_relation(period))]
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

    def _live(self, video_ids: Sequence[str]) -> dict[str, Counted]:
        """What the counters of videos hold now."""
        live: dict[str, Counted] = {}
        size = SIDE_BY_SIDE * LARGEST_BATCH_GET
        for start in range(0, len(video_ids), size):
            live |= self.history.counters.read(video_ids[start : start + size])
        return live

    def _ranked(self, active: Active, length: int, live: Mapping[str, Counted]) -> list[Ranked]:
        """All videos with views in a window of this length."""
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
            # An entry may be later than the counter as it was read.
            views = max(0, counted.views - count)
            if views:
                ranked.append(Ranked(video_id, views, max(0, count - earlier), counted.views))
        return ranked

    def _by_category(self, active: Active, ranked: Sequence[Ranked]) -> dict[str, tuple[Ranked, ...]]:
        """The lists of all videos and of each category."""
        members: dict[str, list[Ranked]] = defaultdict(list)
        for video in ranked:
            members[active.category(video.video_id)].append(video)
        members.pop(ALL, None)  # those without one
        most_viewed = sorted(members, key=lambda category: (-sum(video.views for video in members[category]), category))
        lists = {ALL: ranked} | {category: members[category] for category in most_viewed[:MOST_CATEGORIES]}
        return {category: first_in_each_order(videos) for category, videos in lists.items()}

    def _write(self, window: str, start: int, now: int, lists: Mapping[str, tuple[Ranked, ...]]) -> int:
        """Store the lists that differ from those that are stored, or are older than they should say; returns how many."""
        stored = self.lists.stored(window, lists)
        names = tuple(sorted(lists.keys() - {ALL}))
        written = 0
        # That of all videos last: it names the categories whose lists a later run has to look at.
        for category in sorted(lists.keys() | stored.keys(), reverse=True):
            old = stored.get(category)
            new = Top(start, now, lists.get(category, ()), names if category == ALL else ())
            # A category that is no longer viewed has an empty list, which then expires.
            if old and category not in lists and not old.videos:
                continue
            if old and replace(old, computed_at=now) == new and now - old.computed_at < REFRESH_SECONDS:
                continue
            self.lists.write(window, category, new)
            written += 1
        return written
