"""`python -m tools query`: statements, saved questions, pages of results, formats and costs."""

import io
import json
from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

from shared.core.periods import start_of
from shared.questions.runs import LEAST_BYTES
from shared.questions.saved import LARGEST_QUESTION, QUESTIONS
from tools import ToolError
from tools.__main__ import main
from tools.querying import (
    QueryResult,
    checked,
    print_cost,
    run_query,
    saved,
    show,
)

NOW = start_of("2026-06-30")
ROWS: Sequence[Sequence[str | None]] = (["alice", "2", "2026-06-01 10:00:00.120"], ["bob, the 2nd", None, None])
RESULT = QueryResult(["author", "changes", "at"], ["varchar", "bigint", "timestamp"], ROWS, 5)


class FakeAthena:
    """Athena with one query, whose states are `states`."""

    def __init__(self, *states: str) -> None:
        self._states = list(states)
        self.sent: dict[str, Any] = {}
        self.is_stopped = False

    def start_query_execution(self, **sent: Any) -> dict[str, str]:
        self.sent = sent
        return {"QueryExecutionId": "q1"}

    def get_query_execution(self, **_: str) -> dict[str, Any]:
        status = {"State": self._states.pop(0), "StateChangeReason": "Query exceeded limit"}
        return {"QueryExecution": {"Status": status, "Statistics": {"DataScannedInBytes": 20_000_000}}}

    def stop_query_execution(self, **_: str) -> None:
        self.is_stopped = True

    def get_paginator(self, _: str) -> "FakeAthena":
        return self

    def paginate(self, **_: str) -> list[dict[str, Any]]:
        metadata = {"ColumnInfo": [{"Name": "author", "Type": "varchar"}, {"Name": "at", "Type": "timestamp(3)"}]}
        pages = ([["author", "at"], ["a", "2026-06-01 10:00:00.000"]], [[None, "2026-06-01 10:00:00.120"]])
        return [
            {
                "ResultSet": {
                    "ResultSetMetadata": metadata,
                    "Rows": [{"Data": [_cell(cell) for cell in row]} for row in page],
                }
            }
            for page in pages
        ]


def _cell(value: str | None) -> dict[str, str]:
    return {} if value is None else {"VarCharValue": value}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1", "SELECT 1"),
        (" select ';' -- ; \n ;; ", "select ';' -- ;"),
        ("/* ; */ WITH t AS (SELECT 1) SELECT * FROM t", "/* ; */ WITH t AS (SELECT 1) SELECT * FROM t"),
        ("SELECT \"a;b\", 'it''s;'", "SELECT \"a;b\", 'it''s;'"),
    ],
)
def test_one_select_statement_is_accepted(sql: str, expected: str) -> None:
    assert checked(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "",
        ";",
        "DROP TABLE changes",
        "INSERT INTO changes SELECT 1",
        "-- SELECT\nUNLOAD (SELECT 1)",
        "SELECT 1; DROP TABLE x",
    ],
)
def test_other_statements_are_refused(sql: str) -> None:
    with pytest.raises(ToolError, match="one statement"):
        checked(sql)


def test_query_runs_in_the_workgroup_of_the_deployment_and_returns_all_pages() -> None:
    athena = FakeAthena("QUEUED", "RUNNING", "SUCCEEDED")
    result = run_query(athena, "VideoMetadata-prod", "SELECT 1;", sleep=lambda _: None)
    assert athena.sent == {
        "QueryString": "SELECT 1",
        "WorkGroup": "VideoMetadata-prod",
        "QueryExecutionContext": {"Database": "video_metadata_prod"},
    }
    assert result.rows == [["a", "2026-06-01 10:00:00"], [None, "2026-06-01 10:00:00.12"]]
    assert result.dollars == pytest.approx(0.0001)
    assert result._replace(bytes=1).dollars == result._replace(bytes=LEAST_BYTES).dollars == pytest.approx(0.00005)


@pytest.mark.parametrize(
    ("state", "cost"), [("FAILED", r"\.$"), ("CANCELLED", r"\. It cost \$0\.00010\.$")], ids=["failed", "cancelled"]
)
def test_query_that_does_not_succeed_is_an_error_with_its_reason_and_cost(state: str, cost: str) -> None:
    with pytest.raises(ToolError, match=f"{state.lower()}: Query exceeded limit{cost}"):
        run_query(FakeAthena(state), "VideoMetadata", "SELECT 1")


