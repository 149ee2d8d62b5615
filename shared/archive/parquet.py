"""Parquet files of the SQL tables, written by DuckDB."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from shared.archive_tables import ArchiveTable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Row = Mapping[str, Any]
"""Row of a table. Maps column names to values. Times are in epoch milliseconds. Columns without a value are null."""

CONTENT_TYPE = "application/vnd.apache.parquet"
MEMORY = "700MB"
"""Maximum memory of DuckDB. `merge` needs about 430 MB, for 1 million and for 8 million existing rows."""
_TYPES = {"string": "VARCHAR", "bigint": "BIGINT", "double": "DOUBLE", "timestamp": "TIMESTAMP", "date": "DATE"}


def write_rows(file: Path, rows: Iterable[Row]) -> None:
    """Write rows as JSON lines, which `merge` and `write_table` read."""
    with file.open("w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


def write_table(
    table: ArchiveTable, output: Path, query: str, inputs: Mapping[str, str], values: Mapping[str, str] | None = None
) -> None:
    """Write the result of an SQL query to the Parquet file `output`. The query can read the tables in `inputs`, which
    maps each table's name to the SQL expression of its rows. `values` maps the names of the query's `$name` parameters
    to their values."""
    names = ", ".join(column.name for column in table.columns)
    write_result(output, f"SELECT {names} FROM ({query})", inputs, values)


def write_result(output: Path, query: str, inputs: Mapping[str, str], values: Mapping[str, str] | None = None) -> None:
    """Write all columns of the result of an SQL query to the Parquet file `output`.

    `inputs` maps the name of each table that the query can read to the SQL expression of its rows. `values` maps the
    names of the query's `$name` parameters to their values.
    """
    views = ", ".join(f"{name} AS (SELECT * FROM {source})" for name, source in inputs.items())
    with _engine(output.parent) as engine:
        engine.execute(
            f"COPY (WITH {views} {query}) TO '{output}' (FORMAT parquet, COMPRESSION zstd)", dict(values or {})
        )


def merge(table: ArchiveTable, new: Path, existing: Path | None, output: Path) -> None:
    """Write the existing rows, and after them the new rows in order of time, to the Parquet file `output`.

    `existing` is a Parquet file, or `None` if there are no rows yet. `new` is a file of JSON lines from `write_rows`.
    New rows replace all existing rows with the same `change_id`. The existing rows are streamed. They are not sorted
    again, because sorting millions of rows exceeds MEMORY.
    """
    inputs, query = {"new": rows_of(table, new)}, "(SELECT * FROM new ORDER BY changed_at, change_id)"
    if existing:
        inputs["existing"] = f"read_parquet('{existing}')"
        kept = "SELECT * FROM existing WHERE change_id NOT IN (SELECT change_id FROM new)"
        query = f"{kept} UNION ALL BY NAME {query}"
    write_table(table, output, query, inputs)


def has_rows(file: Path, condition: str, values: Mapping[str, str]) -> bool:
    """Return whether any row of a Parquet file meets an SQL condition. `values` maps the names of the condition's
    `$name` parameters to their values."""
    return bool(select(file, f"SELECT 1 FROM file WHERE {condition} LIMIT 1", values))


def select(file: Path, query: str, values: Mapping[str, str] | None = None) -> list[tuple[Any, ...]]:
    """Return the rows of an SQL query. The query reads one Parquet file as the table `file`. `values` maps the names of
    the query's `$name` parameters to their values."""
    with _engine(file.parent) as engine:
        return engine.execute(f"WITH file AS (FROM read_parquet('{file}')) {query}", dict(values or {})).fetchall()


def rows_of(table: ArchiveTable, file: Path) -> str:
    """Return an SQL expression for the rows in a file of JSON lines from `write_rows`. It converts times from epoch
    milliseconds."""
    types = {column.name: "BIGINT" if column.type == "timestamp" else _TYPES[column.type] for column in table.columns}
    columns = ", ".join(f"'{name}': '{type_}'" for name, type_ in types.items())
    times = ", ".join(
        f"make_timestamp({column.name} * 1000) AS {column.name}"
        for column in table.columns
        if column.type == "timestamp"
    )
    replaced = f" REPLACE ({times})" if times else ""
    return (
        f"(SELECT *{replaced} FROM read_json('{file}', format = 'newline_delimited', columns = {{{columns}}}, "
        "maximum_object_size = 67108864))"
    )


@contextmanager
def _engine(folder: Path) -> Iterator["DuckDBPyConnection"]:
    """Open an empty database in memory, with temporary files in `folder`. DuckDB never downloads extensions, because
    its package includes Parquet and JSON."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False,
        "memory_limit": MEMORY,
        "temp_directory": str(folder),
        "threads": 2,
    }
    with duckdb.connect(":memory:", config=settings) as engine:
        yield engine
