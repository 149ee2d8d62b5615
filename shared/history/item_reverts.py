"""Reverts of items related to a video: credits, releases, captions, chapters and imported ratings."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from shared.aws.dynamodb import Key, Table
from shared.aws.failures import ConditionFailed
from shared.aws.records import retry_on_conflict
from shared.captions.store import CaptionStore
from shared.core.attributes import Item, Value
from shared.core.caller import Caller
from shared.core.changes import changes_between, covers, set_at, split_pointer, to_json_value
from shared.core.errors import IllegalTransition, NotFound, VersionMismatch
from shared.history.as_of import STREAM_SECONDS
from shared.history.entries import (
    CAPTION_FIELDS,
    CHAPTERS_FIELDS,
    CREDIT_FIELDS,
    RATING_FIELDS,
    RELEASE_FIELDS,
    UNKNOWN,
)
from shared.history.later_entries import LaterEntries, is_already_reverted, is_complete
from shared.history.outcome import RevertResult
from shared.history.revert_plan import RevertPlan, SkippedField, find_later_author, plan_without_set
from shared.history.revert_runs import RevertRequest
from shared.relations.credits import RelationStore
from shared.relations.ratings import RatingStore
from shared.schema import CAPTION, CHAPTERS, CREDIT, RATING_TOTALS, RELEASE, VIDEO
from shared.videos.access import require_owned
from shared.videos.entries import NO_LANGUAGE

TEXT = "/text"
"""JSON Pointer that reports use for all audited fields of captions together."""


class ItemReverts(ABC):
    """Base class for the reverts of one kind of related item."""

    fields: Sequence[str]
    """Names of the audited attributes."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def revert(self, entries: Sequence[Item], request: RevertRequest, now: int, later: LaterEntries) -> RevertResult:
        """Revert the changes that one change set made to one related item. `now` is in epoch seconds.

        `entries` are the audit entries of the change set for this item, newest first. `later` reads all audit entries
        of the item since the oldest of `entries`. Costs one conditional write. If another writer changes
        the item concurrently, the method plans the revert again.

        If an earlier call for the same revert already reverted fields, the result also contains these fields. Raises
        ServiceError if the revert fails. The caller may retry after TRANSIENT_ERRORS.
        """

        def attempt(_: Item | None) -> RevertResult:
            video_key = VIDEO.key(videoId=entries[0]["videoId"])
            stored, present = self.table.get_all([video_key, self.key(entries[0])], consistent=True)
            video = require_owned(stored, request.caller, now)
            later_entries = later.entries_of(
                entries[0], partial(self.is_complete, item=present, own=request.own, now=now)
            )
            planned = self._plan(self.state(present), entries, later_entries, request)
            if not planned.changes:
                back = planned.already if is_already_reverted(later_entries, present, request.own) else []
                return RevertResult.of(back, planned.skipped)
            if request.dry_run:
                if video["status"] == "deleted" and not later.would_restore_video:
                    raise IllegalTransition.deleted()
                return RevertResult.of(_fields(planned), planned.skipped)
            try:
                self.write(entries[0], planned.state, present, request.caller, now)
            except (NotFound, VersionMismatch) as error:
                # Another writer changed the item first. If the video was removed, the next attempt raises the error.
                raise ConditionFailed(None) from error
            return RevertResult.of(_fields(planned), planned.skipped)

        return retry_on_conflict(attempt, "the video")

    def _plan(
        self, state: Item, entries: Sequence[Item], later_entries: Sequence[Item], request: RevertRequest
    ) -> RevertPlan:
        if state and not self.is_writable(request.caller):
            return RevertPlan(state, skipped=[SkippedField(f"/{name}", "notWritable") for name in self.fields])
        if entries[-1]["action"] != "created":
            return self.without(state, entries, later_entries, request)
        if not state:
            return RevertPlan(state, already=[change["field"] for change in entries[-1]["changes"]])
        if "" not in request.force:
            skipped = find_later_author(entries, later_entries, request.own)
            if skipped is None and state != _written(later_entries):
                skipped = SkippedField("", "changedSince", UNKNOWN)  # the trail lacks a change, which will never arrive
            if skipped:
                return RevertPlan(state, skipped=[skipped])
        return RevertPlan({}, list(changes_between(state, {})))

    def without(
        self, state: Item, entries: Sequence[Item], later_entries: Sequence[Item], request: RevertRequest
    ) -> RevertPlan:
        """Plan, field by field, how to revert a change set that changed or removed the item.

        `state` is the current state. `later_entries` are all audit entries since the change set, newest first.
        """
        return plan_without_set(
            state, entries, later_entries, request.own, writable=lambda _: True, force=request.force
        )

    def state(self, present: Item | None) -> Item:
        """Return the audited attributes of an item as plain values; empty if the item does not exist."""
        return {name: to_json_value(present[name]) for name in self.fields if name in present} if present else {}

    def is_complete(self, later_entries: Sequence[Item], *, item: Item | None, own: str, now: int) -> bool:
        """Return whether `later_entries` contain every change of the item since the change set. A missing entry could
        be the change of another author.

        `item` is the current item, or `None` if it does not exist. `own` is the id of the revert run.
        """
        return is_complete(later_entries, item=item, own=own, now=now)

    def is_writable(self, caller: Caller) -> bool:
        """Return whether the caller, who may edit the video, may also write this item."""
        return True

    @abstractmethod
    def key(self, entry: Item) -> Key:
        """Return the key of the item that an audit entry describes."""

    @abstractmethod
    def write(self, entry: Item, state: Item, present: Item | None, caller: Caller, now: int) -> None:
        """Write an item with the audited attributes in `state`. Delete the item if `state` is empty.

        `entry` is an audit entry of the item, and `present` is the item as it was read. Raises VersionMismatch or
        NotFound if the item changed since it was read.
        """


