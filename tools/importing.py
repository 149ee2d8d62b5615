"""Imports a file in the service's export format.

The import processes consecutive lines of one video or playlist together. It writes the items that the table lacks,
atomically for each line. It never changes existing items.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

from shared.aws.dynamodb import Key, Table, Write
from shared.aws.failures import ConditionFailed, TransactionConflict
from shared.aws.records import ABSENT, CONFLICTS, key_of, retry_on_conflict, unchanged
from shared.background.aggregates import user_addition
from shared.captions.store import UPLOAD
from shared.core.attributes import Item, encode
from shared.core.caller import UPDATED_FOR, Caller, with_request_id
from shared.core.errors import AlreadyExists, ContentTooLarge, InternalError, NotApplied, WriteContention
from shared.entities import Playlist, Rating, Video
from shared.relations.credits import PLACING_ATTRIBUTES
from shared.relations.entry_updates import EntryUpdater
from shared.relations.item_store import OWNER
from shared.relations.playlist_entries import MAX_ENTRIES
from shared.relations.playlists import DELETED_AT, playlist_index_position
from shared.relations.ranks import NoRoomError, between
from shared.relations.ratings import RatingChoice, RatingStore, rating_index_position, rating_key
from shared.schema import (
    CAPTION,
    CHAPTERS,
    CREDIT,
    ENTRY,
    JOB,
    MEMBERSHIP,
    PLAYLIST,
    PROFILE,
    RATING_TOTALS,
    RELEASE,
    SCHEMA_VERSION,
    TTL_ATTRIBUTE,
    VIDEO,
    VIEW_COUNTER,
    in_playlist_relation,
    job_relation,
)
from shared.videos.access import is_purged
from shared.videos.counters import ViewCount, ViewCounters, sums_of
from shared.videos.documents import MAPS
from shared.videos.entries import NO_LANGUAGE, index_position, own_entries, with_index_position
from shared.videos.reservations import ReservationMove
from shared.videos.video import stamp, to_current_schema
from tools.exchange_format import DUE, ItemLine, parse_line
from tools.imdb import RowRefused
from tools.imdb_import import CREATED, IMPORTER, LEFT_ALONE, REMOVAL_UNFINISHED, TOUCHED, UNCHANGED, place_in_table
from tools.lines import Damaged, Line, LineCheckpoint, OtherFile, check, read_lines
from tools.progress import Advance, Bars
from tools.rate_limit import Pool, RateLimiter
from tools.work_file import WorkFile

LINES_AT_A_TIME = 2000
MAX_TOGETHER = MAX_ENTRIES + 1
"""Maximum number of consecutive lines of one video or playlist that are processed together.

The limit is the number of lines of the largest possible playlist.
"""
RATINGS_AT_A_TIME = 50
"""Maximum number of ratings per transaction."""

CHILDREN = ("Credit", "Release", "Captions", "Chapters", "Job", "Views")
"""Names of the entities that are child items of a video. Each line of an export with such an entity becomes one
item."""
COUNTED = ("entryCount", "lastRank")
"""Names of the playlist attributes that are derived from the playlist's entries."""
STAMPS = ("updatedAt", "updatedBy", "updatedAs", "writeId")

TWICE = RowRefused("the playlist already has this video")
DIFFERENT = RowRefused("already exists and differs: skipped")
NO_VIDEO = RowRefused("the video does not exist")
NO_PLAYLIST = RowRefused("the playlist does not exist")
NO_ROOM = RowRefused("no rank is left after the last entry")

Outcome = tuple[int, str | RowRefused]
"""Line number and outcome of a line. The outcome is CREATED, CHANGED or UNCHANGED, or the reason why the line was
refused."""


