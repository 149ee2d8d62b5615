"""Entries of a playlist, in order.

An entry consists of two items. The list item has the rank in its sort key. The membership item has the video id in its
sort key, and an index contains the membership items of each video. Lists show an entry only if the caller may see its
video, but `entryCount` includes all entries.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from shared.aws.dynamodb import Write
from shared.aws.expressions import Expression
from shared.aws.listing import hydrate_page
from shared.aws.records import ABSENT, key_of, new_write_id, signing, with_audit_fields
from shared.core.attributes import Item
from shared.core.caller import Caller, IdempotentRequest
from shared.core.errors import AlreadyExists, LimitReached, NotFound, invalid_field
from shared.core.position import Page, Position
from shared.relations import ranks
from shared.relations.playlists import PlaylistRevision, PlaylistStore, any_version
from shared.relations.ranks import MAX_MOVED, NoRoomError
from shared.schema import (
    ENTRY,
    MEMBERSHIP,
    PARTITION_KEY,
    PLAYLIST,
    SORT_KEY,
    TTL_ATTRIBUTE,
    VIDEO,
    in_playlist_relation,
)
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import is_purged, is_shown
from shared.videos.documents import summary
from shared.videos.store import VideoStore

if TYPE_CHECKING:
    from shared.entities import EntryContent, EntryPosition, Playlist, PlaylistEntry, PlaylistMove

MAX_ENTRIES = 5000
"""Maximum number of entries per playlist."""
MAX_PLACED = 30
"""Maximum number of entries that `placed` accepts. A transaction needs three writes for each entry."""


class EntryStore:
    """Store of the entries of playlists. Methods raise the errors of shared.core.errors."""

    def __init__(self, playlists: PlaylistStore) -> None:
        self.table = playlists.table
        self._playlists = playlists
        self._videos = VideoStore(playlists.table)

    def page(
        self, playlist_id: str, caller: Caller, now: int, *, limit: int, after: Position | None
    ) -> Page[dict[str, Any]]:
        """Return a page of a playlist's entries in order, each with the summary of its video.

        Omits entries whose videos the caller may not see.
        """
        self._playlists.read(playlist_id, caller)  # raises NotFound

        def read(position: Position | None, count: int) -> "Page[PlaylistEntry]":
            rank, _, video_id = position.id.partition("#") if position else ("", "", "")
            start = ENTRY.key(playlistId=playlist_id, rank=rank, videoId=video_id) if position else None
            items, more = self._next_to(playlist_id, start, count)
            return Page(items, _position(items[-1]) if items and more else None)

        def look_up(entries: "Sequence[PlaylistEntry]") -> list[dict[str, Any] | None]:
            videos = self._videos.summaries([entry["videoId"] for entry in entries], caller, now)
            return [
                _document(entry) | {"video": summary(video)} if video else None
                for entry, video in zip(entries, videos, strict=True)
            ]

        return hydrate_page(read, look_up, limit=limit, after=after, locate=_position)

    def append(
        self,
        playlist_id: str,
        video_id: str,
        caller: Caller,
        now: int,
        once: IdempotentRequest | None = None,
        matches: Callable[[int], bool] = any_version,
    ) -> dict[str, Any]:
        """Append a video to a playlist that the caller owns, and return its entry.

        With `once`, returns the stored response of an earlier identical request, if there is one. `matches` is the
        caller's precondition on the playlist's version (If-Match); a mismatch raises VersionMismatch.

        Raises AlreadyExists if the playlist contains the video, and LimitReached if the playlist is full. Raises
        InvalidContent if the video does not exist or is hidden from the caller.
        """
        write_id = new_write_id()

        def plan(playlist: "Playlist") -> PlaylistRevision:
            self._require_video(video_id, caller, now)
            if playlist["entryCount"] >= MAX_ENTRIES:
                raise LimitReached.full(f"The playlist already has {MAX_ENTRIES} entries")
            rank = ranks.after(playlist["lastRank"]) if "lastRank" in playlist else ranks.first()
            entry: EntryContent = {"playlistId": playlist_id, "videoId": video_id, "rank": rank, "addedAt": now}
            return PlaylistRevision(
                playlist | {"entryCount": playlist["entryCount"] + 1, "lastRank": rank},
                [
                    self.table.put(_membership(entry, caller, now, write_id), condition=ABSENT),
                    self.table.put(_entry(entry, caller, now)),
                ],
                [moved_entry(video_id, to=entry)],
                _document(entry),
                AlreadyExists("The playlist already contains this video."),
            )

        return self._playlists.revise(playlist_id, caller, now, plan, matches=matches, once=once, write_id=write_id)

    def move(
        self,
        playlist_id: str,
        video_id: str,
        neighbour_id: str | None,
        caller: Caller,
        now: int,
        *,
        behind: bool,
        matches: Callable[[int], bool] = any_version,
    ) -> dict[str, Any]:
        """Move an entry directly after or before another entry, and return the moved entry.

        Costs one transaction, regardless of the length of the list.

        `neighbour_id` is the video id of the other entry. If `behind` is true, the entry moves after that entry,
        otherwise before it. Without a `neighbour_id`, the entry moves to the beginning of the list if `behind` is true,
        otherwise to the end.

        Raises NotFound if the list does not contain the entry. Raises InvalidContent if the list does not contain the
        other entry, or if the other entry is the moved one. For `matches`, see `append`.
        """
        name = "after" if behind else "before"
        if neighbour_id == video_id:
            raise invalid_field(f"/{name}", "must not be the entry that is moved")

        def plan(playlist: "Playlist") -> PlaylistRevision:
            video_ids = [video_id, neighbour_id] if neighbour_id else [video_id]
            members = self._members(playlist_id, video_ids)
            if video_id not in members:
                raise NotFound("The playlist does not contain this video.")
            if neighbour_id and neighbour_id not in members:
                raise invalid_field(f"/{name}", "must be the videoId of an entry of the playlist")
            moved, anchor = members[video_id], members[neighbour_id] if neighbour_id else None
            # Read up to MAX_MOVED entries that may have to make room, the next entry after them, and perhaps the moved
            # entry itself.
            start = _entry_key(anchor) if anchor else None
            neighbours, _ = self._next_to(playlist_id, start, MAX_MOVED + 2, ascending=behind, consistent=True)
            if neighbours and neighbours[0]["videoId"] == video_id:
                return PlaylistRevision(playlist, response=_document(moved))
            remaining = [neighbour for neighbour in neighbours if neighbour["videoId"] != video_id]
            new_ranks = _ranks(
                anchor["rank"] if anchor else None, [neighbour["rank"] for neighbour in remaining], behind=behind
            )
            writes: list[Write] = []
            moves: list[PlaylistMove] = []
            for entry, rank in zip([moved, *remaining], new_ranks, strict=False):
                if rank != entry["rank"]:
                    writes += self._reranked(entry, rank, caller, now)
                    moves.append(moved_entry(entry["videoId"], entry, entry | {"rank": rank}))
            last = max(playlist["lastRank"], *new_ranks)
            return PlaylistRevision(playlist | {"lastRank": last}, writes, moves, _document(moved))

        return self._playlists.revise(playlist_id, caller, now, plan, matches=matches)

    def remove(
        self,
        playlist_id: str,
        video_id: str,
        caller: Caller,
        now: int,
        matches: Callable[[int], bool] = any_version,
    ) -> None:
        """Remove a video from a playlist that the caller owns; raise NotFound if the list does not contain it.

        For `matches`, see `append`.
        """

        def plan(playlist: "Playlist") -> PlaylistRevision:
            entry = self._member(playlist_id, video_id)
            if entry is None:
                raise NotFound("The playlist does not contain this video.")
            return self._without(playlist, entry)

        self._playlists.revise(playlist_id, caller, now, plan, matches=matches)

    def forget(self, playlist_id: str, video_id: str, caller: Caller, now: int) -> None:
        """Remove a permanently deleted video from a playlist. Only background jobs of the service call this."""

        def plan(playlist: "Playlist") -> PlaylistRevision:
            entry = self._member(playlist_id, video_id)
            return self._without(playlist, entry) if entry else PlaylistRevision(playlist)

        try:
            # A deleted playlist may be restored, and must not contain this entry then.
            self._playlists.revise(playlist_id, caller, now, plan, even_deleted=True)
        except NotFound:
            # The playlist no longer exists, and its purge may have missed this entry.
            entry = self._member(playlist_id, video_id)
            if entry:
                self.table.batch_delete([_entry_key(entry), key_of(entry)])

    def positions(self, playlist_id: str, video_ids: Sequence[str]) -> "dict[str, EntryPosition]":
        """Return the `rank` and `addedAt` of the entries with these videos, by videoId. Omits videos that are not in
        the list.

        Uses consistent reads.
        """
        members = self._members(playlist_id, video_ids)
        return {video_id: _position_of(member) for video_id, member in members.items()}

    def existing(self, video_ids: Sequence[str], now: int) -> set[str]:
        """Return the ids of the given videos that exist. A deleted video exists until it is purged. Uses consistent
        reads."""
        keys = [VIDEO.key(videoId=video_id) for video_id in video_ids]
        videos = self.table.batch_get(keys, attributes=("videoId", TTL_ATTRIBUTE), consistent=True)
        return {video["videoId"] for video in videos if not is_purged(video, now)}

    def placed(
        self, playlist: "Playlist", positions: "Mapping[str, EntryPosition | None]", caller: Caller, now: int
    ) -> PlaylistRevision:
        """Plan to restore entries of a playlist to earlier positions, and return the planned change of the playlist.

        `positions` maps at most MAX_PLACED video ids to the earlier `rank` and `addedAt` of the video's entry, or to
        `None` to remove the entry. If another entry now has that rank, the restored entry follows the other entry.
        Raises LimitReached if the list is full.
        """
        playlist_id, write_id = playlist["playlistId"], new_write_id()
        present = self.positions(playlist_id, list(positions))
        writes: list[Write] = []
        moves: list[PlaylistMove] = []
        used_ranks: set[str] = set()
        for video_id, position in positions.items():
            before = present.get(video_id)
            names = {"playlistId": playlist_id, "videoId": video_id}
            entry: EntryContent | None = None
            if position:
                rank = self._free_rank(playlist_id, position["rank"], positions.keys(), used_ranks)
                used_ranks.add(rank)
                entry = {
                    "playlistId": playlist_id,
                    "videoId": video_id,
                    "rank": rank,
                    "addedAt": position["addedAt"],
                }
                writes += [self.table.put(_entry(entry, caller, now))]
                writes += [self.table.put(_membership(entry, caller, now, write_id))]
            if before and not (entry and entry["rank"] == before["rank"]):
                writes.append(self.table.remove(ENTRY.key(**names, rank=before["rank"])))
            if before and not entry:
                writes.append(self.table.remove(MEMBERSHIP.key(**names)))
            if before or entry:
                moves.append(moved_entry(video_id, before, entry))
        count = playlist["entryCount"] + sum(
            (position is not None) - (name in present) for name, position in positions.items()
        )
        if count > max(MAX_ENTRIES, playlist["entryCount"]):
            raise LimitReached(f"The playlist would have {count} entries, more than the maximum of {MAX_ENTRIES}.")
        last = max([*used_ranks, *([playlist["lastRank"]] if "lastRank" in playlist else [])], default=None)
        revised: Playlist = playlist | {"entryCount": count}
        if last:
            revised["lastRank"] = last
        return PlaylistRevision(revised, writes, moves)

    def _free_rank(self, playlist_id: str, rank: str, moving: Container[str], used_ranks: Collection[str]) -> str:
        """Return `rank` if it is unused, else a rank in the middle between `rank` and the next used rank.

        A rank is used if it is in `used_ranks`, or if a playlist entry has it. Entries of the videos in `moving` are
        ignored.
        """
        start = ENTRY.key(playlistId=playlist_id, rank=rank, videoId="")
        nearest, _ = self._next_to(playlist_id, start, MAX_PLACED + 2, consistent=True)
        ranks_of_others = [entry["rank"] for entry in nearest if entry["videoId"] not in moving]
        if rank not in used_ranks and rank not in ranks_of_others:
            return rank
        return ranks.between(
            rank, min((other for other in (*ranks_of_others, *used_ranks) if other > rank), default=None)
        )

    def _without(self, playlist: "Playlist", entry: "PlaylistEntry") -> PlaylistRevision:
        playlist_after: Playlist = playlist | {"entryCount": playlist["entryCount"] - 1}
        writes = [self.table.remove(_entry_key(entry)), self.table.remove(key_of(entry))]
        return PlaylistRevision(playlist_after, writes, [moved_entry(entry["videoId"], entry)])

    def _member(self, playlist_id: str, video_id: str) -> "PlaylistEntry | None":
        key = MEMBERSHIP.key(playlistId=playlist_id, videoId=video_id)
        return cast("PlaylistEntry | None", self.table.get(key, consistent=True))

    def _members(self, playlist_id: str, video_ids: Iterable[str]) -> "dict[str, PlaylistEntry]":
        keys = [MEMBERSHIP.key(playlistId=playlist_id, videoId=video_id) for video_id in video_ids]
        items = cast("list[PlaylistEntry]", self.table.batch_get(keys, consistent=True))
        return {item["videoId"]: item for item in items}

    def _next_to(
        self,
        playlist_id: str,
        start: Item | None,
        limit: int,
        *,
        ascending: bool = True,
        consistent: bool = False,
    ) -> "tuple[list[PlaylistEntry], bool]":
        """Return up to `limit` entries after the key `start` in the given direction, and whether there may be more. If
        `start` is `None`, begin with the first entry in this direction."""
        partition = PLAYLIST.key(playlistId=playlist_id)[PARTITION_KEY]
        page = self.table.query(
            index=None,
            condition=Expression.of("#pk = :pk AND begins_with(#sk, :entry)", pk=partition, entry=ENTRY.sort_prefix),
            ascending=ascending,
            limit=limit,
            start=start,
            consistent=consistent,
        )
        return cast("list[PlaylistEntry]", page.items), page.last_key is not None

    def _require_video(self, video_id: str, caller: Caller, now: int) -> None:
        # Consistent read, because the video may be new.
        video = self.table.get(VIDEO.key(videoId=video_id), attributes=VISIBILITY_ATTRIBUTES, consistent=True)
        if video is None or not is_shown(video, caller, now):
            raise invalid_field("/videoId", "must be the id of an existing video")

    def _reranked(self, entry: "PlaylistEntry", rank: str, caller: Caller, now: int) -> list[Write]:
        """Return the writes that change the rank of an entry: in the sort key of its list item, and in its membership
        item."""
        key = MEMBERSHIP.key(playlistId=entry["playlistId"], videoId=entry["videoId"])
        return [
            self.table.remove(_entry_key(entry)),
            self.table.put(_entry(entry | {"rank": rank}, caller, now)),
            self.table.update(
                key,
                signing({"rank": rank}, caller, now),
                condition=Expression.of("#rank = :read", read=entry["rank"]),
            ),
        ]


def moved_entry(
    video_id: str, before: "EntryPosition | None" = None, to: "EntryPosition | None" = None
) -> "PlaylistMove":
    """Return the change of one entry as an element of the playlist's attribute `moves`.

    `before` is `None` if the entry is added, and `to` is `None` if the entry is removed.
    """
    move: PlaylistMove = {"videoId": video_id}
    if before:
        move["from"] = _position_of(before)
    if to:
        move["to"] = _position_of(to)
    return move


def _entry(entry: "EntryContent", caller: Caller, now: int) -> "PlaylistEntry":
    """Return the list item to write for an entry."""
    key = _entry_key(entry)
    item: PlaylistEntry = {
        PARTITION_KEY: key[PARTITION_KEY],
        SORT_KEY: key[SORT_KEY],
        "playlistId": entry["playlistId"],
        "videoId": entry["videoId"],
        "rank": entry["rank"],
        "addedAt": entry["addedAt"],
    }
    return with_audit_fields(item, caller, now)


def _membership(entry: "EntryContent", caller: Caller, now: int, write_id: str) -> "PlaylistEntry":
    """Return the membership item to write for a playlist entry. Its index attributes put the playlist into the list of
    the video's playlists."""
    key = MEMBERSHIP.key(playlistId=entry["playlistId"], videoId=entry["videoId"])
    return {
        **_entry(entry, caller, now),
        PARTITION_KEY: key[PARTITION_KEY],
        SORT_KEY: key[SORT_KEY],
        "writeId": write_id,
        "rel": in_playlist_relation(entry["videoId"]),
        "relShard": 0,
        "relSort": entry["addedAt"],
        "relId": entry["playlistId"],
    }


def _position_of(entry: "EntryPosition") -> "EntryPosition":
    """Return the rank of an entry and the time when the entry was added, without other attributes."""
    return {"rank": entry["rank"], "addedAt": entry["addedAt"]}


def _document(entry: "EntryContent") -> dict[str, Any]:
    return {"videoId": entry["videoId"], "addedAt": entry["addedAt"]}


def _entry_key(entry: "EntryContent") -> dict[str, str]:
    return ENTRY.key(playlistId=entry["playlistId"], rank=entry["rank"], videoId=entry["videoId"])


def _position(entry: "EntryContent") -> Position:
    """Return the list position of an entry, for cursors."""
    return Position(0, f"{entry['rank']}#{entry['videoId']}")


def _ranks(anchor: str | None, neighbours: Sequence[str], *, behind: bool) -> list[str]:
    try:
        return ranks.placed(anchor, neighbours, ascending=behind)
    except NoRoomError as error:
        raise LimitReached(
            "Too many entries were moved to this position. Remove a neighbouring entry, and append it again."
        ) from error
