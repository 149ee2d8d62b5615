"""HTTP API of the credits and releases of videos, and of the videos of a person."""

import re
from collections.abc import Callable
from typing import Any

from shared.aws.listing import Window
from shared.aws.runtime import EntryPoint, Resources
from shared.core.attributes import Item
from shared.core.errors import InvalidParameter
from shared.core.settings import Settings
from shared.queries import ListCredits, ListPersonVideos, ListReleases
from shared.relations.credits import (
    RelationStore,
    credit_document,
    credits_list,
    release_document,
    releases_list,
)
from shared.relations.item_store import Allows
from shared.videos.links import Links
from shared.web.cursors import Cursors
from shared.web.http import http_function, operation
from shared.web.paging import Paginator
from shared.web.parameters import language_of, region_of
from shared.web.requests import JSON, Request
from shared.web.responses import HttpResponse, etag, no_content, respond

PERSON = r"[A-Za-z0-9._-]{1,64}"


class RelationsSettings(Settings):
    cursor_secret_arn: str
    media_bucket: str
    media_url: str


class RelationHandlers:
    """Handlers of the operations on credits and releases. One instance serves all requests, so its attributes contain
    no data of a single request."""

    def __init__(self, settings: RelationsSettings, resources: Resources) -> None:
        self.store = RelationStore(resources.table(settings.table_name))
        self.pages = Paginator(Cursors(resources.secret(settings.cursor_secret_arn)))
        self.links = Links(settings.media_bucket, settings.media_url)

    @operation("listCredits")
    def list_credits(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}/credits"""
        video_id = request.video_id()
        page_request = self.pages.request_page(request, request.parameters(ListCredits), *credits_list(video_id))
        cast = self.store.credits(video_id, request.caller, request.now, page_request.limit, page_request.after)
        return page_request.respond([credit_document(credit) for credit in cast.items], cast.resume)

    @operation("getCredit")
    def get_credit(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}/credits/{personId}"""
        item = self.store.credit(request.video_id(), _person(request), request.caller, request.now)
        return respond(200, credit_document(item), request=request, version=item["version"])

    @operation("putCredit")
    def put_credit(self, request: Request) -> HttpResponse:
        """PUT /v1/videos/{videoId}/credits/{personId}"""
        from shared.relations.models import CreditContent

        video_id, person_id = request.video_id(), _person(request)
        content = CreditContent.parse(request.content(JSON))
        allows = _condition(request, credit_document)
        item, created = self.store.put_credit(video_id, person_id, content, request.caller, request.now, allows)
        return respond(201 if created else 200, credit_document(item), version=item["version"])

    @operation("deleteCredit")
    def delete_credit(self, request: Request) -> HttpResponse:
        """DELETE /v1/videos/{videoId}/credits/{personId}"""
        video_id, person_id = request.video_id(), _person(request)
        allows = _condition(request, credit_document)
        self.store.delete_credit(video_id, person_id, request.caller, request.now, allows)
        return no_content()

    @operation("listPersonVideos")
    def list_person_videos(self, request: Request) -> HttpResponse:
        """GET /v1/people/{personId}/videos"""
        person_id, query = _person(request), request.parameters(ListPersonVideos)
        start, end = query.years()
        page_request = self.pages.request_page(request, query, "person", person_id, start, end, query.ascending)
        window = Window(start, end, query.ascending, page_request.limit, page_request.after)
        appearances = self.store.videos_of(person_id, request.now, window)
        items = [appearance | {"video": self.links.to_urls(appearance["video"])} for appearance in appearances.items]
        return page_request.respond(items, appearances.resume)

    @operation("listReleases", "listRegionReleases")
    def list_releases(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}/releases and GET /v1/videos/{videoId}/releases/{region}"""
        video_id = request.video_id()
        region = _region(request) if "region" in request.path else None
        page_request = self.pages.request_page(
            request, request.parameters(ListReleases), *releases_list(video_id, region)
        )
        releases = self.store.releases(
            video_id, region, request.caller, request.now, page_request.limit, page_request.after
        )
        return page_request.respond([release_document(release) for release in releases.items], releases.resume)

    @operation("getRelease")
    def get_release(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}/releases/{region}/{language}"""
        video_id, region, language = request.video_id(), _region(request), _language(request)
        item = self.store.release(video_id, region, language, request.caller, request.now)
        return respond(200, release_document(item), request=request, version=item["version"])

    @operation("putRegionRelease", "putRelease")
    def put_release(self, request: Request) -> HttpResponse:
        """PUT /v1/videos/{videoId}/releases/{region} and PUT /v1/videos/{videoId}/releases/{region}/{language}"""
        from shared.relations.models import ReleaseContent

        video_id, region, language = request.video_id(), _region(request), _language_if_any(request)
        content = ReleaseContent.parse(request.content(JSON))
        allows = _condition(request, release_document)
        item, created = self.store.put_release(video_id, region, language, content, request.caller, request.now, allows)
        return respond(201 if created else 200, release_document(item), version=item["version"])

    @operation("deleteRegionRelease", "deleteRelease")
    def delete_release(self, request: Request) -> HttpResponse:
        """DELETE /v1/videos/{videoId}/releases/{region} and DELETE /v1/videos/{videoId}/releases/{region}/{language}"""
        video_id, region, language = request.video_id(), _region(request), _language_if_any(request)
        allows = _condition(request, release_document)
        self.store.delete_release(video_id, region, language, request.caller, request.now, allows)
        return no_content()


def _condition(request: Request, document: Callable[[Item], dict[str, Any]]) -> Allows:
    """Return a function that checks the request's If-Match and If-None-Match against an item. `document` returns the
    item as clients see it."""
    return lambda item: request.allows(etag(item["version"], document(item)) if item else None)


def _person(request: Request) -> str:
    person_id = request.path["personId"]
    if not re.fullmatch(PERSON, person_id):
        raise InvalidParameter.named("personId", "must have 1 to 64 letters, digits, dots, hyphens or underscores")
    return person_id


def _region(request: Request) -> str:
    return region_of("region", request.path["region"])


def _language(request: Request) -> str:
    return language_of("language", request.path["language"])


def _language_if_any(request: Request) -> str | None:
    return _language(request) if "language" in request.path else None


lambda_handler = EntryPoint(
    RelationsSettings, http_function(RelationHandlers), preload=("nacl.secret", "shared.relations.models")
)
