"""Descriptions of the stored items, their attributes and their relations, for the tables of docs/data-model.md.

tests/unit/test_data_model.py compares the descriptions with the items that the service stores.
"""

from collections.abc import Mapping
from typing import NamedTuple

from shared import schema
from shared.schema import Entity
from shared.video_fields import VIDEO_FIELDS, VideoField

STORED_VIDEO_FIELDS: tuple[VideoField, ...] = tuple(field for field in VIDEO_FIELDS if field.name != "viewCount")
"""Fields of a video that are attributes of its item. The view count is stored in a separate item."""

COMMON: Mapping[str, str] = {
    "pk, sk": "partition key and sort key",
    "rel, relShard, relSort, relId": "key in `RelationIndex`: relation, shard, sort value, and the id that orders ties",
    "schemaVersion": "version of the item's format",
    "updatedAt": "time of the last write",
    "updatedBy": "last author: the subject of the token, or a job such as `job:probe`",
    "updatedFor": "id of the request that caused the write",
    "writeId": "random id of the write, which identifies a write whose response was lost",
    "purgeAt": "time from which DynamoDB may delete the item (TTL)",
}
"""Descriptions of the attributes that an item of any entity may have, by attribute name."""


class ItemDescription(NamedTuple):
    """Purpose, writers and attributes of an entity's items."""

    entity: Entity
    about: str
    attributes: Mapping[str, str]
    """Descriptions of the item's attributes by name, without the attributes in COMMON. A key may list several names:
    `at, sequence`."""

    @property
    def names(self) -> frozenset[str]:
        """Names of all attributes in `attributes`."""
        return names_in(self.attributes)


def names_in(attributes: Mapping[str, str]) -> frozenset[str]:
    """Return the attribute names in the keys of a description. A key may list several names: `at, sequence`."""
    return frozenset(name for names in attributes for name in names.split(", "))


_VERSION = {"version": "version for `If-Match`"}
_OWNED = {
    "owner": "owner of the video, who may read its audit entries",
    "removing": "true in the write before the deletion; this write names the author of the deletion",
}
_COUNTED = {"version": "incremented by each update"}
_ENTRY = {
    "action, by, changes, version": "action, author, old and new values, version",
    "at, sequence, correlationId": "time in milliseconds, order, request",
}
_BLOCK = {
    "first, count": "position of the first change, and number of changes",
    "at": "time of the last append, in milliseconds",
    "changes": "compressed JSON of the changes",
}

