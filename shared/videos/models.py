"""What clients send: every field with its limits, checked before DynamoDB is asked anything.

The limits add up to less than the 400 KB that one item can hold, whatever the characters. JSON is read
strictly: `"12"` is no number and `1` is no text. Read-only fields are unknown here, so sending one is an error.
"""

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import ErrorDetails, Url

from shared.core.errors import InvalidContent, MalformedJson
from shared.core.limits import (
    LARGEST_FILM,
    LARGEST_INTEGER,
    LAST_SECOND,
    LAST_YEAR,
    LONGEST_FOLDED_TAG,
    MOST_PARTS,
)
from shared.core.text import LARGEST_USER_ID, LINE, LONGEST_USER_ID, fits
from shared.videos.tags import folded

MOST_ERRORS = 50
"""How many faults an answer names: a body can hold a hundred thousand, and Lambda answers with 6 MB at most."""
LONGEST_NAME = 200

LiveStatus = Literal["uploaded", "processing", "ready", "failed"]
Visibility = Literal["public", "private"]

_TEXT = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*$"
_UUID = r"^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"
_NAME = r"^[A-Za-z0-9._-]{1,64}$"
_OBJECT = r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/[^\x00-\x1f\x22<>\\`\x7f-\x9f\u2028\u2029]+"
_ADDRESS = r"https?://[a-z0-9.-]+(:[0-9]+)?([/?#]([A-Za-z0-9._~:/?#@!$&()*+,;=-]|%[0-9A-Fa-f]{2})*)?"
_S3_URI = rf"^{_OBJECT}$"
_MEDIA_URL = rf"^({_OBJECT}|{_ADDRESS})$"
_FILM_TYPE = r"^(video/[a-z0-9][a-z0-9.+-]{0,99}|application/(octet-stream|mp4|mxf|x-matroska))$"
_HASH = r"^[0-9a-f]{32}$"
_LANGUAGE = r"^[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*$"
_FORMS = {
    LINE: "must be one line of text, without control characters and not only spaces",
    _TEXT: "must be text without control characters other than tab and line break",
    _UUID: "must be a UUID such as 3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    _NAME: "must have 1 to 64 letters, digits, dots, hyphens or underscores",
    _S3_URI: "must be the S3 URI of an object, such as s3://bucket/folder/1080p.mp4, without quotes, < and >",
    _MEDIA_URL: "must be a URL such as https://example.com/poster.jpg, or the S3 URI of an object",
    _FILM_TYPE: "must be a video type such as video/mp4, or application/octet-stream",
    _HASH: "must have 32 hexadecimal digits, as in the job's message",
    _LANGUAGE: "must be a BCP 47 tag such as en-NZ",
}
"""What a pattern asks for, in words."""


def line(longest: int) -> StringConstraints:
    """One line of 1 to `longest` characters: no control characters, not only spaces."""
    return StringConstraints(min_length=1, max_length=longest, pattern=LINE)


def _fitting(largest: int) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not fits(text, largest):
            raise ValueError(f"must have at most {largest} bytes in UTF-8")
        return text

    return check


def whole(value: Any) -> Any:
    # JSON Schema counts 1.0 as an integer, and DynamoDB gives it back as 1.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _foldable(tag: str) -> str:
    # Some single characters stand for a whole sentence, and a key has a limit.
    if len(folded(tag).encode()) > LONGEST_FOLDED_TAG:
        raise ValueError("is too long once its characters are written out in full")
    return tag


def _normal(address: str) -> str:
    # As a browser reads it (https://url.spec.whatwg.org/): what it would change, others could read in another way.
    if not address.startswith("s3://"):
        try:
            read_back = str(Url(address))
        except ValueError as error:
            raise ValueError(_FORMS[_MEDIA_URL]) from error
        if address not in (read_back, read_back.removesuffix("/")):
            raise ValueError(f"must be written as browsers do, here as {read_back}")
    return address


def _unique(tags: list[str]) -> list[str]:
    if len({folded(tag) for tag in tags}) != len(tags):
        raise ValueError("tags must differ from each other by more than case, spaces and forms of the same letters")
    return tags


def _in_order(parts: list["UploadedPart"]) -> list["UploadedPart"]:
    if [part.partNumber for part in parts] != list(range(1, len(parts) + 1)):
        raise ValueError("parts must be numbered 1, 2, 3 and so on, without a gap")
    return parts


def _scalar(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if len(value) > 512:
            raise ValueError("text may have 512 characters at most")
        if not re.fullmatch(_TEXT, value):
            raise ValueError(_FORMS[_TEXT])
        return value
    if isinstance(value, int | float):
        # Written so that NaN fails it too, and no huge integer is made a float.
        if not -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
            raise ValueError(f"a number must lie between -{LARGEST_INTEGER} and {LARGEST_INTEGER}")
        if 0 < abs(value) < 1e-100:
            raise ValueError("a number other than 0 must be at least 1e-100 in size")
        return whole(value)
    raise ValueError("must be text, a number, true or false")


_SCALAR_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "maxLength": 512, "pattern": _TEXT},
        {"type": "boolean"},
        {"type": "number", "minimum": -LARGEST_INTEGER, "maximum": -1e-100},
        {"type": "number", "const": 0},
        {"type": "number", "minimum": 1e-100, "maximum": LARGEST_INTEGER},
    ]
}

VideoId = Annotated[
    str,
    StringConstraints(pattern=_UUID),
    AfterValidator(str.lower),
    Field(description="UUID (RFC 9562), any version", json_schema_extra={"format": "uuid"}),
]
UserId = Annotated[
    str,
    line(LONGEST_USER_ID),
    AfterValidator(_fitting(LARGEST_USER_ID)),
    Field(description=f"The subject of the user's tokens, of at most {LARGEST_USER_ID:,} bytes in UTF-8"),
]
Title = Annotated[str, line(300)]
Description = Annotated[str, StringConstraints(max_length=5000, pattern=_TEXT)]
Category = Annotated[str, line(100)]
Format = Annotated[str, line(64), Field(description="Container format, such as `mp4`")]
Resolution = Annotated[str, line(32), Field(description="Of the source, such as `1920x1080`")]
Codec = Annotated[str, line(32), Field(description="Such as `h264` or `aac`")]
FrameRate = Annotated[float, Field(strict=True, ge=0.001, le=1000, description="Frames per second")]
Language = Annotated[
    str,
    StringConstraints(max_length=35, pattern=_LANGUAGE),
    Field(description="BCP 47 tag, such as `en-NZ`"),
]
Seconds = Annotated[int, Field(strict=True, ge=0, le=LAST_SECOND, description="Epoch seconds"), BeforeValidator(whole)]
Milliseconds = Annotated[
    int, Field(strict=True, ge=0, le=LARGEST_INTEGER, description="Milliseconds"), BeforeValidator(whole)
]
Bytes = Annotated[int, Field(strict=True, ge=0, le=LARGEST_INTEGER, description="Bytes"), BeforeValidator(whole)]
Pixels = Annotated[int, Field(strict=True, ge=1, le=65_535), BeforeValidator(whole)]
Year = Annotated[
    int, Field(strict=True, ge=1, le=LAST_YEAR, description="Of the first release"), BeforeValidator(whole)
]
Tag = Annotated[
    str,
    line(64),
    AfterValidator(_foldable),
    Field(
        description=f"Of at most {LONGEST_FOLDED_TAG} bytes in UTF-8 once folded (NFKC and case), which only few "
        "characters that stand for a whole sentence exceed"
    ),
]
Tags = Annotated[
    list[Tag],
    Field(
        max_length=30,
        description="A set: all different, in no order; spellings that differ in case only are the same tag",
        json_schema_extra={"uniqueItems": True},
    ),
    AfterValidator(_unique),
]
Name = Annotated[str, StringConstraints(pattern=_NAME)]
S3Uri = Annotated[str, StringConstraints(max_length=1100, pattern=_S3_URI)]
MediaUrl = Annotated[
    str,
    StringConstraints(max_length=1100, pattern=_MEDIA_URL),
    AfterValidator(_normal),
    Field(
        description="`https://` as browsers write it, percent-encoded and without names of users, or `s3://`. `http://` is "
        "for a service whose own pictures are at such an address, on a laptop"
    ),
]
MetadataKey = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=LINE)]
Scalar = Annotated[Any, PlainValidator(_scalar), WithJsonSchema(_SCALAR_SCHEMA)]
NullableScalar = Annotated[
    Any,
    PlainValidator(lambda value: None if value is None else _scalar(value)),
    WithJsonSchema({"anyOf": [*_SCALAR_SCHEMA["anyOf"], {"type": "null"}]}),
]


