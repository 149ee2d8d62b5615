"""Import of a foreign catalogue by a map: maps, conversions, upserts, comparisons, and interrupted runs."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from local import ROOT
from local.testbed.harness import NOW, Api, record_operations
from shared.aws.dynamodb import Table
from shared.core.attributes import Item
from shared.schema import VIDEO
from shared.videos.reservations import find
from tests.integration.faults import Crash, crash_after
from tools import ToolError
from tools.__main__ import main
from tools.imdb import RowRefused
from tools.lines import LineCheckpoint
from tools.mapping import Catalogue, CatalogueMap, Column, child_lines, video_id, video_line
from tools.progress import Bars
from tools.rate_limit import Pool, RateLimiter
from tools.upserting import MappedImport, differing, updated
from tools.work_file import WorkFile

MAP = """
owner = "studio"

[video]
key = "id"
[video.fields]
title = "name"
description = "plot"
duration = { column = "minutes", type = "minutes" }
releaseYear = { column = "released", type = "year" }
tags = { column = "genres", split = "|" }
category = { value = "films" }
visibility = { column = "public", default = "private" }
metadata.studio = "studio"

[credits]
file = "cast.csv"
join = "film"
[credits.fields]
personId = "person"
name = "person_name"
category = { column = "job", default = "actor" }
characters = { column = "part", split = "/" }

