"""HTTP adapter of all functions. It maps API Gateway events (payload 2.0) to handlers, and results and errors to
responses.

The gateway has already matched the route, so the event's route key selects the handler. Handlers parse bodies with
models, and query strings with the classes of shared/queries.py. Query strings are parsed in their raw form, because the
gateway joins the values of repeated parameters with commas.
https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html
"""

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from shared.core import request_usage
from shared.core.caller import Caller
from shared.core.deadline import limit_time
from shared.core.errors import InternalError, MethodNotAllowed, NotFound, ServiceError
from shared.core.settings import LambdaHandler, Settings
from shared.core.telemetry import begin_invocation, service_logger
from shared.routes import ROUTES, Route
from shared.web import server_timing
from shared.web.parameters import Query
from shared.web.requests import Request
from shared.web.responses import HttpResponse, problem_response

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

Handler: TypeAlias = Callable[[Request], HttpResponse]
_Method = TypeVar("_Method", bound=Callable[..., HttpResponse])
_Settings = TypeVar("_Settings", bound=Settings)


class HasClock(Protocol):
    """Object with the attribute `clock`, such as shared.aws.runtime.Resources."""

    @property
    def clock(self) -> Callable[[], float]:
        """Function that returns the current time in epoch seconds."""


_Resources = TypeVar("_Resources", bound=HasClock)

CHANGE_SET = "Change-Set"
"""Name of the response header with the id of the change set to which the writes of the request belong."""

_FIXED_PATHS: Mapping[str, Sequence[str]] = {
    path: [route.method for route in ROUTES if route.path == path]
    for path in dict.fromkeys(route.path for route in ROUTES if "{" not in route.path)
}
"""Maps each path without parameters to the HTTP methods that it allows."""


def operation(*names: str) -> Callable[[_Method], _Method]:
    """Mark a method of a handlers class as the handler of these operations of the route table:

    @operation("getVideo")
    def read(self, request: Request) -> HttpResponse: ...
    """

    def register(method: _Method) -> _Method:
        method.operations = names  # type: ignore[attr-defined]
        return method

    return register


def http_function(
    handlers: Callable[[_Settings, _Resources], object],
    *,
    compress: bool = False,
    pages: Mapping[str, Callable[[], HttpResponse]] = MappingProxyType({}),
) -> Callable[[_Settings, _Resources], LambdaHandler]:
    """Return the argument `make` of EntryPoint: a function that creates a Lambda handler. That handler serves the
    operations of the class `handlers`.

    With `compress`, responses are gzipped for clients that accept gzip. `pages` maps paths to functions that return the
    responses to GET requests. These paths are not in the route table, so the gateway's `$default` route invokes the
    function for them.
    """

    def make(settings: _Settings, resources: _Resources) -> LambdaHandler:
        return _serve(handlers(settings, resources), settings.answer_seconds, resources.clock, compress, pages)

    return make


def handlers_of(handlers: object) -> list[tuple[Route, Handler]]:
    """Return the routes of a function, each with its handler. `handlers` is the object with the handlers.

    Raises LookupError if a route of the function has no handler, or a handler has no route.
    """
    found = [
        (served, getattr(handlers, name))
        for name, method in vars(type(handlers)).items()
        for served in getattr(method, "operations", ())
    ]
    by_operation = dict(found)
    functions = {route.function for route in ROUTES if route.operation in by_operation}
    routes = [route for route in ROUTES if route.function in functions]
    handled, declared = sorted(name for name, _ in found), sorted(route.operation for route in routes)
    if handled != declared:
        raise LookupError(
            f"{type(handlers).__name__} implements {handled}, but the routes of its function are {declared}."
        )
    return [(route, by_operation[route.operation]) for route in routes]


