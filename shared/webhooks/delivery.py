"""Delivery of changes to subscribers. Each change is sent until the subscriber accepts it. The changes of a video or
playlist are sent in order.

A webhook has a position in each log of the feed that it reads (shared/webhooks/delivery_state.py). A worker reads
changes from these positions, sends them, and then writes the new positions. Delivery is therefore at least once, and no
change is skipped. Deliveries continue in each of these cases:

- A change was appended: the message of its stream batch becomes one message for each subscriber. The message of the
  stream batch is retried until the messages for all subscribers are sent.
- A worker dies, or the table is throttled: the worker's message is received again after the lease has expired.
- A webhook needs no message, because it is leased, not due, or has a queued message: see `Deliverer.select_to_notify`.
- A message arrives for a leased webhook: the lease holder checks for more changes after it releases the lease.
- The webhook is changed or replayed while it is leased: the lease holder detects this at its next write, and continues
  from the new state.
- The receiver fails, or the webhook was created, changed or replayed: the webhook is in the index of due webhooks. The
  sweeper sends a message if the first message was not sent or was lost. The sweeper also checks a new or changed
  webhook a minute after the change, because the index of subscribers may have been stale.
- RUN_SECONDS have passed, or the worker has little run time left: it sends a new message after it releases the lease.
- The quota of the owner is used up: the webhook waits, and the worker that releases a claim sends a message. If that
  message is lost, the sweeper finds the webhook in the index of due webhooks.
- The receiver is slow: deliveries pause after each run of a worker, and the webhook is due again after the pause.
- The webhook is paused: its owner resumes the webhook, and it is then due.
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
from typing import TYPE_CHECKING, Protocol, cast

from shared.aws.leases import LEASE, Lease, LeaseLost, is_leased
from shared.aws.quotas import Claim
from shared.aws.records import retry_on_conflict
from shared.core.attributes import without
from shared.core.errors import TRANSIENT_ERRORS, Gone, Unavailable
from shared.core.telemetry import log_failure, service_logger
from shared.feed.change import Change, has_type
from shared.feed.log import OLDEST, Feed, FeedEntry, LogCursor, shard_logs
from shared.webhooks.attempt import attempt_document
from shared.webhooks.delivery_state import (
    LEASE_SECONDS,
    LONGEST_LEASE,
    NOTIFIED_AT,
    NOTIFIED_SECONDS,
    QUEUED,
    DeliveryStateStore,
    as_due,
    as_idle,
    checked_at,
    encode_cursors,
)
from shared.webhooks.quotas import DeliveryQuotas, average_ms, claims_of, is_slow
from shared.webhooks.retry_schedule import MAX_BUS_DELAY, delay_after, is_due, reason_to_pause
from shared.webhooks.transport import Attempt, Transport

if TYPE_CHECKING:
    from shared.entities import Webhook, WebhookState

BUS = "event-bus"
"""Subscriber id of the event bus. The bus receives all changes. The bus has a delivery state, but no webhook item."""

MAX_DELIVERED = 64
"""Maximum number of changes per page. After a worker dies, at most this number of changes is sent again. If the
receiver does not accept a change, all later pages wait until it does."""
MAX_EXAMINED = 5000
"""Maximum number of changes that a worker reads for one page if few of them have the webhook's types."""
RUN_SECONDS = 10
"""Seconds during which a worker starts requests for one webhook before it serves other webhooks. A slow request can
double the duration of the run."""
PAUSE_FACTOR, MAX_PAUSE = 3, 60
"""Length of the pause after a run of a worker, if the receiver is slow. The pause is PAUSE_FACTOR times as long as the
run, but at most MAX_PAUSE seconds."""
QUOTA_SECONDS, MAX_QUOTA_SECONDS = 120, 900
"""Minimum and maximum seconds after which the sweeper sends a message for a webhook that waits for a quota.

Normally the worker that releases a claim sends this message, but it may be lost. The longer the webhook waits, the
longer is the delay.
"""
SECONDS_TO_STOP = 40
"""Seconds of remaining run time below which a worker starts no more requests. The last request may take 10 s, and
DynamoDB may throttle the writes after it."""
SECONDS_TO_SAVE = 15
"""Seconds of remaining run time below which a worker no longer retries to store its results."""
INDEX_SECONDS = 60
"""Maximum seconds until the index of subscribers lists a webhook that was created or resumed. Until then, new changes
may cause no message for the webhook."""

