"""Leases: one worker at a time processes an item, and only the current holder's writes are applied.

The protocol has two parts, because clocks alone cannot exclude concurrent writes:

- The lease is an expiry time in the item. Other workers skip the item until this time. Leases avoid duplicate work, and
  expire if the holder dies.
- The fence is a condition on each write of the holder. It requires that some attributes have the values that the holder
  read or wrote. Every claim changes these attributes. Therefore a worker cannot write after another worker has claimed
  the item.

The attributes of the fence differ by item:

- job: the attempt and the worker
- search index: the lease
- checkpoint of a webhook, and revert: the `turn`, a counter that each write increments

A revert needs no lease. If several writers have read the same turn, only the first write succeeds.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from shared.aws.dynamodb import Table, Write
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.aws.records import new_write_id
from shared.core.attributes import Item, Value
from shared.core.errors import Conflict

if TYPE_CHECKING:
    from shared.entities import LeaseAttributes, TurnAttributes

LEASE = ("lease", "leaseUntil")
"""Names of the attributes of a leased item: the id of the lease, and its expiry in epoch seconds."""
TURN: Final = "turn"
"""Name of the attribute that counts the writes of an item. The attribute is the fence of webhook checkpoints and reverts."""
_OWN = ("lease", TURN, "writeId")


class LeaseLost(Conflict):
    """Another worker has claimed the item since the caller read or claimed it, or the lease or the item was deleted.
    Nothing was written."""

    def __init__(self) -> None:
        super().__init__("Another worker has claimed the item.")


class Lease(NamedTuple):
    """Claim of an item by a worker.

    >>> key, now = {"pk": "NOTE#1", "sk": "NOTE"}, 1_750_000_000
    >>> lease = Lease.new(now + 120)
    >>> write = table.put(key | lease.attributes, condition=is_free(now, longest=240))
    >>> item = write_with_lease(table, [write], lease.attributes)  # raises LeaseLost while another worker has a lease
    >>> is_leased(table.get(key), now + 119, longest=240), is_leased(table.get(key), now + 120, longest=240)
    (True, False)
    """

    id: str
    until: int
    """Expiry in epoch seconds."""

    @classmethod
    def new(cls, until: int) -> Self:
        """Return a lease with a new random id."""
        return cls(new_write_id(), until)

    @classmethod
    def of(cls, item: Mapping[str, Value] | None) -> Self | None:
        """Return the lease of an item, even if the lease has expired; `None` if the item is `None` or has no lease."""
        return cls(*(item[name] for name in LEASE)) if item and "lease" in item else None

    @property
    def attributes(self) -> "LeaseAttributes":
        """Attributes in which the lease is stored."""
        return {"lease": self.id, "leaseUntil": self.until}


def is_leased(item: Mapping[str, Value], now: float, longest: int) -> bool:
    """Return whether a worker holds a lease of the item at `now` (epoch seconds).

    Ignores a lease that ends more than `longest` seconds after `now`. Only a worker with a wrong clock sets such a
    lease, which would block all other workers for too long.
    """
    until: float = item.get("leaseUntil", 0)
    return now < until <= now + longest


def is_free(now: int, longest: int) -> Expression:
    """Return the condition that no worker holds a lease of the item at `now` (epoch seconds).

    Like `is_leased`, the condition ignores a lease that ends more than `longest` seconds after `now`.
    """
    return Expression.of(
        "attribute_not_exists(#leaseUntil) OR #leaseUntil <= :now OR #leaseUntil > :longest",
        now=now,
        longest=now + longest,
    )


def fence(**read: Value) -> Expression:
    """Return the condition that each named attribute still has the given value, which the lease's holder read or wrote."""
    return Expression.of(" AND ".join(f"#{name} = :{name}" for name in read), **read)


def next_turn(read: Mapping[str, Value]) -> "TurnAttributes":
    """Return the attributes for the next write of an item with a `turn`: the incremented `turn`, and a new `writeId`.

    `read` is the item as the caller read it.
    """
    return {TURN: read[TURN] + 1, "writeId": new_write_id()}


def write_with_lease(
    table: Table, writes: Sequence[Write], new: Mapping[str, Value], *, returning: str = "NONE"
) -> Item:
    """Execute the writes that claim a lease, or later writes of its holder. Several writes are executed as a
    transaction.

    `new` must contain `lease`, `turn` or `writeId`, with the values that the first write stores. The condition of the
    first write must be the fence, or `is_free` for a claim. If this condition is false, but the stored item has the
    values in `new`, an earlier attempt was applied, and the call succeeds.

    Returns the attributes that `returning` (ReturnValues) selects for a single write, and an empty item for a
    transaction. If an earlier attempt was applied, returns the stored item.

    Raises LeaseLost if the condition of the first write is false, and ConditionFailed if another condition is false.
    """
    try:
        if len(writes) == 1:
            return table.write(writes[0], returning=returning)
        table.transact(writes)
    except ConditionFailed as failure:
        if failure.position:
            raise
        found = failure.item or {}
        if any(found.get(name) != new[name] for name in _OWN if name in new):
            raise LeaseLost from failure
        return found
    return {}
