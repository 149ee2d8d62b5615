"""Imports a foreign catalogue by a map: creates and updates videos by their `externalId`, or only compares them.

The foreign catalogue is the source of the mapped fields. The import skips and reports a video if a user has changed it
in the service, and its rows in the source have also changed. The import deletes nothing.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from shared.aws.dynamodb import Table
from shared.core.attributes import Item, encode
from shared.core.caller import Caller
from shared.core.errors import AlreadyExists, BeingRemoved, InvalidContent, VersionMismatch
from shared.entities import Video
from shared.relations.children import children_of
from shared.relations.credits import PLACING_ATTRIBUTES, credit_item, release_item
from shared.relations.entry_updates import EntryUpdater
from shared.relations.models import CreditContent, ReleaseContent
from shared.schema import CREDIT, RELEASE, VIDEO
from shared.video_fields import PROBED
from shared.videos.access import is_purged
from shared.videos.entries import index_position
from shared.videos.reservations import find
from shared.videos.store import VideoStore
from shared.videos.video import new_item
from tools.exchange_format import ItemLine
from tools.imdb import RowRefused, digest
from tools.imdb_import import (
    CHANGED,
    CREATED,
    DELETED,
    DIGEST,
    IMPORTER,
    LEFT_ALONE,
    REMOVAL_UNFINISHED,
    TOUCHED,
    UNCHANGED,
    Task,
    place_in_table,
    write_relation,
)
from tools.importing import NO_VIDEO, LineImport, Outcome, Restore, tried
from tools.lines import Line, OtherFile
from tools.mapping import PARTS, Catalogue, CatalogueMap, Group, child_lines, video_line
from tools.progress import Advance, Bars
from tools.rate_limit import Pool, RateLimiter
from tools.work_file import WorkFile

FIXED = ("createdAt", "status")
"""Mapped fields that only a new video gets. Updates do not change them."""
CONTENT = {"Credit": ("name", "ordering", "roles"), "Release": ("titles",)}
"""Attributes of credits and releases that the import compares with the table, and replaces."""
MISSING, DIFFERS, EXTRA = "is missing in the table", "differs in the table", "is only in the table"
"""Reasons in the report of a comparison."""
PAGE = 100


class MappedImport(LineImport):
    """Import or comparison of one foreign catalogue."""

    def __init__(
        self,
        file: Path,
        table: Table,
        work: WorkFile,
        map_: CatalogueMap,
        *,
        compares: bool = False,
        rate: RateLimiter,
        pool: Pool,
        bars: Bars,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create the import. With `compares`, it writes nothing to the table, and records each difference as a refused
        row."""
        super().__init__(file, table, work, rate=rate, pool=pool, bars=bars, clock=clock)
        self._map = map_
        self._catalogue = Catalogue(file, map_)
        kind = Comparison if compares else Upsert
        fields = [name for name in map_.parts["video"].fields if name not in FIXED]
        self._restore = kind(table, rate, fields, clock, IMPORTER.acting_for(work.change_set))

    def _measure(self) -> int:
        with self._bars.bar("Reading through", None):
            return self._catalogue.load()

    def _refuse(self, number: int, refused: RowRefused) -> None:
        row, part = divmod(number, len(PARTS))
        self._work.refuse(self._catalogue.name(PARTS[part]), row, refused.reason, refused.detail)

    def _groups(self, after: Line, skipped: Advance) -> Iterator[tuple[list[ItemLine], Line, bool]]:
        """Yield a tuple for each video: its lines, the position after its rows, and `True`. `True` means that the lines
        are complete."""
        rows = 0
        for group in self._catalogue.groups():
            rows = group.mark.line
            if rows == after.mark.line and group.mark != after.mark:
                raise OtherFile
            if rows > after.mark.line:
                yield self._lines(group), Line(group.mark, None, rows), True
            else:
                skipped(rows)
        if rows < after.mark.line:
            raise OtherFile
        for part, number, key in self._catalogue.orphans():
            reason = "its video is not in the source" if key else "the row has no key for its video"
            self._refuse(_number(number, part), RowRefused(reason, key or ""))

    def _lines(self, group: Group) -> list[ItemLine]:
        """Return the valid lines of a video, its credits and its releases, in this order. Records invalid rows as
        refused."""
        try:
            video = video_line(group, self._map)
            if not self._work.see(self._file.name, str(group.key)):
                raise RowRefused("the key occurs twice", str(group.key))
        except RowRefused as refused:
            self._refuse(_number(group.video.number, "video"), refused)
            return []
        lines = [replace(video, line=_number(video.line, "video"))]
        for part, rows in group.children.items():
            if part not in self._map.parts:
                continue
            for number, made in child_lines(part, rows, video, self._map):
                if isinstance(made, RowRefused):
                    self._refuse(_number(number, part), made)
                else:
                    lines.append(replace(made, line=_number(number, part)))
        return lines


