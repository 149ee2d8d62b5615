"""The work file of an import belongs to one table, and is valid for as long as the table contains the written items."""

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


class Memory:
    """The state file of an import, whose batches write one video each."""

    def __init__(self, table: Table, path: Path) -> None:
        self.table = table
        self.path = path

    def go_on(self, batches: int = BATCHES) -> tuple[int, str | None]:
        """Carry out some batches and be broken off; returns the line where it began, and why it started over."""
        with work_file(self.path, {}, self.table) as work:
            start = work.mark(FILE).line
            for line in range(start + 1, start + 1 + batches):
                key = VIDEO.key(videoId=f"film-{line}")
                self.table.client.put_item(**self.table.put(dict(key)).parameters)
                work.wrote(key)
                work.commit(FILE, LineCheckpoint(line, line), {"created": 1})
        return start, work.restart_reason

    def complete(self) -> None:
        """Carry out the rest, of which there is none."""
        WorkFile(self.path, {}, self.table).remove()


@pytest.fixture
def memory(table: Table, tmp_path: Path) -> Memory:
    """A memory of nothing yet."""
    return Memory(table, tmp_path / "films.state")


def test_an_import_continues_where_it_was_broken_off(memory: Memory) -> None:
    assert [memory.go_on(), memory.go_on(), memory.go_on()] == [(0, None), (BATCHES, None), (2 * BATCHES, None)]


def test_in_a_table_that_was_recreated_it_starts_over(memory: Memory) -> None:
    memory.go_on()
    memory.table.client.delete_table(TableName=memory.table.name)
    create_table(memory.table.client, memory.table.name)
    assert memory.go_on() == (0, f"The table {memory.table.name} is not the table of the interrupted import")
    assert memory.go_on() == (BATCHES, None)


def test_in_a_table_that_went_back_in_time_it_starts_over(memory: Memory) -> None:
    memory.go_on(1)
    earlier = items_of(memory.table)
    memory.go_on(SAMPLE * 4)
    for item in items_of(memory.table):
        # Losing only what is beyond any sample: the mark shows it.
        if item not in earlier and item["pk"].startswith("IMPORT#"):
            memory.table.delete(_key(item))
    for item in earlier:
        memory.table.client.put_item(**memory.table.put(item).parameters)
    assert memory.go_on() == (
        0,
        f"The table {memory.table.name} has lost items of the interrupted import",
    )


@pytest.mark.parametrize("line", [1, 2, BATCHES])
def test_import_restarts_when_an_item_of_a_small_table_is_missing(memory: Memory, line: int) -> None:
    memory.go_on()
    memory.table.delete(VIDEO.key(videoId=f"film-{line}"))
    assert memory.go_on()[0] == 0
    assert [item["batches"] for item in items_of(memory.table) if item["pk"].startswith("IMPORT#")] == [BATCHES]


def test_the_last_of_many_items_are_looked_for(memory: Memory) -> None:
    memory.go_on(SAMPLE * 4)
    memory.table.delete(VIDEO.key(videoId=f"film-{SAMPLE * 3 + 1}"))
    assert memory.go_on()[0] == 0


def test_a_batch_that_was_written_but_not_remembered_is_not_lost(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.go_on()
    with monkeypatch.context() as patched:
        patched.setattr(Table, "write", _and_crash(Table.write))
        with pytest.raises(KeyboardInterrupt):
            memory.go_on()
    assert memory.go_on() == (BATCHES, None)


def test_a_memory_that_does_not_know_its_table_starts_over(memory: Memory) -> None:
    work = WorkFile(memory.path, {})
    work.commit(FILE, LineCheckpoint(7, 7), {"created": 7})
    work.close()
    start, why = memory.go_on()
    assert start == 0
    assert why is not None


def test_completed_import_leaves_no_checkpoint(memory: Memory) -> None:
    memory.go_on()
    assert [item["pk"] for item in items_of(memory.table) if item["pk"].startswith("IMPORT#")]
    memory.complete()
    assert [item["pk"] for item in items_of(memory.table) if not item["pk"].startswith("VIDEO#")] == []
    assert not memory.path.exists()


def _key(item: dict[str, object]) -> Key:
    return {name: str(item[name]) for name in (PARTITION_KEY, "sk")}


def _and_crash(write: Callable[..., object]) -> Callable[..., object]:
    def call(*arguments: object) -> object:
        write(*arguments)
        raise KeyboardInterrupt

    return call


def test_change_set_id_is_stable_until_the_import_completes_or_restarts(memory: Memory) -> None:
    def change_set(*, begins: bool = False) -> str | None:
        with work_file(memory.path, {}, memory.table) as work:
            if begins:
                work.begin()
            return work.change_set

    unused = change_set()
    # From the first thing that may be a write, also when nothing remembers it.
    first = change_set(begins=True)
    assert first != unused
    assert change_set() == first
    memory.go_on()
    assert change_set() == first
    memory.table.delete(VIDEO.key(videoId="film-1"))
    restarted = change_set()
    assert restarted != first
    memory.go_on()
    assert change_set() == restarted
    memory.complete()
    assert change_set() != restarted


def test_work_file_without_a_table_has_no_change_set_id(memory: Memory) -> None:
    with work_file(memory.path, {}) as work:
        assert work.change_set is None
