"""The route table: which function serves which request, and what the caller's token must allow.

CDK makes the gateway's routes from it, the functions register their handlers by it, the OpenAPI document
lists it, and the `$default` route answers 404 or 405 from it.
"""

from dataclasses import dataclass
from typing import Literal

Method = Literal["GET", "POST", "PATCH", "PUT", "DELETE"]

READ = "videos/read"
WRITE = "videos/write"
TRANSCODE = "videos/transcode"
ADMIN = "videos/admin"
SCOPES = {
    READ: "See videos and count views",
    WRITE: "Create, change, delete and restore one's own videos",
    TRANSCODE: "Report on the renditions of all videos, as a transcoder",
    ADMIN: "Everything, on everybody's videos",
}


@dataclass(frozen=True)
class Route:
    """One operation of the API."""

    operation: str
    """OpenAPI's operationId, the name of its handler, and the scope of its idempotency keys."""
    method: Method
    path: str
    """With parameters in braces, as API Gateway and OpenAPI spell them."""
    function: str
    """The folder below `functions/` that serves it."""
    scope: str | None
    """The scope the caller needs (`videos/admin` implies the others); None: no token, no authorizer."""


ROUTES = (
    Route("createVideo", "POST", "/v1/videos", "videos", WRITE),
    Route("listVideos", "GET", "/v1/videos", "videos", READ),
    Route("getVideo", "GET", "/v1/videos/{videoId}", "videos", READ),
    Route("patchVideo", "PATCH", "/v1/videos/{videoId}", "videos", WRITE),
    Route("deleteVideo", "DELETE", "/v1/videos/{videoId}", "videos", WRITE),
    Route("restoreVideo", "POST", "/v1/videos/{videoId}/restore", "videos", WRITE),
    Route("countView", "POST", "/v1/videos/{videoId}/views", "views", READ),
    Route("createUpload", "POST", "/v1/videos/{videoId}/upload", "uploads", WRITE),
    Route("completeUpload", "POST", "/v1/videos/{videoId}/upload/{uploadId}/complete", "uploads", WRITE),
    Route("abortUpload", "DELETE", "/v1/videos/{videoId}/upload/{uploadId}", "uploads", WRITE),
    Route("chooseThumbnail", "POST", "/v1/videos/{videoId}/thumbnail", "jobs", WRITE),
    Route("reportRendition", "PUT", "/v1/videos/{videoId}/renditions/{name}", "jobs", TRANSCODE),
    Route("listJobs", "GET", "/v1/videos/{videoId}/jobs", "jobs", READ),
    Route("retryJob", "POST", "/v1/videos/{videoId}/jobs/{kind}/retry", "jobs", WRITE),
    Route("whyNotReady", "GET", "/v1/videos/{videoId}/why-not-ready", "jobs", READ),
    Route("listAudit", "GET", "/v1/videos/{videoId}/audit", "history", READ),
    Route("getHealth", "GET", "/health", "public", None),
    Route("getOpenApi", "GET", "/openapi.json", "public", None),
    Route("getDocs", "GET", "/docs", "public", None),
    Route("getDocsAsset", "GET", "/docs/{asset}", "public", None),
)
"""Every route that is not `$default`. The `$default` route goes to the function `public`, without authorizer."""

DEFAULT_FUNCTION = "public"


def routes_of(function: str) -> tuple[Route, ...]:
    """The routes that one function serves."""
    return tuple(route for route in ROUTES if route.function == function)
