"""What is counted of videos as they change: the totals of users, and how often tags are used.

Each video has a marker of what was last counted of it. A change moves the marker to the video's present state and
the totals by the difference, in one transaction. So a message may come twice, late, or in any order: what it brings
is only that there may be something to move.

Videos that change together move together, as many as a transaction holds: an import of any size writes each total some
tens of times a second. What still grows with it are the entries of the index, and these are paced.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from shared.aws.dynamodb import LARGEST_TRANSACTION, Key, Table, Write
from shared.aws.expressions import Expression
from shared.aws.records import CONFLICTS, MAX_ATTEMPTS, signing, stamped, unchanged
from shared.aws.stream import Record
from shared.core.attributes import Item
from shared.core.caller import Caller, request_of
from shared.core.errors import WriteContention
from shared.films.messages import AGGREGATES_QUEUE, Outgoing, aggregates_message
from shared.schema import (
    MARKER,
    PARTITION_KEY,
    PROFILE,
    SORT_KEY,
    TAG_COUNT,
    TAGS,
    USERS,
    VIDEO,
    counted_relation,
    shard_of,
)
from shared.upkeep.totals import SIZES
from shared.videos.access import is_published
from shared.videos.entries import place_of
from shared.videos.video import folded_tags, is_listed

VIDEOS_AT_A_TIME = 500
"""Videos that are looked at side by side: ten requests' worth."""

UNITS_PER_SECOND = 400
"""Write units that one worker asks of a partition of the index at most. There are two (infra/jobs_stack.py), and a
partition takes 1,000: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html"""

AGGREGATES = Caller.job("aggregates")

READ = (
    *(PARTITION_KEY, SORT_KEY, "userId", "tags"),
    *("status", "source", "fileSize", "duration", "rel", "schemaVersion"),
    *("counted", "version", "writeId"),
)
"""What is read of videos and markers: documents may be large, and a batch has very many."""


@dataclass(frozen=True)
class Contribution:
    """What one video adds to totals."""

    user_id: str
    status: str
    sizes: tuple[int, int] = (0, 0)
    """Bytes and milliseconds; none when it is deleted."""
    tags: frozenset[str] = field(default_factory=frozenset)
    """Folded; none unless it is listed."""

    def counts(self) -> dict[str, int]:
        """What it adds to its user's totals."""
        return {self.status: 1, **dict(zip(SIZES, self.sizes, strict=True))}


def contribution(video: Item | None) -> Contribution | None:
    """What a video's present state adds; None of one that is gone.

    Bytes are those of the film that arrived, if one has, whatever the document says. Tags count while the video is
    listed: before that they may be a secret.
    """
    if video is None:
        return None
    alive = video["status"] != "deleted"
    film = video.get("source", video)
    sizes = (int(film.get("fileSize", 0)), int(video.get("duration", 0))) if alive else (0, 0)
    tags = frozenset(folded_tags(video)) if is_listed(video) else frozenset()
    return Contribution(video["userId"], video["status"], sizes, tags)


def counted(marker: Item | None) -> Contribution | None:
    """What a marker says was counted; None without one."""
    if marker is None:
        return None
    sizes = marker["counted"]
    return Contribution(
        marker["userId"],
        sizes["status"],
        (int(sizes["bytes"]), int(sizes["milliseconds"])),
        frozenset(marker.get("tags", ())),
    )


def video_changed(record: Record, now: int) -> Iterator[Outgoing]:
    """Send for the totals of a video, and for its entries, if the change may move them."""
    old, new = record.before, record.new
    moved = _has_moved(old, new, now)
    if moved or contribution(old) != contribution(new):
        yield Outgoing(AGGREGATES_QUEUE, aggregates_message(new["videoId"], request_of(new), entries=moved))


def video_removed(record: Record, now: int) -> Iterator[Outgoing]:
    """Send for the totals of a video that was removed."""
    yield Outgoing(AGGREGATES_QUEUE, aggregates_message(record.old["videoId"], record.correlation_id))


def _has_moved(old: Item | None, new: Item, now: int) -> bool:
    """Whether a video's entries or its schedule may have to move."""
    if old is None:
        # It has no entries yet but those that were written with it.
        return bool({"publishAt", "expiresAt"} & new.keys())
    # A change that began before the video's time came may have been written after the move that it brought.
    is_late = is_listed(new) != is_published(new, now)
    return is_late or place_of(old) != place_of(new)


class Unsettled(WriteContention):
    """Not all videos are settled: others changed `contended`, or their totals, at every attempt; time ran out before
    `unreached`."""

    def __init__(self, contended: Sequence[str], unreached: Sequence[str]) -> None:
        super().__init__("Others are changing the same totals; try again.")
        self.contended = frozenset(contended)
        self.unreached = frozenset(unreached)


