"""Map from a foreign catalogue to this service's catalogue. Reads rows of CSV, JSON lines or SQLite, and converts them
to lines of the exchange format.

A map is a TOML file, which docs/migration.md describes.
"""

import csv
import gzip
import io
import json
import re
import sqlite3
import tomllib
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from shared.core.text import is_user_id
from tools import ToolError
from tools.exchange_format import LINES, ItemLine, parse_line
from tools.imdb import RowRefused
from tools.lines import LineCheckpoint

Part = Literal["video", "credits", "releases"]
"""Name of one of the three parts of a map: the rows of videos, of credits, or of releases."""
PARTS: tuple[Part, ...] = ("video", "credits", "releases")
ROLE, TITLE = ("category", "job", "characters"), ("title", "types", "attributes")
"""Fields of a role, and fields of a title. A credit has one role for each of its rows. A release has one title for each
of its rows."""
DERIVED = (
    "videoId",
    "userId",
    "version",
    "schemaVersion",
    "updatedAt",
    "updatedBy",
    "updatedAs",
    "writeId",
    "origins",
    "importDigest",
)
"""Members of a line that a map cannot set."""
FIELDS: Mapping[Part, tuple[str, ...]] = {
    "video": tuple(name for name in LINES["Video"].model_fields if name not in (*DERIVED, "externalId")),
    "credits": ("personId", "name", "ordering", *ROLE),
    "releases": ("region", "language", *TITLE),
}
"""Fields that columns can fill, by part of the map. For a video, a column can also fill one key of the metadata, as
`metadata.x`.
"""
REQUIRED: Mapping[Part, tuple[str, ...]] = {
    "video": ("title",),
    "credits": ("personId", "category"),
    "releases": ("region", "title"),
}
NAMESPACE = uuid.UUID("0b7f8a52-57c0-5a7e-9d8c-6f0e3f3a4c11")
MAX_CHILDREN = 1000
"""Maximum number of rows of one part that belong to one video."""
SQLITE = (".sqlite", ".sqlite3", ".db")

Row = Mapping[str, Any]
"""Values by column. `None` and empty text count as absent."""


def _number(value: Any) -> int | float:
    number = float(str(value).strip())
    return int(number) if number.is_integer() else number


def _boolean(value: Any) -> bool:
    known = {"1": True, "true": True, "t": True, "yes": True, "y": True, "0": False, "false": False, "f": False, "no": False, "n": False}  # fmt: skip
    return known[str(value).strip().lower()]


def _time(value: Any) -> int:
    text = str(value).strip()
    if re.fullmatch(r"\d+", text, re.ASCII):
        return int(text)
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def _year(value: Any) -> int:
    return int(re.match(r"\s*(\d{4})(?!\d)", str(value), re.ASCII)[1])  # type: ignore[index]


TYPES: Mapping[str, Callable[[Any], Any]] = {
    "text": lambda value: str(value).strip(),
    "number": _number,
    "boolean": _boolean,
    "seconds": lambda value: round(1000 * float(str(value))),
    "minutes": lambda value: round(60_000 * float(str(value))),
    "time": _time,
    "year": _year,
    "as-is": lambda value: value,
}
"""Conversions by name. `seconds` and `minutes` return milliseconds, `time` epoch seconds."""


@dataclass(frozen=True)
class Column:
    """Source of one field: a column with a type, or a constant."""

    column: str | None = None
    """Name of the column; `None` for a constant."""
    type: str = "text"
    split: str | None = None
    """Separator of a list's elements. `None` for a single value."""
    default: Any = None
    """Value of the field if a row has no value in the column. For a constant, this is the constant's value."""

    def value(self, row: Row) -> Any:
        """Return the converted value, or the default if the value is absent. Raises RowRefused if the value does not
        have the type `type`."""
        raw = row.get(self.column) if self.column else None
        if raw is None or raw == "":
            return self.default
        try:
            if self.split is None:
                return TYPES[self.type](raw)
            return [TYPES[self.type](part) for part in str(raw).split(self.split) if part.strip()]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise RowRefused(f"the column {self.column} is not of the type {self.type}", repr(raw)) from error


@dataclass(frozen=True)
class PartMap:
    """Map of one part: the source of its rows, and the column or constant for each of its fields."""

    part: Part
    key: str
    """Name of the column that contains the key of the row's video."""
    fields: Mapping[str, Column]
    file: str | None = None
    """Name of the part's file, in the same folder as the videos' file. `None` if the videos' file also contains the
    part."""
    table: str | None = None
    """Name of a table, if the file is SQLite."""
    query: str | None = None
    """SQL query that selects the rows, instead of a table."""

    def content(self, row: Row) -> dict[str, Any]:
        """Return the fields of a row, without absent values. Raises RowRefused if a value does not have the type of its
        column."""
        values: dict[str, Any] = {}
        for name, column in self.fields.items():
            value = column.value(row)
            if value is None:
                continue
            if name.startswith("metadata."):
                values.setdefault("metadata", {})[name.removeprefix("metadata.")] = value
            else:
                values[name] = value
        return values


