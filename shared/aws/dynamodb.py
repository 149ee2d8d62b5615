"""DynamoDB as the stores use it: plain items in and out, conditions, and errors of our own tree."""

import os
import random
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict, TypeVar, Unpack

from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed, TransactionConflict, translating
from shared.aws.lean import client
from shared.aws.lean.client import AnswerLost, NotSent
from shared.core import receipt
from shared.core.attributes import AttributeMap, Item, encode_item, read_item
from shared.core.deadline import CONNECT_SECONDS, READ_SECONDS, has_time, within
from shared.core.errors import NewerSchema, NotApplied, Throttled, Unavailable
from shared.schema import PARTITION_KEY, SORT_KEY

Key = dict[str, str]
_Answer = TypeVar("_Answer")

LARGEST_BATCH_GET = 100
LARGEST_BATCH_WRITE = 25
LARGEST_TRANSACTION = 100
"""Items of one request (DynamoDB's limits)."""

LARGEST_BURST = 32
"""Requests of one `gather` that are under way at a time: each has its own connection."""

REQUEST_ATTEMPTS = 4
"""Maximum attempts of one request, including the first."""
SHORTEST_WAIT, LONGEST_WAIT = 0.1, 0.4
"""Seconds to wait at most before the second try, and before any."""

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
"""What the stores ask of DynamoDB, and what clients call it."""


def uses_boto3() -> bool:
    """Whether boto3's clients take the place of ours."""
    return os.environ.get("DYNAMODB_CLIENT") == "boto3"


def make_client() -> Any:
    """The client of a function: ours, or boto3's with DYNAMODB_CLIENT=boto3. Either tries once: Table tries again, as it
    knows what may be repeated. The time-outs are those of shared/core/deadline.py.
    """
    if uses_boto3():
        from shared.aws.boto3_client import make_client as make_boto3_client

        return make_boto3_client()
    return make_lean_client()


def make_lean_client(service: client.Service = client.DYNAMODB) -> client.Client:
    """A lean client of a service, with the time-outs of shared/core/deadline.py."""
    return client.make_client(
        service, connect_seconds=CONNECT_SECONDS, read_seconds=READ_SECONDS, user_agent="video-metadata"
    )


class Write(NamedTuple):
    """One conditional write, for a request of its own or as a part of a transaction."""

    kind: Literal["Put", "Update", "Delete", "ConditionCheck"]
    """As TransactWriteItems names them; a ConditionCheck is only for a transaction."""
    parameters: dict[str, Any]


class Asked(TypedDict):
    """What a Query asks for."""

    index: str | None
    """None: the table itself."""
    condition: Expression
    limit: int
    """How many items are examined at most."""
    keep: NotRequired[Expression | None]
    attributes: NotRequired[Iterable[str]]
    """None: all that there are."""
    ascending: NotRequired[bool]
    start: NotRequired[Item | None]
    consistent: NotRequired[bool]


class QueryPage(NamedTuple):
    """What one Query gave: the items that passed the filter, how many were examined, where it stopped."""

    items: list[Item]
    examined: int
    last_key: AttributeMap | None


