"""Access patterns of uploads and jobs."""

from shared.access_patterns.pattern import AccessPattern
from shared.schema import (
    JOB,
    QUOTA,
    UPLOAD,
    VIDEO,
)

_UPLOAD_OPEN = "The video says who may; the upload, whether it is still open and where its parts are, before S3 is asked to do anything."

FILMS = (
    AccessPattern(
        "Begin the upload of a film",
        "POST /v1/videos/{videoId}/upload",
        ("GetItem", "UpdateItem", "PutItem"),
        None,
        f"the video; ADD on pk = {QUOTA.pk}, sk = {QUOTA.sk} below the cap; pk = {UPLOAD.pk}, sk = {UPLOAD.sk}",
        "1 RRU, 2 WRU",
        beyond="The read says whose video it is; a quota is counted before an upload may begin.",
    ),
    AccessPattern(
        "Complete an upload that came in parts",
        "POST /v1/videos/{videoId}/upload/{uploadId}/complete",
        ("GetItem", "GetItem", "UpdateItem"),
        None,
        f"the video; pk = {UPLOAD.pk}, sk = {UPLOAD.sk}, then if it is still open",
        "2 RRU, 1 WRU",
        beyond=_UPLOAD_OPEN,
    ),
    AccessPattern(
        "Give up an upload",
        "DELETE /v1/videos/{videoId}/upload/{uploadId}",
        ("GetItem", "GetItem", "UpdateItem"),
        None,
        f"the video; pk = {UPLOAD.pk}, sk = {UPLOAD.sk}, then if it is still open",
        "2 RRU, 1 WRU",
        beyond=_UPLOAD_OPEN,
    ),
    AccessPattern(
        "Take in a film that has arrived",
        "S3 notifies: arrivals",
        ("GetItem", "UpdateItem", "GetItem", "UpdateItem"),
        None,
        f"pk = {UPLOAD.pk}, sk = {UPLOAD.sk}, then if it is still open; the video, then if its version is the one read",
        "2 RRU, 2 WRU, and the indexes",
        beyond="Two reads and two writes, each write on its own condition: to take a message in twice does nothing twice, without a transaction.",
    ),
    AccessPattern(
        "The jobs of a video",
        "GET /v1/videos/{videoId}/jobs",
        ("GetItem", "Query"),
        None,
        f"pk = {VIDEO.pk}, sk begins with JOB#; the video, to know who asks for its own",
        "0.5 RRU, and 0.5 per 4 KB of jobs",
    ),
    AccessPattern(
        "What keeps a video from being ready",
        "GET /v1/videos/{videoId}/why-not-ready",
        ("GetItem", "Query"),
        None,
        f"pk = {VIDEO.pk}, sk begins with JOB#; and the video",
        "0.5 RRU, and 0.5 per 4 KB of jobs",
    ),
    AccessPattern(
        "What a player needs of a video",
        "GET /v1/videos/{videoId}/playback",
        ("GetItem",),
        None,
        f"pk = {VIDEO.pk}, sk = {VIDEO.sk}",
        "0.5 RRU",
    ),
    AccessPattern(
        "Try a failed job again",
        "POST /v1/videos/{videoId}/jobs/{kind}/retry",
        ("GetItem", "GetItem", "UpdateItem", "UpdateItem"),
        None,
        f"the video and pk = {JOB.pk}, sk = {JOB.sk}; ADD on pk = {QUOTA.pk}, sk = {QUOTA.sk} below the cap; then the job "
        "if nobody wrote it meanwhile",
        "2 RRU, 4 WRU with the index; in one transaction with the video, and its indexes, when that had failed",
        beyond="The reads say whose video it is and whether the job has failed; a quota is counted before it starts again.",
    ),
    AccessPattern(
        "Choose the moment that the poster shows",
        "POST /v1/videos/{videoId}/thumbnail",
        ("GetItem", "UpdateItem", "UpdateItem"),
        None,
        "the video; ADD on its owner's quota; the video if its version is the one read",
        "1 RRU, 2 WRU",
        beyond="The read says whose video it is, and what it is changed from; a quota is counted before a job starts.",
    ),
    AccessPattern(
        "Begin a rendition",
        "PUT /v1/videos/{videoId}/renditions/{name} (running)",
        ("GetItem", "UpdateItem"),
        None,
        f"pk = {JOB.pk}, sk = JOB#transcode.{{name}}, if its input and attempt are the reported ones",
        "1 RRU, 3 WRU (the item, and its place in the index moves)",
        beyond="The read says whether the report is about the present film and attempt.",
    ),
    AccessPattern(
        "Report a rendition's result",
        "PUT /v1/videos/{videoId}/renditions/{name} (done)",
        ("GetItem", "GetItem", "GetItem", "TransactWriteItems"),
        None,
        "the job twice, the video; then both, if neither was written meanwhile",
        "3 RRU, 4 WRU, and the indexes",
        beyond="The job is read before the video and again after it, and both change in one transaction, so that a report of an earlier film never shows.",
    ),
)
