"""Revert plans: the fields to restore, and the fields to skip with the author of the later change.

Contains pure functions on audit entries and on plain states, as described in `shared/history/as_of.py`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from shared.core.attributes import Item, Value, encode
from shared.core.caller import IMPORT, Caller
from shared.core.changes import (
    Change,
    TruncatedValue,
    changes_between,
    covers,
    overlap,
    revert_change,
    set_at,
    split_pointer,
    truncated_fields,
)
from shared.history.as_of import require_untruncated
from shared.history.entries import UNKNOWN
from shared.schema import CHANGESET, SORT_KEY

Reason = Literal["changedSince", "notWritable", "notKept", "gone"]
REASONS: tuple[Reason, ...] = get_args(Reason)
"""Reasons to skip a field. `changedSince`: another author changed it later. `notWritable`: users cannot write it.
`notKept`: the trail has only a truncated value. `gone`: the video of a playlist entry is permanently removed."""

_ABSENT = object()


@dataclass(frozen=True)
class SkippedField:
    """Field that a revert skips, with the later author if there is one."""

    field: str
    reason: Reason
    by: Item | None = None
    at: int | None = None
    """Time of the later change, in epoch milliseconds."""
    version: int | None = None

    def document(self) -> dict[str, Any]:
        """Return the skipped field as the API shows it."""
        shown = {"field": self.field, "reason": self.reason, "by": self.by, "at": self.at, "version": self.version}
        return {name: value for name, value in shown.items() if value is not None}


@dataclass(frozen=True)
class RevertPlan:
    """Planned revert of one video, related item or playlist."""

    state: Item
    """State after the revert, as plain values."""
    changes: list[Change] = field(default_factory=list)
    """Changes from the present state to the planned state; empty if nothing must be written."""
    skipped: list[SkippedField] = field(default_factory=list)
    already: list[str] = field(default_factory=list)
    """JSON Pointers of fields that already have the value from before the change set."""


def plan_to_version(
    now: Item,
    then: Item,
    later: Sequence[Item],
    caller: Caller,
    *,
    writable: Callable[[str], bool],
    fields: Sequence[str] = ("",),
    force: Sequence[str] = (),
) -> RevertPlan:
    """Plan to restore an earlier state of a video below `fields`, except fields that other authors changed later.

    `now` is the present state, and `then` the earlier one. `later` are the entries after the earlier state, newest
    first. `force` overrides later changes. Fields that are not `writable` are reported only if `fields` names some.
    Raises Gone, naming the fields, if a required value was truncated.
    """
    foreign = [entry for entry in later if entry["by"] != {"kind": caller.kind, "id": caller.subject}]
    state, skipped, truncated = now, [], []

    def is_skipped(pointer: str) -> bool:
        """Return whether to leave the value at this pointer unchanged; report the reason in `skipped` where needed."""
        if not _covered(pointer, fields):
            return True
        if not writable(pointer):
            if tuple(fields) != ("",):
                skipped.append(SkippedField(pointer, "notWritable"))
            return True
        culprit = None if _covered(pointer, force) else _latest_change(foreign, pointer)
        if culprit:
            skipped.append(_changed_since(pointer, culprit))
        return culprit is not None

    for cut in list(truncated_fields(then)):
        # A truncated value cannot be compared. Its truncation shows that it was changed.
        value = _value_at(now, cut)
        then = set_at(then, split_pointer(cut), value, is_present=value is not _ABSENT)
        if not is_skipped(cut):
            truncated.append(TruncatedValue(cut))
    require_untruncated(dict(enumerate(truncated)))
    for change in changes_between(now, then):
        pointer = change["field"]
        if not is_skipped(pointer):
            state = set_at(state, split_pointer(pointer), change.get("to"), is_present="to" in change)
    return RevertPlan(state, list(changes_between(now, state)), skipped)


def plan_without_set(
    now: Item,
    entries: Sequence[Item],
    later: Sequence[Item],
    own: str,
    *,
    writable: Callable[[str], bool],
    force: Sequence[str] = (),
) -> RevertPlan:
    """Plan to revert the entries of one change set, except later changes outside of the set.

    `entries` are the set's entries, and `later` all entries since its first one. Both are newest first. `own` is the id
    of the present run. Earlier writes of the run do not count as writes outside of the set.
    """
    foreign = outside(entries, later, own)
    before = now
    for entry in entries:
        for change in reversed(entry["changes"]):
            before = revert_change(before, change)
    state = now
    skipped: dict[str, SkippedField] = {}
    already: dict[str, None] = {}
    for entry in entries:
        since = [candidate for candidate in foreign if candidate[SORT_KEY] > entry[SORT_KEY]]
        for change in reversed(entry["changes"]):
            pointer = change["field"]
            if not writable(pointer) or any(overlap(pointer, skipped_pointer) for skipped_pointer in skipped):
                continue
            # Equal to the state before the set, regardless of the changes in between: it is already reverted.
            if _same(_value_at(now, pointer), _value_at(before, pointer)):
                already[pointer] = None
                continue
            value, forced = _value_at(state, pointer), _covered(pointer, force)
            if _same(value, change.get("from", _ABSENT)) and "fromBytes" not in change:
                continue
            if not forced and (culprit := _latest_change(since, pointer)):
                skipped[pointer] = _changed_since(pointer, culprit)
            elif "fromBytes" in change:
                skipped[pointer] = SkippedField(pointer, "notKept")
            elif not forced and "toBytes" not in change and not _same(value, change.get("to", _ABSENT)):
                skipped[pointer] = SkippedField(pointer, "changedSince", UNKNOWN)
            else:
                state = set_at(state, split_pointer(pointer), change.get("from"), is_present="from" in change)
    return RevertPlan(state, list(changes_between(now, state)), list(skipped.values()), sorted(already))


def outside(entries: Sequence[Item], later: Iterable[Item], own: str) -> list[Item]:
    """Return the later entries that neither the change set of `entries` nor the run `own` wrote."""
    ours = {own, *(entry[CHANGESET] for entry in entries)}
    return [entry for entry in later if entry.get(CHANGESET) not in ours]


def find_later_author(entries: Sequence[Item], later: Sequence[Item], own: str) -> SkippedField | None:
    """Return the reason to keep an item that a change set created: a later change by a person or another import.

    Versions without a visible change, and changes by jobs of the service, do not count. `None` if there is no reason.
    """
    for entry in outside(entries, later, own):
        is_change = entry[SORT_KEY] > entries[-1][SORT_KEY] and bool(entry["changes"])
        if is_change and (entry["by"]["kind"] != "job" or entry["by"]["id"] == IMPORT):
            return _changed_since("", entry)
    return None


def _latest_change(entries: Iterable[Item], pointer: str) -> Item | None:
    """Return the newest entry that changed a value at, above or below a pointer."""
    return next(
        (entry for entry in entries if any(overlap(pointer, change["field"]) for change in entry["changes"])), None
    )


def _changed_since(pointer: str, entry: Item) -> SkippedField:
    return SkippedField(pointer, "changedSince", entry["by"], entry["at"], entry.get("version"))


def _covered(pointer: str, fields: Iterable[str]) -> bool:
    return any(covers(field, pointer) for field in fields)


def _value_at(state: Value, pointer: str) -> Value:
    for part in split_pointer(pointer):
        if isinstance(state, TruncatedValue):
            return state
        if not isinstance(state, dict) or part not in state:
            return _ABSENT
        state = state[part]
    return state


def _same(value: Value, other: Value) -> bool:
    """Return whether two values are known to be equal. A truncated value never is."""
    if value is _ABSENT or other is _ABSENT:
        return value is other
    return not any(truncated_fields(other)) and encode(value) == encode(other)
