"""The header Server-Timing: what an answer took, and each request to DynamoDB that was made for it.

https://www.w3.org/TR/server-timing/. Browsers show it beside the request. `dur` is in milliseconds; `desc` of a `ddb` says the
operation and its index. With `?explain=true` each request to DynamoDB is an entry of its own, and says more.

Units, and how often something was read, would say how much there is that a caller must not see: how many of a list are hidden, or
whether a video is hidden or absent. So they are for admins, and for owners where nothing but their own is read.
"""

import json
from collections.abc import Sequence
from urllib.parse import parse_qsl

from shared.core.errors import Forbidden
from shared.core.receipt import Line
from shared.routes import ROUTES, WRITE
from shared.web.answers import Answer
from shared.web.requests import Request

MOST_ENTRIES = 50
"""Requests to DynamoDB that an answer explains: API Gateway takes 10 KB of headers."""

_MIXED = frozenset({"batchVideos", "revertChangeset"})
FOR_OWNERS = frozenset(route.operation for route in ROUTES if route.scope == WRITE) - _MIXED | {
    *("listJobs", "whyNotReady", "listAudit", "listPlaylistAudit", "getDiff", "getViews", "explainViews"),
    *("listWebhooks", "getWebhook", "listDeliveries"),
}
"""Operations that work for nobody but the owner of what they read, and admins. A batch may name what is others', and a change
set may have it."""
LISTS = frozenset({"listVideos", "listPlaylists"})
"""Lists that read nothing but an owner's own, if they are asked for it."""
DOCUMENTS = frozenset({"getVideo", "getPlaylist", "getUser"})
"""Operations that read nothing but what they answer with, and who owns it."""


def header(lines: Sequence[Line], seconds: float, status: int, *, units: bool, explained: bool) -> str:
    """The header of an answer with this status, which took `seconds`; with the units, or explained, if the caller may see it."""
    whole = f"total;dur={seconds * 1000:.1f}"
    if explained:
        return ", ".join([whole, *_each(lines)])
    if status >= 400:
        return f"{whole}, ddb;dur={_milliseconds(lines)}"
    kinds: dict[tuple[str, str | None], list[Line]] = {}
    for line in lines:
        kinds.setdefault((line.operation, line.index), []).append(line)
    return ", ".join([whole, *(_entry(same, units=units) for same in kinds.values())])


def sees_units(request: Request) -> bool:
    """Whether the caller may see units and numbers, whatever the answer is."""
    operation, caller = request.route.operation, request.caller
    if caller.is_admin or operation in FOR_OWNERS:
        return True
    if operation not in LISTS:
        return False
    query = dict(parse_qsl(request.query))
    return (
        "region" not in query
        and query.get("userId", "" if operation == "listVideos" else caller.subject) == caller.subject
    )


def is_explained(request: Request) -> bool:
    """Whether the request asks for it. Raises Forbidden at once, before anything is changed, if it certainly may not."""
    if request.route.scope is None or "explain" not in request.query:
        return False
    if ("explain", "true") not in parse_qsl(request.query):
        return False
    if not sees_units(request) and request.route.operation not in DOCUMENTS:
        raise Forbidden("Only admins can have this explained; owners, what reads nothing but their own.")
    return True


def require_own(request: Request, answer: Answer) -> None:
    """Raise Forbidden unless what was read is the caller's own: by its userId, where the operation does not say so."""
    if not sees_units(request) and json.loads(answer.body or "{}").get("userId") != request.caller.subject:
        raise Forbidden("Only its owner, and admins, can have it explained; the answer must have its userId.")


def _each(lines: Sequence[Line]) -> list[str]:
    entries = [
        f"{_entry([line], units=True)};examined={line.examined or 0};retries={max(line.tries - 1, 0)};conflicts={line.conflicts}"
        for line in lines[:MOST_ENTRIES]
    ]
    rest = lines[MOST_ENTRIES:]
    if rest:
        entries.append(f'ddb;dur={_milliseconds(rest)};desc="{len(rest)} more"')
    return entries


def _entry(lines: Sequence[Line], *, units: bool) -> str:
    """One entry for requests of one kind: `ddb;dur=4.2;desc="Query RelationIndex x4 2"`."""
    words = [lines[0].operation, *([lines[0].index] if lines[0].index else [])]
    counted = [line.units for line in lines if line.units is not None]
    if units and len(lines) > 1:
        words.append(f"x{len(lines)}")
    if units and counted:
        words.append(f"{sum(counted):g}")
    return f'ddb;dur={_milliseconds(lines)};desc="{" ".join(words)}"'


def _milliseconds(lines: Sequence[Line]) -> str:
    """From the first request until the last answer: some are made side by side."""
    if not lines:
        return "0.0"
    begun, ended = min(line.started for line in lines), max(line.started + line.seconds for line in lines)
    return f"{(ended - begun) * 1000:.1f}"
