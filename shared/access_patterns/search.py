"""Access patterns of the search index."""

from shared.access_patterns.pattern import AccessPattern
from shared.schema import CHANGES, INDEX, RELATION_INDEX, RELEASE, SHARDS, VIDEO

_ITEM = f"pk = {INDEX.pk}, sk = {INDEX.sk}"

SEARCH = (
    AccessPattern(
        "Which videos have changed since the search index was published?",
        "every minute: the search index",
        ("UpdateItem", "GetItem") + ("Query",) * SHARDS + ("UpdateItem",),
        None,
        f"{_ITEM}, if nobody has the lease, and what it says then; pk = {CHANGES.pk} of each of the four, in the table `VideoAudit`, sk from the block that was read last; "
        "the item again, which ends the lease; once more before that when there is something to publish",
        "3 RRU, 0.5 RRU per 4 KB of changes, 2 WRU: 129,600 and 86,400 a month; 1 WRU more to publish",
        beyond="The lease keeps a second builder away; all changes of one moment stand in four partitions.",
    ),
    AccessPattern(
        "By what is a video found?",
        "every minute: the search index (a video)",
        ("Query",),
        None,
        f"pk = {VIDEO.pk}, sk from {VIDEO.sk} to the last {RELEASE.sk}, consistent; GetObject of each of its captions",
        "1 RRU per 4 KB of the video and of what lies beside it; 1 GetObject for each language",
        beyond="Consistent, because the feed names a change once.",
    ),
    AccessPattern(
        "Which videos are there, to index all of them anew?",
        "every minute: the search index (anew)",
        ("Query",),
        RELATION_INDEX,
        f"rel = FEED, and STATUS#... of each status but `deleted`; relShard = 0..{SHARDS - 1}; 100 videos at a time",
        "0.5 RRU per 4 KB of entries, some 20 videos",
    ),
)
"""What `indexer` reads and writes, and `python -m tools index`."""
