"""Registration of handlers: each route has one handler, and each handler has a route."""

import pytest

from local.testbed.harness import HANDLERS, Clock, FakeResources
from shared.aws.dynamodb import Table
from shared.web.http import handlers_of, operation
from shared.web.requests import Request
from shared.web.responses import HttpResponse, no_content


def test_every_function_of_the_route_table_has_a_handler_for_each_of_its_routes(table: Table) -> None:
    for module in HANDLERS.values():
        FakeResources(table, Clock()).make(module.lambda_handler)  # raises LookupError if a handler is missing


class CompleteHandlers:
    @operation("getRating")
    def read(self, _: Request) -> HttpResponse:
        return no_content()

    @operation("putRating", "deleteRating")
    def write(self, _: Request) -> HttpResponse:
        return no_content()


class Incomplete:
    read = CompleteHandlers.read


class Ambiguous(CompleteHandlers):
    read, write, rate = (
        CompleteHandlers.read,
        CompleteHandlers.write,
        operation("putRating")(lambda _self, _: no_content()),
    )


class Unknown:
    read, write, other = (
        CompleteHandlers.read,
        CompleteHandlers.write,
        operation("getNothing")(lambda _self, _: no_content()),
    )


def test_a_method_handles_all_operations_that_it_names() -> None:
    complete_handlers = CompleteHandlers()
    handlers = {route.operation: handler for route, handler in handlers_of(complete_handlers)}
    assert handlers == {
        "getRating": complete_handlers.read,
        "putRating": complete_handlers.write,
        "deleteRating": complete_handlers.write,
    }


@pytest.mark.parametrize(
    "handlers", [Incomplete(), Ambiguous(), Unknown()], ids=lambda handlers: type(handlers).__name__
)
def test_handlers_are_refused_unless_they_match_the_routes_of_their_function(handlers: object) -> None:
    with pytest.raises(LookupError, match="but the routes of its function are"):
        handlers_of(handlers)