[releases]
file = "titles.csv"
join = "film"
[releases.fields]
region = "country"
language = "lang"
title = "title"
"""
FILMS = """id,name,plot,minutes,released,genres,public,studio
1,Harbour at Dawn,"Fog,
and boats",91.5,1999-03-01,drama|sea,public,Tui
2,The Ferry,,,,,,
"""
CAST = """film,person,person_name,job,part
1,p1,Ana,director,
1,p1,Ana,,Eve/Mara
1,p2,Bo,,Tom
2,p1,Ana,writer,
"""
TITLES = """film,country,lang,title
1,NZ,,Harbour at Dawn
1,NZ,mi,Whanga
"""
VERBS = {"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem"}


class Source:
    """Files of a foreign catalogue with a map, imported by `python -m tools import --map` into a table."""

    def __init__(self, table: Table, folder: Path) -> None:
        self.table = table
        self.file, self.map = folder / "films.csv", folder / "map.toml"
        self._folder = folder
        for name, text in {"map.toml": MAP, "films.csv": FILMS, "cast.csv": CAST, "titles.csv": TITLES}.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        """Replace a file in the folder."""
        (self._folder / name).write_text(text, encoding="utf-8")

    def change(self, name: str, old: str, new: str) -> None:
        """Replace a text that occurs once in a file."""
        text = (self._folder / name).read_text(encoding="utf-8")
        assert text.count(old) == 1
        self.write(name, text.replace(old, new))

    def run(self, *, compares: bool = False) -> tuple[dict[str, int], dict[tuple[str, int], str]]:
        """Run the import.

        Return the outcomes, and by file and row the reason and detail of each refused row.
        """
        work = WorkFile(self._folder / "state", {}, None if compares else self.table)
        try:
            MappedImport(
                self.file,
                self.table,
                work,
                CatalogueMap.load(self.map),
                compares=compares,
                rate=RateLimiter(None),
                pool=Pool(1),
                bars=Bars(),
                clock=lambda: NOW,
            ).run()
            outcomes = {name: count for name, count in work.outcomes().get(self.file.name, {}).items() if count}
            refused = {
                (file, row): f"{reason}: {detail}".removesuffix(": ") for file, row, reason, detail in work.refused()
            }
            work.remove()
        finally:
            work.close()
        return outcomes, refused

    def video(self, key: str) -> Item:
        """Return the stored video with this external id."""
        found = find(self.table, "studio", "externalId", key)
        assert found
        return self.table.get(VIDEO.key(videoId=found)) or {}


@pytest.fixture
def source(table: Table, tmp_path: Path) -> Source:
    """Return two videos with credits and releases, and an empty table."""
    return Source(table, tmp_path)


# Maps ----------------------------------------------------------------------------------------------------------------

VALID = {"owner": "o", "video": {"key": "id", "fields": {"title": "name"}}}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("owner =", "is not TOML"),
        ("[video]\nkey = 'id'", "`owner` must be the userId of the videos."),
        ("owner = 'o'\n[films]", "`films` is unknown. A map has owner, video, credits, releases."),
        ("owner = 'o'", "`video` is missing."),
        ("owner = 'o'\nvideo = 1", "`video` must be a table."),
        ("owner = 'o'\n[video]\nfields.title = 'n'", "`video.key` must be the column with the key of the video."),
        ("owner = 'o'\n[video]\nkey = 'id'", "`video.fields` must map fields to columns."),
        ("owner = 'o'\n[video]\nkey = 'id'\nfile = 'f'\nfields.title = 'n'", "`video.file` must be omitted"),
        ("owner = 'o'\n[video]\nkey = 'id'\nfields.slug = 'n'", "`video.fields.title` is missing."),
        ("owner = 'o'\n[video]\nkey = 'id'\nfields.titel = 'n'", "`video.fields.titel` is unknown. The fields are "),
        ("owner = 'o'\n[video]\nkey = 'id'\nfields.videoId = 'n'", "`video.fields.videoId` is unknown."),
        ("owner = 'o'\n[video]\nkey = 'id'\njoin = 'id'\nfields.title = 'n'", "`video.join` is unknown."),
        ("owner = 'o'\n[video]\nkey = 'id'\nfields.title = 1", "`video.fields.title` must be a column, or a table"),
        ("owner = 'o'\n[video]\nkey = 'id'\nfields.title = {}", "`video.fields.title` must have a column or a value."),
        (
            "owner = 'o'\n[video]\nkey = 'id'\nfields.title = { value = 'x', column = 'y' }",
            "`video.fields.title` must have either value or column.",
        ),
        (
            "owner = 'o'\n[video]\nkey = 'id'\nfields.title = { column = 'y', type = 'int' }",
            "`video.fields.title.type` must be one of text, number,",
        ),
        (
            "owner = 'o'\n[video]\nkey = 'id'\nfields.title = { column = 'y', split = '' }",
            '`video.fields.title.split` must be a separator such as "|".',
        ),
        (
            "owner = 'o'\n[video]\nkey = 'id'\nfields.title = 'n'\n[credits]\njoin = 'f'",
            "`credits` must have one of file, table and query.",
        ),
        (
            "owner = 'o'\n[video]\nkey = 'id'\nfields.title = 'n'\n[credits]\njoin = 'f'\nfile = 'f'\ntable = 't'",
            "`credits` must have at most one of file, table and query, as text.",
        ),
        (
            "owner = 'o'\n[video]\nkey = 'id'\nfields.title = 'n'\n[credits]\njoin = 'f'\nfile = 'f'\nfields.personId = 'p'",
            "`credits.fields.category` is missing.",
        ),
    ],
)
def test_bad_map_is_refused_with_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "map.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ToolError) as refused:
        CatalogueMap.load(path)
    assert sentence in str(refused.value)


def test_map_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"map\.toml cannot be read: No such file"):
        CatalogueMap.load(tmp_path / "map.toml")


# Conversions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value", "converted"),
    [
        (Column("c"), " text ", "text"),
        (Column("c"), 12, "12"),
        (Column("c"), "", None),
        (Column("c", default="d"), None, "d"),
        (Column(default=3), "ignored", 3),
        (Column("c", "number"), "12", 12),
        (Column("c", "number"), "1.5", 1.5),
        (Column("c", "boolean"), "Yes", True),
        (Column("c", "boolean"), 0, False),
        (Column("c", "seconds"), "91.5", 91_500),
        (Column("c", "minutes"), 2, 120_000),
        (Column("c", "time"), "1999-03-01T00:00:00Z", 920_246_400),
        (Column("c", "time"), "1999-03-01", 920_246_400),
        (Column("c", "time"), "920246400", 920_246_400),
        (Column("c", "year"), "1999-03-01", 1999),
        (Column("c", split="|"), "a| b ||c", ["a", "b", "c"]),
        (Column("c", "as-is"), ["a"], ["a"]),
    ],
)
def test_column_converts_a_value(column: Column, value: object, converted: object) -> None:
    assert column.value({"c": value}) == converted


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("number", "1,5"),
        ("boolean", "maybe"),
        ("seconds", "1:30"),
        ("minutes", "inf"),
        ("time", "01/03/1999"),
        ("year", "19990"),
    ],
)
def test_value_of_another_type_is_refused(kind: str, value: str) -> None:
    with pytest.raises(RowRefused) as refused:
        Column("c", kind).value({"c": value})
    assert (refused.value.reason, refused.value.detail) == (f"the column c is not of the type {kind}", repr(value))


def test_rows_of_one_person_are_one_credit_and_of_one_region_one_release(source: Source) -> None:
    map_ = CatalogueMap.load(source.map)
    catalogue = Catalogue(source.file, map_)
    assert catalogue.load() == 2
    group = next(catalogue.groups())
    video = video_line(group, map_)
    assert video.attributes == {
        "videoId": video_id("studio", "1"),
        "userId": "studio",
        "externalId": "1",
        "title": "Harbour at Dawn",
        "description": "Fog,\nand boats",
        "duration": 5_490_000,
        "releaseYear": 1999,
        "tags": {"drama", "sea"},
        "category": "films",
        "visibility": "public",
        "metadata": {"studio": "Tui"},
        "status": "ready",
    }
    credits_ = [child.attributes for _, child in child_lines("credits", group.children["credits"], video, map_) if not isinstance(child, RowRefused)]  # fmt: skip
    assert [(each["personId"], each["ordering"], each["roles"]) for each in credits_] == [
        ("p1", 1, [{"category": "director"}, {"category": "actor", "characters": ["Eve", "Mara"]}]),
        ("p2", 3, [{"category": "actor", "characters": ["Tom"]}]),
    ]
    releases = [child.attributes for _, child in child_lines("releases", group.children["releases"], video, map_) if not isinstance(child, RowRefused)]  # fmt: skip
    assert [(each["region"], each.get("language"), each["titles"]) for each in releases] == [
        ("NZ", None, [{"title": "Harbour at Dawn"}]),
        ("NZ", "mi", [{"title": "Whanga"}]),
    ]


def test_checkpoint_depends_on_the_rows_of_all_parts(source: Source) -> None:
    def marks() -> list[LineCheckpoint]:
        catalogue = Catalogue(source.file, CatalogueMap.load(source.map))
        catalogue.load()
        return [group.mark for group in catalogue.groups()]

    before = marks()
    assert before == marks()
    source.change("cast.csv", "2,p1,Ana,writer,", "2,p1,Anna,writer,")
    assert marks()[0] == before[0]
    assert marks()[1] != before[1]


@pytest.mark.parametrize(
    ("given", "stored", "differs"),
    [
        ({"title": "a"}, {"title": "a", "description": "mine"}, []),
        ({"title": "a"}, {"title": "b"}, ["title"]),
        ({}, {"title": "b"}, ["title"]),
        ({"tags": {"a", "b"}}, {"tags": {"b", "a"}}, []),
        ({"metadata": {"studio": "x"}}, {"metadata": {"studio": "y"}}, ["metadata.studio"]),
        ({"metadata": {}}, {"metadata": {"own": "y"}}, []),
    ],
)
def test_comparison_considers_mapped_fields_only(given: Item, stored: Any, differs: list[str]) -> None:
    fields = ["title", "tags", "metadata.studio"]
    assert differing(given, stored, fields) == differs
    assert differing(given, updated(stored, given, fields), fields) == []


def test_update_retains_unmapped_fields_and_metadata() -> None:
    stored: Any = {"title": "old", "description": "mine", "duration": 5, "metadata": {"own": 1, "studio": "x"}}
    assert updated(
        stored, {"title": "new", "duration": 7, "metadata": {}}, ["title", "duration", "metadata.studio"]
    ) == {
        "title": "new",
        "description": "mine",
        "duration": 7,
        "metadata": {"own": 1},
        "origins": {"duration": "import"},
    }


# Imports -------------------------------------------------------------------------------------------------------------


def test_import_creates_videos_with_credits_releases_and_reservations(source: Source, api: Api) -> None:
    assert source.run() == ({"created": 7}, {})
    video = api.get("/v1/external-ids/1", user="studio").json
    assert (video["title"], video["status"], video["visibility"], video["tags"]) == (
        *("Harbour at Dawn", "ready", "public"),
        ["drama", "sea"],
    )
    assert len(api.get(f"/v1/videos/{video['videoId']}/credits", user="studio").json["items"]) == 2
    assert len(api.get(f"/v1/videos/{video['videoId']}/releases", user="studio").json["items"]) == 2
    listed = api.get("/v1/videos", query="category=films&from=1")
    assert [each["videoId"] for each in listed.json["items"]] == [video["videoId"]], listed.json


def test_repeated_import_writes_no_item(source: Source) -> None:
    source.run()
    with record_operations(source.table.client) as operations:
        assert source.run() == ({"unchanged": 7}, {})
    written = [call for call in operations if call.name in VERBS]
    # The import writes and deletes only its checkpoint.
    assert {call.parameters["Key"]["pk"]["S"].partition("#")[0] for call in written} == {"IMPORT"}


def test_changed_rows_update_their_fields_only(source: Source, api: Api) -> None:
    source.run()
    first = source.video("1")
    source.change("films.csv", "Harbour at Dawn,", "Harbour at Dusk,")
    source.change("films.csv", "drama|sea", "sea|fog")
    source.change("cast.csv", "2,p1,Ana,writer,", "2,p1,Ana,composer,")
    assert source.run() == ({"changed": 2, "unchanged": 5}, {})
    video = source.video("1")
    assert (video["videoId"], video["title"], video["tags"]) == (first["videoId"], "Harbour at Dusk", {"sea", "fog"})
    assert video["version"] == first["version"] + 1
    assert [each["videoId"] for each in api.get("/v1/videos", query="tag=fog&from=1").json["items"]] == [
        video["videoId"]
    ]


def test_existing_video_of_the_owner_is_found_by_its_external_id(source: Source, api: Api) -> None:
    own = api.create("studio", externalId="2", title="The Ferry")
    outcomes, refused = source.run()
    assert source.video("2")["videoId"] == own["videoId"]
    assert refused == {("films.csv", 2): "another user has changed it: skipped"}
    assert outcomes == {"created": 6, "skipped": 1}


def test_video_that_a_user_changed_is_skipped_only_if_its_source_changed(source: Source, api: Api) -> None:
    source.run()
    path = f"/v1/videos/{source.video('1')['videoId']}"
    assert api.patch(path, {"title": "Mine"}, user="studio").status == 200
    assert source.run() == ({"unchanged": 7}, {})
    source.change("films.csv", "Tui", "Kea")
    outcomes, refused = source.run()
    assert outcomes == {"unchanged": 6, "skipped": 1}
    assert refused == {("films.csv", 1): "another user has changed it: skipped"}
    assert source.video("1")["title"] == "Mine"


def test_edit_between_read_and_write_is_not_overwritten(
    source: Source, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.run()
    video_id_ = source.video("1")["videoId"]
    source.change("films.csv", "Tui", "Kea")
    take, edits = RateLimiter.take, iter([True])

    def edit(limiter: RateLimiter, items: int) -> None:
        if next(edits, False):
            assert api.patch(f"/v1/videos/{video_id_}", {"title": "Mine"}, user="studio").status == 200
        take(limiter, items)

    monkeypatch.setattr(RateLimiter, "take", edit)
    outcomes, refused = source.run()
    assert refused == {("films.csv", 1): "another user has changed it: skipped"}
    assert outcomes == {"unchanged": 6, "skipped": 1}
    assert (source.video("1")["title"], source.video("1")["metadata"]) == ("Mine", {"studio": "Tui"})


def test_deleted_video_is_neither_changed_nor_restored(source: Source, api: Api) -> None:
    source.run()
    assert api.delete(f"/v1/videos/{source.video('2')['videoId']}", user="studio").status == 204
    _, refused = source.run()
    assert set(refused.values()) == {"its video is deleted: skipped"}
    assert source.video("2")["status"] == "deleted"


@pytest.mark.parametrize(
    ("file", "row", "place", "reason"),
    [
        ("films.csv", ",No key,,,,,,", ("films.csv", 3), "the row has no key"),
        ("films.csv", "3,,,,,,,", ("films.csv", 3), "not a valid Video: /title: "),
        ("films.csv", "3,Long,,long,,,,", ("films.csv", 3), "the column minutes is not of the type minutes: 'long'"),
        ("films.csv", "3,Wrong,,,,,secret,", ("films.csv", 3), "not a valid Video: /visibility: "),
        ("films.csv", "3,Few", ("films.csv", 3), "the row has more or fewer values than columns"),
        ("films.csv", "1,Twice,,,,,,", ("films.csv", 3), "the key occurs twice: 1"),
        ("cast.csv", "9,p1,Ana,writer,", ("cast.csv", 5), "its video is not in the source: 9"),
        ("cast.csv", ",p1,Ana,writer,", ("cast.csv", 5), "the row has no key for its video"),
        ("cast.csv", "1,,Ana,writer,", ("cast.csv", 5), "the row has no personId"),
        ("cast.csv", "1,a/b,Ana,writer,", ("cast.csv", 5), "not a valid Credit: /personId: "),
        ("titles.csv", "1,XX,,Nowhere", ("titles.csv", 3), "not a valid Release: /region: "),
    ],
)
def test_bad_row_is_refused_with_its_reason_and_others_are_imported(
    source: Source, tmp_path: Path, file: str, row: str, place: tuple[str, int], reason: str
) -> None:
    source.write(file, (tmp_path / file).read_text(encoding="utf-8") + row + "\n")
    outcomes, refused = source.run()
    assert outcomes["created"] == 7
    assert list(refused) == [place]
    assert refused[place].startswith(reason)


def test_credits_of_a_refused_video_are_not_written(source: Source) -> None:
    source.change("films.csv", "2,The Ferry", "2,")
    outcomes, refused = source.run()
    assert outcomes == {"created": 5}
    assert list(refused) == [("films.csv", 2)]
    assert find(source.table, "studio", "externalId", "2") is None


@pytest.mark.parametrize(
    ("file", "old", "sentence"),
    [
        ("films.csv", "id,name", "films.csv has no column 'id'; it has film,"),
        ("cast.csv", "film,person,", "cast.csv has no column 'film'; it has "),
    ],
)
def test_missing_column_ends_the_import_before_it_writes(source: Source, file: str, old: str, sentence: str) -> None:
    source.change(file, old, "film,name" if file == "films.csv" else "id,person,")
    with record_operations(source.table.client) as operations, pytest.raises(ToolError) as refused:
        source.run()
    assert sentence in str(refused.value)
    assert not VERBS & {call.name for call in operations}


def test_json_lines_may_lack_columns_and_nest_lists(source: Source, tmp_path: Path) -> None:
    source.change(
        "map.toml", 'tags = { column = "genres", split = "|" }', 'tags = { column = "genres", type = "as-is" }'
    )
    source.file = tmp_path / "films.jsonl"
    rows = [json.dumps({"id": 1, "name": "A", "genres": ["x"]}), "{", "[]", json.dumps({"id": 2, "name": "B"})]
    source.write("films.jsonl", "\n".join(rows))
    _, refused = source.run()
    assert [refused["films.jsonl", row].partition(":")[0] for row in (2, 3)] == [
        *("the line is not JSON", "the line is not a JSON object"),
    ]
    assert (source.video("1")["tags"], "tags" in source.video("2")) == ({"x"}, False)


PAGE = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
ROWS = """
INSERT INTO film VALUES (1, 'Harbour at Dawn', 'Fog', 91, '1999-03-01', 'drama|sea'), (2, 'The Ferry', NULL, NULL, NULL, '');
INSERT INTO appearance VALUES (1, 'p1', 'Ana', 'director', NULL), (1, 'p1', 'Ana', NULL, 'Eve/Mara'), (9, 'p2', 'Bo', NULL, NULL);
INSERT INTO title VALUES (1, 'NZ', 'Harbour at Dawn');
"""


def _block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def test_map_of_the_page_imports_its_tables(source: Source, api: Api, tmp_path: Path) -> None:
    source.file = tmp_path / "films.sqlite"
    with closing(sqlite3.connect(source.file)) as database:
        database.executescript(_block("sql") + ROWS)
    source.write("map.toml", _block("toml"))
    outcomes, refused = source.run()
    assert outcomes == {"created": 4}
    assert refused == {("films.sqlite:credits", 3): "its video is not in the source: 9"}
    video = api.get("/v1/external-ids/1", user="studio").json
    assert (video["duration"], video["releaseYear"], video["metadata"]) == (91 * 60_000, 1999, {"table": "film"})
    credit = api.get(f"/v1/videos/{video['videoId']}/credits/p1").json
    assert [role["category"] for role in credit["roles"]] == ["director", "actor"]
    assert "tags" not in source.video("2")


def test_sqlite_file_needs_a_table_or_a_query(source: Source, tmp_path: Path) -> None:
    source.file = tmp_path / "films.sqlite"
    source.write("map.toml", MAP.partition("[credits]")[0])
    with pytest.raises(ToolError, match="each part of the map needs a table or a query"):
        source.run()


@pytest.mark.parametrize("writes", [0, 1, 2, 3, 5, 7])
def test_interrupted_import_continues_and_ends_like_an_undisturbed_one(
    source: Source, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    with monkeypatch.context() as patched:
        crash_after(writes, patched, "write", "transact")
        with pytest.raises(Crash):
            source.run()
    _, refused = source.run()
    assert refused == {}
    assert source.run() == ({"unchanged": 7}, {})


def test_source_that_changed_after_an_interruption_is_imported_from_its_start(
    source: Source, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tools.importing.LINES_AT_A_TIME", 1)
    with monkeypatch.context() as patched:
        crash_after(8, patched, "write", "transact")
        with pytest.raises(Crash):
            source.run()
    source.change("films.csv", "Tui", "Kea")
    source.run()
    assert source.video("1")["metadata"] == {"studio": "Kea"}


# Comparisons ---------------------------------------------------------------------------------------------------------


def test_comparison_reports_each_difference_and_writes_nothing(source: Source, api: Api) -> None:
    source.run()
    path = f"/v1/videos/{source.video('1')['videoId']}"
    assert api.patch(path, {"title": "Mine", "description": None}, user="studio").status == 200
    assert api.delete(f"{path}/credits/p2", user="studio").status == 204
    role = {"ordering": 9, "roles": [{"category": "editor"}]}
    assert api.put(f"{path}/credits/p7", role, user="studio").status == 201
    assert api.put(f"{path}/credits/p1", role | {"name": "Ana"}, user="studio").status == 200
    source.write("films.csv", FILMS + "3,New,,,,,,\n")
    with record_operations(source.table.client) as operations:
        outcomes, refused = source.run(compares=True)
    assert not VERBS & {call.name for call in operations}
    assert refused == {
        ("films.csv", 1): "differs in the table: 1: title, description, CREDIT#p7 is only in the table",
        ("films.csv", 3): "is missing in the table: 3",
        ("cast.csv", 1): "differs in the table: 1: CREDIT#p1, ordering, roles",
        ("cast.csv", 3): "is missing in the table: 1: CREDIT#p2",
    }
    assert outcomes == {"unchanged": 4}


def test_comparison_after_an_import_finds_no_difference(source: Source) -> None:
    source.run()
    assert source.run(compares=True) == ({"unchanged": 7}, {})


def test_comparison_with_an_empty_table_reports_every_video(source: Source) -> None:
    _, refused = source.run(compares=True)
    assert refused == {("films.csv", row): f"is missing in the table: {row}" for row in (1, 2)}


# Commands ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def command(source: Source, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs `python -m tools import` on the source with further options, and returns the exit
    status."""
    monkeypatch.setattr("tools.__main__.open_table", lambda _: source.table)
    monkeypatch.setattr("tools.__main__.paced", lambda table, _: (table, None))

    def run(*options: str) -> int:
        return main(["import", str(source.file), "--map", str(source.map), "--table", "T", *options])

    return run


