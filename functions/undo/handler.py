"""HTTP API of reverts and moves: restores earlier states of videos, reverts change sets, and moves folders."""

from urllib.parse import quote

from shared.aws.runtime import EntryPoint, Resources
from shared.core.changes import truncate_to_fit
from shared.core.errors import Forbidden
from shared.core.settings import Settings
from shared.history.changeset_reverts import ChangeSetReverts
from shared.history.folder_moves import FolderMoves
from shared.history.revert_runs import RevertRequest, move_document
from shared.history.trail import AuditStore
from shared.history.video_reverts import VideoReverts
from shared.processing.daily_quota import QuotaStore
from shared.queries import RevertChangeset, RevertVideo
from shared.videos.links import Links
from shared.videos.store import VideoStore
from shared.web.http import http_function, operation
from shared.web.requests import JSON, Request
from shared.web.responses import HttpResponse, respond

LARGEST_CHANGES = 2_000_000
"""Maximum number of bytes of the changes in a response. Lambda limits a response to 6 MB, and the response also
contains the video."""


LAST_PART_SECONDS = 9
"""Seconds from the start of a request after which the function does not begin to revert another item of a change set.
The function times out after 28 s."""


class UndoSettings(Settings):
    audit_table_name: str
    jobs_per_day: int
    media_bucket: str
    media_url: str


class UndoHandlers:
    """Handlers of the operations that revert videos and change sets. One instance serves all requests, so its
    attributes contain no data of a single request."""

    def __init__(self, settings: UndoSettings, resources: Resources) -> None:
        table, trail = resources.table(settings.table_name), AuditStore(resources.table(settings.audit_table_name))
        quota = QuotaStore(table, settings.jobs_per_day)
        self.videos = VideoReverts(VideoStore(table), trail, quota)
        self.sets = ChangeSetReverts(table, trail, quota)
        self.moves = FolderMoves(table)
        self.links = Links(settings.media_bucket, settings.media_url)
        self.elapsed = resources.elapsed

    @operation("revertVideo")
    def revert_video(self, request: Request) -> HttpResponse:
        """POST /v1/videos/{videoId}/revert"""
        from shared.history.models import Revert

        dry_run = request.parameters(RevertVideo).dry_run
        body = Revert.parse(request.content(JSON))
        reverted = self.videos.revert_to_version(
            request.video_id(),
            body.toVersion,
            request.caller,
            request.now,
            fields=body.fields,
            force=body.force,
            matches=request.matches,
            dry_run=dry_run,
        )
        return respond(
            200,
            {
                "video": self.links.to_urls(reverted.document, is_own=True),
                **truncate_to_fit({"changes": reverted.changes}, LARGEST_CHANGES),
                "skipped": [field.document() for field in reverted.skipped],
                "dryRun": dry_run,
            },
            version=reverted.document["version"],
        )

    @operation("revertChangeset")
    def revert_changeset(self, request: Request) -> HttpResponse:
        """POST /v1/changesets/{changesetId}/revert"""
        from shared.history.models import NewRevert

        end = self.elapsed() + LAST_PART_SECONDS
        changeset_id = request.correlation_id("changesetId")
        dry_run = request.parameters(RevertChangeset).dry_run
        force = NewRevert.parse(request.content(JSON)).force if request.body else []
        revert = RevertRequest(request.caller, tuple(force), dry_run)
        report, is_done = self.sets.revert(changeset_id, revert, request.now, lambda: self.elapsed() < end)
        # Relative to the request's own URL.
        headers = {} if is_done else {"Location": f"reverts/{quote(report['revertId'], safe='')}"}
        return respond(200 if is_done else 202, report | {"nextCursor": None}, headers=headers)

    @operation("moveFolder")
    def move_folder(self, request: Request) -> HttpResponse:
        """POST /v1/folder-moves"""
        from shared.history.models import NewFolderMove

        body = NewFolderMove.parse(request.content(JSON))
        owner = body.userId or request.caller.subject
        if not request.caller.owns(owner):
            raise Forbidden("You are not this user. Omit userId to move your own folder.")
        run = self.moves.begin(owner, body.folder, body.to, RevertRequest(request.caller), request.now)
        # Relative to the request's own URL.
        headers = {"Location": f"folder-moves/{quote(run['revertId'], safe='')}"}
        return respond(202, move_document(run) | {"items": [], "nextCursor": None}, headers=headers)


lambda_handler = EntryPoint(
    UndoSettings,
    http_function(UndoHandlers),
    preload=("concurrent.futures", "shared.history.models", "shared.relations.models"),
)
