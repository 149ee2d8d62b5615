"""The table: entities, keys and indexes. Everything that names a key reads it from here.

CDK builds the table from this module, the stores compute their keys with it, and the tables of docs/data-model.md are
generated from it (`python -m local.readme`), so the three cannot disagree.

An index's keys and projection are fixed when it is made, so all three indexes are complete from the start.
They use multi-attribute keys, so that ties have an order and no key string is glued together:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.DesignPattern.MultiAttributeKeys.html
"""

from typing import Final, Literal, NamedTuple
from zlib import crc32

from shared.video_fields import PROJECTION

TABLE_NAME = "VideoMetadata"
AUDIT_TABLE_NAME = "VideoAudit"
"""A table of its own: append-only, with its own retention, and out of reach of those who write videos."""
AUDIT_SCHEMA_VERSION = 1
"""Of that table, not of its entries."""
SCHEMA_VERSION = 3
"""Of the items. `UPGRADES` in shared/videos/video.py has the step to it."""

PARTITION_KEY: Final = "pk"
SORT_KEY: Final = "sk"
TTL_ATTRIBUTE: Final = "purgeAt"
"""Epoch seconds after which DynamoDB may remove an item. Users set `expiresAt`; this one is internal."""

SHARDS = 4
"""Partitions that one category, status or feed is spread over. Frozen: it is part of the stored keys."""

MOST_VIEW_SHARDS = 64
"""Partitions that the counter of one video is spread over at most; it has one until DynamoDB throttles it."""

LANES = 32
"""Partitions that what is counted once of a video is spread over: its viewers, and its ratings. Frozen: it is part of the
stored keys."""


class Attribute(NamedTuple):
    """A key attribute: its name and DynamoDB type."""

    name: str
    type: Literal["S", "N"] = "S"


class Index(NamedTuple):
    """A global secondary index; partition and sort keys may have several attributes."""

    name: str
    partition: tuple[Attribute, ...]
    sort: tuple[Attribute, Attribute]
    """What to sort by, and an id that orders ties."""
    answers: str
    projection: tuple[str, ...]
    """The other attributes that it holds."""


class Entity(NamedTuple):
    """How one kind of item is keyed: templates such as `VIDEO#{videoId}`."""

    name: str
    pk: str
    sk: str

    def key(self, **parts: str | int) -> dict[str, str]:
        """The primary key of one item, `{"pk": ..., "sk": ...}`; raises KeyError when a part is missing."""
        safe = {name: _escape(str(value)) for name, value in parts.items()}
        sk = self.sk.format_map(safe) if "{" in self.sk else self.sk
        return {PARTITION_KEY: self.pk.format_map(safe), SORT_KEY: sk}

    @property
    def partition_prefix(self) -> str:
        """The constant start of the partition key, for a role's leading-key condition."""
        return self.pk.partition("{")[0]

    @property
    def sort_prefix(self) -> str:
        """The constant start of the sort key: all of it without a variable part."""
        return self.sk.partition("{")[0]

    def has_sort_key(self, sort_key: str) -> bool:
        """Return whether a sort key is one of this entity's."""
        return sort_key.startswith(self.sort_prefix) if "{" in self.sk else sort_key == self.sk


def _escape(part: str) -> str:
    """Keep `#` out of the parts of a key, so that no two different keys can be spelled alike."""
    return part.replace("%", "%25").replace("#", "%23") if "%" in part or "#" in part else part


