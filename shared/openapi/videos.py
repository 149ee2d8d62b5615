"""OpenAPI documentation of the operations of the function `videos`."""

from shared.aws.pages import EXAMINED_BUDGET
from shared.core import errors
from shared.core.checks import SLUG
from shared.core.limits import LARGEST_BATCH
from shared.history.trail import FARTHEST
from shared.openapi import relations
from shared.openapi.spec import (
    BODY_ERRORS,
    CHANGE_ERRORS,
    EMPTY_BODY,
    ETAG,
    EXAMPLE_ID,
    IF_MATCH,
    IF_NONE_MATCH,
    KEY,
    LINK,
    PAST_ERRORS,
    SECONDS,
    STATUS,
    Operation,
    header,
    json_content,
    model_schemas,
    object_of,
    page_of,
    ref,
    shown_schemas,
)
from shared.queries import LOCAL_TITLE
from shared.relations.title_page import LARGEST_LIST, LARGEST_SECTION, MAX_RANGES, MAX_RELEASES
from shared.schema import SCHEMA_VERSION
from shared.video_fields import PROBED, VIDEO_FIELDS
from shared.videos.batch_models import (
    CreateOperation,
    DeleteOperation,
    PatchOperation,
    UpsertOperation,
    VideoIds,
)
from shared.videos.batches import LARGEST_CHANGES
from shared.videos.documents import FIELDS, OWNER_FIELDS, PLAYING_FIELDS, SUMMARY_FIELDS
from shared.videos.models import NewVideo, VideoContent, VideoPatch
from shared.videos.video import GRACE_SECONDS
from shared.web.bodies import NoContent
from shared.web.parameters import Schema
from shared.web.requests import JSON, MERGE_PATCH
from shared.web.responses import LARGEST_RESPONSE

NEW_VIDEO: Schema = {
    "title": "Product Launch Demo",
    "duration": 354000,
    "category": "demos",
    "visibility": "public",
    "tags": ["product", "demo", "launch"],
}
VIDEO: Schema = {
    "videoId": EXAMPLE_ID,
    "userId": "user_789",
    "createdAt": 1717645200,
    "updatedAt": 1717645200,
    **NEW_VIDEO,
    "origins": {"duration": "person"},
    "resolutions": {},
    "tags": ["demo", "launch", "product"],
    "status": "uploaded",
    "metadata": {},
    "thumbnails": {},
    "viewCount": 0,
    "version": 1,
    "schemaVersion": SCHEMA_VERSION,
}
TITLE_PAGE: Schema = {
    **VIDEO,
    "localTitle": {"title": "Launch Day", "region": "NZ", "language": "en-NZ", "match": "region-and-language"},
    "included": {
        "credits": {"items": [relations.CREDIT], "nextCursor": None},
        "ratings": {"average": 7.33, "votes": 3, "likes": 1, "dislikes": 0},
    },
}
NOT_OF_THE_PAST = ("viewCount", "schemaVersion")
"""Fields that only the current version of a video has. Clients recognise an earlier version by the absence of these
fields."""
PAST_VIDEO: Schema = {name: value for name, value in VIDEO.items() if name not in NOT_OF_THE_PAST} | {
    "without": ["viewCount"]
}
TAGS = (
    "A video may have 30 tags of 1 to 64 characters. Tags that differ only in case, compatibility form or "
    "spaces match in queries, but one video cannot have both of them."
)
VIDEO_RESPONSE: Schema = {"headers": {"ETag": ETAG}, **json_content(ref("Video"), VIDEO)}


PATH_PARAMETERS: dict[str, Schema] = {
    "videoId": {"schema": {"type": "string", "format": "uuid"}, "example": EXAMPLE_ID},
    "externalId": {
        "description": "The value of the field `externalId`, percent-encoded",
        "schema": {"type": "string", "minLength": 1, "maxLength": 200},
        "example": "launch-2026",
    },
    "slug": {
        "description": "The value of the field `slug`",
        "schema": {"type": "string", "maxLength": 100, "pattern": SLUG},
        "example": "product-launch",
    },
}

