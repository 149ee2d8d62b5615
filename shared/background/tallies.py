"""Counting of views and ratings from the stream, and storage of start values.

A start value is the value of a video's view counter at the start of an hour or a day. The router collects views,
ratings and start values from stream records, and sends one message per video. The function `tallies` applies the
messages. They may arrive repeatedly, late or out of order. Deduplication keys prevent double counting
(shared/background/ledger.py). A stored start value is the minimum of all received values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from shared.aws.dynamodb import Key, Table
from shared.aws.expressions import Expression
from shared.aws.records import new_write_id, retry_on_conflict, signing, unchanged
from shared.aws.stream import Record
from shared.background.ledger import Ledger, Sums, Total, deduplication_key
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.periods import DAY_SECONDS, HOURS_RETAINED_DAYS, hour_of, start_of
from shared.processing.messages import Outgoing, TallyMessage, tally_message
from shared.relations.ratings import TOTALS, difference
from shared.schema import (
    PARTITION_KEY,
    RATING_TOTALS,
    SCHEMA_VERSION,
    TTL_ATTRIBUTE,
    VIDEO,
    VIEW_COUNTER,
    VIEW_DAY,
    VIEW_HOUR,
    shard_of,
    viewed_relation,
)
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import is_purged
from shared.videos.counters import COUNTED, SUMS, sums_of
from shared.videos.sort_entries import SortEntries

if TYPE_CHECKING:
    from shared.entities import Rating

TALLIES = Caller.job("tallies")
"""Author of the writes to rating totals."""

Merged = dict[str, dict[str, int]]
"""Start values of an hour or a day. Maps the number of each shard of the view counter, as text, to the shard's sums."""


class Collector:
    """Collector of views, ratings and start values from stream records. `drain` returns them as messages."""

    def __init__(self) -> None:
        self._counted: dict[str, dict[str, list[object]]] = {}

    def drain(self) -> list[dict[str, Any]]:
        """Return one message per video with everything that was collected since the last call."""
        counted, self._counted = self._counted, {}
        return [tally_message(video_id, lists) for video_id, lists in counted.items()]

    def counter_changed(self, record: Record, now: int = 0) -> Iterable[Outgoing]:
        """Collect start values if a change of a view counter is the first of an hour or a day. Start values are the
        counter's values before this change.

        Other changes of a view counter are ignored.
        """
        hour, before = record.text("NewImage", "hour"), record.text("OldImage", "hour")
        # A writer with a slow clock may set an earlier hour again. The start of the later hour was collected before.
        if hour is None or (before is not None and hour <= before):
            return ()
        video_id, _, shard = record.pk.removeprefix(VIEW_COUNTER.partition_prefix).rpartition("#")
        day_began = before is None or before[:10] != hour[:10]
        return self._note(video_id, "starts", [int(shard), hour, day_began, sums_of(record.before)])

    def viewed(self, record: Record, now: int = 0) -> Iterable[Outgoing]:
        """Collect the view that a new or changed deduplication item (VIEWER) records."""
        return self._note(record.new["videoId"], "views", [_key(record), int(record.new.get("watched", 0))])

    def rated(self, record: Record, now: int = 0) -> Iterable[Outgoing]:
        """Collect the amounts that a new or changed rating adds to the rating totals."""
        added = difference(cast("Rating | None", record.before), cast("Rating", record.new))
        return self._note(record.new["videoId"], "ratings", [_key(record), added]) if any(added.values()) else ()

    def _note(self, video_id: str, name: str, entry: list[object]) -> tuple[()]:
        self._counted.setdefault(video_id, {}).setdefault(name, []).append(entry)
        return ()


