"""HTTP API of uploads: presigned URLs with which clients send a source file directly to S3."""

import re
from typing import Any

from shared.aws.runtime import EntryPoint, Resources
from shared.core.errors import InvalidParameter
from shared.core.settings import Settings
from shared.processing.daily_quota import QuotaStore
from shared.processing.desired_jobs import jobs_per_upload
from shared.processing.models import CompleteUpload, NewUpload
from shared.processing.uploads import UPLOAD_ID, OpenUpload, UploadService, UploadStore
from shared.web.http import http_function, operation
from shared.web.requests import JSON, Request
from shared.web.responses import HttpResponse, no_content, respond

NOT_CACHED = {"Cache-Control": "no-store"}
"""Header of responses with presigned URLs. Caches must not store these responses, because the URLs authorise
uploads."""


class UploadsSettings(Settings):
    sources_bucket: str
    jobs_per_day: int
    renditions: tuple[str, ...]


class UploadHandlers:
    """Handlers of the operations on uploads. One instance serves all requests, so its attributes contain no data of a
    single request."""

    def __init__(self, settings: UploadsSettings, resources: Resources) -> None:
        table = resources.table(settings.table_name)
        self.service = UploadService(
            UploadStore(table),
            resources.objects,
            settings.sources_bucket,
            QuotaStore(table, settings.jobs_per_day),
            jobs_per_upload(len(settings.renditions)),
        )
        self.clock = resources.clock

    @operation("createUpload")
    def create(self, request: Request) -> HttpResponse:
        """POST /v1/videos/{videoId}/upload"""
        body = NewUpload.parse(request.content(JSON))
        # The id contains the time in milliseconds, because two uploads may begin in the same second.
        upload = self.service.begin(
            request.video_id(), body.contentType, body.fileSize, request.caller, int(self.clock() * 1000)
        )
        return respond(201, {"uploadId": upload.upload_id} | _upload_methods(upload), headers=NOT_CACHED)

    @operation("getUpload")
    def read(self, request: Request) -> HttpResponse:
        """GET /v1/videos/{videoId}/upload/{uploadId}"""
        item, upload = self.service.read(request.video_id(), _upload_id(request), request.caller, request.now)
        facts = {name: item[name] for name in ("uploadId", "videoId", "state", "contentType", "fileSize")}
        return respond(200, facts | (_upload_methods(upload) if upload else {}), headers=NOT_CACHED)

    @operation("completeUpload")
    def complete(self, request: Request) -> HttpResponse:
        """POST /v1/videos/{videoId}/upload/{uploadId}/complete"""
        etags = [part.etag for part in CompleteUpload.parse(request.content(JSON)).parts]
        video_id, upload_id = request.video_id(), _upload_id(request)
        self.service.complete(video_id, upload_id, etags, request.caller, request.now)
        return respond(200, {"uploadId": upload_id, "videoId": video_id, "state": "received"})

    @operation("abortUpload")
    def abort(self, request: Request) -> HttpResponse:
        """DELETE /v1/videos/{videoId}/upload/{uploadId}"""
        self.service.abort(request.video_id(), _upload_id(request), request.caller, request.now)
        return no_content()


def _upload_methods(upload: OpenUpload) -> dict[str, Any]:
    """Return the URLs with which a client sends, completes and aborts an upload, as fields of a response."""
    # Relative to the URL of createUpload, so that the URLs are also valid behind a proxy with another path prefix.
    path = f"upload/{upload.upload_id}"
    if upload.put:
        url, headers = upload.put
        methods: dict[str, Any] = {"method": "PUT", "url": url, "headers": headers}
    else:
        methods = {
            "partSize": upload.parts[0].size,
            "parts": [
                {"partNumber": number}
                | ({"method": "PUT", "url": part.url} if part.url else {"etag": part.etag})
                | {"size": part.size}
                for number, part in enumerate(upload.parts, 1)
            ],
            "complete": f"{path}/complete",
        }
    return methods | {"abort": path, "expiresAt": upload.expires_at}


def _upload_id(request: Request) -> str:
    upload_id = request.path["uploadId"]
    if not re.fullmatch(UPLOAD_ID, upload_id):
        raise InvalidParameter.named("uploadId", "must be the uploadId of a response to POST .../upload")
    return upload_id


lambda_handler = EntryPoint(UploadsSettings, http_function(UploadHandlers))