TAG_DESCRIPTIONS = {"videos": "Create, read, list, update and delete videos, one by one or in batches"}
OPERATIONS: dict[str, Operation] = {
    "batchGetVideos": Operation(
        "Get up to 100 videos",
        f"Returns each document once, in the order of the ids, as `GET` returns it. Beyond {LARGEST_RESPONSE:,} "
        "bytes, documents are omitted: request the ids in `remaining` again.",
        {
            200: {
                "description": "The videos that the caller may see",
                **json_content(ref("VideoBatch"), {"items": [VIDEO], "missing": [], "remaining": []}),
            }
        },
        (*BODY_ERRORS, errors.InvalidParameter, errors.Forbidden),
        body={"required": True, "content": {JSON: {"schema": ref("VideoIds"), "example": {"videoIds": [EXAMPLE_ID]}}}},
    ),
    "batchVideos": Operation(
        "Create, update and delete up to 100 videos",
        "Executes each operation like a separate request; one failure does not stop the others, so the status is "
        "200 even if all fail. Operations on one video run in order, others in parallel; throttled or conflicting "
        "operations are retried for seconds, and then fail with 503 or 409. Creations are safe to retry with an `Idempotency-Key`, "
        "patches and deletions with `ifMatch`.",
        {
            200: {
                "description": "The results, in the order of the operations. Pointers in problems start at the batch, such as "
                "`/operations/3/patch/title`",
                **json_content(
                    ref("BatchResult"),
                    {
                        "dryRun": False,
                        "items": [
                            {"op": "create", "videoId": EXAMPLE_ID, "status": 201, "version": 1},
                            {
                                "op": "delete",
                                "videoId": "9b2c1f5e-7d1a-4c1e-8f43-2a5f7f0f4e11",
                                "status": 404,
                                "problem": errors.NotFound.of("video").problem(),
                            },
                        ],
                        "succeeded": 1,
                        "failed": 1,
                    },
                ),
            }
        },
        (*BODY_ERRORS, errors.InvalidParameter, errors.Forbidden),
        (KEY,),
        {
            "required": True,
            "content": {
                JSON: {
                    "schema": ref("Batch"),
                    "example": {
                        "operations": [
                            {"op": "create", "video": {"title": "Product Launch Demo"}},
                            {"op": "upsert", "video": {"externalId": "crm-7", "title": "Harbour"}},
                            {"op": "patch", "videoId": EXAMPLE_ID, "patch": {"tags": ["demo"]}, "ifMatch": '"3"'},
                            {"op": "delete", "videoId": "9b2c1f5e-7d1a-4c1e-8f43-2a5f7f0f4e11"},
                        ]
                    },
                }
            },
        },
    ),
    "createVideo": Operation(
        "Create a video",
        "The server sets `videoId`, `createdAt`, `userId` and `status`; admins may set them. " + TAGS,
        {
            201: {
                "description": "Created",
                **VIDEO_RESPONSE,
                "headers": {
                    "ETag": ETAG,
                    "Location": {
                        "description": "The video, relative to this request's URL",
                        "schema": {"type": "string", "format": "uri-reference"},
                    },
                },
            }
        },
        (
            *BODY_ERRORS,
            errors.InvalidParameter,
            errors.Forbidden,
            errors.AlreadyExists,
            errors.BeingRemoved,
            errors.RequestInFlight,
            errors.WriteContention,
            errors.KeyReused,
        ),
        (KEY,),
        {"required": True, "content": {JSON: {"schema": ref("NewVideo"), "example": NEW_VIDEO}}},
    ),
    "listVideos": Operation(
        "List videos, by time, duration, title, rating or views",
        "The first of `tag`, `region`, `userId`, `category` and `status` (admins only) selects the list, and the "
        "others filter it. Without any of them, the list has all published videos. Owners also see their own unpublished videos under "
        f"`userId`. Lists by duration, rating or views omit videos without a value. A page may be short after {EXAMINED_BUDGET} examined items or a timeout: follow `nextCursor` "
        "until it is null.",
        {
            200: {
                "description": "A page",
                "headers": LINK,
                **json_content(
                    ref("VideoPage"),
                    {"items": [{name: VIDEO[name] for name in SUMMARY_FIELDS if name in VIDEO}], "nextCursor": None},
                ),
            }
        },
        (errors.InvalidParameter, errors.InvalidCursor, errors.UnservedQuery, errors.Forbidden),
    ),
    "listEpisodes": Operation(
        "List the episodes of a series, in order",
        "Lists the published videos with this `seriesId` and the same owner, by `season` and `episode`; episodes "
        "without a number sort last. Changes appear at once, or within seconds if a job made them. A page may be "
        f"short after {EXAMINED_BUDGET} examined entries: follow `nextCursor` for more.",
        {
            200: {
                "description": "A page",
                "headers": LINK,
                **json_content(
                    ref("EpisodePage"),
                    {
                        "items": [
                            {
                                "video": {name: VIDEO[name] for name in SUMMARY_FIELDS if name in VIDEO},
                                "season": 1,
                                "episode": 2,
                            }
                        ],
                        "nextCursor": None,
                    },
                ),
            }
        },
        (errors.InvalidParameter, errors.InvalidCursor, errors.Forbidden, errors.NotFound),
    ),
    "getVideo": Operation(
        "Get a video and its view count",
        "Eventually consistent; `version` or `asOf` returns an earlier document consistently, for the owner and "
        f"admins. With `region` or `Accept-Language`, `localTitle` is chosen from {MAX_RELEASES} releases at "
        f"most. Lists in `included` end after {LARGEST_SECTION} items, 1 MB read or {LARGEST_LIST:,} bytes: follow "
        "their `nextCursor` for more.",
        {
            200: {
                "description": "The video",
                "headers": {
                    "ETag": ETAG,
                    "Vary": {"description": "Always present", "schema": {"type": "string", "const": "Accept-Language"}},
                },
                "content": {
                    JSON: {
                        "schema": {"anyOf": [ref("FetchedVideo"), ref("PartialVideo"), ref("PastVideo")]},
                        "examples": {
                            "video": {"value": VIDEO},
                            "title page": {"value": TITLE_PAGE},
                            "as it was": {"value": PAST_VIDEO},
                        },
                    }
                },
            },
            304: {"description": "Not modified", "headers": {"ETag": ETAG}},
        },
        PAST_ERRORS,
        (
            header(
                "Accept-Language",
                f"Preferred languages (RFC 9110, section 12.5.4): the first {MAX_RANGES} ranges count, and `en-NZ` also "
                "selects a region for titles in English.",
                {"type": "string"},
            ),
            IF_NONE_MATCH,
        ),
    ),
    "getVideoByExternalId": Operation(
        "Get a video by its external id",
        "Finds the owner's video with this `externalId`, also right after it was written. For the owner and admins.",
        {
            200: {
                "description": "The video",
                "headers": {"ETag": ETAG},
                **json_content(ref("FetchedVideo"), VIDEO),
            },
            304: {"description": "Not modified", "headers": {"ETag": ETAG}},
        },
        (errors.InvalidParameter, errors.Forbidden, errors.NotFound),
        (IF_NONE_MATCH,),
    ),
    "getVideoBySlug": Operation(
        "Get a video by its slug",
        "Finds the owner's video with this `slug`, also right after it was written.",
        {
            200: {
                "description": "The video",
                "headers": {"ETag": ETAG},
                **json_content(ref("FetchedVideo"), VIDEO),
            },
            304: {"description": "Not modified", "headers": {"ETag": ETAG}},
        },
        (errors.InvalidParameter, errors.Forbidden, errors.NotFound),
        (IF_NONE_MATCH,),
    ),
    "patchVideo": Operation(
        "Update a video",
        "JSON Merge Patch (RFC 7396): members replace fields, and `null` removes them; the response omits "
        "`viewCount`. " + TAGS,
        {200: {"description": "The changed video", **VIDEO_RESPONSE}},
        (*BODY_ERRORS, *CHANGE_ERRORS, errors.IllegalTransition),
        (IF_MATCH,),
        {
            "required": True,
            "content": {
                kind: {
                    "schema": ref("VideoPatch"),
                    "example": {"title": "Product Launch", "description": None, "status": "processing"},
                }
                for kind in (MERGE_PATCH, JSON)
            },
        },
    ),
    "deleteVideo": Operation(
        "Delete a video",
        f"Removes the video from all lists at once; it can be restored for {GRACE_SECONDS // 86400} days. "
        "Repeating the request changes nothing.",
        {204: {"description": "Deleted"}},
        CHANGE_ERRORS,
        (IF_MATCH,),
    ),
    "restoreVideo": Operation(
        "Restore a deleted video",
        "Restores the status before the deletion. The response omits `viewCount`.",
        {200: {"description": "The restored video", **VIDEO_RESPONSE}},
        (*BODY_ERRORS, *CHANGE_ERRORS, errors.IllegalTransition, errors.RequestInFlight, errors.KeyReused),
        (IF_MATCH, KEY),
        EMPTY_BODY,
    ),
}


