"""Updates of the totals of users, tags, folders and the service, after videos have changed.

A video's MARKER item stores the amounts that the totals contain for this video. The worker compares these amounts with
the current video. If they differ, one transaction updates the MARKER item, and adds the differences to the totals.
Messages only trigger this comparison, so they may arrive repeatedly, late or in any order.

Each transaction contains the updates for as many videos as possible. Therefore an import writes each total at most a
few dozen times per second. The number of index writes still grows with the number of videos, so the worker limits its
write rate.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from shared.aws.dynamodb import LARGEST_TRANSACTION, Key, Table, Write
from shared.aws.expressions import Expression
from shared.aws.records import CONFLICTS, MAX_ATTEMPTS, signing, unchanged, with_version
from shared.aws.stream import Record
from shared.background.totals import SIZES, folder_count_key
from shared.core.attributes import Item
from shared.core.caller import Caller, request_id_of
from shared.core.errors import WriteContention
from shared.core.folders import ancestors
from shared.core.periods import DAY_SECONDS, hour_of, start_of
from shared.processing.messages import AGGREGATES_QUEUE, Outgoing, aggregates_message
from shared.schema import (
    MARKER,
    PARTITION_KEY,
    PROFILE,
    SERVICE_TOTALS,
    SORT_KEY,
    TAG_COUNT,
    TAGS,
    TTL_ATTRIBUTE,
    UPLOAD_HOUR,
    USERS,
    VIDEO,
    counted_relation,
    shard_of,
)
from shared.videos.access import is_published
from shared.videos.entries import index_position
from shared.videos.video import is_listed, normalised_tags

if TYPE_CHECKING:
    from shared.entities import AnyVideo

VIDEOS_AT_A_TIME = 500
"""Number of videos that the worker reads concurrently. With their MARKER items, this takes ten requests."""

UNITS_PER_SECOND = 400
"""Maximum write units per second that one worker consumes in one index partition. There are two workers
(infra/jobs_stack.py).