class Table:
    """One table. Every method is one DynamoDB operation and raises shared.core.errors.Unavailable when it is busy.

    What failed is tried again with backoff: always when it certainly did nothing (throttled, in conflict with a
    transaction, never connected); when it may have been carried out only if doing it twice is doing it once. Nothing is
    begun that could not end within the request's deadline, if it has one (shared/core/deadline.py).
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
        """GetItem; half a read unit per 4 KB, one when consistent. Only the named attributes, if any are."""
        return self.begin_get(key, attributes=attributes, consistent=consistent)()

    def begin_get(
        self, key: Key, *, attributes: Iterable[str] = (), consistent: bool = False
    ) -> Callable[[], Item | None]:
        """Send a GetItem; the returned function waits for the item."""
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
        """What `begin_batch_get` asks for."""
        return self.begin_batch_get(keys, attributes=attributes, consistent=consistent)()

    def begin_batch_get(
        self, keys: Sequence[Key], *, attributes: Iterable[str] = (), consistent: bool = False
    ) -> Callable[[], list[Item]]:
        """Send a BatchGetItem for each 100 keys, side by side; what is returned waits for the items.

        A key that occurs twice is read once (an index page is not a snapshot and may name an item twice). Missing items are
        left out, and the others come in no order. What DynamoDB leaves unprocessed is asked for again with backoff.
        """
        different = list({tuple(key.values()): key for key in keys}.values())
        shared = ({"ConsistentRead": True} if consistent else {}) | _projection(attributes)
        finishes = []
        for start in range(0, len(different), LARGEST_BATCH_GET):
            batch = different[start : start + LARGEST_BATCH_GET]
            wanted = {self.name: {"Keys": [encode_item(key) for key in batch], **shared}}
            finishes.append(partial(self._batch_got, self._begin("BatchGetItem", RequestItems=wanted)))
        return lambda: [
            item for items in require_all(gather(map(_begun, finishes), at_once=len(finishes))) for item in items
        ]

    def get_all(
        self, keys: Sequence[Key], *, attributes: Iterable[str] = (), consistent: bool = False
    ) -> list[Item | None]:
        """The items of different keys in their order, None for one that is not there: one BatchGetItem for 100 of them."""
        names = dict.fromkeys((PARTITION_KEY, SORT_KEY, *attributes)) if attributes else ()
        items = self.batch_get(keys, attributes=names, consistent=consistent)
        by_key = {(item[PARTITION_KEY], item[SORT_KEY]): item for item in items}
        return [by_key.get((key[PARTITION_KEY], key[SORT_KEY])) for key in keys]

    def _batch_got(self, first: Callable[[], Any]) -> list[Item]:
        """The items of a BatchGetItem that has begun, and of those that read what it left."""
        answer = first()
        items: list[Item] = []
        for attempt in range(1, self._attempts + 1):
            items += [read_item(item) for item in answer["Responses"].get(self.name, [])]
            left = answer.get("UnprocessedKeys")
            if not left:
                return items
            if attempt == self._attempts or not has_time(LONGEST_WAIT):
                break
            self.pause(attempt)
            answer = self._send("BatchGetItem", RequestItems=left)
        raise Unavailable

    def query(self, **asked: Unpack[Asked]) -> QueryPage:
        """One page of a Query."""
        return self.begin_query(**asked)()

    def begin_query(self, **asked: Unpack[Asked]) -> Callable[[], QueryPage]:
        """Send a Query; what is returned waits for its page. So several partitions are read side by side."""
        condition, keep, start = asked["condition"], asked.get("keep"), asked.get("start")
        names, values = dict(condition.names), dict(condition.values)
        parameters: dict[str, Any] = {"KeyConditionExpression": condition.text}
        if asked["index"]:
            parameters["IndexName"] = asked["index"]
        if asked.get("consistent"):
            parameters["ConsistentRead"] = True
        if keep and keep.text:
            parameters["FilterExpression"] = keep.text
            names.update(keep.names)
            values.update(keep.values)
        projection = _projection(asked.get("attributes", ()))
        names.update(projection.pop("ExpressionAttributeNames", {}))
        if start:
            parameters["ExclusiveStartKey"] = encode_item(start)
        finish = self._begin(
            "Query",
            TableName=self.name,
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=encode_item(values),
            ScanIndexForward=asked.get("ascending", True),
            Limit=asked["limit"],
            **parameters,
            **projection,
        )

        def page() -> QueryPage:
            answer = finish()
            items = [read_item(item) for item in answer["Items"]]
            return QueryPage(items, answer["ScannedCount"], answer.get("LastEvaluatedKey"))

        return page

    def put(self, item: Mapping[str, Any], *, condition: Expression | None = None) -> Write:
        """A put; without a condition it must be part of a transaction that another write guards."""
        parameters = {"TableName": self.name, "Item": encode_item(item)}
        return Write("Put", parameters | (_guard(condition) if condition else {}))

    def update(self, key: Key, change: Expression, *, condition: Expression | None = None) -> Write:
        """An update; without a condition it must be one that commutes, such as ADD."""
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
        """A delete; without a condition it must be part of a transaction that another write guards."""
        parameters = {"TableName": self.name, "Key": encode_item(key)}
        return Write("Delete", parameters | (_guard(condition) if condition else {}))

    def check(self, key: Key, *, condition: Expression) -> Write:
        """A condition on an item that the transaction does not write."""
        return Write("ConditionCheck", {"TableName": self.name, "Key": encode_item(key), **_guard(condition)})

    def delete(self, key: Key) -> None:
        """DeleteItem; succeeds if the item is not there."""
        self._send("DeleteItem", TableName=self.name, Key=encode_item(key))

    def batch_delete(self, keys: Sequence[Key]) -> None:
        """BatchWriteItem for each 25 keys, without conditions; succeeds if an item is not there."""
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
        """PutItem, UpdateItem or DeleteItem; returns the attributes that `returning` asks for.

        With `elsewhere` Throttled is raised at once: the caller can write to another item.
        Raises ConditionFailed; TransactionConflict when a transaction held the item at every attempt. A write
        without a condition may have been carried out when this raises Unavailable, but not with NotApplied.
        """
        # Repeated, a conditional write fails on its own condition, and its store knows it by the writeId.
        repeatable = "ConditionExpression" in write.parameters
        answer = self._send(
            f"{write.kind}Item", repeatable=repeatable, elsewhere=elsewhere, **write.parameters, ReturnValues=returning
        )
        return read_item(answer.get("Attributes") or {})

    def begin_write(self, write: Write) -> Callable[[], None]:
        """Send a conditional PutItem, UpdateItem or DeleteItem; the returned function waits until it is carried out.

        Raises what `write` raises. A write without a condition is refused, because it could not be repeated.
        """
        if "ConditionExpression" not in write.parameters:
            raise ValueError("Only a conditional write can be repeated.")
        finish = self._begin(f"{write.kind}Item", **write.parameters, ReturnValues="NONE")

        def done() -> None:
            finish()

        return done

    def transact(self, writes: Sequence[Write]) -> None:
        """TransactWriteItems: all or none. Raises ConditionFailed with the position of the first that failed.

        Conflicts with other writers are tried again with backoff, then raised as TransactionConflict.
        """
        items = [{write.kind: write.parameters} for write in writes]
        # One token for all attempts: if one of them got through after all, DynamoDB answers the next as it did that one.
        token = os.urandom(16).hex()
        self._send("TransactWriteItems", TransactItems=items, ClientRequestToken=token)

    def write_all(self, writes: Sequence[Write]) -> None:
        """Carry out one write alone, and several as a transaction; raises what `write` and `transact` do."""
        if len(writes) == 1:
            self.write(writes[0])
        else:
            self.transact(writes)

    def _begin(self, operation: str, **parameters: Any) -> Callable[[], Any]:
        """Send a request that may be repeated; what is returned waits for its answer, and tries again."""
        line = receipt.begin(operation, parameters)
        first: Callable[[], Any] | None = None
        if isinstance(self.client, client.Client) and has_time():
            try:
                first = self.client.begin(operation, **parameters)
            except (NotSent, AnswerLost) as error:
                first = partial(_raise, error)
        return lambda: self._carry_out(operation, parameters, line, first=first)

    def _send(self, operation: str, *, repeatable: bool = True, elsewhere: bool = False, **parameters: Any) -> Any:
        """Carry out a request."""
        line = receipt.begin(operation, parameters)
        return self._carry_out(operation, parameters, line, repeatable=repeatable, elsewhere=elsewhere)

    def _carry_out(
        self,
        operation: str,
        parameters: Mapping[str, Any],
        line: receipt.Line,
        *,
        repeatable: bool = True,
        elsewhere: bool = False,
        first: Callable[[], Any] | None = None,
    ) -> Any:
        """Carry out a request, and keep account of it; `first` is its first attempt, if that has begun."""
        failure: Exception = Unavailable()
        uncertain = False
        attempt_it = partial(getattr(self.client, OPERATIONS[operation]), **parameters)
        for attempt in range(self._attempts):
            if not (first and not attempt) and not has_time(LONGEST_WAIT if attempt else 0):
                break
            if attempt:
                self.pause(attempt)
            try:
                with line:
                    answer = translating(first if first and not attempt else attempt_it)
            except (NotApplied, TransactionConflict) as error:
                # An earlier attempt may have got through, and then it would be wrong to say that nothing has happened.
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
                line.take(answer)
                return answer
        raise failure

    def pause(self, attempt: int, longest: float = LONGEST_WAIT) -> None:
        """Wait a little before another attempt, `longest` seconds at most; attempts count from 1."""
        # Full jitter: https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/
        self._sleep(random.uniform(0, min(SHORTEST_WAIT * 2 ** (attempt - 1), longest)))

    def rest(self, seconds: float) -> None:
        """Leave the table alone for a while; not at all when `seconds` is 0 or less."""
        if seconds > 0:
            self._sleep(seconds)


def gather(
    begins: Iterable[Callable[[], Callable[[], _Answer]]],
    *,
    in_order: Iterable[Hashable] = (),
    at_once: int = LARGEST_BURST,
) -> list[_Answer | Exception]:
    """Return the result or the error of each request, in their order; each of `begins` sends a request like `begin_get` does.

    At most `at_once` requests are under way. `in_order` has a key for each: a request is sent after the earlier ones of its
    key have ended. A failed condition is a result like any other. After any other error no request is sent, those under
    way are not tried again, and the list ends with the last one of them.
    """
    results: list[_Answer | Exception] = []
    under_way: deque[tuple[Hashable, Callable[[], _Answer]]] = deque()
    has_failed = False

    def finish_oldest() -> None:
        nonlocal has_failed
        _, finish = under_way.popleft()
        try:
            if has_failed:
                with within(0, time.monotonic):
                    results.append(finish())
            else:
                results.append(finish())
        except Exception as error:
            has_failed = has_failed or not isinstance(error, ConditionFailed)
            results.append(error)

    keys = iter(in_order)
    for begin in begins:
        key = next(keys, None)
        while len(under_way) == at_once or (key is not None and any(other == key for other, _ in under_way)):
            finish_oldest()
        if has_failed:
            break
        under_way.append((key, begin()))
    while under_way:
        finish_oldest()
    return results


def require_all(results: Iterable[_Answer | Exception]) -> list[_Answer]:
    """Return the results of `gather`; raises the first error among them."""
    answers: list[_Answer] = []
    for result in results:
        if isinstance(result, Exception):
            raise result
        answers.append(result)
    return answers


def _begun(finish: Callable[[], _Answer]) -> Callable[[], Callable[[], _Answer]]:
    """Return a request that was begun already as one for `gather` to begin."""
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
