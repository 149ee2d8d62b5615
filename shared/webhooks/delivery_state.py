"""Delivery state of webhooks: log positions, leases of workers, failures and recent attempts.

The state of a webhook is one item with an attribute `turn`. Each write of a worker increments `turn`, on condition that
it is unchanged since the worker's read. If two workers have read the same state, only one of them can write. A replay,
change or pause by a user also increments `turn`, and a deletion removes the item. The next write of the current worker
then fails.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

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

if TYPE_CHECKING:
    from shared.entities import IndexAttributes, Webhook, WebhookState

LEASE_SECONDS = 120
"""Seconds until a worker's lease expires.

This is more than the maximum run time of a worker, and less than the visibility timeout of its message. If a worker
dies, SQS therefore delivers the message again only after the lease has expired.
"""
LONGEST_LEASE = LEASE_SECONDS + 1
"""Maximum seconds from now until a lease can expire. If a lease expires later, the clock of its writer was ahead, and
the lease is ignored."""
DAYS_KEPT = 7
"""Number of days for which attempts are stored."""
SECONDS_BETWEEN_TESTS = 10
"""Minimum seconds between two tests of a webhook. A test takes less time, so the tests of one webhook occupy at most
one function instance."""
LARGEST_READ = 25
"""Maximum number of items that a Query for attempts reads. An item has the attempts for one page of changes: at least
one attempt, and at most one per change."""
INDEXED = ("rel", "relShard", "relSort", "relId")
"""Names of the attributes that project an item into RelationIndex."""
WAITING = (*INDEXED, "nextAttemptAt")
"""Names of the attributes that a delivery state has only while a delivery or a check is scheduled."""
NOTIFIED_AT: Final = "wokenAt"
"""Name of the attribute with the time, in epoch seconds, at which a message about the webhook was last sent. The time
is stored only if the queue has a backlog when the message is sent.

