"""Credits and releases of videos, and the videos of a person."""

import re
import time
from collections.abc import Callable
from typing import Any

from shared.aws.dynamodb import Table, make_client
from shared.aws.listing import Window
from shared.core import regions
from shared.core.attributes import Item
from shared.core.errors import InvalidParameter
from shared.core.limits import LAST_YEAR
from shared.core.position import Position
from shared.core.settings import LambdaHandler, cursor_secret_arn, entry_point, media_bucket, media_url, table_name
from shared.relations.children import Children
from shared.relations.credits import (
    Allows,
    RelationStore,
    credit_document,
    credits_query,
    release_document,
    releases_query,
)
from shared.relations.models import CreditContent, ReleaseContent
from shared.videos.links import Links
from shared.web.answers import Answer, etag, next_link, no_content, respond
from shared.web.bodies import parse
from shared.web.cursors import LONGEST, Cursors, secret_reader
from shared.web.http import Handler
from shared.web.http import make_handler as make_http_handler
from shared.web.parameters import Parameters, region_of
from shared.web.requests import JSON, Request

PERSON = r"[A-Za-z0-9._-]{1,64}"
LANGUAGE = r"(?=.{1,35}$)[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*"


class Relations:
    """The handlers, one for each operation."""

    def __init__(self, store: RelationStore, cursors: Cursors, links: Links) -> None:
        self.store = store
        self.cursors = cursors
        self.links = links

    def handlers(self) -> dict[str, Handler]:
        """The handlers by operation."""
        return {
            "listCredits": self.list_credits,
            "getCredit": self.get_credit,
            "putCredit": self.put_credit,
            "deleteCredit": self.delete_credit,
            "listPersonVideos": self.list_person_videos,
            "listReleases": self.list_releases,
            "listRegionReleases": self.list_releases,
            "getRelease": self.get_release,
            "putRegionRelease": self.put_release,
            "putRelease": self.put_release,
            "deleteRegionRelease": self.delete_release,
            "deleteRelease": self.delete_release,
        }

    def list_credits(self, request: Request) -> Answer:
        """GET /v1/videos/{videoId}/credits"""
        video_id = request.video_id()
        query = credits_query(request.caller, video_id)
        limit, after = self._page(request, request.parameters("limit", "cursor"), query)
        children = self.store.credits(video_id, request.caller, request.now, limit, after)
        return self._listed(request, query, children, credit_document)

    def get_credit(self, request: Request) -> Answer:
        """GET /v1/videos/{videoId}/credits/{personId}"""
        request.parameters()
        item = self.store.credit(request.video_id(), _person(request), request.caller, request.now)
        return respond(200, credit_document(item), request=request, version=item["version"])

    def put_credit(self, request: Request) -> Answer:
        """PUT /v1/videos/{videoId}/credits/{personId}"""
        video_id, person_id = request.video_id(), _person(request)
        content = parse(CreditContent, request.content(JSON))
        allows = _condition(request, credit_document)
        item, created = self.store.put_credit(video_id, person_id, content, request.caller, request.now, allows)
        return respond(201 if created else 200, credit_document(item), version=item["version"])

    def delete_credit(self, request: Request) -> Answer:
        """DELETE /v1/videos/{videoId}/credits/{personId}"""
        video_id, person_id = request.video_id(), _person(request)
        allows = _condition(request, credit_document)
        self.store.delete_credit(video_id, person_id, request.caller, request.now, allows)
        return no_content()

    def list_person_videos(self, request: Request) -> Answer:
        """GET /v1/people/{personId}/videos"""
        person_id, caller = _person(request), request.caller
        parameters = request.parameters("fromYear", "toYear", "order", "limit", "cursor")
        ascending = parameters.choice("order", ("asc", "desc")) == "asc"
        start, end = _years(parameters)
        query = repr(("person", caller.subject, caller.is_admin, person_id, start, end, ascending))
        limit, after = self._page(request, parameters, query)
        found = self.store.videos_of(person_id, request.now, Window(start, end, ascending, limit, after))
        items = [each | {"video": self.links.shown(each["video"])} for each in found.items]
        return self._answer(request, query, items, found.resume)

    def list_releases(self, request: Request) -> Answer:
        """GET /v1/videos/{videoId}/releases and GET /v1/videos/{videoId}/releases/{region}"""
        video_id = request.video_id()
        region = _region(request) if "region" in request.path else None
        query = releases_query(request.caller, video_id, region)
        limit, after = self._page(request, request.parameters("limit", "cursor"), query)
        children = self.store.releases(video_id, region, request.caller, request.now, limit, after)
        return self._listed(request, query, children, release_document)

    def get_release(self, request: Request) -> Answer:
        """GET /v1/videos/{videoId}/releases/{region}/{language}"""
        request.parameters()
        video_id, region, language = request.video_id(), _region(request), _language(request)
        item = self.store.release(video_id, region, language, request.caller, request.now)
        return respond(200, release_document(item), request=request, version=item["version"])

    def put_release(self, request: Request) -> Answer:
        """PUT /v1/videos/{videoId}/releases/{region}, and the same with /{language}"""
        video_id, region, language = request.video_id(), _region(request), _language_if_any(request)
        content = parse(ReleaseContent, request.content(JSON))
        allows = _condition(request, release_document)
        item, created = self.store.put_release(video_id, region, language, content, request.caller, request.now, allows)
        return respond(201 if created else 200, release_document(item), version=item["version"])

    def delete_release(self, request: Request) -> Answer:
        """DELETE /v1/videos/{videoId}/releases/{region}, and the same with /{language}"""
        video_id, region, language = request.video_id(), _region(request), _language_if_any(request)
        allows = _condition(request, release_document)
        self.store.delete_release(video_id, region, language, request.caller, request.now, allows)
        return no_content()

    def _page(self, request: Request, parameters: Parameters, query: str) -> tuple[int, Position | None]:
        limit = parameters.integer("limit", 1, 100) or 25
        cursor = parameters.text("cursor", LONGEST)
        return limit, self.cursors.open(query, cursor, request.now) if cursor else None

    def _listed(
        self, request: Request, query: str, children: Children, document: Callable[[Item], dict[str, Any]]
    ) -> Answer:
        return self._answer(request, query, [document(item) for item in children.items], children.resume)

    def _answer(self, request: Request, query: str, items: list[dict[str, Any]], resume: Position | None) -> Answer:
        next_cursor = self.cursors.seal(query, resume, request.now) if resume else None
        return respond(200, {"items": items, "nextCursor": next_cursor}, headers=next_link(request, next_cursor))


