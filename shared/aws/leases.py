"""Leases: one worker at a time processes an item, and only the current holder's writes are applied.

The protocol has two parts, because clocks alone cannot exclude concurrent writes:

- The lease stores an expiry, until which other workers skip the item. It avoids duplicate work, and expires if its holder dies.
- The fence is a condition on each of the holder's writes. It requires that attributes still have the values that the holder read
  or wrote, and every claim changes these attributes. Therefore a worker that was suspended beyond its lease, or whose clock is
  wrong, cannot write.

The attributes of the fence differ by item. For a job they are the attempt and the worker, and for the search index the lease
itself. For a webhook's checkpoint and for a revert the fence is the `turn`, a counter of writes. Each turn is valid for one
write. Therefore a revert needs no lease: of concurrent writers with the same turn, the first succeeds.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from shared.aws.dynamodb import Table, Write
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.aws.records import new_write_id
from shared.core.attributes import Item, Value
from shared.core.errors import Conflict

LEASE = ("lease", "leaseUntil")
"""Attributes of a leased item: the id of the lease, and its expiry in epoch seconds."""
TURN = "turn"
"""Attribute that counts the writes of an item and serves as its fence."""
_OWN = ("lease", TURN, "writeId")


class LeaseLost(Conflict):
    """Another worker has claimed the item since the caller read or claimed it, or the item was deleted. Nothing was written."""

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
        """Return the lease of an item, even if it has expired; `None` if there is none."""
        return cls(*(item[name] for name in LEASE)) if item and "lease" in item else None

    @property
    def attributes(self) -> Item:
        """Attributes in which the lease is stored."""
        return dict(zip(LEASE, (self.id, self.until), strict=True))


def is_leased(item: Mapping[str, Value], now: float, longest: int) -> bool:
    """Return whether a worker holds a lease of the item at `now` (epoch seconds).

    A lease that ends more than `longest` seconds after `now` is ignored. A worker with a wrong clock set it, and it would block
    all other workers for too long.
    """
    until: float = item.get("leaseUntil", 0)
    return now < until <= now + longest


def is_free(now: int, longest: int) -> Expression:
    """Return the condition that no worker holds a lease of the item: the opposite of `is_leased`, with the same parameters."""
    return Expression.of(
        "attribute_not_exists(#leaseUntil) OR #leaseUntil <= :now OR #leaseUntil > :longest",
        now=now,
        longest=now + longest,
    )


def fence(**read: Value) -> Expression:
    """Return the condition that the named attributes still have these values, which the holder read or wrote."""
    return Expression.of(" AND ".join(f"#{name} = :{name}" for name in read), **read)


def next_turn(read: Mapping[str, Value]) -> Item:
    """Return the attributes `turn` and `writeId` for the next write of an item whose fence is its turn.

    `read` is the item as the caller read it.
    """
    return {TURN: read[TURN] + 1, "writeId": new_write_id()}


def write_with_lease(
    table: Table, writes: Sequence[Write], new: Mapping[str, Value], *, returning: str = "NONE"
) -> Item:
    """Execute writes that claim a lease, or that its holder makes. Several writes are executed as a transaction.

    The first write must have the fence as its condition, and must set the lease, turn or writeId in `new`. If the item already
    has these values, an earlier attempt was applied and its response was lost, so the call succeeds.

    Returns the attributes that `returning` (ReturnValues) selects for a single write, and an empty item for a transaction. If an
    earlier attempt was applied, returns the current item.

    Raises LeaseLost if the fence failed, and ConditionFailed if the condition of another write failed.
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
