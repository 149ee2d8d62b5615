"""The catalogue: create, read, list, change, delete and restore videos."""

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from shared import video
from shared.catalogue import Filters, VideoStore, Window
from shared.cursors import LONGEST, Cursors, secret_reader
from shared.dynamodb import Table, make_client
from shared.errors import Forbidden, InvalidParameter, UnservedQuery
from shared.http import JSON, MERGE_PATCH, Answer, Handler, Request, next_link, no_content, respond
from shared.http import make_handler as make_http_handler
from shared.links import Links
from shared.models import LARGEST_INTEGER, NewVideo, NoContent, VideoPatch, parse
from shared.pages import Page
from shared.settings import LambdaHandler, cursor_secret_arn, entry_point, media_bucket, media_url, table_name

LIST_PARAMETERS = (
    "userId",
    "category",
    "status",
    "format",
    "minDuration",
    "maxDuration",
    "from",
    "to",
    "order",
    "limit",
    "cursor",
    "fields",
)


class Videos:
    """The handlers, one for each operation."""

    def __init__(self, store: VideoStore, cursors: Cursors, links: Links) -> None:
        self.store = store
        self.cursors = cursors
        self.links = links

    def handlers(self) -> dict[str, Handler]:
        """The handlers by operation."""
        return {
            "createVideo": self.create,
            "listVideos": self.list,
            "getVideo": self.read,
            "patchVideo": self.patch,
            "deleteVideo": self.delete,
            "restoreVideo": self.restore,
        }

    def create(self, request: Request) -> Answer:
        """POST /v1/videos"""
        sent = self.links.stored(parse(NewVideo, request.content(JSON)).model_dump(exclude_none=True))
        once = request.once(sent)
        own = {name: sent.pop(name, None) for name in ("videoId", "userId", "createdAt", "status")}
        if not request.caller.is_admin:
            own = dict.fromkeys(own)
        item = video.new_item(
            sent,
            video_id=own["videoId"] or str(uuid.uuid4()),
            owner=own["userId"] or request.caller.subject,
            created_at=request.now if own["createdAt"] is None else own["createdAt"],
            status=own["status"] or "uploaded",
            origin="import" if any(value is not None for value in own.values()) else "person",
        )
        document = self.store.create(item, request.caller, request.now, once)
        # Relative to /v1/videos, so that it holds behind a proxy that serves it below another path.
        return respond(
            201,
            self.links.shown(document),
            version=document["version"],
            headers={"Location": f"videos/{document['videoId']}"},
        )

    def read(self, request: Request) -> Answer:
        """GET /v1/videos/{videoId}"""
        fields = request.parameters("fields").names("fields", video.FIELDS)
        document, version = self.store.read(request.video_id(), request.caller, request.now, fields)
        return respond(200, self.links.shown(document), request=request, version=version)

    def patch(self, request: Request) -> Answer:
        """PATCH /v1/videos/{videoId}"""
        patch = self.links.stored(parse(VideoPatch, request.content(MERGE_PATCH, JSON)).model_dump(exclude_unset=True))
        document = self.store.change(
            request.video_id(),
            request.caller,
            request.now,
            lambda item: video.patched(item, patch),
            matches=request.matches,
        )
        return respond(200, self.links.shown(document), version=document["version"])

    def delete(self, request: Request) -> Answer:
        """DELETE /v1/videos/{videoId}"""
        self.store.change(
            request.video_id(),
            request.caller,
            request.now,
            lambda item: video.deleted(item, request.now),
            matches=request.matches,
        )
        return no_content()

    def restore(self, request: Request) -> Answer:
        """POST /v1/videos/{videoId}/restore"""
        if request.body:
            parse(NoContent, request.content(JSON))
        video_id = request.video_id()
        document = self.store.change(
            video_id,
            request.caller,
            request.now,
            video.restored,
            matches=request.matches,
            once=request.once(video_id),
        )
        return respond(200, self.links.shown(document), version=document["version"])

    def list(self, request: Request) -> Answer:
        """GET /v1/videos"""
        parameters = request.parameters(*LIST_PARAMETERS, unknown=_unserved)
        fields = parameters.names("fields", video.SUMMARY_FIELDS)
        limit = parameters.integer("limit", 1, 100) or 25
        ascending = parameters.choice("order", ("asc", "desc")) == "asc"
        start, end = parameters.period()
        owner, category = parameters.text("userId"), parameters.text("category", 100)
        filters = Filters(
            status=parameters.choice("status", video.STATUSES),
            category=category,
            format=parameters.text("format", 64),
            min_duration=parameters.integer("minDuration", 0, LARGEST_INTEGER),
            max_duration=parameters.integer("maxDuration", 0, LARGEST_INTEGER),
        )
        if (filters.min_duration or 0) > (LARGEST_INTEGER if filters.max_duration is None else filters.max_duration):
            raise InvalidParameter.named("minDuration", "must not be more than `maxDuration`")
        caller = request.caller
        # All that decides which videos stand where in the list, for the cursor to be bound to.
        query = repr((caller.subject, caller.is_admin, owner, filters, start, end, ascending))
        cursor = parameters.text("cursor", LONGEST)
        after = self.cursors.open(query, cursor, request.now) if cursor else None
        window = Window(start, end, ascending, limit, after, fields)

        page = self._page(request, owner, filters, window)
        next_cursor = self.cursors.seal(query, page.resume, request.now) if page.resume else None
        items = [self.links.shown(_picked(video.summary(item), fields)) for item in page.items]
        return respond(200, {"items": items, "nextCursor": next_cursor}, headers=next_link(request, next_cursor))

    def _page(self, request: Request, owner: str | None, filters: Filters, window: Window) -> Page:
        """The list that the selector names: an owner's, a category's, a status's, or else the feed."""
        if owner is not None:
            return self.store.of_owner(owner, request.caller, request.now, filters, window)
        published = replace(filters, status=None)
        if filters.category is not None and filters.status in (None, "ready"):
            return self.store.in_category(filters.category, request.now, replace(published, category=None), window)
        if filters.status is None:
            return self.store.feed(request.now, published, window)
        if not request.caller.is_admin:
            raise Forbidden("Listing by status is for admins; with userId you can list your own videos by status.")
        return self.store.in_status(filters.status, request.now, published, window)


def _unserved(name: str, _: str) -> UnservedQuery:
    selectors, filters = LIST_PARAMETERS[:3], LIST_PARAMETERS[1:6]
    return UnservedQuery(
        f"No index answers {name}. Select by one of {', '.join(selectors)} (admins), or by none for the feed, and by "
        f"from and to; filter by {', '.join(filters)}; besides these there are {', '.join(LIST_PARAMETERS[8:])}.",
        errors=[{"parameter": name, "detail": "no index answers this"}],
    )


def _picked(summary: dict[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    return {name: summary[name] for name in fields or summary if name in summary}


def make(store: VideoStore, cursors: Cursors, links: Links, clock: Callable[[], float] = time.time) -> LambdaHandler:
    """The handler over a store; `clock` gives epoch seconds."""
    return make_http_handler("videos", Videos(store, cursors, links).handlers(), clock)


def _deployed() -> LambdaHandler:
    store = VideoStore(Table(table_name(), make_client()))
    return make(store, Cursors(secret_reader(cursor_secret_arn())), Links(media_bucket(), media_url()))


lambda_handler = entry_point(_deployed)