@dataclass(frozen=True)
class CatalogueMap:
    """Parsed map file."""

    owner: str
    parts: Mapping[Part, PartMap]
    digest: int
    """CRC-32 of the file. An interrupted import resumes only with the same map."""

    @classmethod
    def load(cls, path: Path) -> "CatalogueMap":
        """Read a map. Raises ToolError with one sentence about the first fault."""
        try:
            raw = path.read_bytes()
            document = tomllib.loads(raw.decode())
        except OSError as error:
            raise ToolError(f"{path} cannot be read: {error.strerror}.") from error
        except ValueError as error:
            raise ToolError(f"{path} is not TOML: {error}.") from error
        try:
            return cls(_owner(document), _parts(document), zlib.crc32(raw))
        except BadMap as error:
            raise ToolError(f"{path}: {error}") from error


class BadMap(Exception):
    """Fault of a map. The message is a sentence for the user."""


def _owner(document: Mapping[str, Any]) -> str:
    owner = document.get("owner")
    if not isinstance(owner, str) or not is_user_id(owner):
        raise BadMap("`owner` must be the userId of the videos.")
    return owner


def _parts(document: Mapping[str, Any]) -> dict[Part, PartMap]:
    unknown = sorted(document.keys() - {"owner", *PARTS})
    if unknown:
        raise BadMap(f"`{unknown[0]}` is unknown. A map has owner, {', '.join(PARTS)}.")
    if "video" not in document:
        raise BadMap("`video` is missing. It maps the rows of the videos.")
    return {part: _part(part, document[part]) for part in PARTS if part in document}


def _part(part: Part, table: Any) -> PartMap:
    if not isinstance(table, dict):
        raise BadMap(f"`{part}` must be a table.")
    key = "key" if part == "video" else "join"
    unknown = sorted(table.keys() - {key, "fields", "file", "table", "query"})
    if unknown:
        raise BadMap(f"`{part}.{unknown[0]}` is unknown. A part has {key}, fields, and one of file, table, query.")
    if not isinstance(table.get(key), str):
        raise BadMap(f"`{part}.{key}` must be the column with the key of the video.")
    sources = [name for name in ("file", "table", "query") if name in table]
    if len(sources) > 1 or not all(isinstance(table[name], str) for name in sources):
        raise BadMap(f"`{part}` must have at most one of file, table and query, as text.")
    if part != "video" and not sources:
        raise BadMap(f"`{part}` must have one of file, table and query.")
    if part == "video" and "file" in table:
        raise BadMap("`video.file` must be omitted, because the command names the file of the videos.")
    given = table.get("fields")
    if not isinstance(given, dict):
        raise BadMap(f"`{part}.fields` must map fields to columns.")
    fields = {name: _column(f"{part}.fields.{name}", column) for name, column in _flat(given)}
    for name in fields:
        if name not in FIELDS[part] and not (part == "video" and re.fullmatch(r"metadata\..+", name)):
            raise BadMap(f"`{part}.fields.{name}` is unknown. The fields are {', '.join(FIELDS[part])}.")
    missing = [name for name in REQUIRED[part] if name not in fields]
    if missing:
        raise BadMap(f"`{part}.fields.{missing[0]}` is missing.")
    return PartMap(part, table[key], fields, table.get("file"), table.get("table"), table.get("query"))


