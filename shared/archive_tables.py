"""Columns of the archive's SQL tables. The Parquet files and the tables of the Glue catalogue have these columns."""

import re
from typing import NamedTuple

from shared.schema import TABLE_NAME
from shared.video_fields import VIDEO_FIELDS, VideoField


class ArchiveColumn(NamedTuple):
    """Column of a table: name, type in SQL, and meaning."""

    name: str
    type: str
    """Type, as the Glue catalogue names it: `string`, `bigint`, `double`, `timestamp` or `date`."""
    meaning: str


class ArchiveTable(NamedTuple):
    """SQL table of the archive, stored as Parquet files. The key of a file contains the values of the partition
    columns.

    For example, a file of `changes` has the key `changes/entity=video/day=2026-01-31/part.parquet`.
    """

    name: str
    meaning: str
    columns: tuple[ArchiveColumn, ...]
    partitions: tuple[ArchiveColumn, ...]

    @property
    def prefix(self) -> str:
        """Key prefix of the table's files."""
        return f"{self.name}/"

    def key(self, **values: str) -> str:
        """Return the key of a partition's Parquet file. `values` maps each partition column to its value in this
        partition."""
        folders = "".join(f"{column.name}={values[column.name]}/" for column in self.partitions)
        return f"{self.prefix}{folders}part.parquet"


ARCHIVED_ENTITIES = ("video", "credit", "release", "captions", "chapters", "rating", "job", "playlist")
"""Values of the partition column `entity`. A test compares them with the entities of audit entries."""
FIRST_DAY = "2026-01-01"
"""Earliest value of the partition column `day`. The service has no older changes."""

_DAY = ArchiveColumn("day", "date", "UTC day")
_ENTITY = ArchiveColumn("entity", "string", "changed item: " + ", ".join(f"`{name}`" for name in ARCHIVED_ENTITIES))
_CHANGE = (
    ArchiveColumn("change_id", "string", "id of the change, as in the change feed and in webhooks"),
    ArchiveColumn("video_id", "string", "video; null for a change of a playlist"),
    ArchiveColumn("playlist_id", "string", "playlist; null for a change of a video"),
    ArchiveColumn("changed_at", "timestamp", "time of the change, in UTC"),
    ArchiveColumn("action", "string", "`action` of the audit entry"),
    ArchiveColumn("author_kind", "string", "`person`, `job` or `service`"),
    ArchiveColumn("author", "string", "user id, or name of the job or service"),
)

CHANGES = ArchiveTable(
    "changes",
    "One row for each audit entry",
    (
        *_CHANGE,
        ArchiveColumn("person_id", "string", "credited person"),
        ArchiveColumn("region", "string", "region of a release"),
        ArchiveColumn("language", "string", "language of captions or of a release"),
        ArchiveColumn("kind", "string", "kind of a job"),
        ArchiveColumn("correlation_id", "string", "id of the request or import"),
        ArchiveColumn("sequence", "string", "sequence number in the table's stream"),
        ArchiveColumn("version", "bigint", "version of the changed item"),
        ArchiveColumn("attempt", "bigint", "attempt of a job"),
        ArchiveColumn("fields", "bigint", "number of changed fields, including fields that the entry omits"),
    ),
    (_ENTITY, _DAY),
)
CHANGED_FIELDS = ArchiveTable(
    "changed_fields",
    "One row for each changed field of an audit entry",
    (
        *_CHANGE,
        ArchiveColumn("field", "string", "JSON Pointer of the field"),
        ArchiveColumn("old_value", "string", "text, or another value as JSON; null if the field was absent"),
        ArchiveColumn("new_value", "string", "text, or another value as JSON; null if the field is absent"),
    ),
    (_ENTITY, _DAY),
)
_TYPES = {
    "Bytes": "bigint",
    "Episode": "bigint",
    "FrameRate": "double",
    "Milliseconds": "bigint",
    "Season": "bigint",
    "Seconds": "timestamp",
    "Year": "bigint",
}
"""Maps the type of a field to the type of its column. Fields of all other types have columns of the type `string`."""
_SERVER_TYPES = {
    "updatedAt": "timestamp",
    "purgeAt": "timestamp",
    "deletedAt": "timestamp",
    "viewCount": "bigint",
    "version": "bigint",
    "schemaVersion": "bigint",
}
"""Column types of the fields that only the server writes, by field name."""
UNUSED_FIELDS = ("source",)
"""Fields of a video's document for which the table `videos` has no column."""
SNAPSHOT_FIELDS = tuple(
    field for field in VIDEO_FIELDS if (field.is_shown or field.name == "deletedAt") and field.name not in UNUSED_FIELDS
)
"""Fields of a video with a column of the table `videos`, in the order of the columns."""


def column_of(field: VideoField) -> ArchiveColumn:
    """Return the column of a field. The name of the column is in snake case, such as `created_at`."""
    name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in field.name)
    type_ = _SERVER_TYPES.get(field.name) or _TYPES.get(field.type, "string")
    meaning = re.sub(",? in epoch seconds", "", field.description) if type_ == "timestamp" else field.description
    return ArchiveColumn(name, type_, meaning)


VIDEOS = ArchiveTable(
    "videos",
    "One row for each stored video, in the snapshot of each day",
    tuple(column_of(field) for field in SNAPSHOT_FIELDS),
    (_DAY,),
)
VIEWS = ArchiveTable(
    "views",
    "One row for each video that was viewed on a day",
    (
        ArchiveColumn("video_id", "string", "video"),
        ArchiveColumn("category", "string", "category of the video at its first view of the day"),
        ArchiveColumn("views", "bigint", "number of counted views"),
        ArchiveColumn("watched_ms", "bigint", "watch time of these views, in milliseconds"),
    ),
    (_DAY,),
)
ARCHIVE_TABLES = (CHANGES, CHANGED_FIELDS, VIDEOS, VIEWS)

RESULTS = "results/"
"""Key prefix of the results of queries. The bucket deletes them after some days."""
MANIFESTS = "manifests/"
"""Key prefix of the compactor's manifests: one for each day, and one for the snapshots."""
EXPORTS = "exports/"
"""Key prefix of DynamoDB's exports of the main table. Only the compactor reads them, and the bucket deletes them."""
STAGED = "staged/"
"""Key prefix of converted files of unfinished snapshots. The bucket deletes these files after the same number of days
as the files below EXPORTS."""


def database_of(table_name: str) -> str:
    """Return the name of the Glue database that belongs to a main table: `video_metadata_prod` for
    `VideoMetadata-prod`."""
    env = table_name.removeprefix(TABLE_NAME).removeprefix("-")
    return f"video_metadata_{env}" if env else "video_metadata"


def workgroup_of(table_name: str) -> str:
    """Return the name of the Athena workgroup that belongs to a main table. It is the name of the table."""
    return table_name
