"""Puts back what an export, or a table that was restored from a point in time, has and the table lacks or has damaged.

What is missing is written as an import writes it. What is there and different is only replaced when it is known to be
damage: it was changed behind the service's back, or by a person in the time that is given as that of the damage. All
else was done by somebody since: it is left and reported, unless forced. Doing it again changes nothing.
"""

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shared.aws.dynamodb import Key, Table, Write
from shared.aws.expressions import Expression, change_between
from shared.aws.failures import ConditionFailed
from shared.aws.records import ABSENT, CONFLICTS, key_of, retry_on_conflict
from shared.background.purge import PURGE
from shared.core.attributes import Item, Value, decode_item, encode
from shared.core.caller import Caller
from shared.core.errors import LimitReached, NotFound, WriteContention
from shared.relations.item_store import OWNER, REMOVING
from shared.relations.playlist_entries import moved_entry
from shared.relations.playlists import DELETED_AT, MOVES, PlaylistStore
from shared.relations.ratings import RatingStore
from shared.schema import ENTRY, MEMBERSHIP, PARTITION_KEY, PLAYLIST, SORT_KEY, TTL_ATTRIBUTE, VIDEO
from shared.video_fields import PROBED
from shared.videos.access import is_purged
from shared.videos.counters import view_count
from shared.videos.entries import entry_moves
from shared.videos.video import stamp
from tools.exchange_format import DUE, MADE, ItemLine
from tools.imdb import RowRefused
from tools.imdb_import import CHANGED, IMPORTER, UNCHANGED
from tools.importing import COUNTED, DIFFERENT, STAMPS, LineImport, Outcome, Restore, entry_items
from tools.progress import Bars
from tools.rate_limit import Pool, RateLimiter
from tools.work_file import WorkFile

RESTORER = Caller.job("restore")
PUT_BACK = Caller.job("put-back")
"""The author of videos that were missing: so a later run knows that they were."""
COMMANDS = tuple(caller.subject for caller in (IMPORTER, RESTORER, PUT_BACK))
"""Authors that count as jobs, and write what a person at the command line wants."""

WORK = ("source", "pictures", "posterTime", "failure")
"""Attributes of a video that say how far jobs have come with its film."""
KEPT = (*MADE, *STAMPS, "updatedAs", "updatedFor", "version", "schemaVersion", OWNER, REMOVING, MOVES)
"""Attributes that are not content: two items that differ in nothing else are the same."""

NAMED = ("personId", "region", "language", "kind")
"""What distinguishes the items of one video."""

MISSING = RowRefused("is missing, and may have been taken out on purpose: left out")
IN_THIS_MOMENT = RowRefused("it was changed just now: left alone")
COUNTED_ON = RowRefused("its views changed meanwhile: run the command again")


Tell = Callable[[str], None]
"""Called with a line for each item that is put back, repaired or left."""


@dataclass(frozen=True)
class RestorePlan:
    """What is damage, and what of it to put back."""

    since: int | None = None
    until: int | None = None
    """When the damage was done, in epoch seconds: what a person last changed from `since` up to but not including
    `until` is damaged. None: nothing is known by its time."""
    force: bool = False
    """Replace what is different, whoever changed it."""
    videos: Collection[str] = ()
    """Only these videos, and no playlists; empty: everything."""

    def covers(self, home: tuple[str, str]) -> bool:
        """Whether what belongs to a video or playlist is to be put back."""
        name, id_ = home
        return not self.videos or (name == "videoId" and id_ in self.videos)

    def is_damaged(self, stored: Item, kept: Mapping[str, object]) -> bool:
        """Whether an item that differs from what was kept of it is damaged."""
        # What the service's jobs wrote is not damage, and hides when a person changed the item.
        timed = self.since is not None and self.since <= stored.get("updatedAt", 0) and not _is_by_a_job(stored)
        timed = timed and (self.until is None or stored.get("updatedAt", 0) < self.until)
        return self.force or timed or _bypassed(stored, kept)

    def settings(self) -> list[object]:
        """The same for the same plan, in whichever process."""
        return [self.since, self.until, self.force, sorted(self.videos)]


