"""Lists of attributes for IAM conditions. They separate the permissions for entities that share a partition.

IAM checks every attribute that a request names in keys, updates, conditions and projections. Each list contains only
attributes that the service's requests use. tests/unit/infra/test_permissions.py checks real requests against the roles.
"""

from shared.job_kinds import KINDS
from shared.video_fields import PROBED, PROJECTION, VISIBILITY_ATTRIBUTES

_STAMP = ("schemaVersion", "updatedAt", "updatedBy", "updatedFor")
_RELATION = ("rel", "relShard", "relSort", "relId")

PLAYLIST_VISIBILITY = ("userId", "visibility", "deletedAt", "purgeAt")
"""Attributes of a playlist that determine who may see it."""

PLAYBACK = (*VISIBILITY_ATTRIBUTES, "videoId", "duration", "source", "thumbnails", "pictures", "failure")
"""Attributes that determine who may see a video, and attributes that a player needs."""

SUMMARY = tuple(dict.fromkeys((*PROJECTION, *VISIBILITY_ATTRIBUTES)))
"""Attributes that determine who may see a video, and attributes that lists show."""

FOUND = (*SUMMARY, "tags", "language", "description")
"""Attributes in `SUMMARY`, and other attributes that a search filters by or highlights."""

VIEWS = ("views", "watched", "repeated", "owner", "unpublished", "expired", "deleted", "hour", "schemaVersion")
"""Attributes of a view counter: the sums to which anonymous and uncounted views are added, the current hour, and the
schema version."""

VIEW_SHARDS = ("shards", "spread", "folded", "checked", "checkedAt", "calmedAt")
"""Attributes that describe the shards of a video's view counter."""

RATED = (*VISIBILITY_ATTRIBUTES, "votes", "sum", "likes", "dislikes", "imported", "value", "like", "ratedAt", "writeId")
"""Attributes that a request to rate a video reads: who may see the video, the rating totals, and the caller's own
rating."""

SHARD_CONTROL = ("shards", "folded", "calmedAt", "checked", "checkedAt")
"""Attributes that `ViewCounters.merge_shards` writes in shard 0. The method never writes the
counts of a shard."""

RATING_TOTALS = ("votes", "sum", "likes", "dislikes", "version", "videoId", *_STAMP)

_LEDGER = ("tally", "seen", "seenUpTo")
"""Attributes with the deduplication keys of the changes that a total already includes."""

SORT_POSITION = (*VISIBILITY_ATTRIBUTES, "videoId", "category", "version", "rel")
"""Attributes of a video that determine its entries in sorted lists (entity `ORDER`)."""

SORT_VALUE = ("orderValue",)
SORT_PARTITION = ("userId", "category", "categoryShard")
"""Attributes of an entry in a sorted list. They determine the list to which the entry belongs, and change if the video
moves to another list."""

SORT_RATING = ("sum", "votes", *SORT_VALUE)
"""Attributes that the tallies worker reads to determine whether a video's position changes in lists that are sorted by
rating."""

TALLIED = (*SORT_POSITION, *_LEDGER)
"""Attributes that the tallies worker reads from counters, rating totals and videos."""

TALLIED_VIEWS = ("keyed", "watched", "hour", "schemaVersion", *_LEDGER)
TALLIED_RATINGS = (*RATING_TOTALS, *_LEDGER)

QUOTA = ("jobs", "last", "purgeAt", "schemaVersion")

QUOTA_CLAIMS = ("jobs", "checkedAt", "purgeAt", "schemaVersion")

UPLOAD = ("state",)

ENTRY = (*_RELATION, "writeId")
"""Attributes that are written when a credit or release moves in the index: its index position, and `writeId`, which
detects concurrent changes."""

REMOVAL = ("removing", "updatedBy", "updatedFor", "writeId")
"""Attributes that record the author of a deletion. The service writes them immediately before it deletes the item."""

EMBEDDED_CAPTIONS = (
    *("videoId", "language", "owner", "version", "text", "cues", "size", "origin", "upload", *_STAMP),
    *REMOVAL,
)
"""Attributes of captions that were extracted from a source file."""

