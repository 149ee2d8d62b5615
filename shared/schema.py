"""Schema of the DynamoDB tables: entities, keys and indexes. No other module defines keys.

CDK creates the tables from this module, and the stores compute keys with it. `python -m local.readme` generates the
tables in docs/data-model.md from it.

The keys and the projection of an index cannot be changed after its creation. Therefore all indexes exist since the
first release. Index keys consist of several attributes instead of concatenated strings, and the second sort attribute
breaks ties: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.DesignPattern.MultiAttributeKeys.html
"""

from typing import Final, Literal, NamedTuple
from zlib import crc32

from shared.video_fields import PROJECTION

TABLE_NAME = "VideoMetadata"
AUDIT_TABLE_NAME = "VideoAudit"
"""Name of the audit table. The audit table is separate from the main table, because it is append-only, and its items
expire at other times. Roles that write videos have no access to it."""
AUDIT_SCHEMA_VERSION = 1
"""Version of the audit table's definition in schemas/audit. Audit entries do not store this version; they store
SCHEMA_VERSION."""
SCHEMA_VERSION = 3
"""Version of the item format. `UPGRADES` in shared/videos/video.py converts items of older versions, one version at a
time."""

PARTITION_KEY: Final = "pk"
SORT_KEY: Final = "sk"
TTL_ATTRIBUTE: Final = "purgeAt"
"""Name of the TTL attribute: epoch seconds after which DynamoDB deletes the item. Users cannot set it, unlike
`expiresAt`."""

SHARDS = 4
"""Number of partitions over which the entries of one list are spread. The number must not change, because stored keys
contain the partition's number."""

MAX_VIEW_SHARDS = 64
"""Maximum number of partitions of one video's view counter. A counter has one partition until DynamoDB throttles it."""

LANES = 32
"""Number of partitions over which a video's viewers and ratings are spread. The number must not change, because stored
keys contain the partition's number."""


class Attribute(NamedTuple):
    """Attribute of an index key, with its DynamoDB type: string (`S`) or number (`N`)."""

    name: str
    type: Literal["S", "N"] = "S"


class Index(NamedTuple):
    """Global secondary index. The partition key and the sort key may each consist of several attributes."""

    name: str
    partition: tuple[Attribute, ...]
    sort: tuple[Attribute, Attribute]
    """The two attributes of the sort key: the sort value, and an id that breaks ties."""
    purpose: str
    projection: tuple[str, ...]
    """Attributes that the index projects, in addition to the keys."""

    @property
    def non_key_attributes(self) -> list[str]:
        """Names of the projected attributes that are not keys of the index. Empty if the index projects only keys."""
        keys = {attribute.name for attribute in (*self.partition, *self.sort)}
        return [name for name in self.projection if name not in keys]


class Entity(NamedTuple):
    """Kind of item, with the templates of its partition key and sort key, such as `VIDEO#{videoId}`."""

    name: str
    pk: str
    sk: str

    def key(self, **parts: str | int) -> dict[str, str]:
        """Return the primary key of an item, `{"pk": ..., "sk": ...}`. `parts` are the values of the variables in the
        key templates.

        Raises KeyError if the value of a variable is missing.
        """
        safe = {name: _escape(str(value)) for name, value in parts.items()}
        sk = self.sk.format_map(safe) if "{" in self.sk else self.sk
        return {PARTITION_KEY: self.pk.format_map(safe), SORT_KEY: sk}

    @property
    def partition_prefix(self) -> str:
        """Constant prefix that the partition keys of all the entity's items share. Policies of roles use it in the
        condition `dynamodb:LeadingKeys`."""
        return self.pk.partition("{")[0]

    @property
    def sort_prefix(self) -> str:
        """Constant prefix that the sort keys of all the entity's items share. This is the whole sort key if it has no
        variables."""
        return self.sk.partition("{")[0]

    def has_sort_key(self, sort_key: str) -> bool:
        """Return whether a sort key belongs to this entity."""
        return sort_key.startswith(self.sort_prefix) if "{" in self.sk else sort_key == self.sk


