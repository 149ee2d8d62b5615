"""Restores items from an export, or from a table that was restored to a point in time.

A restore writes missing items as an import does. It replaces an existing item only if the item is damaged. An item is
damaged if it was changed without the service, or by a user in the period that the operator gives. Other differences are
legitimate later changes. The restore prints and keeps them, unless the operator forces the replacement. A restore is
idempotent.
"""

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from shared.aws.dynamodb import Key, Table, Write
from shared.aws.expressions import Expression, change_between
from shared.aws.failures import ConditionFailed
from shared.aws.records import ABSENT, CONFLICTS, key_of, retry_on_conflict
from shared.background.purge import PURGE
from shared.core.attributes import Item, Value, decode_item, encode
from shared.core.caller import Caller
from shared.core.errors import AlreadyExists, LimitReached, NotFound, WriteContention
from shared.entities import Video
from shared.relations.item_store import OWNER, REMOVING
from shared.relations.playlist_entries import moved_entry
from shared.relations.playlists import DELETED_AT, MOVES, PlaylistStore
from shared.relations.ratings import RatingStore
from shared.schema import ENTRY, MEMBERSHIP, PARTITION_KEY, PLAYLIST, SORT_KEY, TTL_ATTRIBUTE, VIDEO
from shared.video_fields import PROBED
from shared.videos.access import is_purged
from shared.videos.counters import view_count
from shared.videos.entries import entry_moves
from shared.videos.reservations import ReservationMove
from shared.videos.video import stamp
from tools.exchange_format import DUE, MADE, ItemLine
from tools.imdb import RowRefused
from tools.imdb_import import CHANGED, IMPORTER, UNCHANGED
from tools.importing import COUNTED, DIFFERENT, STAMPS, LineImport, Outcome, Restore, entry_items
from tools.progress import Bars
from tools.rate_limit import Pool, RateLimiter
from tools.work_file import WorkFile

RESTORER = Caller.job("restore")
VIDEO_RESTORER = Caller.job("put-back")
"""Author of the videos that a restore has created. Later runs recognise restored videos by this author."""
COMMANDS = tuple(caller.subject for caller in (IMPORTER, RESTORER, VIDEO_RESTORER))
"""User ids of the command-line tools. Callers with these ids have the kind `job`, but their changes count as changes by
users."""

JOB_ATTRIBUTES = ("source", "pictures", "posterTime", "failure")
"""Names of the video attributes that store the progress and results of jobs for the source file."""
NOT_CONTENT = (*MADE, *STAMPS, "updatedAs", "updatedFor", "version", "schemaVersion", OWNER, REMOVING, MOVES)
"""Names of the attributes that comparisons ignore. Items that differ only in these attributes count as equal."""

IDENTIFIERS = ("personId", "region", "language", "kind")
"""Names of the attributes that identify an item within its video. Printed lines contain their values."""

MISSING = RowRefused("is missing, and may have been removed on purpose: skipped")
CHANGED_CONCURRENTLY = RowRefused("it was changed concurrently: skipped")
VIEWS_CHANGED = RowRefused("its views changed concurrently: run the command again")


PrintLine = Callable[[str], None]
"""Function that prints a line of text about an item that is restored, repaired or skipped."""


