"""Playlists, their entries in order, and the playlists of a video.

An entry is two items: one that stands in the list by its rank, one that tells by its video that it is there. Every
change of them is one transaction with the playlist itself, whose version is its condition: so what was read stays true
until it is written. An entry is shown by what the caller may see of its video, and counts as long as it is there.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from shared.aws.dynamodb import ConditionFailed, Table, TransactionConflict, Write
from shared.aws.expressions import Expression, change_between
from shared.aws.listing import Found, Lists, Window, hydrated, unsharded
from shared.aws.pages import Page
from shared.aws.records import ABSENT, at_version, contended, is_ours, key_of, new_write_id, signed, signing, stamped
from shared.core.attributes import Item, Value
from shared.core.caller import Caller
from shared.core.errors import AlreadyExists, Forbidden, InvalidContent, LimitReached, NotFound, VersionMismatch
from shared.core.limits import LAST_SECOND
from shared.core.position import Position
from shared.relations import ranks
from shared.relations.ranks import MOST_SPREAD, NoRoomError
from shared.schema import (
    ENTRY,
    MEMBERSHIP,
    PARTITION_KEY,
    PLAYLIST,
    PROFILE,
    USERS,
    VIDEO,
    in_playlist_relation,
    playlists_relation,
)
from shared.videos.catalogue import VideoStore
from shared.videos.video import VISIBILITY_ATTRIBUTES, is_shown, merge_patch, seen_by, summary
from shared.web.idempotency import Once, in_flight

MOST_PLAYLISTS = 1000
"""Of one owner."""
MOST_ENTRIES = 5000
"""Of one playlist."""
ROUNDS = 10
"""How often a change is tried when others change the playlist meanwhile."""

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

_Result = TypeVar("_Result")


def _any_version(_: int) -> bool:
    return True


class _Refused(Exception):
    """A condition of a transaction did not hold; `position` is that of the write, 0 being the playlist's."""

    def __init__(self, position: int) -> None:
        super().__init__(f"the condition of write {position} failed")
        self.position = position


