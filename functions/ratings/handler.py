"""HTTP API of the caller's ratings of videos. Responses include the totals of the video's ratings."""

from shared.aws.runtime import EntryPoint, Resources
from shared.core.settings import Settings
from shared.relations.ratings import RatingChoice, RatingStore
from shared.web.http import http_function, operation
from shared.web.requests import JSON, Request
from shared.web.responses import HttpResponse, no_content, respond


class RatingHandlers:
    """Handlers of the operations on ratings. One instance serves all requests, so its attributes contain no data of a
    single request."""

    def __init__(self, settings: Settings, resources: Resources) -> None:
        self.store = RatingStore(resources.table(settings.table_name))

    @operation("getRating")
    def read(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}/rating"""
        return respond(200, self.store.read(request.video_id(), request.caller, request.now))

    @operation("putRating")
    def rate(self, request: Request) -> HttpResponse:
        """PUT /v1/videos/{videoId}/rating"""
        from shared.relations.models import RatingContent

        video_id = request.video_id()
        content = RatingContent.parse(request.content(JSON))
        choice = RatingChoice.liked(content.like is True) if content.value is None else RatingChoice(content.value)
        return respond(200, self.store.rate(video_id, request.caller, choice, request.now))

    @operation("deleteRating")
    def take_back(self, request: Request) -> HttpResponse:
        """DELETE /v1/videos/{videoId}/rating"""
        self.store.delete(request.video_id(), request.caller, request.now)
        return no_content()


lambda_handler = EntryPoint(Settings, http_function(RatingHandlers), preload=("shared.relations.models",))
