"""Playlists, and the playlists of a video.

Each change of a playlist or its entries is one write or transaction, conditional on the playlist's version. Entries
that were read to plan a change are therefore still current when the change is written. Entries are in
shared/relations/playlist_entries.py.

A deleted playlist is invisible, and keeps its entries for RESTORABLE_DAYS. DynamoDB then deletes the playlist, and the
purge worker deletes its entries.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from shared.aws.dynamodb import Key, Table, Write
from shared.aws.expressions import Expression, change_between
from shared.aws.failures import ConditionFailed
from shared.aws.idempotency import carry_out, find_stored_response
from shared.aws.listing import Lists, Window, hydrate_page, single_partition
from shared.aws.records import ABSENT, at_version, new_write_id, retry_on_conflict, signing, with_version
from shared.core.attributes import Item, Value, without
from shared.core.caller import Caller, IdempotentRequest
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
from shared.videos.access import is_purged, require_visible
from shared.videos.video import merge_patch

if TYPE_CHECKING:
    from shared.entities import IndexAttributes, Playlist, PlaylistMove

MAX_PLAYLISTS = 1000
"""Maximum number of playlists per owner."""
RESTORABLE_DAYS = 30
"""Days during which a deleted playlist can be restored."""

DELETED_AT: Final = "deletedAt"
"""Name of the attribute with the time when a playlist was deleted, in epoch seconds."""
MOVES: Final = "moves"
"""Name of the attribute with the changes of entries in the playlist's last write. The audit trail shows these changes.

Each element has `videoId`, the old `rank` and `addedAt` in `from`, and the new ones in `to`. An added entry has no
`from`, and a removed entry has no `to`.
"""

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
"""Fields of a playlist's document, in order."""

_NOUN = "the playlist"


def any_version(_: int) -> bool:
    """Return true for any version. This is the precondition of a caller that sends no If-Match."""
    return True


@dataclass(frozen=True)
class PlaylistRevision:
    """Planned change of a playlist and its entries, which `PlaylistStore.revise` writes in one transaction."""

    playlist: "Playlist"
    """Playlist with its changed attributes. `revise` sets the version and the audit fields."""
    writes: Sequence[Write] = ()
    """Writes of other items, such as entries. `revise` executes them in the transaction that writes the playlist."""
    moves: "Sequence[PlaylistMove]" = ()
    """Changes of entries, which `revise` stores in the playlist's attribute `moves`."""
    response: dict[str, Any] | None = None
    """Response to the client; `None` to respond with the playlist's document."""
    refusal: ServiceError | None = None
    """Error to raise if the condition of the first element of `writes` fails; `None` to plan again and retry."""


