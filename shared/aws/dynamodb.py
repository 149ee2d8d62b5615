"""DynamoDB tables: plain Python items, conditional writes, retries, and errors of shared/core/errors.py."""

import os
import random
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict, TypeVar, Unpack

from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed, TransactionConflict, translate_errors
from shared.aws.lean import client
from shared.aws.lean.client import NotSent, ResponseLost
from shared.core import request_usage
from shared.core.attributes import AttributeMap, Item, encode_item, read_item
from shared.core.deadline import CONNECT_SECONDS, READ_SECONDS, has_time, limit_time
from shared.core.errors import NewerSchema, NotApplied, Throttled, Unavailable
from shared.schema import PARTITION_KEY, SORT_KEY

Key = dict[str, str]
_Response = TypeVar("_Response")

LARGEST_BATCH_GET = 100
LARGEST_BATCH_WRITE = 25
LARGEST_TRANSACTION = 100
"""DynamoDB's maximum number of items in one BatchGetItem, in one BatchWriteItem and in one TransactWriteItems."""

LARGEST_BURST = 32
"""Maximum number of concurrent requests of one `gather`. Each request uses its own connection."""

REQUEST_ATTEMPTS = 4
"""Maximum number of attempts of one request, including the first."""
SHORTEST_WAIT, LONGEST_WAIT = 0.1, 0.4
"""Limits in seconds of the random wait before a retry. The first wait is at most SHORTEST_WAIT. The maximum doubles
with each retry, up to LONGEST_WAIT."""

OPERATIONS = {
    "GetItem": "get_item",
    "BatchGetItem": "batch_get_item",
    "Query": "query",
    "PutItem": "put_item",
    "UpdateItem": "update_item",
    "DeleteItem": "delete_item",
    "BatchWriteItem": "batch_write_item",
    "TransactWriteItems": "transact_write_items",
}
"""Maps each DynamoDB operation to the name of its method, which the lean client and boto3's client have in common."""


def uses_boto3() -> bool:
    """Return whether the environment selects boto3's clients instead of the lean client."""
    return os.environ.get("DYNAMODB_CLIENT") == "boto3"


def make_client() -> Any:
    """Return the lean client of DynamoDB, or boto3's client if the environment has DYNAMODB_CLIENT=boto3.

    Both clients make one attempt, because only `Table` can decide which requests are safe to repeat. Both have the time-outs of
    shared/core/deadline.py.
    """
    if uses_boto3():
        from shared.aws.boto3_client import make_client as make_boto3_client

        return make_boto3_client()
    return make_lean_client()


def make_lean_client(service: client.AwsService = client.DYNAMODB) -> client.Client:
    """Return a lean client of a service, with the time-outs of shared/core/deadline.py."""
    return client.make_client(
        service, connect_seconds=CONNECT_SECONDS, read_seconds=READ_SECONDS, user_agent="video-metadata"
    )


class Write(NamedTuple):
    """Write of one item. `Table.write` executes it separately, and `Table.transact` as part of a transaction."""

    kind: Literal["Put", "Update", "Delete", "ConditionCheck"]
    """Name of the action in TransactWriteItems; a ConditionCheck is only valid in a transaction."""
    parameters: dict[str, Any]


class QueryRequest(TypedDict):
    """Parameters of a Query."""

    index: str | None
    """Name of the index; `None` for the table."""
    condition: Expression
    limit: int
    """Maximum number of items that DynamoDB reads. DynamoDB counts items before it applies the filter."""
    keep: NotRequired[Expression | None]
    """Filter expression."""
    attributes: NotRequired[Iterable[str]]
    """Names of the attributes to return; all projected attributes if absent or empty."""
    ascending: NotRequired[bool]
    start: NotRequired[Item | None]
    """ExclusiveStartKey: the key after which the page begins."""
    consistent: NotRequired[bool]


class QueryPage(NamedTuple):
    """Result of a Query."""

    items: list[Item]
    """Items that match the filter."""
    examined: int
    """Number of items that DynamoDB read, before the filter."""
    last_key: AttributeMap | None
    """LastEvaluatedKey, in DynamoDB's JSON; `None` on the last page."""


