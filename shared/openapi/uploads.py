"""OpenAPI documentation of the operations of the function `uploads`."""

from shared.core import errors
from shared.core.limits import MAX_PARTS, MAX_SOURCE_BYTES
from shared.openapi.spec import (
    BODY_ERRORS,
    EXAMPLE_ID,
    SECONDS,
    Operation,
    json_content,
    model_schemas,
    object_of,
    ref,
)
from shared.processing.models import CompleteUpload, NewUpload, UploadedPart
from shared.processing.uploads import LARGEST_PUT, MULTIPART_SECONDS, PUT_SECONDS, SMALLEST_PART, UPLOAD_DAYS, UPLOAD_ID
from shared.web.parameters import Schema
from shared.web.requests import JSON

UPLOAD = "019775a1c00-9f86d081884c7d65"
_BUCKET = "https://sources.s3.us-east-1.amazonaws.com"
PUT_UPLOAD: Schema = {
    "uploadId": UPLOAD,
    "method": "PUT",
    "url": f"{_BUCKET}/{EXAMPLE_ID}/{UPLOAD}?X-Amz-Signature=...",
    "headers": {"Content-Type": "video/mp4", "If-None-Match": "*"},
    "abort": f"upload/{UPLOAD}",
    "expiresAt": 1717648800,
}
MULTIPART_UPLOAD: Schema = {
    "uploadId": UPLOAD,
    "partSize": SMALLEST_PART,
    "parts": [
        {
            "partNumber": number,
            "method": "PUT",
            "url": f"{_BUCKET}/{EXAMPLE_ID}/{UPLOAD}?partNumber={number}&X-Amz-Signature=...",
            "size": size,
        }
        for number, size in enumerate([SMALLEST_PART] * 3 + [19_336_704], 1)
    ],
    "complete": f"upload/{UPLOAD}/complete",
    "abort": f"upload/{UPLOAD}",
    "expiresAt": 1717666800,
}
_FACTS: Schema = {"uploadId": UPLOAD, "videoId": EXAMPLE_ID, "state": "open", "contentType": "video/mp4"}
_OPEN_PUT: Schema = _FACTS | {"fileSize": 75_000_000} | PUT_UPLOAD
_OPEN_PARTS: Schema = (
    _FACTS
    | {"fileSize": 3 * SMALLEST_PART + 19_336_704}
    | MULTIPART_UPLOAD
    | {
        "parts": [
            {"partNumber": 1, "etag": '"b1946ac92492d2347c6235b4d2611184"', "size": SMALLEST_PART},
            *MULTIPART_UPLOAD["parts"][1:],
        ]
    }
)
_ENDED: Schema = _FACTS | {"state": "received", "fileSize": 75_000_000}
PATH_PARAMETERS: dict[str, Schema] = {
    "uploadId": {
        "schema": {"type": "string", "pattern": f"^{UPLOAD_ID}$"},
        "example": UPLOAD,
    }
}
_OWNER_ERRORS = (errors.InvalidParameter, errors.Forbidden, errors.NotFound)

