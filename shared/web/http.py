"""HTTP for all functions: from an API Gateway event (payload 2.0) to a handler, and its answer or problem back.

Powertools' resolver finds the handler and catches the errors. Bodies are parsed by the handlers' models and
query strings here, because the resolver splits every query value on its commas.
"""

import base64
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlencode

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.utilities.typing import LambdaContext

from shared.core import regions
from shared.core.caller import Caller
from shared.core.deadline import within
from shared.core.errors import (
    ContentTooLarge,
    InternalError,
    InvalidParameter,
    MalformedJson,
    MethodNotAllowed,
    NotFound,
    ServiceError,
    UnsupportedMediaType,
)
from shared.core.limits import LAST_SECOND
from shared.core.settings import LambdaHandler, answer_seconds
from shared.core.telemetry import service_logger
from shared.core.text import BREAKS, LARGEST_USER_ID, LONGEST_USER_ID, is_user_id
from shared.routes import ROUTES, Route, routes_of
from shared.web.idempotency import LONGEST_KEY, Once

LARGEST_BODY = 1_000_000
"""Bytes; API Gateway itself stops at 10 MB, Lambda at 6 MB."""
LARGEST_ANSWER = 5_000_000
"""Bytes of documents in one answer, as Lambda carries them: as JSON in a text of JSON."""

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
PROBLEM = "application/problem+json"
MOST_PARAMETERS = 50

_FIXED_PATHS: Mapping[str, Sequence[str]] = {
    path: [route.method for route in ROUTES if route.path == path]
    for path in dict.fromkeys(route.path for route in ROUTES if "{" not in route.path)
}
"""The methods of the paths that have no parameters."""

Answer: TypeAlias = Response[Any]
Handler: TypeAlias = Callable[["Request"], Answer]


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

    @cached_property
    def body(self) -> bytes:
        """The body as sent; raises ContentTooLarge. Read only by operations that take one."""
        return _body(self.event)

    def video_id(self) -> str:
        """The videoId of the path in its canonical form; raises InvalidParameter when it is no UUID."""
        return uuid_of("videoId", self.path["videoId"])

    def content(self, *types: str) -> bytes:
        """The body, which must have one of these types; raises UnsupportedMediaType."""
        header = self.headers.get("content-type", "")
        kind, _, parameters = header.partition(";")
        charset = re.search(r"charset\s*=\s*\"?([^\s\";]+)", parameters, re.IGNORECASE)
        if kind.strip().lower() not in types or (charset and charset[1].lower() not in ("utf-8", "utf8")):
            # RFC 5789, section 2.2
            headers = {"Accept-Patch": ", ".join(types)} if self.route.method == "PATCH" else None
            raise UnsupportedMediaType(f"Send the body as {' or '.join(types)}, in UTF-8.", headers=headers)
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            raise UnsupportedMediaType("Send the body without a content coding.")
        return self.body

    def once(self, *identity: object) -> Once | None:
        """The request as one that must happen once, if it has an Idempotency-Key; raises InvalidParameter."""
        key = self.idempotency_key()
        if key is None:
            return None
        text = json.dumps(identity, sort_keys=True, default=sorted)
        fingerprint = hashlib.sha256(text.encode()).hexdigest()
        return Once(self.caller, self.route.operation, key, fingerprint, self.now)

    def idempotency_key(self) -> str | None:
        """The Idempotency-Key header; raises InvalidParameter when it is empty, too long or not printable ASCII."""
        key = self.headers.get("idempotency-key")
        if key is None:
            return None
        if not re.fullmatch(f"[!-~]{{1,{LONGEST_KEY}}}", key):
            raise InvalidParameter.named("Idempotency-Key", f"must be 1 to {LONGEST_KEY} ASCII characters, no spaces")
        return key

    def matches(self, version: int) -> bool:
        """Whether If-Match, if it is there, allows a change of this version (RFC 9110, section 13.1.1)."""
        return if_match(self.headers.get("if-match"), version)

    def allows(self, tag: str | None) -> bool:
        """Whether If-Match and If-None-Match, if they are there, allow to write what has this ETag.

        None: there is nothing yet, which If-Match never allows and If-None-Match always does (RFC 9110, sections
        13.1.1 and 13.1.2). Other than `matches`, this is for what everybody sees alike, and compares the whole ETag.
        """
        wanted, unwanted = self.headers.get("if-match"), self.headers.get("if-none-match")
        if tag is None:
            return wanted is None
        if unwanted is not None and any(_names(each.strip().removeprefix("W/"), tag) for each in unwanted.split(",")):
            return False
        return wanted is None or any(_names(each.strip(), tag) for each in wanted.split(","))

    def parameters(
        self, *known: str, unknown: Callable[[str, str], ServiceError] = InvalidParameter.named
    ) -> "Parameters":
        """The query's parameters, each at most once; raises InvalidParameter, or `unknown` for another name."""
        if self.query.count("&") >= MOST_PARAMETERS:
            raise InvalidParameter(f"A query string may have {MOST_PARAMETERS} parameters.")
        try:
            pairs = parse_qsl(self.query, keep_blank_values=True, errors="strict")
        except UnicodeDecodeError as error:
            raise InvalidParameter("The query string is not UTF-8.") from error
        values: dict[str, str] = {}
        for name, value in pairs:
            if name not in known:
                raise unknown(_shown(name), f"is not known here; known: {', '.join(known) or 'none'}")
            if name in values:
                raise InvalidParameter.named(name, "may be given once")
            if not value:
                raise InvalidParameter.named(name, "must not be empty")
            values[name] = value
        return Parameters(values)


