"""Usage of DynamoDB by one HTTP request: duration and consumed units of each DynamoDB request.

HTTP functions record the usage with `record_requests`, and return it in the Server-Timing header
(shared/web/server_timing.py). Background functions do not record it, so DynamoDB need not return ConsumedCapacity to
them.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from shared.core.errors import WriteContention

_WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"})


@dataclass(slots=True)
class RequestUsage:
    """Usage of one DynamoDB request, including all its attempts.

    Run each attempt of the request in a `with` block of this object, which counts and times the attempts.
    """

    operation: str
    index: str | None
    """Name of the index that a Query reads; `None` for the table, and for other operations."""
    started: float
    """Start of the request, in seconds of `time.perf_counter`."""
    seconds: float = 0.0
    """Seconds from the start until the last response or error; 0 before the first response."""
    units: float | None = None
    """Consumed read or write units; `None` if DynamoDB did not return them."""
    examined: int | None = None
    """Number of items that a Query read before the filter; `None` for other operations."""
    attempts: int = 0
    """Number of attempts, including the first."""
    conflicts: int = 0
    """Number of attempts that failed because of a concurrent transaction."""

    @property
    def is_write(self) -> bool:
        """Whether the request may change items."""
        return self.operation in _WRITES

    def __enter__(self) -> None:
        """Count an attempt."""
        self.attempts += 1

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Record the duration so far, and count a conflict if the attempt raised WriteContention."""
        self.seconds = time.perf_counter() - self.started
        self.conflicts += kind is not None and issubclass(kind, WriteContention)

    def record_response(self, response: Mapping[str, Any]) -> None:
        """Store the consumed units and the number of examined items of a response."""
        self.examined = response.get("ScannedCount")
        consumed = response.get("ConsumedCapacity")
        if consumed:
            tables = consumed if isinstance(consumed, list) else [consumed]
            self.units = sum(table.get("CapacityUnits", 0) for table in tables)


_lines: ContextVar[list[RequestUsage] | None] = ContextVar("lines", default=None)


@contextmanager
def record_requests() -> Iterator[list[RequestUsage]]:
    """Yield a list, to which each DynamoDB request that begins in the block adds its usage.

    Requests of another thread are recorded only if the thread runs in a copy of the context (contextvars).
    """
    lines: list[RequestUsage] = []
    token = _lines.set(lines)
    try:
        yield lines
    finally:
        _lines.reset(token)


def begin_request(operation: str, parameters: dict[str, Any]) -> RequestUsage:
    """Return the usage of a DynamoDB request that begins now.

    Inside `record_requests`, also record the usage, and add ReturnConsumedCapacity to the request's `parameters`.
    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ConsumedCapacity.html
    """
    line = RequestUsage(operation, parameters.get("IndexName"), time.perf_counter())
    lines = _lines.get()
    if lines is not None:
        parameters["ReturnConsumedCapacity"] = "TOTAL"
        lines.append(line)
    return line
