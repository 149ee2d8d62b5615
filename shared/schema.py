"""The table: entities, keys, indexes and access patterns. Everything that names a key reads it from here.

CDK builds the table from this module, the stores compute their keys with it, and the README's tables are
generated from it (`python -m local.readme`), so the three cannot disagree.

An index's keys and projection are fixed when it is made, so all three indexes are complete from the start.
They use multi-attribute keys, so that ties have an order and no key string is glued together:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.DesignPattern.MultiAttributeKeys.html
"""

from dataclasses import dataclass
from typing import Literal
from zlib import crc32

TABLE_NAME = "VideoMetadata"
AUDIT_TABLE_NAME = "VideoAudit"
"""A table of its own: append-only, with its own retention, and out of reach of whoever writes videos."""
SCHEMA_VERSION = 3
"""Of the items. Version 1 had no tag entries. In version 2 the entries of hidden videos stood in the index as well, and
`FEED` held videos before their publishAt and after their expiresAt."""

PARTITION_KEY = "pk"
SORT_KEY = "sk"
TTL_ATTRIBUTE = "purgeAt"
"""Epoch seconds after which DynamoDB may remove an item. Users set `expiresAt`; this one is internal."""

SHARDS = 4
"""Partitions that one category, status or feed is spread over. Frozen: it is part of the stored keys."""


VIEW_SHARDS = 1
"""Partitions that one video's counter has."""


@dataclass(frozen=True)
class Attribute:
    """A key attribute: its name and DynamoDB type."""

    name: str
    type: Literal["S", "N"] = "S"


@dataclass(frozen=True)
class Index:
    """A global secondary index; partition and sort keys may have several attributes."""

    name: str
    partition: tuple[Attribute, ...]
    sort: tuple[Attribute, Attribute]
    """A number to sort by and an id that orders ties."""
    answers: str


@dataclass(frozen=True)
class Entity:
    """How one kind of item is keyed: templates such as `VIDEO#{videoId}`."""

    name: str
    pk: str
    sk: str

    def key(self, **parts: str | int) -> dict[str, str]:
        """The primary key of one item, `{"pk": ..., "sk": ...}`; raises KeyError when a part is missing."""
        safe = {name: _escape(str(value)) for name, value in parts.items()}
        return {PARTITION_KEY: self.pk.format(**safe), SORT_KEY: self.sk.format(**safe)}

    @property
    def partition_prefix(self) -> str:
        """The constant start of the partition key, for a role's leading-key condition."""
        return self.pk.partition("{")[0]


def _escape(part: str) -> str:
    """Keep `#` out of the parts of a key, so that no two different keys can be spelled alike."""
    return part.replace("%", "%25").replace("#", "%23")


