"""Meter that adds up the capacity that the requests of a DynamoDB client would consume on AWS.

The capacity that moto reports differs from DynamoDB's. The meter therefore reads the items before and after each
request, and computes the capacity by the rules of local/testbed/units.py.
"""

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from local.access_patterns.pattern import round_trips
from local.testbed.units import TRANSACTION, CapacityUnits, index_entry, index_writes, read, size, write, written
from local.testbed.wire import intercept
from shared.aws.records import key_of
from shared.core.attributes import AttributeMap
from shared.schema import AUDIT_INDEXES, AUDIT_TABLE_NAME, INDEXES, PARTITION_KEY, TABLE_NAME, Index

_WRITES = ("PutItem", "UpdateItem", "DeleteItem")

Partition = tuple[str, str]
"""Pair of the name of a table or an index, and the key of one of its partitions. If the key has several attributes,
their values are joined by `#`."""


@dataclass
class MeteredUsage:
    """Requests that were sent, and the capacity that the requests consume."""

    units: CapacityUnits = field(default_factory=CapacityUnits)
    operations: list[str] = field(default_factory=list)
    changed: CapacityUnits = field(default_factory=CapacityUnits)
    """Units that the changed items would consume if each item was written once, without a transaction."""
    looked_up: float = 0
    """Read units of all reads by key, as if each was an eventually consistent GetItem request."""
    queried: Counter[str | None] = field(default_factory=Counter)
    """Number of bytes that queries examined, by name of the index. The key `None` denotes the table."""
    read_from: Counter[Partition] = field(default_factory=Counter)
    """Read units by partition."""
    written_to: Counter[Partition] = field(default_factory=Counter)
    """Write units by partition of a table or an index."""

    @property
    def trips(self) -> int:
        """Number of sequential round trips to DynamoDB."""
        return round_trips(self.operations)

    @property
    def least(self) -> CapacityUnits:
        """Minimum capacity that any design would need to read or write the same items.

        Such a design writes each changed item once, and reads no item before a write. It reads with eventual
        consistency, and finds all items of a query in one partition.
        """
        if self.changed.writes:
            return self.changed
        return CapacityUnits(
            self.looked_up + sum(read(bytes_, consistent=False).reads for bytes_ in self.queried.values())
        )

    @property
    def fewest(self) -> int:
        """Minimum number of DynamoDB requests that any design would need. It is two if a range and single items are
        read, and nothing is written. Otherwise, it is one."""
        return 1 if self.changed.writes or not self.queried or not self.looked_up else 2


