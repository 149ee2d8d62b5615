"""What one request spent at DynamoDB: each request to it, with its time and its units.

Kept only while somebody wants it (`kept`): functions that answer requests show it in their answers
(shared/web/server_timing.py), background work asks DynamoDB for no figures.
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
class Line:
    """One request to DynamoDB, all its tries together."""

    operation: str
    index: str | None
    """None: the table itself, or several items."""
    started: float
    """By `time.perf_counter`."""
    seconds: float = 0.0
    """Until its last answer; 0 as long as it has none."""
    units: float | None = None
    """Read or write units; None if DynamoDB did not say."""
    examined: int | None = None
    """Items that a Query read, filtered ones included."""
    tries: int = 0
    conflicts: int = 0
    """Tries that another transaction was in the way of."""

    @property
    def is_write(self) -> bool:
        """Whether the request may change items."""
        return self.operation in _WRITES

    def __enter__(self) -> None:
        """Begin a try."""
        self.tries += 1

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End it."""
        self.seconds = time.perf_counter() - self.started
        self.conflicts += kind is not None and issubclass(kind, WriteContention)

    def take(self, answer: Mapping[str, Any]) -> None:
        """Take the figures of its answer."""
        self.examined = answer.get("ScannedCount")
        consumed = answer.get("ConsumedCapacity")
        if consumed:
            tables = consumed if isinstance(consumed, list) else [consumed]
            self.units = sum(table.get("CapacityUnits", 0) for table in tables)


_lines: ContextVar[list[Line] | None] = ContextVar("lines", default=None)


@contextmanager
def kept() -> Iterator[list[Line]]:
    """The requests that are made meanwhile; threads need a copy of the context."""
    lines: list[Line] = []
    token = _lines.set(lines)
    try:
        yield lines
    finally:
        _lines.reset(token)


def begin(operation: str, parameters: dict[str, Any]) -> Line:
    """The line of a request that begins; if somebody wants it, its parameters then ask for the units as well.

    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ConsumedCapacity.html
    """
    line = Line(operation, parameters.get("IndexName"), time.perf_counter())
    lines = _lines.get()
    if lines is not None:
        parameters["ReturnConsumedCapacity"] = "TOTAL"
        lines.append(line)
    return line
