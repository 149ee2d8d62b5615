"""Imports IMDb files: episodes and names first, then videos, credits, releases and ratings.

The import reads a file in batches of titles. It compares each batch with the table, and writes the differences by
concurrent conditional writes. Then the work file records the position. An import may be interrupted at any point,
because a repeated batch finds its items unchanged.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from shared.aws.dynamodb import Key, Table
from shared.aws.failures import ConditionFailed, TransactionConflict
from shared.aws.records import is_own_write, key_of, unchanged
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import AlreadyExists, BeingRemoved, NotApplied, VersionMismatch
from shared.entities import Video
from shared.relations.credits import PLACING_ATTRIBUTES, credit_item, release_item
from shared.relations.entry_updates import EntryUpdater
from shared.relations.models import CreditContent, ReleaseContent
from shared.relations.ratings import RatingStore
from shared.schema import PARTITION_KEY, RATING_TOTALS, SORT_KEY, TTL_ATTRIBUTE, VIDEO
from shared.videos.access import is_purged
from shared.videos.entries import NO_LANGUAGE, index_position
from shared.videos.store import VideoStore
from shared.videos.video import new_item
from tools import ToolError
from tools.imdb import (
    AKAS,
    BASICS,
    CREW,
    CREW_CATEGORIES,
    EPISODES,
    NAMES,
    PRINCIPALS,
    RATINGS,
    Layout,
    Relation,
    Row,
    RowRefused,
    created_at,
    credits_of,
    crew_of,
    digest,
    episode_of,
    parse_row,
    path_of,
    person_of,
    rating_of,
    releases_of,
    video_content,
    video_id,
    with_roles,
)
from tools.lines import Damaged, Line, OtherFile, check, read_lines
from tools.progress import Advance, Bars
from tools.rate_limit import Pool, RateLimiter
from tools.work_file import WorkFile

IMPORTER = Caller.job("import")
DIGEST = "importDigest"
"""Name of the video attribute with the digest of the last imported content."""

REMEMBERED = (NAMES, EPISODES)
"""IMDb files that are copied to the work file. The import of the other files looks up names and episodes there."""
TITLES_AT_A_TIME = 100
NAMES_AT_A_TIME = 5000
ROWS_AT_A_TIME = 20_000
"""Maximum number of rows that the import reads between two updates of the position in the work file."""
LONGEST_HEADER = 200
"""Maximum number of characters of an invalid header that the error message quotes."""
MAX_ROWS = 10_000
"""Maximum number of rows of one title in one file. The import refuses further rows."""

CREATED, CHANGED, UNCHANGED, LEFT_ALONE = "created", "changed", "unchanged", "skipped"
ACCEPTED = (CREATED, CHANGED, UNCHANGED, LEFT_ALONE)
"""Outcomes of rows that the import accepted. A file with such a row counts as imported."""
NOT_SELECTED, WITHOUT_TITLE = "not selected", "of no title"
"""Outcomes of ignored rows: the operator did not select the title, or the title of the row was not imported."""
OF_TYPE = "of type "
"""Prefix of the outcomes that count titles by type. These outcomes exist only if the operator selected types."""
REMOVED = "being removed"
TOUCHED = RowRefused("another user has changed it: skipped")
REMOVAL_UNFINISHED = RowRefused("an earlier video with this id is still being removed: import it again later")
DELETED = RowRefused("its video is deleted: skipped")

EPISODE_FIELDS = ("seriesId", "season", "episode")
IMPORTED = ("title", "duration", "releaseYear", *EPISODE_FIELDS, "category", "tags", "metadata", DIGEST)
"""Names of the video attributes that an import sets."""

_Read = TypeVar("_Read")

Groups = Sequence[Sequence[Row]]
Share = Callable[[float], object]
"""Callback that receives the completed fraction of a batch, from 0.0 to 1.0."""
Merge = Callable[[Item, Item], Item]
"""Function that merges a new item with the stored item. It raises RowRefused if the result is too large."""
Step = Callable[[Groups, Share], Counter[str]]
"""Function that imports a batch, and returns the number of rows by outcome."""


@dataclass(frozen=True)
class Selection:
    """The operator's choices: titles and parts to import, and the owner of the videos."""

    owner: str = "imdb"
    types: frozenset[str] = frozenset()
    """Title types to import. Empty to import all."""
    from_year: int | None = None
    to_year: int | None = None
    parts: frozenset[str] = frozenset({"credits", "releases", "ratings"})
    dated_by_release: bool = False
    """Whether `createdAt` of new videos is the start of their release year, instead of the time of the import."""

    @property
    def takes_all(self) -> bool:
        """Whether all titles are selected."""
        return not self.types and self.from_year is None and self.to_year is None

    def takes_type(self, kind: str | None) -> bool:
        """Return whether titles of this type are selected."""
        return not self.types or kind in self.types

    def takes_year(self, year: int | None) -> bool:
        """Return whether titles of this year are selected. If the operator gave a range, titles without a year are not
        selected."""
        if self.from_year is None and self.to_year is None:
            return True
        return year is not None and (self.from_year or 0) <= year <= (self.to_year or year)