A partition allows 1,000 write units per second:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html
"""

UPLOADS_RETAINED_DAYS = 8
"""Number of days for which the hourly numbers of uploads are retained. Older uploads are not counted."""

AGGREGATES = Caller.job("aggregates")
"""Author of the writes in this module."""

READ = (
    *(PARTITION_KEY, SORT_KEY, "userId", "tags", "folder"),
    *("status", "source", "fileSize", "duration", "rel", "schemaVersion"),
    *("counted", "version", "writeId"),
)
"""Names of the attributes of videos and of MARKER items that the worker reads. Whole items would cost more, because
they may be large."""


TotalName = tuple[str, ...]
"""Kind of a total, and the parts of its key: `("user", userId)`, `("tag", tag)`, `("folder", userId, path)`,
`("service", "")` or `("uploads", hour)`."""


@dataclass(frozen=True)
class Contribution:
    """Amounts that one video adds to the totals of its owner, its tags, its folders and the service."""

    user_id: str
    """User id of the owner."""
    status: str
    sizes: tuple[int, int] = (0, 0)
    """Bytes and milliseconds of the video. Both are 0 if the video is deleted."""
    tags: frozenset[str] = field(default_factory=frozenset)
    """Case-folded tags whose counts include the video. Empty if the video is not listed."""
    arrived_at: int = 0
    """Time at which the source file arrived, in epoch seconds. 0 without a source file."""
    folder: str = ""
    """Path of the video's folder. Empty if the video is in no folder, or is deleted."""

    def counts(self) -> dict[str, int]:
        """Return the video's amounts for the owner's totals, by name: bytes, milliseconds, and 1 under the name of the
        video's status."""
        return {self.status: 1, **dict(zip(SIZES, self.sizes, strict=True))}

    def folder_counts(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Yield each folder whose counts include the video, and the amounts.

        The video adds 1 to `count` of its folder, and of each folder that contains this folder. It adds 1 to `direct`
        of its folder only.
        """
        for path in ancestors(self.folder):
            yield path, {"count": 1, "direct": int(path == self.folder)}


def contribution(video: "AnyVideo | None") -> Contribution | None:
    """Return the amounts that a video in its current state adds to the totals. `None` if `video` is `None`.

    If the video has a source file, its bytes are the size of this file, not `fileSize` of the document. The amounts
    include the tags only while the video is listed, because the tags of an unlisted video may be confidential.
    """
    if video is None:
        return None
    alive = video["status"] != "deleted"
    source = video.get("source", video)
    sizes = (int(source.get("fileSize", 0)), int(video.get("duration", 0))) if alive else (0, 0)
    tags = frozenset(normalised_tags(video)) if is_listed(video) else frozenset()
    folder = video.get("folder", "") if alive else ""
    arrived_at = int(video.get("source", {}).get("arrivedAt", 0))
    return Contribution(video["userId"], video["status"], sizes, tags, arrived_at, folder)


def counted(marker: Item | None) -> Contribution | None:
    """Return the amounts that the totals contain for a video, from its MARKER item.

    Returns `None` if `marker` is `None`, because the totals then do not contain the video.
    """
    if marker is None:
        return None
    sizes = marker["counted"]
    return Contribution(
        marker["userId"],
        sizes["status"],
        (int(sizes["bytes"]), int(sizes["milliseconds"])),
        frozenset(marker.get("tags", ())),
        int(sizes["arrivedAt"]),
        sizes.get("folder", ""),
    )


def video_changed(record: Record, now: int) -> Iterator[Outgoing]:
    """Yield a message to the queue `aggregates` if the change of a video may affect totals or the video's index
    entries.

    `now` is in epoch seconds.
    """
    old, new = record.before, record.new
    moved = _has_moved(old, new, now)
    if moved or contribution(old) != contribution(new):
        yield Outgoing(AGGREGATES_QUEUE, aggregates_message(new["videoId"], request_id_of(new), entries=moved))


def video_removed(record: Record, now: int) -> Iterator[Outgoing]:
    """Yield a message to the queue `aggregates`, whose worker then subtracts the removed video from the totals."""
    yield Outgoing(AGGREGATES_QUEUE, aggregates_message(record.old["videoId"], record.correlation_id))


def _has_moved(old: Item | None, new: Item, now: int) -> bool:
    """Return whether the video's index entries, including the entry for its schedule, may have to change."""
    if old is None:
        # The request that created the video wrote all its entries, except the schedule's.
        return bool({"publishAt", "expiresAt"} & new.keys())
    # A change that began before the scheduled time may be written after that time. It then undoes the scheduled
    # publication.
    is_late = is_listed(new) != is_published(new, now)
    return is_late or index_position(old) != index_position(new)


class UnsettledVideos(WriteContention):
    """The totals do not contain the current state of some videos yet.

    `contended` has the ids of videos for which every attempt conflicted with other writers. `unreached` has the ids of
    videos that were not processed in time.
    """

    def __init__(self, contended: Sequence[str], unreached: Sequence[str]) -> None:
        super().__init__("Other writers are changing the same totals.")
        self.contended = frozenset(contended)
        self.unreached = frozenset(unreached)


@dataclass(frozen=True)
class _Move:
    """Comparison of a video with its MARKER item. The comparison determines the amounts to add to the totals."""

    video_id: str
    video: "AnyVideo | None"
    """Current item of the video; `None` if the video was removed."""
    marker: Item | None
    """MARKER item, which stores the amounts that the totals contain for the video. `None` if the totals do not contain
    the video."""
    correlation_id: str | None
    """Correlation id of the request that triggered the update."""
    since: int
    """Time in epoch seconds. Earlier uploads are not counted."""

    @cached_property
    def before(self) -> Contribution | None:
        """Amounts that the totals contain for the video."""
        return counted(self.marker)

    @cached_property
    def after(self) -> Contribution | None:
        """Amounts that the totals must contain for the video in its current state."""
        return contribution(self.video)

    @property
    def is_due(self) -> bool:
        """Whether the totals must change."""
        return self.before != self.after

    @cached_property
    def differences(self) -> dict[TotalName, dict[str, int]]:
        """Amounts to add to the totals: a dictionary of names and amounts for each total. Amounts of zero are
        omitted."""
        sums: dict[TotalName, dict[str, int]] = {}
        for part, sign in ((self.before, -1), (self.after, 1)):
            if part is None:
                continue
            counts = {name: sign * value for name, value in part.counts().items()}
            _add(sums, ("user", part.user_id), counts)
            _add(sums, ("service", ""), counts)
            for tag in part.tags:
                _add(sums, ("tag", tag), {"count": sign})
            for path, counts in part.folder_counts():
                _add(sums, ("folder", part.user_id, path), {name: sign * value for name, value in counts.items()})
        if (arrived_at := self._new_upload) is not None:
            _add(sums, ("uploads", hour_of(arrived_at)), {"uploads": 1})
        return {
            total: moved
            for total, counts in sums.items()
            if (moved := {name: value for name, value in counts.items() if value})
        }

    @property
    def _new_upload(self) -> int | None:
        """Arrival time of the source file in epoch seconds. `None` if the upload is already counted or too old, or does
        not exist."""
        counted_at = self.before.arrived_at if self.before else 0
        arrived_at = self.after.arrived_at if self.after else 0
        return arrived_at if arrived_at not in (0, counted_at) and arrived_at >= self.since else None


def _add(
    sums: dict[TotalName, dict[str, int]], total: TotalName, counts: Mapping[str, int]
) -> dict[TotalName, dict[str, int]]:
    present = sums.setdefault(total, {})
    for name, value in counts.items():
        present[name] = present.get(name, 0) + value
    return sums


class Aggregates:
    """Worker that updates totals after videos have changed. `elapsed` is a monotonic clock in seconds."""

    def __init__(self, table: Table, elapsed: Callable[[], float] = time.monotonic) -> None:
        self.table = table
        self._elapsed = elapsed

    def settle(
        self,
        video_ids: Sequence[str],
        now: int,
        requests: Mapping[str, str | None] | None = None,
        in_time: Callable[[], bool] = lambda: True,
    ) -> int:
        """Update the totals for these videos. Return the number of videos that needed an update.

        Reads the videos again after each write, until no video needs an update. Otherwise a concurrent change could be
        lost, because another worker may have handled the message of that change before this write.

        `now` is in epoch seconds. `requests` has the correlation id of the triggering request, by video id. The worker
        calls `in_time` before each transaction, and stops when it returns false.

        Raises UnsettledVideos if some videos still need an update, after all other videos were updated. Raises
        Unavailable if the table cannot be read.
        """
        different = list(dict.fromkeys(video_ids))
        moved = 0
        contended: list[str] = []
        for start in range(0, len(different), VIDEOS_AT_A_TIME):
            some = different[start : start + VIDEOS_AT_A_TIME]
            due, unsettled = self._settle_some(some, now, requests or {}, in_time)
            if unsettled and not in_time():
                raise UnsettledVideos(contended, [*unsettled, *different[start + VIDEOS_AT_A_TIME :]])
            moved += len(due)
            contended += unsettled
        if contended:
            raise UnsettledVideos(contended, ())
        return moved

    def _settle_some(
        self, video_ids: Sequence[str], now: int, requests: Mapping[str, str | None], in_time: Callable[[], bool]
    ) -> tuple[set[str], list[str]]:
        """Update the totals for these videos.

        Return the ids of all videos that needed an update, and the ids of the videos that still need one.
        """
        pending, due = list(video_ids), set[str]()
        written: dict[str, Item | None] = {}
        # `retry_on_conflict` does not fit: each attempt updates only some videos, and the last one finds none to
        # update.
        for attempt in range(MAX_ATTEMPTS):
            moves = [move for move in self._moves(pending, written, requests, now) if move.is_due]
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
        self, video_ids: Sequence[str], written: Mapping[str, Item | None], requests: Mapping[str, str | None], now: int
    ) -> Iterator[_Move]:
        """Read the videos and their MARKER items, and yield the comparison of each video.

        `written` has the MARKER items that this worker has written, by video id. The worker does not read these items
        again. If another worker writes such an item later, that worker also compares the item with the video.
        """
        keys = [VIDEO.key(videoId=video_id) for video_id in video_ids]
        keys += [MARKER.key(videoId=video_id) for video_id in video_ids if video_id not in written]
        read = self.table.batch_get(keys, attributes=READ, consistent=True)
        items = {(item[PARTITION_KEY], item[SORT_KEY]): item for item in read}
        for video_id in video_ids:
            video, marker = (items.get((key[PARTITION_KEY], key[SORT_KEY])) for key in _keys(video_id))
            since = now - (UPLOADS_RETAINED_DAYS - 1) * DAY_SECONDS
            yield _Move(video_id, video, written.get(video_id, marker), requests.get(video_id), since)

    def _carry_out(self, moves: Sequence[_Move], now: int, in_time: Callable[[], bool]) -> dict[str, Item | None]:
        """Write MARKER items and totals in transactions of maximum size. Return the written MARKER items by video id.

        Stops when `in_time` returns false. Continues with the next transaction if one conflicts with another writer.
        """
        written: dict[str, Item | None] = {}
        # Sorted, so that videos with the same owner and tags share a transaction. A transaction writes each total only
        # once.
        for batch in _batches(sorted(moves, key=lambda move: sorted(move.differences))):
            if not in_time():
                break
            markers = [_marker(move, now) for move in batch]
            totals = _summed(batch)
            writes = [self._marker_write(move, marker) for move, marker in zip(batch, markers, strict=True)]
            shard = shard_of(batch[0].video_id)
            writes += [
                _total_write(self.table, total, counts, shard, _author(batch), now)
                for total, counts in sorted(totals.items())
            ]
            began = self._elapsed()
            try:
                self.table.transact(writes)
            except CONFLICTS:
                continue
            written |= {move.video_id: marker for move, marker in zip(batch, markers, strict=True)}
            self.table.rest(most_contended(batch) / UNITS_PER_SECOND - (self._elapsed() - began))
        return written

    def _marker_write(self, move: _Move, marker: Item | None) -> Write:
        """Return the write that stores a video's new MARKER item, or removes the stored one if `marker` is `None`.

        The write has the condition that the stored MARKER item is unchanged.
        """
        if marker is None:
            return self.table.remove(MARKER.key(videoId=move.video_id), condition=unchanged(move.marker))
        return self.table.put(marker, condition=unchanged(move.marker))


