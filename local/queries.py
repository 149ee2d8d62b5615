"""Ordered partitions for MiniStack's Query.

For each page, MiniStack sorts and evaluates a whole partition. This module keeps the entries of each queried partition
sorted. MiniStack's own Query then receives only the entries that the page can contain, and validates, filters and
projects them. Therefore the responses are the same, and a page costs the same in a partition of any size.

A request still reads the whole partition if it has legacy conditions, parentheses around a condition, or a condition such
as `:value = key`. The service sends no such requests.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from operator import itemgetter
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

from ministack.services import dynamodb

Item = Mapping[str, Any]
Order = tuple[Any, ...]
"""Position of an item in a partition: the values of the index's sort key, then the partition key and sort key of the table."""
Key = tuple[str, str]
"""Partition key and sort key of an item. MiniStack's nested dictionaries of items have the same keys."""
Entry = tuple[Order, Key]

ORDERED = None
"""Key of this module's ordered partitions in a dictionary of MiniStack.

MiniStack has such a dictionary for each table, with the members of each index. When MiniStack replaces the items or the
indexes of a table, it discards the table's dictionary, and therefore also the ordered partitions.
"""
TABLE = None
"""Index name that selects the table instead of an index."""

QUERY: FunctionType = dynamodb._query
INDEX_ITEM: FunctionType = dynamodb._index_item
PARSERS = {name: getattr(dynamodb, name) for name in ("_tokenize", "_condition_syntax_error")}
"""MiniStack's functions that parse expressions, by name.

Their results can be cached, because they depend only on the text of an expression, and no code changes them.
"""
MAX_EXPRESSIONS = 1_000
"""Maximum number of cached expressions. The service sends a few hundred different ones."""


def install() -> None:
    """Patch MiniStack: queries and writes use ordered partitions, and parsed expressions are cached.

    Without the cache, MiniStack parses each condition again for each item. That is a third of the CPU time of a query.
    """
    dynamodb._query, dynamodb._index_item = query, index_item
    for name, parse in PARSERS.items():
        setattr(dynamodb, name, lru_cache(MAX_EXPRESSIONS)(parse))


def query(request: Any) -> Any:
    """Return MiniStack's response to a Query. MiniStack evaluates only the entries that the page can contain."""
    index = request.get("IndexName") or TABLE

    def table_of(name: str) -> Any:
        table = dynamodb._tables.get(name)
        return table | {"items": OrderedPages(table, index, request)} if table and index is TABLE else table

    def members_of(table: Any) -> Any:
        return {index: OrderedPages(table, index, request)}

    own = {"_tables": SimpleNamespace(get=table_of), "_index_members": members_of}
    # MiniStack's own function with other global variables, so that it reads these partitions.
    return FunctionType(QUERY.__code__, vars(dynamodb) | own)(request)


def index_item(table: Any, pk: str, sk: str, item: Any, add: bool) -> None:
    """Add an item to MiniStack's index members and to the ordered partitions, or remove the item from both."""
    INDEX_ITEM(table, pk, sk, item, add)
    ordered = (table.get(dynamodb._INDEX_MEMBERS) or {}).get(ORDERED)
    if not ordered:
        return
    indexed = ((name, dynamodb._index_partition(item, *names)) for name, *names in dynamodb._index_key_schemas(table))
    for place in ((TABLE, pk), *indexed):
        if partition := ordered.get(place):
            (partition.add if add else partition.remove)(item, (pk, sk))
            if not partition:
                del ordered[place]


class Unordered(Exception):
    """Error for a request that an ordered partition cannot serve. MiniStack then evaluates the whole partition."""


class KeyAttribute(NamedTuple):
    """Name and type of an attribute that is part of a key."""

    name: str
    kind: str

    def value(self, item: Item) -> Any:
        """Return the attribute's value in an item, in a form that sorts as in DynamoDB.

        Raises Unordered if the value has another type than the key attribute.
        """
        value = item.get(self.name)
        if not (isinstance(value, dict) and list(value) == [self.kind] and isinstance(value[self.kind], str)):
            raise Unordered
        return dynamodb._sort_key_value(value, self.kind)


