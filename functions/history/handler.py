"""HTTP API of the audit trail: histories, diffs, change sets, the status of reverts, the feed of changes, and saved
questions about the archive."""

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from shared.aws.runtime import EntryPoint, Resources
from shared.core.attributes import Item
from shared.core.caller import Caller
from shared.core.errors import Forbidden, InvalidParameter, NotFound
from shared.core.position import Page
from shared.core.settings import Settings
from shared.feed.log import Feed, owner_log, shard_logs
from shared.feed.reader import (
    ChangePage,
    bound_to_changes,
    decode_position,
    encode_position,
    end_cursors,
    oldest_cursors,
)
from shared.feed.reader import read_page as changes_after
from shared.history.changesets import ChangeSets
from shared.history.entries import document
from shared.history.revert_runs import RunStore, move_document, run_document
from shared.history.trail import AuditStore
from shared.queries import (
    FROM_NOW,
    GetChangeset,
    GetDiff,
    GetFolderMove,
    GetRevert,
    ListAudit,
    ListChanges,
    RunQuestion,
)
from shared.routes import ADMIN, CHANGES
from shared.schema import PLAYLIST, TTL_ATTRIBUTE, VIDEO
from shared.video_fields import VISIBILITY_ATTRIBUTES
from shared.videos.access import is_purged, require_owned
from shared.web.cursors import Cursors
from shared.web.http import http_function, operation
from shared.web.paging import Paginator, link_to_next
from shared.web.parameters import period, uuid_of
from shared.web.requests import Request
from shared.web.responses import HttpResponse, respond

if TYPE_CHECKING:
    from shared.questions.runs import QuestionRuns

PLAYLIST_ATTRIBUTES = ("userId", "visibility", "deletedAt", TTL_ATTRIBUTE)
"""Attributes of a playlist that determine who owns it and who may see it."""


class HistorySettings(Settings):
    audit_table_name: str
    cursor_secret_arn: str


