"""File that stores the progress of an import. The import can then resume after any interruption."""

import json
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shared.aws.dynamodb import Key, Table
from shared.aws.expressions import Expression
from shared.schema import IMPORT, PARTITION_KEY, SORT_KEY, TTL_ATTRIBUTE
from tools import ToolError
from tools.lines import LineCheckpoint

SAMPLE = 50
"""Number of items in each of two samples of written items: the last written items, and random items.

An import only resumes if all items of both samples still exist.
"""
KEPT_SECONDS = 90 * 86_400
"""Seconds after which the checkpoint item of an interrupted import expires. The import then starts over."""

_TABLES = """
CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS mark (file TEXT PRIMARY KEY, line INTEGER NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS seen (file TEXT, id TEXT, PRIMARY KEY (file, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS name (id TEXT PRIMARY KEY, name TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS episode (id TEXT PRIMARY KEY, place TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outcome (file TEXT, what TEXT, n INTEGER NOT NULL, PRIMARY KEY (file, what));
CREATE TABLE IF NOT EXISTS refused
    (file TEXT, line INTEGER, reason TEXT NOT NULL, detail TEXT NOT NULL, PRIMARY KEY (file, line));
CREATE TABLE IF NOT EXISTS written (number INTEGER PRIMARY KEY, pk TEXT NOT NULL, sk TEXT NOT NULL);
"""
_PROGRESS_TABLES = ("mark", "seen", "name", "episode", "outcome", "refused", "written")