ITEMS: tuple[ItemDescription, ...] = (
    ItemDescription(
        schema.VIDEO,
        "A video. Written by `videos`; `arrivals`, `probe`, `thumbnails` and `jobs` write single fields. `tags` is a string set, "
        "absent when empty. `origins` has `person`, `job` or `import` for each probed field. `source` has the URI and ETag of the "
        "source file, the probed facts, and the wanted and finished renditions with their sizes. `failure` has the failed job and "
        "the reason. `version` is the condition of the next write.",
        {field.name: field.description for field in STORED_VIDEO_FIELDS},
    ),
    ItemDescription(
        schema.UPLOAD,
        "An announced source file. Written by `uploads` and `arrivals`; expires after 7 days.",
        {
            "videoId, uploadId, uri": "ids, and the URI of the object",
            "contentType, fileSize": "announced type and size",
            "multipartId, partSize": "id of a multipart upload in S3, and the size of its parts",
            "state": "`open`, `received`, `refused` or `aborted`",
            "requestedBy, requestedAt": "user and time of the request",
        },
    ),
    ItemDescription(
        schema.JOB,
        "Desired state and progress of a [job](jobs.md).",
        {
            "videoId, kind, owner": "video, kind of job, and the video's owner",
            "state, attempt, spent, progress": "progress; `spent` counts the attempts before a retry that a user requested",
            "input, inputHash, since": "input, its hash, and the state of the video that required the job",
            "createdAt, queuedAt, sentAt, sends": "times of creation and of queueing; time of the last message, and number of messages",
            "startedAt, worker, lease, leaseUntil": "lease of the worker",
            "output, finishedAt, error": "result",
            "updatedAs": "kind of the last author: `person` or `job`",
        },
    ),
    ItemDescription(
        schema.CREDIT,
        "A person's part in the video. Written by `relations`; `aggregates` moves its index entry when the release year changes.",
        {
            "videoId, personId, name, ordering, roles": "video, person, position in the list, and roles",
            **_VERSION,
            **_OWNED,
        },
    ),
    ItemDescription(
        schema.RELEASE,
        "Titles in a region and language. Written by `relations`.",
        {
            "videoId, region, language, titles": "video, region, language (absent if none in particular), and titles",
            **_VERSION,
            **_OWNED,
        },
    ),
    ItemDescription(
        schema.CAPTION,
        "Captions in one language. Written by `captions`, and by `thumbnails` if the source file has them. The text is the object "
        "`captions/{videoId}/{text}.vtt` of the media bucket. The object's name is the hash of the text. The object never changes, and is deleted with the video.",
        {
            "videoId, language": "video and language",
            "text, cues, size": "hash of the text, number of cues, and size in bytes",
            "origin": "`owner`, or `film` if a job extracted the captions from the source file",
            "upload": "id of the upload whose source file had the captions; the router deletes the captions when a later file arrives",
            **_VERSION,
            **_OWNED,
        },
    ),
    ItemDescription(
        schema.CHAPTERS,
        "Start and title of each chapter. Written by `captions`.",
        {
            "videoId, chapters": "video, and its chapters in order: `start` in milliseconds, and `title`",
            **_VERSION,
            **_OWNED,
        },
    ),
    ItemDescription(
        schema.TAG,
        "Entry of a listed video in the list of a tag. Written by `videos` in the video's transaction, and by `aggregates` after a "
        "job changed the video.",
        {"videoId, tag": "video and case-folded tag"},
    ),
    ItemDescription(
        schema.EPISODE,
        "Entry of a listed episode in the list of its series. Written by the same functions as entries of tags.",
        {"videoId": "the episode"},
    ),
    ItemDescription(
        schema.FOLDER,
        "Entry of a video in the list of its folder. Absent while the video is deleted. Written by the same functions as entries of tags.",
        {"videoId": "the video"},
    ),
    ItemDescription(
        schema.SCHEDULE,
        "Next time at which the video enters or leaves the lists. Present while `publishAt` or `expiresAt` is in the future. "
        "Written by `aggregates`.",
        {"videoId": "the video"},
    ),
    ItemDescription(
        schema.ORDER,
        "Position of a video in lists by `rating` or `viewCount`. Absent for a video without ratings or views. Written by `tallies` and "
        "`rankings`; `aggregates` moves it when the video changes.",
        {
            "videoId, userId": "video and owner",
            "category, categoryShard": "partition of the category's list; only while the video is listed",
            "orderBy, orderValue": "order, and the value with a fixed number of digits",
        },
    ),
    ItemDescription(
        schema.RATING_TOTALS,
        "Exact sums of a video's ratings. `tallies` adds the difference of each changed rating.",
        {
            "videoId, votes, sum, likes, dislikes": "video and sums; the average is `sum` / `votes`",
            "imported": "`average` and `votes` of another service",
            "owner": "owner of the video, who may read the audit entries of imported ratings",
            **_COUNTED,
            "tally": "number of updates by `tallies`, the condition of the next one",
            "seen": "deduplication keys of the newest counted changes, 12 bytes each: time in seconds, and a hash of the change's id",
            "seenUpTo": "time of the newest change whose key was moved to a page; 0 if there is none",
        },
    ),
    ItemDescription(
        schema.MARKER,
        "State of the video as counted in the totals, so that repeated messages count once. Written by `aggregates`.",
        {
            "videoId, userId, counted, tags": "video, owner, counted values and tags",
            "version": "version of the video that was counted",
        },
    ),
    ItemDescription(
        schema.RATING,
        "One user's rating. The lane is crc32(userId) mod 32. Written by `ratings`.",
        {
            "userId, videoId": "user and video",
            "value, like, ratedAt": "1 to 10, or a like, and the time; absent after the user withdrew the rating",
        },
    ),
    ItemDescription(
        schema.PROFILE,
        "Totals of one user's videos and playlists. Written by `aggregates`, except the number of playlists, which `playlists` writes.",
        {
            "userId": "the user",
            "uploaded, processing, ready, failed, deleted": "number of videos by status",
            "bytes, milliseconds": "total size and duration",
            "playlists": "number of playlists",
            **_COUNTED,
        },
    ),
    ItemDescription(
        schema.QUOTA,
        "Jobs that one owner started on a day, limited by `jobsPerDay`. Written by `uploads` and `jobs`.",
        {"jobs, last": "number of jobs, and the last reservation, so that a retried write counts once"},
    ),
    ItemDescription(
        schema.SHARE,
        "Jobs or webhooks that hold slots of an owner's [concurrency quota](jobs.md#jobs-of-one-owner-at-a-time). Written by "
        "`stream_router` for jobs, and by `deliveries` for webhooks. For webhooks, `queue` is `deliveries`, `slow-deliveries`, or `all-slow-deliveries` "
        "with `*` as the user.",
        {
            "jobs": "set of `videoId/kind` or `webhookId`",
            "checkedAt": "time of the last comparison of the set with the jobs or webhooks",
        },
    ),
    ItemDescription(
        schema.WAITING,
        "Job or webhook that waits for a slot, in the order of queueing. `name` is `videoId#kind` or `webhookId`. Written by "
        "`stream_router` and `deliveries`.",
        {"job": "`videoId/kind` or `webhookId`"},
    ),
    ItemDescription(
        schema.PLAYLIST,
        "A playlist. Written by `playlists`.",
        {
            "playlistId, userId, createdAt": "id, owner, and time of creation",
            "title, description, visibility": "fields that the owner writes",
            "entryCount, lastRank": "number of entries, and the rank of the last one",
            "moves": "entries that the last write added, moved or removed, for the audit trail",
            "deletedAt": "time of deletion, which hides the playlist; DynamoDB deletes the playlist 30 days later",
            "version": "incremented by each change of the playlist or its entries",
        },
    ),
    ItemDescription(
        schema.ENTRY,
        "Video of a playlist, in order. Ranks are fractions, so a move rewrites one entry.",
        {"playlistId, videoId, rank, addedAt": "playlist, video, position, and time"},
    ),
    ItemDescription(
        schema.MEMBERSHIP,
        "Rank of a video in a playlist. Ensures that the playlist contains the video only once.",
        {"playlistId, videoId, rank, addedAt": "playlist, video, position, and time"},
    ),
    ItemDescription(
        schema.TAG_COUNT,
        "Number of listed videos with a tag. Written by `aggregates`.",
        {"tag, count": "case-folded tag, and number of listed videos", **_COUNTED},
    ),
    ItemDescription(
        schema.FOLDER_COUNT,
        "Numbers of videos in an owner's folder. The sort key begins with the parent, so that one Query lists all folders in a folder. "
        "The item remains if the numbers are 0. Written by `aggregates`.",
        {
            "userId, folder": "owner, and path of the folder",
            "count, direct": "number of videos in the folder and its subfolders, and number in the folder alone",
            **_COUNTED,
        },
    ),
    ItemDescription(
        schema.SERVICE_TOTALS,
        "One of four items. Each total of all videos is the sum of an attribute of these items. Written by `aggregates`.",
        {
            "uploaded, processing, ready, failed, deleted": "number of videos by status",
            "bytes, milliseconds": "total size and duration",
            **_COUNTED,
        },
    ),
    ItemDescription(
        schema.UPLOAD_HOUR,
        "One of four items. The number of source files that arrived in an hour is the sum of their `uploads`. Written by `aggregates`.",
        {"uploads": "number of source files", "purgeAt": "eight days after the hour", **_COUNTED},
    ),
    ItemDescription(
        schema.VIEW_COUNTER,
        "Views of a video, in separate partitions, so that a view costs one write unit for a video of any size. The function `views` "
        "adds views that count at once and views that a rule excludes. Sums never decrease.",
        {
            "views": "views that counted at once: those with neither a viewer nor a key",
            "keyed": "views with a viewer or a key, which `tallies` adds to shard 0",
            "tally, seen, seenUpTo": "as in the rating totals",
            "watched": "watch time of the counted views, in milliseconds",
            "repeated, owner, unpublished, expired, deleted": "excluded views, by the rule that excluded them",
            "hour": "hour (UTC) of the last change, such as `2026-11-22T13`",
            "shards": "in shard 0: number of shards that receive writes; absent: 1",
            "spread": "in shard 0: number of shards that were ever written, and must be summed; absent: 1",
            "checked, checkedAt": "in shard 0, while several shards receive writes: sum and time of the last check of the load",
            "calmedAt": "in shard 0: time from which writers use only shard 0 again",
            "folded": "in shard 0: sums of the other shards after their last write; absent: read those shards",
        },
    ),
    ItemDescription(
        schema.VIEW_HOUR,
        "Values of the counter at the start of an hour (UTC). Written by `tallies`; expires after 35 days.",
        {
            "videoId, userId, category": "video, its owner, and its category at the start of the hour",
            "starts": "for each shard, the smallest sums that `tallies` received in the hour",
            "writeId": "condition of the next write",
        },
    ),
    ItemDescription(
        schema.VIEW_DAY,
        "Values of the counter at the start of a day (UTC). Written by `tallies`; does not expire.",
        {"videoId, userId, category, starts, writeId": "as in the item of an hour"},
    ),
    ItemDescription(
        schema.VIEWER,
        "Last counted view of a viewer, or a view with an `Idempotency-Key` or an id. Written by `views`. "
        "`stream_router` then sends it to `tallies`, which adds the view to the counter. `id` is the first 128 bits of the SHA-256 of the caller's subject and the name that the caller sent. So no "
        "viewer's name is stored. Expires after 8 days, with an `Idempotency-Key` after 24 hours.",
        {
            "videoId, lane": "video, and one of 32 partitions: crc32(id) mod 32",
            "at": "time of the view, as the player reported it",
            "id": "key or id of the request",
            "watched": "watch time in milliseconds",
        },
    ),
    ItemDescription(
        schema.PROCESSED_PAGE,
        "Deduplication keys that exceed the space in the total (`views` or `ratings`). A page covers `span` seconds (1, 60, 3,600 or "
        "86,400) from `start`, and its name is a digest of its content. Written by `tallies`; expires after 6 days, "
        "because a message can wait in the queue for 4 days and contain changes of the day before.",
        {"seen": "the keys"},
    ),
    ItemDescription(
        schema.TOP,
        "Most viewed videos of the last `hour`, `day`, `week` or `month`: of all videos (`*`), and of each of the 100 most viewed "
        "categories (`=` and its name). Written by `rankings` every five minutes if it changed; expires two days after the last write.",
        {
            "videos": "first 100 by views, by increase, and by all-time views: compressed JSON of `[videoId, views, views in the "
            "previous window, all-time views]`",
            "from, computedAt": "start of the window, and time of the computation, in epoch seconds",
            "categories": "in the list of all videos: categories that have a list",
        },
    ),
    ItemDescription(
        schema.VIEWS_BY_HOUR,
        "Views of all videos in each of the last 24 hours. Written by `rankings`.",
        {"from, views, computedAt": "start of the first hour, views of each hour, and time of the computation"},
    ),
    ItemDescription(
        schema.RESERVATION,
        "Reserves an `externalId` or a `slug` of an owner for one video. Written in the video's transaction, and retained until the video is purged.",
        {"videoId": "the video"},
    ),
    ItemDescription(
        schema.IDEMPOTENCY,
        "Response to a request with an `Idempotency-Key`. Written in the request's transaction; expires after a day.",
        {"fingerprint, answer": "digest of the request, and the compressed response"},
    ),
    ItemDescription(
        schema.IMPORT,
        "Progress of an import. Written by `python -m tools` after each batch, so that a resumed import can check that the table still "
        "has its writes. Deleted when the import is complete, otherwise after 90 days.",
        {"batches": "number of batches in the table"},
    ),
    ItemDescription(
        schema.REVERT,
        "Progress of reverting a large change set, or of moving a folder. Written by `undo`, then page by page by `reverts`; expires "
        "after 30 days.",
        {
            "revertId, changesetId, dryRun, force": "run, change set and options",
            "userId, isAdmin": "user who requested it",
            "attended": "whether the client continues the run, as `python -m tools undo` does; then no message is sent",
            "state, turn": "`running` or `done`; number of processed pages, the condition of each write",
            "after, walked": "position in the change set; whether its end was reached, so that waiting parts are tried again",
            "last": "waiting videos that the revert may delete; they are tried when no other part waits",
            "moved, stalls": "whether a waiting part made progress in this round of attempts; number of rounds without progress",
            "examined": "number of entries read",
            "owner, folder, to": "of a move: owner, path and new path of the folder",
            "walks, found": "of a move: number of times that the move has begun to read the folder; videos of the next step",
            "reverted, unchanged, skipped, failed, waiting": "number of parts by outcome",
        },
    ),
    ItemDescription(
        schema.REVERT_PART,
        "Part of a revert run that was skipped, failed, or waits for another attempt. Written by `reverts`; expires after 30 days.",
        {
            "revertId": "the run",
            "report": "part, outcome and reason, as the API shows them",
            "of, entries, last": "of a waiting part: partition and sort keys of its audit entries; whether it is tried last",
        },
    ),
    ItemDescription(
        schema.WEBHOOK,
        "Subscription of a URL to changes. Written by `webhooks`, and by `deliveries` when it pauses one. In `RelationIndex` while the webhook is "
        "active. Its secrets are derived from a secret in Secrets Manager, and not stored.",
        {
            "webhookId, userId, createdAt": "id, owner, and time of creation",
            "url, types, description": "receiver, types of changes (absent: all), and purpose",
            "follows": "user whose changes the webhook sends; absent: all users",
            "paused, pausedBecause": "whether it is paused, and the reason if the service paused it",
            "generation, rotatedAt": "number of its secret, and time of the last rotation",
            "version": "incremented by each change",
        },
    ),
    ItemDescription(
        schema.WEBHOOK_STATE,
        "Delivery state of a webhook. Written by `deliveries`, and in the webhook's transaction when a change of the webhook affects "
        "delivery. In `RelationIndex` while an attempt is due or planned.",
        {
            "webhookId": "the webhook",
            "places": "delivered position by log: first position of a block, and number of delivered changes in it",
            "delivered": "ids of delivered changes after the position",
            "turn": "incremented by each write except tests; the condition of the next write",
            "lease, leaseUntil": "worker that has the lease, and its end in epoch seconds",
            "failures, failingSince": "consecutive runs with a failed attempt, and the start of the first",
            "tried": "number of attempts of each undelivered change, by its id",
            "nextAttemptAt": "earliest time of the next attempt, in epoch seconds",
            "queuedAt": "time since when the webhook waits for a slot of its owner's quota, in epoch seconds",
            "wokenAt": "while the queue is behind: time of a message that may still be queued, in epoch seconds",
            "answerMs": "moving average of the receiver's response time, in milliseconds",
            "oldestWaiting, caughtUpAt": "time of the oldest undelivered change, and last time without one, in milliseconds",
            "testedAt, testId": "time of the last test in epoch seconds, and the id of its event",
        },
    ),
    ItemDescription(
        schema.WEBHOOK_ATTEMPTS,
        "Delivery attempts until `at`, in milliseconds. Written by `deliveries`; expires after 7 days.",
        {"attempts": "compressed JSON of the attempts, as the API shows them"},
    ),
    ItemDescription(
        schema.WEBHOOKS,
        "Webhooks of one user, at most 20. Written by `webhooks`.",
        {"ids": "set of `webhookId`"},
    ),
    ItemDescription(
        schema.INDEX,
        "Current generation of the search index. Written by `indexer` and `python -m tools index`; each write after the first requires "
        "the builder's lease.",
        {
            "generation, previous": "folders below `index/` with the current and the previous manifest, or indexes of OpenSearch",
            "engine": "search engine that has the index: `embedded` or `opensearch`",
            "form": "version of the index format; a release reads [only its own](search-index.md#changing-the-format)",
            "places": "indexed position by log: first position of a block, and number of indexed changes in it",
            "asOf": "time up to which all changes are indexed, in milliseconds",
            "films, bytes, publishedAt": "number of videos, size, and time of publication in epoch seconds",
            "draft": "of a rebuild: engine, folder, form, positions and progress",
            "lease, leaseUntil": "builder that has the lease, and its end in epoch seconds",
            "rebuildAt": "with OpenSearch: time of a request to rebuild the index, in epoch seconds",
            "tidiedAt": "time of the last removal of unused files, in epoch seconds",
            "sizes": "list of times in epoch seconds and sizes in bytes, a day apart, from which the growth is computed",
            "limits": "maximum size in bytes, `captionDays` and `captionCues` of the deployment",
        },
    ),
    ItemDescription(
        schema.COMPARISON_REPORT,
        "Result of the last run of `python -m tools reconcile`, which writes it.",
        {
            "at, repairs": "end of the run, and whether it corrected differences",
            "outcomes, findings": "number of findings by outcome, and the first 20",
        },
    ),
    ItemDescription(schema.HEALTH, "Never written. `GET /health` reads it to check that the table responds.", {}),
    ItemDescription(
        schema.AUDIT,
        "Entry of [the audit trail](audit.md), one for each change. Added by `audit` and never changed.",
        {
            "videoId, owner, entity, kind, attempt": "video or job",
            "personId, region, language": "credit or release",
            **_ENTRY,
            "changeset": "id of the change set, equal to `correlationId`; absent if a job made the change",
            "stamps": "`updatedAt` and `schemaVersion` of this version; internal",
            "since": "time of this version, in epoch seconds; internal",
            "digest": "digest of the video in this version, which verifies a reconstruction; internal",
        },
    ),
    ItemDescription(
        schema.PLAYLIST_AUDIT,
        "Entry of the audit trail, one for each version of a playlist.",
        {"playlistId, owner, entity": "playlist", **_ENTRY, "changeset": "as in the entry of a video"},
    ),
    ItemDescription(
        schema.CHANGES,
        "Block of one of the four logs of [all changes](changes.md), sharded by video or playlist. `position` is the position of its first change, "
        "in 12 digits, or `TAIL` in the last block. Written by `audit`; expires after 30 days, except the tail.",
        _BLOCK,
    ),
    ItemDescription(
        schema.OWNER_CHANGES,
        "Block of the log of one owner's changes. Each change is also in one of the four logs.",
        _BLOCK,
    ),
)
"""Descriptions of all entities, in the order of the schema."""


