"""Work file of an import: it belongs to one table, and is valid while the table contains the written items."""

from collections.abc import Callable
from pathlib import Path

import pytest

from local.testbed.harness import create_table
from shared.aws.dynamodb import Key, Table
from shared.schema import PARTITION_KEY, VIDEO
from tests.integration.contents import items_of
from tools.lines import LineCheckpoint
from tools.work_file import SAMPLE, WorkFile, work_file

FILE = "films.jsonl"
BATCHES = 3


class InterruptedImport:
    """Import that is interrupted after some batches. Each batch writes one video."""

    def __init__(self, table: Table, path: Path) -> None:
        self.table = table
        self.path = path

    def resume(self, batches: int = BATCHES) -> tuple[int, str | None]:
        """Write some batches, then stop. Return the line at which the import started, and the reason if it started
        over."""
        with work_file(self.path, {}, self.table) as work:
            start = work.mark(FILE).line
            for line in range(start + 1, start + 1 + batches):
                key = VIDEO.key(videoId=f"film-{line}")
                self.table.client.put_item(**self.table.put(dict(key)).parameters)
                work.wrote(key)
                work.commit(FILE, LineCheckpoint(line, line), {"created": 1})
        return start, work.restart_reason

    def complete(self) -> None:
        """Complete the import, and delete its work file."""
        WorkFile(self.path, {}, self.table).remove()


@pytest.fixture
def import_(table: Table, tmp_path: Path) -> InterruptedImport:
    """Return an import that has not written anything."""
    return InterruptedImport(table, tmp_path / "films.state")


def test_interrupted_import_resumes(import_: InterruptedImport) -> None:
    assert [import_.resume(), import_.resume(), import_.resume()] == [(0, None), (BATCHES, None), (2 * BATCHES, None)]


def test_import_restarts_when_the_table_was_recreated(import_: InterruptedImport) -> None:
    import_.resume()
    import_.table.client.delete_table(TableName=import_.table.name)
    create_table(import_.table.client, import_.table.name)
    assert import_.resume() == (0, f"The table {import_.table.name} is not the table of the interrupted import")
    assert import_.resume() == (BATCHES, None)


@pytest.mark.slow
def test_import_restarts_when_the_table_was_restored(import_: InterruptedImport) -> None:
    import_.resume(1)
    earlier = items_of(import_.table)
    import_.resume(SAMPLE * 4)
    for item in items_of(import_.table):
        # The lost items are outside the sample, so only the checkpoint in the table shows the loss.
        if item not in earlier and item["pk"].startswith("IMPORT#"):
            import_.table.delete(_key(item))
    for item in earlier:
        import_.table.client.put_item(**import_.table.put(item).parameters)
    assert import_.resume() == (
        0,
        f"The table {import_.table.name} has lost items of the interrupted import",
    )


@pytest.mark.parametrize("line", [1, 2, BATCHES])
def test_import_restarts_when_an_item_of_a_small_table_is_missing(import_: InterruptedImport, line: int) -> None:
    import_.resume()
    import_.table.delete(VIDEO.key(videoId=f"film-{line}"))
    assert import_.resume()[0] == 0
    assert [item["batches"] for item in items_of(import_.table) if item["pk"].startswith("IMPORT#")] == [BATCHES]


@pytest.mark.slow
def test_import_restarts_when_one_of_the_last_items_is_missing(import_: InterruptedImport) -> None:
    import_.resume(SAMPLE * 4)
    import_.table.delete(VIDEO.key(videoId=f"film-{SAMPLE * 3 + 1}"))
    assert import_.resume()[0] == 0


def test_batch_written_before_a_crash_is_written_again(
    import_: InterruptedImport, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_.resume()
    with monkeypatch.context() as patched:
        patched.setattr(Table, "write", _and_crash(Table.write))
        with pytest.raises(KeyboardInterrupt):
            import_.resume()
    assert import_.resume() == (BATCHES, None)


def test_work_file_without_a_table_restarts_the_import(import_: InterruptedImport) -> None:
    work = WorkFile(import_.path, {})
    work.commit(FILE, LineCheckpoint(7, 7), {"created": 7})
    work.close()
    start, why = import_.resume()
    assert start == 0
    assert why is not None


def test_completed_import_leaves_no_checkpoint(import_: InterruptedImport) -> None:
    import_.resume()
    assert [item["pk"] for item in items_of(import_.table) if item["pk"].startswith("IMPORT#")]
    import_.complete()
    assert [item["pk"] for item in items_of(import_.table) if not item["pk"].startswith("VIDEO#")] == []
    assert not import_.path.exists()


def _key(item: dict[str, object]) -> Key:
    return {name: str(item[name]) for name in (PARTITION_KEY, "sk")}


def _and_crash(write: Callable[..., object]) -> Callable[..., object]:
    def call(*arguments: object) -> object:
        write(*arguments)
        raise KeyboardInterrupt

    return call


def test_change_set_id_is_stable_until_the_import_completes_or_restarts(import_: InterruptedImport) -> None:
    def change_set(*, begins: bool = False) -> str | None:
        with work_file(import_.path, {}, import_.table) as work:
            if begins:
                work.begin()
            return work.change_set

    unused = change_set()
    # The id is fixed from `begin` on, because a write may follow that no checkpoint records.
    first = change_set(begins=True)
    assert first != unused
    assert change_set() == first
    import_.resume()
    assert change_set() == first
    import_.table.delete(VIDEO.key(videoId="film-1"))
    restarted = change_set()
    assert restarted != first
    import_.resume()
    assert change_set() == restarted
    import_.complete()
    assert change_set() != restarted


def test_work_file_without_a_table_has_no_change_set_id(import_: InterruptedImport) -> None:
    with work_file(import_.path, {}) as work:
        assert work.change_set is None
