"""The operations of the function `videos`."""

from shared.aws.pages import EXAMINED_BUDGET
from shared.core import errors
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
from shared.relations.title_page import LARGEST_LIST, LARGEST_SECTION, MOST_RANGES, MOST_RELEASES
from shared.schema import SCHEMA_VERSION
from shared.video_fields import PROBED, VIDEO_FIELDS
from shared.videos.batch_models import (
    CreateOperation,
    DeleteOperation,
    PatchOperation,
    VideoIds,
)
from shared.videos.batches import LARGEST_CHANGES
from shared.videos.documents import FIELDS, OWNER_FIELDS, PLAYING_FIELDS, SUMMARY_FIELDS
from shared.videos.models import NewVideo, VideoContent, VideoPatch
from shared.videos.video import GRACE_SECONDS
from shared.web.answers import LARGEST_ANSWER
from shared.web.bodies import NoContent
from shared.web.parameters import Schema
from shared.web.requests import JSON, MERGE_PATCH

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
"""Fields that the schema of a past video leaves out: clients tell a present one by them."""
PAST_VIDEO: Schema = {name: value for name, value in VIDEO.items() if name not in NOT_OF_THE_PAST} | {
    "without": ["viewCount"]
}
TAGS = (
    "A video has up to 30 tags of 1 to 64 characters. Two spellings are the same tag when they differ only in case, in "
    "compatible forms of the same characters, or in the number of spaces; a video with both is refused. It shows its own "
    "spelling, and is found by any."
)
VIDEO_ANSWER: Schema = {"headers": {"ETag": ETAG}, **json_content(ref("Video"), VIDEO)}


PATH_PARAMETERS: dict[str, Schema] = {
    "videoId": {"schema": {"type": "string", "format": "uuid"}, "example": EXAMPLE_ID}
}