def most_contended(moves: Sequence[_Move]) -> int:
    """Return the maximum number of write units that these updates consume in one partition of the table or an index.

    All tag counts share one partition of RelationIndex. There, each change of a count deletes one entry and adds
    another. The MARKER items of an owner share an index partition if they have the same shard. The counts of an owner's
    folders share a partition of the table. Each transactional write of such a count consumes two units.
    """
    touched: Counter[tuple[str, int]] = Counter()
    for move in moves:
        owners = [part.user_id for part in (move.before, move.after) if part]
        if len(owners) == 1 or owners[0] != owners[1]:  # else the index entry of the MARKER item is unchanged
            touched.update((owner, shard_of(move.video_id)) for owner in owners)
    # All tags share a partition. All folders of an owner also share one.
    counts = Counter(total[:-1] for total in _summed(moves) if total[0] in ("tag", "folder"))
    return max([0, *(2 * count for count in counts.values()), *touched.values()])


def _keys(video_id: str) -> tuple[Key, Key]:
    return VIDEO.key(videoId=video_id), MARKER.key(videoId=video_id)


def _batches(moves: Sequence[_Move]) -> Iterator[list[_Move]]:
    """Yield groups of updates. Each group fits in one transaction."""
    batch: list[_Move] = []
    touched: set[TotalName] = set()
    for move in moves:
        totals = move.differences.keys()
        if batch and len(batch) + 1 + len(touched | totals) > LARGEST_TRANSACTION:
            yield batch
            batch, touched = [], set()
        batch.append(move)
        touched |= totals
    if batch:
        yield batch


