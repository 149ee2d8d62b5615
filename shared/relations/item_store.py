"""Base store for related items of a video, such as credits, that the owner of the video writes.

Each related item is one DynamoDB item. Writes are conditional on the version that was read.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from shared.aws.dynamodb import Key, Table
from shared.aws.expressions import change_between
from shared.aws.records import new_write_id, retry_on_conflict, unchanged, write_once
from shared.core.attributes import Item, without
from shared.core.caller import UPDATED_FOR, Caller
from shared.core.errors import IllegalTransition, NotFound, VersionMismatch
from shared.schema import VIDEO
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import require_owned, require_visible

if TYPE_CHECKING:
    from shared.entities import AnyVideo, Video

OWNER = "owner"
"""Name of the attribute with the user id of the video's owner."""
REMOVING = "removing"
"""Name of the attribute that marks an item as about to be deleted.

A DeleteItem records neither the author nor the request. Therefore an update records both before the DeleteItem.
"""
_STAMPS = ("version", "schemaVersion", "updatedAt", "updatedBy", UPDATED_FOR, "writeId", OWNER)

Allows = Callable[[Item | None], bool]
"""Predicate for the caller's precondition (If-Match, If-None-Match). It receives the stored item, or `None` if the item
does not exist."""


class VideoItemStore:
    """Base class of stores of related items. Methods raise the errors of shared.core.errors."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def _read_owned(self, key: Key, video_id: str, caller: Caller, now: int) -> "tuple[Video, Item | None]":
        """Return a video, and the related item with this key (`None` if it does not exist), by a consistent read.

        Raises NotFound or Forbidden if the caller may not change the video, and IllegalTransition if the video is
        deleted.
        """
        item, present = self.table.get_all([VIDEO.key(videoId=video_id), key], consistent=True)
        video = require_owned(item, caller, now)
        _require_exists(video)
        return video, present

    def _read_visible(self, key: Key, video_id: str, caller: Caller, now: int, absent: str) -> Item:
        """Return the related item with this key.

        Raises NotFound if the caller may not see the video. If the item does not exist, raises NotFound with the
        message `absent`.
        """
        video, present = self.table.get_all([VIDEO.key(videoId=video_id), key])
        require_visible(video, caller, now)
        if present is None:
            raise NotFound(absent)
        return present

    def _require_visible(self, video_id: str, caller: Caller, now: int) -> None:
        require_visible(self.table.get(VIDEO.key(videoId=video_id), attributes=VISIBILITY_ATTRIBUTES), caller, now)

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
        _, present = self._read_owned(key, video_id, caller, now)
        if present is None:
            raise NotFound(absent)
        self._remove(key, present, caller, allows)

    def _remove(self, key: Key, present: Item, caller: Caller, allows: Allows) -> None:
        """Delete an item. `present` is the item as it was read. If another writer has changed the item since then,
        delete the changed item.

        Raises VersionMismatch if `allows` rejects the item to delete.
        """

        def attempt(present: Item | None) -> None:
            if present is None:
                return  # removed by another writer, or by an earlier attempt whose response was lost
            require_allowed(allows, present)
            # First store the author of the deletion, so that the stream record of the deletion includes it. All other
            # attributes stay, including `version` and `updatedAt`: if the deletion fails, readers see an unchanged
            # version.
            leaving = caller.signed(present) | {"writeId": new_write_id(), REMOVING: True}
            sign = self.table.update(key, change_between(present, leaving), condition=unchanged(present))
            write_once(self.table, [sign], leaving)
            self.table.write(self.table.remove(key, condition=unchanged(leaving)))

        retry_on_conflict(attempt, "the video", present=present)


def _require_exists(video: "AnyVideo") -> None:
    if video["status"] == "deleted":
        raise IllegalTransition.deleted()


def _content(item: Item) -> Item:
    return without(item, *_STAMPS)


def require_allowed(allows: Allows, present: Item | None) -> None:
    """Raise VersionMismatch if the caller's precondition does not allow a write to the stored item."""
    if allows(present):
        return
    if present is None:
        raise VersionMismatch("The resource does not exist. Omit If-Match to create it.")
    raise VersionMismatch.at("resource", present["version"])
