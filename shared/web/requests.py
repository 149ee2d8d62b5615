"""HTTP request as handlers receive it: caller, time, path, headers, query string and body."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from shared.core.caller import Caller, IdempotentRequest
from shared.core.errors import (
    ContentTooLarge,
    InvalidParameter,
    MalformedJson,
    UnsupportedMediaType,
)
from shared.routes import Route
from shared.web import etags
from shared.web.parameters import Query, correlation_id_of, uuid_of

LARGEST_BODY = 1_000_000
"""Maximum number of bytes of a request body. API Gateway's limit is 10 MB, and Lambda's 6 MB."""
LONGEST_KEY = 255
"""Maximum number of characters of an Idempotency-Key."""
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()

QueryType = TypeVar("QueryType", bound=Query)


@dataclass(frozen=True)
class Request:
    """Request to an operation. The gateway has verified the caller's token, and the token has the scope of the
    route."""

    route: Route
    caller: Caller
    now: int
    """Time of the request in epoch seconds. Use it instead of a clock, so that all writes of a request have the same
    time."""
    path: Mapping[str, str]
    headers: Mapping[str, str]
    """Request headers, by name in lower case."""
    query: str
    """Percent-encoded query string."""
    event: Mapping[str, Any]
    """Event that API Gateway sent."""
    replays: list[str] = field(default_factory=list)
    """Ids of earlier requests with the same Idempotency-Key. If there are any, the response is the stored response of
    the last one."""

    @property
    def change_set(self) -> str | None:
        """Id of the change set that the request writes. `None` if the operation writes no change set, or if `dryRun` is
        true.

        If the response is the stored response of an earlier request, this is the id of that request's change set.
        """
        if not self.route.makes_change_set or ("dryRun", "true") in parse_qsl(self.query):
            return None
        return self.replays[-1] if self.replays else self.caller.correlation_id

    @cached_property
    def body(self) -> bytes:
        """Request body as the client sent it. Raises ContentTooLarge, or MalformedJson for invalid base64."""
        return _body(self.event, self.headers.get("content-length"))

    def video_id(self) -> str:
        """Return the videoId in the path, in lower case. Raises InvalidParameter if it is not a UUID."""
        return uuid_of("videoId", self.path["videoId"])

    def correlation_id(self, name: str) -> str:
        """Return the path parameter `name`, which is the id of a request or of an import run. Raises InvalidParameter.

        The gateway decodes all percent-encoded characters except `%25`. This method therefore decodes `%25`.
        """
        return correlation_id_of(name, self.path[name].replace("%25", "%"))

    def content(self, *types: str) -> bytes:
        """Return the body of a request with a Content-Type among `types`.

        Raises UnsupportedMediaType for another Content-Type, another charset than UTF-8, or a Content-Encoding.
        """
        header = self.headers.get("content-type", "")
        kind, _, parameters = header.partition(";")
        charset = re.search(r"charset\s*=\s*\"?([^\s\";]+)", parameters, re.IGNORECASE)
        if kind.strip().lower() not in types or (charset and charset[1].lower() not in ("utf-8", "utf8")):
            # RFC 5789, section 2.2
            headers = {"Accept-Patch": ", ".join(types)} if self.route.method == "PATCH" else None
            raise UnsupportedMediaType(
                f"The header Content-Type must be {' or '.join(types)}, in UTF-8.", headers=headers
            )
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            raise UnsupportedMediaType("The header Content-Encoding is not supported. Send the body uncompressed.")
        return self.body

    def require_no_content(self) -> None:
        """Raise MalformedJson, InvalidContent or UnsupportedMediaType if the body is neither empty nor `{}`."""
        if self.body:
            from shared.web.bodies import NoContent  # imports pydantic, which requests without a body do not need

            NoContent.parse(self.content(JSON))

    def once(self, *identity: object) -> IdempotentRequest | None:
        """Return an object with the Idempotency-Key of the request and a hash of `identity`. `None` if the request has
        no key.

        `identity` is the content of the request. A later request with the same key must have equal content. Raises
        InvalidParameter for an invalid key.
        """
        key = self.idempotency_key()
        if key is None:
            return None
        text = json.dumps(identity, sort_keys=True, default=sorted)
        fingerprint = hashlib.sha256(text.encode()).hexdigest()
        return IdempotentRequest(self.caller, self.route.operation, key, fingerprint, self.now, self.replays)

    def idempotency_key(self) -> str | None:
        """Return the value of the header Idempotency-Key. `None` if the request does not have the header.

        Raises InvalidParameter if the key is empty or too long, or has a space or a character that is not printable
        ASCII.
        """
        key = self.headers.get("idempotency-key")
        if key is None:
            return None
        if not re.fullmatch(f"[!-~]{{1,{LONGEST_KEY}}}", key):
            raise InvalidParameter.named(
                "Idempotency-Key", f"must have 1 to {LONGEST_KEY} printable ASCII characters and no spaces"
            )
        return key

    def matches(self, version: int) -> bool:
        """Return whether If-Match allows a change of this version of a resource. True if the request has no
        If-Match."""
        return etags.if_match(self.headers.get("if-match"), version)

    def allows(self, tag: str | None) -> bool:
        """Return whether If-Match and If-None-Match allow a write of a resource.

        `tag` is the resource's ETag, or `None` if the resource does not exist. Use this method only if the
        representation of the resource is the same for all callers. Unlike `matches`, it also compares the hash of an
        ETag.
        """
        return etags.allows(self.headers.get("if-match"), self.headers.get("if-none-match"), tag)

    def parameters(self, kind: type[QueryType]) -> QueryType:
        """Parse the query string with `kind`, the Query subclass of the operation. Raises InvalidParameter."""
        return kind(self.query)


def _body(event: Mapping[str, Any], length: str | None) -> bytes:
    """Return the body of an event as the client sent it. `length` is the header Content-Length; `None` if it is
    missing."""
    body = event.get("body") or ""
    # Base64 encodes three bytes in four characters. The check prevents decoding of an oversized body.
    if len(body) > LARGEST_BODY * 4 / 3 + 4:
        raise ContentTooLarge(f"The body must have at most {LARGEST_BODY:,} bytes.")
    try:
        content = base64.b64decode(body, validate=True) if event.get("isBase64Encoded") else _sent(body, length)
    except ValueError as error:
        raise MalformedJson("The body is not valid base64.") from error
    if len(content) > LARGEST_BODY:
        raise ContentTooLarge(f"The body must have at most {LARGEST_BODY:,} bytes.")
    return content


def _sent(text: str, length: str | None) -> bytes:
    """Return the bytes of a body that the gateway delivered as text.

    The gateway replaces invalid UTF-8 by U+FFFD, which usually changes the length. If the length differs from
    Content-Length, this function replaces each U+FFFD by an invalid byte. The parser then rejects the body.
    """
    content = text.encode()
    if length is not None and length != str(len(content)):
        return content.replace(_REPLACEMENT, b"\xff")
    return content