@dataclass(frozen=True)
class Parameters:
    """Query parameters by name, with readers that raise InvalidParameter."""

    values: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str, longest: int = 255) -> str | None:
        """Any text up to a length, without control characters."""
        value = self.values.get(name)
        if value is not None and (len(value) > longest or re.search(f"[{BREAKS}]", value)):
            raise InvalidParameter.named(name, f"must have at most {longest} characters, none of them a control one")
        return value

    def choice(self, name: str, choices: tuple[str, ...]) -> str | None:
        """One of a few words."""
        value = self.values.get(name)
        if value is not None and value not in choices:
            raise InvalidParameter.named(name, f"must be one of {', '.join(choices)}")
        return value

    def integer(self, name: str, low: int, high: int) -> int | None:
        """A whole number in ASCII digits, both bounds included."""
        value = self.values.get(name)
        if value is None:
            return None
        if not re.fullmatch(r"[0-9]{1,16}", value) or not low <= int(value) <= high:
            raise InvalidParameter.named(name, f"must be a whole number from {low} to {high}")
        return int(value)

    def time(self, name: str, last: int = LAST_SECOND) -> int | None:
        """Epoch seconds, or RFC 3339 with its offset; a fraction counts as the next whole second."""
        value = self.values.get(name)
        if value is None:
            return None
        seconds = int(value) if re.fullmatch(r"[0-9]{1,12}", value) else _rfc3339(name, value)
        if not 0 <= seconds <= last:
            raise InvalidParameter.named(name, "must lie between the years 1970 and 9999")
        return seconds

    def period(self) -> tuple[int, int]:
        """The seconds `from` up to but not including `to`; without them, all that there are."""
        start, end = self.time("from"), self.time("to", LAST_SECOND + 1)
        start, end = start or 0, LAST_SECOND + 1 if end is None else end
        if start >= end:
            raise InvalidParameter.named("from", "must be before `to`, which is not part of the range")
        return start, end

    def region(self, name: str) -> str | None:
        """A region of shared.core.regions, in capitals."""
        return region_of(name, self.values[name]) if name in self.values else None

    def user_id(self, name: str) -> str | None:
        """A userId."""
        return user_id_of(name, self.values[name]) if name in self.values else None

    def names(self, name: str, known: tuple[str, ...]) -> tuple[str, ...]:
        """A list separated by commas, of known names."""
        wanted = tuple(dict.fromkeys(self.values[name].split(","))) if name in self.values else ()
        unknown = [each for each in wanted if each not in known]
        if unknown:
            raise InvalidParameter.named(name, f"{_shown(unknown[0])} is none of {', '.join(known)}")
        return wanted


