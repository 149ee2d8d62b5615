"""Checks of the fields that clients write: regular expressions with their error messages, and functions.

The checks do not convert JSON types: `"12"` is not a number, and `1` is not text. This module does not load pydantic,
which is slow to import.
"""

import re
from typing import Any

from pydantic_core import Url

from shared.core.limits import LARGEST_INTEGER
from shared.core.text import FOLDER, LINE, fits

TEXT = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*$"
UUID = r"^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"
NAME = r"^[A-Za-z0-9._-]{1,64}$"
SLUG = r"^[a-z0-9]+(-[a-z0-9]+)*$"
OBJECT = r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/[^\x00-\x1f\x22<>\\`\x7f-\x9f\u2028\u2029]+"
ADDRESS = r"https?://[a-z0-9.-]+(:[0-9]+)?([/?#]([A-Za-z0-9._~:/?#@!$&()*+,;=-]|%[0-9A-Fa-f]{2})*)?"
S3_URI = rf"^{OBJECT}$"
MEDIA_URL = rf"^({OBJECT}|{ADDRESS})$"
SOURCE_TYPE = r"^(video/[a-z0-9][a-z0-9.+-]{0,99}|application/(octet-stream|mp4|mxf|x-matroska))$"
HASH = r"^[0-9a-f]{32}$"
POINTER = r"^(/([^~/]|~[01])*)*$"
LANGUAGE = r"^[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*$"
FORMS = {
    LINE: "must be one line of non-blank text without control characters",
    FOLDER: "must be 1 to 10 names with single slashes between them, such as clients/acme, each with a character other than "
    "spaces and dots",
    TEXT: "must be text without control characters other than tab and line break",
    UUID: "must be a UUID such as 3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    SLUG: "must have lower-case letters and digits, with single hyphens between them",
    NAME: "must have 1 to 64 letters, digits, dots, hyphens or underscores",
    S3_URI: "must be the S3 URI of an object, such as s3://bucket/folder/1080p.mp4, without quotes, < and >",
    MEDIA_URL: "must be a URL such as https://example.com/poster.jpg, or the S3 URI of an object",
    SOURCE_TYPE: "must be a video type such as video/mp4, or application/octet-stream",
    HASH: "must be the 32 hexadecimal digits of the job's message",
    POINTER: "must be a JSON Pointer (RFC 6901) such as /title or /metadata/codec",
    LANGUAGE: "must be a BCP 47 tag such as en-NZ",
}
"""Error message for each pattern. shared/web/error_messages.py returns these messages to clients."""


def fitting(text: str, largest: int) -> str:
    """Return the text unchanged. Raises ValueError if it has more than `largest` bytes in UTF-8."""
    if not fits(text, largest):
        raise ValueError(f"must have at most {largest} bytes in UTF-8, not {len(text.encode()):,}")
    return text


def whole(value: Any) -> Any:
    """Return a float without a fraction as int, and any other value unchanged.

    JSON Schema accepts 1.0 as an integer, and DynamoDB returns 1 for a stored 1.0.
    """
    return int(value) if isinstance(value, float) and value.is_integer() else value


def normal(address: str) -> str:
    """Return a URL unchanged. Raises ValueError for an HTTP URL that a browser would write differently."""
    # If a browser would rewrite an address, parsers may disagree on its meaning (https://url.spec.whatwg.org/).
    if not address.startswith("s3://"):
        try:
            read_back = str(Url(address))
        except ValueError as error:
            raise ValueError(FORMS[MEDIA_URL]) from error
        if address not in (read_back, read_back.removesuffix("/")):
            raise ValueError(f"must be in the form of browsers, {read_back}")
    return address


def scalar(value: Any) -> Any:
    """Return the value of an entry of `metadata`. Converts a float without a fraction to int.

    Raises ValueError unless the value is a boolean, text of at most 512 characters, or a number within the limits.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if len(value) > 512:
            raise ValueError(f"must have at most 512 characters, not {len(value):,}")
        if not re.fullmatch(TEXT, value):
            raise ValueError(FORMS[TEXT])
        return value
    if isinstance(value, int | float):
        # This comparison also rejects NaN, and does not convert huge integers to float.
        if not -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
            raise ValueError(f"must be a number from -{LARGEST_INTEGER} to {LARGEST_INTEGER}")
        if 0 < abs(value) < 1e-100:
            raise ValueError("must be 0, or a number of at least 1e-100 in magnitude")
        return whole(value)
    raise ValueError("must be text, a number, true or false")


def nullable_scalar(value: Any) -> Any:
    """Return the result of `scalar`, or `None` for `None`."""
    return None if value is None else scalar(value)
