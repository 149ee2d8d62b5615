"""View counts. Of all functions, this one's role alone may write counters."""

import time
from collections.abc import Callable

from shared.aws.dynamodb import Table, make_client
from shared.core.settings import LambdaHandler, entry_point, table_name
from shared.core.telemetry import emit
from shared.views.store import ViewStore
from shared.web.answers import Answer, respond
from shared.web.http import Handler
from shared.web.http import make_handler as make_http_handler
from shared.web.requests import Request


class Views:
    """The handlers, one for each operation."""

    def __init__(self, store: ViewStore) -> None:
        self.store = store

    def handlers(self) -> dict[str, Handler]:
        """The handlers by operation."""
        return {"countView": self.count}

    def count(self, request: Request) -> Answer:
        """POST /v1/videos/{videoId}/views"""
        request.require_no_content()
        video_id = request.video_id()
        self.store.require_visible(video_id, request.caller, request.now)
        count = self.store.count(video_id, request.now)
        emit({"ViewsCounted": 1})
        return respond(200, {"videoId": video_id, "viewCount": count})


def make(store: ViewStore, clock: Callable[[], float] = time.time) -> LambdaHandler:
    """The handler over a store; `clock` gives epoch seconds."""
    return make_http_handler("views", Views(store).handlers(), clock)


def _deployed() -> LambdaHandler:
    return make(ViewStore(Table(table_name(), make_client())))


lambda_handler = entry_point(_deployed, "shared.web.bodies")
