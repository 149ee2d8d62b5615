"""What is counted of videos as they change: the totals of users, and how often tags are used.

Each video has a marker of what was last counted of it. A change moves the marker to the video's present state and
the totals by the difference, in one transaction. So a message may come twice, late, or in any order: what it brings
is only that there may be something to move.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shared.aws.dynamodb import LARGEST_TRANSACTION, Key, Table, Write
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed, TransactionConflict
from shared.aws.records import contended, signing, stamped, unchanged
from shared.core.attributes import Item
from shared.core.caller import Caller
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
from shared.videos.video import STATUSES, folded_tags, is_listed, upgraded

ROUNDS = 10
"""How often videos are looked at in one call; the last look finds nothing to move, unless others are always faster."""

AGGREGATES = Caller.job("aggregates")

SIZES = ("bytes", "milliseconds")
PROFILE_COUNTS = (*STATUSES, *SIZES)
"""What a user's totals have of videos: how many in each status, and the sizes of those that are not deleted. No name
is one that an index projects, or each change would write to the index too."""


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
    # Upgraded, because older items had tags that are too long for the key of a count.
    tags = frozenset(folded_tags(upgraded(video))) if is_listed(video) else frozenset()
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


def counts_otherwise(old: Item | None, new: Item) -> bool:
    """Whether a change of a video is one that totals depend on."""
    return contribution(old) != contribution(new)


@dataclass(frozen=True)
class _Move:
    """One video's marker, and the state that it should have."""

    video_id: str
    video: Item | None
    marker: Item | None
    correlation_id: str | None
    """Of the request that asked for the move."""

    @property
    def is_due(self) -> bool:
        return contribution(self.video) != counted(self.marker)

    def differences(self) -> dict[tuple[str, str], dict[str, int]]:
        """What to add to the counts of each total, by kind (`user` or `tag`) and whose it is."""
        sums: dict[tuple[str, str], dict[str, int]] = {}
        for part, sign in ((counted(self.marker), -1), (contribution(self.video), 1)):
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

    def __init__(self, table: Table) -> None:
        self.table = table

    def settle(self, video_ids: Sequence[str], now: int, requests: Mapping[str, str | None] | None = None) -> int:
        """Bring totals to these videos' present states; return how many videos were due.

        Looks again after each write, until nothing is due: a video that changed while it was looked at may have sent
        its message to somebody who then saw nothing to do. Raises WriteContention when others are faster every time.
        `requests` are the correlation ids, by video, of those who asked for it.
        """
        pending = list(dict.fromkeys(video_ids))
        settled: set[str] = set()
        for attempt in range(ROUNDS):
            due = [move for move in self._moves(pending, requests or {}) if move.is_due]
            if not due:
                return len(settled)
            pending = [move.video_id for move in due]
            settled.update(pending)
            if not self._carry_out(due, now):
                self.table.pause(attempt + 1)
        raise contended("the same totals")

    def _moves(self, video_ids: Sequence[str], requests: Mapping[str, str | None]) -> Iterator[_Move]:
        keys = [entity.key(videoId=video_id) for video_id in video_ids for entity in (VIDEO, MARKER)]
        items = {(item[PARTITION_KEY], item[SORT_KEY]): item for item in self.table.batch_get(keys, consistent=True)}
        for video_id in video_ids:
            video, marker = (items.get((key[PARTITION_KEY], key[SORT_KEY])) for key in _keys(video_id))
            yield _Move(video_id, video, marker, requests.get(video_id))

    def _carry_out(self, moves: Sequence[_Move], now: int) -> bool:
        """Carry the moves out, as many as fit in a transaction at a time; return whether all were."""
        complete = True
        for batch in _batches(moves):
            writes = [_marker_write(self.table, move, now) for move in batch]
            writes += [
                _total_write(self.table, *total, counts, _together(batch), now)
                for total, counts in sorted(_summed(batch).items())
            ]
            try:
                self.table.transact(writes)
            except (ConditionFailed, TransactionConflict):
                complete = False
        return complete


def _keys(video_id: str) -> tuple[Key, Key]:
    return VIDEO.key(videoId=video_id), MARKER.key(videoId=video_id)


def _batches(moves: Sequence[_Move]) -> Iterator[list[_Move]]:
    """The moves in groups that touch as many items as one transaction may."""
    batch: list[_Move] = []
    touched: set[tuple[str, str]] = set()
    for move in moves:
        totals = move.differences().keys()
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
        for total, counts in move.differences().items():
            _add(sums, total, counts)
    return sums


def _marker_write(table: Table, move: _Move, now: int) -> Write:
    """The marker's move, if it still is as it was read."""
    key, marker = MARKER.key(videoId=move.video_id), move.marker
    part = contribution(move.video)
    if part is None:
        return table.remove(key, condition=unchanged(marker))
    version = int((marker or {}).get("version", 0)) + 1
    return table.put(_marker(move, part, version, now), condition=unchanged(marker))


def _marker(move: _Move, part: Contribution, version: int, now: int) -> Item:
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