@dataclass(frozen=True)
class RestorePlan:
    """Items to restore, and the criteria by which an item counts as damaged."""

    since: int | None = None
    until: int | None = None
    """End of the period of the damage, in epoch seconds. The period includes `since` and excludes `until`.

    An item counts as damaged if its last change was by a user and in this period. If `since` is `None`, there is no
    period.
    """
    force: bool = False
    """Whether to replace every item that differs, regardless of its author."""
    videos: Collection[str] = ()
    """Ids of the videos to restore. Empty to restore all videos and playlists. With ids, no playlists are restored."""

    def covers(self, home: tuple[str, str]) -> bool:
        """Return whether the plan includes the items of a video or playlist. `home` is a pair as in `ItemLine.home`."""
        name, id_ = home
        return not self.videos or (name == "videoId" and id_ in self.videos)

    def is_damaged(self, stored: Item, kept: Mapping[str, object]) -> bool:
        """Return whether `stored` counts as damaged. With `force`, every item does.

        `kept` is the item's copy in the export, and differs from `stored`.
        """
        # Writes by the service's jobs are not damage. They also hide the time of a user's last change.
        timed = self.since is not None and self.since <= stored.get("updatedAt", 0) and not _is_by_a_job(stored)
        timed = timed and (self.until is None or stored.get("updatedAt", 0) < self.until)
        return self.force or timed or _has_same_write_id(stored, kept)

    def settings(self) -> list[object]:
        """Return the plan as JSON values. A work file stores these values, to detect that the next run has another
        plan. Equal plans have equal values."""
        return [self.since, self.until, self.force, sorted(self.videos)]


