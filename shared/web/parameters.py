"""Parameters of queries and paths, read as what they stand for."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from shared.core import regions
from shared.core.errors import InvalidParameter
from shared.core.limits import LAST_SECOND
from shared.core.text import BREAKS, LARGEST_USER_ID, LONGEST_USER_ID, is_user_id


@dataclass(frozen=True)
class Parameters:
    """Query parameters by name, with readers that raise InvalidParameter."""

    values: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str, longest: int = 255) -> str | None:
        """Any text up to a length, without control characters."""
        value = self.values.get(name)
        if value is not None and (len(value) > longest or re.search(f"[{BREAKS}]", value)):
            raise InvalidParameter.named(name, f"must have at most {longest} characters, none of them a control one")
        return value

    def choice(self, name: str, choices: tuple[str, ...]) -> str | None:
        """One of a few words."""
        value = self.values.get(name)
        if value is not None and value not in choices:
            raise InvalidParameter.named(name, f"must be one of {', '.join(choices)}")
        return value

    def integer(self, name: str, low: int, high: int) -> int | None:
        """A whole number in ASCII digits, both bounds included."""
        value = self.values.get(name)
        if value is None:
            return None
        if not re.fullmatch(r"[0-9]{1,16}", value) or not low <= int(value) <= high:
            raise InvalidParameter.named(name, f"must be a whole number from {low} to {high}")
        return int(value)

    def time(self, name: str, last: int = LAST_SECOND) -> int | None:
        """Epoch seconds, or RFC 3339 with its offset; a fraction counts as the next whole second."""
        value = self.values.get(name)
        if value is None:
            return None
        seconds = int(value) if re.fullmatch(r"[0-9]{1,12}", value) else _rfc3339(name, value)
        if not 0 <= seconds <= last:
            raise InvalidParameter.named(name, "must lie between the years 1970 and 9999")
        return seconds

    def period(self) -> tuple[int, int]:
        """The seconds `from` up to but not including `to`; without them, all that there are."""
        start, end = self.time("from"), self.time("to", LAST_SECOND + 1)
        start, end = start or 0, LAST_SECOND + 1 if end is None else end
        if start >= end:
            raise InvalidParameter.named("from", "must be before `to`, which is not part of the range")
        return start, end

    def region(self, name: str) -> str | None:
        """A region of shared.core.regions, in capitals."""
        return region_of(name, self.values[name]) if name in self.values else None

    def user_id(self, name: str) -> str | None:
        """A userId."""
        return user_id_of(name, self.values[name]) if name in self.values else None

    def names(self, name: str, known: tuple[str, ...]) -> tuple[str, ...]:
        """A list separated by commas, of known names."""
        wanted = tuple(dict.fromkeys(self.values[name].split(","))) if name in self.values else ()
        unknown = [each for each in wanted if each not in known]
        if unknown:
            raise InvalidParameter.named(name, f"{shown(unknown[0])} is none of {', '.join(known)}")
        return wanted


def uuid_of(name: str, text: str) -> str:
    """A UUID in lower case; raises InvalidParameter."""
    if not re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text):
        raise InvalidParameter.named(name, "must be a UUID such as 3f2504e0-4f89-41d3-9a0c-0305e82c3301")
    return text.lower()


def user_id_of(name: str, text: str) -> str:
    """A userId; raises InvalidParameter."""
    if not is_user_id(text):
        raise InvalidParameter.named(
            name, f"must be one line of at most {LONGEST_USER_ID} characters and {LARGEST_USER_ID:,} bytes in UTF-8"
        )
    return text


def region_of(name: str, text: str) -> str:
    """A region of shared.core.regions, in capitals; raises InvalidParameter."""
    region = regions.region(text)
    if region is None:
        raise InvalidParameter.named(name, "must be a country of ISO 3166 such as NZ, or a code such as XWW")
    return region


def shown(text: str) -> str:
    """Foreign text for an error message: short, and nothing that a terminal or log would obey."""
    return "".join(each if each.isprintable() else "?" for each in text[:40]) or "''"


def _rfc3339(name: str, value: str) -> int:
    if re.fullmatch(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", value, re.ASCII):
        # datetime reads at most six digits of a fraction.
        fraction = re.search(r"\.(\d+)", value)
        try:
            moment = datetime.fromisoformat(re.sub(r"\.\d+", "", value.upper()))
            return int(moment.timestamp()) + (1 if fraction and int(fraction[1]) else 0)
        except (ValueError, OverflowError):
            pass
    raise InvalidParameter.named(
        name, "must be epoch seconds or an RFC 3339 time such as 2026-01-31T12:00:00Z (write + as %2B)"
    )
