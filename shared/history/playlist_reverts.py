"""Reverts of playlists: their attributes, their entries, and their creation, deletion or restoration."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from shared.aws.dynamodb import Table
from shared.aws.failures import ConditionFailed
from shared.aws.records import retry_on_conflict
from shared.core.attributes import Item
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

WHOLE = ""
"""JSON Pointer of the playlist itself, reported when a revert deletes or restores it."""
_LIVES = ("created", "deleted", "restored")

Place = Item | None
"""The `rank` and `addedAt` of a playlist entry; `None` if it is not in the playlist."""


@dataclass(frozen=True)
class _Plan:
    """Planned revert of a playlist."""

    restores: bool = False
    content: Item = field(default_factory=dict)
    """New values of the fields that differ; `None` removes a field."""
    places: Mapping[str, Place] = field(default_factory=dict)
    """New places of the entries that differ, by videoId."""
    deletes: bool = False
    skipped: Sequence[SkippedField] = ()
    already: Sequence[str] = ()
    """JSON Pointers of what already is as before the change set."""

    @property
    def fields(self) -> list[str]:
        """JSON Pointers of what the plan changes."""
        whole = [WHOLE] if self.restores or self.deletes else []
        return [*whole, *(f"/{name}" for name in self.content), *map(_pointer, self.places)]

    def without(self, done: Container[str]) -> "_Plan":
        """Return the plan without the entries in `done`.

        An entry whose rank is now occupied was inserted next to it. It must not be moved again.
        """
        places = {video_id: place for video_id, place in self.places.items() if _pointer(video_id) not in done}
        return replace(self, places=places, skipped=[left for left in self.skipped if not _is_in(left.field, done)])


class PlaylistReverts:
    """Reverts playlists."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._playlists = PlaylistStore(table)
        self._entries = EntryStore(self._playlists)

    def revert(self, entries: Sequence[Item], wish: RevertRequest, now: int, later: LaterEntries) -> RevertResult:
        """Revert what the entries of one change set, newest first, did to a playlist.

        Each write is conditional on the version that was read, and planned again after a conflict. Many entries need
        several writes. Writes of an earlier attempt of the run count as reverted. Raises ServiceError; retry if it is
        one of PASSING.
        """
        key = PLAYLIST.key(playlistId=entries[0]["playlistId"])
        back: dict[str, None] = {}
        written: int | None = None

        def attempt(_: Item | None) -> RevertResult | None:
            """Write the next step and return `None`, or return the outcome if there is nothing left to write."""
            nonlocal written
            playlist = self.table.get(key, consistent=True)
            if playlist is None or is_purged(playlist, now) or not wish.caller.owns(playlist["userId"]):
                raise NotFound("There is no such playlist.")
            # The write of this call is known even if the trail lacks it.
            is_known = playlist["version"] == written
            whole = always if is_known else partial(is_complete, item=playlist, own=wish.own, now=now)
            known = later.entries_of(entries[0], whole)
            plan = self._plan(playlist, entries, known, wish, now).without(back)
            if wish.dry_run or not plan.fields:
                done = plan.already if is_already_reverted(known, playlist, wish.own) else []
                return RevertResult.of(back or plan.fields or done, plan.skipped)
            try:
                fields, written = self._carry_out(playlist, plan, wish.caller, now)
            except VersionMismatch as error:
                raise ConditionFailed(None) from error
            back.update(dict.fromkeys(fields))
            return None

        while (outcome := retry_on_conflict(attempt, "the playlist", pause=self.table.pause)) is None:
            pass
        return outcome

    def _carry_out(self, playlist: Item, plan: _Plan, caller: Caller, now: int) -> tuple[list[str], int]:
        """Write the next step of a plan. Return the changed fields and the new version. Raises VersionMismatch."""
        playlist_id, version = playlist["playlistId"], playlist["version"]

        def is_as_read(present: int) -> bool:
            return bool(present == version)

        if plan.restores:
            self._playlists.restore(playlist_id, caller, now, is_as_read)
            return [WHOLE], version + 1
        if plan.content or plan.places:
            places = dict(list(plan.places.items())[:MAX_PLACED])
            self._playlists.revise(
                playlist_id,
                caller,
                now,
                lambda present: self._revision(present, plan.content, places, caller, now),
                matches=is_as_read,
            )
            return [*(f"/{name}" for name in plan.content), *map(_pointer, places)], version + 1
        self._playlists.delete(playlist_id, caller, now, is_as_read)
        return [WHOLE], version + 1

    def _revision(
        self, playlist: Item, content: Item, places: Mapping[str, Place], caller: Caller, now: int
    ) -> PlaylistRevision:
        said = {name: value for name, value in content.items() if value is not None}
        rest = {name: value for name, value in playlist.items() if name not in content}
        return self._entries.placed(rest | said, places, caller, now)

    def _plan(
        self, playlist: Item, entries: Sequence[Item], known: Sequence[Item], wish: RevertRequest, now: int
    ) -> _Plan:
        is_deleted = DELETED_AT in playlist
        if entries[-1]["action"] == "created":
            if is_deleted:
                return _Plan(already=[WHOLE])
            kept = None if WHOLE in wish.force else find_later_author(entries, known, wish.own)
            if not kept and WHOLE not in wish.force and _is_unknown(playlist, known, wish.own):
                kept = SkippedField(WHOLE, "changedSince", UNKNOWN)
            return _Plan(skipped=[kept]) if kept else _Plan(deletes=True)
        lives = [entry for entry in entries if entry["action"] in _LIVES]
        was_deleted = lives[-1]["action"] == "restored" if lives else is_deleted
        left: list[SkippedField] = []
        if was_deleted != is_deleted and WHOLE not in wish.force:
            left = _others_decided(lives, known, wish.own, is_deleted=is_deleted)
        comes_back = is_deleted and not was_deleted and not left
        state = self._state(playlist, entries)
        planned = plan_without_set(state, entries, known, wish.own, writable=lambda _: True, force=wish.force)
        content, places = self._differences(state, planned.state)
        if is_deleted and not comes_back:
            if (content or places) and not left:
                left = _others_decided([], known, wish.own, is_deleted=True)
            return _Plan(skipped=[*left, *planned.skipped], already=planned.already)
        places, gone = self._placeable(places, now)
        return _Plan(
            restores=comes_back,
            content=content,
            places=places,
            deletes=was_deleted and not is_deleted and not left,
            skipped=[*left, *planned.skipped, *gone],
            already=[*([WHOLE] if lives and was_deleted == is_deleted else []), *planned.already],
        )

    def _state(self, playlist: Item, entries: Sequence[Item]) -> Item:
        """Return the audited state of a playlist as plain values, with only the entries that the change set touched."""
        pointers = (split_pointer(change["field"]) for entry in entries for change in entry["changes"])
        video_ids = dict.fromkeys(parts[1] for parts in pointers if f"/{parts[0]}" == ENTRIES)
        members = self._entries.places(playlist["playlistId"], list(video_ids))
        said = {name: playlist[name] for name in PLAYLIST_FIELDS if name in playlist}
        return said | {ENTRIES[1:]: members}

    @staticmethod
    def _differences(now: Item, then: Item) -> tuple[Item, dict[str, Place]]:
        """Return the fields that differ, `None` for a field to remove, and the places of the entries that differ."""
        content = {name: then.get(name) for name in PLAYLIST_FIELDS if now.get(name) != then.get(name)}
        here, there = now[ENTRIES[1:]], then[ENTRIES[1:]]
        differ = (video_id for video_id in here | there if here.get(video_id) != there.get(video_id))
        # An entry without a rank has no place to return to, because it was removed in the meantime.
        return content, {
            video_id: there.get(video_id)
            for video_id in differ
            if video_id not in there or {"rank", "addedAt"} <= there[video_id].keys()
        }

    def _placeable(self, places: Mapping[str, Place], now: int) -> tuple[dict[str, Place], list[SkippedField]]:
        """Return the places to restore, and a skipped field for each place whose video is permanently removed."""
        wanted = [video_id for video_id, place in places.items() if place]
        there = self._entries.existing(wanted, now)
        gone = [video_id for video_id in wanted if video_id not in there]
        kept = {video_id: place for video_id, place in places.items() if video_id not in gone}
        return kept, [SkippedField(_pointer(video_id), "gone") for video_id in gone]


