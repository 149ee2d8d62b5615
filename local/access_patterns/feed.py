"""Access patterns of the feed, in the table `VideoAudit`."""

from local.access_patterns.pattern import FOUR_PARTITIONS, AccessPattern
from shared.schema import AUDIT, CHANGES, OWNER_CHANGES, TAIL

_ALL = f"pk = {CHANGES.pk} of each of the four"
_OWN = f"pk = {OWNER_CHANGES.pk}"

FEED = (
    AccessPattern(
        "List changes since a cursor",
        "GET /v1/changes",
        ("Query",) * 4,
        None,
        f"{_ALL}, sk from the last block read",
        "2 RRU, and 0.5 RRU per 4 KB of changes",
        reason="Changes are spread over four partitions, which accept four times the writes of one.",
    ),
    AccessPattern(
        "List changes of one owner since a cursor",
        "GET /v1/changes?userId=u",
        ("Query",),
        None,
        f"{_OWN}, sk from the last block read",
        "0.5 RRU per 4 KB of changes",
    ),
    AccessPattern(
        "Get a cursor at the end of the feed",
        "GET /v1/changes?after=now",
        ("GetItem",) * 4,
        None,
        f"{_ALL}, sk = {TAIL}, consistent; with userId only one log",
        "4 RRU; 1 RRU with userId",
        reason=f"{FOUR_PARTITIONS} The reads are consistent, so that a client that takes a cursor and then an export misses no change.",
    ),
    AccessPattern(
        "Record changes in the audit trail and the feed",
        "the stream: the audit trail",
        ("GetItem", "GetItem", "PutItem", "PutItem", "PutItem"),
        None,
        f"sk = {TAIL} of pk = {CHANGES.pk} and {_OWN}, at an instance's first use; pk = {AUDIT.pk}, if absent; both tails, if "
        "unchanged",
        "2 RRU, 3 WRU: the entry, and once in a batch the two tails; more for a large entry, and for blocks that the tails fill",
        reason="Each change is in a log of all changes and in its owner's log, because owners may read only their own logs. The tails are "
        "read to find out whether another instance has already appended a change.",
    ),
)
"""Access patterns of the feed: reads by the function `history`, and writes by the function `audit`."""
