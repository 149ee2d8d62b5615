"""Revert plans: the fields to restore, and the fields to skip because another author changed them later.

The functions compute plans from audit entries and states (`PastVersion.state`), and read nothing from the table.
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
"""Reasons to skip a field.

- `changedSince`: another author changed the field later.
- `notWritable`: users cannot write the field.
- `notKept`: the trail has only a truncated value.
- `gone`: the video of a playlist entry is permanently removed."""

_ABSENT = object()


@dataclass(frozen=True)
class SkippedField:
    """Field that a revert skips, and the later change that is the reason."""

    field: str
    """JSON Pointer of the field."""
    reason: Reason
    by: Item | None = None
    """Author of the later change."""
    at: int | None = None
    """Time of the later change, in epoch milliseconds."""
    version: int | None = None
    """Version that the later change created."""

    def document(self) -> dict[str, Any]:
        """Return the skipped field in the form of API responses."""
        shown = {"field": self.field, "reason": self.reason, "by": self.by, "at": self.at, "version": self.version}
        return {name: value for name, value in shown.items() if value is not None}


@dataclass(frozen=True)
class RevertPlan:
    """Planned revert of one video, related item or playlist."""

    state: Item
    """State after the revert, as plain values."""
    changes: list[Change] = field(default_factory=list)
    """Changes from the current state to the planned state; empty if nothing must be written."""
    skipped: list[SkippedField] = field(default_factory=list)
    """Fields that the revert leaves unchanged, with the reasons."""
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
    """Plan to restore an earlier state of a video, except fields that other authors changed later.

    `now` is the current state, and `then` the earlier state. `later` are the audit entries since the earlier state,
    newest first. `fields` are JSON Pointers: only values at or below them are restored. Values at or below the pointers
    in `force` are restored even if another author changed them later.

    `writable` returns whether users can write the field at a JSON Pointer. The plan skips fields that users cannot
    write, and reports them only if `fields` does not select the whole video. Raises Gone if a value to restore is
    truncated in the trail.
    """
    foreign = [entry for entry in later if entry["by"] != {"kind": caller.kind, "id": caller.subject}]
    state, skipped, truncated = now, [], []

    def is_skipped(pointer: str) -> bool:
        """Return whether to leave the value at this pointer unchanged.

        If so, also adds the field and the reason to `skipped`, with two exceptions. A value outside of `fields` is not
        reported. If `fields` selects the whole video, fields that users cannot write are not reported.
        """
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

    for pointer in list(truncated_fields(then)):
        # A truncated value cannot be compared. It comes from the entry of a later change, so the field has changed since
        # then. The current value replaces it here, so that the comparison below ignores the field.
        value = _value_at(now, pointer)
        then = set_at(then, split_pointer(pointer), value, is_present=value is not _ABSENT)
        if not is_skipped(pointer):
            truncated.append(TruncatedValue(pointer))
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
    """Plan to revert the changes that one change set made to an item, except fields that other change sets changed
    later.

    `now` is the current state. `entries` are the audit entries of the change set for this item. `later` are all audit
    entries of the item since the oldest of `entries`. Both are newest first. `own` is the id of the revert run. Entries
    of the run itself do not count as later changes.

    `writable` returns whether users can write the field at a JSON Pointer. The plan neither reverts nor reports fields
    that users cannot write. Values at or below the pointers in `force` are reverted even if they were changed later.
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
            # The value is the same as before the change set, so it is already reverted.
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
    """Return the entries in `later` that belong neither to the change set of `entries` nor to the revert run `own`."""
    ours = {own, *(entry[CHANGESET] for entry in entries)}
    return [entry for entry in later if entry.get(CHANGESET) not in ours]


def find_later_author(entries: Sequence[Item], later: Sequence[Item], own: str) -> SkippedField | None:
    """Return, as a skipped field, the newest change that prevents the deletion of an item that a change set created.
    `None` if none prevents it.

    `entries` are the audit entries of this change set for the item. `later` are all audit entries of the item since the
    oldest of `entries`. Both are newest first. A change by a job does not prevent the deletion, unless the job is an
    import. An entry without changed fields does not prevent it.
    """
    for entry in outside(entries, later, own):
        is_change = entry[SORT_KEY] > entries[-1][SORT_KEY] and bool(entry["changes"])
        if is_change and (entry["by"]["kind"] != "job" or entry["by"]["id"] == IMPORT):
            return _changed_since("", entry)
    return None


def _latest_change(entries: Iterable[Item], pointer: str) -> Item | None:
    """Return the newest entry that changed a value at, above or below a JSON Pointer. `entries` are newest first."""
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
    """Return whether two values are equal. A value with a truncated part is not equal to any value."""
    if value is _ABSENT or other is _ABSENT:
        return value is other
    return not any(truncated_fields(other)) and encode(value) == encode(other)