class WorkFile:
    """Progress of one import, in an SQLite file. Each call of `commit` saves all changes since the previous call in one
    transaction.

    A file belongs to one table. If it is opened with another table, or if items that the import wrote are missing, it
    discards the stored progress. It also sets `restart_reason`, and the import starts over.
    """

    change_set: str | None = None
    """Id of the import's change set. The id stays the same when the import resumes. `None` if the import has no table.
    """

    def __init__(self, path: Path, settings: Mapping[str, object], table: Table | None = None) -> None:
        """Open or create the file. Raises ToolError if the file belongs to an import with other settings.

        Without a table, nothing is written to DynamoDB, and the stored progress is not verified.
        """
        self.path = path
        self.restart_reason: str | None = None
        self.on_begin: Callable[[], object] = lambda: None
        """Callback that `begin` calls, before the import writes anything."""
        self._table = table
        identity = _identity(table) if table else None
        try:
            self._db = sqlite3.connect(path, timeout=0)
            # The lock is held until the file is closed: two imports would overwrite each other's checkpoints.
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.executescript(
                f"BEGIN EXCLUSIVE; {_TABLES} COMMIT;"
            )  # one transaction, so only one wait for the disk
            self._check(json.dumps(settings, sort_keys=True))
            if table:
                self._belong_to(table, json.dumps(identity))
                self.change_set = f"import-{self._setting('import')}"
        except sqlite3.Error as error:
            if "locked" in str(error):
                raise ToolError(
                    f"The state file {path} is in use by another command. Wait until that command ends."
                ) from error
            raise ToolError(f"{path} cannot be used as the state file: {error}.") from error

    def _check(self, settings: str) -> None:
        self._db.execute("INSERT OR IGNORE INTO setting VALUES ('settings', ?)", (settings,))
        self._db.commit()
        if self._setting("settings") != settings:
            self._db.close()
            raise ToolError(
                f"{self.path} belongs to an interrupted import with other options. Use the same options, delete "
                "the file, or name another with --state."
            )

    def _belong_to(self, table: Table, identity: str) -> None:
        """Assign the file to a table.

        Discards the stored progress if it belongs to another table, or if items of the samples no longer exist.
        """
        if self._has_begun():
            if self._setting("table") != identity:
                self.restart_reason = f"The table {table.name} is not the table of the interrupted import"
            elif not self._is_still_in(table):
                self.restart_reason = f"The table {table.name} has lost items of the interrupted import"
        if self.restart_reason:
            table.delete(self._mark_key())  # otherwise it would remain, because the new import has another key
        if self.restart_reason or not self._has_begun():
            for name in _PROGRESS_TABLES:
                self._db.execute(f"DELETE FROM {name}")
            # An import that wrote items before its first checkpoint keeps its id.
            is_same = not self.restart_reason and self._setting("table") == identity
            import_id = self._setting("import") if is_same else str(uuid.uuid4())
            settings = {"table": identity, "import": import_id, "batches": "0"}
            self._db.executemany("INSERT OR REPLACE INTO setting VALUES (?, ?)", settings.items())
            self._db.commit()

    def _is_still_in(self, table: Table) -> bool:
        # The checkpoint item is written last. If the table was restored to an earlier time, this item is missing or old.
        # The samples show whether single items were lost.
        mark = table.get(self._mark_key(), consistent=True)
        if mark is None or mark["batches"] < int(self._setting("batches")):
            return False
        rows = self._db.execute(
            "SELECT * FROM (SELECT pk, sk FROM written ORDER BY number DESC LIMIT ?) "
            "UNION SELECT * FROM (SELECT pk, sk FROM written ORDER BY random() LIMIT ?)",
            (SAMPLE, SAMPLE),
        )
        keys = [{PARTITION_KEY: pk, SORT_KEY: sk} for pk, sk in rows]
        return len(table.batch_get(keys, attributes=(PARTITION_KEY,), consistent=True)) == len(keys)

    def _mark_key(self) -> Key:
        return IMPORT.key(importId=self._setting("import"))

    def _setting(self, name: str) -> str:
        row = self._db.execute("SELECT value FROM setting WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def _has_begun(self) -> bool:
        return self._db.execute("SELECT 1 FROM mark WHERE line > 0").fetchone() is not None

    def begin(self) -> None:
        """Record that the import has begun. Call this method before the first write. Afterwards, `close` does not
        delete the file."""
        self._db.execute("INSERT OR REPLACE INTO setting VALUES ('begun', 'yes')")
        self._db.commit()
        self.on_begin()

    def wrote(self, key: Key) -> None:
        """Record the key of a written item, for the samples of the next run.

        Call this only for videos and playlists, because users may remove items of other kinds during the import.
        """
        self._db.execute("INSERT INTO written (pk, sk) VALUES (?, ?)", (key[PARTITION_KEY], key[SORT_KEY]))

    def mark(self, file: str) -> LineCheckpoint:
        """Return the position up to which a file has been processed: line 0 if nothing was processed."""
        row = self._db.execute("SELECT line, checksum FROM mark WHERE file = ?", (file,)).fetchone()
        return LineCheckpoint(*row) if row else LineCheckpoint()

    def commit(self, file: str, mark: LineCheckpoint, outcomes: Mapping[str, int]) -> None:
        """Record that the imported file `file` is processed up to `mark`, and add `outcomes` to the counts of that
        file.

        Writes the checkpoint item in the table first, if there is a table, and then this work file.
        """
        if self._table:
            batches = int(self._setting("batches")) + 1
            change = Expression(
                "SET #batches = :batches, #ttl = :ttl",
                {"#batches": "batches", "#ttl": TTL_ATTRIBUTE},
                {":batches": batches, ":ttl": int(time.time()) + KEPT_SECONDS},
            )
            # No condition is needed: the state file is locked, and no other writer uses this item.
            self._table.write(self._table.update(self._mark_key(), change))
            self._db.execute("UPDATE setting SET value = ? WHERE name = 'batches'", (str(batches),))
        self._db.execute("INSERT OR REPLACE INTO mark VALUES (?, ?, ?)", (file, mark.line, mark.checksum))
        self._db.executemany(
            "INSERT INTO outcome VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n",
            [(file, what, n) for what, n in outcomes.items()],
        )
        self._db.commit()

    def forget(self, file: str) -> None:
        """Discard the progress of one imported file. The import then processes that file from the start."""
        for table in ("mark", "seen", "outcome", "refused"):
            self._db.execute(f"DELETE FROM {table} WHERE file = ?", (file,))
        self._db.commit()

    def see(self, file: str, title: str) -> bool:
        """Record that a file has rows of a title. Returns `False` if an earlier call has already recorded that."""
        return self._db.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (file, title)).rowcount == 1

    def has_seen(self, file: str, title: str) -> bool:
        """Return whether `see` has recorded that a file has rows of a title."""
        row = self._db.execute("SELECT 1 FROM seen WHERE file = ? AND id = ?", (file, title))
        return row.fetchone() is not None

    def add_names(self, names: Iterable[tuple[str, str]]) -> None:
        """Record the names of people. `names` has pairs of person id and name."""
        self._db.executemany("INSERT OR REPLACE INTO name VALUES (?, ?)", names)

    def name(self, person: str) -> str | None:
        """Return the recorded name of a person; `None` if there is none."""
        row = self._db.execute("SELECT name FROM name WHERE id = ?", (person,)).fetchone()
        return str(row[0]) if row else None

    def add_episodes(self, episodes: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Record the positions of episodes in their series. `episodes` has pairs of title id and the video's fields for
        the position."""
        rows = [(title, json.dumps(place)) for title, place in episodes]
        self._db.executemany("INSERT OR REPLACE INTO episode VALUES (?, ?)", rows)

    def episode(self, title: str) -> dict[str, Any]:
        """Return a title's position in a series, or an empty dictionary if it is not an episode."""
        row = self._db.execute("SELECT place FROM episode WHERE id = ?", (title,)).fetchone()
        return dict(json.loads(row[0])) if row else {}

    def refuse(self, file: str, line: int, reason: str, detail: str = "") -> None:
        """Record the reason why a line was not imported. A repeated call replaces the reason."""
        self._db.execute("INSERT OR REPLACE INTO refused VALUES (?, ?, ?, ?)", (file, line, reason, detail))

    def refused(self) -> Iterator[tuple[str, int, str, str]]:
        """Yield file, line, reason and detail of each line that was not imported."""
        yield from self._db.execute("SELECT file, line, reason, detail FROM refused ORDER BY file, line")

    def refused_by_reason(self) -> list[tuple[str, str, int]]:
        """Return file, reason and number of refused lines for each combination of file and reason, the most frequent
        first."""
        counted = self._db.execute(
            "SELECT file, reason, COUNT(*) FROM refused GROUP BY file, reason ORDER BY COUNT(*) DESC, file, reason"
        )
        return counted.fetchall()

    def outcomes(self) -> dict[str, dict[str, int]]:
        """Return the number of lines by file and outcome."""
        outcomes: dict[str, dict[str, int]] = {}
        for file, what, n in self._db.execute("SELECT file, what, n FROM outcome ORDER BY rowid"):
            outcomes.setdefault(file, {})[what] = n
        return outcomes

    def close(self) -> None:
        """Close the file. Deletes the file if the import has not begun."""
        try:
            begun = bool(self._setting("begun")) or self._has_begun()
        except sqlite3.Error:  # closed already, or damaged
            begun = True
        self._db.close()
        if not begun:
            self.path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the file and the checkpoint item. Call this method after a complete import."""
        mark = self._mark_key()
        self._db.close()
        self.path.unlink(missing_ok=True)
        if self._table:
            self._table.delete(mark)


@contextmanager
def work_file(path: Path, settings: Mapping[str, object], table: Table | None = None) -> Iterator[WorkFile]:
    """Open a work file, and close it at the end of the block. The file remains if the import has begun."""
    work = WorkFile(path, settings, table)
    try:
        yield work
    finally:
        work.close()


def _identity(table: Table) -> list[Any]:
    """Return values that identify a table, and distinguish it from later tables of the same name.

    Costs one DescribeTable request. Raises ToolError if the request fails.
    """
    try:
        description: Any = table.client.describe_table(TableName=table.name)["Table"]
    except (BotoCoreError, ClientError) as error:
        raise ToolError(f"The table {table.name} cannot be described: {error}") from error
    return [table.name, description.get("TableId"), str(description["CreationDateTime"])]


def write_report(work: WorkFile, path: Path) -> None:
    """Write a file of JSON lines: the line number of each line that was not imported, and the reason.

    Creates no file if all lines were imported.
    """
    path.unlink(missing_ok=True)
    file = None
    try:
        for name, line, reason, detail in work.refused():
            file = file or path.open("w", encoding="utf-8")
            entry = {"file": name, "line": line, "reason": reason} | ({"detail": detail} if detail else {})
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")
    finally:
        if file:
            file.close()
