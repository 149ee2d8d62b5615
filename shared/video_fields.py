"""Fields of a video, as a table with one row per field.

The rows determine the request models, the document and its summary in lists, and the projection of the indexes. They
also determine the attributes in the policies of roles, the search facets, the tables in docs/data-model.md and the
inputs of the console. The console's labels are in console/texts/en.js.

The rows are plain data. Therefore reading a video does not import pydantic, and the CDK app can import this module.
"""

from typing import Any, Literal, NamedTuple

REQUIRED: Any = ...
"""Value of `default` for a field that every new video must have."""


class VideoField(NamedTuple):
    """Declaration of a field of a video's document, or of an attribute that is only stored.

    Example: `VideoField("studio", "Studio that made the film", "Category")`.
    """

    name: str
    description: str
    """Description of the field in the OpenAPI document and docs/data-model.md: one sentence without a full stop."""
    type: str = ""
    """Type of the field in requests, as text. The text uses names from shared/core/fields.py and
    shared/videos/models.py. Empty if only the server writes the field. The field's schema is then in
    shared/openapi/videos.py."""
    default: Any = None
    """Value in a new video if the request omits the field. `None` means that the field is absent or, for a map,
    empty."""
    most: int | None = None
    """Maximum number of entries of a map; `None` if the field is not a map."""
    patch_type: str = ""
    """Type of the field in patches, if it differs from `type`. Maps have a different type in patches, because null
    removes an entry."""
    create: Literal["client", "admin"] = "client"
    """Callers that may set the field in a new video: all (`client`), or only admins. The service ignores a value from
    any other caller."""
    patch: Literal["remove", "replace", ""] = "remove"
    """Whether a patch may replace or remove the field (`remove`), only replace it (`replace`), or not change it
    (empty)."""
    is_shown: bool = True
    """Whether the video's document contains the field. Otherwise it is only stored."""
    is_private: bool = False
    """Whether the document contains the field only for the owner and admins."""
    is_probed: bool = False
    """Whether the job `probe` sets the field. The job never replaces a value that a user set. The video's `origins` stores
    the author of the value."""
    is_unique: bool = False
    """Whether the field's values must differ between all videos of an owner (shared/videos/reservations.py)."""
    decides_access: bool = False
    """Whether access to the video depends on the field."""
    projected: int = 0
    """Position of the field in the projection of the indexes, from 1. 0 if the indexes do not contain the field; lists
    then omit it.

    Never change a position, because CloudFormation replaces an index if the order of its projection changes.
    """
    facet: str = ""
    """Name of the search facet that counts the field's values; empty if it has no facet."""

    @property
    def is_map(self) -> bool:
        """Whether the value is a map: an object with keys that the client chooses. Stored videos have all maps, even
        empty ones, but omit other fields without a value."""
        return self.most is not None