def _number(row: int, part: str) -> int:
    """Return a number that identifies a row among the rows of all parts. `row` alone is ambiguous, because row numbers
    begin at 1 in each part (PARTS)."""
    return row * len(PARTS) + [*PARTS].index(part)  # type: ignore[arg-type]


class Upsert(Restore):
    """Writer that creates the videos of a foreign catalogue, and updates their mapped fields."""

    def __init__(
        self,
        table: Table,
        rate: RateLimiter,
        fields: Sequence[str],
        clock: Callable[[], float] = time.time,
        importer: Caller = IMPORTER,
    ) -> None:
        """Create the writer. `fields` are the names of the mapped fields of a video."""
        super().__init__(table, rate, clock, importer)
        self._fields = fields
        self._videos = VideoStore(table)

    def carry_out(self, lines: Sequence[ItemLine]) -> list[Outcome]:
        """Write one video with its credits and releases. Returns the outcome of each line."""
        if not lines:
            return []
        head, children = lines[0], lines[1:]
        stored = self._stored(head)
        outcomes: list[Outcome] = [(head.line, tried(partial(self._upsert, head, stored)))]
        if not children:
            return outcomes
        video_id = stored["videoId"] if stored else head.attributes["videoId"]
        return outcomes + self._upsert_children(video_id, head, children)

    def _stored(self, line: ItemLine) -> Item | None:
        """Return the owner's video with the line's `externalId`; `None` if it does not exist. Costs one or two
        consistent GetItems."""
        owner, external_id = line.attributes["userId"], line.attributes["externalId"]
        video_id = find(self._table, owner, "externalId", external_id)
        video = self._table.get(VIDEO.key(videoId=video_id), consistent=True) if video_id else None
        # The reservation may be stale.
        if video is None or video.get("externalId") != external_id or is_purged(video, self._now()):
            return None
        return video

    def _upsert(self, line: ItemLine, stored: Item | None) -> str | RowRefused:
        given = line.attributes
        mark = digest({name: str(encode(value_of(given, name))) for name in self._fields})
        if stored and stored["status"] == "deleted":
            return DELETED
        if stored and (stored.get(DIGEST) == mark or not differing(given, stored, self._fields)):
            return UNCHANGED
        if stored and stored["updatedBy"] != IMPORTER.subject:
            return TOUCHED
        self._rate.take(1 + len(given.get("tags", ())))
        try:
            if stored is None:
                self._create(given | {DIGEST: mark})
                return CREATED
            self._videos.change(
                stored["videoId"],
                self._importer,
                self._now(),
                lambda item: updated(item, given | {DIGEST: mark}, [*self._fields, DIGEST]),
                matches=lambda version: version == stored["version"],
            )
        except VersionMismatch:
            return TOUCHED
        except BeingRemoved:
            return REMOVAL_UNFINISHED
        except (AlreadyExists, InvalidContent) as error:
            return RowRefused(error.detail)
        return CHANGED

    def _create(self, attributes: Item) -> None:
        content = {"visibility": "private"} | {
            name: value
            for name, value in attributes.items()
            if name not in ("videoId", "userId", "createdAt", "status")
        }
        item = new_item(
            content,
            video_id=attributes["videoId"],
            owner=attributes["userId"],
            created_at=attributes.get("createdAt", self._now()),
            status=attributes["status"],
            origin="import",
        )
        self._videos.create(item, self._importer, self._now(), has_client_id=True)

    def _upsert_children(self, video_id: str, head: ItemLine, lines: Sequence[ItemLine]) -> list[Outcome]:
        attributes = ("status", *PLACING_ATTRIBUTES)
        key = VIDEO.key(videoId=video_id)
        video = self._table.get(key, attributes=attributes, consistent=True)
        if video is None or video["status"] == "deleted":
            return [(line.line, NO_VIDEO if video is None else DELETED) for line in lines]
        items = [(line, self._item(line, video)) for line in lines]
        there = self._there([item for _, item in items])
        outcomes: list[Outcome] = [
            (line.line, tried(partial(self._upsert_child, line, item, there.get(place_in_table(item)))))
            for line, item in items
        ]
        again = self._table.get(key, attributes=attributes, consistent=True)
        if again and index_position(again) != index_position(video):
            EntryUpdater(self._table).update_entries(video_id, self._now())
        return outcomes

    def _item(self, line: ItemLine, video: Item) -> Item:
        given, now = line.attributes, self._now()
        if line.entity == "Credit":
            credit = CreditContent.model_validate({name: given[name] for name in CONTENT["Credit"] if name in given})
            return credit_item(video, given["personId"], credit, caller=self._importer, now=now)
        release = ReleaseContent.model_validate({"titles": given["titles"]})
        return release_item(video, given["region"], given.get("language"), release, caller=self._importer, now=now)

    def _upsert_child(self, line: ItemLine, item: Item, stored: Item | None) -> str | RowRefused:
        outcome = write_relation(self._table, self._rate, Task(line.line, item, stored), CONTENT[line.entity])
        return TOUCHED if outcome == LEFT_ALONE else outcome