VIDEO = Entity("Video", "VIDEO#{videoId}", "#META")
VIEW_COUNTER = Entity("View counter", "VIEWS#{videoId}#{shard}", "COUNT")
VIEW_HOUR = Entity("Hour in which a video was viewed", "VIEWS#{videoId}", "HOUR#{hour}")
VIEW_DAY = Entity("Day on which a video was viewed", "VIEWS#{videoId}", "DAY#{day}")
VIEWER = Entity("Viewer, or key, whose view was counted", "VIEWER#{videoId}#{lane}", "{id}")
SEEN_PAGE = Entity("Changes that a total has counted", "SEEN#{videoId}", "{total}#{span}#{start}#{digest}")
TOP = Entity("Top list", "TOP#{window}", "LIST#{category}")
IDEMPOTENCY = Entity("Idempotency key", "IDEMPOTENCY#{subject}#{operation}#{key}", "#KEY")
UPLOAD = Entity("Upload", "VIDEO#{videoId}", "UPLOAD#{uploadId}")
JOB = Entity("Job", "VIDEO#{videoId}", "JOB#{kind}")
RATING_TOTALS = Entity("Rating totals", "VIDEO#{videoId}", "#RATING")
MARKER = Entity("What totals have counted of a video", "VIDEO#{videoId}", "AGG")
CREDIT = Entity("Credit", "VIDEO#{videoId}", "CREDIT#{personId}")
RELEASE = Entity("Release", "VIDEO#{videoId}", "RELEASE#{region}#{language}")
CAPTION = Entity("Captions of a video in a language", "VIDEO#{videoId}", "CAPTION#{language}")
CHAPTERS = Entity("Chapters of a video", "VIDEO#{videoId}", "CHAPTERS")
TAG = Entity("Tag of a listed video", "VIDEO#{videoId}", "TAG#{tag}")
EPISODE = Entity("Place of a listed video in its series", "VIDEO#{videoId}", "SERIES")
SCHEDULE = Entity("When a video's place in the lists changes", "VIDEO#{videoId}", "SCHEDULE")
RATING = Entity("Rating", "RATINGS#{videoId}#{lane}", "{userId}")
PROFILE = Entity("Totals of a user", "USER#{userId}", "#PROFILE")
PLAYLIST = Entity("Playlist", "PLAYLIST#{playlistId}", "#META")
ENTRY = Entity("Entry of a playlist, in order", "PLAYLIST#{playlistId}", "ENTRY#{rank}#{videoId}")
MEMBERSHIP = Entity("Membership of a playlist", "PLAYLIST#{playlistId}", "HAS#{videoId}")
TAG_COUNT = Entity("How often a tag is used", "TAGCOUNT#{tag}", "#COUNT")
QUOTA = Entity("Jobs of an owner on one day", "USER#{userId}", "QUOTA#{date}")
IMPORT = Entity("How far an import is", "IMPORT#{importId}", "#MARK")
SHARE = Entity("Jobs and webhooks of an owner that are with the workers", "SHARE#{userId}", "SENT#{queue}")
WAITING = Entity("Job or webhook that waits for its owner's share", "SHARE#{userId}", "WAITS#{queue}#{queuedAt}#{name}")
REVERT = Entity("How far a change set is taken back", "REVERT#{revertId}", "#RUN")
REVERT_PART = Entity("What was not taken back, and why", "REVERT#{revertId}", "{part}")
WEBHOOK = Entity("Webhook", "WEBHOOK#{webhookId}", "#META")
WEBHOOK_PLACE = Entity("How far a webhook is", "WEBHOOK#{webhookId}", "#PLACE")
WEBHOOK_ATTEMPTS = Entity("What a webhook's receiver answered", "WEBHOOK#{webhookId}", "ATTEMPTS#{at}#{turn}")
WEBHOOKS = Entity("Ids of a user's webhooks", "USER#{userId}", "#WEBHOOKS")
INDEX = Entity("Which generation of the search index holds", "INDEX", "#META")
HEALTH = Entity("Health probe (never written)", "HEALTH", "HEALTH")
ENTITIES = (
    VIDEO,
    UPLOAD,
    JOB,
    CREDIT,
    RELEASE,
    CAPTION,
    CHAPTERS,
    TAG,
    EPISODE,
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
    VIEW_HOUR,
    VIEW_DAY,
    VIEWER,
    SEEN_PAGE,
    TOP,
    IDEMPOTENCY,
    IMPORT,
    REVERT,
    REVERT_PART,
    WEBHOOK,
    WEBHOOK_PLACE,
    WEBHOOK_ATTEMPTS,
    WEBHOOKS,
    INDEX,
    HEALTH,
)
AUDIT = Entity("Audit entry, in the table `VideoAudit`", "VIDEO#{videoId}", "{at}#{sequence}")
PLAYLIST_AUDIT = Entity(
    "Audit entry of a playlist, in the table `VideoAudit`", "PLAYLIST#{playlistId}", "{at}#{sequence}"
)
CHANGES = Entity("Changes of everybody's things, in the table `VideoAudit`", "CHANGES#{shard}", "{position}")
OWNER_CHANGES = Entity(
    "Changes of one owner's things, in the table `VideoAudit`", "OWNERCHANGES#{userId}", "{position}"
)
TRAIL_ENTITIES = (AUDIT, PLAYLIST_AUDIT)
FEED_ENTITIES = (CHANGES, OWNER_CHANGES)
AUDIT_ENTITIES = (*TRAIL_ENTITIES, *FEED_ENTITIES)
TAIL = "TAIL"
"""The position, as it stands in the sort key, of what is appended to a log next: after all numbers."""

