"""`python -m tools query`: runs SQL over the archive, in Athena or, on a laptop, in the embedded AWS."""

import csv
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from datetime import date
from typing import IO, Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.table import Table as Grid

from shared.archive_tables import database_of, workgroup_of
from shared.questions.runs import dollars, rows_of
from shared.questions.saved import LARGEST_QUESTION, QUESTIONS, days_of
from tools import ToolError

FORMATS = ("table", "csv", "json")
POLL_SECONDS = 0.3
"""Seconds between two requests for the state of a query."""
_WIDTH = 10**6
"""Width of the printed table in characters. In a narrower table, Rich would truncate long values."""
_NUMBERS = ("integer", "bigint", "smallint", "tinyint", "double", "float", "real", "decimal")

_TOKENS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|;|\w+", re.DOTALL)


class QueryResult(NamedTuple):
    """Result of a query."""

    columns: Sequence[str]
    types: Sequence[str]
    rows: Sequence[Sequence[str | None]]
    """Values as text; `None` for null."""
    bytes: int
    """Bytes that Athena read."""

    @property
    def dollars(self) -> float:
        """Cost of the query in US dollars."""
        return dollars(self.bytes)


def saved(name: str, start: date | None, end: date | None, now: float) -> str:
    """Return the SQL of a saved question for the days from `start` to `end`, which are inclusive.

    Raises ToolError for an unknown name, or if `start` is after `end`.
    """
    if name not in QUESTIONS:
        known = "\n".join(f"  {known}: {question.meaning}" for known, question in QUESTIONS.items())
        raise ToolError(f"The saved question {name!r} does not exist. The saved questions are:\n{known}")
    first, last = days_of(start, end, now)
    if first > last:
        raise ToolError(f"--from {first} is after --to {last}.")
    return QUESTIONS[name].covering(first, last)


def checked(sql: str) -> str:
    """Return `sql` without semicolons at the end. Raises ToolError unless it is one SELECT statement.

    Athena itself refuses several statements. The caller's permissions limit what the statement can read.
    """
    tokens = [match for match in _TOKENS.finditer(sql) if not match[0].startswith(("--", "/*"))]
    while tokens and tokens[-1][0] == ";":
        sql = sql[: tokens.pop().start()]
    if not tokens or tokens[0][0].lower() not in ("select", "with"):
        raise ToolError("The query must be one statement that begins with SELECT or WITH.")
    if any(token[0] == ";" for token in tokens):
        raise ToolError("The query must be one statement. Remove the semicolon.")
    return sql.strip()


def run_query(athena: Any, table: str, sql: str, *, sleep: Callable[[float], None] = time.sleep) -> QueryResult:
    """Run a query in the workgroup of a deployment, and return all rows. `table` is the name of the main table.

    Raises ToolError if the query fails. An interrupt cancels the query.
    """
    try:
        id_ = athena.start_query_execution(
            QueryString=checked(sql),
            WorkGroup=workgroup_of(table),
            QueryExecutionContext={"Database": database_of(table)},
        )["QueryExecutionId"]
        try:
            bytes_ = _wait(athena, id_, sleep)
        except KeyboardInterrupt:
            athena.stop_query_execution(QueryExecutionId=id_)
            raise
        pages = list(athena.get_paginator("get_query_results").paginate(QueryExecutionId=id_))
    except (BotoCoreError, ClientError) as error:
        raise ToolError(f"Athena returned an error: {error}") from error
    return QueryResult(*rows_of(pages), bytes_)


def _wait(athena: Any, id_: str, sleep: Callable[[float], None]) -> int:
    """Wait until a query has succeeded, and return the bytes that it read. Raises ToolError if it failed."""
    while True:
        execution = athena.get_query_execution(QueryExecutionId=id_)["QueryExecution"]
        status = execution["Status"]
        bytes_ = int(execution.get("Statistics", {}).get("DataScannedInBytes", 0))
        if status["State"] == "SUCCEEDED":
            return bytes_
        if status["State"] in ("FAILED", "CANCELLED"):
            reason = status.get("StateChangeReason") or "no reason was given"
            # Athena charges for a cancelled query, but not for a failed one.
            cost = f" It cost ${dollars(bytes_):.5f}." if status["State"] == "CANCELLED" else ""
            raise ToolError(f"The query was {status['State'].lower()}: {reason}.{cost}")
        sleep(POLL_SECONDS)


def show(result: QueryResult, format_: str, out: IO[str]) -> None:
    """Write a result as a table, as CSV with a header, or as a JSON list with one object per row. Raises ToolError for
    JSON if two columns have the same name."""
    if format_ == "csv":
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(result.columns)
        writer.writerows(result.rows)
    elif format_ == "json":
        if len(set(result.columns)) < len(result.columns):
            raise ToolError("Two columns have the same name. Rename one of them with AS.")
        kinds = [type_.partition("(")[0] for type_ in result.types]
        rows = [
            {name: _value(value, kind) for name, kind, value in zip(result.columns, kinds, row, strict=True)}
            for row in result.rows
        ]
        out.write(json.dumps(rows, ensure_ascii=False, indent=2) + "\n")
    else:
        grid = Grid(*result.columns, box=None, header_style="bold")
        for row in result.rows:
            grid.add_row(*("" if value is None else value for value in row))
        # The console is wide enough for each value, because rich would otherwise cut values.
        Console(file=out, highlight=False, markup=False, emoji=False, width=_WIDTH, soft_wrap=True).print(grid)


def _value(text: str | None, type_: str) -> Any:
    if text is None or type_ not in (*_NUMBERS, "boolean"):
        return text
    try:
        return json.loads(text.lower())
    except ValueError:  # NaN and Infinity, which JSON lacks
        return text


def print_cost(result: QueryResult) -> None:
    """Print the number of rows, and the cost of the query, to the standard error."""
    rows = f"{len(result.rows):,} row{'' if len(result.rows) == 1 else 's'}"
    print(f"{rows}, {result.bytes / 1e6:,.1f} MB read: ${result.dollars:.5f}", file=sys.stderr)
    if len(result.rows) == LARGEST_QUESTION:
        print("The result may have more rows. A saved question returns the newest ones.", file=sys.stderr)
