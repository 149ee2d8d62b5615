"""Concurrency quotas: limits on the units of work, such as jobs, that the workers of a queue process concurrently for
one owner.

A worker claims a slot in the owner's quota before it starts a unit of work. If the quota is exhausted, the unit is
added to a waiting list in the table. The unit starts when another unit of the same owner ends. Thus one owner cannot
occupy all workers.

A worker may crash without releasing its slot. Therefore a failed claim checks all slots of the owner, at most once a
minute, and releases the slots of work that has ended.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression
from shared.aws.failures import ConditionFailed
from shared.aws.records import ABSENT, key_of
from shared.core.attributes import Item
from shared.schema import PARTITION_KEY, SCHEMA_VERSION, SHARE, SORT_KEY, TTL_ATTRIBUTE, WAITING

CHECK_SECONDS = 60
"""Minimum number of seconds between two checks of the same owner's slots."""
RETENTION_SECONDS = 30 * 86_400
"""Seconds after the last write until an item of a quota or a waiting list expires. Every unit of work ends earlier."""
PAGE = 10
"""Maximum number of waiting units of work that one Query reads."""

Work = TypeVar("Work")


class Claim(NamedTuple):
    """Unit of work that holds or needs a slot in its owner's quota."""

    owner: str
    queue: str
    name: str
    """Id of the unit within the queue, such as `<videoId>/<kind>` for a job."""
    since: int
    """Epoch seconds at which the unit became ready. The unit that became ready first starts first."""


class Quotas(ABC, Generic[Work]):
    """Concurrency quotas of all owners. `most` is the maximum number of slots of one owner, by queue.

    Subclasses implement `_is_open` and `_waiting`, which read the state of a unit of work, such as a job.

    >>> class ReportQuotas(Quotas[str]):
    ...     def _is_open(self, name): return True
    ...     def _waiting(self, claim): return claim.name
    >>> quotas, now = ReportQuotas(table, {"reports": 1}), 1_750_000_000
    >>> first, second = (Claim("alice", "reports", name, since=now) for name in ("a", "b"))
    >>> quotas.claim_or_wait(first, now), quotas.claim_or_wait(second, now), list(quotas.release(first, now))
    (True, False, ['b'])
    """

    def __init__(self, table: Table, most: Mapping[str, int]) -> None:
        self.table = table
        self.most = most

    @abstractmethod
    def _is_open(self, name: str) -> bool:
        """Return whether the unit of work with this name still needs its slot, because it has not ended."""

    @abstractmethod
    def _waiting(self, claim: Claim) -> Work | None:
        """Return the unit of work of a waiting-list entry; `None` if the unit has started or ended."""

    def claim_or_wait(self, claim: Claim, now: int) -> bool:
        """Claim a slot for a unit of work, or add the unit to the owner's waiting list.

        Returns `True` if the unit has a slot and may start now. Idempotent.
        """
        if self._is_claimed(claim, now):
            return True
        with suppress(ConditionFailed):  # the unit is already in the waiting list
            self.table.write(self.table.put(_entry(claim, now), condition=ABSENT))
        # Another unit may have ended before this write. Its slot was then released while no unit was waiting, so try to
        # claim a slot again.
        if not self._is_claimed(claim, now):
            return False
        self.stop_waiting(claim)
        return True

    def stop_waiting(self, claim: Claim) -> None:
        """Remove the unit of work from the waiting list, if it is listed."""
        self.table.delete(_waiting_key(claim))

    def release(self, claim: Claim, now: int) -> Iterator[Work]:
        """Release the slot of a unit that has ended, and yield the owner's waiting units that may start now.

        Idempotent.

        A yielded unit stays in the waiting list until the caller requests the next unit. A caller that cannot start the
        unit must therefore stop the iteration, so that the unit stays in the list.
        """
        self._give_up(claim, {claim.name})
        while entries := self._first(claim):
            for entry in entries:
                since = int(entry[SORT_KEY].split("#")[2])
                waiting = Claim(claim.owner, claim.queue, entry["job"], since)
                work = self._waiting(waiting)
                if work is not None:
                    if not self._is_claimed(waiting, now):
                        return
                    yield work
                self.table.delete(key_of(entry))

    def _is_claimed(self, claim: Claim, now: int) -> bool:
        """Claim a slot for the unit if the quota allows it. Return whether the unit now has a slot."""
        write = self.table.update(
            _quota_key(claim),
            Expression.of(
                "ADD #jobs :jobs SET #checkedAt = if_not_exists(#checkedAt, :now), #purgeAt = :purgeAt, "
                "#schemaVersion = :schemaVersion",
                jobs={claim.name},
                now=now,
                purgeAt=now + RETENTION_SECONDS,
                schemaVersion=SCHEMA_VERSION,
            ),
            condition=Expression.of(
                "attribute_not_exists(#jobs) OR contains(#jobs, :job) OR size(#jobs) < :most",
                job=claim.name,
                most=self.most[claim.queue],
            ),
        )
        try:
            self.table.write(write)
        except ConditionFailed as failure:
            item = failure.item or {}
            if now - item.get("checkedAt", now) < CHECK_SECONDS:
                return False
            self._check(claim, item["jobs"], now)
            return self._is_claimed(claim, now)
        return True

    def _check(self, claim: Claim, names: set[str], now: int) -> None:
        """Release those slots of the owner whose units of work have ended. `names` are the units that have slots."""
        over = {name for name in names if not self._is_open(name)}
        if over:
            self._give_up(claim, over)
        change = Expression.of("SET #checkedAt = :now", now=now)
        self.table.write(self.table.update(_quota_key(claim), change))  # concurrent writes are harmless

    def _give_up(self, claim: Claim, names: set[str]) -> None:
        for name in names:
            write = self.table.update(
                _quota_key(claim),
                Expression.of("DELETE #jobs :jobs", jobs={name}),
                condition=Expression.of("contains(#jobs, :job)", job=name),
            )
            with suppress(ConditionFailed):  # the slot was released before, or never claimed
                self.table.write(write)

    def _first(self, claim: Claim) -> list[Item]:
        """Return the first entries of the owner's waiting list, at most PAGE entries."""
        return self.table.query(
            index=None,
            condition=Expression.of(
                "#pk = :pk AND begins_with(#sk, :sk)",
                pk=_waiting_key(claim)[PARTITION_KEY],
                sk=WAITING.sk.partition("{queuedAt}")[0].format(queue=claim.queue),
            ),
            limit=PAGE,
            consistent=True,
        ).items


def _quota_key(claim: Claim) -> dict[str, str]:
    return SHARE.key(userId=claim.owner, queue=claim.queue)


def _waiting_key(claim: Claim) -> dict[str, str]:
    return WAITING.key(
        userId=claim.owner, queue=claim.queue, queuedAt=f"{claim.since:012d}", name=claim.name.replace("/", "#")
    )


def _entry(claim: Claim, now: int) -> Item:
    return {
        **_waiting_key(claim),
        "job": claim.name,
        TTL_ATTRIBUTE: now + RETENTION_SECONDS,
        "schemaVersion": SCHEMA_VERSION,
    }
