"""Published limits of AWS, and the load for which the limits are computed."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
LIMITS, TARGET = HERE / "limits-2026-11-26.toml", HERE / "target-2026-11-26.toml"


@dataclass(frozen=True)
class PublishedLimits:
    """Published default limits of AWS on one date."""

    date: str
    values: Mapping[str, int]
    """Limits by name, with the units of the TOML file."""
    urls: Mapping[str, str]
    """URL of the page of AWS that states the limit, by name of the limit."""
    unchecked: tuple[str, ...]
    """Names of the limits that no page of AWS confirmed on `date`."""

    @classmethod
    def load(cls, path: Path = LIMITS) -> "PublishedLimits":
        """Read the limits from a TOML file."""
        listed = tomllib.loads(path.read_text(encoding="utf-8"))
        limits = listed["limits"]
        return cls(
            str(listed["date"]),
            {name: limit["value"] for name, limit in limits.items()},
            {name: limit["url"] for name, limit in limits.items()},
            tuple(name for name, limit in limits.items() if not limit["checked"]),
        )


@dataclass(frozen=True)
class Target:
    """Load for which the limits are computed."""

    figures: Mapping[str, float]
    curve: str
    """Name of the workload's curve from which the daily peak of changes is computed."""

    @classmethod
    def load(cls, path: Path = TARGET) -> "Target":
        """Read the load from a TOML file."""
        figures = tomllib.loads(path.read_text(encoding="utf-8"))
        return cls({name: value for name, value in figures.items() if name != "curve"}, figures["curve"])
