"""Hours and days (UTC) as the table names them: texts that sort as the periods do."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

HOUR_SECONDS = 3600
DAY_SECONDS = 24 * HOUR_SECONDS

HOURS_KEPT_DAYS = 35
"""How long it is kept what a counter held at the start of an hour; starts of days are kept for good."""


class Window(NamedTuple):
    """The hours or days (UTC) up to now; the last of them is not over yet."""

    period_seconds: int
    periods: int


WINDOWS: Mapping[str, Window] = {
    "hour": Window(HOUR_SECONDS, 2),
    "day": Window(HOUR_SECONDS, 24),
    "week": Window(DAY_SECONDS, 7),
    "month": Window(DAY_SECONDS, 30),
}
"""Of which there are lists of what was viewed most. An hour is the last full one, and the present one so far."""


def hour_of(now: int) -> str:
    """The hour that a time (epoch seconds) is in, such as `2026-11-22T13`."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H")


def day_of(now: int) -> str:
    """The day that a time (epoch seconds) is on, such as `2026-11-22`."""
    return hour_of(now)[:10]


def start_of(period: str) -> int:
    """When an hour or a day began, in epoch seconds."""
    hour = period if "T" in period else f"{period}T00"
    return int(datetime.strptime(f"{hour}+0000", "%Y-%m-%dT%H%z").timestamp())