def make_handler(
    function: str, handlers: Mapping[str, Handler], clock: Callable[[], float], *, compress: bool = False
) -> LambdaHandler:
    """The Lambda handler of one function: its routes from the route table, by operation.

    A GET is answered within `answer_seconds`. With `compress`, answers are gzipped for clients that take it.
    """
    logger = service_logger()
    app = APIGatewayHttpResolver()

    for route in sorted(routes_of(function), key=lambda route: route.path.count("{")):  # fixed paths first
        # Without named parts, because the resolver's leave out characters such as quotes and emoji.
        app.route(_pattern(route), method=route.method, compress=compress)(
            _adapter(app, route, handlers[route.operation], clock, answer_seconds())
        )

    def not_found(_: Exception) -> Answer:
        allowed = _allowed_methods(app.current_event.path)
        if app.current_event.http_method in allowed or not allowed:
            return problem(NotFound("There is nothing at this path; GET /openapi.json lists what there is."))
        return problem(_not_allowed(allowed))

    def refused(error: ServiceError) -> Answer:
        if isinstance(error, InternalError):
            return failed(error)
        if error.status >= 500:
            logger.warning("unavailable", detail=error.detail, cause=repr(error.__cause__))
        return problem(error)

    def failed(error: Exception) -> Answer:
        # infra/release.py counts these lines by version, to take back one that fails.
        version = os.environ.get("AWS_LAMBDA_FUNCTION_VERSION")
        logger.exception("unhandled error", exc_info=error, function_version=version)
        return problem(InternalError("The service failed; it has been logged under this request's id."))

    app.not_found(not_found)
    app.exception_handler(ServiceError)(refused)
    app.exception_handler(Exception)(failed)

    @logger.inject_lambda_context(correlation_id_path="requestContext.requestId")
    def handle(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
        return app.resolve(event, context)

    return handle


def _adapter(
    app: APIGatewayHttpResolver, route: Route, handler: Handler, clock: Callable[[], float], longest: float
) -> Callable[..., Answer]:
    def adapted(**_: str) -> Answer:
        event = app.current_event.raw_event
        # For a method that a fixed path does not take, the gateway chooses a path with parameters that fits as well.
        allowed = _FIXED_PATHS.get(app.current_event.path, (route.method,))
        if route.method not in allowed:
            raise _not_allowed(allowed)
        context = event["requestContext"]
        claims = context.get("authorizer", {}).get("jwt", {}).get("claims", {})
        caller = Caller.from_claims(claims, context.get("requestId"))
        if route.scope is not None:
            caller.require(route.scope)
        request = Request(
            route=route,
            caller=caller,
            now=int(clock()),
            # The gateway's own, because the resolver's lose a line break at their end.
            path=event.get("pathParameters") or {},
            headers={name.lower(): value for name, value in event.get("headers", {}).items()},
            query=event.get("rawQueryString", ""),
            event=event,
        )
        if route.method == "GET":
            with within(longest, clock):
                return handler(request)
        request.parameters(*route.query)  # any other is a mistake
        return handler(request)

    return adapted


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
        tag = _etag(version, body)
        all_headers["ETag"] = tag
        if request and _none_match(request.headers.get("if-none-match"), tag):
            return Response(304, body="", headers=all_headers)
    return Response(status, content_type=JSON, body=body, headers=all_headers)


def text(content: str, content_type: str, headers: Mapping[str, str]) -> Answer:
    """An answer in plain text of some type."""
    return Response(
        200, f"{content_type}; charset=utf-8", content, headers={"X-Content-Type-Options": "nosniff", **headers}
    )


def next_link(request: Request, cursor: str | None) -> dict[str, str]:
    """The next page as a Link header (RFC 8288), relative to the request's own URL; without a cursor, none."""
    if cursor is None:
        return {}
    pairs = [(name, value) for name, value in parse_qsl(request.query) if name != "cursor"]
    return {"Link": f'<?{urlencode([*pairs, ("cursor", cursor)])}>; rel="next"'}


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
    return _etag(version, _json(content))


def fitting(documents: Iterable[Mapping[str, Any]], largest: int = LARGEST_ANSWER) -> int:
    """How many documents, from the first on, fit one answer together, or so many bytes of one."""
    size = count = 0
    for document in documents:
        size += len(json.dumps(_json(document), ensure_ascii=False).encode())
        if size > largest:
            break
        count += 1
    return count


def uuid_of(name: str, text: str) -> str:
    """A UUID in lower case; raises InvalidParameter."""
    if not re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text):
        raise InvalidParameter.named(name, "must be a UUID such as 3f2504e0-4f89-41d3-9a0c-0305e82c3301")
    return text.lower()


