"""The catalogue's store: every access pattern on single videos is one method here, and one or two DynamoDB requests.

The lists are in shared/videos/lists.py.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from shared.aws.dynamodb import Table, Write
from shared.aws.expressions import Expression, change_between
from shared.aws.failures import ConditionFailed, TransactionConflict
from shared.aws.idempotency import carry_out, earlier_answer, in_flight, record, replayed
from shared.aws.records import ABSENT, CONFLICTS, is_ours, retry_on_conflict, unchanged
from shared.core.attributes import Item
from shared.core.caller import UPDATED_FOR, Caller, Once
from shared.core.errors import AlreadyExists, BeingRemoved, VersionMismatch
from shared.schema import (
    PARTITION_KEY,
    SORT_KEY,
    TTL_ATTRIBUTE,
    VIDEO,
    VIEW_COUNTER,
)
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import STRANGER, is_published, is_purged, is_seen, is_shown, owned_by, seen_by
from shared.videos.counters import COUNT, ViewCounters
from shared.videos.documents import MADE_IN, PLAYING_FIELDS, READ, SUMMARY_FIELDS, document, document_for
from shared.videos.entries import as_read, entry_moves, own_entries
from shared.videos.video import is_listed, stamp, upgraded


class Fetched(NamedTuple):
    """A video as a caller reads it."""

    document: dict[str, Any]
    version: int
    is_own: bool
    """Whether the caller may change the video, and so sees where it is stored."""


class VideoStore:
    """Videos in the table. Methods raise the errors of shared.core.errors."""

    def __init__(self, table: Table, *, moves_entries: bool = True) -> None:
        """With `moves_entries` a change moves the entries of the video's tags and series with it. The roles of other functions
        cannot write them: those leave it to the stream, and the change to the present schema to the next change by a person.
        """
        self.table = table
        self.counters = ViewCounters(table)
        self._moves_entries = moves_entries

    def create(
        self,
        item: Item,
        caller: Caller,
        now: int,
        once: Once | None = None,
        *,
        write_id: str | None = None,
        brought: bool = False,
    ) -> dict[str, Any]:
        """Create a video and return its document; with `once`, the answer of the first time.

        One PutItem; with tags, a series or `once` one transaction; before it one Query, if an admin brought the id (`brought`), as it may
        have been another video's. With a `write_id` it may be tried again by the same one. Raises AlreadyExists, and
        BeingRemoved while anything is left of an earlier video. One that only waited for its removal is removed then.
        """
        if brought:
            self._require_vacant(item["videoId"])
        new = stamp(item, caller=caller, now=now, version=1, write_id=write_id)
        answer = document(new, view_count=0)
        writes = [self.table.put(new, condition=ABSENT), *map(self.table.put, own_entries(new))]
        try:
            self.table.write_all([record(self.table, once, answer), *writes] if once else writes)
        except ConditionFailed as failure:
            if once and failure.position == 0:
                return replayed(once, failure.item)
            if is_ours(failure.item, new):
                return answer
            if failure.item and is_purged(failure.item, now):
                self._remove(failure.item)
                raise being_removed() from failure
            raise taken() from failure
        except TransactionConflict as conflict:
            if once:
                raise in_flight() from conflict
            raise
        return answer

    def _require_vacant(self, video_id: str) -> None:
        """Raise BeingRemoved while a purge has not removed all that belonged to an earlier video.

        Else the new one would have its credits, and the purge, which spares what exists, would leave them.
        """
        page = self.table.query(
            index=None,
            condition=Expression.of("#pk = :pk", pk=VIDEO.key(videoId=video_id)[PARTITION_KEY]),
            attributes=(SORT_KEY,),
            limit=2,
            consistent=True,
        )
        # The video's own item stands before all others; the write that follows finds out what to do about it.
        if page.items and page.items[0][SORT_KEY] != VIDEO.sk:
            raise being_removed()

    def _remove(self, item: Item) -> None:
        """Do what DynamoDB does hours or days after the time of a video; the stream then purges what belonged to it.

        Were it just replaced, the new video would have the credits, ratings and places in playlists of the old one.
        """
        with suppress(*CONFLICTS):  # somebody else has done it, or is about to
            self.table.write(self.table.remove(VIDEO.key(videoId=item["videoId"]), condition=unchanged(item)))

    def read(self, video_id: str, caller: Caller, now: int, fields: Sequence[str] = ()) -> Fetched:
        """The document, if the caller may see it; only some fields, if any are named.

        One BatchGetItem for video and counter, and one more for the shards of a counter that is spread; one GetItem when
        `fields` leaves the counter out.
        """
        key = VIDEO.key(videoId=video_id)
        if fields and "viewCount" not in fields:
            video = self.table.get(key, attributes=_needed(fields))
            counter = None
        else:
            counter_key = VIEW_COUNTER.key(videoId=video_id, shard=0)
            video, counter = self.table.get_all([key, counter_key], attributes=_needed(fields) if fields else ())
        item = seen_by(video, caller, now)
        whole = document_for(caller, item, self.counters.counts({video_id: counter})[video_id])
        shown = {name: whole[name] for name in fields or whole if name in whole}
        return Fetched(shown, item["version"], caller.owns(item["userId"]))

    def read_many(self, video_ids: Sequence[str], caller: Caller, now: int) -> dict[str, dict[str, Any]]:
        """The documents of those of up to 100 different videos that the caller may see.

        One BatchGetItem for 50 of them, or two side by side: videos and counters, also those of hidden videos, as to leave these
        out would be another trip. Shards of counters that are spread are one more trip, of those the caller may see.
        """
        keys = [VIDEO.key(videoId=video_id) for video_id in video_ids]
        keys += [VIEW_COUNTER.key(videoId=video_id, shard=0) for video_id in video_ids]
        items = self.table.get_all(keys, attributes=(*READ, *COUNT))
        seen = [
            (video, counter)
            for video, counter in zip(items, items[len(video_ids) :], strict=False)
            if video is not None and is_seen(video, caller, now)
        ]
        counts = self.counters.counts({video["videoId"]: counter for video, counter in seen})
        return {video["videoId"]: document_for(caller, video, counts[video["videoId"]]) for video, _ in seen}

    def items(self, video_ids: Iterable[str], *, consistent: bool = False) -> list[Item]:
        """The items of different videos as they are stored, in no order; one BatchGetItem for 100 of them."""
        return self.table.batch_get([VIDEO.key(videoId=video_id) for video_id in video_ids], consistent=consistent)

    def summaries(
        self,
        video_ids: Sequence[str],
        caller: Caller,
        now: int,
        *,
        also: Iterable[str] = (),
        consistent: bool = False,
    ) -> list[Item | None]:
        """What a list shows of these videos, in their order: one BatchGetItem for 100 of them.

        None for one that is not there, is deleted, or that the caller may not see. `also` names more attributes.
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
        edit: Callable[[Item], Item],
        *,
        matches: Callable[[int], bool] = lambda version: True,
        once: Once | None = None,
        write_id: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Apply `edit` to a video of the caller's and return its document; of a `dry_run`, what that would be.

        The write carries the version that was read as its condition. `matches` is the caller's own
        condition on the version (If-Match): raises VersionMismatch; without one, a lost race is run again.
        Tags that come or go make it a transaction, as does a series. With a `write_id` it may be tried again by the same one.
        """
        key = VIDEO.key(videoId=video_id)
        present = self.table.get(key, consistent=True)
        # After the video: were it read before, the same request could be carried out in between, and this one
        # would then find its own work done and call it a mistake.
        if answer := earlier_answer(self.table, once):
            return answer

        def attempt(present: Item | None) -> dict[str, Any]:
            item = owned_by(present, caller, now)
            if write_id and item.get("writeId") == write_id:
                return document(item)
            base = upgraded(item) if self._moves_entries else item
            new = changed(base, caller, now, edit, matches, write_id)
            if new is None or dry_run:
                return document(new or item)
            try:
                return carry_out(self.table, self._writes(item, new), new, document(new), once, what="the video")
            except TransactionConflict as conflict:
                raise ConditionFailed(self.table.get(key, consistent=True)) from conflict

        return retry_on_conflict(attempt, "the video", present=present)

    def _writes(self, item: Item, new: Item) -> list[Write]:
        """The writes that change one version of a video into the next, and move the entries of its tags and series."""
        update = self.table.update(
            VIDEO.key(videoId=new["videoId"]),
            change_between(item, new),
            condition=as_read(item),
        )
        come, gone = entry_moves(item, new) if self._moves_entries else ([], [])
        return [update, *map(self.table.put, come), *map(self.table.remove, gone)]

    def settle(self, video_id: str, now: int) -> Item | None:
        """Bring a video to the present schema, and into or out of the lists as its times have it by now.

        Its author and the time of its removal stay, as no content changes; so does its version, unless its schema version is
        raised. Returns the video as it is stored then; None when it is gone, or waits for its removal. Raises
        ConditionFailed or TransactionConflict when others change it meanwhile.
        """
        stored = self.table.get(VIDEO.key(videoId=video_id), consistent=True)
        if stored is None or is_purged(stored, now):
            return None
        current = upgraded(stored)
        if current == stored and is_listed(stored) == is_published(stored, now):
            return stored
        kept = ["updatedAt", "updatedBy", "updatedAs", UPDATED_FOR, TTL_ATTRIBUTE]
        if current == stored:
            # So that a retry of the write before, whose answer was lost, still knows it again.
            kept.append("writeId")
        version = stored["version"] + (current != stored)
        new = stamp(current, caller=STRANGER, now=now, version=version)
        new |= {name: stored[name] for name in kept if name in stored}
        self.table.write_all(self._writes(stored, new))
        return new


def _needed(fields: Sequence[str]) -> dict[str, None]:
    """The attributes of video and counter that these fields, their ETag and the check of the caller need."""
    both = [*fields, *(MADE_IN[name] for name in fields if name in MADE_IN)]
    if any(name in PLAYING_FIELDS for name in fields):
        both += ["videoId", "resolutions", MADE_IN["resolutions"]]
    return dict.fromkeys([*both, "version", *COUNT, *VISIBILITY_ATTRIBUTES])


def being_removed() -> BeingRemoved:
    """What to answer when an admin's videoId is still that of an earlier video, whose removal is under way."""
    return BeingRemoved(
        "An earlier video with this id is still being removed; try again.",
        headers={"Retry-After": "10"},
    )


def taken() -> AlreadyExists:
    """What to answer when an admin's videoId is another video's."""
    return AlreadyExists("A video with this videoId already exists.")


def changed(
    item: Item,
    caller: Caller,
    now: int,
    edit: Callable[[Item], Item],
    matches: Callable[[int], bool],
    write_id: str | None = None,
) -> Item | None:
    """The next version of a video of the caller's; None when there is nothing to change. Raises VersionMismatch.

    A video whose time to enter or leave the lists has come is changed by any edit.
    """
    version = item["version"]
    if not matches(version):
        raise VersionMismatch(f'The video is at version {version}; If-Match takes its ETag, or "{version}".')
    edited = edit(item)
    if not change_between(item, edited).text and is_listed(item) == is_published(edited, now):
        return None
    return stamp(edited, caller=caller, now=now, version=version + 1, write_id=write_id)