class CreditReverts(ItemReverts):
    """Reverts of credits. Audit entries identify a credit by `videoId` and `personId`."""

    fields = CREDIT_FIELDS

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._store = RelationStore(table)

    def key(self, entry: Item) -> Key:
        return CREDIT.key(videoId=entry["videoId"], personId=entry["personId"])

    def write(self, entry: Item, state: Item, present: Item | None, caller: Caller, now: int) -> None:
        from shared.relations.models import CreditContent

        names, as_read = (entry["videoId"], entry["personId"]), _AsRead(present)
        if state:
            self._store.put_credit(*names, CreditContent.read(state), caller, now, as_read)
        else:
            self._store.delete_credit(*names, caller, now, as_read)


class ReleaseReverts(ItemReverts):
    """Reverts of releases. Audit entries identify a release by `videoId`, `region` and `language`."""

    fields = RELEASE_FIELDS

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._store = RelationStore(table)

    def key(self, entry: Item) -> Key:
        language = entry.get("language", NO_LANGUAGE)
        return RELEASE.key(videoId=entry["videoId"], region=entry["region"], language=language)

    def write(self, entry: Item, state: Item, present: Item | None, caller: Caller, now: int) -> None:
        from shared.relations.models import ReleaseContent

        names, as_read = (entry["videoId"], entry["region"], entry.get("language")), _AsRead(present)
        if state:
            self._store.put_release(*names, ReleaseContent.read(state), caller, now, as_read)
        else:
            self._store.delete_release(*names, caller, now, as_read)


