"""Pages of lists: where one begins, how long it is, and the cursor that leads on from it.

Every list takes `limit` and `cursor`, and is answered as `{"items": [...], "nextCursor": ...}` with a Link header
(RFC 8288). A cursor is good for one list of one caller: it is bound to all that decides which items stand where.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from shared.core.caller import Caller
from shared.core.position import Position
from shared.web.answers import Answer, respond
from shared.web.cursors import LIFETIME_SECONDS, LONGEST, Cursors
from shared.web.parameters import Integer, Query, Text
from shared.web.requests import Request

LONGEST_PAGE = 100
"""Items."""


class Paged(Query):
    """The query of a list."""

    limit = Integer("limit", "The largest number of items on a page", 1, LONGEST_PAGE, default=25)
    cursor = Text(
        "cursor",
        f"`nextCursor` of the previous page, with the same query; valid for {LIFETIME_SECONDS // 3600} hours",
        LONGEST,
    )


@dataclass(frozen=True)
class AskedPage:
    """The page that a request asks for: where it begins, and how long it is at most."""

    limit: int
    after: Position | None
    """Where the page before ended; None: the page is the first one."""
    _pages: "Pages"
    _request: Request
    _listing: tuple[object, ...]

    def answer(
        self, items: Sequence[dict[str, Any]], resume: Position | None, about: Mapping[str, Any] | None = None
    ) -> Answer:
        """The page, and where the next one is; `resume` is None on the last page. `about` is what stands beside the items."""
        cursor = self._pages.cursor(self._request.caller, self._request.now, resume, *self._listing)
        headers = {} if cursor is None else link_to_next(self._request, "cursor", cursor)
        return respond(200, {**(about or {}), "items": items, "nextCursor": cursor}, headers=headers)


class Pages:
    """The pages of lists. `listing` is a list's name, and all that decides besides the caller which items stand where.

    What does not is left out of it: a list can be read on with another `limit`, or with other fields of its items.
    """

    def __init__(self, cursors: Cursors) -> None:
        self._cursors = cursors

    def asked(self, request: Request, query: Paged, *listing: object) -> AskedPage:
        """The page that is asked for; raises InvalidCursor."""
        bound = bound_to(request.caller, *listing)
        after = None if query.cursor is None else self._cursors.open(bound, query.cursor, request.now)
        return AskedPage(query.limit, after, self, request, listing)

    def cursor(self, caller: Caller, now: int, resume: Position | None, *listing: object) -> str | None:
        """The cursor with which a caller reads a list on from a position (exclusive); None when nothing is left."""
        return self._cursors.seal(bound_to(caller, *listing), resume, now) if resume else None


def link_to_next(request: Request, parameter: str, cursor: str) -> dict[str, str]:
    """The header that leads to the next page by the parameter that takes its cursor (RFC 8288)."""
    pairs = [(name, value) for name, value in parse_qsl(request.query) if name != parameter]
    # Relative to the request's own URL.
    return {"Link": f'<?{urlencode([*pairs, (parameter, cursor)])}>; rel="next"'}


def bound_to(caller: Caller, name: object, *decisive: object) -> str:
    """What a cursor is bound to: the list, and the caller, on whom depends what the list shows."""
    return repr((name, caller.subject, caller.is_admin, *decisive))
