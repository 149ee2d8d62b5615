"""View counters for tests. A test chooses the time of each view. `store` also writes the hourly and daily items that the
function `tallies` normally writes."""

from collections import defaultdict
from dataclasses import dataclass, field

from shared.aws.dynamodb import Table
from shared.core.attributes import Item
from shared.core.periods import DAY_SECONDS, HOURS_RETAINED_DAYS, day_of, hour_of, start_of
from shared.schema import TTL_ATTRIBUTE, VIEW_COUNTER, VIEW_DAY, VIEW_HOUR, shard_of, viewed_relation
from shared.videos.counters import COUNTED, SUMS

Shard = tuple[str, int]


@dataclass
class CountedViews:
    """View counters in memory. Call `count` in ascending order of time, then `store` to write all items."""

    table: Table
    categories: dict[str, str] = field(default_factory=dict)
    """Category of each video at the time when its views are counted, by video id."""
    counters: dict[Shard, dict[str, int]] = field(default_factory=lambda: defaultdict(lambda: dict.fromkeys(SUMS, 0)))
    _hours: dict[Shard, str] = field(default_factory=dict)
    _starts: dict[tuple[str, str], Item] = field(default_factory=dict)

    def count(self, video_id: str, at: int, *, shard: int = 0, **additions: int) -> None:
        """Add views to a shard of a video's counter: one view, or the sums in `additions`. `at` is in epoch seconds."""
        key, hour, day = (video_id, shard), hour_of(at), day_of(at)
        before = self._hours.get(key, "")
        if before != hour:
            self._begin(key, hour)
        if before[:10] != day:
            self._begin(key, day)
        self._hours[key] = hour
        for name, addition in (additions or {"views": 1}).items():
            self.counters[key][name] += addition

    def _begin(self, key: Shard, period: str) -> None:
        video_id, shard = key
        began: Item = {"starts": {}, **self._category(video_id)}
        item = self._starts.setdefault((video_id, period), began)
        item["starts"][str(shard)] = dict(self.counters[key])

    def _category(self, video_id: str) -> Item:
        return {"category": self.categories[video_id]} if video_id in self.categories else {}

    def store(self) -> None:
        """Write all counters, and their values at the start of each hour and day, to the table."""
        shards: dict[str, int] = defaultdict(int)
        for video_id, shard in self.counters:
            shards[video_id] = max(shards[video_id], shard + 1)
        for (video_id, shard), sums in self.counters.items():
            counter = {**VIEW_COUNTER.key(videoId=video_id, shard=shard), **sums, "hour": self._hours[video_id, shard]}
            control = {"shards": shards[video_id], "spread": shards[video_id]} if shards[video_id] > 1 else {}
            self._put(counter | (control if shard == 0 else {}))
        for (video_id, period), item in self._starts.items():
            is_hour = "T" in period
            key = (
                VIEW_HOUR.key(videoId=video_id, hour=period) if is_hour else VIEW_DAY.key(videoId=video_id, day=period)
            )
            place: Item = {
                "rel": viewed_relation(period),
                "relShard": shard_of(video_id),
                "relSort": sum(sums[name] for sums in item["starts"].values() for name in COUNTED),
                "relId": video_id,
            }
            ttl = {TTL_ATTRIBUTE: start_of(period) + HOURS_RETAINED_DAYS * DAY_SECONDS} if is_hour else {}
            self._put({**key, **item, **place, **ttl, "videoId": video_id})

    def _put(self, item: Item) -> None:
        self.table.write(self.table.put(item))
