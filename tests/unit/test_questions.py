"""Saved questions in the API: starts of runs, their results, and the errors that clients receive."""

import re
from typing import Any

import pytest

from local import ROOT
from local.testbed.athena import FakeAthena
from local.testbed.harness import Api, Reply, make_api
from shared.aws.dynamodb import Table
from shared.questions.runs import CANCELLED, FAILED
from shared.questions.saved import LARGEST_QUESTION, QUESTIONS, days_in
from shared.schema import TABLE_NAME

RUNS = "/v1/questions/top-editors/runs"
DAYS = "from=2026-06-01&to=2026-06-30"


@pytest.fixture
def athena() -> FakeAthena:
    return FakeAthena()


@pytest.fixture
def service(table: Table, athena: FakeAthena) -> Api:
    return make_api(table, athena=athena)


def start(service: Api, query: str = DAYS, key: str | None = None, user: str = "admin", path: str = RUNS) -> Reply:
    headers = {"Idempotency-Key": key} if key else {}
    return service.post(path, query=query, headers=headers, user=user, scopes="videos/admin")


def read(service: Api, run_id: str, path: str = RUNS) -> Reply:
    return service.get(f"{path}/{run_id}", user="admin")


def test_list_has_each_question_with_its_columns_and_chart(service: Api) -> None:
    items = service.get("/v1/questions", user="admin").json["items"]
    assert [item["question"] for item in items] == list(QUESTIONS)
    assert items[0] == {
        "question": "top-editors",
        "title": "users with most changes",
        "columns": [
            {"name": "author", "type": "string"},
            {"name": "changes", "type": "bigint"},
            {"name": "videos", "type": "bigint"},
        ],
        "chart": {"labels": "author", "numbers": "changes"},
    }


def test_console_has_a_title_of_each_question_and_a_name_of_each_column() -> None:
    texts = (ROOT / "console" / "texts" / "en.js").read_text(encoding="utf-8").partition("    questions: {")[2]
    names = {*QUESTIONS, *(column for question in QUESTIONS.values() for column in question.columns)}
    assert {name for name in names if not re.search(rf'^        "?{name}"?: "', texts, re.MULTILINE)} == set()


@pytest.mark.parametrize("name", QUESTIONS)
def test_chart_of_a_question_has_a_label_and_a_number(name: str) -> None:
    question = QUESTIONS[name]
    if question.chart:
        labels, numbers = question.chart
        assert (question.columns[labels], question.columns[numbers]) in (("string", "bigint"), ("date", "bigint"))


def test_run_starts_the_saved_sql_in_the_workgroup_of_the_deployment(service: Api, athena: FakeAthena) -> None:
    reply = start(service)
    (started,) = athena.started.values()
    assert (reply.status, reply.json["state"], reply.json["rows"]) == (202, "queued", [])
    assert reply.headers["location"] == f"runs/{reply.json['runId']}"
    sql = started.pop("QueryString")
    assert "day BETWEEN date '2026-06-01' AND date '2026-06-30'" in sql
    assert started == {"WorkGroup": TABLE_NAME, "QueryExecutionContext": {"Database": "video_metadata"}}


def test_run_without_days_covers_the_last_30_days(service: Api) -> None:
    run = start(service, "").json
    assert (run["from"], run["to"]) == ("2025-05-17", "2025-06-15")


def test_default_first_day_is_never_before_the_first_day_of_the_calendar(service: Api) -> None:
    run = start(service, "to=0001-01-05").json
    assert (run["from"], run["to"]) == ("0001-01-01", "0001-01-05")


def test_finished_run_has_typed_rows_and_its_cost(service: Api, athena: FakeAthena) -> None:
    athena.rows = [("alice", "3", "2"), (None, "1", None)]
    run = read(service, start(service).json["runId"]).json
    assert (run["state"], run["error"], run["more"]) == ("succeeded", None, False)
    assert run["rows"] == [["alice", 3, 2], [None, 1, None]]
    assert (run["bytes"], run["dollars"]) == (20_000_000, 0.0001)
    assert (run["question"], run["from"], run["to"]) == ("top-editors", "2026-06-01", "2026-06-30")


@pytest.mark.parametrize(
    ("state", "shown", "error", "dollars"),
    [
        ("QUEUED", "queued", None, 0),
        ("RUNNING", "running", None, 0),
        ("FAILED", "failed", FAILED, 0),
        ("CANCELLED", "failed", CANCELLED, 0.0001),
    ],
)
def test_run_without_a_result_has_a_state_the_services_own_reason_and_its_cost(
    service: Api, athena: FakeAthena, state: str, shown: str, error: str | None, dollars: float
) -> None:
    athena.state = state
    run = read(service, start(service).json["runId"]).json
    assert (run["state"], run["error"], run["rows"], run["dollars"]) == (shown, error, [], dollars)