class PlaylistStore:
    """Store of playlists. Methods raise the errors of shared.core.errors."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.lists = Lists(table)

    def create(
        self,
        playlist_id: str,
        content: Mapping[str, Value],
        caller: Caller,
        now: int,
        once: IdempotentRequest | None = None,
    ) -> dict[str, Any]:
        """Create a playlist of the caller and return its document.

        With `once`, returns the stored response of an earlier identical request, if there is one. Raises LimitReached
        if the caller already has the maximum number of playlists.
        """
        key = PLAYLIST.key(playlistId=playlist_id)
        created = {"playlistId": playlist_id, "userId": caller.subject, "createdAt": now, "entryCount": 0}
        item = cast("Playlist", {**content, **key, **created})
        indexed: Playlist = {**item, **playlist_index_position(item)}
        new = with_version(indexed, caller, now, version=1)
        writes = [self.table.put(new, condition=ABSENT), self._counted(caller.subject, 1, caller, now)]
        try:
            return carry_out(self.table, writes, new, document(new), once, resource=_NOUN)
        except ConditionFailed as failure:
            raise _too_many() from failure

    def read(self, playlist_id: str, caller: Caller) -> dict[str, Any]:
        """Return the document of a playlist. Raises NotFound if the playlist does not exist or is hidden from the
        caller."""
        item = self._read(PLAYLIST.key(playlistId=playlist_id), consistent=False)
        return document_for(caller, _require_visible(item, caller))

    def list_for_owner(
        self, owner: str, caller: Caller, *, ascending: bool, limit: int, after: Position | None
    ) -> Page[dict[str, Any]]:
        """Return a page of an owner's playlists, sorted by time of creation.

        The owner and admins see all playlists, and other callers see public ones.
        """
        return self._related(playlists_relation(owner), caller, ascending=ascending, limit=limit, after=after)

    def list_for_video(
        self, video_id: str, caller: Caller, now: int, *, ascending: bool, limit: int, after: Position | None
    ) -> Page[dict[str, Any]]:
        """Return a page of the playlists that contain a video, sorted by the time when the video was added.

        Includes public playlists and the caller's own playlists.
        """
        require_visible(self.table.get(VIDEO.key(videoId=video_id), attributes=VISIBILITY_ATTRIBUTES), caller, now)
        return self._related(in_playlist_relation(video_id), caller, ascending=ascending, limit=limit, after=after)

    def change(
        self, playlist_id: str, patch: Mapping[str, Value], caller: Caller, now: int, matches: Callable[[int], bool]
    ) -> dict[str, Any]:
        """Apply a JSON Merge Patch to a playlist that the caller owns, and return its document.

        `matches` is the caller's precondition on the version (If-Match); a mismatch raises VersionMismatch.
        """
        return self.revise(
            playlist_id, caller, now, lambda playlist: PlaylistRevision(merge_patch(playlist, patch)), matches=matches
        )

    def revise(
        self,
        playlist_id: str,
        caller: Caller,
        now: int,
        plan: "Callable[[Playlist], PlaylistRevision]",
        *,
        matches: Callable[[int], bool] = any_version,
        once: IdempotentRequest | None = None,
        write_id: str | None = None,
        even_deleted: bool = False,
    ) -> dict[str, Any]:
        """Call `plan` with a playlist that the caller owns, apply the returned revision, and return the response.

        Writes nothing if the plan changes nothing. With `once`, returns the stored response of an earlier identical
        request, if there is one. If another writer changes the playlist concurrently, `plan` is called again. All
        attempts use the same `write_id`.

        Raises WriteContention, and VersionMismatch if `matches` rejects the version. Raises NotFound if the playlist is
        deleted, unless `even_deleted`.
        """
        key, write_id = PLAYLIST.key(playlistId=playlist_id), write_id or new_write_id()

        def attempt(_: Item | None) -> dict[str, Any]:
            item = self._read(key)
            # The stored response is read after the playlist: see VideoStore.change.
            if response := find_stored_response(self.table, once):
                return response
            playlist = _require_owned(item, caller, even_deleted=even_deleted)
            _check_version(playlist, matches)
            revision = plan(playlist)
            if not revision.writes and not change_between(playlist, revision.playlist).text:
                return document(playlist) if revision.response is None else revision.response
            content = without(revision.playlist, MOVES)
            if revision.moves:
                content[MOVES] = [*revision.moves]
            new = with_version(content, caller, now, version=playlist["version"] + 1, write_id=write_id)
            response = document(new) if revision.response is None else revision.response
            update = self.table.update(key, change_between(playlist, new), condition=at_version(playlist))
            try:
                return carry_out(self.table, [update, *revision.writes], new, response, once, resource=_NOUN)
            except ConditionFailed as failure:
                if failure.position == 1 and revision.refusal:
                    raise revision.refusal from failure
                raise

        return retry_on_conflict(attempt, _NOUN, pause=self.table.pause)

    def delete(self, playlist_id: str, caller: Caller, now: int, matches: Callable[[int], bool]) -> None:
        """Delete a playlist that the caller owns. For RESTORABLE_DAYS, `restore` can revert the deletion.

        `matches` is the caller's precondition on the version (If-Match); a mismatch raises VersionMismatch.
        """
        key, write_id = PLAYLIST.key(playlistId=playlist_id), new_write_id()

        def attempt(_: Item | None) -> None:
            playlist = _require_owned(self._read(key), caller)
            _check_version(playlist, matches)
            content = without(playlist, MOVES, *playlist_index_position(playlist))
            content[DELETED_AT] = now
            content[TTL_ATTRIBUTE] = now + RESTORABLE_DAYS * 86_400
            new = with_version(content, caller, now, version=playlist["version"] + 1, write_id=write_id)
            update = self.table.update(key, change_between(playlist, new), condition=at_version(playlist))
            writes = [update, self._counted(playlist["userId"], -1, caller, now)]
            carry_out(self.table, writes, new, {}, resource=_NOUN)

        retry_on_conflict(attempt, _NOUN, pause=self.table.pause)

    def restore(
        self, playlist_id: str, caller: Caller, now: int, matches: Callable[[int], bool] = any_version
    ) -> dict[str, Any]:
        """Restore a deleted playlist of the caller and return its document.

        If the playlist is not deleted, returns its document and writes nothing. Raises NotFound if the playlist no
        longer exists or is hidden from the caller, and Forbidden if another user owns it. Raises LimitReached if the
        owner already has the maximum number of playlists. Raises WriteContention, and VersionMismatch if `matches`
        rejects the version.
        """
        key, write_id = PLAYLIST.key(playlistId=playlist_id), new_write_id()

        def attempt(_: Item | None) -> dict[str, Any]:
            item = self._read(key)
            playlist = _require_owned(None if item and is_purged(item, now) else item, caller, even_deleted=True)
            _check_version(playlist, matches)
            if DELETED_AT not in playlist:
                return document(playlist)
            content: Playlist = {
                **without(playlist, MOVES, DELETED_AT, TTL_ATTRIBUTE),
                **playlist_index_position(playlist),
            }
            new = with_version(content, caller, now, version=playlist["version"] + 1, write_id=write_id)
            update = self.table.update(key, change_between(playlist, new), condition=at_version(playlist))
            writes = [update, self._counted(playlist["userId"], 1, caller, now)]
            try:
                return carry_out(self.table, writes, new, document(new), resource=_NOUN)
            except ConditionFailed as failure:
                if failure.position == 1:
                    raise _too_many() from failure
                raise

        return retry_on_conflict(attempt, _NOUN, pause=self.table.pause)

    def _read(self, key: Key, *, consistent: bool = True) -> "Playlist | None":
        return cast("Playlist | None", self.table.get(key, consistent=consistent))

    def _related(
        self, relation: str, caller: Caller, *, ascending: bool, limit: int, after: Position | None
    ) -> Page[dict[str, Any]]:
        def read(position: Position | None, count: int) -> Page[Item]:
            window = Window(0, LAST_SECOND + 1, ascending, count, position)
            return self.lists.related(single_partition(relation), window)

        return hydrate_page(read, partial(self._documents, caller=caller), limit=limit, after=after)

    def _documents(self, entries: Sequence[Item], caller: Caller) -> list[dict[str, Any] | None]:
        """Return the documents of the playlists to which index entries refer.

        A document is `None` if the playlist is deleted or hidden from the caller.
        """
        keys = [PLAYLIST.key(playlistId=entry["relId"]) for entry in entries]
        playlists = {item["playlistId"]: item for item in cast("list[Playlist]", self.table.batch_get(keys))}
        shown = {
            playlist_id: document_for(caller, item)
            for playlist_id, item in playlists.items()
            if _is_visible(item, caller)
        }
        return [shown.get(entry["relId"]) for entry in entries]

    def _counted(self, owner: str, difference: int, caller: Caller, now: int) -> Write:
        """Return the write that adds `difference` to an owner's number of playlists. An increase has the condition that
        the number is less than MAX_PLAYLISTS."""
        attributes = {"rel": USERS, "relShard": 0, "relSort": 0, "relId": owner}
        addition = Expression.of("ADD #playlists :difference, #version :one", difference=difference, one=1)
        below = Expression.of("attribute_not_exists(#playlists) OR #playlists < :most", most=MAX_PLAYLISTS)
        return self.table.update(
            PROFILE.key(userId=owner),
            addition + signing(attributes, caller, now),
            condition=below if difference > 0 else None,
        )


def playlist_index_position(item: "Playlist") -> "IndexAttributes":
    """Return the RelationIndex attributes of a playlist that is not deleted."""
    return {
        "rel": playlists_relation(item["userId"]),
        "relShard": 0,
        "relSort": item["createdAt"],
        "relId": item["playlistId"],
    }


def document(item: "Playlist") -> dict[str, Any]:
    """Return a playlist as its owner sees it."""
    stored: Mapping[str, Any] = item
    return {name: stored[name] for name in FIELDS if name in stored}


def document_for(caller: Caller, item: "Playlist") -> dict[str, Any]:
    """Return the document of a playlist for a caller.

    Only the owner and admins see `entryCount`, because it would reveal the number of hidden videos.
    """
    shown = document(item)
    if not caller.owns(item["userId"]):
        shown.pop("entryCount", None)
    return shown


def _too_many() -> LimitReached:
    return LimitReached.full(f"You already have {MAX_PLAYLISTS} playlists")


def _check_version(item: "Playlist", matches: Callable[[int], bool]) -> None:
    if not matches(item["version"]):
        raise VersionMismatch.at("playlist", item["version"])


def _is_visible(item: "Playlist", caller: Caller) -> bool:
    return DELETED_AT not in item and (item["visibility"] == "public" or caller.owns(item["userId"]))


def _require_visible(item: "Playlist | None", caller: Caller, *, even_deleted: bool = False) -> "Playlist":
    """Return the playlist if the caller may see it.

    Raises NotFound with the same message for absent, hidden and deleted playlists. With `even_deleted`, a deleted
    playlist is also returned to its owner.
    """
    if item is not None and (_is_visible(item, caller) or (even_deleted and caller.owns(item["userId"]))):
        return item
    raise NotFound.of("playlist")


def _require_owned(item: "Playlist | None", caller: Caller, *, even_deleted: bool = False) -> "Playlist":
    """Return the playlist if the caller may change it.

    Raises NotFound if it is hidden from the caller, and Forbidden if another user owns it.
    """
    playlist = _require_visible(item, caller, even_deleted=even_deleted)
    if not caller.owns(playlist["userId"]):
        raise Forbidden.owned("playlist")
    return playlist
