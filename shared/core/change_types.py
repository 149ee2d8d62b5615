"""Types of changes, shared by the audit trail, the feed and webhooks."""

from collections.abc import Mapping

JOB_STATES = ("queued", "done", "failed", "withdrawn")
"""Job states that are published as changes. `running` is excluded, because every heartbeat would publish a change."""
_CHANGED = ("created", "changed")
_LIVES = (*_CHANGED, "deleted", "restored", "expired", "removed")
ACTIONS: Mapping[str, tuple[str, ...]] = {
    "video": _LIVES,
    "credit": (*_CHANGED, "removed"),
    "release": (*_CHANGED, "removed"),
    "captions": (*_CHANGED, "removed"),
    "chapters": (*_CHANGED, "removed"),
    "rating": (*_CHANGED, "removed"),
    "playlist": _LIVES,
    "job": JOB_STATES,
}
"""Actions that are published as changes, by entity."""
TYPES = tuple(f"{entity}.{action}" for entity, actions in ACTIONS.items() for action in actions)
"""All types of changes, such as `video.created`."""
GROUPS = tuple(f"{entity}.*" for entity in ACTIONS)
"""Wildcards for all types of an entity, such as `video.*`."""