The worker that receives the message removes the attribute before it reads the feed.
"""
NOTIFIED_SECONDS = 60
"""Seconds after the time in NOTIFIED_AT during which changes cause no further message."""
QUEUED: Final = "queuedAt"
"""Name of the attribute with the time, in epoch seconds, at which the webhook began to wait for a concurrency quota
(shared/webhooks/quotas.py)."""
_WORKER = Caller.job("deliveries")


class DeliveryStateStore:
    """Store of the delivery states and attempts of webhooks."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def followers(self, user_id: str | None) -> Iterator[str]:
        """Yield the ids of active webhooks that subscribe to the changes of one user or, with `None`, of all users.

        The index is eventually consistent, and lags by about a second. Therefore the sweeper checks a new webhook again
        later.
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

    def read(self, webhook_id: str) -> "WebhookState | None":
        """Return the delivery state of a webhook by a consistent read; `None` if it does not exist."""
        key = WEBHOOK_STATE.key(webhookId=webhook_id)
        return cast("WebhookState | None", self.table.get(key, consistent=True))

    def read_all(self, webhook_ids: Sequence[str]) -> "list[WebhookState | None]":
        """Return delivery states by consistent reads, in the order of the ids; `None` for each missing state."""
        keys = [WEBHOOK_STATE.key(webhookId=webhook_id) for webhook_id in webhook_ids]
        return cast("list[WebhookState | None]", self.table.get_all(keys, consistent=True) if keys else [])

    def set_notified(self, state: "WebhookState", at: int | None) -> None:
        """Record that a message about a webhook was sent at `at` (epoch seconds). With `None`, record that a worker
        received the message.

        Does not change `turn`, so two concurrent senders may both send. Does nothing if the webhook was deleted.
        """
        change = change_between({NOTIFIED_AT: 0}, {} if at is None else {NOTIFIED_AT: at})
        with suppress(ConditionFailed):
            self.table.write(self.table.update(key_of(state), change, condition=Expression.of("attribute_exists(#pk)")))

    def webhook(self, webhook_id: str) -> "Webhook | None":
        """Return the webhook item by a consistent read; `None` if it does not exist.

        Call this after `read`, so that the item is at least as new as the delivery state. A later change of the URL or
        types then makes `save` fail, because the transaction of this change also increments `turn`.
        """
        return cast("Webhook | None", self.table.get(WEBHOOK.key(webhookId=webhook_id), consistent=True))

    def begin(self, webhook_id: str, cursors: Mapping[str, LogCursor]) -> None:
        """Create the delivery state of a subscriber that has no webhook item. Does nothing if the state exists."""
        with suppress(ConditionFailed):
            self.table.write(self.table.put(first_state(webhook_id, cursors), condition=ABSENT))

    def save(
        self, state: "WebhookState", new: "WebhookState", now: int, in_time: Callable[[], bool] = lambda: False
    ) -> "WebhookState":
        """Replace the stored `state` with `new`, and return it with `turn` incremented.

        Retries after transient errors while `in_time` returns true. After that, raises the error. Raises LeaseLost if
        the stored `turn` has changed.
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

    def pause(self, state: "WebhookState", new: "WebhookState", hook: "Webhook", because: str, now: int) -> None:
        """Pause a webhook and write its delivery state `new` in one transaction. `because` is the reason, as a
        sentence.

        Raises LeaseLost if the stored `turn` has changed. Raises ConditionFailed if another attribute of the webhook,
        such as its description, changed since `hook` was read.
        """
        new = _next(state, as_idle(new), now)
        paused: Webhook = without(hook, *INDEXED) | {"paused": True, "pausedBecause": because}
        paused = with_version(paused, _WORKER, now, version=hook["version"] + 1)
        writes = [
            self.table.update(key_of(state), change_between(state, new), condition=fence(turn=state[TURN])),
            self.table.update(key_of(hook), change_between(hook, paused), condition=at_version(hook)),
        ]
        write_with_lease(self.table, writes, new)

    def begin_test(self, webhook_id: str, test_id: str, now: int) -> None:
        """Record the start of a test at `now` (epoch seconds) with the id of the test event.

        The write does not change `turn`, so a worker can still write the delivery state. A worker overwrites only
        attributes that the worker itself changed. Raises TooSoon if the last test was less than SECONDS_BETWEEN_TESTS
        ago, and NotFound if the webhook was deleted.
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
        """Store attempts that ended at `at` (epoch milliseconds), in the given order, for DAYS_KEPT days.

        `turn` is the attribute `turn` of the delivery state. It makes the key of the new item unique.
        """
        item = {
            **WEBHOOK_ATTEMPTS.key(webhookId=webhook_id, at=f"{at:013}", turn=turn),
            "attempts": zlib.compress(orjson.dumps(attempts)),
            TTL_ATTRIBUTE: at // 1000 + DAYS_KEPT * 86_400,
        }
        with suppress(ConditionFailed):  # an earlier request wrote the item, but its response was lost
            self.table.write(self.table.put(item, condition=ABSENT))

    def attempts(self, webhook_id: str, now: int, *, limit: int, after: Position | None = None) -> Page[dict[str, Any]]:
        """Return a page of a webhook's attempts, newest first, in the form that `add_attempts` received.

        A position consists of an item's `at` and `turn`, and the number of the item's attempts that earlier pages
        contained.
        """
        turn, _, shown = after.id.partition("/") if after else ("", "", "0")
        newest = (
            _sort_key(int(after.at), turn) if after else f"{WEBHOOK_ATTEMPTS.sort_prefix}:"
        )  # `:` sorts after all digits
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
    """Return the sort key of the item with the attempts that ended at `at` (epoch milliseconds)."""
    return WEBHOOK_ATTEMPTS.key(webhookId="", at=f"{at:013}", turn=turn)[SORT_KEY]


def first_state(webhook_id: str, cursors: Mapping[str, LogCursor]) -> "WebhookState":
    """Return the initial delivery state of a subscriber. Deliveries start at the log positions `cursors`."""
    key = WEBHOOK_STATE.key(webhookId=webhook_id)
    return {
        PARTITION_KEY: key[PARTITION_KEY],
        SORT_KEY: key[SORT_KEY],
        "webhookId": webhook_id,
        "turn": 1,
        "places": encode_cursors(cursors),
    }


def encode_cursors(cursors: Mapping[str, LogCursor]) -> dict[str, list[int]]:
    """Return log positions, by log, in the form in which delivery states store them."""
    return {log: list(state) for log, state in cursors.items()}


def as_due(state: "WebhookState", at: int) -> "WebhookState":
    """Return the delivery state with the next delivery scheduled for `at` (epoch seconds). No delivery starts earlier.

    If no worker has received a message for the webhook by then, the sweeper sends one.
    """
    return checked_at(state, at) | {"nextAttemptAt": at}


def checked_at(state: "WebhookState", at: int) -> "WebhookState":
    """Return the delivery state, scheduled for a check by the sweeper at `at` (epoch seconds).

    New changes may be delivered before `at`, in contrast to `as_due`.
    """
    return {**state, **due(state["webhookId"], at)}


def due(webhook_id: str, at: int) -> "IndexAttributes":
    """Return the attributes that list a delivery state in RelationIndex. The sweeper finds the state there at the time
    `at` (epoch seconds) or later."""
    return {"rel": DUE, "relShard": 0, "relSort": at, "relId": webhook_id}


def as_idle(state: "WebhookState") -> "WebhookState":
    """Return the state without its lease, its scheduled time, and the time at which the webhook began to wait for a
    quota. The webhook then waits for the next change."""
    return without(state, *WAITING, *LEASE, QUEUED)


def _next(state: "WebhookState", new: "WebhookState", now: int) -> "WebhookState":
    return {**new, **next_turn(state), "updatedAt": now}