class Relation(NamedTuple):
    """Description of a relation in RelationIndex: the value of `rel`, the meaning of its sort keys, and its items."""

    rel: str
    sort: str
    id: str
    items: str
    sharded_by: str = ""
    """Name of the id whose hash selects the shard. Empty if the shard is always 0."""


RELATIONS: tuple[Relation, ...] = (
    Relation(schema.FEED, "`createdAt`", "videoId", "listed videos", "videoId"),
    Relation(schema.status_relation("<status>"), "`createdAt`", "videoId", "all other videos", "videoId"),
    Relation(schema.tag_relation("<tag>"), "`createdAt` of the video", "videoId", "tags of listed videos", "videoId"),
    Relation(
        schema.region_relation("<region>"),
        "`createdAt` of the video",
        "videoId, `#` and language",
        "releases of listed videos",
        "videoId",
    ),
    Relation(schema.person_relation("<personId>"), "release year, or 0", "videoId", "credits of listed videos"),
    Relation(
        schema.series_relation("<videoId>", "<userId>"),
        "`season` (10,000 if absent) times 1,000,001, plus `episode` (1,000,000 if absent)",
        "videoId of the episode",
        "listed episodes",
    ),
    Relation(
        schema.folders_relation("<userId>"),
        "0",
        "path of the folder, `//`, `createdAt` in 12 digits, `/` and videoId",
        "videos in folders",
    ),
    Relation(schema.SCHEDULED, "next `publishAt` or `expiresAt`", "videoId", "schedules", "videoId"),
    Relation(schema.rated_relation("<videoId>"), "0", "userId", "ratings", "userId"),
    Relation(schema.playlists_relation("<userId>"), "`createdAt`", "playlistId", "playlists"),
    Relation(schema.in_playlist_relation("<videoId>"), "`addedAt`", "playlistId", "playlist memberships"),
    Relation(
        schema.job_relation("<state>"),
        "next check by the sweeper, or time of the failure",
        "videoId, `/` and kind",
        "jobs",
    ),
    Relation(schema.counted_relation("<userId>"), "0", "videoId", "counted states", "videoId"),
    Relation(
        schema.viewed_relation("<hour or day>"),
        "views at the start of the hour or day",
        "videoId",
        "view counts by hour and day",
        "videoId",
    ),
    Relation(schema.follower_relation(None), "`createdAt`", "webhookId", "active webhooks of all changes"),
    Relation(
        schema.follower_relation("<userId>"), "`createdAt`", "webhookId", "active webhooks of one owner's changes"
    ),
    Relation(schema.DUE, "time of the next attempt", "webhookId", "webhook checkpoints"),
    Relation(schema.TAGS, "count", "tag", "tag counts"),
    Relation(schema.USERS, "0", "userId", "totals of users"),
)
"""All relations of RelationIndex."""
