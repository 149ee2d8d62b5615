"""Delivers changes to who follows them: each until it is taken, those of one thing in their order.

A webhook has a place in the logs of the feed (shared/webhooks/places.py). A worker reads on from there, sends, and writes the place
anew; so what is not written down is sent again, and nothing is skipped. What lets a webhook go on, whatever happens:

- A change was appended: the message of its stream batch becomes one for each that follows it, and comes again until it did.
- A worker dies, or the table is too busy: its message comes again, when the lease is over.
- A webhook needs no message, because a worker has it, it is not due, or one is still in the queue: see `Deliverer.to_wake`.
- A message finds the webhook leased: whoever has the lease looks for more changes after giving it back.
- The webhook is changed or replayed while it is leased: whoever has the lease learns it at its next write, and goes on from there.
- The receiver fails, or the webhook was created, changed or replayed: its place stands in the index as due. So the sweeper sends a
  message, if none was sent or it was lost; also a minute later, as the index of followers may have had the webhook too late for a change.
- The worker's turn or its time is over: it sends a message itself, after giving the lease back.
- The quota of its owner is used up: the webhook waits, and the worker that releases a place sends it a message. If that is lost, its place
  stands in the index as due.
- The receiver is slow: after each turn the webhook rests, and stands in the index as due then.
- The webhook is paused: its owner resumes it, which makes it due.
"""

import math
import random
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from heapq import merge
from statistics import fmean
from typing import Protocol

from shared.aws.leases import LEASE, Lease, LeaseLost, is_leased
from shared.aws.quotas import Claim
from shared.aws.records import retry_on_conflict
from shared.core.attributes import Item, without
from shared.core.errors import PASSING, Gone, Unavailable
from shared.core.telemetry import log_failure, service_logger
from shared.feed.change import Change, is_of
from shared.feed.log import OLDEST, Feed, Place, Told, shard_logs
from shared.webhooks.attempt import shown
from shared.webhooks.carriers import Carrier, Try
from shared.webhooks.places import (
    LEASE_SECONDS,
    LONGEST_LEASE,
    QUEUED,
    WAKE,
    WAKE_SECONDS,
    PlaceStore,
    due,
    idle,
    plain,
    seen_at,
)
from shared.webhooks.quotas import DeliveryQuotas, average_ms, claims_of, is_slow
from shared.webhooks.schedule import MOST_BUS_DELAY, delay_after, is_due, reason_to_pause

BUS = "event-bus"
"""What stands for the id of a webhook where the event bus follows everybody's changes. It has a place, and nothing else."""

MOST_DELIVERED = 64
"""Changes of one page: what is sent again at most when a worker dies, and what a failing one holds up at most."""
MOST_EXAMINED = 5000
"""Changes that are read for one page, when few or none of them are of the webhook's types."""
TURN_SECONDS = 10
"""How long a worker begins requests for one webhook, before others that wait get their turn: a slow receiver keeps it twice as long."""
REST_TIMES, MOST_REST = 3, 60
"""Rest of a slow receiver after a turn: this many times the duration of the turn, and at most so many seconds."""
QUOTA_SECONDS, MOST_QUOTA_SECONDS = 120, 900
"""Seconds after which the sweeper sends for a webhook that waits for a quota, in case the message of a released place was lost; doubled
each time, up to the second."""
SECONDS_TO_STOP = 40
"""How long before its time-out a worker begins no more requests: the last may take 10 seconds, and the table may be busy."""
SECONDS_TO_SAVE = 15
"""How long before its time-out it no longer tries to write down what was delivered."""
INDEX_SECONDS = 60
"""How long the index may not have a webhook that was created or resumed; no message about a change reaches it until then."""

LONGEST_DELAY = 900
"""Seconds that SQS keeps a message back at most."""
FRESH_MS = 60_000
"""By how many milliseconds a change may be older than the end of the log that it stands behind."""

GONE = "What this webhook has not sent is no longer kept; read the lists or take an export, then replay."


class Wake(Protocol):
    """Sends the worker a message about a webhook."""

    def __call__(self, webhook_id: str, delay_seconds: int, claimed: tuple[str, str] | None = None) -> None:
        """Send it with a delay in seconds; `claimed` is the owner and queue of a quota with a place for it. Raises Unavailable."""