VIDEO = Entity("Video", "VIDEO#{videoId}", "#META")
VIEW_COUNTER = Entity("View counter", "VIEWS#{videoId}#{shard}", "COUNT")
VIEW_ID = Entity("Counted view", "VIEWID#{subject}#{id}", "COUNTED")
IDEMPOTENCY = Entity("Idempotency key", "IDEMPOTENCY#{subject}#{operation}#{key}", "#KEY")
UPLOAD = Entity("Upload", "VIDEO#{videoId}", "UPLOAD#{uploadId}")
JOB = Entity("Job", "VIDEO#{videoId}", "JOB#{kind}")
RATING_TOTALS = Entity("Rating totals", "VIDEO#{videoId}", "#RATING")
MARKER = Entity("What totals have counted of a video", "VIDEO#{videoId}", "AGG")
CREDIT = Entity("Credit", "VIDEO#{videoId}", "CREDIT#{personId}")
RELEASE = Entity("Release", "VIDEO#{videoId}", "RELEASE#{region}#{language}")
TAG = Entity("Tag of a listed video", "VIDEO#{videoId}", "TAG#{tag}")
SCHEDULE = Entity("When a video's place in the lists changes", "VIDEO#{videoId}", "SCHEDULE")
RATING = Entity("Rating", "USER#{userId}", "RATING#{videoId}")
PROFILE = Entity("Totals of a user", "USER#{userId}", "#PROFILE")
PLAYLIST = Entity("Playlist", "PLAYLIST#{playlistId}", "#META")
ENTRY = Entity("Entry of a playlist, in order", "PLAYLIST#{playlistId}", "ENTRY#{rank}#{videoId}")
MEMBERSHIP = Entity("Membership of a playlist", "PLAYLIST#{playlistId}", "HAS#{videoId}")
TAG_COUNT = Entity("How often a tag is used", "TAGCOUNT#{tag}", "#COUNT")
QUOTA = Entity("Jobs of an owner on one day", "USER#{userId}", "QUOTA#{date}")
IMPORT = Entity("How far an import is", "IMPORT#{importId}", "#MARK")
SHARE = Entity("Jobs of an owner that are with the workers", "SHARE#{userId}", "SENT#{queue}")
WAITING = Entity("Job that waits for its owner's share", "SHARE#{userId}", "WAITS#{queue}#{queuedAt}#{videoId}#{kind}")
HEALTH = Entity("Health probe (never written)", "HEALTH", "HEALTH")
ENTITIES = (
    VIDEO,
    UPLOAD,
    JOB,
    CREDIT,
    RELEASE,
    TAG,
    SCHEDULE,
    RATING_TOTALS,
    MARKER,
    RATING,
    PROFILE,
    QUOTA,
    SHARE,
    WAITING,
    PLAYLIST,
    ENTRY,
    MEMBERSHIP,
    TAG_COUNT,
    VIEW_COUNTER,
    VIEW_ID,
    IDEMPOTENCY,
    IMPORT,
    HEALTH,
)
AUDIT = Entity("Audit entry, in the table `VideoAudit`", "VIDEO#{videoId}", "{at}#{sequence}")
AUDIT_ENTITIES = (AUDIT,)

USER_INDEX = Index(
    "UserIdIndex",
    partition=(Attribute("userId"),),
    sort=(Attribute("createdAt", "N"), Attribute("videoId")),
    answers="one owner's videos by time",
)
CATEGORY_INDEX = Index(
    "CategoryIndex",
    partition=(Attribute("category"), Attribute("categoryShard", "N")),
    sort=(Attribute("createdAt", "N"), Attribute("videoId")),
    answers="one category's published videos by time; sparse: `categoryShard` is set only while the video is listed",
)
RELATION_INDEX = Index(
    "RelationIndex",
    partition=(Attribute("rel"), Attribute("relShard", "N")),
    sort=(Attribute("relSort", "N"), Attribute("relId")),
    answers="the feed, each status, tag and region by time, a person's videos by year, playlists by owner and by video, "
    "ratings of a video, tags by use, what was counted of a user's videos, jobs by when they are due; overloaded, so that "
    "new relations need no new index",
)
INDEXES = (USER_INDEX, CATEGORY_INDEX, RELATION_INDEX)

PROJECTION = (
    "title",
    "status",
    "visibility",
    "publishAt",
    "expiresAt",
    "purgeAt",
    "duration",
    "format",
    "category",
    "userId",
    "poster",
    "createdAt",
    "videoId",
)
"""What listings show and filter by. Not `version`, `updatedAt` or `description`: with those, every PATCH would pay for all indexes."""

FEED = "FEED"
"""`rel` of a video while it is listed: ready and public, after its publishAt and before its expiresAt."""

SCHEDULED = "SCHEDULED"
"""`rel` of a schedule, sharded; `relSort` is the next publishAt or expiresAt at which the video enters or leaves the lists."""


def status_relation(status: str) -> str:
    """`rel` of a video that is not listed."""
    return f"STATUS#{status}"


def job_relation(state: str) -> str:
    """`rel` of a job that is not done; its `relSort` is the time at which the sweeper looks at it."""
    return f"JOB#{state}"


def person_relation(person_id: str) -> str:
    """`rel` of a credit while its video is listed; its `relSort` is the release year, or 0 without one, its `relId` the videoId."""
    return f"PERSON#{person_id}"


