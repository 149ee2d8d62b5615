"""Tools with their full number of threads: concurrent and interrupted imports write all items."""

from pathlib import Path

import pytest

from shared.aws.dynamodb import Table
from tests.integration.conftest import NewTable
from tests.integration.faults import Crash, crash_after
from tools.__main__ import PARTS
from tools.exporting import Export
from tools.generator import generate
from tools.imdb_import import ImdbImport, Selection
from tools.importing import LineImport
from tools.progress import Bars
from tools.rate_limit import Pool, RateLimiter
from tools.work_file import work_file

TITLES = 60


def import_imdb(folder: Path, table: Table) -> dict[str, dict[str, int]]:
    """Run `python -m tools import-imdb`, and return the outcomes by file."""
    with work_file(folder / "state", {}, table) as work:
        selection = Selection(parts=frozenset(PARTS))
        ImdbImport(folder, table, work, selection, rate=RateLimiter(None), pool=Pool(), bars=Bars()).run()
        outcomes = work.outcomes()
        assert list(work.refused()) == []
        work.remove()
    return outcomes


def test_imported_catalogue_equals_its_exported_and_imported_copy(
    table: Table, new_table: NewTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(tmp_path, TITLES, people=40)
    with monkeypatch.context() as patched:
        crash_after(200, patched, "write")
        with pytest.raises(Crash):
            import_imdb(tmp_path, table)
    import_imdb(tmp_path, table)
    second = import_imdb(tmp_path, table)
    assert {outcome for counts in second.values() for outcome in counts} == {"unchanged", "read"}
    Export(table, tmp_path / "one.jsonl.gz", bars=Bars()).run()
    other = new_table()
    with work_file(tmp_path / "lines", {}, other) as work:
        LineImport(tmp_path / "one.jsonl.gz", other, work, rate=RateLimiter(None), pool=Pool(), bars=Bars()).run()
        assert list(work.refused()) == []
    counts = Export(other, tmp_path / "two.jsonl.gz", bars=Bars()).run()
    assert counts["Video"] == TITLES
    assert (tmp_path / "one.jsonl.gz").read_bytes() == (tmp_path / "two.jsonl.gz").read_bytes()