def schemas() -> Schema:
    """Return the schemas of requests and responses, by name."""
    operations = (CreateOperation, UpsertOperation, PatchOperation, DeleteOperation)
    schemas = model_schemas(NewVideo, VideoPatch, NoContent, VideoIds, *operations)
    schemas |= shown_schemas(VideoContent)
    content = schemas.pop("ShownVideoContent")
    server: Schema = {
        "videoId": {"type": "string", "format": "uuid"},
        "userId": {"type": "string"},
        "createdAt": SECONDS,
        "updatedAt": SECONDS,
        "status": STATUS,
        "purgeAt": SECONDS,
        "origins": {
            "type": "object",
            "propertyNames": {"type": "string", "enum": list(PROBED)},
            "additionalProperties": {"type": "string", "enum": ["person", "job", "import"]},
        },
        "source": object_of(
            {
                "uploadId": {"type": "string"},
                "contentType": {"type": "string"},
                "fileSize": {"type": "integer", "minimum": 0, "description": "Bytes"},
                "arrivedAt": SECONDS,
            }
        ),
        "failure": object_of({"job": {"type": "string"}, "reason": {"type": "string"}, "at": SECONDS}),
        "viewCount": {"type": "integer", "minimum": 0},
        "version": {"type": "integer", "minimum": 1},
        "schemaVersion": {"type": "integer", "minimum": 1},
        "poster": {"type": "string"},
    }
    shown = {
        field.name: (server | content["properties"])[field.name]
        | {"description": field.description + (". Visible to the owner and admins" if field.is_private else "")}
        for field in VIDEO_FIELDS
        if field.is_shown or field.projected
    }
    shown["resolutions"]["description"] += "; other callers receive `renditions`"
    shown["thumbnails"]["description"] += ". Pictures at S3 URIs are visible to the owner and admins"
    video = {name: shown[name] for name in FIELDS}
    summary = {name: shown[name] for name in SUMMARY_FIELDS}
    summary["viewCount"] = {**video["viewCount"], "description": "View count, with `include=stats`"}
    always = {*content["required"], *server} - {"purgeAt", "source", "failure", "viewCount", "origins", "poster"}
    required = [name for name in FIELDS if name in always]
    size = {"type": "integer", "minimum": 1, "description": "Size in bytes, if it is known"}
    playing: Schema = {
        "renditions": {
            "type": "object",
            "description": "Playable renditions by name, for callers that do not see `resolutions`. Omitted if there are none",
            "propertyNames": content["properties"]["resolutions"].get("propertyNames", {"type": "string"}),
            "additionalProperties": object_of({"size": size}, optional=("size",)),
        },
        "playback": {
            "type": "string",
            "description": "Path of the operation that returns the URLs of `renditions`",
        },
    }
    fetched = (
        video
        | {name: playing[name] for name in PLAYING_FIELDS}
        | {LOCAL_TITLE: ref("FittingTitle"), "included": ref("Included")}
    )
    without: Schema = {
        "without": {
            "type": "array",
            "items": {"type": "string", "enum": ["viewCount"]},
            "description": "The fields that are unknown for an earlier version, because view counts are stored by hour instead",
        }
    }
    return schemas | {
        "Video": {"type": "object", "properties": video, "required": required},
        "FetchedVideo": {
            "type": "object",
            "description": "A video with its view count, and the sections that `region` and `include` select",
            "properties": fetched,
            "required": [*(name for name in required if name not in OWNER_FIELDS), "viewCount"],
        },
        "PartialVideo": _partial(fetched | without, "schemaVersion"),
        "PastVideo": {
            "type": "object",
            "description": "The video at `version` or `asOf`. Returns 410 if the audit trail no longer has it or has it truncated, "
            f"and 409 if more than {FARTHEST} MB must be read",
            "properties": {name: schema for name, schema in (video | without).items() if name not in NOT_OF_THE_PAST},
            "required": [name for name in required if name not in NOT_OF_THE_PAST] + ["without"],
        },
        "VideoSummary": {
            "type": "object",
            "properties": summary,
            "required": [name for name in SUMMARY_FIELDS if name in always],
        },
        "PartialSummary": _partial(summary, "visibility"),
        "VideoPage": page_of("VideoSummary", "PartialSummary"),
        "Episode": object_of(
            {"video": ref("VideoSummary"), **{name: video[name] for name in ("season", "episode")}},
            optional=("season", "episode"),
        ),
        "EpisodePage": page_of("Episode"),
        **_batch_schemas(),
    }