class CaptionReverts(ItemReverts):
    """Reverts of captions. Earlier texts can be restored, because each text is stored until the video is purged."""

    fields = CAPTION_FIELDS

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._store = CaptionStore(table)

    def without(
        self, state: Item, entries: Sequence[Item], later_entries: Sequence[Item], request: RevertRequest
    ) -> RevertPlan:
        """Plan the revert of all audited fields together, reported as `/text`.

        The fields describe one text. A revert of single fields could combine the hash of one text with the size of
        another text. Such captions could not be read.
        """
        is_forced = any(covers(named, TEXT) for named in request.force)
        plan = plan_without_set(
            state, entries, later_entries, request.own, writable=lambda _: True, force=("",) if is_forced else ()
        )
        changed = None if is_forced or not plan.changes else find_later_author(entries, later_entries, request.own)
        skipped = changed or next(iter(plan.skipped), None)
        return RevertPlan(state, skipped=[replace(skipped, field=TEXT)], already=plan.already) if skipped else plan

    def key(self, entry: Item) -> Key:
        return CAPTION.key(videoId=entry["videoId"], language=entry["language"])

    def write(self, entry: Item, state: Item, present: Item | None, caller: Caller, now: int) -> None:
        names, as_read = (entry["videoId"], entry["language"]), _AsRead(present)
        if state:
            self._store.put(*names, state, caller, now, as_read)
        else:
            self._store.delete(*names, caller, now, as_read)


class ChaptersReverts(ItemReverts):
    """Reverts of chapters. All chapters of a video are one item, and are reverted together."""

    fields = CHAPTERS_FIELDS

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._store = CaptionStore(table)

    def key(self, entry: Item) -> Key:
        return CHAPTERS.key(videoId=entry["videoId"])

    def write(self, entry: Item, state: Item, present: Item | None, caller: Caller, now: int) -> None:
        from shared.captions.models import ChaptersContent

        as_read = _AsRead(present)
        if state:
            self._store.put_chapters(entry["videoId"], ChaptersContent.read(state), caller, now, as_read)
        else:
            self._store.delete_chapters(entry["videoId"], caller, now, as_read)


class RatingReverts(ItemReverts):
    """Reverts of ratings from external sources. An import writes these ratings, and only admins may change them."""

    fields = RATING_FIELDS

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._store = RatingStore(table)

    def key(self, entry: Item) -> Key:
        return RATING_TOTALS.key(videoId=entry["videoId"])

    def is_complete(self, later_entries: Sequence[Item], *, item: Item | None, own: str, now: int) -> bool:
        """Return whether the newest audit entry matches the imported ratings. Also returns `True` if there are no
        entries, or if the last change of the item is at least STREAM_SECONDS old.

        The version of the item is not compared, because it also increases when a user's rating changes the totals in
        this item.
        """
        state = self.state(item)
        if not later_entries or (item and now - item["updatedAt"] >= STREAM_SECONDS):
            return True
        return all(_at(state, change["field"]) == change.get("to") for change in later_entries[0]["changes"])

    def is_writable(self, caller: Caller) -> bool:
        return caller.is_admin

    def write(self, entry: Item, state: Item, present: Item | None, caller: Caller, now: int) -> None:
        read = present.get("imported") if present else None
        if not self._store.replace_imported(entry["videoId"], read, state.get("imported"), caller, now):
            raise VersionMismatch("The imported rating was changed in the meantime. Read it again.")


REVERTS_BY_ENTITY: Mapping[str, type[ItemReverts]] = {
    "credit": CreditReverts,
    "release": ReleaseReverts,
    "captions": CaptionReverts,
    "chapters": ChaptersReverts,
    "rating": RatingReverts,
}
"""Classes of reverts, by the name of the entity in audit entries."""


class _AsRead:
    """Predicate that returns whether the stored item is unchanged since it was read."""

    def __init__(self, read: Item | None) -> None:
        self._read = read

    def __call__(self, present: Item | None) -> bool:
        if present is None or self._read is None:
            return present is self._read
        return bool(present["writeId"] == self._read["writeId"])


def _written(entries: Sequence[Item]) -> Item:
    """Return the state of an item after all changes in its audit entries. `entries` are newest first."""
    state: Item = {}
    for entry in reversed(entries):
        for change in entry["changes"]:
            state = set_at(state, split_pointer(change["field"]), change.get("to"), is_present="to" in change)
    return state


def _fields(planned: RevertPlan) -> list[str]:
    return [change["field"] for change in planned.changes]


def _at(state: Value, field: str) -> Value:
    """Return the value at a JSON Pointer; `None` if the state has no such value."""
    for part in split_pointer(field):
        state = state.get(part) if isinstance(state, Mapping) else None
    return state
