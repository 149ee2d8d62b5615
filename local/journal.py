"""Crash-safe SQLite file with the data of the embedded AWS: table items, stream records and positions of consumers."""

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from pathlib import Path

_TABLES = """
CREATE TABLE IF NOT EXISTS item (tab TEXT, pk TEXT, sk TEXT, item TEXT NOT NULL, PRIMARY KEY (tab, pk, sk));
CREATE TABLE IF NOT EXISTS record (stream TEXT, position INTEGER, record TEXT NOT NULL, PRIMARY KEY (stream, position));
CREATE TABLE IF NOT EXISTS reader (id TEXT PRIMARY KEY, stream TEXT NOT NULL, position INTEGER NOT NULL);
"""

ItemRow = tuple[str, str, str, str | None]
"""Row for an item: id of the table, partition key, sort key, and the item as JSON. The JSON is `None` if the item was
deleted."""
RecordRow = tuple[str, int, str]
"""Row for a stream record: ARN of the stream, position of the record, and the record as JSON."""
ReaderRow = tuple[str, str, int]
"""Row for a reader: id of the event source mapping, ARN of the stream that it reads, and position of the first unread
record."""


class Journal:
    """Store of items, unread stream records, and positions of readers.

    Each method that writes uses one transaction. The data is on disk when the method returns.
    """

    def __init__(self, path: Path) -> None:
        # Threads use the connection one at a time.
        self._db = sqlite3.connect(path, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.executescript(_TABLES)

    def write(self, items: Iterable[ItemRow], records: Iterable[RecordRow], emptied: Collection[str] = ()) -> None:
        """Delete all items of the tables in `emptied`, then store items and records."""
        with self._db:
            self._db.executemany("DELETE FROM item WHERE tab = ?", [(table,) for table in emptied])
            for table, pk, sk, item in items:
                if item is None:
                    self._db.execute("DELETE FROM item WHERE tab = ? AND pk = ? AND sk = ?", (table, pk, sk))
                else:
                    self._db.execute("INSERT OR REPLACE INTO item VALUES (?, ?, ?, ?)", (table, pk, sk, item))
            self._db.executemany("INSERT OR REPLACE INTO record VALUES (?, ?, ?)", records)

    def advance(self, readers: Collection[ReaderRow]) -> None:
        """Store the positions of readers, and delete the records that all readers of a stream have read."""
        with self._db:
            self._db.execute("DELETE FROM reader")
            self._db.executemany("INSERT INTO reader VALUES (?, ?, ?)", readers)
            self._db.execute(
                "DELETE FROM record WHERE position < "
                "coalesce((SELECT min(position) FROM reader WHERE reader.stream = record.stream), position + 1)"
            )

    def keep_only(self, tables: Collection[str]) -> None:
        """Delete the items of all tables that are not in `tables`."""
        with self._db:
            known = {table for (table,) in self._db.execute("SELECT DISTINCT tab FROM item")}
            self._db.executemany("DELETE FROM item WHERE tab = ?", [(table,) for table in known - set(tables)])

    def items(self, table: str) -> Iterator[tuple[str, str, str]]:
        """Yield partition key, sort key and JSON of each item of a table."""
        with closing(self._db.execute("SELECT pk, sk, item FROM item WHERE tab = ?", (table,))) as rows:
            yield from rows

    def records(self, stream: str) -> list[tuple[int, str]]:
        """Return position and JSON of each record of a stream, oldest first."""
        records = self._db.execute("SELECT position, record FROM record WHERE stream = ? ORDER BY position", (stream,))
        return records.fetchall()

    def readers(self) -> list[ReaderRow]:
        """Return the position of each reader."""
        return self._db.execute("SELECT id, stream, position FROM reader").fetchall()

    def close(self) -> None:
        """Close the database. SQLite then removes the write-ahead log, so only the database file remains."""
        self._db.close()