def test_interrupted_query_is_cancelled() -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    athena = FakeAthena("RUNNING")
    with pytest.raises(KeyboardInterrupt):
        run_query(athena, "VideoMetadata", "SELECT 1", sleep=interrupt)
    assert athena.is_stopped


@pytest.mark.parametrize(
    ("start", "end", "days"),
    [
        (None, None, ("2026-06-01", "2026-06-30")),
        (date(2026, 5, 1), None, ("2026-05-01", "2026-06-30")),
        (None, date(2026, 5, 31), ("2026-05-02", "2026-05-31")),
    ],
)
def test_saved_question_covers_the_last_30_days_or_the_given_ones(
    start: date | None, end: date | None, days: tuple[str, str]
) -> None:
    for name in QUESTIONS:
        sql = saved(name, start, end, NOW)
        assert f"day BETWEEN date '{days[0]}' AND date '{days[1]}'" in sql
        assert checked(sql) == sql


def test_saved_question_without_such_a_name_or_with_reversed_days_is_refused() -> None:
    with pytest.raises(ToolError, match=r"(?s)saved question 'x' does not exist.*top-editors: users with most changes"):
        saved("x", None, None, NOW)
    with pytest.raises(ToolError, match="--from 2026-07-01 is after --to 2026-06-30"):
        saved("deletions", date(2026, 7, 1), None, NOW)


@pytest.mark.parametrize(
    ("format_", "expected"),
    [
        ("csv", 'author,changes,at\nalice,2,2026-06-01 10:00:00.120\n"bob, the 2nd",,\n'),
        (
            "json",
            '[\n  {\n    "author": "alice",\n    "changes": 2,\n    "at": "2026-06-01 10:00:00.120"\n  },\n'
            '  {\n    "author": "bob, the 2nd",\n    "changes": null,\n    "at": null\n  }\n]\n',
        ),
    ],
)
def test_result_is_written_as_csv_and_json(format_: str, expected: str) -> None:
    out = io.StringIO()
    show(RESULT, format_, out)
    assert out.getvalue() == expected


def test_json_has_values_that_json_lacks_as_text() -> None:
    out = io.StringIO()
    values = ["NaN", "-Infinity", "1.5E3", "true"]
    show(QueryResult("abcd", ["double", "double", "double", "boolean"], [values], 0), "json", out)
    assert json.loads(out.getvalue()) == [{"a": "NaN", "b": "-Infinity", "c": 1500, "d": True}]


def test_json_with_two_columns_of_one_name_is_refused() -> None:
    with pytest.raises(ToolError, match="Rename one of them with AS"):
        show(QueryResult(["a", "a"], ["bigint"] * 2, [["1", "2"]], 0), "json", io.StringIO())


def test_days_with_free_sql_are_refused() -> None:
    assert main(["query", "--table", "VideoMetadata", "SELECT 1", "--from", "2026-06-01"]) == 1


@pytest.mark.parametrize(("rows", "has_note"), [(LARGEST_QUESTION, True), (LARGEST_QUESTION - 1, False)])
def test_result_that_may_be_cut_by_a_limit_has_a_note(
    rows: int, has_note: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    print_cost(RESULT._replace(rows=[["a"]] * rows))
    assert ("may have more rows" in capsys.readouterr().err) == has_note


@pytest.mark.parametrize("name", ["deletions", "new-titles", "published"])
def test_saved_list_returns_the_newest_rows(name: str) -> None:
    assert QUESTIONS[name].sql.endswith(f"ORDER BY changed_at DESC, change_id LIMIT {LARGEST_QUESTION}")


def test_table_shows_long_values_whole() -> None:
    out = io.StringIO()
    row = [f"{column}{'x' * 100} :star: [b]" for column in range(5)]
    show(QueryResult([*"abcde"], ["varchar"] * 5, [row], 0), "table", out)
    assert [cell.strip() for cell in out.getvalue().splitlines()[1].split("  ")] == row


def test_result_is_written_as_a_table() -> None:
    out = io.StringIO()
    show(RESULT, "table", out)
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert lines == [["author", "changes", "at"], ["alice", "2", "2026-06-01", "10:00:00.120"], ["bob,", "the", "2nd"]]
