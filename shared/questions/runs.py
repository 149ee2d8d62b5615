"""Runs of saved questions on Athena, and the parts of Athena's responses that the tools also read."""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from shared.archive_tables import database_of, workgroup_of
from shared.core.errors import Gone, InternalError, KeyReused, NotFound, ServiceError, Unavailable
from shared.questions.saved import LARGEST_QUESTION, QUESTIONS, SavedQuestion, days_in

DOLLARS_PER_TB = 5.0
LEAST_BYTES = 10_000_000
"""Minimum number of bytes that Athena charges for a query."""
LARGEST_PAGE = 1000
"""Maximum number of rows of one response (Athena's limit). The first row of the first response has the names of the
columns."""
RETRY_SECONDS = 5
"""Seconds after which a client may repeat a request that Athena throttled."""
FAILED = "The query failed. Run the question again. If it fails again, report the id of the run to the operator."
CANCELLED = (
    "The query was cancelled, because it read more data than the limit or an operator stopped it. Choose fewer days."
)

_STATES = {
    "QUEUED": "queued",
    "RUNNING": "running",
    "SUCCEEDED": "succeeded",
    "FAILED": "failed",
    "CANCELLED": "failed",
}
_THROTTLED = ("TooManyRequestsException", "ThrottlingException")


class ResultRows(NamedTuple):
    """Rows of a query, with the names and Athena's types of their columns."""

    columns: Sequence[str]
    types: Sequence[str]
    rows: Sequence[Sequence[str | None]]
    """Values as text; `None` for null."""


def rows_of(pages: Iterable[Any]) -> ResultRows:
    """Return the result of a query from all its responses to GetQueryResults. Omits the first row of the first
    response, which contains the names of the columns."""
    first, *further = pages
    described = first["ResultSet"]["ResultSetMetadata"]["ColumnInfo"]
    columns, types = ([column[part] for column in described] for part in ("Name", "Type"))
    _, *listed = (row["Data"] for page in (first, *further) for row in page["ResultSet"]["Rows"])
    rows = [
        [_text(value.get("VarCharValue"), type_) for value, type_ in zip(row, types, strict=True)] for row in listed
    ]
    return ResultRows(columns, types, rows)


def _text(value: str | None, type_: str) -> str | None:
    """Return a value, without the zeros at the end of a timestamp's fraction. Athena appends these zeros, and DuckDB
    does not."""
    return value.rstrip("0").rstrip(".") if value and type_.startswith("timestamp") and "." in value else value


def dollars(bytes_: int) -> float:
    """Return the cost in US dollars of a query that read this number of bytes."""
    return max(bytes_, LEAST_BYTES) / 1e12 * DOLLARS_PER_TB


