"""The operations of the function `uploads`."""

from shared.core import errors
from shared.core.limits import LARGEST_FILM, MOST_PARTS
from shared.films.models import CompleteUpload, NewUpload, UploadedPart
from shared.films.uploads import LARGEST_PUT, MULTIPART_SECONDS, PUT_SECONDS, SMALLEST_PART, UPLOAD_ID
from shared.openapi.spec import (
    BODY_ERRORS,
    EXAMPLE_ID,
    SECONDS,
    VIDEO_ID,
    Operation,
    json_content,
    model_schemas,
    object_of,
    ref,
)
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
_UPLOAD_ID: Schema = {
    "name": "uploadId",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": f"^{UPLOAD_ID}$"},
    "example": UPLOAD,
}
_OWNER_ERRORS = (errors.InvalidParameter, errors.Forbidden, errors.NotFound)

OPERATIONS: dict[str, Operation] = {
    "createUpload": Operation(
        "Begin the upload of a film",
        "The film goes straight to S3, through URLs that accept exactly what is announced here. Up to "
        f"{LARGEST_PUT // 10**6} MB it is one PUT; send all `headers` with it. Larger films come in parts: PUT each, "
        "keep the `ETag` of each answer, and `complete`. The film that arrives last replaces any earlier one. "
        f"The URLs are good for {PUT_SECONDS // 3600} hour, or {MULTIPART_SECONDS // 3600} for parts, but end with the "
        "credentials that they are signed with, so begin at once. Each upload counts against the jobs that the video's "
        "owner may start on one day.",
        {
            201: {
                "description": "Where to send it",
                "content": {
                    JSON: {
                        "schema": {"oneOf": [ref("PutUpload"), ref("MultipartUpload")]},
                        "examples": {"put": {"value": PUT_UPLOAD}, "parts": {"value": MULTIPART_UPLOAD}},
                    }
                },
            }
        },
        (*BODY_ERRORS, *_OWNER_ERRORS, errors.IllegalTransition, errors.WriteContention, errors.QuotaExceeded),
        (VIDEO_ID,),
        {
            "required": True,
            "content": {
                JSON: {
                    "schema": ref("NewUpload"),
                    "example": {"contentType": "video/mp4", "fileSize": 75_000_000},
                }
            },
        },
    ),
    "completeUpload": Operation(
        "Complete an upload that came in parts",
        "With the ETag of every part. Completing it again changes nothing and returns the same answer.",
        {
            200: {
                "description": "The film has arrived and will be examined",
                **json_content(ref("ReceivedUpload"), {"uploadId": UPLOAD, "videoId": EXAMPLE_ID, "state": "received"}),
            }
        },
        (*BODY_ERRORS, *_OWNER_ERRORS, errors.IllegalTransition, errors.WriteContention),
        (VIDEO_ID, _UPLOAD_ID),
        {
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
        "What still arrives of it is ignored. Aborting it again changes nothing; a completed upload can only be replaced by "
        "another.",
        {204: {"description": "Aborted"}},
        (*_OWNER_ERRORS, errors.IllegalTransition, errors.WriteContention),
        (VIDEO_ID, _UPLOAD_ID),
    ),
}


def schemas() -> Schema:
    """The schemas of requests and answers, by name."""
    upload_id: Schema = {"type": "string", "pattern": f"^{UPLOAD_ID}$", "description": "Later ones sort higher"}
    url: Schema = {"type": "string", "format": "uri"}
    relative: Schema = {
        "type": "string",
        "format": "uri-reference",
        "description": "Relative to the URL of the request that began the upload",
    }
    size: Schema = {"type": "integer", "minimum": 1, "maximum": LARGEST_FILM, "description": "Bytes"}
    method: Schema = {"type": "string", "const": "PUT"}
    headers: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
    end: Schema = {**SECONDS, "description": "Epoch seconds; the URLs expire then at the latest"}
    part = object_of(
        {
            "partNumber": {"type": "integer", "minimum": 1, "maximum": MOST_PARTS},
            "method": method,
            "url": url,
            "size": size,
        }
    )
    return model_schemas(NewUpload, CompleteUpload, UploadedPart) | {
        "PutUpload": object_of(
            {
                "uploadId": upload_id,
                "method": method,
                "url": url,
                "headers": {**headers, "description": "Send these with the PUT"},
                "abort": {**relative, "description": "DELETE aborts the upload. " + relative["description"]},
                "expiresAt": end,
            }
        ),
        "MultipartUpload": object_of(
            {
                "uploadId": upload_id,
                "partSize": size,
                "parts": {"type": "array", "items": part, "minItems": 1, "maxItems": MOST_PARTS},
                "complete": {**relative, "description": "POST completes it. " + relative["description"]},
                "abort": {**relative, "description": "DELETE aborts the upload. " + relative["description"]},
                "expiresAt": end,
            }
        ),
        "ReceivedUpload": object_of(
            {
                "uploadId": upload_id,
                "videoId": {"type": "string", "format": "uuid"},
                "state": {"type": "string", "const": "received"},
            }
        ),
    }
