"""When a receiver that fails is called again, and when no longer."""

import math
from collections.abc import Callable, Sequence

from shared.webhooks.sending import Answer

DELAYS = (5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800)
"""Seconds before the second, third ... attempt; the last before all later ones."""
JITTER = 0.2
"""By which part each is longer or shorter, so that receivers that failed together are not called together."""
LONGEST_RETRY_AFTER = 28_800
"""Seconds for which a receiver may ask."""
MOST_BUS_DELAY = 600
"""Seconds between attempts to reach the event bus, which nobody could resume if it was paused."""
DAYS_FAILING = 3
"""For how long nothing was taken, after which a webhook is paused."""

GONE_FOR_GOOD = "The receiver answered 410 Gone."


def delay_after(
    failures: int, answers: Sequence[Answer], chance: Callable[[float, float], float], *, longest: int | None = None
) -> int:
    """Seconds until the next attempt, after this many failures in a row, the last with these answers; `longest` at most.

    `chance` returns a number between two.
    """
    delay = DELAYS[min(failures, len(DELAYS)) - 1] * chance(1 - JITTER, 1 + JITTER)
    asked = max(answer.retry_after or 0 for answer in answers)
    delay = math.ceil(max(delay, min(asked, LONGEST_RETRY_AFTER)))
    return delay if longest is None else min(delay, longest)


def is_due(at: int, now: float) -> bool:
    """Whether it is time for an attempt (epoch seconds); also if that was set by a clock that was ahead."""
    return at <= now or at > now + LONGEST_RETRY_AFTER * (1 + JITTER) + 1


def reason_to_pause(answers: Sequence[Answer], seconds: int) -> str | None:
    """Why a receiver that has taken nothing for `seconds`, and answered so last, is not called again; None: it is."""
    for answer in answers:
        if answer.is_forbidden:
            return answer.error
        if answer.status == 410:
            return GONE_FOR_GOOD
    if seconds < DAYS_FAILING * 86_400:
        return None
    last = answers[-1]
    words = f". {last.error}" if last.status is None else f"; the last answer was {last.status}."
    return f"The receiver has not taken a change for {DAYS_FAILING} days{words}"
