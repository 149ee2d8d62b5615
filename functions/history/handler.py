"""The audit trail's reader: a video's history, for its owner and admins."""

import time
from collections.abc import Callable

from shared.audit import AuditStore, document
from shared.aws.dynamodb import Table, make_client
from shared.core.settings import LambdaHandler, audit_table_name, cursor_secret_arn, entry_point, table_name
from shared.schema import VIDEO
from shared.videos.access import VISIBILITY_ATTRIBUTES, owned_by
from shared.web.answers import Answer, next_link, respond
from shared.web.cursors import LONGEST, Cursors, secret_reader
from shared.web.http import Handler
from shared.web.http import make_handler as make_http_handler
from shared.web.requests import Request


class History:
    """The handlers, one for each operation."""

    def __init__(self, videos: Table, store: AuditStore, cursors: Cursors) -> None:
        self.videos = videos
        self.store = store
        self.cursors = cursors

    def handlers(self) -> dict[str, Handler]:
        """The handlers by operation."""
        return {"listAudit": self.list}

    def list(self, request: Request) -> Answer:
        """GET /v1/videos/{videoId}/audit"""
        video_id, caller = request.video_id(), request.caller
        parameters = request.parameters("from", "to", "order", "limit", "cursor")
        limit = parameters.integer("limit", 1, 100) or 25
        ascending = parameters.choice("order", ("asc", "desc")) == "asc"
        start, end = parameters.period()
        query = repr(("audit", caller.subject, caller.is_admin, video_id, start, end, ascending))
        cursor = parameters.text("cursor", LONGEST)
        after = self.cursors.open(query, cursor, request.now) if cursor else None
        # An admin needs no video: what became of one that is gone is what a history is asked for.
        if not caller.is_admin:
            found = self.videos.get(VIDEO.key(videoId=video_id), attributes=VISIBILITY_ATTRIBUTES)
            owned_by(found, caller, request.now)

        page = self.store.of_video(
            video_id,
            request.now,
            owner=None if caller.is_admin else caller.subject,
            start=start * 1000,
            end=end * 1000,
            ascending=ascending,
            limit=limit,
            after=after,
        )
        next_cursor = self.cursors.seal(query, page.resume, request.now) if page.resume else None
        items = [document(entry) for entry in page.items]
        return respond(200, {"items": items, "nextCursor": next_cursor}, headers=next_link(request, next_cursor))


def make(videos: Table, store: AuditStore, cursors: Cursors, clock: Callable[[], float] = time.time) -> LambdaHandler:
    """The handler over the table of videos and a store of entries; `clock` gives epoch seconds."""
    return make_http_handler("history", History(videos, store, cursors).handlers(), clock)


def _deployed() -> LambdaHandler:
    client = make_client()
    return make(
        Table(table_name(), client),
        AuditStore(Table(audit_table_name(), client)),
        Cursors(secret_reader(cursor_secret_arn())),
    )


lambda_handler = entry_point(_deployed)
