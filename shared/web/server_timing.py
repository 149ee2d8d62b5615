"""Server-Timing header: the duration of an HTTP request, and the DynamoDB requests that were sent for it.

Browsers show the header in their network panel. Its entry `total` has the duration of the HTTP request, and its entries
`ddb` describe DynamoDB requests. `dur` is in milliseconds. The `desc` of a `ddb` entry is the DynamoDB operation and
the index. With `?explain=true`, each DynamoDB request has a separate, more detailed entry.

Consumed units and request counts could reveal the number of hidden items in a list, or the existence of a hidden video.
Therefore callers other than admins receive them only if the operation reads only the caller's own items.

https://www.w3.org/TR/server-timing/
"""

import json
from collections.abc import Sequence
from urllib.parse import parse_qsl

from shared.core.errors import Forbidden
from shared.core.request_usage import RequestUsage
from shared.routes import ROUTES, WRITE
from shared.web.requests import Request
from shared.web.responses import HttpResponse

MAX_ENTRIES = 50
"""Maximum number of DynamoDB requests for which the header has a separate entry. API Gateway limits all headers to 10
KB."""

_MIXED = frozenset({"batchVideos", "revertChangeset"})
FOR_OWNERS = frozenset(route.operation for route in ROUTES if route.scope == WRITE) - _MIXED | {
    *("listJobs", "whyNotReady", "listAudit", "listPlaylistAudit", "getDiff", "getViews", "explainViews"),
    *("listWebhooks", "getWebhook", "listDeliveries"),
}
"""Names of operations that read only items of the caller, unless an admin calls them. Batches and change sets are
excluded, because they may contain items of other users."""
LISTS = frozenset({"listVideos", "listPlaylists"})
"""Names of the list operations that read only the caller's items if the parameter `userId` is the caller's id."""
DOCUMENTS = frozenset({"getVideo", "getPlaylist", "getUser"})
"""Names of operations that read only the item that they return. The item's owner (`userId`) may see the consumed
units."""


def header(lines: Sequence[RequestUsage], seconds: float, status: int, *, units: bool, explained: bool) -> str:
    """Return the value of the header for a response that took `seconds`.

    `units` adds the consumed units and request counts. `explained` adds a separate entry for each DynamoDB request.
    Without `explained`, an error response (`status` 400 or higher) has one entry for all DynamoDB requests, without
    units.
    """
    whole = f"total;dur={seconds * 1000:.1f}"
    if explained:
        return ", ".join([whole, *_each(lines)])
    if status >= 400:
        return f"{whole}, ddb;dur={_milliseconds(lines)}"
    kinds: dict[tuple[str, str | None], list[RequestUsage]] = {}
    for line in lines:
        kinds.setdefault((line.operation, line.index), []).append(line)
    return ", ".join([whole, *(_entry(same, units=units) for same in kinds.values())])


def may_see_units(request: Request) -> bool:
    """Return whether the caller may see consumed units and request counts, judged by the request alone.

    If the result is `False`, the caller may still see them if the returned item permits it (see DOCUMENTS).
    """
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
    """Return whether the query has `explain=true`.

    Raises Forbidden if the caller may not see the consumed units. For operations in DOCUMENTS, the permission depends
    on the returned item, so this function does not raise.
    """
    if request.route.scope is None or "explain" not in request.query:
        return False
    if ("explain", "true") not in parse_qsl(request.query):
        return False
    if not may_see_units(request) and request.route.operation not in DOCUMENTS:
        raise Forbidden("Only admins may use explain here. Owners may use it to read only their own items.")
    return True


def require_own(request: Request, response: HttpResponse) -> None:
    """Raise Forbidden if the caller may not see the units that were consumed for this response.

    The owner of the returned document (`userId`) may see the units. Callers for which `may_see_units` is true may also
    see them.
    """
    if not may_see_units(request) and json.loads(response.body or "{}").get("userId") != request.caller.subject:
        raise Forbidden("Only the owner and admins may use explain. The requested fields must include userId.")


def _each(lines: Sequence[RequestUsage]) -> list[str]:
    entries = [
        f"{_entry([line], units=True)};examined={line.examined or 0};retries={max(line.attempts - 1, 0)};conflicts={line.conflicts}"
        for line in lines[:MAX_ENTRIES]
    ]
    rest = lines[MAX_ENTRIES:]
    if rest:
        entries.append(f'ddb;dur={_milliseconds(rest)};desc="{len(rest)} more"')
    return entries


def _entry(lines: Sequence[RequestUsage], *, units: bool) -> str:
    """Return one entry of the header. An entry describes DynamoDB requests with the same operation and index.

    Example of four requests that consumed 2 units: `ddb;dur=4.2;desc="Query RelationIndex x4 2"`.
    """
    words = [lines[0].operation, *([lines[0].index] if lines[0].index else [])]
    counted = [line.units for line in lines if line.units is not None]
    if units and len(lines) > 1:
        words.append(f"x{len(lines)}")
    if units and counted:
        words.append(f"{sum(counted):g}")
    return f'ddb;dur={_milliseconds(lines)};desc="{" ".join(words)}"'


def _milliseconds(lines: Sequence[RequestUsage]) -> str:
    """Return the milliseconds from the first request to the last response.

    Durations are not added, because requests overlap.
    """
    if not lines:
        return "0.0"
    begun, ended = min(line.started for line in lines), max(line.started + line.seconds for line in lines)
    return f"{(ended - begun) * 1000:.1f}"
