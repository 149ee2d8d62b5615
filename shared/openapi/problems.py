"""Errors in the OpenAPI document and in docs/errors.md: problem documents with examples, and errors of the gateway."""

from collections.abc import Iterator, Sequence

from shared.core import errors
from shared.core.errors import ServiceError
from shared.openapi.spec import ref
from shared.web.parameters import Schema
from shared.web.requests import JSON, LARGEST_BODY
from shared.web.responses import PROBLEM

_EXAMPLES: Sequence[ServiceError] = (
    errors.MalformedJson("The body is not JSON: a comma has nothing after it (line 1 column 18)."),
    errors.InvalidParameter.named("limit", "must be a whole number from 1 to 100, not 0"),
    errors.InvalidCursor("The cursor has expired. Start again from the first page."),
    errors.UnservedQuery(
        "No index serves tag and region together. Select by one of them.",
        errors=[{"parameter": "region", "detail": "is not served by an index"}],
    ),
    errors.Forbidden.owned("video"),
    errors.NotFound.of("video"),
    errors.MethodNotAllowed("The path does not support the method. Use GET, PATCH, DELETE."),
    errors.AlreadyExists("The playlist already contains the video."),
    errors.BeingRemoved("An earlier video with this videoId is still being removed. Retry the request."),
    errors.IllegalTransition.deleted(),
    errors.RequestInFlight("A request with the same Idempotency-Key is in progress. Retry the request."),
    errors.WriteContention("the video"),
    errors.LimitReached.full("You already have 1000 playlists"),
    errors.NoSource("The video has no probed source video. GET .../why-not-ready gives the reason."),
    errors.NotPlayable("The video has no rendition yet. Retry later."),
    errors.OutdatedReport(
        "The job is done, at attempt 2 for the input 6f1ed002ab5595859014ebf0951522d9. Stop the work."
    ),
    errors.Gone("The audit entry of version 3 has expired. Request a version since the time 1769860800."),
    errors.VersionMismatch.at("video", 3),
    errors.ContentTooLarge(f"The body must have at most {LARGEST_BODY:,} bytes."),
    errors.UnsupportedMediaType("The header Content-Type must be application/json, in UTF-8."),
    errors.invalid_field("/duration", "must be a whole number, not text"),
    errors.KeyReused("The Idempotency-Key was used for a different request. Send a new key."),
    errors.QuotaExceeded("The request exceeds the quota of 500 jobs per owner and day (UTC). Retry tomorrow."),
    errors.TooSoon("A webhook can be tested once in 10 seconds. Retry in 7 seconds."),
    errors.InternalError("The service failed. The log has the error under the id of this request."),
    errors.Unavailable(),
    errors.TrailBehind(),
)
"""Example of each problem type, in the order of the classes in shared/core/errors.py."""

_GATEWAY: dict[int, tuple[str, str]] = {
    401: ("The token is missing or not valid", "Unauthorized"),
    413: ("The request is over the gateway's limit of 10 MB", "Request Too Long"),
    429: ("Too many requests", "Too Many Requests"),
    431: ("The headers are over the gateway's limit", "Request Header Fields Too Large"),
    500: ("The function crashed or ran out of time", "Internal Server Error"),
    503: ("The function did not respond in time", "Service Unavailable"),
}
"""Errors that API Gateway itself returns, by status: their cause, and the `message` in the response."""
_WAIT = {errors.RequestInFlight, errors.WriteContention, errors.QuotaExceeded, errors.TooSoon}
"""Error classes of responses with the header `Retry-After`. All responses with status 503 also have this header."""


SCHEMAS: Schema = {
    "Problem": {
        "type": "object",
        "description": "Problem document (RFC 9457). docs/errors.md#<slug> describes each `type`: when it occurs, an example, and "
        "what to do",
        "properties": {
            "type": {"type": "string", "format": "uri", "description": f"`{errors.TYPE_PREFIX}<slug>`"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {
                "type": "string",
                "description": "The problem, then the remedy, for people. Programs must compare `type`",
            },
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "pointer": {"type": "string", "description": "JSON Pointer into the body (RFC 6901)"},
                        "parameter": {"type": "string", "description": "Name of a query, path or header parameter"},
                        "line": {
                            "type": "integer",
                            "minimum": 1,
                            "description": "Line of a body that is not valid JSON or captions; omitted if the whole body is invalid",
                        },
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
"""Schemas of error responses, by name."""


def examples() -> dict[type[ServiceError], Schema]:
    """Return an example document of each problem type, by class."""
    return {type(error): error.problem() for error in _EXAMPLES}


def summary(kind: type[ServiceError]) -> str:
    """Return the condition under which the service returns a problem of this type, as one sentence without a full
    stop."""
    return (kind.__doc__ or kind.title).strip().rstrip(".")


def gateway_statuses() -> Iterator[int]:
    """Yield the statuses of errors that API Gateway itself returns."""
    yield from _GATEWAY


def error_response(status: int, kinds: Sequence[type[ServiceError]], *, from_gateway: bool) -> Schema:
    """Return the response object for a status. `kinds` are the problem types that the operation can return with this
    status.

    `from_gateway` adds the error that API Gateway itself returns with this status.
    """
    content: Schema = {}
    meanings = [summary(kind) for kind in kinds]
    if kinds:
        documents = examples()
        content[PROBLEM] = {
            "schema": ref("Problem"),
            "examples": {kind.slug: {"value": documents[kind]} for kind in kinds},
        }
    if from_gateway:
        description, message = _GATEWAY[status]
        meanings.append(f"{description} (gateway)")
        content[JSON] = {"schema": ref("GatewayError"), "example": {"message": message}}
    response: Schema = {"description": ". ".join(meanings), "content": content}
    if status == 401:
        challenge = "The scheme `Bearer`, and the reason if the token was rejected"
        response["headers"] = {"WWW-Authenticate": {"description": challenge, "schema": {"type": "string"}}}
    if status == 503 or _WAIT & set(kinds):
        response["headers"] = {
            "Retry-After": {"description": "Seconds to wait", "schema": {"type": "string", "pattern": "^[0-9]+$"}}
        }
    return response
