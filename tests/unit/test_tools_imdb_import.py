"""The import of IMDb files: converted rows, invalid rows and files, and interrupted imports."""

import gzip
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from local.testbed.harness import NOW, Api, Clock
from shared.aws.dynamodb import Table
from shared.background.aggregates import Aggregates
from shared.core.attributes import Item, decode_item
from shared.core.caller import UPDATED_FOR
from shared.relations.children import children_of
from shared.relations.models import MAX_ROLES
from shared.schema import RATING_TOTALS, VIDEO
from tests.integration.contents import items_of
from tests.integration.faults import Crash, crash_after
from tests.rating_totals import settle_ratings
from tools import ToolError
from tools.generator import generate
from tools.imdb import AKAS, BASICS, CREW, EPISODES, NAMES, PRINCIPALS, RATINGS, Layout, created_at, video_id
from tools.imdb_import import ImdbImport, Selection
from tools.lines import Corrupt, Damaged
from tools.progress import Advance, Bars
from tools.rate_limit import Pool, RateLimiter
from tools.work_file import WorkFile, write_report

TITLES = 6
EVERYTHING = Selection()
LAYOUTS = (BASICS, PRINCIPALS, AKAS, RATINGS, NAMES)
TITLE_ROW = ("tt1", "movie", 'The "Last" River', "Der letzte Fluß", "0", "1999", r"\N", "90", "Drama,War")


class Watched(Bars):
    """Progress bars that record the total and every position, by title."""

    def __init__(self) -> None:
        super().__init__(Console(file=io.StringIO()))
        self.totals: dict[str, int | None] = {}
        self.moves: dict[str, list[int]] = {}

    @contextmanager
    def bar(self, title: str, total: int | None, *, counted: bool = False) -> Iterator[Advance]:
        """Record the total and the progress without displaying them."""
        self.totals[title] = total
        yield self.moves.setdefault(title, []).append


class Importer:
    """Import of a folder into a table, as `python -m tools import-imdb` runs it."""

    def __init__(self, table: Table, folder: Path) -> None:
        self.table = table
        self.bars = Watched()
        self.folder = folder
        self.state = folder / "state"
        self.rejects = folder / "rejects.jsonl"

    def write(self, layout: Layout, rows: Sequence[Sequence[str]], *, ending: bytes = b"") -> Path:
        """Write one of the files, and return its path. `ending` is appended unchanged."""
        lines = ["\t".join(row) for row in (layout.columns, *rows)]
        content = "".join(f"{line}\n" for line in lines).encode() + ending
        path = self.folder / layout.file
        path.write_bytes(gzip.compress(content, mtime=0))
        return path

    def write_all(self, files: Mapping[Layout, Sequence[Sequence[str]]]) -> None:
        """Write every file that an import needs. A file that is not in `files` gets no rows."""
        for layout in {*LAYOUTS, *files}:
            self.write(layout, files.get(layout, ()))

    def unpack(self) -> None:
        """Replace all written files by uncompressed files."""
        for packed in self.folder.glob("*.tsv.gz"):
            packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
            packed.unlink()

    def run(self, selection: Selection = EVERYTHING) -> dict[str, dict[str, int]]:
        """Run an import, and return the outcomes by file. Rejected rows are written to `rejects`."""
        # One thread, because moto copies all its tables for each transaction, and restores the copy if the transaction
        # fails.
        work = WorkFile(self.state, {"types": sorted(selection.types)}, self.table)
        try:
            ImdbImport(
                self.folder,
                self.table,
                work,
                selection,
                rate=RateLimiter(None),
                pool=Pool(1),
                bars=self.bars,
                clock=lambda: NOW,
            ).run()
            outcomes = work.outcomes()
            write_report(work, self.rejects)
            work.remove()
        finally:
            work.close()
        return outcomes

    @property
    def refused(self) -> list[tuple[str, int, str]]:
        """Return file, line and reason of every row that the last run refused."""
        if not self.rejects.exists():
            return []
        entries = [json.loads(line) for line in self.rejects.read_text(encoding="utf-8").splitlines()]
        return [(entry["file"], entry["line"], entry["reason"]) for entry in entries]

    def children(self, title: str, prefix: str) -> list[Item]:
        """Return the child items of a title's video whose sort keys have this prefix."""
        return children_of(self.table, video_id(title), prefix, limit=1000).items

    def video(self, title: str) -> Item | None:
        """Return the video of a title, or `None`."""
        return self.table.get(VIDEO.key(videoId=video_id(title)))


@pytest.fixture
def imdb(table: Table, tmp_path: Path) -> Importer:
    """Return an importer with an empty folder."""
    return Importer(table, tmp_path)


def contents(table: Table) -> dict[tuple[str, str], Item]:
    """Return all items by key, without the attributes that name the author, time and change set of the write."""
    items: dict[tuple[str, str], Item] = {}
    for page in table.client.get_paginator("scan").paginate(TableName=table.name):
        for raw in page["Items"]:
            item = {name: value for name, value in raw.items() if name not in ("writeId", "updatedAt", UPDATED_FOR)}
            items[raw["pk"]["S"], raw["sk"]["S"]] = item
    return items