VIDEO_FIELDS = (
    VideoField(
        "videoId",
        "UUID (RFC 9562) of the video, any version",
        "VideoId",
        create="admin",
        patch="",
        projected=13,
    ),
    VideoField(
        "userId",
        "Owner: the subject of the user's tokens",
        "UserId",
        create="admin",
        patch="",
        decides_access=True,
        projected=10,
    ),
    VideoField("createdAt", "Time of creation, in epoch seconds", "Seconds", create="admin", patch="", projected=12),
    VideoField("updatedAt", "Time of the last write, in epoch seconds"),
    VideoField(
        "externalId",
        "Id of the video in the client's own system. No two videos of an owner have the same one",
        "ExternalId",
        is_private=True,
        is_unique=True,
    ),
    VideoField(
        "slug",
        "Readable name for URLs, such as `harbour-at-dawn`. No two videos of an owner have the same one",
        "Slug",
        is_unique=True,
    ),
    VideoField("title", "Title of the video", "Title", default=REQUIRED, patch="replace", projected=1),
    VideoField("description", "Text about the video", "Description"),
    VideoField("duration", "Duration in milliseconds", "Milliseconds", is_probed=True, projected=7),
    VideoField("fileSize", "Size of the source in bytes", "Bytes", is_probed=True),
    VideoField("format", "Container format, such as `mp4`", "Format", is_probed=True, projected=8),
    VideoField("resolution", "Resolution of the source, such as `1920x1080`", "Resolution", is_probed=True),
    VideoField("videoCodec", "Video codec, such as `h264`", "Codec", is_probed=True),
    VideoField("audioCodec", "Audio codec, such as `aac`", "Codec", is_probed=True),
    VideoField("frameRate", "Frames per second", "FrameRate", is_probed=True),
    VideoField(
        "origins",
        "Author of each field that the probe can set: `person`, `job` or `import`; jobs do not overwrite a person's value",
    ),
    VideoField(
        "resolutions",
        "Renditions by name: the S3 URI of each file",
        "dict[Name, S3Uri]",
        most=20,
        patch_type="dict[Name, S3Uri | None]",
        is_private=True,
    ),
    VideoField(
        "tags",
        "Set of tags without order; tags that differ only in case are duplicates",
        "Tags",
        facet="tag",
    ),
    VideoField("category", "Category, such as `demos`", "Category", projected=9, facet="category"),
    VideoField(
        "folder",
        "Path of the folder that contains the video, such as `clients/acme/2026`",
        "Folder",
        is_private=True,
    ),
    VideoField("releaseYear", "Year of the first release", "Year", facet="year"),
    VideoField("language", "BCP 47 tag, such as `en-NZ`", "Language"),
    VideoField(
        "seriesId",
        "videoId of the series of this episode; a series lists only episodes of its owner",
        "VideoId",
    ),
    VideoField("season", "Season of the series; only with `seriesId`", "Season"),
    VideoField("episode", "Episode of the season; only with `seriesId`", "Episode"),
    VideoField(
        "status",
        "State of the video in its life cycle",
        "LiveStatus",
        create="admin",
        patch="replace",
        decides_access=True,
        projected=2,
    ),
    VideoField(
        "visibility",
        "Whether all users may see the video when it is ready, or only the owner and admins",
        "Visibility",
        default="private",
        patch="replace",
        decides_access=True,
        projected=3,
    ),
    VideoField(
        "publishAt",
        "Time of publication in epoch seconds, before `expiresAt`; until then, only the owner and admins see the video",
        "Seconds",
        decides_access=True,
        projected=4,
    ),
    VideoField(
        "expiresAt",
        "Time of expiry in epoch seconds, after `publishAt`, and in the future when you set it; from then on, only the owner and admins see the video",
        "Seconds",
        decides_access=True,
        projected=5,
    ),
    VideoField(
        "purgeAt",
        "Time in epoch seconds at which a deleted or expired video is removed permanently",
        is_private=True,
        decides_access=True,
        projected=6,
    ),
    VideoField(
        "metadata",
        "Custom keys with scalar values",
        "dict[MetadataKey, Scalar]",
        most=50,
        patch_type="dict[MetadataKey, NullableScalar]",
    ),
    VideoField(
        "thumbnails",
        "Thumbnails by name",
        "dict[Name, Thumbnail]",
        most=20,
        patch_type="dict[Name, ThumbnailPatch | None]",
    ),
    VideoField("source", "Source video of the last upload", is_private=True),
    VideoField("failure", "Reason why the video is `failed`, if a job failed", is_private=True),
    VideoField("viewCount", "Number of views; stored in separate items"),
    VideoField("version", "Number of the version, incremented by each change"),
    VideoField("schemaVersion", "Schema version of the stored item"),
    VideoField("poster", "URL of the poster", is_shown=False, projected=11),
    VideoField("pictures", "Thumbnails that jobs created, by name", is_shown=False),
    VideoField(
        "posterTime",
        "Position of the poster frame that the owner chose, in milliseconds",
        is_shown=False,
    ),
    VideoField("categoryShard", "Shard in CategoryIndex; only while the video is listed", is_shown=False),
    VideoField("orderBy", "`title`, the order to which `orderValue` belongs", is_shown=False),
    VideoField("orderValue", "Title without case and accents, by which lists are sorted", is_shown=False),
    VideoField("updatedAs", "Kind of the last author: `person` or `job`", is_shown=False),
    VideoField("statusBeforeDelete", "Status to restore", is_shown=False),
    VideoField("deletedAt", "Time of the deletion, in epoch seconds", is_shown=False),
)
"""All fields of a video, in their order in the document."""

_INTEGER_TYPES = ("Bytes", "Episode", "Milliseconds", "Season", "Seconds", "Year")

SENT = tuple(field for field in VIDEO_FIELDS if field.type)
"""Fields that clients may write."""

PROJECTION = tuple(field.name for field in sorted(VIDEO_FIELDS, key=lambda field: field.projected) if field.projected)
"""Names of the attributes that the indexes project. `version`, `updatedAt` and `description` are omitted, because
otherwise every PATCH would write to all indexes."""

PROBED = tuple(field.name for field in VIDEO_FIELDS if field.is_probed)
"""Names of the fields that the job `probe` sets. The video's `origins` stores the author of each value: a person, a job
or an import."""

LONGEST_UNIQUE = 200
"""Maximum number of characters of a value that must be unique among an owner's videos."""

UNIQUE = tuple(field.name for field in VIDEO_FIELDS if field.is_unique)
"""Names of the fields that must have a different value in each video of an owner."""

VISIBILITY_ATTRIBUTES = (*(field.name for field in VIDEO_FIELDS if field.decides_access), "schemaVersion")
"""Names of the attributes that access checks read. They include the schema version, which shows whether this release of
the service can read the item."""

INTEGERS = tuple(field.name for field in SENT if field.type in _INTEGER_TYPES)
"""Names of the fields with integer values."""

FACETS = dict(sorted((field.facet, field.name) for field in VIDEO_FIELDS if field.facet))
"""Maps each search facet to the name of its field. If you change this table, increment `FORM` in
shared/search/document.py."""

NUMERIC_FACETS = tuple(facet for facet, name in FACETS.items() if name in INTEGERS)
"""Names of the search facets with integer values."""