def _summed(moves: Sequence[_Move]) -> dict[TotalName, dict[str, int]]:
    """Return the amounts to add to each total, summed over all moves. A transaction can write each item only once.

    Includes totals with a sum of 0, because their `version` must still increase.
    """
    sums: dict[TotalName, dict[str, int]] = {}
    for move in moves:
        for total, counts in move.differences.items():
            _add(sums, total, counts)
    return sums


def _marker(move: _Move, now: int) -> Item | None:
    """Return the video's new MARKER item, or `None` if the video does not exist."""
    part = move.after
    if part is None:
        return None
    marker = {
        **MARKER.key(videoId=move.video_id),
        "videoId": move.video_id,
        "userId": part.user_id,
        # In a map, because an index would project top-level attributes of these names.
        "counted": {
            "status": part.status,
            **dict(zip(SIZES, part.sizes, strict=True)),
            "arrivedAt": part.arrived_at,
            **({"folder": part.folder} if part.folder else {}),
        },
        **({"tags": set(part.tags)} if part.tags else {}),
        "rel": counted_relation(part.user_id),
        "relShard": shard_of(move.video_id),
        "relSort": 0,
        "relId": move.video_id,
    }
    version = int((move.marker or {}).get("version", 0)) + 1
    return with_version(marker, AGGREGATES.acting_for(move.correlation_id), now, version=version)


