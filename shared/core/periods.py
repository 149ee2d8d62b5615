"""Names of hours and days (UTC) in the table's keys. Their alphabetical order is chronological."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

HOUR_SECONDS = 3600
DAY_SECONDS = 24 * HOUR_SECONDS

HOURS_RETAINED_DAYS = 35
"""Number of days for which hourly view counts are retained. Daily view counts are retained permanently."""


class ViewWindow(NamedTuple):
    """Window of a top list: the last `periods` hours or days (UTC), including the current, incomplete one."""

    period_seconds: int
    """Seconds of one period: an hour or a day."""
    periods: int
    """Number of periods."""


WINDOWS: Mapping[str, ViewWindow] = {
    "hour": ViewWindow(HOUR_SECONDS, 2),
    "day": ViewWindow(HOUR_SECONDS, 24),
    "week": ViewWindow(DAY_SECONDS, 7),
    "month": ViewWindow(DAY_SECONDS, 30),
}
"""Windows of the top lists, by name. `hour` consists of the last full hour and the current, incomplete one."""


def hour_of(now: int) -> str:
    """Format a time in epoch seconds as its UTC hour, such as `2026-11-22T13`."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H")


def day_of(now: int) -> str:
    """Format a time in epoch seconds as its UTC day, such as `2026-11-22`."""
    return hour_of(now)[:10]


def start_of(period: str) -> int:
    """Return the start of an hour or a day in epoch seconds. `period` is its name, from `hour_of` or `day_of`."""
    hour = period if "T" in period else f"{period}T00"
    return int(datetime.strptime(f"{hour}+0000", "%Y-%m-%dT%H%z").timestamp())