class PlaylistStore:
    """Playlists and their entries in the table. Methods raise the errors of shared.core.errors."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.lists = Lists(table)
        self.videos = VideoStore(table)

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
            "rel": playlists_relation(caller.subject),
            "relShard": 0,
            "relSort": now,
            "relId": playlist_id,
        }
        new = stamped(item, caller, now, version=1)
        writes = [self.table.put(new, condition=ABSENT), self._counted(caller.subject, 1, caller, now)]
        try:
            return self._transact(writes, new, document(new), once)
        except _Refused as refusal:
            raise LimitReached(
                f"You have {MOST_PLAYLISTS} playlists, as many as one owner may have; delete one first."
            ) from refusal

    def read(self, playlist_id: str, caller: Caller) -> dict[str, Any]:
        """The document of a playlist that the caller may see."""
        return document_for(caller, _seen_by(self.table.get(PLAYLIST.key(playlistId=playlist_id)), caller))

    def of_owner(
        self, owner: str, caller: Caller, *, ascending: bool, limit: int, after: Position | None
    ) -> Found[dict[str, Any]]:
        """One owner's playlists by time: all of them for itself and admins, public ones for others."""
        return self._related(playlists_relation(owner), caller, ascending=ascending, limit=limit, after=after)

    def of_video(
        self, video_id: str, caller: Caller, now: int, *, ascending: bool, limit: int, after: Position | None
    ) -> Found[dict[str, Any]]:
        """The playlists that hold a video, by the time at which it was added: public ones and the caller's own."""
        seen_by(self.table.get(VIDEO.key(videoId=video_id), attributes=VISIBILITY_ATTRIBUTES), caller, now)
        return self._related(in_playlist_relation(video_id), caller, ascending=ascending, limit=limit, after=after)

    def change(
        self, playlist_id: str, patch: Mapping[str, Value], caller: Caller, now: int, matches: Callable[[int], bool]
    ) -> dict[str, Any]:
        """Apply a JSON Merge Patch to a playlist of the caller's and return its document.

        `matches` is the caller's condition on the version (If-Match): raises VersionMismatch.
        """
        write_id = new_write_id()

        def attempt() -> dict[str, Any]:
            item = self._owned(playlist_id, caller)
            _check_version(item, matches)
            edited = merge_patch(item, patch)
            if not change_between(item, edited).text:
                return document(item)
            new = _next(edited, caller, now, write_id)
            try:
                self.table.write(self._changed(item, new))
            except ConditionFailed as failure:
                if not is_ours(failure.item, new):
                    raise _Refused(0) from failure
            return document(new)

        return self._again(attempt)

    def delete(self, playlist_id: str, caller: Caller, now: int, matches: Callable[[int], bool]) -> None:
        """Delete a playlist of the caller's; its entries are out of sight with it, and a queue removes them.

        `matches` is the caller's condition on the version (If-Match): raises VersionMismatch.
        """

        def attempt() -> None:
            item = self._owned(playlist_id, caller)
            _check_version(item, matches)
            removal = self.table.remove(PLAYLIST.key(playlistId=playlist_id), condition=at_version(item))
            try:
                self.table.transact([removal, self._counted(item["userId"], -1, caller, now)])
            except ConditionFailed as failure:
                # Gone: by somebody else in this moment, or by an attempt of ours whose answer was lost.
                if failure.item is not None:
                    raise _Refused(0) from failure

        self._again(attempt)

    def entries(
        self, playlist_id: str, caller: Caller, now: int, *, limit: int, after: Position | None
    ) -> Found[dict[str, Any]]:
        """The entries in order, each with the summary of its video as it is stored; without what the caller may not see."""
        _seen_by(self.table.get(PLAYLIST.key(playlistId=playlist_id)), caller)

        def read(position: Position | None, count: int) -> Page:
            rank, _, video_id = position.id.partition("#") if position else ("", "", "")
            start = ENTRY.key(playlistId=playlist_id, rank=rank, videoId=video_id) if position else None
            items, more = self._entries(playlist_id, start, count)
            return Page(items, _place(items[-1]) if items and more else None)

        def look_up(entries: Sequence[Item]) -> list[dict[str, Any] | None]:
            found = self.videos.summaries([entry["videoId"] for entry in entries], caller, now)
            return [
                _entry_document(entry) | {"video": summary(video)} if video else None
                for entry, video in zip(entries, found, strict=True)
            ]

        return hydrated(read, look_up, limit=limit, after=after, locate=_place)

    def append(
        self,
        playlist_id: str,
        video_id: str,
        caller: Caller,
        now: int,
        once: Once | None = None,
        matches: Callable[[int], bool] = _any_version,
    ) -> dict[str, Any]:
        """Put a video at the end of a playlist of the caller's and return its entry; with `once`, the first answer.

        `matches` is the caller's condition on the playlist's version (If-Match): raises VersionMismatch. Raises AlreadyExists when it is in the list; LimitReached when the list is full; InvalidContent when there is no
        such video, or none that the caller may see.
        """
        write_id = new_write_id()

        def attempt() -> dict[str, Any]:
            found = self.table.get(PLAYLIST.key(playlistId=playlist_id), consistent=True)
            # After the playlist: see VideoStore.change.
            if once and (answer := once.recorded(self.table.get(once.item_key, consistent=True))):
                return answer
            playlist = _owned_by(found, caller)
            _check_version(playlist, matches)
            self._check_video(video_id, caller, now)
            if playlist["entryCount"] >= MOST_ENTRIES:
                raise LimitReached(f"The playlist has {MOST_ENTRIES} entries, as many as one may have.")
            rank = ranks.after(playlist["lastRank"]) if "lastRank" in playlist else ranks.first()
            entry = {"playlistId": playlist_id, "videoId": video_id, "rank": rank, "addedAt": now}
            counted = {"entryCount": playlist["entryCount"] + 1, "lastRank": rank}
            new = _next(playlist | counted, caller, now, write_id)
            writes = [
                self._changed(playlist, new),
                self.table.put(_membership(entry, caller, now, write_id), condition=ABSENT),
                self.table.put(_entry(entry, caller, now)),
            ]
            try:
                return self._transact(writes, new, _entry_document(entry), once)
            except _Refused as refusal:
                if refusal.position == 1:
                    raise AlreadyExists("The playlist holds this video already.") from refusal
                raise

        return self._again(attempt)

    def move(
        self,
        playlist_id: str,
        video_id: str,
        beside: str | None,
        caller: Caller,
        now: int,
        *,
        behind: bool,
        matches: Callable[[int], bool] = _any_version,
    ) -> dict[str, Any]:
        """Put an entry directly behind another one, or before it, and return it. One transaction, however long the list.

        `beside` is the other one's video; None: the beginning of the list with `behind`, else its end. Raises
        NotFound when the entry is not in the list, InvalidContent when the other one is not, or is the same; with
        `matches` as `append` does.
        """
        name = "after" if behind else "before"
        if beside == video_id:
            raise _invalid(name, "must be another entry than the one that is moved")
        write_id = new_write_id()

        def attempt() -> dict[str, Any]:
            playlist = self._owned(playlist_id, caller)
            _check_version(playlist, matches)
            keys = [MEMBERSHIP.key(playlistId=playlist_id, videoId=each) for each in (video_id, beside) if each]
            members = {each["videoId"]: each for each in self.table.batch_get(keys, consistent=True)}
            if video_id not in members:
                raise NotFound("The playlist does not hold this video.")
            if beside and beside not in members:
                raise _invalid(name, "is not in the playlist")
            moved, anchor = members[video_id], members[beside] if beside else None
            # Twenty entries that may have to make room, one that bounds them, and perhaps the moved one itself.
            start = _entry_key(anchor) if anchor else None
            neighbours, _ = self._entries(playlist_id, start, MOST_SPREAD + 2, ascending=behind, consistent=True)
            if neighbours and neighbours[0]["videoId"] == video_id:
                return _entry_document(moved)
            others = [each for each in neighbours if each["videoId"] != video_id]
            places = _places(anchor["rank"] if anchor else None, [each["rank"] for each in others], behind=behind)
            last = {"lastRank": max(playlist["lastRank"], *places)}
            new = _next(playlist | last, caller, now, write_id)
            writes = [self._changed(playlist, new)]
            for entry, rank in zip([moved, *others], places, strict=False):
                writes += self._reranked(entry, rank, caller, now)
            return self._transact(writes, new, _entry_document(moved))

        return self._again(attempt)

    def remove(
        self,
        playlist_id: str,
        video_id: str,
        caller: Caller,
        now: int,
        matches: Callable[[int], bool] = _any_version,
    ) -> None:
        """Take a video out of a playlist of the caller's; raises NotFound when it is not in the list.

        With `matches` as `append` does.
        """
        write_id = new_write_id()

        def attempt() -> None:
            playlist = self._owned(playlist_id, caller)
            _check_version(playlist, matches)
            entry = self.table.get(MEMBERSHIP.key(playlistId=playlist_id, videoId=video_id), consistent=True)
            if entry is None:
                raise NotFound("The playlist does not hold this video.")
            self._take_out(playlist, entry, caller, now, write_id)

        self._again(attempt)

    def forget(self, playlist_id: str, video_id: str, caller: Caller, now: int) -> None:
        """Take a video that is gone out of a playlist, if both are there; for the service's own jobs."""
        write_id = new_write_id()

        def attempt() -> None:
            playlist = self.table.get(PLAYLIST.key(playlistId=playlist_id), consistent=True)
            entry = self.table.get(MEMBERSHIP.key(playlistId=playlist_id, videoId=video_id), consistent=True)
            if entry is None:
                return
            if playlist is None:
                self.table.batch_delete([_entry_key(entry), key_of(entry)])
            else:
                self._take_out(playlist, entry, caller, now, write_id)

        self._again(attempt)

    def _take_out(self, playlist: Item, entry: Item, caller: Caller, now: int, write_id: str) -> None:
        left = playlist | {"entryCount": playlist["entryCount"] - 1}
        new = _next(left, caller, now, write_id)
        writes = [
            self._changed(playlist, new),
            self.table.remove(_entry_key(entry)),
            self.table.remove(key_of(entry)),
        ]
        self._transact(writes, new, {})

    def _related(
        self, relation: str, caller: Caller, *, ascending: bool, limit: int, after: Position | None
    ) -> Found[dict[str, Any]]:
        def read(position: Position | None, count: int) -> Page:
            window = Window(0, LAST_SECOND + 1, ascending, count, position)
            return self.lists.related(unsharded(relation), window)

        return hydrated(read, partial(self._documents, caller=caller), limit=limit, after=after)

    def _documents(self, entries: Sequence[Item], caller: Caller) -> list[dict[str, Any] | None]:
        """The documents of playlists by index entries; None for one that is gone or hidden from the caller."""
        keys = [PLAYLIST.key(playlistId=entry["relId"]) for entry in entries]
        found = {item["playlistId"]: item for item in self.table.batch_get(keys)}
        shown = {each: document_for(caller, item) for each, item in found.items() if _is_seen(item, caller)}
        return [shown.get(entry["relId"]) for entry in entries]

    def _entries(
        self,
        playlist_id: str,
        start: Item | None,
        limit: int,
        *,
        ascending: bool = True,
        consistent: bool = False,
    ) -> tuple[list[Item], bool]:
        """Entries next to a key (exclusive) in order, and whether there may be more."""
        partition = PLAYLIST.key(playlistId=playlist_id)[PARTITION_KEY]
        page = self.table.query(
            index=None,
            condition=Expression.of(
                "#pk = :pk AND begins_with(#sk, :entry)", pk=partition, entry=ENTRY.sk.partition("{")[0]
            ),
            ascending=ascending,
            limit=limit,
            start=start,
            consistent=consistent,
        )
        return page.items, page.last_key is not None

    def _check_video(self, video_id: str, caller: Caller, now: int) -> None:
        # Consistent, because it may have been created just before.
        found = self.table.get(VIDEO.key(videoId=video_id), attributes=VISIBILITY_ATTRIBUTES, consistent=True)
        if found is None or not is_shown(found, caller, now):
            raise _invalid("videoId", "There is no such video.")

    def _owned(self, playlist_id: str, caller: Caller) -> Item:
        return _owned_by(self.table.get(PLAYLIST.key(playlistId=playlist_id), consistent=True), caller)

    def _changed(self, old: Item, new: Item) -> Write:
        """The write that makes a playlist into another version of it, if nobody else has."""
        key = PLAYLIST.key(playlistId=old["playlistId"])
        return self.table.update(key, change_between(old, new), condition=at_version(old))

    def _reranked(self, entry: Item, rank: str, caller: Caller, now: int) -> list[Write]:
        """The writes that give an entry another rank; none when it has that one already."""
        if rank == entry["rank"]:
            return []
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

    def _transact(
        self, writes: Sequence[Write], new: Item, answer: dict[str, Any], once: Once | None = None
    ) -> dict[str, Any]:
        """Carry out together the writes that make `new` of a playlist; return the answer, or that of the first time.

        Raises _Refused.
        """
        records = [once.record(self.table, answer)] if once else []
        try:
            self.table.transact([*records, *writes])
        except ConditionFailed as failure:
            if once and failure.position == 0:
                return once.replayed(failure.item)
            if not is_ours(failure.item, new):
                raise _Refused(failure.position - len(records)) from failure
        except TransactionConflict as conflict:
            if once:
                raise in_flight("The playlist is being changed.") from conflict
            raise
        return answer

    def _again(self, attempt: Callable[[], _Result]) -> _Result:
        """What `attempt` returns, tried again when others changed the playlist meanwhile; raises WriteContention."""
        for number in range(ROUNDS):
            if number:
                self.table.pause(number)
            try:
                return attempt()
            except _Refused:
                continue
        raise contended("the playlist")


