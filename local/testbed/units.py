"""DynamoDB's rules: how large an item is, and how many units of capacity a request takes.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html (what a write costs in an index)
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html (what a transaction costs)
"""

import base64
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from shared.core.attributes import AttributeMap, AttributeValue
from shared.schema import INDEXES, PARTITION_KEY, SORT_KEY, Index

READ_BYTES, WRITE_BYTES = 4096, 1024
"""What one unit reads consistently, and what one writes."""
TRANSACTION = 2
"""A transaction writes each item of the table twice: once to prepare, once to commit. What follows of it in the indexes is
written once, as after any other write; so AWS's pricing calculator has it."""
STORAGE_OVERHEAD = 100
"""Bytes that are stored, and paid for, with each item and each entry of an index."""


@dataclass(frozen=True)
class CapacityUnits:
    """What something takes: read request units, and write request units of the table and of its indexes."""

    reads: float = 0
    table_writes: int = 0
    index_writes: int = 0

    @property
    def writes(self) -> int:
        """Write request units in all."""
        return self.table_writes + self.index_writes

    def __add__(self, other: "CapacityUnits") -> "CapacityUnits":
        return CapacityUnits(
            self.reads + other.reads, self.table_writes + other.table_writes, self.index_writes + other.index_writes
        )

    def in_transaction(self) -> "CapacityUnits":
        """What the same writes take in a transaction."""
        return CapacityUnits(self.reads, self.table_writes * TRANSACTION, self.index_writes)


def size(item: AttributeMap | None) -> int:
    """Bytes of an item: of the names and of the values of its attributes; 0 of none."""
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
    """A byte for two significant digits, one more, and one for a minus sign."""
    number = Decimal(text).normalize()
    return math.ceil(len(number.as_tuple().digits) / 2) + 1 + (number < 0)


def read(bytes_: int, *, consistent: bool) -> CapacityUnits:
    """Units of a GetItem of `bytes_` bytes, one item of a BatchGetItem, or a page of a Query; nothing counts as little."""
    return CapacityUnits(reads=max(1, math.ceil(bytes_ / READ_BYTES)) * (1 if consistent else 0.5))


def write(old: AttributeMap | None, new: AttributeMap | None, indexes: Iterable[Index]) -> CapacityUnits:
    """What it takes to make one item of another: to create it (no old one), to change it, or to remove it (no new one)."""
    return CapacityUnits(
        table_writes=written(max(size(old), size(new))),
        index_writes=sum(_index_writes(index_entry(old, index), index_entry(new, index), index) for index in indexes),
    )


def written(bytes_: int) -> int:
    """Write units of `bytes_` bytes; also of a condition that failed, where they are those of the item that is there."""
    return max(1, math.ceil(bytes_ / WRITE_BYTES))


def index_entry(item: AttributeMap | None, index: Index) -> AttributeMap | None:
    """What an index holds of an item; None unless the item has all of its keys."""
    keys = _keys(index)
    if item is None or not item.keys() >= keys.keys():
        return None
    return {name: value for name, value in item.items() if name in {*keys, PARTITION_KEY, SORT_KEY, *index.projection}}


def _index_writes(old: AttributeMap | None, new: AttributeMap | None, index: Index) -> int:
    """An entry that stays as it is costs nothing; one whose keys change is removed and put again."""
    if old == new:
        return 0
    keys = _keys(index)
    if old and new and any(old[name] != new[name] for name in keys):
        return written(size(old)) + written(size(new))
    return written(max(size(old), size(new)))


def _keys(index: Index) -> Mapping[str, None]:
    return dict.fromkeys(attribute.name for attribute in (*index.partition, *index.sort))


@dataclass(frozen=True)
class StoredSize:
    """Bytes of storage that are paid for: those of items, and those of their entries in the indexes."""

    table: float = 0
    indexes: float = 0

    @classmethod
    def of(cls, items: Iterable[AttributeMap], indexes: Collection[Index] = INDEXES) -> "StoredSize":
        """What items of a table with these indexes take."""
        in_table = in_indexes = 0
        for item in items:
            in_table += size(item) + STORAGE_OVERHEAD
            entries = [entry for index in indexes if (entry := index_entry(item, index))]
            in_indexes += sum(size(entry) + STORAGE_OVERHEAD for entry in entries)
        return cls(in_table, in_indexes)

    def __add__(self, other: "StoredSize") -> "StoredSize":
        return StoredSize(self.table + other.table, self.indexes + other.indexes)

    def times(self, factor: float) -> "StoredSize":
        """What `factor` times as much takes."""
        return StoredSize(self.table * factor, self.indexes * factor)