class LineRestore(LineImport):
    """Puts back what one file has."""

    def __init__(
        self,
        file: Path,
        table: Table,
        work: WorkFile,
        *,
        plan: RestorePlan,
        tell: Tell,
        rate: RateLimiter,
        pool: Pool,
        bars: Bars,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(file, table, work, rate=rate, pool=pool, bars=bars, clock=clock)
        self._restore = Repair(table, rate, plan, tell, clock)


class Repair(Restore):
    """Writes items as they were, and reports each."""

    def __init__(
        self, table: Table, rate: RateLimiter, plan: RestorePlan, tell: Tell, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(table, rate, clock)
        self._plan = plan
        self._tell = tell

    def carry_out(self, lines: Sequence[ItemLine]) -> list[Outcome]:
        """Put back what the lines of one video or playlist say, if the plan covers it."""
        if not lines or not self._plan.covers(lines[0].home):
            return []
        outcomes = super().carry_out(lines)
        by_number = {line.line: line for line in lines}
        for number, outcome in outcomes:
            line = by_number[number]
            if outcome not in (UNCHANGED, CHANGED):
                self._tell(f"{_name(line)}: {outcome.reason if isinstance(outcome, RowRefused) else 'was missing'}")
        return outcomes

    def _video_item(self, line: ItemLine) -> Item:
        return super()._video_item(line) | {"updatedBy": PUT_BACK.subject, "updatedAs": PUT_BACK.kind}

    def _met_video(self, line: ItemLine, item: Item, stored: Item) -> str | RowRefused:
        bypassed = _bypassed(stored, line.attributes)
        # With the writeId of the copy it was not deleted, but given a time behind the service's back.
        if is_purged(stored, self._now()) and not bypassed:
            return super()._met_video(line, item, stored)
        if not _differences(item, stored):
            return UNCHANGED
        if not self._plan.is_damaged(stored, line.attributes):
            return DIFFERENT
        kept = item if bypassed else _with_work_of(stored, item)
        new = stamp(kept, caller=RESTORER, now=self._now(), version=stored.get("version", 0) + 1)
        if TTL_ATTRIBUTE in new and TTL_ATTRIBUTE in kept:
            new[TTL_ATTRIBUTE] = kept[TTL_ATTRIBUTE]
        differences = _differences(new, stored)
        if not differences:
            return DIFFERENT
        entries, gone = entry_moves(stored, new)
        moves = [*map(self._table.put, entries), *map(self._table.remove, gone)]
        return self._replaced(line, differences, [self._table.put(new, condition=_unchanged(stored)), *moves])

    def _compared(self, line: ItemLine, stored: Item, but: Sequence[str] = ()) -> str | RowRefused:
        """Also what was added is a difference; who wrote it when is none."""
        if line.entity == "Views":
            return super()._compared(line, stored, but)
        # A job has more than its line once it was put back.
        if line.entity == "Job":
            return DIFFERENT if TTL_ATTRIBUTE in stored else super()._compared(line, stored, but)
        return DIFFERENT if _differences(line.attributes, stored, (*but, DUE)) else UNCHANGED

    def _put(self, line: ItemLine, item: Item, stored: Item | None) -> str | RowRefused:
        # A job goes on from what it has come to, and never back.
        if stored is None or line.entity == "Job":
            return super()._put(line, item, stored)
        if line.entity == "Views":
            return self._counted(line, item, stored)
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
        self._tell(f"{_name(line)}: imported as before")
        RatingStore(self._table).set_imported(video_id, average, votes, RESTORER, self._now(), owner=owner)
        return CHANGED

    def _counted(self, line: ItemLine, kept: Item, stored: Item | None) -> str | RowRefused:
        """A count only ever grows: it is raised to what was kept of it, and never lowered."""
        key, video_id = key_of(kept), line.attributes["videoId"]

        def attempt(stored: Item | None) -> str | RowRefused:
            if stored is None:
                return IN_THIS_MOMENT
            counted = self._counters.counts({video_id: stored})[video_id]
            lacking = max(0, view_count(kept) - counted)
            if not lacking and TTL_ATTRIBUTE not in stored:
                return UNCHANGED
            self._rate.take(1)
            self._table.write(self._raised(key, stored, lacking))
            self._tell(f"{_name(line)}: views {counted} -> {counted + lacking}")
            return CHANGED

        try:
            return retry_on_conflict(attempt, "the views", present=stored, pause=self._table.pause, on=CONFLICTS)
        except WriteContention:
            return COUNTED_ON

    def _raised(self, key: Key, stored: Item, lacking: int) -> Write:
        """The write that adds what a counter lacks, and takes away a time of removal, which none has."""
        names, text = {"#views": "views"}, "ADD #views :lacking"
        if TTL_ATTRIBUTE in stored:
            names["#purgeAt"] = TTL_ATTRIBUTE
            text += " REMOVE #purgeAt"
        # Only of the count that was looked at: raised by two at once, it would become too large.
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
        # Whoever takes an entry out or moves one writes the playlist: one that is as it was has lost it otherwise.
        lost = head is not None and self._plan.is_damaged(stored, head.attributes)
        playlist, members = stored, self._members(playlist_id)
        is_back = lost and DELETED_AT in stored
        if is_back:
            result = dict.fromkeys(result, UNCHANGED)
        elif DELETED_AT in stored:
            return list(result.items())
        for line in lines:
            if "rank" not in line.attributes or members.is_whole(line):
                continue
            if members.is_elsewhere(line):
                result[line.line] = DIFFERENT
            elif lost or members.is_half(line) or self._was_purged(stored, line):
                result[line.line], playlist = self._put_entry_again(line, playlist, members)
            else:
                result[line.line] = MISSING
        # The playlist last, because it says what is damaged, should this be interrupted.
        if head and is_back:
            result[head.line] = self._bring_back(head)
        elif head and lost and result[head.line] is DIFFERENT:
            result[head.line] = self._put_playlist_again(head, playlist)
        return list(result.items())

    def _bring_back(self, line: ItemLine) -> str | RowRefused:
        """Take back that a playlist was deleted, and make it what it was."""
        self._rate.take(2)
        playlist_id = line.attributes["playlistId"]
        try:
            PlaylistStore(self._table).restore(playlist_id, RESTORER, self._now())
        except (LimitReached, NotFound, WriteContention) as error:
            return RowRefused(error.detail)
        self._tell(f"{_name(line)}: not deleted, as before")
        stored = self._found(PLAYLIST.key(playlistId=playlist_id)) or {}
        # It still is when this is only a rehearsal.
        if DELETED_AT not in stored and _differences(line.attributes, stored, COUNTED):
            return self._put_playlist_again(line, stored)
        return CHANGED

    def _members(self, playlist_id: str) -> "Members":
        """What the table has of a playlist's entries."""
        members, start = Members(), None
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
                members.meet(item)
            if page.last_key is None:
                return members
            start = decode_item(page.last_key)

    def _was_purged(self, playlist: Item, line: ItemLine) -> bool:
        """Whether the service itself has taken an entry out of a playlist, because its video was gone."""
        if playlist.get("updatedBy") != PURGE.subject:
            return False
        video = self._found(VIDEO.key(videoId=line.attributes["videoId"]))
        return bool(video and video.get("updatedBy") == PUT_BACK.subject)

    def _put_entry_again(self, line: ItemLine, playlist: Item, members: "Members") -> tuple[str | RowRefused, Item]:
        """Put back what is missing of an entry; also the playlist as it is then."""
        entry, membership = entry_items(line.attributes, IMPORTER, self._now())
        count, last = members.count_with(line), max(playlist.get("lastRank", ""), entry["rank"])
        new = playlist | {"version": playlist.get("version", 0) + 1, "entryCount": count, "lastRank": last}
        new[MOVES] = [] if members.holds(line) else [moved_entry(entry["videoId"], to=entry)]
        key = PLAYLIST.key(playlistId=playlist["playlistId"])
        writes = [self._table.update(key, change_between(playlist, new), condition=_unchanged(playlist))]
        for item, is_there in ((entry, members.stands(line)), (membership, members.holds(line))):
            if is_there:
                ranked = Expression.of("#rank = :rank", rank=item["rank"])
                writes.append(self._table.check(key_of(item), condition=ranked))
            else:
                writes.append(self._table.put(item, condition=ABSENT))
        outcome = self._replaced(line, ["entry"], writes)
        if outcome is not CHANGED:
            return outcome, playlist
        members.meet(entry)
        members.meet(membership)
        return outcome, new

    def _put_playlist_again(self, line: ItemLine, stored: Item) -> str | RowRefused:
        kept = {name: value for name, value in line.attributes.items() if name not in COUNTED}
        made = {name: stored[name] for name in (*MADE, *COUNTED) if name in stored}
        new = kept | made | self._stamps(stored)
        differences = _differences(line.attributes, stored, COUNTED)
        return self._replaced(line, differences, [self._table.put(new, condition=_unchanged(stored))])

    def _replaced(self, line: ItemLine, what: Sequence[str], writes: Sequence[Write]) -> str | RowRefused:
        """Carry out conditional writes; reports what they repair."""
        self._rate.take(len(writes))
        try:
            self._carry_out(writes)
        except ConditionFailed:
            return IN_THIS_MOMENT
        self._tell(f"{_name(line)}: {', '.join(what)} as before")
        return CHANGED

    def _stamps(self, stored: Item) -> Item:
        """What every write of an item has anew; its version goes on, so that nobody's If-Match holds any more."""
        stamps = {"updatedAt": self._now(), "updatedBy": RESTORER.subject, "writeId": secrets.token_hex(8)}
        return stamps | {"version": stored.get("version", 0) + 1}

    def _found(self, key: Key) -> Item | None:
        return self._table.get(key, consistent=True)


class Members:
    """The entries of one playlist by their videos: each is an item at a rank, and one that says at which."""

    def __init__(self) -> None:
        self._standing: dict[str, set[str]] = {}
        self._held: dict[str, str] = {}

    def meet(self, item: Item) -> None:
        """Take in one item of the playlist's partition."""
        if ENTRY.has_sort_key(item[SORT_KEY]):
            self._standing.setdefault(item["videoId"], set()).add(item["rank"])
        elif MEMBERSHIP.has_sort_key(item[SORT_KEY]):
            self._held[item["videoId"]] = item["rank"]

    def stands(self, line: ItemLine) -> bool:
        """Whether the list has the entry where it was."""
        return line.attributes["rank"] in self._standing.get(line.attributes["videoId"], ())

    def holds(self, line: ItemLine) -> bool:
        """Whether its membership says that the entry is where it was."""
        return bool(self._held.get(line.attributes["videoId"]) == line.attributes["rank"])

    def is_whole(self, line: ItemLine) -> bool:
        """Whether both items are there, and no other."""
        return self.stands(line) and self.holds(line) and not self.is_elsewhere(line)

    def is_half(self, line: ItemLine) -> bool:
        """Whether one item is missing: the service writes both or none, so that is damage, whoever else came by."""
        return self.stands(line) != self.holds(line)

    def is_elsewhere(self, line: ItemLine) -> bool:
        """Whether the video is in the playlist at another rank."""
        video_id, rank = line.attributes["videoId"], line.attributes["rank"]
        return bool(self._standing.get(video_id, set()) - {rank}) or self._held.get(video_id, rank) != rank

    def count_with(self, line: ItemLine) -> int:
        """How many videos the playlist has with this one."""
        return len(self._held.keys() | {line.attributes["videoId"]})


class Rehearsal(Table):
    """A table that is read and never written: so a restore says what it would do, and does nothing."""

    def __init__(self, table: Table) -> None:
        super().__init__(table.name, table.client)
        self._videos: dict[str, Item] = {}

    def get(self, key: Key, *, attributes: Iterable[str] = (), consistent: bool = False) -> Item | None:
        """GetItem; of a video that would have been written, what would be there."""
        planned = self._videos.get(key[PARTITION_KEY]) if key[SORT_KEY] == VIDEO.sk else None
        return planned or super().get(key, attributes=attributes, consistent=consistent)

    def write(self, write: Write, *, returning: str = "NONE", elsewhere: bool = False) -> Item:
        """Nothing."""
        self._plan([write])
        return {}

    def transact(self, writes: Sequence[Write]) -> None:
        """Nothing."""
        self._plan(writes)

    def _plan(self, writes: Sequence[Write]) -> None:
        for write in writes:
            item = decode_item(write.parameters.get("Item", {}))
            if item.get(SORT_KEY) == VIDEO.sk:
                self._videos[item[PARTITION_KEY]] = item


def _unchanged(stored: Item) -> Expression:
    """The condition that an item is still as it was found."""
    names = [name for name in ("writeId", "version", "updatedAt") if name in stored]
    return Expression(
        " AND ".join(["attribute_exists(#pk)", *(f"#{name} = :{name}" for name in names)]),
        {"#pk": PARTITION_KEY} | {f"#{name}": name for name in names},
        {f":{name}": stored[name] for name in names},
    )


def _bypassed(stored: Item, kept: Mapping[str, object]) -> bool:
    """Whether an item that differs was changed behind the service's back: each of its own writes makes a new writeId."""
    return "writeId" in kept and stored.get("writeId") == kept["writeId"]


def _is_by_a_job(stored: Item) -> bool:
    """Whether the service's own jobs wrote an item last, and not a person, if only by a command."""
    author = stored.get("updatedBy")
    return bool(author == PURGE.subject or (stored.get("updatedAs") == "job" and author not in COMMANDS))


def _with_work_of(stored: Item, kept: Item) -> Item:
    """A video as it was kept, but with what jobs have made of its film since: done once, they do not do it again."""
    pictures = kept.get("pictures", {})
    pictured = any(pictures.get(name) != picture for name, picture in stored.get("pictures", {}).items())
    if not pictured and not {"source", "failure"} & set(_differences(kept, stored)):
        return kept
    before, since = kept.get("origins", {}), stored.get("origins", {})
    own = {name for name in PROBED if "job" in (since.get(name), before.get(name) if name not in stored else None)}
    work = {name: stored[name] for name in (*WORK, *own) if name in stored}
    origins = {name: origin for name, origin in before.items() if name not in own}
    origins |= {name: "job" for name in own if name in stored}
    status = stored["statusBeforeDelete"] if stored["status"] == "deleted" else stored["status"]
    work |= {"origins": origins, "statusBeforeDelete" if kept["status"] == "deleted" else "status": status}
    return {name: value for name, value in kept.items() if name not in {*WORK, *own}} | work


def _differences(kept: Mapping[str, Value], stored: Item, but: Sequence[str] = ()) -> list[str]:
    """The attributes in which an item differs from what was kept of it."""
    names = (kept.keys() | stored.keys()) - {*KEPT, *but}
    return sorted(
        name for name in names if name not in kept or name not in stored or encode(kept[name]) != encode(stored[name])
    )


def _name(line: ItemLine) -> str:
    """What a line is of, for a person."""
    parts = [line.attributes[name] for name in ("playlistId", "videoId", *NAMED) if name in line.attributes]
    return " ".join([line.entity, *map(str, parts)])