class Content(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


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
        default={}, max_length=20, description="Rendition name to the S3 URI of its file"
    )
    tags: Tags | None = None
    category: Category | None = None
    releaseYear: Year | None = None
    language: Language | None = None
    visibility: Visibility = "private"
    publishAt: Seconds | None = Field(
        default=None, description="Epoch seconds; before it, only its owner and admins see it"
    )
    expiresAt: Seconds | None = Field(
        default=None, description="Epoch seconds; from it on, only its owner and admins see it"
    )
    metadata: dict[MetadataKey, Scalar] = Field(default={}, max_length=50, description="Free keys and scalar values")
    thumbnails: dict[Name, Thumbnail] = Field(default={}, max_length=20)


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
    status: LiveStatus = "uploaded"
    visibility: Visibility = "private"
    publishAt: Seconds | None = None
    expiresAt: Seconds | None = None
    metadata: dict[MetadataKey, NullableScalar] | None = Field(default=None, max_length=100)
    thumbnails: dict[Name, ThumbnailPatch | None] | None = Field(default=None, max_length=40)


class NoContent(Content):
    """The body of a POST that needs none: empty, or `{}`."""


class NewUpload(Content):
    """The body of `POST /v1/videos/{videoId}/upload`: what is going to be sent."""

    contentType: Annotated[str, StringConstraints(max_length=127, pattern=_FILM_TYPE)]
    fileSize: Annotated[
        int, Field(strict=True, ge=1, le=LARGEST_FILM, description="Bytes, exactly"), BeforeValidator(whole)
    ]


