"""Request models of videos: the fields of shared/video_fields.py, validated before any request to DynamoDB.

The models reject a request with a field that only the server writes.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from shared.core.checks import whole
from shared.core.fields import *  # noqa: F403  (shared/video_fields.py names its types in text)
from shared.core.fields import Bytes, MediaUrl, Milliseconds, Pixels, line
from shared.core.limits import LAST_EPISODE, LAST_SEASON, LONGEST_FOLDED_TAG
from shared.video_fields import SENT, VideoField
from shared.videos.checks import foldable, of_series, unique
from shared.web.bodies import Content, merging

LiveStatus = Literal["uploaded", "processing", "ready", "failed"]


Tag = Annotated[
    str,
    line(64),
    AfterValidator(foldable),
    Field(
        description=f"At most {LONGEST_FOLDED_TAG} bytes in UTF-8 after normalisation (NFKC) and case folding, which only a "
        "few characters with long expansions exceed"
    ),
]
Tags = Annotated[
    list[Tag],
    Field(
        max_length=30,
        json_schema_extra={"uniqueItems": True},
    ),
    AfterValidator(unique),
]


Season = Annotated[int, Field(strict=True, ge=0, le=LAST_SEASON), BeforeValidator(whole)]
Episode = Annotated[int, Field(strict=True, ge=0, le=LAST_EPISODE), BeforeValidator(whole)]


class Thumbnail(Content):
    """A thumbnail of the video: URL and dimensions."""

    url: MediaUrl
    width: Pixels | None = None
    height: Pixels | None = None
    fileSize: Bytes | None = None
    time: Milliseconds | None = Field(default=None, description="Milliseconds from the start of the video")


class ThumbnailPatch(Content):
    """Changes to a thumbnail; null removes a member."""

    __annotations__ = merging(Thumbnail)


def _new(field: VideoField) -> Any:
    """Return the type annotation of a field in the model of a new video."""
    default = {} if field.is_map else field.default
    annotation = f"{field.type} | None" if default is None else field.type
    return Annotated[annotation, Field(default, max_length=field.most, description=field.description)]


def _patched(field: VideoField) -> Any:
    """Return the type annotation of a field in the model of a merge patch."""
    annotation = field.patch_type or field.type
    if field.patch == "remove":
        annotation += " | None"
    most = 2 * field.most if field.most else None  # a patch may remove all entries and add as many
    return Annotated[annotation, Field(None, max_length=most, description=field.description)]


class VideoContent(Content):
    """Fields of a video that clients write."""

    __annotations__ = {field.name: _new(field) for field in SENT if field.create == "client"}

    _is_of_a_series = model_validator(mode="after")(of_series)


class NewVideo(VideoContent):
    """The body of `POST /v1/videos`.

    Callers with `videos/admin`, such as imports and migrations, may set `videoId`, `userId`, `createdAt` and `status`.
    The server ignores these fields from other callers and sets them itself.
    """

    __annotations__ = {field.name: _new(field) for field in SENT if field.create == "admin"}


class VideoPatch(Content):
    """The body of `PATCH /v1/videos/{videoId}`: a JSON Merge Patch (RFC 7396).

    A member replaces a field, and null removes it. Objects are merged member by member; arrays are replaced.
    """

    __annotations__ = {field.name: _patched(field) for field in SENT if field.patch}
