"""Ratings: one of each user for a video, and their totals."""

import time
from collections.abc import Callable

from shared.aws.dynamodb import Table, make_client
from shared.core.settings import LambdaHandler, entry_point, table_name
from shared.relations.ratings import Choice, RatingStore
from shared.web.answers import Answer, no_content, respond
from shared.web.http import Handler
from shared.web.http import make_handler as make_http_handler
from shared.web.requests import JSON, Request


class Ratings:
    """The handlers, one for each operation."""

    def __init__(self, store: RatingStore) -> None:
        self.store = store

    def handlers(self) -> dict[str, Handler]:
        """The handlers by operation."""
        return {
            "getRating": self.read,
            "putRating": self.rate,
            "deleteRating": self.take_back,
        }

    def read(self, request: Request) -> Answer:
        """GET /v1/videos/{videoId}/rating"""
        return respond(200, self.store.read(request.video_id(), request.caller, request.now))

    def rate(self, request: Request) -> Answer:
        """PUT /v1/videos/{videoId}/rating"""
        from shared.relations.models import RatingContent

        video_id = request.video_id()
        content = RatingContent.parse(request.content(JSON))
        choice = Choice.liked(content.like is True) if content.value is None else Choice(content.value)
        return respond(200, self.store.rate(video_id, request.caller, choice, request.now))

    def take_back(self, request: Request) -> Answer:
        """DELETE /v1/videos/{videoId}/rating"""
        self.store.take_back(request.video_id(), request.caller, request.now)
        return no_content()


def make(store: RatingStore, clock: Callable[[], float] = time.time) -> LambdaHandler:
    """The handler over a store; `clock` gives epoch seconds."""
    return make_http_handler("ratings", Ratings(store).handlers(), clock)


def _deployed() -> LambdaHandler:
    return make(RatingStore(Table(table_name(), make_client())))


lambda_handler = entry_point(_deployed, "shared.relations.models")