class HistoryHandlers:
    """Handlers of the operations on the audit trail and the feed. One instance serves all requests, so its attributes
    contain no data of a single request."""

    def __init__(self, settings: HistorySettings, resources: Resources) -> None:
        self.table = resources.table(settings.table_name)
        audit = resources.table(settings.audit_table_name)
        self.store = AuditStore(audit)
        self.feed = Feed(audit, resources.clock)
        self.cursors = Cursors(resources.secret(settings.cursor_secret_arn))
        self.sets = ChangeSets(audit)
        self.runs = RunStore(self.table)
        self.pages = Paginator(self.cursors)
        self._new_question_runs = partial(self._question_runs, settings.table_name, resources)

    @operation("listAudit")
    def list(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}/audit"""
        video_id = request.video_id()

        def check() -> None:
            item = self.table.get(VIDEO.key(videoId=video_id), attributes=VISIBILITY_ATTRIBUTES)
            require_owned(item, request.caller, request.now)

        return self._page(request, "audit", video_id, check, self.store.list_for_video)

    @operation("listPlaylistAudit")
    def list_of_playlist(self, request: Request) -> HttpResponse:
        """GET /v1/playlists/{playlistId}/audit"""
        playlist_id = uuid_of("playlistId", request.path["playlistId"])

        def check() -> None:
            item = self.table.get(PLAYLIST.key(playlistId=playlist_id), attributes=PLAYLIST_ATTRIBUTES)
            _require_owner(item, request.caller, request.now)

        return self._page(request, "playlist audit", playlist_id, check, self.store.list_for_playlist)

    @operation("getDiff")
    def diff(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}/diff"""
        from shared.history.as_of import PastVersions

        query, video_id = request.parameters(GetDiff), request.video_id()
        past = PastVersions(self.table, self.store)
        return respond(200, past.changes(video_id, request.caller, request.now, query.start, query.end))

    def _page(
        self, request: Request, listing: str, id_: str, check: Callable[[], None], read: Callable[..., Page[Item]]
    ) -> HttpResponse:
        """Return the response with a page of audit entries. `read` returns the entries. `check` raises an error if the
        caller may not see them."""
        query, caller = request.parameters(ListAudit), request.caller
        start, end = period(query.start, query.end)
        page_request = self.pages.request_page(request, query, listing, id_, start, end, query.ascending)
        # Admins may also read the history of a video or playlist that no longer exists.
        if not caller.is_admin:
            check()
        page = read(
            id_,
            request.now,
            owner=None if caller.is_admin else caller.subject,
            start=start * 1000,
            end=end * 1000,
            ascending=query.ascending,
            limit=page_request.limit,
            after=page_request.after,
        )
        return page_request.respond([document(entry) for entry in page.items], page.resume)

    @operation("getChangeset")
    def changeset(self, request: Request) -> HttpResponse:
        """GET /v1/changesets/{changesetId}"""
        changeset_id = request.correlation_id("changesetId")
        page_request = self.pages.request_page(request, request.parameters(GetChangeset), "changeset", changeset_id)
        page = self.sets.page(
            changeset_id, request.caller, request.now, limit=page_request.limit, after=page_request.after
        )
        return page_request.respond([document(entry) for entry in page.items], page.resume)

    @operation("getRevert")
    def run(self, request: Request) -> HttpResponse:
        """GET /v1/changesets/{changesetId}/reverts/{revertId}"""
        changeset_id, revert_id = request.correlation_id("changesetId"), request.correlation_id("revertId")
        page_request = self.pages.request_page(
            request, request.parameters(GetRevert), "revert", changeset_id, revert_id
        )
        run = self.runs.read_visible(changeset_id, revert_id, request.caller, request.now)
        page = self.runs.list_reports(revert_id, page_request.limit, page_request.after)
        return page_request.respond([part["report"] for part in page.items], page.resume, run_document(run))

    @operation("getFolderMove")
    def folder_move(self, request: Request) -> HttpResponse:
        """GET /v1/folder-moves/{moveId}"""
        move_id = request.correlation_id("moveId")
        page_request = self.pages.request_page(request, request.parameters(GetFolderMove), "folder move", move_id)
        run = self.runs.read_move(move_id, request.caller, request.now)
        page = self.runs.list_reports(move_id, page_request.limit, page_request.after)
        return page_request.respond([part["report"] for part in page.items], page.resume, move_document(run))

    @operation("listChanges")
    def changes(self, request: Request) -> HttpResponse:
        """GET /v1/changes"""
        query, caller = request.parameters(ListChanges), request.caller
        if query.user_id != caller.subject and not caller.may_follow_all:
            raise Forbidden.scopes(CHANGES, ADMIN, advice="Send your own userId.")
        logs = shard_logs() if query.user_id is None else (owner_log(query.user_id),)
        bound = bound_to_changes(caller, query.user_id, query.types)
        if query.after == FROM_NOW:
            page = ChangePage([], end_cursors(self.feed, logs), caught_up=True)
        else:
            cursors = oldest_cursors(logs)
            if query.after is not None:
                # These cursors do not expire by time. Reading fails if the log no longer has all changes after their positions.
                cursors = decode_position(logs, self.cursors.open(bound, query.after, request.now, math.inf))
            page = changes_after(self.feed, cursors, query.types, query.limit)
        cursor = self.cursors.seal(bound, encode_position(page.cursors), request.now)
        body = {"items": page.items, "nextCursor": cursor, "caughtUp": page.caught_up}
        return respond(200, body, headers=link_to_next(request, "after", cursor))

    @operation("listQuestions")
    def questions(self, _: Request) -> HttpResponse:
        """GET /v1/questions"""
        from shared.questions.saved import QUESTIONS

        return respond(200, {"items": [question.document(name) for name, question in QUESTIONS.items()]})

    @operation("runQuestion")
    def run_question(self, request: Request) -> HttpResponse:
        """POST /v1/questions/{question}/runs"""
        from shared.questions.saved import days_of

        request.require_no_content()
        query, name, key = request.parameters(RunQuestion), request.path["question"], request.idempotency_key()
        if key and query.end is None:
            # The default depends on the time, so a retry after midnight would be a different query.
            raise InvalidParameter.named("to", "must be sent with an Idempotency-Key")
        first, last = days_of(query.start, query.end, request.now)
        if first > last:
            raise InvalidParameter.named("from", f"must not be after the last day, which is {last}")
        runs = self._new_question_runs()
        run = runs.start(name, first, last, (request.caller.subject, key) if key else ())
        return respond(202, run, headers={"Location": f"runs/{run['runId']}"})

    @operation("getQuestionRun")
    def question_run(self, request: Request) -> HttpResponse:
        """GET /v1/questions/{question}/runs/{runId}"""
        run_id = uuid_of("runId", request.path["runId"])
        return respond(200, self._new_question_runs().read(request.path["question"], run_id))

    @staticmethod
    def _question_runs(table_name: str, resources: Resources) -> "QuestionRuns":
        """Return the store of the runs of questions. Loads botocore, which other operations do not need."""
        from shared.questions.runs import QuestionRuns

        return QuestionRuns(resources.athena, table_name)


def _require_owner(playlist: Item | None, caller: Caller, now: int) -> None:
    """Raise Forbidden or NotFound if the caller does not own the playlist. Accepts a deleted playlist until it is
    purged."""
    if playlist is None or is_purged(playlist, now):
        raise NotFound.of("playlist")
    if not caller.owns(playlist["userId"]):
        if playlist["visibility"] == "public" and "deletedAt" not in playlist:
            raise Forbidden.owned("playlist")
        raise NotFound.of("playlist")


lambda_handler = EntryPoint(
    HistorySettings, http_function(HistoryHandlers), preload=("nacl.secret", "shared.history.as_of")
)