def region_relation(region: str) -> str:
    """`rel` of a release while its video is listed, sharded; `relSort` is the video's createdAt, `relId` the videoId, `#`
    and the language."""
    return f"REGION#{region}"


def tag_relation(tag: str) -> str:
    """`rel` of a tag entry, sharded, of a folded tag (shared/tags.py); `relSort` is the video's createdAt."""
    return f"TAG#{tag}"


def rated_relation(video_id: str) -> str:
    """`rel` of a rating; its `relSort` is the time at which it was given, its `relId` the userId."""
    return f"RATED#{video_id}"


def playlists_relation(user_id: str) -> str:
    """`rel` of a user's playlists; their `relSort` is their createdAt, their `relId` the playlistId."""
    return f"PLAYLISTS#{user_id}"


def in_playlist_relation(video_id: str) -> str:
    """`rel` of a video's memberships; `relSort` is the time at which it was added, `relId` the playlistId."""
    return f"INPLAYLIST#{video_id}"


def counted_relation(user_id: str) -> str:
    """`rel` of the markers of what a user's totals have counted, sharded, also of videos that are gone; `relSort` is 0.

    Nothing else of a marker is projected, so that only a video that comes or goes writes to the index.
    """
    return f"COUNTED#{user_id}"


TAGS = "TAGS"
"""`rel` of the tag counts; `relSort` is the count, `relId` the folded tag."""

USERS = "USERS"
"""`rel` of the totals of users; `relSort` is 0, `relId` the userId. Nothing that changes is projected, so that only
a new user writes to the index."""


def shard_of(video_id: str) -> int:
    """Which of the SHARDS partitions holds a video: 0 to 3."""
    return crc32(video_id.encode()) % SHARDS


@dataclass(frozen=True)
class AccessPattern:
    """One question that clients ask and the one way in which DynamoDB answers it."""

    question: str
    request: str
    operations: tuple[str, ...]
    """The DynamoDB operations of one request on its normal path, in order; a test asserts exactly these."""
    index: Index | None
    key: str
    cost: str
    """Units on demand for small items (reads up to 4 KB, writes up to 1 KB)."""


