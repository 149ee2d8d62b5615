"""Watches a DynamoDB client and adds up what its requests would take on AWS.

moto's own figures of capacity are not DynamoDB's. So the items are read beside each request, before and after it, and
the rules of bench/cost/units.py are applied to them.
"""

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench.cost.units import Units, index_entry, read, size, write, written
from shared.core.attributes import AttributeMap
from shared.schema import INDEXES, PARTITION_KEY, SORT_KEY, TABLE_NAME, Index
from tests.wire import come_between

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_WRITES = ("PutItem", "UpdateItem", "DeleteItem")


@dataclass
class Used:
    """What was sent, and what it takes."""

    units: Units = field(default_factory=Units)
    operations: list[str] = field(default_factory=list)

    @property
    def trips(self) -> int:
        """How often DynamoDB was waited for: queries of several partitions run side by side."""
        before = [None, *self.operations]
        return sum(
            1
            for last, operation in zip(before, self.operations, strict=False)
            if (last, operation) != ("Query", "Query")
        )


class Meter:
    """Measures the requests of one client; what is there, it asks by another."""

    def __init__(self, client: "DynamoDBClient", reader: "DynamoDBClient") -> None:
        self._client = client
        self._reader: Any = reader
        self._lock = threading.Lock()
        self._used = Used()

    @contextmanager
    def measured(self) -> Iterator[Used]:
        """What is used meanwhile."""
        self._used = used = Used()
        undo = come_between(self._client, self._between)
        try:
            yield used
        finally:
            undo()

    def _between(self, operation: str, parameters: Mapping[str, Any], send: Callable[[], Any]) -> Any:
        writes = _writes(operation, parameters)
        before = [self._item(name, key) for name, key in writes]
        done = False
        try:
            answer = send()
            done = True
        finally:
            if writes:
                units = self._written(writes, before, done=done)
                if "Transact" in operation:
                    units = units.in_transaction()
            else:
                units = self._read(operation, parameters)
            with self._lock:
                self._used.units += units
                self._used.operations.append(operation)
        return answer

    def _written(
        self, writes: Sequence[tuple[str, Any]], before: Sequence[AttributeMap | None], *, done: bool
    ) -> Units:
        total = Units()
        for (table, key), old in zip(writes, before, strict=True):
            if done:
                total += write(old, self._item(table, key), _indexes(table))
            else:
                total += Units(table_writes=written(size(old)))
        return total

    def _read(self, operation: str, params: Mapping[str, Any]) -> Units:
        match operation:
            case "GetItem":
                stored = self._item(params["TableName"], params["Key"])
                return read(size(stored), consistent=params.get("ConsistentRead", False))
            case "BatchGetItem":
                return self._batch(params)
            case "Query":
                return self._query(params)
            case _:
                raise ValueError(f"nothing says what a {operation} costs")

    def _batch(self, params: Mapping[str, Any]) -> Units:
        """Each item is rounded up by itself."""
        total = Units()
        for table, wanted in params["RequestItems"].items():
            for key in wanted["Keys"]:
                total += read(size(self._item(table, key)), consistent=wanted.get("ConsistentRead", False))
        return total

    def _query(self, params: Mapping[str, Any]) -> Units:
        """The units of all items that were examined: what a filter drops and what is not asked for is paid for too."""
        condition = params["KeyConditionExpression"]
        kept = {name: params[name] for name in params.keys() - {"FilterExpression", "ProjectionExpression"}}
        for name in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
            used = re.findall(r"[#:]\w+", condition)
            kept[name] = {place: value for place, value in params[name].items() if place in used}
        examined = self._reader.query(**kept)["Items"]
        index = next((known for known in INDEXES if known.name == params.get("IndexName")), None)
        bytes_ = sum(size(index_entry(item, index) if index else item) for item in examined)
        return read(bytes_, consistent=params.get("ConsistentRead", False))

    def _item(self, table: str, key: Any) -> AttributeMap | None:
        stored: AttributeMap | None = self._reader.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")
        return stored


def _writes(operation: str, params: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Table and key of each item that a request writes or, in a transaction, checks."""
    if operation == "TransactWriteItems":
        parts = [part for write in params["TransactItems"] for part in write.values()]
    else:
        parts = [params] if operation in _WRITES else []
    return [(part["TableName"], part.get("Key") or _key(part["Item"])) for part in parts]


def _key(item: AttributeMap) -> AttributeMap:
    return {name: item[name] for name in (PARTITION_KEY, SORT_KEY)}


def _indexes(table: str) -> tuple[Index, ...]:
    return INDEXES if table == TABLE_NAME else ()
