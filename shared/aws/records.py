"""How every store writes an item: who wrote it and when, on what condition, and how a lost answer is made good.

An item that is changed after it was made has a `writeId`, new with each write. It is the condition of the next write,
and it is how a retry of this very write, whose first answer was lost, knows its own work from somebody else's. Where clients name a
version (If-Match), the version is the condition instead.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from shared.aws.dynamodb import Key, Table, Write
from shared.aws.expressions import Expression, change_between
from shared.aws.failures import ConditionFailed, TransactionConflict
from shared.core.attributes import AnyItem, Item, Value
from shared.core.caller import UPDATED_FOR, Caller
from shared.core.errors import WriteContention
from shared.schema import PARTITION_KEY, SCHEMA_VERSION, SORT_KEY

if TYPE_CHECKING:
    from shared.entities import Authorship

MAX_ATTEMPTS = 10
"""Maximum attempts of one change, including the first, while other writers change the same items."""

CONFLICTS = (ConditionFailed, TransactionConflict)
"""Errors of a write that another writer was ahead of; nothing was written."""

_Result = TypeVar("_Result")

ABSENT = Expression.of("attribute_not_exists(#pk)")
"""The condition that there is no such item."""


def new_write_id() -> str:
    """A write's own id: 16 hexadecimal digits."""
    return os.urandom(8).hex()


def author(caller: Caller, now: int) -> "Authorship":
    """What each write of an item says of itself: who, when (epoch seconds), and its own id; not for which request."""
    return {"updatedAt": now, "updatedBy": caller.subject, "writeId": new_write_id()}


def signed(item: AnyItem, caller: Caller, now: int) -> AnyItem:
    """The item as a caller writes it, with the author, the request it is done for, and the time in epoch seconds."""
    written: Any = caller.signed(item)
    signed: AnyItem = written | {"schemaVersion": SCHEMA_VERSION, "updatedAt": now}
    return signed


def signing(content: Mapping[str, Value], caller: Caller, now: int) -> Expression:
    """The change of an item that need not be read: sets `content`, and signs the item as `signed` does."""
    # The request of an earlier write goes, also when there is none now.
    return change_between({UPDATED_FOR: None}, signed(content, caller, now))


def stamped(item: AnyItem, caller: Caller, now: int, *, version: int, write_id: str | None = None) -> AnyItem:
    """The item as `signed` makes it, with its version and a `writeId`."""
    written: Any = signed(item, caller, now)
    stamped: AnyItem = written | {"version": version, "writeId": write_id or new_write_id()}
    return stamped


def key_of(item: Mapping[str, Value]) -> Key:
    """The key of an item that was read."""
    return {PARTITION_KEY: item[PARTITION_KEY], SORT_KEY: item[SORT_KEY]}


def unchanged(read: Mapping[str, Value] | None) -> Expression:
    """The condition that an item is as it was read; None: that there still is none.

    By its `writeId`, because what was removed and made again begins with the same version.
    """
    return ABSENT if read is None else Expression.of("#writeId = :read", read=read["writeId"])


def at_version(item: Mapping[str, Value]) -> Expression:
    """The condition that an item is at the version that was read."""
    return Expression.of("#version = :expected", expected=item["version"])


def absent_or_purged(now: int) -> Expression:
    """The condition of a write that must not replace anything alive.

    DynamoDB removes items hours or days after their time, so the condition looks at the time itself.
    """
    return Expression.of("attribute_not_exists(#pk) OR #purgeAt <= :now", now=now)


def is_ours(present: Mapping[str, Value] | None, written: Mapping[str, Value]) -> bool:
    """Whether an item that stood in the way of a write is that write, carried out by an attempt whose answer was lost."""
    return present is not None and present.get("writeId") == written["writeId"]


def write_once(table: Table, writes: Sequence[Write], *made: Mapping[str, Value] | None) -> None:
    """Carry out conditional writes, several as a transaction; the first of them write the items `made`, `None` for a check.

    Succeeds also if an earlier attempt, whose response was lost, has written them. Raises ConditionFailed and TransactionConflict.
    """
    try:
        table.write_all(writes)
    except ConditionFailed as failure:
        ours = made[failure.position] if failure.position < len(made) else None
        if ours is None or not is_ours(failure.item, ours):
            raise


def write_contention(what: str) -> WriteContention:
    """Return the error for a conflict at every attempt; `what` is named in it, such as `the video`."""
    return WriteContention(f"Others are changing {what}; try again.")


def retry_on_conflict(
    attempt: Callable[[Item | None], _Result],
    what: str,
    *,
    present: Item | None = None,
    pause: Callable[[int], object] = lambda attempt: None,
    on: tuple[type[Exception], ...] = (ConditionFailed,),
) -> _Result:
    """Return the result of `attempt`, which is repeated when it raises one of `on`: another writer was first.

    `attempt` is called with `present`, and after a ConditionFailed with its item, so an attempt that needs only this item
    need not read it again. `pause` is called before each retry with its number, from 1: Table.pause, unless the item at
    hand is the newest. Raises WriteContention that names `what`, such as `the video`, after MAX_ATTEMPTS attempts.
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
                present = conflict.item
    raise write_contention(what) from failure
