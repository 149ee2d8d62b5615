"""HTTP API of videos: creates, reads, lists, changes, deletes and restores them."""

from collections.abc import Sequence

from shared.aws.listing import Window
from shared.aws.runtime import EntryPoint, Resources
from shared.core.attributes import Item
from shared.core.errors import Forbidden, InvalidParameter
from shared.core.limits import LARGEST_INTEGER, LAST_SEASON
from shared.core.position import Page
from shared.core.settings import Settings
from shared.queries import (
    BY_DURATION,
    BY_TIME,
    LOCAL_TITLE,
    BatchVideos,
    GetVideo,
    GetVideoByExternalId,
    GetVideoBySlug,
    ListEpisodes,
    ListVideos,
    unserved,
)
from shared.relations.title_page import Locale, TitlePage, accepted_languages
from shared.videos import video
from shared.videos.counters import ViewCounters
from shared.videos.documents import summary
from shared.videos.entries import season_start
from shared.videos.links import Links
from shared.videos.lists import ListFilters, VideoLists
from shared.videos.store import VideoStore
from shared.web.cursors import Cursors
from shared.web.http import http_function, operation
from shared.web.paging import Paginator
from shared.web.parameters import period
from shared.web.requests import JSON, MERGE_PATCH, Request
from shared.web.responses import HttpResponse, fit_documents, no_content, respond

VARY = {"Vary": "Accept-Language"}


class VideosSettings(Settings):
    audit_table_name: str
    cursor_secret_arn: str
    media_bucket: str
    media_url: str


