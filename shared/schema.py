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
SCHEMA_VERSION = 1

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
QUOTA = Entity("Jobs of an owner on one day", "USER#{userId}", "QUOTA#{date}")
HEALTH = Entity("Health probe (never written)", "HEALTH", "HEALTH")
ENTITIES = (VIDEO, UPLOAD, JOB, VIEW_COUNTER, VIEW_ID, IDEMPOTENCY, QUOTA, HEALTH)
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
    answers="one category's published videos by time; sparse: `categoryShard` is set only while listed",
)
RELATION_INDEX = Index(
    "RelationIndex",
    partition=(Attribute("rel"), Attribute("relShard", "N")),
    sort=(Attribute("relSort", "N"), Attribute("relId")),
    answers="the feed and each status by time, jobs by when they are due; overloaded, so that new relations need no "
    "new index",
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


def status_relation(status: str) -> str:
    """`rel` of a video that is not listed."""
    return f"STATUS#{status}"


def job_relation(state: str) -> str:
    """`rel` of a job that is not done; its `relSort` is the time at which the sweeper looks at it."""
    return f"JOB#{state}"


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
        "4 WRU, 1 RRU",
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
        "1 RRU per 4 KB",
    ),
    AccessPattern(
        "What keeps a video from being ready",
        "GET /v1/videos/{videoId}/why-not-ready",
        ("GetItem", "Query"),
        None,
        f"pk = {VIDEO.pk}, sk begins with JOB#; and the video",
        "1 RRU per 4 KB",
    ),
    AccessPattern(
        "Try a failed job again",
        "POST /v1/videos/{videoId}/jobs/{kind}/retry",
        ("GetItem", "GetItem", "UpdateItem", "UpdateItem"),
        None,
        f"the video and pk = {JOB.pk}, sk = {JOB.sk}; ADD on pk = {QUOTA.pk}, sk = {QUOTA.sk} below the cap; then the job "
        "if nobody wrote it meanwhile",
        "2 RRU, 3 WRU; 4 more in a transaction when the video had failed",
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
        "Jobs whose time is up",
        "every minute: the sweeper",
        ("Query", "Query"),
        RELATION_INDEX,
        f"rel = {job_relation('running')}, and rel = {job_relation('queued')}; relShard = 0, relSort before now",
        "1 RRU when there are none: 43,200 a month",
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
