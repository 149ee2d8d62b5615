"""Errors of requests as one class tree. Each class has one HTTP status; each class with a `slug` is a problem type.

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
JSON Pointer (RFC 6901), or the name of the query parameter or header.

A detail is one or two sentences: the problem, then the remedy. If several modules need the same detail, a class method
here creates the error. In `errors`, a detail continues the name of the field or parameter: "must be a whole number, not
text". The OpenAPI document contains the docstrings of the classes. docs/errors.md contains the docstrings and the
`advice` of the classes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

TYPE_PREFIX = "urn:video-metadata:problem:"

LONGEST_NAME = 200
"""Maximum number of characters of each key in a JSON Pointer of `errors`. Longer keys are truncated."""


class ServiceError(Exception):
    """Error of a request, with a detail that the caller may read."""

    status: ClassVar[int]
    """HTTP status."""
    title: ClassVar[str]
    slug: ClassVar[str]
    """Suffix of the problem type, after TYPE_PREFIX."""
    advice: ClassVar[str]
    """Instruction to the client, for docs/errors.md."""

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
        """Return the problem document, the body of the response. It contains no internal data."""
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

    status = 400

    @classmethod
    def named(cls, name: str, detail: str) -> Self:
        """Return the error for one path, query or header parameter."""
        return cls(_sentence(f"The parameter {name} {detail}"), errors=[{"parameter": name, "detail": detail}])


class MalformedJson(BadRequest):
    """The body is not JSON (RFC 8259)."""

    title, slug = "Malformed JSON", "malformed-json"
    advice = "Send a JSON object in UTF-8. The detail gives the line and column of the fault."


class InvalidParameter(BadRequest):
    """A path, query or header parameter has a value outside its range."""

    title, slug = "Invalid parameter", "invalid-parameter"
    advice = "Correct the parameters that `errors` lists."


class InvalidCursor(BadRequest):
    """The cursor was altered, has expired, or belongs to another list."""

    title, slug = "Invalid cursor", "invalid-cursor"
    advice = "Repeat the query without the cursor, and follow `nextCursor` from the first page."


class UnservedQuery(BadRequest):
    """No index serves the query; the detail lists the supported queries."""

    title, slug = "No index serves this query", "unserved-query"
    advice = "Send one of the queries that the detail lists."


class Forbidden(ServiceError):
    """The token lacks a scope, or the caller does not own the resource."""

    status, title, slug = 403, "Forbidden", "forbidden"
    advice = "Use a token with the scope that the detail names, or a token of the owner."

    @classmethod
    def owned(cls, what: str) -> Self:
        """Return the error for a resource of another owner, such as a `playlist`."""
        return cls(f"You do not own this {what}.")

    @classmethod
    def scopes(cls, *scopes: str, advice: str = "") -> Self:
        """Return the error for a token that has none of these scopes. `advice` is the second sentence of the detail."""
        return cls(f"The token lacks the scope {' or '.join(scopes)}. {advice}".rstrip())


class NotFound(ServiceError):
    """The resource does not exist, or is not visible to the caller."""

    status, title, slug = 404, "Not found", "not-found"
    advice = "Check the id and the token. For a private resource of another user, the response is also 404."

    @classmethod
    def of(cls, what: str) -> Self:
        """Return the error for a resource that does not exist, such as a `video`."""
        return cls(f"The {what} does not exist.")


class MethodNotAllowed(ServiceError):
    """The path does not support the method; `Allow` lists the supported methods."""

    status, title, slug = 405, "Method not allowed", "method-not-allowed"
    advice = "Use a method that `Allow` lists."


class Conflict(ServiceError):
    """The request is valid, but conflicts with the current state."""

    status = 409


class AlreadyExists(Conflict):
    """A resource with this id already exists."""

    title, slug = "Already exists", "already-exists"
    advice = "Read the existing resource, or choose another id. Use an Idempotency-Key to make retries safe."


class BeingRemoved(Conflict):
    """A deleted video with this id is still being removed."""

    title, slug = "Being removed", "being-removed"
    advice = "Retry later, or choose another id."


class IllegalTransition(Conflict):
    """The current status does not allow this transition."""

    title, slug = "Illegal transition", "illegal-transition"
    advice = "Follow the detail, which names the step that must come first."

    @classmethod
    def deleted(cls) -> Self:
        """Return the error for a change of a deleted video."""
        return cls("The video is deleted. Restore it first.")


class RequestInFlight(Conflict):
    """A request with the same Idempotency-Key is in progress."""

    title, slug = "Request in flight", "request-in-flight"
    advice = "Repeat the same request after `Retry-After` seconds."


class WriteContention(Conflict):
    """Concurrent writes conflicted at every attempt. Retry the request."""

    title, slug = "Too much contention", "write-contention"
    advice = "Repeat the request after `Retry-After` seconds."

    def __init__(self, what: str = "the item") -> None:
        """Set the name that the detail uses for the item, such as `the playlist`."""
        super().__init__(f"Other requests are changing {what}. Retry the request.", headers={"Retry-After": "1"})


class LimitReached(Conflict):
    """A limit is reached; the detail names it."""

    title, slug = "Limit reached", "limit-reached"
    advice = "Delete an item of the kind that the detail names, or narrow the request."

    @classmethod
    def full(cls, holder: str) -> Self:
        """Return the error for a list that already has its maximum number of items.

        `holder` is the first part of the detail, such as `You already have 1000 playlists`.
        """
        return cls(f"{holder}, the maximum. Delete one first.")


class NoSource(Conflict):
    """The video has no source video yet, or the service refused the uploaded file."""

    title, slug = "No source", "no-source"
    advice = "Upload a file. `GET /v1/videos/{videoId}/why-not-ready` gives the reason if the file is missing."


class NotPlayable(Conflict):
    """The video is not playable; the detail gives the reason."""

    title, slug = "Not playable", "not-playable"
    advice = "Wait until the reason in the detail no longer applies. `GET /v1/videos/{videoId}/why-not-ready` gives the current reason."


class OutdatedReport(Conflict):
    """The report is about an earlier input or attempt of the job. Stop the work."""

    title, slug = "Outdated report", "outdated-report"
    advice = "Stop the work and discard its result."


class Gone(ServiceError):
    """The requested state is no longer stored; the detail gives the reason."""

    status, title, slug = 410, "Gone", "gone"
    advice = "Request a later state, or start again from the current state."


class VersionMismatch(ServiceError):
    """`If-Match` does not match the current version."""

    status, title, slug = 412, "Version mismatch", "version-mismatch"
    advice = "Read the resource again, apply the change to it, and send its new ETag."

    @classmethod
    def at(cls, what: str, version: object) -> Self:
        """Return the error for a resource, such as a `video`. `version` is the current version of the resource."""
        return cls(f'The {what} is at version {version}. Send its ETag, or "{version}", as If-Match.')


class ContentTooLarge(ServiceError):
    """The body, or the resulting item, exceeds the size limit."""

    status, title, slug = 413, "Content too large", "content-too-large"
    advice = "Send less, or split the request."


class UnsupportedMediaType(ServiceError):
    """The operation does not support the content type or content coding of the body."""

    status, title, slug = 415, "Unsupported media type", "unsupported-media-type"
    advice = "Send a type that the detail lists, uncompressed."


class InvalidContent(ServiceError):
    """The body is well-formed, but contains invalid values."""

    status, title, slug = 422, "Invalid content", "invalid-content"
    advice = "Correct the fields that `errors` lists."


class KeyReused(InvalidContent):
    """The Idempotency-Key was used for a different request."""

    title, slug = "Idempotency key reused", "idempotency-key-reused"
    advice = "Use a new key for each request; repeat a key only to retry the same request."


def invalid_field(pointer: str, detail: str) -> InvalidContent:
    """Return the error for one field of a body. `pointer` is the field's JSON Pointer."""
    return invalid_fields([{"pointer": pointer, "detail": detail}])


