"""Playlists, and the playlists of a video.

Every change of a playlist or its entries is one write, or one transaction, whose condition is the playlist's version: so
what was read stays true until it is written. The entries are in shared/relations/playlist_entries.py.

A playlist that is deleted keeps its entries for RESTORABLE_DAYS, and nobody sees it: then DynamoDB removes it, and a queue its
entries.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from shared.aws.dynamodb import Table, Write
from shared.aws.expressions import Expression, change_between
from shared.aws.failures import ConditionFailed
from shared.aws.idempotency import carry_out, earlier_answer
from shared.aws.listing import Lists, Window, hydrated, unsharded
from shared.aws.records import ABSENT, at_version, new_write_id, retry_on_conflict, signing, stamped
from shared.core.attributes import Item, Value, without
from shared.core.caller import Caller, Once
from shared.core.errors import Forbidden, LimitReached, NotFound, ServiceError, VersionMismatch
from shared.core.limits import LAST_SECOND
from shared.core.position import Page, Position
from shared.schema import (
    PLAYLIST,
    PROFILE,
    TTL_ATTRIBUTE,
    USERS,
    VIDEO,
    in_playlist_relation,
    playlists_relation,
)
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import is_purged, seen_by
from shared.videos.video import merge_patch

MOST_PLAYLISTS = 1000
"""Of one owner."""
RESTORABLE_DAYS = 30
"""How long one that was deleted can be restored, as a video can."""

DELETED_AT = "deletedAt"
"""Attribute of a playlist that is deleted."""
MOVES = "moves"
"""Attribute: the entries that the last write of the playlist put in, moved or took out, for the audit trail. Each has its
`videoId`, and as `from` and `to` the `rank` and `addedAt` that it had and has; one of them is absent where it was not there."""

FIELDS = (
    "playlistId",
    "userId",
    "title",
    "description",
    "visibility",
    "createdAt",
    "updatedAt",
    "entryCount",
    "version",
)
"""The document as clients see it, in this order."""

_WHAT = "the playlist"


def any_version(_: int) -> bool:
    """The condition of a caller who sends no If-Match."""
    return True


@dataclass(frozen=True)
class Revision:
    """What a change makes of a playlist, and what else it writes with it."""

    playlist: Item
    """The playlist with its changed attributes; version and author are filled in when it is written."""
    writes: Sequence[Write] = ()
    """What is written besides the playlist."""
    moves: Sequence[Item] = ()
    """What MOVES says of it."""
    answer: dict[str, Any] | None = None
    """What to answer; None: the playlist's document."""
    refusal: ServiceError | None = None
    """What to raise when the condition of the first of `writes` does not hold; None: try again."""


