"""HTTP API of playlists, their entries in order, and the playlists that contain a video."""

import uuid

from shared.aws.runtime import EntryPoint, Resources
from shared.core.settings import Settings
from shared.queries import ListEntries, ListPlaylists, ListVideoPlaylists
from shared.relations.playlist_entries import EntryStore
from shared.relations.playlists import PlaylistStore
from shared.videos.links import Links
from shared.web.cursors import Cursors
from shared.web.http import http_function, operation
from shared.web.paging import Paginator
from shared.web.parameters import uuid_of
from shared.web.requests import JSON, MERGE_PATCH, Request
from shared.web.responses import HttpResponse, no_content, respond


class PlaylistsSettings(Settings):
    cursor_secret_arn: str
    media_bucket: str
    media_url: str


class PlaylistHandlers:
    """Handlers of the operations on playlists. One instance serves all requests, so its attributes contain no data of a
    single request."""

    def __init__(self, settings: PlaylistsSettings, resources: Resources) -> None:
        self.store = PlaylistStore(resources.table(settings.table_name))
        self.entries = EntryStore(self.store)
        self.pages = Paginator(Cursors(resources.secret(settings.cursor_secret_arn)))
        self.links = Links(settings.media_bucket, settings.media_url)

    @operation("createPlaylist")
    def create(self, request: Request) -> HttpResponse:
        """POST /v1/playlists"""
        from shared.relations.models import NewPlaylist

        content = NewPlaylist.parse(request.content(JSON)).model_dump(exclude_none=True)
        once = request.once(content)
        document = self.store.create(str(uuid.uuid4()), content, request.caller, request.now, once)
        # Relative to /v1/playlists, so that the URL is also valid behind a proxy with another path prefix.
        location = {"Location": f"playlists/{document['playlistId']}"}
        return respond(201, document, version=document["version"], headers=location)

    @operation("listPlaylists")
    def list(self, request: Request) -> HttpResponse:
        """GET /v1/playlists"""
        query = request.parameters(ListPlaylists)
        owner = query.user_id or request.caller.subject
        page_request = self.pages.request_page(request, query, "playlists", owner, query.ascending)
        playlists = self.store.list_for_owner(
            owner, request.caller, ascending=query.ascending, limit=page_request.limit, after=page_request.after
        )
        return page_request.respond(playlists.items, playlists.resume)

    @operation("getPlaylist")
    def read(self, request: Request) -> HttpResponse:
        """GET /v1/playlists/{playlistId}"""
        document = self.store.read(_playlist_id(request), request.caller)
        return respond(200, document, request=request, version=document["version"])

    @operation("patchPlaylist")
    def patch(self, request: Request) -> HttpResponse:
        """PATCH /v1/playlists/{playlistId}"""
        from shared.relations.models import PlaylistPatch

        patch = PlaylistPatch.parse(request.content(MERGE_PATCH, JSON)).model_dump(exclude_unset=True)
        document = self.store.change(_playlist_id(request), patch, request.caller, request.now, request.matches)
        return respond(200, document, version=document["version"])

    @operation("deletePlaylist")
    def delete(self, request: Request) -> HttpResponse:
        """DELETE /v1/playlists/{playlistId}"""
        self.store.delete(_playlist_id(request), request.caller, request.now, request.matches)
        return no_content()

    @operation("listEntries")
    def list_entries(self, request: Request) -> HttpResponse:
        """GET /v1/playlists/{playlistId}/entries"""
        playlist_id = _playlist_id(request)
        page_request = self.pages.request_page(request, request.parameters(ListEntries), "entries", playlist_id)
        found = self.entries.page(
            playlist_id, request.caller, request.now, limit=page_request.limit, after=page_request.after
        )
        items = [entry | {"video": self.links.to_urls(entry["video"])} for entry in found.items]
        return page_request.respond(items, found.resume)

    @operation("appendEntry")
    def append(self, request: Request) -> HttpResponse:
        """POST /v1/playlists/{playlistId}/entries"""
        from shared.relations.models import NewEntry

        video_id = NewEntry.parse(request.content(JSON)).videoId
        playlist_id = _playlist_id(request)
        once = request.once(playlist_id, video_id)
        entry = self.entries.append(playlist_id, video_id, request.caller, request.now, once, request.matches)
        return respond(201, entry)

    @operation("moveEntry")
    def move(self, request: Request) -> HttpResponse:
        """PATCH /v1/playlists/{playlistId}/entries/{videoId}"""
        from shared.relations.models import EntryMove

        requested = EntryMove.parse(request.content(JSON))
        behind = "after" in requested.model_fields_set
        neighbour = requested.after if behind else requested.before
        ids = _playlist_id(request), request.video_id(), neighbour
        entry = self.entries.move(*ids, request.caller, request.now, behind=behind, matches=request.matches)
        return respond(200, entry)

    @operation("removeEntry")
    def remove(self, request: Request) -> HttpResponse:
        """DELETE /v1/playlists/{playlistId}/entries/{videoId}"""
        ids = _playlist_id(request), request.video_id()
        self.entries.remove(*ids, request.caller, request.now, request.matches)
        return no_content()

    @operation("listVideoPlaylists")
    def list_of_video(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}/playlists"""
        query, video_id = request.parameters(ListVideoPlaylists), request.video_id()
        page_request = self.pages.request_page(request, query, "playlists of", video_id, query.ascending)
        playlists = self.store.list_for_video(
            video_id,
            request.caller,
            request.now,
            ascending=query.ascending,
            limit=page_request.limit,
            after=page_request.after,
        )
        return page_request.respond(playlists.items, playlists.resume)


def _playlist_id(request: Request) -> str:
    return uuid_of("playlistId", request.path["playlistId"])


lambda_handler = EntryPoint(
    PlaylistsSettings, http_function(PlaylistHandlers), preload=("nacl.secret", "shared.relations.models")
)
