"""DynamoDB's rules for the sizes of items and for the capacity units that requests consume.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html (the cost of a write in an index)
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html (the cost of a transaction)
"""

import base64
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from shared.core.attributes import AttributeMap, AttributeValue
from shared.schema import INDEXES, PARTITION_KEY, SORT_KEY, Index

READ_BYTES, WRITE_BYTES = 4096, 1024
"""Bytes per read unit with strong consistency, and bytes per write unit."""
TRANSACTION = 2
"""Factor by which a transaction multiplies the write units of a table's items, because it prepares and commits each
write.

It does not multiply the write units of index entries, according to AWS's pricing calculator.
"""
STORAGE_OVERHEAD = 100
"""Bytes that AWS bills in addition to the size of each item and each index entry."""


@dataclass(frozen=True)
class CapacityUnits:
    """Consumed capacity: read request units, and write request units of the table and of its indexes."""

    reads: float = 0
    table_writes: int = 0
    index_writes: int = 0

    @property
    def writes(self) -> int:
        """Total write request units."""
        return self.table_writes + self.index_writes

    def __add__(self, other: "CapacityUnits") -> "CapacityUnits":
        return CapacityUnits(
            self.reads + other.reads, self.table_writes + other.table_writes, self.index_writes + other.index_writes
        )

    def in_transaction(self) -> "CapacityUnits":
        """Return the capacity that the requests would consume in a transaction. `self` is their capacity outside a
        transaction."""
        return CapacityUnits(self.reads, self.table_writes * TRANSACTION, self.index_writes)


def size(item: AttributeMap | None) -> int:
    """Return the size of an item in bytes: its attribute names and values. Returns 0 for `None`."""
    return sum(len(name.encode()) + _value_size(value) for name, value in (item or {}).items())


def _value_size(value: AttributeValue) -> int:
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return len(content.encode())
        case "N":
            return _number_size(content)
        case "B":
            return len(content if isinstance(content, bytes) else base64.b64decode(content))
        case "BOOL" | "NULL":
            return 1
        case "SS":
            return sum(len(member.encode()) for member in content)
        case "M":
            return 3 + sum(1 + len(name.encode()) + _value_size(member) for name, member in content.items())
        case "L":
            return 3 + sum(1 + _value_size(member) for member in content)
        case _:
            raise TypeError(f"no item here has a {kind}")


def _number_size(text: str) -> int:
    """Return the size of a number in bytes: one byte per two significant digits, one more byte, and one for a minus
    sign."""
    number = Decimal(text).normalize()
    return math.ceil(len(number.as_tuple().digits) / 2) + 1 + (number < 0)


def read(bytes_: int, *, consistent: bool) -> CapacityUnits:
    """Return the units of a read of `bytes_` bytes: a GetItem, one item of a BatchGetItem, or a page of a Query.

    An empty result costs as much as 4 KB.
    """
    return CapacityUnits(reads=max(1, math.ceil(bytes_ / READ_BYTES)) * (1 if consistent else 0.5))


def write(old: AttributeMap | None, new: AttributeMap | None, indexes: Iterable[Index]) -> CapacityUnits:
    """Return the units of replacing `old` by `new`. The item is created if `old` is `None`, and deleted if `new` is
    `None`.
    """
    return CapacityUnits(
        table_writes=written(max(size(old), size(new))),
        index_writes=sum(index_writes(old, new, indexes).values()),
    )


def written(bytes_: int) -> int:
    """Return the write units of an item of `bytes_` bytes. For a write with a failed condition, pass the size of the
    stored item."""
    return max(1, math.ceil(bytes_ / WRITE_BYTES))


def index_entry(item: AttributeMap | None, index: Index) -> AttributeMap | None:
    """Return an item's entry in an index, or `None` if the item does not have all keys of the index."""
    keys = _keys(index)
    if item is None or not item.keys() >= keys.keys():
        return None
    return {name: value for name, value in item.items() if name in {*keys, PARTITION_KEY, SORT_KEY, *index.projection}}


def index_writes(
    old: AttributeMap | None, new: AttributeMap | None, indexes: Iterable[Index]
) -> Counter[tuple[str, str]]:
    """Return the write units that the indexes consume when `new` replaces `old`, by index and partition.

    A partition is represented by the values of its key attributes, joined by `#`. An unchanged entry costs nothing.
    Changed keys cost a delete and a put.
    """
    units: Counter[tuple[str, str]] = Counter()
    for index in indexes:
        before, after = index_entry(old, index), index_entry(new, index)
        if before == after:
            continue
        if before and after and all(before[name] == after[name] for name in _keys(index)):
            units[index.name, _partition(after, index)] += written(max(size(before), size(after)))
            continue
        for entry in (before, after):
            if entry:
                units[index.name, _partition(entry, index)] += written(size(entry))
    return units


def _partition(entry: AttributeMap, index: Index) -> str:
    return "#".join(next(iter(entry[attribute.name].values())) for attribute in index.partition)


def _keys(index: Index) -> Mapping[str, None]:
    return dict.fromkeys(attribute.name for attribute in (*index.partition, *index.sort))


@dataclass(frozen=True)
class StoredSize:
    """Billed storage in bytes, of a table's items and of their index entries."""

    table: float = 0
    indexes: float = 0

    @classmethod
    def of(cls, items: Iterable[AttributeMap], indexes: Collection[Index] = INDEXES) -> "StoredSize":
        """Return the billed storage of these items in a table, and of their entries in `indexes`."""
        in_table = in_indexes = 0
        for item in items:
            in_table += size(item) + STORAGE_OVERHEAD
            entries = [entry for index in indexes if (entry := index_entry(item, index))]
            in_indexes += sum(size(entry) + STORAGE_OVERHEAD for entry in entries)
        return cls(in_table, in_indexes)

    def __add__(self, other: "StoredSize") -> "StoredSize":
        return StoredSize(self.table + other.table, self.indexes + other.indexes)

    def times(self, factor: float) -> "StoredSize":
        """Return this size multiplied by `factor`."""
        return StoredSize(self.table * factor, self.indexes * factor)
