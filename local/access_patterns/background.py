"""Access patterns of totals, of background work, and of the health check."""

from local.access_patterns.pattern import AccessPattern
from shared.schema import (
    COMPARISON_REPORT,
    CREDIT,
    DUE,
    EPISODE,
    FOLDER_COUNT,
    HEALTH,
    INDEX,
    MARKER,
    ORDER,
    PROCESSED_PAGE,
    PROFILE,
    RATING_TOTALS,
    RELATION_INDEX,
    SCHEDULED,
    SERVICE_TOTALS,
    SHARDS,
    TAG,
    TAG_COUNT,
    TAGS,
    TOP,
    UPLOAD_HOUR,
    VIDEO,
    VIEW_COUNTER,
    VIEW_DAY,
    VIEW_HOUR,
    VIEWS_BY_HOUR,
    job_relation,
    viewed_relation,
)

TOTALS = (
    AccessPattern(
        "The most used tags",
        "GET /v1/tags",
        ("Query",),
        RELATION_INDEX,
        f"rel = {TAGS}, relShard = 0, relSort from 1, largest first",
        "0.5 RRU per 4 KB",
    ),
    AccessPattern(
        "List the outermost folders of an owner",
        "GET /v1/folders",
        ("Query",),
        None,
        f"pk = {FOLDER_COUNT.pk}, sk begins with //",
        "0.5 RRU per 4 KB",
    ),
    AccessPattern(
        "Read a folder's counts, and list its subfolders",
        "GET /v1/folders/{folder}",
        ("Query", "GetItem"),
        None,
        f"pk = {FOLDER_COUNT.pk}, sk begins with a/b//; sk = a//b",
        "0.5 RRU per 4 KB, 0.5 RRU",
    ),
    AccessPattern(
        "Read a user's totals",
        "GET /v1/users/{userId}",
        ("GetItem",),
        None,
        f"pk = {PROFILE.pk}, sk = {PROFILE.sk}",
        "0.5 RRU",
    ),
    AccessPattern(
        "Read the state of the service",
        "GET /v1/operations",
        ("Query",) * (SHARDS + 3) + ("BatchGetItem", "Query", "BatchGetItem", "GetItem", "GetItem", "GetItem"),
        RELATION_INDEX,
        f"pk = {SERVICE_TOTALS.pk}, shard 0..{SHARDS - 1}, sk from {UPLOAD_HOUR.sk} 24 hours ago to {SERVICE_TOTALS.sk}; "
        f"rel = {job_relation('queued')}, {job_relation('running')}, {job_relation('failed')} and {DUE}, at most 100 "
        f"entries each; the failed jobs and late webhooks; pk = {VIEWS_BY_HOUR.pk}, {INDEX.pk}, {COMPARISON_REPORT.pk}",
        "5.5 RRU without jobs and webhooks; 0.5 for each failed job and late webhook, 0.5 per 4 KB of entries; 18 SQS requests",
        reason="Each part is read separately, so that it can fail alone. The reads are limited, whatever the size of the catalogue.",
    ),
    AccessPattern(
        "Update totals to a video's current state",
        "the stream: aggregates",
        ("BatchGetItem", "TransactWriteItems", "BatchGetItem"),
        None,
        f"the video and pk = {MARKER.pk}, sk = {MARKER.sk}; then the marker if unchanged, with ADD on "
        f"pk = {PROFILE.pk}, sk = {PROFILE.sk}, pk = {TAG_COUNT.pk}, sk = {TAG_COUNT.sk}, pk = {FOLDER_COUNT.pk}, "
        f"sk = {FOLDER_COUNT.sk}, and pk = {SERVICE_TOTALS.pk}, sk = {SERVICE_TOTALS.sk} and {UPLOAD_HOUR.sk}; the video "
        "again, because it may have changed since",
        "3 RRU, 6 WRU, 1 more for a new video's index entry, 2 for a new source file, 4 for each added or removed tag, "
        "and 2 for each folder that contains the video; less for videos in one batch",
        reason="One transaction keeps the video's counted state and the totals consistent, so that no change counts twice. The video is read again, because it may have changed since.",
    ),
    AccessPattern(
        "Update a video's list entries to its current state",
        "the stream: aggregates (entries)",
        ("GetItem", "Query", "Query", "Query", "TransactWriteItems"),
        None,
        f"the video; pk = {ORDER.pk}; pk = {VIDEO.pk}, sk from {TAG.sk.partition('{')[0]}, and from {CREDIT.sk.partition('{')[0]} to {EPISODE.sk}; "
        "then outdated entries, with a condition on the video",
        "4 RRU, and 1 per 4 KB of entries; 10 WRU to move four of them with a condition on the video, and the indexes",
        reason="The reads compare all entries with the video. The condition on the video prevents an entry from moving to the position of an earlier state.",
    ),
)

