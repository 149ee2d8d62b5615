"""Who may see a video, and who may change it."""

from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import Forbidden, NotFound
from shared.schema import TTL_ATTRIBUTE

STRANGER = Caller("", frozenset())
"""Somebody who owns nothing: what this caller sees is published."""


def is_purged(item: Item, now: int) -> bool:
    """Whether the item only waits for DynamoDB to remove it, which takes hours or days."""
    return TTL_ATTRIBUTE in item and bool(item[TTL_ATTRIBUTE] <= now)


def is_published(item: Item, now: int) -> bool:
    """Whether everybody may see the video at this second."""
    is_open = item["status"] == "ready" and item["visibility"] == "public"
    return bool(is_open and item.get("publishAt", 0) <= now < item.get("expiresAt", now + 1))


def is_seen(item: Item, caller: Caller, now: int) -> bool:
    """Whether the caller may see the video at this second."""
    return not is_purged(item, now) and (caller.owns(item["userId"]) or is_published(item, now))


def is_shown(item: Item, caller: Caller, now: int) -> bool:
    """Whether a list that leads to the video shows it: deleted ones are shown by their id alone."""
    return item["status"] != "deleted" and is_seen(item, caller, now)


def seen_by(item: Item | None, caller: Caller, now: int) -> Item:
    """The item, if the caller may see it; raises NotFound, alike for absent and hidden videos."""
    if item is None or not is_seen(item, caller, now):
        raise NotFound("There is no such video.")
    return item


def owned_by(item: Item | None, caller: Caller, now: int) -> Item:
    """The item, if the caller may change it; raises NotFound when hidden, Forbidden when somebody else's."""
    video = seen_by(item, caller, now)
    if not caller.owns(video["userId"]):
        raise Forbidden("The video is somebody else's.")
    return video
