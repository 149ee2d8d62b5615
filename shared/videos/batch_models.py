"""Request models of the batch endpoints."""

from typing import Annotated, Any, Literal

from pydantic import Field

from shared.core.fields import VideoId, line
from shared.core.limits import LARGEST_BATCH
from shared.videos.models import NewVideo, VideoPatch
from shared.web.bodies import Content


class VideoIds(Content):
    """The body of `POST /v1/videos/batch-get`."""

    videoIds: Annotated[list[VideoId], Field(min_length=1, max_length=LARGEST_BATCH)]


class _Operation(Content):
    ifMatch: Annotated[str, line(200)] | None = Field(
        default=None, description='As the header If-Match: the video\'s ETag, or only its version such as `"3"`'
    )


class CreateOperation(Content):
    """Create a video, as `POST /v1/videos` does."""

    op: Literal["create"]
    video: NewVideo


class UpsertOperation(Content):
    """Create a video, or change your video that has this `externalId`.

    A change sets the fields that the operation contains, as a JSON Merge Patch does. The change ignores the fields that
    only admins can set in a new video.
    """

    op: Literal["upsert"]
    video: NewVideo


class PatchOperation(_Operation):
    """Change a video, as `PATCH /v1/videos/{videoId}` does."""

    op: Literal["patch"]
    videoId: VideoId
    patch: VideoPatch


class DeleteOperation(_Operation):
    """Delete a video, as `DELETE /v1/videos/{videoId}` does."""

    op: Literal["delete"]
    videoId: VideoId


class Batch(Content):
    """The body of `POST /v1/videos/batch`.

    Each operation is validated separately, so that an invalid operation does not prevent the other operations.
    """

    operations: Annotated[list[Any], Field(min_length=1, max_length=LARGEST_BATCH)]