class LineRestore(LineImport):
    """Restore from one export file."""

    def __init__(
        self,
        file: Path,
        table: Table,
        work: WorkFile,
        *,
        plan: RestorePlan,
        print_line: PrintLine,
        rate: RateLimiter,
        pool: Pool,
        bars: Bars,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(file, table, work, rate=rate, pool=pool, bars=bars, clock=clock)
        self._restore = Repair(table, rate, plan, print_line, clock)


class Repair(Restore):
    """Writer of exported items that also replaces damaged items, and prints a line for each item that it changes."""

    def __init__(
        self,
        table: Table,
        rate: RateLimiter,
        plan: RestorePlan,
        print_line: PrintLine,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(table, rate, clock)
        self._plan = plan
        self._print_line = print_line

    def carry_out(self, lines: Sequence[ItemLine]) -> list[Outcome]:
        """Restore the items of one video or playlist if the plan includes it. Returns the outcome of each line."""
        if not lines or not self._plan.covers(lines[0].home):
            return []
        outcomes = super().carry_out(lines)
        by_number = {line.line: line for line in lines}
        for number, outcome in outcomes:
            line = by_number[number]
            if outcome not in (UNCHANGED, CHANGED):
                self._print_line(
                    f"{_name(line)}: {outcome.reason if isinstance(outcome, RowRefused) else 'was missing'}"
                )
        return outcomes

    def _video_item(self, line: ItemLine) -> Item:
        return super()._video_item(line) | {"updatedBy": VIDEO_RESTORER.subject, "updatedAs": VIDEO_RESTORER.kind}

    def _outcome_of_existing_video(self, line: ItemLine, item: Item, stored: Item) -> str | RowRefused:
        has_same_write_id = _has_same_write_id(stored, line.attributes)
        # If the writeId equals the copy's, no user deleted the video: the expiry was set without the service.
        if is_purged(stored, self._now()) and not has_same_write_id:
            return super()._outcome_of_existing_video(line, item, stored)
        if not _differences(item, stored):
            return UNCHANGED
        if not self._plan.is_damaged(stored, line.attributes):
            return DIFFERENT
        kept = item if has_same_write_id else _with_job_results(stored, item)
        new = stamp(cast("Video", kept), caller=RESTORER, now=self._now(), version=stored.get("version", 0) + 1)
        if TTL_ATTRIBUTE in new and TTL_ATTRIBUTE in kept:
            new[TTL_ATTRIBUTE] = kept[TTL_ATTRIBUTE]
        differences = _differences(new, stored)
        if not differences:
            return DIFFERENT
        entries, gone = entry_moves(stored, new)
        reserving = ReservationMove(self._table, stored, new, {})
        try:
            reserving.require_free(self._now(), {})
        except AlreadyExists as taken:
            return RowRefused(taken.detail)
        moves = [*map(self._table.put, entries), *map(self._table.remove, gone), *reserving.writes()]
        return self._replaced(line, differences, [self._table.put(new, condition=_unchanged(stored)), *moves])

    def _compared(self, line: ItemLine, stored: Item, but: Sequence[str] = ()) -> str | RowRefused:
        """Return DIFFERENT if the stored item differs from the line, otherwise UNCHANGED. Ignores audit fields, and the
        attributes whose names are in `but`.

        A stored attribute that the line lacks is a difference, except in jobs and view counters. The result for a job
        that can expire is always DIFFERENT.
        """
        if line.entity == "Views":
            return super()._compared(line, stored, but)
        # A job that was restored has more attributes than its line.
        if line.entity == "Job":
            return DIFFERENT if TTL_ATTRIBUTE in stored else super()._compared(line, stored, but)
        return DIFFERENT if _differences(line.attributes, stored, (*but, DUE)) else UNCHANGED

    def _put(self, line: ItemLine, item: Item, stored: Item | None) -> str | RowRefused:
        # A job continues from its current state, and is never reset.
        if stored is None or line.entity == "Job":
            return super()._put(line, item, stored)
        if line.entity == "Views":
            return self._increase_views(line, item, stored)
        differences = _differences(item, stored)
        if not differences:
            return UNCHANGED
        if not self._plan.is_damaged(stored, line.attributes):
            return DIFFERENT
        new = item | self._stamps(stored)
        return self._replaced(line, differences, [self._table.put(new, condition=_unchanged(stored))])

    def _put_imported(self, line: ItemLine, owner: str) -> str | RowRefused:
        outcome = super()._put_imported(line, owner)
        if outcome is not DIFFERENT or not self._plan.force:
            return outcome
        video_id, (average, votes) = (
            line.attributes["videoId"],
            map(line.attributes["imported"].get, ("average", "votes")),
        )
        self._print_line(f"{_name(line)}: imported rating restored")
        RatingStore(self._table).set_imported(video_id, average, votes, RESTORER, self._now(), owner=owner)
        return CHANGED

    def _increase_views(self, line: ItemLine, kept: Item, stored: Item | None) -> str | RowRefused:
        """Increase a stored view count to the value of the copy. A higher stored count stays unchanged."""
        key, video_id = key_of(kept), line.attributes["videoId"]

        def attempt(stored: Item | None) -> str | RowRefused:
            if stored is None:
                return CHANGED_CONCURRENTLY
            counted = self._counters.counts({video_id: stored})[video_id]
            lacking = max(0, view_count(kept) - counted)
            if not lacking and TTL_ATTRIBUTE not in stored:
                return UNCHANGED
            self._rate.take(1)
            self._table.write(self._views_write(key, stored, lacking))
            self._print_line(f"{_name(line)}: views {counted} -> {counted + lacking}")
            return CHANGED

        try:
            return retry_on_conflict(attempt, "the views", present=stored, pause=self._table.pause, on=CONFLICTS)
        except WriteContention:
            return VIEWS_CHANGED

    def _views_write(self, key: Key, stored: Item, lacking: int) -> Write:
        """Return the write that increases a view counter by `lacking` views.

        The write also removes an expiry time, because counters must never expire.
        """
        names, text = {"#views": "views"}, "ADD #views :lacking"
        if TTL_ATTRIBUTE in stored:
            names["#purgeAt"] = TTL_ATTRIBUTE
            text += " REMOVE #purgeAt"
        # Conditional on the count that was read: two concurrent repairs would otherwise add the views twice.
        same = Expression("attribute_exists(#pk) AND attribute_not_exists(#views)", {"#pk": PARTITION_KEY})
        if "views" in stored:
            same = Expression("#views = :views", values={":views": stored["views"]})
        return self._table.update(key, Expression(text, names, {":lacking": lacking}), condition=same)

    def _playlist(self, playlist_id: str, lines: Sequence[ItemLine]) -> list[Outcome]:
        stored = self._found(PLAYLIST.key(playlistId=playlist_id))
        result = dict(super()._playlist(playlist_id, lines))
        if stored is None:
            return list(result.items())
        head = next((line for line in lines if line.entity == "Playlist"), None)
        # Every removal or move of an entry also writes the playlist. So an unchanged playlist with a missing entry is
        # damaged.
        lost = head is not None and self._plan.is_damaged(stored, head.attributes)
        playlist, entries = stored, self._read_entries(playlist_id)
        is_back = lost and DELETED_AT in stored
        if is_back:
            result = dict.fromkeys(result, UNCHANGED)
        elif DELETED_AT in stored:
            return list(result.items())
        for line in lines:
            if "rank" not in line.attributes or entries.is_complete(line):
                continue
            if entries.has_other_rank(line):
                result[line.line] = DIFFERENT
            elif lost or entries.is_partial(line) or self._was_purged(stored, line):
                result[line.line], playlist = self._restore_entry(line, playlist, entries)
            else:
                result[line.line] = MISSING
        # The playlist is written last. If this run is interrupted, the playlist still shows the damage to the next run.
        if head and is_back:
            result[head.line] = self._undelete(head)
        elif head and lost and result[head.line] is DIFFERENT:
            result[head.line] = self._restore_playlist(head, playlist)
        return list(result.items())

    def _undelete(self, line: ItemLine) -> str | RowRefused:
        """Undelete a playlist, and restore its attributes."""
        self._rate.take(2)
        playlist_id = line.attributes["playlistId"]
        try:
            PlaylistStore(self._table).restore(playlist_id, RESTORER, self._now())
        except (LimitReached, NotFound, WriteContention) as error:
            return RowRefused(error.detail)
        self._print_line(f"{_name(line)}: undeleted")
        stored = self._found(PLAYLIST.key(playlistId=playlist_id)) or {}
        # A dry run has not undeleted the playlist.
        if DELETED_AT not in stored and _differences(line.attributes, stored, COUNTED):
            return self._restore_playlist(line, stored)
        return CHANGED

    def _read_entries(self, playlist_id: str) -> "StoredEntries":
        """Return the stored entries of a playlist. Reads the whole partition, consistently."""
        entries, start = StoredEntries(), None
        while True:
            page = self._table.query(
                index=None,
                condition=Expression(
                    "#pk = :pk", {"#pk": PARTITION_KEY}, {":pk": PLAYLIST.key(playlistId=playlist_id)[PARTITION_KEY]}
                ),
                attributes=(SORT_KEY, "videoId", "rank"),
                limit=1000,
                start=start,
                consistent=True,
            )
            for item in page.items:
                entries.add(item)
            if page.last_key is None:
                return entries
            start = decode_item(page.last_key)

    def _was_purged(self, playlist: Item, line: ItemLine) -> bool:
        """Return whether two things happened: the service removed the line's entry when it purged the video, and a
        restore then created the video again."""
        if playlist.get("updatedBy") != PURGE.subject:
            return False
        video = self._found(VIDEO.key(videoId=line.attributes["videoId"]))
        return bool(video and video.get("updatedBy") == VIDEO_RESTORER.subject)

    def _restore_entry(self, line: ItemLine, playlist: Item, entries: "StoredEntries") -> tuple[str | RowRefused, Item]:
        """Write the missing items of an entry. Returns the outcome, and the playlist's item after the write."""
        entry, membership = entry_items(line.attributes, IMPORTER, self._now())
        count, last = entries.count_with(line), max(playlist.get("lastRank", ""), entry["rank"])
        new = playlist | {"version": playlist.get("version", 0) + 1, "entryCount": count, "lastRank": last}
        move = moved_entry(entry["videoId"], to={"rank": entry["rank"], "addedAt": entry["addedAt"]})
        new[MOVES] = [] if entries.has_membership(line) else [move]
        key = PLAYLIST.key(playlistId=playlist["playlistId"])
        writes = [self._table.update(key, change_between(playlist, new), condition=_unchanged(playlist))]
        for item, is_there in ((entry, entries.has_list_item(line)), (membership, entries.has_membership(line))):
            if is_there:
                ranked = Expression.of("#rank = :rank", rank=item["rank"])
                writes.append(self._table.check(key_of(item), condition=ranked))
            else:
                writes.append(self._table.put(item, condition=ABSENT))
        outcome = self._replaced(line, ["entry"], writes)
        if outcome is not CHANGED:
            return outcome, playlist
        entries.add(entry)
        entries.add(membership)
        return outcome, new

    def _restore_playlist(self, line: ItemLine, stored: Item) -> str | RowRefused:
        kept = {name: value for name, value in line.attributes.items() if name not in COUNTED}
        made = {name: stored[name] for name in (*MADE, *COUNTED) if name in stored}
        new = kept | made | self._stamps(stored)
        differences = _differences(line.attributes, stored, COUNTED)
        return self._replaced(line, differences, [self._table.put(new, condition=_unchanged(stored))])

    def _replaced(self, line: ItemLine, what: Sequence[str], writes: Sequence[Write]) -> str | RowRefused:
        """Apply conditional writes, and print `what`, the names of the repaired attributes. Returns CHANGED, or
        CHANGED_CONCURRENTLY if a condition is not met."""
        self._rate.take(len(writes))
        try:
            self._carry_out(writes)
        except ConditionFailed:
            return CHANGED_CONCURRENTLY
        self._print_line(f"{_name(line)}: {', '.join(what)} restored")
        return CHANGED

    def _stamps(self, stored: Item) -> Item:
        """Return new audit fields for a repaired item. The version increases, so an earlier If-Match header does not
        match."""
        stamps = {"updatedAt": self._now(), "updatedBy": RESTORER.subject, "writeId": secrets.token_hex(8)}
        return stamps | {"version": stored.get("version", 0) + 1}

    def _found(self, key: Key) -> Item | None:
        return self._table.get(key, consistent=True)


class StoredEntries:
    """Stored entries of one playlist.

    An entry consists of two items. The list item has the entry's rank in its sort key. The membership has the rank as
    an attribute.
    """

    def __init__(self) -> None:
        self._list_ranks: dict[str, set[str]] = {}
        self._membership_ranks: dict[str, str] = {}

    def add(self, item: Item) -> None:
        """Add one item of the playlist's partition."""
        if ENTRY.has_sort_key(item[SORT_KEY]):
            self._list_ranks.setdefault(item["videoId"], set()).add(item["rank"])
        elif MEMBERSHIP.has_sort_key(item[SORT_KEY]):
            self._membership_ranks[item["videoId"]] = item["rank"]

    def has_list_item(self, line: ItemLine) -> bool:
        """Return whether the playlist has a list item with the line's video and rank."""
        return line.attributes["rank"] in self._list_ranks.get(line.attributes["videoId"], ())

    def has_membership(self, line: ItemLine) -> bool:
        """Return whether the playlist has a membership with the line's video and rank."""
        return bool(self._membership_ranks.get(line.attributes["videoId"]) == line.attributes["rank"])

    def is_complete(self, line: ItemLine) -> bool:
        """Return whether both items of the line's entry exist, and the playlist has no item of the same video at
        another rank."""
        return self.has_list_item(line) and self.has_membership(line) and not self.has_other_rank(line)

    def is_partial(self, line: ItemLine) -> bool:
        """Return whether exactly one of the two items of the line's entry exists.

        Such an entry is damaged, because the service writes both items atomically.
        """
        return self.has_list_item(line) != self.has_membership(line)

    def has_other_rank(self, line: ItemLine) -> bool:
        """Return whether the playlist has the line's video at another rank."""
        video_id, rank = line.attributes["videoId"], line.attributes["rank"]
        return (
            bool(self._list_ranks.get(video_id, set()) - {rank}) or self._membership_ranks.get(video_id, rank) != rank
        )

    def count_with(self, line: ItemLine) -> int:
        """Return the number of videos in the playlist, including the line's video."""
        return len(self._membership_ranks.keys() | {line.attributes["videoId"]})


class Rehearsal(Table):
    """Table for dry runs. It reads from DynamoDB and discards writes."""

    def __init__(self, table: Table) -> None:
        super().__init__(table.name, table.client)
        self._videos: dict[str, Item] = {}

    def get(self, key: Key, *, attributes: Iterable[str] = (), consistent: bool = False) -> Item | None:
        """Read an item. If an earlier write of this dry run would have stored a video with this key, return that video
        instead."""
        planned = self._videos.get(key[PARTITION_KEY]) if key[SORT_KEY] == VIDEO.sk else None
        return planned or super().get(key, attributes=attributes, consistent=consistent)

    def write(self, write: Write, *, returning: str = "NONE", elsewhere: bool = False) -> Item:
        """Discard the write. If the write would store a video, later reads return that video."""
        self._plan([write])
        return {}

    def transact(self, writes: Sequence[Write]) -> None:
        """Discard the writes. If a write would store a video, later reads return that video."""
        self._plan(writes)

    def _plan(self, writes: Sequence[Write]) -> None:
        for write in writes:
            item = decode_item(write.parameters.get("Item", {}))
            if item.get(SORT_KEY) == VIDEO.sk:
                self._videos[item[PARTITION_KEY]] = item


def _unchanged(stored: Item) -> Expression:
    """Return the condition that an item is unchanged since it was read."""
    names = [name for name in ("writeId", "version", "updatedAt") if name in stored]
    return Expression(
        " AND ".join(["attribute_exists(#pk)", *(f"#{name} = :{name}" for name in names)]),
        {"#pk": PARTITION_KEY} | {f"#{name}": name for name in names},
        {f":{name}": stored[name] for name in names},
    )


def _has_same_write_id(stored: Item, kept: Mapping[str, object]) -> bool:
    """Return whether an item has the same writeId as its copy.

    The service sets a new writeId with each change. If an item differs from its copy but has the same writeId, the item
    was changed without the service.
    """
    return "writeId" in kept and stored.get("writeId") == kept["writeId"]


def _is_by_a_job(stored: Item) -> bool:
    """Return whether a job of the service wrote the item last. Writes by command-line tools count as writes by users."""
    author = stored.get("updatedBy")
    return bool(author == PURGE.subject or (stored.get("updatedAs") == "job" and author not in COMMANDS))


def _with_job_results(stored: Item, kept: Item) -> Item:
    """Return the copy `kept` of a video, with the job results to restore.

    If the thumbnails, source file or failure differ, the stored job results replace the copy's job results. The copy's
    results would otherwise remain, because completed jobs do not run again.
    """
    pictures = kept.get("pictures", {})
    pictured = any(pictures.get(name) != picture for name, picture in stored.get("pictures", {}).items())
    if not pictured and not {"source", "failure"} & set(_differences(kept, stored)):
        return kept
    before, since = kept.get("origins", {}), stored.get("origins", {})
    own = {name for name in PROBED if "job" in (since.get(name), before.get(name) if name not in stored else None)}
    work = {name: stored[name] for name in (*JOB_ATTRIBUTES, *own) if name in stored}
    origins = {name: origin for name, origin in before.items() if name not in own}
    origins |= {name: "job" for name in own if name in stored}
    status = stored["statusBeforeDelete"] if stored["status"] == "deleted" else stored["status"]
    work |= {"origins": origins, "statusBeforeDelete" if kept["status"] == "deleted" else "status": status}
    return {name: value for name, value in kept.items() if name not in {*JOB_ATTRIBUTES, *own}} | work


def _differences(kept: Mapping[str, Value], stored: Item, but: Sequence[str] = ()) -> list[str]:
    """Return the sorted names of the content attributes that differ between the copy and the item."""
    names = (kept.keys() | stored.keys()) - {*NOT_CONTENT, *but}
    return sorted(
        name for name in names if name not in kept or name not in stored or encode(kept[name]) != encode(stored[name])
    )


def _name(line: ItemLine) -> str:
    """Return the entity and the identifiers of a line's item, as the name of the item in printed text."""
    parts = [line.attributes[name] for name in ("playlistId", "videoId", *IDENTIFIERS) if name in line.attributes]
    return " ".join([line.entity, *map(str, parts)])
