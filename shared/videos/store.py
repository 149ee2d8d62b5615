"""Store of single videos: one method per access pattern, with one or two DynamoDB requests each.

Lists are in shared/videos/lists.py.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from shared.aws.dynamodb import Table, Write
from shared.aws.expressions import Expression, change_between
from shared.aws.failures import ConditionFailed, TransactionConflict
from shared.aws.idempotency import carry_out, find_stored_response, in_flight, record, replay_response
from shared.aws.records import ABSENT, CONFLICTS, is_own_write, retry_on_conflict, unchanged
from shared.core.attributes import Item
from shared.core.caller import UPDATED_FOR, Caller, IdempotentRequest
from shared.core.errors import AlreadyExists, BeingRemoved, VersionMismatch
from shared.schema import (
    PARTITION_KEY,
    SORT_KEY,
    TTL_ATTRIBUTE,
    VIDEO,
    VIEW_COUNTER,
)
from shared.video_fields import LONGEST_UNIQUE, UNIQUE, VISIBILITY_ATTRIBUTES
from shared.videos.access import (
    STRANGER,
    is_published,
    is_purged,
    is_shown,
    is_visible,
    not_found,
    require_owned,
    require_visible,
)
from shared.videos.counters import COUNT, ViewCounters
from shared.videos.documents import JOB_ATTRIBUTES, PLAYING_FIELDS, READ, SUMMARY_FIELDS, document, document_for
from shared.videos.entries import as_read, entry_moves, own_entries
from shared.videos.video import is_listed, stamp, to_current_schema

if TYPE_CHECKING:
    from shared.entities import AnyVideo, Video
    from shared.videos.reservations import ReservationMove


class FetchedVideo(NamedTuple):
    """Document of a video for a caller, with the video's version for the ETag."""

    document: dict[str, Any]
    version: int
    is_own: bool
    """Whether the caller may change the video, and may therefore see S3 URIs."""


