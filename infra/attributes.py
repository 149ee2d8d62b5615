"""Which attributes the roles may name, where items of several kinds lie in one partition.

DynamoDB counts every attribute that a request names: keys, changes, conditions and projections. So each list has what
the code names and no more; tests/unit/infra/test_permissions.py sends the real requests past the roles.
"""

from shared.kinds import KINDS
from shared.video_fields import PROBED, PROJECTION, VISIBILITY_ATTRIBUTES

_STAMP = ("schemaVersion", "updatedAt", "updatedBy", "updatedFor")
_RELATION = ("rel", "relShard", "relSort", "relId")

PLAYLIST_VISIBILITY = ("userId", "visibility", "deletedAt", "purgeAt")
"""What decides who may see a playlist."""

PLAYBACK = (*VISIBILITY_ATTRIBUTES, "videoId", "duration", "source", "thumbnails", "pictures", "failure")
"""What a player needs of a video, and what says to whom it may be played."""

SUMMARY = tuple(dict.fromkeys((*PROJECTION, *VISIBILITY_ATTRIBUTES)))
"""What lists show of a video, to whom it may be shown."""

FOUND = (*SUMMARY, "tags", "language", "description")
"""The same, what else a search filters by, and in what it shows what fits."""

VIEWS = ("views", "watched", "repeated", "owner", "unpublished", "expired", "deleted", "hour", "schemaVersion")
"""What counts a view at once, or says why it does not count."""

VIEW_SHARDS = ("shards", "spread", "folded", "checked", "checkedAt", "calmedAt")
"""How the counter of a video is spread."""

RATED = (*VISIBILITY_ATTRIBUTES, "votes", "sum", "likes", "dislikes", "imported", "value", "like", "ratedAt", "writeId")
"""Who may rate a video, how it is rated, and how by whoever asks."""

CALMED = ("shards", "folded", "calmedAt", "checked", "checkedAt")
"""What changes in a counter that is folded: not what it has counted."""

RATING_TOTALS = ("votes", "sum", "likes", "dislikes", "version", "videoId", *_STAMP)

_LEDGER = ("tally", "seen", "seenUpTo")
"""What a total remembers of the changes that it has counted."""

TALLIED = (*VISIBILITY_ATTRIBUTES, "category", *_LEDGER)
"""What is read of a total, and of the video that it is for."""

TALLIED_VIEWS = ("keyed", "watched", "hour", "schemaVersion", *_LEDGER)
TALLIED_RATINGS = (*RATING_TOTALS, *_LEDGER)

QUOTA = ("jobs", "last", "purgeAt", "schemaVersion")

SHARE = ("jobs", "checkedAt", "purgeAt", "schemaVersion")

UPLOAD = ("state",)

ENTRY = (*_RELATION, "writeId")
"""Where a credit or release stands, if it still is as it was read."""

LEAVING = ("removing", "updatedBy", "updatedFor", "writeId")
"""Who removes what lies beside a video next."""

FILM_CAPTIONS = (
    *("videoId", "language", "owner", "version", "text", "cues", "size", "origin", "upload", *_STAMP),
    *LEAVING,
)
"""What captions are that were taken out of a film."""

RELATION = (*ENTRY, *LEAVING[:-1])
"""Where a credit or release stands, and who removes it next."""

USER_VIDEOS = ("uploaded", "processing", "ready", "failed", "deleted", "bytes", "milliseconds")
USER_PLAYLISTS = ("playlists",)
USER_WEBHOOKS = ("ids", *_STAMP)
USER_TOTALS = ("userId", "version", *_STAMP, *_RELATION)
"""What is written with either of the counts of a user's totals."""

TAG_COUNT = ("count", "tag", "version", *_STAMP, *_RELATION)

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
"""What changes in a job from one state to the next: not whose it is, nor what it works on."""

WANTED_JOB = (*JOB, "since")
"""What changes when a video asks for the job again, or no longer."""

RETRIED_JOB = (*JOB, "since", "spent", "createdAt")
"""What changes when a person asks for the job again."""

_VIDEO_VERSION = (
    "version",
    *_STAMP,
    "updatedAs",
    "writeId",
    *_RELATION,
    "categoryShard",
    "poster",
    "purgeAt",
)
"""What is written with every change of a video, whatever it is: who and when, and the places in the indexes."""

SETTLED_VIDEO = (*_VIDEO_VERSION, "tags")
"""What changes in a video when its time to enter or leave the lists has come, or that is of an earlier schema."""

ARRIVED_FILM = (*_VIDEO_VERSION, "source", "status", "statusBeforeDelete", "failure", "pictures", "posterTime")

FAILED_FILM = (*_VIDEO_VERSION, *PROBED, "origins", "status", "failure")
"""What changes in a video that cannot become ready without a job that was given up; a failed probe takes its facts."""

REPORTED_FILM = (*FAILED_FILM, *KINDS["transcode"].writes, "posterTime", "thumbnails")
"""What changes in a video by a transcoder's reports, a retry, and the choice of a poster."""

BESIDE = {"captions": FILM_CAPTIONS}
"""Attributes of the entities that jobs write beside a video, by the names that `shared/kinds.py` has for them."""


def written_by_workers_of(queue: str) -> tuple[str, ...]:
    """Return the attributes of videos, and of what jobs write beside them, that the workers of a queue change."""
    kinds = [kind for kind in KINDS.values() if kind.queue == queue]
    beside = [name for kind in kinds for entity in kind.beside for name in BESIDE[entity]]
    return (*_VIDEO_VERSION, *(name for kind in kinds for name in kind.writes), *beside)
