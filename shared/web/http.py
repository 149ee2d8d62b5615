"""HTTP for all functions: from an API Gateway event (payload 2.0) to a handler, and its answer or problem back.

Powertools' resolver finds the handler and catches the errors. Handlers parse bodies by their models, and queries by the
classes of shared/queries.py from the raw text: the gateway joins the values of a repeated parameter with commas.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.utilities.typing import LambdaContext

from shared.core.caller import Caller
from shared.core.deadline import within
from shared.core.errors import InternalError, MethodNotAllowed, NotFound, ServiceError
from shared.core.settings import LambdaHandler, answer_seconds
from shared.core.telemetry import service_logger
from shared.routes import ROUTES, Route, routes_of
from shared.web.answers import Answer, problem
from shared.web.parameters import Query
from shared.web.requests import Request

Handler: TypeAlias = Callable[[Request], Answer]

_FIXED_PATHS: Mapping[str, Sequence[str]] = {
    path: [route.method for route in ROUTES if route.path == path]
    for path in dict.fromkeys(route.path for route in ROUTES if "{" not in route.path)
}
"""The methods of the paths that have no parameters."""


def make_handler(
    function: str,
    handlers: Mapping[str, Handler],
    clock: Callable[[], float],
    *,
    compress: bool = False,
    pages: Mapping[str, Callable[[], Answer]] = MappingProxyType({}),
) -> LambdaHandler:
    """The Lambda handler of one function: its routes from the route table, by operation.

    A GET is answered within `answer_seconds`. With `compress`, answers are gzipped for clients that take it.
    `pages` are answers to a GET of paths that are not operations, and so not in the table; `$default` leads to them.
    """
    logger = service_logger()
    app = APIGatewayHttpResolver()

    for route in sorted(routes_of(function), key=lambda route: route.path.count("{")):  # fixed paths first
        # Without named parts, because the resolver's leave out characters such as quotes and emoji.
        app.route(_pattern(route), method=route.method, compress=compress)(
            _adapter(app, route, handlers[route.operation], clock, answer_seconds())
        )

    for path, page in pages.items():
        app.get(re.escape(path), compress=compress)(page)

    def not_found(_: Exception) -> Answer:
        allowed = _allowed_methods(app.current_event.path)
        if app.current_event.http_method in allowed or not allowed:
            return problem(NotFound("There is nothing at this path; GET /openapi.json lists all operations."))
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
        if route.scope is not None and not route.takes_query:
            request.parameters(Query)  # any parameter is a mistake
        if route.method == "GET":
            with within(longest, clock):
                return handler(request)
        return handler(request)

    return adapted


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
    return MethodNotAllowed(f"This path accepts {methods}.", headers={"Allow": methods})
