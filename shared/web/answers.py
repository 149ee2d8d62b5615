"""Answers: JSON documents with their headers, problems, and how many documents fit into one answer."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from aws_lambda_powertools.event_handler import Response

from shared.core.errors import ServiceError
from shared.web import etags
from shared.web.requests import JSON, Request

PROBLEM = "application/problem+json"
LARGEST_ANSWER = 5_000_000
"""Bytes of documents in one answer, as Lambda carries them: as JSON in a text of JSON."""

Answer: TypeAlias = Response[Any]


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
    all_headers = {"Cache-Control": "private, no-cache", "X-Content-Type-Options": "nosniff", **(headers or {})}
    if version is not None:
        tag = etags.etag(version, body)
        all_headers["ETag"] = tag
        if request and etags.has_now(request.headers.get("if-none-match"), tag):
            return Response(304, body="", headers=all_headers)
    return Response(status, content_type=JSON, body=body, headers=all_headers)


def text(content: str, content_type: str, headers: Mapping[str, str]) -> Answer:
    """An answer in plain text of some type."""
    return Response(
        200, f"{content_type}; charset=utf-8", content, headers={"X-Content-Type-Options": "nosniff", **headers}
    )


def moved(location: str, headers: Mapping[str, str]) -> Answer:
    """An answer that leads to another address, which may be relative to that of the request."""
    return Response(301, body="", headers={"Location": location, "X-Content-Type-Options": "nosniff", **headers})


def no_content() -> Answer:
    """An answer without a body."""
    return Response(204, body="", headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"})


def problem(error: ServiceError) -> Answer:
    """An error as a problem document (RFC 9457)."""
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", **error.headers}
    body = _json(error.problem())
    return Response(error.status, content_type=PROBLEM, body=body, headers=headers)


def etag(version: int, content: Any) -> str:
    """The strong validator of an answer (RFC 9110, section 8.8.3): the version, and a hash of the representation."""
    return etags.etag(version, _json(content))


def fitting(documents: Iterable[Mapping[str, Any]], largest: int = LARGEST_ANSWER) -> int:
    """How many documents, from the first on, fit into one answer together, or into `largest` bytes of it."""
    size = count = 0
    for document in documents:
        size += len(json.dumps(_json(document), ensure_ascii=False).encode())
        if size > largest:
            break
        count += 1
    return count


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
