"""Errors of requests as one class tree. Each class has one HTTP status and one problem type.

    ServiceError
    ├── BadRequest 400
    │   ├── MalformedJson
    │   ├── InvalidParameter
    │   ├── InvalidCursor
    │   └── UnservedQuery
    ├── Forbidden 403
    ├── NotFound 404
    ├── MethodNotAllowed 405
    ├── Conflict 409
    │   ├── AlreadyExists
    │   ├── BeingRemoved
    │   ├── IllegalTransition
    │   ├── RequestInFlight
    │   ├── WriteContention
    │   ├── LimitReached
    │   ├── NoSource
    │   ├── NotPlayable
    │   └── OutdatedReport
    ├── Gone 410
    ├── VersionMismatch 412
    ├── ContentTooLarge 413
    ├── UnsupportedMediaType 415
    ├── InvalidContent 422
    │   └── KeyReused
    ├── QuotaExceeded 429
    ├── TooSoon 429
    ├── InternalError 500
    └── Unavailable 503
        ├── NotApplied
        │   └── Throttled
        ├── NewerSchema
        └── TrailBehind

The response is a problem document (RFC 9457): `{"type", "title", "status", "detail"}`. `errors` lists each invalid field as a
JSON Pointer (RFC 6901), or the name of the query parameter or header. The OpenAPI document contains the docstrings of the classes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

TYPE_PREFIX = "urn:video-metadata:problem:"

LONGEST_NAME = 200
"""Maximum characters of each key in the pointer of an error."""


class ServiceError(Exception):
    """Error of a request, with a detail that the caller may read."""

    status: ClassVar[int]
    title: ClassVar[str]
    slug: ClassVar[str]

    def __init__(
        self,
        detail: str,
        *,
        errors: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})

    def problem(self) -> dict[str, object]:
        """Return the problem document; it contains nothing internal."""
        body: dict[str, object] = {
            "type": TYPE_PREFIX + self.slug,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            body["errors"] = [dict(error) for error in self.errors]
        return body


class BadRequest(ServiceError):
    """The request cannot be understood."""

    status, title, slug = 400, "Bad request", "bad-request"

    @classmethod
    def named(cls, name: str, detail: str) -> Self:
        """Return the error for one parameter or header."""
        return cls(f"{name}: {detail}", errors=[{"parameter": name, "detail": detail}])


class MalformedJson(BadRequest):
    """The body is not JSON (RFC 8259)."""

    title, slug = "Malformed JSON", "malformed-json"


class InvalidParameter(BadRequest):
    """A path, query or header parameter has a value outside its range."""

    title, slug = "Invalid parameter", "invalid-parameter"


class InvalidCursor(BadRequest):
    """The cursor was altered, has expired, or belongs to another list."""

    title, slug = "Invalid cursor", "invalid-cursor"


class UnservedQuery(BadRequest):
    """No index serves the query; the detail lists the supported queries."""

    title, slug = "No index serves this query", "unserved-query"


class Forbidden(ServiceError):
    """The token lacks a scope, or the caller does not own the resource."""

    status, title, slug = 403, "Forbidden", "forbidden"


class NotFound(ServiceError):
    """The resource does not exist, or is not visible to the caller."""

    status, title, slug = 404, "Not found", "not-found"


class MethodNotAllowed(ServiceError):
    """The path does not support the method; `Allow` lists the supported methods."""

    status, title, slug = 405, "Method not allowed", "method-not-allowed"


class Conflict(ServiceError):
    """The request is valid, but conflicts with the current state."""

    status, title, slug = 409, "Conflict", "conflict"


class AlreadyExists(Conflict):
    """The id is already used."""

    title, slug = "Already exists", "already-exists"


class BeingRemoved(Conflict):
    """A deleted video with this id is still being removed."""

    title, slug = "Being removed", "being-removed"


class IllegalTransition(Conflict):
    """The current status does not allow this transition."""

    title, slug = "Illegal transition", "illegal-transition"


class RequestInFlight(Conflict):
    """A request with the same Idempotency-Key is in progress."""

    title, slug = "Request in flight", "request-in-flight"


class WriteContention(Conflict):
    """Concurrent writes conflicted at every attempt. Retry the request."""

    title, slug = "Too much contention", "write-contention"

    def __init__(self, detail: str = "Others are changing the same thing; try again.") -> None:
        super().__init__(detail, headers={"Retry-After": "1"})


class LimitReached(Conflict):
    """A limit is reached; the detail names it."""

    title, slug = "Limit reached", "limit-reached"


class NoSource(Conflict):
    """The video has no source video yet, or the uploaded file is not the announced one."""

    title, slug = "No source", "no-source"


class NotPlayable(Conflict):
    """The video is not playable; the detail gives the reason."""

    title, slug = "Not playable", "not-playable"


class OutdatedReport(Conflict):
    """The input or the attempt of the report is obsolete. Stop the work."""

    title, slug = "Outdated report", "outdated-report"


class Gone(ServiceError):
    """The requested state is no longer stored; the detail gives the reason."""

    status, title, slug = 410, "Gone", "gone"


class VersionMismatch(ServiceError):
    """`If-Match` does not match the current version."""

    status, title, slug = 412, "Version mismatch", "version-mismatch"


class ContentTooLarge(ServiceError):
    """The body, or the resulting item, exceeds the size limit."""

    status, title, slug = 413, "Content too large", "content-too-large"


class UnsupportedMediaType(ServiceError):
    """The operation does not support the content type or content coding of the body."""

    status, title, slug = 415, "Unsupported media type", "unsupported-media-type"


class InvalidContent(ServiceError):
    """The body is well-formed, but contains invalid values."""

    status, title, slug = 422, "Invalid content", "invalid-content"


class KeyReused(InvalidContent):
    """The Idempotency-Key was used for a different request."""

    title, slug = "Idempotency key reused", "idempotency-key-reused"


def invalid_field(pointer: str, detail: str) -> InvalidContent:
    """Return the error for one field of a body, given as a JSON Pointer."""
    return invalid_fields([{"pointer": pointer, "detail": detail}])


def invalid_fields(errors: Sequence[Mapping[str, Any]], total: int | None = None) -> InvalidContent:
    """Return the error for several fields of a body. `total` is the number of invalid fields if `errors` is truncated."""
    total = total or len(errors)
    count = "1 field is" if total == 1 else f"{total} fields are"
    rest = f"; these are the first {len(errors)}" if total > len(errors) else ""
    return InvalidContent(f"{count} not valid{rest}.", errors=errors)


class QuotaExceeded(ServiceError):
    """The owner's daily job quota is used up; `Retry-After` is the time until the next day."""

    status, title, slug = 429, "Quota exceeded", "quota-exceeded"