@dataclass(frozen=True)
class _Move:
    """One video's marker, and the state that it should have."""

    video_id: str
    video: Item | None
    marker: Item | None
    correlation_id: str | None
    """Of the request that asked for the move."""

    @cached_property
    def before(self) -> Contribution | None:
        """What is counted."""
        return counted(self.marker)

    @cached_property
    def after(self) -> Contribution | None:
        """What should be."""
        return contribution(self.video)

    @property
    def is_due(self) -> bool:
        return self.before != self.after

    @cached_property
    def differences(self) -> dict[tuple[str, str], dict[str, int]]:
        """What to add to the counts of each total, by kind (`user` or `tag`) and whose it is."""
        sums: dict[tuple[str, str], dict[str, int]] = {}
        for part, sign in ((self.before, -1), (self.after, 1)):
            if part is None:
                continue
            _add(sums, ("user", part.user_id), {name: sign * value for name, value in part.counts().items()})
            for tag in part.tags:
                _add(sums, ("tag", tag), {"count": sign})
        return {
            total: moved
            for total, counts in sums.items()
            if (moved := {name: value for name, value in counts.items() if value})
        }


def _add(
    sums: dict[tuple[str, str], dict[str, int]], total: tuple[str, str], counts: Mapping[str, int]
) -> dict[tuple[str, str], dict[str, int]]:
    present = sums.setdefault(total, {})
    for name, value in counts.items():
        present[name] = present.get(name, 0) + value
    return sums


class Aggregates:
    """Moves totals to the present state of videos."""

    def __init__(self, table: Table, elapsed: Callable[[], float] = time.monotonic) -> None:
        """`elapsed` gives seconds since any moment."""
        self.table = table
        self._elapsed = elapsed

    def settle(
        self,
        video_ids: Sequence[str],
        now: int,
        requests: Mapping[str, str | None] | None = None,
        in_time: Callable[[], bool] = lambda: True,
    ) -> int:
        """Bring totals to these videos' present states; return how many videos were due.

        Looks again after each write, until nothing is due: a video that changed while it was looked at may have sent
        its message to somebody who then saw nothing to do. `requests` are the correlation ids, by video, of those who
        asked for it. Stops when `in_time`, asked before each transaction, says so. Raises Unsettled, when all others are
        settled, and Unavailable, when the table cannot be read.
        """
        different = list(dict.fromkeys(video_ids))
        moved = 0
        contended: list[str] = []
        for start in range(0, len(different), VIDEOS_AT_A_TIME):
            some = different[start : start + VIDEOS_AT_A_TIME]
            due, left = self._settle_some(some, now, requests or {}, in_time)
            if left and not in_time():
                raise Unsettled(contended, [*left, *different[start + VIDEOS_AT_A_TIME :]])
            moved += len(due)
            contended += left
        if contended:
            raise Unsettled(contended, ())
        return moved

    def _settle_some(
        self, video_ids: Sequence[str], now: int, requests: Mapping[str, str | None], in_time: Callable[[], bool]
    ) -> tuple[set[str], list[str]]:
        """The videos that were due, and those that still may be."""
        pending, due = list(video_ids), set[str]()
        written: dict[str, Item | None] = {}
        # Not `retry_on_conflict`: each attempt settles some of the videos, and the last one finds nothing that is due.
        for attempt in range(MAX_ATTEMPTS):
            moves = [move for move in self._moves(pending, written, requests) if move.is_due]
            pending = [move.video_id for move in moves]
            due.update(pending)
            if not moves:
                break
            written = self._carry_out(moves, now, in_time)
            if len(written) < len(moves):
                if not in_time():
                    break
                self.table.pause(attempt + 1)
        return due, pending

    def _moves(
        self, video_ids: Sequence[str], written: Mapping[str, Item | None], requests: Mapping[str, str | None]
    ) -> Iterator[_Move]:
        """The videos and their markers as they are; `written` are the markers of videos whose last write was ours.

        Whoever wrote a marker last looks at the video after that, so it need not be read again.
        """
        keys = [VIDEO.key(videoId=video_id) for video_id in video_ids]
        keys += [MARKER.key(videoId=video_id) for video_id in video_ids if video_id not in written]
        read = self.table.batch_get(keys, attributes=READ, consistent=True)
        items = {(item[PARTITION_KEY], item[SORT_KEY]): item for item in read}
        for video_id in video_ids:
            video, marker = (items.get((key[PARTITION_KEY], key[SORT_KEY])) for key in _keys(video_id))
            yield _Move(video_id, video, written.get(video_id, marker), requests.get(video_id))

    def _carry_out(self, moves: Sequence[_Move], now: int, in_time: Callable[[], bool]) -> dict[str, Item | None]:
        """Carry the moves out, as many as fit in a transaction at a time; return the markers that were written, by video.

        Nothing is written once `in_time` says to stop, nor what others have changed.
        """
        written: dict[str, Item | None] = {}
        # Those of one owner with the same tags follow each other, so that the fewest totals are written.
        for batch in _batches(sorted(moves, key=lambda move: sorted(move.differences))):
            if not in_time():
                break
            markers = [_marker(move, now) for move in batch]
            totals = _summed(batch)
            writes = [self._marker_write(move, marker) for move, marker in zip(batch, markers, strict=True)]
            writes += [
                _total_write(self.table, *total, counts, _together(batch), now)
                for total, counts in sorted(totals.items())
            ]
            began = self._elapsed()
            try:
                self.table.transact(writes)
            except CONFLICTS:
                continue
            written |= {move.video_id: marker for move, marker in zip(batch, markers, strict=True)}
            self.table.rest(busiest(batch) / UNITS_PER_SECOND - (self._elapsed() - began))
        return written

    def _marker_write(self, move: _Move, marker: Item | None) -> Write:
        """The marker's move, if it still is as it was read."""
        if marker is None:
            return self.table.remove(MARKER.key(videoId=move.video_id), condition=unchanged(move.marker))
        return self.table.put(marker, condition=unchanged(move.marker))