RELATION = (*ENTRY, *REMOVAL[:-1])
"""Attributes in `ENTRY`, and attributes that record the author of a deletion."""

USER_VIDEOS = ("uploaded", "processing", "ready", "failed", "deleted", "bytes", "milliseconds")
USER_PLAYLISTS = ("playlists",)
USER_WEBHOOKS = ("ids", *_STAMP)
USER_TOTALS = ("userId", "version", *_STAMP, *_RELATION)
"""Attributes that are written whenever a count in a user's totals changes."""

SERVICE_TOTALS = (*USER_VIDEOS, "uploads", "purgeAt", "version", *_STAMP)
"""Attributes of two kinds of items: the totals of all videos, and the number of uploads in one hour."""

TAG_COUNT = ("count", "tag", "version", *_STAMP, *_RELATION)

FOLDER_COUNT = ("count", "direct", "folder", "userId", "version", *_STAMP)

PLAYLIST_ENTRIES = ("entryCount", "moves", "version", "updatedAt", "updatedBy", "updatedFor", "writeId")

JOB = (
    "state",
    "attempt",
    "inputHash",
    "progress",
    "error",
    "output",
    "worker",
    "lease",
    "leaseUntil",
    "queuedAt",
    "sentAt",
    "sends",
    "startedAt",
    "finishedAt",
    "updatedAt",
    "updatedBy",
    "updatedAs",
    "updatedFor",
    "writeId",
    *_RELATION,
)
"""Attributes that a request names when it changes a job's state. The job's owner and input never change. `inputHash` is
here because conditions compare it."""

REQUESTED_JOB = (*JOB, "since")
"""Attributes that change when a video requires a job again, or no longer requires it."""

RETRIED_JOB = (*JOB, "since", "spent", "createdAt")
"""Attributes that change when a user retries a job."""

_VIDEO_VERSION = (
    "version",
    *_STAMP,
    "updatedAs",
    "writeId",
    *_RELATION,
    "categoryShard",
    "orderBy",
    "orderValue",
    "poster",
    "purgeAt",
)
"""Attributes that are written whenever a video changes: version, audit fields and index keys."""

SETTLED_VIDEO = (*_VIDEO_VERSION, "tags")
"""Attributes that the aggregates worker changes when it adds a scheduled video to the public lists, or removes an
expired video.

The worker changes the same attributes when it upgrades an item of an earlier schema.
"""

ARRIVED_SOURCE = (*_VIDEO_VERSION, "source", "status", "statusBeforeDelete", "failure", "pictures", "posterTime")

FAILED_SOURCE = (*_VIDEO_VERSION, *PROBED, "origins", "status", "failure")
"""Attributes that change when a required job fails permanently. A failed probe also clears the probed fields."""

REPORTED_SOURCE = (*FAILED_SOURCE, *KINDS["transcode"].writes, "posterTime", "thumbnails")
"""Attributes of a video that change when a transcoder reports, or when a user retries a job or chooses a poster."""

FAILED_JOB = ("kind", "error")
"""Attributes of failed jobs that the function `totals` reads, to show administrators the causes of failures."""

LATE_WEBHOOK = ("webhookId", "oldestWaiting", "failingSince", "nextAttemptAt")
"""Attributes of a webhook's delivery state that describe its delay."""

HOURLY_VIEWS = ("from", "views", "computedAt")

INDEX_STATE = ("films", "publishedAt", "asOf")
"""Attributes of the search index's pointer that describe its size and age."""

COMPARISON_REPORT = ("at", "repairs", "outcomes", "findings")

EXTRA_ENTITIES = {"captions": EMBEDDED_CAPTIONS}
"""Attributes of a video's child items that jobs write, by the entity's name in `shared/job_kinds.py`."""


def written_by_workers_of(queue: str) -> tuple[str, ...]:
    """Return the attributes that the workers of a queue change in videos and in their child items."""
    kinds = [kind for kind in KINDS.values() if kind.queue == queue]
    extra = [name for kind in kinds for entity in kind.extra_entities for name in EXTRA_ENTITIES[entity]]
    return (*_VIDEO_VERSION, *(name for kind in kinds for name in kind.writes), *extra)