def change_sets(table: Table) -> set[str | None]:
    """Return the change set ids of all items of videos."""
    pages: Any = table.client.get_paginator("scan").paginate(TableName=table.name)
    items = [decode_item(raw) for page in pages for raw in page["Items"]]
    return {item.get(UPDATED_FOR) for item in items if item["pk"].startswith("VIDEO#")}


def test_writes_of_each_import_are_one_change_set(imdb: Importer, api: Api, table: Table) -> None:
    imdb.write_all({BASICS: [TITLE_ROW]})
    imdb.run()
    (first,) = change_sets(table)
    assert first is not None
    assert re.fullmatch(r"import-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", first)
    imdb.run()
    assert change_sets(table) == {first}
    imdb.write_all({BASICS: [("tt1", "movie", "The Last Lake", *TITLE_ROW[3:])]})
    imdb.run()
    (second,) = {item[UPDATED_FOR] for item in items_of(table) if item["sk"] == "#META"}
    assert second != first


def test_a_title_becomes_a_video(imdb: Importer, api: Api) -> None:
    imdb.write_all({BASICS: [TITLE_ROW]})
    assert imdb.run()["title.basics.tsv.gz"] == {"created": 1}
    document = api.get(f"/v1/videos/{video_id('tt1')}").json
    fields = {name: document[name] for name in ("title", "duration", "releaseYear", "category", "tags", "userId")}
    assert fields == {
        "title": 'The "Last" River',
        "duration": 90 * 60_000,
        "releaseYear": 1999,
        "category": "Drama",
        "tags": ["Drama", "War"],
        "userId": "imdb",
    }
    assert (document["status"], document["visibility"]) == ("ready", "public")
    assert document["createdAt"] == NOW
    assert document["origins"] == {"duration": "import"}
    assert document["metadata"] == {"imdbId": "tt1", "titleType": "movie", "originalTitle": "Der letzte Fluß"}
    assert "importDigest" not in document


def test_a_video_is_found_by_its_tags(imdb: Importer, api: Api) -> None:
    imdb.write_all({BASICS: [TITLE_ROW]})
    imdb.run()
    assert [video["videoId"] for video in api.get("/v1/videos", query="tag=war").json["items"]] == [video_id("tt1")]


def test_newest_videos_are_the_last_created_and_not_the_latest_released(imdb: Importer, api: Api) -> None:
    imdb.write_all({BASICS: [(*TITLE_ROW[:5], "2031", *TITLE_ROW[6:])]})
    imdb.run()
    api.clock.advance(60)
    own = api.publish("alice", releaseYear=1980)["videoId"]
    assert [video["videoId"] for video in api.get("/v1/videos").json["items"]] == [own, video_id("tt1")]


def test_videos_can_be_dated_by_their_release_year(imdb: Importer, api: Api) -> None:
    imdb.write_all({BASICS: [TITLE_ROW]})
    imdb.run(Selection(dated_by_release=True))
    document = api.get(f"/v1/videos/{video_id('tt1')}").json
    assert (document["createdAt"], document["releaseYear"]) == (915_148_800, 1999)
    assert document["createdAt"] == created_at(1999)


def test_a_title_without_a_year_or_from_before_1970_is_created_at_0() -> None:
    assert created_at(None) == 0
    assert created_at(1894) == 0


def test_rows_of_one_person_become_one_credit(imdb: Importer) -> None:
    imdb.write_all(
        {
            BASICS: [TITLE_ROW],
            NAMES: [("nm1", "Ada Çelik", "1970", r"\N", "actor", "tt1")],
            PRINCIPALS: [
                ("tt1", "2", "nm1", "writer", "screenplay", r"\N"),
                ("tt1", "1", "nm1", "actress", r"\N", '["Eve \\"E\\"","Zoë"]'),
                ("tt1", "3", "nm2", "director", r"\N", r"\N"),
            ],
        }
    )
    assert imdb.run()["title.principals.tsv.gz"] == {"created": 2}
    first, second = imdb.children("tt1", "CREDIT#")
    assert (first["name"], first["ordering"]) == ("Ada Çelik", 1)
    assert first["roles"] == [
        {"category": "actress", "characters": ['Eve "E"', "Zoë"]},
        {"category": "writer", "job": "screenplay", "characters": []},
    ]
    assert (first["rel"], first["relShard"], first["relSort"]) == ("PERSON#nm1", 0, 1999)
    assert (second["personId"], "name" in second) == ("nm2", False)


CREWED = Selection(parts=frozenset({"credits", "crew"}))