def _serve(
    handlers: object,
    longest: float,
    clock: Callable[[], float],
    compress: bool,
    pages: Mapping[str, Callable[[], HttpResponse]],
) -> LambdaHandler:
    """Return the Lambda handler that serves the operations of the object `handlers`.

    `longest` is the maximum duration of a GET request in seconds.
    """
    served = {route.key: (route, handler) for route, handler in handlers_of(handlers)}

    def handle(event: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
        started = time.perf_counter()
        with (
            begin_invocation(context, event["requestContext"].get("requestId")),
            request_usage.record_requests() as lines,
        ):
            units = explained = False
            change_set = None
            headers = _headers(event)
            try:
                route, handler = served.get(event["routeKey"], (None, None))
                if route is None or handler is None:
                    response = _respond_without_route(event, pages)
                else:
                    request = _request(event, headers, route, int(clock()))
                    units = server_timing.may_see_units(request)
                    explained = server_timing.is_explained(request)
                    with limit_time(longest, clock) if route.method == "GET" else nullcontext():
                        response = handler(request)
                    if explained:
                        server_timing.require_own(request, response)
                    # A request that changes nothing writes nothing, so its change set does not exist.
                    if request.replays or any(line.is_write for line in lines):
                        change_set = request.change_set
            except Exception as error:  # any error, including a bug: the client receives a problem document
                response = _refusal(error)
                explained = explained and request.caller.is_admin
            gzipped = compress and "gzip" in headers.get("accept-encoding", "")
            seconds = time.perf_counter() - started
            timing = server_timing.header(lines, seconds, response.status, units=units, explained=explained)
            more = {"Server-Timing": timing} | ({CHANGE_SET: change_set} if change_set else {})
            return response.as_payload(gzipped=gzipped, more=more)

    return handle


def _request(event: Mapping[str, Any], headers: Mapping[str, str], route: Route, now: int) -> Request:
    """Return the request that an event contains, after checks of its method, token and query string.

    Raises Forbidden if the token lacks the route's scope, InvalidParameter for an unknown parameter, and
    MethodNotAllowed if the path does not allow the method.
    """
    # If a fixed path does not have the method, the gateway matches a path with parameters instead.
    allowed = _FIXED_PATHS.get(_path(event), (route.method,))
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
        now=now,
        path=event.get("pathParameters") or {},
        headers=headers,
        query=event.get("rawQueryString", ""),
        event=event,
    )
    if request.query and route.scope is not None and Query.of(route.operation) is Query:
        request.parameters(Query)  # rejects every parameter except `explain`
    return request


def _headers(event: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of the request, by lower-case name."""
    return {name.lower(): value for name, value in (event.get("headers") or {}).items()}


def _path(event: Mapping[str, Any]) -> str:
    """Return the path of the request without the stage's prefix. The stage `$default` has no prefix."""
    path, stage = str(event["rawPath"]), event["requestContext"].get("stage", "$default")
    return path if stage == "$default" else path.removeprefix(f"/{stage}") or "/"


def _respond_without_route(event: Mapping[str, Any], pages: Mapping[str, Callable[[], HttpResponse]]) -> HttpResponse:
    """Return the response to a request that matches no route: the page at its path.

    If there is no page, raises NotFound or MethodNotAllowed.
    """
    path, method = _path(event), event["requestContext"]["http"]["method"]
    if path in pages and method == "GET":
        return pages[path]()
    allowed = _allowed_methods(path)
    if allowed and method not in allowed:
        raise _not_allowed(allowed)
    raise NotFound("The path does not exist. GET /openapi.json lists all operations.")


def _refusal(error: Exception) -> HttpResponse:
    """Return the problem document for an error. Logs errors with status 500 or higher."""
    if isinstance(error, ServiceError) and not isinstance(error, InternalError):
        if error.status >= 500:
            service_logger().warning("unavailable", detail=error.detail, cause=repr(error.__cause__))
        return problem_response(error)
    # infra/release.py counts these lines by version, to roll back a release that fails.
    version = os.environ.get("AWS_LAMBDA_FUNCTION_VERSION")
    service_logger().exception("unhandled error", exc_info=error, function_version=version)
    return problem_response(InternalError("The service failed. The log has the error under the id of this request."))


def _allowed_methods(path: str) -> Sequence[str]:
    """Return the HTTP methods that a path allows. Empty if the path does not exist.

    Fixed paths precede paths with parameters (OpenAPI 3.1.1, section 4.8.8).
    """
    return _FIXED_PATHS.get(path) or [route.method for route in ROUTES if re.fullmatch(_pattern(route), path)]


def _pattern(route: Route) -> str:
    """Return a regular expression that matches the paths of a route."""
    parts = re.split(r"{\w+}", route.path)
    between = [r"[^/]+"] * (len(parts) - 1)
    if route.takes_rest:
        between[-1] = r"[\s\S]+"
    return "".join(text + part for text, part in zip(map(re.escape, parts), [*between, ""], strict=True))


def _not_allowed(allowed: Sequence[str]) -> MethodNotAllowed:
    methods = ", ".join(allowed)
    return MethodNotAllowed(f"The path does not support the method. Use {methods}.", headers={"Allow": methods})
