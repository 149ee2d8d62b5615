"""Views: counts them, and says what was counted when. Of all functions, this one's role alone may count a view at once."""

import time
from collections.abc import Callable

from shared.aws.dynamodb import Table, make_client
from shared.core.deadline import within
from shared.core.settings import LambdaHandler, count_own_views, entry_point, table_name, view_window_seconds
from shared.core.telemetry import emit
from shared.views.store import View, ViewStore, require_timely
from shared.web.answers import Answer, respond
from shared.web.http import Handler
from shared.web.http import make_handler as make_http_handler
from shared.web.requests import JSON, Request


class Views:
    """The handlers, one for each operation."""

    def __init__(self, store: ViewStore, elapsed: Callable[[], float]) -> None:
        self.store = store
        self.elapsed = elapsed

    def handlers(self) -> dict[str, Handler]:
        """The handlers by operation."""
        return {
            "countView": self.count,
            "countViews": self.count_queued,
            "getViews": self.read,
            "explainViews": self.explain,
        }

    def count(self, request: Request) -> Answer:
        """POST /v1/videos/{videoId}/views"""
        video_id, key = request.video_id(), request.idempotency_key()
        view = View(video_id, request.now, id=key)
        if request.body:
            from shared.views.models import NewView  # pydantic, which a view without content does not need

            sent = NewView.parse(request.content(JSON))
            at = request.now if sent.at is None else sent.at
            require_timely(at, request.now)
            view = View(video_id, at, sent.viewerId, key, watched=sent.watchedMs or 0)
        told = self.store.count(view, request.caller, request.now)
        if told["counted"]:
            emit({"ViewsCounted": 1})
        return respond(200, {"videoId": video_id, **told})

    def count_queued(self, request: Request) -> Answer:
        """POST /v1/views"""
        from shared.views.batches import LONGEST_SECONDS, count_all
        from shared.views.models import QueuedViews

        views = QueuedViews.parse(request.content(JSON)).views
        with within(LONGEST_SECONDS, self.elapsed):
            results = count_all(self.store, views, request.caller, request.now)
        if counted := sum(result.get("counted", False) for result in results):
            emit({"ViewsCounted": counted})
        return respond(200, {"results": results})

    def read(self, request: Request) -> Answer:
        """GET /v1/videos/{videoId}/views"""
        from shared.queries import GetViews
        from shared.views.history import Buckets, History

        video_id, query = request.video_id(), request.parameters(GetViews)
        buckets = Buckets.of(query.granularity, query.tz, query.start, query.end, request.now)
        return respond(200, History(self.store.table).views(video_id, request.caller, request.now, buckets))

    def explain(self, request: Request) -> Answer:
        """GET /v1/videos/{videoId}/views/explain"""
        from shared.views.history import History

        explained = History(self.store.table).explain(
            request.video_id(), request.caller, request.now, self.store.window
        )
        return respond(200, explained)


def make(
    store: ViewStore, clock: Callable[[], float] = time.time, elapsed: Callable[[], float] = time.monotonic
) -> LambdaHandler:
    """The handler over a store; `clock` gives epoch seconds, `elapsed` seconds that only go forward."""
    return make_http_handler("views", Views(store, elapsed).handlers(), clock)


def _deployed() -> LambdaHandler:
    table = Table(table_name(), make_client())
    return make(ViewStore(table, view_window_seconds(), counts_own=count_own_views()))


lambda_handler = entry_point(_deployed, "shared.views.batches", "shared.queries", "shared.views.history")
