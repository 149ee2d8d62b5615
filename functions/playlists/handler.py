"""Playlists, their entries in order, and the playlists of a video."""

import time
import uuid
from collections.abc import Callable

from shared.aws.dynamodb import Table, make_client
from shared.core.settings import LambdaHandler, cursor_secret_arn, entry_point, media_bucket, media_url, table_name
from shared.queries import ListPlaylists, ListVideoPlaylists
from shared.relations.playlist_entries import EntryStore
from shared.relations.playlists import PlaylistStore
from shared.videos.links import Links
from shared.web.answers import Answer, no_content, respond
from shared.web.cursors import Cursors, secret_reader
from shared.web.http import Handler
from shared.web.http import make_handler as make_http_handler
from shared.web.paging import Paged, Pages
from shared.web.parameters import uuid_of
from shared.web.requests import JSON, MERGE_PATCH, Request


class Playlists:
    """The handlers, one for each operation."""

    def __init__(self, store: PlaylistStore, pages: Pages, links: Links) -> None:
        self.store = store
        self.entries = EntryStore(store)
        self.pages = pages
        self.links = links

    def handlers(self) -> dict[str, Handler]:
        """The handlers by operation."""
        return {
            "createPlaylist": self.create,
            "listPlaylists": self.list,
            "getPlaylist": self.read,
            "patchPlaylist": self.patch,
            "deletePlaylist": self.delete,
            "listEntries": self.list_entries,
            "appendEntry": self.append,
            "moveEntry": self.move,
            "removeEntry": self.remove,
            "listVideoPlaylists": self.list_of_video,
        }

    def create(self, request: Request) -> Answer:
        """POST /v1/playlists"""
        from shared.relations.models import NewPlaylist

        content = NewPlaylist.parse(request.content(JSON)).model_dump(exclude_none=True)
        once = request.once(content)
        document = self.store.create(str(uuid.uuid4()), content, request.caller, request.now, once)
        # Relative to /v1/playlists, so that it holds behind a proxy that serves it below another path.
        location = {"Location": f"playlists/{document['playlistId']}"}
        return respond(201, document, version=document["version"], headers=location)

    def list(self, request: Request) -> Answer:
        """GET /v1/playlists"""
        query = request.parameters(ListPlaylists)
        owner = query.user_id or request.caller.subject
        asked = self.pages.asked(request, query, "playlists", owner, query.ascending)
        playlists = self.store.of_owner(
            owner, request.caller, ascending=query.ascending, limit=asked.limit, after=asked.after
        )
        return asked.answer(playlists.items, playlists.resume)

    def read(self, request: Request) -> Answer:
        """GET /v1/playlists/{playlistId}"""
        document = self.store.read(_playlist_id(request), request.caller)
        return respond(200, document, request=request, version=document["version"])

    def patch(self, request: Request) -> Answer:
        """PATCH /v1/playlists/{playlistId}"""
        from shared.relations.models import PlaylistPatch

        patch = PlaylistPatch.parse(request.content(MERGE_PATCH, JSON)).model_dump(exclude_unset=True)
        document = self.store.change(_playlist_id(request), patch, request.caller, request.now, request.matches)
        return respond(200, document, version=document["version"])

    def delete(self, request: Request) -> Answer:
        """DELETE /v1/playlists/{playlistId}"""
        self.store.delete(_playlist_id(request), request.caller, request.now, request.matches)
        return no_content()

    def list_entries(self, request: Request) -> Answer:
        """GET /v1/playlists/{playlistId}/entries"""
        playlist_id = _playlist_id(request)
        asked = self.pages.asked(request, request.parameters(Paged), "entries", playlist_id)
        found = self.entries.page(playlist_id, request.caller, request.now, limit=asked.limit, after=asked.after)
        items = [entry | {"video": self.links.shown(entry["video"])} for entry in found.items]
        return asked.answer(items, found.resume)

    def append(self, request: Request) -> Answer:
        """POST /v1/playlists/{playlistId}/entries"""
        from shared.relations.models import NewEntry

        video_id = NewEntry.parse(request.content(JSON)).videoId
        playlist_id = _playlist_id(request)
        once = request.once(playlist_id, video_id)
        entry = self.entries.append(playlist_id, video_id, request.caller, request.now, once, request.matches)
        return respond(201, entry)

    def move(self, request: Request) -> Answer:
        """PATCH /v1/playlists/{playlistId}/entries/{videoId}"""
        from shared.relations.models import EntryMove

        wanted = EntryMove.parse(request.content(JSON))
        behind = "after" in wanted.model_fields_set
        beside = wanted.after if behind else wanted.before
        places = _playlist_id(request), request.video_id(), beside
        entry = self.entries.move(*places, request.caller, request.now, behind=behind, matches=request.matches)
        return respond(200, entry)

    def remove(self, request: Request) -> Answer:
        """DELETE /v1/playlists/{playlistId}/entries/{videoId}"""
        places = _playlist_id(request), request.video_id()
        self.entries.remove(*places, request.caller, request.now, request.matches)
        return no_content()

    def list_of_video(self, request: Request) -> Answer:
        """GET /v1/videos/{videoId}/playlists"""
        query, video_id = request.parameters(ListVideoPlaylists), request.video_id()
        asked = self.pages.asked(request, query, "playlists of", video_id, query.ascending)
        playlists = self.store.of_video(
            video_id, request.caller, request.now, ascending=query.ascending, limit=asked.limit, after=asked.after
        )
        return asked.answer(playlists.items, playlists.resume)


def _playlist_id(request: Request) -> str:
    return uuid_of("playlistId", request.path["playlistId"])


def make(store: PlaylistStore, cursors: Cursors, links: Links, clock: Callable[[], float] = time.time) -> LambdaHandler:
    """The handler over a store; `clock` gives epoch seconds."""
    return make_http_handler("playlists", Playlists(store, Pages(cursors), links).handlers(), clock)


def _deployed() -> LambdaHandler:
    return make(
        PlaylistStore(Table(table_name(), make_client())),
        Cursors(secret_reader(cursor_secret_arn())),
        Links(media_bucket(), media_url()),
    )


lambda_handler = entry_point(_deployed, "nacl.secret", "shared.relations.models")
