"""Access patterns of background work (totals, entries, schedules) and of the health check."""

from local.access_patterns.pattern import AccessPattern
from shared.schema import (
    CREDIT,
    DUE,
    EPISODE,
    HEALTH,
    MARKER,
    PROCESSED_PAGE,
    PROFILE,
    RATING_TOTALS,
    RELATION_INDEX,
    SCHEDULED,
    SHARDS,
    TAG,
    TAG_COUNT,
    TAGS,
    TOP,
    VIDEO,
    VIEW_COUNTER,
    VIEW_DAY,
    VIEW_HOUR,
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
        "How much does a user have?",
        "GET /v1/users/{userId}",
        ("GetItem",),
        None,
        f"pk = {PROFILE.pk}, sk = {PROFILE.sk}",
        "0.5 RRU",
    ),
    AccessPattern(
        "Move totals to a video's present state",
        "the stream: aggregates",
        ("BatchGetItem", "TransactWriteItems", "BatchGetItem"),
        None,
        f"the video and pk = {MARKER.pk}, sk = {MARKER.sk}; then the marker if it is as read, with ADD on "
        f"pk = {PROFILE.pk}, sk = {PROFILE.sk} and pk = {TAG_COUNT.pk}, sk = {TAG_COUNT.sk}; the video again, as it may "
        "have changed meanwhile",
        "3 RRU, 4 WRU, 1 more for a new video's place in the index, and 4 for each tag that comes or goes; less for videos "
        "that come together",
        beyond="One transaction, so that a marker and the totals agree and nothing counts twice; the video is read again, as it may have changed meanwhile.",
    ),
    AccessPattern(
        "Move a video's entries to where its present state has them",
        "the stream: aggregates (entries)",
        ("GetItem", "Query", "Query", "TransactWriteItems"),
        None,
        f"the video; pk = {VIDEO.pk}, sk from {TAG.sk.partition('{')[0]}, and from {CREDIT.sk.partition('{')[0]} to {EPISODE.sk}; "
        "then those that stand elsewhere, with a check of the video",
        "3 RRU, and 1 per 4 KB of entries; 10 WRU to move four of them with a check of the video, and the indexes",
        beyond="The transaction checks the video, so that no entry moves to where an earlier state had it; the reads compare all entries with it.",
    ),
)

TALLIES = (
    AccessPattern(
        "Add what the stream counted",
        "the stream: tallies",
        ("GetItem", "UpdateItem"),
        None,
        f"pk = {VIEW_COUNTER.pk}, sk = {VIEW_COUNTER.sk}, shard 0, or pk = {RATING_TOTALS.pk}, sk = {RATING_TOTALS.sk}: which changes it has "
        f"counted; then ADD, if it is as read. Older changes: pk = {PROCESSED_PAGE.pk}, sk = {PROCESSED_PAGE.sk}",
        "1 RRU and 1 WRU for up to 32 views or ratings of a video; 1 WRU more for each 32 beyond 40 in 25 hours",
        beyond="The read says which changes were counted, so that each counts once without a transaction.",
    ),
    AccessPattern(
        "Keep what a counter had when an hour began",
        "the stream: tallies (hours)",
        ("GetItem", "PutItem", "PutItem"),
        None,
        f"the video; pk = {VIEW_HOUR.pk}, sk = {VIEW_HOUR.sk}, and of a new day sk = {VIEW_DAY.sk}, if there is none yet",
        "1 RRU and 2 WRU (the item and its place in the index) for each hour in which a video is viewed, 2 WRU more for each day",
        beyond="The read says whether the video is still there, and its category; an hour and a day are found by different keys.",
    ),
)

UPKEEP = (
    AccessPattern(
        "Jobs whose time is up, videos that enter or leave the lists, and webhooks that are due",
        "every minute: the sweeper",
        ("Query",) * (3 + SHARDS),
        RELATION_INDEX,
        f"rel = {job_relation('running')}, and rel = {job_relation('queued')}; relShard = 0: those that are due, and up to "
        f"1,000 others, whose number and age are measured; rel = {SCHEDULED}, relShard = 0..{SHARDS - 1} merged, relSort up to "
        f"90 seconds ahead; rel = {DUE}, relShard = 0, relSort up to now",
        "3.5 RRU when there are none: 151,200 a month; 0.5 RRU per 4 KB of them",
        beyond="Two states of jobs, webhooks that are due, and schedules in four partitions: one Query each.",
    ),
    AccessPattern(
        "Which videos were viewed in these hours or days, and how often?",
        "every five minutes: the rankings",
        ("Query",) * (2 * 24 * SHARDS) + ("BatchGetItem", "GetItem", "GetItem", "GetItem"),
        RELATION_INDEX,
        f"rel = {viewed_relation('{hour}')} of 48 hours, relShard = 0..{SHARDS - 1}; the counters of the videos that were viewed in 24; the "
        f"lists, pk = {TOP.pk}, sk = {TOP.sk}. Once an hour the same with {2 * 30} days",
        "97.5 RRU when nothing was viewed, 0.5 RRU per 4 KB of entries, 0.5 for each counter, 1.5 for each list; a list that "
        "changed is written, up to 11 KB",
        beyond="The views of a window are a difference of counts, so each view costs nothing here, and each video that was viewed one read.",
    ),
    AccessPattern("Does the table answer?", "GET /health", ("GetItem",), None, f"pk = {HEALTH.pk} (absent)", "0.5 RRU"),
)
