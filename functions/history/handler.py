"""The audit trail's reader: a video's history, for its owner and admins."""

import time
from collections.abc import Callable

from shared.audit import AuditStore, document
from shared.aws.dynamodb import Table, make_client
from shared.core.settings import LambdaHandler, audit_table_name, cursor_secret_arn, entry_point, table_name
from shared.queries import ListAudit
from shared.schema import VIDEO
from shared.videos.access import VISIBILITY_ATTRIBUTES, owned_by
from shared.web.answers import Answer
from shared.web.cursors import Cursors, secret_reader
from shared.web.http import Handler
from shared.web.http import make_handler as make_http_handler
from shared.web.paging import Pages
from shared.web.parameters import period
from shared.web.requests import Request


class History:
    """The handlers, one for each operation."""

    def __init__(self, videos: Table, store: AuditStore, pages: Pages) -> None:
        self.videos = videos
        self.store = store
        self.pages = pages

    def handlers(self) -> dict[str, Handler]:
        """The handlers by operation."""
        return {"listAudit": self.list}

    def list(self, request: Request) -> Answer:
        """GET /v1/videos/{videoId}/audit"""
        video_id, caller = request.video_id(), request.caller
        query = request.parameters(ListAudit)
        start, end = period(query.start, query.end)
        asked = self.pages.asked(request, query, "audit", video_id, start, end, query.ascending)
        # An admin needs no video: what became of one that is gone is what a history is asked for.
        if not caller.is_admin:
            item = self.videos.get(VIDEO.key(videoId=video_id), attributes=VISIBILITY_ATTRIBUTES)
            owned_by(item, caller, request.now)

        page = self.store.of_video(
            video_id,
            request.now,
            owner=None if caller.is_admin else caller.subject,
            start=start * 1000,
            end=end * 1000,
            ascending=query.ascending,
            limit=asked.limit,
            after=asked.after,
        )
        return asked.answer([document(entry) for entry in page.items], page.resume)


def make(videos: Table, store: AuditStore, cursors: Cursors, clock: Callable[[], float] = time.time) -> LambdaHandler:
    """The handler over the table of videos and a store of entries; `clock` gives epoch seconds."""
    return make_http_handler("history", History(videos, store, Pages(cursors)).handlers(), clock)


def _deployed() -> LambdaHandler:
    client = make_client()
    return make(
        Table(table_name(), client),
        AuditStore(Table(audit_table_name(), client)),
        Cursors(secret_reader(cursor_secret_arn())),
    )


lambda_handler = entry_point(_deployed, "nacl.secret")
