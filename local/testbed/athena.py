"""Fake of Athena in this process. Its queries return rows that the test sets."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from botocore.exceptions import ClientError


class FakeAthena:
    """Client of Athena. Queries need no time: their state is always `state`, and their result is `rows`."""

    meta = SimpleNamespace(service_model=SimpleNamespace(service_name="athena"))
    """Name of the service, for checks of permissions."""

    def __init__(self) -> None:
        self.state = "SUCCEEDED"
        self.columns: Sequence[str] = ("author", "changes", "videos")
        self.rows: Sequence[Sequence[str | None]] = (("alice", "3", "2"),)
        self.errors: dict[str, str] = {}
        """Error code with which each request of an operation fails, by operation."""
        self.started: dict[str, dict[str, Any]] = {}
        """Parameters of the queries by id."""

    def start_query_execution(self, **parameters: Any) -> Any:
        """Start a query, or return the query with the same token."""
        return self._make_api_call("StartQueryExecution", parameters)

    def get_query_execution(self, **parameters: Any) -> Any:
        """Return the state of a query."""
        return self._make_api_call("GetQueryExecution", parameters)

    def get_query_results(self, **parameters: Any) -> Any:
        """Return a page of the result. The first row of the result has the names of the columns."""
        return self._make_api_call("GetQueryResults", parameters)

    def _make_api_call(self, operation: str, parameters: dict[str, Any]) -> Any:
        if operation in self.errors:
            self._raise(operation, self.errors[operation], "No such thing")
        if operation == "StartQueryExecution":
            return {"QueryExecutionId": self._start(parameters)}
        id_ = parameters["QueryExecutionId"]
        if id_ not in self.started:
            self._raise(operation, "InvalidRequestException", f"QueryExecution {id_} was not found")
        if operation == "GetQueryResults":
            return self._page(int(parameters.get("NextToken", 0)), parameters["MaxResults"])
        started = self.started[id_]
        return {
            "QueryExecution": {
                "Query": started["QueryString"],
                "WorkGroup": started["WorkGroup"],
                "Status": {"State": self.state},
                "Statistics": {"DataScannedInBytes": 20_000_000},
            }
        }

    def _start(self, parameters: dict[str, Any]) -> str:
        token = parameters.get("ClientRequestToken")
        for id_, started in self.started.items():
            if token and started.get("ClientRequestToken") == token:
                if started != parameters:
                    self._raise("StartQueryExecution", "InvalidRequestException", "Idempotent parameters do not match")
                return id_
        id_ = str(uuid4())
        self.started[id_] = parameters
        return id_

    def _page(self, start: int, limit: int) -> Any:
        rows = [self.columns, *self.rows]
        cells = [
            {"Data": [{} if value is None else {"VarCharValue": value} for value in row]}
            for row in rows[start : start + limit]
        ]
        described = [{"Name": column, "Type": "varchar"} for column in self.columns]
        token = {"NextToken": str(start + limit)} if start + limit < len(rows) else {}
        return {"ResultSet": {"Rows": cells, "ResultSetMetadata": {"ColumnInfo": described}}} | token

    @staticmethod
    def _raise(operation: str, code: str, message: str) -> None:
        raise ClientError({"Error": {"Code": code, "Message": message}}, operation)
