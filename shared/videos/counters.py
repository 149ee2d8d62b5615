"""The counter of a video's views: exact, and one write unit each view, whatever the video's document weighs.

The counter has partitions of its own, so that views neither heat the document nor pay for its size, and so that a role
can be kept from it by its leading key. All that it holds only grows: sums of what was counted, and of what was not and why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.core.attributes import Item
from shared.core.periods import hour_of
from shared.schema import SCHEMA_VERSION, VIEW_COUNTER

COUNTED = ("views", "keyed")
"""Views that were counted: at once, and those of a viewer or a key, which the stream adds."""
UNCOUNTED = ("repeated", "owner", "unpublished", "expired", "deleted")
"""Views that were not counted, by the rule that kept them out."""
SUMS = (*COUNTED, "watched", *UNCOUNTED)
"""All sums of a counter; `watched` is in milliseconds."""

COUNT = (*COUNTED, "total")
"""The attributes of a counter that `view_count` reads."""


def view_count(counter: Item | None) -> int:
    """The count in a counter item. What was imported, or rolled up by an earlier release, is `total`."""
    return sum(int(counter.get(name, 0)) for name in COUNT) if counter else 0


def sums_of(counter: Item | None) -> dict[str, int]:
    """All sums of a counter item, `total` as a part of `views`."""
    counter = counter or {}
    sums = {name: int(counter.get(name, 0)) for name in SUMS}
    sums["views"] += int(counter.get("total", 0))
    return sums


@dataclass(frozen=True)
class Counted:
    """What the counter of one video holds: the sums of each of its shards."""

    shards: Mapping[int, Mapping[str, int]]

    @property
    def sums(self) -> dict[str, int]:
        """The sums of all shards together."""
        return {name: sum(shard[name] for shard in self.shards.values()) for name in SUMS}

    @property
    def views(self) -> int:
        """The view count."""
        return sum(self.sums[name] for name in COUNTED)


class ViewCounters:
    """The counters in the table."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def add(self, video_id: str, additions: Mapping[str, int], now: int) -> int:
        """Add to the sums of a video, and return its view count: one UpdateItem that adds, so nothing is lost to another.

        `now` in epoch seconds. Raises NotApplied when certainly nothing was added, and Unavailable: an addition whose
        answer was lost may have happened, so it is not sent again.
        """
        write = self.table.update(VIEW_COUNTER.key(videoId=video_id, shard=0), addition(additions, now))
        return view_count(self.table.write(write, returning="ALL_NEW"))

    def read(self, video_ids: Sequence[str], *, consistent: bool = False) -> dict[str, Counted]:
        """What the counters of videos hold, by video; one without views has no shards."""
        items = self.table.get_all(
            [VIEW_COUNTER.key(videoId=video_id, shard=0) for video_id in video_ids], consistent=consistent
        )
        return {
            video_id: Counted({0: sums_of(item)} if item else {})
            for video_id, item in zip(video_ids, items, strict=True)
        }


def addition(additions: Mapping[str, int], now: int) -> Expression:
    """The change that adds to a counter item, and says in which hour: so the stream sees when a new one begins."""
    added = Expression.of("ADD " + ", ".join(f"#{name} :{name}" for name in additions), **additions)
    return added + Expression.of(
        "SET #hour = :hour, #schemaVersion = :current", hour=hour_of(now), current=SCHEMA_VERSION
    )
