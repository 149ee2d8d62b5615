"""Undo: set videos back, and take change sets back, by what the audit trail knows of them."""

import time
from collections.abc import Callable
from urllib.parse import quote

from shared.aws.dynamodb import Table, make_client
from shared.core.changes import fitting
from shared.core.settings import (
    LambdaHandler,
    audit_table_name,
    entry_point,
    jobs_per_day,
    media_bucket,
    media_url,
    table_name,
)
from shared.films.quota import QuotaStore
from shared.history.reverts import VideoReverts
from shared.history.runs import Wish
from shared.history.trail import AuditStore
from shared.history.undoing import ChangeSetReverts
from shared.queries import RevertChangeset, RevertVideo
from shared.videos.catalogue import VideoStore
from shared.videos.links import Links
from shared.web.answers import Answer, respond
from shared.web.http import Handler
from shared.web.http import make_handler as make_http_handler
from shared.web.requests import JSON, Request

LARGEST_CHANGES = 2_000_000
"""Bytes of the changes in an answer, which has the video beside them: Lambda carries 6 MB."""


LAST_PART_SECONDS = 9
"""No part of a change set is begun later than this after the request came: the function has 28."""


class Undo:
    """The handlers, one for each operation."""

    def __init__(
        self, videos: VideoReverts, sets: ChangeSetReverts, links: Links, elapsed: Callable[[], float]
    ) -> None:
        self.videos = videos
        self.sets = sets
        self.links = links
        self.elapsed = elapsed

    def handlers(self) -> dict[str, Handler]:
        """The handlers by operation."""
        return {"revertVideo": self.revert_video, "revertChangeset": self.revert_changeset}

    def revert_video(self, request: Request) -> Answer:
        """POST /v1/videos/{videoId}/revert"""
        from shared.history.models import Revert

        dry_run = request.parameters(RevertVideo).dry_run
        wanted = Revert.parse(request.content(JSON))
        reverted = self.videos.to_version(
            request.video_id(),
            wanted.toVersion,
            request.caller,
            request.now,
            fields=wanted.fields,
            force=wanted.force,
            matches=request.matches,
            dry_run=dry_run,
        )
        return respond(
            200,
            {
                "video": self.links.shown(reverted.document, is_own=True),
                **fitting({"changes": reverted.changes}, LARGEST_CHANGES),
                "skipped": [left.document() for left in reverted.skipped],
                "dryRun": dry_run,
            },
            version=reverted.document["version"],
        )

    def revert_changeset(self, request: Request) -> Answer:
        """POST /v1/changesets/{changesetId}/revert"""
        from shared.history.models import NewRevert

        end = self.elapsed() + LAST_PART_SECONDS
        changeset_id = request.correlation_id("changesetId")
        dry_run = request.parameters(RevertChangeset).dry_run
        force = NewRevert.parse(request.content(JSON)).force if request.body else []
        wish = Wish(request.caller, tuple(force), dry_run)
        report, is_done = self.sets.revert(changeset_id, wish, request.now, lambda: self.elapsed() < end)
        # Relative to the request's own URL.
        headers = {} if is_done else {"Location": f"reverts/{quote(report['revertId'], safe='')}"}
        return respond(200 if is_done else 202, report | {"nextCursor": None}, headers=headers)


def make(
    videos: VideoReverts,
    sets: ChangeSetReverts,
    links: Links,
    clock: Callable[[], float] = time.time,
    elapsed: Callable[[], float] = time.monotonic,
) -> LambdaHandler:
    """The handler over what takes changes back; `clock` gives epoch seconds, `elapsed` any that only grow."""
    return make_http_handler("undo", Undo(videos, sets, links, elapsed).handlers(), clock)


def _deployed() -> LambdaHandler:
    client = make_client()
    table = Table(table_name(), client)
    trail = AuditStore(Table(audit_table_name(), client))
    quota = QuotaStore(table, jobs_per_day())
    videos, sets = VideoReverts(VideoStore(table), trail, quota), ChangeSetReverts(table, trail, quota)
    return make(videos, sets, Links(media_bucket(), media_url()))


lambda_handler = entry_point(_deployed, "concurrent.futures", "shared.history.models", "shared.relations.models")
