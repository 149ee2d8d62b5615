"""Write protocol of all stores: audit fields, optimistic locking, and retries after a lost response.

Each write of a mutable item sets a new random `writeId`. The next write has the condition that the item still has this `writeId`.
If the client sends a version (If-Match), the condition is on the version instead.

All attempts of one write set the same `writeId`. If the condition of a retry is false, but the stored item has this
`writeId`, then an earlier attempt was applied.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from shared.aws.dynamodb import Key, Table, Write
from shared.aws.expressions import Expression, change_between
from shared.aws.failures import ConditionFailed, TransactionConflict
from shared.core.attributes import AnyItem, Value
from shared.core.caller import UPDATED_FOR, Caller
from shared.core.errors import WriteContention
from shared.schema import PARTITION_KEY, SCHEMA_VERSION, SORT_KEY

if TYPE_CHECKING:
    from shared.entities import Authorship

MAX_ATTEMPTS = 10
"""Maximum number of attempts of a change, including the first, if other writers change the same items."""

CONFLICTS = (ConditionFailed, TransactionConflict)
"""Errors of a write that conflicts with another writer; nothing was written."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

ABSENT = Expression.of("attribute_not_exists(#pk)")
"""Condition that the item does not exist."""
PRESENT = Expression.of("attribute_exists(#pk)")
"""Condition that the item exists."""


def new_write_id() -> str:
    """Return a new random `writeId`: 16 hexadecimal digits."""
    return os.urandom(8).hex()


def audit_fields(caller: Caller, now: int) -> "Authorship":
    """Return `updatedAt` (`now`, in epoch seconds), `updatedBy` and a new `writeId`, without the id of the request."""
    return {"updatedAt": now, "updatedBy": caller.subject, "writeId": new_write_id()}


def with_audit_fields(item: AnyItem, caller: Caller, now: int) -> AnyItem:
    """Return the item with its audit fields: author, id of the request, time (`now`, in epoch seconds) and schema version."""
    written: Any = caller.signed(item)
    signed: AnyItem = written | {"schemaVersion": SCHEMA_VERSION, "updatedAt": now}
    return signed


def signing(content: Mapping[str, Value], caller: Caller, now: int) -> Expression:
    """Return an update that sets the attributes in `content` and the audit fields. The item need not be read first."""
    # If `caller` has no request id, the update removes the id that an earlier request stored.
    return change_between({UPDATED_FOR: None}, with_audit_fields(content, caller, now))


def with_version(item: AnyItem, caller: Caller, now: int, *, version: int, write_id: str | None = None) -> AnyItem:
    """Return the item with its audit fields, `version` and `writeId`. Without `write_id`, a new `writeId` is created."""
    written: Any = with_audit_fields(item, caller, now)
    stamped: AnyItem = written | {"version": version, "writeId": write_id or new_write_id()}
    return stamped


def key_of(item: Mapping[str, Value]) -> Key:
    """Return the primary key of an item."""
    return {PARTITION_KEY: item[PARTITION_KEY], SORT_KEY: item[SORT_KEY]}


def unchanged(read: Mapping[str, Value] | None) -> Expression:
    """Return the condition that the stored item has the `writeId` of `read`. If `read` is `None`, the item must not
    exist.

    The condition compares the `writeId`, because an item that was deleted and created again can have the same version.
    """
    return ABSENT if read is None else Expression.of("#writeId = :read", read=read["writeId"])


def at_version(item: Mapping[str, Value]) -> Expression:
    """Return the condition that the stored item still has the version of `item`."""
    return Expression.of("#version = :expected", expected=item["version"])


def absent_or_purged(now: int) -> Expression:
    """Return the condition that an item does not exist or has expired.

    DynamoDB deletes expired items hours or days late. Therefore the condition compares the expiry with `now` (epoch seconds).
    """
    return Expression.of("attribute_not_exists(#pk) OR #purgeAt <= :now", now=now)


def is_own_write(present: Mapping[str, Value] | None, written: Mapping[str, Value]) -> bool:
    """Return whether an earlier attempt of the same write was applied, although its response was lost.

    `present` is the stored item, and `written` is the item that the write stores. The function compares their
    `writeId`s.
    """
    return present is not None and present.get("writeId") == written["writeId"]


def write_once(table: Table, writes: Sequence[Write], *items: Mapping[str, Value] | None) -> None:
    """Execute conditional writes. Several writes are executed as a transaction.

    `items` are the items that the writes store, in the same order, with `None` for a ConditionCheck. Trailing `None`s
    may be omitted. If a condition is false because an earlier attempt stored the item, the call succeeds. Raises
    ConditionFailed if a condition is false for another reason. Raises TransactionConflict if other writers conflict at
    every attempt.
    """
    try:
        table.write_all(writes)
    except ConditionFailed as failure:
        ours = items[failure.position] if failure.position < len(items) else None
        if ours is None or not is_own_write(failure.item, ours):
            raise


def retry_on_conflict(
    attempt: Callable[[_Item | None], _Result],
    resource: str,
    *,
    present: _Item | None = None,
    pause: Callable[[int], object] = lambda attempt: None,
    on: tuple[type[Exception], ...] = (ConditionFailed,),
) -> _Result:
    """Call `attempt` and return its result. Repeat the call after a conflict with another writer.

    `on` are the exceptions that `attempt` raises after a conflict. The first call receives `present`. After
    ConditionFailed, the next call receives the stored item from that error. `pause` is called before each retry with
    the number of the retry, from 1. Pass `Table.pause` if `attempt` must read items again.

    Raises WriteContention after MAX_ATTEMPTS attempts. The error's message names `resource`, such as `the video`.
    """
    failure: Exception | None = None
    for number in range(MAX_ATTEMPTS):
        if number:
            pause(number)
        try:
            return attempt(present)
        except on as conflict:
            failure = conflict
            if isinstance(conflict, ConditionFailed):
                current: Any = conflict.item
                present = current
    raise WriteContention(resource) from failure