def test_directors_and_writers_are_credits(imdb: Importer) -> None:
    imdb.write_all(
        {
            BASICS: [TITLE_ROW],
            PRINCIPALS: [
                ("tt1", "1", "nm1", "director", r"\N", r"\N"),
                ("tt1", "2", "nm2", "actor", r"\N", '["Ada"]'),
                ("tt1", "3", "nm2", "writer", "story", r"\N"),
            ],
            CREW: [("tt1", "nm1,nm2,nm3", "nm2,nm4,nm3"), ("tt2", "nm1", r"\N")],
            NAMES: [("nm3", "Ida Rey", r"\N", r"\N", r"\N", r"\N")],
        }
    )
    assert imdb.run(CREWED)["title.crew.tsv.gz"] == {"unchanged": 1, "changed": 1, "created": 2, "of no title": 1}
    fields = {
        credit["personId"]: (credit["ordering"], [role["category"] for role in credit["roles"]])
        for credit in imdb.children("tt1", "CREDIT#")
    }
    assert fields == {
        "nm1": (1, ["director"]),
        "nm2": (2, ["actor", "writer", "director"]),
        "nm3": (1003, ["director", "writer"]),
        "nm4": (1004, ["writer"]),
    }
    second = imdb.run(CREWED)
    assert [second[layout.file].keys() for layout in (PRINCIPALS, CREW)] == [
        {"unchanged"},
        {"unchanged", "of no title"},
    ]
    assert imdb.children("tt1", "CREDIT#nm3")[0]["name"] == "Ida Rey"


def test_invalid_crew_is_refused_and_other_crew_is_imported(imdb: Importer) -> None:
    most = [("tt1", str(n), "nm3", "self", str(n), r"\N") for n in range(1, MAX_ROLES + 1)]
    imdb.write_all({BASICS: [TITLE_ROW], PRINCIPALS: most, CREW: [("tt1", "nm1,x", "nm2"), ("tt1", "nm9", r"\N")]})
    imdb.run(CREWED)
    assert imdb.refused == [
        ("title.crew.tsv.gz", 2, "nconst is not nm and digits"),
        ("title.crew.tsv.gz", 3, "the title occurs twice"),
    ]
    imdb.write(CREW, [("tt1", "nm3", r"\N")])
    imdb.run(CREWED)
    assert imdb.refused == [("title.crew.tsv.gz", 2, "more roles of one person than a credit takes")]
    assert [credit["personId"] for credit in imdb.children("tt1", "CREDIT#")] == ["nm1", "nm2", "nm3"]


def test_a_series_has_its_episodes_in_order(imdb: Importer, api: Api) -> None:
    series, absent = ("tt1", "tvSeries", *TITLE_ROW[2:]), r"\N"
    numbered = {"tt2": ("2", "1"), "tt3": ("1", "10"), "tt4": (absent, absent), "tt5": ("1", "2"), "tt6": ("1", absent)}
    imdb.write_all(
        {
            BASICS: [series, *((title, "tvEpisode", title, title, *TITLE_ROW[4:]) for title in numbered)],
            EPISODES: [(title, "tt1", *numbers) for title, numbers in numbered.items()] + [("tt7", "tt1", "x", "1")],
        }
    )
    outcomes = imdb.run(Selection(parts=frozenset({"episodes"})))
    assert outcomes[EPISODES.file] == {"read": 5}
    assert imdb.refused == [(EPISODES.file, 7, "seasonNumber is not a number")]
    items = api.get(f"/v1/videos/{video_id('tt1')}/episodes").json["items"]
    assert [(item["video"]["title"], item.get("season"), item.get("episode")) for item in items] == [
        ("tt5", 1, 2),
        ("tt3", 1, 10),
        ("tt6", 1, None),
        ("tt2", 2, 1),
        ("tt4", None, None),
    ]
    imdb.write(EPISODES, [("tt2", "tt1", "1", "1")])
    second = imdb.run(Selection(parts=frozenset({"episodes"})))
    assert second[BASICS.file] == {"unchanged": 1, "changed": 5}
    items = api.get(f"/v1/videos/{video_id('tt1')}/episodes").json["items"]
    assert [item["video"]["title"] for item in items] == ["tt2"]


def test_partial_import_keeps_items_of_the_omitted_parts(imdb: Importer) -> None:
    imdb.write_all(
        {
            BASICS: [TITLE_ROW, ("tt2", "tvEpisode", "One", "One", *TITLE_ROW[4:])],
            EPISODES: [("tt2", "tt1", "1", "1")],
            PRINCIPALS: [("tt1", "1", "nm1", "actor", r"\N", r"\N")],
            CREW: [("tt1", r"\N", "nm1")],
        }
    )
    every = CREWED.parts | {"episodes"}
    imdb.run(Selection(parts=every))
    before = imdb.children("tt1", "CREDIT#"), imdb.children("tt2", "SERIES")
    assert all(before)
    imdb.run(Selection(parts=every - {"crew", "episodes"}))
    assert [[_content(item) for item in items] for items in before] == [
        [_content(item) for item in items]
        for items in (imdb.children("tt1", "CREDIT#"), imdb.children("tt2", "SERIES"))
    ]


def _content(item: Item) -> Item:
    """Return an entry or credit without the attributes that name the author and time of the write."""
    return {name: item[name] for name in ("pk", "sk", "rel", "relSort", "roles") if name in item}