def document(item: Item) -> dict[str, Any]:
    """A playlist as its owner sees it."""
    return {name: item[name] for name in FIELDS if name in item}


def document_for(caller: Caller, item: Item) -> dict[str, Any]:
    """A playlist as a caller sees it; strangers could tell from `entryCount` how many of its videos are hidden."""
    shown = document(item)
    if not caller.owns(item["userId"]):
        shown.pop("entryCount", None)
    return shown


def _next(changed: Item, caller: Caller, now: int, write_id: str) -> Item:
    """The next version of a playlist that was changed."""
    return stamped(changed, caller, now, version=changed["version"] + 1, write_id=write_id)


def _entry(entry: Item, caller: Caller, now: int) -> Item:
    """The item of an entry that stands in the list."""
    content = {name: entry[name] for name in ("playlistId", "videoId", "rank", "addedAt")}
    return signed(_entry_key(entry) | content, caller, now)


def _membership(entry: Item, caller: Caller, now: int, write_id: str) -> Item:
    """The item of an entry that tells that it is there."""
    return {
        **_entry(entry, caller, now),
        **MEMBERSHIP.key(playlistId=entry["playlistId"], videoId=entry["videoId"]),
        "writeId": write_id,
        "rel": in_playlist_relation(entry["videoId"]),
        "relShard": 0,
        "relSort": entry["addedAt"],
        "relId": entry["playlistId"],
    }


