"""What differs between two items, as a list of changes that can be read, cut to a size, and taken back.

A change is `{"field", "from", "to"}`: `field` is a JSON Pointer (RFC 6901), because a key of a map may have a dot in it;
`from` or `to` is absent where there was nothing, which differs from null.
"""

import base64
import hashlib
import json
from collections.abc import Container, Iterator, Mapping

from shared.core.attributes import Item, Value, encode

LONGEST_WHEN_CUT = 1000
"""What stays of a value that is cut, in characters."""

Change = dict[str, Value]


def changes_between(
    old: Mapping[str, Value], new: Mapping[str, Value], path: str = "", *, always: Container[str] = ()
) -> Iterator[Change]:
    """What differs, by path: maps that are on both sides entry by entry, everything else as a whole.

    `always` are attributes that are there even when they are empty: that they came or went empty is not a change.
    """
    for name in sorted(old.keys() | new.keys()):
        field = f"{path}/{escaped(name)}"
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
            yield {part: plain(value) for part, value in change.items()}


def _differ(before: Value, after: Value) -> bool:
    """Whether two values differ. One that was cut is like itself alone: nobody knows what it was."""
    was_cut = any(True for value in (before, after) for _ in cut_fields(value))
    return before is not after if was_cut else encode(before) != encode(after)


class Cut:
    """Stands for a value of which the trail keeps only the beginning."""

    def __init__(self, field: str) -> None:
        self.field = field


def taken_back(state: Item, change: Change) -> Item:
    """A plain item as it was before a change; the item itself stays as it is.

    A value that was cut is a `Cut`, and so stays whatever lies in it.
    """
    value: Value = Cut(change["field"]) if "fromBytes" in change else change.get("from")
    return placed(state, parts_of(change["field"]), value, there="from" in change)


def placed(state: Item, parts: list[str], value: Value, *, there: bool) -> Item:
    """The item with this value at a path, or with nothing there; the item itself stays as it is."""
    name, *rest = parts
    if not rest:
        return state | {name: value} if there else {key: kept for key, kept in state.items() if key != name}
    inner = state.get(name, {})
    if isinstance(inner, Cut):
        return state
    return state | {name: placed(dict(inner) if isinstance(inner, Mapping) else {}, rest, value, there=there)}


def cut_fields(value: Value) -> Iterator[str]:
    """The pointers of the values in it that were cut."""
    if isinstance(value, Cut):
        yield value.field
    for inner in value.values() if isinstance(value, Mapping) else ():
        yield from cut_fields(inner)


def escaped(name: str) -> str:
    """A key as it stands in a JSON Pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def parts_of(field: str) -> list[str]:
    """The keys that a JSON Pointer leads along: none for the empty pointer, which is the whole."""
    return [part.replace("~1", "/").replace("~0", "~") for part in field.split("/")[1:]]


def covers(field: str, other: str) -> bool:
    """Whether one pointer names the other's place, or one that holds it."""
    return other == field or other.startswith(f"{field}/")


def overlap(field: str, other: str) -> bool:
    """Whether a change at one pointer may change what is at the other."""
    return covers(field, other) or covers(other, field)


def plain(value: Value) -> Value:
    """The value as JSON can write it, in an order of its own."""
    if isinstance(value, Mapping):
        return {name: plain(value[name]) for name in sorted(value)}
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def digest_of(value: Value) -> str:
    """16 hexadecimal digits that stand for a value of which nothing was cut, however DynamoDB spells its numbers."""
    return hashlib.sha256(json_of(_evened(plain(value)))).hexdigest()[:16]


def _evened(value: Value) -> Value:
    """The plain value with equal numbers alike: 1e21 comes back from DynamoDB as an integer."""
    if isinstance(value, Mapping):
        return {name: _evened(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_evened(entry) for entry in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    is_exact = abs(value) < 2**53
    return int(value) if is_exact and value == int(value) else float(value)


def fitting(item: Item, largest: int) -> Item:
    """An item with `changes`, made to fit `largest` bytes: its longest values are cut, and what is still too much is left out.

    A value that is cut keeps its beginning, and `fromBytes` or `toBytes` says how long it was.
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
    kept, room = len(changes), 0
    while size + room > largest:
        room = len(f',"omitted":{len(changes)}')  # for the largest number that it may have to name
        kept -= 1
        size -= len(json_of(changes[kept])) + 1
    omitted = {"omitted": len(changes) - kept} if kept < len(changes) else {}
    return item | {"changes": changes[:kept], **omitted}


def json_of(value: Value) -> bytes:
    """A plain value as JSON, in as few bytes as it takes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