class VideoStore:
    """Store of videos. Methods raise the errors of shared.core.errors."""

    def __init__(self, table: Table, *, moves_entries: bool = True) -> None:
        """Create a store on the table.

        With `moves_entries`, each change also upgrades the item to the current schema, and writes the index entries of
        tags, series and folder. Some functions pass `False`, because their roles do not permit writes of index
        entries. The stream consumer then writes the entries.
        """
        self.table = table
        self.counters = ViewCounters(table)
        self._moves_entries = moves_entries

    def create(
        self,
        item: "Video",
        caller: Caller,
        now: int,
        once: IdempotentRequest | None = None,
        *,
        write_id: str | None = None,
        has_client_id: bool = False,
    ) -> dict[str, Any]:
        """Create a video and return its document.

        With `once`, returns the stored response of an earlier identical request.

        Costs one PutItem, or one transaction if there are index entries (for tags, a series or a folder), a unique
        value or `once`. An id supplied by an admin (`has_client_id`) adds a Query, because an earlier video may have
        used it. A call with a `write_id` is safe to retry with the same `write_id`.

        Raises AlreadyExists if the id or a unique value is in use. Raises BeingRemoved while items of an earlier video
        with this id remain. If the TTL of the earlier video has passed, deletes that video before raising the error.
        """
        if has_client_id:
            self._require_vacant(item["videoId"])
        new = stamp(item, caller=caller, now=now, version=1, write_id=write_id)
        response = document(new, view_count=0)
        writes = [record(self.table, once, response)] if once else []
        writes += [self.table.put(new, condition=ABSENT), *map(self.table.put, own_entries(new))]
        move = self._reservation_move({}, new)

        def attempt(_: Item | None) -> dict[str, Any]:
            try:
                self.table.write_all([*writes, *move.writes()] if move else writes)
            except ConditionFailed as failure:
                if move and failure.position >= len(writes):
                    move.resolve(failure, failure.position - len(writes), now)
                    raise
                if once and failure.position == 0:
                    return replay_response(once, failure.item)
                if is_own_write(failure.item, new):
                    return response
                if failure.item and is_purged(failure.item, now):
                    self._remove(failure.item)
                    raise being_removed_error() from failure
                raise already_exists_error() from failure
            except TransactionConflict as conflict:
                if once:
                    raise in_flight() from conflict
                raise
            return response

        return retry_on_conflict(attempt, "the video")

    def _require_vacant(self, video_id: str) -> None:
        """Raise BeingRemoved while items of an earlier video with this id remain.

        Without this check, the new video would inherit the credits of the earlier one, because a purge skips a video
        that exists again.
        """
        page = self.table.query(
            index=None,
            condition=Expression.of("#pk = :pk", pk=VIDEO.key(videoId=video_id)[PARTITION_KEY]),
            attributes=(SORT_KEY,),
            limit=2,
            consistent=True,
        )
        # The video's own item sorts first. If it exists, the following write handles it.
        if page.items and page.items[0][SORT_KEY] != VIDEO.sk:
            raise being_removed_error()

    def _remove(self, item: Item) -> None:
        """Delete a video after its TTL has passed, without waiting for DynamoDB. The stream then triggers the purge of
        its related items.

        Without the purge, a new video with the same id would inherit the credits, ratings and playlist entries.
        """
        with suppress(*CONFLICTS):  # another writer has deleted it, or is about to
            self.table.write(self.table.remove(VIDEO.key(videoId=item["videoId"]), condition=unchanged(item)))

    def read(self, video_id: str, caller: Caller, now: int, fields: Sequence[str] = ()) -> FetchedVideo:
        """Return a video's document if the caller may see the video. If `fields` is not empty, the document has only
        these fields.

        Costs one GetItem if `fields` is not empty and does not contain `viewCount`. Otherwise, costs one BatchGetItem
        for the video and its counter, and another BatchGetItem if the counter is sharded. Raises NotFound if the caller
        may not see the video.
        """
        key = VIDEO.key(videoId=video_id)
        if fields and "viewCount" not in fields:
            video = self.table.get(key, attributes=_needed(fields))
            counter = None
        else:
            counter_key = VIEW_COUNTER.key(videoId=video_id, shard=0)
            video, counter = self.table.get_all([key, counter_key], attributes=_needed(fields) if fields else ())
        item = require_visible(video, caller, now)
        whole = document_for(caller, item, self.counters.counts({video_id: counter})[video_id])
        shown = {name: whole[name] for name in fields or whole if name in whole}
        return FetchedVideo(shown, item["version"], caller.owns(item["userId"]))

    def read_unique(self, owner: str, field: str, value: str, caller: Caller, now: int) -> FetchedVideo:
        """Return the document of an owner's video with this value of a unique field.

        Costs the requests of `read`, and a GetItem of the reservation. The GetItem is consistent, so that a value is
        found as soon as it is written. Raises NotFound if no video has the value, or the caller may not see the video.
        """
        from shared.videos.reservations import find

        # No stored value is longer than LONGEST_UNIQUE, and a longer one may exceed DynamoDB's limit for keys.
        video_id = find(self.table, owner, field, value) if len(value) <= LONGEST_UNIQUE else None
        fetched = self.read(video_id, caller, now) if video_id else None
        # The reservation may be stale: a later video may have the id.
        if fetched is None or fetched.document.get(field) != value:
            raise not_found()
        return fetched

    def read_many(self, video_ids: Sequence[str], caller: Caller, now: int) -> dict[str, dict[str, Any]]:
        """Return the documents of up to 100 distinct videos, by id. Omits videos that the caller may not see.

        Costs one BatchGetItem per 50 videos, in parallel. The requests also read the counters of videos that the caller
        may not see, because reading the counters afterwards would need another round trip. Sharded counters of visible
        videos cost one more round trip.
        """
        keys = [VIDEO.key(videoId=video_id) for video_id in video_ids]
        keys += [VIEW_COUNTER.key(videoId=video_id, shard=0) for video_id in video_ids]
        items = self.table.get_all(keys, attributes=(*READ, *COUNT))
        visible = [
            (video, counter)
            for video, counter in zip(items, items[len(video_ids) :], strict=False)
            if video is not None and is_visible(video, caller, now)
        ]
        counts = self.counters.counts({video["videoId"]: counter for video, counter in visible})
        return {video["videoId"]: document_for(caller, video, counts[video["videoId"]]) for video, _ in visible}

    def items(self, video_ids: Iterable[str], *, consistent: bool = False) -> "list[Video]":
        """Return the stored items of distinct videos, in any order. Omits missing videos. Costs one BatchGetItem per
        100 videos."""
        keys = [VIDEO.key(videoId=video_id) for video_id in video_ids]
        return cast("list[Video]", self.table.batch_get(keys, consistent=consistent))

    def summaries(
        self,
        video_ids: Sequence[str],
        caller: Caller,
        now: int,
        *,
        also: Iterable[str] = (),
        consistent: bool = False,
    ) -> list[Item | None]:
        """Return the attributes of videos that summaries and access checks need, in the order of `video_ids`. Costs one
        BatchGetItem per 100 videos.

        An element is `None` if the video does not exist, is deleted, or is hidden from the caller. `also` names
        additional attributes to read.
        """
        if not video_ids:
            return []
        keys = [VIDEO.key(videoId=video_id) for video_id in dict.fromkeys(video_ids)]
        attributes = dict.fromkeys([*SUMMARY_FIELDS, *VISIBILITY_ATTRIBUTES, *also])
        read = self.table.batch_get(keys, attributes=attributes, consistent=consistent)
        items = {item["videoId"]: item for item in read}
        shown = {video_id: item for video_id, item in items.items() if is_shown(item, caller, now)}
        return [shown.get(video_id) for video_id in video_ids]

    def change(
        self,
        video_id: str,
        caller: Caller,
        now: int,
        edit: Callable[["Video"], "Video"],
        *,
        matches: Callable[[int], bool] = lambda version: True,
        once: IdempotentRequest | None = None,
        write_id: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Apply `edit` to a video that the caller owns, and return the new document. With `dry_run`, writes nothing.

        The write is conditional on the version that was read. `matches` checks the caller's If-Match against that
        version; a mismatch raises VersionMismatch. Without If-Match, a conflicting write is retried.

        The write is a transaction if tags, the series, the folder or a unique value change, or with `once`. A call with
        a `write_id` is safe to retry with the same `write_id`.
        """
        key = VIDEO.key(videoId=video_id)
        present = self.table.get(key, consistent=True)
        # The stored response is read after the video. In the other order, an identical request could finish between the
        # two reads. This request would then report an error, because the video has already been changed.
        if response := find_stored_response(self.table, once):
            return response
        holders: dict[str, str] = {}

        def attempt(present: Item | None) -> dict[str, Any]:
            item = require_owned(present, caller, now)
            if write_id and item.get("writeId") == write_id:
                return document(item)
            base = to_current_schema(item) if self._moves_entries else item
            new = apply_edit(base, caller, now, edit, matches, write_id)
            if new is None:
                return document(item)
            if dry_run:
                self.require_unique(item, new, now, {})
                return document(new)
            move = self._reservation_move(item, new, holders)
            writes = self._writes(item, new)
            try:
                whole = [*writes, *move.writes()] if move else writes
                return carry_out(self.table, whole, new, document(new), once, resource="the video")
            except ConditionFailed as failure:
                if not move or failure.position < len(writes):
                    raise
                move.resolve(failure, failure.position - len(writes), now)
                raise ConditionFailed(present) from failure
            except TransactionConflict as conflict:
                raise ConditionFailed(self.table.get(key, consistent=True)) from conflict

        return retry_on_conflict(attempt, "the video", present=present)

    def _writes(self, item: "Video", new: "Video") -> list[Write]:
        """Return the writes that store the next version `new` of the video `item`, and update its tag, series and
        folder entries."""
        update = self.table.update(
            VIDEO.key(videoId=new["videoId"]),
            change_between(item, new),
            condition=as_read(item),
        )
        added, removed = entry_moves(item, new) if self._moves_entries else ([], [])
        return [update, *map(self.table.put, added), *map(self.table.remove, removed)]

    def find_unique(self, owner: str, field: str, value: str, now: int, taken: Mapping[str, str]) -> str | None:
        """Return the videoId of the owner's video with this value of a unique field. `None` if no such video exists.

        For `taken`, see shared.videos.reservations.find_video. Costs two consistent GetItems.
        """
        from shared.videos.reservations import find_video

        return find_video(self.table, owner, field, value, now, taken)

    def require_unique(self, old: "AnyVideo", new: "Video", now: int, taken: dict[str, str]) -> None:
        """Raise AlreadyExists if the change from `old` to `new` gives a unique field a value that another video of the
        owner already has.

        For `taken`, see `ReservationMove.require_free`.
        """
        if move := self._reservation_move(old, new):
            move.require_free(now, taken)

    def _reservation_move(
        self, old: "AnyVideo", new: "Video", holders: dict[str, str] | None = None
    ) -> "ReservationMove | None":
        """Return the writes that reserve and free unique values; `None` if no unique value changes."""
        if all(old.get(name) == new.get(name) for name in UNIQUE):
            return None
        from shared.videos.reservations import ReservationMove  # few requests need this

        return ReservationMove(self.table, old, new, {} if holders is None else holders)

    def settle(self, video_id: str, now: int) -> "Video | None":
        """Upgrade a video to the current schema, and list or unlist it according to its publication times.

        Returns the resulting item. `None` if the video does not exist, or if its TTL has passed. Raises ConditionFailed
        or TransactionConflict if another writer changes the video concurrently.

        The author and the TTL stay unchanged, because no content changes. Increments the version only if the schema
        version changes.
        """
        stored = cast("Video | None", self.table.get(VIDEO.key(videoId=video_id), consistent=True))
        if stored is None or is_purged(stored, now):
            return None
        current = to_current_schema(stored)
        if current == stored and is_listed(stored) == is_published(stored, now):
            return stored
        unchanged_names = ["updatedAt", "updatedBy", "updatedAs", UPDATED_FOR, TTL_ATTRIBUTE]
        if current == stored:
            # Keep the `writeId` of the preceding write. If the response of that write was lost, its retry looks for the
            # `writeId`.
            unchanged_names.append("writeId")
        version = stored["version"] + (current != stored)
        stamped: Item = dict(stamp(current, caller=STRANGER, now=now, version=version))
        new = cast("Video", stamped | {name: value for name, value in stored.items() if name in unchanged_names})
        self.table.write_all(self._writes(stored, new))
        return new


def _needed(fields: Sequence[str]) -> dict[str, None]:
    """Return the names of the attributes to read from a video and its counter for a document with these fields. Includes
    the attributes for the ETag and the access check."""
    both = [*fields, *(JOB_ATTRIBUTES[name] for name in fields if name in JOB_ATTRIBUTES)]
    if any(name in PLAYING_FIELDS for name in fields):
        both += ["videoId", "resolutions", JOB_ATTRIBUTES["resolutions"]]
    return dict.fromkeys([*both, "version", *COUNT, *VISIBILITY_ATTRIBUTES])


def being_removed_error() -> BeingRemoved:
    """Return the error for the creation of a video with the id of an earlier video that is still being purged.

    Only admins can supply an id.
    """
    return BeingRemoved(
        "An earlier video with this videoId is still being removed. Retry the request.",
        headers={"Retry-After": "10"},
    )


def already_exists_error() -> AlreadyExists:
    """Return the error for the creation of a video with the id of an existing video. Only admins can supply an id."""
    return AlreadyExists("A video with this videoId already exists. Choose another videoId.")


def apply_edit(
    item: "Video",
    caller: Caller,
    now: int,
    edit: Callable[["Video"], "Video"],
    matches: Callable[[int], bool],
    write_id: str | None = None,
) -> "Video | None":
    """Return the next version of a video that the caller owns.

    Returns `None` if `edit` changes nothing and the service need not list or unlist the video at `now`. Raises
    VersionMismatch, and the errors of `edit`.
    """
    version = item["version"]
    if not matches(version):
        raise VersionMismatch.at("video", version)
    edited = edit(item)
    if not change_between(item, edited).text and is_listed(item) == is_published(edited, now):
        return None
    return stamp(edited, caller=caller, now=now, version=version + 1, write_id=write_id)
