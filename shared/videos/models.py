"""What clients send about videos: every field with its limits, checked before DynamoDB is asked anything.

Fields that only the server writes are not here, so sending one is an error.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from shared.core.fields import (
    Bytes,
    Category,
    Codec,
    Description,
    Format,
    FrameRate,
    Language,
    MediaUrl,
    MetadataKey,
    Milliseconds,
    Name,
    NullableScalar,
    Pixels,
    Resolution,
    S3Uri,
    Scalar,
    Seconds,
    Title,
    UserId,
    VideoId,
    Visibility,
    Year,
    line,
    whole,
)
from shared.core.limits import LAST_EPISODE, LAST_SEASON, LONGEST_FOLDED_TAG
from shared.videos.tags import folded
from shared.web.bodies import Content

LiveStatus = Literal["uploaded", "processing", "ready", "failed"]


def _foldable(tag: str) -> str:
    # Some single characters stand for a whole sentence, and a key has a limit.
    if len(folded(tag).encode()) > LONGEST_FOLDED_TAG:
        raise ValueError("is too long once its characters are written out in full")
    return tag


def _unique(tags: list[str]) -> list[str]:
    if len({folded(tag) for tag in tags}) != len(tags):
        raise ValueError("tags must differ from each other by more than case, spaces and forms of the same letters")
    return tags


Tag = Annotated[
    str,
    line(64),
    AfterValidator(_foldable),
    Field(
        description=f"Of at most {LONGEST_FOLDED_TAG} bytes in UTF-8 once folded (NFKC and case); only a few "
        "characters, which stand for a whole sentence, exceed that"
    ),
]
Tags = Annotated[
    list[Tag],
    Field(
        max_length=30,
        description="A set: all different, in no order; spellings that differ only in case are the same tag",
        json_schema_extra={"uniqueItems": True},
    ),
    AfterValidator(_unique),
]


Season = Annotated[int, Field(strict=True, ge=0, le=LAST_SEASON), BeforeValidator(whole)]
Episode = Annotated[int, Field(strict=True, ge=0, le=LAST_EPISODE), BeforeValidator(whole)]


class Thumbnail(Content):
    """A picture of the video: where it is and how large."""

    url: MediaUrl
    width: Pixels | None = None
    height: Pixels | None = None
    fileSize: Bytes | None = None
    time: Milliseconds | None = Field(default=None, description="Milliseconds into the video")


class ThumbnailPatch(Content):
    """What changes about a picture; null removes."""

    url: MediaUrl = ""
    width: Pixels | None = None
    height: Pixels | None = None
    fileSize: Bytes | None = None
    time: Milliseconds | None = None


class VideoContent(Content):
    """The fields that clients write."""

    title: Title
    description: Description | None = None
    duration: Milliseconds | None = None
    fileSize: Bytes | None = None
    format: Format | None = None
    resolution: Resolution | None = None
    videoCodec: Codec | None = None
    audioCodec: Codec | None = None
    frameRate: FrameRate | None = None
    resolutions: dict[Name, S3Uri] = Field(
        default={}, max_length=20, description="Renditions by name: the S3 URI of each file"
    )
    tags: Tags | None = None
    category: Category | None = None
    releaseYear: Year | None = None
    language: Language | None = None
    seriesId: VideoId | None = Field(
        default=None, description="The videoId of the series that this is an episode of; only its owner's are listed"
    )
    season: Season | None = Field(default=None, description="Of the series; only with `seriesId`")
    episode: Episode | None = Field(default=None, description="In the season; only with `seriesId`")
    visibility: Visibility = "private"
    publishAt: Seconds | None = Field(
        default=None,
        description="Epoch seconds; before that, only the owner and admins see the video. Before `expiresAt`",
    )
    expiresAt: Seconds | None = Field(
        default=None,
        description="Epoch seconds; from then on, only the owner and admins see the video. In the future when it is set, and after `publishAt`",
    )
    metadata: dict[MetadataKey, Scalar] = Field(
        default={}, max_length=50, description="Keys of your own, with scalar values"
    )
    thumbnails: dict[Name, Thumbnail] = Field(default={}, max_length=20)

    @model_validator(mode="after")
    def _is_of_a_series(self) -> Self:
        if self.seriesId is None and (self.season is not None or self.episode is not None):
            raise ValueError("season and episode need the seriesId that they belong to")
        return self


class NewVideo(VideoContent):
    """The body of `POST /v1/videos`.

    `videoId`, `userId`, `createdAt` and `status` are taken from callers with `videos/admin` (imports,
    migrations); for all others the server sets them, whatever was sent.
    """

    videoId: VideoId | None = None
    userId: UserId | None = None
    createdAt: Seconds | None = None
    status: LiveStatus | None = None


class VideoPatch(Content):
    """The body of `PATCH /v1/videos/{videoId}`: a JSON Merge Patch (RFC 7396).

    A member replaces, null removes; objects are merged member by member, arrays are replaced.
    """

    title: Title = ""
    description: Description | None = None
    duration: Milliseconds | None = None
    fileSize: Bytes | None = None
    format: Format | None = None
    resolution: Resolution | None = None
    videoCodec: Codec | None = None
    audioCodec: Codec | None = None
    frameRate: FrameRate | None = None
    resolutions: dict[Name, S3Uri | None] | None = Field(default=None, max_length=40)
    tags: Tags | None = None
    category: Category | None = None
    releaseYear: Year | None = None
    language: Language | None = None
    seriesId: VideoId | None = None
    season: Season | None = None
    episode: Episode | None = None
    status: LiveStatus = "uploaded"
    visibility: Visibility = "private"
    publishAt: Seconds | None = None
    expiresAt: Seconds | None = None
    metadata: dict[MetadataKey, NullableScalar] | None = Field(default=None, max_length=100)
    thumbnails: dict[Name, ThumbnailPatch | None] | None = Field(default=None, max_length=40)
