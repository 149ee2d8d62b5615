"""Types of the fields that clients write, with their limits.

The limits guarantee that a video with every field at its limit fits into DynamoDB's 400 KB per item, even in multi-byte
characters.
"""

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, StringConstraints, WithJsonSchema

from shared.core.checks import (
    HASH,
    LANGUAGE,
    MEDIA_URL,
    NAME,
    POINTER,
    S3_URI,
    SLUG,
    SOURCE_TYPE,
    TEXT,
    UUID,
    fitting,
    normal,
    nullable_scalar,
    scalar,
    whole,
)
from shared.core.folders import LONGEST_PATH, MAX_LEVELS, folder_path
from shared.core.limits import LARGEST_INTEGER, LAST_SECOND, LAST_YEAR, LONGEST_POINTER
from shared.core.text import FOLDER, LARGEST_USER_ID, LINE, LONGEST_USER_ID
from shared.video_fields import LONGEST_UNIQUE


def line(longest: int) -> StringConstraints:
    """Return the constraints of one line of text: 1 to `longest` characters, no control characters, and not only spaces."""
    return StringConstraints(min_length=1, max_length=longest, pattern=LINE)


_SCALAR_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "maxLength": 512, "pattern": TEXT},
        {"type": "boolean"},
        {"type": "number", "minimum": -LARGEST_INTEGER, "maximum": -1e-100},
        {"type": "number", "const": 0},
        {"type": "number", "minimum": 1e-100, "maximum": LARGEST_INTEGER},
    ]
}

Visibility = Literal["public", "private"]
VideoId = Annotated[
    str,
    StringConstraints(pattern=UUID),
    AfterValidator(str.lower),
    Field(description="UUID (RFC 9562), any version", json_schema_extra={"format": "uuid"}),
]
UserId = Annotated[
    str,
    line(LONGEST_USER_ID),
    AfterValidator(partial(fitting, largest=LARGEST_USER_ID)),
    Field(description=f"Subject of the user's tokens, at most {LARGEST_USER_ID:,} bytes in UTF-8"),
]
ExternalId = Annotated[str, line(LONGEST_UNIQUE)]
Slug = Annotated[
    str,
    StringConstraints(max_length=100, pattern=SLUG),
    Field(description="Lower-case letters, digits and single hyphens between them"),
]
Title = Annotated[str, line(300)]
Description = Annotated[str, StringConstraints(max_length=5000, pattern=TEXT)]
Category = Annotated[str, line(100)]
Folder = Annotated[
    str,
    StringConstraints(min_length=1, max_length=LONGEST_PATH),
    AfterValidator(folder_path),
    Field(
        description=f"Names with slashes between them, such as `clients/acme/2026`: at most {MAX_LEVELS} levels and "
        f"{LONGEST_PATH} characters. Stored in Unicode form NFC, without spaces around the names",
        json_schema_extra={"pattern": FOLDER},
    ),
]
Format = Annotated[str, line(64)]
Resolution = Annotated[str, line(32)]
Codec = Annotated[str, line(32)]
FrameRate = Annotated[float, Field(strict=True, ge=0.001, le=1000)]
Language = Annotated[
    str,
    StringConstraints(max_length=35, pattern=LANGUAGE),
    Field(description="BCP 47 tag, such as `en-NZ`"),
]
Seconds = Annotated[int, Field(strict=True, ge=0, le=LAST_SECOND, description="Epoch seconds"), BeforeValidator(whole)]
Milliseconds = Annotated[
    int, Field(strict=True, ge=0, le=LARGEST_INTEGER, description="Milliseconds"), BeforeValidator(whole)
]
Bytes = Annotated[int, Field(strict=True, ge=0, le=LARGEST_INTEGER, description="Bytes"), BeforeValidator(whole)]
Pixels = Annotated[int, Field(strict=True, ge=1, le=65_535), BeforeValidator(whole)]
Year = Annotated[int, Field(strict=True, ge=1, le=LAST_YEAR), BeforeValidator(whole)]
SourceType = Annotated[str, StringConstraints(max_length=127, pattern=SOURCE_TYPE)]
InputHash = Annotated[str, StringConstraints(pattern=HASH), Field(description="`inputHash` of the job's message")]
Name = Annotated[str, StringConstraints(pattern=NAME)]
S3Uri = Annotated[str, StringConstraints(max_length=1100, pattern=S3_URI)]
MediaUrl = Annotated[
    str,
    StringConstraints(max_length=1100, pattern=MEDIA_URL),
    AfterValidator(normal),
    Field(
        description="`https://` or `s3://` URL, in the form of browsers: percent-encoded, without user name. `http://` only in "
        "local development"
    ),
]
Pointer = Annotated[
    str,
    StringConstraints(max_length=LONGEST_POINTER, pattern=POINTER),
    Field(description="JSON Pointer (RFC 6901)", json_schema_extra={"format": "json-pointer"}),
]
MetadataKey = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=LINE)]
Scalar = Annotated[Any, PlainValidator(scalar), WithJsonSchema(_SCALAR_SCHEMA)]
NullableScalar = Annotated[
    Any,
    PlainValidator(nullable_scalar),
    WithJsonSchema({"anyOf": [*_SCALAR_SCHEMA["anyOf"], {"type": "null"}]}),
]
