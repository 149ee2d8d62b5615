"""The OpenAPI 3.1 document: made from the route table, the models and the error tree, so that it cannot lag behind."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic.json_schema import models_json_schema

from shared import errors
from shared.cursors import LIFETIME_SECONDS, LONGEST
from shared.errors import ServiceError
from shared.http import JSON, LARGEST_BODY, MERGE_PATCH, PROBLEM
from shared.idempotency import LONGEST_KEY
from shared.models import LARGEST_INTEGER, LAST_SECOND, NewVideo, NoContent, VideoContent, VideoPatch
from shared.pages import EXAMINED_BUDGET
from shared.routes import ROUTES, SCOPES, Route
from shared.video import FIELDS, GRACE_SECONDS, STATUSES, SUMMARY_FIELDS
from shared.views import CACHE_SECONDS

Schema = dict[str, Any]

EXAMPLE_ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
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
    "tags": ["demo", "launch", "product"],
    "status": "uploaded",
    "metadata": {},
    "thumbnails": {},
    "viewCount": 0,
    "version": 1,
    "schemaVersion": 1,
}
_STATUS: Schema = {"enum": list(STATUSES)}
_SECONDS: Schema = {"type": "integer", "minimum": 0, "description": "Epoch seconds"}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _query(name: str, description: str, schema: Schema) -> Schema:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _header(name: str, description: str, schema: Schema) -> Schema:
    return {"name": name, "in": "header", "description": description, "schema": schema}


_VIDEO_ID: Schema = {
    "name": "videoId",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "format": "uuid"},
    "example": EXAMPLE_ID,
}
_KEY = _header(
    "Idempotency-Key",
    "Makes a retry safe for 24 hours: it is carried out once, and answered alike. Belongs to the caller and operation.",
    {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[!-~]+$"},
)
_VIEW_KEY = _header(
    "Idempotency-Key",
    "Makes a retry safe for 24 hours: the view is counted once. The answer is the present count each time.",
    _KEY["schema"],
)
_IF_MATCH = _header(
    "If-Match",
    'An ETag of the video, or its version alone such as `"3"`: change it only if it still has that version. Without '
    "it, the last change wins.",
    {"type": "string"},
)
_IF_NONE_MATCH = _header(
    "If-None-Match",
    "An ETag that you have: 304 when nothing has changed.",
    {"type": "string"},
)


def _time(last: int) -> Schema:
    return {"anyOf": [{"type": "integer", "minimum": 0, "maximum": last}, {"type": "string", "format": "date-time"}]}


def _fields(known: Sequence[str]) -> Schema:
    return {
        **_query(
            "fields",
            "Only these fields, separated by commas",
            {"type": "array", "items": {"enum": list(known)}, "minItems": 1},
        ),
        "style": "form",
        "explode": False,
    }


@dataclass(frozen=True)
class _Operation:
    summary: str
    description: str
    answers: dict[int, Schema]
    errors: tuple[type[ServiceError], ...] = ()
    parameters: tuple[Schema, ...] = ()
    body: Schema | None = None


def _json(schema: Schema, example: Any) -> Schema:
    return {"content": {JSON: {"schema": schema, "example": example}}}


_ETAG: Schema = {
    "description": 'The version and a hash of this representation. If-Match compares the version alone, so `"3"` '
    "will do; If-None-Match the whole, which after a PATCH or restore is no GET's, as those leave `viewCount` out.",
    "schema": {"type": "string"},
    "example": '"3.0f1e2d3c4b5a6978"',
}
_VIDEO_ANSWER: Schema = {"headers": {"ETag": _ETAG}, **_json(_ref("Video"), VIDEO)}
_EMPTY_BODY: Schema = {"required": False, "content": {JSON: {"schema": _ref("NoContent"), "example": {}}}}
_CHANGE_ERRORS = (
    errors.InvalidParameter,
    errors.Forbidden,
    errors.NotFound,
    errors.WriteContention,
    errors.VersionMismatch,
)
_BODY_ERRORS = (errors.MalformedJson, errors.ContentTooLarge, errors.UnsupportedMediaType, errors.InvalidContent)

_OPERATIONS: dict[str, _Operation] = {
    "createVideo": _Operation(
        "Create a video",
        "The server sets `videoId`, `createdAt`, `userId` and `status`; from admins it takes theirs.",
        {
            201: {
                "description": "Created",
                **_VIDEO_ANSWER,
                "headers": {
                    "ETag": _ETAG,
                    "Location": {
                        "description": "The video, relative to this request's URL",
                        "schema": {"type": "string", "format": "uri-reference"},
                    },
                },
            }
        },
        (
            *_BODY_ERRORS,
            errors.InvalidParameter,
            errors.Forbidden,
            errors.AlreadyExists,
            errors.RequestInFlight,
            errors.KeyReused,
        ),
        (_KEY,),
        {"required": True, "content": {JSON: {"schema": _ref("NewVideo"), "example": NEW_VIDEO}}},
    ),
    "listVideos": _Operation(
        "List videos, newest first",
        "One selector decides which index answers: `userId` (an owner's videos: all of them for the owner, published "
        "ones for others), `category` (published ones), `status` (admins), or none (all published ones). All other "
        f"parameters filter. A page is full unless {EXAMINED_BUDGET} items were examined for it; then it is short, "
        "and `nextCursor` still leads on. `nextCursor` is null when there is nothing more.",
        {
            200: {
                "description": "A page",
                "headers": {"Link": {"description": "The next page, if any: `rel=next`", "schema": {"type": "string"}}},
                **_json(
                    _ref("VideoPage"),
                    {"items": [{name: VIDEO[name] for name in SUMMARY_FIELDS if name in VIDEO}], "nextCursor": None},
                ),
            }
        },
        (errors.InvalidParameter, errors.InvalidCursor, errors.UnservedQuery, errors.Forbidden),
        (
            _query("userId", "Selector: the owner", {"type": "string", "minLength": 1, "maxLength": 255}),
            _query("category", "Selector, or a filter", {"type": "string", "minLength": 1, "maxLength": 100}),
            _query("status", "Selector for admins, or a filter", _STATUS),
            _query("format", "Filter: container format", {"type": "string", "minLength": 1, "maxLength": 64}),
            _query(
                "minDuration",
                "Filter: milliseconds, included",
                {"type": "integer", "minimum": 0, "maximum": LARGEST_INTEGER},
            ),
            _query(
                "maxDuration",
                "Filter: milliseconds, included",
                {"type": "integer", "minimum": 0, "maximum": LARGEST_INTEGER},
            ),
            _query("from", "createdAt from this time on: epoch seconds or RFC 3339", _time(LAST_SECOND)),
            _query("to", "createdAt before this time (not included)", _time(LAST_SECOND + 1)),
            _query("order", "By createdAt", {"enum": ["desc", "asc"], "default": "desc"}),
            _query("limit", "Videos on a page", {"type": "integer", "minimum": 1, "maximum": 100, "default": 25}),
            _query(
                "cursor",
                f"`nextCursor` of the page before, with the same query; good for {LIFETIME_SECONDS // 3600} hours",
                {"type": "string", "minLength": 1, "maxLength": LONGEST},
            ),
            _fields(SUMMARY_FIELDS),
        ),
    ),
    "getVideo": _Operation(
        "Read a video and its view count",
        "Eventually consistent: a write may take some milliseconds to show.",
        {
            200: {
                "description": "The video",
                "headers": {"ETag": _ETAG},
                **_json(_ref("PartialVideo"), VIDEO),
            },
            304: {"description": "Not modified", "headers": {"ETag": _ETAG}},
        },
        (errors.InvalidParameter, errors.Forbidden, errors.NotFound),
        (_VIDEO_ID, _fields(FIELDS), _IF_NONE_MATCH),
    ),
    "patchVideo": _Operation(
        "Change a video",
        "A JSON Merge Patch (RFC 7396): members replace, null removes. The answer leaves `viewCount` out.",
        {200: {"description": "The changed video", **_VIDEO_ANSWER}},
        (*_BODY_ERRORS, *_CHANGE_ERRORS, errors.IllegalTransition),
        (_VIDEO_ID, _IF_MATCH),
        {
            "required": True,
            "content": {
                kind: {
                    "schema": _ref("VideoPatch"),
                    "example": {"title": "Product Launch", "description": None, "status": "processing"},
                }
                for kind in (MERGE_PATCH, JSON)
            },
        },
    ),
    "deleteVideo": _Operation(
        "Delete a video",
        f"It leaves all listings at once and can be restored for {GRACE_SECONDS // 86400} days; then it is removed. "
        "Deleting it again changes nothing.",
        {204: {"description": "Deleted"}},
        _CHANGE_ERRORS,
        (_VIDEO_ID, _IF_MATCH),
    ),
    "restoreVideo": _Operation(
        "Restore a deleted video",
        "It gets back the status that it had. The answer leaves `viewCount` out.",
        {200: {"description": "The restored video", **_VIDEO_ANSWER}},
        (*_BODY_ERRORS, *_CHANGE_ERRORS, errors.IllegalTransition, errors.RequestInFlight, errors.KeyReused),
        (_VIDEO_ID, _IF_MATCH, _KEY),
        _EMPTY_BODY,
    ),
    "countView": _Operation(
        "Count a view",
        "Of a video that the caller may see; who may is remembered for "
        f"{CACHE_SECONDS} seconds. Answers with the new count.",
        {
            200: {
                "description": "Counted",
                **_json(_ref("ViewCount"), {"videoId": EXAMPLE_ID, "viewCount": 42}),
            }
        },
        (
            *_BODY_ERRORS,
            errors.InvalidParameter,
            errors.Forbidden,
            errors.NotFound,
            errors.KeyReused,
        ),
        (_VIDEO_ID, _VIEW_KEY),
        _EMPTY_BODY,
    ),
    "getHealth": _Operation(
        "Does the service answer, and its table?",
        "For load balancers and monitors.",
        {200: {"description": "Yes", **_json({"type": "object", "required": ["status"]}, {"status": "ok"})}},
    ),
    "getOpenApi": _Operation(
        "This document",
        "OpenAPI 3.1.",
        {200: {"description": "The document", **_json({"type": "object"}, {"openapi": "3.1.1"})}},
    ),
    "getDocs": _Operation(
        "Interactive documentation",
        "Works offline.",
        {200: {"description": "A page", "content": {"text/html": {"schema": {"type": "string"}}}}},
    ),
    "getDocsAsset": _Operation(
        "A file of the documentation",
        "Scripts and styles of the page.",
        {
            200: {
                "description": "The file",
                "content": {kind: {"schema": {"type": "string"}} for kind in ("text/javascript", "text/css")},
            }
        },
        (errors.NotFound,),
        (
            {
                "name": "asset",
                "in": "path",
                "required": True,
                "schema": {"enum": ["start.js", "swagger-ui-bundle.min.js", "swagger-ui.min.css"]},
            },
        ),
    ),
}

_GATEWAY: dict[int, tuple[str, str]] = {
    401: ("The token is missing or not valid", "Unauthorized"),
    413: ("The request is over the gateway's limit of 10 MB", "Request Too Long"),
    429: ("Too many requests", "Too Many Requests"),
    431: ("The headers are over the gateway's limit", "Request Header Fields Too Large"),
    500: ("The function crashed or ran out of time", "Internal Server Error"),
    503: ("The function did not answer in time", "Service Unavailable"),
}
"""What API Gateway answers by itself, as `{"message": ...}`."""


@cache
def document() -> Schema:
    """The whole document."""
    paths: dict[str, Schema] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, _OPERATIONS[route.operation])
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "Video metadata",
            "version": "1.0.0",
            "description": "Metadata of videos: create, find by owner, category and time, change safely, count views. "
            "Every error that the service answers is a problem document (RFC 9457); the gateway's own are "
            f'`{{"message": ...}}`. Bodies may have {LARGEST_BODY:,} bytes.',
        },
        # Relative to this document, so that it holds behind a proxy that serves it below another path.
        "servers": [{"url": "./"}],
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": "Scopes: "
                    + "; ".join(f"`{name}` ({what.lower()})" for name, what in SCOPES.items()),
                }
            },
        },
    }


def _operation(route: Route, operation: _Operation) -> Schema:
    spec: Schema = {
        "operationId": route.operation,
        "tags": ["service" if route.scope is None else route.function],
        "summary": operation.summary,
        "description": operation.description + (f" Needs the scope `{route.scope}`." if route.scope else ""),
        "responses": _responses(route, operation),
    }
    if operation.parameters:
        spec["parameters"] = list(operation.parameters)
    if operation.body:
        spec["requestBody"] = operation.body
    if route.scope:
        spec["security"] = [{"token": []}]
    return spec


def _responses(route: Route, operation: _Operation) -> Schema:
    by_status: dict[int, list[type[ServiceError]]] = {}
    # Every operation but the static ones asks the table; every one may meet a bug.
    always: tuple[type[ServiceError], ...] = (errors.InternalError,)
    if route.scope or route.operation == "getHealth":
        always += (errors.Unavailable,)
    for error in dict.fromkeys(operation.errors + always):
        by_status.setdefault(error.status, []).append(error)
    responses: Schema = {str(status): answer for status, answer in operation.answers.items()}
    gateway = {status for status in _GATEWAY if route.scope or status != 401}
    if not operation.body:
        gateway.discard(413)
    for status in sorted(by_status.keys() | gateway):
        responses[str(status)] = _error_response(status, by_status.get(status, []), from_gateway=status in gateway)
    return responses


def _error_response(status: int, kinds: Sequence[type[ServiceError]], *, from_gateway: bool) -> Schema:
    content: Schema = {}
    what = [(kind.__doc__ or kind.title).strip().rstrip(".") for kind in kinds]
    if kinds:
        content[PROBLEM] = {
            "schema": _ref("Problem"),
            "examples": {kind.slug: {"value": _example(kind)} for kind in kinds},
        }
    if from_gateway:
        description, message = _GATEWAY[status]
        what.append(f"{description} (gateway)")
        content[JSON] = {"schema": _ref("GatewayError"), "example": {"message": message}}
    response: Schema = {"description": "; or ".join(what), "content": content}
    if status == 503 or {errors.RequestInFlight, errors.WriteContention} & set(kinds):
        response["headers"] = {
            "Retry-After": {"description": "Seconds to wait", "schema": {"type": "string", "pattern": "^[0-9]+$"}}
        }
    return response


def _example(kind: type[ServiceError]) -> Schema:
    detail = (kind.__doc__ or "").strip()
    match kind.status:
        case 422 if kind is errors.InvalidContent:
            fault = [{"pointer": "/duration", "detail": "Input should be a valid integer"}]
            return kind("1 field is not valid.", errors=fault).problem()
        case 400 if kind is errors.InvalidParameter:
            return errors.InvalidParameter.named("limit", "must be a whole number from 1 to 100").problem()
        case 503:
            return errors.Unavailable().problem()
        case _:
            return kind(detail).problem()


def _schemas() -> Schema:
    _, definitions = models_json_schema(
        [(model, "validation") for model in (NewVideo, VideoPatch, NoContent, VideoContent)],
        ref_template="#/components/schemas/{model}",
    )
    schemas: Schema = _tidied(definitions["$defs"])
    content = {name: _never_null(field) for name, field in schemas.pop("VideoContent")["properties"].items()}
    server: Schema = {
        "videoId": {"type": "string", "format": "uuid"},
        "userId": {"type": "string"},
        "createdAt": _SECONDS,
        "updatedAt": _SECONDS,
        "status": _STATUS,
        "purgeAt": {
            **_SECONDS,
            "description": "Epoch seconds; when a deleted or expired video is gone for good. Shown to its owner and admins",
        },
        "viewCount": {"type": "integer", "minimum": 0},
        "version": {"type": "integer", "minimum": 1, "description": "One more with every change"},
        "schemaVersion": {"type": "integer", "minimum": 1},
    }
    video = {name: (server | content)[name] for name in FIELDS}
    summary = {name: video.get(name, {"type": "string", "description": "URL of the poster"}) for name in SUMMARY_FIELDS}
    always = ("title", "resolutions", "visibility", "metadata", "thumbnails")
    required = [name for name in (*always, *server) if name not in ("purgeAt", "viewCount")]
    return schemas | {
        "Video": {"type": "object", "properties": video, "required": required},
        "PartialVideo": {
            "type": "object",
            "description": "A video: all its fields, or those that `fields` names",
            "properties": video,
        },
        "VideoSummary": {"type": "object", "properties": summary},
        "VideoPage": {
            "type": "object",
            "properties": {
                "items": {"type": "array", "items": _ref("VideoSummary"), "maxItems": 100},
                "nextCursor": {"type": ["string", "null"], "maxLength": LONGEST},
            },
            "required": ["items", "nextCursor"],
            "additionalProperties": False,
        },
        "ViewCount": {
            "type": "object",
            "properties": {"videoId": server["videoId"], "viewCount": server["viewCount"]},
            "required": ["videoId", "viewCount"],
            "additionalProperties": False,
        },
        "Problem": {
            "type": "object",
            "description": "RFC 9457",
            "properties": {
                "type": {"type": "string", "format": "uri"},
                "title": {"type": "string"},
                "status": {"type": "integer"},
                "detail": {"type": "string"},
                "errors": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "pointer": {"type": "string", "description": "JSON Pointer into the body (RFC 6901)"},
                            "parameter": {"type": "string", "description": "Query, path or header parameter"},
                            "detail": {"type": "string"},
                        },
                        "required": ["detail"],
                    },
                },
            },
            "required": ["type", "title", "status", "detail"],
        },
        "GatewayError": {
            "type": "object",
            "properties": {"message": {"type": ["string", "null"]}},
            "required": ["message"],
        },
    }


def _tidied(schema: Any) -> Any:
    """What pydantic makes, said as OpenAPI's readers expect it."""
    if isinstance(schema, list):
        return [_tidied(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    # Titles only repeat the names, and a default of null would read as "removes" in a merge patch.
    tidy = {name: _tidied(value) for name, value in schema.items() if not _is_noise(name, value)}
    if "patternProperties" in tidy:
        # pydantic leaves keys that match no pattern open, but refuses them.
        ((pattern, value),) = tidy.pop("patternProperties").items()
        tidy["propertyNames"] = tidy.get("propertyNames", {}) | {"pattern": pattern}
        tidy["additionalProperties"] = value
    return tidy


def _is_noise(name: str, value: Any) -> bool:
    return (name == "title" and isinstance(value, str)) or (name == "default" and not isinstance(value, dict))


def _never_null(field: Schema) -> Schema:
    """A field as it is answered: left out instead of null."""
    plain = {name: value for name, value in field.items() if name != "default"}
    options = [option for option in plain.pop("anyOf", []) if option != {"type": "null"}]
    if len(options) == 1:
        (only,) = options
        return {**only, **plain}
    return plain | ({"anyOf": options} if options else {})