def test_rows_of_one_region_and_language_become_one_release(imdb: Importer) -> None:
    imdb.write_all(
        {
            BASICS: [TITLE_ROW],
            AKAS: [
                ("tt1", "1", "Der letzte Fluß", r"\N", r"\N", "original", r"\N", "1"),
                ("tt1", "2", "Working", "NZ", "en", "working\x02tv", "literal title", "0"),
                ("tt1", "3", "The Last River", "NZ", "en", "imdbDisplay", r"\N", "0"),
                ("tt1", "4", "Река", "SUHH", r"\N", r"\N", r"\N", "0"),
            ],
        }
    )
    assert imdb.run()["title.akas.tsv.gz"] == {"created": 2}
    zealand, soviet = imdb.children("tt1", "RELEASE#")
    assert (zealand["region"], zealand["language"], zealand["rel"]) == ("NZ", "en", "REGION#NZ")
    assert zealand["titles"] == [
        {"title": "The Last River", "types": ["imdbDisplay"], "attributes": []},
        {"title": "Working", "types": ["working", "tv"], "attributes": ["literal title"]},
    ]
    assert (soviet["region"], "language" in soviet) == ("SUHH", False)
    assert imdb.refused == []


def test_imported_ratings_are_stored_separately_from_own_votes(imdb: Importer, api: Api) -> None:
    imdb.write_all({BASICS: [TITLE_ROW], RATINGS: [("tt1", "7.6", "1234")]})
    imdb.run()
    api.put(f"/v1/videos/{video_id('tt1')}/rating", {"value": 4})
    settle_ratings(imdb.table)
    imdb.write(RATINGS, [("tt1", "7.7", "1240")])
    assert imdb.run()["title.ratings.tsv.gz"] == {"changed": 1}
    rating = api.get(f"/v1/videos/{video_id('tt1')}/rating").json
    assert (rating["average"], rating["votes"], rating["imported"]) == (4, 1, {"average": 7.7, "votes": 1240})


def test_titles_are_selected_by_type_and_year(imdb: Importer) -> None:
    def title(number: int, kind: str, year: str) -> Sequence[str]:
        return (f"tt{number}", kind, "T", "T", "0", year, r"\N", r"\N", r"\N")

    imdb.write_all(
        {
            BASICS: [
                title(1, "movie", "1989"),
                title(2, "movie", "1990"),
                title(3, "short", "1995"),
                title(4, "movie", "1999"),
                title(5, "movie", "2000"),
                title(6, "movie", r"\N"),
            ],
            PRINCIPALS: [(f"tt{n}", "1", "nm1", "self", r"\N", r"\N") for n in range(1, 7)],
        }
    )
    outcomes = imdb.run(Selection(types=frozenset({"movie", "video"}), from_year=1990, to_year=1999))
    assert [n for n in range(1, 7) if imdb.video(f"tt{n}")] == [2, 4]
    types = {"of type movie": 5, "of type short": 1}
    assert outcomes["title.basics.tsv.gz"] == {"created": 2, "not selected": 4} | types
    assert outcomes["title.principals.tsv.gz"] == {"created": 2, "of no title": 4}
    assert imdb.refused == []


def test_rows_of_unknown_titles_are_counted_and_not_listed(imdb: Importer) -> None:
    refused = ("tt2", "movie", "x" * 301, *TITLE_ROW[3:])
    titles = ("tt1", "tt2", "tt3", "no title")
    imdb.write_all(
        {
            BASICS: [TITLE_ROW, refused],
            PRINCIPALS: [(title, str(n), "nm1", "self", r"\N", r"\N") for title in titles for n in (1, 2)],
            AKAS: [(title, "1", "T", "NZ", r"\N", r"\N", r"\N", "0") for title in titles],
            RATINGS: [(title, "5.0", "5") for title in titles],
        }
    )
    outcomes = imdb.run()
    assert [outcomes[layout.file]["of no title"] for layout in (PRINCIPALS, AKAS, RATINGS)] == [6, 3, 3]
    assert imdb.refused == [("title.basics.tsv.gz", 3, "title is not valid")]


def test_rows_not_selected_are_counted_once_when_an_import_resumes(
    imdb: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(title, "1", "nm1", "self", r"\N", r"\N") for title in ("tt2", "tt1", "tt3")]
    imdb.write_all({BASICS: [TITLE_ROW], PRINCIPALS: rows})
    with monkeypatch.context() as patched:
        crash_after(1, patched, "write", "transact")
        with pytest.raises(Crash):
            imdb.run()
    assert imdb.run()["title.principals.tsv.gz"] == {"created": 1, "of no title": 2}