class Meter:
    """Meter of the requests of `client`. The meter reads stored items with `reader`, and does not count these reads."""

    def __init__(self, client: Any, reader: Any) -> None:
        self._client = client
        self._reader: Any = reader
        self._lock = threading.Lock()
        self._used = MeteredUsage()

    @contextmanager
    def measure(self) -> Iterator[MeteredUsage]:
        """Measure the requests within the context. Each request is added to the yielded usage."""
        self._used = used = MeteredUsage()
        undo = intercept(self._client, self._between)
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
            with self._lock:
                self._used.units += self._taken(operation, parameters, writes, before, done=done)
                self._used.operations.append(operation)
        return answer

    def _taken(
        self,
        operation: str,
        parameters: Mapping[str, Any],
        writes: Sequence[tuple[str, Any]],
        before: Sequence[AttributeMap | None],
        *,
        done: bool,
    ) -> CapacityUnits:
        if not writes:
            return self._read(operation, parameters)
        is_transaction = "Transact" in operation
        units = self._written(writes, before, done=done, factor=TRANSACTION if is_transaction else 1)
        return units.in_transaction() if is_transaction else units

    def _written(
        self, writes: Sequence[tuple[str, Any]], before: Sequence[AttributeMap | None], *, done: bool, factor: int
    ) -> CapacityUnits:
        """Return the units that these writes would consume outside a transaction.

        Also adds the units to the counters by partition. These counters, unlike the result, multiply the units of the
        table by `factor`, which is 1 outside a transaction.
        """
        total = CapacityUnits()
        for (table, key), old in zip(writes, before, strict=True):
            if done:
                new = self._item(table, key)
                taken = write(old, new, _indexes(table))
                if new != old:
                    self._used.changed += taken
                self._used.written_to.update(index_writes(old, new, _indexes(table)))
            else:
                taken = CapacityUnits(table_writes=written(size(old)))
            total += taken
            self._used.written_to[table, key[PARTITION_KEY]["S"]] += factor * taken.table_writes
        return total

    def _read(self, operation: str, params: Mapping[str, Any]) -> CapacityUnits:
        match operation:
            case "GetItem":
                return self._looked_up(params["TableName"], params["Key"], params)
            case "BatchGetItem":
                return self._batch(params)
            case "Query":
                return self._query(params)
            case _:
                raise ValueError(f"nothing says what a {operation} costs")

    def _batch(self, params: Mapping[str, Any]) -> CapacityUnits:
        """Return the units of a BatchGetItem. DynamoDB rounds up the units of each item separately."""
        total = CapacityUnits()
        for table, wanted in params["RequestItems"].items():
            for key in wanted["Keys"]:
                total += self._looked_up(table, key, wanted)
        return total

    def _looked_up(self, table: str, key: Any, options: Mapping[str, Any]) -> CapacityUnits:
        bytes_ = size(self._item(table, key))
        self._used.looked_up += read(bytes_, consistent=False).reads
        units = read(bytes_, consistent=options.get("ConsistentRead", False))
        self._add_read(table, key[PARTITION_KEY]["S"], units)
        return units

    def _query(self, params: Mapping[str, Any]) -> CapacityUnits:
        """Return the units of a Query. They depend on the whole size of all examined items, even if the filter or the
        projection omits parts of them."""
        condition = params["KeyConditionExpression"]
        kept = {name: params[name] for name in params.keys() - {"FilterExpression", "ProjectionExpression"}}
        for name in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
            used = re.findall(r"[#:]\w+", condition)
            kept[name] = {place: value for place, value in params[name].items() if place in used}
        examined = self._reader.query(**kept)["Items"]
        indexes = _indexes(params["TableName"])
        index = next((known for known in indexes if known.name == params.get("IndexName")), None)
        bytes_ = sum(size(index_entry(item, index) if index else item) for item in examined)
        self._used.queried[index.name if index else None] += bytes_
        units = read(bytes_, consistent=params.get("ConsistentRead", False))
        names, values = params["ExpressionAttributeNames"], params["ExpressionAttributeValues"]
        equal = {
            names[name]: next(iter(values[value].values())) for name, value in re.findall(r"(#\w+) = (:\w+)", condition)
        }
        keys = [attribute.name for attribute in index.partition] if index else [PARTITION_KEY]
        self._add_read(index.name if index else params["TableName"], "#".join(equal[key] for key in keys), units)
        return units

    def _add_read(self, place: str, partition: str, units: CapacityUnits) -> None:
        # Counter[...] is typed for integers, but adds halves exactly.
        self._used.read_from[place, partition] += units.reads  # type: ignore[assignment]

    def _item(self, table: str, key: Any) -> AttributeMap | None:
        stored: AttributeMap | None = self._reader.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")
        return stored


def _writes(operation: str, params: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the table and key of each item that a request writes, or checks as part of a transaction."""
    if operation == "TransactWriteItems":
        parts = [part for write in params["TransactItems"] for part in write.values()]
    else:
        parts = [params] if operation in _WRITES else []
    return [(part["TableName"], part.get("Key") or key_of(part["Item"])) for part in parts]


def _indexes(table: str) -> tuple[Index, ...]:
    return {TABLE_NAME: INDEXES, AUDIT_TABLE_NAME: AUDIT_INDEXES}[table]
