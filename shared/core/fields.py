"""Types of the fields that clients write, with their limits, and what each pattern asks for in words.

The limits of a video add up to less than the 400 KB that one item can hold, whatever the characters. JSON is read
strictly: `"12"` is not a number and `1` is not text.
"""

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, StringConstraints, WithJsonSchema
from pydantic_core import Url

from shared.core.limits import LARGEST_INTEGER, LAST_SECOND, LAST_YEAR, LONGEST_POINTER
from shared.core.text import LARGEST_USER_ID, LINE, LONGEST_USER_ID, fits

_TEXT = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*$"
_UUID = r"^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"
_NAME = r"^[A-Za-z0-9._-]{1,64}$"
_OBJECT = r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/[^\x00-\x1f\x22<>\\`\x7f-\x9f\u2028\u2029]+"
_ADDRESS = r"https?://[a-z0-9.-]+(:[0-9]+)?([/?#]([A-Za-z0-9._~:/?#@!$&()*+,;=-]|%[0-9A-Fa-f]{2})*)?"
_S3_URI = rf"^{_OBJECT}$"
_MEDIA_URL = rf"^({_OBJECT}|{_ADDRESS})$"
_FILM_TYPE = r"^(video/[a-z0-9][a-z0-9.+-]{0,99}|application/(octet-stream|mp4|mxf|x-matroska))$"
_HASH = r"^[0-9a-f]{32}$"
_POINTER = r"^(/([^~/]|~[01])*)*$"
_LANGUAGE = r"^[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*$"
FORMS = {
    LINE: "must be one line of text, without control characters, and not only spaces",
    _TEXT: "must be text without control characters other than tab and line break",
    _UUID: "must be a UUID such as 3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    _NAME: "must have 1 to 64 letters, digits, dots, hyphens or underscores",
    _S3_URI: "must be the S3 URI of an object, such as s3://bucket/folder/1080p.mp4, without quotes, < and >",
    _MEDIA_URL: "must be a URL such as https://example.com/poster.jpg, or the S3 URI of an object",
    _FILM_TYPE: "must be a video type such as video/mp4, or application/octet-stream",
    _HASH: "must be 32 hexadecimal digits, as in the job's message",
    _POINTER: "must be a JSON Pointer (RFC 6901) such as /title or /metadata/codec",
    _LANGUAGE: "must be a BCP 47 tag such as en-NZ",
}
"""What each pattern asks for, in words: the detail of the error (shared/web/bodies.py)."""


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
    """The value, as an integer if it is one: JSON Schema counts 1.0 as an integer, and DynamoDB returns it as 1."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _normal(address: str) -> str:
    # As a browser reads it (https://url.spec.whatwg.org/): what it would change, others could read in another way.
    if not address.startswith("s3://"):
        try:
            read_back = str(Url(address))
        except ValueError as error:
            raise ValueError(FORMS[_MEDIA_URL]) from error
        if address not in (read_back, read_back.removesuffix("/")):
            raise ValueError(f"must be written as browsers do, here as {read_back}")
    return address


def _scalar(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if len(value) > 512:
            raise ValueError("text must have at most 512 characters")
        if not re.fullmatch(_TEXT, value):
            raise ValueError(FORMS[_TEXT])
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

Visibility = Literal["public", "private"]
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
Format = Annotated[str, line(64)]
Resolution = Annotated[str, line(32)]
Codec = Annotated[str, line(32)]
FrameRate = Annotated[float, Field(strict=True, ge=0.001, le=1000)]
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
Year = Annotated[int, Field(strict=True, ge=1, le=LAST_YEAR), BeforeValidator(whole)]
FilmType = Annotated[str, StringConstraints(max_length=127, pattern=_FILM_TYPE)]
InputHash = Annotated[str, StringConstraints(pattern=_HASH), Field(description="Of the job's message")]
Name = Annotated[str, StringConstraints(pattern=_NAME)]
S3Uri = Annotated[str, StringConstraints(max_length=1100, pattern=_S3_URI)]
MediaUrl = Annotated[
    str,
    StringConstraints(max_length=1100, pattern=_MEDIA_URL),
    AfterValidator(_normal),
    Field(
        description="`https://` as browsers write it, percent-encoded and without user names, or `s3://`. `http://` is "
        "only for a service on a laptop, whose own pictures have such addresses"
    ),
]
Pointer = Annotated[
    str,
    StringConstraints(max_length=LONGEST_POINTER, pattern=_POINTER),
    Field(description="JSON Pointer (RFC 6901)", json_schema_extra={"format": "json-pointer"}),
]
MetadataKey = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=LINE)]
Scalar = Annotated[Any, PlainValidator(_scalar), WithJsonSchema(_SCALAR_SCHEMA)]
NullableScalar = Annotated[
    Any,
    PlainValidator(lambda value: None if value is None else _scalar(value)),
    WithJsonSchema({"anyOf": [*_SCALAR_SCHEMA["anyOf"], {"type": "null"}]}),
]
