"""A request as handlers read it: who sends it, when, its path, headers, query and body."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from shared.core.caller import Caller, Once
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
"""Bytes; API Gateway itself stops at 10 MB, Lambda at 6 MB."""
LONGEST_KEY = 255
"""Characters of an Idempotency-Key."""
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()

QueryType = TypeVar("QueryType", bound=Query)


@dataclass(frozen=True)
class Request:
    """What a handler may know of a request."""

    route: Route
    caller: Caller
    now: int
    """Epoch seconds; one value for the whole request."""
    path: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    query: str
    """As sent, still percent-encoded."""
    event: Mapping[str, Any]
    """As API Gateway made it."""
    replays: list[str] = field(default_factory=list)
    """Ids of the earlier requests whose answers are given again, because the Idempotency-Key is theirs."""

    @property
    def change_set(self) -> str | None:
        """The id of the change set that the request writes, or wrote when it was first sent; `None` if it writes none."""
        if not self.route.makes_change_set or ("dryRun", "true") in parse_qsl(self.query):
            return None
        return self.replays[-1] if self.replays else self.caller.correlation_id

    @cached_property
    def body(self) -> bytes:
        """The body as sent; raises ContentTooLarge. Read only by operations that take one."""
        return _body(self.event, self.headers.get("content-length"))

    def video_id(self) -> str:
        """The videoId of the path in its canonical form; raises InvalidParameter when it is not a UUID."""
        return uuid_of("videoId", self.path["videoId"])

    def correlation_id(self, name: str) -> str:
        """A parameter of the path that is the id of a request or an import; raises InvalidParameter.

        The gateway decodes every escape but `%25`, which stands for a percent sign.
        """
        return correlation_id_of(name, self.path[name].replace("%25", "%"))

    def content(self, *types: str) -> bytes:
        """The body, which must have one of these types; raises UnsupportedMediaType."""
        header = self.headers.get("content-type", "")
        kind, _, parameters = header.partition(";")
        charset = re.search(r"charset\s*=\s*\"?([^\s\";]+)", parameters, re.IGNORECASE)
        if kind.strip().lower() not in types or (charset and charset[1].lower() not in ("utf-8", "utf8")):
            # RFC 5789, section 2.2
            headers = {"Accept-Patch": ", ".join(types)} if self.route.method == "PATCH" else None
            raise UnsupportedMediaType(f"Content-Type must be {' or '.join(types)}, in UTF-8.", headers=headers)
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            raise UnsupportedMediaType("Content-Encoding is not supported.")
        return self.body

    def require_no_content(self) -> None:
        """Raise MalformedJson, InvalidContent or UnsupportedMediaType unless the body is empty, or `{}`."""
        if self.body:
            from shared.web.bodies import NoContent  # pydantic, which few requests without content need

            NoContent.parse(self.content(JSON))

    def once(self, *identity: object) -> Once | None:
        """The request as one to carry out only once, if it has an Idempotency-Key; raises InvalidParameter."""
        key = self.idempotency_key()
        if key is None:
            return None
        text = json.dumps(identity, sort_keys=True, default=sorted)
        fingerprint = hashlib.sha256(text.encode()).hexdigest()
        return Once(self.caller, self.route.operation, key, fingerprint, self.now, self.replays)

    def idempotency_key(self) -> str | None:
        """The Idempotency-Key header; raises InvalidParameter when it is empty, too long or not printable ASCII."""
        key = self.headers.get("idempotency-key")
        if key is None:
            return None
        if not re.fullmatch(f"[!-~]{{1,{LONGEST_KEY}}}", key):
            raise InvalidParameter.named(
                "Idempotency-Key", f"must have 1 to {LONGEST_KEY} printable ASCII characters and no spaces"
            )
        return key

    def matches(self, version: int) -> bool:
        """Whether If-Match, if there is one, allows a change of this version."""
        return etags.if_match(self.headers.get("if-match"), version)

    def allows(self, tag: str | None) -> bool:
        """Whether If-Match and If-None-Match allow a write of what has this ETag; None: there is nothing yet.

        For what everybody sees alike: unlike `matches`, this compares the whole ETag.
        """
        return etags.allows(self.headers.get("if-match"), self.headers.get("if-none-match"), tag)

    def parameters(self, kind: type[QueryType]) -> QueryType:
        """The query's parameters as an operation's own class has them; raises InvalidParameter."""
        return kind(self.query)


def _body(event: Mapping[str, Any], length: str | None) -> bytes:
    """The bytes that the client sent, of the length that Content-Length says."""
    body = event.get("body") or ""
    # Base64 takes four characters for three bytes, so no oversized body is decoded.
    if len(body) > LARGEST_BODY * 4 / 3 + 4:
        raise ContentTooLarge(f"A body may have at most {LARGEST_BODY:,} bytes.")
    try:
        content = base64.b64decode(body, validate=True) if event.get("isBase64Encoded") else _sent(body, length)
    except ValueError as error:
        raise MalformedJson("The body is not valid base64.") from error
    if len(content) > LARGEST_BODY:
        raise ContentTooLarge(f"A body may have at most {LARGEST_BODY:,} bytes.")
    return content


def _sent(text: str, length: str | None) -> bytes:
    """A text as the client sent it.

    A gateway that hands bodies on as text puts U+FFFD where bytes are not UTF-8, mostly of another length. Then these are bytes
    again that no parser takes for UTF-8.
    """
    content = text.encode()
    if length is not None and length != str(len(content)):
        return content.replace(_REPLACEMENT, b"\xff")
    return content