def _flat(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield name and column of each field. TOML parses `metadata.studio = "x"` as a nested table, for which this
    function yields the name `metadata.studio`."""
    for name, column in fields.items():
        if name == "metadata" and isinstance(column, dict):
            yield from ((f"metadata.{key}", inner) for key, inner in column.items())
        else:
            yield name, column


def _column(name: str, given: Any) -> Column:
    if isinstance(given, str):
        return Column(given)
    if not isinstance(given, dict) or given.keys() - {"column", "type", "split", "default", "value"}:
        raise BadMap(f"`{name}` must be a column, or a table of column, type, split and default, or of value.")
    if "value" in given:
        if len(given) > 1:
            raise BadMap(f"`{name}` must have either value or column.")
        return Column(default=given["value"])
    if not isinstance(given.get("column"), str):
        raise BadMap(f"`{name}` must have a column or a value.")
    type_ = given.get("type", "text")
    if type_ not in TYPES:
        raise BadMap(f"`{name}.type` must be one of {', '.join(TYPES)}.")
    split = given.get("split")
    if split is not None and (not isinstance(split, str) or not split):
        raise BadMap(f'`{name}.split` must be a separator such as "|".')
    return Column(given["column"], type_, split, given.get("default"))


def video_id(owner: str, key: str) -> str:
    """Return the videoId of a new video. It is derived from the owner and from the video's key in the foreign
    catalogue, so that a repeated import finds its videos."""
    return str(uuid.uuid5(NAMESPACE, json.dumps([owner, key])))


# Reading -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SourceRow:
    """A row, or the reason why it is unreadable, with its number from 1."""

    number: int
    row: Row
    fault: RowRefused | None = None


@dataclass(frozen=True)
class Group:
    """Rows of one video, and the position after these rows."""

    video: SourceRow
    key: str | None
    """Key of the video; `None` if the row has none."""
    children: Mapping[Part, list[SourceRow]]
    mark: LineCheckpoint


def read_rows(
    path: Path, columns: Iterable[str], *, table: str | None = None, query: str | None = None
) -> Iterator[SourceRow]:
    """Yield the rows of a file in the order of the file. A SQLite file needs `table` or `query`.

    Raises ToolError if the file is unreadable, or lacks one of `columns`. Rows of JSON lines may lack columns.
    """
    try:
        if path.suffix in SQLITE:
            yield from _sqlite_rows(path, columns, table, query)
        elif path.suffixes[-2:] == [".jsonl", ".gz"] or path.suffix == ".jsonl":
            yield from _json_rows(path)
        else:
            yield from _csv_rows(path, columns)
    except (OSError, EOFError, zlib.error) as error:
        raise ToolError(f"{path} cannot be read: {error}.") from error
    except (sqlite3.Error, csv.Error, UnicodeError) as error:
        raise ToolError(f"{path} cannot be read as {path.suffix[1:] or 'CSV'}: {error}.") from error


@contextmanager
def _text(path: Path) -> Iterator[io.TextIOBase]:
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        yield file


def _csv_rows(path: Path, columns: Iterable[str]) -> Iterator[SourceRow]:
    with _text(path) as file:
        reader = csv.DictReader(file, strict=True)
        _require(path, reader.fieldnames or (), columns)
        for number, row in enumerate(reader, 1):
            is_complete = None not in row and None not in row.values()
            yield SourceRow(
                number, row, None if is_complete else RowRefused("the row has more or fewer values than columns")
            )


def _json_rows(path: Path) -> Iterator[SourceRow]:
    with _text(path) as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield SourceRow(number, {}, RowRefused("the line is not JSON", str(error)))
                continue
            is_object = isinstance(row, dict)
            yield SourceRow(
                number, row if is_object else {}, None if is_object else RowRefused("the line is not a JSON object")
            )


def _sqlite_rows(path: Path, columns: Iterable[str], table: str | None, query: str | None) -> Iterator[SourceRow]:
    if not table and not query:
        raise ToolError(f"{path} is a SQLite file, so each part of the map needs a table or a query.")
    quoted = (table or "").replace('"', '""')
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        cursor = database.execute(query or f'SELECT * FROM "{quoted}" ORDER BY rowid')
        names = [column[0] for column in cursor.description]
        _require(path, names, columns)
        for number, values in enumerate(cursor, 1):
            yield SourceRow(number, dict(zip(names, values, strict=True)))


def _require(path: Path, present: Iterable[str], columns: Iterable[str]) -> None:
    present = list(present)
    missing = [column for column in columns if column not in present]
    if missing:
        raise ToolError(f"{path} has no column {missing[0]!r}; it has {', '.join(present) or 'none'}.")


class Catalogue:
    """Rows of the foreign catalogue, in the three parts of the map: videos, credits and releases.

    The rows of credits and releases are in a temporary database, so memory use is constant.
    """

    def __init__(self, file: Path, map_: CatalogueMap) -> None:
        self._file = file
        self._map = map_
        self._joined = sqlite3.connect("")  # a temporary file, which SQLite deletes
        self._joined.execute("CREATE TABLE joined (part TEXT, key TEXT, number INTEGER, row TEXT)")

    def name(self, part: Part) -> str:
        """Return the name of a part's source, for reports."""
        mapped = self._map.parts[part]
        inner = part if mapped.query else mapped.table
        return f"{self._file.name}:{inner}" if inner else mapped.file or self._file.name

    def load(self) -> int:
        """Read all rows of credits and releases, and return the number of videos. Raises ToolError if a file is
        unreadable or lacks a column."""
        for part in PARTS[1:]:
            if part in self._map.parts:
                rows = ((part, _key(each, self._map.parts[part]), each.number, json.dumps([each.row, _reason(each)], default=str)) for each in self._rows(part))  # fmt: skip
                self._joined.executemany("INSERT INTO joined VALUES (?, ?, ?, ?)", rows)
        self._joined.execute("CREATE INDEX place ON joined (key, part, number)")
        self._joined.execute("CREATE TABLE found (key TEXT PRIMARY KEY) WITHOUT ROWID")
        count = 0
        for row in self._rows("video"):
            count += 1
            self._joined.execute("INSERT OR IGNORE INTO found VALUES (?)", (_key(row, self._map.parts["video"]) or "",))
        return count

    def groups(self) -> Iterator[Group]:
        """Yield a group for each row of the videos: this row, and the rows of the video's credits and releases. The
        group's `mark` is a checkpoint, whose line number is the number of the video's row."""
        checksum = 0
        for video in self._rows("video"):
            key = _key(video, self._map.parts["video"])
            children: dict[Part, list[SourceRow]] = {part: [] for part in PARTS[1:]}
            for part, number, stored in self._joined.execute(
                "SELECT part, number, row FROM joined WHERE key = ? ORDER BY part, number", (key,)
            ):
                row, reason = json.loads(stored)
                children[part].append(SourceRow(number, row, RowRefused(reason) if reason else None))
            seen = [video.row, [[child.row for child in rows] for rows in children.values()]]
            checksum = zlib.crc32(json.dumps(seen, default=str).encode(), checksum)
            yield Group(video, key, children, LineCheckpoint(video.number, checksum))

    def orphans(self) -> Iterator[tuple[Part, int, str | None]]:
        """Yield part, number and key of each row of credits and releases whose video is not in the source."""
        yield from self._joined.execute(
            "SELECT part, number, key FROM joined WHERE key IS NULL OR key NOT IN (SELECT key FROM found) "
            "ORDER BY part, number"
        )

    def _rows(self, part: Part) -> Iterator[SourceRow]:
        mapped = self._map.parts[part]
        path = self._file.with_name(mapped.file) if mapped.file else self._file
        columns = [mapped.key, *(column.column for column in mapped.fields.values() if column.column)]
        return read_rows(path, columns, table=mapped.table, query=mapped.query)


def _key(row: SourceRow, mapped: PartMap) -> str | None:
    value = row.row.get(mapped.key)
    text = "" if value is None else str(value).strip()
    return text or None


def _reason(row: SourceRow) -> str | None:
    return row.fault.reason if row.fault else None


# Converting ----------------------------------------------------------------------------------------------------------


def video_line(group: Group, map_: CatalogueMap) -> ItemLine:
    """Return the line for the video of a group. Raises RowRefused if the video's row is invalid."""
    if group.video.fault:
        raise group.video.fault
    if group.key is None:
        raise RowRefused("the row has no key")
    mapped = map_.parts["video"]
    content = {"status": "ready"} | mapped.content(group.video.row)
    if "visibility" in mapped.fields:
        content.setdefault("visibility", "private")
    made = {"videoId": video_id(map_.owner, group.key), "userId": map_.owner, "externalId": group.key}
    return _line(group.video.number, "Video", content | made)


def child_lines(
    part: Part, rows: Iterable[SourceRow], video: ItemLine, map_: CatalogueMap
) -> Iterator[tuple[int, ItemLine | RowRefused]]:
    """Yield each credit or release of a video as a pair: the number of its first row, and its line. Yield each invalid
    row as a pair of its number and the RowRefused.

    Rows of one person become one credit with several roles. Rows of one region and language become one release with
    several titles.
    """
    mapped, inner = map_.parts[part], ROLE if part == "credits" else TITLE
    members = "roles" if part == "credits" else "titles"
    merged: dict[tuple[Any, ...], tuple[int, dict[str, Any]]] = {}
    for position, each in enumerate(rows, 1):
        try:
            if each.fault:
                raise each.fault
            if position > MAX_CHILDREN:
                raise RowRefused(f"more than {MAX_CHILDREN} rows of one video")
            content = mapped.content(each.row)
            missing = [name for name in REQUIRED[part] if name not in content]
            if missing:
                raise RowRefused(f"the row has no {missing[0]}")
        except RowRefused as refused:
            yield each.number, refused
            continue
        nested = {name: content.pop(name) for name in inner if name in content}
        same = tuple(content.get(name) for name in ("personId", "region", "language"))
        if part == "credits":
            content.setdefault("ordering", position)
        number, whole = merged.setdefault(same, (each.number, content | {members: []}))
        if nested not in whole[members]:
            whole[members].append(nested)
    entity = "Credit" if part == "credits" else "Release"
    for number, content in merged.values():
        try:
            yield number, _line(number, entity, content | {"videoId": video.attributes["videoId"]})
        except RowRefused as refused:
            yield number, refused


def _line(number: int, entity: str, content: Mapping[str, Any]) -> ItemLine:
    return parse_line(number, json.dumps({"entity": entity} | dict(content), default=str).encode())
