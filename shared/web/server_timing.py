"""The header Server-Timing: what an answer took, and each request to DynamoDB that was made for it.

https://www.w3.org/TR/server-timing/. Browsers show it beside the request. `dur` is in milliseconds; `desc` of a `ddb` says the
operation, its index, and the units that DynamoDB counted. With `?explain=true` each request to DynamoDB is an entry of its
own, and says more. What is examined to answer may be what the caller must not see, so only owners and admins may ask for that.
"""

import json
from collections.abc import Sequence
from urllib.parse import parse_qsl

from shared.aws.receipt import Line
from shared.core.errors import Forbidden
from shared.web.answers import Answer
from shared.web.requests import Request

MOST_ENTRIES = 50
"""Requests to DynamoDB that an answer explains: API Gateway takes 10 KB of headers."""


def header(lines: Sequence[Line], seconds: float, status: int, *, explained: bool) -> str:
    """The header of an answer with this status, which took `seconds`."""
    whole = f"total;dur={seconds * 1000:.1f}"
    if explained:
        return ", ".join([whole, *_each(lines)])
    if status >= 400:  # whose reader must not see by it whether a video is hidden or absent
        return f"{whole}, ddb;dur={_milliseconds(lines)}"
    kinds: dict[tuple[str, str | None], list[Line]] = {}
    for line in lines:
        kinds.setdefault((line.operation, line.index), []).append(line)
    return ", ".join([whole, *map(_entry, kinds.values())])


def is_explained(request: Request) -> bool:
    """Whether the request asks for it. Raises Forbidden at once when only admins may: what it changes is then unchanged."""
    if "explain" not in request.query or ("explain", "true") not in parse_qsl(request.query):
        return False
    if not (request.caller.is_admin or request.route.is_for_owners or request.route.method == "GET"):
        raise Forbidden("Only admins can have this operation explained.")
    return True


def require_own(request: Request, answer: Answer) -> None:
    """Raise Forbidden unless the caller owns all that was read, or is an admin."""
    if request.caller.is_admin or request.route.is_for_owners:
        return
    document = json.loads(answer.body or "{}")
    owners = {thing.get("userId") for thing in document.get("items", [document])}
    owners |= {value for name, value in parse_qsl(request.query) if name == "userId"}
    if owners != {request.caller.subject}:
        raise Forbidden("Only the owner of what is read, and admins, can have it explained.")


def _each(lines: Sequence[Line]) -> list[str]:
    entries = [
        f"{_entry([line])};examined={line.examined or 0};retries={max(line.tries - 1, 0)};conflicts={line.conflicts}"
        for line in lines[:MOST_ENTRIES]
    ]
    rest = lines[MOST_ENTRIES:]
    if rest:
        entries.append(f'ddb;dur={_milliseconds(rest)};desc="{len(rest)} more"')
    return entries


def _entry(lines: Sequence[Line]) -> str:
    """One entry for requests of one kind: `ddb;dur=4.2;desc="Query RelationIndex x4 2"`."""
    first = lines[0]
    words = [first.operation, *([first.index] if first.index else []), *([f"x{len(lines)}"] if len(lines) > 1 else [])]
    units = [line.units for line in lines if line.units is not None]
    if units:
        words.append(f"{sum(units):g}")
    return f'ddb;dur={_milliseconds(lines)};desc="{" ".join(words)}"'


def _milliseconds(lines: Sequence[Line]) -> str:
    """From the first request until the last answer: some are made side by side."""
    if not lines:
        return "0.0"
    begun, ended = min(line.started for line in lines), max(line.started + line.seconds for line in lines)
    return f"{(ended - begun) * 1000:.1f}"
