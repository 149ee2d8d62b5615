"""The operations of the function `videos`."""

from collections.abc import Sequence

from shared import errors
from shared.http import JSON, MERGE_PATCH
from shared.models import LARGEST_INTEGER, NewVideo, NoContent, VideoContent, VideoPatch
from shared.openapi.spec import (
    BODY_ERRORS,
    CHANGE_ERRORS,
    CURSOR,
    EMPTY_BODY,
    ETAG,
    EXAMPLE_ID,
    FROM,
    IF_MATCH,
    IF_NONE_MATCH,
    KEY,
    LIMIT,
    LINK,
    SECONDS,
    STATUS,
    TO,
    VIDEO_ID,
    Operation,
    Schema,
    json_content,
    model_schemas,
    never_null,
    object_of,
    page_of,
    query,
    ref,
)
from shared.pages import EXAMINED_BUDGET
from shared.video import FIELDS, GRACE_SECONDS, OWNER_FIELDS, PROBED, SUMMARY_FIELDS

NEW_VIDEO: Schema = {
    "title": "Product Launch Demo",
    "duration": 354000,
    "category": "demos",
    "visibility": "public",
    "resolutions": {
        "1080p": "s3://video-bucket/transcoded/a1b2c3d4/1080p.mp4",
        "720p": "s3://video-bucket/transcoded/a1b2c3d4/720p.m3u8",
    },
    "tags": ["product", "demo", "launch"],
}
VIDEO: Schema = {
    "videoId": EXAMPLE_ID,
    "userId": "user_789",
    "createdAt": 1717645200,
    "updatedAt": 1717645200,
    **NEW_VIDEO,
    "origins": {"duration": "person"},
    "tags": ["demo", "launch", "product"],
    "status": "uploaded",
    "metadata": {},
    "thumbnails": {},
    "viewCount": 0,
    "version": 1,
    "schemaVersion": 1,
}
VIDEO_ANSWER: Schema = {"headers": {"ETag": ETAG}, **json_content(ref("Video"), VIDEO)}


def fields(known: Sequence[str]) -> Schema:
    return {
        **query(
            "fields",
            "Only these fields, separated by commas",
            {"type": "array", "items": {"enum": list(known)}, "minItems": 1},
        ),
        "style": "form",
        "explode": False,
    }


OPERATIONS: dict[str, Operation] = {
    "createVideo": Operation(
        "Create a video",
        "The server sets `videoId`, `createdAt`, `userId` and `status`; from admins it takes theirs.",
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
            errors.RequestInFlight,
            errors.KeyReused,
        ),
        (KEY,),
        {"required": True, "content": {JSON: {"schema": ref("NewVideo"), "example": NEW_VIDEO}}},
    ),
    "listVideos": Operation(
        "List videos, newest first",
        "One selector decides which index answers: `userId` (an owner's videos: all of them for the owner, published "
        "ones for others), `category` (published ones), `status` (admins), or none (all published ones). All other "
        f"parameters filter. A page is full unless {EXAMINED_BUDGET} items were examined for it; then it is short, "
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
        (
            query("userId", "Selector: the owner", {"type": "string", "minLength": 1, "maxLength": 255}),
            query("category", "Selector, or a filter", {"type": "string", "minLength": 1, "maxLength": 100}),
            query("status", "Selector for admins, or a filter", STATUS),
            query("format", "Filter: container format", {"type": "string", "minLength": 1, "maxLength": 64}),
            query(
                "minDuration",
                "Filter: milliseconds, included",
                {"type": "integer", "minimum": 0, "maximum": LARGEST_INTEGER},
            ),
            query(
                "maxDuration",
                "Filter: milliseconds, included",
                {"type": "integer", "minimum": 0, "maximum": LARGEST_INTEGER},
            ),
            FROM,
            TO,
            query("order", "By createdAt", {"enum": ["desc", "asc"], "default": "desc"}),
            LIMIT,
            CURSOR,
            fields(SUMMARY_FIELDS),
        ),
    ),
    "getVideo": Operation(
        "Read a video and its view count",
        "Eventually consistent: a write may take some milliseconds to show.",
        {
            200: {
                "description": "The video",
                "headers": {"ETag": ETAG},
                **json_content(ref("PartialVideo"), VIDEO),
            },
            304: {"description": "Not modified", "headers": {"ETag": ETAG}},
        },
        (errors.InvalidParameter, errors.Forbidden, errors.NotFound),
        (VIDEO_ID, fields(FIELDS), IF_NONE_MATCH),
    ),
    "patchVideo": Operation(
        "Change a video",
        "A JSON Merge Patch (RFC 7396): members replace, null removes. The answer leaves `viewCount` out.",
        {200: {"description": "The changed video", **VIDEO_ANSWER}},
        (*BODY_ERRORS, *CHANGE_ERRORS, errors.IllegalTransition),
        (VIDEO_ID, IF_MATCH),
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
        (VIDEO_ID, IF_MATCH),
    ),
    "restoreVideo": Operation(
        "Restore a deleted video",
        "It gets back the status that it had. The answer leaves `viewCount` out.",
        {200: {"description": "The restored video", **VIDEO_ANSWER}},
        (*BODY_ERRORS, *CHANGE_ERRORS, errors.IllegalTransition, errors.RequestInFlight, errors.KeyReused),
        (VIDEO_ID, IF_MATCH, KEY),
        EMPTY_BODY,
    ),
}


