"""What an import has to remember while it runs, in a file, so that it can be broken off anywhere and go on."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tools import ToolError
from tools.lines import Mark

_TABLES = """
CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS mark (file TEXT PRIMARY KEY, line INTEGER NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS seen (file TEXT, id TEXT, PRIMARY KEY (file, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS name (id TEXT PRIMARY KEY, name TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outcome (file TEXT, what TEXT, n INTEGER NOT NULL, PRIMARY KEY (file, what));
CREATE TABLE IF NOT EXISTS refused
    (file TEXT, line INTEGER, reason TEXT NOT NULL, detail TEXT NOT NULL, PRIMARY KEY (file, line));
"""


class WorkFile:
    """One import's memory, in SQLite. What is written between two `commit`s is kept together or not at all."""

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        """Open or begin one; raises ToolError when it belongs to an import with other settings."""
        self.path = path
        try:
            self._db = sqlite3.connect(path, timeout=0)
            # What is locked once stays so until the file is closed: two imports would mix up their marks.
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("BEGIN EXCLUSIVE")
            self._db.executescript(_TABLES)
            self._check(json.dumps(settings, sort_keys=True))
        except sqlite3.Error as error:
            if "locked" in str(error):
                raise ToolError(f"{path} is in use: another import of this folder is running.") from error
            raise ToolError(f"{path} cannot be used as the state file: {error}.") from error

    def _check(self, settings: str) -> None:
        self._db.execute("INSERT OR IGNORE INTO setting VALUES ('settings', ?)", (settings,))
        self._db.commit()
        ((found,),) = self._db.execute("SELECT value FROM setting WHERE name = 'settings'")
        if found != settings:
            self._db.close()
            raise ToolError(
                f"{self.path} belongs to an import with other options, which was broken off: go on with those, "
                "delete it, or name another with --state."
            )

    def mark(self, file: str) -> Mark:
        """How far a file has been carried out."""
        row = self._db.execute("SELECT line, checksum FROM mark WHERE file = ?", (file,)).fetchone()
        return Mark(*row) if row else Mark()

    def commit(self, file: str, mark: Mark, outcomes: Mapping[str, int]) -> None:
        """Remember that everything up to the mark is done."""
        self._db.execute("INSERT OR REPLACE INTO mark VALUES (?, ?, ?)", (file, mark.line, mark.checksum))
        self._db.executemany(
            "INSERT INTO outcome VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n",
            [(file, what, n) for what, n in outcomes.items()],
        )
        self._db.commit()

    def forget(self, file: str) -> None:
        """Begin a file anew."""
        for table in ("mark", "seen", "outcome", "refused"):
            self._db.execute(f"DELETE FROM {table} WHERE file = ?", (file,))
        self._db.commit()

    def see(self, file: str, title: str) -> bool:
        """Remember that a file's rows of a title were met; False if they were before."""
        return self._db.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (file, title)).rowcount == 1

    def has_seen(self, file: str, title: str) -> bool:
        """Whether a file's rows of a title were met."""
        found = self._db.execute("SELECT 1 FROM seen WHERE file = ? AND id = ?", (file, title))
        return found.fetchone() is not None

    def add_names(self, names: Iterable[tuple[str, str]]) -> None:
        """Remember the names of people, by id."""
        self._db.executemany("INSERT OR REPLACE INTO name VALUES (?, ?)", names)

    def name(self, person: str) -> str | None:
        """A person's name."""
        row = self._db.execute("SELECT name FROM name WHERE id = ?", (person,)).fetchone()
        return str(row[0]) if row else None

    def refuse(self, file: str, line: int, reason: str, detail: str = "") -> None:
        """Remember why a line was not imported; once, however often it is met."""
        self._db.execute("INSERT OR REPLACE INTO refused VALUES (?, ?, ?, ?)", (file, line, reason, detail))

    def refused(self) -> Iterator[tuple[str, int, str, str]]:
        """File, line, reason and detail of everything that was not imported."""
        yield from self._db.execute("SELECT file, line, reason, detail FROM refused ORDER BY file, line")

    def refused_by_reason(self) -> list[tuple[str, str, int]]:
        """File, reason and how often, the most frequent first."""
        counted = self._db.execute(
            "SELECT file, reason, COUNT(*) FROM refused GROUP BY file, reason ORDER BY COUNT(*) DESC, file, reason"
        )
        return counted.fetchall()

    def outcomes(self) -> dict[str, dict[str, int]]:
        """How often what happened, by file."""
        found: dict[str, dict[str, int]] = {}
        for file, what, n in self._db.execute("SELECT file, what, n FROM outcome ORDER BY rowid"):
            found.setdefault(file, {})[what] = n
        return found

    def close(self) -> None:
        """Keep the file for the next run, if there is anything to go on with."""
        try:
            begun = self._db.execute("SELECT 1 FROM mark WHERE line > 0").fetchone() is not None
        except sqlite3.Error:  # closed already, or damaged
            begun = True
        self._db.close()
        if not begun:
            self.path.unlink(missing_ok=True)

    def remove(self) -> None:
        """The import is complete: there is nothing to go on with."""
        self._db.close()
        self.path.unlink(missing_ok=True)


@contextmanager
def work_file(path: Path, settings: Mapping[str, object]) -> Iterator[WorkFile]:
    """A work file that stays when the block raises."""
    work = WorkFile(path, settings)
    try:
        yield work
    finally:
        work.close()


def write_report(work: WorkFile, path: Path) -> None:
    """What was not imported and why, one JSON object a line; no file when there is nothing to report."""
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
