"""DynamoDB in memory: executes the requests of the stores on items in a dictionary.

>>> from shared.aws.dynamodb import Table
>>> table = Table("VideoMetadata", StubClient(Stub()))
>>> table.get({"pk": "NOTE#1", "sk": "NOTE"}) is None
True

The stub accepts and returns DynamoDB's JSON. It ignores table names, so all tables share its items. It supports the
expressions that the stores use, and raises NotImplementedError for all others.

Like DynamoDB, it rejects invalid key conditions, consistent reads of an index, and transactions that contain an item
twice. `local/testbed/limits.py` adds DynamoDB's limits and virtual time, and `bench/stub.py` serves the stub on loopback.
"""

import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, partial
from itertools import chain
from typing import Any

from local.testbed.units import index_entry
from local.testbed.wire import raised
from shared.aws.dynamodb import OPERATIONS
from shared.aws.lean import client
from shared.aws.lean.client import ErrorResponse
from shared.core.attributes import AttributeMap, AttributeValue, Item, decode_item, encode_item
from shared.schema import AUDIT_INDEXES, INDEXES, PARTITION_KEY, SORT_KEY, Index

Place = tuple[str, str]
"""Partition key and sort key of an item. The sort key is `""` if the table has none."""


class Stub:
    """Table in memory, with its indexes. `carry_out` executes all requests.

    Subclasses override `wait_for`, `held`, `spend_read` and `spend_write` to simulate latency, locks and capacity.
    """

    def __init__(
        self, indexes: Iterable[Index] = (*INDEXES, *AUDIT_INDEXES), key: Sequence[str] = (PARTITION_KEY, SORT_KEY)
    ) -> None:
        self.partitions: defaultdict[str, dict[str, AttributeMap]] = defaultdict(dict)
        """Items by partition key and then sort key."""
        self.changes: list[tuple[AttributeMap | None, AttributeMap | None]] = []
        """Old and new version of each changed item, in order. Writes of transactions are not included."""
        self._indexes = {index.name: index for index in indexes}
        self._key = tuple(key)

    def carry_out(self, operation: str, **asked: Any) -> Any:
        """Execute one request, such as GetItem. Raises ErrorResponse, as the service's client does."""
        self.wait_for(operation)
        return getattr(self, f"_{OPERATIONS[operation]}")(**asked)

    def load(self, items: Iterable[Mapping[str, Any]]) -> None:
        """Store items without conditions, latency or capacity."""
        for item in map(encode_item, items):
            self.keep(self.place(item), item)

    def stored(self) -> list[Item]:
        """Return all items, ordered by key."""
        return [
            decode_item(self.partitions[pk][sk]) for pk in sorted(self.partitions) for sk in sorted(self.partitions[pk])
        ]

    def item(self, place: Place) -> AttributeMap | None:
        """Return the item with this key, or `None` if it does not exist."""
        return self.partitions.get(place[0], {}).get(place[1])

    def keep(self, place: Place, item: AttributeMap | None) -> None:
        """Store an item under a key, or delete the stored item if `item` is `None`."""
        if item is not None:
            self.partitions[place[0]][place[1]] = item
        else:
            self.partitions[place[0]].pop(place[1], None)

    def place(self, item: AttributeMap) -> Place:
        """Return the key of an item, or of any map that contains its key attributes."""
        values = [item[name]["S"] for name in self._key]
        return values[0], values[1] if len(values) > 1 else ""

    # Latency and capacity of requests, for subclasses ---------------------------------------------------------------

    def wait_for(self, operation: str) -> None:
        """Wait for the latency of a request. By default, there is none."""

    def spend_read(self, item: AttributeMap | None, place: Place, *, consistent: bool) -> None:
        """Consume the capacity for reading an item. Raises ErrorResponse if the capacity is used up. By default,
        capacity is unlimited.
        """

    def spend_write(
        self, changes: Iterable[tuple[Place, AttributeMap | None, AttributeMap | None]], *, together: bool
    ) -> None:
        """Consume the capacity for these changes, which are one transaction if `together` is true. Raises ErrorResponse
        if the capacity is used up.
        """

    def held(self, places: set[Place], parts: Sequence[Place]) -> AbstractContextManager[Any]:
        """Lock items while a transaction writes them. Raises ErrorResponse if another transaction holds a lock."""
        return nullcontext()

    # Operations -----------------------------------------------------------------------------------------------------

    def _read(self, place: Place, asked: Mapping[str, Any]) -> AttributeMap | None:
        item = self.item(place)
        self.spend_read(item, place, consistent=asked.get("ConsistentRead", False))
        return _projected(item, asked) if item else None

    def _get_item(self, *, Key: AttributeMap, **asked: Any) -> Any:
        item = self._read(self.place(Key), asked)
        return {"Item": item} if item else {}

    def _batch_get_item(self, *, RequestItems: Mapping[str, Any], **_: Any) -> Any:
        """Read items. If the capacity of an item is used up, the response returns its key as unprocessed."""
        ((table, asked),) = RequestItems.items()
        items, left = [], []
        for key in asked["Keys"]:
            try:
                items.append(self._read(self.place(key), asked))
            except ErrorResponse:
                left.append(key)
        found = [item for item in items if item]
        return {"Responses": {table: found}, "UnprocessedKeys": {table: {**asked, "Keys": left}} if left else {}}

    def _query(self, **asked: Any) -> Any:
        """Return a page of one partition of the table or of an index. Queries of the stub consume no capacity."""
        known, index = _Placeholders.of(asked), self._indexes.get(asked.get("IndexName", ""))
        if asked.get("IndexName") and not index:
            raise NotImplementedError(asked["IndexName"])
        if index:
            if asked.get("ConsistentRead"):
                raise _invalid("Consistent reads are not supported on global secondary indexes")
            key_names = tuple(tuple(attribute.name for attribute in part) for part in (index.partition, index.sort))
        else:
            key_names = (self._key[:1], self._key[1:])
        _check_key_condition(asked["KeyConditionExpression"], known, *key_names)
        condition = _condition(asked["KeyConditionExpression"])
        names = (*(attribute.name for attribute in index.sort), *self._key) if index else self._key[1:]
        order = partial(_sorted_by, names)
        rows = sorted((row for row in self._rows(asked, index) if condition(row, known)), key=order)
        if not asked.get("ScanIndexForward", True):
            rows.reverse()
        if start := asked.get("ExclusiveStartKey"):
            is_behind = operator.gt if asked.get("ScanIndexForward", True) else operator.lt
            rows = [row for row in rows if is_behind(order(row), order(start))]
        examined = rows[: asked.get("Limit")]
        keep = _condition(asked["FilterExpression"]) if "FilterExpression" in asked else lambda *_: True
        items = [_projected(row, asked) for row in examined if keep(row, known)]
        page: dict[str, Any] = {"Items": items, "Count": len(items), "ScannedCount": len(examined)}
        if len(examined) < len(rows):
            keys = {*names, *self._key, *(attribute.name for attribute in (index.partition if index else ()))}
            page["LastEvaluatedKey"] = {name: value for name, value in examined[-1].items() if name in keys}
        return page

    def _rows(self, asked: Mapping[str, Any], index: Index | None) -> Iterable[AttributeMap]:
        """Return the items that a Query may match: the items of the partition, or all entries of the index."""
        if index:
            entries = (
                index_entry(item, index) for item in chain.from_iterable(map(dict.values, self.partitions.values()))
            )
            return filter(None, entries)
        for name, value in re.findall(r"(#?\w+) = (:\w+)", asked["KeyConditionExpression"]):
            if asked.get("ExpressionAttributeNames", {}).get(name, name) == self._key[0]:
                return list(self.partitions.get(asked["ExpressionAttributeValues"][value]["S"], {}).values())
        raise NotImplementedError(asked["KeyConditionExpression"])

    def _put_item(self, **asked: Any) -> Any:
        return self._write("Put", asked)

    def _update_item(self, **asked: Any) -> Any:
        return self._write("Update", asked)

    def _delete_item(self, **asked: Any) -> Any:
        return self._write("Delete", asked)

    def _batch_write_item(self, *, RequestItems: Mapping[str, Any], **_: Any) -> Any:
        """Delete items. If the capacity of an item is used up, the response returns its delete as unprocessed."""
        ((table, requests),) = RequestItems.items()
        left = []
        for request in requests:
            place = self.place(request["DeleteRequest"]["Key"])
            try:
                self.spend_write([(place, self.item(place), None)], together=False)
            except ErrorResponse:
                left.append(request)
            else:
                self.keep(place, None)
        return {"UnprocessedItems": {table: left} if left else {}}

    def _transact_write_items(self, *, TransactItems: list[Mapping[str, Mapping[str, Any]]], **_: Any) -> Any:
        """Execute all writes, or none of them. Raises ErrorResponse if a condition fails."""
        parts = [_Part.of(kind, asked, self.place) for part in TransactItems for kind, asked in part.items()]
        places = [part.place for part in parts]
        if len({(part.table, part.place) for part in parts}) < len(parts):
            raise _invalid("Transaction request cannot include multiple operations on one item")
        with self.held(set(places), places):
            olds = [self.item(place) for place in places]
            unmet = [not part.is_met(old) for part, old in zip(parts, olds, strict=True)]
            if any(unmet):
                raise cancelled(
                    {"Code": "ConditionalCheckFailed", **part.returned(old)} if failed else {"Code": "None"}
                    for part, old, failed in zip(parts, olds, unmet, strict=True)
                )
            changes = [(part.place, old, part.change(old)) for part, old in zip(parts, olds, strict=True)]
            self.spend_write(changes, together=True)
            for place, _old, new in changes:
                self.keep(place, new)
        return {}

    def _write(self, kind: str, asked: Mapping[str, Any]) -> Any:
        part = _Part.of(kind, asked, self.place)
        old = self.item(part.place)
        is_met = part.is_met(old)
        new = part.change(old) if is_met else old
        # A write whose condition fails also consumes units.
        self.spend_write([(part.place, old, new)], together=False)
        if not is_met:
            raise ErrorResponse(400, {"__type": "ConditionalCheckFailedException", "message": "", **part.returned(old)})
        self.keep(part.place, new)
        if new != old:
            self.changes.append((old, new))
        match asked.get("ReturnValues", "NONE"):
            case "ALL_NEW":
                return {"Attributes": new or {}}
            case "UPDATED_NEW":
                changed = {name: value for name, value in (new or {}).items() if value != (old or {}).get(name)}
                return {"Attributes": changed}
            case "ALL_OLD":
                return {"Attributes": old or {}}
            case _:
                return {}


