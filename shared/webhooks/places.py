"""How far webhooks are, who works on them, and what their receivers answered.

A place is one item. Each write of it takes the next `turn`, on condition that the turn is the one that was read. So whoever replays,
patches, pauses or deletes a webhook takes the turn of the worker that is at it, and of two workers only one gets to write.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson

from shared.aws.dynamodb import Table
from shared.aws.expressions import Expression, change_between
from shared.aws.failures import ConditionFailed
from shared.aws.leases import LEASE, TURN, fence, next_turn, write_held
from shared.aws.listing import Lists, Window, unsharded
from shared.aws.records import ABSENT, at_version, key_of, stamped
from shared.core.attributes import Item, decode_item, without
from shared.core.caller import Caller
from shared.core.errors import PASSING, NotFound, TooSoon
from shared.core.limits import LAST_SECOND
from shared.core.position import Page, Position
from shared.feed.log import Place
from shared.schema import (
    DUE,
    PARTITION_KEY,
    SORT_KEY,
    TTL_ATTRIBUTE,
    WEBHOOK,
    WEBHOOK_ATTEMPTS,
    WEBHOOK_PLACE,
    follower_relation,
)

LEASE_SECONDS = 120
"""How long a worker has a webhook to itself: as long as it may run at most, and less than its message stays hidden. So the message
of a worker that died comes again when the lease is over."""
LONGEST_LEASE = LEASE_SECONDS + 1
"""Seconds until the end of a lease at most: a place that says more was written by a clock that was ahead."""
DAYS_KEPT = 7
"""How long attempts are kept."""
SECONDS_BETWEEN_TESTS = 10
"""As long as a test may take: so one webhook's tests hold one function at most."""
LARGEST_READ = 25
"""Items of attempts that one Query reads: each has at least one of them, and up to a page of the feed."""
INDEXED = ("rel", "relShard", "relSort", "relId")
"""What puts an item into the index."""
WAITING = (*INDEXED, "nextAttemptAt")
"""What a place says while it is due, now or later."""
WAKE, WAKE_SECONDS = "wokenAt", 60
"""Attribute of a place for which a message was sent while the queue was behind: when, in epoch seconds. For WAKE_SECONDS, changes send no
other: the worker that receives the message removes the attribute before it reads the feed."""
QUEUED = "queuedAt"
"""Attribute of a place that waits for a concurrency quota (shared/webhooks/quotas.py): since when, in epoch seconds."""
_WORKER = Caller.job("deliveries")


