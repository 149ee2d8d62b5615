"""Access patterns of the feed, in the table `VideoAudit`."""

from local.access_patterns.pattern import FOUR_PARTITIONS, AccessPattern
from shared.schema import AUDIT, CHANGES, OWNER_CHANGES, TAIL

_ALL = f"pk = {CHANGES.pk} of each of the four"
_OWN = f"pk = {OWNER_CHANGES.pk}"

FEED = (
    AccessPattern(
        "What has changed since?",
        "GET /v1/changes",
        ("Query",) * 4,
        None,
        f"{_ALL}, sk from the block that was read last",
        "2 RRU, and 0.5 RRU per 4 KB of changes",
        beyond="All changes of one moment stand in four partitions, so that four times as many can be written.",
    ),
    AccessPattern(
        "What has changed of a user's things since?",
        "GET /v1/changes?userId=u",
        ("Query",),
        None,
        f"{_OWN}, sk from the block that was read last",
        "0.5 RRU per 4 KB of changes",
    ),
    AccessPattern(
        "From where on are changes new?",
        "GET /v1/changes?after=now",
        ("GetItem",) * 4,
        None,
        f"{_ALL}, sk = {TAIL}, consistent; with userId that of one log",
        "4 RRU; 1 RRU with userId",
        beyond=f"{FOUR_PARTITIONS} Consistent, so that who takes a cursor and then an export misses nothing between them.",
    ),
    AccessPattern(
        "Keep what happened, and tell of it",
        "the stream: the audit trail",
        ("GetItem", "GetItem", "PutItem", "PutItem", "PutItem"),
        None,
        f"sk = {TAIL} of pk = {CHANGES.pk} and {_OWN}, when an instance meets them first; pk = {AUDIT.pk}, if absent; both tails, if they "
        "are as read",
        "2 RRU, 3 WRU: the entry, whose size counts, and once in a batch the two tails, and what leaves them",
        beyond="Each change stands in the log of all and in that of its owner, who may not see the other one. What is behind a known tail "
        "is where a change would be that somebody else appended.",
    ),
)
"""Reads and writes of the logs, by `history` and `audit`."""