class KeyCondition(NamedTuple):
    """Condition on one key attribute: the operator, and the values to compare the attribute with."""

    operator: str
    operands: list[Any]


class Partition:
    """The entries of a partition of a table or an index, in ascending order."""

    def __init__(self, table: Any, index: str | None, items: Iterable[tuple[Key, Item]]) -> None:
        hashes, ranges = [table["pk_name"]], [table["sk_name"]]
        if index is not TABLE:
            hashes, ranges = dynamodb._index_key_lists(dynamodb._index_def(table, index))
        self._hashes = [KeyAttribute(name, dynamodb._get_attr_type(table, name)) for name in hashes]
        self._order = [KeyAttribute(*attribute) for attribute in dynamodb._index_order_keys(table, ranges)]
        self._ranges = [attribute for attribute in self._order if attribute.name in ranges]
        self._entries: list[Entry] = []
        self._mistyped: set[Key] = set()
        """Keys of items with attributes that have other types than the index defines.

        Only an index that was added to an existing table can have such items.
        """
        for key, item in items:
            self.add(item, key, insert=list.append)
        self._entries.sort()

    def __len__(self) -> int:
        """Return the number of items in the partition, including items in `_mistyped`."""
        return len(self._entries) + len(self._mistyped)

    def add(self, item: Item, key: Key, *, insert: Callable[[list[Entry], Entry], None] = insort) -> None:
        """Add an item."""
        try:
            insert(self._entries, (self._position(item), key))
        except Unordered:
            self._mistyped.add(key)

    def remove(self, item: Item, key: Key) -> None:
        """Remove an item that is in the partition."""
        try:
            del self._entries[bisect_left(self._entries, (self._position(item), key))]
        except Unordered:
            self._mistyped.remove(key)

    def _position(self, item: Item) -> Order:
        for attribute in self._hashes:
            attribute.value(item)
        return tuple(attribute.value(item) for attribute in self._order)

    def sample(self) -> list[Key]:
        """Return a list with the key of the first entry.

        The list is empty if the partition has no entries with valid key types.
        """
        return [key for _, key in self._entries[:1]]

    def matching(self, conditions: Mapping[str, KeyCondition], start: Item | None, *, backwards: bool) -> Iterator[Key]:
        """Return the keys of the entries that match the conditions, after an exclusive start key.

        Raises Unordered if the matching entries are not contiguous.
        """
        if self._mistyped:
            raise Unordered
        first, end = self._range(conditions)
        if start:  # it matches the conditions, because MiniStack rejects other keys
            position = self._position(start)
            if backwards:
                end = bisect_left(self._entries, position, key=itemgetter(0))
            else:
                first = bisect_right(self._entries, position, key=itemgetter(0))
        numbers = range(end - 1, first - 1, -1) if backwards else range(first, end)
        return (self._entries[number][1] for number in numbers)

    def _range(self, conditions: Mapping[str, KeyCondition]) -> tuple[int, int]:
        """Return the range of the matching entries: the index of the first entry, and the index after the last entry."""
        equal: Order = ()
        for attribute in self._ranges:
            if attribute.name not in conditions:
                break
            operator, operands = conditions[attribute.name]
            values = [attribute.value({attribute.name: operand}) for operand in operands]
            match operator:
                case "EQ":
                    equal = (*equal, *values)
                case "LT" | "LE":
                    return self._bisect(equal), self._bisect((*equal, *values), after=operator == "LE")
                case "GT" | "GE":
                    return self._bisect((*equal, *values), after=operator == "GT"), self._bisect(equal, after=True)
                case "BETWEEN":
                    return self._bisect((*equal, values[0])), self._bisect((*equal, values[1]), after=True)
                case "BEGINS_WITH":
                    start = (*equal, *values)
                    return self._bisect(start), self._bisect(start, after=True, length=len(values[0]))
                case _:
                    raise Unordered
        return self._bisect(equal), self._bisect(equal, after=True)

    def _bisect(self, values: Order, *, after: bool = False, length: int | None = None) -> int:
        """Return the position of the first entry that sorts at or after `values`. With `after`, return the position of
        the first entry that sorts after `values`.

        If an entry has more values than `values`, only its first values are compared. With `length`, the last compared
        value of an entry is a string or bytes, and is truncated to `length` before the comparison.
        """

        def compared(entry: Entry) -> Order:
            own = entry[0][: len(values)]
            return own if length is None else (*own[:-1], own[-1][:length])

        return (bisect_right if after else bisect_left)(self._entries, values, key=compared)