LONGEST_DELAY = 900
"""Maximum delay of an SQS message, in seconds."""
FRESH_MS = 60_000
"""Tolerance of the latency measurement, in milliseconds.

Undelivered changes form a backlog. A change is measured if it was written after the backlog was last empty, or at most
FRESH_MS earlier. Older changes are not measured, because they waited in the backlog. After a failure or a replay,
measurements resume when the backlog is empty.
"""

CHANGES_EXPIRED = "The undelivered changes have expired. Read the lists or an export again, then replay."


class Notify(Protocol):
    """Function that queues a message about a webhook. The worker that receives the message delivers changes to the
    webhook."""

    def __call__(self, webhook_id: str, delay_seconds: int, claimed: tuple[str, str] | None = None) -> None:
        """Queue a message about a webhook. Workers receive the message after `delay_seconds`. Raises Unavailable.

        If the webhook already has a slot of a concurrency quota, `claimed` is the owner and the queue of this quota.
        """


@dataclass
class DeliveryResult:
    """Counters and latency of delivery attempts, for metrics."""

    done: int = 0
    """Number of accepted changes."""
    failed: int = 0
    """Number of failed attempts."""
    paused: int = 0
    """Number of webhooks that the worker paused."""
    lag: int | None = None
    """Maximum latency, in milliseconds, of new changes that the subscriber accepted at the first attempt. `None` if
    there are none."""
    wait: int | None = None
    """Delay of the first attempt of a run, in seconds after the time at which delivery was due. While the event bus
    fails, the delay is the time since its first failure. `None` for later attempts of the run."""


@dataclass
class _DeliveryPage:
    """Page of changes that a worker read from the webhook's log positions."""

    matching: list[Change]
    """Changes of the types to which the webhook subscribes."""
    cursors: dict[str, LogCursor]
    """Position after the last change that the worker read from each log. Logs without changes in the page are omitted."""
    last: int
    """Time of the page's last change, in epoch milliseconds."""
    is_end: bool
    """Whether all logs end after this page."""