class Table:
    """DynamoDB table.

    Methods retry failed requests with backoff. They always retry a request that was certainly not applied: a request
    that was throttled, in conflict with a transaction, or never sent. If a response was lost, methods retry only an
    idempotent request. They skip an attempt that could exceed the deadline of the HTTP request
    (shared/core/deadline.py).

    Methods raise shared.core.errors.Unavailable if DynamoDB throttles the last attempt or cannot be reached.

    The methods `begin_...` send a request and return a function that waits for its result. Thus requests can run
    concurrently.

    >>> table = Table("VideoMetadata", make_client())
    >>> key, absent = {"pk": "NOTE#1", "sk": "NOTE"}, Expression.of("attribute_not_exists(#pk)")
    >>> table.write(table.put(key | {"text": "Hello"}, condition=absent))  # a second time, it raises ConditionFailed
    {}
    >>> begun = [table.begin_get(key), table.begin_get({"pk": "NOTE#2", "sk": "NOTE"})]
    >>> [finish() for finish in begun]
    [{'pk': 'NOTE#1', 'sk': 'NOTE', 'text': 'Hello'}, None]
    """

    def __init__(
        self,
        name: str,
        client: Any,
        *,
        attempts: int = REQUEST_ATTEMPTS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = name
        self.client = client
        self._attempts = attempts
        self._sleep = sleep

    def get(self, key: Key, *, attributes: Iterable[str] = (), consistent: bool = False) -> Item | None:
        """Return an item (GetItem), or `None` if it does not exist.

        `attributes` are the names of the attributes to return; all if empty. For each 4 KB of the whole item, the request
        costs half a read unit, or one unit if `consistent`.
        """
        return self.begin_get(key, attributes=attributes, consistent=consistent)()

    def begin_get(
        self, key: Key, *, attributes: Iterable[str] = (), consistent: bool = False
    ) -> Callable[[], Item | None]:
        """Send a GetItem, and return a function that waits for the item. Same parameters as `get`."""
        finish = self._begin(
            "GetItem",
            TableName=self.name,
            Key=encode_item(key),
            ConsistentRead=consistent,
            **_projection(attributes),
        )

        def item() -> Item | None:
            found = finish().get("Item")
            return read_item(found) if found else None

        return item

    def batch_get(self, keys: Sequence[Key], *, attributes: Iterable[str] = (), consistent: bool = False) -> list[Item]:
        """Return the items of these keys, in no particular order. Items that do not exist are omitted.

        Sends one BatchGetItem per 100 keys, and waits for all responses. `begin_batch_get` does not wait.
        """
        return self.begin_batch_get(keys, attributes=attributes, consistent=consistent)()

    def begin_batch_get(
        self, keys: Sequence[Key], *, attributes: Iterable[str] = (), consistent: bool = False
    ) -> Callable[[], list[Item]]:
        """Send one BatchGetItem per 100 keys, concurrently, and return a function that waits for the items.

        The items are in no particular order; items that do not exist are omitted. The method requests duplicate keys
        once, because index pages can contain the same key twice. Unprocessed keys are requested again with backoff.
        """
        different = list({tuple(key.values()): key for key in keys}.values())
        shared = ({"ConsistentRead": True} if consistent else {}) | _projection(attributes)
        finishes = []
        for start in range(0, len(different), LARGEST_BATCH_GET):
            batch = different[start : start + LARGEST_BATCH_GET]
            request_items = {self.name: {"Keys": [encode_item(key) for key in batch], **shared}}
            finishes.append(partial(self._finish_batch_get, self._begin("BatchGetItem", RequestItems=request_items)))
        return lambda: [
            item for items in require_all(gather(map(_begun, finishes), at_once=len(finishes))) for item in items
        ]

    def get_all(
        self, keys: Sequence[Key], *, attributes: Iterable[str] = (), consistent: bool = False
    ) -> list[Item | None]:
        """Return the item of each key, in the order of the keys; `None` for an item that does not exist.

        The keys must be distinct. Sends one BatchGetItem per 100 keys.
        """
        names = dict.fromkeys((PARTITION_KEY, SORT_KEY, *attributes)) if attributes else ()
        items = self.batch_get(keys, attributes=names, consistent=consistent)
        by_key = {(item[PARTITION_KEY], item[SORT_KEY]): item for item in items}
        return [by_key.get((key[PARTITION_KEY], key[SORT_KEY])) for key in keys]

    def _finish_batch_get(self, first: Callable[[], Any]) -> list[Item]:
        """Wait for a BatchGetItem in flight, request its unprocessed keys again, and return the items of all responses.

        Raises Unavailable if keys are still unprocessed after the last attempt.
        """
        response = first()
        items: list[Item] = []
        for attempt in range(1, self._attempts + 1):
            items += [read_item(item) for item in response["Responses"].get(self.name, [])]
            unprocessed = response.get("UnprocessedKeys")
            if not unprocessed:
                return items
            if attempt == self._attempts or not has_time(LONGEST_WAIT):
                break
            self.pause(attempt)
            response = self._send("BatchGetItem", RequestItems=unprocessed)
        raise Unavailable

    def query(self, **request: Unpack[QueryRequest]) -> QueryPage:
        """Send a Query and return its page."""
        return self.begin_query(**request)()

    def begin_query(self, **request: Unpack[QueryRequest]) -> Callable[[], QueryPage]:
        """Send a Query, and return a function that waits for its page. Same parameters as `query`."""
        condition, keep, start = request["condition"], request.get("keep"), request.get("start")
        names, values = dict(condition.names), dict(condition.values)
        parameters: dict[str, Any] = {"KeyConditionExpression": condition.text}
        if request["index"]:
            parameters["IndexName"] = request["index"]
        if request.get("consistent"):
            parameters["ConsistentRead"] = True
        if keep and keep.text:
            parameters["FilterExpression"] = keep.text
            names.update(keep.names)
            values.update(keep.values)
        projection = _projection(request.get("attributes", ()))
        names.update(projection.pop("ExpressionAttributeNames", {}))
        if start:
            parameters["ExclusiveStartKey"] = encode_item(start)
        finish = self._begin(
            "Query",
            TableName=self.name,
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=encode_item(values),
            ScanIndexForward=request.get("ascending", True),
            Limit=request["limit"],
            **parameters,
            **projection,
        )

        def page() -> QueryPage:
            response = finish()
            items = [read_item(item) for item in response["Items"]]
            return QueryPage(items, response["ScannedCount"], response.get("LastEvaluatedKey"))

        return page

    def put(self, item: Mapping[str, Any], *, condition: Expression | None = None) -> Write:
        """Return a put, which `write` or `transact` executes.

        Use a put without a condition only in a transaction with a conditional write.
        """
        parameters = {"TableName": self.name, "Item": encode_item(item)}
        return Write("Put", parameters | (_guard(condition) if condition else {}))

    def update(self, key: Key, change: Expression, *, condition: Expression | None = None) -> Write:
        """Return an update, which `write` or `transact` executes.

        Without a condition, the change must be commutative, such as ADD, because concurrent writers may apply their
        changes in any order.
        """
        guard = condition or Expression("")
        both = Expression("", {**change.names, **guard.names}, {**change.values, **guard.values})
        parameters = {
            "TableName": self.name,
            "Key": encode_item(key),
            "UpdateExpression": change.text,
            **_placeholders(both),
        }
        if guard.text:
            parameters |= {"ConditionExpression": guard.text, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        return Write("Update", parameters)

    def remove(self, key: Key, *, condition: Expression | None = None) -> Write:
        """Return a delete, which `write` or `transact` executes.

        Use a delete without a condition only in a transaction with a conditional write.
        """
        parameters = {"TableName": self.name, "Key": encode_item(key)}
        return Write("Delete", parameters | (_guard(condition) if condition else {}))

    def check(self, key: Key, *, condition: Expression) -> Write:
        """Return a ConditionCheck: a condition on an item that the transaction does not write."""
        return Write("ConditionCheck", {"TableName": self.name, "Key": encode_item(key), **_guard(condition)})

    def delete(self, key: Key) -> None:
        """Delete an item without a condition. Succeeds if the item does not exist."""
        self._send("DeleteItem", TableName=self.name, Key=encode_item(key))

    def batch_delete(self, keys: Sequence[Key]) -> None:
        """Delete items without conditions (one BatchWriteItem per 25 keys). Items that do not exist are skipped."""
        for start in range(0, len(keys), LARGEST_BATCH_WRITE):
            batch = keys[start : start + LARGEST_BATCH_WRITE]
            request: Any = {self.name: [{"DeleteRequest": {"Key": encode_item(key)}} for key in batch]}
            for attempt in range(self._attempts):
                if attempt:
                    self.pause(attempt)
                request = self._send("BatchWriteItem", RequestItems=request).get("UnprocessedItems")
                if not request:
                    break
            else:
                raise Unavailable

    def write(self, write: Write, *, returning: str = "NONE", elsewhere: bool = False) -> Item:
        """Execute a put, update or delete, and return the attributes that `returning` (ReturnValues) selects.

        Raises ConditionFailed if the condition is false, and TransactionConflict if a transaction was writing the item
        at every attempt. Raises NotApplied if the write was certainly not applied, and Unavailable if it may have been
        applied. Set `elsewhere` if the caller can write to another item instead. The method then raises Throttled after
        the first throttled attempt, without a retry.
        """
        # A conditional write can be repeated: if the first attempt was applied, the condition of the retry is false, and
        # the store compares the writeId.
        repeatable = "ConditionExpression" in write.parameters
        response = self._send(
            f"{write.kind}Item", repeatable=repeatable, elsewhere=elsewhere, **write.parameters, ReturnValues=returning
        )
        return read_item(response.get("Attributes") or {})

    def begin_write(self, write: Write) -> Callable[[], None]:
        """Send a conditional put, update or delete, and return a function that waits for the response.

        The returned function raises the errors of `write`. `begin_write` raises ValueError for a write without a
        condition, because such a write is not safe to retry.
        """
        if "ConditionExpression" not in write.parameters:
            raise ValueError("The write needs a condition, because a write without one is not safe to retry.")
        finish = self._begin(f"{write.kind}Item", **write.parameters, ReturnValues="NONE")

        def done() -> None:
            finish()

        return done

    def transact(self, writes: Sequence[Write]) -> None:
        """Execute all writes or none (TransactWriteItems). Costs two write units per KB of each item.

        Raises ConditionFailed with the position of the first write whose condition failed. If another writer conflicts, the
        transaction is retried with backoff. Raises TransactionConflict after the last attempt.
        """
        items = [{write.kind: write.parameters} for write in writes]
        # All attempts have the same token, so DynamoDB applies the transaction once, even if a response was lost.
        token = os.urandom(16).hex()
        self._send("TransactWriteItems", TransactItems=items, ClientRequestToken=token)

    def write_all(self, writes: Sequence[Write]) -> None:
        """Execute the writes: one write by `write`, several by `transact`. Raises the errors of these methods."""
        if len(writes) == 1:
            self.write(writes[0])
        else:
            self.transact(writes)

    def _begin(self, operation: str, **parameters: Any) -> Callable[[], Any]:
        """Send an idempotent request. Return a function that waits for the response, and retries after failures."""
        line = request_usage.begin_request(operation, parameters)
        first: Callable[[], Any] | None = None
        if isinstance(self.client, client.Client) and has_time():
            try:
                first = self.client.begin(operation, **parameters)
            except (NotSent, ResponseLost) as error:
                first = partial(_raise, error)
        return lambda: self._carry_out(operation, parameters, line, first=first)

    def _send(self, operation: str, *, repeatable: bool = True, elsewhere: bool = False, **parameters: Any) -> Any:
        """Send a request and return its response. Retries failed attempts.

        The parameters have the same meaning as in `_carry_out`.
        """
        line = request_usage.begin_request(operation, parameters)
        return self._carry_out(operation, parameters, line, repeatable=repeatable, elsewhere=elsewhere)

    def _carry_out(
        self,
        operation: str,
        parameters: Mapping[str, Any],
        line: request_usage.RequestUsage,
        *,
        repeatable: bool = True,
        elsewhere: bool = False,
        first: Callable[[], Any] | None = None,
    ) -> Any:
        """Send a request, with retries, and return its response. Record attempts and consumed units in `line`.

        If the first attempt is already in flight, `first` waits for its response; otherwise `first` is `None`.
        `repeatable` is whether the request is idempotent. If `elsewhere` is true, the method raises Throttled after the
        first throttled attempt, without a retry (see `write`).
        """
        failure: Exception = Unavailable()
        uncertain = False
        send_request = partial(getattr(self.client, OPERATIONS[operation]), **parameters)
        for attempt in range(self._attempts):
            if not (first and not attempt) and not has_time(LONGEST_WAIT if attempt else 0):
                break
            if attempt:
                self.pause(attempt)
            try:
                with line:
                    response = translate_errors(first if first and not attempt else send_request)
            except (NotApplied, TransactionConflict) as error:
                # If an earlier attempt may have been applied, the error must not be NotApplied.
                failure = failure if uncertain else error
                if elsewhere and isinstance(failure, Throttled):
                    break
            except NewerSchema:
                raise
            except Unavailable as error:
                if not repeatable:
                    raise
                failure, uncertain = error, True
            else:
                line.record_response(response)
                return response
        raise failure

    def pause(self, attempt: int, longest: float = LONGEST_WAIT) -> None:
        """Sleep a random time of at most `longest` seconds before retry number `attempt` (from 1). The first retries wait less."""
        # Full jitter: https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/
        self._sleep(random.uniform(0, min(SHORTEST_WAIT * 2 ** (attempt - 1), longest)))

    def rest(self, seconds: float) -> None:
        """Sleep for `seconds`, to limit the load on the table; return at once if `seconds` is not positive."""
        if seconds > 0:
            self._sleep(seconds)


def gather(
    begins: Iterable[Callable[[], Callable[[], _Response]]],
    *,
    in_order: Iterable[Hashable] = (),
    at_once: int = LARGEST_BURST,
) -> list[_Response | Exception]:
    """Run requests concurrently; return the result or the error of each, in order.

    Each function in `begins` sends a request, and returns a function that waits for its result. At most `at_once`
    requests are in flight. `in_order` has a key for each request: requests with the same key run one after the other.

    After ConditionFailed, the other requests continue. After any other error, `gather` sends no further request, and
    does not retry requests in flight. The returned list then has no entries for requests that were not sent.

    >>> keys = [{"pk": f"MISSING#{number}", "sk": "NOTE"} for number in range(3)]
    >>> require_all(gather(partial(table.begin_get, key) for key in keys))
    [None, None, None]
    """
    results: list[_Response | Exception] = []
    in_flight: deque[tuple[Hashable, Callable[[], _Response]]] = deque()
    has_failed = False

    def finish_oldest() -> None:
        nonlocal has_failed
        _, finish = in_flight.popleft()
        try:
            if has_failed:
                with limit_time(0, time.monotonic):
                    results.append(finish())
            else:
                results.append(finish())
        except Exception as error:
            has_failed = has_failed or not isinstance(error, ConditionFailed)
            results.append(error)

    keys = iter(in_order)
    for begin in begins:
        key = next(keys, None)
        while len(in_flight) == at_once or (key is not None and any(other == key for other, _ in in_flight)):
            finish_oldest()
        if has_failed:
            break
        in_flight.append((key, begin()))
    while in_flight:
        finish_oldest()
    return results


def require_all(results: Iterable[_Response | Exception]) -> list[_Response]:
    """Return the results of `gather`. Raise the first error among them, if there is one."""
    returned: list[_Response] = []
    for result in results:
        if isinstance(result, Exception):
            raise result
        returned.append(result)
    return returned


def _begun(finish: Callable[[], _Response]) -> Callable[[], Callable[[], _Response]]:
    """Return a function to pass to `gather` for a request that is already in flight. The function returns `finish`,
    which waits for the result of the request."""
    return lambda: finish


def _raise(error: Exception) -> Any:
    raise error


def _projection(attributes: Iterable[str]) -> dict[str, Any]:
    names = {f"#p{position}": name for position, name in enumerate(attributes)}
    if not names:
        return {}
    return {"ProjectionExpression": ", ".join(names), "ExpressionAttributeNames": names}


def _guard(condition: Expression) -> dict[str, Any]:
    return {
        "ConditionExpression": condition.text,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        **_placeholders(condition),
    }


def _placeholders(expression: Expression) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    if expression.names:
        parameters["ExpressionAttributeNames"] = expression.names
    if expression.values:
        parameters["ExpressionAttributeValues"] = encode_item(expression.values)
    return parameters
