"""What was counted beforehand: how much a user has, how often tags are used, and what is viewed most."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from shared.aws.dynamodb import Table, make_client
from shared.core.errors import Forbidden, NotFound
from shared.core.settings import LambdaHandler, cursor_secret_arn, entry_point, media_bucket, media_url, table_name
from shared.queries import ListTop
from shared.upkeep.totals import TotalsStore, user_document
from shared.videos.access import STRANGER
from shared.videos.catalogue import VideoStore
from shared.videos.documents import summary
from shared.videos.links import Links
from shared.views.top import ALL, Ranked, TopStore
from shared.web.answers import Answer, respond
from shared.web.cursors import Cursors, secret_reader
from shared.web.http import Handler
from shared.web.http import make_handler as make_http_handler
from shared.web.paging import Paged, Pages
from shared.web.parameters import user_id_of
from shared.web.requests import Request


class Totals:
    """The handlers, one for each operation."""

    def __init__(self, store: TotalsStore, pages: Pages, links: Links) -> None:
        self.store = store
        self.top_lists = TopStore(store.table)
        self.videos = VideoStore(store.table)
        self.pages = pages
        self.links = links

    def handlers(self) -> dict[str, Handler]:
        """The handlers by operation."""
        return {
            "listTags": self.tags,
            "getUser": self.user,
            "listTop": self.top,
        }

    def tags(self, request: Request) -> Answer:
        """GET /v1/tags"""
        asked = self.pages.asked(request, request.parameters(Paged), "tags")
        return asked.answer(*self.store.tags(asked.limit, asked.after))

    def user(self, request: Request) -> Answer:
        """GET /v1/users/{userId}"""
        user_id = user_id_of("userId", _user_id(request))
        if not request.caller.owns(user_id):
            raise Forbidden("The totals are somebody else's.")
        counted = self.store.user(user_id)
        # The gateway takes `/v1/users/a/b` for the user `a/b`: only what the service knows of tells the two apart.
        if counted is None and "/" in user_id and user_id != request.caller.subject:
            raise NotFound("There is nothing at this path: no user with this id has had anything.")
        return respond(200, user_document(user_id, counted or {}))

    def top(self, request: Request) -> Answer:
        """GET /v1/top"""
        query = request.parameters(ListTop)
        top = self.top_lists.read(query.window, query.category or ALL, request.now)
        items: list[dict[str, Any]] = []
        left = top.by(query.sort) if top else []
        # Those that are not published any more are left out, and the next ones take their places.
        while left and len(items) < query.limit:
            wanted = query.limit - len(items)
            items += self._shown(left[:wanted], query.category, request.now)
            left = left[wanted:]
        stamp = {"from": top and top.start, "computedAt": top and top.computed_at}
        return respond(200, {"window": query.window, "category": query.category, **stamp, "items": items})

    def _shown(self, ranked: Sequence[Ranked], category: str | None, now: int) -> Iterator[dict[str, Any]]:
        """What is shown of these videos, of those that everybody sees in the category."""
        videos = self.videos.summaries([video.video_id for video in ranked], STRANGER, now)
        for place, video in zip(ranked, videos, strict=True):
            if video is not None and category in (None, video.get("category")):
                yield self.links.shown(summary(video)) | {
                    "views": place.views,
                    "viewsBefore": place.before,
                    "rise": place.rise,
                    "viewCount": place.total,
                }


def _user_id(request: Request) -> str:
    """The userId of the path. The gateway decodes every escape but `%25`, which stands for a percent sign."""
    sent = request.path["userId"]
    return sent if sent == request.caller.subject else sent.replace("%25", "%")


def make(store: TotalsStore, cursors: Cursors, links: Links, clock: Callable[[], float] = time.time) -> LambdaHandler:
    """The handler over a store; `clock` gives epoch seconds."""
    return make_http_handler("totals", Totals(store, Pages(cursors), links).handlers(), clock)


def _deployed() -> LambdaHandler:
    store = TotalsStore(Table(table_name(), make_client()))
    return make(store, Cursors(secret_reader(cursor_secret_arn())), Links(media_bucket(), media_url()))


lambda_handler = entry_point(_deployed, "nacl.secret")
