"""Reverts of playlists: their attributes, their entries, and their creation, deletion or restoration."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from shared.aws.dynamodb import Table
from shared.aws.failures import ConditionFailed
from shared.aws.records import retry_on_conflict
from shared.core.attributes import Item, without
from shared.core.caller import Caller, request_id_of
from shared.core.changes import escape_pointer, split_pointer
from shared.core.errors import NotFound, VersionMismatch
from shared.history.entries import ENTRIES, PLAYLIST_FIELDS, UNKNOWN
from shared.history.later_entries import LaterEntries, is_already_reverted, is_complete
from shared.history.outcome import RevertResult
from shared.history.revert_plan import SkippedField, find_later_author, outside, plan_without_set
from shared.history.revert_runs import RevertRequest
from shared.relations.playlist_entries import MAX_PLACED, EntryStore
from shared.relations.playlists import DELETED_AT, PlaylistRevision, PlaylistStore
from shared.schema import PLAYLIST, SORT_KEY
from shared.videos.access import is_purged

if TYPE_CHECKING:
    from shared.entities import EntryPosition, Playlist

WHOLE = ""
"""JSON Pointer of the playlist itself. Reports contain it if a revert deletes or restores the playlist."""
_LIVES = ("created", "deleted", "restored")
"""Actions in audit entries that create, delete or restore a playlist."""


@dataclass(frozen=True)
class _Plan:
    """Planned revert of a playlist."""

    restores: bool = False
    """Whether the plan restores the deleted playlist."""
    content: Item = field(default_factory=dict)
    """New values of the fields to change, by name; `None` removes a field."""
    positions: "Mapping[str, EntryPosition | None]" = field(default_factory=dict)
    """New positions of the playlist entries to change, by videoId."""
    deletes: bool = False
    """Whether the plan deletes the playlist."""
    skipped: Sequence[SkippedField] = ()
    """Fields and playlist entries that are not reverted, with the reasons."""
    already: Sequence[str] = ()
    """JSON Pointers of fields and playlist entries that already have the value from before the change set."""

    @property
    def fields(self) -> list[str]:
        """JSON Pointers of the fields and playlist entries that the plan changes."""
        whole = [WHOLE] if self.restores or self.deletes else []
        return [*whole, *(f"/{name}" for name in self.content), *map(_pointer, self.positions)]

    def without(self, done: Container[str]) -> "_Plan":
        """Return the plan without the playlist entries that an earlier step has moved. `done` has the JSON Pointers of
        these entries.

        Such an entry must not be moved again, even if its rank differs from the plan. The rank differs if another entry
        already had the planned rank.
        """
        positions = {
            video_id: position for video_id, position in self.positions.items() if _pointer(video_id) not in done
        }
        return replace(
            self, positions=positions, skipped=[skipped for skipped in self.skipped if not _is_in(skipped.field, done)]
        )


class PlaylistReverts:
    """Service that reverts the playlist changes of a change set."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._playlists = PlaylistStore(table)
        self._entries = EntryStore(self._playlists)

    def revert(self, entries: Sequence[Item], request: RevertRequest, now: int, later: LaterEntries) -> RevertResult:
        """Revert the changes that one change set made to a playlist. `now` is in epoch seconds.

        `entries` are the audit entries of the change set for this playlist, newest first. `later` reads all audit
        entries of the playlist since the oldest of `entries`. A revert of many playlist entries takes several writes.
        Each write has the condition that the playlist's version is unchanged. If another writer has changed the
        playlist, the method plans the revert again.

        If an earlier call for the same revert already reverted fields, the result also contains these fields. Raises
        ServiceError if the revert fails. The caller may retry after TRANSIENT_ERRORS.
        """
        key = PLAYLIST.key(playlistId=entries[0]["playlistId"])
        back: dict[str, None] = {}
        written: int | None = None

        def attempt(_: Item | None) -> RevertResult | None:
            """Write the next step, and return `None`. If there is nothing to write, return the outcome."""
            nonlocal written
            playlist = cast("Playlist | None", self.table.get(key, consistent=True))
            if playlist is None or is_purged(playlist, now) or not request.caller.owns(playlist["userId"]):
                raise NotFound.of("playlist")
            # The trail may not have the entry of this call's own write yet, but the content of that entry is known.
            is_own_write = playlist["version"] == written
            whole = always if is_own_write else partial(is_complete, item=playlist, own=request.own, now=now)
            later_entries = later.entries_of(entries[0], whole)
            plan = self._plan(playlist, entries, later_entries, request, now).without(back)
            if request.dry_run or not plan.fields:
                done = plan.already if is_already_reverted(later_entries, playlist, request.own) else []
                return RevertResult.of(back or plan.fields or done, plan.skipped)
            try:
                fields, written = self._carry_out(playlist, plan, request.caller, now)
            except VersionMismatch as error:
                raise ConditionFailed(None) from error
            back.update(dict.fromkeys(fields))
            return None

        while (outcome := retry_on_conflict(attempt, "the playlist", pause=self.table.pause)) is None:
            pass
        return outcome

    def _carry_out(self, playlist: "Playlist", plan: _Plan, caller: Caller, now: int) -> tuple[list[str], int]:
        """Write the next step of a plan.

        Return the JSON Pointers of the changed fields, and the new version of the playlist.

        Raises VersionMismatch if the playlist was changed since it was read.
        """
        playlist_id, version = playlist["playlistId"], playlist["version"]

        def is_as_read(present: int) -> bool:
            return bool(present == version)

        if plan.restores:
            self._playlists.restore(playlist_id, caller, now, is_as_read)
            return [WHOLE], version + 1
        if plan.content or plan.positions:
            positions = dict(list(plan.positions.items())[:MAX_PLACED])
            self._playlists.revise(
                playlist_id,
                caller,
                now,
                lambda present: self._revision(present, plan.content, positions, caller, now),
                matches=is_as_read,
            )
            return [*(f"/{name}" for name in plan.content), *map(_pointer, positions)], version + 1
        self._playlists.delete(playlist_id, caller, now, is_as_read)
        return [WHOLE], version + 1

    def _revision(
        self,
        playlist: "Playlist",
        content: Item,
        positions: "Mapping[str, EntryPosition | None]",
        caller: Caller,
        now: int,
    ) -> PlaylistRevision:
        present_values = {name: value for name, value in content.items() if value is not None}
        revised = cast("Playlist", {**without(playlist, *content), **present_values})
        return self._entries.placed(revised, positions, caller, now)

    def _plan(
        self,
        playlist: "Playlist",
        entries: Sequence[Item],
        later_entries: Sequence[Item],
        request: RevertRequest,
        now: int,
    ) -> _Plan:
        is_deleted = DELETED_AT in playlist
        if entries[-1]["action"] == "created":
            if is_deleted:
                return _Plan(already=[WHOLE])
            later_change = None if WHOLE in request.force else find_later_author(entries, later_entries, request.own)
            if not later_change and WHOLE not in request.force and _is_unknown(playlist, later_entries, request.own):
                later_change = SkippedField(WHOLE, "changedSince", UNKNOWN)
            return _Plan(skipped=[later_change]) if later_change else _Plan(deletes=True)
        lives = [entry for entry in entries if entry["action"] in _LIVES]
        was_deleted = lives[-1]["action"] == "restored" if lives else is_deleted
        skipped: list[SkippedField] = []
        if was_deleted != is_deleted and WHOLE not in request.force:
            skipped = _later_decision(lives, later_entries, request.own, is_deleted=is_deleted)
        is_restored = is_deleted and not was_deleted and not skipped
        state = self._state(playlist, entries)
        planned = plan_without_set(
            state, entries, later_entries, request.own, writable=lambda _: True, force=request.force
        )
        content, positions = self._differences(state, planned.state)
        if is_deleted and not is_restored:
            if (content or positions) and not skipped:
                skipped = _later_decision([], later_entries, request.own, is_deleted=True)
            return _Plan(skipped=[*skipped, *planned.skipped], already=planned.already)
        positions, removed = self._split_restorable(positions, now)
        return _Plan(
            restores=is_restored,
            content=content,
            positions=positions,
            deletes=was_deleted and not is_deleted and not skipped,
            skipped=[*skipped, *planned.skipped, *removed],
            already=[*([WHOLE] if lives and was_deleted == is_deleted else []), *planned.already],
        )

    def _state(self, playlist: "Playlist", entries: Sequence[Item]) -> Item:
        """Return the audited attributes of a playlist, and the playlist entries that the change set changed, as plain
        values.

        `entries` are the audit entries of the change set.
        """
        pointers = (split_pointer(change["field"]) for entry in entries for change in entry["changes"])
        video_ids = dict.fromkeys(parts[1] for parts in pointers if f"/{parts[0]}" == ENTRIES)
        members = self._entries.positions(playlist["playlistId"], list(video_ids))
        stored: Mapping[str, Any] = playlist
        fields = {name: stored[name] for name in PLAYLIST_FIELDS if name in stored}
        return fields | {ENTRIES[1:]: members}

    @staticmethod
    def _differences(now: Item, then: Item) -> "tuple[Item, dict[str, EntryPosition | None]]":
        """Return the new value of each field that differs, and the new position of each playlist entry that differs.

        `now` is the current state, and `then` the planned state. The value `None` removes a field, and the position
        `None` removes a playlist entry.
        """
        content = {name: then.get(name) for name in PLAYLIST_FIELDS if now.get(name) != then.get(name)}
        present, target = now[ENTRIES[1:]], then[ENTRIES[1:]]
        differ = (video_id for video_id in present | target if present.get(video_id) != target.get(video_id))
        # If the playlist entry was removed in the meantime, the planned position may have only a rank. This is not enough
        # to restore the entry.
        return content, {
            video_id: target.get(video_id)
            for video_id in differ
            if video_id not in target or {"rank", "addedAt"} <= target[video_id].keys()
        }

    def _split_restorable(
        self, positions: "Mapping[str, EntryPosition | None]", now: int
    ) -> "tuple[dict[str, EntryPosition | None], list[SkippedField]]":
        """Return the entry positions that can be restored. Also return a skipped field for each entry with a video that
        is permanently removed."""
        video_ids = [video_id for video_id, position in positions.items() if position]
        existing = self._entries.existing(video_ids, now)
        removed = [video_id for video_id in video_ids if video_id not in existing]
        restorable = {video_id: position for video_id, position in positions.items() if video_id not in removed}
        return restorable, [SkippedField(_pointer(video_id), "gone") for video_id in removed]