def _escape(part: str) -> str:
    """Percent-encode `#` and `%` in a value for a key template, so that different values never produce the same key."""
    return part.replace("%", "%25").replace("#", "%23") if "%" in part or "#" in part else part


VIDEO = Entity("Video", "VIDEO#{videoId}", "#META")
VIEW_COUNTER = Entity("View counter", "VIEWS#{videoId}#{shard}", "COUNT")
VIEW_HOUR = Entity("View counts at the start of an hour", "VIEWS#{videoId}", "HOUR#{hour}")
VIEW_DAY = Entity("View counts at the start of a day", "VIEWS#{videoId}", "DAY#{day}")
VIEWER = Entity("Counted viewer or key", "VIEWER#{videoId}#{lane}", "{id}")
PROCESSED_PAGE = Entity("Page of deduplication keys", "SEEN#{videoId}", "{total}#{span}#{start}#{digest}")
TOP = Entity("Top list", "TOP#{window}", "LIST#{category}")
VIEWS_BY_HOUR = Entity("Views of all videos by hour", "HOURLYVIEWS", "#HOURS")
RESERVATION = Entity("Reservation of a unique value", "UNIQUE#{userId}#{field}#{value}", "#VIDEO")
IDEMPOTENCY = Entity("Idempotency key", "IDEMPOTENCY#{subject}#{operation}#{key}", "#KEY")
UPLOAD = Entity("Upload", "VIDEO#{videoId}", "UPLOAD#{uploadId}")
JOB = Entity("Job", "VIDEO#{videoId}", "JOB#{kind}")
ORDER = Entity("Sort entry", "ORDER#{videoId}", "{order}")
RATING_TOTALS = Entity("Rating totals", "VIDEO#{videoId}", "#RATING")
MARKER = Entity("Counted state of a video", "VIDEO#{videoId}", "AGG")
CREDIT = Entity("Credit", "VIDEO#{videoId}", "CREDIT#{personId}")
RELEASE = Entity("Release", "VIDEO#{videoId}", "RELEASE#{region}#{language}")
CAPTION = Entity("Captions", "VIDEO#{videoId}", "CAPTION#{language}")
CHAPTERS = Entity("Chapters", "VIDEO#{videoId}", "CHAPTERS")
TAG = Entity("Tag of a listed video", "VIDEO#{videoId}", "TAG#{tag}")
EPISODE = Entity("Episode of a series", "VIDEO#{videoId}", "SERIES")
FOLDER = Entity("Video in a folder", "VIDEO#{videoId}", "FOLDER")
SCHEDULE = Entity("Schedule", "VIDEO#{videoId}", "SCHEDULE")
RATING = Entity("Rating", "RATINGS#{videoId}#{lane}", "{userId}")
PROFILE = Entity("Totals of a user", "USER#{userId}", "#PROFILE")
PLAYLIST = Entity("Playlist", "PLAYLIST#{playlistId}", "#META")
ENTRY = Entity("Playlist entry", "PLAYLIST#{playlistId}", "ENTRY#{rank}#{videoId}")
MEMBERSHIP = Entity("Playlist membership", "PLAYLIST#{playlistId}", "HAS#{videoId}")
FOLDER_COUNT = Entity("Folder count", "FOLDERS#{userId}", "{parent}//{folderName}")
TAG_COUNT = Entity("Tag count", "TAGCOUNT#{tag}", "#COUNT")
SERVICE_TOTALS = Entity("Totals of all videos", "SERVICE#{shard}", "TOTALS")
UPLOAD_HOUR = Entity("Uploads of an hour", "SERVICE#{shard}", "ARRIVED#{hour}")
QUOTA = Entity("Daily job quota", "USER#{userId}", "QUOTA#{date}")
IMPORT = Entity("Import checkpoint", "IMPORT#{importId}", "#MARK")
SHARE = Entity("Concurrency quota", "SHARE#{userId}", "SENT#{queue}")
WAITING = Entity("Waiting job or webhook", "SHARE#{userId}", "WAITS#{queue}#{queuedAt}#{name}")
REVERT = Entity("Revert run", "REVERT#{revertId}", "#RUN")
REVERT_PART = Entity("Part of a revert run", "REVERT#{revertId}", "{part}")
WEBHOOK = Entity("Webhook", "WEBHOOK#{webhookId}", "#META")
WEBHOOK_STATE = Entity("Webhook checkpoint", "WEBHOOK#{webhookId}", "#PLACE")
WEBHOOK_ATTEMPTS = Entity("Delivery attempts", "WEBHOOK#{webhookId}", "ATTEMPTS#{at}#{turn}")
WEBHOOKS = Entity("Webhooks of a user", "USER#{userId}", "#WEBHOOKS")
INDEX = Entity("Search index generation", "INDEX", "#META")
COMPARISON_REPORT = Entity("Report of a comparison", "COMPARISON", "#LAST")
HEALTH = Entity("Health probe", "HEALTH", "HEALTH")
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
    FOLDER,
    SCHEDULE,
    ORDER,
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
    FOLDER_COUNT,
    SERVICE_TOTALS,
    UPLOAD_HOUR,
    VIEW_COUNTER,
    VIEW_HOUR,
    VIEW_DAY,
    VIEWER,
    PROCESSED_PAGE,
    TOP,
    VIEWS_BY_HOUR,
    RESERVATION,
    IDEMPOTENCY,
    IMPORT,
    REVERT,
    REVERT_PART,
    WEBHOOK,
    WEBHOOK_STATE,
    WEBHOOK_ATTEMPTS,
    WEBHOOKS,
    INDEX,
    COMPARISON_REPORT,
    HEALTH,
)
AUDIT = Entity("Audit entry", "VIDEO#{videoId}", "{at}#{sequence}")
PLAYLIST_AUDIT = Entity("Audit entry of a playlist", "PLAYLIST#{playlistId}", "{at}#{sequence}")
CHANGES = Entity("Log of all changes", "CHANGES#{shard}", "{position}")
OWNER_CHANGES = Entity("Log of one owner's changes", "OWNERCHANGES#{userId}", "{position}")
TRAIL_ENTITIES = (AUDIT, PLAYLIST_AUDIT)
FEED_ENTITIES = (CHANGES, OWNER_CHANGES)
AUDIT_ENTITIES = (*TRAIL_ENTITIES, *FEED_ENTITIES)
TAIL = "TAIL"
"""Sort key of the item to which new changes of a log are appended. It sorts after all positions in the log."""