class Comparison(Upsert):
    """Comparison of a foreign catalogue with the table. It sends no write."""

    def carry_out(self, lines: Sequence[ItemLine]) -> list[Outcome]:
        """Compare one video, its credits and its releases with the table. Returns the outcome of each line."""
        if not lines:
            return []
        head = lines[0]
        stored = self._stored(head)
        if stored is None:
            return [(head.line, RowRefused(MISSING, head.attributes["externalId"]))]
        if stored["status"] == "deleted":
            return [(head.line, DELETED)]
        names = differing(head.attributes, stored, self._fields)
        entities = {line.entity for line in lines[1:]}
        items = {place_in_table(item): (line, item) for line in lines[1:] for item in [self._item(line, stored)]}
        there = {place_in_table(item): item for item in self._children(stored["videoId"])} if items else {}
        names += [f"{place[1]} {EXTRA}" for place in sorted(there) if place not in items and _entity(place) in entities]
        outcomes = [(line.line, _compared(head, line, item, there.get(place))) for place, (line, item) in items.items()]
        return [(head.line, RowRefused(DIFFERS, _described(head, names)) if names else UNCHANGED), *outcomes]

    def _children(self, video_id: str) -> Iterator[Item]:
        """Yield the credits and releases of a video. Costs a consistent Query for each hundred items."""
        for entity in (CREDIT, RELEASE):
            after = None
            while True:
                page = children_of(self._table, video_id, entity.sort_prefix, limit=PAGE, after=after, consistent=True)
                yield from page.items
                if page.resume is None:
                    break
                after = page.resume


def value_of(item: Mapping[str, Any], name: str) -> Any:
    """Return the value of a mapped field, such as `title` or `metadata.studio`; `None` if it is absent."""
    field, _, key = name.partition(".")
    return item.get(field, {}).get(key) if key else item.get(field)


def differing(given: Item, stored: Mapping[str, Any], fields: Sequence[str]) -> list[str]:
    """Return the names of the mapped fields in which `stored` differs from `given`. An absent value differs from a
    present one."""
    return [name for name in fields if not _same(value_of(given, name), value_of(stored, name))]


def updated(item: Video, given: Item, fields: Sequence[str]) -> Video:
    """Return a copy of `item` in which the mapped fields, `fields`, have the values of `given`. Other fields, and
    unmapped metadata, are retained."""
    new: Item = {**item, "metadata": dict(item.get("metadata", {})), "origins": dict(item.get("origins", {}))}
    for name in fields:
        field, _, key = name.partition(".")
        target, value = (new["metadata"], value_of(given, name)) if key else (new, given.get(field))
        if value is None:
            target.pop(key or field, None)
        else:
            target[key or field] = value
        if field in PROBED:
            new["origins"] |= {field: "import"}
    return cast("Video", new)


def _same(one: Any, other: Any) -> bool:
    return one is other if one is None or other is None else encode(one) == encode(other)


def _compared(head: ItemLine, line: ItemLine, item: Item, stored: Item | None) -> str | RowRefused:
    """Compare one credit or release of the source with the table. Returns UNCHANGED, or a RowRefused that describes the
    difference."""
    names = [name for name in CONTENT[line.entity] if item.get(name) != (stored or item).get(name)]
    described = _described(head, [place_in_table(item)[1], *names])
    if stored is None:
        return RowRefused(MISSING, described)
    return RowRefused(DIFFERS, described) if names else UNCHANGED


def _described(head: ItemLine, names: Sequence[str]) -> str:
    return f"{head.attributes['externalId']}: {', '.join(names)}"


def _entity(place: tuple[str, str]) -> str:
    return "Credit" if place[1].startswith(CREDIT.sort_prefix) else "Release"