class LineImport:
    """Import of one file in the export format. It can resume after an interruption."""

    def __init__(
        self,
        file: Path,
        table: Table,
        work: WorkFile,
        *,
        rate: RateLimiter,
        pool: Pool,
        bars: Bars,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._file = file
        self._work = work
        self._pool = pool
        self._bars = bars
        self._restore = Restore(table, rate, clock, IMPORTER.acting_for(work.change_set))

    def run(self) -> None:
        """Import the file, and record the outcomes in the work file.

        Raises ToolError if the file is truncated or corrupt. The work file then contains the outcomes so far.
        """
        size = self._measure()
        self._work.begin()
        while True:
            try:
                with self._bars.bar("Items", size) as advance:
                    self._read(advance)
            except OtherFile:
                self._work.forget(self._file.name)
            else:
                return

    def _measure(self) -> int:
        """Read the whole file once, and return its size in the unit of `Line.position`. Raises ToolError if the file is
        unreadable or corrupt."""
        with self._bars.bar("Reading through", self._file.stat().st_size) as advance:
            return check(self._file, advance)

    def _refuse(self, line: int, refused: RowRefused) -> None:
        self._work.refuse(self._file.name, line, refused.reason, refused.detail)

    def _read(self, advance: Advance) -> None:
        done = Line(self._work.mark(self._file.name), None)
        last = done
        reached = 0
        batch: list[list[ItemLine]] = []
        damage: Damaged | None = None

        def reach(position: int) -> None:
            nonlocal reached
            reached = position
            advance(position)

        def carry_out() -> None:
            before, length = reached, max(0, last.position - reached)
            self._carry_out(batch, last.mark, lambda share: advance(before + round(length * share)))
            reach(before + length)

        try:
            for group, last, whole in self._groups(done, reach):
                batch.append(group)
                lines = sum(map(len, batch))
                # Groups of one batch run concurrently. So the rest of an incomplete group goes into the next batch.
                if not whole or lines >= LINES_AT_A_TIME or last.mark.line - done.mark.line >= 10 * LINES_AT_A_TIME:
                    carry_out()
                    batch, done = [], last
        except Damaged as error:
            damage = error
        # The batch lacks only the group at the damage. That group may be incomplete.
        carry_out()
        if damage:
            raise damage

    def _carry_out(
        self, batch: Sequence[Sequence[ItemLine]], mark: LineCheckpoint, advance: Callable[[float], object]
    ) -> None:
        counts: Counter[str] = Counter()
        written: Key | None = None
        for group, outcomes in zip(batch, self._pool.map(self._restore.carry_out, batch, advance), strict=True):
            heads = {line.line: line.home for line in group if line.entity in ("Video", "Playlist")}
            for line, outcome in outcomes:
                if isinstance(outcome, RowRefused):
                    self._refuse(line, outcome)
                    if outcome in (DIFFERENT, TOUCHED):
                        counts[LEFT_ALONE] += 1
                else:
                    counts[outcome] += 1
                    if line in heads:
                        name, home = heads[line]
                        written = VIDEO.key(videoId=home) if name == "videoId" else PLAYLIST.key(playlistId=home)
        if written:
            self._work.wrote(written)
        self._work.commit(self._file.name, mark, counts)

    def _groups(self, after: Line, skipped: Advance) -> Iterator[tuple[list[ItemLine], Line, bool]]:
        """Yield groups of lines. Each tuple has lines of one video or playlist, the last line before the next group,
        and whether the group is complete.

        A group is incomplete if the next group has lines of the same video or playlist.
        """
        group: list[ItemLine] = []
        last = after
        for line in read_lines(self._file, after.mark, skipped):
            try:
                parsed = parse_line(line.mark.line, line.content)
            except RowRefused as refused:
                self._refuse(line.mark.line, refused)
            else:
                same = bool(group) and parsed.home == group[0].home
                if group and (not same or len(group) == MAX_TOGETHER):
                    yield group, last, not same
                    group = []
                group.append(parsed)
            last = line
        yield group, last, True


class Restore:
    """Writer of exported items that the table lacks. Existing items stay unchanged."""

    def __init__(
        self, table: Table, rate: RateLimiter, clock: Callable[[], float] = time.time, importer: Caller = IMPORTER
    ) -> None:
        self._table = table
        self._importer = importer
        self._rate = rate
        self._clock = clock
        self._ratings = RatingStore(table)
        self._counters = ViewCounters(table)

    def carry_out(self, lines: Sequence[ItemLine]) -> list[Outcome]:
        """Write the missing items of one video or playlist. Returns the outcome of each line."""
        if not lines:
            return []
        name, home = lines[0].home
        return self._playlist(home, lines) if name == "playlistId" else self._video(home, lines)

    def _video(self, video_id: str, lines: Sequence[ItemLine]) -> list[Outcome]:
        outcomes: list[Outcome] = [
            (line.line, tried(partial(self._put_video, line))) for line in lines if line.entity == "Video"
        ]
        children = [line for line in lines if line.entity != "Video"]
        if not children:
            return outcomes
        key = VIDEO.key(videoId=video_id)
        video = self._table.get(key, attributes=(*PLACING_ATTRIBUTES, TTL_ATTRIBUTE), consistent=True)
        if video is None or is_purged(video, self._now()):
            return [*outcomes, *((line.line, NO_VIDEO) for line in children)]
        ratings = [line for line in children if line.entity == "Rating"]
        items = [
            (line, _child(line, video, self._importer, self._now())) for line in children if line.entity in CHILDREN
        ]
        there = self._there([item for _, item in items])
        for line, item in items:
            outcomes.append((line.line, tried(partial(self._put, line, item, there.get(place_in_table(item))))))
        if items:
            # The video's index position may have changed during these writes. Then its entries must be updated again.
            again = self._table.get(key, attributes=PLACING_ATTRIBUTES, consistent=True)
            if index_position(again) != index_position(video):
                EntryUpdater(self._table).update_entries(video_id, self._now())
        imported = [line for line in children if line.entity == "ImportedRating"]
        outcomes += [(line.line, self._put_imported(line, video["userId"])) for line in imported]
        for start in range(0, len(ratings), RATINGS_AT_A_TIME):
            outcomes += self._put_ratings(ratings[start : start + RATINGS_AT_A_TIME])
        return outcomes

    def _put_video(self, line: ItemLine) -> str | RowRefused:
        item = self._video_item(line)
        if is_purged(item, self._now()):
            return RowRefused("has expired, and would be removed at once")
        stored = self._table.get(key_of(item), consistent=True)
        if stored is not None:
            return self._outcome_of_existing_video(line, item, stored)
        entries = own_entries(item)
        self._rate.take(1 + len(entries))
        writes = [self._table.put(item, condition=ABSENT), *map(self._table.put, entries)]
        move = ReservationMove(self._table, {}, item, {})

        def attempt(_: Item | None) -> str | RowRefused:
            reserving = move.writes()
            try:
                self._carry_out([*writes, *reserving])
            except ConditionFailed as failure:
                if failure.position < len(writes):
                    return self._compared(line, self._table.get(key_of(item), consistent=True) or {})
                move.resolve(failure, failure.position - len(writes), self._now())
                raise
            return CREATED

        try:
            return retry_on_conflict(attempt, "the video")
        except AlreadyExists as taken:
            return RowRefused(taken.detail)

    def _video_item(self, line: ItemLine) -> Item:
        """Return the item to write for a missing video."""
        return video_item(line.attributes, self._importer, self._now())

    def _outcome_of_existing_video(self, line: ItemLine, item: Item, stored: Item) -> str | RowRefused:
        """Return the outcome of a video's line if the table already has the video."""
        if is_purged(stored, self._now()):
            # A replacement would inherit the child items of the purged video.
            return REMOVAL_UNFINISHED
        return self._compared(line, stored)

    def _compared(self, line: ItemLine, stored: Item, but: Sequence[str] = ()) -> str | RowRefused:
        """Return UNCHANGED if the stored item has the same values as the line, otherwise DIFFERENT.

        Ignores the attributes in `but`, and stored attributes that the line lacks.
        """
        if line.entity == "Views":
            return self._compared_views(line)
        given = {name: value for name, value in line.attributes.items() if name not in (*but, DUE)}
        same = all(name in stored and encode(stored[name]) == encode(value) for name, value in given.items())
        return UNCHANGED if same else DIFFERENT

    def _compared_views(self, line: ItemLine) -> str | RowRefused:
        """Return UNCHANGED if the line has the same view counts as the table, otherwise DIFFERENT. The table's counts
        are summed over all shards."""
        video_id = line.attributes["videoId"]
        held = self._counters.read([video_id], consistent=True)[video_id].as_one
        given = ViewCount({0: sums_of(line.attributes)}).as_one
        return UNCHANGED if all(held.get(name) == count for name, count in given.items()) else DIFFERENT

    def _outcome_of_rating(
        self, line: ItemLine, there: Mapping[tuple[str, str], Item], written: Mapping[tuple[str, str], Item]
    ) -> str | RowRefused:
        """Return the outcome of a line with a rating. `there` has the ratings that already existed, and `written` the
        ratings that the import wrote. If several lines have the same user and video, the import writes only the last of
        these lines."""
        place = place_in_table(rating_key(line.attributes["videoId"], line.attributes["userId"]))
        if place in there:
            return self._compared(line, there[place])
        return CREATED if self._compared(line, written[place]) == UNCHANGED else DIFFERENT

    def _put(self, line: ItemLine, item: Item, stored: Item | None) -> str | RowRefused:
        if stored:
            return self._compared(line, stored)
        self._rate.take(1)
        return self._written([self._table.put(item, condition=ABSENT)], line, item)

    def _written(self, writes: Sequence[Write], line: ItemLine, item: Item) -> str | RowRefused:
        """Apply the writes of one line, and return the outcome. The first write must be the put of `item`."""
        try:
            self._carry_out(writes)
        except ConditionFailed:
            # The item was written by an earlier attempt whose response was lost, or by another writer just now.
            return self._compared(line, self._table.get(key_of(item), consistent=True) or {})
        return CREATED

    def _carry_out(self, writes: Sequence[Write]) -> None:
        """Apply one write, or several writes in a transaction.

        Raises ConditionFailed if a condition is not met, and NotApplied if another transaction writes the same items.
        """
        try:
            self._table.write_all(writes)
        except TransactionConflict as conflict:
            raise NotApplied from conflict

    def _put_imported(self, line: ItemLine, owner: str) -> str | RowRefused:
        video_id, imported = line.attributes["videoId"], line.attributes["imported"]
        stored = self._table.get(RATING_TOTALS.key(videoId=video_id), attributes=("imported",), consistent=True)
        if stored and "imported" in stored:
            return UNCHANGED if stored["imported"] == imported else DIFFERENT
        self._rate.take(1)
        average, votes = imported["average"], imported["votes"]
        self._ratings.set_imported(video_id, average, votes, self._importer, self._now(), owner=owner)
        return CREATED

    def _put_ratings(self, lines: Sequence[ItemLine]) -> list[Outcome]:
        """Write the missing ratings in one transaction. The stream's consumers then update the totals."""
        items = {
            place_in_table(item): item
            for item in (_rating(line.attributes, self._importer, self._now()) for line in lines)
        }

        def attempt(_: Item | None) -> list[Outcome]:
            there = self._there(list(items.values()))
            rated = {place: item for place, item in there.items() if RatingChoice.of(cast(Rating, item))}
            missing = [(item, unchanged(there.get(place))) for place, item in items.items() if place not in rated]
            if missing:
                self._rate.take(len(missing))
                self._table.transact([self._table.put(item, condition=condition) for item, condition in missing])
            return [(line.line, self._outcome_of_rating(line, rated, items)) for line in lines]

        try:
            return retry_on_conflict(attempt, "the ratings", pause=self._table.pause, on=CONFLICTS)
        except WriteContention as contention:
            raise NotApplied from contention

    def _playlist(self, playlist_id: str, lines: Sequence[ItemLine]) -> list[Outcome]:
        """Write the entries of a playlist, then the playlist itself. Users cannot see the entries before the playlist
        exists."""
        heads = [line for line in lines if line.entity == "Playlist"]
        entries = [line for line in lines if line.entity == "Entry"]
        stored = self._table.get(PLAYLIST.key(playlistId=playlist_id), consistent=True)
        there = {item["videoId"]: item for item in self._there([_membership_key(line) for line in entries]).values()}
        if stored and DELETED_AT in stored:
            return [(line.line, DIFFERENT) for line in lines]
        if stored:
            compared = [(line.line, self._compared(line, stored, COUNTED)) for line in heads]
            return compared + [(line.line, self._compared(line, there.get(_video_of(line), {}))) for line in entries]
        if not heads:
            return [(line.line, NO_PLAYLIST) for line in entries]
        ranks = _ranks(heads[0], entries, there)
        outcomes: list[Outcome] = []
        kept: dict[str, Item] = {}
        for line, rank in zip(entries, ranks, strict=True):
            video_id = _video_of(line)
            outcome: str | RowRefused = NO_ROOM
            if video_id in kept:
                outcome = TWICE
            elif rank is not None:
                entry, membership = entry_items(line.attributes | {"rank": rank}, self._importer, self._now())
                outcome = tried(partial(self._put_entry, line, entry, membership, there.get(video_id)))
                if not isinstance(outcome, RowRefused):
                    kept[video_id] = membership
            outcomes.append((line.line, outcome))
        outcomes.append((heads[0].line, tried(partial(self._put_playlist, heads[0], list(kept.values())))))
        return outcomes + [(line.line, DIFFERENT) for line in heads[1:]]

    def _put_entry(self, line: ItemLine, entry: Item, membership: Item, stored: Item | None) -> str | RowRefused:
        if stored:
            return self._compared(line, stored)
        self._rate.take(2)
        writes = [self._table.put(item, condition=ABSENT) for item in (membership, entry)]
        return self._written(writes, line, membership)

    def _put_playlist(self, line: ItemLine, entries: Sequence[Item]) -> str | RowRefused:
        now, owner = self._now(), line.attributes["userId"]
        item = _playlist(line.attributes, entries, self._importer, now)
        addition = user_addition(owner, {"playlists": 1}, self._importer, now)
        counted = self._table.update(PROFILE.key(userId=owner), addition)
        self._rate.take(2)
        return self._written([self._table.put(item, condition=ABSENT), counted], line, item)

    def _there(self, items: Sequence[Item]) -> Mapping[tuple[str, str], Item]:
        """Return the stored items with the keys of `items`, by pair of partition key and sort key. Reads are consistent."""
        keys = {place_in_table(item): key_of(item) for item in items}
        return {place_in_table(item): item for item in self._table.batch_get(list(keys.values()), consistent=True)}

    def _now(self) -> int:
        return int(self._clock())


def video_item(attributes: Item, importer: Caller, now: int) -> Item:
    """Return the item of an exported video. Derives keys and index attributes from the content."""
    fallback: Item = {name: {} for name in (*MAPS, "origins")}
    fallback |= {"visibility": "private", "schemaVersion": SCHEMA_VERSION, "createdAt": now}
    whole = to_current_schema(cast("Video", fallback | attributes))
    stamped = stamp(whole, caller=importer, now=now, version=attributes.get("version", 1))
    item: Item = dict(stamped) | {name: attributes[name] for name in STAMPS if name in attributes}
    if TTL_ATTRIBUTE in stamped and TTL_ATTRIBUTE in attributes:
        item[TTL_ATTRIBUTE] = attributes[TTL_ATTRIBUTE]
    return item


def _stamped(item: Item, importer: Caller, now: int) -> Item:
    """Return the item with default values for missing audit fields, because hand-written lines may omit them."""
    made = {"schemaVersion": SCHEMA_VERSION, "updatedAt": now, "updatedBy": importer.subject, "writeId": "import"}
    return with_request_id(made | item, importer.correlation_id)


def _child(line: ItemLine, video: Item, importer: Caller, now: int) -> Item:
    """Return the item to write for a line that contains a video's credit, release, captions, chapters, job or view
    counter."""
    item, video_id = line.attributes, video["videoId"]
    if line.entity == "Views":
        counter = {name: value for name, value in item.items() if name != "videoId"}
        return {"schemaVersion": SCHEMA_VERSION} | counter | VIEW_COUNTER.key(videoId=video_id, shard=0)
    if line.entity == "Job":
        return _job(item, importer, now)
    kept = _stamped({"version": 1} | item, importer, now) | {OWNER: video["userId"]}
    if line.entity == "Captions":
        kept.pop(UPLOAD, None)  # uploads exist only in the deployment that was exported
        return kept | CAPTION.key(videoId=video_id, language=item["language"])
    if line.entity == "Chapters":
        return kept | CHAPTERS.key(videoId=video_id)
    if line.entity == "Credit":
        key = CREDIT.key(videoId=video_id, personId=item["personId"])
    else:
        key = RELEASE.key(videoId=video_id, region=item["region"], language=item.get("language", NO_LANGUAGE))
    return with_index_position(kept | key, video)


def _job(item: Item, importer: Caller, now: int) -> Item:
    due = item.get(DUE)
    made = {"createdAt": item.get("queuedAt", now), "queuedAt": now, "sentAt": now, "sends": 1, "progress": 0}
    kept = _stamped(made | {name: value for name, value in item.items() if name != DUE}, importer, now)
    place = f"{item['videoId']}/{item['kind']}"
    relation = {} if due is None else _relation(job_relation(item["state"]), 0, due, place)
    return kept | JOB.key(videoId=item["videoId"], kind=item["kind"]) | relation


def _rating(attributes: Item, importer: Caller, now: int) -> Item:
    item: Item = {"ratedAt": now} | attributes
    user, video_id = item["userId"], item["videoId"]
    return _stamped(item, importer, now) | rating_key(video_id, user) | rating_index_position(video_id, user)


def _playlist(attributes: Item, entries: Sequence[Item], importer: Caller, now: int) -> Item:
    """Return the item of a playlist. `entries` are the stored entries, from which the derived attributes are computed."""
    item: Item = {"visibility": "private", "version": 1, "createdAt": now} | attributes | {"entryCount": len(entries)}
    last = max([attributes.get("lastRank", ""), *(entry["rank"] for entry in entries)])
    if last:
        item["lastRank"] = last
    return (
        _stamped(item, importer, now)
        | PLAYLIST.key(playlistId=attributes["playlistId"])
        | playlist_index_position(cast(Playlist, item))
    )


def _ranks(head: ItemLine, entries: Sequence[ItemLine], there: Mapping[str, Item]) -> list[str | None]:
    """Return the ranks of a playlist's entries; `None` for an entry if no rank is left.

    An entry keeps the rank of its line, or else the rank that an interrupted import has already written. All other
    entries get new ranks after these, in the order of the lines.
    """
    known = [line.attributes.get("rank") or there.get(_video_of(line), {}).get("rank") for line in entries]
    last = max([head.attributes.get("lastRank", ""), *filter(None, known)]) or None
    ranks: list[str | None] = []
    for rank in known:
        try:
            ranks.append(rank or between(last, None))
        except NoRoomError:
            ranks.append(None)
        if rank is None:
            last = ranks[-1] or last
    return ranks


def _video_of(line: ItemLine) -> str:
    return str(line.attributes["videoId"])


def _membership_key(line: ItemLine) -> Key:
    return MEMBERSHIP.key(playlistId=line.attributes["playlistId"], videoId=line.attributes["videoId"])


def entry_items(attributes: Item, importer: Caller, now: int) -> tuple[Item, Item]:
    """Return the two items of a playlist entry: the entry itself, which has the rank in its key, and the membership
    item of the video."""
    playlist_id, video_id = attributes["playlistId"], attributes["videoId"]
    stamps = ("schemaVersion", "updatedAt", "updatedBy", UPDATED_FOR)
    full = _stamped({"addedAt": now} | attributes, importer, now)
    entry = {name: full[name] for name in ("playlistId", "videoId", "rank", "addedAt", *stamps) if name in full}
    relation = _relation(in_playlist_relation(video_id), 0, full["addedAt"], playlist_id)
    return (
        entry | ENTRY.key(playlistId=playlist_id, rank=attributes["rank"], videoId=video_id),
        entry | {"writeId": full["writeId"]} | MEMBERSHIP.key(playlistId=playlist_id, videoId=video_id) | relation,
    )


def _relation(relation: str, shard: int, sort: int, of: str) -> Item:
    return {"rel": relation, "relShard": shard, "relSort": sort, "relId": of}


def tried(action: Callable[[], str | RowRefused]) -> str | RowRefused:
    """Call `action`, which writes one line, and return its outcome. Returns RowRefused if DynamoDB rejects the item."""
    try:
        return action()
    except ContentTooLarge:
        return RowRefused("the item is larger than 400 KB")
    except InternalError as error:
        if "Validation" not in error.detail:
            raise
        return RowRefused("DynamoDB does not accept it as an item")
