"""Access rules of videos: who may read and who may change a video."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from shared.core.attributes import Value
from shared.core.caller import Caller
from shared.core.errors import Forbidden, NotFound
from shared.schema import TTL_ATTRIBUTE

if TYPE_CHECKING:
    from shared.entities import AnyVideo, Video

STRANGER = Caller("", frozenset())
"""Caller without a subject or scopes, who sees only published videos."""


def is_purged(item: Mapping[str, Value], now: int) -> bool:
    """Return whether the TTL of an item has passed. DynamoDB deletes such an item hours or days later."""
    return TTL_ATTRIBUTE in item and bool(item[TTL_ATTRIBUTE] <= now)


def is_published(item: "AnyVideo", now: int) -> bool:
    """Return whether the video is ready, public and in its publication period at `now` (epoch seconds). Every caller
    may see such a video."""
    is_open = item["status"] == "ready" and item["visibility"] == "public"
    return bool(is_open and item.get("publishAt", 0) <= now < item.get("expiresAt", now + 1))


def is_visible(item: "AnyVideo", caller: Caller, now: int) -> bool:
    """Return whether the caller may see the video at `now`, in epoch seconds."""
    return not is_purged(item, now) and (caller.owns(item["userId"]) or is_published(item, now))


def is_shown(item: "AnyVideo", caller: Caller, now: int) -> bool:
    """Return whether lists may show the video to the caller. A deleted video is readable only by its id."""
    return item["status"] != "deleted" and is_visible(item, caller, now)


def require_visible(item: "AnyVideo | None", caller: Caller, now: int) -> "Video":
    """Return the item if the caller may see it.

    Raises NotFound with the same message for absent and hidden videos.
    """
    if item is None or not is_visible(item, caller, now):
        raise not_found()
    return cast("Video", item)


def not_found() -> NotFound:
    """Return the error for a video that does not exist, or that is hidden from the caller."""
    return NotFound.of("video")


def require_owned(item: "AnyVideo | None", caller: Caller, now: int) -> "Video":
    """Return the item if the caller may change it.

    Raises NotFound if the video is hidden from the caller, and Forbidden if another user owns it.
    """
    video = require_visible(item, caller, now)
    if not caller.owns(video["userId"]):
        raise Forbidden.owned("video")
    return video