class StubClient(client.Client):
    """DynamoDB client that passes its requests to a stub instead of sending them over HTTP."""

    def __init__(self, stub: Stub) -> None:
        self.stub = stub
        self._idle = []

    def begin(self, operation: str, **parameters: Any) -> Callable[[], Any]:
        """Execute the operation immediately. The returned function returns the response or raises the error."""
        try:
            answer = self.stub.carry_out(operation, **parameters)
        except Exception as error:
            return partial(raised, error)
        return lambda: answer


def _invalid(message: str) -> ErrorResponse:
    """Return the error of an invalid request."""
    return ErrorResponse(400, {"__type": "ValidationException", "message": message})


def _returned(asked: Mapping[str, Any], old: AttributeMap | None) -> dict[str, AttributeMap]:
    """Return what a failed condition adds to its error: the stored item if the request has
    `ReturnValuesOnConditionCheckFailure`, otherwise nothing."""
    return {"Item": old} if old and asked.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" else {}


def cancelled(reasons: Iterable[Mapping[str, Any]]) -> ErrorResponse:
    """Return the error of a cancelled transaction, with one reason per write."""
    return ErrorResponse(
        400, {"__type": "TransactionCanceledException", "message": "", "CancellationReasons": [*reasons]}
    )


@dataclass(frozen=True)
class _Part:
    """One write of a request: its condition and its change of an item."""

    table: str
    place: Place
    change: Callable[[AttributeMap | None], AttributeMap | None]
    is_met: Callable[[AttributeMap | None], bool]
    returned: Callable[[AttributeMap | None], Mapping[str, AttributeMap]]
    """Function that maps the stored item to the fields that a failed condition adds to its error."""

    @classmethod
    def of(cls, kind: str, asked: Mapping[str, Any], place: Callable[[AttributeMap], Place]) -> "_Part":
        known, condition = _Placeholders.of(asked), asked.get("ConditionExpression")
        test = _condition(condition) if condition else lambda *_: True
        change: Callable[[AttributeMap | None], AttributeMap | None]
        match kind:
            case "Put":
                key, item = asked["Item"], asked["Item"]
                change = lambda _: dict(item)  # noqa: E731
            case "Update":
                key, made = asked["Key"], _change(asked["UpdateExpression"])
                change = lambda old: made(old or key, known)  # noqa: E731
            case "Delete":
                key, change = asked["Key"], lambda _: None
            case "ConditionCheck":
                key, change = asked["Key"], lambda old: old
            case _:
                raise NotImplementedError(kind)
        return cls(
            asked["TableName"], place(key), change, lambda old: test(old or {}, known), partial(_returned, asked)
        )


