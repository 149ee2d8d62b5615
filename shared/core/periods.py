"""Hours and days (UTC) as the table names them: texts that sort as the periods do."""

from datetime import UTC, datetime

HOUR_SECONDS = 3600
DAY_SECONDS = 24 * HOUR_SECONDS


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
