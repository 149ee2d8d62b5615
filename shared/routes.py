"""Route table: the operations of the API, each with its path, its function, and the scope that the caller's token
needs.

CDK creates the gateway's routes from this table, and the OpenAPI document is generated from it. Functions use the table
to find the handler of a request. The function `public` handles requests without a route, and uses the table to choose
between 404 and 405.
"""

from typing import Literal, NamedTuple

Method = Literal["GET", "POST", "PATCH", "PUT", "DELETE"]

READ = "videos/read"
WRITE = "videos/write"
TRANSCODE = "videos/transcode"
CHANGES = "videos/changes"
ADMIN = "videos/admin"
_AUDITED = frozenset({"videos", "relations", "captions", "playlists", "undo"})
"""Names of the functions that record all writes of a request as one change set. The request id is the id of the change
set."""
SCOPES = {
    READ: "Read videos, count views, and rate videos",
    WRITE: "Create, change, delete and restore your own videos and playlists",
    TRANSCODE: "Report on the renditions of all videos, as a transcoder",
    CHANGES: "List the changes of all users' videos and playlists",
    ADMIN: "Use all operations, on all users' videos",
}


class Route(NamedTuple):
    """Route of one operation of the API."""

    operation: str
    """Name of the operation (OpenAPI's operationId). It selects the handler. An idempotency key applies only to
    requests of the same operation."""
    method: Method
    path: str
    """Path template with parameters in braces, as in API Gateway and OpenAPI."""
    function: str
    """Name of the Lambda function that serves the operation. It is also the name of the function's folder in
    `functions/`."""
    scope: str | None
    """Scope that the token needs; `None` if the route needs no token. `videos/admin` implies all other scopes."""
    takes_rest: bool = False
    """Whether the last path parameter matches the rest of the path, including slashes.

    Parameters with values that may contain `%2F` need this, because the gateway decodes `%2F` before it matches routes.
    """

    @property
    def gateway_path(self) -> str:
        """Path in API Gateway's syntax, in which `{name+}` is a parameter that matches the rest of the path."""
        return f"{self.path.removesuffix('}')}+}}" if self.takes_rest else self.path

    @property
    def makes_change_set(self) -> bool:
        """Whether the service records the writes of a request as a change set (docs/history.md)."""
        return self.operation == "chooseThumbnail" or (self.scope == WRITE and self.function in _AUDITED)

    @property
    def key(self) -> str:
        """Route key for API Gateway, such as `GET /v1/videos/{videoId}`."""
        return f"{self.method} {self.gateway_path}"