def _sorted_by(names: Iterable[str], item: AttributeMap) -> tuple[Any, ...]:
    return tuple(_decode(item[name]) for name in names)


def _projected(item: AttributeMap, asked: Mapping[str, Any]) -> AttributeMap:
    if "ProjectionExpression" not in asked:
        return item
    known = _Placeholders.of(asked)
    names = {known.name(part) for part in asked["ProjectionExpression"].split(", ")}
    return {name: value for name, value in item.items() if name in names}


# Expressions ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Placeholders:
    """Attribute names and values that the placeholders of a request represent."""

    names: Mapping[str, str]
    values: Mapping[str, AttributeValue]

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> "_Placeholders":
        return cls(asked.get("ExpressionAttributeNames", {}), asked.get("ExpressionAttributeValues", {}))

    def name(self, word: str) -> str:
        """Return the attribute name for a word of an expression. The word is a name or a placeholder with `#`."""
        return self.names[word] if word.startswith("#") else word


_Read = Callable[[AttributeMap, _Placeholders], AttributeValue | None]
_Test = Callable[[AttributeMap, _Placeholders], bool]
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class _Words:
    """Tokens of an expression, consumed in order by a recursive-descent parser."""

    def __init__(self, text: str) -> None:
        self._words = re.findall(r"[#:]?\w+|<=|>=|<>|[=<>(),+\-]|\S", text)
        self._at = 0

    @property
    def next(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def take(self, *expected: str) -> str:
        word = self.next
        if expected and word not in expected:
            raise NotImplementedError(f"{word!r} in {' '.join(self._words)}")
        self._at += 1
        return word

    def operand(self) -> _Read:
        """Parse an operand: a name, a value, `if_not_exists(name, operand)`, `size(operand)`, or a sum or difference of two
        such operands.
        """
        first = self._single()
        if self.next not in ("+", "-"):
            return first
        sign = 1 if self.take() == "+" else -1
        second = self._single()
        return lambda item, known: _sum(first(item, known), second(item, known), sign)

    def _single(self) -> _Read:
        word = self.take()
        if word == "if_not_exists":
            self.take("(")
            name = self.take()
            self.take(",")
            otherwise = self.operand()
            self.take(")")
            return lambda item, known: item.get(known.name(name)) or otherwise(item, known)
        if word == "size":
            self.take("(")
            measured = self._single()
            self.take(")")
            return lambda item, known: _length(measured(item, known))
        if word.startswith(":"):
            return lambda _, known: known.values[word]
        if not re.fullmatch(r"#?\w+", word) or self.next == "(":
            raise NotImplementedError(f"{word!r} in {' '.join(self._words)}")
        return lambda item, known: item.get(known.name(word))

    def listed(self) -> Iterator[str]:
        """Yield the first word of each part of a comma-separated list. The caller must consume the rest of the part."""
        yield self.take()
        while self.next == ",":
            self.take()
            yield self.take()

    def alternatives(self) -> _Test:
        return self._joined("OR", any, lambda: self._joined("AND", all, self._one))

    def _joined(self, word: str, holds: Callable[[Iterable[bool]], bool], part: Callable[[], _Test]) -> _Test:
        tests = [part()]
        while self.next == word:
            self.take()
            tests.append(part())
        return tests[0] if len(tests) == 1 else lambda item, known: holds(test(item, known) for test in tests)

    def _one(self) -> _Test:
        if self.next == "(":
            self.take()
            inner = self.alternatives()
            self.take(")")
            return inner
        if self.next in ("attribute_exists", "attribute_not_exists"):
            wanted = self.take() == "attribute_exists"
            self.take("(")
            name = self.take()
            self.take(")")
            return lambda item, known: (known.name(name) in item) == wanted
        if self.next in ("begins_with", "contains"):
            is_prefix = self.take() == "begins_with"
            self.take("(")
            whole = self.operand()
            self.take(",")
            part = self.operand()
            self.take(")")
            return _holding(str.startswith, whole, part) if is_prefix else _containing(whole, part)
        left = self.operand()
        if self.next == "BETWEEN":
            self.take()
            low = self.operand()
            self.take("AND")
            return _holding(lambda value, low, high: low <= value <= high, left, low, self.operand())
        return _holding(_COMPARISONS[self.take(*_COMPARISONS)], left, self.operand())


def _holding(compare: Callable[..., bool], *reads: _Read) -> _Test:
    """Return a test that calls `compare` with the values of the operands `reads`. The test fails if an operand does not
    exist, or if the operands have different types."""

    def test(item: AttributeMap, known: _Placeholders) -> bool:
        values = [read(item, known) for read in reads]
        there = [value for value in values if value is not None]
        return len(there) == len(reads) and len(set(map(tuple, there))) == 1 and compare(*map(_decode, there))

    return test


def _containing(whole: _Read, part: _Read) -> _Test:
    """Return a test of whether a string contains another string, or a set of strings contains a string."""

    def test(item: AttributeMap, known: _Placeholders) -> bool:
        outer, inner = whole(item, known), part(item, known)
        return outer is not None and inner is not None and _decode(inner) in _decode(outer)

    return test


def _length(value: AttributeValue | None) -> AttributeValue | None:
    """Return the length of a string or set. `None` if the value does not exist, so that a comparison fails."""
    return None if value is None else {"N": str(len(_decode(value)))}


def _decode(value: AttributeValue) -> Any:
    ((kind, content),) = value.items()
    return Decimal(content) if kind == "N" else content


def _sum(one: AttributeValue | None, other: AttributeValue | None, sign: int = 1) -> AttributeValue:
    if one is None or other is None:
        raise NotImplementedError("a sum of what is not there")
    return {"N": str(Decimal(one["N"]) + sign * Decimal(other["N"]))}


def _added(old: AttributeValue | None, value: AttributeValue | None) -> AttributeValue:
    """Return the result of ADD: a sum, or the union of two sets of strings."""
    if value and "SS" in value:
        return {"SS": sorted({*(old or {"SS": []})["SS"], *value["SS"]})}
    return _sum(old or {"N": "0"}, value)


def _without(old: AttributeValue | None, value: AttributeValue | None) -> AttributeValue | None:
    """Return the set of strings `old` without the members of `value`. Returns `None` if no string remains, because
    DynamoDB stores no empty set."""
    if not value or "SS" not in value:
        raise NotImplementedError(f"DELETE {value}")
    rest = sorted({*(old or {"SS": []})["SS"]} - {*value["SS"]})
    return {"SS": rest} if rest else None


_KEY_CONDITION = re.compile(
    r"(?P<equal>#?\w+) = :\w+|(?P<compared>#?\w+) (<|<=|>|>=) :\w+|(?P<between>#?\w+) BETWEEN :\w+ AND :\w+"
    r"|begins_with ?\((?P<begun>#?\w+), :\w+\)"
)
"""Pattern of a condition on one key attribute. The name of the matching group is the kind of condition."""


@cache
def _key_conditions(text: str) -> tuple[Sequence[str], Sequence[str]]:
    """Return the attribute names that a key condition compares with `=`, and the names that it compares with other
    operators.

    Raises ErrorResponse if the condition is invalid.
    """
    equal, ranges = list[str](), list[str]()
    for part in re.split(r" AND (?!:)", text):
        match = _KEY_CONDITION.fullmatch(part)
        if not match:
            raise _invalid(f"Invalid operator used in KeyConditionExpression: {part}")
        ((kind, word),) = ((kind, word) for kind, word in match.groupdict().items() if word)
        (equal if kind == "equal" else ranges).append(word)
    return equal, ranges


def _check_key_condition(text: str, known: _Placeholders, partition: Sequence[str], sort: Sequence[str]) -> None:
    """Raise ErrorResponse if DynamoDB would reject a key condition.

    The condition must compare all partition keys with `=`. It may also compare sort keys, from the first one on and
    without a gap. Only the last of these may be compared with another operator than `=`.
    """
    equal, ranges = ([known.name(word) for word in words] for words in _key_conditions(text))
    sorted_by = [*(name for name in equal if name not in partition), *ranges]
    if len({*equal, *ranges}) < len(equal) + len(ranges) or len(ranges) > 1:
        raise _invalid("KeyConditionExpressions must only contain one condition per key")
    if not {*partition} <= {*equal} or {*sorted_by} != {*sort[: len(sorted_by)]}:
        raise _invalid(f"Query condition missed key schema element, or has another one: {text}")
    if ranges and ranges[0] != sort[len(sorted_by) - 1]:
        raise _invalid("Query key condition not supported")


@cache
def _condition(text: str) -> _Test:
    words = _Words(text)
    test = words.alternatives()
    words.take("")
    return test


@cache
def _change(text: str) -> Callable[[AttributeMap, _Placeholders], AttributeMap]:
    """Return a function that applies an update expression to an item."""
    words = _Words(text)
    assigned: list[tuple[str, _Read]] = []
    added: list[tuple[str, _Read]] = []
    deleted: list[tuple[str, _Read]] = []
    removed: list[str] = []
    while words.next:
        match words.take("SET", "ADD", "DELETE", "REMOVE"):
            case "SET":
                for name in words.listed():
                    words.take("=")
                    assigned.append((name, words.operand()))
            case "ADD":
                added += [(name, words.operand()) for name in words.listed()]
            case "DELETE":
                deleted += [(name, words.operand()) for name in words.listed()]
            case _:
                removed += words.listed()

    def change(old: AttributeMap, known: _Placeholders) -> AttributeMap:
        # All operands are read from the old item.
        new = {**old, **{known.name(name): value for name, read in assigned if (value := read(old, known)) is not None}}
        for name, read in added:
            new[known.name(name)] = _added(old.get(known.name(name)), read(old, known))
        for name, read in deleted:
            if rest := _without(old.get(known.name(name)), read(old, known)):
                new[known.name(name)] = rest
            else:
                new.pop(known.name(name), None)
        for name in removed:
            new.pop(known.name(name), None)
        return new

    return change