def schemas() -> Schema:
    """The schemas of requests and answers, by name."""
    schemas = model_schemas(NewVideo, VideoPatch, NoContent, VideoContent)
    content = {name: never_null(field) for name, field in schemas.pop("VideoContent")["properties"].items()}
    server: Schema = {
        "videoId": {"type": "string", "format": "uuid"},
        "userId": {"type": "string"},
        "createdAt": SECONDS,
        "updatedAt": SECONDS,
        "status": STATUS,
        "purgeAt": {
            **SECONDS,
            "description": "Epoch seconds; when a deleted or expired video is gone for good. Shown to its owner and admins",
        },
        "origins": {
            "type": "object",
            "description": "Who filled in a field that a look at the film can tell: jobs leave alone what a person wrote",
            "propertyNames": {"enum": list(PROBED)},
            "additionalProperties": {"enum": ["person", "job", "import"]},
        },
        "source": {
            **object_of(
                {
                    "uploadId": {"type": "string"},
                    "contentType": {"type": "string"},
                    "fileSize": {"type": "integer", "minimum": 0, "description": "Bytes"},
                    "arrivedAt": SECONDS,
                }
            ),
            "description": "The film that was uploaded last. Shown to its owner and admins",
        },
        "failure": {
            **object_of({"job": {"type": "string"}, "reason": {"type": "string"}, "at": SECONDS}),
            "description": "Why the video is `failed`, if a job says so. Shown to its owner and admins",
        },
        "viewCount": {"type": "integer", "minimum": 0},
        "version": {"type": "integer", "minimum": 1, "description": "One more with every change"},
        "schemaVersion": {"type": "integer", "minimum": 1},
    }
    video = {name: (server | content)[name] for name in FIELDS}
    summary = {name: video.get(name, {"type": "string", "description": "URL of the poster"}) for name in SUMMARY_FIELDS}
    always = ("title", "resolutions", "visibility", "metadata", "thumbnails")
    required = [name for name in (*always, *server) if name not in (*OWNER_FIELDS, "viewCount", "origins")]
    return schemas | {
        "Video": {"type": "object", "properties": video, "required": required},
        "PartialVideo": {
            "type": "object",
            "description": "A video: all its fields, or those that `fields` names",
            "properties": video,
        },
        "VideoSummary": {"type": "object", "properties": summary},
        "VideoPage": page_of("VideoSummary"),
    }