def _key(record: Record) -> str:
    return deduplication_key(record.event_id, record.at_ms // 1000)


@dataclass
class _Counted:
    """Views, ratings and start values from all messages of a batch. All messages concern the same video."""

    views: dict[str, Sums] = field(default_factory=dict)
    ratings: dict[str, Sums] = field(default_factory=dict)
    hours: dict[str, Merged] = field(default_factory=dict)
    days: dict[str, Merged] = field(default_factory=dict)

    @classmethod
    def of(cls, messages: Sequence[TallyMessage]) -> "_Counted":
        counted = cls()
        for message in messages:
            counted.views |= {key: {"keyed": 1, "watched": watched} for key, watched in message.views}
            counted.ratings |= dict(message.ratings)
            for shard, hour, day_began, sums in message.starts:
                start = {str(shard): {name: sums.get(name, 0) for name in SUMS}}
                counted.hours[hour] = least(counted.hours.get(hour, {}), start)
                if day_began:
                    counted.days[hour[:10]] = least(counted.days.get(hour[:10], {}), start)
        return counted


def least(one: Mapping[str, Sums], other: Mapping[str, Sums]) -> Merged:
    """Merge two sets of start values: return the smaller value of each sum, by shard. A sum never decreases, so the
    smaller value is closer to the value at the start of the hour or day."""
    return {
        shard: {name: min(starts[shard].get(name, 0) for starts in (one, other) if shard in starts) for name in SUMS}
        for shard in sorted(one.keys() | other.keys(), key=int)
    }


class Tallies:
    """Writer of collected views, ratings and start values to the table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.ledger = Ledger(table)
        self.sort_entries = SortEntries(table)

    def apply(self, messages: Sequence[TallyMessage], now: int) -> None:
        """Store the views, ratings and start values that the messages contain. All messages must concern the same video.
        `now` is in epoch seconds.

        Raises Unavailable and WriteContention, after which some values may have been stored. Deliver all messages again.
        """
        video = _Video(self.table, messages[0].videoId, now)
        counted = _Counted.of(messages)
        if counted.views:
            key = VIEW_COUNTER.key(videoId=video.id, shard=0)
            self.ledger.add(
                Total("views", video.id, key, partial(_view_addition, now), video.exists), counted.views, now
            )
        if counted.ratings:
            key = RATING_TOTALS.key(videoId=video.id)
            addition = partial(_rating_addition, video.id, now)
            self.ledger.add(Total("ratings", video.id, key, addition, video.exists), counted.ratings, now)
            # Called even if no rating was added, because an earlier attempt may have failed here.
            self.sort_entries.place_rating(video.id, now)
        for hour, starts in counted.hours.items():
            until = {TTL_ATTRIBUTE: start_of(hour) + HOURS_RETAINED_DAYS * DAY_SECONDS}
            self._keep(video, hour, VIEW_HOUR.key(videoId=video.id, hour=hour), starts, until)
        for day, starts in counted.days.items():
            self._keep(video, day, VIEW_DAY.key(videoId=video.id, day=day), starts, {})

    def _keep(self, video: "_Video", period: str, key: Key, starts: Merged, until: Item) -> None:
        """Store the start values of an hour or a day. If start values are already stored, keep the smaller value of
        each sum.

        `until` has the expiry attribute of a new item, or is empty if the item does not expire. Does nothing if the
        video does not exist.
        """
        if not video.exists():
            return

        def attempt(stored: Item | None) -> None:
            merged = least((stored or {}).get("starts", {}), starts)
            if stored is not None and stored["starts"] == merged:
                return
            item = stored or {**key, **video.described(), **until, "rel": viewed_relation(period)}
            item = item | {"starts": merged, "relSort": _views(merged), "writeId": new_write_id()}
            self.table.write(self.table.put(item, condition=unchanged(stored)))

        retry_on_conflict(attempt, "the hours of the video", pause=self.table.pause)


class _Video:
    """Video to which a batch of messages belongs. Reads the video's item at first use, and at most once."""

    def __init__(self, table: Table, id_: str, now: int) -> None:
        self.id = id_
        self._table = table
        self._now = now

    def exists(self) -> bool:
        """Return whether the video exists.

        The caller must not create items for a missing video; no purge would delete them.
        """
        return self._item is not None and not is_purged(self._item, self._now)

    def described(self) -> Item:
        """Return the attributes of the video that its hour and day items contain, such as owner and category."""
        video = self._item or {}
        return {
            "videoId": self.id,
            **{name: video[name] for name in ("userId", "category") if name in video},
            "relShard": shard_of(self.id),
            "relId": self.id,
            "schemaVersion": SCHEMA_VERSION,
        }

    @cached_property
    def _item(self) -> Item | None:
        attributes = (PARTITION_KEY, *VISIBILITY_ATTRIBUTES, "category")
        return self._table.get(VIDEO.key(videoId=self.id), attributes=attributes, consistent=True)


def _views(starts: Merged) -> int:
    return sum(sums[name] for sums in starts.values() for name in COUNTED)


def _added(sums: Sums) -> Expression:
    return Expression.of("ADD " + ", ".join(f"#{name} :{name}" for name in sums), **sums)


def _view_addition(now: int, sums: Sums, remembered: Item) -> Expression:
    content = {"hour": hour_of(now), "schemaVersion": SCHEMA_VERSION, **remembered}
    return _added(sums) + Expression.of("SET " + ", ".join(f"#{name} = :{name}" for name in content), **content)


def _rating_addition(video_id: str, now: int, sums: Sums, remembered: Item) -> Expression:
    """Return the update that adds `sums` to a video's rating totals.

    `remembered` are the deduplication attributes to set. The update increments `version`, because a repair of the
    totals must fail if they have changed.
    """
    return _added({**dict.fromkeys(TOTALS, 0), **sums, "version": 1}) + signing(
        {"videoId": video_id, **remembered}, TALLIES, now
    )