USER_INDEX = Index(
    "UserIdIndex",
    partition=(Attribute("userId"),),
    sort=(Attribute("createdAt", "N"), Attribute("videoId")),
    purpose="one owner's videos by time",
    projection=PROJECTION,
)
CATEGORY_INDEX = Index(
    "CategoryIndex",
    partition=(Attribute("category"), Attribute("categoryShard", "N")),
    sort=(Attribute("createdAt", "N"), Attribute("videoId")),
    purpose="one category's published videos by time; sparse: `categoryShard` is set only while the video is listed",
    projection=PROJECTION,
)
RELATION_INDEX = Index(
    "RelationIndex",
    partition=(Attribute("rel"), Attribute("relShard", "N")),
    sort=(Attribute("relSort", "N"), Attribute("relId")),
    purpose="by time: published videos, and videos of each status, tag and region; a person's videos by year; a series' "
    "episodes in order; a user's folders; playlists by owner and by video; ratings of a video; tags by use; the counted "
    "states of a user's videos; jobs by deadline; overloaded, so that new relations need no new index",
    projection=PROJECTION,
)
YEAR_INDEX = Index(
    "YearIndex",
    partition=(*CATEGORY_INDEX.partition, Attribute("releaseYear", "N")),
    sort=CATEGORY_INDEX.sort,
    purpose="one category's published videos of one release year, by time; keys only, so that a new title does not write to it",
    projection=(),
)
USER_DURATION_INDEX = Index(
    "UserDurationIndex",
    partition=USER_INDEX.partition,
    sort=(Attribute("duration", "N"), Attribute("videoId")),
    purpose="one owner's videos by duration; keys only, and sparse: the probe sets `duration`",
    projection=(),
)
CATEGORY_DURATION_INDEX = Index(
    "CategoryDurationIndex",
    partition=CATEGORY_INDEX.partition,
    sort=USER_DURATION_INDEX.sort,
    purpose="one category's published videos by duration; keys only, and sparse",
    projection=(),
)
USER_ORDER_INDEX = Index(
    "UserOrderIndex",
    partition=(*USER_INDEX.partition, Attribute("orderBy")),
    sort=(Attribute("orderValue"), Attribute("videoId")),
    purpose="one owner's videos by title, rating or views (`orderBy`); keys only, and sparse",
    projection=(),
)
CATEGORY_ORDER_INDEX = Index(
    "CategoryOrderIndex",
    partition=(*CATEGORY_INDEX.partition, Attribute("orderBy")),
    sort=USER_ORDER_INDEX.sort,
    purpose="one category's published videos by title, rating or views; keys only, and sparse",
    projection=(),
)
INDEXES = (
    USER_INDEX,
    CATEGORY_INDEX,
    RELATION_INDEX,
    YEAR_INDEX,
    USER_DURATION_INDEX,
    CATEGORY_DURATION_INDEX,
    USER_ORDER_INDEX,
    CATEGORY_ORDER_INDEX,
)

