"""Parser of the IMDb non-commercial datasets, and conversion of rows to the service's models.

The files are tab-separated text without quoting: `"` is an ordinary character, and `\\N` is a null value. See
https://developer.imdb.com/non-commercial-datasets/
"""

import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, TypeVar

from pydantic import TypeAdapter, ValidationError

from shared.core.attributes import Item, Value
from shared.core.errors import ServiceError
from shared.core.fields import Language, line
from shared.core.limits import LAST_EPISODE, LAST_SEASON, LAST_YEAR
from shared.core.regions import language, region
from shared.relations.models import (
    LARGEST_ROLES,
    LARGEST_TITLES,
    MAX_ROLES,
    MAX_TITLES,
    LocalTitle,
    Role,
    content_bytes,
)
from shared.videos.models import VideoContent
from shared.videos.tags import normalise_tag
from shared.web.bodies import Content

NULL = r"\N"
NAMESPACE = uuid.UUID("2f9a6b6e-3c0e-5d57-9d6b-3f1f2c1c7a10")
"""UUID namespace of the videoIds that are derived from IMDb ids. With another value, an import would duplicate all titles."""
CREW_CATEGORIES = ("director", "writer")
"""Categories of title.principals that title.crew also has as columns, in the order of the columns."""
MAX_VOTES = 2**53 - 1
BEHIND_PRINCIPALS = 1000
"""Number that is added to the `ordering` of people who are only in title.crew, so that they sort after the people of
title.principals."""
_TITLE = re.compile(r"tt\d{1,20}", re.ASCII)
_PERSON_ID = re.compile(r"nm\d{1,20}", re.ASCII)
LONGEST_DETAIL = 200


@dataclass(frozen=True)
class Layout:
    """File name and columns of a dataset."""

    file: str
    columns: tuple[str, ...]


def _layout(name: str, columns: str) -> Layout:
    return Layout(f"{name}.tsv.gz", tuple(columns.split()))


BASICS = _layout(
    "title.basics", "tconst titleType primaryTitle originalTitle isAdult startYear endYear runtimeMinutes genres"
)
PRINCIPALS = _layout("title.principals", "tconst ordering nconst category job characters")
CREW = _layout("title.crew", "tconst directors writers")
AKAS = _layout("title.akas", "titleId ordering title region language types attributes isOriginalTitle")
EPISODES = _layout("title.episode", "tconst parentTconst seasonNumber episodeNumber")
RATINGS = _layout("title.ratings", "tconst averageRating numVotes")
NAMES = _layout("name.basics", "nconst primaryName birthYear deathYear primaryProfession knownForTitles")


def path_of(folder: Path, layout: Layout) -> Path:
    """Return the path of a dataset's file in a folder: the gzip file, or the plain file if only that exists."""
    packed = folder / layout.file
    plain = packed.with_suffix("")
    return plain if plain.exists() and not packed.exists() else packed


class RowRefused(Exception):
    """Error for a row that cannot be imported.

    `reason` is the same for all rows with the same fault. `detail` contains the invalid value of this row.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail[:LONGEST_DETAIL]


@dataclass(frozen=True)
class Row:
    """A row of a dataset: the line number, from 1, and the values of the columns, `None` for `\\N`."""

    line: int
    values: tuple[str | None, ...]

    @property
    def id(self) -> str:
        """Id of the row's title or person, from the first column."""
        return self.values[0] or ""


def parse_row(number: int, content: bytes | None, layout: Layout) -> Row:
    """Parse a line. `content` is `None` if the line is too long. Raises RowRefused if the line is invalid."""
    if content is None:
        raise RowRefused("the line is too long")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise RowRefused("the line is not UTF-8", f"at byte {error.start + 1}") from error
    values = text.split("\t")
    if len(values) != len(layout.columns):
        raise RowRefused("wrong number of columns", f"{len(values)}, not {len(layout.columns)}")
    if values[0] in ("", NULL):
        raise RowRefused(f"no {layout.columns[0]}")
    return Row(number, tuple(None if value == NULL else value for value in values))