@dataclass(frozen=True)
class Task:
    """An item to import, its line number, and the stored item with the same key. `stored` is `None` if no such item
    exists."""

    line: int
    new: Item
    stored: Item | None


class ImdbImport:
    """Import of a folder of IMDb files. It can resume after an interruption."""

    def __init__(
        self,
        folder: Path,
        table: Table,
        work: WorkFile,
        selection: Selection,
        *,
        rate: RateLimiter,
        pool: Pool,
        bars: Bars,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._table = table
        self._videos = VideoStore(table)
        self._mover = EntryUpdater(table)
        self._ratings = RatingStore(table)
        self._work = work
        self._importer = IMPORTER.acting_for(work.change_set)
        self._selection = selection
        # Without title.episode, the fields of an earlier import are kept.
        left_alone = () if "episodes" in selection.parts else EPISODE_FIELDS
        self._imported = [name for name in IMPORTED if name not in left_alone]
        self._rate = rate
        self._pool = pool
        self._bars = bars
        self._clock = clock

    def run(self) -> None:
        """Import all files.

        Raises ToolError if a file is missing, truncated, corrupt or has the wrong columns. If a file is truncated, the
        import writes the complete titles before it raises the error. It detects all other faults before the first
        write. After an error, the work file contains the outcomes so far.
        """
        steps: list[tuple[Layout, str, Step]] = [
            (BASICS, "Videos", self._import_videos),
            (PRINCIPALS, "Credits", self._import_credits),
            (CREW, "Crew", self._import_crew),
            (AKAS, "Releases", self._import_releases),
            (RATINGS, "Ratings", self._import_ratings),
        ]
        steps = [step for step in steps if step[1] == "Videos" or step[1].lower() in self._selection.parts]
        if "credits" not in self._selection.parts:
            steps = [step for step in steps if step[0] is not CREW]
        if "credits" in self._selection.parts:
            steps.insert(0, (NAMES, "Names", self._remember_names))
        if "episodes" in self._selection.parts:
            steps.insert(0, (EPISODES, "Episodes", self._remember_episodes))
        # All headers are checked before the first write.
        for layout, _, _ in steps:
            self._check_header(layout)
        sizes = {}
        for layout, title, _ in steps:
            path = self._path(layout)
            with self._bars.bar(f"{title}: reading through", path.stat().st_size) as advance:
                sizes[layout] = check(path, advance)
        self._work.begin()
        for position, (layout, title, step) in enumerate(steps):
            while not self._is_carried_out(layout, title, step, sizes[layout]):
                # Later files depend on this one, so they also start over.
                for later, _, _ in steps[position:]:
                    self._work.forget(later.file)

    def _path(self, layout: Layout) -> Path:
        return path_of(self._folder, layout)

    def _check_header(self, layout: Layout) -> None:
        path = self._path(layout)
        if not path.is_file():
            raise ToolError(f"The file {path} does not exist.")
        header = next(iter(read_lines(path)), None)
        columns = (header.content or b"").decode(errors="replace").split("\t") if header else []
        if tuple(columns) != layout.columns:
            begins = f"begins with {', '.join(columns)[:LONGEST_HEADER]!r}" if columns else "is empty"
            raise ToolError(
                f"{path} {begins}, instead of beginning with the columns {', '.join(layout.columns)}. Nothing was imported."
            )

    def _is_carried_out(self, layout: Layout, title: str, step: Step, size: int) -> bool:
        """Import the rest of an IMDb file, from the position that the work file records. `size` is the number of unpacked
        bytes of the whole IMDb file.

        Returns `False` if the recorded position belongs to a file with other content.
        """
        try:
            with self._bars.bar(title, size) as advance:
                self._read(layout, step, advance)
        except OtherFile:
            return False
        return True

    def _read(self, layout: Layout, step: Step, advance: Advance) -> None:
        size = NAMES_AT_A_TIME if layout in REMEMBERED else TITLES_AT_A_TIME
        batch: list[Sequence[Row]] = []
        done = Line(self._work.mark(layout.file), None)
        last = done
        without_title = reached = 0
        damage: Damaged | None = None

        def reach(position: int) -> None:
            nonlocal reached
            reached = position
            advance(position)

        def carry_out() -> None:
            left_out = {WITHOUT_TITLE: without_title} if without_title else {}
            before, length = reached, max(0, last.position - reached)
            outcomes = step(batch, lambda share: advance(before + round(length * share)))
            self._work.commit(layout.file, last.mark, outcomes + Counter(left_out))
            reach(before + length)

        try:
            for group, unwanted, last in self._groups(layout, done, reach):
                without_title += unwanted
                if group:
                    batch.append(group)
                if len(batch) == size or last.mark.line - done.mark.line >= ROWS_AT_A_TIME:
                    carry_out()
                    batch, without_title, done = [], 0, last
        except Damaged as error:
            damage = error
        # The batch has only complete titles, because the title at the damage was not added.
        carry_out()
        if damage:
            raise damage

    def _groups(self, layout: Layout, after: Line, skipped: Advance) -> Iterator[tuple[Sequence[Row], int, Line]]:
        """Yield a tuple for each title: the rows to import, the number of ignored rows, and the last line before the
        next title.

        All rows of a title are ignored if the title was not imported.
        """
        title: str | None = None
        rows: list[Row] = []
        wanted, unwanted = True, 0
        last = after
        for line in read_lines(self._path(layout), after.mark, skipped):
            try:
                row = parse_row(line.mark.line, line.content, layout) if line.mark.line > 1 else None
            except RowRefused as refused:
                self._refuse(layout, line.mark.line, refused)
                row = None
            if row is not None:
                if row.id != title:
                    yield self._once(layout, rows), unwanted, last
                    title, rows, unwanted, wanted = row.id, [], 0, self._is_wanted(layout, row.id)
                if wanted:
                    self._collect(layout, row, rows)
                else:
                    unwanted += 1
            last = line
        yield self._once(layout, rows), unwanted, last

    def _is_wanted(self, layout: Layout, title: str) -> bool:
        return layout is BASICS or layout in REMEMBERED or self._work.has_seen(BASICS.file, title)

    def _collect(self, layout: Layout, row: Row, rows: list[Row]) -> None:
        if len(rows) == MAX_ROWS:
            self._refuse(layout, row.line, RowRefused(f"more than {MAX_ROWS} rows of one title", row.id))
        else:
            rows.append(row)

    def _once(self, layout: Layout, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows of a title if the title occurs for the first time in the file. Otherwise refuse the rows and
        return an empty list.

        In the second case, the import has already written the title with the rows of its first occurrence.
        """
        if not rows or layout is BASICS or layout in REMEMBERED or self._work.see(layout.file, rows[0].id):
            return rows
        for row in rows:
            self._refuse(layout, row.line, RowRefused("the file has other rows of this title before", row.id))
        return []

    def _refuse(self, layout: Layout, line: int, refused: RowRefused) -> None:
        self._work.refuse(layout.file, line, refused.reason, refused.detail)

    # Steps: each imports one batch of a file

    def _remember_names(self, groups: Groups, _: Share) -> Counter[str]:
        names = self._valid(NAMES, person_of, groups)
        self._work.add_names(names)
        return Counter(read=len(names))

    def _remember_episodes(self, groups: Groups, _: Share) -> Counter[str]:
        places = self._valid(EPISODES, episode_of, groups)
        self._work.add_episodes(places)
        return Counter(read=len(places))

    def _valid(self, layout: Layout, read: Callable[[Row], _Read], groups: Groups) -> list[_Read]:
        """Return the valid rows, parsed by `read`. Records invalid rows as refused."""
        parsed = []
        for row in (row for rows in groups for row in rows):
            try:
                parsed.append(read(row))
            except RowRefused as refused:
                self._refuse(layout, row.line, refused)
        return parsed

    def _import_videos(self, groups: Groups, share: Share) -> Counter[str]:
        contents = []
        not_selected = 0
        types: Counter[str] = Counter()
        for row in (row for rows in groups for row in rows):
            if self._selection.types:
                types[f"{OF_TYPE}{row.values[1]}"] += 1
            try:
                content = self._selected(row)
                if content is None:
                    not_selected += 1
                else:
                    contents.append((row, content))
            except RowRefused as refused:
                self._refuse(BASICS, row.line, refused)
        now = int(self._clock())
        attributes = ("videoId", "updatedBy", "version", TTL_ATTRIBUTE, DIGEST)
        stored = {
            item["videoId"]: item
            for item in self._batch_get([VIDEO.key(videoId=video_id(row.id)) for row, _ in contents], attributes)
            if not is_purged(item, now)
        }
        tasks = []
        for row, content in contents:
            new = new_item(
                content,
                video_id=video_id(row.id),
                owner=self._selection.owner,
                created_at=created_at(content.get("releaseYear")) if self._selection.dated_by_release else now,
                status="ready",
                origin="import",
            )
            tasks.append(Task(row.line, new | {DIGEST: digest(content)}, stored.get(new["videoId"])))
        left_out = {NOT_SELECTED: not_selected} if not_selected else {}
        return self._written(BASICS, self._write_video, tasks, share) + Counter(left_out) + types

    def _selected(self, row: Row) -> Item | None:
        """Return the content of a title; `None` if it is not selected.

        Raises RowRefused if the row is invalid or a duplicate.
        """
        # Invalid rows of titles that are not selected are not reported.
        if not self._selection.takes_type(row.values[1]):
            return None
        content = video_content(row, self._work.episode(row.id))
        if not self._selection.takes_year(content.get("releaseYear")):
            return None
        if not self._work.see(BASICS.file, row.id):
            raise RowRefused("the title occurs twice", row.id)
        return content

    def _write_video(self, task: Task) -> str:
        new, stored = task.new, task.stored
        if stored and stored.get(DIGEST) == new[DIGEST]:
            return UNCHANGED
        if stored and stored["updatedBy"] != IMPORTER.subject:
            return LEFT_ALONE
        self._rate.take(1 + len(new.get("tags", ())))
        now = int(self._clock())
        try:
            if stored is None:
                self._videos.create(cast("Video", new), self._importer, now, has_client_id=True)
                return CREATED
            self._videos.change(
                new["videoId"],
                self._importer,
                now,
                lambda item: _replaced(item, new, self._imported),
                matches=lambda version: version == stored["version"],
            )
        except (AlreadyExists, VersionMismatch):
            return LEFT_ALONE
        except BeingRemoved:
            return REMOVED
        return CHANGED

    def _import_credits(self, groups: Groups, share: Share) -> Counter[str]:
        relations = [
            (rows[0].id, relation)
            for rows in groups
            for relation in credits_of(rows, self._work.name, lambda line, why: self._refuse(PRINCIPALS, line, why))
        ]

        def beside_crew(new: Item, stored: Item) -> Item:
            """Return `new` with additional roles: the roles of `stored` that were imported from title.crew. Such roles
            have a category, but no job or characters."""
            bare = [role for role in stored["roles"] if role["category"] in CREW_CATEGORIES and not _says_more(role)]
            return new | {"roles": with_roles(new["roles"], bare)}

        return self._import_people(PRINCIPALS, relations, beside_crew, share)

    def _import_crew(self, groups: Groups, share: Share) -> Counter[str]:
        relations = []
        for rows in groups:
            for again in rows[1:]:
                self._refuse(CREW, again.line, RowRefused("the title occurs twice", again.id))
            people = crew_of(rows[0], self._work.name, lambda line, why: self._refuse(CREW, line, why))
            relations += [(rows[0].id, relation) for relation in people]

        def added(new: Item, stored: Item) -> Item:
            kept = {name: stored[name] for name in ("ordering", "name") if name in stored}
            return new | kept | {"roles": with_roles(stored["roles"], new["roles"])}

        return self._import_people(CREW, relations, added, share)

    def _import_people(
        self, layout: Layout, relations: Sequence[tuple[str, Relation]], merged: Merge, share: Share
    ) -> Counter[str]:
        def make(video: Item, relation: Relation, now: int) -> Item:
            content = CreditContent.model_validate(relation.content)
            return credit_item(video, dict(relation.parts)["personId"], content, caller=self._importer, now=now)

        videos = self._targets([title for title, _ in relations])
        content = ("name", "ordering", "roles")
        outcomes = self._import_relations(layout, relations, videos, make, content, share, merged)
        self._move_again(videos)
        return outcomes

    def _import_releases(self, groups: Groups, share: Share) -> Counter[str]:
        relations = [
            (rows[0].id, relation)
            for rows in groups
            for relation in releases_of(rows, lambda line, why: self._refuse(AKAS, line, why))
        ]

        def make(video: Item, relation: Relation, now: int) -> Item:
            parts = dict(relation.parts)
            language = None if parts["language"] == NO_LANGUAGE else parts["language"]
            content = ReleaseContent.model_validate(relation.content)
            return release_item(video, parts["region"], language, content, caller=self._importer, now=now)

        videos = self._targets([title for title, _ in relations])
        outcomes = self._import_relations(AKAS, relations, videos, make, ("titles",), share)
        self._move_again(videos)
        return outcomes

    def _move_again(self, videos: Mapping[str, Item]) -> None:
        """Find the videos whose index position has changed since the import read `videos`. Update the index entries of
        their child items, because the import has written these entries with the old position."""
        again = self._targets(list(videos))
        for title, video in videos.items():
            if index_position(again.get(title, video)) != index_position(video):
                self._mover.update_entries(video["videoId"], int(self._clock()))

    def _import_relations(
        self,
        layout: Layout,
        relations: Sequence[tuple[str, Relation]],
        videos: Mapping[str, Item],
        make: Callable[[Item, Relation, int], Item],
        content: Sequence[str],
        share: Share,
        merged: Merge = lambda new, _: new,
    ) -> Counter[str]:
        now = int(self._clock())
        items = []
        for title, relation in relations:
            if video := self._target(layout, relation.line, videos.get(title)):
                items.append((relation.line, make(video, relation, now)))
        there = {place_in_table(item): item for item in self._batch_get([key_of(item) for _, item in items])}
        tasks = []
        for line, item in items:
            stored = there.get(place_in_table(item))
            try:
                tasks.append(Task(line, merged(item, stored) if stored else item, stored))
            except RowRefused as refused:
                self._refuse(layout, line, refused)
        return self._written(layout, lambda task: write_relation(self._table, self._rate, task, content), tasks, share)

    def _import_ratings(self, groups: Groups, share: Share) -> Counter[str]:
        valid = []
        for rows in groups:
            for again in rows[1:]:
                self._refuse(RATINGS, again.line, RowRefused("the title occurs twice", again.id))
            try:
                valid.append((rows[0], rating_of(rows[0])))
            except RowRefused as refused:
                self._refuse(RATINGS, rows[0].line, refused)
        videos = self._targets([row.id for row, _ in valid])
        keys = [RATING_TOTALS.key(videoId=video["videoId"]) for video in videos.values()]
        there = {item["videoId"]: item for item in self._batch_get(keys, ("videoId", "imported"))}
        tasks = [
            Task(
                row.line,
                {"videoId": video["videoId"], "userId": video["userId"], "imported": rating},
                there.get(video["videoId"]),
            )
            for row, rating in valid
            if (video := self._target(RATINGS, row.line, videos.get(row.id)))
        ]
        return self._written(RATINGS, self._write_rating, tasks, share)

    def _write_rating(self, task: Task) -> str:
        before = (task.stored or {}).get("imported")
        imported = task.new["imported"]
        if before == imported:
            return UNCHANGED
        self._rate.take(1)
        now = int(self._clock())
        average, votes = imported["average"], imported["votes"]
        self._ratings.set_imported(task.new["videoId"], average, votes, self._importer, now, owner=task.new["userId"])
        return CHANGED if before else CREATED

    # Helpers of the steps

    def _targets(self, titles: Sequence[str]) -> dict[str, Item]:
        """Return the stored videos by title id. Each video has only `status`, and the attributes on which the index
        entries of its child items depend.

        Reads are consistent.
        """
        ids = {video_id(title): title for title in titles}
        attributes = ("status", *PLACING_ATTRIBUTES)
        videos = self._batch_get([VIDEO.key(videoId=video_id) for video_id in ids], attributes)
        return {ids[item["videoId"]]: item for item in videos}

    def _target(self, layout: Layout, line: int, video: Item | None) -> Item | None:
        """Return the video if it exists and is not deleted. Otherwise record the line as refused, and return `None`."""
        if video is None:
            self._refuse(layout, line, RowRefused("its video does not exist"))
        elif video["status"] == "deleted":
            self._refuse(layout, line, DELETED)
        else:
            return video
        return None

    def _batch_get(self, keys: Sequence[Key], attributes: Sequence[str] = ()) -> list[Item]:
        return self._table.batch_get(keys, attributes=attributes, consistent=True)

    def _written(
        self, layout: Layout, write: Callable[[Task], str], tasks: Sequence[Task], share: Share
    ) -> Counter[str]:
        outcomes = self._pool.map(write, tasks, share)
        written: Key | None = None
        for task, outcome in zip(tasks, outcomes, strict=True):
            if outcome in (LEFT_ALONE, REMOVED):
                self._refuse(layout, task.line, TOUCHED if outcome == LEFT_ALONE else REMOVAL_UNFINISHED)
            elif layout is BASICS:  # only videos, because users may remove other items
                written = VIDEO.key(videoId=task.new["videoId"])
        if written:
            self._work.wrote(written)
        return Counter(outcomes)


def write_relation(table: Table, rate: RateLimiter, task: Task, content: Sequence[str]) -> str:
    """Create or replace a credit or release. `content` has the names of the attributes to compare.

    Returns CREATED, CHANGED or UNCHANGED. Returns LEFT_ALONE, without a write, if the author of the stored item is not
    the importer, or if another writer changes the item concurrently. Raises NotApplied if a concurrent transaction
    writes the same item.
    """
    new, stored = task.new, task.stored
    if stored and all(stored.get(name) == new.get(name) for name in content):
        return UNCHANGED
    if stored and stored["updatedBy"] != IMPORTER.subject:
        return LEFT_ALONE
    if stored:
        new = new | {"version": stored["version"] + 1}
    rate.take(1)
    try:
        table.write(table.put(new, condition=unchanged(stored)))
    except ConditionFailed as failure:
        if not is_own_write(failure.item, new):
            return LEFT_ALONE
    except TransactionConflict as conflict:
        raise NotApplied from conflict
    return CHANGED if stored else CREATED


def _replaced(item: Video, new: Item, imported: Sequence[str]) -> Video:
    """Return a copy of `item` in which the attributes named in `imported` have the values of `new`."""
    kept = {name: value for name, value in item.items() if name not in imported}
    changed = kept | {name: new[name] for name in imported if name in new}
    return cast("Video", changed | {"origins": {**item.get("origins", {}), **new["origins"]}})


def _says_more(role: Item) -> bool:
    return bool(role.get("job") or role.get("characters"))


def place_in_table(item: Mapping[str, Any]) -> tuple[str, str]:
    """Return the partition key and the sort key of an item."""
    return item[PARTITION_KEY], item[SORT_KEY]