BY_TITLE, BY_RATING, BY_VIEWS = "title", "rating", "viewCount"
"""Values of `orderBy`. They are also values of the parameter `sort` of `listVideos`."""

CHANGESET = "changeset"
"""Name of the attribute of an audit entry that stores the id of its change set. The attribute is absent if the entry
cannot be reverted with a change set."""
CHANGESET_INDEX = Index(
    "ChangesetIndex",
    partition=(Attribute(CHANGESET),),
    # Sorted by key, not by time: an import writes many entries with one change set. DynamoDB can split such a partition
    # by random ids, but not by increasing times.
    sort=(Attribute(PARTITION_KEY), Attribute(SORT_KEY)),
    purpose="the writes of one request or one import, video by video; sparse: it lacks writes of jobs that the request caused",
    projection=("owner", TTL_ATTRIBUTE),
)
"""Index of the table `VideoAudit` by change set."""
AUDIT_INDEXES = (CHANGESET_INDEX,)

FEED = "FEED"
"""RelationIndex partition (`rel`) of listed videos, sharded. A video is listed while it is ready and public, from its
publishAt until its expiresAt."""

SCHEDULED = "SCHEDULED"
"""RelationIndex partition (`rel`) of schedules, sharded. `relSort` is the video's next publishAt or expiresAt, at which
the service must list or unlist the video."""


def status_relation(status: str) -> str:
    """Return the RelationIndex partition (`rel`) that lists the unpublished videos with this status.

    The partition is sharded.
    """
    return f"STATUS#{status}"


def job_relation(state: str) -> str:
    """Return the RelationIndex partition (`rel`) of jobs in this state.

    `relSort` is the time at which the sweeper checks the job.
    """
    return f"JOB#{state}"


def person_relation(person_id: str) -> str:
    """Return the RelationIndex partition (`rel`) of a person's credits in listed videos.

    `relSort` is the video's release year, or 0 if it has none. `relId` is the videoId.
    """
    return f"PERSON#{person_id}"


def region_relation(region: str) -> str:
    """Return the RelationIndex partition (`rel`) that lists the releases of listed videos in a region.

    The partition is sharded. `relSort` is the video's createdAt. `relId` consists of the videoId, `#` and the language.
    """
    return f"REGION#{region}"


