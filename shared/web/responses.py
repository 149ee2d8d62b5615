"""HTTP responses: JSON documents, problem documents and other kinds. `fit_documents` limits the size of a response."""

import base64
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from shared.core.errors import InternalError, ServiceError
from shared.core.telemetry import service_logger
from shared.web import etags
from shared.web.requests import JSON, Request

PROBLEM = "application/problem+json"
LARGEST_RESPONSE = 5_000_000
"""Maximum number of bytes of the documents in one response. The bytes include the backslashes with which Lambda escapes
the body as a JSON string."""

SAFE = {"X-Content-Type-Options": "nosniff"}
"""Headers of every response."""
_GZIP = zlib.MAX_WBITS | 16


class HttpResponse(NamedTuple):
    """HTTP response that a handler returns. The body is text."""

    status: int
    headers: Mapping[str, str]
    body: str = ""

    def as_payload(self, *, gzipped: bool, more: Mapping[str, str]) -> dict[str, Any]:
        """Return the response in API Gateway's format (payload 2.0), compressed if `gzipped`. `more` has additional
        headers."""
        headers = {**self.headers, **more}
        payload = {"statusCode": self.status, "headers": headers, "body": self.body, "isBase64Encoded": False}
        if gzipped and self.body:
            compressor = zlib.compressobj(wbits=_GZIP)
            body = compressor.compress(self.body.encode()) + compressor.flush()
            payload |= {
                "headers": {**headers, "Content-Encoding": "gzip"},
                "body": base64.b64encode(body).decode("ascii"),
                "isBase64Encoded": True,
            }
        return payload


def respond(
    status: int,
    content: Any,
    *,
    request: Request | None = None,
    version: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> HttpResponse:
    """Return a JSON response.

    With `version`, the response has an ETag. If the If-None-Match of `request` lists this ETag, the response is a 304
    without a body.
    """
    body = _json(content)
    all_headers = {"Content-Type": JSON, "Cache-Control": "private, no-cache", **SAFE, **(headers or {})}
    if version is not None:
        tag = etags.etag(version, body)
        all_headers["ETag"] = tag
        if request and etags.is_not_modified(request.headers.get("if-none-match"), tag):
            return HttpResponse(304, {name: value for name, value in all_headers.items() if name != "Content-Type"})
    return HttpResponse(status, all_headers, body)


def text_response(content: str, content_type: str, headers: Mapping[str, str]) -> HttpResponse:
    """Return a 200 response with text in UTF-8. `content_type` is the media type of the text."""
    return HttpResponse(200, {"Content-Type": f"{content_type}; charset=utf-8", **SAFE, **headers}, content)


def redirect(location: str, headers: Mapping[str, str]) -> HttpResponse:
    """Return a 301 redirect. `location` may be relative to the URL of the request."""
    return HttpResponse(301, {"Location": location, **SAFE, **headers})


def no_content() -> HttpResponse:
    """Return a 204 response, which has no body."""
    return HttpResponse(204, {"Cache-Control": "no-store", **SAFE})


def problem_response(error: ServiceError) -> HttpResponse:
    """Return the response for an error: a problem document (RFC 9457)."""
    headers = {"Content-Type": PROBLEM, "Cache-Control": "no-store", **SAFE, **error.headers}
    return HttpResponse(error.status, headers, _json(error.problem()))


def failed_part(error: Exception, at: str = "") -> dict[str, Any]:
    """Return the status and the problem document of one failed part of a batch. `at` is the JSON Pointer to the part in
    the body.

    An unexpected error is logged and reported as InternalError. It is not raised, so that the client receives the
    results of the other parts.
    """
    if isinstance(error, ServiceError) and not isinstance(error, InternalError):
        failure: ServiceError = error
    else:
        service_logger().exception("batch part failed", exc_info=error)
        failure = InternalError("The service failed. The log has the error under the id of this request.")
    document = failure.problem()
    if failure.errors:
        document["errors"] = [
            {**fault, "pointer": at + fault["pointer"]} if "pointer" in fault else dict(fault)
            for fault in failure.errors
        ]
    return {"status": failure.status, "problem": document}


def etag(version: int, content: Any) -> str:
    """Return the strong ETag of a JSON response. It consists of the version, and a hash of `content` as JSON."""
    return etags.etag(version, _json(content))


def fit_documents(documents: Iterable[Mapping[str, Any]], largest: int = LARGEST_RESPONSE) -> list[orjson.Fragment]:
    """Return the first documents as JSON: as many documents as fit into `largest` bytes of Lambda's response."""
    written: list[orjson.Fragment] = []
    size = 0
    for document in documents:
        body = orjson.dumps(document)
        size += len(body) + body.count(b'"') + body.count(b"\\") + 2  # Lambda escapes quotes and backslashes
        if size > largest:
            break
        written.append(orjson.Fragment(body))
    return written


def _json(content: Any) -> str:
    return orjson.dumps(content).decode()