def _partial(properties: Schema, marker: str) -> Schema:
    """Return the schema of a response to a request with the parameter `fields`. No field of the response is required.

    The schema omits `marker`, a field that every complete response has. Therefore generated clients can distinguish
    complete and partial responses: TypeScript narrows their union by `marker in response`. The schema allows other
    fields, so a client may still select the marker with `fields`.
    """
    return {
        "type": "object",
        "description": f"Only the fields that `fields` selects. Without `fields`, a response is complete and has `{marker}`",
        "properties": {name: schema for name, schema in properties.items() if name != marker},
    }


def _batch_schemas() -> Schema:
    ids: Schema = {"type": "array", "items": {"type": "string", "format": "uuid"}, "maxItems": LARGEST_BATCH}
    changes = object_of(
        {
            "field": {"type": "string", "description": "JSON Pointer (RFC 6901)"},
            "from": {"description": "Previous value; omitted if there was none"},
            "to": {"description": "New value; omitted if there is none"},
            "fromBytes": {
                "type": "integer",
                "description": "Size of the whole `from` as JSON in bytes, if it is truncated",
            },
            "toBytes": {
                "type": "integer",
                "description": "Size of the whole `to` as JSON in bytes, if it is truncated",
            },
        },
        optional=("from", "to", "fromBytes", "toBytes"),
    )
    result = object_of(
        {
            "op": {
                "type": "string",
                "enum": ["create", "upsert", "patch", "delete"],
                "description": "Omitted if the operation's `op` is none of these",
            },
            "videoId": {"type": "string", "format": "uuid", "description": "Omitted if there is none"},
            "status": {
                "type": "integer",
                "description": "201 if created, 200 if changed, 204 if deleted; otherwise the problem's status",
            },
            "version": {"type": "integer", "minimum": 1, "description": "Version of the video after the operation"},
            "changes": {
                "type": "array",
                "items": changes,
                "description": f"In dry runs only. Long values are truncated above {LARGEST_CHANGES:,} bytes in total",
            },
            "omitted": {"type": "integer", "minimum": 1, "description": "Number of omitted changes"},
            "problem": ref("Problem"),
        },
        optional=("op", "videoId", "version", "changes", "omitted", "problem"),
    )
    operations = [ref(model.__name__) for model in (CreateOperation, UpsertOperation, PatchOperation, DeleteOperation)]
    count: Schema = {"type": "integer", "minimum": 0, "maximum": LARGEST_BATCH}
    return {
        "Batch": object_of(
            {
                "operations": {
                    "type": "array",
                    "items": {"oneOf": operations},
                    "minItems": 1,
                    "maxItems": LARGEST_BATCH,
                    "description": "Operations; an invalid one fails separately",
                }
            }
        ),
        "BatchResult": object_of(
            {
                "dryRun": {"type": "boolean"},
                "items": {"type": "array", "items": result, "maxItems": LARGEST_BATCH},
                "succeeded": count,
                "failed": count,
            }
        ),
        "VideoBatch": object_of(
            {
                "items": {"type": "array", "items": ref("FetchedVideo"), "maxItems": LARGEST_BATCH},
                "missing": ids | {"description": "Ids of videos that do not exist or are hidden from the caller"},
                "remaining": ids | {"description": "Ids of videos that exceed the size of the response"},
            }
        ),
    }
