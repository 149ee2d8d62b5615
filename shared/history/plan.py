"""What taking changes back would do: which fields come back, and which are left alone because of whom.

Pure functions over plain states, as shared/history/was.py has them, and entries of the trail.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from shared.core.attributes import Item, Value, encode
from shared.core.caller import IMPORT, Caller
from shared.core.changes import (
    Change,
    Cut,
    changes_between,
    covers,
    cut_fields,
    overlap,
    parts_of,
    placed,
    taken_back,
)
from shared.history.entries import UNKNOWN
from shared.history.was import require_known
from shared.schema import CHANGESET, SORT_KEY

Reason = Literal["changedSince", "notWritable", "notKept", "gone"]
REASONS: tuple[Reason, ...] = get_args(Reason)
"""Somebody changed it since; people cannot write it; the trail has only the beginning of the value; the
video that an entry of a playlist is about is gone for good."""

_ABSENT = object()


@dataclass(frozen=True)
class Skipped:
    """A field that is left alone."""

    field: str
    reason: Reason
    by: Item | None = None
    at: int | None = None
    """Epoch milliseconds."""
    version: int | None = None

    def document(self) -> dict[str, Any]:
        """As clients see it."""
        shown = {"field": self.field, "reason": self.reason, "by": self.by, "at": self.at, "version": self.version}
        return {name: value for name, value in shown.items() if value is not None}


@dataclass(frozen=True)
class Plan:
    """What is to be done about one video, one thing beside it, or one playlist."""

    state: Item
    """The plain state that it should have."""
    changes: list[Change] = field(default_factory=list)
    """What leads there from the present one; none: nothing is to be written."""
    skipped: list[Skipped] = field(default_factory=list)
    already: list[str] = field(default_factory=list)
    """What is as it should be without it."""


def to_version(
    now: Item,
    then: Item,
    later: Sequence[Item],
    caller: Caller,
    *,
    writable: Callable[[str], bool],
    fields: Sequence[str] = ("",),
    force: Sequence[str] = (),
) -> Plan:
    """Set back what differs between two states of a video, below `fields`, but for what others than the caller changed since.

    `later` are the entries since then, the newest first. What is not `writable` is named only where `fields` asks for it.
    Raises Gone, naming the fields, when a value that is needed was cut.
    """
    others = [entry for entry in later if entry["by"] != {"kind": caller.kind, "id": caller.subject}]
    state, skipped, lost = now, [], []

    def is_left(pointer: str) -> bool:
        """Whether what is at a pointer stays as it is, and if need be who is to be named for it."""
        if not _covered(pointer, fields):
            return True
        if not writable(pointer):
            if tuple(fields) != ("",):
                skipped.append(Skipped(pointer, "notWritable"))
            return True
        culprit = None if _covered(pointer, force) else _toucher(others, pointer)
        if culprit:
            skipped.append(_left(pointer, culprit))
        return culprit is not None

    for cut in list(cut_fields(then)):
        # Nobody knows whether it differs; that it was cut says that it was changed.
        value = _value_at(now, cut)
        then = placed(then, parts_of(cut), value, there=value is not _ABSENT)
        if not is_left(cut):
            lost.append(Cut(cut))
    require_known(dict(enumerate(lost)))
    for change in changes_between(now, then):
        pointer = change["field"]
        if not is_left(pointer):
            state = placed(state, parts_of(pointer), change.get("to"), there="to" in change)
    return Plan(state, list(changes_between(now, state)), skipped)


def without_set(
    now: Item,
    entries: Sequence[Item],
    later: Sequence[Item],
    own: str,
    *,
    writable: Callable[[str], bool],
    force: Sequence[str] = (),
) -> Plan:
    """Take back what the entries of one change set did, but for what was changed since by anything outside of it.

    `entries` are those of the set, the newest first; `later` are all entries since the first of them, likewise. `own` is
    the id of the run that asks: what it has written already is not somebody else's.
    """
    foreign = outside(entries, later, own)
    before = now
    for entry in entries:
        for change in reversed(entry["changes"]):
            before = taken_back(before, change)
    state = now
    skipped: dict[str, Skipped] = {}
    already: dict[str, None] = {}
    for entry in entries:
        since = [other for other in foreign if other[SORT_KEY] > entry[SORT_KEY]]
        for change in reversed(entry["changes"]):
            pointer = change["field"]
            if not writable(pointer) or any(overlap(pointer, left) for left in skipped):
                continue
            # As before the set, however often the set changed it: somebody has taken it back already.
            if _same(_value_at(now, pointer), _value_at(before, pointer)):
                already[pointer] = None
                continue
            value, forced = _value_at(state, pointer), _covered(pointer, force)
            if _same(value, change.get("from", _ABSENT)) and "fromBytes" not in change:
                continue
            if not forced and (culprit := _toucher(since, pointer)):
                skipped[pointer] = _left(pointer, culprit)
            elif "fromBytes" in change:
                skipped[pointer] = Skipped(pointer, "notKept")
            elif not forced and "toBytes" not in change and not _same(value, change.get("to", _ABSENT)):
                skipped[pointer] = Skipped(pointer, "changedSince", UNKNOWN)
            else:
                state = placed(state, parts_of(pointer), change.get("from"), there="from" in change)
    return Plan(state, list(changes_between(now, state)), list(skipped.values()), sorted(already))


def outside(entries: Sequence[Item], later: Iterable[Item], own: str) -> list[Item]:
    """Those of the later entries that neither the change set of `entries` nor the run `own` wrote."""
    ours = {own, *(entry[CHANGESET] for entry in entries)}
    return [entry for entry in later if entry.get(CHANGESET) not in ours]


def keeper(entries: Sequence[Item], later: Sequence[Item], own: str) -> Skipped | None:
    """Who keeps what a change set created from going, by a change of their own since: people, and other imports.

    A version that changed nothing that is shown is not a change.

    What the service's jobs make of something is not a reason to keep it.
    """
    for entry in outside(entries, later, own):
        is_change = entry[SORT_KEY] > entries[-1][SORT_KEY] and bool(entry["changes"])
        if is_change and (entry["by"]["kind"] != "job" or entry["by"]["id"] == IMPORT):
            return _left("", entry)
    return None


def _toucher(entries: Iterable[Item], pointer: str) -> Item | None:
    """The newest of these entries that changed what is at a pointer."""
    return next(
        (entry for entry in entries if any(overlap(pointer, change["field"]) for change in entry["changes"])), None
    )


def _left(pointer: str, entry: Item) -> Skipped:
    return Skipped(pointer, "changedSince", entry["by"], entry["at"], entry.get("version"))


def _covered(pointer: str, fields: Iterable[str]) -> bool:
    return any(covers(field, pointer) for field in fields)


def _value_at(state: Value, pointer: str) -> Value:
    for part in parts_of(pointer):
        if isinstance(state, Cut):
            return state
        if not isinstance(state, dict) or part not in state:
            return _ABSENT
        state = state[part]
    return state


def _same(value: Value, other: Value) -> bool:
    """Whether two values are known to be the same; one that was cut is not known."""
    if value is _ABSENT or other is _ABSENT:
        return value is other
    return not any(cut_fields(other)) and encode(value) == encode(other)
