"""Retry schedule for failing receivers, and the conditions under which a webhook is paused."""

import math
from collections.abc import Callable, Sequence

from shared.webhooks.http_client import ReceiverResponse

DELAYS = (5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800)
"""Seconds to wait after the first failure, the second failure, and so on. The last delay applies to all further
failures."""
JITTER = 0.2
"""Maximum fraction by which a delay varies randomly, so that receivers that failed together are not retried
together."""
LONGEST_RETRY_AFTER = 28_800
"""Maximum seconds of a receiver's Retry-After that the service respects."""
MAX_BUS_DELAY = 600
"""Maximum seconds between two attempts to reach the event bus. The bus is never paused, because no owner could resume
it."""
DAYS_FAILING = 3
"""Number of days without an accepted change after which the service pauses a failing webhook."""

RECEIVER_GONE = "The receiver returned 410 Gone."


def delay_after(
    failures: int,
    responses: Sequence[ReceiverResponse],
    chance: Callable[[float, float], float],
    *,
    longest: int | None = None,
) -> int:
    """Return the seconds to wait after `failures` consecutive failures. If `longest` is given, the result is at most
    `longest`.

    `responses` are the failed responses of the worker's latest delivery run. `chance` returns a random number between
    its two arguments.
    """
    delay = DELAYS[min(failures, len(DELAYS)) - 1] * chance(1 - JITTER, 1 + JITTER)
    retry_after = max(response.retry_after or 0 for response in responses)
    delay = math.ceil(max(delay, min(retry_after, LONGEST_RETRY_AFTER)))
    return delay if longest is None else min(delay, longest)


def is_due(at: int, now: float) -> bool:
    """Return whether a retry time (epoch seconds) has been reached.

    A time that is too far in the future also counts as reached, because only a fast clock can have set it.
    """
    return at <= now or at > now + LONGEST_RETRY_AFTER * (1 + JITTER) + 1


def reason_to_pause(responses: Sequence[ReceiverResponse], seconds: int) -> str | None:
    """Return the reason to pause a webhook after failed attempts, as a sentence. `None` if the webhook is not paused.

    `seconds` is the time since the receiver began to fail. `responses` are the failed responses of the worker's latest
    delivery run.
    """
    for response in responses:
        if response.is_forbidden:
            return response.error
        if response.status == 410:
            return RECEIVER_GONE
    if seconds < DAYS_FAILING * 86_400:
        return None
    last = responses[-1]
    words = f". {last.error}" if last.status is None else f"; its last response was {last.status}."
    return f"The receiver has not accepted a change for {DAYS_FAILING} days{words}"