def invalid_fields(errors: Sequence[Mapping[str, Any]], total: int | None = None) -> InvalidContent:
    """Return the error for several fields of a body.

    If `errors` is truncated, `total` is the number of all invalid fields.
    """
    total = total or len(errors)
    if total == 1:
        field = errors[0]["pointer"].removeprefix("/")
        subject = f"The field {field}" if field else "The body"
        return InvalidContent(_sentence(f"{subject} {errors[0]['detail']}"), errors=errors)
    first = f" `errors` lists the first {len(errors)}." if total > len(errors) else ""
    return InvalidContent(f"{total} fields are invalid.{first}", errors=errors)


def _sentence(text: str) -> str:
    """Return the text with a full stop at the end, unless it ends with a full stop or a question mark."""
    return text if text.endswith((".", "?")) else f"{text}."


class QuotaExceeded(ServiceError):
    """The owner's daily job quota is used up; `Retry-After` is the time until midnight (UTC)."""

    status, title, slug = 429, "Quota exceeded", "quota-exceeded"
    advice = "Wait `Retry-After` seconds, or ask the operator for a higher quota."


class TooSoon(ServiceError):
    """The previous request was too recent; `Retry-After` is the time until the next one is allowed."""

    status, title, slug = 429, "Too soon", "too-soon"
    advice = "Repeat the request after `Retry-After` seconds."


class InternalError(ServiceError):
    """Internal error; the log lists it under the request id."""

    status, title, slug = 500, "Internal error", "internal-error"
    advice = "Retry once. If the error persists, report the request id to the operator."


class Unavailable(ServiceError):
    """DynamoDB is throttled or unavailable after retries, or this release cannot read the item."""

    status, title, slug = 503, "Unavailable", "unavailable"
    advice = "Repeat the request after `Retry-After` seconds, with exponential backoff."

    def __init__(
        self, reason: str = "The database is busy.", advice: str = "Retry the request.", *, retry_after: int = 1
    ) -> None:
        """Set the two sentences of the detail, and the seconds in `Retry-After`."""
        super().__init__(f"{reason} {advice}", headers={"Retry-After": str(retry_after)})


class NotApplied(Unavailable):
    """DynamoDB refused the request for lack of capacity, or was not reached, so the request was certainly not applied."""


class Throttled(NotApplied):
    """Requests for the item, or for its partition, exceeded the partition's throughput."""


class NewerSchema(Unavailable):
    """A newer release wrote the item, so this release cannot read it. This can occur during a deployment."""

    def __init__(self) -> None:
        super().__init__("A newer release of the service wrote the item.", retry_after=5)


class TrailBehind(Unavailable):
    """The audit trail does not yet contain the newest changes, because it lags by seconds."""

    title, slug = "Audit trail behind", "trail-behind"
    advice = "Repeat the request after `Retry-After` seconds."

    def __init__(self) -> None:
        super().__init__("The audit trail does not have the newest changes yet.", retry_after=2)


TRANSIENT_ERRORS = (Unavailable, WriteContention)
"""Transient errors: a retry may succeed."""


def pointer(location: tuple[int | str, ...]) -> str:
    """Return the JSON Pointer (RFC 6901) of a location in a pydantic error. Omits `[key]`, pydantic's mark of an
    invalid key.

    Keys are truncated to LONGEST_NAME characters, because a client can send keys of almost any length.
    """
    parts = (str(part)[:LONGEST_NAME] for part in location if part != "[key]")
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)
