"""Delivery state of webhooks: log positions, leases of workers, failures and recent attempts.

The state of a webhook is one item. Each write increments `turn`, on condition that `turn` is unchanged since the read.
A replay, change, pause or deletion therefore invalidates the turn of the current worker. Of two workers, only one can
write.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression, change_between
from shared.aws.failures import ConditionFailed
from shared.aws.leases import LEASE, TURN, fence, next_turn, write_with_lease
from shared.aws.listing import Lists, Window, single_partition
from shared.aws.records import ABSENT, at_version, key_of, with_version
from shared.core.attributes import Item, decode_item, without
from shared.core.caller import Caller
from shared.core.errors import TRANSIENT_ERRORS, NotFound, TooSoon
from shared.core.limits import LAST_SECOND
from shared.core.position import Page, Position
from shared.feed.log import LogCursor
from shared.schema import (
    DUE,
    PARTITION_KEY,
    SORT_KEY,
    TTL_ATTRIBUTE,
    WEBHOOK,
    WEBHOOK_ATTEMPTS,
    WEBHOOK_STATE,
    follower_relation,
)

LEASE_SECONDS = 120
"""Duration of a worker's lease, in seconds. It covers the maximum run time of a worker, and is shorter than the
visibility timeout of the message. If a worker dies, its message is therefore received again only after the lease has
expired."""
LONGEST_LEASE = LEASE_SECONDS + 1
"""Maximum seconds until a lease expires. A later expiry was set by a clock that is fast, so such a lease is ignored."""
DAYS_KEPT = 7
"""Retention of attempts, in days."""
SECONDS_BETWEEN_TESTS = 10
"""Minimum seconds between tests. A test takes at most this long, so the tests of one webhook occupy at most one
function instance."""
LARGEST_READ = 25
"""Maximum attempt items per Query. An item has the attempts of one turn: at least one, at most one for each change of a
page."""
INDEXED = ("rel", "relShard", "relSort", "relId")
"""Attributes that project an item into the relation index."""
WAITING = (*INDEXED, "nextAttemptAt")
"""Attributes of the delivery state of a webhook that is due now or at a known later time."""
NOTIFIED_AT, NOTIFIED_SECONDS = "wokenAt", 60
"""Attribute with the time (epoch seconds) of the last message that was sent while the queue was behind.

