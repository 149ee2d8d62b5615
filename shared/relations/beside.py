"""What lies beside a video and is its owner's to write, such as a credit: one item each, read and written on conditions."""

from collections.abc import Callable

from shared.aws.dynamodb import Key, Table
from shared.aws.expressions import change_between
from shared.aws.records import new_write_id, retry_on_conflict, unchanged, write_once
from shared.core.attributes import Item, without
from shared.core.caller import UPDATED_FOR, Caller
from shared.core.errors import IllegalTransition, NotFound, VersionMismatch
from shared.schema import VIDEO
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import owned_by, seen_by

OWNER = "owner"
"""Attribute: whose video it is."""
REMOVING = "removing"
"""Attribute of one that is removed next: a removal itself says neither who asked for it nor for which request."""
_STAMPS = ("version", "schemaVersion", "updatedAt", "updatedBy", UPDATED_FOR, "writeId", OWNER)

Allows = Callable[[Item | None], bool]
"""The caller's own condition (If-Match, If-None-Match) on what is there; None: there is nothing."""


class BesideStore:
    """Items beside videos. Methods raise the errors of shared.core.errors."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def _own(self, key: Key, video_id: str, caller: Caller, now: int) -> tuple[Item, Item | None]:
        """A video whose relations the caller may write, and the one of them that has this key."""
        item, present = self.table.get_all([VIDEO.key(videoId=video_id), key], consistent=True)
        video = owned_by(item, caller, now)
        _require_there(video)
        return video, present

    def _seen(self, key: Key, video_id: str, caller: Caller, now: int, absent: str) -> Item:
        """What has this key beside a video; raises NotFound when the caller may not see that, or there is nothing."""
        video, present = self.table.get_all([VIDEO.key(videoId=video_id), key])
        seen_by(video, caller, now)
        if present is None:
            raise NotFound(absent)
        return present

    def _visible(self, video_id: str, caller: Caller, now: int) -> None:
        seen_by(self.table.get(VIDEO.key(videoId=video_id), attributes=VISIBILITY_ATTRIBUTES), caller, now)

    def _put(self, item: Item, present: Item | None, allows: Allows) -> tuple[Item, bool]:
        def attempt(present: Item | None) -> tuple[Item, bool]:
            require_allowed(allows, present)
            if present and _content(present) == _content(item):
                return present, False
            new = item | {"version": present["version"] + 1 if present else 1}
            write_once(self.table, [self.table.put(new, condition=unchanged(present))], new)
            return new, present is None

        return retry_on_conflict(attempt, "the video", present=present)

    def _delete(self, key: Key, video_id: str, caller: Caller, now: int, allows: Allows, absent: str) -> None:
        _, present = self._own(key, video_id, caller, now)
        if present is None:
            raise NotFound(absent)
        self._remove(key, present, caller, allows)

    def _remove(self, key: Key, present: Item, caller: Caller, allows: Allows) -> None:
        """Remove what is there, or what others make of it meanwhile; raises VersionMismatch when `allows` refuses."""

        def attempt(present: Item | None) -> None:
            if present is None:
                return  # removed concurrently, or by an attempt of ours whose response was lost
            require_allowed(allows, present)
            # First who removes it, which the stream shows with what was removed. All else stays as it was, also its time:
            # whoever finds it like this, because the next write never came, sees no other version of it.
            leaving = caller.signed(present) | {"writeId": new_write_id(), REMOVING: True}
            sign = self.table.update(key, change_between(present, leaving), condition=unchanged(present))
            write_once(self.table, [sign], leaving)
            self.table.write(self.table.remove(key, condition=unchanged(leaving)))

        retry_on_conflict(attempt, "the video", present=present)


def _require_there(video: Item) -> None:
    if video["status"] == "deleted":
        raise IllegalTransition("The video is deleted; restore it first.")


def _content(item: Item) -> Item:
    return without(item, *_STAMPS)


def require_allowed(allows: Allows, present: Item | None) -> None:
    """Raise VersionMismatch unless the caller's own condition allows a write of what is there."""
    if allows(present):
        return
    if present is None:
        raise VersionMismatch("It does not exist yet, so no If-Match fits; leave that header out to create it.")
    raise VersionMismatch(
        f'It exists, at version {present["version"]}; to change it, send its ETag, or "{present["version"]}", as If-Match.'
    )