class OrderedPages:
    """Partitions of a table or index by partition key, for one request.

    Replaces MiniStack's own dictionary of partitions. Each partition contains only the entries that can be on the
    requested page. MiniStack's Query validates the request before it calls `get`.
    """

    def __init__(self, table: Any, index: str | None, request: Any) -> None:
        self._table = table
        self._index = index
        self._request = request

    def get(self, partition: Any, default: Any) -> Any:
        """Return a partition in MiniStack's format. For a table, this is a dictionary of items by sort key. For an
        index, it is a collection of items' keys."""
        try:
            keys = self._page(self._ordered(partition))
        except Unordered:
            whole = self._table["items"] if self._index is TABLE else self._members()[self._index]
            return whole.get(partition, default)
        return keys if self._index is not TABLE else {sk: self._item((pk, sk)) for pk, sk in keys}

    def _members(self) -> Any:
        return dynamodb._index_members(self._table)

    def _item(self, key: Key) -> Any:
        return self._table["items"][key[0]][key[1]]

    def _ordered(self, name: Any) -> Partition:
        """Return the ordered partition with this partition key. The first call creates and caches the partition."""
        members = self._members()
        ordered: dict[tuple[str | None, Any], Partition] = members.setdefault(ORDERED, {})
        if (self._index, name) not in ordered:
            if self._index is TABLE:
                keys = [(name, sk) for sk in self._table["items"].get(name, ())]
            else:
                keys = list(members[self._index].get(name, ()))
            partition = Partition(self._table, self._index, ((key, self._item(key)) for key in keys))
            if not partition:
                return partition
            ordered[self._index, name] = partition
        return ordered[self._index, name]

    def _page(self, partition: Partition) -> list[Key]:
        """Return the keys of the items that the page can contain.

        The list ends at the page's limit, or with the item that makes the page larger than its maximum number of bytes.
        If no item matches, the list has the key of the partition's first entry (`Partition.sample`).
        """
        request = self._request
        conditions = conditions_of(request)
        backwards = not request.get("ScanIndexForward", True)
        limit = int(request.get("Limit") or 0)
        keys: list[Key] = []
        size = 0
        matching = partition.matching(conditions, request.get("ExclusiveStartKey"), backwards=backwards)
        for key in matching:
            keys.append(key)
            entry = dynamodb._apply_index_projection(self._item(key), self._table, self._index)
            size += dynamodb._item_size_bytes(entry)
            if size > dynamodb._DDB_PAGE_SIZE_BYTES or len(keys) == limit:
                break
        # MiniStack reports some errors of an expression only when it evaluates the expression for an item.
        return keys or partition.sample()


def conditions_of(request: Any) -> dict[str, KeyCondition]:
    """Return the conditions on key attributes, by name. Raises Unordered if the condition has an unsupported form."""
    if request.get("KeyConditions"):
        raise Unordered
    aliases, values = request.get("ExpressionAttributeNames") or {}, request.get("ExpressionAttributeValues") or {}
    conditions = {}
    for clause in dynamodb._key_condition_clauses(dynamodb._tokenize(request["KeyConditionExpression"])):
        match clause:
            case [
                ("IDENT" | "NAME_REF", name),
                (("EQ" | "LT" | "LE" | "GT" | "GE") as operator, _),
                ("VALUE_REF", value),
            ]:
                operands = [value]
            case [("IDENT" | "NAME_REF", name), ("IDENT", word), ("VALUE_REF", low), ("IDENT", _), ("VALUE_REF", high)]:
                operator, operands = word.upper(), [low, high]
            case [("IDENT", word), _, ("IDENT" | "NAME_REF", name), ("COMMA", _), ("VALUE_REF", value), ("RPAREN", _)]:
                operator, operands = word.upper(), [value]
            case _:
                raise Unordered
        conditions[aliases.get(name, name)] = KeyCondition(operator, [values[operand] for operand in operands])
    return conditions