OPERATIONS: dict[str, Operation] = {
    "batchGetVideos": Operation(
        "Read up to 100 videos",
        "Returns each document once, in the order of the ids, as `GET` returns it. Past "
        f"{LARGEST_ANSWER:,} bytes, documents are left out, and `remaining` lists their ids to ask for again.",
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
        "Create, change and delete up to 100 videos",
        "Each operation is carried out as a request of its own would be, and has its own result in the same place. One "
        "that fails does not stop the others, so the answer is 200 even if all fail. Operations on one video are carried "
        "out in order, others in parallel. What the database is too busy for, or others are in the way of, is tried "
        "again for some seconds, then reported with the status 503 or 409. With an `Idempotency-Key`, each creation happens once, however often the batch is "
        "sent; patches and deletions can be repeated anyway, and `ifMatch` keeps a late repeat from undoing what others "
        "did. Pointers in problems begin at the batch, such as `/operations/3/patch/title`.",
        {
            200: {
                "description": "The results, in the order of the operations",
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
                                "problem": errors.NotFound("There is no such video.").problem(),
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
                **VIDEO_ANSWER,
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
        "List videos, newest first",
        "The first of these selectors that is given decides what is listed: `tag` or `region` (published videos), "
        "`userId` (all videos for their owner, published ones for others), `category` (published videos), `status` (for "
        "admins); without any, all published videos. Videos of one second are in the order of their ids. With your own `userId`, `tag` filters that "
        f"list. All other parameters filter. A page is full unless {EXAMINED_BUDGET} items were examined for it, or its time "
        "is up; then it is short, "
        "and `nextCursor` still leads on. `nextCursor` is null when there is nothing more.",
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
        "The published videos whose `seriesId` is this one and that belong to its owner, by `season` and `episode`; those "
        "without a season, or without a number in it, come last. An episode that is published, hidden or renumbered moves at "
        f"once, or within seconds if a job did it. A page is full unless {EXAMINED_BUDGET} entries were examined for it.",
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
        "Read a video and its view count",
        "Eventually consistent: a write may take some milliseconds to show. With `region`, or an `Accept-Language` that "
        "names a language, there is a `localTitle`, and its `match` says how it was chosen: the region's title in a "
        "wanted language; else the region's title without a language, or its first by language tag; else a title in a "
        "wanted language, which may be the video's own; else `title`. A tag such as `en-NZ` also counts as a region, for "
        "titles in its language or without one. Languages are compared by lookup (RFC 4647, section 3.4), then by "
        f"filtering for more specific ones. Only the first {MOST_RELEASES} releases are considered: the region's, or else "
        f"all. `include` adds what else belongs to the video. Past {LARGEST_SECTION} items, 1 MB read, or "
        f"{LARGEST_LIST:,} bytes of answer, a list ends early, and its `nextCursor` leads on. With `version` or `asOf` the "
        "answer is the document as it was, for the video's owner and admins, and `without` names the fields that nothing keeps. "
        "It is consistent. It is 410 when the audit trail does not go back that far, has only the beginning of a value that is "
        "asked for, or the video was removed; 503 while the trail does not have the newest changes yet; 409 when more than "
        f"{FARTHEST} MB of it would have to be read.",
        {
            200: {
                "description": "The video",
                "headers": {
                    "ETag": ETAG,
                    "Vary": {"description": "Always", "schema": {"type": "string", "const": "Accept-Language"}},
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
                f"The reader's languages (RFC 9110, section 12.5.4); the first {MOST_RANGES} ranges count",
                {"type": "string"},
            ),
            IF_NONE_MATCH,
        ),
    ),
    "patchVideo": Operation(
        "Change a video",
        "A JSON Merge Patch (RFC 7396): members replace, null removes. The answer has no `viewCount`. " + TAGS,
        {200: {"description": "The changed video", **VIDEO_ANSWER}},
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
        f"It leaves all listings at once and can be restored for {GRACE_SECONDS // 86400} days; then it is removed. "
        "Deleting it again changes nothing.",
        {204: {"description": "Deleted"}},
        CHANGE_ERRORS,
        (IF_MATCH,),
    ),
    "restoreVideo": Operation(
        "Restore a deleted video",
        "The video gets back the status that it had. The answer has no `viewCount`.",
        {200: {"description": "The restored video", **VIDEO_ANSWER}},
        (*BODY_ERRORS, *CHANGE_ERRORS, errors.IllegalTransition, errors.RequestInFlight, errors.KeyReused),
        (IF_MATCH, KEY),
        EMPTY_BODY,
    ),
}


def schemas() -> Schema:
    """The schemas of requests and answers, by name."""
    operations = (CreateOperation, PatchOperation, DeleteOperation)
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
        | {"description": field.description + (". Shown to its owner and admins" if field.is_private else "")}
        for field in VIDEO_FIELDS
        if field.is_shown or field.projected
    }
    shown["resolutions"]["description"] += "; others see `renditions`"
    shown["thumbnails"]["description"] += ". Those at S3 URIs are shown to its owner and admins"
    video = {name: shown[name] for name in FIELDS}
    summary = {name: shown[name] for name in SUMMARY_FIELDS}
    summary["viewCount"] = {**video["viewCount"], "description": "With `include=stats`"}
    always = {*content["required"], *server} - {"purgeAt", "source", "failure", "viewCount", "origins", "poster"}
    required = [name for name in FIELDS if name in always]
    size = {"type": "integer", "minimum": 1, "description": "Bytes, if they are known"}
    playing: Schema = {
        "renditions": {
            "type": "object",
            "description": "In place of `resolutions` for others than the owner and admins: what there is to play, by name. Left out while there is "
            "nothing",
            "propertyNames": content["properties"]["resolutions"].get("propertyNames", {"type": "string"}),
            "additionalProperties": object_of({"size": size}, optional=("size",)),
        },
        "playback": {
            "type": "string",
            "description": "With `renditions`: the path of the operation that answers with their URLs",
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
            "description": "Of a video as it was, the fields that are not known: view counts are kept by hour instead",
        }
    }
    return schemas | {
        "Video": {"type": "object", "properties": video, "required": required},
        "FetchedVideo": {
            "type": "object",
            "description": "A video with its view count, and what `region` and `include` asked for",
            "properties": fetched,
            "required": [*(name for name in required if name not in OWNER_FIELDS), "viewCount"],
        },
        "PartialVideo": _partial(fetched | without, "schemaVersion"),
        "PastVideo": {
            "type": "object",
            "description": "What `version` and `asOf` ask for. `schemaVersion` is there too",
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


def _partial(properties: Schema, mark: str) -> Schema:
    """The schema of an answer to `fields`, which cannot require anything.

    It leaves out the mark, a field that every whole answer has, so that generated clients can tell the two apart:
    TypeScript narrows their union by `mark in answer`. `fields` may still select the mark: the schema is an open one.
    """
    return {
        "type": "object",
        "description": f"What `fields` names, and nothing else. Without `fields`, an answer is whole and has `{mark}`",
        "properties": {name: schema for name, schema in properties.items() if name != mark},
    }


def _batch_schemas() -> Schema:
    ids: Schema = {"type": "array", "items": {"type": "string", "format": "uuid"}, "maxItems": LARGEST_BATCH}
    changes = object_of(
        {
            "field": {"type": "string", "description": "JSON Pointer (RFC 6901)"},
            "from": {"description": "The value before, unless there was none"},
            "to": {"description": "The value after, unless there is none"},
            "fromBytes": {"type": "integer", "description": "Bytes of the whole `from` as JSON, when it is cut"},
            "toBytes": {"type": "integer", "description": "Bytes of the whole `to` as JSON, when it is cut"},
        },
        optional=("from", "to", "fromBytes", "toBytes"),
    )
    result = object_of(
        {
            "op": {
                "type": "string",
                "enum": ["create", "patch", "delete"],
                "description": "Left out when it is none of these",
            },
            "videoId": {"type": "string", "format": "uuid", "description": "Left out while there is none"},
            "status": {
                "type": "integer",
                "description": "201, 200 and 204 for what is created, changed and deleted; otherwise the problem's status",
            },
            "version": {"type": "integer", "minimum": 1, "description": "Of the video after the operation"},
            "changes": {
                "type": "array",
                "items": changes,
                "description": f"In a dry run only. Long values are cut when there are more than {LARGEST_CHANGES:,} bytes",
            },
            "omitted": {"type": "integer", "minimum": 1, "description": "How many more changes were left out"},
            "problem": ref("Problem"),
        },
        optional=("op", "videoId", "version", "changes", "omitted", "problem"),
    )
    operations = [ref(model.__name__) for model in (CreateOperation, PatchOperation, DeleteOperation)]
    count: Schema = {"type": "integer", "minimum": 0, "maximum": LARGEST_BATCH}
    return {
        "Batch": object_of(
            {
                "operations": {
                    "type": "array",
                    "items": {"oneOf": operations},
                    "minItems": 1,
                    "maxItems": LARGEST_BATCH,
                    "description": "One that is not valid fails alone",
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
                "missing": ids | {"description": "Ids of videos that do not exist, or that the caller may not see"},
                "remaining": ids | {"description": "Ids of videos that the answer had no room for"},
            }
        ),
    }