def test_invalid_rows_are_refused_with_a_reason_and_other_rows_are_imported(imdb: Importer) -> None:
    good = ["tt9", "movie", "Good", "Good", "0", "2000", r"\N", "5", "Drama"]

    def bad(column: int, value: str) -> list[str]:
        return [*good[:column], value, *good[column + 1 :]]

    imdb.write_all(
        {
            BASICS: [
                TITLE_ROW,
                ["tt9", "movie", "Good"],
                [*good, "more"],
                bad(5, "19x9"),
                bad(5, "0"),
                bad(7, "99999999"),
                bad(4, "2"),
                bad(2, "x" * 301),
                bad(2, r"\N"),
                bad(8, "x" * 101),
                bad(0, r"\N"),
                bad(0, "nm9"),
                bad(7, "-5"),
                bad(7, "1" * 5000),
                good,
                good,
            ],
            PRINCIPALS: [
                ("tt1", "1", "nm1", "actor", r"\N", '["Eve'),
                ("tt1", "2", "nm1", "actor", r"\N", '{"a": 1}'),
                ("tt1", "x", "nm1", "actor", r"\N", r"\N"),
                ("tt1", "4", "nm 1", "actor", r"\N", r"\N"),
                ("tt1", "5", "nm1", r"\N", r"\N", r"\N"),
                ("tt1", "6", "nm1", "director", r"\N", r"\N"),
                ("tt9", "1", "nm1", "director", r"\N", r"\N"),
                ("tt1", "7", "nm1", "writer", r"\N", r"\N"),
            ],
            AKAS: [
                ("tt1", "1", "T", "QQ", r"\N", r"\N", r"\N", "0"),
                ("tt1", "2", "T", r"\N", r"\N", r"\N", r"\N", "0"),
                ("tt1", "3", "T", r"\N", r"\N", r"\N", r"\N", "1"),
                ("tt1", "4", "T", "NZ", "not a language", r"\N", r"\N", "0"),
                *(("tt1", str(n), "T", "NZ", r"\N", r"\N", r"\N", "0") for n in range(5, 26)),
            ],
            RATINGS: [("tt1", "-110.5", "5"), ("tt9", "high", "5"), ("tt9", "5.5", "5")],
            NAMES: [("nm1", "", r"\N", r"\N", r"\N", r"\N"), ("tt1", "Ada", r"\N", r"\N", r"\N", r"\N")],
        }
    )
    imdb.run()
    assert imdb.refused == [
        ("name.basics.tsv.gz", 2, "primaryName is not valid"),
        ("name.basics.tsv.gz", 3, "nconst is not nm and digits"),
        ("title.akas.tsv.gz", 2, "the region does not exist"),
        ("title.akas.tsv.gz", 3, "no region"),
        ("title.akas.tsv.gz", 5, "language is not valid"),
        ("title.akas.tsv.gz", 26, "more than 20 titles in one region"),
        ("title.basics.tsv.gz", 3, "wrong number of columns"),
        ("title.basics.tsv.gz", 4, "wrong number of columns"),
        ("title.basics.tsv.gz", 5, "startYear is not a number"),
        ("title.basics.tsv.gz", 6, "releaseYear is not valid"),
        ("title.basics.tsv.gz", 7, "runtimeMinutes is too large"),
        ("title.basics.tsv.gz", 8, "isAdult is neither 0 nor 1"),
        ("title.basics.tsv.gz", 9, "title is not valid"),
        ("title.basics.tsv.gz", 10, "no primaryTitle"),
        ("title.basics.tsv.gz", 11, "tags is not valid"),
        ("title.basics.tsv.gz", 12, "no tconst"),
        ("title.basics.tsv.gz", 13, "tconst is not tt and digits"),
        ("title.basics.tsv.gz", 14, "runtimeMinutes is negative"),
        ("title.basics.tsv.gz", 15, "runtimeMinutes is too large"),
        ("title.basics.tsv.gz", 17, "the title occurs twice"),
        ("title.principals.tsv.gz", 2, "characters is not a JSON array"),
        ("title.principals.tsv.gz", 3, "characters is not a JSON array of strings"),
        ("title.principals.tsv.gz", 4, "ordering is not a number"),
        ("title.principals.tsv.gz", 5, "nconst is not nm and digits"),
        ("title.principals.tsv.gz", 6, "category is not valid"),
        ("title.principals.tsv.gz", 9, "the file has other rows of this title before"),
        ("title.ratings.tsv.gz", 2, "averageRating is not from 1 to 10"),
        ("title.ratings.tsv.gz", 3, "averageRating is not a number"),
        ("title.ratings.tsv.gz", 4, "the title occurs twice"),
    ]
    assert imdb.video("tt9")
    assert [credit["roles"] for credit in imdb.children("tt1", "CREDIT#")] == [
        [{"category": "director", "characters": []}]
    ]


def test_rows_that_make_a_credit_or_release_too_large_are_refused(imdb: Importer) -> None:
    characters, attributes = json.dumps(["é" * 250] * 20, ensure_ascii=False), "\x02".join(["é" * 200] * 10)
    imdb.write_all(
        {
            BASICS: [TITLE_ROW],
            PRINCIPALS: [
                ("tt1", "1", "nm1", "actor", r"\N", characters),
                ("tt1", "2", "nm2", "actor", r"\N", r"\N"),
                ("tt1", "3", "nm2", "writer", r"\N", characters),
            ],
            AKAS: [
                ("tt1", "1", "T", "AU", r"\N", r"\N", attributes, "0"),
                ("tt1", "2", "T", "NZ", r"\N", r"\N", r"\N", "0"),
            ],
        }
    )

    imdb.run()

    assert imdb.refused == [
        ("title.akas.tsv.gz", 2, "more than 4000 bytes of titles in one region"),
        ("title.principals.tsv.gz", 2, "more than 8000 bytes of roles of one person"),
        ("title.principals.tsv.gz", 4, "more than 8000 bytes of roles of one person"),
    ]
    assert [credit["personId"] for credit in imdb.children("tt1", "CREDIT#")] == ["nm2"]
    assert [release["region"] for release in imdb.children("tt1", "RELEASE#")] == ["NZ"]


