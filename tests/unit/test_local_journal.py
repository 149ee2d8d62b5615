"""Tests of the journal: entries survive the end of the process at any moment, and completed entries are deleted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from local.journal import Journal


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of the journal's file."""
    return tmp_path / "items.sqlite"


@pytest.fixture
def journal(file: Path) -> Iterator[Journal]:
    """Yield an empty journal."""
    journal = Journal(file)
    yield journal
    journal.close()


def test_journal_left_unclosed_is_read_by_another_process(journal: Journal, file: Path) -> None:
    journal.write([("t", "a", "1", "{}"), ("t", "b", "1", "{}")], [("s", 7, "[]")])
    journal.write([("t", "a", "1", '{"new": 1}'), ("t", "b", "1", None)], [])
    other = Journal(file)
    assert list(other.items("t")) == [("a", "1", '{"new": 1}')]
    assert other.records("s") == [(7, "[]")]
    other.close()


def test_emptied_table_has_only_new_items(journal: Journal) -> None:
    journal.write([("t", "a", "1", "{}"), ("other", "a", "1", "{}")], [])
    journal.write([("t", "b", "1", "{}")], [], emptied=["t"])
    assert [list(journal.items(table)) for table in ("t", "other")] == [[("b", "1", "{}")], [("a", "1", "{}")]]


def test_records_are_retained_until_the_slowest_reader_has_read_them(journal: Journal) -> None:
    journal.write([], [("s", position, "{}") for position in range(5)])
    journal.advance([("fast", "s", 5), ("slow", "s", 2)])
    assert [position for position, _ in journal.records("s")] == [2, 3, 4]
    assert sorted(journal.readers()) == [("fast", "s", 5), ("slow", "s", 2)]


def test_records_without_a_reader_are_deleted(journal: Journal) -> None:
    journal.write([], [("s", 0, "{}")])
    journal.advance([])
    assert journal.records("s") == []


def test_items_of_deleted_tables_are_deleted(journal: Journal) -> None:
    journal.write([("kept", "a", "1", "{}"), ("gone", "a", "1", "{}")], [])
    journal.keep_only(["kept"])
    assert [len(list(journal.items(table))) for table in ("kept", "gone")] == [1, 0]
