"""Answers: JSON documents with their headers, problems, and how many documents fit into one answer."""

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
LARGEST_ANSWER = 5_000_000
"""Bytes of documents in one answer, as Lambda carries them: as JSON in a text of JSON."""

SAFE = {"X-Content-Type-Options": "nosniff"}
"""On every answer."""
_GZIP = zlib.MAX_WBITS | 16


class Answer(NamedTuple):
    """What a handler answers."""

    status: int
    headers: Mapping[str, str]
    body: str = ""

    def as_payload(self, *, gzipped: bool, more: Mapping[str, str]) -> dict[str, Any]:
        """The answer as API Gateway takes it from a function (payload 2.0), with `more` headers."""
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
) -> Answer:
    """An answer in JSON; with a version also an ETag, and 304 when the request has that one already."""
    body = _json(content)
    all_headers = {"Content-Type": JSON, "Cache-Control": "private, no-cache", **SAFE, **(headers or {})}
    if version is not None:
        tag = etags.etag(version, body)
        all_headers["ETag"] = tag
        if request and etags.has_now(request.headers.get("if-none-match"), tag):
            return Answer(304, {name: value for name, value in all_headers.items() if name != "Content-Type"})
    return Answer(status, all_headers, body)


def text(content: str, content_type: str, headers: Mapping[str, str]) -> Answer:
    """An answer in plain text of some type."""
    return Answer(200, {"Content-Type": f"{content_type}; charset=utf-8", **SAFE, **headers}, content)


def moved(location: str, headers: Mapping[str, str]) -> Answer:
    """An answer that leads to another address, which may be relative to that of the request."""
    return Answer(301, {"Location": location, **SAFE, **headers})


def no_content() -> Answer:
    """An answer without a body."""
    return Answer(204, {"Cache-Control": "no-store", **SAFE})


def problem(error: ServiceError) -> Answer:
    """An error as a problem document (RFC 9457)."""
    headers = {"Content-Type": PROBLEM, "Cache-Control": "no-store", **SAFE, **error.headers}
    return Answer(error.status, headers, _json(error.problem()))


def failed_part(error: Exception, at: str = "") -> dict[str, Any]:
    """The status and problem of a part of a batch; its pointers lead from the body on, whose part at `at` it is.

    A bug is logged and becomes an InternalError, as one part must not hide what became of the others.
    """
    if isinstance(error, ServiceError) and not isinstance(error, InternalError):
        failure: ServiceError = error
    else:
        service_logger().exception("a part of a batch failed", exc_info=error)
        failure = InternalError("The service failed; it has been logged under this request's id.")
    document = failure.problem()
    if failure.errors:
        document["errors"] = [
            {**fault, "pointer": at + fault["pointer"]} if "pointer" in fault else dict(fault)
            for fault in failure.errors
        ]
    return {"status": failure.status, "problem": document}


def etag(version: int, content: Any) -> str:
    """The strong validator of an answer (RFC 9110, section 8.8.3): the version, and a hash of the representation."""
    return etags.etag(version, _json(content))


def fitting(documents: Iterable[Mapping[str, Any]], largest: int = LARGEST_ANSWER) -> list[orjson.Fragment]:
    """The documents, from the first on, that fit into one answer together, or into `largest` bytes of it: as JSON already."""
    written: list[orjson.Fragment] = []
    size = 0
    for document in documents:
        body = orjson.dumps(document)
        size += len(body) + body.count(b'"') + body.count(b"\\") + 2  # each of these has a backslash before it
        if size > largest:
            break
        written.append(orjson.Fragment(body))
    return written


def _json(content: Any) -> str:
    return orjson.dumps(content).decode()