def if_match(header: str | None, version: int) -> bool:
    """Whether an If-Match, if there is one, allows a change of this version (RFC 9110, section 13.1.1)."""
    return header is None or any(
        tag == "*" or _version_in(tag) == version for tag in (each.strip() for each in header.split(","))
    )


def user_id_of(name: str, text: str) -> str:
    """A userId; raises InvalidParameter."""
    if not is_user_id(text):
        raise InvalidParameter.named(
            name, f"must be one line of at most {LONGEST_USER_ID} characters and {LARGEST_USER_ID:,} bytes in UTF-8"
        )
    return text


def region_of(name: str, text: str) -> str:
    """A region of shared.core.regions, in capitals; raises InvalidParameter."""
    region = regions.region(text)
    if region is None:
        raise InvalidParameter.named(name, "must be a country of ISO 3166 such as NZ, or a code such as XWW")
    return region


def _none_match(header: str | None, tag: str) -> bool:
    # If-None-Match compares weakly (RFC 9110, section 13.1.2): W/"x" matches "x".
    return header is not None and any(each.strip().removeprefix("W/") in (tag, "*") for each in header.split(","))


def _names(sent: str, tag: str) -> bool:
    """Whether a tag that a client sent stands for what has this one: `*`, all of it, or its version alone."""
    return sent in ("*", tag, f'{tag.partition(".")[0]}"')


def _etag(version: int, body: str) -> str:
    return f'"{version}.{hashlib.sha256(body.encode()).hexdigest()[:16]}"'


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _version_in(tag: str) -> int | None:
    # If-Match compares strongly: a weak tag never matches. Any representation of a version will do.
    found = re.fullmatch(r'"([0-9]{1,15})(\.[0-9a-f]*)?"', tag)
    return int(found[1]) if found else None


def _body(event: Mapping[str, Any]) -> bytes:
    body = event.get("body") or ""
    # Base64 takes four characters for three bytes, so no oversized body is decoded.
    if len(body) > LARGEST_BODY * 4 / 3 + 4:
        raise ContentTooLarge(f"A body may have {LARGEST_BODY} bytes.")
    try:
        content = base64.b64decode(body, validate=True) if event.get("isBase64Encoded") else body.encode()
    except ValueError as error:
        raise MalformedJson("The body is not what its coding says.") from error
    if len(content) > LARGEST_BODY:
        raise ContentTooLarge(f"A body may have {LARGEST_BODY} bytes.")
    return content


def _rfc3339(name: str, value: str) -> int:
    if re.fullmatch(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", value, re.ASCII):
        # datetime reads at most six digits of a fraction.
        fraction = re.search(r"\.(\d+)", value)
        try:
            moment = datetime.fromisoformat(re.sub(r"\.\d+", "", value.upper()))
            return int(moment.timestamp()) + (1 if fraction and int(fraction[1]) else 0)
        except (ValueError, OverflowError):
            pass
    raise InvalidParameter.named(
        name, "must be epoch seconds or an RFC 3339 time such as 2026-01-31T12:00:00Z (write + as %2B)"
    )


def _pattern(route: Route) -> str:
    """The paths of a route, as a regular expression."""
    parts = re.split(r"{\w+}", route.path)
    between = [r"[^/]+"] * (len(parts) - 1)
    if route.takes_rest:
        between[-1] = r"[\s\S]+"
    return "".join(text + part for text, part in zip(map(re.escape, parts), [*between, ""], strict=True))


def _allowed_methods(path: str) -> Sequence[str]:
    """The methods that a path takes: a fixed path comes before those with parameters (OpenAPI 3.1.1, section 4.8.8)."""
    return _FIXED_PATHS.get(path) or [route.method for route in ROUTES if re.fullmatch(_pattern(route), path)]


def _not_allowed(allowed: Sequence[str]) -> MethodNotAllowed:
    methods = ", ".join(allowed)
    return MethodNotAllowed(f"This path takes {methods}.", headers={"Allow": methods})


def _shown(text: str) -> str:
    """Foreign text for an error message: short, and nothing that a terminal or log would obey."""
    return "".join(each if each.isprintable() else "?" for each in text[:40]) or "''"