class VideoHandlers:
    """Handlers of the operations on videos. One instance serves all requests, so its attributes contain no data of a
    single request."""

    def __init__(self, settings: VideosSettings, resources: Resources) -> None:
        self.store = VideoStore(resources.table(settings.table_name))
        self.audit = resources.table(settings.audit_table_name)
        self.lists = VideoLists(self.store)
        self.counters = ViewCounters(self.store.table)
        self.pages = Paginator(Cursors(resources.secret(settings.cursor_secret_arn)))
        self.links = Links(settings.media_bucket, settings.media_url)
        self.elapsed = resources.elapsed
        self.title_page = TitlePage(self.store, self.pages)

    @operation("createVideo")
    def create(self, request: Request) -> HttpResponse:
        """POST /v1/videos"""
        from shared.videos.prebuilt import NewVideo

        sent = self.links.to_uris(NewVideo.parse(request.content(JSON)).model_dump(exclude_none=True))
        item = video.with_defaults(sent, request.caller, request.now)
        brought = item["videoId"] == sent.get("videoId")
        document = self.store.create(item, request.caller, request.now, request.once(sent), has_client_id=brought)
        # Relative to /v1/videos, so that the URL is also valid behind a proxy with another path prefix.
        return respond(
            201,
            self.links.to_urls(document, is_own=True),
            version=document["version"],
            headers={"Location": f"videos/{document['videoId']}"},
        )

    @operation("getVideo")
    def read(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}"""
        query = request.parameters(GetVideo)
        _require_not_both(query.include, query.fields)
        if query.version is not None or query.as_of is not None:
            return self._read_past_version(request, query)
        locale = Locale(query.region, accepted_languages(request.headers.get("accept-language")))
        video_id, caller, now = request.video_id(), request.caller, request.now
        if query.include:
            fetched = self.title_page.read_with(video_id, caller, now, query.include, locale)
        else:
            fetched = self.title_page.read(video_id, caller, now, query.fields, locale)
        shown = self.links.to_urls(fetched.document, is_own=fetched.is_own)
        return respond(200, shown, request=request, version=fetched.version, headers=VARY)

    @operation("getVideoByExternalId")
    def read_by_external_id(self, request: Request) -> HttpResponse:
        """GET /v1/external-ids/{externalId}"""
        owner = request.parameters(GetVideoByExternalId).user_id or request.caller.subject
        if not request.caller.owns(owner):
            raise Forbidden("You are not this user. Omit userId to find your own video.")
        # The gateway decodes all percent-encoded characters except `%25`.
        return self._read_unique(request, owner, "externalId", request.path["externalId"].replace("%25", "%"))

    @operation("getVideoBySlug")
    def read_by_slug(self, request: Request) -> HttpResponse:
        """GET /v1/slugs/{slug}"""
        owner = request.parameters(GetVideoBySlug).user_id or request.caller.subject
        return self._read_unique(request, owner, "slug", request.path["slug"])

    def _read_unique(self, request: Request, owner: str, field: str, value: str) -> HttpResponse:
        """Return the response with the owner's video that has `value` in the unique field `field`."""
        fetched = self.store.read_unique(owner, field, value, request.caller, request.now)
        shown = self.links.to_urls(fetched.document, is_own=fetched.is_own)
        return respond(200, shown, request=request, version=fetched.version)

    def _read_past_version(self, request: Request, query: GetVideo) -> HttpResponse:
        """Return the response with an earlier version of the video, selected by its number (`version`) or by a time
        (`asOf`)."""
        from shared.history.as_of import PastVersions
        from shared.history.trail import AuditStore

        parameter = "version" if query.as_of is None else "asOf"
        for name, is_given in {
            "version": parameter == "asOf" and query.version is not None,
            "include": bool(query.include),
            "region": bool(query.region),
            "fields": LOCAL_TITLE in query.fields,
        }.items():
            if is_given:
                fault = f"must not name {LOCAL_TITLE}" if name == "fields" else "must not be given"
                raise InvalidParameter.named(name, f"{fault} together with `{parameter}`")
        if query.as_of is not None and query.as_of > request.now:
            raise InvalidParameter.named("asOf", f"must not be after the current time {request.now}, not {query.as_of}")
        document, version = PastVersions(self.store.table, AuditStore(self.audit)).read(
            request.video_id(),
            request.caller,
            request.now,
            version=query.version,
            as_of=query.as_of or 0,
            fields=query.fields,
        )
        return respond(200, self.links.to_urls(document, is_own=True), request=request, version=version, headers=VARY)

    @operation("patchVideo")
    def patch(self, request: Request) -> HttpResponse:
        """PATCH /v1/videos/{videoId}"""
        from shared.videos.prebuilt import VideoPatch

        patch = self.links.to_uris(VideoPatch.parse(request.content(MERGE_PATCH, JSON)).model_dump(exclude_unset=True))
        document = self.store.change(
            request.video_id(),
            request.caller,
            request.now,
            lambda item: video.apply_patch(item, patch, request.now),
            matches=request.matches,
        )
        return respond(200, self.links.to_urls(document, is_own=True), version=document["version"])

    @operation("deleteVideo")
    def delete(self, request: Request) -> HttpResponse:
        """DELETE /v1/videos/{videoId}"""
        self.store.change(
            request.video_id(),
            request.caller,
            request.now,
            lambda item: video.mark_deleted(item, request.now),
            matches=request.matches,
        )
        return no_content()

    @operation("restoreVideo")
    def restore(self, request: Request) -> HttpResponse:
        """POST /v1/videos/{videoId}/restore"""
        request.require_no_content()
        video_id = request.video_id()
        document = self.store.change(
            video_id,
            request.caller,
            request.now,
            video.restore,
            matches=request.matches,
            once=request.once(video_id),
        )
        return respond(200, self.links.to_urls(document, is_own=True), version=document["version"])

    @operation("batchGetVideos")
    def batch_get(self, request: Request) -> HttpResponse:
        """POST /v1/videos/batch-get"""
        from shared.videos.batch_models import VideoIds

        video_ids = list(dict.fromkeys(VideoIds.parse(request.content(JSON)).videoIds))
        videos = self.store.read_many(video_ids, request.caller, request.now)
        shown = {
            video_id: self.links.to_urls(videos[video_id], is_own=request.caller.owns(videos[video_id]["userId"]))
            for video_id in video_ids
            if video_id in videos
        }
        items = fit_documents(shown.values())
        return respond(
            200,
            {
                "items": items,
                "missing": [video_id for video_id in video_ids if video_id not in shown],
                "remaining": list(shown)[len(items) :],
            },
        )

    @operation("batchVideos")
    def batch(self, request: Request) -> HttpResponse:
        """POST /v1/videos/batch"""
        from shared.videos.batch_models import Batch
        from shared.videos.batches import Batches

        dry_run = request.parameters(BatchVideos).dry_run
        operations = Batch.parse(request.content(JSON)).operations
        request.idempotency_key()  # an invalid key fails the whole batch, instead of each creation
        batches = Batches(self.store, self.links, self.elapsed)
        results = (batches.rehearse if dry_run else batches.carry_out)(request, operations)
        failed = sum("problem" in result for result in results)
        if len(request.replays) < len(results) - failed:
            request.replays.clear()  # the response is a replay only if every successful operation is a replay
        return respond(200, {"dryRun": dry_run, "items": results, "succeeded": len(results) - failed, "failed": failed})

    @operation("listVideos")
    def list(self, request: Request) -> HttpResponse:
        """GET /v1/videos"""
        query = request.parameters(ListVideos)
        _require_not_both(query.include, query.fields)
        start, end = period(query.start, query.end)
        filters = ListFilters(
            owner=query.user_id,
            status=query.status,
            category=query.category,
            format=query.format,
            min_duration=query.min_duration,
            max_duration=query.max_duration,
            release_year=query.release_year,
        )
        if (filters.min_duration or 0) > (LARGEST_INTEGER if filters.max_duration is None else filters.max_duration):
            raise InvalidParameter.named("minDuration", "must not be more than `maxDuration`")
        folder = (query.folder, query.subfolders) if query.folder is not None else ()
        page_request = self.pages.request_page(
            request, query, "videos", query.tag, query.region, filters, start, end, query.sort, query.ascending, *folder
        )
        window = Window(start, end, query.ascending, page_request.limit, page_request.after, query.fields)
        if query.folder is not None:
            list_page = self._page_of_folder
        else:
            list_page = self._page_by_time if query.sort == BY_TIME else self._page_by_order
        page = list_page(request, query, filters, window)
        items = [self.links.to_urls(summary(item, query.fields)) for item in page.items]
        if query.include:
            counted = self.counters.read([item["videoId"] for item in items])
            items = [item | {"viewCount": counted[item["videoId"]].views} for item in items]
        return page_request.respond(items, page.resume)

    @operation("listEpisodes")
    def episodes(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}/episodes"""
        video_id, query = request.video_id(), request.parameters(ListEpisodes)
        first, last = (0, LAST_SEASON + 1) if query.season is None else (query.season, query.season)
        page_request = self.pages.request_page(request, query, "episodes", video_id, query.season)
        window = Window(season_start(first), season_start(last + 1), True, page_request.limit, page_request.after)
        page = self.lists.list_episodes(video_id, request.caller, request.now, window)
        items = [
            {"video": self.links.to_urls(summary(item)), **summary(item, ("season", "episode"))} for item in page.items
        ]
        return page_request.respond(items, page.resume)

    def _page_of_folder(self, request: Request, query: ListVideos, filters: ListFilters, window: Window) -> Page[Item]:
        """Return a page of the videos in a folder of an owner, who is the caller unless an admin sends `userId`."""
        refused = {"tag": query.tag, "region": query.region, "from": query.start, "to": query.end}
        refused["releaseYear"] = filters.release_year
        refused |= {"sort": query.sort} if query.sort != BY_TIME else {}
        refused |= {"status": filters.status} if filters.status == "deleted" else {}
        if name := next((name for name, value in refused.items() if value is not None), None):
            raise unserved(name, f"No index serves {name} with folder. Leave one of them out.")
        owner, folder = filters.owner or request.caller.subject, query.folder or ""
        if not request.caller.owns(owner):
            raise Forbidden("Only the owner and admins may list a folder. Omit userId to list your own.")
        return self.lists.list_by_folder(
            owner, folder, request.caller, request.now, filters, window, subfolders=query.subfolders
        )

    def _page_by_order(self, request: Request, query: ListVideos, filters: ListFilters, window: Window) -> Page[Item]:
        """Return a page of the videos of an owner or of a category, by duration, title, rating or views."""
        refused = {"tag": query.tag, "region": query.region, "from": query.start, "to": query.end}
        if name := next((name for name, value in refused.items() if value is not None), None):
            raise unserved(name, f"No index serves {name} with sort={query.sort}. Leave one of them out.")
        if filters.release_year is not None:
            raise unserved("releaseYear", f"No index serves releaseYear with sort={query.sort}. Leave one of them out.")
        if filters.status == "deleted" or (filters.owner is None and filters.status not in (None, "ready")):
            raise unserved("status", f"No index serves this status with sort={query.sort}. Leave one of them out.")
        if filters.owner is None and filters.category is None:
            raise unserved(
                "sort", f"Only the videos of one userId or category have an index by {query.sort}. Add one of them."
            )
        owner, category, caller, now = filters.owner, filters.category, request.caller, request.now
        if query.sort != BY_DURATION:
            return self.lists.list_by_order(query.sort, owner, category, caller, now, filters, window)
        longest = LARGEST_INTEGER if filters.max_duration is None else filters.max_duration
        window = window._replace(start=filters.min_duration or 0, end=longest + 1)
        return self.lists.list_by_duration(owner, category, caller, now, filters, window)

    def _page_by_time(self, request: Request, query: ListVideos, filters: ListFilters, window: Window) -> Page[Item]:
        """Return a page of the list that the parameters select: by owner, tag, region, category or status, or all published videos."""
        tag, region = query.tag, query.region
        others = (filters.owner, tag, region, None if filters.status == "ready" else filters.status)
        if filters.release_year is not None and (filters.category is None or any(others)):
            raise unserved(
                "releaseYear", "Only a category's published videos have an index by year. Select by category alone."
            )
        if tag is not None and region is not None:
            raise unserved("region", "No index serves tag and region together. Select by one of them.")
        if filters.status == "deleted" and (tag is not None or region is not None):
            raise unserved("status", "No index serves deleted videos by tag or region. Select by userId.")
        if filters.owner is not None and region is None and (tag is None or request.caller.owns(filters.owner)):
            return self.lists.list_by_owner(filters.owner, request.caller, request.now, filters, window, tag)
        if tag is not None:
            return self.lists.list_by_tag(tag, request.now, filters, window)
        if region is not None:
            return self.lists.list_by_region(region, request.now, filters, window)
        published = filters._replace(status=None)
        if filters.category is not None and filters.status in (None, "ready"):
            return self.lists.list_by_category(filters.category, request.now, published._replace(category=None), window)
        if filters.status is None:
            return self.lists.list_public(request.now, published, window)
        if not request.caller.is_admin:
            raise Forbidden("Only admins may list all videos by status. Add your userId to list your own.")
        return self.lists.list_by_status(filters.status, request.now, published, window)


def _require_not_both(include: Sequence[str], fields: Sequence[str]) -> None:
    if include and fields:
        raise InvalidParameter.named("include", "must not be given together with `fields`")


lambda_handler = EntryPoint(
    VideosSettings,
    http_function(VideoHandlers),
    preload=(
        "nacl.secret",
        "shared.history.as_of",
        "shared.videos.batch_models",
        "shared.videos.batches",
        "shared.videos.prebuilt",
    ),
)
