"""HTTP API of search: videos that match a query, and videos that are similar to a video."""

import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from shared.aws.runtime import EntryPoint, Resources, is_provisioned
from shared.core.caller import Caller
from shared.core.errors import InvalidCursor, InvalidParameter, Unavailable
from shared.core.position import Position
from shared.core.settings import Settings
from shared.feed.log import Feed, LogCursor, shard_logs
from shared.feed.reader import bound_to_changes, decode_position, end_cursors
from shared.queries import SearchVideos, SimilarVideos
from shared.search.document import IndexLimits
from shared.search.generations import Generations, PointerStore
from shared.search.loader import DocumentLoader
from shared.search.local_index import LocalIndex
from shared.search.query_parser import SearchQuery, parse
from shared.videos.links import Links
from shared.videos.store import VideoStore
from shared.web.cursors import Cursors
from shared.web.http import http_function, operation
from shared.web.paging import Paginator
from shared.web.parameters import period
from shared.web.requests import Request
from shared.web.responses import HttpResponse, respond

if TYPE_CHECKING:
    from shared.search.video_search import VideoSearch

ENGINE_MODULES = {
    "embedded": ("shared.search.consumer", "shared.search.tantivy_engine"),
    "opensearch": ("shared.search.opensearch_index",),
}
"""Names of the modules for the parameter `preload` of `EntryPoint`, by search engine."""


class SearchSettings(Settings):
    audit_table_name: str
    cursor_secret_arn: str
    media_bucket: str
    media_url: str
    caption_days: int
    """Number of days after a video's creation during which its captions are in the index. 0 sets no limit."""
    caption_cues: int
    """Maximum number of a video's cues in the index."""
    search_engine: str = "embedded"
    """`embedded`, or `opensearch` for the cluster at `opensearch_url`."""
    opensearch_url: str = ""
    opensearch_service: str = "es"
    """Name of the AWS service in request signatures: `es` for a managed domain, `aoss` for a serverless collection."""


class SearchHandlers:
    """Handlers of the search operations. One instance serves all requests, so its attributes contain no data of a
    single request."""

    def __init__(
        self,
        settings: SearchSettings,
        resources: Resources,
        new_local: Callable[..., LocalIndex] = LocalIndex,
    ) -> None:
        table, objects, bucket = resources.table(settings.table_name), resources.objects, settings.media_bucket
        self.feed = Feed(resources.table(settings.audit_table_name), resources.clock)
        if settings.search_engine == "opensearch":
            from shared.search.opensearch_index import SharedIndex

            pointers = PointerStore(table, resources.clock, engine="opensearch")
            self.index: LocalIndex | SharedIndex = SharedIndex.connect(
                pointers, self.feed, settings.opensearch_url, settings.opensearch_service
            )
        else:
            limits = IndexLimits(caption_days=settings.caption_days, caption_cues=settings.caption_cues)
            self.index = new_local(
                Generations(table, objects, bucket, resources.clock),
                self.feed,
                DocumentLoader(table, objects, bucket, limits, resources.clock),
            )
        self.videos = VideoStore(table)
        self.cursors = Cursors(resources.secret(settings.cursor_secret_arn))
        self.pages = Paginator(self.cursors)
        self.links = Links(bucket, settings.media_url)
        if is_provisioned():
            self._load_index()

    def _load_index(self) -> None:
        """Load the index before the first request. If that fails, the first request loads it."""
        with suppress(Unavailable):
            self._open_search()

    @operation("searchVideos")
    def search(self, request: Request) -> HttpResponse:
        """GET /v1/search"""
        query, caller = request.parameters(SearchVideos), request.caller
        period(query.start, query.end)
        search_query = SearchQuery() if query.q is None else parse(query.q)
        filters = (query.category, query.tag, query.user_id, query.language, query.start, query.end)
        page_request = self.pages.request_page(request, query, "search", query.q, *filters)
        cursors = (
            None if query.consistent_with is None else self._require_cursors(query.consistent_with, caller, request.now)
        )
        finding, freshness = self._open_search(cursors)

        from shared.search.index_query import SearchFilters

        results = finding.page(
            search_query,
            SearchFilters(*filters),
            caller,
            request.now,
            facets=query.facets,
            limit=page_request.limit,
            after=page_request.after,
            consistent=cursors is not None,
        )
        about = {"total": results.total, **({"facets": results.facets} if query.facets else {}), **freshness}
        return page_request.respond(results.items, results.resume, about)

    @operation("similarVideos")
    def similar(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}/similar"""
        query, video_id = request.parameters(SimilarVideos), request.video_id()
        finding, freshness = self._open_search()
        return respond(200, {"items": finding.similar(video_id, request.caller, request.now, query.limit), **freshness})

    def _open_search(self, cursors: Mapping[str, LogCursor] | None = None) -> "tuple[VideoSearch, dict[str, int]]":
        """Return a search over the newest index, and the response fields `complete` and `asOf`, which describe how
        current the index is.

        `cursors` are positions in the feed. The index must include all changes before them.
        """
        # Imported here, because only requests that search need it.
        from shared.search.video_search import VideoSearch

        newest = self.index.current(cursors)
        freshness = {"complete": newest.is_complete, "asOf": newest.as_of}
        return VideoSearch(newest.engine, self.videos, self.links.to_urls), freshness

    def _require_cursors(self, cursor: str, caller: Caller, now: int) -> Mapping[str, LogCursor]:
        """Return the feed positions that the index must have reached, by log. An index at these positions includes all
        changes before `cursor`.

        The positions are in the logs of all owners' changes. If `cursor` is from the feed of all changes, returns the
        positions in the cursor. If `cursor` is from the feed of the caller's own changes, returns the current ends of
        the logs.
        """
        try:
            return decode_position(shard_logs(), self._open_cursor(None, cursor, caller, now))
        except InvalidCursor:
            pass  # it may be a cursor of the caller's own changes
        try:
            self._open_cursor(caller.subject, cursor, caller, now)
        except InvalidCursor as error:
            raise InvalidParameter.named(
                "consistentWith",
                "must be `nextCursor` of GET /v1/changes without `types`, for all changes or for your own changes",
            ) from error
        # A change is appended to the logs of all changes before it is appended to its owner's log.
        return end_cursors(self.feed, shard_logs())

    def _open_cursor(self, user_id: str | None, cursor: str, caller: Caller, now: int) -> Position:
        return self.cursors.open(bound_to_changes(caller, user_id, ()), cursor, now, math.inf)


lambda_handler = EntryPoint(
    SearchSettings,
    http_function(SearchHandlers),
    preload=("nacl.secret", "shared.search.video_search", *ENGINE_MODULES[os.environ.get("SEARCH_ENGINE", "embedded")]),
)
