"""HTTP API of precomputed totals: of a user, of folders and tags, of the most viewed videos, and of the service."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from shared.aws.dynamodb import Table
from shared.aws.runtime import EntryPoint, Resources
from shared.background.totals import TotalsStore, user_document
from shared.core.errors import Forbidden, NotFound
from shared.core.settings import Settings
from shared.queries import GetFolder, ListFolders, ListTags, ListTop
from shared.videos.access import STRANGER
from shared.videos.documents import summary
from shared.videos.links import Links
from shared.videos.store import VideoStore
from shared.views.top import ALL, RankedVideo, TopStore
from shared.web.cursors import Cursors
from shared.web.http import http_function, operation
from shared.web.paging import Paginator
from shared.web.parameters import folder_of, user_id_of
from shared.web.requests import Request
from shared.web.responses import HttpResponse, respond

if TYPE_CHECKING:
    from shared.background.operations import OperationsStore


class TotalsSettings(Settings):
    cursor_secret_arn: str
    media_bucket: str
    media_url: str
    queues: Mapping[str, str]
    """URLs of the queues, by name."""
    dead_letter_queues: Mapping[str, str]
    """URLs of the dead-letter queues, by name of the main queue."""


class TotalsHandlers:
    """Handlers of the operations on totals. One instance serves all requests, so its attributes contain no data of a
    single request."""

    def __init__(self, settings: TotalsSettings, resources: Resources) -> None:
        table = resources.table(settings.table_name)
        self.store = TotalsStore(table)
        self.top_lists = TopStore(table)
        self.videos = VideoStore(table)
        self.pages = Paginator(Cursors(resources.secret(settings.cursor_secret_arn)))
        self.links = Links(settings.media_bucket, settings.media_url)
        self._new_operations = partial(self._operations_store, table, settings, resources)

    @operation("listTags")
    def tags(self, request: Request) -> HttpResponse:
        """GET /v1/tags"""
        page_request = self.pages.request_page(request, request.parameters(ListTags), "tags")
        return page_request.respond(*self.store.tags(page_request.limit, page_request.after))

    @operation("listFolders")
    def folders(self, request: Request) -> HttpResponse:
        """GET /v1/folders"""
        return self._folder_page(request, request.parameters(ListFolders), "")

    @operation("getFolder")
    def folder(self, request: Request) -> HttpResponse:
        """GET /v1/folders/{folder}"""
        # The gateway decodes all percent-encoded characters except `%25`.
        path = folder_of("folder", request.path["folder"].replace("%25", "%"))
        return self._folder_page(request, request.parameters(GetFolder), path)

    def _folder_page(self, request: Request, query: ListFolders, path: str) -> HttpResponse:
        """Return the response with a page of the folders in a folder, or of the outermost folders if `path` is
        empty."""
        owner = query.user_id or request.caller.subject
        page_request = self.pages.request_page(request, query, "folders", owner, path)
        if not request.caller.owns(owner):
            raise Forbidden("You are not this user. Omit userId to read your own folders.")
        page = self.store.folders(owner, path, page_request.limit, page_request.after)
        about = self.store.folder(owner, path).document() if path else {}
        return page_request.respond([folder.document() for folder in page.items], page.resume, about)

    @operation("getUser")
    def user(self, request: Request) -> HttpResponse:
        """GET /v1/users/{userId}"""
        user_id = user_id_of("userId", _user_id(request))
        if not request.caller.owns(user_id):
            raise Forbidden("You do not own these totals. Send your own userId.")
        counted = self.store.user(user_id)
        # The gateway reads `/v1/users/a/b` as the user `a/b`. The path is valid only if this user exists or is the caller.
        if counted is None and "/" in user_id and user_id != request.caller.subject:
            raise NotFound("The path does not exist. GET /openapi.json lists all operations.")
        return respond(200, user_document(user_id, counted or {}))

    @operation("getOperations")
    def operations(self, request: Request) -> HttpResponse:
        """GET /v1/operations"""
        return respond(200, self._new_operations().read(request.now))

    @staticmethod
    def _operations_store(table: Table, settings: TotalsSettings, resources: Resources) -> "OperationsStore":
        """Return the reader of the state of the service. Loads botocore, which other operations do not need."""
        from shared.background.operations import OperationsStore

        urls = (settings.queues, settings.dead_letter_queues)
        return OperationsStore(table, *({name: resources.queue(url) for name, url in each.items()} for each in urls))

    @operation("listTop")
    def top(self, request: Request) -> HttpResponse:
        """GET /v1/top"""
        query = request.parameters(ListTop)
        top = self.top_lists.read(query.window, query.category or ALL, request.now)
        items: list[dict[str, Any]] = []
        remaining = top.by(query.sort) if top else []
        # Videos that are no longer published are skipped, and the next ones in the list are added.
        while remaining and len(items) < query.limit:
            missing = query.limit - len(items)
            items += self._to_documents(remaining[:missing], query.category, request.now)
            remaining = remaining[missing:]
        stamp = {"from": top and top.start, "computedAt": top and top.computed_at}
        return respond(200, {"window": query.window, "category": query.category, **stamp, "items": items})

    def _to_documents(self, ranked: Sequence[RankedVideo], category: str | None, now: int) -> Iterator[dict[str, Any]]:
        """Yield the summaries of the ranked videos that are public now. If `category` is given, omits videos that are
        not in this category now."""
        videos = self.videos.summaries([video.video_id for video in ranked], STRANGER, now)
        for entry, video in zip(ranked, videos, strict=True):
            if video is not None and category in (None, video.get("category")):
                yield self.links.to_urls(summary(video)) | {
                    "views": entry.views,
                    "viewsBefore": entry.before,
                    "rise": entry.rise,
                    "viewCount": entry.total,
                }


def _user_id(request: Request) -> str:
    """Return the userId in the path, fully decoded. API Gateway decodes all percent-encoded characters except `%25`."""
    sent = request.path["userId"]
    return sent if sent == request.caller.subject else sent.replace("%25", "%")


lambda_handler = EntryPoint(TotalsSettings, http_function(TotalsHandlers), preload=("nacl.secret",))