ACCESS_PATTERNS = (
    AccessPattern(
        "Create a video",
        "POST /v1/videos",
        ("PutItem",),
        None,
        f"pk = {VIDEO.pk}, sk = {VIDEO.sk}, if absent",
        "1 WRU, and 1 for each index it enters",
    ),
    AccessPattern(
        "Create a video once, however often it is retried",
        "POST /v1/videos (Idempotency-Key)",
        ("TransactWriteItems",),
        None,
        f"the video, and pk = {IDEMPOTENCY.pk}, both if absent",
        "4 WRU, and the indexes",
    ),
    AccessPattern(
        "Read a video and its view count",
        "GET /v1/videos/{videoId}",
        ("BatchGetItem",),
        None,
        f"pk = {VIDEO.pk}, sk = {VIDEO.sk}; pk = VIEWS#{{videoId}}#0, sk = {VIEW_COUNTER.sk}",
        "1 RRU (0.5 each)",
    ),
    AccessPattern(
        "Read some fields of a video",
        "GET /v1/videos/{videoId}?fields=title",
        ("GetItem",),
        None,
        f"pk = {VIDEO.pk}, sk = {VIDEO.sk}, with a projection",
        "0.5 RRU",
    ),
    AccessPattern(
        "Change a video",
        "PATCH /v1/videos/{videoId}",
        ("GetItem", "UpdateItem"),
        None,
        f"pk = {VIDEO.pk}, sk = {VIDEO.sk}, if the version is the one read",
        "1 RRU, 1 WRU; an index only when what it shows changes",
    ),
    AccessPattern(
        "Delete a video (soft)",
        "DELETE /v1/videos/{videoId}",
        ("GetItem", "UpdateItem"),
        None,
        f"pk = {VIDEO.pk}, sk = {VIDEO.sk}, if the version is the one read",
        "1 RRU, 1 WRU, and the indexes it leaves or changes",
    ),
    AccessPattern(
        "Restore a deleted video",
        "POST /v1/videos/{videoId}/restore",
        ("GetItem", "UpdateItem"),
        None,
        f"pk = {VIDEO.pk}, sk = {VIDEO.sk}, if the version is the one read",
        "1 RRU, 1 WRU, and the indexes it enters or changes",
    ),
    AccessPattern(
        "Restore a deleted video once, however often it is retried",
        "POST /v1/videos/{videoId}/restore (Idempotency-Key)",
        ("GetItem", "GetItem", "TransactWriteItems"),
        None,
        f"the video, the key's record, then both: pk = {IDEMPOTENCY.pk} if absent, the video if its version is the one read",
        "2 RRU, 4 WRU, and the indexes",
    ),
    AccessPattern(
        "One owner's videos in a time range",
        "GET /v1/videos?userId=u&from=t&to=t",
        ("Query",),
        USER_INDEX,
        "userId = u, createdAt between",
        "0.5 RRU per 4 KB examined",
    ),
    AccessPattern(
        "One's own videos with a tag, listed or not",
        "GET /v1/videos?userId=u&tag=t",
        ("Query", "BatchGetItem"),
        USER_INDEX,
        "userId = u, createdAt between; then the videos, which know their tags",
        "0.5 RRU per 4 KB examined, 0.5 RRU for each video examined",
    ),
    AccessPattern(
        "One category's published videos in a time range",
        "GET /v1/videos?category=c&from=t&to=t",
        ("Query",) * SHARDS,
        CATEGORY_INDEX,
        f"category = c, categoryShard = 0..{SHARDS - 1} merged, createdAt between",
        f"0.5 RRU per 4 KB examined, at least {SHARDS} x 0.5",
    ),
    AccessPattern(
        "The feed of published videos",
        "GET /v1/videos?from=t&to=t",
        ("Query",) * SHARDS,
        RELATION_INDEX,
        f"rel = {FEED}, relShard = 0..{SHARDS - 1} merged, relSort between",
        f"0.5 RRU per 4 KB examined, at least {SHARDS} x 0.5",
    ),
    AccessPattern(
        "Videos in one status, for admins",
        "GET /v1/videos?status=failed",
        ("Query",) * SHARDS,
        RELATION_INDEX,
        f"rel = {status_relation('{status}')}, relShard = 0..{SHARDS - 1} merged",
        f"0.5 RRU per 4 KB examined, at least {SHARDS} x 0.5",
    ),
    AccessPattern(
        "Ready videos, for admins",
        "GET /v1/videos?status=ready",
        ("Query",) * (2 * SHARDS),
        RELATION_INDEX,
        f"rel = {FEED} and rel = {status_relation('ready')} (listed or not), relShard = 0..{SHARDS - 1}, all merged",
        f"0.5 RRU per 4 KB examined, at least {2 * SHARDS} x 0.5",
    ),
    AccessPattern(
        "One tag's videos in a time range",
        "GET /v1/videos?tag=t&from=t&to=t",
        ("Query",) * SHARDS + ("BatchGetItem",),
        RELATION_INDEX,
        f"rel = {tag_relation('t')}, relShard = 0..{SHARDS - 1} merged, relSort between; then the videos",
        f"0.5 RRU per 4 KB examined, at least {SHARDS} x 0.5; 0.5 RRU for each video",
    ),
    AccessPattern(
        "Videos released in a region, in a time range",
        "GET /v1/videos?region=NZ&from=t&to=t",
        ("Query",) * SHARDS + ("BatchGetItem",),
        RELATION_INDEX,
        f"rel = {region_relation('NZ')}, relShard = 0..{SHARDS - 1} merged, relSort between; then the videos",
        f"0.5 RRU per 4 KB examined, at least {SHARDS} x 0.5; 0.5 RRU for each video",
    ),
    AccessPattern(
        "Publish or hide a video with tags, or change the tags of a published one",
        "PATCH /v1/videos/{videoId} (tags)",
        ("GetItem", "TransactWriteItems"),
        None,
        f"the video if its version is the one read, and pk = {TAG.pk}, sk = {TAG.sk} for each tag that comes or goes",
        "1 RRU, 2 WRU for the video and 3 for each tag (the item, twice in a transaction, and its place in the index)",
    ),
    AccessPattern(
        "Read a video with its title in a region",
        "GET /v1/videos/{videoId}?region=NZ",
        ("BatchGetItem", "Query"),
        None,
        f"the video and its counter; pk = {VIDEO.pk}, sk begins with RELEASE#NZ#",
        "1 RRU, 0.5 RRU per 4 KB of at most 100 releases",
    ),
    AccessPattern(
        "Read a video with all that belongs to it",
        "GET /v1/videos/{videoId}?include=credits,releases,ratings,tags,jobs",
        ("Query", "GetItem"),
        None,
        f"pk = {VIDEO.pk}, sk up to the last kind that is asked for; and the counter",
        "0.5 RRU per 4 KB of all items together, 0.5 for the counter",
    ),
    AccessPattern(
        "Read up to 100 videos",
        "POST /v1/videos/batch-get",
        ("BatchGetItem", "BatchGetItem"),
        None,
        f"pk = {VIDEO.pk}, sk = {VIDEO.sk}; pk = VIEWS#{{videoId}}#0, sk = {VIEW_COUNTER.sk}",
        "1 RRU for each video (0.5 each for video and counter)",
    ),
    AccessPattern(
        "Credit a person",
        "PUT /v1/videos/{videoId}/credits/{personId}",
        ("GetItem", "GetItem", "PutItem", "GetItem"),
        None,
        f"the video; pk = {CREDIT.pk}, sk = {CREDIT.sk}, then if nobody wrote it meanwhile; the video's place again",
        "3 RRU, 2 WRU with the index; 1 while the video is not listed",
    ),
    AccessPattern(
        "Remove a credit",
        "DELETE /v1/videos/{videoId}/credits/{personId}",
        ("GetItem", "GetItem", "DeleteItem"),
        None,
        f"the video; pk = {CREDIT.pk}, sk = {CREDIT.sk}, then if nobody wrote it meanwhile",
        "2 RRU, 2 WRU with the index",
    ),
    AccessPattern(
        "Who was in it?",
        "GET /v1/videos/{videoId}/credits",
        ("GetItem", "Query"),
        None,
        f"the video, to know who asks; pk = {CREDIT.pk}, sk begins with CREDIT#",
        "0.5 RRU, and 0.5 per 4 KB",
    ),
    AccessPattern(
        "What did they do in it?",
        "GET /v1/videos/{videoId}/credits/{personId}",
        ("GetItem", "GetItem"),
        None,
        f"the video, to know who asks; pk = {CREDIT.pk}, sk = {CREDIT.sk}",
        "1 RRU",
    ),
    AccessPattern(
        "What else did they do in those years?",
        "GET /v1/people/{personId}/videos?fromYear=1990&toYear=1999",
        ("Query", "BatchGetItem"),
        RELATION_INDEX,
        f"rel = {person_relation('{personId}')}, relShard = 0, relSort between the years; then the videos",
        "0.5 RRU per 4 KB of credits, 0.5 RRU for each video",
    ),
    AccessPattern(
        "Name a video in a region and language",
        "PUT /v1/videos/{videoId}/releases/{region}/{language}",
        ("GetItem", "GetItem", "PutItem", "GetItem"),
        None,
        f"the video; pk = {RELEASE.pk}, sk = {RELEASE.sk}, then if nobody wrote it meanwhile; the video's place again",
        "3 RRU, 2 WRU with the index; 1 while the video is not listed",
    ),
    AccessPattern(
        "Remove a release",
        "DELETE /v1/videos/{videoId}/releases/{region}/{language}",
        ("GetItem", "GetItem", "DeleteItem"),
        None,
        f"the video; pk = {RELEASE.pk}, sk = {RELEASE.sk}, then if nobody wrote it meanwhile",
        "2 RRU, 2 WRU with the index",
    ),
    AccessPattern(
        "What is it called in New Zealand?",
        "GET /v1/videos/{videoId}/releases/{region}",
        ("GetItem", "Query"),
        None,
        f"the video, to know who asks; pk = {RELEASE.pk}, sk begins with RELEASE#{{region}}#",
        "0.5 RRU, and 0.5 per 4 KB",
    ),
    AccessPattern(
        "Rate a video",
        "PUT /v1/videos/{videoId}/rating",
        ("GetItem", "GetItem", "TransactWriteItems", "GetItem"),
        None,
        f"the video; pk = {RATING.pk}, sk = {RATING.sk}; then it, if nobody wrote it meanwhile, together with ADD on "
        f"pk = {RATING_TOTALS.pk}, sk = {RATING_TOTALS.sk}; the totals",
        "3 RRU, 6 WRU with the index; 5 the first time",
    ),
    AccessPattern(
        "Take a rating back",
        "DELETE /v1/videos/{videoId}/rating",
        ("GetItem", "GetItem", "TransactWriteItems"),
        None,
        f"as above, and pk = {RATING.pk}, sk = {RATING.sk} is removed",
        "2 RRU, 5 WRU with the index",
    ),
    AccessPattern(
        "How is it rated, and how by me?",
        "GET /v1/videos/{videoId}/rating",
        ("BatchGetItem",),
        None,
        f"the video; pk = {RATING_TOTALS.pk}, sk = {RATING_TOTALS.sk}; pk = {RATING.pk}, sk = {RATING.sk}",
        "1.5 RRU",
    ),
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
        f"pk = {PROFILE.pk}, sk = {PROFILE.sk} and pk = {TAG_COUNT.pk}, sk = {TAG_COUNT.sk}; both again, as the video may "
        "have changed meanwhile",
        "4 RRU, 4 WRU, 1 more for a new video's place in the index, and 4 for each tag that comes or goes; less for videos "
        "that come together",
    ),
    AccessPattern(
        "Move a video's entries to where its present state has them",
        "the stream: aggregates (entries)",
        ("GetItem", "Query", "Query", "TransactWriteItems"),
        None,
        f"the video; pk = {VIDEO.pk}, sk from {TAG.sk.partition('{')[0]}, and from {CREDIT.sk.partition('{')[0]} to {SCHEDULE.sk}; "
        "then those that stand elsewhere, with a check of the video",
        "3 RRU, and 1 per 4 KB of entries; 10 WRU to move four of them with a check of the video, and the indexes",
    ),
    AccessPattern(
        "Create a playlist",
        "POST /v1/playlists",
        ("TransactWriteItems",),
        None,
        f"pk = {PLAYLIST.pk}, sk = {PLAYLIST.sk}, if absent; ADD on pk = {PROFILE.pk}, sk = {PROFILE.sk}",
        "5 WRU with the index; 1 more for a user's first",
    ),
    AccessPattern(
        "One owner's playlists",
        "GET /v1/playlists?userId=u",
        ("Query", "BatchGetItem"),
        RELATION_INDEX,
        f"rel = {playlists_relation('u')}, relShard = 0, newest first; then the playlists",
        "0.5 RRU per 4 KB, 0.5 RRU for each playlist",
    ),
    AccessPattern(
        "Read a playlist",
        "GET /v1/playlists/{playlistId}",
        ("GetItem",),
        None,
        f"pk = {PLAYLIST.pk}, sk = {PLAYLIST.sk}",
        "0.5 RRU",
    ),
    AccessPattern(
        "Change a playlist",
        "PATCH /v1/playlists/{playlistId}",
        ("GetItem", "UpdateItem"),
        None,
        f"pk = {PLAYLIST.pk}, sk = {PLAYLIST.sk}, if the version is the one read",
        "1 RRU, 1 WRU, and the index when title or visibility change",
    ),
    AccessPattern(
        "Delete a playlist",
        "DELETE /v1/playlists/{playlistId}",
        ("GetItem", "TransactWriteItems"),
        None,
        f"pk = {PLAYLIST.pk}, sk = {PLAYLIST.sk}, if the version is the one read; ADD on pk = {PROFILE.pk}, "
        f"sk = {PROFILE.sk}; a queue removes the entries",
        "1 RRU, 5 WRU with the index; 3 for each entry, later",
    ),
    AccessPattern(
        "What is in a playlist, in order?",
        "GET /v1/playlists/{playlistId}/entries",
        ("GetItem", "Query", "BatchGetItem"),
        None,
        f"the playlist; pk = {ENTRY.pk}, sk begins with ENTRY#; then the videos",
        "0.5 RRU, 0.5 per 4 KB, 0.5 for each video",
    ),
    AccessPattern(
        "Append to a playlist",
        "POST /v1/playlists/{playlistId}/entries",
        ("GetItem", "GetItem", "TransactWriteItems"),
        None,
        f"the playlist and the video; then the playlist if its version is the one read, pk = {ENTRY.pk}, sk = {ENTRY.sk}, and "
        f"pk = {MEMBERSHIP.pk}, sk = {MEMBERSHIP.sk} if absent",
        "2 RRU, 7 WRU with the index",
    ),
    AccessPattern(
        "Move an entry between two others",
        "PATCH /v1/playlists/{playlistId}/entries/{videoId}",
        ("GetItem", "BatchGetItem", "Query", "TransactWriteItems"),
        None,
        f"the playlist; the entry's membership and its new neighbour's; the entries next to that; then the playlist if its "
        f"version is the one read, pk = {ENTRY.pk}, sk = {ENTRY.sk} old and new, and the membership",
        "4 RRU, 8 WRU, however long the list; 6 more for each of up to 20 neighbours when thousands were moved there",
    ),
    AccessPattern(
        "Remove an entry",
        "DELETE /v1/playlists/{playlistId}/entries/{videoId}",
        ("GetItem", "GetItem", "TransactWriteItems"),
        None,
        f"the playlist and pk = {MEMBERSHIP.pk}, sk = {MEMBERSHIP.sk}; then both and the entry, if the playlist's version is "
        "the one read",
        "2 RRU, 7 WRU with the index",
    ),
    AccessPattern(
        "Which playlists hold a video?",
        "GET /v1/videos/{videoId}/playlists",
        ("GetItem", "Query", "BatchGetItem"),
        RELATION_INDEX,
        f"the video; rel = {in_playlist_relation('{videoId}')}, relShard = 0, newest first; then the playlists",
        "0.5 RRU, 0.5 per 4 KB, 0.5 for each playlist",
    ),
    AccessPattern(
        "Count a view",
        "POST /v1/videos/{videoId}/views",
        ("GetItem", "UpdateItem"),
        None,
        f"pk = {VIDEO.pk} (cached for seconds), then ADD on pk = VIEWS#{{videoId}}#0, sk = {VIEW_COUNTER.sk}",
        "1 WRU; 0.5 RRU when the video is not cached",
    ),
    AccessPattern(
        "Count a view once, however often it is retried",
        "POST /v1/videos/{videoId}/views (Idempotency-Key)",
        ("GetItem", "TransactWriteItems", "GetItem"),
        None,
        f"pk = {VIEW_ID.pk} if absent, and ADD on pk = VIEWS#{{videoId}}#0",
        "4 WRU, 1 RRU; 0.5 more when the video is not cached",
    ),
    AccessPattern(
        "Begin the upload of a film",
        "POST /v1/videos/{videoId}/upload",
        ("GetItem", "UpdateItem", "PutItem"),
        None,
        f"the video; ADD on pk = {QUOTA.pk}, sk = {QUOTA.sk} below the cap; pk = {UPLOAD.pk}, sk = {UPLOAD.sk}",
        "1 RRU, 2 WRU",
    ),
    AccessPattern(
        "Complete an upload that came in parts",
        "POST /v1/videos/{videoId}/upload/{uploadId}/complete",
        ("GetItem", "GetItem", "UpdateItem"),
        None,
        f"the video; pk = {UPLOAD.pk}, sk = {UPLOAD.sk}, then if it is still open",
        "2 RRU, 1 WRU",
    ),
    AccessPattern(
        "Give up an upload",
        "DELETE /v1/videos/{videoId}/upload/{uploadId}",
        ("GetItem", "GetItem", "UpdateItem"),
        None,
        f"the video; pk = {UPLOAD.pk}, sk = {UPLOAD.sk}, then if it is still open",
        "2 RRU, 1 WRU",
    ),
    AccessPattern(
        "Take in a film that has arrived",
        "S3 notifies: arrivals",
        ("GetItem", "UpdateItem", "GetItem", "UpdateItem"),
        None,
        f"pk = {UPLOAD.pk}, sk = {UPLOAD.sk}, then if it is still open; the video, then if its version is the one read",
        "2 RRU, 2 WRU, and the indexes",
    ),
    AccessPattern(
        "The jobs of a video",
        "GET /v1/videos/{videoId}/jobs",
        ("GetItem", "Query"),
        None,
        f"pk = {VIDEO.pk}, sk begins with JOB#; the video, to know who asks for its own",
        "0.5 RRU, and 0.5 per 4 KB of jobs",
    ),
    AccessPattern(
        "What keeps a video from being ready",
        "GET /v1/videos/{videoId}/why-not-ready",
        ("GetItem", "Query"),
        None,
        f"pk = {VIDEO.pk}, sk begins with JOB#; and the video",
        "0.5 RRU, and 0.5 per 4 KB of jobs",
    ),
    AccessPattern(
        "Try a failed job again",
        "POST /v1/videos/{videoId}/jobs/{kind}/retry",
        ("GetItem", "GetItem", "UpdateItem", "UpdateItem"),
        None,
        f"the video and pk = {JOB.pk}, sk = {JOB.sk}; ADD on pk = {QUOTA.pk}, sk = {QUOTA.sk} below the cap; then the job "
        "if nobody wrote it meanwhile",
        "2 RRU, 4 WRU with the index; in one transaction with the video, and its indexes, when that had failed",
    ),
    AccessPattern(
        "Choose the moment that the poster shows",
        "POST /v1/videos/{videoId}/thumbnail",
        ("GetItem", "UpdateItem", "UpdateItem"),
        None,
        "the video; ADD on its owner's quota; the video if its version is the one read",
        "1 RRU, 2 WRU",
    ),
    AccessPattern(
        "Begin a rendition",
        "PUT /v1/videos/{videoId}/renditions/{name} (running)",
        ("GetItem", "UpdateItem"),
        None,
        f"pk = {JOB.pk}, sk = JOB#transcode.{{name}}, if its input and attempt are the reported ones",
        "1 RRU, 3 WRU (the item, and its place in the index moves)",
    ),
    AccessPattern(
        "Report a rendition's result",
        "PUT /v1/videos/{videoId}/renditions/{name} (done)",
        ("GetItem", "GetItem", "GetItem", "TransactWriteItems"),
        None,
        "the job twice, the video; then both, if neither was written meanwhile",
        "3 RRU, 4 WRU, and the indexes",
    ),
    AccessPattern(
        "Jobs whose time is up, and videos that enter or leave the lists",
        "every minute: the sweeper",
        ("Query",) * (2 + SHARDS),
        RELATION_INDEX,
        f"rel = {job_relation('running')}, and rel = {job_relation('queued')}; relShard = 0: those that are due, and up to "
        f"1,000 others, whose number and age are measured; rel = {SCHEDULED}, relShard = 0..{SHARDS - 1} merged, relSort up to "
        "90 seconds ahead",
        "3 RRU when there are none: 129,600 a month; 0.5 RRU per 4 KB of them",
    ),
    AccessPattern(
        "Does the table answer?",
        "GET /health",
        ("GetItem",),
        None,
        f"pk = {HEALTH.pk} (absent)",
        "0.5 RRU",
    ),
)
