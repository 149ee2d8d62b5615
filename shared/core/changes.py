"""Differences between two versions of an item, as lists of changes. Users can read and revert these changes.

A change is `{"field", "from", "to"}`. `field` is a JSON Pointer (RFC 6901) instead of a dotted path, because a key of a map may
contain a dot. `from` is absent if the change added the field, and `to` if the change removed it. An absent value is not null.
"""

import base64
import hashlib
import json
from collections.abc import Container, Iterator, Mapping

from shared.core.attributes import Item, Value, encode

LONGEST_WHEN_CUT = 1000
"""Maximum number of characters that remain of a truncated value."""

Change = dict[str, Value]
"""Change of one field: `field`, `from` and `to`."""


def changes_between(
    old: Mapping[str, Value], new: Mapping[str, Value], path: str = "", *, always: Container[str] = ()
) -> Iterator[Change]:
    """Yield the changes from `old` to `new`, in the order of their paths.

    If the old and the new value of a field are maps, their entries are compared. Other values, such as lists, change as
    a whole. `path` is the prefix of each `field`. `always` has names of fields: if such a field is an empty map, it is
    treated as absent.
    """
    for name in sorted(old.keys() | new.keys()):
        field = f"{path}/{escape_pointer(name)}"
        before, after = old.get(name), new.get(name)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from changes_between(before, after, field)
            continue
        change: Change = {"field": field}
        if name in old and not (before == {} and name in always):
            change["from"] = before
        if name in new and not (after == {} and name in always):
            change["to"] = after
        if len(change) > 1 and ("from" not in change or "to" not in change or _differ(before, after)):
            yield {part: to_json_value(value) for part, value in change.items()}


def _differ(before: Value, after: Value) -> bool:
    """Return whether two values differ. A value that contains a `TruncatedValue` is equal only to the same Python
    object."""
    was_cut = any(True for value in (before, after) for _ in truncated_fields(value))
    return before is not after if was_cut else encode(before) != encode(after)


class TruncatedValue:
    """Placeholder for a value that is truncated in the audit trail. `field` is the JSON Pointer of the value."""

    def __init__(self, field: str) -> None:
        self.field = field


def revert_change(state: Item, change: Change) -> Item:
    """Return a copy of the item as it was before `change`.

    If the old value is truncated, the copy has a `TruncatedValue` in its place. A change to a field inside a `TruncatedValue`
    has no effect.
    """
    value: Value = TruncatedValue(change["field"]) if "fromBytes" in change else change.get("from")
    return set_at(state, split_pointer(change["field"]), value, is_present="from" in change)


def set_at(state: Item, parts: list[str], value: Value, *, is_present: bool) -> Item:
    """Return a copy of the item with `value` in the field at the path `parts`. If `is_present` is false, the copy lacks
    this field."""
    name, *rest = parts
    if not rest:
        return state | {name: value} if is_present else {key: other for key, other in state.items() if key != name}
    inner = state.get(name, {})
    if isinstance(inner, TruncatedValue):
        return state
    return state | {name: set_at(dict(inner) if isinstance(inner, Mapping) else {}, rest, value, is_present=is_present)}


def truncated_fields(value: Value) -> Iterator[str]:
    """Yield the JSON Pointer of each `TruncatedValue` in a value, including nested maps."""
    if isinstance(value, TruncatedValue):
        yield value.field
    for inner in value.values() if isinstance(value, Mapping) else ():
        yield from truncated_fields(inner)


def escape_pointer(name: str) -> str:
    """Return a key escaped for a JSON Pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def split_pointer(field: str) -> list[str]:
    """Return the unescaped keys of a JSON Pointer. The empty pointer, which refers to the whole document, has no keys."""
    return [part.replace("~1", "/").replace("~0", "~") for part in field.split("/")[1:]]


def covers(field: str, other: str) -> bool:
    """Return whether the JSON Pointer `field` is equal to `other`, or refers to an ancestor of the field at `other`."""
    return other == field or other.startswith(f"{field}/")


def overlap(field: str, other: str) -> bool:
    """Return whether a change at one JSON Pointer can affect the value at the other pointer."""
    return covers(field, other) or covers(other, field)


def to_json_value(value: Value) -> Value:
    """Return the value converted to JSON types. Keys and sets are sorted, so equal values have equal results.

    Bytes are base64.
    """
    if isinstance(value, Mapping):
        return {name: to_json_value(value[name]) for name in sorted(value)}
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, list):
        return [to_json_value(entry) for entry in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def digest_of(value: Value) -> str:
    """Return a digest of a value in 16 hexadecimal digits. The numbers 1 and 1.0 have the same digest.

    The value must not contain a `TruncatedValue`.
    """
    return hashlib.sha256(json_of(_normalise(to_json_value(value)))).hexdigest()[:16]


def _normalise(value: Value) -> Value:
    """Return the value with equal numbers converted to one type. DynamoDB may return the float 1e21 as an integer."""
    if isinstance(value, Mapping):
        return {name: _normalise(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_normalise(entry) for entry in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    is_exact = abs(value) < 2**53
    return int(value) if is_exact and value == int(value) else float(value)


def truncate_to_fit(item: Item, largest: int) -> Item:
    """Return the item, with shortened `changes` if it has more than `largest` bytes as JSON.

    Truncates the largest values first. `fromBytes` or `toBytes` is the original size of a truncated value in bytes. If
    the item is still too large, omits the last changes. The item's attribute `omitted` is the number of omitted
    changes.
    """
    size = len(json_of(item))
    if size <= largest:
        return item
    changes = [dict(change) for change in item["changes"]]
    values = [
        (len(json_of(change[side])), position, side)
        for position, change in enumerate(changes)
        for side in ("from", "to")
        if side in change
    ]
    for bytes_, position, side in sorted(values, reverse=True):
        if size <= largest or bytes_ <= 4 * LONGEST_WHEN_CUT:
            break
        change, whole = changes[position], len(json_of(changes[position]))
        value = change[side]
        change[side] = (value if isinstance(value, str) else json_of(value).decode())[:LONGEST_WHEN_CUT]
        change[f"{side}Bytes"] = bytes_
        size -= whole - len(json_of(change))
    retained, room = len(changes), 0
    while size + room > largest:
        room = len(f',"omitted":{len(changes)}')  # reserved for the largest possible number
        retained -= 1
        size -= len(json_of(changes[retained])) + 1
    omitted = {"omitted": len(changes) - retained} if retained < len(changes) else {}
    return item | {"changes": changes[:retained], **omitted}


def json_of(value: Value) -> bytes:
    """Return a plain value as compact JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
