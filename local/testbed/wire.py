"""Interception of requests to DynamoDB, with which tests observe requests and replace responses.

The functions accept the service's client and boto3's.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from local.aws import ACCOUNT, REGION
from shared.aws.lean.client import Client, ErrorResponse
from shared.aws.lean.signing import Credentials

Between = Callable[[str, Mapping[str, Any], Callable[..., Any]], Any]
"""Interceptor of requests: a function of the operation, the parameters, and a function `send` that sends the request.

Keyword arguments of `send` override parameters. The interceptor returns the response, or raises an error as the client
does.
"""


class WholeClient(Client):
    """The service's client, extended by all methods of boto3's client. `others` is boto3's client."""

    def __init__(self, endpoint: str, others: Any, secret: str = "test") -> None:
        super().__init__(endpoint, REGION, lambda: Credentials(ACCOUNT, secret, None))
        self._others = others

    def __getattr__(self, name: str) -> Any:
        return getattr(self._others, name)


def intercept(client: Any, between: Between) -> Callable[[], None]:
    """Pass each request of a client to `between`. Returns a function that ends the interception."""
    name = "begin" if isinstance(client, Client) else "_make_api_call"
    send, before = getattr(client, name), vars(client).get(name)

    def begin(operation: str, **parameters: Any) -> Callable[[], Any]:
        try:
            answer = between(operation, parameters, lambda **other: send(operation, **parameters | other)())
        except Exception as error:
            return partial(raised, error)
        return lambda: answer

    def call(operation: str, parameters: Mapping[str, Any]) -> Any:
        return between(operation, parameters, lambda **other: send(operation, {**parameters, **other}))

    def undo() -> None:
        vars(client).pop(name, None)
        if before:
            vars(client)[name] = before

    vars(client)[name] = begin if isinstance(client, Client) else call
    return undo


def unconditional_puts(client: Any) -> list[Mapping[str, Any]]:
    """Return a list. Each later PutItem request without a condition adds its parameters to the list."""
    found: list[Mapping[str, Any]] = []

    def between(operation: str, parameters: Mapping[str, Any], send: Callable[[], Any]) -> Any:
        if operation == "PutItem" and "ConditionExpression" not in parameters:
            found.append(parameters)
        return send()

    intercept(client, between)
    return found


def raised(error: Exception) -> Any:
    """Raise an error. Unlike a `raise` statement, this call can be used in a lambda."""
    raise error


@contextmanager
def _with_interceptor(client: Any, between: Callable[..., Any]) -> Iterator[None]:
    undo = intercept(client, between)
    try:
        yield
    finally:
        undo()


@contextmanager
def listen(client: Any, listener: Callable[[str, Mapping[str, Any]], object]) -> Iterator[None]:
    """Call a listener before each request within the context, with the operation and its parameters."""

    def between(operation: str, parameters: Mapping[str, Any], send: Callable[[], Any]) -> Any:
        listener(operation, parameters)
        return send()

    with _with_interceptor(client, between):
        yield


@contextmanager
def throttle_once(client: Any, operation: str) -> Iterator[None]:
    """Make the first request of an operation fail with DynamoDB's error for throttled requests."""
    left = [operation]

    def between(asked: str, _: Mapping[str, Any], send: Callable[[], Any]) -> Any:
        if asked in left:
            left.remove(asked)
            raise ErrorResponse(400, {"__type": "ThrottlingException", "message": ""})
        return send()

    with _with_interceptor(client, between):
        yield
