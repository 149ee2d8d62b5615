"""Access patterns of the search index."""

from local.access_patterns.pattern import AccessPattern
from shared.schema import CHANGES, INDEX, RELATION_INDEX, RELEASE, SHARDS, TAIL, VIDEO

_ITEM = f"pk = {INDEX.pk}, sk = {INDEX.sk}"

_LOGS = f"pk = {CHANGES.pk} of each of the four, in the table `VideoAudit`, sk from the block that was read last"
_FOLLOWED = "All changes of one moment stand in four partitions; they are looked at once in 0.3 seconds at most."

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
    AccessPattern(
        "Which videos fit these words?",
        "GET /v1/search",
        ("Query",) * SHARDS + ("BatchGetItem",),
        None,
        f"{_LOGS}; pk = {VIDEO.pk} and sk = {VIDEO.sk} of each that the index finds; what has changed is read as by the indexer",
        "2 RRU, 0.5 RRU per 4 KB of changes, 0.5 RRU per 4 KB of each video of the page",
        beyond=f"{_FOLLOWED} The table decides who may see a video, and what of it is shown.",
    ),
    AccessPattern(
        "The same, by an instance that has no index yet",
        "GET /v1/search (a new instance)",
        ("GetItem",) + ("Query",) * SHARDS + ("BatchGetItem",),
        None,
        f"{_ITEM}, consistent; then as above, and GetObject of each file of the index",
        "4 RRU with the first page; 1 GetObject for each file: some 100",
        beyond=_FOLLOWED,
    ),
    AccessPattern(
        "Which videos fit, my own changes included?",
        "GET /v1/search?consistentWith=c",
        ("GetItem",) * SHARDS + ("Query",) * SHARDS + ("BatchGetItem",),
        None,
        f"pk = {CHANGES.pk} of each of the four, sk = {TAIL}, consistent; then as above, until the index has come there, and the videos consistent",
        "8 RRU with the first page",
        beyond=f"An owner's cursor says nothing of where everybody's logs are. {_FOLLOWED}",
    ),
    AccessPattern(
        "Which videos are like this one?",
        "GET /v1/videos/{videoId}/similar",
        ("Query",) * SHARDS + ("GetItem", "BatchGetItem"),
        None,
        f"{_LOGS}; pk = {VIDEO.pk} and sk = {VIDEO.sk} of the video, then of each that is like it",
        "2 RRU, 0.5 RRU per 4 KB of changes and of each video",
        beyond=f"{_FOLLOWED} The table decides who may see a video.",
    ),
)
"""Reads of `search`, and reads and writes of `indexer` and `python -m tools index`."""