class Deliverer:
    """Deliverer of changes. It uses the transport `receivers` for webhooks, and the transport `bus` for the event bus.

    `bus` is `None` if the deployment has no event bus. `measure` receives the DeliveryResult of each batch of attempts.
    """

    def __init__(
        self,
        states: DeliveryStateStore,
        feed: Feed,
        receivers: Transport,
        quotas: DeliveryQuotas,
        notify: Notify,
        *,
        bus: Transport | None = None,
        measure: Callable[[DeliveryResult], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.states = states
        self.feed = feed
        self.receivers = receivers
        self.quotas = quotas
        self.bus = bus
        self.notify = notify
        self.measure = measure
        self.clock = clock

    def select_to_notify(self, owners: Sequence[str], *, is_behind: bool) -> list[str]:
        """Return the ids of the webhooks that need a message after changes of these owners were appended to the feed.

        The candidates are the subscribers of these owners, the subscribers of all owners, and the event bus. Three
        kinds of webhooks need no message:

        - A leased webhook, because its worker reads the feed again after it releases the lease.
        - A webhook that is not due, because the sweeper checks it later.
        - A webhook with a queued message, because the worker that receives the message reads the feed afterwards.

        `is_behind` is true if the queue has a backlog. Then this method also stores in each returned webhook's state
        that a message is queued.
        """
        ids = [id_ for owner in (None, *owners) for id_ in self.states.followers(owner)]
        ids = [*dict.fromkeys(ids), *([BUS] if self.bus else [])]
        now = self.clock()
        notified: list[str] = []
        for id_, state in zip(ids, self.states.read_all(ids), strict=True):
            if state and (
                is_leased(state, now, LONGEST_LEASE)
                or not is_due(state.get("nextAttemptAt", 0), now)
                or abs(now - state.get(NOTIFIED_AT, 0)) < NOTIFIED_SECONDS
            ):
                continue
            if state and is_behind:
                with suppress(*TRANSIENT_ERRORS):  # without this record, later changes only cause further messages
                    self.states.set_notified(state, int(now))
            notified.append(id_)
        return notified

    def deliver(
        self, webhook_id: str, seconds_left: Callable[[], float], claimed: tuple[str, str] | None = None
    ) -> None:
        """Deliver changes to a webhook until all are delivered, the receiver fails, or little run time is left.

        Does nothing for a webhook that is paused, deleted, leased or not due. If the webhook already holds a claim in a
        concurrency quota, `claimed` is the owner and the queue of this quota. Raises Unavailable and WriteContention.
        The caller must then retry the message.
        """
        run = _DeliveryRun(self, webhook_id, seconds_left, claimed)
        try:
            # LeaseLost: the owner changed the webhook, or another worker leased it. That worker may have read the feed
            # before the change of this message was appended.
            retry_on_conflict(lambda _: run.carry_on(), "the position of the webhook", on=(LeaseLost,))
        except Exception:
            run.end()  # the lease may remain until it expires, but no worker serves the webhook
            raise
        run.end()


class _DeliveryRun:
    """Run of a worker for one webhook. It reads the webhook's changes, sends them, and stores the results."""

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
        """Lease of this worker; `None` until it sends the first request."""
        self.hook: Webhook
        self.state: WebhookState
        """Delivery state as this worker last read or wrote it."""
        self.claims = {claimed: Claim(*claimed, webhook_id, 0)} if claimed else {}
        """Quota claims that this worker holds, by owner and queue."""
        self.is_called = claimed is not None
        """Whether this run handles a message that another worker sent when it released a quota claim."""
        self.retained_claims: Collection[tuple[str, str]] = ()
        """Claims to keep after this run, as pairs of owner and queue. They are kept if another worker has leased the
        webhook, or if the webhook waits for another quota."""
        self.answer_ms: int | None = None
        """Average response time of the receiver in milliseconds. `None` until this worker has received a response."""

    def in_time(self) -> bool:
        """Return whether this run has time left for another request."""
        return self.seconds_left() > SECONDS_TO_STOP and self.to.clock() < self.begun + RUN_SECONDS

    def carry_on(self) -> None:
        """Deliver changes from the stored positions until none are left or the run must end. Raises LeaseLost."""
        if not self._look_up():
            return
        try:
            while self._round():
                pass
        except Gone:
            self._pause(self.state, CHANGES_EXPIRED)

    def end(self) -> None:
        """Release this worker's quota claims, and send messages for webhooks that waited for the same quotas."""
        try:
            for claim in [claim for quota, claim in self.claims.items() if quota not in self.retained_claims]:
                for webhook_id in self.to.quotas.release(claim, int(self.to.clock())):
                    self.to.notify(webhook_id, 0, (claim.owner, claim.queue))
        except TRANSIENT_ERRORS as error:  # claims expire with leases, and the sweeper notifies waiting webhooks
            log_failure("quota not released", error, webhook_id=self.webhook_id)

    def _look_up(self) -> bool:
        """Read the webhook and its delivery state. Return whether this worker may deliver changes now."""
        states, now = self.to.states, self.to.clock()
        state = states.read(self.webhook_id)
        if not self.is_bus:
            hook = self._webhook()  # read after the state: see DeliveryStateStore.webhook
        elif self.to.bus:
            hook = cast("Webhook", {"types": []})  # the bus has no other attribute of a webhook
            if state is None:
                states.begin(BUS, dict.fromkeys(shard_logs(), OLDEST))
                state = states.read(BUS)
        else:
            hook = None
        if state is None or hook is None:
            return False
        if NOTIFIED_AT in state:
            # The message was received. Later changes must cause another one, even if this worker cannot deliver now.
            states.set_notified(state, None)
            state = without(state, NOTIFIED_AT)
        self.state, self.hook = state, hook
        if hook.get("paused"):
            if self._is_holder():  # the webhook was paused while this worker was sending
                self._save(as_idle(state))
            return False
        is_free = self._is_holder() or not is_leased(state, now, LONGEST_LEASE)
        self.retained_claims = () if is_free else tuple(self.claims)
        is_called = self.is_called and QUEUED in state
        return is_free and (is_called or is_due(state.get("nextAttemptAt", 0), now))

    def _is_holder(self) -> bool:
        return self.lease is not None and Lease.of(self.state) == self.lease

    def _webhook(self) -> "Webhook | None":
        return self.to.states.webhook(self.webhook_id)

    def _round(self) -> bool:
        """Deliver the changes that are available. Return whether the caller must check again for changes.

        A further check is necessary if this worker held the lease, because other workers skip a leased webhook.
        """
        entry, was_leased = self._read_feed(), self._is_holder()
        while True:
            page = self._read_page(entry)
            delivered = self.state.get("delivered", ())
            undelivered = [change for change in page.matching if change["id"] not in delivered]
            if undelivered:
                was_leased = True
                if not self._send(undelivered):
                    return False
            is_over = page.is_end or not self.in_time()
            if page.cursors or self._is_holder() or self.state.get("relSort", math.inf) <= self.to.clock():
                self._save(self._state_behind(page, is_over=is_over))
            if not is_over:
                continue
            rest = self._rest()
            if rest or not page.is_end:
                self.to.notify(self.webhook_id, rest)
            return page.is_end and was_leased and not rest

    # Reading --------------------------------------------------------------------------------------------------------

    def _read_feed(self) -> Iterator[tuple[str, FeedEntry]]:
        """Yield all changes after the stored positions, as pairs of log key and feed entry.

        The changes of one log are in order, and the logs are merged approximately by time. Reads are strongly
        consistent. After a worker has released the lease, it reads the feed again, and must then find all changes that
        were appended before the release.
        """
        logs = [self._read_log(log, LogCursor(*place)) for log, place in self.state["places"].items()]
        return merge(*logs, key=lambda entry: entry[1].change["at"])

    def _read_log(self, log: str, cursor: LogCursor) -> Iterator[tuple[str, FeedEntry]]:
        is_end = False
        while not is_end:
            try:
                page = self.to.feed.read(log, cursor, sys.maxsize, consistent=True)
            except Gone:
                if not self.is_bus or cursor == OLDEST:
                    raise
                # The bus has no owner that could resume it.
                service_logger().error("changes expired", extra={"webhook_id": self.webhook_id, "log": log})
                cursor = OLDEST
                continue
            for entry in page.entries:
                yield log, entry
            cursor, is_end = page.cursor, page.is_end

    def _read_page(self, entries: Iterator[tuple[str, FeedEntry]]) -> _DeliveryPage:
        page = _DeliveryPage([], {}, 0, is_end=False)
        for examined, (log, entry) in enumerate(entries, 1):
            page.cursors[log], page.last = entry.cursor, entry.change["at"]
            if has_type(entry.change, self.hook["types"]):
                page.matching.append(entry.change)
            if len(page.matching) == MAX_DELIVERED or examined == MAX_EXAMINED:
                return page
        page.is_end = True
        return page

    # Sending --------------------------------------------------------------------------------------------------------

    def _send(self, changes: Sequence[Change]) -> bool:
        """Send changes, and return whether the subscriber accepted all of them.

        If it did not, stores the ids of the accepted changes and the time of the next attempt.
        """
        before, is_first = self.state, not self._is_holder()
        if is_first:
            if not self._is_admitted():
                return False
            self.lease = Lease.new(int(self.to.clock()) + LEASE_SECONDS)
            self._save({**without(before, QUEUED), **self.lease.attributes})
        groups: dict[str, list[Change]] = {}
        for change in changes:
            groups.setdefault(change.get("videoId") or change["playlistId"], []).append(change)
        # Previously failed changes are last, so that a permanently failing change does not delay other changes.
        counts = before.get("tried", {})
        ordered = sorted(groups.values(), key=lambda group: counts.get(group[0]["id"], 0))
        transport = self.to.bus if self.is_bus and self.to.bus else self.to.receivers
        attempts = sorted(transport.deliver(self.hook, ordered, self.in_time), key=lambda attempt: attempt.at)
        if attempts and not self.is_bus:
            average = before.get("answerMs") if self.answer_ms is None else self.answer_ms
            self.answer_ms = average_ms(average, fmean(attempt.response.ms for attempt in attempts))
        self._report(before, changes, attempts, is_first=is_first)
        accepted = [attempt.change["id"] for attempt in attempts if attempt.is_accepted]
        unaccepted = [change for change in changes if change["id"] not in accepted]
        if not unaccepted:
            return True
        failed = [attempt for attempt in attempts if not attempt.is_accepted]
        new = self.state | {
            "delivered": [*self.state.get("delivered", ()), *accepted],
            "oldestWaiting": min(change["at"] for change in unaccepted),
        }
        if failed:
            self._failed(new, failed, has_accepted=bool(accepted))
        else:
            self._save(self._resting(as_idle(without(new, *_FAILURES) if accepted else new)))
            self.to.notify(self.webhook_id, self._rest())
        return False

    def _is_admitted(self) -> bool:
        """Claim each quota that the webhook needs, and return whether all claims succeeded.

        If one did not, stores that the webhook waits for a quota.
        """
        if self.is_bus:
            return True
        now = int(self.to.clock())
        claims = claims_of(self.state, self.hook["userId"], now)
        for number, claim in enumerate(claims):
            if not self.to.quotas.claim_or_wait(claim, now):
                self.retained_claims = [(before.owner, before.queue) for before in claims[:number]]
                waits = max(QUOTA_SECONDS, min(now - claim.since, MAX_QUOTA_SECONDS))
                self._save(as_due(self.state | {QUEUED: claim.since}, now + waits))
                return False
            self.claims[claim.owner, claim.queue] = claim
        return True

    def _rest(self) -> int:
        """Return the seconds to pause after this run. 0 if the receiver is quick, or if it did not respond in this
        run."""
        if not is_slow(self.answer_ms):
            return 0
        return min(MAX_PAUSE, math.ceil(PAUSE_FACTOR * (self.to.clock() - self.begun)))

    def _resting(self, new: "WebhookState") -> "WebhookState":
        """Return the delivery state to store at the end of this run. It is `new`, with a pause before the next
        delivery if the receiver is slow."""
        if not (rest := self._rest()):
            return new
        at = int(self.to.clock()) + rest
        return checked_at(new, max(at, new.get("relSort", 0))) | {"nextAttemptAt": at}

    def _failed(self, new: "WebhookState", failed: Sequence[Attempt], *, has_accepted: bool) -> None:
        """Schedule the next attempt after failed attempts, or pause the webhook if `reason_to_pause` returns a
        reason."""
        now = int(self.to.clock())
        tried = {
            change_id: count for change_id, count in new.get("tried", {}).items() if change_id not in new["delivered"]
        }
        tried |= {attempt.change["id"]: tried.get(attempt.change["id"], 0) + 1 for attempt in failed}
        # If the receiver accepts other changes, the failing period starts again. At most MAX_DELIVERED changes can be
        # accepted before the failed change blocks the page.
        if has_accepted or "failingSince" not in new:
            new = without(new, "failures") | {"failingSince": now}
        new = without(new, "caughtUpAt") | {"failures": new.get("failures", 0) + 1, "tried": tried}
        responses = [attempt.response for attempt in failed]
        if self.is_bus:  # the bus has no owner who could read its attempts
            service_logger().error("event bus refused changes", extra={"reason": responses[-1].error})
        because = None if self.is_bus else reason_to_pause(responses, now - new["failingSince"])
        if because:
            self._pause(new, because)
            return
        delay = delay_after(new["failures"], responses, random.uniform, longest=MAX_BUS_DELAY if self.is_bus else None)
        self._save(as_due(without(new, *LEASE), now + delay))
        if delay <= LONGEST_DELAY:
            try:
                self.to.notify(self.webhook_id, delay)
            except Unavailable as error:  # the sweeper finds the due webhook
                log_failure("message not sent", error, webhook_id=self.webhook_id)

    def _pause(self, new: "WebhookState", because: str) -> None:
        def attempt(hook: "Webhook | None") -> None:
            if hook is None:
                return  # the webhook was deleted
            self.to.states.pause(self.state, new, hook, because, int(self.to.clock()))
            service_logger().warning("webhook paused", extra={"webhook_id": self.webhook_id, "reason": because})
            self.to.measure(DeliveryResult(paused=1))

        # A conflict means that another attribute of the webhook changed, such as its description.
        retry_on_conflict(attempt, "the webhook", present=self.hook)

    def _report(
        self, before: "WebhookState", changes: Sequence[Change], attempts: Sequence[Attempt], *, is_first: bool
    ) -> None:
        """Store the attempts, so that the webhook's owner can list them, and report their metrics."""
        now, counts = self.to.clock(), before.get("tried", {})
        since = max(
            before.get("updatedAt", 0), before.get("nextAttemptAt", 0), min(change["at"] for change in changes) / 1000
        )
        if self.is_bus:  # operators need the time since the first failure
            since = before.get("failingSince", since)
        fresh = before.get("caughtUpAt", math.inf) - FRESH_MS
        lags = [
            max(0, attempt.at + attempt.response.ms - attempt.change["at"])
            for attempt in attempts
            if attempt.is_accepted and attempt.change["at"] >= fresh and attempt.change["id"] not in counts
        ]
        done = sum(attempt.is_accepted for attempt in attempts)
        self.to.measure(
            DeliveryResult(
                done=done,
                failed=len(attempts) - done,
                lag=max(lags, default=None),
                wait=max(0, int(attempts[0].at / 1000 - since)) if is_first and attempts else None,
            )
        )
        if not attempts or self.is_bus:
            return
        documents = [_attempt(attempt, counts.get(attempt.change["id"], 0) + 1) for attempt in attempts]
        try:
            self.to.states.add_attempts(self.webhook_id, int(now * 1000), self.state["turn"], documents)
        except Unavailable as error:  # the result of the delivery is stored nevertheless
            log_failure("attempts not stored", error, webhook_id=self.webhook_id)

    # Storing --------------------------------------------------------------------------------------------------------

    def _save(self, new: "WebhookState") -> None:
        if self.answer_ms is not None:
            new = new | {"answerMs": self.answer_ms}
        self.state = self.to.states.save(
            self.state, new, int(self.to.clock()), lambda: self.seconds_left() > SECONDS_TO_SAVE
        )

    def _state_behind(self, page: _DeliveryPage, *, is_over: bool) -> "WebhookState":
        """Return the delivery state after the subscriber has accepted all changes of a page.

        `is_over` means that this run ends after the page.
        """
        new = without(as_idle(self.state), *_FAILURES, "delivered", "tried", "oldestWaiting")
        new["places"] = self.state["places"] | encode_cursors(page.cursors)
        if page.is_end:
            new["caughtUpAt"] = int(self.to.clock() * 1000)
            settled = self.hook.get("updatedAt", 0) + INDEX_SECONDS
            return self._resting(checked_at(new, settled) if settled > self.to.clock() else new)
        # If the owner added types since the delivery, some delivered changes may be after this page.
        page_ids = {change["id"] for change in page.matching}
        if beyond := [id_ for id_ in self.state.get("delivered", ()) if id_ not in page_ids]:
            new["delivered"] = beyond
        if is_over:
            return self._resting(new | {"oldestWaiting": page.last})  # undelivered changes are about as old, or newer
        lease = Lease.of(self.state)
        return {**new, **lease.attributes} if lease else new


_FAILURES = ("failures", "failingSince")


def _attempt(attempt: Attempt, number: int) -> Mapping[str, object]:
    """Return an attempt as API responses show it. `number` is its ordinal for this change, starting at 1."""
    about: dict[str, object] = {
        name: attempt.change[name] for name in ("type", "videoId", "playlistId") if name in attempt.change
    }
    return {
        "at": attempt.at,
        "changeId": attempt.change["id"],
        **about,
        **attempt_document(attempt.response),
        "attempt": number,
    }