@pytest.mark.parametrize(("rows", "more"), [(LARGEST_QUESTION - 1, False), (LARGEST_QUESTION, True), (2500, True)])
def test_run_returns_at_most_1000_rows_and_says_so(service: Api, athena: FakeAthena, rows: int, more: bool) -> None:
    athena.rows = [("a", str(number), "1") for number in range(rows)]
    run = read(service, start(service).json["runId"]).json
    assert [row[1] for row in run["rows"]] == list(range(min(rows, LARGEST_QUESTION)))
    assert run["more"] is more


def test_repeated_request_with_a_key_returns_the_first_run(service: Api, athena: FakeAthena) -> None:
    runs = [start(service, key=key, user=user).json["runId"] for key, user in (("k", "a"), ("k", "a"), ("k", "b"))]
    assert len(athena.started) == 2
    assert runs[0] == runs[1] != runs[2]
    other = start(service, "from=2026-06-02&to=2026-06-30", key="k", user="a")
    assert (other.status, other.slug) == (422, "idempotency-key-reused")


def test_request_with_a_key_must_have_a_last_day_so_that_a_retry_on_the_next_day_returns_the_first_run(
    service: Api, athena: FakeAthena
) -> None:
    reply = start(service, "from=2026-06-01", key="k")
    assert (reply.status, [error["parameter"] for error in reply.json["errors"]]) == (400, ["to"])
    assert not athena.started
    first = start(service, "to=2026-06-30", key="k").json
    service.clock.advance(24 * 3600)
    assert start(service, "to=2026-06-30", key="k").json == first


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("from=2026-06-02&to=2026-06-01", "from"),
        ("from=2026-02-30", "from"),
        ("to=20260601", "to"),
        ("to=2026-06-01T00:00:00Z", "to"),
        ("sql=SELECT", "sql"),
    ],
)
def test_days_that_are_invalid_or_reversed_are_refused(
    service: Api, athena: FakeAthena, query: str, parameter: str
) -> None:
    reply = start(service, query)
    assert (reply.status, [error["parameter"] for error in reply.json["errors"]]) == (400, [parameter])
    assert not athena.started


def test_unknown_question_is_not_found(service: Api) -> None:
    assert start(service, path="/v1/questions/drop-tables/runs").status == 404


@pytest.mark.parametrize(
    "change",
    [
        {"WorkGroup": "primary"},
        {"QueryString": "SELECT author FROM changes WHERE day BETWEEN date '2026-06-01' AND date '2026-06-30'"},
        {"QueryString": "SELECT 1"},
    ],
    ids=["another workgroup", "another query", "a query without days"],
)
def test_run_of_another_question_query_or_workgroup_is_not_found(
    service: Api, athena: FakeAthena, change: dict[str, Any]
) -> None:
    run_id = start(service).json["runId"]
    assert read(service, run_id, "/v1/questions/release-editors/runs").status == 404
    athena.started[run_id] = {**athena.started[run_id], **change}
    assert read(service, run_id).status == 404


@pytest.mark.parametrize(
    ("operation", "code", "status"),
    [
        ("GetQueryExecution", "AccessDeniedException", 404),
        ("GetQueryExecution", "ThrottlingException", 503),
        ("GetQueryResults", "TooManyRequestsException", 503),
        ("GetQueryResults", "InvalidRequestException", 410),
        ("GetQueryResults", "AccessDeniedException", 500),
    ],
)
def test_error_of_athena_is_an_error_in_the_services_own_words(
    service: Api, athena: FakeAthena, operation: str, code: str, status: int
) -> None:
    run_id = start(service).json["runId"]
    athena.errors = {operation: code}
    reply = read(service, run_id)
    assert reply.status == status
    assert reply.headers.get("retry-after") == ("5" if status == 503 else None)
    assert b"such thing" not in reply.body


def test_throttled_start_has_retry_after(service: Api, athena: FakeAthena) -> None:
    athena.errors = {"StartQueryExecution": "TooManyRequestsException"}
    reply = start(service)
    assert (reply.status, reply.headers["retry-after"]) == (503, "5")


def test_days_that_do_not_exist_are_no_days_of_a_question() -> None:
    assert days_in("day BETWEEN date '2026-06-01' AND date '2026-06-31'") is None