def _author(moves: Sequence[_Move]) -> Caller:
    """Return the author of a transaction for several videos.

    If one request triggered all updates, the author's correlation id is the id of this request.
    """
    requests = {move.correlation_id for move in moves}
    return AGGREGATES.acting_for(requests.pop() if len(requests) == 1 else None)


def _total_write(
    table: Table, total: TotalName, counts: Mapping[str, int], shard: int, caller: Caller, now: int
) -> Write:
    """Return the write that adds `counts` to a total.

    Totals of the service are the sums of SHARDS items. A transaction adds its amounts to only one of these items, so
    one write suffices for any number of videos.
    """
    kind, *parts = total
    if kind == "user":
        return table.update(PROFILE.key(userId=parts[0]), user_addition(parts[0], counts, caller, now))
    if kind == "folder":
        user_id, path = parts
        return table.update(folder_count_key(user_id, path), folder_addition(user_id, path, counts, caller, now))
    if kind == "service":
        return table.update(SERVICE_TOTALS.key(shard=shard), service_addition(counts, caller, now))
    if kind == "uploads":
        until = start_of(parts[0]) + UPLOADS_RETAINED_DAYS * DAY_SECONDS
        change = _addition({TTL_ATTRIBUTE: until}, counts, caller, now)
        return table.update(UPLOAD_HOUR.key(shard=shard, hour=parts[0]), change)
    return table.update(TAG_COUNT.key(tag=parts[0]), tag_addition(parts[0], counts["count"], caller, now))


def user_addition(user_id: str, counts: Mapping[str, int], caller: Caller, now: int) -> Expression:
    """Return the update that adds `counts` to a user's totals. If the user has no totals, the update creates them.

    `now` is in epoch seconds.
    """
    attributes = {"userId": user_id, "rel": USERS, "relShard": 0, "relSort": 0, "relId": user_id}
    return _addition(attributes, counts, caller, now)


def service_addition(counts: Mapping[str, int], caller: Caller, now: int) -> Expression:
    """Return the update that adds `counts` to one of the items whose sums are the totals of the service.

    `now` is in epoch seconds.
    """
    return _addition({}, counts, caller, now)


def tag_addition(tag: str, difference: int, caller: Caller, now: int) -> Expression:
    """Return the update that adds `difference` to the count of a tag. If the tag has no count, the update creates it.

    `now` is in epoch seconds.
    """
    attributes = {"tag": tag, "rel": TAGS, "relShard": 0, "relId": tag}
    return _addition(attributes, {"count": difference, "relSort": difference}, caller, now)


def folder_addition(user_id: str, path: str, counts: Mapping[str, int], caller: Caller, now: int) -> Expression:
    """Return the update that adds `counts` to the counts of a folder. If the folder has no counts, the update creates
    them.

    `now` is in epoch seconds.
    """
    return _addition({"userId": user_id, "folder": path}, counts, caller, now)


def _addition(attributes: Item, counts: Mapping[str, int], caller: Caller, now: int) -> Expression:
    """Return the update that adds `counts` to a total, and sets `attributes` and the audit fields.

    The update increments `version`, so an unchanged version means an unchanged total.
    """
    added = {**counts, "version": 1}
    addition = Expression.of("ADD " + ", ".join(f"#{name} :{name}" for name in added), **added)
    return signing(attributes, caller, now) + addition