Changes send no further message for NOTIFIED_SECONDS. The receiving worker removes the attribute before it reads the feed.
"""
QUEUED = "queuedAt"
"""Attribute with the time (epoch seconds) since which the webhook waits for a concurrency quota
(shared/webhooks/quotas.py)."""
_WORKER = Caller.job("deliveries")


class DeliveryStateStore:
    """Delivery states and attempts of webhooks in the table."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def followers(self, user_id: str | None) -> Iterator[str]:
        """Yield the ids of active webhooks that subscribe to one owner's changes, or to all owners' (`None`).

        Eventually consistent: the index lags by about a second. A new webhook must therefore be scheduled for a later
        check.
        """
        relation, window = (
            single_partition(follower_relation(user_id)),
            Window(0, LAST_SECOND + 1, ascending=True, limit=100),
        )
        while True:
            page = Lists(self.table).related(relation, window)
            yield from (entry["relId"] for entry in page.items)
            if page.resume is None:
                return
            window = window._replace(after=page.resume)

    def read(self, webhook_id: str) -> Item | None:
        """Return the delivery state of a webhook, or `None`. Consistent."""
        return self.table.get(WEBHOOK_STATE.key(webhookId=webhook_id), consistent=True)

    def read_all(self, webhook_ids: Sequence[str]) -> list[Item | None]:
        """Return delivery states in the order of the ids, with `None` for each that does not exist. Consistent."""
        keys = [WEBHOOK_STATE.key(webhookId=webhook_id) for webhook_id in webhook_ids]
        return self.table.get_all(keys, consistent=True) if keys else []

    def set_notified(self, state: Item, at: int | None) -> None:
        """Record that a message was sent at a time (epoch seconds), or with `None` that it was received.

        Does not change the turn, so two concurrent senders may both send. Does nothing if the webhook was deleted.
        """
        change = change_between({NOTIFIED_AT: 0}, {} if at is None else {NOTIFIED_AT: at})
        with suppress(ConditionFailed):
            self.table.write(self.table.update(key_of(state), change, condition=Expression.of("attribute_exists(#pk)")))

    def webhook(self, webhook_id: str) -> Item | None:
        """Return the webhook item, or `None`. Consistent.

        An item that is read after the delivery state is at least as new. Changes of the URL or types also invalidate
        the worker's turn, in the same transaction.
        """
        return self.table.get(WEBHOOK.key(webhookId=webhook_id), consistent=True)

    def begin(self, webhook_id: str, cursors: Mapping[str, LogCursor]) -> None:
        """Create the delivery state of a subscriber without a webhook item, unless it exists."""
        state = {
            **WEBHOOK_STATE.key(webhookId=webhook_id),
            "webhookId": webhook_id,
            "turn": 1,
            "places": encode_cursors(cursors),
        }
        with suppress(ConditionFailed):
            self.table.write(self.table.put(state, condition=ABSENT))

    def save(self, state: Item, new: Item, now: int, in_time: Callable[[], bool] = lambda: False) -> Item:
        """Write the result of a turn and return the stored state.

        Retries while the table is throttled and `in_time` returns true. Raises LeaseLost and Unavailable.
        """
        new = _next(state, new, now)
        write = self.table.update(key_of(state), change_between(state, new), condition=fence(turn=state[TURN]))
        while True:
            try:
                write_with_lease(self.table, [write], new)
            except TRANSIENT_ERRORS:
                if not in_time():
                    raise
                self.table.rest(1)
            else:
                return new

    def pause(self, state: Item, new: Item, hook: Item, because: str, now: int) -> None:
        """Pause a webhook with a reason (a sentence) and write the result of the last turn in one transaction.

        Raises LeaseLost. Raises ConditionFailed if another attribute of the webhook, such as its description, changed
        since it was read.
        """
        new = _next(state, as_idle(new), now)
        paused = without(hook, *INDEXED) | {"paused": True, "pausedBecause": because}
        paused = with_version(paused, _WORKER, now, version=hook["version"] + 1)
        writes = [
            self.table.update(key_of(state), change_between(state, new), condition=fence(turn=state[TURN])),
            self.table.update(key_of(hook), change_between(hook, paused), condition=at_version(hook)),
        ]
        write_with_lease(self.table, writes, new)

    def begin_test(self, webhook_id: str, test_id: str, now: int) -> None:
        """Record the start of a test at `now` (epoch seconds) with the id of the test event.

        The turn of a worker remains valid. The worker does not overwrite the test's attributes, because it writes only
        attributes that it changed. Raises TooSoon less than SECONDS_BETWEEN_TESTS after the last test, and NotFound if
        the webhook was deleted.
        """
        write = self.table.update(
            WEBHOOK_STATE.key(webhookId=webhook_id),
            Expression.of("SET #testedAt = :now, #testId = :id", now=now, id=test_id),
            condition=Expression.of(
                "attribute_exists(#pk) AND (attribute_not_exists(#testedAt) OR #testedAt <= :last)",
                last=now - SECONDS_BETWEEN_TESTS,
            ),
        )
        try:
            self.table.write(write)
        except ConditionFailed as failure:
            if failure.item is None:
                raise NotFound.of("webhook") from failure
            if failure.item["testId"] == test_id:
                return  # the response of an earlier attempt was lost
            wait = failure.item["testedAt"] + SECONDS_BETWEEN_TESTS - now
            raise TooSoon(
                f"A webhook can be tested once in {SECONDS_BETWEEN_TESTS} seconds. Retry in {wait} seconds.",
                headers={"Retry-After": str(wait)},
            ) from failure

    def add_attempts(self, webhook_id: str, at: int, turn: int, attempts: Sequence[Mapping[str, Any]]) -> None:
        """Store the attempts of a turn that ended at `at` (epoch milliseconds), in this order, for DAYS_KEPT days."""
        item = {
            **WEBHOOK_ATTEMPTS.key(webhookId=webhook_id, at=f"{at:013}", turn=turn),
            "attempts": zlib.compress(orjson.dumps(attempts)),
            TTL_ATTRIBUTE: at // 1000 + DAYS_KEPT * 86_400,
        }
        with suppress(ConditionFailed):  # it exists: the response of an earlier attempt to write it was lost
            self.table.write(self.table.put(item, condition=ABSENT))

    def attempts(self, webhook_id: str, now: int, *, limit: int, after: Position | None = None) -> Page[dict[str, Any]]:
        """Return a page of a webhook's attempts, newest first, in the form that `add_attempts` received.

        A position consists of the time of an item (epoch milliseconds), its turn, and the number of its attempts
        already returned.
        """
        turn, _, shown = after.id.partition("/") if after else ("", "", "0")
        newest = _sort_key(after.at, turn) if after else f"{WEBHOOK_ATTEMPTS.sort_prefix}:"  # greater than all digits
        condition = Expression.of(
            "#pk = :pk AND #sk BETWEEN :oldest AND :newest",
            pk=WEBHOOK_ATTEMPTS.key(webhookId=webhook_id, at="", turn="")[PARTITION_KEY],
            oldest=WEBHOOK_ATTEMPTS.sort_prefix,
            newest=newest,
        )
        retained = Expression.of("#purgeAt > :now", now=now)
        found: list[tuple[dict[str, Any], Position]] = []
        start: Item | None = None
        while True:
            page = self.table.query(
                index=None, condition=condition, keep=retained, ascending=False, limit=LARGEST_READ, start=start
            )
            for item in page.items:
                attempts = orjson.loads(zlib.decompress(item["attempts"]))[::-1]
                skipped = int(shown) if after and item[SORT_KEY] == newest else 0
                at, turn = item[SORT_KEY].split("#")[1:]
                found += [
                    (attempt, Position(int(at), f"{turn}/{state}"))
                    for state, attempt in enumerate(attempts[skipped:], skipped + 1)
                ]
            if len(found) > limit:
                return Page([attempt for attempt, _ in found[:limit]], found[limit - 1][1])
            if page.last_key is None:
                return Page([attempt for attempt, _ in found], None)
            start = decode_item(page.last_key)


def _sort_key(at: int, turn: int | str) -> str:
    """Return the sort key of the attempts of one turn; `at` is in epoch milliseconds."""
    return WEBHOOK_ATTEMPTS.key(webhookId="", at=f"{at:013}", turn=turn)[SORT_KEY]


def encode_cursors(cursors: Mapping[str, LogCursor]) -> Item:
    """Return log positions in their stored form."""
    return {log: list(state) for log, state in cursors.items()}


def as_due(state: Item, at: int) -> Item:
    """Return the state of a webhook that is not due before a time (epoch seconds).

    At that time the sweeper sends a message if no other message was received.
    """
    return checked_at(state, at) | {"nextAttemptAt": at}


def checked_at(state: Item, at: int) -> Item:
    """Return the state of a webhook that the sweeper checks at a time (epoch seconds).

    Changes may trigger it earlier.
    """
    return state | {"rel": DUE, "relShard": 0, "relSort": at, "relId": state["webhookId"]}


def as_idle(state: Item) -> Item:
    """Return the state of a webhook without a lease or a due time, which waits only for changes."""
    return without(state, *WAITING, *LEASE, QUEUED)


def _next(state: Item, new: Item, now: int) -> Item:
    return new | next_turn(state) | {"updatedAt": now}