ROUTES = (
    Route("createVideo", "POST", "/v1/videos", "videos", WRITE),
    Route("listVideos", "GET", "/v1/videos", "videos", READ),
    Route("batchGetVideos", "POST", "/v1/videos/batch-get", "videos", READ),
    Route("batchVideos", "POST", "/v1/videos/batch", "videos", WRITE),
    Route("getVideo", "GET", "/v1/videos/{videoId}", "videos", READ),
    Route("getVideoByExternalId", "GET", "/v1/external-ids/{externalId}", "videos", READ, takes_rest=True),
    Route("getVideoBySlug", "GET", "/v1/slugs/{slug}", "videos", READ),
    Route("patchVideo", "PATCH", "/v1/videos/{videoId}", "videos", WRITE),
    Route("deleteVideo", "DELETE", "/v1/videos/{videoId}", "videos", WRITE),
    Route("restoreVideo", "POST", "/v1/videos/{videoId}/restore", "videos", WRITE),
    Route("listEpisodes", "GET", "/v1/videos/{videoId}/episodes", "videos", READ),
    Route("countView", "POST", "/v1/videos/{videoId}/views", "views", READ),
    Route("countViews", "POST", "/v1/views", "views", READ),
    Route("getViews", "GET", "/v1/videos/{videoId}/views", "views", READ),
    Route("explainViews", "GET", "/v1/videos/{videoId}/views/explain", "views", READ),
    Route("createUpload", "POST", "/v1/videos/{videoId}/upload", "uploads", WRITE),
    Route("getUpload", "GET", "/v1/videos/{videoId}/upload/{uploadId}", "uploads", WRITE),
    Route("completeUpload", "POST", "/v1/videos/{videoId}/upload/{uploadId}/complete", "uploads", WRITE),
    Route("abortUpload", "DELETE", "/v1/videos/{videoId}/upload/{uploadId}", "uploads", WRITE),
    Route("chooseThumbnail", "POST", "/v1/videos/{videoId}/thumbnail", "jobs", WRITE),
    Route("reportRendition", "PUT", "/v1/videos/{videoId}/renditions/{name}", "jobs", TRANSCODE),
    Route("listJobs", "GET", "/v1/videos/{videoId}/jobs", "jobs", READ),
    Route("retryJob", "POST", "/v1/videos/{videoId}/jobs/{kind}/retry", "jobs", WRITE),
    Route("whyNotReady", "GET", "/v1/videos/{videoId}/why-not-ready", "jobs", READ),
    Route("getPlayback", "GET", "/v1/videos/{videoId}/playback", "playback", READ),
    Route("listCredits", "GET", "/v1/videos/{videoId}/credits", "relations", READ),
    Route("getCredit", "GET", "/v1/videos/{videoId}/credits/{personId}", "relations", READ),
    Route("putCredit", "PUT", "/v1/videos/{videoId}/credits/{personId}", "relations", WRITE),
    Route("deleteCredit", "DELETE", "/v1/videos/{videoId}/credits/{personId}", "relations", WRITE),
    Route("listPersonVideos", "GET", "/v1/people/{personId}/videos", "relations", READ),
    Route("listReleases", "GET", "/v1/videos/{videoId}/releases", "relations", READ),
    Route("listRegionReleases", "GET", "/v1/videos/{videoId}/releases/{region}", "relations", READ),
    Route("getRelease", "GET", "/v1/videos/{videoId}/releases/{region}/{language}", "relations", READ),
    Route("putRegionRelease", "PUT", "/v1/videos/{videoId}/releases/{region}", "relations", WRITE),
    Route("putRelease", "PUT", "/v1/videos/{videoId}/releases/{region}/{language}", "relations", WRITE),
    Route("deleteRegionRelease", "DELETE", "/v1/videos/{videoId}/releases/{region}", "relations", WRITE),
    Route("deleteRelease", "DELETE", "/v1/videos/{videoId}/releases/{region}/{language}", "relations", WRITE),
    Route("listCaptions", "GET", "/v1/videos/{videoId}/captions", "captions", READ),
    Route("getCaptions", "GET", "/v1/videos/{videoId}/captions/{language}", "captions", READ),
    Route("putCaptions", "PUT", "/v1/videos/{videoId}/captions/{language}", "captions", WRITE),
    Route("deleteCaptions", "DELETE", "/v1/videos/{videoId}/captions/{language}", "captions", WRITE),
    Route("getChapters", "GET", "/v1/videos/{videoId}/chapters", "captions", READ),
    Route("putChapters", "PUT", "/v1/videos/{videoId}/chapters", "captions", WRITE),
    Route("deleteChapters", "DELETE", "/v1/videos/{videoId}/chapters", "captions", WRITE),
    Route("getRating", "GET", "/v1/videos/{videoId}/rating", "ratings", READ),
    Route("putRating", "PUT", "/v1/videos/{videoId}/rating", "ratings", READ),
    Route("deleteRating", "DELETE", "/v1/videos/{videoId}/rating", "ratings", READ),
    Route("searchVideos", "GET", "/v1/search", "search", READ),
    Route("similarVideos", "GET", "/v1/videos/{videoId}/similar", "search", READ),
    Route("listTags", "GET", "/v1/tags", "totals", READ),
    Route("listTop", "GET", "/v1/top", "totals", READ),
    Route("listFolders", "GET", "/v1/folders", "totals", READ),
    Route("getFolder", "GET", "/v1/folders/{folder}", "totals", READ, takes_rest=True),
    Route("getUser", "GET", "/v1/users/{userId}", "totals", READ, takes_rest=True),
    Route("getOperations", "GET", "/v1/operations", "totals", ADMIN),
    Route("createPlaylist", "POST", "/v1/playlists", "playlists", WRITE),
    Route("listPlaylists", "GET", "/v1/playlists", "playlists", READ),
    Route("getPlaylist", "GET", "/v1/playlists/{playlistId}", "playlists", READ),
    Route("patchPlaylist", "PATCH", "/v1/playlists/{playlistId}", "playlists", WRITE),
    Route("deletePlaylist", "DELETE", "/v1/playlists/{playlistId}", "playlists", WRITE),
    Route("listEntries", "GET", "/v1/playlists/{playlistId}/entries", "playlists", READ),
    Route("appendEntry", "POST", "/v1/playlists/{playlistId}/entries", "playlists", WRITE),
    Route("moveEntry", "PATCH", "/v1/playlists/{playlistId}/entries/{videoId}", "playlists", WRITE),
    Route("removeEntry", "DELETE", "/v1/playlists/{playlistId}/entries/{videoId}", "playlists", WRITE),
    Route("listVideoPlaylists", "GET", "/v1/videos/{videoId}/playlists", "playlists", READ),
    Route("listAudit", "GET", "/v1/videos/{videoId}/audit", "history", READ),
    Route("getChangeset", "GET", "/v1/changesets/{changesetId}", "history", READ),
    Route("getRevert", "GET", "/v1/changesets/{changesetId}/reverts/{revertId}", "history", READ),
    Route("revertVideo", "POST", "/v1/videos/{videoId}/revert", "undo", WRITE),
    Route("listPlaylistAudit", "GET", "/v1/playlists/{playlistId}/audit", "history", READ),
    Route("getDiff", "GET", "/v1/videos/{videoId}/diff", "history", READ),
    Route("revertChangeset", "POST", "/v1/changesets/{changesetId}/revert", "undo", WRITE),
    Route("moveFolder", "POST", "/v1/folder-moves", "undo", WRITE),
    Route("getFolderMove", "GET", "/v1/folder-moves/{moveId}", "history", READ),
    Route("listChanges", "GET", "/v1/changes", "history", READ),
    Route("listQuestions", "GET", "/v1/questions", "history", ADMIN),
    Route("runQuestion", "POST", "/v1/questions/{question}/runs", "history", ADMIN),
    Route("getQuestionRun", "GET", "/v1/questions/{question}/runs/{runId}", "history", ADMIN),
    Route("createWebhook", "POST", "/v1/webhooks", "webhooks", WRITE),
    Route("listWebhooks", "GET", "/v1/webhooks", "webhooks", READ),
    Route("getWebhook", "GET", "/v1/webhooks/{webhookId}", "webhooks", READ),
    Route("patchWebhook", "PATCH", "/v1/webhooks/{webhookId}", "webhooks", WRITE),
    Route("deleteWebhook", "DELETE", "/v1/webhooks/{webhookId}", "webhooks", WRITE),
    Route("rotateSecret", "POST", "/v1/webhooks/{webhookId}/rotate", "webhooks", WRITE),
    Route("replayWebhook", "POST", "/v1/webhooks/{webhookId}/replay", "webhooks", WRITE),
    Route("testWebhook", "POST", "/v1/webhooks/{webhookId}/test", "webhooks", WRITE),
    Route("listDeliveries", "GET", "/v1/webhooks/{webhookId}/deliveries", "webhooks", READ),
    Route("getHealth", "GET", "/health", "public", None),
    Route("getOpenApi", "GET", "/openapi.json", "public", None),
    Route("getDocs", "GET", "/docs", "public", None),
    Route("getDocsAsset", "GET", "/docs/{asset}", "public", None),
)
"""All routes of the gateway, except the route `$default`. That route invokes the function `public` without an
authorizer."""

DEFAULT_FUNCTION = "public"