class PlaylistStore:
    """Playlists and their entries in the table. Methods raise the errors of shared.core.errors."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.lists = Lists(table)

    def create(
        self, playlist_id: str, content: Mapping[str, Value], caller: Caller, now: int, once: Once | None = None
    ) -> dict[str, Any]:
        """Create a playlist of the caller's and return its document; with `once`, the answer of the first time.

        Raises LimitReached when the caller has as many as one owner may.
        """
        item = {
            **content,
            **PLAYLIST.key(playlistId=playlist_id),
            "playlistId": playlist_id,
            "userId": caller.subject,
            "createdAt": now,
            "entryCount": 0,
        }
        new = stamped(item | place_of_playlist(item), caller, now, version=1)
        writes = [self.table.put(new, condition=ABSENT), self._counted(caller.subject, 1, caller, now)]
        try:
            return carry_out(self.table, writes, new, document(new), once, what=_WHAT)
        except ConditionFailed as failure:
            raise _too_many() from failure

    def read(self, playlist_id: str, caller: Caller) -> dict[str, Any]:
        """The document of a playlist that the caller may see."""
        return document_for(caller, _seen_by(self.table.get(PLAYLIST.key(playlistId=playlist_id)), caller))

    def of_owner(
        self, owner: str, caller: Caller, *, ascending: bool, limit: int, after: Position | None
    ) -> Page[dict[str, Any]]:
        """One owner's playlists by time: all of them for itself and admins, public ones for others."""
        return self._related(playlists_relation(owner), caller, ascending=ascending, limit=limit, after=after)

    def of_video(
        self, video_id: str, caller: Caller, now: int, *, ascending: bool, limit: int, after: Position | None
    ) -> Page[dict[str, Any]]:
        """The playlists that hold a video, by the time at which it was added: public ones and the caller's own."""
        seen_by(self.table.get(VIDEO.key(videoId=video_id), attributes=VISIBILITY_ATTRIBUTES), caller, now)
        return self._related(in_playlist_relation(video_id), caller, ascending=ascending, limit=limit, after=after)

    def change(
        self, playlist_id: str, patch: Mapping[str, Value], caller: Caller, now: int, matches: Callable[[int], bool]
    ) -> dict[str, Any]:
        """Apply a JSON Merge Patch to a playlist of the caller's and return its document.

        `matches` is the caller's condition on the version (If-Match): raises VersionMismatch.
        """
        return self.revise(
            playlist_id, caller, now, lambda playlist: Revision(merge_patch(playlist, patch)), matches=matches
        )

    def revise(
        self,
        playlist_id: str,
        caller: Caller,
        now: int,
        plan: Callable[[Item], Revision],
        *,
        matches: Callable[[int], bool] = any_version,
        once: Once | None = None,
        write_id: str | None = None,
        even_deleted: bool = False,
    ) -> dict[str, Any]:
        """Change a playlist of the caller's as `plan` makes of the present one; return the answer.

        What changes nothing is not written. With `once`, the answer is that of the first time. `plan` is asked again when
        others have changed the playlist meanwhile; `write_id` is that of all attempts. Raises WriteContention, VersionMismatch
        when `matches` refuses, and NotFound of one that is deleted unless `even_deleted` allows it.
        """
        key, write_id = PLAYLIST.key(playlistId=playlist_id), write_id or new_write_id()

        def attempt(_: Item | None) -> dict[str, Any]:
            item = self.table.get(key, consistent=True)
            # After the playlist: see VideoStore.change.
            if answer := earlier_answer(self.table, once):
                return answer
            playlist = _owned_by(item, caller, even_deleted=even_deleted)
            _check_version(playlist, matches)
            revision = plan(playlist)
            if not revision.writes and not change_between(playlist, revision.playlist).text:
                return document(playlist) if revision.answer is None else revision.answer
            content = without(revision.playlist, MOVES) | ({MOVES: [*revision.moves]} if revision.moves else {})
            new = stamped(content, caller, now, version=playlist["version"] + 1, write_id=write_id)
            answer = document(new) if revision.answer is None else revision.answer
            update = self.table.update(key, change_between(playlist, new), condition=at_version(playlist))
            try:
                return carry_out(self.table, [update, *revision.writes], new, answer, once, what=_WHAT)
            except ConditionFailed as failure:
                if failure.position == 1 and revision.refusal:
                    raise revision.refusal from failure
                raise

        return retry_on_conflict(attempt, _WHAT, pause=self.table.pause)

    def delete(self, playlist_id: str, caller: Caller, now: int, matches: Callable[[int], bool]) -> None:
        """Delete a playlist of the caller's: nobody sees it any more, and `restore` brings it back as it was.

        `matches` is the caller's condition on the version (If-Match): raises VersionMismatch.
        """
        key, write_id = PLAYLIST.key(playlistId=playlist_id), new_write_id()

        def attempt(_: Item | None) -> None:
            playlist = _owned_by(self.table.get(key, consistent=True), caller)
            _check_version(playlist, matches)
            gone = {DELETED_AT: now, TTL_ATTRIBUTE: now + RESTORABLE_DAYS * 86_400}
            content = without(playlist, MOVES, *place_of_playlist(playlist)) | gone
            new = stamped(content, caller, now, version=playlist["version"] + 1, write_id=write_id)
            update = self.table.update(key, change_between(playlist, new), condition=at_version(playlist))
            writes = [update, self._counted(playlist["userId"], -1, caller, now)]
            carry_out(self.table, writes, new, {}, what=_WHAT)

        retry_on_conflict(attempt, _WHAT, pause=self.table.pause)

    def restore(
        self, playlist_id: str, caller: Caller, now: int, matches: Callable[[int], bool] = any_version
    ) -> dict[str, Any]:
        """Take back that a playlist of the caller's was deleted, and return its document; one that is not stays as it is.

        Raises NotFound when it is gone, Forbidden when it is somebody else's and not deleted, LimitReached when its owner has as
        many as one owner may, VersionMismatch when `matches` refuses the version, and WriteContention.
        """
        key, write_id = PLAYLIST.key(playlistId=playlist_id), new_write_id()

        def attempt(_: Item | None) -> dict[str, Any]:
            item = self.table.get(key, consistent=True)
            playlist = _owned_by(None if item and is_purged(item, now) else item, caller, even_deleted=True)
            _check_version(playlist, matches)
            if DELETED_AT not in playlist:
                return document(playlist)
            content = without(playlist, MOVES, DELETED_AT, TTL_ATTRIBUTE) | place_of_playlist(playlist)
            new = stamped(content, caller, now, version=playlist["version"] + 1, write_id=write_id)
            update = self.table.update(key, change_between(playlist, new), condition=at_version(playlist))
            writes = [update, self._counted(playlist["userId"], 1, caller, now)]
            try:
                return carry_out(self.table, writes, new, document(new), what=_WHAT)
            except ConditionFailed as failure:
                if failure.position == 1:
                    raise _too_many() from failure
                raise

        return retry_on_conflict(attempt, _WHAT, pause=self.table.pause)

    def _related(
        self, relation: str, caller: Caller, *, ascending: bool, limit: int, after: Position | None
    ) -> Page[dict[str, Any]]:
        def read(position: Position | None, count: int) -> Page[Item]:
            window = Window(0, LAST_SECOND + 1, ascending, count, position)
            return self.lists.related(unsharded(relation), window)

        return hydrated(read, partial(self._documents, caller=caller), limit=limit, after=after)

    def _documents(self, entries: Sequence[Item], caller: Caller) -> list[dict[str, Any] | None]:
        """The documents of playlists by index entries; None for one that is gone or hidden from the caller."""
        keys = [PLAYLIST.key(playlistId=entry["relId"]) for entry in entries]
        playlists = {item["playlistId"]: item for item in self.table.batch_get(keys)}
        shown = {
            playlist_id: document_for(caller, item) for playlist_id, item in playlists.items() if _is_seen(item, caller)
        }
        return [shown.get(entry["relId"]) for entry in entries]

    def _counted(self, owner: str, difference: int, caller: Caller, now: int) -> Write:
        """The write that counts playlists of an owner; one more only below the limit."""
        place = {"rel": USERS, "relShard": 0, "relSort": 0, "relId": owner}
        addition = Expression.of("ADD #playlists :difference, #version :one", difference=difference, one=1)
        below = Expression.of("attribute_not_exists(#playlists) OR #playlists < :most", most=MOST_PLAYLISTS)
        return self.table.update(
            PROFILE.key(userId=owner),
            addition + signing(place, caller, now),
            condition=below if difference > 0 else None,
        )