def test_follow_repeats_until_a_run_changes_nothing(
    command: Any, source: Source, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = 0
    run = MappedImport.run

    def busy(self: MappedImport) -> None:
        nonlocal runs
        runs += 1
        run(self)
        if runs == 1:  # the old system changes a row during the first run
            source.change("films.csv", "Tui", "Kea")

    monkeypatch.setattr(MappedImport, "run", busy)
    assert command("--follow") == 0
    assert runs == 3
    assert source.video("1")["metadata"] == {"studio": "Kea"}
    assert "Nothing was changed" in capsys.readouterr().out


def test_compare_command_fails_while_there_are_differences(
    command: Any, source: Source, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--compare") == 1
    assert "The table differs from the source." in capsys.readouterr().out
    report = [json.loads(line) for line in (tmp_path / "films.csv.differences.jsonl").read_text().splitlines()]
    assert [(each["file"], each["line"], each["reason"]) for each in report] == [
        ("films.csv", 1, "is missing in the table"),
        ("films.csv", 2, "is missing in the table"),
    ]
    assert command() == 0
    assert command("--compare") == 0
    assert not (tmp_path / "films.csv.differences.jsonl").exists()


@pytest.mark.parametrize("option", ["--compare", "--follow"])
def test_compare_and_follow_need_a_map(source: Source, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(source.file), "--table", "T", option]) == 1
    assert "--compare and --follow require --map." in capsys.readouterr().err