def test_a_line_that_is_not_utf_8_or_far_too_long_is_refused(imdb: Importer) -> None:
    imdb.write_all({})
    imdb.write(
        BASICS,
        [TITLE_ROW],
        ending=b"tt2\tmo\xffvie\n"
        + b"x" * 3_000_000
        + b"\n"
        + "\t".join(TITLE_ROW).replace("tt1", "tt3").encode()
        + b"\n",
    )
    imdb.run()
    assert [reason for _, _, reason in imdb.refused] == ["the line is not UTF-8", "the line is too long"]
    assert imdb.video("tt3")


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.file)
def test_missing_or_unexpected_file_stops_the_import_before_any_write(imdb: Importer, layout: Layout) -> None:
    imdb.write_all({BASICS: [TITLE_ROW]})
    (imdb.folder / layout.file).unlink()
    with pytest.raises(ToolError, match="does not exist"):
        imdb.run()
    imdb.write(Layout(layout.file, ("a", "b")), [])
    with pytest.raises(ToolError, match="begins with 'a, b', instead of beginning with the columns"):
        imdb.run()
    (imdb.folder / layout.file).write_bytes(b"")
    with pytest.raises(ToolError, match="is empty"):
        imdb.run()
    assert contents(imdb.table) == {}


def test_parts_can_be_omitted(imdb: Importer) -> None:
    imdb.write(BASICS, [TITLE_ROW])
    imdb.run(Selection(parts=frozenset()))
    assert imdb.video("tt1")


def test_uncompressed_files_are_imported(imdb: Importer) -> None:
    imdb.write(BASICS, [TITLE_ROW])
    imdb.unpack()
    imdb.run(Selection(parts=frozenset()))
    assert imdb.video("tt1")


@pytest.fixture
def generated(imdb: Importer) -> Importer:
    """Return an importer with a generated catalogue."""
    generate(imdb.folder, TITLES, people=8, seed=7)
    return imdb


def test_progress_bar_moves_with_every_written_title(imdb: Importer) -> None:
    imdb.write_all({BASICS: [(f"tt{n}", *TITLE_ROW[1:]) for n in range(1, 6)]})
    imdb.run()
    moves, total = imdb.bars.moves["Videos"], imdb.bars.totals["Videos"]
    assert len(set(moves)) == 5
    assert moves == sorted(moves)
    assert moves[-1] == total == len(gzip.decompress((imdb.folder / BASICS.file).read_bytes()))


@pytest.mark.parametrize("packed", [True, False])
def test_every_progress_bar_reaches_its_end(imdb: Importer, packed: bool) -> None:
    imdb.write_all({BASICS: [TITLE_ROW], RATINGS: [("tt1", "5.0", "5")]})
    if not packed:
        imdb.unpack()
    imdb.run()
    assert "Ratings: reading through" in imdb.bars.totals
    assert {title: moves[-1] for title, moves in imdb.bars.moves.items()} == imdb.bars.totals


def test_progress_bar_of_a_resumed_import_starts_at_the_interruption(imdb: Importer) -> None:
    imdb.write_all({BASICS: [(f"tt{n}", *TITLE_ROW[1:-1], r"\N") for n in range(1, 150)]})
    complete = (imdb.folder / BASICS.file).read_bytes()
    (imdb.folder / BASICS.file).write_bytes(complete[:-12])
    with pytest.raises(Damaged):
        imdb.run()
    (imdb.folder / BASICS.file).write_bytes(complete)
    imdb.bars = Watched()
    imdb.run()
    total = imdb.bars.totals["Videos"] or 0
    assert imdb.bars.moves["Videos"] == sorted(imdb.bars.moves["Videos"])
    assert total / 2 < imdb.bars.moves["Videos"][0] < imdb.bars.moves["Videos"][-1] == total


def test_progress_bar_shows_fractions_of_a_percent_and_an_estimate() -> None:
    output = io.StringIO()
    with Bars(Console(file=output, force_terminal=True, width=100)).bar("Videos", 30_000) as advance:
        for done in (100, 101):
            advance(done)
    last = output.getvalue().rpartition("Videos")[2]
    assert "0.34%" in last
    assert "-:--:--" not in last


def test_generated_catalogue_is_imported_completely(generated: Importer) -> None:
    outcomes = generated.run()
    assert outcomes["title.basics.tsv.gz"] == {"created": TITLES}
    assert outcomes["title.principals.tsv.gz"].keys() == {"created"}
    assert generated.refused == []


def test_a_second_run_changes_nothing(generated: Importer) -> None:
    generated.run()
    before = contents(generated.table)
    outcomes = generated.run()
    assert {outcome for counts in outcomes.values() for outcome in counts} == {"unchanged", "read"}
    assert contents(generated.table) == before