def _later_decision(
    lives: Sequence[Item], later_entries: Sequence[Item], own: str, *, is_deleted: bool
) -> list[SkippedField]:
    """Return a list with the skipped field WHOLE if the playlist was deleted or restored after the change set.
    Otherwise return an empty list.

    `lives` are the audit entries of the change set with an action in _LIVES. If a later deletion or restoration has no
    entry in the trail, its author is UNKNOWN.
    """
    foreign = (entry for entry in outside(lives, later_entries, own) if entry["action"] in _LIVES)
    last = next((entry for entry in foreign if not lives or entry[SORT_KEY] > lives[-1][SORT_KEY]), None)
    if last:
        return [SkippedField(WHOLE, "changedSince", last["by"], last["at"], last.get("version"))]
    if lives and (lives[0]["action"] == "deleted") == is_deleted:
        return []
    return [SkippedField(WHOLE, "changedSince", UNKNOWN)]


def _is_unknown(playlist: "Playlist", later_entries: Sequence[Item], own: str) -> bool:
    """Return whether the audit entry of the playlist's current version is missing. The author of this version is then
    unknown. `False` if the request `own` wrote this version."""
    return (
        request_id_of(playlist) != own
        and bool(later_entries)
        and later_entries[0].get("version") != playlist["version"]
    )


def always(_: Sequence[Item]) -> bool:
    """Return `True`: accept any list of audit entries as complete."""
    return True


def _is_in(pointer: str, done: Container[str]) -> bool:
    """Return whether a JSON Pointer refers to one of the playlist entries in `done`, or to a value in such an entry."""
    parts = split_pointer(pointer)
    return len(parts) > 1 and _pointer(parts[1]) in done


def _pointer(video_id: str) -> str:
    return f"{ENTRIES}/{escape_pointer(video_id)}"