def video_id(title_id: str) -> str:
    """Return the videoId for a title id such as `tt0000001`. The same title always has the same videoId."""
    return str(uuid.uuid5(NAMESPACE, title_id))


def created_at(year: int | None) -> int:
    """Return the start of a year in UTC, in epoch seconds; 0 before 1970 or without a year."""
    return max(0, int(datetime(year, 1, 1, tzinfo=UTC).timestamp())) if year else 0


def digest(content: Item) -> str:
    """Return a digest of imported content, as 16 hexadecimal digits."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def episode_of(row: Row) -> tuple[str, Item]:
    """Return the title id of an episode, and the video fields for its series, season and number.

    `row` is from title.episode. Raises RowRefused if the row is invalid.
    """
    title_id, series, season, number = row.values
    place = {
        "seriesId": video_id(_identifier(_TITLE, series, "parentTconst", "tt")),
        "season": _number(season, "seasonNumber", LAST_SEASON),
        "episode": _number(number, "episodeNumber", LAST_EPISODE),
    }
    title = _identifier(_TITLE, title_id, "tconst", "tt")
    return title, {name: value for name, value in place.items() if value is not None}


def video_content(row: Row, place: Mapping[str, Value] = MappingProxyType({})) -> Item:
    """Return the content of a video from a row of title.basics. Raises RowRefused if the row is invalid.

    `place` has the video's fields for its series, season and episode number. The field `tags` of the result is a list.
    """
    title_id, kind, title, original, adult, start, end, minutes, genres = row.values
    _identifier(_TITLE, title_id, "tconst", "tt")
    if kind is None or title is None:
        raise RowRefused("no titleType" if kind is None else "no primaryTitle")
    duration = _number(minutes, "runtimeMinutes")
    tags = list({normalise_tag(tag): tag for tag in reversed((genres or "").split(",")) if tag}.values())[::-1]
    metadata = {
        "imdbId": title_id,
        "titleType": kind,
        "originalTitle": original if original != title else None,
        "isAdult": _flag(adult, "isAdult") or None,
        "endYear": _number(end, "endYear", LAST_YEAR),
    }
    content = {
        "title": title,
        "duration": None if duration is None else duration * 60_000,
        "releaseYear": _number(start, "startYear", LAST_YEAR),
        "category": tags[0] if tags else None,
        "tags": tags or None,
        "visibility": "public",
        "metadata": {name: value for name, value in metadata.items() if value is not None},
    }
    given = {name: value for name, value in content.items() if value is not None} | dict(place)
    _checked(VideoContent, given)
    return given


@dataclass(frozen=True)
class Relation:
    """Content of one credit or release, merged from one or more rows."""

    line: int
    """Line number of the first row."""
    parts: tuple[tuple[str, str], ...]
    """Names and values of the key fields without `videoId`: `personId` for a credit, `region` and `language` for a
    release."""
    content: Item
    rows: int


Refuse = Callable[[int, RowRefused], None]
"""Callback that receives the line number of a refused row, and the reason."""


def credits_of(rows: Iterable[Row], name_of: Callable[[str], str | None], refuse: Refuse) -> list[Relation]:
    """Return the credits of a title, one per person, from rows of title.principals.

    `name_of` returns a person's name by id. Calls `refuse` for each invalid row.
    """

    def read(row: Row) -> tuple[str, tuple[int, Item]]:
        _, ordering, person, category, job, characters = row.values
        person_id = _identifier(_PERSON_ID, person, "nconst", "nm")
        place = _number(ordering, "ordering", 100_000)
        if not place:
            raise RowRefused("ordering is not a number from 1 to 100000", ordering or NULL)
        role = {"category": category, "job": job, "characters": _strings(characters)}
        _checked(Role, role)
        return person_id, (place, {name: value for name, value in role.items() if value is not None})

    relations = []
    for person_id, first, entries in _grouped(rows, read, MAX_ROLES, LARGEST_ROLES, "roles of one person", refuse):
        entries.sort(key=lambda entry: entry[0])
        content: Item = {"ordering": entries[0][0], "roles": [role for _, role in entries]}
        if name := name_of(person_id):
            content["name"] = name
        relations.append(Relation(first, (("personId", person_id),), content, len(entries)))
    return relations


def crew_of(row: Row, name_of: Callable[[str], str | None], refuse: Refuse) -> list[Relation]:
    """Return the directors and writers of a title as credits, from a row of title.crew. A person has one role per
    category.

    `name_of` returns a person's name by id. Calls `refuse` for each invalid id.
    """
    people: dict[str, list[Item]] = {}
    for category, listed in zip(CREW_CATEGORIES, row.values[1:], strict=True):
        for person in dict.fromkeys((listed or "").split(",")):
            try:
                if person:
                    role = {"category": category, "characters": []}
                    people.setdefault(_identifier(_PERSON_ID, person, "nconst", "nm"), []).append(role)
            except RowRefused as refused:
                refuse(row.line, refused)
    relations = []
    for place, (person_id, roles) in enumerate(people.items(), BEHIND_PRINCIPALS + 1):
        content: Item = {"ordering": place, "roles": roles}
        if name := name_of(person_id):
            content["name"] = name
        relations.append(Relation(row.line, (("personId", person_id),), content, 1))
    return relations


def with_roles(roles: list[Item], more: Iterable[Item]) -> list[Item]:
    """Return `roles`, followed by the roles in `more` whose categories do not occur in `roles`.

    Raises RowRefused if the result is too large for a credit.
    """
    known = {role["category"] for role in roles}
    together = [*roles, *(role for role in more if role["category"] not in known)]
    if len(together) > MAX_ROLES or content_bytes(together) > LARGEST_ROLES:
        raise RowRefused("more roles of one person than a credit takes")
    return together


def releases_of(rows: Iterable[Row], refuse: Refuse) -> list[Relation]:
    """Return the releases of a title from rows of title.akas, one per region and language.

    Calls `refuse` for each invalid row.
    """

    def read(row: Row) -> tuple[tuple[str, str], tuple[tuple[bool, int], Item]]:
        _, ordering, title, region_code, tag, types, attributes, _ = row.values
        if region_code is None:
            raise RowRefused("no region")
        where = region(region_code)
        if where is None:
            raise RowRefused("the region does not exist", region_code)
        spoken = "-" if tag is None else language(str(_valid(_LANGUAGE, tag, "language")))
        place = _number(ordering, "ordering")
        if place is None:
            raise RowRefused("ordering is not a number", NULL)
        kinds = _list(types)
        local = {"title": title, "types": kinds, "attributes": _list(attributes)}
        _checked(LocalTitle, local)
        # IMDb's display title sorts first, because it is the most common one.
        return (where, spoken), (("imdbDisplay" not in kinds, place), local)

    # The original title has no region, and is already the video's title.
    of_regions = [row for row in rows if row.values[3] is not None or not _is_original(row, refuse)]
    releases = []
    what = "titles in one region"
    for (where, spoken), first, entries in _grouped(of_regions, read, MAX_TITLES, LARGEST_TITLES, what, refuse):
        entries.sort(key=lambda entry: entry[0])
        parts = (("region", where), ("language", spoken))
        releases.append(Relation(first, parts, {"titles": [local for _, local in entries]}, len(entries)))
    return releases


def rating_of(row: Row) -> Item:
    """Return the average and the number of votes from a row of title.ratings. Raises RowRefused if the row is invalid."""
    _, average, votes = row.values
    if average is None or not re.fullmatch(r"-?\d{1,40}(\.\d{1,40})?", average, re.ASCII):
        raise RowRefused("averageRating is not a number", average or NULL)
    if not 1 <= float(average) <= 10:
        raise RowRefused("averageRating is not from 1 to 10", average)
    count = _number(votes, "numVotes", MAX_VOTES)
    if count is None:
        raise RowRefused("numVotes is not a number", NULL)
    return {"average": float(average), "votes": count}


def person_of(row: Row) -> tuple[str, str]:
    """Return the id and name of a person from a row of name.basics. Raises RowRefused if the row is invalid."""
    return _identifier(_PERSON_ID, row.values[0], "nconst", "nm"), str(_valid(_PERSON, row.values[1], "primaryName"))


_LANGUAGE: TypeAdapter[str] = TypeAdapter(Language)
_PERSON: TypeAdapter[str] = TypeAdapter(Annotated[str, line(200)])

_Kind = TypeVar("_Kind")
_Place = TypeVar("_Place")


def _grouped(
    rows: Iterable[Row],
    read: Callable[[Row], tuple[_Kind, tuple[_Place, Item]]],
    most: int,
    largest: int,
    what: str,
    refuse: Refuse,
) -> list[tuple[_Kind, int, list[tuple[_Place, Item]]]]:
    """Group rows by the key that `read` returns. Return the key, first line number and entries of each group.

    `read` returns the key and the entry of a row. A group has at most `most` entries and `largest` bytes. Calls
    `refuse` for each row that is invalid, or that would exceed these limits. `what` is the noun for the entries in the
    text of a refusal.
    """
    groups: dict[_Kind, tuple[int, list[tuple[_Place, Item]]]] = {}
    for row in rows:
        try:
            about, entry = read(row)
            first, entries = groups.get(about, (row.line, []))
            if len(entries) == most:
                raise RowRefused(f"more than {most} {what}")
            entries = [*entries, entry]
            if content_bytes([content for _, content in entries]) > largest:
                raise RowRefused(f"more than {largest} bytes of {what}")
            groups[about] = (first, entries)
        except RowRefused as refused:
            refuse(row.line, refused)
    return [(about, first, entries) for about, (first, entries) in groups.items()]


def _is_original(row: Row, refuse: Refuse) -> bool:
    try:
        return _flag(row.values[7], "isOriginalTitle")
    except RowRefused as refused:
        refuse(row.line, refused)
        return True


def _number(value: str | None, column: str, largest: int = 10_000_000) -> int | None:
    if value is None:
        return None
    if re.fullmatch(r"-\d+", value, re.ASCII):
        raise RowRefused(f"{column} is negative", value)
    if not re.fullmatch(r"\d+", value, re.ASCII):
        raise RowRefused(f"{column} is not a number", value)
    # Python raises ValueError for integers of thousands of digits.
    if len(value.lstrip("0")) > len(str(largest)) or int(value.lstrip("0") or "0") > largest:
        raise RowRefused(f"{column} is too large", value)
    return int(value)


def _identifier(form: re.Pattern[str], value: str | None, column: str, prefix: str) -> str:
    if value is None or not form.fullmatch(value):
        raise RowRefused(f"{column} is not {prefix} and digits", value or NULL)
    return value


def _flag(value: str | None, column: str) -> bool:
    if value not in ("0", "1", None):
        raise RowRefused(f"{column} is neither 0 nor 1", value)
    return value == "1"


def _list(value: str | None) -> list[str]:
    return value.split("\x02") if value else []


def _strings(value: str | None) -> list[str]:
    if value is None:
        return []
    try:
        strings = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise RowRefused("characters is not a JSON array", value) from error
    if not isinstance(strings, list) or not all(isinstance(part, str) for part in strings):
        raise RowRefused("characters is not a JSON array of strings", value)
    return strings


def _checked(model: type[Content], content: Item) -> None:
    try:
        model.parse(json.dumps(content).encode())
    except ServiceError as error:
        first = error.errors[0] if error.errors else {"pointer": "", "detail": error.detail}
        field = first["pointer"].split("/")[1] if first["pointer"] else "the row"
        raise RowRefused(f"{field} is not valid", f"{first['pointer']}: {first['detail']}") from error


def _valid(adapter: TypeAdapter[str], value: str | None, column: str) -> str:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise RowRefused(f"{column} is not valid", value or NULL) from error
