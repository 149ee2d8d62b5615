"""HTTP API of captions and chapters. Accepts captions in WebVTT and SubRip, and returns them in WebVTT."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shared.aws.runtime import EntryPoint, Resources
from shared.aws.s3 import ObjectMissing, object_uri
from shared.captions.store import (
    FORMATS,
    MAX_STORED,
    TYPE,
    CaptionStore,
    captions_document,
    captions_list,
    chapters_document,
    text_hash,
    text_key,
    text_uri,
)
from shared.core.attributes import Item
from shared.core.errors import InvalidContent, NotFound
from shared.core.settings import Settings
from shared.queries import ListCaptions
from shared.relations.item_store import Allows
from shared.web import etags
from shared.web.cursors import Cursors
from shared.web.http import http_function, operation
from shared.web.paging import Paginator
from shared.web.parameters import language_of
from shared.web.requests import JSON, Request
from shared.web.responses import SAFE, HttpResponse, etag, no_content, respond, text_response

if TYPE_CHECKING:
    from shared.captions.parser import Kind


class CaptionsSettings(Settings):
    cursor_secret_arn: str
    media_bucket: str


class CaptionHandlers:
    """Handlers of the operations on captions and chapters. One instance serves all requests, so its attributes contain
    no data of a single request."""

    def __init__(self, settings: CaptionsSettings, resources: Resources) -> None:
        self.store = CaptionStore(resources.table(settings.table_name))
        self.pages = Paginator(Cursors(resources.secret(settings.cursor_secret_arn)))
        self.objects = resources.objects
        self.bucket = settings.media_bucket

    @operation("listCaptions")
    def list(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}/captions"""
        video_id = request.video_id()
        page_request = self.pages.request_page(request, request.parameters(ListCaptions), *captions_list(video_id))
        found = self.store.captions(video_id, request.caller, request.now, page_request.limit, page_request.after)
        return page_request.respond([captions_document(item) for item in found.items], found.resume)

    @operation("getCaptions")
    def read(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}/captions/{language}"""
        item = self.store.read(request.video_id(), _language(request), request.caller, request.now)
        tag = etag(item["version"], captions_document(item))
        headers = {"ETag": tag, "Cache-Control": "private, no-cache", **SAFE}
        if etags.is_not_modified(request.headers.get("if-none-match"), tag):
            return HttpResponse(304, headers)
        try:
            content = self.objects.read(text_uri(self.bucket, item), 0, item["size"])
        except ObjectMissing as error:
            raise NotFound("This deployment does not store the text of these captions. Upload them again.") from error
        return text_response(content.decode(), TYPE, headers)

    @operation("putCaptions")
    def put(self, request: Request) -> HttpResponse:
        """PUT /v1/videos/{videoId}/captions/{language}"""
        from shared.captions.cues import InvalidCaptions
        from shared.captions.parser import parse_captions
        from shared.captions.webvtt import write

        video_id, language = request.video_id(), _language(request)
        body, kind, pointer = _captions(request)
        try:
            cues = parse_captions(body, kind)
        except InvalidCaptions as error:
            line = {"line": error.line} if error.line else {}
            raise InvalidContent(str(error), errors=[pointer | line | {"detail": error.reason}]) from error
        written = write(cues).encode()
        if len(written) > MAX_STORED:
            detail = f"The captions must have at most {MAX_STORED:,} bytes as WebVTT, not {len(written):,}."
            raise InvalidContent(detail, errors=[pointer | {"detail": detail}])
        name = text_hash(written)
        content = {"text": name, "cues": len(cues), "size": len(written), "origin": "owner"}

        def keep(present: str | None) -> None:
            if present != name or not self._has(video_id, name):
                self.objects.put(self.bucket, text_key(video_id, name), written, f"{TYPE}; charset=utf-8")

        allows = _condition(request, captions_document)
        item, created = self.store.put(video_id, language, content, request.caller, request.now, allows, keep)
        return respond(201 if created else 200, captions_document(item), version=item["version"])

    @operation("deleteCaptions")
    def delete(self, request: Request) -> HttpResponse:
        """DELETE /v1/videos/{videoId}/captions/{language}"""
        video_id, language = request.video_id(), _language(request)
        self.store.delete(video_id, language, request.caller, request.now, _condition(request, captions_document))
        return no_content()

    @operation("getChapters")
    def chapters(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}/chapters"""
        video_id = request.video_id()
        item, proposed = self.store.chapters(video_id, request.caller, request.now)
        document = chapters_document(item) if item else {"videoId": video_id, "chapters": []}
        version = item["version"] if item else None
        if not proposed:
            return respond(200, document, request=request, version=version)
        # Clients send the ETag in If-Match, which is compared with the stored chapters only. Therefore the ETag does not
        # depend on the proposed chapters. The response is never a 304, because a client with the same ETag may lack
        # newer proposed chapters.
        headers = {} if version is None else {"ETag": etag(version, document)}
        return respond(200, {**document, "proposed": proposed}, headers=headers)

    @operation("putChapters")
    def put_chapters(self, request: Request) -> HttpResponse:
        """PUT /v1/videos/{videoId}/chapters"""
        from shared.captions.models import ChaptersContent

        content = ChaptersContent.parse(request.content(JSON))
        allows = _condition(request, chapters_document)
        item, created = self.store.put_chapters(request.video_id(), content, request.caller, request.now, allows)
        return respond(201 if created else 200, chapters_document(item), version=item["version"])

    @operation("deleteChapters")
    def delete_chapters(self, request: Request) -> HttpResponse:
        """DELETE /v1/videos/{videoId}/chapters"""
        allows = _condition(request, chapters_document)
        self.store.delete_chapters(request.video_id(), request.caller, request.now, allows)
        return no_content()

    def _has(self, video_id: str, name: str) -> bool:
        """Return whether the object with a caption text exists. `name` is the hash of the text.

        Reads one byte of the object. This costs a tenth of the cost of writing the object again.
        """
        try:
            return bool(self.objects.read(object_uri(self.bucket, text_key(video_id, name)), 0, 1))
        except ObjectMissing:
            return False


def _captions(request: Request) -> "tuple[bytes, Kind, dict[str, str]]":
    """Return the captions in a request, their format, and members to add to each error about the captions.

    If the body is JSON, an error has the member `pointer` with the value `/text`. If the body is a caption file, the
    dictionary of members is empty.
    """
    body = request.content(JSON, *FORMATS)
    kind = FORMATS.get(request.headers["content-type"].partition(";")[0].strip().lower())
    if kind:
        return body, kind, {}
    from shared.captions.models import CaptionsContent  # imports pydantic, which caption files do not need

    content = CaptionsContent.parse(body)
    return content.text.encode(), content.format, {"pointer": "/text"}


def _condition(request: Request, document: Callable[[Item], dict[str, Any]]) -> Allows:
    """Return a function that checks the request's If-Match and If-None-Match against an item. `document` returns the
    item as clients see it."""
    return lambda item: request.allows(etag(item["version"], document(item)) if item else None)


def _language(request: Request) -> str:
    return language_of("language", request.path["language"])


lambda_handler = EntryPoint(
    CaptionsSettings,
    http_function(CaptionHandlers),
    preload=("nacl.secret", "shared.captions.models", "shared.captions.parser"),
)