def _entry_document(entry: Item) -> dict[str, Any]:
    return {"videoId": entry["videoId"], "addedAt": entry["addedAt"]}


def _entry_key(entry: Item) -> dict[str, str]:
    return ENTRY.key(playlistId=entry["playlistId"], rank=entry["rank"], videoId=entry["videoId"])


def _place(entry: Item) -> Position:
    """Where an entry stands in its list."""
    return Position(0, f"{entry['rank']}#{entry['videoId']}")


def _places(anchor: str | None, others: Sequence[str], *, behind: bool) -> list[str]:
    try:
        return ranks.placed(anchor, others, ascending=behind)
    except NoRoomError as error:
        raise LimitReached(
            "Too many entries were moved to this place; remove one of its neighbours, and append it again."
        ) from error


def _check_version(item: Item, matches: Callable[[int], bool]) -> None:
    if not matches(item["version"]):
        raise VersionMismatch(
            f'The playlist is at version {item["version"]}; If-Match takes its ETag, or "{item["version"]}".'
        )


def _is_seen(item: Item, caller: Caller) -> bool:
    return item["visibility"] == "public" or caller.owns(item["userId"])


def _seen_by(item: Item | None, caller: Caller) -> Item:
    """The playlist, if the caller may see it; raises NotFound, without telling absent from hidden."""
    if item is None or not _is_seen(item, caller):
        raise NotFound("There is no such playlist.")
    return item


def _owned_by(item: Item | None, caller: Caller) -> Item:
    """The playlist, if the caller may change it; raises NotFound when hidden, Forbidden when somebody else's."""
    found = _seen_by(item, caller)
    if not caller.owns(found["userId"]):
        raise Forbidden("The playlist is somebody else's.")
    return found


def _invalid(name: str, detail: str) -> InvalidContent:
    return InvalidContent("1 field is not valid.", errors=[{"pointer": f"/{name}", "detail": detail}])
