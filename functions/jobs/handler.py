"""HTTP API of jobs: shows and retries the jobs of a video, sets the poster frame, and accepts reports of transcoders."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.aws.runtime import EntryPoint, Resources
from shared.core.errors import (
    InvalidParameter,
    NoSource,
    NotFound,
    OutdatedReport,
    Unavailable,
    WriteContention,
    invalid_field,
)
from shared.core.settings import Settings
from shared.job_kinds import KIND_PATTERN, KINDS_IN_WORDS, RENDITION, rendition_kind
from shared.processing.daily_quota import QuotaStore
from shared.processing.job_states import JobAttempt, document, owned_jobs, rendition_folder
from shared.processing.job_store import JobStore
from shared.processing.readiness import why_not_ready
from shared.schema import VIDEO
from shared.videos import video
from shared.videos.access import require_owned
from shared.videos.store import VideoStore
from shared.web.http import http_function, operation
from shared.web.parameters import quote_value
from shared.web.requests import JSON, Request
from shared.web.responses import HttpResponse, respond

if TYPE_CHECKING:
    from shared.entities import Job, Video
    from shared.processing.models import RenditionReport

OBJECT = r"([A-Za-z0-9_-][A-Za-z0-9._-]{0,99}/){0,5}[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}"


class JobsSettings(Settings):
    jobs_per_day: int
    media_bucket: str


class JobHandlers:
    """Handlers of the operations on jobs. One instance serves all requests, so its attributes contain no data of a
    single request."""

    def __init__(self, settings: JobsSettings, resources: Resources) -> None:
        table = resources.table(settings.table_name)
        self.videos = VideoStore(table, moves_entries=False)
        self.jobs = JobStore(table)
        self.quota = QuotaStore(table, settings.jobs_per_day)
        self.media_bucket = settings.media_bucket

    @operation("listJobs")
    def list(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}/jobs"""
        return respond(200, {"items": [document(job) for job in self._list_jobs(self._require_own_video(request))]})

    @operation("whyNotReady")
    def why_not_ready(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}/why-not-ready"""
        item = self._require_own_video(request)
        reason, blocker = why_not_ready(item, self._list_jobs(item), request.now)
        return respond(
            200,
            {
                "videoId": item["videoId"],
                "status": item["status"],
                "ready": item["status"] == "ready",
                "reason": reason,
                "blocker": document(blocker) if blocker else None,
            },
        )

    @operation("retryJob")
    def retry(self, request: Request) -> HttpResponse:
        """POST /v1/videos/{videoId}/jobs/{kind}/retry"""
        request.require_no_content()
        kind = request.path["kind"]
        if not re.fullmatch(KIND_PATTERN, kind):
            raise InvalidParameter.named("kind", f"must be {KINDS_IN_WORDS}, not {quote_value(kind)}")
        job = self.jobs.retry(
            request.video_id(),
            kind,
            request.caller,
            request.now,
            lambda owner: self.quota.reserve(owner, 1, request.now),
        )
        return respond(202, document(job))

    @operation("chooseThumbnail")
    def choose_thumbnail(self, request: Request) -> HttpResponse:
        """POST /v1/videos/{videoId}/thumbnail"""
        from shared.processing.models import ThumbnailChoice

        position = ThumbnailChoice.parse(request.content(JSON)).position
        charged = False

        def edit(item: "Video") -> "Video":
            nonlocal charged
            media = item.get("source", {}).get("media")
            if media is None or item["status"] == "deleted":
                raise NoSource("The video has no probed source video. GET .../why-not-ready gives the reason.")
            if position >= media["duration"]:
                detail = f"must be less than {media['duration']}, the milliseconds of the source video, not {position}"
                raise invalid_field("/position", detail)
            edited = video.choose_thumbnail(item, position)
            if edited != item and not charged:
                self.quota.reserve(item["userId"], 1, request.now)
                charged = True
            return edited

        changed = self.videos.change(request.video_id(), request.caller, request.now, edit)
        return respond(202, {"videoId": changed["videoId"], "kind": "poster", "position": position})

    @operation("reportRendition")
    def report(self, request: Request) -> HttpResponse:
        """PUT /v1/videos/{videoId}/renditions/{name}"""
        from shared.processing.models import RenditionReport

        name = request.path["name"]
        if not re.fullmatch(RENDITION, name):
            raise InvalidParameter.named("name", "must have 1 to 64 letters, digits, dots, hyphens or underscores")
        report = RenditionReport.parse(request.content(JSON))
        attempt = JobAttempt(request.video_id(), rendition_kind(name), report.inputHash, report.attempt)
        job = self.jobs.get(attempt)
        if job is None:
            raise NotFound("The video has no job for this rendition. Discard the result.")
        try:
            after = self._apply_report(job, attempt, name, report, request)
        except WriteContention as contention:
            # Not a 409, which would mean that the result is no longer required. The transcoder would then stop
            # (docs/transcode-queue.md).
            raise Unavailable("Other requests are changing the job.") from contention
        if after is None:
            raise OutdatedReport(
                f"The job is {job['state']}, at attempt {int(job['attempt'])} for the input {job['inputHash']}. Stop the work."
            )
        return respond(200, document(after))

    def _apply_report(
        self, job: "Job", attempt: JobAttempt, name: str, report: "RenditionReport", request: Request
    ) -> "Job | None":
        """Apply a transcoder's report to the job, and return the job. `None` if the report is outdated."""
        caller, now = request.caller, request.now
        instance = f"{caller.subject}/{report.worker or ''}"
        match report.state:
            case "running":
                if job["state"] == "queued":
                    claimed = self.jobs.claim(attempt, caller, now, instance)
                    if claimed is None or not report.progress:
                        return claimed
                progress = job["progress"] if report.progress is None else report.progress
                return self.jobs.advance(attempt, int(progress), caller, now, instance)
            case "done":
                uri = str(report.uri)
                folder = rendition_folder(self.media_bucket, attempt.video_id, attempt.input_hash)
                # Only a plain path below the folder. Other software could resolve a path with special characters differently.
                if not (uri.startswith(folder) and re.fullmatch(OBJECT, uri.removeprefix(folder))):
                    raise invalid_field("/uri", "must be an object below the `output` of the job's message")
                size = report.fileSize
                output = {"uri": uri} | ({} if size is None else {"fileSize": size})
                done = self.jobs.complete(
                    attempt, output, caller, now, lambda item: video.add_rendition(item, name, uri, size)
                )
                return done or (_repeated(job, attempt, "done") if job.get("output", {}).get("uri") == uri else None)
            case "failed":
                failed = self.jobs.fail(attempt, str(report.reason), caller, now, retry=report.retry)
                return failed or _repeated(job, attempt, "failed")

    def _list_jobs(self, item: "Video") -> "Sequence[Job]":
        return owned_jobs(item, self.jobs.list_for_video(item["videoId"]))

    def _require_own_video(self, request: Request) -> "Video":
        key = VIDEO.key(videoId=request.video_id())
        return require_owned(self.videos.table.get(key), request.caller, request.now)


def _repeated(job: "Job", attempt: JobAttempt, state: str) -> "Job | None":
    """Return the job if this report has already been applied to it, otherwise `None`. `state` is the state that the
    report causes."""
    same = job["inputHash"] == attempt.input_hash and (state == "done" or job["attempt"] == attempt.number)
    return job if same and job["state"] == state else None


lambda_handler = EntryPoint(JobsSettings, http_function(JobHandlers), preload=("shared.processing.models",))