TALLIES = (
    AccessPattern(
        "Add views and ratings that the stream counted",
        "the stream: tallies",
        ("GetItem", "UpdateItem"),
        None,
        f"pk = {VIEW_COUNTER.pk}, sk = {VIEW_COUNTER.sk}, shard 0, or pk = {RATING_TOTALS.pk}, sk = {RATING_TOTALS.sk}, with the processed ids; then "
        f"ADD if unchanged. Older changes: pk = {PROCESSED_PAGE.pk}, sk = {PROCESSED_PAGE.sk}",
        "1 RRU and 1 WRU for up to 32 views or ratings of a video; 1 WRU more for each 32 beyond 40 in 25 hours",
        reason="The read returns the processed ids, so that each change counts once without a transaction.",
    ),
    AccessPattern(
        "Add ratings that the stream counted, and move the video in lists by rating",
        "the stream: tallies (ratings)",
        ("GetItem", "UpdateItem", "BatchGetItem", "UpdateItem"),
        None,
        f"pk = {RATING_TOTALS.pk}, sk = {RATING_TOTALS.sk}, as above; the new totals with pk = {ORDER.pk}, sk = rating, which "
        "changes with the average",
        "3 RRU and 2 WRU; 4 WRU more for the index entries of the owner's and the category's list",
        reason="A repeated message must also repeat the last write, so the totals are read again. The first read returns the processed ids.",
    ),
    AccessPattern(
        "Store the value of a counter at the start of an hour",
        "the stream: tallies (hours)",
        ("GetItem", "PutItem", "PutItem"),
        None,
        f"the video; pk = {VIEW_HOUR.pk}, sk = {VIEW_HOUR.sk}, and for a new day sk = {VIEW_DAY.sk}, if absent",
        "1 RRU and 2 WRU (the item and its index entry) for each hour in which a video is viewed, 2 WRU more for each day",
        reason="The read checks that the video exists, and returns its category. The counts of an hour and of a day are separate items, so they take two writes.",
    ),
)

UPKEEP = (
    AccessPattern(
        "Find overdue jobs, videos whose publication starts or ends, and due webhooks",
        "every minute: the sweeper",
        ("Query",) * (3 + SHARDS),
        RELATION_INDEX,
        f"rel = {job_relation('running')}, and rel = {job_relation('queued')}; relShard = 0: overdue jobs, and up to "
        f"1,000 others for metrics of number and age; rel = {SCHEDULED}, relShard = 0..{SHARDS - 1} merged, relSort up to "
        f"90 seconds ahead; rel = {DUE}, relShard = 0, relSort up to now",
        "3.5 RRU without results: 151,200 a month; 0.5 RRU per 4 KB of results",
        reason="One Query for each of two job states, due webhooks, and the four partitions of schedules.",
    ),
    AccessPattern(
        "Rank the videos by their views in recent hours or days",
        "every five minutes: the rankings",
        ("Query",) * (2 * 24 * SHARDS) + ("BatchGetItem", "GetItem", "GetItem", "GetItem", "PutItem", "GetItem"),
        RELATION_INDEX,
        f"rel = {viewed_relation('{hour}')} of 48 hours, relShard = 0..{SHARDS - 1}; the counters of the videos viewed in 24 hours; the  "
        f"lists, pk = {TOP.pk}, sk = {TOP.sk}. Once an hour, the same for {2 * 30} days",
        "98 RRU without views, 0.5 RRU per 4 KB of entries, 0.5 for each counter, 1.5 for each list; 1 WRU for the "
        "views by hour; a list that changed is written, up to 11 KB",
        reason="The views in a window are the difference of two counts, so the cost is one read for each viewed video, whatever its number of views.",
    ),
    AccessPattern(
        "Move a video in lists by views after an hour with views",
        "every hour: the lists by views (a video)",
        ("UpdateItem",),
        None,
        f"pk = {ORDER.pk}, sk = viewCount, if the count changed",
        "1 WRU, and 4 for the index entries of the owner's and the category's list",
    ),
    AccessPattern(
        "Check that the table responds", "GET /health", ("GetItem",), None, f"pk = {HEALTH.pk} (absent)", "0.5 RRU"
    ),
)