def place_of_playlist(item: Item) -> Item:
    """Where a playlist that is not deleted stands in the index."""
    return {
        "rel": playlists_relation(item["userId"]),
        "relShard": 0,
        "relSort": item["createdAt"],
        "relId": item["playlistId"],
    }


def document(item: Item) -> dict[str, Any]:
    """A playlist as its owner sees it."""
    return {name: item[name] for name in FIELDS if name in item}


def document_for(caller: Caller, item: Item) -> dict[str, Any]:
    """A playlist as a caller sees it; strangers would learn from `entryCount` how many of its videos are hidden."""
    shown = document(item)
    if not caller.owns(item["userId"]):
        shown.pop("entryCount", None)
    return shown


def _too_many() -> LimitReached:
    return LimitReached(
        f"You already have {MOST_PLAYLISTS} playlists, the most that one owner may have; delete one first."
    )


def _check_version(item: Item, matches: Callable[[int], bool]) -> None:
    if not matches(item["version"]):
        raise VersionMismatch(
            f'The playlist is at version {item["version"]}; If-Match takes its ETag, or "{item["version"]}".'
        )


def _is_seen(item: Item, caller: Caller) -> bool:
    return DELETED_AT not in item and (item["visibility"] == "public" or caller.owns(item["userId"]))


def _seen_by(item: Item | None, caller: Caller, *, even_deleted: bool = False) -> Item:
    """The playlist, if the caller may see it; raises NotFound, alike for absent, hidden and deleted playlists.

    With `even_deleted`, its owner may see it when it is deleted.
    """
    if item is not None and (_is_seen(item, caller) or (even_deleted and caller.owns(item["userId"]))):
        return item
    raise NotFound("There is no such playlist.")


def _owned_by(item: Item | None, caller: Caller, *, even_deleted: bool = False) -> Item:
    """The playlist, if the caller may change it; raises NotFound when hidden, Forbidden when somebody else's."""
    playlist = _seen_by(item, caller, even_deleted=even_deleted)
    if not caller.owns(playlist["userId"]):
        raise Forbidden("The playlist is somebody else's.")
    return playlist