class UploadedPart(Content):
    """One part of a multipart upload, as S3 answered for it."""

    partNumber: Annotated[int, Field(strict=True, ge=1, le=MOST_PARTS), BeforeValidator(whole)]
    etag: Annotated[
        str,
        StringConstraints(min_length=1, max_length=200, pattern=LINE),
        Field(description="The part's `ETag` header"),
    ]


class CompleteUpload(Content):
    """The body of `POST /v1/videos/{videoId}/upload/{uploadId}/complete`: every part, in order."""

    parts: Annotated[
        list[UploadedPart],
        Field(min_length=1, max_length=MOST_PARTS, description="Numbered 1, 2, 3 and so on, without a gap"),
        AfterValidator(_in_order),
    ]


class ThumbnailChoice(Content):
    """The body of `POST /v1/videos/{videoId}/thumbnail`."""

    time: float = Field(strict=True, ge=0, le=LARGEST_INTEGER / 1000, description="Seconds into the film")


class RenditionReport(Content):
    """The body of `PUT /v1/videos/{videoId}/renditions/{name}`: what a transcoder has to say of its job."""

    inputHash: Annotated[str, StringConstraints(pattern=_HASH), Field(description="Of the job's message")]
    attempt: Annotated[
        int, Field(strict=True, ge=1, le=1000, description="Of the job's message"), BeforeValidator(whole)
    ]
    state: Literal["running", "done", "failed"]
    progress: Annotated[int, Field(strict=True, ge=0, le=100), BeforeValidator(whole)] | None = Field(
        default=None, description="Percent; when running"
    )
    uri: S3Uri | None = Field(default=None, description="Where the rendition is; when done")
    reason: Annotated[str, line(500)] | None = Field(default=None, description="One sentence; when failed")
    worker: Name | None = Field(
        default=None,
        description="Tells workers with one token apart: only the one that took an attempt reports progress",
    )
    retry: bool = Field(default=False, description="Whether another attempt may succeed; when failed")

    @model_validator(mode="after")
    def _fits_its_state(self) -> Self:
        needed = {"done": "uri", "failed": "reason"}.get(self.state)
        if needed and getattr(self, needed) is None:
            raise ValueError(f"a report of {self.state} needs {needed}")
        return self


Model = TypeVar("Model", bound=BaseModel)


def parse(model: type[Model], body: bytes) -> Model:
    """A body as a model; raises MalformedJson, or InvalidContent with a pointer for each field at fault."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise _problem(error) from error


def read(model: type[Model], content: Any) -> Model:
    """A part of a body that was read as JSON already; raises InvalidContent with pointers into that part."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise _problem(error) from error


def check_content(document: dict[str, Any]) -> None:
    """Whether a merged document keeps the limits as a whole; raises InvalidContent."""
    try:
        VideoContent.model_validate(document)
    except ValidationError as error:
        raise _problem(error) from error


def _problem(error: ValidationError) -> MalformedJson | InvalidContent:
    found = error.errors(include_url=False, include_input=False)
    if found[0]["type"] == "json_invalid":
        return MalformedJson(f"The body is not JSON: {found[0]['msg'].removeprefix('Invalid JSON: ')}.")
    errors = [{"pointer": pointer(each["loc"]), "detail": _explained(each)} for each in found[:MOST_ERRORS]]
    count = "1 field is" if len(found) == 1 else f"{len(found)} fields are"
    rest = f"; these are the first {MOST_ERRORS}" if len(found) > MOST_ERRORS else ""
    return InvalidContent(f"{count} not valid{rest}.", errors=errors)


def _explained(error: ErrorDetails) -> str:
    match error["type"]:
        case "extra_forbidden":
            return "This field is unknown, or only the server writes it."
        case "string_pattern_mismatch":
            return _FORMS.get(error["ctx"]["pattern"], error["msg"])
        case _:
            return error["msg"].removeprefix("Value error, ")


def pointer(location: tuple[int | str, ...]) -> str:
    """A JSON Pointer (RFC 6901) to a place in the body; pydantic's own mark for a key is left out.

    Names that are too long for any field are cut: they may be as large as the body.
    """
    parts = (str(part)[:LONGEST_NAME] for part in location if part != "[key]")
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)
