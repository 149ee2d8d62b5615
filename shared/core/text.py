"""Definitions of a line of text and of a userId, for bodies, query parameters and tokens."""

import re

BREAKS = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
"""Ranges of control characters and line breaks, for use inside `[...]` of a regular expression."""
_SPACES = r"\x20\xa0\u1680\u2000-\u200b\u202f\u205f\u3000\ufeff"
LINE = rf"^[^{BREAKS}]*[^{BREAKS}{_SPACES}][^{BREAKS}]*$"
"""Pattern of one line: no control characters, and not only spaces."""
_FOLDER_NAME = rf"[^/{BREAKS}]*[^/.{BREAKS}{_SPACES}][^/{BREAKS}]*"
FOLDER = rf"^{_FOLDER_NAME}(/{_FOLDER_NAME}){{0,9}}$"
"""Pattern of the path of a folder: 1 to 10 names between slashes. Each name has at least one character that is neither
a space nor a dot."""

LONGEST_USER_ID, LARGEST_USER_ID = 255, 1000
"""Maximum number of characters of a userId, and maximum bytes of a userId in UTF-8. A userId is the subject of a token.

OpenID Connect Core 1.0, section 2, allows 255 ASCII characters. The byte limit results from DynamoDB's limit of 1,024
bytes for sort keys. In RelationIndex, a sort key consists of a number and an id, which may be a userId.
tests/unit/test_keys.py checks the limit for every key.
"""


def is_user_id(text: str) -> bool:
    """Return whether text is a valid userId: one line of at most LONGEST_USER_ID characters and LARGEST_USER_ID bytes."""
    return len(text) <= LONGEST_USER_ID and bool(re.fullmatch(LINE, text)) and fits(text, LARGEST_USER_ID)


def fits(text: str, largest: int) -> bool:
    """Return whether text has at most `largest` bytes in UTF-8. `False` for lone surrogates, which UTF-8 cannot encode."""
    try:
        return len(text.encode()) <= largest
    except UnicodeEncodeError:
        return False