def _others_decided(lives: Sequence[Item], known: Sequence[Item], own: str, *, is_deleted: bool) -> list[SkippedField]:
    """Return the later change that deleted or restored the playlist; empty if the change set's state still applies."""
    foreign = (entry for entry in outside(lives, known, own) if entry["action"] in _LIVES)
    last = next((entry for entry in foreign if not lives or entry[SORT_KEY] > lives[-1][SORT_KEY]), None)
    if last:
        return [SkippedField(WHOLE, "changedSince", last["by"], last["at"], last.get("version"))]
    if lives and (lives[0]["action"] == "deleted") == is_deleted:
        return []
    return [SkippedField(WHOLE, "changedSince", UNKNOWN)]


def _is_unknown(playlist: Item, known: Sequence[Item], own: str) -> bool:
    """Return whether the trail will never have the entry of the present version."""
    return request_id_of(playlist) != own and bool(known) and known[0].get("version") != playlist["version"]


def always(_: Sequence[Item]) -> bool:
    """Accept any entries: they need not be complete."""
    return True


def _is_in(pointer: str, done: Container[str]) -> bool:
    """Return whether a pointer is at or below one of the playlist entries in `done`."""
    parts = split_pointer(pointer)
    return len(parts) > 1 and _pointer(parts[1]) in done


def _pointer(video_id: str) -> str:
    return f"{ENTRIES}/{escape_pointer(video_id)}"
