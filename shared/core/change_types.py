"""What can happen to things, in the words of the audit trail, of the feed and of webhooks."""

from collections.abc import Mapping

JOB_STATES = ("queued", "done", "failed", "withdrawn")
"""What is told of a job's life. That it runs is not: heartbeats say so."""
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
"""By kind of thing."""
TYPES = tuple(f"{entity}.{action}" for entity, actions in ACTIONS.items() for action in actions)
"""The types of changes."""
GROUPS = tuple(f"{entity}.*" for entity in ACTIONS)
"""All types of one kind of thing, as they are asked for."""