class QuestionRuns:
    """Runs of saved questions in the workgroup of a deployment. `table` is the name of the main table."""

    def __init__(self, athena: Any, table: str) -> None:
        self._athena = athena
        self._workgroup, self._database = workgroup_of(table), database_of(table)

    def start(self, name: str, first: date, last: date, key: Sequence[str] = ()) -> dict[str, Any]:
        """Run a question about the days from `first` to `last`, and return the document of the queued run.

        A later call with an equal `key` starts no query, and returns the document of the first run. Raises NotFound for
        an unknown question, KeyReused if the first call had another question or other days, and Unavailable.
        """
        sql = _question(name).covering(first, last)
        token = {"ClientRequestToken": hashlib.sha256(json.dumps(key).encode()).hexdigest()} if key else {}
        reply = self._send(
            self._athena.start_query_execution,
            _refused_start,
            QueryString=sql,
            WorkGroup=self._workgroup,
            QueryExecutionContext={"Database": self._database},
            **token,
        )
        return _document(reply["QueryExecutionId"], name, (first, last), "QUEUED")

    def read(self, name: str, run_id: str) -> dict[str, Any]:
        """Return the document of a run, with at most LARGEST_QUESTION rows.

        Raises NotFound if the workgroup has no run of this question with this id, and Gone if the run's result is
        deleted. Raises Unavailable if Athena is unavailable or busy.
        """
        question = _question(name)
        execution = self._send(self._athena.get_query_execution, _refused_run, QueryExecutionId=run_id)[
            "QueryExecution"
        ]
        days = days_in(execution["Query"])
        if execution["WorkGroup"] != self._workgroup or not days or question.covering(*days) != execution["Query"]:
            raise NotFound.of("run")
        status = execution["Status"]["State"]
        rows: list[list[str | int | None]] = []
        if status == "SUCCEEDED":
            kinds = list(question.columns.values())
            rows = [[_value(*cell) for cell in zip(row, kinds, strict=True)] for row in self._rows(run_id)]
        bytes_ = int(execution.get("Statistics", {}).get("DataScannedInBytes", 0))
        return _document(run_id, name, days, status, rows, bytes_)

    def _rows(self, run_id: str) -> Sequence[Sequence[str | None]]:
        """Return the first LARGEST_QUESTION rows of a result. Raises Gone and Unavailable."""
        pages: list[Any] = []
        token: dict[str, str] = {}
        while not pages or (token and len(pages) * LARGEST_PAGE <= LARGEST_QUESTION):
            request = {"QueryExecutionId": run_id, "MaxResults": LARGEST_PAGE} | token
            pages.append(self._send(self._athena.get_query_results, _refused_result, **request))
            token = {"NextToken": pages[-1]["NextToken"]} if pages[-1].get("NextToken") else {}
        return rows_of(pages).rows[:LARGEST_QUESTION]

    @staticmethod
    def _send(
        request: Callable[..., Any], refusal: Callable[[str, str], ServiceError | None], **parameters: Any
    ) -> Any:
        """Send a request, and return the response.

        Raises Unavailable for a transient error. For any other error, calls `refusal` with Athena's error code and
        message, and raises its result. Raises InternalError if the result is `None`.
        """
        try:
            return request(**parameters)
        except BotoCoreError as error:
            raise Unavailable("Athena is unavailable.", retry_after=RETRY_SECONDS) from error
        except ClientError as error:
            code, message = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
            if code in _THROTTLED or error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500:
                raise Unavailable("Athena is busy.", retry_after=RETRY_SECONDS) from error
            raise refusal(code, message) or InternalError(f"Athena refused a request with {code}.") from error


def _document(
    run_id: str,
    name: str,
    days: tuple[date, date],
    status: str,
    rows: Sequence[Sequence[str | int | None]] = (),
    bytes_: int = 0,
) -> dict[str, Any]:
    """Return the document of a run. `status` is Athena's state of the query."""
    # Athena charges for a cancelled query, but not for a failed one.
    is_charged = status in ("SUCCEEDED", "CANCELLED")
    return {
        "runId": run_id,
        "question": name,
        "from": str(days[0]),
        "to": str(days[1]),
        "state": _STATES[status],
        "error": {"FAILED": FAILED, "CANCELLED": CANCELLED}.get(status),
        "rows": rows,
        "more": len(rows) == LARGEST_QUESTION,
        "bytes": bytes_,
        "dollars": dollars(bytes_) if is_charged else 0,
    }


def _question(name: str) -> SavedQuestion:
    if name not in QUESTIONS:
        raise NotFound.of("question")
    return QUESTIONS[name]


def _refused_start(_: str, message: str) -> ServiceError | None:
    # Athena has one code for all invalid requests.
    if "idempotent" in message.lower():
        return KeyReused("The Idempotency-Key was used for a different request. Send a new key.")
    return None


def _refused_run(code: str, _: str) -> ServiceError | None:
    # The function's role may not read runs of other workgroups.
    return NotFound.of("run") if code in ("InvalidRequestException", "AccessDeniedException") else None


def _refused_result(code: str, _: str) -> ServiceError | None:
    if code != "InvalidRequestException":
        return None
    return Gone("The result is no longer stored. Run the question again.")


def _value(text: str | None, kind: str) -> str | int | None:
    return int(text) if text is not None and kind == "bigint" else text