def _condition(request: Request, document: Callable[[Item], dict[str, Any]]) -> Allows:
    """What the request's If-Match and If-None-Match say of an item that is shown as this document."""
    return lambda found: request.allows(etag(found["version"], document(found)) if found else None)


def _person(request: Request) -> str:
    person_id = request.path["personId"]
    if not re.fullmatch(PERSON, person_id):
        raise InvalidParameter.named("personId", "must have 1 to 64 letters, digits, dots, hyphens or underscores")
    return person_id


def _region(request: Request) -> str:
    return region_of("region", request.path["region"])


def _language(request: Request) -> str:
    tag = request.path["language"]
    if not re.fullmatch(LANGUAGE, tag):
        raise InvalidParameter.named("language", "must be a BCP 47 tag such as en-NZ; without one, leave it out")
    return regions.language(tag)


def _language_if_any(request: Request) -> str | None:
    return _language(request) if "language" in request.path else None


def _years(parameters: Parameters) -> tuple[int, int]:
    """The years from the first up to but not including the second; without any, also videos that have none (0)."""
    first, last = (parameters.integer(name, 1, LAST_YEAR) for name in ("fromYear", "toYear"))
    if first is None and last is None:
        return 0, LAST_YEAR + 1
    start, end = first or 1, (last or LAST_YEAR) + 1
    if start >= end:
        raise InvalidParameter.named("fromYear", "must not be after `toYear`, which is part of the range")
    return start, end


def make(store: RelationStore, cursors: Cursors, links: Links, clock: Callable[[], float] = time.time) -> LambdaHandler:
    """The handler over a store; `clock` gives epoch seconds."""
    return make_http_handler("relations", Relations(store, cursors, links).handlers(), clock)


def _deployed() -> LambdaHandler:
    return make(
        RelationStore(Table(table_name(), make_client())),
        Cursors(secret_reader(cursor_secret_arn())),
        Links(media_bucket(), media_url()),
    )


lambda_handler = entry_point(_deployed)