class PlaceStore:
    """The places of webhooks in the table, and the attempts beside them."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def followers(self, user_id: str | None) -> Iterator[str]:
        """The ids of the webhooks that follow one owner's changes, or everybody's (None), and are not paused.

        The index lags behind by a second or so: whoever puts a webhook there has it looked at a little later.
        """
        relation, window = unsharded(follower_relation(user_id)), Window(0, LAST_SECOND + 1, ascending=True, limit=100)
        while True:
            page = Lists(self.table).related(relation, window)
            yield from (entry["relId"] for entry in page.items)
            if page.resume is None:
                return
            window = window._replace(after=page.resume)

    def read(self, webhook_id: str) -> Item | None:
        """How far a webhook is, at this moment."""
        return self.table.get(WEBHOOK_PLACE.key(webhookId=webhook_id), consistent=True)

    def read_all(self, webhook_ids: Sequence[str]) -> list[Item | None]:
        """Return the places of webhooks in their order, at this moment; `None` for one that is not there."""
        keys = [WEBHOOK_PLACE.key(webhookId=webhook_id) for webhook_id in webhook_ids]
        return self.table.get_all(keys, consistent=True) if keys else []

    def set_wake(self, place: Item, at: int | None) -> None:
        """Write that a message was sent for a webhook, or with `None` that it was received; the turn stays as it is.

        Two senders at a time may both send. Does nothing when the webhook was deleted.
        """
        change = change_between({WAKE: 0}, {} if at is None else {WAKE: at})
        with suppress(ConditionFailed):
            self.table.write(self.table.update(key_of(place), change, condition=Expression.of("attribute_exists(#pk)")))

    def webhook(self, webhook_id: str) -> Item | None:
        """The webhook itself, at this moment.

        Read after its place it is as new as that: whoever changes what it delivers, or where, takes the turn in the same transaction.
        """
        return self.table.get(WEBHOOK.key(webhookId=webhook_id), consistent=True)

    def begin(self, webhook_id: str, places: Mapping[str, Place]) -> None:
        """Write where a follower begins that is not a webhook of anybody's, unless it has begun."""
        place = {**WEBHOOK_PLACE.key(webhookId=webhook_id), "webhookId": webhook_id, "turn": 1, "places": plain(places)}
        with suppress(ConditionFailed):
            self.table.write(self.table.put(place, condition=ABSENT))

    def save(self, place: Item, new: Item, now: int, in_time: Callable[[], bool] = lambda: False) -> Item:
        """Write what a turn made of a place, and return it as it is then; while the table is busy, again and again while `in_time`.

        Raises LeaseLost; Unavailable.
        """
        new = _next(place, new, now)
        write = self.table.update(key_of(place), change_between(place, new), condition=fence(turn=place[TURN]))
        while True:
            try:
                write_held(self.table, [write], new)
            except PASSING:
                if not in_time():
                    raise
                self.table.rest(1)
            else:
                return new

    def pause(self, place: Item, new: Item, hook: Item, because: str, now: int) -> None:
        """Pause a webhook with a reason, a sentence, and write what the last turn made of its place: one transaction.

        Raises LeaseLost; ConditionFailed when the webhook was changed since it was read, but not what it delivers, or where.
        """
        new = _next(place, idle(new), now)
        paused = without(hook, *INDEXED) | {"paused": True, "pausedBecause": because}
        paused = stamped(paused, _WORKER, now, version=hook["version"] + 1)
        writes = [
            self.table.update(key_of(place), change_between(place, new), condition=fence(turn=place[TURN])),
            self.table.update(key_of(hook), change_between(hook, paused), condition=at_version(hook)),
        ]
        write_held(self.table, writes, new)

    def begin_test(self, webhook_id: str, test_id: str, now: int) -> None:
        """Note that a test begins at `now` (epoch seconds), by the id of what it sends.

        Beside the worker, whose turn it leaves alone: that writes only what it has changed. Raises TooSoon while the last test is
        less than SECONDS_BETWEEN_TESTS ago; NotFound when the webhook is gone.
        """
        write = self.table.update(
            WEBHOOK_PLACE.key(webhookId=webhook_id),
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
                raise NotFound("There is no such webhook.") from failure
            if failure.item["testId"] == test_id:
                return  # the answer to an earlier attempt was lost
            wait = failure.item["testedAt"] + SECONDS_BETWEEN_TESTS - now
            raise TooSoon(
                f"A webhook can be tested once in {SECONDS_BETWEEN_TESTS} seconds.", headers={"Retry-After": str(wait)}
            ) from failure

    def add_attempts(self, webhook_id: str, at: int, turn: int, attempts: Sequence[Mapping[str, Any]]) -> None:
        """Keep what was tried in a turn until `at` (epoch milliseconds), in this order, for DAYS_KEPT days."""
        item = {
            **WEBHOOK_ATTEMPTS.key(webhookId=webhook_id, at=f"{at:013}", turn=turn),
            "attempts": zlib.compress(orjson.dumps(attempts)),
            TTL_ATTRIBUTE: at // 1000 + DAYS_KEPT * 86_400,
        }
        with suppress(ConditionFailed):  # it is there: the answer of an earlier attempt to write it was lost
            self.table.write(self.table.put(item, condition=ABSENT))

    def attempts(self, webhook_id: str, now: int, *, limit: int, after: Position | None = None) -> Page[dict[str, Any]]:
        """A page of a webhook's attempts, the latest first, as `add_attempts` was given them.

        A Position is the time of an item in epoch milliseconds, with its turn and how many of its attempts were shown.
        """
        turn, _, shown = after.id.partition("/") if after else ("", "", "0")
        newest = _sort_key(after.at, turn) if after else f"{WEBHOOK_ATTEMPTS.sort_prefix}:"  # behind all digits
        condition = Expression.of(
            "#pk = :pk AND #sk BETWEEN :oldest AND :newest",
            pk=WEBHOOK_ATTEMPTS.key(webhookId=webhook_id, at="", turn="")[PARTITION_KEY],
            oldest=WEBHOOK_ATTEMPTS.sort_prefix,
            newest=newest,
        )
        kept = Expression.of("#purgeAt > :now", now=now)
        found: list[tuple[dict[str, Any], Position]] = []
        start: Item | None = None
        while True:
            page = self.table.query(
                index=None, condition=condition, keep=kept, ascending=False, limit=LARGEST_READ, start=start
            )
            for item in page.items:
                attempts = orjson.loads(zlib.decompress(item["attempts"]))[::-1]
                skipped = int(shown) if after and item[SORT_KEY] == newest else 0
                at, turn = item[SORT_KEY].split("#")[1:]
                found += [
                    (attempt, Position(int(at), f"{turn}/{place}"))
                    for place, attempt in enumerate(attempts[skipped:], skipped + 1)
                ]
            if len(found) > limit:
                return Page([attempt for attempt, _ in found[:limit]], found[limit - 1][1])
            if page.last_key is None:
                return Page([attempt for attempt, _ in found], None)
            start = decode_item(page.last_key)


def _sort_key(at: int, turn: int | str) -> str:
    """Of the attempts of one run: `at` in epoch milliseconds."""
    return WEBHOOK_ATTEMPTS.key(webhookId="", at=f"{at:013}", turn=turn)[SORT_KEY]


def plain(places: Mapping[str, Place]) -> Item:
    """Places of logs as they are stored."""
    return {log: list(place) for log, place in places.items()}


def due(place: Item, at: int) -> Item:
    """The place of a webhook that is to be looked at from a time on (epoch seconds), by the sweeper if by nobody else, and not before."""
    return seen_at(place, at) | {"nextAttemptAt": at}


def seen_at(place: Item, at: int) -> Item:
    """The place of a webhook that the sweeper sends for at a time (epoch seconds), and that changes may wake before."""
    return place | {"rel": DUE, "relShard": 0, "relSort": at, "relId": place["webhookId"]}


def idle(place: Item) -> Item:
    """The place of a webhook that nobody works on, and that waits for changes alone."""
    return without(place, *WAITING, *LEASE, QUEUED)


def _next(place: Item, new: Item, now: int) -> Item:
    return new | next_turn(place) | {"updatedAt": now}