def tag_relation(tag: str) -> str:
    """Return the RelationIndex partition (`rel`) that contains the listed videos with a tag.

    The partition is sharded. The tag must be case-folded (shared/videos/tags.py). `relSort` is the video's createdAt.
    """
    return f"TAG#{tag}"


def series_relation(video_id: str, user_id: str) -> str:
    """Return the RelationIndex partition (`rel`) of the episodes that a user added to a series.

    `relSort` is computed from season and episode (shared/videos/entries.py), and `relId` is the videoId. Any user can
    add episodes to a series. Each user's episodes have their own partition. Therefore the list of the owner's episodes
    reads no episodes of other users.
    """
    return f"SERIES#{video_id}#{user_id}"


def folders_relation(user_id: str) -> str:
    """Return the RelationIndex partition (`rel`) of a user's videos that are in folders.

    `relSort` is 0. `relId` begins with the path of the folder (shared/core/folders.py), so that one Query selects a
    folder with or without its subfolders. A deleted video has no entry.
    """
    return f"FOLDERS#{user_id}"


def rated_relation(video_id: str) -> str:
    """Return the RelationIndex partition (`rel`) that lists a video's ratings.

    The partition is sharded by user. `relId` is the userId. `relSort` is always 0, so that a changed rating does not
    move its index entry.
    """
    return f"RATED#{video_id}"


def playlists_relation(user_id: str) -> str:
    """Return the RelationIndex partition (`rel`) of a user's playlists.

    `relSort` is the playlist's createdAt, and `relId` is its playlistId.
    """
    return f"PLAYLISTS#{user_id}"


def in_playlist_relation(video_id: str) -> str:
    """Return the RelationIndex partition (`rel`) of the playlists that contain a video.

    `relSort` is the time at which a user added the video to the playlist, and `relId` is the playlistId.
    """
    return f"INPLAYLIST#{video_id}"


def counted_relation(user_id: str) -> str:
    """Return the RelationIndex partition (`rel`) that lists the videos in a user's totals.

    The partition is sharded. The indexed item is the video's MARKER item, which stores the amounts that the video has
    added to the totals. The item exists until the video is permanently deleted. `relSort` is 0, and the index projects
    no attribute that changes. Therefore only the creation and the permanent deletion of the item write to the index.
    """
    return f"COUNTED#{user_id}"


def viewed_relation(period: str) -> str:
    """Return the RelationIndex partition (`rel`) that lists the videos viewed in a period.

    The partition is sharded. `period` is an hour (`2026-11-22T13`) or a day (`2026-11-22`). `relSort` is the video's
    view count at the start of the period, and `relId` is the videoId. Only the video's first view in the period writes
    to the index.
    """
    return f"VIEWED#{period}"


def follower_relation(user_id: str | None) -> str:
    """Return the RelationIndex partition (`rel`) of webhooks that subscribe to the changes of a user.

    `None` means webhooks that subscribe to the changes of all users. `relSort` is the webhook's createdAt, and `relId`
    is its webhookId. A paused webhook has no entry.
    """
    return "FOLLOWERS" if user_id is None else f"FOLLOWERS#{user_id}"


DUE = "DUE"
"""RelationIndex partition (`rel`) of webhooks that the sweeper must check. `relSort` is the time of the check, and
`relId` is the webhookId."""

TAGS = "TAGS"
"""RelationIndex partition (`rel`) of the tag counts. `relSort` is the number of listed videos with the tag, and `relId`
is the case-folded tag."""

USERS = "USERS"
"""RelationIndex partition (`rel`) of the users' totals. `relSort` is 0, and `relId` is the userId. The index projects
no attribute that changes. Therefore only the first write of a user's totals writes to the index."""


def lane_of(id_: str) -> int:
    """Return the lane (0 to 31) of a viewer or a user. The partition keys of VIEWER and RATING contain the lane."""
    return crc32(id_.encode()) % LANES


def shard_of(video_id: str) -> int:
    """Return the shard (0 to 3) of a video's index entries."""
    return crc32(video_id.encode()) % SHARDS