TAG_DESCRIPTIONS = {"uploads": "Upload source videos to S3"}
OPERATIONS: dict[str, Operation] = {
    "createUpload": Operation(
        "Start an upload",
        "Returns signed S3 URLs that accept exactly the announced file: one PUT with all `headers` up to "
        f"{LARGEST_PUT // 10**6} MB, or one for each part. Start at once, because the URLs expire in "
        f"{PUT_SECONDS // 3600} hour, or {MULTIPART_SECONDS // 3600} for parts, and earlier with the signing "
        "credentials. Each upload counts against the owner's daily job quota, and the latest file to arrive "
        "replaces earlier ones.",
        {
            201: {
                "description": "The URLs to send the file to",
                "content": {
                    JSON: {
                        "schema": {"oneOf": [ref("PutUpload"), ref("MultipartUpload")]},
                        "examples": {"put": {"value": PUT_UPLOAD}, "parts": {"value": MULTIPART_UPLOAD}},
                    }
                },
            }
        },
        (*BODY_ERRORS, *_OWNER_ERRORS, errors.IllegalTransition, errors.WriteContention, errors.QuotaExceeded),
        body={
            "required": True,
            "content": {
                JSON: {
                    "schema": ref("NewUpload"),
                    "example": {"contentType": "video/mp4", "fileSize": 75_000_000},
                }
            },
        },
    ),
    "getUpload": Operation(
        "Resume an upload",
        "Signs fresh URLs for the single PUT or the missing parts, and returns the ETags of received parts for "
        f"`complete`. It changes nothing and counts against no quota. An upload expires {UPLOAD_DAYS} days after "
        "its start, at the next midnight (UTC), and no URL is valid for longer.",
        {
            200: {
                "description": "The state, with URLs if it is `open`. `refused`: the file differs from the announced one; `aborted`: by the "
                "client or by expiry; `replaced`: by a later upload",
                "content": {
                    JSON: {
                        "schema": {"oneOf": [ref("OpenPutUpload"), ref("OpenMultipartUpload"), ref("EndedUpload")]},
                        "examples": {
                            "put": {"value": _OPEN_PUT},
                            "parts": {"value": _OPEN_PARTS},
                            "ended": {"value": _ENDED},
                        },
                    }
                },
            }
        },
        (*_OWNER_ERRORS, errors.IllegalTransition),
    ),
    "completeUpload": Operation(
        "Complete a multipart upload",
        "The body has the ETag of every part. Repeating the request changes nothing and returns the same response.",
        {
            200: {
                "description": "The file was received and will be probed",
                **json_content(ref("ReceivedUpload"), {"uploadId": UPLOAD, "videoId": EXAMPLE_ID, "state": "received"}),
            }
        },
        (*BODY_ERRORS, *_OWNER_ERRORS, errors.IllegalTransition, errors.WriteContention),
        body={
            "required": True,
            "content": {
                JSON: {
                    "schema": ref("CompleteUpload"),
                    "example": {
                        "parts": [
                            {"partNumber": number, "etag": f'"{number}b1946ac92492d2347c6235b4d2611184"'}
                            for number in (1, 2, 3)
                        ]
                    },
                }
            },
        },
    ),
    "abortUpload": Operation(
        "Abort an upload",
        "Data that arrives later is ignored, and repeating the request changes nothing. A completed upload can "
        "only be replaced by another one.",
        {204: {"description": "Aborted"}},
        (*_OWNER_ERRORS, errors.IllegalTransition, errors.WriteContention),
    ),
}


def schemas() -> Schema:
    """Return the schemas of requests and responses, by name."""
    upload_id: Schema = {"type": "string", "pattern": f"^{UPLOAD_ID}$", "description": "Ids sort by time"}
    url: Schema = {"type": "string", "format": "uri"}
    relative: Schema = {
        "type": "string",
        "format": "uri-reference",
        "description": "Relative to the URL of the request that started the upload",
    }
    size: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_SOURCE_BYTES, "description": "Bytes"}
    method: Schema = {"type": "string", "const": "PUT"}
    headers: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
    end: Schema = {**SECONDS, "description": "Epoch seconds; the URLs expire no later"}
    part: Schema = {
        "partNumber": {"type": "integer", "minimum": 1, "maximum": MAX_PARTS},
        "method": method,
        "url": url,
        "size": size,
    }
    etag: Schema = {"type": "string", "description": "ETag of a received part, for `complete`"}
    open_part = object_of(part | {"etag": etag}, optional=("method", "url", "etag"))
    put: Schema = {
        "uploadId": upload_id,
        "method": method,
        "url": url,
        "headers": {**headers, "description": "Headers to send with the PUT"},
        "abort": {**relative, "description": "DELETE aborts the upload. " + relative["description"]},
        "expiresAt": end,
    }
    parts: Schema = {
        "uploadId": upload_id,
        "partSize": size,
        "parts": _parts(object_of(part)),
        "complete": {**relative, "description": "POST completes the upload. " + relative["description"]},
        "abort": {**relative, "description": "DELETE aborts the upload. " + relative["description"]},
        "expiresAt": end,
    }
    facts: Schema = {
        "videoId": {"type": "string", "format": "uuid"},
        "contentType": {"type": "string", "description": "Content type as announced"},
        "fileSize": {**size, "description": "Size in bytes as announced"},
    }
    open_facts = facts | {"state": {"type": "string", "const": "open"}}
    ended: Schema = {"type": "string", "enum": ["received", "refused", "aborted", "replaced"]}
    return model_schemas(NewUpload, CompleteUpload, UploadedPart) | {
        "PutUpload": object_of(put),
        "MultipartUpload": object_of(parts),
        "OpenPutUpload": object_of(open_facts | put),
        "OpenMultipartUpload": object_of(
            open_facts
            | parts
            | {
                "parts": {
                    **_parts(open_part),
                    "description": "Received parts have an `etag`; missing parts have `method` and `url`",
                }
            }
        ),
        "EndedUpload": object_of({"uploadId": upload_id, "state": ended} | facts),
        "ReceivedUpload": object_of(
            {
                "uploadId": upload_id,
                "videoId": {"type": "string", "format": "uuid"},
                "state": {"type": "string", "const": "received"},
            }
        ),
    }


def _parts(part: Schema) -> Schema:
    return {"type": "array", "items": part, "minItems": 1, "maxItems": MAX_PARTS}
