"""Leases: one worker at a time works on an item, and only the present holder's writes are applied.

Two parts, because no clock can protect an item:

- The lease says until when other workers keep away. It saves work; when its holder dies, it expires.
- The fence is a condition of each write: attributes that every claim changes are as the holder has read or written them.
  So a worker that was away for longer than its lease, or whose clock is wrong, writes nothing.

The four users differ in what makes the fence: a job's attempt and worker, the lease itself for the search index, and for a
webhook's place and a revert run their `turn`. A turn belongs to one write, so a run needs no lease: whoever writes first, wins.
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
"""Attributes of a leased item: the lease's id, and until when it holds."""
TURN = "turn"
"""Attribute: the number of writes of an item whose fence it is."""
_OWN = ("lease", TURN, "writeId")


class LeaseLost(Conflict):
    """Another worker has claimed the item since it was read or claimed, or it was deleted; nothing was written."""

    def __init__(self) -> None:
        super().__init__("Another worker has claimed the item.")


class Lease(NamedTuple):
    """A worker's claim of an item.

        lease = Lease.new(now + 120)
    write_held(table, [table.update(key, change_between({}, lease.attributes), condition=is_free(now, 240))], lease.attributes)
    """

    id: str
    until: int
    """Epoch seconds."""

    @classmethod
    def new(cls, until: int) -> Self:
        """Return a lease with an id that no other has."""
        return cls(new_write_id(), until)

    @classmethod
    def of(cls, item: Mapping[str, Value] | None) -> Self | None:
        """Return the lease in an item, whether or not it has expired; `None` if there is none."""
        return cls(*(item[name] for name in LEASE)) if item and "lease" in item else None

    @property
    def attributes(self) -> Item:
        """The lease as it is stored."""
        return dict(zip(LEASE, (self.id, self.until), strict=True))


def is_leased(item: Mapping[str, Value], now: float, longest: int) -> bool:
    """Return whether a worker has the item at `now` (epoch seconds).

    A lease of more than `longest` seconds is not valid: a wrong clock has set it, and would keep all workers away.
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
    """Return the condition that attributes are as the holder has read or written them."""
    return Expression.of(" AND ".join(f"#{name} = :{name}" for name in read), **read)


def next_turn(read: Mapping[str, Value]) -> Item:
    """Return the attributes of the next write of an item whose fence is its turn."""
    return {TURN: read[TURN] + 1, "writeId": new_write_id()}


def write_held(table: Table, writes: Sequence[Write], new: Mapping[str, Value], *, returning: str = "NONE") -> Item:
    """Carry out the writes of a claim or of the holder, several as a transaction; return the attributes that `returning` selects.

    The first write has the fence as its condition and writes the lease, turn or writeId of `new`. An item that has these
    already was written by an earlier attempt whose response was lost. Raises LeaseLost; ConditionFailed if the condition of another
    write failed.
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
