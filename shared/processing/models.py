"""Request bodies for uploads and jobs."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from shared.core.checks import whole
from shared.core.fields import InputHash, Milliseconds, Name, S3Uri, SourceType, line
from shared.core.limits import MAX_PARTS, MAX_SOURCE_BYTES
from shared.web.bodies import Content


def _in_order(parts: list["UploadedPart"]) -> list["UploadedPart"]:
    if [part.partNumber for part in parts] != list(range(1, len(parts) + 1)):
        raise ValueError("must be numbered 1, 2, 3 and so on, without gaps")
    return parts


class NewUpload(Content):
    """The body of `POST /v1/videos/{videoId}/upload`: type and size of the file."""

    contentType: SourceType
    fileSize: Annotated[
        int, Field(strict=True, ge=1, le=MAX_SOURCE_BYTES, description="Exact size in bytes"), BeforeValidator(whole)
    ]


class UploadedPart(Content):
    """One part of a multipart upload, as acknowledged by S3."""

    partNumber: Annotated[int, Field(strict=True, ge=1, le=MAX_PARTS), BeforeValidator(whole)]
    etag: Annotated[str, line(200), Field(description="`ETag` header of S3's response for the part")]


class CompleteUpload(Content):
    """The body of `POST /v1/videos/{videoId}/upload/{uploadId}/complete`: every part, in order."""

    parts: Annotated[
        list[UploadedPart],
        Field(min_length=1, max_length=MAX_PARTS, description="Parts numbered 1, 2, 3 and so on, without a gap"),
        AfterValidator(_in_order),
    ]


class ThumbnailChoice(Content):
    """The body of `POST /v1/videos/{videoId}/thumbnail`: the poster frame."""

    position: Milliseconds = Field(description="Milliseconds from the start of the video")


class RenditionReport(Content):
    """The body of `PUT /v1/videos/{videoId}/renditions/{name}`: the report of a transcoder."""

    inputHash: InputHash
    attempt: Annotated[
        int,
        Field(strict=True, ge=1, le=1000, description="Attempt number from the job's message"),
        BeforeValidator(whole),
    ]
    state: Literal["running", "done", "failed"]
    progress: Annotated[int, Field(strict=True, ge=0, le=100), BeforeValidator(whole)] | None = Field(
        default=None, description="Percent, if running"
    )
    uri: S3Uri | None = Field(default=None, description="S3 URI of the rendition, if done")
    fileSize: Annotated[int, Field(strict=True, ge=1, le=MAX_SOURCE_BYTES), BeforeValidator(whole)] | None = Field(
        default=None, description="Size of the rendition in bytes, if done; players choose by it"
    )
    reason: Annotated[str, line(500)] | None = Field(default=None, description="Reason as a sentence, if failed")
    worker: Name | None = Field(
        default=None,
        description="Name of the worker; only the worker that first reported an attempt may report its progress",
    )
    retry: bool = Field(default=False, description="Whether another attempt may succeed, if failed")

    @model_validator(mode="after")
    def _fits_its_state(self) -> Self:
        needed = {"done": "uri", "failed": "reason"}.get(self.state)
        if needed and getattr(self, needed) is None:
            raise ValueError(f"must have `{needed}` if `state` is {self.state}")
        return self
