"""The generator of IMDb files: any number of titles, and the same files for the same seed."""

import gzip
import json
from pathlib import Path

import pytest

from tools.generator import FIRST_YEAR, LAST_YEAR, generate
from tools.imdb import AKAS, BASICS, CREW, EPISODES, NAMES, PRINCIPALS, RATINGS, Layout

LAYOUTS = (BASICS, EPISODES, PRINCIPALS, CREW, AKAS, RATINGS, NAMES)


def rows(folder: Path, layout: Layout) -> list[list[str]]:
    """Return the rows of a file after its header."""
    with gzip.open(folder / layout.file, "rt", encoding="utf-8", newline="\n") as file:
        header, *lines = file.read().removesuffix("\n").split("\n")
    assert tuple(header.split("\t")) == layout.columns
    return [line.split("\t") for line in lines]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a catalogue of 400 titles."""
    generated = tmp_path_factory.mktemp("imdb")
    generate(generated, 400, people=60, seed=1)
    return generated


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.file)
def test_every_row_has_all_columns(folder: Path, layout: Layout) -> None:
    assert {len(row) for row in rows(folder, layout)} == {len(layout.columns)}


def test_catalogue_has_the_requested_number_of_titles_and_people(folder: Path) -> None:
    assert len({row[0] for row in rows(folder, BASICS)}) == 400
    assert len({row[0] for row in rows(folder, NAMES)}) == 60


def test_rows_refer_to_existing_titles_and_people(folder: Path) -> None:
    titles = {row[0] for row in rows(folder, BASICS)}
    people = {row[0] for row in rows(folder, NAMES)}
    assert {row[0] for layout in (PRINCIPALS, AKAS, RATINGS) for row in rows(folder, layout)} <= titles
    assert {row[2] for row in rows(folder, PRINCIPALS)} <= people
    crew = {person for row in rows(folder, CREW) for column in row[1:] for person in column.split(",")}
    assert crew - {r"\N"} <= people
    assert {row[0] for row in rows(folder, CREW)} == titles
    types = {row[0]: row[1] for row in rows(folder, BASICS)}
    pairs = {(types[row[0]], types[row[1]]) for row in rows(folder, EPISODES)}
    assert pairs == {("tvEpisode", "tvSeries"), ("tvEpisode", "tvMiniSeries")}


def test_values_have_the_variety_of_imdb(folder: Path) -> None:
    basics = rows(folder, BASICS)
    years = [int(row[5]) for row in basics if row[5] != r"\N"]
    assert FIRST_YEAR <= min(years) <= max(years) <= LAST_YEAR
    assert any(row[5] == r"\N" for row in basics)
    assert any('"' in row[2] for row in basics)
    assert any(not row[2].isascii() for row in basics)
    played = [json.loads(row[5]) for row in rows(folder, PRINCIPALS) if row[5] != r"\N"]
    assert any(len(names) == 2 for names in played)
    assert any("\x02" in row[5] for row in rows(folder, AKAS))
    assert all(1 <= float(row[1]) <= 10 for row in rows(folder, RATINGS))


def test_seed_determines_the_files(folder: Path, tmp_path: Path) -> None:
    generate(tmp_path / "again", 400, people=60, seed=1)
    generate(tmp_path / "other", 400, people=60, seed=2)
    for layout in LAYOUTS:
        content = (folder / layout.file).read_bytes()
        assert (tmp_path / "again" / layout.file).read_bytes() == content
        assert (tmp_path / "other" / layout.file).read_bytes() != content


def test_larger_catalogue_begins_with_the_titles_of_a_smaller_one(folder: Path, tmp_path: Path) -> None:
    generate(tmp_path, 10, people=60, seed=1)
    assert rows(folder, BASICS)[:10] == rows(tmp_path, BASICS)


def test_generator_leaves_no_unfinished_file(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {layout.file for layout in LAYOUTS}
