"""Access patterns of the search index."""

from local.access_patterns.pattern import AccessPattern
from shared.schema import CHANGES, INDEX, RELATION_INDEX, RELEASE, SHARDS, TAIL, VIDEO

_ITEM = f"pk = {INDEX.pk}, sk = {INDEX.sk}"

_LOGS = f"pk = {CHANGES.pk} of each of the four, in the table `VideoAudit`, sk from the last block read"
_LATEST = "Changes are spread over four partitions, each read at most once in 0.3 seconds."

SEARCH = (
    AccessPattern(
        "Update the search index with the latest changes",
        "every minute: the search index",
        ("UpdateItem", "GetItem") + ("Query",) * SHARDS + ("UpdateItem",),
        None,
        f"{_ITEM}, if its lease is free, and its content; pk = {CHANGES.pk} of each of the four, in the table `VideoAudit`, sk from the last block read; "
        "then the item again, to publish an index if one was built, and to release the lease",
        "3 RRU, 0.5 RRU per 4 KB of changes, 2 WRU: 129,600 and 86,400 a month; 1 WRU more to publish",
        reason="The lease excludes a second builder. Changes are spread over four partitions.",
    ),
    AccessPattern(
        "Read a video to index it",
        "every minute: the search index (a video)",
        ("Query",),
        None,
        f"pk = {VIDEO.pk}, sk from {VIDEO.sk} to the last {RELEASE.sk}, consistent; GetObject of each of its captions",
        "1 RRU per 4 KB of the video and its child items; 1 GetObject for each language",
        reason="The read is consistent, because the feed does not repeat a change that the read missed.",
    ),
    AccessPattern(
        "List all videos to rebuild the index",
        "every minute: the search index (rebuild)",
        ("Query",),
        RELATION_INDEX,
        f"rel = FEED, and STATUS#... of each status except `deleted`; relShard = 0..{SHARDS - 1}; 100 videos at a time",
        "0.5 RRU per 4 KB of entries, about 20 videos",
    ),
    AccessPattern(
        "Search videos",
        "GET /v1/search",
        ("Query",) * SHARDS + ("BatchGetItem",),
        None,
        f"{_LOGS}; pk = {VIDEO.pk} and sk = {VIDEO.sk} of each hit; changed videos are read as by the indexer",
        "2 RRU, 0.5 RRU per 4 KB of changes, 0.5 RRU per 4 KB of each video of the page",
        reason=f"{_LATEST} The videos are read from the table, to check whether the caller may see them, and to return their current fields.",
    ),
    AccessPattern(
        "Search videos, by an instance without an index",
        "GET /v1/search (a new instance)",
        ("GetItem",) + ("Query",) * SHARDS + ("BatchGetItem",),
        None,
        f"{_ITEM}, consistent; then as above, and GetObject of each file of the index",
        "4 RRU with the first page; 1 GetObject for each file: about 100",
        reason=_LATEST,
    ),
    AccessPattern(
        "Search videos, consistent with a cursor of changes",
        "GET /v1/search?consistentWith=c",
        ("GetItem",) * SHARDS + ("Query",) * SHARDS + ("BatchGetItem",),
        None,
        f"pk = {CHANGES.pk} of each of the four, sk = {TAIL}, consistent; then as above, until the index has consumed these changes, and the videos consistently",
        "8 RRU with the first page",
        reason=f"An owner's cursor has no position in the logs of all changes. {_LATEST}",
    ),
    AccessPattern(
        "Find similar videos",
        "GET /v1/videos/{videoId}/similar",
        ("Query",) * SHARDS + ("GetItem", "BatchGetItem"),
        None,
        f"{_LOGS}; pk = {VIDEO.pk} and sk = {VIDEO.sk} of the video, then of each similar video",
        "2 RRU, 0.5 RRU per 4 KB of changes and of each video",
        reason=f"{_LATEST} The videos are read from the table, to check whether the caller may see them.",
    ),
)
"""Access patterns of the search index: reads by the function `search`, and reads and writes by the indexer and by
`python -m tools index`."""