class TooSoon(ServiceError):
    """The previous request was too recent; `Retry-After` is the time until the next one is allowed."""

    status, title, slug = 429, "Too soon", "too-soon"


class InternalError(ServiceError):
    """Internal error; the log lists it under the request id."""

    status, title, slug = 500, "Internal error", "internal-error"


class Unavailable(ServiceError):
    """DynamoDB is throttled or unavailable after retries, or this release cannot read the item."""

    status, title, slug = 503, "Unavailable", "unavailable"

    def __init__(self, detail: str = "The database is busy; try again.", *, retry_after: int = 1) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after)})


class NotApplied(Unavailable):
    """DynamoDB refused for want of capacity, or was not reached: certainly nothing has happened."""


class Throttled(NotApplied):
    """The item, or what lies in one partition with it, was asked for more often than a partition can answer."""


class NewerSchema(Unavailable):
    """An item has a schema version that only a newer release knows, such as during its deployment: it is not read."""

    def __init__(self) -> None:
        super().__init__("A newer release of the service wrote this; try again.", retry_after=5)


class TrailBehind(Unavailable):
    """The audit trail does not yet contain the newest changes, because it lags by seconds."""

    title, slug = "Audit trail behind", "trail-behind"

    def __init__(self) -> None:
        super().__init__("The newest changes are not in the audit trail yet; try again.", retry_after=2)


TRANSIENT_ERRORS = (Unavailable, WriteContention)
"""Transient errors: a retry may succeed."""


def pointer(location: tuple[int | str, ...]) -> str:
    """Return the JSON Pointer (RFC 6901) of a location in pydantic's form; its marker `[key]` is omitted.

    Keys are truncated to LONGEST_NAME characters, because a client can send keys of almost any length.
    """
    parts = (str(part)[:LONGEST_NAME] for part in location if part != "[key]")
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)