@pytest.mark.parametrize("writes", [0, 3, 6, 25])
def test_crashed_import_resumes_and_equals_an_undisturbed_one(
    generated: Importer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    with monkeypatch.context() as patched:
        crash_after(writes, patched, "write", "transact")
        with pytest.raises(Crash):
            generated.run()
    generated.run()
    assert len(change_sets(generated.table)) == 1
    after_crash = contents(generated.table)
    for key in after_crash:
        generated.table.delete({"pk": key[0], "sk": key[1]})
    generated.run()
    undisturbed = contents(generated.table)
    assert after_crash == undisturbed


def test_videos_lost_after_an_interruption_are_imported_again(generated: Importer) -> None:
    path = generated.folder / RATINGS.file
    complete = path.read_bytes()
    path.write_bytes(complete[:-12])
    with pytest.raises(Damaged):
        generated.run()
    path.write_bytes(complete)
    for key in contents(generated.table):
        if not key[0].startswith("IMPORT#"):
            generated.table.delete({"pk": key[0], "sk": key[1]})
    generated.run()
    assert None not in [generated.video(f"tt{number:07}") for number in range(1, TITLES + 1)]


def test_truncated_file_is_imported_up_to_the_cut_and_completed_later(
    generated: Importer,
) -> None:
    path = generated.folder / PRINCIPALS.file
    complete = path.read_bytes()
    path.write_bytes(complete[: len(complete) // 2])
    with pytest.raises(Damaged, match="is truncated after line"):
        generated.run()
    before = sum(len(generated.children(f"tt{n:07}", "CREDIT#")) for n in range(1, TITLES + 1))
    path.write_bytes(complete)
    outcomes = generated.run()
    rows = gzip.decompress(complete).decode().splitlines()[1:]
    pairs = {tuple(row.split("\t")[::2][:2]) for row in rows}
    assert 0 < before < len(pairs)
    assert outcomes["title.principals.tsv.gz"]["created"] == len(pairs)
    assert sum(len(generated.children(f"tt{n:07}", "CREDIT#")) for n in range(1, TITLES + 1)) == len(pairs)


def test_title_at_the_end_of_a_truncated_file_is_not_written_partly(imdb: Importer) -> None:
    imdb.write_all({BASICS: [TITLE_ROW, ("tt2", *TITLE_ROW[1:])]})
    rows = [("tt1", "1", "nm1", "self", r"\N", r"\N"), ("tt2", "1", "nm1", "self", r"\N", r"\N")]
    imdb.write(PRINCIPALS, rows, ending=b"tt2\t2\tnm2\tse")
    with pytest.raises(Damaged, match="is truncated within line 4"):
        imdb.run()
    assert (len(imdb.children("tt1", "CREDIT#")), len(imdb.children("tt2", "CREDIT#"))) == (1, 0)


@pytest.mark.parametrize(
    ("position", "bits", "sentence"),
    [
        (-6, 0xFF, "does not match its checksum"),
        (-2, 0xFF, "does not match its checksum"),
        (10, 0x06, "is damaged and cannot be unpacked"),  # a block of an unknown type
        (0, 0xFF, "is damaged and cannot be unpacked"),
    ],
)
def test_import_of_a_damaged_file_writes_nothing(imdb: Importer, position: int, bits: int, sentence: str) -> None:
    titles = [(f"tt{n}", *TITLE_ROW[1:]) for n in range(1, 151)]
    imdb.write_all({BASICS: titles})
    path = imdb.write(PRINCIPALS, [(f"tt{n}", "1", "nm1", "self", r"\N", r"\N") for n in range(1, 150)])
    last = bytearray(gzip.compress(b"tt150\t1\tnm1\tself\t\\N\t\\N\n"))
    last[position] = last[position] | bits if position == 10 else last[position] ^ bits
    path.write_bytes(path.read_bytes() + last)
    with pytest.raises(Corrupt, match=sentence):
        imdb.run()
    assert contents(imdb.table) == {}
    assert not imdb.state.exists()


def test_gz_file_that_is_not_compressed_is_refused_with_the_reason(imdb: Importer) -> None:
    imdb.write_all({})
    (imdb.folder / BASICS.file).write_bytes(b"not gzip at all")
    with pytest.raises(Corrupt, match=r"title.basics.tsv.gz is not a gzip file, although its name ends in .gz\.$"):
        imdb.run()


def test_a_byte_order_mark_is_skipped(imdb: Importer) -> None:
    imdb.write_all({BASICS: [TITLE_ROW]})
    path = imdb.folder / BASICS.file
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + gzip.decompress(path.read_bytes())))
    assert imdb.run()["title.basics.tsv.gz"] == {"created": 1}


def test_second_import_with_the_same_state_file_is_refused(imdb: Importer) -> None:
    imdb.write_all({BASICS: [TITLE_ROW]})
    other = WorkFile(imdb.state, {"types": []})
    try:
        with pytest.raises(ToolError, match="is in use by another command"):
            imdb.run()
    finally:
        other.close()
    assert imdb.run()["title.basics.tsv.gz"] == {"created": 1}


def test_resumed_import_restarts_a_changed_file_and_its_dependent_files(
    imdb: Importer,
) -> None:
    credits_ = [(title, "1", "nm1", "self", r"\N", r"\N") for title in ("tt1", "tt2")]
    imdb.write_all({BASICS: [TITLE_ROW], RATINGS: [("tt1", "5.0", "5")], PRINCIPALS: credits_})
    ratings = imdb.folder / RATINGS.file
    complete = ratings.read_bytes()
    ratings.write_bytes(complete[:-12])
    with pytest.raises(Damaged):
        imdb.run()
    ratings.write_bytes(complete)
    imdb.write(BASICS, [("tt2", *TITLE_ROW[1:]), ("tt1", *TITLE_ROW[1:])])
    outcomes = imdb.run()
    assert outcomes["title.basics.tsv.gz"] == outcomes["title.principals.tsv.gz"] == {"created": 1, "unchanged": 1}


def test_interrupted_import_refuses_other_options(imdb: Importer) -> None:
    imdb.write_all({BASICS: [TITLE_ROW]})
    path = imdb.folder / BASICS.file
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(Damaged):
        imdb.run()
    with pytest.raises(ToolError, match="other options"):
        imdb.run(Selection(types=frozenset({"movie"})))


def test_changed_rows_update_items_that_only_the_import_wrote(imdb: Importer, api: Api) -> None:
    by_release = Selection(dated_by_release=True)
    imdb.write_all({BASICS: [TITLE_ROW], PRINCIPALS: [("tt1", "1", "nm1", "self", r"\N", r"\N")]})
    imdb.run(by_release)
    imdb.write(BASICS, [("tt1", "movie", "New", "New", "0", "2001", r"\N", r"\N", "Drama,News")])
    imdb.write(PRINCIPALS, [("tt1", "2", "nm1", "director", r"\N", r"\N")])
    outcomes = imdb.run(by_release)
    assert outcomes["title.basics.tsv.gz"] == outcomes["title.principals.tsv.gz"] == {"changed": 1}
    document = api.get(f"/v1/videos/{video_id('tt1')}").json
    assert (document["title"], document["releaseYear"], document["tags"]) == ("New", 2001, ["Drama", "News"])
    assert "duration" not in document
    assert document["createdAt"] == created_at(1999)
    assert api.get("/v1/videos", query="tag=War").json["items"] == []
    (credit,) = imdb.children("tt1", "CREDIT#")
    assert (credit["ordering"], credit["version"]) == (2, 2)


def test_item_changed_by_a_person_is_skipped_and_reported(imdb: Importer, api: Api) -> None:
    files: dict[Layout, Sequence[Sequence[str]]] = {
        BASICS: [TITLE_ROW],
        PRINCIPALS: [("tt1", "1", "nm1", "self", r"\N", r"\N")],
        AKAS: [("tt1", "1", "T", "NZ", r"\N", r"\N", r"\N", "0")],
    }
    imdb.write_all(files)
    imdb.run()
    path = f"/v1/videos/{video_id('tt1')}"
    api.patch(path, {"title": "Mine"}, user="admin")
    credit = {"ordering": 9, "roles": [{"category": "writer"}]}
    assert api.put(f"{path}/credits/nm1", credit, user="admin").status == 200
    assert api.put(f"{path}/releases/NZ", {"titles": [{"title": "Mine"}]}, user="admin").status == 200
    imdb.write(BASICS, [("tt1", "movie", "News", *TITLE_ROW[3:])])
    outcomes = imdb.run()
    assert {file: counts for file, counts in outcomes.items() if "skipped" in counts} == {
        layout.file: {"skipped": 1} for layout in (BASICS, PRINCIPALS, AKAS)
    }
    assert {reason for _, _, reason in imdb.refused} == {"another user has changed it: skipped"}
    assert api.get(path).json["title"] == "Mine"


def test_deleted_video_stays_deleted_and_gets_no_child_items(imdb: Importer, api: Api) -> None:
    imdb.write_all({BASICS: [TITLE_ROW]})
    imdb.run()
    api.delete(f"/v1/videos/{video_id('tt1')}", user="admin")
    imdb.write(RATINGS, [("tt1", "5.0", "5")])
    imdb.write(PRINCIPALS, [("tt1", "1", "nm1", "self", r"\N", r"\N")])
    imdb.run()
    assert {reason for _, _, reason in imdb.refused} == {"its video is deleted: skipped"}
    assert imdb.table.get(RATING_TOTALS.key(videoId=video_id("tt1"))) is None
    assert imdb.children("tt1", "CREDIT#") == []


def test_totals_of_the_owner_include_imported_videos(generated: Importer, api: Api) -> None:
    generated.run()
    Aggregates(generated.table).settle([video_id(f"tt{n:07}") for n in range(1, TITLES + 1)], NOW)
    assert api.get("/v1/users/imdb", user="admin").json["videos"]["ready"] == TITLES


def test_work_file_is_deleted_after_a_complete_import(imdb: Importer) -> None:
    imdb.write_all({BASICS: [TITLE_ROW]})
    imdb.run()
    assert not imdb.state.exists()


def test_rate_limiter_spaces_the_writes() -> None:
    clock = Clock(0.0)
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        clock.advance(seconds)

    rate = RateLimiter(10, clock=clock, sleep=sleep)
    for _ in range(40):
        rate.take(1)
    assert clock() == pytest.approx(3.0)
    rate.take(25)
    assert clock() == pytest.approx(5.5)