USER_INDEX = Index(
    "UserIdIndex",
    partition=(Attribute("userId"),),
    sort=(Attribute("createdAt", "N"), Attribute("videoId")),
    answers="one owner's videos by time",
    projection=PROJECTION,
)
CATEGORY_INDEX = Index(
    "CategoryIndex",
    partition=(Attribute("category"), Attribute("categoryShard", "N")),
    sort=(Attribute("createdAt", "N"), Attribute("videoId")),
    answers="one category's published videos by time; sparse: `categoryShard` is set only while the video is listed",
    projection=PROJECTION,
)
RELATION_INDEX = Index(
    "RelationIndex",
    partition=(Attribute("rel"), Attribute("relShard", "N")),
    sort=(Attribute("relSort", "N"), Attribute("relId")),
    answers="the feed, each status, tag and region by time, a person's videos by year, a series' episodes in order, playlists by owner and by video, "
    "ratings of a video, tags by use, what was counted of a user's videos, jobs by when they are due; overloaded, so that "
    "new relations need no new index",
    projection=PROJECTION,
)
INDEXES = (USER_INDEX, CATEGORY_INDEX, RELATION_INDEX)

CHANGESET = "changeset"
"""Attribute of an audit entry: the change set that it belongs to, if that can be taken back."""
CHANGESET_INDEX = Index(
    "ChangesetIndex",
    partition=(Attribute(CHANGESET),),
    # An import writes very many of one change set: by their random ids DynamoDB can spread them, which it cannot do by time.
    sort=(Attribute(PARTITION_KEY), Attribute(SORT_KEY)),
    answers="what one request or one import wrote, video by video; sparse: what jobs did about it later is not in it",
    projection=("owner", TTL_ATTRIBUTE),
)
"""Of the table `VideoAudit`."""
AUDIT_INDEXES = (CHANGESET_INDEX,)

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
    """`rel` of a tag entry, sharded, of a folded tag (shared/videos/tags.py); `relSort` is the video's createdAt."""
    return f"TAG#{tag}"


def series_relation(video_id: str, user_id: str) -> str:
    """`rel` of the entry of a user's episode of a series; `relSort` is its place there (shared/videos/entries.py), `relId`
    its videoId. The episodes of other users stand apart, or they could bury those of the owner of the series."""
    return f"SERIES#{video_id}#{user_id}"


def rated_relation(video_id: str) -> str:
    """`rel` of a rating, sharded by its user; its `relSort` is 0, so that a rating given again stays where it is, its `relId`
    the userId."""
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


def viewed_relation(period: str) -> str:
    """`rel` of an hour (`2026-11-22T13`) or a day (`2026-11-22`) in which a video was viewed, sharded; `relSort` is what the
    counter had before, `relId` the videoId. Written once, so that a view in the middle of it writes to no index."""
    return f"VIEWED#{period}"


def follower_relation(user_id: str | None) -> str:
    """`rel` of a webhook that is not paused: of one owner's changes, or of everybody's; `relSort` is its createdAt, `relId` its id."""
    return "FOLLOWERS" if user_id is None else f"FOLLOWERS#{user_id}"


DUE = "DUE"
"""`rel` of how far a webhook is, while its receiver fails; `relSort` is the time of the next attempt, `relId` the webhookId."""

TAGS = "TAGS"
"""`rel` of the tag counts; `relSort` is the count, `relId` the folded tag."""

USERS = "USERS"
"""`rel` of the totals of users; `relSort` is 0, `relId` the userId. Nothing that changes is projected, so that only
a new user writes to the index."""


def lane_of(id_: str) -> int:
    """Which of the LANES partitions of a video holds what is counted once of a viewer or user: 0 to 31."""
    return crc32(id_.encode()) % LANES


def shard_of(video_id: str) -> int:
    """Which of the SHARDS partitions holds a video: 0 to 3."""
    return crc32(video_id.encode()) % SHARDS