@dataclass
class Delivered:
    """What came of some attempts."""

    done: int = 0
    failed: int = 0
    paused: int = 0
    lag: int | None = None
    """Milliseconds from the slowest change to its delivery, of changes that were new and taken at the first attempt."""
    wait: int | None = None
    """Seconds for which a webhook could have been told of a change, and no worker was at it; or for which the bus has failed."""


@dataclass
class _Page:
    """What was read from some places on."""

    matching: list[Change]
    """Of the webhook's types."""
    places: dict[str, Place]
    """Of the logs of which something was read, behind all of it."""
    last: int
    """When the last change was made (epoch milliseconds)."""
    is_end: bool


class Deliverer:
    """Delivers to webhooks by `receivers`, and to the event bus by `bus`, if there is one.

    `measure` takes what comes of attempts.
    """

    def __init__(
        self,
        places: PlaceStore,
        feed: Feed,
        receivers: Carrier,
        quotas: DeliveryQuotas,
        wake: Wake,
        *,
        bus: Carrier | None = None,
        measure: Callable[[Delivered], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.places = places
        self.feed = feed
        self.receivers = receivers
        self.quotas = quotas
        self.bus = bus
        self.wake = wake
        self.measure = measure
        self.clock = clock

    def to_wake(self, owners: Sequence[str], *, is_behind: bool) -> list[str]:
        """Return the ids of webhooks to send a message for, after changes of these owners were appended.

        These follow the owners or everybody; the bus is one of them. Others need no message, as they are at this moment:
        a worker that has the lease reads the feed again after it gives the lease back; a webhook that is not due is called when it is; and a
        message that is still in the queue is received before the feed is read. Messages are remembered only while the
        queue `is_behind`: else they are received at once.
        """
        ids = [id_ for owner in (None, *owners) for id_ in self.places.followers(owner)]
        ids = [*dict.fromkeys(ids), *([BUS] if self.bus else [])]
        now = self.clock()
        woken: list[str] = []
        for id_, place in zip(ids, self.places.read_all(ids), strict=True):
            if place and (
                is_leased(place, now, LONGEST_LEASE)
                or not is_due(place.get("nextAttemptAt", 0), now)
                or abs(now - place.get(WAKE, 0)) < WAKE_SECONDS
            ):
                continue
            if place and is_behind:
                with suppress(*PASSING):  # then changes send other messages
                    self.places.set_wake(place, int(now))
            woken.append(id_)
        return woken

    def deliver(
        self, webhook_id: str, seconds_left: Callable[[], float], claimed: tuple[str, str] | None = None
    ) -> None:
        """Deliver what there is, until the end is reached, the receiver fails, or the time is nearly up.

        Does nothing for a webhook that is paused, deleted, leased or not due. `claimed` is the owner and queue of a quota in which
        the webhook has a place already. Raises Unavailable, WriteContention: the message must come again then.
        """
        run = _Run(self, webhook_id, seconds_left, claimed)
        try:
            # A turn is taken by the owner; or by another worker, which may have read before the change that this message is about.
            retry_on_conflict(lambda _: run.carry_on(), "how far the webhook is", on=(LeaseLost,))
        except Exception:
            run.end()  # the lease may remain until it expires, but no worker is at the webhook
            raise
        run.end()


class _Run:
    """A worker at one webhook."""

    def __init__(
        self,
        deliverer: Deliverer,
        webhook_id: str,
        seconds_left: Callable[[], float],
        claimed: tuple[str, str] | None,
    ) -> None:
        self.to = deliverer
        self.webhook_id = webhook_id
        self.is_bus = webhook_id == BUS
        self.seconds_left = seconds_left
        self.begun = deliverer.clock()
        self.lease: Lease | None = None
        """Of this worker, once it sends."""
        self.hook: Item = {}
        self.place: Item = {}
        """As it was read or written last."""
        self.claims = {claimed: Claim(*claimed, webhook_id, 0)} if claimed else {}
        """Places in quotas that this worker has, by owner and queue."""
        self.is_called = claimed is not None
        """Whether a place in a quota was released for this webhook."""
        self.kept: Collection[tuple[str, str]] = ()
        """Those that the webhook still needs after this run: another worker has it, or it waits for a place in a further quota."""
        self.answer_ms: int | None = None
        """Average time of the receiver's answers in milliseconds, once this worker has some."""

    def in_time(self) -> bool:
        """Whether there is time for another request."""
        return self.seconds_left() > SECONDS_TO_STOP and self.to.clock() < self.begun + TURN_SECONDS

    def carry_on(self) -> None:
        """Deliver page by page, from what the place says now. Raises LeaseLost."""
        if not self._look_up():
            return
        try:
            while self._round():
                pass
        except Gone:
            self._pause(self.place, GONE)

    def end(self) -> None:
        """Release the places in quotas, and send for the webhooks that have waited for them."""
        try:
            for claim in [claim for quota, claim in self.claims.items() if quota not in self.kept]:
                for webhook_id in self.to.quotas.release(claim, int(self.to.clock())):
                    self.to.wake(webhook_id, 0, (claim.owner, claim.queue))
        except PASSING as error:  # claims follow leases, and the sweeper sends for webhooks that wait
            log_failure("quota not released", error, webhook_id=self.webhook_id)

    def _look_up(self) -> bool:
        """Learn what is to be delivered and where; whether this worker may."""
        places, now = self.to.places, self.to.clock()
        place = places.read(self.webhook_id)
        if not self.is_bus:
            hook = self._webhook()  # after its place: see PlaceStore.webhook
        elif self.to.bus:
            hook = {"types": []}
            if place is None:
                places.begin(BUS, dict.fromkeys(shard_logs(), OLDEST))
                place = places.read(BUS)
        else:
            hook = None
        if place is None or hook is None:
            return False
        if WAKE in place:
            # The message was received. Later changes send another, also if this worker finds the webhook leased or not due.
            places.set_wake(place, None)
            place = without(place, WAKE)
        self.place, self.hook = place, hook
        if hook.get("paused"):
            if self._is_holder():  # it was paused while this worker was sending
                self._save(idle(place))
            return False
        is_free = self._is_holder() or not is_leased(place, now, LONGEST_LEASE)
        self.kept = () if is_free else tuple(self.claims)
        is_called = self.is_called and QUEUED in place
        return is_free and (is_called or is_due(place.get("nextAttemptAt", 0), now))

    def _is_holder(self) -> bool:
        return self.lease is not None and Lease.of(self.place) == self.lease

    def _webhook(self) -> Item | None:
        return self.to.places.webhook(self.webhook_id)

    def _round(self) -> bool:
        """Deliver all that there is; whether to look once more, because others may have left changes to this worker."""
        told, was_leased = self._told(), self._is_holder()
        while True:
            page = self._read_page(told)
            known = self.place.get("delivered", ())
            wanted = [change for change in page.matching if change["id"] not in known]
            if wanted:
                was_leased = True
                if not self._send(wanted):
                    return False
            is_over = page.is_end or not self.in_time()
            if page.places or self._is_holder() or self.place.get("relSort", math.inf) <= self.to.clock():
                self._save(self._behind(page, is_over=is_over))
            if not is_over:
                continue
            rest = self._rest()
            if rest or not page.is_end:
                self.to.wake(self.webhook_id, rest)
            return page.is_end and was_leased and not rest

    # Reading --------------------------------------------------------------------------------------------------------

    def _told(self) -> Iterator[tuple[str, Told]]:
        """All changes behind the place, by the logs they stand in: those of one log in their order, all about in that of time.

        They are read consistently: who looks after giving back the lease must see what was appended before.
        """
        logs = [self._of_log(log, Place(*place)) for log, place in self.place["places"].items()]
        return merge(*logs, key=lambda told: told[1].change["at"])

    def _of_log(self, log: str, place: Place) -> Iterator[tuple[str, Told]]:
        is_end = False
        while not is_end:
            try:
                stretch = self.to.feed.read(log, place, sys.maxsize, consistent=True)
            except Gone:
                if not self.is_bus or place == OLDEST:
                    raise
                # Nobody could let it go on.
                service_logger().error("changes no longer kept", extra={"webhook_id": self.webhook_id, "log": log})
                place = OLDEST
                continue
            for told in stretch.told:
                yield log, told
            place, is_end = stretch.place, stretch.is_end

    def _read_page(self, told: Iterator[tuple[str, Told]]) -> _Page:
        page = _Page([], {}, 0, is_end=False)
        for examined, (log, one) in enumerate(told, 1):
            page.places[log], page.last = one.place, one.change["at"]
            if is_of(one.change, self.hook["types"]):
                page.matching.append(one.change)
            if len(page.matching) == MOST_DELIVERED or examined == MOST_EXAMINED:
                return page
        page.is_end = True
        return page

    # Sending --------------------------------------------------------------------------------------------------------

    def _send(self, wanted: Sequence[Change]) -> bool:
        """Send changes; whether all were taken. If not, it is written down what was, and when the webhook goes on."""
        before, is_first = self.place, not self._is_holder()
        if is_first:
            if not self._is_admitted():
                return False
            self.lease = Lease.new(int(self.to.clock()) + LEASE_SECONDS)
            self._save(without(before, QUEUED) | self.lease.attributes)
        groups: dict[str, list[Change]] = {}
        for change in wanted:
            groups.setdefault(change.get("videoId") or change["playlistId"], []).append(change)
        # What failed before comes last: one change that is never taken does not keep back the others.
        counts = before.get("tried", {})
        ordered = sorted(groups.values(), key=lambda group: counts.get(group[0]["id"], 0))
        carrier = self.to.bus if self.is_bus and self.to.bus else self.to.receivers
        tries = sorted(carrier.carry(self.hook, ordered, self.in_time), key=lambda tried: tried.at)
        if tries and not self.is_bus:
            average = before.get("answerMs") if self.answer_ms is None else self.answer_ms
            self.answer_ms = average_ms(average, fmean(tried.answer.ms for tried in tries))
        self._report(before, wanted, tries, is_first=is_first)
        taken = [tried.change["id"] for tried in tries if tried.is_taken]
        left = [change for change in wanted if change["id"] not in taken]
        if not left:
            return True
        failed = [tried for tried in tries if not tried.is_taken]
        new = self.place | {
            "delivered": [*self.place.get("delivered", ()), *taken],
            "oldestWaiting": min(change["at"] for change in left),
        }
        if failed:
            self._failed(new, failed, has_taken=bool(taken))
        else:
            self._save(self._resting(idle(without(new, *_FAILURES) if taken else new)))
            self.to.wake(self.webhook_id, self._rest())
        return False

    def _is_admitted(self) -> bool:
        """Claim a place in each quota that counts the webhook; return whether it has all. Otherwise it waits, and writes that down."""
        if self.is_bus:
            return True
        now = int(self.to.clock())
        claims = claims_of(self.place, self.hook["userId"], now)
        for number, claim in enumerate(claims):
            if not self.to.quotas.claim_or_wait(claim, now):
                self.kept = [(before.owner, before.queue) for before in claims[:number]]
                waits = max(QUOTA_SECONDS, min(now - claim.since, MOST_QUOTA_SECONDS))
                self._save(due(self.place | {QUEUED: claim.since}, now + waits))
                return False
            self.claims[claim.owner, claim.queue] = claim
        return True

    def _rest(self) -> int:
        """Return the seconds for which the receiver is not called after this turn: 0 unless it is slow, and was called."""
        if self.answer_ms is None or not is_slow({"answerMs": self.answer_ms}):
            return 0
        return min(MOST_REST, math.ceil(REST_TIMES * (self.to.clock() - self.begun)))

    def _resting(self, new: Item) -> Item:
        """Return the place at the end of a turn; while the receiver rests, it is not due."""
        if not (rest := self._rest()):
            return new
        at = int(self.to.clock()) + rest
        return seen_at(new, max(at, new.get("relSort", 0))) | {"nextAttemptAt": at}

    def _failed(self, new: Item, failed: Sequence[Try], *, has_taken: bool) -> None:
        """Pause the webhook, or write down when it is tried again."""
        now = int(self.to.clock())
        tried = {
            change_id: count for change_id, count in new.get("tried", {}).items() if change_id not in new["delivered"]
        }
        tried |= {one.change["id"]: tried.get(one.change["id"], 0) + 1 for one in failed}
        # A receiver that takes other changes has not failed for long; it takes MOST_DELIVERED at most without this one.
        if has_taken or "failingSince" not in new:
            new = without(new, "failures") | {"failingSince": now}
        new = without(new, "caughtUpAt") | {"failures": new.get("failures", 0) + 1, "tried": tried}
        answers = [one.answer for one in failed]
        if self.is_bus:  # of which no owner sees an attempt
            service_logger().error("event bus refused changes", extra={"reason": answers[-1].error})
        because = None if self.is_bus else reason_to_pause(answers, now - new["failingSince"])
        if because:
            self._pause(new, because)
            return
        delay = delay_after(new["failures"], answers, random.uniform, longest=MOST_BUS_DELAY if self.is_bus else None)
        self._save(due(without(new, *LEASE), now + delay))
        if delay <= LONGEST_DELAY:
            try:
                self.to.wake(self.webhook_id, delay)
            except Unavailable as error:  # the sweeper finds that it is due
                log_failure("message not sent", error, webhook_id=self.webhook_id)

    def _pause(self, new: Item, because: str) -> None:
        def attempt(hook: Item | None) -> None:
            if hook is None:
                return  # it was deleted
            self.to.places.pause(self.place, new, hook, because, int(self.to.clock()))
            service_logger().warning("webhook paused", extra={"webhook_id": self.webhook_id, "reason": because})
            self.to.measure(Delivered(paused=1))

        # After a conflict, the webhook was changed in another way, such as its description.
        retry_on_conflict(attempt, "the webhook", present=self.hook)

    def _report(self, before: Item, wanted: Sequence[Change], tries: Sequence[Try], *, is_first: bool) -> None:
        """Keep for the webhook's owner what was tried, and measure it."""
        now, counts = self.to.clock(), before.get("tried", {})
        since = max(before.get("updatedAt", 0), before.get("nextAttemptAt", 0), min(one["at"] for one in wanted) / 1000)
        if self.is_bus:  # its failures are ours
            since = before.get("failingSince", since)
        fresh = before.get("caughtUpAt", math.inf) - FRESH_MS
        lags = [
            max(0, tried.at + tried.answer.ms - tried.change["at"])
            for tried in tries
            if tried.is_taken and tried.change["at"] >= fresh and tried.change["id"] not in counts
        ]
        done = sum(tried.is_taken for tried in tries)
        self.to.measure(
            Delivered(
                done=done,
                failed=len(tries) - done,
                lag=max(lags, default=None),
                wait=max(0, int(tries[0].at / 1000 - since)) if is_first and tries else None,
            )
        )
        if not tries or self.is_bus:
            return
        attempts = [_attempt(tried, counts.get(tried.change["id"], 0) + 1) for tried in tries]
        try:
            self.to.places.add_attempts(self.webhook_id, int(now * 1000), self.place["turn"], attempts)
        except Unavailable as error:  # what was delivered is written down all the same
            log_failure("attempts not kept", error, webhook_id=self.webhook_id)

    # Writing down ---------------------------------------------------------------------------------------------------

    def _save(self, new: Item) -> None:
        if self.answer_ms is not None:
            new = new | {"answerMs": self.answer_ms}
        self.place = self.to.places.save(
            self.place, new, int(self.to.clock()), lambda: self.seconds_left() > SECONDS_TO_SAVE
        )

    def _behind(self, page: _Page, *, is_over: bool) -> Item:
        """The place behind a page of which all is delivered."""
        new = without(idle(self.place), *_FAILURES, "delivered", "tried", "oldestWaiting")
        new["places"] = self.place["places"] | plain(page.places)
        if page.is_end:
            new["caughtUpAt"] = int(self.to.clock() * 1000)
            settled = self.hook.get("updatedAt", 0) + INDEX_SECONDS
            return self._resting(seen_at(new, settled) if settled > self.to.clock() else new)
        # Some may stand behind the page, if it has more types than when they were delivered.
        there = {change["id"] for change in page.matching}
        if beyond := [id_ for id_ in self.place.get("delivered", ()) if id_ not in there]:
            new["delivered"] = beyond
        if is_over:
            return self._resting(new | {"oldestWaiting": page.last})  # what waits is about as old, or newer
        return new | {name: self.place[name] for name in LEASE if name in self.place}


_FAILURES = ("failures", "failingSince")


def _attempt(tried: Try, number: int) -> Mapping[str, object]:
    """What the owner of a webhook sees of an attempt."""
    about: dict[str, object] = {
        name: tried.change[name] for name in ("type", "videoId", "playlistId") if name in tried.change
    }
    return {"at": tried.at, "changeId": tried.change["id"], **about, **shown(tried.answer), "attempt": number}
