"""HTTP API of views: counts views, and returns view counts. No other API function has a role that permits counting views."""

from shared.aws.runtime import EntryPoint, Resources
from shared.core.deadline import limit_time
from shared.core.settings import Settings
from shared.core.telemetry import emit_views
from shared.views.queries import GetViews
from shared.views.store import View, ViewStore, require_timely
from shared.web.http import http_function, operation
from shared.web.requests import JSON, Request
from shared.web.responses import HttpResponse, respond


class ViewsSettings(Settings):
    view_window_seconds: int
    """Interval in seconds within which repeated views of a video by one viewer count once."""
    count_own_views: bool
    """Whether a view is counted if the viewer owns the video."""


class ViewHandlers:
    """Handlers of the operations on views. One instance serves all requests, so its attributes contain no data of a
    single request."""

    def __init__(self, settings: ViewsSettings, resources: Resources) -> None:
        table = resources.table(settings.table_name)
        self.store = ViewStore(table, settings.view_window_seconds, counts_own=settings.count_own_views)
        self.elapsed = resources.elapsed

    @operation("countView")
    def count(self, request: Request) -> HttpResponse:
        """POST /v1/videos/{videoId}/views"""
        video_id, key = request.video_id(), request.idempotency_key()
        view = View(video_id, request.now, id=key)
        if request.body:
            from shared.views.prebuilt import NewView  # imports pydantic_core, which views without a body do not need

            sent = NewView.parse(request.content(JSON))
            at = request.now if sent.at is None else sent.at
            require_timely(at, request.now)
            view = View(video_id, at, sent.viewerId, key, watched=sent.watchedMs or 0)
        result = self.store.count(view, request.caller, request.now)
        if result["counted"]:
            emit_views(1)
        return respond(200, {"videoId": video_id, **result})

    @operation("countViews")
    def count_queued(self, request: Request) -> HttpResponse:
        """POST /v1/views"""
        from shared.views.batches import LONGEST_SECONDS, count_all
        from shared.views.models import QueuedViews

        views = QueuedViews.parse(request.content(JSON)).views
        with limit_time(LONGEST_SECONDS, self.elapsed):
            results = count_all(self.store, views, request.caller, request.now)
        if counted := sum(result.get("counted", False) for result in results):
            emit_views(counted)
        return respond(200, {"results": results})

    @operation("getViews")
    def read(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}/views"""
        from shared.views.history import Buckets, ViewHistory

        video_id, query = request.video_id(), request.parameters(GetViews)
        buckets = Buckets.of(query.granularity, query.tz, query.start, query.end, request.now)
        return respond(200, ViewHistory(self.store.table).views(video_id, request.caller, request.now, buckets))

    @operation("explainViews")
    def explain(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}/views/explain"""
        from shared.views.history import ViewHistory

        explained = ViewHistory(self.store.table).explain(
            request.video_id(), request.caller, request.now, self.store.window
        )
        return respond(200, explained)


lambda_handler = EntryPoint(
    ViewsSettings,
    http_function(ViewHandlers),
    preload=("shared.views.batches", "shared.views.prebuilt", "shared.views.history"),
)
