"""Pagination: the page that a request selects, and the cursor of the next page.

Every list has the parameters `limit` and `cursor`. The response is `{"items": [...], "nextCursor": ...}` with a Link
header (RFC 8288). A cursor is valid only for the same caller and the same list. The parameters that determine the order
of the items must have the same values as in the previous request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from shared.core.caller import Caller
from shared.core.position import Position
from shared.web.cursors import LIFETIME_SECONDS, LONGEST, Cursors
from shared.web.parameters import Integer, Query, Text
from shared.web.requests import Request
from shared.web.responses import HttpResponse, respond

LONGEST_PAGE = 100
"""Maximum number of items on a page."""


class Paged(Query):
    """Query parameters of every paginated list."""

    limit = Integer("limit", "Maximum number of items on a page", 1, LONGEST_PAGE, default=25)
    cursor = Text(
        "cursor",
        f"`nextCursor` of the previous page, with the same query; valid for {LIFETIME_SECONDS // 3600} hours",
        LONGEST,
    )


@dataclass(frozen=True)
class PageRequest:
    """Page that a request selects: its maximum number of items, and the position after which it starts."""

    limit: int
    after: Position | None
    """Position of the last item of the previous page; `None` for the first page."""
    _pages: "Paginator"
    _request: Request
    _listing: tuple[object, ...]

    def respond(
        self, items: Sequence[dict[str, Any]], resume: Position | None, about: Mapping[str, Any] | None = None
    ) -> HttpResponse:
        """Return the response with the items of the page, its `nextCursor` and the Link header.

        `resume` is the position after which the next page begins; `None` on the last page. `about` has additional
        fields for the response.
        """
        cursor = self._pages.cursor(self._request.caller, self._request.now, resume, *self._listing)
        headers = {} if cursor is None else link_to_next(self._request, "cursor", cursor)
        return respond(200, {**(about or {}), "items": items, "nextCursor": cursor}, headers=headers)


class Paginator:
    """Reader and writer of the cursors of lists.

    The arguments `listing` identify a list: its name, and the values of all parameters that determine the order of its
    items. A cursor is valid only with the same values. Callers omit from `listing` the parameters that clients may
    change between pages, such as `limit` and `fields`.
    """

    def __init__(self, cursors: Cursors) -> None:
        self._cursors = cursors

    def request_page(self, request: Request, query: Paged, *listing: object) -> PageRequest:
        """Return the page that a request selects. Raises InvalidCursor."""
        bound = cursor_scope(request.caller, *listing)
        after = None if query.cursor is None else self._cursors.open(bound, query.cursor, request.now)
        return PageRequest(query.limit, after, self, request, listing)

    def cursor(self, caller: Caller, now: int, resume: Position | None, *listing: object) -> str | None:
        """Return the cursor of the page after the position `resume`, for this caller. `None` if `resume` is `None`."""
        return self._cursors.seal(cursor_scope(caller, *listing), resume, now) if resume else None


def link_to_next(request: Request, parameter: str, cursor: str) -> dict[str, str]:
    """Return the Link header (RFC 8288) with the URL of the next page.

    `parameter` is the name of the query parameter for the cursor.
    """
    pairs = [(name, value) for name, value in parse_qsl(request.query) if name != parameter]
    # Relative to the request's own URL.
    return {"Link": f'<?{urlencode([*pairs, (parameter, cursor)])}>; rel="next"'}


def cursor_scope(caller: Caller, name: object, *decisive: object) -> str:
    """Return the text that identifies a list and its caller. A cursor is valid only for the same text.

    The text includes the caller, because callers see different items of the same list.
    """
    return repr((name, caller.subject, caller.is_admin, *decisive))
