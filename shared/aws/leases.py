"""Leases: one worker at a time processes an item, and only the current holder's writes are applied.

A lease has two parts, because clocks alone cannot exclude concurrent writes:

- The lease itself is a time until which other workers skip the item. It avoids duplicate work, and expires if its holder dies.
- The fence is a condition of each write: attributes that every claim changes still have the values that the holder read or wrote.
  Therefore a worker that was suspended beyond its lease, or whose clock is wrong, cannot write.

The fence differs by item. For a job it is the attempt and the worker, for the search index the lease itself. For a webhook's
checkpoint and for a revert it is the `turn`. A turn is valid for one write, so a revert needs no lease: the first writer wins.
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
"""Attribute that counts the writes of an item, and is its fence."""
_OWN = ("lease", TURN, "writeId")


class LeaseLost(Conflict):
    """Another worker has claimed the item since it was read or claimed, or it was deleted; nothing was written."""

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

    A lease that ends more than `longest` seconds from now is ignored: a wrong clock set it, and it would block all workers.
    """
    until: float = item.get("leaseUntil", 0)
    return now < until <= now + longest


def is_free(now: int, longest: int) -> Expression:
    """Return the condition that `is_leased` is false."""
    return Expression.of(
        "attribute_not_exists(#leaseUntil) OR #leaseUntil <= :now OR #leaseUntil > :longest",
        now=now,
        longest=now + longest,
    )


def fence(**read: Value) -> Expression:
    """Return the condition that attributes still have the values that the holder read or wrote."""
    return Expression.of(" AND ".join(f"#{name} = :{name}" for name in read), **read)


def next_turn(read: Mapping[str, Value]) -> Item:
    """Return the turn and writeId of the next write of an item whose fence is its turn."""
    return {TURN: read[TURN] + 1, "writeId": new_write_id()}


def write_with_lease(
    table: Table, writes: Sequence[Write], new: Mapping[str, Value], *, returning: str = "NONE"
) -> Item:
    """Execute the writes of a claim or of the holder, several as a transaction; return the attributes that `returning` selects.

    The first write has the fence as its condition, and writes the lease, turn or writeId of `new`. If the item has these values
    already, an earlier attempt was applied and its response was lost.

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