def busiest(moves: Sequence[_Move]) -> int:
    """The write units that a transaction of these moves asks of one partition of the index at most.

    All tag counts are in one: a count that changes is an entry that goes and one that comes. A marker has an entry
    beside those of other videos of its owner.
    """
    places: Counter[tuple[str, int]] = Counter()
    for move in moves:
        owners = [part.user_id for part in (move.before, move.after) if part]
        if len(owners) == 1 or owners[0] != owners[1]:  # else its entry stays
            places.update((owner, shard_of(move.video_id)) for owner in owners)
    tags = 2 * sum(kind == "tag" for kind, _ in _summed(moves))
    return max([tags, *places.values()])


def _keys(video_id: str) -> tuple[Key, Key]:
    return VIDEO.key(videoId=video_id), MARKER.key(videoId=video_id)


def _batches(moves: Sequence[_Move]) -> Iterator[list[_Move]]:
    """The moves in groups that touch as many items as one transaction may."""
    batch: list[_Move] = []
    touched: set[tuple[str, str]] = set()
    for move in moves:
        totals = move.differences.keys()
        if batch and len(batch) + 1 + len(touched | totals) > LARGEST_TRANSACTION:
            yield batch
            batch, touched = [], set()
        batch.append(move)
        touched |= totals
    if batch:
        yield batch


def _summed(moves: Sequence[_Move]) -> dict[tuple[str, str], dict[str, int]]:
    """The differences of several videos together, as a transaction may touch an item only once.

    A total whose differences cancel out is still there: its version shows that its parts have moved.
    """
    sums: dict[tuple[str, str], dict[str, int]] = {}
    for move in moves:
        for total, counts in move.differences.items():
            _add(sums, total, counts)
    return sums


def _marker(move: _Move, now: int) -> Item | None:
    """The marker of the state that a video should count as; None: of one that is gone."""
    part = move.after
    if part is None:
        return None
    marker = {
        **MARKER.key(videoId=move.video_id),
        "videoId": move.video_id,
        "userId": part.user_id,
        # In a map, because indexes project attributes of these names.
        "counted": {"status": part.status, **dict(zip(SIZES, part.sizes, strict=True))},
        **({"tags": set(part.tags)} if part.tags else {}),
        "rel": counted_relation(part.user_id),
        "relShard": shard_of(move.video_id),
        "relSort": 0,
        "relId": move.video_id,
    }
    version = int((move.marker or {}).get("version", 0)) + 1
    return stamped(marker, AGGREGATES.acting_for(move.correlation_id), now, version=version)


def _together(moves: Sequence[_Move]) -> Caller:
    """Who writes the totals of several videos: for the request, if one asked for all that moves them."""
    requests = {move.correlation_id for move in moves}
    return AGGREGATES.acting_for(requests.pop() if len(requests) == 1 else None)


def _total_write(table: Table, kind: str, whose: str, counts: Mapping[str, int], caller: Caller, now: int) -> Write:
    if kind == "user":
        return table.update(PROFILE.key(userId=whose), user_addition(whose, counts, caller, now))
    return table.update(TAG_COUNT.key(tag=whose), tag_addition(whose, counts["count"], caller, now))


def user_addition(user_id: str, counts: Mapping[str, int], caller: Caller, now: int) -> Expression:
    """The change that adds counts to a user's totals, and makes these when they are not there."""
    place = {"userId": user_id, "rel": USERS, "relShard": 0, "relSort": 0, "relId": user_id}
    return _addition(place, counts, caller, now)


def tag_addition(tag: str, difference: int, caller: Caller, now: int) -> Expression:
    """The change that adds to the count of a tag, and makes it when it is not there."""
    place = {"tag": tag, "rel": TAGS, "relShard": 0, "relId": tag}
    return _addition(place, {"count": difference, "relSort": difference}, caller, now)


def _addition(place: Item, counts: Mapping[str, int], caller: Caller, now: int) -> Expression:
    """The change that adds counts to a total, and says what it is, who wrote it, when, and for which request.

    It raises `version`, so that a sum whose version stayed is one that nobody moved meanwhile.
    """
    added = {**counts, "version": 1}
    addition = Expression.of("ADD " + ", ".join(f"#{name} :{name}" for name in added), **added)
    return signing(place, caller, now) + addition
